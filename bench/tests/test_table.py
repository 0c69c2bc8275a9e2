# SPDX-License-Identifier: GPL-2.0-only
"""Tables look like the seed's, and say what is missing."""

import unittest
from unittest import mock

import context  # noqa: F401
import fake
import results
import table
from fake import SMALL
from results import TopologyView

SEED = {"none": {1: 37.0, 2: 73.0}, "fork_spread": {1: 34.0, 2: 73.0}, "both": {1: 17.0, 2: 2636.0},
        "llc": {1: 16.0, 2: 900.0}, "node": {1: 30.0, 2: 73.5}}
SEED_TABLE = """\
hackbench on zen: time (s, lower is better)

Fork hints

  #groups:              none       fork_spread
        1:  37.00 (0.00 pct)  34.00 (8.11 pct)
        2:  73.00 (0.00 pct)  73.00 (0.00 pct)

Combinations

  #groups:              none                    both
        1:  37.00 (0.00 pct)       17.00 (54.05 pct)
        2:  73.00 (0.00 pct)  2636.00 (-3510.96 pct)

Pinning

  #groups:              none                 oracle
        1:  37.00 (0.00 pct)  16.00 (56.76 pct) llc
        2:  73.00 (0.00 pct)  73.00 (0.00 pct) none
"""


def setUpModule() -> None:
    """What is missing depends on the suite, which is looked up by its name."""
    unittest.enterModuleContext(mock.patch.object(results, "load_suite", lambda name: SMALL))


class Cells(unittest.TestCase):
    def test_small_and_large(self) -> None:
        self.assertEqual([table.number(v) for v in (2040733.44, 12203.2349, 37, 0, 0.0123456, 0.5)],
                         ["2040733", "12203.23", "37.00", "0.00", "0.01235", "0.5"])

    def test_no_minus_zero(self) -> None:
        found = fake.results({"none": {1: 100.0}, "both": {1: 100.001}})
        self.assertEqual(table.cell(found.rows[1], found.rows[0]), "100.00 (0.00 pct)")

    def test_absent(self) -> None:
        found = fake.results({"both": {1: 100.0}})
        self.assertEqual(table.cell(found.rows[0], None), "100.00 (no baseline)")
        self.assertEqual(table.cell(None, found.rows[0]), "missing")
        self.assertEqual(table.cell(None, None, skipped=True), "skipped")

    def test_not_compared(self) -> None:
        """The number alone; the baseline may have none, which is nothing to miss."""
        found = fake.results({"none": {1: 100.0}, "both": {1: 60.0}})
        self.assertEqual(table.cell(found.rows[1], found.rows[0], compared=False), "60.00")
        self.assertEqual(table.cell(None, None, compared=False), "-")


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.results = fake.results(SEED)

    def test_style_of_the_seed(self) -> None:
        view = TopologyView(self.results, SMALL, "zen")
        lines = table.metric_tables(view, "hackbench", SMALL.bench("hackbench").metrics[0])
        self.assertEqual("\n".join(lines), SEED_TABLE)

    def test_many_configurations_are_split(self) -> None:
        with mock.patch.object(table, "COLUMNS", 1):
            self.results.expected.append(["hackbench", "zen", "seed1", 1])
            view = TopologyView(self.results, SMALL, "zen")
            text = "\n".join(table.metric_tables(view, "hackbench", SMALL.bench("hackbench").metrics[0]))
        self.assertIn("Combinations, continued", text)
        self.assertRegex(text, r"(?m)^ +1: +37.00 \(0.00 pct\) +missing$")

    def test_skipped(self) -> None:
        self.results.expected.append(["hackbench", "zen", "seed1", 1])
        self.results.skipped.append({"bench": "hackbench", "topology": "zen", "config": "seed1", "load": 1,
                                     "reason": "this kernel has no cpu.hint"})
        text = table.console(self.results, SMALL)
        self.assertRegex(text, r"(?m)^ +1: .* skipped$")
        self.assertIn("skipped hackbench/seed1 on zen: this kernel has no cpu.hint\n", text)

    def test_console(self) -> None:
        self.results.expected.append(["hackbench", "zen", "background", 1])
        self.results.complete = False
        text = table.console(self.results, SMALL)
        for line in ("make bench SUITE=small", "The lab is a model of a machine, ",
                     "NOT COMPLETE: the run was interrupted.", "Best hint and best pinning on zen",
                     "MISSING hackbench/1 background on zen: 0 of 1 samples"):
            self.assertIn(line, text)
        # 17 against 16, and no hint against no pinning.
        self.assertRegex(text, r"hackbench/1 +time +17.00 \(54.05 pct\) +both +16.00 \(56.76 pct\) +llc +-6.25 pct")
        self.assertRegex(text, r"hackbench/2 +time +73.00 \(0.00 pct\) +none +73.00 \(0.00 pct\) +none +\+0.00 pct")
        self.assertRegex(text, r"(?m)^ +1: +37.00 \(0.00 pct\) +missing$")
        self.assertRegex(text, r"(?m)^ +2: +73.00 \(0.00 pct\) +-$")
        self.assertLessEqual(max(map(len, text.splitlines())), 120)

    def test_figures(self) -> None:
        lines = table.console(self.results, SMALL)
        self.assertRegex(lines, r"  yes  on any machine +\+1 % +\+10 % +\+12.0 %")
        self.assertRegex(lines, r"  NO   on split ones")
        self.assertRegex(lines, r"  -    not judged")
        self.assertIn("on any machine: with everything", lines)
        xeon = table.console(fake.results(SEED, topology="xeon"), SMALL)
        self.assertNotIn("on split ones", xeon)

    def test_metric_that_is_not_shown(self) -> None:
        found = fake.results({"none": {4: 1.0}, "both": {4: 2.0}}, bench="tbench")
        text = table.console(found, SMALL)
        self.assertIn("tbench on zen: operations", text)
        self.assertNotIn("tbench on zen: rate", text)

    def test_rst(self) -> None:
        text = table.rst(self.results, SMALL)
        self.assertTrue(text.startswith(".. SPDX-License-Identifier: GPL-2.0-only\n\n"))
        self.assertIn("``make bench SUITE=small``\n", text)
        title = "hackbench on zen: time (s, lower is better)"
        self.assertIn(f"\n{title}\n{'-' * len(title)}\n\n::\n\n    Fork hints\n\n      #groups: ", text)
        self.assertNotRegex(text, r"(?m) $")


if __name__ == "__main__":
    unittest.main()
