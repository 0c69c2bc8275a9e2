# SPDX-License-Identifier: GPL-2.0-only
"""How many instructions a loop of a compiled program takes, read from its disassembly."""

from __future__ import annotations

import re
from pathlib import Path

from common import Fail, Target, capture

# As objdump prints it: the address, the instruction, its operands.
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t([\w.]+)(?:\t(.*))?$", re.MULTILINE)
BRANCHES = re.compile(r"b\.\w+|cbn?z|tbn?z")
# What a store of so many registers of a kind writes, in bytes.
REGISTERS = {"w": 4, "x": 8, "s": 4, "d": 8, "q": 16}


def stored_bytes(name: str, operands: str) -> int:
    """What an instruction of arm64 stores; 0 if it is no store."""
    match = re.match(r"([wxsdq])\d+", operands)
    if name not in ("str", "stur", "stp", "stnp") or not match:
        return 0
    return REGISTERS[match[1]] * (2 if "p" in name else 1)


def per_element(text: str, function: str, element: int) -> float:
    """Instructions for each element of so many bytes that a function stores, from its disassembly.

    A function with a loop for most elements, and another for the rest, counts by the one that stores more.
    """
    code = [(int(at, 16), name, operands) for at, name, operands in INSTRUCTION.findall(text)]
    loops = []
    for at, name, operands in code:
        target = re.search(r"(?:^|, )([0-9a-f]+) <", operands)
        if BRANCHES.fullmatch(name) and target and int(target[1], 16) <= at:
            body = [(name, operands) for place, name, operands in code if int(target[1], 16) <= place <= at]
            loops.append((sum(stored_bytes(*instruction) for instruction in body), len(body)))
    stored, count = max(loops, default=(0, 0))
    if not stored:
        raise Fail(f"the disassembly of {function}() has no loop that stores anything:\n{text[-1000:]}")
    return count * element / stored


def instructions(target: Target, program: Path, function: str, element: int) -> float:
    """The same of a function of an arm64 program."""
    text = capture([f"{target.cross_compile}objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", program])
    return per_element(text, function, element)
