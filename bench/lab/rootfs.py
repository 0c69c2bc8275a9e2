#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A machine's root with Debian's own benchmark programs, unmodified, for any architecture.

The packages come from the machine's own apt sources (scripts/foreign.py) and are not installed. apt says which packages
a program's package depends on; of these, the image gets only the files that the program needs to start: its
interpreter and the libraries that it names, and those that they name. What a program loads by name while it runs
cannot be seen in it; of that, only what is listed here is in the image.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("scripts", "vm")]

import foreign  # noqa: E402
import initramfs  # noqa: E402
from common import ROOT, Fail, Target, capture, locked, replace_file, run_main  # noqa: E402


@dataclass(frozen=True)
class Program:
    """What can be put into an image."""

    package: str
    about: str
    pattern: str = ""  # of its file's name, where that is not the program's
    library: str = ""  # it is no program, but this library
    data: tuple[str, ...] = ()  # other files that it needs; a * stands for anything, a / included
    modules: tuple[str, ...] = ()  # likewise, to be in /lib: from /bin, PostgreSQL looks for them there
    where: str = "bin"  # pattern of its directory, where that is not the usual one
    suite: str = ""  # it is a part of this suite only, whose run says whether it works


POSTGRESQL = r"lib/postgresql/\d+/bin"
PROGRAMS = {
    "cyclictest": Program("rt-tests", "latency of timers"),
    "fio": Program("fio", "input and output"),
    "chrt": Program("util-linux", "runs a program in another scheduling class", suite="apps"),
    # The compiler alone, from C to assembly.
    "gcc": Program("gcc", "compiles C (gcc -S)", r"([a-z0-9_]+-linux-gnu-)?gcc-\d+", data=("usr/lib/gcc/*/cc1",),
                   suite="apps"),
    "hackbench": Program("rt-tests", "groups of tasks that talk through sockets or pipes"),
    "initdb": Program("postgresql", "makes the files of a database", where=POSTGRESQL, suite="apps"),
    "libgomp": Program("libgomp1", "the library of OpenMP programs, which come as extra files", library="libgomp.so.1"),
    "memcached": Program("memcached", "a cache server", suite="apps"),
    "nginx": Program("nginx", "a web server", suite="apps"),
    "numactl": Program("numactl", "runs a program with a memory policy, such as pages on all nodes by turns"),
    # Where several versions can be installed together, perf is a script that starts perf_VERSION.
    "perf": Program("linux-perf", "perf bench, perf stat, perf sched", r"perf(_[0-9.]+)?"),
    "pgbench": Program("postgresql", "load for PostgreSQL, and its latencies", where=POSTGRESQL, suite="apps"),
    "postgres": Program("postgresql", "a database", where=POSTGRESQL, data=("usr/share/postgresql/*",),
                        modules=tuple(f"usr/lib/postgresql/*/lib/{name}.so" for name in ("dict_snowball", "plpgsql")),
                        suite="apps"),
    "redis-benchmark": Program("redis-tools", "load for redis-server, and its latencies", suite="apps"),
    "redis-server": Program("redis-server", "a server of data structures in memory", suite="apps"),
    "setpriv": Program("util-linux", "runs a program as another user", suite="apps"),
    "rt-app": Program("rt-app", "periodic tasks with deadlines, as a file describes them"),
    "stress-ng": Program("stress-ng", "load of many kinds"),
    "sysbench": Program("sysbench", "threads, mutexes, memory (the database tests' scripts are not included)"),
    "tbench": Program("dbench", "the network part of a file server's load: the client", data=(
        "usr/share/dbench/client.txt",)),
    "tbench_srv": Program("dbench", "tbench's server; both talk through 'lo', which must be up"),
    "wrk": Program("wrk", "load for web servers, and its latencies", suite="apps"),
    "zstd": Program("zstd", "compression", suite="apps"),
}
# What a library loads by name while it runs, and cannot do without: glibc, to end or cancel a thread.
LOADED_LATER = {"libc.so.6": "libgcc_s.so.1"}
LIBC = "libc6"  # the package that every dynamically linked program needs
TRIPLET = {"x86_64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
MACHINE = {"x86_64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}

# The names that programs know things by, as on an installed Debian, whose /bin is /usr/bin.
LINKS = {"usr/bin": "../bin", "usr/sbin": "../bin", "sbin": "bin", "usr/lib": "../lib"}
# Without these, glibc asks a name server for localhost, and has no name for root.
ETC = {"etc/hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost\n", "etc/nsswitch.conf": "hosts: files\n",
       "etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "etc/group": "root:x:0:\n"}
# Beside those of the test machine; each where busybox has it.
APPLETS = """cmp comm diff expand flock fold getopt gunzip gzip hostname ifconfig ip md5sum mkfifo nc nohup ping
 sha256sum split tac tar truncate"""


@dataclass(frozen=True)
class Elf:
    """What the dynamic linker reads in a program or library."""

    machine: str
    interpreter: str
    needed: tuple[str, ...]
    search: tuple[str, ...]  # directories that come before the usual ones

    @classmethod
    def parse(cls, text: str) -> Elf:
        """From readelf's output. binutils are there anyway, for the kernel, and read files of any architecture."""
        def first(pattern: str) -> str:
            return match.group(1) if (match := re.search(pattern, text)) else ""
        search = re.findall(r"\((?:RPATH|RUNPATH)\)\s+Library r(?:un)?path: \[(.*)\]", text)
        return cls(first(r"Machine:\s+(.*)"), first(r"Requesting program interpreter: (.*)\]"),
                   tuple(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", text)),
                   tuple(path for paths in search for path in paths.split(":") if path))


def read_elf(path: Path) -> Elf | None:
    """None when it is something else, such as a script."""
    with path.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return None
    if not shutil.which("readelf"):
        raise Fail("readelf is missing (package binutils); run: scripts/setup kernel")
    return Elf.parse(capture(["readelf", "--wide", "--file-header", "--program-headers", "--dynamic", path],
                             env=os.environ | {"LC_ALL": "C"}))


def image_path(path: str) -> str:
    """The one path in the image for all that lead to the same file."""
    path = posixpath.normpath("/" + path).lstrip("/")
    path = re.sub(r"^usr/(s?bin|lib|lib64)(?=/|$)", r"\1", path)
    return re.sub(r"^sbin(?=/|$)", "bin", path)


class Packages:
    """The files of unpacked packages, by their path in the image, under those that are put over them."""

    def __init__(self, arch: str, roots: Mapping[str, Path], extra: Mapping[str, Path]):
        self.arch = arch
        self.roots = roots
        self.extra = {image_path(path): file.resolve() for path, file in extra.items()}
        self.libraries = f"lib/{TRIPLET[arch]}"
        self.paths = dict(self.extra)
        for root in roots.values():
            for directory, _, names in os.walk(root):
                for name in names:
                    path = Path(directory, name)
                    self.paths.setdefault(image_path(str(path.relative_to(root))), path)

    def file(self, path: str) -> Path | None:
        """The file that a path leads to, following links, which may end in another package."""
        path = image_path(path)
        for _ in range(10):
            found = self.paths.get(path)
            if not found or not found.is_symlink():
                return found
            path = image_path(posixpath.join(posixpath.dirname(path), os.readlink(found)))
        return None

    def matching(self, pattern: str) -> dict[str, Path]:
        """All files whose path in the image is so; * stands for anything."""
        names = fnmatch.filter(self.paths, image_path(pattern)) if "*" in pattern else [pattern]
        return {name: file for name in sorted(names) if (file := self.file(name))}

    def program(self, name: str) -> Path:
        """The file of a program that an image can have."""
        program = PROGRAMS[name]
        # A package that stands for the newest of several versions brings it as one of its dependencies.
        roots = [root for package, root in self.roots.items()
                 if package == program.package or package.startswith(f"{program.package}-")]
        pattern = re.compile(f"{program.where}/({program.pattern or re.escape(name)})")
        for path in sorted(filter(pattern.fullmatch, self.paths)):
            file = self.file(path)
            if file and any(self.paths[path].is_relative_to(root) for root in roots) and read_elf(file):
                return file
        raise Fail(f"{name}: the package {program.package} has no such program any more")

    def library(self, name: str, elf: Elf, origin: str) -> str | None:
        """Where the dynamic linker finds a library that a file in the image's directory `origin` names."""
        search = [re.sub(r"\$(ORIGIN|\{ORIGIN\})", f"/{origin}", path) for path in elf.search]
        for directory in (*search, self.libraries, "lib", "lib64"):
            path = image_path(posixpath.join(directory, name))
            if name and self.file(path):
                return path
        return None

    def closure(self, starts: Mapping[str, Path]) -> dict[str, Path]:
        """What has to be in the image for some files, themselves included: path in the image -> file."""
        result = dict(starts)
        queue = [(path, path) for path in starts]

        def add(path: str, user: str) -> None:
            if path not in result and (file := self.file(path)):
                result[path] = file
                queue.append((path, user))

        for path, user in queue:
            if not (elf := read_elf(result[path])):
                continue
            if elf.machine != MACHINE[self.arch]:
                raise Fail(f"{user} is for {elf.machine}, the image for {MACHINE[self.arch]} ({result[path]})")
            if elf.interpreter:
                if not self.file(elf.interpreter):
                    raise Fail(self.missing(user, elf.interpreter, path))
                add(image_path(elf.interpreter), user)
            for name in elf.needed:
                if name.startswith("ld-linux"):
                    continue  # the interpreter, which is there before any library
                if not (library := self.library(name, elf, posixpath.dirname(path))):
                    raise Fail(self.missing(user, name, path))
                add(library, user)
                if later := self.library(LOADED_LATER.get(name, ""), elf, posixpath.dirname(path)):
                    add(later, user)
        return result

    def missing(self, user: str, what: str, named_by: str) -> str:
        by = "" if named_by == user else f" (for {named_by})"
        hint = "".join(f"\nIt comes with '{name}' among the programs of the image."
                       for name, program in PROGRAMS.items() if program.library == what)
        return (f"{user} needs {what}{by}, which none of these packages has: "
                f"{', '.join(sorted(self.roots)) or '(none)'}{hint}")

    def select(self, programs: Sequence[str]) -> dict[str, tuple[Path, int]]:
        """Programs, their data, the extra files, and what all of them need: path in the image -> file and mode."""
        starts: dict[str, Path] = {}
        for name in programs:
            if library := PROGRAMS[name].library:
                path = f"{self.libraries}/{library}"
                file = self.file(path)
            else:
                path = f"bin/{name}"
                file = self.extra.get(path) or self.program(name)
            found = [(data, self.matching(data)) for data in PROGRAMS[name].data]
            found += [(module, {f"lib/{posixpath.basename(place)}": module_file for place, module_file
                                in self.matching(module).items()}) for module in PROGRAMS[name].modules]
            for path, files_of in ((path, {path: file} if file else {}), *found):
                if not files_of:
                    raise Fail(self.missing(name, path, name))
                starts |= files_of
        closure = self.closure(starts | self.extra)
        return {path: (file, 0o755 if path in self.extra else file.stat().st_mode & 0o777)
                for path, file in sorted(closure.items())}


def checked(programs: Sequence[str]) -> list[str]:
    """The programs in a fixed order, all known."""
    if unknown := sorted(set(programs) - set(PROGRAMS)):
        raise Fail(f"unknown program: {', '.join(unknown)}; there are: {', '.join(PROGRAMS)}")
    return sorted(set(programs))


def unpacked(target: Target, programs: Sequence[str], extra: Mapping[str, Path]) -> dict[str, Path]:
    """The packages that something in the image may be from, unpacked."""
    wanted = {PROGRAMS[name].package for name in programs}
    if any((elf := read_elf(file)) and elf.interpreter for file in extra.values()):
        wanted.add(LIBC)
    return foreign.unpack_all(target, wanted) if wanted else {}


def files(target: Target, programs: Sequence[str]) -> dict[str, tuple[Path, int]]:
    """Programs and all that they need: path in the image -> file and mode. There are no links among them."""
    programs = checked(programs)
    return Packages(target.arch, unpacked(target, programs, {}), {}).select(programs)


def cache_key(programs: Sequence[str], versions: Mapping[str, str], contents: Mapping[str, bytes]) -> str:
    """The same for the same image; `contents` is what it is made of and with, beside packages."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    text = json.dumps([list(programs), dict(versions), sums], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_image(path: Path, selected: Mapping[str, tuple[Path, int]], init: bytes, busybox: bytes) -> None:
    archive = initramfs.Cpio()
    for name in ("proc", "sys", "dev", "tmp", "bin", "lib", "usr", initramfs.SELFTESTS, initramfs.DEMO):
        archive.directory(name)
    for name, to in LINKS.items():
        archive.symlink(name, to)
    archive.character_device("dev/console", 5, 1)
    archive.file("init", init)
    archive.file("bin/busybox", busybox)
    known = [name for name in APPLETS.split() if b"\0" + name.encode() + b"\0" in busybox]
    for name in sorted({*initramfs.BUSYBOX_APPLETS.split(), *known}):
        if f"bin/{name}" not in selected:
            archive.symlink(f"bin/{name}", "busybox")
    for name, text in ETC.items():
        if name not in selected:
            archive.file(name, text.encode(), 0o644)
    for name, (file, mode) in selected.items():
        archive.file(name, file.read_bytes(), mode)
    replace_file(path, archive.finish())


def build_image(target: Target, programs: Sequence[str], extra: Mapping[str, Path]) -> Path:
    """An uncompressed cpio archive with vm/init.c, busybox, the programs, and extra files: path in the image -> file.

    Extra files win over what else would be there, are executable, and get the libraries they need from the programs'
    packages.
    """
    programs = checked(programs)
    if absent := [str(file) for file in extra.values() if not file.is_file()]:
        raise Fail(f"extra files for the image are missing: {', '.join(absent)}")
    directory = target.build / target.arch / "rootfs"
    with locked(directory / "lock"):
        roots = unpacked(target, programs, extra)
        init = target.build / target.arch / "init"
        initramfs.compile_static(target, [ROOT / "vm/init.c"], init)
        busybox = initramfs.busybox(target)
        contents = {Path(module).name: Path(module).read_bytes() for module in (__file__, initramfs.__file__)}
        contents |= {"/init": init.read_bytes(), "/bin/busybox": busybox}
        contents |= {f"extra {image_path(name)}": file.read_bytes() for name, file in extra.items()}
        key = cache_key(programs, {name: foreign.version(root) for name, root in roots.items()}, contents)
        label = "+".join(programs) or "busybox"
        if extra:
            label += "+" + hashlib.sha256("\n".join(sorted(map(image_path, extra))).encode()).hexdigest()[:6]
        path = directory / f"{label}.{key}.cpio"
        if not path.is_file():
            selected = Packages(target.arch, roots, extra).select(programs)
            for old in directory.glob(f"{label}.*.cpio"):
                old.unlink()
            write_image(path, selected, init.read_bytes(), busybox)
    return path


def mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def show(target: Target, programs: Sequence[str]) -> None:
    """Build an image and say how much each program brings into it."""
    programs = checked(programs)
    image = build_image(target, programs, {})
    roots = unpacked(target, programs, {})
    packages = Packages(target.arch, roots, {})
    for name in programs:
        sizes = [file.stat().st_size for file, _ in packages.select([name]).values()]
        package = PROGRAMS[name].package
        print(f"  {name:12}{len(sizes):3} files {mebibytes(sum(sizes)):>10}   "
              f"{package} {foreign.version(roots[package])}")
    print(f"  {image.relative_to(ROOT)}: {mebibytes(image.stat().st_size)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--list", action="store_true", help="what can be put into an image")
    group.add_argument("--programs", metavar="NAME[,NAME]", help="build an image with these; 'all' for all")
    arguments = parser.parse_args()
    if arguments.list:
        for name, program in PROGRAMS.items():
            print(f"  {name:12}{program.package:12}{program.about}")
        return
    show(Target.from_environment(), list(PROGRAMS) if arguments.programs == "all" else arguments.programs.split(","))


if __name__ == "__main__":
    run_main(main)
