# SPDX-License-Identifier: GPL-2.0-only
"""Suite numa: complete, affordable, and its figures judge as they are worded."""

import re
import unittest

import context
import fake
import parsers
import suite
from results import Results, TopologyView
from suite import FULL, HOST, LAYOUTS, PINNED, QUICK, Layout, Selection, Verdict, layout_of, parse_cpu_list

NUMA = suite.load_suite("numa")
STREAM = '{"benchmark":"stream","functions":{' + ",".join(
    f'"{name}":{{"best_mb_s":{rate}}}' for name, rate in (("copy", 1), ("scale", 2), ("add", 3), ("triad", 4))) + \
    '},"valid":true}\n'
CACHED = '{"benchmark":"cached","all_m_s":12.5,"hmean_m_s":3.0,"slowest_m_s":2.5,"valid":true}\n'
PAIRS = '{"benchmark":"pairs","messages_s":1234.5,"valid":true}\n'
MACHINES = [layout_of(name) for name in NUMA.topologies]


def verdict(what: str, found: Results) -> Verdict:
    """The verdict of the figure whose description begins so."""
    figure, = [figure for figure in NUMA.figures if figure.what.startswith(what)]
    topology, = found.environment["topologies"]
    return figure.judge(TopologyView(found, NUMA, topology), LAYOUTS[topology].describe())


class Contents(unittest.TestCase):
    def test_machines(self) -> None:
        self.assertEqual([(len(m.nodes), len(m.llcs), len(m.cpus)) for m in MACHINES],
                         [(2, 4, 32), (2, 2, 32), (4, 8, 32)])

    def test_loads(self) -> None:
        """STREAM has one with as many threads as each machine has LLCs."""
        self.assertEqual(NUMA.bench("stream").loads(FULL), [2, 4, 8, 16, 32])
        self.assertLessEqual({len(machine.llcs) for machine in MACHINES}, set(NUMA.bench("stream").loads(FULL)))
        for bench in NUMA.benches:
            self.assertEqual(bench.loads(HOST), bench.loads(FULL), bench.name)
            self.assertLessEqual(set(bench.loads(QUICK)), set(bench.loads(FULL)), bench.name)

    def test_configurations(self) -> None:
        """Each is run by some benchmark, on each machine that has the pinning; what needs groups has them."""
        names = {configuration.name for configuration in NUMA.configurations}
        for bench in NUMA.benches:
            self.assertLessEqual(set(bench.configurations), names, bench.name)
            for name in bench.configurations:
                configuration = NUMA.configuration(name)
                self.assertTrue(not configuration.settings or bench.groups, (bench.name, name))
                for setting in configuration.settings:
                    self.assertIn(setting.group, bench.groups(4) if bench.groups else ())
                for variable in configuration.variables:
                    self.assertIn(f"${variable}", bench.shell(bench.loads(FULL)[0], FULL), (bench.name, name))
        for machine in MACHINES:
            run = {configuration.name for bench in NUMA.benches
                   for configuration in Selection().configurations(NUMA, machine, bench)}
            lacking = {c.name for c in NUMA.configurations if c.pin and c.pin not in machine.pinnings()}
            self.assertEqual(run, names - lacking, machine.name)

    def test_parsers_give_the_metrics(self) -> None:
        outputs = {"cached": CACHED, "pairs": PAIRS, "stream": STREAM, "interleave": STREAM, "together": STREAM + PAIRS}
        for name, output in outputs.items():
            bench = NUMA.bench(name)
            self.assertLessEqual({metric.name for metric in bench.metrics}, bench.parse(output).keys(), name)
        self.assertEqual(parsers.numa_together(PAIRS), {"messages": 1234.5, "ended": 1.0})
        for parse in (parsers.cached, parsers.pairs, parsers.numa_together):
            for output in ("", "{}", CACHED.replace("true", "false"), PAIRS.replace("true", "false")):
                with self.assertRaises(parsers.Unreadable):
                    parse(output)

    def test_variables(self) -> None:
        """numactl is what the program is started by, in this configuration alone."""
        case = suite.Case(0, "interleave", "zen", "numactl", 8, 0)
        text = suite.case_script(NUMA, case, LAYOUTS["zen"], FULL)
        self.assertIn("numactl --interleave=all", text)
        self.assertIn("exec $with stream -t 8", text)
        plain = suite.case_script(NUMA, suite.Case(0, "interleave", "zen", "none", 8, 0), LAYOUTS["zen"], FULL)
        self.assertNotIn("numactl", plain)

    def test_balancing_is_put_back(self) -> None:
        case = suite.Case(0, "stream", "zen", "fork_spread+balancing", 4, 0)
        text = suite.case_script(NUMA, case, LAYOUTS["zen"], FULL)
        for path, on, off in (("scan_delay_ms", "1", "1000"), ("scan_period_min_ms", "10", "1000"),
                              ("numa_balancing", "1", "0")):
            self.assertRegex(text, rf'put "\S*/{path}" {on} ')
            self.assertRegex(text, rf"switch_off \S*/{path} {off}\n")

    def test_halves(self) -> None:
        """They share no core, and have as many CPUs of each LLC."""
        for machine in MACHINES:
            halves = [self.cpus_of(name, machine) for name in ("half-stream", "half-pairs")]
            self.assertEqual(halves[0] | halves[1], machine.cpus)
            self.assertFalse(halves[0] & halves[1])
            for llc in machine.llcs:
                self.assertEqual([len(part & llc) for part in halves], [len(llc) // 2] * 2)
            for core in machine.cores:
                self.assertIn(len(core & halves[0]), (0, len(core)))

    def cpus_of(self, name: str, machine: Layout) -> frozenset[int]:
        setting, = NUMA.configuration(name).settings
        return parse_cpu_list(str(setting.value_for(setting.group, 8, machine)))

    def test_quick_is_quick(self) -> None:
        """By estimate: 10 minutes are promised."""
        chunks = suite.plan(NUMA, Selection(QUICK, quick=True))
        self.assertLess(suite.estimate(chunks), 9 * 60)
        self.assertEqual({case.bench for chunk in chunks for case in chunk.cases},
                         {bench.name for bench in NUMA.benches})

    def test_page(self) -> None:
        page = (context.ROOT / NUMA.page).read_text(encoding="utf-8")
        for bench in NUMA.benches:
            self.assertIn(f"| `{bench.name}` |", page)
        for configuration in NUMA.configurations:
            name = re.sub(r"^.*\+balancing$", "…+balancing", configuration.name)
            self.assertIn(f"`{name}`", page)


class Figures(unittest.TestCase):
    def test_of_the_best_pinning(self) -> None:
        medians = {"none": {4: 100.0, 8: 100.0}, "fork_spread+wake_hold": {4: 96.0, 8: 200.0},
                   "cores": {4: 90.0, 8: 205.0}, "apart": {4: 100.5}}
        result = verdict("STREAM, 2-32", fake.results(medians, bench="stream", of=NUMA))
        self.assertEqual((result.reached, result.number, result.detail),
                         (True, "95.5 % at least (2 of 5 loads)", "at 4, against apart"))
        medians["cores"][8] = 211.0
        result = verdict("STREAM, 2-32", fake.results(medians, bench="stream", of=NUMA))
        self.assertEqual((result.reached, result.detail), (False, "at 8, against cores"))

    def test_older_rules(self) -> None:
        """With as many threads as the machine has LLCs, and no other number."""
        medians = {"none": {4: 150.0, 8: 150.0}, "before-5.18": {4: 100.0, 8: 100.0}, "mailing": {4: 190.0, 8: 1000.0}}
        result = verdict("STREAM, a thread for each LLC", fake.results(medians, bench="stream", of=NUMA))
        self.assertEqual((result.reached, result.number, result.detail), (True, "+90.0 %", "at 4"))
        medians["mailing"][4] = 189.0
        found = fake.results(medians, bench="stream", of=NUMA)
        self.assertFalse(verdict("STREAM, a thread for each LLC", found).reached)
        self.assertIsNone(verdict("threads with a cache each, likewise", found).reached)

    def test_older_rules_are_put_back(self) -> None:
        for name, rule in (("before-5.18", 1), ("mailing", 2)):
            text = suite.case_script(NUMA, suite.Case(0, "stream", "zen", name, 4, 0), LAYOUTS["zen"], FULL)
            self.assertIn(f'put "/sys/kernel/debug/sched/ancestor_numa" {rule} ', text)
            self.assertIn("switch_off /sys/kernel/debug/sched/ancestor_numa 0\n", text)

    def test_without_pinnings_there_is_no_verdict(self) -> None:
        medians = {"none": {4: 100.0}, "fork_affine+wake_affine": {4: 120.0}}
        self.assertIsNone(verdict("pairs", fake.results(medians, bench="pairs", of=NUMA)).reached)

    def test_beside_each_other(self) -> None:
        """Of two groups, each is compared with what it has alone on half of the machine."""
        medians = {"none": {8: 50.0}, "spread+affine": {8: 90.0}, "half-stream": {8: 100.0}}
        result = verdict("two groups at once: STREAM", fake.results(medians, bench="together", of=NUMA))
        self.assertEqual((result.reached, result.number), (True, "90.0 % at least"))
        medians["spread+affine"][8] = 89.0
        found = fake.results(medians, bench="together", of=NUMA)
        self.assertFalse(verdict("two groups at once: STREAM", found).reached)
        self.assertIsNone(verdict("two groups at once: pairs", found).reached)

    def test_halves_are_no_pinnings_of_others(self) -> None:
        for name in ("half-stream", "half-pairs"):
            self.assertEqual(NUMA.configuration(name).kind, PINNED)
            for bench in NUMA.benches:
                self.assertEqual(name in bench.configurations, bench.name == "together")


if __name__ == "__main__":
    unittest.main()
