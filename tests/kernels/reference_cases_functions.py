"""Functions beyond the common ones, bits, truth values, reductions, scans, norms, quantization."""
import numpy as np
import torch
import torch.nn.functional as F

from reference_case_writer import F64, IA, IB, INF, NAN, case, data, onnx_run, t

X = np.concatenate([data(5), [0.0, -0.25, 3.5, -3.5]])
SPECIAL = np.array([INF, -INF, NAN])
UNIT = np.array([-0.99, -0.5, -0.01, 0.0, 0.3, 0.75])

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # float32 in ONNX


def selu(v):
    return SELU_GAMMA * torch.where(v < 0, SELU_ALPHA * torch.expm1(v), v)


# --- functions of one operand ------------------------------------------------------------------
for op, f, x in [("Tan", torch.tan, X), ("Asin", torch.asin, UNIT), ("Acos", torch.acos, UNIT),
                 ("Atan", torch.atan, X), ("Sinh", torch.sinh, X), ("Cosh", torch.cosh, X),
                 ("Asinh", torch.asinh, X), ("Acosh", torch.acosh, np.array([1.0, 1.5, 40.0])),
                 ("Atanh", torch.atanh, UNIT), ("Mish", F.mish, X), ("Softsign", F.softsign, X),
                 ("Selu", selu, X), ("Celu", F.celu, X),
                 ("ThresholdedRelu", lambda v: F.threshold(v, 1.0, 0.0), X),
                 ("Shrink", lambda v: F.hardshrink(v, 0.5), X)]:
    case(f"{op}:", [x], [f(t(x))])
for op in ["Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Mish", "Selu", "Celu", "ThresholdedRelu"]:
    f = {"ThresholdedRelu": lambda v: F.threshold(v, 1.0, 0.0), "Mish": F.mish, "Selu": selu,
         "Celu": F.celu}.get(op) or getattr(torch, op.lower())
    x = np.array([INF, NAN]) if op in ("Acosh", "Mish") else SPECIAL
    case(f"{op}: infinities and NaN", [x], [f(t(x))])
case("Softsign: infinities and NaN", [SPECIAL], [np.array([1.0, -1.0, NAN])])
case("Asin: outside its domain", [np.array([1.5, -1.5])], [np.array([NAN, NAN])])
case("Selu: attributes", [X], onnx_run("Selu", [X], alpha=1.5, gamma=2.0), alpha=1.5, gamma=2.0)
case("Celu: alpha", [X], [F.celu(t(X), 2.0)], alpha=2.0)
case("ThresholdedRelu: alpha", [X], [np.where(X > 0.5, X, 0.0)], alpha=0.5)
case("Shrink: soft", [X], [F.softshrink(t(X), 1.5)], lambd=1.5, bias=1.5)
case("Shrink: NaN stays", [SPECIAL], [np.array([INF, -INF, NAN])])
case("Shrink: integers", [np.array([-3, 3, 1, -1, 2])], [np.array([-1, 1, 0, 0, 0])],
     lambd=2.0, bias=2.0)
case("Abs: the least integer", [np.array([-128, 5], np.int8)], [np.array([-128, 5], np.int8)])
case("Abs: uint16", [np.array([65535], np.uint16)], [np.array([65535], np.uint16)])
case("Sign: uint8", [np.array([0, 200], np.uint8)], [np.array([0, 1], np.uint8)])
case("Neg: int16", [np.array([7, -32768], np.int16)], [np.array([-7, -32768], np.int16)])
case("IsNaN:", [SPECIAL], [np.isnan(SPECIAL)])
case("IsInf:", [SPECIAL], [np.isinf(SPECIAL)])
case("IsInf: positive", [SPECIAL], [SPECIAL == INF], detect_negative=0)
case("IsInf: negative", [SPECIAL], [SPECIAL == -INF], detect_positive=0)
case("IsInf: neither", [SPECIAL], [np.zeros(3, bool)], detect_positive=0, detect_negative=0)

# --- two and more operands ---------------------------------------------------------------------
A, SLOPE = data(2, 3, 2), np.array([[0.25], [0.5], [-1.0]])
case("PRelu: a slope per channel", [A, SLOPE], [np.where(A < 0, SLOPE * A, A)])
case("PRelu: int32", [np.array([-3, 4], np.int32), np.array([2], np.int32)],
     [np.array([-6, 4], np.int32)])
B, ROW = data(2, 3), data(3)
case("AddN: int64", [IA, IB, IA], [IA + IB + IA])
case("Sum: broadcast", [B, ROW, np.array(0.5)], [B + ROW + 0.5])
case("Mean: broadcast", [B, ROW, np.array(0.5)], [(B + ROW + 0.5) / 3])
case("Mean: equal dims", [B, B + 1], [B + 0.5])
case("Mod: reals with the divisor's sign", [np.array([5.5, -5.5, 5.5, -5.5, 0.0, 4.0]),
                                            np.array([2.0, 2.0, -2.0, -2.0, -3.0, -INF])],
     [np.array([1.5, 0.5, -0.5, -1.5, -0.0, -INF])])
for dtype in [np.int8, np.int16, np.int32]:
    case(f"Mod: {np.dtype(dtype).name}", [IA.astype(dtype), IB.astype(dtype)],
         [(IA % IB).astype(dtype)])
    case(f"Mod: fmod of {np.dtype(dtype).name}", [IA.astype(dtype), IB.astype(dtype)],
         [np.fmod(IA, IB).astype(dtype)], fmod=1)
for dtype in [np.uint8, np.uint16, np.uint32, np.uint64]:
    name, top = np.dtype(dtype).name, np.iinfo(dtype).max
    a, b = np.array([top, 17, 3], dtype), np.array([2, 5, top], dtype)
    case(f"Div: {name}", [a, b], [a // b])
    case(f"Mod: {name}", [a, b], [a % b])
    case(f"Add: {name} wraps", [a, b], [a + b])
    case(f"Mul: {name} wraps", [a, b], [a * b])
for dtype in [np.int8, np.int16, np.int32, np.int64]:
    least = np.array([np.iinfo(dtype).min], dtype)
    minus = np.array([-1], dtype)
    name = np.dtype(dtype).name
    case(f"Div: the least {name} by -1", [least, minus], [least])
    case(f"Mod: the least {name} by -1", [least, minus], [np.zeros(1, dtype)])
case("Pow: int32 to a real power", [np.array([2, 3, 9], np.int32), np.array([3.0, 0.5, 0.5])],
     [np.array([8, 1, 3], np.int32)])
case("Pow: int64 beyond double", [np.array([3, -7]), np.array([39, 22], np.uint8)],
     [np.array([3 ** 39, 7 ** 22])])
truth = np.array([True, True, False, False]), np.array([True, False, True, False])
case("Xor:", list(truth), [truth[0] ^ truth[1]])
U = np.array([[12, 255], [1, 0]], np.uint8)
S = np.array([[12, -5], [1, 0]], np.int16)
for op, f in [("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or),
              ("BitwiseXor", np.bitwise_xor)]:
    case(f"{op}: uint8", [U, U[:, :1]], [f(U, U[:, :1])])
    case(f"{op}: int16", [S, S[0]], [f(S, S[0])])
case("BitwiseNot: uint8", [U], [~U])
case("BitwiseNot: int16", [S], [~S])
W = np.array([129, 1, 255, 7], np.uint8)
case("BitShift: left", [W, np.array([1, 7, 8, 0], np.uint8)],
     [np.array([2, 128, 0, 7], np.uint8)], direction="LEFT")
case("BitShift: right", [W, np.array([1, 7, 8, 200], np.uint8)],
     [np.array([64, 0, 0, 0], np.uint8)], direction="RIGHT")
case("BitShift: signed", [np.array([-8, -8, 8, -8], np.int32), np.array([1, 32, 32, -1], np.int32)],
     [np.array([-4, -1, 0, -1], np.int32)], direction="RIGHT")
case("BitShift: signed to the left", [np.array([-8, 1, 3], np.int32), np.array([1, 31, -2], np.int32)],
     [np.array([-16, -2 ** 31, 0], np.int32)], direction="LEFT")
case("BitShift: uint64", [np.array([2 ** 63 + 1], np.uint64), np.array([63], np.uint64)],
     [np.array([1], np.uint64)], direction="RIGHT")
case("BitCast: int32 of int16 pairs keeps dims", [np.array([-1, 32767], np.int16)],
     [np.array([65535, 32767], np.uint16)])
case("Cast: int64 keeps the low bits", [np.array([200, -1, 2 ** 40 + 5])],
     [np.array([-56, -1, 5], np.int8)])
case("Cast: to bool", [np.array([0.0, -0.0, NAN, 0.25])], [np.array([False, False, True, True])])
case("Cast: beyond the range", [np.array([3e9, -3e9, NAN, -1.75])],
     [np.array([2 ** 31 - 1, -2 ** 31, 0, -1], np.int32)])

# --- reductions --------------------------------------------------------------------------------
R = data(2, 3, 4)
case("ReduceL1: one axis", [R], [np.abs(R).sum(1, keepdims=True)], axes=[1])
case("ReduceLogSum: all", [np.abs(R)], [np.log(np.abs(R).sum())], keepdims=0)
case("ReduceLogSumExp: two axes", [R], [torch.logsumexp(t(R), (0, 2))], axes=[0, -1], keepdims=0)
case("ReduceLogSumExp: large numbers", [np.array([1000.0, 1000.0])], [np.array([1000 + np.log(2)])])
case("ReduceLogSumExp: infinities", [np.array([[INF, 1.0], [-INF, -INF], [-INF, 2.0]])],
     [np.array([INF, -INF, 2.0])], axes=[1], keepdims=0)
case("ReduceL1: noop", [R], [np.abs(R)], noop_with_empty_axes=1)
I3 = np.array([[3, -4], [7, -9]])
for op, want in [("ReduceL1", [7, 16]), ("ReduceL2", [5, 11]), ("ReduceSumSquare", [25, 130]),
                 ("ReduceMean", [0, -1]), ("ReduceProd", [-12, -63]), ("ReduceLogSum", None)]:
    if want:
        case(f"{op}: int64", [I3], [np.array(want)], axes=[1], keepdims=0)
case("ReduceMax: bool", [np.array([[True, False], [False, False]])], [np.array([True, False])],
     axes=[1], keepdims=0)
case("ReduceMin: bool", [np.array([[True, True], [True, False]])], [np.array([True, False])],
     axes=[1], keepdims=0)
EMPTY = np.zeros((2, 0))
for op, want in [("ReduceSum", 0.0), ("ReduceProd", 1.0), ("ReduceMax", -INF), ("ReduceMin", INF),
                 ("ReduceMean", NAN), ("ReduceL1", 0.0), ("ReduceL2", 0.0), ("ReduceLogSum", -INF),
                 ("ReduceSumSquare", 0.0), ("ReduceLogSumExp", -INF)]:
    case(f"{op}: of nothing", [EMPTY], [np.array([want, want])], axes=[1], keepdims=0)
for dtype in [np.int8, np.uint32, np.int64]:
    info = np.iinfo(dtype)
    case(f"ReduceMax: of no {np.dtype(dtype).name}", [EMPTY.astype(dtype)],
         [np.array([info.min] * 2, dtype)], axes=[1], keepdims=0)
    case(f"ReduceMin: of no {np.dtype(dtype).name}", [EMPTY.astype(dtype)],
         [np.array([info.max] * 2, dtype)], axes=[1], keepdims=0)
case("ReduceMax: of no bool", [EMPTY.astype(bool)], [np.array([False, False])], axes=[1], keepdims=0)
G = np.array([[2.0, 1.0, 1.0], [0.5, NAN, -3.0]])
case("ArgMin: the first", [G], [np.array([[1], [1]])], axis=1)
case("ArgMin: the last", [G], [np.array([2, 1])], axis=1, keepdims=0, select_last_index=1)
case("ArgMin: int32", [I3.astype(np.int32)], [np.array([[0, 1]])])
for op, f in [("CumSum", np.cumsum), ("CumProd", np.cumprod)]:
    case(f"{op}: axis 1", [R], [f(R, 1)], axis=1)
    case(f"{op}: reverse", [R], [f(R[::-1], 0)[::-1]], axis=0, reverse=1)
    case(f"{op}: int32", [I3.astype(np.int32)], [f(I3.astype(np.int32), 0, np.int32)], axis=0)
    start = 0.0 if op == "CumSum" else 1.0
    shifted = np.concatenate([np.full((2, 3, 1), start), f(R, 2)[:, :, :-1]], 2)
    case(f"{op}: exclusive", [R], [shifted], axis=-1, exclusive=1)
case("CumSum: exclusive and reverse", [np.array([1.0, 2.0, 3.0])], [np.array([5.0, 3.0, 0.0])],
     exclusive=1, reverse=1)
M = data(2, 3, 3)
case("Det: a batch", [M], [np.linalg.det(M)])
case("Det: one", [M[0]], [np.linalg.det(M[0])])
case("Det: singular", [np.ones((2, 2))], [np.array(0.0)])
case("Det: a pivot of zero", [np.array([[0.0, 1.0], [1.0, 0.0]])], [np.array(-1.0)])
case("Det: no rows", [np.zeros((2, 0, 0))], [np.array([1.0, 1.0])])

# --- lines and norms ---------------------------------------------------------------------------
H = np.array([[3.0, 1.0, 3.0], [0.0, NAN, 9.0]])
case("Hardmax: the first, NaN", [H], [np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])])
case("Hardmax: axis 0", [H[:, :1]], [np.array([[1.0], [0.0]])], axis=0)
N = data(2, 3)
case("LpNormalization: p 2", [N], [F.normalize(t(N), dim=1)])
case("LpNormalization: p 1, axis 0", [N], [F.normalize(t(N), p=1, dim=0)], p=1, axis=0)
case("LpNormalization: nothing but zeros", [np.zeros((1, 2))], [np.zeros((1, 2))])
V = data(2, 3, 2, 2)
case("MeanVarianceNormalization: default axes", [V],
     [(V - V.mean((0, 2, 3), keepdims=True)) / (V.std((0, 2, 3), keepdims=True) + 1e-9)])
case("MeanVarianceNormalization: axis 1", [V],
     [(V - V.mean(1, keepdims=True)) / (V.std(1, keepdims=True) + 1e-9)], axes=[1])

# --- quantization ------------------------------------------------------------------------------
Q = np.array([[-1.0, 0.25, 0.75], [300.0, -2.5, 1.5]])
case("QuantizeLinear: halves to even, saturates", [Q, np.array(0.5), np.array(1, np.uint8)],
     [np.array([[0, 1, 3], [255, 0, 4]], np.uint8)])
case("QuantizeLinear: no zero point", [Q, np.array(0.5)],
     [np.array([[-2, 0, 2], [127, -5, 3]], np.int8)])
case("QuantizeLinear: NaN and infinities", [SPECIAL, np.array(1.0), np.array(3, np.int8)],
     [np.array([127, -128, 3], np.int8)])
case("QuantizeLinear: a scale per row", [Q, np.array([0.5, 2.0]), np.array([0, 7], np.int16)],
     [np.array([[-2, 0, 2], [157, 6, 8]], np.int16)], axis=0)
case("QuantizeLinear: uint16 blocks", [Q, np.array([[0.5, 0.25], [100.0, 1.0]]),
                                       np.array([[2, 0], [0, 1]], np.uint16)],
     [np.array([[0, 2, 3], [3, 0, 3]], np.uint16)], axis=1, block_size=2)
D = np.array([[0, 100, 255], [3, 7, 128]], np.uint8)
case("DequantizeLinear: one scale", [D, np.array(0.5), np.array(100, np.uint8)], [(D - 100.0) * 0.5])
case("DequantizeLinear: per column", [D, np.array([0.5, 2.0, 1.0]), np.array([1, 2, 3], np.uint8)],
     [(D.astype(F64) - [1, 2, 3]) * [0.5, 2.0, 1.0]])
case("DequantizeLinear: int32", [np.array([2 ** 31 - 1, -5], np.int32), np.array(0.5)],
     [np.array([(2 ** 31 - 1) * 0.5, -2.5])])
case("DequantizeLinear: blocks of rows", [D.astype(np.int16), np.array([[1.0, 2.0, 4.0]])],
     [D * [1.0, 2.0, 4.0]], axis=0, block_size=2)
case("DynamicQuantizeLinear: its range holds 0", [np.array([0.0, 2.0, 5.1])],
     [np.array([0, 100, 255], np.uint8), np.array(float(np.float32(5.1) / np.float32(255))),
      np.array(0, np.uint8)])
case("DynamicQuantizeLinear: both signs", [np.array([-1.0, 0.0, 1.55])],
     [np.array([0, 100, 255], np.uint8), np.array(float(np.float32(2.55) / np.float32(255))),
      np.array(100, np.uint8)])
case("DynamicQuantizeLinear: zeros", [np.zeros(2)],
     [np.zeros(2, np.uint8), np.array(float(np.float32(1) / np.float32(255))), np.array(0, np.uint8)])
