"""What the reference_cases_*.py share: seeded data, and the text form of a case."""
import numpy as np
import onnx
import onnx.reference
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20)
F64, I64 = np.float64, np.int64
NAMES = {"float64": "double", "float32": "float"}
INF, NAN = float("inf"), float("nan")
IA, IB = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 5])  # every pair of signs


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
        if any(isinstance(v, float) for v in value):
            value = [float(v) for v in value]
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


def pad_input(x, pads, value=0.0):
    rank = len(pads) // 2
    flat = []
    for i in reversed(range(rank)):
        flat += [pads[i], pads[rank + i]]
    return F.pad(x, flat, value=value)
