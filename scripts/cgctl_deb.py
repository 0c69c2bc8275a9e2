#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Debian package of cgctl: program, units, drop-ins, completions, manual pages.

It is put together by dpkg-deb alone. What the program needs of glibc is read from the program: the newest version of a
symbol that it names is the oldest libc6 that will do.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cgctl
import debian_package
import release_version
from common import ROOT, Fail, capture, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, Test  # noqa: E402

OUT = ROOT / "build"
DESCRIPTION = """\
show, set and keep CPU policies of cgroups
Reads and writes cpu.hint, cpu.gang and cpu.headroom of cgroup v2, explains why
a hint was or was not followed, applies policies from files, and follows
systemd's units to apply their X-CPUHint=, X-CPUGang=, X-CPUGangScope= and
X-CPUHeadroom= properties. Needs a kernel with CONFIG_CGROUP_STEER."""
# As debhelper writes them: the service is enabled and started by systemd's own policy, and left alone where none runs.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl preset cgctl.service >/dev/null 2>&1 || true
	systemctl try-restart cgctl.service || true
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now cgctl.service || true
fi
"""
POSTRM = """\
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
"""


def glibc(program: Path) -> str:
    """The oldest glibc that has what a program names."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())
    if not found:
        raise Fail(f"{program}: no version of glibc in it")
    return "{}.{}".format(*max((int(major), int(minor)) for major, minor in found))


def fields(version: str, arch: str, libc: str) -> dict[str, str]:
    return {"Package": "cgctl", "Version": version, "Architecture": arch, "Maintainer": debian_package.MAINTAINER,
            "Depends": f"libc6 (>= {libc}), libgcc-s1", "Recommends": "systemd (>= 252)", "Section": "admin",
            "Priority": "optional", "Description": DESCRIPTION}


def build() -> Path:
    cgctl.build()
    root = OUT / "cgctl-deb"
    shutil.rmtree(root, ignore_errors=True)
    cgctl.install(root)
    for page in sorted((root / "usr/share/man").glob("man*/*")):
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    arch = capture(["dpkg", "--print-architecture"]).strip()
    return debian_package.build(root, fields(release_version.of_packages(os.environ), arch, glibc(cgctl.PROGRAM)), OUT,
                                {"postinst": POSTINST, "prerm": PRERM, "postrm": POSTRM})


def manual_pages(root: Path) -> list[Test]:
    """groff has nothing to complain of, and the name at the top is that of the file."""
    tests = []
    for path in sorted((root / "usr/share/man").glob("man*/*.gz")):
        page = gzip.decompress(path.read_bytes())
        done = subprocess.run(["groff", "-ww", "-man", "-Kutf8", "-Tutf8"], input=page, capture_output=True, check=False)
        name, _, section = path.stem.rpartition(".")
        good = not done.stderr and not done.returncode and f"{name}({section})".upper().encode() in done.stdout
        tests.append(Test(f"manual: {path.stem}", PASSED if good else FAILED, done.stderr.decode()))
    return tests


def test() -> list[Test]:
    """The package has what belongs into it, and what is in it runs."""
    path = build()
    root = OUT / "cgctl-deb-test"
    shutil.rmtree(root, ignore_errors=True)
    capture(["dpkg-deb", "--extract", path, root])
    tests = []
    for name in ("usr/bin/cgctl", "usr/lib/systemd/system/cgctl.service", "usr/share/man/man1/cgctl.1.gz",
                 "usr/share/man/man1/cgctl-watch-events.1.gz", "usr/share/man/man5/cgctl-policy.5.gz",
                 "usr/share/man/man5/cgctl.unit.5.gz", "usr/share/bash-completion/completions/cgctl",
                 "usr/share/zsh/vendor-completions/_cgctl", "usr/share/fish/vendor_completions.d/cgctl.fish",
                 "usr/share/cgctl/drop-ins/batch.conf", "usr/share/cgctl/drop-ins-without-daemon/batch.conf"):
        tests.append(Test(f"deb: {name}", PASSED if (root / name).is_file() else FAILED))
    tests += manual_pages(root)
    done = subprocess.run([root / "usr/bin/cgctl", "--version"], capture_output=True, text=True, check=False)
    runs = done.stdout == f"cgctl {release_version.of_source()}\n"
    tests.append(Test("deb: the program runs", PASSED if runs else FAILED, done.stderr))
    if shutil.which("bash"):
        script = f". {root}/usr/share/bash-completion/completions/cgctl && complete -p cgctl"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        tests.append(Test("deb: bash takes the completions", FAILED if done.returncode else PASSED, done.stderr))
    if shutil.which("systemd-analyze") and os.access("/", os.W_OK):
        # It looks for what the unit starts, so it gets the package's root; there is no kill(1) in it.
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={root}", "cgctl.service"],
                              capture_output=True, text=True, check=False)
        said = [line for line in done.stderr.splitlines() if "cgctl" in line and "/bin/kill" not in line]
        tests.append(Test("deb: the unit is understood", FAILED if said else PASSED, "; ".join(said)))
    shutil.rmtree(root)
    return tests


def main() -> None:
    print(f"  package: {build().relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
