# SPDX-License-Identifier: GPL-2.0-only
"""bench/core-sharing.sh: what it makes of a trace."""

from __future__ import annotations

import subprocess
import unittest

import awk


def summary(*switches: str) -> subprocess.CompletedProcess[str]:
    """What the script's awk program says of these switches ('CPU STAMP FROM TO'), and comments."""
    lines = []
    for switch in switches:
        if switch.startswith("#"):
            lines.append(switch)
            continue
        cpu, stamp, before, after = switch.split()
        lines.append(f"   some thread-7       [{cpu}] d..2.   {stamp}: sched_switch: prev_comm={before} prev_pid=7 "
                     f"prev_prio=120 prev_state=S ==> next_comm={after} next_pid=8 next_prio=120")
    return awk.on_trace("core-sharing.sh", lines)


class CoreSharing(unittest.TestCase):

    def test_beside_each(self) -> None:
        got = summary("000 1.000 swapper/0 serve-front", "001 1.000 swapper/1 sidejob", "001 1.001 sidejob swapper/1",
                      "001 1.004 swapper/1 serve-back", "000 1.005 serve-front swapper/0",
                      "001 1.008 serve-back swapper/1")
        # 1 ms beside the side job; 3 and 3 beside nothing; 1 ms of both threads beside each other.
        self.assertIn("6 switches; beside itself 22.2 %, the side job 11.1 %, nothing 66.7 %", got.stdout)

    def test_cores_are_apart(self) -> None:
        got = summary("002 1.000 swapper/2 sidejob", "003 1.000 swapper/3 sidejob", "010 1.000 swapper/10 serve-back",
                      "011 1.000 swapper/11 swapper/11", "010 1.001 serve-back swapper/10",
                      "003 1.002 sidejob swapper/3")
        self.assertIn("beside itself 0.0 %, the side job 0.0 %, nothing 100.0 %", got.stdout)

    def test_buffers_begin_at_different_times(self) -> None:
        """CPU 1 has had fewer switches, so its buffer goes further back: to a time of which nothing is known of CPU 0."""
        got = summary("001 1.000 swapper/1 sh", "##### CPU 0 buffer started ####", "000 9.000 serve-front swapper/0",
                      "001 9.002 sh sidejob", "000 9.002 swapper/0 serve-front", "001 9.003 sidejob swapper/1",
                      "000 9.006 serve-front swapper/0")
        self.assertIn("beside itself 0.0 %, the side job 25.0 %, nothing 75.0 %", got.stdout)

    def test_no_service(self) -> None:
        got = summary("002 1.000 swapper/2 sidejob", "003 1.000 swapper/3 sidejob", "002 1.001 sidejob swapper/2")
        self.assertEqual(got.returncode, 1)
        self.assertIn("the trace has nothing of the service", got.stdout)
