#include "compiler/onnx/proto_types.h"

#include <array>
#include <limits>
#include <utility>

#include "compiler/support/text.h"

namespace mezzo {
namespace {

using AttributeType = onnx::AttributeProto::AttributeType;

constexpr std::array<std::pair<Attribute::Kind, AttributeType>, 14> kAttributeTypes = {{
    {Attribute::Kind::kFloat, onnx::AttributeProto::FLOAT},
    {Attribute::Kind::kInt, onnx::AttributeProto::INT},
    {Attribute::Kind::kString, onnx::AttributeProto::STRING},
    {Attribute::Kind::kTensor, onnx::AttributeProto::TENSOR},
    {Attribute::Kind::kGraph, onnx::AttributeProto::GRAPH},
    {Attribute::Kind::kSparseTensor, onnx::AttributeProto::SPARSE_TENSOR},
    {Attribute::Kind::kType, onnx::AttributeProto::TYPE_PROTO},
    {Attribute::Kind::kFloats, onnx::AttributeProto::FLOATS},
    {Attribute::Kind::kInts, onnx::AttributeProto::INTS},
    {Attribute::Kind::kStrings, onnx::AttributeProto::STRINGS},
    {Attribute::Kind::kTensors, onnx::AttributeProto::TENSORS},
    {Attribute::Kind::kGraphs, onnx::AttributeProto::GRAPHS},
    {Attribute::Kind::kSparseTensors, onnx::AttributeProto::SPARSE_TENSORS},
    {Attribute::Kind::kTypes, onnx::AttributeProto::TYPE_PROTOS},
}};

Dim dim_from_proto(const onnx::TensorShapeProto::Dimension& proto) {
  Dim dim;
  if (proto.has_dim_value()) dim.value = proto.dim_value();
  if (proto.has_dim_param()) dim.symbol = proto.dim_param();
  dim.denotation = proto.denotation();
  return dim;
}

// TypeProto.Tensor and TypeProto.SparseTensor have the same fields.
template <typename Proto>
StatusOr<TensorType> tensor_type_from_proto(const Proto& proto) {
  TensorType type;
  MEZZO_ASSIGN_OR_RETURN(type.dtype, dtype_from_proto(proto.elem_type()));
  if (proto.has_shape()) {
    type.shape.emplace();
    type.shape->reserve(static_cast<std::size_t>(proto.shape().dim_size()));
    for (const auto& dim : proto.shape().dim()) type.shape->push_back(dim_from_proto(dim));
  }
  return type;
}

template <typename Proto>
void tensor_type_to_proto(const TensorType& type, Proto& proto) {
  if (type.dtype != DType::kNone) proto.set_elem_type(static_cast<int>(type.dtype));
  if (!type.shape) return;
  auto& shape = *proto.mutable_shape();
  for (const Dim& dim : *type.shape) {
    auto& out = *shape.add_dim();
    if (dim.value != Dim::kUnknown) {
      out.set_dim_value(dim.value);
    } else if (!dim.symbol.empty()) {
      out.set_dim_param(dim.symbol);
    }
    if (!dim.denotation.empty()) out.set_denotation(dim.denotation);
  }
}

// Reads the element type of a sequence, an optional or a map's values, if there is one.
Status read_element(bool present, const onnx::TypeProto& proto, Type& type) {
  if (!present) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(Type element, type_from_proto(proto));
  type.element = std::make_shared<const Type>(std::move(element));
  return ok_status();
}

}  // namespace

StatusOr<DType> dtype_from_proto(int elem_type) {
  if (elem_type < 0 || elem_type > std::numeric_limits<std::uint8_t>::max()) {
    return unimplemented("element type " + std::to_string(elem_type) +
                         ": expected one of ONNX's TensorProto.DataType (0 to " +
                         std::to_string(kDTypeCount - 1) + ")");
  }
  return static_cast<DType>(elem_type);
}

StatusOr<Type> type_from_proto(const onnx::TypeProto& proto) {
  Type type;
  type.denotation = proto.denotation();
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType: {
      type.kind = Type::Kind::kTensor;
      MEZZO_ASSIGN_OR_RETURN(type.tensor, tensor_type_from_proto(proto.tensor_type()));
      break;
    }
    case onnx::TypeProto::kSparseTensorType: {
      type.kind = Type::Kind::kSparseTensor;
      MEZZO_ASSIGN_OR_RETURN(type.tensor, tensor_type_from_proto(proto.sparse_tensor_type()));
      break;
    }
    case onnx::TypeProto::kSequenceType: {
      type.kind = Type::Kind::kSequence;
      const auto& sequence = proto.sequence_type();
      MEZZO_RETURN_IF_ERROR(read_element(sequence.has_elem_type(), sequence.elem_type(), type));
      break;
    }
    case onnx::TypeProto::kOptionalType: {
      type.kind = Type::Kind::kOptional;
      const auto& optional = proto.optional_type();
      MEZZO_RETURN_IF_ERROR(read_element(optional.has_elem_type(), optional.elem_type(), type));
      break;
    }
    case onnx::TypeProto::kMapType: {
      type.kind = Type::Kind::kMap;
      const auto& map = proto.map_type();
      MEZZO_ASSIGN_OR_RETURN(type.key, dtype_from_proto(map.key_type()));
      MEZZO_RETURN_IF_ERROR(read_element(map.has_value_type(), map.value_type(), type));
      break;
    }
    case onnx::TypeProto::kOpaqueType:
      type.kind = Type::Kind::kOpaque;
      type.opaque_domain = proto.opaque_type().domain();
      type.opaque_name = proto.opaque_type().name();
      break;
    case onnx::TypeProto::VALUE_NOT_SET: break;
  }
  return type;
}

void type_to_proto(const Type& type, onnx::TypeProto& proto) {
  if (!type.denotation.empty()) proto.set_denotation(type.denotation);
  switch (type.kind) {
    case Type::Kind::kUnknown: break;
    case Type::Kind::kTensor:
      tensor_type_to_proto(type.tensor, *proto.mutable_tensor_type());
      break;
    case Type::Kind::kSparseTensor:
      tensor_type_to_proto(type.tensor, *proto.mutable_sparse_tensor_type());
      break;
    case Type::Kind::kSequence: {
      auto& sequence = *proto.mutable_sequence_type();
      if (type.element) type_to_proto(*type.element, *sequence.mutable_elem_type());
      break;
    }
    case Type::Kind::kOptional: {
      auto& optional = *proto.mutable_optional_type();
      if (type.element) type_to_proto(*type.element, *optional.mutable_elem_type());
      break;
    }
    case Type::Kind::kMap: {
      auto& map = *proto.mutable_map_type();
      if (type.key != DType::kNone) map.set_key_type(static_cast<int>(type.key));
      if (type.element) type_to_proto(*type.element, *map.mutable_value_type());
      break;
    }
    case Type::Kind::kOpaque: {
      auto& opaque = *proto.mutable_opaque_type();
      if (!type.opaque_domain.empty()) opaque.set_domain(type.opaque_domain);
      if (!type.opaque_name.empty()) opaque.set_name(type.opaque_name);
      break;
    }
  }
}

StatusOr<ValueInfo> value_info_from_proto(const onnx::ValueInfoProto& proto) {
  ValueInfo info;
  info.name = proto.name();
  MEZZO_ASSIGN_OR_RETURN(info.type, type_from_proto(proto.type()));
  info.doc_string = proto.doc_string();
  info.metadata = pairs_from_proto(proto.metadata_props());
  return info;
}

void value_info_to_proto(const ValueInfo& info, onnx::ValueInfoProto& proto) {
  proto.set_name(info.name);
  if (info.type.kind != Type::Kind::kUnknown || !info.type.denotation.empty()) {
    type_to_proto(info.type, *proto.mutable_type());
  }
  if (!info.doc_string.empty()) proto.set_doc_string(info.doc_string);
  pairs_to_proto(info.metadata, *proto.mutable_metadata_props());
}

StringPairs pairs_from_proto(const PairsProto& protos) {
  StringPairs pairs;
  pairs.reserve(static_cast<std::size_t>(protos.size()));
  for (const auto& proto : protos) pairs.emplace_back(proto.key(), proto.value());
  return pairs;
}

void pairs_to_proto(const StringPairs& pairs, PairsProto& protos) {
  for (const auto& [key, value] : pairs) {
    auto& proto = *protos.Add();
    proto.set_key(key);
    proto.set_value(value);
  }
}

Attribute::Kind attribute_kind(AttributeType type) {
  for (const auto& [kind, proto_type] : kAttributeTypes) {
    if (proto_type == type) return kind;
  }
  return Attribute::Kind::kNone;
}

AttributeType attribute_type(Attribute::Kind kind) {
  for (const auto& [ir_kind, type] : kAttributeTypes) {
    if (ir_kind == kind) return type;
  }
  return onnx::AttributeProto::UNDEFINED;
}

std::string describe_proto(const onnx::NodeProto& node) {
  std::string text = "node ";
  if (!node.name().empty()) {
    text += "'" + printable(node.name()) + "'";
  } else if (node.output_size() > 0) {
    text += "producing '" + printable(node.output(0)) + "'";
  } else {
    text += "without a name";
  }
  const std::string domain(canonical_domain(node.domain()));
  return text + " (" + printable(domain.empty() ? node.op_type() : domain + "." + node.op_type()) +
         ")";
}

}  // namespace mezzo
