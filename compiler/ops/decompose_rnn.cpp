// RNN, LSTM and GRU unrolled over time, with ONNX's default activations. The products with the
// input weights of all time steps are one; each step then adds the product with the recurrent
// weights. Letters: T time, B batch, I input size, H hidden size, G gates (1, 4, 3).
#include <optional>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_rules.h"

namespace mezzo {
namespace {

// Unrolling more steps than this makes graphs of a size nobody can look at.
constexpr std::int64_t kMostSteps = 1024;

struct Shape {
  std::int64_t t = 0, b = 0, i = 0, h = 0, gates = 0, directions = 0;
};

class Unroller {
 public:
  Unroller(Builder& builder, const Node& node, const Shape& shape)
      : builder_(builder), node_(node), shape_(shape), dtype_(node.operand(0)->dtype()) {}

  Results run() {
    std::vector<std::vector<Value*>> states;  // per direction, per time: [B, H]
    std::vector<Value*> last_h, last_c;
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      const bool backward = node_.string_attribute("direction", "forward") == "reverse" || d == 1;
      states.push_back(run_direction(d, backward));
      last_h.push_back(h_);
      last_c.push_back(c_);
    }
    Results results;
    results.push_back(node_.result(0) ? all_states(states) : nullptr);
    results.push_back(node_.result(1) ? stack_directions(last_h) : nullptr);
    if (node_.is("LSTM")) results.push_back(node_.result(2) ? stack_directions(last_c) : nullptr);
    return results;
  }

 private:
  Value* op(std::string_view name, std::vector<Value*> operands,
            std::vector<Builder::NamedValue> attributes = {}) {
    return builder_.op(name, std::move(operands), std::move(attributes));
  }
  Value* reshape(Value* value, std::vector<std::int64_t> dims) {
    return op("Reshape", {value, builder_.ints(dims)});
  }
  Value* slice(Value* value, std::int64_t axis, std::int64_t begin, std::int64_t end) {
    return op("Slice",
              {value, builder_.ints({begin}), builder_.ints({end}), builder_.ints({axis})});
  }
  // Direction d of a [D, ..] operand, as `dims`.
  Value* direction_of(Value* value, std::int64_t d, std::vector<std::int64_t> dims) {
    if (shape_.directions > 1) value = slice(value, 0, d, d + 1);
    return reshape(value, std::move(dims));
  }
  Value* product(Value* a, Value* weights, Value* plus) {
    return op("Gemm", {a, weights, plus}, {{"transB", std::int64_t{1}}});
  }
  Value* gate(Value* gates, std::int64_t index) {
    return slice(gates, 1, index * shape_.h, (index + 1) * shape_.h);
  }

  std::vector<Value*> run_direction(std::int64_t d, bool backward) {
    const std::int64_t width = shape_.gates * shape_.h;
    Value* w = direction_of(node_.operand(1), d, {width, shape_.i});
    r_ = direction_of(node_.operand(2), d, {width, shape_.h});
    Value* bias = nullptr;
    recurrent_bias_ = nullptr;
    if (node_.operand(3) != nullptr) {
      Value* both = direction_of(node_.operand(3), d, {2 * width});
      bias = slice(both, 0, 0, width);
      recurrent_bias_ = slice(both, 0, width, 2 * width);
      // Only GRU's last gate needs them apart; the rest may be added beforehand.
      if (!node_.is("GRU")) bias = op("Add", {bias, recurrent_bias_});
    }
    Value* rows = reshape(node_.operand(0), {shape_.t * shape_.b, shape_.i});
    Value* projected = product(rows, w, bias);
    h_ = node_.operand(5) ? direction_of(node_.operand(5), d, {shape_.b, shape_.h}) : zero_state();
    c_ = !node_.is("LSTM")  ? nullptr
         : node_.operand(6) ? direction_of(node_.operand(6), d, {shape_.b, shape_.h})
                            : zero_state();
    std::vector<Value*> states(shape_.t);
    for (std::int64_t step = 0; step < shape_.t; ++step) {
      const std::int64_t at = backward ? shape_.t - 1 - step : step;
      Value* x =
          shape_.t == 1 ? projected : slice(projected, 0, at * shape_.b, (at + 1) * shape_.b);
      if (node_.is("LSTM")) {
        lstm_step(x);
      } else if (node_.is("GRU")) {
        gru_step(x);
      } else {
        h_ = op("Tanh", {product(h_, r_, x)});
      }
      states[at] = h_;
    }
    return states;
  }

  // Gates i, o, f, c.
  void lstm_step(Value* x) {
    Value* gates = product(h_, r_, x);
    Value* in = op("Sigmoid", {gate(gates, 0)});
    Value* out = op("Sigmoid", {gate(gates, 1)});
    Value* forget = op("Sigmoid", {gate(gates, 2)});
    Value* candidate = op("Tanh", {gate(gates, 3)});
    c_ = op("Add", {op("Mul", {forget, c_}), op("Mul", {in, candidate})});
    h_ = op("Mul", {out, op("Tanh", {c_})});
  }

  // Gates z, r, h: H = (1 - z) h + z H, written h + z (H - h).
  void gru_step(Value* x) {
    Value* update = op("Sigmoid", {op("Add", {gate(x, 0), recurrent_part(h_, 0)})});
    Value* reset = op("Sigmoid", {op("Add", {gate(x, 1), recurrent_part(h_, 1)})});
    const bool linear_before_reset = node_.int_attribute("linear_before_reset", 0) != 0;
    Value* recurrent = linear_before_reset ? op("Mul", {reset, recurrent_part(h_, 2)})
                                           : recurrent_part(op("Mul", {reset, h_}), 2);
    Value* candidate = op("Tanh", {op("Add", {gate(x, 2), recurrent})});
    h_ = op("Add", {candidate, op("Mul", {update, op("Sub", {h_, candidate})})});
  }

  // h R^T + bias of one gate.
  Value* recurrent_part(Value* h, std::int64_t index) {
    Value* weights = slice(r_, 0, index * shape_.h, (index + 1) * shape_.h);
    Value* bias = recurrent_bias_
                      ? slice(recurrent_bias_, 0, index * shape_.h, (index + 1) * shape_.h)
                      : nullptr;
    return product(h, weights, bias);
  }

  Value* zero_state() {
    return op("Expand", {builder_.scalar(dtype_, 0.0), builder_.ints({shape_.b, shape_.h})});
  }

  // [T, D, B, H].
  Value* all_states(const std::vector<std::vector<Value*>>& states) {
    std::vector<Value*> parts;
    for (std::int64_t at = 0; at < shape_.t; ++at) {
      for (const std::vector<Value*>& direction : states) {
        parts.push_back(reshape(direction[at], {1, shape_.b, shape_.h}));
      }
    }
    return reshape(concat(parts), {shape_.t, shape_.directions, shape_.b, shape_.h});
  }
  // [D, B, H].
  Value* stack_directions(const std::vector<Value*>& states) {
    std::vector<Value*> parts;
    for (Value* state : states) parts.push_back(reshape(state, {1, shape_.b, shape_.h}));
    return concat(parts);
  }
  Value* concat(const std::vector<Value*>& parts) {
    return parts.size() == 1 ? parts[0] : op("Concat", parts, {{"axis", std::int64_t{0}}});
  }

  Builder& builder_;
  const Node& node_;
  Shape shape_;
  DType dtype_;
  Value* r_ = nullptr;               // [G H, H] of the current direction
  Value* recurrent_bias_ = nullptr;  // [G H]
  Value* h_ = nullptr;               // [B, H]
  Value* c_ = nullptr;
};

// Lengths per sequence count only if some sequence is shorter than T.
bool full_length(const Node& node, std::int64_t steps) {
  if (node.operand(4) == nullptr) return true;
  const auto lengths = constant_ints(node.operand(4));
  if (!lengths) return false;
  for (const std::int64_t length : *lengths) {
    if (length != steps) return false;
  }
  return true;
}

bool default_form(const Node& node) {
  const bool plain = !node.has_attribute("activations") && !node.has_attribute("clip") &&
                     node.int_attribute("layout", 0) == 0 &&
                     node.int_attribute("input_forget", 0) == 0;
  return plain && !(node.is("LSTM") && node.operand(7) != nullptr);  // peepholes
}

}  // namespace

StatusOr<Results> decompose_rnn(Builder& builder, const Node& node) {
  const auto x = static_dims(node.operand(0));
  const auto w = static_dims(node.operand(1));
  const auto r = static_dims(node.operand(2));
  for (const auto& dims : {x, w, r}) {
    if (!dims || dims->size() != 3) return Results{};
  }
  if (!default_form(node) || !full_length(node, (*x)[0])) return Results{};
  Shape shape;
  shape.t = (*x)[0];
  shape.b = (*x)[1];
  shape.i = (*x)[2];
  shape.directions = (*w)[0];
  shape.h = (*r)[2];
  shape.gates = node.is("LSTM") ? 4 : node.is("GRU") ? 3 : 1;
  const std::string direction = node.string_attribute("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid_argument(describe(node) +
                            ": attribute direction: expected forward, reverse or bidirectional, "
                            "got " +
                            direction);
  }
  const std::int64_t expected = direction == "bidirectional" ? 2 : 1;
  const bool consistent = shape.directions == expected && (*r)[0] == expected && shape.h > 0 &&
                          (*w)[1] == shape.gates * shape.h && (*r)[1] == (*w)[1] &&
                          (*w)[2] == shape.i;
  if (!consistent)
    return invalid_argument(describe(node) + ": weights and hidden size do not fit together");
  if (shape.t < 1 || shape.t > kMostSteps) return Results{};
  return Unroller(builder, node, shape).run();
}

}  // namespace mezzo
