// Streams, and the order in which what they hold is done.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda_on_cpu/cudart/state.h"
#include "tests/cuda_on_cpu/environment.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cuda_on_cpu {
namespace {

constexpr std::uint64_t kShortestMood = 8;

}  // namespace

Runtime& Runtime::get() {
  static auto* const runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() {
  device_capacity = environment_number("CUDA_ON_CPU_MEMORY", std::uint64_t{8} << 30);
  thread_order = environment_number("CUDA_ON_CPU_THREAD_ORDER", 0);
  ignored_wait = environment_number("CUDA_ON_CPU_IGNORE_WAIT", 0);
  waits_until_ignored = ignored_wait;
  failing_call = environment_number("CUDA_ON_CPU_FAIL_CALL", 0);
  losing_call = environment_number("CUDA_ON_CPU_LOSE_DEVICE", 0);
  set_stream_order(environment_number("CUDA_ON_CPU_STREAM_ORDER", 0));
}

bool Runtime::begin_call(const char* name) {
  ++counts.calls;
  const bool fails = counts.calls == failing_call;
  if (fails) std::fprintf(stderr, "cuda_on_cpu: %s fails\n", name);
  if (counts.calls == losing_call && fault.empty()) {
    std::fprintf(stderr, "cuda_on_cpu: %s finds the device lost\n", name);
    fault = "the device was lost";
  }
  return fails;
}

bool cuda_on_cpu_fails(const char* name) {
  const Call call(name);
  return call.fails() || call.lost();
}

cudaError_t Runtime::done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUstream_st* Runtime::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    return &legacy;
  }
  return streams.count(handle) != 0 ? handle : nullptr;
}

void Runtime::set_stream_order(std::uint64_t seed) {
  drain(nullptr);
  stream_order_ = seed;
  steps_of_mood_ = 0;
  random_.seed(seed);
}

cudaError_t Runtime::enqueue(CUstream_st* stream, Action action) {
  auto shared = std::make_shared<const Action>(std::move(action));
  if (stream->capture != nullptr) {
    auto& nodes = stream->capture->graph->nodes;
    nodes.push_back({std::move(shared), stream->capture_nodes});
    stream->capture_nodes = {nodes.size() - 1};
    return cudaSuccess;
  }
  Entry entry;
  entry.action = std::move(shared);
  return enqueue(stream, std::move(entry));
}

cudaError_t Runtime::enqueue(CUstream_st* stream, Entry entry) {
  // The legacy stream comes after all that is in blocking streams, and before what follows there.
  // With streams that do not block it has no order.
  if (stream == &legacy) {
    for (CUstream_st* const other : streams) {
      if (!other->nonblocking && !drain(other)) return cudaErrorUnknown;
    }
  } else if (!stream->nonblocking && !drain(&legacy)) {
    return cudaErrorUnknown;
  }
  stream->queue.push_back(std::move(entry));
  if (stream_order_ == 0) {
    if (!drain(stream)) return cudaErrorUnknown;
  } else if (random_() % 4 == 0) {
    go_on();
  }
  return fault.empty() ? cudaSuccess : cudaErrorLaunchFailure;
}

bool Runtime::is_ready(const CUstream_st& stream) const {
  if (stream.queue.empty()) return false;
  const Entry& entry = stream.queue.front();
  return entry.event == nullptr || entry.event->reached >= entry.ticket;
}

std::vector<CUstream_st*> Runtime::ready_streams() {
  std::vector<CUstream_st*> ready;
  for (CUstream_st* const stream : streams) {
    if (is_ready(*stream)) ready.push_back(stream);
  }
  if (is_ready(legacy)) ready.push_back(&legacy);
  return ready;
}

// Streams that are all alike would never be far apart: for a while, short or long, some sleep and
// some are a hundred times as eager as others.
CUstream_st& Runtime::choose(const std::vector<CUstream_st*>& ready) {
  if (stream_order_ == 0) return *ready.front();
  if (steps_of_mood_-- == 0) {
    steps_of_mood_ = kShortestMood << random_() % 9;
    const auto draw = [this] { return random_() % 2 == 0 ? 0 : std::uint64_t{1} << random_() % 8; };
    for (CUstream_st* const stream : streams) stream->eagerness = draw();
    legacy.eagerness = draw();
  }
  std::uint64_t sum = 0;
  for (const CUstream_st* const stream : ready) sum += stream->eagerness;
  if (sum == 0) return *ready[random_() % ready.size()];
  std::uint64_t pick = random_() % sum;
  for (CUstream_st* const stream : ready) {
    if (pick < stream->eagerness) return *stream;
    pick -= stream->eagerness;
  }
  return *ready.back();
}

// One action: the first of a stream, or any node of its graph whose predecessors are done.
void Runtime::step(CUstream_st& stream) {
  Entry& entry = stream.queue.front();
  if (entry.graph != nullptr) {
    step_graph(entry);
    if (entry.nodes_left == 0) stream.queue.pop_front();
    return;
  }
  const Entry first = std::move(entry);
  stream.queue.pop_front();
  if (first.action != nullptr && fault.empty()) first.action->run();
}

void Runtime::step_graph(Entry& entry) {
  const auto& nodes = *entry.graph;
  if (nodes.empty()) return;
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& after = nodes[i].after;
    if (entry.node_done[i]) continue;
    if (std::all_of(after.begin(), after.end(), [&](auto k) { return entry.node_done[k]; })) {
      ready.push_back(i);
      if (stream_order_ == 0) break;
    }
  }
  const std::size_t node = ready[stream_order_ == 0 ? 0 : random_() % ready.size()];
  const auto graph = entry.graph;
  entry.node_done[node] = true;
  --entry.nodes_left;
  if (fault.empty()) (*graph)[node].action->run();
}

bool Runtime::drain_until(const std::function<bool()>& reached) {
  while (!reached()) {
    const std::vector<CUstream_st*> ready = ready_streams();
    if (ready.empty()) {
      fault = "streams wait for each other for ever";
      return false;
    }
    step(choose(ready));
  }
  return true;
}

bool Runtime::drain(CUstream_st* stream) {
  if (stream != nullptr) return drain_until([stream] { return stream->queue.empty(); });
  return drain_until([this] {
    return legacy.queue.empty() && std::all_of(streams.begin(), streams.end(),
                                               [](const auto* s) { return s->queue.empty(); });
  });
}

void Runtime::go_on() {
  for (std::uint64_t steps = random_() % 8; steps > 0; --steps) {
    std::vector<CUstream_st*> ready = ready_streams();
    std::erase_if(ready, [](const CUstream_st* stream) { return stream->eagerness == 0; });
    if (ready.empty()) return;
    step(choose(ready));
  }
}

void Runtime::go_one_step() {
  const std::vector<CUstream_st*> ready = ready_streams();
  if (!ready.empty()) step(choose(ready));
}

cudaError_t cuda_on_cpu_enqueue(cudaStream_t stream, const char* what, void (*run)(void*),
                                void* closure, void (*destroy)(void*)) {
  const Call call;
  const std::shared_ptr<void> owned(closure, destroy);
  CUstream_st* const to = call->stream(stream);
  if (to == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  ++call->counts.kernels;
  return call.done(call->enqueue(to, Action{what, [run, owned] { run(owned.get()); }}));
}

bool cuda_on_cpu_breaks_capture() {
  const Call call;
  return call->breaks_capture();
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::Call;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *stream = new CUstream_st;
  (*stream)->nonblocking = (flags & cudaStreamNonBlocking) != 0;
  call->streams.insert(*stream);
  return call.done();
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (call->streams.count(stream) == 0) return call.done(cudaErrorInvalidResourceHandle);
  if (!call->drain(stream)) return call.done(cudaErrorUnknown);
  call->streams.erase(stream);
  delete stream;
  return call.done();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  ++call->counts.waits;
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr || call->breaks_capture()) {
    if (stream->capture != nullptr) stream->capture->invalid = true;
    return call.done(cudaErrorStreamCaptureUnsupported);
  }
  return call.done(call->drain(stream) ? cudaSuccess : cudaErrorUnknown);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr || call->breaks_capture())
    return call.done(cudaErrorStreamCaptureUnsupported);
  if (stream->queue.empty()) return call.done();
  call->go_one_step();
  return cudaErrorNotReady;  // no error to be remembered
}

cudaError_t cudaDeviceSynchronize() {
  const Call call(__func__);
  if (call.fails()) return call.done();
  ++call->counts.waits;
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  return call.done(call->drain(nullptr) ? cudaSuccess : cudaErrorUnknown);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(call->enqueue(stream, {"host function", [=] { function(data); }}));
}
