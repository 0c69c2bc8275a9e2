# SPDX-License-Identifier: GPL-2.0-only
"""Files of Debian packages of another architecture or release, without installing them or changing apt's configuration.

They come from the machine's own apt sources, those of another release from the archives that these name. apt is given
lists, a cache and a package database of its own, the last one empty: it sees the target's packages only, resolves
dependencies as for a new machine, and checks signatures and hashes as it always does. What was unpacked stays as it is
until `make clean`, whatever the archive has by then.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from common import Fail, Progress, Target, capture, locked, replace_file, run_logged, useful_lines

T = TypeVar("T")
DEBIAN_ARCH = {"x86_64": "amd64", "arm64": "arm64"}
LISTS_MAX_AGE = 24 * 3600.0  # seconds after which an update comes before the next download
# Clears what the machine's own configuration runs after an update: it is about the machine's own lists.
CONFIGURATION = """\
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "{arch}";
APT::Architectures {{ "{arch}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "{work}/state";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
"""
NOT_FOUND = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate|"
                       r"Can't select .* from package '?([^\s']+)'?|(\S+) : Depends: .*")
NO_NETWORK = re.compile(r"^(Err:|[WE]: (Failed to fetch|Some index files failed))", re.MULTILINE)


# What apt can say of each index that the machine's sources name
INDEXES = ("apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def own_release() -> str:
    """The codename of the machine's own Debian release."""
    release = platform.freedesktop_os_release()
    return release.get("VERSION_CODENAME", release["ID"])


def of_another_release(target: Target) -> bool:
    return target.release not in ("", own_release())


def directory(target: Target) -> Path:
    """Where the target's packages are: apart by Debian release, whose libraries do not mix."""
    return target.build / target.arch / "packages" / (target.release or own_release())


def sources_of(release: str, own: str, indexes: str) -> str:
    """apt's sources for another release: those of our own, with the same updates, in its place."""
    signed_by = f" [signed-by={KEYRING}]" if KEYRING.is_file() else ""
    found = {f"deb{signed_by} {uri} {release}{codename.removeprefix(own)} main\n"
             for codename, component, uri in (line.split() for line in indexes.splitlines())
             if component == "main" and codename in (own, f"{own}-updates", f"{own}-security")}
    if not found:
        raise Fail(f"{release}: this machine's apt sources do not name Debian's archive with the release {own} and the "
                   f"component main, so it is not known where {release} is.")
    return "".join(sorted(found))


def apt_get(target: Target) -> list[str | Path]:
    """The command apt-get, with everything it writes to in our directory."""
    if not shutil.which("apt-get"):
        raise Fail("this needs Debian 12 or 13 (no apt-get here)")
    work = directory(target)
    for name in ("state/lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    text = CONFIGURATION.format(arch=DEBIAN_ARCH[target.arch], work=work)
    # Of the indexes only the lists of packages are of use.
    for kind, index in re.findall(r"^Acquire::IndexTargets::(deb|deb-src)::([\w-]+) ", capture(["apt-config", "dump"]),
                                  re.MULTILINE):
        if index != "Packages":
            text += f'Acquire::IndexTargets::{kind}::{index}::DefaultEnabled "false";\n'
    if of_another_release(target):
        replace_file(work / "sources.list",
                     sources_of(target.release, own_release(), capture(list(INDEXES))).encode())
        text += f'Dir::Etc::sourcelist "{work}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
    replace_file(work / "apt.conf", text.encode())
    return ["apt-get", "-q", "-c", work / "apt.conf"]


def sources_advice(target: Target) -> str:
    if of_another_release(target):
        return (f"They were looked for in the release {target.release}, in the archives that this machine's apt sources "
                f"name; see {directory(target) / 'sources.list'}.")
    return (f"Look in /etc/apt/sources.list and sources.list.d: Debian's component main must be there, with the suites "
            f"for security and updates,\nand not be limited to other architectures than {DEBIAN_ARCH[target.arch]} "
            f"([arch=...] or Architectures:). Then try again.")


def advice(target: Target, log: str) -> str:
    """What to do about a failed apt-get."""
    if names := sorted({name for match in NOT_FOUND.findall(log) for name in match if name}):
        return (f"The apt sources of this machine do not have, for {DEBIAN_ARCH[target.arch]}, what is needed of: "
                f"{', '.join(names)}.\n{sources_advice(target)}")
    if target.release and "does not have a Release file" in log:
        return f"There may be no release {target.release}. {sources_advice(target)}"
    if NO_NETWORK.search(log):
        return ("The Debian archive could not be reached. Look at the network and, where there is one, at apt's proxy "
                "(Acquire::http::Proxy);\nwhen 'apt-get update' works as root, try again.")
    return "When 'apt-get update' works as root, try again."


def run_apt(target: Target, arguments: Sequence[str], log: Path, what: str, item: str, cwd: Path | None = None) -> None:
    try:
        run_logged([*apt_get(target), *arguments], log, f"{what} for {DEBIAN_ARCH[target.arch]}", cwd=cwd, item=item,
                   env=os.environ | {"LC_ALL": "C"})
    except Fail as failure:
        raise Fail(f"{failure}\n{advice(target, log.read_text(encoding='utf-8'))}") from None


def update(target: Target, max_age: float = LISTS_MAX_AGE) -> bool:
    """Update the lists when they are older than that; returns whether it was done."""
    work = directory(target)
    stamp, log, arch = work / "updated", work / "update.log", DEBIAN_ARCH[target.arch]
    if stamp.is_file() and time.time() - stamp.stat().st_mtime < max_age:
        return False
    run_apt(target, ["update"], log, "apt lists", r"^(?:Get|Hit):\d+ (\S+)")
    text = log.read_text(encoding="utf-8")
    if not any((work / "state/lists").glob("*_Packages*")):
        raise Fail(f"the apt sources of this machine gave no list of packages for {arch}. {log} ends with:\n"
                   f"{useful_lines(text, 4)}\n"
                   f"{advice(target, text) if NO_NETWORK.search(text) else sources_advice(target)}")
    if NO_NETWORK.search(text):
        print(f"  note: some of this machine's apt sources failed; see {log}", flush=True)
    else:
        stamp.touch()
    return True


def with_lists(target: Target, work: Callable[[], T]) -> T:
    """Do what needs the lists. When it fails on lists from before, once more: an archive drops what it replaces."""
    if update(target):
        return work()
    try:
        return work()
    except Fail:
        update(target, 0)
        return work()


def download(target: Target, packages: Sequence[str]) -> list[Path]:
    """Download packages, given as NAME or NAME=VERSION, in one go; returns where they are unpacked."""
    work = directory(target)
    archives, roots = work / "archives", []
    shutil.rmtree(archives, ignore_errors=True)
    archives.mkdir()
    what = packages[0].partition("=")[0] if len(packages) == 1 else f"{len(packages)} packages"
    run_apt(target, ["download", *packages], work / "download.log", what, r"^Get:\d+ \S+ \S+ \S+ (\S+)", archives)
    progress = Progress(f"unpacking {what}")
    for archive in sorted(archives.glob("*.deb")):
        progress.update(archive.name)
        root = work / "unpacked" / archive.name.rpartition("_")[0]
        new = root.with_name(f"new_{root.name}")
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(exist_ok=True)
        capture(["dpkg-deb", "--extract", archive, new])
        new.rename(root)
        roots.append(root)
    if progress.elapsed() >= 2:
        progress.finish("done")
    shutil.rmtree(archives)
    return roots


def unpack_all(target: Target, packages: Iterable[str]) -> dict[str, Path]:
    """Packages and all that they depend on, as apt would install them on a new machine: name -> where it is unpacked.

    What was unpacked for the same packages before is used as it is.
    """
    work, wanted = directory(target), sorted(set(packages))
    known, log = work / "sets.json", work / "dependencies.log"

    def from_archive() -> list[Path]:
        run_apt(target, ["install", "--simulate", *wanted], log, "dependencies", r"^Inst (\S+)")
        found = dict(re.findall(r"^Inst ([^\s:]+)\S* \((\S+)", log.read_text(encoding="utf-8"), re.MULTILINE))
        if absent := set(wanted) - set(found):
            raise Fail(f"apt-get would not install {', '.join(sorted(absent))}; see {log}")
        places = {name: work / "unpacked" / f"{name}_{number.replace(':', '%3a')}" for name, number in found.items()}
        if missing := [f"{name}={found[name]}" for name, place in places.items() if not place.is_dir()]:
            download(target, missing)
        if absent := {name for name, place in places.items() if not place.is_dir()}:
            raise Fail(f"apt-get did not download {', '.join(sorted(absent))}; see {work / 'download.log'}")
        return list(places.values())

    with locked(work / "lock"):
        sets: dict[str, list[str]] = json.loads(known.read_text(encoding="utf-8")) if known.is_file() else {}
        roots = [work / "unpacked" / name for name in sets.get(" ".join(wanted), [])]
        if not roots or not all(root.is_dir() for root in roots):
            roots = with_lists(target, from_archive)
            sets[" ".join(wanted)] = sorted(root.name for root in roots)
            replace_file(known, json.dumps(sets, indent=1).encode())
    return {root.name.partition("_")[0]: root for root in sorted(roots)}


def unpack(target: Target, package: str) -> Path:
    """One package, without what it depends on; returns where it is unpacked."""
    work = directory(target)
    with locked(work / "lock"):
        if existing := sorted((work / "unpacked").glob(f"{package}_*")):
            return existing[-1]
        if roots := with_lists(target, lambda: download(target, [package])):
            return roots[0]
    raise Fail(f"apt-get downloaded no {package} for {DEBIAN_ARCH[target.arch]}; see {work / 'download.log'}")


def version(root: Path) -> str:
    """The version of an unpacked package."""
    return root.name.partition("_")[2].replace("%3a", ":")
