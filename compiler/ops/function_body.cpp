// Expands operators that ONNX defines as functions of others: the body comes from the library's
// schema, at the model's opset.
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose.h"
#include "compiler/ops/function_body.h"
#include "compiler/ops/onnx_schema.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/type_proto.h"

namespace mezzo {
namespace {

bool has_subgraph(const onnx::FunctionProto& body) {
  for (const auto& node : body.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g() || attribute.graphs_size() > 0) return true;
    }
  }
  return false;
}

TensorRef tensor_from_proto(const onnx::TensorProto& proto) {
  const std::vector<std::int64_t> dims(proto.dims().begin(), proto.dims().end());
  const auto dtype = static_cast<DType>(proto.data_type());
  if (proto.has_raw_data()) {
    const auto* bytes = reinterpret_cast<const std::byte*>(proto.raw_data().data());
    return Tensor::from_bytes(dtype, dims, {bytes, bytes + proto.raw_data().size()});
  }
  if (dtype == DType::kInt64)
    return Tensor::from_ints(dims,
                             std::vector(proto.int64_data().begin(), proto.int64_data().end()));
  if (dtype == DType::kFloat32)
    return Tensor::from_floats(dims,
                               std::vector(proto.float_data().begin(), proto.float_data().end()));
  if (proto.double_data_size() == 1) return Tensor::scalar(dtype, proto.double_data(0));
  // Smaller types share int32_data; float16 and bfloat16 as bit patterns.
  std::vector<std::byte> bytes;
  for (const std::int32_t value : proto.int32_data()) {
    for (int i = 0; i < dtype_bits(dtype) / 8; ++i)
      bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return Tensor::from_bytes(dtype, dims, std::move(bytes));
}

Attribute::Value value_from_proto(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::FLOAT: return proto.f();
    case onnx::AttributeProto::INT: return static_cast<std::int64_t>(proto.i());
    case onnx::AttributeProto::STRING: return proto.s();
    case onnx::AttributeProto::TENSOR: return NamedTensor{{}, tensor_from_proto(proto.t())};
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::INTS:
      return std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    default: return std::monostate();
  }
}

void add_attributes(const Node& node, onnx::NodeProto& proto);

// What a graph in an attribute computes, beside its inputs and outputs: bodies may take it over.
void add_content(const Graph& graph, onnx::GraphProto& proto) {
  for (const Value* value : graph.initializers()) {
    onnx::TensorProto& tensor = *proto.add_initializer();
    if (value->constant()) to_proto(*value->constant(), tensor);
    tensor.set_name(value->name());
  }
  for (const auto& node : graph.nodes()) {
    onnx::NodeProto& inner = *proto.add_node();
    inner.set_op_type(node->op_type());
    inner.set_domain(node->domain());
    for (const Value* operand : node->operands()) inner.add_input(operand ? operand->name() : "");
    for (const Value* result : node->results()) inner.add_output(result ? result->name() : "");
    add_attributes(*node, inner);
  }
}

void add_attributes(const Node& node, onnx::NodeProto& proto) {
  for (const Attribute& attribute : node.attributes()) {
    onnx::AttributeProto& added = *proto.add_attribute();
    to_proto(attribute, added);
    const auto* graph = std::get_if<Attribute::GraphRef>(&attribute.value);
    if (graph != nullptr && *graph) add_content(**graph, *added.mutable_g());
  }
}

// Messages leave out the numbers of large tensors: a body made of such graphs would lack them.
bool has_small_graphs(const Node& node) {
  bool small = true;
  for (Graph* graph : node.subgraphs()) {
    for_each_graph(*graph, [&](Graph& inner) {
      for (const Value* value : inner.initializers()) {
        small = small && value->constant() && small_enough_for_inference(*value->constant());
      }
    });
  }
  return small;
}

class BodyBuilder {
 public:
  BodyBuilder(Node& node, const onnx::OpSchema& schema, const onnx::FunctionProto& body,
              const Model* model)
      : node_(node),
        schema_(schema),
        body_(body),
        builder_(
            *node.graph(), [model](Node& inner) { return infer_types(inner, model); }, &node) {
    builder_.set_scope(node.name.empty() ? node.op_type() : node.name);
  }

  Status run() {
    for (int i = 0; i < body_.input_size(); ++i) values_[body_.input(i)] = node_.operand(i);
    for (const auto& inner : body_.node()) add(inner);
    MEZZO_RETURN_IF_ERROR(builder_.status());
    Graph& graph = *node_.graph();
    for (std::size_t i = 0; i < node_.results().size(); ++i) {
      Value* result = node_.result(i);
      if (result == nullptr) continue;
      Value* replacement =
          i < static_cast<std::size_t>(body_.output_size()) ? find(body_.output(i)) : nullptr;
      if (replacement == nullptr) {
        return invalid_argument(describe(node_) + ": the operator has no result " +
                                std::to_string(i));
      }
      graph.replace_uses(result, replacement);
    }
    graph.erase(&node_);
    return ok_status();
  }

 private:
  Value* find(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    return node_.graph()->find(name);  // what a graph in an attribute reads of the graph around it
  }

  void add(const onnx::NodeProto& proto) {
    std::vector<Value*> operands;
    for (const std::string& name : proto.input())
      operands.push_back(name.empty() ? nullptr : find(name));
    Node* inner = builder_.node(proto.op_type(), std::move(operands), proto.output_size(),
                                attributes_of(proto), canonical_domain(proto.domain()));
    // Constants become initializers: others may then read their values.
    const TensorRef tensor = inner->is("Constant") ? constant_of(inner->result()) : nullptr;
    if (tensor != nullptr) {
      values_[proto.output(0)] = builder_.constant(tensor);
      node_.graph()->erase(inner);
      return;
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      if (!proto.output(i).empty()) values_[proto.output(i)] = inner->result(i);
    }
  }

  // References to attributes of the function are replaced by the node's value, or the default.
  std::vector<Builder::NamedValue> attributes_of(const onnx::NodeProto& proto) {
    std::vector<Builder::NamedValue> attributes;
    for (const auto& attribute : proto.attribute()) {
      if (attribute.ref_attr_name().empty()) {
        attributes.emplace_back(attribute.name(), value_from_proto(attribute));
      } else if (const Attribute* given = node_.attribute(attribute.ref_attr_name())) {
        attributes.emplace_back(attribute.name(), given->value);
      } else if (const auto* fallback =
                     default_attribute(attribute.ref_attr_name(), body_, schema_)) {
        attributes.emplace_back(attribute.name(), value_from_proto(*fallback));
      }
    }
    return attributes;
  }

  Node& node_;
  const onnx::OpSchema& schema_;
  const onnx::FunctionProto& body_;
  Builder builder_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

onnx::NodeProto node_to_proto(const Node& node) {
  onnx::NodeProto proto;
  proto.set_op_type(node.op_type());
  proto.set_domain(node.domain());
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    proto.add_input(node.operand(i) ? "operand" + std::to_string(i) : "");
  }
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    proto.add_output(node.result(i) ? "result" + std::to_string(i) : "");
  }
  add_attributes(node, proto);
  return proto;
}

std::vector<onnx::TypeProto> operand_types(const Node& node) {
  std::vector<onnx::TypeProto> types(node.operand_count());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (node.operand(i) != nullptr) to_proto(node.operand(i)->type, types[i]);
  }
  return types;
}

bool find_body(const onnx::NodeProto& node, const std::vector<onnx::TypeProto>& types,
               const onnx::OpSchema& schema, int opset, onnx::FunctionProto& body) {
  if (schema.HasFunction()) {
    const onnx::FunctionProto* fixed = schema.GetFunction(opset);
    if (fixed == nullptr) return false;
    body = *fixed;
    return true;
  }
  if (!schema.HasContextDependentFunction()) return false;
  const onnx::FunctionBodyBuildContextImpl context(node, types);
  return schema.BuildContextDependentFunction(context, body, opset);
}

const onnx::AttributeProto* default_attribute(const std::string& name,
                                              const onnx::FunctionProto& body,
                                              const onnx::OpSchema& schema) {
  for (const auto& attribute : body.attribute_proto()) {
    if (attribute.name() == name) return &attribute;
  }
  const auto found = schema.attributes().find(name);
  const bool has_default =
      found != schema.attributes().end() && found->second.default_value.has_type();
  return has_default ? &found->second.default_value : nullptr;
}

StatusOr<bool> expand_function_body(Node& node, const Model* model) {
  const int newest = newest_opset(node.domain());
  const std::int64_t wanted = model ? model->opset(node.domain()) : 0;
  int opset = wanted > 0 && wanted <= newest ? static_cast<int>(wanted) : newest;
  const auto* schema = find_schema(node.op_type(), node.domain(), opset);
  if (schema == nullptr) {  // newer than the model's opset: see infer.cpp
    opset = newest;
    schema = find_schema(node.op_type(), node.domain(), opset);
  }
  if (schema == nullptr) return false;
  if (!has_small_graphs(node)) return false;
  onnx::FunctionProto body;
  try {
    const onnx::NodeProto proto = node_to_proto(node);
    if (!find_body(proto, operand_types(node), *schema, opset, body) || has_subgraph(body))
      return false;
  } catch (const std::exception& error) {
    return invalid_argument(describe(node) +
                            ": its function body cannot be built: " + error.what());
  }
  MEZZO_RETURN_IF_ERROR(BodyBuilder(node, *schema, body, model).run());
  return true;
}

}  // namespace mezzo
