#!/usr/bin/env python3
"""Runs every case of ONNX's own backend suite with `mezzo run`, and compares the outputs.

    run_suite.py MEZZO [--data DIR] [--only TEXT]

A case is passed if `mezzo run` gives as many outputs as the suite, of the same types and shapes, and
values within 1e-4 + 1e-3 |x| (float; double, float16 and bfloat16 by their digits, others exact).
`known_run_misses.txt` lists the cases that do not, each with its reason: a listed one that passes
fails the run, and so does an unlisted one that does not. Cases whose outputs are random are run and
their types and shapes compared.

Wheels of onnx after 1.21 hold no node cases as files: they are made by the suite's own functions, or
--data names the folder backend/test/data of another wheel. Exit status: 0 good, 1 faults, 77 skipped
because something is not here.
"""
import argparse
import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}; needs numpy and onnx for Python")
    sys.exit(SKIPPED)

from known_list import KnownMisses, print_table
from suite_cases import GROUPS, find_cases, from_file, iter_nodes, load_data, to_proto
from suite_workers import run_jobs

RANDOM_OPS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike"}
TOLERANCE = {"float32": (1e-3, 1e-4), "float64": (1e-5, 1e-7), "float16": (4e-3, 2e-3),
             "bfloat16": (3e-2, 1e-2)}


def difference(got, want, values_too):
    """Why `got` is not `want`, or None."""
    if want is None or got is None:
        return None if got is want else "nothing on one side only"
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"expected a sequence of {len(want)}"
        return next(filter(None, (difference(a, b, values_too) for a, b in zip(got, want))), None)
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"expected {want.dtype}{list(want.shape)}, got {got.dtype}{list(got.shape)}"
    if not values_too:
        return None
    if want.dtype.name not in TOLERANCE:
        other = (got != want) & ~((got != got) & (want != want))  # NaN is like NaN
        return f"{int(other.sum())} of {want.size} values differ" if other.any() else None
    relative, absolute = TOLERANCE[want.dtype.name]
    got, want = got.astype(np.float64), want.astype(np.float64)
    if np.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True):
        return None
    return f"off by up to {np.nanmax(np.abs(got - want)):.3g}"


def judge(job):
    """None if passed, else why not."""
    case, mezzo, timeout = job
    model = onnx.load(case.model)
    random = any(node.op_type in RANDOM_OPS for node in iter_nodes(model))
    random |= any(node.op_type == "Dropout" and len(node.input) > 2 for node in iter_nodes(model))
    for inputs, outputs in load_data(case, model):
        with tempfile.TemporaryDirectory(prefix="run-suite-") as scratch:
            given, made = Path(scratch, "in"), Path(scratch, "out")
            given.mkdir()
            defaults = {tensor.name for tensor in model.graph.initializer}
            wanted = [info for info in model.graph.input if case.group != "light" or info.name not in defaults]
            for value, info in zip(inputs, wanted):
                place = list(model.graph.input).index(info)
                (given / f"input_{place}.pb").write_bytes(to_proto(value, info.type).SerializeToString())
            command = [mezzo, "run", case.model, "--input", given, "--output", made]
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                return f"no end within {timeout} s"
            if run.returncode:
                last = (run.stderr.strip().splitlines() or [""])[-1]
                return f"exit {run.returncode}: {last.replace(str(case.model), 'model.onnx')}"
            if len(list(made.glob("output_*.pb"))) != len(outputs):
                return f"expected {len(outputs)} outputs"
            for place, (want, info) in enumerate(zip(outputs, model.graph.output)):
                wrong = difference(from_file(made / f"output_{place}.pb", info.type), want, not random)
                if wrong:
                    return f"output {place}: {wrong}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mezzo", type=Path)
    parser.add_argument("--data", type=Path, default=Path(onnx.__file__).parent / "backend" / "test" / "data")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose folder/name contains TEXT")
    parser.add_argument("--known", type=Path, default=Path(__file__).with_name("known_run_misses.txt"))
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every case's outcome here")
    options = parser.parse_args()
    known, outcomes = KnownMisses(options.known), {}
    counts, reasons = collections.defaultdict(collections.Counter), collections.Counter()
    faults, older = 0, False

    def report(job, answer):
        nonlocal faults
        case = job[0]
        why = f"the judge: {answer}" if isinstance(answer, Exception) else answer
        listed = known.reason("run", case.key) or (older and known.reason("1.21", case.key))
        outcomes[case.key] = why or "passed"
        kind = "passed" if not why else "known" if listed else "failed"
        if listed and not why:
            print(f"{case.key}: is listed as a known miss, but passes")
            kind = "failed"
        elif kind == "failed":
            print(f"{case.key}: {why}")
        elif kind == "known":
            reasons[listed] += 1
        faults += kind == "failed"
        counts[case.group][kind] += 1

    with tempfile.TemporaryDirectory(prefix="onnx-suite-") as scratch:
        cases = [case for case in find_cases(options.data, Path(scratch)) if options.only in case.key]
        if not cases:
            print(f"skipped: no cases under {options.data}")
            return SKIPPED
        # Data in files is of a wheel up to 1.21.
        older = any((options.data / "node").glob("*/model.onnx"))
        jobs = [(case, options.mezzo.resolve(), options.timeout) for case in cases]
        run_jobs(judge, jobs, options.jobs, 10 * options.timeout, report)
    if reasons:
        print("\nknown misses:")
        for reason, count in reasons.most_common():
            print(f"  {count:5} {reason}")
    print()
    print_table(["folder", "passed", "failed", "known"],
                [[group, *(counts[group][kind] for kind in ("passed", "failed", "known"))]
                 for group in GROUPS if group in counts])
    print(f"\n{len(outcomes)} cases, onnx {onnx.__version__}: {faults} unexpected results")
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1, sort_keys=True) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
