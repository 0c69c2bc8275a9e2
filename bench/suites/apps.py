# SPDX-License-Identifier: GPL-2.0-only
"""Suite `apps`: real services, alone and beside a side job, under everything that a user could pick for them.

The programs are Debian's, unmodified. bench/apps.md says what is run, with which settings and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parsers
import schedulers
from suite import (BASELINE, FULL, HIGHER, HOST, LOWER, OURS, PINNED, QUICK, TODAY, Bench, Configuration, Figure,
                   Layout, Metric, Setting, Suite, Verdict, View, cpu_list)
from ways import LIKE_OURS

APPS = Path(__file__).resolve().parent.parent / "apps"
FILES = {f"lab/{path.name}": path for path in sorted(APPS.iterdir())} | {"etc/passwd": APPS / "passwd"}
# The rate that a service is asked at beside something else, in percent of its saturation
BESIDE = 50
SATURATED = 100
# Connections of a client, and its threads
CONNECTIONS, THREADS = 16, 2


@dataclass(frozen=True)
class Service:
    """A server: the command that it is, how to prepare for it, and the client that saturates it.

    In `start` and `saturate`, "$@" is what comes before a command. `kind` is what bench/workloads/ask calls it, which
    is the client where `saturate` or `paced` is empty; without a kind, both are clients of its own.
    """

    name: str
    port: int
    programs: tuple[str, ...]
    start: str
    saturate: str = ""
    prepare: str = ":"
    kind: str = ""
    paced: str = ""

    @property
    def ask(self) -> str:
        return (f"ask --kind {self.kind} --port {self.port} --connections {CONNECTIONS} --threads {THREADS} "
                "--keys 200 --size 1024 --json")


REDIS = Service(
    "redis", 17001, ("redis-server", "redis-benchmark"), kind="redis",
    start='exec "$@" redis-server --port 17001 --bind 127.0.0.1 --protected-mode no --save "" --appendonly no '
          "--ignore-warnings ARM64-COW-BUG",
    # As many requests as take about the time that the others have
    saturate=f'"$@" redis-benchmark -p 17001 -c {CONNECTIONS} -d 1024 -r 200 -t get '
             '-n $(awk "BEGIN { print int($capacity * WORK) }")')
MEMCACHED = Service(
    "memcached", 17002, ("memcached",), kind="memcached",
    start='exec "$@" memcached -u root -l 127.0.0.1 -p 17002 -U 0 -t 4')
NGINX = Service(
    "nginx", 17003, ("nginx", "wrk"), kind="http",
    prepare='mkdir -p /tmp/bench.kept/nginx/www && head -c 1024 /dev/zero > /tmp/bench.kept/nginx/www/1024',
    start='exec "$@" nginx -p /tmp/bench.kept/nginx -c "$files/nginx.conf" -e stderr -g "user root;"',
    saturate=f'"$@" wrk -t {THREADS} -c {CONNECTIONS} -d $(awk "BEGIN {{ print int(WORK + 0.99) }}")s '
             '-s "$files/wrk.lua" http://127.0.0.1:17003/1024')
# As nobody, since it refuses to be root; the files are in memory, so nothing has to reach a disk.
AS_NOBODY = "/bin/setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp TZ=GMT"
PGBENCH = "pgbench -h /tmp -p 17004 -U nobody"
SELECTING = f"{PGBENCH} -S -n -c 8 -j 2"
POSTGRES = Service(
    "postgres", 17004, ("postgres", "initdb", "pgbench", "setpriv"),
    # What is only made, and not measured, need not have caches.
    prepare="""{
	lab-mark off 2> /dev/null
	mkdir -p /tmp/bench.kept/pg && chown 65534:65534 /tmp/bench.kept/pg &&
	AS initdb -D /tmp/bench.kept/pg/data --no-locale -E UTF8 -A trust --no-sync > $out/initdb 2>&1 || failed
	start env > $out/populating 2>&1 &
	populating=$!
	ready && AS PGBENCH -i -q -s 1 -n postgres > $out/populated 2>&1 || failed
	kill -INT $populating
	wait $populating
	lab-mark on 2> /dev/null || :
}""".replace("AS", AS_NOBODY).replace("PGBENCH", PGBENCH),
    start=f'exec "$@" {AS_NOBODY} postgres -D /tmp/bench.kept/pg/data -p 17004 -k /tmp -c listen_addresses= '
          "-c fsync=off -c shared_buffers=64MB -c autovacuum=off -c max_connections=32",
    saturate=f'logged "$@" {SELECTING} -T $(awk "BEGIN {{ print int(WORK + 0.99) }}")',
    paced=f'logged "$@" {SELECTING} -R $rate -T $(awk "BEGIN {{ print int(WORK + 0.99) }}")')
SERVICES = (REDIS, MEMCACHED, NGINX, POSTGRES)

# A side job tells its work when it is ended: runs with fractions, or what its program counts.
SIDES = {
    "cc": ("a compiler", ("again", "gcc"), 'again --json $each -- gcc -O2 -ffreestanding -S -o /dev/null "$files/compiled.c"'),
    "zstd": ("compression", ("again", "zstd"), "again --json $each -- zstd -q -6 -c /tmp/bench.kept/data"),
    "matrix": ("stress-ng's matrix load", ("stress-ng",), "stress-ng --metrics-brief --matrix $(nproc)"),
    "cache": ("stress-ng's cache load", ("stress-ng",), "stress-ng --metrics-brief --cache $(nproc)"),
    "vm": ("stress-ng's vm load", ("stress-ng",), "stress-ng --metrics-brief --vm $(nproc) --vm-bytes 4m"),
    "fio": ("reads of a null device", ("fio",), "fio --filename=/dev/nullb0 --rw=randread --bs=4k --ioengine=psync "
            "--direct=1 --thread --numjobs=$(nproc) --time_based --runtime=86400 --group_reporting --name=side "
            "--output-format=json"),
}

PARTS = r"""out=/tmp/bench.$$
mkdir -p $out
files=/lab
[ -e $files/nginx.conf ] || files=$PWD/bench/apps
export files
# start [COMMAND]...: the server, begun by a command such as join
start() {
	START
}
# Waits until the server answers.
ready() {
	READY > $out/ready 2>&1
}
failed() {
	tail -n 5 $out/* 2> /dev/null | grep .
	exit 1
}
# pgbench with a log of its transactions, of which it tells no percentiles itself
logged() {
	mkdir -p $out/log
	(cd $out/log && "$@" -l postgres) || return
	cat $out/log/* | sort -n -k 3 | awk '
		{ took[NR] = $3; sum += $3 }
		function rank(part, at) { at = int(part * NR); return took[at < part * NR ? at + 1 : at] }
		END { if (NR) printf "{\"benchmark\":\"pgbench\",\"latency_us\":{\"p50\":%d,\"p99\":%d,\"p999\":%d}}\n",
			rank(0.5), rank(0.99), rank(0.999) }'
}
"""

# Once for all configurations, outside of all groups: what the service needs, and the rate at which it is saturated.
FIRST = PARTS + r"""[ ! -s /tmp/bench.kept/NAME.rate ] || exit 0
PREPARE || failed
[ -s /tmp/bench.kept/data ] || seq 1 60000 > /tmp/bench.kept/data
start env > $out/server 2>&1 &
server=$!
ready || failed
CALIBRATE > $out/capacity 2>&1 || failed
kill $server
wait $server
sed -n 's/.*"rps":\([0-9]*\).*/\1/p; s/^tps = \([0-9]*\).*/\1/p' $out/capacity > /tmp/bench.kept/NAME.rate
[ -s /tmp/bench.kept/NAME.rate ] || failed
"""

# What a run of the side job takes, one at a time: a job that is held back may not get through any.
EACH = PARTS + """[ ! -e /tmp/bench.kept/each-WHICH ] || exit 0
each="--jobs 1"
export each
sh -c 'SIDE' > $out/each 2>&1 &
trying=$!
sleep 3
kill $trying
wait $trying
sed -n 's/.*"run_cpu_s":\\([0-9.]*\\).*/--each \\1/p' $out/each > /tmp/bench.kept/each-WHICH
[ -s /tmp/bench.kept/each-WHICH ] || failed
"""

# The server is started first, then the side job, then the client, whose first requests are the warm-up of all. Server
# and client are the service: both are in its group.
SIDE_COMMANDS = {name: "exec " + command.replace("'", "'\\''") for name, (_, _, command) in SIDES.items()}
SCENE = PARTS + r"""main=$group/main
side=$group/${beside:-side}
beside() {
	[ -z "$alone" ] || return 0
	each=$(cat /tmp/bench.kept/each-WHICH 2> /dev/null)
	export each
	join "$side" $side_with $gently sh -c 'SIDE' > $out/side 2>&1 &
	batch=$!
	[ -z "$loop" ] || {
		$loop --group "$side" 2> $out/loop &
		looping=$!
	}
}
# Of the server's threads; those of PostgreSQL have ended with their connections.
migrations() {
	for pid in $server $(pgrep -P $server); do cat /proc/$pid/task/*/sched; done 2> /dev/null |
		awk '/nr_migrations/ { sum += $3 } END { print "migrations", sum + 0 }'
}
read -r capacity < /tmp/bench.kept/NAME.rate
rate=$((capacity * {load} / 100))
start join "$main" $main_with > $out/server 2>&1 &
server=$!
ready || failed
"""

ALONE = SCENE + """if [ {load} = SATURATED ]; then
	saturate() { SATURATE; }
else
	saturate() { PACED; }
fi
saturate join "$main" > $out/client 2>&1 || failed
echo "== client"
cat $out/client
echo "== seen"
migrations
"""

# The time between is for the side job to get going.
BESIDE_IT = SCENE + """beside
sleep ${warm:-0.3}
paced() { PACED; }
paced join "$main" $main_with > $out/client 2>&1 || failed
seen=$(migrations)
[ -z "$looping" ] || kill $looping
[ -z "$batch" ] || {
	kill $batch
	wait $batch
}
echo "== client"
cat $out/client
[ -n "$alone" ] || {
	echo "== side"
	cat $out/side
}
echo "== seen"
echo "$seen"
"""

# Two services: what is the second one's has a 2 behind it. Both are asked at once, each at its own rate.
TOGETHER = SCENE + """read -r capacity < /tmp/bench.kept/NAME2.rate
rate2=$((capacity * {load} / 100))
start2() {
	START2
}
ready2() {
	READY2 > $out/ready2 2>&1
}
start2 join "$side" > $out/server2 2>&1 &
ready2 || failed
paced() { PACED; }
paced2() { PACED2; }
paced join "$main" > $out/client 2>&1 &
asking=$!
rate=$rate2
paced2 join "$side" > $out/second 2>&1 || failed
wait $asking || failed
echo "== client"
cat $out/client
echo "== second"
cat $out/second
echo "== seen"
migrations
"""


def places(service: Service, mark: str = "") -> dict[str, str]:
    """What is the service's in the commands of a benchmark."""
    paced = service.paced or f'"$@" {service.ask} --rate $rate --warmup 0.3 --runtime WORK'
    saturate = service.saturate or f'"$@" {service.ask} --warmup 0.3 --runtime WORK'
    closed = f"{service.ask} --warmup 0.2 --runtime 0.4" if service.kind else "calibrating() { SATURATE; }; calibrating"
    ready = (service.ask.replace(f"--connections {CONNECTIONS} --threads {THREADS}", "--connections 1 --threads 1")
             + " --runtime 0.05" if service.kind else
             f"tries=0; until {PGBENCH} -n -t 1 -f \"$files/nothing.sql\" postgres; do "
             "tries=$((tries + 1)); [ $tries -lt 200 ] || return 1; sleep 0.05; done")
    return {f"{name}{mark}": value for name, value in (
        ("CALIBRATE", closed), ("PREPARE", service.prepare), ("START", service.start), ("READY", ready),
        ("SATURATED", str(SATURATED)), ("SATURATE", saturate), ("PACED", paced), ("NAME", service.name))}


def scene(service: Service, text: str, side: str = "", second: Service | None = None) -> str:
    """The commands of a benchmark, with what is the services' and the side job's in their places."""
    for name, value in {**(places(second, "2") if second else {}), **places(service),
                        "WHICH": side, "SIDE": SIDE_COMMANDS.get(side, ""), "WORK": "{work}"}.items():
        text = text.replace(name, value)
    return text


LATENCIES = (
    Metric("p99", "us", LOWER, "99th percentile of latency"),
    Metric("p50", "us", LOWER, "median of latency"),
    Metric("p999", "us", LOWER, "99.9th percentile of latency"),
    Metric("rps", "1/s", HIGHER, "requests per second"),
    Metric("migrations", "migrations", LOWER, "moves of the server's threads between CPUs", shown=False,
           compared=False, optional=True),
)
SECOND = tuple(Metric(f"second_{name}", unit, better, f"the second service: {title}") for name, unit, better, title in (
    ("p99", "us", LOWER, "99th percentile of latency"), ("rps", "1/s", HIGHER, "requests per second")))
WORK_DONE = Metric("side", "1/s", HIGHER, "work of the side job", optional=True)


def effort(_: int, seconds: float) -> float:
    """Millions of instructions of eight CPUs in slow motion by twenty, some of which are not busy."""
    return (seconds + 1.5) * 300


def pinned(name: str) -> Callable[[str, int, Layout], str | None]:
    """The service's CPUs: one of the machine's pinnings."""
    def cpus(_group: str, _load: int, layout: Layout) -> str | None:
        found = layout.pinnings().get(name)
        return cpu_list(found) if found else None
    return cpus


def halves(group: str, _load: int, layout: Layout) -> str:
    """Every other core of each LLC is the service's, the rest the side job's."""
    chosen = [cpu for llc in layout.llcs
              for core in sorted((core for core in layout.cores if core <= llc), key=min)[group != "main"::2]
              for cpu in core]
    return cpu_list(chosen)


def caches(group: str, _load: int, layout: Layout) -> str:
    """The first half of the LLCs is the service's, the rest the side job's."""
    llcs = sorted(layout.llcs, key=min)
    part = llcs[:len(llcs) // 2] if group == "main" else llcs[len(llcs) // 2:]
    return cpu_list(frozenset().union(*part))


def main_hint(words: str) -> Setting:
    return Setting("main", "cpu.hint", words)


def ours(name: str, *settings: Setting, block: str = "Ours") -> Configuration:
    return Configuration(name, OURS, block, settings=settings,
                         needs=tuple(dict.fromkeys(f"{setting.group.replace('*', 'main')}/{setting.file}"
                                                   for setting in settings
                                                   if setting.file in ("cpu.hint", "cpu.headroom"))))


def headroom(percent: int) -> Setting:
    return Setting("main", "cpu.headroom", str(percent))


SIDE_IDLE = Setting("side", "cpu.idle", "1")
SHARING = main_hint("fork_spread wake_affine")
# The classes of tasks count within a group only, so for them both are in one.
IN_ONE = {"beside": "main"}

CONFIGURATIONS = (
    Configuration("none", BASELINE),
    Configuration("alone", TODAY, "For comparison", variables={"alone": "1"}),
    Configuration("weight", TODAY, "Weights", settings=(Setting("main", "cpu.weight", "10000"),
                                                        Setting("side", "cpu.weight", "1"))),
    Configuration("idle", TODAY, "Weights", settings=(SIDE_IDLE,)),
    Configuration("nice", TODAY, "Classes of tasks", variables={**IN_ONE, "gently": "nice -n 19"}),
    Configuration("sched_batch", TODAY, "Classes of tasks", variables={**IN_ONE, "gently": "/bin/chrt --batch 0"}),
    Configuration("sched_idle", TODAY, "Classes of tasks", variables={**IN_ONE, "gently": "/bin/chrt --idle 0"}),
    Configuration("slice", TODAY, "Slices and clamps",
                  variables={"main_with": "--slice 500", "side_with": "--slice 20000"}),
    Configuration("uclamp", TODAY, "Slices and clamps", settings=(Setting("main", "cpu.uclamp.min", "max"),
                                                                  Setting("side", "cpu.uclamp.max", "20")),
                  needs=("side/cpu.uclamp.max",)),
    Configuration("halves", PINNED, "CPUs of one's own", settings=(Setting("*", "cpuset.cpus", halves),)),
    Configuration("caches", PINNED, "CPUs of one's own", settings=(Setting("*", "cpuset.cpus", caches),)),
    Configuration("cookies", TODAY, "Core scheduling", variables={"main_with": "--cookie", "side_with": "--cookie"},
                  smt_only=True),
    Configuration("userloop", TODAY, "The loop in user space",
                  variables={"loop": "userloop --headroom 20", "warm": "6"}),
    Configuration("userloop+idle", TODAY, "The loop in user space", settings=(SIDE_IDLE,),
                  variables={"loop": "userloop --headroom 20", "warm": "6"}),
    *schedulers.configurations("layers.json"),
    ours("tail_latency", main_hint("tail_latency"), block="Hints"),
    ours("interactive", main_hint("interactive"), block="Hints"),
    ours("fork_spread+wake_affine", SHARING, block="Hints"),
    ours("fork_affine+wake_affine", main_hint("fork_affine wake_affine"), block="Hints"),
    ours("wake_hold", main_hint("wake_hold"), block="Hints"),
    ours("background", Setting("side", "cpu.hint", "background"), Setting("side", "cpu.weight", "1"), block="Hints"),
    *(ours(f"headroom{percent}", headroom(percent), block="Headroom") for percent in (10, 20, 30)),
    ours("headroom20+hint", headroom(20), SHARING, block="Headroom"),
    ours("headroom20+tail", headroom(20), main_hint("tail_latency"), block="Headroom"),
    ours("headroom20+idle", headroom(20), SIDE_IDLE, block="Headroom"),
    ours("headroom20+hint+idle", headroom(20), SHARING, SIDE_IDLE, block="Headroom"),
    ours("both", Setting("*", "cpu.hint", "fork_spread wake_affine"), block="Two services"),
    ours("both_tail", Setting("*", "cpu.hint", "tail_latency"), block="Two services"),
    *(Configuration(name, PINNED, "CPUs of one's own", settings=(Setting("main", "cpuset.cpus", pinned(name)),))
      for name in ("llc", "cores", "apart")),
)
HINTS = ("tail_latency", "interactive", "fork_spread+wake_affine", "fork_affine+wake_affine", "wake_hold")
SCHEDULERS = tuple(c.name for c in CONFIGURATIONS if c.scheduler)
PINNINGS = ("llc", "cores", "apart")
OF_ALONE = ("none", *HINTS, *PINNINGS, *SCHEDULERS)
FOR_BOTH = ("both", "both_tail")
OF_BESIDE = tuple(c.name for c in CONFIGURATIONS if c.name not in (*PINNINGS, *FOR_BOTH))
OF_TWO = ("none", "halves", "caches", *SCHEDULERS, *FOR_BOTH)
QUICK_ALONE = ("tail_latency", "fork_spread+wake_affine", "llc")
QUICK_BESIDE = ("alone", "weight", "idle", "sched_idle", "caches", "scx_layered", "scx_lavd", "headroom20",
                "headroom20+hint", "headroom20+idle")

COMMON = ("ask", "join")


def first(service: Service) -> str:
    return scene(service, FIRST).replace("{work}", "1")


def alone(service: Service) -> Bench:
    return Bench(
        name=service.name, title=f"{service.name} alone", load="% of saturation", command=scene(service, ALONE),
        programs=(*service.programs, *COMMON), parse=parsers.app, metrics=LATENCIES,
        work={FULL: {load: 3 for load in (25, 50, 75, SATURATED)}, QUICK: {SATURATED: 1},
              HOST: {load: 20 for load in (25, 50, 75, SATURATED)}},
        effort=effort, limit=120, files=FILES, groups=lambda _: ("main", "side"), first=first(service),
        configurations=OF_ALONE,
        quick_configurations=QUICK_ALONE)


def beside(service: Service, side: str, quick: bool) -> Bench:
    in_runs = SIDE_COMMANDS[side].startswith("exec again ")
    title, programs, _ = SIDES[side]
    return Bench(
        name=f"{service.name}+{side}", title=f"{service.name} beside {title}", load="% of saturation",
        command=scene(service, BESIDE_IT, side),
        programs=(*service.programs, *COMMON, *programs, "userloop", "chrt"), parse=parsers.app,
        metrics=(*LATENCIES, WORK_DONE),
        work={FULL: {25: 3, BESIDE: 3, 75: 3}, QUICK: {BESIDE: 1.5} if quick else {},
              HOST: {25: 20, BESIDE: 20, 75: 20}},
        effort=effort, limit=240, files=FILES, groups=lambda _: ("main", "side"),
        first=f"({first(service)}) &&\n({scene(service, EACH, side)})" if in_runs else first(service),
        configurations=OF_BESIDE,
        quick_configurations=QUICK_BESIDE)


PAIRS = ((REDIS, "cc", True), (MEMCACHED, "matrix", True), (NGINX, "zstd", True), (POSTGRES, "cc", True),
         (REDIS, "cache", False), (MEMCACHED, "vm", False), (NGINX, "fio", False), (POSTGRES, "matrix", False))


def together(service: Service, second: Service) -> Bench:
    return Bench(
        name=f"{service.name}+{second.name}", title=f"{service.name} beside {second.name}", load="% of saturation",
        command=scene(service, TOGETHER, second=second),
        programs=tuple(dict.fromkeys((*service.programs, *second.programs, *COMMON))), parse=parsers.app,
        metrics=(*LATENCIES, *SECOND), work={FULL: {50: 3, 75: 3}, QUICK: {}, HOST: {50: 20, 75: 20}}, effort=effort,
        limit=240, files=FILES, groups=lambda _: ("main", "side"), first=f"({first(service)}) &&\n({first(second)})",
        configurations=OF_TWO)


BESIDES = tuple(beside(*pair) for pair in PAIRS)

TWO = (together(REDIS, MEMCACHED), together(NGINX, POSTGRES))


def best(view: View, bench: str, load: int, names: Iterable[str], metric: str, least_side: float = 0.0
         ) -> tuple[float, str] | None:
    """The best of these ways, of those that keep so much work of the side job; a lower value of latencies is better."""
    lower = SUITE.bench(bench).metric(metric).better == LOWER
    found = [(value, name) for name in names if (value := view.value(bench, name, load, metric)) is not None
             and (not least_side or (view.value(bench, name, load, "side") or 0.0) >= least_side)]
    return (min(found) if lower else max(found)) if found else None


def names_of(view: View, *kinds: str) -> list[str]:
    return [name for name in view.configurations(*kinds) if name != "alone"]


def tail_beside(view: View, _: Mapping[str, Any]) -> Verdict:
    """The best of ours against the best rival that lets the side job do as much, of each service.

    A rival that holds the side job back more than ours buys its latency with that work: it is not compared.
    """
    wins, told = 0, []
    for bench in (pair.name for pair in BESIDES):
        for load in view.loads(bench):
            if not (mine := best(view, bench, load, names_of(view, OURS), "p99")):
                continue
            side = (view.value(bench, mine[1], load, "side") or 0.0) * LIKE_OURS
            if not (theirs := best(view, bench, load, names_of(view, TODAY, PINNED, BASELINE), "p99", side)):
                continue
            gain = 100 * (1 - mine[0] / theirs[0])
            wins += gain >= 10
            told.append(f"{bench} at {load}: {gain:+.0f} %, {mine[1]} against {theirs[1]}")
    services = {line.partition("+")[0] for line in told}
    if len(services) < 3:
        return Verdict(None, "not measured")
    return Verdict(wins >= 3, f"{wins} of {len(told)}", "; ".join(told))


def throughput_alone(view: View, _: Mapping[str, Any]) -> Verdict:
    """At saturation, the best hint against the best rival, pinnings apart."""
    gains = []
    for service in SERVICES:
        ours_at = best(view, service.name, SATURATED, names_of(view, OURS), "rps")
        theirs = best(view, service.name, SATURATED, names_of(view, TODAY, BASELINE), "rps")
        if ours_at and theirs:
            gains.append((100 * (ours_at[0] / theirs[0] - 1), service.name, ours_at[1], theirs[1]))
    if not gains:
        return Verdict(None, "not measured")
    return Verdict(min(gains)[0] >= 0 and max(gains)[0] >= 5, f"{min(gains)[0]:+.1f} to {max(gains)[0]:+.1f} %",
                   "; ".join(f"{name} {gain:+.1f} %, {mine} against {rival}" for gain, name, mine, rival in gains))


def of_pinning(view: View, _: Mapping[str, Any]) -> Verdict:
    """The throughput of the best hint at saturation, of that of the best pinning."""
    parts = []
    for service in SERVICES:
        ours_at = best(view, service.name, SATURATED, names_of(view, OURS), "rps")
        pin = best(view, service.name, SATURATED, names_of(view, PINNED), "rps")
        if ours_at and pin:
            parts.append((100 * ours_at[0] / pin[0], service.name, pin[1]))
    if not parts:
        return Verdict(None, "not measured")
    worst, service_name, pin_name = min(parts)
    return Verdict(worst >= 95, f"{worst:.1f} % at least", f"{service_name}, against {pin_name}")


def never_worse(view: View, _: Mapping[str, Any]) -> Verdict:
    """What the guide says for a service alone, in throughput and in p99, at all loads."""
    parts = []
    for service in SERVICES:
        for load in view.loads(service.name):
            for metric in ("rps", "p99"):
                gain = view.gain(service.name, "tail_latency", load, metric)
                if gain is not None:
                    parts.append((gain, metric, service.name, load))
    if not parts:
        return Verdict(None, "not measured")
    worst, metric, name, load = min(parts)
    return Verdict(worst >= -3, f"{worst:+.1f} % at worst", f"{metric} of {name} at {load} %")


FIGURES = (
    Figure("p99 beside a side job, best of ours against the best rival with as much side work", "", "10 % on 3 of 4",
           tail_beside),
    Figure("throughput alone at saturation, best hint against the best rival", "", ">= 0 %, one >= 5 %",
           throughput_alone),
    Figure("the same, of the best pinning", "", "95 %", of_pinning),
    Figure("tail_latency, which the guide has for a service alone", "", ">= -3 %", never_worse),
)

SUITE = Suite(
    name="apps", title="Real services against what else there is", benches=(*map(alone, SERVICES), *BESIDES, *TWO),
    topologies=("zen@20",), configurations=CONFIGURATIONS, samples={FULL: 5, QUICK: 1, HOST: 5}, page="bench/apps.md",
    quick_topologies=("1x2x2x2@20",), quick_configurations=QUICK_BESIDE, figures=FIGURES, least_llcs=2,
    effort_of="1x2x2x2@20", rivals=True)
