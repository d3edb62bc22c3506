// Runs the threads of one block after the other on one thread of the operating system.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/device/fiber.h"
#include "tests/cuda_on_cpu/device/grid.h"

namespace cuda_on_cpu {

// One at a time per thread of the operating system; kept for the stacks it owns.
//
// A thread of the block starts on a fiber whose thread has ended, or on a new one. Kernels that
// never wait thus need a single fiber.
class Block {
 public:
  // The one of this thread of the operating system.
  static Block& mine();
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Empty, or what is wrong.
  std::string run(const Launch& launch, std::uint64_t number);

  void sync(Place place);
  int vote(int predicate, Vote vote, Place place);
  WarpValues gather(unsigned mask, std::uint64_t value, Place place);

 private:
  enum class State : std::uint8_t { kNotStarted, kRunning, kReady, kAtBarrier, kInWarp, kEnded };
  struct Worker;
  struct Thread {
    ThreadView view{};
    State state = State::kNotStarted;
    Worker* worker = nullptr;
    Place place{};  // where it waits
  };
  // A fiber, and the thread that it runs.
  struct Worker {
    explicit Worker(void (*entry)()) : fiber(entry) {}
    Fiber fiber;
    Thread* thread = nullptr;
  };
  // Operations of the lanes `mask` of one warp. Values of two operations are kept, since lanes may
  // come to the next one before others have read the last.
  struct WarpOperation {
    unsigned mask = 0, arrived = 0;
    unsigned generation = 0;
    unsigned lanes[2] = {0, 0};
    std::uint64_t values[2][kWarpSize] = {};
    Place place{};
  };
  struct Warp {
    unsigned alive = 0;
    std::vector<WarpOperation> operations;
  };

  static void worker_main();
  void set_up(const Launch& launch, std::uint64_t number);
  void set_up_shared(std::size_t bytes);
  void run_threads(Worker& worker);
  void thread_ended(Thread& thread);
  void wait(State state, Place place);
  void change_worker();
  Worker* next_worker();
  Worker& idle_worker();
  void make_ready(Thread& thread);
  void release_barrier(const Place* place);
  void release_warp(Warp& warp, WarpOperation& operation);
  [[noreturn]] void abandon();
  void find_where_they_wait();
  std::uint64_t random(std::uint64_t below);

  BlockView view_{};
  const Launch* launch_ = nullptr;
  std::string fault_;
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> start_order_;
  std::vector<Warp> warps_;
  std::unique_ptr<unsigned char[]> shared_;
  std::size_t shared_capacity_ = 0;
  std::size_t next_ = 0;   // position in start_order_
  std::size_t alive_ = 0;  // threads that have not ended
  std::size_t at_barrier_ = 0;
  int votes_ = 0, result_votes_ = 0;
  std::size_t voters_ = 0, result_voters_ = 0;
  std::uint64_t random_ = 0;

  Fiber main_;  // the thread of the operating system
  Worker* current_ = nullptr;
  std::deque<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_, ready_;
};

}  // namespace cuda_on_cpu
