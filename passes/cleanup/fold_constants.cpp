// In graph order, so that one walk folds whole chains:
//
// 1. Constant nodes become initializers.
// 2. Shape and Size of values with a static shape become initializers.
// 3. A node whose operands are all fixed runs on the reference kernels.
// 4. Every node's types are inferred again once its operands are known.
//
// A weight is not folded away: a node that reads a floating-point initializer of the model (not one
// this pass made) stays, since training may change it.

#include "passes/cleanup/fold_constants.h"

#include <algorithm>

#include "compiler/interpreter/kernel_attributes.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "kernels/kernel.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kMostElems = std::int64_t{1}
                                    << 22;  // a folded constant costs file size and memory

kernels::TensorDesc describe_type(const Value& value) {
  return {value.dtype(), value.tensor_type().dims(), kernels::Layout::kRowMajor};
}

bool has_static_type(const Value& value) {
  return value.type.is_tensor() && value.dtype() != DType::kNone &&
         value.tensor_type().has_static_shape();
}

bool is_random(const Node& node) {
  return node.op_type().rfind("Random", 0) == 0 || node.is("Multinomial") || node.is("Bernoulli") ||
         node.is("Dropout") || node.is("Dropout", kMezzoDomain);
}

TensorRef shape_tensor(const Node& node) {
  const TensorType& type = node.operand(0)->tensor_type();
  if (node.is("Size")) {
    const std::int64_t elems = type.elems();
    return Tensor::from_ints({}, {&elems, 1});
  }
  const std::vector<std::int64_t> dims = type.dims();
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamp(node.int_attribute("start", 0));
  const std::int64_t end = std::max(start, clamp(node.int_attribute("end", rank)));
  const std::vector<std::int64_t> part(dims.begin() + start, dims.begin() + end);
  return Tensor::from_ints({static_cast<std::int64_t>(part.size())}, part);
}

// Runs the node; null where no kernel can, or the kernel refuses the values.
TensorRef compute(const Node& node) {
  StatusOr<LoweredOp> lowered = lower(node);
  if (!lowered.ok()) return nullptr;
  const Value& result = *node.result();
  if (lowered->alias) {
    const TensorRef& source = lowered->operands.at(0)->constant();
    return Tensor::from_bytes(result.dtype(), result.tensor_type().dims(), source->copy_bytes());
  }
  kernels::KernelRequest request{
      lowered->kernel, to_kernel_attributes(lowered->attributes), {}, {}, 1};
  std::vector<std::vector<std::byte>> buffers;
  for (const Value* operand : lowered->operands) {
    request.inputs.push_back(operand == nullptr ? kernels::TensorDesc{} : describe_type(*operand));
    buffers.push_back(operand == nullptr ? std::vector<std::byte>()
                                         : operand->constant()->copy_bytes());
  }
  request.outputs.push_back(describe_type(result));
  auto kernel = kernels::prepare_kernel(request, kernels::Backend::kReference);
  if (!kernel.ok()) return nullptr;
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    inputs.push_back(request.inputs[i].present() ? buffers[i].data() : nullptr);
  std::vector<std::byte> output(request.outputs[0].bytes());
  void* outputs[] = {output.data()};
  std::vector<std::byte> workspace((*kernel)->workspace_bytes());
  if (!(*kernel)->run({inputs, outputs, workspace.data()}).ok()) return nullptr;
  return Tensor::from_bytes(result.dtype(), result.tensor_type().dims(), std::move(output));
}

}  // namespace

ConstantFolder::ConstantFolder(Model& model, PassContext& ctx)
    : model_(model), graph_(*model.graph), ctx_(ctx) {
  for (const Value* value : graph_.initializers()) {
    if (is_floating(value->dtype()) && ctx_.computed_constants.count(value->name()) == 0)
      weights_.insert(value);
  }
}

Status ConstantFolder::visit(Node& node) {
  if (node.graph() != &graph_) return ok_status();
  MEZZO_RETURN_IF_ERROR(infer_again(node));
  fold(node);
  return ok_status();
}

// An operand that became constant may tell shapes that were unknown before.
Status ConstantFolder::infer_again(Node& node) {
  const bool unknown =
      std::any_of(node.results().begin(), node.results().end(), [](const Value* result) {
        return result != nullptr &&
               (!result->type.is_tensor() || !result->type.tensor.has_static_shape());
      });
  if (!unknown) return ok_status();
  std::vector<Type> before;
  for (const Value* result : node.results())
    before.push_back(result == nullptr ? Type() : result->type);
  MEZZO_RETURN_IF_ERROR(infer_types(node, &model_));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (node.result(i) != nullptr && !(node.result(i)->type == before[i])) changed_ = true;
  }
  return ok_status();
}

void ConstantFolder::fold(Node& node) {
  if (!node.subgraphs().empty() || node.results().size() != 1 || node.result() == nullptr) return;
  if (node.is("Constant")) return replace(node, constant_data(*node.result()));
  if ((node.is("Shape") || node.is("Size")) && node.operand(0) != nullptr &&
      has_static_type(*node.operand(0))) {
    return replace(node, shape_tensor(node));
  }
  if (is_random(node)) return;
  for (const Value* operand : node.operands()) {
    if (operand != nullptr &&
        (!operand->is_fixed() || !operand->constant() || weights_.count(operand) > 0))
      return;
  }
  if (has_static_type(*node.result()) && node.result()->tensor_type().elems() <= kMostElems)
    replace(node, compute(node));
}

// The result becomes an initializer of the same name; a graph output needs a node to make it.
void ConstantFolder::replace(Node& node, const TensorRef& tensor) {
  if (tensor == nullptr || node.result()->is_graph_output()) return;
  Value* constant = graph_.add_initializer(node.result()->name(), tensor);
  Value* old = node.result();
  const std::string name = old->name();
  graph_.replace_uses(old, constant);
  graph_.erase(&node);
  if (graph_.find(name) == nullptr) graph_.rename(constant, name);
  ctx_.computed_constants.insert(constant->name());
  ctx_.stats.add("nodes-folded", 1);
  changed_ = true;
}

StatusOr<bool> fold_constants(Model& model, PassContext& ctx) {
  ConstantFolder folder(model, ctx);
  for (Node* node : model.graph->node_list()) MEZZO_RETURN_IF_ERROR(folder.visit(*node));
  return folder.changed();
}

}  // namespace mezzo::passes
