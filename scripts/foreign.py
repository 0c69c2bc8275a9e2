# SPDX-License-Identifier: GPL-2.0-only
"""Files of a Debian package of another architecture, without installing it or changing apt's configuration."""

from __future__ import annotations

from pathlib import Path

from common import Fail, Target, capture, run_logged

DEBIAN_ARCH = {"x86_64": "amd64", "arm64": "arm64"}


def unpack(target: Target, package: str) -> Path:
    """Download the package for the target from the machine's own apt sources; returns where it is unpacked."""
    arch = DEBIAN_ARCH[target.arch]
    work = target.build / target.arch / "packages"
    root = work / package
    if root.is_dir():
        return root
    lists, cache = work / "lists", work / "cache"
    for directory in (lists / "partial", cache / "archives/partial"):
        directory.mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "-q", "-o", f"APT::Architecture={arch}", "-o", f"APT::Architectures={arch}",
           "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User=root"]
    log = work / "apt.log"
    run_logged([*apt, "update"], log, f"apt lists for {arch}", cwd=work, item=r"^(Get|Hit):(\d+)")
    run_logged([*apt, "download", package], log, f"{package} for {arch}", cwd=work, append=True)
    archives = list(work.glob(f"{package}_*.deb"))
    if not archives:
        raise Fail(f"apt-get downloaded no {package} for {arch}; see {log}")
    unpacked = work / f"{package}.new"
    capture(["dpkg-deb", "-x", archives[0], unpacked])
    unpacked.rename(root)
    return root
