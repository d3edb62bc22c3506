#include "passes/pass_runner.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

namespace fs = std::filesystem;

class Runner {
 public:
  Runner(Model& model, PassContext& ctx, const std::vector<const PassInfo*>& passes,
         const RunnerOptions& options)
      : model_(model), ctx_(ctx), passes_(passes), options_(options) {}

  Status run(std::vector<PassRun>* runs) {
    if (!options_.print_after.empty()) {
      MEZZO_ASSIGN_OR_RETURN(print_after_, Pattern::compile(options_.print_after, "--print-after"));
    }
    MEZZO_RETURN_IF_ERROR(verify(model_).with_context("before the first pass"));
    if (!options_.dump_to.empty()) MEZZO_RETURN_IF_ERROR(dump("0000.start"));
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      if (options_.stop_after > 0 && i >= static_cast<std::size_t>(options_.stop_after)) break;
      PassRun result{passes_[i]->name, 0, false};
      MEZZO_RETURN_IF_ERROR(run_one(i, result));
      if (runs != nullptr) runs->push_back(result);
    }
    return ok_status();
  }

 private:
  Status run_one(std::size_t index, PassRun& result) {
    const PassInfo& pass = *passes_[index];
    if (pass.precondition != Condition::kNone && !holds(pass.precondition)) {
      return internal_error("pass '" + std::string(pass.name) + "' needs a graph that is " +
                            std::string(condition_name(pass.precondition)));
    }
    // The graph before the pass as text: what a reproducer shows. Cheap beside a pass, but not
    // free: weights are left out.
    const std::uint64_t before = fingerprint(model_);
    const auto start = std::chrono::steady_clock::now();
    Status status = ok_status();
    if (!keeps_snapshot_) take_snapshot();
    const StatusOr<bool> changed = pass.function(model_, ctx_);
    result.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!changed.ok()) {
      status = changed.status();
    } else {
      result.changed = *changed;
      status = verify(model_);
      if (status.ok() && !*changed && fingerprint(model_) != before)
        status = internal_error("it says it changed nothing, but it did");
    }
    if (!status.ok()) return failed(pass, status);
    note(pass, result.changed);
    keeps_snapshot_ = !result.changed;
    return look(index, pass);
  }

  bool holds(Condition condition) const {
    for (const Condition held : conditions_) {
      if (held == condition) return true;
    }
    return false;
  }

  void note(const PassInfo& pass, bool changed) {
    if (changed) std::erase(conditions_, Condition::kAssigned);
    if (pass.postcondition != Condition::kNone && !holds(pass.postcondition))
      conditions_.push_back(pass.postcondition);
  }

  void take_snapshot() {
    if (options_.repro_to.empty() && options_.dump_to.empty()) return;
    StatusOr<std::string> text = to_text(model_, Weights::kElided);
    snapshot_ = text.ok() ? std::move(text).value() : std::string();
  }

  // Bugs of ours get a reproducer; a user's fault is the user's to see.
  Status failed(const PassInfo& pass, const Status& status) {
    if (status.code() != StatusCode::kInternal) return status;
    const std::string folder = options_.repro_to.empty() ? options_.dump_to : options_.repro_to;
    std::string where = "no reproducer: give --dump-to a folder";
    if (!folder.empty() && !snapshot_.empty()) {
      const std::string path = (fs::path(folder) / "repro.onnxtxt").string();
      const std::string head =
          "// RUN: mezzo opt --passes=" + std::string(pass.name) + " " + path + "\n";
      where = write_file(path, head + snapshot_).ok() ? "reproducer: " + path
                                                      : "the reproducer could not be written";
    }
    return internal_error("pass '" + std::string(pass.name) + "': " + status.message() + " (" +
                          where + ")");
  }

  Status look(std::size_t index, const PassInfo& pass) {
    if (print_after_ && options_.print && print_after_->matches(std::string(pass.name))) {
      MEZZO_ASSIGN_OR_RETURN(const std::string text, to_text(model_, Weights::kElided));
      options_.print("// after " + std::string(pass.name) + "\n" + text);
    }
    if (options_.dump_to.empty()) return ok_status();
    const std::string number = std::to_string(index + 1);
    return dump(std::string(number.size() < 4 ? 4 - number.size() : 0, '0') + number + ".after-" +
                std::string(pass.name));
  }

  Status dump(const std::string& name) {
    std::error_code error;
    fs::create_directories(options_.dump_to, error);
    if (error) return invalid_argument("--dump-to '" + options_.dump_to + "': " + error.message());
    MEZZO_ASSIGN_OR_RETURN(const std::string text, to_text(model_, Weights::kElided));
    return write_file((fs::path(options_.dump_to) / (name + ".onnxtxt")).string(), text);
  }

  Model& model_;
  PassContext& ctx_;
  const std::vector<const PassInfo*>& passes_;
  const RunnerOptions& options_;
  std::optional<Pattern> print_after_;
  std::vector<Condition> conditions_;
  std::string snapshot_;
  bool keeps_snapshot_ = false;
};

}  // namespace

Status run_passes(Model& model, PassContext& ctx, const std::vector<const PassInfo*>& passes,
                  const RunnerOptions& options, std::vector<PassRun>* runs) {
  return Runner(model, ctx, passes, options).run(runs);
}

}  // namespace mezzo::passes
