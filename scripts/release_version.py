# SPDX-License-Identifier: GPL-2.0-only
"""The version of what is released: X.Y of a tag vX.Y, and the number of the build.

It is cgctl's, in tools/cgctl/Cargo.toml. BUILD= counts builds of packages from the same X.Y: package managers and boot
loaders take the one with the highest number for the newest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from common import ROOT, Fail, capture

CARGO = ROOT / "tools/cgctl/Cargo.toml"
CHANGELOG = ROOT / "packaging/changelog"


def of_source() -> str:
    """X.Y.Z, as cgctl --version prints it."""
    found = re.search(r'^version = "(\d+\.\d+\.\d+)"$', CARGO.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise Fail(f'{CARGO}: a line such as version = "1.2.0" is wanted')
    return found[1]


def of_packages(environ: Mapping[str, str]) -> str:
    """X.Y.BUILD; without BUILD that of the source."""
    source, build = of_source(), environ.get("BUILD", "")
    if not build:
        return source
    if not re.fullmatch(r"[1-9]\d{0,5}", build):
        raise Fail(f"BUILD={build}: a whole number from 1 to 999999 is wanted")
    return f"{source.rpartition('.')[0]}.{build}"


def changelog(field: str) -> str:
    """A field of the newest entry of packaging/changelog, as dpkg-parsechangelog names them."""
    return capture(["dpkg-parsechangelog", "-l", CHANGELOG, "-S", field]).strip()


def source_date() -> str:
    """Seconds since 1970 of the newest entry: no file of a package is younger, so that the same content is the same
    package."""
    return changelog("Timestamp")
