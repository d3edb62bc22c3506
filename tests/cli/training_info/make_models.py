#!/usr/bin/env python3
"""Writes models that hold their training in a TrainingInfoProto, and what training them gives.

Usage: make_models.py      (needs onnx and torch; writes beside itself)

The steps are computed in float64 by the formulas of ONNX's operator documentation, the gradients by
PyTorch. expected.json: the losses of each step and the weights after the last, by model.
"""
import json
import pathlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
DOMAIN = "ai.onnx.preview.training"
STEPS, BATCH, SAMPLES = 5, 4, 8
random = np.random.default_rng(11)
X = random.standard_normal((SAMPLES, 3)).astype(np.float32)
TARGET = random.standard_normal((SAMPLES, 2)).astype(np.float32)
LABELS = random.integers(0, 2, SAMPLES)
W = random.standard_normal((3, 2)).astype(np.float32)
B = random.standard_normal(2).astype(np.float32)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def base_graph():
    """y = x W + B"""
    return helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["h"]), helper.make_node("Add", ["h", "B"], ["y"])],
        "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [tensor("W", W), tensor("B", B)])


def loss_nodes(kind):
    if kind == "mse":
        return ([helper.make_node("Sub", ["y", "t"], ["d"]),
                 helper.make_node("Mul", ["d", "d"], ["dd"]),
                 helper.make_node("ReduceMean", ["dd"], ["loss"], keepdims=0)],
                helper.make_tensor_value_info("t", TensorProto.FLOAT, ["N", 2]))
    return ([helper.make_node("SoftmaxCrossEntropyLoss", ["y", "t"], ["loss"], reduction="mean")],
            helper.make_tensor_value_info("t", TensorProto.INT64, ["N"]))


def algorithm(kind, optimizer, states, attributes, first_count=0, rate=0.1, starts=None):
    """Loss, Gradient, one optimizer for both parameters, and the count."""
    nodes, target = loss_nodes(kind)
    nodes.append(helper.make_node("Gradient", ["W", "B", "x", "t"], ["dW", "dB"], domain=DOMAIN,
                                  xs=["W", "B"], zs=["x", "t"], y="loss"))
    initializers = [tensor("R", np.float32(rate)), tensor("T", np.int64(first_count)),
                    tensor("one", np.int64(1))]
    nodes.append(helper.make_node("Add", ["T", "one"], ["T_new"]))
    operands, results, bindings = ["R", "T", "W", "B", "dW", "dB"], ["W_new", "B_new"], {}
    for s in states:
        for p, value in (("W", W), ("B", B)):
            start = 0.0 if starts is None else starts
            initializers.append(tensor(f"{s}_{p}", np.full_like(value, start)))
            operands.append(f"{s}_{p}")
            results.append(f"{s}_{p}_new")
            bindings[f"{s}_{p}"] = f"{s}_{p}_new"
    bindings.update({"W": "W_new", "B": "B_new", "T": "T_new"})
    nodes.append(helper.make_node(optimizer, operands, results, domain=DOMAIN, name="optimizer",
                                  **attributes))
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "algorithm", [target], outputs, initializers)
    return graph, bindings


def sgd_algorithm(rate=0.1):
    nodes, target = loss_nodes("mse")
    nodes += [helper.make_node("Gradient", ["W", "B", "x", "t"], ["dW", "dB"], domain=DOMAIN,
                               xs=["W", "B"], zs=["x", "t"], y="loss")]
    for p in "WB":
        nodes += [helper.make_node("Mul", ["R", f"d{p}"], [f"step_{p}"]),
                  helper.make_node("Sub", [p, f"step_{p}"], [f"{p}_new"])]
    graph = helper.make_graph(nodes, "algorithm", [target],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [tensor("R", np.float32(rate))])
    return graph, {"W": "W_new", "B": "B_new"}


def initialization():
    """Both parameters afresh: W all 0.5, B all 0."""
    nodes = [helper.make_node("ConstantOfShape", ["w_shape"], ["W_first"],
                              value=tensor("v", np.array([0.5], np.float32))),
             helper.make_node("ConstantOfShape", ["b_shape"], ["B_first"])]
    outputs = [helper.make_tensor_value_info("W_first", TensorProto.FLOAT, [3, 2]),
               helper.make_tensor_value_info("B_first", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "initialization", [], outputs,
                              [tensor("w_shape", np.array([3, 2])), tensor("b_shape", np.array([2]))])
    return graph, {"W": "W_first", "B": "B_first"}


def save(name, graph, bindings, with_initialization=False):
    model = helper.make_model(base_graph(), ir_version=8, producer_name="make_models",
                              opset_imports=[helper.make_opsetid("", 17),
                                             helper.make_opsetid(DOMAIN, 1)])
    info = model.training_info.add()
    info.algorithm.CopyFrom(graph)
    for key, value in bindings.items():
        info.update_binding.add(key=key, value=value)
    if with_initialization:
        first, first_bindings = initialization()
        info.initialization.CopyFrom(first)
        for key, value in first_bindings.items():
            info.initialization_binding.add(key=key, value=value)
    onnx.save(model, HERE / f"{name}.onnx")


def train(kind, step, first_w=W, first_b=B):
    """step(parameter, gradient, state, T) -> new parameter; state is a dict of arrays."""
    weights = {"W": first_w.astype(np.float64), "B": first_b.astype(np.float64)}
    states = {"W": {}, "B": {}}
    losses = []
    for t in range(STEPS):
        rows = [(t * BATCH + i) % SAMPLES for i in range(BATCH)]
        params = {k: torch.tensor(v, requires_grad=True) for k, v in weights.items()}
        y = torch.tensor(X[rows].astype(np.float64)) @ params["W"] + params["B"]
        if kind == "mse":
            loss = torch.nn.functional.mse_loss(y, torch.tensor(TARGET[rows].astype(np.float64)))
        else:
            loss = torch.nn.functional.cross_entropy(y, torch.tensor(LABELS[rows]))
        loss.backward()
        losses.append(loss.item())
        for k in weights:
            weights[k] = step(weights[k], params[k].grad.numpy(), states[k], t)
    return {"losses": losses, "W": weights["W"].reshape(-1).tolist(), "B": weights["B"].tolist()}


def adam(rate, alpha, beta, epsilon, coefficient, post, first):
    def step(x, g, s, t):
        t += first
        g = coefficient * x + g
        s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g
        s["h"] = beta * s.get("h", 0) + (1 - beta) * g * g
        adjusted = rate * np.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else rate
        return (1 - post) * (x - adjusted * s["v"] / (np.sqrt(s["h"]) + epsilon))
    return step


def momentum(rate, alpha, beta, coefficient, nesterov):
    def step(x, g, s, t):
        g = coefficient * x + g
        s["v"] = alpha * s.get("v", 0) + (beta if t > 0 else 1) * g
        return x - rate * (g + alpha * s["v"] if nesterov else s["v"])
    return step


def adagrad(rate, decay, epsilon, coefficient, first, start):
    def step(x, g, s, t):
        r = rate / (1 + (t + first) * decay)
        g = coefficient * x + g
        s["h"] = s.get("h", start) + g * g
        return x - r * g / (np.sqrt(s["h"]) + epsilon)
    return step


def main():
    expected = {}
    f32 = lambda value: float(np.float32(value))
    for name, first in (("adam", 0), ("adam_from_one", 1)):
        words = {"alpha": 0.8, "beta": 0.99, "epsilon": 1e-2, "norm_coefficient": 0.01,
                 "norm_coefficient_post": 0.002}
        save(name, *algorithm("ce", "Adam", ["V", "H"], words, first))
        expected[name] = train("ce", adam(f32(0.1), *(f32(v) for v in words.values()), first))
    for name, beta, mode in (("momentum", 1.0, "standard"), ("momentum_beta", 0.5, "standard"),
                             ("nesterov", 1.0, "nesterov")):
        words = {"alpha": 0.9, "beta": beta, "norm_coefficient": 0.05, "mode": mode}
        save(name, *algorithm("mse", "Momentum", ["V"], words))
        expected[name] = train("mse", momentum(f32(0.1), f32(0.9), beta, f32(0.05),
                                               mode == "nesterov"))
    words = {"decay_factor": 0.2, "epsilon": 1e-3, "norm_coefficient": 0.05}
    for name, first, start in (("adagrad", 0, 0.0), ("adagrad_from_one", 1, 0.25)):
        save(name, *algorithm("mse", "Adagrad", ["H"], words, first, starts=start))
        expected[name] = train("mse", adagrad(f32(0.1), f32(0.2), f32(1e-3), f32(0.05), first, start))
    save("sgd", *sgd_algorithm(), with_initialization=True)
    plain = momentum(f32(0.1), 0, 1, 0, False)
    expected["sgd"] = train("mse", plain)
    expected["sgd_initialized"] = train("mse", plain, np.full_like(W, 0.5), np.zeros_like(B))
    expected["data"] = {"x": X.reshape(-1).tolist(), "mse": TARGET.reshape(-1).tolist(),
                        "ce": LABELS.tolist(), "samples": SAMPLES, "batch": BATCH, "steps": STEPS}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expected.items())
    (HERE / "expected.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
