# SPDX-License-Identifier: GPL-2.0-only
"""Which object files depend on what we touch: taken from the dependency files of a finished build, not from a list."""

from __future__ import annotations

import os
import re
from pathlib import Path

import tree
from common import ROOT, Fail, Target


def parse_cmd(text: str) -> tuple[str, set[str]]:
    """The source and all dependencies of an object, from its .cmd file."""
    source = re.search(r"^source_\S+ := (\S+)", text, re.MULTILINE)
    deps = re.search(r"^deps_\S+ := \\\n((?:.*\\\n)*)", text, re.MULTILINE)
    names = set(re.findall(r"^  (\S+) \\$", deps[1], re.MULTILINE)) if deps else set()
    if not source:
        return "", names
    return source[1], names | {source[1]}


def touched_files(target: Target) -> set[str]:
    """Paths in the tree that hooks change or the overlay adds."""
    hooks = tree.read_series(ROOT / "hooks" / target.kver)
    changed = {name for hook in hooks for name in tree.touched_files(hook.read_text(encoding="utf-8"), hook.name)}
    return changed | tree.overlay_files(ROOT).keys()


def touched_objects(target: Target) -> list[str]:
    """Objects that also a pristine kernel has, and that are built from or include a file that we touch."""
    out = target.out("base")
    touched = {str(target.tree / name) for name in touched_files(target)}
    found = []
    for path in out.rglob(".*.o.cmd"):
        source, names = parse_cmd(path.read_text(encoding="utf-8"))
        # Absolute, or relative to the build directory: that is up to ccache.
        source, *needed = (os.path.normpath(out / name) for name in (source, *names))
        if (touched & {source, *needed} and source.startswith(f"{target.tree}/")
                and (target.pristine / Path(source).relative_to(target.tree)).is_file()):
            found.append(str((path.parent / path.name.removeprefix(".").removesuffix(".cmd")).relative_to(out)))
    if not found:
        raise Fail(f"{out.relative_to(ROOT)} has no object that depends on a touched file; is the kernel built?")
    return sorted(found)


def our_objects() -> list[str]:
    """Objects of our own C files that every architecture has: the lab's driver is arm64's."""
    return sorted(str(Path(name).with_suffix(".o")) for name in tree.overlay_files(ROOT)
                  if name.endswith(".c") and not name.startswith(("tools/", f"{tree.LAB_DRIVER}/")))
