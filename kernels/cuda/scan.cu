// CumSum, CumProd and CumProd's gradient along one axis, and Multinomial, which draws from running
// sums. Letters, in the order of memory: O outer, L along the axis, I inner. Floats are accumulated
// in double, integers in 64 bits, wrapping; every result is rounded once.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/block_scan.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/run_counter.h"
#include "kernels/philox.h"

namespace mezzo::kernels::cuda {

constexpr int kScanThreads = 256;
constexpr int kScanItems = 4;  // per thread and round

struct ScanPlan {
  Int outer = 1, length = 1;
  Divisor inner;
  std::int32_t product = 0, exclusive = 0, reverse = 0;
  DType x = DType::kNone, y = DType::kNone;
};

template <typename T>
struct JoinRunning {
  std::int32_t product;

  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      const auto left = static_cast<std::uint64_t>(a);
      const auto right = static_cast<std::uint64_t>(b);
      return static_cast<T>(product != 0 ? left * right : left + right);
    } else {
      return product != 0 ? a * b : a + b;
    }
  }
};

// A block for every line; its lines lie together in memory (I = 1).
template <typename T>
__global__ void scan_lines(ScanPlan plan, const void* x, void* y) {
  const JoinRunning<T> join{plan.product};
  const T nothing = plan.product != 0 ? T{1} : T{0};
  for (Int line = blockIdx.x; line < plan.outer; line += gridDim.x) {
    const Int start = line * plan.length;
    T carried = nothing;
    for (Int done = 0; done < plan.length; done += kScanThreads * kScanItems) {
      const Int first = done + static_cast<Int>(threadIdx.x) * kScanItems;
      T values[kScanItems];
      T sum = nothing;
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        const Int place = plan.reverse != 0 ? plan.length - 1 - first - k : first + k;
        values[k] = first + k < plan.length ? load_element<T>(x, start + place, plan.x) : nothing;
        sum = join(sum, values[k]);
      }
      T total;
      T running = join(carried, block_scan(sum, join, nothing, total));
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        const T next = join(running, values[k]);
        const Int place = plan.reverse != 0 ? plan.length - 1 - first - k : first + k;
        if (first + k < plan.length) {
          store_element<T>(y, start + place, plan.y, plan.exclusive != 0 ? running : next);
        }
        running = next;
      }
      carried = join(carried, total);
    }
  }
}

// A thread for every line: neighbouring threads read neighbours.
template <typename T>
__global__ void scan_columns(ScanPlan plan, const void* x, void* y) {
  const JoinRunning<T> join{plan.product};
  const Int lines = plan.outer * plan.inner.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int line = blockIdx.x * Int{blockDim.x} + threadIdx.x; line < lines; line += step) {
    Int start = 0;
    start += plan.inner.divide(line, start) * plan.length * plan.inner.value();
    T running = plan.product != 0 ? T{1} : T{0};
    for (Int i = 0; i < plan.length; ++i) {
      const Int at = start + (plan.reverse != 0 ? plan.length - 1 - i : i) * plan.inner.value();
      const T next = join(running, load_element<T>(x, at, plan.x));
      store_element<T>(y, at, plan.y, plan.exclusive != 0 ? running : next);
      running = next;
    }
  }
}

// With p_i the product of the elements before i, dx_i = p_i s_i, s_i = dy_i + x_(i+1) s_(i+1);
// exclusive: s_i = dy_(i+1) + x_(i+1) s_(i+1). No division, so zeros are no exception.
// products[L][lines]. plan.x, plan.y: of dy and dx.
__global__ void cum_prod_grad(ScanPlan plan, const void* dy, const void* x, DType x_dtype, void* dx,
                              double* products) {
  const Int lines = plan.outer * plan.inner.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int line = blockIdx.x * Int{blockDim.x} + threadIdx.x; line < lines; line += step) {
    Int start = 0;
    start += plan.inner.divide(line, start) * plan.length * plan.inner.value();
    double product = 1.0;
    for (Int i = 0; i < plan.length; ++i) {
      const Int at = start + (plan.reverse != 0 ? plan.length - 1 - i : i) * plan.inner.value();
      products[i * lines + line] = product;
      product *= load_element<double>(x, at, x_dtype);
    }
    double sum = 0.0;  // x_(i+1) s_(i+1), with dy_(i+1) added if exclusive
    for (Int i = plan.length - 1; i >= 0; --i) {
      const Int at = start + (plan.reverse != 0 ? plan.length - 1 - i : i) * plan.inner.value();
      const double d = load_element<double>(dy, at, plan.x);
      const double value = load_element<double>(x, at, x_dtype);
      const double s = plan.exclusive != 0 ? sum : d + sum;
      store_element<double>(dx, at, plan.y, products[i * lines + line] * s);
      sum = plan.exclusive != 0 ? d + value * s : value * s;
    }
  }
}

struct MultinomialPlan {
  Int rows = 0, classes = 0, samples = 0;
  std::uint64_t seed = 0;
  DType x = DType::kNone, y = DType::kNone;
};

// A block for every row of x[B,C], logarithms of unnormalised probabilities; y[B,S] gets classes
// drawn by them. cumulated[B,C]: their running sums, the largest taken out.
__global__ void multinomial(MultinomialPlan plan, const Int* run, const void* x, void* y,
                            double* cumulated) {
  const auto step_number = static_cast<std::uint64_t>(*run);
  for (Int row = blockIdx.x; row < plan.rows; row += gridDim.x) {
    double largest = -static_cast<double>(INFINITY);
    for (Int c = threadIdx.x; c < plan.classes; c += kScanThreads) {
      largest = std::fmax(largest, load_element<double>(x, row * plan.classes + c, plan.x));
    }
    largest = block_max(largest, -static_cast<double>(INFINITY));
    double* const sums = cumulated + row * plan.classes;
    double carried = 0.0;
    for (Int done = 0; done < plan.classes; done += kScanThreads) {
      const Int c = done + threadIdx.x;
      const bool inside = c < plan.classes;
      const double p =
          inside ? std::exp(load_element<double>(x, row * plan.classes + c, plan.x) - largest)
                 : 0.0;
      double total;
      const double before = block_scan(p, Sum(), 0.0, total);
      if (inside) sums[c] = carried + before + p;
      carried += total;
    }
    __syncthreads();
    for (Int s = threadIdx.x; s < plan.samples; s += kScanThreads) {
      const Int number = row * plan.samples + s;
      const UniformPair u =
          philox_pair(plan.seed, step_number, static_cast<std::uint64_t>(number / 2));
      const double limit = carried * (number % 2 == 0 ? u.first : u.second);
      Int first = 0;  // of those above the limit
      Int count = plan.classes;
      while (count > 0) {
        const Int half = count / 2;
        if (limit < sums[first + half]) {
          count = half;
        } else {
          first += half + 1;
          count -= half + 1;
        }
      }
      store_element<Int>(y, number, plan.y, first < plan.classes ? first : plan.classes - 1);
    }
  }
}

namespace {

constexpr std::string_view kName = "cuda:scan";

LaunchShape blocks_of(Int units) {
  return {dim3(static_cast<unsigned>(limit_blocks(units, 1 << 16))), dim3(kScanThreads), 0};
}

ScanPlan read_plan(const KernelRequest& request) {
  const Dims& dims = request.inputs[0].dims;
  const std::size_t axis = axis_of(request, "axis", 0, dims.size());
  ScanPlan plan;
  Int inner = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    (d < axis ? plan.outer : d == axis ? plan.length : inner) *= dims[d];
  }
  plan.inner = Divisor(inner);
  plan.product = request.op == "CumSum" ? 0 : 1;
  plan.exclusive = request.attributes.get_int("exclusive", 0) != 0 ? 1 : 0;
  plan.reverse = request.attributes.get_int("reverse", 0) != 0 ? 1 : 0;
  plan.x = request.inputs[0].dtype;
  plan.y = request.outputs[0].dtype;
  return plan;
}

template <typename T>
Status run_scan(const ScanPlan& plan, const KernelArguments& arguments) {
  if (plan.inner.value() == 1) {
    return launch<scan_lines<T>>(blocks_of(plan.outer), arguments.stream, plan, arguments.inputs[0],
                                 arguments.outputs[0]);
  }
  return launch<scan_columns<T>>(shape_for(plan.outer * plan.inner.value()), arguments.stream, plan,
                                 arguments.inputs[0], arguments.outputs[0]);
}

Prepared scan(const KernelRequest& request) {
  const ScanPlan plan = read_plan(request);
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  if (!has_elements(plan.x) || !has_elements(plan.y)) return unimplemented("dtype");
  return make_kernel(kName, 0,
                     [plan, elems = request.inputs[0].elems()](const KernelArguments& arguments) {
                       if (elems == 0) return ok_status();
                       return is_floating(plan.x) ? run_scan<double>(plan, arguments)
                                                  : run_scan<std::int64_t>(plan, arguments);
                     });
}

Prepared cum_prod_grad_row(const KernelRequest& request) {
  const ScanPlan plan = read_plan(request);
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  const Int elems = request.inputs[0].elems();
  return make_kernel(kName, static_cast<std::size_t>(elems) * sizeof(double),
                     [plan, elems, x = request.inputs[1].dtype](const KernelArguments& arguments) {
                       if (elems == 0) return ok_status();
                       return launch<cum_prod_grad>(shape_for(plan.outer * plan.inner.value()),
                                                    arguments.stream, plan, arguments.inputs[0],
                                                    arguments.inputs[1], x, arguments.outputs[0],
                                                    static_cast<double*>(arguments.workspace));
                     });
}

Prepared multinomial_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MultinomialPlan plan;
  plan.rows = x.dims[0];
  plan.classes = x.dims[1];
  plan.samples = request.attributes.get_int("sample_size", 1);
  plan.seed = static_cast<std::uint64_t>(request.attributes.get_int("seed", 0));
  plan.x = x.dtype;
  plan.y = request.outputs[0].dtype;
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<RunCounter> runs, RunCounter::make());
  return make_kernel(
      kName, static_cast<std::size_t>(x.elems()) * sizeof(double),
      [plan, runs](const KernelArguments& arguments) {
        if (plan.rows > 0) {
          MEZZO_RETURN_IF_ERROR(launch<multinomial>(
              blocks_of(plan.rows), arguments.stream, plan, runs->run(), arguments.inputs[0],
              arguments.outputs[0], static_cast<double*>(arguments.workspace)));
        }
        return runs->count(arguments.stream);
      });
}

constexpr KernelEntry kRows[] = {{"CumSum", kName, scan},
                                 {"CumProd", kName, scan},
                                 {"CumProdGrad", kName, cum_prod_grad_row},
                                 {"Multinomial", kName, multinomial_row}};

}  // namespace

std::span<const KernelEntry> scan_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
