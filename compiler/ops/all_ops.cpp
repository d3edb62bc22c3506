// Gathers the families and answers questions about single operators.
#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/ops/families.h"
#include "compiler/ops/op_def.h"

namespace mezzo {
namespace {

using Table = std::vector<const OpDef*>;

bool comes_before(const OpDef* a, const OpDef* b) {
  return a->domain != b->domain ? a->domain < b->domain : a->name < b->name;
}

// Sorted by domain, then name: also what find_op searches.
const Table& table() {
  static const auto* const sorted = [] {
    auto* list = new Table;
    for (const auto family : {elementwise_ops(),
                              logic_ops(),
                              activation_ops(),
                              contraction_ops(),
                              conv_ops(),
                              norm_ops(),
                              softmax_loss_ops(),
                              reduce_ops(),
                              pool_ops(),
                              movement_ops(),
                              index_ops(),
                              shape_ops(),
                              random_ops(),
                              image_ops(),
                              control_ops(),
                              sequence_ops(),
                              quantize_ops(),
                              rnn_ops(),
                              contrib_ops(),
                              contrib_training_ops(),
                              preview_training_ops(),
                              mezzo_ops(),
                              mezzo_grad_ops(),
                              mezzo_layer_grad_ops()}) {
      for (const OpDef& op : family) list->push_back(&op);
    }
    std::sort(list->begin(), list->end(), comes_before);
    return list;
  }();
  return *sorted;
}

}  // namespace

const OpDef* find_op(std::string_view name, std::string_view domain) {
  domain = canonical_domain(domain);
  const OpDef key{.name = name, .domain = domain, .precision = PrecisionCategory::kDeny};
  const auto found = std::lower_bound(table().begin(), table().end(), &key, comes_before);
  const bool hit = found != table().end() && (*found)->name == name && (*found)->domain == domain;
  return hit ? *found : nullptr;
}

std::span<const OpDef* const> all_ops() { return table(); }

std::string_view category_name(PrecisionCategory category) {
  switch (category) {
    case PrecisionCategory::kAllow: return "allow";
    case PrecisionCategory::kInfer: return "infer";
    case PrecisionCategory::kClear: return "clear";
    case PrecisionCategory::kDeny: return "deny";
  }
  return "?";
}

std::string_view pin_name(PinKind pin) {
  switch (pin) {
    case PinKind::kNone: return "none";
    case PinKind::kEmbedding: return "embedding";
    case PinKind::kNormalization: return "normalization";
    case PinKind::kSoftmax: return "softmax";
    case PinKind::kLoss: return "loss";
  }
  return "?";
}

}  // namespace mezzo
