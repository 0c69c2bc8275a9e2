#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build the NRI plugin, run its tests and those of the manifests for Kubernetes.

Go takes modules in the versions of go.mod, with the checksums of go.sum. The program is static and the same whoever
builds it where: without paths, and with the linker's settings below.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from pathlib import Path

from common import ROOT, Fail, capture, run_logged, run_main

SOURCE = ROOT / "containers/nri"
BUILD = ROOT / "build/nri"
PROGRAM = BUILD / "cgroup-steer-nri"
# The SDK's runtime side, which the tests use, does without its engine for WebAssembly.
TAGS = "nri_no_wasm"


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
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")} | {
        "CGO_ENABLED": str(int(cgo)), "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}


def version() -> str:
    """That of the whole project, which cgctl has."""
    found = re.search(r'^version = "(.+)"', (ROOT / "tools/cgctl/Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1]


def build(out: Path = PROGRAM) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    run_logged([go(), "build", "-trimpath", "-ldflags", f"-s -w -buildid= -X main.version={version()}", "-o", out, "."],
               ROOT / "build/nri.log", "building cgroup-steer-nri", cwd=SOURCE, env=environment())
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build",))
    parser.parse_args()
    print(f"  {build().relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
