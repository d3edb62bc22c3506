// Dropout and its gradient, RandomUniform, RandomNormal, Bernoulli: the numbers of
// kernels/philox.h, which follow from (seed, run, element) alone.
//
// Where no operand counts the runs, a number on the device does, so that a replayed graph of
// kernels counts them too.
#include <cmath>
#include <numbers>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/run_counter.h"
#include "kernels/philox.h"

namespace mezzo::kernels::cuda {

constexpr int kWords = 4;  // of a Philox block

struct DropoutPlan {
  Int elems = 0;
  std::uint64_t seed = 0, threshold = 0;
  double scale = 1.0;
  DType x = DType::kNone, y = DType::kNone;
};

template <typename T>
__device__ void masked(const T (&x)[kWords], const std::uint8_t (&keep)[kWords], T scale,
                       T (&y)[kWords]) {
#pragma unroll
  for (int k = 0; k < kWords; ++k) y[k] = keep[k] != 0 ? x[k] * scale : T{0};
}

// A block of four words per thread. mask[elems] of bool, or null.
template <typename T>
__global__ void dropout(DropoutPlan plan, const Int* run, const void* x, void* y,
                        std::uint8_t* mask) {
  const auto step_number = static_cast<std::uint64_t>(*run);
  const Int blocks = ceil_div(plan.elems, kWords);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int b = blockIdx.x * Int{blockDim.x} + threadIdx.x; b < blocks; b += step) {
    const PhiloxBlock words = dropout_block(plan.seed, step_number, static_cast<std::uint64_t>(b));
    const Int first = b * kWords;
    const int count = static_cast<int>(plan.elems - first < kWords ? plan.elems - first : kWords);
    std::uint8_t keep[kWords];
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      keep[k] = words[static_cast<std::size_t>(k)] >= plan.threshold ? 1 : 0;
    }
    T values[kWords];
    load_elements<T, kWords>(x, first, plan.x, values, count);
    masked(values, keep, static_cast<T>(plan.scale), values);
    store_elements<T, kWords>(y, first, plan.y, values, count);
    if (mask == nullptr) continue;
    if (count == kWords) {
      *reinterpret_cast<uchar4*>(mask + first) = make_uchar4(keep[0], keep[1], keep[2], keep[3]);
    } else {
      for (int k = 0; k < count; ++k) mask[first + k] = keep[k];
    }
  }
}

// The same for elements in another order: `places` gives the row-major place of every element of
// memory, from which its word follows.
template <typename T>
__global__ void dropout_ordered(DropoutPlan plan, StridedIndex<1> places, const Int* run,
                                const void* x, void* y, std::uint8_t* mask) {
  const auto step_number = static_cast<std::uint64_t>(*run);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < plan.elems; i += step) {
    Int place[1];
    places.offsets(i, place);
    const PhiloxBlock words =
        dropout_block(plan.seed, step_number, static_cast<std::uint64_t>(place[0] / kWords));
    const bool keep = words[static_cast<std::size_t>(place[0] % kWords)] >= plan.threshold;
    const T value = load_element<T>(x, i, plan.x) * static_cast<T>(plan.scale);
    store_element<T>(y, i, plan.y, keep ? value : T{0});
    if (mask != nullptr) mask[i] = keep ? 1 : 0;
  }
}

template <typename T>
__global__ void dropout_grad(DropoutPlan plan, const void* dy, const std::uint8_t* mask, void* dx) {
  const Int blocks = ceil_div(plan.elems, kWords);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int b = blockIdx.x * Int{blockDim.x} + threadIdx.x; b < blocks; b += step) {
    const Int first = b * kWords;
    const int count = static_cast<int>(plan.elems - first < kWords ? plan.elems - first : kWords);
    std::uint8_t keep[kWords] = {};
    if (count == kWords) {
      const uchar4 four = *reinterpret_cast<const uchar4*>(mask + first);
      keep[0] = four.x;
      keep[1] = four.y;
      keep[2] = four.z;
      keep[3] = four.w;
    } else {
      for (int k = 0; k < count; ++k) keep[k] = mask[first + k];
    }
    T values[kWords];
    load_elements<T, kWords>(dy, first, plan.x, values, count);
    masked(values, keep, static_cast<T>(plan.scale), values);
    store_elements<T, kWords>(dx, first, plan.y, values, count);
  }
}

enum class Distribution : std::int32_t { kUniform, kNormal, kBernoulli };

struct DrawPlan {
  Distribution distribution = Distribution::kUniform;
  Int elems = 0;
  std::uint64_t seed = 0;
  double low = 0.0, range = 1.0;  // kNormal: mean and deviation
  DType x = DType::kNone, y = DType::kNone;
};

// Two numbers per thread. kUniform: low + range u. kNormal: low + range z, by Box and Muller, "A
// Note on the Generation of Random Normal Deviates", 1958. kBernoulli: 1 with probability x.
__global__ void draw_numbers(DrawPlan plan, const Int* run, const void* x, void* y) {
  const auto step_number = static_cast<std::uint64_t>(*run);
  const Int pairs = ceil_div(plan.elems, 2);
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int pair = blockIdx.x * Int{blockDim.x} + threadIdx.x; pair < pairs; pair += step) {
    const UniformPair u = philox_pair(plan.seed, step_number, static_cast<std::uint64_t>(pair));
    double numbers[2] = {u.first, u.second};
    if (plan.distribution == Distribution::kNormal) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - u.first));
      const double angle = 2.0 * std::numbers::pi * u.second;
      numbers[0] = radius * std::cos(angle);
      numbers[1] = radius * std::sin(angle);
    }
    for (int k = 0; k < 2; ++k) {
      const Int at = 2 * pair + k;
      if (at >= plan.elems) break;
      if (plan.distribution == Distribution::kBernoulli) {
        const bool one = numbers[k] < load_element<double>(x, at, plan.x);
        store_element<std::int64_t>(y, at, plan.y, one ? 1 : 0);
      } else {
        store_element<double>(y, at, plan.y, plan.low + plan.range * numbers[k]);
      }
    }
  }
}

namespace {

constexpr std::string_view kName = "cuda:philox";

DropoutPlan dropout_plan(const KernelRequest& request) {
  DropoutPlan plan;
  const double ratio = request.attributes.get_float("ratio", 0.5);
  plan.elems = request.inputs[0].elems();
  plan.seed = static_cast<std::uint64_t>(request.attributes.get_int("seed", 0));
  plan.threshold = dropout_threshold(ratio);
  plan.scale = dropout_scale(ratio);
  plan.x = request.inputs[0].dtype;
  plan.y = request.outputs[0].dtype;
  return plan;
}

bool in_double(const DropoutPlan& plan) {
  return plan.x == DType::kFloat64 || plan.y == DType::kFloat64;
}

Prepared dropout_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&x, &request.outputs[0], &out_desc(request, 1)}));
  const DropoutPlan plan = dropout_plan(request);
  // Numbers of memory to places in row-major order.
  TensorDesc dense = x;
  dense.layout = Layout::kRowMajor;
  const auto order = memory_order(x.dims.size(), x.layout);
  const auto places =
      make_index<1>(ordered(x.dims, order), {ordered(strides_within(dense, x.dims), order)});
  const bool in_order = x.layout == Layout::kRowMajor || !x.layout_matters();
  std::shared_ptr<RunCounter> runs;
  if (!in_desc(request, 1).present()) {
    MEZZO_ASSIGN_OR_RETURN(runs, RunCounter::make());
  }
  return make_kernel(kName, 0, [plan, places, in_order, runs](const KernelArguments& arguments) {
    const auto* run = runs ? runs->run() : static_cast<const Int*>(arguments.inputs[1]);
    auto* mask = static_cast<std::uint8_t*>(out_buffer(arguments, 1));
    const auto draw = [&](auto zero) {
      using T = decltype(zero);
      if (in_order) {
        return launch<dropout<T>>(shape_for(ceil_div(plan.elems, kWords)), arguments.stream, plan,
                                  run, arguments.inputs[0], arguments.outputs[0], mask);
      }
      return launch<dropout_ordered<T>>(shape_for(plan.elems), arguments.stream, plan, places, run,
                                        arguments.inputs[0], arguments.outputs[0], mask);
    };
    if (plan.elems > 0) MEZZO_RETURN_IF_ERROR(in_double(plan) ? draw(0.0) : draw(0.0F));
    return runs ? runs->count(arguments.stream) : ok_status();
  });
}

Prepared dropout_grad_row(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(
      expect_one_layout({&request.inputs[0], &request.inputs[1], &request.outputs[0]}));
  const DropoutPlan plan = dropout_plan(request);
  return make_kernel("cuda:masked", 0, [plan](const KernelArguments& arguments) {
    if (plan.elems == 0) return ok_status();
    const auto shape = shape_for(ceil_div(plan.elems, kWords));
    const auto* mask = static_cast<const std::uint8_t*>(arguments.inputs[1]);
    return in_double(plan)
               ? launch<dropout_grad<double>>(shape, arguments.stream, plan, arguments.inputs[0],
                                              mask, arguments.outputs[0])
               : launch<dropout_grad<float>>(shape, arguments.stream, plan, arguments.inputs[0],
                                             mask, arguments.outputs[0]);
  });
}

Prepared draw_row(const KernelRequest& request) {
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  const Attributes& attributes = request.attributes;
  DrawPlan plan;
  plan.elems = request.outputs[0].elems();
  plan.seed = static_cast<std::uint64_t>(attributes.get_int("seed", 0));
  plan.x = in_desc(request, 0).dtype;
  plan.y = request.outputs[0].dtype;
  if (!has_elements(plan.y)) return unimplemented("dtype");
  if (request.op == "RandomUniform") {
    plan.low = attributes.get_float("low", 0.0);
    plan.range = attributes.get_float("high", 1.0) - plan.low;
  } else if (request.op == "RandomNormal") {
    plan.distribution = Distribution::kNormal;
    plan.low = attributes.get_float("mean", 0.0);
    plan.range = attributes.get_float("scale", 1.0);
  } else {
    plan.distribution = Distribution::kBernoulli;
  }
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<RunCounter> runs, RunCounter::make());
  return make_kernel(kName, 0, [plan, runs](const KernelArguments& arguments) {
    if (plan.elems > 0) {
      MEZZO_RETURN_IF_ERROR(launch<draw_numbers>(shape_for(ceil_div(plan.elems, 2)),
                                                 arguments.stream, plan, runs->run(),
                                                 in_buffer(arguments, 0), arguments.outputs[0]));
    }
    return runs->count(arguments.stream);
  });
}

constexpr KernelEntry kRows[] = {{"Dropout", kName, dropout_row},
                                 {"DropoutGrad", "cuda:masked", dropout_grad_row},
                                 {"RandomUniform", kName, draw_row},
                                 {"RandomNormal", kName, draw_row},
                                 {"Bernoulli", kName, draw_row}};

}  // namespace

std::span<const KernelEntry> random_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
