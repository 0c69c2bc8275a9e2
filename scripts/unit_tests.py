#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run the unit tests of a directory in a process of their own, and count each.

Directories have modules of the same name, so one process must not load them all.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import subprocess
import sys
import unittest
from pathlib import Path

from common import ROOT, Fail, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, SKIPPED, Test  # noqa: E402


class Result(unittest.TextTestResult):
    """Remembers those that passed, too."""

    passed: list[unittest.TestCase]

    def startTestRun(self) -> None:
        self.passed = []

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed.append(test)


def run_here(directory: Path) -> list[Test]:
    suite = unittest.defaultTestLoader.discover(str(directory), top_level_dir=str(directory))
    if not suite.countTestCases():
        raise Fail(f"{directory}: no test found")
    result = unittest.TextTestRunner(io.StringIO(), resultclass=Result).run(suite)
    assert isinstance(result, Result)
    tests = [Test(str(test), FAILED, text) for test, text in [*result.failures, *result.errors]]
    tests += [Test(str(test), FAILED, "passed, which was not expected") for test in result.unexpectedSuccesses]
    tests += [Test(str(test), SKIPPED, reason) for test, reason in result.skipped]
    tests += [Test(str(test), SKIPPED, "failed as expected") for test, _ in result.expectedFailures]
    return tests + [Test(str(test), PASSED) for test in result.passed]


def run(directory: Path) -> list[Test]:
    """The tests of a directory, each with what came of it."""
    done = subprocess.run([sys.executable, __file__, directory], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", check=False)
    if done.returncode:
        raise Fail(f"{directory}: the tests ended early, with status {done.returncode}\n{done.stdout}{done.stderr}")
    return [Test(**test) for test in json.loads(done.stdout)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.resolve()
    with contextlib.redirect_stdout(sys.stderr):
        tests = run_here(directory)
    print(json.dumps([dataclasses.asdict(test) for test in tests]))


if __name__ == "__main__":
    run_main(main)
