// What `compare` found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "passes/numerics/blame.h"
#include "passes/numerics/compare.h"

namespace mezzo::cli {

struct CompareResult {
  std::string a, b, input;  // paths
  double tolerance = 0;
  numerics::Comparison comparison;
  std::optional<numerics::Blame> blame;  // where the outputs depart
  // With --fix: the policy written and the outputs' error of the model converted with it.
  std::string fix;
  std::vector<std::string> fixed_nodes;
  std::optional<double> fixed_error;
  std::uint64_t runs = 0;  // of any graph, in all

  bool agrees() const { return comparison.output_error() <= tolerance; }
};

std::string compare_text(const CompareResult& result, int width);
nlohmann::json compare_json(const CompareResult& result);

// "'loop1 > x'": with the nodes whose graphs it stands in.
std::string full_name(const Value& value);

}  // namespace mezzo::cli
