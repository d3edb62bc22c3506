// Makes a Kernel of a function: what every family of the reference returns from its prepare.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "kernels/kernel.h"

namespace mezzo::kernels::reference {

using PreparedKernel = StatusOr<std::unique_ptr<Kernel>>;

// The buffer of operand or result i; null where it was left out at the end.
inline const void* in_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.inputs.size() ? arguments.inputs[i] : nullptr;
}
inline void* out_buffer(const KernelArguments& arguments, std::size_t i) {
  return i < arguments.outputs.size() ? arguments.outputs[i] : nullptr;
}

template <typename Body>
class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(Body body, std::size_t workspace_bytes)
      : body_(std::move(body)), workspace_bytes_(workspace_bytes) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string_view implementation() const override { return "reference"; }
  Status run(const KernelArguments& arguments) override {
    if constexpr (std::is_void_v<decltype(body_(arguments))>) {
      body_(arguments);
      return ok_status();
    } else {
      return body_(arguments);
    }
  }

 private:
  Body body_;
  std::size_t workspace_bytes_;
};

// `body` is called as void(const KernelArguments&), or as Status if the data can be wrong. It must
// own all it uses: the request is gone when it runs.
template <typename Body>
PreparedKernel make_kernel(Body body, std::size_t workspace_bytes = 0) {
  return std::unique_ptr<Kernel>(
      std::make_unique<ReferenceKernel<Body>>(std::move(body), workspace_bytes));
}

// Bytes of a workspace of `elems` doubles. Sizes come from checked requests: no overflow.
inline std::size_t doubles_bytes(std::int64_t elems) {
  return static_cast<std::size_t>(elems) * sizeof(double);
}

}  // namespace mezzo::kernels::reference
