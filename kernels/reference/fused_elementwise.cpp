// FusedElementwise: a program of elementwise operations (kernels/element_program.h) on operands
// that broadcast to the result. Everything between is double; the program's own casts round.
#include "kernels/element_program.h"
#include "kernels/reference/broadcast_result.h"
#include "kernels/reference/element.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

double compute(const ElementStatement& statement, double a, double b, double c) {
  if (statement.op == ElementOp::kToHalf) return decode(encode<Float16>(a));
  if (statement.op == ElementOp::kToBrain) return decode(encode<BFloat16>(a));
  return compute_formula(statement.op, a, b, c, statement.alpha, statement.beta);
}

struct View {
  Elements elements;
  Dims strides;  // within the result's dims
};

// The program's result; `results` has room for those of all statements.
double run_program(const ElementProgram& program, const std::vector<double>& operands,
                   std::vector<double>& results) {
  for (std::size_t i = 0; i < program.statements.size(); ++i) {
    const ElementStatement& statement = program.statements[i];
    double numbers[3] = {};
    for (std::size_t k = 0; k < statement.sources.size() && k < 3; ++k) {
      const ElementSource& source = statement.sources[k];
      const auto index = static_cast<std::size_t>(source.index);
      numbers[k] = source.kind == ElementSource::Kind::kOperand  ? operands[index]
                   : source.kind == ElementSource::Kind::kResult ? results[index]
                                                                 : source.number;
    }
    results[i] = compute(statement, numbers[0], numbers[1], numbers[2]);
  }
  return results.back();
}

}  // namespace

PreparedKernel prepare_fused_elementwise(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v... -> y:v"));
  MEZZO_RETURN_IF_ERROR(expect_broadcast_result(operands));
  if (operands.in_count() > static_cast<std::size_t>(kMaxElementOperands)) {
    return operands.error("more than " + std::to_string(kMaxElementOperands) + " operands");
  }
  const DType dtype = operands.out(0).dtype;
  if (!is_floating(dtype) && dtype != DType::kBool) {
    return operands.out_error(0, "expected a floating dtype or bool");
  }
  MEZZO_ASSIGN_OR_RETURN(
      ElementProgram program,
      parse_element_program(request.attributes.get_string("program", ""), operands.in_count()));
  const Dims& dims = operands.out(0).dims;
  std::vector<View> views;
  for (std::size_t i = 0; i < operands.in_count(); ++i) {
    views.push_back({Elements(operands.in(i)), broadcast_strides(operands.in(i), dims)});
  }
  std::vector<double> values(views.size()), results(program.statements.size());
  return make_kernel([program = std::move(program), views = std::move(views), dims,
                      values = std::move(values), results = std::move(results),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) mutable {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      for (std::size_t k = 0; k < views.size(); ++k) {
        std::int64_t offset = 0, left = i;
        for (std::size_t d = dims.size(); d > 0; --d) {
          offset += left % dims[d - 1] * views[k].strides[d - 1];
          left /= dims[d - 1];
        }
        values[k] = views[k].elements.read_at<double>(arguments.inputs[k], offset);
      }
      y.write<double>(arguments.outputs[0], i, run_program(program, values, results));
    }
  });
}

}  // namespace mezzo::kernels::reference
