#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Complete the debian/control that the kernel's own bindeb-pkg has written; dpkg-buildpackage calls this first.

usage: deb_control.py DIRECTORY

The kernel's packages say nothing of what a Debian system needs to boot them, and replace linux-libc-dev, which is
Debian's and the same for our kernel: our files are read and written as text, no program needs headers for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import debian_package
from common import Fail, replace_file, run_main

# As Debian's own images and headers have them.
IMAGE = {
    "Depends": "kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool",
    "Recommends": "apparmor", "Suggests": "cgctl, steer-selftests",
    # The hooks of boot loaders and of DKMS go by this name.
    "Provides": "linux-image",
}
# The programs in it are built where the kernel is; of libelf Debian 12 and 13 have the same under two names.
HEADERS = {"Depends": "libc6, libelf1 | libelf1t64", "Recommends": "gcc, make", "Provides": "linux-headers"}
NOT_OURS = "linux-libc-dev"


def stanza_fields(stanza: str) -> dict[str, str]:
    """Field -> value, with its following lines."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            fields[name] += "\n" + line
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    return fields


def with_fields(stanza: str, more: Mapping[str, str]) -> str:
    fields = stanza_fields(stanza)
    description = fields.pop("Description")
    return "\n".join(f"{name}: {value}" for name, value in {**fields, **more, "Description": description}.items())


def complete(control: str) -> str:
    """The control file with our fields, and without the package that is Debian's."""
    result, seen = [], []
    for stanza in control.strip().split("\n\n"):
        fields = stanza_fields(stanza)
        name = fields.get("Package", "")
        if "Source" in fields:
            stanza = "\n".join(f"{field}: {debian_package.MAINTAINER if field == 'Maintainer' else value}"
                               for field, value in fields.items())
        elif name == NOT_OURS:
            continue
        elif name.startswith("linux-image-") and not name.endswith("-dbg"):
            stanza = with_fields(stanza, IMAGE)
            seen.append("image")
        elif name.startswith("linux-headers-"):
            stanza = with_fields(stanza, HEADERS)
        elif not name.endswith("-dbg"):
            raise Fail(f"bindeb-pkg wants to make the package '{name}', which is not known here; see {__file__}")
        result.append(stanza)
    if "image" not in seen:
        raise Fail("bindeb-pkg makes no package of the image")
    return "\n\n".join(result) + "\n"


def complete_file(path: Path) -> None:
    replace_file(path, complete(path.read_text(encoding="utf-8")).encode())


def main() -> None:
    if len(sys.argv) != 2:
        raise Fail("usage: deb_control.py DIRECTORY, that of debian/control")
    complete_file(Path(sys.argv[1]) / "control")


if __name__ == "__main__":
    run_main(main)
