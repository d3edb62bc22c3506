// Gradients of RNN, LSTM and GRU of float32, float16 and bfloat16 in any mixture: in float32, by
// the products and activations of this folder. Sequences of a step and rows of products run on
// different threads.
//
// Workspace: operands and results that are not float32 lie there as such, then what
// back-propagation needs.
#include "kernels/recurrent_grad.h"

#include "kernels/cpu/recurrent_layer.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr ProductKind kKind = ProductKind::kFloat32;

struct FloatMath {
  const Isa* isa = nullptr;
  int threads = 1;

  Int panel_elems(Int columns, Int depth) const {
    return panel_bytes(*isa, kKind, columns, depth) / static_cast<Int>(sizeof(float));
  }
  void pack(const float* b, Int k_stride, Int j_stride, Int columns, Int depth, float* to) const {
    pack_panels(*isa, kKind, b, k_stride, j_stride, columns, depth, to, threads);
  }
  void multiply(Int rows, Int columns, Int depth, const float* a, Int a_stride, const float* panels,
                float* c, Int c_stride) const {
    const Product product = {kKind, rows, columns, depth, a_stride, c_stride};
    run_product(*isa, product, a, panels, c, threads);
  }
  void activate(const ActivationChoice& choice, float* values, Int n) const {
    const float* x = values;
    if (const ElementwiseLoop loop = activation_loop(*isa, choice.kind)) {
      const float parameters[2] = {static_cast<float>(choice.alpha),
                                   static_cast<float>(choice.beta)};
      loop(&x, values, n, parameters);
      return;
    }
    for (Int i = 0; i < n; ++i) {
      values[i] = static_cast<float>(activated(choice, static_cast<double>(values[i])));
    }
  }
  template <typename Body>
  void in_parallel(Int units, Int elems, Body&& body) const {
    parallel_units(units, threads_for(elems, threads), [&](Int unit, int) { body(unit); });
  }
};

using Backward = RecurrentBackward<float, FloatMath>;

struct Plan {
  RecurrentForm form;
  std::string op;
  FloatMath math;
  TensorDesc in[kRecurrentGradOperands], out[kRecurrentGradResults];
  Int room_elems = 0;

  Status run(const KernelArguments& arguments) const {
    const Isa& isa = *math.isa;
    RecurrentGradArrays<float> arrays;
    arrays.lengths = static_cast<const std::int32_t*>(in_buffer(arguments, kRecurrentGradLengths));
    MEZZO_RETURN_IF_ERROR(check_lengths(form, op, arrays.lengths));
    Room<float> room(static_cast<float*>(arguments.workspace));
    for (std::size_t i = 0; i < kRecurrentGradOperands; ++i) {
      if (i == kRecurrentGradLengths || !in[i].present()) continue;
      float* numbers = in[i].dtype == DType::kFloat32 ? nullptr : room.take(in[i].elems());
      arrays.in[i] = floats(isa, in[i].dtype, in_buffer(arguments, i), 0, in[i].elems(), numbers);
    }
    for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
      if (out_buffer(arguments, i) == nullptr) continue;
      float* numbers = out[i].dtype == DType::kFloat32 ? nullptr : room.take(out[i].elems());
      arrays.out[i] = float_target(out[i].dtype, out_buffer(arguments, i), 0, numbers);
    }
    Backward backward(form, math, in[10].present());
    backward.run(arrays, room.take(room_elems));
    for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
      if (arrays.out[i] == nullptr) continue;
      flush(isa, out[i].dtype, arrays.out[i], out_buffer(arguments, i), 0, out[i].elems());
    }
    return ok_status();
  }
};

}  // namespace

Prepared prepare_recurrent_grad(const KernelRequest& request, const Isa& isa) {
  Plan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.form, read_recurrent_grad(request));
  const RecurrentForm& form = plan.form;
  if (form.hidden == 0 || form.batch == 0 || form.steps == 0 || form.input == 0) {
    return unimplemented("empty operands");
  }
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 1U << kRecurrentGradLengths));
  plan.op = request.op;
  plan.math = {&isa, std::max(request.threads, 1)};
  Int elems = 0;
  const auto add = [&](const TensorDesc& desc) {
    if (desc.present() && desc.dtype != DType::kFloat32) elems += desc.elems() + 16;
  };
  for (std::size_t i = 0; i < kRecurrentGradOperands; ++i) {
    plan.in[i] = in_desc(request, i);
    if (i != kRecurrentGradLengths) add(plan.in[i]);
  }
  for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
    plan.out[i] = out_desc(request, i);
    add(plan.out[i]);
  }
  plan.room_elems = Backward(form, plan.math, plan.in[10].present()).room_elems();
  const auto bytes = static_cast<std::size_t>(elems + plan.room_elems) * sizeof(float);
  return make_kernel(isa, bytes, [plan = std::move(plan)](const KernelArguments& arguments) {
    return plan.run(arguments);
  });
}

}  // namespace mezzo::kernels::cpu
