// The stand-in for libcudnn: its backend descriptors, which graphs it takes, and what they compute,
// on the host.
//
// It knows the operations that kernels/cuda/dnn_graph.cpp asks for, and takes graphs of them where
// cuDNN 9.19 said it would on a GPU of compute capability 9.0 (dnn_library_test asks the real
// library, which needs no GPU for that); it refuses everything else, even what the library might
// take. What it computes shows nothing of the library's own rounding.
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cudnn_on_cpu {

using Dims = std::vector<std::int64_t>;

struct Tensor {
  std::int64_t id = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Dims dims, strides;
  std::int64_t alignment = 1;
  bool is_virtual = false;   // has no buffer
  bool is_by_value = false;  // its buffer is one element on the host

  std::int64_t elems() const;
  std::int64_t extent() const;  // elements from the first to behind the last
  std::size_t element_bytes() const;
};

// Operands and results in the order of the lists in operations.cpp; those left out have no dims.
struct Operation {
  cudnnBackendDescriptorType_t kind{};
  std::vector<Tensor> in, out;
  Dims pads_begin, pads_end, strides, dilations;  // of convolutions
  cudnnPointwiseMode_t mode{};
  std::int64_t axis = -1;  // of CUDNN_POINTWISE_GEN_INDEX
  cudnnReduceTensorOp_t reduction{};
  cudnnBackendNormMode_t norm{};
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;

  bool is_convolution() const;
};

struct Graph {
  std::vector<Operation> operations;
};

// All that a backend descriptor holds.
struct Descriptor;
using DescriptorPtr = std::shared_ptr<Descriptor>;
struct Attribute {
  cudnnBackendAttributeType_t type{};
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<DescriptorPtr> children;  // of type CUDNN_TYPE_BACKEND_DESCRIPTOR
};
struct Descriptor {
  cudnnBackendDescriptorType_t kind{};
  bool is_finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  // What was set, `fallback` and nothing where it was not.
  template <typename T>
  T value(cudnnBackendAttributeName_t name, T fallback = {}) const;
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const;
  const Descriptor* child(cudnnBackendAttributeName_t name) const;  // null where it was not
};

// Reads a finalized descriptor of an operation. False, with the reason, where it makes no sense.
bool read_operation(const Descriptor& descriptor, Operation& operation, std::string& why);
bool read_graph(const Descriptor& descriptor, Graph& graph, std::string& why);

// True if an engine of the stand-in takes the graph.
bool is_supported(const Graph& graph, std::string& why);

// How an engine computes. The stand-in offers, best first, one that the caller should not want.
enum class Engine : std::int64_t {
  kUnordered = 0,  // as atomic additions: other bits in every run
  kTf32 = 1,       // float32 operands of contractions are rounded to 10 bits
  kExact = 2,
  kTensorCores = 3,  // for 16-bit operands: exact as well
};
std::vector<Engine> engines_for(const Graph& graph);
std::vector<cudnnBackendNumericalNote_t> notes_of(Engine engine);

// Elements in the order of their dims, without gaps.
using Values = std::vector<float>;
Values load(const Tensor& tensor, const void* buffer);
void store(const Tensor& tensor, const Values& values, void* buffer);
// Rounded as an element of `type` would be.
float rounded(float value, cudnnDataType_t type);

// One operation: its results from its operands, in float32.
void convolve(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out);
void compute_pointwise(const Operation& operation, const std::vector<Values>& in,
                       std::vector<Values>& out);
void reduce(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out);
void multiply(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out);
void normalize(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out);
void normalize_grad(const Operation& operation, const std::vector<Values>& in,
                    std::vector<Values>& out);

// Runs the graph. `buffers`: by id, for tensors that are neither virtual nor by value; `scalars`:
// those by value.
void run(const Graph& graph, Engine engine, const std::map<std::int64_t, void*>& buffers,
         const std::map<std::int64_t, Values>& scalars);

// What the calling thread's last call was refused for.
void set_last_error(std::string message);

template <typename T>
std::vector<T> Descriptor::values(cudnnBackendAttributeName_t name) const {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  const auto* first = reinterpret_cast<const T*>(found->second.bytes.data());
  return {first, first + found->second.bytes.size() / sizeof(T)};
}

template <typename T>
T Descriptor::value(cudnnBackendAttributeName_t name, T fallback) const {
  const std::vector<T> all = values<T>(name);
  return all.empty() ? fallback : all.front();
}

}  // namespace cudnn_on_cpu
