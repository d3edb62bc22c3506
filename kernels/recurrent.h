// What a request for RNN, LSTM or GRU asks for, read and checked once for all implementations.
//
// Letters: T time, B batch, I input size, H hidden size, D directions, G gates (1, 4, 3).
// Operands: x, w[D, G H, I], r[D, G H, H], b[D, 2 G H]?, sequence_lens[B]?, initial_h?, for LSTM
// also initial_c? and p[D, 3 H]?. Results: y?, y_h?, for LSTM also y_c?.
// Layout 0: x[T, B, I], y[T, D, B, H], states [D, B, H]; layout 1: x[B, T, I], y[B, T, D, H],
// states [B, D, H]. Order of the gates: LSTM i o f c, GRU z r h; of the peepholes p: i o f.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/formulas/recurrent_activation.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

enum class RecurrentCell : std::uint8_t { kRnn, kLstm, kGru };

struct RecurrentForm {
  RecurrentCell cell = RecurrentCell::kRnn;
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 1, gates = 1;
  bool batch_first = false;  // layout 1
  bool reverse = false;      // the only direction runs backwards
  bool linear_before_reset = false;
  bool input_forget = false;
  double clip = 0.0;  // of the activations' inputs; infinity: none
  // Per direction: f; f, g; or f, g, h.
  std::vector<ActivationChoice> activations;

  bool is_backward(std::int64_t direction) const { return reverse || direction == 1; }
  const ActivationChoice& activation(std::int64_t direction, std::size_t which) const {
    return activations[static_cast<std::size_t>(direction) * activations_each() + which];
  }
  std::size_t activations_each() const {
    return cell == RecurrentCell::kRnn ? 1 : cell == RecurrentCell::kGru ? 2 : 3;
  }
  // Offsets in elements of the H numbers of (time, direction, batch) in x (I numbers), y and
  // states.
  std::int64_t x_row(std::int64_t t, std::int64_t b) const {
    return (batch_first ? b * steps + t : t * batch + b) * input;
  }
  std::int64_t y_row(std::int64_t t, std::int64_t d, std::int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) *
           hidden;
  }
  std::int64_t state_row(std::int64_t d, std::int64_t b) const {
    return (batch_first ? b * directions + d : d * batch + b) * hidden;
  }
};

// Operand numbers beyond the first three.
inline constexpr std::size_t kRecurrentBias = 3;
inline constexpr std::size_t kRecurrentLengths = 4;
inline constexpr std::size_t kRecurrentInitialH = 5;
inline constexpr std::size_t kRecurrentInitialC = 6;
inline constexpr std::size_t kRecurrentPeepholes = 7;

// Attributes: direction, hidden_size, clip, layout, linear_before_reset, input_forget as in ONNX;
// activations as one string of names between commas; activation_alpha and activation_beta for those
// that take one, in order. InvalidArgument: names the operand or attribute that does not fit.
// Checks dims, not dtypes.
StatusOr<RecurrentForm> read_recurrent(const KernelRequest& request);

// The time at which sequence element `step` of a sequence of `length` is computed.
inline std::int64_t recurrent_time(bool backward, std::int64_t step, std::int64_t length) {
  return backward ? length - 1 - step : step;
}

// InvalidArgument unless 0 <= length <= steps. `lengths` may be null.
Status check_lengths(const RecurrentForm& form, std::string_view op, const std::int32_t* lengths);

}  // namespace mezzo::kernels
