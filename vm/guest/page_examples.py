# SPDX-License-Identifier: GPL-2.0-only
"""The commands that a page shows, and what it says that they print."""

from __future__ import annotations

import re


def examples(page: str, heading: str) -> list[list[tuple[str, list[str]]]]:
    """Those in a section of a page, by blocks. A command begins with "# ", its further lines with "> "."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = []
    for block in re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        parts = re.split(r"^# ", block, flags=re.MULTILINE)[1:]
        blocks.append([command_and_output(part.splitlines()) for part in parts])
    return blocks


def command_and_output(lines: list[str]) -> tuple[str, list[str]]:
    more = next((i for i, line in enumerate(lines[1:], 1) if not re.match("> |>$", line)), len(lines))
    return "\n".join([lines[0], *(line[2:] for line in lines[1:more])]), lines[more:]
