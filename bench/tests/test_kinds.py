# SPDX-License-Identifier: GPL-2.0-only
"""Machines whose CPUs are of several kinds: what their kernel and the plugin are told of them."""

from __future__ import annotations

import importlib.util
import unittest

import context  # noqa: F401
import devicetree
import lab
from topology import TOPOLOGIES, Kind

SLOW = Kind(capacity=500, coefficient=100, idle_permille=250, levels=((500, 700), (1000, 1000)))
FAST = Kind(capacity=1000, coefficient=400, idle_permille=100, levels=((2000, 1000),))


class Figures(unittest.TestCase):
    def test_power(self) -> None:
        self.assertEqual([SLOW.power(0), SLOW.power(1), SLOW.idle_power()], [24500, 100000, 6125])

    def test_all_kinds_are_in_order(self) -> None:
        """Each level is faster than the one before and dearer for a unit of work, and idling is cheaper."""
        for topology in TOPOLOGIES.values():
            for _, kind in topology.kinds():
                speeds = [kind.speed(level) for level in range(len(kind.levels))]
                costs = [kind.power(level) / speed for level, speed in enumerate(speeds)]
                self.assertEqual([speeds, costs], [sorted(set(speeds)), sorted(set(costs))])
                self.assertLess(kind.idle_power(), kind.power(0))

    def test_domains_are_the_machine(self) -> None:
        for name, topology in TOPOLOGIES.items():
            if topology.domains:
                self.assertEqual(sum(count for count, _ in topology.domains), topology.cpus, name)
                self.assertLessEqual(max(len(kind.levels) for _, kind in topology.kinds()), 16, name)

    def test_lines_for_the_plugin(self) -> None:
        lines = lab.domain_lines(lab.TOPOLOGIES["biglittle"]).splitlines()
        # 592 of 1024, and 533 of 2362 MHz; 110 uW x 533 MHz x 0.49 V^2
        self.assertTrue(lines[0].startswith("4 6233 130:28728 "))
        self.assertTrue(lines[1].endswith(" 1000:1571911;"))
        self.assertEqual(lab.domain_lines(lab.TOPOLOGIES["zen"]), "")


@unittest.skipUnless(importlib.util.find_spec("libfdt"), "needs python3-libfdt")
class Tree(unittest.TestCase):
    def test_kinds_in_the_tree(self) -> None:
        tree = devicetree.libfdt().Fdt.create_empty_tree(4096)
        tree.add_subnode(0, "cpus")
        for cpu in range(3):
            tree.add_subnode(tree.path_offset("/cpus"), f"cpu@{cpu}")
        tree = devicetree.libfdt().Fdt(devicetree.describe_kinds(bytes(tree.as_bytearray()), [(1, SLOW), (2, FAST)]))

        def number(path: str, name: str) -> int:
            return int.from_bytes(bytes(tree.getprop(tree.path_offset(path), name)), "big")
        self.assertEqual([number(f"/cpus/cpu@{cpu}", "capacity-dmips-mhz") for cpu in range(3)], [500, 1000, 1000])
        self.assertEqual([number(f"/cpus/cpu@{cpu}", "dynamic-power-coefficient") for cpu in range(3)], [100, 400, 400])
        tables = [number(f"/cpus/cpu@{cpu}", "operating-points-v2") for cpu in range(3)]
        self.assertEqual(tables, [number(f"/opp-table-{table}", "phandle") for table in (0, 1, 1)])
        points, point = [], tree.first_subnode(tree.path_offset("/opp-table-0"))
        while point >= 0:
            points.append((tree.getprop(point, "opp-hz").as_uint64(), tree.getprop(point, "opp-microvolt").as_uint32()))
            point = tree.next_subnode(point, [devicetree.libfdt().NOTFOUND])
        # In order, as the driver wants them
        self.assertEqual(points, [(500000000, 700000), (1000000000, 1000000)])


if __name__ == "__main__":
    unittest.main()
