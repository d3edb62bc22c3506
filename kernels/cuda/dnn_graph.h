// cuDNN behind a description: which tensors, which operations, and what comes of preparing and
// running them. dnn_graph.cpp alone sees the library's frontend, which takes half a minute to
// compile.
//
// Sums are float32 whatever the tensors; what one operation hands to the next inside a graph is
// float32 as well. Only engines that give the same bits in every run, that neither round operands
// nor accumulate in less than float32, are taken; float32 operands meet Tensor Cores (TF32) only
// where Context::allow_tf32 says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "kernels/cuda/context.h"

namespace mezzo::kernels::cuda::dnn {

using Dims = std::vector<std::int64_t>;

// float32, float16 or bfloat16 elements where dims and strides (in elements) put them.
struct Tensor {
  DType dtype = DType::kNone;
  Dims dims;
  Dims strides;
  bool internal = false;  // lives inside the graph alone and has no buffer
};

// Operands -> results, as numbers of the graph's tensors. kAbsent where one is left out.
enum class Op : std::uint8_t {
  kConv,            // x[N,C,..], w[M,C/g,..] -> y[N,M,..]; groups follow from the dims
  kConvGradInput,   // dy, w -> dx
  kConvGradWeight,  // dy, x -> dw
  kAdd,             // a, b (each dim equal or 1) -> y
  kIdentity,        // x -> y, as when only the dtype changes
  kBatchNorm,       // x, scale, bias -> y, mean, inv_std; of the batch, over all but dim 1
  kBatchNormGrad,   // dy, x, scale, mean, inv_std -> dx, dscale, dbias
  kLayerNorm,       // x, scale, bias -> y, mean, inv_std; over the dims where scale is not 1
  kLayerNormGrad,   // dy, x, scale, mean, inv_std -> dx, dscale, dbias
  kAttention,       // q[B,H,T,D], k[B,G,S,D], v[B,G,S,E], bias? -> y[B,H,T,E], lse[B,H,T,1]
  kAttentionGrad,   // dy, q, k, v, y, lse, bias? -> dq, dk, dv
};

inline constexpr int kAbsent = -1;

struct Node {
  Op op;
  std::vector<int> operands;
  std::vector<int> results;
  Dims pads_begin, pads_end, strides, dilations;  // of convolutions, one per spatial dim
  double scalar = 0.0;                            // epsilon, or the scale of attention
  bool causal = false;                            // key s is seen by query t where s <= t + S - T
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  // The float32 operands of its contractions hold numbers of float16 or bfloat16: TF32 is exact.
  bool exact_in_tf32 = false;

  int add(Tensor tensor);  // its number
  // All that tells two graphs apart, in words.
  std::string key() const;
};

// A graph that an engine of the library was chosen for.
class Plan {
 public:
  virtual ~Plan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual const std::string& engine() const = 0;  // the library's name for it
  // Puts the graph into the stream. buffers[i] belongs to tensor i: null for internal ones, aligned
  // to 16 bytes otherwise. Internal: what the library says.
  virtual Status execute(void* stream, std::span<void* const> buffers, void* workspace) const = 0;
};

// Unimplemented for graphs that this version of the library computes wrongly in a recorded step.
Status check_limits(const Graph& graph);

// The plan for `graph`, made at the first request for it and kept in the context. Unimplemented,
// with the library's words, where it supports the graph on this device with no engine that is
// allowed (see above). Internal: the library cannot be used at all.
StatusOr<std::shared_ptr<const Plan>> prepare_plan(Context& context, const Graph& graph);

// Makes `context` prepare plans for the device that `properties` describe (the JSON text of cuDNN's
// device properties) without there being one; they cannot be executed. For compiling and asking on
// machines without a GPU. Unimplemented or Internal, with the library's words.
Status use_described_device(Context& context, std::string_view properties);

}  // namespace mezzo::kernels::cuda::dnn
