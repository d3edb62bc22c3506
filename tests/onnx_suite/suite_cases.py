"""The cases of ONNX's backend suite: where they lie, and how their data is read.

A wheel of onnx up to 1.21 ships the node cases as files under onnx/backend/test/data/node; later
ones ship the functions that make them, which `node_cases` then calls. The light models come without
inputs: theirs are counted up from 0 to 1, as the suite's own runner does.
"""
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

GROUPS = ["node", "light", "simple", "pytorch-operator", "pytorch-converted"]
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


@dataclass
class Case:
    group: str
    name: str
    model: Path
    data_sets: list = field(default_factory=list)  # folders with input_K.pb, output_K.pb

    @property
    def key(self):
        return f"{self.group}/{self.name}"


def find_cases(data, scratch):
    """All cases under the folder `data`; node cases are made in `scratch` where it has none."""
    cases = []
    for group in GROUPS:
        folder = data / group
        if group == "node" and not any(folder.glob("*/model.onnx")):
            folder = make_node_cases(scratch / "node")
        if group == "light":
            cases += [Case(group, path.stem, path) for path in sorted(folder.glob("*.onnx"))]
            continue
        for path in sorted(folder.glob("*/model.onnx")):
            cases.append(Case(group, path.parent.name, path, sorted(path.parent.glob("test_data_set_*"))))
    return cases


def make_node_cases(folder):
    """Writes the cases that the installed onnx can make, in the form it used to ship them."""
    from onnx.backend.test.case.node import collect_testcases
    with np.errstate(all="ignore"):
        made = collect_testcases(None)
    for case in made:
        target = folder / case.name
        target.mkdir(parents=True)
        onnx.save(case.model, target / "model.onnx")
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data_set = target / f"test_data_set_{number}"
            data_set.mkdir()
            for role, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for position, (value, info) in enumerate(zip(values, infos)):
                    path = data_set / f"{role}_{position}.pb"
                    path.write_bytes(to_proto(value, info.type).SerializeToString())
    return folder


def to_proto(value, kind):
    if hasattr(value, "SerializeToString"):
        return value
    if kind.HasField("sequence_type"):
        return numpy_helper.from_list(list(value))
    if kind.HasField("optional_type"):
        return numpy_helper.from_optional(value)
    return numpy_helper.from_array(np.asarray(value))


def from_file(path, kind):
    """A numpy array, a list of such, or None for an empty optional."""
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(TensorProto.FromString(content))


def load_data(case, model):
    """[(inputs, outputs)] in graph order; inputs may stop short where the rest have defaults."""
    if case.group == "light":
        return [light_data(case, model)]
    sets = []
    for folder in case.data_sets:
        values = []
        for role, infos in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(folder.glob(f"{role}_*.pb")))
            values.append([from_file(folder / f"{role}_{k}.pb", infos[k].type) for k in range(count)])
        sets.append(tuple(values))
    return sets


def light_data(case, model):
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in given:
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = math.prod(shape)
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    outputs = [from_file(case.model.with_name(f"{case.name}_output_{k}.pb"), value.type)
               for k, value in enumerate(model.graph.output)]
    return inputs, outputs


def element_types(kind):
    """Element types in a TypeProto, inside sequences, optionals and maps too."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        return {getattr(kind, which).elem_type}
    if which in ("sequence_type", "optional_type"):
        return element_types(getattr(kind, which).elem_type)
    return element_types(kind.map_type.value_type) if which == "map_type" else set()


def iter_graphs(graph):
    """The graph and all graphs inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from iter_graphs(inner)


def iter_nodes(model):
    for graph in iter_graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def has_floats(model):
    """True if any tensor that the model declares, holds or makes is of a floating-point type."""
    types = set()
    for graph in iter_graphs(model.graph):
        for value in [*graph.input, *graph.output, *graph.value_info]:
            types |= element_types(value.type)
        types |= {tensor.data_type for tensor in graph.initializer}
    for node in iter_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                types.add(attribute.t.data_type)
            if attribute.name in ("to", "dtype"):
                types.add(attribute.i)
    return bool(types & FLOATS)
