#include "tools/mezzo/opt_options.h"

#include <CLI/CLI.hpp>

#include "compiler/onnx/export.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {

void OptOptions::add_to(CLI::App& app) {
  app.add_option("--passes", passes, "Comma-separated pass names, run in this order")
      ->type_name("A,B,...");
  app.add_option("--print-after", print_after, "Print the graph after passes whose name matches")
      ->type_name("REGEX")
      ->check(regular_expression());
  app.add_option("--stop-after", stop_after, "Run only so many passes")
      ->type_name("N")
      ->check(whole_number(1));
  app.add_flag("--types", types, "List the type of every value in the text");
  app.add_flag("--for-runtime", for_runtime, "Compile for our runtime instead of exported ONNX");
  app.add_option("--device", device, "With --for-runtime: where the plan is to run (default: cpu)")
      ->type_name("NAME")
      ->check(one_of({kDeviceWords.begin(), kDeviceWords.end()}));
  repeatable(app.add_option("--freeze", training.freeze, "As for train; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
  repeatable(app.add_option("--train", training.train, "As for train; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
  app.add_option("--loss-output", training.loss_output, "As for train")->type_name("NAME");
  loss.add_to(app);
  policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/true);
  dims.add_to(app);
  dump.add_to(app);
}

StatusOr<passes::PassContext> OptOptions::to_context() const {
  passes::PassContext ctx;
  MEZZO_ASSIGN_OR_RETURN(ctx.policy, policy.to_policy());
  MEZZO_ASSIGN_OR_RETURN(ctx.symbol_values, dims.parse());
  ctx.padding = padding_of(ctx.policy);
  ctx.training_options = training;
  MEZZO_ASSIGN_OR_RETURN(ctx.loss, loss.resolve("", 0));
  ctx.for_runtime = for_runtime;
  ctx.device = device_of(device);
  return ctx;
}

passes::RunnerOptions OptOptions::to_runner() const {
  passes::RunnerOptions runner = dump.to_runner();
  runner.print_after = print_after;
  runner.stop_after = stop_after;
  return runner;
}

StatusOr<std::string> OptOptions::print(Model& model) const {
  refresh_value_info(*model.graph, types);
  return to_text(model);
}

}  // namespace mezzo::cli
