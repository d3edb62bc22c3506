#include "passes/autodiff/training_nodes.h"

#include <algorithm>

namespace mezzo::passes {
namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";

}  // namespace

bool is_gradient(const Node& node) { return node.is("Gradient", kDomain); }

bool is_optimizer(const Node& node) {
  return node.is("Adam", kDomain) || node.is("Momentum", kDomain) || node.is("Adagrad", kDomain);
}

Value* behind_identities(Value* value) {
  while (value != nullptr && value->producer() != nullptr && value->producer()->is("Identity"))
    value = value->producer()->operand(0);
  return value;
}

std::vector<std::string> strings_of(const Node& node, std::string_view attribute) {
  const Attribute* found = node.attribute(attribute);
  const auto* texts = found ? std::get_if<std::vector<std::string>>(&found->value) : nullptr;
  return texts ? *texts : std::vector<std::string>();
}

std::optional<double> constant_of(const Value* value) {
  if (value == nullptr) return std::nullopt;
  TensorRef tensor = value->constant();
  if (!tensor && value->producer() != nullptr && value->producer()->is("Constant")) {
    const Attribute* attribute = value->producer()->attribute("value");
    const auto* named = attribute ? std::get_if<NamedTensor>(&attribute->value) : nullptr;
    if (named != nullptr) tensor = named->tensor;
    if (const Attribute* number = value->producer()->attribute("value_float"))
      if (const auto* f = std::get_if<float>(&number->value)) return *f;
  }
  if (!tensor) return std::nullopt;
  const std::vector<double> values = tensor->to_doubles();
  const bool same = !values.empty() && std::all_of(values.begin(), values.end(),
                                                   [&](double v) { return v == values.front(); });
  return same ? std::optional(values.front()) : std::nullopt;
}

bool counts_up(const Value& count, const Node& node) {
  if (!node.is("Add")) return false;
  const bool first = node.operand(0) == &count;
  const Value* step = node.operand(first ? 1 : 0);
  return (first || node.operand(1) == &count) && constant_of(step) == 1.0;
}

void read_constants(const Node& node, OptimizerRecipe& recipe) {
  recipe.norm_coefficient = node.float_attribute("norm_coefficient", 0);
  if (node.is("Momentum", kDomain)) {
    recipe.op = OptimizerRecipe::Op::kMomentum;
    recipe.alpha = node.float_attribute("alpha", 0);
    recipe.beta = node.float_attribute("beta", 1);
    recipe.nesterov = node.string_attribute("mode", "standard") == "nesterov";
    return;
  }
  recipe.epsilon = node.float_attribute("epsilon", 1e-6F);
  if (node.is("Adagrad", kDomain)) {
    recipe.op = OptimizerRecipe::Op::kAdagrad;
    recipe.decay_factor = node.float_attribute("decay_factor", 0);
    return;
  }
  recipe.op = OptimizerRecipe::Op::kAdam;
  recipe.alpha = node.float_attribute("alpha", 0.9F);
  recipe.beta = node.float_attribute("beta", 0.999F);
  recipe.norm_coefficient_post = node.float_attribute("norm_coefficient_post", 0);
}

void read_rate(const Value* rate, OptimizerRecipe& recipe) {
  recipe.rate = constant_of(rate);
  recipe.rate_name = rate == nullptr ? "" : rate->name();
}

}  // namespace mezzo::passes
