#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A machine to try it without installing: a qcow2 image with Debian, our kernel, cgctl and the kselftests.

It is Debian's disk of vm/debian_disk.py, on which the commands of packaging/README.md are run. On its serial console,
root is logged in. Variables: FLAVOUR (default: cloud), and the option --release of Debian (default: trixie).
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import deb  # noqa: E402
import debian_disk  # noqa: E402
import install_test  # noqa: E402
import repo  # noqa: E402
from common import ROOT, Fail, Target, capture, run_logged, run_main  # noqa: E402
from debian_disk import Machine, Served  # noqa: E402
from run import accelerator  # noqa: E402

# The console is the only way in: no network service asks for a password, for there is none.
FINISH = (
    "mkdir -p /etc/systemd/system/serial-getty@ttyS0.service.d",
    "printf '[Service]\\nExecStart=\\nExecStart=-/sbin/agetty --autologin root --noclear %%I 115200 linux\\n' "
    ">/etc/systemd/system/serial-getty@ttyS0.service.d/autologin.conf",
    "printf 'cgctl doctor says whether all is there; cgctl help explains the rest.\\n' >/etc/motd",
    # Of this host, and for this host only.
    "rm -f /etc/apt/sources.list.d/cgroup-steer.sources /etc/apt/apt.conf.d/90walk /etc/ssh/ssh_host_*",
    "ln -sf /dev/null /etc/systemd/system/ssh.service",
    "apt-get clean",
    "rm -rf /opt/steer /etc/systemd/system/steer-agent.service "
    "/etc/systemd/system/multi-user.target.wants/steer-agent.service /etc/machine-id && touch /etc/machine-id",
    "fstrim / || true",
)


def boot_command(image: Path, kvm: bool) -> list[str]:
    """The one command that boots it in the terminal; C-a x ends it."""
    accelerator = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg", "-cpu", "Nehalem"]
    return ["qemu-system-x86_64", "-M", "q35", *accelerator, "-smp", "4", "-m", "2G", "-nographic",
            "-drive", f"file={image},if=virtio", "-nic", "user,model=virtio-net-pci"]


def build(target: Target, release: str, flavour: str) -> Path:
    work = target.build / target.arch / "image"
    work.mkdir(parents=True, exist_ok=True)
    disk, image = work / "disk.raw", ROOT / f"build/{deb.flavoured(f'steer-{release}', flavour)}.qcow2"
    repository = work / "repo"
    repo.add(repo.collect(target, {"FLAVOUR": flavour} if flavour else {}), repository)
    with tempfile.TemporaryDirectory() as home:
        repo.publish(repository, repo.key({"HOME": home}))
    debian_disk.copy_sparse(debian_disk.build(target, release), disk)
    machine = Machine(disk, work)
    try:
        machine.start()
        with Served(repository) as served:
            page = install_test.PAGE.read_text(encoding="utf-8")
            commands = [f"printf '{install_test.APT}' >/etc/apt/apt.conf.d/90walk", "mkdir -p /var/tmp/sources",
                        "mv /etc/apt/sources.list /etc/apt/sources.list.d/* /var/tmp/sources 2>/dev/null || true",
                        *(command for command in install_test.commands(page, "Install", served.uri, flavour)
                          if not command.startswith("systemctl reboot")), "apt-get install steer-selftests",
                        "mv /var/tmp/sources/sources.list /etc/apt/ 2>/dev/null; "
                        "mv /var/tmp/sources/* /etc/apt/sources.list.d/ 2>/dev/null; rmdir /var/tmp/sources", *FINISH]
            for command in commands:
                status, output = machine.run(command, install_test.LONG)
                if status:
                    raise Fail(f"in the machine: {command}: status {status}\n{output}")
        machine.leave("poweroff")
    finally:
        machine.stop()
    run_logged(["qemu-img", "convert", "-c", "-O", "qcow2", disk, image], work / "convert.log", "writing the image")
    disk.unlink()
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="trixie", choices=install_test.RELEASES,
                        help="of Debian (default: %(default)s)")
    arguments = parser.parse_args()
    target = Target.from_environment()
    flavour = deb.flavour_from_environment({"FLAVOUR": os.environ.get("FLAVOUR") or "cloud"})
    image = build(target, arguments.release, flavour)
    size = int(capture(["stat", "-c", "%s", image]))
    print(f"  image: {image.relative_to(ROOT)} ({size / 1e6:.0f} MB). To boot it (C-a x ends it):\n")
    print(f"  {shlex.join(boot_command(image, accelerator(target.arch) == 'kvm'))}")


if __name__ == "__main__":
    run_main(main)
