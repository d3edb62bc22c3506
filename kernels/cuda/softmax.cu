// What is computed line by line along one axis from a sum over the line: Softmax, LogSoftmax, their
// gradients, LpNormalization and Hardmax.
//
// Letters: O outer, D along the axis, I inner: x[O,D,I] -> y[O,D,I]. Any floating dtypes, both
// layouts where all operands have the same. Statistics in float32 (float64 where an operand is).
//
//   Softmax      exp(x - m) / s, m the largest of the line, s = sum exp(x - m); Log: x - m - log s
//   SoftmaxGrad  y (dy - sum dy y)                  LogSoftmaxGrad  dy - exp(y) sum dy
//   LpNormalization  x / |x|_p, 0 where the line is 0
//   Hardmax      1 at the first of the largest (NaN above all), else 0
//
// Lines of neighbours (I = 1) are held in registers by a team of threads
// (row_walk.h); others are read twice, 32 neighbouring lines by a warp, so that accesses are whole.
#include <cmath>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/row_walk.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/softmax_line.h"

namespace mezzo::kernels::cuda {

enum class LineSum : std::uint8_t { kSoftmaxGrad, kLogSoftmaxGrad, kNorm1, kNorm2 };

// The operations, as SoftmaxLine is one.
template <typename T>
struct SumLine {
  using State = T;
  LineSum kind;

  static constexpr T kFill = T(0);
  __device__ static State nothing() { return T(0); }
  __device__ void add(State& state, T a, T b, Int) const {
    switch (kind) {
      case LineSum::kSoftmaxGrad: state += a * b; break;
      case LineSum::kLogSoftmaxGrad: state += a; break;
      case LineSum::kNorm1: state += std::fabs(a); break;
      case LineSum::kNorm2: state += a * a; break;
    }
  }
  template <typename Place>
  __device__ void add_held(State& state, const T (&a)[kHeld], const T (&b)[kHeld], Place&&) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) add(state, a[k], b[k], 0);
  }
  __device__ State operator()(State left, State right) const { return left + right; }
  __device__ State finish(State state) const {
    return kind == LineSum::kNorm2 ? std::sqrt(state) : state;
  }
  __device__ T map(State sum, T a, T b, Int) const {
    switch (kind) {
      case LineSum::kSoftmaxGrad: return b * (a - sum);
      case LineSum::kLogSoftmaxGrad: return a - std::exp(b) * sum;
      default: return sum == T(0) ? T(0) : a / sum;
    }
  }
};

template <typename T>
struct HardmaxLine {
  using State = Pair<T, Int>;  // the greatest and its place; place -1: none yet

  static constexpr T kFill = T(0);
  __device__ static State nothing() { return {T(0), -1}; }
  __device__ State operator()(const State& left, const State& right) const {
    if (left.second < 0) return right;
    if (right.second < 0) return left;
    const bool left_nan = left.first != left.first;
    const bool right_nan = right.first != right.first;
    const bool equal = left.first == right.first || (left_nan && right_nan);
    if (equal) return left.second < right.second ? left : right;
    return (right.first > left.first || right_nan) && !left_nan ? right : left;
  }
  __device__ void add(State& state, T a, T, Int place) const {
    state = (*this)(state, State{a, place});
  }
  template <typename Place>
  __device__ void add_held(State& state, const T (&a)[kHeld], const T (&)[kHeld],
                           Place&& place) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const Int at = place(k);
      if (at >= 0) add(state, a[k], T(0), at);
    }
  }
  __device__ State finish(const State& state) const { return state; }
  __device__ T map(const State& state, T, T, Int place) const {
    return place == state.second ? T(1) : T(0);
  }
};

// Lines of neighbours: x, other and y are [rows, walk.length].
template <typename T, template <typename> class Line>
__global__ void __launch_bounds__(kMostTeamThreads)
    row_lines(Line<T> line, FloatsIn x, FloatsIn other, FloatsOut y, Int rows,
              RowWalk walk_of_any) {
  T a[kHeld], b[kHeld] = {};
  for (Int row = first_row(); row < rows; row += row_step()) {
    const Int start = row * walk_of_any.length;
    const RowWalk walk = walk_of_any.from(start);
    auto state = line.nothing();
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      load_held(x, start, walk, chunk, a, Line<T>::kFill);
      if (other.data != nullptr) load_held(other, start, walk, chunk, b, T(0));
      line.add_held(state, a, b, [&](int k) {
        const Int at = walk.place(chunk, k);
        return walk.has(at) ? at : Int{-1};
      });
    }
    state = line.finish(team_reduce(state, line, line.nothing()));
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      if (walk.chunks > 1) {
        load_held(x, start, walk, chunk, a, Line<T>::kFill);
        if (other.data != nullptr) load_held(other, start, walk, chunk, b, T(0));
      }
      T mapped[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) mapped[k] = line.map(state, a[k], b[k], walk.place(chunk, k));
      store_held(y, start, walk, chunk, mapped);
    }
  }
}

// Lines whose elements lie `inner` apart. Threads of one x share a line, taking turns along it.
template <typename T, template <typename> class Line>
__global__ void __launch_bounds__(kBlockThreads)
    strided_lines(Line<T> line, FloatsIn x, FloatsIn other, FloatsOut y, Int lines, Int length,
                  Divisor inner) {
  using State = typename Line<T>::State;
  __shared__ State states[kBlockThreads];
  const Int step = std::int64_t{gridDim.x} * blockDim.x;
  for (Int first = std::int64_t{blockIdx.x} * blockDim.x; first < lines; first += step) {
    const Int number = first + threadIdx.x;
    const bool exists = number < lines;
    Int at = 0;
    const Int outer = exists ? inner.divide(number, at) : 0;
    const Int start = outer * length * inner.value() + at;
    State state = line.nothing();
    for (Int i = threadIdx.y; exists && i < length; i += blockDim.y) {
      const Int place = start + i * inner.value();
      const T a = load_float<T>(x, place);
      line.add(state, a, other.data != nullptr ? load_float<T>(other, place) : T(0), i);
    }
    if (blockDim.y > 1) {
      __syncthreads();
      states[threadIdx.y * blockDim.x + threadIdx.x] = state;
      __syncthreads();
      state = states[threadIdx.x];
      for (unsigned part = 1; part < blockDim.y; ++part) {
        state = line(state, states[part * blockDim.x + threadIdx.x]);
      }
    }
    state = line.finish(state);
    for (Int i = threadIdx.y; exists && i < length; i += blockDim.y) {
      const Int place = start + i * inner.value();
      const T a = load_float<T>(x, place);
      const T b = other.data != nullptr ? load_float<T>(other, place) : T(0);
      store_float(y, place, line.map(state, a, b, i));
    }
  }
}

namespace {

// A tensor as lines along one axis, in the order of memory.
struct LineShape {
  Int outer = 1, length = 1, inner = 1;
};

LineShape line_shape(const TensorDesc& x, std::size_t axis) {
  LineShape shape;
  bool before = true;
  for (const std::size_t d : memory_order(x.dims.size(), x.layout)) {
    if (d == axis) {
      shape.length = x.dims[d];
      before = false;
    } else {
      (before ? shape.outer : shape.inner) *= x.dims[d];
    }
  }
  return shape;
}

LaunchShape strided_shape(Int lines, Int length) {
  constexpr Int kShort = 64;      // elements of a line that one thread may well take alone
  constexpr Int kMany = 1 << 17;  // lines that fill a GPU, one thread each
  const bool alone = length <= kShort || lines >= kMany;
  const unsigned width = alone ? static_cast<unsigned>(kBlockThreads) : kWarpThreads;
  const Int blocks = limit_blocks((lines + width - 1) / width, 1 << 16);
  return {dim3(static_cast<unsigned>(blocks)),
          dim3(width, static_cast<unsigned>(kBlockThreads) / width), 0};
}

template <typename T, template <typename> class Line>
Status launch_lines(const Line<T>& line, const LineShape& shape, const FloatsIn& x,
                    const FloatsIn& other, const FloatsOut& y, void* stream) {
  if (shape.inner == 1) {
    const LaunchShape threads = row_shape(shape.outer, shape.length);
    const bool aligned = is_aligned_16({x.data, other.data, y.data});
    return launch<row_lines<T, Line>>(
        threads, stream, line, x, other, y, shape.outer,
        row_walk(shape.length, threads, aligned, RowStart::kAnywhere));
  }
  const Int lines = shape.outer * shape.inner;
  return launch<strided_lines<T, Line>>(strided_shape(lines, shape.length), stream, line, x, other,
                                        y, lines, shape.length, Divisor(shape.inner));
}

// x and, with two operands, `other` -> y. make_line(real) gives the Line of that type.
template <typename MakeLine>
PreparedKernel prepare_lines(const KernelRequest& request, MakeLine make_line) {
  const TensorDesc& x = operand(request, 0);
  const TensorDesc& other = operand(request, 1);
  MEZZO_RETURN_IF_ERROR(expect_one_layout({&x, &other, &result(request, 0)}));
  const LineShape shape = line_shape(x, axis_of(request, -1, x.dims.size()));
  return make_layer(
      "cuda:lines", [make_line, shape, elems = x.elems(), is_double = has_double(request),
                     x_dtype = x.dtype, other_dtype = other.dtype,
                     y_dtype = result(request, 0).dtype](const KernelArguments& arguments) {
        if (elems == 0) return ok_status();
        return with_real(is_double, [&](auto real) {
          return launch_lines(make_line(real), shape, FloatsIn{operand_data(arguments, 0), x_dtype},
                              FloatsIn{operand_data(arguments, 1), other_dtype},
                              FloatsOut{arguments.outputs[0], y_dtype}, arguments.stream);
        });
      });
}

PreparedKernel prepare_softmax(const KernelRequest& request) {
  return prepare_lines(request, [logarithm = request.op == "LogSoftmax"](auto real) {
    return SoftmaxLine<decltype(real)>{logarithm};
  });
}

PreparedKernel prepare_hardmax(const KernelRequest& request) {
  return prepare_lines(request, [](auto real) { return HardmaxLine<decltype(real)>{}; });
}

PreparedKernel prepare_line_sum(const KernelRequest& request) {
  LineSum kind = LineSum::kSoftmaxGrad;
  if (request.op == "LogSoftmaxGrad") {
    kind = LineSum::kLogSoftmaxGrad;
  } else if (request.op == "LpNormalization") {
    kind = request.attributes.get_int("p", 2) == 1 ? LineSum::kNorm1 : LineSum::kNorm2;
  }
  return prepare_lines(request, [kind](auto real) { return SumLine<decltype(real)>{kind}; });
}

constexpr KernelEntry kRows[] = {
    {"Softmax", "cuda", prepare_softmax},          {"LogSoftmax", "cuda", prepare_softmax},
    {"SoftmaxGrad", "cuda", prepare_line_sum},     {"LogSoftmaxGrad", "cuda", prepare_line_sum},
    {"LpNormalization", "cuda", prepare_line_sum}, {"Hardmax", "cuda", prepare_hardmax},
};

}  // namespace

std::span<const KernelEntry> softmax_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
