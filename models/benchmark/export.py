#!/usr/bin/env python3
"""Writes the ONNX graphs of nets.py without their weights: models/benchmark/NAME.onnx and NAME.json.

    python models/benchmark/export.py [NAME...]      needs torch and onnx
    python models/benchmark/export.py --small        tests/gpu/networks instead

A graph's weights are external data in NAME.weights, which does not exist: tools/gpu_check draws it.
The JSON says how: for every tensor its place in the file, and mean and deviation of what PyTorch
initialises it with; and the inputs with their shapes and highest values.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import external_data_helper, numpy_helper

from nets import NETS, SMALL, example

HERE = pathlib.Path(__file__).parent
INLINE_BYTES = 1024  # smaller tensors stay in the graph
PAGE = 4096


def export(make, inputs, batch):
    torch.manual_seed(0)
    net = make().train()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "net.onnx")
        # The newer exporter folds batch normalisation into convolutions, in training mode as well.
        torch.onnx.export(net, example(inputs, batch), path, dynamo=False, opset_version=17,
                          do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING,
                          input_names=list(inputs.inputs(batch)), output_names=["loss"])
        return onnx.load(path)


def take_weights_out(name, model):
    """The recipe of the weights file; the model refers to it."""
    tensors, offset = [], 0
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.nbytes < INLINE_BYTES:
            continue
        tensors.append({"name": tensor.name, "offset": offset, "elems": values.size,
                        "mean": float(values.mean()), "deviation": float(values.std())})
        external_data_helper.set_external_data(tensor, f"{name}.weights", offset, values.nbytes)
        tensor.ClearField("raw_data")
        offset += -(-values.nbytes // PAGE) * PAGE
    return tensors, offset


def drop_metadata(model):
    """What the exporter says of Python's stack, which would make most of the file."""
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]
    del model.graph.metadata_props[:]


def main(names):
    nets, folder, how = NETS, HERE, ""
    if names == ["--small"]:
        nets, folder, how, names = SMALL, HERE.parent.parent / "tests" / "gpu" / "networks", " --small", []
    for name in names or nets:
        make, inputs, batch = nets[name]
        model = export(make, inputs, batch)
        drop_metadata(model)
        tensors, size = take_weights_out(name, model)
        onnx.save(model, folder / f"{name}.onnx")
        ports = [{"name": port, "shape": list(shape), "dtype": dtype, "classes": classes or 0}
                 for port, (shape, dtype, classes) in inputs.inputs(batch).items()]
        recipe = {"source": f"models/benchmark/export.py{how}", "batch": batch, "weights_bytes": size,
                  "inputs": ports, "tensors": tensors}
        (folder / f"{name}.json").write_text(json.dumps(recipe, indent=1) + "\n")
        print(name, (folder / f"{name}.onnx").stat().st_size, "bytes,", len(tensors), "tensors")


if __name__ == "__main__":
    main(sys.argv[1:])
