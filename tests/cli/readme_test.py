#!/usr/bin/env python3
"""Runs the commands that README.md shows and compares what they print with what it shows.

    readme_test.py MEZZO            exit status 0 if all fits
    readme_test.py MEZZO --update   writes what was printed into README.md

A fenced block is run if an HTML comment stands on the line before it:

    <!-- run -->               every line is a command; they must succeed
    <!-- session -->           "$ command" lines, each followed by its output
    <!-- session head=N -->    the same; of each output at most N lines are shown, then "..."
    <!-- output of: CMD -->    the block is what CMD prints

Standard error is not shown. All blocks run in one folder, in order, with the repository's models
and tools in it and MEZZO as build/release/bin/mezzo. Numbers, their units and the widths of columns
may differ from the README; everything else must be equal.
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"<!-- (run|session|output)( head=(\d+))?( of: (.*?))? -->\n```(\w*)\n(.*?)```", re.S)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?( ?(KiB|MiB|GiB|B|us|ms|s|k|M|%|FLOP|kFLOP|MFLOP|GFLOP)\b)?")


def masked(line):
    """The line without what may differ between machines and runs."""
    return re.sub(r"[\s-]+", " ", NUMBER.sub("#", line)).strip()


def run(command, folder):
    """Standard output of a command line; stops the test if it fails."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, text=True,
                          capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"README.md: `{command}` failed with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stdout.splitlines()


def commands_of(text):
    """(command, shown output) of a session block; a backslash continues a command."""
    found = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines)
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(shown).strip("\n").splitlines()) for command, shown in found]


def shortened(lines, head):
    lines = [line.rstrip() for line in lines]
    return lines if head is None or len(lines) <= head else lines[:head] + ["..."]


def differences(shown, printed):
    """Lines of a diff; empty if what is shown fits what was printed."""
    if shown and shown[-1] == "...":
        printed = printed[: len(shown) - 1] + ["..."]
    return list(difflib.unified_diff([masked(x) for x in shown], [masked(x) for x in printed],
                                     "README.md", "printed", lineterm="", n=1))


class Check:
    def __init__(self, folder):
        self.folder = folder
        self.faults = []
        self.ran = 0

    def output(self, command, shown, head):
        """Runs a command; returns what to show for it."""
        printed = run(command, self.folder)
        self.ran += 1
        diff = differences(shown, shortened(printed, head))
        if diff:
            self.faults.append(f"$ {command}\n" + "\n".join(diff))
        return shortened(printed, head)

    def block(self, match):
        """Runs one block; returns its text as it should be."""
        kind, head, command, text = match[1], match[3] and int(match[3]), match[5], match[7]
        if kind == "run":
            run(text, self.folder)
            self.ran += 1
            return match[0]
        if kind == "output":
            body = self.output(command, text.splitlines(), head)
        else:
            body = []
            for number, (line, shown) in enumerate(commands_of(text)):
                body += [""] * bool(number) + ["$ " + line] + self.output(line, shown, head)
        before, after = match.start(7) - match.start(), match.end(7) - match.start()
        return match[0][:before] + "".join(line + "\n" for line in body) + match[0][after:]


def prepare(folder, mezzo):
    for name in ["models", "tools"]:
        os.symlink(ROOT / name, folder / name)
    binary = folder / "build" / "release" / "bin" / "mezzo"
    binary.parent.mkdir(parents=True)
    os.symlink(Path(mezzo).resolve(), binary)


def main():
    text = README.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, sys.argv[1])
        check = Check(folder)
        updated = BLOCK.sub(check.block, text)
    if "--update" in sys.argv:
        README.write_text(updated)
    elif check.faults:
        print("\n\n".join(check.faults))
        print("\nreadme_test.py MEZZO --update writes what was printed into README.md")
        return 1
    print(f"{check.ran} commands ran")
    return 0 if check.ran > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
