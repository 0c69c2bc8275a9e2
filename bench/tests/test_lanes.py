# SPDX-License-Identifier: GPL-2.0-only
"""Two steps of a check that need the same file of the lab at once, as lab-check and lab-ratios do."""

import contextlib
import io
import multiprocessing
import tempfile
import threading
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import common  # noqa: E402
import devicetree  # noqa: E402
import initramfs  # noqa: E402
import lab  # noqa: E402
from common import Target  # noqa: E402

# Seconds to wait for a second one that makes the file: with a lock there is none, and the test takes that long.
TOGETHER = 1.0
STEPS = 2


class Lanes(unittest.TestCase):
    def setUp(self) -> None:
        for module, name, stand_in in (
                (common, "ROOT", Path(self.enterContext(tempfile.TemporaryDirectory()))),
                (devicetree, "describe_caches", lambda plain, *_: plain), (devicetree, "capture", self.dump),
                (lab, "run_logged", self.compile), (initramfs, "run_logged", self.compile)):
            self.enterContext(mock.patch.object(module, name, stand_in))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))
        self.target = Target(arch="arm64")
        self.context = multiprocessing.get_context("fork")  # so that the steps have the patches as well
        self.barrier = self.context.Barrier(STEPS)
        self.made = self.context.Value("i", 0)

    def make(self, path: Path) -> None:
        """Write a file in two parts; whoever else makes it meanwhile is waited for in between."""
        path.write_text("half", encoding="utf-8")
        with contextlib.suppress(threading.BrokenBarrierError):
            self.barrier.wait(TOGETHER)
        path.write_text("whole", encoding="utf-8")
        with self.made.get_lock():
            self.made.value += 1

    def dump(self, command: Sequence[str]) -> str:
        self.make(Path(next(word for word in command if "dumpdtb=" in word).split("dumpdtb=")[1]))
        return ""

    def compile(self, command: Sequence[str | Path], _log: Path, _what: str) -> None:
        self.make(Path(command[list(command).index("-o") + 1]))

    def together(self, build: Callable[[], Path | None]) -> None:
        def step() -> None:
            path = build()
            results.put(path.read_text(encoding="utf-8") if path else "")

        results = self.context.SimpleQueue()
        steps = [self.context.Process(target=step) for _ in range(STEPS)]
        for each in steps:
            each.start()
        for each in steps:
            each.join()
        self.assertEqual([each.exitcode for each in steps], [0] * STEPS)
        self.assertEqual([results.get() for _ in steps], ["whole"] * STEPS)
        self.assertEqual(self.made.value, 1)

    def test_device_tree(self) -> None:
        self.together(lambda: lab.device_tree(self.target, lab.machine_of("zen"), "10.0"))

    def test_plugin(self) -> None:
        self.together(lambda: lab.build_plugin(self.target))

    def test_program(self) -> None:
        self.together(lambda: lab.own_program(self.target, "lab-mark"))


if __name__ == "__main__":
    unittest.main()
