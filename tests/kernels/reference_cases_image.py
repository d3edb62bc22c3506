"""Resampling, regions of interest, padding by repetition."""
import numpy as np
import torch.nn.functional as F

from reference_case_writer import IA, INF, NAN, case, data, onnx_run, t


def taps(j, size, out, scale, roi, options):
    """Index and weight of the elements that index j of a resized dim takes; None: outside."""
    mode, shrink = options.get("mode", "nearest"), 1.0
    coordinates = options.get("coordinate_transformation_mode", "half_pixel")
    width, at = scale * size, (j + 0.5) / scale - 0.5
    if coordinates == "align_corners":
        at = j * (size - 1) / (width - 1) if width != 1 else 0.0
    elif coordinates == "asymmetric":
        at = j / scale
    elif coordinates == "half_pixel_symmetric":
        at += size / 2 * (1 - out / width)
    elif coordinates == "pytorch_half_pixel" and out == 1:
        at = 0.0
    elif coordinates == "tf_crop_and_resize":
        at = roi[0] * (size - 1) + (j * (roi[1] - roi[0]) * (size - 1) / (width - 1) if width != 1
                                    else (roi[1] - roi[0]) * (size - 1) / 2)
        if at < 0 or at > size - 1:
            return None
    if mode == "nearest":
        index = {"round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5),
                 "floor": np.floor(at), "ceil": np.ceil(at)}[
                     options.get("nearest_mode", "round_prefer_floor")]
        return [(int(np.clip(index, 0, size - 1)), 1.0)]
    if options.get("antialias"):
        shrink = min(scale, 1.0)
    a = options.get("cubic_coeff_a", -0.75)

    def weight(d):
        if mode == "linear":
            return max(0.0, 1 - d)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    reach = int(np.ceil(2 / shrink)) + 1
    found = [(i, weight(abs(i - at) * shrink))
             for i in range(int(np.floor(at)) - reach, int(np.floor(at)) + reach + 1)]
    if options.get("exclude_outside"):
        found = [(i, w) for i, w in found if 0 <= i < size]
    total = sum(w for _, w in found)
    return [(int(np.clip(i, 0, size - 1)), w / total) for i, w in found]


def resize(title, x, *, scales=None, sizes=None, roi=None, **options):
    """One Resize by its definition, dim by dim."""
    axes = options.get("axes", list(range(x.ndim)))
    policy = options.get("keep_aspect_ratio_policy", "stretch")
    factors = dict(zip(axes, scales or [n / x.shape[d] for d, n in zip(axes, sizes)]))
    if policy != "stretch":
        common = (min if policy == "not_larger" else max)(factors.values())
        factors = {d: common for d in axes}
    y = x
    for d, factor in sorted(factors.items()):
        out = int(factor * x.shape[d] + (0 if scales else 0.5))
        region = None if roi is None else (roi[d], roi[x.ndim + d])
        rows = []
        for j in range(out):
            found = taps(j, x.shape[d], out, factor, region, options)
            if found is None:
                rows.append(np.full_like(np.take(y, 0, d), options["extrapolation_value"]))
            elif options.get("mode") == "nearest":
                rows.append(np.take(y, found[0][0], d))
            else:
                rows.append(sum(w * np.take(y, i, d) for i, w in found))
        y = np.stack(rows, d)
    if x.dtype == np.uint8:
        y = np.clip(np.round(y), 0, 255).astype(np.uint8)
    given = {name: value for name, value in [
        ("scales", scales and [float(v) for v in scales]), ("sizes", sizes),
        ("roi", roi and [float(v) for v in roi])] if value}
    case(f"Resize: {title}", [x], [y], **options, **given)


x = data(1, 2, 3, 4)
for mode in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
    for coordinates in ["half_pixel", "asymmetric", "align_corners"]:
        resize(f"nearest {mode} {coordinates}", x, sizes=[1, 2, 5, 6], mode="nearest",
               nearest_mode=mode, coordinate_transformation_mode=coordinates)
resize("nearest int64", np.array([[1, 2**62 + 1], [3, 4]]), scales=[2, 1.5], mode="nearest")
for mode in ["linear", "cubic"]:
    for coordinates in ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                        "asymmetric"]:
        resize(f"{mode} {coordinates} grows", x, scales=[1, 1, 2, 1.5], mode=mode,
               coordinate_transformation_mode=coordinates)
        resize(f"{mode} {coordinates} shrinks", x, scales=[1, 1, 0.625, 0.5], mode=mode,
               coordinate_transformation_mode=coordinates)
    resize(f"{mode} antialias", data(1, 1, 7, 8), scales=[1, 1, 0.4375, 0.375], mode=mode, antialias=1)
    resize(f"{mode} antialias grows", x, sizes=[1, 2, 6, 7], mode=mode, antialias=1)
    resize(f"{mode} crop", x, sizes=[1, 2, 4, 4], roi=[0, 0, 0.25, 0.5, 1, 1, 1.25, 0.75],
           mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=8.5)
resize("nearest crop", x, sizes=[1, 2, 4, 4], roi=[0, 0, 0.25, 0.5, 1, 1, 1.25, 0.75],
       mode="nearest", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=8.5)
for mode in ["linear", "cubic"]:
    resize(f"{mode} to one pixel", x, sizes=[1, 2, 1, 1], mode=mode,
           coordinate_transformation_mode="pytorch_half_pixel")
resize("cubic excludes outside", x, scales=[1, 1, 2, 0.75], mode="cubic", exclude_outside=1,
       cubic_coeff_a=-0.5)
resize("three dims", data(1, 2, 3, 2), scales=[1, 2, 2, 2], mode="linear")
resize("axes", x, scales=[2, 0.5], axes=[3, 2], mode="linear")
resize("not larger", x, sizes=[8, 6], axes=[2, 3], mode="linear",
       keep_aspect_ratio_policy="not_larger")
resize("not smaller", x, sizes=[8, 6], axes=[2, 3], mode="linear",
       keep_aspect_ratio_policy="not_smaller")
resize("keeps", x, scales=[1, 1, 1, 1], mode="cubic")
resize("uint8", np.array([[0, 255, 100, 7]], np.uint8), scales=[1, 1.75], mode="linear")
resize("uint8 saturates", np.array([[0, 255, 255, 0, 0, 255]], np.uint8), scales=[1, 2],
       mode="cubic")

a = data(3, 4)
for mode in ["reflect", "edge", "wrap"]:
    case(f"Pad: {mode}", [a], [np.pad(a, ((1, 2), (2, 3)), mode)], pads=[1, 2, 2, 3], mode=mode)
    case(f"Pad: {mode} beyond the dim", [a[:, :3]], [np.pad(a[:, :3], ((0, 0), (7, 5)), mode)],
         pads=[0, 7, 0, 5], mode=mode)
    case(f"Pad: {mode} cuts off first", [a], [np.pad(a[1:, :-1], ((0, 1), (2, 0)), mode)],
         pads=[-1, 2, 1, -1], mode=mode)
    case(f"Pad: {mode} int64", [IA], [np.pad(IA, (2, 1), mode)], pads=[2, 1], mode=mode)
case("Pad: edge, one element", [np.array([3.0])], [np.full(4, 3.0)], pads=[1, 2], mode="edge")
case("Pad: reflect, one element", [np.array([3.0])], [np.full(4, 3.0)], pads=[1, 2], mode="reflect")
case("Pad: value as operand", [a, np.array(-2.5)], [np.pad(a, 1, constant_values=-2.5)],
     pads=[1, 1, 1, 1])
case("Pad: exact int64 value", [IA, np.array([2**62 + 1])],
     [np.pad(IA, (0, 2), constant_values=2**62 + 1)], pads=[0, 2])

# --- sampling ----------------------------------------------------------------------------------
image, volume = data(2, 2, 3, 4), data(1, 2, 2, 3, 2)
points = np.round(np.random.default_rng(3).uniform(-1.7, 1.7, (2, 3, 2, 2)) * 32) / 32
places = np.round(np.random.default_rng(4).uniform(-1.5, 1.5, (1, 2, 2, 2, 3)), 2)
for mode in ["bilinear", "nearest", "bicubic"]:
    for padding in ["zeros", "border", "reflection"]:
        for corners in [False, True]:
            y = F.grid_sample(t(image), t(points), mode, padding, corners)
            case(f"GridSample: {mode} {padding} {'corners' if corners else 'edges'}",
                 [image, points], [y], mode=mode.removeprefix("bi"), padding_mode=padding,
                 align_corners=int(corners))
            if mode == "bicubic":
                continue
            y = F.grid_sample(t(volume), t(places), mode, padding, corners)
            case(f"GridSample: volume {mode} {padding} {'corners' if corners else 'edges'}",
                 [volume, places], [y], mode=mode, padding_mode=padding,
                 align_corners=int(corners))
case("GridSample: infinitely far", [np.ones((1, 1, 2, 2)), np.array([[[[INF, 0], [NAN, 0]]]])],
     [np.zeros((1, 1, 1, 2))])

for corners in [False, True]:
    for size in [(2, 1, 3, 4), (1, 1, 2, 3, 2)]:
        theta = data(size[0], len(size) - 2, len(size) - 1)
        case(f"AffineGrid: {len(size) - 2} dims {'corners' if corners else 'edges'}", [theta],
             [F.affine_grid(t(theta), size, align_corners=corners)], align_corners=int(corners))

# --- regions -----------------------------------------------------------------------------------
picture = data(2, 2, 6, 5)
regions = np.array([[0.0, 0, 4, 5], [1.25, 0.5, 3, 4.75], [-1, -2, 9, 9], [2, 2, 2.25, 2.25]])
images = np.array([0, 1, 1, 0])


def roi_align(title, **attributes):
    full = {"output_height": 2, "output_width": 3, "spatial_scale": 1.0, "sampling_ratio": 0,
            "mode": "avg", "coordinate_transformation_mode": "half_pixel", **attributes}
    case(f"RoiAlign: {title}", [picture, regions, images],
         onnx_run("RoiAlign", [picture, regions, images], **full), **full)


roi_align("adaptive")
roi_align("two samples", sampling_ratio=2)
roi_align("scaled, no half pixel", spatial_scale=0.5, sampling_ratio=2,
          coordinate_transformation_mode="output_half_pixel")
roi_align("maximum", mode="max", sampling_ratio=2)


def max_roi_pool(x, rois, rows, columns, scale):
    """The formula of Fast R-CNN."""
    y = np.zeros((len(rois), x.shape[1], rows, columns))
    for r, (n, *corners) in enumerate(rois):
        x1, y1, x2, y2 = [int(np.floor(v * scale + 0.5)) for v in corners]
        height, width = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
        for p in range(rows):
            for q in range(columns):
                top = np.clip([int(np.floor(p * height)) + y1, int(np.ceil((p + 1) * height)) + y1],
                              0, x.shape[2])
                left = np.clip([int(np.floor(q * width)) + x1, int(np.ceil((q + 1) * width)) + x1],
                               0, x.shape[3])
                if top[0] < top[1] and left[0] < left[1]:
                    y[r, :, p, q] = x[int(n), :, top[0]:top[1], left[0]:left[1]].max((1, 2))
    return y


boxes = np.array([[0.0, 0, 0, 4, 5], [1, 1, 2, 3, 3], [1, 3, 3, 9, 9], [0, 7, 7, 8, 8]])
for scale in [1.0, 0.5]:
    case(f"MaxRoiPool: scale {scale}", [picture, boxes], [max_roi_pool(picture, boxes, 2, 2, scale)],
         pooled_shape=[2, 2], spatial_scale=scale)

# --- back to where windows took it ---------------------------------------------------------------
pooled, indices = F.max_pool2d(t(picture[:, :, :, :4]), 2, return_indices=True)
flat = indices.numpy() + 24 * np.arange(4).reshape(2, 2, 1, 1)
case("MaxUnpool: 2x2", [pooled, flat], [F.max_unpool2d(pooled, indices, 2)], kernel_shape=[2, 2],
     strides=[2, 2])
corner = np.zeros((2, 2, 7, 5))
corner[:, :, :6, :4] = F.max_unpool2d(pooled, indices, 2).numpy()
case("MaxUnpool: a larger result", [pooled, flat], [corner], kernel_shape=[2, 2], strides=[2, 2])
for title, options in [("plain", {}), ("strides and pads", dict(stride=(2, 1), padding=(1, 0))),
                       ("dilations", dict(dilation=(1, 2)))]:
    columns = F.unfold(t(data(2, 3, 6, 5)), (2, 3), **options)
    pads = list(options.get("padding", (0, 0)))
    case(f"Col2Im: {title}", [columns], [F.fold(columns, (6, 5), (2, 3), **options)],
         block_shape=[2, 3], strides=list(options.get("stride", (1, 1))), pads=pads + pads,
         dilations=list(options.get("dilation", (1, 1))))
signal = data(1, 4, 3)
line = np.zeros((1, 2, 4))
for tap in range(2):
    for at in range(3):
        line[0, :, at + tap] += signal[0, [tap, 2 + tap], at]
case("Col2Im: one dim", [signal], [line], block_shape=[2])


def deform(title, groups, offset_groups, bias, mask, **attributes):
    x, w = data(2, 4, 4, 5), data(2, 4 // groups, 2, 2)
    options = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], **attributes}
    size = [(n + options["pads"][i] + options["pads"][i + 2] - options["dilations"][i] - 1)
            // options["strides"][i] + 1 for i, n in enumerate([4, 5])]
    offset = np.round(np.random.default_rng(5).uniform(-1.5, 1.5, (2, offset_groups * 8, *size)), 2)
    factors = np.abs(data(2, offset_groups * 4, *size)) if mask else None
    ins = [x, w, offset, data(2) if bias else None, factors]
    while ins[-1] is None:
        ins.pop()
    options.update(group=groups, offset_group=offset_groups)
    case(f"DeformConv: {title}", ins, [deform_conv(*ins, **options)], **options)


def deform_conv(x, w, offset, b=None, mask=None, *, strides, pads, dilations, group, offset_group):
    """From the operator's definition, element by element."""
    (n, c, height, width), (m, _, kh, kw), (rows, columns) = x.shape, w.shape, offset.shape[2:]
    y = np.zeros((n, m, rows, columns))
    for i, o, p, q, k in np.ndindex(n, m, rows, columns, c // group):
        channel = o // (m // group) * (c // group) + k
        f = channel // (c // offset_group)
        for u, v in np.ndindex(kh, kw):
            tap = (f * kh + u) * kw + v
            at = [p * strides[0] - pads[0] + u * dilations[0] + offset[i, 2 * tap, p, q],
                  q * strides[1] - pads[1] + v * dilations[1] + offset[i, 2 * tap + 1, p, q]]
            low = np.floor(at).astype(int)
            for below, right in np.ndindex(2, 2):
                h, e = low[0] + below, low[1] + right
                if 0 <= h < height and 0 <= e < width:
                    y[i, o, p, q] += ((1 - abs(at[0] - h)) * (1 - abs(at[1] - e)) *
                                      x[i, channel, h, e] * w[o, k, u, v] *
                                      (1 if mask is None else mask[i, tap, p, q]))
    return y if b is None else y + b.reshape(-1, 1, 1)


deform("plain", 1, 1, False, False)
deform("mask, bias, pads, strides", 1, 1, True, True, pads=[1, 0, 1, 1], strides=[2, 1])
deform("groups, dilations", 2, 2, True, False, dilations=[1, 2])
