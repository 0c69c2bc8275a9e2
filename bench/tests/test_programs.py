# SPDX-License-Identifier: GPL-2.0-only
"""The short run of every benchmark in the lab: its script under a real shell, and what is made of the output."""

import contextlib
import io
import subprocess
import unittest
from unittest import mock

import context  # noqa: F401
import lab
import outputs
import parsers
import programs
import rootfs
from common import Target
from ktap import FAILED, PASSED, Test
from programs import Example


class Judged(unittest.TestCase):
    def run_all(self, *examples: Example) -> list[Test]:
        output = subprocess.run(["sh", "-c", programs.script_of(examples)], capture_output=True, text=True,
                                check=True).stdout
        with contextlib.redirect_stdout(io.StringIO()) as self.said:
            return programs.judge(examples, output)

    @staticmethod
    def hackbench(command: str) -> Example:
        return Example("made up", command, parsers.hackbench)

    def test_good(self) -> None:
        tests = self.run_all(self.hackbench(f"echo '{outputs.HACKBENCH}'"), self.hackbench("printf 'Time: 0.5'"))
        self.assertEqual([test.status for test in tests], [PASSED, PASSED])
        self.assertIn("made up: time 0.011", self.said.getvalue())

    def test_each_failure_is_its_own(self) -> None:
        tests = self.run_all(self.hackbench("no-such-program"), self.hackbench("echo Time: 1; exit 3"),
                             self.hackbench("echo nothing of use"), self.hackbench("echo Time: 1"))
        self.assertEqual([test.status for test in tests], [FAILED, FAILED, FAILED, PASSED])
        reasons = ("status 127: .*not found", "status 3: Time: 1", "nothing of use")
        for test, wanted in zip(tests, reasons, strict=False):
            self.assertRegex(test.detail, wanted)

    def test_cut_off(self) -> None:
        """The machine ended in the second of three."""
        examples = [self.hackbench("echo Time: 1")] * 3
        output = "@begin 0\nTime: 1\n\n@end 0 0\n@begin 1\nTime: 1\n"
        with contextlib.redirect_stdout(io.StringIO()):
            tests = programs.judge(examples, output)
        self.assertEqual([test.status for test in tests], [PASSED, FAILED, FAILED])


class Examples(unittest.TestCase):
    def test_each_program_of_the_lab_has_one(self) -> None:
        """And it is put into the machine. Those of one suite are its own affair."""
        named = lab.programs_in("\n".join(example.command for example in programs.EXAMPLES))
        wanted = {name for name, program in rootfs.PROGRAMS.items() if not program.library
                  and not program.suite} | {"schbench", "stream"}
        self.assertEqual(set(named), wanted)

    def test_the_documentation_has_them(self) -> None:
        text = (lab.ROOT / "bench/lab/README.md").read_text(encoding="utf-8")
        for example in programs.EXAMPLES:
            self.assertIn(f"CMD='{example.command}'", text)

    def test_the_machine_is_asked(self) -> None:
        asked = {}

        def run_script(machine: lab.Machine, script: str, names: list[str], **_: object) -> lab.LabResult:
            asked.update(machine=machine.name, script=script, names=names)
            return lab.LabResult("@begin 0\nTime: 1\n\n@end 0 0\n", 0, [], {}, 1)
        with mock.patch.object(lab, "run_script", run_script), contextlib.redirect_stdout(io.StringIO()):
            tests = programs.run(Target(arch="arm64"))
        self.assertEqual([test.status for test in tests], [PASSED] + [FAILED] * (len(programs.EXAMPLES) - 1))
        self.assertIn("tbench_srv", asked["names"])
        self.assertIn("lo up", asked["script"])


if __name__ == "__main__":
    unittest.main()
