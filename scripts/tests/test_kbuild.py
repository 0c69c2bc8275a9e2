# SPDX-License-Identifier: GPL-2.0-only
"""The configuration that came out is the one that was asked for, or the build stops."""

import re
import unittest

import context  # noqa: F401
import kbuild
import objects
from common import Fail, Target, useful_lines


class Verify(unittest.TestCase):
    def check(self, result: str, *fragments: str) -> list[str]:
        return kbuild.verify_config([(f"f{i}.config", text) for i, text in enumerate(fragments)], result)

    def test_all_there(self) -> None:
        self.assertEqual(self.check('CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_S="x y"\n',
                                    'CONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\nCONFIG_S="x y"\n'), [])

    def test_dropped_symbol(self) -> None:
        self.assertEqual(self.check("CONFIG_A=y\n", "CONFIG_A=y\nCONFIG_B=y\n"),
                         ["CONFIG_B: wanted y (f0.config), got n"])

    def test_other_value(self) -> None:
        self.assertEqual(self.check("CONFIG_N=64\nCONFIG_V=y\n", "CONFIG_N=256\n# CONFIG_V is not set\n"),
                         ["CONFIG_N: wanted 256 (f0.config), got 64", "CONFIG_V: wanted n (f0.config), got y"])

    def test_later_fragment_wins(self) -> None:
        self.assertEqual(self.check("CONFIG_A=y\n", "CONFIG_A=y\n", "# CONFIG_A is not set\n"),
                         ["CONFIG_A: wanted n (f1.config), got y"])

    def test_typing_error_in_a_fragment(self) -> None:
        self.assertRaisesRegex(Fail, "f0.config:2: 'CONFIG_B y' is neither", self.check, "", "CONFIG_A=y\nCONFIG_B y\n")

    def test_fragments_of_the_repository(self) -> None:
        for path in (context.ROOT / "configs").glob("*.config"):
            self.assertTrue(kbuild.parse_config(path.read_text(encoding="utf-8"), path.name), path)

    def test_pristine_has_none_of_ours(self) -> None:
        (_, text), = kbuild.read_fragments(["base"], kbuild.OUR_SYMBOLS)
        self.assertNotIn("STEER", re.sub('"-steer"', "", text))


class Environment(unittest.TestCase):
    def test_architecture(self) -> None:
        self.assertRaisesRegex(Fail, "ARCH=sparc is not supported; use one of: x86_64, arm64",
                               Target.from_environment, {"ARCH": "sparc"})

    def test_version(self) -> None:
        self.assertRaisesRegex(Fail, "KVER=2.4: there is no hooks/2.4/series", Target.from_environment,
                               {"ARCH": "arm64", "KVER": "2.4"})

    def test_outer_make_does_not_leak(self) -> None:
        self.assertFalse({"ARCH", "MAKEFLAGS", "CROSS_COMPILE"} & kbuild.environment().keys())


class Logs(unittest.TestCase):
    def test_errors_not_the_end(self) -> None:
        log = "\n".join(["  CC a.o"] * 50 + ["a.c:1:2: error: no such thing", "    1 | x"] + ["  CC b.o"] * 50)
        self.assertIn("no such thing", useful_lines(log))
        self.assertLess(len(useful_lines(log).splitlines()), 10)

    def test_the_end_where_no_error(self) -> None:
        self.assertEqual(useful_lines("a\nb\nc", count=2), "b\nc")


class Dependencies(unittest.TestCase):
    def test_cmd_file(self) -> None:
        text = ("savedcmd_kernel/sched/fair.o := gcc -c x\n\nsource_kernel/sched/fair.o := /t/kernel/sched/fair.c\n\n"
                "deps_kernel/sched/fair.o := \\\n    $(wildcard include/config/SMP) \\\n  /t/kernel/sched/sched.h \\\n"
                "  /t/include/linux/a.h \\\n\nkernel/sched/fair.o: $(deps_kernel/sched/fair.o)\n")
        self.assertEqual(objects.parse_cmd(text), ("/t/kernel/sched/fair.c", {
            "/t/kernel/sched/fair.c", "/t/kernel/sched/sched.h", "/t/include/linux/a.h"}))

    def test_no_source(self) -> None:
        self.assertEqual(objects.parse_cmd("savedcmd_a/built-in.a := ar\n"), ("", set()))


if __name__ == "__main__":
    unittest.main()
