// The one file that includes cuDNN's frontend. It throws here and there, so every entry catches.
#include "kernels/cuda/dnn_graph.h"

#include <cudnn_frontend.h>

#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mezzo::kernels::cuda::dnn {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

// Engines that want more are passed over: speed does not grow with it, and the arena must hold it.
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;

Status check(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return ok_status();
  return internal_error("cuDNN: " + std::string(what) + ": " + cudnnGetErrorString(status));
}

// One line, as messages of the frontend have several.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Status check(fe::error_t error, StatusCode code) {
  if (error.is_good()) return ok_status();
  const std::string message = "cuDNN: " + one_line(error.get_message());
  return code == StatusCode::kUnimplemented ? unimplemented(message) : internal_error(message);
}

// Runs `body`, turning what the frontend throws into a Status of `code`.
template <typename Body>
Status guarded(StatusCode code, const Body& body) {
  std::string message;
  try {
    return body();
  } catch (const std::exception& error) {
    message = "cuDNN: " + one_line(error.what());
  } catch (...) {
    message = "cuDNN: an error without a message";
  }
  return code == StatusCode::kUnimplemented ? unimplemented(message) : internal_error(message);
}

// What Context::dnn holds.
struct Library {
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    plans.clear();
    if (handle != nullptr) cudnnDestroy(handle);
  }

  cudnnHandle_t handle = nullptr;                         // null: there is no device
  std::shared_ptr<const fe::DeviceProperties> described;  // instead of the handle
  std::mutex mutex;                                       // guards plans and the handle's stream
  std::map<std::string, StatusOr<std::shared_ptr<const Plan>>> plans;
};

StatusOr<std::shared_ptr<Library>> library_of(Context& context) {
  if (context.dnn == nullptr) {
    auto library = std::make_shared<Library>();
    MEZZO_RETURN_IF_ERROR(check(cudnnCreate(&library->handle), "cudnnCreate"));
    context.dnn = library;
  }
  return std::static_pointer_cast<Library>(context.dnn);
}

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return fe::DataType_t::FLOAT;
    case DType::kFloat16: return fe::DataType_t::HALF;
    case DType::kBFloat16: return fe::DataType_t::BFLOAT16;
    default: return fe::DataType_t::NOT_SET;
  }
}

// Numbers of tensors count from 0, the library's from 1.
std::int64_t uid(int tensor) { return tensor + 1; }

// Translates a Graph into the frontend's.
class Translator {
 public:
  Translator(const Graph& graph, fe::graph::Graph& target)
      : graph_(graph), target_(target), tensors_(graph.tensors.size()) {}

  void run() {
    for (const Node& node : graph_.nodes) add(node);
  }

 private:
  static TensorPtr describe(const TensorPtr& tensor, const Tensor& as) {
    tensor->set_dim(as.dims).set_stride(as.strides).set_data_type(data_type(as.dtype));
    return tensor;
  }

  // The operand, made a tensor of the target where no node before gave it.
  TensorPtr operand(const Node& node, std::size_t i) {
    if (i >= node.operands.size() || node.operands[i] == kAbsent) return nullptr;
    const int number = node.operands[i];
    TensorPtr& tensor = tensors_[static_cast<std::size_t>(number)];
    if (tensor == nullptr) {
      const Tensor& as = graph_.tensors[static_cast<std::size_t>(number)];
      tensor = target_.tensor(Tensor_attributes()
                                  .set_name("t" + std::to_string(number))
                                  .set_dim(as.dims)
                                  .set_stride(as.strides)
                                  .set_data_type(data_type(as.dtype))
                                  .set_uid(uid(number)));
    }
    return tensor;
  }

  void result(const Node& node, std::size_t i, const TensorPtr& tensor) {
    if (i >= node.results.size() || node.results[i] == kAbsent || tensor == nullptr) return;
    const int number = node.results[i];
    const Tensor& as = graph_.tensors[static_cast<std::size_t>(number)];
    describe(tensor, as);
    tensor->set_name("t" + std::to_string(number));
    if (!as.internal) tensor->set_output(true).set_uid(uid(number));
    tensors_[static_cast<std::size_t>(number)] = tensor;
  }

  template <std::size_t kCount>
  void results(const Node& node, const std::array<TensorPtr, kCount>& tensors) {
    for (std::size_t i = 0; i < kCount; ++i) result(node, i, tensors[i]);
  }

  TensorPtr scalar(const Node& node) {
    return target_.tensor(Tensor_attributes(static_cast<float>(node.scalar)));
  }

  template <typename Attributes>
  static Attributes convolution(const Node& node) {
    return Attributes()
        .set_pre_padding(node.pads_begin)
        .set_post_padding(node.pads_end)
        .set_stride(node.strides)
        .set_dilation(node.dilations);
  }

  void add(const Node& node);
  void add_norm(const Node& node);
  void add_attention(const Node& node);
  void add_attention_grad(const Node& node);

  template <typename Attributes>
  static void set_causal(const Node& node, const Tensor& q, const Tensor& k,
                         Attributes& attributes) {
    if (!node.causal) return;
    const bool square = q.dims[2] == k.dims[2];  // then both alignments mean the same
    attributes
        .set_diagonal_alignment(square ? fe::DiagonalAlignment_t::TOP_LEFT
                                       : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  }

  const Graph& graph_;
  fe::graph::Graph& target_;
  std::vector<TensorPtr> tensors_;
};

void Translator::add(const Node& node) {
  using fe::graph::Pointwise_attributes;
  const TensorPtr a = operand(node, 0);
  const TensorPtr b = operand(node, 1);
  switch (node.op) {
    case Op::kConv:
      result(node, 0,
             target_.conv_fprop(a, b, convolution<fe::graph::Conv_fprop_attributes>(node)));
      break;
    case Op::kConvGradInput:
      result(node, 0,
             target_.conv_dgrad(a, b, convolution<fe::graph::Conv_dgrad_attributes>(node)));
      break;
    case Op::kConvGradWeight:
      result(node, 0,
             target_.conv_wgrad(a, b, convolution<fe::graph::Conv_wgrad_attributes>(node)));
      break;
    case Op::kAdd:
      result(node, 0,
             target_.pointwise(a, b, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD)));
      break;
    case Op::kIdentity:
      result(node, 0,
             target_.pointwise(a, Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY)));
      break;
    case Op::kAttention: add_attention(node); break;
    case Op::kAttentionGrad: add_attention_grad(node); break;
    default: add_norm(node); break;
  }
}

void Translator::add_norm(const Node& node) {
  constexpr auto kTraining = fe::NormFwdPhase_t::TRAINING;
  const TensorPtr a = operand(node, 0);
  const TensorPtr b = operand(node, 1);
  const TensorPtr c = operand(node, 2);
  const TensorPtr d = operand(node, 3);
  const TensorPtr e = operand(node, 4);
  switch (node.op) {
    case Op::kBatchNorm: {
      auto epsilon = scalar(node);
      const auto made =
          target_.batchnorm(a, b, c, fe::graph::Batchnorm_attributes().set_epsilon(epsilon));
      for (std::size_t i = 0; i < 3; ++i) result(node, i, made[i]);
      break;
    }
    case Op::kBatchNormGrad:
      results(node, target_.batchnorm_backward(
                        a, b, c,
                        fe::graph::Batchnorm_backward_attributes().set_saved_mean_and_inv_variance(
                            d, e)));
      break;
    case Op::kLayerNorm: {
      auto epsilon = scalar(node);
      results(
          node,
          target_.layernorm(
              a, b, c,
              fe::graph::Layernorm_attributes().set_forward_phase(kTraining).set_epsilon(epsilon)));
      break;
    }
    case Op::kLayerNormGrad:
      results(node, target_.layernorm_backward(
                        a, b, c,
                        fe::graph::Layernorm_backward_attributes().set_saved_mean_and_inv_variance(
                            d, e)));
      break;
    default: break;
  }
}

void Translator::add_attention(const Node& node) {
  const TensorPtr q = operand(node, 0);
  const TensorPtr k = operand(node, 1);
  const TensorPtr v = operand(node, 2);
  auto attributes = fe::graph::SDPA_attributes()
                        .set_generate_stats(true)
                        .set_attn_scale(static_cast<float>(node.scalar))
                        .set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  set_causal(node, graph_.tensors[static_cast<std::size_t>(node.operands[0])],
             graph_.tensors[static_cast<std::size_t>(node.operands[1])], attributes);
  if (const TensorPtr bias = operand(node, 3)) attributes.set_bias(bias);
  results(node, target_.sdpa(q, k, v, attributes));
}

void Translator::add_attention_grad(const Node& node) {
  const TensorPtr dy = operand(node, 0);
  const TensorPtr q = operand(node, 1);
  const TensorPtr k = operand(node, 2);
  const TensorPtr v = operand(node, 3);
  const TensorPtr y = operand(node, 4);
  const TensorPtr lse = operand(node, 5);
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_attn_scale(static_cast<float>(node.scalar))
                        .set_deterministic_algorithm(true);
  set_causal(node, graph_.tensors[static_cast<std::size_t>(node.operands[1])],
             graph_.tensors[static_cast<std::size_t>(node.operands[2])], attributes);
  if (const TensorPtr bias = operand(node, 6)) attributes.set_bias(bias);
  results(node, target_.sdpa_backward(q, k, v, y, dy, lse, attributes));
}

class FrontendPlan : public Plan {
 public:
  explicit FrontendPlan(Library& library) : library_(library) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  const std::string& engine() const override { return engine_; }

  Status execute(void* stream, std::span<void* const> buffers, void* workspace) const override {
    if (library_.handle == nullptr) return internal_error("cuDNN: there is no device to run on");
    std::unordered_map<std::int64_t, void*> bound;
    for (const int tensor : bound_) {
      bound.emplace(uid(tensor), buffers[static_cast<std::size_t>(tensor)]);
    }
    const std::lock_guard<std::mutex> lock(library_.mutex);
    MEZZO_RETURN_IF_ERROR(check(cudnnSetStream(library_.handle, static_cast<cudaStream_t>(stream)),
                                "cudnnSetStream"));
    return guarded(StatusCode::kInternal, [&] {
      return check(graph_.execute(library_.handle, bound, workspace), StatusCode::kInternal);
    });
  }

  Status prepare(const Context& context, const Graph& graph);

 private:
  Status choose_engine(bool tensor_cores);

  Library& library_;  // holds the plan
  fe::graph::Graph graph_;
  std::vector<int> bound_;  // tensors with a buffer
  std::size_t workspace_bytes_ = 0;
  std::string engine_;
};

Status FrontendPlan::choose_engine(bool tensor_cores) {
  constexpr auto kRefused = StatusCode::kUnimplemented;
  MEZZO_RETURN_IF_ERROR(check(
      graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), kRefused));
  std::vector<fe::NumericalNote_t> refused = {fe::NumericalNote_t::NONDETERMINISTIC,
                                              fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                              fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (!tensor_cores) refused.push_back(fe::NumericalNote_t::TENSOR_CORE);
  graph_.deselect_numeric_notes(refused).deselect_workspace_greater_than(kMostWorkspace);
  MEZZO_RETURN_IF_ERROR(check(graph_.check_support(), kRefused));
  MEZZO_RETURN_IF_ERROR(
      check(graph_.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), kRefused));
  std::int64_t bytes = 0;
  MEZZO_RETURN_IF_ERROR(check(graph_.get_workspace_size(bytes), kRefused));
  workspace_bytes_ = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  return check(graph_.get_plan_name(engine_), kRefused);
}

Status FrontendPlan::prepare(const Context& context, const Graph& graph) {
  bool any_float32 = false;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].internal) bound_.push_back(static_cast<int>(i));
  }
  for (const Node& node : graph.nodes) {
    // Of a contraction both operands have the dtype that decides; other operations use no
    // Tensor Cores, or none that round.
    const bool contraction = node.op == Op::kConv || node.op == Op::kConvGradInput ||
                             node.op == Op::kConvGradWeight || node.op == Op::kAttention ||
                             node.op == Op::kAttentionGrad;
    if (!contraction) continue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      any_float32 =
          any_float32 ||
          graph.tensors[static_cast<std::size_t>(node.operands[i])].dtype == DType::kFloat32;
    }
  }
  return guarded(StatusCode::kUnimplemented, [&]() -> Status {
    graph_.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(context.major * 10 + context.minor);
    if (library_.described != nullptr) graph_.set_device_properties(library_.described);
    Translator(graph, graph_).run();
    MEZZO_RETURN_IF_ERROR(check(graph_.validate(), StatusCode::kUnimplemented));
    MEZZO_RETURN_IF_ERROR(
        check(graph_.build_operation_graph(library_.handle), StatusCode::kUnimplemented));
    return choose_engine(context.allow_tf32 || graph.exact_in_tf32 || !any_float32);
  });
}

StatusOr<std::shared_ptr<const Plan>> make_plan(const Context& context, Library& library,
                                                const Graph& graph) {
  auto plan = std::make_shared<FrontendPlan>(library);
  MEZZO_RETURN_IF_ERROR(plan->prepare(context, graph));
  return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace

StatusOr<std::shared_ptr<const Plan>> prepare_plan(Context& context, const Graph& graph) {
  MEZZO_RETURN_IF_ERROR(check_limits(graph));
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<Library> library, library_of(context));
  const std::string key = graph.key() + (context.allow_tf32 ? "t" : "");
  {
    const std::lock_guard<std::mutex> lock(library->mutex);
    const auto found = library->plans.find(key);
    if (found != library->plans.end()) return found->second;
  }
  auto plan = make_plan(context, *library, graph);
  const std::lock_guard<std::mutex> lock(library->mutex);
  return library->plans.emplace(key, std::move(plan)).first->second;
}

Status use_described_device(Context& context, std::string_view properties) {
  auto library = std::make_shared<Library>();
  const Status status = guarded(StatusCode::kInternal, [&] {
    auto described = std::make_shared<fe::DeviceProperties>();
    const auto* first = reinterpret_cast<const std::uint8_t*>(properties.data());
    MEZZO_RETURN_IF_ERROR(check(described->deserialize({first, first + properties.size()}),
                                StatusCode::kUnimplemented));
    library->described = std::move(described);
    return ok_status();
  });
  if (status.ok()) context.dnn = library;
  return status;
}

}  // namespace mezzo::kernels::cuda::dnn
