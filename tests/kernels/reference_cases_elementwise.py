"""Elementwise ops and their gradients."""
import numpy as np
import torch
import torch.nn.functional as F

from reference_case_writer import IA, IB, INF, NAN, F64, case, data, grad_of, onnx_run, t

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

FIFTH, HUNDREDTH = float(np.float32(0.2)), float(np.float32(0.01))  # attributes are float32
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
case("HardSigmoid: defaults", [X], [np.clip(FIFTH * X + 0.5, 0, 1)])
case("HardSigmoid: attributes", [X], onnx_run("HardSigmoid", [X], alpha=0.5, beta=0.25),
     alpha=0.5, beta=0.25)
case("LeakyRelu: default", [X], [F.leaky_relu(t(X), HUNDREDTH)])
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
    "LeakyReluGrad": (lambda v: F.leaky_relu(v, HUNDREDTH), {}), "EluGrad": (F.elu, {}),
    "AbsGrad": (torch.abs, {}), "SinGrad": (torch.sin, {}), "CosGrad": (torch.cos, {}),
    "HardSigmoidGrad": (lambda v: (FIFTH * v + 0.5).clip(0, 1), {}),
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
# No spaces: the text separates words by them.
case("FusedElementwise: bias, tanh GELU, scale", [A, ROW],
     [F.gelu(t(A + ROW), approximate="tanh") * 0.5],
     program="t0=Add(x0,x1);t1=Gelu[approximate=tanh](t0);y=Mul(t1,0.5)")
case("FusedElementwise: a tree of broadcast operands", [A, COLUMN, ROW],
     [np.where(A * COLUMN > ROW, np.tanh(A * COLUMN), ROW)],
     program="t0=Mul(x0,x1);t1=Greater(t0,x2);t2=Tanh(t0);y=Where(t1,t2,x2)")
case("FusedElementwise: a cast in the program rounds", [np.array([2049.0, 1.0, -70000.0])],
     [np.array([2048.0, 1.0, -INF])], program="y=Cast[to=float16](x0)")
