# SPDX-License-Identifier: GPL-2.0-only
"""Pictures over time: what is drawn of which case, and the same bytes from the same series."""

import dataclasses
import importlib.util
import re
import unittest
import xml.etree.ElementTree as ElementTree
from typing import Any
from unittest import mock

import context  # noqa: F401
import fake
import timeline
from fake import SMALL
from results import Results

LOOP = {"at_s": [0.05, 0.1], "idle": [20.0, 19.0], "demand": 20, "side": [40.0, 41.0], "budget": [43.75, None],
        "interval_s": 0.05, "p99_us": [5000.0, None], "stages": [[0.0, 40]]}
TRACE = {"cpus": 2, "stretches": [[0, 0, 3000, 0], [1, 0, 1000, 1], [1, 1000, 3000, -2], [0, 3000, 6000, 1]],
         "leads_us": [0, 5000]}


def with_series(series: dict[str, Any], *configs: str, samples: int = 1) -> Results:
    found = fake.results({"none": {1: 10.0}})
    place = {"bench": "hackbench", "topology": "zen", "load": 1}
    return dataclasses.replace(found, series=[{**place, "config": config, "sample": sample, **series}
                                              for sample in range(samples) for config in configs])


class Choices(unittest.TestCase):
    def test_one_picture_for_all_configurations(self) -> None:
        """In the order of the suite, each with its first sample."""
        found = timeline.compose_all(with_series(LOOP, "both", "none", samples=2), SMALL)
        self.assertEqual([moving.name for moving in found], ["small-hackbench-1-zen-time"])
        self.assertEqual([(name, series["sample"]) for name, series in found[0].panels], [("none", 0), ("both", 0)])
        self.assertFalse(found[0].trace)
        self.assertTrue(timeline.compose_all(with_series(TRACE, "none"), SMALL)[0].trace)

    def test_many_configurations_make_several_pictures(self) -> None:
        """All with the same range, so that they compare."""
        first, second = timeline.compose_all(with_series(LOOP, "none", "both"), SMALL, most=1)
        self.assertEqual((first.name, second.name), ("small-hackbench-1-zen-time", "small-hackbench-1-zen-time-2"))
        self.assertEqual(first.p99, second.p99)

    def test_long_series_make_more_pictures(self) -> None:
        """Of three, and of one, until each fits; what does not fit even so is for the caller to tell."""
        results = with_series(LOOP, "none", "both", "fork_spread", "seed1")

        def files(room: int) -> list[str]:
            """As if each panel took a hundred bytes."""
            with mock.patch.object(timeline, "LIMIT", room), \
                    mock.patch.object(timeline, "draw", lambda moving: b"x" * 100 * len(moving.panels)):
                return [name[len("small-hackbench-1-zen-time"):] for name, _ in timeline.draw_all(results, SMALL)]
        self.assertEqual(files(400), [""])
        self.assertEqual(files(399), ["", "-2"])
        self.assertEqual(files(299), ["", "-2", "-3", "-4"])
        self.assertEqual(files(99), ["", "-2", "-3", "-4"])

    def test_nothing_to_draw(self) -> None:
        self.assertEqual(timeline.compose_all(with_series(LOOP), SMALL), [])

    def test_how_much_of_a_trace(self) -> None:
        panels = (("none", TRACE), ("both", TRACE))
        self.assertEqual(timeline.shown_time(panels), 6000)
        self.assertEqual(timeline.shown_time(panels, most=5), 1000)

    def test_range(self) -> None:
        low, high = timeline.p99_range((("none", LOOP), ("both", {**LOOP, "p99_us": [None, 20000.0]})))
        self.assertTrue(low < 5 < 20 < high)
        self.assertEqual(len(timeline.p99_range((("none", {"p99_us": [None]}),))), 2)


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "no matplotlib")
class Drawings(unittest.TestCase):
    def test_files(self) -> None:
        for series in (LOOP, TRACE, {**LOOP, "budget": [], "p99_us": [None, None]}, {**TRACE, "stretches": []}):
            moving, = timeline.compose_all(with_series(series, "none", "both"), SMALL)
            content = timeline.draw(moving)
            self.assertEqual(content, timeline.draw(moving))
            self.assertIn(b"SPDX-License-Identifier", content)
            texts = {element.text for element in ElementTree.fromstring(content).iter()}
            self.assertLessEqual({"none", "both"}, texts)

    def test_colours_are_gangs(self) -> None:
        moving, = timeline.compose_all(with_series(TRACE, "none"), SMALL)
        text = timeline.draw(moving).decode()
        for colour in (timeline.COLOURS[0], timeline.COLOURS[1], timeline.GREY):
            self.assertRegex(text, re.compile(f"fill: {colour}"))


if __name__ == "__main__":
    unittest.main()
