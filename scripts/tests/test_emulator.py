# SPDX-License-Identifier: GPL-2.0-only
"""QEMU's faults are told from the kernel's, and nothing else is blamed on it."""

import contextlib
import io
import json
import socket
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import emulator
import run

LAPIC = """dumping local APIC state for CPU 11

LVTT\t 0x000200ec active-hi edge                  periodic      Fixed  (vec 236)
ISR\t {isr}
IRR\t {irr}

APR 0x00 TPR 0x00 DFR 0x0f LDR 0x00 PPR 0xe0
"""


class FakeQemu(threading.Thread):
    """Answers as QEMU's monitor does: greeting, events in between, errors."""

    def __init__(self, end: socket.socket):
        super().__init__(daemon=True)
        self.end = end
        self.start()

    def run(self) -> None:
        self.end.sendall(b'{"QMP": {"version": {}}}\r\n')
        for line in self.end.makefile():
            asked = json.loads(line)
            command, cpu = asked["arguments"].get("command-line", ""), asked["arguments"].get("cpu-index")
            answer = {"error": {"desc": "no such CPU"}} if cpu == 9 else {"return": f"said {command} of {cpu}"}
            self.end.sendall(b'{"event": "RTC_CHANGE"}\r\n' + json.dumps(answer).encode() + b"\r\n")


class Kernels(unittest.TestCase):
    def test_checkers_take_time_and_memory(self) -> None:
        for variant, scale, memory in (("base", 1, 2048), ("tickless", 1, 2048), ("debug", 4, 3072), ("rt", 4, 3072)):
            self.assertEqual((run.scale_of(variant), run.memory_of(variant)), (scale, memory), variant)


class Ask(unittest.TestCase):
    def test_answers(self) -> None:
        monitor = emulator.Monitor()
        FakeQemu(monitor.theirs)
        self.assertEqual(monitor.ask("info lapic", 3), "said info lapic of 3")
        self.assertEqual(monitor.ask("info lapic", 9), "")
        self.assertEqual(monitor.ask("info lapic", 4), "said info lapic of 4")
        monitor.close()

    def test_qemu_is_gone(self) -> None:
        monitor = emulator.Monitor()
        monitor.started()
        self.assertEqual(monitor.ask("info lapic", 3), "")
        monitor.close()


class Lost(unittest.TestCase):
    def lost(self, *looks: str, halted: bool = True) -> list[str]:
        """With these answers for CPU 1, one for each look, the last one again and again."""
        answers = list(looks)

        def ask(line: str, cpu: int) -> str:
            if line == "info registers":
                return f"EIP=0000fff0 A20=1 SMM=0 HLT={int(halted)}"
            return "" if not cpu else answers.pop(0) if len(answers) > 1 else answers[0]
        return emulator.lost_interrupts(ask, 2, pause=0)

    def test_in_the_way(self) -> None:
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="48(level) 236 ", irr="236 253 ")), {236})
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="253 ", irr="236 ")), {253}, "a lower class")
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="246 ", irr="251 ")), {246}, "the same class")
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="236 ", irr="253 ")), frozenset(), "a higher class")
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="(none)", irr="236 ")), frozenset())
        self.assertEqual(emulator.in_the_way(LAPIC.format(isr="236 ", irr="(none)")), frozenset())
        self.assertEqual(emulator.in_the_way(""), frozenset())

    def test_lost(self) -> None:
        stuck = LAPIC.format(isr="236 ", irr="236 ")
        self.assertEqual(self.lost(stuck), ["CPU 1, vector 0xec"])

    def test_busy_is_not_lost(self) -> None:
        stuck, other = LAPIC.format(isr="236 ", irr="236 "), LAPIC.format(isr="(none)", irr="236 ")
        self.assertEqual(self.lost(stuck, stuck, stuck, stuck, other), [])
        self.assertEqual(self.lost(stuck, halted=False), [])
        self.assertEqual(self.lost(stuck, LAPIC.format(isr="253 ", irr="253 ")), [])

    def test_no_answer_is_not_lost(self) -> None:
        self.assertEqual(self.lost(""), [])


class Silence(unittest.TestCase):
    def test_seen(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            console, now = Path(directory) / "console.log", [0.0]
            silence = run.Silence(console, lambda: now[0])

            def after(seconds: float, said: str = "") -> bool:
                now[0] += seconds
                with console.open("a", encoding="utf-8") as stream:
                    stream.write(said)
                return silence.seen()
            self.assertFalse(after(run.DEMO_SILENCE, "booting"))
            self.assertFalse(after(run.DEMO_SILENCE - 1))
            self.assertTrue(after(1))
            self.assertFalse(after(1), "it is told once")
            self.assertTrue(after(run.DEMO_SILENCE), "and again after as long")
            self.assertFalse(after(run.DEMO_SILENCE, "0 of 40"))


class Demo(unittest.TestCase):
    """Once more if QEMU was at fault, and only then."""

    def ends(self, *problems: str) -> tuple[str, int]:
        with mock.patch.object(run, "run", side_effect=[("nonce", problem) for problem in problems]) as started, \
                mock.patch.object(run, "text", return_value=""), \
                contextlib.redirect_stdout(io.StringIO()), \
                mock.patch.object(run.ktap, "parse_report", return_value=mock.Mock(status={"demo": 0})):
            try:
                run.demo(mock.Mock(out=Path("/nowhere")))
            except run.Fail as failure:
                return str(failure), started.call_count
            return "", started.call_count

    def test_once_more(self) -> None:
        lost = f"no progress, killed; {emulator.LOST}: CPU 11, vector 0xec"
        self.assertEqual(self.ends(""), ("", 1))
        self.assertEqual(self.ends(lost, ""), ("", 2))
        self.assertEqual(self.ends(lost, lost), (f"the demo did not end well: {lost}", 2))
        self.assertEqual(self.ends("a stall, killed"), ("the demo did not end well: a stall, killed", 1))


class Stall(unittest.TestCase):
    def test_seen(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            console = Path(directory) / "console.log"
            stall = run.Stall(console)
            self.assertFalse(stall.seen())
            console.write_text("rcu_cpu_stall_timeout=120\nrcu: INFO: rcu_preempt self-det", encoding="utf-8")
            self.assertFalse(stall.seen())
            with console.open("a", encoding="utf-8") as stream:
                stream.write("ected stall on CPU\n")
            self.assertTrue(stall.seen())
            self.assertFalse(stall.seen(), "it is told once")

    def test_report(self) -> None:
        """It is over when nothing more comes, or after a while."""
        with tempfile.TemporaryDirectory() as directory:
            console = Path(directory) / "console.log"
            console.write_text("stall\n", encoding="utf-8")

            def wait(_: float) -> None:
                waits.append(console.stat().st_size)
                if len(waits) < 3:
                    console.write_text("x" * 100 * len(waits), encoding="utf-8")
            waits: list[int] = []
            with mock.patch("run.time.sleep", wait):
                run.Stall(console).wait_for_report()
            self.assertEqual(waits, [6, 100, 200])


if __name__ == "__main__":
    unittest.main()
