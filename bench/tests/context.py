# SPDX-License-Identifier: GPL-2.0-only
"""Lets the tests import the benchmarks' modules, however they are started."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of the two modules "run", the one of vm is what other code finds by this name; ours is bench.run.
for directory in reversed((ROOT, ROOT / "bench", ROOT / "bench/lab", ROOT / "scripts", ROOT / "vm")):
    if str(directory) in sys.path:
        sys.path.remove(str(directory))
    sys.path.insert(0, str(directory))
