// Programs of elementwise operations as steps of a machine with an accumulator and registers.
#include <algorithm>
#include <iterator>

#include "kernels/element_program.h"

namespace mezzo::kernels {
namespace {

// Where the results of statements are while a program is turned into steps.
class StepWriter {
 public:
  explicit StepWriter(const ElementProgram& program) : program_(program) {
    last_use_.assign(program.statements.size(), -1);
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      for (const ElementSource& source : program.statements[i].sources) {
        if (source.kind == ElementSource::Kind::kResult) {
          last_use_[static_cast<std::size_t>(source.index)] = static_cast<int>(i);
        }
      }
    }
  }

  StatusOr<std::vector<ElementStep>> write() {
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      MEZZO_RETURN_IF_ERROR(write(static_cast<int>(i)));
    }
    if (steps_.size() > static_cast<std::size_t>(kMaxElementSteps)) {
      return unimplemented("more than " + std::to_string(kMaxElementSteps) + " steps");
    }
    return std::move(steps_);
  }

 private:
  // The statement before is in the accumulator; all others still needed are in registers.
  Status write(int i) {
    const ElementStatement& statement = program_.statements[static_cast<std::size_t>(i)];
    const auto& sources = statement.sources;
    if (sources.size() > 2) add(ElementStep::Kind::kThird, sources[2]);
    ElementStep apply;
    apply.op = statement.op;
    apply.alpha = statement.alpha;
    apply.beta = statement.beta;
    if (sources[0].is_result(i - 1)) {
      if (sources.size() > 1) set_source(apply, sources[1], i);
    } else if (sources.size() > 1 && sources[1].is_result(i - 1)) {
      set_source(apply, sources[0], i);
      apply.swapped = true;
    } else {
      add(ElementStep::Kind::kLoad, sources[0]);
      if (sources.size() > 1) set_source(apply, sources[1], i);
    }
    release(i);
    if (last_use_[static_cast<std::size_t>(i)] > i + 1) {
      const auto* free = std::find(std::begin(registers_), std::end(registers_), -1);
      if (free == std::end(registers_)) {
        return unimplemented("more than " + std::to_string(kElementRegisters) +
                             " intermediate results at a time");
      }
      apply.save = static_cast<std::int8_t>(free - std::begin(registers_));
      registers_[static_cast<std::size_t>(apply.save)] = i;
    }
    steps_.push_back(apply);
    accumulator_ = i;
    return ok_status();
  }

  void add(ElementStep::Kind kind, const ElementSource& source) {
    ElementStep step;
    step.kind = kind;
    set_source(step, source, accumulator_ + 1);
    steps_.push_back(step);
  }

  void set_source(ElementStep& step, const ElementSource& source, int statement) const {
    step.index = static_cast<std::uint8_t>(source.index);
    step.number = source.number;
    if (source.kind == ElementSource::Kind::kOperand) {
      step.source = ElementStep::Source::kOperand;
    } else if (source.kind == ElementSource::Kind::kNumber) {
      step.source = ElementStep::Source::kNumber;
    } else if (source.index == statement - 1) {
      step.source = ElementStep::Source::kAccumulator;
    } else {
      const auto* at = std::find(std::begin(registers_), std::end(registers_), source.index);
      step.source = ElementStep::Source::kRegister;
      step.index = static_cast<std::uint8_t>(at - std::begin(registers_));
    }
  }

  // Registers that statement i was the last to read.
  void release(int i) {
    for (int& held : registers_) {
      if (held >= 0 && last_use_[static_cast<std::size_t>(held)] <= i) held = -1;
    }
  }

  const ElementProgram& program_;
  std::vector<int> last_use_;
  std::vector<ElementStep> steps_;
  int accumulator_ = -1;
  int registers_[kElementRegisters] = {-1, -1, -1};
};

}  // namespace

StatusOr<std::vector<ElementStep>> element_steps(const ElementProgram& program) {
  return StepWriter(program).write();
}

}  // namespace mezzo::kernels
