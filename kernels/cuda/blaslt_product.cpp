#include "kernels/cuda/blaslt_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cuda/blaslt_cache.h"
#include "kernels/cuda/blaslt_timing.h"

namespace mezzo::kernels::cuda::blaslt {
namespace {

constexpr Int kMostSize = std::numeric_limits<std::int32_t>::max();

struct State {
  Handle handle;
  BlasLtCache cache;
};

std::string describe_device(const Context& context) {
  return context.name + " " + std::to_string(context.major) + "." + std::to_string(context.minor) +
         " " + std::to_string(context.multiprocessors) + " " + std::to_string(cublasLtGetVersion());
}

StatusOr<std::shared_ptr<State>> state_of(Context& context) {
  if (context.blaslt == nullptr) {
    MEZZO_ASSIGN_OR_RETURN(Handle handle, create_handle());
    context.blaslt = std::shared_ptr<State>(
        new State{std::move(handle), BlasLtCache(context.cache_folder, describe_device(context))});
  }
  return std::static_pointer_cast<State>(context.blaslt);
}

// All that the choice depends on, beside device and library.
std::string key_of(const ProductSpec& spec, const Context& context) {
  std::string key;
  const auto add = [&key](std::int64_t value) {
    key += (key.empty() ? "" : ",") + std::to_string(value);
  };
  for (const Int value : {spec.rows, spec.columns, spec.depth, spec.matrices, spec.a_step,
                          spec.b_step, spec.y_step}) {
    add(value);
  }
  add(spec.trans_a);
  add(spec.trans_b);
  add(static_cast<int>(spec.operands));
  add(static_cast<int>(spec.result));
  add(spec.epilogue);
  add(spec.beta != 0.0);
  add(spec.alignment);
  add(context.allow_tf32 && spec.operands == DType::kFloat32);
  return key;
}

bool uses_bias(cublasLtEpilogue_t epilogue) {
  return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 || epilogue == CUBLASLT_EPILOGUE_BGRADA ||
         epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
bool uses_aux(cublasLtEpilogue_t epilogue) { return (epilogue & 128) != 0; }

cublasLtMatmulAlgo_t algorithm_of(const BlasLtChoice& choice) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof choice.algorithm);
  return std::bit_cast<cublasLtMatmulAlgo_t>(choice.algorithm);
}

}  // namespace

StatusOr<Product> Product::make(Context& context, const ProductSpec& spec) {
  if (std::max({spec.rows, spec.columns, spec.depth, spec.matrices}) > kMostSize)
    return unimplemented("more than 2^31 rows, columns or matrices");
  Product product;
  MEZZO_ASSIGN_OR_RETURN(const auto state, state_of(context));
  product.handle_ = state->handle.get();
  product.state_ = state;
  MEZZO_RETURN_IF_ERROR(product.describe(spec, context.allow_tf32));
  MEZZO_RETURN_IF_ERROR(product.choose(context, spec));
  return product;
}

// Column-major, so with the operands exchanged: the library's A is b, its B is a.
Status Product::describe(const ProductSpec& spec, bool allow_tf32) {
  is_double_ = spec.operands == DType::kFloat64;
  alpha_ = spec.alpha;
  beta_ = spec.beta;
  has_bias_ = uses_bias(spec.epilogue);
  has_aux_ = uses_aux(spec.epilogue);
  MEZZO_ASSIGN_OR_RETURN(operation_, create_operation(spec.operands, allow_tf32));
  const cublasOperation_t op_a = spec.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = spec.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  MEZZO_RETURN_IF_ERROR(set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, op_a));
  MEZZO_RETURN_IF_ERROR(set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, op_b));
  MEZZO_RETURN_IF_ERROR(
      set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(spec.epilogue)));
  const Int b_rows = spec.trans_b ? spec.depth : spec.columns;
  const Int a_rows = spec.trans_a ? spec.rows : spec.depth;
  MEZZO_ASSIGN_OR_RETURN(
      a_, create_layout(spec.operands, b_rows, spec.trans_b ? spec.columns : spec.depth, b_rows,
                        spec.matrices, spec.b_step));
  MEZZO_ASSIGN_OR_RETURN(
      b_, create_layout(spec.operands, a_rows, spec.trans_a ? spec.depth : spec.rows, a_rows,
                        spec.matrices, spec.a_step));
  MEZZO_ASSIGN_OR_RETURN(y_, create_layout(spec.result, spec.columns, spec.rows, spec.columns,
                                           spec.matrices, spec.y_step));
  if (has_aux_) {
    MEZZO_RETURN_IF_ERROR(set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                              static_cast<std::int64_t>(spec.columns)));
  }
  // "Routines that don't dereference this pointer, like cublasLtMatmulAlgoGetHeuristic() depend on
  // its value to determine expected pointer alignment" (CUBLASLT_MATMUL_DESC_BIAS_POINTER).
  ProductBuffers nowhere;
  nowhere.bias = nowhere.aux = reinterpret_cast<const void*>(std::uintptr_t{spec.alignment});
  return set_pointers(nowhere);
}

Status Product::set_pointers(const ProductBuffers& buffers) {
  if (has_bias_)
    MEZZO_RETURN_IF_ERROR(set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffers.bias));
  if (has_aux_)
    MEZZO_RETURN_IF_ERROR(set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, buffers.aux));
  return ok_status();
}

bool Product::takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle, operation_.get(), a_.get(), b_.get(), y_.get(), y_.get(),
                              &algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > kMostWorkspace) {
    return false;
  }
  algorithm_ = algorithm;
  workspace_bytes_ = result.workspaceSize;
  return true;
}

Status Product::choose(Context& context, const ProductSpec& spec) {
  BlasLtCache& cache = std::static_pointer_cast<State>(context.blaslt)->cache;
  const std::string key = key_of(spec, context);
  const int candidates = std::clamp(context.timed_candidates, 1, 64);
  const BlasLtChoice* const kept = cache.find(key);
  if (kept != nullptr && kept->timed >= static_cast<std::uint64_t>(candidates)) {
    if (takes(handle_, algorithm_of(*kept))) return ok_status();
    cache.drop(key);
  }
  MEZZO_ASSIGN_OR_RETURN(const Preference preference,
                         create_preference(kMostWorkspace, spec.alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(candidates));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, operation_.get(), a_.get(), b_.get(), y_.get(), y_.get(), preference.get(),
      static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS)
    return unimplemented("no algorithm (" + std::string(cublasLtGetStatusName(status)) + ")");
  found.resize(static_cast<std::size_t>(std::clamp(count, 0, static_cast<int>(found.size()))));
  std::erase_if(found, [](const auto& candidate) {
    return candidate.state != CUBLAS_STATUS_SUCCESS || candidate.workspaceSize > kMostWorkspace;
  });
  if (found.empty()) return unimplemented("no algorithm");
  std::size_t best = 0;
  if (found.size() > 1) {
    MEZZO_ASSIGN_OR_RETURN(best, fastest(spec, found));
  }
  algorithm_ = found[best].algo;
  workspace_bytes_ = found[best].workspaceSize;
  BlasLtChoice choice;
  std::memcpy(choice.algorithm.data(), &algorithm_, sizeof algorithm_);
  choice.workspace_bytes = workspace_bytes_;
  choice.timed = static_cast<std::uint64_t>(candidates);
  cache.add(key, choice);
  return ok_status();
}

StatusOr<std::size_t> Product::fastest(
    const ProductSpec& spec, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates) {
  const auto extent = [&spec](Int elems, Int step, DType dtype) {
    return dtype_bytes(dtype, (spec.matrices - 1) * step + elems);
  };
  const std::size_t y_bytes = extent(spec.rows * spec.columns, spec.y_step, spec.result);
  const std::size_t row_bytes = dtype_bytes(spec.result, std::max(spec.rows, spec.columns));
  auto buffers = TimingBuffers::make({extent(spec.rows * spec.depth, spec.a_step, spec.operands),
                                      extent(spec.depth * spec.columns, spec.b_step, spec.operands),
                                      y_bytes, y_bytes, row_bytes, y_bytes, kMostWorkspace});
  if (!buffers.ok()) return std::size_t{0};  // no room to try: the library's first
  ProductBuffers places;
  places.a = buffers->at(0);
  places.b = buffers->at(1);
  places.c = beta_ != 0.0 ? buffers->at(2) : nullptr;
  places.y = buffers->at(3);
  places.bias = buffers->at(4);
  places.aux = buffers->at(5);
  places.workspace = buffers->at(6);
  return fastest_of(candidates.size(), [&](std::size_t i, void* stream) {
    algorithm_ = candidates[i].algo;
    workspace_bytes_ = candidates[i].workspaceSize;
    return run(places, stream);
  });
}

Status Product::run(const ProductBuffers& buffers, void* stream) {
  MEZZO_RETURN_IF_ERROR(set_pointers(buffers));
  const float alpha = static_cast<float>(alpha_), beta = static_cast<float>(beta_);
  const void* alpha_at = is_double_ ? static_cast<const void*>(&alpha_) : &alpha;
  const void* beta_at = is_double_ ? static_cast<const void*>(&beta_) : &beta;
  const void* c = buffers.c != nullptr ? buffers.c : buffers.y;  // not read where beta is 0
  return check(
      "cublasLtMatmul",
      cublasLtMatmul(handle_, operation_.get(), alpha_at, buffers.b, a_.get(), buffers.a, b_.get(),
                     beta_at, c, y_.get(), buffers.y, y_.get(), &algorithm_, buffers.workspace,
                     workspace_bytes_, static_cast<cudaStream_t>(stream)));
}

}  // namespace mezzo::kernels::cuda::blaslt
