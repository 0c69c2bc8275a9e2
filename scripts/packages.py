#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The check of packages and repository that needs no kernel: packages of each flavour with everything but their files,
beside those of cgctl and of the kselftests, in a repository that apt reads.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import cgctl_deb
import deb
import foreign
import repo
import selftests_deb
from common import ROOT, Target, capture

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, SKIPPED, Test  # noqa: E402

# What Debian's own packages are, on a machine that installs ours. libelf has two names.
DEBIAN = {"bookworm": ("kmod", "linux-base", "initramfs-tools", "libc6", "libgcc-s1", "perl-base", "libelf1"),
          "trixie": ("kmod", "linux-base", "initramfs-tools", "libc6", "libgcc-s1", "perl-base", "libelf1t64")}
INSTALLED = """\
Package: {name}
Status: install ok installed
Version: 99
Architecture: {arch}
Maintainer: Debian
Description: stands for Debian's

"""


class Apt:
    """apt with directories of its own below `work`, that knows the repository and nothing else. `installed` are names
    of packages that it takes for installed."""

    def __init__(self, work: Path, repository: Path | str, signed_by: Path, installed: Iterable[str] = (),
                 arch: str = "amd64"):
        """repository: a directory, or an address."""
        self.work, self.arch = work, arch
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (work / name).mkdir(parents=True, exist_ok=True)
        status = "".join(INSTALLED.format(name=name, arch=arch) for name in installed)
        (work / "status").write_text(status, encoding="utf-8")
        uri = repository if isinstance(repository, str) else f"file:{repository}"
        (work / "etc/x.sources").write_text(repo.sources(uri, signed_by), encoding="utf-8")

    def __call__(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = [f"-o={name}={value}" for name, value in {
            "Dir::State": self.work / "state", "Dir::State::status": self.work / "status",
            "Dir::Cache": self.work / "cache", "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self.work / "etc", "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Architecture": self.arch, "APT::Architectures::": self.arch, "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false", "APT::Update::Post-Invoke-Success::": "",
            "Debug::NoLocking": "1"}.items()]
        return subprocess.run([program, *options, *arguments], capture_output=True, text=True, check=False,
                              cwd=self.work, env=os.environ | {"LC_ALL": "C"})


def wanted(flavour: str) -> list[str]:
    """What a machine with this flavour installs."""
    name = deb.flavoured("steer", flavour)
    return [f"linux-image-{name}", *headers(name, flavour), "cgctl", "steer-selftests"]


def headers(name: str, flavour: str) -> list[str]:
    """The kernel of the flavour small has no modules."""
    return [] if flavour == "small" else [f"linux-headers-{name}"]


def installs(work: Path, repository: Path, release: str, flavour: str, kernel: str, arch: str) -> Test:
    """apt would install all of a flavour, and the kernel's package is named as `uname -r` will be."""
    name = f"packages: {deb.flavoured('steer', flavour)} on {release}"
    apt = Apt(work, repository, repository / repo.KEY_FILE, DEBIAN[release], arch)
    update = apt("apt-get", "update")
    done = apt("apt-get", "install", "--simulate", *wanted(flavour))
    found = set(re.findall(r"^Inst (\S+)", done.stdout, re.MULTILINE))
    missing = {*wanted(flavour), f"linux-image-{kernel}", *headers(kernel, flavour)} - found
    good = not update.returncode and not done.returncode and not missing and "linux-libc-dev" not in found
    return Test(name, PASSED if good else FAILED, "" if good else f"{update.stderr}{done.stdout}{done.stderr}")


def version_is_between(package: Path, base: str) -> Test:
    found = capture(["dpkg-deb", "--field", package, "Version"]).strip()
    good = not subprocess.run(["dpkg", "--compare-versions", found, "gt", base], check=False).returncode and \
        not subprocess.run(["dpkg", "--compare-versions", found, "lt", f"{base}+b1"], check=False).returncode
    return Test(f"packages: version of {package.name.partition('_')[0]}", PASSED if good else FAILED,
                "" if good else f"{found} is not between Debian's {base} and a rebuild of that")


def run(target: Target) -> list[Test]:
    """Wants the build directories of the step deb-config."""
    if target.cross_compile:
        return [Test("packages", SKIPPED, f"cgctl is built for this machine, not for {target.arch}")]
    arch, tests = foreign.DEBIAN_ARCH[target.arch], []
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        stubs = work / "stubs"
        stubs.mkdir()
        kernels, packages = {}, []
        for flavour in deb.FLAVOURS:
            made = deb.stub_packages(target, flavour, stubs)
            kernels[flavour] = next(path.name.partition("_")[0].removeprefix("linux-image-") for path in made)
            tests += [version_is_between(made[0], deb.tree.package_version(target.kver))]
            good = kernels[flavour].endswith(deb.local_version(flavour))
            tests.append(Test(f"packages: suffix of {deb.variant(flavour)}", PASSED if good else FAILED,
                              kernels[flavour]))
            packages += made
        repository = work / "repo"
        repo.add([*packages, cgctl_deb.build(), selftests_deb.build(target)], repository)
        repo.publish(repository, repo.key({"HOME": str(work)}))
        for release in DEBIAN:
            tests += [installs(work / release, repository, release, flavour, kernels[flavour], arch)
                      for flavour in deb.FLAVOURS]
    return tests
