# SPDX-License-Identifier: GPL-2.0-only
"""make bench as a whole, on a made-up machine: files, failures, interruptions, and the status it ends with."""

import contextlib
import dataclasses
import io
import json
import os
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401
import fake
import host
import lab
import provenance
import results
import rivals
import suite
from bench import run
from common import Fail
from fake import SMALL, FakeRunner

RATES = {"none": 100.0, "fork_spread": 112.0, "both": 90.0, "seed1": 50.0, "background": 95.0, "llc": 80.0,
         "node": 105.0}


def answer(case: suite.Case) -> str:
    """Better by configuration, and a little worse in each sample."""
    rate = RATES[case.config] - case.sample
    if case.bench == "hackbench":
        return f"Running\nTime: {1000 / rate:.3f}\n"
    return f"Running for 2 seconds\n ReadX {2 * rate:.0f} 0.1 0.2\n\nThroughput 0 MB/sec\n"


class Whole(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        self.out = Path(directory.name)
        for module in (run, results):
            patch = mock.patch.object(module, "load_suite", lambda name: SMALL)
            patch.start()
            self.addCleanup(patch.stop)
        # test_picture draws; here it is enough to know that it would be done.
        draw = mock.patch("picture.draw", lambda drawn: drawn.title.encode())
        draw.start()
        self.addCleanup(draw.stop)

    def run_bench(self, runner: FakeRunner, *options: str) -> tuple[int, str]:
        """Returns the status and what was printed."""
        arguments = run.parse_arguments(["--suite", "small", "--out", str(self.out), *options])
        runner.chunks = suite.plan(SMALL, run.select(arguments))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = run.main(["--suite", "small", "--out", str(self.out), *options], runner)
        return status, printed.getvalue()

    def results(self) -> results.Results:
        return results.read_results(self.out / "small.json")

    def test_all_is_well(self) -> None:
        runner = FakeRunner(answer)
        status, printed = self.run_bench(runner)
        self.assertEqual(status, 0, printed)
        found = self.results()
        self.assertTrue(found.complete)
        self.assertEqual((found.failures, found.missing()), ([], []))
        view = results.TopologyView(found, SMALL, "zen")
        row = view.row("tbench", "fork_spread", 4, "operations")
        assert row
        self.assertEqual((row.samples, row.median), ((112.0, 111.0, 110.0), 111.0))
        self.assertAlmostEqual(view.gain("tbench", "fork_spread", 4, "operations") or 0, 1200 / 99)
        oracle = view.row("tbench", "oracle", 4, "operations")
        assert oracle
        self.assertEqual(oracle.source, "node")
        environment = found.environment
        self.assertEqual((environment["kernel"], environment["machines"]["xeon"], environment["samples"]),
                         ("6.12.117-steer", {"qemu": "10.0.2"}, 3))
        self.assertEqual(environment["commands"]["tbench/4"], "exec tbench 4 0.5")
        self.assertEqual((environment["mechanism"], environment["host_cpus"]),
                         (provenance.mechanism(), os.cpu_count()))
        self.assertGreaterEqual(environment["duration_s"], 0)
        self.assertIn(f"mechanism {provenance.mechanism()[:12]}", printed)
        self.assertIn("wakeup.patch", environment["hooks"])
        self.assertRegex(environment["tested_with"], r"^6\.12\.")
        self.assertEqual(found.counters[0]["counters"], {"hint_wake_followed": 15})
        self.assertIn("tbench on xeon: operations", printed)
        for name in ("small.txt", "small.rst", "small-hackbench-zen.svg", "small-tbench-xeon.svg"):
            self.assertTrue((self.out / name).is_file(), name)

    def test_programs_are_those_of_the_chunk(self) -> None:
        runner = FakeRunner(answer)
        self.run_bench(runner, "--benches", "tbench", "--samples", "1", "--topology", "zen")
        self.assertEqual(runner.programs, [["tbench"]])

    def test_costs_are_recorded(self) -> None:
        self.run_bench(FakeRunner(answer), "--quick", "--cost", "transfer_ns=50", "--cost", "smt_share=0.7")
        header = self.results().environment
        self.assertEqual(header["costs"], ["transfer_ns=50", "smt_share=0.7"])
        self.assertEqual(header["command"], "make bench SUITE=small QUICK=1 'COST=transfer_ns=50 smt_share=0.7'")

    def test_costs_reach_the_lab(self) -> None:
        with mock.patch.object(lab, "run_script") as made:
            run.lab_runner(["zen", "xeon"], ["transfer_ns=50"])("xeon", "true", [], extra={}, timeout=1, on_line=print,
                                                                sample=0)
            run.lab_runner(["zen"])("zen", "true", [], extra={}, timeout=1, on_line=print, sample=0)
        changed, usual = (call.args[0] for call in made.call_args_list)
        self.assertEqual((changed.name, changed.costs["transfer_ns"], usual),
                         ("xeon", 50.0, lab.machine_of("zen")))
        self.assertNotEqual(lab.machine_of("xeon").costs["transfer_ns"], 50.0)

    def test_rules_of_ancestors_are_in_a_kernel_of_their_own(self) -> None:
        hint = suite.load_suite("hint")
        for configs, variant in (("wake_affine", "lab"), ("wake_affine,seed1", "lab-ancestors")):
            chunks = suite.plan(hint, run.select(run.parse_arguments(["--configs", configs])))
            with mock.patch.object(lab, "run_script") as made:
                run.lab_runner(["zen"], variant=run.lab_variant(hint, chunks))(
                    "zen", "true", [], extra={}, timeout=1, on_line=print, sample=0)
            self.assertEqual(made.call_args.kwargs.get("variant", "lab"), variant)

    def test_kernel_with_sched_ext(self) -> None:
        """Only for what runs under a scheduler that is built, whose program and layers are then in the machine."""
        hint = suite.load_suite("hint")
        for built, configs, variant in (({}, "scx_lavd", "lab"), ({"scx_lavd": Path("/scx_lavd")}, "wake_affine", "lab"),
                                        ({"scx_lavd": Path("/scx_lavd")}, "scx_lavd,scx_rusty", "lab-scx")):
            with mock.patch.object(rivals, "available", lambda found=built: found):
                selection = run.select(run.parse_arguments(["--configs", configs, "--benches", "schbench"]))
                chunks = suite.plan(hint, selection)
                self.assertEqual(run.lab_variant(hint, chunks), variant)
                with mock.patch.object(lab, "run_script") as made:
                    run.lab_runner(["zen"], variant=variant)("zen", "true", [], extra={}, timeout=1, on_line=print,
                                                             sample=0)
                self.assertEqual(made.call_args.args[0].socket_per_llc, variant == "lab-scx")
                found = run.Run(hint, selection, FakeRunner(answer), Path("/nonexistent/hint.json"),
                                command="").files_for(chunks[0], [])
                self.assertEqual(set(found), {"bin/scx_lavd", "lab/layers.json", "lab/layers-one.json"}
                                 if variant == "lab-scx" else set())

    def test_kernels_that_are_two(self) -> None:
        """What no one kernel has is not measured as something else."""
        hint = suite.load_suite("hint")
        chunks = suite.plan(hint, run.select(run.parse_arguments(["--configs", "seed1,scx_lavd"])))
        with mock.patch.object(rivals, "available", lambda: {"scx_lavd": Path("/scx_lavd")}), \
                self.assertRaisesRegex(Fail, "in different kernels; measure them in two runs"):
            run.lab_variant(hint, chunks)

    def test_each_sample_has_a_seed_of_its_own(self) -> None:
        """Else samples that run their cases in the same order would be one boot, counted several times."""
        runner = FakeRunner(answer)
        self.run_bench(runner, "--samples", "3", "--topology", "zen", "--benches", "tbench")
        self.assertEqual(runner.samples, [0, 1, 2])
        with mock.patch.object(lab, "run_script") as made:
            for sample in runner.samples:
                run.lab_runner()("zen", "true", [], extra={}, timeout=1, on_line=print, sample=sample)
        self.assertEqual([call.args[0].seed for call in made.call_args_list], [1, 2, 3])

    def test_seeds_are_no_other_machine(self) -> None:
        """No remark says that the machine changed in between."""
        one, two = (run.scrub({"machine": {"name": "zen", "seed": seed}, "command": ["qemu", "-seed", str(seed), "-m"]})
                    for seed in (1, 2))
        self.assertEqual(one, two)
        self.assertEqual(one["command"], ["qemu", "-seed", "SAMPLE", "-m"])

    def test_costs_that_are_none(self) -> None:
        """They are refused before the results of an earlier run are touched."""
        for costs, message in (("colour=1", "there is no cost 'colour'"), ("ipi_ns=x", "'x' is not a number"),
                               ("ipi_ns=-1", "costs must be above 0")):
            self.assertRaisesRegex(Fail, message, run.main,
                                   ["--suite", "small", "--out", str(self.out), "--cost", costs])
        self.assertRaisesRegex(Fail, "COST=ipi_ns=9 is about the lab", run.main,
                               ["--suite", "small", "--where", "host", "--cost", "ipi_ns=9"])
        self.assertEqual(list(self.out.iterdir()), [])

    def test_mechanism_of_another_kernel_is_not_known(self) -> None:
        with mock.patch.dict(os.environ, {"KERNEL": "/boot/vmlinuz"}):
            self.run_bench(FakeRunner(answer), "--quick")
        self.assertEqual(self.results().environment["mechanism"], "")

    def test_mechanism_that_changes_meanwhile(self) -> None:
        with mock.patch.object(provenance, "mechanism", side_effect=map(str, range(99))):
            self.run_bench(FakeRunner(answer), "--quick")
        self.assertEqual(self.results().environment["remarks"], ["kernel/, include/, hooks/ changed during the run"])

    def test_filters_and_command(self) -> None:
        status, _ = self.run_bench(FakeRunner(answer), "--quick", "--configs", "both,oracle", "--benches", "hackbench")
        self.assertEqual(status, 0)
        found = self.results()
        self.assertEqual({row.config for row in found.rows}, {"none", "both", "llc", "node", "oracle"})
        self.assertEqual(found.environment["command"],
                         "make bench SUITE=small QUICK=1 BENCHES=hackbench CONFIGS=both,oracle")
        self.assertTrue(found.environment["quick"])

    def test_one_case_fails(self) -> None:
        status, printed = self.run_bench(FakeRunner(lambda case: None if case.config == "both" else answer(case)),
                                         "--samples", "1", "--topology", "zen")
        self.assertEqual(status, 1)
        found = self.results()
        self.assertEqual({failure.config for failure in found.failures}, {"both"})
        self.assertEqual(found.failures[0].reason, "status 1: Killed")
        self.assertIn("hackbench/1 both on zen: 0 of 1 samples", found.missing())
        self.assertIn("MISSING hackbench/1 both on zen: 0 of 1 samples", printed)
        self.assertIn("NOT WELL: 3 runs failed, 3 rows are missing", printed)

    def test_output_that_says_nothing(self) -> None:
        """Neither a status nor a number is made up for it."""
        status, _ = self.run_bench(FakeRunner(lambda case: "" if case.bench == "tbench" else answer(case)),
                                   "--samples", "1", "--topology", "zen")
        self.assertEqual(status, 1)
        self.assertIn("output not understood: no line 'Running for' in the output", self.results().failures[0].reason)
        self.assertEqual({row.bench for row in self.results().rows}, {"hackbench"})

    def test_metric_that_is_not_there(self) -> None:
        bench = SMALL.bench("hackbench")
        with mock.patch.object(type(bench), "metric", lambda self, name: self.metrics[0]):
            broken = dataclasses.replace(bench, parse=lambda output: {"other": 1.0})
            with mock.patch.object(suite.Suite, "bench", lambda self, name: broken):
                status, _ = self.run_bench(FakeRunner(answer), "--benches", "hackbench", "--quick")
        self.assertEqual(status, 1)
        self.assertEqual(self.results().failures[0].reason, "no value for time")

    def test_script_that_ends_early(self) -> None:
        """The other chunks are run all the same."""
        runner = FakeRunner(answer, stop_after=3)
        with mock.patch.object(suite, "CHUNK_SECONDS", 3.0):
            status, printed = self.run_bench(runner, "--samples", "1", "--topology", "zen")
        self.assertEqual(status, 1)
        self.assertEqual(len(runner.scripts), 3)
        found = self.results()
        self.assertEqual(len([row for row in found.rows if row.config != "oracle"]), 9)
        self.assertTrue(all("the script ended early, status 1" in failure.reason for failure in found.failures))
        self.assertEqual(printed.count("  FAILED "), 3)

    def test_machine_that_stops(self) -> None:
        runner = FakeRunner(answer, stop_after=2, stop=Fail("lab: kernel panic\nand much more"))
        status, printed = self.run_bench(runner, "--samples", "1", "--topology", "zen")
        self.assertEqual(status, 1)
        self.assertEqual(self.results().failures[0].reason, "lab: kernel panic")
        self.assertIn("and much more", printed)
        self.assertIn("remark: zen: lab: kernel panic", printed)
        self.assertTrue(self.results().complete)

    def test_machine_that_complains_at_its_end(self) -> None:
        """Every case has a value, and the run fails all the same."""
        class Complaining(FakeRunner):
            def __call__(self, *arguments: Any, **settings: Any) -> fake.Result:
                super().__call__(*arguments, **settings)
                raise Fail("lab: WARNING: at kernel/sched")
        status, printed = self.run_bench(Complaining(answer), "--quick")
        self.assertEqual(status, 1)
        self.assertEqual((self.results().failures, self.results().missing()), ([], []))
        self.assertIn("remark: zen: lab: WARNING: at kernel/sched", printed)

    def test_machine_that_does_not_start(self) -> None:
        def absent(*_: object, **__: object) -> fake.Result:
            raise Fail("the lab needs QEMU 9.1")
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertRaisesRegex(Fail, "needs QEMU 9.1", run.main, ["--suite", "small", "--out", str(self.out)],
                                   absent)
        self.assertFalse((self.out / "small.json").exists())

    def test_interrupted(self) -> None:
        """What was measured is on disk, and marked."""
        def interrupt(stop: BaseException) -> Callable[[], tuple[int, str]]:
            return lambda: self.run_bench(FakeRunner(answer, stop_after=4, stop=stop), "--samples", "1")
        self.assertRaises(KeyboardInterrupt, interrupt(KeyboardInterrupt()))
        found = self.results()
        self.assertFalse(found.complete)
        self.assertEqual([row.config for row in found.rows if row.config != "oracle"],
                         ["none", "fork_spread", "both", "seed1"])
        self.assertEqual(found.failures, [])
        self.assertTrue(found.missing())

    def test_earlier_results_are_kept(self) -> None:
        self.run_bench(FakeRunner(answer), "--quick")
        before = (self.out / "small.json").read_bytes()
        _, printed = self.run_bench(FakeRunner(answer), "--quick", "--samples", "2")
        self.assertEqual((self.out / "small.previous.json").read_bytes(), before)
        self.assertIn("small.previous.json", printed)
        self.assertEqual(len(self.results().rows[0].samples), 2)

    def test_model_that_changes(self) -> None:
        runner = FakeRunner(answer)
        calls = iter(range(100))
        with mock.patch.object(fake, "Result", lambda output: mock.Mock(
                output=output, status=0, environment={"costs": {"llc_hit_ns": next(calls)}})):
            status, _ = self.run_bench(runner, "--samples", "2", "--topology", "zen")
        self.assertEqual(status, 0)
        self.assertEqual(self.results().environment["remarks"], ["'costs' of zen changed in between"])

    def test_dry_run(self) -> None:
        status, printed = self.run_bench(FakeRunner(answer), "--quick", "--dry-run", "--loads", "4")
        self.assertEqual(status, 0)
        self.assertIn("3 runs, about ", printed)
        status, printed = self.run_bench(FakeRunner(answer), "--quick", "--dry-run", "--script")
        self.assertEqual(status, 0)
        self.assertIn("6 runs, about ", printed)
        self.assertIn("measure 60 'exec tbench 4 0.25'", printed)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_wrong_options(self) -> None:
        self.assertRaisesRegex(Fail, "TOPO= is about the lab", run.main, ["--where", "host", "--topology", "zen"])
        self.assertRaisesRegex(Fail, "SAMPLES=-1", run.main, ["--samples", "-1"])
        self.assertRaisesRegex(Fail, "LOADS=1,x are no numbers", run.main, ["--loads", "1,x"])
        self.assertRaisesRegex(Fail, "LOADS=3 is a load of no benchmark", run.main, ["--loads", "3"])
        self.assertRaisesRegex(Fail, "configuration 'x'", run.main, ["--configs", "x"])

    def test_host(self) -> None:
        """The whole way with real processes: a script under the shell, in a made-up cgroup."""
        with tempfile.TemporaryDirectory() as directory:
            cgroups = fake.Cgroups(Path(directory))
            cgroups.program("tbench", "echo Running for 2 seconds; echo; printf ' ReadX %s 0.1 0.2\\n' 400; "
                                      "echo; echo Throughput 3.5 MB/sec")
            machine = suite.Layout.regular("host", 1, 2, 2, 2)
            with mock.patch.dict("os.environ", {"PATH": cgroups.path}), \
                    mock.patch.object(host, "layout", lambda *_: machine):
                local = host.HostRunner(cgroups.programs)

                def runner(topology: str, script: str, *arguments: object, **settings: object) -> host.HostResult:
                    return local(topology, cgroups.adapt(script), *arguments, **settings)  # type: ignore[arg-type]

                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    status = run.main(["--suite", "small", "--out", str(self.out), "--where", "host", "--quick",
                                       "--benches", "tbench", "--configs", "fork_spread,llc"], runner)
        self.assertEqual(status, 0, printed.getvalue())
        found = self.results()
        self.assertEqual((found.environment["where"], found.environment["commands"]),
                         ("host", {"tbench/4": "exec tbench -t 10 4"}))
        self.assertEqual({(row.config, row.metric, row.median) for row in found.rows if row.config != "oracle"},
                         {(config, metric, value) for config in ("none", "fork_spread", "llc")
                          for metric, value in (("operations", 200.0), ("throughput", 3.5))})
        self.assertNotIn("The lab is a model", printed.getvalue())


class Details(unittest.TestCase):
    def test_own_directories_do_not_get_out(self) -> None:
        path = f"{run.ROOT}/build/6.12/lab/run/123-0abc/result.log"
        self.assertEqual(run.scrub({"command": ["qemu", f"path={path}"], "cpus": 32}),
                         {"command": ["qemu", "path=build/6.12/lab/run/N/result.log"], "cpus": 32})

    def test_samples_differ_in_nothing_that_is_worth_a_remark(self) -> None:
        """The device tree of each is another file, since it has the boot's random numbers in it."""
        one, two = (lab.machine_of("1x1x2x2", seed=seed) for seed in (1, 2))
        found = []
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(lab, "capture", self.dump_plain), \
                mock.patch.object(lab.devicetree, "describe_caches", lambda plain, *_: plain):
            for machine in (one, two):
                tree = lab.device_tree(mock.Mock(build=Path(directory)), machine, "10.0")
                found.append((tree, run.scrub({"command": ["qemu", "-dtb", str(tree)]})))
        self.assertNotEqual(found[0][0], found[1][0])
        self.assertEqual(found[0][1], found[1][1])

    @staticmethod
    def dump_plain(command: list[str]) -> None:
        file = next(argument.rpartition("dumpdtb=")[2] for argument in command if "dumpdtb=" in argument)
        Path(file).write_bytes(b"tree")

    def test_runner_without_streaming(self) -> None:
        def run_script(machine: lab.Machine, script: str, programs: object, *, extra: object,
                       timeout: int) -> fake.Result:
            return fake.Result(f"{machine.name}\n{script}\n")
        lines: list[str] = []
        with mock.patch("importlib.import_module", lambda name: mock.Mock(run_script=run_script,
                                                                             machine_of=lab.machine_of)):
            run.lab_runner()("zen", "true", [], extra={}, timeout=1, on_line=lines.append, sample=0)
        self.assertEqual(lines, ["zen", "true"])

    def test_no_lab(self) -> None:
        with mock.patch("importlib.import_module", side_effect=ImportError("no lab")):
            self.assertRaisesRegex(Fail, "WHERE=lab needs bench/lab", run.lab_runner)

    def test_results_are_plain_json(self) -> None:
        self.assertEqual(json.loads(json.dumps(run.scrub({"a": (1, 2)}))), {"a": [1, 2]})


class Accounts(unittest.TestCase):
    """What a run makes of cases that were skipped, of series, and of the lab's counts."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        bench = dataclasses.replace(
            SMALL.bench("hackbench"), metrics=(*SMALL.bench("hackbench").metrics,
                                               suite.Metric("ipc", "1", suite.HIGHER, "ipc", optional=True)),
            derive=lambda values, grown, costs: {"ipc": grown["user"] * costs["clock_ghz"] / values["time"]},
            series=lambda output: {"length": len(output)})
        self.suite = dataclasses.replace(SMALL, benches=(bench,), samples={suite.FULL: 1})
        self.run = run.Run(self.suite, suite.Selection(topologies=("zen",), configs=("both",)), mock.Mock(),
                           Path(directory.name) / "small.json", command="make bench")
        self.cases = {case.config: case for case in self.run.chunks[0].cases if case.load == 1}

    def finish(self, config: str, **more: Any) -> None:
        self.run.finished(suite.Outcome(self.cases[config], output="Time: 2.000\n", status=0, **more))

    def rows(self) -> dict[tuple[str, str], float]:
        self.run.write(complete=True)
        found = results.read_results(self.run.path)
        return {(row.config, row.metric): row.median for row in found.rows}

    def test_skipped(self) -> None:
        """It has no row, is not missing, and the file says why."""
        with mock.patch.object(results, "load_suite", lambda name: self.suite):
            self.run.finished(suite.Outcome(self.cases["both"], skipped="this kernel has no cpu.gang"))
            self.finish("none")
            self.assertEqual(self.rows(), {("none", "time"): 2.0})
            found = results.read_results(self.run.path)
            self.assertEqual(found.failures, [])
            self.assertEqual([text for text in found.missing() if "hackbench/1" in text], [])
            self.assertIn("skipped hackbench/both on zen: this kernel has no cpu.gang", results.describe(found))
        self.assertEqual(found.series, [{"bench": "hackbench", "topology": "zen", "config": "none", "load": 1,
                                         "sample": 0, "length": 12}])

    def test_counts(self) -> None:
        """The records come in the order of the cases, two for each; without any, nothing is derived."""
        self.finish("none", counted=0)
        self.finish("both", counted=1)
        record = {"at": "mark", "kernel": 0, "busy_ns": 0}
        marks = [{**record, "user": user} for user in (100, 104, 200, 210)]
        self.run.take_counts([*marks, {**record, "at": "exit", "user": 999}], {"costs": {"clock_ghz": 3.0}})
        self.assertEqual({key: value for key, value in self.rows().items() if key[1] == "ipc"},
                         {("none", "ipc"): 6.0, ("both", "ipc"): 15.0})

    def test_no_counts(self) -> None:
        self.finish("none", counted=0)
        self.run.take_counts({}, {})
        self.assertNotIn(("none", "ipc"), self.rows())


if __name__ == "__main__":
    unittest.main()
