// For the stand-ins of other libraries (cuBLASLt, cuDNN): how their work gets into a stream of the
// stand-in for libcudart, be it run at once, later, or as a node of a graph, many times.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <utility>

namespace cuda_on_cpu {

extern "C" {
// run(closure) is called when the stream comes to it, and once more at each launch of a graph that
// it was recorded in; destroy(closure) after the last time. `what` names it in messages and lives
// for ever.
cudaError_t cuda_on_cpu_enqueue(cudaStream_t stream, const char* what, void (*run)(void*),
                                void* closure, void (*destroy)(void*));

// Counts a call of the library's function `name`: true if it is to fail, as control.h says.
bool cuda_on_cpu_fails(const char* name);

// True if all of [at, at + bytes) lies in one block of the device's memory.
bool cuda_on_cpu_is_device_memory(const void* at, std::size_t bytes);

// For calls in which a library allocates, or loads code, on the device: true if some stream is
// being recorded, which such a call breaks.
bool cuda_on_cpu_breaks_capture();
}

// The same with a function object, which must own what it needs: callers' arguments are gone when
// it runs. Pointers to device memory are read when it runs, not before.
template <typename Function>
cudaError_t enqueue(cudaStream_t stream, const char* what, Function function) {
  auto* const closure = new Function(std::move(function));
  return cuda_on_cpu_enqueue(
      stream, what, [](void* at) { (*static_cast<Function*>(at))(); }, closure,
      [](void* at) { delete static_cast<Function*>(at); });
}

}  // namespace cuda_on_cpu
