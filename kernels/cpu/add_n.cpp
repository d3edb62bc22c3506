// AddN, Sum and Mean: any number of tensors of the result's dims, or single numbers. Floats of up
// to 32 bits are added in float32, with a double among them in double, integers in their own type.
#include <array>

#include "kernels/cpu/convert.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;

struct Term {
  DType dtype;
  bool single;  // one number for all elements
};

struct Plan {
  const Isa* isa = nullptr;
  std::vector<Term> terms;
  DType loop = DType::kNone;
  DType out = DType::kNone;
  TypedLoop add = nullptr;
  TypedLoop divide = nullptr;        // null: no mean
  std::array<std::byte, 8> count{};  // of the terms, in the loop's type
};

const void* load_term(const Plan& plan, const KernelArguments& arguments, std::size_t k, Int first,
                      Int n, BlockRoom& room) {
  const Term& term = plan.terms[k];
  const void* data = arguments.inputs[k];
  if (!term.single) return load_block(*plan.isa, term.dtype, plan.loop, data, first, n, room.bytes);
  std::array<std::byte, 8> value;
  const void* one = load_block(*plan.isa, term.dtype, plan.loop, data, 0, 1, value.data());
  fill_elements(plan.loop, one, room.bytes, n);
  return room.bytes;
}

// y[first..first + n) = x0 + x1 + ..., in order; n <= kBlock.
void add_block(const Plan& plan, const KernelArguments& arguments, Int first, Int n) {
  BlockRoom sum, room;
  void* out = arguments.outputs[0];
  void* target = block_target(plan.out, plan.loop, out, first, sum.bytes);
  const void* so_far = load_term(plan, arguments, 0, first, n, sum);
  const auto join = [&](TypedLoop loop, const void* other, void* to) {
    const void* both[2] = {so_far, other};
    loop(both, to, n, nullptr);
    so_far = to;
  };
  for (std::size_t k = 1; k < plan.terms.size(); ++k) {
    const bool is_last = k + 1 == plan.terms.size() && plan.divide == nullptr;
    join(plan.add, load_term(plan, arguments, k, first, n, room), is_last ? target : sum.bytes);
  }
  if (plan.divide != nullptr) {
    fill_elements(plan.loop, plan.count.data(), room.bytes, n);
    join(plan.divide, room.bytes, target);
  }
  if (so_far != target) {  // a single term
    std::copy_n(static_cast<const std::byte*>(so_far), n * elem_bytes(plan.loop),
                static_cast<std::byte*>(target));
  }
  store_block(*plan.isa, plan.out, plan.loop, target, out, first, n);
}

}  // namespace

Prepared prepare_add_n(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  const TensorDesc& y = request.outputs[0];
  Plan plan;
  plan.isa = &isa;
  plan.out = y.dtype;
  plan.loop = is_floating(y.dtype) ? DType::kFloat32 : y.dtype;
  if (y.dtype == DType::kFloat64) plan.loop = DType::kFloat64;
  for (const TensorDesc& x : request.inputs) {
    const bool single = x.elems() == 1;
    if (!single && (x.dims.size() > y.dims.size() || x.elems() != y.elems())) {
      return unimplemented("operands that are broadcast along some dims");
    }
    plan.terms.push_back({x.dtype, single});
    if (x.dtype == DType::kFloat64) plan.loop = DType::kFloat64;
  }
  plan.add = isa.typed(ElementwiseOp::kAdd, plan.loop);
  if (plan.add == nullptr) return unimplemented("operands of " + std::string(dtype_name(y.dtype)));
  if (request.op == "Mean") {
    plan.divide = isa.typed(ElementwiseOp::kDiv, plan.loop);
    const auto count = static_cast<double>(request.inputs.size());
    isa.cast(DType::kFloat64, plan.loop)(&count, plan.count.data(), 1);
  }
  const Int elems = y.elems();
  return make_kernel(
      isa, 0, [plan, elems, threads = request.threads](const KernelArguments& arguments) {
        parallel_units(ceil_div(elems, kPiece), threads_for(elems, threads), [&](Int unit, int) {
          const Int end = std::min(elems, (unit + 1) * kPiece);
          for (Int first = unit * kPiece; first < end; first += kBlock) {
            add_block(plan, arguments, first, std::min(kBlock, end - first));
          }
        });
      });
}

}  // namespace mezzo::kernels::cpu
