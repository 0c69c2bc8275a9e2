#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Every file of the repository carries its licence in its first lines, and none names a private place.

The places are paths of the machine that somebody worked on, and package mirrors: both rot, and neither helps a reader.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from common import ROOT, Fail, run_main

LICENCE = re.compile(r"SPDX-License-Identifier: GPL-2\.0(-only|-or-later)?( WITH Linux-syscall-note)?(?![\w.-])")
# What is linked with the libraries of NRI and Kubernetes, and what goes with it, has their licence, in a directory with
# its text: that of GPL-2.0-only does not go together with it in one program.
APACHE = re.compile(r"SPDX-License-Identifier: Apache-2\.0(?![\w.-])")
APACHE_DIRECTORY = "containers/"
# The texts of the licences themselves, and formats without comments.
EXEMPT = {"LICENSE", f"{APACHE_DIRECTORY}LICENSE"}
NO_COMMENTS = re.compile(r"\.json$|/(series|tested-with|run-list|settings|config|go\.sum)$|\.png$|\.svg$|/testdata/fuzz/")
PRIVATE = re.compile(r"(?<![\w.$}])/(home|root|work|farm|Users)/|"
                     r"https?://(deb|security|static|index|files|proxy|registry|repo1?|mirror|ftp)\.[a-z.-]+")


def problems(name: str, content: bytes) -> list[str]:
    """What is wrong with one file."""
    if b"\0" in content:
        return [f"{name}: binary; only text belongs here"]
    text = content.decode("utf-8", errors="replace")
    result = []
    if name not in EXEMPT and not NO_COMMENTS.search(name):
        # A hook's licence is that of the files it changes; it is named in the lines before the diff.
        # Cargo puts two lines of its own in front of its lock file.
        count = 3 if name.endswith("Cargo.lock") else 2
        head = f"\n{text}".split("\n--- ")[0] if name.endswith(".patch") else "\n".join(text.split("\n")[:count])
        pattern, wanted = (APACHE, "Apache-2.0") if name.startswith(APACHE_DIRECTORY) else (LICENCE, "GPL-2.0-only")
        if not pattern.search(head):
            result.append(f"{name}: no 'SPDX-License-Identifier: {wanted}' in its first two lines")
    result += [f"{name}:{number}: names a private place: {match[0]}" for number, line in enumerate(text.split("\n"), 1)
               if (match := PRIVATE.search(line))]
    if text and not text.endswith("\n"):
        result.append(f"{name}: no newline at the end")
    return result


def repository_files(root: Path) -> list[str]:
    """The files under version control and those about to be; all files where there is no git."""
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, check=False)
    if git.returncode == 0:
        return sorted({name for name in git.stdout.decode().split("\0") if name and (root / name).is_file()})
    names = []
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if name not in ("build", ".git", "__pycache__")]
        names += [str((Path(directory) / name).relative_to(root)) for name in files]
    return sorted(names)


def missing_texts(names: list[str]) -> list[str]:
    """Texts of licences that files refer to and that are not there."""
    wanted = {f"{APACHE_DIRECTORY}LICENSE" if name.startswith(APACHE_DIRECTORY) else "LICENSE" for name in names}
    return [f"{name}: the text of the licence is missing" for name in sorted(wanted - set(names))]


def main() -> None:
    names = repository_files(ROOT)
    if not names:
        raise Fail(f"{ROOT}: no files found")
    found = missing_texts(names)
    found += [problem for name in names for problem in problems(name, (ROOT / name).read_bytes())]
    if found:
        raise Fail("\n  ".join(["files break a rule:", *found]))
    print(f"  {len(names)} files carry their licence")


if __name__ == "__main__":
    run_main(main)
