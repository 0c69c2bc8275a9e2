#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The file build/bench/SUITE.json: what was measured, on what, and what is missing.

    results.py FILE                  checks a file, and says what it has and lacks
    results.py --merge OUT FILE...   puts files of one suite, kernel and model together, if no row is in two of them
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from common import Fail, replace_file, run_main  # noqa: E402
from provenance import short  # noqa: E402
from suite import BASELINE, HIGHER, HINT, LOWER, ORACLE, PINNED, PROFILE, Suite, load_suite  # noqa: E402

FORMAT = 1
# What has to be in the header, and of what type.
ENVIRONMENT: dict[str, type] = {
    "date": str, "where": str, "form": str, "quick": bool, "samples": int, "kernel": str, "kver": str, "hooks": list,
    "tested_with": str, "topologies": dict, "machines": dict, "configurations": list, "commands": dict, "command": str,
    "forced": list, "remarks": list,
}
# What is in the header as well, but for older files: see provenance.py.
OPTIONAL: dict[str, type | tuple[type, ...]] = {
    "revision": str, "mechanism": str, "duration_s": (int, float), "host_cpus": int, "costs": list}
# What two files have to share to be put together.
SHARED = ("where", "form", "quick", "samples", "kernel", "kver", "hooks", "tested_with", "commands")
Key = tuple[str, str, str, int, str]


@dataclass(frozen=True)
class Row:
    """One metric of one benchmark under one load and configuration. `source` names the row that the oracle picked."""

    bench: str
    topology: str
    config: str
    load: int
    metric: str
    unit: str
    better: str
    samples: tuple[float, ...]
    median: float
    source: str = ""

    @property
    def key(self) -> Key:
        return self.bench, self.topology, self.config, self.load, self.metric

    def to_json(self) -> dict[str, Any]:
        row = asdict(self) | {"samples": list(self.samples)}
        if not self.source:
            del row["source"]
        return row


@dataclass(frozen=True)
class Failure:
    """A run that gave no value, and why."""

    bench: str
    topology: str
    config: str
    load: int
    sample: int
    reason: str


@dataclass
class Results:
    """A results file. `expected` has [bench, topology, config, load] of everything that was asked for.

    `skipped` names what the kernel or the machine does not have, with the reason; `series` what pictures over time
    are drawn from. Both are optional in a file.
    """

    suite: str
    environment: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    expected: list[list[Any]] = field(default_factory=list)
    complete: bool = False
    skipped: list[dict[str, Any]] = field(default_factory=list)
    series: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "suite": self.suite, "complete": self.complete, "environment": self.environment,
                "rows": [row.to_json() for row in self.rows], "failures": [asdict(f) for f in self.failures],
                "counters": self.counters, "expected": self.expected,
                **({"skipped": self.skipped} if self.skipped else {}),
                **({"series": self.series} if self.series else {})}

    def missing(self) -> list[str]:
        """What was asked for and has no row, or one with fewer samples than it should have.

        Optional metrics do not count, for any sample may be without them. Of the others, those count that the file has
        of a benchmark at all: an older one has none of what is measured since.
        """
        wanted = self.environment["samples"]
        optional = {(bench.name, metric.name) for bench in load_suite(self.suite).benches for metric in bench.metrics
                    if metric.optional}
        needed = {(row.bench, row.metric) for row in self.rows} - optional
        samples: dict[tuple[Any, ...], int] = {row.key: len(row.samples) for row in self.rows}
        had = {tuple(place): min((samples.get((*place, metric), 0) for bench, metric in needed if bench == place[0]),
                                 default=0) for place in self.expected}
        for entry in self.skipped:
            had[entry["bench"], entry["topology"], entry["config"], entry["load"]] = wanted
        return [f"{bench}/{load} {config} on {topology}: {had.get((bench, topology, config, load), 0)} of "
                f"{wanted} samples" for bench, topology, config, load in self.expected
                if had.get((bench, topology, config, load), 0) < wanted]


def row_of(key: Key, unit: str, better: str, samples: Sequence[float], source: str = "") -> Row:
    bench, topology, config, load, metric = key
    return Row(bench, topology, config, load, metric, unit, better, tuple(samples), statistics.median(samples), source)


def with_oracle(rows: Iterable[Row], suite: Suite) -> list[Row]:
    """The rows, and for each that has pinned ones the best of them and the baseline, under the name of the oracle.

    The search is over medians, and it is done for each load and metric anew: the best that pinning could have done.
    """
    measured = [row for row in rows if row.config != ORACLE]
    kinds = {configuration.name: configuration.kind for configuration in suite.configurations}
    candidates: dict[tuple[str, str, int, str], list[Row]] = {}
    for row in measured:
        if kinds.get(row.config) in (BASELINE, PINNED):
            candidates.setdefault((row.bench, row.topology, row.load, row.metric), []).append(row)
    found = []
    for rivals in candidates.values():
        if any(kinds[row.config] == PINNED for row in rivals):
            best = (max if rivals[0].better == HIGHER else min)(rivals, key=lambda row: row.median)
            key = (best.bench, best.topology, ORACLE, best.load, best.metric)
            found.append(row_of(key, best.unit, best.better, best.samples, best.config))
    return measured + found


def gain(value: float, base: float, better: str) -> float | None:
    """By how many percent the value is better than the base; negative where it is worse."""
    if not base:
        return 0.0 if value == base else None
    # "+ 0.0" makes 0 of -0, which would be printed with its sign.
    return (value - base) / base * (100.0 if better == HIGHER else -100.0) + 0.0


class TopologyView:
    """The results of one topology, as the figures to reach look at them."""

    def __init__(self, results: Results, suite: Suite, topology: str):
        self.results, self.suite, self.topology = results, suite, topology
        self.rows = {row.key: row for row in results.rows if row.topology == topology}

    def row(self, bench: str, config: str, load: int, metric: str) -> Row | None:
        return self.rows.get((bench, self.topology, config, load, metric))

    def benches(self) -> list[str]:
        return [bench.name for bench in self.suite.benches if any(key[0] == bench.name for key in self.rows)]

    def loads(self, bench: str) -> list[int]:
        return sorted({key[3] for key in self.rows if key[0] == bench})

    def metrics(self, bench: str) -> list[str]:
        present = {key[4] for key in self.rows if key[0] == bench}
        return [metric.name for metric in self.suite.bench(bench).metrics if metric.name in present]

    def configurations(self, *kinds: str) -> list[str]:
        return [c.name for c in self.suite.configurations if not kinds or c.kind in kinds]

    def value(self, bench: str, config: str, load: int, metric: str) -> float | None:
        """The median; None where it was not measured."""
        row = self.row(bench, config, load, metric)
        return row.median if row else None

    def gain(self, bench: str, config: str, load: int, metric: str) -> float | None:
        """Percent better than the baseline; None where one of the two was not measured."""
        base = self.row(bench, self.suite.baseline.name, load, metric)
        row = self.row(bench, config, load, metric)
        return gain(row.median, base.median, row.better) if row and base else None

    def distance(self, bench: str, load: int, metric: str, *kinds: str) -> tuple[float, str, str] | None:
        """By how many percent the best hint is better than the oracle (negative: worse), and the names of both.
        Hints are the configurations of these kinds, or, without any, hints and profiles.

        Leaving a group without a hint is a choice as well, as leaving it unpinned is one for the oracle.
        """
        oracle = self.row(bench, ORACLE, load, metric)
        rows = [row for config in self.configurations(BASELINE, *(kinds or (HINT, PROFILE)))
                if (row := self.row(bench, config, load, metric))]
        if not oracle or all(row.config == self.suite.baseline.name for row in rows):
            return None
        best = (max if oracle.better == HIGHER else min)(rows, key=lambda row: row.median)
        distance = gain(best.median, oracle.median, best.better)
        return None if distance is None else (distance, best.config, oracle.source)


def check(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise Fail(f"{where}: {what}")


def parse_row(data: Any, where: str) -> Row:
    types = {"bench": str, "topology": str, "config": str, "load": int, "metric": str, "unit": str, "better": str,
             "samples": list, "median": (int, float)}
    check(isinstance(data, dict), where, "not an object")
    for name, kind in types.items():
        check(isinstance(data.get(name), kind), where, f"'{name}' is missing or of the wrong type")  # type: ignore
    extra = data.keys() - types.keys() - {"source"}
    check(not extra, where, f"unknown keys: {', '.join(sorted(extra))}")
    check(data["better"] in (HIGHER, LOWER), where, f"better is '{data['better']}'")
    samples = data["samples"]
    check(bool(samples) and all(isinstance(s, (int, float)) and math.isfinite(s) for s in samples), where,
          "samples are no finite numbers")
    check(math.isclose(statistics.median(samples), data["median"], rel_tol=1e-9, abs_tol=1e-12), where,
          f"median {data['median']} is not that of the samples")
    values: dict[str, Any] = {**data, "samples": tuple(float(s) for s in samples), "median": float(data["median"])}
    return Row(**values)


def parse(data: Any, where: str) -> Results:
    """Check the content of a file, all of it, and return it."""
    check(isinstance(data, dict) and data.get("format") == FORMAT, where, f"not results of format {FORMAT}")
    environment = data.get("environment")
    check(isinstance(environment, dict), where, "no environment")
    for name, kind in ENVIRONMENT.items():
        check(isinstance(environment.get(name), kind), where,
              f"environment: '{name}' is missing or not a {kind.__name__}")
    for name, kinds in OPTIONAL.items():
        check(isinstance(environment.get(name, kinds[0]() if isinstance(kinds, tuple) else kinds()), kinds), where,
              f"environment: '{name}' is {environment.get(name)!r}")
    for name in ("rows", "failures", "counters", "expected"):
        check(isinstance(data.get(name), list), where, f"no list '{name}'")
    check(isinstance(data.get("suite"), str) and isinstance(data.get("complete"), bool), where,
          "no suite or 'complete'")
    rows = [parse_row(row, f"{where}: row {number}") for number, row in enumerate(data["rows"])]
    seen: set[Key] = set()
    for row in rows:
        check(row.key not in seen, where, f"two rows for {row.key}")
        seen.add(row.key)
    try:
        failures = [Failure(**failure) for failure in data["failures"]]
    except TypeError as error:
        raise Fail(f"{where}: a failure with wrong keys: {error}") from error
    for name in ("skipped", "series"):
        found = data.get(name, [])
        check(isinstance(found, list) and all(isinstance(entry, dict) and {"bench", "topology", "config", "load"} <=
                                              entry.keys() for entry in found), where, f"'{name}' is no list of cases")
    return Results(data["suite"], environment, rows, failures, data["counters"], data["expected"], data["complete"],
                   data.get("skipped", []), data.get("series", []))


def read_results(path: Path) -> Results:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise Fail(f"{path} does not exist; run 'make bench' first") from None
    except ValueError as error:
        raise Fail(f"{path}: no JSON: {error}") from error


def save(results: Results, path: Path) -> None:
    """Write the file as a whole, after a look at whether it could be read again."""
    data = results.to_json()
    parse(data, str(path))
    replace_file(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


def origin(parts: Sequence[Results]) -> tuple[dict[str, Any], list[str]]:
    """What the header of merged results says of the code and the host, and what has to be remarked on it.

    Results of different mechanisms do not go together. Of one that is not recorded, nobody knows whether it does.
    """
    headers = [part.environment for part in parts]
    mechanisms = {name: header["date"] for header in headers if (name := header.get("mechanism", ""))}
    check(len(mechanisms) < 2, "merge", "'mechanism' differs, which is kernel/, include/ and hooks/: "
          + " and ".join(f"{name} ({date})" for name, date in mechanisms.items()))
    unknown = [header["date"] for header in headers if not header.get("mechanism")]
    remarks = [f"the mechanism is not recorded of the run of {' and '.join(unknown)}: is it the same?"]
    revisions = dict.fromkeys(header.get("revision", "") for header in headers)
    cpus = {header.get("host_cpus", 0) for header in headers}
    return {"revision": " and ".join(filter(None, revisions)), "mechanism": "" if unknown else next(iter(mechanisms)),
            "duration_s": round(sum(header.get("duration_s", 0) for header in headers), 1),
            "host_cpus": cpus.pop() if len(cpus) == 1 else 0}, remarks if unknown else []


def merge(parts: Sequence[Results]) -> Results:
    """Put results together that differ in what was run, not in what it was run on."""
    first, *others = parts
    for other in others:
        check(other.suite == first.suite, "merge", f"suites {first.suite} and {other.suite}")
        for name in SHARED:
            ours, theirs = first.environment[name], other.environment[name]
            check(name == "commands" and {**ours, **theirs} == {**theirs, **ours} or ours == theirs, "merge",
                  f"'{name}' differs: {ours!r} and {theirs!r}")
        ours, theirs = first.environment.get("costs", []), other.environment.get("costs", [])
        check(sorted(ours) == sorted(theirs), "merge", f"'costs' differ: {ours!r} and {theirs!r}")
        for topology in first.environment["machines"].keys() & other.environment["machines"].keys():
            check(first.environment["machines"][topology] == other.environment["machines"][topology], "merge",
                  f"the models of '{topology}' differ")
    code, remarks = origin(parts)
    environment: dict[str, Any] = {**first.environment, **code, "forced": [], "remarks": [], "commands": {}}
    merged = Results(first.suite, environment, complete=all(part.complete for part in parts))
    for name in ("topologies", "machines"):
        environment[name] = {key: value for part in parts for key, value in part.environment[name].items()}
    seen: set[Key] = set()
    for part in parts:
        for row in part.rows:
            check(row.key not in seen, "merge", f"{row.key} is in two files")
            seen.add(row.key)
        for name in ("forced", "remarks"):
            environment[name] += [text for text in part.environment[name] if text not in environment[name]]
        environment["commands"].update(part.environment["commands"])
        environment["configurations"] = environment["configurations"] + [
            c for c in part.environment["configurations"] if c not in environment["configurations"]]
        merged.rows += part.rows
        merged.failures += part.failures
        merged.counters += part.counters
        merged.expected += part.expected
        merged.skipped += part.skipped
        merged.series += part.series
    environment["remarks"] += ["merged from runs of " + " and ".join(part.environment["date"] for part in parts),
                               *remarks]
    return merged


def code_of(environment: dict[str, Any]) -> str:
    """The code that was measured, in a few words; nothing where it is not recorded."""
    return ", ".join(f"{name} {' and '.join(map(short, text.split(' and ')))}" for name in ("revision", "mechanism")
                     if (text := environment.get(name)))


def describe(results: Results) -> list[str]:
    environment = results.environment
    missing = results.missing()
    lines = [f"suite {results.suite}: {len(results.rows)} rows, {environment['date']}, kernel {environment['kernel']}, "
             f"{environment['where']}, {environment['form']}{f', {code}' if (code := code_of(environment)) else ''}"
             f"{'' if results.complete else ', NOT COMPLETE'}"]
    lines += [f"skipped {bench}/{config} on {topology}: {reason}" for bench, config, topology, reason in dict.fromkeys(
        (s["bench"], s["config"], s["topology"], s["reason"]) for s in results.skipped)]
    lines += [f"FAILED {f.bench}/{f.load} {f.config} on {f.topology}, sample {f.sample + 1}: {f.reason}"
              for f in results.failures]
    return lines + [f"MISSING {text}" for text in missing] + [f"remark: {text}" for text in environment["remarks"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--merge", type=Path, metavar="OUT", help="write this file from the others")
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    parts = [read_results(path) for path in arguments.files]
    for part in parts:
        load_suite(part.suite)
    if arguments.merge:
        if arguments.merge.exists():
            raise Fail(f"{arguments.merge} exists already")
        parts = [merge(parts)]
        save(parts[0], arguments.merge)
    for part in parts:
        print("\n".join(describe(part)))
    return 1 if any(part.failures or part.missing() for part in parts) else 0


if __name__ == "__main__":
    run_main(main)
