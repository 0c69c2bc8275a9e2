# SPDX-License-Identifier: GPL-2.0-only
"""The tree: hooks apply exactly or stop with all that is needed to mend them; files change only when they must."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import context
import check_hooks
import common
import tree
from common import Fail, Target

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


class Ancestors(unittest.TestCase):
    """Rules that ours are compared with are in a tree of their own."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.hooks = self.root / "hooks/6.12"
        (self.root / "kernel").mkdir()
        (self.root / "kernel/ours.c").write_text("ours\n")
        self.target = Target("6.12", "arm64")
        for name, value in (("ROOT", self.root), ("package_version", lambda _: "1"), ("unpack", lambda *_: None)):
            self.enterContext(mock.patch.object(tree, name, value))
        self.enterContext(mock.patch.object(common, "ROOT", self.root))
        (self.target.pristine / "kernel").mkdir(parents=True)
        (self.target.pristine / "kernel/a.c").write_text(SOURCE)
        self.write(self.hooks, hook("steer();"))
        self.write(self.hooks / "ancestors", hook("rule_of_old();", at=20))

    @staticmethod
    def write(hooks: Path, text: str) -> None:
        hooks.mkdir(parents=True)
        (hooks / "x.patch").write_text(text)
        (hooks / "series").write_text("x.patch\n")

    def texts(self) -> tuple[str, str]:
        with contextlib.redirect_stdout(io.StringIO()):
            tree.prepare_ancestors(self.target)
        return tuple((base / "kernel/a.c").read_text()  # type: ignore[return-value]
                     for base in (self.target.source("lab"), self.target.source("lab-ancestors")))

    def test_on_top_of_the_hooks(self) -> None:
        ours, theirs = self.texts()
        self.assertIn("steer();\n", ours)
        self.assertNotIn("rule_of_old", ours)
        self.assertEqual(theirs, ours.replace("line 20\n", "line 20\nrule_of_old();\n"))
        self.assertEqual((self.target.source("lab-ancestors") / "kernel/ours.c").read_text(), "ours\n")
        self.assertEqual((self.target.pristine / "kernel/a.c").read_text(), SOURCE)

    def test_follows_both(self) -> None:
        self.texts()
        (self.hooks / "x.patch").write_text(hook("steer_more();"))
        (self.hooks / "ancestors/x.patch").write_text(hook("older_rule();", at=20))
        (self.root / "kernel/ours.c").write_text("more\n")
        _, theirs = self.texts()
        self.assertEqual([line for line in theirs.splitlines() if not line.startswith("line")],
                         ["steer_more();", "older_rule();"])
        self.assertEqual((self.target.source("lab-ancestors") / "kernel/ours.c").read_text(), "more\n")

    def test_same_place_relative_to_its_source(self) -> None:
        """ccache knows an object again by that."""
        for variant in ("lab", "lab-ancestors"):
            self.assertEqual(os.path.relpath(self.target.source(variant), self.target.out(variant)), "../../tree")

    def test_product_has_none_of_them(self) -> None:
        base = context.ROOT / "hooks/6.12"
        rules = set(re.findall(r"ancestor_\w+", "".join(p.read_text() for p in (base / "ancestors").glob("*.patch"))))
        self.assertLessEqual({"ancestor_wake", "ancestor_gang", "ancestor_numa"}, rules)
        texts = [path.read_text() for path in (*base.glob("*.patch"), *tree.overlay_files(context.ROOT).values())]
        self.assertEqual([rule for rule in rules if any(rule in text for text in texts)], [])


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
