# SPDX-License-Identifier: GPL-2.0-only
"""Tests of bench/regression.py."""

from __future__ import annotations

import unittest
from typing import Any

import context  # noqa: F401  # pylint: disable=unused-import
import regression


def rows(**p99: float) -> list[dict[str, Any]]:
    return [{"bench": "schbench", "load": regression.WORKERS, "metric": "wakeup_p99", "config": config, "median": value}
            for config, value in p99.items()]


class Judge(unittest.TestCase):
    def statuses(self, **p99: float) -> list[str]:
        return [test.status for test in regression.judge(rows(**p99))]

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


if __name__ == "__main__":
    unittest.main()
