#include "tools/mezzo/session.h"

#include <cstdio>
#include <cstring>

#include "compiler/ir/clone.h"
#include "compiler/onnx/import.h"
#include "compiler/support/text.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "runtime/exec/plan_file.h"
#include "tools/mezzo/device_options.h"

namespace mezzo::cli {
namespace {

GraphPort port_of(const proto::Plan& plan, const proto::Port& port) {
  const proto::Tensor& tensor = plan.tensors(port.tensor());
  return {port.name(),
          TensorType::of(static_cast<DType>(tensor.dtype()),
                         {tensor.dims().begin(), tensor.dims().end()}),
          false};
}

// A plan takes tensors, and the default of every input that has one.
bool fit_a_plan(const std::vector<GraphPort>& ports, const std::vector<RuntimeValue>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (ports[i].has_default ? !values[i].is_none() : !values[i].is_tensor()) return false;
  }
  return true;
}

// The types and shapes, as bytes.
std::string signature(const std::vector<RuntimeValue>& values) {
  std::string key;
  for (const RuntimeValue& value : values) {
    key.push_back(static_cast<char>(value.tensor.dtype));
    key.push_back(static_cast<char>(value.tensor.dims.size()));
    key.append(reinterpret_cast<const char*>(value.tensor.dims.data()),
               value.tensor.dims.size() * sizeof(std::int64_t));
  }
  return key;
}

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::open(const std::string& path,
                                                 const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session(path, options));
  MEZZO_RETURN_IF_ERROR(path.ends_with(".plan") ? session->open_plan() : session->open_model());
  return session;
}

Status Session::open_plan() {
  MEZZO_ASSIGN_OR_RETURN(const runtime::LoadedPlan loaded, runtime::load_plan(path_));
  for (const proto::Port& port : loaded.plan->inputs())
    inputs_.push_back(port_of(*loaded.plan, port));
  for (const proto::Port& port : loaded.plan->outputs())
    outputs_.push_back(port_of(*loaded.plan, port));
  MEZZO_ASSIGN_OR_RETURN(
      auto executor, runtime::Executor::create(loaded.plan, loaded.weights, executor_options()));
  tell_host_steps(*executor);
  plans_.emplace("", std::move(executor));
  return ok_status();
}

runtime::ExecutorOptions Session::executor_options() const {
  return {options_.threads, kernels::Backend::kCpu, options_.profile, options_.device};
}

Status Session::open_model() {
  MEZZO_ASSIGN_OR_RETURN(model_, load_model(path_));
  for (const Value* input : model_->graph->inputs())
    inputs_.push_back({input->name(), input->type, input->is_initializer()});
  for (const Value* output : model_->graph->outputs())
    outputs_.push_back({output->name(), output->type, false});
  return ok_status();
}

Status Session::expect_interpreter(const std::string& why) const {
  if (options_.device == nullptr) return ok_status();
  const std::string reason = why.substr(0, why.find(". Hint: "));
  if (!options_.device_or_interpreter) {
    return unimplemented(reason +
                         ". Hint: no device runs such a graph; without --device the CPU "
                         "interprets it");
  }
  std::fprintf(stderr, "note: interpreted on the CPU, as no device runs such a graph: %s\n",
               printable(reason, 500).c_str());
  return ok_status();
}

StatusOr<runtime::Executor*> Session::plan_for(const std::vector<RuntimeValue>& inputs) {
  if (model_ == nullptr) return plans_.begin()->second.get();
  if (!fit_a_plan(inputs_, inputs)) {
    MEZZO_RETURN_IF_ERROR(expect_interpreter(path_ + ": takes other things than tensors"));
    return nullptr;
  }
  const std::string key = signature(inputs);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second.get();
  CompileOptions compile = options_.compile;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_tensor()) compile.input_dims.emplace(inputs_[i].name, inputs[i].tensor.dims);
  }
  auto compiled = compile_loaded(clone_model(*model_), path_, compile);
  std::unique_ptr<runtime::Executor> executor;
  if (compiled.ok()) {
    auto made = runtime::Executor::create(compiled->plan(), weights_of(compiled->draft),
                                          executor_options());
    if (made.ok()) tell_host_steps(**made);
    if (made.ok()) executor = std::move(made).value();
    // Too large, most likely: the interpreter says for which node.
    if (!made.ok() && made.status().code() == StatusCode::kInternal)
      return made.status().with_context(path_);
    if (!made.ok() && options_.device != nullptr) return made.status().with_context(path_);
  } else if (compiled.status().code() != StatusCode::kUnimplemented) {
    return compiled.status();
  } else {
    MEZZO_RETURN_IF_ERROR(expect_interpreter(compiled.status().message()));
  }
  return plans_.emplace(key, std::move(executor)).first->second.get();
}

StatusOr<std::vector<RuntimeValue>> Session::run(std::vector<RuntimeValue> inputs) {
  MEZZO_ASSIGN_OR_RETURN(runtime::Executor* const executor, plan_for(inputs));
  last_ = executor;
  if (executor != nullptr) return execute(*executor, inputs);
  return interpret(std::move(inputs));
}

StatusOr<std::vector<RuntimeValue>> Session::execute(
    runtime::Executor& executor, const std::vector<RuntimeValue>& inputs) const {
  const proto::Plan& plan = executor.plan();
  for (int i = 0; i < plan.inputs_size(); ++i) {
    // Inputs with a default are no ports of a plan.
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (inputs_[k].name != plan.inputs(i).name()) continue;
      const int tensor = plan.inputs(i).tensor();
      const std::uint64_t bytes = executor.bytes(tensor);
      if (!inputs[k].is_tensor() || inputs[k].tensor.bytes() != bytes) {
        return invalid_argument(path_ + ": input '" + printable(inputs_[k].name) + "': expected " +
                                std::to_string(bytes) + " bytes, got " + describe(inputs[k]));
      }
      if (bytes > 0) std::memcpy(executor.data(tensor), inputs[k].tensor.data.get(), bytes);
      MEZZO_RETURN_IF_ERROR(executor.upload(tensor));
    }
  }
  Status status = executor.run(proto::PHASE_FORWARD);
  if (status.ok()) status = executor.wait();
  if (!status.ok()) return status.with_context(path_);
  std::vector<RuntimeValue> outputs;
  for (const proto::Port& port : plan.outputs()) {
    const proto::Tensor& tensor = plan.tensors(port.tensor());
    const std::uint64_t bytes = executor.bytes(port.tensor());
    MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> copy, pool_->allocate(bytes));
    MEZZO_RETURN_IF_ERROR(executor.download(port.tensor()));
    if (bytes > 0) std::memcpy(copy.get(), executor.data(port.tensor()), bytes);
    outputs.emplace_back(HostTensor{
        static_cast<DType>(tensor.dtype()), {tensor.dims().begin(), tensor.dims().end()}, copy});
  }
  return outputs;
}

std::uint64_t Session::memory_bytes() const {
  if (last_ == nullptr) return interpreter_ == nullptr ? 0 : interpreter_->peak_bytes();
  std::uint64_t mapped = 0;
  for (int i = 0; i < last_->plan().tensors_size(); ++i) {
    const proto::Tensor& tensor = last_->plan().tensors(i);
    if (tensor.role() == proto::ROLE_CONSTANT && tensor.in_weights_file())
      mapped += last_->bytes(i);
  }
  return last_->memory().total() - last_->memory().copied_bytes + mapped;
}

std::vector<runtime::StepProfile> Session::profile() const {
  if (last_ != nullptr) return last_->profile();
  std::vector<runtime::StepProfile> all;
  for (const auto& [node, times] : node_times_) all.push_back(times);
  return all;
}

void Session::count_time(const Node& node) {
  const auto now = std::chrono::steady_clock::now();
  runtime::StepProfile& times = node_times_[&node];
  if (times.runs == 0) times = {display_name(node), node.op_type(), "interpreter", 0, 0};
  ++times.runs;
  times.total_ms += std::chrono::duration<double, std::milli>(now - last_node_end_).count();
  last_node_end_ = now;
}

StatusOr<std::vector<RuntimeValue>> Session::interpret(std::vector<RuntimeValue> inputs) {
  if (interpreter_ == nullptr) {
    auto model = clone_model(*model_);
    passes::PassContext ctx;
    ctx.policy = options_.compile.policy;
    MEZZO_RETURN_IF_ERROR(
        passes::run_passes(*model, ctx, passes::interpreter_pipeline(ctx)).with_context(path_));
    interpreted_ = std::move(model);
    InterpreterOptions options;
    options.threads = options_.threads;
    options.most_iterations = options_.most_iterations;
    if (options_.profile) {
      options.observer = [this](const NodeRun& run) {
        count_time(run.node);
        return ok_status();
      };
    }
    interpreter_ = std::make_unique<Interpreter>(*interpreted_, options);
  }
  last_node_end_ = std::chrono::steady_clock::now();
  auto outputs = interpreter_->run(std::move(inputs));
  if (!outputs.ok()) return outputs.status().with_context(path_);
  return outputs;
}

}  // namespace mezzo::cli
