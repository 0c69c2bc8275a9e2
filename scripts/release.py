#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make a release: changelog, packages, a signed repository, checksums, a report of the tests, and the tag.

Two calls, with the tests between them:
  release.py prepare X.Y   sets the version, adds an entry with the changes since the last tag to packaging/changelog,
                           and commits both. Edit the entry (git commit --amend) where subjects of commits say too much.
  release.py make          builds all of it for that commit in build/release/vX.Y and tags the commit. It wants the
                           report of a whole `make check` of the same commit, and of `make install-test`, where there is
                           one. UNTESTED=1 goes on without, and the report says so.

packaging/README.md has the policy of versions.
"""

from __future__ import annotations

import argparse
import email.utils
import hashlib
import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import debian_package
import release_version
import repo
from common import ROOT, Fail, Target, capture, replace_file, run_main

TAG = re.compile(r"v(\d+)\.(\d+)")
LOCK = release_version.CARGO.with_name("Cargo.lock")
CHECK_REPORT = ROOT / "build/check/report.txt"
WIDTH = 80  # of the changelog, as Debian has it


def git(*arguments: str, root: Path = ROOT) -> str:
    return capture(["git", "-C", root, *arguments]).strip()


def tags(root: Path = ROOT) -> list[str]:
    """Those of releases, the oldest first."""
    found = [tag for tag in git("tag", "--list", "v*", root=root).split() if TAG.fullmatch(tag)]
    return sorted(found, key=lambda tag: tuple(map(int, TAG.fullmatch(tag).groups())))  # type: ignore[union-attr]


def check_version(wanted: str, known: Sequence[str]) -> None:
    """X.Y, and higher than what is released."""
    if not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)", wanted):
        raise Fail(f"VERSION={wanted}: X.Y is wanted, two whole numbers, such as 1.2")
    if known and tuple(map(int, wanted.split("."))) <= tuple(map(int, known[-1][1:].split("."))):
        raise Fail(f"VERSION={wanted} is not higher than the last release, {known[-1]}")


def entry(version: str, subjects: Sequence[str], date: float | None = None) -> str:
    """An entry of the changelog: the subjects of commits, one point for each area, by first appearance."""
    areas: dict[str, list[str]] = {}
    for subject in subjects:
        area, _, what = subject.partition(": ")
        areas.setdefault(area if what else "others", []).append(what or subject)
    points = [textwrap.fill(f"{area}: {'; '.join(changes)}.", WIDTH, initial_indent="  * ", subsequent_indent="    ",
                            break_long_words=False, break_on_hyphens=False) for area, changes in areas.items()]
    return "\n".join([f"cgroup-steer ({version}.0) stable; urgency=medium", "", *points, "",
                      f" -- {debian_package.MAINTAINER}  {email.utils.formatdate(date, localtime=False)}", ""])


def prepended(changelog: str, new: str) -> str:
    """The changelog with a new first entry, below the line of the licence."""
    licence, rest = changelog.split("\n", maxsplit=1)
    return f"{licence}\n{new}\n{rest}"


def with_version(text: str, version: str, name: str) -> str:
    """Cargo.toml or Cargo.lock with another version of cgctl."""
    new, count = re.subn(r'^(name = "cgctl"\nversion = )"[^"]+"$', rf'\g<1>"{version}.0"', text, flags=re.MULTILINE)
    if count != 1:
        raise Fail(f'{name}: the lines name = "cgctl" and version = "..." are wanted once, and are there {count} times')
    return new


def prepare(version: str) -> None:
    known = tags()
    check_version(version, known)
    clean()
    since = f"{known[-1]}..HEAD" if known else "HEAD"
    subjects = git("log", "--reverse", "--format=%s", "--no-merges", since).splitlines()
    if not subjects:
        raise Fail(f"there is nothing new since {known[-1]}")
    changelog = release_version.CHANGELOG.read_text(encoding="utf-8")
    if f"cgroup-steer ({version}.0) UNRELEASED;" in changelog:
        # Written by hand, as the first one: only the date is missing.
        changelog = re.sub(rf"^(cgroup-steer \({re.escape(version)}\.0\)) UNRELEASED(;.*?^ -- [^\n]*?  )[^\n]*$",
                           rf"\1 stable\g<2>{email.utils.formatdate(localtime=False)}", changelog, count=1,
                           flags=re.MULTILINE | re.DOTALL)
    else:
        changelog = prepended(changelog, entry(version, subjects))
    for path in (release_version.CARGO, LOCK):
        replace_file(path, with_version(path.read_text(encoding="utf-8"), version, path.name).encode())
    replace_file(release_version.CHANGELOG, changelog.encode())
    git("commit", "-q", "-m", f"release: {version}", "--", *(str(path) for path in (
        release_version.CARGO, LOCK, release_version.CHANGELOG)))
    print(f"  committed the release of {version}; look at packaging/changelog.")
    print("  Then: make check, make deb, make release")


def clean() -> None:
    if changed := git("status", "--porcelain"):
        raise Fail(f"these files are not committed, and a release is of a commit:\n{changed}")


def test_report(commit: str, check: Path, walks: Sequence[Path]) -> tuple[str, list[str]]:
    """The report for people, and what is missing."""
    missing, parts = [], []
    text = check.read_text(encoding="utf-8") if check.is_file() else ""
    if f"commit {commit}\n" not in text:
        missing.append("make check was not run as a whole on this commit")
    elif " 0 failed" not in text:
        missing.append("make check failed")
    parts.append(text if not missing else f"NOT TESTED: {'; '.join(missing)}.\n{text}")
    for walk in walks:
        said = walk.read_text(encoding="utf-8")
        same = f"commit {commit}\n" in said
        parts.append(said if same else f"{walk.stem}, for other packages than these:\n{said}")
    if not walks:
        parts.append("make install-test was not run.\n")
    return f"Tests of commit {commit}\n\n" + "\n".join(parts), missing


def checksums(directory: Path) -> str:
    """As sha256sum reads them."""
    files = [path for path in sorted(directory.rglob("*"))
             if path.is_file() and not path.name.startswith("SHA256SUMS")]
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return "".join(f"{found}  {path.relative_to(directory)}\n" for path, found in sums.items())


def make(target: Target, environ: Mapping[str, str]) -> Path:
    clean()
    source = release_version.of_source()
    if environ.get("BUILD") or not source.endswith(".0"):
        raise Fail("a release has no number of a build; leave BUILD empty")
    version, commit = source.rpartition(".")[0], git("rev-parse", "HEAD")
    check_version(version, tags())
    if release_version.changelog("Version") != source or release_version.changelog("Distribution") == "UNRELEASED":
        raise Fail(f"packaging/changelog does not begin with a released entry for {source}; "
                   f"run: make release VERSION={version}")
    walks = sorted((target.build / target.arch / "install-test").glob("result-*.txt"))
    report, missing = test_report(commit, CHECK_REPORT, walks)
    if missing and environ.get("UNTESTED", "") in ("", "0"):
        raise Fail(f"{'; '.join(missing)}. Run: make check (UNTESTED=1 makes the release without, and says so in it)")
    out = ROOT / f"build/release/v{version}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    key = repo.key(environ)
    _, packages = repo.make(target, environ)
    for package in packages:
        shutil.copyfile(package, out / package.name)
    shutil.copyfile(release_version.CHANGELOG, out / "changelog")
    replace_file(out / "test-report.txt", report.encode())
    for walk in sorted((target.build / target.arch / "install-test").glob("transcript-*.txt")):
        shutil.copyfile(walk, out / walk.name)
    replace_file(out / repo.KEY_FILE, key.gpg("--armor", "--export", key.fingerprint).encode())
    replace_file(out / "SHA256SUMS", checksums(out).encode())
    key.gpg("--yes", "--local-user", key.fingerprint, "--armor", "--output", out / "SHA256SUMS.asc", "--detach-sign",
            out / "SHA256SUMS")
    git("tag", "--annotate", "-m", f"cgroup-steer {version}", f"v{version}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "make"))
    parser.add_argument("version", nargs="?", default="", help="X.Y, for prepare")
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        prepare(arguments.version)
        return
    out = make(Target.from_environment(), os.environ)
    print(f"  release: {out.relative_to(ROOT)}, tagged {out.name}; git push origin {out.name} makes it public")


if __name__ == "__main__":
    run_main(main)
