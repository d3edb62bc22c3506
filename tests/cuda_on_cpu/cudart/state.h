// What the parts of the stand-in for libcudart share. Everything happens under one lock.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/control.h"

namespace cuda_on_cpu {

// One piece of work; may be done many times.
struct Action {
  std::string what;
  std::function<void()> run;
};
using ActionRef = std::shared_ptr<const Action>;

struct GraphNode {
  ActionRef action;
  std::vector<std::size_t> after;  // nodes that must have been done
};

// Of an event; work may wait for one that was destroyed.
struct EventState {
  std::uint64_t recorded = 0, reached = 0;  // how many times
  double time_ms = 0;
};

// An entry of a stream's queue: an action, the wait for an event, or a graph.
struct Entry {
  ActionRef action;
  std::shared_ptr<EventState> event;
  std::uint64_t ticket = 0;  // of the event, that must have been reached
  std::shared_ptr<const std::vector<GraphNode>> graph;
  std::vector<bool> node_done;
  std::size_t nodes_left = 0;
};

struct Capture;

}  // namespace cuda_on_cpu

struct CUgraph_st {
  std::vector<cuda_on_cpu::GraphNode> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<cuda_on_cpu::GraphNode>> nodes;
};
struct CUevent_st {
  std::shared_ptr<cuda_on_cpu::EventState> state = std::make_shared<cuda_on_cpu::EventState>();
  bool has_time = true;
  std::uint64_t capture = 0;  // number of the one it was last recorded in; 0: none
  std::vector<std::size_t> capture_nodes;
};
struct CUstream_st {
  std::deque<cuda_on_cpu::Entry> queue;
  bool nonblocking = false;
  std::uint64_t eagerness = 1;  // to go on before others; 0: only where no other can
  cuda_on_cpu::Capture* capture = nullptr;
  std::vector<std::size_t> capture_nodes;  // that the next one comes after
};

namespace cuda_on_cpu {

// Work being recorded; begins in `origin`, into which all other streams must have led back.
struct Capture {
  std::uint64_t number = 0;
  CUgraph_st* graph = nullptr;
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalid = false;
};

class Runtime {
 public:
  // Made on first use and never destroyed, since programs may call from destructors.
  static Runtime& get();

  std::recursive_mutex mutex;
  Counts counts;
  // Numbers of the call that fails and of the one that the device is lost at, from 1; 0: none.
  std::uint64_t failing_call = 0, losing_call = 0;
  // Counts a call; true if it is the one that fails.
  bool begin_call(const char* name);
  cudaError_t last_error = cudaSuccess;
  std::string fault;  // not empty: the device is lost
  std::uint64_t thread_order = 0;
  std::uint64_t ignored_wait = 0, waits_until_ignored = 0;

  std::set<CUstream_st*> streams;  // without the legacy one
  CUstream_st legacy;
  std::set<Capture*> captures;
  std::uint64_t next_capture = 1;

  Capture* find_capture(std::uint64_t number);

  // --- streams.cpp ---
  CUstream_st* stream(cudaStream_t handle);  // null: no such stream
  void set_stream_order(std::uint64_t seed);
  cudaError_t enqueue(CUstream_st* stream, Action action);
  cudaError_t enqueue(CUstream_st* stream, Entry entry);
  // Lets streams go on until `stream` is empty; null: all. False: they wait for each other.
  bool drain(CUstream_st* stream);
  bool drain_until(const std::function<bool()>& reached);
  // A little of what streams that are awake could do now.
  void go_on();
  // For a host that asks again and again, and goes on as soon as it can.
  void go_one_step();

  // --- memory.cpp ---
  // All of [at, at + bytes) in one block of the kind?
  bool is_device(const void* at, std::size_t bytes) const {
    return lies_in(device_memory, at, bytes);
  }
  bool is_pinned(const void* at, std::size_t bytes) const {
    return lies_in(pinned_memory, at, bytes);
  }
  using Blocks = std::map<const char*, std::size_t>;
  static bool lies_in(const Blocks& blocks, const void* at, std::size_t bytes);
  Blocks device_memory, pinned_memory;
  std::uint64_t device_bytes = 0, device_capacity = 0;

  // Remembers the error for cudaGetLastError.
  cudaError_t done(cudaError_t error);
  // What a call must not do while this thread records in a strict mode: the recording is lost.
  bool breaks_capture();

 private:
  Runtime();
  bool is_ready(const CUstream_st& stream) const;
  void step(CUstream_st& stream);
  std::vector<CUstream_st*> ready_streams();
  CUstream_st& choose(const std::vector<CUstream_st*>& ready);
  std::uint64_t steps_of_mood_ = 0;  // until the streams' eagerness is drawn anew
  void step_graph(Entry& entry);

  std::uint64_t stream_order_ = 0;
  std::mt19937_64 random_;
};

// Locks the runtime for a call; gives the error of a lost device, or of a call that is to fail.
class Call {
 public:
  // `name` is of the library's function, which counts; null: of none.
  explicit Call(const char* name = nullptr) : runtime(Runtime::get()), lock_(runtime.mutex) {
    if (name != nullptr) fails_ = runtime.begin_call(name);
  }
  Runtime& runtime;
  Runtime* operator->() const { return &runtime; }
  bool lost() const { return !runtime.fault.empty(); }
  // Then it does nothing and returns done().
  bool fails() const { return fails_; }
  cudaError_t done(cudaError_t error = cudaSuccess) const {
    if (fails_) error = cudaErrorUnknown;
    return runtime.done(lost() ? cudaErrorLaunchFailure : error);
  }

 private:
  bool fails_ = false;
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace cuda_on_cpu
