# SPDX-License-Identifier: GPL-2.0-only
"""A placement test that failed is repeated; everything else counts at once."""

import unittest

import context  # noqa: F401
from emulator import LOST
from ktap import FAILED, PASSED, Test
from second_look import look_again

MACHINE = Test("machine: last-level caches", PASSED)
GOOD = Test("wake_test: wake.affine", PASSED)
BAD = Test("wake_test: wake.affine", FAILED)
OTHER = Test("interface_test: words", FAILED)
COMPLAINT = Test("console: WARNING", FAILED)


class SecondLook(unittest.TestCase):
    def look(self, tests: list[Test], *again: list[Test]) -> tuple[list[Test], list[str], list[str]]:
        asked: list[str] = []
        said: list[str] = []
        answers = iter(again)

        def repeat(program: str) -> list[Test]:
            asked.append(program)
            return next(answers)
        return look_again(tests, repeat, lambda: [*repeat("all")], said.append), asked, said

    def test_all_passed(self) -> None:
        self.assertEqual(self.look([MACHINE, GOOD]), ([MACHINE, GOOD], [], []))

    def test_passes_at_second_attempt(self) -> None:
        tests, asked, said = self.look([MACHINE, BAD], [MACHINE, GOOD])
        self.assertEqual((tests, asked), ([MACHINE, GOOD], ["wake_test"]))
        self.assertIn("failed at first: wake_test: wake.affine", said[0])

    def test_fails_twice(self) -> None:
        tests, _, _ = self.look([MACHINE, BAD], [MACHINE, BAD])
        self.assertEqual(tests, [MACHINE, BAD])

    def test_complaint_in_the_repetition(self) -> None:
        tests, _, _ = self.look([MACHINE, BAD], [MACHINE, GOOD, COMPLAINT])
        self.assertIn(COMPLAINT, tests)

    def test_results_of_the_first_run_do_not_add_up(self) -> None:
        tests, _, _ = self.look([MACHINE, BAD, Test("wake_test: exit status", FAILED)], [MACHINE, GOOD])
        self.assertEqual(tests, [MACHINE, GOOD])

    def test_other_failures_count_at_once(self) -> None:
        for other in (OTHER, COMPLAINT, Test("machine: end", FAILED)):
            tests, asked, _ = self.look([BAD, other])
            self.assertEqual((tests, asked), ([BAD, other], []))

    def test_known_warning(self) -> None:
        """It ends the machine, so the rest of the run is missing; only this one counts as known."""
        warning = Test("console: WARNING", FAILED,
                       "[  69.1] WARNING: CPU: 3 PID: 30 at kernel/sched/core.c:8364 sched_cpu_dying+0x1c5/0x220")
        panic = Test("console: Kernel panic", FAILED, "panic_on_warn set ...")
        tests, asked, _ = self.look([OTHER, warning, panic], [MACHINE, GOOD])
        self.assertEqual((tests, asked), ([MACHINE, GOOD], ["all"]))
        tests, _, _ = self.look([warning], [warning])
        self.assertEqual(tests, [warning], "a second time is one too many")
        other = Test("console: WARNING", FAILED, "WARNING: CPU: 9 PID: 1 at set_task_cpu+0x41b/0x4d0")
        tests, asked, _ = self.look([other, panic])
        self.assertEqual((tests, asked), ([other, panic], []))

    def test_emulator_at_fault(self) -> None:
        """Only where QEMU itself shows it, and once."""
        lost = Test("machine: end", FAILED, f"a stall, killed; {LOST}: CPU 11, vector 0xec")
        rest = [Test("churn_test: end", FAILED), Test("churn_test: plan", FAILED), Test("machine: report", FAILED),
                Test("console: rcu: INFO: rcu_preempt detected stall", FAILED), Test("console: Call Trace", FAILED)]
        tests, asked, _ = self.look([MACHINE, lost, *rest], [MACHINE, GOOD])
        self.assertEqual((tests, asked), ([MACHINE, GOOD], ["all"]))
        early = [Test(f"{program}_test: start", FAILED) for program in ("interface", "wake")]
        tests, asked, _ = self.look([*early, lost, *rest], [MACHINE, GOOD])
        self.assertEqual((tests, asked), ([MACHINE, GOOD], ["all"]), "before a program ran")
        tests, asked, _ = self.look([BAD, lost, *rest], [MACHINE, GOOD])
        self.assertEqual((tests, asked), ([MACHINE, GOOD], ["all"]), "no task runs where a CPU stands still")
        for beside in (OTHER, COMPLAINT, Test("machine: last-level caches", FAILED),
                       Test("console: possible circular locking", FAILED)):
            tests, asked, _ = self.look([lost, beside])
            self.assertEqual((tests, asked), ([lost, beside], []))
        tests, _, _ = self.look([lost], [lost])
        self.assertEqual(tests, [lost], "a second time is one too many")
        stall = Test("machine: end", FAILED, "a stall, killed")
        tests, asked, _ = self.look([OTHER, stall])
        self.assertEqual((tests, asked), ([OTHER, stall], []))


if __name__ == "__main__":
    unittest.main()
