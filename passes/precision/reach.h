// How large values can become, as far as the graph itself tells: from constants, truth values,
// functions with bounds, squares, exponentials, and the lengths of sums. What only data can tell
// (a large activation) is not seen here: see calibration.h.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"

namespace mezzo::passes {

// How a value grows with the activations that it is computed from.
enum class Growth : std::uint8_t {
  kOrdinary,
  kInverse,      // 1 / square or 1 / exponential: brings one of these back when multiplied
  kSquare,       // as the square of an activation, or faster
  kExponential,  // as its exponential
};

struct Reach {
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  // Every number of the value lies between these; infinite where no bound is known.
  double lowest = -kUnknown, highest = kUnknown;
  // Largest magnitude, an activation of which nothing is known counting as 1. A sum of N
  // activations has N, their product with a constant 1e6 has 1e6.
  double scale = 1;
  // Magnitude of a mask constant ("never": -1e4, -1e9, -3.4e38) that may have been chosen instead;
  // 0: none. Not part of `scale` until something computes with it.
  double never = 0;
  Growth growth = Growth::kOrdinary;
  // Computed from constants, integers and bounded functions alone, so that `scale` is the magnitude
  // itself and no estimate.
  bool pure = false;
  // Positions, counts or what is computed from them: neighbours differ by little, and a rounding
  // error is not small beside that difference.
  bool counts = false;
  const Value* cause = nullptr;  // the constant, integers or sum that made it so; may be null

  double bound() const;  // of the magnitude; infinite if not known
};

// Extremes of a constant's elements.
struct ConstantFacts {
  bool known = false;              // a floating, integer or bool constant without NaN
  double lowest = 0, highest = 0;  // of finite elements
  double smallest_nonzero = 0;     // of magnitudes; 0: all are zero
  bool infinite = false;           // has an infinity
  bool uniform = false;            // all elements are the same finite number
  std::int64_t elems = 0;

  double largest() const;  // finite magnitude
};
// Reads the elements piece by piece where they lie.
ConstantFacts facts_of(const Tensor& tensor);

// Does an integer constant held in floating point lose digits in `low`? True if all elements are
// whole numbers, there are several, and some is not a value of `low`.
bool holds_inexact_integers(const Tensor& tensor, const ConstantFacts& facts, DType low);

class ReachAnalysis {
 public:
  // Walks all graphs of the model once, in order. The model must not change afterwards.
  // Constants that reach down to `mask` and not up beyond the range are masks.
  ReachAnalysis(const Model& model, DType low, double mask);

  const Reach& of(const Value& value) const;
  // The constant that `value` holds (also through Identity); not known for other values.
  const ConstantFacts& constant(const Value& value) const;

 private:
  void visit(const Graph& graph);
  Reach start(const Value& value) const;  // of inputs, and results that no rule tells

  DType low_;
  double mask_;
  mutable std::unordered_map<const Value*, Reach> reach_;  // filled when asked, like the next
  mutable std::unordered_map<const Value*, ConstantFacts> constants_;
};

}  // namespace mezzo::passes
