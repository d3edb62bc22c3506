// What the rows of one GPU share: its properties, the libraries' handles and their caches.
// KernelRequest::device points to one; it outlives every kernel prepared with it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace mezzo::kernels::cuda {

struct Context {
  int device = 0;    // number for cudaSetDevice
  std::string name;  // "NVIDIA H200"
  int multiprocessors = 1;
  int major = 0, minor = 0;  // compute capability
  bool allow_tf32 = false;   // float32 contractions may round their operands to 10 bits
  std::string cache_folder;  // where choices of algorithms are kept; empty: nowhere
  // Algorithms that are timed on the device when a contraction is prepared, of those that the
  // library names; 1: its first is taken untried.
  int timed_candidates = 1;

  // State of the library rows, made by the first that needs it, in its own file.
  std::shared_ptr<void> blaslt, dnn;
};

}  // namespace mezzo::kernels::cuda
