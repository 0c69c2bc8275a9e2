#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build the NRI plugin, run its tests and those of the manifests for Kubernetes.

Go takes modules in the versions of go.mod, with the checksums of go.sum. The program is static and the same whoever
builds it where: without paths, and with the linker's settings below.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import release_version
from common import ROOT, Fail, capture, run_logged, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, SKIPPED, Test  # noqa: E402

SOURCE = ROOT / "containers/nri"
MANIFESTS = ROOT / "containers/kubernetes/tests"
BUILD = ROOT / "build/nri"
PROGRAM = BUILD / "cgroup-steer-nri"
# The SDK's runtime side, which the tests use, does without its engine for WebAssembly.
TAGS = "nri_no_wasm"
# Seconds for which annotations are made up
FUZZ = 5
STATUS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}


def minimum_go() -> tuple[int, ...]:
    found = re.search(r"^go ([\d.]+)", (SOURCE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return tuple(int(part) for part in found[1].split("."))


def go() -> str:
    """The first go that is new enough: the one in the path, then Debian's own."""
    wanted = ".".join(map(str, minimum_go()))
    seen = []
    for program in (os.environ.get("GO"), shutil.which("go"), "/usr/bin/go"):
        if program and Path(program).exists():
            found = re.search(r"go([\d.]+\d)", capture([program, "version"]))
            version = tuple(map(int, found[1].split("."))) if found else ()
            if version >= minimum_go():
                return program
            seen.append(f"{program} {found[1] if found else '?'}")
    raise Fail(f"no go {wanted} or later ({', '.join(seen) or 'none at all'}); run: scripts/setup containers")


def environment(cgo: bool = False) -> dict[str, str]:
    """With -trimpath for everything, so that what is built for the program serves go vet and the tests as well."""
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")} | {
        "CGO_ENABLED": str(int(cgo)), "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath", "GOTOOLCHAIN": "local"}


def build(out: Path = PROGRAM, source: Path = SOURCE) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    run_logged([go(), "build", "-ldflags", f"-s -w -buildid= -X main.version={release_version.of_source()}", "-o", out, "."],
               ROOT / "build/nri.log", "building cgroup-steer-nri", cwd=source, env=environment())
    return out


def parse_tests(lines: Iterable[str]) -> list[Test]:
    """The results in what 'go test -json' prints: of tests, not of their parts; and packages that failed without one."""
    tests: list[Test] = []
    output: dict[tuple[str, str], list[str]] = {}
    failed: set[str] = set()
    builds: list[str] = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            builds.append(line)
            continue
        package, name = event.get("Package", event.get("ImportPath", "")), event.get("Test", "")
        key = package, name.partition("/")[0]
        if event["Action"] in ("output", "build-output"):
            output.setdefault(key, []).append(event["Output"])
            if event["Action"] == "build-output":
                builds.append(event["Output"])
        elif event["Action"] in STATUS and name and "/" not in name:
            status = STATUS[event["Action"]]
            tests.append(Test(f"{package}: {name}", status, "" if status == PASSED else "".join(output.get(key, []))[-3000:]))
            if status == FAILED:
                failed.add(package)
        elif event["Action"] == "fail" and not name and package not in failed:
            tests.append(Test(package, FAILED, "".join([*output.get((package, ""), []), *builds])[-3000:]))
    return tests


def go_tests(source: Path, *arguments: str, cgo: bool = False, timeout: int = 600) -> list[Test]:
    """Run tests below a directory; those that did not pass have their output."""
    done = subprocess.run([go(), "test", "-json", f"-timeout={timeout}s", *arguments], cwd=source, env=environment(cgo),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    tests = parse_tests(done.stdout.splitlines())
    if done.returncode and not any(test.status == FAILED for test in tests) or not tests:
        tests.append(Test(f"go test {' '.join(arguments)}", FAILED, f"status {done.returncode}: {done.stderr[-3000:]}"))
    return tests


def vet(source: Path) -> Test:
    done = subprocess.run([go(), "vet", f"-tags={TAGS}", "./..."], cwd=source, env=environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", check=False)
    return Test(f"go vet {source.relative_to(ROOT)}", FAILED if done.returncode else PASSED, done.stderr if done.returncode else "")


def formatted(source: Path) -> Test:
    names = capture([Path(go()).resolve().parent / "gofmt", "-l", source]).split()
    return Test(f"gofmt {source.relative_to(ROOT)}", FAILED if names else PASSED, f"not as gofmt has it: {' '.join(names)}" if names else "")


def reproducible() -> list[Test]:
    """The program is static, and the same if it is built again, from another directory, without what was built before."""
    first = build().read_bytes()
    if b"/ld-linux" in first or b"/ld-musl" in first:
        return [Test("static", FAILED, f"{PROGRAM.name} wants a dynamic linker")]
    copy = BUILD / "copy/of/the/source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(SOURCE, copy)
    second = build(BUILD / "again", copy).read_bytes()
    shutil.rmtree(BUILD / "copy")
    same = first == second
    return [Test("static", PASSED), Test("reproducible", PASSED if same else FAILED,
                                         "" if same else "built in two directories, the programs are not the same")]


def test() -> list[Test]:
    """Everything that needs neither root nor a virtual machine."""
    tests = [check(source) for source in (SOURCE, MANIFESTS) for check in (formatted, vet)] + reproducible()
    tests += go_tests(SOURCE, "-race", f"-tags={TAGS}", "./...", cgo=True)
    tests += go_tests(MANIFESTS, "./...")
    fuzzed = go_tests(SOURCE, f"-tags={TAGS}", "-run=^$", "-fuzz=FuzzAnnotations", f"-fuzztime={FUZZ}s", "./internal/policy")
    return tests + [Test(f"{test.name}, {FUZZ} s of made-up annotations", test.status, test.detail) for test in fuzzed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build",))
    parser.parse_args()
    print(f"  {build().relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
