# SPDX-License-Identifier: GPL-2.0-only
"""Suite `energy`: what placement by energy cost saves and costs, on machines whose CPUs are of several kinds.

The mixes are rt-app's: tasks that work for so long in each period, and have a deadline at its end. Amounts of work are
the same in all configurations, so energies compare. bench/energy.md says what is run and what the numbers can say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import parsers
from suite import (BASELINE, FULL, HIGHER, HINT, HOST, LOWER, PROFILE, QUICK, TODAY, Bench, Configuration, Figure,
                   Metric, Suite, Switch, Verdict, View)
from suites.hint import HACKBENCH as HINT_HACKBENCH
from suites.hint import TBENCH as HINT_TBENCH
from suites.hint import Judge

# One of rt-app's loops on the fastest CPU at its highest level, as rt-app itself finds it there [ns].
LOOP_NS = 100
# Millions of instructions that a fully used CPU of the fastest kind does in a millisecond.
FULL_CPU = 2.36

# The lab says it when the machine is over.
ENERGY = Metric("energy", "mJ", LOWER, "energy of all domains", optional=True)


def energy(_values: Mapping[str, float], grown: Mapping[str, float], _costs: Mapping[str, float]) -> dict[str, float]:
    """What the lab says of the time from start to end of a command."""
    return {"energy": grown["energy_nj"] / 1e6} if "energy_nj" in grown else {}


def task(name: str, instances: str, *phases: str) -> str:
    """Threads of rt-app that end after their phases: without any, they would go round for ever."""
    return f'"{name}": {{ "instance": {instances}, "loop": 1, "phases": {{ {", ".join(phases)} }} }}'


def periodic(name: str, instances: str, run: int, period: int) -> str:
    """Tasks of rt-app that work for `run` in each `period`, both in us, the former on the fastest CPU."""
    return task(name, instances, f'"work": {{ "loop": $((ms * 1000 / {period})), "run": {run}, '
                f'"timer": {{ "ref": "unique", "period": {period} }} }}')


def constant(name: str, instances: str, run: str) -> str:
    """Those that work for so long on the fastest CPU, in us, and do not sleep meanwhile."""
    return task(name, instances, f'"work": {{ "loop": 1, "run": {run} }}')


def rt_app(*tasks: str) -> str:
    """The tasks as one program, which ends with the last of them."""
    return (f'cat > $out/app.json <<END\n{{ "global": {{ "calibration": {LOOP_NS}, "logdir": "$out", "log_size": 1 }}, '
            f'"tasks": {{ {", ".join(tasks)} }} }}\nEND')


def mix(name: str, title: str, load: str, work: Mapping[str, Mapping[int, float]], used: Callable[[int], float],
        tasks: str, before: str = "") -> Bench:
    """`used` is what all tasks use together at a load, in CPUs of the fastest kind."""
    command = f"""ms={{work}} load={{load}} out=/tmp/bench.$$
mkdir -p $out
{before}
{tasks}
perf stat -a -x, -e migrations -o $out/stat rt-app $out/app.json > $out/said 2>&1
cat $out/stat $out/*.log
rm -r $out"""
    return Bench(
        name=name, title=title, load=load, command=command, programs=("rt-app", "perf"), parse=parsers.rt_app,
        metrics=(ENERGY, Metric("missed", "%", LOWER, "periods whose work was not done at their end"),
                 Metric("slack", "%", HIGHER, "slack that 99 of 100 periods have, of the period"),
                 Metric("elapsed", "ms", LOWER, "until all work was done"),
                 Metric("migrations", "", LOWER, "migrations of all tasks", shown=False, optional=True)),
        work=work, effort=lambda n, ms: 60 + used(n) * ms * FULL_CPU, counted=True, derive=energy)


def lasting(quick: float, full: float, *loads: int) -> dict[str, dict[int, float]]:
    """So many milliseconds at each load; the quick form has the first of the loads."""
    return {FULL: {load: full for load in loads}, QUICK: {loads[0]: quick}, HOST: {load: 10_000 for load in loads}}


SMALL = mix("small", "small periodic tasks", "tasks", lasting(320, 640, 8, 4, 16), lambda n: n * 0.05,
            rt_app(periodic("small", "$load", 800, 16000)))

STACKED = mix("stacked", "tasks of all sizes that wake up at once", "tasks", lasting(320, 640, 6, 12),
              lambda n: n * 0.08, rt_app(periodic("tiny", "$((load / 3))", 200, 8000),
                     periodic("small", "$((load / 3))", 1600, 16000), periodic("middle", "$((load / 3))", 3200, 32000)))

# In the group of the case, which is removed after it.
CAPPED = mix("capped", "tasks that are capped, of which some never sleep", "tasks that never sleep",
             lasting(320, 640, 2, 4), lambda n: n * 0.15 + 0.2,
             rt_app(constant("capped", "$load", "$((ms * 120))"), periodic("small", "4", 800, 16000)),
             before='echo 20 > "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpu.uclamp.max"')

STUCK = mix("stuck", "a large task that never sleeps, beside small ones", "small tasks", lasting(320, 640, 6, 12),
            lambda n: 0.8 + n * 0.05,
            rt_app(constant("large", "1", "$((ms * 700))"), periodic("small", "$load", 800, 16000)))

BURST = mix("burst", "short bursts that overutilise, beside small tasks", "small tasks", lasting(480, 960, 6, 12),
            lambda n: 0.2 + n * 0.05,
            rt_app(periodic("burst", "1", 30000, 160000), periodic("small", "$load", 800, 16000)))

LAUNCH = mix("launch", "many threads begin at once, and work for a while", "threads", lasting(320, 640, 8, 16),
             lambda n: n * 0.05 + 0.3,
             rt_app(constant("start", "$load", "15000"),
                    periodic("small", "6", 800, 16000)))

PIPE = Bench(
    name="pipe", title="perf bench sched pipe, threads", load="pairs", programs=("perf",),
    command="exec perf bench --format=simple sched pipe --threaded --loop {work}", parse=parsers.perf_sched,
    metrics=(Metric("time", "s", LOWER, "time for all messages"), ENERGY),
    work={FULL: {1: 6000}, QUICK: {1: 3000}, HOST: {1: 1_000_000}},
    effort=lambda _pairs, loops: 30 + loops * 0.02, counted=True, derive=energy)

HACKBENCH = Bench(
    name="hackbench", title=HINT_HACKBENCH.title, load="groups", programs=HINT_HACKBENCH.programs,
    command=HINT_HACKBENCH.command, parse=HINT_HACKBENCH.parse, metrics=(*HINT_HACKBENCH.metrics, ENERGY),
    work={FULL: {1: 200, 4: 60, 8: 30, 16: 15}, QUICK: {1: 60, 4: 20}, HOST: {n: 20000 for n in (1, 4, 8, 16)}},
    effort=HINT_HACKBENCH.effort, limit=300, counted=True, derive=energy)

SOCKETS = Bench(
    name="sockets", title="hackbench, processes and sockets", load="groups", programs=HINT_HACKBENCH.programs,
    command=HINT_HACKBENCH.command.replace("--threads --pipe", "--process"), parse=HINT_HACKBENCH.parse,
    metrics=HACKBENCH.metrics, work={FULL: {1: 100, 4: 30, 8: 15, 16: 8}, QUICK: {4: 10}, HOST: HACKBENCH.work[HOST]},
    effort=lambda groups, loops: 2 * HINT_HACKBENCH.effort(groups, loops), limit=300, counted=True, derive=energy)

TBENCH = Bench(
    name="tbench", title=HINT_TBENCH.title, load="clients", programs=HINT_TBENCH.programs, command=HINT_TBENCH.command,
    host_command=HINT_TBENCH.host_command, parse=HINT_TBENCH.parse, metrics=HINT_TBENCH.metrics,
    work={FULL: {n: 0.02 for n in (1, 4, 8)}, QUICK: {4: 0.02}, HOST: {n: 10 for n in (1, 4, 8)}},
    effort=lambda clients, seconds: 20 * clients + min(2 * clients, 8) * seconds * 1000 * FULL_CPU)

MIXES = (SMALL, STACKED, CAPPED, STUCK, BURST, LAUNCH)
# The cases that the ancestor's mailing names.
NAMED = (STACKED, STUCK, BURST)

CONFIGURATIONS = (
    Configuration("eas", BASELINE),
    Configuration("eas_off", TODAY, "Today", switches=(Switch("/proc/sys/kernel/sched_energy_aware", "0", "1"),)),
    Configuration("energy", HINT, "Words", "energy"),
    Configuration("pack", HINT, "Words", "pack"),
    Configuration("efficient", PROFILE, "Profile", "efficient"),
)


def gains(bench: Bench, metric: str, least: float) -> Judge:
    """Reached if `energy` gains so much percent at each load."""
    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        found = [(value, load) for load in view.loads(bench.name)
                 if (value := view.gain(bench.name, "energy", load, metric)) is not None]
        if not found:
            return Verdict(None, "not measured")
        value, load = min(found)
        return Verdict(value >= least, f"{value:+.1f} %", f"at {load}")
    return judge


def saves(bench: Bench, least: float) -> Judge:
    """Reached if `energy` needs so much percent less at each load, and misses no more deadlines."""
    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        found = []
        for load in view.loads(bench.name):
            saved = view.gain(bench.name, "energy", load, "energy")
            missed = [view.value(bench.name, config, load, "missed") for config in ("eas", "energy")]
            if saved is not None and missed[0] is not None and missed[1] is not None:
                found.append((saved, load, missed[1] - missed[0]))
        if not found:
            return Verdict(None, "not measured")
        saved, load, _ = min(found)
        more = max(found, key=lambda one: one[2])[2]
        return Verdict(saved >= least and more <= 0, f"{saved:+.1f} %", f"at {load}; {more:+.1f} % more periods missed")
    return judge


FIGURES = (
    Figure("perf bench sched pipe -T", "+4.5 %", "+4.5 %", gains(PIPE, "time", 4.5)),
    *(Figure(f"energy, {bench.title}, at no more misses", "", "5 % less", saves(bench, 5.0)) for bench in NAMED),
    Figure("hackbench, threads and pipes", "-1.4 … -26 %", "-5 %", gains(HACKBENCH, "elapsed", -5.0)),
    Figure("hackbench, processes and sockets", "-0.6 … -27 %", "-5 %", gains(SOCKETS, "elapsed", -5.0)),
)

SUITE = Suite(
    name="energy", title="What placement by energy cost saves and costs",
    benches=(*MIXES, PIPE, HACKBENCH, SOCKETS, TBENCH), topologies=("biglittle", "threekinds"),
    configurations=CONFIGURATIONS, samples={FULL: 5, QUICK: 1, HOST: 5}, page="bench/energy.md",
    quick_topologies=("biglittle",), figures=FIGURES)
