// mezzo compile: an ONNX model in, a plan for the runtime out.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "compiler/support/text.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/device_options.h"
#include "tools/mezzo/option_checks.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"

namespace mezzo::cli {
namespace {

struct CompileCommand {
  std::string model, output;
  PolicyOptions policy;
  DumpOptions dump;
  DimOptions dims;
  DeviceArguments device;
  passes::TrainingOptions training;
  std::int64_t batch_size = 0;
  bool train = false, explain = false, timing = false;

  Status run() const {
    if (output.ends_with(".safetensors")) {
      return invalid_argument("-o '" + printable(output) +
                              "': the weights go there. Hint: name the plan model.plan");
    }
    CompileOptions options;
    MEZZO_ASSIGN_OR_RETURN(options.policy, policy.to_policy());
    // An inference plan runs the model's own types unless a precision is asked for.
    if (!train && !policy.ask_for_precision()) options.policy.force_fp32 = true;
    MEZZO_ASSIGN_OR_RETURN(options.dims, dims.parse());
    options.training = training;
    options.padding = padding_of(options.policy);
    options.batch_size = batch_size;
    options.device = device.kind();
    options.train = train;
    options.runner = dump.to_runner();
    MEZZO_ASSIGN_OR_RETURN(const Compiled compiled, compile_model(model, options));
    MEZZO_RETURN_IF_ERROR(
        expect_different({{"-o", output}, {"the weights of -o", weights_path_of(output)}},
                         sources(model, compiled.data_files)));
    MEZZO_RETURN_IF_ERROR(write_plan(*compiled.draft, output));
    if (timing) {
      for (const passes::PassRun& pass : compiled.passes)
        std::printf("%9.2f ms  %s%s\n", pass.ms, std::string(pass.name).c_str(),
                    pass.changed ? "" : "  (no change)");
    }
    if (explain) MEZZO_RETURN_IF_ERROR(print_kernels(compiled));
    std::printf("activations %s planned, %s alive together at most\nwrote %s\n",
                format_bytes(compiled.records.planned_peak_bytes).c_str(),
                format_bytes(compiled.records.live_bytes).c_str(), output.c_str());
    return ok_status();
  }

  // Which kernel every step gets on this machine.
  Status print_kernels(const Compiled& compiled) const {
    runtime::ExecutorOptions options;
    MEZZO_ASSIGN_OR_RETURN(options.device, device.open());
    MEZZO_ASSIGN_OR_RETURN(
        const auto executor,
        runtime::Executor::create(compiled.plan(), weights_of(compiled.draft), options));
    for (const runtime::StepProfile& step : executor->profile()) {
      std::printf("%-28s %-32s %s\n", step.op.c_str(), step.implementation.c_str(),
                  step.node.c_str());
    }
    return ok_status();
  }
};

}  // namespace

Work add_compile(CLI::App& app) {
  auto command = std::make_shared<CompileCommand>();
  app.add_option("model", command->model, "ONNX model, binary or text")
      ->required()
      ->type_name("MODEL");
  app.add_option("-o,--output", command->output,
                 "The plan; its weights go beside it, as .safetensors")
      ->required()
      ->type_name("FILE");
  app.add_flag("--train", command->train, "A training plan: forward, backward, evaluate");
  app.add_option("--batch-size", command->batch_size, "Size of the first dimension of every input")
      ->type_name("N")
      ->check(whole_number(1));
  app.add_option("--loss-output", command->training.loss_output,
                 "With --train: output to minimise (default: the only scalar)")
      ->type_name("NAME");
  repeatable(app.add_option("--freeze", command->training.freeze,
                            "With --train: do not train these; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
  app.add_flag("--explain", command->explain, "Print the kernel that every step gets");
  app.add_flag("--timing", command->timing, "Print what every pass took");
  command->policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/false);
  app.get_option("--precision")
      ->description("Low type, or fp32 (default: fp32; with --train as for train)");
  command->dims.add_to(app);
  command->device.add_name_to(app);
  command->dump.add_to(app);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
