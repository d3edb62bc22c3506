// Recurrent layers: matrix products over time with bounded activations between.
#include <string>
#include <vector>

#include "compiler/ops/families.h"
#include "compiler/ops/layer_gradients.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

// Kernels have no lists of strings: the names stand in one, between commas.
Status lower_recurrent(const Node& node, LoweredOp& lowered) {
  const Attribute* attribute = node.attribute("activations");
  if (attribute == nullptr) return ok_status();
  std::string names;
  if (const auto* list = std::get_if<std::vector<std::string>>(&attribute->value)) {
    for (const std::string& name : *list) names += (names.empty() ? "" : ",") + name;
  }
  set_attribute(lowered, "activations", std::move(names));
  return ok_status();
}

constexpr OpDef kRnnOps[] = {
    {.name = "RNN",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .gradient = grad_recurrent,
     .lower = lower_recurrent},
    {.name = "LSTM",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .gradient = grad_recurrent,
     .lower = lower_recurrent},
    {.name = "GRU",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .gradient = grad_recurrent,
     .lower = lower_recurrent},
};

}  // namespace

std::span<const OpDef> rnn_ops() { return kRnnOps; }

}  // namespace mezzo
