# SPDX-License-Identifier: GPL-2.0-only
"""A machine as users have it: Debian with its own kernel, GRUB and systemd on a disk that its firmware boots.

mmdebstrap installs the packages, mke2fs makes the file system of them under fakeroot, so no loop device and no root is
needed. GRUB is installed by the machine itself, in a first boot with Debian's kernel. vm/guest/agent.py, a service in
the machine, runs commands for the host.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import foreign  # noqa: E402
from common import ROOT, Fail, Progress, Target, capture, locked, run_logged  # noqa: E402

PACKAGES = ("linux-image-cloud-amd64", "systemd-sysv", "dbus", "udev", "initramfs-tools", "kmod", "python3",
            "procps", "iproute2", "apparmor", "openssh-server", "less", "login")
SIZE = 4096  # of the disk, in MiB; holes take no room
FIRST_SECTOR = 2048
EFI_SECTORS = 128 << 11  # of the partition that UEFI reads
UEFI = Path("/usr/share/OVMF/OVMF_CODE_4M.ms.fd")  # enforces Secure Boot when its variables have keys,
UEFI_VARIABLES = Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")  # and these have Microsoft's, as machines are sold
HOST = "10.0.2.2"  # what the machine calls the host, in QEMU's own network
MEMORY, CPUS = 1536, 4
BOOT_LIMIT = 900.0  # seconds, of a host that has other things to do
AGENT_UNIT = """\
# SPDX-License-Identifier: GPL-2.0-only
[Unit]
Description=Commands from the host
After=multi-user.target

[Service]
Type=idle
ExecStart=/usr/bin/python3 -u /opt/steer/agent.py /dev/ttyS1
Restart=always

[Install]
WantedBy=multi-user.target
"""
FILES = {
    "etc/fstab": "LABEL=debian / ext4 errors=remount-ro 0 1\n",
    "etc/hostname": "debian\n",
    "etc/hosts": "127.0.0.1 localhost debian\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/network/20-wired.network": "[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n",
    # As Debian's own images for clouds have it.
    "etc/default/grub.d/10_console.cfg": 'GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200"\nGRUB_TIMEOUT=2\n',
    "etc/systemd/system/steer-agent.service": AGENT_UNIT,
    "opt/steer/agent.py": (ROOT / "vm/guest/agent.py").read_text(encoding="utf-8"),
}
WANTS = "etc/systemd/system/multi-user.target.wants"
LINKS = {
    f"{WANTS}/systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
    f"{WANTS}/steer-agent.service": "../steer-agent.service",
}


@dataclass(frozen=True)
class Kind:
    """What a disk has beside PACKAGES, and which firmware boots it.

    name: of its directory, beside the release.
    uefi: booted by UEFI with shim, GRUB as Debian signs it, and Secure Boot on; otherwise by a PC's BIOS.
    """

    name: str = ""
    packages: tuple[str, ...] = ()
    uefi: bool = False

    def all_packages(self) -> tuple[str, ...]:
        loader = ("shim-signed", "grub-efi-amd64", "grub-efi-amd64-signed", "dosfstools") if self.uefi else ("grub-pc",)
        return (*PACKAGES, *loader, *self.packages)

    @property
    def root(self) -> int:
        """The first sector of the file system."""
        return FIRST_SECTOR + (EFI_SECTORS if self.uefi else 0)


PLAIN = Kind()


class Served:
    """A directory, served by HTTP to machines on this host, for as long as the context lasts; host is what they call
    this one."""

    def __init__(self, directory: Path, host: str = HOST):
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # pylint: disable=redefined-builtin
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory)))
        self.uri = f"http://{host}:{self.server.server_address[1]}"

    def __enter__(self) -> Served:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Machine:
    """QEMU with a disk; with UEFI and Secure Boot, if it has a file for UEFI's variables. What it does wrong is a Fail."""

    def __init__(self, disk: Path, logs: Path, kvm: bool = False, variables: Path | None = None):
        self.disk, self.logs, self.kvm, self.variables = disk, logs, kvm, variables
        self.boots = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None
        self.pending = b""
        self.release = ""
        logs.mkdir(parents=True, exist_ok=True)

    def command(self, kernel: list[str]) -> list[str]:
        accel = ["-accel", "kvm", "-cpu", "host"] if self.kvm else [
            "-accel", "tcg,thread=multi", "-cpu", "Nehalem,l3-cache=on"]
        firmware = [] if not self.variables else [
            "-global", "driver=cfi.pflash01,property=secure,value=on",
            "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={UEFI}",
            "-drive", f"if=pflash,unit=1,format=raw,file={self.variables}"]
        return ["qemu-system-x86_64", "-M", "q35,smm=on" if firmware else "q35", *firmware, *accel, "-m", str(MEMORY), "-smp", f"{CPUS},sockets=2,cores=2",
                "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot",
                "-vga", "std",  # GRUB does not come up where its font finds no screen
                "-serial", "chardev:console", "-serial", "chardev:agent",
                "-chardev", f"socket,id=console,path={self.socket_path}.console,server=on,wait=off,logfile={self.console}",
                "-chardev", f"socket,id=agent,path={self.socket_path},server=on,wait=off",
                "-drive", f"file={self.disk},format=raw,if=virtio,cache=unsafe,discard=unmap",
                "-nic", "user,model=virtio-net-pci", "-device", "virtio-rng-pci", *kernel]

    @property
    def console(self) -> Path:
        return self.logs / f"console{self.boots}.log"

    @property
    def socket_path(self) -> Path:
        # A path of a socket has 107 bytes at most.
        return Path(f"/tmp/steer-agent-{os.getpid()}")

    def power_on(self, kernel: list[str] | None = None) -> None:
        """Start QEMU, by its disk or with a kernel of ours, and wait for nothing."""
        self.stop()
        self.boots += 1
        self.pending = b""
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(self.command(kernel or []), stdin=subprocess.DEVNULL)
        while not self.socket_path.exists():
            self.check_alive()
            time.sleep(0.1)
        self.channel = socket.socket(socket.AF_UNIX)
        self.channel.connect(str(self.socket_path))

    def start(self, kernel: list[str] | None = None) -> float:
        """Boot it, by its disk or with a kernel of ours; returns the seconds until its services were up."""
        begin = time.monotonic()
        self.power_on(kernel)
        progress = Progress(f"boot {self.boots}")
        while True:
            progress.update("waiting for its services")
            try:
                self.release = str(self.receive(5)["ready"])
                break
            except TimeoutError:
                pass
            if time.monotonic() - begin > BOOT_LIMIT:
                self.stop()
                raise Fail(f"boot {self.boots} was not done after {BOOT_LIMIT:.0f} s; {self.console} ends with:\n"
                           f"{self.console.read_text(errors='replace')[-1500:]}")
        progress.finish(f"Linux {self.release}")
        return time.monotonic() - begin

    def check_alive(self) -> None:
        if not self.process or self.process.poll() is not None:
            said = self.console.read_text(errors="replace")[-1500:] if self.console.exists() else ""
            raise Fail(f"QEMU ended in boot {self.boots} (status {self.process.returncode if self.process else '-'}); "
                       f"{self.console} ends with:\n{said}")

    def receive(self, seconds: float) -> dict[str, object]:
        assert self.channel
        end = time.monotonic() + seconds
        while b"\n" not in self.pending:
            self.channel.settimeout(max(0.1, end - time.monotonic()))
            data = self.channel.recv(65536)
            if not data:
                self.check_alive()
                time.sleep(0.2)
                self.check_alive()
            self.pending += data
            if time.monotonic() > end:
                raise TimeoutError
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            return dict(json.loads(base64.b64decode(line)))
        except ValueError:
            # What the serial port carried while it was not ours yet.
            return self.receive(max(0.1, end - time.monotonic()))

    def run(self, command: str, seconds: float = 900) -> tuple[int, str]:
        """Run a command for sh in it; returns its status and what it printed."""
        assert self.channel
        self.channel.sendall(base64.b64encode(json.dumps({"command": command, "seconds": seconds}).encode()) + b"\n")
        try:
            answer = self.receive(seconds + 120)
        except TimeoutError:
            raise Fail(f"no answer from the machine to: {command}") from None
        return int(str(answer["status"])), str(answer["output"])

    def shows(self, parts: Sequence[str], seconds: float) -> str:
        """Wait until the console has shown one of some texts since it was switched on; returns which, or nothing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            said = self.console.read_text(errors="replace") if self.console.exists() else ""
            if found := next((part for part in parts if part in said), ""):
                return found
            if not self.process or self.process.poll() is not None:
                break
            time.sleep(0.2)
        return ""

    def leave(self, command: str, seconds: float = 300) -> None:
        """Have it reboot or power off, which ends QEMU here."""
        assert self.process
        self.run(f"systemctl --no-block {command}", 30)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Fail(f"the machine did not {command} within {seconds:.0f} s") from None
        self.stop()

    def stop(self) -> None:
        if self.channel:
            self.channel.close()
            self.channel = None
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            self.process = None
        for path in (self.socket_path, Path(f"{self.socket_path}.console")):
            path.unlink(missing_ok=True)


def sources(release: str) -> str:
    """apt's, as lines."""
    return foreign.sources_of(release, foreign.own_release(), capture(list(foreign.INDEXES)))


def copy_sparse(source: Path, target: Path) -> None:
    capture(["cp", "--sparse=always", "--reflink=auto", source, target])


def file_system(kind: Kind, archive: Path, disk: Path, work: Path) -> None:
    """A disk with a partition made of a tar archive and of FILES, and with an empty one for UEFI before it."""
    stage = work / "files"
    shutil.rmtree(stage, ignore_errors=True)
    for name, content in FILES.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_text(content, encoding="utf-8")
    for name, to in LINKS.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).symlink_to(to)
    root = work / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    disk.unlink(missing_ok=True)
    with disk.open("wb") as stream:
        stream.truncate(SIZE << 20)
    table = "label: dos\n" + (f"{FIRST_SECTOR},{EFI_SECTORS},ef\n" if kind.uefi else "") + f"{kind.root},,83,*\n"
    subprocess.run(["/sbin/sfdisk", "--quiet", disk], input=table, text=True, check=True)
    blocks = (SIZE << 20) // 4096 - kind.root * 512 // 4096
    script = (f"tar -xf '{archive}' -C '{root}' && rm -f '{root}/etc/resolv.conf' && cp -a --no-preserve=ownership "
              f"'{stage}/.' '{root}/' && /sbin/mke2fs -q -t ext4 -b 4096 -L debian -d '{root}' "
              f"-E offset={kind.root * 512} '{disk}' {blocks}")
    run_logged(["fakeroot", "sh", "-c", script], work / "mke2fs.log", "making the file system", item="$^")
    for name in ("vmlinuz", "initrd.img"):
        found = sorted((root / "boot").glob(f"{name}-*"))
        shutil.copyfile(found[-1], work / name)
    shutil.rmtree(root)
    shutil.rmtree(stage)


def build(target: Target, release: str, kind: Kind = PLAIN) -> Path:
    """The disk of a release with nothing of ours but the agent; made once, and again when its ingredients change."""
    if target.arch != "x86_64":
        raise Fail(f"ARCH={target.arch}: machines with GRUB on a disk are made for x86_64 only")
    if missing := [name for name, package in (("mmdebstrap",) * 2, ("fakeroot",) * 2, ("qemu-img", "qemu-utils"))
                   if not shutil.which(name)] + [str(path) for path in (
                       Path("/sbin/sfdisk"), *((UEFI, UEFI_VARIABLES) if kind.uefi else ())) if not path.exists()]:
        raise Fail(f"{', '.join(missing)} is missing; run: scripts/setup image")
    work = target.build / target.arch / "debian" / "-".join(filter(None, (release, kind.name)))
    disk, stamp = work / "disk.raw", work / "stamp"
    packages = hashlib.sha256(json.dumps(kind.all_packages()).encode()).hexdigest()[:16]
    state = hashlib.sha256(json.dumps([packages, FILES, LINKS, SIZE, EFI_SECTORS, LOADERS]).encode())
    with locked(work / "lock"):
        if disk.is_file() and stamp.is_file() and stamp.read_text() == state.hexdigest():
            return disk
        stamp.unlink(missing_ok=True)
        archive = work / f"root-{packages}.tar"
        if not archive.is_file():
            (work / "sources.list").write_text(sources(release), encoding="utf-8")
            run_logged(["mmdebstrap", "--variant=apt", f"--include={','.join(kind.all_packages())}", release,
                        work / "new.tar", work / "sources.list"], work / "mmdebstrap.log",
                       f"Debian {' '.join(filter(None, (release, kind.name)))}", item="^I: (.*)")
            for old in work.glob("root*.tar"):
                old.unlink()
            (work / "new.tar").rename(archive)
        file_system(kind, archive, disk, work)
        install_grub(disk, work, LOADERS["uefi" if kind.uefi else "bios"])
        stamp.write_text(state.hexdigest())
    return disk


# What makes a disk bootable, run in the machine. A firmware without an entry for Debian starts EFI/BOOT; shim's fallback,
# which would make the entry and restart, is not put there.
LOADERS = {
    "bios": ("echo grub-pc grub-pc/install_devices multiselect /dev/vda | debconf-set-selections",
             "grub-install /dev/vda", "update-grub"),
    "uefi": ("mkfs.vfat -n EFI /dev/vda1", "echo LABEL=EFI /boot/efi vfat umask=0077 0 1 >>/etc/fstab",
             "mkdir -p /boot/efi && mount /boot/efi", "grub-install --target=x86_64-efi --no-nvram", "update-grub",
             "mkdir -p /boot/efi/EFI/BOOT && cp /boot/efi/EFI/debian/*.efi /boot/efi/EFI/BOOT/ && "
             "cd /boot/efi/EFI/BOOT && rm -f fbx64.efi && mv shimx64.efi BOOTX64.EFI"),
}


def install_grub(disk: Path, work: Path, commands: Sequence[str]) -> None:
    machine = Machine(disk, work)
    try:
        machine.start(["-kernel", str(work / "vmlinuz"), "-initrd", str(work / "initrd.img"), "-append",
                       "root=LABEL=debian ro console=ttyS0"])
        for command in commands:
            status, output = machine.run(command)
            if status:
                raise Fail(f"in the machine: {command}: status {status}\n{output}")
        machine.leave("poweroff")
    finally:
        machine.stop()
