# SPDX-License-Identifier: GPL-2.0-only
"""Suite gang: its parsers, whether it covers what it should, and how its figures judge."""

import json
import unittest
from typing import Any

import context
import fake
import outputs
import parsers
import suite
from parsers import Unreadable
from results import Results, TopologyView
from suite import BASELINE, FULL, HOST, OURS, QUICK, SEED, TODAY, Selection, Verdict

GANG = suite.load_suite("gang")
EIGHT = suite.layout_of("1x1x4x2@20")


def line(**values: Any) -> str:
    return json.dumps(values, separators=(",", ":"))


def result(name: str, rate: float) -> str:
    return line(benchmark="ompbarrier", name=name, threads=8, operations=100, seconds=0.6, rate=rate)


SLEEPER = line(benchmark="spin", kind="sleeper", name="", threads=1, operations=250, seconds=0.6, rate=400.0,
               late_us={"p50": 100.0, "p99": 130.5, "max": 6000.0, "samples": 250})


def observed(bystander: bool = True, **groups: float) -> str:
    return line(benchmark="observe", cpus=8, seconds=0.5, switches=1000, ipis=20,
                groups={name: {"cpu_s": used} for name, used in {
                    **groups, **({"bystander": 0.01} if bystander else {})}.items()},
                corun={name: 0.5 for name in groups if name.startswith("gang")},
                stretches=[[0, 0, 3000, 0]], leads_us=[100])


class Parsers(unittest.TestCase):
    def test_two_gangs(self) -> None:
        values = parsers.gang("\n".join([result("gang0", 70.0), result("gang1", 80.0), SLEEPER,
                                         observed(gang0=1.9, gang1=2.1)]))
        self.assertEqual(values, {"rate": 150.0, "late_p99": 130.5, "switches": 2000.0, "ipis": 40.0,
                                  "share_error": values["share_error"], "corun": 50.0})
        self.assertAlmostEqual(values["share_error"], 5.0)

    def test_hogs_have_a_share(self) -> None:
        values = parsers.gang("\n".join([result("gang0", 70.0), SLEEPER, observed(gang0=1.5, hogs=2.5)]))
        self.assertAlmostEqual(values["share_error"], 25.0)

    def test_without_a_bystander_there_is_no_latency(self) -> None:
        values = parsers.gang("\n".join([result("gang0", 70.0), observed(False, gang0=1.5, hogs=2.5)]))
        self.assertNotIn("late_p99", values)
        for output in ([SLEEPER, observed(False, gang0=4.0)], [observed(gang0=4.0)]):
            with self.assertRaisesRegex(Unreadable, "sleepers"):
                parsers.gang("\n".join([result("gang0", 70.0), *output]))

    def test_hogs_that_did_not_start(self) -> None:
        with self.assertRaisesRegex(Unreadable, "the busy loops did not run"):
            parsers.gang("\n".join([result("gang0", 70.0), SLEEPER, observed(gang0=1.5, hogs=0.0)]))

    def test_alone_there_is_no_share(self) -> None:
        values = parsers.gang("\n".join([result("gang0", 70.0), SLEEPER, observed(gang0=4.0)]))
        self.assertNotIn("share_error", values)

    def test_a_lost_trace_gives_no_corun(self) -> None:
        text = observed(gang0=1.0).replace('"corun":{"gang0":0.5}', '"corun":{"gang0":null}')
        self.assertNotIn("corun", parsers.gang("\n".join([result("gang0", 70.0), SLEEPER, text])))

    def test_what_is_missing(self) -> None:
        for parts in ([result("gang0", 1.0), SLEEPER, observed(gang0=1.0, gang1=1.0)],
                      [result("gang0", 1.0), observed(gang0=1.0)], [SLEEPER, observed(gang0=1.0)],
                      [result("gang0", 1.0), SLEEPER], ["join: a cookie for core scheduling: No such device"]):
            with self.subTest(parts), self.assertRaises(Unreadable):
                parsers.gang("\n".join(parts))

    def test_switches(self) -> None:
        parse = parsers.with_switches(parsers.hackbench)
        values = parse(outputs.HACKBENCH + "switches 4500 in 300 ms\n")
        self.assertEqual(values["switches"], 15000.0)
        self.assertIn("time", values)
        self.assertRaises(Unreadable, parse, outputs.HACKBENCH)

    def test_sleeping_programs(self) -> None:
        """Their parsers give what their tables show."""
        for name, text in (("hackbench", outputs.HACKBENCH), ("messaging", outputs.PERF_SIMPLE),
                           ("sysbench", outputs.SYSBENCH_THREADS)):
            bench = GANG.bench(name)
            values = bench.parse(text + "switches 4500 in 300 ms\n")
            self.assertLessEqual({metric.name for metric in bench.metrics}, values.keys())

    def test_series(self) -> None:
        found = parsers.gang_series("\n".join([result("gang0", 70.0), SLEEPER, observed(gang0=4.0)]))
        self.assertEqual(found, {"cpus": 8, "stretches": [[0, 0, 3000, 0]], "leads_us": [100]})


class Contents(unittest.TestCase):
    def test_configurations(self) -> None:
        kinds = {configuration.name: configuration.kind for configuration in GANG.configurations}
        self.assertEqual(kinds, {"eevdf": BASELINE, "slices": TODAY, "pinned": TODAY, "cpuset": TODAY,
                                 "core_sched": TODAY, "v1": SEED, "v2": SEED, "gang_core": OURS, "gang_llc": OURS,
                                 "gang_node": OURS, "gang_system": OURS, "gang_cpuset": OURS})
        for configuration in GANG.configurations:
            uses = any(setting.file.startswith("cpu.gang") for setting in configuration.settings)
            self.assertEqual(uses, configuration.kind in (OURS, SEED))
            self.assertEqual(uses, "gang0/cpu.gang" in configuration.needs)

    def test_plain_scripts_begin_with_switches_off(self) -> None:
        """Their baseline would have the slices or the gangs of a script that was killed."""
        case = suite.Case(0, "barrier", EIGHT.name, "eevdf", 2, 0)
        text = suite.script(GANG, suite.Chunk(EIGHT, (case,), 1.0), HOST, "0123")
        base = "/sys/kernel/debug/sched"
        self.assertEqual(suite.switches_of(text),
                         {f"{base}/base_slice_ns": "3000000", f"{base}/ancestor_gang": "0"})
        self.assertLess(text.index("mount -t debugfs"), text.index(f"switch_off {base}"))
        self.assertLess(text.rindex(f"switch_off {base}"), text.index("enter 0"))

    def test_cpusets_are_disjoint_and_whole(self) -> None:
        setting = GANG.configuration("cpuset").settings[0]
        self.assertIn(setting, GANG.configuration("gang_cpuset").settings)
        self.assertEqual([setting.value_for(f"gang{i}", 2, EIGHT) for i in range(2)], ["0-3", "4-7"])
        self.assertEqual([setting.value_for(f"gang{i}", 3, EIGHT) for i in range(3)], ["0-1", "2-4", "5-7"])
        self.assertIsNone(setting.value_for("gang0", 1, EIGHT))

    def test_core_scheduling_where_there_are_cores_to_share(self) -> None:
        bench = GANG.bench("barrier")
        for name, there in (("1x1x4x2", True), ("1x1x8x1", False)):
            found = Selection().configurations(GANG, suite.layout_of(name), bench)
            self.assertEqual("core_sched" in [configuration.name for configuration in found], there)

    def test_sleeping_programs_are_not_pinned(self) -> None:
        found = Selection().configurations(GANG, EIGHT, GANG.bench("hackbench"))
        self.assertFalse({"pinned", "cpuset"} & {configuration.name for configuration in found})

    def test_quick_is_quick(self) -> None:
        chunks = suite.plan(GANG, Selection(QUICK, quick=True))
        self.assertLess(suite.estimate(chunks), 9 * 60)
        self.assertGreaterEqual({case.bench for chunk in chunks for case in chunk.cases},
                                {"barrier", "barrier-hogs", "barrier-mixed", "lock", "pipeline", "vcpu", "hackbench"})

    def test_commands(self) -> None:
        for bench in GANG.benches:
            for form in (FULL, QUICK, HOST):
                for load in bench.loads(form):
                    command = bench.shell(load, form)
                    self.assertNotRegex(command, r"\{(load|work)\}|e\+|PROGRAM|LEAD\b|WARM\b")
                    for program in bench.programs:
                        self.assertRegex(command, rf"\b{program}\b")

    def test_bystanders(self) -> None:
        """Beside each program there is the one that it is meant for, and a group for it."""
        for name, options in (("barrier", "--units 2 --period 2000"), ("barrier-waits", "--units 600 --period 20000"),
                              ("barrier-hogs", "")):
            bench = GANG.bench(name)
            self.assertIn(f'bystander="{options}"\n', bench.shell(2, FULL))
            self.assertEqual("bystander" in bench.groups(2), bool(options))

    def test_page(self) -> None:
        text = (context.ROOT / GANG.page).read_text(encoding="utf-8")
        for name in (*(c.name for c in GANG.configurations), *(b.name for b in GANG.benches)):
            self.assertIn(f"`{name}`", text)


class Figures(unittest.TestCase):
    def verdict(self, what: str, found: Results) -> Verdict:
        figure, = [figure for figure in GANG.figures if figure.what == what]
        return figure.judge(TopologyView(found, GANG, "zen"), {})

    def found(self, bench: str, medians: dict[str, dict[int, float]], metric: str = "rate") -> Results:
        return fake.results(medians, bench=bench, of=GANG, metric=metric)

    def test_of_the_ideal(self) -> None:
        """All gangs together have as much as one alone; the best scope counts."""
        medians = {"eevdf": {1: 100.0, 2: 2.0}, "gang_llc": {1: 100.0, 2: 91.0}, "gang_core": {2: 3.0}}
        found = self.verdict("k barrier programs, of the ideal", self.found("barrier", medians))
        self.assertEqual((found.reached, found.number), (True, "91.0 % at worst"))
        self.assertEqual(found.detail, "2 gangs, gang_llc; plain EEVDF: 2.0 %")
        found = self.verdict("the same against plain EEVDF", self.found("barrier", medians))
        self.assertEqual((found.reached, found.number), (True, "45.5 times at least"))
        medians["gang_llc"][2] = 79.0
        self.assertFalse(self.verdict("k barrier programs, of the ideal", self.found("barrier", medians)).reached)
        self.assertFalse(self.verdict("the same against plain EEVDF", self.found("barrier", medians)).reached)

    def test_beside_hogs_half_is_ideal(self) -> None:
        found = self.found("barrier", {"eevdf": {1: 100.0}})
        found.rows += self.found("barrier-hogs", {"eevdf": {1: 1.0}, "gang_llc": {1: 45.0}}).rows
        result = self.verdict("one gang beside busy loops, of the ideal", found)
        self.assertEqual((result.reached, result.number), (True, "90.0 % at worst"))

    def test_nothing_lost(self) -> None:
        what = "a gang alone against no gang"
        self.assertTrue(self.verdict(what, self.found("barrier", {"eevdf": {1: 100.0, 2: 9.0}, "gang_llc": {
            1: 99.0, 2: 1.0}})).reached)
        self.assertFalse(self.verdict(what, self.found("lock", {"eevdf": {1: 100.0}, "gang_llc": {1: 98.9}})).reached)
        self.assertFalse(self.verdict("hackbench in a gang", self.found("hackbench", {"eevdf": {1: 1.0}, "gang_llc": {
            1: 1.04}}, "time")).reached)

    def test_bystander(self) -> None:
        for ours, reached in ((4100.0, True), (4101.0, False)):
            found = self.found("barrier", {"eevdf": {2: 100.0}, "gang_llc": {2: ours}}, "late_p99")
            self.assertEqual(self.verdict("p99 of a bystander", found).reached, reached)

    def test_fairness(self) -> None:
        found = self.found("barrier", {"eevdf": {2: 5.0}, "gang_llc": {2: 2.1}, "v2": {2: 40.0}}, "share_error")
        result = self.verdict("CPU time against weights", found)
        self.assertEqual((result.reached, result.number), (False, "2.1 % at worst"))
        self.assertEqual(result.detail, "gang_llc, barrier at 2; plain EEVDF: 5.0 %")

    def test_nothing_measured(self) -> None:
        found = self.found("barrier", {"eevdf": {1: 100.0}})
        for figure in GANG.figures:
            result = self.verdict(figure.what, found)
            self.assertEqual((result.reached, result.number), (None, "not measured"), figure.what)


if __name__ == "__main__":
    unittest.main()
