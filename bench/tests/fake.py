# SPDX-License-Identifier: GPL-2.0-only
"""What the tests put in place of a machine: a suite of two small benchmarks, and cgroups made of plain files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401
import parsers
import suite
from common import Fail
from results import Results, row_of, with_oracle
from suite import (BASELINE, FULL, HIGHER, HINT, HOST, LOWER, PINNED, PROFILE, QUICK, SEED, Bench, Configuration,
                   Figure, Metric, Suite, Switch, Verdict)

SWITCH = Switch("/nonexistent/switch", "1", "0")
SMALL = Suite(
    name="small", title="Small", benches=(
        Bench("hackbench", "hackbench", "groups", "echo 'Time: 1.{load}'", ("hackbench",), parsers.hackbench,
              (Metric("time", "s", LOWER, "time"),), {FULL: {1: 10, 2: 10}, QUICK: {1: 5}, HOST: {1: 99, 2: 99}},
              lambda load, work: load * work),
        Bench("tbench", "tbench", "clients", "exec tbench {load} {work}", ("tbench",), parsers.tbench,
              (Metric("operations", "1/s", HIGHER, "operations"),
               Metric("throughput", "MB/s", HIGHER, "rate", False, True)),
              {FULL: {4: 0.5}, QUICK: {4: 0.25}, HOST: {4: 10}}, lambda load, work: load * work,
              host_command="exec tbench -t {work} {load}", quick_configurations=("fork_spread", "node"))),
    topologies=("zen", "xeon"), quick_topologies=("zen",),
    configurations=(
        Configuration("none", BASELINE), Configuration("fork_spread", HINT, "Fork hints", "fork_spread"),
        Configuration("both", HINT, "Combinations", "fork_affine wake_affine"),
        Configuration("seed1", SEED, "Combinations", "wake_affine", switches=(SWITCH,)),
        Configuration("background", PROFILE, "Profiles", "background"),
        Configuration("llc", PINNED, pin="llc"), Configuration("node", PINNED, pin="node")),
    samples={FULL: 3, QUICK: 1, HOST: 5}, page="bench/small.md", quick_configurations=("both", "llc"),
    figures=(Figure("on any machine", "+1 %", "+10 %", lambda view, _: Verdict(True, "+12.0 %", "with everything")),
             Figure("on split ones", "+1 %", "+10 %", lambda view, _: Verdict(False, "+2.0 %"), split_only=True),
             Figure("not judged", "none", "to be known", lambda view, _: Verdict(None, "-400.0 %"))))


def results(medians: Mapping[str, Mapping[int, float]], bench: str = "hackbench", topology: str = "zen",
            of: Suite = SMALL, samples: int = 1, metric: str = "") -> Results:
    """Results with these medians by configuration and load, for the first or a named metric of a benchmark."""
    metric_of = of.bench(bench).metric(metric) if metric else of.bench(bench).metrics[0]
    rows = [row_of((bench, topology, config, load, metric_of.name), metric_of.unit, metric_of.better, [value] * samples)
            for config, values in medians.items() for load, value in values.items()]
    environment = {
        "date": "2024-02-29T12:00:00+00:00", "where": "lab", "form": FULL, "quick": False, "samples": samples,
        "kernel": "6.12.117-steer", "kver": "6.12", "hooks": ["fork.patch"], "tested_with": "6.12.117-1",
        "topologies": {topology: suite.LAYOUTS[topology].describe()}, "machines": {topology: {"qemu": "10.0.2"}},
        "configurations": [of.configuration(name).describe() for name in medians], "commands": {f"{bench}/1": "true"},
        "command": "make bench SUITE=small", "forced": [], "remarks": [], "revision": "1" * 40,
        "mechanism": "a" * 64, "duration_s": 60.5, "host_cpus": 2}
    return Results(of.name, environment, with_oracle(rows, of), complete=True,
                   expected=[[bench, topology, config, load] for config, values in medians.items() for load in values])


def with_switch(path: Path, command: str) -> Suite:
    """The small suite with a real file as its switch, and another command as its first benchmark."""
    first, *others = SMALL.benches
    return replace(SMALL, benches=(replace(first, command=command), *others), configurations=tuple(
        replace(c, switches=(Switch(str(path), "1", "0"),)) if c.switches else c for c in SMALL.configurations))


class Cgroups:
    """A directory with programs that stand for mkdir, rmdir, and what else would touch the machine of the tests."""

    def __init__(self, directory: Path, refuse: Sequence[str] = ()):
        self.group = directory / "cgroup" / "bench"
        self.group.parent.mkdir()
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.log = directory / "log"
        self.functions = ""
        # As the kernel would: the group's files appear with it. What is written to a setting comes into force at once.
        self.program("mkdir", f"""/bin/mkdir "$1" && cd "$1" || exit
touch cgroup.procs cgroup.kill cgroup.subtree_control cpu.hint cpu.weight cpuset.cpus
ln -s cpu.hint cpu.hint.effective
ln -s cpuset.cpus cpuset.cpus.effective
printf 'usage_usec 5\\nhint_wake_followed 7\\nhint_wake_full 0\\n' > cpu.stat
for name in {' '.join(refuse)}; do rm "$name"; /bin/mkdir "$name"; done""")
        self.program("rmdir", f"""cat "$1/cpu.hint" >> {self.log} 2>/dev/null; exec rm -r "$1" """)
        for name in ("mount", "ip", "ifconfig", "sleep"):
            self.program(name, "exit 0")

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        # Busybox's shell knows commands of its own before it looks for programs, but not before functions.
        self.functions += f'{name}() {{ {path} "$@"; }}\n'

    @property
    def path(self) -> str:
        return f"{self.programs}:{os.environ['PATH']}"

    def adapt(self, script: str) -> str:
        return script.replace("/sys/fs/cgroup/bench", str(self.group))

    def run(self, script: str, shell: Sequence[str] = ("sh",)) -> str:
        return subprocess.run([*shell, "-c", self.functions + self.adapt(script)],
                              env={**os.environ, "PATH": self.path}, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False).stdout


def shells() -> list[list[str]]:
    """The shells that a script may meet: Debian's, and busybox's in the lab."""
    return [["sh"], *([["busybox", "sh"]] if shutil.which("busybox") else [])]


@dataclass
class Result:
    output: str
    status: int = 0
    counters: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=lambda: {"qemu": "10.0.2"})


class FakeRunner:
    """Answers a script as the machine would: `answer` gives a case's output, or None for one that fails."""

    def __init__(self, answer: Callable[[suite.Case], str | None], stop_after: int = -1,
                 stop: BaseException | None = None):
        self.answer, self.stop_after, self.stop = answer, stop_after, stop
        self.scripts: list[str] = []
        self.programs: list[Sequence[str]] = []
        self.samples: list[int] = []
        self.chunks: list[suite.Chunk] = []

    def __call__(self, topology: str, script: str, programs: Sequence[str], *, extra: Mapping[str, Path], timeout: int,
                 on_line: Callable[[str], None], sample: int) -> Result:
        self.scripts.append(script)
        self.samples.append(sample)
        self.programs.append(programs)
        chunk = self.chunks[len(self.scripts) - 1]
        assert chunk.layout.name == topology and timeout > chunk.seconds
        nonce = script.split("@bench ", 1)[1].split(" ", 1)[0]
        lines: list[str] = []

        def say(text: str) -> None:
            lines.append(text)
            on_line(text)

        say(f"@bench {nonce} kernel 6.12.117-steer")
        for count, case in enumerate(chunk.cases):
            if count == self.stop_after:
                if self.stop:
                    raise self.stop
                return Result("\n".join(lines), 1)
            configuration = SMALL.configuration(case.config)
            say(f"@bench {nonce} effective {case.number} {configuration.hint or 'none'}")
            if configuration.pin:
                say(f"@bench {nonce} cpus {case.number} "
                    f"{suite.cpu_list(chunk.layout.pinnings()[configuration.pin])}")
            say(f"@bench {nonce} begin {case.number}")
            output = self.answer(case)
            for line in (output or "Killed").splitlines():
                say(line)
            say(f"@bench {nonce} end {case.number} {0 if output is not None else 1}")
            say(f"@bench {nonce} stat {case.number} hint_wake_followed 5")
        say(f"@bench {nonce} done")
        return Result("\n".join(lines))


def patch_suites() -> Any:
    """Make the small suite the one that every module loads."""
    def load_suite(name: str) -> Suite:
        if name != SMALL.name:
            raise Fail(f"no suite {name}")
        return SMALL
    return mock.patch.multiple("suite", load_suite=load_suite)
