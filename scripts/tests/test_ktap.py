# SPDX-License-Identifier: GPL-2.0-only
"""Only a run that is clearly a success passes."""

import contextlib
import io
import unittest

import context  # noqa: F401
import ktap
from ktap import FAILED, PASSED, SKIPPED

NONCE = "0123456789abcdef"
LLCS = [frozenset({0, 1}), frozenset({2, 3})]
GOOD = ["TAP version 13", "1..2", "ok 1 one", "ok 2 two"]


def report(*programs: tuple[str, list[str], int], done: bool = True, nonce: str = NONCE) -> str:
    lines = [f"@llc {nonce} cpu={cpu} mask={'3' if cpu < 2 else 'c'}" for cpu in range(4)]
    lines.append(f"@hint {nonce} present=1")
    for name, output, status in programs:
        lines += [f"@begin {nonce} {name}", *(f"\t{line}" for line in output), f"@end {nonce} {name} rc={status}"]
    if done:
        lines.append(f"@done {nonce} tainted=0 programs={len(programs)}")
    return "".join(f"{line}\r\n" for line in lines)


def failures(tests: list[ktap.Test]) -> list[str]:
    return [test.name for test in tests if test.status == FAILED]


class Tell(unittest.TestCase):
    def tell(self, *tests: ktap.Test) -> tuple[int, list[str]]:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = ktap.tell(list(tests))
        return status, output.getvalue().splitlines()

    def test_counts_come_last_and_alone(self) -> None:
        self.assertEqual(self.tell(ktap.Test("a", PASSED), ktap.Test("b", SKIPPED, "no SMT")),
                         (0, ["  SKIPPED b: no SMT", "1 passed, 0 failed, 1 skipped"]))

    def test_failure(self) -> None:
        self.assertEqual(self.tell(ktap.Test("a", FAILED, "7 > 5")),
                         (1, ["  FAILED a: 7 > 5", "0 passed, 1 failed, 0 skipped"]))


class Judge(unittest.TestCase):
    def judge(self, text: str, expected: tuple[str, ...] = ("a",), console: str = "", problem: str = "",
              present: bool = True) -> list[str]:
        return failures(ktap.judge(text, NONCE, list(expected), console, problem, LLCS, present))

    def test_success(self) -> None:
        text = report(("a", GOOD, 0), ("b", ["1..1", "ok 1 x # SKIP no SMT"], 0))
        tests = ktap.judge(text, NONCE, ["a", "b"], "Linux version 6.12\nkasan: initialized\n", "", LLCS)
        self.assertEqual(ktap.summary(tests), {PASSED: 4, FAILED: 0, SKIPPED: 1})

    def test_forged_end(self) -> None:
        """A program that hangs after printing everything that a success would consist of."""
        forged = report(("a", GOOD, 0), nonce="f" * 16)
        text = report(done=False) + f"@begin {NONCE} a\n" + "".join(f"\t{line}\n" for line in forged.splitlines())
        self.assertIn("machine: report", self.judge(text))
        self.assertIn("a: end", self.judge(text))

    def test_forged_end_on_the_channel_itself(self) -> None:
        text = report(done=False) + f"@begin {NONCE} a\n" + report(("a", GOOD, 0), nonce="f" * 16)
        self.assertIn("machine: report", self.judge(text))
        self.assertIn("machine: report lines", self.judge(text))

    def test_right_words_after_the_end(self) -> None:
        self.assertIn("machine: report lines", self.judge(report(("a", GOOD, 0)) + "\tok 3 more\n"))

    def test_truncated(self) -> None:
        whole = report(("a", GOOD, 0))
        for end in range(len(whole) - 2):
            self.assertTrue(self.judge(whole[:end]), f"success although cut at {end}: {whole[:end]!r}")

    def test_nothing(self) -> None:
        """What it did not report is not judged, so that a hang while it boots is told from one with wrong caches."""
        self.assertEqual(self.judge(""), ["a: start", "machine: report"])
        self.assertEqual(self.judge(f"@hint {NONCE} present=1\r\n"),
                         ["machine: last-level caches", "a: start", "machine: report"])

    def test_program_not_run(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0)), ("a", "b")), ["b: start", "machine: programs"])

    def test_program_not_expected(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0), ("b", GOOD, 0))), ["b: start", "machine: programs"])

    def test_exit_status(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 1))), ["a: exit status"])
        self.assertEqual(self.judge(report(("a", GOOD, 139))), ["a: exit status"])
        self.assertEqual(self.judge(report(("a", GOOD, 124))), ["a: time limit"])
        # "Skipped" is no excuse when something was not.
        self.assertEqual(self.judge(report(("a", GOOD, 4))), ["a: exit status"])
        self.assertEqual(self.judge(report(("a", ["1..0 # SKIP not here"], 4))), [])

    def test_taint(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0)).replace("tainted=0", "tainted=512")), ["machine: taint"])
        self.assertEqual(self.judge(report(("a", GOOD, 0)).replace("tainted=0", "tainted=262144")), [])
        self.assertEqual(self.judge(report(("a", GOOD, 0)).replace("tainted=0", "tainted=262656")), ["machine: taint"])

    def test_qemu(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0)), problem="killed"), ["machine: end"])

    def test_topology(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0)).replace("mask=c", "mask=f")),
                         ["machine: last-level caches"])
        self.assertEqual(self.judge(report(("a", GOOD, 0)).replace(f"@llc {NONCE} cpu=3 mask=c\r\n", "")),
                         ["machine: last-level caches"])

    def test_presence(self) -> None:
        self.assertEqual(self.judge(report(("a", GOOD, 0)), present=False), ["machine: cpu.hint does not exist"])
        absent = report(("a", GOOD, 0)).replace("present=1", "present=0")
        self.assertEqual(self.judge(absent), ["machine: cpu.hint exists"])
        self.assertEqual(self.judge(absent, present=False), [])

    def test_console(self) -> None:
        for line in ("WARNING: CPU: 1 PID: 7 at kernel/sched/fair.c:1 f+0x1/0x2", "BUG: KASAN: slab-use-after-free in f",
                     "Kernel panic - not syncing: x", "UBSAN: array-index-out-of-bounds in x.c:1:1", "Oops: 0000 [#1]",
                     "WARNING: possible circular locking dependency detected", "WARNING: suspicious RCU usage",
                     "INFO: task init:1 blocked for more than 122 seconds.", "watchdog: BUG: soft lockup - CPU#0 stuck",
                     "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "BUG: scheduling while atomic: a/1/0x2",
                     "rcu: INFO: rcu_preempt self-detected stall on CPU", "Call Trace:",
                     "BUG: sleeping function called from invalid context at x.c:1"):
            names = self.judge(report(("a", GOOD, 0)), console=f"[    1.0] ok\r\n[    2.0] {line}\r\n")
            self.assertTrue(names, line)
            self.assertTrue(all(name.startswith("console: ") for name in names), names)

    def test_stall_is_told_whole(self) -> None:
        console = """rcu: Hierarchical SRCU implementation.
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: \t11-...!: (0 ticks this GP) idle=9f48/0/0x0
Sending NMI from CPU 3 to CPUs 11:
rcu: rcu_preempt kthread timer wakeup didn't happen for 30000 jiffies!
"""
        self.assertEqual(ktap.complaints(console), [ktap.Test(
            "console: rcu: INFO: rcu_preempt detected stall", FAILED,
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks: | rcu: \t11-...!: (0 ticks this GP) idle=9f48/0/0x0"
            " | rcu: rcu_preempt kthread timer wakeup didn't happen for 30000 jiffies!")])


class Summary(unittest.TestCase):
    def test_remarks(self) -> None:
        tests = [ktap.Test("a", PASSED), ktap.Test("b", SKIPPED, "off"), ktap.Test("c", SKIPPED, "off"),
                 ktap.Test("d", SKIPPED, "no SMT"), ktap.Test("e", FAILED, "why"), ktap.Test("f", FAILED)]
        self.assertEqual(ktap.remarks(tests), ["FAILED e: why", "FAILED f", "SKIPPED 2 tests: off", "SKIPPED d: no SMT"])


class Ktap(unittest.TestCase):
    def names(self, *lines: str) -> list[str]:
        return failures(ktap.parse_ktap("p", lines))

    def test_missing_plan(self) -> None:
        self.assertEqual(self.names("ok 1 a"), ["p: plan"])

    def test_plan_not_met(self) -> None:
        self.assertEqual(self.names("1..3", "ok 1 a", "ok 2 b"), ["p: plan"])
        self.assertEqual(self.names("1..1", "ok 1 a", "ok 2 b"), ["p: plan"])

    def test_plan_at_the_end(self) -> None:
        self.assertEqual(self.names("ok 1 a", "1..1"), [])

    def test_two_plans(self) -> None:
        self.assertEqual(self.names("1..1", "1..1", "ok 1 a"), ["p: plan"])

    def test_numbering(self) -> None:
        self.assertEqual(self.names("1..2", "ok 1 a", "ok 3 b"), ["p: b"])
        self.assertEqual(self.names("1..2", "ok 1 a", "ok 1 a"), ["p: a"])

    def test_the_reason_is_what_was_said_before_the_result(self) -> None:
        tests = ktap.parse_ktap("p", [
            "1..3", "#  RUN           x.a ...", "# unheard of", "ok 1 x.a", "#  RUN           x.b ...",
            "# x.c:3:b:Expected 1 (1) == b (2)", "# b: Test failed", "#          FAIL  x.b", "not ok 2 x.b",
            "# said too late", "ok 3 c"])
        self.assertEqual([test.detail for test in tests], ["", "x.c:3:b:Expected 1 (1) == b (2)", ""])
        self.assertEqual(ktap.reason(["one", " ", "two", "3", "4", "5"]), "one | two | 3 | 4")
        self.assertEqual(ktap.reason(["one", "two", "3", "4", "x.c:3:b:Expected 1 (1) == b (2)", "6"]),
                         "x.c:3:b:Expected 1 (1) == b (2) | 6")

    def test_not_ok(self) -> None:
        tests = ktap.parse_ktap("p", ["1..2", "not ok 1 a: b", "ok 2 - c d"])
        self.assertEqual([(t.name, t.status) for t in tests], [("p: a: b", FAILED), ("p: c d", PASSED)])

    def test_not_ok_is_never_a_skip(self) -> None:
        self.assertEqual(self.names("1..1", "not ok 1 a # SKIP x"), ["p: a"])

    def test_skip(self) -> None:
        test, = ktap.parse_ktap("p", ["1..1", "ok 1 a # SKIP one LLC only"])
        self.assertEqual(test, ktap.Test("p: a", SKIPPED, "one LLC only"))

    def test_bail_out(self) -> None:
        self.assertIn("p: bail out", self.names("1..1", "ok 1 a", "Bail out! no cgroup"))

    def test_no_test(self) -> None:
        self.assertEqual(self.names("1..0"), ["p: results"])
        self.assertEqual(self.names("hello"), ["p: plan", "p: results"][:1])

    def test_nested(self) -> None:
        lines = ["KTAP version 1", "1..1", "    KTAP version 1", "    # Subtest: s", "    1..2", "    ok 1 a",
                 "        KTAP version 1", "        # Subtest: b", "        ok 1 - x", "        ok 2 - y",
                 "    # b: pass:2 fail:0 skip:0 total:2", "    ok 2 b", "ok 1 s"]
        tests = ktap.parse_ktap("p", lines)
        self.assertEqual([(t.name, t.status) for t in tests],
                         [("p: a", PASSED), ("p: x", PASSED), ("p: y", PASSED)])

    def test_nested_failure_hidden(self) -> None:
        self.assertEqual(self.names("1..1", "    1..1", "    not ok 1 a", "ok 1 s"), ["p: a", "p: s"])

    def test_nested_plan(self) -> None:
        self.assertEqual(self.names("1..1", "    1..2", "    ok 1 a", "ok 1 s"), ["p subtests: plan", "p: s"])

    def test_failure_outside_of_subtests(self) -> None:
        self.assertEqual(self.names("1..1", "    1..1", "    ok 1 a", "not ok 1 s"), ["p: s"])


class Stacks(unittest.TestCase):
    CONSOLE = """Command line: rcupdate.rcu_cpu_stall_timeout=120
CPU: 9 UID: 0 PID: 1 Comm: before Not tainted
 early+0x1/0x2
rcu: INFO: rcu_preempt self-detected stall on CPU
CPU: 3 UID: 0 PID: 168 Comm: churn_test Not tainted 6.12 #1
RIP: 0010:spin+0x6e/0xa0
Call Trace:
 <IRQ>
 spin+0x6e/0xa0
 ? guessed+0x1/0x2
 tick+0xfe/0x230
RIP: 0033:0x473fd7
task:init            state:S stack:0     pid:1     tgid:1
 schedule+0x22/0xa0
task:rcu_preempt     state:D stack:0     pid:17    tgid:17
 __schedule+0x3f5/0x1310
 wait+0x1/0x2
NMI backtrace for cpu 1 skipped: idling at default_idle+0x13/0x20
"""

    def test_what_runs_and_waits(self) -> None:
        self.assertEqual(ktap.stacks(self.CONSOLE), ["CPU 3, churn_test: spin tick", "rcu_preempt (D): __schedule wait"])

    def test_no_complaint_no_stacks(self) -> None:
        self.assertEqual(ktap.stacks("CPU: 9 UID: 0 PID: 1 Comm: before\n early+0x1/0x2\n"), [])


if __name__ == "__main__":
    unittest.main()
