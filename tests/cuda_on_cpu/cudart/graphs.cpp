// Recording streams into graphs, and launching those.
#include <algorithm>

#include "tests/cuda_on_cpu/cudart/state.h"

namespace cuda_on_cpu {

Capture* Runtime::find_capture(std::uint64_t number) {
  for (Capture* const capture : captures) {
    if (capture->number == number) return capture;
  }
  return nullptr;
}

// Recordings of all modes but the relaxed one forbid calls that may wait for the device.
bool Runtime::breaks_capture() {
  bool broken = false;
  for (Capture* const capture : captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    capture->invalid = true;
    broken = true;
  }
  return broken;
}

namespace {

// True if all that the capture holds comes before what its origin would do next.
bool is_joined(const Capture& capture, const Runtime& runtime) {
  const auto& nodes = capture.graph->nodes;
  std::vector<bool> before(nodes.size(), false);
  for (const std::size_t node : capture.origin->capture_nodes) before[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {  // edges lead to later nodes
    if (!before[i]) continue;
    for (const std::size_t node : nodes[i].after) before[node] = true;
  }
  for (const CUstream_st* const stream : runtime.streams) {
    if (stream->capture != &capture || stream == capture.origin) continue;
    for (const std::size_t node : stream->capture_nodes) {
      if (!before[node]) return false;
    }
  }
  return true;
}

void leave_capture(Runtime& runtime, const Capture& capture) {
  for (CUstream_st* const stream : runtime.streams) {
    if (stream->capture != &capture) continue;
    stream->capture = nullptr;
    stream->capture_nodes.clear();
  }
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Call;
using cuda_on_cpu::Capture;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream == &call->legacy) return call.done(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return call.done(cudaErrorIllegalState);
  auto* const capture = new Capture{call->next_capture++, new CUgraph_st, stream, mode};
  call->captures.insert(capture);
  stream->capture = capture;
  stream->capture_nodes.clear();
  return call.done();
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  *graph = nullptr;
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream->capture == nullptr) return call.done(cudaErrorIllegalState);
  Capture* const capture = stream->capture;
  cudaError_t error = cudaSuccess;
  if (capture->invalid) {
    error = cudaErrorStreamCaptureInvalidated;
  } else if (capture->origin != stream) {
    error = cudaErrorStreamCaptureUnmatched;
  } else if (!cuda_on_cpu::is_joined(*capture, call.runtime)) {
    error = cudaErrorStreamCaptureUnjoined;
  }
  cuda_on_cpu::leave_capture(call.runtime, *capture);
  call->captures.erase(capture);
  if (error == cudaSuccess) {
    *graph = capture->graph;
  } else {
    delete capture->graph;
  }
  delete capture;
  return call.done(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  const CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return call.done();
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

// The nodes have no handles: their number is all that can be asked.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (graph == nullptr || nodes != nullptr) return call.done(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return call.done();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  if (graph == nullptr) return call.done(cudaErrorInvalidValue);
  using Nodes = std::vector<cuda_on_cpu::GraphNode>;
  *executable = new CUgraphExec_st{std::make_shared<const Nodes>(graph->nodes)};
  return call.done();
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  CUstream_st* const stream = call->stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (executable == nullptr) return call.done(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return call.done(cudaErrorStreamCaptureUnsupported);
  ++call->counts.graphs;
  cuda_on_cpu::Entry entry;
  entry.graph = executable->nodes;
  entry.nodes_left = executable->nodes->size();
  entry.node_done.assign(entry.nodes_left, false);
  return call.done(call->enqueue(stream, std::move(entry)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  delete graph;
  return call.done();
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Call call(__func__);
  if (call.fails()) return call.done();
  delete executable;
  return call.done();
}
