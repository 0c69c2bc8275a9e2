#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Debian with its container engines on the built kernel: how policies reach containers, and what becomes of them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import debian_machine  # noqa: E402
import nri  # noqa: E402
from common import ROOT, run_logged, run_main  # noqa: E402

# The first one whose containerd has NRI
RELEASE = "trixie"
PACKAGES = ("aardvark-dns", "busybox-static", "ca-certificates", "catatonit", "conmon", "containerd",
            "containernetworking-plugins", "crun", "iproute2", "iptables", "netavark", "nftables", "podman", "runc")
# What the packages' scripts would have chosen
LINKS = {"usr/sbin/iptables": "xtables-nft-multi", "usr/sbin/ip6tables": "xtables-nft-multi"}


CRICTL = ROOT / "build/crictl"


def programs() -> debian_machine.Files:
    """What Debian does not have: the plugin, and a client of the container runtime interface, in a fixed version."""
    run_logged([nri.go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", CRICTL, "sigs.k8s.io/cri-tools/cmd/crictl"],
               ROOT / "build/crictl.log", "building crictl", cwd=ROOT / "containers/crictl", env=nri.environment())
    unit = ROOT / "containers/nri/cgroup-steer-nri.service"
    return {"usr/bin/crictl": (CRICTL.read_bytes(), 0o755), "usr/sbin/cgroup-steer-nri": (nri.build().read_bytes(), 0o755),
            f"etc/systemd/system/{unit.name}": (unit.read_bytes(), 0o644),
            # containerd copies it into each pod.
            "etc/resolv.conf": (b"", 0o644)}


SUITE = debian_machine.Suite("containers", readme=ROOT / "containers/README.md", many=200, packages=PACKAGES, memory=2048,
                             disk=3072, extra=programs, links=LINKS, second_boot="cgroup_steer=0")


def main() -> int:
    return debian_machine.start(dataclasses.replace(SUITE, parameters="steer.long=1", time_limit=3600), __doc__,
                                "--containers", RELEASE)


if __name__ == "__main__":
    run_main(main)
