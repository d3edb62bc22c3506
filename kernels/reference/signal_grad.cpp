// Gradients of DFT and STFT: transforms are linear, so they are transforms in the other direction.
// With w = exp(-2 pi i / N), a spectrum y_k = sum of x_j w^jk has dx_j = sum of dy_k w^-jk, of
// which a real signal keeps the real part; bins that a one-sided spectrum leaves out have no
// gradient.
#include <algorithm>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/fourier.h"
#include "kernels/reference/indices.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

constexpr Int kMostLength = Int{1} << 24;  // as in signal.cpp

std::size_t complex_bytes(Int elems) { return static_cast<std::size_t>(elems) * sizeof(Complex); }

struct DftGrad {
  Int outer = 1, x = 0, y = 0, inner = 1;  // dx[outer, x, inner, parts], dy[outer, y, inner, parts]
  Int x_parts = 1, y_parts = 2;
  Int length = 0;
  bool inverse = false, to_real = false;

  // dy of one signal, then in its place dx of length `length`.
  void transform(const Fourier& fourier, Complex* wave, Complex* room) const {
    fourier.transform(wave, room, !inverse);
    // An inverse transform has been divided by N: the forward one is not, and the other way round.
    const auto n = static_cast<double>(length);
    for (Int j = 0; j < length; ++j) {
      double factor = inverse ? 1 / n : n;
      // Of a one-sided spectrum all bins but the first and the fastest stand for two.
      if (to_real && j != 0 && 2 * j != length) factor *= 2;
      wave[j] = {wave[j].re * factor, wave[j].im * factor};
    }
  }
};

StatusOr<DftGrad> read_dft_grad(const Operands& operands) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dy = operands.in(0).dims;
  const Dims& dx = operands.out(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const Int signed_axis, operands.axis("axis", -2, dy.size()));
  const auto axis = static_cast<std::size_t>(signed_axis);
  DftGrad shape;
  MEZZO_ASSIGN_OR_RETURN(shape.inverse, operands.flag("inverse", false));
  MEZZO_ASSIGN_OR_RETURN(const bool onesided, operands.flag("onesided", false));
  shape.to_real = shape.inverse && onesided;
  bool fits = dx.size() == dy.size() && axis + 1 < dy.size();
  for (std::size_t d = 0; fits && d + 1 < dy.size(); ++d) {
    fits = d == axis || dx[d] == dy[d];
    if (d < axis) shape.outer *= dy[d];
    if (d > axis) shape.inner *= dy[d];
  }
  if (!fits) {
    return operands.error("dy " + format_dims(dy) + " and dx " + format_dims(dx) +
                          " do not go together");
  }
  shape.x = dx[axis];
  shape.y = dy[axis];
  shape.x_parts = dx.back();
  shape.y_parts = dy.back();
  shape.length =
      operands.attributes().get_int("dft_length", shape.to_real ? 2 * (shape.x - 1) : shape.x);
  const Int bins = onesided && !shape.inverse ? shape.length / 2 + 1 : shape.length;
  if (shape.length < 1 || shape.y != bins || shape.x_parts < 1 || shape.x_parts > 2 ||
      shape.y_parts != (shape.to_real ? 1 : 2)) {
    return operands.error("dy " + format_dims(dy) + " is not of a transform of length " +
                          std::to_string(shape.length) + " of dims " + format_dims(dx));
  }
  if (shape.length > kMostLength) return unimplemented("DFTGrad: a transform beyond 2^24");
  return shape;
}

}  // namespace

PreparedKernel prepare_dft_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f -> dx:f"));
  MEZZO_ASSIGN_OR_RETURN(const DftGrad shape, read_dft_grad(operands));
  Fourier fourier(shape.length);
  const std::size_t bytes = complex_bytes(shape.length + fourier.room_elems());
  return make_kernel(
      [shape, fourier = std::move(fourier), dy = Elements(operands.in(0)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* wave = static_cast<Complex*>(arguments.workspace);
        Complex* room = wave + shape.length;
        const Int given = shape.to_real
                              ? std::min(shape.x, shape.length / 2 + 1)
                              : std::min(shape.x, shape.length);  // what the transform has read
        for (Int unit = 0; unit < shape.outer * shape.inner; ++unit) {
          const Int outer = unit / shape.inner, inner = unit % shape.inner;
          for (Int k = 0; k < shape.length; ++k) {
            const Int place = ((outer * shape.y + k) * shape.inner + inner) * shape.y_parts;
            wave[k] = {};
            if (k >= shape.y) continue;
            wave[k].re = dy.read<double>(arguments.inputs[0], place);
            if (shape.y_parts == 2) wave[k].im = dy.read<double>(arguments.inputs[0], place + 1);
          }
          shape.transform(fourier, wave, room);
          for (Int j = 0; j < shape.x; ++j) {
            const Int place = ((outer * shape.x + j) * shape.inner + inner) * shape.x_parts;
            const Complex value = j < given ? wave[j] : Complex{};
            dx.write<double>(arguments.outputs[0], place, value.re);
            if (shape.x_parts == 2) dx.write<double>(arguments.outputs[0], place + 1, value.im);
          }
        }
      },
      bytes);
}

// dy[B, frames, bins, 2], signal[B, L, parts], window[frame_length]? -> dsignal?, dwindow?.
// Workspace: dsignal and dwindow as doubles, then one frame.
PreparedKernel prepare_stft_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request, "dy:f signal:f window?:f -> dsignal?:f dwindow?:f"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 4, 4));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 3, 3));
  const Dims& dy = operands.in(0).dims;
  const Dims& x = operands.in(1).dims;
  const bool has_window = operands.in(2).present();
  if (has_window) MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(2, 1, 1));
  MEZZO_ASSIGN_OR_RETURN(const bool onesided, operands.flag("onesided", true));
  const Int step = request.attributes.get_int("frame_step", 0);
  const Int length =
      request.attributes.get_int("frame_length", has_window ? operands.in(2).dims[0] : x[1]);
  const Int frames = dy[1], parts = x[2];
  if (step < 1 || length < 1 || length > x[1] || frames != 1 + (x[1] - length) / step ||
      dy != Dims{x[0], frames, onesided ? length / 2 + 1 : length, 2} || parts < 1 || parts > 2) {
    return operands.error("dy " + format_dims(dy) + " is not of frames of " +
                          std::to_string(length) + " elements every " + std::to_string(step) +
                          " of a signal " + format_dims(x));
  }
  if (length > kMostLength) return unimplemented("STFTGrad: a transform beyond 2^24");
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {length}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, x));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, {length}));
  Fourier fourier(length);
  const Int signal_elems = operands.in(1).elems();
  const std::size_t bytes =
      doubles_bytes(signal_elems + length) + complex_bytes(length + fourier.room_elems());
  return make_kernel(
      [=, fourier = std::move(fourier), batch = x[0], samples = x[1], bins = dy[2],
       dy_elements = Elements(operands.in(0)), signal = Elements(operands.in(1)),
       window = Elements(operands.in(2)), dsignal = Elements(operands.out(0)),
       dwindow = Elements(operands.out(1))](const KernelArguments& arguments) {
        auto* signal_sums = static_cast<double*>(arguments.workspace);
        double* window_sums = signal_sums + signal_elems;
        auto* wave = reinterpret_cast<Complex*>(window_sums + length);
        std::fill_n(signal_sums, signal_elems + length, 0.0);
        const void* weights = in_buffer(arguments, 2);
        Int place = 0;
        for (Int unit = 0; unit < batch * frames; ++unit) {
          std::fill_n(wave, length, Complex{});
          for (Int k = 0; k < bins; ++k, place += 2) {
            wave[k] = {dy_elements.read<double>(arguments.inputs[0], place),
                       dy_elements.read<double>(arguments.inputs[0], place + 1)};
          }
          fourier.transform(wave, wave + length, true);
          const Int start = (unit / frames * samples + unit % frames * step) * parts;
          for (Int i = 0; i < length; ++i) {
            const double w = has_window ? window.read<double>(weights, i) : 1.0;
            const double gradient[2] = {wave[i].re * static_cast<double>(length),
                                        wave[i].im * static_cast<double>(length)};
            for (Int part = 0; part < parts; ++part) {
              const Int at = start + i * parts + part;
              signal_sums[at] += gradient[part] * w;
              window_sums[i] += gradient[part] * signal.read<double>(arguments.inputs[1], at);
            }
          }
        }
        if (void* to = out_buffer(arguments, 0)) dsignal.pack(signal_sums, to);
        if (void* to = out_buffer(arguments, 1)) dwindow.pack(window_sums, to);
      },
      bytes);
}

}  // namespace mezzo::kernels::reference
