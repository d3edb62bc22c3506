// A kernel that runs one cuDNN graph on the operands and results of a request, with what must be
// done to them before and after.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/dnn_graph.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda::dnn {

// How the graph wants a tensor to lie.
struct Form {
  Layout layout = Layout::kRowMajor;
  DType dtype = DType::kNone;
};

// Strides of dims without gaps: row-major, or dims N C D1.. in the order N D1.. C.
Dims dense_strides(const Dims& dims, Layout layout);

// Writes a graph and binds its tensors to the buffers of `request`. Operands and results that lie
// in another form than the graph wants are rearranged by way of the workspace.
class KernelBuilder {
 public:
  explicit KernelBuilder(const KernelRequest& request) : request_(request) {}

  // Number of the graph's tensor for operand or result i. `dims`: as many elements as the request
  // has, when other dims than its own are wanted (a dimension of 1 put in); strides: other than
  // dense ones, for operands that are not rearranged.
  int operand(std::size_t i, const Form& form, const Dims& dims);
  int operand_with_strides(std::size_t i, const Dims& dims, const Dims& strides);
  int result(std::size_t i, const Form& form, const Dims& dims);
  // The same for results; one that the request does not want is scratch.
  int result_with_strides(std::size_t i, DType dtype, const Dims& dims, const Dims& strides);
  // A result of the graph that nobody wants, or that steps after the graph read: in the workspace.
  int scratch(const Tensor& tensor);
  // Result i if the request wants it, scratch otherwise.
  int result_or_scratch(std::size_t i, const Form& form, const Dims& dims);
  int internal(const Dims& dims, Layout layout);  // float32

  // Room in the workspace (KernelArguments::workspace) for steps; its offset.
  std::size_t reserve(std::size_t bytes);

  Node& add(Node node);
  Graph& graph() { return graph_; }

  // Done after the graph: `step` is given the arguments of the run and the graph's buffers.
  using Step = std::function<Status(const KernelArguments&, std::span<void* const>)>;
  void then(Step step) { after_.push_back(std::move(step)); }
  // Before all other such steps, results being moved to where they are wanted included.
  void then_first(Step step) { after_.insert(after_.begin(), std::move(step)); }
  // Done before the graph.
  void before(Step step) { before_.push_back(std::move(step)); }

  // Unimplemented where the library refuses the graph.
  StatusOr<std::unique_ptr<Kernel>> finish();

 private:
  friend class GraphKernel;
  enum class Place : std::uint8_t { kNone, kInput, kOutput, kWorkspace };
  struct Buffer {
    Place place = Place::kNone;
    std::size_t at = 0;  // number of the operand or result, or offset in bytes
  };

  int bind(Tensor tensor, Buffer buffer);

  const KernelRequest& request_;
  Graph graph_;
  std::vector<Buffer> buffers_;  // of the graph's tensors
  std::vector<Step> before_, after_;
  std::size_t workspace_bytes_ = 0;
};

// The Context of a request for a device.
Context& context_of(const KernelRequest& request);

// True for the dtypes that cuDNN's graphs here take: float32, float16, bfloat16.
bool is_graph_dtype(DType dtype);

}  // namespace mezzo::kernels::cuda::dnn
