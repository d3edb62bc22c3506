#!/usr/bin/env python3
"""Writes reference_cases_layers.txt: quantised and integer products, recurrent layers, signals,
random numbers, optimizers, and the norms, pools and losses that reference_cases.py does not hold.

Results come from PyTorch, numpy, ONNX's reference evaluator or the formulas of ONNX's operators
written out here; never from mezzo.

    python3 reference_cases_layers.py > reference_cases_layers.txt
"""
import pathlib
import runpy

import numpy as np
import onnx
import torch
import torch.nn.functional as F

import reference_case_writer
from reference_case_writer import INF, case, onnx_run, t

rng = np.random.default_rng(21)
print("# Operands and results of layers, made by reference_cases_layers.py with torch "
      f"{torch.__version__.split('+')[0]}, onnx {onnx.__version__} and numpy {np.__version__}.")


def data(*dims, scale=2.0):
    return np.round(rng.standard_normal(dims) * scale, 2)


def whole(low, high, dims, dtype=np.int64):
    return rng.integers(low, high, dims, dtype=dtype, endpoint=True)


# --- integer products --------------------------------------------------------------------------
a, b = whole(-9, 9, (2, 3)), whole(-9, 9, (3, 2))
case("MatMul: int64", [a, b], [a @ b])
big = np.array([[2**62, 3]], np.int64)
case("MatMul: int64 wraps", [big, np.array([[2], [5]], np.int64)],
     [np.array([[-(2**63) + 15]], np.int64)])
a, b = whole(0, 2**32 - 1, (2, 2, 3), np.uint32), whole(0, 9, (3,), np.uint32)
case("MatMul: uint32, vector", [a, b], [a @ b])
a, b, c = whole(-9, 9, (3, 2), np.int32), whole(-9, 9, (4, 3), np.int32), whole(-9, 9, (4,), np.int32)
case("Gemm: int32, whole factors", [a, b, c], [2 * (a.T @ b.T) - 3 * c], transA=1, transB=1,
     alpha=2.0, beta=-3.0)
case("Gemm: int32, truncated", [np.array([[3]], np.int32), np.array([[-5]], np.int32)],
     [np.array([[-7]], np.int32)], alpha=0.5)


def quantised(y, zero, dtype):
    ends = np.iinfo(dtype)
    return np.clip(np.rint(y) + zero, ends.min, ends.max).astype(dtype)


i32 = lambda v: np.asarray(v).astype(np.int32)
a, b = whole(0, 255, (2, 3), np.uint8), whole(-128, 127, (3, 2), np.int8)
case("MatMulInteger: no zero points", [a, b], [i32(a) @ i32(b)])
za, zb = np.array(7, np.uint8), np.array([-3, 120], np.int8)
case("MatMulInteger: zero point per column", [a, b, za, zb],
     [(i32(a) - 7) @ (i32(b) - i32(zb))])
a3, zrow = whole(0, 255, (2, 2, 3), np.uint8), whole(0, 255, (2, 2, 1), np.uint8)
case("MatMulInteger: zero point per row of every matrix", [a3, b, zrow],
     [(i32(a3) - i32(zrow)) @ i32(b)])
sa, sb, sy = np.array(0.0125), np.array([0.02, 0.5]), np.array(0.25)
zy = np.array(100, np.uint8)
case("QLinearMatMul: scale per column",
     [a, sa, za, b, sb, zb, sy, zy],
     [quantised(((i32(a) - 7) @ (i32(b) - i32(zb))) * (sa * sb / sy), 100, np.uint8)])
case("QLinearMatMul: vectors, saturates, to int8",
     [a[0], np.array(1.0), za, b[:, 0], np.array(1.0), np.array(0, np.int8), np.array(1.0),
      np.array(-1, np.int8)],
     [quantised((i32(a[0]) - 7) @ i32(b[:, 0]) * 1.0, -1, np.int8)])
case("QLinearMatMul: ties to even", [np.array([[1, 3, 5]], np.int8).T, np.array(0.5), np.array(0, np.int8),
                                     np.array([[1]], np.int8), np.array(1.0), np.array(0, np.int8),
                                     np.array(1.0), np.array(1, np.int8)],
     [np.array([[1], [3], [3]], np.int8)])


def conv64(x, w, **kw):
    f = {1: F.conv1d, 2: F.conv2d}[x.ndim - 2]
    return np.rint(f(t(x.astype(float)), t(w.astype(float)), **kw).numpy())


x, w = whole(0, 255, (1, 4, 4, 3), np.uint8), whole(-128, 127, (4, 2, 2, 2), np.int8)
case("ConvInteger: groups, pads", [x, w, np.array(100, np.uint8)],
     [i32(conv64(x.astype(float) - 100, w, stride=2, padding=1, groups=2))],
     group=2, pads=[1, 1, 1, 1], strides=[2, 2])
zw = whole(-128, 127, (4,), np.int8)
case("ConvInteger: zero point per channel", [x, w, None, zw],
     [i32(conv64(x, w - zw.reshape(4, 1, 1, 1).astype(float), groups=2))], group=2)
x1, w1 = whole(0, 255, (2, 2, 5), np.uint8), whole(0, 255, (3, 2, 2), np.uint8)
sw, bias = np.array([0.01, 0.02, 0.005]), whole(-500, 500, (3,), np.int32)
total = conv64(x1 - 3.0, w1 - 128.0, dilation=2) + bias.reshape(1, 3, 1)
case("QLinearConv: scale per channel, bias",
     [x1, np.array(0.5), np.array(3, np.uint8), w1, sw, np.array(128, np.uint8), np.array(2.0),
      np.array(17, np.uint8), bias],
     [quantised(total * (0.5 * sw / 2.0).reshape(1, 3, 1), 17, np.uint8)], dilations=[2])

# --- recurrent layers --------------------------------------------------------------------------
sigmoid = lambda v: 1.0 / (1.0 + np.exp(-v))
ACTIVATIONS = {
    "Affine": lambda v, a, b: a * v + b, "Relu": lambda v, a, b: np.maximum(v, 0),
    "LeakyRelu": lambda v, a, b: np.where(v < 0, a * v, v),
    "ThresholdedRelu": lambda v, a, b: np.where(v > a, v, 0), "Tanh": lambda v, a, b: np.tanh(v),
    "ScaledTanh": lambda v, a, b: a * np.tanh(b * v), "Sigmoid": lambda v, a, b: sigmoid(v),
    "HardSigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "Elu": lambda v, a, b: np.where(v < 0, a * np.expm1(v), v),
    "Softsign": lambda v, a, b: v / (1 + np.abs(v)), "Softplus": lambda v, a, b: np.log1p(np.exp(v)),
}


def recurrent(cell, x, w, r, b=None, lengths=None, h=None, c=None, p=None, reverse=False, clip=INF,
              acts=None, forget=False, before=False):
    """One direction, x[T, B, I]; the formulas of ONNX's operators. Returns y[T, B, H], h, c."""
    steps, batch, _ = x.shape
    n = r.shape[-1]
    names = acts or {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[cell]
    funcs = []
    for name in names:
        name, alpha, beta = name if isinstance(name, tuple) else (name, 0, 0)
        funcs.append(lambda v, f=ACTIVATIONS[name], a=alpha, b=beta: f(np.clip(v, -clip, clip), a, b))
    b = np.zeros(2 * len(w)) if b is None else b
    wb, rb = b[:len(w)], b[len(w):]
    h = np.zeros((batch, n)) if h is None else h.copy()
    c = np.zeros((batch, n)) if c is None else c.copy()
    p = np.zeros(3 * n) if p is None else p
    y = np.zeros((steps, batch, n))
    for i in range(batch):
        length = steps if lengths is None else lengths[i]
        for time in (range(length - 1, -1, -1) if reverse else range(length)):
            a, u = x[time, i] @ w.T + wb, h[i] @ r.T + rb
            part = lambda v, k: v[k * n:(k + 1) * n]
            if cell == "RNN":
                h[i] = funcs[0](a + u)
            elif cell == "GRU":
                z, s = funcs[0](part(a + u, 0)), funcs[0](part(a + u, 1))
                inner = s * part(u, 2) if before else (s * h[i]) @ part(r, 2).T + part(rb, 2)
                h[i] = (1 - z) * funcs[1](part(a, 2) + inner) + z * h[i]
            else:
                g = a + u
                gi = funcs[0](part(g, 0) + part(p, 0) * c[i])
                gf = 1 - gi if forget else funcs[0](part(g, 2) + part(p, 2) * c[i])
                c[i] = gf * c[i] + gi * funcs[1](part(g, 3))
                h[i] = funcs[0](part(g, 1) + part(p, 1) * c[i]) * funcs[2](c[i])
            y[time, i] = h[i]
    return y, h, c


T, B, I, H = 4, 2, 3, 2
x = data(T, B, I, scale=1.0)
lengths = np.array([2, 4], np.int32)


def weights(gates, directions=1):
    return (data(directions, gates * H, I, scale=0.7), data(directions, gates * H, H, scale=0.7),
            data(directions, 2 * gates * H, scale=0.5))


w, r, b = weights(1)
y, h, _ = recurrent("RNN", x, w[0], r[0])
case("RNN: no bias", [x, w, r], [y[:, None], h[None]], hidden_size=H)
h0 = data(1, B, H, scale=0.5)
y, h, _ = recurrent("RNN", x, w[0], r[0], b[0], lengths, h0[0], reverse=True, clip=0.4,
                    acts=[("Affine", 0.5, 0.1)])
case("RNN: reverse, lengths, clip, Affine", [x, w, r, b, lengths, h0], [y[:, None], h[None]],
     direction="reverse", clip=0.4, activations="Affine", activation_alpha=[0.5],
     activation_beta=[0.1])
w, r, b = weights(1, 2)
parts = [recurrent("RNN", x, w[d], r[d], b[d], reverse=d == 1,
                   acts=[[("LeakyRelu", 0.3, 0)], [("ThresholdedRelu", 0.2, 0)]][d])[:2] for d in (0, 1)]
case("RNN: bidirectional, batch first, an activation per direction", [x.swapaxes(0, 1), w, r, b],
     [np.stack([q[0] for q in parts], 2).swapaxes(0, 1), np.stack([q[1] for q in parts], 1)],
     direction="bidirectional", layout=1, activations="LeakyRelu,ThresholdedRelu",
     activation_alpha=[0.3, 0.2])
for name, alpha, beta in [("Elu", 0.5, 0), ("HardSigmoid", 0.3, 0.4), ("ScaledTanh", 1.7, 0.6),
                          ("Softsign", 0, 0), ("Softplus", 0, 0), ("Relu", 0, 0)]:
    y, h, _ = recurrent("RNN", x, w[0], r[0], b[0], acts=[(name, alpha, beta)])
    kw = {}
    if name in ("Elu", "HardSigmoid", "ScaledTanh"):
        kw["activation_alpha"] = [alpha]
    if name in ("HardSigmoid", "ScaledTanh"):
        kw["activation_beta"] = [beta]
    case(f"RNN: {name}, last state alone", [x, w[:1], r[:1], b[:1]], [None, h[None]],
         activations=name, **kw)

w, r, b = weights(3)
layer = torch.nn.GRU(I, H).double()
order = [1, 0, 2]  # ours z r h, torch's r z n
flip = lambda v: np.concatenate([v[k * H:(k + 1) * H] for k in order])
with torch.no_grad():
    layer.weight_ih_l0.copy_(t(flip(w[0])))
    layer.weight_hh_l0.copy_(t(flip(r[0])))
    layer.bias_ih_l0.copy_(t(flip(b[0][:3 * H])))
    layer.bias_hh_l0.copy_(t(flip(b[0][3 * H:])))
    y, h = layer(t(x))
case("GRU: as PyTorch's", [x, w, r, b], [y.unsqueeze(1), h], linear_before_reset=1)
y, h, _ = recurrent("GRU", x, w[0], r[0], b[0], lengths, h0[0])
case("GRU: reset before, lengths", [x, w, r, b, lengths, h0], [y[:, None], h[None]])
w, r, b = weights(3, 2)
parts = [recurrent("GRU", x, w[d], r[d], b[d], reverse=d == 1, clip=0.5)[:2] for d in (0, 1)]
case("GRU: bidirectional, clip", [x, w, r, b],
     [np.stack([q[0] for q in parts], 1), np.stack([q[1] for q in parts])],
     direction="bidirectional", clip=0.5)

w, r, b = weights(4)
layer = torch.nn.LSTM(I, H).double()
order = [0, 2, 3, 1]  # ours i o f c, torch's i f g o
with torch.no_grad():
    layer.weight_ih_l0.copy_(t(flip(w[0])))
    layer.weight_hh_l0.copy_(t(flip(r[0])))
    layer.bias_ih_l0.copy_(t(flip(b[0][:4 * H])))
    layer.bias_hh_l0.copy_(t(flip(b[0][4 * H:])))
    y, (h, c) = layer(t(x))
case("LSTM: as PyTorch's", [x, w, r, b], [y.unsqueeze(1), h, c])
c0, p = data(1, B, H), data(1, 3 * H, scale=0.5)
y, h, c = recurrent("LSTM", x, w[0], r[0], b[0], lengths, h0[0], c0[0], p[0])
case("LSTM: peepholes, lengths, states", [x, w, r, b, lengths, h0, c0, p],
     [y[:, None], h[None], c[None]])
y, h, c = recurrent("LSTM", x, w[0], r[0], b[0], c=c0[0], forget=True, clip=0.8,
                    acts=[("HardSigmoid", 0.25, 0.5), "Softsign", ("ScaledTanh", 1.2, 0.7)])
case("LSTM: coupled gates, clip, activations, no y_h", [x, w, r, b, None, None, c0],
     [y[:, None], None, c[None]], input_forget=1, clip=0.8,
     activations="hardsigmoid,softsign,scaledtanh", activation_alpha=[0.25, 1.2],
     activation_beta=[0.5, 0.7])
w, r, b = weights(4, 2)
parts = [recurrent("LSTM", x, w[d], r[d], b[d], lengths, reverse=d == 1) for d in (0, 1)]
case("LSTM: bidirectional, batch first, lengths", [x.swapaxes(0, 1), w, r, b, lengths],
     [np.stack([q[0] for q in parts], 2).swapaxes(0, 1), np.stack([q[1] for q in parts], 1),
      np.stack([q[2] for q in parts], 1)], direction="bidirectional", layout=1)

# --- norms, pools, losses ----------------------------------------------------------------------
x, scale, bias = data(2, 4, 3, 2), data(4), data(4)
case("GroupNormalization: per channel", [x, scale, bias],
     [F.group_norm(t(x), 2, t(scale), t(bias), 1e-3)], num_groups=2, epsilon=1e-3)
case("GroupNormalization: per group", [x, scale[:2], bias[:2]],
     [F.group_norm(t(x), 2, t(np.repeat(scale[:2], 2)), t(np.repeat(bias[:2], 2)))], num_groups=2)
case("InstanceNormalization:", [x, scale, bias],
     [F.instance_norm(t(x), weight=t(scale), bias=t(bias), eps=1e-2)], epsilon=1e-2)
s = data(3, 2)
case("RMSNormalization: two dims", [x, s], [F.rms_norm(t(x), (3, 2), t(s), 1e-5)], axis=2)
s = data(2)
case("RMSNormalization: last dim", [x, s], [F.rms_norm(t(x), (2,), t(s), 1e-2)], epsilon=1e-2)
case("RMSNormalization: scale broadcast", [x, s[:1]],
     [F.rms_norm(t(x), (3, 2), t(np.full((3, 2), s[0])), 1e-5)], axis=-2)
case("LRN: odd size", [x], [F.local_response_norm(t(x), 3, 0.5, 0.75, 2.0)], size=3, alpha=0.5,
     bias=2.0)
square = np.zeros_like(x)
for c in range(4):
    square[:, c] = (x[:, max(0, c - 1):c + 3] ** 2).sum(1)
case("LRN: even size", [x], [x / (1.0 + 0.1 / 4 * square) ** 0.5], size=4, alpha=0.1, beta=0.5)
x = data(2, 3, 4)
case("LayerNormalization: scale broadcast", [x, np.array([[1.5], [0.5], [2.0]]), np.array([0.25])],
     [F.layer_norm(t(x), (3, 4)).numpy() * np.array([[1.5], [0.5], [2.0]]) + 0.25], axis=1)

x = data(1, 2, 5, 4)
case("LpPool: p 2", [x], [F.lp_pool2d(t(x), 2, (3, 2), (2, 1))], kernel_shape=[3, 2], strides=[2, 1])
padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)))
case("LpPool: p 3, pads", [x], [F.lp_pool2d(t(np.abs(padded)), 3, (2, 2), (1, 1))],
     kernel_shape=[2, 2], pads=[1, 0, 0, 1], p=3)
case("LpPool: p 1, dilations", [x[:, :, 0]],
     [np.abs(x[:, :, 0, [0, 1]]) + np.abs(x[:, :, 0, [2, 3]])], kernel_shape=[2], dilations=[2], p=1)
case("GlobalLpPool:", [x], [np.sqrt((x * x).sum((2, 3), keepdims=True))])
case("GlobalLpPool: p 3", [x], [np.cbrt((np.abs(x) ** 3).sum((2, 3), keepdims=True))], p=3)
q = whole(-128, 127, (1, 1, 4, 4), np.int8)
y, i = F.max_pool2d(t(q.astype(float)), 2, 2, return_indices=True)
case("MaxPool: int8", [q], [y.numpy().astype(np.int8), i], kernel_shape=[2, 2], strides=[2, 2])
y, i = F.max_pool2d(t(x), 2, 2, return_indices=True)
i = i.numpy()
plane = np.arange(2).reshape(1, 2, 1, 1)
case("MaxPool: column-major indices", [x], [y, plane * 20 + i // 4 + i % 4 * 5], kernel_shape=[2, 2],
     strides=[2, 2], storage_order=1)

for title, dims, reduction, weighted, ignored in [
        ("mean", (3, 4), "mean", False, None), ("mean, weights, ignored", (2, 4, 3), "mean", True, 1),
        ("sum, weights", (2, 4, 2, 2), "sum", True, None), ("none, ignored", (3, 4), "none", False, 2)]:
    p = np.log(np.round(rng.uniform(0.1, 1.0, dims), 2))
    labels = whole(0, dims[1] - 1, (dims[0], *dims[2:]))
    labels.ravel()[0] = 3
    weight = np.round(rng.uniform(0.5, 2.0, dims[1]), 2) if weighted else None
    kw = {} if ignored is None else {"ignore_index": ignored}
    y = F.nll_loss(t(p), t(labels), None if weight is None else t(weight), reduction=reduction, **kw)
    case(f"NegativeLogLikelihoodLoss: {title}", [p, labels] + ([weight] if weighted else []), [y],
         reduction=reduction, **kw)

# --- signals -----------------------------------------------------------------------------------


def parts(z):
    return np.stack([z.real, z.imag], -1)


x = data(2, 6, 1)
case("DFT: six real numbers", [x], [parts(np.fft.fft(x[..., 0]))])
case("DFT: one-sided, longer", [x], [parts(np.fft.rfft(x[..., 0], 8))], onesided=1, dft_length=8)
z = data(3, 5, 2)
zc = z[..., 0] + 1j * z[..., 1]
case("DFT: complex, outer axis, shorter", [z], [parts(np.fft.fft(zc, 2, 0))], axis=0, dft_length=2)
case("DFT: inverse", [z], [parts(np.fft.ifft(zc))], inverse=1)
case("DFT: inverse, one-sided", [z], [np.fft.irfft(zc, 8)[..., None]], inverse=1, onesided=1)
case("DFT: inverse, one-sided, odd", [z], [np.fft.irfft(zc, 9)[..., None]], inverse=1, onesided=1,
     dft_length=9)
x, window = data(2, 10, 1), np.round(np.hanning(4) + 0.1, 3)
frames = np.stack([x[:, k:k + 4, 0] for k in (0, 3, 6)], 1)
case("STFT: window", [x, window], [parts(np.fft.rfft(frames * window))], frame_step=3)
case("STFT: two-sided, no window", [x], [parts(np.fft.fft(frames))], frame_step=3, frame_length=4,
     onesided=0)
mel = [np.array(4), np.array(16), np.array(8192), np.array(0.0), np.array(4096.0)]
case("MelWeightMatrix:", mel, onnx_run("MelWeightMatrix", mel, output_datatype=11))

# --- random numbers ----------------------------------------------------------------------------
MASK = 0xFFFFFFFF


def philox(seed, step, block):
    counter = [block & MASK, block >> 32, step & MASK, step >> 32]
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ k0, p1 & MASK, (p0 >> 32) ^ counter[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return counter


def uniforms(seed, count):
    numbers = []
    for pair in range((count + 1) // 2):
        words = philox(seed, 1 << 63, pair)
        numbers += [((a << 32 | b) >> 11) * 2.0**-53 for a, b in (words[:2], words[2:])]
    return np.array(numbers[:count])


u = uniforms(5, 6)
case("RandomUniform:", [], [(-1.0 + 3.0 * u).reshape(2, 3)], low=-1.0, high=2.0, seed=5)
radius, angle = np.sqrt(-2 * np.log(1 - uniforms(9, 6)[::2])), 2 * np.pi * uniforms(9, 6)[1::2]
normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
case("RandomNormal:", [], [1.0 + 0.5 * normal[:5]], mean=1.0, scale=0.5, seed=9)
p = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 0.5])
case("Bernoulli:", [p], [(u < p).astype(np.int64)], seed=5)
logits = np.log(np.array([[0.5, 0.25, 0.25], [0.0001, 0.5, 0.4999]]))
cumulated = np.cumsum(np.exp(logits - logits.max(1, keepdims=True)), 1)
draws = [[int(np.searchsorted(cumulated[row], u[row * 3 + k] * cumulated[row, -1], "right"))
          for k in range(3)] for row in range(2)]
case("Multinomial:", [logits], [np.array(draws)], sample_size=3, seed=5)

# --- optimizers --------------------------------------------------------------------------------
rate, step0, step3 = np.array(0.1), np.array(0), np.array(3)
x1, x2, g1, g2, v1, v2 = data(2), data(3), data(2), data(3), data(2), data(3)
h1, h2 = np.abs(data(2)), np.abs(data(3))


def adagrad(x, g, h, t):
    g = 0.01 * x + g
    h = h + g * g
    return x - 0.1 / (1 + t * 0.2) * g / (np.sqrt(h) + 1e-3), h


kw = dict(norm_coefficient=0.01, epsilon=1e-3, decay_factor=0.2)
first, second = adagrad(x1, g1, h1, 3), adagrad(x2, g2, h2, 3)
case("Adagrad: two tensors", [rate, step3, x1, x2, g1, g2, h1, h2],
     [first[0], second[0], first[1], second[1]], **kw)


def adam(x, g, v, h, t):
    g = 0.01 * x + g
    v, h = 0.9 * v + 0.1 * g, 0.8 * h + 0.2 * g * g
    r = 0.1 * np.sqrt(1 - 0.8**t) / (1 - 0.9**t) if t else 0.1
    return 0.95 * (x - r * v / (np.sqrt(h) + 1e-3)), v, h


kw = dict(alpha=0.9, beta=0.8, norm_coefficient=0.01, norm_coefficient_post=0.05, epsilon=1e-3)
case("Adam: first step", [rate, step0, x1, g1, v1, h1], list(adam(x1, g1, v1, h1, 0)), **kw)
first, second = adam(x1, g1, v1, h1, 3), adam(x2, g2, v2, h2, 3)
case("Adam: two tensors", [rate, step3, x1, x2, g1, g2, v1, v2, h1, h2],
     [q[k] for k in range(3) for q in (first, second)], **kw)


def momentum(x, g, v, t, nesterov):
    g = 0.01 * x + g
    v = 0.9 * v + (0.7 if t else 1.0) * g
    return x - 0.1 * (g + 0.9 * v if nesterov else v), v


kw = dict(alpha=0.9, beta=0.7, norm_coefficient=0.01)
case("Momentum: first step", [rate, step0, x1, g1, v1], list(momentum(x1, g1, v1, 0, False)), **kw)
case("Momentum: Nesterov", [rate, step3, x1, g1, v1], list(momentum(x1, g1, v1, 3, True)),
     mode="nesterov", **kw)

# --- linear attention --------------------------------------------------------------------------


def linear_attention(q, k, v, hq, hk, past=None, decay=None, beta=None, scale=None):
    batch, steps, _ = q.shape
    split = lambda x, h: x.reshape(batch, steps, h, -1)
    q, k, v = split(q, hq), split(k, hk), split(v, hk)
    state = np.zeros((batch, hk, k.shape[-1], v.shape[-1])) if past is None else past.copy()
    y = np.zeros((batch, steps, hq, v.shape[-1]))
    for t_ in range(steps):
        if decay is not None:
            state *= np.exp(split(decay, hk)[:, t_])[..., None]
        value = v[:, t_]
        if beta is not None:
            seen = np.einsum("bhk,bhkv->bhv", k[:, t_], state)
            value = beta[:, t_, :, None] * (value - seen)
        state = state + k[:, t_, :, :, None] * value[:, :, None, :]
        wide = np.repeat(state, hq // hk, 1)
        y[:, t_] = np.einsum("bhk,bhkv->bhv", q[:, t_], wide)
    return y.reshape(batch, steps, -1) * (q.shape[-1] ** -0.5 if scale is None else scale), state


q, k, v, past = data(2, 3, 12), data(2, 3, 6, scale=0.5), data(2, 3, 4), data(2, 2, 3, 2)
heads = dict(q_num_heads=4, kv_num_heads=2)
case("LinearAttention: linear", [q, k, v], list(linear_attention(q, k, v, 4, 2)), update_rule="linear",
     **heads)
decay, beta = -np.abs(data(2, 3, 6)), np.abs(data(2, 3, 2, scale=0.3))
case("LinearAttention: gated per key, past, scale", [q, k, v, past, decay],
     list(linear_attention(q, k, v, 4, 2, past, decay, scale=0.25)), update_rule="gated", scale=0.25,
     **heads)
case("LinearAttention: delta", [q, k, v, None, None, beta],
     list(linear_attention(q, k, v, 4, 2, None, None, beta)), update_rule="delta", **heads)
case("LinearAttention: gated_delta per head", [q, k, v, past, decay[..., :2].copy(), beta[..., :1].copy()],
     [linear_attention(q, k, v, 4, 2, past, decay[..., :2], beta[..., :1])[0], None], **heads)

runpy.run_path(str(pathlib.Path(__file__).with_name("reference_cases_fused.py")), {"data": data})
