#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A signed apt repository of the packages that are built: plain files, for any web server or a directory.

Packages are added to those that the directory has, so that machines can go back to an earlier version. Debian's
apt-ftparchive writes the indexes and gpg signs them. (reprepro keeps one version of a package only, in Debian 12;
aptly keeps a database of its own, where here the files are all there is.)

Variables: REPO (the directory, default build/repo), REPO_KEY (fingerprint of a secret key in the caller's GnuPG
keyring; without one, a key is made once and kept in ~/.local/share/cgroup-steer/repository-key), FLAVOUR (of the
kernel; all that are built, if it is not set).
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cgctl_deb
import deb
import selftests_deb
from common import ROOT, Fail, Target, capture, locked, replace_file, run_main

NAME = "cgroup-steer"  # also the origin that apt's pins name
SUITE = "stable"
KEY_FILE = f"{NAME}.asc"
SOURCES_FILE = f"{NAME}.sources"
LONGEST_HOME = 107 - len("/S.gpg-agent.browser")  # a socket's path has 107 bytes at most
SOURCES = """\
# Copy to /etc/apt/sources.list.d/{name}.sources after the key is in /etc/apt/keyrings/{name}.asc.
Types: deb
URIs: {uri}
Suites: {suite}
Components: main
Signed-By: {key}
"""


@dataclass(frozen=True)
class Key:
    """A secret key: its fingerprint, and the directory of its keyring (the caller's own, if there is none)."""

    fingerprint: str
    home: Path | None = None

    def gpg(self, *arguments: str | Path) -> str:
        return capture([*gpg(self.home), *map(str, arguments)])


def gpg(home: Path | None) -> list[str | Path]:
    return ["gpg", "--batch", "--quiet", "--no-tty", *(["--homedir", home] if home else [])]


def fingerprints(home: Path | None, name: str = "") -> list[str]:
    """Of the secret keys in a keyring."""
    done = subprocess.run([*map(str, gpg(home)), "--list-secret-keys", "--with-colons", *([name] if name else [])],
                          capture_output=True, text=True, check=False)
    return re.findall(r"^sec:.*\n(?:(?!sec:).*\n)*?fpr:+([0-9A-F]{40}):", done.stdout, re.MULTILINE)


def key_home(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or Path.home()) / ".local/share"
    return Path(base) / NAME / "repository-key"


def key(environ: Mapping[str, str]) -> Key:
    """The key to sign with; makes one where there is none. Outside of build/: machines trust it for years."""
    if wanted := environ.get("REPO_KEY", ""):
        found = fingerprints(None, wanted)
        if len(found) != 1:
            problem = "several secret keys match" if found else "no such secret key"
            raise Fail(f"REPO_KEY={wanted}: {problem} in the keyring of gpg; give the fingerprint of one that "
                       "'gpg --list-secret-keys' shows")
        return Key(found[0])
    home = key_home(environ)
    if len(str(home)) > LONGEST_HOME:
        raise Fail(f"{home}: gpg's agent has its socket there, for which the path is too long ({len(str(home))} bytes, "
                   f"{LONGEST_HOME} at most); set XDG_DATA_HOME to a shorter one")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.chmod(0o700)
    if not fingerprints(home):
        capture([*gpg(home), "--passphrase", "", "--quick-generate-key", f"{NAME} packages", "ed25519", "sign",
                 "never"])
        print(f"  key: made {home}; keep a copy of this directory, and let nobody else read it", flush=True)
    return Key(fingerprints(home)[0], home)


def add(packages: Iterable[Path], repository: Path) -> list[str]:
    """Copy packages into the pool; returns the names of the new ones. What is published stays as it is."""
    pool = repository / "pool/main"
    pool.mkdir(parents=True, exist_ok=True)
    new = []
    for package in packages:
        published = pool / package.name
        if published.is_file():
            if published.read_bytes() != package.read_bytes():
                raise Fail(f"{published} is published with other content, and machines may have it; build again under "
                           "a higher number (make repo BUILD=2), or take another directory (REPO=)")
            continue
        temporary = published.with_suffix(".new")
        shutil.copyfile(package, temporary)
        temporary.rename(published)
        new.append(package.name)
    return new


def write_index(repository: Path, architecture: str, packages: str) -> None:
    """Packages and Packages.xz, also by their hashes: a machine that has read the Release file before this one still
    finds what that names."""
    directory = repository / f"dists/{SUITE}/main/binary-{architecture}"
    for name, content in (("Packages", packages.encode()), ("Packages.xz", lzma.compress(packages.encode()))):
        replace_file(directory / f"by-hash/SHA256/{hashlib.sha256(content).hexdigest()}", content)
        replace_file(directory / name, content)


def publish(repository: Path, signing: Key) -> None:
    """Write the indexes of what is in the pool, and sign them. The signed file comes last, in one step."""
    listing = capture(["env", "-C", repository, "apt-ftparchive", "packages", "pool"])
    stanzas = [f"{stanza}\n" for stanza in listing.strip().split("\n\n") if stanza]
    found = sorted(set(re.findall(r"^Architecture: (\S+)$", listing, re.MULTILINE)) - {"all"})
    if not found:
        raise Fail(f"{repository}/pool has no packages")
    for architecture in found:
        write_index(repository, architecture, "\n".join(
            stanza for stanza in stanzas if re.search(rf"^Architecture: (all|{architecture})$", stanza, re.MULTILINE)))
    settings = {"Origin": NAME, "Label": NAME, "Suite": SUITE, "Codename": SUITE, "Components": "main",
                "Architectures": " ".join(found), "Acquire-By-Hash": "yes",
                "Description": "Linux with CPU policies for cgroups, cgctl, kselftests"}
    dists = repository / f"dists/{SUITE}"
    for old in ("Release", "InRelease", "Release.gpg"):
        (dists / f"{old}.new").unlink(missing_ok=True)
    # apt-ftparchive lists by-hash, too, and the files that it is to replace.
    # apt looks for an index by the strongest hash that the file has, so there is that one only.
    settings |= {"MD5": "false", "SHA1": "false", "SHA512": "false"}
    options = [f"-o=APT::FTPArchive::Release::{name}={value}" for name, value in settings.items()]
    release = capture(["apt-ftparchive", *options, "-o=APT::FTPArchive::Release::Patterns::=Packages*", "release",
                       dists])
    release = "\n".join(line for line in release.splitlines() if "by-hash/" not in line) + "\n"
    replace_file(dists / "Release.new", release.encode())
    sign = ("--yes", "--local-user", signing.fingerprint, "--digest-algo", "SHA512", "--output")
    signing.gpg(*sign, dists / "InRelease.new", "--clearsign", dists / "Release.new")
    signing.gpg(*sign, dists / "Release.gpg.new", "--armor", "--detach-sign", dists / "Release.new")
    for name in ("Release", "Release.gpg", "InRelease"):
        (dists / f"{name}.new").rename(dists / name)
    replace_file(repository / KEY_FILE, signing.gpg("--armor", "--export", signing.fingerprint).encode())
    if signing.home:
        subprocess.run(["gpgconf", "--homedir", signing.home, "--kill", "gpg-agent"], check=False)


def sources(uri: str, key_file: str | Path = f"/etc/apt/keyrings/{KEY_FILE}") -> str:
    """What tells apt of the repository; it is signed by the key in a file of the machine."""
    return SOURCES.format(name=NAME, uri=uri, suite=SUITE, key=key_file)


def built(target: Target, flavours: Sequence[str]) -> list[Path]:
    """The kernel packages of flavours that are there."""
    return [path for flavour in flavours for path in deb.packages_in(target.build / target.arch, flavour)]


def collect(target: Target, environ: Mapping[str, str]) -> list[Path]:
    """All packages of this version: those of the kernel as they are, the others built when needed."""
    flavours = [deb.flavour_from_environment(environ)] if environ.get("FLAVOUR") else deb.FLAVOURS
    kernels = built(target, flavours)
    if not kernels:
        wanted = f" FLAVOUR={flavours[0]}" if environ.get("FLAVOUR") else ", or with FLAVOUR=cloud"
        raise Fail(f"there are no kernel packages of this version; run: make deb{wanted}")
    return [*kernels, cgctl_deb.build(), selftests_deb.build(target)]


def directory(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("REPO") or ROOT / "build/repo").resolve()


def make(target: Target, environ: Mapping[str, str]) -> tuple[Path, list[Path]]:
    """Returns the repository, and the packages of this version that are in it now."""
    if not shutil.which("apt-ftparchive"):
        raise Fail("apt-ftparchive is missing; run: scripts/setup repo")
    repository, signing = directory(environ), key(environ)
    repository.mkdir(parents=True, exist_ok=True)
    with locked(ROOT / "build/repo.lock"):
        packages = collect(target, environ)
        for name in add(packages, repository):
            print(f"  added {name}", flush=True)
        publish(repository, signing)
        replace_file(repository / SOURCES_FILE, sources("https://EXAMPLE.ORG/cgroup-steer").encode())
    return repository, packages


def main() -> None:
    repository, _ = make(Target.from_environment(), os.environ)
    size = sum(path.stat().st_size for path in repository.rglob("*") if path.is_file())
    print(f"  repository: {repository} ({size / 1e6:.0f} MB). packaging/README.md says how machines use it.")


if __name__ == "__main__":
    run_main(main)
