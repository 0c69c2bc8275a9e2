# SPDX-License-Identifier: GPL-2.0-only
"""Suite hint: complete, affordable, and its figures to reach judge as the issue words them."""

import unittest

import context
import fake
import outputs
import suite
from results import Results, TopologyView
from suite import FULL, HOST, LAYOUTS, QUICK, SEED, Selection, Verdict

HINT = suite.load_suite("hint")
ZEN = LAYOUTS["zen"].describe()
SAMPLES = {"hackbench": outputs.HACKBENCH + "elapsed 11823000 ns\n", "schbench": outputs.SCHBENCH,
           "tbench": outputs.TBENCH_SHORT, "stream": outputs.STREAM}


def verdict(what: str, found: Results, number: int = 0) -> Verdict:
    """The verdict of the figure whose description begins so."""
    figures = [figure for figure in HINT.figures if figure.what.startswith(what)]
    topology, = found.environment["topologies"]
    return figures[number].judge(TopologyView(found, HINT, topology), LAYOUTS[topology].describe())


class Contents(unittest.TestCase):
    def test_loads(self) -> None:
        for name, last in (("hackbench", 16), ("schbench", 128), ("tbench", 64), ("stream", 16)):
            bench = HINT.bench(name)
            powers = [1 << n for n in range(last.bit_length())]
            self.assertEqual((bench.loads(FULL), bench.loads(HOST)), (powers, powers))
            self.assertLessEqual(set(bench.loads(QUICK)), set(powers))

    def test_configurations(self) -> None:
        hints = {c.name: c.hint for c in HINT.configurations}
        for name in ("fork_affine", "fork_spread", "wake_affine", "wake_hold", "fork_affine+wake_affine",
                     "fork_spread+wake_hold", "fork_affine+wake_affine+pack", "tail_latency", "interactive",
                     "noninteractive", "background", "efficient"):
            self.assertEqual(hints[name], name.replace("+", " "))
        seed, = [c for c in HINT.configurations if c.kind == SEED]
        self.assertEqual((seed.hint, len(seed.switches)), ("wake_affine", 1))
        known = {name for layout in LAYOUTS.values() for name in layout.pinnings()}
        self.assertEqual({c.pin for c in HINT.configurations if c.pin}, known)

    def test_words_are_those_of_the_kernel(self) -> None:
        page = (context.ROOT / "Documentation/admin-guide/cgroup-steer/hint.rst").read_text(encoding="utf-8")
        for configuration in HINT.configurations:
            for word in configuration.hint.split():
                self.assertIn(f"``{word}``", page)

    def test_parsers_give_the_metrics(self) -> None:
        for bench in HINT.benches:
            values = bench.parse(SAMPLES[bench.name])
            self.assertLessEqual({metric.name for metric in bench.metrics if not metric.optional}, values.keys())

    def test_commands(self) -> None:
        for bench in HINT.benches:
            for form in (FULL, QUICK, HOST):
                for load in bench.loads(form):
                    command = bench.shell(load, form)
                    self.assertRegex(command, rf"\b{load}\b")
                    self.assertNotRegex(command, r"\{\w+\}|e\+")

    def test_quick_is_quick(self) -> None:
        """By estimate: 10 minutes are promised."""
        chunks = suite.plan(HINT, Selection(QUICK, quick=True))
        self.assertLess(suite.estimate(chunks), 9 * 60)
        self.assertEqual({chunk.layout.name for chunk in chunks}, {"zen"})

    def test_page(self) -> None:
        self.assertTrue((context.ROOT / HINT.page).is_file())


class Figures(unittest.TestCase):
    def found(self, bench: str, medians: dict[str, dict[int, float]], topology: str = "zen") -> Results:
        return fake.results(medians, bench=bench, topology=topology, of=HINT)

    def test_best_hint_at_each_load(self) -> None:
        medians = {"none": {1: 100.0, 8: 100.0, 16: 100.0}, "wake_affine": {1: 40.0, 8: 90.0, 16: 99.0},
                   "fork_affine": {1: 90.0, 8: 55.0}}
        result = verdict("schbench p99, 1-8", self.found("schbench", medians))
        self.assertEqual((result.reached, result.number),
                         (True, "+45.0 % at least (2 of 4 loads, 2 of 12 configurations)"))
        self.assertEqual(result.detail, "1: +60.0 % (wake_affine); 8: +45.0 % (fork_affine)")
        medians["fork_affine"][8] = 56.0
        self.assertFalse(verdict("schbench p99, 1-8", self.found("schbench", medians)).reached)

    def test_collapse(self) -> None:
        """Seed 1's is shown, and does not count as ours; nor do profiles."""
        medians = {"none": {8: 10.0, 16: 100.0, 32: 100.0}, "wake_affine": {8: 20.0, 16: 104.0, 32: 99.0},
                   "seed1": {16: 3600.0, 32: 100.0}, "background": {16: 200.0}}
        found = self.found("schbench", medians)
        result = verdict("schbench p99, 16-128", found)
        self.assertEqual((result.reached, result.number),
                         (True, "-4.0 % at worst (2 of 4 loads, 1 of 6 configurations)"))
        self.assertEqual(result.detail, "wake_affine at 16")
        result = verdict("schbench p99, 16-128 workers, seed 1", found)
        self.assertEqual((result.reached, result.number), (None, "-3500.0 % at worst (2 of 4 loads)"))
        self.assertIn("-100.0 % at worst", verdict("schbench p99, 16-128 workers, any profile", found).number)
        medians["wake_affine"][32] = 106.0
        self.assertFalse(verdict("schbench p99, 16-128", self.found("schbench", medians)).reached)

    def test_both_sides_of_the_combination(self) -> None:
        """What gains as the best hint may lose elsewhere: both are shown, and what is left without it."""
        medians = {"none": {1: 10.0, 16: 10.0}, "wake_hold": {1: 9.0, 16: 10.0}, "background": {1: 9.5, 16: 10.5},
                   "fork_affine+wake_affine+pack": {1: 8.0, 16: 12.0}}
        found = self.found("hackbench", medians)
        result = verdict("hackbench, 1-4 groups, best hint", found)
        self.assertEqual((result.reached, result.detail), (True, "1: +20.0 % (fork_affine+wake_affine+pack)"))
        result = verdict("hackbench, 1-4 groups, best of the six hints", found)
        self.assertEqual((result.reached, result.number, result.detail),
                         (None, "+10.0 % at least (1 of 3 loads, 1 of 6 configurations)", "1: +10.0 % (wake_hold)"))
        self.assertTrue(verdict("hackbench, any load, any hint", found).reached)
        result = verdict("hackbench, any load, fork_affine+wake_affine+pack", found)
        self.assertEqual((result.reached, result.number, result.detail),
                         (None, "-20.0 % at worst (2 of 5 loads)", "fork_affine+wake_affine+pack at 16"))
        result = verdict("hackbench, any load, any profile", found)
        self.assertEqual((result.reached, result.number, result.detail),
                         (None, "-5.0 % at worst (2 of 5 loads, 1 of 5 configurations)", "background at 16"))

    def test_whatever_may_be_the_best_hint_is_shown_where_it_loses(self) -> None:
        """No configuration may count for gains alone."""
        for config in (c.name for c in HINT.configurations if c.kind in (suite.HINT, suite.PROFILE)):
            for bench in ("hackbench", "schbench", "tbench"):
                found = self.found(bench, {"none": {16: 100.0}, config: {16: 300.0 if bench != "tbench" else 1.0}})
                lost = [figure.what for figure in HINT.figures if figure.what.startswith(bench)
                        and f"{config} at 16" in figure.judge(TopologyView(found, HINT, "zen"), ZEN).detail]
                self.assertEqual(len(lost), 1, (config, bench, lost))

    def test_hackbench(self) -> None:
        found = self.found("hackbench", {"none": {1: 10.0, 16: 10.0}, "wake_hold": {1: 8.4, 16: 10.4}})
        self.assertTrue(verdict("hackbench, 1-4", found).reached)
        self.assertFalse(verdict("hackbench, any load", found).reached)

    def test_tbench_from_as_many_clients_as_cores(self) -> None:
        medians = {"none": {8: 100.0, 16: 100.0, 32: 100.0}, "fork_spread": {8: 90.0, 16: 110.5, 32: 112.0},
                   "fork_affine": {16: 140.0}}
        result = verdict("tbench, clients >=", self.found("tbench", medians))
        self.assertEqual((result.reached, result.number), (True, "+10.5 % at least (2 of 3 loads)"))
        self.assertEqual(result.detail, "16: +10.5 % (fork_spread); 32: +12.0 % (fork_spread)")
        self.assertFalse(verdict("tbench, any load", self.found("tbench", medians)).reached)

    def test_stream_by_kernel(self) -> None:
        """The worst of the kernels counts; one that was not measured does not."""
        medians = {"none": {1: 1.0, 2: 100.0, 8: 100.0}, "fork_spread": {1: 0.5, 2: 116.0, 8: 118.0}}
        triad = self.found("stream", medians)
        self.assertTrue(verdict("STREAM, each kernel", triad).reached)
        medians["fork_spread"][8] = 114.0
        triad.rows += fake.results(medians, bench="stream", of=HINT, metric="copy").rows
        result = verdict("STREAM, each kernel", triad)
        self.assertEqual((result.reached, result.number), (False, "+14.0 % at least (2 of 3 loads)"))
        self.assertIn("8 copy: +14.0 % (fork_spread)", result.detail)

    def test_distance(self) -> None:
        medians = {"none": {1: 100.0}, "fork_affine": {1: 84.0}, "llc": {1: 80.0}, "node": {1: 90.0}}
        result = verdict("best hint against", self.found("hackbench", medians))
        self.assertEqual((result.reached, result.number),
                         (True, "-5.0 % at worst (1 of 25 loads, 3 of 16 configurations)"))
        self.assertEqual(result.detail, "hackbench at 1: fork_affine against llc")
        medians["fork_affine+wake_affine+pack"] = {1: 80.0}
        packed = self.found("hackbench", medians)
        self.assertEqual(verdict("best hint against", packed).number,
                         "+0.0 % at worst (1 of 25 loads, 4 of 16 configurations)")
        result = verdict("best of the six hints against", packed)
        self.assertEqual((result.reached, result.number),
                         (None, "-5.0 % at worst (1 of 25 loads, 3 of 10 configurations)"))
        del medians["fork_affine+wake_affine+pack"]
        medians["fork_affine"][1] = 84.8
        self.assertFalse(verdict("best hint against", self.found("hackbench", medians)).reached)

    def test_pinnings_that_are_missing(self) -> None:
        """Those of the machine: on xeon the node is the LLC. Results that do not have them say nothing of them."""
        for topology, pinnings in (("zen", 4), ("xeon", 3)):
            machine = LAYOUTS[topology].describe()
            medians = {c.name: {load: 10.0 for load in HINT.bench("hackbench").loads(FULL)} for c in HINT.configurations
                       if c.kind in (suite.BASELINE, suite.HINT) or c.pin in machine["pinnings"]}
            self.assertEqual(len(medians), 1 + 6 + pinnings)
            for missing, number in (((), "5 of 25 loads"),
                                    (("cores",), f"5 of 25 loads, {5 + pinnings} of {6 + pinnings} configurations")):
                found = self.found("hackbench", {k: v for k, v in medians.items() if k not in missing}, topology)
                self.assertEqual(verdict("best of the six hints against", found).number, f"+0.0 % at worst ({number})")
                del found.environment["topologies"][topology]["pinnings"]
                figure = next(f for f in HINT.figures if f.what.startswith("best of the six hints against"))
                self.assertEqual(figure.judge(TopologyView(found, HINT, topology),
                                              found.environment["topologies"][topology]).number,
                                 "+0.0 % at worst (5 of 25 loads)")

    def test_all_measured(self) -> None:
        """Then there is nothing to say about what is missing."""
        hints = [c.name for c in HINT.configurations if c.kind in (suite.BASELINE, suite.HINT)]
        medians = {name: {load: 10.0 for load in HINT.bench("hackbench").loads(FULL)} for name in hints}
        result = verdict("hackbench, any load, any hint", self.found("hackbench", medians))
        self.assertEqual((result.reached, result.number), (True, "+0.0 % at worst"))
        result = verdict("hackbench, 1-4 groups, best of the six hints", self.found("hackbench", medians))
        self.assertEqual(result.number, "+0.0 % at least")

    def test_nothing_measured(self) -> None:
        found = self.found("hackbench", {"none": {1: 100.0}})
        view = TopologyView(found, HINT, "zen")
        for figure in HINT.figures:
            result = figure.judge(view, ZEN)
            self.assertEqual((result.reached, result.number), (None, "not measured"), figure.what)


if __name__ == "__main__":
    unittest.main()
