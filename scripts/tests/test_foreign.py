# SPDX-License-Identifier: GPL-2.0-only
"""Where packages of another release come from."""

import dataclasses
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import foreign
from common import Fail, Target

INDEXES = """\
bookworm main http://archive/debian/
bookworm contrib http://archive/debian/
bookworm-updates main http://archive/debian/
bookworm-security main http://security/debian-security/
bookworm-backports main http://archive/debian/
nodistro main http://elsewhere/
"""


class Sources(unittest.TestCase):
    def test_same_suites_of_the_same_archives(self) -> None:
        with mock.patch.object(foreign, "KEYRING", Path("/nonexistent")):
            self.assertEqual(foreign.sources_of("trixie", "bookworm", INDEXES), (
                "deb http://archive/debian/ trixie main\n"
                "deb http://archive/debian/ trixie-updates main\n"
                "deb http://security/debian-security/ trixie-security main\n"))

    def test_signed_by_the_archive(self) -> None:
        with mock.patch.object(foreign, "KEYRING", Path(__file__)):
            for line in foreign.sources_of("trixie", "bookworm", INDEXES).splitlines():
                self.assertIn(f"[signed-by={__file__}]", line)

    def test_no_archive(self) -> None:
        with self.assertRaisesRegex(Fail, "trixie: .* release bullseye"):
            foreign.sources_of("trixie", "bullseye", INDEXES)

    def test_releases_are_apart(self) -> None:
        target = Target()
        other = dataclasses.replace(target, release="another")
        self.assertNotEqual(foreign.directory(target), foreign.directory(other))
        self.assertEqual(foreign.directory(target),
                         foreign.directory(dataclasses.replace(target, release=foreign.own_release())))


if __name__ == "__main__":
    unittest.main()
