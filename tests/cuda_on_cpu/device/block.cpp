#include "tests/cuda_on_cpu/device/block.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "tests/cuda_on_cpu/device/barriers.h"

namespace cuda_on_cpu {

constinit thread_local const ThreadView* cuda_on_cpu_thread = nullptr;

namespace {

constexpr int kAllOnes = 0xff;  // NaN in every floating type

std::string at(const Place& place) {
  const std::string file = place.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line());
}

std::string text(const uint3& index) {
  return std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z);
}

bool is_same(const Place& a, const Place& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace

Block& Block::mine() {
  static thread_local Block block;
  return block;
}

// A generator of Lehmer's kind (splitmix64): small, and good from the first number on.
std::uint64_t Block::random(std::uint64_t below) {
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return (z ^ (z >> 31)) % below;
}

std::string Block::run(const Launch& launch, std::uint64_t number) {
  set_up(launch, number);
  change_worker();
  if (!fault_.empty()) {
    for (const auto& worker : workers_) {
      worker->fiber.reset();
      worker->thread = nullptr;
    }
    idle_.clear();
    for (const auto& worker : workers_) idle_.push_back(worker.get());
    ready_.clear();
  }
  cuda_on_cpu_thread = nullptr;
  return fault_.empty() ? "" : std::exchange(fault_, {}) + ", in block " + text(view_.index);
}

void Block::set_up(const Launch& launch, std::uint64_t number) {
  launch_ = &launch;
  const dim3 grid = launch.grid, dims = launch.block;
  view_.index = {static_cast<unsigned>(number % grid.x),
                 static_cast<unsigned>(number / grid.x % grid.y),
                 static_cast<unsigned>(number / grid.x / grid.y)};
  const std::size_t count = std::size_t{dims.x} * dims.y * dims.z;
  if (threads_.size() != count || view_.dims.x != dims.x || view_.dims.y != dims.y) {
    threads_.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      const auto t = static_cast<unsigned>(i);
      threads_[i].view = {{t % dims.x, t / dims.x % dims.y, t / (dims.x * dims.y)},
                          &view_,
                          static_cast<int>(t % kWarpSize),
                          static_cast<int>(t / kWarpSize)};
    }
    start_order_.resize(count);
    std::iota(start_order_.begin(), start_order_.end(), 0U);
  }
  for (Thread& thread : threads_) thread.state = State::kNotStarted;
  view_.grid = grid;
  view_.dims = dims;
  warps_.resize((count + kWarpSize - 1) / kWarpSize);
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    const std::size_t lanes = std::min<std::size_t>(kWarpSize, count - w * kWarpSize);
    warps_[w].alive = lanes == kWarpSize ? ~0U : (1U << lanes) - 1;
    warps_[w].operations.clear();
  }
  set_up_shared(launch.shared_bytes);
  next_ = at_barrier_ = voters_ = 0;
  votes_ = 0;
  alive_ = count;
  if (launch.order.seed != 0) {
    random_ = launch.order.seed * 0x2545f4914f6cdd1dU + number;
    for (std::size_t i = count; i > 1; --i) std::swap(start_order_[i - 1], start_order_[random(i)]);
  } else {
    std::iota(start_order_.begin(), start_order_.end(), 0U);
  }
}

// Of exactly the launch's size, so that AddressSanitizer sees what goes beyond.
void Block::set_up_shared(std::size_t bytes) {
  if (bytes != shared_capacity_) {
    shared_.reset(bytes == 0 ? nullptr : new unsigned char[bytes]);
    shared_capacity_ = bytes;
  }
  if (bytes != 0) std::memset(shared_.get(), kAllOnes, bytes);
  view_.dynamic_shared = shared_.get();
}

// --- workers ---

void Block::worker_main() {
  Block& block = mine();
  Worker& self = *block.current_;
  Fiber::begin(self.fiber);
  for (;;) {
    block.run_threads(self);
    self.thread = nullptr;
    block.idle_.push_back(&self);
    block.change_worker();
  }
}

void Block::run_threads(Worker& worker) {
  while (next_ < start_order_.size()) {
    Thread& thread = threads_[start_order_[next_++]];
    thread.worker = &worker;
    thread.state = State::kRunning;
    worker.thread = &thread;
    cuda_on_cpu_thread = &thread.view;
    launch_->kernel->invoke(launch_->kernel->kernel, launch_->arguments);
    thread_ended(thread);
  }
}

void Block::thread_ended(Thread& thread) {
  thread.state = State::kEnded;
  --alive_;
  Warp& warp = warps_[static_cast<std::size_t>(thread.view.warp)];
  warp.alive &= ~(1U << thread.view.lane);
  // Those that waited for this one alone go on.
  if (alive_ > 0 && at_barrier_ == alive_) release_barrier(nullptr);
  for (WarpOperation& operation : warp.operations) {
    if (operation.arrived != 0 && operation.arrived == (operation.mask & warp.alive)) {
      release_warp(warp, operation);
    }
  }
}

Block::Worker& Block::idle_worker() {
  if (idle_.empty()) {
    workers_.push_back(std::make_unique<Worker>(&worker_main));
    return *workers_.back();
  }
  Worker& worker = *idle_.back();
  idle_.pop_back();
  return worker;
}

// Null: back to the thread of the operating system, all is done or lost.
Block::Worker* Block::next_worker() {
  if (!fault_.empty()) return nullptr;
  const bool may_start = next_ < start_order_.size();
  if (!ready_.empty()) {
    if (launch_->order.seed != 0) {
      const std::size_t pick = random(ready_.size() + (may_start ? 1 : 0));
      if (pick == ready_.size()) return &idle_worker();
      std::swap(ready_[pick], ready_.back());
    }
    Worker* const worker = ready_.back();
    ready_.pop_back();
    return worker;
  }
  if (may_start) return &idle_worker();
  if (alive_ > 0) find_where_they_wait();
  return nullptr;
}

void Block::change_worker() {
  Fiber& from = current_ == nullptr ? main_ : current_->fiber;
  Worker* const to = next_worker();
  current_ = to;
  if (to != nullptr && to->thread != nullptr) cuda_on_cpu_thread = &to->thread->view;
  Fiber::change(from, to == nullptr ? main_ : to->fiber);
}

void Block::wait(State state, Place place) {
  Thread& thread = *current_->thread;
  thread.state = state;
  thread.place = place;
  change_worker();
  thread.state = State::kRunning;
}

void Block::make_ready(Thread& thread) {
  thread.state = State::kReady;
  ready_.push_back(thread.worker);
}

// --- barriers ---

void Block::sync(Place place) {
  if (is_removed(place)) return;
  ++at_barrier_;
  if (at_barrier_ < alive_) return wait(State::kAtBarrier, place);
  record_barrier(place);
  release_barrier(&place);
}

// `place`: of the thread that came last; null if one ended instead.
void Block::release_barrier(const Place* place) {
  for (const Thread& thread : threads_) {
    if (thread.state != State::kAtBarrier) continue;
    if (place == nullptr) place = &thread.place;
    if (!is_same(thread.place, *place)) {
      fault_ = "threads of a block wait at different barriers, " + at(thread.place) + " and " +
               at(*place);
      abandon();
    }
  }
  at_barrier_ = 0;
  result_votes_ = std::exchange(votes_, 0);
  result_voters_ = std::exchange(voters_, 0);
  for (Thread& thread : threads_) {
    if (thread.state == State::kAtBarrier) make_ready(thread);
  }
}

int Block::vote(int predicate, Vote vote, Place place) {
  votes_ += predicate != 0 ? 1 : 0;
  ++voters_;
  sync(place);
  switch (vote) {
    case Vote::kCount: return result_votes_;
    case Vote::kAll: return result_votes_ == static_cast<int>(result_voters_) ? 1 : 0;
    case Vote::kAny: return result_votes_ != 0 ? 1 : 0;
  }
  return 0;
}

// --- warps ---

WarpValues Block::gather(unsigned mask, std::uint64_t value, Place place) {
  Thread& thread = *current_->thread;
  Warp& warp = warps_[static_cast<std::size_t>(thread.view.warp)];
  const unsigned bit = 1U << thread.view.lane;
  if ((mask & bit) == 0) {
    fault_ = "a warp operation whose mask leaves out its lane, " + at(place);
    abandon();
  }
  std::size_t which = 0;
  while (which < warp.operations.size() && warp.operations[which].mask != mask) ++which;
  if (which == warp.operations.size()) warp.operations.push_back({.mask = mask});
  {
    WarpOperation& operation = warp.operations[which];
    if (operation.arrived == 0) operation.place = place;
    if (!is_same(operation.place, place)) {
      fault_ = "lanes of a warp are in different operations, " + at(operation.place) + " and " +
               at(place);
      abandon();
    }
    const unsigned slot = operation.generation % 2;
    operation.values[slot][thread.view.lane] = value;
    operation.arrived |= bit;
    if (operation.arrived == (mask & warp.alive)) {
      release_warp(warp, operation);
      return {operation.values[slot], operation.lanes[slot]};
    }
  }
  const unsigned slot = warp.operations[which].generation % 2;
  wait(State::kInWarp, place);
  // Others may have made room for more operations meanwhile.
  WarpOperation& operation = warp.operations[which];
  return {operation.values[slot], operation.lanes[slot]};
}

void Block::release_warp(Warp& warp, WarpOperation& operation) {
  const std::size_t first = static_cast<std::size_t>(&warp - warps_.data()) * kWarpSize;
  operation.lanes[operation.generation++ % 2] = operation.arrived;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((operation.arrived >> lane & 1U) == 0) continue;
    Thread& thread = threads_[first + lane];
    if (thread.state == State::kInWarp) make_ready(thread);
  }
  operation.arrived = 0;
}

// --- faults ---

// Leaves the block for good. What is left on the fibers is never continued, so it must own nothing:
// as kernels do not.
void Block::abandon() {
  Fiber& from = current_->fiber;
  current_ = nullptr;
  Fiber::change(from, main_);
  __builtin_unreachable();
}

void Block::find_where_they_wait() {
  std::map<std::string, int> places;
  for (const Thread& thread : threads_) {
    if (thread.state == State::kAtBarrier) ++places["the barrier " + at(thread.place)];
    if (thread.state == State::kInWarp) ++places["the warp operation " + at(thread.place)];
  }
  std::string where;
  for (const auto& [place, count] : places) {
    where += (where.empty() ? "" : ", ") + std::to_string(count) + " at " + place;
  }
  fault_ = "threads wait for others that never come: " + where;
}

// --- what kernels call ---

void cuda_on_cpu_sync_block(Place place) { Block::mine().sync(place); }

int cuda_on_cpu_vote_block(int predicate, Vote vote, Place place) {
  return Block::mine().vote(predicate, vote, place);
}

void cuda_on_cpu_sync_warp(unsigned mask, Place place) {
  if (is_removed(place)) return;
  record_barrier(place);
  Block::mine().gather(mask, 0, place);
}

WarpValues cuda_on_cpu_gather_warp(unsigned mask, std::uint64_t value, Place place) {
  return Block::mine().gather(mask, value, place);
}

}  // namespace cuda_on_cpu
