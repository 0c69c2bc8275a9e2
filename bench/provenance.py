# SPDX-License-Identifier: GPL-2.0-only
"""What a run measures, for the header of its results: the revision of the repository, and a hash of the mechanism."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What is laid over the kernel's source, and so decides what the kernel does. Benchmarks and documents do not.
MECHANISM = ("kernel", "include", "hooks")


def git(root: Path, *words: str) -> str | None:
    """What git says; None if there is no git, or it fails."""
    try:
        return subprocess.run(["git", "-C", str(root), *words], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def revision(root: Path = ROOT) -> str:
    """The commit, with -dirty behind it if any file differs or is new; empty where this is no repository of git."""
    top = git(root, "rev-parse", "--show-toplevel")
    # Sources that were unpacked within another repository are not that one's.
    if not top or Path(top).resolve() != root.resolve():
        return ""
    commit, changes = git(root, "rev-parse", "--verify", "HEAD"), git(root, "status", "--porcelain")
    return f"{commit}{'' if changes == '' else '-dirty'}" if commit else ""


def mechanism(root: Path = ROOT) -> str:
    """A hash over the names and contents of all files of the mechanism."""
    state = hashlib.sha256()
    for path in sorted(path for name in MECHANISM for path in (root / name).rglob("*") if path.is_file()):
        content = path.read_bytes()
        state.update(f"{path.relative_to(root).as_posix()}\n{len(content)}\n".encode())
        state.update(content)
    return state.hexdigest()


def header(built: bool, root: Path = ROOT) -> dict[str, str | int | float]:
    """The part of a results file's header that this module knows. A kernel that is not built here for the run may have
    another mechanism than the one that is here; which, nobody can tell."""
    return {"revision": revision(root), "mechanism": mechanism(root) if built else "",
            "host_cpus": os.cpu_count() or 0, "duration_s": 0.0}


def changed(known: str, root: Path = ROOT) -> str:
    """What to remark if the mechanism is no more what the header says; nothing where that says nothing."""
    return f"{'/, '.join(MECHANISM)}/ changed during the run" if known and known != mechanism(root) else ""


def short(text: str) -> str:
    """A revision or hash for the eye."""
    digits, dash, mark = text.partition("-")
    return f"{digits[:12]}{dash}{mark}"
