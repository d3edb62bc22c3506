#include "tests/cuda_on_cpu/kernels/device_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "kernels/cuda/check.h"
#include "tests/cuda_on_cpu/control.h"

namespace mezzo::kernels {
namespace {

// A block of device memory of exactly this size, aligned as the runtime aligns its arenas.
class DeviceBlock {
 public:
  explicit DeviceBlock(std::size_t bytes) : bytes_(bytes) {
    EXPECT_TRUE(cuda::check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes)).ok());
    std::memset(data_, kFill, bytes);
  }
  explicit DeviceBlock(const Bytes& content) : DeviceBlock(content.size()) {
    if (!content.empty()) std::memcpy(data_, content.data(), content.size());
  }
  ~DeviceBlock() { EXPECT_TRUE(cuda::check(cudaFree(data_)).ok()) << "wrote behind a buffer"; }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  void* data() const { return data_; }
  Bytes content() const {
    const auto* const bytes = static_cast<const unsigned char*>(data_);
    return {bytes, bytes + bytes_};
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

using Blocks = std::vector<std::unique_ptr<DeviceBlock>>;

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

constexpr std::int32_t kStep = 7;

// Puts the kernel's work into a stream and waits for it.
Status run_in_stream(Kernel& kernel, KernelArguments arguments, std::uint64_t order) {
  const Stream stream;
  const DeviceBlock fault_block(Bytes(sizeof(DeviceFault), 0));
  arguments.stream = stream.get();
  arguments.fault = static_cast<DeviceFault*>(fault_block.data());
  arguments.step = kStep;
  cuda_on_cpu::set_thread_order(order);
  Status status = kernel.run(arguments);
  if (status.ok()) status = cuda::check(cudaStreamSynchronize(stream.get()));
  cuda_on_cpu::set_thread_order(0);
  const std::string fault = cuda_on_cpu::take_fault();
  if (!fault.empty()) return internal_error(fault);
  MEZZO_RETURN_IF_ERROR(status);
  DeviceFault wrong;
  std::memcpy(&wrong, fault_block.data(), sizeof wrong);
  if (wrong.step == 0) return ok_status();
  EXPECT_EQ(wrong.step, kStep) << "a fault in the name of another step";
  return kernel.explain(wrong);
}

}  // namespace

cuda::Context& test_context() {
  static cuda::Context* const context = [] {
    auto* const made = new cuda::Context;
    cudaDeviceProp properties;
    EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
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

FewBlocks::FewBlocks(std::uint64_t order) {
  cuda_on_cpu::set_most_blocks(order == 0 ? 0 : static_cast<std::int64_t>(order % 3 + 1));
}
FewBlocks::~FewBlocks() { cuda_on_cpu::set_most_blocks(0); }

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
                                const std::vector<Bytes>& operands, std::uint64_t order,
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
  MEZZO_RETURN_IF_ERROR(run_in_stream(
      kernel, {in, out, kernel.workspace_bytes() > 0 ? workspace.data() : nullptr}, order));
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
