#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The page of the suite apps: for each service a table of all ways, a picture, and when to take which.

    python3 bench/ways.py build/bench/apps.json

writes apps.md, and a picture for each service beside its side job, to the same directory; `make bench SUITE=apps` does so
at its end. Every figure and every sentence comes from the results: nothing on the page is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for directory in (ROOT / "scripts", ROOT / "bench"):
    if str(directory) not in sys.path:
        sys.path.append(str(directory))

import picture  # noqa: E402
from common import replace_file, run_main  # noqa: E402
from results import Results, TopologyView, read_results  # noqa: E402
from suite import BASELINE, OURS, PINNED, TODAY, Suite, load_suite  # noqa: E402

ALONE = "alone"
GROUPS = {BASELINE: ("#000000", "o", "nothing set"), TODAY: ("#e69f00", "s", "what there is today"),
          PINNED: ("#009e73", "D", "CPUs of one's own"), OURS: ("#0072b2", "^", "ours")}
# Ways whose p99 differ by less than this, in percent, are taken to be the same: one more sample may turn them round.
SAME_PERCENT = 10.0
# The part of the side work of one of ours that a rival has to let the side job do, to be compared with it.
LIKE_OURS = 0.95


@dataclass(frozen=True)
class Way:
    """One configuration's result: latency in us, requests a second, and the side job's work, where there is one."""

    name: str
    kind: str
    p99: float
    rps: float
    side: float | None


def ways_of(view: TopologyView, bench: str, load: int) -> list[Way]:
    """All that were measured, by their p99, the least first."""
    found = []
    for configuration in view.suite.configurations:
        p99, rps, side = (view.value(bench, configuration.name, load, name) if name in view.metrics(bench) else None
                          for name in ("p99", "rps", "side"))
        if p99 is not None and rps is not None:
            found.append(Way(configuration.name, configuration.kind, p99, rps, side))
    return sorted(found, key=lambda way: (way.p99, way.name))


def front(ways: Sequence[Way]) -> list[Way]:
    """Those that no other one beats in both p99 and side work, the least p99 first."""
    best: list[Way] = []
    for way in sorted((way for way in ways if way.side is not None), key=lambda way: (way.p99, -(way.side or 0.0))):
        if not best or (way.side or 0.0) > (best[-1].side or 0.0):
            best.append(way)
    return best


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def percent(value: float, base: float) -> str:
    return f"{100 * value / base:.0f} %" if base else "–"


def table(ways: Sequence[Way]) -> list[str]:
    """Side work in percent of the most that any way gave it."""
    most = max((way.side or 0.0 for way in ways), default=0.0)
    beside = any(way.side is not None for way in ways)
    head = ["way", "p99, us", "requests a second", *(["side work", "of the most"] if beside else [])]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for way in ways:
        side = [] if not beside else ["–", "–"] if way.side is None else [number(way.side), percent(way.side, most)]
        name = f"**{way.name}**" if way.kind == OURS else way.name
        lines.append(f"| {' | '.join([name, number(way.p99), number(way.rps), *side])} |")
    return lines


def described(way: Way, most: float) -> str:
    return f"`{way.name}` (p99 {number(way.p99)} us, {percent(way.side or 0.0, most)} of the side work)"


def advice(ways: Sequence[Way]) -> str:
    """When to take which: the least latency, the most side work, what is between them, and which of both are ours."""
    with_side = [way for way in ways if way.side is not None]
    if len(with_side) < 2:
        best = min(ways, key=lambda way: -way.rps)
        return f"The most requests a second were done with `{best.name}`, {number(best.rps)}."
    most = max(way.side or 0.0 for way in with_side)
    choice = front(with_side)
    text = [f"If only the service's latency counts, take {described(choice[0], most)}."]
    if len(choice) > 1:
        text.append(f"If the side job's work counts more, take {described(choice[-1], most)}.")
    between = choice[1:-1]
    if between:
        text.append(f"Between them are, in the order of latency: {', '.join(described(way, most) for way in between)}.")
    mine = [way for way in choice if way.kind == OURS]
    if not mine:
        text.append("None of ours is the best choice here: each of them is beaten in both by another way.")
    for way in mine:
        rivals = [other for other in with_side if other.kind != OURS
                  and (other.side or 0.0) >= LIKE_OURS * (way.side or 0.0)]
        if not rivals:
            continue
        rival = min(rivals, key=lambda other: other.p99)
        gain = 100 * (1 - way.p99 / rival.p99)
        same = f", which is no difference of weight (less than {SAME_PERCENT:g} %)" if abs(gain) < SAME_PERCENT else ""
        text.append(f"Of what lets the side job do as much as `{way.name}`, the best is `{rival.name}`: "
                    f"ours has a p99 that is {abs(gain):.0f} % {'lower' if gain >= 0 else 'higher'}{same}.")
    if alone := next((way for way in ways if way.name == ALONE), None):
        text.append(f"Without any side job the p99 is {number(alone.p99)} us.")
    return " ".join(text)


def draw(name: str, title: str, ways: Sequence[Way]) -> bytes:
    """p99 against side work, a dot for each way: up and left is better."""
    matplotlib, figure_module = picture.matplotlib_modules()
    shown = [way for way in ways if way.side is not None]
    with picture.style(matplotlib, name):
        figure = figure_module.Figure(figsize=(6.4, 4.2), layout="constrained")
        # Below it, room for the legend
        figure.get_layout_engine().set(rect=(0, 0.07, 1, 0.93))
        figure.suptitle(f"{title}: up and left is better", fontsize=10.5)
        axis = figure.subplots()
        for kind, (colour, marker, label) in GROUPS.items():
            of_kind = [way for way in shown if way.kind == kind]
            if of_kind:
                axis.scatter([way.p99 for way in of_kind], [way.side for way in of_kind], color=colour, marker=marker,
                             label=label, s=24, zorder=3)
            for way in of_kind:
                axis.annotate(way.name, (way.p99, way.side), xytext=(4, 3), textcoords="offset points", fontsize=7)
        if alone := next((way for way in ways if way.name == ALONE), None):
            axis.axvline(alone.p99, color=picture.GREY, linewidth=1.0, linestyle=(0, (5, 2)), label="p99 alone")
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: f"{x:,.10g}"))
        axis.set_xlabel("99th percentile of latency, us")
        axis.set_ylabel("work of the side job, 1/s")
        axis.grid(True, color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.margins(x=0.15, y=0.12)
        figure.legend(loc="lower center", ncol=len(GROUPS) + 1, frameon=False, fontsize=8)
        return picture.svg_of(figure)


def page(results: Results, suite: Suite) -> tuple[str, dict[str, bytes]]:
    """The page, and its pictures by name of file."""
    header = results.environment
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-only -->", f"# {suite.title}", "",
             f"Measured with `{header['command']}`, kernel {header['kernel']}, samples of each case: {header['samples']}.",
             f"What is run, and what the ways are: `{suite.page}`. Ways in bold are this project's. Compare within a table "
             "only.", ""]
    pictures: dict[str, bytes] = {}
    for topology in header["topologies"]:
        view = TopologyView(results, suite, topology)
        for bench in view.benches():
            for load in view.loads(bench):
                ways = ways_of(view, bench, load)
                if not ways:
                    continue
                title = f"{suite.bench(bench).title} at {load} % of its saturation, {topology}"
                lines += [f"## {title[0].upper()}{title[1:]}", "", *table(ways), "", advice(ways), ""]
                if sum(way.side is not None for way in ways) > 1:
                    name = f"{suite.name}-{bench}-{load}-{topology}-ways.svg"
                    pictures[name] = draw(name, title, ways)
                    lines += [f"![p99 against side work]({name})", ""]
    skipped = sorted({f"`{entry['config']}`: {entry['reason']}" for entry in results.skipped})
    if skipped:
        lines += ["## Not measured", "", *(f"* {line}" for line in skipped), ""]
    return "\n".join(lines), pictures


def write(results: Results, suite: Suite, directory: Path) -> list[Path]:
    """Write page and pictures; returns their files."""
    text, pictures = page(results, suite)
    files = {f"{suite.name}.md": text.encode(), **pictures}
    for name, content in files.items():
        replace_file(directory / name, content)
    return [directory / name for name in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to write; default: beside the results")
    parser.add_argument("file", type=Path, help="results of the suite apps")
    arguments = parser.parse_args()
    results = read_results(arguments.file)
    for path in write(results, load_suite(results.suite), arguments.out or arguments.file.parent):
        print(path)


if __name__ == "__main__":
    run_main(main)
