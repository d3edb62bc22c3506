// mezzo run: executes a model or a plan on an npz.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/mezzo/command.h"
#include "tools/mezzo/device_options.h"
#include "tools/mezzo/option_checks.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"
#include "tools/mezzo/session.h"
#include "tools/mezzo/trace_run.h"
#include "tools/mezzo/value_io.h"

namespace mezzo::cli {
namespace {

struct RunCommand {
  std::string model, input, output, trace;
  PolicyOptions policy;
  DimOptions dims;
  ThreadOptions threads;
  DeviceArguments device;
  std::uint64_t loop_limit = SessionOptions().most_iterations;

  Status run() const {
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"--output", output}}, {{"the model", model}, {"--input", input}}));
    if (model.ends_with(".plan") && (policy.ask_for_precision() || policy.force_fp32)) {
      return invalid_argument(model + ": a plan's precision is settled. Hint: give the policy to " +
                              "`mezzo compile`");
    }
    SessionOptions options;
    MEZZO_ASSIGN_OR_RETURN(options.compile.policy, policy.to_policy());
    if (!policy.ask_for_precision()) options.compile.policy.force_fp32 = true;
    MEZZO_ASSIGN_OR_RETURN(options.compile.dims, dims.parse());
    options.compile.padding = padding_of(options.compile.policy);
    options.threads = threads.count();
    options.compile.device = device.kind();
    options.most_iterations = loop_limit;
    options.device_or_interpreter = true;
    if (!trace.empty() && options.compile.device != DeviceKind::kCpu) {
      return invalid_argument("--trace looks at every tensor on the CPU: expected no --device " +
                              device.name);
    }
    if (!trace.empty()) {
      return run_traced(
          {model, input, output, options.compile.policy, options.threads, loop_limit});
    }
    MEZZO_ASSIGN_OR_RETURN(options.device, device.open());
    MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(model, options));
    MEZZO_ASSIGN_OR_RETURN(const InputFiles files, InputFiles::open(input));
    MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> inputs, files.read(session->inputs()));
    MEZZO_ASSIGN_OR_RETURN(const std::vector<RuntimeValue> outputs,
                           session->run(std::move(inputs)));
    MEZZO_RETURN_IF_ERROR(write_outputs(output, session->outputs(), outputs));
    std::printf("wrote %s\n", output.c_str());
    return ok_status();
  }
};

}  // namespace

Work add_run(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  app.add_option("model", command->model, "ONNX model, or a plan (.plan)")
      ->required()
      ->type_name("FILE");
  app.add_option(
         "--input", command->input,
         "The graph's inputs: an npz by name, or a folder of input_K.pb in the graph's order")
      ->required()
      ->type_name("NPZ|DIR");
  CLI::Option* output =
      app.add_option("--output", command->output,
                     "Receives the outputs: an .npz by name, or a folder of output_K.pb")
          ->required()
          ->type_name("NPZ|DIR");
  app.add_option_function<std::string>(
         "--trace",
         [command, output](const std::string& what) {
           command->trace = what;
           output->required(false);  // asked for after this
         },
         "nan: look at every tensor, and name the first node that makes inf or NaN of finite "
         "numbers, with the ranges of what it reads (exit status 1 if one does); --output may "
         "then be left out")
      ->type_name("WHAT")
      ->check(one_of({"nan"}));
  command->policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  app.get_option("--precision")->description("Low type, or fp32 (default)");
  command->dims.add_to(app);
  command->threads.add_to(app);
  command->device.add_to(app);
  app.add_option("--loop-limit", command->loop_limit, "Most iterations of all loops together")
      ->capture_default_str();
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
