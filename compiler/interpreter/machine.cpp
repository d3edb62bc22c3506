#include "compiler/interpreter/machine.h"

#include <algorithm>
#include <cstring>

#include "compiler/ops/constants.h"
#include "compiler/support/text.h"

namespace mezzo::interpreter {
namespace {

// Decompositions within function bodies within loops: more is no model but a trap.
constexpr int kMostDepth = 200;

// The frame goes: what it alone holds is handed over, so that a Loop's sequence is not copied in
// every iteration.
Values take_outputs(const Program& program, Frame& frame) {
  Values outputs;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Ref& output = program.outputs[i];
    const bool again = std::any_of(
        program.outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, program.outputs.end(),
        [&](const Ref& other) { return other.kind == output.kind && other.index == output.index; });
    if (output.kind == Ref::Kind::kSlot && output.depth == 0 && !again) {
      outputs.push_back(std::move(frame.slots[static_cast<std::size_t>(output.index)]));
    } else {
      outputs.push_back(read(output, frame));
    }
  }
  return outputs;
}

}  // namespace

Machine::Machine(const Model& model, InterpreterOptions options)
    : model_(model), options_(std::move(options)), pool_(options_.most_bytes) {
  prepare_.model = &model_;
  prepare_.backend = options_.backend;
  prepare_.threads = options_.threads;
  // The program of a decomposition holds its constants itself, and goes with them.
  prepare_.constants = [this](const Value& value) { return constant(value, /*keep=*/false); };
}

StatusOr<Values> Machine::run(Values inputs) {
  if (program_ == nullptr) {
    MEZZO_ASSIGN_OR_RETURN(program_, build_program(*model_.graph, [this](const Value& value) {
                             return constant(value, /*keep=*/true);
                           }));
  }
  depth_ = 0;
  iterations_ = 0;
  return run_program(*program_, std::move(inputs), nullptr);
}

StatusOr<Values> Machine::run_program(Program& program, Values inputs, Frame* parent,
                                      bool observed) {
  if (depth_ >= kMostDepth) {
    return invalid_argument("graphs are nested more than " + std::to_string(kMostDepth) + " deep");
  }
  Frame frame;
  frame.program = &program;
  frame.parent = parent;
  frame.slots.resize(static_cast<std::size_t>(program.slots));
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    RuntimeValue& slot = frame.slots[static_cast<std::size_t>(program.inputs[i])];
    if (i < inputs.size()) slot = std::move(inputs[i]);
    if (slot.is_none()) slot = read(program.defaults[i], frame);
  }
  ++depth_;
  for (Step& step : program.steps) {
    Status status = run_step(step, frame, observed);
    if (!status.ok()) {
      --depth_;
      return status;
    }
  }
  --depth_;
  return take_outputs(program, frame);
}

Status Machine::count_iteration(const Node& node) {
  if (++iterations_ <= options_.most_iterations) return ok_status();
  return invalid_argument(mezzo::describe(node) + ": still runs after " +
                          std::to_string(options_.most_iterations) +
                          " iterations of all loops. Hint: its condition never becomes false, or "
                          "--loop-limit is too low");
}

Status Machine::run_step(Step& step, Frame& frame, bool observed) {
  const bool watch = observed && options_.observer != nullptr;
  Values operands;
  operands.reserve(step.operands.size());
  for (const Ref& ref : step.operands) {
    // What nobody reads any more is handed over, so that a kernel may write over it.
    if (ref.last && !watch) {
      operands.push_back(std::move(frame.slots[static_cast<std::size_t>(ref.index)]));
      frame.slots[static_cast<std::size_t>(ref.index)] = {};
    } else {
      operands.push_back(read(ref, frame));
    }
  }
  const Values shown = watch ? operands : Values();  // handlers may take operands over
  StatusOr<Values> results = step.handler != nullptr
                                 ? step.handler(*this, step, frame, operands, observed)
                                 : run_tensor_node(step, operands);
  if (!results.ok()) {
    const std::string& message = results.status().message();
    const bool named = message.starts_with("node ") || message.starts_with("unnamed node");
    return named ? results.status() : results.status().with_context(mezzo::describe(*step.node));
  }
  results->resize(step.results.size());
  if (watch) MEZZO_RETURN_IF_ERROR(observe(step, shown, *results));
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    if (step.results[i] >= 0)
      frame.slots[static_cast<std::size_t>(step.results[i])] = std::move((*results)[i]);
  }
  for (const int slot : step.dead) frame.slots[static_cast<std::size_t>(slot)] = {};
  return ok_status();
}

Status Machine::observe(const Step& step, const Values& operands, const Values& results) {
  const auto pointers = [](const Values& values) {
    std::vector<const RuntimeValue*> list;
    for (const RuntimeValue& value : values) list.push_back(value.is_none() ? nullptr : &value);
    return list;
  };
  const auto from = pointers(operands), to = pointers(results);
  return options_.observer(NodeRun{*step.node, from, to});
}

StatusOr<Values> Machine::run_tensor_node(Step& step, Values& operands) {
  const Node& node = *step.node;
  std::vector<GivenOperand> given;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_sequence()) return operand_error(node, i, "a tensor", operands[i]);
    given.push_back({&operands[i], step.operands[i].kind == Ref::Kind::kConstant});
  }
  MEZZO_ASSIGN_OR_RETURN(PreparedNode * prepared, step.prepared.get(node, given, prepare_));
  switch (prepared->form) {
    case PreparedNode::Form::kKernel: return run_kernel(*prepared, node, operands);
    case PreparedNode::Form::kAlias: {
      HostTensor result = operands[static_cast<std::size_t>(prepared->inputs[0])].tensor;
      result.dims = prepared->results[0].dims;
      return Values{std::move(result)};
    }
    case PreparedNode::Form::kGraph: {
      Values inputs;
      for (const int operand : prepared->inputs)
        inputs.push_back(operands[static_cast<std::size_t>(operand)]);
      MEZZO_ASSIGN_OR_RETURN(Values made, run_program(*prepared->program, std::move(inputs),
                                                      nullptr, /*observed=*/false));
      // The graph gives the results that are wanted alone.
      Values results(node.results().size());
      std::size_t next = 0;
      for (std::size_t i = 0; i < results.size() && next < made.size(); ++i) {
        if (node.result(i) != nullptr) results[i] = std::move(made[next++]);
      }
      return results;
    }
  }
  return internal_error("a prepared node of no form");
}

StatusOr<Values> Machine::run_kernel(PreparedNode& prepared, const Node& node, Values& operands) {
  std::vector<const void*> inputs;
  for (const int operand : prepared.inputs)
    inputs.push_back(operand < 0 ? nullptr
                                 : operands[static_cast<std::size_t>(operand)].tensor.data.get());
  std::vector<NewTensor> results(prepared.results.size());
  std::vector<void*> outputs(results.size(), nullptr);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const kernels::TensorDesc& desc = prepared.results[i];
    if (!desc.present()) continue;
    if (i == 0) {
      for (const int candidate : prepared.in_place) {
        const int from = prepared.inputs[static_cast<std::size_t>(candidate)];
        if (from < 0) continue;
        const RuntimeValue& operand = operands[static_cast<std::size_t>(from)];
        if (operand.tensor.data.use_count() != 1) continue;
        results[0] = {desc.dtype, desc.dims,
                      std::const_pointer_cast<std::byte>(operand.tensor.data)};
        break;
      }
    }
    if (results[i].data == nullptr) {
      auto made = allocate(desc.dtype, desc.dims);
      if (!made.ok()) return made.status().with_context(mezzo::describe(node));
      results[i] = std::move(made).value();
    }
    outputs[i] = results[i].data.get();
  }
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> workspace,
                         pool_.allocate(prepared.kernel->workspace_bytes()));
  const Status status = prepared.kernel->run({inputs, outputs, workspace.get()});
  if (!status.ok()) return status.with_context(mezzo::describe(node));
  Values values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (outputs[i] == nullptr) {
      values.emplace_back();
      continue;
    }
    prepared.kernel->shrink_result(i, results[i].dims);
    values.emplace_back(std::move(results[i]).finish());
  }
  return values;
}

StatusOr<NewTensor> Machine::allocate(DType dtype, std::vector<std::int64_t> dims) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(elems, dim, &elems) || elems > (std::int64_t{1} << 56)) {
      return invalid_argument("no tensor has the shape " + to_string(TensorType::of(dtype, dims)));
    }
  }
  if (dtype_bits(dtype) == 0) {
    return unimplemented("values of type " + std::string(dtype_name(dtype)) +
                         " cannot be executed");
  }
  MEZZO_ASSIGN_OR_RETURN(auto data, pool_.allocate(dtype_bytes(dtype, elems)));
  return NewTensor{dtype, std::move(dims), std::move(data)};
}

StatusOr<RuntimeValue> Machine::constant(const Value& value, bool keep) {
  const TensorRef tensor = constant_of(&value);
  if (tensor == nullptr) {
    // An input's default is no constant, and serves all the same.
    if (!value.constant()) {
      return unimplemented("value '" + printable(value.name()) + "': a constant of type " +
                           to_string(value.type) + " cannot be executed");
    }
  }
  const TensorRef& data = tensor == nullptr ? value.constant() : tensor;
  const auto known = constants_.find(data->id());
  if (known != constants_.end()) return known->second;
  if (dtype_bits(data->dtype()) == 0) {
    return unimplemented("value '" + printable(value.name()) + "': constants of type " +
                         std::string(dtype_name(data->dtype())) + " cannot be executed");
  }
  HostTensor made{data->dtype(), data->dims(), nullptr};
  const std::span<const std::byte> stored = data->stored_bytes();
  if (!stored.empty() && reinterpret_cast<std::uintptr_t>(stored.data()) % 64 == 0) {
    made.data = std::shared_ptr<const std::byte>(data, stored.data());
  } else {
    MEZZO_ASSIGN_OR_RETURN(NewTensor copy, allocate(data->dtype(), data->dims()));
    std::byte* at = copy.data.get();
    MEZZO_RETURN_IF_ERROR(data->stream([&](std::span<const std::byte> piece) {
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
      return ok_status();
    }));
    made = std::move(copy).finish();
  }
  if (keep) constants_.emplace(data->id(), made);
  return RuntimeValue(std::move(made));
}

StatusOr<HostTensor> scalar_tensor(Machine& machine, DType dtype, std::int64_t value) {
  MEZZO_ASSIGN_OR_RETURN(NewTensor made, machine.allocate(dtype, {}));
  if (dtype == DType::kBool) {
    *made.data.get() = static_cast<std::byte>(value != 0 ? 1 : 0);
  } else {
    *reinterpret_cast<std::int64_t*>(made.data.get()) = value;
  }
  return std::move(made).finish();
}

Status operand_error(const Node& node, std::size_t operand, const std::string& expected,
                     const RuntimeValue& got) {
  const Value* value = node.operand(operand);
  return invalid_argument(mezzo::describe(node) + ", operand " + std::to_string(operand) +
                          (value == nullptr ? "" : " '" + printable(value->name()) + "'") +
                          ": expected " + expected + ", got " + mezzo::describe(got));
}

StatusOr<const HostTensor*> tensor_operand(const Node& node, const Values& operands,
                                           std::size_t index) {
  if (index < operands.size() && operands[index].is_tensor()) return &operands[index].tensor;
  return operand_error(node, index, "a tensor",
                       index < operands.size() ? operands[index] : RuntimeValue());
}

StatusOr<std::int64_t> integer_operand(const Node& node, const Values& operands, std::size_t index,
                                       std::int64_t fallback) {
  if (index >= operands.size() || operands[index].is_none()) return fallback;
  const HostTensor* tensor = operands[index].is_tensor() ? &operands[index].tensor : nullptr;
  if (tensor != nullptr && tensor->elems() == 1) {
    if (tensor->dtype == DType::kInt64) return *tensor->data_as<std::int64_t>();
    if (tensor->dtype == DType::kInt32) return *tensor->data_as<std::int32_t>();
    if (tensor->dtype == DType::kBool) return *tensor->data_as<std::uint8_t>() != 0 ? 1 : 0;
  }
  return operand_error(node, index, "one integer or bool", operands[index]);
}

}  // namespace mezzo::interpreter
