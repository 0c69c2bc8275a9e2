# SPDX-License-Identifier: GPL-2.0-only
"""A program on a pseudo-terminal: keys go in, the screen comes out, as text or as a picture.

The screen understands what full-screen programs commonly send: cursor positions, clearing, and which cells stand out.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

CSI = re.compile(r"\x1b\[([?>=]?)([0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78M]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)")


class Screen:
    """Cells, each a character and whether it is bold or reversed."""

    def __init__(self, columns: int, rows: int):
        self.columns, self.rows = columns, rows
        self.row = self.column = 0
        self.style = ""
        self.cells: list[list[tuple[str, str]]] = []
        self.clear()
        self.rest = ""

    def clear(self) -> None:
        self.cells = [[(" ", "")] * self.columns for _ in range(self.rows)]

    def feed(self, data: str) -> None:
        data, self.rest = self.rest + data, ""
        position = 0
        while position < len(data):
            if data[position] == "\x1b":
                if not (match := CSI.match(data, position)):
                    # The rest of the sequence is still to come, or it is one that is not known.
                    if len(data) - position < 16:
                        self.rest = data[position:]
                        return
                    position += 1
                    continue
                if match[3]:
                    self.control(match[1], match[2], match[3])
                position = match.end()
                continue
            self.put(data[position])
            position += 1

    def put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif character == "\b":
            self.column = max(self.column - 1, 0)
        elif character >= " ":
            # Lines that are too long go on in the next one.
            wide = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self.column + wide > self.columns:
                self.row, self.column = min(self.row + 1, self.rows - 1), 0
            self.cells[self.row][self.column:self.column + wide] = [(character, self.style), ("", self.style)][:wide]
            self.column += wide

    def control(self, private: str, text: str, final: str) -> None:
        values = [int(value or 0) for value in text.split(";")] if text else []
        first = values[0] if values else 0
        if private:
            if final in "hl" and first == 1049:
                self.clear()
        elif final in "Hf":
            self.row = min(max(first, 1), self.rows) - 1
            self.column = min(max(values[1] if len(values) > 1 else 1, 1), self.columns) - 1
        elif final in "ABCD":
            step = max(first, 1)
            self.row += {"A": -step, "B": step}.get(final, 0)
            self.column += {"C": step, "D": -step}.get(final, 0)
            self.row, self.column = min(max(self.row, 0), self.rows - 1), min(max(self.column, 0), self.columns - 1)
        elif final == "J" and first == 2:
            self.clear()
        elif final == "K":
            self.cells[self.row][self.column:] = [(" ", "")] * (self.columns - self.column)
        elif final == "m":
            for value in values or [0]:
                names = {0: "", 1: self.style + "b", 7: self.style + "r", 22: self.style.replace("b", ""),
                         27: self.style.replace("r", "")}
                self.style = names.get(value, self.style)

    def lines(self) -> list[str]:
        return ["".join(character for character, _ in row).rstrip() for row in self.cells]

    def text(self) -> str:
        return "\n".join(self.lines())

    def svg(self) -> str:
        """A picture of the screen that any browser shows."""
        width, height, pad = 8.4, 18, 10
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.columns * width + 2 * pad:.0f}" '
                 f'height="{self.rows * height + 2 * pad}" font-family="monospace" font-size="14">',
                 '<rect width="100%" height="100%" rx="6" fill="#1b1f27"/>']
        for number, row in enumerate(self.cells):
            start = 0
            while start < self.columns:
                style, end = row[start][1], start
                while end < self.columns and row[end][1] == style:
                    end += 1
                run = "".join(character for character, _ in row[start:end])
                x, y = pad + start * width, pad + number * height
                if "r" in style:
                    parts.append(f'<rect x="{x:.1f}" y="{y}" width="{(end - start) * width:.1f}" height="{height}" '
                                 f'fill="#c8d0e0"/>')
                if run.strip():
                    colour, weight = ("#1b1f27" if "r" in style else "#c8d0e0"), ("bold" if "b" in style else "normal")
                    parts.append(f'<text x="{x:.1f}" y="{y + 14}" fill="{colour}" font-weight="{weight}" '
                                 f'textLength="{(end - start) * width:.1f}" xml:space="preserve">{escape(run)}</text>')
                start = end
        return "\n".join([*parts, "</svg>", ""])


class Terminal:
    """A program that believes to be on a terminal."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], columns: int = 110, rows: int = 16):
        self.screen = Screen(columns, rows)
        self.pid, self.fd = pty.fork()
        if not self.pid:
            # Before the program can ask.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(str(command[0]), [str(word) for word in command], dict(environment))
        self.ended = False

    def pump(self, seconds: float) -> None:
        """Take in what the program shows meanwhile."""
        if not self.ended and select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            self.ended = not data
            self.screen.feed(data.decode(errors="replace"))

    def wait(self, condition: Callable[[str], bool], seconds: float = 30) -> bool:
        """Until the screen is as it should be; False if it never is."""
        end = time.monotonic() + seconds
        while not condition(self.screen.text()):
            if self.ended or time.monotonic() > end:
                return False
            self.pump(0.1)
        return True

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def close(self, seconds: float = 30) -> int | None:
        """Wait for the end; the exit status, or None if it had to be killed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.pump(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return None
