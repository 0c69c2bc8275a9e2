# SPDX-License-Identifier: GPL-2.0-only
"""The machines that the tests and the demo run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topology:
    """A machine: nodes x LLCs in a node x cores in an LLC x threads in a core; CPUs are numbered in that order."""

    nodes: int
    llcs: int
    cores: int
    threads: int

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
    "up": Topology(nodes=1, llcs=1, cores=1, threads=1),
}
