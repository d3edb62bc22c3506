#!/usr/bin/env python3
"""Writes reference_cases.txt: operands and results of every operator of kernels/README.md.

Results come from PyTorch in float64, from ONNX's reference evaluator, or from numpy where neither
has the operator; never from mezzo. Needs torch, onnx and numpy; the tests read the text alone.

    python3 reference_cases.py > reference_cases.txt
"""
import numpy as np
import onnx
import onnx.reference
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20)
F64, I64 = np.float64, np.int64
NAMES = {"float64": "double", "float32": "float"}
INF, NAN = float("inf"), float("nan")


def number(value):
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(f"{value:.14g}"))


def attribute(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(str(v) for v in value) + "]"
    return number(value)


def tensor(value):
    if value is None:
        return "-"
    name = None
    if isinstance(value, tuple):  # (dtype name, array)
        name, value = value
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    value = np.asarray(value)
    name = name or NAMES.get(value.dtype.name, value.dtype.name)
    dims = ",".join(map(str, value.shape))
    return f"{name} [{dims}] " + " ".join(number(v) for v in value.ravel())


def case(title, ins, outs, **attributes):
    print(f"\ncase {title}")
    for name, value in attributes.items():
        print(f"attr {name} {attribute(value)}")
    for value in ins:
        print("in", tensor(value).rstrip())
    for value in outs:
        print("out", tensor(value).rstrip())


def data(*dims, scale=2.0):
    return np.round(rng.standard_normal(dims) * scale, 2)


def onnx_run(op, ins, outputs=1, version=24, **attributes):
    """Results of one ONNX node by onnx.reference."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(ins)]
    node = onnx.helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attributes)
    infos = [onnx.helper.make_tensor_value_info(
        n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names, ins) if n]
    graph = onnx.helper.make_graph([node], "g", infos, [
        onnx.helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
    feeds = {n: v for n, v in zip(names, ins) if n}
    return onnx.reference.ReferenceEvaluator(model).run(None, feeds)


def grad_of(function, inputs, dy):
    """Gradients of sum(function(*inputs) * dy) to every input, by torch."""
    leaves = [torch.tensor(v, requires_grad=True) for v in inputs]
    return torch.autograd.grad(function(*leaves), leaves, torch.tensor(dy))


def t(value):
    return torch.tensor(value)


print("# Operands and results of every operator, made by reference_cases.py with torch "
      f"{torch.__version__.split('+')[0]}, onnx {onnx.__version__} and numpy {np.__version__}.")

# --- elementwise -------------------------------------------------------------------------------
A, B = data(2, 3), data(2, 3)
ROW, COLUMN = data(3), data(2, 1)
for op, f in [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide),
              ("Max", np.maximum), ("Min", np.minimum)]:
    case(f"{op}: equal dims", [A, B], [f(A, B)])
    case(f"{op}: both sides broadcast", [COLUMN, ROW], [f(COLUMN, ROW)])
    case(f"{op}: scalar", [A, np.array(1.5)], [f(A, 1.5)])
case("Max: NaN wins on either side", [np.array([NAN, 1.0, 2.0]), np.array([0.0, NAN, 1.0])],
     [np.array([NAN, NAN, 2.0])])
case("Min: NaN wins on either side", [np.array([NAN, 1.0, 2.0]), np.array([0.0, NAN, 1.0])],
     [np.array([NAN, NAN, 1.0])])
P = np.abs(A) + 0.5
case("Pow: broadcast", [P, ROW], [P ** ROW])
case("Pow: integer exponent of another dtype", [A, np.array([2, 3, 0])],
     [A ** np.array([2.0, 3.0, 0.0])])
case("Pow: integers", [np.array([2, -3, 5, -1]), np.array([10, 3, 0, -3])],
     [np.array([1024, -27, 1, -1])])
IA, IB = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 5])
case("Add: int64", [IA, IB], [IA + IB])
case("Sub: int32", [IA.astype(np.int32), IB.astype(np.int32)], [(IA - IB).astype(np.int32)])
case("Mul: int64", [IA, IB], [IA * IB])
case("Add: uint8 wraps", [np.array([250], np.uint8), np.array([10], np.uint8)],
     [np.array([4], np.uint8)])
case("Div: int64 truncates toward zero", [IA, IB], [np.array([3, -3, -3, 3, 0])])
case("Max: int64", [IA, IB], [np.maximum(IA, IB)])
case("Min: int64", [IA, IB], [np.minimum(IA, IB)])
case("Mod: the divisor's sign", [IA, IB], [IA % IB])
case("Mod: fmod", [IA, IB], [np.fmod(IA, IB)], fmod=1)
case("Mod: fmod of reals", [A, np.array(0.75)], [np.fmod(A, 0.75)], fmod=1)

X = np.concatenate([data(5), [0.0, -0.25, 3.5, -3.5]])
SPECIAL = np.array([INF, -INF, NAN])
NORMAL_CDF = lambda v: v * torch.special.ndtr(v)
unary = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf,
    "Exp": torch.exp, "Neg": torch.neg, "Abs": torch.abs,
    "Softplus": lambda v: torch.logaddexp(v, torch.zeros_like(v)), "HardSwish": F.hardswish,
    "Sin": torch.sin, "Cos": torch.cos, "Floor": torch.floor, "Ceil": torch.ceil,
    "Round": torch.round, "Sign": torch.sign,
}
for op, f in unary.items():
    case(f"{op}:", [X], [f(t(X))])
for op in ["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Softplus", "Neg", "Abs"]:
    case(f"{op}: infinities and NaN", [SPECIAL], [unary[op](t(SPECIAL))])
case("Round: halves to even", [np.array([0.5, 1.5, 2.5, -0.5, -1.5])],
     [np.array([0.0, 2.0, 2.0, -0.0, -2.0])])
case("Log:", [P], [np.log(P)])
case("Sqrt:", [P], [np.sqrt(P)])
case("Reciprocal:", [P], [1.0 / P])
case("Log: outside its domain", [np.array([0.0, -1.0, INF])], [np.array([-INF, NAN, INF])])
case("Neg: int32", [np.array([3, -4], np.int32)], [np.array([-3, 4], np.int32)])
case("Abs: int64", [np.array([3, -4])], [np.array([3, 4])])
case("HardSigmoid: defaults", [X], [np.clip(0.2 * X + 0.5, 0, 1)])
case("HardSigmoid: attributes", [X], onnx_run("HardSigmoid", [X], alpha=0.5, beta=0.25),
     alpha=0.5, beta=0.25)
case("LeakyRelu: default", [X], [F.leaky_relu(t(X), 0.01)])
case("LeakyRelu: alpha", [X], [F.leaky_relu(t(X), 0.25)], alpha=0.25)
case("Elu: default", [X], [F.elu(t(X))])
case("Elu: alpha", [X], [F.elu(t(X), 0.5)], alpha=0.5)
case("Gelu: exact", [X], [F.gelu(t(X))])
case("Gelu: tanh", [X], [F.gelu(t(X), approximate="tanh")], approximate="tanh")
case("Gelu: the far tail keeps its digits", [np.array([-12.0])], [NORMAL_CDF(t(np.array([-12.0])))])
case("Swish: default", [X], [F.silu(t(X))])
case("Swish: alpha", [X], [X / (1.0 + np.exp(-1.5 * X))], alpha=1.5)
case("Clip: both ends", [X, np.array(-1.0), np.array(2.0)], [np.clip(X, -1, 2)])
case("Clip: minimum only", [X, np.array(-1.0)], [np.maximum(X, -1)])
case("Clip: maximum only", [X, None, np.array(0.5)], [np.minimum(X, 0.5)])
case("Clip: crossed ends give the maximum", [X, np.array(2.0), np.array(-1.0)],
     [np.full_like(X, -1.0)])
case("Clip: NaN stays", [SPECIAL, np.array(-1.0), np.array(2.0)], [np.array([2.0, -1.0, NAN])])
case("Clip: int64", [IA, np.array(-2), np.array(5)], [np.clip(IA, -2, 5)])
C = np.array([[True, False, True]])
case("Where: all three broadcast", [C, COLUMN, np.array(9.0)], [np.where(C, COLUMN, 9.0)])
case("Where: int64", [C[0], np.array([1, 2, 3]), np.array([7, 8, 9])], [np.array([1, 8, 3])])
for op, f in [("Equal", np.equal), ("Less", np.less), ("Greater", np.greater),
              ("LessOrEqual", np.less_equal), ("GreaterOrEqual", np.greater_equal)]:
    left, right = np.array([1.0, 2.0, 3.0, NAN]), np.array([[1.0], [2.5]])
    case(f"{op}: broadcast, NaN", [left, right], [f(left, right)])
    case(f"{op}: int64", [IA, IB], [f(IA, IB)])
    big = np.array([2**63 + 5, 3], np.uint64), np.array([4, 3], np.uint64)
    case(f"{op}: uint64 above the signed range", list(big), [f(*big)])
T = np.array([True, True, False, False]), np.array([True, False, True, False])
case("Equal: bool", list(T), [T[0] == T[1]])
case("And:", list(T), [T[0] & T[1]])
case("Or:", list(T), [T[0] | T[1]])
case("Not:", [T[0]], [~T[0]])

V = np.array([0.0, 1.9, -1.9, 100.5, -0.4])
for name, dtype in [("int32", np.int32), ("int64", np.int64), ("int8", np.int8)]:
    case(f"Cast: double to {name} truncates", [V], [V.astype(dtype)])
case("Cast: to bool", [V], [V != 0])
case("Cast: NaN to bool", [np.array([NAN])], [np.array([True])])
case("Cast: bool to double", [T[1]], [T[1].astype(F64)])
case("Cast: out of range saturates", [np.array([1e30, -1e30, NAN])],
     [np.array([2**31 - 1, -2**31, 0], np.int32)])
case("Cast: int64 to int8 wraps", [np.array([300, -129])], [np.array([44, 127], np.int8)])
W = np.array([1.0, 65504.0, 65519.0, 65520.0, 1e-8, 6e-8, 1.0009765625, 1.00048828125, -3.3])
case("Cast: double to float16", [W], [W.astype(np.float16)])
case("Cast: float to float16", [W.astype(np.float32)], [W.astype(np.float32).astype(np.float16)])
Z = np.array([1.0, 3.4e38, 1.00390625, 1.01171875, 0.1, -1e-40])
case("Cast: float to bfloat16", [("float", Z.astype(np.float32))],
     [("bfloat16", torch.tensor(Z, dtype=torch.float32).to(torch.bfloat16).double())])
# 1 + 2^-11 lies half-way between two float16 values; a little above must round up, although the
# nearest float is the half-way point itself.
case("Cast: no double rounding by way of float",
     [np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-40])],
     [np.array([1 + 2.0**-10, 1.0, 1 + 2.0**-10]).astype(np.float16)])
case("Cast: int64 to float16", [np.array([2049, 2051, -70000, 3])],
     [np.array([2048, 2052, -INF, 3]).astype(np.float16)])

# --- gradients of elementwise ops --------------------------------------------------------------
DY = data(9)
from_y = {"ReluGrad": torch.relu, "SigmoidGrad": torch.sigmoid, "TanhGrad": torch.tanh,
          "ExpGrad": torch.exp, "SqrtGrad": lambda v: torch.sqrt(v),
          "ReciprocalGrad": torch.reciprocal}
for op, f in from_y.items():
    x = np.abs(X) + 0.5 if op in ("SqrtGrad", "ReciprocalGrad") else X
    case(f"{op}:", [DY, np.round(f(t(x)).numpy(), 6)],
         [{"ReluGrad": lambda y: DY * (y > 0), "SigmoidGrad": lambda y: DY * y * (1 - y),
           "TanhGrad": lambda y: DY * (1 - y * y), "ExpGrad": lambda y: DY * y,
           "SqrtGrad": lambda y: DY / (2 * y), "ReciprocalGrad": lambda y: -DY * y * y}[op](
               np.round(f(t(x)).numpy(), 6))])
from_x = {
    "GeluGrad": (F.gelu, {}), "SwishGrad": (F.silu, {}), "ErfGrad": (torch.erf, {}),
    "SoftplusGrad": (lambda v: F.softplus(v, threshold=100), {}), "HardSwishGrad": (F.hardswish, {}),
    "LeakyReluGrad": (lambda v: F.leaky_relu(v, 0.01), {}), "EluGrad": (F.elu, {}),
    "AbsGrad": (torch.abs, {}), "SinGrad": (torch.sin, {}), "CosGrad": (torch.cos, {}),
    "HardSigmoidGrad": (lambda v: (0.2 * v + 0.5).clip(0, 1), {}),
}
for op, (f, attributes) in from_x.items():
    case(f"{op}:", [DY, X], grad_of(f, [X], DY), **attributes)
case("GeluGrad: tanh", [DY, X], grad_of(lambda v: F.gelu(v, approximate="tanh"), [X], DY),
     approximate="tanh")
case("SwishGrad: alpha", [DY, X], grad_of(lambda v: v * torch.sigmoid(1.5 * v), [X], DY), alpha=1.5)
case("LeakyReluGrad: alpha", [DY, X], grad_of(lambda v: F.leaky_relu(v, 0.25), [X], DY), alpha=0.25)
case("EluGrad: alpha", [DY, X], grad_of(lambda v: F.elu(v, 0.5), [X], DY), alpha=0.5)
case("HardSigmoidGrad: attributes", [DY, X],
     grad_of(lambda v: (0.5 * v + 0.25).clip(0, 1), [X], DY), alpha=0.5, beta=0.25)
case("LogGrad:", [DY, np.abs(X) + 0.5], grad_of(torch.log, [np.abs(X) + 0.5], DY))
case("ClipGrad: ends count as inside", [DY, np.clip(X, -1, 2) * 1.5, np.array(-1.5), np.array(3.0)],
     [DY])
case("ClipGrad: both ends", [DY, X, np.array(-1.0), np.array(2.0)],
     grad_of(lambda v: v.clip(-1, 2), [X], DY))
case("PowGrad: broadcast exponent", [B, P, ROW], grad_of(lambda v: v ** t(ROW), [P], B))
case("PowGrad: exponent 0 at 0", [np.array([3.0, 3.0]), np.array([0.0, 0.0]), np.array([0.0, 2.0])],
     [np.array([0.0, 0.0])])
S = data(2, 3, 4)
case("SumTo: leading and inner dims", [S], [S.sum((0, 1)).reshape(1, 4)])
case("SumTo: middle dim", [S], [S.sum(1, keepdims=True)])
case("SumTo: scalar", [S], [S.sum()])
case("AddN: one", [A], [A])
case("AddN: three", [A, B, A], [A + B + A])
case("FillZero:", [], [np.zeros((2, 3))])

# --- contractions ------------------------------------------------------------------------------
for title, a, b in [("matrices", (3, 4), (4, 2)), ("vector, matrix", (4,), (4, 2)),
                    ("matrix, vector", (3, 4), (4,)), ("vectors", (4,), (4,)),
                    ("broadcast batches", (2, 1, 3, 4), (3, 4, 2)), ("empty inner", (2, 0), (0, 2))]:
    a, b = data(*a), data(*b)
    case(f"MatMul: {title}", [a, b], [np.matmul(a, b)])
a, b = data(2, 4, 3), data(1, 2, 4)
case("MatMulT: both transposed, alpha", [a, b],
     [0.5 * np.matmul(a.swapaxes(1, 2), b.swapaxes(1, 2))], trans_a=1, trans_b=1, alpha=0.5)
a, b = data(2, 3), data(4, 3)
case("MatMulT: b transposed", [a, b], [a @ b.T], trans_b=1)
a, b, c = data(4, 2), data(3, 4), data(3)
case("Gemm: all attributes", [a, b, c], [0.5 * a.T @ b.T + 0.25 * c], transA=1, transB=1, alpha=0.5,
     beta=0.25)
case("Gemm: no bias", [a.T.copy(), b.T.copy()], [a.T @ b.T])
case("Gemm: column bias", [a.T.copy(), b.T.copy(), data(2, 1) * 0 + 2.0], [a.T @ b.T + 2.0])
case("Gemm: beta 0 hides NaN", [a.T.copy(), b.T.copy(), np.full(3, NAN)], [a.T @ b.T], beta=0.0)


def pad_input(x, pads, value=0.0):
    rank = len(pads) // 2
    flat = []
    for i in reversed(range(rank)):
        flat += [pads[i], pads[rank + i]]
    return F.pad(x, flat, value=value)


def conv(x, w, b, strides, pads, dilations, group):
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x.dim() - 2]
    return f(pad_input(x, pads), w, b, stride=strides, dilation=dilations, groups=group)


for title, xd, wd, bias, a in [
    ("plain", (1, 2, 4, 4), (3, 2, 3, 3), True, dict(strides=[1, 1], pads=[0] * 4,
                                                     dilations=[1, 1], group=1)),
    ("strides, asymmetric pads, dilations, groups", (2, 4, 5, 6), (6, 2, 2, 3), False,
     dict(strides=[2, 1], pads=[1, 0, 2, 3], dilations=[2, 1], group=2)),
    ("depthwise", (1, 3, 4, 4), (3, 1, 3, 3), False, dict(strides=[1, 1], pads=[1] * 4,
                                                          dilations=[1, 1], group=3)),
    ("one axis", (2, 2, 6), (2, 2, 3), True, dict(strides=[2], pads=[1, 1], dilations=[1], group=1)),
    ("three axes", (1, 1, 3, 3, 3), (2, 1, 2, 2, 2), True,
     dict(strides=[1, 1, 1], pads=[1, 0, 0, 0, 0, 1], dilations=[1, 1, 2], group=1)),
]:
    x, w = data(*xd, scale=1), data(*wd, scale=1)
    b = data(wd[0]) if bias else None
    y = conv(t(x), t(w), None if b is None else t(b), **a)
    case(f"Conv: {title}", [x, w] + ([b] if bias else []), [y], **a)
    dy = data(*y.shape, scale=1)
    dx, dw = grad_of(lambda x, w: conv(x, w, None, **a), [x, w], dy)
    case(f"ConvGradInput: {title}", [dy, w], [dx], **a)
    case(f"ConvGradWeight: {title}", [dy, x], [dw], **a)
    if bias:
        case(f"ConvGradBias: {title}", [dy], [dy.sum(tuple(i for i in range(dy.ndim) if i != 1))])
x, w, b = data(1, 2, 3, 3, scale=1), data(2, 2, 3, 3, scale=1), data(2)
case("ConvTranspose: stride, pads, output_padding, bias", [x, w, b],
     [F.conv_transpose2d(t(x), t(w), t(b), stride=2, padding=1, output_padding=1)],
     strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
w = data(2, 1, 2, scale=1)
x = data(2, 2, 4, scale=1)
case("ConvTranspose: groups, dilation", [x, w],
     [F.conv_transpose1d(t(x), t(w), groups=2, dilation=2)], group=2, dilations=[2])

# --- normalisation, softmax, loss --------------------------------------------------------------
x, scale, bias = data(2, 3, 2, 2), data(3), data(3)
mean, var = data(3), np.abs(data(3)) + 0.5
case("BatchNormalization: inference", [x, scale, bias, mean, var],
     [F.batch_norm(t(x), t(mean), t(var), t(scale), t(bias), eps=1e-3)], epsilon=1e-3)
axes = (0, 2, 3)
bm, bv = x.mean(axes), x.var(axes)
norm = lambda x, s, b: F.batch_norm(x, None, None, s, b, training=True, eps=1e-3)
case("BatchNormalization: training", [x, scale, bias, mean, var],
     [norm(t(x), t(scale), t(bias)), mean * 0.8 + bm * 0.2, var * 0.8 + bv * 0.2, bm,
      1 / np.sqrt(bv + 1e-3)], epsilon=1e-3, momentum=0.8, training_mode=1)
x2 = data(4, 3)
case("BatchNormalization: rank 2, defaults", [x2, scale, bias, mean, var],
     [F.batch_norm(t(x2), None, None, t(scale), t(bias), training=True)], training_mode=1)
dy = data(2, 3, 2, 2)
case("BatchNormalizationGrad:", [dy, x, scale, bm, 1 / np.sqrt(bv + 1e-3)],
     grad_of(norm, [x, scale, bias], dy))
x = data(2, 3, 4)
for title, axis, shape, kw in [("last axis", -1, (4,), {}),
                               ("two axes, epsilon", 1, (3, 4), {"epsilon": 1e-2})]:
    scale, bias, dy = data(*shape), data(*shape), data(2, 3, 4)
    f = lambda x, s, b: F.layer_norm(x, shape, s, b, kw.get("epsilon", 1e-5))
    over = tuple(range(3 - len(shape), 3))
    m = x.mean(over, keepdims=True)
    r = 1 / np.sqrt(x.var(over, keepdims=True) + kw.get("epsilon", 1e-5))
    case(f"LayerNormalization: {title}", [x, scale, bias], [f(t(x), t(scale), t(bias)), m, r],
         axis=axis, **kw)
    case(f"LayerNormalizationGrad: {title}", [dy, x, scale, m, r], grad_of(f, [x, scale, bias], dy),
         axis=axis)
case("LayerNormalization: no bias", [x, data(4) * 0 + 1.5], [F.layer_norm(t(x), (4,)) * 1.5])
dy = data(2, 3, 4)
for axis in [-1, 1]:
    for op, f in [("Softmax", F.softmax), ("LogSoftmax", F.log_softmax)]:
        y = np.round(f(t(x), dim=axis).numpy(), 8)
        case(f"{op}: axis {axis}", [x], [f(t(x), dim=axis)], axis=axis)
        inner = (dy * y).sum(axis, keepdims=True) if op == "Softmax" else dy.sum(axis, keepdims=True)
        case(f"{op}Grad: axis {axis}", [dy, y],
             [y * (dy - inner) if op == "Softmax" else dy - np.exp(y) * inner], axis=axis)
far = np.array([[1000.0, 1001.0], [-1000.0, -1001.0], [-INF, 0.0]])
case("Softmax: large numbers, mask", [far], [F.softmax(t(far), -1)])
case("LogSoftmax: large numbers, mask", [far], [F.log_softmax(t(far), -1)])

scores, labels, weights = data(4, 3), np.array([0, 2, 2, 1]), np.abs(data(3)) + 0.25
maps, map_labels = data(2, 3, 2, 2), np.array([[[0, 1], [2, 2]], [[1, -1], [0, -1]]])
for reduction in ["mean", "sum", "none"]:
    for title, x, l, w, ignore in [("plain", scores, labels, None, None),
                                   ("weights", scores, labels, weights, None),
                                   ("ignored class", scores, labels, weights, 2),
                                   ("maps, ignored label", maps, map_labels, weights, -1)]:
        f = lambda v: F.cross_entropy(v, t(l), None if w is None else t(w),
                                      ignore_index=-100 if ignore is None else ignore,
                                      reduction=reduction)
        loss = f(t(x))
        lp = F.log_softmax(t(x), 1)
        kw = dict(reduction=reduction) | ({} if ignore is None else dict(ignore_index=ignore))
        more = [] if w is None else [w]
        case(f"SoftmaxCrossEntropyLoss: {reduction}, {title}", [x, l] + more, [loss, lp], **kw)
        g = data(*loss.shape) if loss.dim() else np.array(1.75)
        case(f"SoftmaxCrossEntropyLossGrad: {reduction}, {title}",
             [g, lp, l] + more, grad_of(f, [x], g), **kw)
case("SoftmaxCrossEntropyLoss: int32 labels, no log_prob", [scores, labels.astype(np.int32)],
     [F.cross_entropy(t(scores), t(labels))])
case("SoftmaxCrossEntropyLoss: every label ignored", [scores, np.array([1, 1, 1, 1])],
     [np.array(NAN)], ignore_index=1)

# --- reduction, pooling ------------------------------------------------------------------------
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
    ("ceil_mode, pads counted", (2, 3), 3, 1, True, True)]:
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

# --- data movement -----------------------------------------------------------------------------
x = data(2, 3, 4)
case("Reshape:", [x], [x.reshape(4, 6)])
case("Flatten:", [x], [x.reshape(2, 12)])
case("Squeeze:", [x[:, :1]], [x[:, 0]])
case("Unsqueeze: int64", [IA], [IA[None, :, None]])
case("Identity: bool", [T[0]], [T[0]])
case("Transpose: reversed", [x], [x.transpose()])
case("Transpose: perm", [x], [x.transpose(1, 0, 2)], perm=[1, 0, 2])
case("Transpose: int8", [np.array([[1, 2, 3]], np.int8)], [np.array([[1], [2], [3]], np.int8)])
case("Concat: middle axis", [x, x[:, :1], x[:, :0]], [np.concatenate([x, x[:, :1]], 1)], axis=1)
case("Concat: int64, negative axis", [IA[None], IB[None]], [np.concatenate([IA, IB])[None]], axis=-1)
case("Split: unequal", [x], [x[..., :1], x[..., 1:]], axis=-1)
for title, index, kw in [
    ("steps", np.s_[:, 0:3:2, 1:], dict(starts=[0, 1], ends=[3, 4], axes=[1, 2], steps=[2, 1])),
    ("backwards to the first element", np.s_[:, ::-1, ::-2],
     dict(starts=[-1, 2**63 - 1], ends=[-2**63, -2**63], axes=[1, 2], steps=[-1, -2])),
    ("backwards with an end", np.s_[:, :, 2:0:-1], dict(starts=[2], ends=[0], axes=[-1], steps=[-1])),
    ("negative bounds", np.s_[:, -2:, :-1], dict(starts=[-2, 0], ends=[100, -1], axes=[1, 2])),
    ("no axes", np.s_[1:, :2], dict(starts=[1, 0], ends=[2, 2])),
    ("nothing left", np.s_[:, 2:1], dict(starts=[2], ends=[1], axes=[1])),
]:
    y = x[index]
    case(f"Slice: {title}", [x], [y], **kw)
    dy = data(*y.shape)
    dx = np.zeros_like(x)
    dx[index] = dy
    case(f"SliceGrad: {title}", [dy], [dx], **kw)
case("Slice: int64", [IA], [IA[1:3]], starts=[1], ends=[3])
index = np.array([[0, -1], [2, 0]])
case("Gather: axis 1, negative index", [x, index], [x[:, index]], axis=1)
case("Gather: scalar index", [x, np.array(1, np.int32)], [x[1]])
case("Gather: int64 values", [IA, np.array([4, 0])], [IA[[4, 0]]])
dy = data(2, 2, 2, 4)
dx = np.zeros_like(x)
for j in np.ndindex(2, 2):
    dx[:, index[j]] += dy[:, j[0], j[1]]
case("GatherGrad: repeated rows", [dy, index], [dx], axis=1)
case("GatherGrad: rows without gradient", [data(1, 2) * 0 + 3.0, np.array([1])],
     [np.array([[0.0, 0.0], [3.0, 3.0]])])
case("Expand: both kinds", [COLUMN], [np.broadcast_to(COLUMN, (2, 2, 3))])
case("Expand: int64", [np.array(7)], [np.array([7, 7])])
case("Pad: value", [A], [np.pad(A, ((1, 0), (0, 2)), constant_values=1.5)], pads=[1, 0, 0, 2],
     value=1.5)
case("Pad: cuts off", [x], [np.pad(x[:, 1:, :-2], ((0, 0), (0, 1), (2, 0)))], pads=[0, -1, 2, 0, 1, -2])
case("Pad: int64", [IA], [np.pad(IA, (2, 1), constant_values=-1)], pads=[2, 1], value=-1)
case("Reorder: same layout", [data(1, 2, 2, 2) * 0 + 4.0], [np.full((1, 2, 2, 2), 4.0)])
case("Trilu: upper", [x], [np.triu(x)])
case("Trilu: lower, k", [x], [np.tril(x, -1)], upper=0, k=-1)
case("Trilu: bool", [np.ones((2, 3), bool)], [np.triu(np.ones((2, 3), bool), 1)], k=1)
case("Shape:", [x], [np.array([2, 3, 4])])
case("Shape: part", [x], [np.array([3])], start=1, end=-1)
case("Size:", [x], [np.array(24)])
case("ConstantOfShape: fill", [np.array([2, 2]), np.array([7])], [np.full((2, 2), 7)])
case("ConstantOfShape: default", [np.array([3])], [np.zeros(3)])
case("Range: int64 down", [np.array(10), np.array(1), np.array(-4)], [np.arange(10, 1, -4)])
case("Range: reals", [np.array(1.0), np.array(2.1), np.array(0.5)], [np.arange(1.0, 2.1, 0.5)])
case("Range: empty", [np.array(3), np.array(3), np.array(1)], [np.zeros(0, I64)])


# --- dropout: Philox 4x32-10 written from the paper --------------------------------------------
def philox(counter, key):
    counter, key, low = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & low, (p0 >> 32) ^ counter[3] ^ key[1],
                   p0 & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return counter


def dropout_mask(elems, seed, step, ratio):
    words = []
    for block in range((elems + 3) // 4):
        words += philox([block & 0xFFFFFFFF, block >> 32, step & 0xFFFFFFFF, step >> 32],
                        [seed & 0xFFFFFFFF, seed >> 32])
    return np.array(words[:elems]) >= int(ratio * 2**32)


# Known answers of the paper's authors (Random123, kat_vectors).
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
for ratio, seed, step in [(0.5, 7, 3), (0.1, 2**40 + 1, 2**33), (0.0, 1, 0), (1.0, 1, 0)]:
    x = data(2, 7)
    keep = dropout_mask(14, seed, step, ratio).reshape(2, 7)
    factor = 0.0 if ratio == 1.0 else 1 / (1 - ratio)
    case(f"Dropout: ratio {ratio}", [x, np.array(step)], [np.where(keep, x * factor, 0.0), keep],
         ratio=ratio, seed=seed)
    case(f"DropoutGrad: ratio {ratio}", [x, keep], [np.where(keep, x * factor, 0.0)], ratio=ratio)
