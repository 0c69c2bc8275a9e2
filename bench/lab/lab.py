#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Run something on a modelled machine in virtual time: many CPUs, caches and nodes, on any host.

The machine is QEMU's arm64 virt machine under a virtual clock and a cache model (bench/lab/plugin), with the kernel of
this tree. How it works, and what it can and cannot say, is in bench/lab/README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("scripts", "vm", "bench/lab")]

import devicetree  # noqa: E402
import initramfs  # noqa: E402
import kbuild  # noqa: E402
import ktap  # noqa: E402
import rootfs  # noqa: E402
from common import ROOT, Fail, Progress, Target, capture, locked, replace_file, run_logged, run_main  # noqa: E402
from topology import TOPOLOGIES as TEST_TOPOLOGIES, Topology  # noqa: E402

QEMU = "qemu-system-aarch64"
QEMU_MINIMUM = (9, 1)
COSTS = ROOT / "bench/lab/costs.toml"
PLUGIN = ROOT / "bench/lab/plugin"
OWN_PROGRAMS = ("bench/workloads", "bench/lab/guest")
TOPOLOGIES = {"zen": Topology(2, 2, 4, 2), "xeon": Topology(2, 1, 8, 2),
              **{name: TEST_TOPOLOGIES[name] for name in ("biglittle", "threekinds")}}
MOBILE = "mobile"  # the costs of those with several kinds of CPUs
MAX_CPUS = 128
MAX_SLOWNESS = 1000
MEMORY = 2048  # MiB
QUANTUM_NS = 250
RAM_BASE = 0x40000000
FUNCTIONS_KEPT = 256
# What programs may expect of a machine: its address is there.
PREPARE = "ip link set lo up 2>/dev/null || ifconfig lo up\n"

# Plugin option -> key of the costs, and what one of it is in the plugin's unit.
PICOSECONDS = {"llc_hit": "llc_hit_ns", "peer": "peer_ns", "transfer": "transfer_ns",
               "remote_transfer": "remote_transfer_ns", "upgrade": "upgrade_ns",
               "remote_upgrade": "remote_upgrade_ns", "far_upgrade": "far_upgrade_ns", "memory": "memory_ns",
               "remote_memory": "remote_memory_ns", "stream": "stream_ns", "ipi": "ipi_ns",
               "idle_exit": "idle_exit_ns", "spin": "spin_ns"}
AS_IS = {"instruction": "instruction_ps", "private_kib": "private_kib", "private_ways": "private_ways",
         "llc_kib": "llc_kib", "llc_ways": "llc_ways"}
DISK = "disk_ns"  # the kernel's, not the plugin's
BANDWIDTHS = {"node_line": "node_gbs", "llc_line": "llc_gbs", "link_line": "link_gbs"}


class NoQemu(Fail):
    """There is no QEMU here that is new enough: nothing is wrong with the lab, but it cannot run."""


@dataclass(frozen=True)
class Machine:
    """A machine to model."""

    name: str
    topology: Topology
    costs: Mapping[str, float]
    quantum_ns: int = QUANTUM_NS
    cache: bool = True
    memory: int = MEMORY
    seed: int = 1
    # Each LLC a socket of its own, whose cores are then numbered apart: the kernel numbers those of arm64 within a
    # cluster, and the schedulers of scx tell cores by node, socket and that number.
    socket_per_llc: bool = False

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise Fail(f"SEED={self.seed}: a seed is 0 or a positive number")

    def plugin_options(self) -> dict[str, int]:
        topology = self.topology
        result = {"nodes": topology.nodes, "llcs": topology.llcs, "cores": topology.cores,
                  "threads": topology.threads, "quantum": self.quantum_ns * 1000, "cache": int(self.cache),
                  "ram_base": RAM_BASE, "ram_bytes": self.memory << 20,
                  "smt_permille": round(self.costs["smt_share"] * 1000)}
        result |= {option: round(self.costs[key] * 1000) for option, key in PICOSECONDS.items()}
        result |= {option: round(self.costs[key]) for option, key in AS_IS.items()}
        # At 1 GB/s, a line of 64 bytes takes 64 ns.
        result |= {option: round(devicetree.LINE * 1000 / self.costs[key]) for option, key in BANDWIDTHS.items()}
        return result

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, **dataclasses.asdict(self.topology), "cpus": self.topology.cpus,
                "quantum_ns": self.quantum_ns, "cache_model": self.cache, "memory_mib": self.memory,
                "seed": self.seed, **({"socket_per_llc": True} if self.socket_per_llc else {})}


@dataclass
class LabResult:
    """What a run gave: the script's output and status, the plugin's counts, and on what it ran."""

    output: str
    status: int
    counters: list[dict[str, Any]]
    environment: dict[str, Any]
    seconds: float


def read_costs(name: str, changes: Sequence[str] = ()) -> dict[str, float]:
    """The costs of a kind of machine, with changes given as key=value."""
    tables = tomllib.loads(COSTS.read_text(encoding="utf-8"))
    kinds = sorted(key for key, value in tables.items() if isinstance(value, dict) and "memory_ns" in value)
    if name not in kinds:
        raise Fail(f"{COSTS.relative_to(ROOT)} has no costs for '{name}'; there are: {', '.join(kinds)}")
    costs = dict(tables[name])
    for change in changes:
        key, _, value = change.partition("=")
        if key not in costs:
            raise Fail(f"'{change}': there is no cost '{key}'; there are: {', '.join(costs)}")
        try:
            costs[key] = float(value)
        except ValueError as error:
            raise Fail(f"'{change}': '{value}' is not a number") from error
    if bad := [f"{key} = {value}" for key, value in costs.items() if value <= 0]:
        raise Fail(f"costs must be above 0: {', '.join(bad)}")
    return costs


def slow_motion(costs: Mapping[str, float], factor: int) -> dict[str, float]:
    """The costs of the same machine with everything it does so many times slower: times grow, rates shrink.

    The kernel's own times (ticks, slices, periods) stay, so that a second of them costs so many times fewer
    instructions. Sizes and shares stay as well.
    """
    longer, rates = {*PICOSECONDS.values(), "instruction_ps", DISK}, {*BANDWIDTHS.values(), "clock_ghz"}
    return {key: value * factor if key in longer else value / factor if key in rates else value
            for key, value in costs.items()}


def machine_of(name: str, changes: Sequence[str] = (), **settings: Any) -> Machine:
    """A machine by its name, or by its size as NODESxLLCSxCORESxTHREADS[:COSTS]; with @N, in slow motion N times."""
    base, at, factor = name.partition("@")
    if at:
        if not factor.isdigit() or not 1 <= int(factor) <= MAX_SLOWNESS:
            raise Fail(f"TOPO={name}: slow motion is @1 to @{MAX_SLOWNESS}")
        machine = machine_of(base, changes, **settings)
        return dataclasses.replace(machine, name=name, costs=slow_motion(machine.costs, int(factor)),
                                   quantum_ns=machine.quantum_ns * int(factor))
    if name in TOPOLOGIES:
        topology = TOPOLOGIES[name]
        return Machine(name, topology, read_costs(MOBILE if topology.domains else name, changes), **settings)
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(?::(\w+))?", name)
    if not match:
        raise Fail(f"TOPO={name} is neither {' nor '.join(TOPOLOGIES)} nor NODESxLLCSxCORESxTHREADS, such as "
                   "4x2x8x2, with :xeon behind it for other costs than zen's")
    topology = Topology(*map(int, match.groups()[:4]))
    if not 1 <= topology.cpus <= MAX_CPUS or topology.threads > 2:
        raise Fail(f"TOPO={name}: the machine may have 1 to {MAX_CPUS} CPUs, with 1 or 2 threads in a core")
    if topology.nodes > 1 and (settings.get("memory", MEMORY) % topology.nodes or topology.nodes > 16):
        raise Fail(f"TOPO={name}: the memory is split evenly, among 1, 2, 4, 8 or 16 nodes")
    return Machine(name, topology, read_costs(match[5] or "zen", changes), **settings)


def qemu_version() -> str:
    """QEMU's version; fails if there is none, or one without what the plugin needs."""
    advice = (f"The lab needs {QEMU} {'.'.join(map(str, QEMU_MINIMUM))} or later: 'scripts/setup lab' installs it, on "
              "Debian 12 from backports. Everything else here works without it.")
    if not shutil.which(QEMU):
        raise NoQemu(f"{QEMU} is missing. {advice}")
    text = "".join(capture([QEMU, "--version"]).splitlines()[:1])
    match = re.search(r"version (\d+)\.(\d+)", text)
    if not match:
        raise Fail(f"'{QEMU} --version' says '{text}', without a version. {advice}")
    if (int(match[1]), int(match[2])) < QEMU_MINIMUM:
        raise NoQemu(f"this is {text}. {advice}")
    return text.removeprefix("QEMU emulator version ")


def build_plugin(target: Target) -> Path:
    """The plugin, for this host."""
    sources = sorted(PLUGIN.glob("*.c"))
    output = target.build / "lab" / "plugin.so"
    with locked(output.with_suffix(".lock")):
        if not output.is_file() or any(p.stat().st_mtime > output.stat().st_mtime
                                       for p in (*sources, *PLUGIN.glob("*.h"))):
            run_logged(["gcc", "-g", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fPIC", "-shared",
                        "-fvisibility=hidden", "-pthread", "-o", output, *sources, "-ldl"],
                       output.with_suffix(".log"), "compiling the plugin")
    return output


def own_program(target: Target, name: str) -> Path | None:
    """One of this repository's programs for the machine, compiled; None if there is none of that name."""
    for directory in OWN_PROGRAMS:
        source = ROOT / directory / f"{name}.c"
        if source.is_file():
            output = target.build / target.arch / "workloads" / name
            openmp = b"#pragma omp" in source.read_bytes()
            initramfs.compile_static(target, [source], output, ["-fopenmp"] if openmp else [])
            return output
    return None


def image(target: Target, programs: Sequence[str], extra: Mapping[str, Path]) -> Path:
    """The machine's root with Debian's programs and our own."""
    own = {name: path for name in (*programs, "lab-mark") if (path := own_program(target, name))}
    return rootfs.build_image(target, [name for name in programs if name not in own],
                              {**{f"bin/{name}": path for name, path in own.items()}, **extra})


def machine_arguments(machine: Machine) -> list[str]:
    topology = machine.topology
    result = ["-M", "virt,gic-version=3", "-cpu", "neoverse-n1", "-accel", "tcg,thread=single",
              *topology.arguments("arm64", machine.memory)]
    for a in range(topology.nodes):
        for b in range(a + 1, topology.nodes):
            result += ["-numa", f"dist,src={a},dst={b},val=20"]
    return [*result, "-rtc", "clock=vm", "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",
            "-no-reboot",
            # What the guest's random numbers begin with; else each boot goes its own way.
            "-seed", str(machine.seed),
            # A CPU that waits for the device would spin until QEMU's main loop has had its turn on the host.
            "-global", "virtio-mmio.ioeventfd=false"]


def device_tree(target: Target, machine: Machine, version: str) -> Path:
    """The machine's device tree; QEMU is asked for its own only once for each kind of machine."""
    arguments = machine_arguments(machine)
    sizes = [(round(machine.costs[f"{cache}_kib"]), round(machine.costs[f"{cache}_ways"]))
             for cache in ("private", "llc")]
    source = Path(devicetree.__file__).read_bytes()
    kinds = machine.topology.kinds()
    key = hashlib.sha256(json.dumps([version, arguments, sizes, str(kinds), machine.socket_per_llc]).encode()
                         + source).hexdigest()[:16]
    path = target.build / "lab" / f"{key}.dtb"
    with locked(path.with_suffix(".lock")):
        if path.is_file():
            return path
        tree = devicetree.describe_caches(devicetree.of_machine([QEMU, *arguments], path.with_suffix(".plain")),
                                          machine.topology, sizes[0], sizes[1], machine.socket_per_llc)
        replace_file(path, devicetree.describe_kinds(tree, kinds) if kinds else tree)
    return path


def function_ranges(system_map: str, names: Sequence[str]) -> str:
    """Lines 'first end name' for the plugin, from a System.map, whose next symbol ends a function."""
    symbols = sorted((int(line.split()[0], 16), line.split()[2]) for line in system_map.splitlines()
                     if len(line.split()) == 3 and line.split()[1] in "tTwW")
    found = {}
    for (address, name), (end, _) in zip(symbols, symbols[1:], strict=False):
        if name in names and end > address:
            found[name] = f"{address:x} {end:x} {name}\n"
    if missing := sorted(set(names) - set(found)):
        raise Fail(f"the kernel has no function of its own named {', '.join(missing)} (perhaps inlined)")
    if len(names) > FUNCTIONS_KEPT:
        raise Fail(f"{len(names)} functions to count, the plugin keeps {FUNCTIONS_KEPT} (MAX_FUNCTIONS)")
    return "".join(found[name] for name in names)


class Lines:
    """Hands on what the script prints, line by line, as it comes."""

    def __init__(self, path: Path, nonce: str, on_line: Callable[[str], None] | None):
        self.path, self.nonce, self.on_line = path, nonce, on_line
        self.offset, self.rest, self.last = 0, b"", ""

    def update(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for raw in lines:
            line = raw.decode(errors="replace").rstrip("\r")
            if line.startswith("\t"):
                self.last = line[1:]
                if self.on_line:
                    self.on_line(self.last)


def domain_lines(topology: Topology) -> str:
    """The domains for the plugin: CPUs, power of an idle one, and speed and power of each level; see plugin.c."""
    fastest = topology.fastest()
    return "".join(
        f"{count} {kind.idle_power()} " + " ".join(
            f"{round(kind.speed(level) * 1000 / fastest)}:{kind.power(level)}" for level in range(len(kind.levels))) + ";\n"
        for count, kind in topology.kinds())


def qemu_command(target: Target, machine: Machine, kernel: Path, initrd: Path, out: Path, *, version: str,
                 append: str, mode: str, plugin_extra: Mapping[str, str]) -> list[str]:
    options = {**machine.plugin_options(), **plugin_extra, "counts": out / "counts.json"}
    if machine.topology.domains:
        (out / "domains").write_text(domain_lines(machine.topology), encoding="utf-8")
        options["domains"] = out / "domains"
        append = f"steer_lab_cpufreq.on=1 {append}"
    plugin = ",".join([str(build_plugin(target)), *(f"{key}={value}" for key, value in options.items())])
    console = "stdio,id=console,signal=off" if mode == "shell" else "null,id=console"
    disk = f"null_blk.irqmode=2 null_blk.completion_nsec={round(machine.costs[DISK])}"
    command_line = (f"console=ttyAMA0 quiet loglevel=4 panic=-1 oops=panic nokaslr steer.mode={mode} "
                    f"steer.result=hvc0 {disk} {append}").strip()
    return [QEMU, *machine_arguments(machine), "-dtb", str(device_tree(target, machine, version)),
            "-plugin", plugin, "-chardev", f"{console},logfile={out / 'console.log'}",
            "-chardev", f"file,id=result,path={out / 'result.log'}", "-serial", "chardev:console",
            "-device", "virtio-serial-device", "-device", "virtconsole,chardev=result",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", command_line]


def lab_target() -> Target:
    """The modelled machine is an arm64 one."""
    return Target(Target.from_environment({**os.environ, "ARCH": "arm64"}).kver, "arm64")


def kernel_image(target: Target, variant: str = "lab") -> Path:
    """This tree's kernel, built; KERNEL= in the environment names another."""
    return Path(given) if (given := os.environ.get("KERNEL")) else kbuild.build(target, variant)


def run_script(topology: str | Machine, script: str, programs: Sequence[str], *,
               extra: Mapping[str, Path] | None = None, kernel: Path | None = None, append: str = "",
               timeout: int = 600, what: str = "", on_line: Callable[[str], None] | None = None,
               functions: Path | None = None, mode: str = "script", variant: str = "lab") -> LabResult:
    """Run a shell script as root on the modelled machine and return what came of it.

    `timeout` is in seconds of the host. `programs` are Debian's (rootfs.PROGRAMS) and ours, by name. The cache model
    is on while the script runs; it may switch it with lab-mark. `variant` is the kernel's, if `kernel` names none;
    KERNEL= in the environment names another one.
    """
    target = lab_target()
    machine = topology if isinstance(topology, Machine) else machine_of(topology)
    version = qemu_version()
    kernel = kernel or kernel_image(target, variant)
    if not kernel.is_file():
        raise Fail(f"KERNEL={kernel}: there is no such file; it names a kernel image to use instead of this tree's")
    root = image(target, programs, extra or {})
    plugin = build_plugin(target)
    out = target.build / "lab" / "run" / f"{os.getpid()}-{secrets.token_hex(4)}"
    out.mkdir(parents=True)
    nonce = secrets.token_hex(16)
    initrd = root.read_bytes()
    initrd += b"\0" * (-len(initrd) % 512)
    initrd += initramfs.extra({"nonce": nonce.encode(), "lab/script": f"lab-mark on\n{script}\n".encode()})
    (out / "initrd").write_bytes(initrd)
    command = qemu_command(target, machine, kernel, out / "initrd", out, version=version, append=append, mode=mode,
                           plugin_extra={"functions": str(functions)} if functions else {"paced": "1"}
                           if mode == "shell" else {})
    (out / "command").write_text("\n".join(command) + "\n", encoding="utf-8")
    lines = Lines(out / "result.log", nonce, on_line)
    progress = Progress(what) if what else None
    began = time.monotonic()
    problem = ""
    # QEMU ends with this process, however this one does.
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "env", f"LD_PRELOAD={plugin}", *command],
                               stdin=None if mode == "shell" else subprocess.DEVNULL)
    try:
        while process.poll() is None:
            time.sleep(0.05)
            lines.update()
            if progress:
                progress.update(lines.last or "starting")
            if mode != "shell" and time.monotonic() - began > timeout:
                problem = f"the machine had not finished after {timeout} s and was killed"
                break
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        (out / "initrd").unlink(missing_ok=True)
    lines.update()
    seconds = time.monotonic() - began
    if progress:
        progress.finish(f"{seconds:.0f} s")
    if mode == "shell":
        return LabResult("", process.returncode, [], {}, seconds)
    return finished(machine, version, out, nonce, problem or
                    (f"QEMU's exit status was {process.returncode}" if process.returncode else ""), seconds)


def finished(machine: Machine, version: str, out: Path, nonce: str, problem: str, seconds: float) -> LabResult:
    """Read what a run left, and keep its directory if something is wrong with it."""
    console = (out / "console.log").read_text(encoding="utf-8", errors="replace") if (
        out / "console.log").exists() else ""
    text = (out / "result.log").read_text(encoding="utf-8", errors="replace") if (out / "result.log").exists() else ""
    report = ktap.parse_report(text, nonce)
    complaints = "; ".join(f"{test.name}: {test.detail}" for test in ktap.complaints(console))
    if "script" not in report.status:
        problem = problem or "the machine ended before the script did"
    if not problem and not complaints and (wrong := wrong_llcs(report, machine.topology)):
        problem = wrong
    if problem or complaints:
        raise Fail(f"lab: {problem or complaints}\n{console[-2000:]}\nwhat it printed last:\n{text[-2000:]}\n"
                   f"All of it is in {out.relative_to(ROOT)}.")
    counters = [json.loads(line) for line in (out / "counts.json").read_text(encoding="utf-8").splitlines()]
    environment = {"qemu": version, "machine": machine.describe(), "costs": dict(machine.costs),
                   "command": (out / "command").read_text(encoding="utf-8").splitlines()}
    shutil.rmtree(out)
    return LabResult("\n".join(report.programs["script"]), report.status["script"], counters, environment, seconds)


def wrong_llcs(report: ktap.Report, topology: Topology) -> str:
    """What is wrong if the kernel does not see the caches that are modelled."""
    seen = {ktap.llc_of(cpu, mask) for cpu, mask in report.llcs.items()}
    wanted = set(topology.llc_sets())
    return "" if seen == wanted else f"the kernel sees the LLCs {sorted(map(sorted, seen))}, modelled are " \
        f"{sorted(map(sorted, wanted))}"


def known_programs() -> list[str]:
    """Debian's programs for the machine, and ours."""
    return [*rootfs.PROGRAMS, *(path.stem for directory in OWN_PROGRAMS for path in (ROOT / directory).glob("*.c"))]


def programs_in(script: str) -> list[str]:
    """Those that a script names."""
    return [name for name in known_programs() if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", script)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="zen",
                        help="zen, xeon or NODESxLLCSxCORESxTHREADS[:COSTS]; @N behind it: slow motion")
    parser.add_argument("--cost", action="append", default=[], metavar="KEY=VALUE", help="change a cost")
    parser.add_argument("--no-cache-model", action="store_true", help="instructions alone take time")
    parser.add_argument("--quantum", type=int, default=QUANTUM_NS, metavar="NS", help="step of virtual time")
    parser.add_argument("--memory", type=int, default=MEMORY, metavar="MIB")
    parser.add_argument("--seed", type=int, default=Machine.seed, metavar="N", help="of random numbers, such as for addresses")
    parser.add_argument("--programs", default="", help="names, separated by commas (default: those in the command)")
    parser.add_argument("--append", default=os.environ.get("APPEND", ""), help="more kernel parameters")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds of the host")
    parser.add_argument("--counts", action="store_true", help="print what the plugin counted")
    parser.add_argument("--shell", action="store_true", help="a console instead of a command")
    parser.add_argument("command", nargs="*",
                        help="for the machine: a shell command as one word, or a program and its arguments, after --")
    arguments = parser.parse_args()
    machine = machine_of(arguments.topology, arguments.cost, quantum_ns=arguments.quantum,
                         cache=not arguments.no_cache_model, memory=arguments.memory, seed=arguments.seed)
    script = arguments.command[0] if len(arguments.command) == 1 else shlex.join(arguments.command)
    programs = arguments.programs.split(",") if arguments.programs else \
        known_programs() if arguments.shell else programs_in(script)
    if not script.strip() and not arguments.shell:
        raise Fail("what shall the machine run? For example: make lab TOPO=zen CMD='hackbench -g 2 -l 100'")
    print(f"  {machine.name}: {machine.topology.cpus} CPUs"
          + (", 'exit' switches it off" if arguments.shell else ""), file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    result = run_script(machine, PREPARE + script, programs, append=arguments.append, timeout=arguments.timeout,
                        on_line=lambda line: print(line, flush=True), mode="shell" if arguments.shell else "script")
    if arguments.counts:
        print(*map(json.dumps, result.counters), sep="\n")
    return result.status


if __name__ == "__main__":
    run_main(main)
