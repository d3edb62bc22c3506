#include "passes/reproducer.h"

#include <algorithm>
#include <filesystem>

#include "compiler/ir/clone.h"
#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "passes/precision/policy_file.h"
#include "passes/precision/policy_words.h"

namespace mezzo::passes {
namespace {

namespace fs = std::filesystem;

// Text of more weights than this is no pleasure to read.
constexpr std::uint64_t kMostTextBytes = std::uint64_t{256} << 10;

// A word of a command line, in quotes where a shell would take it apart.
std::string quoted(const std::string& word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_.,=/:+-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::uint64_t constant_bytes(const Model& model) {
  std::uint64_t bytes = 0;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const Value* value : graph.initializers()) {
      bytes += value->constant() ? value->constant()->byte_size() : 0;
    }
  });
  return bytes;
}

std::string pass_names(const std::vector<const PassInfo*>& passes) {
  std::vector<std::string> names;
  for (const PassInfo* pass : passes) names.emplace_back(pass->name);
  return join(names, ",");
}

// A context as a new process would have it: options, and nothing that passes have noted.
PassContext fresh(const PassContext& ctx) {
  PassContext result;
  result.policy = ctx.policy;
  result.training_options = ctx.training_options;
  result.padding = ctx.padding;
  result.for_runtime = ctx.for_runtime;
  result.device = ctx.device;
  result.symbol_values = ctx.symbol_values;
  return result;
}

// Writes the attempt's files; returns the one that `mezzo opt` is to read.
StatusOr<std::string> write_attempt(const fs::path& folder, const Attempt& attempt,
                                    const std::string& head) {
  const std::unique_ptr<Model> model = clone_model(*attempt.model);
  // Types that inference cannot tell again must be in the file.
  refresh_value_info(*model->graph, /*list_all=*/true);
  const std::string text_path = (folder / "repro.onnxtxt").string();
  std::string why = "its weights are large";
  if (constant_bytes(*model) <= kMostTextBytes) {
    const StatusOr<std::string> text = to_text(*model, Weights::kEmbedded);
    if (text.ok()) {
      MEZZO_RETURN_IF_ERROR(write_file(text_path, head + *text));
      return text_path;
    }
    why = text.status().message();
  }
  const std::string path = (folder / "repro.onnx").string();
  MEZZO_RETURN_IF_ERROR(export_model(*model, path));
  MEZZO_ASSIGN_OR_RETURN(const std::string shown, to_text(*model, Weights::kElided));
  std::replace(why.begin(), why.end(), '\n', ' ');
  MEZZO_RETURN_IF_ERROR(
      write_file(text_path, head + "# The model is in repro.onnx: " + why + ".\n" + shown));
  return path;
}

// What no option but --policy says; empty if that is the default policy. What command_options()
// says is taken out, so that a setting that neither knows is still written.
std::string policy_beyond_options(const PrecisionPolicy& policy) {
  const PrecisionPolicy usual;
  PrecisionPolicy rest = policy;
  rest.low = usual.low;
  rest.force_fp32 = usual.force_fp32;
  rest.assign = usual.assign;
  rest.io = usual.io;
  rest.target = usual.target;
  rest.pad_channels = usual.pad_channels;
  rest.pins.clear();
  rest.deny_ops.clear();
  rest.allow_ops.clear();
  const std::string text = policy_json(rest);
  return text == policy_json(usual) ? "" : text;
}

// Does the file fail as `failure` says?
bool fails_alike(const std::string& path, const Attempt& attempt, const PassContext& ctx,
                 const Status& failure) {
  const auto model = load_model(path);
  if (!model.ok()) return false;
  PassContext again = fresh(ctx);
  std::optional<std::uint64_t> fingerprint;
  for (const PassInfo* pass : attempt.passes) {
    bool changed = false;
    const Status status = run_checked(*pass, **model, again, &changed, fingerprint);
    if (status.ok()) continue;
    return pass == attempt.passes.back() && status.code() == failure.code() &&
           status.message() == failure.message();
  }
  return false;
}

}  // namespace

Status run_checked(const PassInfo& pass, Model& model, PassContext& ctx, bool* changed,
                   std::optional<std::uint64_t>& known) {
  const std::uint64_t before = known ? *known : fingerprint(model);
  known.reset();
  MEZZO_ASSIGN_OR_RETURN(*changed, pass.function(model, ctx));
  MEZZO_RETURN_IF_ERROR(verify(model));
  if (*changed) return ok_status();
  known = fingerprint(model);
  return *known == before ? ok_status() : internal_error("it says it changed nothing, but it did");
}

std::string write_reproducer(const std::string& folder, const std::vector<Attempt>& attempts,
                             const PassContext& ctx, const Status& failure) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::string options = command_options(ctx);
  if (const std::string policy = policy_beyond_options(ctx.policy); !policy.empty()) {
    const std::string path = (fs::path(folder) / "repro-policy.json").string();
    if (const Status status = write_file(path, policy); !status.ok())
      return "the reproducer could not be written: " + status.message();
    options += " --policy=" + quoted(path);
  }
  std::string command;
  for (const Attempt& attempt : attempts) {
    const std::string run =
        "mezzo opt --passes=" + pass_names(attempt.passes) + (options.empty() ? "" : " " + options);
    const StatusOr<std::string> path = write_attempt(folder, attempt, "# RUN: " + run + "\n");
    if (!path.ok()) return "the reproducer could not be written: " + path.status().message();
    command = run + " " + quoted(*path);
    if (fails_alike(*path, attempt, ctx, failure)) return "to see it again: " + command;
  }
  return "it did not happen again with: " + command;
}

std::string command_options(const PassContext& ctx) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view option, const std::string& value) {
    words.push_back("--" + std::string(option) + "=" + quoted(value));
  };
  const auto add_all = [&](std::string_view option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
  };
  const PrecisionPolicy& policy = ctx.policy;
  add("precision", std::string(low_word(policy.low)));
  if (policy.force_fp32) words.push_back("--fp32");
  if (policy.assign == AssignMethod::kPropagate) add("assign", "propagate");
  if (policy.io == IoTypes::kLow) add("io", "low");
  if (policy.target != "cpu") add("target", policy.target);
  if (ctx.padding.multiple > 0) add("pad-channels", std::to_string(ctx.padding.multiple));
  add_all("pin", policy.pins);
  add_all("deny-op", policy.deny_ops);
  add_all("allow-op", policy.allow_ops);
  if (ctx.for_runtime) words.push_back("--for-runtime");
  if (ctx.device != DeviceKind::kCpu) add("device", std::string(device_word(ctx.device)));
  add_all("freeze", ctx.training_options.freeze);
  add_all("train", ctx.training_options.train);
  if (!ctx.training_options.loss_output.empty())
    add("loss-output", ctx.training_options.loss_output);
  for (const auto& [name, size] : ctx.symbol_values) add("dim", name + "=" + std::to_string(size));
  return join(words, " ");
}

}  // namespace mezzo::passes
