#!/usr/bin/env python3
"""What `mezzo convert` writes is ONNX that others take: checked by onnx.checker with full shape
inference, loaded by ONNX Runtime and run on the first batch of the model's own data.

    onnxruntime_test.py MEZZO SHARED

MEZZO is the program, SHARED the folder with the reference models (refs/NAME/model_*.onnx, data.npz).
BF16 models are checked and loaded; ONNX Runtime's CPU kernels for BF16 are few, so one that is
missing is no failure. Exit status: 0 good, 1 a fault, 77 skipped because something is not here.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
REFERENCES = ["mlp", "lenet", "resnet8", "resnet8_silu", "bert", "gpt"]
# Largest difference from the FP32 model, relative to the largest FP32 output.
TOLERANCE = 2e-2


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as error:
    skip(f"{error}; needs numpy, onnx and onnxruntime for Python")


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def first_batch(model, data):
    """The first samples of every input, as many as the graph is made for (4 where it is open)."""
    inputs = {}
    for value in model.graph.input:
        sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        inputs[value.name] = data[value.name][: sizes[0] or 4]
    return inputs


def signature(model):
    """Names and types of inputs and outputs."""
    return [(value.name, value.type.SerializeToString(deterministic=True))
            for value in [*model.graph.input, *model.graph.output]]


def low_nodes(model, low):
    """How many values have the low type, by ONNX's own inference."""
    inferred = onnx.shape_inference.infer_shapes(model)
    return sum(value.type.tensor_type.elem_type == low for value in inferred.graph.value_info)


def faults_of(mezzo, model_path, data, precision, folder):
    """What is wrong with one converted model, as a list of lines."""
    mixed_path = folder / "mixed.onnx"
    run = subprocess.run([mezzo, "convert", model_path, "-o", mixed_path, "--precision", precision],
                         capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        return [f"convert: {run.stderr.strip()}"]
    faults = []
    original, mixed = onnx.load(model_path), onnx.load(mixed_path)
    try:
        onnx.checker.check_model(str(mixed_path), full_check=True)
    except Exception as error:  # the checker raises several kinds
        faults.append(f"onnx.checker: {error}")
    if signature(original) != signature(mixed):
        faults.append("inputs and outputs are no longer those of the model")
    low = onnx.TensorProto.FLOAT16 if precision == "fp16" else onnx.TensorProto.BFLOAT16
    if low_nodes(mixed, low) == 0:
        faults.append(f"nothing runs in {precision}")
    inputs = first_batch(original, data)
    try:
        results = session(mixed_path).run(None, inputs)
    except Exception as error:  # ONNX Runtime raises classes of its own
        if precision == "bf16" and "NOT_IMPLEMENTED" in str(error):
            return faults
        return faults + [f"ONNX Runtime: {error}"]
    wanted = session(model_path).run(None, inputs)
    for value, got, want in zip(original.graph.output, results, wanted):
        scale = max(float(np.abs(want).max()), 1e-6)
        off = float(np.abs(got.astype(np.float64) - want).max()) / scale
        tolerance = TOLERANCE * (1 if precision == "fp16" else 8)  # three bits fewer
        if not off <= tolerance:
            faults.append(f"output '{value.name}': differs by {off:.2g} of its largest value")
    return faults


def main():
    mezzo, shared = sys.argv[1], Path(sys.argv[2])
    if not (shared / "refs").is_dir():
        skip(f"the acceptance data is not here: {shared / 'refs'}")
    failed = total = 0
    for name in REFERENCES:
        data = np.load(shared / "refs" / name / "data.npz")
        for model_path in sorted((shared / "refs" / name).glob("model_*.onnx")):
            for precision in ["fp16", "bf16"]:
                with tempfile.TemporaryDirectory() as folder:
                    faults = faults_of(mezzo, model_path, data, precision, Path(folder))
                total += 1
                failed += bool(faults)
                print(f"{name} {model_path.name} {precision}: {'; '.join(faults) or 'good'}")
    print(f"{total - failed} of {total} good")
    if total == 0:
        print("no model found")
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
