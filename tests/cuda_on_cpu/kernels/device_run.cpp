#include "tests/cuda_on_cpu/kernels/device_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "kernels/cuda/check.h"
#include "tests/cuda_on_cpu/kernels/test_device.h"

namespace mezzo::kernels {
namespace {

constexpr std::int32_t kStep = 7;

void expect_ok(cudaError_t error) {
  const Status status = cuda::check(error);
  EXPECT_TRUE(status.ok()) << status.message();
}

// A block of device memory, aligned as the runtime aligns its arenas.
class DeviceBlock {
 public:
  explicit DeviceBlock(std::size_t bytes) : bytes_(bytes) {
    const std::size_t all = std::max<std::size_t>(1, bytes + guard_bytes());
    expect_ok(cudaMalloc(&data_, all));
    expect_ok(cudaMemset(data_, kFill, all));
  }
  explicit DeviceBlock(const Bytes& content) : DeviceBlock(content.size()) {
    if (!content.empty())
      expect_ok(cudaMemcpy(data_, content.data(), content.size(), cudaMemcpyHostToDevice));
  }
  ~DeviceBlock() {
    const Status status = cuda::check("cudaFree", cudaFree(data_));
    EXPECT_TRUE(status.ok()) << status.message() << ", or something wrote behind a buffer";
  }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  void* data() const { return data_; }
  // Reports as a failure what was written behind the block.
  Bytes content() const {
    Bytes all(bytes_ + guard_bytes());
    if (!all.empty()) expect_ok(cudaMemcpy(all.data(), data_, all.size(), cudaMemcpyDeviceToHost));
    EXPECT_TRUE(std::all_of(all.begin() + static_cast<std::ptrdiff_t>(bytes_), all.end(),
                            [](unsigned char byte) { return byte == kFill; }))
        << "wrote behind a buffer";
    all.resize(bytes_);
    return all;
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

using Blocks = std::vector<std::unique_ptr<DeviceBlock>>;

class Stream {
 public:
  Stream() { expect_ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { expect_ok(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Puts the kernel's work into a stream and waits for it.
Status run_in_stream(Kernel& kernel, KernelArguments arguments, std::uint64_t order) {
  const Stream stream;
  const DeviceBlock fault_block(Bytes(sizeof(DeviceFault), 0));
  arguments.stream = stream.get();
  arguments.fault = static_cast<DeviceFault*>(fault_block.data());
  arguments.step = kStep;
  // Blocks were filled in another stream, which this one does not wait for.
  MEZZO_RETURN_IF_ERROR(cuda::check("cudaDeviceSynchronize", cudaDeviceSynchronize()));
  set_launch_order(order);
  Status status = kernel.run(arguments);
  if (status.ok())
    status = cuda::check("cudaStreamSynchronize", cudaStreamSynchronize(stream.get()));
  set_launch_order(0);
  const std::string fault = take_device_fault();
  if (!fault.empty()) return internal_error(fault);
  MEZZO_RETURN_IF_ERROR(status);
  DeviceFault wrong;
  MEZZO_RETURN_IF_ERROR(cuda::check(
      "cudaMemcpy", cudaMemcpy(&wrong, fault_block.data(), sizeof wrong, cudaMemcpyDeviceToHost)));
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
  if (guard_bytes() > 0) workspace.content();
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
