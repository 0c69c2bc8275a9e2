#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run every test, one step after the other, and say in the last line how many passed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import itertools
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import cgctl
import cgctl_deb
import cgctl_screen
import check_hooks
import check_licence
import deb
import docs
import foreign
import kbuild
import kunit
import lint
import nri
import offcost
import packages
import unit_files
import unit_tests
from common import ROOT, Fail, Target, run_main

sys.path[:0] = [str(ROOT / "vm"), str(ROOT / "bench/lab")]
sys.path.append(str(ROOT / "bench"))  # behind vm, which has a module "run", too

import containers  # noqa: E402
import debian_machine  # noqa: E402
import initramfs  # noqa: E402
import lab  # noqa: E402
import programs  # noqa: E402
import provenance  # noqa: E402
import regression  # noqa: E402
import run  # noqa: E402
import selfcheck  # noqa: E402
import systemd  # noqa: E402
from ktap import FAILED, PASSED, SKIPPED, Test, counted, remarks, summary  # noqa: E402
from second_look import look_again  # noqa: E402

LOGS = ROOT / "build/check"
# Placement tests are left out there: emulated with checkers, tasks arrive long after they were sent.
# gang_test would take more than five minutes; churn_test has gangs, too.
DEBUG_PROGRAMS = ("stat_trace_test", "slice_test", "headroom_test", "churn_test")
DEBUG_NODES = ("churn_test",)  # of them, on a machine of two nodes
# These switch static keys on and off, which the kernel with jump labels does by patching code under cpus_read_lock().
JUMP_PROGRAMS = ("interface_test", "delegation_test", "churn_test")
# What the debug kernel runs on that machine, with the same tests.
NOSMT_OMITS = ("headroom_test", "churn_test")
# With one LLC it is hints that have to know that there is no other one. Each of the tests of these runs on "split" or
# "nosmt" as well, and churn_test on the kernel with jump labels, on this machine. All of them: make selftests
# TOPOLOGY=single
ONE_LLC_OMITS = ("headroom_test", "gang_test", "churn_test")
# Seconds between signs of life of steps that run side by side
LANE_REPORT = 20.0
# Each in a machine of its own, so that its failures do not spoil the others: they take CPUs off and on. And where
# nested groups are throttled often, by cpu.max no less than by cpu.headroom, Linux 6.12 counts one task too many on a
# runqueue now and then, and warns when that CPU goes off, however much later.
OWN_MACHINE = ("headroom_test", "gang_test", "churn_test")


@dataclass(frozen=True)
class Step:
    """A named step; what it needs are steps without which it makes no sense. A lane is one CPU's worth of work whose
    results do not depend on what else runs: neighbours of that kind run side by side. What is for the lab is skipped
    where there is no QEMU for it."""

    name: str
    what: str
    run: Callable[[Target], list[Test]]
    needs: tuple[str, ...] = ()
    lane: bool = False
    lab: bool = False


def simple(name: str, main: Callable[[], int | None]) -> Callable[[Target], list[Test]]:
    """A step that is one test: it passes unless it raises or returns a status."""
    def run_step(_: Target) -> list[Test]:
        status = main()
        return [Test(name, FAILED, f"status {status}") if status else Test(name, PASSED)]
    return run_step


def host_tests(directory: str) -> Callable[[Target], list[Test]]:
    return lambda _: unit_tests.run(ROOT / directory)


def build(variant: str) -> Callable[[Target], list[Test]]:
    def run_step(target: Target) -> list[Test]:
        kbuild.build(target, variant)
        return [Test(f"kernel {variant}", PASSED)]
    return run_step


def machine(target: Target, mode: str, topology: str, variant: str = "base", append: str = "",
            only: str = "") -> run.Machine:
    """A machine; what is appended to its command line has its log apart."""
    root = initramfs.build(target)
    scale = run.scale_of(variant)
    suffix = (f"-{append.partition('=')[0]}" if append else "") + (f"-{only}" if only and "," not in only else "")
    return run.Machine(arch=target.arch, kernel=kbuild.image(target, variant), root=root, mode=mode, topology=topology,
                       out=LOGS / f"{mode}-{variant}-{topology}{suffix}", timeout=run.time_limit(scale), scale=scale,
                       memory=run.memory_of(variant), append=append, only=only,
                       one_thread=variant in kbuild.PATCHES_BRANCHES)


def checked(machine_for: Callable[[str], run.Machine], only: str = "", present: bool = True) -> list[Test]:
    """Run these programs, or all, in one machine, and again what may have failed for reasons that are not in ours."""
    def boot(programs: str) -> list[Test]:
        return run.check(machine_for(programs), present)
    return look_again(boot(only), boot, lambda: boot(only))


def selftests(topology: str, variant: str = "base", programs: Sequence[str] = (),
              omitted: Sequence[str] = ()) -> Callable[[Target], list[Test]]:
    """These programs, or all, less those omitted; most one after the other in one machine."""
    def run_step(target: Target) -> list[Test]:
        names = programs or tuple(initramfs.run_list(ROOT / "selftests/steer/run-list"))
        names = [name for name in names if name not in omitted]
        boots = [",".join(name for name in names if name not in OWN_MACHINE), *(n for n in names if n in OWN_MACHINE)]
        return [test for boot in boots if boot for test in checked(
            lambda only: machine(target, "check", topology, variant, only=only), boot)]
    return run_step


def debug_selftests(target: Target) -> list[Test]:
    """On the debug kernel it is reports that count; where tasks go is judged on the fast one, but for who is held back.
    With the 16 CPUs of "split", churn_test alone takes more than ten minutes, and does less of everything. It has two
    nodes, so that what balances between them is churned as well."""
    others = [name for name in DEBUG_PROGRAMS if name not in DEBUG_NODES]
    return [*selftests("nosmt", "debug", others)(target), *selftests("dual", "debug", DEBUG_NODES)(target)]


def jump_selftests(target: Target) -> list[Test]:
    """With as few CPUs as make a difference: one thread of QEMU emulates all of them, each for a tenth of a second. The
    KUnit tests that want a kernel with SMP run while it boots."""
    tests = selftests("single", "jump", JUMP_PROGRAMS)(target)
    consoles = sorted(LOGS.glob("check-jump-single*/console.log"))
    return [*tests, *itertools.chain.from_iterable(kunit.at_boot(run.text(console)) for console in consoles[:1])]


def disabled(target: Target) -> list[Test]:
    """With the feature switched off at boot there are no files, and the selftests notice and skip."""
    return checked(lambda only: machine(target, "check", "split", append="cgroup_steer=0", only=only), present=False)


def isolated(target: Target) -> list[Test]:
    """Of eight CPUs the last one is isolated."""
    return checked(lambda only: machine(target, "check", "nosmt", append="isolcpus=7", only=only), "isolated_test")


def tickless(target: Target) -> list[Test]:
    """Two CPUs do without ticks; of the kernels that are built anyway, the debug one can do without."""
    return checked(lambda only: machine(target, "check", "nosmt", "debug", append="nohz_full=3,5", only=only),
                   "isolated_test")


def cgctl_tests(_: Target) -> list[Test]:
    tests = cgctl.test()
    return [*tests, *cgctl_screen.screen(), *cgctl_screen.long_names(), *cgctl_screen.large_tree(), *cgctl_deb.test()]


# Its systemd is what machines of this one get next, and runs what was built here.
FOLLOWING = {"bookworm": "trixie"}


def systemd_tests(units: int, following: bool = False) -> Callable[[Target], list[Test]]:
    """The systemd of this Debian or of the following one, on a kernel with what it wants."""
    def run_step(target: Target) -> list[Test]:
        if target.cross_compile:
            return [Test("systemd", SKIPPED, f"cgctl is built for this machine, not for {target.arch}")]
        release, name = "", "systemd"
        if following:
            own = foreign.own_release()
            if own not in FOLLOWING:
                return [Test("systemd-next", SKIPPED, f"the Debian release after {own} is not known")]
            release, name = FOLLOWING[own], "systemd-next"
        cgctl.build()
        out = LOGS / name
        tests = debian_machine.run(systemd.SUITE, dataclasses.replace(target, release=release), out, many=units)
        for line in debian_machine.figures(out):
            print(f"    {line}", flush=True)
        return [dataclasses.replace(test, name=test.name.replace("systemd: ", f"{name}: ", 1)) for test in tests]
    return run_step


def containers_tests(target: Target) -> list[Test]:
    """What matters most of the tests with container engines; all of them: make containers."""
    if target.cross_compile:
        return [Test("containers", SKIPPED, f"cgctl is built for this machine, not for {target.arch}")]
    cgctl.build()
    out = LOGS / "containers"
    tests = debian_machine.run(containers.SUITE, dataclasses.replace(target, release=containers.RELEASE), out)
    for line in debian_machine.figures(out):
        print(f"    {line}", flush=True)
    return tests


def demo(target: Target) -> list[Test]:
    """What it shows are shares of placements, so a first "NO" is looked at again, as placement tests are."""
    try:
        run.demo(machine(target, "demo", "split"))
    except Fail as failure:
        if not str(failure).endswith("exit status 1"):
            raise
        print(f"  failed at first: {failure}; looking again", flush=True)
        run.demo(machine(target, "demo", "split"))
    return [Test("demo", PASSED)]


def lab_target(target: Target) -> Target:
    """The modelled machine is an arm64 one, whatever else is tested."""
    return dataclasses.replace(target, arch="arm64")


def lab_kernel(target: Target) -> list[Test]:
    kbuild.build(lab_target(target), "lab")
    return [Test("kernel lab", PASSED)]


def several_kinds(topology: str) -> Callable[[Target], list[Test]]:
    """Where energy models are known: CPUs of several kinds, on the lab's kernel, but not in its virtual time."""
    return lambda target: selftests(topology, "lab", ("energy_test",))(lab_target(target))


def lab_check(target: Target) -> list[Test]:
    return selfcheck.run(lab_target(target))


STEPS = (
    Step("host-tests", "unit tests of the scripts", host_tests("scripts/tests")),
    Step("bench-tests", "unit tests of the benchmarks", host_tests("bench/tests")),
    Step("licence", "licences, private places", simple("licence", check_licence.main)),
    Step("hooks", "hooks apply without fuzz and keep to their budget", simple("hooks", check_hooks.main)),
    Step("docs", "documents build without a warning, references lead somewhere", docs.run),
    Step("kunit", "KUnit tests under user-mode Linux", kunit.run),
    Step("kernel", "build the kernel", build("base")),
    Step("split", "selftests: 2 nodes, 4 LLCs, SMT", selftests("split"), ("kernel",)),
    Step("nosmt", "selftests: 2 LLCs, no SMT", selftests("nosmt", omitted=NOSMT_OMITS), ("kernel",)),
    Step("quad", "selftests: 4 nodes", selftests("quad", programs=("numa_test",)), ("kernel",)),
    Step("single", "selftests: one LLC", selftests("single", omitted=ONE_LLC_OMITS), ("kernel",)),
    Step("disabled", "selftests: cgroup_steer=0", disabled, ("kernel",)),
    Step("isolated", "selftests: an isolated CPU", isolated, ("kernel",)),
    Step("demo", "the demo", demo, ("kernel",)),
    Step("cgctl-tests", "cgctl: unit tests, commands, terminal, package", cgctl_tests),
    Step("lint", "checkpatch, kernel-doc, sparse, W=1", lint.run, ("kernel",)),
    Step("off-cost", "=n is pristine, =y adds no-ops only", offcost.run, ("kernel",)),
    Step("lab", "build the lab's kernel, for arm64", lab_kernel, lab=True),
    Step("biglittle", "selftests: two kinds of CPUs, with an energy model", several_kinds("biglittle"), ("lab",), lab=True),
    Step("jump-kernel", "build the kernel with lockdep and jump labels", build("jump")),
    # The longest first. All have virtual time, but for "up" and "jump", which one CPU of the host is enough for, and
    # "unit-files", which has no machine.
    Step("systemd", "cgctl beside Debian's systemd", systemd_tests(systemd.SUITE.many), ("cgctl-tests", "kernel"), lane=True),
    Step("containers", "policies reach containers: runc, crun, podman, containerd", containers_tests,
         ("cgctl-tests", "kernel"), lane=True),
    Step("systemd-next", "cgctl beside that of the following Debian release", systemd_tests(50, following=True),
         ("cgctl-tests", "kernel"), lane=True),
    Step("jump", "selftests on the kernel with lockdep and jump labels", jump_selftests, ("jump-kernel",), lane=True),
    Step("nri", "plugin for container runtimes, manifests for Kubernetes", lambda _: nri.test(), lane=True),
    Step("unit-files", "cgctl reads unit files as systemd 252 and 257 do", unit_files.run, ("cgctl-tests",), lane=True),
    Step("up", "selftests: one CPU", selftests("up"), ("kernel",), lane=True),
    Step("lab-check", "the lab keeps to its costs", lab_check, ("lab",), lane=True, lab=True),
    Step("lab-ratios", "hints do not collapse, gangs gain, headroom is kept", regression.run, ("lab",), lane=True,
         lab=True),
    Step("lab-counts", "instructions that hints add to a wakeup, a switch, a fork", regression.run_counts, ("lab",), lane=True,
         lab=True),
    Step("lab-repeats", "two boots of the lab are the same", selfcheck.repeats, ("lab",), lane=True, lab=True),
    Step("lab-widest", "the lab with as many CPUs as there can be", selfcheck.widest, ("lab",), lane=True, lab=True),
    Step("lab-programs", "each benchmark of the lab runs and is understood", programs.run, ("lab",), lane=True,
         lab=True),
    Step("debug-kernel", "build the kernel with lockdep, KASAN, UBSAN", build("debug")),
    Step("debug-nosmt", "selftests on the debug kernel", debug_selftests, ("debug-kernel",)),
    Step("debug-tickless", "selftests: tickless CPUs", tickless, ("debug-kernel",)),
    Step("deb-config", "Debian's configuration takes ours", simple("deb-config", deb.configure_main)),
    Step("packages", "packages without files of each flavour; apt takes them from the repository", packages.run,
         ("deb-config",)),
)


class Tee(io.TextIOBase):
    """Writes to the terminal and to the step's log."""

    def __init__(self, *streams: TextIO):
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()

    def isatty(self) -> bool:
        return self.streams[0].isatty()


def run_step(step: Step, target: Target, log: Path, show: bool = True) -> list[Test]:
    """Run one step; whatever goes wrong in it is a failed test."""
    with log.open("w", encoding="utf-8") as stream, \
            contextlib.redirect_stdout(Tee(sys.stdout, stream) if show else stream):
        try:
            tests = step.run(target)
            if not tests:
                tests = [Test(step.name, FAILED, "the step ran no test")]
        except Fail as failure:
            tests = [Test(step.name, FAILED, str(failure))]
        except Exception:  # pylint: disable=broad-exception-caught
            tests = [Test(step.name, FAILED, traceback.format_exc())]
        for line in remarks(tests):
            print(f"  {line}", flush=True)
    return tests


def in_lanes(steps: Sequence[Step], target: Target) -> Iterator[tuple[Step, list[Test], float]]:
    """Run steps in processes of their own, as many at a time as there are CPUs; each is shown when it has ended,
    and given with its tests and its time in seconds."""
    context = multiprocessing.get_context("fork")  # a step is a closure
    waiting = list(steps)
    running: dict[multiprocessing.connection.Connection, tuple[Step, Path, float]] = {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            step = waiting.pop(0)
            log = LOGS / f"{step.name}.log"
            receiver, sender = context.Pipe(duplex=False)
            context.Process(target=lambda: sender.send(  # pylint: disable=cell-var-from-loop
                run_step(step, target, log, show=False))).start()  # pylint: disable=cell-var-from-loop
            # Only that process can send now, and its end is the end of the pipe.
            sender.close()
            running[receiver] = (step, log, time.monotonic())
        ended = multiprocessing.connection.wait(list(running), LANE_REPORT)
        if not ended:
            print("  " + ", ".join(f"{step.name}: {time.monotonic() - start:.0f} s"
                                   for step, _, start in running.values()), flush=True)
        for receiver in ended:
            step, log, start = running.pop(receiver)
            try:
                tests = receiver.recv()
            except EOFError:
                tests = [Test(step.name, FAILED, "its process ended without a result")]
            print(log.read_text(encoding="utf-8", errors="replace"), end="", flush=True)
            yield step, tests, time.monotonic() - start


def lab_cannot_run() -> str:
    """Why not, if there is no QEMU that is new enough; of everything else that is wrong, the steps will tell."""
    try:
        lab.qemu_version()
    except lab.NoQemu as failure:
        return str(failure)
    except Fail:
        pass
    return ""


def unready(step: Step, broken: set[str]) -> list[Test]:
    """What becomes of a step that cannot be run; nothing, if it can."""
    if missing := broken & set(step.needs):
        return [Test(step.name, FAILED, f"not run, because {', '.join(missing)} failed")]
    if step.lab and (reason := lab_cannot_run()):
        return [Test(step.name, SKIPPED, reason)]
    return []


def run_steps(steps: list[Step], target: Target) -> list[Test]:
    LOGS.mkdir(parents=True, exist_ok=True)
    results: list[Test] = []
    broken: set[str] = set()
    numbers = {step.name: f"[{number}/{len(steps)}] {step.name}" for number, step in enumerate(steps, 1)}
    begin = time.monotonic()

    def ended(step: Step, tests: list[Test], seconds: float) -> None:
        results.extend(tests)
        counts = summary(tests)
        if counts[FAILED]:
            broken.add(step.name)
        word = "FAILED" if counts[FAILED] else "ok" if counts[PASSED] else "skipped"
        print(f"{numbers[step.name]}: {word}, {counted(counts)}, "
              f"{seconds:.0f} s ({(time.monotonic() - begin) / 60:.1f} min in all)", flush=True)

    for lane, group in itertools.groupby(steps, lambda step: step.lane):
        ready = []
        for step in group:
            print(f"{numbers[step.name]}: {step.what}", flush=True)
            start = time.monotonic()
            if tests := unready(step, broken):
                print(f"  {tests[0].status.upper()} {tests[0].detail}")
                ended(step, tests, 0.0)
            elif lane:
                ready.append(step)
            else:
                tests = run_step(step, target, LOGS / f"{step.name}.log")
                ended(step, tests, time.monotonic() - start)
        for step, tests, seconds in in_lanes(ready, target):
            ended(step, tests, seconds)
    return results


def not_run(steps: Sequence[Step], results: Sequence[Test]) -> list[str]:
    """The steps that were skipped as a whole, by reason; a line above the counts, where nobody overlooks it."""
    names = {step.name for step in steps}
    reasons: dict[str, list[str]] = {}
    for test in results:
        if test.status == SKIPPED and test.name in names:
            reasons.setdefault(test.detail, []).append(test.name)
    return [f"SKIPPED steps {', '.join(skipped)}: {reason}" for reason, skipped in reasons.items()]


def write_report(results: Sequence[Test]) -> None:
    """What scripts/release.py puts into a release: of which commit, how many, and what did not pass."""
    lines = ["make check", f"commit {provenance.revision() or 'unknown'}", counted(summary(results)),
             *(f"  {line}" for line in remarks(list(results)))]
    (LOGS / "report.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the steps")
    parser.add_argument("--only", default="", help="run these steps only, separated by commas")
    arguments = parser.parse_args()
    if arguments.list:
        for step in STEPS:
            print(f"  {step.name:<16}{step.what}")
        return 0
    names = [name for name in arguments.only.split(",") if name]
    known = [step.name for step in STEPS]
    if unknown := [name for name in names if name not in known]:
        raise Fail(f"no step '{unknown[0]}'; the steps are: {', '.join(known)}")
    steps = [step for step in STEPS if not names or step.name in names]
    results = run_steps(steps, Target.from_environment(os.environ))
    counts = summary(results)
    if not names:
        write_report(results)
    print(f"logs: {LOGS.relative_to(ROOT)}/")
    for line in not_run(steps, results):
        print(line)
    print(counted(counts))
    return 1 if counts[FAILED] or not counts[PASSED] else 0


if __name__ == "__main__":
    run_main(main)
