"""Records the golden training runs of this folder with PyTorch.

    python3 make_golden.py          (needs torch, onnx and numpy; the tests need none of them)

For each model NAME/: model.onnx (logits and loss as outputs, in training form), data.npz (one array
per input), gradients.npz (of the first batch, and its logits), expected.json (magic, version, and
for each setup ten losses; for the one with a loss scale also scale and skipped steps, see main).
Batches follow the data in file order, wrapped around. Adam's eps is 1e-6: with the default,
parameters whose gradients are all rounding noise would follow it.
"""

import copy
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

STEPS = 10
BATCH = 8
SAMPLES = 24


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 33), nn.GELU(), nn.Linear(33, 20), nn.GELU(), nn.Linear(20, 5))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        logits = self.net(x)
        return logits, self.loss(logits, labels)


class ConvBnSilu(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 11, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(11)
        self.conv2 = nn.Conv2d(11, 11, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(11)
        self.act = nn.SiLU()
        self.pool = nn.AvgPool2d(2)
        self.fc = nn.Linear(11 * 16, 5)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        x = self.act(self.bn1(self.conv1(x)))
        x = self.act(self.bn2(self.conv2(x)) + x)
        logits = self.fc(torch.flatten(self.pool(x), 1))
        return logits, self.loss(logits, labels)


class TransformerBlock(nn.Module):
    """Pre-norm attention and MLP over token embeddings; the loss skips places without a label."""

    def __init__(self, vocabulary=19, width=16, heads=2, length=6):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(length, width) * 0.1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 40), nn.Linear(40, width)
        self.head = nn.Linear(width, vocabulary)
        self.act = nn.GELU()
        self.loss = nn.CrossEntropyLoss(ignore_index=-100)

    def attend(self, x):
        n, t, c = x.shape
        parts = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weights = (parts[0] @ parts[1].transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1)
        return self.out((weights @ parts[2]).transpose(1, 2).reshape(n, t, c))

    def forward(self, x, labels):
        h = self.tokens(x) + self.places
        h = h + self.attend(self.norm1(h))
        h = h + self.down(self.act(self.up(self.norm2(h))))
        logits = self.head(self.norm3(h))
        return logits, self.loss(logits.flatten(0, 1), labels.flatten())


def images(shape):
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 5, SAMPLES)
    centres = generator.normal(size=(5, *shape))
    x = 0.7 * centres[labels] + generator.normal(size=(SAMPLES, *shape))
    return {"x": x.astype(np.float32), "labels": labels.astype(np.int64)}


def tokens():
    generator = np.random.default_rng(6)
    x = generator.integers(0, 19, (SAMPLES, 6))
    labels = (x * 3 + 1) % 19
    labels[generator.random(labels.shape) < 0.2] = -100
    return {"x": x.astype(np.int64), "labels": labels.astype(np.int64)}


MODELS = {
    "mlp": (Mlp, lambda: images((12,))),
    "conv_bn_silu": (ConvBnSilu, lambda: images((3, 8, 8))),
    "transformer_block": (TransformerBlock, tokens),
}
SETUPS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.005, weight_decay=0.05, eps=1e-6),
}


def batch(data, step):
    rows = [(step * BATCH + i) % SAMPLES for i in range(BATCH)]
    return [torch.from_numpy(array[rows]) for array in data.values()]


def train(model, data, make_optimizer, precision="fp32", scaler=None):
    model = copy.deepcopy(model).train()
    optimizer = make_optimizer(model.parameters())
    losses, scales, skipped = [], [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(*batch(data, step))[1]
        losses.append(loss.item())
        if scaler is None:
            loss.backward()
            optimizer.step()
            continue
        scales.append(scaler.get_scale())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped.append(scaler.get_scale() < scales[-1])
    return {"loss": losses} | ({"loss_scale": scales, "skipped": skipped} if scaler else {})


def first_gradients(model, data):
    model = copy.deepcopy(model).train()
    logits, loss = model(*batch(data, 0))
    loss.backward()
    arrays = {name: p.grad.numpy() for name, p in model.named_parameters()}
    return arrays, logits.detach().numpy()


def export(model, data, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            copy.deepcopy(model).train(), tuple(batch(data, 0)), str(path), dynamo=False, opset_version=17,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
            input_names=list(data), output_names=["logits", "loss"],
            dynamic_axes={name: {0: "batch"} for name in [*data, "logits"]})


def main():
    for name, (make, make_data) in MODELS.items():
        torch.manual_seed(1)
        folder = Path(__file__).resolve().parent / name
        folder.mkdir(exist_ok=True)
        model, data = make(), make_data()
        export(model, data, folder / "model.onnx")
        np.savez_compressed(folder / "data.npz", **data)
        gradients, logits = first_gradients(model, data)
        np.savez_compressed(folder / "gradients.npz", **gradients)
        expected = {"magic": "mezzo-golden", "version": 1, "made_by": "python3 tests/golden/make_golden.py",
                    "torch": torch.__version__.split("+")[0], "batch_size": BATCH, "setups": {}}
        for setup, make_optimizer in SETUPS.items():
            expected["setups"][setup] = {"fp32": train(model, data, make_optimizer),
                                         "bf16": train(model, data, make_optimizer, "bf16")}
        if name == "mlp":
            # A scale at the end of float32's range, which may not grow to inf, and a second batch so
            # large that its gradients do not fit: that step is skipped each time it comes round.
            large = data | {"x": data["x"].copy()}
            large["x"][BATCH:2 * BATCH] *= 64
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2)
            expected["setups"]["sgd"]["scaled"] = train(model, large, SETUPS["sgd"], scaler=scaler)
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        np.savez_compressed(folder / "logits.npz", logits=logits)


if __name__ == "__main__":
    main()
