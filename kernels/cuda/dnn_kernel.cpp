#include "kernels/cuda/dnn_kernel.h"

#include <string>
#include <utility>

#include "kernels/cuda/dnn_rearrange.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Elements from the first to behind the last.
std::int64_t extent(const Tensor& tensor) {
  std::int64_t last = 1;
  for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
    last += (tensor.dims[i] - 1) * tensor.strides[i];
  }
  return last;
}

bool lies_as(const TensorDesc& desc, const Form& form) {
  return desc.dtype == form.dtype && (desc.layout == form.layout || !desc.layout_matters());
}

}  // namespace

class GraphKernel : public Kernel {
 public:
  GraphKernel(KernelBuilder&& builder, std::shared_ptr<const Plan> plan)
      : bindings_(std::move(builder.buffers_)),
        before_(std::move(builder.before_)),
        after_(std::move(builder.after_)),
        plan_(std::move(plan)),
        plan_offset_(builder.workspace_bytes_),
        name_("cudnn:" + plan_->engine()),
        buffers_(bindings_.size()) {}

  std::size_t workspace_bytes() const override { return plan_offset_ + plan_->workspace_bytes(); }
  std::string_view implementation() const override { return name_; }

  Status run(const KernelArguments& arguments) override {
    using Place = KernelBuilder::Place;
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      const auto& [place, at] = bindings_[i];
      // The library takes operands without const, and does not write them.
      buffers_[i] = place == Place::kInput       ? const_cast<void*>(arguments.inputs[at])
                    : place == Place::kOutput    ? arguments.outputs[at]
                    : place == Place::kWorkspace ? static_cast<void*>(workspace + at)
                                                 : nullptr;
    }
    for (const auto& step : before_) MEZZO_RETURN_IF_ERROR(step(arguments, buffers_));
    MEZZO_RETURN_IF_ERROR(plan_->execute(
        arguments.stream, buffers_, workspace == nullptr ? nullptr : workspace + plan_offset_));
    for (const auto& step : after_) MEZZO_RETURN_IF_ERROR(step(arguments, buffers_));
    return ok_status();
  }

 private:
  std::vector<KernelBuilder::Buffer> bindings_;
  std::vector<KernelBuilder::Step> before_, after_;
  std::shared_ptr<const Plan> plan_;
  std::size_t plan_offset_;
  std::string name_;
  std::vector<void*> buffers_;  // of the run at hand
};

Dims dense_strides(const Dims& dims, Layout layout) {
  Dims strides(dims.size(), 1);
  std::int64_t stride = 1;
  const bool channels_last = layout == Layout::kChannelsLast && dims.size() > 2;
  if (channels_last) stride = dims[1];
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Context& context_of(const KernelRequest& request) { return *static_cast<Context*>(request.device); }

bool is_graph_dtype(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

std::size_t KernelBuilder::reserve(std::size_t bytes) {
  const std::size_t offset = workspace_bytes_;
  workspace_bytes_ += aligned(bytes);
  return offset;
}

int KernelBuilder::bind(Tensor tensor, Buffer buffer) {
  buffers_.push_back(buffer);
  return graph_.add(std::move(tensor));
}

int KernelBuilder::operand(std::size_t i, const Form& form, const Dims& dims) {
  const TensorDesc& desc = request_.inputs[i];
  Tensor tensor{form.dtype, dims, dense_strides(dims, form.layout)};
  if (lies_as(desc, form)) return bind(std::move(tensor), {Place::kInput, i});
  const int number = scratch(tensor);
  before_.push_back([how = between(desc, form.layout, form.dtype), i, number](
                        const KernelArguments& arguments, std::span<void* const> buffers) {
    return rearrange(how, arguments.inputs[i], buffers[static_cast<std::size_t>(number)],
                     arguments.stream);
  });
  return number;
}

int KernelBuilder::operand_with_strides(std::size_t i, const Dims& dims, const Dims& strides) {
  return bind({request_.inputs[i].dtype, dims, strides}, {Place::kInput, i});
}

int KernelBuilder::result(std::size_t i, const Form& form, const Dims& dims) {
  const TensorDesc& desc = request_.outputs[i];
  Tensor tensor{form.dtype, dims, dense_strides(dims, form.layout)};
  if (lies_as(desc, form)) return bind(std::move(tensor), {Place::kOutput, i});
  const int number = scratch(tensor);
  TensorDesc made = desc;
  made.layout = form.layout;
  made.dtype = form.dtype;
  after_.push_back([how = between(made, desc.layout, desc.dtype), i, number](
                       const KernelArguments& arguments, std::span<void* const> buffers) {
    return rearrange(how, buffers[static_cast<std::size_t>(number)], arguments.outputs[i],
                     arguments.stream);
  });
  return number;
}

int KernelBuilder::result_with_strides(std::size_t i, DType dtype, const Dims& dims,
                                       const Dims& strides) {
  const bool wanted = i < request_.outputs.size() && request_.outputs[i].present();
  return wanted ? bind({dtype, dims, strides}, {Place::kOutput, i})
                : scratch({dtype, dims, strides});
}

int KernelBuilder::scratch(const Tensor& tensor) {
  const std::size_t offset = reserve(dtype_bytes(tensor.dtype, extent(tensor)));
  return bind(tensor, {Place::kWorkspace, offset});
}

int KernelBuilder::result_or_scratch(std::size_t i, const Form& form, const Dims& dims) {
  if (i < request_.outputs.size() && request_.outputs[i].present()) return result(i, form, dims);
  return scratch({form.dtype, dims, dense_strides(dims, form.layout)});
}

int KernelBuilder::internal(const Dims& dims, Layout layout) {
  return bind({DType::kFloat32, dims, dense_strides(dims, layout), true}, {});
}

Node& KernelBuilder::add(Node node) {
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

StatusOr<std::unique_ptr<Kernel>> KernelBuilder::finish() {
  MEZZO_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                         prepare_plan(context_of(request_), graph_));
  return std::unique_ptr<Kernel>(std::make_unique<GraphKernel>(std::move(*this), std::move(plan)));
}

}  // namespace mezzo::kernels::cuda::dnn
