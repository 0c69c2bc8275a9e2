# SPDX-License-Identifier: GPL-2.0-only
"""The results file: what is written can be read, what is not right is refused, nothing is merged or lost in silence."""

import copy
import dataclasses
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401
import fake
import results
from common import Fail
from fake import SMALL
from results import Results, TopologyView

MEDIANS = {"none": {1: 10.0, 2: 20.0}, "both": {1: 8.0, 2: 22.0}, "llc": {1: 7.5, 2: 30.0}, "node": {1: 9.0, 2: 19.0}}


def setUpModule() -> None:
    """What is missing depends on the suite, which is looked up by its name."""
    unittest.enterModuleContext(mock.patch.object(results, "load_suite", lambda name: SMALL))


class File(unittest.TestCase):
    def setUp(self) -> None:
        self.results = fake.results(MEDIANS)

    def test_there_and_back(self) -> None:
        self.results.failures = [results.Failure("hackbench", "zen", "seed1", 1, 0, "no switch")]
        self.results.counters = [{"bench": "hackbench", "topology": "zen", "config": "both", "load": 1,
                                  "counters": {"a": 1}}]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "deep" / "small.json"
            results.save(self.results, path)
            self.assertEqual(results.read_results(path), self.results)
            self.assertEqual(json.loads(path.read_text(encoding="utf-8"))["rows"][0], {
                "bench": "hackbench", "topology": "zen", "config": "none", "load": 1, "metric": "time", "unit": "s",
                "better": "lower", "samples": [10.0], "median": 10.0})

    def refuse(self, message: str, **changes: Any) -> None:
        data = self.results.to_json()
        data = copy.deepcopy(data)
        for path, value in changes.items():
            place: Any = data
            *outer, last = path.split("__")
            for key in outer:
                place = place[int(key[1:])] if key.startswith("_") else place[key]
            place[last] = value
        self.assertRaisesRegex(Fail, message, results.parse, data, "x.json")

    def test_what_is_not_right(self) -> None:
        self.refuse("not results of format 1", format=2)
        self.refuse("environment: 'kernel' is missing or not a str", environment__kernel=None)
        self.refuse("environment: 'mechanism' is None", environment__mechanism=None)
        self.refuse("environment: 'duration_s' is '5'", environment__duration_s="5")
        self.refuse("no list 'rows'", rows={})
        self.refuse("row 0: 'load' is missing or of the wrong type", rows___0__load="1")
        self.refuse("row 1: median 3 is not that of the samples", rows___1__median=3)
        self.refuse("row 0: better is 'more'", rows___0__better="more")
        self.refuse("row 0: samples are no finite numbers", rows___0__samples=[])
        self.refuse("row 0: samples are no finite numbers", rows___0__samples=[float("nan")])
        self.refuse("row 0: unknown keys: colour", rows___0__colour="red")
        self.refuse("a failure with wrong keys", failures=[{"bench": "x"}])
        self.refuse("'complete'", complete="yes")

    def test_row_twice(self) -> None:
        self.results.rows.append(self.results.rows[0])
        self.assertRaisesRegex(Fail, r"two rows for \('hackbench'", results.parse, self.results.to_json(), "x.json")

    def test_no_file_and_no_json(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "x.json"
            self.assertRaisesRegex(Fail, "run 'make bench' first", results.read_results, path)
            path.write_text("{", encoding="utf-8")
            self.assertRaisesRegex(Fail, "no JSON", results.read_results, path)

    def test_nothing_is_written_that_could_not_be_read(self) -> None:
        self.results.environment["date"] = 5
        with tempfile.TemporaryDirectory() as directory:
            self.assertRaises(Fail, results.save, self.results, Path(directory) / "x.json")
            self.assertEqual(list(Path(directory).iterdir()), [])


class Missing(unittest.TestCase):
    def test_absent_and_short(self) -> None:
        found = fake.results(MEDIANS, samples=3)
        found.expected.append(["hackbench", "zen", "seed1", 2])
        found.rows[0] = results.row_of(found.rows[0].key, "s", "lower", [10.0, 11.0])
        self.assertEqual(found.missing(), ["hackbench/1 none on zen: 2 of 3 samples",
                                           "hackbench/2 seed1 on zen: 0 of 3 samples"])
        self.assertIn("MISSING hackbench/2 seed1 on zen: 0 of 3 samples", results.describe(found))

    def test_none(self) -> None:
        self.assertEqual(fake.results(MEDIANS, samples=3).missing(), [])

    def with_throughput(self, operations: int, throughput: int) -> list[str]:
        """What is missing of three samples where so many have each of the two metrics; the second is optional."""
        found = fake.results({"none": {4: 5.0}, "both": {4: 5.0}}, bench="tbench", samples=3)
        for name, count in (("operations", operations), ("throughput", throughput)):
            key = ("tbench", "zen", "both", 4, name)
            found.rows = [row for row in found.rows if row.key != key]
            found.rows += [results.row_of(key, "1/s", "higher", [5.0] * count)] if count else []
        return found.missing()

    def test_optional_metric(self) -> None:
        """A sample may be without it; with it alone, it is no sample."""
        for throughput in range(4):
            self.assertEqual(self.with_throughput(3, throughput), [])
        for operations in range(3):
            self.assertEqual(self.with_throughput(operations, 3), [f"tbench/4 both on zen: {operations} of 3 samples"])

    def test_one_of_several_metrics(self) -> None:
        """Each counts that is not optional, if the file has it at all."""
        bench = SMALL.bench("hackbench")
        more = dataclasses.replace(bench, metrics=(*bench.metrics, dataclasses.replace(bench.metrics[0], name="mean")))
        found = fake.results(MEDIANS, samples=3)
        with mock.patch.object(results, "load_suite", lambda name: dataclasses.replace(SMALL, benches=(more,))):
            self.assertEqual(found.missing(), [])
            found.rows += [results.row_of((*row.key[:4], "mean"), "s", "lower", row.samples) for row in found.rows
                           if row.config != "both"]
            self.assertEqual(found.missing(), ["hackbench/1 both on zen: 0 of 3 samples",
                                               "hackbench/2 both on zen: 0 of 3 samples"])


class Oracle(unittest.TestCase):
    def test_best_for_each_load(self) -> None:
        view = TopologyView(fake.results(MEDIANS), SMALL, "zen")
        for load, source, median in ((1, "llc", 7.5), (2, "node", 19.0)):
            row = view.row("hackbench", "oracle", load, "time")
            assert row
            self.assertEqual((row.source, row.median), (source, median))

    def test_where_pinning_only_harms(self) -> None:
        view = TopologyView(fake.results({"none": {4: 50.0}, "node": {4: 30.0}}, bench="tbench"), SMALL, "zen")
        row = view.row("tbench", "oracle", 4, "operations")
        assert row
        self.assertEqual((row.source, row.median), ("none", 50.0))

    def test_without_search_no_oracle(self) -> None:
        view = TopologyView(fake.results({"none": {1: 1.0}, "both": {1: 1.0}}), SMALL, "zen")
        self.assertIsNone(view.row("hackbench", "oracle", 1, "time"))

    def test_made_anew(self) -> None:
        found = fake.results(MEDIANS)
        self.assertEqual(results.with_oracle(found.rows, SMALL), found.rows)

    def test_distance(self) -> None:
        view = TopologyView(fake.results(MEDIANS), SMALL, "zen")
        distance, config, source = view.distance("hackbench", 1, "time") or (0.0, "", "")
        self.assertAlmostEqual(distance, -100 / 15)
        self.assertEqual((config, source), ("both", "llc"))
        # The hint loses here: the best is none.
        self.assertEqual((view.distance("hackbench", 2, "time") or ("", "", ""))[1:], ("none", "node"))
        self.assertIsNone(view.distance("hackbench", 3, "time"))
        unhinted = TopologyView(fake.results({"none": {1: 1.0}, "llc": {1: 1.0}}), SMALL, "zen")
        self.assertIsNone(unhinted.distance("hackbench", 1, "time"))


class Gains(unittest.TestCase):
    def test_positive_is_better(self) -> None:
        self.assertAlmostEqual(results.gain(17, 37, "lower") or 0, 54.05, 2)
        self.assertAlmostEqual(results.gain(2636, 73, "lower") or 0, -3510.96, 2)
        self.assertAlmostEqual(results.gain(13104.29, 12203.23, "higher") or 0, 7.38, 2)
        self.assertEqual(results.gain(0, 0, "lower"), 0)
        self.assertIsNone(results.gain(5, 0, "lower"))


class Merge(unittest.TestCase):
    def parts(self) -> tuple[Results, Results]:
        return fake.results(MEDIANS), fake.results(MEDIANS, topology="xeon")

    def test_two_topologies(self) -> None:
        zen, xeon = self.parts()
        xeon.environment["remarks"] = ["odd"]
        merged = results.merge([zen, xeon])
        self.assertEqual(len(merged.rows), len(zen.rows) + len(xeon.rows))
        self.assertEqual(list(merged.environment["topologies"]), ["zen", "xeon"])
        self.assertEqual(merged.environment["remarks"][0], "odd")
        self.assertIn("merged from runs of", merged.environment["remarks"][1])
        self.assertEqual(merged.missing(), [])
        results.parse(merged.to_json(), "merged")

    def test_refusals(self) -> None:
        zen, _ = self.parts()
        self.assertRaisesRegex(Fail, "is in two files", results.merge, [zen, zen])
        for name, value in (("kernel", "6.12.118-steer"), ("samples", 2), ("where", "host"), ("hooks", []),
                            ("commands", {"hackbench/1": "other"})):
            zen, xeon = self.parts()
            xeon.environment[name] = value
            self.assertRaisesRegex(Fail, f"'{name}' differs", results.merge, [zen, xeon])
        zen, xeon = self.parts()
        xeon.environment["costs"] = ["ipi_ns=900"]
        self.assertRaisesRegex(Fail, r"'costs' differ: \[\] and \['ipi_ns=900'\]", results.merge, [zen, xeon])
        zen, xeon = self.parts()
        xeon.environment["machines"] = {"zen": {"qemu": "11"}}
        self.assertRaisesRegex(Fail, "the models of 'zen' differ", results.merge, [zen, xeon])

    def test_other_mechanism(self) -> None:
        zen, xeon = self.parts()
        xeon.environment["mechanism"] = "b" * 64
        self.assertRaisesRegex(Fail, "'mechanism' differs, which is kernel/, include/ and hooks/: a{64} .* and b{64} ",
                               results.merge, [zen, xeon])

    def test_mechanism_that_is_not_recorded(self) -> None:
        """Files of before it was recorded can be read and merged, and the result says so."""
        zen, xeon = self.parts()
        for name in results.OPTIONAL:
            xeon.environment.pop(name, None)
        xeon.environment["date"] = "2023"
        results.parse(xeon.to_json(), "old")
        merged = results.merge([zen, xeon])
        self.assertEqual(merged.environment["mechanism"], "")
        self.assertEqual(merged.environment["remarks"][-1],
                         "the mechanism is not recorded of the run of 2023: is it the same?")
        self.assertNotIn("mechanism", results.describe(merged)[0])
        results.parse(merged.to_json(), "merged")

    def test_code_and_host_of_both(self) -> None:
        """Another revision may have the same mechanism."""
        zen, xeon = self.parts()
        xeon.environment |= {"revision": "2" * 40 + "-dirty", "host_cpus": 8}
        merged = results.merge([zen, xeon])
        header = merged.environment
        self.assertEqual((header["duration_s"], header["host_cpus"], header["mechanism"]), (121.0, 0, "a" * 64))
        self.assertIn("revision 111111111111 and 222222222222-dirty, mechanism aaaaaaaaaaaa",
                      results.describe(merged)[0])
        self.assertEqual(len(header["remarks"]), 1)

    def test_commands_of_other_benchmarks(self) -> None:
        zen, xeon = self.parts()
        xeon.environment["commands"] = {"hackbench/2": "true"}
        self.assertEqual(len(results.merge([zen, xeon]).environment["commands"]), 2)


if __name__ == "__main__":
    unittest.main()
