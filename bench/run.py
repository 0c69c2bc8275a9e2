#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""make bench: run a suite, write build/bench/SUITE.json, print its tables, draw its pictures.

The file is written after each machine, and when the run is interrupted: what was measured is not lost. A file of an
earlier run is kept as SUITE.previous.json; runs are put together by results.py --merge only.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import inspect
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
for directory in (ROOT / "scripts", ROOT / "bench"):
    if str(directory) not in sys.path:
        sys.path.append(str(directory))

import host  # noqa: E402
import picture  # noqa: E402
import provenance  # noqa: E402
import rivals  # noqa: E402
import table  # noqa: E402
import ways  # noqa: E402
from common import ANCESTORS, Fail, Progress, Target, capture, run_main  # noqa: E402
from parsers import Unreadable  # noqa: E402
from results import Failure, Key, Results, row_of, save, with_oracle  # noqa: E402
from suite import (FULL, HOST, QUICK, SEED, Bench, Case, Chunk, Outcome, Reader, Selection, Suite,  # noqa: E402
                   estimate, known_suites, load_suite, plan, script)

OUT = ROOT / "build/bench"
LAYERS = ROOT / "bench/apps"
SCX = "lab-scx"  # variant of the lab's kernel with sched_ext
OWN_PROGRAMS = ROOT / "bench/workloads"
# Suites that need another way of running: modules with a main() of their own.
OWN_RUNNERS = ("overhead",)
# A machine may take this many times as long as estimated, and then this many seconds more, until it is given up.
PATIENCE, MERCY = 8, 300


class RunResult(Protocol):
    """What a runner gives back."""

    @property
    def output(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def counters(self) -> Any: ...
    @property
    def environment(self) -> dict[str, Any]: ...


class Runner(Protocol):
    """Runs a shell script on a machine; bench/lab/lab.py has one, bench/host.py another."""

    def __call__(self, topology: str, script: str, programs: Sequence[str], *, extra: Mapping[str, Path],
                 timeout: int, on_line: Callable[[str], None], sample: int) -> RunResult: ...


def seed_of(sample: int) -> int:
    """With what the random numbers of a sample's boots begin; the first are those of `make lab`."""
    return 1 + sample


def lab_variant(suite: Suite, chunks: Sequence[Chunk]) -> str:
    """The lab's kernel for a run. Rules of ancestors are in one of their own only; what is compared with them is
    measured on that one as well. sched_ext is in another one, for what runs under one of the schedulers built."""
    used = [suite.configuration(name) for name in {case.config for chunk in chunks for case in chunk.cases}]
    built = rivals.available()
    scheduled = any(configuration.scheduler_program in built for configuration in used)
    compares = any(configuration.kind == SEED for configuration in used)
    if scheduled and compares:
        raise Fail("CONFIGS: rules of ancestors and the schedulers of sched_ext are in different kernels; measure them in "
                   "two runs")
    return SCX if scheduled else f"lab-{ANCESTORS}" if compares else "lab"


def lab_runner(topologies: Sequence[str] = (), costs: Sequence[str] = (), variant: str = "lab") -> Runner:
    """The lab's, which shows nothing by itself. One that cannot hand on lines as they come does so at the end.

    The machine of the kernel with sched_ext is described so that its schedulers understand it.

    `costs` are changes of what its machines cost, as key=value; they are looked at before anything is run. What is
    random in a boot begins with seed_of() its sample: two boots that do the same in the same order are the same one.
    """
    sys.path.append(str(ROOT / "bench/lab"))
    try:
        lab = importlib.import_module("lab")
    except ImportError as error:
        raise Fail(f"WHERE=lab needs bench/lab ({error}); WHERE=host measures on this machine") from error
    for name in topologies:
        lab.machine_of(name, costs)
    streams = "on_line" in inspect.signature(lab.run_script).parameters

    def run_script(topology: str, script: str, programs: Sequence[str], *, extra: Mapping[str, Path], timeout: int,
                   on_line: Callable[[str], None], sample: int) -> RunResult:
        arguments: dict[str, Any] = {"on_line": on_line} if streams else {}
        settings: dict[str, Any] = {"seed": seed_of(sample)}
        if variant != "lab":
            arguments["variant"] = variant
        if variant == SCX:
            settings["socket_per_llc"] = True
        result: RunResult = lab.run_script(lab.machine_of(topology, costs, **settings), script, programs,
                                           extra=extra, timeout=timeout, **arguments)
        if not streams:
            for line in result.output.splitlines():
                on_line(line)
        return result

    return run_script


def build_own_programs(programs: Sequence[str], out: Path) -> Path:
    """Those of the programs that are in this repository, compiled for this machine."""
    out.mkdir(parents=True, exist_ok=True)
    for name in programs:
        source = OWN_PROGRAMS / f"{name}.c"
        if source.is_file():
            if not shutil.which("gcc"):
                raise Fail(f"gcc is missing, which compiles {name}; as root: apt-get install gcc libc6-dev")
            openmp = ["-fopenmp"] if b"#pragma omp" in source.read_bytes() else []
            capture(["gcc", "-O2", "-Wall", "-Wextra", "-pthread", *openmp, "-o", out / name, source, "-lm"])
    return out


def scrub(value: Any) -> Any:
    """A runner's environment without what names this machine's directories or differs from run to run: that of a boot's
    random numbers is its sample's, and the name of its device tree, which has them in it, with them."""
    if isinstance(value, dict):
        return {key: scrub(item) for key, item in value.items() if key != "seed"}
    if isinstance(value, (list, tuple)):
        return ["SAMPLE" if before == "-seed" else scrub(item) for before, item in zip(("", *value), value)]
    if isinstance(value, str):
        value = re.sub(r"/run/[0-9]+-[0-9a-f]+/", "/run/N/", value.replace(f"{ROOT}/", ""))
        return re.sub(r"/[0-9a-f]{16}\.dtb$", "/MACHINE.dtb", value)
    return value


def read_hooks(kver: str) -> tuple[list[str], str]:
    """The hooks of a kernel version, and the version of the source that they were tested with."""
    base = ROOT / "hooks" / kver
    lines = (base / "series").read_text(encoding="utf-8").splitlines()
    tested = base / "tested-with"
    return ([line for line in lines if line and not line.startswith("#")],
            tested.read_text(encoding="utf-8").strip() if tested.is_file() else "")


def place_of(case: Case) -> dict[str, Any]:
    return {"bench": case.bench, "topology": case.topology, "config": case.config, "load": case.load}


class Run:
    """A suite being run: what has been measured so far, and where it goes."""

    def __init__(self, suite: Suite, selection: Selection, runner: Runner, path: Path, *, command: str,
                 forced: Sequence[str] = (), costs: Sequence[str] = ()):
        self.suite, self.selection, self.runner, self.path = suite, selection, runner, path
        self.rivals = {} if selection.host else rivals.available()
        self.chunks = plan(suite, selection)
        self.values: dict[Key, list[tuple[int, float]]] = {}
        self.counters: dict[tuple[str, str, str, int], dict[str, int]] = {}
        self.counted: list[tuple[int, Case, dict[str, float]]] = []
        self.last_reason, self.troubled = "", False
        self.count, self.total = 0, sum(len(chunk.cases) for chunk in self.chunks)
        self.expected = list(dict.fromkeys((case.bench, case.topology, case.config, case.load)
                                           for chunk in self.chunks for case in chunk.cases))
        layouts = {chunk.layout.name: chunk.layout for chunk in self.chunks}
        used = list(dict.fromkeys(entry[2] for entry in self.expected))
        kver = Target.from_environment().kver
        hooks, tested = read_hooks(kver)
        self.results = Results(suite.name, {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "where": "host" if selection.host else "lab", "form": selection.form, "quick": selection.short,
            "samples": selection.sample_count(suite), "command": command, "kernel": "unknown", "kver": kver,
            "hooks": hooks, "tested_with": tested,
            "topologies": {name: layout.describe() for name, layout in layouts.items()}, "machines": {},
            "configurations": [suite.configuration(name).describe() for name in used],
            "commands": {f"{bench}/{load}": suite.bench(bench).shell(load, selection.form)
                         for bench, load in dict.fromkeys((entry[0], entry[3]) for entry in self.expected)},
            "forced": list(forced), "remarks": [], "costs": list(costs),
            "seeds": [] if selection.host else [seed_of(sample) for sample in range(selection.sample_count(suite))],
            **provenance.header(built=not selection.host and not os.environ.get("KERNEL"))},
            expected=[list(entry) for entry in self.expected])
        self.began = time.monotonic()
        self.progress = Progress(f"bench {suite.name}")

    def remark(self, text: str) -> None:
        if text not in self.results.environment["remarks"]:
            self.results.environment["remarks"].append(text)

    def fail(self, case: Case, reason: str) -> None:
        self.results.failures.append(Failure(case.bench, case.topology, case.config, case.load, case.sample, reason))
        # A machine that stops takes all that it had not got to with it: that is said once.
        if reason == self.last_reason:
            return
        self.last_reason = reason
        print(f"{chr(13)}\033[K" if self.progress.tty else "", end="")
        print(f"  FAILED {case.id}: {reason}", flush=True)

    def started(self, case: Case) -> None:
        self.progress.update(f"{self.count} of {self.total}, {case.id}")

    def finished(self, outcome: Outcome) -> None:
        """Take a case's values; those that the benchmark should give and did not are a failure."""
        self.count += 1
        case, bench = outcome.case, self.suite.bench(outcome.case.bench)
        problem, values = outcome.problem, {}
        if outcome.skipped:
            self.skip(case, outcome.skipped)
            return
        if not problem:
            try:
                values = bench.parse(outcome.output)
                if bench.series:
                    self.results.series.append(place_of(case) | {"sample": case.sample, **bench.series(outcome.output)})
            except (Unreadable, ValueError, LookupError, TypeError) as error:
                tail = " / ".join(outcome.output.strip().splitlines()[-3:])
                problem = f"output not understood: {error}: {tail or 'no output'}"
        lacking = [metric.name for metric in bench.metrics if metric.name not in values and not metric.optional]
        if not problem and lacking:
            problem = f"no value for {', '.join(lacking)}"
        if problem:
            self.fail(case, problem)
            return
        self.take_values(case, values)
        if outcome.counted is not None and bench.derive:
            self.counted.append((outcome.counted, case, values))
        total = self.counters.setdefault((case.bench, case.topology, case.config, case.load), {})
        for name, value in outcome.counters.items():
            total[name] = total.get(name, 0) + value
        if outcome.effective and ":unavailable" in outcome.effective:
            self.remark(f"{case.config} on {case.topology}: {outcome.effective}")

    def take_values(self, case: Case, values: Mapping[str, float]) -> None:
        for metric in self.suite.bench(case.bench).metrics:
            if metric.name in values:
                key = (case.bench, case.topology, case.config, case.load, metric.name)
                self.values.setdefault(key, []).append((case.sample, values[metric.name]))

    def skip(self, case: Case, reason: str) -> None:
        """What this kernel or machine does not have is neither measured nor a failure, and is said."""
        entry = place_of(case) | {"reason": reason}
        if entry not in self.results.skipped:
            self.results.skipped.append(entry)

    def take_counts(self, records: Any, environment: Mapping[str, Any]) -> None:
        """The lab's counts come with the end of the machine: two records for each case, in the order of the cases."""
        if not self.counted:
            return
        marks = [record for record in records or () if record.get("at") == "mark"]
        for number, case, values in self.counted:
            if 2 * number + 1 < len(marks) and (derive := self.suite.bench(case.bench).derive):
                before, after = marks[2 * number], marks[2 * number + 1]
                grown = {key: after[key] - before[key]
                         for key in ("kernel", "user", "busy_ns", "energy_nj") if key in before}
                self.take_values(case, derive(values, grown, environment.get("costs", {})))
        self.counted = []

    def run_chunk(self, chunk: Chunk, number: int) -> None:
        """One boot of the machine, or one script on this one."""
        print(f"  [{number}/{len(self.chunks)}] {chunk.layout.name}: {len(chunk.cases)} runs, "
              f"{', '.join(dict.fromkeys(case.bench for case in chunk.cases))}", flush=True)
        self.last_reason, self.counted = "", []
        nonce = secrets.token_hex(8)
        reader = Reader(self.suite, chunk, nonce, self.finished, self.started)
        benches = [self.suite.bench(name) for name in dict.fromkeys(case.bench for case in chunk.cases)]
        programs = sorted({program for bench in benches for program in bench.programs})
        extra = {} if self.selection.host else self.files_for(chunk, benches)
        try:
            result = self.runner(chunk.layout.name, script(self.suite, chunk, self.selection.form, nonce), programs,
                                 extra=extra, timeout=round(PATIENCE * chunk.seconds) + MERCY, on_line=reader.feed,
                                 sample=chunk.cases[0].sample)
        except Fail as failure:
            # One that did not even start will not start the next time either.
            if not reader.kernel:
                raise
            print(f"\n  {failure}", file=sys.stderr)
            self.trouble(reader, str(failure).splitlines()[0])
            return
        except BaseException:
            reader.flush()
            raise
        if not reader.done:
            last = "".join([f": {line}" for line in reader.other if line.strip()][-1:])
            self.trouble(reader, f"the script ended early, status {result.status}{last}")
        reader.close("")
        self.take_counts(result.counters, result.environment)
        self.take_environment(chunk.layout.name, reader.kernel, result.environment)

    def files_for(self, chunk: Chunk, benches: Sequence[Bench]) -> dict[str, Path]:
        """What goes into the lab's machine besides programs; a scheduler that is not built makes its cases skipped."""
        schedulers = {self.suite.configuration(case.config).scheduler_program for case in chunk.cases}
        found = {f"bin/{name}": path for name, path in self.rivals.items() if name in schedulers}
        if found:
            found |= {f"lab/{path.name}": path for path in sorted(LAYERS.glob("layers*.json"))}
        return {**{name: path for bench in benches for name, path in bench.files.items()}, **found}

    def trouble(self, reader: Reader, reason: str) -> None:
        """A machine that did not end well makes the run fail, even where every case had ended before."""
        self.troubled = True
        self.remark(f"{reader.layout.name}: {reason}")
        reader.close(reason)

    def take_environment(self, topology: str, kernel: str, environment: Mapping[str, Any]) -> None:
        """Record the machine; one that is not the same for all rows is worth a remark."""
        header = self.results.environment
        if header["kernel"] == "unknown":
            header["kernel"] = kernel
        elif header["kernel"] != kernel:
            self.remark(f"the kernel changed in between: {header['kernel']}, then {kernel}")
        known = json.loads(json.dumps(scrub(dict(environment)), default=str))
        before = header["machines"].setdefault(topology, known)
        for key in sorted(name for name in before.keys() | known.keys() if before.get(name) != known.get(name)):
            self.remark(f"'{key}' of {topology} changed in between")

    def write(self, complete: bool) -> None:
        header = self.results.environment
        header["duration_s"] = round(time.monotonic() - self.began, 1)
        if text := provenance.changed(header["mechanism"]):
            self.remark(text)
        rows = []
        for key, values in self.values.items():
            metric = self.suite.bench(key[0]).metric(key[4])
            rows.append(row_of(key, metric.unit, metric.better, [value for _, value in sorted(values)]))
        self.results.rows = with_oracle(rows, self.suite)
        self.results.counters = [
            {"bench": bench, "topology": topology, "config": config, "load": load, "counters": found}
            for (bench, topology, config, load), found in self.counters.items() if found]
        self.results.complete = complete
        save(self.results, self.path)

    def run(self) -> None:
        """Everything; the results so far are on disk whatever happens."""
        if self.path.exists():
            kept = self.path.with_suffix(".previous.json")
            self.path.replace(kept)
            print(f"  the results before these are kept as {kept.name}", flush=True)
        try:
            for number, chunk in enumerate(self.chunks, 1):
                self.run_chunk(chunk, number)
                self.write(complete=number == len(self.chunks))
        except BaseException:
            if self.values or self.results.failures:
                self.write(complete=False)
                print(f"\n  not finished; what was measured so far is in {shown(self.path)}", file=sys.stderr)
            raise
        self.progress.finish(f"{self.count} of {self.total} runs, {len(self.results.failures)} failed")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM, as of 'timeout' and CI systems, ends a run as carefully as control-C does."""
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_forced() -> bool:
    return os.environ.get("FORCE", "") not in ("", "0")


def make_command(arguments: argparse.Namespace) -> str:
    """The command that makes the same results again."""
    words = [f"SUITE={arguments.suite}", "QUICK=1" if arguments.quick else "",
             f"TOPO={arguments.topology}" if arguments.topology else "",
             f"WHERE={arguments.where}" if arguments.where != "lab" else "",
             f"BENCHES={arguments.benches}" if arguments.benches else "",
             f"LOADS={arguments.loads}" if arguments.loads else "",
             f"CONFIGS={arguments.configs}" if arguments.configs else "",
             f"SAMPLES={arguments.samples}" if arguments.samples else "",
             f"COST={' '.join(arguments.cost)}" if arguments.cost else "",
             "FORCE=1" if is_forced() else ""]
    return " ".join(["make bench", *(shlex.quote(word) for word in words if word)])


def names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="hint", help=f"one of: {', '.join(known_suites())}")
    parser.add_argument("--quick", action="store_true", help="the form that takes less than 10 minutes")
    parser.add_argument("--topology", default="", help="the lab's machines, separated by commas (default: the suite's)")
    parser.add_argument("--where", choices=("lab", "host"), default="lab")
    parser.add_argument("--benches", default="", help="only these, separated by commas")
    parser.add_argument("--loads", default="", help="only these of the benchmarks' loads, separated by commas")
    parser.add_argument("--configs", default="", help="the baseline and only these; 'oracle' stands for all pinnings")
    parser.add_argument("--samples", type=int, default=0, help="runs of each case (default: the suite's)")
    parser.add_argument("--cost", action="append", default=[], metavar="KEY=VALUE",
                        help="change a cost of the lab's machines, see bench/lab/costs.toml")
    parser.add_argument("--out", type=Path, default=OUT, help="where results and pictures go")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and how long it takes, and run nothing")
    parser.add_argument("--script", action="store_true", help="with --dry-run, print the scripts as well")
    return parser.parse_args(argv)


def select(arguments: argparse.Namespace) -> Selection:
    if arguments.where == "host" and arguments.topology:
        raise Fail("TOPO= is about the lab; WHERE=host has the topology of this machine")
    if arguments.where == "host" and arguments.cost:
        raise Fail(f"COST={' '.join(arguments.cost)} is about the lab; WHERE=host measures what this machine costs")
    if arguments.samples < 0:
        raise Fail(f"SAMPLES={arguments.samples} is not a number of runs")
    if not all(load.isdecimal() for load in names(arguments.loads)):
        raise Fail(f"LOADS={arguments.loads} are no numbers with commas between them")
    machine = host.layout() if arguments.where == "host" else None
    form = HOST if machine else QUICK if arguments.quick else FULL
    return Selection(form, names(arguments.topology), names(arguments.benches), names(arguments.configs),
                     arguments.samples, machine, arguments.quick, tuple(map(int, names(arguments.loads))))


def report_plan(suite: Suite, chunks: Sequence[Chunk], form: str, scripts: bool) -> None:
    for number, chunk in enumerate(chunks, 1):
        print(f"  [{number}/{len(chunks)}] {chunk.layout.name}: {len(chunk.cases)} runs, about {chunk.seconds:.0f} s")
        for case in chunk.cases:
            print(f"    {case.id}")
        if scripts:
            print(script(suite, chunk, form, "NONCE"))
    print(f"  {sum(len(chunk.cases) for chunk in chunks)} runs"
          + ("" if form == HOST else f", about {estimate(chunks) / 60:.0f} minutes in the lab on two CPUs"))


def refuse_foreign(arguments: argparse.Namespace) -> None:
    """What a suite with a runner of its own does not have would be measured as something else, without a word."""
    name, machine = arguments.suite, ", ".join(load_suite(arguments.suite).topologies)
    for variable, value, takes, why in (
            ("WHERE", arguments.where, "lab", "counts what the lab's machine executes"),
            ("TOPO", arguments.topology, machine, "has one machine"),
            ("LOADS", arguments.loads, "", "has no choice of loads (BENCHES, CONFIGS and SAMPLES select)"),
            ("COST", " ".join(arguments.cost), "", "counts instructions, whatever they cost"),
            ("--dry-run", "1" if arguments.dry_run else "", "", "has no plan to print")):
        if value not in ("", takes):
            raise Fail(f"{variable}{'' if variable.startswith('--') else f'={value}'}: SUITE={name} {why}; it takes "
                       + (f"{variable}={takes}, which is the default" if takes else f"no {variable}"))


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    arguments = parse_arguments(argv)
    if arguments.suite in OWN_RUNNERS:
        refuse_foreign(arguments)
        own: int = importlib.import_module(arguments.suite).main(
            [*(["--quick"] if arguments.quick else []), "--benches", arguments.benches, "--configs", arguments.configs,
             "--samples", str(arguments.samples), "--out", str(arguments.out)])
        return own
    suite = load_suite(arguments.suite)
    selection = select(arguments)
    chunks = plan(suite, selection)
    if arguments.dry_run:
        report_plan(suite, chunks, selection.form, arguments.script)
        return 0
    forced: list[str] = []
    if not runner and arguments.where == "host":
        forced = host.demand(host.preconditions(suite, benches=selection.benches), is_forced())
        programs = sorted({name for bench in suite.benches for name in bench.programs})
        runner = host.HostRunner(build_own_programs(programs, arguments.out / "programs"))
    elif not runner:
        runner = lab_runner([layout.name for layout in selection.layouts(suite)], arguments.cost,
                            lab_variant(suite, chunks))
    what = f"machines, about {estimate(chunks) / 60:.0f} minutes" if arguments.where == "lab" else "scripts"
    print(f"  suite {suite.name}: {sum(len(chunk.cases) for chunk in chunks)} runs in {len(chunks)} {what}", flush=True)
    run = Run(suite, selection, runner, arguments.out / f"{suite.name}.json", command=make_command(arguments),
              forced=forced, costs=arguments.cost)
    began = time.monotonic()
    with terminated_like_interrupted():
        run.run()
    text = table.console(run.results, suite)
    (arguments.out / f"{suite.name}.txt").write_text(text, encoding="utf-8")
    (arguments.out / f"{suite.name}.rst").write_text(table.rst(run.results, suite), encoding="utf-8")
    print(f"\n{text}")
    pictures = picture.write_all(run.results, suite, arguments.out)
    if suite.rivals:
        pictures += ways.write(run.results, suite, arguments.out)
    for path in (run.path, *pictures):
        print(f"  {shown(path)}")
    print(f"  how to read this: {suite.page}; {(time.monotonic() - began) / 60:.1f} minutes")
    failed, missing = len(run.results.failures), len(run.results.missing())
    if failed or missing or run.troubled:
        print(f"  NOT WELL: {failed} runs failed, {missing} rows are missing or short of samples; see the list above")
        return 1
    return 0


if __name__ == "__main__":
    run_main(main)
