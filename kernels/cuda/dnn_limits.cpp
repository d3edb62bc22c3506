// Graphs that must not reach the library, whatever it says of them.
#include <cudnn_graph.h>

#include <algorithm>

#include "kernels/cuda/dnn_graph.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

// Up to this version the frontend (1.18, CompositeSDPABackwardNode) masks keys by lengths of its
// own, unless they come in multiples of kWhole. It copies the lengths from the host in every call,
// out of a vector that is gone when the call returns: a recorded step would copy them from there
// again, each time that it is replayed.
constexpr std::size_t kLastThatMasks = 91500;
constexpr std::int64_t kWhole = 128;

}  // namespace

Status check_limits(const Graph& graph) {
  if (cudnnGetVersion() > kLastThatMasks) return ok_status();
  const auto copies_from_host = [&](const Node& node) {
    if (node.op != Op::kAttentionGrad) return false;
    const Tensor& keys = graph.tensors[static_cast<std::size_t>(node.operands[2])];
    return keys.dims[2] % kWhole != 0;
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), copies_from_host)) return ok_status();
  return unimplemented(
      "the gradient of attention to keys that are no multiple of 128, before cuDNN 9.15.1");
}

}  // namespace mezzo::kernels::cuda::dnn
