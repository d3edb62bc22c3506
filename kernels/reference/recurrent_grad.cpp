// Gradients of RNN, LSTM and GRU in double, rounded once.
//
// Workspace: all operands and results as doubles, then what back-propagation needs.
#include "kernels/recurrent_grad.h"

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct PlainMath {
  Int panel_elems(Int columns, Int depth) const { return columns * depth; }
  void pack(const double* b, Int k_stride, Int j_stride, Int columns, Int depth, double* to) const {
    for (Int k = 0; k < depth; ++k) {
      for (Int j = 0; j < columns; ++j) *to++ = b[k * k_stride + j * j_stride];
    }
  }
  void multiply(Int rows, Int columns, Int depth, const double* a, Int a_stride,
                const double* panels, double* c, Int c_stride) const {
    for (Int i = 0; i < rows; ++i) {
      double* to = c + i * c_stride;
      std::fill_n(to, columns, 0.0);
      for (Int k = 0; k < depth; ++k) {
        const double factor = a[i * a_stride + k];
        for (Int j = 0; j < columns; ++j) to[j] += factor * panels[k * columns + j];
      }
    }
  }
  void activate(const ActivationChoice& choice, double* values, Int n) const {
    for (Int i = 0; i < n; ++i) values[i] = activated(choice, values[i]);
  }
  template <typename Body>
  void in_parallel(Int units, Int, Body&& body) const {
    for (Int unit = 0; unit < units; ++unit) body(unit);
  }
};

using Backward = RecurrentBackward<double, PlainMath>;

struct Plan {
  RecurrentForm form;
  std::string op;
  std::vector<Elements> in, out;
  std::vector<bool> takes;  // operands that are numbers and there

  bool peepholes() const { return takes[10]; }

  Status run(const KernelArguments& arguments, Int total) const {
    RecurrentGradArrays<double> arrays;
    arrays.lengths = static_cast<const std::int32_t*>(in_buffer(arguments, kRecurrentGradLengths));
    MEZZO_RETURN_IF_ERROR(check_lengths(form, op, arrays.lengths));
    Room<double> room(static_cast<double*>(arguments.workspace));
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!takes[i]) continue;
      double* numbers = room.take(in[i].count());
      in[i].unpack(in_buffer(arguments, i), numbers);
      arrays.in[i] = numbers;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out_buffer(arguments, i) != nullptr) arrays.out[i] = room.take(out[i].count());
    }
    const PlainMath math;
    Backward backward(form, math, peepholes());
    backward.run(arrays, room.take(total));
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (arrays.out[i] != nullptr) out[i].pack(arrays.out[i], out_buffer(arguments, i));
    }
    return ok_status();
  }
};

}  // namespace

PreparedKernel prepare_recurrent_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "dy?:f dy_h?:f dy_c?:f x:f w:f r:f b?:f sequence_lens?:j initial_h?:f "
                      "initial_c?:f p?:f -> dx?:f dw?:f dr?:f db?:f dinitial_h?:f dinitial_c?:f "
                      "dp?:f"));
  Plan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.form, read_recurrent_grad(request));
  plan.op = request.op;
  Int elems = 0;
  for (std::size_t i = 0; i < kRecurrentGradOperands; ++i) {
    plan.in.emplace_back(operands.in(i));
    plan.takes.push_back(i != kRecurrentGradLengths && operands.in(i).present());
    elems += plan.takes[i] ? operands.in(i).elems() + 16 : 0;
  }
  for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
    plan.out.emplace_back(operands.out(i));
    elems += operands.out(i).present() ? operands.out(i).elems() + 16 : 0;
  }
  const PlainMath math;
  const Int total = Backward(plan.form, math, plan.peepholes()).room_elems();
  return make_kernel([plan = std::move(plan), total](
                         const KernelArguments& arguments) { return plan.run(arguments, total); },
                     doubles_bytes(elems + total));
}

}  // namespace mezzo::kernels::reference
