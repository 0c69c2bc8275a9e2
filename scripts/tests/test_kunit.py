# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel with KUnit tests built in prints at boot is told from all else that it prints."""

import unittest

import context  # noqa: F401
import kunit
from ktap import FAILED, PASSED

CONSOLE = """\
Linux version 6.12
KTAP version 1
1..2
    KTAP version 1
    # Subtest: steer_css
    # module: steer_css_test
    1..2
    ok 1 steer_test_gone
hub 1-0:1.0: 4 ports
    ok 2 steer_test_pause
# steer_css: pass:2 fail:0 skip:0 total:2
ok 1 steer_css
    KTAP version 1
    # Subtest: steer_words
    1..1
    ok 1 steer_test_bounds
ok 2 steer_words
Run /init as init process
ok 1 something else
"""


class AtBoot(unittest.TestCase):
    def test_all_passed(self) -> None:
        tests = kunit.at_boot(CONSOLE)
        self.assertEqual([(test.name, test.status) for test in tests], [
            ("kunit: steer_test_gone", PASSED), ("kunit: steer_test_pause", PASSED), ("kunit: steer_test_bounds", PASSED)])

    def test_a_failure(self) -> None:
        failed = CONSOLE.replace("    ok 2 steer_test_p", "    not ok 2 steer_test_p").replace("ok 1 steer_css", "not ok 1 steer_css")
        self.assertEqual([test.name for test in kunit.at_boot(failed) if test.status == FAILED], ["kunit: steer_test_pause"])

    def test_none_ran(self) -> None:
        self.assertTrue(any(test.status == FAILED for test in kunit.at_boot("Linux version 6.12\nRun /init\n")))

    def test_broken_off(self) -> None:
        tests = kunit.at_boot(CONSOLE.partition("ok 2 steer_words")[0])
        self.assertTrue(any(test.status == FAILED for test in tests))


if __name__ == "__main__":
    unittest.main()
