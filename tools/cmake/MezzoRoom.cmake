# Functions that define the rooms, their tests and benchmarks.
#
# Includes are written from the repository root ("compiler/ir/graph.h"), yet the root itself is on
# no include path. Each room's target carries a folder of its own, rooms/<target> in the build
# tree, holding one link under the room's path. A target therefore finds the headers of the rooms
# it links, and no others: an include that the room plan does not allow fails to compile.

add_library(mezzo_warnings INTERFACE)
target_compile_options(mezzo_warnings INTERFACE
                       $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>
                       $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>
                       # GCC's manual: sanitizers make this warning cry wolf.
                       $<$<AND:$<BOOL:${MEZZO_SANITIZE}>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>
                       # Clang warns of loops that its instrumentation keeps from being vectorised,
                       # and of `&` between comparisons, which kernels use to have no branch.
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed;-Wno-bitwise-instead-of-logical>)

# mezzo_stage(<target> <path>): makes <path> of the source tree (a folder, or single files) visible
# to <target> and to those that link it.
function(mezzo_stage target scope)
  set(root ${CMAKE_BINARY_DIR}/rooms/${target})
  foreach(path IN LISTS ARGN)
    cmake_path(GET path PARENT_PATH parent)
    # What an earlier configuration linked as a whole would lead into the source tree.
    set(above ${parent})
    while(above)
      if(IS_SYMLINK ${root}/${above})
        file(REMOVE ${root}/${above})
      endif()
      cmake_path(GET above PARENT_PATH above)
    endwhile()
    file(MAKE_DIRECTORY ${root}/${parent})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${path} ${root}/${path} SYMBOLIC)
  endforeach()
  target_include_directories(${target} ${scope} ${root})
endfunction()

# mezzo_room(<target> DIR <path> [SOURCES <files>] [HEADERS <files>]
#            [PUBLIC <targets>] [PRIVATE <targets>])
# A static library of every .cpp below DIR, or of SOURCES; without any source an interface library.
# HEADERS limits what others see to these files (paths from the root); by default all of DIR.
function(mezzo_room target)
  cmake_parse_arguments(ROOM "" "DIR" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if("SOURCES" IN_LIST ARGN)
    set(sources ${ROOM_SOURCES})
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ROOM_DIR}/*.cpp)
  endif()
  if(NOT ROOM_HEADERS)
    set(ROOM_HEADERS ${ROOM_DIR})
  endif()
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC ${ROOM_PUBLIC}
                          PRIVATE ${ROOM_PRIVATE} $<BUILD_INTERFACE:mezzo_warnings>)
    mezzo_stage(${target} PUBLIC ${ROOM_HEADERS})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ROOM_PUBLIC})
    mezzo_stage(${target} INTERFACE ${ROOM_HEADERS})
  endif()
endfunction()

# mezzo_test(<name> SOURCES <files> LIBS <targets> [LABELS <labels>] [TIMEOUT <seconds>])
# A GoogleTest program (main included). Every case is a CTest test called <room>/<name>.<case>,
# labelled with the room (the folder under tests/), and runs in the source folder of the test.
# Label a long-running test `slow`: the sanitizer run leaves it out.
function(mezzo_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/tests
             OUTPUT_VARIABLE room)
  string(REGEX REPLACE "/.*" "" room "${room}")
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} mezzo_test_support mezzo_warnings
                        GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} TEST_PREFIX "${room}/" DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
                       PROPERTIES LABELS "${room};${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT})
endfunction()

# mezzo_bench(<name> SOURCES <files> LIBS <targets>): a Google Benchmark program, when asked for.
function(mezzo_bench name)
  if(MEZZO_BUILD_BENCHMARKS)
    cmake_parse_arguments(BENCH "" "" "SOURCES;LIBS" ${ARGN})
    add_executable(${name} ${BENCH_SOURCES})
    target_link_libraries(${name} PRIVATE ${BENCH_LIBS} mezzo_warnings benchmark::benchmark_main)
  endif()
endfunction()
