// As tests/cuda_on_cpu/kernels/device_run.cpp, on a GPU: operands are copied there and back.
#include "tests/cuda_on_cpu/kernels/device_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/check.h"

namespace mezzo::kernels {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::int32_t kStep = 7;

void expect_ok(cudaError_t error) {
  const Status status = cuda::check(error);
  EXPECT_TRUE(status.ok()) << status.message();
}

// A block of device memory with a guard behind it.
class DeviceBlock {
 public:
  explicit DeviceBlock(std::size_t bytes) : bytes_(bytes) {
    expect_ok(cudaMalloc(&data_, bytes + kGuard));
    expect_ok(cudaMemset(data_, kFill, bytes + kGuard));
  }
  explicit DeviceBlock(const Bytes& content) : DeviceBlock(content.size()) {
    if (!content.empty())
      expect_ok(cudaMemcpy(data_, content.data(), content.size(), cudaMemcpyHostToDevice));
  }
  ~DeviceBlock() { expect_ok(cudaFree(data_)); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  void* data() const { return data_; }
  // Reports as a failure what was written behind the block.
  Bytes content() const {
    Bytes all(bytes_ + kGuard);
    expect_ok(cudaMemcpy(all.data(), data_, all.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = bytes_; i < all.size(); ++i) {
      EXPECT_EQ(all[i], kFill) << "wrote behind a buffer";
      if (all[i] != kFill) break;
    }
    all.resize(bytes_);
    return all;
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

using Blocks = std::vector<std::unique_ptr<DeviceBlock>>;

cudaStream_t test_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    expect_ok(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }();
  return stream;
}

Status run_in_stream(Kernel& kernel, KernelArguments arguments) {
  const DeviceBlock fault_block(Bytes(sizeof(DeviceFault), 0));
  arguments.stream = test_stream();
  arguments.fault = static_cast<DeviceFault*>(fault_block.data());
  arguments.step = kStep;
  // Filling and copying above happen in the legacy stream, which this one does not wait for.
  MEZZO_RETURN_IF_ERROR(cuda::check(cudaStreamSynchronize(cudaStreamLegacy)));
  MEZZO_RETURN_IF_ERROR(kernel.run(arguments));
  MEZZO_RETURN_IF_ERROR(cuda::check(cudaStreamSynchronize(test_stream())));
  DeviceFault wrong;
  MEZZO_RETURN_IF_ERROR(
      cuda::check(cudaMemcpy(&wrong, fault_block.data(), sizeof wrong, cudaMemcpyDeviceToHost)));
  if (wrong.step == 0) return ok_status();
  EXPECT_EQ(wrong.step, kStep) << "a fault in the name of another step";
  return kernel.explain(wrong);
}

}  // namespace

cuda::Context& test_context() {
  static cuda::Context* const context = [] {
    auto* const made = new cuda::Context;
    cudaDeviceProp properties;
    expect_ok(cudaGetDeviceProperties(&properties, 0));
    made->name = properties.name;
    made->multiprocessors = properties.multiProcessorCount;
    made->major = properties.major;
    made->minor = properties.minor;
    return made;
  }();
  return *context;
}

KernelRequest for_device(const KernelRequest& request) {
  KernelRequest told = request;
  told.device = &test_context();
  return told;
}

// Threads and blocks run in the device's own order, as many as there are.
FewBlocks::FewBlocks(std::uint64_t /*order*/) {}
FewBlocks::~FewBlocks() = default;

std::vector<Bytes> encode_operands(const KernelRequest& request,
                                   const std::vector<Numbers>& operands) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const Buffer buffer =
        encode_all(request.inputs[i], i < operands.size() ? operands[i] : Numbers());
    all.emplace_back(buffer.data(), buffer.data() + buffer.size());
  }
  return all;
}

StatusOr<Results> run_on_device(Kernel& kernel, const KernelRequest& request,
                                const std::vector<Bytes>& operands, std::uint64_t /*order*/,
                                int in_place) {
  Blocks inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(std::make_unique<DeviceBlock>(operands[i]));
    in.push_back(request.inputs[i].present() ? inputs.back()->data() : nullptr);
  }
  for (const TensorDesc& desc : request.outputs) {
    outputs.push_back(std::make_unique<DeviceBlock>(desc.present() ? desc.bytes() : 0));
    out.push_back(desc.present() ? outputs.back()->data() : nullptr);
  }
  const auto shared = static_cast<std::size_t>(in_place);
  if (in_place >= 0) out[0] = inputs[shared]->data();
  const DeviceBlock workspace(kernel.workspace_bytes());
  MEZZO_RETURN_IF_ERROR(
      run_in_stream(kernel, {in, out, kernel.workspace_bytes() > 0 ? workspace.data() : nullptr}));
  workspace.content();
  Results results;
  for (const auto& block : outputs) results.push_back(block->content());
  if (in_place >= 0) results[0] = inputs[shared]->content();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_place >= 0 && i == shared) continue;
    EXPECT_EQ(inputs[i]->content(), operands[i]) << "wrote into operand " << i;
  }
  return results;
}

}  // namespace mezzo::kernels
