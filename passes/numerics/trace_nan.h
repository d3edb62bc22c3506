// Finds the node that makes the first inf or NaN of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/interpreter/interpreter.h"

namespace mezzo::numerics {

// A node whose result is not finite though it read nothing like it: infinities out of finite
// numbers, or NaN where no operand held one (an infinity among them may be a mask).
struct NanOrigin {
  std::string node, op;  // with the nodes whose graphs it stands in: "loop1 > div"
  std::string result;    // name
  std::uint64_t nans = 0, infinities = 0, elems = 0;
  std::uint64_t time = 0;  // how often the node ran before: in a Loop, the iteration
  std::string operands;    // their ranges: "'x' 0 to 3, 's' all 0"; "" if it reads none

  // "node 'div' (Div) makes NaN in 3 of 12 elements of 'y'; it reads 's' all 0"
  std::string text() const;
};

class NanTracer {
 public:
  // To be called for every node in order, see InterpreterOptions::observer.
  Status observe(const NodeRun& run);

  const std::optional<NanOrigin>& first() const { return first_; }
  // The first that makes NaN, where the first of all makes infinities alone.
  const std::optional<NanOrigin>& first_nan() const { return first_nan_; }
  std::uint64_t others() const { return others_; }  // further nodes that do so too

 private:
  std::unordered_map<const Node*, std::uint64_t> times_;
  std::unordered_set<const Node*> found_;
  std::optional<NanOrigin> first_, first_nan_;
  std::uint64_t others_ = 0;
};

// "input 'x' holds 2 NaN" for each input that is not finite.
std::vector<std::string> nonfinite_inputs(const Graph& graph,
                                          const std::vector<RuntimeValue>& inputs);

// "'x' 0 to 3, 's' all 0": the floating operands, each named once.
std::string operand_ranges(const NodeRun& run);

}  // namespace mezzo::numerics
