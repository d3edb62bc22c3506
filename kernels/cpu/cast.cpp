// Cast. Between float32, float16, bfloat16 and bool it is an elementwise operation; equal types
// are copied; integers of 8, 32 and 64 bits go to and from the floating types and each other here.
//
// To an integer, numbers are truncated toward zero and saturate at the type's ends, NaN gives 0, as
// the reference has it.
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;

template <typename To, typename From>
To cast_one(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The ends as floats: the lower one is exact, the upper one may be one above the greatest.
    constexpr auto kLeast = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kGreatest = static_cast<From>(std::numeric_limits<To>::max());
    if (!(value >= kLeast)) return std::isnan(value) ? To{} : std::numeric_limits<To>::min();
    if (value >= kGreatest) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void cast_run(const void* from, void* to, Int n) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  for (Int i = 0; i < n; ++i) out[i] = cast_one<To>(in[i]);
}

using CastRun = void (*)(const void* from, void* to, Int n);

template <typename From>
CastRun cast_from(DType to) {
  switch (to) {
    case DType::kFloat32: return cast_run<From, float>;
    case DType::kBool: return cast_run<From, bool>;
    case DType::kUInt8: return cast_run<From, std::uint8_t>;
    case DType::kInt8: return cast_run<From, std::int8_t>;
    case DType::kInt32: return cast_run<From, std::int32_t>;
    case DType::kInt64: return cast_run<From, std::int64_t>;
    default: return nullptr;
  }
}

CastRun find_cast(DType from, DType to) {
  switch (from) {
    case DType::kFloat32: return cast_from<float>(to);
    case DType::kBool:  // bytes, whatever they hold
    case DType::kUInt8: return cast_from<std::uint8_t>(to);
    case DType::kInt8: return cast_from<std::int8_t>(to);
    case DType::kInt32: return cast_from<std::int32_t>(to);
    case DType::kInt64: return cast_from<std::int64_t>(to);
    default: return nullptr;
  }
}

// A low type passes through float32. From a wide integer that would round twice.
DType through(DType dtype) { return is_low(dtype) ? DType::kFloat32 : dtype; }

struct Plan {
  const Isa* isa = nullptr;
  CastRun run = nullptr;
  DType from = DType::kNone, to = DType::kNone;
  Int from_bytes = 0, to_bytes = 0;
};

void cast_piece(const Plan& plan, const void* x, void* y, Int first, Int n) {
  alignas(64) float room[kBlock];
  for (Int done = 0; done < n; done += kBlock) {
    const Int count = std::min(kBlock, n - done);
    const void* from = static_cast<const char*>(x) + (first + done) * plan.from_bytes;
    void* to = static_cast<char*>(y) + (first + done) * plan.to_bytes;
    if (is_low(plan.from)) {
      plan.isa->unpack(plan.from, from, room, count);
      from = room;
    }
    plan.run(from, is_low(plan.to) ? room : to, count);
    if (is_low(plan.to)) plan.isa->pack(plan.to, room, to, count);
  }
}

bool is_elementwise(DType dtype) { return is_packed_float(dtype) || dtype == DType::kBool; }

}  // namespace

Prepared prepare_cast(const KernelRequest& request, const Isa& isa) {
  const DType from = request.inputs[0].dtype;
  const DType to = request.outputs[0].dtype;
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  if (from == to) return prepare_copy(request, isa);
  if (is_elementwise(from) && is_elementwise(to)) return prepare_elementwise(request, isa);
  if ((from == DType::kInt32 || from == DType::kInt64) && is_low(to)) {
    return unimplemented("from 32 or more bits to 16 would round twice");
  }
  Plan plan{&isa,
            find_cast(through(from), through(to)),
            from,
            to,
            dtype_bits(from) / 8,
            dtype_bits(to) / 8};
  if (plan.run == nullptr) {
    return unimplemented("from " + std::string(dtype_name(from)) + " to " +
                         std::string(dtype_name(to)));
  }
  const Int elems = request.inputs[0].elems();
  return make_kernel(
      isa, 0, [plan, elems, threads = request.threads](const KernelArguments& arguments) {
        parallel_units(ceil_div(elems, kPiece), threads_for(elems, threads), [&](Int unit, int) {
          const Int first = unit * kPiece;
          cast_piece(plan, arguments.inputs[0], arguments.outputs[0], first,
                     std::min(kPiece, elems - first));
        });
      });
}

}  // namespace mezzo::kernels::cpu
