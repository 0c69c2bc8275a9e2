# SPDX-License-Identifier: GPL-2.0-only
"""Tests of bench/regression.py."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401  # pylint: disable=unused-import
import overhead
import regression
import suite
from bench import run
from common import Fail, Target


def rows(bench: str, load: int, metric: str, **medians: float) -> list[dict[str, Any]]:
    return [{"bench": bench, "load": load, "metric": metric, "config": config, "median": median}
            for config, median in medians.items()]


class FullMachine(unittest.TestCase):
    def judged(self, **counters: int) -> str:
        held = regression.HELD
        found = [{"bench": held.bench, "load": held.load, "config": held.config, "counters": counters},
                 {"bench": held.bench, "load": held.load, "config": "wake_hold", "counters": {held.counter: 1000}}]
        with contextlib.redirect_stdout(io.StringIO()):
            return held.judge(found).status

    def test_share(self) -> None:
        self.assertEqual(self.judged(hint_balance_held=1, hint_balance_overloaded=9), "passed")
        self.assertEqual(self.judged(hint_balance_overloaded=9), "passed")
        self.assertEqual(self.judged(hint_balance_held=2, hint_balance_overloaded=9), "failed")

    def test_nothing_counted(self) -> None:
        self.assertEqual(self.judged(hint_wake_full=7), "failed")

    def test_run_measures_what_is_judged(self) -> None:
        arguments = run.parse_arguments(["--suite", "hint", *regression.FULL])
        cases = [case for chunk in suite.plan(suite.load_suite("hint"), run.select(arguments)) for case in chunk.cases]
        self.assertIn((regression.HELD.bench, regression.HELD.load, regression.HELD.config),
                      {(case.bench, case.load, case.config) for case in cases})


class CoreSharing(unittest.TestCase):
    def judged(self, *cases: str, claims: int = 7) -> list[str]:
        text = "alone\n  load, %  requests\n9 switches; beside itself 42.0 %, the side job 0.0 %, nothing 58.0 %\n"
        for case in cases:
            name, percent = case.rsplit(" ", 1)
            text += f"{name}\n  load, %  requests\n    40.0      100\na CPU was passed over {claims} times\n" \
                    f"9 switches; beside itself 42.0 %, the side job {percent} %, nothing 9.0 %\n"
        with contextlib.redirect_stdout(io.StringIO()):
            return [f"{test.name} {test.status}" for test in regression.judge_sharing(text)]

    def beside(self, *cases: str) -> list[str]:
        return [test for test in self.judged(*cases) if "claimed" not in test]

    def test_each_case(self) -> None:
        self.assertEqual(self.beside("headroom 30, hint inherit 5.2", "headroom 30, hint fork_spread wake_affine 28.1"),
                         ["core-sharing: headroom 30, hint inherit passed",
                          "core-sharing: headroom 30, hint fork_spread wake_affine failed"])

    def test_a_side_job_that_did_not_run(self) -> None:
        self.assertEqual(self.beside("headroom 30, hint inherit 5.2", "headroom 30, hint wake_affine 0.0")[-1],
                         "core-sharing: headroom 30, hint wake_affine failed")

    def test_claims_that_nobody_sees(self) -> None:
        for claims, wanted in (1, "passed"), (0, "failed"):
            self.assertEqual(self.judged("headroom 30, hint a 5.2", "headroom 30, hint b 5.2", claims=claims)[1::2],
                             [f"core-sharing: headroom 30, hint {hint}: a claimed CPU is passed over {wanted}"
                              for hint in "ab"])

    def test_not_all_measured(self) -> None:
        self.assertEqual(self.judged("headroom 30, hint inherit 5.2")[-1], "core-sharing failed")
        self.assertEqual(self.judged(), ["core-sharing failed"])


class Hints(unittest.TestCase):
    def failures(self, **p99: float) -> list[str]:
        """What fails with a baseline of 12 us, where nothing else is said of a configuration."""
        wanted = {"none": 12.0, **{name: 12.0 for name in regression.HINTS}, **p99}
        found = rows("schbench", regression.WORKERS, "wakeup_p99", **{k: v for k, v in wanted.items() if v})
        with contextlib.redirect_stdout(io.StringIO()):
            return [test.name.partition(":")[0] for test in regression.judge("hint", found) if test.status == "failed"]

    def test_cured(self) -> None:
        self.assertEqual(self.failures(wake_affine=18.0, fork_affine=6.0), [])

    def test_each_hint_that_gets_worse(self) -> None:
        for name in regression.HINTS:
            self.assertEqual(self.failures(**{name: 18.1}), [f"schbench 16, {name}"])

    def test_these_are_the_hints_of_the_suite(self) -> None:
        hints = [c.name for c in suite.load_suite("hint").configurations if c.kind == suite.HINT]
        self.assertEqual(list(regression.HINTS), hints)

    def test_not_measured(self) -> None:
        self.assertEqual(self.failures(fork_affine=0), ["schbench 16, fork_affine"])
        self.assertEqual(len(self.failures(none=0)), 6)

    def test_run_measures_what_is_judged(self) -> None:
        arguments = run.parse_arguments(["--suite", "hint", *regression.RUNS["hint"]])
        cases = [case for chunk in suite.plan(suite.load_suite("hint"), run.select(arguments)) for case in chunk.cases]
        self.assertEqual({case.config for case in cases}, {"none", *regression.HINTS})
        self.assertEqual({(case.bench, case.topology, case.load) for case in cases}, {("schbench", "zen", 16)})
        self.assertEqual(len(cases), 3 * 7)


class Gangs(unittest.TestCase):
    def statuses(self, rate: float, late: float, plain: float = 3900.0) -> list[str]:
        found = [*rows("barrier", regression.GANGS, "rate", eevdf=140.0, gang_llc=rate),
                 *rows("barrier", regression.GANGS, "late_p99", eevdf=plain, gang_llc=late)]
        return [test.status for test in regression.judge("gang", found)]

    def test_gang_gains(self) -> None:
        self.assertEqual(self.statuses(7100.0, 4000.0), ["passed"] * 2)
        self.assertEqual(self.statuses(7100.0, 4000.0, 200.0), ["passed"] * 2)
        self.assertEqual(self.statuses(7100.0, 4300.0, 200.0), ["passed", "failed"])

    def test_gang_gains_nothing(self) -> None:
        self.assertEqual(self.statuses(150.0, 4000.0), ["failed", "passed"])

    def test_gangs_go_first(self) -> None:
        self.assertEqual(self.statuses(7100.0, 11600.0), ["passed", "failed"])

    def test_another_load_is_no_answer(self) -> None:
        found = rows("barrier", 1, "rate", eevdf=140.0, gang_llc=7100.0)
        self.assertEqual([test.status for test in regression.judge("gang", found)], ["failed"] * 2)


class Headrooms(unittest.TestCase):
    def statuses(self, **headroom: float) -> list[str]:
        """With a weight, 1 % is idle, p99 is 18 ms, and the side job has 55 % of the machine."""
        found = [row for metric, weight in (("p99", 18000.0), ("idle", 1.4), ("side", 55.0))
                 for row in rows("requests", regression.LOAD, metric, weight=weight, headroom30=headroom[metric])]
        return [test.status for test in regression.judge("headroom", found)]

    def test_keeps_what_it_says(self) -> None:
        self.assertEqual(self.statuses(p99=7000.0, idle=31.0, side=18.0), ["passed"] * 3)

    def test_does_nothing(self) -> None:
        self.assertEqual(self.statuses(p99=18000.0, idle=1.4, side=55.0), ["failed", "failed", "passed"])

    def test_starves_the_side_job(self) -> None:
        self.assertEqual(self.statuses(p99=6000.0, idle=55.0, side=1.0), ["passed", "passed", "failed"])


class Runs(unittest.TestCase):
    def test_what_is_judged_is_measured(self) -> None:
        for ratio in regression.RATIOS:
            arguments = run.parse_arguments(["--suite", ratio.suite, *regression.RUNS[ratio.suite]])
            chunks = suite.plan(suite.load_suite(ratio.suite), run.select(arguments))
            configs = {case.config for chunk in chunks for case in chunk.cases
                       if (case.bench, case.load) == (ratio.bench, ratio.load)}
            with self.subTest(ratio.name):
                self.assertLessEqual({ratio.baseline, ratio.config}, configs)


BENCHES = tuple(dict.fromkeys(bench for bound in regression.BOUNDS for bench in bound.benches))


def counts(**added: float) -> list[dict[str, Any]]:
    """Rows of 8,000 instructions for an operation in each benchmark, and so many more with each configuration."""
    values = {overhead.UNUSED: 0.0, **{bound.config: 0.0 for bound in regression.BOUNDS}, **added}
    return [{"bench": bench, "load": 20, "metric": metric, "config": config, "median": base + value}
            for metric, base in (("instructions", 8000.0), ("own", 0.0))
            for bench in BENCHES for config, value in values.items()]


class Counts(unittest.TestCase):
    def failures(self, found: list[dict[str, Any]]) -> list[str]:
        with contextlib.redirect_stdout(io.StringIO()):
            tests = [bound.judge(found) for bound in regression.BOUNDS]
        return [f"{test.name}: {test.detail}" for test in tests if test.status == "failed"]

    def test_all_within(self) -> None:
        self.assertEqual(self.failures(counts(elsewhere=10.0, wake_hold=105.0, pack=119.0, background=210.0)), [])

    def test_what_reaches_the_goal_has_to(self) -> None:
        self.assertEqual(len(self.failures(counts(pack=481.0))), 2)
        self.assertEqual(len(self.failures(counts(wake_affine=121.0))), 1)
        found = counts(wake_hold=121.0)
        self.assertEqual(len(self.failures(found)), 2)
        self.assertIn("wake_hold: instructions added to a wakeup, wakeup-llc, wakeup-free, wakeup-apart: "
                      "+121.0 of 8000.0 in wakeup-llc, 1.51 %; wanted: at most 1.5 %", self.failures(found))
        self.assertEqual(self.failures(counts(wake_hold=120.0)), [])

    def test_neighbours_pay_nearly_nothing(self) -> None:
        self.assertEqual(len(self.failures(counts(elsewhere=25.0))), 1)
        failures = self.failures(counts(elsewhere=41.0))
        self.assertEqual(len(failures), 2)
        self.assertIn("elsewhere: instructions added to an operation, switch, fork-one: +41.0 of 8000.0", failures[1])

    def test_one_benchmark_is_enough(self) -> None:
        self.assertLessEqual({*regression.SETTLED, regression.MOVING, "switch", "fork-one"}, set(BENCHES))
        for bench in BENCHES:
            found = counts()
            next(row for row in found if (row["bench"], row["config"], row["metric"]) == (
                bench, "elsewhere", "instructions"))["median"] += 100.0
            self.assertIn(f"in {bench}, 1.25 %", "".join(self.failures(found)))

    def test_where_tasks_move_only_own_code_counts(self) -> None:
        found = counts()
        for row in found:
            if (row["bench"], row["config"]) == (regression.MOVING, "wake_hold"):
                row["median"] += 1000.0 if row["metric"] == "instructions" else 121.0
        failure, = self.failures(found)
        self.assertIn("wake_hold: instructions of its own to a wakeup, wakeup-relay: +121.0 of 8000.0", failure)

    def test_what_misses_the_goal_may_not_miss_it_by_more(self) -> None:
        self.assertEqual(len(self.failures(counts(background=240.0))), 2)

    def test_not_counted(self) -> None:
        for config in (overhead.UNUSED, "pack"):
            found = [row for row in counts() if (row["bench"], row["config"]) != ("wakeup-free", config)]
            self.assertIn("not counted in wakeup-free", "".join(self.failures(found)))
        self.assertEqual(len(self.failures([])), len(regression.BOUNDS))

    def test_every_hint_is_bound_everywhere(self) -> None:
        bound = {(bound.config, bound.metric, bench) for bound in regression.BOUNDS for bench in bound.benches}
        for configuration in regression.SUITE.configurations:
            if configuration.kind in (suite.HINT, suite.PROFILE):
                wanted = {(configuration.name, "instructions", bench) for bench in regression.SETTLED}
                self.assertLessEqual(wanted | {(configuration.name, "own", regression.MOVING)}, bound)

    def test_no_kernel_but_the_labs(self) -> None:
        options = dict(zip(regression.COUNTED[1::2], regression.COUNTED[2::2], strict=True))
        chosen = overhead.select(suite.QUICK, options["--configs"].split(","), options["--benches"].split(","))
        self.assertEqual({boot.variant for boot in overhead.plan(suite.QUICK, *chosen, 3)}, {"lab"})

    def test_what_fails_is_counted_again(self) -> None:
        for second, status in ((counts(), {"passed"}), (counts(pack=481.0), {"passed", "failed"})):
            reports = [{"rows": counts(pack=481.0)}, {"rows": second}]
            with mock.patch.object(regression, "measure", side_effect=reports) as measure, \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual({test.status for test in regression.run_counts(Target())}, status)
            # With the same random numbers, the machine would only do the same again.
            self.assertEqual([call.args[-2:] for call in measure.call_args_list],
                             [regression.COUNTED[-2:], ("--seed", "2")])

    def test_step(self) -> None:
        """What the program wrote is judged, and not what an earlier run left."""
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = directory / "bench/overhead.py"
        program.parent.mkdir()
        text = json.dumps({"rows": counts()})
        program.write_text(f"import pathlib, sys\n(pathlib.Path(sys.argv[-1]) / 'overhead.json').write_text('{text}')")
        with mock.patch.multiple(regression, ROOT=directory, OUT=directory):
            with contextlib.redirect_stdout(io.StringIO()):
                tests = regression.run_counts(Target())
            self.assertEqual({test.status for test in tests}, {"passed"})
            for text in ("", "raise SystemExit(1)"):
                program.write_text(text)
                self.assertRaisesRegex(Fail, r"overhead.py .* failed \(status", regression.run_counts, Target())


if __name__ == "__main__":
    unittest.main()
