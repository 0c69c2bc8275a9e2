#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Short runs of the lab whose ratios are far from any doubt, and whose counts are exact.

Hints: with more workers than an LLC has CPUs, following a wake hint as seed 1 did makes p99 wakeup latency tens of
times what it is without a hint; ours must not. Gangs: four barrier programs on the same CPUs gain tens of times, and a
task that wakes up beside them waits little longer than without gangs. Headroom: a service beside a job that wants every
CPU is not slowed down as weights let it, and its share stays idle. Ratios of one run, so that nothing depends on the
host. On a full machine, who has a wake hint is not kept waiting in its LLC; and what a headroom holds back leaves its
core to the service. Counts (--counts): what hints add to the instructions of a wakeup, and those of others to a switch
and a fork, in the same boot of one kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "vm", "bench/lab")]

from common import Fail, Target, run_main  # noqa: E402
from ktap import FAILED, PASSED, Test, tell  # noqa: E402
from selfcheck import SECOND_SEED, failed_twice  # noqa: E402
from suites.overhead import (ELSEWHERE, IN_USE_PERCENT, INSTRUCTIONS, MOVING, NOISE_PERCENT, OWN,  # noqa: E402
                             SETTLED, SUITE, UNUSED)

OUT = ROOT / "build/bench/regression"
WORKERS, GANGS, LOAD = 16, 4, 40
FULL_WORKERS = 128
SLOT_US = 4000.0


@dataclass(frozen=True)
class Ratio:
    """One test: a configuration's median in times the baseline's, and of so much more as it may have."""

    suite: str
    bench: str
    load: int
    metric: str
    baseline: str
    config: str
    least: float = 0.0
    most: float = float("inf")
    more: float = 0.0

    @property
    def name(self) -> str:
        more = f" and {self.more:g}" if self.more else ""
        return f"{self.bench} {self.load}, {self.config}: {self.metric} against {self.baseline}{more}"

    @property
    def wanted(self) -> str:
        return f"at least {self.least:g}" if self.least else f"at most {self.most:g}"

    def judge(self, rows: list[dict[str, Any]]) -> Test:
        medians = {row["config"]: row["median"] for row in rows
                   if (row["bench"], row["load"], row["metric"]) == (self.bench, self.load, self.metric)}
        if self.config not in medians or not medians.get(self.baseline):
            return Test(self.name, FAILED, "not measured")
        ratio = medians[self.config] / (medians[self.baseline] + self.more)
        print(f"    {self.name}: {ratio:.2f} times", flush=True)
        if self.least <= ratio <= self.most:
            return Test(self.name, PASSED)
        return Test(self.name, FAILED, f"{ratio:.2f} times; wanted: {self.wanted}")


@dataclass(frozen=True)
class Share:
    """One test: how often the kernel counted one thing, of how often it counted either of two."""

    bench: str
    load: int
    config: str
    counter: str
    other: str
    most: float

    @property
    def name(self) -> str:
        return f"{self.bench} {self.load}, {self.config}: {self.counter} of it and {self.other}"

    def judge(self, counters: list[dict[str, Any]]) -> Test:
        found = [entry["counters"] for entry in counters
                 if (entry["bench"], entry["load"], entry["config"]) == (self.bench, self.load, self.config)]
        counted, other = (sum(entry.get(name, 0) for entry in found) for name in (self.counter, self.other))
        if not counted + other:
            return Test(self.name, FAILED, "neither was counted")
        share = counted / (counted + other)
        print(f"    {self.name}: {counted} of {counted + other}", flush=True)
        if share <= self.most:
            return Test(self.name, PASSED)
        return Test(self.name, FAILED, f"{counted} of {counted + other}; wanted: at most {self.most:.0%}")


HINTS = ("fork_affine", "fork_spread", "wake_affine", "wake_hold", "fork_affine+wake_affine", "fork_spread+wake_hold")
RATIOS = (
    # Seen in three runs of three samples: 0.88 to 1.04 for ours; the worst of any run against the best baseline of
    # another is 1.2. Without the rules against crowding, 40 with fork_affine and wake_affine. One sample is too few:
    # one in 17 of the baseline collapses by itself. Not checked is the project's goal, that no hint is more than 5 %
    # worse: that takes more samples, and more loads (make bench SUITE=hint BENCHES=schbench). That the lab shows a
    # collapse where there is one is seen with the rule of the ancestor, 25 to 44, which takes another kernel:
    # make bench SUITE=hint QUICK=1 BENCHES=schbench CONFIGS=seed1
    *(Ratio("hint", "schbench", WORKERS, "wakeup_p99", "none", config, most=1.5) for config in HINTS),
    # Seen: 47 to 53; 0.5 to 0.7, and 1.5 where gangs could all go before a waiting task: a slot longer is the goal.
    Ratio("gang", "barrier", GANGS, "rate", "eevdf", "gang_llc", least=20),
    Ratio("gang", "barrier", GANGS, "late_p99", "eevdf", "gang_llc", most=1, more=SLOT_US),
    # Seen in three boots of one sample: 0.38, 0.47, 0.51; 23, 25, 17; 0.33, 0.31, 0.31; and 0.66 where the p99 of
    # weight was low by chance, so three are taken. Without the last, a side job that never runs would look best.
    Ratio("headroom", "requests", LOAD, "p99", "weight", "headroom30", most=0.6),
    Ratio("headroom", "requests", LOAD, "idle", "weight", "headroom30", least=8),
    Ratio("headroom", "requests", LOAD, "side", "weight", "headroom30", least=0.2),
)
# Where four tasks want each CPU, the balancer may take them out of their LLC. Seen in seven boots: 29 of 4181, and 172
# of 548 in one whose LLCs had room as soon as they had an idle CPU.
HELD = Share("schbench", FULL_WORKERS, "wake_affine", "hint_balance_held", "hint_balance_overloaded", most=0.1)
RUNS = {
    "hint": ("--quick", "--topology", "zen", "--benches", "schbench", "--loads", str(WORKERS), "--configs",
             ",".join(HINTS), "--samples", "3"),
    "gang": ("--topology", "1x1x4x2@20", "--benches", "barrier", "--loads", str(GANGS), "--configs", "gang_llc",
             "--samples", "3"),
    "headroom": ("--quick", "--topology", "1x2x2x2@20", "--benches", "requests", "--configs", "weight,headroom30",
                 "--samples", "3"),
}
# What part of its time, in percent, a service may run beside the side job on its core. Seen: 3 to 13; 26 to 33 before
# the side job left a core that the service came to.
BESIDE_MOST = 18.0
SHARING_CASES = 2  # without and with a hint
FULL = ("--topology", "xeon", "--benches", "schbench", "--loads", str(FULL_WORKERS), "--configs", HELD.config,
        "--samples", "1")


@dataclass(frozen=True)
class Bound:
    """One test: what a configuration may add to an operation, in percent of its instructions while no group has a hint.
    The worst of the benchmarks counts."""

    config: str
    most: float
    metric: str = INSTRUCTIONS
    benches: tuple[str, ...] = SETTLED

    @property
    def name(self) -> str:
        what = "instructions added" if self.metric == INSTRUCTIONS else "instructions of its own"
        operation = "an operation" if set(self.benches) - {*SETTLED, MOVING} else "a wakeup"
        return f"{self.config}: {what} to {operation}, {', '.join(self.benches)}"

    def judge(self, rows: list[dict[str, Any]]) -> Test:
        medians = {(row["bench"], row["config"], row["metric"]): row["median"] for row in rows}
        found = []
        for bench in self.benches:
            base, value = medians.get((bench, UNUSED, INSTRUCTIONS)), medians.get((bench, self.config, self.metric))
            if not base or value is None:
                return Test(self.name, FAILED, f"not counted in {bench}")
            added = value - medians.get((bench, UNUSED, self.metric), 0.0)
            found.append((added / base * 100, added, base, bench))
        percent, added, base, bench = max(found)
        print(f"    {self.name}: {added:+.1f} ({percent:+.2f} %) at most", flush=True)
        if percent <= self.most:
            return Test(self.name, PASSED)
        return Test(self.name, FAILED,
                    f"{added:+.1f} of {base:.1f} in {bench}, {percent:.2f} %; wanted: at most {self.most:g} %")


# The goal, for those that reach it.
GOAL = IN_USE_PERCENT
# Where tasks stay where they are, all that is added is the hint's. Runs differ by some instructions only: what is far
# below the goal is held there, and what misses it is held within about a tenth of what it is now.
BOUNDS = (
    Bound(ELSEWHERE, 0.3, benches=(*SETTLED, MOVING)),
    Bound(ELSEWHERE, NOISE_PERCENT, benches=("switch", "fork-one")),
    *(Bound(config, 1.0) for config in ("fork_spread", "slice_short", "slice_long", "preempt_none", "energy")),
    *(Bound(config, GOAL) for config in ("fork_affine", "wake_affine", "wake_hold", "wake_wide", "scan_full", "scan_none",
                                         "pack", "fork_affine+wake_affine", "fork_spread+wake_hold", "tail_latency",
                                         "interactive", "efficient")),
    # These look at two cores at each wakeup.
    *(Bound(config, 2.9) for config in ("noninteractive", "background")),
    # Where a hint moves tasks, a wakeup costs more or less by itself: only its own code is judged.
    *(Bound(config, GOAL, OWN, (MOVING,)) for config in (
        "fork_affine", "fork_spread", "wake_hold", "wake_wide", "scan_full", "scan_none", "slice_short", "slice_long",
        "preempt_none", "energy", "pack", "fork_spread+wake_hold", "tail_latency", "interactive", "efficient")),
    *(Bound(config, 5.4, OWN, (MOVING,)) for config in ("wake_affine", "fork_affine+wake_affine")),
    *(Bound(config, 2.7, OWN, (MOVING,)) for config in ("noninteractive", "background")),
)
# One kernel; three samples, as one count in fifty meets another state of the machine, with half of the work or a
# quarter more.
COUNTED = ("--quick", "--samples", "3",
           "--benches", ",".join(dict.fromkeys(bench for bound in BOUNDS for bench in bound.benches)),
           "--configs", ",".join(dict.fromkeys(bound.config for bound in BOUNDS)))


def judge(suite: str, rows: list[dict[str, Any]]) -> list[Test]:
    """The suite's tests, from the rows of build/bench/regression/SUITE.json."""
    return [ratio.judge(rows) for ratio in RATIOS if ratio.suite == suite]


def output_of(program: str, *options: str) -> str:
    """Run a program of bench/, and return what it prints."""
    # In a process of its own: bench/run.py and vm/run.py are modules of one name.
    command = [sys.executable, str(ROOT / "bench" / program), *options]
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        raise Fail(f"{program} {' '.join(options)} failed (status {result.returncode}):\n{result.stdout[-3000:]}")
    return result.stdout


def measure(program: str, name: str, *options: str) -> dict[str, Any]:
    """Run a program that writes build/bench/regression/NAME.json, and return that."""
    file = OUT / f"{name}.json"
    file.unlink(missing_ok=True)
    output = output_of(program, *options, "--out", str(OUT))
    if not file.is_file():
        raise Fail(f"{program} {' '.join(options)} failed (status 0), without {file}:\n{output[-3000:]}")
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return report


def judge_sharing(text: str) -> list[Test]:
    """Of what core-sharing.sh prints, how much of the service's time is beside the side job, and whether its tasks see
    that another one is on its way to a CPU."""
    tests, case, passed_over = [], "", 0
    for line in text.splitlines():
        beside = re.search(r"the side job ([0-9.]+) %", line)
        if line.startswith("headroom "):
            case, passed_over = line, 0
        elif counted := re.fullmatch(r"a CPU was passed over (\d+) times", line):
            passed_over = int(counted[1])
        elif case and beside:
            print(f"    {case}: {beside[1]} % of the service's time beside the side job", flush=True)
            # Where it is never there, it has not run.
            fine = 0 < float(beside[1]) <= BESIDE_MOST
            tests.append(Test(f"core-sharing: {case}", PASSED if fine else FAILED,
                              "" if fine else f"{beside[1]} %; wanted: more than 0 and at most {BESIDE_MOST:g} %"))
            print(f"    {case}: a CPU passed over {passed_over} times", flush=True)
            tests.append(Test(f"core-sharing: {case}: a claimed CPU is passed over", PASSED if passed_over else FAILED))
            case = ""
    if len(tests) != 2 * SHARING_CASES:
        tests.append(Test("core-sharing", FAILED, f"not measured: {text[-1000:]}"))
    return tests


def measure_sharing() -> str:
    """Run core-sharing.sh on a machine of the lab, and return what it prints."""
    script = (ROOT / "bench/core-sharing.sh").read_text(encoding="utf-8")
    return output_of("lab/lab.py", "--topology", "1x1x4x2", "--", "demands=30; " + script)


def run(_: Target) -> list[Test]:
    """Run the benchmarks and judge their ratios, and what the kernel counted."""
    # First, since it is of the same name as one of the others.
    held = HELD.judge(measure("run.py", "hint", "--suite", "hint", *FULL)["counters"])
    return [held, *judge_sharing(measure_sharing()),
            *(test for suite in RUNS
              for test in judge(suite, measure("run.py", suite, "--suite", suite, *RUNS[suite])["rows"]))]


def judge_counts(*options: str) -> list[Test]:
    """Count instructions and judge them."""
    rows = measure("overhead.py", SUITE.name, *COUNTED, *options)["rows"]
    return [bound.judge(rows) for bound in BOUNDS]


def run_counts(_: Target) -> list[Test]:
    """The counts; what fails is counted again with other random numbers, for with the same the machine does the same.
    Code that executes more does so each time."""
    return failed_twice(judge_counts(), lambda: judge_counts("--seed", str(SECOND_SEED)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="judge counts instead of ratios")
    arguments = parser.parse_args()
    return tell((run_counts if arguments.counts else run)(Target.from_environment()))


if __name__ == "__main__":
    run_main(main)
