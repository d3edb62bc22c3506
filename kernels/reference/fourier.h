// Discrete Fourier transforms of any length, in double.
//
// Powers of two: decimation in time (Cooley and Tukey, "An Algorithm for the Machine Calculation of
// Complex Fourier Series", 1965). Other lengths: as a convolution with a chirp, by transforms of a
// power of two (Bluestein, "A Linear Filtering Approach to the Computation of Discrete Fourier
// Transform", 1970). Either takes O(n log n).
#pragma once

#include <cstdint>
#include <vector>

namespace mezzo::kernels::reference {

// std::complex handles infinities in every product; sums of waves need no such care.
struct Complex {
  double re = 0.0;
  double im = 0.0;
};
constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
constexpr Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
constexpr Complex conjugate(Complex a) { return {a.re, -a.im}; }

class Fourier {
 public:
  // Tables of some 6 n numbers. REQUIRES: 1 <= n < 2^40.
  explicit Fourier(std::int64_t n);

  std::int64_t length() const { return n_; }
  // Elements of the room that transform() needs.
  std::int64_t room_elems() const { return n_ == padded_ ? 0 : padded_; }

  // x[k] = sum of x[j] exp(-2 pi i j k / n), in place; `inverse`: +2 pi i, and divided by n.
  void transform(Complex* x, Complex* room, bool inverse) const;

 private:
  void transform_power(Complex* x, bool inverse) const;  // of length padded_, not divided

  std::int64_t n_;
  std::int64_t padded_;          // n, or the power of two of the convolution
  std::vector<Complex> roots_;   // exp(-2 pi i k / padded), k < padded / 2
  std::vector<Complex> chirp_;   // exp(-pi i k^2 / n), k < n; only where n != padded
  std::vector<Complex> filter_;  // the transform of the conjugate chirp
};

}  // namespace mezzo::kernels::reference
