// The arithmetic of the losses that attach-loss adds, as nodes. All values are FP32 but for
// labels, and lie in these shapes: P... positions, C classes; a mean is a scalar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"

namespace mezzo::passes {

class LossTerms {
 public:
  explicit LossTerms(Builder& builder) : b_(builder) {}

  struct CrossEntropy {
    Value* scores = nullptr;            // [N,C,d...]
    Value* mask = nullptr;              // [N,d...], weight per place; null: 1
    std::vector<double> class_weights;  // [C] or empty
    double label_smoothing = 0;
    std::int64_t ignore_index = -100;
  };
  // labels: int64 [N,d...].
  Value* cross_entropy(const CrossEntropy& given, Value* labels);
  // target: [N,C,d...], probabilities. The mean runs over places; class weights do not count in it.
  Value* soft_cross_entropy(const CrossEntropy& given, Value* target);

  // Per element of logits [P...,C]; weights are empty or [C].
  Value* bce(Value* logits, Value* target, const std::vector<double>& weights,
             const std::vector<double>& pos_weights);
  Value* squared_error(Value* output, Value* target);
  Value* absolute_error(Value* output, Value* target);
  // [P...,D], [P...,D] -> [P...]: 1 - cosine.
  Value* cosine_distance(Value* output, Value* target);
  // The same for pairs that belong together (target 1) or do not (-1): [N,D], [N,D], [N] -> [N].
  Value* cosine_embedding(Value* a, Value* b, Value* target, double margin);

  // The mean of `terms`; with a mask, whose dims are the first of terms', the weighted mean over
  // its places of the mean over the dims that follow.
  Value* mean(Value* terms, Value* mask);

  Value* constant(double value);
  Value* reshape(Value* value, const std::vector<std::int64_t>& dims);
  Value* as_float(Value* value);

 private:
  Value* row(const std::vector<double>& values, std::string_view name,
             std::vector<std::int64_t> dims);
  Value* sum(Value* value);
  Value* sum_over(Value* value, std::int64_t axis);
  Value* weight_of(const CrossEntropy& given, Value* labels, Value* counts);
  Value* smooth_terms(const CrossEntropy& given);

  Builder& b_;
};

}  // namespace mezzo::passes
