# SPDX-License-Identifier: GPL-2.0-only
"""Suite `headroom`: what a service pays for batch work beside it, under everything that an operator can do about it.

The machines are in slow motion (bench/lab/README.md), because what is measured takes periods of 100 ms and more: a
second of them, all CPUs busy, would otherwise cost a quarter of an hour. bench/headroom.md says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import parsers
from suite import (BASELINE, FULL, HIGHER, HOST, LOWER, OURS, QUICK, TODAY, Bench, Configuration, Figure, Layout,
                   Metric, Setting, Suite, Verdict, View, cpu_list)

FILE = "cpu.headroom"
PERIOD_US = 100_000
# What the figures and the user-space loop ask for where a configuration says nothing else, in percent.
DEMAND = 20
# Of the machine, which "wrong" allows beyond what is right.
TOO_MUCH = 40
# The main load before and after a step, and at it.
LOW, HIGH = 20, 60
# A demand with less to spare than this cannot be told from what the load alone leaves.
SPARE_POINTS = 5
WEIGHTS = {"side1": 1, "side2": 2, "side4": 4, "side8": 8}


def quota(load: int, machine: Layout, more: int = 0) -> str:
    """cpu.max that leaves so much idle beside this load, or some percent less."""
    share = min(max(100 - load - DEMAND + more, 5), 100)
    return f"{share * len(machine.cpus) * PERIOD_US // 100} {PERIOD_US}"


def right(_group: str, load: int, machine: Layout) -> str:
    return quota(load, machine)


def wrong(_group: str, load: int, machine: Layout) -> str:
    return quota(load, machine, TOO_MUCH)


def cores_apart(group: str, cores: int, machine: Layout) -> str:
    """The side job has so many cores for itself, the machine's last ones; the service has all the others."""
    side = frozenset().union(*sorted(machine.cores, key=min)[-cores:])
    return cpu_list(machine.cpus - side if group == "main" else side)


def apart(group: str, _load: int, machine: Layout) -> str:
    return cores_apart(group, 1, machine)


def quarter(group: str, _load: int, machine: Layout) -> str:
    """On zen an LLC, and about what a headroom of 20 leaves the side job beside a load of 40."""
    return cores_apart(group, max(len(machine.cores) // 4, 1), machine)


def weight_of(group: str, _load: int, _machine: Layout) -> str | None:
    """The side groups that share have different weights, under all configurations."""
    return str(WEIGHTS[group]) if group in WEIGHTS else None


SHARED = (Setting("side*", "cpu.weight", weight_of),)


SIDE_IDLE = (Setting("side*", "cpu.idle", "1"),)
# For threads that share what they work on: brought together in an LLC, while there is room.
MAIN_HINT = (Setting("main", "cpu.hint", "fork_spread wake_affine"),)
# For comparison: who finds no idle CPU in the LLC looks beyond it.
MAIN_WIDE = (Setting("main", "cpu.hint", "tail_latency"),)


def ours(percent: int, name: str = "", hint: tuple[Setting, ...] = (), idle: bool = False) -> Configuration:
    more = ("cpu.hint",) * bool(hint) + ("cpu.idle",) * idle
    return Configuration(f"headroom{percent}{name}" + "+idle" * idle, OURS, " and ".join(("Headroom", *more)),
                         settings=(Setting("main", FILE, str(percent)), *hint, *(SIDE_IDLE if idle else SHARED)),
                         variables={"demand": str(percent)}, needs=(f"main/{FILE}",))


# The loop looks every 5 s, so it is in force 5 s after the start; what comes before is not its steady state.
LOOP = {"loop": f"userloop --headroom {DEMAND}", "warm": "6", "low": "6", "high": "11", "back": "11"}
CONFIGURATIONS = (
    Configuration("alone", BASELINE, variables={"alone": "1"}),
    Configuration("weight", TODAY, "Weights", settings=(Setting("side", "cpu.weight", "1"), *SHARED)),
    Configuration("idle", TODAY, "Weights", settings=SIDE_IDLE),
    Configuration("max_right", TODAY, "Limits", settings=(Setting("side", "cpu.max", right),)),
    Configuration("max_wrong", TODAY, "Limits", settings=(Setting("side", "cpu.max", wrong),)),
    Configuration("userloop", TODAY, "Limits", variables=LOOP),
    Configuration("userloop+idle", TODAY, "Limits", settings=SIDE_IDLE, variables=LOOP),
    Configuration("cpuset", TODAY, "CPUs of one's own", settings=(Setting("*", "cpuset.cpus", apart), *SHARED)),
    Configuration("cpuset_quarter", TODAY, "CPUs of one's own",
                  settings=(Setting("*", "cpuset.cpus", quarter), *SHARED)),
    Configuration("hint", OURS, "Alone, and cpu.hint", settings=MAIN_HINT, variables={"alone": "1"}),
    ours(10), ours(20), ours(30), ours(20, idle=True), ours(30, idle=True),
    *(ours(percent, "+hint", MAIN_HINT, idle) for idle in (False, True) for percent in (20, 30)),
    ours(30, "+wide", MAIN_WIDE),
)
# What can be said beside a load that is not told in percent of the machine
NOT_OF_A_PERCENT = tuple(configuration.name for configuration in CONFIGURATIONS
                         if not configuration.name.startswith("max_"))
DEMANDS = tuple(configuration.name for configuration in CONFIGURATIONS if "demand" in configuration.variables)

# Main work and observer are started first and begin together, so that the side job does not hold up their start; what
# they do until all have settled beside each other is their warm-up.
SCENE = """out=/tmp/bench.$$
mkdir -p $out
# Once for all configurations, which shall get the same requests; outside of the groups, as that of the case which
# happens to come first may have fewer CPUs, and each boot would have another load
calibrate() {
	[ -s /tmp/bench.kept/capacity ] || serve --calibrate > /tmp/bench.kept/capacity || exit
	read -r capacity < /tmp/bench.kept/capacity
}
beside() {
	[ -z "$alone" ] || return 0
	for side in "$group"/side*; do
		join "$side" "$@" > /dev/null 2>> $out/side &
		jobs=$((jobs + 1))
	done
	[ -n "$loop" ] || return 0
	$loop --group "$group/side" 2>> $out/loop &
	looping=$!
}
watch() {
	observe --parent "$group" --runtime $1 --interval 0.05 --begin $begin > $out/seen &
	watching=$!
}
serving() {
	join "$group/main" "$@" &
	main=$!
}
finish() {
	wait $main
	status=$?
	wait $watching || status=1
	[ -z "$looping" ] || kill $looping || status=1
	for side in "$group"/side*; do echo 1 > "$side/cgroup.kill"; done
	cat $out/seen $out/side $out/loop 2>/dev/null
	echo "demand ${demand:-DEMAND} warm $warm side jobs ${jobs:-0}"
	rm -r $out
	exit $status
}
""".replace("DEMAND", str(DEMAND))

REQUESTS = SCENE + """warm=${warm:-1}
calibrate
begin=$(($(observe --now) + 500))
total=$(awk "BEGIN { print $warm + {work} }")
watch $total
serving serve --capacity $capacity --load {load}:$total --warmup $warm --begin $begin --interval 0.05 --json
beside SIDE
finish
"""

STEP = SCENE + f"""warm=0.3
calibrate
begin=$(($(observe --now) + 500))
stages={LOW}:${{low:-1}},{{load}}:${{high:-{{work}}}},{LOW}:${{back:-{{work}}}}
watch $(awk "BEGIN {{ print ${{low:-1}} + ${{high:-{{work}}}} + ${{back:-{{work}}}} }}")
serving serve --capacity $capacity --load $stages --warmup $warm --begin $begin --interval 0.05 --json
beside sidejob --kind compute
finish
"""

TIMERS = SCENE + """warm=${warm:-0.5}
begin=$(($(observe --now) + 500))
watch $(awk "BEGIN { print {work} + $warm }")
timers="cyclictest --quiet --policy=other --threads={load} --interval=5000 --distance=0 --histogram=20000"
# It has no warm-up of its own: one run for that, of which nothing is kept.
serving sh -c "sleep 0.4; $timers --loops=$(awk "BEGIN { print int($warm / 0.005) }") > /dev/null
exec $timers --loops=$(awk "BEGIN { print int({work} / 0.005) }")"
beside sidejob --kind compute
finish
"""

# Two jobs one behind the other: fio 3.33 tells no latencies where its ramp_time is more than its runtime. Before the first
# it needs some 0.7 s in slow motion by twenty.
# In the lab completions are the timer's, after the time that a fast disk takes; see disk_ns in bench/lab/costs.toml.
DISK = SCENE + """warm=${warm:-0.5}
begin=$(($(observe --now) + 800))
watch $(awk "BEGIN { print {work} + $warm }")
serving fio --filename=/dev/nullb0 --rw=randread --bs=4k --ioengine=psync --direct=1 --thread --numjobs={load} \
--rate_iops=100 --rate_process=poisson --randrepeat=1 --time_based --group_reporting --output-format=json \
--percentile_list=50:99:99.9 --name=warmup --runtime=$(awk "BEGIN { print int($warm * 1000) }")ms \
--name=main --stonewall --runtime=$(awk "BEGIN { print int({work} * 1000) }")ms
beside sidejob --kind compute
finish
"""

MACHINE = (
    Metric("idle", "% of the machine", HIGHER, "mean idle time", compared=False),
    Metric("idle_error", "points", LOWER, "idle time beyond what was asked for, or short of it", compared=False,
           optional=True),
    Metric("side", "% of the machine", HIGHER, "work of the side job, in CPU time", compared=False, optional=True),
    Metric("side_part", "%", HIGHER, "work of the side job, of what the demand leaves it", compared=False,
           optional=True),
    Metric("side_least", "% of the machine", HIGHER, "least work of the side job in 100 ms", compared=False,
           optional=True),
    Metric("ipc", "instructions/cycle", HIGHER, "instructions per cycle of the busy CPUs", optional=True),
)
LATENCIES = (
    Metric("p99", "us", LOWER, "99th percentile of latency"),
    Metric("mean", "us", LOWER, "mean of latency"),
    Metric("p50", "us", LOWER, "median of latency"),
    Metric("p999", "us", LOWER, "99.9th percentile of latency"),
)
STEPS = (
    Metric("reaction", "ms", LOWER, "from the step up until the demand is idle again", compared=False),
    Metric("gives_way", "ms", LOWER, "from the step up until that, or the side job is at its floor", compared=False,
           optional=True),
    Metric("return", "ms", LOWER, "from the step down until the side job has what is left", compared=False,
           optional=True),
    Metric("high_p99", "us", LOWER, "99th percentile of latency while the load is high"),
    Metric("high_idle", "% of the machine", HIGHER, "mean idle time while the load is high", compared=False),
)


def per_cycle(_values: Mapping[str, float], grown: Mapping[str, float], costs: Mapping[str, float]) -> dict[str, float]:
    """From the lab's counts, over the whole case with its calibration: of CPUs that are not halted."""
    cycles = grown["busy_ns"] * costs.get("clock_ghz", 0)
    return {"ipc": (grown["kernel"] + grown["user"]) / cycles} if cycles else {}


def effort(capacity: float) -> Callable[[int, float], float]:
    """Millions of instructions of the quick form's machine, at this share of what it can do.

    In a second, 8 CPUs execute some 500 million; computing, which most of them are, the lab does faster than its mean.
    """
    return lambda _, seconds: capacity * (seconds + 1.7) * 350


def sides(_load: int) -> tuple[str, ...]:
    return ("main", "side")


def shares(_load: int) -> tuple[str, ...]:
    return ("main", *WEIGHTS)


def requests(name: str, title: str, side: str, programs: tuple[str, ...], quick: bool,
             loads: tuple[int, ...] = (20, 40, 60), **more: Any) -> Bench:
    form = {40: 1.5} if quick else {}
    return Bench(
        name=name, title=f"service beside {title}", load="load", command=REQUESTS.replace("SIDE", side),
        programs=("serve", "observe", "join", "userloop", *programs), parse=parsers.headroom_requests,
        metrics=(*LATENCIES, Metric("rps", "1/s", HIGHER, "requests per second"), *MACHINE),
        work={FULL: {n: 4 for n in loads}, QUICK: form, HOST: {n: 30 for n in loads}}, effort=effort(0.75),
        limit=600, groups=sides, counted=True, derive=per_cycle, series=parsers.headroom_series, **more)


QUICK_CHOICE = ("weight", "idle", "max_right", "max_wrong", "hint", "headroom10", "headroom20", "headroom30",
                "headroom20+hint", "headroom30+hint", "headroom30+idle")


def stress(what: str) -> str:
    """As many workers as CPUs that they may use: more of them, pinned, are a load that the balancer tries to even out,
    with tasks of the service."""
    return f"sh -c 'exec stress-ng --quiet {what}'"


# On zen, a load of 30 % alone leaves nearly half of the machine idle, as in the ancestor's measurements.
CPU = requests("requests", "stress-ng's cpu load", stress("--cpu $(nproc) --cpu-method int64"), ("stress-ng",), True,
               (20, 30, 40, 60), quick_configurations=(*QUICK_CHOICE, "userloop"))
MEMORY = requests("requests-memory", "stress-ng's memory load", stress("--stream $(nproc) --stream-l3-size 4m"),
                  ("stress-ng",), False)
BUILD = requests("requests-build", "a build", "sidejob --kind build --units 500", ("sidejob",), True,
                 quick_configurations=("weight", "idle", "headroom20"))
BURSTY = requests("requests-bursty", "a bursty job", "sidejob --kind bursty --period 400", ("sidejob",), False)

SHARE = Bench(
    name="share", title="four side groups with weights 1, 2, 4 and 8", load="load",
    command=REQUESTS.replace("SIDE", "sidejob --kind compute"),
    programs=("serve", "observe", "join", "userloop", "sidejob"), parse=parsers.headroom_share,
    metrics=(Metric("share_error", "%", LOWER, "largest deviation of a group's CPU time from its weight",
                    compared=False, optional=True),
             *LATENCIES, *MACHINE),
    work={FULL: {40: 6}, QUICK: {40: 2}, HOST: {40: 30}}, effort=effort(0.85), limit=600, groups=shares,
    counted=True, derive=per_cycle,
    configurations=("alone", "weight", "headroom20", "headroom30"), quick_configurations=("weight", "headroom30"))

STEP_BENCH = Bench(
    name="step", title=f"a step of the load from {LOW} % and back", load="load", command=STEP,
    programs=("serve", "observe", "join", "userloop", "sidejob"), parse=parsers.headroom_step,
    metrics=(*STEPS, *MACHINE), work={FULL: {HIGH: 2}, QUICK: {HIGH: 1}, HOST: {HIGH: 10}}, effort=effort(2.2),
    limit=900, groups=sides, counted=True, derive=per_cycle, series=parsers.headroom_series,
    quick_configurations=("weight", "idle", "max_right", "headroom20", "headroom30"))

CYCLICTEST = Bench(
    name="cyclictest", title="timers of ordinary tasks beside a cpu load", load="threads", command=TIMERS,
    programs=("cyclictest", "observe", "join", "userloop", "sidejob"), parse=parsers.headroom_timers,
    metrics=(*LATENCIES, *MACHINE), work={FULL: {4: 2, 16: 2}, QUICK: {4: 0.5}, HOST: {4: 30, 16: 30}},
    effort=effort(0.7), limit=600, groups=sides, counted=True, derive=per_cycle, configurations=NOT_OF_A_PERCENT,
    quick_configurations=("weight", "idle", "headroom20"))

FIO = Bench(
    name="fio", title="reads of a null device beside a cpu load", load="jobs", command=DISK,
    programs=("fio", "observe", "join", "userloop", "sidejob"), parse=parsers.headroom_disk,
    metrics=(*LATENCIES, Metric("iops", "1/s", HIGHER, "reads per second"), *MACHINE),
    work={FULL: {4: 2, 16: 2}, QUICK: {4: 0.5}, HOST: {4: 30, 16: 30}}, effort=effort(0.9), limit=600, groups=sides,
    counted=True, derive=per_cycle, configurations=NOT_OF_A_PERCENT, quick_configurations=("weight", "idle", "headroom20"))


Judge = Callable[[View, Mapping[str, Any]], Verdict]
SERVICES = (CPU, MEMORY, BUILD, BURSTY)


def leaves(view: View, bench: str, load: int, config: str, alone: str) -> bool:
    """Does the load alone leave the demand idle, with some points to spare? What is not there, no controller can keep."""
    free = view.value(bench, "alone", load, alone)
    return free is None or int(SUITE.configuration(config).variables["demand"]) + SPARE_POINTS <= free


def found(view: View, benches: tuple[Bench, ...], configs: Iterable[str], metric: str, alone: str = ""
          ) -> list[tuple[float, str, str, int]]:
    """Everything measured of a metric, as (value, configuration, benchmark, load). If the metric of the machine's idle
    time is named, only where there is enough of it without the side job."""
    return [(value, config, bench.name, load) for bench in benches for load in view.loads(bench.name)
            for config in configs if (value := view.value(bench.name, config, load, metric)) is not None
            and (not alone or leaves(view, bench.name, load, config, alone))]


def slower(config: str, allowed: float, metric: str = "p99") -> Judge:
    """Reached if the service's latency with this configuration is never more than so many times the one alone."""
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        ratios = []
        for value, _config, bench, load in found(view, SERVICES, [config], metric):
            if alone := view.value(bench, "alone", load, metric):
                ratios.append((value / alone, bench, load))
        if not ratios:
            return Verdict(None, "not measured")
        worst, bench, load = max(ratios)
        return Verdict(worst <= allowed, f"{worst:.2f} at worst", f"{bench} at {load} %; {len(ratios)} cases")
    return judge


def as_many(wanted: float) -> Judge:
    """Reached if the service does so many percent of the requests that it does alone, whatever the demand."""
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        parts = [(100 * value / alone, config, bench, load) for value, config, bench, load
                 in found(view, SERVICES, DEMANDS, "rps") if (alone := view.value(bench, "alone", load, "rps"))]
        if not parts:
            return Verdict(None, "not measured")
        worst, config, bench, load = min(parts)
        return Verdict(worst >= wanted, f"{worst:.1f} % at worst", f"{config}, {bench} at {load} %; {len(parts)} cases")
    return judge


def limit(benches: tuple[Bench, ...], metric: str, unit: str, at_most: float | None = None,
          at_least: float | None = None, alone: str = "") -> Judge:
    """Reached if the metric is never beyond one of the two limits."""
    def judge(view: View, _: Mapping[str, Any]) -> Verdict:
        if not (values := found(view, benches, DEMANDS, metric, alone)):
            return Verdict(None, "not measured")
        worst, config, bench, load = max(values) if at_least is None else min(values)
        return Verdict((at_most is None or worst <= at_most) and (at_least is None or worst >= at_least),
                       f"{worst:.1f} {unit} at worst", f"{config}, {bench} at {load}; {len(values)} cases")
    return judge


def never_zero(view: View, _: Mapping[str, Any]) -> Verdict:
    values = found(view, (CPU, STEP_BENCH), DEMANDS, "side_least")
    if not values:
        return Verdict(None, "not measured")
    least, config, bench, load = min(values)
    return Verdict(least > 0, f"{least:.3f} % of the machine", f"{config}, {bench} at {load}")


STEADY = (CPU, MEMORY)
FIGURES = (
    Figure("main p99 vs alone, demand 30 %", "", "<= 1.05", slower("headroom30", 1.05)),
    Figure("main p99 vs alone, demand 20 %", "", "<= 1.10", slower("headroom20", 1.10)),
    Figure("the same, and the side job cpu.idle, 30 %", "", "<= 1.05", slower("headroom30+idle", 1.05)),
    Figure("the same, 20 %", "", "<= 1.10", slower("headroom20+idle", 1.10)),
    Figure("main p99 vs alone, main work with cpu.hint, 30 %", "", "<= 1.05", slower("headroom30+hint", 1.05)),
    Figure("main p99 vs alone, main work with cpu.hint, 20 %", "", "<= 1.10", slower("headroom20+hint", 1.10)),
    # What the ancestor told of itself, whose side job was SCHED_IDLE.
    Figure("its mean, side job cpu.idle, 30 %", "1.08", "<= 1.08", slower("headroom30+idle", 1.08, "mean")),
    Figure("its mean, side job cpu.idle, 20 %", "1.13", "<= 1.13", slower("headroom20+idle", 1.13, "mean")),
    *(Figure(f"main {metric} vs alone, demand {percent} %", "", f"<= {allowed:.2f}",
             slower(f"headroom{percent}", allowed, metric))
      for metric in ("mean", "p999") for percent, allowed in ((30, 1.05), (20, 1.10))),
    Figure("main requests per second vs alone", "", ">= 99 %", as_many(99.0)),
    Figure("idle vs demand, steady", "19.0 for 20, 27.6 for 30", "+-1 point",
           limit(STEADY, "idle_error", "points", at_most=1.0, alone="idle")),
    Figure("from a load step to the demand", "5-10 s (user space)", "<= 300 ms",
           limit((STEP_BENCH,), "reaction", "ms", at_most=300.0, alone="high_idle")),
    Figure("the same, or to the floor of the side job", "", "<= 300 ms",
           limit((STEP_BENCH,), "gives_way", "ms", at_most=300.0)),
    Figure("from a step down to all that is left", "", "<= 300 ms",
           limit((STEP_BENCH,), "return", "ms", at_most=300.0)),
    Figure("side work, of what the demand leaves", "", ">= 95 %",
           limit(STEADY, "side_part", "%", at_least=95.0, alone="idle")),
    Figure("four groups, of their weights 1:2:4:8", "", "<= 5 %",
           limit((SHARE,), "share_error", "%", at_most=5.0)),
    Figure("least side work in a period", "", "> 0", never_zero),
)

SUITE = Suite(
    name="headroom", title="Headroom beside batch work",
    benches=(CPU, MEMORY, BUILD, BURSTY, STEP_BENCH, SHARE, CYCLICTEST, FIO), topologies=("zen@20",),
    configurations=CONFIGURATIONS,
    samples={FULL: 3, QUICK: 1, HOST: 5}, page="bench/headroom.md", quick_topologies=("1x2x2x2@20",), figures=FIGURES,
    effort_of="1x2x2x2@20")
