#include "tools/mezzo/options.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>

#include "passes/precision/cost_model.h"

namespace mezzo::cli {

void PolicyOptions::add_to(CLI::App& app, bool takes_fp32, bool has_io) {
  const std::vector<std::string> precisions =
      takes_fp32 ? std::vector<std::string>{"fp32", "bf16", "fp16"} : std::vector<std::string>{"bf16", "fp16"};
  app.add_option("--precision", precision, "low type (default: bf16 where the target has it, else fp16)")
      ->check(CLI::IsMember(precisions));
  app.add_flag("--fp32", force_fp32, "keep everything in FP32, for debugging");
  app.add_option("--pin", pins, "keep nodes whose name matches REGEX in FP32; repeatable")->type_name("REGEX")->allow_extra_args(false);
  app.add_option("--deny-op", deny_ops, "keep an op type in FP32; repeatable")->type_name("TYPE")->allow_extra_args(false);
  app.add_option("--allow-op", allow_ops, "run an op type low; repeatable")->type_name("TYPE")->allow_extra_args(false);
  app.add_option("--assign", assign, "how free nodes are decided")->check(CLI::IsMember({"cut", "propagate"}))->capture_default_str();
  app.add_option("--target", target, "cost model")->check(CLI::IsMember(passes::target_names()))->capture_default_str();
  app.add_option("--pad-channels", pad_channels, "pad channels to a multiple where it pays; off: never")
      ->check(CLI::IsMember({"off", "8", "16", "32", "64"}))
      ->capture_default_str();
  if (has_io) {
    app.add_option("--io", io, "types of graph inputs and outputs")->check(CLI::IsMember({"keep", "low"}))->capture_default_str();
  }
}

StatusOr<passes::PrecisionPolicy> PolicyOptions::to_policy() const {
  passes::PrecisionPolicy policy;
  policy.force_fp32 = force_fp32 || precision == "fp32";
  policy.target = target;
  policy.assign = assign == "cut" ? passes::AssignMethod::kCut : passes::AssignMethod::kPropagate;
  policy.io = io == "low" ? passes::IoTypes::kLow : passes::IoTypes::kKeep;
  // Volta has FP16 Tensor Cores only; all newer targets take BF16 as well.
  const bool default_bf16 = target != "v100";
  policy.low = precision == "bf16" || (precision.empty() && default_bf16) ? DType::kBFloat16 : DType::kFloat16;
  policy.pins = pins;
  policy.deny_ops = deny_ops;
  policy.allow_ops = allow_ops;
  return policy;
}

passes::PadOptions PolicyOptions::to_padding() const {
  passes::PadOptions padding;
  padding.multiple = pad_channels == "off" ? 0 : std::atoi(pad_channels.c_str());
  padding.always = padding.multiple > 0;  // asked for by name
  return padding;
}

void DumpOptions::add_to(CLI::App& app) {
  app.add_option("--dump-to", dump_to, "write the graph after every pass into this folder")->type_name("DIR");
}

passes::RunnerOptions DumpOptions::to_runner() const {
  passes::RunnerOptions runner;
  runner.dump_to = dump_to;
  runner.repro_to = dump_to.empty() ? "." : dump_to;
  return runner;
}

void DimOptions::add_to(CLI::App& app) {
  app.add_option("--dim", texts, "size of a symbolic dimension; repeatable")->type_name("NAME=N")->allow_extra_args(false);
}

StatusOr<std::map<std::string, std::int64_t>> DimOptions::parse() const {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    std::int64_t size = 0;
    const char* end = text.data() + text.size();
    const bool parsed = equals != std::string::npos && equals > 0 &&
                        std::from_chars(text.data() + equals + 1, end, size).ptr == end && size > 0;
    if (!parsed) return invalid_argument("--dim '" + text + "': expected NAME=N with N of at least 1");
    sizes[text.substr(0, equals)] = size;
  }
  return sizes;
}

void ThreadOptions::add_to(CLI::App& app) {
  app.add_option("--threads", threads, "worker threads (default: OMP_NUM_THREADS, else all cores)")->check(CLI::Range(1, 1024));
}

int ThreadOptions::count() const {
  if (threads > 0) return threads;
  if (const char* text = std::getenv("OMP_NUM_THREADS"); text != nullptr && std::atoi(text) > 0) return std::atoi(text);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace mezzo::cli
