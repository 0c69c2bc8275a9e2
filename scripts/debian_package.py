# SPDX-License-Identifier: GPL-2.0-only
"""Put Debian packages together by dpkg-deb alone, for what needs none of debhelper's help."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import release_version
from common import Fail, capture, replace_file

MAINTAINER = "the cgroup steer maintainers <maintainers@localhost>"
REQUIRED = ("Package", "Version", "Architecture", "Maintainer", "Description")


def control(fields: Mapping[str, str], size: int) -> str:
    """The text of a control file. A description of several lines gets the form that it has there; size is in KiB."""
    if missing := [name for name in REQUIRED if not fields.get(name)]:
        raise Fail(f"package {fields.get('Package', 'without a name')}: {', '.join(missing)} is missing")
    summary, *text = fields["Description"].splitlines()
    lines = [f"{name}: {value}" for name, value in fields.items() if name != "Description"]
    return "\n".join([*lines, f"Installed-Size: {size}", f"Description: {summary}",
                      *(f" {line}" if line.strip() else " ." for line in text)]) + "\n"


def build(root: Path | None, fields: Mapping[str, str], directory: Path,
          scripts: Mapping[str, str] | None = None) -> Path:
    """A package of what is below root (nothing, without one), with maintainer scripts; returns its path."""
    if root is None:
        with tempfile.TemporaryDirectory() as empty:
            return build(Path(empty), fields, directory, scripts)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()) // 1024
    shutil.rmtree(root / "DEBIAN", ignore_errors=True)
    replace_file(root / "DEBIAN/control", control(fields, size).encode())
    if settings := sorted(path for path in (root / "etc").rglob("*") if path.is_file()):
        # dpkg asks before it replaces what was edited.
        replace_file(root / "DEBIAN/conffiles", "".join(f"/{path.relative_to(root)}\n" for path in settings).encode())
    for name, text in (scripts or {}).items():
        replace_file(root / "DEBIAN" / name, text.encode(), 0o755)
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    package = directory / f"{fields['Package']}_{fields['Version']}_{fields['Architecture']}.deb"
    directory.mkdir(parents=True, exist_ok=True)
    capture(["dpkg-deb", "--root-owner-group", "--build", root, package],
            env=os.environ | {"SOURCE_DATE_EPOCH": release_version.source_date()})
    return package
