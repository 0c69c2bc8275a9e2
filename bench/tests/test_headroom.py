# SPDX-License-Identifier: GPL-2.0-only
"""Suite headroom: its parsers, whether it covers what it should, and how its figures judge."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import context
import fake
import parsers
import suite
from parsers import Unreadable
from results import Results, TopologyView
from suite import BASELINE, FULL, HOST, OURS, QUICK, TODAY, Selection, Verdict

HEADROOM = suite.load_suite("headroom")
MACHINE = suite.layout_of("zen@20")
STEPS = 20  # of 50 ms


def observed(idle: list[float], side: list[float], main: float = 40.0, **more: Any) -> str:
    count = len(idle)
    groups = {"main": {"cpu_s": 1.0, "usage": [main] * count}, "side": {"cpu_s": 2.0, "usage": side, **more}}
    return json.dumps({"benchmark": "observe", "cpus": 8, "seconds": count * 0.05, "begin_ns": 1,
                       "at_s": [round((step + 1) * 0.05, 3) for step in range(count)], "idle": idle,
                       "groups": groups}, separators=(",", ":"))


LATENCY = {"mean": 2801.5, "p50": 2738.4, "p90": 3949.1, "p99": 5896.3, "p999": 7690.0, "max": 7807.2, "requests": 1129,
           "rps": 1254.4}


def served(*stages: tuple[float, float, float]) -> str:
    stages = stages or ((40.0, 0.0, 1.0),)
    return json.dumps({"benchmark": "serve", "begin_ns": 1, "latency_us": LATENCY, "unfinished": 0, "stages": [
        {"percent": percent, "begin_s": begin, "end_s": end, "latency_us": LATENCY} for percent, begin, end in stages],
        "interval_s": 0.05, "p99_us": [5000.0, None], "parameters": {}}, separators=(",", ":"))


def output(*parts: str, demand: float = 20, warm: float = 0.3, jobs: int = 1) -> str:
    return "\n".join([*parts, f"demand {demand:g} warm {warm:g} side jobs {jobs}", ""])


class Parsers(unittest.TestCase):
    def test_requests(self) -> None:
        """The warm-up, the first 6 steps, does not count."""
        idle, side = [0.0] * 6 + [21.0] * 14, [90.0] * 6 + [38.0, 36.0] * 7
        values = parsers.headroom_requests(output(served(), observed(idle, side)))
        self.assertEqual({name: round(value, 3) for name, value in values.items()}, {
            "mean": 2801.5, "p50": 2738.4, "p99": 5896.3, "p999": 7690.0, "rps": 1254.4, "idle": 21.0,
            "idle_error": 1.0, "side": 37.0, "side_least": 37.0, "side_part": 97.368})

    def test_alone(self) -> None:
        """There is no side job: nothing is said about it."""
        values = parsers.headroom_requests(output(served(), observed([60.0] * STEPS, [0.0] * STEPS), jobs=0))
        self.assertEqual(values["idle"], 60.0)
        self.assertNotIn("side", values)
        self.assertNotIn("idle_error", values)

    def test_a_side_job_that_did_not_start(self) -> None:
        """The service would look as good as alone."""
        for side, jobs in ((0.0, 1), (30.0, 0), (30.0, 4)):
            with self.assertRaisesRegex(Unreadable, "of . side jobs did something"):
                parsers.headroom_requests(output(served(), observed([60.0] * STEPS, [side] * STEPS), jobs=jobs))

    def test_a_side_job_that_died(self) -> None:
        """After half of the time, while the warm-up and some of what is measured had it."""
        with self.assertRaisesRegex(Unreadable, "0 of 1 side jobs did something in the last 0.5 s"):
            parsers.headroom_requests(output(served(), observed([60.0] * STEPS, [30.0] * 10 + [0.0] * 10)))

    def test_a_side_job_between_two_bursts(self) -> None:
        """One that does nothing for 400 ms has not died."""
        values = parsers.headroom_requests(output(served(), observed([60.0] * STEPS, [30.0] * 12 + [0.0] * 8)))
        self.assertEqual(values["side_least"], 0.0)

    def test_a_starved_period_shows(self) -> None:
        side = [30.0] * STEPS
        side[10:12] = [0.0, 0.0]
        values = parsers.headroom_requests(output(served(), observed([30.0] * STEPS, side)))
        self.assertEqual(values["side_least"], 0.0)

    def test_shares(self) -> None:
        seen = json.loads(observed([20.0] * STEPS, [10.0] * STEPS))
        del seen["groups"]["side"]
        for weight, used in ((1, 1.0), (2, 2.2), (4, 4.0), (8, 7.8)):
            seen["groups"][f"side{weight}"] = {"cpu_s": 9.0, "usage": [9.0] * 6 + [used] * (STEPS - 6)}
        values = parsers.headroom_share(output(served(), json.dumps(seen, separators=(",", ":")), jobs=4))
        self.assertAlmostEqual(values["share_error"], 10.0)

    def step(self, idle: list[float], demand: float = 20, side: list[float] | None = None) -> dict[str, float]:
        stages = ((20.0, 0.0, 1.0), (60.0, 1.0, 2.0), (20.0, 2.0, 3.0))
        return parsers.headroom_step(output(served(*stages), observed(idle, side or [30.0] * 60), demand=demand))

    def test_reaction(self) -> None:
        """Idle is short of the demand for 150 ms of the second stage, and beyond it for 200 ms of the third."""
        values = self.step([20.0] * 20 + [5.0] * 3 + [19.0] * 17 + [50.0] * 4 + [20.0] * 16)
        self.assertEqual(values["reaction"], 250.0)
        self.assertEqual(values["return"], 300.0)
        self.assertEqual(values["high_p99"], 5896.3)

    def test_at_once(self) -> None:
        """What is idle in the first two steps tells of no wait, and what was before the step of nothing."""
        values = self.step([5.0] * 20 + [20.0] * 40)
        self.assertAlmostEqual(values["reaction"], 100.0)

    def test_one_good_step_is_no_reaction(self) -> None:
        idle = [20.0] * 20 + [5.0, 5.0, 30.0] * 4 + [20.0] * 28
        self.assertAlmostEqual(self.step(idle)["reaction"], 650.0)

    def test_side_work_that_comes_and_goes(self) -> None:
        """With each period of 100 ms: that is the demand, in the mean."""
        self.assertAlmostEqual(self.step([40.0, 0.0] * 30)["reaction"], 100.0)

    def test_never_reached(self) -> None:
        """Then it took as long as the stage."""
        self.assertAlmostEqual(self.step([0.0] * 60)["reaction"], 1000.0)

    def test_gives_way(self) -> None:
        """The service has piled up work: for 250 ms no side job is there to give anything back."""
        idle = [20.0] * 20 + [5.0] * 7 + [20.0] * 33
        side = [40.0] * 20 + [20.0, 10.0] + [2.0] * 18 + [40.0] * 20
        values = self.step(idle, side=side)
        self.assertAlmostEqual(values["reaction"], 450.0)
        self.assertAlmostEqual(values["gives_way"], 200.0)
        self.assertAlmostEqual(self.step(idle, side=[40.0] * 60)["gives_way"], 450.0)
        self.assertAlmostEqual(self.step([20.0] * 60, side=[40.0] * 60)["gives_way"], 100.0)

    def test_series(self) -> None:
        found = parsers.headroom_series(output(served(), observed([20.0] * 2, [30.0] * 2, budget_us=[350000, None])))
        self.assertEqual(found["budget"], [43.75, None])
        self.assertEqual((found["idle"], found["side"], found["demand"]), ([20.0] * 2, [30.0] * 2, 20.0))

    def test_cyclictest(self) -> None:
        text = "# Histogram\n000003 000090\t000090\n000010 000009\t000010\n000200 000001\t000000\n" \
               "# Histogram Overflows: 00000 00000\n"
        values = parsers.headroom_timers(output(text, observed([20.0] * STEPS, [30.0] * STEPS)))
        self.assertEqual((values["mean"], values["p50"], values["p99"], values["p999"]), (4.65, 3.0, 10.0, 200.0))

    def test_cyclictest_beyond_its_histogram(self) -> None:
        text = "000003 000090\n# Histogram Overflows: 00010\n"
        with self.assertRaisesRegex(Unreadable, "10 latencies are beyond"):
            parsers.headroom_timers(output(text, observed([20.0] * STEPS, [30.0] * STEPS)))

    def test_fio(self) -> None:
        """The job for the warm-up, which comes first, does not count."""
        warmup, job = ({"jobname": name, "read": {"iops": 398.5, "clat_ns": {"mean": mean, "percentile": {
            "50.000000": 1620000, "99.000000": 2000000, "99.900000": 9000000}}}}
            for name, mean in (("warmup", 9e9), ("main", 1700000.5)))
        text = "note: something\n" + json.dumps({"fio version": "fio-3.33", "jobs": [warmup, job]}, indent=2)
        values = parsers.headroom_disk(output(text, observed([20.0] * STEPS, [30.0] * STEPS)))
        self.assertEqual([values[name] for name in ("mean", "p50", "p99", "p999", "iops")],
                         [1700.0005, 1620.0, 2000.0, 9000.0, 398.5])

    def test_what_is_not_there(self) -> None:
        seen = observed([20.0] * STEPS, [30.0] * STEPS)
        for parse, text in ((parsers.headroom_requests, output(seen)), (parsers.headroom_requests, output(served())),
                            (parsers.headroom_requests, served() + "\n" + seen), (parsers.headroom_step, output(seen)),
                            (parsers.headroom_step, output(served(), seen)), (parsers.headroom_timers, output(seen)),
                            (parsers.headroom_disk, output(seen))):
            with self.subTest(parse=parse), self.assertRaises(Unreadable):
                parse(text)


class Contents(unittest.TestCase):
    def test_configurations(self) -> None:
        """Those that an operator has today, and ours; a file that the kernel may lack is said to be needed."""
        kinds = {configuration.name: configuration.kind for configuration in HEADROOM.configurations}
        self.assertEqual(kinds["alone"], BASELINE)
        for name in ("weight", "idle", "max_right", "max_wrong", "userloop", "cpuset"):
            self.assertEqual(kinds[name], TODAY)
        for percent in (10, 20, 30):
            self.assertEqual(kinds[f"headroom{percent}"], OURS)
        for configuration in HEADROOM.configurations:
            uses = any(setting.file == "cpu.headroom" for setting in configuration.settings)
            hinted = any(setting.file == "cpu.hint" for setting in configuration.settings)
            self.assertEqual(uses or hinted, configuration.kind == OURS)
            self.assertEqual(uses, "main/cpu.headroom" in configuration.needs)

    def test_limits(self) -> None:
        """Right leaves 20 % idle beside 40 %; wrong allows 40 % more."""
        values = {name: HEADROOM.configuration(name).settings[0].value_for("side", 40, MACHINE)
                  for name in ("max_right", "max_wrong")}
        self.assertEqual(values, {"max_right": "1280000 100000", "max_wrong": "2560000 100000"})

    def test_own_cpus(self) -> None:
        value = HEADROOM.configuration("cpuset").settings[0].value_for
        self.assertEqual((value("main", 40, MACHINE), value("side", 40, MACHINE)), ("0-29", "30-31"))
        value = HEADROOM.configuration("cpuset_quarter").settings[0].value_for
        self.assertEqual((value("main", 40, MACHINE), value("side", 40, MACHINE)), ("0-23", "24-31"))

    def test_weights(self) -> None:
        script = suite.script(HEADROOM, suite.plan(HEADROOM, Selection(benches=("share",), configs=("weight",)))[0],
                              FULL, "NONCE")
        for weight in (1, 2, 4, 8):
            self.assertIn(f'put "$group/side{weight}/cpu.weight" {weight}', script)

    def test_larger_and_faster_machines_take_longer(self) -> None:
        """Else what is started there is taken for hung: four times the CPUs, and a fourth of the slow motion."""
        def seconds(topology: str) -> float:
            chunk, = suite.plan(HEADROOM, Selection(QUICK, quick=True, topologies=(topology,), benches=("requests",)))
            return chunk.seconds
        self.assertAlmostEqual(seconds("zen@5"), 16 * seconds("1x2x2x2@20"))

    def test_everything_has_a_quick_form_that_is_quick(self) -> None:
        chunks = suite.plan(HEADROOM, Selection(QUICK, quick=True))
        self.assertLess(suite.estimate(chunks), 9 * 60)
        self.assertGreaterEqual({case.bench for chunk in chunks for case in chunk.cases},
                                {"requests", "requests-build", "step", "share", "cyclictest", "fio"})

    def test_commands(self) -> None:
        for bench in HEADROOM.benches:
            for form in (FULL, QUICK, HOST):
                for load in bench.loads(form):
                    command = bench.shell(load, form)
                    self.assertNotRegex(command, r"\{(load|work)\}|e\+|SIDE\b|DEMAND\b")
                    for program in bench.programs:
                        if program not in ("userloop",):
                            self.assertRegex(command, rf"\b{program}\b")

    def test_only_what_comes_after_the_warm_up_is_measured(self) -> None:
        """Else most latencies beside the loop in user space, which looks after 5 s, are from before its first limit."""
        program = "#!/bin/sh\necho ${0##*/} $@ >> $LOG\n"
        for name, expected in (("cyclictest", ["--loops=1200", "--loops=400"]),
                               ("fio", ["--name=warmup --runtime=6000ms --name=main --stonewall --runtime=2000ms"])):
            command = HEADROOM.bench(name).shell(4, FULL).partition("beside sidejob")[0]
            with tempfile.TemporaryDirectory() as directory:
                log = Path(directory) / "log"
                for fake_program in (name, "observe", "sleep"):
                    (Path(directory) / fake_program).write_text(program, encoding="utf-8")
                    (Path(directory) / fake_program).chmod(0o755)
                (Path(directory) / "join").write_text("#!/bin/sh\nshift\nexec \"$@\"\n", encoding="utf-8")
                (Path(directory) / "join").chmod(0o755)
                subprocess.run(["sh", "-c", f"warm=6; group={directory}; {command}wait $main; rm -r $out"], check=True,
                               env={"PATH": f"{directory}:{os.environ['PATH']}", "LOG": str(log)})
                ran = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith(name)]
            self.assertEqual(len(ran), len(expected), ran)
            for line, part in zip(ran, expected):
                self.assertIn(part, line)

    def test_a_limit_is_of_a_load_in_percent(self) -> None:
        """Four threads are no 4 % of the machine."""
        for bench in HEADROOM.benches:
            cases = suite.plan(HEADROOM, Selection(benches=(bench.name,)))[0].cases
            self.assertEqual(any(case.config.startswith("max_") for case in cases),
                             bench.load == "load" and bench.name != "share", bench.name)

    def test_capacity_is_no_matter_of_the_first_case(self) -> None:
        """In a group it would be that of its cpuset, and each boot, which begins with another case, had another."""
        for name in ("requests", "step"):
            load = HEADROOM.bench(name).loads(FULL)[0]
            self.assertRegex(HEADROOM.bench(name).shell(load, FULL), r"\|\| serve --calibrate >")

    def test_page(self) -> None:
        text = (context.ROOT / HEADROOM.page).read_text(encoding="utf-8")
        for configuration in HEADROOM.configurations:
            self.assertIn(f"`{configuration.name}`", text)
        for bench in HEADROOM.benches:
            self.assertIn(f"`{bench.name}`", text)

    def test_instructions_per_cycle(self) -> None:
        """A CPU that is busy for 10 ns at 3.2 GHz has 32 cycles."""
        derive = HEADROOM.bench("requests").derive
        assert derive
        self.assertEqual(derive({}, {"busy_ns": 10, "kernel": 8, "user": 8}, {"clock_ghz": 3.2}), {"ipc": 0.5})
        self.assertEqual(derive({}, {"busy_ns": 10, "kernel": 8, "user": 8}, {}), {})


class Figures(unittest.TestCase):
    def verdict(self, what: str, found: Results) -> Verdict:
        figure, = [figure for figure in HEADROOM.figures if figure.what == what]
        return figure.judge(TopologyView(found, HEADROOM, "zen"), {})

    def found(self, bench: str, metric: str, medians: dict[str, float], load: int = 40) -> Results:
        return fake.results({name: {load: value} for name, value in medians.items()}, bench=bench, of=HEADROOM,
                            metric=metric)

    def test_latency(self) -> None:
        medians = {"alone": 100.0, "headroom30": 104.9, "headroom20": 111.0}
        self.assertTrue(self.verdict("main p99 vs alone, demand 30 %", self.found("requests", "p99", medians)).reached)
        result = self.verdict("main p99 vs alone, demand 20 %", self.found("requests-build", "p99", medians))
        self.assertEqual((result.reached, result.number), (False, "1.11 at worst"))

    def test_idle(self) -> None:
        result = self.verdict("idle vs demand, steady", self.found("requests", "idle_error", {
            "headroom10": 0.2, "headroom20": 1.1, "weight": 20.0}))
        self.assertEqual((result.reached, result.number), (False, "1.1 points at worst"))
        self.assertEqual(result.detail, "headroom20, requests at 40; 2 cases")

    def test_idle_that_is_there(self) -> None:
        """A load that leaves 24 % says something about a demand of 10, and nothing about one of 20."""
        found = self.found("requests", "idle_error", {"headroom10": 0.2, "headroom20": 1.1})
        found.rows += self.found("requests", "idle", {"alone": 24.0}).rows
        result = self.verdict("idle vs demand, steady", found)
        self.assertEqual((result.reached, result.number, result.detail),
                         (True, "0.2 points at worst", "headroom10, requests at 40; 1 cases"))

    def test_reaction(self) -> None:
        what = "from a load step to the demand"
        for value, reached in ((300.0, True), (350.0, False)):
            found = self.found("step", "reaction", {"headroom20": value, "userloop": 9000.0}, 60)
            self.assertEqual(self.verdict(what, found).reached, reached)

    def test_reaction_to_what_is_there(self) -> None:
        """Where the load alone leaves 27 %, 30 % cannot be kept."""
        found = self.found("step", "reaction", {"headroom20": 250.0, "headroom30": 1000.0}, 60)
        self.assertFalse(self.verdict("from a load step to the demand", found).reached)
        found.rows += self.found("step", "high_idle", {"alone": 27.0}, 60).rows
        result = self.verdict("from a load step to the demand", found)
        self.assertEqual((result.reached, result.number), (True, "250.0 ms at worst"))
        self.assertEqual(result.detail, "headroom20, step at 60; 1 cases")

    def test_share_and_part(self) -> None:
        self.assertFalse(self.verdict("four groups, of their weights 1:2:4:8", self.found(
            "share", "share_error", {"headroom30": 5.1})).reached)
        self.assertTrue(self.verdict("side work, of what the demand leaves", self.found(
            "requests", "side_part", {"headroom30": 95.0, "max_wrong": 40.0})).reached)

    def test_never_zero(self) -> None:
        what = "least side work in a period"
        self.assertTrue(self.verdict(what, self.found("requests", "side_least", {"headroom30": 0.1})).reached)
        self.assertFalse(self.verdict(what, self.found("requests", "side_least", {"headroom30": 0.0})).reached)

    def test_nothing_measured(self) -> None:
        found = self.found("requests", "p99", {"alone": 100.0})
        for figure in HEADROOM.figures:
            result = self.verdict(figure.what, found)
            self.assertEqual((result.reached, result.number), (None, "not measured"), figure.what)


if __name__ == "__main__":
    unittest.main()
