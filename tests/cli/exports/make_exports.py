#!/usr/bin/env python3
"""Exports models without a loss by both exporters of PyTorch, and records ten steps of training.

Usage: make_exports.py      (needs torch, onnx and onnxscript; writes beside itself)

All are in inference form, as people export them: nothing in these files says that they are to be
trained. losses.json: the losses of SGD with momentum in FP32, batch after batch in file order.
"""
import copy
import json
import pathlib
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).parent
SAMPLES, BATCH, STEPS = 16, 8, 10


class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.c1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.b1 = nn.BatchNorm2d(outer)
        self.c2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(outer)
        self.side = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False),
                                  nn.BatchNorm2d(outer))

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + self.side(x))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(6, momentum=0.3), nn.ReLU(), nn.MaxPool2d(2))
        self.block = Block(6, 8, 2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.block(self.stem(x)), 1).flatten(1))


class Encoder(nn.Module):
    """Two layers that are copies of each other when they are made, as nn.TransformerEncoder's are,
    and an output layer tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.position = nn.Embedding(7, 12)
        self.norm = nn.LayerNorm(12)
        layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.1, activation="gelu",
                                           batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(12, 20)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        h = self.norm(self.embedding(ids) + self.position(torch.arange(ids.shape[1])))
        return self.head(self.layers(h))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.instance = nn.InstanceNorm2d(6, affine=True)
        self.group = nn.GroupNorm(2, 6)
        self.bare = nn.InstanceNorm2d(6)
        self.out = nn.Conv2d(6, 4, 1)

    def forward(self, x):
        h = F.relu(self.group(F.relu(self.instance(self.conv(x)))))
        return self.out(F.silu(self.bare(h)))


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def export(model, name, inputs, how):
    path = str(HERE / f"{name}_{how}.onnx")
    model = copy.deepcopy(model).eval()
    example = torch.tensor(inputs[:BATCH])
    if how.startswith("ts"):
        mode = torch.onnx.TrainingMode
        torch.onnx.export(model, (example,), path, dynamo=False, opset_version=17,
                          training=mode.EVAL if how == "ts" else mode.PRESERVE,
                          do_constant_folding=how == "ts", input_names=["x"],
                          output_names=["scores"], dynamic_axes={"x": {0: "batch"}})
    else:
        torch.onnx.export(model, (example,), path, dynamo=True, opset_version=20,
                          optimize=how == "dynamo", input_names=["x"], output_names=["scores"],
                          dynamic_shapes=({0: torch.export.Dim("batch")},), external_data=False)
        forget_places(path)


def forget_places(path):
    """Stack traces name files of the machine that exported."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(proto, path)


def train(model, inputs, target, loss):
    model = without_dropout(copy.deepcopy(model)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        rows = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
        optimizer.zero_grad()
        value = loss(model(torch.tensor(inputs[rows])), torch.tensor(target[rows]))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def main():
    warnings.filterwarnings("ignore")
    random = np.random.default_rng(1)
    image = random.standard_normal((SAMPLES, 3, 8, 8)).astype(np.float32)
    ids = random.integers(0, 20, (SAMPLES, 7))
    following = random.integers(0, 20, (SAMPLES, 7))
    following[:, -2:] = -100
    last = lambda scores, target: F.cross_entropy(scores.transpose(1, 2), target)
    cases = [
        (Residual, "residual", image, random.integers(0, 5, SAMPLES), F.cross_entropy,
         ["ts_preserve", "dynamo_noopt"]),
        (Encoder, "encoder", ids, following, last, ["ts", "ts_preserve", "dynamo"]),
        (Norms, "norms", image, random.integers(0, 4, (SAMPLES, 8, 8)), F.cross_entropy,
         ["ts", "ts_preserve", "dynamo"]),
    ]
    recorded = {}
    for make, name, inputs, target, loss, exports in cases:
        torch.manual_seed(3)
        model = make()
        np.savez(HERE / f"{name}.npz", x=inputs, target=target)
        losses = train(model, inputs, target, loss)
        for how in exports:
            export(model, name, inputs, how)
            recorded[f"{name}_{how}"] = losses
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items())
    (HERE / "losses.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
