# SPDX-License-Identifier: GPL-2.0-only
"""The pages of bench/results/, rendered from the committed results. No figure on them is typed by hand.

README.md has the goals, and for each file and machine a table and a picture; SUITE.md has every table of a suite.
"""

from __future__ import annotations

import string
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import picture
import table
from common import Fail
from provenance import short
from results import Results, Row, TopologyView, gain, row_of, with_oracle
from suite import HINT, ORACLE, OURS, PROFILE, SEED, TODAY, Figure, Suite, load_suite

# Suites in the order of the page, and what each is about.
SUITES = {"hint": "cpu.hint", "numa": "cpu.hint between nodes", "gang": "cpu.gang", "headroom": "cpu.headroom",
          "overhead": "instructions added"}
# The picture on the front page: of the first of these benchmarks that was measured on a machine.
FRONT = {"hint": ("schbench",), "numa": ("stream",), "gang": ("barrier", "barrier-hogs"),
         "headroom": ("requests", "step"), "overhead": ("wakeup-llc",)}
# With fewer samples nobody can tell whether one of them decides.
FEWEST = 3
# Metrics that tables leave out, as they are wide, and that a user sees all the same.
SEEN = ("request_p99",)
# What no user sees, or sees in another metric of the same benchmark; it is on the suite's page.
NOT_IN_FRONT = ("ipc", "p50", "switches", "copy", "scale", "add", "lock/late_p99", "pipeline/late_p99", "vcpu/late_p99")
# Benchmarks that the table of goals judges, and that add nothing to others of their kind here.
FOR_A_GOAL = ("share", "barrier-waits", "tree", "wakeup-free", "wakeup-apart", "wakeup-one", "fork-one",
              "interleave", "together")
UNCERTAIN = "?"
NOT_MEASURED = "–"


@dataclass(frozen=True)
class Part:
    """Everything that was measured with one suite, of one mechanism: the results of several runs, put together."""

    suite: Suite
    results: Results
    runs: Mapping[str, Results]

    @property
    def topologies(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.results.environment["topologies"]
        return found

    def view(self, topology: str, leave_out: int | None = None) -> TopologyView:
        """The results of a machine; without the sample of this number, if it is said."""
        if leave_out is None:
            return TopologyView(self.results, self.suite, topology)
        return TopologyView(Results(self.suite.name, self.results.environment, without(
            self.results.rows, leave_out, self.suite), expected=self.results.expected), self.suite, topology)

    def of(self, topology: str) -> dict[str, Results]:
        """The runs on a machine."""
        return {name: run for name, run in self.runs.items() if topology in run.environment["topologies"]}

    def samples(self, topology: str) -> list[int]:
        return sorted({run.environment["samples"] for run in self.of(topology).values()})


def without(rows: Iterable[Row], number: int, suite: Suite) -> list[Row]:
    """The rows less one sample each, where that leaves any."""
    kept = []
    for row in rows:
        if row.config != ORACLE:
            samples = [value for place, value in enumerate(row.samples) if place != number % len(row.samples)]
            kept.append(row_of(row.key, row.unit, row.better, samples, row.source) if samples else row)
    return with_oracle(kept, suite)


def check_one_mechanism(results: Mapping[str, Results]) -> None:
    """A page of figures by different kernels would compare what cannot be compared."""
    found: dict[str, str] = {}
    for name, run in results.items():
        found.setdefault(run.environment.get("mechanism", ""), name)
    if len(found) > 1:
        raise Fail("results of different mechanisms (kernel/, include/, hooks/) cannot be on one page: "
                   + ", ".join(f"{name} has {short(code) or 'none recorded'}" for code, name in found.items()))


def parts_of(results: Mapping[str, Results]) -> list[Part]:
    """By suite, in the order of the page."""
    check_one_mechanism(results)
    parts = []
    for suite_name in dict.fromkeys((*SUITES, *(run.suite for run in results.values()))):
        runs = {name: run for name, run in results.items() if run.suite == suite_name}
        if not runs:
            continue
        suite = load_suite(suite_name)
        rows: dict[tuple[Any, ...], Row] = {}
        topologies: dict[str, Any] = {}
        for name, run in runs.items():
            topologies |= run.environment["topologies"]
            for row in run.rows:
                if row.key in rows:
                    raise Fail(f"{name}: {row.key} was measured by another item of the plan, too")
                rows[row.key] = row
        first = next(iter(runs.values()))
        whole = Results(suite_name, {**first.environment, "topologies": topologies}, list(rows.values()),
                        [failure for run in runs.values() for failure in run.failures],
                        expected=[entry for run in runs.values() for entry in run.expected],
                        complete=all(run.complete for run in runs.values()),
                        skipped=[entry for run in runs.values() for entry in run.skipped])
        parts.append(Part(suite, whole, runs))
    return parts


def machine_of(topology: str) -> str:
    """A machine without its slow motion."""
    return topology.partition("@")[0]


def verdict_cell(part: Part, figure: Figure, topology: str) -> str:
    """Whether a goal is reached, and the figure; with a mark where one sample less would change the answer."""
    description = part.topologies[topology]
    if figure.split_only and not description.get("split"):
        return NOT_MEASURED
    verdict = figure.judge(part.view(topology), description)
    if verdict.reached is None:
        return NOT_MEASURED if verdict.number == "not measured" else verdict.number
    count = max(part.samples(topology))
    others = [figure.judge(part.view(topology, number), description).reached for number in range(count)]
    mark = UNCERTAIN if count < FEWEST or any(other != verdict.reached for other in others) else ""
    return f"{'yes' if verdict.reached else '**no**'}{mark}, {verdict.number}"


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(line)} |" for line in lines)]


def goals(parts: Sequence[Part]) -> list[str]:
    """The table of goals: a row for each, a column for each machine."""
    machines = list(dict.fromkeys(machine_of(topology) for part in parts for topology in part.topologies))
    lines = []
    for part in parts:
        for figure in part.suite.figures:
            if not figure.goal:
                continue
            cells: dict[str, list[str]] = {}
            for topology in part.topologies:
                cell = verdict_cell(part, figure, topology)
                if cell != NOT_MEASURED:
                    cells.setdefault(machine_of(topology), []).append(cell)
            if cells:
                lines.append([SUITES.get(part.suite.name, part.suite.title), figure.what, figure.goal,
                              *("; ".join(cells.get(machine, [NOT_MEASURED])) for machine in machines)])
    return markdown(["file", "goal", "wanted", *machines], lines) if lines else ["Nothing was measured yet."]


def span(values: Sequence[float], unit: str = "", sign: str = "+") -> str:
    """The least and the most of some values."""
    low, high = min(values), max(values)
    text = f"{low:{sign}.0f}" if round(low) == round(high) else f"{low:{sign}.0f} … {high:{sign}.0f}"
    return f"{text.replace('+0', '0').replace('-0', '0')}{unit}"


def spread_of(row: Row) -> float:
    """Between the least and the most sample, in percent of the median."""
    return (max(row.samples) - min(row.samples)) / abs(row.median) * 100 if row.median else 0.0


def alone(suite: Suite, config: str) -> bool:
    """Does this configuration run a service without what is beside it in all others? Then it is no rival of theirs."""
    return config != ORACLE and "alone" in suite.configuration(config).variables


def summary_row(view: TopologyView, bench: str, metric_name: str) -> list[str] | None:
    """One metric of a benchmark over all its loads: what the best and the worst of ours is, what else there is."""
    suite, metric = view.suite, view.suite.bench(bench).metric(metric_name)
    kinds = {c.name: c.kind for c in suite.configurations} | {ORACLE: ORACLE}
    best: dict[str, list[float]] = {}
    worst: list[tuple[float, str, int]] = []
    bases, spreads = [], []
    for load in view.loads(bench):
        base = view.row(bench, suite.baseline.name, load, metric_name)
        if not base:
            continue
        bases.append(base.median)
        here: dict[str, list[tuple[float, str]]] = {}
        for (_, _, config, at, name), row in view.rows.items():
            if (at, name) != (load, metric_name) or not view.row(bench, config, load, metric_name) is row:
                continue
            spreads.append(spread_of(row))
            percent = gain(row.median, base.median, row.better)
            if config != suite.baseline.name and percent is not None and not alone(suite, config):
                here.setdefault(kinds[config], []).append((percent, config))
        ours = [entry for kind in (HINT, OURS) for entry in here.get(kind, [])]
        if ours:
            best.setdefault("ours", []).append(max(ours)[0])
            worst.append((*min(ours), load))
        for name, kind in (("profile", PROFILE), ("today", TODAY), ("today", ORACLE), ("seed", SEED)):
            if here.get(kind):
                best.setdefault(name, []).append(max(here[kind])[0])
    if not best or not bases:
        return None
    loads = view.loads(bench)
    amount = str(loads[0]) if len(loads) == 1 else f"{loads[0]} … {loads[-1]}"
    figures = [f"{value:,.0f}" if value >= 1000 else table.number(value) for value in (min(bases), max(bases))]
    low = min(worst, default=None)
    return [f"{bench}, {metric.title}", f"{suite.bench(bench).load} {amount}",
            f"{' … '.join(dict.fromkeys(figures))} {metric.unit}",
            span(best["ours"], " %") if "ours" in best else NOT_MEASURED,
            f"{span([low[0]], ' %')} ({low[1]}, {low[2]})" if low else NOT_MEASURED,
            *(span(best[name], " %") if name in best else NOT_MEASURED for name in ("profile", "today", "seed")),
            f"{max(spreads):.0f} %"]


def summary(view: TopologyView) -> list[str]:
    """The table of a file and a machine: a row for each metric that a user sees."""
    baseline = view.suite.baseline.name
    rows = []
    for bench in (bench for bench in view.benches() if bench not in FOR_A_GOAL):
        for name in view.metrics(bench):
            metric = view.suite.bench(bench).metric(name)
            seen = metric.shown or name in SEEN
            if not metric.compared or not seen or {name, f"{bench}/{name}"} & set(NOT_IN_FRONT):
                continue
            if row := summary_row(view, bench, name):
                rows.append(row)
    header = ["metric", "load", baseline, "best of ours", "worst of ours", "best profile", "best without us",
              "ancestor", "spread"]
    # A column of which nothing was measured says nothing.
    used = [place for place in range(len(header)) if any(row[place] != NOT_MEASURED for row in rows)]
    return markdown([header[place] for place in used], ([row[place] for place in used] for row in rows))


def code_of(results: Mapping[str, Results]) -> str:
    """Which code was measured."""
    revisions = dict.fromkeys(short(run.environment.get("revision", "")) for run in results.values())
    mechanisms = dict.fromkeys(short(run.environment.get("mechanism", "")) for run in results.values())
    return (f"revision {', '.join(filter(None, revisions)) or 'unknown'} "
            f"(mechanism {', '.join(filter(None, mechanisms)) or 'unknown'})")


def runs_line(part: Part, topology: str) -> str:
    """What made the figures of a machine, and how long it took."""
    runs = part.of(topology)
    minutes = sum(run.environment.get("duration_s", 0) for run in runs.values()) / 60
    failed = sum(len(run.failures) for run in runs.values())
    many = " or ".join(map(str, part.samples(topology)))
    return (f"Medians of {many} {'sample' if many == '1' else 'samples'}, {code_of(runs)}, kernel "
            f"{', '.join(dict.fromkeys(run.environment['kernel'] for run in runs.values()))}, {minutes:.0f} minutes"
            + (f"; **{failed} runs failed**" if failed else "") + ".")


def commands(part: Part, topology: str) -> list[str]:
    """The commands behind a table, to be typed as they are."""
    lines = []
    for run in part.of(topology).values():
        wrapped = textwrap.wrap(run.environment["command"], 110, break_long_words=False, break_on_hyphens=False)
        lines += ["    " + " \\\n        ".join(wrapped)]
    return lines


def front_picture(part: Part, topology: str, drawn: Iterable[str]) -> str:
    """The picture of a file and machine, if there is one."""
    names = set(drawn)
    for bench in (*FRONT.get(part.suite.name, ()), *part.view(topology).benches()):
        if (name := f"{part.suite.name}-{bench}-{topology}.svg") in names:
            return f"![{part.suite.bench(bench).title} on {topology}]({name})"
    return ""


def section(part: Part, drawn: Iterable[str]) -> list[str]:
    """What the front page has of a suite."""
    name = part.suite.name
    lines = [f"## {SUITES.get(name, part.suite.title)}: [what is measured](../{Path(part.suite.page).name}), "
             f"[every table]({name}.md)", ""]
    names = list(drawn)
    for topology in part.topologies:
        shown = front_picture(part, topology, names)
        lines += [f"**On {topology}.** {runs_line(part, topology)}", *filter(None, [shown]), "",
                  *summary(part.view(topology)), ""]
    return lines


def suite_page(part: Part, drawn: Iterable[str]) -> str:
    """Every table of a suite, and every picture."""
    names = list(drawn)
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-only -->", "<!-- Written by 'make results'. -->",
             f"# Suite {part.suite.name}: every table", "",
             f"[Summary](README.md). What is measured, and how to read it: [{Path(part.suite.page).name}]"
             f"(../{Path(part.suite.page).name}). Each table has the baseline, then value and percent of each "
             "configuration; positive percentages are better.", ""]
    for topology, description in part.topologies.items():
        view = part.view(topology)
        lines += [f"## {topology}", "", runs_line(part, topology), "", *commands(part, topology), ""]
        for bench in view.benches():
            if (name := f"{part.suite.name}-{bench}-{topology}.svg") in names:
                lines += [f"![{part.suite.bench(bench).title} on {topology}]({name})", ""]
            for metric_name in view.metrics(bench):
                metric = part.suite.bench(bench).metric(metric_name)
                if metric.shown or metric_name in SEEN:
                    title, *body = table.metric_tables(view, bench, metric)
                    lines += [f"### {title}", "", *fenced(body)]
        for block in (table.oracle_table(view), table.figure_lines(view, dict(description))):
            if block:
                lines += [f"### {block[0]}", "", *fenced(block[1:])]
    if part.results.failures:
        lines += ["## Runs that failed", "",
                  *(f"- {f.bench}/{f.load} {f.config} on {f.topology}, sample {f.sample + 1}: {f.reason}"
                    for f in part.results.failures), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def fenced(body: Sequence[str]) -> list[str]:
    return ["```text", *"\n".join(line.rstrip() for line in body).strip("\n").split("\n"), "```", ""]


def measured_line(results: Mapping[str, Results], commands_of: Mapping[str, str]) -> str:
    """How much of the plan the page rests on."""
    if not results:
        return f"None of the {len(commands_of)} items of the plan was measured yet."
    dates = sorted(run.environment["date"][:10] for run in results.values())
    there = sum(name in results for name in commands_of)
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    text = (f"{there} of the {len(commands_of)} items of the plan were measured, {days}, "
            f"by {code_of(results)}.")
    if there < len(commands_of):
        text += f" Not measured yet: {', '.join(name for name in commands_of if name not in results)}."
    return text


def pictures(parts: Sequence[Part]) -> dict[str, bytes]:
    found = {}
    for part in parts:
        for topology in part.topologies:
            view = part.view(topology)
            for bench in view.benches():
                if composed := picture.compose(view, bench):
                    found[f"{composed.name}.svg"] = picture.draw(composed)
    return found


def texts(results: Mapping[str, Results], commands_of: Mapping[str, str], template: Path,
          drawn: Iterable[str]) -> dict[str, bytes]:
    """The pages; `drawn` are the names of the pictures that there are."""
    parts, names = parts_of(results), list(drawn)
    front = string.Template(template.read_text(encoding="utf-8")).substitute(
        measured="\n".join(textwrap.wrap(measured_line(results, commands_of), 118, break_on_hyphens=False)),
        goals="\n".join(goals(parts)), sections="\n".join(line for part in parts for line in section(part, names)))
    pages = {"README.md": front.rstrip("\n") + "\n"}
    pages |= {f"{part.suite.name}.md": suite_page(part, names) for part in parts}
    return {name: text.encode() for name, text in pages.items()}


def files(results: Mapping[str, Results], commands_of: Mapping[str, str], template: Path) -> dict[str, bytes]:
    """Every generated file of bench/results/, by name."""
    drawn = pictures(parts_of(results))
    return texts(results, commands_of, template, drawn) | drawn
