// Any number of operands: AddN of equal dims, Sum and Mean with ONNX's multidirectional
// broadcasting. Added from left to right in double (integers exactly) and rounded once.
#include "kernels/reference/broadcast_result.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

struct Term {
  Elements elements;
  Dims strides;  // within the result's dims
};

// Offset of the element of a view with row-major number `index` in `dims`.
std::int64_t offset_in(const Dims& dims, const Dims& strides, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d > 0; --d) {
    offset += index % dims[d - 1] * strides[d - 1];
    index /= dims[d - 1];
  }
  return offset;
}

template <typename T>
PreparedKernel sum_kernel(const Operands& operands, bool mean) {
  std::vector<Term> terms;
  const Dims& dims = operands.out(0).dims;
  for (std::size_t i = 0; i < operands.in_count(); ++i) {
    terms.push_back({Elements(operands.in(i)), broadcast_strides(operands.in(i), dims)});
  }
  return make_kernel([terms = std::move(terms), dims, mean,
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      T sum{};
      for (std::size_t k = 0; k < terms.size(); ++k) {
        sum += terms[k].elements.template read_at<T>(arguments.inputs[k],
                                                     offset_in(dims, terms[k].strides, i));
      }
      if (mean) sum /= static_cast<T>(terms.size());
      y.write<T>(arguments.outputs[0], i, sum);
    }
  });
}

PreparedKernel prepare_sum(const Operands& operands, bool mean) {
  if (is_floating(operands.in(0).dtype)) return sum_kernel<double>(operands, mean);
  return sum_kernel<Integer>(operands, mean);
}

}  // namespace

PreparedKernel prepare_add_n(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n... -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  for (std::size_t i = 0; i < operands.in_count(); ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in(i, operands.in(0).dims));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return prepare_sum(operands, false);
}

PreparedKernel prepare_variadic(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n... -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(expect_broadcast_result(operands));
  return prepare_sum(operands, request.op == "Mean");
}

}  // namespace mezzo::kernels::reference
