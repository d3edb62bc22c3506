"""Reductions and pooling."""
import numpy as np
import torch
import torch.nn.functional as F

from reference_case_writer import IA, INF, NAN, case, data, grad_of, onnx_run, pad_input, t

# --- reduction, pooling ------------------------------------------------------------------------
S = data(2, 3, 4)
reductions = {
    "ReduceMean": np.mean, "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod, "ReduceSumSquare": lambda v, **k: np.sum(v * v, **k),
    "ReduceL2": lambda v, **k: np.sqrt(np.sum(v * v, **k)),
}
for op, f in reductions.items():
    case(f"{op}: all axes", [S], [f(S, keepdims=True)])
    case(f"{op}: outer and inner axis", [S], [f(S, axis=(0, 2), keepdims=True)], axes=[0, -1])
    case(f"{op}: one axis, dropped", [S], [f(S, axis=1)], axes=[1], keepdims=0)
case("ReduceSum: all axes, dropped", [S], [S.sum()], keepdims=0)
case("ReduceSum: no axes, nothing to do", [S], [S], noop_with_empty_axes=1)
case("ReduceSum: int64", [IA], [IA.sum(keepdims=True)])
case("ReduceProd: int64", [np.array([2, 3, 4])], [np.array(24)], keepdims=0)
case("ReduceMax: int64", [IA], [np.array([7])])
case("ReduceMax: NaN wins", [np.array([1.0, NAN, 2.0])], [np.array([NAN])])
case("ReduceMax: no elements", [np.zeros((0, 2))], [np.array([[-INF, -INF]])], axes=[0])
ties = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])
case("ArgMax: first of ties", [ties], [np.array([[1], [0]])], axis=1)
case("ArgMax: last of ties, dropped", [ties], [np.array([2, 1])], axis=1, keepdims=0,
     select_last_index=1)
case("ArgMax: default axis", [ties], [np.argmax(ties, 0)[None]])
case("ArgMax: int64", [IA], [np.array([0])])

x = data(2, 2, 3, 2)
case("GlobalAveragePool:", [x], [x.mean((2, 3), keepdims=True)])
dy = data(2, 2, 1, 1)
case("GlobalAveragePoolGrad:", [dy], [np.broadcast_to(dy / 6, x.shape)])


def max_pool(x, ceil=False, **a):
    p = pad_input(x, a["pads"], -INF)
    y, i = F.max_pool2d(p, a["kernel_shape"], a["strides"], dilation=a["dilations"],
                        ceil_mode=ceil, return_indices=True)
    h, w = x.shape[2:]
    row, column = i // p.shape[3] - a["pads"][0], i % p.shape[3] - a["pads"][1]
    plane = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], 1, 1)
    return y, (plane * h + row) * w + column


x = data(2, 2, 5, 4)
for title, a in [
    ("overlapping windows", dict(kernel_shape=[3, 2], strides=[1, 1], pads=[0] * 4, dilations=[1, 1])),
    ("strides, asymmetric pads", dict(kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 2],
                                      dilations=[1, 1])),
    ("dilations", dict(kernel_shape=[2, 2], strides=[1, 1], pads=[0] * 4, dilations=[2, 3])),
]:
    y, i = max_pool(t(x), **a)
    case(f"MaxPool: {title}", [x], [y, i], **a)
    dy = data(*y.shape)
    case(f"MaxPoolGrad: {title}", [dy, i],
         [np.bincount(i.ravel(), dy.ravel(), x.size).reshape(x.shape)])
a = dict(kernel_shape=[3, 3], strides=[2, 2], pads=[0] * 4, dilations=[1, 1])
y, i = max_pool(t(x), ceil=True, **a)
case("MaxPool: ceil_mode", [x], [y, i], **a, ceil_mode=1)
line = np.array([[[1.0, 2.0, NAN, 4.0, 5.0]]])
case("MaxPool: one axis, ties, NaN, no indices", [line], [np.array([[[2.0, NAN, NAN, 5.0]]])],
     kernel_shape=[2])

for title, kernel, stride, pad, ceil, include in [
    ("plain", (2, 2), (1, 1), (0, 0), False, False), ("pads not counted", 3, 2, 1, False, False),
    ("pads counted", 3, 2, 1, False, True), ("ceil_mode", 2, 2, 0, True, False),
    ("ceil_mode, pads counted", 3, 2, 1, True, True)]:
    pair = lambda v: list(v) if isinstance(v, tuple) else [v, v]
    f = lambda v: F.avg_pool2d(v, kernel, stride, pad, ceil, include)
    kw = dict(kernel_shape=pair(kernel), strides=pair(stride), pads=pair(pad) * 2,
              ceil_mode=int(ceil), count_include_pad=int(include))
    y = f(t(x))
    case(f"AveragePool: {title}", [x], [y], **kw)
    dy = data(*y.shape)
    case(f"AveragePoolGrad: {title}", [dy], grad_of(f, [x], dy), **kw)
y = onnx_run("AveragePool", [line[:, :, [0, 1, 3, 4, 4]]], kernel_shape=[2], dilations=[2],
             pads=[1, 1])
case("AveragePool: one axis, dilation", [line[:, :, [0, 1, 3, 4, 4]]], y, kernel_shape=[2],
     dilations=[2], pads=[1, 1])
