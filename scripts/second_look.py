# SPDX-License-Identifier: GPL-2.0-only
"""Look again at selftests that judge where tasks ran, when they failed, and past known bugs of the kernel and of QEMU.

An emulated machine has more CPUs than its host, which stand still in turn and for longer the more the host has to do.
Where tasks go depends on what is idle at that moment, so a test of it can fail for reasons that are not in the kernel.
What is broken fails twice; and every first failure is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from emulator import LOST
from ktap import FAILED, Test

# The programs that judge by placement or by shares of CPU time. A kernel complaint, a hang of the machine or a failure
# in any other program counts at once.
STATISTICAL = ("slice_test", "wake_test", "fork_test", "balance_test", "energy_test", "headroom_test", "gang_test")

# Kernel warnings that are not ours, by the function that warns. Linux 6.12 counts the fair server, which is no task, as
# one: if its timer fires while a CPU is being stopped, that CPU seems to have a task left. It takes long to stop one
# where there are more CPUs than the host has. Fixed upstream by 52d15521eb75. sched_cpu_dying() also stops that server
# whether it runs or not; if its timer has just stopped it, its bandwidth is taken off twice.
KNOWN_WARNINGS = ("sched_cpu_dying", "task_non_contending")

# What else fails where a CPU stands still and the machine is ended, beside what is statistical. Anything else counts.
CONSEQUENCE = re.compile(r"^machine: (end|report|programs)$|^console: (rcu.*stall|Call Trace)$|: (start|end|plan)$")


def program_of(test: Test) -> str:
    return test.name.split(":", 1)[0]


def look_again(tests: list[Test], repeat: Callable[[str], Iterable[Test]], repeat_all: Callable[[], list[Test]],
               say: Callable[[str], None] = print) -> list[Test]:
    """The tests, with those of a statistical program that failed replaced by the ones of its repetition.

    After a known warning, which ends the machine, everything is repeated; so it is where QEMU was seen to be at fault.
    """
    failed = [test for test in tests if test.status == FAILED]
    known = [test.detail for test in failed if test.name == "console: WARNING"
             and any(f" {function}+" in test.detail for function in KNOWN_WARNINGS)]
    if known:
        say(f"  a known bug of the kernel, so everything once more: {known[0]}")
        return repeat_all()
    if (lost := [test for test in failed if test.name == "machine: end" and LOST in test.detail]) and all(
            CONSEQUENCE.search(test.name) or program_of(test) in STATISTICAL for test in failed):
        say(f"  a known bug of the emulator, so everything once more: {lost[0].detail}")
        return repeat_all()
    programs = list(dict.fromkeys(map(program_of, failed)))
    if not programs or not set(programs) <= set(STATISTICAL):
        return tests
    for test in failed:
        say(f"  failed at first: {test.name}{': ' if test.detail else ''}{test.detail}")
    for program in programs:
        say(f"  looking again at {program}")
        again = list(repeat(program))
        # What is about the machine was in the first run already, unless something went wrong with it now.
        tests = [test for test in tests if program_of(test) != program]
        tests += [test for test in again if program_of(test) == program or test.status == FAILED]
    return tests
