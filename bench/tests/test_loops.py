# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of a loop are counted in a disassembly."""

import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import loops
from common import Fail, Target

SCALAR = """
0000000000400c60 <copy>:
  400c60:\tldp\tx3, x1, [x0, #16]
  400c64:\tldr\tx2, [x0]
  400c68:\tcbz\tx1, 400c84 <copy+0x24>
  400c6c:\tmov\tx0, #0x0                   \t// #0
  400c70:\tldr\td0, [x2, x0, lsl #3]
  400c74:\tstr\td0, [x3, x0, lsl #3]
  400c78:\tadd\tx0, x0, #0x1
  400c7c:\tcmp\tx0, x1
  400c80:\tb.ne\t400c70 <copy+0x10>  // b.any
  400c84:\tret
"""
# Two elements at a time, and one that is left.
VECTOR = """
0000000000000000 <copy>:
   0:\tldr\tq0, [x2, x0]
   4:\tstr\tq0, [x3, x0]
   8:\tadd\tx0, x0, #0x10
   c:\tcmp\tx0, x1
  10:\tb.ne\t0 <copy>  // b.any
  14:\tldr\td0, [x2, x0]
  18:\tstr\td0, [x3, x0]
  1c:\tadd\tx0, x0, #0x8
  20:\tsub\tx1, x1, #0x1
  24:\tcbnz\tx1, 14 <copy+0x14>
  28:\tret
"""


class PerElement(unittest.TestCase):
    def test_loops(self) -> None:
        self.assertEqual(loops.per_element(SCALAR, "copy", 8), 5)
        self.assertEqual(loops.per_element(VECTOR, "copy", 8), 2.5)
        self.assertEqual(loops.per_element(VECTOR.replace("str\tq0, [x3, x0]", "stp\tq0, q1, [x3]"), "copy", 8), 1.25)

    def test_without_a_loop(self) -> None:
        for text in "", SCALAR.replace("b.ne", "b.none?"), SCALAR.replace("str", "ldr"):
            with self.assertRaisesRegex(Fail, "of copy.. has no loop"):
                loops.per_element(text, "copy", 8)

    def test_of_a_program(self) -> None:
        with mock.patch.object(loops, "capture", return_value=SCALAR) as capture:
            self.assertEqual(loops.instructions(Target(arch="arm64"), Path("stream"), "copy", 8), 5)
        self.assertEqual(capture.call_args.args[0][-2:], ["--disassemble=copy", Path("stream")])


if __name__ == "__main__":
    unittest.main()
