#include "tools/mezzo/opt_options.h"

#include <CLI/CLI.hpp>

#include "compiler/onnx/export.h"

namespace mezzo::cli {

void OptOptions::add_to(CLI::App& app) {
  app.add_option("--passes", passes, "comma-separated pass names, run in this order");
  app.add_option("--print-after", print_after, "print the graph after passes whose name matches")
      ->type_name("REGEX");
  app.add_option("--stop-after", stop_after, "run only so many passes")->check(CLI::PositiveNumber);
  app.add_flag("--types", types, "list the type of every value in the text");
  app.add_flag("--for-runtime", for_runtime, "compile for our runtime instead of exported ONNX");
  app.add_option("--freeze", training.freeze, "as for train; repeatable")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  app.add_option("--train", training.train, "as for train; repeatable")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  app.add_option("--loss-output", training.loss_output, "as for train");
  policy.add_to(app, /*takes_fp32=*/true, /*has_io=*/true);
  dims.add_to(app);
  dump.add_to(app);
}

StatusOr<passes::PassContext> OptOptions::to_context() const {
  passes::PassContext ctx;
  MEZZO_ASSIGN_OR_RETURN(ctx.policy, policy.to_policy());
  MEZZO_ASSIGN_OR_RETURN(ctx.symbol_values, dims.parse());
  ctx.padding = policy.to_padding();
  ctx.training_options = training;
  ctx.for_runtime = for_runtime;
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
