#include "passes/autodiff/parameter_roles.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/ops/constants.h"
#include "compiler/support/dtype.h"

namespace mezzo::passes {
namespace {

struct OperandOf {
  std::string_view op;
  std::size_t operand;
};
constexpr std::array kBiasOperands = {OperandOf{"Conv", 2},
                                      OperandOf{"ConvTranspose", 2},
                                      OperandOf{"DeformConv", 3},
                                      OperandOf{"Gemm", 2},
                                      OperandOf{"LSTM", 3},
                                      OperandOf{"GRU", 3},
                                      OperandOf{"RNN", 3},
                                      OperandOf{"FusedConv", 2},
                                      OperandOf{"FusedGemm", 2},
                                      OperandOf{"Attention", 2},
                                      OperandOf{"MultiHeadAttention", 3},
                                      OperandOf{"BiasGelu", 1},
                                      OperandOf{"FastGelu", 1},
                                      OperandOf{"BiasAdd", 1},
                                      OperandOf{"BiasDropout", 1}};

constexpr std::array kWeightOperands = {
    OperandOf{"Conv", 1},        OperandOf{"ConvTranspose", 1}, OperandOf{"DeformConv", 1},
    OperandOf{"FusedConv", 1},   OperandOf{"MatMul", 0},        OperandOf{"MatMul", 1},
    OperandOf{"FusedMatMul", 0}, OperandOf{"FusedMatMul", 1},   OperandOf{"Gemm", 0},
    OperandOf{"Gemm", 1},        OperandOf{"FusedGemm", 0},     OperandOf{"FusedGemm", 1},
    OperandOf{"LSTM", 1},        OperandOf{"LSTM", 2},          OperandOf{"LSTM", 7},
    OperandOf{"GRU", 1},         OperandOf{"GRU", 2},           OperandOf{"RNN", 1},
    OperandOf{"RNN", 2},         OperandOf{"PRelu", 1},         OperandOf{"Attention", 1}};

constexpr std::array<std::string_view, 8> kPassing = {
    "Cast", "Identity", "Reshape", "Squeeze", "Flatten", "Unsqueeze", "Expand", "Transpose"};

bool is_normalisation(std::string_view op) {
  return op.find("Normalization") != std::string_view::npos;
}

// Initializers reach their readers in a few steps if at all.
constexpr int kMostSteps = 4;

template <std::size_t kRows>
bool is_in(const std::array<OperandOf, kRows>& rows, const Use& use) {
  return std::any_of(rows.begin(), rows.end(), [&](const OperandOf& row) {
    return row.op == use.node->op_type() && row.operand == use.operand;
  });
}

bool is_norm_or_bias(const Use& use) {
  return (is_normalisation(use.node->op_type()) && use.operand >= 1) || is_in(kBiasOperands, use);
}

// A table of rows; what is picked at constant places (a mask's first row) is not.
bool is_table(const Use& use) {
  const Node& node = *use.node;
  if (!node.is("Gather") || use.operand != 0 || node.int_attribute("axis", 0) != 0) return false;
  const auto dims = static_dims(node.operand(0));
  return dims && dims->size() == 2 && constant_of(node.operand(1)) == nullptr;
}

// Is `fits` true of a use of the value, or of what it passes through?
template <typename Fits>
bool any_use(const Value& value, int steps, const Fits& fits) {
  return std::any_of(value.uses().begin(), value.uses().end(), [&](const Use& use) {
    if (fits(use)) return true;
    const std::string_view op = use.node->op_type();
    const bool passes = steps > 0 && use.operand == 0 && use.node->result(0) != nullptr &&
                        std::find(kPassing.begin(), kPassing.end(), op) != kPassing.end();
    return passes && any_use(*use.node->result(0), steps - 1, fits);
  });
}

}  // namespace

std::set<std::string> norms_and_biases(const Graph& graph) {
  std::set<std::string> names;
  for (const Value* value : graph.initializers()) {
    if (!is_floating(value->dtype()) || !value->constant()) continue;
    if (value->constant()->dims().size() <= 1 || any_use(*value, kMostSteps, is_norm_or_bias))
      names.insert(value->name());
  }
  return names;
}

bool is_read_as_parameter(const Value& value) {
  return any_use(value, kMostSteps, [](const Use& use) {
    return is_norm_or_bias(use) || is_in(kWeightOperands, use) || is_table(use);
  });
}

}  // namespace mezzo::passes
