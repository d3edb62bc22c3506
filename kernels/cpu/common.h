// What the families of this folder share: kernels made of functions, threads, small predicates.
//
// Rows of this folder are given only requests that the reference kernel of the operator has
// accepted (rows.cpp asks it first), so operand counts, ranks, dims and attributes agree already.
// A prepare function here checks what its own code cannot do and refuses that as Unimplemented.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/kernel.h"
#include "kernels/request_check.h"

namespace mezzo::kernels::cpu {

using Int = std::int64_t;
using Dims = std::vector<Int>;
using Prepared = StatusOr<std::unique_ptr<Kernel>>;

// The families; rows.cpp lists the operators of each.
Prepared prepare_elementwise(const KernelRequest& request, const Isa& isa);
Prepared prepare_fused_elementwise(const KernelRequest& request, const Isa& isa);
Prepared prepare_add_n(const KernelRequest& request, const Isa& isa);
Prepared prepare_cast(const KernelRequest& request, const Isa& isa);
Prepared prepare_reduce(const KernelRequest& request, const Isa& isa);
Prepared prepare_arg_extreme(const KernelRequest& request, const Isa& isa);
Prepared prepare_attention(const KernelRequest& request, const Isa& isa);
Prepared prepare_scan(const KernelRequest& request, const Isa& isa);
Prepared prepare_quantize(const KernelRequest& request, const Isa& isa);
Prepared prepare_dequantize(const KernelRequest& request, const Isa& isa);
Prepared prepare_dynamic_quantize(const KernelRequest& request, const Isa& isa);
Prepared prepare_softmax(const KernelRequest& request, const Isa& isa);
Prepared prepare_cross_entropy(const KernelRequest& request, const Isa& isa);
Prepared prepare_cross_entropy_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_layer_norm(const KernelRequest& request, const Isa& isa);
Prepared prepare_layer_norm_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_batch_norm(const KernelRequest& request, const Isa& isa);
Prepared prepare_batch_norm_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_transpose(const KernelRequest& request, const Isa& isa);
Prepared prepare_copy(const KernelRequest& request, const Isa& isa);
Prepared prepare_concat(const KernelRequest& request, const Isa& isa);
Prepared prepare_split(const KernelRequest& request, const Isa& isa);
Prepared prepare_slice(const KernelRequest& request, const Isa& isa);
Prepared prepare_pad(const KernelRequest& request, const Isa& isa);
Prepared prepare_deform_conv(const KernelRequest& request, const Isa& isa);
Prepared prepare_grid_sample(const KernelRequest& request, const Isa& isa);
Prepared prepare_roi_align(const KernelRequest& request, const Isa& isa);
Prepared prepare_resize(const KernelRequest& request, const Isa& isa);
Prepared prepare_expand(const KernelRequest& request, const Isa& isa);
Prepared prepare_gather(const KernelRequest& request, const Isa& isa);
Prepared prepare_gather_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_max_pool(const KernelRequest& request, const Isa& isa);
Prepared prepare_max_pool_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_average_pool(const KernelRequest& request, const Isa& isa);
Prepared prepare_average_pool_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_matmul(const KernelRequest& request, const Isa& isa);
Prepared prepare_matmul_activation(const KernelRequest& request, const Isa& isa);
Prepared prepare_matmul_activation_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_matmul_sums(const KernelRequest& request, const Isa& isa);
Prepared prepare_matmul_integer(const KernelRequest& request, const Isa& isa);
Prepared prepare_qlinear_matmul(const KernelRequest& request, const Isa& isa);
Prepared prepare_conv(const KernelRequest& request, const Isa& isa);
Prepared prepare_conv_integer(const KernelRequest& request, const Isa& isa);
Prepared prepare_qlinear_conv(const KernelRequest& request, const Isa& isa);
Prepared prepare_recurrent(const KernelRequest& request, const Isa& isa);
Prepared prepare_recurrent_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_group_norm(const KernelRequest& request, const Isa& isa);
Prepared prepare_rms_norm(const KernelRequest& request, const Isa& isa);
Prepared prepare_rms_norm_grad(const KernelRequest& request, const Isa& isa);
Prepared prepare_lrn(const KernelRequest& request, const Isa& isa);
Prepared prepare_dropout(const KernelRequest& request, const Isa& isa);

// A kernel whose run() is `body`, a function of (const KernelArguments&) giving nothing or a
// Status. The body owns all it needs: the request is gone when it runs.
template <typename Body>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(const Isa& isa, std::size_t workspace_bytes, Body body)
      : isa_(isa), workspace_bytes_(workspace_bytes), body_(std::move(body)) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string_view implementation() const override { return isa_.name; }
  Status run(const KernelArguments& arguments) override {
    if constexpr (std::is_void_v<decltype(body_(arguments))>) {
      body_(arguments);
      return ok_status();
    } else {
      return body_(arguments);
    }
  }

 private:
  const Isa& isa_;
  std::size_t workspace_bytes_;
  Body body_;
};

template <typename Body>
Prepared make_kernel(const Isa& isa, std::size_t workspace_bytes, Body body) {
  return std::unique_ptr<Kernel>(
      std::make_unique<FunctionKernel<Body>>(isa, workspace_bytes, std::move(body)));
}

inline const void* in_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.inputs.size() ? arguments.inputs[i] : nullptr;
}
inline void* out_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.outputs.size() ? arguments.outputs[i] : nullptr;
}

// The operand or result, or an absent one where the request does not go so far.
const TensorDesc& in_desc(const KernelRequest& request, std::size_t i);
const TensorDesc& out_desc(const KernelRequest& request, std::size_t i);

constexpr bool is_packed_float(DType dtype) { return dtype == DType::kFloat32 || is_low(dtype); }
constexpr Int elem_bytes(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kUInt8: return 1;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
    case DType::kUInt16: return 2;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUInt64: return 8;
    default: return 4;
  }
}

// Unimplemented unless every present operand and result is float32, float16 or bfloat16; the bits
// of `skip_in` and `skip_out` leave operands and results out.
Status expect_packed_floats(const KernelRequest& request, unsigned skip_in = 0,
                            unsigned skip_out = 0);
// Unimplemented unless all present operands and results of rank 3 or more have one layout.
Status expect_one_layout(const KernelRequest& request);

// Distance in elements between neighbours of `desc` along every dim of `dims`, to which it is
// broadcast (aligned right); 0 along dims where it has size 1 or none.
Dims strides_within(const TensorDesc& desc, const Dims& dims);
// The dims of a tensor in the order of its memory, outermost first.
std::vector<std::size_t> memory_order(std::size_t rank, Layout layout);

inline const char* at(const void* data, Int elem, DType dtype) {
  return static_cast<const char*>(data) + elem * elem_bytes(dtype);
}
inline char* at(void* data, Int elem, DType dtype) {
  return static_cast<char*>(data) + elem * elem_bytes(dtype);
}

// Floats x[0..n) of a buffer: where they lie if they are float32, else unpacked into `room`.
inline const float* floats(const Isa& isa, DType dtype, const void* data, Int first, Int n,
                           float* room) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(data) + first;
  isa.unpack(dtype, at(data, first, dtype), room, n);
  return room;
}
// Where results for elements first.. are to be written: the buffer itself or `room`...
inline float* float_target(DType dtype, void* data, Int first, float* room) {
  return dtype == DType::kFloat32 ? static_cast<float*>(data) + first : room;
}
// ... and what follows: rounding them from `room` into the buffer.
inline void flush(const Isa& isa, DType dtype, const float* room, void* data, Int first, Int n) {
  if (dtype != DType::kFloat32) isa.pack(dtype, room, at(data, first, dtype), n);
}

// The part of `thread` in a workspace of `floats` per thread; null if there is no workspace.
inline float* thread_part(void* workspace, int thread, Int floats) {
  return workspace == nullptr ? nullptr : static_cast<float*>(workspace) + thread * floats;
}

// Below this many elements starting threads costs more than it saves.
inline constexpr Int kSerialElems = 65536;
inline int threads_for(Int elems, int threads) {
  return elems < kSerialElems ? 1 : std::max(threads, 1);
}

constexpr Int ceil_div(Int a, Int b) { return (a + b - 1) / b; }
// Floats rounded up so that neighbours in a workspace share no cache line.
constexpr Int padded_floats(Int n) { return (n + 15) / 16 * 16; }

// Mean and variance (in `m2`) of a run of any length > 0; blocks are joined as in Chan, Golub and
// LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances".
Moments long_moments(const Isa& isa, const float* x, Int n);
// The mean of x^2, parts added up in double.
double mean_square(const Isa& isa, const float* x, Int n);

// The calling thread's number and the size of its team.
struct TeamPlace {
  int rank;
  int size;
};
TeamPlace team_place();

// body(unit, thread) for every unit, each thread a contiguous part. Units must be independent and
// their number must not follow from the threads: then results do not depend on the threads.
template <typename Body>
void parallel_units(Int units, int threads, Body&& body) {
  const int team = static_cast<int>(std::min<Int>(std::max(threads, 1), units));
  if (team <= 1) {
    for (Int unit = 0; unit < units; ++unit) body(unit, 0);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const auto [rank, size] = team_place();
    const Int begin = units * rank / size;
    const Int end = units * (rank + 1) / size;
    for (Int unit = begin; unit < end; ++unit) body(unit, rank);
  }
}

}  // namespace mezzo::kernels::cpu
