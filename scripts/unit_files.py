#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""cgctl's reading of unit files, compared with that of systemd itself: random trees and files, on each release.

The machine's own systemd-analyze is used for its own release; that of another one is unpacked and run where it is, with
its own loader and libraries. It only reads files, so it neither needs to be installed nor its kernel.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cgctl
import foreign
from common import ROOT, Fail, Target, host_arch, replace_file, run_main

sys.path.insert(0, str(ROOT / "vm"))

import debian  # noqa: E402
from ktap import FAILED, PASSED, SKIPPED, Test, counted, remarks, summary  # noqa: E402

# Of systemd 252 and 257
RELEASES = ("bookworm", "trixie")
CASES, SEED = 500, 1
TIME_LIMIT = 3600 + CASES


def wrapper(packages: Mapping[str, Path]) -> str:
    """A shell script that runs the systemd-analyze of unpacked packages."""
    program = packages["systemd"] / "usr/bin/systemd-analyze"
    if not program.is_file():
        program = packages["systemd"] / "bin/systemd-analyze"
    loaders = sorted(path for directory in ("lib", "lib64", "usr/lib", "usr/lib64")
                     for path in packages["libc6"].glob(f"{directory}/**/ld-linux-*.so.*"))
    if not program.is_file() or not loaders:
        raise Fail(f"no systemd-analyze in {packages['systemd']}, or no loader in {packages['libc6']}")
    places = [directory for root in packages.values() for pattern in ("lib", "usr/lib")
              for directory in (*root.glob(f"{pattern}/*-linux-gnu"), *root.glob(f"{pattern}/*-linux-gnu/systemd"))]
    return (f"#!/bin/sh\nexec {shlex.quote(str(loaders[0]))} --library-path {shlex.quote(':'.join(map(str, places)))} "
            f'{shlex.quote(str(program))} "$@"\n')


def analyze(target: Target, release: str) -> Path:
    """The systemd-analyze of a Debian release."""
    own = shutil.which("systemd-analyze")
    if release == foreign.own_release() and own:
        return Path(own)
    # The same packages as for the machine with that release, which are there already when that was made.
    packages = foreign.unpack_all(dataclasses.replace(target, arch=host_arch(), release=release), debian.PACKAGES)
    script = cgctl.BUILD / f"systemd-analyze-{release}"
    replace_file(script, wrapper(packages).encode(), 0o755)
    return script


def compare(program: Path, oracle: Path, cases: int, seed: int) -> list[Test]:
    """All comparisons with one release."""
    done = subprocess.run([program, oracle], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=TIME_LIMIT * max(1, cases // CASES), check=False,
                          env=os.environ | {"CASES": str(cases), "SEED": str(seed)})
    for line in re.findall(r"^  \d+\.\d s .*", done.stdout, re.MULTILINE):
        print(line, flush=True)
    return cgctl.checked_tests("unit_files", done)


def run(target: Target, cases: int = CASES, seed: int = SEED) -> list[Test]:
    if not shutil.which("apt-get") and not shutil.which("systemd-analyze"):
        return [Test("unit_files", SKIPPED, "there is neither a systemd-analyze here nor apt-get to get one with")]
    program = next((path for path in cgctl.build_tests() if path.name.rpartition("-")[0] == "unit_files"), None)
    if not program:
        return [Test("unit_files", FAILED, "cargo built no such test")]
    oracles = [analyze(target, release) for release in RELEASES]
    # Most of the time goes into starting programs one after the other.
    with ThreadPoolExecutor(len(oracles)) as pool:
        found = pool.map(lambda oracle: compare(program, oracle, cases, seed), oracles)
        return [test for tests in found for test in tests]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES, help="how many trees and how many files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the generator (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.cases < 1 or arguments.seed < 0:
        raise Fail(f"--cases {arguments.cases} --seed {arguments.seed}: at least 1 case and no negative seed are wanted")
    tests = run(Target.from_environment(os.environ), arguments.cases, arguments.seed)
    for line in remarks(tests):
        print(f"    {line}")
    counts = summary(tests)
    print(counted(counts))
    return 1 if counts[FAILED] or not counts[PASSED] else 0


if __name__ == "__main__":
    run_main(main)
