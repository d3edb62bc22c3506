#include "tests/cuda_on_cpu/device/grid.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/cuda_on_cpu/device/block.h"
#include "tests/cuda_on_cpu/environment.h"

namespace cuda_on_cpu {
namespace {

// Below this many threads of the device, waking another thread of the host costs more than it
// gives.
constexpr std::uint64_t kWorthSharing = 4096;

std::uint64_t host_threads() {
  return std::max<std::uint64_t>(
      1, environment_number("CUDA_ON_CPU_THREADS", std::thread::hardware_concurrency()));
}

// Threads that do the same job as the caller, at the same time.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run(const std::function<void()>& job) {
    const std::lock_guard one_at_a_time(caller_);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
      busy_ = threads_.size();
    }
    wake_.notify_all();
    job();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  Pool() {
    for (std::uint64_t i = 1; i < host_threads(); ++i) threads_.emplace_back([this] { work(); });
  }
  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      const std::function<void()>* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
        if (stop_) return;
        seen = generation_;
        job = job_;
      }
      (*job)();
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex caller_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const std::function<void()>* job_ = nullptr;
  std::uint64_t generation_ = 0;
  std::size_t busy_ = 0;
  bool stop_ = false;
};

// The blocks of a grid in the order they are begun: a step that has no factor in common with their
// number visits them all.
class BlockOrder {
 public:
  BlockOrder(std::uint64_t blocks, std::uint64_t seed) : blocks_(blocks) {
    if (seed == 0 || blocks < 2) return;
    first_ = seed % blocks;
    step_ = seed / 7 % blocks | 1;
    while (std::gcd(step_, blocks) != 1) step_ += 2;
  }
  std::uint64_t operator[](std::uint64_t position) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(position) * step_ + first_) % blocks_);
  }

 private:
  std::uint64_t blocks_, first_ = 0, step_ = 1;
};

}  // namespace

std::string run_grid(const Launch& launch) {
  const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const std::uint64_t threads = blocks * launch.block.x * launch.block.y * launch.block.z;
  const BlockOrder order(blocks, launch.order.seed);
  std::atomic<std::uint64_t> next = 0;
  std::mutex mutex;
  std::string fault;
  const std::function<void()> job = [&] {
    for (std::uint64_t i; (i = next.fetch_add(1)) < blocks;) {
      std::string found = Block::mine().run(launch, order[i]);
      if (found.empty()) continue;
      next = blocks;
      const std::lock_guard lock(mutex);
      fault = std::move(found);
    }
  };
  if (blocks == 1 || threads < kWorthSharing) {
    job();
  } else {
    Pool::instance().run(job);
  }
  return fault;
}

}  // namespace cuda_on_cpu
