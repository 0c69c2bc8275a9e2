#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Debian with its container engines on the built kernel: how policies reach containers, and what becomes of them.

With ENGINES=newest in the environment, runc and containerd are not Debian's but those of containers/engines/go.mod.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import debian_machine  # noqa: E402
import nri  # noqa: E402
from common import ROOT, Fail, run_logged, run_main  # noqa: E402

# The first one whose containerd has NRI
RELEASE = "trixie"
PACKAGES = ("aardvark-dns", "busybox-static", "ca-certificates", "catatonit", "conmon", "containerd",
            "containernetworking-plugins", "crun", "iproute2", "iptables", "netavark", "nftables", "podman", "runc")
# What the packages' scripts would have chosen
LINKS = {"usr/sbin/iptables": "xtables-nft-multi", "usr/sbin/ip6tables": "xtables-nft-multi"}


CRICTL = ROOT / "build/crictl"
# The newest engines, which no Debian release has: main packages of containers/engines/go.mod
NEWEST = ROOT / "build/engines"
CONTAINERD = [f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")]
RUNC = "github.com/opencontainers/runc"
SERVICE = "[Service]\nExecStart=\nExecStart=/usr/local/bin/containerd\n"


def programs() -> debian_machine.Files:
    """What Debian does not have: the plugin, and a client of the container runtime interface, in a fixed version."""
    run_logged([nri.go(), "build", "-ldflags", "-s -w", "-o", CRICTL, "sigs.k8s.io/cri-tools/cmd/crictl"],
               ROOT / "build/crictl.log", "building crictl", cwd=ROOT / "containers/crictl", env=nri.environment())
    unit = ROOT / "containers/nri/cgroup-steer-nri.service"
    return {"usr/bin/crictl": (CRICTL.read_bytes(), 0o755), "usr/sbin/cgroup-steer-nri": (nri.build().read_bytes(), 0o755),
            f"etc/systemd/system/{unit.name}": (unit.read_bytes(), 0o644),
            # containerd copies it into each pod.
            "etc/resolv.conf": (b"", 0o644)}


def newest() -> debian_machine.Files:
    """What comes before Debian's engines, as /usr/local comes first. Both are static, so no libraries of the machine that
    builds them are wanted."""
    NEWEST.mkdir(parents=True, exist_ok=True)

    def build(what: str, packages: list[str], flags: str, cgo: bool) -> None:
        # They want a newer Go than the plugin; go gets it as a module.
        run_logged([nri.go(), "build", "-tags", "netgo osusergo", "-ldflags", f"-s -w {flags}", "-o",
                    f"{NEWEST}/", *packages], ROOT / "build/engines.log", f"building {what}", cwd=ROOT / "containers/engines",
                   env=nri.environment(cgo) | {"GOTOOLCHAIN": "auto"})

    build("containerd", CONTAINERD, "", cgo=False)
    build("runc", [RUNC], "-extldflags -static", cgo=True)
    return programs() | {f"usr/local/bin/{path.name}": (path.read_bytes(), 0o755) for path in sorted(NEWEST.iterdir())} | {
        "etc/systemd/system/containerd.service.d/newest.conf": (SERVICE.encode(), 0o644)}


SUITE = debian_machine.Suite("containers", readme=ROOT / "containers/README.md", many=200, packages=PACKAGES, memory=2048,
                             disk=3072, extra=programs, links=LINKS, second_boot="cgroup_steer=0")


ENGINES = {"debian": programs, "newest": newest}


def main() -> int:
    engines = os.environ.get("ENGINES") or "debian"
    if engines not in ENGINES:
        raise Fail(f"ENGINES={engines}: one of {', '.join(ENGINES)} is wanted")
    suite = dataclasses.replace(SUITE, parameters="steer.long=1", time_limit=3600, extra=ENGINES[engines])
    return debian_machine.start(suite, __doc__, "--containers", RELEASE)


if __name__ == "__main__":
    run_main(main)
