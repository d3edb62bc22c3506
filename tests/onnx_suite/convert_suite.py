#!/usr/bin/env python3
"""Converts every model of ONNX's own backend suite that has float tensors, and judges the result.

    convert_suite.py MEZZO [--data DIR | --sweep] [--modes fp16,bf16,fp16-low,fp16-all,bf16-all]

Of each model, in each mode: `mezzo convert` takes it, onnx.checker accepts what it writes (full
check, strict shape inference), inputs and outputs keep their names and types, and ONNX Runtime
(optimisations off) gives the suite's expected outputs wherever it runs the original; where it gives
others for the original, those.
The tolerance is 1e-2 of the largest expected magnitude in fp16 and 8e-2 in bf16; outputs that are no
floats are exact. A bf16 model that ONNX Runtime has no kernel for, and in mode `fp16-all` an fp16
one, is run in FP32 with every value rounded as its type says.

Each case is passed; failed; not run (converted and valid, but there is nothing to compare with, and
why); or left out (no float tensor). `known_misses.txt` lists failures that are right, each with its
reason: roundings that a discontinuous operator turns into another answer. A listed one that passes
fails the run.

The modes `all` ask for every operator to run low, the others leave the choice to mezzo. Wheels of
onnx after 1.21 hold no node cases as files: they are made by the suite's own functions, or --data
names the folder backend/test/data of another wheel. Exit status: 0 good, 1 faults, 77 skipped
because something is not here.
"""
import argparse
import collections
import json
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
try:
    import numpy  # noqa: F401 - asked for here, used by the modules below
    import onnx
    import onnxruntime  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; needs numpy, onnx and onnxruntime for Python")
    sys.exit(SKIPPED)

from known_list import KnownMisses, print_table
from suite_cases import GROUPS, find_cases
from suite_judge import FAILED, LEFT_OUT, MODES, NOT_RUN, PASSED, judge_case, outcome
from suite_sweep import make_sweep
from suite_workers import run_jobs


def summarise(results, known):
    """Prints faults, the table per folder and mode, and the reasons; returns the number of faults."""
    faults = 0
    counts = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    for case, modes in sorted(results.items()):
        for mode, result in modes.items():
            row = counts[case.split("/")[0], mode]
            listed, failed = known.reason(mode, case), result["status"] == FAILED
            if listed and failed:
                row["known"] += 1
                reasons["known misses"][listed] += 1
            elif listed and result["status"] == PASSED:
                print(f"{mode} {case}: is listed as a known miss, but passes")
                row["failed"] += 1
            else:
                row[result["status"]] += 1
                if failed:
                    print(f"{mode} {case}: {result['reason']}")
                elif result["reason"]:
                    reasons[result["status"]][f"{mode}: {result['reason']}"] += 1
            row["low"] += result["low"] > 0
            faults += row["failed"] - row["counted"]
            row["counted"] = row["failed"]
    rows = []
    for group in [*GROUPS, "sweep"]:
        for mode in MODES:
            if row := counts.get((group, mode)):
                rows.append([group, mode, row[PASSED], row["failed"], row["known"], row[NOT_RUN],
                             row[LEFT_OUT], row["low"]])
    for kind, counter in reasons.items():
        print(f"\n{kind}:")
        for reason, count in counter.most_common():
            print(f"  {count:5} {reason}")
    print()
    print_table(["folder", "mode", "passed", "failed", "known", "not run", "no floats", "any low"], rows)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mezzo", type=Path)
    parser.add_argument("--data", type=Path, default=Path(onnx.__file__).parent / "backend" / "test" / "data")
    parser.add_argument("--sweep", action="store_true",
                        help="instead of the suite: one-operator models at every opset from 7 on")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose folder/name contains TEXT")
    parser.add_argument("--known", type=Path, default=Path(__file__).with_name("known_misses.txt"))
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one case in all modes")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every case's outcome here")
    options = parser.parse_args()
    modes = options.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    results = {}

    def report(job, answer):
        case = job[0]
        results[case.key] = answer if isinstance(answer, dict) else {
            mode: outcome(FAILED, f"the judge: {answer}") for mode in modes}

    with tempfile.TemporaryDirectory(prefix="onnx-suite-") as scratch:
        found = make_sweep(Path(scratch)) if options.sweep else find_cases(options.data, Path(scratch))
        cases = [case for case in found if options.only in case.key]
        if not cases:
            print(f"skipped: no cases under {options.data}")
            return SKIPPED
        jobs = [(case, options.mezzo.resolve(), modes) for case in cases]
        run_jobs(judge_case, jobs, options.jobs, options.timeout, report)
    faults = summarise(results, KnownMisses(options.known))
    print(f"\n{len(results)} models, onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: "
          f"{faults} unexpected results")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
