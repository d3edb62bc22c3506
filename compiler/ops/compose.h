// Private to compiler/ops: short forms for gradient rules that are composed of ONNX's own nodes,
// where a kernel of their own would buy little. Numbers take the type of the value they meet.
#pragma once

#include <vector>

#include "compiler/ops/gradient_helpers.h"

namespace mezzo {

class Compose {
 public:
  explicit Compose(GradientContext& ctx) : ctx_(ctx) {}

  Value* op(std::string_view name, std::vector<Value*> operands,
            std::vector<Builder::NamedValue> attributes = {}) const {
    return ctx_.builder.op(name, std::move(operands), std::move(attributes));
  }
  Value* number(const Value* like, double value) const {
    return ctx_.builder.scalar(like->dtype(), value);
  }
  Value* add(Value* a, Value* b) const { return op("Add", {a, b}); }
  Value* add(Value* a, double b) const { return add(a, number(a, b)); }
  Value* sub(Value* a, Value* b) const { return op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) const { return op("Mul", {a, b}); }
  Value* mul(Value* a, double b) const { return scale(ctx_, a, b); }
  Value* div(Value* a, Value* b) const { return op("Div", {a, b}); }
  Value* neg(Value* a) const { return op("Neg", {a}); }
  Value* sqrt(Value* a) const { return op("Sqrt", {a}); }
  Value* where(Value* condition, Value* a, Value* b) const {
    return op("Where", {condition, a, b});
  }
  // `a` where the condition holds, else 0; and the other way round.
  Value* where_or_zero(Value* condition, Value* a) const {
    return where(condition, a, number(a, 0.0));
  }
  Value* zero_where(Value* condition, Value* a) const {
    return where(condition, number(a, 0.0), a);
  }
  Value* equals(Value* a, double b) const { return op("Equal", {a, number(a, b)}); }
  // As a number: 1 where it holds.
  Value* indicator(Value* condition, DType dtype) const {
    return op("Cast", {condition}, {{"to", static_cast<std::int64_t>(dtype)}});
  }
  // Over the given axes, dimensions kept.
  Value* mean(Value* a, const std::vector<std::int64_t>& axes) const {
    return op("ReduceMean", {a, ctx_.builder.ints(axes)});
  }
  Value* sum(Value* a, const std::vector<std::int64_t>& axes) const {
    return op("ReduceSum", {a, ctx_.builder.ints(axes)});
  }

 private:
  GradientContext& ctx_;
};

}  // namespace mezzo
