# SPDX-License-Identifier: GPL-2.0-only
"""A disk with Debian's own systemd, unmodified, to boot on the built kernel.

The packages come from the machine's own apt sources (scripts/foreign.py) and are not installed: what would be done by
their maintainer scripts, users and a few links, is done here. mke2fs makes the file system from a directory, so neither
root nor a loop device is needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import foreign  # noqa: E402
from common import Fail, Target, capture, locked, run_logged  # noqa: E402

# What the tests use. apt adds what these depend on; what it takes for granted on every Debian is named, too.
PACKAGES = ("base-files", "bash", "cgroup-tools", "coreutils", "dash", "dbus", "findutils", "grep", "libc-bin", "mount",
            "procps", "python3", "sed", "systemd", "systemd-sysv", "util-linux")
# Nothing in the machine reads these.
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian",
            "usr/share/bash-completion", "usr/share/zoneinfo", "usr/share/i18n", "usr/share/perl", "usr/lib/udev/hwdb.d")
# What installation would have made.
PASSWD = """\
root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
messagebus:x:101:101::/nonexistent:/usr/sbin/nologin
systemd-network:x:998:998::/:/usr/sbin/nologin
tester:x:1000:1000::/nonexistent:/bin/bash
"""
GROUPS = """\
root:x:0:
adm:x:4:
tty:x:5:
disk:x:6:
kmem:x:15:
utmp:x:43:
shadow:x:42:
nogroup:x:65534:
messagebus:x:101:
systemd-journal:x:999:
systemd-network:x:998:
tester:x:1000:
"""
FILES = {
    "etc/passwd": PASSWD, "etc/group": GROUPS, "etc/shadow": "root:*:19000:0:99999:7:::\n",
    # With an id, it is no first boot, on which systemd would enable whatever it can.
    "etc/fstab": "", "etc/hostname": "steer\n", "etc/machine-id": "5" * 32 + "\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n", "etc/environment": "", "etc/locale.conf": "",
    "etc/hosts": "127.0.0.1\tlocalhost\n",
    # The journal is read by tests after a reboot, too.
    "etc/systemd/journald.conf.d/steer.conf": "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n",
}
LINKS = {
    "etc/systemd/system/default.target": "/lib/systemd/system/multi-user.target",
    # Nobody logs in, there is no second file system to look for, and the kernel has no modules.
    **{f"etc/systemd/system/{unit}": "/dev/null" for unit in (
        "getty.target", "serial-getty@ttyS0.service", "systemd-logind.service", "systemd-pcrphase.service",
        "systemd-modules-load.service", "systemd-fsck-root.service", "e2scrub_reap.service", "systemd-ask-password-wall.path",
        "systemd-ask-password-console.path", "systemd-update-utmp.service", "systemd-random-seed.service")},
}
# Dependencies for the sake of maintainer scripts.
NOT_NEEDED = ("perl", "libperl", "usrmerge", "adduser", "debconf", "dpkg", "libfile-find-rule", "libtext-glob",
              "libnumber-compare", "media-types")


def merged(path: str) -> str:
    """A package's path where /bin, /sbin and /lib are links into /usr."""
    first = path.partition("/")[0]
    return f"usr/{path}" if first in ("bin", "sbin", "lib", "lib32", "lib64", "libx32") else path


def lay_out(root: Path, packages: Mapping[str, Path]) -> None:
    """Merge unpacked packages into one directory, by hard links."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "var/tmp", "boot"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    # Where libraries still look for the bus. Relative: packages are merged through it.
    (root / "var/run").symlink_to("../run")
    for package in (root for name, root in packages.items() if not name.startswith(NOT_NEEDED)):
        for directory, below, names in os.walk(package):
            base = merged(str(Path(directory).relative_to(package)))
            below[:] = [name for name in below if str(Path(base, name)) not in LEFT_OUT]
            (root / base).mkdir(parents=True, exist_ok=True)
            for name in [*names, *(name for name in below if Path(directory, name).is_symlink())]:
                to = root / merged(str(Path(base, name))) if base == "." else root / base / name
                if not to.exists() and not to.is_symlink():
                    os.link(Path(directory, name), to, follow_symlinks=False)
    for name, text in FILES.items():
        write(root, name, text.encode())
    for name, to in {**LINKS, "etc/os-release": "../usr/lib/os-release", "usr/bin/sh": "dash"}.items():
        link(root / name, to)


def link(path: Path, to: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def write(root: Path, name: str, content: bytes, mode: int = 0o644) -> None:
    """A file, in place of a hard link to a package's."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def mke2fs() -> str:
    found = shutil.which("mke2fs", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Fail("mke2fs is missing (package e2fsprogs); run: scripts/setup vm")
    return found


def build(target: Target, extra: Mapping[str, tuple[bytes, int]], links: Mapping[str, str], name: str,
          more: Iterable[str], size: int) -> Path:
    """The disk of that name, of `size` MiB: packages and more packages, then extra files (path -> content and mode) and
    links. Made anew when any of it changed."""
    directory = target.build / target.arch / "debian" / (target.release or foreign.own_release()) / name
    with locked(directory / "lock"):
        packages = foreign.unpack_all(target, [*PACKAGES, *more])
        state = hashlib.sha256(Path(__file__).read_bytes())
        state.update(repr(sorted((name, foreign.version(root)) for name, root in packages.items())).encode())
        state.update(repr(sorted((name, hashlib.sha256(content).hexdigest(), mode)
                                 for name, (content, mode) in extra.items())).encode())
        state.update(repr((sorted(links.items()), size)).encode())
        disk, stamp = directory / "disk.ext4", directory / "disk.stamp"
        if disk.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == state.hexdigest():
            return disk
        stamp.unlink(missing_ok=True)
        root = directory / "root"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        lay_out(root, packages)
        for path, (content, mode) in extra.items():
            write(root, path, content, mode)
        for path, to in links.items():
            link(root / path, to)
        disk.unlink(missing_ok=True)
        owner = [] if os.geteuid() == 0 else ["fakeroot"]
        if owner and not shutil.which("fakeroot"):
            raise Fail("fakeroot is missing; run: scripts/setup deb")
        run_logged([*owner, mke2fs(), "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", root, disk,
                    f"{size}M"], directory / "mke2fs.log", "making the disk")
        shutil.rmtree(root)
        stamp.write_text(state.hexdigest(), encoding="utf-8")
    return disk


def copy(disk: Path, to: Path) -> None:
    """A disk for one run, with holes where the first has them."""
    capture(["cp", "--sparse=always", disk, to])
