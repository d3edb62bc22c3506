#include "tools/mezzo/list_ops.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/ops/differentiation.h"

namespace mezzo::cli {
namespace {

std::string in_words(const OpDef& op) {
  switch (differentiation_of(op)) {
    case Differentiation::kRule: return "by a rule of its own";
    case Differentiation::kDecomposed: return "by what it decomposes into";
    case Differentiation::kUnrolled: return "by what is left when it is unrolled";
    case Differentiation::kNoRule:
    case Differentiation::kNot: break;
  }
  return "no: " + std::string(differentiation_gap(op));
}

std::string as_json() {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const OpDef* op : all_ops()) {
    nlohmann::ordered_json row;
    row["domain"] = op->domain.empty() ? "ai.onnx" : op->domain;
    row["op"] = op->name;
    row["gradient"] = differentiation_name(differentiation_of(*op));
    const std::string_view gap = differentiation_gap(*op);
    if (!gap.empty()) row["reason"] = gap;
    ops.push_back(std::move(row));
  }
  return nlohmann::ordered_json({{"ops", std::move(ops)}}).dump(2) + "\n";
}

std::string as_text() {
  std::size_t width = 0;
  for (const OpDef* op : all_ops()) width = std::max(width, qualified_name(*op).size());
  std::map<Differentiation, int> counts;
  std::string text;
  for (const OpDef* op : all_ops()) {
    std::string name = qualified_name(*op);
    name.resize(width, ' ');
    text += name + "  " + in_words(*op) + "\n";
    ++counts[differentiation_of(*op)];
  }
  const int differentiated = counts[Differentiation::kRule] + counts[Differentiation::kDecomposed] +
                             counts[Differentiation::kUnrolled];
  return text + std::to_string(differentiated) + " of " + std::to_string(all_ops().size()) +
         " operators are differentiated, " + std::to_string(counts[Differentiation::kNoRule]) +
         " lack a rule, " + std::to_string(counts[Differentiation::kNot]) +
         " have nothing to differentiate\n";
}

}  // namespace

std::string list_ops(ListForm form) { return form == ListForm::kJson ? as_json() : as_text(); }

}  // namespace mezzo::cli
