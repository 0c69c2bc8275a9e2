# SPDX-License-Identifier: GPL-2.0-only
"""Suite `hint`: what cpu.hint gains and costs where seed 1 measured its prctl() hints, and what pinning would do.

The amounts of work are small, because a millisecond of the modelled machine, all CPUs busy, costs about a second of
real time; bench/hint.md says what that means for the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import parsers
import schedulers
from suite import (BASELINE, FULL, HIGHER, HINT, HOST, LOWER, PINNED, PROFILE, QUICK, SEED, Bench, Configuration,
                   Figure, Metric, Suite, Switch, Verdict, View)

# Where the kernel offers seed 1's own way of trusting "has idle cores".
SEED1_SWITCH = Switch("/sys/kernel/debug/sched/ancestor_wake", on="1", off="0")

# Millions of instructions in a second of the lab's time: of a thread alone on its core, and of one of two. By these the
# amounts of work are chosen; the costs that the lab computes with are in bench/lab/costs.toml.
ALONE, SHARED = 4000.0, 2400.0
LAB_CPUS = 32

# 48 MB for each of the three arrays: two of them, which is what a kernel of STREAM goes through, are more than all
# last-level caches of the lab's machines together.
STREAM_ELEMENTS = 6_000_000


def busy(tasks: int, seconds: float) -> float:
    """Millions of instructions of so many tasks that compute for so long, on at most all CPUs."""
    return (tasks * ALONE if tasks <= LAB_CPUS / 2 else min(tasks, LAB_CPUS) * SHARED) * seconds


# now: the monotonic clock in ns, read by the shell itself. The date of a small shell is too coarse for what takes some
# milliseconds, and other programs take longer than that to say it.
NOW = "now() { { read -r _; read -r _ _ at; } < /sys/kernel/debug/sched/debug; now=${at%.*}${at#*.}; }"

HACKBENCH = Bench(
    name="hackbench", title="hackbench, threads and pipes", load="groups", programs=("hackbench",),
    # 20 senders and 20 receivers in a group; each sender sends so many messages to each receiver of its group.
    # hackbench prints whole milliseconds, of which a run in the lab has some 50, and 8 in its quick form. The shell's
    # clock tells more, but of making the threads, too, which takes as long.
    command=NOW + """
now
begin=$now
hackbench --threads --pipe --groups {load} --loops {work}
status=$?
now
echo "elapsed $((now - begin)) ns"
exit $status""",
    parse=parsers.hackbench,
    metrics=(Metric("time", "s", LOWER, "time for all messages"),
             Metric("elapsed", "ms", LOWER, "time from start to end", shown=False)),
    work={FULL: {1: 800, 2: 480, 4: 320, 8: 200, 16: 120}, QUICK: {1: 100, 4: 30},
          HOST: {n: 20000 for n in (1, 2, 4, 8, 16)}},
    # 400 messages a loop and group, each written, read, and every so often waited for; and 40 threads to make.
    effort=lambda groups, loops: groups * (4 + 400 * loops * 0.008), limit=300)

SCHBENCH = Bench(
    name="schbench", title="schbench, one messenger", load="workers", programs=("schbench",),
    # A request multiplies matrices of 32 x 32 three times, 24 KB: about 0.7 million instructions. That is 180 us in the
    # lab, long enough for one messenger to keep all CPUs busy. The number of requests is that of all workers together.
    command="exec schbench -m 1 -t {load} -F 24 -n 3 -w 0.003 --requests {work} --json",
    parse=parsers.schbench,
    metrics=(Metric("wakeup_p99", "us", LOWER, "99th percentile of wakeup latency"),
             Metric("wakeup_p50", "us", LOWER, "median of wakeup latency", shown=False),
             Metric("wakeup_p90", "us", LOWER, "90th percentile of wakeup latency", shown=False),
             Metric("wakeup_p999", "us", LOWER, "99.9th percentile of wakeup latency", shown=False),
             Metric("request_p99", "us", LOWER, "99th percentile of request latency", shown=False),
             Metric("rps", "1/s", HIGHER, "requests per second")),
    work={FULL: {1: 500, 2: 600, 4: 800, 8: 1200, 16: 1600, 32: 2400, 64: 3200, 128: 3200},
          QUICK: {2: 300, 8: 600, 16: 1000}, HOST: {n: 100_000 for n in (1, 2, 4, 8, 16, 32, 64, 128)}},
    effort=lambda workers, requests: 0.73 * requests + busy(workers, 0.003), limit=300)

# tbench takes whole seconds, which the lab cannot afford. What ends it is its own alarm, every second, and with -t 0
# any alarm; so it gets one earlier. That is ignored until tbench is ready for it, and while a client has transferred
# nothing yet. Then there is a second one, and "measured again" makes the result unreadable. To be on time, both the
# shell that sends it and tbench's first process, which only waits for it, have the highest priority, where there is a
# nice (arm64's busybox has none).
#
# Its load file has phases longer than such a run, and begins with files of 1 MB being written. Here a piece of it is
# used that has the mix of the whole, in an order that gives each stretch of it that mix.
TBENCH_BRIEFLY = """dd if=/usr/share/dbench/client.txt bs=65536 skip=85 count=4 2> /dev/null | awk '
{ line[NR] = $0 }
END { for (i = 0; i < NR - 2; i++) print line[2 + i * 1009 % (NR - 2)] }' > /tmp/tbench.load
tbench_srv > /dev/null 2>&1 & server=$!
sleep 1
first=
nice true 2> /dev/null && first="nice -n -20"
sh -c 'trap "" ALRM; echo $$; exec tbench -c /tmp/tbench.load -t 0 {load} 127.0.0.1' | $first sh -c '
""" + NOW + """
read -r first
while read -r line; do
	echo "$line"
	[ "$line" = "releasing clients" ] || continue
	now
	begin=$now
	renice -n -20 -p "$first" > /dev/null 2>&1
	sleep {work}
	kill -ALRM "$first"
	now
	echo "measured for $((now - begin)) ns"
	while sleep 0.05 && kill -ALRM "$first"; do echo "measured again"; done 2> /dev/null &
done'
kill $server"""

TBENCH = Bench(
    name="tbench", title="tbench, server and clients in the group", load="clients", programs=("tbench", "tbench_srv"),
    command=TBENCH_BRIEFLY,
    host_command="""tbench_srv > /dev/null 2>&1 & server=$!
sleep 1
tbench -t {work} {load} 127.0.0.1
status=$?
kill $server
exit $status""",
    parse=parsers.tbench,
    metrics=(Metric("operations", "1/s", HIGHER, "operations per second"),
             Metric("throughput", "MB/s", HIGHER, "throughput", shown=False, optional=True)),
    work={FULL: {n: 0.02 for n in (1, 2, 4, 8, 16, 32, 64)}, QUICK: {1: 0.02, 16: 0.02},
          HOST: {n: 10 for n in (1, 2, 4, 8, 16, 32, 64)}},
    effort=lambda clients, seconds: 20 * clients + busy(2 * clients, seconds + 0.001),
    quick_configurations=("fork_affine", "fork_spread", "node"))

STREAM = Bench(
    name="stream", title="STREAM", load="threads", programs=("stream",),
    command="exec stream -t {load} -n {work} -k 3 --json",
    parse=parsers.stream,
    metrics=tuple(Metric(kernel, "MB/s", HIGHER, f"best rate of {kernel}")
                  for kernel in ("triad", "copy", "scale", "add")),
    work={FULL: {n: STREAM_ELEMENTS for n in (1, 2, 4, 8, 16)}, QUICK: {4: STREAM_ELEMENTS},
          HOST: {n: 100_000_000 for n in (1, 2, 4, 8, 16)}},
    # Three repetitions of four kernels, the first touch and the check are about 105 instructions for each element. The
    # lab looks at every access to memory, of which there are more here than elsewhere.
    effort=lambda _, elements: 2.5 * 105 * elements / 1e6,
    quick_configurations=("fork_spread", "fork_spread+wake_hold", "cores"))

PACKED = "fork_affine+wake_affine+pack"

CONFIGURATIONS = (
    Configuration("none", BASELINE),
    Configuration("fork_affine", HINT, "Fork hints", "fork_affine"),
    Configuration("fork_spread", HINT, "Fork hints", "fork_spread"),
    Configuration("wake_affine", HINT, "Wakeup hints", "wake_affine"),
    Configuration("wake_hold", HINT, "Wakeup hints", "wake_hold"),
    Configuration("seed1", SEED, "Wakeup hints", "wake_affine", switches=(SEED1_SWITCH,), needs=(SEED1_SWITCH.path,)),
    Configuration("fork_affine+wake_affine", HINT, "Combinations of hints", "fork_affine wake_affine"),
    Configuration("fork_spread+wake_hold", HINT, "Combinations of hints", "fork_spread wake_hold"),
    # It fills up cores, and so gives something away on purpose, as profiles do.
    Configuration(PACKED, PROFILE, "Combinations of hints", "fork_affine wake_affine pack"),
    Configuration("tail_latency", PROFILE, "Profiles", "tail_latency"),
    Configuration("interactive", PROFILE, "Profiles", "interactive"),
    Configuration("noninteractive", PROFILE, "Profiles", "noninteractive"),
    Configuration("background", PROFILE, "Profiles", "background"),
    Configuration("efficient", PROFILE, "Profiles", "efficient"),
    Configuration("llc", PINNED, pin="llc"),
    Configuration("node", PINNED, pin="node"),
    Configuration("cores", PINNED, pin="cores"),
    Configuration("apart", PINNED, pin="apart"),
    *schedulers.configurations("layers-one.json", asked=True),
)


Condition = Callable[[int, Mapping[str, Any]], bool]
Judge = Callable[[View, Mapping[str, Any]], Verdict]
Choice = Callable[[View], Sequence[str]]


def of_kind(*kinds: str) -> Choice:
    """The configurations of these kinds."""
    return lambda view: view.configurations(*kinds)


def named(*configs: str) -> Choice:
    return lambda _: configs


def profiles_by_name(view: View) -> Sequence[str]:
    """The profiles without the combination that is counted as one."""
    return [config for config in view.configurations(PROFILE) if config != PACKED]


def any_load(load: int, machine: Mapping[str, Any]) -> bool:
    """The condition of a figure that is about all loads."""
    return load > 0 and bool(machine)


def coverage(benches: Iterable[Bench], condition: Condition, machine: Mapping[str, Any],
             loads: Iterable[tuple[str, int]], configs: Iterable[str], wanted: Iterable[str]) -> str:
    """What a verdict does not rest on, where that is not everything that the figure is about. Loads are with the names
    of their benchmarks."""
    parts = []
    found = set(loads)
    every = {(bench.name, load) for bench in benches for load in bench.loads(FULL) if condition(load, machine)}
    if found != every:
        parts.append(f"{len(found)} of {len(every)} loads")
    names, all_names = set(configs), set(wanted)
    if names != all_names:
        parts.append(f"{len(names)} of {len(all_names)} configurations")
    return f" ({', '.join(parts)})" if parts else ""


def best_gain(bench: Bench, metric: str | Sequence[str], wanted: float, condition: Condition, choice: Choice, *,
              judged: bool = True) -> Judge:
    """Reached if at every such load the best of these gains so much; in each of the metrics, if there are several."""
    metrics = (metric,) if isinstance(metric, str) else tuple(metric)

    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        names = choice(view)
        gains = [(gain, load, config, name) for load in view.loads(bench.name) if condition(load, machine)
                 for config in names for name in metrics
                 if (gain := view.gain(bench.name, config, load, name)) is not None]
        if not gains:
            return Verdict(None, "not measured")
        places = sorted({(load, name) for _, load, _, name in gains})
        best = [max(entry for entry in gains if (entry[1], entry[3]) == place) for place in places]
        rests = coverage((bench,), condition, machine, ((bench.name, entry[1]) for entry in gains),
                         (entry[2] for entry in gains), names)
        each = "; ".join(f"{load}{f' {name}' if len(metrics) > 1 else ''}: {gain:+.1f} % ({config})"
                         for gain, load, config, name in best)
        return Verdict(min(best)[0] >= wanted if judged else None, f"{min(best)[0]:+.1f} % at least{rests}", each)
    return judge


def never_worse(bench: Bench, metric: str, allowed: float, condition: Condition, choice: Choice, *,
                judged: bool = True) -> Judge:
    """Reached if none of these loses more than so much at any such load."""
    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        names = choice(view)
        losses = [(gain, config, load) for config in names for load in view.loads(bench.name)
                  if condition(load, machine) and (gain := view.gain(bench.name, config, load, metric)) is not None]
        if not losses:
            return Verdict(None, "not measured")
        gain, config, load = min(losses)
        rests = coverage((bench,), condition, machine, ((bench.name, entry[2]) for entry in losses),
                         (entry[1] for entry in losses), names)
        return Verdict(gain >= -allowed if judged else None, f"{gain:+.1f} % at worst{rests}", f"{config} at {load}")
    return judge


def near_oracle(benches: Iterable[Bench], allowed: float, *kinds: str, judged: bool = True) -> Judge:
    """Reached if the best of these kinds, by the first metric of each benchmark, is never further behind the best
    pinning. What there was to choose from counts on both sides, and pinnings only if results say that the machine has
    them: older ones do not."""
    def judge(view: View, machine: Mapping[str, Any]) -> Verdict:
        found = [(*distance, bench.name, load, bench.metrics[0].name) for bench in benches
                 for load in view.loads(bench.name)
                 if (distance := view.distance(bench.name, load, bench.metrics[0].name, *kinds))]
        if not found:
            return Verdict(None, "not measured")
        names = [*view.configurations(*kinds),
                 *(config for config in view.configurations(PINNED) if config in machine.get("pinnings", ()))]
        measured = (config for *_, bench, load, metric in found for config in names
                    if view.value(bench, config, load, metric) is not None)
        rests = coverage(benches, any_load, machine, (entry[3:5] for entry in found), measured, names)
        percent, config, pinning, bench, load, _ = min(found)
        return Verdict(percent >= -allowed if judged else None, f"{percent:+.1f} % at worst{rests}",
                       f"{bench} at {load}: {config} against {pinning}")
    return judge


# A gain is to be reached with whatever there is to choose from, and a loss is allowed to none of the six hints. What does
# not count for both is said beside each: what those gain that may not lose, and what the others lose.
def figures_of_gain(bench: Bench, what: str, seed: str, wanted: float, condition: Condition,
                    split_only: bool = False) -> list[Figure]:
    """The best of all is to reach so much; what the six hints reach by themselves is to be known."""
    metric = bench.metrics[0].name
    return [Figure(f"{what}, best hint", seed, f"+{wanted:g} %",
                   best_gain(bench, metric, wanted, condition, of_kind(HINT, PROFILE)), split_only),
            Figure(f"{what}, best of the six hints", seed, "",
                   best_gain(bench, metric, wanted, condition, of_kind(HINT), judged=False), split_only)]


def figures_of_loss(bench: Bench, what: str, seed: str, allowed: float, condition: Condition) -> list[Figure]:
    """That no hint loses much is to be reached; what the others lose, which trade one thing for another, to be known."""
    metric = bench.metrics[0].name

    def known(name: str, choice: Choice, seed: str = "") -> Figure:
        return Figure(f"{what}, {name}", seed, "", never_worse(bench, metric, allowed, condition, choice, judged=False))

    return [Figure(f"{what}, any hint", seed, f"-{allowed:g} %",
                   never_worse(bench, metric, allowed, condition, of_kind(HINT))),
            known(PACKED, named(PACKED)), known("any profile", profiles_by_name),
            known("seed 1's algorithm", of_kind(SEED), seed)]


ALL = (HACKBENCH, SCHBENCH, TBENCH, STREAM)
# Percentages are positive where something is better than without a hint, whether that is more or less of it.
FIGURES = (
    *figures_of_gain(SCHBENCH, "schbench p99, 1-8 workers", "+41 … +54 %", 45.0, lambda load, _: load <= 8,
                     split_only=True),
    *figures_of_loss(SCHBENCH, "schbench p99, 16-128 workers", "-3,000 … -13,000 %", 5.0, lambda load, _: load >= 16),
    # A wakeup that is sooner is no gain where requests take longer for it, or fewer of them are done.
    *(Figure(f"schbench {what}, any load, any hint", "", f"-{allowed:g} %",
             never_worse(SCHBENCH, metric, allowed, any_load, of_kind(HINT)))
      for what, metric, allowed in (("requests per second", "rps", 3.0), ("p99 of requests", "request_p99", 5.0))),
    *figures_of_gain(HACKBENCH, "hackbench, 1-4 groups", "+2 … +16 %", 15.0, lambda load, _: load <= 4),
    *figures_of_loss(HACKBENCH, "hackbench, any load", "-11 %", 3.0, any_load),
    Figure("tbench, clients >= cores, fork_spread", "+5 … +12 %", "+10 %",
           best_gain(TBENCH, "operations", 10.0, lambda load, machine: bool(load >= machine["cores"]),
                     named("fork_spread"))),
    *figures_of_loss(TBENCH, "tbench, any load", "-54 %", 3.0, any_load),
    Figure("STREAM, each kernel, 2-8 threads, fork_spread", "+12 … +18 %", "+15 %",
           best_gain(STREAM, [metric.name for metric in STREAM.metrics], 15.0, lambda load, _: 2 <= load <= 8,
                     named("fork_spread"))),
    Figure("best hint against the best pinning", "", "-5 %", near_oracle(ALL, 5.0, HINT, PROFILE)),
    Figure("best of the six hints against the best pinning", "", "", near_oracle(ALL, 5.0, HINT, judged=False)),
)

SUITE = Suite(
    name="hint", title="Placement hints", benches=ALL, topologies=("zen", "xeon"),
    configurations=CONFIGURATIONS, samples={FULL: 3, QUICK: 1, HOST: 5}, page="bench/hint.md",
    quick_topologies=("zen",), figures=FIGURES, least_llcs=2,
    quick_configurations=("fork_affine", "fork_spread", "wake_affine", "seed1", "fork_affine+wake_affine", "llc",
                          "node"))
