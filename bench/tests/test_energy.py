# SPDX-License-Identifier: GPL-2.0-only
"""Suite energy: complete, affordable, and its figures judge as they are worded; what rt-app says is understood."""

import json
import re
import unittest

import context  # noqa: F401
import fake
import parsers
import suite
from results import Results, TopologyView
from suite import FULL, HOST, LAYOUTS, QUICK, Selection, Verdict

ENERGY = suite.load_suite("energy")
# Two tasks: the first begins slowly, and misses one deadline that counts; the second has no period.
LOG = """# started on now
12,,migrations,100,100.00,,
# Policy : SCHED_OTHER priority : 0
#idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat
   0     8000     1700     8000            1000            9000               0      -9000        800       8000         50
   0     8000     1700     8000            9000           17000            8000      -9000        800       8000         50
   0     8000     1700     8000           17000           25000           16000      -9000        800       8000         50
   0     8000     1700     8000           25000           33000           24000      -9000        800       8000         50
   0     8000      900     8000           33000           41000           32000       4000        800       8000         50
   0     8000      900     8000           41000           49000           40000       -800        800       8000         50
# Policy : SCHED_OTHER priority : 0
   0    80000    90000        0            1000           99000               0          0      80000          0          0
"""


def verdict(what: str, *parts: Results) -> Verdict:
    """The verdict on the figure whose description begins so, from the results of several metrics."""
    figure, = [figure for figure in ENERGY.figures if figure.what.startswith(what)]
    rows = [row for part in parts for row in part.rows]
    found = Results(ENERGY.name, parts[0].environment, rows)
    return figure.judge(TopologyView(found, ENERGY, "biglittle"), LAYOUTS["biglittle"].describe())


def measured(bench: str, metric: str, eas: float, energy: float) -> Results:
    load = ENERGY.bench(bench).loads(QUICK)[0]
    return fake.results({"eas": {load: eas}, "energy": {load: energy}}, bench, "biglittle", ENERGY, metric=metric)


class Logs(unittest.TestCase):
    def test_rt_app(self) -> None:
        self.assertEqual(parsers.rt_app(LOG), {"missed": 50.0, "slack": -10.0, "elapsed": 98.0, "migrations": 12.0})
        self.assertNotIn("migrations", parsers.rt_app(LOG.replace("migrations", "faults")))
        with self.assertRaisesRegex(parsers.Unreadable, "no log"):
            parsers.rt_app("12,,migrations\n")


class Contents(unittest.TestCase):
    def test_files_of_rt_app(self) -> None:
        """What the shell makes of them is JSON, with as many periods as the time has."""
        for bench in ENERGY.benches:
            shell = bench.shell(bench.loads(QUICK)[0], QUICK)
            for text in re.findall(r"<<END\n(.*?)\nEND\n", shell, re.DOTALL):
                text = re.sub(r"\$\(\((.*?)\)\)", "7", text).replace("$load", "8").replace("$d", "/tmp")
                tasks = json.loads(text)["tasks"]
                for task in tasks.values():
                    self.assertEqual(task["loop"], 1, bench.name)
                    self.assertTrue(all(phase["loop"] and phase["run"] for phase in task["phases"].values()), bench.name)

    def test_loads(self) -> None:
        for bench in ENERGY.benches:
            self.assertEqual(set(bench.loads(HOST)), set(bench.loads(FULL)), bench.name)
            self.assertLessEqual(set(bench.loads(QUICK)), set(bench.loads(FULL)), bench.name)

    def test_quick_form_is_quick(self) -> None:
        layout, = Selection(form=QUICK).layouts(ENERGY)
        seconds = sum(ENERGY.seconds(bench, load, QUICK, layout)
                      for bench in ENERGY.benches for load in bench.loads(QUICK)
                      for _ in Selection(form=QUICK).configurations(ENERGY, layout, bench))
        self.assertLess(seconds, 2 * 9 * 60)


class Figures(unittest.TestCase):
    def test_savings(self) -> None:
        """Reached with 5 % less energy, and no more misses."""
        def judged(energy: float, missed: float) -> bool | None:
            return verdict("energy, a large task", measured("stuck", "energy", 100, energy),
                           measured("stuck", "missed", 2, missed)).reached
        self.assertEqual([judged(95, 2), judged(96, 2), judged(90, 2.1), judged(95, 0)], [True, False, False, True])

    def test_times(self) -> None:
        self.assertTrue(verdict("perf bench", measured("pipe", "time", 1.0, 0.95)).reached)
        self.assertFalse(verdict("perf bench", measured("pipe", "time", 1.0, 0.97)).reached)
        self.assertTrue(verdict("hackbench, threads", measured("hackbench", "elapsed", 1.0, 1.04)).reached)
        self.assertFalse(verdict("hackbench, threads", measured("hackbench", "elapsed", 1.0, 1.06)).reached)


if __name__ == "__main__":
    unittest.main()
