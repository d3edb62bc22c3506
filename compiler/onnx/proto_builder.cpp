#include "compiler/onnx/proto_builder.h"

#include <type_traits>
#include <utility>

#include "compiler/onnx/proto_types.h"
#include "compiler/onnx/tensor_codec.h"
#include "compiler/onnx/tensor_reader.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

void set_if_any(const std::string& text, std::string* (onnx::NodeProto::*field)(),
                onnx::NodeProto& proto) {
  if (!text.empty()) *(proto.*field)() = text;
}

template <typename OpsetProtos>
void build_opsets(const std::vector<OpsetImport>& opsets, OpsetProtos& protos) {
  for (const OpsetImport& opset : opsets) {
    auto& proto = *protos.Add();
    proto.set_domain(opset.domain);
    proto.set_version(opset.version);
  }
}

template <typename Protos>
Status build_serialized(const std::vector<std::string>& messages, Protos& protos) {
  for (const std::string& message : messages) {
    if (!protos.Add()->ParseFromString(message)) {
      return internal_error("a message that is only carried along cannot be parsed");
    }
  }
  return ok_status();
}

ValueInfo info_of(const Value& value, bool with_notes) {
  ValueInfo info{value.name(), value.type, {}, {}};
  if (with_notes) {
    info.doc_string = value.doc_string;
    info.metadata = value.metadata;
  }
  return info;
}

void build_value_info(const std::vector<ValueInfo>& infos,
                      google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& protos) {
  for (const ValueInfo& info : infos) value_info_to_proto(info, *protos.Add());
}

}  // namespace

Status ProtoBuilder::build(const Model& model, onnx::ModelProto& proto) const {
  proto.Clear();
  proto.set_ir_version(model.ir_version);
  if (!model.producer_name.empty()) proto.set_producer_name(model.producer_name);
  if (!model.producer_version.empty()) proto.set_producer_version(model.producer_version);
  if (!model.domain.empty()) proto.set_domain(model.domain);
  if (model.model_version != 0) proto.set_model_version(model.model_version);
  if (!model.doc_string.empty()) proto.set_doc_string(model.doc_string);
  build_opsets(model.opsets, *proto.mutable_opset_import());
  pairs_to_proto(model.metadata, *proto.mutable_metadata_props());
  MEZZO_RETURN_IF_ERROR(
      build_serialized(model.device_configurations, *proto.mutable_configuration()));
  MEZZO_RETURN_IF_ERROR(build_graph(*model.graph, *proto.mutable_graph()));
  for (const auto& function : model.functions) {
    MEZZO_RETURN_IF_ERROR(build_function(*function, *proto.add_functions()));
  }
  for (const TrainingInfo& info : model.training_info) {
    auto& out = *proto.add_training_info();
    if (info.initialization) {
      MEZZO_RETURN_IF_ERROR(build_graph(*info.initialization, *out.mutable_initialization()));
    }
    if (info.algorithm) {
      MEZZO_RETURN_IF_ERROR(build_graph(*info.algorithm, *out.mutable_algorithm()));
    }
    pairs_to_proto(info.initialization_binding, *out.mutable_initialization_binding());
    pairs_to_proto(info.update_binding, *out.mutable_update_binding());
  }
  return ok_status();
}

Status ProtoBuilder::build_graph(const Graph& graph, onnx::GraphProto& proto) const {
  proto.set_name(graph.name);
  if (!graph.doc_string.empty()) proto.set_doc_string(graph.doc_string);
  pairs_to_proto(graph.metadata, *proto.mutable_metadata_props());
  MEZZO_RETURN_IF_ERROR(
      build_serialized(graph.quantization_annotations, *proto.mutable_quantization_annotation()));
  for (const Value* input : graph.inputs()) {
    value_info_to_proto(info_of(*input, true), *proto.add_input());
  }
  MEZZO_RETURN_IF_ERROR(build_initializers(graph, proto));
  for (const auto& node : graph.nodes()) {
    MEZZO_RETURN_IF_ERROR(build_node(*node, *proto.add_node()));
  }
  for (const Value* output : graph.outputs()) {
    // Doc string and metadata of a value that is both belong to the input.
    value_info_to_proto(info_of(*output, !output->is_graph_input()), *proto.add_output());
  }
  build_value_info(graph.value_info, *proto.mutable_value_info());
  return ok_status();
}

Status ProtoBuilder::build_initializers(const Graph& graph, onnx::GraphProto& proto) const {
  for (const Value* value : graph.initializers()) {
    const Status status =
        value->constant() ? build_tensor(value->constant(), value->name(), *proto.add_initializer())
                          : build_sparse(*value->sparse_constant(), value->name(),
                                         *proto.add_sparse_initializer());
    if (!status.ok()) {
      return status.with_context("initializer '" + printable(value->name()) + "'");
    }
  }
  return ok_status();
}

Status ProtoBuilder::build_function(const Function& function, onnx::FunctionProto& proto) const {
  proto.set_name(function.name);
  proto.set_domain(function.domain);
  if (!function.overload.empty()) proto.set_overload(function.overload);
  if (!function.doc_string.empty()) proto.set_doc_string(function.doc_string);
  for (const std::string& name : function.attribute_names) proto.add_attribute(name);
  for (const Attribute& attribute : function.attribute_defaults) {
    MEZZO_RETURN_IF_ERROR(build_attribute(attribute, *proto.add_attribute_proto()));
  }
  build_opsets(function.opsets, *proto.mutable_opset_import());
  pairs_to_proto(function.metadata, *proto.mutable_metadata_props());
  for (const Value* input : function.body->inputs()) proto.add_input(input->name());
  for (const Value* output : function.body->outputs()) proto.add_output(output->name());
  for (const auto& node : function.body->nodes()) {
    MEZZO_RETURN_IF_ERROR(build_node(*node, *proto.add_node()));
  }
  build_value_info(function.body->value_info, *proto.mutable_value_info());
  return ok_status();
}

Status ProtoBuilder::build_node(const Node& node, onnx::NodeProto& proto) const {
  set_if_any(node.name, &onnx::NodeProto::mutable_name, proto);
  proto.set_op_type(node.op_type());
  set_if_any(node.domain(), &onnx::NodeProto::mutable_domain, proto);
  set_if_any(node.overload(), &onnx::NodeProto::mutable_overload, proto);
  set_if_any(node.doc_string, &onnx::NodeProto::mutable_doc_string, proto);
  for (const Value* operand : node.operands()) proto.add_input(operand ? operand->name() : "");
  for (const Value* result : node.results()) proto.add_output(result ? result->name() : "");
  for (const Attribute& attribute : node.attributes()) {
    const Status status = build_attribute(attribute, *proto.add_attribute());
    if (!status.ok()) return status.with_context(describe(node));
  }
  pairs_to_proto(node.metadata, *proto.mutable_metadata_props());
  return build_serialized(node.device_configurations, *proto.mutable_device_configurations());
}

Status ProtoBuilder::build_attribute(const Attribute& attribute,
                                     onnx::AttributeProto& proto) const {
  proto.set_name(attribute.name);
  if (!attribute.doc_string.empty()) proto.set_doc_string(attribute.doc_string);
  if (!attribute.ref_name.empty()) {
    proto.set_ref_attr_name(attribute.ref_name);
    proto.set_type(attribute_type(attribute.ref_kind));
    return ok_status();
  }
  proto.set_type(attribute_type(attribute.kind()));
  const Status status = build_value(attribute, proto);
  if (status.ok()) return status;
  return status.with_context("attribute '" + printable(attribute.name) + "'");
}

Status ProtoBuilder::build_value(const Attribute& attribute, onnx::AttributeProto& proto) const {
  using Kind = Attribute::Kind;
  const Attribute::Value& value = attribute.value;
  const auto& as_is = [](const auto& items, auto& protos) {
    for (const auto& item : items) *protos.Add() = item;
  };
  switch (attribute.kind()) {
    case Kind::kNone: return internal_error("an attribute without a value");
    case Kind::kFloat: proto.set_f(std::get<float>(value)); break;
    case Kind::kInt: proto.set_i(std::get<std::int64_t>(value)); break;
    case Kind::kString: proto.set_s(std::get<std::string>(value)); break;
    case Kind::kTensor: {
      const auto& named = std::get<NamedTensor>(value);
      return build_tensor(named.tensor, named.name, *proto.mutable_t());
    }
    case Kind::kGraph:
      return build_graph(*std::get<Attribute::GraphRef>(value), *proto.mutable_g());
    case Kind::kSparseTensor: {
      const auto& sparse = *std::get<Attribute::SparseRef>(value);
      return build_sparse(sparse, sparse.values_name, *proto.mutable_sparse_tensor());
    }
    case Kind::kType: type_to_proto(std::get<Type>(value), *proto.mutable_tp()); break;
    case Kind::kFloats: as_is(std::get<std::vector<float>>(value), *proto.mutable_floats()); break;
    case Kind::kInts:
      as_is(std::get<std::vector<std::int64_t>>(value), *proto.mutable_ints());
      break;
    case Kind::kStrings:
      as_is(std::get<std::vector<std::string>>(value), *proto.mutable_strings());
      break;
    case Kind::kTensors:
      for (const NamedTensor& named : std::get<std::vector<NamedTensor>>(value)) {
        MEZZO_RETURN_IF_ERROR(build_tensor(named.tensor, named.name, *proto.add_tensors()));
      }
      break;
    case Kind::kGraphs:
      for (const auto& graph : std::get<std::vector<Attribute::GraphRef>>(value)) {
        MEZZO_RETURN_IF_ERROR(build_graph(*graph, *proto.add_graphs()));
      }
      break;
    case Kind::kSparseTensors:
      for (const auto& sparse : std::get<std::vector<Attribute::SparseRef>>(value)) {
        MEZZO_RETURN_IF_ERROR(
            build_sparse(*sparse, sparse->values_name, *proto.add_sparse_tensors()));
      }
      break;
    case Kind::kTypes:
      for (const Type& type : std::get<std::vector<Type>>(value)) {
        type_to_proto(type, *proto.add_type_protos());
      }
      break;
  }
  return ok_status();
}

Status ProtoBuilder::build_tensor(const TensorRef& tensor, const std::string& name,
                                  onnx::TensorProto& proto) const {
  if (!name.empty()) proto.set_name(name);
  proto.set_data_type(static_cast<int>(tensor->dtype()));
  for (const std::int64_t dim : tensor->dims()) proto.add_dims(dim);
  const Tensor::Origin& origin = tensor->origin();
  if (!origin.doc_string.empty()) proto.set_doc_string(origin.doc_string);
  pairs_to_proto(origin.metadata, *proto.mutable_metadata_props());
  if (origin.has_segment) {
    proto.mutable_segment()->set_begin(origin.segment_begin);
    proto.mutable_segment()->set_end(origin.segment_end);
  }
  if (const auto* strings = tensor->strings()) {
    for (const std::string& text : *strings) proto.add_string_data(text);
    return ok_status();
  }
  return store_(tensor, proto);
}

Status ProtoBuilder::build_sparse(const SparseTensor& sparse, const std::string& name,
                                  onnx::SparseTensorProto& proto) const {
  MEZZO_RETURN_IF_ERROR(build_tensor(sparse.values, name, *proto.mutable_values()));
  if (sparse.indices) {
    MEZZO_RETURN_IF_ERROR(
        build_tensor(sparse.indices, sparse.indices_name, *proto.mutable_indices()));
  }
  for (const std::int64_t dim : sparse.dims) proto.add_dims(dim);
  return ok_status();
}

bool is_stored_typed(const Tensor& tensor) {
  return tensor.origin().field == Tensor::Field::kTyped &&
         std::holds_alternative<std::vector<std::byte>>(tensor.storage());
}

Status store_typed(const TensorRef& tensor, onnx::TensorProto& proto) {
  if (std::holds_alternative<std::vector<std::byte>>(tensor->storage())) {
    encode_typed(tensor->stored_bytes(), tensor->dtype(), tensor->elems(), proto);
  } else {
    encode_typed(tensor->copy_bytes(), tensor->dtype(), tensor->elems(), proto);
  }
  return ok_status();
}

void store_elided(std::uint64_t number, onnx::TensorProto& proto) {
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  pairs_to_proto({{"location", std::string(kElidedLocation)},
                  {std::string(kElidedLocation), std::to_string(number)}},
                 *proto.mutable_external_data());
}

Status store_embedded(const TensorRef& tensor, onnx::TensorProto& proto) {
  if (is_stored_typed(*tensor)) return store_typed(tensor, proto);
  std::string& raw = *proto.mutable_raw_data();
  raw.reserve(tensor->byte_size());
  return tensor->stream([&](std::span<const std::byte> piece) {
    raw.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return ok_status();
  });
}

}  // namespace mezzo
