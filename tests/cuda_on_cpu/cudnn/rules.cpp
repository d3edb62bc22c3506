// Which graphs are taken, and by which engines. The rules repeat what cuDNN 9.19 answered for
// compute capability 9.0 about the requests of kernels/cuda/dnn_*.cpp.
#include <algorithm>
#include <set>

#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

enum class Order { kNone, kChannelsFirst, kChannelsLast, kBoth };

// The order of a tensor without gaps.
Order order_of(const Tensor& tensor) {
  const std::size_t rank = tensor.dims.size();
  std::vector<std::size_t> first(rank);
  for (std::size_t i = 0; i < rank; ++i) first[i] = i;
  std::vector<std::size_t> last = first;
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  const auto fits = [&](const std::vector<std::size_t>& order) {
    std::int64_t stride = 1;
    for (std::size_t i = rank; i-- > 0;) {
      if (tensor.dims[order[i]] != 1 && tensor.strides[order[i]] != stride) return false;
      stride *= tensor.dims[order[i]];
    }
    return true;
  };
  const bool is_first = fits(first);
  const bool is_last = fits(last);
  return is_first && is_last ? Order::kBoth
         : is_first          ? Order::kChannelsFirst
         : is_last           ? Order::kChannelsLast
                             : Order::kNone;
}

bool is_low(cudnnDataType_t type) { return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16; }
bool is_float(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT || is_low(type); }

// x, w and y of a convolution, whichever of them is the result.
struct Roles {
  const Tensor *x, *w, *y;
};
Roles roles_of(const Operation& operation) {
  switch (operation.kind) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {&operation.in[0], &operation.in[1], &operation.out[0]};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {&operation.out[0], &operation.in[1], &operation.in[0]};
    default: return {&operation.in[1], &operation.out[0], &operation.in[0]};
  }
}

bool has_sound_window(const Operation& operation, std::string& why) {
  const auto [x, w, y] = roles_of(operation);
  const std::size_t rank = x->dims.size();
  why = "a convolution with other than 2 or 3 spatial dimensions, or of several ranks";
  if (rank < 4 || rank > 5 || w->dims.size() != rank || y->dims.size() != rank) return false;
  const std::size_t spatial = rank - 2;
  if (operation.strides.size() != spatial || operation.dilations.size() != spatial ||
      operation.pads_begin.size() != spatial || operation.pads_end.size() != spatial) {
    return false;
  }
  why = "channels that do not fit";
  if (x->dims[0] != y->dims[0] || w->dims[0] != y->dims[1] || w->dims[1] < 1 ||
      x->dims[1] % w->dims[1] != 0 || y->dims[1] % (x->dims[1] / w->dims[1]) != 0) {
    return false;
  }
  why = "sizes that the window does not give";
  for (std::size_t i = 0; i < spatial; ++i) {
    if (operation.pads_begin[i] < 0 || operation.pads_end[i] < 0 || operation.strides[i] < 1 ||
        operation.dilations[i] < 1) {
      return false;
    }
    const std::int64_t extent = (w->dims[i + 2] - 1) * operation.dilations[i] + 1;
    const std::int64_t room =
        x->dims[i + 2] + operation.pads_begin[i] + operation.pads_end[i] - extent;
    if (room < 0 || room / operation.strides[i] + 1 != y->dims[i + 2]) return false;
  }
  why.clear();
  return true;
}

// All tensors of a graph in one order.
Order common_order(const Graph& graph) {
  Order common = Order::kBoth;
  for (const Operation& operation : graph.operations) {
    for (const auto* tensors : {&operation.in, &operation.out}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.dims.empty()) continue;
        const Order order = order_of(tensor);
        if (order == Order::kBoth || order == common) continue;
        if (common != Order::kBoth) return Order::kNone;
        common = order;
      }
    }
  }
  return common;
}

// What follows the convolution: ADD of a bias and IDENTITY, each of the result before it.
bool is_chain(const Graph& graph, std::string& why) {
  why = "operations behind a convolution other than a bias and a cast";
  for (std::size_t i = 1; i < graph.operations.size(); ++i) {
    const Operation& operation = graph.operations[i];
    const Tensor& before = graph.operations[i - 1].out[0];
    if (operation.kind != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
        (operation.mode != CUDNN_POINTWISE_ADD && operation.mode != CUDNN_POINTWISE_IDENTITY)) {
      return false;
    }
    if (!before.is_virtual || operation.in[0].id != before.id ||
        operation.in[0].dims != operation.out[0].dims) {
      return false;
    }
  }
  why = "a result without a buffer";
  return !graph.operations.back().out[0].is_virtual;
}

bool is_taken_fused(const Graph& graph, Order order, std::string& why) {
  const Operation& first = graph.operations.front();
  const auto [x, w, y] = roles_of(first);
  const bool forward = first.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool channels_last = order == Order::kChannelsLast || order == Order::kBoth;
  if (is_low(first.in[0].type)) {
    why = "16-bit operands with a bias or a cast that do not lie channels last";
    if (!channels_last) return false;
    why = "a gradient with a cast of grouped or an odd number of channels";
    if (!forward && (w->dims[1] != x->dims[1] || x->dims[1] % 2 != 0 || y->dims[1] % 2 != 0)) {
      return false;
    }
  } else {
    why = "a float32 gradient with a bias that does not lie channels last, or of 3 dimensions";
    if (!forward && (!channels_last || x->dims.size() != 4)) return false;
    why = "float32 operands with another result";
    if (graph.operations.back().out[0].type != CUDNN_DATA_FLOAT) return false;
  }
  why.clear();
  return true;
}

bool is_convolution_taken(const Graph& graph, std::string& why) {
  const Operation& first = graph.operations.front();
  if (!has_sound_window(first, why)) return false;
  why = "operands of a convolution that are not of one floating type";
  const cudnnDataType_t type = first.in[0].type;
  if (!is_float(type) || first.in[1].type != type) return false;
  why = "sums of a convolution in other than float32";
  if (first.compute != CUDNN_DATA_FLOAT) return false;
  const Order order = common_order(graph);
  why = "tensors of a convolution in several orders, or with gaps";
  if (order == Order::kNone) return false;
  if (graph.operations.size() > 1) return is_chain(graph, why) && is_taken_fused(graph, order, why);
  why = "a result of a convolution of another type than its operands";
  return first.out[0].type == type && !first.out[0].is_virtual;
}

bool is_norm_taken(const Graph& graph, std::string& why) {
  const Operation& norm = graph.operations.front();
  why = "a normalisation among other operations";
  if (graph.operations.size() != 1) return false;
  const bool forward = norm.kind == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
  const Tensor& x = norm.in[forward ? 0 : 1];
  why = "activations of a normalisation of several types or dims";
  for (const Tensor* tensor : {&norm.in[0], &x, &norm.out[0]}) {
    if (tensor->type != x.type || tensor->dims != x.dims || !is_float(x.type)) return false;
  }
  why = "statistics that are not float32";
  for (std::size_t i = forward ? 1 : 2; i < norm.in.size(); ++i) {
    if (norm.in[i].type != CUDNN_DATA_FLOAT) return false;
  }
  for (std::size_t i = 1; i < norm.out.size(); ++i) {
    if (norm.out[i].type != CUDNN_DATA_FLOAT) return false;
  }
  if (norm.norm == CUDNN_LAYER_NORM) return true;
  why = "a normalisation of another kind";
  if (norm.norm != CUDNN_BATCH_NORM) return false;
  why = "batch normalisation of fewer than 4 dimensions, or of channels not in units of 16 bytes";
  return x.dims.size() >= 4 && x.dims[1] * static_cast<std::int64_t>(x.element_bytes()) % 16 == 0 &&
         common_order(graph) != Order::kNone;
}

// Attention: all products are of 16-bit tensors or of what the graph made itself.
bool is_attention_taken(const Graph& graph, std::string& why) {
  std::set<std::int64_t> made;
  for (const Operation& operation : graph.operations) {
    for (const Tensor& tensor : operation.in) {
      why = "a tensor without a buffer that no operation before made";
      if (!tensor.dims.empty() && tensor.is_virtual && made.count(tensor.id) == 0) return false;
    }
    for (const Tensor& tensor : operation.out) made.insert(tensor.id);
    if (operation.kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    for (const Tensor& tensor : operation.in) {
      why = "attention to tensors of more than 16 bits";
      if (!tensor.is_virtual && !is_low(tensor.type)) return false;
      why = "products of other than 4 dimensions";
      if (tensor.dims.size() != 4) return false;
      why = "heads that are no multiple of 8";
      if (!tensor.is_virtual && std::min(tensor.dims[2], tensor.dims[3]) > 0 &&
          tensor.dims[tensor.strides[3] == 1 ? 3 : 2] % 8 != 0) {
        return false;
      }
    }
  }
  why.clear();
  return true;
}

}  // namespace

bool is_supported(const Graph& graph, std::string& why) {
  const Operation& first = graph.operations.front();
  if (first.is_convolution()) return is_convolution_taken(graph, why);
  if (first.kind == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
      first.kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) {
    return is_norm_taken(graph, why);
  }
  const bool has_product =
      std::any_of(graph.operations.begin(), graph.operations.end(), [](const Operation& operation) {
        return operation.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
      });
  if (has_product) return is_attention_taken(graph, why);
  why = "no operation that there is an engine for";
  return false;
}

std::vector<Engine> engines_for(const Graph& graph) {
  const Operation& first = graph.operations.front();
  if (first.is_convolution() && first.in[0].type == CUDNN_DATA_FLOAT) {
    return {Engine::kUnordered, Engine::kTf32, Engine::kExact};
  }
  return {Engine::kUnordered, first.is_convolution() ? Engine::kTensorCores : Engine::kExact};
}

std::vector<cudnnBackendNumericalNote_t> notes_of(Engine engine) {
  switch (engine) {
    case Engine::kUnordered: return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case Engine::kTf32:
    case Engine::kTensorCores: return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case Engine::kExact: return {};
  }
  return {};
}

}  // namespace cudnn_on_cpu
