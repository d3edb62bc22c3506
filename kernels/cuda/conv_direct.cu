// Conv, ConvGradInput, ConvGradWeight and ConvTranspose by own kernels (conv_tiles.h): any mixture
// of floating dtypes and of layouts, 1 to 3 spatial axes, groups, dilations. Sums in float32
// (float64 where an operand is), rounded once. What cuDNN's rows take, they do faster.
#include "kernels/cuda/conv_tiles.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sum_parts.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr Int kMostSplits = 256;
constexpr unsigned kMostGridRows = 65535;

ConvStrides strides_of(const TensorDesc& tensor) {
  const Int pixels = dims_product(tensor.dims, 2, tensor.dims.size());
  const Int channels = tensor.dims[1];
  if (is_channels_last(tensor)) return {channels * pixels, 1, channels};
  return {channels * pixels, pixels, 1};
}

// x (or dx), w (or dw), y (or dy) of a convolution. Unimplemented: sizes beyond 32 bits.
StatusOr<ConvPlan> read_conv(const KernelRequest& request, ConvProduct product, const TensorDesc& x,
                             const TensorDesc& w, const TensorDesc& y) {
  const Windows windows = read_windows(request, x, y, Dims(w.dims.begin() + 2, w.dims.end()));
  ConvPlan conv;
  Int taps = 1, in_pixels = 1, out_pixels = 1;
  for (int i = 0; i < kSpatial; ++i) {
    const WindowAxis& from = windows.axis[i];
    if (from.in + from.pad_begin + from.pad_end + from.stride >= kNarrowLimit) {
      return unimplemented("an axis of 2^31 positions or more");
    }
    ConvAxis& axis = conv.axis[i];
    axis.in = static_cast<std::int32_t>(from.in);
    axis.out = static_cast<std::int32_t>(from.out);
    axis.stride = static_cast<std::int32_t>(from.stride);
    axis.dilation = static_cast<std::int32_t>(from.kernel == 1 ? 1 : from.dilation);
    axis.pad_begin = static_cast<std::int32_t>(from.pad_begin);
    axis.by_in = Divisor(from.in);
    axis.by_out = Divisor(from.out);
    axis.by_kernel = Divisor(from.kernel);
    axis.by_stride = Divisor(from.stride);
    taps *= from.kernel;
    in_pixels *= from.in;
    out_pixels *= from.out;
  }
  const Int groups = request.attributes.get_int("group", 1);
  const Int x_channels = w.dims[1], y_channels = w.dims[0] / groups;
  const Int images = x.dims[0];
  Int rows = y_channels, columns = images * out_pixels, depth = x_channels * taps;
  if (product == ConvProduct::kInput) {
    rows = x_channels;
    columns = images * in_pixels;
    depth = y_channels * taps;
  } else if (product == ConvProduct::kWeight) {
    std::swap(columns, depth);
  }
  constexpr Int kLimit = kNarrowLimit - 1024;  // a tile more is numbered
  for (const Int size : {rows, columns, depth, groups, in_pixels, out_pixels, taps}) {
    if (size >= kLimit) return unimplemented("a product of 2^31 rows, columns or terms or more");
  }
  conv.groups = static_cast<std::int32_t>(groups);
  conv.x_channels = static_cast<std::int32_t>(x_channels);
  conv.y_channels = static_cast<std::int32_t>(y_channels);
  conv.taps = static_cast<std::int32_t>(taps);
  conv.rows = static_cast<std::int32_t>(rows);
  conv.columns = static_cast<std::int32_t>(columns);
  conv.depth = conv.split_depth = static_cast<std::int32_t>(depth);
  conv.x = strides_of(x);
  conv.w = strides_of(w);
  conv.y = strides_of(y);
  return conv;
}

bool is_flat(const ConvPlan& conv) { return conv.rows <= 8; }

Int tiles_of(const ConvPlan& conv) {
  const Int rows = is_flat(conv) ? FlatTile::kRows : WideTile::kRows;
  const Int columns = is_flat(conv) ? FlatTile::kColumns : WideTile::kColumns;
  return ceil_div(conv.rows, rows) * ceil_div(conv.columns, columns) * conv.groups;
}

// Cuts long sums of few results, so that there is work for all of a GPU.
void split(ConvPlan& conv) {
  constexpr Int kEnoughTiles = 512;
  constexpr Int kLeastDepth = 1024;
  const Int wanted = ceil_div(kEnoughTiles, std::max<Int>(tiles_of(conv), 1));
  const Int splits =
      std::clamp<Int>(std::min(wanted, ceil_div(conv.depth, kLeastDepth)), 1, kMostSplits);
  const Int depth = ceil_div(ceil_div(conv.depth, splits), kTileDepth) * kTileDepth;
  conv.split_depth = static_cast<std::int32_t>(depth);
  conv.splits = static_cast<std::int32_t>(std::max<Int>(ceil_div(conv.depth, depth), 1));
}

template <typename T, ConvProduct kProduct, typename Tile>
Status launch_tiles(const ConvPlan& conv, const FloatsIn& a, const FloatsIn& b,
                    const FloatsIn& bias, const FloatsOut& to, Int split_elems, void* stream) {
  const auto bounded = [](Int count) {
    return static_cast<unsigned>(limit_blocks(count, kMostGridRows));
  };
  const LaunchShape shape{
      dim3(static_cast<unsigned>(ceil_div(conv.columns, Tile::kColumns)),
           bounded(ceil_div(conv.rows, Tile::kRows)), bounded(Int{conv.groups} * conv.splits)),
      dim3(Tile::kThreads), 0};
  return launch<conv_product<T, kProduct, Tile>>(shape, stream, conv, a, b, bias, to, split_elems);
}

// Which operands are a and b of the product, and the bias.
struct ConvOperands {
  std::size_t a, b, bias;
};
constexpr std::size_t kNoOperand = 3;

template <ConvProduct kProduct>
struct ConvKernel {
  ConvPlan conv;
  bool is_double = false;
  ConvOperands at{};
  FloatsIn a, b, bias;  // dtypes
  FloatsOut to;
  Int elems = 0;  // of the result

  Status run(const KernelArguments& arguments) const {
    if (elems == 0) return ok_status();
    return with_real(is_double, [&](auto real) { return run_as<decltype(real)>(arguments); });
  }

  template <typename T>
  Status run_as(const KernelArguments& arguments) const {
    const FloatsIn a_in{arguments.inputs[at.a], a.dtype}, b_in{arguments.inputs[at.b], b.dtype};
    const FloatsIn bias_in{operand_data(arguments, at.bias), bias.dtype};
    const FloatsOut result{arguments.outputs[0], to.dtype};
    const bool splits = conv.splits > 1;
    const FloatsOut sums = splits ? FloatsOut{arguments.workspace, kRealDType<T>} : result;
    const Int split_elems = splits ? elems : 0;
    MEZZO_RETURN_IF_ERROR(
        (is_flat(conv) ? launch_tiles<T, kProduct, FlatTile>(conv, a_in, b_in, bias_in, sums,
                                                             split_elems, arguments.stream)
                       : launch_tiles<T, kProduct, WideTile>(conv, a_in, b_in, bias_in, sums,
                                                             split_elems, arguments.stream)));
    if (!splits) return ok_status();
    return launch_sum_parts<T>(static_cast<const T*>(arguments.workspace), conv.splits, elems,
                               result, arguments.stream);
  }
};

// x, w and y: of the convolution, whichever of them is the result.
template <ConvProduct kProduct>
PreparedKernel prepare(const KernelRequest& request, const TensorDesc& x, const TensorDesc& w,
                       const TensorDesc& y, const ConvOperands& at) {
  ConvKernel<kProduct> kernel;
  MEZZO_ASSIGN_OR_RETURN(kernel.conv, read_conv(request, kProduct, x, w, y));
  if (kProduct == ConvProduct::kWeight) split(kernel.conv);
  kernel.is_double = has_double(request);
  kernel.at = at;
  kernel.a.dtype = operand(request, at.a).dtype;
  kernel.b.dtype = operand(request, at.b).dtype;
  kernel.bias.dtype = operand(request, at.bias).dtype;
  kernel.to.dtype = result(request, 0).dtype;
  kernel.elems = result(request, 0).elems();
  WorkspacePlan workspace;
  if (kernel.conv.splits > 1) workspace.add(kernel.conv.splits * kernel.elems);
  return make_layer(
      "cuda:direct-conv",
      [kernel](const KernelArguments& arguments) { return kernel.run(arguments); },
      workspace.bytes());
}

PreparedKernel prepare_conv(const KernelRequest& request) {
  return prepare<ConvProduct::kForward>(request, operand(request, 0), operand(request, 1),
                                        result(request, 0), {1, 0, 2});
}

// dy, w -> dx; ConvTranspose: x takes the part of dy and y that of dx.
PreparedKernel prepare_conv_grad_input(const KernelRequest& request) {
  const std::size_t bias = request.op == "ConvTranspose" ? 2 : kNoOperand;
  return prepare<ConvProduct::kInput>(request, result(request, 0), operand(request, 1),
                                      operand(request, 0), {1, 0, bias});
}

// dy, x -> dw
PreparedKernel prepare_conv_grad_weight(const KernelRequest& request) {
  return prepare<ConvProduct::kWeight>(request, operand(request, 1), result(request, 0),
                                       operand(request, 0), {0, 1, kNoOperand});
}

constexpr KernelEntry kRows[] = {
    {"Conv", "cuda", prepare_conv},
    {"ConvGradInput", "cuda", prepare_conv_grad_input},
    {"ConvGradWeight", "cuda", prepare_conv_grad_weight},
    {"ConvTranspose", "cuda", prepare_conv_grad_input},
};

}  // namespace

std::span<const KernelEntry> conv_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
