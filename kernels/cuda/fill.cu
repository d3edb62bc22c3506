// FillZero -> y[..], any dtype: all bytes 0.
#include <memory>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {
namespace {

class FillZero : public Kernel {
 public:
  explicit FillZero(std::size_t bytes) : bytes_(bytes) {}
  Status run(const KernelArguments& arguments) override {
    if (bytes_ == 0) return ok_status();
    return check("cudaMemsetAsync", cudaMemsetAsync(arguments.outputs[0], 0, bytes_,
                                                    static_cast<cudaStream_t>(arguments.stream)));
  }
  std::string_view implementation() const override { return "cuda:memset"; }

 private:
  std::size_t bytes_;
};

StatusOr<std::unique_ptr<Kernel>> fill_zero(const KernelRequest& request) {
  if (request.outputs.size() != 1 || !request.outputs[0].present())
    return invalid_argument("expected 1 result");
  return std::unique_ptr<Kernel>(std::make_unique<FillZero>(request.outputs[0].bytes()));
}

constexpr KernelEntry kRows[] = {{"FillZero", "cuda", fill_zero}};

}  // namespace

std::span<const KernelEntry> fill_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
