# SPDX-License-Identifier: GPL-2.0-only
"""The checks of files and warnings, the archive that the machine boots from, and the run of the steps."""

import contextlib
import dataclasses
import io
import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import context  # noqa: F401
import check
import check_licence
import initramfs
import kbuild
import lab
import lint
from common import Fail, Target
from ktap import FAILED, PASSED, SKIPPED, Test
from topology import TOPOLOGIES, Topology

SPDX = "SPDX-License-Identifier: GPL-2.0-only"


class Licence(unittest.TestCase):
    def problems(self, name: str, text: str) -> int:
        return len(check_licence.problems(name, text.encode()))

    def test_present(self) -> None:
        for name, text in (("a.c", f"// {SPDX}\nint x;\n"), ("a.h", f"/* {SPDX} */\n"), ("a.sh", f"#!/bin/sh\n# {SPDX}\n"),
                           ("x.patch", f"{SPDX}\nSubject: x\n--- a/b\n+++ b/b\n"), ("a/run-list", "x 1\n"),
                           ("LICENSE", "the text\n")):
            self.assertEqual(self.problems(name, text), 0, name)

    def test_absent(self) -> None:
        for name, text in (("a.c", "int x;\n"), ("a.c", f"\n\n// {SPDX}\n"), ("README.md", "# Steer\n"),
                           ("a.c", "// SPDX-License-Identifier: MIT\n"), ("x.patch", f"--- a/b\n+++ b/b\n+// {SPDX}\n"),
                           ("a.c", "// SPDX-License-Identifier: GPL-2.0-onlyish\n")):
            self.assertEqual(self.problems(name, text), 1, name)

    def test_directory_with_another_licence(self) -> None:
        apache = "SPDX-License-Identifier: Apache-2.0"
        for name, text, count in (("containers/nri/main.go", f"// {apache}\n", 0), ("containers/x.md", f"<!-- {apache} -->\n", 0),
                                  ("containers/nri/go.sum", "module v1 h1:x\n", 0), ("containers/LICENSE", "the text\n", 0),
                                  ("containers/nri/main.go", f"// {SPDX}\n", 1), ("scripts/x.py", f"# {apache}\n", 1),
                                  ("containers/nri/LICENSE", "another text\n", 1), ("vm/containers/x.py", f"# {apache}\n", 1)):
            self.assertEqual(self.problems(name, text), count, name)

    def test_texts(self) -> None:
        self.assertEqual(check_licence.missing_texts(["LICENSE", "a.c", "containers/LICENSE", "containers/a.go"]), [])
        self.assertEqual(len(check_licence.missing_texts(["LICENSE", "a.c", "containers/a.go"])), 1)
        self.assertEqual(len(check_licence.missing_texts(["a.c"])), 1)

    def test_private_places(self) -> None:
        # Put together here, so that this file names none.
        for place in ("/".join(("", "home", "me/x")), "/".join(("see ", "root", "x")),
                      "https:/" + "/deb." + "example.org", "http:/" + "/mirror" + ".example.net"):
            self.assertEqual(self.problems("a.c", f"// {SPDX}\n// {place}\n"), 1, place)
        for place in ("/sys/fs/cgroup/", "/usr/src", "build/root/x", "https:/" + "/docs.kernel.org/x"):
            self.assertEqual(self.problems("a.c", f"// {SPDX}\n// {place}\n"), 0, place)

    def test_text_only(self) -> None:
        self.assertEqual(self.problems("a.o", "\0"), 1)
        self.assertEqual(self.problems("a.c", f"// {SPDX}\nint x;"), 1)


class Warnings(unittest.TestCase):
    def test_counts_by_file_and_kind(self) -> None:
        found = lint.warnings(["/x/build/6.12/tree/kernel/sched/fair.c:10:5: warning: symbol 'f' was not declared",
                               "../../tree/kernel/sched/fair.c:99:5: warning: symbol 'f' was not declared",
                               "/x/build/6.12/pristine/kernel/sched/core.c:1:2: error: bad 12 here", "  CC      a.o"])
        self.assertEqual(found, {("kernel/sched/fair.c", "warning: symbol 'f' was not declared"): 2,
                                 ("kernel/sched/core.c", "error: bad N here"): 1})

    def test_place_of_an_imbalance_does_not_count(self) -> None:
        what = "warning: context imbalance in 'raw_spin_rq_unlock' - unexpected unlock"
        self.assertEqual(lint.warnings([f"/x/build/6.12/pristine/kernel/sched/core.c:652:6: {what}"]),
                         lint.warnings([f"/y/build/6.12/tree/kernel/sched/sched.h:1416:30: {what}"]))
        self.assertNotEqual(lint.warnings([f"/x/kernel/sched/core.c:652:6: {what}"]),
                            lint.warnings([f"/x/kernel/sched/core.c:652:6: {what.replace('raw', 'other')}"]))

    def test_each_kind_of_file(self) -> None:
        self.assertIn("COMMIT_MESSAGE", lint.ignored("x.patch"))
        self.assertNotIn("SPACING", lint.ignored("kernel/sched/steer.c"))
        self.assertIn("LINUX_VERSION_CODE", lint.ignored("kernel/sched/steer_compat.h"))
        self.assertNotIn("LINUX_VERSION_CODE", lint.ignored("kernel/sched/steer.h"))


class Archive(unittest.TestCase):
    def test_newc(self) -> None:
        archive = initramfs.Cpio()
        archive.file("a/b/c", b"12345", 0o600)
        archive.file("a/d", b"")
        data = archive.finish()
        self.assertEqual(len(data) % 512, 0)
        names, position = [], 0
        while True:
            self.assertEqual(data[position:position + 6], b"070701")
            fields = [int(data[position + 6 + 8 * i:position + 14 + 8 * i], 16) for i in range(13)]
            name = data[position + 110:position + 109 + fields[11]].decode()
            if name == "TRAILER!!!":
                break
            start = (position + 110 + fields[11] + 3) & ~3
            names.append((name, oct(fields[1]), data[start:start + fields[6]]))
            position = (start + fields[6] + 3) & ~3
        self.assertEqual(names, [("a", "0o40755", b""), ("a/b", "0o40755", b""), ("a/b/c", "0o100600", b"12345"),
                                 ("a/d", "0o100755", b"")])

    def test_run_list(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "run-list")
            path.write_text("# comment\none 10\n\ntwo 20\n")
            self.assertEqual(initramfs.run_list(path), {"one": 10, "two": 20})
            for text, error in (("one\n", "is not 'program seconds'"), ("one x\n", "is not 'program seconds'"),
                                ("one 1\none 2\n", "listed twice")):
                path.write_text(text)
                self.assertRaisesRegex(Fail, error, initramfs.run_list, path)


class Machines(unittest.TestCase):
    def test_llcs(self) -> None:
        self.assertEqual(Topology(2, 2, 1, 2).llc_sets(), [{0, 1}, {2, 3}, {4, 5}, {6, 7}])
        self.assertEqual([t.cpus for t in TOPOLOGIES.values()], [16, 16, 8, 8, 4, 8, 8, 1])

    def test_arguments(self) -> None:
        self.assertIn("16,sockets=2,dies=2,cores=2,threads=2", TOPOLOGIES["split"].arguments("x86_64", 2048))
        arguments = TOPOLOGIES["split"].arguments("arm64", 2048)
        self.assertIn("16,sockets=4,cores=2,threads=2", arguments)
        self.assertIn("node,nodeid=1,memdev=memory1,cpus=8-15", arguments)


class Steps(unittest.TestCase):
    """The run of made-up steps."""

    def run_steps(self, *steps: check.Step) -> tuple[list[Test], str]:
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(check, "LOGS", Path(directory)), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            return check.run_steps(list(steps), Target()), output.getvalue()

    @staticmethod
    def step(name: str, result: list[Test] | Exception, needs: tuple[str, ...] = ()) -> check.Step:
        def run(_: Target) -> list[Test]:
            if isinstance(result, Exception):
                raise result
            return result
        return check.Step(name, "made up", run, needs)

    def failures(self, *steps: check.Step) -> list[str]:
        return [test.name for test in self.run_steps(*steps)[0] if test.status == FAILED]

    def test_all_pass(self) -> None:
        tests, output = self.run_steps(self.step("a", [Test("x", PASSED)]), self.step("b", [Test("y", PASSED)]))
        self.assertEqual([test.status for test in tests], [PASSED, PASSED])
        self.assertIn("[2/2] b: ok, 1 passed, 0 failed, 0 skipped", output)
        self.assertIn("[1/1] a: skipped, 0 passed", self.run_steps(self.step("a", [Test("x", SKIPPED)]))[1])

    def test_expected_error(self) -> None:
        tests, output = self.run_steps(self.step("a", Fail("the reason")))
        self.assertEqual(tests, [Test("a", FAILED, "the reason")])
        self.assertIn("the reason", output)

    def test_unexpected_error(self) -> None:
        self.assertEqual(self.failures(self.step("a", ValueError("x")), self.step("b", [Test("y", PASSED)])), ["a"])

    def test_no_test(self) -> None:
        self.assertEqual(self.failures(self.step("a", [])), ["a"])

    def test_steps_that_need_a_failed_one(self) -> None:
        self.assertEqual(self.failures(self.step("a", Fail("x")), self.step("b", [Test("y", PASSED)], ("a",)),
                                       self.step("c", [Test("z", PASSED)], ("b",))), ["a", "b", "c"])

    def lab_steps(self, qemu: str | Exception, result: list[Test] | Exception) -> tuple[list[Test], str]:
        """Two steps of the lab, of which the second one needs the first, and another one."""
        said = mock.Mock(side_effect=[qemu] * 2) if isinstance(qemu, Exception) else mock.Mock(return_value=qemu)
        steps = [dataclasses.replace(step, lab=True) for step in (
            self.step("build", [Test("x", PASSED)]), self.step("measure", result, ("build",)))]
        with mock.patch("shutil.which", return_value="" if qemu == "none" else "x"), mock.patch.object(lab, "capture", said):
            tests, _ = self.run_steps(*steps, self.step("other", [Test("z", PASSED)]))
        return tests, "\n".join(check.not_run(steps, tests))

    def test_lab_without_qemu(self) -> None:
        """Skipped and told, whatever would have come of it; no other step is."""
        for version, reason in (("none", "qemu-system-aarch64 is missing"),
                                ("QEMU emulator version 7.2.22 (Debian 1:7.2)", "this is QEMU emulator version 7.2")):
            tests, told = self.lab_steps(version, Fail("the reason"))
            self.assertEqual([(test.name, test.status) for test in tests],
                             [("build", SKIPPED), ("measure", SKIPPED), ("z", PASSED)])
            self.assertRegex(told, rf"^SKIPPED steps build, measure: {reason}.* 'scripts/setup lab' installs it")

    def test_lab_fails_for_any_other_reason(self) -> None:
        for version in ("QEMU emulator version 10.0.2", Fail("it crashed"), "", "Segmentation fault"):
            tests, told = self.lab_steps(version, Fail("the reason"))
            self.assertEqual(tests[1], Test("measure", FAILED, "the reason"), version)
            self.assertEqual(told, "")

    def test_lab_with_qemu(self) -> None:
        tests, told = self.lab_steps("QEMU emulator version 9.1.0", [Test("y", PASSED)])
        self.assertEqual(([test.status for test in tests], told), ([PASSED] * 3, ""))

    def test_steps_of_the_lab(self) -> None:
        """Each that boots it, and each that cannot do without its kernel."""
        self.assertEqual({step.name for step in check.STEPS if step.lab},
                         {step.name for step in check.STEPS if step.name == "lab" or "lab" in step.needs})

    def test_lanes_run_side_by_side(self) -> None:
        """Two steps that wait for each other end only if both run."""
        with tempfile.TemporaryDirectory() as directory, mock.patch("os.cpu_count", return_value=2):
            def meet(mine: str, other: str) -> check.Step:
                def run(_: Target) -> list[Test]:
                    (Path(directory) / mine).touch()
                    for _ in range(1000):
                        if (Path(directory) / other).exists():
                            print(f"{mine} met {other}")
                            return [Test(mine, PASSED)]
                        time.sleep(0.01)
                    return [Test(mine, FAILED)]
                return check.Step(mine, "made up", run, lane=True)
            tests, output = self.run_steps(meet("a", "b"), meet("b", "a"), self.step("c", [Test("z", PASSED)]))
        self.assertEqual({(test.name, test.status) for test in tests[:2]}, {("a", PASSED), ("b", PASSED)})
        self.assertEqual(tests[2], Test("z", PASSED))
        self.assertIn("a met b", output)
        self.assertIn("[2/3] b: ok, 1 passed", output)

    def test_lanes_are_as_many_as_cpus(self) -> None:
        with tempfile.TemporaryDirectory() as directory, mock.patch("os.cpu_count", return_value=1):
            def alone(name: str) -> check.Step:
                def run(_: Target) -> list[Test]:
                    (Path(directory) / "here").mkdir()
                    time.sleep(0.1)
                    (Path(directory) / "here").rmdir()
                    return [Test(name, PASSED)]
                return check.Step(name, "made up", run, lane=True)
            self.assertEqual(self.failures(alone("a"), alone("b"), alone("c")), [])

    def test_a_lane_that_dies(self) -> None:
        with mock.patch.object(check, "LANE_REPORT", 0.01):
            died = check.Step("a", "made up", lambda _: os._exit(0), lane=True)  # pylint: disable=protected-access
            failed = check.Step("b", "made up", mock.Mock(side_effect=Fail("the reason")), lane=True)
            tests, output = self.run_steps(died, failed, self.step("c", [Test("z", PASSED)], ("b",)))
        self.assertEqual({test.name for test in tests if test.status == FAILED}, {"a", "b", "c"})
        self.assertIn("without a result", str(tests))
        self.assertIn("the reason", output)

    def test_tickless_cpus(self) -> None:
        """On a kernel that always has ticks, what the step is there for would be skipped."""
        with mock.patch.object(initramfs, "build"), \
                mock.patch.object(check.run, "check", return_value=[Test("x", PASSED)]) as booted:
            check.tickless(Target())
        machine, _ = booted.call_args.args
        self.assertRegex(machine.append, "nohz_full=[0-9]")
        (names,) = [names for variant, names in kbuild.VARIANTS.items()
                    if machine.kernel == kbuild.image(Target(), variant)]
        configured = [kbuild.parse_config(text, name).get("CONFIG_NO_HZ_FULL") for name, text in kbuild.read_fragments(names)]
        self.assertEqual([value for value in configured if value], ["y"])

    def test_patched_branches(self) -> None:
        """Kernels that patch branches are booted by one thread of QEMU, all others by several."""
        with mock.patch.object(initramfs, "build"):
            for variant, names in kbuild.VARIANTS.items():
                machine = check.machine(Target(arch="x86_64"), "check", "single", variant)
                with self.subTest(variant):
                    self.assertEqual(variant in kbuild.PATCHES_BRANCHES, machine.one_thread)
                    if machine.one_thread:
                        self.assertIn("jump-label", names)

    def test_names(self) -> None:
        names = [step.name for step in check.STEPS]
        self.assertEqual(len(names), len(set(names)))
        for number, step in enumerate(check.STEPS):
            self.assertLessEqual(set(step.needs), set(names[:number]), f"{step.name} needs a later step")


if __name__ == "__main__":
    unittest.main()
