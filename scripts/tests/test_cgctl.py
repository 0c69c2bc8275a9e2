# SPDX-License-Identifier: GPL-2.0-only
"""How cgctl's tests are read, its terminal's screen, and the disk with Debian on it."""

import stat
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import cgctl
import cgctl_deb
import debian
import debian_machine
from ktap import FAILED, PASSED, SKIPPED
from terminal import Screen

OUTPUT = """\

running 3 tests
test hint::tests::edits ... ok
test show_one ... FAILED
test slow ... ignored

failures:

---- show_one stdout ----
assertion failed
  left: 1
"""
NONCE = "5f"
REPORT = f"""\
@begin {NONCE} systemd
\t# figure: 20 ms
\tok 1 one
@reboot
\tok 2 two
\t1..2
@end {NONCE} systemd rc=0
@done {NONCE} tainted=0 programs=1
"""


class Install(unittest.TestCase):
    def test_two_at_the_same_time(self) -> None:
        """Each gets all manual pages: those of one are not what another one is about to replace."""
        with tempfile.TemporaryDirectory() as name:
            top = Path(name)
            program = top / "release/cgctl"
            program.parent.mkdir()
            program.write_text('#!/bin/sh\n[ "$1" = man ] || exit 0\nfor page in a b c d e f; do\n'
                               '\techo $page >"$2/$page.1"\n\tsleep 0.02\ndone\n', encoding="utf-8")
            program.chmod(0o755)
            with mock.patch.multiple(cgctl, PROGRAM=program, BUILD=top):
                installs = [threading.Thread(target=cgctl.install, args=(top / str(number),)) for number in range(8)]
                for install in installs:
                    install.start()
                for install in installs:
                    install.join()
            for number in range(8):
                self.assertEqual(len(list((top / str(number) / "usr/share/man/man1").glob("*.1"))), 6)


class Rust(unittest.TestCase):
    def test_results(self) -> None:
        found = {test.name: (test.status, test.detail.strip()) for test in cgctl.parse_tests("p", OUTPUT)}
        self.assertEqual(found["p: hint::tests::edits"], (PASSED, ""))
        self.assertEqual(found["p: slow"][0], SKIPPED)
        self.assertEqual(found["p: show_one"], (FAILED, "assertion failed\n  left: 1"))

    def test_minimum(self) -> None:
        self.assertGreaterEqual(cgctl.minimum_rust(), (1, 63))

    def test_glibc(self) -> None:
        with tempfile.NamedTemporaryFile() as stream:
            stream.write(b"x\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.4\0")
            stream.flush()
            self.assertEqual(cgctl_deb.glibc(Path(stream.name)), "2.34")


class Screens(unittest.TestCase):
    def test_positions_and_styles(self) -> None:
        screen = Screen(10, 3)
        screen.feed("\x1b[?1049h\x1b[2;3Hab\x1b[7mc\x1b[0md\r\nx\x1b[1")
        screen.feed(";1H\x1b[1mT\x1b[2;1H")
        self.assertEqual(screen.lines(), ["T", "  abcd", "x"])
        self.assertEqual(screen.cells[1][4], ("c", "r"))
        self.assertEqual(screen.cells[0][0], ("T", "b"))
        screen.feed("\x1b[K")
        self.assertEqual(screen.lines()[1], "")

    def test_picture(self) -> None:
        screen = Screen(10, 1)
        screen.feed("a<b")
        self.assertIn("a&lt;b", screen.svg())
        self.assertTrue(screen.svg().endswith("</svg>\n"))

    def test_outside(self) -> None:
        screen = Screen(4, 2)
        screen.feed("\x1b[99;99Hxyz\n\n\n\x1b[9A\x1b[9Dq")
        # What is too long for a line goes on in the next one, which is the last one here.
        self.assertEqual(screen.lines(), ["q", "yz x"])


class Disk(unittest.TestCase):
    def test_usr(self) -> None:
        self.assertEqual(debian.merged("bin/sh"), "usr/bin/sh")
        self.assertEqual(debian.merged("lib64"), "usr/lib64")
        self.assertEqual(debian.merged("usr/bin"), "usr/bin")
        self.assertEqual(debian.merged("etc"), "etc")

    def test_layout(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            package, root = Path(name, "package"), Path(name, "root")
            for path in ("bin/tool", "lib/x/libx.so.1", "etc/passwd", "usr/share/doc/x"):
                (package / path).parent.mkdir(parents=True, exist_ok=True)
                (package / path).write_text(path, encoding="utf-8")
            (package / "lib/x/libx.so").symlink_to("libx.so.1")
            (package / "etc/dir").symlink_to("/usr/share")
            debian.lay_out(root, {"p": package, "perl-base": Path(name, "nothing")})
            self.assertEqual((root / "bin/tool").read_text(encoding="utf-8"), "bin/tool")
            self.assertEqual((root / "usr/lib/x/libx.so").read_text(encoding="utf-8"), "lib/x/libx.so.1")
            self.assertTrue((root / "etc/dir").is_symlink())
            self.assertIn("tester", (root / "etc/passwd").read_text(encoding="utf-8"))
            self.assertEqual((package / "etc/passwd").read_text(encoding="utf-8"), "etc/passwd", "the package is not written to")
            self.assertFalse((root / "usr/share/doc/x").exists())
            self.assertEqual(stat.S_IMODE((root / "tmp").stat().st_mode), 0o1777)


class Judging(unittest.TestCase):
    def failures(self, report: str, console: str = "", problem: str = "") -> list[str]:
        return [test.name for test in debian_machine.judge("systemd", report, NONCE, console, problem) if test.status == FAILED]

    def test_two_boots(self) -> None:
        self.assertEqual(self.failures(REPORT), [])
        self.assertEqual(len(debian_machine.judge("systemd", REPORT, NONCE, "", "")), 2)

    def test_what_is_no_success(self) -> None:
        self.assertEqual(self.failures(REPORT.replace("ok 2", "not ok 2")), ["systemd: two"])
        self.assertIn("machine: report", self.failures(REPORT.rpartition("@done")[0]))
        self.assertIn("machine: report", self.failures(REPORT.replace(f"@done {NONCE}", "@done 00")))
        self.assertIn("machine: taint", self.failures(REPORT.replace("tainted=0", "tainted=512")))
        self.assertIn("machine: end", self.failures(REPORT, problem="killed"))
        self.assertIn("systemd: plan", self.failures(REPORT.replace("1..2", "1..3")))
        self.assertEqual(self.failures(REPORT, console="[ 1.0] WARNING: CPU: 0"), ["console: WARNING"])
        self.assertNotEqual(self.failures(""), [])


if __name__ == "__main__":
    unittest.main()
