"""Calls of CUDA's libraries that fail in the middle of training, one at a time.

    failing_calls_test.py MEZZO STAND_IN_FOLDER SOURCE_FOLDER [STRIDE]

Every STRIDE-th call of one run (default: every one) fails in a run of its own. Such a run ends with
one message that names the call, or with the very result of the run in which nothing failed; never by
a signal, and whatever it leaves can be gone on from.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stand_in_run import StandIns  # noqa: E402

STRIDE = int(sys.argv.pop()) if sys.argv[-1].isdigit() else 1
SOURCE = pathlib.Path(sys.argv.pop())
STAND_INS = StandIns(sys.argv.pop())
MEZZO = sys.argv.pop()

DIGITS = SOURCE / "models" / "digits"
TRAIN = [MEZZO, "train", DIGITS / "digits.onnx", "--data", DIGITS / "train.npz", "--batch-size", 8,
         "--steps", 5, "--save-every", 2, "--optimizer", "adam", "--precision", "bf16",
         "--device", "cuda"]
# Giving back what is no longer needed: there is nobody to tell.
GIVE_BACK = re.compile(r"cuda(Free\w*|\w+Destroy)$")
# Another kernel is taken where a library does not know how: the result is another by rounding.
CHOICES = re.compile(r"cudnnBackendFinalize|cudnnCreate|cublasLtMatmulAlgo\w+")
Run = collections.namedtuple("Run", "status message fails lost folder")


def run(folder, **settings):
    folder = pathlib.Path(folder)
    result = STAND_INS.run(*TRAIN, "--out", folder, timeout=120, threads=1, **settings)
    errors = re.findall(r"^(?:internal )?error: .*$", result.stderr, re.M)
    fails = re.findall(r"^cuda_on_cpu: (\w+) fails$", result.stderr, re.M)
    lost = re.findall(r"^cuda_on_cpu: (\w+) finds the device lost$", result.stderr, re.M)
    return Run(result.returncode, errors, fails, lost, folder)


def weights(folder):
    return (folder / "checkpoint" / "model.safetensors").read_bytes()


class FailingCallsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mezzo-failing-calls-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        os.environ["XDG_CACHE_HOME"] = str(cls.folder / "cache")  # what runs choose is theirs alone
        run(cls.folder / "first")  # which fills the cache
        report = cls.folder / "report.json"
        complete = run(cls.folder / "complete", report=report)
        assert complete.status == 0, complete.message
        cls.expected = weights(complete.folder)
        cls.calls = json.loads(report.read_text())["calls"]

    def each(self, setting, check):
        """Runs with the setting at every call, several at a time."""
        numbers = range(1, self.calls + 1, STRIDE)

        def one(number):
            return number, run(self.folder / f"{setting}-{number}", **{setting: number})

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for number, got in pool.map(one, numbers):
                with self.subTest(**{setting: number}, call=got.fails or got.lost):
                    check(got)

    def check_what_is_left(self, got):
        """A checkpoint is whole or not there: going on from it gives the expected weights."""
        checkpoint = got.folder / "checkpoint"
        self.assertEqual([p for p in got.folder.glob("**/*") if "tmp" in p.name], [])
        if not checkpoint.exists():
            return
        if weights(got.folder) == self.expected:
            return
        resumed = STAND_INS.run(*TRAIN, "--out", got.folder, "--resume", checkpoint, threads=1)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(weights(got.folder), self.expected)

    def test_a_call_that_fails(self):
        def check(got):
            self.assertEqual(len(got.fails), 1)
            if got.status == 0:
                if not CHOICES.match(got.fails[0]):
                    self.assertEqual(weights(got.folder), self.expected)
                return
            self.assertEqual(got.status, 1, got.message)
            self.assertEqual(len(got.message), 1)
            self.assertNotRegex(got.fails[0], GIVE_BACK)
            library = "cuDNN" if got.fails[0].startswith("cudnn") else got.fails[0]
            self.assertIn(library, got.message[0])
            self.check_what_is_left(got)

        self.each("fail_call", check)

    def test_a_device_that_is_lost(self):
        def check(got):
            self.assertEqual(len(got.lost), 1)
            if got.status == 0:  # all had been written
                self.assertRegex(got.lost[0], GIVE_BACK)
                self.assertEqual(weights(got.folder), self.expected)
                return
            self.assertEqual(got.status, 1, got.message)
            self.assertEqual(len(got.message), 1)
            self.assertRegex(got.message[0], "cudaErrorLaunchFailure|cuDNN|cuBLASLt")
            self.check_what_is_left(got)

        self.each("lose_device", check)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
