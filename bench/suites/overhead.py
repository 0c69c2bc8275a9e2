# SPDX-License-Identifier: GPL-2.0-only
"""Suite overhead: how many instructions the kernel executes for a wakeup, a fork, a context switch, a write of a hint.

bench/overhead.py runs it, on three kernels in turn; bench/overhead.md says what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from suite import (BASELINE, FULL, HINT, HOST, LOWER, PROFILE, QUICK, Bench, Configuration, Figure, Metric, Suite,
                   Verdict, View)

# The smallest machine on which a wakeup has LLCs to choose from, and more than one CPU in each. More CPUs would only be
# more ticks.
TOPOLOGY = "1x2x2x1"
FIRST_CPU, FIRST_LLC, SECOND_LLC, ALL = "1", "3", "c", "f"
# A task that is not on the CPU of the one it wakes waits for so long before, see lab-ops.c.
SPIN = 4000

KERNEL = "kernel"  # the kind of a configuration that is another kernel, or another state of ours
PRISTINE, OFF, UNUSED, ELSEWHERE = "pristine", "off", "unused", "elsewhere"
# Configuration -> variant of scripts/kbuild.py; all others are of "lab".
VARIANTS = {PRISTINE: "lab-pristine", OFF: "lab-off"}

INSTRUCTIONS, WORK, NOOPS, OWN, MEAN = "instructions", "work", "noops", "own", "mean"
FIRST, CHANGE, CLEAR = "first", "change", "clear"
# What `lab-ops tree` writes, one after the other.
TREE_WORDS = ("wake_affine", "wake_hold scan_full", "none")
TREE_METRICS = (FIRST, CHANGE, CLEAR)

OPERATION_METRICS = (
    Metric(INSTRUCTIONS, "instructions", LOWER, "kernel instructions, in the median of the regions"),
    Metric(WORK, "instructions", LOWER, "those that are not no-ops", shown=False),
    Metric(NOOPS, "instructions", LOWER, "no-ops", shown=False),
    Metric(OWN, "instructions", LOWER, "in functions of cpu.hint, without what they call", shown=False),
    Metric(MEAN, "instructions", LOWER, "kernel instructions, in the mean of the regions: with ticks", shown=False))
WRITE_METRICS = (
    Metric(FIRST, "instructions", LOWER, "first hint: counters are allocated"),
    Metric(CHANGE, "instructions", LOWER, "another hint"),
    Metric(CLEAR, "instructions", LOWER, "no hint"))

# Per operation of lab-ops: how many of what is counted, and how often it sleeps if all of them happen.
UNITS = {"switch": 2, "wakeup": 2, "relay": 4, "fork": 1, "tree": 1}
SLEEPS = {"switch": 1, "wakeup": 2, "relay": 4, "fork": 1}
# The machine's address spaces are laid out alike: a fork copies as many page tables each time.
APPEND = "norandmaps"

# Everything runs on one CPU and may preempt there: not every wakeup is of a task that sleeps.
PREEMPTING = {"wakeup-one"}


def unread(_output: str) -> dict[str, float]:
    """The values are in the lab's counts, not in what the program prints."""
    return {}


def bench(name: str, title: str, command: str) -> Bench:
    """`load` is the number of regions."""
    return Bench(name, title, "regions", f"lab-ops {command}", ("lab-ops",), unread, OPERATION_METRICS,
                 {FULL: {40: 1}, QUICK: {20: 1}, HOST: {}}, lambda regions, _work: regions)


BENCHES = (
    bench("wakeup-llc", "a wakeup within an LLC: both tasks may use all of its CPUs",
          f"wakeup 20 {{load}} {SPIN} {FIRST_LLC} {FIRST_LLC}"),
    bench("wakeup-free", "a wakeup where both tasks may use all CPUs", f"wakeup 20 {{load}} {SPIN} {ALL} {ALL}"),
    bench("wakeup-apart", "a wakeup from one LLC to another, which the tasks may not leave",
          f"wakeup 20 {{load}} {SPIN} {FIRST_LLC} {SECOND_LLC}"),
    bench("wakeup-relay", "a wakeup, half of them of a free task by one of either LLC",
          f"relay 10 {{load}} {SPIN} {FIRST_LLC} {ALL} {SECOND_LLC}"),
    bench("wakeup-one", "a wakeup on the same CPU, which no other is searched for",
          f"wakeup 40 {{load}} 0 {FIRST_CPU} {FIRST_CPU}"),
    bench("switch", "a context switch between processes, with the wakeup and the pipe that lead to it",
          f"switch 40 {{load}} {FIRST_CPU}"),
    bench("fork-one", "fork, exit and wait, on one CPU", f"fork 8 {{load}} {FIRST_CPU}"),
    bench("fork", "fork, exit and wait, on all CPUs", f"fork 8 {{load}} {ALL}"),
    Bench("tree", "writing a hint to the top of a tree of groups, ten below each", "groups",
          "lab-ops tree {load} " + " ".join(f"'{words}'" for words in TREE_WORDS), ("lab-ops",), unread, WRITE_METRICS,
          {FULL: {10: 1, 1000: 1, 10000: 1}, QUICK: {10: 1, 1000: 1}, HOST: {}}, lambda groups, _work: groups),
)
TREE = "tree"

WORDS = ("fork_affine", "fork_spread", "wake_affine", "wake_hold", "wake_wide", "scan_full", "scan_none", "slice_short",
         "slice_long", "preempt_none", "pack", "energy", "fork_affine wake_affine", "fork_spread wake_hold")
# The machine has no energy model. What is counted of this word is what it costs to ask in vain.
IN_VAIN = "energy"
PROFILES = ("tail_latency", "interactive", "noninteractive", "background", "efficient")

CONFIGURATIONS = (
    Configuration(PRISTINE, BASELINE),
    Configuration(OFF, KERNEL),
    Configuration(UNUSED, KERNEL),
    # A hint is in use, but not in this group: what neighbours pay.
    Configuration(ELSEWHERE, KERNEL),
    *(Configuration(words.replace(" ", "+"), HINT, hint=words) for words in WORDS),
    *(Configuration(name, PROFILE, hint=name) for name in PROFILES),
)

SAMPLES: Mapping[str, int] = {FULL: 5, QUICK: 3, HOST: 0}
# "under 1.5 %" of the instructions of a wakeup
IN_USE_PERCENT = 1.5
# A smaller difference is none: of wakeups, whose instructions are nearly the same each time, and of the rest.
EXACT_PERCENT, NOISE_PERCENT = 0.2, 0.5
# Where tasks stay where they are, whatever the hint: what is added is what the hint costs, not what it does.
SETTLED = ("wakeup-llc", "wakeup-free", "wakeup-apart")
MOVING = "wakeup-relay"


def adds(configs: Iterable[str], allowed: float) -> Figure:
    """Whether none of these configurations adds more percent of the instructions of a wakeup."""
    names = tuple(configs)

    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        added = [(-gain, config, name) for name in SETTLED for load in view.loads(name) for config in names
                 if (gain := view.gain(name, config, load, INSTRUCTIONS)) is not None]
        if not added:
            return Verdict(None, "not measured")
        worst, config, name = max(added)
        return Verdict(worst <= allowed, f"{worst:+.2f} % at worst", f"{config}, {name}")

    what = {(UNUSED,): "unused", (ELSEWHERE,): "used by another group"}.get(names, "any hint in use")
    return Figure(f"instructions added to a wakeup, {what}", "", f"<= {allowed:g} %", judge)


FIGURES = (adds((UNUSED,), NOISE_PERCENT), adds((ELSEWHERE,), NOISE_PERCENT),
           adds((words.replace(" ", "+") for words in (*WORDS, *PROFILES)), IN_USE_PERCENT))

SUITE = Suite("overhead", "what cpu.hint costs, in instructions", BENCHES, (TOPOLOGY,), CONFIGURATIONS, SAMPLES,
              "bench/overhead.md", figures=FIGURES,
              quick_configurations=(OFF, UNUSED, ELSEWHERE, *WORDS[:12], "tail_latency", "background"))
