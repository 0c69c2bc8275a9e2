# SPDX-License-Identifier: GPL-2.0-only
"""The lab's root: it holds what a program needs and nothing else; apt is asked seldom, and its failures are explained.

Programs and libraries are made by the compiler, packages by dpkg-deb; apt-get is played by a script. No network.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("scripts", "vm", "bench/lab")]

import common  # noqa: E402
import foreign  # noqa: E402
import initramfs  # noqa: E402
import rootfs  # noqa: E402
from common import Fail, Target, host_arch  # noqa: E402

ARCH = host_arch()
LIBRARIES = f"lib/{rootfs.TRIPLET[ARCH]}"
INTERPRETER = {"x86_64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}[ARCH]

READELF = """\
ELF Header:
  Class:                             ELF64
  Machine:                           AArch64
Program Headers:
  INTERP         0x000238 0x0000000000000238 0x0000000000000238 0x00001b 0x00001b R   0x1
      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]
Dynamic section at offset 0xfd58 contains 29 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libnuma.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [/usr/lib/aarch64-linux-gnu/ceph:$ORIGIN/../x]
"""

# Says what it was asked, and behaves as the files beside it say.
APT_GET = """\
#!/bin/sh
cd "$(dirname "$0")/.."
while [ "$1" = -q ] || [ "$1" = -c ]; do
	[ "$1" = -q ] || { shift; configuration=$1; }
	shift
done
echo "$*" >>asked
case $1 in
update)
	[ ! -e offline ] || { echo "Err:1 http://example.org stable InRelease"; exit 0; }
	touch "$(sed -n 's/^Dir::State "\\(.*\\)";/\\1/p' "$configuration")/lists/x_Packages" ;;
install)
	[ ! -e fail-install ] || { rm fail-install; echo "E: no"; exit 100; }
	shift 2
	for name in "$@" libdep1; do
		[ -d "packages/$name" ] || { echo "E: Unable to locate package $name"; exit 100; }
		echo "Inst $name (1:2.0-1 Debian:12/stable [$(cat arch)])"
	done ;;
download)
	shift
	for name in "$@"; do
		name=${name%%=*}
		echo "Get:1 http://example.org stable/main $(cat arch) $name"
		dpkg-deb -Znone -b "packages/$name" "$OLDPWD/${name}_1%3a2.0-1_$(cat arch).deb" >/dev/null || exit 100
	done ;;
esac
"""


def compile_elf(path: Path, *options: str, needs: tuple[Path, ...] = (), shared: bool = True) -> None:
    """A file with a dynamic section that names what it needs; it is never run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = ["-shared", "-fPIC", f"-Wl,-soname,{path.name}"] if shared else ["-pie", "-Wl,-e,f"]
    subprocess.run(["gcc", "-x", "c", "-", "-x", "none", "-nostdlib", *kind, "-Wl,--no-as-needed",
                    "-Wl,--allow-shlib-undefined", *options, "-o", str(path), *map(str, needs)],
                   input="void f(void) { }", text=True, check=True)


class Temporary(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for module in (common, rootfs, initramfs):
            self.enterContext(mock.patch.object(module, "ROOT", self.root))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def message(self, *arguments, **keywords) -> str:  # type: ignore[no-untyped-def]
        with self.assertRaises(Fail) as caught:
            arguments[0](*arguments[1:], **keywords)
        return str(caught.exception)


class Reading(Temporary):
    def test_readelf(self) -> None:
        elf = rootfs.Elf.parse(READELF)
        self.assertEqual(elf, rootfs.Elf("AArch64", "/lib/ld-linux-aarch64.so.1", ("libnuma.so.1", "libc.so.6"),
                                         ("/usr/lib/aarch64-linux-gnu/ceph", "$ORIGIN/../x")))

    def test_readelf_of_a_static_program(self) -> None:
        self.assertEqual(rootfs.Elf.parse("  Machine:     AArch64\nThere is no dynamic section in this file.\n"),
                         rootfs.Elf("AArch64", "", (), ()))

    def test_one_path_for_a_file(self) -> None:
        for path, expected in {"/usr/lib/a/b.so": "lib/a/b.so", "lib/a/../b.so": "lib/b.so", "usr/bin/x": "bin/x",
                               "/usr/sbin/x": "bin/x", "sbin/x": "bin/x", "usr/libexec/x": "usr/libexec/x",
                               "usr/share/bin/x": "usr/share/bin/x", "/usr/lib64/x": "lib64/x"}.items():
            self.assertEqual(rootfs.image_path(path), expected)


class Closure(Temporary):
    """A program with its interpreter, a library behind a link, and one that this library has in a directory of its own.

    The old and the new layout of Debian: one package has its files in /lib, the others in /usr/lib.
    """

    packages: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.packages = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        libc = cls.packages / "libc6_1" / LIBRARIES / "libc.so.6"
        for name in ("libc.so.6", "libgcc_s.so.1", "libunwanted.so.1"):
            compile_elf(libc.with_name(name))
        (libc.parent / Path(INTERPRETER).name).write_text("interpreter\n")
        interpreter = cls.packages / "libc6_1" / INTERPRETER
        interpreter.parent.mkdir(exist_ok=True)
        interpreter.symlink_to(f"/{LIBRARIES}/{interpreter.name}")
        private = cls.packages / f"liba1_1/usr/{LIBRARIES}/own/libb.so.2"
        liba = cls.packages / f"liba1_1/usr/{LIBRARIES}/liba.so.1.2.3"
        compile_elf(private, needs=(libc,))
        compile_elf(liba, "-Wl,-soname,liba.so.1", f"-Wl,-rpath,/usr/{LIBRARIES}/own", needs=(private, libc))
        liba.with_name("liba.so.1").symlink_to(liba.name)
        libgomp = cls.packages / f"libgomp1_1/usr/{LIBRARIES}/libgomp.so.1"
        compile_elf(libgomp, needs=(libc,))
        compile_elf(cls.packages / "rt-tests_1/usr/bin/hackbench", needs=(liba, libc), shared=False)
        compile_elf(cls.packages / "rt-tests_1/usr/bin/cyclictest", needs=(libc,), shared=False)
        compile_elf(cls.packages / "openmp", needs=(libgomp,), shared=False)

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(self.packages, self.root / "packages", symlinks=True)
        self.roots = {name: self.root / f"packages/{name}_1" for name in ("rt-tests", "libc6", "liba1", "libgomp1")}
        self.liba = self.roots["liba1"] / f"usr/{LIBRARIES}/liba.so.1.2.3"
        # Any program will do where only its name and place matter.
        self.program = self.roots["rt-tests"] / "usr/bin/cyclictest"

    def copy_program(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.program, path)

    def select(self, *programs: str, **extra: Path) -> dict[str, tuple[Path, int]]:
        return rootfs.Packages(ARCH, self.roots, {f"bin/{name}": file for name, file in extra.items()}).select(programs)

    def test_exactly_what_is_needed(self) -> None:
        selected = self.select("hackbench")
        self.assertEqual(sorted(selected), sorted([
            "bin/hackbench", INTERPRETER, f"{LIBRARIES}/liba.so.1", f"{LIBRARIES}/own/libb.so.2",
            f"{LIBRARIES}/libc.so.6", f"{LIBRARIES}/libgcc_s.so.1"]))
        self.assertFalse(any(file.is_symlink() for file, _ in selected.values()))
        self.assertEqual(selected[f"{LIBRARIES}/liba.so.1"][0], self.liba)
        self.assertEqual(selected["bin/hackbench"][1] & 0o111, 0o111)

    def test_a_program_does_not_bring_what_another_one_needs(self) -> None:
        self.assertNotIn(f"{LIBRARIES}/liba.so.1", self.select("cyclictest"))

    def test_data(self) -> None:
        self.roots["dbench"] = self.root / "packages/dbench_1"
        self.copy_program(self.roots["dbench"] / "usr/bin/tbench")
        self.assertRegex(self.message(self.select, "tbench"), "tbench needs usr/share/dbench/client.txt.*none of")
        (self.roots["dbench"] / "usr/share/dbench").mkdir(parents=True)
        (self.roots["dbench"] / "usr/share/dbench/client.txt").write_text("load\n")
        self.assertIn("usr/share/dbench/client.txt", self.select("tbench"))

    def test_data_by_pattern(self) -> None:
        """A directory of data and modules whose paths have a version in them; and a program in a directory of its own."""
        root = self.roots["postgresql-15"] = self.root / "packages/postgresql-15_15.2"
        self.copy_program(root / "usr/lib/postgresql/15/bin/postgres")
        for name in ("share/postgresql/15/a/b", "share/postgresql/15/c", "lib/postgresql/15/lib/plpgsql.so",
                     "lib/postgresql/15/lib/other.so"):
            (root / "usr" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "usr" / name).write_text("data\n")
        self.assertRegex(self.message(self.select, "postgres"), "postgres needs usr/lib/.*/dict_snowball.so.*none of")
        (root / "usr/lib/postgresql/15/lib/dict_snowball.so").write_text("module\n")
        found = self.select("postgres")
        self.assertLessEqual({"bin/postgres", "usr/share/postgresql/15/a/b", "usr/share/postgresql/15/c",
                              "lib/plpgsql.so", "lib/dict_snowball.so"}, set(found))
        self.assertNotIn("lib/other.so", found)

    def test_program_by_a_link_to_another_package(self) -> None:
        """As redis-server is one to a file of redis-tools."""
        for package in ("redis-server", "redis-tools"):
            self.roots[package] = self.root / f"packages/{package}_7"
            (self.roots[package] / "usr/bin").mkdir(parents=True)
        self.copy_program(self.roots["redis-tools"] / "usr/bin/redis-check-rdb")
        (self.roots["redis-server"] / "usr/bin/redis-server").symlink_to("redis-check-rdb")
        self.assertEqual(self.select("redis-server")["bin/redis-server"][0],
                         self.roots["redis-tools"] / "usr/bin/redis-check-rdb")

    def test_missing_library(self) -> None:
        self.liba.with_name("liba.so.1").unlink()
        message = self.message(self.select, "hackbench")
        for needed in ("bin/hackbench", "liba.so.1", "rt-tests", "libc6"):
            self.assertIn(needed, message)

    def test_missing_library_of_a_library(self) -> None:
        (self.liba.parent / "own/libb.so.2").unlink()
        self.assertRegex(self.message(self.select, "hackbench"), "bin/hackbench needs libb.so.2 .for .*liba.so.1")

    def test_missing_interpreter(self) -> None:
        (self.roots["libc6"] / INTERPRETER).unlink()
        self.assertIn(f"needs /{INTERPRETER}", self.message(self.select, "cyclictest"))

    def test_renamed_program(self) -> None:
        (self.roots["rt-tests"] / "usr/bin/cyclictest").unlink()
        self.assertIn("cyclictest: the package rt-tests has no such program", self.message(self.select, "cyclictest"))

    def test_perf_behind_a_script(self) -> None:
        self.roots["linux-perf"], self.roots["linux-perf-9.10"] = self.root / "linux-perf_1", self.root / "perf9_1"
        perf = self.roots["linux-perf-9.10"] / "usr/bin/perf_9.10"
        self.copy_program(perf)
        script = self.roots["linux-perf"] / "usr/bin/perf"
        script.parent.mkdir(parents=True)
        script.write_text("#!/bin/sh\nexec perf_9.10\n")
        self.assertEqual(self.select("perf")["bin/perf"][0], perf)
        script.unlink()
        self.copy_program(script)
        self.assertEqual(self.select("perf")["bin/perf"][0], script)

    def test_extra_program(self) -> None:
        extra, other = self.root / "packages/openmp", self.root / "script"
        other.write_text("#!/bin/sh\n")
        selected = self.select(openmp=extra, script=other)
        self.assertEqual(selected["bin/script"], (other.resolve(), 0o755))
        self.assertIn(f"{LIBRARIES}/libgomp.so.1", selected)
        del self.roots["libgomp1"]
        self.assertRegex(self.message(self.select, openmp=extra), "bin/openmp needs libgomp.so.1(.|\n)*'libgomp' among")

    def test_extra_program_of_another_architecture(self) -> None:
        extra = self.root / "other"
        content = bytearray(self.program.read_bytes())
        content[18:20] = (243).to_bytes(2, "little")  # RISC-V
        extra.write_bytes(content)
        self.assertIn("bin/other is for RISC-V", self.message(self.select, other=extra))

    def test_unknown_program(self) -> None:
        message = self.message(rootfs.files, Target("6.12", ARCH), ["hackbench", "hackbnech"])
        self.assertRegex(message, "unknown program: hackbnech;")
        for name in rootfs.PROGRAMS:
            self.assertIn(name, message)

    def image(self, *programs: str, **extra: Path) -> Path:
        busybox = b"\x7fbusybox\0ifconfig\0"
        with mock.patch.object(foreign, "unpack_all", lambda target, packages: self.roots), \
                mock.patch.object(initramfs, "busybox", lambda target: busybox), \
                mock.patch.object(initramfs, "compile_static", lambda t, s, output: output.write_bytes(b"init")):
            target = Target("6.12", ARCH)
            target.out("").mkdir(parents=True, exist_ok=True)
            return rootfs.build_image(target, programs, {f"bin/{name}": file for name, file in extra.items()})

    def test_image(self) -> None:
        extra = self.root / "extra"
        extra.write_text("one")
        image = self.image("hackbench", "cyclictest", extra=extra)
        listing = subprocess.run(["cpio", "--list", "--quiet"], input=image.read_bytes(), capture_output=True,
                                 check=True).stdout.decode().splitlines() if shutil.which("cpio") else []
        content = image.read_bytes()
        for name in ("init", "bin/busybox", "bin/hackbench", "bin/extra", "bin/ifconfig", "etc/hosts", INTERPRETER):
            self.assertIn(name.encode() + b"\0", content)
            self.assertTrue(not listing or name in listing, name)
        self.assertNotIn(b"bin/flock\0", content)  # not in this busybox
        self.assertEqual(len(listing), len(set(listing)))

    def test_image_is_made_again_only_when_something_changed(self) -> None:
        extra = self.root / "extra"
        extra.write_text("one")
        first = self.image("hackbench", "cyclictest", extra=extra)
        made = first.stat().st_mtime_ns
        self.assertEqual(self.image("cyclictest", "hackbench", "cyclictest", extra=extra), first)
        self.assertEqual(first.stat().st_mtime_ns, made)
        others = {self.image("hackbench", extra=extra), self.image("hackbench", "cyclictest")}
        self.assertEqual(len(others | {first}), 3)
        extra.write_text("two")
        second = self.image("hackbench", "cyclictest", extra=extra)
        self.assertNotEqual(second, first)
        self.assertFalse(first.exists(), "what nothing asks for any more stays")
        self.assertTrue(all(path.exists() for path in others))

    def test_missing_extra_file(self) -> None:
        self.assertIn("/nowhere", self.message(self.image, "hackbench", nowhere=Path("/nowhere")))

    def test_key(self) -> None:
        key = rootfs.cache_key(["a", "b"], {"p": "1", "q": "2"}, {"init": b"x", "busybox": b"y"})
        self.assertEqual(key, rootfs.cache_key(["a", "b"], {"q": "2", "p": "1"}, {"busybox": b"y", "init": b"x"}))
        others = {rootfs.cache_key(["a"], {"p": "1", "q": "2"}, {"init": b"x", "busybox": b"y"}),
                  rootfs.cache_key(["a", "b"], {"p": "1", "q": "3"}, {"init": b"x", "busybox": b"y"}),
                  rootfs.cache_key(["a", "b"], {"p": "1", "q": "2"}, {"init": b"x", "busybox": b"z"}),
                  rootfs.cache_key(["a", "b"], {"p": "1", "q": "2"}, {"init": b"x", "bin/busybox": b"y"})}
        self.assertEqual(len(others - {key}), 4)


class Apt(Temporary):
    def setUp(self) -> None:
        super().setUp()
        self.target = Target("6.12", ARCH)
        (self.root / "arch").write_text(foreign.DEBIAN_ARCH[ARCH])
        for name in ("rt-tests", "fio", "libdep1"):
            control = self.root / f"packages/{name}/DEBIAN/control"
            control.parent.mkdir(parents=True)
            control.write_text(f"Package: {name}\nVersion: 1:2.0-1\nArchitecture: {foreign.DEBIAN_ARCH[ARCH]}\n"
                               "Maintainer: nobody <nobody@example.org>\nDescription: none\n")
            (control.parent.parent / f"{name}.file").write_text(name)
        program = self.root / "bin/apt-get"
        program.parent.mkdir()
        program.write_text(APT_GET)
        program.chmod(0o755)
        (self.root / "asked").touch()
        self.enterContext(mock.patch.dict(os.environ, PATH=f"{program.parent}:{os.environ['PATH']}"))

    def asked(self) -> list[str]:
        """What apt-get was asked since the last time."""
        lines = (self.root / "asked").read_text().splitlines()
        (self.root / "asked").write_text("")
        return lines

    def test_all_at_once(self) -> None:
        roots = foreign.unpack_all(self.target, ["rt-tests", "fio"])
        self.assertEqual(self.asked(), ["update", "install --simulate fio rt-tests",
                                        "download fio=1:2.0-1 rt-tests=1:2.0-1 libdep1=1:2.0-1"])
        self.assertEqual(sorted(roots), ["fio", "libdep1", "rt-tests"])
        self.assertEqual((roots["fio"] / "fio.file").read_text(), "fio")
        self.assertEqual(foreign.version(roots["fio"]), "1:2.0-1")
        self.assertEqual(foreign.unpack_all(self.target, ["fio", "rt-tests"]), roots)
        self.assertEqual(foreign.unpack(self.target, "libdep1"), roots["libdep1"])
        self.assertEqual(self.asked(), [])
        foreign.unpack_all(self.target, ["fio"])
        self.assertEqual(self.asked(), ["install --simulate fio"])

    def test_one_package(self) -> None:
        root = foreign.unpack(self.target, "fio")
        self.assertEqual(self.asked(), ["update", "download fio"])
        self.assertEqual((root / "fio.file").read_text(), "fio")

    def test_update_once_a_day(self) -> None:
        foreign.unpack(self.target, "fio")
        foreign.unpack(self.target, "rt-tests")
        self.assertEqual(self.asked(), ["update", "download fio", "download rt-tests"])
        yesterday = time.time() - 25 * 3600
        os.utime(foreign.directory(self.target) / "updated", (yesterday, yesterday))
        foreign.unpack(self.target, "libdep1")
        self.assertEqual(self.asked(), ["update", "download libdep1"])

    def test_lists_of_before_may_be_too_old(self) -> None:
        foreign.update(self.target)
        (self.root / "fail-install").touch()
        self.assertIn("fio", foreign.unpack_all(self.target, ["fio"]))
        self.assertEqual(self.asked(), ["update", "install --simulate fio", "update", "install --simulate fio",
                                        "download fio=1:2.0-1 libdep1=1:2.0-1"])

    def test_no_such_package(self) -> None:
        message = self.message(foreign.unpack_all, self.target, ["nonesuch"])
        for needed in ("nonesuch", "/etc/apt/sources.list", "main", foreign.DEBIAN_ARCH[ARCH]):
            self.assertIn(needed, message)

    def test_no_network(self) -> None:
        (self.root / "offline").touch()
        message = self.message(foreign.unpack, self.target, "fio")
        self.assertRegex(message, "(?s)Err:1 http.*could not be reached.*proxy")
        (self.root / "offline").unlink()
        foreign.unpack(self.target, "fio")

    def test_apt_writes_only_below_our_directory(self) -> None:
        foreign.unpack(self.target, "fio")
        work = foreign.directory(self.target)
        text = subprocess.run(["apt-config", "-c", work / "apt.conf", "dump"], text=True, capture_output=True,
                              check=True).stdout
        arch = foreign.DEBIAN_ARCH[ARCH]
        for line in (f'Dir::State "{work}/state";', f'Dir::State::status "{work}/status";',
                     f'Dir::Cache "{work}/cache";', f'APT::Architecture "{arch}";', f'APT::Architectures:: "{arch}";'):
            self.assertIn(line, text)
        self.assertNotIn("APT::Update::Post-Invoke:: ", text)
        self.assertEqual(text.count("APT::Architectures:: "), 1)
        self.assertEqual((work / "status").stat().st_size, 0)


if __name__ == "__main__":
    unittest.main()
