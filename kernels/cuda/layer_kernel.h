// What the rows of layers have in common on the host, beside function_kernel.h: operands and
// workspaces as their kernels take them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/float_element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

using PreparedKernel = Prepared;

// `body` is called as Status(const KernelArguments&) and owns all it uses; `name` is a literal.
template <typename Body>
PreparedKernel make_layer(std::string_view name, Body body, std::size_t workspace_bytes = 0,
                          Explain explain = {}) {
  return make_kernel(name, workspace_bytes, std::move(body), std::move(explain));
}

// Parts of a workspace, one after the other, each aligned to 256 bytes.
class WorkspacePlan {
 public:
  // Where the next `elems` numbers of 8 bytes, or as many smaller ones, begin.
  std::size_t add(Int elems) {
    const std::size_t begin = bytes_;
    bytes_ += (static_cast<std::size_t>(elems) * sizeof(double) + 255) / 256 * 256;
    return begin;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

template <typename T>
T* workspace_at(const KernelArguments& arguments, std::size_t begin) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(arguments.workspace) + begin);
}

// Not present() where left out.
inline const TensorDesc& operand(const KernelRequest& request, std::size_t i) {
  return in_desc(request, i);
}
inline const TensorDesc& result(const KernelRequest& request, std::size_t i) {
  return out_desc(request, i);
}

inline const void* operand_data(const KernelArguments& arguments, std::size_t i) {
  return in_buffer(arguments, i);
}
inline void* result_data(const KernelArguments& arguments, std::size_t i) {
  return out_buffer(arguments, i);
}

// True if one of the operands or results is float64: kernels then compute in double.
inline bool has_double(const KernelRequest& request) {
  const auto is_double = [](const TensorDesc& desc) { return desc.dtype == DType::kFloat64; };
  return std::any_of(request.inputs.begin(), request.inputs.end(), is_double) ||
         std::any_of(request.outputs.begin(), request.outputs.end(), is_double);
}

inline bool is_channels_last(const TensorDesc& desc) {
  return desc.layout == Layout::kChannelsLast && desc.layout_matters();
}

// Unimplemented where two of these, absent ones left out, lie in different orders.
inline Status expect_one_layout(std::initializer_list<const TensorDesc*> descs) {
  const TensorDesc* first = nullptr;
  for (const TensorDesc* desc : descs) {
    if (!desc->present() || !desc->layout_matters()) continue;
    if (first == nullptr) first = desc;
    if (desc->layout != first->layout) return unimplemented("operands in different layouts");
  }
  return ok_status();
}

inline bool is_aligned_16(std::initializer_list<const void*> buffers) {
  return std::all_of(buffers.begin(), buffers.end(), [](const void* buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer) % 16 == 0;
  });
}

inline Int dims_product(const Dims& dims, std::size_t from, std::size_t to) {
  Int product = 1;
  for (std::size_t d = from; d < to; ++d) product *= dims[d];
  return product;
}

// Attribute `name` as an index into `rank` dims. REQUIRES: a reference kernel took it.
inline std::size_t axis_of(const KernelRequest& request, Int fallback, std::size_t rank) {
  return axis_of(request, "axis", fallback, rank);
}

// Of numbers of type T in a workspace.
template <typename T>
constexpr DType kRealDType = sizeof(T) == sizeof(double) ? DType::kFloat64 : DType::kFloat32;

// Launches Kernel<double> or Kernel<float>: with_real(has_double, [&](auto real) { using T =
// decltype(real); .. }).
template <typename Visit>
Status with_real(bool is_double, Visit&& visit) {
  if (is_double) return visit(double{});
  return visit(float{});
}

}  // namespace mezzo::kernels::cuda
