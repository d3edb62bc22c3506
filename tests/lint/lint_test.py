"""Tests of tools/lint: each rule finds a planted mistake, and says nothing about a clean tree.

Usage: lint_test.py LINT
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

LINT = sys.argv.pop() if len(sys.argv) > 1 else "tools/lint"

CLEAN = {
    "compiler/support/status.h": "#pragma once\nstruct Status {};\n",
    "compiler/ir/graph.h": '#pragma once\n#include "compiler/support/status.h"\nclass Graph;\n',
    "runtime/run.cpp": '// Returns a `Status`; see `kernels/kernel.h`.\n'
                       '#include "kernels/kernel.h"\n'
                       '#include "compiler/plan/plan.pb.h"\n'
                       'const char* url = "http://example.com";  // no comment: `Status`\n',
    "kernels/kernel.h": "#pragma once\n",
}


class LintTest(unittest.TestCase):
    def lint(self, **changed):
        """Runs lint on the clean tree with files replaced; returns (exit status, output)."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changed.get("files", {})}.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            run = subprocess.run([sys.executable, LINT, "--root", folder], capture_output=True,
                                 text=True)
            return run.returncode, run.stdout + run.stderr

    def expect_finding(self, path, text, finding):
        status, output = self.lint(files={path: text})
        self.assertEqual(status, 1, output)
        self.assertIn(finding, output)
        self.assertIn(" 1 findings", output)

    def test_clean_tree(self):
        status, output = self.lint()
        self.assertEqual(status, 0, output)
        self.assertIn(" 0 findings", output)

    def test_forbidden_room(self):
        self.expect_finding("runtime/bad.cpp", '\n#include "compiler/ir/graph.h"\n',
                            'runtime/bad.cpp:2: room runtime must not include "compiler/ir/graph.h"')

    def test_plan_schema_is_no_key_to_the_plan_room(self):
        self.expect_finding("kernels/cpu/bad.cpp", '#include "compiler/plan/plan.pb.h"\n',
                            "room kernels/cpu must not include")

    def test_forbidden_library(self):
        self.expect_finding("kernels/cpu/bad.cpp", "#include <google/protobuf/message.h>\n",
                            "must not include google/protobuf/message.h (protobuf)")

    def test_cuda_is_for_its_rooms_alone(self):
        self.expect_finding("runtime/bad.cpp", "#include <cuda_runtime_api.h>\n",
                            "room runtime must not include cuda_runtime_api.h (cuda)")
        self.expect_finding("kernels/cuda/bad.cu", '#include "runtime/run.h"\n',
                            "runtime/run.h")
        status, output = self.lint(files={"kernels/cuda/good.cu": "#include <cublasLt.h>\n"
                                          '#include "kernels/kernel.h"\n'})
        self.assertEqual(status, 0, output)

    def test_include_that_does_not_exist(self):
        self.expect_finding("compiler/ir/bad.cpp", '#include "compiler/ir/gone.h"\n',
                            "does not exist")

    def test_include_not_from_the_root(self):
        self.expect_finding("compiler/ir/bad.cpp", '#include "graph.h"\n', "from the repository root")

    def test_backticks_name_something_gone(self):
        self.expect_finding("compiler/ir/bad.cpp", "int x;  // replaces `const_map_`\n",
                            "const_map_ exists nowhere")

    def test_backticks_are_not_satisfied_by_other_comments(self):
        self.expect_finding("compiler/ir/bad.cpp", "// gone_thing was here\n/* see `gone_thing` */\n",
                            "bad.cpp:2: `gone_thing`")

    def test_backticks_with_a_star_name_a_family(self):
        code = "int cast_in, cast_out;  // see `cast_*`\n"
        status, output = self.lint(files={"compiler/ir/good.cpp": code})
        self.assertEqual(status, 0, output)
        self.expect_finding("compiler/ir/bad.cpp", "int x;  // see `cast_*`\n", "cast_ exists")

    def test_machine_path(self):
        self.expect_finding("README.md", "Lies in /ro" + "ot/x.\n", "belongs to one machine")

    def test_file_size(self):
        self.expect_finding("compiler/ir/bad.cpp", "int x;\n" * 451, "451 lines")
        status, output = self.lint(files={"compiler/ir/long.cpp": "int x;\n" * 401})
        self.assertEqual(status, 0, output)
        self.assertIn("note: 401 lines", output)

    def test_pragma_once(self):
        self.expect_finding("compiler/ir/bad.h", "int x;\n", "no #pragma once")

    def test_exit_in_a_library(self):
        self.expect_finding("runtime/bad.cpp", "void f() { std::exit(1); }\n", "exit() in a library")
        status, output = self.lint(files={"tools/mezzo/main.cpp": "int f() { exit(1); }\n"})
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
