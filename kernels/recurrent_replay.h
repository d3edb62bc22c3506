// The forward run of RNN, LSTM and GRU, kept for all steps: what back-propagation through time
// (recurrent_grad.h) starts from. In T (float or double) on plain row-major arrays, with products
// and activations by `Math`. Letters as in kernels/recurrent.h; rows: T B, in the order of x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/recurrent.h"

namespace mezzo::kernels {

// Operands and results of RNNGrad, LSTMGrad and GRUGrad in a request, and where the forward
// operator's begin.
inline constexpr std::size_t kRecurrentGradOperands = 11;
inline constexpr std::size_t kRecurrentGradResults = 7;
inline constexpr std::size_t kRecurrentGradForward = 3;
inline constexpr std::size_t kRecurrentGradLengths = kRecurrentGradForward + kRecurrentLengths;

// Numbers of the operands and results.
template <typename T>
struct RecurrentGradArrays {
  const T* in[kRecurrentGradOperands] = {};  // null: absent; never the lengths
  T* out[kRecurrentGradResults] = {};
  const std::int32_t* lengths = nullptr;
};

// Hands out parts of a buffer; without one it measures.
template <typename T>
class Room {
 public:
  explicit Room(T* base) : base_(base) {}
  T* take(std::int64_t elems) {
    T* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (elems + 15) / 16 * 16;
    return part;
  }
  std::int64_t used() const { return used_; }

 private:
  T* base_;
  std::int64_t used_ = 0;
};

template <typename T, typename Math>
class RecurrentReplay {
 protected:
  using Int = std::int64_t;

  RecurrentReplay(const RecurrentForm& form, const Math& math, bool peepholes)
      : form_(form), math_(math), peepholes_(peepholes) {}

  bool is_lstm() const { return form_.cell == RecurrentCell::kLstm; }
  bool is_gru() const { return form_.cell == RecurrentCell::kGru; }
  bool resets_first() const { return is_gru() && !form_.linear_before_reset; }
  Int rows() const { return form_.steps * form_.batch; }
  Int width() const { return form_.gates * form_.hidden; }
  Int first_width() const { return is_gru() ? 2 * form_.hidden : width(); }
  Int length(Int b) const { return arrays_->lengths ? arrays_->lengths[b] : form_.steps; }
  Int row(Int step, Int b) const {
    const Int t = recurrent_time(form_.is_backward(d_), step, length(b));
    return form_.x_row(t, b) / std::max<Int>(form_.input, 1);
  }

  void lay_out_replay(Room<T>& room) {
    const Int n = form_.hidden, i = form_.input, b = form_.batch;
    gates_ = room.take(rows() * width());
    old_h_ = room.take(rows() * n);
    old_c_ = room.take(is_lstm() ? rows() * n : 0);
    new_c_ = room.take(peepholes_ ? rows() * n : 0);
    bent_c_ = room.take(is_lstm() ? rows() * n : 0);
    extra_ = room.take(is_gru() ? rows() * n : 0);
    wide_ = room.take(std::max(math_.panel_elems(width(), i), math_.panel_elems(i, width())));
    for (T*& panels : forward_) panels = room.take(math_.panel_elems(first_width(), n));
    h_ = room.take(b * n);
    c_ = room.take(b * n);
    near_ = room.take(b * n);
    step_ = room.take(b * width());
    limits_ = room.take(2 * 16 * 3);
  }

  // All steps of direction d.
  void replay(const RecurrentGradArrays<T>& arrays, Int d) {
    arrays_ = &arrays;
    d_ = d;
    w_ = arrays.in[4] + d * width() * form_.input;
    r_ = arrays.in[5] + d * width() * form_.hidden;
    const T* bias = arrays.in[6];
    first_bias_ = bias == nullptr ? nullptr : bias + d * 2 * width();
    second_bias_ = bias == nullptr ? nullptr : first_bias_ + width();
    const T* p = arrays.in[10];
    looks_ = p == nullptr ? nullptr : p + d * 3 * form_.hidden;
    find_limits();
    pack_forward();
    run_forward();
  }

  // What the activations make of inputs at the clip's ends: such results have slope 0.
  void find_limits() {
    if (!std::isfinite(form_.clip)) return;
    for (std::size_t which = 0; which < form_.activations_each(); ++which) {
      for (int side : {0, 1}) {
        T* at = limits_ + (2 * which + static_cast<std::size_t>(side)) * 16;
        std::fill_n(at, 16, static_cast<T>(side == 0 ? form_.clip : -form_.clip));
        math_.activate(form_.activation(d_, which), at, 16);
      }
    }
  }

  void pack_forward() {
    const Int n = form_.hidden;
    math_.pack(r_, 1, n, first_width(), n, forward_[0]);
    if (is_gru()) math_.pack(r_ + 2 * n * n, 1, n, n, n, forward_[1]);
  }

  // Gates and states of all steps.
  void run_forward() {
    const Int n = form_.hidden, i = form_.input;
    math_.pack(w_, 1, i, width(), i, wide_);
    math_.multiply(rows(), width(), i, arrays_->in[3], i, wide_, gates_, width());
    load_state(8, h_);
    if (is_lstm()) load_state(9, c_);
    std::fill_n(old_h_, rows() * n, T{0});
    if (is_lstm()) std::fill_n(old_c_, rows() * n, T{0});
    if (peepholes_) std::fill_n(new_c_, rows() * n, T{0});
    if (is_gru()) std::fill_n(extra_, rows() * n, T{0});
    for (Int step = 0; step < form_.steps; ++step) {
      math_.multiply(form_.batch, first_width(), n, h_, n, forward_[0], step_, width());
      if (is_gru() && !resets_first()) {
        math_.multiply(form_.batch, n, n, h_, n, forward_[1], step_ + 2 * n, width());
      }
      each_sequence(step, [&](Int b, Int at) { forward_step(b, at); });
      if (!resets_first()) continue;
      math_.multiply(form_.batch, n, n, near_, n, forward_[1], step_ + 2 * n, width());
      each_sequence(step, [&](Int b, Int at) { finish_gru(b, at); });
    }
  }

  void forward_step(Int b, Int at) {
    const Int n = form_.hidden;
    T* gates = gates_ + at * width();
    T* sums = step_ + b * width();
    T* h = h_ + b * n;
    std::copy_n(h, n, old_h_ + at * n);
    const Int ready = first_width();
    for (Int k = 0; k < ready; ++k) {
      T sum = gates[k] + sums[k];
      if (first_bias_ != nullptr) sum += first_bias_[k] + second_bias_[k];
      gates[k] = sum;
    }
    if (is_lstm()) {
      forward_lstm(b, at, gates, h);
    } else if (!is_gru()) {
      activate(0, gates, n);
      std::copy_n(gates, n, h);
    } else {
      activate(0, gates, 2 * n);
      T* extra = extra_ + at * n;
      for (Int k = 0; k < n; ++k) {
        extra[k] = resets_first() ? gates[n + k] * h[k]
                                  : sums[2 * n + k] + (second_bias_ ? second_bias_[2 * n + k] : 0);
      }
      std::copy_n(extra, n, near_ + b * n);
      if (!resets_first()) finish_gru(b, at);
    }
  }

  void finish_gru(Int b, Int at) {
    const Int n = form_.hidden;
    T* gates = gates_ + at * width();
    T* candidate = gates + 2 * n;
    const T* sums = step_ + b * width() + 2 * n;
    const T* extra = extra_ + at * n;
    for (Int k = 0; k < n; ++k) {
      T sum = candidate[k] + (first_bias_ ? first_bias_[2 * n + k] : 0);
      sum += resets_first() ? sums[k] + (second_bias_ ? second_bias_[2 * n + k] : 0)
                            : gates[n + k] * extra[k];
      candidate[k] = sum;
    }
    activate(1, candidate, n);
    T* h = h_ + b * n;
    for (Int k = 0; k < n; ++k) h[k] = (T{1} - gates[k]) * candidate[k] + gates[k] * h[k];
  }

  void forward_lstm(Int b, Int at, T* gates, T* h) {
    const Int n = form_.hidden;
    T* c = c_ + b * n;
    std::copy_n(c, n, old_c_ + at * n);
    T *in = gates, *out = gates + n, *forget = gates + 2 * n, *candidate = gates + 3 * n;
    look(0, c, in);
    activate(0, in, n);
    if (form_.input_forget) {
      for (Int k = 0; k < n; ++k) forget[k] = T{1} - in[k];
    } else {
      look(2, c, forget);
      activate(0, forget, n);
    }
    activate(1, candidate, n);
    for (Int k = 0; k < n; ++k) c[k] = forget[k] * c[k] + in[k] * candidate[k];
    if (peepholes_) std::copy_n(c, n, new_c_ + at * n);
    look(1, c, out);
    activate(0, out, n);
    T* bent = bent_c_ + at * n;
    std::copy_n(c, n, bent);
    activate(2, bent, n);
    for (Int k = 0; k < n; ++k) h[k] = out[k] * bent[k];
  }

  void look(Int gate, const T* c, T* values) const {
    if (looks_ == nullptr) return;
    const T* weights = looks_ + gate * form_.hidden;
    for (Int k = 0; k < form_.hidden; ++k) values[k] += weights[k] * c[k];
  }

  // One direction of operand `which`, or zeros.
  void load_state(std::size_t which, T* to) const {
    const Int n = form_.hidden;
    const T* from = arrays_->in[which];
    for (Int b = 0; b < form_.batch; ++b) {
      if (from == nullptr) {
        std::fill_n(to + b * n, n, T{0});
      } else {
        std::copy_n(from + form_.state_row(d_, b), n, to + b * n);
      }
    }
  }

  // body(b, row) for the sequences that have this step.
  template <typename Body>
  void each_sequence(Int step, Body&& body) const {
    math_.in_parallel(form_.batch, form_.batch * width(), [&](Int b) {
      if (step < length(b)) body(b, row(step, b));
    });
  }

  void activate(std::size_t which, T* values, Int n) const {
    if (std::isfinite(form_.clip)) {
      const T limit = static_cast<T>(form_.clip);
      for (Int k = 0; k < n; ++k) {
        if (std::fabs(values[k]) > limit) values[k] = std::copysign(limit, values[k]);
      }
    }
    math_.activate(form_.activation(d_, which), values, n);
  }

  const RecurrentForm& form_;
  const Math& math_;
  bool peepholes_;
  const RecurrentGradArrays<T>* arrays_ = nullptr;
  Int d_ = 0;
  const T *w_ = nullptr, *r_ = nullptr, *first_bias_ = nullptr, *second_bias_ = nullptr;
  const T* looks_ = nullptr;  // peepholes
  // [rows, ..]: gates; states before a step; LSTM: the state after it, and that through h; GRU: r h
  // or h R_h^T.
  T *gates_ = nullptr, *old_h_ = nullptr, *old_c_ = nullptr, *new_c_ = nullptr, *bent_c_ = nullptr;
  T* extra_ = nullptr;
  T* wide_ = nullptr;  // W packed for products
  T* forward_[2] = {};
  T *h_ = nullptr, *c_ = nullptr, *near_ = nullptr;  // [B, H]
  T* step_ = nullptr;                                // [B, G H]
  T* limits_ = nullptr;
};

}  // namespace mezzo::kernels
