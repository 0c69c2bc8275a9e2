#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Apply the hooks without fuzz, and hold them to what makes them cheap to carry to the next kernel.

Hooks are the only lines of ours in existing kernel files: few, single statements, without conditionals. The rules of
the ancestors, which only a kernel for comparison has, have no budget; they have to apply as well.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import tree
from common import ANCESTORS, ROOT, Fail, Target, run_main

BUDGET = 100  # added lines over all hooks, blank ones and comments included
CONDITIONAL = re.compile(r"^\+\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
NO_CONDITIONAL = re.compile(r"\.[chS]$")  # Kconfig and Makefile have conditionals of another kind


@dataclass
class Size:
    """What the hooks do to each file."""

    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def measure(name: str, patch: str, size: Size) -> None:
    """Count one hook's lines; hunk headers say how long a hunk is, so '--- x' inside one is a line like any other."""
    current, old, new = "", 0, 0
    for number, line in enumerate(patch.splitlines(), 1):
        if old <= 0 and new <= 0:
            if match := re.match(r"\+\+\+ [^/\s]+/(\S+)", line):
                current = match[1]
            elif match := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
                old, new = int(match[1] or 1), int(match[2] or 1)
            continue
        if line.startswith("+"):
            new -= 1
            size.added[current] += 1
            if NO_CONDITIONAL.search(current) and CONDITIONAL.match(line):
                size.problems.append(f"{name}:{number}: {line[1:].strip()}: no preprocessor conditionals in hooks; "
                                     "give the header a stub instead")
        elif line.startswith("-"):
            old -= 1
            size.removed[current] += 1
        elif not line.startswith("\\"):
            old, new = old - 1, new - 1


def check(target: Target) -> tuple[Size, list[tree.HookReport]]:
    """Apply and measure. The tree is brought up to date on the way."""
    hooks = ROOT / "hooks" / target.kver
    reports = tree.prepare(target)
    size = Size()
    for path in tree.read_series(hooks):
        measure(path.name, path.read_text(encoding="utf-8"), size)
    if (total := sum(size.added.values())) > BUDGET:
        size.problems.append(f"the hooks add {total} lines, {BUDGET} are allowed; move code into the overlay")
    if not reports:
        size.problems.append(f"hooks/{target.kver}/series lists no hook")
    return size, reports


def main() -> None:
    target = Target.from_environment()
    size, reports = check(target)
    print(f"  {'file':<48}{'added':>7}{'removed':>9}")
    for name in sorted(size.added.keys() | size.removed.keys()):
        print(f"  {name:<48}{size.added[name]:>7}{size.removed[name]:>9}")
    print(f"  {'all, of ' + str(BUDGET):<48}{sum(size.added.values()):>7}{sum(size.removed.values()):>9}")
    for report in reports:
        for line in report.offsets:
            print(f"  moved: {report.name}: {line}")
    version = tree.package_version(target.kver)
    tested = tree.tested_with(ROOT / "hooks" / target.kver)
    if version != tested:
        print(f"  note: hooks/{target.kver}/tested-with says {tested}, this is {version}")
    if size.problems:
        raise Fail("\n  ".join(["the hooks break a rule:", *size.problems]))
    print(f"  {len(reports)} hooks apply to linux-source {version} without fuzz")
    ancestors = tree.apply_ancestors(target)
    for report in ancestors:
        for line in report.offsets:
            print(f"  moved: {ANCESTORS}/{report.name}: {line}")
    print(f"  {len(ancestors)} patches with rules of ancestors apply on top of them")


if __name__ == "__main__":
    run_main(main)
