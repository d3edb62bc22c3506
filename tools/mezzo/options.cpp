#include "tools/mezzo/options.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/policy_file.h"
#include "passes/precision/policy_words.h"
#include "tools/mezzo/option_checks.h"

namespace mezzo::cli {

void PolicyOptions::add_to(CLI::App& app, bool takes_fp32, bool has_io) {
  app.option_defaults()->group("Precision");
  CLI::Option* file =
      app.add_option("--policy", policy_file,
                     "Policy file: pins, categories, rules; the options below go before it")
          ->type_name("JSON");
  app.add_option("--preset", preset, "A policy that comes with mezzo (default: default)")
      ->type_name("NAME")
      ->check(one_of(passes::preset_names()))
      ->excludes(file);
  const std::vector<std::string> precisions = takes_fp32
                                                  ? std::vector<std::string>{"fp32", "bf16", "fp16"}
                                                  : std::vector<std::string>{"bf16", "fp16"};
  app.add_option("--precision", precision,
                 "Low type (default: bf16 where the target has it, else fp16)")
      ->type_name("TYPE")
      ->check(one_of(precisions));
  app.add_flag("--fp32", force_fp32, "Keep everything in FP32, for debugging");
  repeatable(app.add_option("--pin", pins,
                            "Keep nodes whose name or noted module matches in FP32; repeatable"))
      ->type_name("REGEX")
      ->check(regular_expression());
  repeatable(app.add_option("--deny-op", deny_ops, "Keep an operator type in FP32; repeatable"))
      ->type_name("OP");
  repeatable(app.add_option("--allow-op", allow_ops, "Run an operator type low; repeatable"))
      ->type_name("OP");
  app.add_option("--assign", assign,
                 "Free nodes: exact minimum cut, or painting as AMP tools do (default: cut)")
      ->type_name("METHOD")
      ->check(one_of(passes::texts_of(passes::kAssignWords)));
  app.add_option("--target", target, "Machine whose cost model decides (default: cpu)")
      ->type_name("NAME")
      ->check(one_of(passes::target_names()));
  app.add_option("--pad-channels", pad_channels,
                 "Pad channels to a multiple of N, or off (default: off)")
      ->type_name("N")
      ->check(one_of({"off", "8", "16", "32", "64"}));
  if (has_io) {
    app.add_option("--io", io,
                   "Types of graph inputs and outputs: as they are, or low (default: keep)")
        ->type_name("TYPES")
        ->check(one_of(passes::texts_of(passes::kIoWords)));
  }
  app.option_defaults()->group("Options");
}

namespace {

StatusOr<passes::PolicyFile> base_policy(const PolicyOptions& options) {
  if (!options.policy_file.empty()) return passes::read_policy(options.policy_file);
  return passes::find_preset(options.preset.empty() ? "default" : options.preset);
}

}  // namespace

StatusOr<passes::PrecisionPolicy> PolicyOptions::to_policy() const {
  using Precision = passes::PolicyFile::Precision;
  MEZZO_ASSIGN_OR_RETURN(passes::PolicyFile file, base_policy(*this));
  passes::PrecisionPolicy& policy = file.policy;
  if (!target.empty()) policy.target = target;
  if (!assign.empty()) policy.assign = passes::value_of(assign, passes::kAssignWords);
  if (!io.empty()) policy.io = passes::value_of(io, passes::kIoWords);
  if (!pad_channels.empty())
    policy.pad_channels = pad_channels == "off" ? 0 : std::atoi(pad_channels.c_str());
  if (precision == "fp16") file.precision = Precision::kFp16;
  if (precision == "bf16") file.precision = Precision::kBf16;
  if (precision == "fp32" || force_fp32) file.precision = Precision::kFp32;
  policy.pins = pins;
  policy.deny_ops = deny_ops;
  policy.allow_ops = allow_ops;
  return file.resolve();
}

std::string PolicyOptions::describe() const {
  if (policy_file.empty() && preset.empty()) return force_fp32 ? "fp32" : precision;
  const StatusOr<passes::PrecisionPolicy> policy = to_policy();
  return policy.ok() ? passes::policy_json(*policy) : policy.status().message();
}

bool PolicyOptions::ask_for_precision() const {
  return !precision.empty() || !policy_file.empty() || !preset.empty();
}

passes::PadOptions padding_of(const passes::PrecisionPolicy& policy) {
  passes::PadOptions padding;
  padding.multiple = policy.pad_channels;
  padding.always = padding.multiple > 0;  // asked for by name
  return padding;
}

namespace {

Status check_pins(const passes::PrecisionPolicy& policy, const Records& records) {
  for (const std::string& text : policy.pins) {
    MEZZO_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::compile(text, "--pin"));
    // Nodes without a name are pinned by their results' names, which only the cause tells.
    const bool used =
        std::any_of(records.nodes.begin(), records.nodes.end(), [&](const NodeDecision& node) {
          return pattern.matches(node.node) || node.cause == "--pin " + text;
        });
    if (!used) {
      return invalid_argument(
          "--pin '" + printable(text) +
          "': matches no node. Hint: `mezzo report MODEL --text` lists their names");
    }
  }
  return ok_status();
}

// Operators of the model and of the catalogue.
std::vector<std::string> known_ops(const Records& records) {
  std::vector<std::string> names;
  for (const NodeDecision& node : records.nodes) names.push_back(node.op_type);
  for (const OpDef* def : all_ops()) names.emplace_back(def->name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Status check_ops(const char* option, const std::vector<std::string>& ops,
                 const std::vector<std::string>& names) {
  for (const std::string& op : ops) {
    if (std::binary_search(names.begin(), names.end(), op)) continue;
    return invalid_argument(std::string(option) + " '" + printable(op) + "': no such operator." +
                            did_you_mean(op, names));
  }
  return ok_status();
}

// Nodes without a name, which rules know by their results, are not looked for here.
bool names_a_node(const passes::PolicyRule& rule, const Records& records) {
  const StatusOr<Pattern> pattern = Pattern::compile(rule.node, "node");
  return !pattern.ok() ||
         std::any_of(records.nodes.begin(), records.nodes.end(), [&](const NodeDecision& node) {
           return pattern->matches(node.node) || node.cause.find(rule.origin) != std::string::npos;
         });
}

void warn_of_slips(const passes::PrecisionPolicy& policy, const std::vector<std::string>& names,
                   Records& records) {
  for (const passes::PolicyRule& rule : policy.rules) {
    if (!rule.node.empty() && !names_a_node(rule, records))
      records.warnings.push_back(passes::source_of(rule) + ": 'node' matches no node of the model");
    for (const std::string& op : rule.ops) {
      if (std::binary_search(names.begin(), names.end(), op)) continue;
      const std::string suggestion = did_you_mean(op, names);
      if (suggestion.empty()) continue;
      records.warnings.push_back(passes::source_of(rule) + ": no operator of this model is '" +
                                 printable(op) + "'." + suggestion);
    }
  }
}

}  // namespace

Status check_policy_used(const passes::PrecisionPolicy& policy, Records& records) {
  if (records.nodes.empty()) return ok_status();  // nothing was decided: --fp32
  MEZZO_RETURN_IF_ERROR(check_pins(policy, records));
  const std::vector<std::string> names = known_ops(records);
  MEZZO_RETURN_IF_ERROR(check_ops("--deny-op", policy.deny_ops, names));
  MEZZO_RETURN_IF_ERROR(check_ops("--allow-op", policy.allow_ops, names));
  warn_of_slips(policy, names, records);
  return ok_status();
}

void DumpOptions::add_to(CLI::App& app) {
  app.add_option("--dump-to", dump_to, "Write the graph after every pass into this folder")
      ->type_name("DIR");
}

passes::RunnerOptions DumpOptions::to_runner() const {
  passes::RunnerOptions runner;
  runner.dump_to = dump_to;
  runner.repro_to = dump_to.empty() ? "." : dump_to;
  return runner;
}

void DimOptions::add_to(CLI::App& app) {
  repeatable(app.add_option("--dim", texts, "Size of a symbolic dimension; repeatable"))
      ->type_name("NAME=N")
      ->check(
          accepted_by([](const std::string& text) { return DimOptions{{text}}.parse().status(); }));
}

StatusOr<std::map<std::string, std::int64_t>> DimOptions::parse() const {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    std::int64_t size = 0;
    const char* end = text.data() + text.size();
    const bool parsed = equals != std::string::npos && equals > 0 &&
                        std::from_chars(text.data() + equals + 1, end, size).ptr == end && size > 0;
    if (!parsed)
      return invalid_argument("expected NAME=N with N of at least 1, got '" + printable(text) +
                              "'");
    sizes[text.substr(0, equals)] = size;
  }
  return sizes;
}

void ThreadOptions::add_to(CLI::App& app) {
  app.add_option("--threads", threads, "Worker threads (default: OMP_NUM_THREADS, else all cores)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
}

int ThreadOptions::count() const {
  if (threads > 0) return threads;
  if (const char* text = std::getenv("OMP_NUM_THREADS"); text != nullptr && std::atoi(text) > 0)
    return std::atoi(text);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace mezzo::cli
