#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make bench SUITE=overhead: count the kernel's instructions per operation, on up to three kernels, and compare.

Writes build/bench/overhead.json and overhead.txt. How to read them is in bench/overhead.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for directory in (ROOT / "bench/lab", ROOT / "scripts", ROOT / "bench", ROOT):
    if str(directory) not in sys.path:
        sys.path.append(str(directory))

import kbuild  # noqa: E402
import lab  # noqa: E402
import provenance  # noqa: E402
from bench.run import make_command, read_hooks, scrub, shown  # noqa: E402
from common import Fail, Target, run_main  # noqa: E402
from results import Key, Results, Row, row_of, save  # noqa: E402
from suite import FULL, HINT, PROFILE, QUICK, Bench, Configuration  # noqa: E402
from suites.overhead import (APPEND, CHANGE, CLEAR, ELSEWHERE, EXACT_PERCENT, FIRST, IN_USE_PERCENT,  # noqa: E402
                             IN_VAIN, INSTRUCTIONS, MEAN, MOVING, NOISE_PERCENT, NOOPS, OFF, OWN, PREEMPTING,
                             PRISTINE, SETTLED, SLEEPS, SUITE, TOPOLOGY, TREE, TREE_METRICS, UNITS, UNUSED, VARIANTS,
                             WORK)
from table import grid  # noqa: E402

OUT = ROOT / "build/bench"
# If fewer of the wakeups than this were of a task that slept, it was something else that was counted.
ASLEEP = 0.97
OURS = re.compile(r"_*steer_")
NOT_PLACEMENT = re.compile(r".*(_show|_write|_open|_init|_setup|_format|_words|_parse|_resolve|_conflict|_free|line)$")
# Beside ours: where the instructions go that are not in our functions.
WATCHED = (
    "try_to_wake_up", "select_task_rq_fair", "select_idle_sibling", "select_idle_cpu", "available_idle_cpu",
    "cpus_share_cache", "_find_next_bit", "_find_next_and_bit", "_find_first_and_bit", "__bitmap_intersects",
    "__bitmap_subset", "__bitmap_weight", "cpu_util_cfs", "ttwu_do_activate", "ttwu_queue_wakelist",
    "enqueue_task_fair", "place_entity", "update_curr", "update_load_avg", "check_preempt_wakeup_fair",
    "wakeup_preempt", "set_task_cpu", "migrate_task_rq_fair", "remove_entity_load_avg", "attach_entity_load_avg",
    "detach_entity_load_avg", "dequeue_entities", "pick_next_task_fair", "sched_balance_newidle", "__schedule",
    "sched_balance_find_dst_group", "sched_balance_find_dst_cpu", "wake_up_new_task", "resched_curr",
    "tick_nohz_idle_stop_tick", "hrtimer_start_range_ns")

# Prints what the reader needs: which case, whether its hint holds, and what lab-ops says of itself.
PROLOGUE = r"""# Written by bench/overhead.py.
echo "@kernel $(uname -r)"
put() { printf '%s\n' "$2" > "$1" || { echo "@fail cannot write '$2' to $1"; exit 1; }; }
enter() {
	group=/sys/fs/cgroup/ops-$1
	mkdir -p "$group" || exit 1
	[ -z "$2" ] || put "$group/cpu.hint" "$2"
	[ ! -e "$group/cpu.hint.effective" ] || echo "@effective $1 $(cat "$group/cpu.hint.effective")"
}
in_group() { sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$group" "$@" || echo "@fail $*"; }
leave() {
	while read -r key value; do
		case $key in hint_*) [ "$value" = 0 ] || echo "@stat $key $value" ;; esac
	done < "$group/cpu.stat"
}
"""


@dataclass(frozen=True)
class Case:
    """One run of lab-ops."""

    bench: str
    config: str
    load: int
    sample: int


@dataclass(frozen=True)
class Boot:
    """What one machine runs: a kernel, and its cases in order."""

    name: str
    variant: str
    cases: tuple[Case, ...]


@dataclass
class Counted:
    """What a case gave, per unit: metric -> number, and function -> instructions in it."""

    case: Case
    values: dict[str, float]
    functions: dict[str, float] = field(default_factory=dict)
    asleep: float = 1.0  # of the sleeps that there should have been


def select(form: str, configs: Sequence[str], benches: Sequence[str]) -> tuple[list[Configuration], list[Bench]]:
    names = configs or (SUITE.quick_configurations if form == QUICK else [c.name for c in SUITE.configurations])
    for name in names:
        SUITE.configuration(name)
    # What others are compared with. The pristine kernel takes minutes to build: only for those that need it.
    needed = {UNUSED, *names, *([PRISTINE] if {OFF, UNUSED} & set(names) else [])}
    chosen = [c for c in SUITE.configurations if c.name in needed]
    return chosen, [SUITE.bench(name) for name in benches] or list(SUITE.benches)


def plan(form: str, configurations: Sequence[Configuration], benches: Sequence[Bench], samples: int) -> list[Boot]:
    """A boot for each kernel, and one for trees. In ours, `unused` comes before any group has ever had a hint."""
    operations = [(bench, load) for bench in benches if bench.name != TREE for load in bench.loads(form)]

    def cases(names: Sequence[str]) -> tuple[Case, ...]:
        return tuple(Case(bench.name, name, load, sample)
                     for sample in range(samples) for name in names for bench, load in operations)

    names = [configuration.name for configuration in configurations]
    boots = [Boot(name, VARIANTS[name], cases([name])) for name in names if name in VARIANTS]
    ours = [name for name in names if name not in VARIANTS]
    boots.append(Boot("lab", "lab", cases([UNUSED]) + cases([name for name in ours if name != UNUSED])))
    trees = tuple(Case(bench.name, ELSEWHERE, load, sample) for sample in range(samples) for bench in benches
                  if bench.name == TREE for load in bench.loads(form))
    boots.append(Boot("trees", "lab", trees))
    return [boot for boot in boots if boot.cases]


def script(boot: Boot, form: str) -> str:
    lines = [PROLOGUE]
    group = ""
    in_use = False
    for number, case in enumerate(boot.cases):
        configuration = SUITE.configuration(case.config)
        if boot.variant == "lab" and case.config != UNUSED and not in_use:
            # From here on the branches are in, whatever a group says.
            lines += ["mkdir /sys/fs/cgroup/elsewhere", "put /sys/fs/cgroup/elsewhere/cpu.hint wake_affine"]
            in_use = True
        if case.bench == TREE:
            lines += [f"echo @case {number}", f"{SUITE.bench(TREE).shell(case.load, form)} || echo @fail {TREE}"]
            continue
        # A group for each configuration, used again by the next sample.
        name = case.config.replace("+", "-")
        if name != group:
            lines += ["leave"] if group else []
            lines.append(f"enter {name} '{configuration.hint}'")
            group = name
        lines += [f"echo @case {number}", f"in_group {SUITE.bench(case.bench).shell(case.load, form)}"]
    return "\n".join([*lines, *(["leave"] if group else []), "echo @done", ""])


def regions(marks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Between one mark and the next: kernel instructions, no-ops of them, and those in each function."""
    for before, after in zip(marks, marks[1:]):
        yield (after["kernel"] - before["kernel"], after["noops"] - before["noops"],
               {name: value - before["functions"][name] for name, value in after["functions"].items()})


def count(case: Case, words: Sequence[str], marks: Sequence[Mapping[str, Any]]) -> Counted:
    """Values from what lab-ops said (name, operations, regions, sleeps) and from its marks.

    Most regions see no tick and nothing else of the background, so the median of them has the operations alone.
    """
    program, operations, number, slept = words[0], int(words[1]), int(words[2]), int(words[3])
    found = list(regions(marks))
    if len(found) != number:
        raise Fail(f"{case}: {number} regions, but {len(marks)} marks")
    if program == TREE:
        return Counted(case, {metric: float(region[0]) for metric, region in zip(TREE_METRICS, found, strict=True)},
                       {name: float(value) for name, value in found[0][2].items()})
    units = operations * UNITS[program]

    def median(values: Sequence[int]) -> float:
        return statistics.median(values) / units

    functions = {name: median([region[2][name] for region in found]) for name in found[0][2]}
    values = {INSTRUCTIONS: median([region[0] for region in found]),
              WORK: median([region[0] - region[1] for region in found]),
              NOOPS: median([region[1] for region in found]),
              OWN: median([sum(value for name, value in region[2].items() if OURS.match(name)) for region in found]),
              MEAN: statistics.mean(region[0] for region in found) / units}
    return Counted(case, values, functions, slept / (operations * number * SLEEPS[program]))


@dataclass
class Said:
    """What the machine printed, in order: [case, words of lab-ops], and what else was of interest."""

    runs: list[tuple[int, list[str]]] = field(default_factory=list)
    effective: dict[str, str] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    kernel: str = "unknown"
    done: bool = False


def read_output(text: str) -> Said:
    said = Said()
    case, group = -1, ""
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "@case":
            case = int(rest)
        elif word == "@ops":
            said.runs.append((case, rest.split()))
        elif word == "@effective":
            group, _, words = rest.partition(" ")
            said.effective[group] = words
        elif word == "@stat":
            key, value = rest.split()
            said.counters.setdefault(group, {})[key] = int(value)
        elif word == "@kernel":
            said.kernel = rest
        elif word == "@fail":
            said.problems.append(rest)
        elif word == "@done":
            said.done = True
    return said


def take(boot: Boot, said: Said, counters: Sequence[Mapping[str, Any]]) -> list[Counted]:
    """Deal the marks out to the runs; each has one more than regions."""
    if said.problems or not said.done:
        raise Fail(f"{boot.name}: {'; '.join(said.problems) or 'the script ended early'}")
    ran = [case for case, _ in said.runs]
    if ran != list(range(len(boot.cases))):
        missing = sorted(set(range(len(boot.cases))) - set(ran))
        raise Fail(f"{boot.name}: {len(missing)} of {len(boot.cases)} runs said nothing, first {missing[:1]}")
    marks = [counter for counter in counters if counter["at"] == "mark"]
    if len(marks) != sum(int(words[2]) + 1 for _, words in said.runs):
        raise Fail(f"{boot.name}: {len(marks)} marks do not fit the regions of {len(said.runs)} runs")
    result, at = [], 0
    for number, words in said.runs:
        end = at + int(words[2]) + 1
        result.append(count(boot.cases[number], words, marks[at:end]))
        at = end
    return result


def check_hints(boot: Boot, said: Said) -> None:
    """A hint that does not hold would be measured as none."""
    for name in dict.fromkeys(case.config for case in boot.cases if case.bench != TREE):
        configuration = SUITE.configuration(name)
        effective = said.effective.get(name.replace("+", "-"))
        if not configuration.hint:
            wrong = effective not in (None, "none", "")
        elif configuration.kind == HINT:
            words = {IN_VAIN if word == f"{IN_VAIN}:unavailable" else word for word in (effective or "").split()}
            wrong = words != set(configuration.hint.split())
        else:
            wrong = effective in (None, "none", "")
        if wrong:
            raise Fail(f"{name}: cpu.hint.effective is '{effective}'")


def watched(system_map: str) -> list[str]:
    """Our functions that the scheduler runs through, and the watched ones that this kernel has."""
    names = [line.split()[2] for line in system_map.splitlines()
             if len(line.split()) == 3 and line.split()[1] in "tT"]
    ours = sorted({name for name in names if OURS.match(name) and not NOT_PLACEMENT.fullmatch(name)})
    unique = [name for name in WATCHED if names.count(name) == 1]
    return [*ours, *unique]


def spread(samples: Sequence[float]) -> float:
    """Between the extremes, in percent of the median."""
    middle = statistics.median(samples)
    return (max(samples) - min(samples)) / middle * 100 if middle else 0.0


def rows_of(counted: Sequence[Counted]) -> list[Row]:
    values: dict[Key, list[float]] = {}
    for one in counted:
        for metric, value in one.values.items():
            key = (one.case.bench, TOPOLOGY, one.case.config, one.case.load, metric)
            values.setdefault(key, []).append(value)
    return [row_of(key, SUITE.bench(key[0]).metric(key[4]).unit, SUITE.bench(key[0]).metric(key[4]).better, samples)
            for key, samples in values.items()]


class Table:
    """Medians by bench, configuration and metric, and what is to be said of them."""

    def __init__(self, rows: Sequence[Row]):
        self.rows = {(row.bench, row.config, row.load, row.metric): row for row in rows}

    def value(self, bench: str, config: str, load: int, metric: str) -> float | None:
        row = self.rows.get((bench, config, load, metric))
        return row.median if row else None

    @staticmethod
    def baseline(config: str) -> str:
        """Kernels are compared with the pristine one; what happens in ours, with ours unused in the same boot."""
        return PRISTINE if config in (OFF, UNUSED) else UNUSED

    def added(self, bench: str, config: str, load: int, metric: str = INSTRUCTIONS) -> float | None:
        value = self.value(bench, config, load, metric)
        base = self.value(bench, self.baseline(config), load, metric)
        return None if value is None or base is None or config == PRISTINE else value - base

    def percent(self, bench: str, config: str, load: int, metric: str = INSTRUCTIONS) -> float | None:
        added = self.added(bench, config, load, metric)
        base = self.value(bench, self.baseline(config), load, INSTRUCTIONS)
        return None if added is None or not base else added / base * 100

    def places(self) -> list[tuple[str, int]]:
        return list(dict.fromkeys((bench, load) for bench, _, load, _ in self.rows if bench != TREE))

    def configs(self) -> list[str]:
        present = {config for bench, config, _, _ in self.rows if bench != TREE}
        return [c.name for c in SUITE.configurations if c.name in present]

    def lines(self, bench: str, load: int) -> list[list[str]]:
        found = []
        for config in self.configs():
            row = self.rows[bench, config, load, INSTRUCTIONS]
            cells = [f"{config}:", f"{row.median:.1f}"]
            added, percent = self.added(bench, config, load), self.percent(bench, config, load)
            work, own = self.added(bench, config, load, WORK), self.value(bench, config, load, OWN)
            cells += [""] * 4 if added is None or percent is None or work is None else [
                f"{added:+.1f}", f"{percent:+.2f} pct", f"{work:+.1f}", f"{added - work:+.1f}"]
            found.append([*cells, f"{own or 0:.1f}", f"{spread(row.samples):.2f} pct"])
        return found

    def tree_lines(self) -> list[list[str]]:
        found = []
        for load in sorted({load for bench, _, load, _ in self.rows if bench == TREE}):
            cells = [f"{load}:"]
            for metric in TREE_METRICS:
                value = self.value(TREE, ELSEWHERE, load, metric) or 0.0
                cells += [f"{value:.0f}", f"{value / load:.1f}"]
            found.append(cells)
        return found


def verdicts(table: Table) -> list[list[str]]:
    """[yes, NO or ~, what, goal, number, where]: the goals of the project, from the numbers."""
    found: list[list[str]] = []

    def judge(what: str, goal: str, config_names: Sequence[str], metric: str, limit: float, places: Sequence[str],
              lower_too: bool) -> None:
        worst: tuple[float, float, str] | None = None
        for bench, load in table.places():
            if bench not in places:
                continue
            for config in config_names:
                added, percent = table.added(bench, config, load, metric), table.percent(bench, config, load, metric)
                if added is not None and percent is not None:
                    size = abs(percent) if lower_too else percent
                    if worst is None or size > worst[0]:
                        worst = (size, added, f"{config}, {bench}")
        if worst:
            found.append(["yes" if worst[0] < limit else "NO", what, goal,
                          f"{worst[1]:+.1f} ({worst[0]:.2f} pct)", worst[2]])

    exact = [*SETTLED, MOVING]
    others = [bench for bench, _ in table.places() if bench not in exact]
    hints = [c.name for c in SUITE.configurations if c.kind in (HINT, PROFILE)]
    in_use = f"< {IN_USE_PERCENT} pct"
    judge("=n, per wakeup", "0", [OFF], INSTRUCTIONS, EXACT_PERCENT, exact, True)
    judge("=n, the rest", "0", [OFF], INSTRUCTIONS, NOISE_PERCENT, others, True)
    judge("=y unused, per wakeup, without no-ops", "0", [UNUSED], WORK, EXACT_PERCENT, exact, False)
    judge("=y unused, the rest, without no-ops", "0", [UNUSED], WORK, NOISE_PERCENT, others, False)
    judge("in use in another group, per wakeup", in_use, [ELSEWHERE], INSTRUCTIONS, IN_USE_PERCENT, exact, False)
    for name in hints:
        judge(f"{name}, per wakeup", in_use, [name], INSTRUCTIONS, IN_USE_PERCENT, SETTLED, False)
    for name in hints:
        judge(f"{name}, its own code where tasks move", in_use, [name], OWN, IN_USE_PERCENT, [MOVING], False)
    return found


def where_it_goes(counted: Sequence[Counted], bench: str, config: str,
                  number: int = 8) -> list[tuple[str, float]]:
    """The functions in which most instructions are added."""
    def medians(name: str) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for one in counted:
            if one.case.bench == bench and one.case.config == name:
                for function, value in one.functions.items():
                    found.setdefault(function, []).append(value)
        return {function: statistics.median(values) for function, values in found.items()}
    base = medians(Table.baseline(config))
    added = {function: value - base.get(function, 0.0) for function, value in medians(config).items()}
    return sorted(((f, v) for f, v in added.items() if abs(v) >= 0.5), key=lambda item: -abs(item[1]))[:number]


def text_of(results: Results, counted: Sequence[Counted]) -> str:
    environment = results.environment
    table = Table(results.rows)
    lines = [f"Suite overhead, kernel {environment['kernel']}, {environment['date']}, median of "
             f"{environment['samples']} samples", f"  {environment['command']}",
             "Instructions of the kernel; 'added' compares off and unused with pristine, the rest with unused.",
             "'work' and 'no-ops' are the parts of it; 'own' are in functions of cpu.hint, without what they call.", ""]
    for bench, load in table.places():
        header = ["", "instructions", "added", "", "work", "no-ops", "own", "spread"]
        lines += [f"{bench}: {SUITE.bench(bench).title}", "",
                  *("  " + line for line in grid(header, table.lines(bench, load))), ""]
    if trees := table.tree_lines():
        header = ["#groups:", *(cell for metric in (FIRST, CHANGE, CLEAR) for cell in (metric, "per group"))]
        lines += [f"{TREE}: {SUITE.bench(TREE).title}", "", *("  " + line for line in grid(header, trees)), ""]
    judged = verdicts(table)
    if judged:
        widths = [max(len(line[column]) for line in judged) for column in range(5)]
        lines += ["Figures to reach; the worst case of each", "",
                  *("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                    for line in judged), ""]
    over = [(config, place) for verdict, _, _, _, where in judged if verdict == "NO" and ", " in where
            for config, place in [where.split(", ")]]
    measured = {(one.case.bench, one.case.config) for one in counted}
    kernels = [(config, SETTLED[-1]) for config in (OFF, UNUSED, ELSEWHERE)
               if {(SETTLED[-1], config), (SETTLED[-1], Table.baseline(config))} <= measured]
    for config, place in dict.fromkeys(kernels + over):
        functions = [f"{function} {value:+.1f}" for function, value in where_it_goes(counted, place, config)]
        lines.append(f"Functions that differ, {config}, {place}: {', '.join(functions) or 'none'}")
    lines += [f"remark: {text}" for text in environment["remarks"]]
    return "\n".join(lines).rstrip() + "\n"


class Run:
    """The suite being run."""

    def __init__(self, form: str, boots: Sequence[Boot], samples: int, path: Path, command: str, build: bool,
                 seed: int = lab.Machine.seed):
        self.form, self.boots, self.path, self.build = form, boots, path, build
        self.machine = lab.machine_of(TOPOLOGY, cache=False, seed=seed)
        self.began = time.monotonic()
        self.counted: list[Counted] = []
        target = Target(Target.from_environment().kver, "arm64")
        self.target = target
        hooks, tested = read_hooks(target.kver)
        expected = list(dict.fromkeys((case.bench, TOPOLOGY, case.config, case.load)
                                      for boot in boots for case in boot.cases))
        used = list(dict.fromkeys(entry[2] for entry in expected))
        self.results = Results(SUITE.name, {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "where": "lab",
            "form": form, "quick": form == QUICK, "samples": samples, "command": command, "kernel": "unknown",
            "kver": target.kver, "hooks": hooks, "tested_with": tested, "topologies": {TOPOLOGY: {}}, "machines": {},
            "boots": {},
            "configurations": [SUITE.configuration(name).describe() for name in used],
            "commands": {f"{bench}/{load}": SUITE.bench(bench).shell(load, form)
                         for bench, load in dict.fromkeys((entry[0], entry[3]) for entry in expected)},
            "forced": [], "remarks": [], **provenance.header(build)}, expected=[list(entry) for entry in expected])
        if seed != lab.Machine.seed:
            self.remark(f"the command is without --seed {seed}, which only bench/overhead.py itself takes")

    def remark(self, text: str) -> None:
        if text not in self.results.environment["remarks"]:
            self.results.environment["remarks"].append(text)

    def run_boot(self, boot: Boot) -> None:
        kernel = kbuild.build(self.target, boot.variant) if self.build else kbuild.image(self.target, boot.variant)
        system_map = (self.target.out(boot.variant) / "System.map").read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".functions") as functions:
            functions.write(lab.function_ranges(system_map, watched(system_map)))
            functions.flush()
            result = lab.run_script(self.machine, script(boot, self.form), ["lab-ops"], kernel=kernel, append=APPEND,
                                    timeout=3600, what=f"{boot.name}, {len(boot.cases)} runs",
                                    functions=Path(functions.name))
        said = read_output(result.output)
        counted = take(boot, said, result.counters)
        check_hints(boot, said)
        self.counted += counted
        for one in counted:
            if one.case.bench != TREE and one.case.bench not in PREEMPTING and one.asleep < ASLEEP:
                self.remark(f"{one.case.bench}, {one.case.config}: {one.asleep:.2f} of the wakeups were of a sleeper")
        header = self.results.environment
        if boot.variant == "lab":
            header["kernel"] = said.kernel
        header["machines"][TOPOLOGY] = json.loads(json.dumps(scrub(dict(result.environment)), default=str))
        header["boots"][boot.name] = {"variant": boot.variant, "kernel": said.kernel, "seed": self.machine.seed}
        self.results.counters += [{"bench": "all", "topology": TOPOLOGY, "config": config, "load": 0, "counters": found}
                                  for config, found in said.counters.items()]
        self.results.rows = rows_of(self.counted)

    def run(self) -> None:
        header = self.results.environment
        for number, boot in enumerate(self.boots, 1):
            self.run_boot(boot)
            self.results.complete = number == len(self.boots)
            header["duration_s"] = round(time.monotonic() - self.began, 1)
            if text := provenance.changed(header["mechanism"]):
                self.remark(text)
            save(self.results, self.path)


def words_of(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer regions, samples and configurations")
    parser.add_argument("--configs", default="",
                        help="unused and only these, separated by commas; with off or unused, pristine, too")
    parser.add_argument("--benches", default="", help="only these, separated by commas")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--seed", type=int, default=lab.Machine.seed, metavar="N",
                        help="of random numbers: with another one the machine is in other states as it is counted")
    parser.add_argument("--no-build", action="store_true", help="take the kernels that are there")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args(argv)
    if arguments.samples < 0:
        raise Fail(f"SAMPLES={arguments.samples} is not a number of runs")
    form = QUICK if arguments.quick else FULL
    samples = arguments.samples or SUITE.samples[form]
    boots = plan(form, *select(form, words_of(arguments.configs), words_of(arguments.benches)), samples)
    arguments.out.mkdir(parents=True, exist_ok=True)
    command = make_command(argparse.Namespace(**vars(arguments), suite=SUITE.name, topology="", where="lab", loads="",
                                              cost=[]))
    run = Run(form, boots, samples, arguments.out / "overhead.json", command, not arguments.no_build, arguments.seed)
    run.run()
    text = text_of(run.results, run.counted)
    (arguments.out / "overhead.txt").write_text(text, encoding="utf-8")
    print(f"\n{text}\n  {shown(run.path)}\n  how to read this: {SUITE.page}; "
          f"{(time.monotonic() - run.began) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    run_main(main)
