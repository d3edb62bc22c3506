// Does the function body of an operator hold when its operands turn low?
//
// A schema may take a type that an operator in its own function body does not take at that opset:
// Clip takes bfloat16 from 12 on, the Where in its body only from 16 on. A runtime that has a
// kernel for Clip never notices; one that executes the body refuses the model.
//
// 1. The body for these operand types, as a graph with attribute references resolved.
// 2. ONNX's own inference over it, strict and with types checked against the schemas.
// 3. The same for the bodies of the nodes in it.
// Answers are kept by node, attributes and operand types: a model asks of few different ones.
#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ops/function_body.h"
#include "compiler/ops/guarded_schemas.h"
#include "compiler/ops/onnx_schema.h"
#include "compiler/ops/schema.h"
#include "compiler/ops/type_proto.h"
#include "onnx/shape_inference/implementation.h"

namespace mezzo {
namespace {

constexpr int kDeepestBody = 8;  // functions of functions; ONNX's own go three deep

using Types = std::unordered_map<std::string, onnx::TypeProto>;

// Attributes that refer to the function's take the node's value, the default, or go.
void resolve_attributes(const onnx::NodeProto& node, const onnx::FunctionProto& body,
                        const onnx::OpSchema& schema, onnx::NodeProto& inner) {
  std::vector<onnx::AttributeProto> kept;
  for (const auto& attribute : inner.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      kept.push_back(attribute);
      continue;
    }
    const onnx::AttributeProto* value = nullptr;
    for (const auto& given : node.attribute()) {
      if (given.name() == attribute.ref_attr_name()) value = &given;
    }
    if (value == nullptr) value = default_attribute(attribute.ref_attr_name(), body, schema);
    if (value == nullptr) continue;
    kept.push_back(*value);
    kept.back().set_name(attribute.name());
  }
  inner.clear_attribute();
  for (auto& attribute : kept) *inner.add_attribute() = std::move(attribute);
}

onnx::ModelProto model_of(const onnx::NodeProto& node, const std::vector<onnx::TypeProto>& types,
                          const onnx::OpSchema& schema, const onnx::FunctionProto& body,
                          int opset) {
  onnx::ModelProto model;
  model.set_ir_version(onnx::Version::IR_VERSION);
  auto& import = *model.add_opset_import();
  import.set_domain(schema.domain());
  import.set_version(opset);
  for (const auto& other : body.opset_import()) {
    if (other.domain() != schema.domain()) *model.add_opset_import() = other;
  }
  auto& graph = *model.mutable_graph();
  for (int i = 0; i < body.input_size(); ++i) {
    const bool given = i < node.input_size() && !node.input(i).empty();
    if (!given) continue;
    auto& input = *graph.add_input();
    input.set_name(body.input(i));
    *input.mutable_type() = types[static_cast<std::size_t>(i)];
  }
  for (const auto& inner : body.node()) {
    *graph.add_node() = inner;
    auto& added = *graph.mutable_node(graph.node_size() - 1);
    for (int i = 0; i < added.input_size(); ++i) {  // absent operands of the node are absent inside
      for (int k = 0; k < body.input_size(); ++k) {
        const bool given = k < node.input_size() && !node.input(k).empty();
        if (!given && added.input(i) == body.input(k)) added.set_input(i, "");
      }
    }
    resolve_attributes(node, body, schema, added);
  }
  for (int i = 0; i < body.output_size(); ++i) graph.add_output()->set_name(body.output(i));
  return model;
}

Types types_in(const onnx::GraphProto& graph) {
  Types types;
  for (const auto* list : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const auto& value : *list) types[value.name()] = value.type();
  }
  return types;
}

// The library's message on one line, without its tags.
std::string first_line(const std::string& message) {
  const std::size_t start = message.find("] ") == std::string::npos ? 0 : message.find("] ") + 2;
  return message.substr(start, message.find('\n', start) - start);
}

// "" if the body, where there is one, takes operands of these types. `results` get what it gives.
std::string body_fault(const onnx::NodeProto& node, const std::vector<onnx::TypeProto>& types,
                       int opset, int depth, std::vector<DType>* results) {
  const auto* schema = find_schema(node.op_type(), node.domain(), opset);
  if (schema == nullptr || depth > kDeepestBody) return "";
  onnx::FunctionProto body;
  onnx::ModelProto model;
  try {
    if (!find_body(node, types, *schema, opset, body)) return "";
    model = model_of(node, types, *schema, body, opset);
    const onnx::ShapeInferenceOptions strict(true, 1, false);
    onnx::shape_inference::InferShapes(model, &guarded_schemas(), strict);
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
  const Types known = types_in(model.graph());
  for (const auto& inner : model.graph().node()) {
    std::vector<onnx::TypeProto> inner_types;
    for (const auto& name : inner.input()) {
      const auto found = known.find(name);
      inner_types.push_back(found == known.end() ? onnx::TypeProto() : found->second);
    }
    std::string fault = body_fault(inner, inner_types, opset, depth + 1, nullptr);
    if (!fault.empty()) return fault;
  }
  for (int i = 0; results != nullptr && i < model.graph().output_size(); ++i) {
    results->push_back(from_proto(model.graph().output(i).type()).tensor.dtype);
  }
  return "";
}

// The operand types with the marked ones changed.
std::vector<onnx::TypeProto> changed(std::vector<onnx::TypeProto> types,
                                     const std::vector<bool>& marked, DType dtype) {
  for (std::size_t i = 0; i < std::min(types.size(), marked.size()); ++i) {
    if (marked[i] && types[i].has_tensor_type())
      types[i].mutable_tensor_type()->set_elem_type(static_cast<int>(dtype));
  }
  return types;
}

std::string fault_of(const Node& node, const std::vector<bool>& operands,
                     const std::vector<bool>& results, DType dtype, int opset) {
  const onnx::NodeProto proto = node_to_proto(node);
  const std::vector<onnx::TypeProto> types = operand_types(node);
  std::vector<DType> given;
  std::string fault = body_fault(proto, changed(types, operands, dtype), opset, 0, &given);
  for (std::size_t i = 0; fault.empty() && i < std::min(given.size(), results.size()); ++i) {
    if (results[i] && given[i] != DType::kNone && given[i] != dtype)
      fault = "it gives " + std::string(dtype_name(given[i]));
  }
  // A body that inference refuses even for the types that the model has tells nothing.
  return fault.empty() || !body_fault(proto, types, opset, 0, nullptr).empty() ? "" : fault;
}

// What the answer depends on.
std::string question(const Node& node, const std::vector<bool>& operands,
                     const std::vector<bool>& results, DType dtype, std::int64_t opset) {
  std::string key = node_to_proto(node).SerializeAsString() + std::to_string(opset) + ':' +
                    std::to_string(static_cast<int>(dtype));
  for (const onnx::TypeProto& type : changed(operand_types(node), operands, dtype)) {
    key += ',' + std::to_string(type.tensor_type().elem_type());
    if (type.tensor_type().has_shape())
      key += '/' + std::to_string(type.tensor_type().shape().dim_size());
  }
  for (const bool low : results) key += low ? '1' : '0';
  return key;
}

}  // namespace

std::string function_body_fault(const Node& node, const std::vector<bool>& operands,
                                const std::vector<bool>& results, DType dtype, std::int64_t opset) {
  if (!node.domain().empty() || opset > newest_opset("")) return "";
  const auto* schema = find_schema(node.op_type(), node.domain(), static_cast<int>(opset));
  if (schema == nullptr || !(schema->HasFunction() || schema->HasContextDependentFunction()))
    return "";
  static std::mutex mutex;
  static auto* answers = new std::unordered_map<std::string, std::string>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] =
      answers->try_emplace(question(node, operands, results, dtype, opset));
  if (is_new) entry->second = fault_of(node, operands, results, dtype, static_cast<int>(opset));
  return entry->second;
}

}  // namespace mezzo
