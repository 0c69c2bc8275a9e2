#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Show what the feature costs who does not use it.

Compiled out: every object that is built from a file that we touch, or that includes one, has the instructions of the
pristine object, byte for byte and relocation for relocation.

Compiled in, static key off: functions with a static branch on the key, and those of the wakeup path, do what the
pristine function does, and a no-op for each branch: no conditional branch or move, no call and no memory access outside
of the stack more. That holds for what balances between nodes, too. What only the branches lead to is not executed while
the key is off and is left out of the count; no-ops are, too, because the compiler also aligns with them. What remains is
how the compiler shuffles registers in a large function when a line is added to it: it is shown, and bounded.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import kbuild
import objects
from common import ROOT, Fail, Target, capture, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, Test  # noqa: E402
from run import show  # noqa: E402

KEYS = r"steer_\w+_key"  # a regular expression: one key for each file, off while nobody uses it
# Compared even where no branch is in them: what a wakeup runs through.
WAKEUP_PATH = {
    "try_to_wake_up", "ttwu_do_activate", "ttwu_queue_wakelist", "select_task_rq_fair", "select_idle_sibling",
    "enqueue_task_fair", "enqueue_entity", "place_entity", "update_curr", "update_deadline",
    "check_preempt_wakeup_fair", "wakeup_preempt", "dequeue_task_fair", "pick_next_task_fair"}

# What balances between nodes runs through these; each has a branch of ours, or it was inlined elsewhere unnoticed.
BALANCE_PATH = {"sched_balance_find_src_group", "sched_balance_rq", "task_numa_find_cpu", "can_migrate_task"}

# Not run through by a wakeup, unless of a group that has a cpu.max: shown, but not held to anything.
ELSEWHERE = {"can_migrate_task", "__assign_cfs_rq_runtime", "cfs_task_bw_constrained", "rq_online_fair",
             "tg_set_cfs_bandwidth"}
BRANCHES, CALLS, MEMORY, JUMPS, REST = KINDS = ("branches", "calls", "memory", "jumps", "rest")
WORK = (BRANCHES, CALLS, MEMORY)
# Register moves, arithmetic, spills: so many, or one in a hundred of a large function.
REST_BOUND, REST_PART = 3, 100

Place = tuple[str, int]  # section, offset


@dataclass
class Instruction:
    """One line of disassembly."""

    text: str
    target: Place | None = None  # where it jumps, if directly

    @property
    def mnemonic(self) -> str:
        words = [w for w in self.text.split() if w not in ("data16", "cs", "ds", "notrack", "bnd")]
        return words[0] if words else ""

    @property
    def is_nop(self) -> bool:
        return self.mnemonic.startswith("nop") or self.text.split(None, 1) in (["xchg", "%ax,%ax"], ["data16"])

    @property
    def is_jump(self) -> bool:
        """A direct jump or branch within the text; calls return and are no jumps."""
        return bool(re.match(r"j[a-z]+$|b$|b\.|cbn?z$|tbn?z$", self.mnemonic))

    @property
    def kind(self) -> str:
        """What it counts as."""
        if self.mnemonic in ("jmp", "b"):
            return JUMPS
        if self.is_jump:
            return BRANCHES
        if self.mnemonic in ("call", "bl", "blr"):
            return CALLS
        # (%rax), %gs:0x0(%rip), 0x0(,%rax,8) on x86, [x0, #8] on arm64; not what is on the stack, and not lea.
        if re.search(r"\((?!%rsp)|%[fg]s:|\[(?!sp)", self.text) and self.mnemonic != "lea":
            return MEMORY
        # Whether it branches or moves conditionally is the compiler's choice, and may change with a line beside it.
        if re.match(r"cmov|csel$|csinc$|csinv$|csneg$", self.mnemonic):
            return BRANCHES
        return REST

    @property
    def falls_through(self) -> bool:
        return self.mnemonic not in ("jmp", "ret", "b", "ud2", "br", "brk", "int3")


@dataclass
class Listing:
    """The text of an object: instructions by place, functions, and the static branches by key."""

    code: dict[Place, Instruction] = field(default_factory=dict)
    functions: dict[str, Place] = field(default_factory=dict)
    branches: list[tuple[str, Place, Place]] = field(default_factory=list)  # key, from, to
    indirect: set[Place] = field(default_factory=set)  # jumped to through tables

    def members(self) -> dict[str, list[Place]]:
        """Function -> its instructions, those of its cold and partial clones included."""
        starts = sorted((place, name) for name, place in self.functions.items())
        result: dict[str, list[Place]] = {}
        index = -1
        for place in sorted(self.code):
            while index + 1 < len(starts) and starts[index + 1][0] <= place:
                index += 1
            if index >= 0 and starts[index][0][0] == place[0]:
                result.setdefault(base_name(starts[index][1]), []).append(place)
        return result


def base_name(name: str) -> str:
    """The function that a compiler-made clone belongs to."""
    return re.sub(r"(\.(cold|isra|part|constprop|lto_priv)(\.\d+)?)+$", "", name)


def parse_symbol(text: str, symbols: dict[str, Place]) -> Place | None:
    """The place that 'symbol+0x10' or '.text-0x4' names."""
    match = re.fullmatch(r"(\S+?)(?:([+-])0x([0-9a-f]+))?", text)
    if not match or match[1] not in symbols:
        return None
    section, offset = symbols[match[1]]
    return section, offset + int(match[3] or "0", 16) * (-1 if match[2] == "-" else 1)


def parse_disassembly(lines: Iterable[str], symbols: dict[str, Place]) -> dict[Place, Instruction]:
    """Read objdump -dr --no-show-raw-insn. A jump to another section shows where only in its relocation."""
    code: dict[Place, Instruction] = {}
    section, last = "", None
    for line in lines:
        if match := re.match(r"Disassembly of section (\S+):", line):
            section = match[1]
        elif match := re.match(r"\s*[0-9a-f]+: (R_\S+)\s+(\S+)", line):
            if last and last.is_jump:
                # PC-relative relocations on x86 count from the end of the four bytes.
                place = parse_symbol(match[2], symbols)
                if place and match[1].startswith("R_X86_64_P"):
                    place = place[0], place[1] + 4
                last.target = place
        elif match := re.match(r"\s*([0-9a-f]+):\s+(\S.*)$", line):
            text = re.sub(r"\s+(#|//) .*$", "", match[2]).strip()
            last = Instruction(text)
            if last.is_jump and (goes := re.search(r"\b([0-9a-f]+) <", text)):
                last.target = section, int(goes[1], 16)
            code[section, int(match[1], 16)] = last
    return code


def read_symbols(lines: Iterable[str]) -> tuple[dict[str, Place], set[str]]:
    """Read objdump -t; returns all symbols' places and the names of the functions."""
    symbols: dict[str, Place] = {}
    functions = set()
    for line in lines:
        if match := re.match(r"([0-9a-f]{16}) (.{7}) (\S+)\s+[0-9a-f]+(?: \.hidden)? (\S+)$", line):
            symbols[match[4]] = match[3], int(match[1], 16)
            if match[2].endswith("F"):
                functions.add(match[4])
    return symbols, functions


def read_relocations(lines: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Read objdump -r: section that is relocated, offset, 'symbol+0x..'."""
    section = ""
    for line in lines:
        if match := re.match(r"RELOCATION RECORDS FOR \[(\S+)\]:", line):
            section = match[1]
        elif match := re.match(r"([0-9a-f]{16}) R_\S+\s+(\S+)", line):
            yield section, int(match[1], 16), match[2]


def read_branches(relocations: Iterable[tuple[str, int, str]],
                  symbols: dict[str, Place]) -> tuple[list[tuple[str, Place, Place]], set[Place]]:
    """The static branches (three relocations an entry: from, to, key), and the targets of all other tables."""
    table: dict[int, str] = {}
    indirect = set()
    for section, offset, text in relocations:
        if section == "__jump_table":
            table[offset] = text
        elif section.startswith(".rodata") or section == "__ex_table":
            if place := parse_symbol(text, symbols):
                indirect.add(place)
    branches = []
    for offset in range(0, max(table, default=-16) + 1, 16):
        try:
            code, target = (parse_symbol(table[offset + i], symbols) for i in (0, 4))
            key = re.sub(r"[+-]0x[0-9a-f]+$", "", table[offset + 8])
        except KeyError as error:
            raise Fail(f"__jump_table has no relocation at {error}: not an entry of 16 bytes?") from error
        if not code or not target:
            raise Fail(f"__jump_table entry at {offset:#x} names an unknown symbol: {table[offset]}")
        branches.append((key, code, target))
    return branches, indirect


def read_object(path: Path, objdump: str) -> Listing:
    symbols, functions = read_symbols(capture([objdump, "-t", path]).splitlines())
    listing = Listing(code=parse_disassembly(
        capture([objdump, "-dr", "-z", "--no-show-raw-insn", path]).splitlines(), symbols))
    # A section's own symbol is in the table under the section's name; objdump leaves it out of -t on some versions.
    for section, _ in listing.code:
        symbols.setdefault(section, (section, 0))
    listing.functions = {name: symbols[name] for name in functions if symbols[name] in listing.code}
    listing.branches, listing.indirect = read_branches(
        read_relocations(capture([objdump, "-r", path]).splitlines()), symbols)
    return listing


def reachable(listing: Listing, keys_off: str = "") -> set[Place]:
    """The instructions that can be reached from functions and tables, without the branches of some keys."""
    jumps: dict[Place, list[Place]] = {}
    for key, origin, target in listing.branches:
        if not re.fullmatch(keys_off, key):
            jumps.setdefault(origin, []).append(target)
    order = sorted(listing.code)
    following = {place: after for place, after in zip(order, order[1:]) if place[0] == after[0]}
    seen: set[Place] = set()
    work = [*listing.functions.values(), *listing.indirect]
    while work:
        place = work.pop()
        if place in seen or place not in listing.code:
            continue
        seen.add(place)
        instruction = listing.code[place]
        work += jumps.get(place, [])
        if instruction.target:
            work.append(instruction.target)
        if instruction.falls_through and place in following:
            work.append(following[place])
    return seen


@dataclass
class Cost:
    """One function: how many instructions of each kind it has, pristine, and ours while the key is off."""

    name: str
    pristine: Counter[str]
    ours: Counter[str]
    behind: int  # instructions that only the key's branches lead to
    sites: int

    def extra(self, kind: str) -> int:
        return self.ours[kind] - self.pristine[kind]

    def problems(self) -> list[str]:
        """What of it is more than no-ops."""
        if self.name in ELSEWHERE:
            return []
        bounds = {**dict.fromkeys(WORK, 0), REST: max(REST_BOUND, self.pristine.total() // REST_PART)}
        return [f"{self.name}: {self.extra(kind):+d} {kind}" for kind, bound in bounds.items()
                if self.extra(kind) > bound]


def count_kinds(listing: Listing, places: Iterable[Place]) -> Counter[str]:
    return Counter(listing.code[place].kind for place in places if not listing.code[place].is_nop)


def compare(pristine: Listing, ours: Listing, key: str, always: set[str]) -> list[Cost]:
    """The cost of each function that has a branch on the key or is always of interest."""
    removed = reachable(ours) - reachable(ours, key)
    sites = {origin for name, origin, _ in ours.branches if re.fullmatch(key, name)}
    before = pristine.members()
    result = []
    for name, places in sorted(ours.members().items()):
        in_function = sites.intersection(places)
        if not in_function and name not in always:
            continue
        behind = [place for place in places if place in removed]
        result.append(Cost(name, count_kinds(pristine, before.get(name, [])),
                           count_kinds(ours, set(places) - removed), count_kinds(ours, behind).total(),
                           len(in_function)))
    return result


def normalised(path: Path, objdump: str) -> list[str]:
    """The text of an object with its relocations, without what names the file."""
    return [line for line in capture([objdump, "-dr", "-w", "-z", path]).splitlines() if "file format" not in line]


def identical(target: Target, names: list[str], objdump: str) -> Test:
    """=n against pristine, object by object."""
    problems = []
    for name in names:
        pristine, ours = (normalised(target.out(variant) / name, objdump) for variant in ("pristine", "off"))
        if pristine != ours:
            at = next((i for i, (a, b) in enumerate(zip(pristine, ours)) if a != b), min(len(pristine), len(ours)))
            function = next((line for line in reversed(ours[:at + 1]) if re.match(r"[0-9a-f]+ <", line)), "?")
            problems.append(f"{name}: {function.strip(':')}: pristine '{''.join(pristine[at:at + 1])}', "
                            f"=n '{''.join(ours[at:at + 1])}'")
    print(f"  =n: {len(names) - len(problems)} of {len(names)} objects have the pristine text", flush=True)
    return Test("=n has the pristine text", FAILED if problems else PASSED, "\n    ".join(["", *problems]) if problems
                else "")


def without_branch(costs: Iterable[Cost], wanted: set[str]) -> list[str]:
    """Those of the functions in which no branch was found; the compiler may have made a name longer."""
    return sorted(wanted - {cost.name.partition(".")[0] for cost in costs if cost.sites})


def key_off(target: Target, names: list[str], objdump: str) -> Test:
    """=y against pristine, function by function."""
    costs: list[Cost] = []
    for name in names:
        ours = read_object(target.out("on") / name, objdump)
        if any(re.fullmatch(KEYS, key) for key, _, _ in ours.branches) or WAKEUP_PATH & ours.functions.keys():
            costs += compare(read_object(target.out("pristine") / name, objdump), ours, KEYS, WAKEUP_PATH)
    if not sum(cost.sites for cost in costs):
        raise Fail(f"no static branch on {KEYS} found in {', '.join(names)}: nothing was compared")
    print(f"  {'=y, key off':<32}{'pristine':>9}{'behind key':>11}{'no-ops':>7}  more:"
          + "".join(f"{kind:>9}" for kind in KINDS))
    for cost in costs:
        print(f"  {cost.name:<32}{cost.pristine.total():>9}{cost.behind:>11}{cost.sites:>7}       "
              + "".join(f"{cost.extra(kind):>+9}" if cost.extra(kind) else f"{0:>9}" for kind in KINDS))
    bad = [problem for cost in costs for problem in cost.problems()]
    bad += [f"{name}: has no branch" for name in without_branch(costs, BALANCE_PATH)]
    return Test("=y adds only no-ops", FAILED if bad else PASSED, "; ".join(bad))


def run(target: Target) -> list[Test]:
    """Build what is needed and compare."""
    kbuild.build(target, "base")
    names = objects.touched_objects(target)
    for variant in ("pristine", "off", "on"):
        kbuild.build(target, variant, ["prepare"])
        kbuild.build(target, variant, names)
    objdump = f"{target.cross_compile}objdump"
    return [identical(target, names, objdump), key_off(target, names, objdump)]


if __name__ == "__main__":
    run_main(lambda: 1 if show(run(Target.from_environment()))[FAILED] else 0)
