// Kernels of which some results are as large as the data say; see Kernel::shrink_result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/reference/reference_kernel.h"

namespace mezzo::kernels::reference {

// Dim `dim` of result `output` is the count that the last run gave.
struct SizedDim {
  std::size_t output;
  std::size_t dim;
};

// `body` is called as StatusOr<std::int64_t>(const KernelArguments&) and gives the count.
template <typename Body>
class SizedKernel final : public Kernel {
 public:
  SizedKernel(Body body, std::vector<SizedDim> sized, std::size_t workspace_bytes)
      : body_(std::move(body)), sized_(std::move(sized)), workspace_bytes_(workspace_bytes) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string_view implementation() const override { return "reference"; }
  Status run(const KernelArguments& arguments) override {
    MEZZO_ASSIGN_OR_RETURN(count_, body_(arguments));
    return ok_status();
  }
  void shrink_result(std::size_t output, std::vector<std::int64_t>& dims) const override {
    for (const SizedDim& sized : sized_) {
      if (sized.output == output && sized.dim < dims.size()) dims[sized.dim] = count_;
    }
  }

 private:
  Body body_;
  std::vector<SizedDim> sized_;
  std::size_t workspace_bytes_;
  std::int64_t count_ = 0;
};

template <typename Body>
PreparedKernel make_sized_kernel(Body body, std::vector<SizedDim> sized,
                                 std::size_t workspace_bytes = 0) {
  return std::unique_ptr<Kernel>(
      std::make_unique<SizedKernel<Body>>(std::move(body), std::move(sized), workspace_bytes));
}

// The data ask for more than the request's upper bound.
inline Status beyond_bound(const std::string& op, std::int64_t count, std::int64_t bound) {
  return invalid_argument(op + ": the data give " + std::to_string(count) +
                          " results, the request has room for " + std::to_string(bound));
}

}  // namespace mezzo::kernels::reference
