# SPDX-License-Identifier: GPL-2.0-only
"""Tests of bench/regression.py."""

from __future__ import annotations

import unittest
from typing import Any

import context  # noqa: F401  # pylint: disable=unused-import
import regression


def rows(bench: str, load: int, metric: str, **medians: float) -> list[dict[str, Any]]:
    return [{"bench": bench, "load": load, "metric": metric, "config": config, "median": median}
            for config, median in medians.items()]


class Hints(unittest.TestCase):
    def statuses(self, **p99: float) -> list[str]:
        found = rows("schbench", regression.WORKERS, "wakeup_p99", **p99)
        return [test.status for test in regression.judge("hint", found)]

    def test_cured(self) -> None:
        self.assertEqual(self.statuses(none=12.0, seed1=530.0, fork_affine=11.0, wake_affine=24.0), ["passed"] * 3)

    def test_hint_collapses(self) -> None:
        self.assertEqual(self.statuses(none=12.0, seed1=530.0, fork_affine=600.0, wake_affine=24.0),
                         ["passed", "failed", "passed"])

    def test_lab_shows_nothing(self) -> None:
        self.assertEqual(self.statuses(none=12.0, seed1=13.0, fork_affine=11.0, wake_affine=12.0)[0], "failed")

    def test_not_measured(self) -> None:
        self.assertEqual(self.statuses(none=12.0, seed1=530.0), ["passed", "failed", "failed"])
        self.assertEqual(self.statuses(seed1=530.0, fork_affine=11.0, wake_affine=12.0), ["failed"] * 3)


class Gangs(unittest.TestCase):
    def statuses(self, rate: float, late: float, plain: float = 3900.0) -> list[str]:
        found = [*rows("barrier", regression.GANGS, "rate", eevdf=140.0, gang_llc=rate),
                 *rows("barrier", regression.GANGS, "late_p99", eevdf=plain, gang_llc=late)]
        return [test.status for test in regression.judge("gang", found)]

    def test_gang_gains(self) -> None:
        self.assertEqual(self.statuses(7100.0, 4000.0), ["passed"] * 2)
        self.assertEqual(self.statuses(7100.0, 4000.0, 200.0), ["passed"] * 2)
        self.assertEqual(self.statuses(7100.0, 4300.0, 200.0), ["passed", "failed"])

    def test_gang_gains_nothing(self) -> None:
        self.assertEqual(self.statuses(150.0, 4000.0), ["failed", "passed"])

    def test_gangs_go_first(self) -> None:
        self.assertEqual(self.statuses(7100.0, 11600.0), ["passed", "failed"])

    def test_another_load_is_no_answer(self) -> None:
        found = rows("barrier", 1, "rate", eevdf=140.0, gang_llc=7100.0)
        self.assertEqual([test.status for test in regression.judge("gang", found)], ["failed"] * 2)


if __name__ == "__main__":
    unittest.main()
