#include "passes/numerics/compare.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_set>
#include <utility>

#include "compiler/ops/constants.h"
#include "passes/numerics/output_error.h"

namespace mezzo::numerics {
namespace {

// A value and which of the times that it was made.
using Occurrence = std::pair<const Value*, std::uint64_t>;

class Comparer {
 public:
  Comparer(const Model& a, const Model& b, const ModelMatch& match, const CompareOptions& options)
      : a_(a), b_(b), match_(match), options_(options) {
    for (const auto& [of_b, of_a] : match.a_of) wanted_.insert(of_a);
  }

  Status run(const std::vector<RuntimeValue>& inputs) {
    std::vector<RuntimeValue> for_b;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      MEZZO_ASSIGN_OR_RETURN(RuntimeValue value, in_type_of(*b_.graph->inputs()[i], inputs[i]));
      for_b.push_back(std::move(value));
    }
    InterpreterOptions options;
    options.threads = options_.threads;
    options.most_iterations = options_.most_iterations;
    do {
      begin_round();
      // One after the other: each may hold the weights in an order of its own.
      options.observer = [&](const NodeRun& run) { return keep(run); };
      auto of_a = Interpreter(a_, options).run(inputs);
      if (!of_a.ok()) return of_a.status().with_context("the first model");
      ran();
      options.observer = [&](const NodeRun& run) { return compare(run); };
      auto of_b = Interpreter(b_, options).run(for_b);
      if (!of_b.ok()) return of_b.status().with_context("the second model");
      ran();
      if (round_ == 1) compare_outputs(*of_a, *of_b);
    } while (seen_ > last_ && found.runs + 2 <= options_.most_runs);
    found.left_over = seen_ > last_ ? seen_ - last_ : 0;
    return ok_status();
  }

  Comparison found;

 private:
  void ran() {
    ++found.runs;
    if (options_.ran) options_.ran();
  }

  void begin_round() {
    ++round_;
    first_ = last_;
    seen_ = 0;
    full_ = false;
    kept_bytes_ = 0;
    kept_.clear();
    times_a_.clear();
    times_b_.clear();
  }

  // Of `a`: the tensors number first_ to last_ of this round.
  Status keep(const NodeRun& run) {
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      const Value* value = run.node.result(i);
      if (value == nullptr || run.results[i] == nullptr || !run.results[i]->is_tensor()) continue;
      const HostTensor& tensor = run.results[i]->tensor;
      if (round_ == 1) count_nonfinite(tensor, found.nonfinite_tensors_a, found.nonfinite_a);
      if (wanted_.count(value) == 0) continue;
      const Occurrence at{value, times_a_[value]++};
      if (seen_++ < first_ || full_) continue;
      full_ = !kept_.empty() && kept_bytes_ + tensor.bytes() > options_.budget_bytes;
      if (full_) continue;
      kept_bytes_ += tensor.bytes();
      kept_.emplace(at, tensor);
      last_ = seen_;
    }
    return ok_status();
  }

  Status compare(const NodeRun& run) {
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      const Value* value = run.node.result(i);
      if (value == nullptr || run.results[i] == nullptr || !run.results[i]->is_tensor()) continue;
      const HostTensor& tensor = run.results[i]->tensor;
      if (round_ == 1) count_nonfinite(tensor, found.nonfinite_tensors_b, found.nonfinite_b);
      const auto match = match_.a_of.find(value);
      if (match == match_.a_of.end()) {
        if (round_ == 1 && !run.node.is("Constant") && strange_.insert(value).second)
          ++found.unmatched;
        continue;
      }
      const std::uint64_t time = times_b_[value]++;
      if (round_ == 1) row_of(*value, *match->second);  // in the order of the first run
      const auto kept = kept_.find({match->second, time});
      if (kept == kept_.end()) continue;
      note(row_of(*value, *match->second), kept->second, tensor, time);
    }
    return ok_status();
  }

  TensorComparison& row_of(const Value& b, const Value& a) {
    const auto [known, is_new] = rows_.emplace(&b, found.tensors.size());
    if (is_new) {
      found.tensors.emplace_back();
      found.tensors.back().a = &a;
      found.tensors.back().b = &b;
    }
    return found.tensors[known->second];
  }

  static void note(TensorComparison& row, const HostTensor& a, const HostTensor& b,
                   std::uint64_t time) {
    const Difference apart = difference(a, b);
    const bool worse = row.times == 0 || apart.error > row.difference.error;
    ++row.times;
    if (!worse) return;
    row.difference = apart;
    row.iteration = time;
    row.range_a = range_of(a);
  }

  void compare_outputs(std::vector<RuntimeValue>& of_a, const std::vector<RuntimeValue>& of_b) {
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      TensorComparison row;
      row.a = a_.graph->outputs()[i];
      row.b = b_.graph->outputs()[i];
      row.times = 1;
      row.difference = difference(of_a[i], of_b[i]);
      if (of_a[i].is_tensor()) row.range_a = range_of(of_a[i].tensor);
      found.outputs.push_back(row);
    }
    found.outputs_of_a = std::move(of_a);
  }

  static void count_nonfinite(const HostTensor& tensor, std::uint64_t& tensors,
                              std::uint64_t& elems) {
    if (!is_floating(tensor.dtype)) return;
    const passes::TensorRange range = range_of(tensor);
    const std::uint64_t count = range.infinities + range.nans;
    tensors += count > 0 ? 1 : 0;
    elems += count;
  }

  const Model &a_, &b_;
  const ModelMatch& match_;
  const CompareOptions& options_;
  std::unordered_set<const Value*> wanted_;   // of `a`
  std::unordered_set<const Value*> strange_;  // of `b`
  std::unordered_map<const Value*, std::size_t> rows_;
  std::unordered_map<const Value*, std::uint64_t> times_a_, times_b_;
  std::map<Occurrence, HostTensor> kept_;
  std::uint64_t kept_bytes_ = 0;
  bool full_ = false;
  int round_ = 0;
  // Numbers of matched tensors of `a` in the order in which they are made.
  std::uint64_t seen_ = 0, first_ = 0, last_ = 0;
};

}  // namespace

double Comparison::output_error() const {
  double worst = 0;
  for (const TensorComparison& output : outputs) worst = std::max(worst, output.difference.error);
  return worst;
}

const TensorComparison* Comparison::first_departure(double tolerance) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorComparison& row) {
    return row.times > 0 && !row.difference.within(tolerance);
  });
  return found == tensors.end() ? nullptr : &*found;
}

StatusOr<Comparison> compare_models(const Model& a, const Model& b, const ModelMatch& match,
                                    const std::vector<RuntimeValue>& inputs,
                                    const CompareOptions& options) {
  Comparer comparer(a, b, match, options);
  MEZZO_RETURN_IF_ERROR(comparer.run(inputs));
  return std::move(comparer.found);
}

}  // namespace mezzo::numerics
