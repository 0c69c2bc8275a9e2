# SPDX-License-Identifier: GPL-2.0-only
"""Suite apps: what it reads of clients and side jobs, its scripts, and its figures judge as they are worded."""

import json
import re
import subprocess
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import context
import fake
import parsers
import suite
from results import Results, TopologyView
from suite import BASELINE, FULL, HOST, LAYOUTS, QUICK, Case, Chunk, Configuration, Outcome, Reader, Selection, Verdict
from suite import layout_of, parse_cpu_list, plan

APPS = suite.load_suite("apps")
SERVICES = ("redis", "memcached", "nginx", "postgres")
NONCE = "0011223344556677"

# As redis-benchmark 7.0.15 prints it, with its progress in front
REDIS = """SET: rps=0.0 (overall: nan) avg_msec=nan (overall: nan)\rGET: rps=3678.3 (overall: 6122.6)\r====== GET ======
  2000 requests completed in 0.34 seconds
  8 parallel clients

Latency by percentile distribution:
0.000% <= 0.351 milliseconds (cumulative count 1)
50.000% <= 0.711 milliseconds (cumulative count 1031)
99.609% <= 8.287 milliseconds (cumulative count 1993)
99.902% <= 8.999 milliseconds (cumulative count 1999)
100.000% <= 9.039 milliseconds (cumulative count 2000)

Cumulative distribution of latencies:
0.100% <= 0.407 milliseconds (cumulative count 2)
100.000% <= 9.103 milliseconds (cumulative count 2000)

Summary:
  throughput summary: 5865.10 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.849     0.344     0.711     1.367     5.031     9.039
"""
ASK = ('{"benchmark":"ask","kind":"http","latency_us":{"p50":124.155,"p90":227.7,"p99":4310.5,"p999":6962.5,'
       '"max":7000.0,"mean":292.8,"samples":958,"rps":1916.0},"unfinished":0,"parameters":{}}\n')
WRK = """Running 1s test @ http://127.0.0.1:17003/1024
Requests/sec:   4006.91
{"benchmark":"wrk","latency_us":{"p50":3000,"p99":9000,"p999":12000,"mean":3100.5,"rps":4006.9},"errors":0}
"""
PGBENCH = """pgbench (15.20 (Debian 15.20-0+deb12u1))
number of transactions actually processed: 1520
number of failed transactions: 0 (0.000%)
latency average = 5.238 ms
tps = 763.621 (without initial connection time)
{"benchmark":"pgbench","latency_us":{"p50":5000,"p99":9100,"p999":12000}}
"""
AGAIN = ('{"benchmark":"again","runs":11,"work":12.5,"cpu_s":9.0,"run_cpu_s":0.72,"seconds":2.5,"jobs":8}\n')
STRESS = """stress-ng: info:  [85] setting to a 1 day, 0 secs run per stressor
stress-ng: info:  [85] dispatching hogs: 8 matrix
stress-ng: metrc: [85] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [85]                           (secs) (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [85] matrix              1000      2.00      8.00      0.01       500.00         125.00
"""


def of(client: str, side: str | None = None, seen: str = "migrations 7\n") -> str:
    return f"== client\n{client}" + (f"== side\n{side}" if side is not None else "") + f"== seen\n{seen}"


class Parsing(unittest.TestCase):
    def test_clients(self) -> None:
        for text, rate, p50, p99, p999 in ((REDIS, 5865.1, 711, 5031, 8999), (ASK, 1916, 124.155, 4310.5, 6962.5),
                                           (WRK, 4006.9, 3000, 9000, 12000), (PGBENCH, 763.621, 5000, 9100, 12000)):
            values = parsers.app(of(text))
            self.assertEqual((values["rps"], values["migrations"]), (rate, 7))
            for name, expected in (("p50", p50), ("p99", p99), ("p999", p999)):
                self.assertAlmostEqual(values[name], expected, places=6)
            self.assertNotIn("side", values)

    def test_side_jobs(self) -> None:
        self.assertEqual(parsers.app(of(ASK, AGAIN))["side"], 5)
        self.assertEqual(parsers.app(of(ASK, STRESS))["side"], 500)
        fio = ('{\n "fio version" : "fio-3.33",\n "jobs" : [ {"jobname": "side", "error": 0, "read": {"iops": 42.5, '
               '"clat_ns": {"percentile": {"99.000000": 80000}}}, "write": {"iops": 0, "clat_ns": {}}} ]\n}\n')
        self.assertEqual(parsers.app(of(ASK, fio))["side"], 42.5)

    def test_two_services(self) -> None:
        """Each with its own client's report."""
        values = parsers.app(f"== client\n{ASK}== second\n{PGBENCH}== seen\nmigrations 7\n")
        self.assertEqual((values["rps"], values["second_rps"], values["second_p99"]), (1916, 763.621, 9100))

    def test_errors_are_no_measurement(self) -> None:
        for text, problem in (
                ("Killed\n", "no parts"), (of("nothing\n"), "no report of a client"),
                (of(WRK.replace('"errors":0', '"errors":3')), "3 errors"),
                (of(PGBENCH.replace("failed transactions: 0", "failed transactions: 2")), "2 failed"),
                (of(ASK, "again: gcc has failed: status 1\n"), "no report of a side job: again: gcc has failed"),
                (of(ASK, AGAIN.replace("12.5", "0")), "the side job did nothing"),
                (of(ASK, seen=""), "line 'migrations'"),
                (of(re.sub(r"^(99.9|100.0)\d+%", "99.8%", REDIS, flags=re.MULTILINE)), "no distribution")):
            with self.subTest(problem), self.assertRaisesRegex(parsers.Unreadable, problem):
                parsers.app(text)


class Contents(unittest.TestCase):
    def test_each_service(self) -> None:
        """Alone at four loads, beside two side jobs; the quick form has one case of each kind."""
        self.assertEqual(tuple(b.name for b in APPS.benches[:4]), SERVICES)
        for service in SERVICES:
            self.assertEqual(APPS.bench(service).loads(FULL), [25, 50, 75, 100])
            pairs = [b for b in APPS.benches if b.name.startswith(f"{service}+")
                     and b.name.partition("+")[2] not in SERVICES]
            self.assertEqual(len(pairs), 2)
            self.assertEqual([b.loads(QUICK) for b in pairs], [[50], []])
            for bench in pairs:
                self.assertEqual(bench.loads(HOST), bench.loads(FULL))

    def test_configurations(self) -> None:
        """What a bench runs there is, its variables are used by the command, and its groups are the bench's."""
        run = set()
        for bench in APPS.benches:
            command = bench.shell(bench.loads(FULL)[0], FULL)
            for configuration in Selection().configurations(APPS, layout_of("zen@20"), bench):
                run.add(configuration.name)
                for variable in configuration.variables:
                    self.assertRegex(command, rf"\$\{{?{variable}\b", (bench.name, configuration.name))
        self.assertEqual(run, {configuration.name for configuration in APPS.configurations})

    def test_runs_are_weighed(self) -> None:
        """Before a side job that is counted in runs, one of them is timed; what others do is counted by their program."""
        for bench, in_runs in (("redis+cc", True), ("nginx+zstd", True), ("memcached+matrix", False)):
            side = bench.partition("+")[2]
            self.assertEqual(f"/tmp/bench.kept/each-{side}" in APPS.bench(bench).first, in_runs)
            self.assertEqual("again --json $each --" in APPS.bench(bench).shell(50, FULL), in_runs)

    def test_halves(self) -> None:
        """The service and the side job have no CPU in common, and all together."""
        for name in ("zen@20", "1x2x2x2@20"):
            layout = layout_of(name)
            for way in ("halves", "caches"):
                setting, = APPS.configuration(way).settings
                main, side = (parse_cpu_list(setting.value_for(group, 50, layout) or "") for group in ("main", "side"))
                self.assertEqual((main & side, main | side), (frozenset(), layout.cpus))

    def test_two_services(self) -> None:
        """Both are prepared, each server and each client is in its own group, and asked at its own rate."""
        bench = APPS.bench("nginx+postgres")
        for name in ("nginx", "postgres"):
            self.assertIn(f"/tmp/bench.kept/{name}.rate ] || exit 0", bench.first)
        command = bench.shell(50, FULL)
        for part in ('start join "$main"', 'start2 join "$side"', 'paced join "$main"', 'paced2 join "$side"'):
            self.assertEqual(command.count(part), 1, part)
        self.assertRegex(command, r"(?s)start2\(\) \{\n\texec \"\$@\" .*? postgres -D.*paced2\(\) \{ logged")

    def test_commands_are_shell(self) -> None:
        for bench in APPS.benches:
            for text in (bench.first, *(bench.shell(load, FULL) for load in bench.loads(FULL))):
                self.assertNotRegex(text, r"\b(START|READY|PREPARE|CALIBRATE|SATURATED?|PACED|SIDE|WHICH|NAME|WORK)\b",
                                    "a word that was to be replaced")
                result = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
                self.assertEqual((result.returncode, result.stderr), (0, ""), bench.name)

    def test_quick_is_affordable(self) -> None:
        minutes = suite.estimate(plan(APPS, Selection(QUICK))) / 60
        self.assertLessEqual(minutes, 20)


class Percentiles(unittest.TestCase):
    def test_of_a_log(self) -> None:
        """What pgbench's log gives: the least value that so many percent of the transactions do not exceed."""
        text = APPS.bench("postgres").first
        function = re.search(r"^logged\(\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL)
        assert function
        with tempfile.TemporaryDirectory() as directory:
            log = "".join(f"0 {n} {1001 - n} 0 1 2\\n" for n in range(1, 1001))
            script = f"out={directory}\n{function[0]}\npgbench() {{ printf '{log}' > pgbench_log.1; }}\nlogged pgbench"
            result = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=True)
        self.assertIn('"latency_us":{"p50":500,"p99":990,"p999":999}', result.stdout)


class Layers(unittest.TestCase):
    def test_proof(self) -> None:
        """As scx_layered 1.1.4 prints a layer: one that has had a task, and one that never has."""
        proof = APPS.configuration("scx_layered").proof
        line = "\u25b6 service \u2500 util/open/frac=  12.0/ 80.1/   14.9 prot/prot_preempt=  0.0/  0.0 tasks={:6}\n"
        for tasks, status in ((0, 1), (9, 0), (12, 0)):
            result = subprocess.run(["grep", "-q", "-e", proof], input=line.format(tasks), text=True, check=False)
            self.assertEqual(result.returncode, status, tasks)

    def test_of_the_suites(self) -> None:
        """Each file of layers has the one that the proof is about, and in the end one for all other tasks."""
        for path in sorted((context.ROOT / "bench/apps").glob("layers*.json")):
            layers = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual((layers[0]["name"], layers[-1]["matches"]), ("service", [[]]), path.name)

    def test_only_where_asked(self) -> None:
        """Suite hint has them as well, but its usual run is on the kernel without sched_ext."""
        hint = suite.load_suite("hint")
        for configs, count in (((), 0), (("scx_lavd",), 1)):
            found = [c.name for c in Selection(configs=configs).configurations(hint, LAYOUTS["zen"], hint.benches[0])
                     if c.scheduler]
            self.assertEqual(len(found), count)


class Schedulers(unittest.TestCase):
    """The part of the script that loads a sched_ext scheduler, with a file in place of the kernel's state."""

    SUITE = replace(fake.with_switch(Path("/nonexistent"), "/bin/sleep 0.3; echo 'Time: 1.{load}'"), configurations=(
        Configuration("none", BASELINE), Configuration("scx", suite.TODAY, scheduler="scx_test --fast", proof="layer")))

    def outcome(self, program: str | None, has_scx: bool = True) -> Outcome:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            cgroups = fake.Cgroups(directory)
            state = directory / "state"
            if has_scx:
                state.write_text("disabled\n", encoding="utf-8")
            cgroups.program("sleep", "exec /bin/sleep 0.02")
            if program is not None:
                cgroups.program("scx_test", program.replace("STATE", str(state)))
            case = Case(0, "hackbench", "zen", "scx", 1, 0)
            chunk = Chunk(LAYOUTS["zen"], (case,), 1)
            found: list[Outcome] = []
            reader = Reader(self.SUITE, chunk, NONCE, found.append)
            script = suite.script(self.SUITE, chunk, FULL, NONCE)
            # What a shell has started in the background ignores SIGINT, and a shell script cannot change that.
            script = script.replace("kill -INT", "kill -TERM")
            script = script.replace("/sys/kernel/sched_ext/state", str(state)).replace("/tmp/scheduler.log",
                                                                                       f"{directory}/scheduler.log")
            for line in cgroups.run(script.replace("-gt 1500", "-gt 20").replace("-gt 100", "-gt 20")).splitlines():
                reader.feed(line)
            reader.close("")
            self.left = state.read_text(encoding="utf-8").strip() if has_scx else ""
            pid = directory / "state.pid"
            if pid.exists():
                self.assertFalse(Path("/proc", pid.read_text(encoding="utf-8").strip()).exists(), "the scheduler runs on")
            return found[0]

    GOOD = """echo $$ > STATE.pid
trap "echo disabled > STATE; exit 0" TERM
echo "layer load"
echo enabled > STATE
while :; do /bin/sleep 0.02; done"""

    def test_runs(self) -> None:
        found = self.outcome(self.GOOD)
        self.assertEqual((found.problem, found.skipped, found.status), ("", "", 0))
        self.assertIn("Time: 1.1", found.output)

    def test_none_in_the_kernel(self) -> None:
        self.assertEqual(self.outcome(self.GOOD, has_scx=False).skipped, "this kernel has no sched_ext")

    def test_not_built(self) -> None:
        for has_scx in (True, False):  # the lab's kernel has none either, as long as there is nothing to run on it
            self.assertEqual(self.outcome(None, has_scx).skipped, "no scx_test: 'make rivals' builds it")

    def test_does_not_load(self) -> None:
        found = self.outcome("echo 'verifier says no'; exit 1")
        self.assertRegex(found.problem, "scx_test --fast is not in force: verifier says no")

    def test_thrown_out(self) -> None:
        """One that the kernel has thrown out meanwhile has not been measured."""
        found = self.outcome("echo layer; echo enabled > STATE; /bin/sleep 0.15; echo disabled > STATE")
        self.assertIn("the scheduler disabled", found.problem)

    def test_layers_that_match_nothing(self) -> None:
        found = self.outcome(self.GOOD.replace("layer load", "nothing"))
        self.assertIn("its log without 'layer'", found.problem)


def verdict(what: str, found: Results) -> Verdict:
    """The verdict of the figure whose description begins so."""
    figure, = [figure for figure in APPS.figures if figure.what.startswith(what)]
    return figure.judge(TopologyView(found, APPS, "zen"), LAYOUTS["zen"].describe())


def merged(*parts: Results) -> Results:
    first, *others = parts
    for other in others:
        first.rows += other.rows
    return first


class Figures(unittest.TestCase):
    def beside(self, rival_side: float) -> Results:
        parts = []
        for bench, p99 in (("redis+cc", 80), ("memcached+matrix", 80), ("nginx+zstd", 80), ("postgres+cc", 99)):
            for metric, ways in (("p99", {"none": 400, "idle": 100, "weight": 50, "headroom20": p99, "alone": 10}),
                                 ("side", {"none": 12, "idle": 10, "weight": rival_side, "headroom20": 10})):
                parts.append(fake.results({name: {50: value} for name, value in ways.items()}, bench, of=APPS,
                                          metric=metric))
        return merged(*parts)

    def test_tail(self) -> None:
        """A rival that starves the side job is not compared, and one that does not is."""
        found = verdict("p99 beside", self.beside(5))
        self.assertEqual((found.reached, found.number), (True, "3 of 4"))
        self.assertIn("redis+cc at 50: +20 %, headroom20 against idle", found.detail)
        self.assertEqual(verdict("p99 beside", self.beside(9.6)).reached, False)

    def test_throughput(self) -> None:
        def found(hint: float) -> Results:
            return merged(*(fake.results({name: {100: value} for name, value in (
                ("none", 100), ("tail_latency", hint if service == "redis" else 107), ("scx_lavd", 100), ("llc", 110))},
                service, of=APPS, metric="rps") for service in SERVICES))
        self.assertEqual(verdict("throughput", found(101)).reached, True)
        self.assertEqual(verdict("throughput", found(99)).reached, False)
        self.assertEqual(verdict("the same, of the best pinning", found(106)).reached, True)
        self.assertEqual(verdict("the same, of the best pinning", found(103)).reached, False)
        self.assertEqual(verdict("tail_latency", found(98)).reached, True)
        self.assertEqual(verdict("tail_latency", found(96)).reached, False)

    def test_nothing_measured(self) -> None:
        nothing = fake.results({"none": {50: 1}}, "redis", of=APPS)
        for figure in APPS.figures:
            self.assertIsNone(figure.judge(TopologyView(nothing, APPS, "zen"), {}).reached)


if __name__ == "__main__":
    unittest.main()
