# SPDX-License-Identifier: GPL-2.0-only
"""Debian on the built kernel, and the tests that run in it: what the machines of vm/systemd.py and vm/containers.py share.

The machine is started until it has said that it is done: a reboot ends QEMU, and the next start has the same disk.
Time in it is virtual (QEMU's -icount: an instruction is a nanosecond, idling costs nothing), so what it measures does
not depend on what else the host does; only the limit on all of it is real time. That holds without a disk only: while
one is waited for, nothing runs, and virtual time leaps ahead. So on x86_64 the disk is memory, which is not waited for.
And it has one CPU: of several, QEMU runs one after the other, each until the next timer is due, and what is woken up on
another has to wait for that.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import cgctl  # noqa: E402
import debian  # noqa: E402
import kbuild  # noqa: E402
import ktap  # noqa: E402
from common import ROOT, Fail, Progress, Target  # noqa: E402
from run import COMMAND_LINE, X86_EMULATED, text  # noqa: E402

GUEST = ROOT / "vm/guest"
BOOTS = 3  # the tests ask for one reboot; more than that is a loop
# A path on the disk -> content and mode
Files = dict[str, tuple[bytes, int]]


@dataclass(frozen=True)
class Suite:
    """Tests that run in a machine of their own.

    name: of the tests, in reports; vm/guest/<name>_tests.py has them.
    packages: Debian's, beside what each machine has.
    readme: the page whose examples are run; it is put beside the tests.
    many: how many of what the tests make many of, unless told otherwise.
    memory: of the machine, in MiB.
    disk: its size in MiB; holes take no room.
    time_limit: seconds of real time for all boots together.
    extra: makes what else is put on the disk.
    links: more of them on the disk, path -> target.
    parameters: for the tests, on the kernel's command line.
    second_boot: more of them, on that of the second boot.
    """

    name: str
    readme: Path
    many: int
    packages: tuple[str, ...] = ()
    memory: int = 1024
    disk: int = 1024
    time_limit: int = 2400
    extra: Callable[[], Files] = dict
    links: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parameters: str = ""
    second_boot: str = ""


def installed(suite: Suite, stage: Path) -> tuple[Files, dict[str, str]]:
    """What is put on the disk: cgctl as it is installed, and the tests. Files with their modes, and links."""
    cgctl.install(stage)
    files = {str(path.relative_to(stage)): (path.read_bytes(), path.stat().st_mode & 0o777)
             for path in sorted(stage.rglob("*")) if path.is_file()}
    # Its examples are run.
    files["opt/steer/README.md"] = (suite.readme.read_bytes(), 0o644)
    for path in sorted(GUEST.iterdir()):
        if path.suffix == ".py":
            files[f"opt/steer/{path.name}"] = (path.read_bytes(), 0o755)
        elif path.suffix == ".service":
            files[f"etc/systemd/system/{path.name}"] = (path.read_bytes(), 0o644)
    links = {"etc/systemd/system/sysinit.target.wants/cgctl.service": "/usr/lib/systemd/system/cgctl.service",
             f"etc/systemd/system/multi-user.target.wants/steer-tests@{suite.name}.service": "../steer-tests@.service"}
    return files | suite.extra(), links | dict(suite.links)


def command(suite: Suite, target: Target, kernel: Path, out: Path, nonce: str, boot: int, parameters: str) -> list[str]:
    disk = out / "disk.ext4"
    if target.arch == "x86_64":
        machine = ["qemu-system-x86_64", "-M", "q35,nvdimm=on", "-cpu", "Nehalem",
                   "-m", f"{suite.memory},slots=1,maxmem=8G"]
        console, result, root = "ttyS0", "ttyS1", "/dev/pmem0"
        channel = ["-serial", "chardev:console", "-serial", "chardev:result", "-device", "nvdimm,memdev=disk", "-object",
                   f"memory-backend-file,id=disk,mem-path={disk},size={disk.stat().st_size},share=on"]
    else:
        machine = ["qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "cortex-a76", "-m", str(suite.memory)]
        console, result, root = "ttyAMA0", "hvc0", "/dev/vda"
        channel = ["-serial", "chardev:console", "-device", "virtio-serial-device",
                   "-device", "virtconsole,chardev=result", "-device", "virtio-blk-device,drive=disk",
                   "-drive", f"file={disk},format=raw,if=none,id=disk,cache=unsafe"]
    append = [f"console={console}", f"root={root} rw rootfstype=ext4", COMMAND_LINE.replace("panic=-1", "panic=1"),
              "systemd.show_status=0 systemd.log_target=journal", f"steer.nonce={nonce} steer.result={result}",
              f"steer.boot={boot}", parameters]
    if target.arch == "x86_64":
        append.append(X86_EMULATED)
    return [*machine, "-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-smp", "1",
            "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot",
            "-chardev", f"null,id=console,logfile={out / f'console{boot}.log'}",
            "-chardev", f"file,id=result,path={out / f'result{boot}.log'}", *channel,
            "-kernel", str(kernel), "-append", " ".join(append)]


def boot_once(line: list[str], result: Path, deadline: float, limit: int, progress: Progress) -> str:
    """Start it and wait for its end; returns what was wrong with that."""
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            time.sleep(0.2)
            done = re.findall(r"^\t((?:not )?ok .*)", text(result), re.MULTILINE)
            progress.update(f"{len(done)} tests; last: {done[-1]}" if done else "booting")
            if time.monotonic() > deadline:
                return f"not finished after {limit} s, killed"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return f"QEMU's exit status was {process.returncode}" if process.returncode else ""


def run(suite: Suite, target: Target, out: Path, only: str = "", many: int = 0) -> list[ktap.Test]:
    """The tests whose names contain `only`; where many things are wanted, there are so many (0: the suite's number)."""
    kernel = kbuild.image(target, "base")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    files, links = installed(suite, out / "stage")
    disk = debian.build(target, files, links, suite.name, suite.packages, suite.disk)
    debian.copy(disk, out / "disk.ext4")
    nonce, deadline = secrets.token_hex(16), time.monotonic() + suite.time_limit
    progress, problem, report = Progress(f"Debian {target.release}".rstrip()), "", ""
    print(f"  machine: {target.arch}, 1 CPU, virtual time", flush=True)
    for boot in range(1, BOOTS + 1):
        line = command(suite, target, kernel, out, nonce, boot,
                       f"steer.only={only} steer.many={many or suite.many} {suite.parameters} "
                       f"{suite.second_boot if boot == 2 else ''}".rstrip())
        (out / f"command{boot}").write_text("\n".join(line) + "\n", encoding="utf-8")
        problem = boot_once(line, out / f"result{boot}.log", deadline, suite.time_limit, progress)
        report = "".join(text(out / f"result{n}.log") for n in range(1, boot + 1))
        if problem or "@reboot" not in text(out / f"result{boot}.log"):
            break
    progress.finish("powered off")
    (out / "disk.ext4").unlink(missing_ok=True)
    return judge(suite.name, report, nonce, "".join(text(path) for path in sorted(out.glob("console*.log"))), problem)


def judge(program: str, report_text: str, nonce: str, console: str, problem: str) -> list[ktap.Test]:
    """All the tests of a run; nothing that is not clearly a success counts as one."""
    lines = [line for line in report_text.replace("\r", "").split("\n") if not line.startswith("@reboot")]
    report = ktap.parse_report("\n".join(lines), nonce)
    tests = ktap.judge_program(program, report.programs.get(program, []), report.status.get(program))
    if problem:
        tests.append(ktap.Test("machine: end", ktap.FAILED, problem))
    if report.tainted is None:
        tests.append(ktap.Test("machine: report", ktap.FAILED,
                               "the report has no signed last line: hang, panic or early end"))
    elif report.tainted:
        tests.append(ktap.Test("machine: taint", ktap.FAILED, f"the kernel is tainted: {report.tainted}"))
    if report.odd:
        tests.append(ktap.Test("machine: report lines", ktap.FAILED, "; ".join(report.odd[:3])))
    return tests + ktap.complaints(console)


def figures(out: Path) -> list[str]:
    """What was measured: the comment lines of the report."""
    found = "".join(text(path) for path in sorted(out.glob("result*.log")))
    return re.findall(r"^\t# figure: (.*)", found.replace("\r", ""), re.MULTILINE)


def start(suite: Suite, description: str | None, option: str, release: str = "") -> int:
    """The command line of a suite: --only, --release (of Debian; `release` unless it is given, or the machine's own) and
    an option for how many there are of many."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the tests whose names contain this")
    parser.add_argument("--release", default=release, help="of Debian (default: %(default)s)" if release
                        else "of Debian (default: the machine's own)")
    parser.add_argument(option, dest="many", type=int, default=suite.many,
                        help="how many are started at once (default: %(default)s)")
    arguments = parser.parse_args()
    if not re.fullmatch("[a-z]*", arguments.release):
        raise Fail(f"--release {arguments.release}: a codename such as trixie is wanted")
    if arguments.many < 1:
        raise Fail(f"{option} {arguments.many}: at least 1 is needed")
    target = dataclasses.replace(Target.from_environment(os.environ), release=arguments.release)
    if target.cross_compile:
        raise Fail(f"cgctl is built for this machine, so it cannot be tested on {target.arch}")
    kbuild.build(target, "base")
    cgctl.build()
    out = target.build / target.arch / "run" / f"{suite.name}-{target.release}".rstrip("-")
    tests = run(suite, target, out, arguments.only, arguments.many)
    for line in [*figures(out), *ktap.remarks(tests)]:
        print(f"    {line}")
    counts = ktap.summary(tests)
    print(ktap.counted(counts))
    return 1 if counts[ktap.FAILED] or not counts[ktap.PASSED] else 0
