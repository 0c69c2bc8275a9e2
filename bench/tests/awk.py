# SPDX-License-Identifier: GPL-2.0-only
"""Runs the awk program that a script for a lab machine has for a trace, on lines of a test's own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent


def on_trace(script: str, lines: Iterable[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """What the program of bench/`script` says of a trace of these lines."""
    match = re.search(r" '\n(.*?)' \$trace/trace", (BENCH / script).read_text(encoding="utf-8"), re.DOTALL)
    assert match, f"there is no awk program in {script}"
    settings = [part for name, value in variables.items() for part in ("-v", f"{name}={value}")]
    with tempfile.NamedTemporaryFile("w", suffix=".trace") as trace:
        trace.write("\n".join(["# tracer: nop", *lines]) + "\n")
        trace.flush()
        return subprocess.run(["awk", *settings, match[1], trace.name], capture_output=True, text=True, check=False)
