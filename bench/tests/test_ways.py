# SPDX-License-Identifier: GPL-2.0-only
"""The page of suite apps: who is on it, in which order, and what the sentences say follows from the values."""

import tempfile
import unittest
from pathlib import Path

import fake
import suite
import ways
from results import Results, TopologyView
from suite import BASELINE, OURS, PINNED, TODAY
from ways import Way

APPS = suite.load_suite("apps")


def found() -> Results:
    first = fake.results({"none": {50: 4000}, "alone": {50: 80}, "idle": {50: 400}, "weight": {50: 500}, "caches": {50: 90},
                          "headroom20": {50: 100}}, "redis+cc", of=APPS, metric="p99")
    for metric, values in (("rps", dict.fromkeys(("none", "alone", "idle", "weight", "caches", "headroom20"), 3000)),
                           ("side", {"none": 12, "idle": 10, "weight": 9, "caches": 5, "headroom20": 8})):
        first.rows += fake.results({name: {50: value} for name, value in values.items()}, "redis+cc", of=APPS,
                                   metric=metric).rows
    first.skipped.append({"bench": "redis+cc", "topology": "zen", "config": "scx_lavd", "load": 50,
                          "reason": "no scx_lavd: 'make rivals' builds it"})
    return first


class Choice(unittest.TestCase):
    def test_front(self) -> None:
        """Whom another one beats in both is no choice; equals count once."""
        made = [Way("slow", TODAY, 50, 1, 5), Way("fast", OURS, 10, 1, 5), Way("busy", TODAY, 40, 1, 9),
                Way("alone", TODAY, 1, 1, None), Way("same", TODAY, 10, 1, 5)]
        self.assertEqual([way.name for way in ways.front(made)], ["fast", "busy"])

    def test_ours_wins(self) -> None:
        made = [Way("none", BASELINE, 400, 1, 10), Way("headroom20", OURS, 80, 1, 8), Way("idle", TODAY, 100, 1, 8)]
        text = ways.advice(made)
        self.assertIn("If only the service's latency counts, take `headroom20` (p99 80 us, 80 % of the side work)", text)
        self.assertIn("the best is `idle`: ours has a p99 that is 20 % lower.", text)

    def test_a_rival_wins(self) -> None:
        made = [Way("none", BASELINE, 400, 1, 10), Way("headroom20", OURS, 120, 1, 7), Way("scx_lavd", TODAY, 100, 1, 8)]
        text = ways.advice(made)
        self.assertIn("take `scx_lavd`", text)
        self.assertIn("None of ours is the best choice here", text)

    def test_no_difference(self) -> None:
        made = [Way("headroom20", OURS, 95, 1, 7), Way("halves", PINNED, 100, 1, 7)]
        self.assertIn("5 % lower, which is no difference of weight (less than 10 %)", ways.advice(made))


class Page(unittest.TestCase):
    def test_table(self) -> None:
        text, _ = ways.page(found(), APPS)
        rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| way")]
        self.assertEqual(rows[:3], ["| alone | 80 | 3,000 | – | – |", "| caches | 90 | 3,000 | 5 | 42 % |",
                                    "| **headroom20** | 100 | 3,000 | 8 | 67 % |"])
        self.assertIn("Without any side job the p99 is 80 us.", text)
        self.assertIn("* `scx_lavd`: no scx_lavd: 'make rivals' builds it", text)

    def test_files(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            written = ways.write(found(), APPS, Path(directory))
            self.assertEqual([path.name for path in written], ["apps.md", "apps-redis+cc-50-zen-ways.svg"])
            drawing = written[1].read_text(encoding="utf-8")
            for name in ("none", "idle", "caches", "headroom20", "p99 alone"):
                self.assertIn(f">{name}<", drawing)
            self.assertEqual(written[1].read_bytes(), ways.write(found(), APPS, Path(directory))[1].read_bytes())

    def test_alone(self) -> None:
        one = fake.results({"none": {100: 50}, "llc": {100: 40}}, "redis", of=APPS, metric="p99")
        one.rows += fake.results({"none": {100: 900}, "llc": {100: 1000}}, "redis", of=APPS, metric="rps").rows
        view = TopologyView(one, APPS, "zen")
        self.assertIn("The most requests a second were done with `llc`, 1,000.",
                      ways.advice(ways.ways_of(view, "redis", 100)))
        self.assertEqual(ways.page(one, APPS)[1], {})


if __name__ == "__main__":
    unittest.main()
