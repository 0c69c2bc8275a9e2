#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Start the test machine: a built kernel and the initramfs, in QEMU.

  check  runs the selftests and judges the run (vm/ktap.py)
  demo   runs the demo on this terminal
  shell  gives a shell in the machine on this terminal; 'exit' switches it off
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / name) for name in ("scripts", "bench/lab")]

import devicetree  # noqa: E402
import emulator  # noqa: E402
import initramfs  # noqa: E402
import kbuild  # noqa: E402
import ktap  # noqa: E402
from common import ARCHES, ROOT, Fail, Progress, Target, capture, host_arch, run_main  # noqa: E402
from topology import TOPOLOGIES  # noqa: E402

# Generous, because an emulated machine with more CPUs than the host stands still now and then; but never off.
COMMAND_LINE = ("panic_on_warn=1 oops=panic panic=-1 watchdog_thresh=60 hung_task_panic=0 "
                "sysctl.kernel.hung_task_timeout_secs=240 rcupdate.rcu_cpu_stall_timeout=120 "
                "rcupdate.rcu_exp_cpu_stall_timeout=0")
# An emulated TSC is a clock, whatever the watchdog sees of other clocks. And the timer interrupt is not looked at: the
# kernel counts ticks during some millions of cycles, and panics if a busy host let none through.
X86_EMULATED = "tsc=reliable no_timer_check"
# When a kernel has printed who stalls: it is silent for so many seconds, or has had so many.
STALL_SILENCE, STALL_REPORT = 2, 30
# Seconds without a word from the demo until QEMU is asked for a fault of its own. The demo gives up after PATIENCE
# (bench/demo/workload.c), which is longer.
DEMO_SILENCE = 15


@dataclass
class Machine:
    """What to start."""

    arch: str
    kernel: Path
    root: Path
    mode: str
    topology: str
    out: Path
    timeout: int
    memory: int = 2048
    append: str = ""
    only: str = ""
    scale: float = 1.0
    one_thread: bool = False  # emulated: all CPUs in turn, by one thread of QEMU


def accelerator(arch: str) -> str:
    """KVM where it can work: same architecture, virtualisation in the CPU's flags, and a device we may write."""
    if chosen := os.environ.get("ACCEL"):
        if chosen not in ("kvm", "tcg"):
            raise Fail(f"ACCEL={chosen} is not supported; use ACCEL=kvm or ACCEL=tcg")
        return chosen
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    able = arch == "arm64" or re.search(r"^flags\s*:.*\b(vmx|svm)\b", flags, re.MULTILINE)
    return "kvm" if arch == host_arch() and able and os.access("/dev/kvm", os.W_OK) else "tcg"


@functools.cache
def host_tsc_khz() -> int:
    """How fast the emulated time stamp counter counts, which is the host's; see vm/host_tsc.c."""
    host = Target(arch=host_arch())
    program = host.build / host.arch / "host_tsc"
    initramfs.compile_static(host, [ROOT / "vm/host_tsc.c"], program)
    return int(capture([program]))


def qemu_command(machine: Machine, accel: str) -> list[str]:
    qemu = {"x86_64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[machine.arch]
    if not shutil.which(qemu):
        raise Fail(f"{qemu} is missing; run: ARCH={machine.arch} scripts/setup vm")
    if machine.arch == "x86_64":
        # An Intel CPU: only in Intel's leaf 4 does QEMU tell Linux about an L3 for each die. Leaf 0x1f, beyond level 11,
        # would tell about the dies as well, but QEMU 10.0 asserts there.
        model = ["-M", "q35", "-cpu", "Nehalem,l3-cache=on,level=11"]
        console, result = "ttyS0", "ttyS1"
        channel = ["-serial", "chardev:console", "-serial", "chardev:result"]
    else:
        model = ["-M", "virt,gic-version=3", "-cpu", "host" if accel == "kvm" else "cortex-a76"]
        console, result = "ttyAMA0", "hvc0"
        channel = ["-serial", "chardev:console", "-device", "virtio-serial-device",
                   "-device", "virtconsole,chardev=result"]
    interactive = machine.mode != "check"
    backend = "stdio,id=console,signal=off" if interactive else "null,id=console"
    append = [f"console={console}", "quiet loglevel=4" if interactive else "loglevel=7", COMMAND_LINE,
              f"steer.mode={machine.mode}", f"steer.result={result}", f"steer.scale={machine.scale}"]
    if machine.arch == "x86_64" and accel == "tcg":
        append.append(X86_EMULATED)
        # Without a compiler the kernel measures it, as ever.
        if host_arch() == "x86_64" and shutil.which("gcc"):
            append.append(f"tsc_early_khz={host_tsc_khz()}")
    if machine.only:
        append.append(f"steer.only={machine.only}")
    emulation = f"tcg,thread={'single' if machine.one_thread else 'multi'}"
    return [qemu, *model, "-accel", emulation if accel == "tcg" else "kvm",
            *TOPOLOGIES[machine.topology].arguments(machine.arch, machine.memory),
            "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot",
            "-chardev", f"{backend},logfile={machine.out / 'console.log'}",
            "-chardev", f"file,id=result,path={machine.out / 'result.log'}", *channel,
            "-kernel", str(machine.kernel), "-initrd", str(machine.out / "initrd"),
            "-append", " ".join([*append, machine.append]).strip()]


def with_kinds(machine: Machine, command: list[str]) -> list[str]:
    """Where CPUs are of several kinds, QEMU's own device tree does not say so: the command with one that does."""
    kinds = TOPOLOGIES[machine.topology].kinds()
    if not kinds:
        return command
    if machine.arch != "arm64":
        raise Fail(f"the machine {machine.topology} has several kinds of CPUs, which only arm64 knows: ARCH=arm64")
    tree = machine.out / "machine.dtb"
    tree.write_bytes(devicetree.describe_kinds(devicetree.of_machine(command, machine.out / "plain.dtb"), kinds))
    return [*command, "-dtb", str(tree)]


class Tail:
    """The lines that a growing file gets; it need not be there yet."""

    def __init__(self, path: Path):
        self.path, self.offset, self.rest = path, 0, ""

    def lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        self.offset += len(data)
        *lines, self.rest = (self.rest + data.decode(errors="replace")).split("\n")
        return lines


class Stall:
    """Looks for the kernel's complaint that RCU does not go on: a machine that has printed it is of no use any more."""

    SAID = re.compile(r"rcu: INFO: .*\bstall")

    def __init__(self, console: Path):
        self.console, self.tail = console, Tail(console)

    def seen(self) -> bool:
        return any(self.SAID.search(line) for line in self.tail.lines())

    def wait_for_report(self) -> None:
        """What ran and waited where is printed after the complaint, slowly where the host is busy."""
        end = time.monotonic() + STALL_REPORT
        size = -1
        while size != self.console.stat().st_size and time.monotonic() < end:
            size = self.console.stat().st_size
            time.sleep(STALL_SILENCE)


class Silence:
    """Tells when a console that should show progress has been silent for a while, and again after as long."""

    def __init__(self, console: Path, clock: Callable[[], float] = time.monotonic):
        self.console, self.clock = console, clock
        self.size, self.since = -1, clock()

    def seen(self) -> bool:
        size = self.console.stat().st_size if self.console.exists() else -1
        if size == self.size and self.clock() - self.since < DEMO_SILENCE:
            return False
        over = size == self.size
        self.size, self.since = size, self.clock()
        return over


class Follow:
    """Shows what the result channel says, as it comes."""

    def __init__(self, path: Path, what: str):
        self.tail, self.progress = Tail(path), Progress(what)
        self.program, self.began, self.counts = "booting", time.monotonic(), [0, 0]

    def update(self) -> None:
        for line in self.tail.lines():
            if line.startswith("@begin"):
                self.program, self.began, self.counts = line.split()[-1], time.monotonic(), [0, 0]
            elif line.startswith("@end"):
                verdict = "" if line.strip().endswith("rc=0") else f" ({line.split()[-1]})"
                print(f"{chr(13)}\033[K" if self.progress.tty else "", end="")
                print(f"    {self.program}: {self.counts[0]} ok, {self.counts[1]} not ok{verdict}, "
                      f"{time.monotonic() - self.began:.0f} s", flush=True)
            elif re.match(r"\t(not )?ok \d", line):
                self.counts[line.startswith("\tnot")] += 1
        self.progress.update(f"{self.program} ({self.counts[0]} ok, {self.counts[1]} not ok)")


def print_finished_lines(stream: IO[bytes]) -> None:
    """Copy a console to where no terminal is: of a line that was overwritten, as progress is, only the last state."""
    for line in stream:
        print(line.decode(errors="replace").rstrip("\r\n").rsplit("\r", 1)[-1].rstrip(), flush=True)


def run(machine: Machine) -> tuple[str, str]:
    """Run the machine to its end; returns the nonce of its report, and what was wrong with how QEMU ended."""
    shutil.rmtree(machine.out, ignore_errors=True)
    machine.out.mkdir(parents=True)
    nonce = secrets.token_hex(16)
    initrd = machine.root.read_bytes()
    initrd += b"\0" * (-len(initrd) % 4)
    (machine.out / "initrd").write_bytes(initrd + initramfs.extra({"nonce": nonce.encode()}))
    accel = accelerator(machine.arch)
    command = with_kinds(machine, qemu_command(machine, accel))
    (machine.out / "command").write_text("\n".join(command) + "\n", encoding="utf-8")
    topology = TOPOLOGIES[machine.topology]
    print(f"  machine: {machine.arch}, {topology.cpus} CPUs, {len(topology.llc_sets())} LLCs, {accel}", flush=True)
    interactive = machine.mode == "shell" and sys.stdin.isatty()
    follow = None if machine.mode != "check" else Follow(machine.out / "result.log", machine.topology)
    deadline = time.monotonic() + machine.timeout
    monitor = emulator.Monitor()
    stall = Stall(machine.out / "console.log")
    silence = Silence(machine.out / "console.log")
    emulated = machine.arch == "x86_64" and accel == "tcg"

    def lost_interrupts() -> list[str]:
        return emulator.lost_interrupts(monitor.ask, topology.cpus) if emulated else []

    filtered = machine.mode == "demo" and not sys.stdout.isatty()
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen([*command, *monitor.arguments()], stdin=None if interactive else subprocess.DEVNULL,
                               stdout=subprocess.PIPE if filtered else None, pass_fds=[monitor.theirs.fileno()])
    monitor.started()
    if filtered:
        reader = threading.Thread(target=print_finished_lines, args=(process.stdout,))
        reader.start()
    try:
        while process.poll() is None:
            time.sleep(0.1)
            if follow:
                follow.update()
            if machine.mode == "shell":
                continue
            stalled, late = stall.seen(), time.monotonic() >= deadline
            lost = lost_interrupts() if machine.mode == "demo" and silence.seen() else []
            if not stalled and not late and not lost:
                continue
            if stalled:
                stall.wait_for_report()
            lost = lost or lost_interrupts()
            process.kill()
            process.wait()
            problem = ("a stall, killed" if stalled else f"not finished after {machine.timeout} s, killed" if late
                       else "no progress, killed")
            return nonce, f"{problem}; {emulator.LOST}: {'; '.join(lost)}" if lost else problem
    finally:
        monitor.close()
        if process.poll() is None:
            process.kill()
            process.wait()
        if filtered:
            reader.join()
        (machine.out / "initrd").unlink(missing_ok=True)
    if follow:
        follow.update()
        follow.progress.finish("powered off")
    return nonce, f"QEMU's exit status was {process.returncode}" if process.returncode else ""


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def llc_sets(machine: Machine) -> list[frozenset[int]]:
    """What the scheduler should see of the caches: a CPU isolated at boot is alone."""
    isolated = re.search(r"\bisolcpus=([\d,]+)", machine.append)
    apart = {int(cpu) for cpu in isolated[1].split(",") if cpu} if isolated else set()
    return [found for found in (llc - apart for llc in TOPOLOGIES[machine.topology].llc_sets()) if found] + [
        frozenset({cpu}) for cpu in apart]


def check(machine: Machine, present: bool = True) -> list[ktap.Test]:
    expected = list(initramfs.run_list(ROOT / "selftests/steer/run-list"))
    if machine.only:
        names = machine.only.split(",")
        if unknown := [name for name in names if name not in expected]:
            raise Fail(f"--only {unknown[0]}: the run-list has {', '.join(expected)}")
        expected = [name for name in expected if name in names]
    nonce, problem = run(machine)
    console = text(machine.out / "console.log")
    for stack in ktap.stacks(console):
        print(f"    {stack}", flush=True)
    return ktap.judge(text(machine.out / "result.log"), nonce, expected, console, problem, llc_sets(machine), present)


def demo(machine: Machine) -> None:
    nonce, problem = run(machine)
    if emulator.LOST in problem:
        print(f"\n  a known bug of the emulator, so everything once more: {problem}", flush=True)
        nonce, problem = run(machine)
    report = ktap.parse_report(text(machine.out / "result.log"), nonce)
    complaints = ktap.complaints(text(machine.out / "console.log"))
    if problem or complaints or report.status.get("demo") != 0:
        reason = problem or "; ".join(t.detail for t in complaints) or f"exit status {report.status.get('demo')}"
        raise Fail(f"the demo did not end well: {reason}")


def show(tests: list[ktap.Test]) -> dict[str, int]:
    for line in ktap.remarks(tests):
        print(f"    {line}")
    return ktap.summary(tests)


def has_checkers(variant: str) -> bool:
    return "lockdep" in kbuild.VARIANTS[variant]


def scale_of(variant: str) -> float:
    """How much slower a kernel is: checkers cost time, more so on an emulated CPU."""
    return 4.0 if has_checkers(variant) else 1.0


def memory_of(variant: str) -> int:
    """What a machine with this kernel needs, in MiB."""
    return 3072 if has_checkers(variant) else 2048


def time_limit(scale: float) -> int:
    """Seconds in which a machine has run all selftests, or does not end."""
    return round(300 + scale * sum(initramfs.run_list(ROOT / "selftests/steer/run-list").values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=ARCHES, default=os.environ.get("ARCH") or host_arch())
    parser.add_argument("--variant", choices=("base", "debug", "rt", "jump", "tickless", "lab"), default="base",
                        help="which of this tree's kernels")
    parser.add_argument("--kernel", type=Path, help="default: that one")
    parser.add_argument("--initramfs", type=Path, help="default: made from this tree")
    parser.add_argument("--mode", choices=("check", "demo", "shell"), default="check")
    parser.add_argument("--topology", choices=TOPOLOGIES, default="split")
    parser.add_argument("--timeout", type=int,
                        help="seconds until the machine is killed (not for shell); default: enough for all programs")
    parser.add_argument("--out", type=Path, help="where to leave console.log and result.log")
    parser.add_argument("--append", default=os.environ.get("APPEND", ""), help="more kernel parameters")
    parser.add_argument("--only", default="", help="run only these programs of the run-list, separated by commas")
    parser.add_argument("--scale", type=float, help="factor for the programs' time limits; default: by the variant")
    arguments = parser.parse_args()
    scale = arguments.scale or scale_of(arguments.variant)
    target = Target.from_environment({**os.environ, "ARCH": arguments.arch})
    base = target.build / target.arch
    machine = Machine(
        arch=arguments.arch, kernel=arguments.kernel or kbuild.build(target, arguments.variant),
        root=arguments.initramfs or initramfs.build(target), mode=arguments.mode, topology=arguments.topology,
        out=(arguments.out or base / "run" / arguments.mode).resolve(), timeout=arguments.timeout or time_limit(scale),
        append=arguments.append, only=arguments.only, scale=scale, memory=memory_of(arguments.variant),
        one_thread=arguments.variant in kbuild.PATCHES_BRANCHES)
    if machine.mode == "check":
        counts = show(check(machine))
        print(ktap.counted(counts))
        return 1 if counts["failed"] or not counts["passed"] else 0
    if machine.mode == "demo":
        demo(machine)
    else:
        run(machine)
    return 0


if __name__ == "__main__":
    run_main(main)
