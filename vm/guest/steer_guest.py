# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the machines that vm/debian_machine.py makes are made of; they run as a service of the machine.

Results go to a serial port of their own, in the form of vm/init.c's report. Tests of the second boot follow a reboot of
the machine; the plan comes last, with the signed end. Everything is judged by state and waited for with a bound; what
is measured is measured in the machine's virtual time, and printed as a comment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import traceback
import tty
from collections.abc import Callable
from pathlib import Path

import page_examples

CGROUP = "/sys/fs/cgroup"
ETC = "/etc/systemd/system"
SERVICE = "[Service]\nExecStart=/bin/sleep infinity\n"
STATE = "/var/lib/steer-tests"

PARAMETERS = dict(word.split("=", 1) for word in open("/proc/cmdline", encoding="ascii").read().split()
                  if word.startswith("steer.") and "=" in word)
NONCE, BOOT = PARAMETERS["steer.nonce"], int(PARAMETERS["steer.boot"])
# How many of something "many" are
MANY = int(PARAMETERS["steer.many"])
TESTS: list[tuple[int, bool, Callable[[], None]]] = []


def test(boot: int = 1, long: bool = False) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """A test of that boot; a long one is left out unless all are wanted, or some by name."""
    def register(function: Callable[[], None]) -> Callable[[], None]:
        TESTS.append((boot, long, function))
        return function
    return register


class Report:
    """The result channel."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/" + PARAMETERS["steer.result"], os.O_WRONLY | os.O_NOCTTY)
        tty.setraw(self.fd)

    def line(self, text: str) -> None:
        data = (text + "\n").encode()
        while data:
            data = data[os.write(self.fd, data):]

    def test_line(self, text: str) -> None:
        for line in text.split("\n"):
            self.line("\t" + line.replace("\t", " "))

    def end(self) -> None:
        os.close(self.fd)


REPORT = Report()


def figure(text: str) -> None:
    REPORT.test_line(f"# figure: {text}")


# ---- what tests are made of ----

def run(*command: str, status: int | None = 0, stdin: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300, **options)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return done


def systemctl(*arguments: str, status: int | None = 0) -> str:
    return run("systemctl", *arguments, status=status).stdout.strip()


def cgctl(*arguments: str, status: int | None = 0) -> str:
    done = run("cgctl", *arguments, status=status)
    return done.stdout + done.stderr


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def unit(name: str, text: str) -> None:
    write(f"{ETC}/{name}", text)


def reload() -> None:
    systemctl("daemon-reload")


def group(name: str) -> str:
    return CGROUP + systemctl("show", "-P", "ControlGroup", name)


def value(name: str, file: str = "cpu.hint") -> str:
    """A file of a running unit's group."""
    path = systemctl("show", "-P", "ControlGroup", name)
    return read(f"{CGROUP}{path}/{file}") if path else ""


def wait_for(what: Callable[[], object], message: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {message}")
        time.sleep(0.1)


def equal(got: object, wanted: object, what: str = "") -> None:
    assert got == wanted, f"{what}: {got!r}, not {wanted!r}"


def expect(name: str, wanted: str, file: str = "cpu.hint") -> None:
    """Wait until a file of a unit's group says something. systemd is asked where it is, now and then only."""
    end = time.monotonic() + 60
    while value(name, file) != wanted:
        path = group(name)
        for _ in range(10):
            if read(f"{path}/{file}") == wanted:
                break
            time.sleep(0.1)
        assert time.monotonic() < end, (f"{name}: {file} is {value(name, file)!r}, not {wanted!r}\n"
                                        + run("journalctl", "-b", "-t", "cgctl", "-n", "5", "-o", "cat", status=None).stdout)


def has(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"{part!r} is not in: {text}"


def examples(heading: str) -> list[list[tuple[str, list[str]]]]:
    """Commands in a section of the README, and what it says that they print, by blocks."""
    return page_examples.examples(read(f"{Path(__file__).parent}/README.md"), heading)


class Skipped(Exception):
    """Why a test does not apply to this machine."""


def needs(condition: object, otherwise: str) -> None:
    """Go on with a test only where there is what it is about; `otherwise` says what is missing."""
    if not condition:
        raise Skipped(otherwise)


# ---- running them ----

def state() -> dict[str, int]:
    return json.loads(read(STATE) or '{"number": 0, "failed": 0}')


def run_one(number: int, function: Callable[[], None]) -> bool:
    name = function.__name__.replace("_", " ")
    begin = time.monotonic()
    try:
        function()
    except Skipped as reason:
        REPORT.test_line(f"ok {number} {name} # SKIP {reason}")
        return True
    except Exception as error:  # pylint: disable=broad-exception-caught
        text = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        REPORT.test_line("# " + text.replace("\n", "\n# "))
        REPORT.test_line(f"not ok {number} {name}")
        return False
    REPORT.test_line(f"# {time.monotonic() - begin:.1f} s")
    REPORT.test_line(f"ok {number} {name}")
    return True


def main(program: str) -> None:
    """Run the tests that were registered: those whose names contain what is asked for, else all, and the long ones too
    where these are wanted."""
    only = PARAMETERS.get("steer.only", "")
    wanted = only or "steer.long" in PARAMETERS
    chosen = [(boot, function) for boot, long, function in TESTS if only in function.__name__ and (wanted or not long)]
    counts = state()
    if BOOT == 1:
        REPORT.line(f"@begin {NONCE} {program}")
        figure(f"booted to the tests in {time.monotonic():.1f} s, virtual time")
    for _, function in (entry for entry in chosen if entry[0] == BOOT):
        counts["number"] += 1
        counts["failed"] += not run_one(counts["number"], function)
    write(STATE, json.dumps(counts))
    os.sync()
    if any(boot > BOOT for boot, _ in chosen):
        REPORT.line("@reboot")
        REPORT.end()
        run("systemctl", "--no-block", "reboot")
        return
    REPORT.test_line(f"1..{counts['number']}")
    REPORT.line(f"@end {NONCE} {program} rc={int(counts['failed'] > 0)}")
    REPORT.line(f"@done {NONCE} tainted={read('/proc/sys/kernel/tainted')} programs=1")
    REPORT.end()
    run("systemctl", "--no-block", "poweroff")

