#include "passes/autodiff/parameter_roles.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/support/dtype.h"

namespace mezzo::passes {
namespace {

struct BiasOperand {
  std::string_view op;
  int operand;
};
constexpr std::array kBiasOperands = {BiasOperand{"Conv", 2},
                                      BiasOperand{"ConvTranspose", 2},
                                      BiasOperand{"DeformConv", 3},
                                      BiasOperand{"Gemm", 2},
                                      BiasOperand{"LSTM", 3},
                                      BiasOperand{"GRU", 3},
                                      BiasOperand{"RNN", 3},
                                      BiasOperand{"FusedConv", 2},
                                      BiasOperand{"FusedGemm", 2},
                                      BiasOperand{"Attention", 2},
                                      BiasOperand{"MultiHeadAttention", 3},
                                      BiasOperand{"BiasGelu", 1},
                                      BiasOperand{"FastGelu", 1},
                                      BiasOperand{"BiasAdd", 1},
                                      BiasOperand{"BiasDropout", 1}};

constexpr std::array<std::string_view, 7> kPassing = {"Cast",    "Identity",  "Reshape", "Squeeze",
                                                      "Flatten", "Unsqueeze", "Expand"};

bool is_normalisation(std::string_view op) {
  return op.find("Normalization") != std::string_view::npos;
}

// Initializers reach their readers in a few steps if at all.
constexpr int kMostSteps = 4;

bool plays_role(const Value& value, int steps) {
  return std::any_of(value.uses().begin(), value.uses().end(), [&](const Use& use) {
    const std::string_view op = use.node->op_type();
    if (is_normalisation(op) && use.operand >= 1) return true;
    const auto is_bias = [&](const BiasOperand& row) {
      return row.op == op && row.operand == static_cast<int>(use.operand);
    };
    if (std::any_of(kBiasOperands.begin(), kBiasOperands.end(), is_bias)) return true;
    const bool passes = steps > 0 && use.operand == 0 && !use.node->results().empty() &&
                        std::find(kPassing.begin(), kPassing.end(), op) != kPassing.end();
    return passes && plays_role(*use.node->results()[0], steps - 1);
  });
}

}  // namespace

std::set<std::string> norms_and_biases(const Graph& graph) {
  std::set<std::string> names;
  for (const Value* value : graph.initializers()) {
    if (!is_floating(value->dtype()) || !value->constant()) continue;
    if (value->constant()->dims().size() <= 1 || plays_role(*value, kMostSteps))
      names.insert(value->name());
  }
  return names;
}

}  // namespace mezzo::passes
