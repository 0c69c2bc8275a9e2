# SPDX-License-Identifier: GPL-2.0-only
"""Make the test machine's root: init, the selftests, the demo and a shell, as an uncompressed cpio archive.

It is written here, not by cpio(1), because device nodes in it then need no root, and because fixed times and owners
make the same content the same file.
"""

from __future__ import annotations

import gzip
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import foreign
from common import ROOT, Fail, Target, locked, replace_file, run_logged

# Where programs come from -> where they are in the machine.
SELFTESTS, DEMO = "selftests/steer", "demo"


class Cpio:
    """A cpio archive in the "newc" format."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.inode = 0
        self.directories: set[str] = set()

    def _entry(self, name: str, mode: int, content: bytes = b"", rdev: tuple[int, int] = (0, 0)) -> None:
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, *rdev, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % value for value in fields) + encoded
        self.data += b"\0" * (-len(self.data) % 4) + content
        self.data += b"\0" * (-len(self.data) % 4)

    def directory(self, name: str) -> None:
        parts = name.split("/")
        for i in range(1, len(parts) + 1):
            path = "/".join(parts[:i])
            if path and path not in self.directories:
                self.directories.add(path)
                self._entry(path, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o755) -> None:
        self.directory(name.rpartition("/")[0])
        self._entry(name, stat.S_IFREG | mode, content)

    def symlink(self, name: str, target: str) -> None:
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, name: str, major: int, minor: int) -> None:
        self.directory(name.rpartition("/")[0])
        self._entry(name, stat.S_IFCHR | 0o600, rdev=(major, minor))

    def finish(self) -> bytes:
        self._entry("TRAILER!!!", 0)
        self.data += b"\0" * (-len(self.data) % 512)
        return bytes(self.data)


def run_list(path: Path) -> dict[str, int]:
    """The programs that the selftests' run-list names, in order, with their time limits in seconds."""
    limits: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 2 or not words[1].isdigit():
            raise Fail(f"{path}:{number}: '{line}' is not 'program seconds'")
        if words[0] in limits:
            raise Fail(f"{path}:{number}: '{words[0]}' is listed twice")
        limits[words[0]] = int(words[1])
    return limits


def compile_static(target: Target, sources: list[Path], output: Path, flags: Sequence[str] = ()) -> None:
    """One static program out of a few C files, when it is older than any of them or than a header beside them."""
    inputs = [p for source in sources for p in (source, *source.parent.glob("*.h"))]
    with locked(output.with_suffix(".lock")):
        if output.is_file() and all(p.stat().st_mtime <= output.stat().st_mtime for p in inputs):
            return
        run_logged([f"{target.cross_compile}gcc", "-static", "-O2", "-Wall", "-Wextra", "-pthread", *flags, "-o",
                    output, *sources, "-lm"],
                   target.build / target.arch / f"{output.name}.log", f"compiling {output.name}")


def build_selftests(target: Target) -> Path:
    """Build the selftests as the kernel tree builds its own; returns the directory of the programs."""
    output = target.build / target.arch / "selftests"
    output.mkdir(parents=True, exist_ok=True)
    run_logged(["make", "-s", "-C", target.tree / "tools/testing/selftests/steer", f"OUTPUT={output}",
                f"CROSS_COMPILE={target.cross_compile}", "USERLDFLAGS=-static", "all"],
               target.build / target.arch / "selftests.log", "building selftests")
    return output


def busybox(target: Target) -> bytes:
    """A static busybox for the target: the installed one, or its package from the machine's own apt sources."""
    if not target.cross_compile:
        if not (path := shutil.which("busybox")):
            raise Fail("busybox is missing; run: scripts/setup vm")
        return Path(path).read_bytes()
    return next(foreign.unpack(target, "busybox-static").glob("**/bin/busybox")).read_bytes()


def programs(directory: Path) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.is_file() and p.stat().st_mode & 0o100)


def build(target: Target) -> Path:
    """Build everything in it and write the archive; returns its path."""
    archive = Cpio()
    for name in ("proc", "sys", "dev", "tmp", "bin", SELFTESTS, DEMO):
        archive.directory(name)
    archive.character_device("dev/console", 5, 1)
    init = target.build / target.arch / "init"
    compile_static(target, [ROOT / "vm/init.c"], init)
    archive.file("init", init.read_bytes())
    if (ROOT / SELFTESTS / "Makefile").is_file():
        built = build_selftests(target)
        wanted = run_list(ROOT / SELFTESTS / "run-list")
        for name in wanted:
            if not (built / name).is_file():
                raise Fail(f"{SELFTESTS}/run-list names '{name}', but the selftests' Makefile built no such program")
        for path in programs(built):
            archive.file(f"{SELFTESTS}/{path.name}", path.read_bytes())
        archive.file(f"{SELFTESTS}/run-list", (ROOT / SELFTESTS / "run-list").read_bytes(), 0o644)
    if sources := sorted((ROOT / "bench/demo").glob("*.c")):
        demo = target.build / target.arch / "demo"
        compile_static(target, sources, demo)
        archive.file(f"{DEMO}/demo", demo.read_bytes())
    archive.file("bin/busybox", busybox(target))
    for name in BUSYBOX_APPLETS.split():
        archive.symlink(f"bin/{name}", "busybox")
    path = target.build / target.arch / "initramfs.cpio.gz"
    replace_file(path, gzip.compress(archive.finish(), compresslevel=1, mtime=0))
    return path


def extra(files: dict[str, bytes]) -> bytes:
    """A second archive for the kernel to unpack over the first: what differs from run to run."""
    archive = Cpio()
    for name, content in files.items():
        archive.file(name, content, 0o600)
    return archive.finish()


BUSYBOX_APPLETS = """[ ash awk basename cat chmod chown chrt clear cp cut date dd dirname dmesg du echo env expr false
 find free grep head hexdump id kill killall less ln ls mkdir mknod mktemp more mount mv nice nproc od pgrep pidof pkill
 poweroff printf ps pwd readlink realpath renice rm rmdir sed seq setsid sh sleep sort stat stty su sync tail taskset tee
 test time timeout top touch tr true tty umount uname uniq unshare uptime usleep vi watch wc which xargs yes"""
