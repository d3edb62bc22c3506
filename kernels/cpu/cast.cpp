// Cast between floats of 16, 32 and 64 bits, integers and bool. Equal types are copied.
//
// To an integer, numbers are truncated toward zero and saturate at the type's ends, NaN gives 0, as
// the reference has it; integers to integers keep their low bits. Towards 16 bits everything is
// rounded once.
#include "kernels/cpu/convert.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;

// The type blocks pass through: their own, or float32 for 16-bit floats.
DType between(DType from, DType to) {
  if (is_low(from)) return DType::kFloat32;
  if (is_low(to) && from == DType::kBool) return DType::kFloat32;
  return from;
}

void cast_piece(const Isa& isa, DType from, DType to, const KernelArguments& arguments, Int first,
                Int n) {
  const DType loop = between(from, to);
  BlockRoom room;
  for (Int done = first; done < first + n; done += kBlock) {
    const Int count = std::min(kBlock, first + n - done);
    // Straight into the result where it is of the type between.
    void* target = block_target(to, loop, arguments.outputs[0], done, room.bytes);
    const void* block = load_block(isa, from, loop, arguments.inputs[0], done, count, target);
    store_block(isa, to, loop, block, arguments.outputs[0], done, count);
  }
}

}  // namespace

Prepared prepare_cast(const KernelRequest& request, const Isa& isa) {
  const DType from = request.inputs[0].dtype;
  const DType to = request.outputs[0].dtype;
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  if (from == to) return prepare_copy(request, isa);
  if (!is_convertible(from) || !is_convertible(to)) {
    return unimplemented("from " + std::string(dtype_name(from)) + " to " +
                         std::string(dtype_name(to)));
  }
  const Int elems = request.inputs[0].elems();
  return make_kernel(
      isa, 0, [from, to, elems, threads = request.threads, &isa](const KernelArguments& arguments) {
        parallel_units(ceil_div(elems, kPiece), threads_for(elems, threads), [&](Int unit, int) {
          const Int first = unit * kPiece;
          cast_piece(isa, from, to, arguments, first, std::min(kPiece, elems - first));
        });
      });
}

}  // namespace mezzo::kernels::cpu
