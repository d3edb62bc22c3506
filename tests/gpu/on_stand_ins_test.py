"""gpu_check and the programs that nvcc compiled, on the stand-ins for CUDA's libraries: a part of
the kernel tests, the trainings of one reference and the networks, small.

    on_stand_ins_test.py BUILD_FOLDER SOURCE_FOLDER SHARED
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SHARED = pathlib.Path(sys.argv.pop())
SOURCE = pathlib.Path(sys.argv.pop())
BUILD = pathlib.Path(sys.argv.pop())
STAND_INS = BUILD / "cuda_on_cpu"
NETWORKS = ("resnet50", "bert_base", "gpt2_small", "deeplabv3plus")


class OnStandInsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="mezzo-gpu-check-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        pack = folder / "pack"
        for name in ("bin", "lib", "refs"):
            (pack / name).mkdir(parents=True)
        for name in ("mezzo", "gpu_kernels_test"):
            (pack / "bin" / name).symlink_to(BUILD / "bin" / name)
        (pack / "lib" / "libmezzo_cuda.so").symlink_to(BUILD / "lib" / "libmezzo_cuda.so")
        (pack / "networks").symlink_to(SOURCE / "tests" / "gpu" / "networks")
        cls.has_references = (SHARED / "refs" / "mlp").is_dir()
        if cls.has_references:
            (pack / "refs" / "mlp").symlink_to(SHARED / "refs" / "mlp")
        result = subprocess.run(
            [BUILD / "bin" / "gpu_check", pack, folder / "out.json", "--kernels", "Softmax.*:Cast.*",
             "--references", "mlp" if cls.has_references else "none", "--steps", "8", "--python",
             "no-python-here", "--work", folder / "work", "--limit", "1000"],
            capture_output=True, text=True, timeout=1100,
            env={**os.environ, "MEZZO_GPU_CHECK_LIBRARIES": f"{pack}/lib:{STAND_INS}",
                 "CUDA_ON_CPU_KERNELS": str(STAND_INS / "host" / "libmezzo_kernels_host.so")})
        cls.said = result.stdout + result.stderr
        cls.status = result.returncode
        cls.report = json.loads((folder / "out.json").read_text())

    def test_all_of_it_passes(self):
        self.assertEqual(self.report["verdict"], "passed", self.said + json.dumps(self.report)[:20000])
        self.assertEqual(self.status, 0)
        self.assertTrue(self.report["complete"])
        self.assertEqual(self.report["limited"]["steps"], 8, "the report tells of what was less")
        self.assertIn("kernels", self.report["limited"])

    def test_the_machine_is_described(self):
        machine = self.report["machine"]
        self.assertEqual(machine["device"]["name"], "CUDA on a CPU")
        for library in ("libcudart.so.13", "libcublasLt.so.13", "libcudnn.so.9"):
            self.assertTrue(machine["libraries"][library].startswith(str(STAND_INS)), library)

    def test_kernels_were_run(self):
        kernels = self.report["kernels"]
        self.assertEqual(kernels["passed"], kernels["tests"])
        self.assertGreaterEqual(kernels["tests"], 3)
        self.assertGreaterEqual(kernels["rows_run"], 3)
        self.assertEqual(kernels["not_run"], [])

    def test_references_were_judged(self):
        if not self.has_references:
            self.skipTest("the recorded references are not here (MEZZO_SHARED)")
        runs = self.report["references"]["runs"]
        self.assertEqual(len(runs), 8)
        for run in runs:
            self.assertEqual(run["outside"], [])
            self.assertEqual(set(run["of_band"]), {"loss", "smooth", "grad_norm", "weights"})
            self.assertEqual(run["waits_per_step"], 0)
            if run["mode"] == "graph":
                self.assertEqual(run["launches_per_step"], 1)
            else:
                self.assertGreater(run["launches_per_step"], 10)
                self.assertTrue(run["same_as_graph"])

    def test_a_machine_without_torch_is_told(self):
        self.assertEqual(self.report["networks"]["torch"]["verdict"], "absent")
        self.assertIn("no-python-here", self.report["networks"]["torch"]["command"])

    def test_networks_were_measured(self):
        networks = self.report["networks"]["networks"]
        self.assertEqual(set(networks), set(NETWORKS))
        for name, network in networks.items():
            with self.subTest(name):
                self.assertIn("--small", network["source"])
                for run in ("fp32", "bf16", "fp16", "bf16_eager"):
                    for figure in ("step_ms", "tflops", "device_reserved_bytes", "planned_bytes",
                                   "host_us_median"):
                        self.assertGreater(network[run][figure], 0, figure)
                    self.assertEqual(network[run]["waits_per_step"], 0)
                for run in ("fp32", "bf16", "fp16"):
                    self.assertTrue(network[run]["cuda_graph"], network[run].get("why_no_cuda_graph"))
                    self.assertEqual(network[run]["launches_per_step"], 1)
                for ratio in ("bf16_over_fp32", "bf16_activations", "graph_over_eager"):
                    self.assertGreater(network["ratios"][ratio], 0)


if __name__ == "__main__":
    unittest.main()
