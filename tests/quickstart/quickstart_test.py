"""Runs tools/quickstart on a program already built, for two epochs, and looks at what it left.

Usage: quickstart_test.py MEZZO SOURCE_FOLDER
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(sys.argv.pop())
MEZZO = pathlib.Path(sys.argv.pop())

SAMPLES, BATCH, EPOCHS = 1437, 64, 2
STEPS = SAMPLES * EPOCHS // BATCH
PRECISIONS = ["fp32", "bf16", "fp16"]


def run(*command, cwd=SOURCE):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd,
                          stdin=subprocess.DEVNULL)


class QuickstartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mezzo quickstart ")  # spaces must not matter
        cls.addClassCleanup(folder.cleanup)
        cls.out = pathlib.Path(folder.name) / "out"
        cls.result = run(SOURCE / "tools/quickstart", "--mezzo", MEZZO, "--epochs", EPOCHS, "--out",
                      cls.out, cwd=folder.name)
        if cls.result.returncode != 0:
            raise AssertionError(f"exit {cls.result.returncode}\n{cls.result.stdout}\n{cls.result.stderr}")
        cls.summaries = {precision: json.loads((cls.out / precision / "summary.json").read_text())
                         for precision in PRECISIONS}

    def test_every_precision_learns(self):
        for precision, summary in self.summaries.items():
            with self.subTest(precision):
                self.assertEqual(summary["precision"], precision)
                self.assertEqual(summary["steps"], STEPS)
                self.assertGreater(summary["eval_accuracy"], 0.9)
                self.assertLess(summary["final_loss"], math.log(10) / 2)

    def test_precisions_differ_by_rounding_only(self):
        losses = {precision: [json.loads(line) for line in
                              (self.out / precision / "metrics.jsonl").read_text().splitlines()]
                  for precision in PRECISIONS}
        first = {precision: rows[0]["loss"] for precision, rows in losses.items()}
        # Digits of the low type's significand: 8 and 11 bits.
        self.assertAlmostEqual(first["bf16"], first["fp32"], delta=first["fp32"] * 2**-8)
        self.assertAlmostEqual(first["fp16"], first["fp32"], delta=first["fp32"] * 2**-11)
        self.assertNotEqual([row["loss"] for row in losses["bf16"]],
                            [row["loss"] for row in losses["fp32"]])

    def test_casts_only_where_precision_is_mixed(self):
        self.assertEqual(self.summaries["fp32"]["casts_inserted"], 0)
        self.assertGreater(self.summaries["bf16"]["casts_inserted"], 0)
        self.assertGreater(self.summaries["fp16"]["casts_inserted"], 0)

    def test_only_fp16_scales_the_loss(self):
        for precision in PRECISIONS:
            line = (self.out / precision / "metrics.jsonl").read_text().splitlines()[0]
            self.assertEqual(json.loads(line)["loss_scale"], 65536 if precision == "fp16" else 1)

    def test_memory_is_planned_and_measured(self):
        for precision, summary in self.summaries.items():
            with self.subTest(precision):
                planned = summary["planned_bytes"] + summary["workspace_bytes"]
                self.assertGreater(planned, 1 << 20)
                # The process grew by what was planned, and not by many times that.
                self.assertGreater(summary["measured_peak_bytes"], planned / 2)
                self.assertLess(summary["measured_peak_bytes"], summary["process_peak_bytes"])

    def test_results_lie_where_it_says(self):
        for name in ["report.html", "mixed.onnx", "model.plan", "bf16/checkpoint",
                     "bf16/metrics.jsonl"]:
            self.assertTrue((self.out / name).exists(), name)
            self.assertIn(f"  out/{name} ", self.result.stdout)
        self.assertIn("<html", (self.out / "report.html").read_text())
        for name in ["mixed.onnx", "model.plan", "bf16/checkpoint"]:
            self.assertEqual(run(MEZZO, "inspect", self.out / name).returncode, 0, name)

    def test_table_holds_the_runs_figures(self):
        lines = self.result.stdout.splitlines()
        for precision, summary in self.summaries.items():
            row = [line.split() for line in lines if line.split()[:1] == [precision]]
            self.assertEqual(len(row), 1, precision)
            self.assertIn(f"{summary['final_loss']:.4f}", row[0])
            self.assertIn(f"{100 * summary['eval_accuracy']:.2f}", row[0])
            self.assertIn(f"{summary['step_ms_median']:.2f}", row[0])


class BadCallTest(unittest.TestCase):
    def expect_error(self, status, text, *command):
        result = run(*command)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_quickstart_names_the_wrong_option(self):
        quickstart = SOURCE / "tools/quickstart"
        self.expect_error(2, "unknown option '--fast'", quickstart, "--fast")
        self.expect_error(2, "--out needs a value", quickstart, "--out")
        self.expect_error(2, "'many': expected a whole number", quickstart, "--epochs", "many")
        self.expect_error(2, "no such program", quickstart, "--mezzo", SOURCE / "gone")

    def test_compare_runs_names_what_is_missing(self):
        compare = SOURCE / "tools/compare_runs"
        with tempfile.TemporaryDirectory() as folder:
            self.expect_error(1, "summary.json: not there", compare, folder)
            summary = pathlib.Path(folder) / "summary.json"
            summary.write_text("{")
            self.expect_error(1, "summary.json: ", compare, folder)
            summary.write_text('{"precision": "fp32"}')  # a run without evaluation, say
            result = run(compare, folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.splitlines()[-1].split(), ["fp32"] + ["-"] * 8)


class DigitsTest(unittest.TestCase):
    def test_the_files_hold_every_sample_once(self):
        samples = []
        for name, count in [("train", SAMPLES), ("heldout", 360)]:
            with zipfile.ZipFile(SOURCE / f"models/digits/{name}.npz") as npz:
                x, y = npz.read("x.npy"), npz.read("y.npy")
            self.assertIn(f"'shape': ({count}, 1, 8, 8)".encode(), x[:128])
            self.assertIn(f"'shape': ({count},)".encode(), y[:128])
            x, y = x[-count * 256:], y[-count * 8:]
            samples += [x[i * 256:][:256] + y[i * 8:][:8] for i in range(count)]
        self.assertEqual(len(set(samples)), len(samples))


if __name__ == "__main__":
    unittest.main()
