#!/usr/bin/env python3
"""Makes models/digits/ again: the data as train.npz and heldout.npz, the model as digits.onnx.

Needs PyTorch, ONNX and scikit-learn, none of which is needed to use what this writes:

    pip install torch onnx scikit-learn
    models/export_digits.py            # writes beside this script
    models/export_digits.py --check    # writes nothing; says whether the files are as this makes them

Data: the 1,797 scans of the UCI handwritten digits that scikit-learn carries (see README.md for
source and licence). x: float32 [N, 1, 8, 8], the 17 grey levels scaled to [0, 1]; y: int64 [N].
Split: each class is shuffled with seed 0 and gives a fifth, rounded to make 360, to heldout.npz.
Both files are in shuffled order, so any run of samples mixes the classes.

Model: a residual network for 8x8 images with batch normalisation, 38 thousand parameters, freshly
initialised with seed 0. Inputs x and y with symbolic batch, outputs logits [batch, 10] and loss [].
Exported by PyTorch's TorchScript exporter in training mode at opset 17, nothing folded.
"""
import argparse
import io
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

SEED = 0
HELD_OUT = 360
OPSET = 17
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # npz files hold a date: a fixed one makes them reproducible


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class DigitsNet(nn.Module):
    """8x8 images through one block at 16 channels and two at 32; returns (logits, loss)."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2),
                                    ResidualBlock(32, 32, 1))
        self.head = nn.Linear(32, 10)

    def forward(self, x, y):
        out = self.blocks(F.relu(self.norm(self.stem(x))))
        logits = self.head(F.adaptive_avg_pool2d(out, 1).flatten(1))
        return logits, F.cross_entropy(logits, y)


def split_digits():
    """(training indices, held-out indices), stratified by class and shuffled."""
    labels = load_digits().target
    random = np.random.RandomState(SEED)
    per_class = [random.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    # Cumulated shares, so that the rounded counts of the classes add up to HELD_OUT.
    ends = np.cumsum([len(samples) for samples in per_class]) * HELD_OUT / len(labels)
    counts = np.diff(np.rint(ends).astype(int), prepend=0)
    held_out = np.concatenate([samples[:count] for samples, count in zip(per_class, counts)])
    train = np.concatenate([samples[count:] for samples, count in zip(per_class, counts)])
    return random.permutation(train), random.permutation(held_out)


def npz_bytes(**arrays):
    """An npz like numpy's, compressed, with the same bytes on every call."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(array))
            entry = zipfile.ZipInfo(name + ".npy", ZIP_DATE)
            archive.writestr(entry, data.getvalue(), zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def data_bytes(indices):
    digits = load_digits()
    x = (digits.images[indices, None] / 16).astype(np.float32)
    return npz_bytes(x=x, y=digits.target[indices].astype(np.int64))


def strip_texts(message):
    """Removes doc strings and metadata at every depth: exporters write paths and code into them."""
    for name in ("doc_string", "metadata_props"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, value in message.ListFields():
        if field.message_type:
            for part in [value] if hasattr(value, "ListFields") else value:
                strip_texts(part)


def model_bytes():
    torch.manual_seed(SEED)
    model = DigitsNet().train()
    x, y = torch.rand(64, 1, 8, 8), torch.arange(64) % 10
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the TorchScript exporter announces its retirement
        torch.onnx.export(model, (x, y), buffer, input_names=["x", "y"],
                          output_names=["logits", "loss"], opset_version=OPSET, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"},
                                        "logits": {0: "batch"}})
    exported = onnx.load_model_from_string(buffer.getvalue())
    strip_texts(exported)
    onnx.checker.check_model(exported, full_check=True)
    return exported.SerializeToString(deterministic=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "digits")
    parser.add_argument("--check", action="store_true",
                        help="compare instead of writing; exit status 1 on a difference")
    options = parser.parse_args()
    train, held_out = split_digits()
    files = {"train.npz": data_bytes(train), "heldout.npz": data_bytes(held_out),
             "digits.onnx": model_bytes()}
    different = []
    if not options.check:
        options.out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = options.out / name
        if options.check:
            if not path.exists() or path.read_bytes() != data:
                different.append(name)
        else:
            path.write_bytes(data)
            print(f"{path}: {len(data)} bytes")
    if different:
        sys.exit(f"differ from what this script makes: {', '.join(different)}")


if __name__ == "__main__":
    main()
