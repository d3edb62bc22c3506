#include "kernels/reference/fourier.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace mezzo::kernels::reference {
namespace {

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

// exp(-2 pi i k / n)
Complex root(std::int64_t k, std::int64_t n) {
  const double angle = -2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace

Fourier::Fourier(std::int64_t n) : n_(n), padded_(n) {
  if (!is_power_of_two(n)) {
    padded_ = 1;
    while (padded_ < 2 * n - 1) padded_ *= 2;
  }
  roots_.reserve(static_cast<std::size_t>(padded_ / 2));
  for (std::int64_t k = 0; k < padded_ / 2; ++k) roots_.push_back(root(k, padded_));
  if (n_ == padded_) return;
  filter_.resize(static_cast<std::size_t>(padded_));
  std::int64_t square = 0;  // k^2 modulo 2 n, so that the angle stays exact
  for (std::int64_t k = 0; k < n; ++k) {
    const Complex c = root(square, 2 * n);
    chirp_.push_back(c);
    filter_[static_cast<std::size_t>(k)] = conjugate(c);
    if (k > 0) filter_[static_cast<std::size_t>(padded_ - k)] = conjugate(c);
    square = (square + 2 * k + 1) % (2 * n);
  }
  transform_power(filter_.data(), false);
}

void Fourier::transform_power(Complex* x, bool inverse) const {
  for (std::int64_t i = 1, reversed = 0; i < padded_; ++i) {
    std::int64_t bit = padded_ / 2;
    for (; (reversed & bit) != 0; bit /= 2) reversed ^= bit;
    reversed ^= bit;
    if (i < reversed) std::swap(x[i], x[reversed]);
  }
  for (std::int64_t half = 1; half < padded_; half *= 2) {
    const std::int64_t step = padded_ / (2 * half);
    for (std::int64_t start = 0; start < padded_; start += 2 * half) {
      for (std::int64_t k = 0; k < half; ++k) {
        const Complex w = roots_[static_cast<std::size_t>(k * step)];
        const Complex odd = x[start + half + k] * (inverse ? conjugate(w) : w);
        const Complex even = x[start + k];
        x[start + k] = even + odd;
        x[start + half + k] = even - odd;
      }
    }
  }
}

void Fourier::transform(Complex* x, Complex* room, bool inverse) const {
  if (n_ == padded_) {
    transform_power(x, inverse);
  } else {
    // The inverse is the conjugate of the transform of the conjugate.
    for (std::int64_t k = 0; k < padded_; ++k) {
      room[k] = {};
      if (k >= n_) continue;
      room[k] = (inverse ? conjugate(x[k]) : x[k]) * chirp_[static_cast<std::size_t>(k)];
    }
    transform_power(room, false);
    for (std::int64_t k = 0; k < padded_; ++k) {
      room[k] = room[k] * filter_[static_cast<std::size_t>(k)];
    }
    transform_power(room, true);
    const double share = 1.0 / static_cast<double>(padded_);
    for (std::int64_t k = 0; k < n_; ++k) {
      const Complex y = room[k] * chirp_[static_cast<std::size_t>(k)];
      x[k] = {y.re * share, inverse ? -y.im * share : y.im * share};
    }
  }
  if (!inverse) return;
  const double share = 1.0 / static_cast<double>(n_);
  for (std::int64_t k = 0; k < n_; ++k) x[k] = {x[k].re * share, x[k].im * share};
}

}  // namespace mezzo::kernels::reference
