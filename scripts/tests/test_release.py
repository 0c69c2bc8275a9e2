# SPDX-License-Identifier: GPL-2.0-only
"""Versions, changelog and report of a release."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

import context
import release
import release_version
from common import Fail, capture


class Version(unittest.TestCase):
    def test_form(self) -> None:
        for wrong in ("1", "1.2.3", "v1.2", "01.2", "1.x", ""):
            with self.assertRaisesRegex(Fail, f"VERSION={wrong}: X.Y is wanted"):
                release.check_version(wrong, [])

    def test_only_upwards(self) -> None:
        known = ["v0.9", "v0.10"]
        for wrong in ("0.9", "0.10", "0.2"):
            with self.assertRaisesRegex(Fail, "is not higher than the last release, v0.10"):
                release.check_version(wrong, known)
        for good in ("0.11", "1.0"):
            release.check_version(good, known)

    def test_tags_by_number(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
            subprocess.run(["git", "init", "-q", root], check=True)
            subprocess.run(["git", "-C", root, *identity, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
            for tag in ("v0.10", "v0.9", "v1.0-rc1", "vm", "v0.2"):
                subprocess.run(["git", "-C", root, "tag", tag], check=True)
            self.assertEqual(release.tags(root), ["v0.2", "v0.9", "v0.10"])

    def test_cargo(self) -> None:
        for path in (release_version.CARGO, release.LOCK):
            text = path.read_text(encoding="utf-8")
            new = release.with_version(text, "7.8", path.name)
            self.assertEqual(new.replace('"7.8.0"', f'"{release_version.of_source()}"'), text)
        self.assertRaisesRegex(Fail, "Cargo.toml: .* are there 0 times", release.with_version, "", "1.2", "Cargo.toml")


class Changelog(unittest.TestCase):
    def test_dpkg_reads_it(self) -> None:
        text = release.entry("0.2", ["cgctl: top: a screen", "README", "sched: steer: gang", "cgctl: run"], 0)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "changelog"
            before = release_version.CHANGELOG.read_text(encoding="utf-8")
            path.write_text(release.prepended(before, text), encoding="utf-8")
            self.assertIn("SPDX", path.read_text(encoding="utf-8").splitlines()[0])
            def of(field: str) -> str:
                return capture(["dpkg-parsechangelog", "-l", path, "-S", field]).strip()
            self.assertEqual((of("Version"), of("Distribution"), of("Timestamp")), ("0.2.0", "stable", "0"))
            self.assertIn("* cgctl: top: a screen; run.", of("Changes"))
        self.assertLess(text.index("sched"), text.index("README") + 100)

    def test_lines_are_short(self) -> None:
        text = release.entry("0.2", [f"cgctl: change number {number} of many" for number in range(40)], 0)
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith(" -- ")),
                             release.WIDTH)


class Report(unittest.TestCase):
    def setUp(self) -> None:
        # pylint: disable-next=consider-using-with
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)

    def file(self, name: str, text: str) -> Path:
        (self.work / name).write_text(text, encoding="utf-8")
        return self.work / name

    def test_of_this_commit(self) -> None:
        check = self.file("report.txt", "commit abc\n12 passed, 0 failed, 0 skipped\n")
        walk = self.file("result-trixie.txt", "commit abc\ngood\n")
        text, missing = release.test_report("abc", check, [walk])
        self.assertEqual(missing, [])
        self.assertIn("12 passed", text)
        self.assertNotIn("other packages", text)

    def test_of_another_commit(self) -> None:
        check = self.file("report.txt", "commit abd\n12 passed, 0 failed, 0 skipped\n")
        text, missing = release.test_report("abc", check, [self.file("result-trixie.txt", "commit abd\ngood\n")])
        self.assertEqual(missing, ["make check was not run as a whole on this commit"])
        self.assertIn("NOT TESTED", text)
        self.assertIn("for other packages than these", text)

    def test_of_files_that_are_not_committed(self) -> None:
        check = self.file("report.txt", "commit abc-dirty\n12 passed, 0 failed, 0 skipped\n")
        self.assertEqual(release.test_report("abc", check, [])[1],
                         ["make check was not run as a whole on this commit"])

    def test_failed(self) -> None:
        check = self.file("report.txt", "commit abc\n12 passed, 1 failed, 0 skipped\n")
        self.assertEqual(release.test_report("abc", check, [])[1], ["make check failed"])

    def test_no_walk_is_said(self) -> None:
        self.assertIn("make install-test was not run", release.test_report("abc", self.work / "none", [])[0])

    def test_checksums(self) -> None:
        self.file("a.deb", "x")
        self.file("SHA256SUMS.asc", "x")
        (self.work / "SHA256SUMS").write_text(release.checksums(self.work), encoding="utf-8")
        done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=self.work, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "a.deb: OK\n"))


if __name__ == "__main__":
    assert context.ROOT
    unittest.main()
