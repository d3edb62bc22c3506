# Finds the third-party libraries: Debian's through their CMake files, the pinned ones in the cache
# folder that tools/setup fills.

if(DEFINED ENV{MEZZO_CACHE})
  set(MEZZO_CACHE $ENV{MEZZO_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(MEZZO_CACHE $ENV{XDG_CACHE_HOME}/mezzo)
else()
  set(MEZZO_CACHE $ENV{HOME}/.cache/mezzo)
endif()

# mezzo_optional_prefix(<name> <variable>): the folder of a pinned library, named as tools/setup
# names it; nothing where it is not.
function(mezzo_optional_prefix name variable)
  set(pins ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/pins.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pins})
  file(STRINGS ${pins} lines REGEX "^${name} ")
  list(GET lines 0 first)
  string(REPLACE " " ";" first "${first}")
  list(GET first 2 version)
  list(JOIN lines "\n" text)
  string(SHA256 hash "${text}\n")
  string(SUBSTRING ${hash} 0 8 hash)
  set(dir ${MEZZO_CACHE}/${name}-${version}-${hash})
  if(NOT IS_DIRECTORY ${dir})
    set(dir)
  endif()
  set(${variable} "${dir}" PARENT_SCOPE)
endfunction()

# mezzo_prefix(<name> <variable>): the same for a library that must be there.
function(mezzo_prefix name variable)
  mezzo_optional_prefix(${name} dir)
  if(NOT dir)
    message(FATAL_ERROR "${name} is not in ${MEZZO_CACHE}: run tools/setup, which builds it there "
                        "(MEZZO_CACHE names another folder)")
  endif()
  set(${variable} ${dir} PARENT_SCOPE)
endfunction()

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Protobuf 3.21 REQUIRED)  # before ONNX, whose CMake files name its target
find_package(nlohmann_json 3.11 REQUIRED CONFIG)
find_package(fmt 9 REQUIRED CONFIG)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED CONFIG)
find_package(Boost 1.74 REQUIRED)     # headers only: Boost.Graph's max-flow

# Exactly these, whatever else is installed (Debian's own libonnx-dev is too old) or was found by
# an earlier configuration.
mezzo_prefix(onnx onnx_prefix)
set(ONNX_DIR ${onnx_prefix}/lib/cmake/ONNX CACHE PATH "The pinned ONNX" FORCE)
find_package(ONNX REQUIRED CONFIG)
mezzo_prefix(onednn onednn_prefix)
set(dnnl_DIR ${onednn_prefix}/lib/cmake/dnnl CACHE PATH "The pinned oneDNN" FORCE)
find_package(dnnl 3.2 REQUIRED CONFIG)

# mezzo_find_library(<target> <library> <header>): for libraries without (working) CMake files.
function(mezzo_find_library target library header)
  find_library(${library}_LIBRARY ${library} REQUIRED)
  find_path(${library}_INCLUDE_DIR ${header} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${library}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${${library}_INCLUDE_DIR})
endfunction()
mezzo_find_library(mezzo::xxhash xxhash xxhash.h)

# Of FlatBuffers the compiler and the headers: Debian's CMake files want its library, too.
find_program(MEZZO_FLATC flatc REQUIRED)
find_path(MEZZO_FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)

if(MEZZO_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED CONFIG)
  find_package(rapidcheck REQUIRED CONFIG)
endif()
if(MEZZO_BUILD_BENCHMARKS)
  find_package(benchmark 1.7 REQUIRED CONFIG)
endif()
