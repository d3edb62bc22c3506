// What the rows of this folder share on the host's side: kernels made of a function, operands that
// may be left out, memory units by their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

using Prepared = StatusOr<std::unique_ptr<Kernel>>;
using Explain = std::function<Status(const DeviceFault&)>;

// A kernel whose run() is `body`, a function of (const KernelArguments&) giving a Status. The body
// owns all it needs: the request is gone when it runs.
template <typename Body>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::string_view implementation, std::size_t workspace_bytes, Body body,
                 Explain explain)
      : implementation_(implementation),
        workspace_bytes_(workspace_bytes),
        body_(std::move(body)),
        explain_(std::move(explain)) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string_view implementation() const override { return implementation_; }
  Status run(const KernelArguments& arguments) override { return body_(arguments); }
  Status explain(const DeviceFault& fault) const override {
    return explain_ ? explain_(fault) : Kernel::explain(fault);
  }

 private:
  std::string_view implementation_;
  std::size_t workspace_bytes_;
  Body body_;
  Explain explain_;
};

// `implementation` is a literal. `explain` says what a fault means; without one, Kernel does.
template <typename Body>
Prepared make_kernel(std::string_view implementation, std::size_t workspace_bytes, Body body,
                     Explain explain = {}) {
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Body>>(
      implementation, workspace_bytes, std::move(body), std::move(explain)));
}

inline const void* in_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.inputs.size() ? arguments.inputs[i] : nullptr;
}
inline void* out_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.outputs.size() ? arguments.outputs[i] : nullptr;
}

// The operand or result, or an absent one where the request does not go so far.
inline const TensorDesc& in_desc(const KernelRequest& request, std::size_t i) {
  static const TensorDesc kAbsent;
  return i < request.inputs.size() ? request.inputs[i] : kAbsent;
}
inline const TensorDesc& out_desc(const KernelRequest& request, std::size_t i) {
  static const TensorDesc kAbsent;
  return i < request.outputs.size() ? request.outputs[i] : kAbsent;
}

// The axis that attribute `name` gives, counted from the front. REQUIRES: it is in range.
inline std::size_t axis_of(const KernelRequest& request, std::string_view name,
                           std::int64_t fallback, std::size_t rank) {
  const std::int64_t axis = request.attributes.get_int(name, fallback);
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// True if no operand's or result's elements lie in another order than row-major.
inline bool is_row_major(const KernelRequest& request) {
  const auto in_order = [](const TensorDesc& desc) {
    return desc.layout == Layout::kRowMajor || !desc.layout_matters();
  };
  return std::all_of(request.inputs.begin(), request.inputs.end(), in_order) &&
         std::all_of(request.outputs.begin(), request.outputs.end(), in_order);
}

// Bytes of one element; Unimplemented where several elements share a byte.
inline StatusOr<std::int64_t> movable_bytes(DType dtype) {
  const int bits = dtype_bits(dtype);
  if (bits == 0 || bits % 8 != 0) {
    return unimplemented("elements of dtype " + std::string(dtype_name(dtype)));
  }
  return bits / 8;
}

}  // namespace mezzo::kernels::cuda
