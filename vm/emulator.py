# SPDX-License-Identifier: GPL-2.0-only
"""Ask QEMU about the machine that it emulates, to tell its own faults from those of the kernel.

QEMU's emulated local APIC (10.0, several threads) now and then does not see the end of an interrupt: the vector stays
"in service", and that CPU gets no interrupt of the same or a lower class any more, its timer's among them. It is halted
with timers that are long over, until somebody complains about a stall of RCU.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable

# In the report of a machine's end, for whoever decides whether to start it again
LOST = "QEMU lost the end of an interrupt"
LOOKS = 5
ANSWER = 20  # seconds


class Monitor:
    """QEMU's monitor, over a pair of sockets. Ask as often as you like; a QEMU that is gone answers nothing."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.settimeout(ANSWER)
        self.stream = self.ours.makefile("r", encoding="utf-8")
        self.greeted = False

    def arguments(self) -> list[str]:
        return ["-chardev", f"socket,id=monitor,fd={self.theirs.fileno()}", "-mon", "chardev=monitor,mode=control"]

    def started(self) -> None:
        """QEMU has its end."""
        self.theirs.close()

    def close(self) -> None:
        self.stream.close()
        self.ours.close()

    def execute(self, command: str, **arguments: str | int) -> str:
        self.ours.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self.stream:
            answer = json.loads(line)
            if "error" in answer:
                raise OSError(answer["error"].get("desc", "an error"))
            if "return" in answer:
                return str(answer["return"])
        raise OSError("QEMU is gone")

    def ask(self, line: str, cpu: int) -> str:
        """What QEMU answers to a line of its monitor about a CPU; nothing if it cannot."""
        try:
            if not self.greeted:
                self.execute("qmp_capabilities")
                self.greeted = True
            return self.execute("human-monitor-command", **{"command-line": line, "cpu-index": cpu})
        except (OSError, ValueError):
            return ""


def in_the_way(lapic: str) -> frozenset[int]:
    """Vectors in service that keep another one waiting, by "info lapic": one of the same class, or a lower."""
    lines = {name: {int(number) for number in re.findall(r"\d+", rest)}
             for name, rest in re.findall(r"^(ISR|IRR)\b(.*)$", lapic, re.MULTILINE)}
    waiting = min(lines.get("IRR", set()), default=256)
    return frozenset(vector for vector in lines.get("ISR", set()) if vector // 16 >= waiting // 16)


def lost_interrupts(ask: Callable[[str, int], str], cpus: int, pause: float = 1.0) -> list[str]:
    """CPUs with an interrupt that does not end. Linux ends each before it does anything else. So one that is found in
    service on a halted CPU in several looks in a row, while another one waits for it, has been lost."""
    stuck: dict[int, frozenset[int]] = {}
    for look in range(LOOKS):
        if look:
            time.sleep(pause)
        for cpu in range(cpus):
            found = in_the_way(ask("info lapic", cpu)) if "HLT=1" in ask("info registers", cpu) else frozenset()
            stuck[cpu] = found & stuck[cpu] if look else found
    return [f"CPU {cpu}, vector {min(vectors):#x}" for cpu, vectors in stuck.items() if vectors]
