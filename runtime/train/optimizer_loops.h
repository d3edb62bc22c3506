// The element loops of the optimizer, in variants for the processor's vector width. Private to
// runtime/train.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"
#include "kernels/formulas/optimizer.h"

namespace mezzo::runtime {

// Loops over n elements; all numbers are float32; optimizer.h has the formulas.
struct SgdArguments : kernels::SgdCoefficients {
  float* w;
  const float* g;
  float* velocity;  // null without momentum
  std::uint16_t* low;
  DType low_dtype;  // kNone: no copy
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;  // clip_value: infinity for none
};

struct AdamArguments : kernels::AdamCoefficients {
  float* w;
  const float* g;
  float* mean;
  float* mean_square;
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
};

struct AdagradArguments : kernels::AdagradCoefficients {
  float* w;
  const float* g;
  float* sum;  // of squared gradients
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
};

struct LambArguments : kernels::LambCoefficients {
  float* w;
  const float* g;
  float* mean;
  float* mean_square;
  std::uint16_t* low;
  DType low_dtype;
  std::int64_t n;
  float inverse_scale, clip_factor, clip_value;
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
