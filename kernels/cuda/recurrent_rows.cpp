// RNN, LSTM, GRU and their gradients, in float32 whatever the operands. The
// gradients compute gates and states again from the operands, then go from the
// last step to the first (kernels/recurrent_grad.h has the formulas).
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/recurrent_layer.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/recurrent_grad.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::string_view kName = "cuda:recurrent";

Prepared recurrent(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const RecurrentForm form, read_recurrent(request));
  MEZZO_RETURN_IF_ERROR(expect_recurrent(request, form, kRecurrentLengths));
  WorkspaceParts parts;
  MEZZO_ASSIGN_OR_RETURN(RecurrentLayer layer,
                         RecurrentLayer::make(request, form, 0, false, parts));
  const std::size_t products = parts.used();
  const std::size_t bytes = products + layer.product_bytes();
  std::array<DType, 3> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = out_desc(request, i).dtype;
  return make_kernel(
      kName, bytes,
      [layer = std::move(layer), products, out](const KernelArguments& arguments) {
        MEZZO_RETURN_IF_ERROR(layer.begin(arguments));
        for (Int d = 0; d < layer.form().directions; ++d) {
          MEZZO_RETURN_IF_ERROR(layer.run(arguments, d, out_buffer(arguments, 0), out[0],
                                          floats_at(arguments, products)));
          const RecurrentPlan plan = layer.plan(d);
          const RecurrentArrays arrays = layer.arrays(arguments, d);
          MEZZO_RETURN_IF_ERROR(
              store_state(plan, arrays.h, out_buffer(arguments, 1), out[1], arguments.stream));
          if (!layer.is_lstm()) continue;
          MEZZO_RETURN_IF_ERROR(
              store_state(plan, arrays.c, out_buffer(arguments, 2), out[2], arguments.stream));
        }
        return ok_status();
      },
      [op = request.op, steps = form.steps](const DeviceFault& fault) {
        return length_error(op, steps, fault);
      });
}

// The way back through one layer.
class Backward {
 public:
  static StatusOr<Backward> make(const KernelRequest& request, const RecurrentForm& form) {
    Backward way;
    WorkspaceParts parts;
    MEZZO_ASSIGN_OR_RETURN(way.layer_,
                           RecurrentLayer::make(request, form, kRecurrentGradForward, true, parts));
    for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
      way.results_[i] = out_desc(request, i);
      const bool is_state = i == 4 || i == 5;
      if (way.results_[i].present() && !is_state && way.results_[i].dtype != DType::kFloat32) {
        way.result_at_[i] = parts.take_floats(way.results_[i].elems());
      }
    }
    for (std::size_t i = 0; i < kRecurrentGradForward; ++i) way.dy_[i] = in_desc(request, i);
    MEZZO_RETURN_IF_ERROR(way.lay_out(parts));
    MEZZO_RETURN_IF_ERROR(way.prepare_products(request));
    MEZZO_RETURN_IF_ERROR(way.prepare_sums(parts));
    way.products_at_ = parts.used();
    return way;
  }

  std::size_t workspace_bytes() const {
    std::size_t most = layer_.product_bytes();
    for (const MatrixProduct* product :
         {&to_h_, &last_to_h_, &to_w_, &to_r_, &last_to_r_, &to_x_}) {
      most = std::max(most, product->workspace_bytes());
    }
    return products_at_ + most;
  }

  Status run(const KernelArguments& arguments) const {
    MEZZO_RETURN_IF_ERROR(layer_.begin(arguments));
    if (dy_[0].present()) {
      MEZZO_RETURN_IF_ERROR(to_floats(arguments.inputs[0], dy_[0].dtype, 0, dy_[0].elems(),
                                      floats_at(arguments, dy_at_), arguments.stream));
    }
    for (Int d = 0; d < layer_.form().directions; ++d) {
      MEZZO_RETURN_IF_ERROR(run_direction(arguments, d));
    }
    for (std::size_t i = 0; i < kRecurrentGradResults; ++i) {
      if (result_at_[i] == 0) continue;
      MEZZO_RETURN_IF_ERROR(from_floats(floats_at(arguments, result_at_[i]), results_[i].elems(),
                                        arguments.outputs[i], results_[i].dtype, arguments.stream));
    }
    return ok_status();
  }

 private:
  Status lay_out(WorkspaceParts& parts) {
    const RecurrentForm& form = layer_.form();
    const Int states = form.batch * form.hidden;
    dy_at_ = parts.take_floats(dy_[0].present() ? dy_[0].elems() : 0);
    near_ = parts.take_floats(states);
    far_ = parts.take_floats(layer_.is_gru() ? states : 0);
    last_gates_ = parts.take_floats(layer_.is_gru() ? layer_.rows() * form.hidden : 0);
    spread_ = parts.take_floats(form.directions > 1 ? layer_.rows() * form.input : 0);
    return ok_status();
  }

  Status prepare_products(const KernelRequest& request) {
    const RecurrentForm& form = layer_.form();
    const Int n = form.hidden;
    const Int rows = layer_.rows();
    const Int width = layer_.width();
    const auto make = [&](MatrixProduct& to, bool turned, Int m, Int columns, Int k) {
      MEZZO_ASSIGN_OR_RETURN(to, MatrixProduct::make(request, turned, false, m, columns, k));
      return ok_status();
    };
    MEZZO_RETURN_IF_ERROR(make(to_h_, false, form.batch, n, layer_.first_width()));
    if (layer_.is_gru()) {
      MEZZO_RETURN_IF_ERROR(make(last_to_h_, false, form.batch, n, n));
      if (results_[2].present()) MEZZO_RETURN_IF_ERROR(make(last_to_r_, true, n, n, rows));
    }
    if (results_[0].present()) MEZZO_RETURN_IF_ERROR(make(to_x_, false, rows, form.input, width));
    if (results_[1].present()) MEZZO_RETURN_IF_ERROR(make(to_w_, true, width, form.input, rows));
    if (results_[2].present()) MEZZO_RETURN_IF_ERROR(make(to_r_, true, width, n, rows));
    return ok_status();
  }

  // The gradients of the biases: sums over all rows.
  Status prepare_sums(WorkspaceParts& parts) {
    if (!results_[3].present()) return ok_status();
    const auto shape = [&](Int columns, ReducePlan& plan) {
      plan.x = plan.y = DType::kFloat32;
      shape_reduction({DType::kFloat32, {layer_.rows(), columns}, Layout::kRowMajor}, {true, false},
                      {0, 1}, plan);
    };
    shape(layer_.width(), bias_sums_);
    shape(layer_.form().hidden, last_bias_sums_);
    const std::size_t most = std::max(bias_sums_.partial_bytes(), last_bias_sums_.partial_bytes());
    partial_ = parts.take_floats(static_cast<Int>(most / sizeof(float)));
    return ok_status();
  }

  float* result(const KernelArguments& arguments, std::size_t i) const {
    if (!results_[i].present()) return nullptr;
    return result_at_[i] != 0 ? floats_at(arguments, result_at_[i])
                              : static_cast<float*>(arguments.outputs[i]);
  }

  Status run_direction(const KernelArguments& arguments, Int d) const {
    void* const products = floats_at(arguments, products_at_);
    MEZZO_RETURN_IF_ERROR(layer_.run(arguments, d, nullptr, DType::kNone, products));
    const RecurrentPlan plan = layer_.plan(d);
    RecurrentArrays arrays = layer_.arrays(arguments, d);
    arrays.near = floats_at(arguments, near_);
    if (layer_.is_gru()) {
      arrays.far = floats_at(arguments, far_);
      arrays.last_gates = floats_at(arguments, last_gates_);
      MEZZO_RETURN_IF_ERROR(
          fill_zeros(arrays.last_gates, layer_.rows() * plan.hidden, arguments.stream));
    }
    if (dy_[0].present()) arrays.dy = floats_at(arguments, dy_at_);
    MEZZO_RETURN_IF_ERROR(run_steps(arguments, plan, arrays, products));
    void* const stream = arguments.stream;
    MEZZO_RETURN_IF_ERROR(
        store_state(plan, arrays.h, out_buffer(arguments, 4), results_[4].dtype, stream));
    if (layer_.is_lstm()) {
      MEZZO_RETURN_IF_ERROR(
          store_state(plan, arrays.c, out_buffer(arguments, 5), results_[5].dtype, stream));
    }
    MEZZO_RETURN_IF_ERROR(write_weights(arguments, plan, arrays, products));
    return write_inputs(arguments, plan, arrays, products);
  }

  Status run_steps(const KernelArguments& arguments, const RecurrentPlan& plan,
                   const RecurrentArrays& arrays, void* products) const {
    void* const stream = arguments.stream;
    const float* const r = layer_.r(arguments, plan.direction);
    const float* const last_r = r + 2 * plan.hidden * plan.hidden;
    MEZZO_RETURN_IF_ERROR(
        load_state(plan, in_buffer(arguments, 1), dy_[1].dtype, arrays.h, stream));
    if (layer_.is_lstm()) {
      MEZZO_RETURN_IF_ERROR(
          load_state(plan, in_buffer(arguments, 2), dy_[2].dtype, arrays.c, stream));
    }
    for (Int step = plan.steps - 1; step >= 0; --step) {
      MEZZO_RETURN_IF_ERROR(backward_step(plan, arrays, step, stream));
      if (layer_.is_gru()) {
        MEZZO_RETURN_IF_ERROR(
            last_to_h_.run(arrays.last_sums, last_r, arrays.far, products, arguments));
        if (layer_.resets_first()) {
          MEZZO_RETURN_IF_ERROR(backward_reset(plan, arrays, step, stream));
        }
      }
      MEZZO_RETURN_IF_ERROR(to_h_.run(arrays.sums, r, arrays.near, products, arguments));
      MEZZO_RETURN_IF_ERROR(join_states(plan, arrays, step, stream));
    }
    return ok_status();
  }

  Status write_weights(const KernelArguments& arguments, const RecurrentPlan& plan,
                       const RecurrentArrays& arrays, void* products) const {
    const Int n = plan.hidden;
    const Int d = plan.direction;
    if (float* dw = result(arguments, 1)) {
      MEZZO_RETURN_IF_ERROR(to_w_.run(arrays.gates, layer_.operand(arguments, 0),
                                      dw + d * plan.width * layer_.form().input, products,
                                      arguments));
    }
    if (float* all = result(arguments, 2)) {
      float* const dr = all + d * plan.width * n;
      MEZZO_RETURN_IF_ERROR(to_r_.run(arrays.gates, arrays.old_h, dr, products, arguments));
      if (layer_.is_gru()) {  // the candidate sees r h, or is seen through the
                              // reset
        const float* const a = layer_.resets_first() ? arrays.last_gates : arrays.extra;
        const float* const b = layer_.resets_first() ? arrays.extra : arrays.old_h;
        MEZZO_RETURN_IF_ERROR(last_to_r_.run(a, b, dr + 2 * n * n, products, arguments));
      }
    }
    if (float* all = result(arguments, 3)) {
      MEZZO_RETURN_IF_ERROR(write_biases(arguments, plan, arrays, all + d * 2 * plan.width));
    }
    if (float* all = result(arguments, 6)) {
      MEZZO_RETURN_IF_ERROR(peephole_gradients(plan, arrays, all + d * 3 * n, arguments.stream));
    }
    return ok_status();
  }

  // Both biases have the same gradient, but for a candidate that is seen
  // through the reset.
  Status write_biases(const KernelArguments& arguments, const RecurrentPlan& plan,
                      const RecurrentArrays& arrays, float* db) const {
    void* const partial = floats_at(arguments, partial_);
    for (float* to : {db, db + plan.width}) {
      MEZZO_RETURN_IF_ERROR(
          run_reduction(bias_sums_, arrays.gates, to, partial, nullptr, false, arguments.stream));
    }
    if (!layer_.is_gru() || layer_.resets_first()) return ok_status();
    return run_reduction(last_bias_sums_, arrays.extra, db + plan.width + 2 * plan.hidden, partial,
                         nullptr, false, arguments.stream);
  }

  Status write_inputs(const KernelArguments& arguments, const RecurrentPlan& plan,
                      const RecurrentArrays& arrays, void* products) const {
    float* const dx = result(arguments, 0);
    if (dx == nullptr) return ok_status();
    const Int d = plan.direction;
    float* const to = d == 0 ? dx : floats_at(arguments, spread_);
    MEZZO_RETURN_IF_ERROR(to_x_.run(arrays.gates, layer_.w(arguments, d), to, products, arguments));
    if (d == 0) return ok_status();
    return add_floats(to, layer_.rows() * layer_.form().input, dx, arguments.stream);
  }

  RecurrentLayer layer_;
  std::array<TensorDesc, kRecurrentGradForward> dy_;
  std::array<TensorDesc, kRecurrentGradResults> results_;
  std::array<std::size_t, kRecurrentGradResults> result_at_{};  // 0: in the result itself
  std::size_t dy_at_ = 0, near_ = 0, far_ = 0, last_gates_ = 0, spread_ = 0;
  std::size_t partial_ = 0, products_at_ = 0;
  MatrixProduct to_h_, last_to_h_, to_w_, to_r_, last_to_r_, to_x_;
  ReducePlan bias_sums_, last_bias_sums_;
};

Prepared recurrent_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const RecurrentForm form, read_recurrent_grad(request));
  MEZZO_RETURN_IF_ERROR(expect_recurrent(request, form, kRecurrentGradLengths));
  MEZZO_ASSIGN_OR_RETURN(Backward way, Backward::make(request, form));
  const std::size_t bytes = way.workspace_bytes();
  return make_kernel(
      kName, bytes,
      [way = std::move(way)](const KernelArguments& arguments) { return way.run(arguments); },
      [op = request.op, steps = form.steps](const DeviceFault& fault) {
        return length_error(op, steps, fault);
      });
}

constexpr KernelEntry kRows[] = {
    {"RNN", kName, recurrent},           {"LSTM", kName, recurrent},
    {"GRU", kName, recurrent},           {"RNNGrad", kName, recurrent_grad},
    {"LSTMGrad", kName, recurrent_grad}, {"GRUGrad", kName, recurrent_grad},
};

}  // namespace

std::span<const KernelEntry> recurrent_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
