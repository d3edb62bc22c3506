# CUDA: optional. MEZZO_CUDA=AUTO builds the CUDA part where the toolkit (13 or newer), cuDNN 9 and
# cuDNN's frontend are found, ON insists, OFF leaves it out. Sets MEZZO_WITH_CUDA (nvcc compiles
# libmezzo_cuda.so) and MEZZO_WITH_CUDA_HEADERS (tests/cuda_on_cpu can be built).

set(MEZZO_CUDA AUTO CACHE STRING "Build the CUDA part: AUTO, ON or OFF")
set_property(CACHE MEZZO_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MEZZO_CUDA_ARCHITECTURES auto CACHE STRING
    "Compute capabilities to compile for, as in CMAKE_CUDA_ARCHITECTURES; all: those of a release;
     auto: this machine's card, or 80 with code for later ones where there is none")
set(MEZZO_WITH_CUDA OFF)
set(MEZZO_WITH_CUDA_HEADERS OFF)

# mezzo_cuda_missing(<what>): AUTO goes on without CUDA, ON stops here.
function(mezzo_cuda_missing what)
  if(MEZZO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MEZZO_CUDA=ON, but ${what}")
  endif()
  message(STATUS "CUDA part: not built, ${what}")
endfunction()

if(MEZZO_CUDA STREQUAL "OFF")
  return()
endif()
include(CheckLanguage)
find_package(CUDAToolkit 13.0 QUIET)
if(NOT CUDAToolkit_FOUND)
  mezzo_cuda_missing("no CUDA toolkit 13 was found")
  return()
endif()
find_path(MEZZO_CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(MEZZO_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NOT MEZZO_CUDNN_INCLUDE_DIR OR NOT MEZZO_CUDNN_LIBRARY)
  mezzo_cuda_missing("cuDNN 9 was not found (MEZZO_CUDNN_INCLUDE_DIR, MEZZO_CUDNN_LIBRARY)")
  return()
endif()
mezzo_optional_prefix(cudnn-frontend MEZZO_CUDNN_FRONTEND)
if(NOT MEZZO_CUDNN_FRONTEND)
  mezzo_cuda_missing("cuDNN's frontend is not in ${MEZZO_CACHE}: run tools/setup")
  return()
endif()

# Headers of the libraries; SYSTEM, as they do not keep to our warnings.
add_library(mezzo_cuda_headers INTERFACE)
target_include_directories(mezzo_cuda_headers SYSTEM INTERFACE
                           ${CUDAToolkit_INCLUDE_DIRS} ${MEZZO_CUDNN_INCLUDE_DIR}
                           ${MEZZO_CUDNN_FRONTEND}/include)
# JSON and NVRTC would come with the frontend's headers otherwise.
target_compile_definitions(mezzo_cuda_headers INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
set(MEZZO_WITH_CUDA_HEADERS ON)

# The calls that runtime/cuda/counted_calls.cpp counts, for whatever links that file.
add_library(mezzo_cuda_counted_calls INTERFACE)
foreach(call cudaLaunchKernel cudaGraphLaunch cublasLtMatmul cudnnBackendExecute cudaMemcpyAsync
             cudaMemsetAsync cudaMemset cudaMemcpy cudaStreamSynchronize cudaEventSynchronize
             cudaDeviceSynchronize cudaFree cudaFreeHost)
  target_link_options(mezzo_cuda_counted_calls INTERFACE LINKER:--wrap=${call})
endforeach()

if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
check_language(CUDA)
if(MEZZO_SANITIZE)
  message(STATUS "CUDA part: not built with sanitizers; tests/cuda_on_cpu is")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  mezzo_cuda_missing("there is no nvcc")
  return()
endif()
set(architectures ${MEZZO_CUDA_ARCHITECTURES})
if(architectures STREQUAL "all")
  set(architectures 75-real 80-real 86-real 89-real 90-real 100-real 120)
elseif(architectures STREQUAL "auto")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE architectures ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" architectures "${architectures}")
  list(REMOVE_DUPLICATES architectures)
  list(TRANSFORM architectures REPLACE "\\." "")
  if(failed OR NOT architectures)
    set(architectures 80)
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${architectures})
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that this nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
add_library(mezzo_cuda_libraries INTERFACE)
target_link_libraries(mezzo_cuda_libraries INTERFACE mezzo_cuda_headers CUDA::cudart
                      CUDA::cublasLt ${MEZZO_CUDNN_LIBRARY})
set(MEZZO_WITH_CUDA ON)
message(STATUS "CUDA part: CUDA ${CUDAToolkit_VERSION}, for ${architectures}")
