# SPDX-License-Identifier: GPL-2.0-only
"""How the results of Go's tests are read."""

import json
import unittest

import context  # noqa: F401
import nri
import release_version
from ktap import FAILED, PASSED, SKIPPED


def event(action: str, package: str, name: str = "", output: str = "") -> str:
    return json.dumps({"Action": action, "Package": package} | ({"Test": name} if name else {}) |
                      ({"Output": output} if output else {}))


class Results(unittest.TestCase):
    def test_each_is_counted_once(self) -> None:
        tests = nri.parse_tests([event("run", "p", "A"), event("output", "p", "A", "told\n"), event("pass", "p", "A/part"),
                                 event("pass", "p", "A"), event("skip", "p", "B"), event("output", "p", "C/x", "why\n"),
                                 event("fail", "p", "C/x"), event("fail", "p", "C"), event("fail", "p"), event("pass", "q")])
        self.assertEqual([(test.name, test.status) for test in tests], [("p: A", PASSED), ("p: B", SKIPPED), ("p: C", FAILED)])
        self.assertEqual((tests[0].detail, tests[2].detail), ("", "why\n"))

    def test_package_that_fails_without_a_test(self) -> None:
        tests = nri.parse_tests([json.dumps({"ImportPath": "p", "Action": "build-output", "Output": "undefined: x\n"}),
                                 json.dumps({"ImportPath": "p", "Action": "build-fail"}), event("fail", "p")])
        self.assertEqual([(test.name, test.status) for test in tests], [("p", FAILED)])
        self.assertIn("undefined: x", tests[0].detail)

    def test_text_that_is_no_event(self) -> None:
        self.assertEqual(nri.parse_tests(["go: downloading x", event("pass", "p", "A")])[0].status, PASSED)
        self.assertEqual(nri.parse_tests([]), [])


class Versions(unittest.TestCase):
    def test_of_the_project(self) -> None:
        self.assertGreaterEqual(nri.minimum_go(), (1, 24))
        self.assertRegex(release_version.of_source(), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
