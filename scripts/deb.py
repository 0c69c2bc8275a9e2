#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build installable Debian packages of the tree from Debian's own configuration plus configs/deb.config."""

from __future__ import annotations

import argparse
import lzma
import os
import platform
import shutil
from pathlib import Path

import foreign
import kbuild
import tree
from common import ROOT, Fail, Target, host_arch, replace_file, run_logged, run_main


def debian_config(target: Target) -> tuple[str, str]:
    """Debian's configuration for the target, and where it is from."""
    arch = foreign.DEBIAN_ARCH[target.arch]
    root = Path("/") if target.arch == host_arch() else foreign.unpack(target, f"linux-config-{target.kver}")
    packaged = root / f"usr/src/linux-config-{target.kver}" / f"config.{arch}_none_{arch}.xz"
    if packaged.is_file():
        return lzma.decompress(packaged.read_bytes()).decode(), str(packaged)
    running = Path(f"/boot/config-{platform.release()}")
    if target.arch == host_arch() and running.is_file():
        return running.read_text(encoding="utf-8"), str(running)
    raise Fail(f"Debian's kernel configuration is neither in {packaged} nor in {running}; "
               f"run: scripts/setup deb")


def configure(target: Target) -> Path:
    """Write the configuration and verify that ours stuck; returns the build directory."""
    tree.prepare(target)
    config, origin = debian_config(target)
    fragments = kbuild.read_fragments(["deb"])
    if not shutil.which("pahole"):
        print("  note: pahole is missing (package dwarves): building without BTF, which BPF tools want")
        fragments.append(("no pahole", "# CONFIG_DEBUG_INFO_BTF is not set\n"))
    out = target.out("deb")
    out.mkdir(parents=True, exist_ok=True)
    replace_file(out / ".config", (config + "".join(text for _, text in fragments)).encode())
    log = kbuild.log_path(target, "deb")
    run_logged([*kbuild.make_command(target, "deb"), "olddefconfig"], log, f"configuring {target.arch} deb",
               env=kbuild.environment())
    if problems := kbuild.verify_config(fragments, (out / ".config").read_text(encoding="utf-8")):
        raise Fail(f"on top of {origin} these settings did not stick:\n  " + "\n  ".join(problems))
    print(f"  configured from {origin}")
    return out


def build(target: Target) -> list[Path]:
    out = configure(target)
    packages = out.parent
    free = shutil.disk_usage(packages).free >> 30
    if free < 40:
        print(f"  note: {free} GiB are free; a kernel with Debian's configuration wants about 40")
    for old in packages.glob("*.deb"):
        old.unlink()
    environment = kbuild.environment() | {"KDEB_PKGVERSION": f"{tree.package_version(target.kver)}+steer1"}
    run_logged([*kbuild.make_command(target, "deb"), "bindeb-pkg"], kbuild.log_path(target, "deb"),
               f"building {target.arch} packages", env=environment)
    return sorted(packages.glob("*.deb"))


def configure_main() -> None:
    configure(Target.from_environment())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configure-only", action="store_true")
    arguments = parser.parse_args()
    target = Target.from_environment(os.environ)
    if arguments.configure_only:
        configure(target)
        return
    for package in build(target):
        print(f"  {package.relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
