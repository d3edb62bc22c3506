"""Training on the stand-ins for CUDA's libraries, with the model and data of this repository.

    training_test.py MEZZO STAND_IN_FOLDER SOURCE_FOLDER [nvcc]

`nvcc`: with the module that nvcc compiled instead of the one compiled for the host.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stand_in_run import StandIns, train  # noqa: E402

MODULE = sys.argv.pop() if sys.argv[-1] == "nvcc" else "host"
SOURCE = pathlib.Path(sys.argv.pop())
STAND_INS = StandIns(sys.argv.pop(), MODULE)
MEZZO = sys.argv.pop()

DIGITS = SOURCE / "models" / "digits"
ORDERS = range(1, 21)
# A few units in the last place of the types: the two devices round sums in another order.
TOLERANCE = {"fp32": 2e-5, "bf16": 2e-2, "fp16": 3e-3}
GENTLE = ["--optimizer", "sgd", "--lr", 0.01, "--batch-size", 32]
EAGER = ["--cuda-graph", "off"]


HASTY = ["--optimizer", "adamw", "--lr", 0.005, "--batch-size", 8]


# How often the loop goes round is an input.
LOOP = """<ir_version: 8, opset_import: ["" : 17]>
agraph (int64 n) => (float y) <float one = {1}> {
  [again] y = Loop(n, , one) <body = body (int64 i, bool go, float x) => (bool on, float twice) {
    on = Identity(go)
    twice = Add(x, x)
  }>
}
"""
TWO = bytes([0x10, 7, 0x4a, 8]) + (2).to_bytes(8, "little")  # a TensorProto: int64, raw_data


def arguments(steps, precision="fp32", *further, settings=HASTY):
    return [DIGITS / "digits.onnx", "--data", DIGITS / "train.npz", "--steps", steps, "--seed", 3,
            "--precision", precision, *settings, *further]


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mezzo-cuda-on-cpu-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.count = 0

    def train(self, *rest, device="cuda", settings=HASTY, **environment):
        type(self).count += 1
        return train(STAND_INS, MEZZO, self.folder / str(self.count),
                     arguments(*rest, settings=settings), device, **environment)

    def test_the_device_is_listed(self):
        result = STAND_INS.run(MEZZO, "devices")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("CUDA on a CPU", result.stdout)
        self.assertRegex(result.stdout, r"runtime 13\.\d+, cuBLASLt 13\.\d+\.\d+, cuDNN 9\.\d+\.\d+")

    def test_no_device_is_an_answer_of_the_list_and_an_error_of_the_rest(self):
        listed = STAND_INS.run(MEZZO, "devices", "--json", devices=0)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("no CUDA device was found", listed.stdout)
        result = STAND_INS.run(MEZZO, "train", *arguments(1), "--device", "cuda", "--out",
                               self.folder / "none", devices=0)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no CUDA device was found", result.stderr)

    def test_every_precision_follows_the_cpu(self):
        for precision, tolerance in TOLERANCE.items():
            with self.subTest(precision):
                on_cpu = self.train(6, precision, device="cpu", settings=GENTLE)
                on_device = self.train(6, precision, settings=GENTLE)
                self.assertEqual([step["skipped"] for step in on_device.steps],
                                 [step["skipped"] for step in on_cpu.steps])
                for got, expected in zip(on_device.losses, on_cpu.losses):
                    self.assertAlmostEqual(got, expected, delta=tolerance * expected)

    def test_a_graph_gives_the_bits_of_single_launches(self):
        for precision in TOLERANCE:
            with self.subTest(precision):
                graph = self.train(5, precision)
                eager = self.train(5, precision, *EAGER)
                self.assertTrue(graph.is_same(eager))
                self.assertEqual(graph.report["graphs"], 4, "all steps but the first")
                self.assertEqual(eager.report["graphs"], 0)

    def test_steps_do_not_wait_and_nothing_is_left(self):
        few, many = self.train(4), self.train(12)
        self.assertEqual(few.report["waits"], many.report["waits"])
        self.assertEqual(few.report["allocations"], many.report["allocations"])
        for run in (few, many):
            self.assertEqual(run.report["blocks_alive"], 0)
            self.assertFalse(run.report["fault"])

    def test_the_summary_tells_what_a_step_asks_of_the_device(self):
        graph = self.train(6, "bf16").summary
        self.assertTrue(graph["cuda_graph"])
        self.assertNotIn("why_no_cuda_graph", graph)
        self.assertEqual(graph["launches_per_step"], 1)
        self.assertEqual(graph["waits_per_step"], 0)
        # Images and labels come in one copy, go to two inputs, and the record goes back.
        self.assertEqual(graph["copies_per_step"], 4)
        for name in ("host_us_median", "batch_us_median", "device_wait_us_median"):
            self.assertGreater(graph[name], 0, name)
        planned = sum(graph[name] for name in ("planned_bytes", "workspace_bytes"))
        self.assertGreater(graph["device_reserved_bytes"], planned)

        few, many = self.train(4, "bf16", *EAGER), self.train(9, "bf16", *EAGER)
        self.assertFalse(many.summary["cuda_graph"])
        self.assertTrue(many.summary["why_no_cuda_graph"])
        self.assertEqual(many.summary["waits_per_step"], 0)
        for own, theirs in (("launches_per_step", "kernels"), ("copies_per_step", "copies")):
            arrived = many.report[theirs] - few.report[theirs]
            self.assertEqual(many.summary[own] * 5, arrived, own)
        self.assertGreater(many.summary["launches_per_step"], 20)

        on_cpu = self.train(4, "bf16", device="cpu").summary
        self.assertFalse({"cuda_graph", "host_us_median", "launches_per_step"} & set(on_cpu))
        one = self.train(1, "bf16").summary
        self.assertFalse(one["cuda_graph"])
        self.assertNotIn("host_us_median", one)

    def test_the_order_of_streams_does_not_matter(self):
        for further in ([], EAGER):
            expected = self.train(4, "fp16", *further)
            for order in ORDERS:
                with self.subTest(order=order, graph=not further):
                    got = self.train(4, "fp16", *further, stream_order=order)
                    self.assertTrue(got.is_same(expected))

    def test_the_order_of_threads_does_not_matter(self):
        expected = self.train(2, "bf16")
        for order in (1, 2):
            self.assertTrue(self.train(2, "bf16", thread_order=order).is_same(expected))

    def test_every_wait_between_streams_is_needed(self):
        """Without any one of them, some order of the streams gives another result."""
        # The four batches of a step go through two slots: each is filled, and filled again.
        step = (1, "fp32", "--accumulate", 4)
        expected = self.train(*step)
        waits = expected.report["stream_waits"]
        self.assertEqual(waits, 6, "four for copies that came, two for slots that were read")
        for wait in range(1, waits + 1):
            with self.subTest(wait=wait):
                self.assertFalse(all(self.is_same_without(wait, expected, step, order)
                                     for order in ORDERS), f"no order needs wait {wait}")

    def is_same_without(self, wait, expected, step, order):
        try:
            return self.train(*step, stream_order=order, ignore_wait=wait).is_same(expected)
        except RuntimeError:
            return False

    def test_what_a_device_was_told_binds_no_continuation(self):
        """Its options have no meaning on the CPU, which does not take them."""
        self.train(2, "fp32", "--tf32", "--tune", 2)
        checkpoint = self.folder / str(self.count) / "checkpoint"
        for device in ("cpu", "cuda"):
            run = self.train(4, "fp32", "--resume", checkpoint, device=device)
            self.assertEqual([step["step"] for step in run.steps], [3, 4])

    def test_control_flow_is_the_cpus(self):
        model = self.folder / "loop.onnxtxt"
        model.write_text(LOOP)
        data = self.folder / "loop"
        data.mkdir()
        (data / "input_0.pb").write_bytes(TWO)
        outputs = {}
        for device in ("cpu", "cuda"):
            outputs[device] = self.folder / f"loop.{device}.npz"
            run = STAND_INS.run(MEZZO, "run", model, "--input", data, "--output", outputs[device],
                                "--device", device)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(outputs["cpu"].read_bytes(), outputs["cuda"].read_bytes())
        self.assertIn("note: interpreted on the CPU", run.stderr)
        self.assertIn("node 'again' (Loop)", run.stderr)
        bench = STAND_INS.run(MEZZO, "bench", model, "--input", data, "--device", "cuda")
        self.assertEqual(bench.returncode, 1, "it would measure the CPU")
        self.assertIn("without --device the CPU interprets it", bench.stderr)

    def test_memory_that_is_not_there_is_told_before_the_first_step(self):
        result = STAND_INS.run(MEZZO, "train", *arguments(1), "--device", "cuda", "--out",
                               self.folder / "small", memory=1 << 16)
        self.assertEqual(result.returncode, 1)
        self.assertIn("KiB free of 64.0 KiB", result.stderr)
        self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    try:
        unittest.main()
    except subprocess.TimeoutExpired as error:
        sys.exit(str(error))
