"""One-operator models of the most used operators, at every opset from 7 on at which they changed.

The expected outputs are those of ONNX Runtime on the model itself. An operator's forms differ by
opset where attributes became operands (axes of Squeeze, bounds of Clip, ...); `form` says how.
"""
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from suite_cases import Case
from suite_run import NotRun, run_model

OLDEST = 7
UNARY = ["Abs", "Celu", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "GlobalAveragePool", "GlobalMaxPool",
         "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal",
         "Relu", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish",
         "Tanh", "ThresholdedRelu"]
BINARY = ["Add", "Div", "Equal", "Greater", "Less", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum"]
REDUCE = ["ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
          "ReduceSumSquare"]
IMAGE = (2, 4, 6, 6)


class Form:
    """Operands (arrays; initializers where `fixed`), attributes and results of one operator."""

    def __init__(self, *operands, fixed=(), results=1, **attributes):
        self.operands, self.fixed, self.results, self.attributes = operands, fixed, results, attributes


def form(op, opset, random):
    """The operator's form at an opset; `random(*shape)` gives values between 0.5 and 1.5 that both
    16-bit types hold exactly, so that comparisons and thresholds have one right answer."""
    def ints(*values):
        return np.array(values, np.int64)

    x = random(*IMAGE)
    channels = [random(4) for _ in range(4)]
    if op in UNARY:
        return Form(x)
    if op in BINARY and opset < 8:
        return Form(x, random(*IMAGE), fixed=(1,))
    if op in BINARY:
        return Form(x, random(4, 1, 1), fixed=(1,))
    if op in REDUCE:
        if opset >= (13 if op == "ReduceSum" else 18):
            return Form(x, ints(2, 3), fixed=(1,))
        return Form(x, axes=[2, 3])
    if op in ("Squeeze", "Unsqueeze"):
        value = random(2, 1, 3)
        return Form(value, ints(1), fixed=(1,)) if opset >= 13 else Form(value, axes=[1])
    if op == "Clip":
        low, high = np.float32(0.75), np.float32(1.25)
        return Form(x, np.array(low), np.array(high), fixed=(1, 2)) if opset >= 11 else Form(
            x, min=float(low), max=float(high))
    if op == "Slice":
        return Form(x, ints(1), ints(5), ints(2), fixed=(1, 2, 3)) if opset >= 10 else Form(
            x, starts=[1], ends=[5], axes=[2])
    if op == "Pad":
        pads = [0, 0, 1, 1, 0, 0, 2, 2]
        return Form(x, ints(*pads), np.array(np.float32(0.5)), fixed=(1, 2)) if opset >= 11 else Form(
            x, pads=pads, value=0.5)
    if op == "Upsample":
        scales = np.array([1, 1, 2, 2], np.float32)
        return Form(x, scales, fixed=(1,)) if opset >= 9 else Form(x, scales=[1.0, 1.0, 2.0, 2.0])
    if op == "Resize":
        scales = np.array([1, 1, 2, 2], np.float32)
        return Form(x, scales, fixed=(1,)) if opset == 10 else Form(
            x, np.zeros(0, np.float32), scales, fixed=(1, 2), mode="linear")
    if op == "TopK":
        return Form(x, ints(3), fixed=(1,), results=2) if opset >= 10 else Form(x, results=2, k=3)
    if op == "Split":
        if opset >= 18:
            return Form(x, results=2, axis=1, num_outputs=2)
        return Form(x, results=2, axis=1)
    if op == "Dropout":
        return Form(x)
    if op == "BatchNormalization":
        return Form(x, *channels, fixed=(1, 2, 3, 4))
    if op == "InstanceNormalization":
        return Form(x, *channels[:2], fixed=(1, 2))
    if op == "GroupNormalization":
        count = 4 if opset >= 21 else 2
        return Form(x, random(count), random(count), fixed=(1, 2), num_groups=2)
    if op == "LayerNormalization":
        return Form(x, random(6), random(6), fixed=(1, 2))
    if op == "RMSNormalization":
        return Form(x, random(6), fixed=(1,))
    if op == "LRN":
        return Form(x, size=3)
    if op in ("AveragePool", "MaxPool"):
        return Form(x, kernel_shape=[3, 3], strides=[2, 2])
    if op == "Conv":
        return Form(x, random(8, 4, 3, 3), random(8), fixed=(1, 2))
    if op == "ConvTranspose":
        return Form(x, random(4, 8, 3, 3), random(8), fixed=(1, 2))
    if op == "MatMul":
        return Form(random(3, 8), random(8, 4), fixed=(1,))
    if op == "Gemm":
        return Form(random(3, 8), random(8, 4), random(4), fixed=(1, 2))
    if op == "Einsum":
        return Form(random(3, 8), random(8, 4), fixed=(1,), equation="ij,jk->ik")
    if op in ("LSTM", "GRU", "RNN"):
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * 5
        return Form(random(3, 2, 4), random(1, gates, 4), random(1, gates, 5), fixed=(1, 2), hidden_size=5)
    if op in ("Cast", "CastLike"):
        return Form(x, to=TensorProto.FLOAT) if op == "Cast" else Form(np.arange(6), random(1))
    if op == "Concat":
        return Form(x, x, axis=1)
    if op == "Transpose":
        return Form(x, perm=[0, 2, 3, 1])
    if op == "Flatten":
        return Form(x)
    if op == "Reshape":
        return Form(x, ints(2, -1), fixed=(1,))
    if op == "Expand":
        return Form(random(4, 1), ints(2, 4, 3), fixed=(1,))
    if op == "Tile":
        return Form(random(2, 3), ints(2, 2), fixed=(1,))
    if op == "Gather":
        return Form(x, ints(0, 2), fixed=(1,), axis=1)
    if op == "Where":
        return Form(np.arange(6) % 2 == 0, random(6), random(6))
    if op == "DepthToSpace":
        return Form(x, blocksize=2)
    if op in ("ArgMax", "ArgMin"):
        return Form(x, axis=1)
    if op == "CumSum":
        return Form(x, np.array(1), fixed=(1,))
    if op == "OneHot":
        return Form(ints(0, 2, 1), np.array(3), np.array([0.25, 0.75], np.float32), fixed=(1,))
    if op == "ConstantOfShape":
        return Form(ints(2, 3), value=helper.make_tensor("", TensorProto.FLOAT, [1], [0.5]))
    if op == "Attention":
        return Form(random(1, 2, 3, 8), random(1, 2, 3, 8), random(1, 2, 3, 8))
    raise KeyError(op)


OTHERS = ["ArgMax", "ArgMin", "Attention", "AveragePool", "BatchNormalization", "Cast", "CastLike", "Clip", "Concat",
          "ConstantOfShape", "Conv", "ConvTranspose", "CumSum", "DepthToSpace", "Dropout", "Einsum", "Expand",
          "Flatten", "GRU", "Gather", "Gemm", "GroupNormalization", "InstanceNormalization", "LRN", "LSTM",
          "LayerNormalization", "MatMul", "MaxPool", "OneHot", "Pad", "RMSNormalization", "RNN", "Reshape", "Resize",
          "Slice", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Upsample", "Where"]


def versions(op):
    """Opsets from OLDEST on at which the operator changed, and OLDEST itself where it is older."""
    history = [schema for schema in defs.get_all_schemas_with_history()
               if schema.name == op and schema.domain == "" and not schema.deprecated and takes_floats(schema)]
    since = sorted(schema.since_version for schema in history)
    return sorted({max(version, OLDEST) for version in since}) if since else []


def takes_floats(schema):
    return any("tensor(float)" in operand.types for operand in [*schema.inputs, *schema.outputs])


def make_sweep(scratch):
    """Cases `sweep/Op_opset` in the suite's form, written under the folder `scratch`."""
    cases = []
    for op in sorted(UNARY + BINARY + REDUCE + OTHERS):
        for opset in versions(op):
            generator = np.random.default_rng(zlib.crc32(f"{op}_{opset}".encode()))

            def random(*shape, generator=generator):
                return (generator.integers(32, 96, shape) / 64).astype(np.float32)

            folder = Path(scratch) / f"{op}_{opset}"
            cases.append(write_case(folder, op, opset, form(op, opset, random)))
    return cases


def write_case(folder, op, opset, made):
    names = [f"x{k}" for k in range(len(made.operands))]
    results = [f"y{k}" for k in range(made.results)]
    node = helper.make_node(op, names, results, name=op, **made.attributes)
    inputs = [(name, array) for k, (name, array) in enumerate(zip(names, made.operands)) if k not in made.fixed]
    fixed = [numpy_helper.from_array(array, names[k]) for k, array in enumerate(made.operands) if k in made.fixed]
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in inputs]
    graph = helper.make_graph([node], op, infos, [onnx.ValueInfoProto(name=name) for name in results], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=min(10, onnx.IR_VERSION))
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    for output in inferred.graph.output:
        if output.type.WhichOneof("value") is None:  # GroupNormalization: its schema infers nothing
            output.type.CopyFrom(infos[0].type)
    data_set = folder / "test_data_set_0"
    data_set.mkdir(parents=True)
    onnx.save(inferred, folder / "model.onnx")
    arrays = [array for _, array in inputs]
    try:
        outputs = run_model(inferred, arrays)
    except NotRun:
        outputs = []
    for role, values in (("input", arrays), ("output", outputs)):
        for position, value in enumerate(values):
            (data_set / f"{role}_{position}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    return Case("sweep", folder.name, folder / "model.onnx", [data_set])
