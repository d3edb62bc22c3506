// Executes the phases of a plan.
//
// create() checks the plan, allocates the arenas, loads parameters and constants and prepares one
// kernel per step; run() then only calls kernels: it allocates nothing. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"
#include "runtime/exec/buffer.h"

namespace mezzo::runtime {

// Gives the bytes of a tensor in the weights file, by name. They must stay valid as long as a copy
// of the source lives, and the executor keeps one; aligned to 64 bytes they are used in place, else
// copied.
using WeightSource = std::function<StatusOr<std::span<const std::byte>>(const std::string& name)>;

struct ExecutorOptions {
  int threads = 1;
  kernels::Backend backend = kernels::Backend::kCpu;
  bool profile = false;  // measure every step
};

// What a step ran on and how long, summed over runs.
struct StepProfile {
  std::string node, op, implementation;
  std::uint64_t runs = 0;
  double total_ms = 0;
};

struct MemoryUse {
  std::uint64_t arena_bytes = 0;      // as planned, all arenas
  std::uint64_t workspace_bytes = 0;  // shared by all kernels
  std::uint64_t copied_bytes = 0;     // constants that could not be used where they are mapped
  std::uint64_t held_bytes = 0;       // by kernels: constants in the form they read
  std::uint64_t total() const { return arena_bytes + workspace_bytes + copied_bytes + held_bytes; }
};

class Executor {
 public:
  static StatusOr<std::unique_ptr<Executor>> create(std::shared_ptr<const proto::Plan> plan,
                                                    WeightSource weights,
                                                    const ExecutorOptions& options);

  // Runs all steps of the phase; nothing happens if the plan has no such phase. InvalidArgument: a
  // kernel found a wrong value in the data (names the node).
  Status run(proto::PhaseKind phase);

  const proto::Plan& plan() const { return *plan_; }
  // Where a tensor lies; valid as long as the executor.
  std::byte* data(int tensor) const { return addresses_[static_cast<std::size_t>(tensor)]; }
  template <typename T>
  T* data_as(int tensor) const {
    return reinterpret_cast<T*>(data(tensor));
  }
  std::uint64_t bytes(int tensor) const;

  const MemoryUse& memory() const { return memory_; }
  std::vector<StepProfile> profile() const;

 private:
  struct PreparedStep {
    const proto::Step* step = nullptr;
    std::unique_ptr<kernels::Kernel> kernel;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
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
  Status allocate();
  Status load(int tensor, std::span<const std::byte> bytes);
  Status prepare();
  StatusOr<PreparedStep> prepare_step(const proto::Step& step);

  std::shared_ptr<const proto::Plan> plan_;
  WeightSource weights_;
  ExecutorOptions options_;
  std::vector<Buffer> arenas_;
  std::vector<Buffer> copies_;
  std::map<const std::byte*, std::byte*> copied_;  // where a constant lies -> its copy
  Buffer workspace_;
  std::vector<std::byte*> addresses_;
  std::vector<PreparedPhase> phases_;
  MemoryUse memory_;
};

}  // namespace mezzo::runtime
