# SPDX-License-Identifier: GPL-2.0-only
"""Dealing marks to runs, the arithmetic on them, and what is concluded."""

import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import context

import lab
import overhead
import provenance
from bench import run
from common import Fail
from overhead import Boot, Case, Counted, Table
from results import row_of
from suite import FULL, LOWER, QUICK
from suites.overhead import CONFIGURATIONS, ELSEWHERE, OFF, PRISTINE, SUITE, TOPOLOGY, UNUSED


def marks(*counts, noops=0, at="mark"):
    """Marks at these numbers of kernel instructions; a tenth of them in a function of ours."""
    return [{"at": at, "kernel": value, "noops": index * noops,
             "functions": {"__steer_wake_cpu": value // 10, "f": value}}
            for index, value in enumerate(counts)]


def said(*lines):
    return overhead.read_output("\n".join(lines))


def table(*entries):
    """A table of one load from (bench, config, metric, value)."""
    return Table([row_of((bench, TOPOLOGY, config, 40, metric), "instructions", LOWER, [value])
                  for bench, config, metric, value in entries])


class CountTest(unittest.TestCase):
    case = Case("wakeup-llc", UNUSED, 40, 0)

    def test_median_of_regions_leaves_out_the_tick(self):
        # Three regions of 10 operations, two wakeups each; one of them has a tick.
        counted = overhead.count(self.case, ["wakeup", "10", "3", "60"], marks(0, 2000, 92000, 94000, noops=20))
        self.assertEqual(counted.values["instructions"], 100)
        self.assertEqual(counted.values["noops"], 1)
        self.assertEqual(counted.values["work"], 99)
        self.assertEqual(counted.values["own"], 10)
        self.assertAlmostEqual(counted.values["mean"], 94000 / 60)
        self.assertEqual(counted.functions["f"], 100)
        self.assertEqual(counted.asleep, 1)

    def test_wakeups_of_nobody_show(self):
        counted = overhead.count(self.case, ["wakeup", "10", "2", "20"], marks(0, 1, 2))
        self.assertEqual(counted.asleep, 0.5)

    def test_tree_has_a_region_for_each_write(self):
        counted = overhead.count(Case("tree", ELSEWHERE, 10, 0), ["tree", "10", "3", "0"], marks(5, 105, 125, 126))
        self.assertEqual(counted.values, {"first": 100, "change": 20, "clear": 1})

    def test_marks_have_to_fit(self):
        with self.assertRaises(Fail):
            overhead.count(self.case, ["wakeup", "10", "3", "60"], marks(0, 1))


class OutputTest(unittest.TestCase):
    boot = Boot("lab", "lab", (Case("switch", UNUSED, 40, 0), Case("fork", UNUSED, 40, 0)))

    def test_marks_are_dealt_in_order(self):
        text = said("@kernel 6.12", "@effective unused none", "@case 0", "@ops switch 1 2 2", "@case 1",
                    "@ops fork 1 1 1", "@stat hint_wake_full 3", "@done")
        first, second = overhead.take(self.boot, text, [*marks(0, 2, 4, 10, 17), *marks(99, at="exit")])
        self.assertEqual((first.values["instructions"], second.values["instructions"]), (1, 7))
        self.assertEqual((text.kernel, text.counters), ("6.12", {"unused": {"hint_wake_full": 3}}))

    def test_what_is_missing_fails(self):
        for lines in ((), ("@case 0", "@ops switch 1 1 1", "@done"),
                      ("@case 0", "@ops switch 1 1 1", "@case 1", "@fail fork", "@done"),
                      ("@case 0", "@ops switch 1 1 1", "@case 1", "@ops fork 1 1 1")):
            with self.subTest(lines), self.assertRaises(Fail):
                overhead.take(self.boot, said(*lines), marks(0, 1, 2, 3))

    def test_marks_that_are_too_many_fail(self):
        text = said("@case 0", "@ops switch 1 1 1", "@case 1", "@ops fork 1 1 1", "@done")
        with self.assertRaises(Fail):
            overhead.take(self.boot, text, marks(0, 1, 2, 3, 4))

    def test_hint_has_to_hold(self):
        def check(config, *lines):
            overhead.check_hints(Boot("lab", "lab", (Case("fork", config, 40, 0),)), said(*lines))
        check("fork_spread+wake_hold", "@effective fork_spread-wake_hold fork_spread wake_hold")
        check("efficient", "@effective efficient pack energy:unavailable")
        check("energy", "@effective energy energy:unavailable")
        check(PRISTINE)
        check(UNUSED, "@effective unused none")
        for config, line in (("pack", "@effective pack none"), ("pack", ""), ("efficient", "@effective efficient none"),
                             ("pack", "@effective pack pack:unavailable"), ("energy", "@effective energy none"),
                             (UNUSED, "@effective unused pack")):
            with self.subTest(config), self.assertRaises(Fail):
                check(config, line)


class PlanTest(unittest.TestCase):
    def test_kernels_have_a_boot_each_and_unused_comes_first(self):
        boots = overhead.plan(FULL, *overhead.select(FULL, (), ()), 2)
        self.assertEqual([boot.name for boot in boots], [PRISTINE, OFF, "lab", "trees"])
        order = [case.config for case in boots[2].cases]
        self.assertEqual(set(order), {c.name for c in CONFIGURATIONS} - {PRISTINE, OFF})
        self.assertEqual(set(order[:order.count(UNUSED)]), {UNUSED})
        self.assertEqual({case.load for case in boots[3].cases}, {10, 1000, 10000})

    def test_selection_keeps_what_others_are_compared_with(self):
        configurations, benches = overhead.select(QUICK, ("off", "pack"), ("fork",))
        self.assertEqual([c.name for c in configurations], [PRISTINE, OFF, UNUSED, "pack"])
        self.assertEqual([b.name for b in benches], ["fork"])
        with self.assertRaises(Fail):
            overhead.select(QUICK, ("nothing",), ())

    def test_one_kernel_where_one_is_enough(self):
        """Words are compared with `unused` of the same boot, and trees with nothing."""
        boots = overhead.plan(QUICK, *overhead.select(QUICK, ("elsewhere", "pack"), ("fork",)), 1)
        self.assertEqual([(boot.name, boot.variant) for boot in boots], [("lab", "lab")])
        self.assertEqual([case.config for case in boots[0].cases], [UNUSED, ELSEWHERE, "pack"])
        boots = overhead.plan(FULL, *overhead.select(FULL, (), ("tree",)), 1)
        self.assertEqual([(boot.name, boot.variant) for boot in boots], [("trees", "lab")])
        configurations, _ = overhead.select(QUICK, (UNUSED,), ())
        self.assertEqual([c.name for c in configurations], [PRISTINE, UNUSED])

    def test_script(self):
        boots = overhead.plan(QUICK, *overhead.select(QUICK, ("off", "pack"), ("fork",)), 1)
        text = {boot.name: overhead.script(boot, QUICK) for boot in boots}
        self.assertNotIn("elsewhere/cpu.hint", text[PRISTINE])
        lines = text["lab"].splitlines()
        elsewhere = lines.index("put /sys/fs/cgroup/elsewhere/cpu.hint wake_affine")
        self.assertLess(lines.index("enter unused ''"), elsewhere)
        self.assertLess(elsewhere, lines.index("enter pack 'pack'"))
        self.assertIn("in_group lab-ops fork 8 20 f", lines)

    def test_make_bench_comes_here(self):
        with mock.patch.object(overhead, "main", return_value=3) as main:
            self.assertEqual(run.main(["--suite", "overhead", "--quick", "--configs", "pack"]), 3)
            self.assertEqual(run.main(["--suite", "overhead", "--where", "lab", "--topology", TOPOLOGY]), 3)
            words = main.call_args_list[0].args[0]
            main.reset_mock()
            for options, message in (
                    (("--where", "host"), r"WHERE=host: SUITE=overhead .*; it takes WHERE=lab, which is the default$"),
                    (("--topology", "xeon"), r"TOPO=xeon: .*; it takes TOPO=1x2x2x1, which is the default$"),
                    (("--cost", "ipi_ns=9"), r"COST=ipi_ns=9: .*; it takes no COST$"),
                    (("--loads", "10"), r"LOADS=10: .*; it takes no LOADS$"),
                    (("--dry-run",), r"--dry-run: SUITE=overhead .*; it takes no --dry-run$")):
                with self.assertRaisesRegex(Fail, message):
                    run.main(["--suite", "overhead", *options])
            main.assert_not_called()
        self.assertEqual(words[:5], ["--quick", "--benches", "", "--configs", "pack"])

    def test_make_leaves_nothing_out(self):
        """What does not apply is refused by the program, for which it has to get there."""
        said = subprocess.run(["make", "-n", "bench", "SUITE=overhead", "QUICK=1", "TOPO=xeon", "WHERE=host", "LOADS=1",
                               "BENCHES=fork", "CONFIGS=pack", "SAMPLES=2", "COST=a=1 b=2"], cwd=context.ROOT,
                              text=True, stdout=subprocess.PIPE, check=True).stdout
        command = next(line for line in said.splitlines() if "--suite 'overhead'" in line)
        for option in ("--quick", "--topology 'xeon'", "--where 'host'", "--loads '1'", "--benches 'fork'",
                       "--configs 'pack'", "--samples '2'", "--cost 'a=1' --cost 'b=2'"):
            self.assertIn(option, command)

    def test_samples(self):
        with self.assertRaisesRegex(Fail, "SAMPLES=-1 is not a number of runs"):
            overhead.main(["--samples", "-1"])

    def test_command_makes_the_same_again(self):
        with mock.patch.object(overhead, "Run", side_effect=Fail) as made, tempfile.TemporaryDirectory() as out:
            for options, command in (((), "make bench SUITE=overhead"),
                                     (("--quick", "--configs", "pack,energy", "--samples", "2", "--benches", "fork"),
                                      "make bench SUITE=overhead QUICK=1 BENCHES=fork CONFIGS=pack,energy SAMPLES=2")):
                self.assertRaises(Fail, overhead.main, [*options, "--out", out])
                self.assertEqual(made.call_args.args[4], command)

    def test_more_functions_than_are_kept(self):
        """None is left out without a word, which would count less than is executed."""
        names = [f"steer_{number}" for number in range(overhead.lab.FUNCTIONS_KEPT + 1)]
        text = "".join(f"{0x1000 + 16 * at:x} T {name}\n" for at, name in enumerate([*names, "end"]))
        self.assertEqual(overhead.watched(text), sorted(names))
        overhead.lab.function_ranges(text, names[:-1])
        with self.assertRaisesRegex(Fail, "257 functions to count, the plugin keeps 256"):
            overhead.lab.function_ranges(text, names)

    def test_plugin_keeps_as_many(self):
        header = (Path(overhead.lab.__file__).parent / "plugin/lab.h").read_text()
        self.assertRegex(header, rf"(?m)^#define MAX_FUNCTIONS\t{overhead.lab.FUNCTIONS_KEPT}$")

    def test_watched_functions(self):
        text = "1 T __steer_wake_cpu\n2 t steer_scan\n3 T steer_hint_show\n4 T try_to_wake_up\n5 t x\n6 D steer_data\n"
        self.assertEqual(overhead.watched(text), ["__steer_wake_cpu", "steer_scan", "try_to_wake_up"])


class TableTest(unittest.TestCase):
    def test_each_is_compared_with_its_own(self):
        found = table(*((("wakeup-llc", config, "instructions", value))
                        for config, value in ((PRISTINE, 1000), (OFF, 1000), (UNUSED, 1010), ("pack", 1030))))
        self.assertIsNone(found.added("wakeup-llc", PRISTINE, 40))
        self.assertEqual(found.added("wakeup-llc", OFF, 40), 0)
        self.assertEqual(found.added("wakeup-llc", UNUSED, 40), 10)
        self.assertEqual(found.added("wakeup-llc", "pack", 40), 20)
        self.assertAlmostEqual(found.percent("wakeup-llc", "pack", 40), 20 / 1010 * 100)
        self.assertIsNone(found.added("wakeup-llc", "wake_hold", 40))

    def test_verdicts(self):
        entries = []
        for config, instructions, noops in ((PRISTINE, 1000, 5), (OFF, 1000, 5), (UNUSED, 1004, 9),
                                            ("wake_hold", 1014, 9), ("pack", 1104, 9)):
            entries += [("wakeup-llc", config, "instructions", instructions), ("wakeup-llc", config, "noops", noops),
                        ("wakeup-llc", config, "work", instructions - noops), ("wakeup-llc", config, "own", 0)]
        words = {line[1].split(",")[0]: line[0] for line in overhead.verdicts(table(*entries))}
        self.assertEqual(words, {"=n": "yes", "=y unused": "yes", "wake_hold": "yes", "pack": "NO"})

    def test_a_change_of_off_is_one_in_either_direction(self):
        entries = [("wakeup-llc", PRISTINE, "instructions", 1000), ("wakeup-llc", OFF, "instructions", 990)]
        self.assertEqual([line[0] for line in overhead.verdicts(table(*entries))], ["NO"])

    def test_where_it_goes(self):
        def counted(config, **functions):
            return Counted(Case("fork", config, 40, 0), {}, functions)
        found = overhead.where_it_goes([counted(UNUSED, a=10, b=5), counted("pack", a=12, b=5, c=30)], "fork", "pack")
        self.assertEqual(found, [("c", 30), ("a", 2)])

    def test_functions_only_where_both_were_counted(self):
        """Without the pristine kernel, all functions of `unused` would be said to be added."""
        def text(*configs):
            counted = [Counted(Case("wakeup-apart", config, 20, 0), {"instructions": 100.0, "noops": 0.0, "work": 100.0,
                                                                     "own": 0.0}, {"f": number * 10.0})
                       for number, config in enumerate(configs, 1)]
            run = overhead.Run(QUICK, [Boot("lab", "lab", tuple(one.case for one in counted))], 1, Path("x"), "x", True)
            run.results.rows = overhead.rows_of(counted)
            return overhead.text_of(run.results, counted)
        self.assertIn("Functions that differ, elsewhere, wakeup-apart: f +10.0\n", text(UNUSED, ELSEWHERE))
        self.assertNotIn("differ, unused", text(UNUSED, ELSEWHERE))
        self.assertIn("Functions that differ, unused, wakeup-apart: f +10.0\n", text(PRISTINE, UNUSED))

    def test_header_says_what_was_counted(self):
        boots = [Boot("lab", "lab", (Case("fork", UNUSED, 20, 0),))]
        header = overhead.Run(QUICK, boots, 1, Path("x"), "x", True).results.environment
        self.assertEqual(header["mechanism"], provenance.mechanism())
        # Kernels that are there may be older than what they were built from.
        self.assertEqual(overhead.Run(QUICK, boots, 1, Path("x"), "x", False).results.environment["mechanism"], "")

    def test_header_says_what_each_boot_ran_on(self):
        boots = [Boot(name, overhead.VARIANTS.get(name, "lab"), (Case("tree", ELSEWHERE, 10, 0),))
                 for name in (PRISTINE, "trees")]
        run = overhead.Run(QUICK, boots, 1, Path("x"), "x", True, 3)
        with tempfile.TemporaryDirectory() as build:
            target = mock.Mock(out=mock.Mock(return_value=Path(build)))
            (Path(build) / "System.map").write_text("")
            marks = [{"at": "mark", "kernel": 10 * i, "noops": 0, "functions": {}} for i in range(4)]
            for boot in boots:
                result = lab.LabResult(f"@kernel of-{boot.name}\n@case 0\n@ops tree 10 3 0\n@done\n", 0, marks, {}, 1)
                with mock.patch.object(run, "target", target), mock.patch.object(overhead.kbuild, "build"), \
                        mock.patch.object(lab, "run_script", return_value=result) as run_script:
                    run.run_boot(boot)
                self.assertEqual(run_script.call_args.args[0].seed, 3)
        self.assertEqual(run.results.environment["boots"], {
            PRISTINE: {"variant": "lab-pristine", "kernel": f"of-{PRISTINE}", "seed": 3},
            "trees": {"variant": "lab", "kernel": "of-trees", "seed": 3}})
        # 'make bench' has no such choice.
        self.assertIn("--seed 3", "".join(run.results.environment["remarks"]))
        self.assertEqual(overhead.Run(QUICK, boots, 1, Path("x"), "x", True).results.environment["remarks"], [])

    def test_spread(self):
        self.assertEqual(overhead.spread([99, 100, 101]), 2)
        self.assertEqual(overhead.spread([0, 0]), 0)

    def test_every_configuration_of_the_short_form_exists(self):
        for name in SUITE.quick_configurations:
            SUITE.configuration(name)


if __name__ == "__main__":
    unittest.main()
