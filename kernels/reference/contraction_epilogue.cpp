// MatMulActivation, MatMulActivationGrad and MatMulSums: MatMulT and what its write-back does.
//
// Workspace: the product as doubles, then what the reference kernel of MatMulT needs. Everything is
// computed in double and rounded once.
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/support/text.h"
#include "kernels/formulas/elementwise.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh };

StatusOr<Activation> activation_of(const Operands& operands, bool may_be_none) {
  const std::string name = operands.attributes().get_string("activation", "none");
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "none" && may_be_none) return Activation::kNone;
  return operands.error("activation: expected " + std::string(may_be_none ? "none, " : "") +
                        "relu or gelu_tanh, got '" + printable(name) + "'");
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return formulas::relu(x);
    case Activation::kGeluTanh: return formulas::gelu_tanh(x);
  }
  return x;
}

double times_derivative(Activation activation, double dy, double x) {
  if (activation == Activation::kRelu) return x > 0.0 ? dy : 0.0;
  return formulas::gelu_tanh_grad(dy, x);
}

// The kernel of MatMulT over the first two operands, with a result of doubles.
struct Product {
  std::shared_ptr<Kernel> kernel;
  std::int64_t elems = 0;

  std::size_t workspace_bytes() const { return doubles_bytes(elems) + kernel->workspace_bytes(); }
  // Into the first `elems` doubles of the workspace.
  StatusOr<double*> run(const KernelArguments& arguments) const {
    auto* values = static_cast<double*>(arguments.workspace);
    void* outputs[] = {values};
    const KernelArguments inner = {arguments.inputs.first(2), outputs, values + elems};
    MEZZO_RETURN_IF_ERROR(kernel->run(inner));
    return values;
  }
};

StatusOr<Product> prepare_product(const KernelRequest& request) {
  KernelRequest inner{"MatMulT", request.attributes, {}, {}};
  inner.inputs = {request.inputs[0], request.inputs[1]};
  inner.outputs = {request.outputs[0]};
  inner.outputs[0].dtype = DType::kFloat64;
  inner.outputs[0].layout = Layout::kRowMajor;
  MEZZO_ASSIGN_OR_RETURN(auto kernel, prepare_matmul_t(inner));
  return Product{std::move(kernel), request.outputs[0].elems()};
}

}  // namespace

// y = f(alpha op(a) op(b) + bias[N]); pre: what f was given.
PreparedKernel prepare_matmul_activation(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "a:f b:f bias?:f -> y:f pre?:f"));
  MEZZO_ASSIGN_OR_RETURN(const Activation activation, activation_of(operands, true));
  MEZZO_ASSIGN_OR_RETURN(const Product product, prepare_product(request));
  const Dims& dims = operands.out(0).dims;
  const std::int64_t columns = dims.back();
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {columns}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, dims));
  const auto elements = [](const TensorDesc& desc) {
    return desc.present() ? std::optional<Elements>(desc) : std::nullopt;
  };
  return make_kernel(
      [product, activation, columns, bias = elements(operands.in(2)), y = Elements(operands.out(0)),
       pre = elements(operands.out(1))](const KernelArguments& arguments) -> Status {
        MEZZO_ASSIGN_OR_RETURN(const double* values, product.run(arguments));
        for (std::int64_t i = 0; i < product.elems; ++i) {
          double value = values[i];
          if (bias) value += bias->read<double>(arguments.inputs[2], i % columns);
          if (pre) pre->write<double>(arguments.outputs[1], i, value);
          y.write<double>(arguments.outputs[0], i, activated(activation, value));
        }
        return ok_status();
      },
      product.workspace_bytes());
}

// y = f'(x) alpha op(a) op(b).
PreparedKernel prepare_matmul_activation_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:f b:f x:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const Activation activation, activation_of(operands, false));
  MEZZO_ASSIGN_OR_RETURN(const Product product, prepare_product(request));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, operands.out(0).dims));
  return make_kernel(
      [product, activation, x = Elements(operands.in(2)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) -> Status {
        MEZZO_ASSIGN_OR_RETURN(const double* values, product.run(arguments));
        for (std::int64_t i = 0; i < product.elems; ++i) {
          const double at = x.read<double>(arguments.inputs[2], i);
          y.write<double>(arguments.outputs[0], i, times_derivative(activation, values[i], at));
        }
        return ok_status();
      },
      product.workspace_bytes());
}

// y = alpha op(a) op(b) of matrices; sums of op(a) [M] or op(b) [N] along K.
PreparedKernel prepare_matmul_sums(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "a:f b:f -> y:f sums:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, 2));
  const std::string of = operands.attributes().get_string("of", "b");
  if (of != "a" && of != "b")
    return operands.error("of: expected a or b, got '" + printable(of) + "'");
  const std::size_t side = of == "a" ? 0 : 1;
  MEZZO_ASSIGN_OR_RETURN(const bool trans, operands.flag("trans_" + of, false));
  MEZZO_ASSIGN_OR_RETURN(const Product product, prepare_product(request));
  const Dims& dims = operands.in(side).dims;
  const bool along_last = (side == 0) != trans;  // K is the operand's last dimension
  const std::int64_t count = along_last ? dims[0] : dims[1];
  const std::int64_t length = along_last ? dims[1] : dims[0];
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, {count}));
  return make_kernel(
      [product, side, along_last, count, length, from = Elements(operands.in(side)),
       y = Elements(operands.out(0)),
       sums = Elements(operands.out(1))](const KernelArguments& arguments) -> Status {
        MEZZO_ASSIGN_OR_RETURN(const double* values, product.run(arguments));
        for (std::int64_t i = 0; i < product.elems; ++i)
          y.write<double>(arguments.outputs[0], i, values[i]);
        for (std::int64_t i = 0; i < count; ++i) {
          double sum = 0.0;
          for (std::int64_t j = 0; j < length; ++j) {
            sum += from.read<double>(arguments.inputs[side],
                                     along_last ? i * length + j : j * count + i);
          }
          sums.write<double>(arguments.outputs[1], i, sum);
        }
        return ok_status();
      },
      product.workspace_bytes());
}

}  // namespace mezzo::kernels::reference
