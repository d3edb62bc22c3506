#include "tools/mezzo/trace_run.h"

#include <cstdio>

#include "compiler/onnx/import.h"
#include "compiler/support/text.h"
#include "passes/numerics/prepare.h"
#include "passes/numerics/trace_nan.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/value_io.h"

namespace mezzo::cli {
namespace {

// As the file is, or converted to mixed precision.
StatusOr<std::unique_ptr<Model>> load(const TraceRun& options) {
  std::unique_ptr<Model> model;
  if (options.policy.force_fp32) {
    MEZZO_ASSIGN_OR_RETURN(model, load_model(options.model));
  } else {
    MEZZO_ASSIGN_OR_RETURN(Converted converted, convert_model(options.model, options.policy,
                                                              padding_of(options.policy), {}));
    model = std::move(converted.model);
  }
  MEZZO_RETURN_IF_ERROR(numerics::prepare(*model).with_context(options.model));
  return model;
}

std::vector<GraphPort> ports(const std::vector<Value*>& values) {
  std::vector<GraphPort> out;
  for (const Value* value : values)
    out.push_back({value->name(), value->type, value->is_initializer()});
  return out;
}

}  // namespace

Status run_traced(const TraceRun& options) {
  if (options.model.ends_with(".plan")) {
    return invalid_argument(options.model +
                            ": a plan does not keep the nodes of its model. Hint: give the model");
  }
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, load(options));
  MEZZO_ASSIGN_OR_RETURN(const InputFiles files, InputFiles::open(options.input));
  MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> inputs,
                         files.read(ports(model->graph->inputs())));
  for (const std::string& line : numerics::nonfinite_inputs(*model->graph, inputs))
    std::printf("%s\n", printable(line, 400).c_str());
  numerics::NanTracer tracer;
  InterpreterOptions interpreter_options;
  interpreter_options.threads = options.threads;
  interpreter_options.most_iterations = options.most_iterations;
  interpreter_options.observer = [&](const NodeRun& run) { return tracer.observe(run); };
  Interpreter interpreter(*model, interpreter_options);
  const auto outputs = interpreter.run(std::move(inputs));
  const std::string where = options.model + ": ";
  // A NaN may be why the run went wrong: it is told first.
  if (!outputs.ok()) {
    const Status status = outputs.status().with_context(options.model);
    return tracer.first() ? Status(status.code(), where + tracer.first()->text() + "; then " +
                                                      outputs.status().message())
                          : status;
  }
  if (!options.output.empty()) {
    MEZZO_RETURN_IF_ERROR(write_outputs(options.output, ports(model->graph->outputs()), *outputs));
    std::printf("wrote %s\n", options.output.c_str());
  }
  if (!tracer.first()) {
    std::printf("no node makes inf or NaN of finite numbers\n");
    return ok_status();
  }
  if (tracer.first_nan())
    std::printf("the first NaN: %s\n", printable(tracer.first_nan()->text(), 600).c_str());
  if (tracer.others() > 0)
    std::printf("%llu further node%s so too\n", static_cast<unsigned long long>(tracer.others()),
                tracer.others() == 1 ? " does" : "s do");
  return invalid_argument(where + printable(tracer.first()->text(), 600));
}

}  // namespace mezzo::cli
