#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check the lab: what the modelled machine measures of itself has to be what the model's parameters say.

A program in the machine (bench/lab/guest/lab-probe.c) times spinning, sleeping, lines of memory that go from CPU to
CPU, and streams. The predictions come from costs.toml and from what the plugin's comments say the model does, with
nothing fitted. So are those of STREAM (bench/workloads/stream.c), with the instructions of its loops as they are in the
program. Further off than 5 % is a failure. What runs through the kernel cannot be predicted and is only shown, or
checked for its order.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("scripts", "vm", "bench/lab")]
if str(ROOT / "bench") not in sys.path:
    sys.path.append(str(ROOT / "bench"))  # behind vm, which has a module "run", too

import lab  # noqa: E402
import loops  # noqa: E402
import parsers  # noqa: E402
from common import Fail, Target, run_main  # noqa: E402
from ktap import FAILED, PASSED, Test  # noqa: E402
from suites.hint import NOW  # noqa: E402

LIMIT = 0.05
# Of the count of busy CPUs: the shell starts programs, and threads, in the same time.
BUSY_LIMIT, BUSY_SLEEP, BUSY_INSTRUCTIONS = 0.1, 0.2, 200_000_000
# Of what domains need that have nothing to do: the kernel's own work, at ten times the power of sleeping.
ENERGY_LIMIT = 0.2
LINE = 64
LINES = 2048  # of a probe of single lines; a fraction of any private cache
ROUNDS = 32
# To move or wake a thread, the kernel takes some of the cache, the more, the more CPUs there are. Where a line costs
# only its instructions, an LLC hit in a hundred lines would be 20 % in one pass. Lines of the sibling, if fetched,
# would still be 58 % in so many.
FREE_PASSES = 32
SPIN = 8_000_000  # instructions
OVER = 4  # how many times as large as a cache a buffer is that shall miss in it
CHASED = 100_000  # lines
# Instructions for each line in the loops of lab-probe.c.
INSTRUCTIONS = {"r": 3, "w": 5, "a": 6, "read": 3, "copy": 4}
# What STREAM's kernels read and write, in their order in a repetition; and its repetitions, of which the first is not
# counted. The best of the others is: in one or the other, two threads have woken up on one CPU.
STREAM_KERNELS = {"copy": ("a", "c"), "scale": ("c", "b"), "add": ("ab", "c"), "triad": ("bc", "a")}
STREAM_TIMES = 4
STREAM_ELEMENT = 8
PINNED = "taskset"
# A machine with so many cores (those with a name have) is measured with each number of streams.
EACH_COUNT = 16
SECOND_SEED = 2
SMALL = "1x1x2x2"
WIDEST = "4x2x8x2"  # with as many CPUs as there can be
TIMEOUT = 3600  # of a machine, in seconds of the host
REPEAT_LIMIT = 0.03
REPEATS, SAMPLES = 5, 3
KERNEL_ORDER = ("sibling", "llc", "node", "remote")


@dataclass(frozen=True)
class Row:
    """Something to measure: the probe's arguments without the name, and what is predicted."""

    name: str
    command: str
    key: str
    unit: str
    predicted: float | None = None


@dataclass(frozen=True)
class Places:
    """CPUs by where they are, seen from CPU 0; None if the machine has none there."""

    sibling: int | None
    llc: int | None
    llc_third: int | None
    node: int | None
    node_second: int | None  # another core of that LLC
    remote: int | None
    remote_second: int | None

    @classmethod
    def of(cls, machine: lab.Machine) -> Places:
        """Those of a machine."""
        topology = machine.topology
        core, llc = topology.threads, topology.threads * topology.cores
        node = llc * topology.llcs
        second = core if topology.cores > 1 else None

        def far(base: int, there: bool) -> tuple[int | None, int | None]:
            return (base if there else None), (base + second if there and second else None)
        return cls(1 if topology.threads > 1 else None, second, 2 * core if topology.cores > 2 else None,
                   *far(llc, topology.llcs > 1), *far(node, topology.nodes > 1))


def hits(size: float, cache: float) -> float:
    """The part of the accesses that hit, if lines are passed over in a circle and the cache replaces at random.

    A line stays with probability (1 - 1/cache) ** misses, and a circle has (1 - hits) * size misses. So h = exp((h - 1)
    * size / cache); its smaller solution, by iteration from 0.
    """
    result = 0.0
    for _ in range(200):
        result = math.exp((result - 1) * size / cache)
    return result


def instructions_ns(machine: lab.Machine, count: float, *, shared: bool = False) -> float:
    """The time of instructions, of a thread alone on its core or not."""
    return count * machine.costs["instruction_ps"] / 1000 / (machine.costs["smt_share"] if shared else 1)


def stream_gbs(machine: lab.Machine, kind: str, cpus: Sequence[int], home: int | None = None) -> float:
    """What threads on these CPUs move in or out of their buffers together, 10^9 bytes/s.

    A thread alone takes its instructions' time and `stream` for each line that it gets, more from another node. In a
    copy every line that is written is fetched first and written back later, so three pass for two that count. All
    threads have the same work, so the machine is done when the slowest pipe is: an LLC's link, a node's memory, the
    link from a node.
    """
    topology, costs = machine.topology, machine.costs
    llc_width = topology.cores * topology.threads
    node_width = llc_width * topology.llcs
    moved, passing = (1, 1) if kind == "read" else (2, 3)
    users = Counter(cpu // llc_width for cpu in cpus)
    miss = {llc: 1 - hits(OVER * count / min(users.values()), 1) for llc, count in users.items()}
    thread_ns = 0.0
    # Lines that pass while each thread gets one.
    passed: dict[str, Counter[int]] = {"llc_gbs": Counter(), "node_gbs": Counter(), "link_gbs": Counter()}
    for cpu in cpus:
        llc, node = cpu // llc_width, cpu // node_width
        at = node if home is None else home // node_width
        shared = any(other != cpu and other // topology.threads == cpu // topology.threads for other in cpus)
        far = costs["remote_memory_ns"] / costs["memory_ns"] if at != node else 1.0
        line = costs["stream_ns"] * (miss[llc] * far + 1 - miss[llc])
        thread_ns = max(thread_ns, instructions_ns(machine, INSTRUCTIONS[kind], shared=shared) + moved * line)
        for pipe, index in (("llc_gbs", llc), ("node_gbs", at), *((("link_gbs", at),) if at != node else ())):
            passed[pipe][index] += passing * miss[llc]
    slowest = max(thread_ns, *(LINE * max(lines.values()) / costs[pipe] for pipe, lines in passed.items() if lines))
    return len(cpus) * moved * LINE / slowest


def line_rows(machine: lab.Machine) -> list[Row]:
    """Lines that go from one CPU's cache to another's."""
    places, costs = Places.of(machine), machine.costs
    rows = []

    def add(name: str, steps: Sequence[tuple[str, int | None]], cost: float) -> None:
        """The last step is the timed one."""
        if any(cpu is None for _, cpu in steps):
            return
        words = [f"{kind}{cpu}" for kind, cpu in steps]
        predicted = cost + instructions_ns(machine, INSTRUCTIONS[steps[-1][0]])
        passes = 1 if cost else FREE_PASSES
        command = f"lines {LINES} {ROUNDS} {passes} {' '.join(words[:-1])} ={words[-1]}"
        rows.append(Row(name, command, "ns", "ns", predicted))

    add("read own line", [("w", 0), ("r", 0)], 0)
    add("write own line", [("w", 0), ("w", 0)], 0)
    add("read again", [("w", 0), ("r", places.llc), ("r", places.llc)], 0)
    add("read, from sibling", [("w", 0), ("r", places.sibling)], 0)
    add("read, shared in LLC", [("w", 0), ("r", places.llc), ("r", places.llc_third)], costs["llc_hit_ns"])
    for where, kind in (("llc", "peer"), ("node", "transfer"), ("remote", "remote_transfer")):
        cpu = getattr(places, where)
        upgrade = {"peer": "upgrade", "transfer": "remote_upgrade", "remote_transfer": "far_upgrade"}[kind]
        fetched = max(costs[f"{kind}_ns"], costs[f"{upgrade}_ns"])
        place = {"llc": "LLC", "node": "other LLC", "remote": "other node"}[where]
        add(f"read, from {place}", [("w", 0), ("r", cpu)], costs[f"{kind}_ns"])
        add(f"write, from {place}", [("w", 0), ("w", cpu)], fetched)
        add(f"atomic, from {place}", [("w", 0), ("a", cpu)], fetched)
        add(f"write, shared with {place}", [("w", 0), ("r", cpu), ("w", 0)], costs[f"{upgrade}_ns"])
        if where != "llc":
            add(f"read, copy from {place}", [("w", 0), ("r", cpu), ("r", getattr(places, f"{where}_second"))],
                costs["llc_hit_ns"])
    return rows


def memory_rows(machine: lab.Machine) -> list[Row]:
    """Lines in random order, out of buffers that do not fit."""
    costs, places = machine.costs, Places.of(machine)
    chase = instructions_ns(machine, INSTRUCTIONS["r"])
    lines = {cache: round(costs[f"{cache}_kib"] * 1024 / LINE * OVER) for cache in ("private", "llc")}
    hit = hits(OVER, 1)
    rows = []
    if costs["llc_kib"] >= 1.5 * OVER * costs["private_kib"]:
        rows.append(Row("chase in LLC", f"chase {lines['private']} {lines['private']} 0 0", "ns", "ns",
                        chase + (1 - hit) * costs["llc_hit_ns"]))
    for name, home, cost in (("own", 0, costs["memory_ns"]), ("other", places.remote, costs["remote_memory_ns"])):
        if home is not None:
            rows.append(Row(f"chase in memory, {name} node", f"chase {lines['llc']} {CHASED} {home} 0", "ns", "ns",
                            chase + (1 - hit) * cost + hit * costs["llc_hit_ns"]))
    return rows


def bounce_rows(machine: lab.Machine) -> list[Row]:
    """Two threads that write the same lines in turn, both awake; beside a sibling that spins, a core is shared."""
    costs, places = machine.costs, Places.of(machine)
    rows = []
    for where, cost in (("llc", max(costs["peer_ns"], costs["upgrade_ns"])),
                        ("node", max(costs["transfer_ns"], costs["remote_upgrade_ns"])),
                        ("remote", max(costs["remote_transfer_ns"], costs["far_upgrade_ns"])), ("sibling", 0.0)):
        cpu = getattr(places, where)
        if cpu is None:
            continue
        shared = where == "sibling"
        # There, nothing but instructions takes time: more of them in a turn, for the hand-over not to count.
        passes = 16 if shared else 1
        place = {"llc": "LLC", "node": "node", "remote": "nodes", "sibling": "core"}[where]
        rows.append(Row(f"ping-pong of lines, {place}", f"bounce {LINES} {passes} 20 0 {cpu}", "ns", "ns",
                        cost + instructions_ns(machine, INSTRUCTIONS["w"], shared=shared)))
    return rows


@dataclass(frozen=True)
class Streams:
    """Threads that stream together: their CPUs and, if it is not each one's own, the home of their buffers."""

    name: str
    cpus: list[int]
    home: int | None = None
    copy: bool = False  # is copying measured, too?


def thread_counts(most: int) -> list[int]:
    """How many threads of up to so many: powers of two and all."""
    return sorted({*(1 << n for n in range(most.bit_length())), most})


def stream_sets(machine: lab.Machine) -> list[Streams]:
    """Which threads stream together."""
    topology = machine.topology
    width, llc = topology.threads, topology.cores
    cores = range(0, topology.cpus, width)
    apart = sorted(cores, key=lambda cpu: (cpu // width % llc, cpu // (width * llc) % topology.llcs, cpu))
    in_node = [cpu for cpu in apart if cpu < topology.cpus // topology.nodes]
    result = [Streams(f"{n} in LLC", list(cores[:n]), copy=n in (1, llc)) for n in thread_counts(llc)]
    if topology.llcs > 1:
        size = len(in_node)
        result += [Streams(f"{n} in node", in_node[:n], copy=n == size) for n in thread_counts(size) if n > 1]
    if topology.nodes > 1:
        size = len(cores)
        result += [Streams(f"{n} spread", apart[:n], copy=n in (8, size))
                   for n in (range(size + 1) if size <= EACH_COUNT else thread_counts(size)) if n > 1]
        other = topology.cpus // topology.nodes
        result += [Streams(f"{n} from other node", in_node[:n], other) for n in (1, 4) if n <= len(in_node)]
    if width > 1:
        half = min(8, llc * width)
        if half < topology.cpus:
            result.append(Streams(f"{half} on {half // 2} cores", list(range(half))))
        result.append(Streams(f"{topology.cpus} on all CPUs", list(range(topology.cpus)), copy=True))
    return result


def stream_rows(machine: lab.Machine) -> list[Row]:
    """The threads of an LLC have buffers that are OVER times as large as it together, or more."""
    topology = machine.topology
    llc_lines = round(machine.costs["llc_kib"] * 1024 / LINE) * OVER
    rows = []
    for streams in stream_sets(machine):
        users = Counter(cpu // (topology.cores * topology.threads) for cpu in streams.cpus)
        lines = llc_lines // min(users.values()) // 2 * 2
        for kind in ("read", "copy") if streams.copy else ("read",):
            home = -1 if streams.home is None else streams.home
            command = f"stream {kind} {lines} {home} {' '.join(map(str, streams.cpus))}"
            rows.append(Row(f"stream {kind}, {streams.name}", command, "gbs", "GB/s",
                            stream_gbs(machine, kind, streams.cpus, streams.home)))
    return rows


def stream_misses(kernel: str) -> tuple[float, float]:
    """Of each element that STREAM's kernel passes over, how many lines are fetched and how many written back.

    Its three arrays are together OVER times as large as the cache. A line of one of them is still there if it survived
    the misses since a kernel last touched it: the rest of that kernel, those in between, and this one as far as it
    has come. Written lines leave when others come, the last of them during the next kernel.
    """
    order, array = list(STREAM_KERNELS), OVER / 3
    touched = {name: reads + written for name, (reads, written) in STREAM_KERNELS.items()}
    fetched, steps = 0.0, 1000
    for name in touched[kernel]:
        between, at = 0, order.index(kernel) - 1
        while name not in touched[order[at]]:
            between += len(touched[order[at]])
            at -= 1
        last, now = len(touched[order[at]]), len(touched[kernel])
        for step in range(steps):
            part = (step + 0.5) / steps
            fetched += (1 - math.exp(-array * (last * (1 - part) + between + now * part))) / steps
    left = [1 / len(touched[order[order.index(kernel) + i]]) / array for i in (-1, 0)]
    return fetched, 1 + left[0] - left[1]


def stream_program_mbs(machine: lab.Machine, kernel: str, cpus: Sequence[int], instructions: float) -> float:
    """What a kernel of STREAM counts with a thread on each of these CPUs, cores of their own, in 10^6 bytes/s.

    With as many instructions for each element. What it counts is what it reads and writes; a line that it writes is
    fetched first and written back later.
    """
    topology, costs = machine.topology, machine.costs
    llc_width = topology.cores * topology.threads
    reads, written = STREAM_KERNELS[kernel]
    arrays = len(reads + written)
    passing = sum(stream_misses(kernel))
    slowest = instructions_ns(machine, instructions * LINE / STREAM_ELEMENT) + arrays * costs["stream_ns"]
    for pipe, width in (("llc_gbs", llc_width), ("node_gbs", llc_width * topology.llcs)):
        most = max(Counter(cpu // width for cpu in cpus).values())
        slowest = max(slowest, LINE * most * passing / costs[pipe])
    return len(cpus) * arrays * LINE / slowest * 1000


def stream_programs(machine: lab.Machine) -> list[tuple[str, list[int]]]:
    """Where STREAM runs: on one core, on those of an LLC, and on as many of each LLC."""
    topology = machine.topology
    width, llcs = topology.threads, topology.llcs * topology.nodes
    cores = list(range(0, topology.cpus, width))
    result = [(f"{n} in LLC", cores[:n]) for n in sorted({1, topology.cores})]
    if llcs > 1:
        result += [(f"{n * llcs} spread", [cpu for cpu in cores if cpu // width % topology.cores < n])
                   for n in thread_counts(topology.cores)]
    return result


def program_rows(machine: lab.Machine, instructions: Mapping[str, float]) -> list[Row]:
    """STREAM, of whose arrays OVER times an LLC's size is in use in each LLC."""
    topology = machine.topology
    rows = []
    for where, cpus in stream_programs(machine):
        llcs = len({cpu // (topology.cores * topology.threads) for cpu in cpus})
        elements = round(machine.costs["llc_kib"] * 1024 * OVER * llcs / 3 / STREAM_ELEMENT)
        allowed = ",".join(map(str, cpus))
        command = f"{PINNED} -c {allowed} stream -t {len(cpus)} -n {elements} -k {STREAM_TIMES} --json"
        rows += [Row(f"STREAM {kernel}, {where}", command, kernel, "MB/s",
                     stream_program_mbs(machine, kernel, cpus, instructions[kernel])) for kernel in STREAM_KERNELS]
    return rows


def wake_rows(machine: lab.Machine, turns: int) -> list[Row]:
    """Two threads that wake each other through the kernel."""
    places = Places.of(machine)
    return [Row(f"futex ping-pong, {where}", f"pingpong {turns} 0 {cpu}", "ns", "ns") for where in KERNEL_ORDER
            if (cpu := getattr(places, where)) is not None]


def rows_of(machine: lab.Machine) -> list[Row]:
    """Everything that is measured on a machine."""
    topology, places = machine.topology, Places.of(machine)
    cores = " ".join(map(str, range(0, topology.cpus, topology.threads)))
    instruction = machine.costs["instruction_ps"]
    rows = [Row("spin, 1 thread", f"spin {SPIN} 0", "ps", "ps", instruction),
            Row("spin, every core", f"spin {SPIN} {cores}", "ps", "ps", instruction)]
    if places.sibling:
        rows.append(Row("spin, both siblings", f"spin {SPIN} 0 1", "ps", "ps",
                        instruction / machine.costs["smt_share"]))
    # Nobody else has a turn before the quantum is over.
    rows.append(Row("spin-wait hint", "hint 2000 0", "ns", "ns", max(machine.quantum_ns, machine.costs["spin_ns"])))
    rows += [Row(f"sleep {ms} ms", f"sleep {ms * 1_000_000} {count}", "ns", "ns", ms * 1e6)
             for ms, count in ((1, 20), (10, 8), (100, 4))]
    rows += line_rows(machine) + bounce_rows(machine) + memory_rows(machine) + stream_rows(machine)
    return rows + wake_rows(machine, 1000)


def busy_cpus(machine: lab.Machine) -> list[int]:
    topology = machine.topology
    return [0, topology.threads] if topology.cpus > topology.threads else [0]


def busy_test(machine: lab.Machine, counters: Sequence[Mapping[str, Any]]) -> Test:
    """Of CPUs that sleep, none is counted as busy; of those that compute, each is."""
    name, marks = f"{machine.name}: busy time", [record for record in counters if record.get("at") == "mark"]
    if len(marks) != 3:
        return Test(name, FAILED, f"{len(marks)} records of the counts, not 3")
    asleep, awake = ((after["busy_ns"] - before["busy_ns"]) / (after["time_ns"] - before["time_ns"])
                     for before, after in zip(marks, marks[1:], strict=False))
    wanted = len(busy_cpus(machine))
    good = asleep <= BUSY_LIMIT and abs(awake / wanted - 1) <= BUSY_LIMIT
    return Test(name, PASSED if good else FAILED, "" if good else
                f"{asleep:.2f} CPUs while all sleep, {awake:.2f} while {wanted} compute")


def probes_of(rows: Sequence[Row]) -> list[str]:
    """The probes know their rows by number. STREAM is run once for the rows of its four kernels."""
    lines = []
    for i, row in enumerate(rows):
        word, arguments = row.command.split(maxsplit=1)
        if word != PINNED:
            lines.append(f"lab-probe {word} {i} {arguments} || exit 1")
        elif i == 0 or rows[i - 1].command != row.command:
            lines.append(f"echo stream={i}; {row.command} || exit 1")
    return lines


def script_of(machine: lab.Machine, rows: Sequence[Row]) -> str:
    """The machine's script.

    At its begin, three records of the counts: around a sleep, and around two cores (or the only one) that compute.
    """
    lines = ["lab-mark count", f"sleep {BUSY_SLEEP}", "lab-mark count",
             f"lab-probe spin busy {BUSY_INSTRUCTIONS} {' '.join(map(str, busy_cpus(machine)))} || exit 1",
             "lab-mark count", *probes_of(rows)]
    return "\n".join(lines)


def parse(text: str, rows: Sequence[Row]) -> list[float]:
    """What was measured, a value for each row."""
    found: dict[int, Mapping[str, str | float]] = {}
    for line in text.splitlines():
        if re.match(r"name=\d+ \w+=", line):
            values = dict(word.split("=", 1) for word in line.split())
            found[int(values["name"])] = values
    for first, line in re.findall(r"^stream=(\d+)\n(.*)$", text, re.MULTILINE):
        same = [i for i, row in enumerate(rows) if row.command == rows[int(first)].command]
        found |= dict.fromkeys(same, parsers.stream(line))
    if missing := [row.name for i, row in enumerate(rows) if row.key not in found.get(i, {})]:
        raise Fail(f"the machine's probe gave no result for: {', '.join(missing)}\n{text[-1000:]}")
    return [float(found[i][row.key]) for i, row in enumerate(rows)]


def off_by(predicted: float, measured: float) -> float:
    """The deviation, as a part of what was predicted."""
    return measured / predicted - 1


def order_test(prefix: str, rows: Sequence[Row], measured: Sequence[float]) -> Test:
    """The farther apart two threads are, the longer it takes them to wake each other."""
    values = [(row.name.rpartition(" ")[2], value) for row, value in zip(rows, measured, strict=True)
              if row.name.startswith("futex ping-pong")]
    text = ", ".join(f"{where} {value:.0f} ns" for where, value in values)
    # On a sibling nothing has to be transferred, but it shares the core's throughput.
    good = all(a[1] <= b[1] if a[0] == "sibling" else a[1] < b[1] for a, b in zip(values, values[1:], strict=False))
    return Test(f"{prefix}: order of futex ping-pong", PASSED if good else FAILED, "" if good else text)


def judge(machine: lab.Machine, rows: Sequence[Row], measured: Sequence[float]) -> tuple[list[str], list[Test]]:
    """The table's lines and the tests."""
    lines = [f"{'what':40} {'predicted':>12} {'measured':>12} {'':5} {'off by':>8}"]
    tests = []
    for row, value in zip(rows, measured, strict=True):
        if row.predicted is None:
            lines.append(f"{row.name:40} {'-':>12} {value:12.2f} {row.unit:5}")
            continue
        off = off_by(row.predicted, value)
        good = abs(off) <= LIMIT
        lines.append(f"{row.name:40} {row.predicted:12.2f} {value:12.2f} {row.unit:5} {off:+8.1%} "
                     f"{'ok' if good else 'NO'}")
        tests.append(Test(f"{machine.name}: {row.name}", PASSED if good else FAILED, "" if good else
                          f"predicted {row.predicted:.2f} {row.unit}, measured {value:.2f}, {off:+.1%}"))
    return lines, [*tests, *([] if machine.topology.domains else [order_test(machine.name, rows, measured)])]


def measure(machine: lab.Machine, rows: Sequence[Row], script: str, what: str, kernel: Path | None = None
            ) -> tuple[lab.LabResult, list[Test]]:
    """Run a script that measures these rows, print their table, and say what is wrong."""
    result = lab.run_script(machine, script, ["lab-probe", "stream"], what=f"{what} {machine.name}", kernel=kernel,
                            timeout=TIMEOUT)
    if result.status:
        raise Fail(f"{what} {machine.name}: the script ended with status {result.status}:\n{result.output[-1000:]}")
    lines, tests = judge(machine, rows, parse(result.output, rows))
    print("\n".join([f"{machine.name}, {result.seconds:.0f} s", *lines]), flush=True)
    return result, tests


def check_topology(name: str, kernel: Path | None = None, seed: int = 1) -> list[Test]:
    """Measure one machine, print its table, and say what is wrong."""
    machine = lab.machine_of(name, seed=seed)
    if machine.topology.domains:
        return check_kinds(name, kernel, seed)
    target = lab.lab_target()
    program = lab.own_program(target, "stream")
    instructions = {name: loops.instructions(target, program, name, STREAM_ELEMENT) for name in STREAM_KERNELS}
    rows = [*rows_of(machine), *program_rows(machine, instructions)]
    result, tests = measure(machine, rows, script_of(machine, rows), "lab-check", kernel)
    return [*tests, busy_test(machine, result.counters)]


def kind_rows(machine: lab.Machine) -> list[tuple[str, Row]]:
    """For each level of each domain, what sets it, and how long an instruction of a CPU takes there."""
    rows, first = [], 0
    fastest = machine.topology.fastest()
    for (count, kind), (_, name) in zip(machine.topology.kinds(), machine.topology.domains, strict=True):
        for level, (mhz, _) in enumerate(kind.levels):
            rows.append((f"level {first} {mhz * 1000}",
                         Row(f"spin, {name} at {mhz} MHz", f"spin {SPIN} {first + count - 1}", "ps", "ps",
                             machine.costs["instruction_ps"] * fastest / kind.speed(level))))
        first += count
    return rows


# Limits of a domain's frequency. Each is within the other one at any time.
SET_LEVEL = """level() {
    cd /sys/devices/system/cpu/cpufreq/policy$1
    cat cpuinfo_min_freq > scaling_min_freq; echo $2 > scaling_max_freq; echo $2 > scaling_min_freq
    cd /
}
"""


def energy_tests(machine: lab.Machine, counters: Sequence[Mapping[str, Any]]) -> list[Test]:
    """While all CPUs sleep, and while those of one domain compute at its highest level: energy by the costs.

    Each domain's levels have been set to the highest before. What the kernel does meanwhile is in it as well.
    """
    kinds = machine.topology.kinds()
    marks = [record for record in counters if record.get("at") == "mark"]
    if len(marks) != len(kinds) + 2:
        return [Test(f"{machine.name}: energy", FAILED, f"{len(marks)} records of the counts, not {len(kinds) + 2}")]
    tests = []
    for busy, (before, after) in enumerate(zip(marks, marks[1:], strict=False), -1):
        seconds = (after["time_ns"] - before["time_ns"]) / 1e9
        for number, (count, kind) in enumerate(kinds):
            power = kind.power(-1) if number == busy else kind.idle_power()
            predicted = count * power * seconds * 1e3
            measured = sum(after["domains"][number][key] - before["domains"][number][key]
                           for key in ("active_nj", "idle_nj"))
            what = f"{machine.name}: energy of domain {number}, " + (
                "asleep" if busy < 0 else "computing" if number == busy else f"while {busy} computes")
            off = off_by(predicted, measured)
            line = f"predicted {predicted / 1e6:.3f} mJ, measured {measured / 1e6:.3f}, {off:+.1%}"
            print(f"{what}: {line}", flush=True)
            # The CPU that reads the shell's script is awake for some of it.
            good = abs(off) <= (LIMIT if number == busy else ENERGY_LIMIT)
            tests.append(Test(what, PASSED if good else FAILED, "" if good else line))
    return tests


def check_kinds(name: str, kernel: Path | None = None, seed: int = 1) -> list[Test]:
    """Measure the levels and the energy of a machine with several kinds of CPUs."""
    machine = lab.machine_of(name, seed=seed)
    settings, rows = zip(*kind_rows(machine), strict=True)
    lines = [line for pair in zip(settings, probes_of(rows), strict=True) for line in pair]
    first, together = 0, []
    for count, kind in machine.topology.kinds():
        # As long on each kind: a fifth of a second
        instructions = round(2e11 / machine.costs["instruction_ps"] * kind.speed(-1) / machine.topology.fastest())
        cpus = " ".join(map(str, range(first, first + count)))
        together.append(f"lab-probe spin busy {instructions} {cpus} || exit 1")
        first += count
    script = "\n".join([SET_LEVEL, *lines, "lab-mark count", f"sleep {BUSY_SLEEP}", "lab-mark count",
                        *(line for spin in together for line in (spin, "lab-mark count"))])
    result, tests = measure(machine, rows, script, "lab-check", kernel)
    return [*tests, *energy_tests(machine, result.counters)]


@contextmanager
def host_load(busy: bool) -> Iterator[None]:
    """Something else that keeps every CPU of the host busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                 for _ in range(len(os.sched_getaffinity(0)) if busy else 0)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


# The shell's clock: hackbench tells whole milliseconds, of which there are some 16.
REPEAT_SCRIPT = f"""\
[ -d /sys/kernel/debug/sched ] || mount -t debugfs none /sys/kernel/debug
{NOW}
for i in $(seq {SAMPLES}); do
	now; begin=$now
	hackbench -g 1 -l 100 > /dev/null || exit
	now; echo "hackbench $((now - begin)) ns"
done
schbench -m 1 -t 4 -w 0.02 -r 0.1 --json
"""


def samples(text: str) -> dict[str, list[float]]:
    """hackbench's times in ms, and schbench's median latency of wakeups in us, of one boot."""
    found = {"hackbench, ms": [int(value) / 1e6 for value in re.findall(r"^hackbench (\d+) ns$", text, re.MULTILINE)],
             "schbench, us": list(map(float, re.findall(r'"wakeup_us":\{[^}]*"p50":([\d.]+)', text)))}
    if missing := [name for name, values in found.items() if not values]:
        raise Fail(f"no result of {', '.join(missing)} in:\n{text[-1000:]}")
    return found


def spread(values: Sequence[float]) -> float:
    """How far the farthest is from the median of all, as a part of it."""
    middle = statistics.median(values)
    return max(abs(value - middle) for value in values) / middle


Boot = Mapping[str, Sequence[float]]  # the samples of each benchmark


def judge_repeats(name: str, runs: Mapping[str, Sequence[Boot]]) -> tuple[list[str], list[Test]]:
    """The table's lines and the tests, from the samples of each boot under each load of the host."""
    lines = [f"{'median of a boot':20} {'host':12} " + " ".join(f"{f'boot {i + 1}':>9}" for i in range(REPEATS))]
    tests = []
    for bench in next(iter(runs.values()))[0]:
        every: list[float] = []
        for load, boots in runs.items():
            medians = [statistics.median(boot[bench]) for boot in boots]
            lines.append(f"{bench:20} {load:12} " + " ".join(f"{value:9.3f}" for value in medians))
            every += medians
        inside = [spread(boot[bench]) for boots in runs.values() for boot in boots if len(boot[bench]) > 1]
        lines.append(f"{bench:20} all within {spread(every):.1%} of their median" +
                     (f"; samples in one boot within {max(inside):.1%}" if inside else ""))
        good = spread(every) <= REPEAT_LIMIT
        tests.append(Test(f"{name}: {bench} repeats", PASSED if good else FAILED,
                          "" if good else f"medians of boots differ by {spread(every):.1%}"))
    return lines, tests


def check_repeats(name: str, kernel: Path | None = None) -> list[Test]:
    """Run the same thing several times, with the host left alone and with all of its CPUs kept busy."""
    kernel = kernel or lab.kernel_image(lab.lab_target())
    runs: dict[str, list[dict[str, list[float]]]] = {"left alone": [], "kept busy": []}
    load: dict[str, list[float]] = {name: [] for name in runs}
    began = time.monotonic()
    for i in range(REPEATS):
        for host in runs:
            with host_load(host == "kept busy"):
                result = lab.run_script(name, REPEAT_SCRIPT, ["hackbench", "schbench"], kernel=kernel,
                                        what=f"boot {i + 1} of {REPEATS}, host {host}")
                load[host].append(os.getloadavg()[0])
            found = samples(result.output)
            text = "; ".join(f"{bench} " + " ".join(f"{value:.3f}" for value in values)
                             for bench, values in found.items())
            print(f"  boot {i + 1}, host {host}: {text}", flush=True)
            runs[host].append(found)
    lines, tests = judge_repeats(name, runs)
    print("\n".join([f"{name}, {time.monotonic() - began:.0f} s; load average of the host's {os.cpu_count()} CPUs: " +
                     ", ".join(f"{host} {min(seen):.1f} to {max(seen):.1f}" for host, seen in load.items()), *lines]),
          flush=True)
    return tests


def same(first: lab.LabResult, second: lab.LabResult) -> Test:
    """Two boots with one script are one run: at each mark the counts are the same to the last instruction.

    At exit they need not be: once the machine has switched itself off, QEMU ends when its host lets it, and until then
    a CPU that is parked may go round its loop.
    """
    name = "lab: two boots are the same"
    places = [[count["at"] for count in run.counters] for run in (first, second)]
    if "mark" not in places[0] or places[0] != places[1] or first.status or second.status:
        return Test(name, FAILED, f"counts at {', '.join(places[0]) or 'no place'} and at "
                    f"{', '.join(places[1]) or 'no place'}, statuses {first.status} and {second.status}")
    if first.output != second.output:
        return Test(name, FAILED, f"they print {first.output!r} and {second.output!r}")
    marks = [[count for count in run.counters if count["at"] == "mark"] for run in (first, second)]
    for number, (one, other) in enumerate(zip(*marks, strict=True), 1):
        if different := [f"{key} {one[key]} and {other.get(key)}" for key in one if one[key] != other.get(key)]:
            return Test(name, FAILED, f"at mark {number}: {', '.join(different)}")
    return Test(name, PASSED)


def repeats(_: Target) -> list[Test]:
    """As a step of `make check`: two boots of a small machine."""
    kernel = lab.kernel_image(lab.lab_target())
    script = "hackbench -g 1 -l 10\nlab-mark count\ncat /proc/stat /proc/sys/kernel/random/uuid\nlab-mark count"
    return [same(*(lab.run_script(SMALL, script, ["hackbench"], kernel=kernel, what=f"lab-repeats {SMALL}")
                   for _boot in range(2)))]


def failed_twice(first: list[Test], again: Callable[[], list[Test]]) -> list[Test]:
    """The first tests, but what failed there and not again has passed.

    A tick or a kernel thread of the machine can fall into a measurement; what the model has wrong, it has wrong always.
    A second boot with the same seed would be the same.
    """
    if all(test.status != FAILED for test in first):
        return first
    for test in first:
        if test.status == FAILED:
            print(f"  failed at first: {test.name}: {test.detail}", flush=True)
    second = {test.name: test for test in again()}
    return [second.get(test.name, test) if test.status == FAILED else test for test in first]


def check_widest(seed: int = 1) -> list[Test]:
    """Boot the machine with the most CPUs, have two of them wake each other, and then each of them compute."""
    machine = lab.machine_of(WIDEST, seed=seed)
    every = " ".join(map(str, range(machine.topology.cpus)))
    rows = [*wake_rows(machine, 300), Row("spin, every CPU", f"spin {SPIN} {every}", "ps", "ps",
                                          machine.costs["instruction_ps"] / machine.costs["smt_share"])]
    # What printing has to do on some CPU is over after the sleep: while all compute, it would delay one of them.
    *wakes, spin = probes_of(rows)
    return measure(machine, rows, "\n".join([*wakes, "sleep 0.1", spin]), "lab-widest")[1]


def widest(_: Target) -> list[Test]:
    """As a step of `make check`."""
    return failed_twice(check_widest(), lambda: check_widest(SECOND_SEED))


def check_twice(name: str, kernel: Path | None = None) -> list[Test]:
    """Measure one machine, and once more if something is off."""
    return failed_twice(check_topology(name, kernel), lambda: check_topology(name, kernel, SECOND_SEED))


def run(_: Target) -> list[Test]:
    """As a step of `make check`: the machines that have a name."""
    return [test for name in lab.TOPOLOGIES for test in check_twice(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="zen", help="zen, xeon, all, or as for 'make lab'")
    parser.add_argument("--repeat", action="store_true", help="check that runs repeat, whatever the host does")
    parser.add_argument("--kernel", type=Path, help="an image to boot instead of building one")
    arguments = parser.parse_args()
    began = time.monotonic()
    names = list(lab.TOPOLOGIES) if arguments.topology == "all" else [arguments.topology]
    check = check_repeats if arguments.repeat else check_twice
    tests = [test for name in names for test in check(name, arguments.kernel)]
    failed = [test for test in tests if test.status == FAILED]
    for test in failed:
        print(f"FAILED {test.name}: {test.detail}")
    print(f"lab-check: {len(tests) - len(failed)} of {len(tests)} passed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    run_main(main)
