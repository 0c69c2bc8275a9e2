# SPDX-License-Identifier: GPL-2.0-only
"""What every script here shares: places, the selected kernel and architecture, running things visibly."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_KVER = "6.12"
# Kernels of this ending have the rules of their ancestors besides: hooks/KVER/ancestors.
ANCESTORS = "ancestors"
ARCHES = ("x86_64", "arm64")
QUIET_INTERVAL = 20.0  # seconds between progress lines when the output is not a terminal


class Fail(Exception):
    """An error for the user to read: no traceback is wanted."""


def host_arch() -> str:
    machine = platform.machine()
    return {"aarch64": "arm64"}.get(machine, machine)


@dataclasses.dataclass(frozen=True)
class Target:
    """The kernel version and architecture that a command works on, and the Debian release that packages are taken from:
    the machine's own if it is empty."""

    kver: str = DEFAULT_KVER
    arch: str = "x86_64"
    release: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Target:
        arch = environ.get("ARCH") or host_arch()
        if arch not in ARCHES:
            raise Fail(f"ARCH={arch} is not supported; use one of: {', '.join(ARCHES)}")
        kver = environ.get("KVER") or DEFAULT_KVER
        if not (ROOT / "hooks" / kver / "series").is_file():
            known = sorted(p.parent.name for p in ROOT.glob("hooks/*/series")) or ["none"]
            raise Fail(f"KVER={kver}: there is no hooks/{kver}/series; available: {', '.join(known)}")
        return cls(kver, arch)

    @property
    def build(self) -> Path:
        return ROOT / "build" / self.kver

    @property
    def tree(self) -> Path:
        return self.build / "tree"

    @property
    def ancestors(self) -> Path:
        """Where what is built with the rules of the ancestors is. It is laid out as what is built without them, so that
        ccache knows again what both have in common."""
        return self.build / ANCESTORS

    def source(self, variant: str) -> Path:
        return (self.ancestors if variant.endswith(f"-{ANCESTORS}") else self.build) / "tree"

    @property
    def pristine(self) -> Path:
        return self.build / "pristine"

    def out(self, variant: str) -> Path:
        return self.source(variant).parent / self.arch / variant

    @property
    def cross_compile(self) -> str:
        if self.arch in (host_arch(), "um"):
            return ""
        return {"x86_64": "x86_64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}[self.arch]


class Progress:
    """One line that is rewritten on a terminal, and a line now and then in a log."""

    def __init__(self, what: str):
        self.what = what
        self.start = time.monotonic()
        self.last = self.start
        self.tty = sys.stdout.isatty()

    def elapsed(self) -> int:
        return round(time.monotonic() - self.start)

    def update(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last < (0.2 if self.tty else QUIET_INTERVAL):
            return
        self.last = now
        line = f"  {self.what}: {text}, {self.elapsed()} s"
        print(f"\r\033[K{line[:110]}" if self.tty else line, end="" if self.tty else "\n", flush=True)

    def finish(self, text: str) -> None:
        print(f"{chr(13)}\033[K" if self.tty else "", end="")
        print(f"  {self.what}: {text}, {self.elapsed()} s", flush=True)


def useful_lines(text: str, count: int = 30) -> str:
    """The lines of a build log that say why it failed: the errors with what follows, else the end."""
    lines = text.splitlines()
    error = re.compile(r"\berror\b|\*\*\*|undefined reference|No rule to make|warning: unmet", re.IGNORECASE)
    hits = [i for i, line in enumerate(lines) if error.search(line)]
    if not hits:
        return "\n".join(lines[-count:])
    keep = sorted({j for i in hits for j in range(max(0, i - 1), min(len(lines), i + 4))})
    return "\n".join(lines[i] for i in keep[:count])


def run_logged(command: Sequence[str | Path], log: Path, what: str, *, cwd: Path | None = None,
               env: Mapping[str, str] | None = None, item: str = r"^\s+[A-Z][A-Z0-9_]*\s+(\[M\]\s+)?(\S+)",
               on_line: Callable[[str], None] | None = None, append: bool = False, total: int = 0) -> None:
    """Run a command with its output in a log, counting the lines that match `item` as progress; of about `total`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(what)
    pattern, count, of = re.compile(item), 0, f" of at most about {total}" if total else ""
    with log.open("a" if append else "w", encoding="utf-8", buffering=1) as out:
        with subprocess.Popen([str(c) for c in command], cwd=cwd, env=dict(env) if env is not None else None,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace") as process:
            assert process.stdout
            try:
                for line in process.stdout:
                    out.write(line)
                    if on_line:
                        on_line(line)
                    if match := pattern.search(line):
                        count += 1
                        progress.update(f"{count}{of} steps, {match.group(match.lastindex or 0)}")
            except BaseException:
                process.terminate()
                raise
    if process.returncode:
        progress.finish("failed")
        raise Fail(f"{what} failed (status {process.returncode}). From {log.relative_to(ROOT)}:\n"
                   f"{useful_lines(log.read_text(encoding='utf-8'))}")
    if progress.elapsed() >= 2:
        progress.finish(f"done, {count} steps")


def capture(command: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> str:
    result = subprocess.run([str(c) for c in command], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, errors="replace", check=False)
    if result.returncode:
        raise Fail(f"{' '.join(map(str, command))} failed (status {result.returncode}):\n{result.stderr.strip()}")
    return result.stdout


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process is at work on the same thing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"  waiting for another build in {path.parent.relative_to(ROOT)}", flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a new file and rename it into place, so that a hard link to the old content stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".steer-new")
    temporary.write_bytes(content)
    temporary.chmod(mode)
    temporary.rename(path)


def run_main(main: Callable[[], int | None]) -> None:
    """Run a script's main function, turning expected failures into a message and a status."""
    try:
        sys.exit(main() or 0)
    except Fail as failure:
        print(f"\nerror: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
