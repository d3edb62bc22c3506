"""Judges one case in one mode: convert, check, run, compare."""
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from suite_cases import element_types, has_floats, iter_nodes, load_data
from suite_run import NoKernel, NotRun, difference, one_line, rounded, run_model

# name -> (low type, options of `mezzo convert`). `all` asks for every operator to run low that can:
# by default most one-node models rightly stay FP32, as a cast would cost more than it saves.
MODES = {
    "fp16": ("fp16", []),
    "bf16": ("bf16", []),
    "fp16-low": ("fp16", ["--io", "low"]),
    "fp16-all": ("fp16", "all"),
    "bf16-all": ("bf16", "all"),
}
LOW_TYPE = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
# Of the largest expected magnitude. An operand rounded to 16 bits is off by 2^-11 or 2^-8 of itself;
# twenty such roundings that all go one way reach these.
TOLERANCE = {"fp16": 1e-2, "bf16": 8e-2}
ORIGINAL_TOLERANCE = 1e-3  # of the suite itself

PASSED, FAILED, NOT_RUN, LEFT_OUT = "passed", "failed", "not run", "left out"


def judge_case(job):
    """mode -> {status, reason, low}: of one case, for all modes asked for."""
    case, mezzo, modes = job
    model = onnx.load(case.model)
    if not has_floats(model):
        return {mode: outcome(LEFT_OUT, "no float tensor") for mode in modes}
    invalid = checker_fault(case.model)
    data, untold = original_data(case, model)
    results = {}
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="onnx-suite-") as folder:
            results[mode] = judge_mode(case, model, mode, mezzo, Path(folder), invalid, data, untold)
    return results


def outcome(status, reason="", low=0):
    return {"status": status, "reason": reason, "low": low}


def checker_fault(path):
    """Why onnx.checker, with strict shape inference, refuses the file; None if it does not."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        return None
    except Exception as error:  # noqa: BLE001 - the checker raises several types
        return one_line(error)


def original_data(case, model):
    """([(inputs, outputs)], None), or (None, why the original cannot serve as a yardstick).

    Where ONNX Runtime gives other outputs than the suite expects, its own are the yardstick.
    """
    try:
        data = load_data(case, model)
    except Exception as error:  # noqa: BLE001 - data in forms that this onnx cannot read
        return None, f"data: {one_line(error)}"
    yardsticks = []
    for inputs, outputs in data:
        try:
            results = run_model(model, inputs)
            if any_difference(results, outputs):
                outputs = run_model(model, inputs)
        except NotRun as error:
            return None, "ONNX Runtime does not run the original: " + reason_class(str(error))
        if any_difference(results, outputs):
            return None, "the original draws random numbers"
        yardsticks.append((inputs, outputs))
    return (yardsticks, None) if yardsticks else (None, "no data")


def any_difference(results, outputs):
    return any(difference(got, want, ORIGINAL_TOLERANCE) for got, want in zip(results, outputs))


def reason_class(text):
    """ONNX Runtime's message without names, so that equal reasons count together."""
    for words in ("is not a registered function/op", "Could not find an implementation", "opset",
                  "not supported", "Type Error", "INVALID_GRAPH", "SHAPE_INFERENCE"):
        if words in text:
            return words
    return text[:80]


def judge_mode(case, model, mode, mezzo, folder, invalid, data, untold):
    precision, options = MODES[mode]
    if options == "all":
        types = sorted({node.op_type for node in iter_nodes(model)})
        options = [word for op_type in types for word in ("--allow-op", op_type)]
    mixed_path, report_path = folder / "mixed.onnx", folder / "report.json"
    command = [mezzo, "convert", case.model, "-o", mixed_path, "--precision", precision, "--quiet",
               "--json", report_path, *options]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                         errors="replace", timeout=300)
    if invalid:
        clean = run.returncode in (0, 1)
        return outcome(NOT_RUN, f"the original is not valid: {invalid[:60]}") if clean else outcome(
            FAILED, f"convert: status {run.returncode}")
    if run.returncode != 0:
        return outcome(FAILED, f"convert: status {run.returncode}: {one_line(run.stderr)}")
    low = low_nodes(report_path)
    fault = checker_fault(mixed_path)
    if fault:
        return outcome(FAILED, f"checker: {fault}", low)
    mixed = onnx.load(mixed_path)
    fault = border_fault(model, mixed, LOW_TYPE[precision] if mode.endswith("low") else None)
    if fault:
        return outcome(FAILED, f"border: {fault}", low)
    if untold:
        return outcome(NOT_RUN, untold, low)
    fault, skipped = value_fault(mixed, data, precision, mode)
    return outcome(FAILED if fault else NOT_RUN if skipped else PASSED, fault or skipped or "", low)


def low_nodes(report_path):
    """How many nodes the report says run low."""
    nodes = json.loads(report_path.read_text())["graph"]["nodes"]
    return sum(node["dtype"] in ("float16", "bfloat16") and node["kind"] == "node" for node in nodes)


def border_fault(model, mixed, low):
    """Inputs and outputs keep their names and types, but for FP32 ones where the border is low."""
    for role, before, after in (("input", model.graph.input, mixed.graph.input),
                                ("output", model.graph.output, mixed.graph.output)):
        if [value.name for value in before] != [value.name for value in after]:
            return f"{role}s are {[value.name for value in after]}"
        for old, new in zip(before, after):
            wanted, got = element_types(old.type), element_types(new.type)
            if wanted != got and not (low and wanted == {TensorProto.FLOAT} and got == {low}):
                return f"{role} '{old.name}' had element type {wanted}, has {got}"
    return None


def value_fault(mixed, data, precision, mode):
    """(why the outputs are wrong, why they cannot be told); both None where they are good."""
    low_border = mode.endswith("low")
    may_lack_kernels = precision == "bf16" or mode.endswith("all")
    strict = False
    for inputs, outputs in data:
        if low_border:
            inputs = [as_declared(value, info) for value, info in zip(inputs, border_inputs(mixed))]
        try:
            results = run_model(mixed, inputs)
        except NoKernel as error:
            if not may_lack_kernels:
                return f"ONNX Runtime: {error}", None
            strict = True
        except NotRun as error:
            return f"ONNX Runtime: {error}", None
        if strict:
            try:
                results = run_model(rounded(mixed), inputs)
            except NotRun as error:
                return None, f"no {precision} kernel, and the rounded form does not run: {str(error)[:80]}"
        for info, got, want in zip(mixed.graph.output, results, outputs):
            wrong = difference(got, want, TOLERANCE[precision])
            if wrong:
                return f"output '{info.name}'{' (rounded form)' if strict else ''}: {wrong}", None
    return None, None


def border_inputs(model):
    given = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in given]


def as_declared(value, info):
    """The value rounded to the declared low type, in a type that ONNX Runtime's Python side takes."""
    element = info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else 0
    if isinstance(value, np.ndarray) and element in LOW_TYPE.values():
        with np.errstate(all="ignore"):
            return value.astype(helper.tensor_dtype_to_np_dtype(element)).astype(np.float32)
    return value
