#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Text tables from results: baseline, then value and percent per configuration; positive percentages are better.

    table.py FILE          for the console
    table.py --rst FILE    for the documentation
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from common import Fail, run_main  # noqa: E402
from results import Results, Row, TopologyView, code_of, describe, gain, read_results  # noqa: E402
from suite import HINT, ORACLE, Configuration, Metric, Suite, Verdict, load_suite  # noqa: E402

CAVEAT = ("The lab is a model of a machine, without out-of-order execution or frequency, and with no prefetch but of "
          "sequential streams: compare configurations with each other, not with another machine.")
# Configurations side by side, at most.
COLUMNS = 4


def number(value: float) -> str:
    """Two decimals as in the seed's tables; more where they would be all there is, none where nobody reads them."""
    if abs(value) >= 1e5:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.4g}"


def percentage(value: float, sign: str = "") -> str:
    """Two decimals, and no "-0.00", which would read as a loss."""
    return f"{round(value, 2) + 0.0:{sign}.2f} pct"


def cell(row: Row | None, base: Row | None, *, mark: bool = False, asked: bool = True, skipped: bool = False,
         compared: bool = True) -> str:
    """A value and by how many percent it is better than the baseline; what was not asked for is not missing."""
    if not row:
        return "skipped" if skipped else "missing" if asked and compared else "-"
    if not compared:
        return number(row.median)
    percent = gain(row.median, base.median, row.better) if base else None
    text = "no baseline" if percent is None else percentage(percent)
    return f"{number(row.median)} ({text})" + (f" {row.source}" if mark and row.source else "")


def grid(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell, aligned to the right."""
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths)).rstrip() for line in [header, *lines]]


def blocks(suite: Suite, present: set[str]) -> list[tuple[str, list[Configuration]]]:
    """The tables of a metric: configurations by the block they name, in the order of the suite; the oracle at the end.

    The configurations that the oracle searched are not shown: it says which it picked.
    """
    found: dict[str, list[Configuration]] = {}
    for configuration in suite.configurations:
        if configuration.name in present and configuration.block:
            found.setdefault(configuration.block, []).append(configuration)
    if ORACLE in present:
        found.setdefault("Pinning", []).insert(0, Configuration(ORACLE, ORACLE))
    return list(found.items())


def metric_tables(view: TopologyView, bench_name: str, metric: Metric) -> list[str]:
    """The tables of one metric of one benchmark on one topology."""
    suite, bench = view.suite, view.suite.bench(bench_name)
    loads = view.loads(bench_name)
    asked = {(entry[2], entry[3]) for entry in view.results.expected
             if entry[0] == bench_name and entry[1] == view.topology}
    present = {config for config, _ in asked} | {key[2] for key in view.rows if key[0] == bench_name}
    skipped = {(entry["config"], entry["load"]) for entry in view.results.skipped
               if entry["bench"] == bench_name and entry["topology"] == view.topology}
    baseline = suite.baseline.name
    better = f"{metric.better} is better"
    lines = [f"{bench_name} on {view.topology}: {metric.title} ({metric.unit}, {better})"]
    for title, configurations in blocks(suite, present):
        # Five are three and two, not four and one.
        tables = -(-len(configurations) // COLUMNS)
        width = -(-len(configurations) // tables)
        for first in range(0, len(configurations), width):
            part = configurations[first:first + width]
            rows = []
            for amount in loads:
                base = view.row(bench_name, baseline, amount, metric.name)
                rows.append([f"{amount}:", cell(base, base, compared=metric.compared), *(
                    cell(view.row(bench_name, c.name, amount, metric.name), base, mark=True,
                         asked=(c.name, amount) in asked, skipped=(c.name, amount) in skipped,
                         compared=metric.compared) for c in part)])
            lines += ["", f"{title}" if not first else f"{title}, continued", "",
                      *("  " + line for line in grid([f"#{bench.load}:", baseline, *(c.name for c in part)], rows))]
    return lines + [""]


def oracle_table(view: TopologyView) -> list[str]:
    """Best hint and best pinning side by side, by the first metric of each benchmark."""
    rows = []
    for bench_name in view.benches():
        metric = view.metrics(bench_name)[0]
        for amount in view.loads(bench_name):
            if not (found := view.distance(bench_name, amount, metric)):
                continue
            distance, config, source = found
            base = view.row(bench_name, view.suite.baseline.name, amount, metric)
            hinted, pinned = view.row(bench_name, config, amount, metric), view.row(bench_name, ORACLE, amount, metric)
            rows.append([f"{bench_name}/{amount}", metric, cell(hinted, base), config, cell(pinned, base), source,
                         percentage(distance, "+")])
    if not rows:
        return []
    return [f"Best hint and best pinning on {view.topology}", "",
            *("  " + line for line in grid(["", "metric", "best", "hint", "oracle", "pinning", "distance"], rows)), ""]


def figure_lines(view: TopologyView, description: dict[str, object]) -> list[str]:
    """The figures to reach, each with yes, NO, or a dash where there is nothing to judge, and the number."""
    rows = []
    details = []
    for figure in view.suite.figures:
        if figure.split_only and not description.get("split"):
            continue
        verdict: Verdict = figure.judge(view, description)
        word = {True: "yes", False: "NO", None: "-"}[verdict.reached]
        rows.append([word, figure.what, figure.seed, figure.goal, verdict.number])
        if verdict.detail:
            details.append(f"  {figure.what}: {verdict.detail}")
    if not rows:
        return []
    header = ["", "what", "seed", "goal", "here"]
    widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
    table = ["  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()
             for line in [header, *rows]]
    # Where hints are judged, all figures are percentages; elsewhere each says what it is.
    judged = f", in percent better than {view.suite.baseline.name}" if any(
        c.kind == HINT for c in view.suite.configurations) else ""
    return [f"Figures to reach on {view.topology}{judged}", "", *table, "", *details, ""]


def header_lines(results: Results) -> list[str]:
    environment = results.environment
    many = environment["samples"]
    lines = [f"Suite {results.suite}, kernel {environment['kernel']}, {environment['date']}, "
             f"{'one sample' if many == 1 else f'median of {many} samples'}", f"  {environment['command']}"]
    lines += [f"  {code}"] if (code := code_of(environment)) else []
    if environment["where"] == "lab":
        lines += textwrap.wrap(CAVEAT, 118)
    lines += [f"Continued by FORCE although: {text}" for text in environment["forced"]]
    if not results.complete:
        lines.append("NOT COMPLETE: the run was interrupted.")
    return lines


def sections(results: Results, suite: Suite) -> list[tuple[str, list[str]]]:
    """Everything there is to print: (title, lines)."""
    found = []
    for topology, description in results.environment["topologies"].items():
        view = TopologyView(results, suite, topology)
        for bench_name in view.benches():
            for metric_name in view.metrics(bench_name):
                metric = suite.bench(bench_name).metric(metric_name)
                if metric.shown:
                    title, *lines = metric_tables(view, bench_name, metric)
                    found.append((title, lines))
        for lines in (oracle_table(view), figure_lines(view, description)):
            if lines:
                found.append((lines[0], lines[1:]))
    return found


def console(results: Results, suite: Suite) -> str:
    parts = ["\n".join(header_lines(results)),
             *("\n".join([title, *lines]) for title, lines in sections(results, suite))]
    problems = describe(results)[1:]
    return "\n\n".join(part.rstrip("\n") for part in [*parts, *(["\n".join(problems)] if problems else [])]) + "\n"


def rst(results: Results, suite: Suite) -> str:
    """Literal blocks under a heading each, to be included by a page."""
    lines = [".. SPDX-License-Identifier: GPL-2.0-only", ""]
    for text in header_lines(results):
        lines += ["", f"``{text.strip()}``", ""] if text.startswith("  ") else [text]
    lines.append("")
    for title, body in sections(results, suite):
        lines += [title, "-" * len(title), "", "::", ""]
        lines += [f"    {line}".rstrip() for line in "\n".join(body).strip("\n").split("\n")]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rst", action="store_true", help="for the documentation")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    results = read_results(arguments.file)
    if not results.rows:
        raise Fail(f"{arguments.file} has no rows")
    print((rst if arguments.rst else console)(results, load_suite(results.suite)), end="")


if __name__ == "__main__":
    run_main(main)
