#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""WHERE=host: is this machine fit to be measured, what is it like, and the runner that measures on it.

Run by itself, this prints the preconditions and changes nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from common import Fail, run_main  # noqa: E402
from suite import Layout, Suite, cpu_list, known_suites, load_suite, parse_cpu_list, switches_of  # noqa: E402

CGROUP = Path("sys/fs/cgroup")
CPUS = Path("sys/devices/system/cpu")
NULL_DEVICE = "/dev/nullb0"
# Runnable tasks, on average over a minute, that are too few to matter: so many, or so many for each CPU.
QUIET_LOAD, QUIET_LOAD_PER_CPU = 0.5, 0.02
# Kernel parameters that change what is measured; the rest of the command line is nobody's business.
TELLING = re.compile(r"(mitigations|isolcpus|nohz|nohz_full|rcu_nocbs|preempt|nosmt|idle|(intel|amd)_pstate|"
                     r"numa_balancing|intel_idle\.\S+|processor\.\S+|transparent_hugepage|cgroup_steer)(=|$)")


@dataclass(frozen=True)
class Precondition:
    """One thing that has to be so; `found` goes into the results, `remedy` says what to do where it is not."""

    name: str
    met: bool
    found: str
    remedy: str


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def online_cpus(root: Path) -> frozenset[int]:
    if not (text := read(root / CPUS / "online")):
        raise Fail(f"{root / CPUS / 'online'} cannot be read: is /sys mounted?")
    return parse_cpu_list(text)


def last_level_cache(root: Path, cpu: int) -> frozenset[int]:
    """The CPUs that share the cache of the highest level; the CPU alone where sysfs has no caches."""
    best = (0, frozenset({cpu}))
    for index in sorted((root / CPUS / f"cpu{cpu}/cache").glob("index*")):
        level, kind = read(index / "level"), read(index / "type")
        if kind == "Unified" and level.isdigit() and int(level) > best[0]:
            best = (int(level), parse_cpu_list(read(index / "shared_cpu_list")) or best[1])
    return best[1]


def layout(root: Path = Path("/")) -> Layout:
    """The topology of this machine, online CPUs only."""
    online = online_cpus(root)
    cores = {parse_cpu_list(read(root / CPUS / f"cpu{cpu}/topology/thread_siblings_list")) & online or frozenset({cpu})
             for cpu in online}
    llcs = {last_level_cache(root, cpu) & online for cpu in online}
    nodes = {cpus for path in (root / "sys/devices/system/node").glob("node[0-9]*")
             if (cpus := parse_cpu_list(read(path / "cpulist")) & online)} or {online}

    def ordered(sets: set[frozenset[int]]) -> tuple[frozenset[int], ...]:
        return tuple(sorted(sets, key=min))

    return Layout("host", ordered(cores), ordered(llcs), ordered(nodes))


def governors(root: Path) -> Precondition:
    found = {read(path) for path in (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return Precondition("cpufreq governor", found <= {"performance"}, ", ".join(sorted(found)) or "no cpufreq",
                        "make it performance:  echo performance | tee "
                        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")


def threads(root: Path) -> Precondition:
    """All threads of all cores: a machine with some of them off is another one, which nobody means to measure."""
    control = read(root / CPUS / "smt/control") or "unknown"
    counts = sorted({len(core) for core in layout(root).cores})
    return Precondition("SMT", control not in ("off", "forceoff") and len(counts) == 1,
                        f"{control}, {' and '.join(map(str, counts))} online threads a core",
                        "have all threads of the cores online:  echo on > /sys/devices/system/cpu/smt/control, or boot "
                        "without nosmt and maxcpus")


def null_device(root: Path, commands: Iterable[str]) -> list[Precondition]:
    """For benchmarks that read it: a device without a disk, with the lab's latency."""
    if not any(NULL_DEVICE in command for command in commands):
        return []
    there = (root / NULL_DEVICE.lstrip("/")).exists()
    return [Precondition("null device", there, NULL_DEVICE if there else f"no {NULL_DEVICE}",
                         "fio reads it:  modprobe null_blk irqmode=2 completion_nsec=80000, or choose other BENCHES")]


def quiet(root: Path) -> Precondition:
    average = read(root / "proc/loadavg").split(" ")[0]
    allowed = max(QUIET_LOAD, QUIET_LOAD_PER_CPU * len(online_cpus(root)))
    met = bool(re.fullmatch(r"[0-9.]+", average)) and float(average) <= allowed
    return Precondition("other load", met, f"load average {average or 'unknown'}",
                        f"stop what else runs, and wait until the first number of /proc/loadavg is {allowed:g} or less")


def cgroups(root: Path) -> list[Precondition]:
    """cgroup v2 where we look for it, both controllers on, and cpu.hint in a group."""
    mount, control = root / CGROUP, read(root / CGROUP / "cgroup.subtree_control")
    mounted = (mount / "cgroup.controllers").exists()
    lacking = [name for name in ("cpu", "cpuset") if name not in control.split()]
    found = [Precondition("cgroup v2", mounted, "mounted" if mounted else "not at /sys/fs/cgroup",
                          "mount it, and no version 1 hierarchy with the cpu controller:  "
                          "mount -t cgroup2 none /sys/fs/cgroup"),
             Precondition("controllers", not lacking, control or "none",
                          "enable them for the groups of the root:  "
                          f"echo '{' '.join(f'+{name}' for name in lacking)}' > /sys/fs/cgroup/cgroup.subtree_control")]
    # It is in every group but the root.
    has = any(mount.glob("*/cpu.hint"))
    return [*found, Precondition("cpu.hint", has, "there" if has else "in no group below /sys/fs/cgroup",
                                 "boot a kernel of 'make deb' without cgroup_steer=0; every group with the cpu "
                                 "controller has the file")]


def caches(root: Path, suite: Suite) -> Precondition:
    """As many last-level caches as the suite needs to show anything."""
    found = len(layout(root).llcs)
    return Precondition("last-level caches", found >= suite.least_llcs, str(found),
                        f"suite {suite.name} compares where among {suite.least_llcs} or more last-level caches tasks "
                        "run: measure it on a machine that has them, or in the lab (without WHERE=host)")


def preconditions(suite: Suite, root: Path = Path("/"), uid: int | None = None,
                  benches: Sequence[str] = ()) -> list[Precondition]:
    """What has to hold for these benchmarks of a suite, all of them if none is named."""
    uid = os.geteuid() if uid is None else uid
    commands = [bench.host_command or bench.command for bench in suite.benches if not benches or bench.name in benches]
    leftover = (root / CGROUP / "bench").exists()
    return [Precondition("root", uid == 0, f"user {uid}", "run this as root: it makes a cgroup and writes to it"),
            *cgroups(root), caches(root, suite), threads(root), governors(root), quiet(root),
            *null_device(root, commands),
            Precondition("cgroup 'bench'", not leftover, "there" if leftover else "free",
                         "the benchmarks run in /sys/fs/cgroup/bench; end what is in it:  "
                         "echo 1 > /sys/fs/cgroup/bench/cgroup.kill; rmdir /sys/fs/cgroup/bench")]


def turbo(root: Path) -> str:
    if text := read(root / CPUS / "intel_pstate/no_turbo"):
        return "off" if text == "1" else "on"
    if text := read(root / CPUS / "cpufreq/boost"):
        return "on" if text == "1" else "off"
    return "unknown"


def record(root: Path = Path("/")) -> dict[str, Any]:
    """What may explain a number later; nothing of it is demanded."""
    model = re.search(r"^model name\s*:\s*(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    machine = layout(root)
    return {"cpu": model[1] if model else platform.machine(), "smt": read(root / CPUS / "smt/control") or "unknown",
            "turbo": turbo(root), "governor": governors(root).found, "loadavg": read(root / "proc/loadavg"),
            "isolated": read(root / CPUS / "isolated"),
            "cmdline": " ".join(word for word in read(root / "proc/cmdline").split() if TELLING.match(word)),
            "preempt": read(root / "sys/kernel/debug/sched/preempt"), "llcs": [cpu_list(cpus) for cpus in machine.llcs],
            "nodes": [cpu_list(cpus) for cpus in machine.nodes]}


def demand(found: Sequence[Precondition], force: bool) -> list[str]:
    """Refuse to measure where a precondition is not met; with FORCE=1, return what was not."""
    broken = [condition for condition in found if not condition.met]
    if broken and not force:
        raise Fail("this machine is not ready to be measured (FORCE=1 measures all the same, and the results say so):"
                   + "".join(f"\n  {c.name}: {c.found}\n    {c.remedy}" for c in broken))
    return [f"{condition.name}: {condition.found}" for condition in broken]


def missing_programs(programs: Sequence[str], path: str) -> list[str]:
    return [name for name in programs if not shutil.which(name, path=path)]


def put_back(switches: Mapping[Path, str]) -> None:
    """Give switches the values that they had. That one cannot be written must not hide why a script has ended."""
    for path, value in switches.items():
        if read(path) in ("", value):
            continue
        try:
            path.write_text(f"{value}\n", encoding="utf-8")
        except OSError as error:
            print(f"  {path} was {value}, and is left at {read(path)}: {error}", file=sys.stderr)


@dataclass(frozen=True)
class HostResult:
    """The same as the lab's result."""

    output: str
    status: int
    counters: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)


class HostRunner:
    """Runs a script on this machine. `directory` has the programs that no package has.

    Afterwards, switches are what they were before it: a script that is killed may leave them on, and what it calls off,
    such as a slice of 3 ms, may not be what this machine had. They are off if debugfs was not mounted to tell.
    """

    def __init__(self, directory: Path, root: Path = Path("/")):
        # Debian has PostgreSQL's programs apart, by version.
        servers = sorted(map(str, root.glob("usr/lib/postgresql/*/bin")))
        self.path = ":".join([str(directory), *servers[-1:], os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")])
        self.environment = record(root)

    def __call__(self, topology: str, script: str, programs: Sequence[str], *, extra: Mapping[str, Path] | None = None,
                 kernel: Path | None = None, append: str = "", timeout: int = 600, what: str = "",
                 on_line: Callable[[str], None] | None = None, sample: int = 0) -> HostResult:
        # Nothing of it is the same twice anyway.
        del sample
        if kernel or append:
            raise Fail("WHERE=host measures the kernel that runs; it boots none")
        if missing := missing_programs(programs, self.path):
            raise Fail(f"not installed here: {', '.join(missing)}; as root: scripts/setup bench-host, and "
                       "apps-host for the suite apps")
        if absent := [name for name in extra or {} if not Path(name).exists()]:
            raise Fail(f"not here: {', '.join(absent)}")
        switches = {Path(path): read(Path(path)) or off for path, off in switches_of(script).items()}
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            (Path(directory) / "script").write_text(script, encoding="utf-8")
            try:
                output, status = self._run(["sh", str(Path(directory) / "script")], timeout, on_line)
            finally:
                put_back(switches)
        return HostResult(output, status, {}, self.environment)

    def _run(self, command: list[str], timeout: float, on_line: Callable[[str], None] | None) -> tuple[str, int]:
        """The command's output, by lines as they come; everything it started is ended with it."""
        lines: list[str] = []
        arrived: queue.Queue[str | None] = queue.Queue()

        def follow(stream: IO[str]) -> None:
            for line in stream:
                arrived.put(line)
            arrived.put(None)

        deadline = time.monotonic() + timeout
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", env={**os.environ, "PATH": self.path},
                                   start_new_session=True)
        assert process.stdout
        reader = threading.Thread(target=follow, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            while (line := arrived.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
                lines.append(line)
                if on_line:
                    on_line(line)
            status = process.wait(timeout=10)
        except queue.Empty:
            status = 124
        finally:
            self._end(process)
            # What left the session may still hold the other end; then the reader is left to wait for it.
            reader.join(timeout=1)
            if not reader.is_alive():
                process.stdout.close()
        return "".join(lines), status

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        """End the script's session, and what a benchmark left in the group."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            group = Path("/") / CGROUP / "bench"
            if (group / "cgroup.kill").exists():
                (group / "cgroup.kill").write_text("1", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="hint", choices=known_suites(), help="what shall be measured")
    found = preconditions(load_suite(parser.parse_args().suite))
    for condition in found:
        print(f"  {'ok' if condition.met else 'NO':<4}{condition.name}: {condition.found}")
        if not condition.met:
            print(f"        {condition.remedy}")
    for name, value in record().items():
        print(f"      {name}: {value}")
    return 0 if all(condition.met for condition in found) else 1


if __name__ == "__main__":
    run_main(main)
