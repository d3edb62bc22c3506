// raise_opset: ONNX's version converter on a message without weights. The converter drops much of
// what a graph carries along; this is put back by name.
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/support/text.h"
#include "onnx/onnx_pb.h"
#include "onnx/version_converter/convert.h"

namespace mezzo {
namespace {

void restore_values(const Graph& from, Graph& to) {
  for (const Value* old : from.values()) {
    Value* value = to.find(old->name());
    if (!value) continue;
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
  return ok_status();
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
  std::vector<TensorRef> elided;
  onnx::ModelProto proto;
  MEZZO_RETURN_IF_ERROR(build_for_converter(model, elided, proto));
  onnx::ModelProto converted;
  try {
    converted = onnx::version_conversion::ConvertVersion(proto, static_cast<int>(version));
  } catch (const std::exception& error) {
    return unimplemented("opset " + std::to_string(current) + " to " + std::to_string(version) +
                         ": ONNX's converter: " + printable(error.what(), 400));
  }
  auto raised = import_proto(converted, std::move(elided));
  if (!raised.ok()) {
    return unimplemented("opset " + std::to_string(current) + " to " + std::to_string(version) +
                         ": ONNX's converter gave an invalid model: " + raised.status().message());
  }
  restore_graph(*model.graph, *(*raised)->graph);
  model.graph = std::move((*raised)->graph);
  model.opsets = std::move((*raised)->opsets);
  return ok_status();
}

}  // namespace mezzo
