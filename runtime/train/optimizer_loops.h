// The element loops of the optimizer, in variants for the processor's vector width. Private to
// runtime/train.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"

namespace mezzo::runtime {

// Loops over n elements; all numbers are float32; optimizer.h has the formulas.
struct SgdArguments {
  float* w;
  const float* g;
  float* velocity;  // null without momentum
  std::uint16_t* low;
  DType low_dtype;  // kNone: no copy
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;  // clip_value: infinity for none
  float lr, weight_decay, momentum;
  float fresh;  // factor of the gradient in the velocity: 1 - dampening, 1 at the first step
  bool nesterov;
};

struct AdamArguments {
  float* w;
  const float* g;
  float* mean;
  float* mean_square;
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
  float weight_decay;  // added to the gradient (Adam)
  float keep;          // factor on the weight before the update (AdamW): 1 - lr wd, else 1
  float keep_after;    // the same after it (the HuggingFace form of AdamW), else 1
  float one_minus_beta1, beta2, one_minus_beta2;
  float step_size;        // lr / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
};

struct AdagradArguments {
  float* w;
  const float* g;
  float* sum;  // of squared gradients
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
  float lr, weight_decay, eps;
};

struct LambArguments {
  float* w;
  const float* g;
  float* mean;
  float* mean_square;
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
  float weight_decay;
  float one_minus_beta1, beta2, one_minus_beta2;
  float mean_correction;  // 1 / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float eps;
  float rate;  // lr x trust ratio
};

struct LambNorms {
  double weight, update;  // sums of squares
};

// The variant for this processor. All variants give the same bits, but for the sum, whose order of
// additions is fixed too: 16 partial sums over elements i mod 16, added pairwise.
struct OptimizerLoops {
  double (*sum_of_squares)(const float* g, std::int64_t n);
  void (*sgd)(const SgdArguments&);
  void (*adam)(const AdamArguments&);
  void (*adagrad)(const AdagradArguments&);
  // The moments take in the gradient; the weights stay. The sums are of weights and updates.
  LambNorms (*lamb_moments)(const LambArguments&);
  // The weights move by what the moments say.
  void (*lamb_apply)(const LambArguments&);
  // average += share (w - average)
  void (*average)(float* average, const float* w, float share, std::int64_t n);
  void (*write_low)(const float* w, std::uint16_t* low, DType dtype, std::int64_t n);
};
const OptimizerLoops& optimizer_loops();

// Every variant that this processor can run, the plain one first. For tests.
struct OptimizerLoopsVariant {
  const char* name;
  const OptimizerLoops* loops;
};
int optimizer_loops_variants(OptimizerLoopsVariant (&variants)[3]);

}  // namespace mezzo::runtime
