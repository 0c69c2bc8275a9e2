# SPDX-License-Identifier: GPL-2.0-only
"""Suite `gang`: what programs that wait by spinning get out of the CPU time that they are given, and who pays for it.

A gang has a thread for each CPU of the machine, so two gangs are twice as many threads as CPUs. The machines are in
slow motion (bench/lab/README.md): what is measured takes many slices of some milliseconds each. bench/gang.md says
what that means.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import parsers
from suite import (BASELINE, FULL, HIGHER, HOST, LOWER, OURS, QUICK, SEED, TODAY, Bench, Configuration, Figure, Layout,
                   Metric, Setting, Suite, Switch, Verdict, View, cpu_list)

VARIANT = "/sys/kernel/debug/sched/ancestor_gang"
# The slices of EEVDF with 8 CPUs and more, and long ones, in ns.
SLICE_NS, LONG_SLICE_NS = 3_000_000, 24_000_000
SLICE = "/sys/kernel/debug/sched/base_slice_ns"
SCOPES = ("core", "llc", "node", "system")
# What a bystander may wait longer: one slot. That is a slice in whole ticks, of 4 ms in the lab.
SLOT_US = 4000


def part(group: str, load: int, machine: Layout) -> str | None:
    """An equal part of the CPUs for each of several gangs: whole cores where there are enough."""
    if load < 2:
        return None
    index, cpus = int(group.removeprefix("gang")), sorted(machine.cpus)
    return cpu_list(cpus[len(cpus) * index // load:len(cpus) * (index + 1) // load])


PARTED = Setting("gang*", "cpuset.cpus", part)


def gang(name: str, kind: str, block: str, scope: str = "", variant: int = 0, *more: Setting) -> Configuration:
    return Configuration(
        name, kind, block, switches=(Switch(VARIANT, str(variant), "0"),) if variant else (),
        settings=(*more, *((Setting("gang*", "cpu.gang.scope", scope),) if scope else ()),
                  Setting("gang*", "cpu.gang", "1")),
        needs=("gang0/cpu.gang", *(("gang0/cpu.gang.scope",) if scope else ()), *((VARIANT,) if variant else ())))


CONFIGURATIONS = (
    Configuration("eevdf", BASELINE),
    Configuration("slices", TODAY, "Today", switches=(Switch(SLICE, str(LONG_SLICE_NS), str(SLICE_NS)),)),
    Configuration("pinned", TODAY, "Today", variables={"pin": "--pin"}),
    Configuration("cpuset", TODAY, "Today", settings=(PARTED,)),
    Configuration("core_sched", TODAY, "Today", variables={"cookie": "--cookie"}, smt_only=True),
    gang("v1", SEED, "Seed 2", "system", 1),
    gang("v2", SEED, "Seed 2", "system", 2),
    *(gang(f"gang_{scope}", OURS, "Gangs", scope) for scope in SCOPES),
    # Gangs that have no CPU in common have slots at the same time. No scope of its own, so not judged as one.
    gang("gang_cpuset", OURS, "Gangs", "system", 0, PARTED),
)
GANGS = tuple(f"gang_{scope}" for scope in SCOPES)

# Idle time costs nothing in the lab, and who is late to begin fails.
LEAD = "2000"
# Busy loops are there before the gangs [ms]: loops that wake up at one moment, together with many others, are spread
# badly, and with all CPUs busy it takes the load balancer longer to mend that than the measurement takes.
BEFORE = "500"
# The observer begins after the gangs [ms]: a new group is weighed by loads that it has not had yet, a gang or not, and
# the goal for shares is about a second. bench/NOTEBOOK.md has those first 200 ms.
WARM = "200"

SCENE = """out=/tmp/bench.$$
mkdir -p $out
export OMP_WAIT_POLICY=active
begin=$(($(observe --now) + LEAD))
total=$(awk "BEGIN { print {work} + WARM / 1000 }")
gangs() {
	for gang in "$group"/gang*; do
		join "$gang" $cookie "$@" --name "${gang##*/}" --begin $begin --runtime $total $pin --json > \
			$out/${gang##*/} 2> $out/error.${gang##*/} &
	done
}
watch() {
	: > $out/sleeper
	[ ! -d "$group/bystander" ] || join "$group/bystander" spin --kind sleeper $bystander \
		--begin $begin --runtime $total --json > $out/sleeper &
	observe --parent "$group" --begin $((begin + WARM)) --runtime {work} --interval 0.1 --trace --shown 60 > $out/seen
	status=$?
	[ ! -d "$group/hogs" ] || echo 1 > "$group/hogs/cgroup.kill"
	wait
	cat $out/gang* $out/error.* $out/sleeper $out/seen
	rm -r $out
	exit $status
}
""".replace("LEAD", LEAD).replace("WARM", WARM)

# A bystander that is gone in a moment, and one that is not: 5 of each 20 ms, in units of 8 us beside a busy sibling.
BRIEF, BUSY = "--units 2 --period 2000", "--units 600 --period 20000"

METRICS = (
    Metric("rate", "1/s", HIGHER, "operations per second, of all gangs"),
    Metric("share_error", "%", LOWER, "largest deviation of a group's CPU time from its share", compared=False,
           optional=True),
    Metric("corun", "%", HIGHER, "co-run share: of the time that a gang has any CPU, when it has all", compared=False,
           optional=True),
    Metric("late_p99", "us", LOWER, "99th percentile of a bystander's wakeup latency", optional=True),
    Metric("switches", "1/s", LOWER, "context switches per second"),
    Metric("ipis", "1/s", LOWER, "interrupts between CPUs per second", compared=False),
)


def groups(hogs: bool, bystander: str) -> Callable[[int], tuple[str, ...]]:
    def of_load(load: int) -> tuple[str, ...]:
        return (*(f"gang{index}" for index in range(load)), *["bystander"] * bool(bystander), *["hogs"] * hogs)
    return of_load


def spinning(name: str, title: str, program: str, full: Iterable[int], quick: Iterable[int], *, hogs: bool = False,
             bystander: str = BRIEF, series: bool = False, choice: tuple[str, ...] = ()) -> Bench:
    begin = f'join "$group/hogs" sidejob --kind compute --begin $((begin - {BEFORE})) > /dev/null &\n' if hogs else ""
    return Bench(
        name=name, title=title, load="gangs", command=f'bystander="{bystander}"\n' f"{SCENE}{begin}gangs {program}\nwatch\n",
        programs=("join", "observe", "spin", *(("ompbarrier",) if program.startswith("ompbarrier") else ()),
                  *(("sidejob",) if hogs else ())),
        parse=parsers.gang, metrics=METRICS,
        # Shares are judged over one second, and it is beside loops that they need it.
        work={FULL: {n: 1.0 for n in full}, QUICK: {n: 1.0 if hogs else 0.6 for n in quick},
              HOST: {n: 10 for n in full}},
        effort=lambda _, seconds: (seconds + 0.7) * 600, limit=300, groups=groups(hogs, bystander),
        series=parsers.gang_series if series else None, quick_configurations=choice)


QUICK_CHOICE = ("pinned", "v2", "gang_llc")
BARRIER = spinning("barrier", "OpenMP program with barriers", "ompbarrier --units 80", (1, 2, 3, 4), (1, 2),
                   series=True, choice=("slices", "pinned", "cpuset", "core_sched", "v1", "v2", "gang_llc",
                                        "gang_system"))
HOGS = spinning("barrier-hogs", "the same, beside as many busy loops as CPUs", "ompbarrier --units 80", (1, 2), (1,),
                hogs=True, bystander="", series=True, choice=("slices", *QUICK_CHOICE))
# Not all of the difference is the gang's: the load balancer moves loops away from where the bystander waits.
MIXED = spinning("barrier-mixed", "the same, and a task that wakes up often", "ompbarrier --units 80", (1, 2), (1,),
                 hogs=True, choice=("pinned", "gang_llc"))
# Each gang is a slot ahead at most, and they add up for whoever is in none.
WAITS = spinning("barrier-waits", "barrier, and a task that wants a quarter of a CPU", "ompbarrier --units 80", (2, 4),
                 (4,), bystander=BUSY, choice=("gang_llc",))
LOCK = spinning("lock", "threads that share a spin lock", "spin --kind lock --units 36 --inside 4", (1, 2, 4), (2,),
                choice=QUICK_CHOICE)
LOCK_HOGS = spinning("lock-hogs", "the same, beside as many busy loops as CPUs",
                     "spin --kind lock --units 36 --inside 4", (1,), (), hogs=True)
PIPELINE = spinning("pipeline", "pipeline that spins, then sleeps", "spin --kind pipeline --units 20", (1, 2, 4), (2,),
                    choice=QUICK_CHOICE)
VCPU = spinning("vcpu", "virtual CPUs that wait for each other", "spin --kind vcpu --units 40", (1, 2, 4), (2,),
                choice=QUICK_CHOICE)
VCPU_HOGS = spinning("vcpu-hogs", "the same, beside as many busy loops as CPUs", "spin --kind vcpu --units 40", (1, 2),
                     (), hogs=True)
SPINNING = (BARRIER, HOGS, MIXED, WAITS, LOCK, LOCK_HOGS, PIPELINE, VCPU, VCPU_HOGS)

# What gang scheduling should leave alone: programs whose threads sleep while they wait. They do a fixed amount of work.
SLEEPING = """ctxt() { while read -r key value _; do [ $key != ctxt ] || echo $value; done < /proc/stat; }
before=$(ctxt) began=$(observe --now)
join "$group/gang0" $cookie PROGRAM
status=$?
echo "switches $(($(ctxt) - before)) in $(($(observe --now) - began)) ms"
exit $status
"""
TIME = Metric("time", "s", LOWER, "time that the program tells")
SLEEPING_CONFIGURATIONS = ("eevdf", "slices", "core_sched", "v1", "v2", *GANGS)


def one_gang(load: int) -> tuple[str, ...]:
    """The load is not a number of gangs here."""
    return ("gang0",) if load else ()


def sleeping(name: str, title: str, program: str, load: str, work: Mapping[str, Mapping[int, float]],
             parse: parsers.Parser, effort: Callable[[int, float], float], metric: Metric = TIME) -> Bench:
    return Bench(name=name, title=title, load=load, command=SLEEPING.replace("PROGRAM", program),
                 programs=("join", "observe", program.split()[0]), parse=parsers.with_switches(parse),
                 metrics=(metric, METRICS[4]), work=work, effort=effort, limit=300, groups=one_gang,
                 configurations=SLEEPING_CONFIGURATIONS, quick_configurations=("core_sched", "v2", "gang_llc"))


HACKBENCH = sleeping("hackbench", "hackbench, threads and pipes, in a gang's group",
                     "hackbench --threads --pipe --groups {load} --loops {work}", "groups",
                     {FULL: {1: 100, 4: 40}, QUICK: {1: 50}, HOST: {1: 20000, 4: 20000}}, parsers.hackbench,
                     lambda groups, loops: groups * (4 + 400 * loops * 0.008))
MESSAGING = sleeping("messaging", "perf bench sched messaging, threads and pipes, in a gang's group",
                     "perf bench --format=simple sched messaging --thread --pipe --group {load} --nr_loops {work}",
                     "groups", {FULL: {1: 100, 4: 40}, QUICK: {}, HOST: {1: 20000, 4: 20000}}, parsers.perf_sched,
                     lambda groups, loops: groups * (100 + 400 * loops * 0.008))
SYSBENCH = sleeping("sysbench", "sysbench's threads and mutexes, in a gang's group",
                    "sysbench threads --threads={load} --thread-locks=4 --events={work} --time=0 run", "threads",
                    {FULL: {8: 400, 32: 400}, QUICK: {}, HOST: {8: 100000, 32: 100000}}, parsers.sysbench,
                    lambda _, events: 200 + events * 2, Metric("events_per_s", "1/s", HIGHER, "events per second"))

BENCHES = (*SPINNING, HACKBENCH, MESSAGING, SYSBENCH)
Judge = Callable[[View, Mapping[str, Any]], Verdict]


def solo(view: View, bench: Bench) -> float | None:
    """What one gang gets alone: the median of all that is the same for a lone gang, as single runs differ.

    Not that of pinned threads, which have 8 % more on zen."""
    values = [value for config in ("eevdf", "slices", "cpuset")
              if (value := view.value(bench.name, config, 1, "rate"))]
    return statistics.median(values) if values else None


def best(view: View, bench: Bench, load: int, metric: str = "rate") -> tuple[float, str] | None:
    """Of ours, at the scope that is best there: gangs as large as the machine are no case for a smaller one."""
    values = [(value, config) for config in GANGS
              if (value := view.value(bench.name, config, load, metric)) is not None]
    return max(values) if values else None


def of_ideal(bench: Bench, alone: Bench, wanted: float, share: Callable[[int], float]) -> Judge:
    """What k gangs get together, of what one gets that has the machine for itself, times the share that is theirs."""
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        ideal = solo(view, alone)
        parts = [(100 * found[0] / ideal / share(load), load, found[1]) for load in view.loads(bench.name)
                 if ideal and (bench is not alone or load > 1) and (found := best(view, bench, load))]
        if not parts:
            return Verdict(None, "not measured")
        worst, load, config = min(parts)
        plain = view.value(bench.name, "eevdf", load, "rate")
        return Verdict(worst >= wanted, f"{worst:.1f} % at worst", f"{load} gangs, {config}" + (
            f"; plain EEVDF: {100 * plain / (ideal or 1) / share(load):.1f} %" if plain is not None else ""))
    return judge


def times_better(bench: Bench, wanted: float) -> Judge:
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        ratios = [(found[0] / plain, load) for load in view.loads(bench.name) if load > 1 and
                  (found := best(view, bench, load)) and (plain := view.value(bench.name, "eevdf", load, "rate"))]
        if not ratios:
            return Verdict(None, "not measured")
        return Verdict(min(ratios)[0] >= wanted, f"{min(ratios)[0]:.1f} times at least", f"{min(ratios)[1]} gangs")
    return judge


def against_plain(benches: Iterable[Bench], metric: str, allowed: float) -> Judge:
    """Reached if no scope of ours is worse than plain EEVDF by more than so many percent."""
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        gains = [(gain, config, bench.name, at) for bench in benches for at in view.loads(bench.name)
                 for config in GANGS if (gain := view.gain(bench.name, config, at, metric)) is not None]
        if not gains:
            return Verdict(None, "not measured")
        gain, config, bench, at = min(gains)
        return Verdict(gain >= -allowed, f"{gain:+.1f} % at worst", f"{config}, {bench} at {at}")
    return judge


def alone_as_fast(view: View, _: Mapping[str, Any]) -> Verdict:
    """The worst scope counts: a gang that has the machine for itself gains nothing, and shall lose nothing."""
    parts = [(100 * value / ideal, config, bench.name) for bench in (BARRIER, LOCK, PIPELINE, VCPU) for config in GANGS
             if (ideal := solo(view, bench)) and (value := view.value(bench.name, config, 1, "rate")) is not None]
    if not parts:
        return Verdict(None, "not measured")
    worst, config, bench = min(parts)
    return Verdict(worst >= 99.0, f"{worst:.1f} % at worst", f"{config}, {bench}")


def later(view: View, _: Mapping[str, Any]) -> Verdict:
    found = [(ours - plain, config, bench.name, load) for bench in SPINNING for load in view.loads(bench.name)
             for config in GANGS if (ours := view.value(bench.name, config, load, "late_p99")) is not None
             and (plain := view.value(bench.name, "eevdf", load, "late_p99")) is not None]
    if not found:
        return Verdict(None, "not measured")
    worst, config, bench, load = max(found)
    return Verdict(worst <= SLOT_US, f"{worst:+.0f} us at worst", f"{config}, {bench} at {load}")


def fair(view: View, _: Mapping[str, Any]) -> Verdict:
    found = [(error, config, bench.name, load) for bench in SPINNING for load in view.loads(bench.name)
             for config in GANGS if (error := view.value(bench.name, config, load, "share_error")) is not None]
    if not found:
        return Verdict(None, "not measured")
    worst, config, bench, load = max(found)
    plain = view.value(bench, "eevdf", load, "share_error")
    return Verdict(worst <= 2.0, f"{worst:.1f} % at worst", f"{config}, {bench} at {load}" + (
        "" if plain is None else f"; plain EEVDF: {plain:.1f} %"))


FIGURES = (
    Figure("k barrier programs, of the ideal", "", ">= 90 %", of_ideal(BARRIER, BARRIER, 90.0, lambda _: 1.0)),
    Figure("the same against plain EEVDF", "ebizzy up to 15x", ">= 40x", times_better(BARRIER, 40.0)),
    Figure("one gang beside busy loops, of the ideal", "", ">= 90 %",
           of_ideal(HOGS, BARRIER, 90.0, lambda load: load / (load + 1))),
    Figure("the same, and a task that wakes up often", "", ">= 90 %",
           of_ideal(MIXED, BARRIER, 90.0, lambda load: load / (load + 1))),
    Figure("a gang alone against no gang", "", ">= 99 %", alone_as_fast),
    Figure("hackbench in a gang", "-189 ... -364 %", "-3 %", against_plain((HACKBENCH, MESSAGING), "time", 3.0)),
    Figure("p99 of a bystander", "", f"+{SLOT_US:.0f} us", later),
    Figure("CPU time against weights", "-34 ... +55 %", "<= 2 %", fair),
    Figure("context switches against plain EEVDF", "up to 3x", "1.2x", against_plain(BENCHES, "switches", 20.0)),
)

SUITE = Suite(
    name="gang", title="Gangs", benches=BENCHES, topologies=("1x1x4x2@20", "zen@20"), configurations=CONFIGURATIONS,
    samples={FULL: 3, QUICK: 1, HOST: 5}, page="bench/gang.md", quick_topologies=("1x1x4x2@20",), figures=FIGURES,
    effort_of="1x1x4x2@20")
