"""Gathering, scattering and selection by index or content."""
import numpy as np

from reference_case_writer import IA, NAN, case, data, onnx_run

x = data(3, 4, 2)


def by_onnx(title, op, ins, outputs=1, kernel_ins=None, version=24, **attributes):
    """A case whose results come from onnx.reference; kernel_ins: what the kernel is given."""
    outs = onnx_run(op, ins, outputs, version, **attributes)
    case(f"{op}: {title}", ins if kernel_ins is None else kernel_ins, outs, **attributes)
    return outs


# --- gathering ---------------------------------------------------------------------------------
rows = np.array([[[0, 2], [1, -1], [0, 0], [2, 1]], [[-3, 0], [1, 1], [2, 2], [0, -2]]])
by_onnx("axis 0, negative", "GatherElements", [x, rows])
columns = np.array([[[1], [0], [-1], [-2]]] * 3, np.int32)
case("GatherElements: last axis, fewer columns", [x, columns],
     [np.take_along_axis(x, columns, -1)], axis=-1)
part = np.array([[[1], [0]], [[-1], [-2]]], np.int32)
case("GatherElements: fewer of every dim", [x, part],
     [np.array([[[x[i, j, part[i, j, 0]]] for j in range(2)] for i in range(2)])], axis=-1)
by_onnx("int64", "GatherElements", [IA, np.array([4, 0, -5])])
by_onnx("slices", "GatherND", [x, np.array([[0, 3], [-1, 1]])])
by_onnx("elements", "GatherND", [x, np.array([[[0, 3, 1]], [[2, -4, -2]]])])
by_onnx("batch", "GatherND", [x, np.array([[3], [0], [-1]])], batch_dims=1)
case("GatherND: int64, no numbers in a tuple", [IA, np.zeros((2, 0), np.int64)], [np.stack([IA, IA])])

# --- scattering --------------------------------------------------------------------------------
updates = data(2, 4, 2)
by_onnx("replaces", "ScatterElements", [x, np.array([[[0, 2]] * 4, [[1, -1]] * 4]), updates])
by_onnx("the last of several stays", "ScatterElements",
        [data(1, 5), np.array([[1, 3, -4]], np.int32), data(1, 3)], axis=1)
for reduction in ["add", "mul", "max", "min"]:
    by_onnx(reduction, "ScatterElements",
            [data(2, 3), np.array([[1, 1, 1], [0, -1, 0]]), data(2, 3)], axis=1,
            reduction=reduction)
    by_onnx(reduction, "ScatterND",
            [data(3, 2), np.array([[1], [1], [-3]]), data(3, 2)], reduction=reduction)
    by_onnx(f"int64 {reduction}", "ScatterND",
            [IA, np.array([[1], [1], [-1]]), np.array([3, -2, 2**40])], reduction=reduction)
case("ScatterElements: NaN wins", [np.array([1.0, 2.0, NAN]), np.array([0, 1, 2]),
                                   np.array([NAN, 3.0, 4.0])], [np.array([NAN, 3.0, NAN])],
     reduction="max")
case("ScatterElements: bools add up", [np.array([True, False, False]), np.array([0, 1]),
                                       np.array([False, True])], [np.array([True, True, False])],
     reduction="add")
by_onnx("slices", "ScatterND", [x, np.array([[[2], [0]]]), data(1, 2, 4, 2)])
by_onnx("elements", "ScatterND", [x, np.array([[0, 3, 1], [2, -4, -2]]), data(2)])
cache, update = data(2, 2, 4, 2), data(2, 2, 3, 2)
case("TensorScatter: from the start", [cache, update],
     onnx_run("TensorScatter", [cache, update]))
by_onnx("at places", "TensorScatter", [cache, update, np.array([1, 0])], mode="linear")
by_onnx("circular", "TensorScatter", [cache, update, np.array([3, 6])], mode="circular")

# --- selection ---------------------------------------------------------------------------------
holes = np.array([[[0.0, 1.5], [-0.0, NAN]], [[2.0, 0.0], [0.0, -3.0]]])
case("NonZero: doubles", [holes], [np.stack(np.nonzero(holes))])
case("NonZero: int64", [IA], [np.stack(np.nonzero(IA))])
case("NonZero: bool", [np.array([[True, False], [True, True]])], [np.array([[0, 1, 1], [0, 0, 1]])])
case("NonZero: scalar", [np.array(2.0)], [np.zeros((0, 1), np.int64)])
case("NonZero: nothing", [np.zeros((2, 2))], [np.zeros((2, 0), np.int64)])
by_onnx("axis 1", "Compress", [x, np.array([False, True, True])], axis=1)
by_onnx("all elements", "Compress", [x, np.array([False, True, False, True, True])])
by_onnx("negative axis", "Compress", [x, np.array([True, False])], axis=-1)
repeats = np.array([2.5, -1.0, 2.5, 3.0, -1.0, 0.0])
by_onnx("sorted", "Unique", [repeats], 4)
by_onnx("by appearance", "Unique", [repeats], 4, sorted=0)
by_onnx("rows", "Unique", [np.array([[1.0, 0, 0], [1, 0, 0], [0, 3, 4]])], 4, axis=0)
by_onnx("columns", "Unique", [np.array([[[1.0, 1, 0], [0, 0, 2]], [[3, 3, 0], [1, 1, 2]]])], 4,
        axis=-1)
case("Unique: NaN is one value", [np.array([NAN, 1.0, NAN])], [np.array([1.0, NAN])])
case("Unique: int64", [np.array([2**62 + 1, 2**62, 2**62 + 1])], [np.array([2**62, 2**62 + 1])])


def top_k(title, values, k, **attributes):
    outs = onnx_run("TopK", [values, np.array([k])], 2, **attributes)
    case(f"TopK: {title}", [values], outs, **attributes)


top_k("largest", data(2, 9), 3)
top_k("most of the axis", data(2, 9), 8)
top_k("a few of many", data(2, 80), 3)
top_k("smallest, axis 1", x, 2, axis=1, largest=0)
top_k("lower index of equals", np.array([[1.0, 3, 3, 2, 3]]), 2)
top_k("lower index of equal small ones", np.array([[1.0, 0, 3, 0, -0.0]]), 2, largest=0)
top_k("int64", np.array([2**62, 2**62 + 1, -5, 7]), 2)
top_k("uint8", np.array([3, 200, 100, 255], np.uint8), 3)
case("TopK: NaN is greatest", [np.array([1.0, NAN, 3.0])],
     [np.array([NAN, 3.0]), np.array([1, 2])])
case("TopK: none", [np.array([1.0, 3.0])], [np.zeros(0), np.zeros(0, np.int64)])

# --- boxes -------------------------------------------------------------------------------------
corners = np.array([[[0, 0, 1, 1], [0, 0.125, 1, 1.125], [0, -0.125, 1, 0.875], [0, 10, 1, 11],
                     [1, 11.125, 0, 10.125], [0, 100, 1, 101]]], np.float32)
centres = np.stack([(corners[..., 1] + corners[..., 3]) / 2, (corners[..., 0] + corners[..., 2]) / 2,
                    abs(corners[..., 3] - corners[..., 1]), abs(corners[..., 2] - corners[..., 0])],
                   -1).astype(np.float32)
scores = np.array([[[0.875, 0.75, 0.625, 0.9375, 0.5, 0.25], [0.5] * 6]], np.float32)


def suppress(title, boxes, most, iou=None, score=None, **attributes):
    scalars = [np.array([most]), None if iou is None else np.array([iou], np.float32),
               None if score is None else np.array([score], np.float32)]
    given = [value if value is not None else np.zeros(0, np.float32) for value in scalars]
    outs = onnx_run("NonMaxSuppression", [boxes, scores] + given, **attributes)
    doubles = [None if v is None else v.astype(np.float64) for v in [boxes, scores] + scalars[1:]]
    case(f"NonMaxSuppression: {title}", doubles[:2] + [scalars[0]] + doubles[2:], outs,
         **attributes)


suppress("overlaps", corners, 3, 0.5, 0.0)
suppress("a score threshold", corners, 3, 0.5, 0.5)
suppress("centres", centres, 3, 0.5, 0.0, center_point_box=1)
suppress("one per class", corners, 1, 0.5, 0.0)
suppress("no score threshold", corners, 10, 0.75)
case("NonMaxSuppression: none wanted", [corners.astype(float), scores.astype(float)],
     [np.zeros((0, 3), np.int64)])

# --- one-hot and the like ----------------------------------------------------------------------
labels = np.array([[1, -1], [4, 0]])
for title, axis in [("last axis", -1), ("axis 1", 1), ("axis 0", 0)]:
    values = np.array([2.0, 5.0])
    outs = onnx_run("OneHot", [labels, np.array(4), values], axis=axis)
    outs[0][...] = np.where(np.moveaxis(
        (np.arange(4) == np.where(labels < 0, labels + 4, labels)[..., None]), -1, axis), 5.0, 2.0)
    case(f"OneHot: {title}", [labels, values], outs, axis=axis)
case("OneHot: real indices, int64 values", [np.array([1.0, -2.0]), np.array([0, 7])],
     [np.array([[0, 7, 0], [0, 7, 0]])])
case("EyeLike:", [], [np.eye(3, 4)])
case("EyeLike: k", [], [np.eye(3, 4, 1)], k=1)
case("EyeLike: int64, below", [], [np.eye(3, 2, -1).astype(np.int64)], k=-1)
case("EyeLike: beyond", [], [np.zeros((2, 2))], k=2**62)
sequence = data(4, 3, 2)
by_onnx("time first", "ReverseSequence", [sequence, np.array([1, 4, 3])])
by_onnx("batch first", "ReverseSequence", [sequence, np.array([1, 2, 3, 2])], batch_axis=0,
        time_axis=1)
