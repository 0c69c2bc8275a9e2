#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs in a machine of vm/debian_disk.py: does what the host asks for on the second serial port.

A request is a line, the base64 of a JSON object: command (for sh), seconds (its limit). The answer is a line of the same
form: status (124: not ended in time) and output (both streams, as text). At the start, and for an empty line, it answers
with {"ready": uname -r}.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tty

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb"}


def run(command: str, seconds: float) -> dict[str, object]:
    try:
        done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False, env=ENVIRONMENT, cwd="/root")
    except subprocess.TimeoutExpired as expired:
        return {"status": 124, "output": (expired.stdout or b"").decode(errors="replace")}
    return {"status": done.returncode, "output": done.stdout.decode(errors="replace")}


def main() -> None:
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    stream = os.fdopen(fd, "rb+", buffering=0)

    def answer(what: dict[str, object]) -> None:
        data = base64.b64encode(json.dumps(what).encode()) + b"\n"
        while data:
            data = data[stream.write(data):]

    answer({"ready": os.uname().release})
    pending = b""
    while True:
        pending += stream.read(4096)
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            if not line.strip():
                answer({"ready": os.uname().release})
                continue
            request = json.loads(base64.b64decode(line))
            answer(run(request["command"], request["seconds"]))


if __name__ == "__main__":
    main()
