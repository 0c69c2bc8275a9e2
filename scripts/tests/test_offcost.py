# SPDX-License-Identifier: GPL-2.0-only
"""The cost of an unused feature, on small made-up objects."""

import contextlib
import io
import unittest
from collections import Counter
from unittest import mock

import context  # noqa: F401
import offcost
from common import Fail, Target
from offcost import Instruction, Listing

SYMBOLS = {".text": (".text", 0), ".text.unlikely": (".text.unlikely", 0), "f": (".text", 0), "g": (".text", 0x20),
           "f.cold": (".text.unlikely", 0)}

PRISTINE = """
f.o:     file format elf64-x86-64

Disassembly of section .text:

0000000000000000 <f>:
   0:\tpush   %rbx
   1:\ttest   %edi,%edi
   3:\tje     9 <f+0x9>
   5:\tcall   a <f+0xa>
\t\t\t6: R_X86_64_PLT32\tsomewhere-0x4
   9:\tpop    %rbx
   a:\tret
   b:\tnopl   0x0(%rax,%rax,1)

0000000000000020 <g>:
  20:\tret
"""

# The same with a branch at 3: its block is at 11, and goes on at 5 or returns.
OURS = """
Disassembly of section .text:

0000000000000000 <f>:
   0:\tpush   %rbx
   1:\ttest   %edi,%edi
   3:\txchg   %ax,%ax
   5:\tje     b <f+0xb>
   7:\tcall   c <f+0xc>
\t\t\t8: R_X86_64_PLT32\tsomewhere-0x4
   b:\tpop    %rbx
   c:\tret
  11:\tcall   16 <f+0x16>
\t\t\t12: R_X86_64_PLT32\t__steer-0x4
  16:\ttest   %eax,%eax
  18:\tjne    b <f+0xb>
  1a:\tjmp    5 <f+0x5>

0000000000000020 <g>:
  20:\tret
"""


def listing(text: str, branches: list[tuple[str, int, int]] = [], functions: tuple[str, ...] = ("f", "g")) -> Listing:
    return Listing(offcost.parse_disassembly(text.splitlines(), SYMBOLS), {name: SYMBOLS[name] for name in functions},
                   [(key, (".text", a), (".text", b)) for key, a, b in branches])


class Parse(unittest.TestCase):
    def test_instructions(self) -> None:
        code = listing(PRISTINE).code
        self.assertEqual(len(code), 8)
        self.assertEqual(code[".text", 3].target, (".text", 9))
        self.assertIsNone(code[".text", 5].target, "a call is no jump")
        self.assertTrue(code[".text", 0xb].is_nop)
        self.assertFalse(code[".text", 0xa].falls_through)

    def test_nops(self) -> None:
        for text in ("nop", "nopw   0x0(%rax,%rax,1)", "xchg   %ax,%ax", "cs nopw 0x0(%rax,%rax,1)", "data16 cs nopw 0x0",
                     "data16"):
            self.assertTrue(Instruction(text).is_nop, text)
        for text in ("xchg   %ax,%bx", "mov    %rax,%rbx", "lea    0x0(%rsi),%rsi", "pause"):
            self.assertFalse(Instruction(text).is_nop, text)

    def test_jump_to_another_section(self) -> None:
        code = offcost.parse_disassembly(
            ["Disassembly of section .text:", "   5:\tjne    b <f+0xb>",
             "\t\t\t7: R_X86_64_PC32\t.text.unlikely+0x6"], SYMBOLS)
        self.assertEqual(code[".text", 5].target, (".text.unlikely", 10))

    def test_arm64(self) -> None:
        code = offcost.parse_disassembly(
            ["Disassembly of section .text:", "   0:\tb.ne\t18 <f+0x18>  // b.any", "   4:\tbl\t0 <x>",
             "\t\t\t4: R_AARCH64_CALL26\tx", "   8:\ttbnz\tw0, #3, 20 <f+0x20>", "   c:\tb\t4 <f+0x4>", "  10:\tnop"], SYMBOLS)
        self.assertEqual([code[".text", i].target for i in (0, 4, 8, 12)],
                         [(".text", 0x18), None, (".text", 0x20), (".text", 4)])
        self.assertEqual([code[".text", i].falls_through for i in (0, 4, 8, 12)], [True, True, True, False])
        self.assertTrue(code[".text", 16].is_nop)

    def test_symbols(self) -> None:
        symbols, functions = offcost.read_symbols([
            "0000000000007750 l     F .text\t00000000000001e2 check_preempt", "0000000000000000 l    d  .text\t0 .text",
            "0000000000000000         *UND*\t0000000000000000 steer_hint_key",
            "0000000000000010 g     F .text\t0000000000000005 .hidden h"])
        self.assertEqual(symbols["check_preempt"], (".text", 0x7750))
        self.assertEqual(functions, {"check_preempt", "h"})

    def test_branches(self) -> None:
        relocations = list(offcost.read_relocations([
            "RELOCATION RECORDS FOR [__jump_table]:", "OFFSET           TYPE              VALUE",
            "0000000000000000 R_X86_64_PC32     .text+0x0000000000000003",
            "0000000000000004 R_X86_64_PC32     .text+0x0000000000000011",
            "0000000000000008 R_X86_64_PC64     steer_hint_key+0x1", "",
            "RELOCATION RECORDS FOR [.rodata]:", "0000000000000000 R_X86_64_64       .text+0x0000000000000020"]))
        branches, indirect = offcost.read_branches(relocations, SYMBOLS)
        self.assertEqual(branches, [("steer_hint_key", (".text", 3), (".text", 0x11))])
        self.assertEqual(indirect, {(".text", 0x20)})

    def test_branch_to_nowhere(self) -> None:
        self.assertRaisesRegex(Fail, "unknown symbol", offcost.read_branches,
                               [("__jump_table", i, "nowhere+0x0") for i in (0, 4, 8)], SYMBOLS)
        self.assertRaisesRegex(Fail, "no relocation", offcost.read_branches, [("__jump_table", 0, ".text+0x3")], SYMBOLS)

    def test_clones(self) -> None:
        for name in ("f", "f.cold", "f.part.0", "f.isra.0", "f.constprop.0.cold"):
            self.assertEqual(offcost.base_name(name), "f")
        self.assertEqual(offcost.base_name("f.h"), "f.h")


class Kinds(unittest.TestCase):
    def test_kinds(self) -> None:
        for text, kind in (("jne    b <f+0xb>", offcost.BRANCHES), ("jmp    b <f+0xb>", offcost.JUMPS),
                           ("call   c <f+0xc>", offcost.CALLS), ("mov    0x8(%rdi),%rax", offcost.MEMORY),
                           ("mov    %gs:0x0(%rip),%rax", offcost.MEMORY), ("mov    0x0(,%rax,8),%rax", offcost.MEMORY),
                           ("cmpl   $0x1,0x0(%rip)", offcost.MEMORY), ("mov    0x8(%rsp),%rax", offcost.REST),
                           ("push   %rbx", offcost.REST), ("lea    0x8(%rdi),%rax", offcost.REST),
                           ("add    %rax,%rbx", offcost.REST), ("ret", offcost.REST),
                           ("ldr\tx0, [x1, #8]", offcost.MEMORY), ("stp\tx29, x30, [sp, #-32]!", offcost.REST),
                           ("cmovne %rax,%rbx", offcost.BRANCHES), ("cmovne 0x8(%rdi),%rax", offcost.MEMORY),
                           ("csel\tx0, x1, x2, ne", offcost.BRANCHES),
                           ("b.ne\t18 <f+0x18>", offcost.BRANCHES), ("bl\t0 <x>", offcost.CALLS)):
            self.assertEqual(Instruction(text).kind, kind, text)


class Compare(unittest.TestCase):
    def cost(self, pristine: str, ours: str, key: str = "key", always: set[str] | None = None) -> list[offcost.Cost]:
        return offcost.compare(listing(pristine), listing(ours, [("key", 3, 0x11)]), key, always or set())

    def test_only_a_noop(self) -> None:
        cost, = self.cost(PRISTINE, OURS)
        self.assertEqual((cost.name, cost.pristine.total(), cost.behind, cost.sites), ("f", 6, 4, 1))
        self.assertEqual(cost.pristine, cost.ours)
        self.assertEqual(cost.problems(), [])

    def test_work_before_the_branch(self) -> None:
        for text, kind in (("mov    0x8(%rdi),%rax", "memory"), ("jne    b <f+0xb>", "branches"), ("call   9 <f>", "calls")):
            cost, = self.cost(PRISTINE, OURS.replace("   1:\ttest", f"   2:\t{text}\n   1:\ttest"))
            self.assertEqual(cost.problems(), [f"f: +1 {kind}"])

    def test_register_moves_are_bounded(self) -> None:
        for count, problems in ((3, []), (4, ["f: +4 rest"])):
            moves = "".join(f"  {i:x}:\tmov    %rax,%rbx\n" for i in range(0xd, 0xd + count))
            cost, = self.cost(PRISTINE, OURS.replace("  11:\tcall", f"{moves}  11:\tcall"))
            self.assertEqual(cost.problems(), problems)

    def test_more_of_them_in_a_large_function(self) -> None:
        def problems(more: int) -> list[str]:
            return offcost.Cost("f", Counter(rest=919), Counter(rest=919 + more), 0, 1).problems()
        self.assertEqual((problems(9), problems(10)), ([], ["f: +10 rest"]))

    def test_not_on_the_wakeup_path(self) -> None:
        self.assertEqual(offcost.Cost("can_migrate_task", Counter(), Counter(calls=9), 0, 1).problems(), [])
        self.assertEqual(offcost.Cost("unheard_of", Counter(), Counter(calls=9), 0, 1).problems(),
                         ["unheard_of: +9 calls"])

    def test_balance_path_was_looked_at(self) -> None:
        """A function that was inlined, or lost its branch, would else be compared with nothing."""
        costs = [offcost.Cost(name, Counter(), Counter(), 0, sites)
                 for name, sites in (("balance.isra.0", 1), ("numa", 2), ("no_branch", 0))]
        self.assertEqual(offcost.without_branch(costs, {"balance", "numa"}), [])
        self.assertEqual(offcost.without_branch(costs, {"balance", "no_branch", "gone"}), ["gone", "no_branch"])

    def test_block_that_is_also_reached_otherwise(self) -> None:
        cost, = self.cost(PRISTINE, OURS.replace("je     b <f+0xb>", "je     11 <f+0x11>"))
        self.assertEqual((cost.behind, cost.problems()), (0, ["f: +1 branches", "f: +1 calls"]))

    def test_other_keys_stay(self) -> None:
        ours = listing(OURS, [("key", 3, 0x11), ("psi_disabled", 5, 0x16)])
        cost, = offcost.compare(listing(PRISTINE), ours, "key", set())
        self.assertEqual((cost.behind, cost.problems()), (1, ["f: +1 branches"]))

    def test_function_without_a_branch(self) -> None:
        self.assertEqual([cost.name for cost in self.cost(PRISTINE, OURS, always={"g"})], ["f", "g"])
        costs = self.cost(PRISTINE, OURS.replace("  20:\tret", "  20:\tcall   9 <f>\n  22:\tret"), always={"g"})
        self.assertEqual([cost.problems() for cost in costs], [[], ["g: +1 calls"]])

    def test_cold_part_counts(self) -> None:
        ours = OURS.replace("jne    b <f+0xb>", "jne    1c <f+0x1c>\n\t\t\t18: R_X86_64_PC32\t.text.unlikely-0x4")
        ours += "\nDisassembly of section .text.unlikely:\n\n0000000000000000 <f.cold>:\n   0:\tud2\n"
        after = listing(ours, [("key", 3, 0x11)], ("f", "g"))
        after.functions["f.cold"] = SYMBOLS["f.cold"]
        cost, = offcost.compare(listing(PRISTINE), after, "key", set())
        self.assertEqual(cost.ours.total() + cost.behind, 11)


class Identical(unittest.TestCase):
    def status(self, pristine: str, ours: str) -> offcost.Test:
        def capture(command: list[object], **_: object) -> str:
            return f"{command[-1]}:     file format elf64-x86-64\n" + (pristine if "pristine" in str(command[-1]) else ours)
        with mock.patch.object(offcost, "capture", capture), contextlib.redirect_stdout(io.StringIO()):
            return offcost.identical(Target(), ["kernel/sched/fair.o"], "objdump")

    def test_same(self) -> None:
        self.assertEqual(self.status(PRISTINE, PRISTINE).status, "passed")

    def test_one_register(self) -> None:
        test = self.status(PRISTINE, PRISTINE.replace("pop    %rbx", "pop    %rcx"))
        self.assertEqual(test.status, "failed")
        for needed in ("fair.o", "<f>", "pop    %rbx", "pop    %rcx"):
            self.assertIn(needed, test.detail)

    def test_one_relocation(self) -> None:
        self.assertEqual(self.status(PRISTINE, PRISTINE.replace("somewhere", "elsewhere")).status, "failed")

    def test_longer(self) -> None:
        self.assertEqual(self.status(PRISTINE, PRISTINE + "  21:\tret\n").status, "failed")
        self.assertEqual(self.status(PRISTINE + "  21:\tret\n", PRISTINE).status, "failed")


if __name__ == "__main__":
    unittest.main()
