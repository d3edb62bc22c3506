// One direction after another of a recurrent layer: the forward run, with or
// without what the way back needs. Letters as in kernels/recurrent.h.
//
// Operands are brought into float32 first; states stay in float32 from step to
// step. All inputs are multiplied with their weights at once; then every step
// is a product of the states with the recurrent weights and one kernel for the
// gates. Products are the rows of MatMulT.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/recurrent_cell.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

// y[M,N] = a b of float32 matrices, each given transposed if so said: a[M,K] or
// [K,M], b[K,N] or [N,K].
class MatrixProduct {
 public:
  MatrixProduct() = default;
  static StatusOr<MatrixProduct> make(const KernelRequest& parent, bool turned_a, bool turned_b,
                                      Int m, Int n, Int k);
  std::size_t workspace_bytes() const { return kernel_ ? kernel_->workspace_bytes() : 0; }
  Status run(const float* a, const float* b, float* y, void* workspace,
             const KernelArguments& arguments) const;

 private:
  std::shared_ptr<Kernel> kernel_;
};

// Hands out parts of the workspace, at multiples of 256 bytes.
class WorkspaceParts {
 public:
  std::size_t take_floats(Int elems) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(elems) * sizeof(float) + 255) / 256 * 256;
    return at;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

class RecurrentLayer {
 public:
  // `first`: number of operand x in the request; w, r and so on follow.
  // `keeps`: what the way back needs is kept.
  static StatusOr<RecurrentLayer> make(const KernelRequest& request, const RecurrentForm& form,
                                       std::size_t first, bool keeps, WorkspaceParts& parts);
  std::size_t product_bytes() const;  // most that a product needs

  // Reports wrong lengths, brings x, w, r, b and p into float32.
  Status begin(const KernelArguments& arguments) const;
  // Gates and states of direction d; `products` has room for product_bytes().
  // `y` may be null.
  Status run(const KernelArguments& arguments, Int d, void* y, DType y_dtype, void* products) const;

  // For the direction run last, or to be run.
  RecurrentPlan plan(Int d) const { return recurrent_plan(form_, d); }
  RecurrentArrays arrays(const KernelArguments& arguments, Int d) const;
  bool is_gru() const { return form_.cell == RecurrentCell::kGru; }
  bool is_lstm() const { return form_.cell == RecurrentCell::kLstm; }
  bool resets_first() const { return is_gru() && !form_.linear_before_reset; }
  Int rows() const { return form_.steps * form_.batch; }
  Int width() const { return form_.gates * form_.hidden; }
  Int first_width() const { return is_gru() ? 2 * form_.hidden : width(); }
  // Operand i as float32 (x 0, w 1, r 2, b 3, p 7), null if absent; w and r of
  // direction d.
  const float* operand(const KernelArguments& arguments, std::size_t i) const;
  const float* w(const KernelArguments& arguments, Int d) const;
  const float* r(const KernelArguments& arguments, Int d) const;
  const RecurrentForm& form() const { return form_; }

 private:
  bool is_brought(std::size_t i) const;  // into float32
  DType initial_dtype(std::size_t which) const { return operands_[which].desc.dtype; }

  struct Operand {
    TensorDesc desc;
    std::size_t at = 0;  // in the workspace, where the dtype is not float32
  };
  RecurrentForm form_;
  std::size_t first_ = 0;
  std::array<Operand, kRecurrentPeepholes + 1> operands_;
  std::size_t gates_ = 0, sums_ = 0, last_sums_ = 0, h_ = 0, c_ = 0, reset_ = 0;
  std::size_t old_h_ = 0, old_c_ = 0, new_c_ = 0, bent_c_ = 0, extra_ = 0;
  bool keeps_ = false;
  MatrixProduct project_, recur_, recur_last_;
};

inline float* floats_at(const KernelArguments& arguments, std::size_t at) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(arguments.workspace) + at);
}

// Unimplemented: a dtype other than float32, float16 and bfloat16, or no
// elements.
Status expect_recurrent(const KernelRequest& request, const RecurrentForm& form,
                        std::size_t lengths);

// What a fault of a length means.
Status length_error(const std::string& op, std::int64_t steps, const DeviceFault& fault);

}  // namespace mezzo::kernels::cuda
