"""Products with an epilogue, and attention; a part of reference_cases_layers.py, which gives `data`."""
import torch
import torch.nn.functional as F

from reference_case_writer import INF, case, t


def activation(name, x):
    return {"none": lambda v: v, "relu": F.relu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh")}[name](t(x))


a, b, bias = data(2, 3, 4, scale=1), data(5, 4, scale=1), data(5, scale=1)
for name in ["none", "relu", "gelu_tanh"]:
    pre = 0.5 * a @ b.T + bias
    case(f"MatMulActivation: {name}", [a, b, bias], [activation(name, pre), pre], trans_b=1, alpha=0.5,
         activation=name)
case("MatMulActivation: no bias", [a, b], [activation("relu", a @ b.T)], trans_b=1, activation="relu")
a, b, x = data(4, 3, scale=1), data(4, 5, scale=1), data(3, 5, scale=1)
for name in ["relu", "gelu_tanh"]:
    point = t(x).requires_grad_()
    y = {"relu": F.relu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh")}[name](point)
    case(f"MatMulActivationGrad: {name}", [a, b, x],
         [torch.autograd.grad(y, point, t(a.T @ b))[0]], trans_a=1, activation=name)
case("MatMulSums: of a", [a, b], [a.T @ b, a.sum(0)], trans_a=1, of="a")
case("MatMulSums: of b", [a, b], [a.T @ b, b.sum(0)], trans_a=1, of="b")
case("MatMulSums: of b, transposed", [a.T.copy(), b.T.copy()], [a.T @ b, b.sum(0)], trans_b=1, of="b")


# Attention in float64 by PyTorch; lse is the logarithm of the sum of exponentials of the scores.
def attention(q, k, v, bias, causal, scale):
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = (q @ k.transpose(2, 3)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
        scores = scores.masked_fill(~seen, -INF)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


for title, heads, groups, bias_dims, attributes in [
    ("plain", 2, 2, None, {}), ("shared keys, bias", 4, 2, (2, 1, 3, 5), {}),
    ("causal, scale", 2, 1, None, dict(causal=1, scale=0.7))]:
    q, k, v = data(2, heads, 3, 4, scale=1), data(2, groups, 5, 4, scale=1), data(2, groups, 5, 3, scale=1)
    bias = None if bias_dims is None else data(*bias_dims, scale=1)
    leaves = [t(x).requires_grad_() for x in (q, k, v)]
    y, lse = attention(*leaves, None if bias is None else t(bias), "causal" in attributes,
                       attributes.get("scale"))
    case(f"ScaledDotProductAttention: {title}", [q, k, v, bias], [y, lse], **attributes)
    dy = data(*y.shape, scale=1)
    case(f"ScaledDotProductAttentionGrad: {title}", [dy, q, k, v, bias, y, lse],
         list(torch.autograd.grad(y, leaves, t(dy))), **attributes)
