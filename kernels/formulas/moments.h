// Mean and variance of a set of numbers, joined from those of its parts: the parallel form of
// Welford's recurrence (Chan, Golub, LeVeque 1979). It subtracts no large squares, so a mean far
// from zero costs no digits.
#pragma once

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

template <typename T>
struct Moments {
  T count, mean;
  T squares;  // sum of the squared distances from the mean
};

// Of `a` followed by `b`, either of which may be of no numbers.
template <typename T>
MEZZO_HD inline Moments<T> joined(const Moments<T>& a, const Moments<T>& b) {
  const T count = a.count + b.count;
  if (b.count == T(0)) return a;
  const T share = b.count / count;
  const T distance = b.mean - a.mean;
  return {count, a.mean + distance * share,
          a.squares + b.squares + distance * distance * a.count * share};
}

// Of `a` and one number more.
template <typename T>
MEZZO_HD inline Moments<T> with_one_more(const Moments<T>& a, T x) {
  const T count = a.count + T(1);
  const T distance = x - a.mean;
  const T mean = a.mean + distance / count;
  return {count, mean, a.squares + distance * (x - mean)};
}

}  // namespace mezzo::kernels
