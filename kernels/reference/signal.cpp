// DFT, STFT and MelWeightMatrix. Signals have a last dim of 1 (real) or 2 (real, imaginary part);
// transforms are computed in double and rounded once.
#include <algorithm>
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/fourier.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Tables take up to 100 bytes per element and are made before any data is seen.
constexpr std::int64_t kMostLength = std::int64_t{1} << 24;

std::size_t complex_bytes(std::int64_t elems) {
  return static_cast<std::size_t>(elems) * sizeof(Complex);
}

// One signal of a tensor: element i, part p at start + i stride + p.
struct Signal {
  const Elements& elements;
  const void* data;
  std::int64_t start, stride;
  bool is_complex;

  Complex at(std::int64_t i) const {
    const std::int64_t place = start + i * stride;
    return {elements.read<double>(data, place),
            is_complex ? elements.read<double>(data, place + 1) : 0.0};
  }
};

void write_complex(const Elements& y, void* data, std::int64_t place, Complex value) {
  y.write<double>(data, place, value.re);
  y.write<double>(data, place + 1, value.im);
}

StatusOr<bool> last_dim_is_complex(const Operands& operands) {
  const std::int64_t parts = operands.in(0).dims.back();
  if (parts == 1 || parts == 2) return parts == 2;
  return operands.in_error(0, "expected a last dim of 1 (real) or 2 (complex), got dims " +
                                  format_dims(operands.in(0).dims));
}

Status check_length(const Operands& operands, std::int64_t length) {
  if (length <= kMostLength) return ok_status();
  return unimplemented(operands.op() + ": a transform of length " + std::to_string(length) +
                       "; the longest is " + std::to_string(kMostLength));
}

struct DftShape {
  std::int64_t outer = 1, in = 0, out = 0, inner = 1;  // x[outer, in, inner, parts]
  bool is_complex = false, inverse = false, onesided = false;
  std::int64_t length = 0;
};

StatusOr<DftShape> read_dft(const Operands& operands) {
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -2, dims.size()));
  DftShape shape;
  MEZZO_ASSIGN_OR_RETURN(shape.is_complex, last_dim_is_complex(operands));
  MEZZO_ASSIGN_OR_RETURN(shape.inverse, operands.flag("inverse", false));
  MEZZO_ASSIGN_OR_RETURN(shape.onesided, operands.flag("onesided", false));
  const auto last = static_cast<std::int64_t>(dims.size()) - 1;
  if (axis == last) return operands.error("attribute 'axis' names the parts, not a signal");
  for (std::int64_t i = 0; i < last; ++i) {
    if (i < axis) shape.outer *= dims[static_cast<std::size_t>(i)];
    if (i > axis) shape.inner *= dims[static_cast<std::size_t>(i)];
  }
  shape.in = dims[static_cast<std::size_t>(axis)];
  const bool to_real = shape.inverse && shape.onesided;
  shape.length =
      operands.attributes().get_int("dft_length", to_real ? 2 * (shape.in - 1) : shape.in);
  if (shape.length < 1) {
    return operands.error("a transform of length " + std::to_string(shape.length) +
                          " is not possible");
  }
  MEZZO_RETURN_IF_ERROR(check_length(operands, shape.length));
  shape.out = shape.onesided && !shape.inverse ? shape.length / 2 + 1 : shape.length;
  Dims expected = dims;
  expected[static_cast<std::size_t>(axis)] = shape.out;
  expected.back() = to_real ? 1 : 2;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, expected));
  return shape;
}

// Fills x with `length` elements of the signal; what it does not have is 0. Of a one-sided spectrum
// the other side is the conjugate.
void load_signal(const DftShape& shape, const Signal& signal, Complex* x) {
  const bool mirrored = shape.inverse && shape.onesided;
  const std::int64_t half = shape.length / 2 + 1;
  const std::int64_t given = std::min(shape.in, mirrored ? half : shape.length);
  for (std::int64_t i = 0; i < shape.length; ++i) x[i] = i < given ? signal.at(i) : Complex{};
  if (!mirrored) return;
  x[0].im = 0.0;  // a real signal's constant part, and its fastest wave, are real
  if (shape.length % 2 == 0) x[shape.length / 2].im = 0.0;
  for (std::int64_t i = half; i < shape.length; ++i) x[i] = conjugate(x[shape.length - i]);
}

}  // namespace

// y[.., k, ..] = sum of x[.., j, ..] exp(-+ 2 pi i j k / length), the inverse divided by length.
PreparedKernel prepare_dft(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const DftShape shape, read_dft(operands));
  Fourier fourier(shape.length);
  const std::size_t bytes = complex_bytes(shape.length + fourier.room_elems());
  return make_kernel(
      [shape, fourier = std::move(fourier), x = Elements(operands.in(0)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* wave = static_cast<Complex*>(arguments.workspace);
        Complex* room = wave + shape.length;
        const std::int64_t in_parts = shape.is_complex ? 2 : 1;
        const bool to_real = shape.inverse && shape.onesided;
        const std::int64_t out_parts = to_real ? 1 : 2;
        for (std::int64_t unit = 0; unit < shape.outer * shape.inner; ++unit) {
          const std::int64_t outer = unit / shape.inner;
          const std::int64_t inner = unit % shape.inner;
          const Signal signal = {x, arguments.inputs[0],
                                 (outer * shape.in * shape.inner + inner) * in_parts,
                                 shape.inner * in_parts, shape.is_complex};
          load_signal(shape, signal, wave);
          fourier.transform(wave, room, shape.inverse);
          for (std::int64_t k = 0; k < shape.out; ++k) {
            const std::int64_t place = ((outer * shape.out + k) * shape.inner + inner) * out_parts;
            if (to_real) {
              y.write<double>(arguments.outputs[0], place, wave[k].re);
            } else {
              write_complex(y, arguments.outputs[0], place, wave[k]);
            }
          }
        }
      },
      bytes);
}

// signal[B, L, 1 or 2], window[frame_length]? -> y[B, frames, bins, 2]: the transforms of frames of
// frame_length elements that start every frame_step, each times the window.
PreparedKernel prepare_stft(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "signal:f window?:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 3, 3));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const bool is_complex, last_dim_is_complex(operands));
  MEZZO_ASSIGN_OR_RETURN(const bool onesided, operands.flag("onesided", true));
  const bool has_window = operands.in(1).present();
  if (has_window) MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 1, 1));
  const std::int64_t step = request.attributes.get_int("frame_step", 0);
  const std::int64_t length =
      request.attributes.get_int("frame_length", has_window ? operands.in(1).dims[0] : dims[1]);
  if (step < 1 || length < 1 || length > dims[1]) {
    return operands.error("frames of " + std::to_string(length) + " elements every " +
                          std::to_string(step) + " do not fit a signal of " +
                          std::to_string(dims[1]));
  }
  MEZZO_RETURN_IF_ERROR(check_length(operands, length));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, {length}));
  const std::int64_t frames = 1 + (dims[1] - length) / step;
  const std::int64_t bins = onesided ? length / 2 + 1 : length;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {dims[0], frames, bins, 2}));
  Fourier fourier(length);
  const std::size_t bytes = complex_bytes(length + fourier.room_elems());
  return make_kernel(
      [=, fourier = std::move(fourier), batch = dims[0], samples = dims[1],
       x = Elements(operands.in(0)), window = Elements(operands.in(1)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* wave = static_cast<Complex*>(arguments.workspace);
        const std::int64_t parts = is_complex ? 2 : 1;
        std::int64_t place = 0;
        for (std::int64_t unit = 0; unit < batch * frames; ++unit) {
          const std::int64_t start = unit / frames * samples + unit % frames * step;
          const Signal signal = {x, arguments.inputs[0], start * parts, parts, is_complex};
          for (std::int64_t i = 0; i < length; ++i) {
            const double w = has_window ? window.read<double>(arguments.inputs[1], i) : 1.0;
            const Complex value = signal.at(i);
            wave[i] = {value.re * w, value.im * w};
          }
          fourier.transform(wave, wave + length, false);
          for (std::int64_t k = 0; k < bins; ++k, place += 2) {
            write_complex(y, arguments.outputs[0], place, wave[k]);
          }
        }
      },
      bytes);
}

namespace {

// What MelWeightMatrix reads when it runs.
struct Mel {
  std::int64_t bins, spectrum, length, rate;
  double low, high;  // Hz

  // The spectrogram bin of edge i of bins + 2, equally spaced on the mel scale.
  std::int64_t edge(std::int64_t i) const {
    const auto to_mel = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
    const double from = to_mel(low);
    const double step = (to_mel(high) - from) / static_cast<double>(bins + 2);
    const double mel = static_cast<double>(i) * step + from;
    const double hertz = 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    return static_cast<std::int64_t>(std::clamp(bin, 0.0, static_cast<double>(spectrum)));
  }
};

// The triangle of mel bin i: rises from its left edge to its centre, falls to its right edge.
double mel_weight(std::int64_t left, std::int64_t centre, std::int64_t right, std::int64_t bin) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  if (bin >= centre && bin < right && right > centre) return ratio(right - bin, right - centre);
  if (left == centre) return bin == centre ? 1.0 : 0.0;
  return bin >= left && bin <= centre ? ratio(bin - left, centre - left) : 0.0;
}

}  // namespace

// num_mel_bins, dft_length, sample_rate, lower and upper edge in Hz -> y[dft_length / 2 + 1,
// num_mel_bins], the matrix that sums a spectrum into mel bins.
PreparedKernel prepare_mel_weights(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request,
                                         "num_mel_bins:i dft_length:i sample_rate:i "
                                         "lower_edge_hertz:f upper_edge_hertz:f -> y:n"));
  for (std::size_t i = 0; i < 5; ++i) MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(i));
  if (operands.out(0).dims.size() != 2) return operands.out_error(0, "expected rank 2");
  return make_kernel([dims = operands.out(0).dims, bins = Elements(operands.in(0)),
                      length = Elements(operands.in(1)), rate = Elements(operands.in(2)),
                      low = Elements(operands.in(3)), high = Elements(operands.in(4)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    const Mel mel = {static_cast<std::int64_t>(bins.read<Integer>(in[0], 0)),
                     dims[0],
                     static_cast<std::int64_t>(length.read<Integer>(in[1], 0)),
                     static_cast<std::int64_t>(rate.read<Integer>(in[2], 0)),
                     low.read<double>(in[3], 0),
                     high.read<double>(in[4], 0)};
    const bool fits = mel.bins == dims[1] && mel.length >= 0 && mel.length / 2 + 1 == dims[0];
    if (!fits || mel.rate < 1 || !(mel.low >= 0.0) || !(mel.high > mel.low)) {
      return invalid_argument(
          "MelWeightMatrix: " + std::to_string(mel.bins) + " bins of a transform of " +
          std::to_string(mel.length) + " from " + std::to_string(mel.low) + " to " +
          std::to_string(mel.high) + " Hz at " + std::to_string(mel.rate) +
          " samples per second do not give a matrix of dims " + format_dims(dims));
    }
    for (std::int64_t i = 0; i < mel.bins; ++i) {
      const std::int64_t left = mel.edge(i);
      const std::int64_t centre = mel.edge(i + 1);
      const std::int64_t right = mel.edge(i + 2);
      for (std::int64_t bin = 0; bin < dims[0]; ++bin) {
        y.write<double>(arguments.outputs[0], bin * dims[1] + i,
                        mel_weight(left, centre, right, bin));
      }
    }
    return ok_status();
  });
}

}  // namespace mezzo::kernels::reference
