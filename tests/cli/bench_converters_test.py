#!/usr/bin/env python3
"""The arithmetic of tools/bench_converters, and a run of it on a small model with mezzo alone.

    bench_converters_test.py MEZZO

Exit status: 0 good, 1 a fault, 77 skipped because numpy, onnx or onnxruntime is not here.
"""
import importlib.machinery
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401 - the script needs it
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}; needs numpy, onnx and onnxruntime for Python")
    sys.exit(77)

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "bench_converters"
MEZZO = sys.argv.pop(1)


def load_script():
    loader = importlib.machinery.SourceFileLoader("bench_converters", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_converters", loader))
    loader.exec_module(module)
    return module


bench = load_script()


def small_model():
    """y = x w for one branch of an If, with a Cast in the other."""
    def branch(name, nodes):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])])
    w = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]),
              helper.make_tensor_value_info("i", TensorProto.INT64, [3]),
              helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    yes = branch("yes", [helper.make_node("MatMul", ["x", "w"], ["yes"])])
    no = branch("no", [helper.make_node("MatMul", ["x", "w"], ["m"]),
                       helper.make_node("Cast", ["m"], ["d"], to=TensorProto.DOUBLE),
                       helper.make_node("Cast", ["d"], ["no"], to=TensorProto.FLOAT)])
    nodes = [helper.make_node("If", ["c"], ["z"], then_branch=yes, else_branch=no),
             helper.make_node("Cast", ["i"], ["j"], to=TensorProto.FLOAT),
             helper.make_node("Add", ["z", "j"], ["y"])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def row(model, converter, **facts):
    return {"model": model, "converter": converter, "converted": True, "valid": True, "loads": True, "error": 0.0,
            "casts": 1, "cpu_s": 1.0, "peak_bytes": 1e6, "size_ratio": 0.5, **facts}


class Arithmetic(unittest.TestCase):
    def test_geometric_mean(self):
        self.assertAlmostEqual(bench.geometric_mean([1, 100]), 10)
        self.assertIsNone(bench.geometric_mean([]))

    def test_relative_error(self):
        want = np.array([1.0, -4.0, np.inf])
        self.assertEqual(bench.relative_error(np.array([1.0, -3.0, np.inf]), want), 0.25)
        self.assertEqual(bench.relative_error(np.array([1.0, np.nan, np.inf]), want), math.inf)
        self.assertEqual(bench.relative_error(np.zeros(2), want), math.inf)
        self.assertEqual(bench.relative_error(None, want), math.inf)
        self.assertEqual(bench.relative_error(np.array([1, 2]), np.array([1, 3])), 0.5)
        self.assertEqual(bench.relative_error(np.zeros(0), np.zeros(0)), 0)

    def test_casts_in_branches_count(self):
        self.assertEqual(bench.count_casts(small_model()), 3)

    def test_random_inputs_fit_the_model(self):
        inputs = bench.random_inputs(small_model())
        self.assertEqual({name: (array.shape, array.dtype.name) for name, array in inputs.items()},
                         {"x": ((2, 4), "float32"), "i": ((3,), "int64"), "c": ((), "bool")})

    def test_means_are_over_models_that_all_converted(self):
        rows = [row("a", "mezzo", cpu_s=2.0, casts=3), row("a", "occ", cpu_s=8.0, valid=False),
                row("b", "mezzo", cpu_s=50.0),
                {"model": "b", "converter": "occ", "converted": False, "why": "no"}]
        mezzo, occ = bench.summarise(rows, ["mezzo", "occ"])
        self.assertEqual((mezzo["converted"], occ["converted"]), (2, 1))
        self.assertEqual((mezzo["common"], mezzo["casts"]), (1, 3))
        self.assertAlmostEqual(mezzo["cpu_s"], 2)
        self.assertAlmostEqual(occ["cpu_s"], 8)
        self.assertEqual((mezzo["right"], occ["right"]), (2, 0))


class Program(unittest.TestCase):
    def run_script(self, folder, *options):
        return subprocess.run([sys.executable, str(SCRIPT), *map(str, options)], capture_output=True, text=True,
                              cwd=folder, check=False)

    def test_measures_mezzo_and_names_who_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(small_model(), Path(folder, "small.onnx"))
            result = self.run_script(folder, folder, "--mezzo", MEZZO, "--json", "out.json",
                                     "--only", "mezzo", "--only", "modelopt", "--python", "modelopt=/bin/false")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("modelopt: not here", result.stdout)
            figures = json.loads(Path(folder, "out.json").read_text())
            (only,) = figures["rows"]
            self.assertTrue(only["converted"] and only["valid"] and only["loads"], only)
            self.assertLess(only["error"], 1e-2)
            self.assertGreater(only["cpu_s"], 0)
            self.assertGreater(only["peak_bytes"], 1e6)
            self.assertEqual(figures["summary"][0]["right"], 1)

    def test_a_failing_converter_is_a_row(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "broken.onnx").write_bytes(b"no model")
            result = self.run_script(folder, "broken.onnx", "--mezzo", MEZZO, "--only", "mezzo")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("broken mezzo: error: ", result.stdout)

    def test_wrong_use(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no ONNX model", self.run_script(folder, "nothing.onnx").stderr)
            self.assertIn("NAME one of", self.run_script(folder, ".", "--python", "pyhton=x").stderr)


if __name__ == "__main__":
    unittest.main()
