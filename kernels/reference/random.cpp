// Dropout with the counter-based random numbers of kernels/philox.h, and its gradient.
//
// Without a counter (ONNX's Dropout) the runs of the kernel are counted instead.
#include "kernels/philox.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

StatusOr<double> read_ratio(const Operands& operands) {
  const double ratio = operands.attributes().get_float("ratio", 0.5);
  if (ratio >= 0.0 && ratio <= 1.0) return ratio;
  return operands.error("attribute 'ratio' is " + std::to_string(ratio) + ", expected 0 to 1");
}

}  // namespace

// y = x mask / (1 - ratio); what is dropped is 0 even if x is not finite.
PreparedKernel prepare_dropout(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f counter?:l -> y:f mask?:b"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(1));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const double ratio, read_ratio(operands));
  return make_kernel([seed = static_cast<std::uint64_t>(request.attributes.get_int("seed", 0)),
                      threshold = dropout_threshold(ratio), scale = dropout_scale(ratio),
                      x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      mask = Elements(operands.out(1)),
                      runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
    const auto* counter = static_cast<const std::int64_t*>(in_buffer(arguments, 1));
    const std::uint64_t step = counter != nullptr ? static_cast<std::uint64_t>(*counter) : runs++;
    void* mask_data = out_buffer(arguments, 1);
    PhiloxBlock words{};
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const auto word = static_cast<std::size_t>(i % 4);
      if (word == 0) words = dropout_block(seed, step, static_cast<std::uint64_t>(i / 4));
      const bool keep = words[word] >= threshold;
      y.write<double>(arguments.outputs[0], i,
                      keep ? x.read<double>(arguments.inputs[0], i) * scale : 0.0);
      if (mask_data != nullptr) mask.write<Integer>(mask_data, i, keep ? 1 : 0);
    }
  });
}

PreparedKernel prepare_dropout_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f mask:b -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const double ratio, read_ratio(operands));
  return make_kernel([scale = dropout_scale(ratio), dy = Elements(operands.in(0)),
                      mask = Elements(operands.in(1)),
                      dx = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < dx.count(); ++i) {
      const bool keep = mask.read<Integer>(arguments.inputs[1], i) != 0;
      dx.write<double>(arguments.outputs[0], i,
                       keep ? dy.read<double>(arguments.inputs[0], i) * scale : 0.0);
    }
  });
}

}  // namespace mezzo::kernels::reference
