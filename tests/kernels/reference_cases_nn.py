"""Contractions, normalisation, softmax and loss."""
import numpy as np
import torch.nn.functional as F

from reference_case_writer import INF, NAN, case, data, grad_of, pad_input, t

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
