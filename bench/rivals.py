#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make rivals: build the sched_ext schedulers that the suite `apps` compares with, for the lab's machine.

They are Rust crates, unmodified, of the versions that bench/rivals/rivals.toml pins. They are cross-compiled in a
chroot of a Debian release that has a new enough compiler; it is made once, from the machine's own mirror, and nothing
is installed on this machine. Each result is one static program in build/rivals/bin. What is built already is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

import foreign  # noqa: E402
from common import Fail, capture, locked, replace_file, run_logged, run_main  # noqa: E402

PINS = ROOT / "bench/rivals/rivals.toml"
LINKER = ROOT / "bench/rivals/cross-gcc"
WORK = ROOT / "build/rivals"
BIN = WORK / "bin"
TARGET = "aarch64-unknown-linux-gnu"
# For this machine, and for the lab's. The kernel's headers of backports do not go together with libbpf-sys 1.7.0: only
# the compilers are of backports.
PACKAGES = ("rustc", "cargo", "clang-19", "llvm-19", "libclang-19-dev", "gcc", "libc6-dev", "make", "pkg-config",
            "protobuf-compiler", "libbpf-dev", "gcc-aarch64-linux-gnu", "ca-certificates",
            *(f"{name}:arm64" for name in ("libstd-rust-dev", "libelf-dev", "zlib1g-dev", "libzstd-dev",
                                           "libseccomp-dev", "libc6-dev")))
FROM_BACKPORTS = "rustc cargo libstd-rust-* libstd-rust-*:arm64"
NEEDS_MIB = 8 * 1024
CERTIFICATES = ("SSL_CERT_FILE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE")
HOME = "/root"  # in the chroot
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "LC_ALL": "C.UTF-8",
    "CARGO_HOME": f"{HOME}/.cargo", "CARGO_TARGET_DIR": f"{HOME}/target", "CARGO_TERM_PROGRESS_WHEN": "never",
    "BPF_CLANG": "clang-19", "LIBCLANG_PATH": "/usr/lib/llvm-19/lib",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "/usr/local/bin/aarch64-linux-gnu-gcc",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "-C target-feature=+crt-static",
    "PKG_CONFIG_ALLOW_CROSS": "1", "PKG_CONFIG_PATH": "/usr/lib/aarch64-linux-gnu/pkgconfig",
    "CC_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-gcc", "AR_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-ar"}
# What a network needs on the way out, taken over from this machine
TAKEN_OVER = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Crate:
    """A scheduler: the name of its crate and program, its version, and the SHA-256 of the .crate file."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Pins:
    """What rivals.toml says."""

    release: str
    crates: tuple[Crate, ...]

    @classmethod
    def parse(cls, text: str, name: str) -> Pins:
        found = tomllib.loads(text)
        crates = []
        for crate, pin in found["crates"].items():
            version, checksum = str(pin.get("version", "")), str(pin.get("sha256", ""))
            if not re.fullmatch(r"\d+\.\d+\.\d+", version):
                raise Fail(f"{name}: crates.{crate}: version = '{version}' is not like 1.2.3")
            if not re.fullmatch(r"[0-9a-f]{64}", checksum):
                raise Fail(f"{name}: crates.{crate}: sha256 = '{checksum}' is not 64 hexadecimal digits")
            crates.append(Crate(crate, version, checksum))
        return cls(found["release"], tuple(crates))

    @classmethod
    def load(cls) -> Pins:
        return cls.parse(PINS.read_text(encoding="utf-8"), str(PINS.relative_to(ROOT)))

    def crate(self, name: str) -> Crate:
        for crate in self.crates:
            if crate.name == name:
                return crate
        raise Fail(f"'{name}' is none of the rivals: {', '.join(crate.name for crate in self.crates)}")


def key_of(crate: Crate, release: str, linker: bytes, environment: Mapping[str, str]) -> str:
    """The same for the same program: of what it was built, where, and how."""
    parts = [crate.name, crate.version, crate.sha256, release, *PACKAGES, repr(sorted(environment.items()))]
    return hashlib.sha256("\0".join(parts).encode() + linker).hexdigest()


def built(crate: Crate, pins: Pins) -> Path | None:
    """The scheduler's program, if it was built from what is pinned now."""
    program, stamp = BIN / crate.name, BIN / f"{crate.name}.key"
    if not program.is_file() or not stamp.is_file():
        return None
    key = key_of(crate, pins.release, LINKER.read_bytes(), ENVIRONMENT)
    return program if stamp.read_text(encoding="utf-8").strip() == key else None


def available() -> dict[str, Path]:
    """The schedulers that are there, by name."""
    pins = Pins.load()
    return {crate.name: path for crate in pins.crates if (path := built(crate, pins))}


def with_backports(sources: str, release: str) -> str:
    """apt's sources, and for each archive of the release itself that of its backports."""
    lines = sources.splitlines()
    return "".join(f"{line}\n" for line in [
        *lines, *(line.replace(f" {release} ", f" {release}-backports ") for line in lines if f" {release} " in line)])


def make_chroot(pins: Pins, place: Path) -> None:
    """Debian with the compilers, for this machine's architecture and with libraries for the lab's."""
    own = foreign.own_release()
    sources, preferences = WORK / "sources.list", WORK / "preferences"
    replace_file(sources, with_backports(foreign.sources_of(pins.release, own, capture(list(foreign.INDEXES))),
                                         pins.release).encode())
    replace_file(preferences, f"Package: {FROM_BACKPORTS}\nPin: release n={pins.release}-backports\n"
                              "Pin-Priority: 900\n".encode())
    new = place.with_name("new-chroot")
    shutil.rmtree(new, ignore_errors=True)
    native = capture(["dpkg", "--print-architecture"]).strip()
    run_logged(["mmdebstrap", "--mode=root", "--variant=apt", f"--architectures={native},arm64",
                f"--include={','.join(PACKAGES)}",
                "--setup-hook=mkdir -p \"$1/etc/apt/preferences.d\"",
                f"--setup-hook=cp {shlex.quote(str(preferences))} \"$1/etc/apt/preferences.d/rivals\"",
                "--customize-hook=chroot \"$1\" apt-get clean", pins.release, new, sources],
               WORK / "mmdebstrap.log", f"chroot of Debian {pins.release}", item="^I: (.*)")
    new.rename(place)


def in_chroot(place: Path, command: Sequence[str]) -> list[str]:
    """A command in the chroot, with its variables and nothing of this machine's environment but the way out."""
    more = {name: os.environ[name] for name in TAKEN_OVER if name in os.environ}
    return ["env", "-i", *(f"{key}={value}" for key, value in {**ENVIRONMENT, **more}.items()),
            f"CARGO_HTTP_CAINFO={HOME}/certificates.pem", "unshare", "--mount", "--pid", "--fork", "--kill-child",
            "sh", "-c", 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"',
            str(place), *command]


def prepare(place: Path) -> None:
    """The linker, and what this machine knows of the way out: its name servers and whose certificates it trusts."""
    (place / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    replace_file(place / "usr/local/bin/aarch64-linux-gnu-gcc", LINKER.read_bytes(), 0o755)
    trusted = next((path for path in [*(Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)),
                                      Path("/etc/ssl/certs/ca-certificates.crt")] if path.is_file()), None)
    if trusted:
        replace_file(place / HOME[1:] / "certificates.pem", trusted.read_bytes())
    for name in ("resolv.conf", "hosts"):
        if (file := Path("/etc", name)).is_file():
            shutil.copyfile(file, place / "etc" / name)


def check_crate(crate: Crate, place: Path) -> None:
    """What cargo has downloaded is what is pinned."""
    cache = place / HOME[1:] / ".cargo/registry/cache"
    files = sorted(cache.glob(f"*/{crate.name}-{crate.version}.crate"))
    if not files:
        raise Fail(f"cargo has not kept {crate.name}-{crate.version}.crate in {cache}")
    found = hashlib.sha256(files[0].read_bytes()).hexdigest()
    if found != crate.sha256:
        raise Fail(f"{crate.name} {crate.version}: the SHA-256 of the downloaded crate is {found}, "
                   f"{PINS.relative_to(ROOT)} has {crate.sha256}; nothing of it is used")


def build(crate: Crate, pins: Pins, place: Path) -> Path:
    """One scheduler, from its crate to a static program for the lab."""
    run_logged(in_chroot(place, ["cargo", "install", "--locked", "--target", TARGET, "--root", f"{HOME}/scx",
                                 f"{crate.name}@={crate.version}"]),
               WORK / f"{crate.name}.log", f"{crate.name} {crate.version}", item=r"^\s+Compiling (\S+)")
    program = place / HOME[1:] / "scx/bin" / crate.name
    try:
        check_crate(crate, place)
    except Fail:
        program.unlink(missing_ok=True)
        raise
    BIN.mkdir(parents=True, exist_ok=True)
    capture(in_chroot(place, ["aarch64-linux-gnu-strip", f"{HOME}/scx/bin/{crate.name}"]))
    replace_file(BIN / crate.name, program.read_bytes(), 0o755)
    replace_file(BIN / f"{crate.name}.key", key_of(crate, pins.release, LINKER.read_bytes(), ENVIRONMENT).encode())
    return BIN / crate.name


def demand_tools() -> None:
    if os.geteuid():
        raise Fail("the rivals are built in a chroot, which only root can make: run 'make rivals' as root")
    if missing := [name for name in ("mmdebstrap", "unshare", "chroot") if not shutil.which(name)]:
        raise Fail(f"missing: {', '.join(missing)}; run: scripts/setup rivals")
    free = shutil.disk_usage(ROOT).free >> 20
    if not (WORK / "chroot").is_dir() and free < NEEDS_MIB:
        raise Fail(f"the chroot with everything built in it takes up to {NEEDS_MIB} MiB; here are {free} MiB free")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME[,NAME]", help="only these of the rivals")
    parser.add_argument("--list", action="store_true", help="say which there are, and build nothing")
    arguments = parser.parse_args()
    pins = Pins.load()
    chosen = [pins.crate(name) for name in arguments.only.split(",")] if arguments.only else list(pins.crates)
    if arguments.list:
        for crate in chosen:
            print(f"  {crate.name:12} {crate.version}  {'built' if built(crate, pins) else 'not built'}")
        return 0
    place = WORK / "chroot"
    with locked(WORK / "lock"):
        todo = [crate for crate in chosen if not built(crate, pins)]
        if todo:
            demand_tools()
            if not place.is_dir():
                make_chroot(pins, place)
            prepare(place)
        for crate in todo:
            try:
                build(crate, pins, place)
            except Fail as failure:
                print(f"  {failure}", file=sys.stderr, flush=True)
    for crate in chosen:
        print(f"  {crate.name} {crate.version}: " + (f"{path.relative_to(ROOT)}, {path.stat().st_size >> 20} MiB" if (
            path := built(crate, pins)) else "not built"), flush=True)
    return 0 if all(built(crate, pins) for crate in chosen) else 1


if __name__ == "__main__":
    run_main(main)
