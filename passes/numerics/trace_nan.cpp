#include "passes/numerics/trace_nan.h"

#include <algorithm>

#include "passes/numerics/elements.h"
#include "passes/numerics/tensor_range.h"
#include "passes/precision/borders.h"

namespace mezzo::numerics {
namespace {

using passes::TensorRange;

// Its value is written into the model: an infinity there is meant.
bool spells_out(const Node& node) { return node.is("Constant") || node.is("ConstantOfShape"); }

TensorRange range_at(const RuntimeValue* value) {
  if (value == nullptr || !value->is_tensor()) return {};
  return is_floating(value->tensor.dtype) ? range_of(value->tensor) : TensorRange{};
}

std::string counts(std::uint64_t nans, std::uint64_t infinities) {
  if (nans > 0 && infinities > 0) return "NaN and infinities";
  return nans > 0 ? "NaN" : "infinities";
}

}  // namespace

std::string operand_ranges(const NodeRun& run) {
  std::string text;
  std::vector<const Value*> named;
  for (std::size_t i = 0; i < run.operands.size(); ++i) {
    const Value* value = run.node.operand(i);
    if (value == nullptr || run.operands[i] == nullptr || !run.operands[i]->is_tensor()) continue;
    const HostTensor& tensor = run.operands[i]->tensor;
    if (!is_floating(tensor.dtype) || std::find(named.begin(), named.end(), value) != named.end())
      continue;
    named.push_back(value);
    text += (text.empty() ? "'" : ", '") + value->name() + "' " + range_text(range_of(tensor));
  }
  return text;
}

std::string NanOrigin::text() const {
  const std::uint64_t count = nans + infinities;
  std::string line = "node '" + node + "' (" + op + ") makes " + counts(nans, infinities) + " in " +
                     std::to_string(count) + " of " + std::to_string(elems) + " elements of '" +
                     result + "'";
  if (time > 0) line += " in iteration " + std::to_string(time);
  return operands.empty() ? line : line + "; it reads " + operands;
}

Status NanTracer::observe(const NodeRun& run) {
  const std::uint64_t time = times_[&run.node]++;
  if (spells_out(run.node) || !run.node.subgraphs().empty() || found_.count(&run.node) > 0)
    return ok_status();
  for (std::size_t i = 0; i < run.results.size(); ++i) {
    const TensorRange made = range_at(run.results[i]);
    if (made.nans + made.infinities == 0) continue;
    std::uint64_t nans = 0, infinities = 0;
    for (const RuntimeValue* operand : run.operands) {
      const TensorRange read = range_at(operand);
      nans += read.nans;
      infinities += read.infinities;
    }
    const bool makes_nan = made.nans > 0 && nans == 0;
    if (!makes_nan && (nans > 0 || infinities > 0)) continue;
    found_.insert(&run.node);
    if (first_ && !(makes_nan && !first_nan_ && first_->nans == 0)) {
      ++others_;
      return ok_status();
    }
    NanOrigin origin;
    origin.node = passes::scope_of(*run.node.graph()) + display_name(run.node);
    origin.op = run.node.op_type();
    origin.result = run.node.result(i)->name();
    origin.nans = made.nans;
    origin.infinities = made.infinities;
    origin.elems = made.elems;
    origin.time = time;
    origin.operands = operand_ranges(run);
    (first_ ? first_nan_ : first_) = std::move(origin);
    return ok_status();
  }
  return ok_status();
}

std::vector<std::string> nonfinite_inputs(const Graph& graph,
                                          const std::vector<RuntimeValue>& inputs) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < inputs.size() && i < graph.inputs().size(); ++i) {
    const TensorRange range = range_at(&inputs[i]);
    if (range.nans + range.infinities > 0)
      found.push_back("input '" + graph.inputs()[i]->name() +
                      "' is not finite: " + range_text(range));
  }
  return found;
}

}  // namespace mezzo::numerics
