#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build cgctl, run its tests, install it.

Cargo takes crates in the versions of Cargo.lock, and builds in build/cgctl. Whoever wants the program does not wait for
the tests; these are built on top of the same program and crates.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import ROOT, Fail, capture, run_logged, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, SKIPPED, Test  # noqa: E402

SOURCE = ROOT / "tools/cgctl"
BUILD = ROOT / "build/cgctl"
PROGRAM = BUILD / "release/cgctl"
UNITS = ROOT / "systemd-units"
STATUS = {"ok": PASSED, "ignored": SKIPPED}


def minimum_rust() -> tuple[int, ...]:
    found = re.search(r'^rust-version = "([\d.]+)"', (SOURCE / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return tuple(int(part) for part in found[1].split("."))


def cargo() -> str:
    """The first cargo that is new enough: the one in the path, then Debian's own."""
    wanted = ".".join(map(str, minimum_rust()))
    seen = []
    for program in (os.environ.get("CARGO"), shutil.which("cargo"), "/usr/bin/cargo"):
        if program and Path(program).exists():
            found = re.search(r"\d+\.\d+", capture([program, "--version"]))
            if found and tuple(map(int, found[0].split("."))) >= minimum_rust():
                return program
            seen.append(f"{program} {found[0] if found else '?'}")
    raise Fail(f"no cargo {wanted} or later ({', '.join(seen) or 'none at all'}); run: scripts/setup cgctl")


def environment() -> dict[str, str]:
    program = cargo()
    # The compiler beside the chosen cargo, not the first one in the path.
    rustc = Path(program).parent / "rustc"
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")} | {
        "CARGO_TARGET_DIR": str(BUILD), "CARGO_TERM_COLOR": "never", "CARGO": program, "RUSTC": str(rustc)}


def compile_crates(what: str, *arguments: str, on_line: Callable[[str], None] | None = None) -> None:
    env = environment()
    # Run in the repository's root, so that the names of programs that it prints begin there.
    run_logged([env["CARGO"], *arguments, "--release", "--locked", "--manifest-path", SOURCE / "Cargo.toml"],
               ROOT / "build/cgctl.log", f"building {what}", cwd=ROOT, env=env, item=r"^\s+Compiling (\S+)",
               on_line=on_line)


def build() -> None:
    """Build the program."""
    compile_crates("cgctl", "build", "--bin", "cgctl")


def build_tests() -> list[Path]:
    """Build the program and its tests; returns the test programs."""
    found: list[Path] = []

    def collect(line: str) -> None:
        if match := re.match(r"\s+Executable .*\((.+)\)$", line):
            found.append(BUILD / Path(match[1]).relative_to(BUILD) if Path(match[1]).is_absolute() else ROOT / match[1])

    compile_crates("cgctl and its tests", "test", "--no-run", on_line=collect)
    return sorted(set(found))


def parse_tests(program: str, output: str) -> list[Test]:
    """The results in the output of a Rust test program."""
    reasons = dict(re.findall(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:|\Z)", output,
                              re.MULTILINE | re.DOTALL))
    return [Test(f"{program}: {name}", STATUS.get(status, FAILED), reasons.get(name, "").strip() if status == "FAILED" else "")
            for name, status in re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", output,
                                           re.MULTILINE)]


def checked_tests(name: str, done: subprocess.CompletedProcess[str]) -> list[Test]:
    """The results of a test program that has ended; that some are missing is one, too."""
    found = parse_tests(name, done.stdout)
    announced = re.search(r"^running (\d+) tests?$", done.stdout, re.MULTILINE)
    if not announced or int(announced[1]) != len(found):
        found.append(Test(f"{name}: results", FAILED, f"{len(found)} results: {done.stdout[-500:]}{done.stderr[-500:]}"))
    if done.returncode and not any(test.status == FAILED for test in found):
        found.append(Test(f"{name}: exit status", FAILED, f"{done.returncode}: {done.stderr[-500:]}"))
    return found


def test() -> list[Test]:
    """All but what compares with releases of systemd, which is unit_files.py's."""
    tests = []
    for program in build_tests():
        name = program.name.rpartition("-")[0]
        if name == "unit_files":
            continue
        done = subprocess.run([program], cwd=SOURCE, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=900, check=False,
                              env=os.environ | {"CGCTL": str(PROGRAM), "CARGO_MANIFEST_DIR": str(SOURCE)})
        tests += checked_tests(name, done)
    return tests


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def install(root: Path, prefix: str = "usr") -> None:
    """Program, manual pages, completions, units, drop-ins; below `root`, which may be /."""
    if not PROGRAM.is_file():
        raise Fail("cgctl is not built; run: make cgctl")
    usr = root / prefix
    put(usr / "bin/cgctl", PROGRAM.read_bytes(), 0o755)
    # Of its own: the tests of two releases of systemd install at the same time.
    with tempfile.TemporaryDirectory() as pages:
        capture([PROGRAM, "man", pages])
        for page in sorted(Path(pages).iterdir()):
            put(usr / "share/man" / f"man{page.suffix[1:]}" / page.name, page.read_bytes())
    for shell, path in (("bash", "share/bash-completion/completions/cgctl"), ("zsh", "share/zsh/vendor-completions/_cgctl"),
                        ("fish", "share/fish/vendor_completions.d/cgctl.fish")):
        put(usr / path, capture([PROGRAM, "completions", shell]).encode())
    # Where the units' program is.
    service = (UNITS / "cgctl.service").read_text(encoding="utf-8")
    put(usr / "lib/systemd/system/cgctl.service", service.replace("/usr/bin/", f"/{prefix}/bin/").encode())
    for path in sorted(UNITS.glob("drop-ins*/*.conf")):
        text = path.read_text(encoding="utf-8").replace("/usr/bin/cgctl", f"/{prefix}/bin/cgctl")
        put(usr / "share/cgctl" / path.relative_to(UNITS), text.encode())
    put(usr / "share/doc/cgctl/README.md", (SOURCE / "README.md").read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("build", "test", "install"))
    arguments = parser.parse_args()
    if arguments.what == "test":
        tests = test()
        for failed in (test for test in tests if test.status == FAILED):
            print(f"    FAILED {failed.name}: {failed.detail}")
        print(f"{len(tests)} tests")
        return int(any(test.status == FAILED for test in tests))
    build()
    if arguments.what == "install":
        root = Path(os.environ.get("DESTDIR") or "/")
        install(root, (os.environ.get("PREFIX") or "usr").strip("/"))
        print(f"  installed below {root}")
    else:
        print(f"  cgctl: {PROGRAM.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    run_main(main)
