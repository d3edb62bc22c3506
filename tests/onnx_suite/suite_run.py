"""Running a model on ONNX Runtime's CPU provider, and comparing what it gives.

`run_model` takes and gives numpy arrays of any ONNX type: types that ONNX Runtime's Python side
cannot pass (bfloat16, 8 bits and narrower floats, 4 bits) go through a Cast at the model's border.
`rounded` makes a form of the model in which every value of a 16-bit type is computed in FP32 and
rounded to that type: bfloat16 models run that way where ONNX Runtime has no kernel for them.
"""
import numpy as np
import onnx
import onnxruntime as ort
from onnx import AttributeProto, TensorProto, helper, inliner, numpy_helper, shape_inference

from suite_cases import iter_graphs

LOW = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
PASSES_DIRECTLY = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.STRING,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
# The second comes from kernels that find out when they run.
NO_KERNEL = ("NOT_IMPLEMENTED", "data type is not supported with")
# Attributes, besides tensors and types, that name an element type.
TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "output_datatype", "precision",
                   "softmax_precision", "stash_type"}
ort.set_default_logger_severity(4)


class NotRun(Exception):
    """ONNX Runtime cannot load or run the model."""


class NoKernel(NotRun):
    """The model is understood, but the CPU provider has no kernel for a type in it."""


def run_model(model, inputs):
    """Outputs in graph order, for the inputs that have no default."""
    model = with_wide_border(model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {item.name: feed(item, value) for item, value in zip(session.get_inputs(), inputs)}
        return session.run(None, feeds)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises classes of its own
        missing = any(words in str(error) for words in NO_KERNEL)
        raise (NoKernel if missing else NotRun)(one_line(error)) from error


def feed(item, value):
    if isinstance(value, np.ndarray):
        return to_element_type(value, item.type)
    if isinstance(value, list):
        return [to_element_type(array, item.type) for array in value]
    return value


def to_element_type(array, type_text):
    for name, dtype in (("float16", np.float16), ("float", np.float32), ("double", np.float64)):
        if f"({name})" in type_text and array.dtype != dtype:
            with np.errstate(all="ignore"):
                return array.astype(dtype)
    return array


def with_wide_border(model):
    """The model itself, or a copy with Casts where inputs and outputs are of narrow types."""
    def narrow(values):
        return [v for v in values if v.type.HasField("tensor_type")
                and v.type.tensor_type.elem_type not in PASSES_DIRECTLY]
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in narrow(model.graph.input) if value.name not in initializers]
    if not inputs and not narrow(model.graph.output):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    before, after = [], []
    for value in result.graph.input:
        if any(value.name == narrow_input.name for narrow_input in inputs):
            to = value.type.tensor_type.elem_type
            before.append(helper.make_node("Cast", [value.name + "__wide"], [value.name], to=to))
            value.name += "__wide"
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in narrow(result.graph.output):
        after.append(helper.make_node("Cast", [value.name], [value.name + "__wide"], to=TensorProto.FLOAT))
        value.name += "__wide"
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    nodes = [*before, *result.graph.node, *after]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del result.graph.node[:]
    result.graph.node.extend(kept)
    return result


def rounded(model):
    """FP32 copy of `model` that rounds every value which `model` holds in 16 bits."""
    result = inliner.inline_local_functions(model) if model.functions else onnx.ModelProto.FromString(
        model.SerializeToString())
    types = tensor_types(result)
    for graph in list(iter_graphs(result.graph)):
        for tensor in graph.initializer:
            widen_tensor(tensor)
        for value in [*graph.input, *graph.output]:
            widen_type(value.type)
        del graph.value_info[:]
    for graph in reversed(list(iter_graphs(result.graph))):  # inner graphs first: nodes are copied
        nodes = [new for node in graph.node for new in rounding_nodes(node, types)]
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
    return result


def tensor_types(model):
    """name -> element type of every tensor that ONNX's inference can tell."""
    types = {}
    for graph in iter_graphs(shape_inference.infer_shapes(model).graph):
        for value in [*graph.input, *graph.value_info, *graph.output]:
            if value.type.HasField("tensor_type"):
                types[value.name] = value.type.tensor_type.elem_type
    return types


def widen_type(kind):
    if kind.HasField("sequence_type"):
        widen_type(kind.sequence_type.elem_type)
    elif kind.HasField("optional_type"):
        widen_type(kind.optional_type.elem_type)
    elif kind.HasField("tensor_type") and kind.tensor_type.elem_type in LOW:
        kind.tensor_type.elem_type = TensorProto.FLOAT


def widen_tensor(tensor):
    if tensor.data_type in LOW:
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def rounding_nodes(node, types):
    """The node in FP32, and a cast down and up behind each result that was of 16 bits."""
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT and attribute.i in LOW:
            attribute.i = TensorProto.FLOAT
        if attribute.HasField("t"):
            widen_tensor(attribute.t)
        if attribute.HasField("tp"):
            widen_type(attribute.tp)
    nodes = [node]
    for position, name in enumerate(node.output):
        if name and types.get(name) in LOW:
            node.output[position] = f"{name}__exact"
            nodes.append(helper.make_node("Cast", [f"{name}__exact"], [f"{name}__low"], to=types[name]))
            nodes.append(helper.make_node("Cast", [f"{name}__low"], [name], to=TensorProto.FLOAT))
    return nodes


def difference(got, want, tolerance):
    """Why `got` is not `want`, or None. `tolerance`: of the largest finite expected magnitude."""
    if isinstance(want, list) or isinstance(got, list):
        if not isinstance(got, list) or not isinstance(want, list) or len(got) != len(want):
            return "not the sequence that is expected"
        return next(filter(None, (difference(g, w, tolerance) for g, w in zip(got, want))), None)
    if want is None or got is None:
        return None if want is got else "an empty optional on one side only"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {want.shape}, got {got.shape}"
    if not is_float(want):
        return None if np.array_equal(got, want) else f"{int((got != want).sum())} of {want.size} values differ"
    error = relative_error(got, want)
    return None if error <= tolerance else f"error {error:.3g}"


def is_float(array):
    return array.dtype.kind in "fc" or array.dtype.name.startswith(("bfloat", "float"))


def relative_error(got, want):
    """max|got - want| / max|want| over finite values; inf where NaN or Inf stand elsewhere."""
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - want[finite]).max() / max(np.abs(want[finite]).max(), 1e-6))


def one_line(error, limit=220):
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error)
    return " ".join(text.split())[:limit]
