# SPDX-License-Identifier: GPL-2.0-only
"""Which documents are built, and which of Sphinx's messages count."""

import tempfile
import unittest
from pathlib import Path

import context  # noqa: F401
import docs

# Put together here, so that this file refers to nothing that is not there.
GUIDE = "Documentation/" + "guide/steer"


class Documents(unittest.TestCase):
    def test_directories_are_built_once(self) -> None:
        names = ["guide/steer/index.rst", "guide/steer/hint.rst", "guide/steer/more/a.rst", "scheduler/steer.rst"]
        self.assertEqual(docs.directories(names), ["guide/steer", "scheduler"])
        self.assertEqual(docs.directories([]), [])

    def test_messages(self) -> None:
        names = ["guide/steer/hint.rst"]
        line = f"/x/build/tree/{GUIDE}/hint.rst:12: WARNING: undefined label: 'x'"
        other = line.replace("hint", "other")
        said = [line, f"{line}\n", other, "WARNING: dot(1) not found", "reading sources"]
        self.assertEqual(docs.messages(said, names), [f"{GUIDE}/hint.rst:12: WARNING: undefined label: 'x'"])
        for level in ("ERROR", "SEVERE", "CRITICAL"):
            self.assertEqual(len(docs.messages([line.replace("WARNING", level)], names)), 1, level)
        whole = f"/x/{GUIDE}/hint.rst: WARNING: document isn't included in any toctree"
        self.assertEqual(docs.messages([whole], names),
                         [f"{GUIDE}/hint.rst:1: WARNING: document isn't included in any toctree"])

    def test_unlisted(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            index = Path(directory, "Documentation/guide/index.rst")
            index.parent.mkdir(parents=True)
            names = ["guide/steer/index.rst", "guide/steer/hint.rst"]
            index.write_text(".. toctree::\n\n   steer/index\n")
            self.assertEqual(docs.unlisted(Path(directory), names), [])
            index.write_text(".. toctree::\n\n   steers/index\n")
            self.assertEqual(docs.unlisted(Path(directory), names),
                             ["Documentation/guide/index.rst: its list of contents lacks steer/index"])

    def test_dead_links(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            (root / "sub").mkdir()
            (root / GUIDE).mkdir(parents=True)
            (root / f"{GUIDE}/hint.rst").write_text("")
            (root / "sub/there.md").write_text("[a](../README.md#top) [b](https://example.org/x) [c](#here)\n")
            (root / "README.md").write_text(f"[a](sub/there.md), see {GUIDE}/hint.rst.\n")
            names = ["README.md", "sub/there.md"]
            self.assertEqual(docs.dead_links(root, names, root), [])
            (root / "README.md").write_text(f"[a](gone.md)\n![b](sub/gone.svg) {GUIDE}/gone.rst\n")
            (root / "code.h").write_text(f"/* {GUIDE}/gone.rst; a[1](x) */\n")
            self.assertEqual(docs.dead_links(root, [*names, "code.h"], root), [
                "README.md:1: gone.md does not exist", f"README.md:2: {GUIDE}/gone.rst does not exist",
                "README.md:2: sub/gone.svg does not exist", f"code.h:1: {GUIDE}/gone.rst does not exist"])

    def test_undocumented(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            guide, code = root / docs.GUIDE, root / "kernel/cgroup/steer.c"
            events = root / "include/trace/events/steer.h"
            for path in (guide, code.parent, events.parent):
                path.mkdir(parents=True)
            code.write_text('[A] = "hint_a_full",\nseq_printf(sf, "gang_led %llu\\ngang_ipis %llu\\n"\n"gang_parts_%d"')
            events.write_text("TRACE_EVENT(steer_wake,\n\tTP_STRUCT__entry(\n\t\t__field(u64, cgroup)\n"
                              "\t\t__array(char, comm, 16)\n\t),\n);\n")
            (guide / "hint.rst").write_text("``hint_a_full`` ``gang_led``, ``gang_ipis``")
            (guide / "tracing.rst").write_text("``steer:steer_wake``: ``cgroup``, ``comm``")
            self.assertEqual(docs.undocumented(root), [])
            (guide / "hint.rst").write_text("``hint_a_fullness`` gang_led, ``gang_ipis``")
            (guide / "tracing.rst").write_text("``steer:steer_wake``: ``cgroup``")
            self.assertEqual(docs.undocumented(root), [
                f"kernel/cgroup/steer.c: hint_a_full is on no page of {docs.GUIDE}",
                f"kernel/cgroup/steer.c: gang_led is on no page of {docs.GUIDE}",
                f"{docs.GUIDE}/tracing.rst: does not name comm"])
