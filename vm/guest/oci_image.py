#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write a container image with busybox alone, as a tar archive of an OCI image layout.

usage: oci_image.py NAME[:TAG] ARCHIVE [BUSYBOX]

`podman load`, `ctr images import` and skopeo take the archive. Two runs write the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
DIRECTORIES = ("bin", "dev", "etc", "proc", "run", "sys", "tmp")
FILES = {"etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", "etc/group": b"root:x:0:\n"}


def entry(name: str, kind: bytes, mode: int = 0o755, size: int = 0, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    return info


def add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    archive.addfile(entry(name, tarfile.REGTYPE, mode, len(content)), io.BytesIO(content))


def root(busybox: Path) -> bytes:
    """The one layer: busybox, with a link for each of its commands."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in DIRECTORIES:
            archive.addfile(entry(name, tarfile.DIRTYPE))
        for name, content in FILES.items():
            add(archive, name, content)
        add(archive, "bin/busybox", busybox.read_bytes(), 0o755)
        commands = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in sorted(set(commands) - {"busybox"}):
            archive.addfile(entry(f"bin/{name}", tarfile.SYMTYPE, 0o777, link="busybox"))
    return stream.getvalue()


def descriptor(kind: str, content: bytes, **more: object) -> dict[str, object]:
    return {"mediaType": f"application/vnd.oci.image.{kind}", "size": len(content),
            "digest": "sha256:" + hashlib.sha256(content).hexdigest(), **more}


def image(name: str, layer: bytes) -> dict[str, bytes]:
    """The files of an image layout: path -> content."""
    def encoded(value: object) -> bytes:
        return json.dumps(value, sort_keys=True).encode()
    system = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    config = encoded({**system, "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/bin"]},
                      "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}})
    manifest = encoded({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "config": descriptor("config.v1+json", config),
                        "layers": [descriptor("layer.v1.tar", layer)]})
    tag = name.rpartition(":")[2]
    index = encoded({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        # containerd reads the first name, podman the second.
        descriptor("manifest.v1+json", manifest, platform=system, annotations={
            "io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag})]})
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (layer, config, manifest)}
    return {"oci-layout": encoded({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    name, to, busybox = sys.argv[1], sys.argv[2], Path(sys.argv[3] if len(sys.argv) == 4 else "/bin/busybox")
    if ":" not in name.rpartition("/")[2]:
        name += ":latest"
    with tarfile.open(to, "w") as archive:
        for path, content in image(name, root(busybox)).items():
            add(archive, path, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
