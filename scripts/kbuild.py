#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Configure and build one variant of the kernel in build/<KVER>/<ARCH>/<variant>.

The configuration is allnoconfig plus fragments from configs/; afterwards every line of every fragment is compared
with the .config that came out, because Kconfig drops what it cannot satisfy without a word.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import tree
from common import ANCESTORS, ROOT, Fail, Target, capture, locked, replace_file, run_logged, run_main

# Variant -> fragments on top of base and the architecture's; each may have one more for an architecture.
VARIANTS: dict[str, tuple[str, ...]] = {
    "base": ("systemd",), "debug": ("lockdep", "debug"), "rt": ("lockdep", "debug", "rt"),
    "lint": ("kunit-builtin",), "tickless": ("tickless",),
    # With static keys as Debian's kernels have them, and the KUnit tests that want SMP.
    "jump": ("lockdep", "jump-label", "kunit-builtin"),
    # The lab's machine, and the same with our code compiled out and without it.
    "lab": ("jump-label", "lab"), "lab-off": ("off", "jump-label", "lab"), "lab-pristine": ("jump-label", "lab"),
    # The lab's machine with the rules that ours are compared with.
    f"lab-{ANCESTORS}": ("jump-label", "lab"),
    # With sched_ext, for schedulers to compare with. Figures of it are compared with its own only.
    "lab-scx": ("jump-label", "lab", "scx"),
    # Objects only, to be compared.
    "on": ("jump-label",), "off": ("off", "jump-label"), "pristine": ("jump-label",)}
PRISTINE = {"pristine", "lab-pristine"}  # built from the source without us
# For machines whose CPUs one thread of QEMU emulates in turn, see configs/base.config.
PATCHES_BRANCHES = {"jump"}
WITH_DRIVER = {"lab"}  # bench/lab/kernel, which is in every tree, but in no other kernel
UML = "um"  # the architecture of the kunit variant
OUR_SYMBOLS = re.compile(r"CONFIG_CGROUP_STEER")


def parse_config(text: str, name: str) -> dict[str, str]:
    """Symbol -> value; 'n' for one that is not set."""
    result = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if match := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            result[match[1]] = "n"
        elif match := re.fullmatch(r"(CONFIG_\w+)=(.+)", line):
            result[match[1]] = match[2]
        elif line and not line.startswith("#"):
            raise Fail(f"{name}:{number}: '{line}' is neither CONFIG_X=value nor '# CONFIG_X is not set'")
    return result


def verify_config(fragments: Sequence[tuple[str, str]], result: str) -> list[str]:
    """What the fragments (name, text) want and the resulting configuration does not have."""
    got = parse_config(result, ".config")
    wanted: dict[str, tuple[str, str]] = {}
    for name, text in fragments:
        for symbol, value in parse_config(text, name).items():
            wanted[symbol] = (value, name)
    return [f"{symbol}: wanted {value} ({name}), got {got.get(symbol, 'n')}"
            for symbol, (value, name) in wanted.items() if got.get(symbol, "n") != value]


def read_fragments(names: Iterable[str], drop: re.Pattern[str] | None = None) -> list[tuple[str, str]]:
    result = []
    for name in names:
        path = ROOT / "configs" / f"{name}.config"
        lines = path.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not (drop and drop.search(line)))
        result.append((str(path.relative_to(ROOT)), text + "\n"))
    return result


def environment() -> dict[str, str]:
    """The environment of every build: reproducible banner, and cache hits between clones."""
    return {key: value for key, value in os.environ.items()
            if key not in ("ARCH", "BUILD", "KVER", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CROSS_COMPILE")} | {
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970", "KBUILD_BUILD_USER": "steer",
        "KBUILD_BUILD_HOST": "steer", "KBUILD_BUILD_VERSION": "1", "LC_ALL": "C",
        "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": "time_macros", "CCACHE_MAXSIZE": "8G"}


def make_command(target: Target, variant: str) -> list[str]:
    source = target.pristine if variant in PRISTINE else target.source(variant)
    return ["make", "-C", str(source), f"O={target.out(variant)}", f"ARCH={target.arch}",
            f"CROSS_COMPILE={target.cross_compile}", f"CC=ccache {target.cross_compile}gcc",
            *([f"ARCH_DRIVERS={tree.LAB_DRIVER}/"] if variant in WITH_DRIVER else []), f"-j{os.cpu_count() or 1}"]


def log_path(target: Target, variant: str) -> Path:
    return target.build / target.arch / f"{variant}.log"


def prepare(target: Target, variant: str) -> None:
    """Bring the source that a variant is built from up to date."""
    if variant.endswith(f"-{ANCESTORS}"):
        tree.prepare_ancestors(target)
    else:
        tree.prepare(target)


def configure(target: Target, variant: str) -> None:
    """Write .config, unless fragments, Kconfig files and compiler are what they were."""
    drop = OUR_SYMBOLS if variant in PRISTINE else None
    # User-mode Linux shares nothing with the machines: it is only there to run functions.
    names = ["kunit"] if target.arch == UML else [
        name for part in ("base", target.arch, *VARIANTS[variant]) for name in (part, f"{part}-{target.arch}")
        if name == part or (ROOT / "configs" / f"{name}.config").is_file()]
    fragments = read_fragments(names, drop)
    out = target.out(variant)
    state = hashlib.sha256()
    for name, text in fragments:
        state.update(f"{name}\n{text}".encode())
    for path in sorted([*ROOT.glob(f"hooks/{target.kver}/*"), *ROOT.glob("kernel/**/Kconfig*")]):
        if path.is_file():
            state.update(path.read_bytes())
    state.update((target.build / "pristine.version").read_bytes())
    state.update(capture([f"{target.cross_compile}gcc", "--version"]).encode())
    stamp = out / "steer-config.stamp"
    if stamp.is_file() and (out / ".config").is_file() and stamp.read_text() == state.hexdigest():
        return
    out.mkdir(parents=True, exist_ok=True)
    merged = out / "steer-fragments.config"
    merged.write_text("".join(text for _, text in fragments), encoding="utf-8")
    # Written elsewhere first: an unchanged .config keeps its time stamp, and so do the objects.
    work = out / "steer-new.config"
    run_logged([*make_command(target, variant), f"KCONFIG_ALLCONFIG={merged}", f"KCONFIG_CONFIG={work}",
                "allnoconfig"], log_path(target, variant), f"configuring {target.arch} {variant}", env=environment())
    text = work.read_text(encoding="utf-8")
    if problems := verify_config(fragments, text):
        raise Fail("the kernel configuration did not take these settings (a dependency is missing, or a "
                   "fragment names a symbol that this kernel does not have):\n  " + "\n  ".join(problems))
    work.unlink()
    if not (out / ".config").is_file() or (out / ".config").read_text(encoding="utf-8") != text:
        replace_file(out / ".config", text.encode())
    stamp.write_text(state.hexdigest())


def image(target: Target, variant: str) -> Path:
    name = {"x86_64": "arch/x86/boot/bzImage", "arm64": "arch/arm64/boot/Image", UML: "linux"}[target.arch]
    return target.out(variant) / name


def build(target: Target, variant: str, goals: Sequence[str] = ()) -> Path:
    """Build the goals (default: the bootable image) of a variant; returns the image's path."""
    if not shutil.which("ccache") or not shutil.which(f"{target.cross_compile}gcc"):
        raise Fail(f"ccache or {target.cross_compile}gcc is missing; run: ARCH={target.arch} scripts/setup kernel")
    with locked(target.build / "lock"):
        prepare(target, variant)
        configure(target, variant)
        run_logged([*make_command(target, variant), *(goals or [image(target, variant).name])],
                   log_path(target, variant), f"building {target.arch} {variant}", env=environment())
    return image(target, variant)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--variant", choices=VARIANTS, default="base")
    parser.add_argument("--configure-only", action="store_true")
    parser.add_argument("--print-make", action="store_true", help="print the make command instead of running it")
    parser.add_argument("goals", nargs="*", help="make goals (default: the bootable image)")
    arguments = parser.parse_args()
    target = Target.from_environment()
    if arguments.print_make:
        print(shlex.join(make_command(target, arguments.variant)))
    elif arguments.configure_only:
        prepare(target, arguments.variant)
        configure(target, arguments.variant)
    else:
        print(f"  kernel: {build(target, arguments.variant, arguments.goals).relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
