#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make results: run everything in bench/results/plan.toml, and renew bench/results/ from what came out.

    renew.py                   runs what is not there yet, as many items at a time as there are CPUs, and renders
    renew.py --only NAME,...   only these items
    renew.py --plan            says what would be run and how long it takes, and runs nothing
    renew.py --render          renders from bench/results/data/ again, and runs nothing
    renew.py --file PLAN --pages DIRECTORY    by another plan, with pages elsewhere; README.template.md is copied there

An item that ended is in build/results/NAME/, and is not run again unless the mechanism or its command changed; an
interrupted run goes on with the next one. What is published is of one mechanism: results of another one go.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for directory in (ROOT / "scripts", ROOT / "bench"):
    if str(directory) not in sys.path:
        sys.path.append(str(directory))

import page  # noqa: E402
import provenance  # noqa: E402
import run  # noqa: E402
from common import Fail, replace_file, run_main  # noqa: E402
from results import Results, read_results, save  # noqa: E402
from suite import estimate, known_suites, load_suite, plan  # noqa: E402

PLAN = ROOT / "bench/results/plan.toml"
PUBLISHED = ROOT / "bench/results"
TEMPLATE = "README.template.md"
WORK = ROOT / "build/results"
REPORT_SECONDS = 60.0
# A run that is told to end writes down what it has; that takes no longer.
GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Item:
    """One run of a suite. `minutes` is how long it took the last time, of one CPU; 0 for never."""

    name: str
    suite: str
    topology: str = ""
    benches: tuple[str, ...] = ()
    loads: tuple[int, ...] = ()
    configs: tuple[str, ...] = ()
    samples: int = 0
    quick: bool = False
    minutes: float = 0.0

    def options(self) -> list[str]:
        """The options of bench/run.py."""
        lists = {"--topology": self.topology, "--benches": ",".join(self.benches),
                 "--loads": ",".join(map(str, self.loads)), "--configs": ",".join(self.configs),
                 "--samples": str(self.samples or "")}
        return ["--suite", self.suite, *(["--quick"] if self.quick else []),
                *(word for option, value in lists.items() if value for word in (option, value))]

    @property
    def command(self) -> str:
        """What anybody types to measure the same."""
        return run.make_command(run.parse_arguments(self.options()))


@dataclass(frozen=True)
class Plan:
    """What `make results` runs; `limit` is how long all of it may take on two CPUs, in minutes."""

    limit: float
    items: tuple[Item, ...]


def item_of(entry: Any, where: str) -> Item:
    """Check an entry of the file as far as can be told without running it."""
    known = {field.name: field for field in fields(Item)}
    if not isinstance(entry, dict):
        raise Fail(f"{where}: {entry!r} is no table")
    for key, value in entry.items():
        if key not in known:
            raise Fail(f"{where}: unknown key '{key}'; known: {', '.join(known)}")
        kind = {"benches": list, "loads": list, "configs": list, "samples": int, "quick": bool,
                "minutes": (int, float)}.get(key, str)
        if not isinstance(value, kind) or isinstance(value, bool) != (key == "quick"):  # type: ignore[arg-type]
            raise Fail(f"{where}: {key} = {value!r} is of the wrong type")
    for key in ("name", "suite"):
        if not entry.get(key):
            raise Fail(f"{where}: no '{key}'")
    if not all(c.isalnum() or c in "-_" for c in entry["name"]):
        raise Fail(f"{where}: name = '{entry['name']}' is no file name of letters, digits, '-' and '_'")
    if entry["suite"] not in known_suites():
        raise Fail(f"{where}: suite = '{entry['suite']}'; there are: {', '.join(known_suites())}")
    return Item(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def read_plan(path: Path = PLAN) -> Plan:
    """The plan, of which every item can be run."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Fail(f"{path}: no TOML: {error}") from error
    limit = data.get("limit_minutes")
    if not isinstance(limit, (int, float)) or limit <= 0 or data.keys() - {"limit_minutes", "item"}:
        raise Fail(f"{path}: wanted are limit_minutes, above 0, and tables [[item]]; it has: {', '.join(data)}")
    items = [item_of(entry, f"{path}: item {number}") for number, entry in enumerate(data.get("item", []), 1)]
    for item in items:
        if [other.name for other in items].count(item.name) > 1:
            raise Fail(f"{path}: two items are called '{item.name}'")
        try:
            cases_of(item)
        except Fail as failure:
            raise Fail(f"{path}: item '{item.name}': {failure}") from failure
    # By its own minutes: what a run took on a busy machine says nothing of the plan.
    if (planned := wall_minutes([item.minutes or cases_of(item) for item in items], 2)) > limit:
        raise Fail(f"{path}: takes {planned:.0f} minutes on two CPUs, and limit_minutes = {limit:g}; shorten it")
    return Plan(float(limit), tuple(items))


def cases_of(item: Item) -> float:
    """By the suite's estimate, how many minutes an item takes; fails where it names what the suite does not have."""
    arguments = run.parse_arguments(item.options())
    if item.suite in run.OWN_RUNNERS:
        run.refuse_foreign(arguments)
        for name in item.benches:
            load_suite(item.suite).bench(name)
        for name in item.configs:
            load_suite(item.suite).configuration(name)
        return 10.0
    return estimate(plan(load_suite(item.suite), run.select(arguments))) / 60


def minutes_of(item: Item, published: Mapping[str, Results]) -> float:
    """How long an item takes: as long as it did, where that is known of this very command."""
    before = published.get(item.name)
    if before and before.environment["command"] == item.command and before.environment.get("duration_s"):
        return float(before.environment["duration_s"]) / 60
    return item.minutes or cases_of(item)


def wall_minutes(minutes: Sequence[float], lanes: int) -> float:
    """How long all of them take, so many at a time, the longest first."""
    ends = [0.0] * max(lanes, 1)
    for one in sorted(minutes, reverse=True):
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def result_path(item: Item) -> Path:
    return WORK / item.name / f"{item.suite}.json"


def measured(item: Item, mechanism: str) -> Results | None:
    """The results of an item, if it ended, and with this mechanism and command."""
    if not result_path(item).is_file():
        return None
    found = read_results(result_path(item))
    same = (found.environment.get("mechanism"), found.environment["command"]) == (mechanism, item.command)
    return found if found.complete and same else None


def start(item: Item) -> subprocess.Popen[bytes]:
    """Run an item in a session of its own, so that control-C reaches it once, by stop(); its output is in a log."""
    out = WORK / item.name
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log").open("wb") as log:
        return subprocess.Popen([sys.executable, ROOT / "bench/run.py", *item.options(), "--out", out], stdout=log,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what a run started and left behind: its machine does not outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stop(running: Mapping[Any, Item]) -> None:
    """End runs so that what they have is written. SIGINT would not do: a shell's background jobs ignore it."""
    for process in running:
        process.terminate()
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        kill_group(process)


def tail(item: Item) -> str:
    """The last line that an item's run printed."""
    log = WORK / item.name / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run_items(items: Sequence[Item], minutes: Mapping[str, float], mechanism: str, lanes: int,
              begin: Callable[[Item], Any], pause: float = 1.0) -> list[str]:
    """Run them, the longest first; returns the names of those that did not end well."""
    waiting = sorted(items, key=lambda item: -minutes[item.name])
    running: dict[Any, Item] = {}
    began: dict[str, float] = {}
    failed = []
    ended, reported = 0, time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < lanes:
                item = waiting.pop(0)
                print(f"  {item.name}: about {minutes[item.name]:.0f} minutes: {item.command}", flush=True)
                began[item.name] = time.monotonic()
                running[begin(item)] = item
            for process in [process for process in running if process.poll() is not None]:
                item = running.pop(process)
                ended += 1
                took = (time.monotonic() - began[item.name]) / 60
                well = measured(item, mechanism) is not None
                if not well:
                    failed.append(item.name)
                rest = wall_minutes([minutes[other.name] for other in (*waiting, *running.values())], lanes)
                print(f"  [{ended}/{len(items)}] {item.name}: {'done' if well else f'FAILED: {tail(item)}'}, "
                      f"{took:.1f} minutes; about {rest:.0f} minutes left", flush=True)
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                for item in running.values():
                    took = (reported - began[item.name]) / 60
                    print(f"  {item.name}, {took:.0f} minutes: {tail(item)[:90]}", flush=True)
            time.sleep(pause if running else 0)
    except BaseException:
        stop(running)
        print("\n  not finished; 'make results' goes on from here", file=sys.stderr)
        raise
    return failed


def read_published(directory: Path = PUBLISHED) -> dict[str, Results]:
    """The results that are committed, by the names of their items."""
    return {path.stem: read_results(path) for path in sorted((directory / "data").glob("*.json"))}


def slim(results: Results) -> Results:
    """What the pages are rendered from: what moved over time and what counters grew by is not."""
    return Results(results.suite, results.environment, results.rows, results.failures, [], results.expected,
                   results.complete, results.skipped, [])


def publish(results: Mapping[str, Results], directory: Path = PUBLISHED) -> None:
    """Make these the committed results; those of other runs go."""
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    for name, found in results.items():
        save(slim(found), data / f"{name}.json")
    for path in data.glob("*.json"):
        if path.stem not in results:
            path.unlink()


def render(the_plan: Plan, directory: Path = PUBLISHED) -> list[str]:
    """Write every page and picture anew, and remove pictures that none of them shows any more; returns the names."""
    commands = {item.name: item.command for item in the_plan.items}
    results = read_published(directory)
    template = directory / TEMPLATE
    if not template.is_file():
        replace_file(template, (PUBLISHED / TEMPLATE).read_bytes())
    files = page.files(results, commands, template)
    for name, content in files.items():
        replace_file(directory / name, content)
    for path in directory.glob("*.svg"):
        if path.name not in files:
            path.unlink()
    return list(files)


def report(the_plan: Plan, minutes: Mapping[str, float], ready: Sequence[str], lanes: int) -> None:
    for item in the_plan.items:
        state = "there already" if item.name in ready else f"about {minutes[item.name]:.0f} minutes"
        print(f"  {item.name:<28} {state:<20} {item.command}")
    todo = [minutes[item.name] for item in the_plan.items if item.name not in ready]
    print(f"  {len(todo)} of {len(the_plan.items)} to run, {lanes} at a time: about {wall_minutes(todo, lanes):.0f} "
          f"minutes, by what each took the last time; planned for all of it on two idle CPUs: at most "
          f"{the_plan.limit:.0f}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only these items, separated by commas")
    parser.add_argument("--plan", action="store_true", help="print what would be run, and run nothing")
    parser.add_argument("--render", action="store_true", help="only render what is committed")
    parser.add_argument("--file", type=Path, default=PLAN, metavar="PLAN", help="another plan")
    parser.add_argument("--pages", type=Path, default=PUBLISHED, metavar="DIRECTORY", help="where pages and data go")
    arguments = parser.parse_args(argv)
    the_plan, pages = read_plan(arguments.file), arguments.pages
    if arguments.file != PLAN and pages == PUBLISHED:
        raise Fail(f"--file {arguments.file}: its pages would take the place of the committed ones; "
                   "say where they go with --pages DIRECTORY")
    if arguments.render:
        print(f"  {len(render(the_plan, pages))} files in {run.shown(pages)}/")
        return 0
    names = run.names(arguments.only)
    known = [item.name for item in the_plan.items]
    if unknown := [name for name in names if name not in known]:
        raise Fail(f"ONLY={unknown[0]} is no item of {run.shown(arguments.file)}; there are: {', '.join(known)}")
    mechanism, lanes = provenance.mechanism(), os.cpu_count() or 1
    published = read_published(pages)
    minutes = {item.name: minutes_of(item, published) for item in the_plan.items}
    ready = [item.name for item in the_plan.items if measured(item, mechanism)]
    report(the_plan, minutes, ready, lanes)
    if arguments.plan:
        return 0
    todo = [item for item in the_plan.items if item.name not in ready and (not names or item.name in names)]
    with run.terminated_like_interrupted():
        failed = run_items(todo, minutes, mechanism, lanes, start)
    found = {item.name: results for item in the_plan.items if (results := measured(item, mechanism))}
    if not found:
        raise Fail(f"nothing was measured; see {WORK.relative_to(ROOT)}/*/log")
    publish(found, pages)
    render(the_plan, pages)
    print(f"  {len(found)} of {len(the_plan.items)} items are on {run.shown(pages)}/README.md")
    for name in failed:
        print(f"  FAILED {name}: see {WORK.relative_to(ROOT)}/{name}/log")
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
