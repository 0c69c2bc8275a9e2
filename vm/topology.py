# SPDX-License-Identifier: GPL-2.0-only
"""The machines that the tests and the demo run on."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

KINDS = Path(__file__).resolve().parents[1] / "bench/lab/costs.toml"


@dataclass(frozen=True)
class Kind:
    """A kind of CPU: its work per MHz, its levels as (MHz, mV), and its power: in uW per MHz and V^2, and that of an
    idle one as a part of what the lowest level needs."""

    capacity: int
    coefficient: int
    idle_permille: int
    levels: tuple[tuple[int, int], ...]

    def speed(self, level: int) -> int:
        """What it does at a level (-1: the highest), to be compared with other levels and kinds."""
        return self.capacity * self.levels[level][0]

    def power(self, level: int) -> int:
        """What an active CPU needs at a level [uW]."""
        mhz, millivolt = self.levels[level]
        return self.coefficient * mhz * millivolt ** 2 // 1000 ** 2

    def idle_power(self) -> int:
        """What an idle one needs [uW]."""
        return self.power(0) * self.idle_permille // 1000


@functools.cache
def read_kind(name: str) -> Kind:
    """One of the kinds in costs.toml."""
    table = tomllib.loads(KINDS.read_text(encoding="utf-8"))["kinds"][name]
    return Kind(table["capacity_dmips_mhz"], table["power_coefficient"], table["idle_permille"],
                tuple(zip(table["mhz"], table["millivolt"], strict=True)))


@dataclass(frozen=True)
class Topology:
    """A machine: nodes x LLCs in a node x cores in an LLC x threads in a core; CPUs are numbered in that order.

    With domains, its CPUs are of several kinds, as (how many, name in costs.toml): those of one share a frequency.
    """

    nodes: int
    llcs: int
    cores: int
    threads: int
    domains: tuple[tuple[int, str], ...] = ()

    def kinds(self) -> list[tuple[int, Kind]]:
        return [(count, read_kind(name)) for count, name in self.domains]

    def fastest(self) -> int:
        """The speed of the fastest kind at its highest level; 1 where all CPUs are of one kind."""
        return max((kind.speed(-1) for _, kind in self.kinds()), default=1)

    @property
    def cpus(self) -> int:
        return self.nodes * self.llcs * self.cores * self.threads

    def llc_sets(self) -> list[frozenset[int]]:
        """The CPUs of each last-level cache, as the guest has to see them."""
        width = self.cores * self.threads
        return [frozenset(range(first, first + width)) for first in range(0, self.cpus, width)]

    def arguments(self, arch: str, memory: int) -> list[str]:
        """QEMU's options. On x86 an LLC is a die; on arm64, whose virt machine describes no caches, a socket."""
        if arch == "x86_64":
            smp = f"{self.cpus},sockets={self.nodes},dies={self.llcs},cores={self.cores},threads={self.threads}"
        else:
            smp = f"{self.cpus},sockets={self.nodes * self.llcs},cores={self.cores},threads={self.threads}"
        result = ["-smp", smp, "-m", f"{memory}M"]
        if self.nodes > 1:
            width = self.cpus // self.nodes
            for node in range(self.nodes):
                result += ["-object", f"memory-backend-ram,id=memory{node},size={memory // self.nodes}M", "-numa",
                           f"node,nodeid={node},memdev=memory{node},cpus={node * width}-{(node + 1) * width - 1}"]
        return result


TOPOLOGIES = {
    "split": Topology(nodes=2, llcs=2, cores=2, threads=2),
    "quad": Topology(nodes=4, llcs=1, cores=4, threads=1),
    "nosmt": Topology(nodes=1, llcs=2, cores=4, threads=1),
    "dual": Topology(nodes=2, llcs=1, cores=4, threads=1),
    "single": Topology(nodes=1, llcs=1, cores=2, threads=2),
    "biglittle": Topology(nodes=1, llcs=2, cores=4, threads=1, domains=((4, "hi3660-a53"), (4, "hi3660-a73"))),
    "threekinds": Topology(nodes=1, llcs=1, cores=8, threads=1,
                           domains=((2, "sm8250-a55"), (4, "sm8250-a77"), (2, "sm8250-a77-prime"))),
    "up": Topology(nodes=1, llcs=1, cores=1, threads=1),
}
