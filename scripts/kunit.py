#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the KUnit tests of the tree under user-mode Linux.

The kernel's own kunit.py runs them. It would configure and build, too, but a much larger kernel, and silently.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import kbuild
from common import ROOT, Fail, Target, run_main

sys.path.insert(0, str(ROOT / "vm"))

import ktap  # noqa: E402
from run import show  # noqa: E402

# What the kernel itself says of tests; anything else may stand in between.
KTAP_LINE = re.compile(r" *(1\.\.\d|(not )?ok \d|#)")
TIMEOUT = 300  # seconds for all suites together; they take a few


def run(target: Target) -> list[ktap.Test]:
    """Build and run; returns the judged tests."""
    um = dataclasses.replace(target, arch=kbuild.UML)
    kbuild.build(um, "kunit")
    out = um.out("kunit")
    tool = target.tree / "tools/testing/kunit/kunit.py"
    # Run in the build directory, where whatever it leaves behind is in nobody's way.
    result = subprocess.run([sys.executable, "-B", tool, "exec", f"--build_dir={out}", f"--timeout={TIMEOUT}",
                             "--raw_output=kunit"], cwd=out, env=kbuild.environment(), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, errors="replace", check=False)
    output = um.build / "um" / "kunit.ktap"
    output.write_text(result.stdout + result.stderr, encoding="utf-8")
    tests = ktap.judge_program("kunit", result.stdout.splitlines(), result.returncode)
    if (test := out / "test.log").is_file():
        tests += ktap.complaints(Path(test).read_text(encoding="utf-8", errors="replace"))
    return tests


def at_boot(console: str) -> list[ktap.Test]:
    """The results of a kernel that has its tests built in, among all else that it printed."""
    _, _, report = console.replace("\r", "").partition("KTAP version 1\n")
    # Each suite has a heading of its own; the plan of them all comes first.
    suites = re.match(r"1\.\.(\d+)\n", report)
    end = re.search(rf"^(not )?ok {suites[1]} .*\n", report, re.MULTILINE) if suites else None
    lines = report[:end.end()] if end else report
    return ktap.judge_program("kunit", [line for line in lines.split("\n") if KTAP_LINE.match(line)], 0)


def main() -> int:
    target = Target.from_environment()
    counts = show(run(target))
    print(ktap.counted(counts))
    if not counts["passed"] and not counts["failed"]:
        raise Fail("no KUnit test ran")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    run_main(main)
