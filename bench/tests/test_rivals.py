# SPDX-License-Identifier: GPL-2.0-only
"""make rivals: what is pinned, what is used of what was built, and what goes into the lab."""

import hashlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import rivals
import suite
from common import Fail

CRATE = 'release = "trixie"\n[crates.scx_test]\nversion = "VERSION"\nsha256 = "SUM"\n'


class Pinned(unittest.TestCase):
    def test_of_the_project(self) -> None:
        """Each scheduler that suite apps starts is built, and no other one."""
        names = {c.scheduler_program for c in suite.load_suite("apps").configurations if c.scheduler}
        self.assertEqual({crate.name for crate in rivals.Pins.load().crates}, names)

    def test_refused(self) -> None:
        for version, checksum, message in (("1.1", "a" * 64, "version = '1.1' is not like 1.2.3"),
                                           ("1.1.4", "a" * 63, "is not 64 hexadecimal digits"),
                                           ("1.1.4", "A" * 64, "is not 64 hexadecimal digits")):
            with self.assertRaisesRegex(Fail, f"x.toml: crates.scx_test: .*{message}"):
                rivals.Pins.parse(CRATE.replace("VERSION", version).replace("SUM", checksum), "x.toml")
        with self.assertRaisesRegex(Fail, "'scx_other' is none of the rivals: .*scx_layered"):
            rivals.Pins.load().crate("scx_other")


class Built(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        checksum = hashlib.sha256(b"x").hexdigest()
        self.pins = rivals.Pins.parse(CRATE.replace("VERSION", "1.1.4").replace("SUM", checksum), "x.toml")
        self.crate, = self.pins.crates
        for name, value in (("BIN", self.root / "bin"), ("WORK", self.root)):
            patch = mock.patch.object(rivals, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def chroot(self, content: bytes) -> Path:
        cache = self.root / "chroot/root/.cargo/registry/cache/index-1"
        cache.mkdir(parents=True)
        (cache / "scx_test-1.1.4.crate").write_bytes(content)
        program = self.root / "chroot/root/scx/bin/scx_test"
        program.parent.mkdir(parents=True)
        program.write_bytes(b"program")
        return self.root / "chroot"

    def build(self, content: bytes) -> Path:
        with mock.patch.object(rivals, "run_logged"), mock.patch.object(rivals, "capture"):
            return rivals.build(self.crate, self.pins, self.chroot(content))

    def test_used_only_as_pinned(self) -> None:
        self.assertEqual(self.build(b"x").read_bytes(), b"program")
        self.assertIsNotNone(rivals.built(self.crate, self.pins))
        other = rivals.Pins.parse(CRATE.replace("VERSION", "1.1.5").replace("SUM", self.crate.sha256), "x.toml")
        self.assertIsNone(rivals.built(other.crates[0], other))

    def test_another_crate(self) -> None:
        with self.assertRaisesRegex(Fail, "scx_test 1.1.4: the SHA-256 of the .* crate is .*nothing of it is used"):
            self.build(b"y")
        self.assertIsNone(rivals.built(self.crate, self.pins))
        self.assertFalse((self.root / "chroot/root/scx/bin/scx_test").exists())


class Sources(unittest.TestCase):
    def test_backports(self) -> None:
        line = "deb [signed-by=/k] http://archive.invalid/debian {} main\n"
        self.assertEqual(rivals.with_backports(line.format("trixie") + line.format("trixie-updates"), "trixie"),
                         line.format("trixie") + line.format("trixie-updates") + line.format("trixie-backports"))


if __name__ == "__main__":
    unittest.main()
