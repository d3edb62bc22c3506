"""What gpu_check says when things go wrong on the machine, which it may see but once: programs that
crash, hang, lose the device or are missing. The programs of the pack are played by scripts.

    gpu_check_test.py GPU_CHECK
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

GPU_CHECK = pathlib.Path(sys.argv.pop()).absolute()

# Plays bin/gpu_kernels_test: a test's name says what becomes of it.
KERNELS = r"""
import json, os, sys, time
TESTS = os.environ["PLAYED_TESTS"].split(",")
if "--gtest_list_tests" in sys.argv:
    print("Running main() from somewhere")
    for suite in dict.fromkeys(test.split(".")[0] for test in TESTS):
        print(suite + ".")
        for test in TESTS:
            if test.startswith(suite + "."):
                print("  " + test.split(".")[1] + "  # a comment")
    sys.exit(0)
def tell(**row):
    with open(os.environ["MEZZO_GPU_TEST_LOG"], "a") as log:
        log.write(json.dumps(row) + "\n")
flags = next(a for a in sys.argv if a.startswith("--gtest_flagfile=")).split("=", 1)[1]
wanted = open(flags).read().strip().split("=", 1)[1].split(":")
tell(rows=["Add by own", "Mul by own"])
bad = 0
for test in [t for t in TESTS if t in wanted]:
    tell(begin=test)
    if "Crashes" in test:
        print("about to crash", flush=True)
        os.kill(os.getpid(), 11)
    if "TakesLong" in test:
        os.kill(os.getpid(), 14)  # as the alarm does
    if "Hangs" in test:
        time.sleep(1000)
    ok = not ("Fails" in test or "Loses" in test)
    bad |= not ok
    tell(test=test, ok=ok, skipped=False, ms=1, rows_run=[0, 1], failures=[] if ok else ["1 is not 2"])
    if "Loses" in test:
        sys.exit(3)
sys.exit(bad)
"""

# Plays bin/mezzo: PLAYED_DEVICES is what `devices --json` prints, PLAYED_TRAIN what becomes of train.
MEZZO = r"""
import os, sys, time
if sys.argv[1] == "devices":
    print(os.environ["PLAYED_DEVICES"])
elif os.environ["PLAYED_TRAIN"] == "crashes":
    print("nvrtc: error: something is missing", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 11)
elif os.environ["PLAYED_TRAIN"] == "hangs":
    os.system("sleep 1000 &")  # with a child that keeps the pipe open
    time.sleep(1000)
else:
    sys.exit("error: node 'conv1' (Conv): out of luck")
"""

ONE_DEVICE = json.dumps({"devices": [
    {"device": "cpu", "threads": 4},
    {"device": "cuda:0", "name": "A card", "compute_capability": "9.0", "total_bytes": 1 << 33}]})
NO_DEVICE = json.dumps({"devices": [{"device": "cpu", "threads": 4}],
                        "cuda_missing": "cannot load the CUDA part: libcudnn.so.9"})
GOOD = "A.Good,A.AlsoGood,B.Good"


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mezzo-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("pack/bin", "pack/lib", "pack/networks", "pack/refs/mlp", "tools"):
            (self.folder / name).mkdir(parents=True)
        self.program("pack/bin/gpu_kernels_test", KERNELS)
        self.program("pack/bin/mezzo", MEZZO)
        self.program("tools/no_torch", "import sys; sys.exit('no PyTorch here')")
        recipe = {"source": "a test", "batch": 2, "weights_bytes": 64, "inputs": [
            {"name": "x", "shape": [2, 3], "dtype": "float32", "classes": 0}],
            "tensors": [{"name": "w", "offset": 0, "elems": 16, "mean": 0, "deviation": 1}]}
        (self.folder / "pack/networks/net.json").write_text(json.dumps(recipe))
        (self.folder / "pack/networks/net.onnx").write_bytes(b"")
        (self.folder / "pack/refs/mlp/expected.json").write_text(json.dumps({
            "batch_size": 32, "setups": {"adamw": {"steps": 2, "accumulate": 1, "flags": []}}}))

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)

    def check(self, *options, tests=GOOD, devices=ONE_DEVICE, train="fails", limit=60):
        out = self.folder / "out.json"
        start = time.monotonic()
        result = subprocess.run(
            [GPU_CHECK, self.folder / "pack", out, "--limit", str(limit), "--networks", "net",
             "--python", self.folder / "tools/no_torch", "--work", self.folder / "work", *options],
            capture_output=True, text=True, timeout=200,
            env={**os.environ, "PLAYED_TESTS": tests, "PLAYED_DEVICES": devices,
                 "PLAYED_TRAIN": train, "PATH": f"{self.folder}/tools:{os.environ['PATH']}"})
        self.seconds = time.monotonic() - start
        self.status = result.returncode
        self.assertTrue(out.exists(), result.stderr)
        report = json.loads(out.read_text())
        self.assertTrue(report["complete"])
        self.assertFalse((self.folder / "work").exists(), "it leaves files behind")
        return report

    def test_a_machine_without_a_device_is_told_at_once(self):
        report = self.check(devices=NO_DEVICE)
        self.assertEqual(self.status, 1)
        self.assertEqual(report["verdict"], "not run")
        self.assertIn("libcudnn.so.9", json.dumps(report["error"]))
        self.assertNotIn("kernels", report)

    def test_a_program_that_does_not_start_is_told(self):
        (self.folder / "pack/bin/mezzo").write_bytes(b"\x7fELF of another machine")
        report = self.check()
        self.assertEqual(report["verdict"], "not run")
        self.assertIn("mezzo", report["error"]["end_of_output"])

    def test_it_tells_whether_the_card_has_code_of_its_own(self):
        for architectures, own in (("75-real;90-real", True), ("80-real;100-real;120", False),
                                   ("80;90-virtual", False), ("90", True)):
            (self.folder / "pack/pack.json").write_text(json.dumps({"architectures": architectures}))
            machine = self.check("--kernels", "none", "--references", "none")["machine"]
            self.assertIs(machine["code_for_this_card"], own, architectures)

    def test_kernel_tests_pass_if_all_of_them_did(self):
        kernels = self.check("--references", "none")["kernels"]
        self.assertEqual(kernels["verdict"], "passed")
        self.assertEqual((kernels["tests"], kernels["passed"]), (3, 3))
        self.assertEqual((kernels["rows"], kernels["rows_run"]), (2, 2))

    def test_a_crash_costs_one_test_alone(self):
        report = self.check("--jobs", "1", "--references", "none",
                            tests="A.Good,A.Crashes,B.Good,B.Fails,B.Loses,C.Good")
        kernels = report["kernels"]
        self.assertEqual(kernels["verdict"], "failed")
        self.assertEqual(kernels["passed"], 3)
        self.assertEqual([row["test"] for row in kernels["failed"]], ["B.Fails", "B.Loses"])
        self.assertEqual(kernels["failed"][0]["failures"], ["1 is not 2"])
        crash = kernels["crashed"][0]
        self.assertEqual(crash["test"], "A.Crashes")
        self.assertIn("signal 11", crash["why"]["ended"])
        self.assertIn("about to crash", crash["why"]["end_of_output"])
        self.assertEqual(kernels["not_run"], [])
        self.assertEqual(self.status, 1)

    def test_a_test_that_takes_long_is_not_passed(self):
        kernels = self.check("--jobs", "1", "--references", "none", tests="A.TakesLong,B.Good")["kernels"]
        self.assertEqual(kernels["verdict"], "cut off")
        self.assertEqual([row["test"] for row in kernels["too_long"]], ["A.TakesLong"])
        self.assertEqual((kernels["passed"], kernels["crashed"]), (1, []))

    def test_what_the_time_did_not_suffice_for_is_not_passed(self):
        report = self.check("--jobs", "1", "--references", "none", limit=12,
                            tests="A.Good,A.Hangs,B.Good")
        self.assertLess(self.seconds, 25)
        kernels = report["kernels"]
        self.assertEqual(kernels["verdict"], "cut off")
        self.assertEqual(kernels["passed"], 1)
        self.assertEqual(kernels["not_run"], ["A.Hangs", "B.Good"])
        self.assertNotEqual(report["verdict"], "passed")

    def test_a_kernel_program_that_cannot_run_is_a_failure(self):
        self.program("pack/bin/gpu_kernels_test", "import sys; sys.exit('libcudart.so.13: not found')")
        kernels = self.check("--references", "none")["kernels"]
        self.assertEqual(kernels["verdict"], "failed")
        self.assertIn("libcudart.so.13", kernels["list"]["end_of_output"])

    def test_trainings_that_fail_say_why_and_the_rest_goes_on(self):
        for train, said in (("fails", "out of luck"), ("crashes", "nvrtc: error")):
            with self.subTest(train):
                report = self.check(train=train)
                runs = report["references"]["runs"]
                self.assertEqual(len(runs), 8, "four precisions, graph and eager")
                for run in runs:
                    self.assertEqual(run["verdict"], "failed")
                    self.assertIn(said, run["process"]["end_of_output"])
                self.assertEqual(report["references"]["verdict"], "failed")
                net = report["networks"]["networks"]["net"]
                for name in ("fp32", "bf16", "fp16", "bf16_eager"):
                    self.assertEqual(net[name]["verdict"], "failed")
                    self.assertIn(said, net[name]["process"]["end_of_output"])
                self.assertIsNone(net["goals"]["host time per step under 50 us"])
                self.assertNotIn("torch", net)
                torch = report["networks"]["torch"]
                self.assertEqual(torch["verdict"], "absent")
                self.assertIn("no PyTorch here", torch["end_of_output"])
                self.assertEqual(report["verdict"], "failed")

    def test_hanging_trainings_do_not_take_all_the_time(self):
        report = self.check(train="hangs", limit=15)
        self.assertLess(self.seconds, 30)
        for part in ("references", "networks"):
            self.assertEqual(report[part]["verdict"], "cut off")
        verdicts = {run["verdict"] for run in report["references"]["runs"]}
        self.assertLessEqual(verdicts, {"cut off", "not run"})

    def test_files_that_are_missing_are_failures(self):
        (self.folder / "pack/networks/net.json").unlink()
        (self.folder / "pack/refs/mlp/expected.json").unlink()
        report = self.check()
        self.assertEqual(report["references"]["verdict"], "failed")
        self.assertIn("net.json", report["networks"]["networks"]["net"]["error"])

    def test_the_sanitizer_is_used_where_it_is(self):
        self.assertEqual(self.check("--references", "none")["compute_sanitizer"]["verdict"], "absent")
        for status, verdict in ((0, "passed"), (9, "failed")):
            self.program("tools/compute-sanitizer",
                         f"import sys; print('ERROR SUMMARY'); sys.exit(0 if '--version' in sys.argv else {status})")
            sanitizer = self.check("--references", "none")["compute_sanitizer"]
            self.assertEqual(sanitizer["verdict"], verdict)
            self.assertEqual({run["tool"] for run in sanitizer["runs"]}, {"memcheck", "racecheck"})
            self.assertIn("ERROR SUMMARY", sanitizer["runs"][0]["end_of_output"])

    def test_a_place_that_cannot_be_written_is_told_before_anything_runs(self):
        result = subprocess.run([GPU_CHECK, self.folder / "pack", self.folder / "none" / "out.json"],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write", result.stderr)

    def test_usage(self):
        for wrong in ([], ["one"], ["a", "b", "--limit"], ["a", "b", "--limit", "0"], ["a", "b", "--no"]):
            self.assertEqual(subprocess.run([GPU_CHECK, *wrong], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
