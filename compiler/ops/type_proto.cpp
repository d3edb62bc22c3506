#include "compiler/ops/type_proto.h"

#include <memory>
#include <utility>

#include "compiler/ir/graph.h"

namespace mezzo {
namespace {

template <typename TensorProtoType>
void tensor_to_proto(const TensorType& type, TensorProtoType& proto) {
  proto.set_elem_type(static_cast<int>(type.dtype));
  if (!type.shape) return;
  auto* shape = proto.mutable_shape();
  for (const Dim& dim : *type.shape) {
    auto* entry = shape->add_dim();
    if (dim.known()) {
      entry->set_dim_value(dim.value);
    } else if (!dim.symbol.empty()) {
      entry->set_dim_param(dim.symbol);
    }
  }
}

template <typename TensorProtoType>
TensorType tensor_from_proto(const TensorProtoType& proto) {
  TensorType type;
  if (proto.elem_type() > 0 && proto.elem_type() < kDTypeCount) {
    type.dtype = static_cast<DType>(proto.elem_type());
  }
  if (!proto.has_shape()) return type;
  std::vector<Dim> dims;
  for (const auto& entry : proto.shape().dim()) {
    if (entry.has_dim_value() && entry.dim_value() >= 0) {
      dims.emplace_back(entry.dim_value());
    } else {
      dims.push_back(entry.has_dim_param() ? Dim::symbolic(entry.dim_param()) : Dim());
    }
  }
  type.shape = std::move(dims);
  return type;
}

void value_to_proto(const Value& value, onnx::ValueInfoProto& proto) {
  proto.set_name(value.name());
  onnx::TypeProto type;
  if (to_proto(value.type, type)) *proto.mutable_type() = std::move(type);
}

void border_to_proto(const Attribute::GraphRef& graph, onnx::GraphProto& proto) {
  if (!graph) return;
  for (const Value* value : graph->inputs()) value_to_proto(*value, *proto.add_input());
  for (const Value* value : graph->outputs()) value_to_proto(*value, *proto.add_output());
}

std::shared_ptr<const Type> element_from_proto(const onnx::TypeProto& proto) {
  return std::make_shared<const Type>(from_proto(proto));
}

}  // namespace

bool to_proto(const Type& type, onnx::TypeProto& proto) {
  switch (type.kind) {
    case Type::Kind::kTensor:
      tensor_to_proto(type.tensor, *proto.mutable_tensor_type());
      return type.tensor.dtype != DType::kNone;
    case Type::Kind::kSparseTensor:
      tensor_to_proto(type.tensor, *proto.mutable_sparse_tensor_type());
      return true;
    case Type::Kind::kSequence:
      return type.element &&
             to_proto(*type.element, *proto.mutable_sequence_type()->mutable_elem_type());
    case Type::Kind::kOptional:
      return type.element &&
             to_proto(*type.element, *proto.mutable_optional_type()->mutable_elem_type());
    case Type::Kind::kMap:
      proto.mutable_map_type()->set_key_type(static_cast<int>(type.key));
      return type.element &&
             to_proto(*type.element, *proto.mutable_map_type()->mutable_value_type());
    case Type::Kind::kUnknown:
    case Type::Kind::kOpaque: break;
  }
  return false;
}

Type from_proto(const onnx::TypeProto& proto) {
  Type type;
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType: return Type(tensor_from_proto(proto.tensor_type()));
    case onnx::TypeProto::kSparseTensorType:
      type.kind = Type::Kind::kSparseTensor;
      type.tensor = tensor_from_proto(proto.sparse_tensor_type());
      break;
    case onnx::TypeProto::kSequenceType:
      type.kind = Type::Kind::kSequence;
      type.element = element_from_proto(proto.sequence_type().elem_type());
      break;
    case onnx::TypeProto::kOptionalType:
      type.kind = Type::Kind::kOptional;
      type.element = element_from_proto(proto.optional_type().elem_type());
      break;
    case onnx::TypeProto::kMapType:
      type.kind = Type::Kind::kMap;
      type.key = static_cast<DType>(proto.map_type().key_type());
      type.element = element_from_proto(proto.map_type().value_type());
      break;
    default: break;
  }
  return type;
}

bool small_enough_for_inference(const Tensor& tensor) {
  return tensor.strings() == nullptr && tensor.byte_size() <= kMostInferenceBytes;
}

void to_proto(const Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_data_type(static_cast<int>(tensor.dtype()));
  for (const std::int64_t dim : tensor.dims()) proto.add_dims(dim);
  if (!small_enough_for_inference(tensor)) return;
  const std::vector<std::byte> bytes = tensor.copy_bytes();
  proto.set_raw_data(bytes.data(), bytes.size());
}

void to_proto(const Attribute& attribute, onnx::AttributeProto& proto) {
  using Kind = Attribute::Kind;
  proto.set_name(attribute.name);
  switch (attribute.kind()) {
    case Kind::kFloat:
      proto.set_type(onnx::AttributeProto::FLOAT);
      proto.set_f(std::get<float>(attribute.value));
      break;
    case Kind::kInt:
      proto.set_type(onnx::AttributeProto::INT);
      proto.set_i(std::get<std::int64_t>(attribute.value));
      break;
    case Kind::kString:
      proto.set_type(onnx::AttributeProto::STRING);
      proto.set_s(std::get<std::string>(attribute.value));
      break;
    case Kind::kTensor:
      proto.set_type(onnx::AttributeProto::TENSOR);
      if (const TensorRef& tensor = std::get<NamedTensor>(attribute.value).tensor) {
        to_proto(*tensor, *proto.mutable_t());
      }
      break;
    case Kind::kSparseTensor: {
      proto.set_type(onnx::AttributeProto::SPARSE_TENSOR);
      const auto& sparse = std::get<Attribute::SparseRef>(attribute.value);
      if (!sparse) break;
      if (sparse->values)
        to_proto(*sparse->values, *proto.mutable_sparse_tensor()->mutable_values());
      for (const std::int64_t dim : sparse->dims) proto.mutable_sparse_tensor()->add_dims(dim);
      break;
    }
    case Kind::kType:
      proto.set_type(onnx::AttributeProto::TYPE_PROTO);
      to_proto(std::get<Type>(attribute.value), *proto.mutable_tp());
      break;
    case Kind::kFloats:
      proto.set_type(onnx::AttributeProto::FLOATS);
      for (const float value : std::get<std::vector<float>>(attribute.value))
        proto.add_floats(value);
      break;
    case Kind::kInts:
      proto.set_type(onnx::AttributeProto::INTS);
      for (const auto value : std::get<std::vector<std::int64_t>>(attribute.value))
        proto.add_ints(value);
      break;
    case Kind::kStrings:
      proto.set_type(onnx::AttributeProto::STRINGS);
      for (const auto& value : std::get<std::vector<std::string>>(attribute.value)) {
        proto.add_strings(value);
      }
      break;
    case Kind::kGraph:
      proto.set_type(onnx::AttributeProto::GRAPH);
      border_to_proto(std::get<Attribute::GraphRef>(attribute.value), *proto.mutable_g());
      break;
    default: break;  // no operator's inference reads lists of tensors, graphs or types
  }
}

}  // namespace mezzo
