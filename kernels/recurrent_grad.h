// Back-propagation through time of RNN, LSTM and GRU, once for all implementations: in T (float or
// double) on plain row-major arrays, with products and activations by `Math`. Letters as in
// kernels/recurrent.h; rows: T B, in the order of x.
//
// Nothing of the forward run is kept but its operands: gates and states of all steps are computed
// again (as reference/recurrent.cpp says), which costs a third of the whole and spares a tensor of
// G H numbers per step and sequence between forward and backward. Then, from the last step to the
// first, with a' = the gradient of a gate's input a and f' the activation's slope at its result:
//
//   RNN   a' = dh f'(h)
//   LSTM  o' = dh h(c) f';  dc += dh o h'(c) + p_o o';  i' = (dc n [- dc c_prev, input_forget]) f',
//         j' = dc c_prev f', n' = dc i g';  dc_prev = dc j + p_i i' + p_f j'
//   GRU   z' = dh (h_prev - n) f', n' = dh (1 - z) g';  dh_prev = dh z + ..., and
//         r' = n' (h R_h^T + rb) f' (linear_before_reset) or (n' R_h) h_prev f'
//   dh_prev += a' R;  dw = a'^T x, dr = a'^T h_prev, db = sum of a', dx = a' W
//
// A clipped input has slope 0. Steps beyond a sequence's length take no part, as in the forward
// run.
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

// Reads and checks a request: dy?, dy_h?, dy_c?, then x, w, r, b?, sequence_lens?, initial_h?,
// initial_c?, p? -> dx?, dw?, dr?, db?, dinitial_h?, dinitial_c?, dp?, attributes as in the forward
// operator. Unimplemented: an activation whose slope its result does not tell.
StatusOr<RecurrentForm> read_recurrent_grad(const KernelRequest& request);

// The operand (numbered within the request) whose dims result `i` has.
constexpr std::size_t recurrent_grad_like(std::size_t i) { return i < 4 ? 3 + i : 4 + i; }

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

// f'(x) from y = f(x). REQUIRES: read_recurrent_grad has accepted the activation.
double activation_slope(const ActivationChoice& activation, double y);

template <typename T, typename Math>
class RecurrentBackward {
  using Int = std::int64_t;

 public:
  RecurrentBackward(const RecurrentForm& form, const Math& math, bool peepholes)
      : form_(form), math_(math), peepholes_(peepholes) {}

  Int room_elems() {
    Room<T> room(nullptr);
    lay_out(room);
    return room.used();
  }

  // `memory` has room_elems() numbers.
  void run(const RecurrentGradArrays<T>& arrays, T* memory) {
    Room<T> room(memory);
    lay_out(room);
    arrays_ = &arrays;
    for (Int d = 0; d < form_.directions; ++d) run_direction(d);
  }

 private:
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

  void lay_out(Room<T>& room) {
    const Int n = form_.hidden, i = form_.input, b = form_.batch;
    gates_ = room.take(rows() * width());
    old_h_ = room.take(rows() * n);
    old_c_ = room.take(is_lstm() ? rows() * n : 0);
    new_c_ = room.take(peepholes_ ? rows() * n : 0);
    bent_c_ = room.take(is_lstm() ? rows() * n : 0);
    extra_ = room.take(is_gru() ? rows() * n : 0);
    turned_ = room.take(rows() * width());
    spread_ = room.take(form_.directions > 1 ? rows() * i : 0);
    wide_ = room.take(std::max(math_.panel_elems(width(), i), math_.panel_elems(i, width())));
    long_ = room.take(std::max(math_.panel_elems(i, rows()), math_.panel_elems(n, rows())));
    for (T*& panels : forward_) panels = room.take(math_.panel_elems(first_width(), n));
    for (T*& panels : backward_) panels = room.take(math_.panel_elems(n, first_width()));
    h_ = room.take(b * n);
    c_ = room.take(b * n);
    dh_ = room.take(b * n);
    dc_ = room.take(b * n);
    near_ = room.take(b * n);
    far_ = room.take(b * n);
    step_ = room.take(b * width());
    limits_ = room.take(2 * 16 * 3);
  }

  void run_direction(Int d) {
    d_ = d;
    w_ = arrays_->in[4] + d * width() * form_.input;
    r_ = arrays_->in[5] + d * width() * form_.hidden;
    const T* bias = arrays_->in[6];
    first_bias_ = bias == nullptr ? nullptr : bias + d * 2 * width();
    second_bias_ = bias == nullptr ? nullptr : first_bias_ + width();
    const T* p = arrays_->in[10];
    looks_ = p == nullptr ? nullptr : p + d * 3 * form_.hidden;
    find_limits();
    pack_recurrent();
    run_forward();
    run_backward();
    write_states();
    write_weights();
    write_inputs();
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

  void pack_recurrent() {
    const Int n = form_.hidden, first = first_width();
    math_.pack(r_, 1, n, first, n, forward_[0]);
    math_.pack(r_, n, 1, n, first, backward_[0]);
    if (!is_gru()) return;
    const T* last = r_ + 2 * n * n;
    math_.pack(last, 1, n, n, n, forward_[1]);
    math_.pack(last, n, 1, n, n, backward_[1]);
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

  // From here on gates_ turns, row by row, into the gradients of the gates' inputs, and a GRU's
  // extra_, where the reset comes last, into those of h R_h^T.
  void run_backward() {
    const Int n = form_.hidden;
    load_state(1, dh_);
    if (is_lstm()) load_state(2, dc_);
    for (Int step = form_.steps - 1; step >= 0; --step) {
      std::fill_n(step_, form_.batch * width(), T{0});
      each_sequence(step, [&](Int b, Int at) { backward_step(step, b, at); });
      if (is_gru()) {
        math_.multiply(form_.batch, n, n, step_ + 2 * n, width(), backward_[1], far_, n);
        if (resets_first()) {
          each_sequence(step, [&](Int b, Int at) { backward_reset(b, at); });
        }
      }
      math_.multiply(form_.batch, n, first_width(), step_, width(), backward_[0], near_, n);
      each_sequence(step, [&](Int b, Int at) { join_states(b, at); });
    }
    for (Int b = 0; b < form_.batch; ++b) clear_beyond(b);
  }

  void backward_step(Int step, Int b, Int at) {
    const Int n = form_.hidden;
    T* gates = gates_ + at * width();
    T* sums = step_ + b * width();
    T* dh = dh_ + b * n;
    if (const T* dy = arrays_->in[0]) {
      const Int t = recurrent_time(form_.is_backward(d_), step, length(b));
      const T* from = dy + form_.y_row(t, d_, b);
      for (Int k = 0; k < n; ++k) dh[k] += from[k];
    }
    if (is_lstm()) {
      backward_lstm(b, at, gates, sums, dh);
      std::copy_n(sums, width(), gates);
    } else if (!is_gru()) {
      std::copy_n(dh, n, sums);
      times_slope(0, gates, sums, n);
      std::copy_n(sums, n, gates);
    } else {
      backward_gru(at, gates, sums, dh);
    }
  }

  void backward_lstm(Int b, Int at, const T* gates, T* sums, const T* dh) {
    const Int n = form_.hidden;
    const T *in = gates, *out = gates + n, *forget = gates + 2 * n, *candidate = gates + 3 * n;
    const T *bent = bent_c_ + at * n, *old_c = old_c_ + at * n;
    T* dc = dc_ + b * n;
    T *d_in = sums, *d_out = sums + n, *d_forget = sums + 2 * n, *d_candidate = sums + 3 * n;
    for (Int k = 0; k < n; ++k) {
      d_out[k] = dh[k] * bent[k];
      d_candidate[k] = dh[k] * out[k];  // room for the way through the state
    }
    times_slope(0, out, d_out, n);
    times_slope(2, bent, d_candidate, n);
    for (Int k = 0; k < n; ++k) {
      dc[k] += d_candidate[k];
      if (looks_ != nullptr) dc[k] += looks_[n + k] * d_out[k];
    }
    for (Int k = 0; k < n; ++k) {
      d_in[k] = dc[k] * (form_.input_forget ? candidate[k] - old_c[k] : candidate[k]);
      d_forget[k] = form_.input_forget ? T{0} : dc[k] * old_c[k];
      d_candidate[k] = dc[k] * in[k];
    }
    times_slope(0, in, d_in, n);
    if (!form_.input_forget) times_slope(0, forget, d_forget, n);
    times_slope(1, candidate, d_candidate, n);
    for (Int k = 0; k < n; ++k) dc[k] *= forget[k];
    if (looks_ == nullptr) return;
    for (Int k = 0; k < n; ++k) dc[k] += looks_[k] * d_in[k] + looks_[2 * n + k] * d_forget[k];
  }

  // sums: gradients of the gates' inputs as the recurrent weights see them.
  void backward_gru(Int at, T* gates, T* sums, T* dh) {
    const Int n = form_.hidden;
    const T *z = gates, *r = gates + n, *candidate = gates + 2 * n;
    const T* old_h = old_h_ + at * n;
    for (Int k = 0; k < n; ++k) {
      sums[k] = dh[k] * (old_h[k] - candidate[k]);
      sums[2 * n + k] = dh[k] * (T{1} - z[k]);
      dh[k] *= z[k];
    }
    times_slope(0, z, sums, n);
    times_slope(1, candidate, sums + 2 * n, n);
    std::copy_n(sums, n, gates);
    std::copy_n(sums + 2 * n, n, gates + 2 * n);
    if (resets_first()) return;
    T* extra = extra_ + at * n;
    for (Int k = 0; k < n; ++k) {
      sums[n + k] = sums[2 * n + k] * extra[k];
      sums[2 * n + k] *= r[k];
      extra[k] = sums[2 * n + k];
    }
    times_slope(0, r, sums + n, n);
    std::copy_n(sums + n, n, gates + n);
  }

  // The reset's gradient, when that of r h is known.
  void backward_reset(Int b, Int at) {
    const Int n = form_.hidden;
    T* r = gates_ + at * width() + n;
    T* sums = step_ + b * width() + n;
    T* far = far_ + b * n;
    const T* old_h = old_h_ + at * n;
    for (Int k = 0; k < n; ++k) {
      sums[k] = far[k] * old_h[k];
      far[k] *= r[k];
    }
    times_slope(0, r, sums, n);
    std::copy_n(sums, n, r);
  }

  void join_states(Int b, Int) {
    const Int n = form_.hidden;
    T* dh = dh_ + b * n;
    const T *near = near_ + b * n, *far = far_ + b * n;
    for (Int k = 0; k < n; ++k) {
      dh[k] = is_gru() ? dh[k] + near[k] + far[k] : near[k];
    }
  }

  // Rows that no step has visited.
  void clear_beyond(Int b) {
    for (Int t = length(b); t < form_.steps; ++t) {
      const Int at = form_.batch_first ? b * form_.steps + t : t * form_.batch + b;
      std::fill_n(gates_ + at * width(), width(), T{0});
    }
  }

  void write_states() {
    const Int n = form_.hidden;
    for (Int b = 0; b < form_.batch; ++b) {
      const Int to = form_.state_row(d_, b);
      if (T* dh = arrays_->out[4]) std::copy_n(dh_ + b * n, n, dh + to);
      if (T* dc = is_lstm() ? arrays_->out[5] : nullptr) std::copy_n(dc_ + b * n, n, dc + to);
    }
  }

  void write_weights() {
    const Int n = form_.hidden, i = form_.input;
    if (arrays_->out[1] != nullptr || arrays_->out[2] != nullptr) {
      turn(gates_, width(), turned_);
    }
    if (T* dw = arrays_->out[1]) {
      math_.pack(arrays_->in[3], i, 1, i, rows(), long_);
      math_.multiply(width(), i, rows(), turned_, rows(), long_, dw + d_ * width() * i, i);
    }
    if (T* all = arrays_->out[2]) {
      T* dr = all + d_ * width() * n;
      math_.pack(old_h_, n, 1, n, rows(), long_);
      math_.multiply(first_width(), n, rows(), turned_, rows(), long_, dr, n);
      if (is_gru()) {
        T* last = turned_ + 2 * n * rows();
        if (resets_first()) {
          math_.pack(extra_, n, 1, n, rows(), long_);
        } else {
          turn(extra_, n, last);
        }
        math_.multiply(n, n, rows(), last, rows(), long_, dr + 2 * n * n, n);
      }
    }
    if (T* all = arrays_->out[3]) {
      T* db = all + d_ * 2 * width();
      sum_rows(gates_, width(), db);
      std::copy_n(db, width(), db + width());
      if (is_gru() && !resets_first()) sum_rows(extra_, n, db + width() + 2 * n);
    }
    if (T* all = arrays_->out[6]) {
      T* dp = all + d_ * 3 * n;
      sum_products(gates_, old_c_, dp);
      sum_products(gates_ + n, new_c_, dp + n);
      sum_products(gates_ + 2 * n, old_c_, dp + 2 * n);
    }
  }

  void write_inputs() {
    T* dx = arrays_->out[0];
    if (dx == nullptr) return;
    const Int i = form_.input;
    math_.pack(w_, i, 1, i, width(), wide_);
    T* to = d_ == 0 ? dx : spread_;
    math_.multiply(rows(), i, width(), gates_, width(), wide_, to, i);
    if (d_ == 0) return;
    for (Int e = 0; e < rows() * i; ++e) dx[e] += spread_[e];
  }

  // [rows, columns] -> [columns, rows].
  void turn(const T* from, Int columns, T* to) const {
    constexpr Int kTile = 16;
    math_.in_parallel((columns + kTile - 1) / kTile, rows() * columns, [&](Int tile) {
      const Int begin = tile * kTile, end = std::min(columns, begin + kTile);
      for (Int row = 0; row < rows(); ++row) {
        for (Int k = begin; k < end; ++k) to[k * rows() + row] = from[row * columns + k];
      }
    });
  }
  void sum_rows(const T* from, Int columns, T* to) const {
    std::fill_n(to, columns, T{0});
    for (Int row = 0; row < rows(); ++row) {
      for (Int k = 0; k < columns; ++k) to[k] += from[row * columns + k];
    }
  }
  void sum_products(const T* gates, const T* states, T* to) const {
    std::fill_n(to, form_.hidden, T{0});
    for (Int row = 0; row < rows(); ++row) {
      for (Int k = 0; k < form_.hidden; ++k) {
        to[k] += gates[row * width() + k] * states[row * form_.hidden + k];
      }
    }
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

  // d *= f'(x), y = f(x).
  void times_slope(std::size_t which, const T* y, T* d, Int n) const {
    const ActivationChoice& choice = form_.activation(d_, which);
    if (choice.kind == RecurrentActivation::kSigmoid) {
      for (Int k = 0; k < n; ++k) d[k] *= y[k] * (T{1} - y[k]);
    } else if (choice.kind == RecurrentActivation::kTanh) {
      for (Int k = 0; k < n; ++k) d[k] *= T{1} - y[k] * y[k];
    } else {
      for (Int k = 0; k < n; ++k) {
        d[k] *= static_cast<T>(activation_slope(choice, static_cast<double>(y[k])));
      }
    }
    if (!std::isfinite(form_.clip)) return;
    const T high = limits_[2 * which * 16], low = limits_[(2 * which + 1) * 16];
    for (Int k = 0; k < n; ++k) {
      if (y[k] == high || y[k] == low) d[k] = T{0};
    }
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
  T *turned_ = nullptr, *spread_ = nullptr;  // gates transposed; one direction's dx
  T *wide_ = nullptr, *long_ = nullptr;      // factors packed for products
  T* forward_[2] = {};
  T* backward_[2] = {};
  T *h_ = nullptr, *c_ = nullptr, *dh_ = nullptr, *dc_ = nullptr;  // [B, H]
  T *near_ = nullptr, *far_ = nullptr;
  T* step_ = nullptr;  // [B, G H]
  T* limits_ = nullptr;
};

}  // namespace mezzo::kernels
