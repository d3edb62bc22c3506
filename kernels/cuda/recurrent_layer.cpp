#include "kernels/cuda/recurrent_layer.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

StatusOr<MatrixProduct> MatrixProduct::make(const KernelRequest& parent, bool turned_a,
                                            bool turned_b, Int m, Int n, Int k) {
  KernelRequest request;
  request.op = "MatMulT";
  request.device = parent.device;
  request.threads = parent.threads;
  request.attributes.set("trans_a", std::int64_t{turned_a ? 1 : 0});
  request.attributes.set("trans_b", std::int64_t{turned_b ? 1 : 0});
  const auto matrix = [](Int rows, Int columns) {
    return TensorDesc{DType::kFloat32, {rows, columns}, Layout::kRowMajor};
  };
  request.inputs = {turned_a ? matrix(k, m) : matrix(m, k), turned_b ? matrix(n, k) : matrix(k, n)};
  request.outputs = {matrix(m, n)};
  MEZZO_ASSIGN_OR_RETURN(auto kernel, prepare_kernel(request));
  MatrixProduct product;
  product.kernel_ = std::move(kernel);
  return product;
}

Status MatrixProduct::run(const float* a, const float* b, float* y, void* workspace,
                          const KernelArguments& arguments) const {
  const void* const inputs[] = {a, b};
  void* const outputs[] = {y};
  KernelArguments own{inputs, outputs};
  own.workspace = workspace;
  own.stream = arguments.stream;
  return kernel_->run(own);
}

StatusOr<RecurrentLayer> RecurrentLayer::make(const KernelRequest& request,
                                              const RecurrentForm& form, std::size_t first,
                                              bool keeps, WorkspaceParts& parts) {
  RecurrentLayer layer;
  layer.form_ = form;
  layer.first_ = first;
  layer.keeps_ = keeps;
  for (std::size_t i = 0; i < layer.operands_.size(); ++i) {
    Operand& operand = layer.operands_[i];
    operand.desc = in_desc(request, first + i);
    if (layer.is_brought(i)) operand.at = parts.take_floats(operand.desc.elems());
  }
  const Int n = form.hidden;
  const Int states = form.batch * n;
  const Int all = layer.rows() * n;
  const bool lstm = layer.is_lstm();
  const bool gru = layer.is_gru();
  layer.gates_ = parts.take_floats(layer.rows() * layer.width());
  layer.sums_ = parts.take_floats(form.batch * layer.first_width());
  layer.last_sums_ = parts.take_floats(gru ? states : 0);
  layer.h_ = parts.take_floats(states);
  layer.c_ = parts.take_floats(lstm ? states : 0);
  layer.reset_ = parts.take_floats(layer.resets_first() ? states : 0);
  if (keeps) {
    layer.old_h_ = parts.take_floats(all);
    layer.old_c_ = parts.take_floats(lstm ? all : 0);
    layer.new_c_ = parts.take_floats(layer.operands_[7].desc.present() ? all : 0);
    layer.bent_c_ = parts.take_floats(lstm ? all : 0);
    layer.extra_ = parts.take_floats(gru ? all : 0);
  }
  MEZZO_ASSIGN_OR_RETURN(layer.project_, MatrixProduct::make(request, false, true, layer.rows(),
                                                             layer.width(), form.input));
  MEZZO_ASSIGN_OR_RETURN(
      layer.recur_, MatrixProduct::make(request, false, true, form.batch, layer.first_width(), n));
  if (gru) {
    MEZZO_ASSIGN_OR_RETURN(layer.recur_last_,
                           MatrixProduct::make(request, false, true, form.batch, n, n));
  }
  return layer;
}

// The initial states are read where they are needed.
bool RecurrentLayer::is_brought(std::size_t i) const {
  if (i == kRecurrentLengths || i == kRecurrentInitialH || i == kRecurrentInitialC) return false;
  return operands_[i].desc.present() && operands_[i].desc.dtype != DType::kFloat32;
}

std::size_t RecurrentLayer::product_bytes() const {
  return std::max(
      {project_.workspace_bytes(), recur_.workspace_bytes(), recur_last_.workspace_bytes()});
}

const float* RecurrentLayer::operand(const KernelArguments& arguments, std::size_t i) const {
  const TensorDesc& desc = operands_[i].desc;
  if (!desc.present()) return nullptr;
  if (desc.dtype != DType::kFloat32) return floats_at(arguments, operands_[i].at);
  return static_cast<const float*>(in_buffer(arguments, first_ + i));
}

const float* RecurrentLayer::w(const KernelArguments& arguments, Int d) const {
  return operand(arguments, 1) + d * width() * form_.input;
}
const float* RecurrentLayer::r(const KernelArguments& arguments, Int d) const {
  return operand(arguments, 2) + d * width() * form_.hidden;
}

Status RecurrentLayer::begin(const KernelArguments& arguments) const {
  const auto lengths = first_ + kRecurrentLengths;
  MEZZO_RETURN_IF_ERROR(check_recurrent_lengths(
      static_cast<const std::int32_t*>(in_buffer(arguments, lengths)), form_.batch, form_.steps,
      arguments, static_cast<std::int32_t>(lengths)));
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!is_brought(i)) continue;
    const TensorDesc& desc = operands_[i].desc;
    MEZZO_RETURN_IF_ERROR(to_floats(in_buffer(arguments, first_ + i), desc.dtype, 0, desc.elems(),
                                    floats_at(arguments, operands_[i].at), arguments.stream));
  }
  return ok_status();
}

RecurrentArrays RecurrentLayer::arrays(const KernelArguments& arguments, Int d) const {
  RecurrentArrays arrays;
  arrays.lengths =
      static_cast<const std::int32_t*>(in_buffer(arguments, first_ + kRecurrentLengths));
  if (const float* bias = operand(arguments, kRecurrentBias)) {
    arrays.first_bias = bias + d * 2 * width();
    arrays.second_bias = arrays.first_bias + width();
  }
  const float* looks = operand(arguments, kRecurrentPeepholes);
  if (looks != nullptr) arrays.peepholes = looks + d * 3 * form_.hidden;
  arrays.gates = floats_at(arguments, gates_);
  arrays.sums = floats_at(arguments, sums_);
  arrays.h = floats_at(arguments, h_);
  if (is_gru()) arrays.last_sums = floats_at(arguments, last_sums_);
  if (is_lstm()) arrays.c = floats_at(arguments, c_);
  if (resets_first()) arrays.reset = floats_at(arguments, reset_);
  if (!keeps_) return arrays;
  arrays.old_h = floats_at(arguments, old_h_);
  if (is_lstm()) arrays.old_c = floats_at(arguments, old_c_);
  if (is_lstm()) arrays.bent_c = floats_at(arguments, bent_c_);
  if (looks != nullptr) arrays.new_c = floats_at(arguments, new_c_);
  if (is_gru()) arrays.extra = floats_at(arguments, extra_);
  return arrays;
}

Status RecurrentLayer::run(const KernelArguments& arguments, Int d, void* y, DType y_dtype,
                           void* products) const {
  const RecurrentPlan plan = this->plan(d);
  RecurrentArrays arrays = this->arrays(arguments, d);
  arrays.y = y;
  arrays.y_dtype = y_dtype;
  void* const stream = arguments.stream;
  const Int n = form_.hidden;
  const float* const r = this->r(arguments, d);
  const float* const last_r = r + 2 * n * n;
  MEZZO_RETURN_IF_ERROR(
      project_.run(operand(arguments, 0), w(arguments, d), arrays.gates, products, arguments));
  const auto load = [&](std::size_t which, float* to) {
    const void* from = in_buffer(arguments, first_ + which);
    return load_state(plan, from, initial_dtype(which), to, stream);
  };
  MEZZO_RETURN_IF_ERROR(load(kRecurrentInitialH, arrays.h));
  if (is_lstm()) MEZZO_RETURN_IF_ERROR(load(kRecurrentInitialC, arrays.c));
  for (float* kept : {arrays.old_h, arrays.old_c, arrays.new_c, arrays.extra}) {
    if (kept != nullptr) MEZZO_RETURN_IF_ERROR(fill_zeros(kept, rows() * n, stream));
  }
  for (Int step = 0; step < form_.steps; ++step) {
    MEZZO_RETURN_IF_ERROR(recur_.run(arrays.h, r, arrays.sums, products, arguments));
    if (is_gru() && !resets_first()) {
      MEZZO_RETURN_IF_ERROR(
          recur_last_.run(arrays.h, last_r, arrays.last_sums, products, arguments));
    }
    MEZZO_RETURN_IF_ERROR(forward_step(plan, arrays, step, stream));
    if (!resets_first()) continue;
    MEZZO_RETURN_IF_ERROR(
        recur_last_.run(arrays.reset, last_r, arrays.last_sums, products, arguments));
    MEZZO_RETURN_IF_ERROR(finish_step(plan, arrays, step, stream));
  }
  return ok_status();
}

Status expect_recurrent(const KernelRequest& request, const RecurrentForm& form,
                        std::size_t lengths) {
  if (form.hidden == 0 || form.batch == 0 || form.steps == 0 || form.input == 0) {
    return unimplemented("empty operands");
  }
  const auto fits = [](const TensorDesc& desc) {
    return !desc.present() || desc.dtype == DType::kFloat32 || is_low(desc.dtype);
  };
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (i != lengths && !fits(request.inputs[i])) return unimplemented("operands of float64");
  }
  for (const TensorDesc& desc : request.outputs) {
    if (!fits(desc)) return unimplemented("results of float64");
  }
  return ok_status();
}

Status length_error(const std::string& op, std::int64_t steps, const DeviceFault& fault) {
  return invalid_argument(op + ", operand 4 'sequence_lens': element " +
                          std::to_string(fault.position) + " is " + std::to_string(fault.value) +
                          ", expected 0 to " + std::to_string(steps));
}

}  // namespace mezzo::kernels::cuda
