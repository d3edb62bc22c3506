// One call of cublasLtMatmul, prepared: descriptors, algorithm, workspace.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/blaslt.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/index.h"

namespace mezzo::kernels::cuda::blaslt {

// y = f(alpha op(a) op(b) + beta c), row-major: M N K are rows, columns, depth. c lies as y.
struct ProductSpec {
  Int rows = 0, columns = 0, depth = 0;
  bool trans_a = false, trans_b = false;
  Int matrices = 1, a_step = 0, b_step = 0, y_step = 0;  // elements
  DType operands = DType::kNone, result = DType::kNone;
  double alpha = 1.0, beta = 0.0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint32_t alignment = 16;  // that all buffers have, in bytes
};

struct ProductBuffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // null: beta is 0
  void* y = nullptr;
  // A row of `columns` elements of y's dtype that is added; or, with BGRADA and BGRADB, result: the
  // sums of op(b) [N] and of op(a) [M] along K.
  const void* bias = nullptr;
  const void* aux = nullptr;  // before GELU: written with GELU_AUX, read with DGELU; as y
  void* workspace = nullptr;
};

// Most workspace that algorithms are given. cuBLAS's own is 32 MiB on compute capability 9.0.
inline constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;

class Product {
 public:
  // Unimplemented: the library has no algorithm for it.
  static StatusOr<Product> make(Context& context, const ProductSpec& spec);

  std::uint64_t workspace_bytes() const { return workspace_bytes_; }
  Status run(const ProductBuffers& buffers, void* stream);

 private:
  Product() = default;
  Status describe(const ProductSpec& spec, bool allow_tf32);
  Status choose(Context& context, const ProductSpec& spec);
  // True if the library takes a choice that was kept.
  bool takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm);
  StatusOr<std::size_t> fastest(const ProductSpec& spec,
                                const std::vector<cublasLtMatmulHeuristicResult_t>& candidates);
  Status set_pointers(const ProductBuffers& buffers);

  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<void> state_;  // owns the handle
  Operation operation_;
  MatrixLayout a_, b_, y_;
  bool is_double_ = false, has_bias_ = false, has_aux_ = false;
  double alpha_ = 1.0, beta_ = 0.0;
  cublasLtMatmulAlgo_t algorithm_{};
  std::uint64_t workspace_bytes_ = 0;
};

}  // namespace mezzo::kernels::cuda::blaslt
