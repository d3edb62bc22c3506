#!/usr/bin/env python3
"""Trains narrow models of known families in PyTorch and, from both of its exporters, in mezzo.

    relatives_test.py MEZZO [Relatives.test_NAME ...]

In FP32 losses, gradient norms and first gradients must be PyTorch's. In BF16 and FP16 losses may be
as far off as three times what PyTorch's autocast makes of them. Exit status: 0 good, 1 a fault, 77
skipped because torch, onnx or onnxscript is not here.
"""
import contextlib
import copy
import io
import json
import math
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnx  # noqa: F401 - the exporters need it
    import onnxscript  # noqa: F401
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}; needs torch, onnx and onnxscript for Python")
    sys.exit(77)

import text
import vision

MEZZO = sys.argv.pop(1)
BATCH, BATCHES, STEPS = 8, 4, 10
SAMPLES = BATCH * BATCHES
EXPORTS = {
    "TorchScript": {"dynamo": False, "opset_version": 17, "do_constant_folding": False,
                    "training": torch.onnx.TrainingMode.TRAINING},
    "dynamo": {"dynamo": True, "opset_version": 20, "optimize": False, "external_data": False, "verbose": False},
}
SCALES = {"bf16": "off", "fp16": "static:128"}
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}
DIGITS = {"bf16": 2 ** -9, "fp16": 2 ** -12}  # of a loss that autocast happens to hit
LEAST_GRADIENT = 1e-5                         # of the whole: below, a gradient is rounding noise


class Draw:
    """Seeded inputs, one array each, samples first."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(7)

    def normal(self, *shape):
        return torch.randn(SAMPLES, *shape, generator=self.random)

    def images(self, channels, size):
        coarse = F.interpolate(self.normal(channels, size // 4, size // 4), size=(size, size), mode="bilinear")
        return 0.7 * (coarse + 0.3 * self.normal(channels, size, size))

    def labels(self, classes, *shape):
        return torch.randint(classes, (SAMPLES, *shape), generator=self.random)

    def regions(self, classes, size):
        coarse = self.labels(classes, 1, size // 4, size // 4).float()
        labels = F.interpolate(coarse, size=(size, size), mode="nearest")[:, 0].long()
        labels[:, 0] = 255  # to be ignored
        return labels

    def padded(self, words, length):
        ends = torch.randint(length // 2, length + 1, (SAMPLES, 1), generator=self.random)
        return torch.where(torch.arange(length) < ends, self.labels(words - 1, length) + 1, 0)


# Name -> model, inputs by name, learning rate.
FAMILIES = {
    "resnet": (vision.ResNet, lambda d: {"x": d.images(3, 32), "labels": d.labels(10)}, 0.01),
    "efficientnet": (vision.EfficientNet, lambda d: {"x": d.images(3, 32), "labels": d.labels(10)}, 0.02),
    "deeplab": (vision.DeepLab, lambda d: {"x": d.images(3, 32), "labels": d.regions(5, 32)}, 0.02),
    "swin": (vision.Swin, lambda d: {"x": d.images(3, 32), "labels": d.labels(10)}, 0.005),
    "vae": (vision.Vae, lambda d: {"x": torch.sigmoid(3 * d.images(1, 16)), "noise": d.normal(8)}, 2e-4),
    "diffusion": (vision.Diffusion, lambda d: {"x": d.images(1, 16), "step": d.labels(1000),
                                               "noise": d.normal(1, 16, 16)}, 0.01),
    "quantizer": (vision.Quantizer, lambda d: {"x": d.images(1, 16)}, 0.01),
    "vit": (text.Vit, lambda d: {"x": d.images(3, 32), "labels": d.labels(10)}, 0.005),
    "llama": (text.Llama, lambda d: {"ids": d.labels(64, 24)}, 0.02),
    "translator": (text.Translator, lambda d: {"source": d.padded(48, 12), "target": d.padded(48, 10)}, 0.01),
    "gru_translator": (text.GruTranslator, lambda d: {"source": d.padded(40, 10), "target": d.padded(40, 9)}, 0.1),
    "clip": (text.Clip, lambda d: {"x": d.images(3, 16), "ids": d.labels(40, 12)}, 0.002),
    "experts": (text.Experts, lambda d: {"ids": d.labels(40, 10), "labels": d.labels(40, 10)}, 0.02),
}

# TorchScript's exporter refuses it, or forgets without a note.
NEEDS_NOTES = {"distilled"}
FAMILIES["distilled"] = (text.Distilled, lambda d: {"ids": d.padded(40, 10), "labels": d.labels(8)}, 0.1)


def train_torch(model, data, lr, low=None):
    """Losses, gradient norms, and the gradients of the first step by name."""
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    scale = 128.0 if low == torch.float16 else 1.0
    losses, norms, first = [], [], {}
    for step in range(STEPS):
        begin = step % BATCHES * BATCH
        batch = [array[begin:begin + BATCH] for array in data.values()]
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=low) if low else contextlib.nullcontext():
            loss = model(*batch)
        (loss.float() * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        if step == 0:
            first = {name: p.grad.numpy().astype(np.float64) for name, p in model.named_parameters()}
        losses.append(loss.item())
        norms.append(math.sqrt(sum((p.grad.double() ** 2).sum().item() for p in model.parameters())))
        optimizer.step()
    return losses, norms, first


def export(model, data, path, options):
    batch = tuple(array[:BATCH] for array in data.values())
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(copy.deepcopy(model).train(), batch, str(path), input_names=list(data), output_names=["loss"],
                          **options)


def train_mezzo(model, data, lr, precision, out):
    """Losses, gradient norms and first gradients."""
    command = [MEZZO, "train", model, "--data", data, "--batch-size", BATCH, "--no-shuffle", "--steps", STEPS, "--lr", lr,
               "--optimizer", "sgd", "--momentum", 0.9, "--precision", precision, "--loss-scale", SCALES.get(precision, "off"),
               "--save-gradients", 1, "--out", out]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    rows = [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]
    if any(row["skipped"] for row in rows):
        raise AssertionError(f"{precision}: a step was skipped")
    with np.load(Path(out, "gradients_1.npz")) as gradients:
        return [row["loss"] for row in rows], [row["grad_norm"] for row in rows], dict(gradients)


def distance(got, want):
    """Largest over the steps, relative; losses that became small count as a tenth of the first."""
    return max(abs(a - b) / max(abs(b), 0.1 * abs(want[0])) for a, b in zip(got, want))


def autocast_distance(model, data, lr, low, losses):
    try:
        return distance(train_torch(model, data, lr, low)[0], losses)
    except RuntimeError:  # PyTorch refuses masks that its type does not hold
        return 0


class Relatives(unittest.TestCase):
    def check_gradients(self, got, want):
        self.assertEqual(sorted(got), sorted(want), "all parameters are trained, and nothing else")
        whole = math.sqrt(sum((gradient ** 2).sum() for gradient in want.values()))
        for name, gradient in want.items():
            size = math.sqrt((gradient ** 2).sum())
            off = math.sqrt(((got[name] - gradient) ** 2).sum())
            self.assertLessEqual(off, 1e-4 * size + LEAST_GRADIENT * whole, name)

    def check(self, name):
        make, draw, lr = FAMILIES[name]
        torch.manual_seed(3)
        model, data = make(), draw(Draw())
        losses, norms, first = train_torch(model, data, lr)
        own = {low: autocast_distance(model, data, lr, dtype, losses) for low, dtype in LOW.items()}
        with tempfile.TemporaryDirectory() as folder:
            arrays = Path(folder, "data.npz")
            np.savez(arrays, **{key: array.numpy() for key, array in data.items()})
            for exporter, options in EXPORTS.items():
                if exporter != "dynamo" and name in NEEDS_NOTES:
                    continue
                path = Path(folder, f"{exporter}.onnx")
                export(model, data, path, options)
                with self.subTest(exporter=exporter, precision="fp32"):
                    got = train_mezzo(path, arrays, lr, "fp32", Path(folder, "fp32"))
                    self.assertLessEqual(distance(got[0], losses), 2e-5)
                    self.assertLessEqual(distance(got[1], norms), 2e-4)
                    self.check_gradients(got[2], first)
                for low in LOW:
                    with self.subTest(exporter=exporter, precision=low):
                        got = train_mezzo(path, arrays, lr, low, Path(folder, low))
                        self.assertLessEqual(distance(got[0], losses), max(3 * own[low], DIGITS[low]))


for family in FAMILIES:
    setattr(Relatives, f"test_{family}", lambda self, name=family: self.check(name))

if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
