# SPDX-License-Identifier: GPL-2.0-only
"""Pictures: the choice of axis and lines, and the same bytes from the same results."""

import importlib.util
import re
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import fake
import picture
import results
import suite
from common import Fail
from fake import SMALL
from results import TopologyView

GENTLE = {"none": {1: 10.0, 2: 20.0}, "fork_spread": {1: 9.0, 2: 21.0}, "both": {1: 8.0, 2: 20.0},
          "background": {1: 12.0, 2: 24.0}, "llc": {1: 8.0, 2: 40.0}}
COLLAPSE = {"none": {1: 10.0, 2: 20.0}, "both": {1: 8.0, 2: 1000.0}}


def compose(medians: dict[str, dict[int, float]]) -> picture.Picture:
    found = picture.compose(TopologyView(fake.results(medians), SMALL, "zen"), "hackbench")
    assert found
    return found


class Choices(unittest.TestCase):
    def test_percent_where_it_can_be_read(self) -> None:
        found = compose(GENTLE)
        self.assertTrue(found.percent)
        self.assertFalse(found.logarithmic)
        self.assertEqual(found.y_label, "time, % better than none")
        self.assertEqual([panel.title for panel in found.panels], ["hints", "profiles"])
        self.assertEqual([line.name for line in found.panels[0].lines], ["none", "fork_spread", "both", "oracle"])
        self.assertEqual([line.name for line in found.panels[1].lines], ["none", "background", "oracle"])
        self.assertEqual(found.panels[0].lines[0].points, ((1, 0.0), (2, 0.0)))

    def test_values_where_one_collapses(self) -> None:
        found = compose(COLLAPSE)
        self.assertFalse(found.percent)
        self.assertTrue(found.logarithmic)
        self.assertEqual(found.y_label, "time (s)")
        self.assertIn("lower is better", found.title)
        self.assertEqual([panel.title for panel in found.panels], ["hints"])

    def test_values_without_baseline(self) -> None:
        found = compose({"both": {1: 10.0, 2: 12.0}})
        self.assertFalse(found.percent)
        self.assertFalse(found.logarithmic)

    def test_baseline_stands_out(self) -> None:
        lines = {line.name: line.style for line in compose(GENTLE).panels[0].lines}
        self.assertGreater(lines["none"]["linewidth"], 1.5 * lines["both"]["linewidth"])
        self.assertNotEqual(lines["fork_spread"]["color"], lines["both"]["color"])
        self.assertNotEqual(lines["fork_spread"]["marker"], lines["both"]["marker"])

    def test_bars_where_there_is_one_load(self) -> None:
        """Values, in the order of the suite; a picture of the baseline alone would say nothing."""
        found = compose({name: {1: values[1]} for name, values in GENTLE.items()})
        self.assertTrue(found.bars and not found.percent)
        panel, = found.panels
        self.assertEqual([(line.name, line.points[0][1], line.style["kind"]) for line in panel.lines],
                         [("none", 10.0, suite.BASELINE), ("fork_spread", 9.0, suite.HINT), ("both", 8.0, suite.HINT),
                          ("background", 12.0, suite.PROFILE), ("oracle", 8.0, suite.ORACLE)])
        self.assertIn("lower is better", found.title)
        self.assertIsNone(picture.compose(TopologyView(fake.results({"none": {1: 10.0}}), SMALL, "zen"), "hackbench"))

    def test_spread(self) -> None:
        """How far the samples reach, in what is drawn: percent of the baseline's median, or values."""
        def spread(medians: dict[str, dict[int, float]]) -> picture.Picture:
            found = fake.results(medians, samples=3)
            found.rows = [results.row_of(row.key, row.unit, row.better, [row.median * part for part in (0.9, 1, 1.2)])
                          for row in found.rows]
            composed = picture.compose(TopologyView(found, SMALL, "zen"), "hackbench")
            assert composed
            return composed
        found = spread(GENTLE)
        none, fork_spread, *_ = found.panels[0].lines
        self.assertEqual([round(end) for end in none.ranges[0]], [-20, 10], "less time is better")
        places, ends = fork_spread.spread([0, 1])
        self.assertEqual([place for place in places if place == place], [0, 0, 1, 1])
        self.assertEqual([round(end) for end in ends if end == end], [-8, 19, -26, 5])
        self.assertIn("least and most of 3 samples", found.note)
        self.assertEqual(spread(COLLAPSE).panels[0].lines[1].ranges[1], (900.0, 1200.0))
        self.assertEqual(compose(GENTLE).panels[0].lines[0].spread([0, 1]), ([], []))
        self.assertEqual(compose(GENTLE).note, "")

    def test_each_kind_has_a_bar(self) -> None:
        drawn = {kind for _, shown, _ in picture.PANELS for kind in shown}
        self.assertEqual(drawn, set(picture.BARS))

    def test_enough_colours(self) -> None:
        hint = suite.load_suite("hint")
        for kind in (suite.HINT, suite.PROFILE):
            self.assertLessEqual(sum(c.kind == kind for c in hint.configurations), len(picture.COLOURS))

    def test_nothing_to_draw(self) -> None:
        self.assertIsNone(picture.compose(TopologyView(fake.results({"none": {1: 1.0}}), SMALL, "zen"), "hackbench"))

    def test_no_matplotlib(self) -> None:
        with mock.patch("importlib.import_module", side_effect=ImportError("none here")):
            self.assertRaisesRegex(Fail, "apt-get install .* python3-matplotlib", picture.draw, compose(GENTLE))


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not installed")
class Files(unittest.TestCase):
    def test_file(self) -> None:
        first, second = picture.draw(compose(GENTLE)), picture.draw(compose(GENTLE))
        self.assertEqual(first, second)
        text = first.decode()
        self.assertEqual(text.splitlines()[1], "<!-- SPDX-License-Identifier: GPL-2.0-only -->")
        root = ElementTree.fromstring(text)
        words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({"none", "both", "oracle", "zen: hackbench", "hints", "profiles"}, words)
        self.assertNotIn("<dc:date>", text)
        self.assertNotRegex(text, r"(?m) $")

    def test_light_and_dark(self) -> None:
        """A dark page's viewer gets light text, and each colour that changes is one that is used."""
        text = picture.draw(compose(GENTLE)).decode()
        style, = [line for line in text.splitlines() if "prefers-color-scheme: dark" in line]
        self.assertLess(text.index("<svg"), text.index(style))
        drawn = text.replace(style, "")
        for light, dark in picture.DARK.items():
            self.assertIn(f": {light}", drawn, light)
            self.assertIn(dark, style)

    def test_bars(self) -> None:
        drawn = compose({name: {1: values[1]} for name, values in GENTLE.items()})
        text = picture.draw(drawn).decode()
        self.assertEqual(text, picture.draw(drawn).decode())
        root = ElementTree.fromstring(text)
        words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({"none", "both", "oracle", "12", "baseline", "profiles"}, words)

    def test_logarithmic(self) -> None:
        text = picture.draw(compose(COLLAPSE)).decode()
        self.assertTrue(re.search(r">1,?000<", text))

    def test_largest(self) -> None:
        """As many lines and loads as a run of any suite has."""
        hint = suite.load_suite("hint")
        loads = hint.bench("schbench").loads(suite.FULL)
        medians = {c.name: {load: 5.0 + load * (place + 1) for load in loads}
                   for place, c in enumerate(c for c in hint.configurations if not c.asked)}
        with tempfile.TemporaryDirectory() as directory:
            found = fake.results(medians, bench="schbench", of=hint)
            found.rows = [results.row_of(row.key, row.unit, row.better, [row.median * part for part in (0.9, 1, 1.2)])
                          for row in found.rows]
            path, = picture.write_all(found, hint, Path(directory))
            self.assertEqual(path.name, "hint-schbench-zen.svg")
            self.assertLess(path.stat().st_size, picture.LIMIT)


if __name__ == "__main__":
    unittest.main()
