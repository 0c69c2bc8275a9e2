# SPDX-License-Identifier: GPL-2.0-only
"""Describe the modelled machine's caches to its kernel: QEMU's own device tree with a cpu-map and caches put in.

QEMU's virt machine says nothing about caches, and its cpu-map puts all CPUs of a socket into one cluster, for which
the kernel would make one scheduling domain. Here every LLC has a cluster of its own. The tree is edited with libfdt,
the library that QEMU and the kernel use for it.

Of a machine with several kinds of CPUs, the tree also has capacities and operating points, as other machines' trees do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / name) for name in ("scripts", "vm")]

from common import Fail, capture  # noqa: E402
from topology import Kind, Topology  # noqa: E402

LINE = 64
POINTS_HANDLE = 0xD0000
L1_KIB = 32
FIRST_HANDLE = 0xC0000  # beyond those of QEMU


def cache_properties(kib: int, ways: int, prefix: str = "") -> dict[str, int]:
    return {f"{prefix}cache-size": kib << 10, f"{prefix}cache-line-size": LINE,
            f"{prefix}cache-sets": (kib << 10) // LINE // ways}


def libfdt() -> Any:
    """The library, which only the lab needs."""
    try:
        return importlib.import_module("libfdt")
    except ImportError as error:
        raise Fail("python3-libfdt is missing; run: scripts/setup lab") from error


def of_machine(command: Sequence[str], path: Path) -> bytes:
    """The tree that QEMU makes for a machine of this command, written to `path` meanwhile."""
    capture([f"{argument},dumpdtb={path}" if argument.startswith("virt,") else argument for argument in command])
    blob = path.read_bytes()
    path.unlink()
    return blob


def open_tree(blob: bytes, room: int) -> Any:
    """The tree with so many bytes of room for more."""
    tree = libfdt().Fdt(blob)
    tree.resize(len(blob) + room)
    return tree


def closed_tree(tree: Any) -> bytes:
    tree.pack()
    return bytes(tree.as_bytearray())[:tree.totalsize()]


def describe_kinds(blob: bytes, domains: Sequence[tuple[int, Kind]]) -> bytes:
    """The tree with kinds of CPUs, as (how many, which): the capacity of each, the operating points of each domain,
    which those CPUs have in common, and the coefficient of its power."""
    tree = open_tree(blob, 4096 + sum(256 * count + 256 * len(kind.levels) for count, kind in domains))
    first = 0
    for number, (count, kind) in enumerate(domains):
        tree.add_subnode(0, name := f"opp-table-{number}")
        path = f"/{name}"
        tree.setprop_str(tree.path_offset(path), "compatible", "operating-points-v2")
        tree.setprop(tree.path_offset(path), "opp-shared", b"")
        tree.setprop_u32(tree.path_offset(path), "phandle", POINTS_HANDLE + number)
        # A new node comes before its older siblings, and their order is that of the levels.
        for mhz, millivolt in reversed(kind.levels):
            tree.add_subnode(tree.path_offset(path), point := f"opp-{mhz * 1000000}")
            tree.setprop_u64(tree.path_offset(f"{path}/{point}"), "opp-hz", mhz * 1000000)
            tree.setprop_u32(tree.path_offset(f"{path}/{point}"), "opp-microvolt", millivolt * 1000)
        for cpu in range(first, first + count):
            where = f"/cpus/cpu@{cpu}"
            for key, value in {"capacity-dmips-mhz": kind.capacity, "dynamic-power-coefficient": kind.coefficient,
                               "operating-points-v2": POINTS_HANDLE + number}.items():
                tree.setprop_u32(tree.path_offset(where), key, value)
        first += count
    return closed_tree(tree)


def describe_caches(blob: bytes, topology: Topology, private: tuple[int, int], llc: tuple[int, int],
                    socket_per_llc: bool = False) -> bytes:
    """The tree with a cpu-map and caches; private caches and LLCs are given as KiB and ways.

    A socket is a node, or with `socket_per_llc` an LLC. Each LLC is a cluster either way.
    """
    tree = open_tree(blob, 4096 + 1024 * topology.cpus)

    def node(path: str, name: str) -> str:
        tree.add_subnode(tree.path_offset(path), name)
        return f"{path}/{name}"

    def numbers(path: str, values: dict[str, int]) -> None:
        for key, value in values.items():
            tree.setprop_u32(tree.path_offset(path), key, value)

    def cache(name: str, level: int, size: tuple[int, int], handle: int, below: int = 0) -> None:
        path = node("/cpus", name)
        tree.setprop_str(tree.path_offset(path), "compatible", "cache")
        tree.setprop(tree.path_offset(path), "cache-unified", b"")
        numbers(path, {"cache-level": level, "phandle": handle, **cache_properties(*size)})
        if below:
            numbers(path, {"next-level-cache": below})

    cores = topology.cpus // topology.threads
    l2, l3 = FIRST_HANDLE, FIRST_HANDLE + cores
    for core in range(cores):
        cache(f"l2-cache-{core}", 2, private, l2 + core, l3 + core // topology.cores)
    for number in range(topology.nodes * topology.llcs):
        cache(f"l3-cache-{number}", 3, llc, l3 + number)

    handles = []
    for cpu in range(topology.cpus):
        path = f"/cpus/cpu@{cpu}"
        numbers(path, {**cache_properties(L1_KIB, 8, "d-"), **cache_properties(L1_KIB, 8, "i-"),
                       "next-level-cache": l2 + cpu // topology.threads})
        handles.append(tree.get_phandle(tree.path_offset(path)))

    tree.del_node(tree.path_offset("/cpus/cpu-map"))
    top = node("/cpus", "cpu-map")
    clusters = 1 if socket_per_llc else topology.llcs
    llcs = topology.nodes * topology.llcs
    sockets = [node(top, f"socket{number}") for number in range(llcs // clusters)]
    for number in range(llcs):
        cluster = node(sockets[number // clusters], f"cluster{number % clusters}")
        for core in range(topology.cores):
            path = node(cluster, f"core{core}")
            first = (number * topology.cores + core) * topology.threads
            for thread in range(topology.threads):
                where = node(path, f"thread{thread}") if topology.threads > 1 else path
                numbers(where, {"cpu": handles[first + thread]})
    return closed_tree(tree)
