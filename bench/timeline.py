# SPDX-License-Identifier: GPL-2.0-only
"""Pictures over time: SUITE-BENCHMARK-LOAD-TOPOLOGY-time.svg (-time-2.svg …), from the series of the first sample of each case.

Of a service with batch work beside it: how much is idle, what the side job uses and may use, and the p99 of requests.
Of gangs: who had which CPU when, as a trace of the scheduler's switches tells it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from picture import COLOURS, matplotlib_modules, style, svg_of
from results import Results
from suite import Suite

# Side by side, and in one picture; more make further pictures.
COLUMNS, PANELS = 3, 6
# Bars of all traces of a picture. Beyond that, a shorter time is shown.
MAX_BARS = 800
# Bytes of a file: there are many panels.
LIMIT = 96 * 1024
GREY = "#b0b0b0"


@dataclass(frozen=True)
class Moving:
    """A picture over time: for each configuration its series. Axes that are compared have the same range."""

    name: str
    title: str
    trace: bool
    panels: tuple[tuple[str, Mapping[str, Any]], ...]
    until: float
    p99: tuple[float, float]


def compose_all(results: Results, suite: Suite, most: int = PANELS) -> list[Moving]:
    """One for each benchmark, load and topology, and `most` configurations; these in the order of the suite."""
    order = {configuration.name: place for place, configuration in enumerate(suite.configurations)}
    cases: dict[tuple[str, int, str], dict[str, Mapping[str, Any]]] = {}
    for entry in sorted(results.series, key=lambda entry: entry.get("sample", 0)):
        place = (entry["bench"], entry["load"], entry["topology"])
        cases.setdefault(place, {}).setdefault(entry["config"], entry)
    found = []
    for (bench, load, topology), configs in cases.items():
        title = f"{topology}: {suite.bench(bench).title}, {suite.bench(bench).load} {load}"
        panels = tuple(sorted(configs.items(), key=lambda item: order.get(item[0], len(order))))
        trace = any("stretches" in series for _, series in panels)
        name = f"{suite.name}-{bench}-{load}-{topology}-time"
        for number, first in enumerate(range(0, len(panels), most), 1):
            found.append(Moving(
                name + (f"-{number}" if number > 1 else ""), title, trace, panels[first:first + most],
                shown_time(panels) if trace else 0, (1, 10) if trace else p99_range(panels)))
    return found


def shown_time(panels: Sequence[tuple[str, Mapping[str, Any]]], most: int = MAX_BARS) -> float:
    """How much of the traces to show, in us: all, or as long as so many bars reach."""
    begins = sorted(stretch[1] for _, series in panels for stretch in series["stretches"])
    ends = [stretch[2] for _, series in panels for stretch in series["stretches"]]
    return float(begins[most] if len(begins) > most else max(ends, default=0))


def draw_trace(axis: Any, series: Mapping[str, Any], until: float) -> None:
    """Rows are CPUs, colours gangs; what is no gang is grey, idle time white. Lines mark the begin of slots.

    All bars of a colour are one path, which makes the file a third as large.
    """
    path = importlib.import_module("matplotlib.path").Path
    patch = importlib.import_module("matplotlib.patches").PathPatch
    corners: dict[str, list[tuple[float, float]]] = {}
    for cpu, begin, end, who in series["stretches"]:
        if begin < until:
            left, right, low, high = begin / 1000, min(end, until) / 1000, cpu - 0.4, cpu + 0.4
            corners.setdefault(GREY if who < 0 else COLOURS[who % len(COLOURS)], []).extend(
                [(left, low), (right, low), (right, high), (left, high), (left, low)])
    codes = [path.MOVETO, path.LINETO, path.LINETO, path.LINETO, path.CLOSEPOLY]
    for colour, points in corners.items():
        axis.add_patch(patch(path(points, codes * (len(points) // 5)), facecolor=colour, linewidth=0))
    nothing = float("nan")
    leads = [lead / 1000 for lead in series["leads_us"] if lead < until]
    axis.plot([x for lead in leads for x in (lead, lead, nothing)],
              [y for _ in leads for y in (-0.6, series["cpus"] - 0.4, nothing)], color="#000000", linewidth=0.5)
    axis.set_ylim(series["cpus"] - 0.4, -0.6)
    axis.set_xlim(0, max(until, 1) / 1000)
    axis.set_xlabel("ms")


def p99_range(panels: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[float, float]:
    """In ms, the same for all panels, with some room."""
    values = [value / 1000 for _, series in panels for value in series["p99_us"] if value]
    return min(values, default=1) / 1.2, max(values, default=10) * 1.2


def draw_loop(machine: Any, latency: Any, series: Mapping[str, Any]) -> None:
    """Above, in percent of the machine, what is idle and what the side job has; below, the p99 of requests."""
    times = series["at_s"]
    machine.plot(times, series["idle"], color=COLOURS[0], linewidth=1.2, label="idle")
    machine.plot(times, series["side"], color=COLOURS[1], linewidth=1.2, label="side job")
    if any(value is not None for value in series["budget"]):
        budget = [float("nan") if value is None else min(value, 105.0) for value in series["budget"]]
        machine.plot(times, budget, color=COLOURS[2], linewidth=1.0, linestyle=(0, (4, 2)), label="budget")
    machine.axhline(series["demand"], color="#000000", linewidth=0.7, linestyle=(0, (1, 1.5)), label="demand")
    machine.set_ylim(0, 105)
    for begin, percent in series["stages"]:
        machine.axvline(begin, color=GREY, linewidth=0.7)
        machine.annotate(f"load {percent:g} %", (begin, 106), fontsize=7, annotation_clip=False)
    ticks = [(place + 0.5) * series["interval_s"] for place in range(len(series["p99_us"]))]
    latency.plot(ticks, [float("nan") if value is None else value / 1000 for value in series["p99_us"]],
                 color=COLOURS[3], linewidth=1.2)
    latency.set_yscale("log")
    latency.yaxis.set_major_locator(importlib.import_module("matplotlib.ticker").LogLocator(subs=(1.0, 2.0, 5.0)))
    latency.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    latency.minorticks_off()
    latency.set_xlabel("s")


def draw(moving: Moving) -> bytes:
    matplotlib, figure_module = matplotlib_modules()
    columns = min(COLUMNS, len(moving.panels))
    rows = -(-len(moving.panels) // columns)
    with style(matplotlib, moving.name):
        height = 2.4 if moving.trace else 3.4
        figure = figure_module.Figure(figsize=(3.6 * columns, height * rows + 0.5), layout="constrained")
        figure.suptitle(moving.title, fontsize=10.5)
        high = 1 if moving.trace else 2
        grid = figure.subplots(high * rows, columns, squeeze=False, sharex=not moving.trace,
                               gridspec_kw=None if moving.trace else {"height_ratios": [2, 1] * rows})
        for place, (name, series) in enumerate(moving.panels):
            row, column = divmod(place, columns)
            axis = grid[high * row][column]
            axis.set_title(name, fontsize=9.5, pad=12 if not moving.trace else None)
            if moving.trace:
                draw_trace(axis, series, moving.until)
                axis.set_ylabel("" if column else "CPU")
                continue
            draw_loop(axis, grid[high * row + 1][column], series)
            grid[high * row + 1][column].set_ylim(*moving.p99)
            if not column:
                axis.set_ylabel("% of the machine")
                grid[high * row + 1][column].set_ylabel("p99, ms")
        for place in range(len(moving.panels), rows * columns):
            for part in range(high):
                grid[high * (place // columns) + part][place % columns].set_visible(False)
        if not moving.trace:
            lines = {line.get_label(): line for axis in grid.flat for line in axis.get_lines()
                     if not line.get_label().startswith("_")}
            grid[0][0].legend(lines.values(), lines.keys(), loc="center right", fontsize=7)
        return svg_of(figure)


def draw_all(results: Results, suite: Suite) -> list[tuple[str, bytes]]:
    """All pictures with their names, of so many configurations each as files of LIMIT bytes have room for."""
    for most in (PANELS, COLUMNS, 1):
        drawn = [(moving.name, draw(moving)) for moving in compose_all(results, suite, most)]
        if all(len(content) <= LIMIT for _, content in drawn):
            break
    return drawn
