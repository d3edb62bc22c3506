#include "passes/numerics/blame.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "compiler/support/text.h"
#include "passes/numerics/elements.h"
#include "passes/numerics/node_runner.h"
#include "passes/numerics/tensor_range.h"
#include "passes/numerics/trace_nan.h"

namespace mezzo::numerics {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Of a node in a loop that many times are looked at.
constexpr std::uint64_t kMostTimes = 16;

HostTensor host_tensor(const Tensor& floats) {
  const std::vector<std::byte> bytes = floats.copy_bytes();
  const std::shared_ptr<float> block = float_block(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
  return {floats.dtype(), floats.dims(), {block, reinterpret_cast<const std::byte*>(block.get())}};
}

// What one lowered node does by itself.
struct OwnError {
  double error = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t times = 0;
  std::string operands, result;
};

class OwnErrors {
 public:
  OwnErrors(const Model& a, const Lowering& lowering, int threads)
      : found(lowering.nodes.size()), lowering_(lowering), runner_{&a, threads} {
    for (std::size_t i = 0; i < lowering.nodes.size(); ++i) index_[lowering.nodes[i].node] = i;
  }

  Status observe(const NodeRun& run) {
    const auto known = index_.find(&run.node);
    if (known == index_.end()) return ok_status();
    OwnError& own = found[known->second];
    if (own.times++ >= kMostTimes) return ok_status();
    const LoweredNode& lowered = lowering_.nodes[known->second];
    if (!run.node.subgraphs().empty()) {
      note_border(run, lowered, own);
      return ok_status();
    }
    passes::LowSlots slots = lowered.slots;
    for (const std::size_t index : lowered.rounded) slots.operands[index] = true;
    std::vector<RuntimeValue> given;
    const std::vector<const RuntimeValue*> operands = as_given(run, lowered, given);
    const auto results = run_node(run.node, operands, runner_, &slots, lowering_.low);
    if (!results.ok()) return ok_status();  // stays unmeasured; the whole may run all the same
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      if (run.results[i] == nullptr || run.node.result(i) == nullptr) continue;
      note(run, difference(*run.results[i], (*results)[i]), own);
    }
    return ok_status();
  }

  std::vector<OwnError> found;

 private:
  // The operands as the other model has them, where its constants are its own.
  static std::vector<const RuntimeValue*> as_given(const NodeRun& run, const LoweredNode& lowered,
                                                   std::vector<RuntimeValue>& given) {
    std::vector<const RuntimeValue*> operands(run.operands.begin(), run.operands.end());
    given.reserve(lowered.constants.size());
    for (const LoweredNode::Given& constant : lowered.constants) {
      given.emplace_back(host_tensor(*constant.values));
      operands[constant.operand] = &given.back();
    }
    return operands;
  }

  static void note(const NodeRun& run, const Difference& apart, OwnError& own) {
    if (!std::isnan(own.error) && apart.error <= own.error) return;
    own.error = apart.error;
    own.result = apart.index < 0
                     ? std::string()
                     : number_text(apart.a_there) + " becomes " + number_text(apart.b_there);
    own.operands = operand_ranges(run);
  }

  // What passes into a node with graphs inside, and out of it, is only rounded.
  void note_border(const NodeRun& run, const LoweredNode& lowered, OwnError& own) {
    const double max = float_facts(lowering_.low).max;
    const auto look = [&](const RuntimeValue* value, bool low) {
      if (!low || value == nullptr || !value->is_tensor()) return;
      const passes::TensorRange range = range_of(value->tensor);
      const double error =
          range.largest() > max ? kInfinite : float_facts(lowering_.low).epsilon / 2;
      if (std::isnan(own.error) || error > own.error) own.error = error;
    };
    for (std::size_t i = 0; i < run.operands.size(); ++i)
      look(run.operands[i], lowered.slots.operands[i]);
    for (std::size_t i = 0; i < run.results.size(); ++i)
      look(run.results[i], lowered.slots.results[i]);
  }

  const Lowering& lowering_;
  NodeRunnerOptions runner_;
  std::unordered_map<const Node*, std::size_t> index_;
};

class Search {
 public:
  Search(const Model& a, const Lowering& lowering, const std::vector<RuntimeValue>& inputs,
         const std::vector<RuntimeValue>& outputs, const BlameOptions& options)
      : a_(a), lowering_(lowering), inputs_(inputs), outputs_(outputs), options_(options) {}

  StatusOr<Blame> run() {
    blame_.candidates = lowering_.nodes.size();
    blame_.low = lowering_.low;
    if (lowering_.low == DType::kNone || lowering_.nodes.empty()) {
      blame_.outcome = Blame::Outcome::kNothingLow;
      return blame_;
    }
    MEZZO_RETURN_IF_ERROR(measure_each());
    MEZZO_ASSIGN_OR_RETURN(blame_.error_before, error_with({}));
    blame_.error_after = blame_.error_before;
    if (blame_.error_before <= options_.tolerance) {
      blame_.outcome = Blame::Outcome::kNotReproduced;
      return blame_;
    }
    MEZZO_RETURN_IF_ERROR(grow());
    if (blame_.outcome == Blame::Outcome::kFound) {
      MEZZO_RETURN_IF_ERROR(shrink());
    }
    describe();
    return std::move(blame_);
  }

 private:
  Status measure_each() {
    OwnErrors own(a_, lowering_, options_.threads);
    InterpreterOptions options = interpreter_options();
    options.observer = [&](const NodeRun& run) { return own.observe(run); };
    Interpreter interpreter(a_, options);
    MEZZO_RETURN_IF_ERROR(interpreter.run(inputs_).status());
    ran();
    own_ = std::move(own.found);
    order_.resize(own_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    // Unmeasured ones last.
    const auto key = [&](std::size_t i) { return std::isnan(own_[i].error) ? -1 : own_[i].error; };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t x, std::size_t y) { return key(x) > key(y); });
    return ok_status();
  }

  InterpreterOptions interpreter_options() const {
    InterpreterOptions options;
    options.threads = options_.threads;
    options.most_iterations = options_.most_iterations;
    return options;
  }

  void ran() {
    ++blame_.runs;
    if (options_.ran) options_.ran();
  }
  bool may_run() const { return blame_.runs < options_.most_runs; }

  // The worst error of an output with these nodes back in FP32.
  StatusOr<double> error_with(const std::vector<std::size_t>& kept) {
    MEZZO_ASSIGN_OR_RETURN(const auto model,
                           lower_all_but(a_, lowering_, {kept.begin(), kept.end()}));
    Interpreter interpreter(*model, interpreter_options());
    const auto outputs = interpreter.run(inputs_);
    ran();
    // An overflow may lead to sizes or indices that no node takes.
    if (!outputs.ok()) return kInfinite;
    double worst = 0;
    for (std::size_t i = 0; i < outputs->size(); ++i)
      worst = std::max(worst, difference(outputs_[i], (*outputs)[i]).error);
    return worst;
  }

  // Sets chosen_ to the shortest beginning of the order, among those of doubling lengths, that is
  // enough.
  Status grow() {
    const auto infinite = static_cast<std::size_t>(std::count_if(
        own_.begin(), own_.end(), [](const OwnError& own) { return std::isinf(own.error); }));
    for (std::size_t length = std::max<std::size_t>(1, infinite);; length *= 2) {
      length = std::min(length, order_.size());
      if (!may_run()) {
        blame_.outcome = Blame::Outcome::kOutOfRuns;
        return ok_status();
      }
      chosen_.assign(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(length));
      MEZZO_ASSIGN_OR_RETURN(blame_.error_after, error_with(chosen_));
      if (blame_.error_after <= options_.tolerance) return ok_status();
      if (length == order_.size()) {
        blame_.outcome = Blame::Outcome::kNotEnough;
        chosen_.clear();
        return ok_status();
      }
    }
  }

  // Takes parts out of chosen_, those with the smallest errors of their own first.
  Status shrink() {
    for (std::size_t part = std::max<std::size_t>(1, chosen_.size() / 2);;) {
      bool smaller = false;
      for (std::size_t end = chosen_.size(); end > 0;) {
        const std::size_t begin = end > part ? end - part : 0;
        if (end - begin == chosen_.size()) break;  // nothing at all was not enough
        if (!may_run()) return ok_status();
        std::vector<std::size_t> rest = chosen_;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(begin),
                   rest.begin() + static_cast<std::ptrdiff_t>(end));
        MEZZO_ASSIGN_OR_RETURN(const double error, error_with(rest));
        if (error <= options_.tolerance) {
          chosen_ = std::move(rest);
          blame_.error_after = error;
          smaller = true;
        }
        end = begin;
      }
      if (part == 1 && !smaller) {
        blame_.minimal = true;
        return ok_status();
      }
      if (part > 1) part /= 2;
    }
  }

  void describe() {
    std::sort(chosen_.begin(), chosen_.end());
    for (const std::size_t index : chosen_) {
      blame_.nodes.push_back(
          {&lowering_.nodes[index], own_[index].error, own_[index].operands, own_[index].result});
    }
  }

  const Model& a_;
  const Lowering& lowering_;
  const std::vector<RuntimeValue>&inputs_, &outputs_;
  const BlameOptions& options_;
  std::vector<OwnError> own_;        // per lowered node
  std::vector<std::size_t> order_;   // lowered nodes, largest error of their own first
  std::vector<std::size_t> chosen_;  // those back in FP32, in this order
  Blame blame_;
};

}  // namespace

StatusOr<Blame> find_blame(const Model& a, const Lowering& lowering,
                           const std::vector<RuntimeValue>& inputs,
                           const std::vector<RuntimeValue>& outputs, const BlameOptions& options) {
  return Search(a, lowering, inputs, outputs, options).run();
}

}  // namespace mezzo::numerics
