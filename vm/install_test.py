#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The way of a user, walked: a Debian machine with its own kernel and GRUB takes our packages from a repository, boots
our kernel, is upgraded, goes back, and removes all of it.

The commands are those of packaging/README.md and README.md, run as they are printed there; only the address of the
repository and the flavour are put in. Everything that was run is written to transcript-RELEASE.txt, what came of it to
result-RELEASE.txt, both in build/<KVER>/<ARCH>/install-test.

FLAVOUR (default cloud) says which kernel. Two builds of it are made, the second for the upgrade.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "guest"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))  # which has a module "run", too

import deb  # noqa: E402
import debian_disk  # noqa: E402
import ktap  # noqa: E402
import provenance  # noqa: E402
import release_version  # noqa: E402
import repo  # noqa: E402
from common import ROOT, Fail, Target, run_main  # noqa: E402
from debian_disk import Kind, Machine, Served  # noqa: E402
from ktap import FAILED, PASSED, Test  # noqa: E402
from page_examples import examples  # noqa: E402
from run import accelerator  # noqa: E402

RELEASES = ("trixie", "bookworm")
PAGE = ROOT / "packaging/README.md"
README = ROOT / "README.md"
EXAMPLE = "https://EXAMPLE.ORG/cgroup-steer"
# What the page asks about is answered here, and what is printed for people to read stays short.
APT = 'APT::Get::Assume-Yes "true";\\nDpkg::Use-Pty "false";\\n'
SERVICE = "[Service]\\nExecStart=/bin/sleep infinity\\nCPUWeight=100\\n[Install]\\nWantedBy=multi-user.target\\n"
# A module that Debian has as source only, built for our kernel as soon as its headers are there.
DKMS = ("dkms", "gcc", "make", "acpi-call-dkms")
DKMS_MODULE = "acpi_call"
LONG = 3600.0  # seconds, for what installs kernels or runs all selftests on an emulated machine


def commands(page: str, heading: str, uri: str, flavour: str) -> list[str]:
    """Those of a section, for this repository and this flavour."""
    suffix = deb.flavoured("steer", flavour)
    return [re.sub(r"\bsteer-cloud\b", suffix, command.replace(EXAMPLE, uri))
            for block in examples(page, heading) for command, _ in block]


@dataclass
class Walk:
    """A machine, what was run on it, and what came of that."""

    machine: Machine
    transcript: Path
    tests: list[Test] = field(default_factory=list)

    def say(self, text: str) -> None:
        with self.transcript.open("a", encoding="utf-8") as stream:
            stream.write(text)

    def run(self, command: str, seconds: float = 900) -> tuple[int, str]:
        status, output = self.machine.run(command, seconds)
        self.say(f"# {command}\n{output}{'' if output.endswith(chr(10)) or not output else chr(10)}"
                 f"{f'[status {status}]{chr(10)}' if status else ''}")
        return status, output

    def check(self, name: str, good: object, detail: str = "") -> bool:
        self.tests.append(Test(f"install: {name}", PASSED if good else FAILED, "" if good else detail[-1500:]))
        print(f"    {'ok' if good else 'FAILED'} {name}", flush=True)
        return bool(good)

    def does(self, name: str, command: str, *parts: str, seconds: float = 900, status: int = 0) -> str:
        """Run a command that must end with a status and print some texts."""
        got, output = self.run(command, seconds)
        missing = [part for part in parts if part not in output]
        self.check(name, got == status and not missing,
                   f"{command}: status {got}{f', without {missing}' if missing else ''}: {output}")
        return output

    def boot(self, what: str) -> None:
        """Reboot by the machine's own means; GRUB says into what."""
        if self.machine.process:
            self.machine.leave("reboot")
        seconds = self.machine.start()
        self.say(f"\n## {what}: Linux {self.machine.release}\n\n")
        print(f"  {what}: Linux {self.machine.release}, {seconds:.0f} s", flush=True)

    def runs(self, name: str, release: str) -> None:
        self.check(f"{name}: kernel", self.machine.release == release, f"{self.machine.release}, not {release}")
        self.does(f"{name}: what GRUB has booted", "cat /proc/cmdline", f"/boot/vmlinuz-{release} ")

    def no_failed_unit(self, name: str) -> None:
        self.run("systemctl is-system-running --wait", 300)
        output = self.run("systemctl list-units --failed --no-legend --plain")[1]
        self.check(f"{name}: no failed unit", not output.strip(), output + self.run(
            "journalctl -b -p warning -o short-monotonic --no-pager | tail -n 40")[1] if output.strip() else "")

    def section(self, name: str, heading: str, uri: str, flavour: str) -> str:
        """Run what the page says, without its reboots: they are the walk's own."""
        printed = ""
        for command in commands(PAGE.read_text(encoding="utf-8"), heading, uri, flavour):
            if command.startswith("systemctl reboot"):
                continue
            status, output = self.run(command, LONG)
            printed += output
            if not self.check(f"{name}: {command.splitlines()[0][:70]}", not status, f"status {status}: {output}"):
                raise Fail(f"'{command}' failed, and what comes after builds on it")
        return printed

    def three_ways(self) -> None:
        """Those of the README, which print what it shows."""
        for number, way in enumerate(examples(README.read_text(encoding="utf-8"), "Three ways to set a policy"), 1):
            self.run(f"printf '{SERVICE}' >/etc/systemd/system/web.service; rm -rf /etc/systemd/system/web.service.d; "
                     "systemctl daemon-reload; systemctl restart web")
            wrong = []
            for command, printed in way:
                _, output = self.run(command)
                if [line.split() for line in output.splitlines()] != [line.split() for line in printed]:
                    wrong.append(f"{command}: {output!r}, not {printed!r}")
            self.check(f"way {number} of the README", not wrong, "; ".join(wrong))

    def selftests(self, only: str) -> None:
        status, output = self.run(f"steer-selftests {only}".rstrip(), LONG)
        results = re.findall(r"^(ok|not ok) \d+ selftests: steer: (\w+)(.*)$", output, re.MULTILINE)
        for result, program, rest in results:
            self.check(f"kselftest {program}{' (skipped)' if 'SKIP' in rest else ''}", result == "ok",
                       "\n".join(line for line in output.splitlines() if "not ok" in line))
        self.check("kselftests: status", status == 0 and results, output[-500:])


@dataclass(frozen=True)
class Build:
    """Packages of a version: the release of their kernel, and their files."""

    release: str
    version: str
    packages: Sequence[Path]


@dataclass(frozen=True)
class Repository:
    """What a machine takes packages from: signed with a key of its own, and served at an address."""

    directory: Path
    key: repo.Key
    uri: str

    def add(self, build: Build) -> None:
        repo.add(build.packages, self.directory)
        repo.publish(self.directory, self.key)


def make_build(target: Target, flavour: str, number: int) -> Build:
    os.environ["BUILD"] = str(number) if number else ""
    packages = deb.packages_in(target.build / target.arch, flavour) or deb.build(target, flavour)
    release = next(path.name.partition("_")[0].removeprefix("linux-image-") for path in packages
                   if path.name.startswith("linux-image-6"))
    os.environ["FLAVOUR"] = flavour
    return Build(release, release_version.of_packages(os.environ), repo.collect(target, os.environ))


def walk(walked: Walk, served: Repository, flavour: str, builds: Sequence[Build], only: str) -> None:
    """From Debian's kernel to ours, on to the next build, back, and away again."""
    machine, uri = walked.machine, served.uri
    first, second = builds
    modules = flavour != "small"
    walked.boot("the machine as it is")
    debian = machine.release
    walked.check("begins with Debian's kernel", "steer" not in debian, debian)
    machine.run(f"printf '{APT}' >/etc/apt/apt.conf.d/90walk")
    machine.run("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
    walked.section("install", "Install", uri, flavour)
    walked.does("kselftests are installed", "apt-get install steer-selftests", seconds=LONG)
    if modules:
        walked.section("modules", "Modules", uri, flavour)

    walked.boot("by GRUB's default entry")
    walked.runs("after the installation", first.release)
    walked.no_failed_unit("our kernel")
    if modules:
        walked.does("a module of DKMS", f"modprobe {DKMS_MODULE} && dkms status", first.release)
    walked.three_ways()
    # By now a unit uses the cpu controller: without one, no group has the files that doctor looks for.
    said = walked.does("doctor", "cgctl doctor", "this kernel has cpu.hint", "cgctl.service runs")
    walked.check("doctor finds nothing missing", "missing" not in said, said)
    # Tests that count the groups with a hint want to be the only ones to have one.
    walked.run("systemctl stop web")
    walked.selftests(only)
    walked.does("a service with a policy is left", "systemctl enable --now web", seconds=60)

    walked.section("one boot of Debian's", "One boot of another kernel", uri, flavour)
    walked.boot("Debian's kernel, by choice")
    walked.runs("by choice", debian)
    walked.no_failed_unit("Debian's kernel, with policies and drop-ins")
    walked.check("the service with the policy runs", "active" == machine.run("systemctl is-active web")[1].strip())
    status, output = walked.run("cgctl show web.service")
    walked.check("cgctl says what is missing", status and "kernel" in output, output)
    walked.run("systemctl status --no-pager cgctl.service | head -n 12")

    served.add(second)
    walked.section("upgrade", "Upgrade", uri, flavour)
    walked.boot("the next build, by GRUB's default entry")
    walked.runs("after the upgrade", second.release)
    walked.no_failed_unit("the next build")
    walked.does("doctor after the upgrade", "cgctl doctor", "cgctl.service runs")
    walked.does("the policy is there", "cat /sys/fs/cgroup/system.slice/web.service/cpu.hint", "tail_latency")
    walked.does("the kernel before is there", f"ls /boot/vmlinuz-{first.release}")

    back = commands(PAGE.read_text(encoding="utf-8"), "Go back", uri, flavour)
    for command in back:
        for example, value in (("6.12.117-1~deb12u1+~steer0.1.0", walked_version(first)),
                               ("6.12.117-steer0.1.1-cloud", second.release),
                               ("cgctl=0.1.0", f"cgctl={first.version}")):
            command = command.replace(example, value)
        if not command.startswith("systemctl reboot"):
            walked.does(f"back: {command[:60]}", command, seconds=LONG)
    walked.boot("the first build again")
    walked.runs("after going back", first.release)

    walked.section("removal", "Remove", uri, flavour)
    walked.boot("after the removal")
    walked.runs("after the removal", debian)
    walked.no_failed_unit("after the removal, drop-ins left over")
    walked.does("what is left", "ls /boot /etc/systemd/system/web.service.d")
    left = machine.run("ls -R /boot /lib/modules | grep steer")[1]
    walked.check("no kernel of ours is left", not left, left)
    machine.leave("poweroff")


def walked_version(build: Build) -> str:
    return next(path.name.split("_")[1] for path in build.packages if path.name.startswith("linux-image-steer"))


def on_machine(target: Target, name: str, command: str, release: str, kind: Kind, builds: Sequence[Build],
               way: Callable[[Walk, Repository], None]) -> list[Test]:
    """Walk a way on a fresh machine, with the first of the builds in its repository, and write down what came of it."""
    out = target.build / target.arch / "install-test"
    out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    disk, variables, directory = out / f"{name}.raw", out / f"{name}.vars", out / f"repo-{name}"
    debian_disk.copy_sparse(debian_disk.build(target, release, kind), disk)
    if kind.uefi:
        shutil.copyfile(debian_disk.UEFI_VARIABLES, variables)
    shutil.rmtree(directory, ignore_errors=True)
    machine = Machine(disk, out / f"logs-{name}", accelerator(target.arch) == "kvm", variables if kind.uefi else None)
    walked = Walk(machine, out / f"transcript-{name}.txt")
    walked.transcript.write_text("", encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory() as home, Served(directory) as served:
            repository = Repository(directory, repo.key({"HOME": home}), served.uri)
            repository.add(builds[0])
            way(walked, repository)
    finally:
        machine.stop()
        for path in (disk, variables):
            path.unlink(missing_ok=True)
    consoles = sorted((out / f"logs-{name}").glob("console*"))
    tests = walked.tests + ktap.complaints("".join(path.read_text(errors="replace") for path in consoles))
    write_result(out / f"result-{name}.txt", command, release, builds, tests, time.monotonic() - begin)
    return tests


def run(target: Target, release: str, flavour: str, only: str = "") -> list[Test]:
    if release not in RELEASES:
        raise Fail(f"RELEASE={release}: the walk is made for {' and '.join(RELEASES)}")
    builds = [make_build(target, flavour, number) for number in (0, int(release_version.of_source().split(".")[2]) + 1)]
    return on_machine(target, release, "make install-test", release, Kind("dkms", DKMS), builds,
                      lambda walked, served: walk(walked, served, flavour, builds, only))


def write_result(path: Path, command: str, release: str, builds: Sequence[Build], tests: list[Test],
                 seconds: float) -> None:
    counts = ktap.counted(ktap.summary(tests))
    lines = [command, f"commit {provenance.revision() or 'unknown'}",
             f"Debian {release}: {', then '.join(build.release for build in builds)}",
             f"{time.strftime('%Y-%m-%d', time.gmtime())}, {counts}, {seconds / 60:.0f} minutes", "",
             *(f"{test.status:8}{test.name}{': ' if test.detail else ''}{test.detail}" for test in tests)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="", help="trixie or bookworm (default: one after the other)")
    parser.add_argument("--selftests", default="", help="options of steer-selftests, such as '-t steer:interface_test'")
    arguments = parser.parse_args()
    target = Target.from_environment()
    flavour = deb.flavour_from_environment({"FLAVOUR": os.environ.get("FLAVOUR") or "cloud"})
    tests: list[Test] = []
    for release in [arguments.release] if arguments.release else RELEASES:
        tests += run(target, release, flavour, arguments.selftests)
    return ktap.tell(tests)


if __name__ == "__main__":
    run_main(main)
