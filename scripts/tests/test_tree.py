# SPDX-License-Identifier: GPL-2.0-only
"""The tree: hooks apply exactly or stop with all that is needed to mend them; files change only when they must."""

import os
import tempfile
import unittest
from pathlib import Path

import context  # noqa: F401
import check_hooks
import tree
from common import Fail

SOURCE = "".join(f"line {i}\n" for i in range(1, 31))


def hook(*lines: str, at: int = 10) -> str:
    """A patch that adds lines after line `at` of kernel/a.c."""
    context_lines = [f" line {i}" for i in range(at - 2, at + 1)], [f" line {i}" for i in range(at + 1, at + 4)]
    body = [*context_lines[0], *(f"+{line}" for line in lines), *context_lines[1]]
    return "\n".join(["Subject: x", "--- a/kernel/a.c", "+++ b/kernel/a.c",
                      f"@@ -{at - 2},6 +{at - 2},{6 + len(lines)} @@", *body]) + "\n"


class Hooks(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.hooks, self.source, self.work = (self.root / name for name in ("hooks", "source", "work"))
        self.hooks.mkdir()
        (self.source / "kernel").mkdir(parents=True)
        (self.source / "kernel/a.c").write_text(SOURCE)
        (self.hooks / "tested-with").write_text("1.0-1\n")

    def write(self, **patches: str) -> None:
        for name, text in patches.items():
            (self.hooks / f"{name}.patch").write_text(text)
        (self.hooks / "series").write_text("# order matters\n" + "".join(f"{name}.patch\n" for name in patches))

    def apply(self) -> list[tree.HookReport]:
        return tree.apply_hooks(self.hooks, self.source, self.work, "2.0-1")

    def test_applies_in_order(self) -> None:
        # As many lines of context before as after: patch takes anything else for the end of the file.
        second = hook("steer_two();").replace(" line 8\n", "").replace(" line 10\n", " line 10\n steer_one();\n")
        second = second.replace("-8,6 +8,7", "-9,6 +9,7")
        self.write(first=hook("steer_one();"), second=second)
        reports = self.apply()
        self.assertEqual([report.name for report in reports], ["first.patch", "second.patch"])
        self.assertIn("line 10\nsteer_one();\nsteer_two();\nline 11\n", (self.work / "kernel/a.c").read_text())
        self.assertEqual((self.source / "kernel/a.c").read_text(), SOURCE)

    def test_reports_offsets(self) -> None:
        self.write(moved=hook("steer();").replace("@@ -8,6 +8,7 @@", "@@ -3,6 +3,7 @@"))
        self.assertIn("offset 5 lines", self.apply()[0].offsets[0])

    def test_no_fuzz(self) -> None:
        self.write(near=hook("steer();").replace(" line 8\n", " line eight\n"))
        self.assertRaises(Fail, self.apply)

    def test_failure_says_everything(self) -> None:
        self.write(good=hook("steer_good();"), bad=hook("steer_bad();", at=20).replace(" line 20", " line twenty"))
        with self.assertRaises(Fail) as caught:
            self.apply()
        message = str(caught.exception)
        for needed in ("bad.patch", "kernel/a.c", "+steer_bad();", "line twenty", "2.0-1", "1.0-1", "check-hooks"):
            self.assertIn(needed, message)
        self.assertNotIn("steer_good", message)

    def test_file_that_is_not_there(self) -> None:
        self.write(gone=hook("steer();").replace("kernel/a.c", "kernel/gone.c"))
        self.assertRaisesRegex(Fail, "gone.patch: changes kernel/gone.c, which source does not have", self.apply)

    def test_hooks_do_not_create_files(self) -> None:
        self.write(new=hook("steer();").replace("--- a/kernel/a.c", "--- /dev/null"))
        self.assertRaisesRegex(Fail, "new files belong into the overlay", self.apply)

    def test_series_and_directory_agree(self) -> None:
        self.write(one=hook("steer();"))
        (self.hooks / "stray.patch").write_text(hook("steer();"))
        self.assertRaisesRegex(Fail, "stray.patch: is not listed", self.apply)
        (self.hooks / "stray.patch").unlink()
        (self.hooks / "series").write_text("one.patch\nmissing.patch\n")
        self.assertRaisesRegex(Fail, "lists 'missing.patch', which does not exist", self.apply)


class Changes(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.pristine, self.tree = Path(directory.name, "pristine"), Path(directory.name, "tree")
        self.pristine.mkdir()
        self.tree.mkdir()
        (self.pristine / "a.c").write_text("pristine\n")
        os.link(self.pristine / "a.c", self.tree / "a.c")

    def test_never_writes_through_a_link(self) -> None:
        self.assertEqual(tree.write_changes(self.tree, self.pristine, {"a.c": b"hooked\n"}, set()), 1)
        self.assertEqual((self.pristine / "a.c").read_text(), "pristine\n")
        self.assertEqual((self.tree / "a.c").read_text(), "hooked\n")

    def test_same_content_keeps_its_time(self) -> None:
        tree.write_changes(self.tree, self.pristine, {"b.c": b"ours\n"}, set())
        os.utime(self.tree / "b.c", (1, 1))
        self.assertEqual(tree.write_changes(self.tree, self.pristine, {"b.c": b"ours\n"}, {"b.c"}), 0)
        self.assertEqual((self.tree / "b.c").stat().st_mtime, 1)

    def test_what_is_no_longer_ours_goes(self) -> None:
        tree.write_changes(self.tree, self.pristine, {"a.c": b"hooked\n", "b.c": b"ours\n"}, set())
        before = (self.pristine / "a.c").stat().st_mtime_ns
        tree.write_changes(self.tree, self.pristine, {}, {"a.c", "b.c"})
        self.assertFalse((self.tree / "b.c").exists())
        self.assertEqual((self.tree / "a.c").read_text(), "pristine\n")
        # make has to see that it changed back.
        self.assertGreater((self.tree / "a.c").stat().st_mtime_ns, before)


class Budget(unittest.TestCase):
    def measure(self, patch: str) -> check_hooks.Size:
        size = check_hooks.Size()
        check_hooks.measure("x.patch", patch, size)
        return size

    def test_counts_each_file(self) -> None:
        size = self.measure(hook("steer_one();", "", "steer_two();") + hook("z();").replace("a.c", "b.c"))
        self.assertEqual(dict(size.added), {"kernel/a.c": 3, "kernel/b.c": 1})
        self.assertEqual(size.problems, [])

    def test_lines_that_look_like_headers(self) -> None:
        size = self.measure("--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n line\n--- old\n+++ new\n")
        self.assertEqual((size.added["x.c"], size.removed["x.c"]), (1, 1))

    def test_conditionals(self) -> None:
        for line in ("#ifdef CONFIG_CGROUP_STEER", "# if 1", "#endif"):
            self.assertEqual(len(self.measure(hook(line)).problems), 1, line)
        self.assertEqual(self.measure(hook("#include \"steer.h\"")).problems, [])
        self.assertEqual(self.measure(hook("if X").replace("a.c", "Kconfig")).problems, [])


if __name__ == "__main__":
    unittest.main()
