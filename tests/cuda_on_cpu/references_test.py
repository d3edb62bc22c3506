"""Judges whole training runs on the stand-ins by the recorded references: the six small ones with
every precision, from captured graphs and from single launches, and the loss scale's scenarios.

    references_test.py MEZZO STAND_IN_FOLDER SHARED WHAT

WHAT is the name of a reference, or `scaler`. Exit status: 0 good, 1 a fault, 77 skipped because the
shared data or numpy and onnx are not here.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stand_in_run import StandIns  # noqa: E402

try:
    import numpy  # noqa: F401 - the judges need them
    import onnx  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; needs numpy and onnx for Python")
    sys.exit(77)


def wrapper(folder, mezzo, further):
    """A program that is mezzo, on the device."""
    path = pathlib.Path(folder) / "mezzo_on_device"
    path.write_text(f'#!/bin/sh\nexec "{mezzo}" "$@" --device cuda {further}\n')
    path.chmod(0o755)
    return path


def judge(stand_ins, mezzo, shared, what, further):
    with tempfile.TemporaryDirectory(prefix="mezzo-references-") as folder:
        program = wrapper(folder, mezzo, further)
        if what == "scaler":
            command = ["judge_scaler.py", "--mezzo", program, "--seeds", 10]
        else:
            command = ["judge_training.py", "--mezzo", program, "--refs", shared / "refs", "--only",
                       what, "--export", "ts17", "--setup", "adamw"]
        command[0] = shared / "tools" / command[0]
        result = subprocess.run([sys.executable, *(str(part) for part in command)],
                                env={**stand_ins.environment(), "OMP_NUM_THREADS": "1"})
        return result.returncode


def main():
    mezzo, folder, shared, what = sys.argv[1:]
    shared = pathlib.Path(shared)
    if not (shared / "refs").is_dir():
        print(f"skipped: there are no references in {shared / 'refs'} (MEZZO_SHARED)")
        return 77
    failed = 0
    for further in ("", "--cuda-graph off"):
        print(f"== {what} {further or 'from graphs'}", flush=True)
        failed |= judge(StandIns(folder), os.path.abspath(mezzo), shared, what, further)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
