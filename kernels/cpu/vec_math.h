// Elementary functions on vectors. Error below 2 units in the last place of float32 over the whole
// range, subnormals, zeros, infinities and NaN included (tests/kernels/cpu_math_test.cpp checks it
// against double). The coefficients come from fit_polynomials.py.
#pragma once

#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {

// exp(x + tail), |tail| tiny: x + tail = k ln 2 + r, a polynomial in r, times 2^k.
MEZZO_VEC F exp_sum(F x, F tail) {
  constexpr float kTerms[] = {0.499999881F, 0.166665182F, 0.0416696481F, 0.00836894661F,
                              0.00137453259F};
  // Beyond the bounds the result is 0 or infinity anyway; NaN passes as the second operand.
  x = max_or_second(set1(-110.0F), min_or_second(set1(100.0F), x));
  const F k = round(x * set1(1.44269504F));
  F r = fnma(k, set1(0.693359375F), x);  // exact: 10 bits of ln 2
  r = fnma(k, set1(-2.12194440e-4F), r) + tail;
  const F value = fma(r * r, polynomial(r, kTerms), r) + set1(1.0F);
  return scale_by_power(value, k);
}
MEZZO_VEC F exp(F x) { return exp_sum(x, zero()); }

// exp(x) - 1 for x <= 0, exact to the last places near 0 as well.
MEZZO_VEC F expm1_negative(F x) {
  constexpr float kTerms[] = {0.499999881F, 0.166665182F, 0.0416696481F, 0.00836894661F,
                              0.00137453259F};
  const F bounded = max_or_second(set1(-30.0F), x);
  const F k = round(bounded * set1(1.44269504F));
  F r = fnma(k, set1(0.693359375F), bounded);
  r = fnma(k, set1(-2.12194440e-4F), r);
  const F value = fma(r * r, polynomial(r, kTerms), r);  // exp(r) - 1
  const F power = scale_by_power(set1(1.0F), k);
  return fma(value, power, power - set1(1.0F));
}

// log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], plus e ln 2.
MEZZO_VEC F log_reduced(F f, F e) {
  constexpr float kTerms[] = {0.333333313F,  -0.25000003F, 0.200007036F, -0.16667299F, 0.142488733F,
                              -0.124365523F, 0.116990305F, -0.11411383F, 0.06850034F};
  const F square = f * f;
  F value = square * f * polynomial(f, kTerms);
  value = fma(e, set1(-2.12194440e-4F), value);
  value = fnma(set1(0.5F), square, value);
  return fma(e, set1(0.693359375F), f + value);
}

MEZZO_VEC F log(F x) {
  const M subnormal = x < set1(1.17549435e-38F);
  const F scaled = select(subnormal, x * set1(0x1p23F), x);
  // scaled = m 2^e with m in [sqrt(1/2), sqrt(2)): take sqrt(1/2) as the border of the exponents.
  const I shifted = bits(scaled) - iset1(0x3f3504f3);
  const F e = to_float(shift_right<23>(shifted)) - select(subnormal, set1(23.0F), zero());
  const F m = from_bits((shifted & iset1(0x007fffff)) + iset1(0x3f3504f3));
  F value = log_reduced(m - set1(1.0F), e);
  const F infinity = set1(__builtin_inff());
  value = select(x < infinity, value, x);  // infinity and NaN
  value = select(x == zero(), negate(infinity), value);
  return select(x < zero(), set1(__builtin_nanf("")), value);
}

// log(1 + e) for e in [0, 1].
MEZZO_VEC F log1p_unit(F e) {
  const M large = set1(0.41421356F) < e;
  const F f = select(large, fma(e, set1(0.5F), set1(-0.5F)), e);
  return log_reduced(f, select(large, set1(1.0F), zero()));
}

MEZZO_VEC F tanh(F x) {
  constexpr float kTerms[] = {-0.333333343F, 0.133333609F,    -0.0539673008F,
                              0.021815246F,  -0.00846113823F, 0.00240081409F};
  const F t = abs(x);
  const F square = x * x;
  const F small = fma(x * square, polynomial(square, kTerms), x);
  const F large = set1(1.0F) - set1(2.0F) / (exp(t + t) + set1(1.0F));
  return select(t < set1(0.625F), small, select(is_nan(x), x, copy_sign(large, x)));
}

// 1 / (1 + e) or e / (1 + e) with e = exp(-|x|). One step of refinement takes back the rounding of
// 1 + e and of the division, leaving little but the error of exp.
MEZZO_VEC F sigmoid(F x) {
  const F one = set1(1.0F);
  const F e = exp(negate(abs(x)));
  const F top = select(x < zero(), e, one);
  const F sum = one + e;
  const F lost = e - (sum - one);
  const F reciprocal = one / sum;
  const F quotient = top * reciprocal;
  const F rest = fnma(quotient, lost, fnma(quotient, sum, top));
  return fma(rest, reciprocal, quotient);
}

MEZZO_VEC F softplus(F x) {  // log(1 + exp(x))
  return max_or_second(zero(), x) + log1p_unit(exp(negate(abs(x))));
}

// erfc(t) for t >= 0.85 is exp(-t^2) times this: a polynomial in q = (t - 2) / (t + 2), divided by
// t + 2. Good up to 10.2, beyond which erfc is 0 in float32.
MEZZO_VEC F erfc_scaled(F t) {
  constexpr float kTerms[] = {1.02158272F,      -0.687160671F,  0.279471248F,  -0.0364425778F,
                              -0.021499563F,    0.0064813653F,  0.0030349961F, -0.000848899595F,
                              -0.000546260388F, 9.71271584e-05F};
  const F reciprocal = set1(1.0F) / (t + set1(2.0F));
  const F q = (t - set1(2.0F)) * reciprocal;
  return polynomial(q, kTerms) * reciprocal;
}

MEZZO_VEC F exp_of_minus_square(F t) {
  const F square = t * t;
  const F lost = fma(t, t, negate(square));  // t^2 = square + lost
  return exp_sum(negate(square), negate(lost));
}

MEZZO_VEC F erfc_tail(F t) {
  t = min_or_second(set1(10.2F), t);
  return exp_of_minus_square(t) * erfc_scaled(t);
}

MEZZO_VEC F erf_small(F x) {  // |x| < 0.875
  constexpr float kTerms[] = {0.128379174F,   -0.376126349F,    0.112837389F,    -0.0268629715F,
                              0.00521369698F, -0.000836454157F, 0.000102594684F, -6.24191534e-06F};
  return fma(x, polynomial(x * x, kTerms), x);
}

MEZZO_VEC F erf(F x) {
  const F t = abs(x);
  const F large = copy_sign(set1(1.0F) - erfc_tail(t), x);
  return select(t < set1(0.875F), erf_small(x), select(is_nan(x), x, large));
}

// The normal distribution's integral up to x, without cancellation for negative x, and exp(-x^2/2).
struct Normal {
  F integral;
  F bell;
};
MEZZO_VEC Normal normal(F x) {
  const F u = x * set1(0.707106781F);
  const F t = min_or_second(set1(10.2F), abs(u));
  const F bell = exp_of_minus_square(t);
  const F half_tail = set1(0.5F) * (bell * erfc_scaled(t));
  const F outer = select(u < zero(), half_tail, set1(1.0F) - half_tail);
  const F inner = fma(set1(0.5F), erf_small(u), set1(0.5F));
  return {select(t < set1(0.875F), inner, outer), bell};
}

// sin(x + quarters pi / 2). Lanes beyond 1e5 go to the C library: rare, and they need a longer pi.
template <int kQuarters>
MEZZO_VEC F sin_shifted(F x) {
  constexpr float kSin[] = {-0.166666672F, 0.00833339617F, -0.00019860841F, 2.91669426e-06F};
  constexpr float kCos[] = {0.0416666642F, -0.00138882711F, 2.4543715e-05F};
  const F k = round(x * set1(0.636619772F));
  F r = fnma(k, set1(1.57079637F), x);  // pi / 2 in three parts
  r = fnma(k, set1(-4.37113883e-8F), r);
  r = fnma(k, set1(-1.71512489e-15F), r);
  const F square = r * r;
  const F sine = fma(r * square, polynomial(square, kSin), r);
  const F cosine =
      fma(square * square, polynomial(square, kCos), fnma(set1(0.5F), square, set1(1.0F)));
  const I quadrant = to_int(k) + iset1(kQuarters);
  const M swap = (quadrant & iset1(1)) == iset1(1);
  const I sign = shift_left<30>(quadrant & iset1(2));
  F value = from_bits(bits(select(swap, cosine, sine)) ^ sign);
  if (kQuarters == 0) value = select(x == zero(), x, value);  // keeps -0
  if (any(set1(1e5F) < abs(x)) || any(is_nan(x))) {
    alignas(64) float in[kLanes], out[kLanes];
    store(in, x);
    store(out, value);
    for (int i = 0; i < kLanes; ++i) {
      if (__builtin_fabsf(in[i]) <= 1e5F) continue;
      out[i] = kQuarters == 0 ? __builtin_sinf(in[i]) : __builtin_cosf(in[i]);
    }
    value = load(out);
  }
  return value;
}
MEZZO_VEC F sin(F x) { return sin_shifted<0>(x); }
MEZZO_VEC F cos(F x) { return sin_shifted<1>(x); }

// x^e. Exponents that are the same small whole number in all lanes, and 1/2, take a few
// multiplications; the rest goes to the C library.
MEZZO_VEC F pow(F x, F e) {
  if (all(e == set1(2.0F))) return x * x;
  if (all(e == set1(3.0F))) return x * x * x;
  if (all(e == set1(1.0F))) return x;
  if (all(e == set1(-1.0F))) return set1(1.0F) / x;
  if (all(e == set1(0.5F)) && all(zero() < x)) return sqrt(x);
  alignas(64) float base[kLanes], exponent[kLanes];
  store(base, x);
  store(exponent, e);
  for (int i = 0; i < kLanes; ++i) base[i] = __builtin_powf(base[i], exponent[i]);
  return load(base);
}

}  // namespace mezzo::kernels::MEZZO_ISA
