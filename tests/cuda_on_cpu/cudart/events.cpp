// Events, and waiting for them.
#include <algorithm>
#include <chrono>

#include "tests/cuda_on_cpu/cudart/state.h"

using cuda_on_cpu::Call;
using cuda_on_cpu::Capture;

namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The wait that a test wants left out.
bool is_ignored(cuda_on_cpu::Runtime& runtime) {
  return runtime.waits_until_ignored != 0 && --runtime.waits_until_ignored == 0;
}

// A stream that waits for an event of a recording becomes part of it.
cudaError_t wait_in_capture(const Call& call, CUstream_st* stream, CUevent_st* event,
                            bool ignored) {
  Capture* const capture = event->capture == 0 ? nullptr : call->find_capture(event->capture);
  if (capture == nullptr) {
    if (event->capture != 0) return cudaErrorCapturedEvent;  // of a recording that has ended
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (stream->capture != nullptr && stream->capture != capture) {
    stream->capture->invalid = capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (stream->capture == nullptr) {
    stream->capture = capture;
    stream->capture_nodes.clear();
  }
  if (ignored) return cudaSuccess;
  auto& nodes = stream->capture_nodes;
  nodes.insert(nodes.end(), event->capture_nodes.begin(), event->capture_nodes.end());
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *event = new CUevent_st;
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  return call.done();
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  delete event;
  return call.done();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr || event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) {
    event->capture = stream->capture->number;
    event->capture_nodes = stream->capture_nodes;
    return call.done();
  }
  event->capture = 0;
  const std::uint64_t ticket = ++event->state->recorded;
  return call.done(call->enqueue(stream, {"event", [state = event->state, ticket] {
                                            state->reached = std::max(state->reached, ticket);
                                            state->time_ms = now_ms();
                                          }}));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr || event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  // An event that was never recorded holds up nobody.
  if (event->capture == 0 && event->state->recorded == 0) return call.done();
  ++call->counts.stream_waits;
  const bool ignored = is_ignored(call.runtime);
  if (event->capture != 0 || stream->capture != nullptr) {
    return call.done(wait_in_capture(call, stream, event, ignored));
  }
  if (ignored) return call.done();
  cuda_on_cpu::Entry entry;
  entry.event = event->state;
  entry.ticket = event->state->recorded;
  return call.done(call->enqueue(stream, std::move(entry)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  ++call->counts.waits;
  if (event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (event->capture != 0) return call.done(cudaErrorCapturedEvent);
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  const auto state = event->state;
  const std::uint64_t ticket = state->recorded;
  const bool reached = call->drain_until([&] { return state->reached >= ticket; });
  return call.done(reached ? cudaSuccess : cudaErrorUnknown);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (event->capture != 0) return call.done(cudaErrorCapturedEvent);
  if (call->breaks_capture()) return call.done(cudaErrorStreamCaptureUnsupported);
  if (event->state->reached >= event->state->recorded) return call.done();
  call->go_one_step();
  return cudaErrorNotReady;  // no error to be remembered
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (from == nullptr || to == nullptr || !from->has_time || !to->has_time ||
      from->state->recorded == 0 || to->state->recorded == 0) {
    return call.done(cudaErrorInvalidResourceHandle);
  }
  for (const CUevent_st* event : {from, to}) {
    if (event->state->reached < event->state->recorded) return cudaErrorNotReady;
  }
  *ms = static_cast<float>(to->state->time_ms - from->state->time_ms);
  return call.done();
}
