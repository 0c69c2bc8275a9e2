# SPDX-License-Identifier: GPL-2.0-only
"""What results say of the code that they are of: it has to change with the code, and with nothing else."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import context
import provenance

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class Sources(unittest.TestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("kernel/sched/steer.c", "include/linux/steer.h", "hooks/6.12/series", "bench/run.py"):
            self.write(name, name)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Mechanism(Sources):
    def test_names_and_contents_count(self) -> None:
        seen = {provenance.mechanism(self.root)}
        for change in (lambda: self.write("kernel/sched/steer.c", "other"),
                       lambda: self.write("hooks/6.12/x.patch", ""),
                       lambda: (self.root / "include/linux/steer.h").rename(self.root / "include/steer.h")):
            change()
            seen.add(provenance.mechanism(self.root))
        self.assertEqual(len(seen), 4)

    def test_where_one_file_ends_counts(self) -> None:
        self.write("kernel/a", "1")
        self.write("kernel/b", "2")
        before = provenance.mechanism(self.root)
        (self.root / "kernel/b").unlink()
        self.write("kernel/a", "1kernel/b\n1\n2")
        self.assertNotEqual(provenance.mechanism(self.root), before)

    def test_nothing_else_counts(self) -> None:
        before = provenance.mechanism(self.root)
        self.write("bench/run.py", "other")
        os.utime(self.root / "kernel/sched/steer.c", (0, 0))
        self.assertEqual(provenance.mechanism(self.root), before)

    def test_changed_during_the_run(self) -> None:
        before = provenance.mechanism(self.root)
        self.assertEqual(provenance.changed(before, self.root), "")
        self.write("hooks/6.12/series", "other")
        self.assertEqual(provenance.changed(before, self.root), "kernel/, include/, hooks/ changed during the run")
        self.assertEqual(provenance.changed("", self.root), "")


class Revision(Sources):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, IDENTITY))

    def git(self, *words: str) -> str:
        return subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self) -> str:
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "all")
        return self.git("rev-parse", "HEAD")

    def test_commit(self) -> None:
        commit = self.commit()
        self.assertEqual(provenance.revision(self.root), commit)
        self.write("bench/new.py", "")
        self.assertEqual(provenance.revision(self.root), f"{commit}-dirty")
        (self.root / "bench/new.py").unlink()
        self.write("bench/run.py", "other")
        self.assertEqual(provenance.revision(self.root), f"{commit}-dirty")
        self.assertEqual(provenance.short(f"{commit}-dirty"), f"{commit[:12]}-dirty")

    def test_none(self) -> None:
        """Neither where there is no repository or no commit, nor where it is another one's, nor without git."""
        with mock.patch.dict(os.environ, {"GIT_CEILING_DIRECTORIES": str(self.root.parent)}):
            self.assertEqual(provenance.revision(self.root), "")
        self.git("init", "--quiet")
        self.assertEqual(provenance.revision(self.root), "")
        self.commit()
        self.assertEqual(provenance.revision(self.root / "kernel"), "")
        with mock.patch.object(provenance.subprocess, "run", side_effect=FileNotFoundError):
            self.assertEqual(provenance.revision(self.root), "")


class Header(unittest.TestCase):
    def test_kernel_of_unknown_origin(self) -> None:
        built, found = provenance.header(True), provenance.header(False)
        self.assertEqual(built["mechanism"], provenance.mechanism(context.ROOT))
        self.assertEqual(found["mechanism"], "")
        self.assertEqual((found["revision"], found["host_cpus"]), (built["revision"], os.cpu_count()))


if __name__ == "__main__":
    unittest.main()
