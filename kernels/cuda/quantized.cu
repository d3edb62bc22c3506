// Products of 8-bit integers: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv.
//
// A quantised operand stands for scale (q - zero point). Sums of (a - za)(b - zb) are exact; where
// the result is quantised as well, y = saturate(round to even(sum sa sb / sy) + zy), the factor in
// double. Zero points and scales are one for all, or one per line: row of a, column of b, output
// channel of w, of every matrix or of each.
#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/windows.h"

namespace mezzo::kernels::cuda {

// Scales or zero points; data null: zeros.
struct PerLine {
  const void* data = nullptr;
  DType dtype = DType::kNone;
  Int count = 1, lines = 1;

  __device__ Int place(Int matrix, Int line) const {
    return count == 1 ? 0 : count == lines ? line : matrix * lines + line;
  }
  __device__ std::int32_t zero(Int matrix, Int line) const {
    if (data == nullptr) return 0;
    return static_cast<std::int32_t>(load_element<Int>(data, place(matrix, line), dtype));
  }
  __device__ double scale(Int matrix, Int line) const {
    return load_element<double>(data, place(matrix, line), dtype);
  }
};

// The scale and zero point of a quantised result; scale null: the sum itself, int32.
struct Requantization {
  PerLine a_scale, b_scale, y_scale, y_zero;
  DType y = DType::kInt32;
};

__device__ inline void write_quantized(const Requantization& to, Int a_matrix, Int row,
                                       Int b_matrix, Int column, Int sum, void* y, Int at) {
  if (to.y_scale.data == nullptr) {
    static_cast<std::int32_t*>(y)[at] = static_cast<std::int32_t>(sum);
    return;
  }
  const double factor =
      to.a_scale.scale(a_matrix, row) * to.b_scale.scale(b_matrix, column) / to.y_scale.scale(0, 0);
  const double value = static_cast<double>(sum) * factor;
  const double rounded = value != value ? 0.0 : std::rint(value);
  store_element<double>(y, at, to.y, rounded + to.y_zero.zero(0, 0));  // saturates
}

struct IntegerMatMul {
  Int m = 1, k = 1, n = 1;
  StridedIndex<2> batch;  // views: numbers of the matrices of a and b
  DType a = DType::kNone, b = DType::kNone;
  PerLine a_zero, b_zero;
};

constexpr int kTileSide = 32;  // of the result
constexpr int kTileDepth = 32;
constexpr int kTileRows = 8;  // threads along the rows: each has kTileSide / kTileRows of them

// Block: kTileSide x kTileRows threads, a tile of the result.
__global__ void integer_matmul(IntegerMatMul shape, Divisor row_tiles, Divisor column_tiles,
                               Int tiles, const void* a, const void* b, Requantization to,
                               void* y) {
  __shared__ std::int16_t left[kTileSide][kTileDepth + 2];
  __shared__ std::int16_t right[kTileDepth][kTileSide + 2];
  constexpr int kEach = kTileSide / kTileRows;
  const int x = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(threadIdx.y);
  for (Int number = blockIdx.x; number < tiles; number += gridDim.x) {
    Int column = 0;
    Int row = 0;
    const Int matrix = row_tiles.divide(column_tiles.divide(number, column), row);
    row *= kTileSide;
    column = column * kTileSide + x;
    Int at[2];
    shape.batch.offsets(matrix, at);
    const Int a_first = at[0] * shape.m * shape.k;
    const Int b_first = at[1] * shape.k * shape.n;
    const std::int32_t b_zero = column < shape.n ? shape.b_zero.zero(at[1], column) : 0;
    std::int32_t a_zero[kEach];
    std::int32_t sums[kEach] = {};
    for (int i = 0; i < kEach; ++i) {
      const Int r = row + first + i * kTileRows;
      a_zero[i] = r < shape.m ? shape.a_zero.zero(at[0], r) : 0;
    }
    for (Int depth = 0; depth < shape.k; depth += kTileDepth) {
      for (int i = 0; i < kEach; ++i) {
        const int line = first + i * kTileRows;
        const Int r = row + line;
        const bool has_a = r < shape.m && depth + x < shape.k;
        left[line][x] = static_cast<std::int16_t>(
            has_a ? load_element<Int>(a, a_first + r * shape.k + depth + x, shape.a) - a_zero[i]
                  : 0);
        const bool has_b = depth + line < shape.k && column < shape.n;
        right[line][x] = static_cast<std::int16_t>(
            has_b ? load_element<Int>(b, b_first + (depth + line) * shape.n + column, shape.b) -
                        b_zero
                  : 0);
      }
      __syncthreads();
      for (int d = 0; d < kTileDepth; ++d) {
        const std::int32_t factor = right[d][x];
        for (int i = 0; i < kEach; ++i) {
          // 1U: sums wrap as int32 does.
          sums[i] = static_cast<std::int32_t>(
              static_cast<std::uint32_t>(sums[i]) +
              static_cast<std::uint32_t>(left[first + i * kTileRows][d] * factor));
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < kEach && column < shape.n; ++i) {
      const Int r = row + first + i * kTileRows;
      if (r >= shape.m) break;
      write_quantized(to, at[0], r, at[1], column, sums[i], y,
                      (matrix * shape.m + r) * shape.n + column);
    }
  }
}

// Letters: x[N,C,in], w[M,C/G,kernel], y[N,M,out], bias[M] int32 or null.
struct IntegerConv {
  Windows windows;
  Places x, y;
  Int elems = 0;                            // of y
  Int channels_each = 1, results_each = 1;  // C / G, M / G
  DType x_dtype = DType::kNone, w_dtype = DType::kNone;
  PerLine x_zero, w_zero;
};

__global__ void integer_conv(IntegerConv shape, const void* x, const void* w,
                             const std::int32_t* bias, Requantization to, void* y) {
  const Int step = Int{gridDim.x} * blockDim.x;
  const std::int32_t x_zero = shape.x_zero.zero(0, 0);
  const WindowAxis* axis = shape.windows.axis;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < shape.elems;
       number += step) {
    const Places::Place o = shape.y.place(number);
    const std::int32_t w_zero = shape.w_zero.zero(0, o.channel);
    const WindowRange kd = axis[0].inside(o.at[0]);
    const WindowRange kh = axis[1].inside(o.at[1]);
    const WindowRange kw = axis[2].inside(o.at[2]);
    const Int first_channel = o.channel / shape.results_each * shape.channels_each;
    Int sum = bias != nullptr ? bias[o.channel] : 0;
    for (Int c = 0; c < shape.channels_each; ++c) {
      const Int plane = shape.x.plane(o.image, first_channel + c);
      const Int taps = (o.channel * shape.channels_each + c) * axis[0].kernel;
      for (Int i = kd.first; i < kd.last; ++i) {
        for (Int j = kh.first; j < kh.last; ++j) {
          const Int row =
              shape.x.pixel(axis[0].position(o.at[0], i), axis[1].position(o.at[1], j), 0);
          const Int tap = ((taps + i) * axis[1].kernel + j) * axis[2].kernel;
          for (Int k = kw.first; k < kw.last; ++k) {
            const Int pixel = row + axis[2].position(o.at[2], k);
            const Int left =
                load_element<Int>(x, plane + pixel * shape.x.pixel_step(), shape.x_dtype) - x_zero;
            sum += left * (load_element<Int>(w, tap + k, shape.w_dtype) - w_zero);
          }
        }
      }
    }
    write_quantized(to, 0, 0, 0, o.channel, sum, y, number);
  }
}

namespace {

constexpr std::string_view kName = "cuda:integer";

// Where what is among the operands.
struct IntegerOperands {
  std::size_t a, b, a_zero, b_zero;
};
constexpr IntegerOperands kInteger = {0, 1, 2, 3};
constexpr IntegerOperands kQLinear = {0, 3, 2, 5};

bool is_qlinear(const KernelRequest& request) { return request.op.starts_with("QLinear"); }
const IntegerOperands& operands_of(const KernelRequest& request) {
  return is_qlinear(request) ? kQLinear : kInteger;
}

// Data come with the run.
PerLine per_line(const KernelRequest& request, std::size_t i, Int lines) {
  const TensorDesc& desc = in_desc(request, i);
  return {nullptr, desc.dtype, desc.present() ? desc.elems() : 1, lines};
}

struct QuantizedPlan {
  IntegerOperands at;
  bool is_quantized = false;
  Requantization to;  // without data

  Requantization with_data(const KernelArguments& arguments) const {
    Requantization filled = to;
    if (!is_quantized) return filled;
    filled.a_scale.data = arguments.inputs[1];
    filled.b_scale.data = arguments.inputs[4];
    filled.y_scale.data = arguments.inputs[6];
    filled.y_zero.data = arguments.inputs[7];
    return filled;
  }
};

QuantizedPlan quantized_plan(const KernelRequest& request, Int a_lines, Int b_lines) {
  QuantizedPlan plan{operands_of(request), is_qlinear(request), {}};
  plan.to.y = request.outputs[0].dtype;
  if (!plan.is_quantized) return plan;
  plan.to.a_scale = per_line(request, 1, a_lines);
  plan.to.b_scale = per_line(request, 4, b_lines);
  plan.to.y_scale = per_line(request, 6, 1);
  plan.to.y_zero = per_line(request, 7, 1);
  return plan;
}

Prepared matmul_row(const KernelRequest& request) {
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  const IntegerOperands at = operands_of(request);
  TensorDesc a = request.inputs[at.a];
  TensorDesc b = request.inputs[at.b];
  if (a.dims.size() == 1) a.dims.insert(a.dims.begin(), 1);
  if (b.dims.size() == 1) b.dims.push_back(1);
  IntegerMatMul shape;
  shape.m = a.dims[a.dims.size() - 2];
  shape.k = a.dims.back();
  shape.n = b.dims.back();
  a.dims.resize(a.dims.size() - 2);
  b.dims.resize(b.dims.size() - 2);
  Dims batch(std::max(a.dims.size(), b.dims.size()), 1);
  for (const Dims& dims : {a.dims, b.dims}) {
    const std::size_t lead = batch.size() - dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] != 1) batch[lead + d] = dims[d];
    }
  }
  a.layout = b.layout = Layout::kRowMajor;
  shape.batch = make_index<2>(batch, {strides_within(a, batch), strides_within(b, batch)});
  shape.a = a.dtype;
  shape.b = b.dtype;
  shape.a_zero = per_line(request, at.a_zero, shape.m);
  shape.b_zero = per_line(request, at.b_zero, shape.n);
  const QuantizedPlan plan = quantized_plan(request, shape.m, shape.n);
  const Int rows = ceil_div(shape.m, kTileSide);
  const Int columns = ceil_div(shape.n, kTileSide);
  return make_kernel(kName, 0,
                     [shape, plan, rows, columns, tiles = rows * columns * shape.batch.elems](
                         const KernelArguments& arguments) {
                       if (tiles == 0) return ok_status();
                       IntegerMatMul filled = shape;
                       filled.a_zero.data = in_buffer(arguments, plan.at.a_zero);
                       filled.b_zero.data = in_buffer(arguments, plan.at.b_zero);
                       LaunchShape blocks;
                       blocks.grid = dim3(static_cast<unsigned>(limit_blocks(tiles, 1 << 16)));
                       blocks.block = dim3(kTileSide, kTileRows);
                       return launch<integer_matmul>(
                           blocks, arguments.stream, filled, Divisor(rows), Divisor(columns), tiles,
                           arguments.inputs[plan.at.a], arguments.inputs[plan.at.b],
                           plan.with_data(arguments), arguments.outputs[0]);
                     });
}

Prepared conv_row(const KernelRequest& request) {
  const IntegerOperands at = operands_of(request);
  const TensorDesc& x = request.inputs[at.a];
  const TensorDesc& w = request.inputs[at.b];
  const TensorDesc& y = request.outputs[0];
  if (x.dims.size() > 2 + kSpatial) return unimplemented("more than 3 spatial dims");
  if (w.layout != Layout::kRowMajor && w.layout_matters()) {
    return unimplemented("channels-last weights");
  }
  const Int groups = request.attributes.get_int("group", 1);
  IntegerConv shape;
  shape.windows = read_windows(request, x, y, Dims(w.dims.begin() + 2, w.dims.end()));
  shape.x = places_of(x);
  shape.y = places_of(y);
  shape.elems = y.elems();
  shape.channels_each = w.dims[1];
  shape.results_each = std::max<Int>(w.dims[0] / groups, 1);
  shape.x_dtype = x.dtype;
  shape.w_dtype = w.dtype;
  shape.x_zero = per_line(request, at.a_zero, 1);
  shape.w_zero = per_line(request, at.b_zero, w.dims[0]);
  const QuantizedPlan plan = quantized_plan(request, 1, w.dims[0]);
  return make_kernel(kName, 0, [shape, plan](const KernelArguments& arguments) {
    if (shape.elems == 0) return ok_status();
    IntegerConv filled = shape;
    filled.x_zero.data = in_buffer(arguments, plan.at.a_zero);
    filled.w_zero.data = in_buffer(arguments, plan.at.b_zero);
    const void* bias = plan.is_quantized ? in_buffer(arguments, 8) : nullptr;
    return launch<integer_conv>(shape_for(shape.elems), arguments.stream, filled,
                                arguments.inputs[plan.at.a], arguments.inputs[plan.at.b],
                                static_cast<const std::int32_t*>(bias), plan.with_data(arguments),
                                arguments.outputs[0]);
  });
}

constexpr KernelEntry kRows[] = {{"MatMulInteger", kName, matmul_row},
                                 {"QLinearMatMul", kName, matmul_row},
                                 {"ConvInteger", kName, conv_row},
                                 {"QLinearConv", kName, conv_row}};

}  // namespace

std::span<const KernelEntry> quantized_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
