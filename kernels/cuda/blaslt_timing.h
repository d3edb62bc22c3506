// Times candidates on the device, where a user has asked for it (Context::timed_candidates).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/support/status.h"

namespace mezzo::kernels::cuda::blaslt {

// Zeroed memory of the device, given back on destruction.
class TimingBuffers {
 public:
  static StatusOr<TimingBuffers> make(const std::vector<std::size_t>& bytes);
  void* at(std::size_t i) const { return blocks_[i].get(); }

 private:
  struct Free {
    void operator()(void* block) const;
  };
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

// The number of the candidate that took least, in the best of several runs after one to warm up.
// The first of equals. A candidate whose run() fails is passed over; an error if all do.
StatusOr<std::size_t> fastest_of(std::size_t candidates,
                                 const std::function<Status(std::size_t, void* stream)>& run);

}  // namespace mezzo::kernels::cuda::blaslt
