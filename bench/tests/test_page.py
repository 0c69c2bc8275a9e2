# SPDX-License-Identifier: GPL-2.0-only
"""The generated pages: what is committed is what its results give, and what the tables say of made-up ones."""

import dataclasses
import re
import tempfile
import unittest
from pathlib import Path

import context
import fake
import page
import picture
import renew
import suite
from common import Fail
from results import Failure, Results, Row, row_of, with_oracle

TEMPLATE = context.ROOT / "bench/results/README.template.md"
HINT = suite.load_suite("hint")


def with_samples(found: Results, samples: dict[str, list[float]]) -> Results:
    """The results with these samples for each configuration."""
    rows: list[Row] = [row_of(row.key, row.unit, row.better, samples[row.config]) for row in found.rows
                       if row.config in samples]
    found.environment["samples"] = max(map(len, samples.values()))
    return dataclasses.replace(found, rows=with_oracle(rows, HINT))


def schbench(samples: dict[str, list[float]], load: int = 16, metric: str = "", topology: str = "zen") -> Results:
    made = fake.results({config: {load: 1.0} for config in samples}, bench="schbench", of=HINT, topology=topology,
                        metric=metric)
    return with_samples(made, samples)


def goal(results: dict[str, Results], start: str) -> list[str]:
    """The cells of a goal's row, without file, goal and what is wanted."""
    lines = page.goals(page.parts_of(results))
    row, = [line for line in lines if line.startswith(f"| cpu.hint | {start}")]
    return row.strip("| ").split(" | ")[3:]


class Committed(unittest.TestCase):
    """Renders from the committed results, and compares."""

    def setUp(self) -> None:
        self.results = renew.read_published()
        self.plan = renew.read_plan()

    def test_pages(self) -> None:
        drawn = sorted(path.name for path in renew.PUBLISHED.glob("*.svg"))
        commands = {item.name: item.command for item in self.plan.items}
        found = page.texts(self.results, commands, TEMPLATE, drawn)
        for name, content in found.items():
            self.assertEqual((renew.PUBLISHED / name).read_bytes(), content,
                             f"{name} is not what bench/results/data gives; run: python3 bench/renew.py --render")
        there = {path.name for path in renew.PUBLISHED.glob("*.md")} - {TEMPLATE.name}
        self.assertEqual(there, found.keys())

    def test_pictures(self) -> None:
        """Each is there, and says what was measured; their bytes depend on the release of matplotlib."""
        views = [part.view(topology) for part in page.parts_of(self.results) for topology in part.topologies]
        wanted = {f"{composed.name}.svg": composed for view in views for bench in view.benches()
                  if (composed := picture.compose(view, bench))}
        self.assertEqual(wanted.keys(), {path.name for path in renew.PUBLISHED.glob("*.svg")})
        for name, composed in wanted.items():
            text = (renew.PUBLISHED / name).read_text(encoding="utf-8")
            for word in (composed.title, *(line.name for panel in composed.panels for line in panel.lines)):
                self.assertIn(f">{word}<", text, name)

    def test_items_are_of_the_plan(self) -> None:
        self.assertLessEqual(self.results.keys(), {item.name for item in self.plan.items})
        for item in self.plan.items:
            if item.name in self.results:
                self.assertEqual(self.results[item.name].environment["command"], item.command, item.name)

    def test_length(self) -> None:
        self.assertLessEqual(len((renew.PUBLISHED / "README.md").read_text(encoding="utf-8").split("\n")), 250)

    def test_template_has_no_figures(self) -> None:
        """Neither a percentage nor a time is typed there."""
        self.assertNotRegex(TEMPLATE.read_text(encoding="utf-8"), r"\d\s?(%|us|ms|µs|1/s)")


class Goals(unittest.TestCase):
    def test_yes_and_no_by_machine(self) -> None:
        results = {"a": schbench({"none": [10.0] * 3, "fork_affine": [10.2] * 3}),
                   "b": schbench({"none": [10.0] * 3, "fork_affine": [20.0] * 3}, topology="xeon")}
        first, second = goal(results, "schbench p99, 16-128 workers, any hint")
        self.assertRegex(first, r"^yes, -2\.0 % at worst")
        self.assertRegex(second, r"^\*\*no\*\*, -100\.0 % at worst")

    def test_every_metric_is_judged(self) -> None:
        """A gain of wakeup latency does not hide a loss of requests."""
        results = {"a": schbench({"none": [10.0] * 3, "fork_affine": [5.0] * 3}),
                   "b": schbench({"none": [100.0] * 3, "fork_affine": [80.0] * 3}, metric="rps"),
                   "c": schbench({"none": [100.0] * 3, "fork_affine": [120.0] * 3}, metric="request_p99")}
        self.assertRegex(goal(results, "schbench p99, 16-128 workers, any hint")[0], r"^yes")
        self.assertRegex(goal(results, "schbench requests per second")[0], r"^\*\*no\*\*, -20\.0 %")
        self.assertRegex(goal(results, "schbench p99 of requests")[0], r"^\*\*no\*\*, -20\.0 %")

    def test_uncertain(self) -> None:
        """Where one sample decides, and where there are too few."""
        start = "schbench p99, 16-128 workers, any hint"
        sure = {"a": schbench({"none": [10.0] * 5, "fork_affine": [10.0, 10.1, 10.2, 10.3, 99.0]})}
        self.assertRegex(goal(sure, start)[0], r"^yes, ")
        close = {"a": schbench({"none": [10.0] * 3, "fork_affine": [10.0, 10.4, 11.0]})}
        self.assertRegex(goal(close, start)[0], r"^yes\?, ")
        few = {"a": schbench({"none": [10.0] * 2, "fork_affine": [10.0] * 2})}
        self.assertRegex(goal(few, start)[0], r"^yes\?, ")

    def test_one_mechanism(self) -> None:
        other = schbench({"none": [10.0], "fork_affine": [9.0]}, topology="xeon")
        other.environment["mechanism"] = "b" * 64
        results = {"a": schbench({"none": [10.0], "fork_affine": [9.0]}), "b": other}
        self.assertRaisesRegex(Fail, "different mechanisms.*a has a{12}, b has b{12}", page.parts_of, results)

    def test_measured_once(self) -> None:
        found = schbench({"none": [10.0], "fork_affine": [9.0]})
        self.assertRaisesRegex(Fail, "b: .* another item of the plan", page.parts_of, {"a": found, "b": found})


class Tables(unittest.TestCase):
    def test_summary(self) -> None:
        results = {"a": schbench({"none": [10.0, 10.0, 11.0], "fork_affine": [5.0] * 3, "wake_hold": [12.0] * 3,
                                  "tail_latency": [9.0] * 3, "seed1": [30.0] * 3, "llc": [8.0] * 3})}
        part, = page.parts_of(results)
        header, _, row = page.summary(part.view("zen"))
        self.assertEqual(header, "| metric | load | none | best of ours | worst of ours | best profile "
                                 "| best without us | ancestor | spread |")
        self.assertEqual(row, "| schbench, 99th percentile of wakeup latency | workers 16 | 10.00 us | +50 % "
                              "| -20 % (wake_hold, 16) | +10 % | +20 % | -200 % | 10 % |")

    def test_whole(self) -> None:
        """The pages of made-up results: they hold together, and say what is missing."""
        results = {"a": schbench({"none": [10.0] * 3, "fork_affine": [5.0] * 3})}
        commands = {"a": "make bench SUITE=small", "other": "make bench SUITE=gang"}
        found = page.texts(results, commands, TEMPLATE, ["hint-schbench-zen.svg"])
        self.assertEqual(found.keys(), {"README.md", "hint.md"})
        front, every = found["README.md"].decode(), found["hint.md"].decode()
        self.assertIn("1 of the 2 items of the plan were measured, 2024-02-29, by revision 111111111111",
                      " ".join(front.split()))
        self.assertIn("Not measured yet: other.", " ".join(front.split()))
        for text in (front, every):
            self.assertIn("![schbench, one messenger on zen](hint-schbench-zen.svg)", text)
            self.assertTrue(text.startswith("<!-- SPDX-License-Identifier: GPL-2.0-only -->\n"))
            self.assertNotRegex(text, r"(?m) $|\$")
        self.assertIn("    make bench SUITE=small\n", every)
        self.assertTrue(re.search(r"16: +10\.00 \(0\.00 pct\) +5\.00 \(50\.00 pct\)", every))

    def test_whole_plan_is_short_enough(self) -> None:
        """With all that the plan measures: a page of 250 lines, with a table for each file and machine."""
        plan = renew.read_plan()
        results = {item.name: everything(item) for item in plan.items}
        drawn = [f"{part.suite.name}-{bench}-{topology}.svg" for part in page.parts_of(results)
                 for topology in part.topologies for bench in part.view(topology).benches()]
        found = page.texts(results, {item.name: item.command for item in plan.items}, TEMPLATE, drawn)
        text = found["README.md"].decode()
        self.assertLessEqual(len(text.split("\n")), 250)
        self.assertEqual(found.keys(), {"README.md", *(f"{item.suite}.md" for item in plan.items)})
        machines = {(item.suite, item.topology or "1x2x2x1") for item in plan.items}
        self.assertEqual(text.count("\n**On "), len(machines))
        self.assertEqual(text.count("\n![") + text.startswith("!["), len(machines))
        self.assertNotIn("Not measured yet", text)

    def test_span(self) -> None:
        for values, text in (([1.0, 20.4], "+1 … +20 %"), ([-0.2, 0.3], "0 %"), ([-0.4], "0 %"),
                             ([-10.0, -5.0], "-10 … -5 %"), ([-10.0, 0.1], "-10 … 0 %"), ([100.0], "+100 %")):
            self.assertEqual(page.span(values, " %"), text)

    def test_alone_is_no_rival(self) -> None:
        """The service with a hint and nothing beside it is not the best that a headroom can do."""
        headroom = suite.load_suite("headroom")
        found = fake.results({"alone": {40: 100.0}, "hint": {40: 90.0}, "headroom20": {40: 110.0}}, bench="requests",
                             of=headroom)
        part, = page.parts_of({"a": found})
        row = page.summary(part.view("zen"))[2]
        self.assertIn("| -10 % | -10 % (headroom20, 40) |", row)

    def test_failures_are_said(self) -> None:
        found = schbench({"none": [10.0] * 3, "fork_affine": [5.0] * 3})
        found.failures.append(fake_failure())
        texts = page.texts({"a": found}, {"a": ""}, TEMPLATE, [])
        self.assertIn("**1 runs failed**", texts["README.md"].decode())
        self.assertIn("- schbench/16 fork_affine on zen, sample 2: it hung", texts["hint.md"].decode())

    def test_nothing(self) -> None:
        text = page.texts({}, {"a": ""}, TEMPLATE, [])["README.md"].decode()
        self.assertIn("None of the 1 items of the plan was measured yet.", text)


def everything(item: renew.Item) -> Results:
    """Made-up results of all that an item measures."""
    its = suite.load_suite(item.suite)
    arguments = renew.run.parse_arguments(item.options())
    if item.suite == "overhead":
        topology = its.topologies[0]
        cases = [(bench.name, c.name, load) for bench in its.benches for load in bench.loads(suite.QUICK)
                 for c in its.configurations]
    else:
        topology = item.topology
        cases = [(case.bench, case.config, case.load)
                 for chunk in suite.plan(its, renew.run.select(arguments)) for case in chunk.cases if not case.sample]
    rows = [row_of((bench, topology, config, load, metric.name), metric.unit, metric.better,
                   [100.0 + place + len(config)] * (item.samples or 1))
            for bench, config, load in cases for place, metric in enumerate(its.bench(bench).metrics)]
    found = fake.results({"none": {1: 1.0}})
    found.environment.update(command=item.command, samples=item.samples, topologies={
        topology: suite.layout_of(topology).describe()})
    return dataclasses.replace(found, suite=item.suite, rows=with_oracle(rows, its), expected=[])


def fake_failure() -> Failure:
    return Failure("schbench", "zen", "fork_affine", 16, 1, "it hung")


class Publishing(unittest.TestCase):
    def test_others_go(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            first = schbench({"none": [10.0] * 3, "fork_affine": [5.0] * 3})
            first.counters.append({"bench": "x"})
            renew.publish({"a": first, "b": first}, directory)
            renew.publish({"b": first}, directory)
            found = renew.read_published(directory)
            self.assertEqual(list(found), ["b"])
            self.assertEqual((found["b"].rows, found["b"].counters), (first.rows, []))


if __name__ == "__main__":
    unittest.main()
