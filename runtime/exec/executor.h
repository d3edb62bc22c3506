// Executes the phases of a plan, on the CPU or on a device.
//
// create() checks the plan, allocates the arenas, loads parameters and constants and prepares one
// kernel per step; run() then only calls kernels: it allocates nothing. One thread at a time.
//
// On a device run() returns when the work is in its stream. A step without a kernel there is
// computed on the host, which waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"
#include "runtime/device/device.h"
#include "runtime/exec/buffer.h"
#include "runtime/exec/tensor_memory.h"

namespace mezzo::runtime {

struct ExecutorOptions {
  int threads = 1;
  kernels::Backend backend = kernels::Backend::kCpu;
  bool profile = false;              // measure every step
  std::shared_ptr<Device> device{};  // null: the CPU
};

// What a step ran on and how long, summed over runs.
struct StepProfile {
  std::string node, op, implementation;
  std::uint64_t runs = 0;
  double total_ms = 0;
};

class Executor {
 public:
  static StatusOr<std::unique_ptr<Executor>> create(std::shared_ptr<const proto::Plan> plan,
                                                    WeightSource weights,
                                                    const ExecutorOptions& options);

  // Runs all steps of the phase; nothing happens if the plan has no such phase. InvalidArgument: a
  // kernel found a wrong value in the data (names the node); on a device wait() says so.
  Status run(proto::PhaseKind phase);
  // Waits for what run() has begun. Nothing happens on the CPU.
  Status wait();

  const proto::Plan& plan() const { return *plan_; }
  // Where the host finds a tensor; valid as long as the executor. On a device: of ports,
  // parameters, states and the training part alone, as last uploaded or downloaded.
  std::byte* data(int tensor) const { return tensors_.host(tensor); }
  template <typename T>
  T* data_as(int tensor) const {
    return reinterpret_cast<T*>(data(tensor));
  }
  std::uint64_t bytes(int tensor) const;
  // Carry a tensor between data() and the device; both wait for the device. Nothing happens on the
  // CPU.
  Status upload(int tensor) { return tensors_.upload(tensor); }
  Status download(int tensor) { return tensors_.download(tensor); }

  Device* device() const { return options_.device.get(); }  // null: the CPU
  // Where kernels find a tensor, and the fault of the device's kernels (kernels::DeviceFault).
  std::byte* device_data(int tensor) const { return tensors_.address(tensor); }
  std::byte* device_fault() const { return fault_->data(); }
  // What a fault means, naming the node. REQUIRES: fault.step > 0.
  Status explain(const kernels::DeviceFault& fault) const;
  // Why no graph can hold the phases: the steps computed on the host. Empty: nothing is in the way.
  std::string not_capturable() const;

  const MemoryUse& memory() const { return memory_; }
  std::vector<StepProfile> profile() const;

 private:
  struct PreparedStep {
    const proto::Step* step = nullptr;
    std::unique_ptr<kernels::Kernel> kernel;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::int32_t number = 0;  // from 1, of all phases: DeviceFault::step
    std::uint64_t runs = 0;
    double total_ms = 0;
  };
  struct PreparedPhase {
    proto::PhaseKind kind;
    std::vector<PreparedStep> steps;
  };

  Executor(std::shared_ptr<const proto::Plan> plan, WeightSource weights,
           const ExecutorOptions& options)
      : plan_(std::move(plan)), weights_(std::move(weights)), options_(options) {}
  Status prepare();
  StatusOr<PreparedStep> prepare_step(const proto::Step& step);
  StatusOr<std::unique_ptr<kernels::Kernel>> prepare_kernel(const kernels::KernelRequest& request);
  Status allocate_workspace(std::size_t bytes);
  Status run_step(PreparedStep& step);

  std::shared_ptr<const proto::Plan> plan_;
  WeightSource weights_;
  ExecutorOptions options_;  // the device outlives what lies and runs on it
  TensorMemory tensors_;
  Buffer host_workspace_;
  std::unique_ptr<DeviceMemory> device_workspace_, fault_;
  std::byte* workspace_ = nullptr;
  std::vector<PreparedPhase> phases_;
  std::vector<const proto::Step*> on_host_;  // steps that the device has no kernel for
  MemoryUse memory_;
};

}  // namespace mezzo::runtime
