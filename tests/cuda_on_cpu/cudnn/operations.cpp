// Reads descriptors of operations.
#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

using Name = cudnnBackendAttributeName_t;

// Where an operation keeps its tensors. Those after `required` operands may be left out.
struct Places {
  cudnnBackendDescriptorType_t kind;
  std::vector<Name> in;
  std::size_t required;
  std::vector<Name> out;
};

const Places* places_of(cudnnBackendDescriptorType_t kind) {
  static const Places kPlaces[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
       2,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
       2,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
       2,
       {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
       1,
       {CUDNN_ATTR_OPERATION_POINTWISE_YDESC}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
       1,
       {CUDNN_ATTR_OPERATION_REDUCTION_YDESC}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
       1,
       {CUDNN_ATTR_OPERATION_RESHAPE_YDESC}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
       2,
       {CUDNN_ATTR_OPERATION_MATMUL_CDESC}},
      {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC},
       4,
       {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC}},
      {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC},
       5,
       {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC,
        CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC}},
  };
  for (const Places& places : kPlaces) {
    if (places.kind == kind) return &places;
  }
  return nullptr;
}

Tensor read_tensor(const Descriptor* from) {
  Tensor tensor;
  if (from == nullptr) return tensor;
  tensor.id = from->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = from->value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.dims = from->values<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = from->values<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.alignment = from->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  tensor.is_virtual = from->value<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  tensor.is_by_value = from->value<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  return tensor;
}

void read_window(const Descriptor& from, Operation& operation) {
  for (const Name name : {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC}) {
    const Descriptor* window = from.child(name);
    if (window == nullptr) continue;
    operation.pads_begin = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    operation.pads_end = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    operation.strides = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    operation.dilations = window->values<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    operation.compute = window->value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  }
}

void read_settings(const Descriptor& from, Operation& operation) {
  read_window(from, operation);
  if (const Descriptor* how = from.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)) {
    operation.mode = how->value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    operation.axis = how->value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
    operation.compute = how->value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
  }
  if (const Descriptor* how = from.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)) {
    operation.reduction = how->value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    operation.compute = how->value<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE);
  }
  if (const Descriptor* how = from.child(CUDNN_ATTR_OPERATION_MATMUL_DESC)) {
    operation.compute = how->value<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
  }
  if (operation.kind == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR) {
    operation.norm = from.value<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE);
  }
  if (operation.kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR) {
    operation.norm = from.value<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE);
  }
}

// Attributes that would change what is computed and that the stand-in does not know.
bool has_unknown(const Descriptor& from, std::string& why) {
  for (const Name name :
       {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
        CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS,
        CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC,
        CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC}) {
    if (from.child(name) != nullptr) {
      why = "an attribute that the stand-in does not know: " + std::to_string(name);
      return true;
    }
  }
  return false;
}

}  // namespace

bool Operation::is_convolution() const {
  return kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

bool read_operation(const Descriptor& descriptor, Operation& operation, std::string& why) {
  const Places* places = places_of(descriptor.kind);
  if (places == nullptr) {
    why = "an operation that the stand-in does not know";
    return false;
  }
  if (has_unknown(descriptor, why)) return false;
  operation.kind = descriptor.kind;
  for (const Name name : places->in) operation.in.push_back(read_tensor(descriptor.child(name)));
  for (const Name name : places->out) operation.out.push_back(read_tensor(descriptor.child(name)));
  for (std::size_t i = 0; i < places->required; ++i) {
    if (operation.in[i].dims.empty()) why = "an operand is missing";
  }
  for (const Tensor& tensor : operation.out) {
    if (tensor.dims.empty()) why = "a result is missing";
  }
  read_settings(descriptor, operation);
  return why.empty();
}

bool read_graph(const Descriptor& descriptor, Graph& graph, std::string& why) {
  const auto found = descriptor.attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (found == descriptor.attributes.end() || found->second.children.empty()) {
    why = "a graph without operations";
    return false;
  }
  for (const DescriptorPtr& child : found->second.children) {
    if (!read_operation(*child, graph.operations.emplace_back(), why)) return false;
  }
  return true;
}

}  // namespace cudnn_on_cpu
