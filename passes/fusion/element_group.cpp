#include "passes/fusion/element_group.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using kernels::ElementProgram;
using kernels::ElementSource;
using kernels::ElementStatement;

bool is_trained(const Value& value, const PassContext& ctx) {
  return ctx.training && ctx.training->gradients.count(value.name()) > 0;
}

// A constant that programs hold themselves.
std::optional<double> number_of(const Value& value, const PassContext& ctx) {
  if (!value.is_fixed() || !value.constant() || is_trained(value, ctx) || !is_number(value.dtype()))
    return std::nullopt;
  if (value.constant()->elems() != 1) return std::nullopt;
  return constant_scalar(&value);
}

// Statements and operands of a group, innermost first.
class Writer {
 public:
  Writer(const NodeGroup& group, const ElementNodes& elements, const PassContext& ctx,
         bool last_operand_first)
      : group_(group), elements_(elements), ctx_(ctx), last_operand_first_(last_operand_first) {}

  bool write(const Node& root) {
    const ElementSource result = source_of(root.result());
    // A program ends with a statement: a cast that does nothing has none.
    if (failed_ || result.kind != ElementSource::Kind::kResult ||
        !result.is_result(static_cast<int>(program_.statements.size()) - 1)) {
      return false;
    }
    return operands_.size() <= static_cast<std::size_t>(kernels::kMaxElementOperands) &&
           program_.statements.size() <= static_cast<std::size_t>(kernels::kMaxElementStatements) &&
           !operands_.empty() && element_steps(program_).ok() && covers(root);
  }

  GroupProgram take() { return {std::move(program_), std::move(operands_)}; }

 private:
  ElementSource source_of(Value* value) {
    if (const auto known = sources_.find(value); known != sources_.end()) return known->second;
    const Node* producer = value->producer();
    ElementSource source;
    if (producer != nullptr && group_.count(producer) > 0) {
      source = statement_of(*producer);
    } else if (const auto number = number_of(*value, ctx_)) {
      source = ElementSource::constant(*number);
    } else {
      source = ElementSource::operand(static_cast<int>(operands_.size()));
      operands_.push_back(value);
    }
    sources_.emplace(value, source);
    return source;
  }

  ElementSource statement_of(const Node& node) {
    const Element& element = elements_.at(&node);
    const std::size_t count = element.operands.size();
    std::vector<ElementSource> sources(count);
    std::vector<bool> is_present(count);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = last_operand_first_ ? count - 1 - k : k;
      is_present[i] = element.operands[i] != nullptr;
      if (is_present[i]) sources[i] = source_of(element.operands[i]);
    }
    if (element.is_idle_cast()) return sources[0];
    const std::size_t before = program_.statements.size();
    failed_ = failed_ ||
              !append_operation(element.op, element.attributes, sources, is_present, program_).ok();
    if (program_.statements.size() == before) return sources[0];  // Clip without bounds
    const bool fits = std::all_of(program_.statements.begin() + static_cast<std::ptrdiff_t>(before),
                                  program_.statements.end(), [](const ElementStatement& each) {
                                    return may_be_fused(each.op);
                                  });
    failed_ = failed_ || !fits;
    return ElementSource::result(static_cast<int>(program_.statements.size()) - 1);
  }

  // The operands alone broadcast to the result.
  bool covers(const Node& root) const {
    const std::vector<std::int64_t> dims = root.result()->tensor_type().dims();
    std::vector<std::int64_t> reached(dims.size(), 1);
    std::size_t rank = 0;
    for (const Value* operand : operands_) {
      const std::vector<std::int64_t> own = operand->tensor_type().dims();
      if (own.size() > dims.size()) return false;
      rank = std::max(rank, own.size());
      for (std::size_t d = 0; d < own.size(); ++d) {
        std::int64_t& at = reached[dims.size() - own.size() + d];
        if (own[d] != 1) at = own[d];
      }
    }
    return rank == dims.size() && reached == dims;
  }

  const NodeGroup& group_;
  const ElementNodes& elements_;
  const PassContext& ctx_;
  bool last_operand_first_;
  bool failed_ = false;
  ElementProgram program_;
  std::vector<Value*> operands_;
  std::map<const Value*, ElementSource> sources_;
};

}  // namespace

std::optional<GroupProgram> write_group(const Node& root, const NodeGroup& group,
                                        const ElementNodes& elements, const PassContext& ctx) {
  for (const bool last_operand_first : {false, true}) {
    Writer writer(group, elements, ctx, last_operand_first);
    if (writer.write(root)) return writer.take();
  }
  return std::nullopt;
}

}  // namespace mezzo::passes
