#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build installable Debian packages of the tree from Debian's own configuration plus configs/deb.config.

Debian has several configurations for an architecture. FLAVOUR chooses: "" is the one for all machines, "cloud" the one
for virtual machines, with a fifth of the modules, and built in as much less time.
"""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

import foreign
import kbuild
import tree
from common import ROOT, Fail, Target, host_arch, replace_file, run_logged, run_main

FLAVOURS = ("", "cloud")


def flavour_from_environment(environ: Mapping[str, str]) -> str:
    flavour = environ.get("FLAVOUR", "")
    if flavour not in FLAVOURS:
        raise Fail(f"FLAVOUR={flavour} is not known; leave it empty for all machines, or use: cloud")
    return flavour


def flavoured(name: str, flavour: str) -> str:
    return f"{name}-{flavour}" if flavour else name


def variant(flavour: str) -> str:
    """The build directory."""
    return flavoured("deb", flavour)


def local_version(flavour: str) -> str:
    """What follows the version of the kernel."""
    return flavoured("-steer", flavour)


def debian_config(target: Target, flavour: str = "") -> tuple[str, str]:
    """Debian's configuration for the target, and where it is from."""
    arch = foreign.DEBIAN_ARCH[target.arch]
    name = f"{flavour}-{arch}" if flavour else arch
    root = Path("/") if target.arch == host_arch() else foreign.unpack(target, f"linux-config-{target.kver}")
    packaged = root / f"usr/src/linux-config-{target.kver}" / f"config.{arch}_none_{name}.xz"
    if packaged.is_file():
        return lzma.decompress(packaged.read_bytes()).decode(), str(packaged)
    running = Path(f"/boot/config-{platform.release()}")
    if target.arch == host_arch() and running.is_file() and not flavour:
        return running.read_text(encoding="utf-8"), str(running)
    places = f"not in {packaged}" if flavour else f"neither in {packaged} nor in {running}"
    raise Fail(f"Debian's kernel configuration is {places}; run: scripts/setup deb")


def configure(target: Target, flavour: str = "") -> Path:
    """Write the configuration and verify that ours stuck; returns the build directory."""
    tree.prepare(target)
    config, origin = debian_config(target, flavour)
    fragments = [*kbuild.read_fragments(["deb"]),
                 ("the flavour", f'CONFIG_LOCALVERSION="{local_version(flavour)}"\n')]
    if not shutil.which("pahole"):
        print("  note: pahole is missing (package dwarves): building without BTF, which BPF tools want")
        fragments.append(("no pahole", "# CONFIG_DEBUG_INFO_BTF is not set\n"))
    out = target.out(variant(flavour))
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / ".config", (config + "".join(text for _, text in fragments)).encode())
    log = kbuild.log_path(target, variant(flavour))
    run_logged([*kbuild.make_command(target, variant(flavour)), "olddefconfig"], log,
               f"configuring {target.arch} {variant(flavour)}",
               env=kbuild.environment())
    if problems := kbuild.verify_config(fragments, (out / ".config").read_text(encoding="utf-8")):
        raise Fail(f"on top of {origin} these settings did not stick:\n  " + "\n  ".join(problems))
    print(f"  configured from {origin}")
    return out


def packages_in(directory: Path, flavour: str) -> list[Path]:
    """Those of a flavour; that of the headers for C programs is the same for all."""
    patterns = (f"*{local_version(flavour)}_*.deb", f"*{local_version(flavour)}-dbg_*.deb", "linux-libc-dev_*.deb")
    return sorted(path for pattern in patterns for path in directory.glob(pattern))


def build(target: Target, flavour: str = "") -> list[Path]:
    out = configure(target, flavour)
    packages = out.parent
    free = shutil.disk_usage(packages).free >> 30
    wanted = 8 if flavour else 40
    if free < wanted:
        print(f"  note: {free} GiB are free; a kernel with this configuration of Debian's wants about {wanted}")
    for old in packages_in(packages, flavour):
        old.unlink()
    environment = kbuild.environment() | {"KDEB_PKGVERSION": f"{tree.package_version(target.kver)}+steer1"}
    run_logged([*kbuild.make_command(target, variant(flavour)), "bindeb-pkg"],
               kbuild.log_path(target, variant(flavour)), f"building {target.arch} packages", env=environment)
    return packages_in(packages, flavour)


def configure_main() -> None:
    for flavour in FLAVOURS:
        configure(Target.from_environment(), flavour)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configure-only", action="store_true")
    arguments = parser.parse_args()
    target = Target.from_environment(os.environ)
    flavour = flavour_from_environment(os.environ)
    if arguments.configure_only:
        configure(target, flavour)
        return
    for package in build(target, flavour):
        print(f"  {package.relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
