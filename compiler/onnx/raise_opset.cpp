// raise_opset: ONNX's version converter on a message without weights.
//
// 1. Model-local functions: their ops must mean the same in both versions, as the converter does
// not
//    look into functions.
// 2. Build the message; ops of ONNX's domain that ONNX does not know (exporters of training graphs
//    write such) move to a domain of their own, which the converter leaves alone.
// 3. Convert, and import the result.
// 4. Put back by name what the converter drops: names, notes, types, the constants themselves.
#include <algorithm>
#include <exception>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/proto_types.h"
#include "compiler/ops/guarded_schemas.h"
#include "compiler/support/text.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/version_converter/convert.h"

namespace mezzo {
namespace {

// Stands for ONNX's own domain in nodes that the converter must not look at.
constexpr std::string_view kForeignDomain = "ai.mezzo.foreign";

const onnx::OpSchema* find_schema(const std::string& op_type, std::int64_t version) {
  return onnx::OpSchemaRegistry::Schema(op_type, static_cast<int>(version), "");
}

template <typename Nodes, typename Visit>
void for_each_node(Nodes& nodes, const Visit& visit) {
  for (auto& node : nodes) {
    visit(node);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) for_each_node(*attribute.mutable_g()->mutable_node(), visit);
      for (auto& graph : *attribute.mutable_graphs()) for_each_node(*graph.mutable_node(), visit);
    }
  }
}

// True if every op of a function means the same in both versions.
Status check_function(const Function& function, std::int64_t version) {
  std::int64_t current = 0;
  for (const OpsetImport& opset : function.opsets) {
    if (canonical_domain(opset.domain).empty()) current = opset.version;
  }
  Status status;
  for_each_graph(*function.body, [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!node->domain().empty() || !status.ok()) continue;
      const auto* before = find_schema(node->op_type(), current);
      const auto* after = find_schema(node->op_type(), version);
      if (before && after && before->SinceVersion() == after->SinceVersion()) continue;
      status = unimplemented("raising function '" + printable(function.name) + "' from opset " +
                             std::to_string(current) + " to " + std::to_string(version) + ", as " +
                             describe(*node) + " changes. Hint: inline the function first");
    }
  });
  return status;
}

void restore_constant(const Value& old, Graph& graph, Value* value) {
  const TensorRef& tensor = old.constant();
  if (!tensor || !value->constant() || tensor == value->constant()) return;
  const bool same = tensor->dtype() == value->constant()->dtype() &&
                    tensor->dims() == value->constant()->dims() &&
                    std::ranges::equal(tensor->stored_bytes(), value->constant()->stored_bytes());
  if (same && !tensor->strings()) graph.set_initializer(value, tensor);
}

void restore_values(const Graph& from, Graph& to) {
  for (const Value* old : from.values()) {
    Value* value = to.find(old->name());
    if (!value) continue;
    restore_constant(*old, to, value);
    if (old->type.kind != Type::Kind::kUnknown) value->type = old->type;
    value->doc_string = old->doc_string;
    value->metadata = old->metadata;
  }
}

// Nodes are known by their results: not all have names, and names may repeat.
void restore_node(const Node& from, Node& to) {
  if (to.name.empty()) to.name = from.name;
  to.doc_string = from.doc_string;
  to.metadata = from.metadata;
  to.device_configurations = from.device_configurations;
}

void restore_graph(const Graph& from, Graph& to) {
  to.name = from.name;
  to.doc_string = from.doc_string;
  to.metadata = from.metadata;
  to.value_info = from.value_info;
  to.quantization_annotations = from.quantization_annotations;
  restore_values(from, to);
  for (const auto& node : to.nodes()) {
    const Value* result = nullptr;
    for (const Value* candidate : node->results()) result = result ? result : candidate;
    const Value* old = result ? from.find(result->name()) : nullptr;
    if (!old || !old->producer() || old->producer()->op_type() != node->op_type()) continue;
    restore_node(*old->producer(), *node);
    const auto old_graphs = old->producer()->subgraphs();
    const auto new_graphs = node->subgraphs();
    for (std::size_t i = 0; i < std::min(old_graphs.size(), new_graphs.size()); ++i) {
      restore_graph(*old_graphs[i], *new_graphs[i]);
    }
  }
}

// The message as the converter can take it, with only the main graph.
Status build_for_converter(const Model& model, std::vector<TensorRef>& elided,
                           onnx::ModelProto& proto) {
  ProtoOptions options;
  options.weights = Weights::kElided;
  options.elided = &elided;
  MEZZO_RETURN_IF_ERROR(to_proto(model, options, proto));
  proto.clear_functions();
  proto.clear_configuration();
  proto.mutable_graph()->clear_value_info();
  const std::int64_t version = model.opset();
  for_each_node(*proto.mutable_graph()->mutable_node(), [&](onnx::NodeProto& node) {
    if (node.domain().empty() && !find_schema(node.op_type(), version)) {
      node.set_domain(std::string(kForeignDomain));
    }
  });
  auto& foreign = *proto.add_opset_import();
  foreign.set_domain(std::string(kForeignDomain));
  foreign.set_version(1);
  return ok_status();
}

// The library's adapters take it for granted that operands are there, and attributes of the type
// that the schema says.
Status verify_nodes(onnx::ModelProto& proto, std::int64_t current) {
  Status status;
  for_each_node(*proto.mutable_graph()->mutable_node(), [&](const onnx::NodeProto& node) {
    const auto* schema = node.domain().empty() ? find_schema(node.op_type(), current) : nullptr;
    if (schema == nullptr || !status.ok()) return;
    try {
      schema->Verify(node);
    } catch (const std::exception& error) {
      status = unimplemented("ONNX's checker: " + printable(error.what(), 400));
    }
  });
  return status;
}

StatusOr<std::unique_ptr<Model>> convert(const onnx::ModelProto& proto, std::int64_t version,
                                         std::vector<TensorRef> elided) {
  onnx::ModelProto converted;
  guard_all_schemas();  // the converter infers types
  try {
    converted = onnx::version_conversion::ConvertVersion(proto, static_cast<int>(version));
  } catch (const std::exception& error) {
    return unimplemented("ONNX's converter: " + printable(error.what(), 400));
  }
  for_each_node(*converted.mutable_graph()->mutable_node(), [&](onnx::NodeProto& node) {
    if (node.domain() == kForeignDomain) node.clear_domain();
  });
  auto model = import_proto(converted, std::move(elided));
  if (model.ok()) return model;
  return unimplemented("ONNX's converter gave an invalid model: " + model.status().message());
}

}  // namespace

Status raise_opset(Model& model, std::int64_t version) {
  const std::int64_t current = model.opset();
  if (version == current) return ok_status();
  if (version < current || version > newest_opset()) {
    return invalid_argument("expected an opset from " + std::to_string(current) + " to " +
                            std::to_string(newest_opset()) + ", got " + std::to_string(version));
  }
  if (!model.training_info.empty()) {
    return unimplemented("raising the opset of a model with training_info");
  }
  for (const auto& function : model.functions) {
    MEZZO_RETURN_IF_ERROR(check_function(*function, version));
  }
  std::vector<TensorRef> elided;
  onnx::ModelProto proto;
  MEZZO_RETURN_IF_ERROR(build_for_converter(model, elided, proto));
  const Status verified = verify_nodes(proto, current);
  auto raised = verified.ok() ? convert(proto, version, std::move(elided))
                              : StatusOr<std::unique_ptr<Model>>(verified);
  if (!raised.ok()) {
    return raised.status().with_context("opset " + std::to_string(current) + " to " +
                                        std::to_string(version));
  }
  restore_graph(*model.graph, *(*raised)->graph);
  model.graph = std::move((*raised)->graph);
  model.set_opset("", version);
  for (const auto& function : model.functions) {
    for (OpsetImport& opset : function->opsets) {
      if (canonical_domain(opset.domain).empty()) opset.version = version;
    }
  }
  return ok_status();
}

}  // namespace mezzo
