#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A short run of the lab whose ratios are far from any doubt.

Hints: with more workers than an LLC has CPUs, following a wake hint as seed 1 did makes p99 wakeup latency tens of
times what it is without a hint; ours must not. Gangs: four barrier programs on the same CPUs gain tens of times, and a
task that wakes up beside them waits little longer than without gangs. Ratios of one run, so that nothing depends on the
host.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "vm")]

from common import Fail, Target, run_main  # noqa: E402
from ktap import FAILED, PASSED, Test, counted, remarks, summary  # noqa: E402

OUT = ROOT / "build/bench/regression"
WORKERS, GANGS = 16, 4
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
    #: What it says of the lab, and not of us, if it fails.
    hint: str = ""

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
        return Test(self.name, FAILED, f"{ratio:.2f} times; wanted: {self.wanted}{self.hint}")


RATIOS = (
    # Seen: 40 to 50 for seed 1, 1 to 2.2 for ours; without the rules against crowding, 40 for both hints.
    Ratio("hint", "schbench", WORKERS, "wakeup_p99", "none", "seed1", least=10, hint=", or the lab shows no collapse"),
    Ratio("hint", "schbench", WORKERS, "wakeup_p99", "none", "fork_affine", most=5),
    Ratio("hint", "schbench", WORKERS, "wakeup_p99", "none", "wake_affine", most=5),
    # Seen: 47 to 53; 0.5 to 0.7, and 1.5 where gangs could all go before a waiting task: a slot longer is the goal.
    Ratio("gang", "barrier", GANGS, "rate", "eevdf", "gang_llc", least=20),
    Ratio("gang", "barrier", GANGS, "late_p99", "eevdf", "gang_llc", most=1, more=SLOT_US),
)
RUNS = {
    "hint": ("--quick", "--topology", "zen", "--benches", "schbench", "--configs", "seed1,fork_affine,wake_affine"),
    "gang": ("--topology", "1x1x4x2@20", "--benches", "barrier", "--loads", str(GANGS), "--configs", "gang_llc",
             "--samples", "3"),
}


def judge(suite: str, rows: list[dict[str, Any]]) -> list[Test]:
    """The suite's tests, from the rows of build/bench/regression/SUITE.json."""
    return [ratio.judge(rows) for ratio in RATIOS if ratio.suite == suite]


def measure(suite: str) -> list[dict[str, Any]]:
    """Run the suite's part, and return its rows."""
    # In a process of its own: bench/run.py and vm/run.py are modules of one name.
    command = [sys.executable, str(ROOT / "bench/run.py"), "--suite", suite, *RUNS[suite], "--out", str(OUT)]
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    file = OUT / f"{suite}.json"
    if result.returncode or not file.is_file():
        raise Fail(f"bench/run.py --suite {suite} failed (status {result.returncode}):\n{result.stdout[-3000:]}")
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def run(_: Target) -> list[Test]:
    """Run the benchmarks and judge them."""
    return [test for suite in RUNS for test in judge(suite, measure(suite))]


def main() -> int:
    tests = run(Target.from_environment())
    for line in remarks(tests):
        print(f"    {line}")
    counts = summary(tests)
    print(counted(counts))
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    run_main(main)
