#!/usr/bin/env python3
"""Writes loss_cases.json: what PyTorch makes of the losses that `mezzo train --loss` adds.

Usage: make_loss_cases.py > loss_cases.json      (needs torch)

Every case is a model of one weight, `w`, without a loss; the arguments that give it one; data of
one batch; and PyTorch's loss and gradient by `w`. Inputs and weights are multiples of 1/4 and
small, so that the scores are exact in 16 bits as well.
"""
import json

import numpy as np
import torch
import torch.nn.functional as F

random = np.random.default_rng(7)


def quarters(*shape):
    return (random.integers(-6, 7, shape) / 4).astype(np.float32)


def scores_of(form, x, w):
    if form in ("rows", "softmax", "log_softmax"):
        return x @ w  # what ends in a Softmax is scored before it
    if form in ("sequence", "sequence_log"):
        return x @ w
    if form == "flat_sequence":
        return (x @ w).reshape(-1, w.shape[1])
    if form == "image":
        return torch.einsum("ndhw,dc->nchw", x, w)
    if form == "sigmoid":
        return x @ w
    if form == "squeezed_sigmoid":
        return (x @ w)[:, 0]
    raise ValueError(form)


def x_for(form, n=4, d=3, t=5, hw=(2, 3)):
    if form == "image":
        return quarters(n, d, *hw)
    return quarters(n, t, d) if "sequence" in form else quarters(n, d)


CASES = []


def case(name, form, arguments, target, loss, classes=3, arrays=None, n=4, t=5, hw=(2, 3)):
    x, w = x_for(form, n=n, t=t, hw=hw), quarters(3, classes)
    weight = torch.tensor(w, requires_grad=True)
    extra = {key: np.asarray(value) for key, value in (arrays or {}).items()}
    value = loss(scores_of(form, torch.tensor(x), weight), target, extra)
    value.backward()
    data = {"x": x, "target": np.asarray(target), **extra}
    CASES.append({
        "name": name, "form": form, "arguments": arguments,
        "w": w.tolist(),
        "data": {key: {"shape": list(a.shape), "integer": a.dtype.kind in "iu",
                       "values": a.reshape(-1).tolist()} for key, a in data.items()},
        "loss": value.item(),
        "gradient": weight.grad.reshape(-1).tolist(),
    })


def labels(*shape, classes=3, ignored=None):
    array = random.integers(0, classes, shape)
    if ignored is not None:
        array.reshape(-1)[1::4] = ignored
    return array


def ce(**options):
    weights = options.pop("weight", None)

    def loss(scores, target, _):
        weight = None if weights is None else torch.tensor(weights)
        if scores.dim() == 3:  # [N,T,C]: PyTorch wants the classes second
            scores = scores.transpose(1, 2)
            if target.ndim == 3:
                return F.cross_entropy(scores, torch.tensor(target).transpose(1, 2), weight,
                                       **options)
        if scores.dim() == 2 and target.ndim == 2 and target.dtype.kind in "iu":
            return F.cross_entropy(scores, torch.tensor(target).reshape(-1), weight, **options)
        return F.cross_entropy(scores, torch.tensor(target), weight, **options)
    return loss


def masked_ce(weight=None, smoothing=0.0, ignore=-100):
    """The mean over places, each counting with its mask (and its class's weight)."""
    def loss(scores, target, extra):
        if scores.dim() == 3:
            scores = scores.reshape(-1, scores.shape[2])
        goal = torch.tensor(target).reshape(-1)
        mask = torch.tensor(extra["mask"]).float().reshape(-1)
        table = None if weight is None else torch.tensor(weight)
        each = F.cross_entropy(scores, goal, table, reduction="none", ignore_index=ignore,
                               label_smoothing=smoothing)
        counts = (goal != ignore).float() * mask
        if table is not None:
            counts = counts * table[goal.clamp(min=0)]
        return (each * mask).sum() / counts.sum()
    return loss


def build():
    ce_words = ["--loss", "cross-entropy"]
    weights = [0.5, 2.0, 1.25]
    weight_words = ["--class-weights", "0.5,2,1.25"]
    case("plain", "rows", ce_words, labels(4), ce())
    case("larger", "rows", ce_words, labels(7, classes=11), ce(), classes=11, n=7)
    case("ignored", "rows", ce_words, labels(4, ignored=-100), ce())
    case("ignore_index", "rows", ce_words + ["--ignore-index", "0"], labels(4), ce(ignore_index=0))
    case("weights", "rows", ce_words + weight_words, labels(4), ce(weight=weights))
    case("weights_ignored", "rows", ce_words + weight_words, labels(4, ignored=-100),
         ce(weight=weights))
    smoothing = ["--label-smoothing", "0.1"]
    case("smoothing", "rows", ce_words + smoothing, labels(4), ce(label_smoothing=0.1))
    case("all_smoothed", "rows", ce_words + ["--label-smoothing", "1"], labels(4),
         ce(label_smoothing=1.0))
    case("smoothing_ignored", "rows", ce_words + smoothing, labels(4, ignored=-100),
         ce(label_smoothing=0.1))
    case("smoothing_weights_ignored", "rows", ce_words + smoothing + weight_words +
         ["--ignore-index", "1"], labels(4), ce(label_smoothing=0.1, weight=weights, ignore_index=1))
    case("softmax", "softmax", ce_words, labels(4), ce())
    case("log_softmax", "log_softmax", ce_words, labels(4), ce())
    case("column_of_labels", "rows", ce_words, labels(4, 1), ce())
    case("sequence", "sequence", ce_words, labels(4, 5), ce())
    case("sequence_larger", "sequence", ce_words, labels(2, 9, classes=13), ce(), classes=13, n=2,
         t=9)
    case("sequence_log_softmax", "sequence_log", ce_words, labels(4, 5, ignored=-100), ce())
    case("sequence_all", "sequence", ce_words + smoothing + weight_words, labels(4, 5, ignored=-100),
         ce(label_smoothing=0.1, weight=weights))
    case("flat_sequence", "flat_sequence", ce_words, labels(4, 5), ce())
    case("image", "image", ce_words, labels(4, 2, 3), ce())
    case("image_larger", "image", ce_words, labels(2, 5, 4, classes=6), ce(), classes=6, n=2,
         hw=(5, 4))
    case("image_all", "image", ce_words + smoothing + weight_words,
         labels(4, 2, 3, ignored=-100), ce(label_smoothing=0.1, weight=weights))
    # A sequence as long as there are classes: told apart by the axis alone.
    case("class_axis", "sequence", ce_words + ["--class-axis", "-1"], labels(4, 3), ce(), t=3)

    def probabilities(*shape):
        array = random.random(shape)
        return (array / array.sum(-1, keepdims=True)).astype(np.float32)
    case("probabilities", "rows", ce_words, probabilities(4, 3), ce())
    case("probabilities_all", "rows", ce_words + smoothing + weight_words, probabilities(4, 3),
         ce(label_smoothing=0.1, weight=weights))
    case("probabilities_sequence", "sequence", ce_words + ["--class-axis", "-1"],
         probabilities(4, 5, 3), ce())

    mask_words = ["--padding-mask", "mask"]
    mask = np.ones((4, 5), np.int64)
    mask[1, 3:] = mask[2, 1:] = 0
    padded = labels(4, 5)
    padded[mask == 0] = 77  # no class at all, and never looked at
    kept = np.where(mask == 0, 0, padded)

    def with_padding(name, arguments, loss):
        case(name, "sequence", arguments, kept, loss, arrays={"mask": mask})
        CASES[-1]["data"]["target"]["values"] = padded.reshape(-1).tolist()
    with_padding("mask", ce_words + mask_words, masked_ce())
    with_padding("mask_all", ce_words + mask_words + smoothing + weight_words,
                 masked_ce(weights, 0.1))
    case("weighted_places", "rows", ce_words + mask_words, labels(4, ignored=-100), masked_ce(),
         arrays={"mask": np.array([0.5, 1, 2, 0.25], np.float32)})

    def bce(**options):
        def loss(scores, target, _):
            goal = torch.tensor(target).float()
            rest = {key: torch.tensor(value) for key, value in options.items()}
            return F.binary_cross_entropy_with_logits(scores, goal.reshape(scores.shape), **rest)
        return loss
    bce_words = ["--loss", "bce"]
    halves = (random.integers(0, 5, (4, 3)) / 4).astype(np.float32)
    case("bce", "rows", bce_words, halves, bce())
    case("bce_integers", "rows", bce_words, labels(4, 3, classes=2), bce())
    case("bce_sigmoid", "sigmoid", bce_words, halves, bce())
    case("bce_squeezed_sigmoid", "squeezed_sigmoid", bce_words, labels(4, classes=2), bce(),
         classes=1)
    case("bce_column", "rows", bce_words, labels(4, classes=2), bce(), classes=1)
    case("bce_pos_weights", "rows", bce_words + ["--pos-weights", "0.5,2,3"], halves,
         bce(pos_weight=[0.5, 2.0, 3.0]))
    case("bce_both_weights", "rows", bce_words + ["--pos-weights", "0.5,2,3"] + weight_words, halves,
         bce(pos_weight=[0.5, 2.0, 3.0], weight=weights))
    case("bce_image", "image", bce_words, labels(4, 3, 2, 3, classes=2), bce())

    def masked(each, inner_axes):
        def loss(scores, target, extra):
            terms = each(scores, torch.tensor(target).float())
            terms = terms.mean(inner_axes) if inner_axes else terms
            mask = torch.tensor(extra["mask"]).float()
            return (terms * mask).sum() / mask.sum()
        return loss

    case("bce_mask", "sequence", bce_words + mask_words, labels(4, 5, 3, classes=2),
         masked(lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none"), (2,)),
         arrays={"mask": mask})
    for word, each in (("mse", F.mse_loss), ("l1", F.l1_loss)):
        words = ["--loss", word]
        plain = lambda scores, target, _: each(scores, torch.tensor(target).reshape(scores.shape))
        case(word, "rows", words, quarters(4, 3) + 0.125, plain)
        case(word + "_column", "rows", words, quarters(4) + 0.125, plain, classes=1)
        case(word + "_image", "image", words, quarters(4, 3, 2, 3) + 0.125, plain)
        case(word + "_mask", "sequence", words + mask_words, quarters(4, 5, 3) + 0.125,
             masked(lambda a, b: each(a, b, reduction="none"), (2,)), arrays={"mask": mask})
    cosine = lambda a, b: 1 - F.cosine_similarity(a, b, dim=-1)
    plain = lambda scores, target, _: cosine(scores, torch.tensor(target)).mean()
    case("cosine", "rows", ["--loss", "cosine"], quarters(4, 3) + 0.125, plain)
    case("cosine_sequence", "sequence", ["--loss", "cosine"], quarters(4, 5, 8) + 0.125, plain,
         classes=8)
    case("cosine_mask", "sequence", ["--loss", "cosine"] + mask_words, quarters(4, 5, 3) + 0.125,
         masked(cosine, ()), arrays={"mask": mask})
    for margin in (0.0, 0.25):
        pair(margin)


def pair(margin):
    """Two outputs of one weight, compared by F.cosine_embedding_loss."""
    x, other, w = quarters(6, 3), quarters(6, 3), quarters(3, 4)
    target = np.where(random.integers(0, 2, 6) == 1, 1, -1)
    weight = torch.tensor(w, requires_grad=True)
    value = F.cosine_embedding_loss(torch.tensor(x) @ weight, torch.tensor(other) @ weight,
                                    torch.tensor(target), margin=margin)
    value.backward()
    arguments = ["--loss", "cosine", "--loss-input", "a", "--loss-input", "b"]
    if margin:
        arguments += ["--margin", str(margin)]
    arrays = {"x": x, "other": other, "target": target}
    CASES.append({
        "name": "cosine_pair" + ("_margin" if margin else ""), "form": "pair",
        "arguments": arguments, "w": w.tolist(),
        "data": {key: {"shape": list(a.shape), "integer": a.dtype.kind in "iu",
                       "values": a.reshape(-1).tolist()} for key, a in arrays.items()},
        "loss": value.item(), "gradient": weight.grad.reshape(-1).tolist()})


build()
lines = ",\n".join(json.dumps(entry) for entry in CASES)
print(f"[\n{lines}\n]")
