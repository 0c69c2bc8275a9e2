#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build installable Debian packages of the tree from Debian's own configuration plus configs/deb.config.

Debian has several configurations for an architecture. FLAVOUR chooses: "" is the one for all machines, "cloud" the one
for virtual machines, with a fifth of the modules, and built in as much less time. DEBUG_SYMBOLS=1 adds the package with
debug symbols, which takes as long to compress as all others together.

The kernel's own bindeb-pkg makes the packages of image and headers, after the kernel has been built by itself: what was
interrupted goes on where it was. Beside them come packages without files, as Debian has them: linux-image-steer and
linux-headers-steer (with -cloud) depend on the latest build, so that an upgrade brings the next one and the one before
stays to go back to.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import lzma
import os
import platform
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import deb_control
import debian_package
import foreign
import kbuild
import release_version
import tree
from common import ROOT, Fail, Target, capture, host_arch, locked, replace_file, run_logged, run_main

# "small" is made of configs/: minutes to build, boots Debian in QEMU, for trying packages and repository.
FLAVOURS = ("", "cloud", "small")


@dataclasses.dataclass(frozen=True)
class Need:
    """Of a build from nothing, without debug symbols: steps of make, minutes on two cores, disk in GiB. Projected: from
    what `make -n` lists, or the number of modules, and 1.1 s of CPU time that a file takes."""

    steps: int
    minutes: int
    disk: int


NEEDS = {"small": Need(2100, 15, 2), "cloud": Need(9700, 75, 8), "": Need(30000, 240, 30)}


def flavour_from_environment(environ: Mapping[str, str]) -> str:
    flavour = environ.get("FLAVOUR", "")
    if flavour not in FLAVOURS:
        raise Fail(f"FLAVOUR={flavour} is not known; leave it empty for all machines, or use cloud (for virtual "
                   "machines) or small (to try it in QEMU)")
    return flavour


def flavoured(name: str, flavour: str) -> str:
    return f"{name}-{flavour}" if flavour else name


def variant(flavour: str) -> str:
    """The build directory."""
    return flavoured("deb", flavour)


def local_version(flavour: str) -> str:
    """What follows the version of the kernel."""
    return flavoured(f"-steer{release_version.of_packages(os.environ)}", flavour)


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


def our_fragments(flavour: str) -> list[tuple[str, str]]:
    """What the configuration must have, whatever it begins with."""
    ours = [] if flavour == "small" else kbuild.read_fragments(["deb"])
    return [*ours, ("the flavour", f'CONFIG_LOCALVERSION="{local_version(flavour)}"\n')]


def configure(target: Target, flavour: str = "") -> Path:
    """Write the configuration and verify that ours stuck; returns the build directory."""
    with locked(target.build / "lock"):
        tree.prepare(target)
    out = target.out(variant(flavour))
    out.mkdir(parents=True, exist_ok=True)
    fragments, settings = our_fragments(flavour), []
    if flavour == "small":
        fragments = [*kbuild.read_fragments(["base", target.arch, "systemd", "small"]), *fragments]
        origin, goal = "configs/", "allnoconfig"
        merged = out / "steer-fragments.config"
        merged.write_text("".join(text for _, text in fragments), encoding="utf-8")
        settings.append(f"KCONFIG_ALLCONFIG={merged}")
    else:
        config, origin = debian_config(target, flavour)
        goal = "olddefconfig"
        if not shutil.which("pahole"):
            print("  note: pahole is missing (package dwarves): building without BTF, which BPF tools want")
            fragments.append(("no pahole", "# CONFIG_DEBUG_INFO_BTF is not set\n"))
        replace_file(out / ".config", (config + "".join(text for _, text in fragments)).encode())
    run_logged([*kbuild.make_command(target, variant(flavour)), *settings, goal],
               kbuild.log_path(target, variant(flavour)), f"configuring {target.arch} {variant(flavour)}",
               env=kbuild.environment())
    if problems := kbuild.verify_config(fragments, (out / ".config").read_text(encoding="utf-8")):
        raise Fail(f"on top of {origin} these settings did not stick:\n  " + "\n  ".join(problems))
    run_logged([*kbuild.make_command(target, variant(flavour)), "include/config/kernel.release"],
               kbuild.log_path(target, variant(flavour)), f"naming {target.arch} {variant(flavour)}",
               env=kbuild.environment(), append=True)
    print(f"  configured from {origin}; uname -r: {kernel_release(target, flavour)}")
    return out


# Of the compiler and other tools of the build: they say what is there, not what was chosen.
TOOLS = re.compile(r"CONFIG_((CC|GCC|CLANG|LD|LLD|AS|RUSTC|PAHOLE|BINDGEN|TOOLS|HAVE)_\w+|HAVE_RUST|RUST_IS_AVAILABLE)")
DIFFERENCES = ROOT / "packaging/configuration.md"


def differences(debian: str, ours: str) -> dict[str, tuple[str, str]]:
    """Symbol -> Debian's value and ours, where they differ; "-" for one that is not there."""
    before, after = kbuild.parse_config(debian, "Debian's configuration"), kbuild.parse_config(ours, ".config")
    return {symbol: (before.get(symbol, "-"), after.get(symbol, "-")) for symbol in sorted(before.keys() | after.keys())
            if before.get(symbol, "n") != after.get(symbol, "n") and not TOOLS.fullmatch(symbol)}


def documented(page: str) -> dict[str, tuple[str, str]]:
    """The same, as the page has them, with * for any text."""
    rows = re.findall(r"^\| `(CONFIG_\w+)` \| (\S+) \| (\S+) \| [^|]+ \|$", page, re.MULTILINE)
    return {symbol: (before, after) for symbol, before, after in rows}


def compare_with_page(found: Mapping[str, tuple[str, str]], page: str) -> list[str]:
    """What the page does not say, or says and is not so."""
    said = documented(page)
    lines = [f"{symbol}: Debian {before}, here {after}; the page has {' and '.join(said.get(symbol, ('nothing',)))}"
             for symbol, (before, after) in found.items()
             if symbol not in said or said[symbol][0] != before or not fnmatch.fnmatchcase(after, said[symbol][1])]
    return lines + [f"{symbol}: on the page, but there is no difference" for symbol in said if symbol not in found]


def check_differences(target: Target, flavour: str) -> None:
    """The configuration that is there differs from Debian's as the documentation says."""
    if flavour == "small":
        return
    debian, _ = debian_config(target, flavour)
    ours = (target.out(variant(flavour)) / ".config").read_text(encoding="utf-8")
    if lines := compare_with_page(differences(debian, ours), DIFFERENCES.read_text(encoding="utf-8")):
        raise Fail(f"{DIFFERENCES.relative_to(ROOT)} does not have what differs from Debian's configuration:\n  " +
                   "\n  ".join(lines))


def control_files(target: Target, flavour: str) -> str:
    """debian/control of a configured build directory, as the packages will have it, without building them."""
    version = package_version(tree.package_version(target.kver), release_version.of_packages(os.environ))
    out = target.out(variant(flavour))
    command = [*kbuild.make_command(target, variant(flavour)), "-s"]
    environment = build_environment(version, flavour)
    run_logged([*command, "run-command", "KBUILD_RUN_COMMAND=$(srctree)/scripts/package/mkdebian"],
               kbuild.log_path(target, f"{variant(flavour)}-control"), "writing control files", env=environment)
    deb_control.complete_file(out / "debian/control")
    return (out / "debian/control").read_text(encoding="utf-8")


def stub_packages(target: Target, flavour: str, directory: Path) -> list[Path]:
    """The packages of a configured build with everything but their files, by Debian's own tools."""
    out, packages = target.out(variant(flavour)), []
    control = control_files(target, flavour)
    version = capture(["dpkg-parsechangelog", "-l", out / "debian/changelog", "-S", "Version"]).strip()
    for name in re.findall(r"^Package: (\S+)$", control, re.MULTILINE):
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "DEBIAN").mkdir()
            capture(["env", "-C", out, "dpkg-gencontrol", f"-p{name}", f"-P{root}", f"-O{root}/DEBIAN/control"])
            package = directory / f"{name}_{version}_{foreign.DEBIAN_ARCH[target.arch]}.deb"
            capture(["dpkg-deb", "--root-owner-group", "--build", root, package])
            packages.append(package)
    release = kernel_release(target, flavour)
    return [*packages, *build_latest(release, flavour, version, foreign.DEBIAN_ARCH[target.arch], directory)]


def package_version(base: str, released: str) -> str:
    """Above Debian's package that it is built from, and below all that Debian may build after that: a rebuild (+b1), a
    security update (+deb13u1), the next revision. "+~" is above nothing at all and below "+" with anything else."""
    return f"{base}+~steer{released}"


def latest(release: str, flavour: str, version: str, arch: str) -> list[dict[str, str]]:
    """The control fields of the packages that depend on this build."""
    common = {"Version": version, "Architecture": arch, "Section": "kernel", "Priority": "optional",
              "Maintainer": debian_package.MAINTAINER}
    name = flavoured("steer", flavour)
    kind = " for virtual machines" if flavour == "cloud" else ""
    return [
        {"Package": f"linux-image-{name}", **common, "Depends": f"linux-image-{release} (= {version})",
         "Recommends": "cgctl",
         "Description": f"Linux{kind} with CPU policies for cgroups (latest build)\n"
                        "Depends on the latest kernel with cpu.hint, cpu.gang and cpu.headroom, so that an upgrade\n"
                        "of the system brings the next one. Kernels before that stay installed."},
        {"Package": f"linux-headers-{name}", **common, "Depends": f"linux-headers-{release} (= {version})",
         "Description": f"headers of Linux{kind} with CPU policies for cgroups (latest build)\n"
                        "Depends on the headers of the latest kernel with cpu.hint, cpu.gang and cpu.headroom:\n"
                        "modules of DKMS are built for each new kernel."}]


# After the kernel's own: it may have been configured before our file for GRUB was there, or goes after it has gone. And
# depmod on the machine, for initramfs-tools or DKMS, may have written files that no package knows.
MAINTAIN = """\
#!/bin/sh
set -e
for modules in /lib/modules/*-steer*@SUFFIX@; do
	[ -d "$modules" ] && [ ! -e "/boot/vmlinuz-${modules##*/}" ] || continue
	rm -f "$modules"/modules.*
	rmdir --ignore-fail-on-non-empty "$modules"
done
[ ! -x /usr/sbin/update-grub ] || [ ! -d /boot/grub ] || update-grub
"""


def build_latest(release: str, flavour: str, version: str, arch: str, directory: Path) -> list[Path]:
    """The packages that depend on this build; that of the image makes it what GRUB boots."""
    image, headers = latest(release, flavour, version, arch)
    with tempfile.TemporaryDirectory() as work:
        grub = (ROOT / "packaging/grub.cfg").read_text(encoding="utf-8")
        # Those of the other flavour end otherwise.
        suffix = f"-{flavour}" if flavour else "[0-9]"
        grub, script = grub.replace("@SUFFIX@", suffix), MAINTAIN.replace("@SUFFIX@", suffix)
        replace_file(Path(work) / f"etc/default/grub.d/50_{image['Package']}.cfg", grub.encode())
        scripts = {"postinst": script, "postrm": script}
        packages = [debian_package.build(Path(work), image, directory, scripts)]
    # The small kernel has no modules, and so no headers to build them with.
    return packages if flavour == "small" else [*packages, debian_package.build(None, headers, directory)]


def packages_in(directory: Path, flavour: str) -> list[Path]:
    """Those of the build of a flavour that this source makes."""
    suffix, name = local_version(flavour), flavoured("steer", flavour)
    version = f"+~steer{release_version.of_packages(os.environ)}"
    names = (f"linux-*{suffix}_*.deb", f"linux-*{suffix}-dbg_*.deb", f"linux-image-{name}_*{version}_*.deb",
             f"linux-headers-{name}_*{version}_*.deb")
    return sorted(path for pattern in names for path in directory.glob(pattern))


def kernel_release(target: Target, flavour: str) -> str:
    """What `uname -r` will say; known when it is configured."""
    return (target.out(variant(flavour)) / "include/config/kernel.release").read_text(encoding="utf-8").strip()


def build_environment(version: str, flavour: str) -> dict[str, str]:
    # The small one shares preprocessed text with other variants; for the others nothing is like them in the cache, and
    # preprocessing for the sake of that takes a third of the time.
    return kbuild.environment() | {"KDEB_PKGVERSION": version, "KDEB_CHANGELOG_DIST": "stable",
                                   "DEB_BUILD_OPTIONS": f"parallel={os.cpu_count() or 1} terse"} | (
        {} if flavour == "small" else {"CCACHE_DEPEND": "1"})


def outlay(target: Target, flavour: str) -> str:
    """What a build from nothing takes, to be said before it begins."""
    need = NEEDS[flavour]
    return (f"{target.arch} {variant(flavour)}: about {need.steps} steps, {need.minutes} minutes on two cores and "
            f"{need.disk} GiB when nothing is built yet; an interrupted build goes on where it was")


def build(target: Target, flavour: str = "", debug_symbols: bool = False) -> list[Path]:
    """Returns the packages, in the directory above that of the build."""
    out = configure(target, flavour)
    packages, need = out.parent, NEEDS[flavour]
    print(f"  {outlay(target, flavour)}", flush=True)
    free = shutil.disk_usage(packages).free >> 30
    if free < need.disk and not (out / "vmlinux").is_file():
        print(f"  note: only {free} GiB are free")
    for old in packages_in(packages, flavour):
        old.unlink()
    version = package_version(tree.package_version(target.kver), release_version.of_packages(os.environ))
    release, environment = kernel_release(target, flavour), build_environment(version, flavour)
    # As the packages' rules will have it, so that these find nothing left to do.
    settings = [f"KERNELRELEASE={release}", f"KBUILD_BUILD_VERSION={version.rpartition('-')[2]}"]
    command = kbuild.make_command(target, variant(flavour))
    with locked(target.build / f"{variant(flavour)}.lock"):
        start = time.monotonic()
        run_logged([*command, *settings, "headers", "all"], kbuild.log_path(target, variant(flavour)),
                   f"building {target.arch} {variant(flavour)}", env=environment, total=need.steps)
        built = time.monotonic()
        profiles = [] if debug_symbols else ["-Ppkg.linux-upstream.nokerneldbg"]
        hook = shlex.join(["/usr/bin/python3", str(ROOT / "scripts/deb_control.py"), "debian"])
        run_logged([*command, "bindeb-pkg", "DPKG_FLAGS=" + shlex.join([*profiles, f"--hook-init={hook}"])],
                   kbuild.log_path(target, f"{variant(flavour)}-packages"), f"packing {target.arch} {variant(flavour)}",
                   env=environment)
    arch = foreign.DEBIAN_ARCH[target.arch]
    build_latest(release, flavour, version, arch, packages)
    print(f"  built in {(built - start) / 60:.1f} minutes, packed in {(time.monotonic() - built) / 60:.1f}")
    return packages_in(packages, flavour)


def configure_main() -> None:
    target = Target.from_environment()
    for flavour in FLAVOURS:
        configure(target, flavour)
        check_differences(target, flavour)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configure-only", action="store_true")
    arguments = parser.parse_args()
    target = Target.from_environment(os.environ)
    flavour = flavour_from_environment(os.environ)
    if arguments.configure_only:
        configure(target, flavour)
        check_differences(target, flavour)
        return
    for package in build(target, flavour, os.environ.get("DEBUG_SYMBOLS", "") not in ("", "0")):
        print(f"  {package.relative_to(ROOT)} ({package.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    run_main(main)
