# SPDX-License-Identifier: GPL-2.0-only
"""Reads what the benchmarks print: one function per format, each from the output to {metric: value}.

An output that does not have what it should have is an error, never a zero: a benchmark that printed nothing has not
taken no time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Values = dict[str, float]
Parser = Callable[[str], Values]

NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


class Unreadable(Exception):
    """The output of a benchmark lacks what it was run for."""


def _only(pattern: str, output: str, what: str) -> re.Match[str]:
    """The one match of a pattern; a second one would mean that two outputs were mixed up."""
    matches = list(re.finditer(pattern, output, re.MULTILINE))
    if len(matches) != 1:
        raise Unreadable(f"{len(matches) or 'no'} {what} in the output, one expected")
    return matches[0]


def _json_object(output: str) -> dict[str, Any]:
    """The JSON object in the output; lines before and after it, such as warnings, are passed over."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"^\{", output, re.MULTILINE):
        try:
            found, _ = decoder.raw_decode(output, match.start())
        except ValueError:
            continue
        assert isinstance(found, dict)
        return found
    raise Unreadable("no JSON object in the output")


def _number(found: Mapping[str, Any], key: str) -> float:
    value = found.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise Unreadable(f"'{key}' is not a number in the output: {value!r}")
    return float(value)


def hackbench(output: str) -> Values:
    """hackbench of rt-tests: the time from the start signal to the last message, in whole milliseconds.

    Where a line "elapsed NUMBER ns" is there as well, it is the time from start to end of the program, as the shell saw
    it: with the making of the tasks, but fine enough for a run that takes some milliseconds.
    """
    values = {"time": float(_only(rf"^Time: {NUMBER}$", output, "line 'Time:'")[1])}
    if elapsed := re.search(r"^elapsed ([0-9]+) ns$", output, re.MULTILINE):
        values["elapsed"] = int(elapsed[1]) / 1e6
    return values


def tbench(output: str) -> Values:
    """tbench of dbench 4: operations a second, and its own throughput.

    It computes its throughput once a second, while it goes on: a run that ends in its first second prints 0, which is
    left out here. Operations are counted to the end. A run that somebody else ended has a line "measured for N ns", and
    one that the first attempt did not end has "measured again": of that, nobody knows how long it was.
    """
    seconds = float(_only(rf"^Running for {NUMBER} seconds", output, "line 'Running for'")[1])
    if told := re.search(r"^measured for ([0-9]+) ns$", output, re.MULTILINE):
        seconds = int(told[1]) / 1e9
    if re.search(r"^measured again$", output, re.MULTILINE):
        raise Unreadable("tbench was not ready to be ended")
    counts = re.findall(r"^ ?[A-Z]\w+ +([0-9]+) +[0-9.]+ +[0-9.]+$", output, re.MULTILINE)
    throughput = float(_only(rf"^Throughput {NUMBER} MB/sec", output, "line 'Throughput'")[1])
    operations = sum(int(count) for count in counts)
    if not operations or not seconds:
        raise Unreadable("no operation was counted")
    return {"operations": operations / seconds, **({"throughput": throughput} if throughput else {})}


def schbench(output: str) -> Values:
    """bench/workloads/schbench --json: percentiles of wakeup and request latencies, and the request rate."""
    found = _json_object(output)
    values = {"rps": _number(found, "rps")}
    for key, name in (("wakeup_us", "wakeup"), ("request_us", "request")):
        for percentile in ("p50", "p90", "p99", "p999"):
            values[f"{name}_{percentile}"] = _number(found.get(key) or {}, percentile)
    return values


def stream(output: str) -> Values:
    """bench/workloads/stream --json: the best rate of each of the four kernels in MB/s."""
    found = _json_object(output)
    functions = found.get("functions")
    if not isinstance(functions, dict) or found.get("valid") is not True:
        raise Unreadable("STREAM's arrays have wrong values, or there is no result")
    return {kernel: _number(functions.get(kernel) or {}, "best_mb_s") for kernel in ("copy", "scale", "add", "triad")}


# -------------------------------------------------------------------- numa

def cached(output: str) -> Values:
    """bench/workloads/cached --json: rates of lines, in 10^6 a second."""
    found = _json_object(output)
    if found.get("valid") is not True:
        raise Unreadable("a thread of cached read wrong values, or there is no result")
    return {name: _number(found, f"{name}_m_s") for name in ("hmean", "slowest", "all")}


def pairs(output: str) -> Values:
    """bench/workloads/pairs --json: messages per second."""
    found = _json_object(output)
    if found.get("valid") is not True:
        raise Unreadable("a buffer of pairs has wrong values, or there is no result")
    return {"messages": _number(found, "messages_s")}


def numa_together(output: str) -> Values:
    """The two of suite numa's groups, or the one of them that runs; and how many of them ended."""
    found: Values = {}
    for line in output.splitlines():
        if line.startswith('{"benchmark":"stream"'):
            found["triad"] = stream(line)["triad"]
        elif line.startswith('{"benchmark":"pairs"'):
            found |= pairs(line)
    if not found:
        raise Unreadable("neither group has a result")
    return found | {"ended": float(len(found))}


# ---------------------------------------------------------------- headroom

# A demand is kept where no more than this is missing: idle time is told in hundredths of a second.
REACHED_POINTS = 2.0
# What cpu.headroom leaves a side job whatever is demanded, in percent of the machine; see kernel/sched/steer_headroom.c.
FLOOR = 1.0
# In so many seconds each side job does something, at its floor or between two bursts, too.
ALIVE_S = 0.5


def _results(output: str) -> list[dict[str, Any]]:
    """All lines of JSON in the output that say which benchmark they are of."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"benchmark":')]


def _objects(output: str) -> dict[str, dict[str, Any]]:
    """The results, by their benchmarks, of which there is one each."""
    found: dict[str, dict[str, Any]] = {}
    for value in _results(output):
        if value["benchmark"] in found:
            raise Unreadable(f"two results of {value['benchmark']}")
        found[value["benchmark"]] = value
    return found


def _observed(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if not (seen := found.get("observe")):
        raise Unreadable("nothing from 'observe' in the output")
    return seen


def _asked(output: str) -> tuple[float, float, int]:
    """What the case asks to be idle, in percent, how long it warmed up, and how many side jobs it has started."""
    match = _only(rf"^demand {NUMBER} warm {NUMBER} side jobs ([0-9]+)$", output, "line 'demand'")
    return float(match[1]), float(match[2]), int(match[3])


def _mean(values: list[float]) -> float:
    if not values:
        raise Unreadable("no step of the observer is in the measured time")
    return sum(values) / len(values)


def _sides(seen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: group for name, group in seen["groups"].items() if name.startswith("side")}


def _machine(output: str, warm: float | None = None, until: float = math.inf) -> Values:
    """Idle time and side work, after the warm-up. A side job that did nothing at the end has not run, or died on the
    way, which is an error: the service would look as good as alone."""
    seen = _observed(_objects(output))
    demand, told, jobs = _asked(output)
    end = [at for at, time in enumerate(seen["at_s"]) if time > seen["at_s"][-1] - ALIVE_S]
    ran = sum(1 for group in _sides(seen).values() if any(group["usage"][at] for at in end))
    if ran != jobs:
        raise Unreadable(f"{ran} of {jobs} side jobs did something in the last {ALIVE_S:g} s")
    steps = [at for at, time in enumerate(seen["at_s"]) if (told if warm is None else warm) < time <= until]
    idle = _mean([seen["idle"][at] for at in steps])
    values: Values = {"idle": idle}
    sides = _sides(seen)
    usage = [sum(group["usage"][at] for group in sides.values()) for at in steps]
    if any(usage):
        side = _mean(usage)
        # What everybody else leaves it; idle time beyond the demand is lost, idle time short of it was taken.
        left = side + idle - demand
        values |= {"idle_error": abs(idle - demand), "side": side,
                   "side_least": min(_mean(usage[at:at + 2]) for at in range(max(len(usage) - 1, 1)))}
        if left > 0:
            values["side_part"] = 100 * side / left
    return values


def _latencies(found: Mapping[str, Any]) -> Values:
    return {name: _number(found, name) for name in ("mean", "p50", "p99", "p999")}


def headroom_requests(output: str) -> Values:
    """bench/workloads/serve and observe: latencies and rate after the warm-up, and what the machine did."""
    if not (served := _objects(output).get("serve")):
        raise Unreadable("nothing from 'serve' in the output")
    return {**_latencies(served["latency_us"]), "rps": _number(served["latency_us"], "rps"), **_machine(output)}


def headroom_share(output: str) -> Values:
    """Likewise, and by how much at most the groups sideWEIGHT are off what their weights say, after the warm-up."""
    seen, (_, warm, _) = _observed(_objects(output)), _asked(output)
    steps = [at for at, time in enumerate(seen["at_s"]) if time > warm]
    used = {int(name.removeprefix("side")): sum(group["usage"][at] for at in steps)
            for name, group in _sides(seen).items()}
    values = headroom_requests(output)
    if total := sum(used.values()):
        share = total / sum(used)
        values["share_error"] = max(abs(100 * (time / weight / share - 1)) for weight, time in used.items())
    return values


def _milliseconds(seconds: float) -> float:
    """In whole microseconds. What the programs say is no finer, and a difference of two such times is not to miss a goal
    by rounding."""
    return round(1000 * seconds, 3)


def _first(seen: Mapping[str, Any], begin: float, end: float, reached: Callable[[float, float], bool]) -> float:
    """Milliseconds from the begin of a stage until idle time and side work are so, in two steps on end; all of it where
    they never are.

    Of each step counts the mean with the one before, both in the stage: within a period, side work comes and goes.
    """
    side = [sum(used) for used in zip(*(group["usage"] for group in _sides(seen).values()))] or [0.0] * len(seen["idle"])
    times = [0.0, *seen["at_s"]]
    steps = [at for at in range(len(times) - 1) if times[at] > begin - 0.01 and times[at + 1] <= end + 0.01]
    smooth = [(times[at + 1], _mean([seen["idle"][before], seen["idle"][at]]), _mean([side[before], side[at]]))
              for before, at in zip(steps, steps[1:])]
    for (time, *now), (_, *following) in zip(smooth, smooth[1:]):
        if reached(*now) and reached(*following):
            return _milliseconds(time - begin)
    return _milliseconds(end - begin)


def headroom_step(output: str) -> Values:
    """The three stages of a step: how long until the demand is kept, until the side job did what it can for that, and
    until it has its share back.

    A time as long as the stage says that it did not happen in it. Without a side job there is none to have it back.
    """
    found = _objects(output)
    if not (served := found.get("serve")) or len(served["stages"]) != 3:
        raise Unreadable("no three stages from 'serve' in the output")
    seen, (demand, _, _) = _observed(found), _asked(output)
    _, high, back = served["stages"]

    def kept(idle: float, _side: float) -> bool:
        return idle >= demand - REACHED_POINTS

    def gone(idle: float, side: float) -> bool:
        return kept(idle, side) or side <= FLOOR + REACHED_POINTS

    def used(idle: float, _side: float) -> bool:
        return idle <= demand + REACHED_POINTS

    values = {"reaction": _first(seen, high["begin_s"], high["end_s"], kept), "high_p99":
              _number(high["latency_us"], "p99"), **_machine(output),
              "high_idle": _machine(output, high["begin_s"] + 0.3, high["end_s"])["idle"]}
    if "side" in values:
        values["gives_way"] = _first(seen, high["begin_s"], high["end_s"], gone)
        values["return"] = _first(seen, back["begin_s"], back["end_s"], used)
    return values


def headroom_series(output: str) -> dict[str, Any]:
    """What a picture over time shows: idle, the side's use and budget, and the p99 of requests, in steps."""
    found = _objects(output)
    seen, served = _observed(found), found["serve"]
    sides = list(_sides(seen).values())
    budgets = [group["budget_us"] for group in sides if "budget_us" in group]
    period = 1000.0 * seen["cpus"]
    return {"at_s": seen["at_s"], "idle": seen["idle"], "demand": _asked(output)[0],
            "side": [sum(group["usage"][at] for group in sides) for at in range(len(seen["at_s"]))],
            "budget": [None if None in values else sum(values) / period for values in zip(*budgets)],
            "interval_s": served["interval_s"], "p99_us": served["p99_us"],
            "stages": [[stage["begin_s"], stage["percent"]] for stage in served["stages"]]}


def headroom_timers(output: str) -> Values:
    """cyclictest's histogram, of all threads together, and what the machine did."""
    counts: dict[int, int] = {}
    for match in re.finditer(r"^([0-9]{6})((?:[ \t]+[0-9]{6,})+)$", output, re.MULTILINE):
        counts[int(match[1])] = sum(int(count) for count in match[2].split())
    total = sum(counts.values())
    overflows = sum(int(count) for line in re.findall(r"^# Histogram Overflows: ([0-9 ]+)$", output, re.MULTILINE)
                    for count in line.split())
    if not total:
        raise Unreadable("no histogram in the output")
    values = {"mean": sum(value * count for value, count in counts.items()) / total, **_machine(output)}
    for name, part in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        seen, rank = 0, math.ceil(part * (total + overflows))
        if rank > total:
            raise Unreadable(f"{overflows} latencies are beyond the histogram")
        for value in sorted(counts):
            seen += counts[value]
            if seen >= rank:
                values[name] = float(value)
                break
    return values


def headroom_disk(output: str) -> Values:
    """fio's JSON: completion latencies and rate of reads, and what the machine did."""
    found = [job for job in _json_object(output).get("jobs", ()) if job.get("jobname") == "main"]
    if len(found) != 1:
        raise Unreadable("not one job 'main' in fio's output")
    latency = found[0]["read"]["clat_ns"]
    percentiles = latency.get("percentile") or {}
    values = {"mean": _number(latency, "mean") / 1e3} | {name: _number(percentiles, key) / 1e3 for name, key in
              (("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000"))}
    return {**values, "iops": _number(found[0]["read"], "iops"), **_machine(output)}


# -------------------------------------------------------------------- gang

def _gangs(output: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """The results of the gangs, of the sleeper beside them if there is one, and of the observer."""
    found = _results(output)
    gangs = [result for result in found if result["benchmark"] in ("ompbarrier", "spin") and result.get("name")]
    sleepers = [result for result in found if result.get("kind") == "sleeper"]
    seen = [result for result in found if result["benchmark"] == "observe"]
    if not gangs or len(seen) != 1 or len(sleepers) != ("bystander" in seen[0]["groups"]):
        raise Unreadable(f"{len(gangs)} gangs, {len(sleepers)} sleepers and {len(seen)} observers in the output")
    return gangs, sleepers, seen[0]


def gang(output: str) -> Values:
    """bench/workloads/ompbarrier or spin for each gang, spin's sleeper, and what observe saw of them."""
    gangs, sleepers, seen = _gangs(output)
    groups = {name: group for name, group in seen["groups"].items() if name.startswith("gang") or name == "hogs"}
    expected = [name for name in groups if name != "hogs"]
    if sorted(result["name"] for result in gangs) != sorted(expected):
        raise Unreadable(f"gangs {', '.join(sorted(expected))} ran, of which {len(gangs)} have a result")
    seconds = _number(seen, "seconds")
    values = {"rate": sum(_number(result, "rate") for result in gangs), "switches": seen["switches"] / seconds,
              "ipis": seen["ipis"] / seconds}
    if sleepers:
        values["late_p99"] = _number(sleepers[0].get("late_us") or {}, "p99")
    used = [_number(group, "cpu_s") for group in groups.values()]
    if "hogs" in groups and not groups["hogs"]["cpu_s"]:
        raise Unreadable("the busy loops did not run")
    if len(used) > 1 and sum(used) > 0:
        values["share_error"] = max(abs(100 * (time * len(used) / sum(used) - 1)) for time in used)
    shares = [share for share in (seen.get("corun") or {}).values() if share is not None]
    if len(shares) == len(expected):
        values["corun"] = 100 * sum(shares) / len(shares)
    return values


def gang_series(output: str) -> dict[str, Any]:
    """What a picture of a trace shows: who had which CPU from when to when, and when a slot began."""
    _, _, seen = _gangs(output)
    return {"cpus": seen["cpus"], "stretches": seen.get("stretches", []), "leads_us": seen.get("leads_us", [])}


def with_switches(parse: Parser) -> Parser:
    """A benchmark's values, and the context switches that the shell counted over it."""
    def both(output: str) -> Values:
        told = _only(r"^switches ([0-9]+) in ([0-9]+) ms$", output, "line 'switches'")
        return {**parse(output), "switches": 1000 * int(told[1]) / max(int(told[2]), 1)}
    return both


# Periods of a task that are not judged
RT_APP_FIRST = 4


def rt_app(output: str) -> Values:
    """rt-app's logs, one after the other, and with them, where perf counted those, the migrations.

    A line of a log is what a task did in a phase: from its columns, in us, when the phase began and ended, its slack
    (below 0 where the work was not done at the end of the period) and the length of the period, 0 where there is none.
    In the first periods of a task the kernel does not know yet what the task uses: they do not count.
    """
    slacks, begins, ends, seen = [], [], [], 0
    for line in output.splitlines():
        fields = line.split()
        if line.startswith("#"):
            seen = 0
        elif len(fields) == 11 and all(re.fullmatch(r"-?\d+", field) for field in fields):
            start, end, slack, period = (int(fields[n]) for n in (4, 5, 7, 9))
            begins.append(start)
            ends.append(end)
            seen += 1
            if period and seen > RT_APP_FIRST:
                slacks.append(100 * slack / period)
    if not slacks:
        raise Unreadable("no log of a periodic task")
    slacks.sort()
    values = {"missed": 100 * sum(slack < 0 for slack in slacks) / len(slacks), "slack": slacks[len(slacks) // 100],
              "elapsed": (max(ends) - min(begins)) / 1000}
    if migrations := re.search(r"^(\d+),[^,]*,(?:cpu-)?migrations", output, re.MULTILINE):
        values["migrations"] = float(migrations[1])
    return values


def perf_sched(output: str) -> Values:
    """perf bench sched messaging and pipe, in the default or the simple format."""
    if match := re.search(rf"^ +Total time: {NUMBER} \[sec\]$", output, re.MULTILINE):
        values = {"time": float(match[1])}
        if rate := re.search(rf"^ +{NUMBER} ops/sec$", output, re.MULTILINE):
            values["operations"] = float(rate[1])
        return values
    return {"time": float(_only(rf"^{NUMBER}$", output, "line with a time")[1])}


def perf_futex(output: str) -> Values:
    """perf bench futex: a rate (hash, lock-pi) or the mean of the runs' times (wake, wake-parallel, requeue)."""
    if match := re.search(rf"^Averaged {NUMBER} operations/sec", output, re.MULTILINE):
        return {"operations": float(match[1])}
    summary = rf"^(?:Wokeup|Requeued|Avg per-thread latency) .* in {NUMBER} ms \(\+-"
    return {"time": float(_only(summary, output, "line with the average")[1]) / 1e3}


def stress_ng(output: str) -> Values:
    """stress-ng --metrics-brief of one stressor: bogo operations, and a second of real time."""
    pattern = r"^stress-ng: metrc: \[[0-9]+\] (\S+) +([0-9]+) +[0-9.]+ +[0-9.]+ +[0-9.]+ +([0-9.]+) +[0-9.]+$"
    line = _only(pattern, output, "line with bogo ops")
    return {"bogo_ops": float(line[2]), "bogo_ops_per_s": float(line[3])}


def sysbench(output: str) -> Values:
    """sysbench cpu and threads: events a second, and the 95th percentile of their latency."""
    total = float(_only(r"^ +total number of events: +([0-9]+)$", output, "line 'total number of events'")[1])
    seconds = float(_only(rf"^ +total time: +{NUMBER}s$", output, "line 'total time'")[1])
    tail = float(_only(rf"^ +95th percentile: +{NUMBER}$", output, "line '95th percentile'")[1])
    if not total or not seconds:
        raise Unreadable("no event was counted")
    # "cpu" prints the rate, "threads" leaves the division to the reader.
    rate = re.search(rf"^ +events per second: +{NUMBER}$", output, re.MULTILINE)
    return {"events_per_s": float(rate[1]) if rate else total / seconds, "latency_p95_ms": tail}


def fio(output: str) -> Values:
    """fio with --output-format=json or terse (version 3): operations a second of all jobs, worst p99 in us."""
    lines = [line.split(";") for line in output.splitlines() if re.match(r"3;fio-[^;]+;", line)]
    iops, tails = 0.0, []
    if lines:
        for fields in lines:
            if fields[4] != "0":
                raise Unreadable(f"fio job {fields[2]}: error {fields[4]}")
            for rate, percentiles in ((7, 17), (48, 58)):
                iops += float(fields[rate])
                tails += [float(field.partition("=")[2]) for field in fields[percentiles:percentiles + 20]
                          if field.startswith("99.000000%=")]
    else:
        for job in _json_object(output).get("jobs", []):
            if job["error"]:
                raise Unreadable(f"fio job {job['jobname']}: error {job['error']}")
            for direction in ("read", "write"):
                iops += _number(job[direction], "iops")
                if (tail := job[direction]["clat_ns"].get("percentile", {}).get("99.000000")) is not None:
                    tails.append(tail / 1e3)
    if not iops or not tails:
        raise Unreadable("fio did no I/O")
    return {"iops": iops, "latency_p99_us": max(tails)}


def cyclictest(output: str) -> Values:
    """cyclictest -q or --json: of all threads the smallest, mean and greatest latency in microseconds."""
    pattern = r"^T: *[0-9]+ .* C: *([0-9]+) Min: *([0-9]+) Act: *[0-9]+ Avg: *([0-9]+) Max: *([0-9]+)"
    threads = [tuple(map(float, match)) for match in re.findall(pattern, output, re.MULTILINE)]
    if not threads:
        threads = [(_number(thread, "cycles"), _number(thread, "min"), _number(thread, "avg"), _number(thread, "max"))
                   for thread in _json_object(output).get("thread", {}).values()]
    cycles = sum(thread[0] for thread in threads)
    if not cycles:
        raise Unreadable("cyclictest made no cycle")
    return {"min_us": min(thread[1] for thread in threads),
            "avg_us": sum(thread[0] * thread[2] for thread in threads) / cycles,
            "max_us": max(thread[3] for thread in threads)}


# -------------------------------------------------------------------- apps

def redis_benchmark(output: str) -> Values:
    """redis-benchmark of one command: rate, and latencies, in microseconds here. p99.9 is the first step of its
    distribution that is not below it, which is how it prints percentiles."""
    # Its progress, ended by carriage returns, and its table are on the same lines.
    text = output.replace("\r", "\n")
    rate = float(_only(rf"^ *throughput summary: {NUMBER} requests per second$", text, "line 'throughput summary'")[1])
    row = _only(r"^ +avg +min +p50 +p95 +p99 +max *\n +([0-9.]+(?: +[0-9.]+){5}) *$", text, "summary of latencies")
    mean, _, p50, _, p99, _ = map(float, row[1].split())
    steps = [(float(part), float(value)) for part, value in
             re.findall(rf"^{NUMBER}% <= {NUMBER} milliseconds", text, re.MULTILINE)]
    p999 = next((value for part, value in steps if part >= 99.9), None)
    if p999 is None:
        raise Unreadable("no distribution of latencies in the output")
    return {name: 1000 * value for name, value in (("mean", mean), ("p50", p50), ("p99", p99), ("p999", p999))} | {
        "rps": rate}


def _app_client(text: str) -> Values:
    """The one client's report: ask, wrk with apps/wrk.lua, pgbench with its log's percentiles, or redis-benchmark."""
    if "throughput summary:" in text:
        return redis_benchmark(text)
    found = _objects(text)
    if wrk := found.get("wrk"):
        if errors := wrk["errors"]:
            raise Unreadable(f"wrk counted {errors} errors")
    told = found.get("ask") or wrk or found.get("pgbench")
    if not told:
        raise Unreadable("no report of a client in the output")
    values = {name: _number(told["latency_us"], name) for name in ("p50", "p99", "p999")}
    if told["benchmark"] == "pgbench":
        failed = _only(r"^number of failed transactions: ([0-9]+) ", text, "line 'number of failed transactions'")
        if int(failed[1]):
            raise Unreadable(f"pgbench counted {failed[1]} failed transactions")
        rate = _only(rf"^tps = {NUMBER} \(without initial connection time\)$", text, "line 'tps'")
        return {**values, "rps": float(rate[1])}
    return {**values, "rps": _number(told["latency_us"], "rps")}


def _app_side(text: str) -> float:
    """Work of a side job in a second: runs of `again`, stress-ng's bogo operations, or fio's reads."""
    if "stress-ng: metrc:" in text:
        return stress_ng(text)["bogo_ops_per_s"]
    if '"fio version"' in text:
        return fio(text)["iops"]
    if not (again := _objects(text).get("again")):
        tail = " / ".join(text.strip().splitlines()[-3:])
        raise Unreadable(f"no report of a side job: {tail or 'nothing'}")
    return _number(again, "work") / _number(again, "seconds")


def app(output: str) -> Values:
    """A service's run: what its client reports, what the side job did where there was one, and the server's moves."""
    parts = {name: text for name, text in re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", output, re.MULTILINE | re.DOTALL)}
    if "client" not in parts or "seen" not in parts:
        raise Unreadable("no parts 'client' and 'seen' in the output")
    values = _app_client(parts["client"])
    if "second" in parts:
        values |= {f"second_{name}": value for name, value in _app_client(parts["second"]).items()}
    if "side" in parts:
        values["side"] = _app_side(parts["side"])
        if values["side"] <= 0:
            raise Unreadable("the side job did nothing")
    return values | {"migrations": float(_only(r"^migrations ([0-9]+)$", parts["seen"], "line 'migrations'")[1])}
