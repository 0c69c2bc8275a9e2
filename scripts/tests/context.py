# SPDX-License-Identifier: GPL-2.0-only
"""Lets the tests import the scripts, however they are started."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for directory in (ROOT / "scripts", ROOT / "vm", ROOT / "vm/guest"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
