# SPDX-License-Identifier: GPL-2.0-only
"""The lab's check of itself: its predictions are right where they can be worked out by hand, and nothing gets lost."""

import contextlib
import io
import math
import os
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401
import lab
import outputs
import parsers
import selfcheck
from common import Fail, Target
from ktap import FAILED, PASSED, Test


class TestPredictions(unittest.TestCase):
    def setUp(self) -> None:
        self.zen, self.xeon = lab.machine_of("zen"), lab.machine_of("xeon")

    def test_places(self) -> None:
        self.assertEqual(selfcheck.Places.of(self.zen), selfcheck.Places(1, 2, 4, 8, 10, 16, 18))
        self.assertEqual(selfcheck.Places.of(self.xeon), selfcheck.Places(1, 2, 4, None, None, 16, 18))
        small = lab.machine_of("1x1x1x1")
        self.assertEqual(selfcheck.Places.of(small), selfcheck.Places(*[None] * 7))

    def test_hits_solve_their_equation(self) -> None:
        self.assertAlmostEqual(selfcheck.hits(4, 1), 0.0198, places=4)
        self.assertLess(selfcheck.hits(16, 1), 1e-6)

    def test_lines(self) -> None:
        rows = {row.name: row for row in selfcheck.line_rows(self.zen)}
        # 3, 5 and 6 instructions of 0.25 ns.
        self.assertAlmostEqual(rows["read, from LLC"].predicted, 23.75)
        self.assertAlmostEqual(rows["read, from sibling"].predicted, 0.75)
        self.assertAlmostEqual(rows["write, shared with other node"].predicted, 198.25)
        self.assertAlmostEqual(rows["atomic, from other LLC"].predicted, 108.5)
        self.assertEqual(rows["read, from sibling"].command, "lines 2048 32 32 w0 =r1")
        self.assertEqual(rows["read, copy from other LLC"].command, "lines 2048 32 1 w0 r8 =r10")

    def test_a_machine_without_a_place_has_no_row_for_it(self) -> None:
        names = {row.name for row in selfcheck.line_rows(self.xeon)}
        self.assertIn("read, from other node", names)
        self.assertNotIn("read, from other LLC", names)
        for name in ("1x1x1x1", "1x1x2x1", "2x1x1x2", "1x3x2x2", "4x2x8x2"):
            with self.subTest(name):
                self.assertTrue(selfcheck.rows_of(lab.machine_of(name)))

    def test_a_lone_stream_takes_its_own_time(self) -> None:
        self.assertAlmostEqual(selfcheck.stream_gbs(self.xeon, "read", [0]), 64 / (3 * 0.267 + 4.2))

    def test_streams_share_what_is_narrow(self) -> None:
        missing = 1 - selfcheck.hits(4, 1)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 2]), 20 / missing)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 8]), 21.4 / missing)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 2, 16, 18]), 40 / missing)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 2, 8, 10], 16), 15 / missing)
        # Of three lines that pass, two count.
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "copy", [0]), 20 / missing * 2 / 3)

    def test_streams_are_as_many_as_cores_and_as_cpus(self) -> None:
        for machine in (self.zen, self.xeon):
            names = {row.name for row in selfcheck.stream_rows(machine)}
            self.assertLessEqual({"stream read, 1 in LLC", *(f"stream read, {n} spread" for n in range(2, 17)),
                                  "stream copy, 16 spread", "stream read, 32 on all CPUs",
                                  "stream copy, 32 on all CPUs"}, names, machine.name)
        # Four nodes, each its own memory: two thirds of it in a copy.
        large = {row.name: row.predicted for row in selfcheck.stream_rows(lab.machine_of("4x2x8x2"))}
        self.assertAlmostEqual(large["stream read, 128 on all CPUs"], 4 * 21.4 / (1 - selfcheck.hits(4, 1)))
        self.assertNotIn("stream read, 63 spread", large)

    def test_the_node_with_more_streams_is_waited_for(self) -> None:
        """Two of zen's three are in one node; all have the same work, so the other node stands still in the end. An LLC
        with two of them has twice as many lines that do not fit as the others."""
        missing = 1 - selfcheck.hits(4, 1)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 16, 8]), 3 * 21.4 / (2 * missing))
        twice = 1 - selfcheck.hits(8, 1)
        self.assertAlmostEqual(selfcheck.stream_gbs(self.zen, "read", [0, 2, 8]), 3 * 21.4 / (2 * twice + missing))

    def test_program_alone_takes_its_own_time(self) -> None:
        """Copying 8 elements takes 40 instructions and two lines, none of which waits for another."""
        self.assertAlmostEqual(selfcheck.stream_program_mbs(self.zen, "copy", [0], 5), 2 * 64 / (10 + 5) * 1000)

    def test_program_misses(self) -> None:
        """What is left of an array: exp(-4) after two arrays of the four thirds of a cache, and one third passed."""
        fetched, written = selfcheck.stream_misses("triad")
        # All three were touched by add, which passes over as many: 4 caches lie between, wherever it is.
        self.assertAlmostEqual(fetched, 3 * (1 - math.exp(-4)))
        self.assertAlmostEqual(written, 1)
        # A third of what add leaves is to be written back, and half of what scale leaves.
        self.assertAlmostEqual(selfcheck.stream_misses("add")[1], 1 + (1 / 2 - 1 / 3) * 3 / 4)
        self.assertAlmostEqual(sum(selfcheck.stream_misses(kernel)[1] for kernel in selfcheck.STREAM_KERNELS), 4)

    def test_programs_share_what_is_narrow(self) -> None:
        passing = sum(selfcheck.stream_misses("triad"))
        one, llc = (selfcheck.stream_program_mbs(self.zen, "triad", cpus, 7) for cpus in ([0], [0, 2, 4, 6]))
        self.assertAlmostEqual(llc, 3 / passing * 20000)
        self.assertLess(one, llc)
        self.assertAlmostEqual(selfcheck.stream_program_mbs(self.zen, "triad", list(range(0, 32, 2)), 7),
                               2 * 3 / passing * 21400)

    def test_programs_are_on_one_core_to_all(self) -> None:
        for name, counts in (("zen", [1, 4, 4, 8, 16]), ("xeon", [1, 8, 2, 4, 8, 16]), ("1x1x1x1", [1])):
            machine = lab.machine_of(name)
            self.assertEqual([len(cpus) for _, cpus in selfcheck.stream_programs(machine)], counts, name)
            for _, cpus in selfcheck.stream_programs(machine):
                self.assertEqual(len({cpu // machine.topology.threads for cpu in cpus}), len(cpus))

    def test_siblings_are_slower(self) -> None:
        alone, shared = (selfcheck.instructions_ns(self.zen, 6, shared=shared) for shared in (False, True))
        self.assertAlmostEqual(alone, 1.5)
        self.assertAlmostEqual(shared, 2.5)

    def test_a_buffer_is_larger_than_its_caches(self) -> None:
        for row in selfcheck.stream_rows(self.zen):
            words = row.command.split()
            cpus = list(map(int, words[4:]))
            for llc in {cpu // 8 for cpu in cpus}:
                lines = sum(int(words[2]) for cpu in cpus if cpu // 8 == llc)
                self.assertGreaterEqual(lines, 4 * 16384 * 1024 // 64 - 8, row.name)


class TestResults(unittest.TestCase):
    def setUp(self) -> None:
        self.machine = lab.machine_of("zen")
        self.rows = [selfcheck.Row("one", "spin 1 0", "ps", "ps", 250), selfcheck.Row("two", "x y", "ns", "ns", 100),
                     *(selfcheck.Row(f"futex ping-pong, {where}", "x y", "ns", "ns")
                       for where in selfcheck.KERNEL_ORDER)]

    @staticmethod
    def text(*values: float) -> str:
        return "\n".join(["chatter", *(f"name={i} {'ps' if i == 0 else 'ns'}={value}"
                                       for i, value in enumerate(values))])

    def test_values_are_found_by_number(self) -> None:
        self.assertEqual(selfcheck.parse(self.text(251, 99, 5, 6, 7, 8), self.rows), [251, 99, 5, 6, 7, 8])

    def test_a_missing_value_is_named(self) -> None:
        with self.assertRaisesRegex(Fail, "remote"):
            selfcheck.parse(self.text(251, 99, 5, 6, 7), self.rows)

    def test_more_than_five_percent_fails(self) -> None:
        lines, tests = selfcheck.judge(self.machine, self.rows, [262, 105.1, 5, 6, 7, 8])
        self.assertEqual([test.status for test in tests], [PASSED, FAILED, PASSED])
        self.assertIn("+5.1%", tests[1].detail)
        self.assertTrue(lines[2].endswith("NO"))
        _, tests = selfcheck.judge(self.machine, self.rows, [237, 95.1, 5, 6, 7, 8])
        self.assertEqual([test.status for test in tests], [FAILED, PASSED, PASSED])

    def test_order(self) -> None:
        for values, status in (([5, 5, 6, 7], PASSED), ([5, 6, 6, 7], FAILED), ([6, 5, 7, 8], FAILED)):
            self.assertEqual(selfcheck.order_test("zen", self.rows[2:], values).status, status, values)

    def test_script_numbers_the_rows(self) -> None:
        script = selfcheck.script_of(self.machine, self.rows)
        self.assertIn("lab-probe spin 0 1 0 ", script)

    def test_stream_runs_once_for_its_four_kernels(self) -> None:
        rows = [*self.rows, *selfcheck.program_rows(self.machine, dict.fromkeys(selfcheck.STREAM_KERNELS, 5.0))]
        probes = selfcheck.probes_of(rows)
        self.assertEqual(len(probes), 6 + len(selfcheck.stream_programs(self.machine)))
        self.assertEqual(probes[6], "echo stream=6; taskset -c 0 stream -t 1 -n 2796203 -k 4 --json || exit 1")
        rows = rows[:14]
        text = self.text(251, 99, 5, 6, 7, 8) + f"\nstream=6\n{outputs.STREAM}stream=10\n{outputs.STREAM}"
        self.assertEqual(selfcheck.parse(text, rows)[5:], [8, *[41692.725, 42546.402, 48794.372, 48477.014] * 2])
        with self.assertRaisesRegex(Fail, "no result for: STREAM copy, 4 in LLC, STREAM scale"):
            selfcheck.parse(text.partition("stream=10")[0], rows)
        wrong = text.replace("true", "false")
        self.assertRaisesRegex(parsers.Unreadable, "wrong values", selfcheck.parse, wrong, rows)

    def test_busy(self) -> None:
        """Two CPUs of zen compute, after all have slept."""
        def marks(*busy: int) -> list[dict[str, object]]:
            return [{"at": "mark", "time_ns": 1000 * i, "busy_ns": value} for i, value in enumerate(busy)]

        self.assertEqual(selfcheck.busy_cpus(self.machine), [0, 2])
        for busy, status in (((0, 10, 2000), PASSED), ((0, 200, 2200), FAILED), ((0, 10, 1010), FAILED)):
            self.assertEqual(selfcheck.busy_test(self.machine, marks(*busy)).status, status, busy)
        self.assertEqual(selfcheck.busy_test(self.machine, marks(0, 10)).status, FAILED)


class Repeats(unittest.TestCase):
    TEXT = 'hackbench 10500000 ns\nhackbench 30000000 ns\n{"wakeup_us":{"p50":7.000,"p90":8},"request_us":{"p50":9}}\n'

    def judge(self, alone: list[float], busy: list[float]) -> tuple[list[str], list[Test]]:
        return selfcheck.judge_repeats("zen", {"left alone": [{"x": [value, value, 2 * value]} for value in alone],
                                               "kept busy": [{"x": [value]} for value in busy]})

    def test_samples(self) -> None:
        self.assertEqual(selfcheck.samples(self.TEXT), {"hackbench, ms": [10.5, 30.0], "schbench, us": [7.0]})
        for lost in "hackbench", "wakeup_us":
            self.assertRaises(Fail, selfcheck.samples, self.TEXT.replace(lost, "x"))

    def test_spread(self) -> None:
        self.assertAlmostEqual(selfcheck.spread([100, 97, 102]), 0.03)

    def test_within_three_percent(self) -> None:
        """Of the median of all, whatever the host did; what samples in a boot do is told only."""
        lines, tests = self.judge([100, 101, 100], [99, 100, 103])
        self.assertEqual([test.status for test in tests], [PASSED])
        self.assertIn("all within 3.0% of their median; samples in one boot within 100.0%", lines[-1])
        self.assertRegex(lines[1], r"^x +left alone +100.000 +101.000 +100.000$")

    def test_host_shows_through(self) -> None:
        _, tests = self.judge([100, 100, 100], [104, 100, 100])
        self.assertEqual((tests[0].status, tests[0].detail), (FAILED, "medians of boots differ by 4.0%"))

    def test_both_hosts_are_measured(self) -> None:
        loads: list[bool] = []

        @contextlib.contextmanager
        def host_load(busy: bool) -> Iterator[None]:
            loads.append(busy)
            yield
        result = lab.LabResult(self.TEXT, 0, [], {}, 1)
        with mock.patch.object(selfcheck, "host_load", host_load), contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(lab, "run_script", return_value=result) as run:
            tests = selfcheck.check_repeats("xeon", Path("image"))
        self.assertEqual([test.status for test in tests], [PASSED, PASSED])
        self.assertEqual((loads.count(True), loads.count(False)), (selfcheck.REPEATS, selfcheck.REPEATS))
        self.assertEqual({call.args[0] for call in run.call_args_list}, {"xeon"})

    def test_load_is_made_and_ended(self) -> None:
        real, started = subprocess.Popen, []

        def remembered(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
            started.append(real(*arguments, **settings))
            return started[-1]
        for busy, wanted in ((False, 0), (True, len(os.sched_getaffinity(0)))):
            started.clear()
            with mock.patch("subprocess.Popen", remembered), selfcheck.host_load(busy):
                self.assertEqual([process.poll() for process in started], [None] * wanted)
            self.assertTrue(all(process.poll() is not None for process in started))


class Same(unittest.TestCase):
    """Two boots, whose counts are compared."""

    @staticmethod
    def result(output: str = "x", status: int = 0, **counts: int) -> lab.LabResult:
        return lab.LabResult(output, status, [{"at": "mark", "user": 5, "time_ns": 7} | counts, {"at": "exit"}], {}, 1)

    def test_same(self) -> None:
        self.assertEqual(selfcheck.same(self.result(), self.result()).status, PASSED)
        later = lab.LabResult("x", 0, [self.result().counters[0], {"at": "exit", "user": 9}], {}, 1)
        self.assertEqual(selfcheck.same(self.result(), later).status, PASSED, "a switched off machine goes on a bit")

    def test_not_the_same(self) -> None:
        for second, wanted in ((self.result(user=6), "at mark 1: user 5 and 6"),
                               (self.result("y"), "print 'x' and 'y'"),
                               (self.result(status=1), "statuses 0 and 1"),
                               (lab.LabResult("x", 0, [{"at": "mark"}, {"at": "exit"}], {}, 1), "user 5 and None"),
                               (lab.LabResult("x", 0, self.result().counters[:1], {}, 1), "at mark, exit and at mark,"),
                               (lab.LabResult("x", 0, self.result().counters[:1] * 2, {}, 1), "and at mark, mark,")):
            test = selfcheck.same(self.result(), second)
            self.assertEqual(test.status, FAILED)
            self.assertIn(wanted, test.detail)
        for counts in [], [{"at": "exit"}]:
            self.assertEqual(selfcheck.same(*[lab.LabResult("x", 0, counts, {}, 1)] * 2).status, FAILED)

    def test_two_boots(self) -> None:
        with mock.patch.object(lab, "kernel_image", return_value=Path("k")), \
                mock.patch.object(lab, "run_script", side_effect=[self.result(), self.result(user=6)]) as run:
            self.assertEqual([test.status for test in selfcheck.repeats(Target())], [FAILED])
        self.assertEqual(run.call_args_list[0], run.call_args_list[1])


class Widest(unittest.TestCase):
    """As many CPUs as there may be, each with something to do."""

    def measure(self, ps: float, remote: float = 9000, status: int = 0) -> list[str]:
        def run_script(machine: lab.Machine, script: str, *_: object, **__: object) -> lab.LabResult:
            self.script = script
            self.assertEqual(machine.topology.cpus, lab.MAX_CPUS)
            text = [*(f"name={i} ns={5000 + 1000 * i}" for i in range(3)), f"name=3 ns={remote}", f"name=4 ps={ps}"]
            return lab.LabResult("\n".join(text), status, [], {}, 1)
        with mock.patch.object(lab, "run_script", run_script), contextlib.redirect_stdout(io.StringIO()):
            return [test.status for test in selfcheck.check_widest()]

    def test_all_cpus_compute(self) -> None:
        """0.25 ns at 0.6 of the speed."""
        self.assertEqual(self.measure(416.7), [PASSED] * 2)
        self.assertIn(f"spin 4 {selfcheck.SPIN} " + " ".join(map(str, range(lab.MAX_CPUS))) + " ||", self.script)

    def test_some_do_not(self) -> None:
        self.assertEqual(self.measure(450), [FAILED, PASSED])
        self.assertEqual(self.measure(416.7, remote=7000), [PASSED, FAILED])
        self.assertRaisesRegex(Fail, "status 1", self.measure, 416.7, status=1)


class Kinds(unittest.TestCase):
    """Machines with several kinds of CPUs, whose levels and energy are measured."""

    machine = lab.machine_of("biglittle")

    def test_rows(self) -> None:
        rows = dict(selfcheck.kind_rows(self.machine))
        self.assertEqual(len(rows), 10)
        self.assertAlmostEqual(rows["level 4 2362000"].predicted or 0, self.machine.costs["instruction_ps"])
        # 592 of 1024, at 533 of 2362 MHz
        self.assertAlmostEqual(rows["level 0 533000"].predicted or 0,
                               self.machine.costs["instruction_ps"] * 1024 / 592 * 2362 / 533)

    def energy(self, change: float = 1.0) -> list[str]:
        """The names of those that fail: a second asleep, then one of each domain, whose power is off by a factor."""
        powers = [[(count * kind.idle_power(), count * kind.power(-1)) for count, kind in self.machine.topology.kinds()]]
        marks, sums = [], [0.0, 0.0]
        for busy in (None, -1, 0, 1):
            if busy is not None:
                for number, (idle, active) in enumerate(powers[0]):
                    sums[number] += (active * change if number == busy else idle) * 1e3
            marks.append({"at": "mark", "time_ns": len(marks) * 10 ** 9,
                          "domains": [{"active_nj": value, "idle_nj": 0.0} for value in sums]})
        with contextlib.redirect_stdout(io.StringIO()):
            return [test.name for test in selfcheck.energy_tests(self.machine, marks) if test.status == FAILED]

    def test_energy(self) -> None:
        self.assertEqual(self.energy(), [])
        self.assertEqual(self.energy(1.06), ["biglittle: energy of domain 0, computing",
                                             "biglittle: energy of domain 1, computing"])
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual([test.status for test in selfcheck.energy_tests(self.machine, [])], [FAILED])


class FailedTwice(unittest.TestCase):
    def test_only_what_fails_again(self) -> None:
        first = [Test("a", PASSED), Test("b", FAILED, "1"), Test("c", FAILED, "1")]
        again = [Test("a", FAILED, "2"), Test("b", PASSED), Test("c", FAILED, "2")]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual([test.status for test in selfcheck.failed_twice(first, lambda: again)],
                             [PASSED, PASSED, FAILED])
        self.assertIn("failed at first: b: 1", said.getvalue())

    def test_lab_check_judges_as_make_check_does(self) -> None:
        """What is off is looked at again, by both."""
        for call, argv in ((selfcheck.main, ["--topology", "zen"]), (lambda: selfcheck.run(Target()), [])):
            looks = [[Test("a", FAILED, "1")], [Test("a", PASSED)]] * len(lab.TOPOLOGIES)
            with mock.patch.object(selfcheck, "check_topology", side_effect=looks) as look, \
                    mock.patch("sys.argv", ["selfcheck.py", *argv]), contextlib.redirect_stdout(io.StringIO()):
                result = call()
            self.assertIn(result, (0, [Test("a", PASSED)] * len(lab.TOPOLOGIES)))
            self.assertEqual([call.args[2:] for call in look.call_args_list][:2], [(), (selfcheck.SECOND_SEED,)])

    def test_not_run_again_without_need(self) -> None:
        self.assertEqual(selfcheck.failed_twice([Test("a", PASSED)], lambda: self.fail("run again")),
                         [Test("a", PASSED)])


if __name__ == "__main__":
    unittest.main()
