// MatMul, MatMulT, Gemm, MatMulActivation, MatMulActivationGrad and MatMulSums by cuBLASLt.
//
// Three ways, in the order of preference:
// - direct: all in one call, addend and epilogue included;
// - spread: c, broadcast, is written to y first, and the call adds its product to beta times it;
// - finish: the call leaves float32 sums in the workspace, and a kernel does the rest.
// Batches of more than one step are several calls. Buffers that lie askew, which the algorithm was
// not chosen for, are left to the own kernels.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/cuda/blaslt_product.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {
namespace {

using blaslt::Product;
using blaslt::ProductBuffers;
using blaslt::ProductSpec;

constexpr std::uint32_t kAlignment = 16;  // the widest access of the library's kernels, in bytes
constexpr std::size_t kMostCalls = 64;
constexpr std::uint64_t kMostSums = std::uint64_t{1} << 30;  // bytes
constexpr Int kAuxMultiple = 8;  // of the leading dimension: CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD

enum class Way : std::uint8_t { kDirect, kSpread, kFinish };

struct Offsets {
  Int a = 0, b = 0, y = 0;  // elements
};

// How a problem becomes calls.
struct Plan {
  Way way = Way::kDirect;
  ProductSpec spec;
  std::vector<Offsets> calls;
  bool adds_c = false;      // c is the library's C
  bool has_bias = false;    // c is its bias
  bool fuses_sums = false;  // result 1 is its bias gradient
};

bool is_supported(DType operands, DType result) {
  return operands == result || (is_low(operands) && result == DType::kFloat32);
}

// The longest dimension of the batch goes into each call, all others are calls.
Status split_batches(const MatMulProblem& problem, Plan& plan) {
  const auto longest =
      std::max_element(problem.batches.begin(), problem.batches.end(),
                       [](const BatchStep& x, const BatchStep& y) { return x.size < y.size; });
  plan.calls = {Offsets()};
  for (auto batch = problem.batches.begin(); batch != problem.batches.end(); ++batch) {
    if (batch == longest) continue;
    if (static_cast<Int>(plan.calls.size()) * batch->size > static_cast<Int>(kMostCalls))
      return unimplemented("batches that take more than 64 calls");
    std::vector<Offsets> calls;
    for (const Offsets& outer : plan.calls) {
      for (Int i = 0; i < batch->size; ++i)
        calls.push_back({outer.a + i * batch->a, outer.b + i * batch->b, outer.y + i * batch->y});
    }
    plan.calls = std::move(calls);
  }
  if (longest != problem.batches.end()) {
    plan.spec.matrices = longest->size;
    plan.spec.a_step = longest->a;
    plan.spec.b_step = longest->b;
    plan.spec.y_step = longest->y;
  }
  return ok_status();
}

std::uint32_t alignment_of(const Plan& plan) {
  std::uint64_t alignment = kAlignment;
  for (const Offsets& call : plan.calls) {
    for (const Int bytes : {call.a * static_cast<Int>(dtype_bytes(plan.spec.operands, 1)),
                            call.b * static_cast<Int>(dtype_bytes(plan.spec.operands, 1)),
                            call.y * static_cast<Int>(dtype_bytes(plan.spec.result, 1))}) {
      alignment = std::gcd(alignment, static_cast<std::uint64_t>(bytes));
    }
  }
  return static_cast<std::uint32_t>(alignment);
}

// The epilogue that does all that the problem wants beside the product; nothing if there is none.
std::optional<cublasLtEpilogue_t> epilogue_of(const MatMulProblem& problem, bool has_bias) {
  const bool aux_fits = problem.batches.empty() && problem.columns % kAuxMultiple == 0;
  const auto with_bias = [has_bias](cublasLtEpilogue_t plain, cublasLtEpilogue_t biased) {
    return has_bias ? biased : plain;
  };
  if (problem.pre != DType::kNone && problem.epilogue != Epilogue::kGeluTanh) return std::nullopt;
  switch (problem.epilogue) {
    case Epilogue::kNone: return with_bias(CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS);
    case Epilogue::kRelu: return with_bias(CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS);
    case Epilogue::kGeluTanh:
      if (problem.pre == DType::kNone)
        return with_bias(CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS);
      if (problem.pre != problem.y || !aux_fits) return std::nullopt;
      return with_bias(CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
    case Epilogue::kGeluTanhGrad:
      if (problem.x != problem.y || !aux_fits) return std::nullopt;
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kReluGrad: return std::nullopt;  // the library wants a bit mask instead of x
  }
  return std::nullopt;
}

// The ways that the types and the addend leave open, best first.
std::vector<Plan> ways_of(const MatMulProblem& problem, const Plan& common) {
  std::vector<Plan> ways;
  const bool is_double = problem.a == DType::kFloat64;
  const bool plain = problem.epilogue == Epilogue::kNone && problem.pre == DType::kNone;
  if (is_supported(problem.a, problem.y) && (plain || !is_double)) {
    Plan direct = common;
    direct.spec.result = problem.y;
    const bool same_type = problem.c == problem.y;
    direct.has_bias = problem.c_is_row() && problem.beta == 1.0 && same_type;
    direct.adds_c = !direct.has_bias && problem.c_is_matrix() && same_type;
    direct.spec.beta = direct.adds_c ? problem.beta : 0.0;
    const auto epilogue = epilogue_of(problem, direct.has_bias);
    if (epilogue && (!problem.has_c() || direct.has_bias || direct.adds_c)) {
      direct.spec.epilogue = *epilogue;
      if (problem.sums_of != SumsOf::kNothing && problem.sums == problem.y &&
          problem.batches.empty()) {
        Plan with_sums = direct;
        with_sums.fuses_sums = true;
        with_sums.spec.epilogue =
            problem.sums_of == SumsOf::kA ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
        ways.push_back(with_sums);
      }
      ways.push_back(direct);
    }
    if (plain && problem.has_c() && keeps_values(problem.c, problem.y)) {
      Plan spread = common;
      spread.way = Way::kSpread;
      spread.spec.result = problem.y;
      spread.spec.beta = problem.beta;
      ways.push_back(spread);
    }
  }
  const auto sums_bytes = static_cast<std::uint64_t>(problem.result_elems()) * sizeof(float);
  if (!is_double && sums_bytes <= kMostSums && problem.y != DType::kFloat64) {
    Plan finish = common;
    finish.way = Way::kFinish;
    finish.spec.result = DType::kFloat32;
    ways.push_back(finish);
  }
  return ways;
}

template <typename T>
T* moved(T* start, Int elems, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return start == nullptr
             ? nullptr
             : static_cast<Byte*>(start) + elems * static_cast<Int>(dtype_bytes(dtype, 1));
}

class BlasLtMatMul : public Kernel {
 public:
  BlasLtMatMul(MatMulProblem problem, Plan plan, Product product)
      : problem_(std::move(problem)), plan_(std::move(plan)), product_(std::move(product)) {}

  std::size_t workspace_bytes() const override { return sums_at() + sums_bytes(); }

  Status run(const KernelArguments& arguments) override {
    if (!is_aligned(arguments)) return run_own_matmul(problem_, arguments);
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    void* y = arguments.outputs[0];
    float* sums = nullptr;
    if (plan_.way == Way::kSpread)
      MEZZO_RETURN_IF_ERROR(spread_addend(problem_, arguments.inputs[2], y, arguments.stream));
    if (plan_.way == Way::kFinish) y = sums = reinterpret_cast<float*>(workspace + sums_at());
    for (const Offsets& call : plan_.calls)
      MEZZO_RETURN_IF_ERROR(product_.run(buffers_of(call, arguments, y), arguments.stream));
    if (plan_.way == Way::kFinish) MEZZO_RETURN_IF_ERROR(finish_sums(problem_, sums, arguments));
    if (problem_.sums_of != SumsOf::kNothing && !plan_.fuses_sums)
      return run_sums(problem_, arguments);
    return ok_status();
  }

  std::string_view implementation() const override {
    switch (plan_.way) {
      case Way::kDirect: return "cublaslt";
      case Way::kSpread: return "cublaslt:spread";
      case Way::kFinish: return "cublaslt:finish";
    }
    return "cublaslt";
  }

 private:
  std::size_t sums_bytes() const {
    if (plan_.way != Way::kFinish) return 0;
    return static_cast<std::size_t>(problem_.result_elems()) * sizeof(float);
  }
  std::size_t sums_at() const { return (product_.workspace_bytes() + 255) / 256 * 256; }

  bool is_aligned(const KernelArguments& arguments) const {
    std::uintptr_t bits = 0;
    for (const void* input : arguments.inputs) bits |= reinterpret_cast<std::uintptr_t>(input);
    for (const void* output : arguments.outputs) bits |= reinterpret_cast<std::uintptr_t>(output);
    return bits % plan_.spec.alignment == 0;
  }

  ProductBuffers buffers_of(const Offsets& call, const KernelArguments& arguments, void* y) const {
    ProductBuffers buffers;
    buffers.a = moved(arguments.inputs[0], call.a, plan_.spec.operands);
    buffers.b = moved(arguments.inputs[1], call.b, plan_.spec.operands);
    buffers.y = moved(y, call.y, plan_.spec.result);
    buffers.c = plan_.adds_c                ? moved(arguments.inputs[2], call.y, plan_.spec.result)
                : plan_.way == Way::kSpread ? buffers.y
                                            : nullptr;
    if (plan_.has_bias) buffers.bias = arguments.inputs[2];
    if (plan_.fuses_sums) buffers.bias = arguments.outputs[1];
    if (plan_.way == Way::kDirect && problem_.pre != DType::kNone)
      buffers.aux = arguments.outputs[1];
    if (plan_.way == Way::kDirect && problem_.x != DType::kNone) buffers.aux = arguments.inputs[2];
    buffers.workspace = arguments.workspace;
    return buffers;
  }

  MatMulProblem problem_;
  Plan plan_;
  Product product_;
};

StatusOr<std::unique_ptr<Kernel>> prepare_blaslt(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const MatMulProblem problem, read_problem(request));
  if (problem.a != problem.b || !is_floating(problem.a))
    return unimplemented("operands of two dtypes, or integers");
  if (problem.result_elems() == 0 || problem.depth == 0)
    return unimplemented("nothing to multiply");
  Plan common;
  common.spec.rows = problem.rows;
  common.spec.columns = problem.columns;
  common.spec.depth = problem.depth;
  common.spec.trans_a = problem.trans_a;
  common.spec.trans_b = problem.trans_b;
  common.spec.operands = problem.a;
  common.spec.alpha = problem.alpha;
  MEZZO_RETURN_IF_ERROR(split_batches(problem, common));
  Status refusal = unimplemented("this mixture of dtypes");
  for (Plan& plan : ways_of(problem, common)) {
    plan.spec.alignment = alignment_of(plan);
    auto product = Product::make(*static_cast<Context*>(request.device), plan.spec);
    if (product.ok()) {
      return std::unique_ptr<Kernel>(
          std::make_unique<BlasLtMatMul>(problem, std::move(plan), std::move(product).value()));
    }
    if (product.status().code() != StatusCode::kUnimplemented) return product.status();
    refusal = product.status();
  }
  return refusal;
}

class OwnMatMul : public Kernel {
 public:
  explicit OwnMatMul(MatMulProblem problem) : problem_(std::move(problem)) {}
  Status run(const KernelArguments& arguments) override {
    return run_own_matmul(problem_, arguments);
  }
  std::string_view implementation() const override { return "cuda:matmul"; }

 private:
  MatMulProblem problem_;
};

StatusOr<std::unique_ptr<Kernel>> prepare_own(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(MatMulProblem problem, read_problem(request));
  if (!own_matmul_takes(problem)) return unimplemented("this dtype");
  return std::unique_ptr<Kernel>(std::make_unique<OwnMatMul>(std::move(problem)));
}

constexpr KernelEntry kBlasLtRows[] = {
    {"MatMul", "cublaslt", prepare_blaslt},
    {"MatMulT", "cublaslt", prepare_blaslt},
    {"Gemm", "cublaslt", prepare_blaslt},
    {"MatMulActivation", "cublaslt", prepare_blaslt},
    {"MatMulActivationGrad", "cublaslt", prepare_blaslt},
    {"MatMulSums", "cublaslt", prepare_blaslt},
};
constexpr KernelEntry kOwnRows[] = {
    {"MatMul", "cuda", prepare_own},
    {"MatMulT", "cuda", prepare_own},
    {"Gemm", "cuda", prepare_own},
    {"MatMulActivation", "cuda", prepare_own},
    {"MatMulActivationGrad", "cuda", prepare_own},
    {"MatMulSums", "cuda", prepare_own},
};

}  // namespace

std::span<const KernelEntry> blaslt_rows() { return kBlasLtRows; }
std::span<const KernelEntry> matmul_rows() { return kOwnRows; }

}  // namespace mezzo::kernels::cuda
