// Nodes, attributes and the tensors in them.
#include <utility>

#include "compiler/onnx/graph_importer.h"
#include "compiler/onnx/proto_types.h"
#include "compiler/support/text.h"

namespace mezzo {
namespace {

using AttributeType = onnx::AttributeProto::AttributeType;

// Files of ONNX's first IR version have no attribute types; the filled field tells.
Attribute::Kind kind_of(const onnx::AttributeProto& proto) {
  if (proto.type() != onnx::AttributeProto::UNDEFINED) return attribute_kind(proto.type());
  if (proto.has_f()) return Attribute::Kind::kFloat;
  if (proto.has_i()) return Attribute::Kind::kInt;
  if (proto.has_s()) return Attribute::Kind::kString;
  if (proto.has_t()) return Attribute::Kind::kTensor;
  if (proto.has_g()) return Attribute::Kind::kGraph;
  if (proto.has_sparse_tensor()) return Attribute::Kind::kSparseTensor;
  if (proto.has_tp()) return Attribute::Kind::kType;
  if (proto.floats_size() > 0) return Attribute::Kind::kFloats;
  if (proto.ints_size() > 0) return Attribute::Kind::kInts;
  if (proto.strings_size() > 0) return Attribute::Kind::kStrings;
  if (proto.tensors_size() > 0) return Attribute::Kind::kTensors;
  if (proto.graphs_size() > 0) return Attribute::Kind::kGraphs;
  if (proto.sparse_tensors_size() > 0) return Attribute::Kind::kSparseTensors;
  if (proto.type_protos_size() > 0) return Attribute::Kind::kTypes;
  return Attribute::Kind::kNone;
}

// Collects `import(item)` of all items, each a StatusOr.
template <typename T, typename Protos, typename Import>
Status import_list(const Protos& protos, Attribute::Value& value, const Import& import) {
  std::vector<T> items;
  items.reserve(static_cast<std::size_t>(protos.size()));
  for (const auto& proto : protos) {
    auto item = import(proto);
    if (!item.ok()) return item.status();
    items.push_back(std::move(*item));
  }
  value = std::move(items);
  return ok_status();
}

template <typename T, typename Item>
Status import_one(StatusOr<Item> item, Attribute::Value& value) {
  if (!item.ok()) return item.status();
  value = T(std::move(*item));
  return ok_status();
}

}  // namespace

Status GraphImporter::import_nodes(const NodeProtos& protos, Graph& graph) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<int> order, topological_order(protos));
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int>(i)) {
      warn("the nodes of graph '" + printable(graph.name) +
           "' were not in topological order, which ONNX demands; they are sorted");
    }
    const onnx::NodeProto& proto = protos[order[i]];
    MEZZO_RETURN_IF_ERROR(import_node(proto, graph));
  }
  return ok_status();
}

Status GraphImporter::import_node(const onnx::NodeProto& proto, Graph& graph) {
  warn_unknown_fields(proto);
  if (proto.op_type().empty()) {
    return invalid_argument(describe_proto(proto) + ": expected an op type, got none");
  }
  std::vector<Value*> operands;
  operands.reserve(static_cast<std::size_t>(proto.input_size()));
  for (const std::string& name : proto.input()) {
    Value* value = name.empty() ? nullptr : lookup(graph, name);
    if (value == nullptr && !name.empty()) {
      return invalid_argument(describe_proto(proto) + ", operand " +
                              std::to_string(operands.size()) + " '" + printable(name) +
                              "': expected the name of a value, got one that nothing defines");
    }
    operands.push_back(value);
  }
  Node* node = graph.add_node(proto.op_type(), proto.domain(), operands, {});
  node->name = proto.name();
  node->doc_string = proto.doc_string();
  node->metadata = pairs_from_proto(proto.metadata_props());
  graph.set_overload(node, proto.overload());
  for (const auto& configuration : proto.device_configurations()) {
    node->device_configurations.push_back(configuration.SerializeAsString());
  }
  // Subgraphs come before the results: they do not see these, and may use their names.
  for (const auto& attribute : proto.attribute()) {
    if (attribute.name().empty() || node->has_attribute(attribute.name())) {
      return invalid_argument(describe_proto(proto) +
                              ": expected attributes with distinct names, " + "got '" +
                              printable(attribute.name()) + "'");
    }
    Attribute out;
    const Status status = import_attribute(attribute, node, out);
    if (!status.ok()) return status.with_context(describe_proto(proto));
    node->mutable_attributes().push_back(std::move(out));
  }
  return import_results(proto, graph, node);
}

Status GraphImporter::import_results(const onnx::NodeProto& proto, Graph& graph, Node* node) {
  for (int i = 0; i < proto.output_size(); ++i) {
    if (!proto.output(i).empty() && lookup(graph, proto.output(i)) != nullptr) {
      return check_new_name(graph, proto.output(i),
                            describe_proto(proto) + ", result " + std::to_string(i));
    }
    graph.add_result(node, proto.output(i));
  }
  return ok_status();
}

Status GraphImporter::import_attribute(const onnx::AttributeProto& proto, Node* parent,
                                       Attribute& attribute) {
  warn_unknown_fields(proto);
  attribute.name = proto.name();
  attribute.doc_string = proto.doc_string();
  if (!proto.ref_attr_name().empty()) {
    attribute.ref_name = proto.ref_attr_name();
    attribute.ref_kind = attribute_kind(proto.type());
    return ok_status();
  }
  const Status status = import_attribute_value(proto, parent, attribute);
  if (status.ok()) return status;
  return status.with_context("attribute '" + printable(proto.name()) + "'");
}

Status GraphImporter::import_attribute_value(const onnx::AttributeProto& proto, Node* parent,
                                             Attribute& attribute) {
  using Kind = Attribute::Kind;
  Attribute::Value& value = attribute.value;
  const auto tensor = [&](const auto& item) { return import_tensor(item); };
  const auto sparse = [&](const auto& item) { return import_sparse(item); };
  const auto graph = [&](const auto& item) { return import_subgraph(item, parent); };
  switch (kind_of(proto)) {
    case Kind::kFloat: value = proto.f(); return ok_status();
    case Kind::kInt: value = static_cast<std::int64_t>(proto.i()); return ok_status();
    case Kind::kString: value = proto.s(); return ok_status();
    case Kind::kTensor: return import_one<NamedTensor>(tensor(proto.t()), value);
    case Kind::kGraph: return import_one<Attribute::GraphRef>(graph(proto.g()), value);
    case Kind::kSparseTensor:
      return import_one<Attribute::SparseRef>(sparse(proto.sparse_tensor()), value);
    case Kind::kType: return import_one<Type>(type_from_proto(proto.tp()), value);
    case Kind::kFloats:
      value = std::vector<float>(proto.floats().begin(), proto.floats().end());
      return ok_status();
    case Kind::kInts:
      value = std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
      return ok_status();
    case Kind::kStrings:
      value = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      return ok_status();
    case Kind::kTensors: return import_list<NamedTensor>(proto.tensors(), value, tensor);
    case Kind::kGraphs: return import_list<Attribute::GraphRef>(proto.graphs(), value, graph);
    case Kind::kSparseTensors:
      return import_list<Attribute::SparseRef>(proto.sparse_tensors(), value, sparse);
    case Kind::kTypes: return import_list<Type>(proto.type_protos(), value, type_from_proto);
    case Kind::kNone: break;
  }
  return invalid_argument("expected an attribute with a type and a value, got none");
}

StatusOr<NamedTensor> GraphImporter::import_tensor(const onnx::TensorProto& proto) {
  warn_unknown_fields(proto);
  MEZZO_ASSIGN_OR_RETURN(TensorRef tensor, reader_->read(proto));
  return NamedTensor{proto.name(), std::move(tensor)};
}

StatusOr<Attribute::SparseRef> GraphImporter::import_sparse(const onnx::SparseTensorProto& proto) {
  auto sparse = std::make_shared<SparseTensor>();
  MEZZO_ASSIGN_OR_RETURN(NamedTensor values, import_tensor(proto.values()));
  sparse->values = std::move(values.tensor);
  sparse->values_name = std::move(values.name);
  sparse->dims.assign(proto.dims().begin(), proto.dims().end());
  const auto rank = static_cast<std::int64_t>(sparse->dims.size());
  for (const std::int64_t dim : sparse->dims) {
    if (dim < 0) {
      return invalid_argument("expected dims of at least 0, got " + format_dims(sparse->dims));
    }
  }
  const auto& value_dims = sparse->values->dims();
  if (value_dims.size() != 1) {
    return invalid_argument("expected values of rank 1, got " + format_dims(value_dims));
  }
  if (!proto.has_indices()) {
    if (value_dims[0] == 0) return Attribute::SparseRef(std::move(sparse));
    return invalid_argument("expected indices of the values, got none");
  }
  MEZZO_ASSIGN_OR_RETURN(NamedTensor indices, import_tensor(proto.indices()));
  sparse->indices = std::move(indices.tensor);
  sparse->indices_name = std::move(indices.name);
  const std::vector<std::int64_t> linear = {value_dims[0]};
  const std::vector<std::int64_t> tuples = {value_dims[0], rank};
  const auto& index_dims = sparse->indices->dims();
  if (sparse->indices->dtype() != DType::kInt64 || (index_dims != linear && index_dims != tuples)) {
    return invalid_argument(
        "expected int64 indices of shape " + format_dims(linear) + " or " + format_dims(tuples) +
        ", got " + std::string(dtype_name(sparse->indices->dtype())) + format_dims(index_dims));
  }
  return Attribute::SparseRef(std::move(sparse));
}

StatusOr<Attribute::GraphRef> GraphImporter::import_subgraph(const onnx::GraphProto& proto,
                                                             Node* parent) {
  if (parent == nullptr) {
    return unimplemented("graphs as default values of a function's attributes");
  }
  auto graph = std::make_shared<Graph>(proto.name(), parent);
  MEZZO_RETURN_IF_ERROR(import_graph(proto, *graph));
  return graph;
}

}  // namespace mezzo
