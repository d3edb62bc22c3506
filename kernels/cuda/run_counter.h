// The number of runs of one kernel, on the device: a replayed graph of kernels counts them too.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/support/status.h"

namespace mezzo::kernels::cuda {

class RunCounter {
 public:
  // Allocates, and waits for the device. Internal: what the runtime library says.
  static StatusOr<std::shared_ptr<RunCounter>> make();
  explicit RunCounter(std::int64_t* run) : run_(run) {}
  RunCounter(const RunCounter&) = delete;
  RunCounter& operator=(const RunCounter&) = delete;
  ~RunCounter();

  // On the device: 0 in the first run.
  const std::int64_t* run() const { return run_; }
  // Puts it into the stream that a run is over.
  Status count(void* stream);

 private:
  std::int64_t* run_;
};

}  // namespace mezzo::kernels::cuda
