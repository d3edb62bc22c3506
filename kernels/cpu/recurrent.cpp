// RNN, LSTM and GRU in float32 (float16 and bfloat16 operands) and float64. Letters as in
// kernels/recurrent.h; formulas as in kernels/reference/recurrent.cpp.
//
// Per direction one product of all inputs with the weights, x W^T for all steps and sequences, plus
// what biases may be added beforehand; then per step one product of the states with the recurrent
// weights and the gates. States stay in the type of the computation between steps. Weights are
// brought into panels (product.h), constant ones when the kernel is prepared.
#include <cmath>
#include <cstring>

#include "kernels/cpu/recurrent_layer.h"

namespace mezzo::kernels::cpu {
namespace {

// One direction of one run.
template <typename T>
class Pass {
 public:
  Pass(const RecurrentLayer<T>& layer, const KernelArguments& arguments,
       const std::int32_t* lengths, Int d)
      : layer_(layer), form_(layer.form), arguments_(arguments), lengths_(lengths), d_(d) {
    T* part = static_cast<T*>(arguments.workspace);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i] = part;
      part += RecurrentLayer<T>::padded(layer.parts()[i]);
    }
    x_ = operand(0, 0, layer.rows() * form_.input, parts_[0]);
    w_ = weights(1, parts_[1]);
    r_ = weights(2, parts_[2]);
    projected_ = parts_[4];
    h_ = parts_[5];
    c_ = parts_[6];
    gates_ = parts_[7];
    reset_ = parts_[8];
  }

  void run() {
    read_small_operands();
    project();
    for (Int step = 0; step < form_.steps; ++step) {
      recurrent_product(h_, 0, gates_);
      if (form_.cell == RecurrentCell::kGru && form_.linear_before_reset) {
        recurrent_product(h_, 1, gates_ + 2 * form_.hidden);
      }
      // Sequences are independent from here on.
      const Int elems = form_.batch * layer_.width();
      parallel_units(form_.batch, elems < 4096 ? 1 : layer_.threads,
                     [&](Int b, int) { step_of(step, b); });
      if (needs_second_product()) {
        recurrent_product(reset_, 1, gates_ + 2 * form_.hidden);
        parallel_units(form_.batch, elems < 4096 ? 1 : layer_.threads, [&](Int b, int) {
          if (step < length(b)) gru_end(step, b);
        });
      }
    }
    write_last_states();
  }

 private:
  bool is_lstm() const { return form_.cell == RecurrentCell::kLstm; }
  bool needs_second_product() const {
    return form_.cell == RecurrentCell::kGru && !form_.linear_before_reset;
  }
  Int length(Int b) const { return lengths_ != nullptr ? lengths_[b] : form_.steps; }
  Int time(Int step, Int b) const { return recurrent_time(form_.is_backward(d_), step, length(b)); }

  const T* operand(std::size_t i, Int first, Int n, T* room) const {
    return numbers<T>(layer_.isa, layer_.in[i], arguments_.inputs[i], first, n, room);
  }
  const char* weights(std::size_t i, T* room) const {
    const auto& kept = layer_.kept[i - 1];
    if (!kept.empty()) {
      return reinterpret_cast<const char*>(kept.data()) + d_ * layer_.panels_bytes(i);
    }
    layer_.pack(i, arguments_.inputs[i], d_, parts_[3], reinterpret_cast<char*>(room));
    return reinterpret_cast<const char*>(room);
  }
  // n numbers of an operand from `first` on, or zeros.
  void copy_operand(std::size_t i, Int first, Int n, T* to) const {
    const void* data = in_buffer(arguments_, i);
    if (data == nullptr) {
      std::fill_n(to, n, T{});
      return;
    }
    const T* from = operand(i, first, n, to);
    if (from != to) std::copy_n(from, n, to);
  }

  void read_small_operands() {
    const Int n = form_.hidden;
    const Int width = layer_.width();
    T* place = parts_[9];
    first_bias_ = place;
    second_bias_ = place + width;
    copy_operand(kRecurrentBias, d_ * 2 * width, 2 * width, place);
    peepholes_ = place + 2 * width;
    has_peepholes_ = is_lstm() && in_buffer(arguments_, kRecurrentPeepholes) != nullptr;
    if (has_peepholes_) copy_operand(kRecurrentPeepholes, d_ * 3 * n, 3 * n, place + 2 * width);
    for (Int b = 0; b < form_.batch; ++b) {
      copy_operand(kRecurrentInitialH, form_.state_row(d_, b), n, h_ + b * n);
      if (is_lstm()) copy_operand(kRecurrentInitialC, form_.state_row(d_, b), n, c_ + b * n);
    }
    // All biases that are simply added go into the inputs' part.
    const Int added = form_.cell == RecurrentCell::kGru ? 2 * n : width;
    T* first = place;
    for (Int k = 0; k < added; ++k) first[k] += second_bias_[k];
  }

  // projected[t, b] = x W^T + biases, in the order of x.
  void project() {
    const Int width = layer_.width();
    const Product product = {
        RecurrentLayer<T>::kKind, layer_.rows(), width, form_.input, form_.input, width};
    run_product(layer_.isa, product, x_, w_, projected_, layer_.threads);
    parallel_units(layer_.rows(), threads_for(layer_.rows() * width, layer_.threads),
                   [&](Int row, int) {
                     T* line = projected_ + row * width;
                     for (Int k = 0; k < width; ++k) line[k] += first_bias_[k];
                   });
  }

  // to[b][..] = states R^T for the first or second part of R.
  void recurrent_product(const T* states, std::size_t part, T* to) {
    const Int n = form_.hidden;
    const auto parts = layer_.parts_of(2);
    const Product product = {
        RecurrentLayer<T>::kKind, form_.batch, parts[part], n, n, layer_.width()};
    const char* panels =
        r_ + (part == 0 ? 0 : panel_bytes(layer_.isa, RecurrentLayer<T>::kKind, parts[0], n));
    run_product(layer_.isa, product, states, panels, to, layer_.threads);
  }

  void activate(std::size_t which, T* values, Int n) const {
    const LayerActivation& activation =
        layer_.activations[static_cast<std::size_t>(d_) * form_.activations_each() + which];
    if (std::isfinite(form_.clip)) {
      const T limit = static_cast<T>(form_.clip);
      for (Int i = 0; i < n; ++i) {
        if (std::fabs(values[i]) > limit) values[i] = std::copysign(limit, values[i]);
      }
    }
    if constexpr (std::is_same_v<T, float>) {
      if (activation.loop != nullptr) {
        const float* x = values;
        activation.loop(&x, values, n, activation.parameters);
        return;
      }
    }
    for (Int i = 0; i < n; ++i) {
      values[i] = static_cast<T>(activated(activation.choice, static_cast<double>(values[i])));
    }
  }

  void step_of(Int step, Int b) {
    if (step >= length(b)) {
      write_y(step, b, nullptr);
      return;
    }
    const Int n = form_.hidden;
    const Int t = time(step, b);
    const Int row = form_.batch_first ? b * form_.steps + t : t * form_.batch + b;
    const T* x = projected_ + row * layer_.width();
    T* gates = gates_ + b * layer_.width();
    T* h = h_ + b * n;
    if (form_.cell == RecurrentCell::kRnn) {
      for (Int k = 0; k < n; ++k) gates[k] += x[k];
      activate(0, gates, n);
      std::copy_n(gates, n, h);
    } else if (is_lstm()) {
      for (Int k = 0; k < 4 * n; ++k) gates[k] += x[k];
      lstm_step(gates, h, c_ + b * n);
    } else {
      for (Int k = 0; k < 2 * n; ++k) gates[k] += x[k];
      activate(0, gates, 2 * n);
      const T* r = gates + n;
      if (needs_second_product()) {
        T* reset = reset_ + b * n;
        for (Int k = 0; k < n; ++k) reset[k] = r[k] * h[k];
        return;
      }
      T* candidate = gates + 2 * n;
      const T* bias = second_bias_ + 2 * n;
      for (Int k = 0; k < n; ++k) candidate[k] = x[2 * n + k] + r[k] * (candidate[k] + bias[k]);
      finish_gru(gates, h);
    }
    write_y(t, b, h);
  }

  // The candidate of a GRU whose reset comes first, after its product.
  void gru_end(Int step, Int b) {
    const Int n = form_.hidden;
    const Int t = time(step, b);
    const Int row = form_.batch_first ? b * form_.steps + t : t * form_.batch + b;
    const T* x = projected_ + row * layer_.width() + 2 * n;
    T* gates = gates_ + b * layer_.width();
    T* candidate = gates + 2 * n;
    const T* bias = second_bias_ + 2 * n;
    for (Int k = 0; k < n; ++k) candidate[k] += x[k] + bias[k];
    T* h = h_ + b * n;
    finish_gru(gates, h);
    write_y(t, b, h);
  }

  void finish_gru(T* gates, T* h) {
    const Int n = form_.hidden;
    T* candidate = gates + 2 * n;
    activate(1, candidate, n);
    for (Int k = 0; k < n; ++k) h[k] = (T{1} - gates[k]) * candidate[k] + gates[k] * h[k];
  }

  void lstm_step(T* gates, T* h, T* c) {
    const Int n = form_.hidden;
    T* in = gates;
    T* out = gates + n;
    T* forget = gates + 2 * n;
    T* candidate = gates + 3 * n;
    const auto look = [&](Int gate, T* values) {
      if (!has_peepholes_) return;
      for (Int k = 0; k < n; ++k) values[k] += peepholes_[gate * n + k] * c[k];
    };
    look(0, in);
    activate(0, in, n);
    if (form_.input_forget) {
      for (Int k = 0; k < n; ++k) forget[k] = T{1} - in[k];
    } else {
      look(2, forget);
      activate(0, forget, n);
    }
    activate(1, candidate, n);
    for (Int k = 0; k < n; ++k) c[k] = forget[k] * c[k] + in[k] * candidate[k];
    look(1, out);
    activate(0, out, n);
    std::copy_n(c, n, h);
    activate(2, h, n);
    for (Int k = 0; k < n; ++k) h[k] *= out[k];
  }

  // h of (t, b), or zeros where the sequence has ended.
  void write_y(Int t, Int b, const T* h) {
    void* y = out_buffer(arguments_, 0);
    if (y == nullptr) return;
    const Int n = form_.hidden;
    const Int place = form_.y_row(t, d_, b);
    if (h != nullptr) {
      write_numbers<T>(layer_.isa, layer_.out[0], h, y, place, n);
      return;
    }
    const Int bytes = std::is_same_v<T, double> ? 8 : elem_bytes(layer_.out[0]);
    std::memset(static_cast<char*>(y) + place * bytes, 0, static_cast<std::size_t>(n * bytes));
  }

  void write_last_states() {
    const Int n = form_.hidden;
    for (Int b = 0; b < form_.batch; ++b) {
      const Int place = form_.state_row(d_, b);
      if (void* to = out_buffer(arguments_, 1)) {
        write_numbers<T>(layer_.isa, layer_.out[1], h_ + b * n, to, place, n);
      }
      if (void* to = is_lstm() ? out_buffer(arguments_, 2) : nullptr) {
        write_numbers<T>(layer_.isa, layer_.out[2], c_ + b * n, to, place, n);
      }
    }
  }

  const RecurrentLayer<T>& layer_;
  const RecurrentForm& form_;
  const KernelArguments& arguments_;
  const std::int32_t* lengths_;
  Int d_;
  std::array<T*, 10> parts_{};
  const T* x_;
  const char* w_;
  const char* r_;
  T* projected_;
  T* h_;
  T* c_;
  T* gates_;
  T* reset_;
  const T* first_bias_ = nullptr;
  const T* second_bias_ = nullptr;
  const T* peepholes_ = nullptr;
  bool has_peepholes_ = false;
};

template <typename T>
class LayerKernel final : public Kernel {
 public:
  LayerKernel(const KernelRequest& request, const Isa& isa, RecurrentForm form)
      : layer_(request, isa, std::move(form)) {}

  std::size_t workspace_bytes() const override { return layer_.workspace_bytes(); }
  std::size_t held_bytes() const override { return layer_.held_bytes(); }
  std::string_view implementation() const override { return layer_.isa.name; }
  Status run(const KernelArguments& arguments) override {
    const auto* lengths = static_cast<const std::int32_t*>(in_buffer(arguments, kRecurrentLengths));
    MEZZO_RETURN_IF_ERROR(check_lengths(layer_.form, layer_.op, lengths));
    for (Int d = 0; d < layer_.form.directions; ++d) Pass<T>(layer_, arguments, lengths, d).run();
    return ok_status();
  }

 private:
  RecurrentLayer<T> layer_;
};

template <typename T>
Prepared make_layer(const KernelRequest& request, const Isa& isa, RecurrentForm form) {
  return std::unique_ptr<Kernel>(std::make_unique<LayerKernel<T>>(request, isa, std::move(form)));
}

}  // namespace

Prepared prepare_recurrent(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(RecurrentForm form, read_recurrent(request));
  if (form.hidden == 0 || form.batch == 0) return unimplemented("empty operands");
  // The inputs' part of all gates is kept for all steps; dims may be large where x has no elements.
  const double gates = static_cast<double>(form.steps) * static_cast<double>(form.batch) *
                       static_cast<double>(form.gates) * static_cast<double>(form.hidden);
  if (gates > static_cast<double>(kMaxElems)) return unimplemented("more gates than fit in memory");
  bool all_double = true;
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      const bool is_lengths = desc.dtype == DType::kInt32;
      all_double = all_double && (!desc.present() || is_lengths || desc.dtype == DType::kFloat64);
    }
  }
  if (all_double) return make_layer<double>(request, isa, std::move(form));
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 1U << kRecurrentLengths));
  return make_layer<float>(request, isa, std::move(form));
}

}  // namespace mezzo::kernels::cpu
