#include "passes/pass_runner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "compiler/ir/clone.h"
#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "passes/reproducer.h"

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
    if (!repro_folder().empty()) {
      start_ = clone_model(model_);
      start_ctx_ = ctx_;
    }
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
    if (pass.precondition != Condition::kNone && !holds(pass.precondition)) return misplaced(pass);
    const auto start = std::chrono::steady_clock::now();
    const Status status = run_checked(pass, model_, ctx_, &result.changed, fingerprint_);
    result.ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!status.ok()) return failed(index, status);
    note(pass, result.changed);
    return look(index, pass);
  }

  bool holds(Condition condition) const {
    return std::find(conditions_.begin(), conditions_.end(), condition) != conditions_.end();
  }

  static Status misplaced(const PassInfo& pass) {
    std::vector<std::string> givers;
    for (const PassInfo& other : all_passes()) {
      if (other.postcondition == pass.precondition)
        givers.push_back("'" + std::string(other.name) + "'");
    }
    return invalid_argument("pass '" + std::string(pass.name) + "' needs a graph that is " +
                            std::string(condition_name(pass.precondition)) + ". Hint: run " +
                            join(givers, " or ") + " before it");
  }

  // An assignment ends when it is carried out, or when the graph it speaks of changes.
  void note(const PassInfo& pass, bool changed) {
    if (changed || pass.precondition == Condition::kAssigned) {
      std::erase(conditions_, Condition::kAssigned);
    }
    if (pass.postcondition != Condition::kNone && !holds(pass.postcondition))
      conditions_.push_back(pass.postcondition);
  }

  std::string repro_folder() const {
    return options_.repro_to.empty() ? options_.dump_to : options_.repro_to;
  }

  // The model as pass number `index` found it, made again from the start: a copy before every pass
  // would cost as much as the passes. Null if it cannot be made again.
  std::unique_ptr<const Model> model_before(std::size_t index) const {
    std::unique_ptr<Model> model = clone_model(*start_);
    PassContext ctx = *start_ctx_;
    for (std::size_t i = 0; i < index; ++i) {
      if (!passes_[i]->function(*model, ctx).ok()) return nullptr;
    }
    return model;
  }

  // The passes before number `index` that give what it needs, in their order.
  void add_preparation(std::size_t index, std::vector<const PassInfo*>& list) const {
    const Condition needed = passes_[index]->precondition;
    if (needed == Condition::kNone) return;
    for (std::size_t i = index; i-- > 0;) {
      if (passes_[i]->postcondition != needed) continue;
      add_preparation(i, list);
      list.push_back(passes_[i]);
      return;
    }
  }

  // Bugs of ours get a reproducer; a user's fault is the user's to see.
  Status failed(std::size_t index, const Status& status) {
    if (status.code() != StatusCode::kInternal) return status;
    const PassInfo& pass = *passes_[index];
    std::string where = "no reproducer: give --dump-to a folder";
    if (!repro_folder().empty()) {
      const std::unique_ptr<const Model> before = model_before(index);
      Attempt small{before.get(), {}}, whole{start_.get(), {}};
      add_preparation(index, small.passes);
      small.passes.push_back(&pass);
      whole.passes.assign(passes_.begin(),
                          passes_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
      std::vector<Attempt> attempts = {whole};
      if (before) attempts.insert(attempts.begin(), small);
      where = write_reproducer(repro_folder(), attempts, ctx_, status);
    }
    return internal_error("pass '" + std::string(pass.name) + "': " + status.message() + " (" +
                          where + ")");
  }

  Status look(std::size_t index, const PassInfo& pass) {
    if (print_after_ && options_.print && print_after_->matches(std::string(pass.name))) {
      MEZZO_ASSIGN_OR_RETURN(const std::string text, to_text(model_, Weights::kElided));
      options_.print("# after " + std::string(pass.name) + "\n" + text);
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
  std::unique_ptr<const Model> start_;  // and what passes were told, for a reproducer; else null
  std::optional<PassContext> start_ctx_;
  std::optional<std::uint64_t> fingerprint_;  // of the model as it is, where that is known
};

}  // namespace

Status run_passes(Model& model, PassContext& ctx, const std::vector<const PassInfo*>& passes,
                  const RunnerOptions& options, std::vector<PassRun>* runs) {
  return Runner(model, ctx, passes, options).run(runs);
}

}  // namespace mezzo::passes
