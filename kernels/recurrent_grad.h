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

#include "kernels/recurrent_replay.h"

namespace mezzo::kernels {

// Reads and checks a request: dy?, dy_h?, dy_c?, then x, w, r, b?, sequence_lens?, initial_h?,
// initial_c?, p? -> dx?, dw?, dr?, db?, dinitial_h?, dinitial_c?, dp?, attributes as in the forward
// operator. Unimplemented: an activation whose slope its result does not tell.
StatusOr<RecurrentForm> read_recurrent_grad(const KernelRequest& request);

// The operand (numbered within the request) whose dims result `i` has.
constexpr std::size_t recurrent_grad_like(std::size_t i) { return i < 4 ? 3 + i : 4 + i; }

template <typename T, typename Math>
class RecurrentBackward : RecurrentReplay<T, Math> {
  using Replay = RecurrentReplay<T, Math>;
  using Int = std::int64_t;

 public:
  RecurrentBackward(const RecurrentForm& form, const Math& math, bool peepholes)
      : Replay(form, math, peepholes) {}

  Int room_elems() {
    Room<T> room(nullptr);
    lay_out(room);
    return room.used();
  }

  // `memory` has room_elems() numbers.
  void run(const RecurrentGradArrays<T>& arrays, T* memory) {
    Room<T> room(memory);
    lay_out(room);
    for (Int d = 0; d < form_.directions; ++d) run_direction(arrays, d);
  }

 private:
  using Replay::arrays_, Replay::d_, Replay::form_, Replay::looks_, Replay::math_, Replay::r_;
  using Replay::bent_c_, Replay::extra_, Replay::gates_, Replay::new_c_, Replay::old_c_;
  using Replay::each_sequence, Replay::length, Replay::load_state, Replay::rows, Replay::width;
  using Replay::first_width, Replay::is_gru, Replay::is_lstm, Replay::resets_first;
  using Replay::limits_, Replay::near_, Replay::old_h_, Replay::step_, Replay::w_, Replay::wide_;

  void lay_out(Room<T>& room) {
    const Int n = form_.hidden, i = form_.input, b = form_.batch;
    this->lay_out_replay(room);
    turned_ = room.take(rows() * width());
    spread_ = room.take(form_.directions > 1 ? rows() * i : 0);
    long_ = room.take(std::max(math_.panel_elems(i, rows()), math_.panel_elems(n, rows())));
    for (T*& panels : backward_) panels = room.take(math_.panel_elems(n, first_width()));
    dh_ = room.take(b * n);
    dc_ = room.take(b * n);
    far_ = room.take(b * n);
  }

  void run_direction(const RecurrentGradArrays<T>& arrays, Int d) {
    this->replay(arrays, d);
    pack_backward();
    run_backward();
    write_states();
    write_weights();
    write_inputs();
  }

  void pack_backward() {
    const Int n = form_.hidden;
    math_.pack(r_, n, 1, n, first_width(), backward_[0]);
    if (is_gru()) math_.pack(r_ + 2 * n * n, n, 1, n, n, backward_[1]);
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

  // d *= f'(x), y = f(x).
  void times_slope(std::size_t which, const T* y, T* d, Int n) const {
    const ActivationChoice& choice = form_.activation(d_, which);
    if (choice.kind == RecurrentActivation::kSigmoid) {
      for (Int k = 0; k < n; ++k) d[k] *= y[k] * (T{1} - y[k]);
    } else if (choice.kind == RecurrentActivation::kTanh) {
      for (Int k = 0; k < n; ++k) d[k] *= T{1} - y[k] * y[k];
    } else {
      for (Int k = 0; k < n; ++k) {
        d[k] *= static_cast<T>(slope_at_result(choice, static_cast<double>(y[k])));
      }
    }
    if (!std::isfinite(form_.clip)) return;
    const T high = limits_[2 * which * 16], low = limits_[(2 * which + 1) * 16];
    for (Int k = 0; k < n; ++k) {
      if (y[k] == high || y[k] == low) d[k] = T{0};
    }
  }

  T *turned_ = nullptr, *spread_ = nullptr;  // gates transposed; one direction's dx
  T* long_ = nullptr;                        // all rows packed for products
  T* backward_[2] = {};
  T *dh_ = nullptr, *dc_ = nullptr, *far_ = nullptr;  // [B, H]
};

}  // namespace mezzo::kernels
