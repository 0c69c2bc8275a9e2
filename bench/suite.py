# SPDX-License-Identifier: GPL-2.0-only
"""The vocabulary of a benchmark suite, the shell scripts that run one, and the reader of what such a script says.

A *case* is one run of one benchmark under one load and configuration. A *block* is the cases of all configurations for
one benchmark and load; only within a block are values compared, so a block is never split over two boots. A *chunk* is
the blocks that one script runs, in one boot of the machine.
"""

from __future__ import annotations

import fnmatch
import importlib
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from common import Fail  # noqa: E402
from parsers import Parser  # noqa: E402

HIGHER, LOWER = "higher", "lower"
# The kinds of configuration. TODAY is what an operator can do without this project, OURS what this project adds. ORACLE
# is not run: it is the best of the baseline and the pinnings, found afterwards.
BASELINE, HINT, PROFILE, PINNED, SEED, ORACLE = "baseline", "hint", "profile", "pinned", "seed", "oracle"
TODAY, OURS = "today", "ours"
FULL, QUICK, HOST = "full", "quick", "host"

# Millions of instructions that the lab gets through in a second of real time on two CPUs. Only to estimate by.
LAB_SPEED = 80.0
# What booting costs before the first benchmark starts, in seconds of real time.
BOOT_SECONDS = 15.0
# A chunk is filled with blocks until it takes about this long: short enough to lose little with one that fails.
CHUNK_SECONDS = 240.0


@dataclass(frozen=True)
class Metric:
    """One number that a benchmark gives; `shown` in tables, `optional` where not every form of it gives the number.

    Where not `compared`, a table has the number alone: the baseline has none, or a percentage of it says nothing.
    """

    name: str
    unit: str
    better: str
    title: str
    shown: bool = True
    optional: bool = False
    compared: bool = True

    def __post_init__(self) -> None:
        assert self.better in (HIGHER, LOWER), self.better


@dataclass(frozen=True)
class Bench:
    """A benchmark: its command, with {load} and {work} filled in, and what to read from its output.

    `work` gives for each form (full, quick, host) the loads and how much to do at each: in whatever unit the command
    takes. `effort` estimates millions of guest instructions from load and work. `limit` is in seconds of the machine.
    `quick_configurations` restricts the quick form. The first metric is the one that pictures show.

    A benchmark with `groups` gets these below the case's own (see GROUPS); it then starts outside of all of them, and
    puts its parts into them with `join`. `series` reads from its output what a picture over time needs, and `counted`
    asks for the lab's counts before and after it, from which and from its values `derive` makes further ones. `first`
    is a command that runs before anything of the case is set, outside of its groups; what it leaves in /tmp/bench.kept
    the next cases find.
    """

    name: str
    title: str
    load: str
    command: str
    programs: tuple[str, ...]
    parse: Parser
    metrics: tuple[Metric, ...]
    work: Mapping[str, Mapping[int, float]]
    effort: Callable[[int, float], float]
    limit: int = 60
    files: Mapping[str, Path] = field(default_factory=dict)
    host_command: str = ""
    quick_configurations: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()
    groups: Callable[[int], tuple[str, ...]] | None = None
    series: Callable[[str], dict[str, Any]] | None = None
    counted: bool = False
    first: str = ""
    derive: Callable[[Mapping[str, float], Mapping[str, float], Mapping[str, float]], Mapping[str, float]] | None = None

    def loads(self, form: str) -> list[int]:
        return sorted(self.work[form])

    def shell(self, load: int, form: str) -> str:
        command = self.host_command if form == HOST and self.host_command else self.command
        return command.replace("{load}", str(load)).replace("{work}", f"{self.work[form][load]:.10g}")

    def seconds(self, load: int, form: str) -> float:
        """About how long one run takes in the lab, in real time, on the machine that `effort` is of."""
        return 0.3 + self.effort(load, self.work[form][load]) / LAB_SPEED

    def metric(self, name: str) -> Metric:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise Fail(f"{self.name} has no metric '{name}'; it has: {', '.join(m.name for m in self.metrics)}")


@dataclass(frozen=True)
class Switch:
    """A file, such as one of debugfs, that is written before a run and put back after it."""

    path: str
    on: str
    off: str


@dataclass(frozen=True)
class Setting:
    """A file of one of a benchmark's groups, and what is written to it: a text, or one that depends on the case.

    `group` is a pattern: `gang*` stands for all groups whose names begin so. None as a value leaves the file alone.
    """

    group: str
    file: str
    value: str | Callable[[str, int, Layout], str | None]

    def value_for(self, group: str, load: int, layout: Layout) -> str | None:
        return self.value if isinstance(self.value, str) else self.value(group, load, layout)


@dataclass(frozen=True)
class Configuration:
    """What the group is told before the benchmark starts in it; `block` is the table that shows it.

    `settings` are for benchmarks with groups, `variables` for the shell of their commands. `needs` are files without
    which the configuration does not exist on this kernel: files of a group by their name, others by their path. It is
    then skipped, which the results say, and never measured as something else.

    `scheduler` is the command of a sched_ext scheduler that runs during the case, with {files} for where bench/apps is.
    Its program comes from `make rivals`. A case at whose end the scheduler is not in force any more has failed, and so
    has one where the scheduler's log has nothing that matches `proof`. One that is `asked` for runs only where CONFIGS
    names it.
    """

    name: str
    kind: str
    block: str = ""
    hint: str = ""
    pin: str = ""
    switches: tuple[Switch, ...] = ()
    settings: tuple[Setting, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    smt_only: bool = False
    scheduler: str = ""
    proof: str = ""
    asked: bool = False

    @property
    def scheduler_program(self) -> str:
        return self.scheduler.partition(" ")[0]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "hint": self.hint, "pin": self.pin,
                "switches": [[switch.path, switch.on] for switch in self.switches],
                "settings": [[s.group, s.file, s.value if isinstance(s.value, str) else "by load and machine"]
                             for s in self.settings], "variables": dict(self.variables), "needs": list(self.needs),
                **({"scheduler": self.scheduler} if self.scheduler else {})}


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs as the kernel writes them: 0-3,8."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def parse_cpu_list(text: str) -> frozenset[int]:
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


@dataclass(frozen=True)
class Layout:
    """Which CPUs of a machine share a core, a last-level cache and a node."""

    name: str
    cores: tuple[frozenset[int], ...]
    llcs: tuple[frozenset[int], ...]
    nodes: tuple[frozenset[int], ...]

    @classmethod
    def regular(cls, name: str, nodes: int, llcs: int, cores: int, threads: int) -> Layout:
        """nodes x LLCs in a node x cores in an LLC x threads in a core, with CPUs numbered in that order."""
        count = nodes * llcs * cores * threads

        def split(width: int) -> tuple[frozenset[int], ...]:
            return tuple(frozenset(range(first, first + width)) for first in range(0, count, width))

        return cls(name, split(threads), split(cores * threads), split(llcs * cores * threads))

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset().union(*self.cores)

    @property
    def split(self) -> bool:
        """Does a node have several last-level caches?"""
        return len(self.llcs) > len(self.nodes)

    @property
    def smt(self) -> bool:
        return any(len(core) > 1 for core in self.cores)

    @property
    def speed(self) -> float:
        """What it does in a second, in CPUs of a machine that is not in slow motion."""
        return len(self.cpus) / int(self.name.partition("@")[2] or 1)

    def pinnings(self) -> dict[str, frozenset[int]]:
        """The sets of CPUs that somebody who pins would try, without those that come to the same on this machine."""
        def first_of(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
            return sorted(sets, key=min)

        candidates = {
            "llc": first_of(self.llcs)[0],
            "node": first_of(self.nodes)[0],
            "cores": frozenset(min(core) for core in self.cores),
            "apart": frozenset().union(*(next(core for core in first_of(self.cores) if core <= llc)
                                         for llc in self.llcs)),
        }
        different: dict[str, frozenset[int]] = {}
        for name, cpus in candidates.items():
            if cpus != self.cpus and cpus not in different.values():
                different[name] = cpus
        return different

    def describe(self) -> dict[str, Any]:
        return {"cpus": len(self.cpus), "cores": len(self.cores), "split": self.split,
                "llcs": [cpu_list(cpus) for cpus in self.llcs], "nodes": [cpu_list(cpus) for cpus in self.nodes],
                "pinnings": {name: cpu_list(cpus) for name, cpus in self.pinnings().items()}}


LAYOUTS = {
    "zen": Layout.regular("zen", nodes=2, llcs=2, cores=4, threads=2),
    "xeon": Layout.regular("xeon", nodes=2, llcs=1, cores=8, threads=2),
    "biglittle": Layout.regular("biglittle", nodes=1, llcs=2, cores=4, threads=1),
    "threekinds": Layout.regular("threekinds", nodes=1, llcs=1, cores=8, threads=1),
}


def layout_of(name: str) -> Layout:
    """A machine of the lab: by its name, or by its size as NODESxLLCSxCORESxTHREADS[:COSTS]; @N is slow motion."""
    machine, at, factor = name.partition("@")
    if not at or (factor.isdigit() and int(factor)):
        if machine in LAYOUTS:
            return replace(LAYOUTS[machine], name=name)
        if match := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)x([12])(?::\w+)?", machine):
            return Layout.regular(name, *map(int, match.groups()))
    raise Fail(f"TOPO={name} is neither {' nor '.join(LAYOUTS)} nor NODESxLLCSxCORESxTHREADS, such as 4x2x8x2, "
               "nor one of these with @N behind it")


class View(Protocol):
    """What a figure may ask of the results of one topology; percentages are positive where a value is better."""

    def loads(self, bench: str) -> list[int]: ...
    def configurations(self, *kinds: str) -> list[str]: ...
    def gain(self, bench: str, config: str, load: int, metric: str) -> float | None: ...
    def distance(self, bench: str, load: int, metric: str, *kinds: str) -> tuple[float, str, str] | None: ...
    def value(self, bench: str, config: str, load: int, metric: str) -> float | None: ...


@dataclass(frozen=True)
class Verdict:
    """Was a figure reached? None where it was not measured, or where it is only to be known."""

    reached: bool | None
    number: str
    detail: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure to reach, and how to tell from the results; on split-LLC machines only, if so said."""

    what: str
    seed: str
    goal: str
    judge: Callable[[View, Mapping[str, Any]], Verdict]
    split_only: bool = False


@dataclass(frozen=True)
class Suite:
    """Benchmarks x topologies x configurations, run so many times."""

    name: str
    title: str
    benches: tuple[Bench, ...]
    topologies: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    samples: Mapping[str, int]
    page: str
    quick_topologies: tuple[str, ...] = ()
    quick_configurations: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    least_llcs: int = 1  # a machine with fewer shows nothing of what the suite is about
    # Where benchmarks last for a time: the machine that their efforts are of. A larger or faster one does more in it.
    effort_of: str = ""
    # It compares with what else there is, which bench/ways.py makes a page of. sched_ext schedulers are among it: the
    # lab boots the kernel that has sched_ext, if they are built.
    rivals: bool = False

    def seconds(self, bench: Bench, load: int, form: str, layout: Layout) -> float:
        """The same on this machine."""
        known = layout_of(self.effort_of) if self.effort_of and form != HOST else layout
        return bench.seconds(load, form) * layout.speed / known.speed

    def bench(self, name: str) -> Bench:
        for bench in self.benches:
            if bench.name == name:
                return bench
        raise Fail(f"suite {self.name} has no benchmark '{name}'; it has: {', '.join(b.name for b in self.benches)}")

    def configuration(self, name: str) -> Configuration:
        for configuration in self.configurations:
            if configuration.name == name:
                return configuration
        raise Fail(f"suite {self.name} has no configuration '{name}'; "
                   f"it has: {', '.join(c.name for c in self.configurations)}")

    @property
    def baseline(self) -> Configuration:
        return next(configuration for configuration in self.configurations if configuration.kind == BASELINE)


def known_suites() -> list[str]:
    return sorted(path.stem for path in (Path(__file__).parent / "suites").glob("*.py") if path.stem != "__init__")


def load_suite(name: str) -> Suite:
    if name not in known_suites():
        raise Fail(f"SUITE={name}: there is no bench/suites/{name}.py; the suites are: {', '.join(known_suites())}")
    if str(Path(__file__).parent) not in sys.path:
        sys.path.insert(0, str(Path(__file__).parent))
    suite = importlib.import_module(f"suites.{name}").SUITE
    assert isinstance(suite, Suite)
    return suite


@dataclass(frozen=True)
class Case:
    """One run; the number is what the script's markers call it by."""

    number: int
    bench: str
    topology: str
    config: str
    load: int
    sample: int

    @property
    def id(self) -> str:
        return f"{self.bench}/{self.load} {self.config} on {self.topology}, sample {self.sample + 1}"


@dataclass(frozen=True)
class Chunk:
    """What one script runs, in the order in which it does."""

    layout: Layout
    cases: tuple[Case, ...]
    seconds: float


@dataclass(frozen=True)
class Selection:
    """What of a suite to run; empty is everything that the form has."""

    form: str = FULL
    topologies: tuple[str, ...] = ()
    benches: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    samples: int = 0
    host: Layout | None = None
    quick: bool = False
    only_loads: tuple[int, ...] = ()

    @property
    def short(self) -> bool:
        return self.quick or self.form == QUICK

    def layouts(self, suite: Suite) -> list[Layout]:
        if self.host:
            return [self.host]
        names = self.topologies or (self.short and suite.quick_topologies) or suite.topologies
        return [layout_of(name) for name in names]

    def loads(self, bench: Bench) -> list[int]:
        """On real hardware, the quick form has the loads of the lab's quick form, but its own amounts of work."""
        loads = bench.loads(self.form)
        if self.form == HOST and self.quick:
            loads = [load for load in loads if load in bench.work[QUICK]]
        return [load for load in loads if not self.only_loads or load in self.only_loads]

    def check_loads(self, benches: Iterable[Bench]) -> None:
        """A load that no benchmark has would measure nothing, and say nothing."""
        every = replace(self, only_loads=())
        known = {bench.name: every.loads(bench) for bench in benches}
        for load in self.only_loads:
            if not any(load in loads for loads in known.values()):
                has = "; ".join(f"{name} has {', '.join(map(str, loads))}" for name, loads in known.items())
                raise Fail(f"LOADS={load} is a load of no benchmark: {has}")

    def configurations(self, suite: Suite, layout: Layout, bench: Bench) -> list[Configuration]:
        """Those to run, the baseline always first. Asking for the oracle asks for all pinnings."""
        wanted = self.configs or (self.short and (bench.quick_configurations or suite.quick_configurations)) or ()
        for name in wanted:
            if name != ORACLE:
                suite.configuration(name)
        pins = layout.pinnings()
        return [configuration for configuration in suite.configurations
                if configuration.kind == BASELINE
                or ((not bench.configurations or configuration.name in bench.configurations)
                    and (not wanted or configuration.name in wanted
                         or (configuration.kind == PINNED and ORACLE in wanted))
                    and (not configuration.asked or configuration.name in self.configs)
                    and (not configuration.smt_only or layout.smt)
                    and (not configuration.pin or configuration.pin in pins))]

    def sample_count(self, suite: Suite) -> int:
        return self.samples or suite.samples[QUICK if self.short else self.form]


def step_of(sample: int, count: int) -> int:
    """With which step a sample goes through so many configurations: with it, all have their turn."""
    steps = [step for step in range(1, count) if math.gcd(step, count) == 1]
    return steps[sample % len(steps)] if steps else 1


def plan(suite: Suite, selection: Selection) -> list[Chunk]:
    """All cases, in the order in which to run them.

    All first samples come before all second ones. Within a block the configurations are rotated by sample and by block,
    and each sample goes through them in other steps, so that neither a drift nor what the run before left behind always
    meets the same configuration.
    """
    benches = [suite.bench(name) for name in selection.benches] or list(suite.benches)
    selection.check_loads(benches)
    chunks: list[Chunk] = []
    number = 0
    for sample in range(selection.sample_count(suite)):
        for layout in selection.layouts(suite):
            cases: list[Case] = []
            seconds, turn = 0.0, sample
            for bench in benches:
                configurations = selection.configurations(suite, layout, bench)
                for load in selection.loads(bench):
                    cost = len(configurations) * suite.seconds(bench, load, selection.form, layout)
                    if cases and seconds + cost > CHUNK_SECONDS:
                        chunks.append(Chunk(layout, tuple(cases), seconds))
                        cases, seconds = [], 0.0
                    step = step_of(sample, len(configurations))
                    for index in range(len(configurations)):
                        configuration = configurations[(index * step + turn) % len(configurations)]
                        cases.append(Case(number, bench.name, layout.name, configuration.name, load, sample))
                        number += 1
                    seconds += cost
                    turn += 1
            if cases:
                chunks.append(Chunk(layout, tuple(cases), seconds))
    return chunks


def estimate(chunks: Sequence[Chunk]) -> float:
    """About how long a plan takes in the lab, in seconds of real time on two CPUs."""
    return sum(BOOT_SECONDS + chunk.seconds for chunk in chunks)


# The functions of the script. POSIX shell, of which busybox's ash, dash and bash are one each. Nothing but say() prints
# a line that begins with the marker, and its nonce keeps a benchmark from doing so by accident.
PROLOGUE = r"""# Written by bench/suite.py.
group=/sys/fs/cgroup/bench
PATH=/bench:$PATH
export PATH
say() { printf '\n@bench NONCE %s\n' "$*"; }

# put FILE VALUE: a setting that cannot be made makes the case fail, for it would be measured without.
put() {
	[ -e "$1" ] || { say fail "$id" "$1: no such file"; return 1; }
	said=$( { printf '%s\n' "$2" > "$1"; } 2>&1 ) && return 0
	say fail "$id" "cannot write '$2' to $1: $said"
	return 1
}

# switch_off FILE VALUE: where the kernel has this switch.
switch_off() { [ ! -e "$1" ] || put "$1" "$2"; }

# A group that an earlier case left behind would pass its hint on; its tasks would take CPU time from the next case.
leave() {
	[ -d "$group" ] || return 0
	echo 1 > "$group/cgroup.kill"
	tries=0
	until { rmdir "$group"/*/ || :; rmdir "$group"; } 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -le 50 ] || { say fail "$id" "cannot remove $group"; return 1; }
		sleep 0.1
	done
}

# The rest lets the load averages of the last case decay, and the kernel take the branches of hints out again.
enter() {
	id=$1
	leave || return 1
	sleep SETTLE
	mkdir "$group" && return 0
	say fail "$id" "cannot make $group"
	return 1
}

# need FILE WHY: without the file the configuration does not exist here.
need() {
	[ -e "$1" ] && return 0
	say skip "$id" "$2"
	return 1
}

# split NAME...: groups below the group, with both controllers.
split() {
	put "$group/cgroup.subtree_control" "+cpu +cpuset" || return 1
	for name; do
		mkdir "$group/$name" || { say fail "$id" "cannot make $group/$name"; return 1; }
	done
}

# The growth that a case's groups have seen, of all of them together.
stats() {
	for file in "$group/cpu.stat" "$group"/*/cpu.stat; do
		[ -e "$file" ] || continue
		while read -r key value; do
			case $key in hint_*|gang_*|headroom_*) [ "$value" = 0 ] || say stat "$id" "$key" "$value" ;; esac
		done < "$file"
	done
}

# measure_groups SECONDS COMMAND: the command starts outside of the groups.
measure_groups() {
	say begin "$id"
	timeout -k 5 "$1" sh -c "group=$group
$2" < /dev/null
	say end "$id" $?
	stats
}

# counted COMMAND...: with the lab's counts before and after it.
counted() {
	lab-mark count 2> /dev/null
	"$@"
	lab-mark count 2> /dev/null
	say counted "$id"
}

# measure SECONDS COMMAND: the command runs in the group from its first instruction on.
measure() {
	[ ! -e "$group/cpu.hint.effective" ] || say effective "$id" "$(cat "$group/cpu.hint.effective")"
	[ ! -e "$group/cpuset.cpus.effective" ] || say cpus "$id" "$(cat "$group/cpuset.cpus.effective")"
	say begin "$id"
	timeout -k 5 "$1" sh -c "echo \$\$ > $group/cgroup.procs || exit 125
$2" < /dev/null
	say end "$id" $?
	stats
}

# What one case leaves for the next ones of this script.
rm -rf /tmp/bench.kept
mkdir -p /tmp/bench.kept
say kernel "$(uname -r)"
ip link set lo up 2>/dev/null || ifconfig lo up 2>/dev/null || :
id=-
leave
"""
# Where a benchmark has something to be done first.
FIRST = r"""# first SECONDS COMMAND: what a case needs to be there.
first() {
	timeout -k 5 "$1" sh -c "$2" < /dev/null > /tmp/bench.kept/first.log 2>&1 && return 0
	say fail "$id" "preparing: $(tail -n 3 /tmp/bench.kept/first.log | tr '\n' ' ')"
	return 1
}
"""
# Where a configuration has a scheduler.
SCHEDULERS = r"""# A scheduler of sched_ext takes seconds to load; its own work meanwhile is not what is measured.
scx=/sys/kernel/sched_ext/state
scheduler_start() {
	command -v "${1%% *}" > /dev/null || { say skip "$id" "no ${1%% *}: 'make rivals' builds it"; return 1; }
	need $scx "this kernel has no sched_ext" || return 1
	lab-mark off 2> /dev/null
	{ export RUST_BACKTRACE=1; exec $1; } > /tmp/scheduler.log 2>&1 &
	scheduler=$!
	tries=0
	until [ "$(cat $scx)" = enabled ]; do
		tries=$((tries + 1))
		if [ ! -d /proc/$scheduler ] || [ $tries -gt 1500 ]; then
			say fail "$id" "$1 is not in force: $(tail -n 3 /tmp/scheduler.log | tr '\n' ' ')"
			scheduler_stop
			return 1
		fi
		sleep 0.1
	done
	sleep SETTLE
	lab-mark on 2> /dev/null || :
}

# scheduler_held PROOF: it was in force until now, and its log says what proves that it knew the groups.
scheduler_held() {
	[ "$(cat $scx)" = enabled ] && [ -d /proc/$scheduler ] && grep -q -e "$1" /tmp/scheduler.log && return 0
	say fail "$id" "the scheduler $(cat $scx), its log without '$1': $(tail -n 3 /tmp/scheduler.log | tr '\n' ' ')"
	return 1
}

scheduler_stop() {
	[ -n "$scheduler" ] || return 0
	lab-mark off 2> /dev/null
	kill -INT $scheduler 2> /dev/null
	tries=0
	until [ ! -e $scx ] || [ "$(cat $scx)" = disabled ] || [ $tries -gt 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	# One that does not end: the kernel goes back to its own scheduler when the program is gone.
	kill -KILL $scheduler 2> /dev/null
	wait $scheduler
	scheduler=
	lab-mark on 2> /dev/null
}
"""
DEBUGFS = "[ -d /sys/kernel/debug/sched ] || mount -t debugfs none /sys/kernel/debug 2>/dev/null || :\n"
SETTLE_SECONDS = 2


def case_script(suite: Suite, case: Case, layout: Layout, form: str) -> str:
    """The lines that run one case. Switches are put back whatever happens to it, but not if the script is killed."""
    configuration, bench = suite.configuration(case.config), suite.bench(case.bench)
    settings = [(switch.path, switch.on) for switch in configuration.switches]
    if configuration.pin:
        settings.append(("$group/cpuset.cpus", cpu_list(layout.pinnings()[configuration.pin])))
    if configuration.hint:
        settings.append(("$group/cpu.hint", configuration.hint))
    groups = bench.groups(case.load) if bench.groups else ()
    for setting in configuration.settings:
        for group in fnmatch.filter(groups, setting.group):
            if (value := setting.value_for(group, case.load, layout)) is not None:
                settings.append((f"$group/{group}/{setting.file}", value))
    needs = [f'need "{name if name.startswith("/") else f"$group/{name}"}" '
             f'{shlex.quote(f"this kernel has no {name}")}' for name in configuration.needs]
    run = [f"first {bench.limit} {shlex.quote(bench.first)}"] if bench.first else []
    run += [f"split {' '.join(groups)}"] if groups else []
    command = "".join(f"{key}={shlex.quote(value)}\n" for key, value in
                      {"load": str(case.load), "cpus": str(len(layout.cpus)), **configuration.variables}.items())
    command = (command if groups or configuration.variables else "") + bench.shell(case.load, form)
    measure = f"measure{'_groups' if groups else ''} {bench.limit} {shlex.quote(command)}"
    scheduler = configuration.scheduler.replace("{files}", str(ROOT / "bench/apps") if form == HOST else "/lab")
    steps = [f"enter {case.number}", *run, *needs,
             *(f'put "{path}" {shlex.quote(value)}' for path, value in settings),
             *([f"scheduler_start {shlex.quote(scheduler)}"] if scheduler else []),
             f"counted {measure}" if bench.counted else measure,
             *([f"scheduler_held {shlex.quote(configuration.proof)}"] if scheduler else [])]
    lines = [f"# {case.id}", " &&\n\t".join(steps)]
    stop = ["scheduler_stop"] if scheduler else []
    return "\n".join([*lines, *stop, *switched_off(configuration.switches), "leave", ""])


def switched_off(switches: Iterable[Switch]) -> list[str]:
    """The lines that switch these off, each once."""
    return list(dict.fromkeys(f"switch_off {switch.path} {shlex.quote(switch.off)}" for switch in switches))


def switches_of(script: str) -> dict[str, str]:
    """The files of all switches that a script writes, with their values when off: for who ends the script early."""
    return {path: shlex.split(off)[0] for path, off in re.findall(r"^switch_off (\S+) (.+)$", script, re.MULTILINE)}


def script(suite: Suite, chunk: Chunk, form: str, nonce: str) -> str:
    """What a machine runs. It begins with all switches of the suite off: a script that was killed may have left one on.

    That one cannot be written is no failure there, for then it could not have been left on either.
    """
    prologue = PROLOGUE.replace("NONCE", nonce).replace("SETTLE", str(SETTLE_SECONDS))
    cases = "\n".join(case_script(suite, case, chunk.layout, form) for case in chunk.cases)
    off = "".join(f"{line}\n" for line in switched_off(s for c in suite.configurations for s in c.switches))
    prologue += FIRST if "first " in cases else ""
    if "scheduler_start " in cases:
        prologue += SCHEDULERS.replace("SETTLE", str(SETTLE_SECONDS))
    return f"{prologue}{DEBUGFS if '/sys/kernel/debug/' in off + cases else ''}{off}\n{cases}\nsay done\n"


@dataclass
class Outcome:
    """What the script said about one case."""

    case: Case
    problem: str = ""
    status: int | None = None
    output: str = ""
    effective: str | None = None
    cpus: str | None = None
    counters: dict[str, int] = field(default_factory=dict)
    skipped: str = ""
    counted: int | None = None


class Reader:
    """Follows the output of a script line by line; each case ends with a call of `finished`."""

    def __init__(self, suite: Suite, chunk: Chunk, nonce: str, finished: Callable[[Outcome], None],
                 started: Callable[[Case], None] = lambda case: None):
        self.suite, self.layout = suite, chunk.layout
        self.marker = re.compile(rf"@bench {re.escape(nonce)} (\w+)(?: (\S+))?(?: (.*))?$")
        self.waiting = {case.number: Outcome(case) for case in chunk.cases}
        self.finished, self.started = finished, started
        self.ended: Outcome | None = None
        self.running: Outcome | None = None
        self.lines: list[str] = []
        self.other: list[str] = []
        self.kernel = ""
        self.done = False
        self.counts = 0

    def feed(self, line: str) -> None:
        line = line.rstrip("\r\n")
        match = self.marker.match(line)
        if not match:
            (self.lines if self.running else self.other).append(line)
            return
        word, number, rest = match[1], match[2] or "", (match[3] or "").strip()
        if word == "kernel":
            self.kernel = f"{number} {rest}".strip()
        elif word == "done":
            self.flush()
            self.done = True
        elif self.ended and word in ("stat", "fail", "counted") and number == str(self.ended.case.number):
            if word == "stat":
                self._stat(self.ended, rest)
            elif word == "counted":
                self.ended.counted, self.counts = self.counts, self.counts + 1
            else:
                self.ended.problem = self.ended.problem or rest
        elif number.isdigit() and (outcome := self.waiting.get(int(number))):
            self._case(outcome, word, rest)
        else:
            self.other.append(line)

    @staticmethod
    def _stat(outcome: Outcome, rest: str) -> None:
        key, _, value = rest.partition(" ")
        outcome.counters[key] = outcome.counters.get(key, 0) + int(value)

    def _case(self, outcome: Outcome, word: str, rest: str) -> None:
        self.flush()
        if word == "effective":
            outcome.effective = rest
        elif word == "cpus":
            outcome.cpus = rest
        elif word == "begin":
            self.running, self.lines = outcome, []
            self.started(outcome.case)
        elif word == "end":
            outcome.output = "\n".join(self.lines).strip("\n") + "\n"
            outcome.status = int(rest)
            self.running, self.lines, self.ended = None, [], self.waiting.pop(outcome.case.number)
        elif word in ("fail", "skip"):
            if word == "skip":
                outcome.skipped = rest
            else:
                outcome.problem = rest
            self.running, self.lines, self.ended = None, [], self.waiting.pop(outcome.case.number)

    def flush(self) -> None:
        """The counters of a case come after its end, so it is handed on when the next one speaks."""
        if self.ended:
            outcome, self.ended = self.ended, None
            outcome.problem = outcome.problem or self._misled(outcome)
            self.finished(outcome)

    def _misled(self, outcome: Outcome) -> str:
        """Did the group have the settings that the case is about?"""
        if outcome.skipped:
            return ""
        configuration = self.suite.configuration(outcome.case.config)
        if configuration.hint and outcome.effective in (None, "", "none"):
            return f"cpu.hint '{configuration.hint}' is not in force: cpu.hint.effective is '{outcome.effective}'"
        if configuration.pin and parse_cpu_list(outcome.cpus or "") != self.layout.pinnings()[configuration.pin]:
            return f"cpuset.cpus is not in force: cpuset.cpus.effective is '{outcome.cpus}'"
        if outcome.status:
            tail = " / ".join(outcome.output.strip().splitlines()[-3:])
            limit = self.suite.bench(outcome.case.bench).limit
            what = f"not finished after {limit} s" if outcome.status in (124, 137, 143) else f"status {outcome.status}"
            return f"{what}: {tail or 'no output'}"
        return ""

    def close(self, reason: str) -> None:
        """The script is over; what it did not get to failed."""
        self.flush()
        for outcome in self.waiting.values():
            cut = " in the middle" if outcome is self.running else ""
            tail = " / ".join([line for line in self.lines if line][-3:]) if cut else ""
            outcome.problem = f"{reason or 'the script did not get to it'}{cut}{': ' if tail else ''}{tail}"
            self.finished(outcome)
        self.waiting, self.running = {}, None
