// mezzo compare: runs a model and its conversion side by side, and says where they part and why.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/onnx/import.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "passes/numerics/prepare.h"
#include "passes/precision/policy_words.h"
#include "tools/mezzo/command.h"
#include "tools/mezzo/compare_fix.h"
#include "tools/mezzo/compare_result.h"
#include "tools/mezzo/file_kind.h"
#include "tools/mezzo/option_checks.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/output_places.h"
#include "tools/mezzo/progress_bar.h"
#include "tools/mezzo/value_io.h"

namespace mezzo::cli {
namespace {

struct LoadedModel {
  std::unique_ptr<Model> model;  // prepared
  std::vector<std::string> data_files;
};

StatusOr<LoadedModel> load(const std::string& path) {
  LoadedModel loaded;
  ImportOptions options;
  options.data_files = &loaded.data_files;
  MEZZO_ASSIGN_OR_RETURN(loaded.model, load_model(path, options));
  MEZZO_RETURN_IF_ERROR(numerics::prepare(*loaded.model).with_context(path));
  return loaded;
}

// 16 bits have 3 or 2 digits; FP32 on both sides differs by the order of its sums.
double default_tolerance(DType low) {
  if (low == DType::kBFloat16) return 5e-2;
  return low == DType::kFloat16 ? 2e-2 : 1e-4;
}

// Files under temporary names, until there is something to write.
struct Outputs {
  std::optional<AtomicFile> policy, data;
};

struct CompareCommand {
  std::string a, b, input, fix, json;
  double tolerance = -1;  // -1: by the type
  std::int64_t most_runs = 100, memory_mib = 1024;
  bool quiet = false;
  PolicyOptions policy;
  ThreadOptions threads;

  Status run() const {
    MEZZO_ASSIGN_OR_RETURN(const passes::PrecisionPolicy base, policy.to_policy());
    MEZZO_ASSIGN_OR_RETURN(const LoadedModel of_a, load(a));
    MEZZO_ASSIGN_OR_RETURN(const LoadedModel of_b, load(b));
    MEZZO_RETURN_IF_ERROR(check_places(of_a, of_b));
    if (base.force_fp32) {
      return invalid_argument(
          "--fp32: with everything in FP32 there is nothing to compare or mend");
    }
    Outputs files;  // rather now than after many runs
    if (!fix.empty()) {
      MEZZO_ASSIGN_OR_RETURN(files.policy, AtomicFile::create(fix));
    }
    if (!json.empty()) {
      MEZZO_ASSIGN_OR_RETURN(files.data, AtomicFile::create(json));
    }
    const std::string both = a + ", " + b;
    auto match = numerics::match_models(*of_a.model, *of_b.model);
    if (!match.ok()) return match.status().with_context(both);
    auto lowering = numerics::read_lowering(*of_a.model, *of_b.model, *match);
    if (!lowering.ok()) return lowering.status().with_context(both);
    MEZZO_ASSIGN_OR_RETURN(const std::vector<RuntimeValue> inputs, read_inputs(*of_a.model->graph));

    CompareResult result;
    result.a = a;
    result.b = b;
    result.input = input;
    result.tolerance = tolerance >= 0 ? tolerance : default_tolerance(lowering->low);
    ProgressBar bar("comparing", static_cast<std::uint64_t>(most_runs), quiet);
    const auto ran = [&] { bar.update(++result.runs); };
    numerics::CompareOptions compare;
    compare.tolerance = result.tolerance;
    compare.threads = threads.count();
    compare.budget_bytes = static_cast<std::uint64_t>(memory_mib) << 20;
    compare.most_runs = static_cast<std::uint64_t>(most_runs) / 2;  // the rest is for blame
    compare.ran = ran;
    auto compared = numerics::compare_models(*of_a.model, *of_b.model, *match, inputs, compare);
    if (!compared.ok()) return compared.status().with_context(both);
    result.comparison = *std::move(compared);
    std::string policy_text;
    if (!result.agrees()) {
      numerics::BlameOptions options;
      options.tolerance = result.tolerance;
      options.threads = threads.count();
      options.most_runs = static_cast<std::uint64_t>(most_runs) - result.runs;
      options.ran = ran;
      MEZZO_ASSIGN_OR_RETURN(result.blame,
                             numerics::find_blame(*of_a.model, *lowering, inputs,
                                                  result.comparison.outputs_of_a, options));
      if (!fix.empty()) {
        MEZZO_ASSIGN_OR_RETURN(policy_text, find_fix(*of_a.model, base, inputs, ran, result));
      }
    }
    bar.finish();
    MEZZO_RETURN_IF_ERROR(write(result, policy_text, files));
    return verdict(result);
  }

 private:
  Status check_places(const LoadedModel& of_a, const LoadedModel& of_b) const {
    std::vector<NamedFile> others = sources(a, of_a.data_files);
    for (const NamedFile& file : sources(b, of_b.data_files)) others.push_back(file);
    others.push_back({"--input", input});
    others.push_back({"--policy", policy.policy_file});
    return expect_different({{"--fix", fix}, {"--json", json}}, std::move(others));
  }

  StatusOr<std::vector<RuntimeValue>> read_inputs(const Graph& graph) const {
    std::vector<GraphPort> ports;
    for (const Value* value : graph.inputs())
      ports.push_back({value->name(), value->type, value->is_initializer()});
    MEZZO_ASSIGN_OR_RETURN(const InputFiles files, InputFiles::open(input));
    MEZZO_ASSIGN_OR_RETURN(std::vector<RuntimeValue> inputs, files.read(ports));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_tensor() || !is_floating(inputs[i].tensor.dtype)) continue;
      if (const std::uint64_t nans = numerics::range_of(inputs[i].tensor).nans; nans > 0) {
        return invalid_argument(input + ": input '" + ports[i].name + "' holds " +
                                std::to_string(nans) + " NaN, so that nothing can be compared");
      }
    }
    return inputs;
  }

  // The text of the policy; "" where none was found.
  StatusOr<std::string> find_fix(const Model& of_a, passes::PrecisionPolicy base,
                                 const std::vector<RuntimeValue>& inputs,
                                 const std::function<void()>& ran, CompareResult& result) const {
    if (result.blame->outcome != numerics::Blame::Outcome::kFound) return std::string();
    if (policy.precision.empty()) base.low = result.blame->low;
    numerics::BlameOptions options;
    options.tolerance = result.tolerance;
    options.threads = threads.count();
    options.most_runs = static_cast<std::uint64_t>(most_runs);
    options.ran = ran;
    MEZZO_ASSIGN_OR_RETURN(const Fix found, make_fix(a, of_a, base, *result.blame, inputs,
                                                     result.comparison.outputs_of_a, options));
    result.fixed_nodes = found.nodes;
    result.fixed_error = found.error;
    if (!found.enough) return std::string();
    result.fix = fix;
    return found.json;
  }

  Status write(const CompareResult& result, const std::string& policy_text, Outputs& files) const {
    if (!result.fix.empty()) {
      MEZZO_RETURN_IF_ERROR(files.policy->write(policy_text));
      MEZZO_RETURN_IF_ERROR(files.policy->commit());
    }
    if (files.data) {
      MEZZO_RETURN_IF_ERROR(files.data->write(json_text(compare_json(result), 1) + "\n"));
      MEZZO_RETURN_IF_ERROR(files.data->commit());
    }
    if (!quiet) std::printf("%s", compare_text(result, terminal_width()).c_str());
    return ok_status();
  }

  Status verdict(const CompareResult& result) const {
    if (result.agrees() || !result.fix.empty()) return ok_status();
    const auto& outputs = result.comparison.outputs;
    const auto worst = std::max_element(
        outputs.begin(), outputs.end(),
        [](const auto& x, const auto& y) { return x.difference.error < y.difference.error; });
    std::string message = b + ": output '" + worst->b->name() + "': its error beside " + a +
                          " is " + numerics::error_text(worst->difference.error) + ", more than " +
                          format_number(static_cast<float>(result.tolerance));
    if (!fix.empty()) {
      message += result.fixed_error ? "; kept in FP32, the nodes to blame leave an error of " +
                                          numerics::error_text(*result.fixed_error) + ", so " +
                                          fix + " was not written"
                                    : "; nothing was found that would go into " + fix;
    } else if (result.blame && result.blame->outcome == numerics::Blame::Outcome::kFound) {
      message += ". Hint: --fix policy.json makes a policy that mends it";
    }
    return invalid_argument(message);
  }
};

}  // namespace

Work add_compare(CLI::App& app) {
  auto command = std::make_shared<CompareCommand>();
  app.add_option("a", command->a, "The model in FP32")->required()->type_name("MODEL");
  app.add_option("b", command->b, "The same in mixed precision, whatever made it")
      ->required()
      ->type_name("MODEL");
  app.add_option("--input", command->input,
                 "Inputs for both: an npz by name, or a folder of input_K.pb")
      ->required()
      ->type_name("NPZ|DIR");
  app.add_option("--tolerance", command->tolerance,
                 "Error of an output that is still right, as a share of its largest magnitude "
                 "(default: 0.02 for FP16, 0.05 for BF16, 0.0001 for FP32)")
      ->type_name("E")
      ->check(number_above(0));
  app.add_option("--fix", command->fix,
                 "Write a policy that keeps the nodes to blame in FP32, tried by converting the "
                 "first model with it; the options for precision say what else it holds")
      ->type_name("JSON");
  app.add_option("--max-runs", command->most_runs,
                 "Most runs of a graph, for comparing (half at most), blaming and trying a fix "
                 "(as many again)")
      ->type_name("N")
      ->check(whole_number(8, 1000000))
      ->capture_default_str();
  app.add_option("--memory", command->memory_mib,
                 "MiB of tensors of the first model kept for comparison; more of them take "
                 "further runs of both")
      ->type_name("MIB")
      ->check(whole_number(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--json", command->json, "Also write what was found as JSON")->type_name("JSON");
  app.add_flag("-q,--quiet", command->quiet, "Print nothing but errors");
  command->threads.add_to(app);
  command->policy.add_to(app, /*takes_fp32=*/false, /*has_io=*/true);
  return [command] { return command->run(); };
}

}  // namespace mezzo::cli
