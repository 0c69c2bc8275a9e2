# SPDX-License-Identifier: GPL-2.0-only
"""Machines in slow motion: every time grows, every rate shrinks, and what is neither stays. And what QEMU is told,
and what the kernel has to see."""

import contextlib
import io
import json
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import ktap
import lab
from common import Fail, Target


class Caches(unittest.TestCase):
    """What the kernel says of its caches, against what is modelled."""

    def test_as_modelled(self) -> None:
        report = ktap.Report(llcs={0: "3", 1: "3", 2: "c", 3: "c"})
        self.assertEqual(lab.wrong_llcs(report, lab.machine_of("1x2x2x1").topology), "")
        self.assertIn("modelled are [[0, 1, 2, 3]]", lab.wrong_llcs(report, lab.machine_of("1x1x4x1").topology))

    def test_of_one_cpu(self) -> None:
        """Where an LLC is one CPU's, the kernel has no domain that shares it."""
        report = ktap.Report(llcs={0: "none", 1: "none"})
        self.assertEqual(lab.wrong_llcs(report, lab.machine_of("1x2x1x1").topology), "")


class Command(unittest.TestCase):
    """What QEMU is told, so that one machine is like the other."""

    @staticmethod
    def command(machine: lab.Machine, append: str = "") -> list[str]:
        with mock.patch.object(lab, "build_plugin", return_value=Path("p")), \
                mock.patch.object(lab, "device_tree", return_value=Path("d")):
            return lab.qemu_command(Target(arch="arm64"), machine, Path("k"), Path("i"), Path("o"), version="10",
                                    append=append, mode="script", plugin_extra={})

    def test_nothing_is_left_to_the_host(self) -> None:
        """Neither random numbers nor when a device has done what it was told."""
        command = self.command(lab.machine_of("xeon"))
        self.assertEqual(command[command.index("-seed") + 1], "1")
        self.assertEqual(command[command.index("-global") + 1], "virtio-mmio.ioeventfd=false")
        self.assertEqual(command, self.command(lab.machine_of("xeon")))

    def test_another_seed(self) -> None:
        machine = lab.machine_of("zen@2", seed=7)
        command = self.command(machine)
        self.assertEqual((command[command.index("-seed") + 1], machine.describe()["seed"]), ("7", 7))
        with mock.patch("sys.argv", ["lab.py", "--seed", "-1", "true"]):
            self.assertRaisesRegex(Fail, "SEED=-1: a seed is", lab.main)

    def test_counts(self) -> None:
        """One line for each mark of the command, and the last one for the whole run; without being asked, none."""
        records = [{"at": "mark", "user": 1}, {"at": "mark", "user": 3}, {"at": "exit", "user": 4}]
        for asked, wanted in (["--counts"], records), ([], []):
            with mock.patch("sys.argv", ["lab.py", *asked, "true"]), \
                    mock.patch.object(lab, "run_script", return_value=lab.LabResult("", 0, records, {}, 1)), \
                    mock.patch("signal.signal"), contextlib.redirect_stdout(io.StringIO()) as printed, \
                    contextlib.redirect_stderr(io.StringIO()):
                self.assertEqual(lab.main(), 0)
            self.assertEqual([json.loads(line) for line in printed.getvalue().splitlines()], wanted)

    def test_how_long_a_disk_takes(self) -> None:
        """And what somebody appends comes after it, and wins."""
        for name, cost, wanted in (("zen", [], 80000), ("zen@20", [], 1600000), ("zen@2", ["disk_ns=5000"], 10000)):
            command = self.command(lab.machine_of(name, cost), "quiet x=1")
            self.assertTrue(command[command.index("-append") + 1].endswith(
                f" null_blk.irqmode=2 null_blk.completion_nsec={wanted} quiet x=1"), command)


class SlowMotion(unittest.TestCase):
    def test_times_and_rates(self) -> None:
        zen, slow = lab.machine_of("zen"), lab.machine_of("zen@20")
        self.assertEqual((slow.name, slow.topology, slow.quantum_ns), ("zen@20", zen.topology, 20 * zen.quantum_ns))
        for key, value in zen.costs.items():
            factor = 20 if key.endswith(("_ns", "_ps")) else 1 / 20 if key.endswith(("_gbs", "_ghz")) else 1
            self.assertAlmostEqual(slow.costs[key], value * factor, msg=key)

    def test_the_plugin_is_told(self) -> None:
        zen, slow = lab.machine_of("zen").plugin_options(), lab.machine_of("zen@2").plugin_options()
        for name in ("instruction", "memory", "ipi", "spin", "node_line", "quantum"):
            self.assertAlmostEqual(slow[name], 2 * zen[name], delta=1, msg=name)
        for name in ("smt_permille", "private_kib", "llc_ways", "ram_bytes", "cores"):
            self.assertEqual(slow[name], zen[name])

    def test_with_sizes_costs_and_changes(self) -> None:
        machine = lab.machine_of("1x1x4x2:xeon@10", ["memory_ns=100"])
        self.assertEqual((machine.topology.cpus, machine.costs["memory_ns"]), (8, 1000.0))

    def test_refused(self) -> None:
        for name in ("zen@", "zen@0", "zen@-1", "zen@2000", "zen@x", "zen@2@2"):
            with self.subTest(name), self.assertRaisesRegex(Fail, "slow motion is @1 to @1000"):
                lab.machine_of(name)
        with self.assertRaisesRegex(Fail, "neither zen nor"):
            lab.machine_of("zem@2")


if __name__ == "__main__":
    unittest.main()
