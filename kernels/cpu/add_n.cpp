// AddN: the sum of any number of tensors of equal dims.
#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;

// y[first..first + n) = x0 + x1 + ..., in order.
void add_piece(const Isa& isa, const std::vector<DType>& dtypes, DType out,
               const KernelArguments& arguments, Int first, Int n) {
  const ElementwiseLoop add = isa.elementwise(ElementwiseOp::kAdd);
  const float none[2] = {0.0F, 0.0F};
  alignas(64) float sum[kBlock];
  alignas(64) float room[kBlock];
  for (Int done = 0; done < n; done += kBlock) {
    const Int at_elem = first + done;
    const Int count = std::min(kBlock, n - done);
    float* target = float_target(out, arguments.outputs[0], at_elem, sum);
    const float* so_far = floats(isa, dtypes[0], arguments.inputs[0], at_elem, count, sum);
    for (std::size_t i = 1; i < dtypes.size(); ++i) {
      const float* both[2] = {so_far,
                              floats(isa, dtypes[i], arguments.inputs[i], at_elem, count, room)};
      add(both, target, count, none);
      so_far = target;
    }
    if (so_far != target) std::copy_n(so_far, count, target);
    flush(isa, out, target, arguments.outputs[0], at_elem, count);
  }
}

}  // namespace

Prepared prepare_add_n(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  std::vector<DType> dtypes;
  for (const TensorDesc& x : request.inputs) dtypes.push_back(x.dtype);
  const Int elems = request.outputs[0].elems();
  return make_kernel(
      isa, 0,
      [&isa, dtypes, out = request.outputs[0].dtype, elems,
       threads = request.threads](const KernelArguments& arguments) {
        parallel_units(ceil_div(elems, kPiece), threads_for(elems, threads), [&](Int unit, int) {
          const Int first = unit * kPiece;
          add_piece(isa, dtypes, out, arguments, first, std::min(kPiece, elems - first));
        });
      });
}

}  // namespace mezzo::kernels::cpu
