#!/usr/bin/env python3
"""Writes reference_cases_gradients.txt: gradients of layers, images, regions and signals, attention.

Results are PyTorch's, by its own operator where it has one, otherwise by differentiating the
formula of ONNX's operator written out here; never mezzo's.

    python3 reference_cases_gradients.py > reference_cases_gradients.txt
"""
import numpy as np
import onnx
import torch
import torch.nn.functional as F

from reference_case_writer import case

rng = np.random.default_rng(22)
print("# Gradients of layers, images, regions and signals, made by reference_cases_gradients.py with "
      f"torch {torch.__version__.split('+')[0]}, onnx {onnx.__version__} and numpy {np.__version__}.")


def data(*dims, scale=1.0):
    return np.round(rng.standard_normal(dims) * scale, 2)


def leaf(value):
    return torch.tensor(value, requires_grad=True)


def grads(result, dy, leaves):
    return torch.autograd.grad(result, leaves, torch.tensor(dy))


# Recurrent layers: PyTorch's gates are i f g o and r z n, ONNX's i o f c and z r h.
ORDER = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}
T, B, I, H = 3, 2, 3, 2
for cell, order in ORDER.items():
    for bidirectional in (False, True):
        layer = getattr(torch.nn, cell)(I, H, bidirectional=bidirectional, dtype=torch.float64)
        gates, ends = len(order), ["l0", "l0_reverse"] if bidirectional else ["l0"]
        directions = len(ends)
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(torch.tensor(data(*p.shape)))

        def sorted_gates(value):
            parts = value.reshape((gates, H) + tuple(value.shape[1:]))[order]
            return parts.reshape(value.shape)

        def stack(prefix, gradient):
            tensors = [getattr(layer, prefix + end) for end in ends]
            return torch.stack([sorted_gates(p.grad if gradient else p.detach()) for p in tensors])

        def biases(gradient):
            return torch.cat([stack("bias_ih_", gradient), stack("bias_hh_", gradient)], 1)

        x, h0, c0 = leaf(data(T, B, I)), leaf(data(directions, B, H)), leaf(data(directions, B, H))
        y, last = layer(x, (h0, c0) if cell == "LSTM" else h0)
        h, c = last if cell == "LSTM" else (last, None)
        y = y.reshape(T, B, directions, H).permute(0, 2, 1, 3)
        dy, dh, dc = data(T, directions, B, H), data(directions, B, H), data(directions, B, H)
        loss = (y * torch.tensor(dy)).sum() + (h * torch.tensor(dh)).sum()
        if cell == "LSTM":
            loss = loss + (c * torch.tensor(dc)).sum()
        loss.backward()
        state = c0 if cell == "LSTM" else None
        attributes = {"direction": "bidirectional"} if bidirectional else {}
        if cell == "GRU":
            attributes["linear_before_reset"] = 1
        case(f"{cell}Grad: {'both directions' if bidirectional else 'forward'}",
             [dy, dh, dc if cell == "LSTM" else None, x, stack("weight_ih_", False),
              stack("weight_hh_", False), biases(False), None, h0, state, None],
             [x.grad, stack("weight_ih_", True), stack("weight_hh_", True), biases(True), h0.grad,
              None if state is None else state.grad, None], **attributes)


def linear_attention(q, k, v, past, g, beta, scale):
    """q[B,T,Hq,K], k[B,T,Hk,K], v[B,T,Hk,V], g[B,T,Hk,K], beta[B,T,Hk]."""
    state, rows = past, []
    group = q.shape[2] // k.shape[2]
    for step in range(q.shape[1]):
        if g is not None:
            state = torch.exp(g[:, step])[..., None] * state
        change = v[:, step]
        if beta is not None:
            change = beta[:, step, :, None] * (
                change - torch.einsum("bhk,bhkv->bhv", k[:, step], state))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, step], change)
        wide = state.repeat_interleave(group, 1)
        rows.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, step], wide))
    return torch.stack(rows, 1), state


for rule in ("linear", "gated_delta"):
    b, steps, hq, hk, ks, vs = 1, 3, 4, 2, 2, 3
    values = [data(b, steps, hq * ks), data(b, steps, hk * ks), data(b, steps, hk * vs),
              data(b, hk, ks, vs)]
    if rule == "gated_delta":
        values += [-np.abs(data(b, steps, hk * ks)), np.abs(data(b, steps, hk)) % 1]
    leaves = [leaf(value) for value in values]
    q, k, v, past, *rest = leaves
    y, present = linear_attention(
        q.reshape(b, steps, hq, ks), k.reshape(b, steps, hk, ks), v.reshape(b, steps, hk, vs), past,
        rest[0].reshape(b, steps, hk, ks) if rest else None, rest[1] if rest else None, 0.5)
    dy, dpresent = data(b, steps, hq * vs), data(b, hk, ks, vs)
    loss = (y.reshape(b, steps, hq * vs) * torch.tensor(dy)).sum()
    loss = loss + (present * torch.tensor(dpresent)).sum()
    found = torch.autograd.grad(loss, leaves)
    case(f"LinearAttentionGrad: {rule}", [dy, dpresent, *values], found, q_num_heads=hq,
         kv_num_heads=hk, scale=0.5, update_rule=rule)

# Functions.
x, scale, dy = data(2, 3, 4), data(4), data(2, 3, 4)
leaves = [leaf(x), leaf(scale)]
case("RMSNormalizationGrad:", [dy, x, scale],
     grads(F.rms_norm(leaves[0], (4,), leaves[1], 1e-3), dy, leaves), epsilon=1e-3)
x, dy = data(3, 4), data(3, 4)
x[1, 2] = 0.0
leaves = [leaf(x)]
case("CumProdGrad: with a zero", [dy, x], grads(torch.cumprod(leaves[0], 1), dy, leaves), axis=1)
x, dy = data(2, 3, 3), data(2)
leaves = [leaf(x)]
case("DetGrad:", [dy, x], grads(torch.linalg.det(leaves[0]), dy, leaves))
x = data(2, 2, 5, 6)
leaves = [leaf(x)]
y = F.lp_pool2d(leaves[0].abs(), 3.0, (2, 3), stride=(1, 2))
dy = data(*y.shape)
# PyTorch does not take the magnitude itself.
case("LpPoolGrad: p 3", [dy, x, y], grads(y, dy, leaves), p=3, kernel_shape=[2, 3], strides=[1, 2])

# Images.
for mode, torch_mode, attributes in (
        ("nearest", "nearest", {"coordinate_transformation_mode": "asymmetric",
                                "nearest_mode": "floor"}),
        ("linear", "bilinear", {}), ("cubic", "bicubic", {})):
    for size in ((7, 4), (2, 9)):
        x, dy = data(1, 2, 3, 5), data(1, 2, *size)
        leaves = [leaf(x)]
        options = {} if mode == "nearest" else {"align_corners": False}
        y = F.interpolate(leaves[0], size=size, mode=torch_mode, **options)
        case(f"ResizeGrad: {mode} to {size[0]} x {size[1]}", [dy], grads(y, dy, leaves), mode=mode,
             sizes=[1, 2, *size], **attributes)
for mode, torch_mode in (("linear", "bilinear"), ("cubic", "bicubic")):
    for padding in ("zeros", "border", "reflection"):
        x, grid, dy = data(1, 2, 4, 3), data(1, 2, 3, 2, scale=0.7), data(1, 2, 2, 3)
        leaves = [leaf(x), leaf(grid)]
        y = F.grid_sample(leaves[0], leaves[1], mode=torch_mode, padding_mode=padding,
                          align_corners=padding == "zeros")
        case(f"GridSampleGrad: {mode}, {padding}", [dy, x, grid], grads(y, dy, leaves), mode=mode,
             padding_mode=padding, align_corners=int(padding == "zeros"))
for align in (0, 1):
    theta, dy = data(2, 2, 3), data(2, 3, 4, 2)
    leaves = [leaf(theta)]
    case(f"AffineGridGrad: align_corners {align}", [dy],
         grads(F.affine_grid(leaves[0], (2, 1, 3, 4), align_corners=bool(align)), dy, leaves),
         align_corners=align)
x, dy = data(1, 8, 9), data(1, 2, 4, 5)
leaves = [leaf(x)]
y = F.fold(leaves[0], (4, 5), 2, stride=(1, 2), padding=(0, 1))
case("Col2ImGrad:", [dy], grads(y, dy, leaves), block_shape=[2, 2], strides=[1, 2],
     pads=[0, 1, 0, 1])


def bilinear(image, row, column):
    """image[C,H,W] at a place that may be a tensor; zero outside."""
    height, width = image.shape[1:]
    top, left = (int(torch.as_tensor(at).detach().floor()) for at in (row, column))
    total = torch.zeros(image.shape[0], dtype=torch.float64)
    for r, wr in ((top, 1 - (row - top)), (top + 1, row - top)):
        for c, wc in ((left, 1 - (column - left)), (left + 1, column - left)):
            if 0 <= r < height and 0 <= c < width:
                total = total + wr * wc * image[:, r, c]
    return total


# Regions inside the image, so that borders play no part.
x, rois = data(2, 2, 6, 7), np.array([[0.8, 0.9, 4.6, 4.1], [1.1, 1.0, 5.3, 4.4]])
images, dy, ratio, rows, columns = np.array([1, 0]), data(2, 2, 2, 3), 2, 2, 3
leaves = [leaf(x)]
regions = []
for roi, image in zip(rois - 0.5, images):
    height, width = (roi[3] - roi[1]) / rows, (roi[2] - roi[0]) / columns
    bins = [[sum(bilinear(leaves[0][image], roi[1] + (p + (i + 0.5) / ratio) * height,
                          roi[0] + (q + (j + 0.5) / ratio) * width)
                 for i in range(ratio) for j in range(ratio)) / ratio**2
             for q in range(columns)] for p in range(rows)]
    regions.append(torch.stack([torch.stack(row, -1) for row in bins], 1))
case("RoiAlignGrad: average", [dy, x, rois, images],
     grads(torch.stack(regions), dy, leaves), output_height=rows, output_width=columns,
     sampling_ratio=ratio)
x, rois, dy = data(1, 2, 5, 6), np.array([[0, 1, 0, 4, 3.0], [0, 0, 1, 5, 4.0]]), data(2, 2, 2, 2)
leaves = [leaf(x)]
regions = []
for _, left, top, right, bottom in rois.astype(int):
    bins = []
    for p in range(2):
        for q in range(2):
            height, width = (bottom - top + 1) / 2, (right - left + 1) / 2
            part = leaves[0][0, :, top + int(np.floor(p * height)):top + int(np.ceil((p + 1) * height)),
                             left + int(np.floor(q * width)):left + int(np.ceil((q + 1) * width))]
            bins.append(part.amax((1, 2)))
    regions.append(torch.stack(bins, -1).reshape(2, 2, 2))
case("MaxRoiPoolGrad:", [dy, x, rois], grads(torch.stack(regions), dy, leaves), pooled_shape=[2, 2])

x, w, offset, mask, dy = (data(1, 2, 4, 4), data(2, 2, 2, 2), data(1, 8, 3, 3, scale=0.6),
                          np.abs(data(1, 4, 3, 3)), data(1, 2, 3, 3))
leaves = [leaf(x), leaf(w), leaf(offset), leaf(mask)]
tx, tw, toffset, tmask = leaves
pixels = []
for p in range(3):
    for q in range(3):
        seen = [tmask[0, tap, p, q] * bilinear(tx[0], p + tap // 2 + toffset[0, 2 * tap, p, q],
                                               q + tap % 2 + toffset[0, 2 * tap + 1, p, q])
                for tap in range(4)]
        pixels.append(torch.einsum("mct,ct->m", tw.reshape(2, 2, 4), torch.stack(seen, -1)))
case("DeformConvGrad:", [dy, x, w, offset, mask],
     grads(torch.stack(pixels, -1).reshape(1, 2, 3, 3), dy, leaves))

# Signals.
for title, parts, inverse, onesided, length in (
        ("real, longer", 1, 0, 0, 7), ("complex, shorter", 2, 0, 0, 4), ("one side", 1, 0, 1, 6),
        ("inverse", 2, 1, 0, 6), ("inverse to real", 2, 1, 1, 6)):
    x = data(2, 4 if inverse and onesided else 6, parts)
    leaves = [leaf(x)]
    wave = torch.view_as_complex(leaves[0]) if parts == 2 else leaves[0][..., 0]
    if inverse and onesided:
        y = torch.fft.irfft(wave, n=length)[..., None]
    else:
        run = torch.fft.ifft if inverse else torch.fft.rfft if onesided else torch.fft.fft
        y = torch.view_as_real(run(wave, n=length))
    dy = data(*y.shape)
    case(f"DFTGrad: {title}", [dy], grads(y, dy, leaves), axis=1, inverse=inverse,
         onesided=onesided, dft_length=length)
x, window, dy = data(2, 9, 1), data(4), data(2, 3, 3, 2)
leaves = [leaf(x), leaf(window)]
frames = leaves[0][..., 0].unfold(1, 4, 2) * leaves[1]
case("STFTGrad:", [dy, x, window],
     grads(torch.view_as_real(torch.fft.rfft(frames)), dy, leaves), frame_step=2, frame_length=4)

# --- scaled-dot-product attention: PyTorch's, and its gradient ------------------------------------


def attention_case(title, q, k, v, bias=None, tokens_first=0, **attributes):
    """Operands as [B, heads, tokens, size]; those of set bits are written with tokens first."""
    leaves = [leaf(x) for x in (q, k, v)]
    mask = torch.zeros(q.shape[2], k.shape[2], dtype=torch.float64)
    if attributes.get("causal"):
        hidden = torch.triu(torch.ones_like(mask), k.shape[2] - q.shape[2] + 1) > 0
        mask.masked_fill_(hidden, float("-inf"))
    mask = mask if bias is None else mask + torch.tensor(bias)
    scale = attributes.get("scale", q.shape[3] ** -0.5)
    y = F.scaled_dot_product_attention(*leaves, attn_mask=mask, scale=scale, enable_gqa=True)
    keys = leaves[1].repeat_interleave(q.shape[1] // k.shape[1], 1)
    lse = torch.logsumexp(leaves[0] @ keys.mT * scale + mask, -1)
    dy = data(*y.shape)

    def lying(bit, x):
        x = x.detach().numpy() if isinstance(x, torch.Tensor) else x
        return x.swapaxes(1, 2).copy() if tokens_first & bit else x

    ins = [lying(bit, x) for bit, x in zip((1, 2, 4), (q, k, v))] + [bias]
    if tokens_first:
        attributes["tokens_first"] = tokens_first
    case(f"ScaledDotProductAttention: {title}", ins, [lying(8, y), lse], **attributes)
    found = [lying(bit, x) for bit, x in zip((1, 2, 4), grads(y, dy, leaves))]
    case(f"ScaledDotProductAttentionGrad: {title}",
         [lying(8, dy), *ins, lying(8, y), lse], found, **attributes)


attention_case("causal, keys and values behind tokens", data(2, 4, 3, 2), data(2, 2, 5, 2), data(2, 2, 5, 3),
               tokens_first=6, causal=1, scale=0.4)
attention_case("bias of keys, heads behind tokens", data(2, 2, 3, 2), data(2, 1, 4, 2), data(2, 1, 4, 2),
               bias=data(2, 1, 1, 4), tokens_first=15)
