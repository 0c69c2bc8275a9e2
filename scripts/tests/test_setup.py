# SPDX-License-Identifier: GPL-2.0-only
"""Which QEMU is installed from where, and how unit tests are counted."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import qemu
import unit_tests
from common import ROOT, Fail
from ktap import FAILED, PASSED, SKIPPED

sys.path += [str(ROOT / "bench"), str(ROOT / "bench/lab")]

import rootfs  # noqa: E402
import suite  # noqa: E402

# Put together here, so that this file names no archive.
ARCHIVE = "http:/" + "/archive.invalid/debian/"
SIMULATION = """\
Reading package lists...
Inst qemu-system-data [1:7.2+dfsg-7] (1:10.0.2+ds-2~bpo12+1 Debian Backports:oldstable-backports [all])
Inst qemu-system-arm (1:10.0.2+ds-2~bpo12+1 Debian Backports:oldstable-backports [amd64])
Conf qemu-system-arm (1:10.0.2+ds-2~bpo12+1 Debian Backports:oldstable-backports [amd64])
"""
POLICY = """\
qemu-system-arm:
  Installed: (none)
  Candidate: 1:7.2+dfsg-7
  Version table:
     1:10.0.2+ds-2~bpo12+1 100
qemu-system-x86:
  Installed: (none)
  Candidate: (none)
"""
INSTALLED = """\
installed qemu-system-common 1:7.2+dfsg-7
installed qemu-system-x86 1:7.2+dfsg-7
config-files qemu-system-ppc 1:7.2+dfsg-7
installed qemu-utils 1:7.2+dfsg-7
not-installed qemu-system-mips
"""


class Texts(unittest.TestCase):
    """What is read from what apt and dpkg say."""

    def test_simulation(self) -> None:
        self.assertEqual(qemu.removals(SIMULATION), [])
        self.assertEqual(qemu.removals(f"{SIMULATION}Remv xen-utils [4.17]\nRemv b:arm64 [1]\n"),
                         ["xen-utils", "b:arm64"])
        self.assertEqual(qemu.installations(SIMULATION), dict.fromkeys(("qemu-system-data", "qemu-system-arm"),
                                                                       "1:10.0.2+ds-2~bpo12+1"))

    def test_installed(self) -> None:
        self.assertEqual(qemu.installed_family(INSTALLED),
                         dict.fromkeys(("qemu-system-common", "qemu-system-x86"), "1:7.2+dfsg-7"))

    def test_candidates(self) -> None:
        self.assertEqual(qemu.candidates(POLICY), {"qemu-system-arm": "1:7.2+dfsg-7"})

    def test_entry(self) -> None:
        other = f"{ARCHIVE}other/ bookworm main Example\n{ARCHIVE}tools/ tools main Debian\n"
        own = f"{ARCHIVE} bookworm main Debian\n{ARCHIVE} bookworm-updates main Debian\n"
        self.assertEqual(qemu.backports_entry(other + own, "bookworm"), f"deb {ARCHIVE} bookworm-backports main\n")
        self.assertEqual(qemu.backports_entry(f"{own}{ARCHIVE} bookworm-backports main Backports\n", "bookworm"), "")
        self.assertRaisesRegex(Fail, "no source with Debian's suite bookworm", qemu.backports_entry, other, "bookworm")


@unittest.skipUnless(shutil.which("dpkg"), "no dpkg")
class Choice(unittest.TestCase):
    """What is asked of apt-get."""

    def install(self, packages: list[str], *, minimum: str = "", installed: str = "", candidate: str = "1:7.2",
                simulation: str = SIMULATION, options: tuple[str, ...] = ("-c", "x")) -> list[tuple[str, ...]]:
        policy = "".join(f"{name}:\n  Installed: (none)\n  Candidate: {candidate}\n" for name in packages)

        def capture(command: list[str], **_: object) -> str:
            return {"apt-cache": policy, "apt-get": simulation, "dpkg-query": installed, "apt-mark": ""}[command[0]]

        @contextlib.contextmanager
        def with_backports(_: str) -> Iterator[list[str]]:
            yield list(options)

        with mock.patch.multiple(qemu, capture=capture, with_backports=with_backports), \
                mock.patch.object(qemu, "apt_get") as apt_get, mock.patch("builtins.print"), \
                mock.patch("platform.freedesktop_os_release", return_value={"VERSION_CODENAME": "bookworm"}), \
                mock.patch("sys.argv", ["qemu.py", "--minimum", minimum, *packages]):
            try:
                qemu.main()
            finally:
                self.calls = [call.args for call in apt_get.call_args_list]
        return self.calls

    def test_order(self) -> None:
        self.assertTrue(qemu.older("", "1:7"))
        self.assertTrue(qemu.older("1:9.1~rc1", "1:9.1"))
        self.assertFalse(qemu.older("1:10.0", "1:9.1~"))
        self.assertEqual(qemu.max_version(["", "1:9.1~", "1:10", "1:7"]), "1:10")

    def test_from_the_own_suite(self) -> None:
        calls = self.install(["qemu-system-arm"], minimum="1:9.1~", candidate="1:10.0.2")
        self.assertEqual(calls, [("-y", "--no-remove", "--no-install-recommends", "install", "qemu-system-arm")])
        self.assertNotIn("-t", self.install(["qemu-system-x86"], simulation=SIMULATION.replace("arm", "x86"))[0])

    def test_from_backports_with_all_that_is_installed(self) -> None:
        simulation = SIMULATION + "".join(f"Inst {name} [1:7.2+dfsg-7] (1:10.0.2+ds-2~bpo12+1 x [amd64])\n"
                                          for name in ("qemu-system-common", "qemu-system-x86"))
        calls = self.install(["qemu-system-arm"], minimum="1:9.1~", installed=INSTALLED, simulation=simulation)
        self.assertEqual(calls[0], ("-c", "x", "update"))
        self.assertEqual(calls[1][2:6], ("-c", "x", "-t", "bookworm-backports"))
        self.assertEqual(calls[1][-3:], ("qemu-system-arm", "qemu-system-common", "qemu-system-x86"))
        self.assertIn("--no-remove", calls[1])

    def test_what_comes_after_backports_comes_from_there(self) -> None:
        calls = self.install(["qemu-system-x86"], installed="installed qemu-system-common 1:10.0.2\n")
        self.assertIn("bookworm-backports", calls[1])

    def test_nothing_is_removed(self) -> None:
        with self.assertRaisesRegex(Fail, "would remove xen-utils; nothing was changed"):
            self.install(["qemu-system-arm"], minimum="1:9.1~", simulation=f"{SIMULATION}Remv xen-utils [4.17]\n")
        self.assertEqual(self.calls, [("-c", "x", "update")])

    def test_backports_too_old(self) -> None:
        with self.assertRaisesRegex(Fail, "(?s)nothing newer than qemu-system-arm 1:7.2, needed is 9.1 or .*without it"):
            self.install(["qemu-system-arm"], minimum="1:9.1~", simulation="Inst qemu-system-arm (1:7.2 x [amd64])\n")


@unittest.skipUnless(shutil.which("dpkg-query") and shutil.which("apt-get"), "no dpkg and apt")
class Purposes(unittest.TestCase):
    """What scripts/setup wants to install, told by what it says to somebody who may not, where nothing is installed."""

    def wanted(self, *purposes: str) -> set[str]:
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in (("dpkg-query", "exit 1"), ("apt-get", "exit 1"), ("id", "echo 1000"),
                           ("qemu-system-aarch64", "echo QEMU emulator version 10.0.2")):
            (directory / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (directory / name).chmod(0o755)
        done = subprocess.run([ROOT / "scripts/setup", *purposes], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 1, done.stderr)
        first = done.stderr.splitlines()[0]
        self.assertIn("these Debian packages are missing: ", first)
        return set(first.partition("missing: ")[2].split())

    def test_host_has_all_programs_of_the_suites(self) -> None:
        """Debian's of them; those of this repository are compiled."""
        packages = {rootfs.PROGRAMS[name].package for of in suite.known_suites() if of != "overhead"
                    for bench in suite.load_suite(of).benches for name in bench.programs if name in rootfs.PROGRAMS}
        self.assertLessEqual({"rt-tests", "stress-ng", "linux-perf"}, packages)
        self.assertLessEqual(packages, self.wanted("bench-host") | self.wanted("apps-host"))
        self.assertIn("gcc", self.wanted("bench-host"))

    def test_purposes_add_up(self) -> None:
        self.assertEqual(self.wanted("bench", "lint"), self.wanted("bench") | self.wanted("lint"))


class Counting(unittest.TestCase):
    def run_file(self, text: str) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "test_it.py").write_text(text, encoding="utf-8")
            return {test.name.split()[0]: test.status for test in unit_tests.run(Path(directory))}

    def test_each_counts(self) -> None:
        found = self.run_file("import unittest\nclass A(unittest.TestCase):\n def test_a(self): print('noise')\n"
                              " def test_b(self): self.fail()\n def test_c(self): self.skipTest('no')\n"
                              " def test_d(self): 1 / 0\n")
        self.assertEqual(found, {"test_a": PASSED, "test_b": FAILED, "test_c": SKIPPED, "test_d": FAILED})

    def test_none(self) -> None:
        self.assertRaisesRegex(Fail, "no test found", self.run_file, "")

    def test_file_that_cannot_be_loaded(self) -> None:
        self.assertIn(FAILED, self.run_file("import nothing_of_this_name\n").values())

    def test_process_that_ends(self) -> None:
        self.assertRaisesRegex(Fail, "ended early, with status 3", self.run_file, "import os\nos._exit(3)\n")


if __name__ == "__main__":
    unittest.main()
