# SPDX-License-Identifier: GPL-2.0-only
"""Suite `numa`: how uneven nodes may be.

What a group's fork word gains and costs where the third seed measured its rule.

Amounts of work are small, as in suite hint. bench/numa.md says what is run and what the numbers can say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import parsers
from suite import (BASELINE, FULL, HIGHER, HINT, HOST, PINNED, QUICK, SEED, TODAY, Bench, Configuration, Figure,
                   Layout, Metric, Setting, Suite, Switch, Verdict, View)
from suites.hint import STREAM as HINT_STREAM
from suites.hint import TBENCH as HINT_TBENCH
from suites.hint import Judge, busy

# As suite hint's, whose arrays are more than all caches of a machine.
ELEMENTS = int(HINT_STREAM.work[FULL][1])

# So many KiB for each thread that one fits the last-level cache of any machine, and two do not: 9 of 12 or 16 MiB.
FOOTPRINT = 9 * 1024

WITH = "exec $with "

STREAM = replace(HINT_STREAM, name="stream", title="STREAM, threads that touch their memory first",
                 command=WITH + "stream -t {load} -n {work} -k 3 --json",
                 work={FULL: {n: ELEMENTS for n in (2, 4, 8, 16, 32)}, QUICK: {4: ELEMENTS},
                       HOST: {n: 100_000_000 for n in (2, 4, 8, 16, 32)}}, quick_configurations=())

# All memory is where the program began, unless something is done about it: what numactl --interleave is for.
INTERLEAVE = replace(STREAM, name="interleave", title="STREAM, memory touched by the first thread",
                     command=WITH + "stream -t {load} -n {work} -k 3 --touch-first --json",
                     programs=("stream", "numactl"),
                     work={FULL: {n: ELEMENTS for n in (8, 16)}, QUICK: {8: ELEMENTS},
                           HOST: {n: 100_000_000 for n in (8, 16)}},
                     configurations=("none", "fork_spread", "numactl", "cores"))

CACHED = Bench(
    name="cached", title="threads that need a last-level cache each", load="threads", programs=("cached",),
    command=f"exec cached -t {{load}} -k {FOOTPRINT} -n {{work}} --json", parse=parsers.cached,
    metrics=(Metric("hmean", "M/s", HIGHER, "harmonic mean of the threads' rates of lines"),
             Metric("slowest", "M/s", HIGHER, "rate of the slowest thread", shown=False),
             Metric("all", "M/s", HIGHER, "rate of all threads", shown=False)),
    work={FULL: {2: 8, 4: 8, 8: 8}, QUICK: {4: 6}, HOST: {2: 500, 4: 500, 8: 500}},
    # About 40 instructions a line: it is touched, walked once, and then as often as is measured.
    effort=lambda threads, passes: threads * FOOTPRINT * 16 * (50 + 6 * passes) / 1e6)

PAIRS = Bench(
    name="pairs", title="pairs of threads that answer each other", load="pairs", programs=("pairs",),
    command="exec pairs -p {load} -k 32 -m {work} --json", parse=parsers.pairs,
    metrics=(Metric("messages", "1/s", HIGHER, "messages per second, of all pairs"),),
    work={FULL: {1: 1000, 2: 1000, 4: 800, 8: 600, 16: 400}, QUICK: {1: 600, 4: 400},
          HOST: {n: 100_000 for n in (1, 2, 4, 8, 16)}},
    # Each of the 512 lines of the buffer costs some instructions, and a message with its wakeup 8000 more.
    effort=lambda pairs, messages: pairs * messages * 0.012 + 2)

TBENCH = replace(HINT_TBENCH, work={FULL: {n: 0.02 for n in (1, 4, 16)}, QUICK: {4: 0.02},
                                    HOST: {n: 10 for n in (1, 4, 16)}}, quick_configurations=("fork_affine", "node"))


def half(part: int) -> Callable[[str, int, Layout], str]:
    """A half of each machine that has as many cores, caches and nodes: every other core of each LLC, by turns."""
    def cpus(_group: str, _load: int, layout: Layout) -> str:
        chosen: list[int] = []
        for llc in layout.llcs:
            cores = sorted((core for core in layout.cores if core <= llc), key=min)
            for core in cores[part::2]:
                chosen.extend(core)
        return ",".join(map(str, sorted(chosen)))
    return cpus


# Both begin at once, and each ends when its work is done; the one that takes longer is alone in the end. So both have
# about the same to do, and what counts of STREAM is its best repetition, of the other one all.
TOGETHER = Bench(
    name="together", title="two groups at once: STREAM, and pairs that talk", load="threads",
    programs=("join", "stream", "pairs"),
    command=f"""out=/tmp/bench.$$
mkdir -p $out
: > $out/stream
: > $out/pairs
[ "$only" = pairs ] || join "$group/stream" stream -t {{load}} -n {ELEMENTS // 2} -k 3 --json > $out/stream &
[ "$only" = stream ] || join "$group/pairs" pairs -p $((load / 2)) -k 32 -m {{work}} --json > $out/pairs &
wait
cat $out/stream $out/pairs
rm -r $out""",
    parse=parsers.numa_together, groups=lambda _load: ("stream", "pairs"),
    metrics=(Metric("triad", "MB/s", HIGHER, "best rate of triad", optional=True),
             Metric("messages", "1/s", HIGHER, "messages per second, of all pairs", optional=True),
             Metric("ended", "groups", HIGHER, "groups that have a result", shown=False, compared=False)),
    work={FULL: {4: 2400, 8: 1600}, QUICK: {8: 1200}, HOST: {4: 200_000, 8: 200_000}},
    effort=lambda threads, messages: threads / 2 * messages * 0.012 + 1.25 * 105 * ELEMENTS / 1e6,
    configurations=("none", "spread+affine", "half-stream", "half-pairs"))

# In the lab a run is over before NUMA balancing has begun by its own clock, a second.
NUMAB = "/sys/kernel/debug/sched/numa_balancing"
BALANCING = (Switch(f"{NUMAB}/scan_delay_ms", on="1", off="1000"),
             Switch(f"{NUMAB}/scan_period_min_ms", on="10", off="1000"),
             Switch("/proc/sys/kernel/numa_balancing", on="1", off="0"))

# The rules that the third seed was measured against, and with; only the kernel with the ancestors' rules has them.
RULE = "/sys/kernel/debug/sched/ancestor_numa"


def ancestor(name: str, rule: int) -> Configuration:
    return Configuration(name, SEED, "Rules of ancestors", switches=(Switch(RULE, str(rule), "0"),), needs=(RULE,))


WISHES = (Setting("stream", "cpu.hint", "fork_spread wake_hold"),
          Setting("pairs", "cpu.hint", "fork_affine wake_affine"))

CONFIGURATIONS = (
    Configuration("none", BASELINE),
    ancestor("before-5.18", 1),
    ancestor("mailing", 2),
    Configuration("fork_spread", HINT, "Fork words", "fork_spread"),
    Configuration("fork_affine", HINT, "Fork words", "fork_affine"),
    Configuration("fork_spread+wake_hold", HINT, "Fork and wake words", "fork_spread wake_hold"),
    Configuration("fork_affine+wake_affine", HINT, "Fork and wake words", "fork_affine wake_affine"),
    Configuration("none+balancing", TODAY, "NUMA balancing", switches=BALANCING),
    Configuration("fork_spread+balancing", HINT, "NUMA balancing", "fork_spread", switches=BALANCING),
    Configuration("fork_affine+balancing", HINT, "NUMA balancing", "fork_affine", switches=BALANCING),
    Configuration("numactl", TODAY, "numactl", variables={"with": "numactl --interleave=all"},
                  needs=("/sys/devices/system/node/node1",)),
    Configuration("spread+affine", HINT, "Two groups", settings=WISHES),
    Configuration("half-stream", PINNED, "Two groups", settings=(Setting("stream", "cpuset.cpus", half(0)),),
                  variables={"only": "stream"}),
    Configuration("half-pairs", PINNED, "Two groups", settings=(Setting("pairs", "cpuset.cpus", half(1)),),
                  variables={"only": "pairs"}),
    Configuration("llc", PINNED, pin="llc"),
    Configuration("node", PINNED, pin="node"),
    Configuration("cores", PINNED, pin="cores"),
    Configuration("apart", PINNED, pin="apart"),
)
# Of no use without groups of its own, or without a program that takes it.
ELSEWHERE = {"numactl", "spread+affine", "half-stream", "half-pairs"}
GENERAL = tuple(c.name for c in CONFIGURATIONS if c.name not in ELSEWHERE)


def of_best_pinning(bench: Bench, config: str, least: float) -> Judge:
    """Reached if the configuration has so much percent of what the best pinning has, at each load."""
    metric = bench.metrics[0].name

    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        pinnings = [name for name in view.configurations(PINNED, BASELINE) if name not in ELSEWHERE]
        found = []
        for load in view.loads(bench.name):
            ours = view.value(bench.name, config, load, metric)
            best = [(value, name) for name in pinnings
                    if (value := view.value(bench.name, name, load, metric)) is not None]
            if ours is not None and len(best) > 1:
                value, name = max(best)
                found.append((100 * ours / value, load, name))
        if not found:
            return Verdict(None, "not measured")
        percent, load, name = min(found)
        of = len(bench.loads(FULL))
        rests = "" if len(found) == of else f" ({len(found)} of {of} loads)"
        return Verdict(percent >= least, f"{percent:.1f} % at least{rests}", f"at {load}, against {name}")
    return judge


def of_older_rule(bench: Bench, least: float) -> Judge:
    """Reached if the mailing's rule gains so much percent on the rule before, with a thread for each LLC."""
    metric = bench.metrics[0].name

    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        load = len(machine["llcs"])
        before, after = (view.value(bench.name, name, load, metric) for name in ("before-5.18", "mailing"))
        if not before or after is None:
            return Verdict(None, "not measured")
        percent = 100 * (after - before) / before
        return Verdict(percent >= least, f"{percent:+.1f} %", f"at {load}")
    return judge


def of_half(metric: str, alone: str, least: float) -> Judge:
    """Reached if a group beside the other one has so much percent of what it has alone on half of the machine."""
    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        found = []
        for load in view.loads(TOGETHER.name):
            ours = view.value(TOGETHER.name, "spread+affine", load, metric)
            half_of = view.value(TOGETHER.name, alone, load, metric)
            if ours is not None and half_of:
                found.append((100 * ours / half_of, load))
        if not found:
            return Verdict(None, "not measured")
        percent, load = min(found)
        return Verdict(percent >= least, f"{percent:.1f} % at least", f"at {load}")
    return judge


FIGURES = (
    # Half of what the mailing measured.
    Figure("STREAM, a thread for each LLC, the mailing's rule against the one before 5.18", "+181 … +285 %", "+90 %",
           of_older_rule(STREAM, 90.0), split_only=True),
    Figure("threads with a cache each, likewise", "+10 … +16 %", "+5 %", of_older_rule(CACHED, 5.0), split_only=True),
    Figure("STREAM, 2-32 threads, fork_spread+wake_hold, of the best pinning", "", "95 %",
           of_best_pinning(STREAM, "fork_spread+wake_hold", 95.0)),
    Figure("threads with a cache each, fork_spread, of the best pinning", "+10 … +16 %", "95 %",
           of_best_pinning(CACHED, "fork_spread", 95.0)),
    Figure("pairs, fork_affine+wake_affine, of the best pinning", "", "95 %",
           of_best_pinning(PAIRS, "fork_affine+wake_affine", 95.0)),
    Figure("two groups at once: STREAM, of half of the machine alone", "", "90 %",
           of_half("triad", "half-stream", 90.0)),
    Figure("two groups at once: pairs, of half of the machine alone", "", "90 %",
           of_half("messages", "half-pairs", 90.0)),
)


def general(bench: Bench) -> Bench:
    return bench if bench.configurations else replace(bench, configurations=GENERAL)


SUITE = Suite(
    name="numa", title="How uneven nodes may be",
    benches=tuple(map(general, (STREAM, CACHED, PAIRS, TBENCH, INTERLEAVE, TOGETHER))),
    topologies=("zen", "xeon", "4x2x2x2"), configurations=CONFIGURATIONS, samples={FULL: 5, QUICK: 1, HOST: 5},
    page="bench/numa.md", quick_topologies=("zen",), figures=FIGURES, least_llcs=2,
    quick_configurations=("before-5.18", "mailing", "fork_spread", "fork_affine", "fork_spread+wake_hold",
                          "fork_affine+wake_affine", "numactl", "spread+affine", "half-stream", "half-pairs", "node", "cores", "apart"))
