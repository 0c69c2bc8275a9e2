# SPDX-License-Identifier: GPL-2.0-only
"""bench/headroom-cost.sh: what it makes of a trace."""

from __future__ import annotations

import unittest

import awk

TIMER_BEGINS = "hrtimer_expire_entry: hrtimer=000000001 function=steer_pool_timer now=1"
TIMER_ENDS = "hrtimer_expire_exit: hrtimer=000000001"
SENT = "csd_queue_cpu: cpu=1 callsite=steer_kick func=steer_kicked csd=1"
CALL_BEGINS = "csd_function_entry: func=steer_kicked csd=1"
CALL_ENDS = "csd_function_exit: func=steer_kicked csd=1"
UPDATE = "steer_headroom_update: cgroup=1 trim=-5 took=4500"


def summary(*events: str, decisions: str = "") -> dict[str, str]:
    """What the script's awk program says of these events ('CPU STAMP EVENT: FIELDS'), by kind."""
    lines = []
    for event in events:
        cpu, stamp, rest = event.split(" ", 2)
        lines.append(f"          <idle>-0       [{cpu}] d.h1.   {stamp}: {rest}")
    result = awk.on_trace("headroom-cost.sh", lines, decisions=decisions, groups="1", parents="1", periods="")
    result.check_returncode()
    return dict(line.split(": ", 1) for line in result.stdout.splitlines()
                if line.startswith(("timer", "interrupts", "decisions", "took")))


class HeadroomCost(unittest.TestCase):

    def test_an_interrupt_of_another_cpu(self) -> None:
        got = summary(f"000 1.000000 {TIMER_BEGINS}", f"001 1.000002 {CALL_BEGINS}", f"000 1.000005 {UPDATE}",
                      f"000 1.000010 {TIMER_ENDS}", f"001 1.000012 {CALL_ENDS}")
        self.assertRegex(got["timer"], "^10.0 us a period, 1 calls of 10.00 us in 1 periods")
        self.assertRegex(got["interrupts"], "^10.0 us a period, 1 calls of 10.00 us")

    def test_what_a_timer_calls_on_its_own_cpu_counts_once(self) -> None:
        got = summary(f"000 1.000000 {TIMER_BEGINS}", f"000 1.000002 {CALL_BEGINS}", f"000 1.000005 {CALL_ENDS}",
                      f"000 1.000006 {UPDATE}", f"000 1.000010 {TIMER_ENDS}")
        self.assertRegex(got["timer"], "^7.0 us a period, 1 calls of 7.00 us")
        self.assertRegex(got["interrupts"], "^3.0 us a period, 1 calls of 3.00 us")

    def test_what_a_timer_does_before_its_first_interrupt(self) -> None:
        events = (f"000 1.000000 {TIMER_BEGINS}", f"000 1.000004 {SENT}", f"000 1.000006 {SENT}", f"000 1.000008 {UPDATE}",
                  f"000 1.000010 {TIMER_ENDS}", f"000 1.005000 {TIMER_BEGINS}", f"000 1.005002 {TIMER_ENDS}")
        got = summary(*events, decisions="1")
        self.assertRegex(got["decisions"], "^6.0 us a period, 2 calls of 3.00 us in 1 periods, the longest 4 us")
        self.assertRegex(got["timer"], "^12.0 us a period")
        self.assertNotIn("decisions", summary(*events))

    def test_what_timers_say_themselves(self) -> None:
        longer = UPDATE.replace("took=4500", "took=21500")
        got = summary(f"000 1.000000 {TIMER_BEGINS}", f"000 1.000005 {UPDATE}", f"000 1.000010 {TIMER_ENDS}",
                      f"000 1.100000 {TIMER_BEGINS}", f"000 1.100005 {longer}", f"000 1.100010 {TIMER_ENDS}")
        self.assertEqual(got["took"], "13.0 us a period, at most 21.5")


if __name__ == "__main__":
    unittest.main()
