// 1. Do the outputs depend on a 16-bit weight?
// 2. Then all initializers, declared types and attributes that name a 16-bit type become FP32.
//
// Leaves the types of results to `infer-shapes`.
#include "passes/autodiff/widen_weights.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace mezzo::passes {
namespace {

constexpr auto kFloat = static_cast<std::int64_t>(DType::kFloat32);

bool is_16_bit(std::int64_t code) {
  return code == static_cast<std::int64_t>(DType::kFloat16) ||
         code == static_cast<std::int64_t>(DType::kBFloat16);
}
bool is_16_bit(DType dtype) { return is_16_bit(static_cast<std::int64_t>(dtype)); }

TensorRef widened(TensorRef tensor) {
  if (!is_16_bit(tensor->dtype())) return tensor;
  return Tensor::cast_of(std::move(tensor), DType::kFloat32, false);
}

void widen(Type& type) {
  if (is_16_bit(type.tensor.dtype)) type.tensor.dtype = DType::kFloat32;
  if (type.element) {
    Type element = *type.element;
    widen(element);
    type.element = std::make_shared<const Type>(std::move(element));
  }
}

// Attributes that hold an element type: of Cast, and of operators that make tensors.
bool names_a_type(const std::string& attribute) {
  return attribute == "to" || attribute == "dtype" || attribute == "output_dtype" ||
         attribute == "softmax_precision";
}

void widen(Node& node) {
  for (Attribute& attribute : node.mutable_attributes()) {
    if (auto* code = std::get_if<std::int64_t>(&attribute.value);
        code != nullptr && names_a_type(attribute.name) && is_16_bit(*code)) {
      *code = kFloat;
    } else if (auto* tensor = std::get_if<NamedTensor>(&attribute.value)) {
      tensor->tensor = widened(tensor->tensor);
    } else if (auto* tensors = std::get_if<std::vector<NamedTensor>>(&attribute.value)) {
      for (NamedTensor& each : *tensors) each.tensor = widened(each.tensor);
    } else if (auto* type = std::get_if<Type>(&attribute.value)) {
      widen(*type);
    }
  }
}

// All that the outputs are computed from, whatever its type; also what nested graphs read.
std::unordered_set<const Value*> read_by_outputs(const Graph& graph) {
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> stack;
  const auto reach = [&](const Value* value) {
    if (value != nullptr && seen.insert(value).second) stack.push_back(value);
  };
  for (const Value* output : graph.outputs()) reach(output);
  while (!stack.empty()) {
    const Node* node = stack.back()->producer();
    stack.pop_back();
    if (node == nullptr) continue;
    for (const Value* operand : node->operands()) reach(operand);
    for (Graph* inner : node->subgraphs()) {
      for_each_graph(*inner, [&](Graph& nested) {
        for (const auto& each : nested.nodes()) {
          for (const Value* operand : each->operands()) reach(operand);
        }
        for (const Value* output : nested.outputs()) reach(output);
      });
    }
  }
  return seen;
}

// A lone number, such as an epsilon, makes no 16-bit model of one whose casts say what runs low.
std::int64_t count_16_bit_weights(const Graph& graph) {
  const std::unordered_set<const Value*> read = read_by_outputs(graph);
  const auto& values = graph.initializers();
  return std::count_if(values.begin(), values.end(), [&](const Value* value) {
    return value->constant() && value->constant()->elems() > 1 &&
           is_16_bit(value->constant()->dtype()) && read.count(value) > 0;
  });
}

void widen(Graph& root) {
  for_each_graph(root, [](Graph& graph) {
    const std::vector<Value*> initializers = graph.initializers();
    for (Value* value : initializers) {
      if (value->constant() && is_16_bit(value->constant()->dtype()))
        graph.replace_constant(value, widened(value->constant()));
    }
    for (Value* value : graph.values()) widen(value->type);
    for (ValueInfo& info : graph.value_info) widen(info.type);
    for (const auto& node : graph.nodes()) widen(*node);
  });
}

}  // namespace

StatusOr<bool> widen_weights(Model& model, PassContext& ctx) {
  const std::int64_t count = count_16_bit_weights(*model.graph);
  if (count == 0) return false;
  ctx.records.warnings.push_back("the model holds " + std::to_string(count) +
                                 " weights in 16 bits: they are trained as FP32 masters, and "
                                 "--precision says which type the rest runs in");
  widen(*model.graph);
  for (const auto& function : model.functions) {
    if (function->body) widen(*function->body);
  }
  ctx.stats.add("weights-widened", count);
  return true;
}

}  // namespace mezzo::passes
