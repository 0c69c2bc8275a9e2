# SPDX-License-Identifier: GPL-2.0-only
"""make results: the plan that is committed, how long it takes, and that an interrupted run goes on."""

import contextlib
import dataclasses
import io
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import fake
import renew
from common import Fail
from fake import SMALL
from renew import Item
from results import Results, save

ITEM = 'limit_minutes = 200\n[[item]]\nname = "a"\nsuite = "hint"\nbenches = ["stream"]\n'
MECHANISM = "a" * 64


class Plans(unittest.TestCase):
    def read(self, text: str) -> renew.Plan:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "plan.toml")
            path.write_text(text)
            return renew.read_plan(path)

    def test_committed(self) -> None:
        """At most three hours on two CPUs; that its items take no longer is checked as it is read."""
        plan = renew.read_plan()
        self.assertLessEqual(plan.limit, 180)
        self.assertTrue(all(item.minutes for item in plan.items))
        self.assertLessEqual({"hint", "gang", "headroom", "overhead"}, {item.suite for item in plan.items})
        for item in plan.items:
            self.assertGreaterEqual(item.samples, 3, item.name)

    def test_machines(self) -> None:
        """What differs in what the scheduler sees: one LLC, several, two nodes, without SMT."""
        for name in ("hint", "gang", "headroom"):
            machines = {renew.page.machine_of(item.topology) for item in renew.read_plan().items if item.suite == name}
            self.assertLessEqual({"zen", "xeon", "2x2x4x1"}, machines)
            self.assertTrue(any(machine.startswith("1x1x") for machine in machines), name)

    def test_item(self) -> None:
        plan = self.read(ITEM + 'loads = [4, 8]\nsamples = 2\ntopology = "xeon"\nminutes = 3.5\n')
        item, = plan.items
        self.assertEqual(item.command, "make bench SUITE=hint TOPO=xeon BENCHES=stream LOADS=4,8 SAMPLES=2")
        self.assertEqual((plan.limit, item.minutes), (200, 3.5))

    def test_refused(self) -> None:
        for text, error in (
                ("limit_minutes = ]", "no TOML"), ('x = 1\n' + ITEM, "wanted are limit_minutes"),
                (ITEM.replace("200", "0"), "wanted are limit_minutes"),
                (ITEM + "speed = 1\n", "item 1: unknown key 'speed'; known: name, suite"),
                (ITEM + "minutes = 300\n", "takes 300 minutes on two CPUs, and limit_minutes = 200"),
                (ITEM + 'loads = "4"\n', "loads = '4' is of the wrong type"), (ITEM + "samples = true\n", "wrong type"),
                (ITEM.replace('name = "a"\n', ""), "item 1: no 'name'"),
                (ITEM.replace('"a"', '"../a"'), "is no file name"),
                (ITEM.replace('"hint"', '"hants"'), "suite = 'hants'; there are: apps, energy, gang, headroom, hint, numa, overhead"),
                (ITEM.replace("stream", "streams"), "item 'a': suite hint has no benchmark 'streams'"),
                (ITEM + 'configs = ["hold"]\n', "item 'a': suite hint has no configuration 'hold'"),
                (ITEM + 'topology = "zan"\n', "item 'a': TOPO=zan"), (ITEM + "loads = [3]\n", "item 'a': LOADS=3"),
                (ITEM.replace("hint", "overhead"), "item 'a': suite overhead has no benchmark 'stream'"),
                (ITEM + ITEM.partition("\n")[2], "two items are called 'a'")):
            with self.subTest(text=text):
                self.assertRaisesRegex(Fail, error, self.read, text)

    def test_wall(self) -> None:
        self.assertEqual(renew.wall_minutes([], 2), 0)
        self.assertEqual(renew.wall_minutes([1, 2, 3, 6], 2), 6)
        self.assertEqual(renew.wall_minutes([1, 2, 3, 6], 1), 12)

    def test_minutes(self) -> None:
        """As recorded of the very command, else as the plan says, else as estimated."""
        item, = self.read(ITEM).items
        found = fake.results({"none": {1: 1.0}})
        found.environment["command"] = item.command
        self.assertAlmostEqual(renew.minutes_of(dataclasses.replace(item, minutes=7), {"a": found}), 60.5 / 60)
        found.environment["command"] = "make bench SUITE=hint"
        self.assertEqual(renew.minutes_of(dataclasses.replace(item, minutes=7), {"a": found}), 7)
        self.assertGreater(renew.minutes_of(item, {}), 1)


class Process:
    """Stands for a run of bench/run.py: writes its results, if it is to, when it is asked for its end."""

    def __init__(self, ends: Mapping[str, bool], item: Item):
        self.item, self.well, self.said = item, ends.get(item.name, True), [""]

    def poll(self) -> int:
        if self.well:
            save(made(self.item), renew.result_path(self.item))
        return 0

    def terminate(self) -> None:
        self.said.append("terminate")

    def wait(self, _seconds: float) -> int:
        self.said.append("wait")
        return 0


def made(item: Item, complete: bool = True) -> Results:
    found = fake.results({"none": {1: 1.0}, "fork_spread": {1: 2.0}})
    found.environment["command"], found.complete = item.command, complete
    return found


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        self.work = Path(directory.name)
        for patch in (mock.patch.object(renew, "WORK", self.work), mock.patch("results.load_suite", lambda _: SMALL)):
            patch.start()
            self.addCleanup(patch.stop)
        self.items = [Item(name, "hint", topology="zen", samples=number) for number, name in enumerate("abc", 1)]
        for item in self.items:
            (self.work / item.name).mkdir()
        self.minutes = {"a": 1.0, "b": 5.0, "c": 2.0}
        self.begun: list[Process] = []

    def go(self, items: list[Item], ends: Mapping[str, bool], lanes: int = 2) -> tuple[list[str], str]:
        def begin(item: Item) -> Process:
            self.begun.append(Process(ends, item))
            return self.begun[-1]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            failed = renew.run_items(items, self.minutes, MECHANISM, lanes, begin, pause=0)
        return failed, printed.getvalue()

    def test_longest_first_and_progress(self) -> None:
        failed, printed = self.go(self.items, {})
        self.assertEqual((failed, [process.item.name for process in self.begun]), ([], ["b", "c", "a"]))
        self.assertIn("[3/3] a: done", printed)
        self.assertIn("about 0 minutes left", printed)

    def test_failure_is_said_and_the_others_run(self) -> None:
        (self.work / "b/log").write_text("much\nthe kernel does not build\n\n")
        failed, printed = self.go(self.items, {"b": False})
        self.assertEqual(failed, ["b"])
        self.assertIn("b: FAILED: the kernel does not build", printed)
        self.assertTrue(renew.measured(self.items[0], MECHANISM))

    def test_what_is_there_is_not_run_again(self) -> None:
        first, second, third = self.items
        for item, found in ((first, made(first)), (second, made(second, complete=False)), (third, made(first))):
            save(found, renew.result_path(item))
        ready = [item.name for item in self.items if renew.measured(item, MECHANISM)]
        self.assertEqual(ready, ["a"], "neither what is not complete, nor what another command gave")
        self.assertIsNone(renew.measured(first, "b" * 64), "by another kernel")

    def test_interrupted(self) -> None:
        """Every run is told to end, and what ended before stays."""
        def begin(item: Item) -> Process:
            process = Process({}, item)
            self.begun.append(process)
            if item.name == "c":
                mock.patch.object(process, "poll", side_effect=KeyboardInterrupt).start()
            return process
        self.addCleanup(mock.patch.stopall)
        mock.patch.object(renew, "kill_group", lambda process: process.said.append("kill")).start()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertRaises(KeyboardInterrupt, renew.run_items, self.items, self.minutes, MECHANISM, 1, begin, 0)
        self.assertEqual([process.said for process in self.begun], [[""], ["", "terminate", "wait", "kill"]])
        self.assertTrue(renew.measured(self.items[1], MECHANISM))
        self.assertIn("goes on from here", said.getvalue())

    def test_nothing_outlives_a_run(self) -> None:
        """A real process, with a child of its own that ignores to be told."""
        child = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
                 "time.sleep(60)")
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout
            self.assertEqual(process.stdout.readline(), b"up\n")
            renew.stop({process: self.items[0]})
            # The pipe ends when nobody has it open any more, which without that is a minute later.
            began = time.monotonic()
            self.assertEqual(process.stdout.read(), b"")
            self.assertLess(time.monotonic() - began, 30)

    def test_whole(self) -> None:
        """A plan of two items: run, published, rendered; the second time nothing is run."""
        plan, pages = self.work / "plan.toml", self.work / "pages"
        plan.write_text('limit_minutes = 10\n' + "".join(
            f'[[item]]\nname = "{name}"\nsuite = "hint"\ntopology = "{name}"\nminutes = 2\n' for name in ("zen", "xeon")))
        pages.mkdir()

        def begin(item: Item) -> Process:
            (self.work / item.name).mkdir(exist_ok=True)
            self.begun.append(Process({}, item))
            return self.begun[-1]
        options = ["--file", str(plan), "--pages", str(pages)]
        with contextlib.redirect_stdout(io.StringIO()) as printed, mock.patch.object(renew, "start", begin), \
                mock.patch("provenance.mechanism", lambda: MECHANISM), mock.patch("renew.page.files", self.files):
            self.assertRaisesRegex(Fail, "pages would take the place of the committed ones", renew.main, options[:2])
            self.assertEqual(renew.main([*options, "--plan"]), 0)
            self.assertEqual(self.begun, [])
            self.assertEqual(renew.main([*options, "--only", "zen"]), 0)
            self.assertEqual((pages / "README.md").read_text(), "zen of zen, xeon")
            self.assertEqual(renew.main(options), 0)
            self.assertEqual((pages / "README.md").read_text(), "xeon, zen of zen, xeon")
            self.assertEqual(renew.main(options), 0)
        self.assertEqual([process.item.name for process in self.begun], ["zen", "xeon"])
        self.assertIn("zen                          there already", printed.getvalue())
        self.assertIn("2 of 2 items are on", printed.getvalue())

    @staticmethod
    def files(results: Mapping[str, Results], commands: Mapping[str, str], template: Path) -> dict[str, bytes]:
        """Stands for the pages."""
        assert template.is_file()
        return {"README.md": f"{', '.join(results)} of {', '.join(commands)}".encode()}

    def test_unknown_item(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertRaisesRegex(Fail, "ONLY=nothing is no item", renew.main, ["--only", "nothing"])


if __name__ == "__main__":
    unittest.main()
