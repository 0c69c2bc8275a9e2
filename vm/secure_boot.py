#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The way of a user whose machine has Secure Boot: a Debian machine with UEFI, Microsoft's keys, shim and GRUB takes our
packages, its owner makes a key, signs the kernel and enrols the key in MokManager, as packaging/README.md has it; and a
kernel that is not signed does not boot.

The commands are those of the page. What was run is written to transcript-secure-boot-RELEASE.txt, what came of it to
result-secure-boot-RELEASE.txt, in build/<KVER>/<ARCH>/install-test.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import deb  # noqa: E402
import install_test  # noqa: E402
import ktap  # noqa: E402
from common import Fail, Target, run_main  # noqa: E402
from debian_disk import Kind, Machine  # noqa: E402
from install_test import DKMS, DKMS_MODULE, PAGE, Walk, commands  # noqa: E402
from terminal import Screen  # noqa: E402

KIND = Kind("secure-boot", ("mokutil", "sbsigntool", "openssl", *DKMS), uefi=True)
PASSWORD = "at the console"
DOWN, ENTER = "\x1b[B", "\r"
# What MokManager shows, and the keys that answer. It waits ten seconds for the first, and begins with "no".
ENROL = (
    ("Press any key to perform MOK management", (ENTER,)),
    ("Enroll MOK", (DOWN, ENTER)),
    ("View key 0", (DOWN, ENTER)),
    ("Enroll the key(s)?", (DOWN, ENTER)),
    ("Password:", (*PASSWORD, ENTER)),
    ("Reboot", (ENTER,)),
)
REFUSED = "bad shim signature"


class Console:
    """The screen of a machine's first serial port, and its keys. Whoever is connected has to read: QEMU waits for that."""

    def __init__(self, machine: Machine):
        self.machine, self.screen = machine, Screen(100, 31)
        self.port = socket.socket(socket.AF_UNIX)
        self.port.connect(f"{machine.socket_path}.console")
        self.port.settimeout(0.2)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self.port.close()

    def pump(self) -> bool:
        """Take in what comes within a moment; False at the end."""
        try:
            data = self.port.recv(65536)
        except TimeoutError:
            return True
        except OSError:
            return False
        self.screen.feed(data.decode(errors="replace"))
        return bool(data)

    def wait(self, text: str, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while text not in self.screen.text():
            if time.monotonic() > end or not self.pump():
                return False
        return True

    def type(self, keys: Sequence[str]) -> None:
        """One after the other: firmware reads slowly."""
        for key in keys:
            self.port.sendall(key.encode())
            end = time.monotonic() + 0.5
            while time.monotonic() < end and self.pump():
                pass


def enrol(walked: Walk) -> bool:
    """Boot into MokManager, and do what it asks for; it restarts the machine, which ends QEMU."""
    walked.machine.power_on()
    with Console(walked.machine) as console:
        for number, (text, keys) in enumerate(ENROL):
            if not console.wait(text, 60 if number else 300):
                return walked.check(f"MokManager shows: {text}", False, console.screen.text())
            console.type(())
            walked.say(f"{console.screen.text().strip()}\n[keys: {' '.join(map(repr, keys))}]\n\n")
            console.screen.clear()
            console.type(keys)
        while console.pump():
            pass
    walked.machine.stop()
    return walked.check("MokManager takes the key", True)


def walk(walked: Walk, uri: str, flavour: str, release: str) -> None:
    """From Debian's kernel to ours with Secure Boot on, and to one that is not signed."""
    machine = walked.machine
    walked.boot("the machine as it is")
    walked.does("Debian's kernel: Secure Boot is on", "mokutil --sb-state", "SecureBoot enabled")
    machine.run(f"printf '{install_test.APT}' >/etc/apt/apt.conf.d/90walk")
    machine.run("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
    walked.section("install", "Install", uri, flavour)
    walked.does("headers", f"apt-get install {deb.flavoured('linux-headers-steer', flavour)}", seconds=install_test.LONG)
    machine.run(f"cp /boot/vmlinuz-{release} /var/tmp/not-signed")
    for command in commands(PAGE.read_text(encoding="utf-8"), "Secure Boot", uri, flavour):
        # mokutil asks twice.
        answered = f"printf '%s\\n%s\\n' '{PASSWORD}' '{PASSWORD}' | {command}" if "mokutil --import" in command else command
        if not command.startswith("systemctl reboot"):
            walked.does(f"Secure Boot: {command.splitlines()[0][:60]}", answered)
    machine.leave("reboot")
    if not enrol(walked):
        return
    walked.boot("with the key enrolled, by GRUB's default entry")
    walked.runs("signed", release)
    walked.does("our kernel: Secure Boot is on", "mokutil --sb-state", "SecureBoot enabled")
    walked.does("the kernel is locked down", "cat /sys/kernel/security/lockdown", "[integrity]")
    walked.no_failed_unit("with Secure Boot")
    walked.does("doctor", "cgctl doctor", "this kernel has cpu.hint")
    walked.does("a module of the kernel's own is taken", "modprobe dummy && grep dummy /proc/modules")
    walked.does("DKMS's module is taken, with its key enrolled", f"modprobe {DKMS_MODULE} && grep {DKMS_MODULE} /proc/modules")
    walked.does("a module that is not signed is refused",
                f"cp $(modinfo -n {DKMS_MODULE}) /var/tmp/m.ko.xz; xz -df /var/tmp/m.ko.xz; strip --strip-debug /var/tmp/m.ko; "
                f"rmmod {DKMS_MODULE}; insmod /var/tmp/m.ko", "Key was rejected", status=1)
    walked.does("the kernel as the package has it", f"cp /var/tmp/not-signed /boot/vmlinuz-{release}")
    machine.leave("reboot")
    machine.power_on()
    walked.check("a kernel that is not signed is refused", machine.shows([REFUSED], 300) == REFUSED,
                 machine.console.read_text(errors="replace"))
    walked.say(f"GRUB: {REFUSED}\n")


def run(target: Target, release: str, flavour: str) -> list[ktap.Test]:
    build = install_test.make_build(target, flavour, 0)
    return install_test.on_machine(target, f"secure-boot-{release}", "make install-test SECURE_BOOT=1", release, KIND,
                                   [build], lambda walked, served: walk(walked, served.uri, flavour, build.release))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="trixie", choices=install_test.RELEASES, help="default: %(default)s")
    arguments = parser.parse_args()
    flavour = deb.flavour_from_environment({"FLAVOUR": os.environ.get("FLAVOUR") or "cloud"})
    if flavour == "small":
        raise Fail("FLAVOUR=small: this kernel is not made for UEFI; use FLAVOUR=cloud")
    return ktap.tell(run(Target.from_environment(), arguments.release, flavour))


if __name__ == "__main__":
    run_main(main)
