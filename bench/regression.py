#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The collapse of seed 1 and its cure, in the lab: a short run of suite `hint` whose ratios are far from any doubt.

With more workers than an LLC has CPUs, following a wake hint as seed 1 did makes p99 wakeup latency tens of times what
it is without a hint; ours must not. Ratios of one run, so that nothing depends on the host.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "vm")]

from common import Fail, Target, run_main  # noqa: E402
from ktap import FAILED, PASSED, Test, counted, remarks, summary  # noqa: E402

WORKERS = 16
# Seen: 40 to 50 for seed 1, 1 to 2.2 for ours; without the rules against crowding, 40 for both hints.
COLLAPSE, SOUND = 10.0, 5.0
HINTS = ("fork_affine", "wake_affine")


def judge(rows: list[dict[str, Any]]) -> list[Test]:
    """The tests, from the rows of build/bench/regression/hint.json."""
    p99 = {row["config"]: row["median"] for row in rows
           if row["bench"] == "schbench" and row["load"] == WORKERS and row["metric"] == "wakeup_p99"}
    tests = []
    for config, allowed in (("seed1", False), *((hint, True) for hint in HINTS)):
        name = f"schbench with {WORKERS} workers, {config}"
        if config not in p99 or not p99.get("none"):
            tests.append(Test(name, FAILED, "not measured"))
            continue
        ratio = p99[config] / p99["none"]
        good = ratio <= SOUND if allowed else ratio >= COLLAPSE
        wanted = f"at most {SOUND:g}" if allowed else f"at least {COLLAPSE:g}, or the lab shows no collapse"
        print(f"    {name}: p99 {p99[config]:.1f} us, {ratio:.1f} times that without a hint", flush=True)
        tests.append(Test(name, PASSED) if good else Test(name, FAILED, f"{ratio:.1f} times; wanted: {wanted}"))
    return tests


def run(_: Target) -> list[Test]:
    """Run the benchmark and judge it."""
    out = ROOT / "build/bench/regression"
    # In a process of its own: bench/run.py and vm/run.py are modules of one name.
    command = [sys.executable, str(ROOT / "bench/run.py"), "--suite", "hint", "--quick", "--topology", "zen", "--benches",
               "schbench", "--configs", ",".join(("seed1", *HINTS)), "--out", str(out)]
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if result.returncode or not (out / "hint.json").is_file():
        raise Fail(f"bench/run.py failed (status {result.returncode}):\n{result.stdout[-3000:]}")
    return judge(json.loads((out / "hint.json").read_text(encoding="utf-8"))["rows"])


def main() -> int:
    tests = run(Target.from_environment())
    for line in remarks(tests):
        print(f"    {line}")
    counts = summary(tests)
    print(counted(counts))
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    run_main(main)
