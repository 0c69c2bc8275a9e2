# SPDX-License-Identifier: GPL-2.0-only
"""Plans, the scripts that carry them out, under real shells, and the reading of what scripts say."""

import dataclasses
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import fake
import suite
from common import Fail
from fake import SMALL, Cgroups
from suite import FULL, HOST, LAYOUTS, QUICK, Case, Chunk, Layout, Outcome, Reader, Selection

NONCE = "0123456789abcdef"


def chunk_of(*configs: str, bench: str = "hackbench", load: int = 1) -> Chunk:
    cases = tuple(Case(number, bench, "zen", config, load, 0) for number, config in enumerate(configs))
    return Chunk(LAYOUTS["zen"], cases, 1.0)


class Layouts(unittest.TestCase):
    def test_cpu_lists(self) -> None:
        for text, cpus in (("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("0,2,4-5", {0, 2, 4, 5})):
            self.assertEqual(suite.cpu_list(cpus), text)
            self.assertEqual(suite.parse_cpu_list(text + "\n"), cpus)
        self.assertEqual(suite.parse_cpu_list("\n"), frozenset())

    def test_zen(self) -> None:
        zen = LAYOUTS["zen"]
        self.assertEqual([suite.cpu_list(cpus) for cpus in zen.llcs], ["0-7", "8-15", "16-23", "24-31"])
        self.assertEqual([suite.cpu_list(cpus) for cpus in zen.nodes], ["0-15", "16-31"])
        self.assertEqual(suite.cpu_list(zen.cores[3]), "6-7")
        self.assertTrue(zen.split)
        self.assertEqual({name: suite.cpu_list(cpus) for name, cpus in zen.pinnings().items()}, {
            "llc": "0-7", "node": "0-15", "cores": ",".join(map(str, range(0, 32, 2))), "apart": "0-1,8-9,16-17,24-25"})

    def test_pinnings_that_are_the_same_are_one(self) -> None:
        self.assertEqual(list(LAYOUTS["xeon"].pinnings()), ["llc", "cores", "apart"])
        self.assertFalse(LAYOUTS["xeon"].split)
        self.assertEqual(Layout.regular("small", 1, 1, 2, 1).pinnings(), {"apart": frozenset({0})})

    def test_the_lab_has_the_same_machines(self) -> None:
        try:
            import lab  # pylint: disable=import-outside-toplevel
        except (ImportError, AttributeError):
            self.skipTest("no bench/lab")
        for name, layout in LAYOUTS.items():
            there = lab.TOPOLOGIES[name]
            self.assertEqual(layout, Layout.regular(name, there.nodes, there.llcs, there.cores, there.threads))

    def test_by_size(self) -> None:
        self.assertEqual(len(suite.layout_of("4x2x8x2:xeon").cpus), 128)
        self.assertEqual(len(suite.layout_of("2x1x3x1").llcs), 2)
        slow = suite.layout_of("1x1x4x2@20")
        self.assertEqual((slow.name, len(slow.cpus), slow.smt), ("1x1x4x2@20", 8, True))
        self.assertFalse(suite.layout_of("1x1x4x1").smt)
        for name in ("zem", "2x2", "zem@20", "zen@", "zen@x", "0x1x1x1", "1x1x1x3", "2x2x4x2:"):
            self.assertRaisesRegex(Fail, f"TOPO={name} is neither zen nor xeon", suite.layout_of, name)


class Plans(unittest.TestCase):
    def test_everything_once(self) -> None:
        chunks = suite.plan(SMALL, Selection(FULL))
        cases = [case for chunk in chunks for case in chunk.cases]
        self.assertEqual(len({case.number for case in cases}), len(cases))
        self.assertEqual(len({(c.bench, c.topology, c.config, c.load, c.sample) for c in cases}), len(cases))
        # zen has both pinnings, on xeon the node is the LLC; three loads, three samples.
        self.assertEqual(Counter(case.topology for case in cases), {"zen": 7 * 3 * 3, "xeon": 6 * 3 * 3})

    def test_samples_come_in_rounds(self) -> None:
        samples = [case.sample for chunk in suite.plan(SMALL, Selection(FULL)) for case in chunk.cases]
        self.assertEqual(samples, sorted(samples))

    def test_configurations_take_turns(self) -> None:
        """Over the samples, no configuration is always the first or always behind the same one."""
        firsts = set()
        for chunk in suite.plan(SMALL, Selection(FULL, topologies=("zen",), benches=("tbench",))):
            firsts.add(chunk.cases[0].config)
        self.assertEqual(len(firsts), 3)
        before: dict[str, set[str]] = {}
        for chunk in suite.plan(SMALL, Selection(FULL, topologies=("zen",), benches=("tbench",))):
            for behind, case in zip(chunk.cases, chunk.cases[1:]):
                before.setdefault(case.config, set()).add(behind.config)
        self.assertGreater(min(map(len, before.values())), 1)

    def test_steps(self) -> None:
        for count in range(1, 14):
            for sample in range(20):
                step = suite.step_of(sample, count)
                self.assertEqual({index * step % count for index in range(count)}, set(range(count)))
        self.assertEqual([suite.step_of(sample, 7) for sample in range(7)], [1, 2, 3, 4, 5, 6, 1])

    def test_blocks_stay_in_one_chunk(self) -> None:
        with mock.patch.object(suite, "CHUNK_SECONDS", 3.0):
            chunks = suite.plan(SMALL, Selection(FULL, topologies=("zen",)))
        self.assertEqual(len(chunks), 9)
        for chunk in chunks:
            self.assertEqual(len({(case.bench, case.load, case.sample) for case in chunk.cases}), 1)

    def test_filters(self) -> None:
        selection = Selection(FULL, topologies=("xeon",), benches=("hackbench",), configs=("both",), samples=1)
        cases = [case for chunk in suite.plan(SMALL, selection) for case in chunk.cases]
        self.assertEqual({case.config for case in cases}, {"none", "both"})
        self.assertEqual(len(cases), 4)

    def test_loads(self) -> None:
        selection = Selection(FULL, topologies=("zen",), configs=("both",), samples=1, only_loads=(2, 4))
        cases = [case for chunk in suite.plan(SMALL, selection) for case in chunk.cases]
        self.assertEqual({(case.bench, case.load) for case in cases}, {("hackbench", 2), ("tbench", 4)})
        self.assertRaisesRegex(Fail, "LOADS=3 is a load of no benchmark: hackbench has 1, 2; tbench has 4",
                               suite.plan, SMALL, Selection(FULL, only_loads=(1, 3)))

    def test_oracle_means_the_pinnings(self) -> None:
        selection = Selection(FULL, topologies=("zen",), configs=("oracle",), samples=1)
        self.assertEqual({case.config for chunk in suite.plan(SMALL, selection) for case in chunk.cases},
                         {"none", "llc", "node"})

    def test_quick(self) -> None:
        cases = [case for chunk in suite.plan(SMALL, Selection(QUICK, quick=True)) for case in chunk.cases]
        self.assertEqual(Counter((case.bench, case.config) for case in cases), {
            ("hackbench", "none"): 1, ("hackbench", "both"): 1, ("hackbench", "llc"): 1,
            ("tbench", "none"): 1, ("tbench", "fork_spread"): 1, ("tbench", "node"): 1})

    def test_host(self) -> None:
        machine = Layout.regular("host", 1, 2, 2, 2)
        cases = [case for chunk in suite.plan(SMALL, Selection(HOST, host=machine)) for case in chunk.cases]
        self.assertEqual({case.topology for case in cases}, {"host"})
        self.assertEqual({case.sample for case in cases}, set(range(5)))
        quick = [case for chunk in suite.plan(SMALL, Selection(HOST, host=machine, quick=True)) for case in chunk.cases]
        self.assertEqual({(case.bench, case.load) for case in quick}, {("hackbench", 1), ("tbench", 4)})
        self.assertEqual(SMALL.bench("tbench").shell(4, HOST), "exec tbench -t 10 4")

    def test_unknown_names(self) -> None:
        for selection, message in ((Selection(topologies=("zem",)), "TOPO=zem"),
                                   (Selection(benches=("x",)), "benchmark 'x'"),
                                   (Selection(configs=("y",)), "configuration 'y'; it has: none, ")):
            self.assertRaisesRegex(Fail, message, suite.plan, SMALL, selection)
        self.assertRaisesRegex(Fail, "SUITE=z: there is no bench/suites/z.py", suite.load_suite, "z")


class Scripts(unittest.TestCase):
    """Run by real shells, on a cgroup file system of plain files."""

    def outcomes(self, chunk: Chunk, refuse: tuple[str, ...] = (), shell: list[str] | None = None,
                 of: suite.Suite = SMALL) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}
        with tempfile.TemporaryDirectory() as directory:
            cgroups = Cgroups(Path(directory), refuse)
            reader = Reader(of, chunk, NONCE, lambda outcome: found.update({outcome.case.config: outcome}))
            for line in cgroups.run(suite.script(of, chunk, FULL, NONCE), shell or ["sh"]).splitlines():
                reader.feed(line)
            self.assertTrue(reader.done, reader.other)
            self.assertTrue(reader.kernel)
            reader.close("the end")
            self.assertFalse(cgroups.group.exists())
            self.hints = cgroups.log.read_text(encoding="utf-8") if cgroups.log.exists() else ""
        return found

    def test_all_is_well(self) -> None:
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none", "both", "llc", "background"), shell=shell)
            for outcome in found.values():
                self.assertEqual((outcome.problem, outcome.status, outcome.output), ("", 0, "Time: 1.1\n"), shell)
                self.assertEqual(outcome.counters, {"hint_wake_followed": 7})
            self.assertEqual(found["both"].effective, "fork_affine wake_affine")
            self.assertEqual(found["llc"].cpus, "0-7")
            self.assertEqual(self.hints, "fork_affine wake_affine\nbackground\n")

    def test_setting_that_cannot_be_made(self) -> None:
        """The case is not run then: it would be measured as what it is not."""
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none", "both", "llc"), refuse=("cpu.hint",), shell=shell)
            self.assertIn("cannot write 'fork_affine wake_affine' to", found["both"].problem)
            self.assertIn("irectory", found["both"].problem)
            self.assertIsNone(found["both"].status)
            self.assertEqual((found["none"].problem, found["llc"].problem), ("", ""))

    def test_switch_that_is_not_there(self) -> None:
        for shell in fake.shells():
            found = self.outcomes(chunk_of("seed1", "none"), shell=shell)
            self.assertEqual(found["seed1"].problem, "/nonexistent/switch: no such file")
            self.assertEqual(found["none"].problem, "")

    def test_switch_is_put_back(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "switch"
            path.write_text("0\n", encoding="utf-8")
            of = fake.with_switch(path, f"cat {path}; echo 'Time: 1'; exit {{load}}")
            found = self.outcomes(chunk_of("seed1", load=2), of=of)
            self.assertEqual(found["seed1"].output, "1\nTime: 1\n")
            self.assertIn("status 2", found["seed1"].problem)
            self.assertEqual(path.read_text(encoding="utf-8"), "0\n")

    def test_switch_that_was_left_on(self) -> None:
        """By a script that was killed, of another chunk: the cases of this one may have nothing to do with it."""
        for shell in fake.shells():
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / "switch"
                path.write_text("1\n", encoding="utf-8")
                of = fake.with_switch(path, f"cat {path}; echo 'Time: 1'")
                found = self.outcomes(chunk_of("none", "both"), of=of, shell=shell)
                self.assertEqual([outcome.output for outcome in found.values()], ["0\nTime: 1\n"] * 2, shell)
                self.assertEqual(path.read_text(encoding="utf-8"), "0\n")

    def test_switches_of_a_script(self) -> None:
        text = suite.script(SMALL, chunk_of("none"), FULL, NONCE)
        self.assertEqual(suite.switches_of(text), {"/nonexistent/switch": "0"})
        self.assertNotIn("mount -t debugfs", text)
        plain = dataclasses.replace(SMALL, configurations=(SMALL.configuration("none"),))
        self.assertEqual(suite.switches_of(suite.script(plain, chunk_of("none"), FULL, NONCE)), {})

    def test_program_that_is_not_there(self) -> None:
        bench = dataclasses.replace(SMALL.bench("hackbench"), command="exec no-such-program {load}")
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none"), of=dataclasses.replace(SMALL, benches=(bench,)), shell=shell)
            self.assertRegex(found["none"].problem, "status 127: .*no-such-program.*not found")

    def test_odd_output(self) -> None:
        """No newline at the end, quotes, and something that looks like a marker."""
        bench = dataclasses.replace(SMALL.bench("hackbench"), command="printf '%s' \"it's\" '@bench x end 0 0'")
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none"), of=dataclasses.replace(SMALL, benches=(bench,)), shell=shell)
            self.assertEqual((found["none"].problem, found["none"].output), ("", "it's@bench x end 0 0\n"))

    def test_command_runs_in_the_group(self) -> None:
        bench = dataclasses.replace(SMALL.bench("hackbench"),
                                          command="grep -qx $$ /sys/fs/cgroup/bench/cgroup.procs && echo inside")
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none"), of=dataclasses.replace(SMALL, benches=(bench,)), shell=shell)
            self.assertEqual(found["none"].output, "inside\n", found["none"].problem)

    def test_too_long(self) -> None:
        bench = dataclasses.replace(SMALL.bench("hackbench"), command="exec /bin/sleep 30", limit=1)
        found = self.outcomes(chunk_of("none"), of=dataclasses.replace(SMALL, benches=(bench,)))
        self.assertEqual(found["none"].problem, "not finished after 1 s: no output")


class Groups(Scripts):
    """Benchmarks with groups of their own, below the case's."""

    def suite_of(self, *settings: suite.Setting, needs: tuple[str, ...] = (), **more: object) -> suite.Suite:
        bench = dataclasses.replace(
            SMALL.bench("hackbench"), groups=lambda load: ("main", *(f"side{n}" for n in range(load))),
            command="cat $group/*/cpu.weight; echo $color $load $cpus", **more)
        both = dataclasses.replace(SMALL.configuration("both"), hint="", settings=settings, needs=needs,
                                   variables={"color": "it's"})
        return dataclasses.replace(SMALL, benches=(bench,), configurations=(*(
            c for c in SMALL.configurations if c.name != "both"), both))

    def test_settings(self) -> None:
        """By pattern, by load and machine, and where there is nothing to be set."""
        def weight(group: str, load: int, layout: Layout) -> str | None:
            return None if group == "side0" else f"{group} {load} {len(layout.cpus)}"

        of = self.suite_of(suite.Setting("main", "cpu.weight", "7"), suite.Setting("side*", "cpu.weight", weight))
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none", "both", load=2), of=of, shell=shell)
            self.assertEqual((found["both"].problem, found["both"].output),
                             ("", "7\nside1 2 32\nit's 2 32\n"), shell)
            self.assertEqual(found["none"].output, "2 32\n")

    def test_counters_are_those_of_all_groups(self) -> None:
        found = self.outcomes(chunk_of("both", load=2), of=self.suite_of())
        self.assertEqual(found["both"].counters, {"hint_wake_followed": 28})

    def test_what_the_kernel_lacks_is_skipped(self) -> None:
        """It is neither measured nor a failure; and what is there is measured."""
        of = self.suite_of(suite.Setting("main", "cpu.headroom", "20"), needs=("main/cpu.headroom",))
        for shell in fake.shells():
            found = self.outcomes(chunk_of("both", "none"), of=of, shell=shell)
            self.assertEqual((found["both"].skipped, found["both"].problem, found["both"].output),
                             ("this kernel has no main/cpu.headroom", "", ""), shell)
            self.assertEqual((found["none"].skipped, found["none"].problem), ("", ""))
        of = self.suite_of(suite.Setting("main", "cpu.weight", "7"), needs=("main/cpu.weight", "/dev/null"))
        self.assertEqual(self.outcomes(chunk_of("both"), of=of)["both"].skipped, "")

    def test_setting_of_a_file_that_nobody_needed(self) -> None:
        """A file that is missing, although nobody said that it may be, is a failure."""
        found = self.outcomes(chunk_of("both"), of=self.suite_of(suite.Setting("main", "cpu.headroom", "20")))
        self.assertIn("main/cpu.headroom: no such file", found["both"].problem)

    def test_counts_before_and_after(self) -> None:
        """Numbered in the order of the cases that were counted: one that was skipped has none."""
        of = self.suite_of(needs=("main/cpu.headroom",), counted=True)
        for shell in fake.shells():
            found = self.outcomes(chunk_of("none", "both", "llc"), of=of, shell=shell)
            self.assertEqual([found[name].counted for name in ("none", "both", "llc")], [0, None, 1], shell)


class Readers(unittest.TestCase):
    def setUp(self) -> None:
        self.found: list[Outcome] = []
        self.started: list[str] = []

    def read(self, chunk: Chunk, *lines: str, end: str = "the machine stopped") -> list[tuple[str, str]]:
        reader = Reader(SMALL, chunk, NONCE, self.found.append, lambda case: self.started.append(case.config))
        for line in lines:
            reader.feed((line if line.startswith("@bench") else line.replace("@", f"@bench {NONCE} ", 1)) + "\r\n")
        reader.close(end)
        return [(outcome.case.config, outcome.problem) for outcome in self.found]

    def test_cut_in_the_middle(self) -> None:
        found = self.read(chunk_of("none", "both", "llc"), "@begin 0", "Time: 1", "@end 0 0", "@effective 1 x",
                          "@begin 1", "Ti")
        self.assertEqual(found, [("none", ""), ("both", "the machine stopped in the middle: Ti"),
                                 ("llc", "the machine stopped")])
        self.assertEqual(self.started, ["none", "both"])

    def test_hint_that_is_not_in_force(self) -> None:
        found = self.read(chunk_of("both"), "@effective 0 none", "@begin 0", "@end 0 0")
        self.assertEqual(found, [
            ("both", "cpu.hint 'fork_affine wake_affine' is not in force: cpu.hint.effective is 'none'")])
        self.found.clear()
        self.assertIn("is not in force", self.read(chunk_of("both"), "@begin 0", "@end 0 0")[0][1])

    def test_pinning_that_is_not_in_force(self) -> None:
        found = self.read(chunk_of("llc"), "@cpus 0 0-6", "@begin 0", "@end 0 0")
        self.assertEqual(found, [("llc", "cpuset.cpus is not in force: cpuset.cpus.effective is '0-6'")])

    def test_group_that_stays(self) -> None:
        """Said after the end of the case: it fails all the same."""
        found = self.read(chunk_of("none"), "@begin 0", "@end 0 0", "@fail 0 cannot remove it", "@done")
        self.assertEqual(found, [("none", "cannot remove it")])

    def test_markers_of_nobody(self) -> None:
        found = self.read(chunk_of("none"), "@end 7 0", "@begin 0", "@bench 1234 end 0 0", "@end 0 0")
        self.assertEqual(found, [("none", "")])
        self.assertEqual(self.found[0].output, "@bench 1234 end 0 0\n")


if __name__ == "__main__":
    unittest.main()
