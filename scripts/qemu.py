#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Install QEMU's Debian packages, all that there are in the same version; scripts/setup calls this, as root.

Where the machine's own suites have no version that will do, as on Debian 12, they come from its backports, in the
archive that the machine uses anyway. That suite is known to apt only for as long as this takes. Nothing is removed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from common import Fail, capture, run_main

ENVIRONMENT = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
# Each needs the very version of the common ones that it comes with, or modules of that version.
FAMILY = re.compile(r"qemu-(system(-.+)?|block-extra)$")
ADVICE = """\
What needs a newer QEMU is the lab; everything else here works without it. There are these ways to get one:
  - On Debian 12, let the archive that this machine uses have the suite bookworm-backports, or add one that has it to
    /etc/apt/sources.list.d; when 'apt-get update' reads it without errors, try again.
  - Use Debian 13, whose own QEMU is new enough.
  - Put another qemu-system-aarch64, built with --enable-plugins and --enable-modules, into PATH."""
# Clears what the machine's own configuration does with its lists after an update.
CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::SourceParts "{work}/parts";
Dir::State::Lists "{work}/lists";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"""


def older(version: str, than: str) -> bool:
    """In Debian's order; no version at all is older than any."""
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", than], check=False).returncode == 0


def max_version(versions: Sequence[str]) -> str:
    result = ""
    for version in versions:
        if older(result, version):
            result = version
    return result


def installed_family(status: str) -> dict[str, str]:
    """QEMU's installed packages, from dpkg-query's lines 'state name version'."""
    lines = (line.split() for line in status.splitlines())
    return {words[1]: words[2] for words in lines
            if len(words) == 3 and words[0] == "installed" and FAMILY.match(words[1])}


def candidates(policy: str) -> dict[str, str]:
    """The version that apt would install of each package, from apt-cache policy."""
    found = re.findall(r"^(\S+):\n(?:  .*\n)*?  Candidate: (\S+)", policy, re.MULTILINE)
    return {name: version for name, version in found if version != "(none)"}


def removals(simulation: str) -> list[str]:
    return re.findall(r"^Remv (\S+)", simulation, re.MULTILINE)


def installations(simulation: str) -> dict[str, str]:
    return dict(re.findall(r"^Inst ([^\s:]+)\S* (?:\[\S+\] )?\((\S+)", simulation, re.MULTILINE))


def backports_entry(targets: str, codename: str) -> str:
    """The sources.list line for backports, from the lines 'URI release component origin' of apt's own targets.

    It is empty where the machine has backports already.
    """
    rows = [line.split() for line in targets.splitlines()]
    suite = f"{codename}-backports"
    if any(row[1] == suite and row[2] == "main" for row in rows if len(row) == 4):
        return ""
    for row in rows:
        if row[1:] == [codename, "main", "Debian"]:
            return f"deb {row[0]} {suite} main\n"
    raise Fail(f"apt has no source with Debian's suite {codename}, component main, to derive {suite} from.\n{ADVICE}")


def apt_directory(name: str) -> Path:
    text = capture(["apt-config", "shell", "value", f"{name}/d"])
    return Path(shlex.split(text.partition("=")[2])[0])


@contextlib.contextmanager
def with_backports(codename: str) -> Iterator[list[str]]:
    """Options with which apt-get also knows backports; it keeps its lists elsewhere, so that none of it stays."""
    form = " ".join(f"$({field})" for field in ("REPO_URI", "RELEASE", "COMPONENT", "ORIGIN"))
    entry = backports_entry(capture(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]), codename)
    if not entry:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="steer-backports-") as name:
        work = Path(name)
        parts, lists = apt_directory("Dir::Etc::sourceparts"), apt_directory("Dir::State::lists")
        if parts.is_dir():
            shutil.copytree(parts, work / "parts")
        # With the lists as they are, only those of backports have to be downloaded.
        shutil.copytree(lists, work / "lists", ignore=shutil.ignore_patterns("partial", "lock"))
        (work / "lists/partial").mkdir()
        (work / "parts").mkdir(exist_ok=True)
        (work / "parts/steer-backports.list").write_text(entry, encoding="utf-8")
        (work / "apt.conf").write_text(CONFIGURATION.format(work=work), encoding="utf-8")
        yield ["-c", str(work / "apt.conf")]


def apt_get(*arguments: str) -> None:
    command = ["apt-get", "-q", *arguments]
    if status := subprocess.run(command, env=ENVIRONMENT, check=False).returncode:
        raise Fail(f"apt-get {next(a for a in arguments if a in ('update', 'install'))} failed (status {status}), "
                   f"see above.\n{ADVICE}")


def install(packages: Sequence[str], minimum: str, options: Sequence[str], suite: str) -> None:
    """Install packages, if that removes nothing and gives the version."""
    arguments = [*options, *(["-t", suite] if suite else []), "--no-install-recommends", "install", *packages]
    try:
        simulation = capture(["apt-get", "-q", "--simulate", *arguments], env=ENVIRONMENT)
    except Fail as failure:
        raise Fail(f"{failure}\n{ADVICE}") from None
    if removed := removals(simulation):
        raise Fail(f"a newer QEMU would remove {', '.join(removed)}; nothing was changed.\n{ADVICE}")
    future = installed_family(capture(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]))
    future |= installations(simulation)
    if wrong := [f"{name} {future.get(name, '')}".strip() for name in packages if older(future.get(name, ""), minimum)]:
        raise Fail(f"{suite or 'apt'} has nothing newer than {', '.join(wrong)}, needed is "
                   f"{minimum.removeprefix('1:').rstrip('~')} or later; nothing was changed.\n{ADVICE}")
    automatic = capture(["apt-mark", "showauto", *packages]).split()
    apt_get("-y", "--no-remove", *arguments)
    if automatic:  # being named does not make them wanted for their own sake
        capture(["apt-mark", "auto", *automatic])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minimum", default="", help="the oldest version that will do, as of the Debian package")
    parser.add_argument("packages", nargs="+")
    arguments = parser.parse_args()
    present = installed_family(capture(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]))
    # One may have been installed from backports before; then the others have to come from there, too.
    needed = max_version([arguments.minimum, *present.values()])
    available = candidates(capture(["apt-cache", "policy", *arguments.packages], env=ENVIRONMENT))
    if not any(older(available.get(name, ""), needed) for name in arguments.packages):
        install(arguments.packages, arguments.minimum, [], "")
        return
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    with with_backports(codename) as options:
        if options:
            print(f"setup: QEMU comes from {codename}-backports, which apt knows only for now", flush=True)
        apt_get(*options, "update")
        install(sorted({*arguments.packages, *present}), arguments.minimum, options, f"{codename}-backports")


if __name__ == "__main__":
    run_main(main)
