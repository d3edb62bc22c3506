#include "passes/autodiff/weight_facts.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace mezzo::passes {

bool is_weight(const Value* value) {
  return value != nullptr && value->is_fixed() && value->constant() && is_floating(value->dtype());
}

bool has_one_value(const Tensor& tensor) {
  if (tensor.dims().empty() || tensor.elems() == 0 || tensor.elems() > kMostCompared) return false;
  const std::vector<double> values = tensor.to_doubles();
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [&](double value) { return value == values.front(); });
}

std::string without_numbers(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (text.empty() || text.back() != '#') text += '#';
    } else {
      text += c;
    }
  }
  return text;
}

bool is_computed(const Value& weight) { return weight.name().starts_with("val_"); }

}  // namespace mezzo::passes
