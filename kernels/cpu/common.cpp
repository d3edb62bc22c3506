#include "kernels/cpu/common.h"

#include <omp.h>

namespace mezzo::kernels::cpu {
namespace {

const TensorDesc kAbsent;

Status expect_packed(const std::vector<TensorDesc>& descs, const char* side, unsigned skip) {
  for (std::size_t i = 0; i < descs.size(); ++i) {
    if (!descs[i].present() || is_packed_float(descs[i].dtype)) continue;
    if (i < 32 && (skip >> i & 1U) != 0) continue;
    return unimplemented(std::string(side) + " " + std::to_string(i) +
                         ": expected float, float16 or bfloat16, got " +
                         std::string(dtype_name(descs[i].dtype)));
  }
  return ok_status();
}

}  // namespace

const TensorDesc& in_desc(const KernelRequest& request, std::size_t i) {
  return i < request.inputs.size() ? request.inputs[i] : kAbsent;
}

const TensorDesc& out_desc(const KernelRequest& request, std::size_t i) {
  return i < request.outputs.size() ? request.outputs[i] : kAbsent;
}

Status expect_packed_floats(const KernelRequest& request, unsigned skip_in, unsigned skip_out) {
  MEZZO_RETURN_IF_ERROR(expect_packed(request.inputs, "operand", skip_in));
  return expect_packed(request.outputs, "result", skip_out);
}

Status expect_one_layout(const KernelRequest& request) {
  const TensorDesc* first = nullptr;
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (!desc.present() || !desc.layout_matters()) continue;
      if (first == nullptr) first = &desc;
      if (desc.layout != first->layout) return unimplemented("operands of different layouts");
    }
  }
  return ok_status();
}

Dims strides_within(const TensorDesc& desc, const Dims& dims) {
  const std::size_t rank = desc.dims.size();
  Dims strides(dims.size(), 0);
  Int stride = 1;
  const auto place = [&](std::size_t dim) {
    if (desc.dims[dim] != 1) strides[dims.size() - rank + dim] = stride;
    stride *= desc.dims[dim];
  };
  const bool channels_last = desc.layout == Layout::kChannelsLast;
  if (channels_last) place(1);
  for (std::size_t dim = rank; dim > 0; --dim) {
    if (!(channels_last && dim == 2)) place(dim - 1);
  }
  return strides;
}

std::vector<std::size_t> memory_order(std::size_t rank, Layout layout) {
  std::vector<std::size_t> order;
  for (std::size_t dim = 0; dim < rank; ++dim) order.push_back(dim);
  if (layout == Layout::kChannelsLast && rank > 2) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

double mean_square(const Isa& isa, const float* x, Int n) {
  constexpr Int kPart = 4096;
  double sum = 0.0;
  for (Int first = 0; first < n; first += kPart) {
    sum += static_cast<double>(
        isa.reduce_run(ReduceOp::kSumSquare, x + first, std::min(kPart, n - first)));
  }
  return sum / static_cast<double>(n);
}

Moments long_moments(const Isa& isa, const float* x, Int n) {
  constexpr Int kPart = 4096;
  double mean = 0.0;
  double m2 = 0.0;
  for (Int first = 0; first < n; first += kPart) {
    const Int count = std::min(kPart, n - first);
    const Moments part = isa.moments(x + first, count);
    const double total = static_cast<double>(first + count);
    const double distance = static_cast<double>(part.mean) - mean;
    mean += distance * static_cast<double>(count) / total;
    m2 += static_cast<double>(part.m2) +
          distance * distance * static_cast<double>(first) * static_cast<double>(count) / total;
  }
  return {static_cast<float>(mean), static_cast<float>(m2 / static_cast<double>(n))};
}

TeamPlace team_place() { return {omp_get_thread_num(), omp_get_num_threads()}; }

}  // namespace mezzo::kernels::cpu
