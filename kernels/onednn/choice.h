// How to compute: the dtype the library multiplies in and the layout of the activations, in the
// order of preference.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/onednn/engine.h"

namespace mezzo::kernels::onednn {

struct Choice {
  DType compute_dtype = DType::kFloat32;  // of the operands; results may also be float32
  Layout layout = Layout::kChannelsLast;

  // The dtype in which the library gives a result that the request wants as `wanted`.
  DType result_dtype(DType wanted) const {
    return compute_dtype == DType::kBFloat16 && wanted == DType::kBFloat16 ? wanted
                                                                           : DType::kFloat32;
  }
};

// InvalidArgument unless the counts of operands and results lie within the bounds and the first
// `least` are present; Unimplemented if a present one is not float32, float16 or bfloat16.
struct Arity {
  std::size_t least_inputs, most_inputs, least_outputs, most_outputs;
};
Status check_operands(const KernelRequest& request, const Arity& arity);

// bfloat16 if the operands numbered in `operands` all are and the processor multiplies it, else
// float32, to which operands are cast exactly.
std::vector<DType> compute_dtypes(const KernelRequest& request, std::size_t operands);

// Unimplemented unless the library takes these activations as they are: all channels-last (or of
// rank 2), of one dtype, float32 or natively bfloat16. Where it would need casts or reorders and
// the primitive does little more than read its operands, the rows of kernels/cpu are faster.
Status check_direct(std::initializer_list<const TensorDesc*> activations);

// "onednn:" with the library's name, and what was cast.
std::string implementation_name(std::string_view library_name, const KernelRequest& request,
                                const Choice& choice);

// Tries channels-last, then row-major, each in every compute dtype. The library's fast code wants
// channels last: with row-major activations it is 2 to 30 times slower (convolution 3x3 of 64
// channels: 136 against 258 GFLOP/s in float32, 165 against 516 in bfloat16), far more than two
// reorders cost. The first kernel that is not the library's generic code is taken, else the first.
template <typename Build>
StatusOr<std::unique_ptr<Kernel>> best_choice(const KernelRequest& request, std::size_t operands,
                                              Build build) {
  StatusOr<std::unique_ptr<Kernel>> best = unimplemented("no choice of dtype and layout");
  Status first_error;
  for (const DType dtype : compute_dtypes(request, operands)) {
    for (const Layout layout : {Layout::kChannelsLast, Layout::kRowMajor}) {
      StatusOr<std::unique_ptr<Kernel>> kernel = build(Choice{dtype, layout});
      if (!kernel.ok()) {
        if (first_error.ok()) first_error = kernel.status();
        continue;
      }
      if (!is_reference((*kernel)->implementation())) return kernel;
      if (!best.ok()) best = std::move(kernel);
    }
  }
  if (!best.ok()) return first_error;
  return best;
}

}  // namespace mezzo::kernels::onednn
