// Dropout with the random bits of kernels/philox.h. Its gradient is an elementwise operation.
#include "kernels/cpu/common.h"
#include "kernels/philox.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;  // a multiple of 4, the numbers of a Philox block

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  std::uint64_t seed = 0;
  std::uint64_t threshold = 0;
  float scale = 1.0F;
  DType x = DType::kNone, y = DType::kNone;
  bool wants_mask = false;
  Int elems = 0;
};

void run_piece(const Plan& plan, const KernelArguments& arguments, std::uint64_t step, Int first,
               Int n) {
  const Isa& isa = *plan.isa;
  const ElementwiseLoop masked = isa.elementwise(ElementwiseOp::kDropoutGrad);
  const float parameters[2] = {plan.scale, 0.0F};
  alignas(64) std::uint8_t mask_room[kBlock];
  alignas(64) float kept[kBlock];
  alignas(64) float room[kBlock];
  for (Int done = 0; done < n; done += kBlock) {
    const Int at_elem = first + done;
    const Int count = std::min(kBlock, n - done);
    std::uint8_t* mask = mask_room;
    if (plan.wants_mask) mask = static_cast<std::uint8_t*>(arguments.outputs[1]) + at_elem;
    isa.dropout_mask(plan.seed, step, at_elem, plan.threshold, mask, count);
    isa.unpack(DType::kBool, mask, kept, count);
    const float* operands[2] = {floats(isa, plan.x, arguments.inputs[0], at_elem, count, room),
                                kept};
    masked(operands, float_target(plan.y, arguments.outputs[0], at_elem, room), count, parameters);
    flush(isa, plan.y, room, arguments.outputs[0], at_elem, count);
  }
}

}  // namespace

Prepared prepare_dropout(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0b10, 0b10));
  for (const TensorDesc* desc : {&request.inputs[0], &request.outputs[0]}) {
    // The random number of an element follows from its place in row-major order.
    if (desc->layout != Layout::kRowMajor) return unimplemented("channels-last operands");
  }
  Plan plan;
  plan.isa = &isa;
  plan.threads = request.threads;
  plan.seed = static_cast<std::uint64_t>(request.attributes.get_int("seed", 0));
  const double ratio = request.attributes.get_float("ratio", 0.5);
  plan.threshold = dropout_threshold(ratio);
  plan.scale = static_cast<float>(dropout_scale(ratio));
  plan.x = request.inputs[0].dtype;
  plan.y = request.outputs[0].dtype;
  plan.wants_mask = out_desc(request, 1).present();
  if (plan.wants_mask && request.outputs[1].layout != Layout::kRowMajor) {
    return unimplemented("a channels-last mask");
  }
  plan.elems = request.inputs[0].elems();
  return make_kernel(
      isa, 0, [plan, runs = std::uint64_t{0}](const KernelArguments& arguments) mutable {
        const auto* counter = static_cast<const std::int64_t*>(in_buffer(arguments, 1));
        const std::uint64_t step =
            counter != nullptr ? static_cast<std::uint64_t>(*counter) : runs++;
        parallel_units(ceil_div(plan.elems, kPiece), threads_for(plan.elems, plan.threads),
                       [&](Int unit, int) {
                         const Int first = unit * kPiece;
                         run_piece(plan, arguments, step, first,
                                   std::min(kPiece, plan.elems - first));
                       });
      });
}

}  // namespace mezzo::kernels::cpu
