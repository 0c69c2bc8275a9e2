#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Static checks of our kernel code: checkpatch, kernel-doc, sparse and the compiler's W=1 warnings.

Compiling is done in variants of their own, =y and =n, because other warning flags would rebuild the other ones.
Existing kernel files have warnings of their own; only what names a file of ours counts, and for the files that hooks
touch what is not said about the pristine ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import kbuild
import objects
import tree
from common import ANCESTORS, ROOT, Fail, Target, run_logged, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, Test  # noqa: E402
from run import show  # noqa: E402

# The trace headers are a language of their own to which checkpatch's style rules do not apply.
CHECKPATCH = ["--root=.", "--strict", "--terse", "--show-types", "--no-summary", "--no-signoff"]
IGNORE_TRACE = "SPACING,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,COMPLEX_MACRO,TRAILING_SEMICOLON,MACRO_ARG_REUSE"
# The one header whose purpose is to know versions.
IGNORE_COMPAT = "LINUX_VERSION_CODE,CONSTANT_COMPARISON"
# Wants the boot parameter's documentation in the same patch; it is in a hook.
IGNORE_SOURCE = "UNDOCUMENTED_SETUP"
IGNORE_HOOK = "COMMIT_MESSAGE,COMMIT_LOG_LONG_LINE,NOT_UNIFIED_DIFF"
WARNING = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):(\d+:)? (?P<what>(warning|error): .*)$")


def c_files() -> dict[str, Path]:
    """Our C files and headers: path in the kernel tree -> file in the repository."""
    return {name: path for name, path in tree.overlay_files(ROOT).items()
            if path.suffix in (".c", ".h") and not name.startswith("tools/")}


def ignored(name: str) -> str:
    """The checks that make no sense for a file."""
    if name.endswith(".patch"):
        return IGNORE_HOOK
    if "trace/events" in name:
        return IGNORE_TRACE
    return IGNORE_COMPAT if name.endswith("_compat.h") else IGNORE_SOURCE


def checkpatch(target: Target) -> list[str]:
    problems = []
    base = ROOT / "hooks" / target.kver
    series = [base, *([base / ANCESTORS] if (base / ANCESTORS).is_dir() else [])]
    hooks = {str(path): path for directory in series for path in tree.read_series(directory)}
    for name, path in [*c_files().items(), *hooks.items()]:
        options = [*CHECKPATCH, f"--ignore={ignored(name)}", *(["-f"] if name not in hooks else [])]
        result = subprocess.run(["perl", "scripts/checkpatch.pl", *options, name], cwd=target.tree, text=True,
                                capture_output=True, check=False)
        problems += [line.replace(name, str(path.relative_to(ROOT))) for line in result.stdout.splitlines() if line]
        if result.returncode and not result.stdout:
            raise Fail(f"checkpatch on {path}: {result.stderr.strip()}")
    return problems


def kernel_doc(target: Target) -> list[str]:
    problems = []
    for path in c_files().values():
        result = subprocess.run(["perl", str(target.tree / "scripts/kernel-doc"), "-none", "-Wall", str(path)],
                                cwd=target.tree, text=True, capture_output=True, check=False)
        # "No structured comments" is a file without any, which is no fault.
        problems += [line.replace(f"{ROOT}/", "") for line in result.stderr.splitlines()
                     if line and "no structured comments found" not in line]
    return problems


def warnings(lines: Iterable[str]) -> Counter[tuple[str, str]]:
    """How often each warning is given for each file; without line numbers, which hooks move."""
    found: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if match := WARNING.match(line.strip()):
            # Paths are relative to the source or absolute; what follows the source directory identifies the file.
            name = re.sub(r"^.*/(tree|pristine)/", "", match["file"]).removeprefix("./")
            # Sparse gives the place where it gave up, in the function or in something inlined there, as it happens.
            if "context imbalance in '" in match["what"]:
                name = "anywhere"
            found[name, re.sub(r"\d+", "N", match["what"])] += 1
    return found


def compile_warnings(target: Target, variant: str, goals: list[str]) -> Counter[tuple[str, str]]:
    """Compile the goals anew with W=1 and sparse; returns the warnings."""
    out = target.out(variant)
    lines: list[str] = []
    for goal in goals:
        (out / goal).unlink(missing_ok=True)
    # Without the option, lines of objects that are compiled at the same time are mixed now and then.
    run_logged([*kbuild.make_command(target, variant), "--output-sync=target", "W=1", "C=2", "CHECK=sparse", *goals],
               kbuild.log_path(target, f"{variant}-w1"), f"W=1 and sparse, {variant}", env=kbuild.environment(),
               on_line=lines.append)
    return warnings(lines)


def new_warnings(target: Target) -> list[str]:
    """Warnings, =y and =n, of our objects and of touched ones as far as the pristine ones do not have them."""
    kbuild.build(target, "base")
    touched = objects.touched_objects(target)
    for variant in ("pristine", "lint", "off"):
        kbuild.build(target, variant, ["prepare"])
    existing = compile_warnings(target, "pristine", touched)
    problems = []
    for variant, name, goals in (("lint", "=y", touched + objects.our_objects()), ("off", "=n", touched)):
        found = compile_warnings(target, variant, goals)
        problems += [f"{name}: {file}: {what}" for (file, what), count in sorted(found.items())
                     if count > existing[file, what]]
    return problems


CHECKS = {"checkpatch --strict": checkpatch, "kernel-doc": kernel_doc, "sparse and W=1": new_warnings}


def run(target: Target) -> list[Test]:
    """Every check, each one test."""
    tree.prepare(target)
    tests = []
    for name, check in CHECKS.items():
        problems = check(target)
        print(f"  {name}: {len(problems) or 'no'} problems", flush=True)
        tests.append(Test(name, FAILED, "\n    ".join(["", *problems[:40]])) if problems else Test(name, PASSED))
    return tests


if __name__ == "__main__":
    run_main(lambda: 1 if show(run(Target.from_environment()))[FAILED] else 0)
