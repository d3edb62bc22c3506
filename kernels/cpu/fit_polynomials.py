#!/usr/bin/env python3
"""Fits the polynomials of kernels/cpu/vec_math.h and prints their coefficients.

For each function: least squares of the relative error at Chebyshev nodes in 60 digits (close to the
best uniform error), coefficients rounded to float32 from the lowest degree up, the rest refitted to
what each rounding left. Needs mpmath and numpy. Prints the greatest relative error of the rounded polynomial.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 60


def nodes(low, high, count):
    return [
        (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * count))
        for i in range(count)
    ]


def fit(name, target, low, high, degree, fixed=()):
    """target(x) ~ sum c_i x^i on [low, high]; `fixed` holds the first coefficients."""
    low, high = mp.mpf(low), mp.mpf(high)
    coefficients = [mp.mpf(c) for c in fixed]
    points = nodes(low, high, 6 * degree + 20)
    while len(coefficients) <= degree:
        done = len(coefficients)
        rows, left = [], []
        for x in points:
            wanted = target(x)
            rest = wanted - sum(c * x**i for i, c in enumerate(coefficients))
            rows.append([x**i / wanted for i in range(done, degree + 1)])
            left.append(rest / wanted)
        solution, _ = mp.qr_solve(mp.matrix(rows), mp.matrix(left))
        coefficients.append(mp.mpf(float(np.float32(float(solution[0])))))
    worst = max(
        abs(sum(c * x**i for i, c in enumerate(coefficients)) / target(x) - 1)
        for x in nodes(low, high, 400)
        if target(x) != 0
    )
    print(f"{name}: relative error {mp.nstr(worst, 3)}")
    print("  {" + ", ".join(f"{float(c):.9g}F" for c in coefficients) + "}")


def around_zero(value, limit):
    """Takes the limit where the formula is 0 / 0."""
    return lambda x: limit if abs(x) < mp.mpf("1e-25") else value(x)


half_ln2 = mp.log(2) / 2 * mp.mpf("1.0001")
fit("exp(r)", mp.exp, -half_ln2, half_ln2, 6, fixed=(1, 1))
fit(
    "log: (log(1+f) - f + f^2/2) / f^3",
    around_zero(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, mp.mpf(1) / 3),
    mp.sqrt(mp.mpf("0.5")) - 1,
    mp.sqrt(2) - 1,
    8,
)
fit(
    "tanh: (tanh(x)/x - 1)/x^2 in x^2",
    around_zero(lambda s: (mp.tanh(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, mp.mpf(-1) / 3),
    0,
    mp.mpf("0.625") ** 2,
    5,
)
fit(
    "erf: erf(x)/x in x^2",
    around_zero(lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s), 2 / mp.sqrt(mp.pi)),
    0,
    mp.mpf("0.875") ** 2,
    7,
    fixed=(1 + float(np.float32(2 / np.sqrt(np.pi) - 1)),),  # evaluated as x + x (c0 - 1 + ...)
)


def erfcx_of_q(q):  # q = (t - 2) / (t + 2)
    t = 2 * (1 + q) / (1 - q)
    return mp.exp(t * t) * mp.erfc(t)


fit(
    "erfc: exp(t^2) erfc(t) (t + 2) in q = (t - 2) / (t + 2)",
    lambda q: erfcx_of_q(q) * (2 * (1 + q) / (1 - q) + 2),
    (mp.mpf("0.85") - 2) / (mp.mpf("0.85") + 2),
    (mp.mpf("10.2") - 2) / (mp.mpf("10.2") + 2),
    9,
)
quarter = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
fit(
    "sin: (sin(x)/x - 1)/x^2 in x^2",
    around_zero(lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, mp.mpf(-1) / 6),
    0,
    quarter,
    3,
)
fit(
    "cos: (cos(x) - 1 + x^2/2)/x^4 in x^2",
    around_zero(lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, mp.mpf(1) / 24),
    0,
    quarter,
    2,
)
