#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A picture for each benchmark and topology of a results file: build/bench/SUITE-BENCHMARK-TOPOLOGY.svg.

Percent against the baseline, where that can be read; where a collapse dwarfs everything else, the values themselves on
a logarithmic axis. Of a benchmark with one load, a bar for each configuration. The files are the same, byte by
byte, for the same results.
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from common import Fail, replace_file, run_main  # noqa: E402
from results import Results, TopologyView, gain, read_results  # noqa: E402
from suite import (BASELINE, HINT, ORACLE, OURS, PROFILE, SEED, TODAY, Metric, Suite,  # noqa: E402
                   load_suite)

# What is dark on a light page is light on a dark one. The colours of lines and bars are seen on both.
DARK = {"#000000": "#e6edf3", "#ffffff": "#0d1117", "#dddddd": "#30363d"}
STYLE = "<style>@media (prefers-color-scheme: dark) {" + "".join(
    f' [style*="{what}: {light}"] {{ {what}: {dark} !important }}'
    for light, dark in DARK.items() for what in ("fill", "stroke")) + " text { fill: #e6edf3 } }</style>\n"
SPDX = "<!-- SPDX-License-Identifier: GPL-2.0-only -->\n"
LIMIT = 60 * 1024
# Okabe and Ito's palette, which is told apart with any kind of colour vision, from its darkest on; markers help.
GREY = "#7f7f7f"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
# What each panel shows, and those of its kinds without which there is none.
PANELS = (("hints", (BASELINE, HINT, SEED, ORACLE), (HINT,)), ("profiles", (BASELINE, PROFILE, ORACLE), (PROFILE,)),
          ("today", (BASELINE, TODAY), (TODAY,)), ("ours", (BASELINE, SEED, OURS), (OURS,)))
# What bars are, by their kinds: the colour, and what it is called
BARS = {BASELINE: ("#000000", "baseline"), SEED: ("#7f7f7f", "the ancestor's"), ORACLE: ("#999999", "best pinning"),
        TODAY: ("#e69f00", "today"), HINT: ("#0072b2", "hints"), PROFILE: ("#56b4e9", "profiles"),
        OURS: ("#0072b2", "ours")}
# A loss beyond this makes the percentages of everything else unreadable.
DWARFING_PERCENT = 150.0
# Values whose extremes differ by more get a logarithmic axis.
DWARFING_RATIO = 20.0


@dataclass(frozen=True)
class Line:
    """A configuration in a picture: its points are (load, y), and of each the y of the least and the most sample."""

    name: str
    points: tuple[tuple[int, float], ...]
    style: dict[str, Any]
    ranges: tuple[tuple[float, float], ...] = ()

    def spread(self, places: Sequence[float]) -> tuple[list[float], list[float]]:
        """Thin bars at these places, from the least to the most sample, as one path: (places, values)."""
        gap = float("nan")
        bars = [(place, low, high) for place, (low, high) in zip(places, self.ranges) if high > low]
        return ([x for place, _, _ in bars for x in (place, place, gap)],
                [y for _, low, high in bars for y in (low, high, gap)])


@dataclass(frozen=True)
class Panel:
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Picture:
    """What to draw, as data, so that the choices can be tested without drawing."""

    name: str
    title: str
    x_label: str
    y_label: str
    loads: tuple[int, ...]
    panels: tuple[Panel, ...]
    percent: bool
    logarithmic: bool
    samples: int = 1

    @property
    def note(self) -> str:
        """What is said of the samples, where there is more than one."""
        return f"\nmedians; thin bars: least and most of {self.samples} samples" if self.samples > 1 else ""

    @property
    def bars(self) -> bool:
        """There is one load: nothing to draw a line along."""
        return len(self.loads) == 1


def style_of(kind: str, place: int) -> dict[str, Any]:
    """How a line looks: the baseline heavy and black below the others, what is not ours broken."""
    fixed = {BASELINE: {"color": "#000000", "linewidth": 3.2, "marker": "", "zorder": 1.5},
             ORACLE: {"color": "#000000", "linewidth": 1.3, "linestyle": (0, (1, 1.5)), "marker": "x", "zorder": 4},
             SEED: {"color": "#7f7f7f", "linewidth": 1.6, "linestyle": (0, (5, 2)), "marker": "*", "zorder": 3}}
    return fixed.get(kind) or {"color": COLOURS[place % len(COLOURS)], "linewidth": 1.4,
                               "marker": MARKERS[place % len(MARKERS)], "zorder": 2}


def points_of(view: TopologyView, bench: str, config: str, metric: Metric,
              percent: bool) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[float, float], ...]]:
    """The points of a line, and how far its samples reach."""
    found, ranges = [], []
    for amount in view.loads(bench):
        row = view.row(bench, config, amount, metric.name)
        base = view.row(bench, view.suite.baseline.name, amount, metric.name)
        if not row or (percent and not base):
            continue
        values = [gain(value, base.median, row.better) if percent and base else value
                  for value in (row.median, *row.samples)]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found.append((amount, known[0]))
            ranges.append((min(known), max(known)))
    return tuple(found), tuple(ranges)


Drawn = Mapping[str, tuple[tuple[tuple[int, float], ...], tuple[tuple[float, float], ...]]]


def panels_of(lines: Drawn, kinds: Mapping[str, str], bars: bool) -> tuple[Panel, ...]:
    """A panel of hints and, if there are any, one of profiles, each with the baseline, and so on; one of all bars."""
    if bars:
        return (Panel("", tuple(Line(name, points, {"kind": kinds[name]}, ranges)
                                for name, (points, ranges) in lines.items() if points)),)
    panels = []
    for title, shown, own in PANELS:
        names = [name for name in lines if kinds[name] in shown]
        if coloured := [name for name in names if kinds[name] in own]:
            panels.append(Panel(title, tuple(
                Line(name, lines[name][0], style_of(kinds[name], coloured.index(name) if name in coloured else 0),
                     lines[name][1]) for name in names)))
    return tuple(panels)


def compose(view: TopologyView, bench_name: str) -> Picture | None:
    """The picture of a benchmark."""
    suite, bench = view.suite, view.suite.bench(bench_name)
    metric = bench.metric(view.metrics(bench_name)[0])
    kinds = {c.name: c.kind for c in suite.configurations} | {ORACLE: ORACLE}
    present = [name for name in kinds if any(key[0] == bench_name and key[2] == name for key in view.rows)]
    drawn = [name for name in present if any(kinds[name] in shown for _, shown, _ in PANELS)]
    percents = {name: points_of(view, bench_name, name, metric, True) for name in drawn}
    values = {name: points_of(view, bench_name, name, metric, False) for name in drawn}
    bars = len(view.loads(bench_name)) == 1
    percent = not bars and bool(percents.get(suite.baseline.name, ((), ()))[0]) and not any(
        abs(y) > DWARFING_PERCENT for line, _ in percents.values() for _, y in line)
    chosen = percents if percent else values
    heights = [y for line, _ in chosen.values() for _, y in line]
    if not heights:
        return None
    logarithmic = not percent and min(heights) > 0 and max(heights) / min(heights) > DWARFING_RATIO
    panels = panels_of(chosen, kinds, bars)
    if not panels or set(drawn) <= {suite.baseline.name}:
        return None
    y_label = f"{metric.title}, % better than {suite.baseline.name}" if percent else f"{metric.title} ({metric.unit})"
    hint = "" if percent else f", {metric.better} is better"
    return Picture(f"{suite.name}-{bench_name}-{view.topology}", f"{view.topology}: {bench.title}{hint}", bench.load,
                   y_label, tuple(view.loads(bench_name)), panels, percent, logarithmic,
                   max(len(row.samples) for key, row in view.rows.items() if key[0] == bench_name))


def matplotlib_modules() -> tuple[ModuleType, ModuleType]:
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("svg")
        return matplotlib, importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise Fail(f"pictures need matplotlib ({error}); "
                   "as root: apt-get install --no-install-recommends python3-matplotlib") from error


def style(matplotlib: ModuleType, name: str) -> Any:
    """How everything looks; `name` makes what has to be unique in a file the same each time."""
    return matplotlib.rc_context({
        **matplotlib.rcParamsDefault, "svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"], "font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False,
        "path.simplify": False})


def svg_of(figure: Any) -> bytes:
    """The file, without its time and place; a third of its size are digits that nobody sees, and indentation."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    declaration, newline, rest = stream.getvalue().decode().partition("\n")
    rest = "\n".join(line.strip() for line in re.sub(r"(\d\.\d\d)\d+", r"\1", rest).splitlines())
    # Behind the first element, which is the root's begin.
    rest = re.sub(r"(<svg\b[^>]*>)\n", lambda match: f"{match[1]}\n{STYLE}", rest, count=1)
    return f"{declaration}{newline}{SPDX}{rest}\n".encode()


def draw_bars(picture: Picture) -> bytes:
    """The first configuration on top, each with its value."""
    matplotlib, figure_module = matplotlib_modules()
    panel, = picture.panels
    places = {line.name: place for place, line in enumerate(panel.lines)}
    with style(matplotlib, picture.name):
        height = 1.8 + 0.26 * len(places)
        figure = figure_module.Figure(figsize=(6.4, height), layout="constrained")
        # Below it, room for the legend
        figure.get_layout_engine().set(rect=(0, 0.3 / height, 1, 1 - 0.3 / height))
        figure.suptitle(f"{picture.title}\n{picture.x_label} {picture.loads[0]}", fontsize=10.5)
        axis = figure.subplots()
        for kind, (colour, title) in BARS.items():
            lines = [line for line in panel.lines if line.style["kind"] == kind]
            if lines:
                axis.barh([places[line.name] for line in lines], [line.points[0][1] for line in lines], height=0.7,
                          color=colour, label=title)
            for line in lines:
                value = line.points[0][1]
                heights, widths = line.spread([places[line.name]])
                axis.plot(widths, heights, color=GREY, linewidth=1.0)
                # Behind the thin bar, where both can be read
                axis.annotate(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}",
                              (max(value, line.ranges[0][1]), places[line.name]), xytext=(3, 0),
                              textcoords="offset points", va="center", fontsize=8)
        axis.set_yticks(list(places.values()), list(places))
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.set_xlabel(picture.y_label + picture.note)
        axis.grid(True, axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        if picture.logarithmic:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:,.10g}"))
        figure.legend(loc="lower center", ncol=len(BARS), frameon=False, fontsize=8)
        return svg_of(figure)


def draw(picture: Picture) -> bytes:
    """The SVG file: text stays text, and nothing in it depends on when or where it was made."""
    if picture.bars:
        return draw_bars(picture)
    matplotlib, figure_module = matplotlib_modules()
    with style(matplotlib, picture.name):
        figure = figure_module.Figure(figsize=(4.6 * len(picture.panels), 4.6), layout="constrained")
        figure.suptitle(picture.title, fontsize=10.5)
        axes = figure.subplots(1, len(picture.panels), sharey=True, squeeze=False)[0]
        places = {amount: place for place, amount in enumerate(picture.loads)}
        for panel, axis in zip(picture.panels, axes):
            for number, line in enumerate(panel.lines):
                # Beside each other, so that thin bars do not cover each other
                shift = (number - (len(panel.lines) - 1) / 2) * 0.03
                at = [places[x] + shift for x, _ in line.points]
                axis.plot(at, [y for _, y in line.points], label=line.name, markersize=4, **line.style)
                axis.plot(*line.spread(at), color=line.style["color"], linewidth=0.7)
            # Loads are powers of two: evenly spaced, each with its number.
            axis.set_xticks(range(len(picture.loads)), [str(amount) for amount in picture.loads])
            axis.set_xlim(-0.3, len(picture.loads) - 0.7)
            axis.set_xlabel(picture.x_label + picture.note)
            axis.set_title(panel.title, fontsize=9.5)
            axis.grid(True, axis="y", color="#dddddd", linewidth=0.6)
            axis.set_axisbelow(True)
            if picture.logarithmic:
                axis.set_yscale("log")
                axis.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda y, _: f"{y:,.10g}"))
                axis.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            elif not picture.percent:
                axis.set_ylim(bottom=0)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22 if picture.note else -0.16), ncol=2,
                        frameon=False, fontsize=8)
        axes[0].set_ylabel(picture.y_label)
        return svg_of(figure)


def write_all(results: Results, suite: Suite, directory: Path) -> list[Path]:
    """Draw all pictures of the results, those over time as well; returns their files."""
    written = []

    def write(name: str, content: bytes, limit: int = LIMIT) -> None:
        if len(content) > limit:
            raise Fail(f"{name}.svg would have {len(content)} bytes; {limit} are allowed")
        path = directory / f"{name}.svg"
        replace_file(path, content)
        written.append(path)

    for topology in results.environment["topologies"]:
        view = TopologyView(results, suite, topology)
        for bench in view.benches():
            if not (picture := compose(view, bench)):
                continue
            write(picture.name, draw(picture))
    if results.series:
        timeline = importlib.import_module("timeline")
        for name, content in timeline.draw_all(results, suite):
            write(name, content, timeline.LIMIT)
    return written


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to put the pictures; default: beside the results")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args(argv)
    results = read_results(arguments.file)
    for path in write_all(results, load_suite(results.suite), arguments.out or arguments.file.parent):
        print(path)


if __name__ == "__main__":
    run_main(main)
