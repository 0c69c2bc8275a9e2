#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run each benchmark that the lab has, briefly, in one boot of a small machine, and read what it prints.

The commands are those of bench/lab/README.md. What they measure is not judged, only that there is a result which the
parser of that benchmark (bench/parsers.py) understands.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "vm", "bench/lab")]
if str(ROOT / "bench") not in sys.path:
    sys.path.append(str(ROOT / "bench"))  # behind vm, which has a module "run", too

import lab  # noqa: E402
import parsers  # noqa: E402
from common import Target, run_main  # noqa: E402
from ktap import FAILED, PASSED, Test, tell  # noqa: E402

# In slow motion, because tbench takes a second at least.
MACHINE = "1x2x2x2@20"
TIMEOUT = 600


@dataclass(frozen=True)
class Example:
    """A benchmark: how it is started, and what reads its output."""

    name: str
    command: str
    parse: parsers.Parser


EXAMPLES = (
    Example("hackbench", "hackbench -g 1 -l 100", parsers.hackbench),
    Example("cyclictest", "cyclictest -q -t 4 -i 1000 -l 20", parsers.cyclictest),
    Example("tbench", "tbench_srv & sleep 0.1; tbench -t 1 2 127.0.0.1", parsers.tbench),
    Example("perf sched messaging", "perf bench sched messaging -g 1 -l 10", parsers.perf_sched),
    Example("perf sched pipe", "perf bench sched pipe -l 200", parsers.perf_sched),
    Example("perf futex", "perf bench futex wake -t 16", parsers.perf_futex),
    Example("stress-ng", "stress-ng --switch 2 --switch-ops 200 --metrics-brief", parsers.stress_ng),
    Example("sysbench", "sysbench threads --threads=4 --events=20 --time=0 run", parsers.sysbench),
    Example("fio", "fio --name=read --filename=/dev/nullb0 --rw=randread --bs=4k --direct=1 --numjobs=2 "
            "--number_ios=50 --output-format=json", parsers.fio),
    Example("rt-app", r'echo "{\"global\": {\"calibration\": 100, \"logdir\": \"/tmp\", \"log_size\": 1}, \"tasks\": {\"a\": '
            r'{\"loop\": 1, \"phases\": {\"p\": {\"loop\": 10, \"run\": 50, '
            r'\"timer\": {\"ref\": \"t\", \"period\": 8000}}}}}}" | rt-app - > /dev/null; cat /tmp/rt-app-*.log', parsers.rt_app),
    Example("schbench", "schbench -m 1 -t 4 -F 24 -n 3 -w 0.01 -r 0.1 --json", parsers.schbench),
    Example("stream", "stream -t 4 -n 50000 -k 2 --json", parsers.stream),
    Example("numactl", "numactl --interleave=all stream -t 2 -n 20000 -k 2 --touch-first --json", parsers.stream),
)


def script_of(examples: Sequence[Example]) -> str:
    """Each in a shell of its own, its output between two lines that no program prints."""
    lines = []
    for number, example in enumerate(examples):
        lines += [f"echo '@begin {number}'", f"(\n{example.command}\n) 2>&1", "status=$?", "echo",
                  f'echo "@end {number} $status"']
    return "\n".join(lines)


def judge(examples: Sequence[Example], text: str) -> list[Test]:
    """A test for each: it ran, ended well, and said what its parser looks for."""
    tests = []
    for number, example in enumerate(examples):
        name = f"lab program: {example.name}"
        match = re.search(rf"^@begin {number}\n(.*?)^@end {number} (\d+)$", text, re.MULTILINE | re.DOTALL)
        if not match:
            tests.append(Test(name, FAILED, "it did not end"))
            continue
        tail = " / ".join(match[1].strip().splitlines()[-3:]) or "no output"
        try:
            if match[2] != "0":
                raise parsers.Unreadable(f"status {match[2]}")
            values = example.parse(match[1])
        except (parsers.Unreadable, ValueError, LookupError, TypeError) as error:
            tests.append(Test(name, FAILED, f"{example.command}: {error}: {tail}"))
            continue
        print(f"    {example.name}: " + ", ".join(f"{key} {value:g}" for key, value in values.items()), flush=True)
        tests.append(Test(name, PASSED))
    return tests


def run(_: Target) -> list[Test]:
    """As a step of `make check`."""
    machine = lab.machine_of(MACHINE)
    commands = "\n".join(example.command for example in EXAMPLES)
    result = lab.run_script(machine, lab.PREPARE + script_of(EXAMPLES), lab.programs_in(commands),
                            what="lab-programs", timeout=TIMEOUT)
    return judge(EXAMPLES, result.output)


def main() -> int:
    return tell(run(Target.from_environment()))


if __name__ == "__main__":
    run_main(main)
