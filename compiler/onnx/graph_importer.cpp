// Models, graphs and their values.
#include "compiler/onnx/graph_importer.h"

#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "compiler/onnx/proto_types.h"
#include "compiler/support/quotes.h"
#include "onnx/common/constants.h"

namespace mezzo {
namespace {

template <typename OpsetProtos>
std::vector<OpsetImport> import_opsets(const OpsetProtos& protos) {
  std::vector<OpsetImport> opsets;
  for (const auto& proto : protos) opsets.push_back({proto.domain(), proto.version()});
  return opsets;
}

template <typename Protos>
std::vector<std::string> import_serialized(const Protos& protos) {
  std::vector<std::string> serialized;
  for (const auto& proto : protos) serialized.push_back(proto.SerializeAsString());
  return serialized;
}

// An input's declared type and that of its default, dense or sparse, must agree in dtype, rank and
// known dims.
Status check_default(const Type& declared, const TensorType& actual) {
  if (declared.kind == Type::Kind::kUnknown) return ok_status();
  const TensorType& wanted = declared.tensor;
  bool fits = (declared.is_tensor() || declared.kind == Type::Kind::kSparseTensor) &&
              (wanted.dtype == DType::kNone || wanted.dtype == actual.dtype);
  if (fits && wanted.shape) {
    fits = wanted.shape->size() == actual.shape->size();
    for (std::size_t i = 0; fits && i < wanted.shape->size(); ++i) {
      const Dim& dim = (*wanted.shape)[i];
      fits = !dim.known() || dim.value == (*actual.shape)[i].value;
    }
  }
  if (fits) return ok_status();
  return invalid_argument("expected an initializer of the input's type " + to_string(declared) +
                          ", got " + to_string(Type(actual)));
}

bool is_known(const Type& type) { return type.kind != Type::Kind::kUnknown; }

}  // namespace

void GraphImporter::warn(std::string text) {
  if (warnings_ == nullptr || !warned_.insert(text).second) return;
  warnings_->push_back(std::move(text));
}

template <typename Proto>
void GraphImporter::warn_unknown_fields(const Proto& proto) {
  if (proto.unknown_fields().empty()) return;
  warn("fields of " + proto.GetTypeName() + " that this version does not know are dropped");
}
template void GraphImporter::warn_unknown_fields(const onnx::NodeProto&);
template void GraphImporter::warn_unknown_fields(const onnx::AttributeProto&);
template void GraphImporter::warn_unknown_fields(const onnx::TensorProto&);

Value* GraphImporter::lookup(const Graph& graph, std::string_view name) const {
  if (Value* value = graph.find_visible(name)) return value;
  return combined_with_ ? combined_with_->find(name) : nullptr;
}

Status GraphImporter::check_new_name(const Graph& graph, const std::string& name,
                                     std::string_view what) const {
  if (name.empty()) return invalid_argument(std::string(what) + ": expected a name, got none");
  if (const Value* taken = lookup(graph, name)) {
    return invalid_argument(std::string(what) + " " + in_quotes(name) +
                            ": expected a name that is not in use, got one of a value of " +
                            (taken->graph() == &graph ? "this graph" : "an enclosing graph"));
  }
  return ok_status();
}

Status GraphImporter::import_model(const onnx::ModelProto& proto, Model& model) {
  warn_unknown_fields(proto);
  if (!proto.has_graph()) {
    return invalid_argument("expected an ONNX model, got a message without a graph");
  }
  model.ir_version = proto.ir_version();
  if (proto.ir_version() > onnx::IR_VERSION) {
    warn("IR version " + std::to_string(proto.ir_version()) + " is newer than " +
         std::to_string(onnx::IR_VERSION) + ", the newest that this version knows");
  }
  model.producer_name = proto.producer_name();
  model.producer_version = proto.producer_version();
  model.domain = proto.domain();
  model.doc_string = proto.doc_string();
  model.model_version = proto.model_version();
  model.opsets = import_opsets(proto.opset_import());
  model.metadata = pairs_from_proto(proto.metadata_props());
  model.device_configurations = import_serialized(proto.configuration());

  model.graph = std::make_unique<Graph>(proto.graph().name());
  MEZZO_RETURN_IF_ERROR(import_graph(proto.graph(), *model.graph));
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> seen;
  for (const auto& function : proto.functions()) {
    const std::string_view domain = canonical_domain(function.domain());
    if (!seen.emplace(domain, function.name(), function.overload()).second) {
      return invalid_argument("function " + in_quotes(function.domain() + "." + function.name()) +
                              ": expected functions with distinct names, got this one twice");
    }
    auto& out = model.functions.emplace_back(std::make_unique<Function>());
    MEZZO_RETURN_IF_ERROR(
        import_function(function, *out)
            .with_context("function " + in_quotes(function.domain() + "." + function.name())));
  }
  for (const auto& info : proto.training_info()) {
    MEZZO_RETURN_IF_ERROR(
        import_training_info(info, *model.graph, model.training_info.emplace_back())
            .with_context("training_info " + std::to_string(model.training_info.size() - 1)));
  }
  return ok_status();
}

Status GraphImporter::import_graph(const onnx::GraphProto& proto, Graph& graph) {
  warn_unknown_fields(proto);
  graph.doc_string = proto.doc_string();
  graph.metadata = pairs_from_proto(proto.metadata_props());
  graph.quantization_annotations = import_serialized(proto.quantization_annotation());
  MEZZO_RETURN_IF_ERROR(import_inputs(proto, graph));
  MEZZO_RETURN_IF_ERROR(import_initializers(proto, graph));
  MEZZO_RETURN_IF_ERROR(import_nodes(proto.node(), graph));
  MEZZO_RETURN_IF_ERROR(import_outputs(proto, graph));
  return import_value_info(proto.value_info(), graph);
}

Status GraphImporter::import_inputs(const onnx::GraphProto& proto, Graph& graph) {
  for (const auto& input : proto.input()) {
    warn_unknown_fields(input);
    MEZZO_RETURN_IF_ERROR(check_new_name(graph, input.name(), "graph input"));
    auto info = value_info_from_proto(input);
    if (!info.ok()) return info.status().with_context("graph input " + in_quotes(input.name()));
    Value* value = graph.add_input(info->name, std::move(info->type));
    value->doc_string = std::move(info->doc_string);
    value->metadata = std::move(info->metadata);
  }
  return ok_status();
}

Status GraphImporter::import_initializers(const onnx::GraphProto& proto, Graph& graph) {
  for (const auto& tensor_proto : proto.initializer()) {
    const std::string& name = tensor_proto.name();
    Value* input = graph.find(name);
    if (input == nullptr || input->is_initializer()) {
      MEZZO_RETURN_IF_ERROR(check_new_name(graph, name, "initializer"));
    }
    auto tensor = import_tensor(tensor_proto);
    if (!tensor.ok()) return tensor.status().with_context("initializer " + in_quotes(name));
    if (input == nullptr) {
      graph.add_initializer(name, std::move(tensor->tensor));
      continue;
    }
    const TensorType actual = TensorType::of(tensor->tensor->dtype(), tensor->tensor->dims());
    MEZZO_RETURN_IF_ERROR(
        check_default(input->type, actual).with_context("initializer " + in_quotes(name)));
    if (!is_known(input->type)) input->type = actual;
    graph.set_initializer(input, std::move(tensor->tensor));
  }
  for (const auto& sparse_proto : proto.sparse_initializer()) {
    const std::string& name = sparse_proto.values().name();
    Value* input = graph.find(name);
    if (input == nullptr || input->is_initializer()) {
      MEZZO_RETURN_IF_ERROR(check_new_name(graph, name, "sparse initializer"));
    }
    auto sparse = import_sparse(sparse_proto);
    if (!sparse.ok()) return sparse.status().with_context("sparse initializer " + in_quotes(name));
    if (input == nullptr) {
      graph.add_sparse_initializer(name, std::move(*sparse));
    } else {
      const TensorType actual = TensorType::of((*sparse)->values->dtype(), (*sparse)->dims);
      MEZZO_RETURN_IF_ERROR(
          check_default(input->type, actual).with_context("sparse initializer " + in_quotes(name)));
      graph.set_sparse_initializer(input, std::move(*sparse));
    }
  }
  return ok_status();
}

Status GraphImporter::import_outputs(const onnx::GraphProto& proto, Graph& graph) {
  for (const auto& output : proto.output()) {
    warn_unknown_fields(output);
    Value* value = output.name().empty() ? nullptr : lookup(graph, output.name());
    if (value == nullptr) {
      return invalid_argument("graph output " + in_quotes(output.name()) +
                              ": expected the name of a value, got one that nothing defines");
    }
    auto info = value_info_from_proto(output);
    if (!info.ok()) return info.status().with_context("graph output " + in_quotes(output.name()));
    const bool first =
        value->graph() == &graph && value->producer() != nullptr && !value->is_graph_output();
    graph.add_output(value);
    if (first) {
      value->type = std::move(info->type);
      value->doc_string = std::move(info->doc_string);
      value->metadata = std::move(info->metadata);
    } else if (is_known(info->type) && !(info->type == value->type)) {
      warn("graph output " + in_quotes(output.name()) + ": the type " + to_string(info->type) +
           " is dropped for " + to_string(value->type) + ", that of its other role");
    }
  }
  return ok_status();
}

template <typename ValueInfoProtos>
Status GraphImporter::import_value_info(const ValueInfoProtos& protos, Graph& graph) {
  for (const auto& proto : protos) {
    auto info = value_info_from_proto(proto);
    if (!info.ok()) return info.status().with_context("value_info " + in_quotes(proto.name()));
    Value* value = graph.find(info->name);
    if (value != nullptr && !is_known(value->type)) value->type = info->type;
    graph.value_info.push_back(std::move(*info));
  }
  return ok_status();
}

Status GraphImporter::import_function(const onnx::FunctionProto& proto, Function& function) {
  warn_unknown_fields(proto);
  function.domain = proto.domain();
  function.name = proto.name();
  function.overload = proto.overload();
  function.doc_string = proto.doc_string();
  function.attribute_names.assign(proto.attribute().begin(), proto.attribute().end());
  function.opsets = import_opsets(proto.opset_import());
  function.metadata = pairs_from_proto(proto.metadata_props());
  for (const auto& attribute : proto.attribute_proto()) {
    MEZZO_RETURN_IF_ERROR(
        import_attribute(attribute, nullptr, function.attribute_defaults.emplace_back()));
  }
  function.body = std::make_unique<Graph>(proto.name());
  Graph& body = *function.body;
  for (const std::string& input : proto.input()) {
    MEZZO_RETURN_IF_ERROR(check_new_name(body, input, "function input"));
    body.add_input(input, {});
  }
  MEZZO_RETURN_IF_ERROR(import_nodes(proto.node(), body));
  for (const std::string& output : proto.output()) {
    Value* value = body.find(output);
    if (value == nullptr) {
      return invalid_argument("function output " + in_quotes(output) +
                              ": expected the name of a value, got one that nothing defines");
    }
    body.add_output(value);
  }
  return import_value_info(proto.value_info(), body);
}

// ONNX runs the algorithm joined to the main graph: its nodes see the main graph's values.
Status GraphImporter::import_training_info(const onnx::TrainingInfoProto& proto, const Graph& main,
                                           TrainingInfo& info) {
  warn_unknown_fields(proto);
  if (proto.has_initialization()) {
    info.initialization = std::make_unique<Graph>(proto.initialization().name());
    MEZZO_RETURN_IF_ERROR(
        import_graph(proto.initialization(), *info.initialization).with_context("initialization"));
  }
  if (proto.has_algorithm()) {
    info.algorithm = std::make_unique<Graph>(proto.algorithm().name());
    combined_with_ = &main;
    const Status status = import_graph(proto.algorithm(), *info.algorithm);
    combined_with_ = nullptr;
    MEZZO_RETURN_IF_ERROR(status.with_context("algorithm"));
  }
  info.initialization_binding = pairs_from_proto(proto.initialization_binding());
  info.update_binding = pairs_from_proto(proto.update_binding());
  return ok_status();
}

}  // namespace mezzo
