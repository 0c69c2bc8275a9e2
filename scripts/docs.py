#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Build our documents as HTML with the kernel's own Sphinx set-up, and look for what is wrong with them.

Only the directories that hold documents of ours are built, for the whole set takes half an hour; and only messages
that name a file of ours count, for the kernel's documents refer to each other across directories.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import kbuild
import tree
from check_licence import repository_files
from common import ROOT, Fail, Target, locked, run_logged, run_main

sys.path.insert(0, str(ROOT / "vm"))

from ktap import FAILED, PASSED, Test  # noqa: E402
from run import show  # noqa: E402

MESSAGE = re.compile(r"(?:^|/)Documentation/(?P<file>\S+?\.rst)(?::(?P<line>\d+))?: "
                     r"(?P<what>(?:WARNING|ERROR|SEVERE|CRITICAL): .*)")
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
GUIDE = "Documentation/admin-guide/cgroup-steer"
NAMED = re.compile(r"(?<![\w/.-])Documentation/[\w./-]+\.(?:rst|txt)\b")


def documents(root: Path) -> list[str]:
    """Our documents, below Documentation/."""
    prefix = "Documentation/"
    return [name.removeprefix(prefix) for name in tree.overlay_files(root)
            if name.startswith(prefix) and name.endswith(".rst")]


def directories(names: Iterable[str]) -> list[str]:
    """What Sphinx has to build to see all of these, without what is built as a part of another one."""
    every = {PurePosixPath(name).parent for name in names}
    return sorted(str(path) for path in every if not every & set(path.parents))


def messages(lines: Iterable[str], names: Sequence[str]) -> list[str]:
    """What Sphinx says of these documents. It may say the same twice, as it reads and as it writes."""
    found = (match for line in lines if (match := MESSAGE.search(line.strip())))
    return list(dict.fromkeys(f"Documentation/{match['file']}:{match['line'] or 1}: {match['what']}"
                              for match in found if match["file"] in names))


def build(target: Target) -> list[str]:
    """Build the HTML anew, as Sphinx says nothing of what is up to date; returns the messages about our documents."""
    if not Path("/usr/bin/sphinx-build").exists():
        raise Fail("sphinx-build is missing; run: scripts/setup docs")
    out = target.build / "docs"
    names = documents(ROOT)
    lines: list[str] = []
    # Sphinx and the scripts around it are Debian's, whatever other Python comes first.
    environment = kbuild.environment() | {"PATH": f"/usr/bin:{os.environ.get('PATH', '')}"}
    with locked(target.build / "lock"):
        tree.prepare(target)
        shutil.rmtree(out, ignore_errors=True)
        run_logged(["make", "-C", str(target.tree), "htmldocs", f"SPHINXDIRS={' '.join(directories(names))}",
                    f"BUILDDIR={out}"], target.build / "docs.log", "building the documents", env=environment,
                   on_line=lines.append)
    pages = [out / f"{directory}/{PurePosixPath(name).relative_to(directory).with_suffix('.html')}"
             for directory in directories(names) for name in names if PurePosixPath(name).is_relative_to(directory)]
    return messages(lines, names) + [f"{page.relative_to(ROOT)}: was not built" for page in pages if not page.is_file()]


def unlisted(source: Path, names: Sequence[str]) -> list[str]:
    """Indices of ours that the kernel's own index does not list, so that nobody who reads that one finds them."""
    problems = []
    for name in names:
        path = PurePosixPath(name)
        if path.name != "index.rst":
            continue
        parent = source / "Documentation" / path.parent.parent / "index.rst"
        entry = f"{path.parent.name}/index"
        if entry not in parent.read_text(encoding="utf-8").split():
            problems.append(f"Documentation/{path.parent.parent}/index.rst: its list of contents lacks {entry}")
    return problems


def dead_links(root: Path, names: Iterable[str], source: Path) -> list[str]:
    """Files that texts of ours refer to, as links of Markdown or as paths in the kernel tree, and that do not exist."""
    problems = []
    for name in names:
        # What is quoted there is not ours to mend.
        if name.startswith(("hooks/", "scripts/tests/")):
            continue
        text = (root / name).read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            wanted = [(match[0], source / match[0]) for match in NAMED.finditer(line)]
            if name.endswith(".md"):
                wanted += [(match["target"], (root / name).parent / match["target"].partition("#")[0])
                           for match in LINK.finditer(line) if not re.match(r"\w+:|#", match["target"])]
            problems += [f"{name}:{number}: {what} does not exist" for what, path in wanted if not path.exists()]
    return problems


# Of cpu.stat, as the kernel code has them: also several keys in one string, each at the beginning of a line.
COUNTER = re.compile(r'(?:"|\\n)((?:hint|gang|headroom)_[a-z_]*[a-z])(?=[ "])')
EVENT = re.compile(r"^TRACE_EVENT\((\w+),(.*?)^\);", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"__(?:field|array|string)\((?:[^,()]+, )?(\w+)")


def undocumented(root: Path) -> list[str]:
    """Counters, tracepoints and their fields that the kernel code has and the guide does not name."""
    guide = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / GUIDE).glob("*.rst"))}
    words = set(re.findall(r"``([\w:]+)``", "\n".join(guide.values())))
    problems = [f"{path.relative_to(root)}: {key} is on no page of {GUIDE}"
                for path in sorted((root / "kernel/cgroup").glob("steer*.c")) if "_test" not in path.name
                for key in dict.fromkeys(COUNTER.findall(path.read_text(encoding="utf-8"))) if key not in words]
    events = (root / "include/trace/events/steer.h").read_text(encoding="utf-8")
    for name, body in EVENT.findall(events):
        problems += [f"{GUIDE}/tracing.rst: does not name {word}"
                     for word in (f"steer:{name}", *dict.fromkeys(FIELD.findall(body)))
                     if f"``{word}``" not in guide.get("tracing.rst", "")]
    return problems


def run(target: Target) -> list[Test]:
    """Every check, each one test."""
    found = {"without a warning": build(target), "listed": unlisted(target.tree, documents(ROOT)),
             "references": dead_links(ROOT, repository_files(ROOT), target.tree), "names": undocumented(ROOT)}
    return [Test(f"docs: {name}", FAILED, "\n    ".join(["", *problems[:40]])) if problems
            else Test(f"docs: {name}", PASSED) for name, problems in found.items()]


def main() -> int:
    target = Target.from_environment()
    status = 1 if show(run(target))[FAILED] else 0
    print(f"  HTML: {(target.build / 'docs').relative_to(ROOT)}/")
    return status


if __name__ == "__main__":
    run_main(main)
