#include "compiler/interpreter/program.h"
#include "compiler/support/text.h"

#include <algorithm>

#include "compiler/ops/constants.h"

namespace mezzo::interpreter {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const ConstantSource& source, const ProgramBuilder* around)
      : graph_(graph), source_(source), around_(around), program_(std::make_unique<Program>()) {}

  StatusOr<std::unique_ptr<Program>> build() {
    program_->graph = &graph_;
    for (const Value* input : graph_.inputs()) {
      program_->inputs.push_back(slot(*input));
      Ref fallback;
      if (input->is_initializer()) {
        MEZZO_ASSIGN_OR_RETURN(fallback, constant(*input));
      }
      program_->defaults.push_back(fallback);
    }
    for (const auto& node : graph_.nodes()) MEZZO_RETURN_IF_ERROR(add(*node));
    for (const Value* output : graph_.outputs()) {
      MEZZO_ASSIGN_OR_RETURN(const Ref ref, refer(*output));
      program_->outputs.push_back(ref);
      if (ref.kind == Ref::Kind::kSlot && ref.depth == 0) last_reader_.erase(ref.index);
    }
    program_->slots = static_cast<int>(slots_.size());
    mark_last_uses();
    return std::move(program_);
  }

 private:
  int slot(const Value& value) {
    return slots_.emplace(&value, static_cast<int>(slots_.size())).first->second;
  }

  StatusOr<Ref> constant(const Value& value) {
    const auto known = constants_.find(&value);
    if (known != constants_.end()) return Ref{Ref::Kind::kConstant, 0, known->second};
    MEZZO_ASSIGN_OR_RETURN(RuntimeValue data, source_(value));
    const int index = static_cast<int>(program_->constants.size());
    program_->constants.push_back(std::move(data));
    constants_.emplace(&value, index);
    return Ref{Ref::Kind::kConstant, 0, index};
  }

  static bool is_constant(const Value& value) {
    return value.is_fixed() || (value.producer() != nullptr && value.producer()->is("Constant"));
  }

  StatusOr<Ref> refer(const Value& value) {
    if (is_constant(value)) return constant(value);
    int depth = 0;
    for (const ProgramBuilder* builder = this; builder != nullptr; builder = builder->around_) {
      const auto found = builder->slots_.find(&value);
      if (found != builder->slots_.end()) {
        builder->note_reader(found->second);
        return Ref{Ref::Kind::kSlot, depth, found->second};
      }
      ++depth;
    }
    return internal_error("value '" + printable(value.name()) + "' is read before it is made");
  }

  // A graph inside reads on behalf of the step that holds it.
  void note_reader(int slot) const { last_reader_[slot] = program_->steps.size(); }

  Status add(const Node& node) {
    if (node.is("Constant")) return ok_status();
    Step step;
    step.node = &node;
    step.handler = find_control_flow(node);
    if (step.handler == nullptr) step.handler = find_container_op(node);
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      Ref ref;
      if (const Value* operand = node.operand(i)) {
        MEZZO_ASSIGN_OR_RETURN(ref, refer(*operand));
      }
      step.operands.push_back(ref);
    }
    for (const Graph* inner : node.subgraphs()) {
      MEZZO_ASSIGN_OR_RETURN(auto program, ProgramBuilder(*inner, source_, this).build());
      step.graphs.push_back(std::move(program));
    }
    for (const Value* result : node.results()) {
      step.results.push_back(result == nullptr ? -1 : slot(*result));
      if (result != nullptr) note_reader(step.results.back());
    }
    program_->steps.push_back(std::move(step));
    return ok_status();
  }

  void mark_last_uses() {
    for (const auto& [slot, reader] : last_reader_) {
      Step& step = program_->steps[reader];
      step.dead.push_back(slot);
      // Of an operand that stands twice, the second one is the last.
      const auto reads = [slot = slot](const Ref& ref) {
        return ref.kind == Ref::Kind::kSlot && ref.depth == 0 && ref.index == slot;
      };
      const auto last = std::find_if(step.operands.rbegin(), step.operands.rend(), reads);
      if (last != step.operands.rend()) last->last = true;
    }
    for (Step& step : program_->steps) {
      std::sort(step.dead.begin(), step.dead.end());
      if (!step.graphs.empty()) {  // graphs inside may read the operands as well
        for (Ref& ref : step.operands) ref.last = false;
      }
    }
  }

  const Graph& graph_;
  const ConstantSource& source_;
  const ProgramBuilder* around_;
  std::unique_ptr<Program> program_;
  std::unordered_map<const Value*, int> slots_;
  std::unordered_map<const Value*, int> constants_;
  mutable std::unordered_map<int, std::size_t> last_reader_;  // slot -> step
};

}  // namespace

StatusOr<std::unique_ptr<Program>> build_program(const Graph& graph, const ConstantSource& source) {
  return ProgramBuilder(graph, source, nullptr).build();
}

const RuntimeValue& read(const Ref& ref, const Frame& frame) {
  static const RuntimeValue absent;
  if (ref.kind == Ref::Kind::kAbsent) return absent;
  if (ref.kind == Ref::Kind::kConstant)
    return frame.program->constants[static_cast<std::size_t>(ref.index)];
  const Frame* at = &frame;
  for (int i = 0; i < ref.depth; ++i) at = at->parent;
  return at->slots[static_cast<std::size_t>(ref.index)];
}

}  // namespace mezzo::interpreter
