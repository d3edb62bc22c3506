#!/usr/bin/env python3
"""A run of tools/bench_vs_ort: one model that both sides run, one that neither reads.

    bench_vs_ort_test.py MEZZO

Exit status: 0 good, 1 a fault, 77 skipped because numpy, onnx or onnxruntime is not here.
"""
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnxruntime  # noqa: F401 - the script needs it
    from onnx import TensorProto, helper, numpy_helper, save
except ImportError as error:
    print(f"skipped: {error}; needs numpy, onnx and onnxruntime for Python")
    sys.exit(77)

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench_vs_ort"
MEZZO = sys.argv.pop(1)


class BenchVsOrt(unittest.TestCase):
    def test_table_and_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            w = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
            graph = helper.make_graph(
                [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])], [w])
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
            model.ir_version = 8
            save(model, folder / "linear.onnx")
            np.savez(folder / "linear.inputs.npz", x=np.ones((2, 4), np.float32))
            (folder / "broken.onnx").write_bytes(b"not a model")
            result = subprocess.run(
                [sys.executable, SCRIPT, folder, "--mezzo", MEZZO, "--rounds", "3", "--threads", "1",
                 "--bf16", "--json", folder / "figures.json"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("not measured: broken:", result.stdout)
            self.assertIn("1 models, 1 threads: mezzo takes", result.stdout)
            figures = json.loads((folder / "figures.json").read_text())
            self.assertEqual(list(figures), ["linear"])
            for key in ("ort_ms", "fp32_ms", "bf16_ms"):
                self.assertEqual(len(figures["linear"][key]), 3)
                self.assertTrue(all(math.isfinite(ms) and ms > 0 for ms in figures["linear"][key]))


if __name__ == "__main__":
    unittest.main()
