"""Runs mezzo on the stand-ins for CUDA's libraries: shared by the tests in this folder."""
import json
import os
import pathlib
import subprocess

# Variables of README.md that a caller's own environment must not bring in.
VARIABLES = ["CUDA_ON_CPU_STREAM_ORDER", "CUDA_ON_CPU_THREAD_ORDER", "CUDA_ON_CPU_IGNORE_WAIT",
             "CUDA_ON_CPU_REPORT", "CUDA_ON_CPU_KERNELS", "CUDA_ON_CPU_MEMORY",
             "CUDA_ON_CPU_THREADS", "CUDA_ON_CPU_BLOCKS", "CUDA_ON_CPU_FAIL_CALL",
             "CUDA_ON_CPU_LOSE_DEVICE", "CUDA_ON_CPU_DEVICES"]


class StandIns:
    """The folder with the stand-ins, and which module runs on them.

    module: "host" is compiled by the host's compiler, "nvcc" is the one of the product, whose kernels
    are looked up by name among those compiled for the host.
    """

    def __init__(self, folder, module="host"):
        self.folder = pathlib.Path(folder)
        self.module = module

    def environment(self, **settings):
        """Settings are variables without their prefix: stream_order=3."""
        environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
        libraries = self.folder if self.module == "nvcc" else self.folder / "host"
        environment["LD_LIBRARY_PATH"] = str(libraries)
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")  # not the user's
        if self.module == "nvcc":
            settings.setdefault("kernels", self.folder / "host" / "libmezzo_kernels_host.so")
        for name, value in settings.items():
            environment["CUDA_ON_CPU_" + name.upper()] = str(value)
        return environment

    def run(self, *command, timeout=600, **settings):
        """The finished process; its output is text."""
        return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              env=self.environment(**settings), timeout=timeout,
                              stdin=subprocess.DEVNULL)


class Training:
    """What a run of `mezzo train` left."""

    # What differs between runs that are otherwise the same.
    TIMES = {"step_ms", "samples_per_second", "time"}

    def __init__(self, folder, report):
        self.steps = [{k: v for k, v in json.loads(line).items() if k not in self.TIMES}
                      for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.losses = [step["loss"] for step in self.steps]
        self.weights = (folder / "checkpoint" / "model.safetensors").read_bytes()
        self.report = report
        self.summary = json.loads((folder / "summary.json").read_text())

    def is_same(self, other):
        return self.steps == other.steps and self.weights == other.weights


def train(stand_ins, mezzo, out, arguments, device="cuda", **settings):
    """Runs `mezzo train`; raises RuntimeError with what it said where it fails."""
    out = pathlib.Path(out)
    report = out.with_suffix(".report.json")
    result = stand_ins.run(mezzo, "train", *arguments, "--device", device, "--out", out,
                           report=report, **settings)
    if result.returncode != 0:
        raise RuntimeError(f"exit {result.returncode}\n{result.stdout}\n{result.stderr}")
    return Training(out, json.loads(report.read_text()) if report.exists() else None)
