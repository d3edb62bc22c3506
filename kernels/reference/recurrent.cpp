// RNN, LSTM and GRU, step by step in double. The formulas are those of ONNX's operators: with
// a = x W^T + h R^T + both biases per gate, clipped before every activation,
//
//   RNN   h' = f(a)
//   GRU   z = f(a_z), r = f(a_r), n = g(x W_h^T + b + (r h) R_h^T + rb), or with
//         linear_before_reset g(x W_h^T + b + r (h R_h^T + rb));  h' = (1 - z) n + z h
//   LSTM  i = f(a_i + p_i c), j = f(a_f + p_f c) (input_forget: 1 - i), n = g(a_c),
//         c' = j c + i n, o = f(a_o + p_o c'), h' = o h(c')
//
// States keep double between steps; results are rounded once. Beyond a sequence's length y is 0.
#include <algorithm>
#include <cmath>

#include "kernels/recurrent.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

class Recurrent {
 public:
  Recurrent(const Operands& operands, RecurrentForm form)
      : form_(std::move(form)), op_(operands.op()) {
    for (std::size_t i = 0; i < 8; ++i) in_.emplace_back(operands.in(i));
    for (std::size_t i = 0; i < 3; ++i) out_.emplace_back(operands.out(i));
  }

  // Doubles of the workspace: h, c, the gates' inputs, and r h, for one sequence.
  Int room_elems() const { return (2 + form_.gates + 1) * form_.hidden; }

  Status run(const KernelArguments& arguments) const {
    const auto* lengths = static_cast<const std::int32_t*>(in_buffer(arguments, kRecurrentLengths));
    MEZZO_RETURN_IF_ERROR(check_lengths(form_, op_, lengths));
    for (Int d = 0; d < form_.directions; ++d) {
      for (Int b = 0; b < form_.batch; ++b) {
        run_sequence(arguments, d, b, lengths != nullptr ? lengths[b] : form_.steps);
      }
    }
    return ok_status();
  }

 private:
  double read(const KernelArguments& arguments, std::size_t operand, Int place) const {
    const void* data = in_buffer(arguments, operand);
    return data == nullptr ? 0.0 : in_[operand].read<double>(data, place);
  }
  void write(const KernelArguments& arguments, std::size_t result, Int place, double value) const {
    void* data = out_buffer(arguments, result);
    if (data != nullptr) out_[result].write<double>(data, place, value);
  }

  void run_sequence(const KernelArguments& arguments, Int d, Int b, Int length) const {
    const Int h_size = form_.hidden;
    auto* h = static_cast<double*>(arguments.workspace);
    double* c = h + h_size;
    double* gates = c + h_size;
    double* reset = gates + form_.gates * h_size;
    const Int state = form_.state_row(d, b);
    for (Int k = 0; k < h_size; ++k) {
      h[k] = read(arguments, kRecurrentInitialH, state + k);
      c[k] = is_lstm() ? read(arguments, kRecurrentInitialC, state + k) : 0.0;
    }
    for (Int step = 0; step < form_.steps; ++step) {
      const bool inside = step < length;
      const Int t = inside ? recurrent_time(form_.is_backward(d), step, length) : step;
      if (inside) {
        for (Int k = 0; k < form_.gates * h_size; ++k) {
          gates[k] = input_part(arguments, d, form_.x_row(t, b), k);
        }
        if (is_lstm()) {
          lstm_step(arguments, d, h, c, gates);
        } else if (form_.cell == RecurrentCell::kGru) {
          gru_step(arguments, d, h, gates, reset);
        } else {
          for (Int k = 0; k < h_size; ++k) gates[k] += recurrent_part(arguments, d, h, k);
          for (Int k = 0; k < h_size; ++k) h[k] = activate(d, 0, gates[k]);
        }
      }
      for (Int k = 0; k < h_size; ++k) {
        write(arguments, 0, form_.y_row(t, d, b) + k, inside ? h[k] : 0.0);
      }
    }
    for (Int k = 0; k < h_size; ++k) {
      write(arguments, 1, state + k, h[k]);
      if (is_lstm()) write(arguments, 2, state + k, c[k]);
    }
  }

  bool is_lstm() const { return form_.cell == RecurrentCell::kLstm; }
  Int width() const { return form_.gates * form_.hidden; }

  double activate(Int d, std::size_t which, double x) const {
    if (std::fabs(x) > form_.clip) x = std::copysign(form_.clip, x);
    return activated(form_.activation(d, which), x);
  }

  // x W^T + the first bias of row k of the gates.
  double input_part(const KernelArguments& arguments, Int d, Int x_row, Int k) const {
    double sum = read(arguments, kRecurrentBias, d * 2 * width() + k);
    const Int w_row = (d * width() + k) * form_.input;
    for (Int i = 0; i < form_.input; ++i) {
      sum += read(arguments, 0, x_row + i) * read(arguments, 1, w_row + i);
    }
    return sum;
  }
  // h R^T + the second bias.
  double recurrent_part(const KernelArguments& arguments, Int d, const double* h, Int k) const {
    double sum = read(arguments, kRecurrentBias, d * 2 * width() + width() + k);
    const Int r_row = (d * width() + k) * form_.hidden;
    for (Int i = 0; i < form_.hidden; ++i) sum += h[i] * read(arguments, 2, r_row + i);
    return sum;
  }

  void gru_step(const KernelArguments& arguments, Int d, double* h, double* gates,
                double* reset) const {
    const Int n = form_.hidden;
    for (Int k = 0; k < 2 * n; ++k) {
      gates[k] = activate(d, 0, gates[k] + recurrent_part(arguments, d, h, k));
    }
    const double* r = gates + n;
    for (Int k = 0; k < n; ++k) {
      reset[k] = form_.linear_before_reset ? recurrent_part(arguments, d, h, 2 * n + k) * r[k]
                                           : r[k] * h[k];
    }
    for (Int k = 0; k < n; ++k) {
      const double recurrent =
          form_.linear_before_reset ? reset[k] : recurrent_part(arguments, d, reset, 2 * n + k);
      gates[2 * n + k] = activate(d, 1, gates[2 * n + k] + recurrent);
    }
    for (Int k = 0; k < n; ++k) {
      h[k] = (1.0 - gates[k]) * gates[2 * n + k] + gates[k] * h[k];
    }
  }

  void lstm_step(const KernelArguments& arguments, Int d, double* h, double* c,
                 double* gates) const {
    const Int n = form_.hidden;
    for (Int k = 0; k < 4 * n; ++k) gates[k] += recurrent_part(arguments, d, h, k);
    const auto peephole = [&](Int gate, Int k) {
      return read(arguments, kRecurrentPeepholes, (d * 3 + gate) * n + k);
    };
    for (Int k = 0; k < n; ++k) {
      const double in = activate(d, 0, gates[k] + peephole(0, k) * c[k]);
      const double forget =
          form_.input_forget ? 1.0 - in : activate(d, 0, gates[2 * n + k] + peephole(2, k) * c[k]);
      c[k] = forget * c[k] + in * activate(d, 1, gates[3 * n + k]);
      const double out = activate(d, 0, gates[n + k] + peephole(1, k) * c[k]);
      h[k] = out * activate(d, 2, c[k]);
    }
  }

  RecurrentForm form_;
  std::string op_;
  std::vector<Elements> in_, out_;
};

PreparedKernel prepare(const KernelRequest& request, std::string_view signature) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, signature));
  MEZZO_ASSIGN_OR_RETURN(RecurrentForm form, read_recurrent(request));
  Recurrent layer(operands, std::move(form));
  const std::size_t bytes = doubles_bytes(layer.room_elems());
  return make_kernel(
      [layer = std::move(layer)](const KernelArguments& arguments) { return layer.run(arguments); },
      bytes);
}

}  // namespace

PreparedKernel prepare_recurrent(const KernelRequest& request) {
  return prepare(request, "x:f w:f r:f b?:f sequence_lens?:j initial_h?:f -> y?:f y_h?:f");
}

PreparedKernel prepare_lstm(const KernelRequest& request) {
  return prepare(request,
                 "x:f w:f r:f b?:f sequence_lens?:j initial_h?:f initial_c?:f p?:f -> y?:f y_h?:f "
                 "y_c?:f");
}

}  // namespace mezzo::kernels::reference
