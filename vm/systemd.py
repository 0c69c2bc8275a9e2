#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Debian with its real systemd on the built kernel: cgctl and its daemon, tested in it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import debian_machine  # noqa: E402
from common import ROOT, run_main  # noqa: E402

# So many units at once take as long as all the other tests together.
SUITE = debian_machine.Suite("systemd", readme=ROOT / "README.md", many=500)


def main() -> int:
    return debian_machine.start(SUITE, __doc__, "--units")


if __name__ == "__main__":
    run_main(main)
