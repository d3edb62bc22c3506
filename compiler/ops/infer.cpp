// Type inference: the catalogue's own rules, and ONNX's schemas behind an adapter.
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ops/constants.h"
#include "compiler/ops/guarded_schemas.h"
#include "compiler/ops/merge_types.h"
#include "compiler/ops/onnx_schema.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/type_proto.h"
#include "compiler/support/text.h"
#include "onnx/defs/shape_inference.h"

namespace mezzo {
namespace {

// Carries a Status of ours through the library, which speaks in exceptions.
struct StatusException : std::exception {
  explicit StatusException(Status reason) : status(std::move(reason)) {}
  const char* what() const noexcept override { return status.message().c_str(); }
  Status status;
};

Status infer_graph(Graph& graph, const Model* model) {
  for (const auto& node : graph.nodes()) MEZZO_RETURN_IF_ERROR(infer_types(*node, model));
  return ok_status();
}

// Infers a subgraph of If, Loop or Scan when the library asks, in place.
class SubgraphInferencer : public onnx::GraphInferencer {
 public:
  SubgraphInferencer(Graph& graph, const Model* model) : graph_(graph), model_(model) {}

  std::vector<const onnx::TypeProto*> doInferencing(
      const std::vector<const onnx::TypeProto*>& input_types,
      const std::vector<const onnx::TensorProto*>&) override {
    const std::size_t count = std::min(input_types.size(), graph_.inputs().size());
    for (std::size_t i = 0; i < count; ++i) {
      if (input_types[i] != nullptr)
        check(merge_type(*graph_.inputs()[i], from_proto(*input_types[i])));
    }
    check(infer_graph(graph_, model_));
    std::vector<const onnx::TypeProto*> types;
    outputs_ = std::vector<onnx::TypeProto>(graph_.outputs().size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      to_proto(graph_.outputs()[i]->type, outputs_[i]);
      types.push_back(&outputs_[i]);
    }
    return types;
  }

 private:
  static void check(Status status) {
    if (!status.ok()) throw StatusException(std::move(status));
  }

  Graph& graph_;
  const Model* model_;
  std::vector<onnx::TypeProto> outputs_;
};

// One node, as the library's inference functions want to see it.
class NodeContext : public onnx::InferenceContext {
 public:
  NodeContext(Node& node, const Model* model) : node_(node), model_(model) {
    const std::size_t count = node.operand_count();
    input_types_.resize(count);
    input_data_.resize(count);
    has_type_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (const Value* value = node.operand(i))
        has_type_[i] = to_proto(value->type, input_types_[i]);
    }
    output_types_.resize(node.results().size());
  }

  bool all_operand_types_known() const {
    for (std::size_t i = 0; i < has_type_.size(); ++i) {
      if (node_.operand(i) != nullptr && !has_type_[i]) return false;
    }
    return true;
  }
  const std::vector<onnx::TypeProto>& output_types() const { return output_types_; }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    const auto found = attributes_.find(name);
    if (found != attributes_.end()) return found->second.get();
    const Attribute* attribute = node_.attribute(name);
    if (attribute == nullptr || attribute->kind() == Attribute::Kind::kNone) return nullptr;
    auto& slot = attributes_[name];
    slot = std::make_unique<onnx::AttributeProto>();
    to_proto(*attribute, *slot);
    return slot.get();
  }
  std::size_t getNumInputs() const override { return input_types_.size(); }
  bool hasInput(std::size_t index) const override { return node_.operand(index) != nullptr; }
  const onnx::TypeProto* getInputType(std::size_t index) const override {
    return index < has_type_.size() && has_type_[index] ? &input_types_[index] : nullptr;
  }
  const onnx::TensorProto* getInputData(std::size_t index) const override {
    if (index >= input_data_.size()) return nullptr;
    if (!input_data_[index]) {
      const TensorRef tensor = constant_of(node_.operand(index));
      if (!tensor || !small_enough_for_inference(*tensor)) return nullptr;
      input_data_[index] = std::make_unique<onnx::TensorProto>();
      to_proto(*tensor, *input_data_[index]);
    }
    return input_data_[index].get();
  }
  std::size_t getNumOutputs() const override { return output_types_.size(); }
  onnx::TypeProto* getOutputType(std::size_t index) override {
    if (index >= output_types_.size()) fail_type_inference("Output ", index, " is out of bounds");
    return &output_types_[index];
  }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    const Attribute* attribute = node_.attribute(name);
    const auto* graph = attribute ? std::get_if<Attribute::GraphRef>(&attribute->value) : nullptr;
    if (graph == nullptr || !*graph) fail_type_inference("Attribute ", name, " holds no graph");
    auto& slot = subgraphs_[name];
    if (!slot) slot = std::make_unique<SubgraphInferencer>(**graph, model_);
    return slot.get();
  }
  const onnx::SparseTensorProto* getInputSparseData(std::size_t) const override { return nullptr; }
  // Shapes computed by Shape, Gather, Concat and the like are folded by a pass instead.
  const onnx::TensorShapeProto* getSymbolicInput(std::size_t) const override { return nullptr; }
  std::string getDisplayName() const override { return node_.name; }

 private:
  Node& node_;
  const Model* model_;
  std::vector<onnx::TypeProto> input_types_, output_types_;
  std::vector<bool> has_type_;
  mutable std::vector<std::unique_ptr<onnx::TensorProto>> input_data_;
  mutable std::unordered_map<std::string, std::unique_ptr<onnx::AttributeProto>> attributes_;
  std::map<std::string, std::unique_ptr<SubgraphInferencer>> subgraphs_;
};

// "operands float[2,3], float[4,5]"
std::string operand_types(const Node& node) {
  std::string text = node.operand_count() == 0 ? "no operands" : "operands ";
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    if (i > 0) text += ", ";
    const Value* value = node.operand(i);
    text += value ? to_string(value->type) + " '" + printable(value->name()) + "'" : "(absent)";
  }
  return text;
}

// The library's message without its tag and its multi-line context.
std::string clean_message(std::string message) {
  for (const std::string_view tag : {"[ShapeInferenceError] ", "[TypeInferenceError] "}) {
    if (message.rfind(tag, 0) == 0) message.erase(0, tag.size());
  }
  return message.substr(0, message.find('\n'));
}

Status contradiction(const Node& node, const std::string& why) {
  return invalid_argument(describe(node) + ": " + why + "; got " + operand_types(node));
}

// The schema at the model's opset. An operator that a pass uses although the model's opset does not
// have it yet (Gelu in an opset 17 model, for our runtime) is read by its newest schema.
const onnx::OpSchema* schema_for(const Node& node, const Model* model) {
  const int newest = newest_opset(node.domain());
  std::int64_t opset = model ? model->opset(node.domain()) : 0;
  if (opset <= 0 || opset > newest) opset = newest;
  const auto* schema = find_schema(node.op_type(), node.domain(), static_cast<int>(opset));
  return schema ? schema : find_schema(node.op_type(), node.domain(), newest);
}

// For the two operators whose schemas infer nothing, GroupNormalization and
// MeanVarianceNormalization: the one result is like the first operand.
Status infer_like_first(Node& node) {
  const Value* first = node.operand(0);
  if (first == nullptr || node.result() == nullptr) return ok_status();
  const Status status = merge_type(*node.result(), first->type);
  return status.ok() ? status : contradiction(node, status.message());
}

// What the library's inference does not tell although operands and constants do.
Status infer_what_is_left_out(Node& node) {
  if (!node.is("MaxUnpool") || node.operand(2) == nullptr || node.result() == nullptr) {
    return ok_status();
  }
  const auto dims = constant_ints(node.operand(2));
  if (!dims || node.operand(0) == nullptr) return ok_status();
  const Status status = merge_type(*node.result(), TensorType::of(node.operand(0)->dtype(), *dims));
  return status.ok() ? status : contradiction(node, status.message());
}

Status infer_from_schema(Node& node, const Model* model) {
  const auto* schema = schema_for(node, model);
  if (schema == nullptr) return ok_status();
  if (!schema->has_type_and_shape_inference_function()) {
    const bool normalises = node.domain().empty() &&
                            (node.is("GroupNormalization") || node.is("MeanVarianceNormalization"));
    return normalises ? infer_like_first(node) : ok_status();
  }
  NodeContext context(node, model);
  try {
    run_inference(*schema, context);
  } catch (const StatusException& error) {
    return error.status;
  } catch (const std::exception& error) {
    // Without all operand types the library's complaint says nothing about the model.
    if (!context.all_operand_types_known()) return ok_status();
    return contradiction(node, clean_message(error.what()));
  }
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    Value* result = node.result(i);
    if (result == nullptr) continue;
    const Status status = merge_type(*result, from_proto(context.output_types()[i]));
    if (!status.ok()) return contradiction(node, status.message());
  }
  return infer_what_is_left_out(node);
}

}  // namespace

Status infer_types(Node& node, const Model* model) {
  const OpDef* op = find_op(node);
  if (op == nullptr || op->infer_types == kFromSchema) return infer_from_schema(node, model);
  const Status status = op->infer_types(node);
  if (status.ok() || status.code() != StatusCode::kInvalidArgument) return status;
  return contradiction(node, status.message());
}

Status infer_types(Model& model) { return infer_graph(*model.graph, &model); }

Builder::InferTypes type_inference(const Model& model) {
  return [&model](Node& node) { return infer_types(node, &model); };
}

}  // namespace mezzo
