// Runs two models on the same inputs and compares every tensor that both have.
//
// Memory: tensors of `a` are kept up to a budget and compared while `b` runs; what did not fit
// waits for a further round, in which both run again. A round takes at least one tensor along.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "passes/numerics/difference.h"
#include "passes/numerics/match.h"
#include "passes/numerics/tensor_range.h"

namespace mezzo::numerics {

struct CompareOptions {
  double tolerance = 2e-2;  // of Difference::error
  int threads = 1;
  std::uint64_t most_iterations = 1'000'000;
  std::uint64_t budget_bytes = std::uint64_t{1} << 30;  // of tensors kept
  // Runs of either model after which no further round begins; what is left is not compared.
  std::uint64_t most_runs = 64;
  std::function<void()> ran;  // told after each run; may be null
};

// A value of `b` and its counterpart. Of a value that is made several times (in a Loop), the time
// with the largest error counts.
struct TensorComparison {
  const Value* a = nullptr;
  const Value* b = nullptr;
  Difference difference;
  std::uint64_t times = 0;      // compared
  std::uint64_t iteration = 0;  // of the largest error
  passes::TensorRange range_a;  // of that time
};

struct Comparison {
  std::vector<TensorComparison> tensors;  // in the order in which `b` made them first
  std::vector<TensorComparison> outputs;  // of the graph, in order
  std::uint64_t runs = 0;                 // of `a` and `b` together
  std::uint64_t unmatched = 0;            // values of `b` without a counterpart
  std::uint64_t left_over = 0;            // tensors of `a` that no round took along
  // Tensors and their elements that are not finite.
  std::uint64_t nonfinite_tensors_a = 0, nonfinite_tensors_b = 0;
  std::uint64_t nonfinite_a = 0, nonfinite_b = 0;
  std::vector<RuntimeValue> outputs_of_a;

  // Largest error of an output; infinite if shapes differ.
  double output_error() const;
  // The first that is beyond the tolerance; null if none is.
  const TensorComparison* first_departure(double tolerance) const;
};

// `inputs` are those of `a`; `b` gets them in the types that it declares. Both models as prepare()
// left them, `match` of them. Errors of the interpreter say which model.
StatusOr<Comparison> compare_models(const Model& a, const Model& b, const ModelMatch& match,
                                    const std::vector<RuntimeValue>& inputs,
                                    const CompareOptions& options);

}  // namespace mezzo::numerics
