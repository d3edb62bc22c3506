// Runs a graph node by node with lower() and the reference kernels in double, whatever floating
// types the graph names. For tests: slow, and it keeps every value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "kernels/kernel.h"

namespace mezzo::test {

// A tensor in memory, zero at first. Floating types are float64 here.
struct Buffer {
  struct alignas(64) Block {
    std::byte bytes[64] = {};
  };
  kernels::TensorDesc desc;
  std::vector<Block> storage;  // desc.bytes() of it are used

  static Buffer of(DType dtype, std::vector<std::int64_t> dims);
  static Buffer doubles(std::vector<std::int64_t> dims, const std::vector<double>& values);
  static Buffer ints(DType dtype, std::vector<std::int64_t> dims,
                     const std::vector<std::int64_t>& values);

  void* data() { return storage.data(); }
  const void* data() const { return storage.data(); }
  // REQUIRES: desc.dtype is float64.
  double* values() { return static_cast<double*>(data()); }
  const double* values() const { return static_cast<const double*>(data()); }
  std::vector<double> to_doubles() const;
};

using Environment = std::unordered_map<const Value*, Buffer>;

// Computes every value of `graph` from the graph inputs in `environment`.
Status interpret(const Graph& graph, Environment& environment);

// The kernel request of a node for float64, and whether it is an alias.
StatusOr<kernels::KernelRequest> request_for(const Node& node);

}  // namespace mezzo::test
