// ScatterElements, ScatterND: a copy of the data in which elements named by indices are replaced by
// updates or joined with them, in the order of the updates. Letters: U updates of S elements:
// update u belongs at slot p(u) of the data, seen as slots of S elements.
//
// The words (slot, u) are sorted: what belongs to one slot stands together, in the order of the
// updates, and one thread joins it. Sums and products of floating dtypes in double with one
// rounding, integers wrapping, bools as or and and; NaN wins max and min.
#include <string>
#include <utility>

#include "kernels/cuda/element.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/index_fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sort_words.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

enum class Join : std::int32_t { kReplace, kAdd, kMul, kMax, kMin };

constexpr std::uint64_t kNoSlot = 0xffffffffU;  // of an index out of range: behind all others

// Update number u is the tuple indices[u][0 .. numbers), slots[d] apart along dim d of the data.
// ScatterElements: tuples of one number along the axis, on top of the offset in `places`.
struct SlotPlan {
  Int updates = 0;
  std::int32_t numbers = 1, wide = 0;
  Int sizes[kMaxDims] = {}, slots[kMaxDims] = {};
  StridedIndex<1> places;
  std::int32_t has_places = 0;
};

__global__ void make_slot_words(SlotPlan plan, const void* indices, std::uint64_t* words,
                                FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int u = blockIdx.x * Int{blockDim.x} + threadIdx.x; u < plan.updates; u += step) {
    Int slot[1] = {0};
    if (plan.has_places != 0) plan.places.offsets(u, slot);
    bool inside = true;
    for (int k = 0; k < plan.numbers; ++k) {
      const Int at = u * plan.numbers + k;
      const Int index = checked_index(load_index(indices, at, plan.wide), plan.sizes[k], place, at);
      inside = inside && index >= 0;
      slot[0] += index * plan.slots[k];
    }
    const std::uint64_t high = inside ? static_cast<std::uint64_t>(slot[0]) : kNoSlot;
    words[u] = (high << 32) | static_cast<std::uint64_t>(u);
  }
}

__device__ inline std::uint64_t slot_of(std::uint64_t word) { return word >> 32; }
__device__ inline Int update_of(std::uint64_t word) { return static_cast<Int>(word & 0xffffffffU); }

// The last update of a slot stays.
template <typename U>
__global__ void replace_slots(const std::uint64_t* words, Int count, Divisor slice,
                              const U* updates, U* y) {
  const Int all = count * slice.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += step) {
    Int s = 0;
    const Int i = slice.divide(number, s);
    const std::uint64_t slot = slot_of(words[i]);
    if (slot == kNoSlot || (i + 1 < count && slot_of(words[i + 1]) == slot)) continue;
    y[static_cast<Int>(slot) * slice.value() + s] =
        updates[update_of(words[i]) * slice.value() + s];
  }
}

// flips: uint64, whose numbers stand as the bits of int64.
template <typename T>
__device__ T joined(Join join, T a, T b, bool flips) {
  if constexpr (std::is_integral_v<T>) {
    const auto left = static_cast<std::uint64_t>(a);
    const auto right = static_cast<std::uint64_t>(b);
    switch (join) {
      case Join::kAdd: return static_cast<T>(left + right);
      case Join::kMul: return static_cast<T>(left * right);
      case Join::kMax: return (flips ? left < right : a < b) ? b : a;
      default: return (flips ? right < left : b < a) ? b : a;
    }
  } else {
    switch (join) {
      case Join::kAdd: return a + b;
      case Join::kMul: return a * b;
      case Join::kMax: return a != a || !(a < b || b != b) ? a : b;
      default: return a != a || !(b < a || b != b) ? a : b;
    }
  }
}

template <typename T>
__global__ void join_slots(const std::uint64_t* words, Int count, Divisor slice, Join join,
                           DType dtype, const void* updates, void* y) {
  const Int all = count * slice.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += step) {
    Int s = 0;
    Int i = slice.divide(number, s);
    const std::uint64_t slot = slot_of(words[i]);
    if (slot == kNoSlot || (i > 0 && slot_of(words[i - 1]) == slot)) continue;
    const Int at = static_cast<Int>(slot) * slice.value() + s;
    T value = load_element<T>(y, at, dtype);
    for (; i < count && slot_of(words[i]) == slot; ++i) {
      const T update = load_element<T>(updates, update_of(words[i]) * slice.value() + s, dtype);
      value = joined(join, value, update, dtype == DType::kUInt64);
    }
    store_element<T>(y, at, dtype, value);
  }
}

namespace {

constexpr std::string_view kName = "cuda:sorted";
constexpr Int kMostSlots = 0xffffffff;

struct ScatterPlan {
  SlotPlan slots;
  Int slice = 1;
  Join join = Join::kReplace;
  DType dtype = DType::kNone;
  Int element_bytes = 1;
  std::size_t bytes = 0;  // of the data
};

Join read_join(const KernelRequest& request) {
  const std::string name = request.attributes.get_string("reduction", "none");
  if (name == "add") return Join::kAdd;
  if (name == "mul") return Join::kMul;
  if (name == "max") return Join::kMax;
  return name == "min" ? Join::kMin : Join::kReplace;
}

// Bools as numbers 0 and 1: a sum is their union, a product their intersection.
Join join_of(Join join, DType dtype) {
  if (dtype != DType::kBool) return join;
  if (join == Join::kAdd) return Join::kMax;
  return join == Join::kMul ? Join::kMin : join;
}

Status replace(const ScatterPlan& plan, const std::uint64_t* words,
               const KernelArguments& arguments) {
  const Int unit = common_unit(kWidestUnit / plan.element_bytes, plan.slice);
  const Int slice = plan.slice / unit;
  return with_unit(plan.element_bytes * unit, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    return launch<replace_slots<U>>(shape_for(plan.slots.updates * slice), arguments.stream, words,
                                    plan.slots.updates, Divisor(slice),
                                    static_cast<const U*>(arguments.inputs[2]),
                                    static_cast<U*>(arguments.outputs[0]));
  });
}

Status run_scatter(const ScatterPlan& plan, const KernelArguments& arguments) {
  if (plan.bytes > 0 && arguments.outputs[0] != arguments.inputs[0]) {
    MEZZO_RETURN_IF_ERROR(check(
        "cudaMemcpyAsync",
        cudaMemcpyAsync(arguments.outputs[0], arguments.inputs[0], plan.bytes,
                        cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(arguments.stream))));
  }
  const Int updates = plan.slots.updates;
  if (updates == 0) return ok_status();
  auto* words = static_cast<std::uint64_t*>(arguments.workspace);
  MEZZO_RETURN_IF_ERROR(launch<make_slot_words>(shape_for(updates), arguments.stream, plan.slots,
                                                arguments.inputs[1], words,
                                                fault_place(arguments)));
  if (plan.slice == 0) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(
      const std::uint64_t* sorted,
      sort_words<std::uint64_t>({1, updates}, words, words + updates, arguments.stream));
  if (plan.join == Join::kReplace) return replace(plan, sorted, arguments);
  const auto shape = shape_for(updates * plan.slice);
  const Join join = join_of(plan.join, plan.dtype);
  return is_floating(plan.dtype)
             ? launch<join_slots<double>>(shape, arguments.stream, sorted, updates,
                                          Divisor(plan.slice), join, plan.dtype,
                                          arguments.inputs[2], arguments.outputs[0])
             : launch<join_slots<std::int64_t>>(shape, arguments.stream, sorted, updates,
                                                Divisor(plan.slice), join, plan.dtype,
                                                arguments.inputs[2], arguments.outputs[0]);
}

StatusOr<ScatterPlan> read_plan(const KernelRequest& request) {
  const TensorDesc& data = request.inputs[0];
  ScatterPlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.element_bytes, movable_bytes(data.dtype));
  plan.join = read_join(request);
  plan.dtype = data.dtype;
  plan.bytes = data.bytes();
  plan.slots.wide = request.inputs[1].dtype == DType::kInt64 ? 1 : 0;
  if (plan.join != Join::kReplace && !has_elements(plan.dtype)) return unimplemented("dtype");
  return plan;
}

Prepared scatter_kernel(const ScatterPlan& plan, Int slots, Explain explain) {
  if (slots >= kMostSlots || plan.slots.updates >= kMostSlots) {
    return unimplemented("2^32 elements or updates, or more");
  }
  return make_kernel(
      kName, static_cast<std::size_t>(plan.slots.updates) * 2 * sizeof(std::uint64_t),
      [plan](const KernelArguments& arguments) { return run_scatter(plan, arguments); },
      std::move(explain));
}

Prepared scatter_elements(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(ScatterPlan plan, read_plan(request));
  const TensorDesc& data = request.inputs[0];
  const std::size_t axis = axis_of(request, "axis", 0, data.dims.size());
  Dims strides = strides_within(data, data.dims);
  SlotPlan& slots = plan.slots;
  slots.updates = request.inputs[1].elems();
  slots.sizes[0] = data.dims[axis];
  slots.slots[0] = strides[axis];
  strides[axis] = 0;
  slots.places = make_index<1>(request.inputs[1].dims, {strides});
  slots.has_places = 1;
  return scatter_kernel(plan, data.elems(), explain_index(request.op, data.dims[axis]));
}

Prepared scatter_nd(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(ScatterPlan plan, read_plan(request));
  const Dims& data = request.inputs[0].dims;
  const Dims& indices = request.inputs[1].dims;
  const auto k = static_cast<std::size_t>(indices.back());
  SlotPlan& slots = plan.slots;
  slots.numbers = static_cast<std::int32_t>(k);
  slots.updates = 1;
  for (std::size_t d = 0; d + 1 < indices.size(); ++d) slots.updates *= indices[d];
  for (std::size_t d = k; d < data.size(); ++d) plan.slice *= data[d];
  Dims sizes(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(k));
  Int all = 1;
  for (std::size_t d = k; d > 0; --d) {
    slots.sizes[d - 1] = data[d - 1];
    slots.slots[d - 1] = all;
    all *= data[d - 1];
  }
  return scatter_kernel(
      plan, all, [sizes = std::move(sizes), op = request.op](const DeviceFault& fault) {
        return index_error(op, fault,
                           sizes[static_cast<std::size_t>(fault.position) % sizes.size()]);
      });
}

constexpr KernelEntry kRows[] = {{"ScatterElements", kName, scatter_elements},
                                 {"ScatterND", kName, scatter_nd}};

}  // namespace

std::span<const KernelEntry> scatter_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
