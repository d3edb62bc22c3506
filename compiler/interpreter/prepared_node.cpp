#include "compiler/interpreter/prepared_node.h"
#include "compiler/support/text.h"

#include <algorithm>

#include "compiler/interpreter/kernel_attributes.h"
#include "compiler/interpreter/program.h"
#include "compiler/ir/clone.h"
#include "compiler/ops/decompose.h"
#include "compiler/ops/op_def.h"

namespace mezzo::interpreter {
namespace {

// Operands beyond these are data, not sizes.
constexpr std::int64_t kMostIntegers = 4096;
constexpr std::int64_t kMostNumbers = 64;
// Shapes that change from run to run would keep a kernel each.
constexpr std::size_t kMostPrepared = 64;

// Is the operand a constant of the node's graph?
bool is_known(const GivenOperand& operand, Known known) {
  const HostTensor& tensor = operand.value->tensor;
  const bool floats = is_floating(tensor.dtype);
  if (tensor.elems() > (floats ? kMostNumbers : kMostIntegers)) return false;
  return operand.constant || known == Known::kNumbers || (known == Known::kIntegers && !floats);
}

void append_key(std::string& key, Operands operands, Known known) {
  key.clear();
  for (const GivenOperand& operand : operands) {
    if (operand.value->is_none()) {
      key.push_back('\0');
      continue;
    }
    const HostTensor& tensor = operand.value->tensor;
    key.push_back(static_cast<char>(tensor.dtype));
    key.push_back(static_cast<char>(tensor.dims.size()));
    key.append(reinterpret_cast<const char*>(tensor.dims.data()),
               tensor.dims.size() * sizeof(std::int64_t));
    if (!operand.constant && is_known(operand, known))
      key.append(tensor.data_as<char>(), tensor.bytes());
  }
}

bool is_static(const Value& value) {
  return value.type.is_tensor() && value.dtype() != DType::kNone &&
         value.tensor_type().has_static_shape();
}

kernels::TensorDesc describe_type(const Value& value) {
  return {value.dtype(), value.tensor_type().dims(), kernels::Layout::kRowMajor};
}

// One attempt to prepare a node, with as much known of its operands as `known` says.
class Attempt {
 public:
  Attempt(const Node& original, Operands operands, const PrepareContext& context, Known known)
      : original_(original), operands_(operands), context_(context), known_(known) {}

  StatusOr<std::unique_ptr<PreparedNode>> run() {
    MEZZO_RETURN_IF_ERROR(make_graph());
    MEZZO_RETURN_IF_ERROR(infer());
    if (!results_are_static()) {
      if (known_ != Known::kNumbers) return unknown_size();
      return decompose(unknown_size());
    }
    StatusOr<LoweredOp> lowered = lower(*node_);
    if (!lowered.ok()) {
      if (lowered.status().code() != StatusCode::kUnimplemented) return lowered.status();
      return decompose(lowered.status());
    }
    if (lowered->alias) return alias(*lowered);
    auto prepared = kernel(*lowered);
    if (prepared.ok() || prepared.status().code() != StatusCode::kUnimplemented) return prepared;
    return decompose(prepared.status());
  }

 private:
  Status make_graph() {
    model_->opsets = context_.model->opsets;
    model_->graph = std::make_unique<Graph>(original_.name);
    Graph& graph = *model_->graph;
    ValueMapping mapping;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const Value* operand = original_.operand(i);
      if (operand == nullptr || mapping.count(operand) > 0) continue;
      if (operands_[i].value->is_none()) continue;
      const HostTensor& tensor = operands_[i].value->tensor;
      if (is_known(operands_[i], known_)) {
        const auto* bytes = tensor.data.get();
        mapping.emplace(operand,
                        graph.add_initializer(operand->name(),
                                              Tensor::from_bytes(tensor.dtype, tensor.dims,
                                                                 {bytes, bytes + tensor.bytes()})));
      } else {
        mapping.emplace(operand, graph.add_input(operand->name(), tensor.type()));
        prepared_->inputs.push_back(static_cast<int>(i));
      }
      operand_of_.emplace(mapping.at(operand), static_cast<int>(i));
    }
    ValueMapping absent = mapping;
    for (std::size_t i = 0; i < original_.operand_count(); ++i) {
      const Value* operand = original_.operand(i);
      if (operand != nullptr && mapping.count(operand) == 0) absent.emplace(operand, nullptr);
    }
    node_ = clone_node(graph, original_, absent);
    return ok_status();
  }

  // What the file says of the results may hold for other operands only. Ours may have types that
  // no rule tells.
  Status infer() {
    for (std::size_t i = 0; i < node_->results().size(); ++i) {
      Value* result = node_->result(i);
      if (result == nullptr) continue;
      model_->graph->add_output(result);
      if (node_->domain() != kMezzoDomain) result->type = Type();
    }
    MEZZO_RETURN_IF_ERROR(infer_types(*node_, model_.get()));
    if (!results_are_static()) bound_results(*node_);
    return ok_status();
  }

  bool results_are_static() const {
    return std::all_of(node_->results().begin(), node_->results().end(),
                       [](const Value* result) { return result == nullptr || is_static(*result); });
  }

  Status unknown_size() const {
    std::string which;
    for (const Value* result : node_->results()) {
      if (result != nullptr && !is_static(*result)) {
        which = "'" + printable(result->name()) + "': " + to_string(result->type);
        break;
      }
    }
    return unimplemented(mezzo::describe(original_) + ": the size of its result cannot be told (" +
                         which + ")");
  }

  int operand_index(const Value* operand) const {
    const auto found = operand_of_.find(operand);
    return operand == nullptr || found == operand_of_.end() ? -1 : found->second;
  }

  void describe_results() {
    prepared_->results.resize(node_->results().size());
    for (std::size_t i = 0; i < prepared_->results.size(); ++i) {
      if (node_->result(i) != nullptr) prepared_->results[i] = describe_type(*node_->result(i));
    }
  }

  StatusOr<std::unique_ptr<PreparedNode>> alias(const LoweredOp& lowered) {
    prepared_->form = PreparedNode::Form::kAlias;
    prepared_->inputs = {operand_index(lowered.operands.at(0))};
    describe_results();
    return std::move(prepared_);
  }

  StatusOr<std::unique_ptr<PreparedNode>> kernel(const LoweredOp& lowered) {
    kernels::KernelRequest request{
        lowered.kernel, to_kernel_attributes(lowered.attributes), {}, {}, context_.threads};
    std::vector<int> inputs;
    for (const Value* operand : lowered.operands) {
      const int index = operand_index(operand);
      inputs.push_back(index);
      const bool constant = index >= 0 && operands_[static_cast<std::size_t>(index)].constant;
      request.constants.push_back(
          constant ? operands_[static_cast<std::size_t>(index)].value->tensor.data.get() : nullptr);
      request.inputs.push_back(operand == nullptr ? kernels::TensorDesc{}
                                                  : describe_type(*operand));
    }
    describe_results();
    for (std::size_t i = 0; i < prepared_->results.size(); ++i) {
      const Value* original = original_.result(i);
      if (original == nullptr ||
          (!original->has_uses() &&
           kernels::result_may_be_absent(lowered.kernel, static_cast<int>(i)))) {
        prepared_->results[i] = {};
      }
    }
    request.outputs = prepared_->results;
    auto kernel = kernels::prepare_kernel(request, context_.backend);
    if (!kernel.ok()) return kernel.status().with_context(mezzo::describe(original_));
    prepared_->inputs = std::move(inputs);
    prepared_->kernel = std::move(kernel).value();
    find_in_place(request);
    return std::move(prepared_);
  }

  void find_in_place(const kernels::KernelRequest& request) {
    if (request.outputs.empty() || !request.outputs[0].present()) return;
    const kernels::TensorDesc& result = request.outputs[0];
    for (std::size_t i = 0; i < request.inputs.size() && i < 2; ++i) {
      const kernels::TensorDesc& operand = request.inputs[i];
      if (operand.present() && operand.dims == result.dims &&
          dtype_bits(operand.dtype) == dtype_bits(result.dtype) &&
          kernels::may_run_in_place(request.op, static_cast<int>(i), 0)) {
        prepared_->in_place.push_back(static_cast<int>(i));
      }
    }
  }

  // `why`: there is no kernel.
  StatusOr<std::unique_ptr<PreparedNode>> decompose(const Status& why) {
    prepared_->results.resize(node_->results().size());
    MEZZO_ASSIGN_OR_RETURN(const bool replaced, mezzo::decompose(*node_, model_.get()));
    if (!replaced) return why;
    prepared_->form = PreparedNode::Form::kGraph;
    MEZZO_ASSIGN_OR_RETURN(prepared_->program, build_program(*model_->graph, context_.constants));
    prepared_->model = std::move(model_);
    return std::move(prepared_);
  }

  const Node& original_;
  Operands operands_;
  const PrepareContext& context_;
  Known known_;
  std::unique_ptr<Model> model_ = std::make_unique<Model>();
  std::unique_ptr<PreparedNode> prepared_ = std::make_unique<PreparedNode>();
  std::unordered_map<const Value*, int> operand_of_;
  Node* node_ = nullptr;
};

}  // namespace

PreparedNode::PreparedNode() = default;
PreparedNode::~PreparedNode() = default;

StatusOr<PreparedNode*> PreparedNodes::get(const Node& node, Operands operands,
                                           const PrepareContext& context) {
  for (;;) {
    append_key(key_, operands, known_);
    const auto found = by_key_.find(key_);
    if (found != by_key_.end()) return found->second.get();
    auto prepared = Attempt(node, operands, context, known_).run();
    if (prepared.ok()) {
      if (by_key_.size() >= kMostPrepared) by_key_.clear();
      return by_key_.emplace(key_, std::move(prepared).value()).first->second.get();
    }
    if (prepared.status().code() != StatusCode::kUnimplemented || known_ == Known::kNumbers)
      return prepared.status();
    known_ = known_ == Known::kTypes ? Known::kIntegers : Known::kNumbers;
    by_key_.clear();
  }
}

}  // namespace mezzo::interpreter
