# SPDX-License-Identifier: GPL-2.0-only
"""Measuring on this machine: preconditions and topology from a made-up /sys, and the runner with real processes."""

import contextlib
import io
import tempfile
import time
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import context  # noqa: F401
import fake
import host
import run
import suite
from common import Fail

HINT = suite.load_suite("hint")


class Machine:
    """A made-up machine: 2 nodes x 2 LLCs x 2 cores x 2 threads, threads of a core being CPU n and n + 8."""

    def __init__(self, root: Path):
        self.root = root
        self.write("sys/devices/system/cpu/online", "0-15")
        self.write("sys/devices/system/cpu/smt/control", "on")
        self.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1")
        for cpu in range(16):
            base, core = f"sys/devices/system/cpu/cpu{cpu}", cpu % 8
            llc = core // 2 * 2
            self.write(f"{base}/topology/thread_siblings_list", f"{core},{core + 8}")
            for index, (level, kind, shared) in enumerate((
                    (1, "Data", f"{core},{core + 8}"), (1, "Instruction", f"{core},{core + 8}"),
                    (2, "Unified", f"{core},{core + 8}"), (3, "Unified", f"{llc}-{llc + 1},{llc + 8}-{llc + 9}"))):
                for name, value in (("level", level), ("type", kind), ("shared_cpu_list", shared)):
                    self.write(f"{base}/cache/index{index}/{name}", str(value))
            self.write(f"{base}/cpufreq/scaling_governor", "performance")
        self.write("sys/devices/system/node/node0/cpulist", "0-3,8-11")
        self.write("sys/devices/system/node/node1/cpulist", "4-7,12-15")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io")
        self.write("sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu")
        self.write("sys/fs/cgroup/system.slice/cpu.hint", "inherit")
        self.write("dev/nullb0", "")
        self.write("proc/loadavg", "0.12 0.40 1.20 1/300 999")
        self.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\n")
        self.write("proc/cmdline", "root=UUID=secret mitigations=off quiet cgroup_steer=1")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n", encoding="utf-8")


class MadeUp(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.machine = Machine(self.root)

    def unmet(self, uid: int = 0, name: str = "hint") -> dict[str, str]:
        return {c.name: c.remedy for c in host.preconditions(suite.load_suite(name), self.root, uid) if not c.met}


class Topology(MadeUp):
    def test_layout(self) -> None:
        layout = host.layout(self.root)
        self.assertEqual([suite.cpu_list(cpus) for cpus in layout.llcs],
                         ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"])
        self.assertEqual([suite.cpu_list(cpus) for cpus in layout.nodes], ["0-3,8-11", "4-7,12-15"])
        self.assertEqual(len(layout.cores), 8)
        self.assertTrue(layout.split)
        self.assertEqual({name: suite.cpu_list(cpus) for name, cpus in layout.pinnings().items()}, {
            "llc": "0-1,8-9", "node": "0-3,8-11", "cores": "0-7", "apart": "0,2,4,6,8,10,12,14"})

    def test_offline_cpus(self) -> None:
        self.machine.write("sys/devices/system/cpu/online", "0-7")
        layout = host.layout(self.root)
        self.assertEqual(suite.cpu_list(layout.cpus), "0-7")
        self.assertEqual([suite.cpu_list(cpus) for cpus in layout.llcs], ["0-1", "2-3", "4-5", "6-7"])

    def test_record(self) -> None:
        record = host.record(self.root)
        self.assertEqual((record["cpu"], record["smt"], record["turbo"], record["cmdline"]),
                         ("Some CPU", "on", "off", "mitigations=off cgroup_steer=1"))

    def test_this_machine(self) -> None:
        self.assertTrue(host.layout().cpus)
        self.assertTrue(host.record())


class Preconditions(MadeUp):
    def test_all_met(self) -> None:
        self.assertEqual(self.unmet(), {})
        self.assertEqual(host.demand(host.preconditions(HINT, self.root, 0), force=False), [])

    def test_each(self) -> None:
        self.assertEqual(list(self.unmet(uid=1000)), ["root"])
        self.machine.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave")
        self.machine.write("proc/loadavg", "0.61 0.40 1.20 1/300 999")
        self.machine.write("sys/fs/cgroup/cgroup.subtree_control", "cpu memory")
        (self.root / "sys/fs/cgroup/bench").mkdir()
        (self.root / "sys/fs/cgroup/system.slice/cpu.hint").unlink()
        unmet = self.unmet()
        self.assertEqual(list(unmet), ["controllers", "cpu.hint", "cpufreq governor", "other load", "cgroup 'bench'"])
        self.assertIn("echo '+cpuset' > /sys/fs/cgroup/cgroup.subtree_control", unmet["controllers"])
        self.assertIn("until the first number of /proc/loadavg is 0.5 or less", unmet["other load"])
        self.assertIn("boot a kernel of 'make deb'", unmet["cpu.hint"])

    def test_no_cgroup2(self) -> None:
        (self.root / "sys/fs/cgroup/cgroup.controllers").unlink()
        self.assertIn("mount -t cgroup2", self.unmet()["cgroup v2"])

    def test_machine_without_cpufreq(self) -> None:
        for path in (self.root / "sys/devices/system/cpu").glob("cpu*/cpufreq/scaling_governor"):
            path.unlink()
        self.assertEqual(self.unmet(), {})
        self.assertEqual(host.record(self.root)["governor"], "no cpufreq")

    def test_one_last_level_cache(self) -> None:
        """Where to run is no question there for hints; how much to leave idle, and when to run, are."""
        for cpu in range(16):
            self.machine.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list", "0-15")
        self.assertEqual(list(self.unmet()), ["last-level caches"])
        self.assertIn("suite hint compares where among 2 or more", self.unmet()["last-level caches"])
        for name in ("headroom", "gang"):
            self.assertEqual(self.unmet(name=name), {}, name)
        found = host.preconditions(HINT, self.root, 0)
        self.assertRaisesRegex(Fail, r"FORCE=1 .*\n  last-level caches: 1\n    suite hint", host.demand, found, False)
        self.assertEqual(host.demand(found, True), ["last-level caches: 1"])

    def test_the_run_asks_for_its_own_suite(self) -> None:
        asked = []

        def preconditions(of: suite.Suite, benches: Sequence[str]) -> list[host.Precondition]:
            asked.append((of.name, benches))
            return [host.Precondition("made up", False, "not so", "nothing")]
        with mock.patch.object(host, "preconditions", preconditions), mock.patch.dict("os.environ", FORCE=""):
            for name in ("hint", "gang"):
                self.assertRaisesRegex(Fail, "made up: not so", run.main, ["--suite", name, "--where", "host"])
            self.assertRaises(Fail, run.main, ["--suite", "headroom", "--where", "host", "--benches", "fio"])
        self.assertEqual(asked, [("hint", ()), ("gang", ()), ("headroom", ("fio",))])

    def test_threads(self) -> None:
        self.machine.write("sys/devices/system/cpu/online", "0-7")
        self.assertEqual(self.unmet(), {})  # such machines there are
        self.machine.write("sys/devices/system/cpu/smt/control", "off")
        self.assertIn("echo on > /sys/devices/system/cpu/smt/control", self.unmet()["SMT"])
        self.machine.write("sys/devices/system/cpu/smt/control", "on")
        self.machine.write("sys/devices/system/cpu/online", "0-11")
        found = [c.found for c in host.preconditions(HINT, self.root, 0) if not c.met]
        self.assertEqual(found, ["on, 1 and 2 online threads a core"])

    def test_null_device(self) -> None:
        """fio needs it, and no other benchmark does."""
        suites = suite.load_suite("headroom")
        (self.root / "dev/nullb0").unlink()
        for benches, unmet in (([], ["null device"]), (["requests", "fio"], ["null device"]), (["requests"], [])):
            self.assertEqual([c.name for c in host.preconditions(suites, self.root, 0, benches) if not c.met], unmet)
        self.assertEqual(self.unmet(), {})

    def test_shown_for_a_suite(self) -> None:
        for name, status in (("hint", 1), ("gang", 0)):
            with mock.patch.object(host, "layout", return_value=suite.Layout.regular("host", 1, 1, 2, 1)), \
                    mock.patch.object(host, "cgroups", return_value=[]), \
                    mock.patch.object(host, "governors", return_value=host.Precondition("governor", True, "x", "")), \
                    mock.patch.object(host, "quiet", return_value=host.Precondition("quiet", True, "x", "")), \
                    mock.patch.object(host, "threads", return_value=host.Precondition("SMT", True, "x", "")), \
                    mock.patch("os.geteuid", return_value=0), mock.patch("sys.argv", ["host.py", "--suite", name]), \
                    contextlib.redirect_stdout(io.StringIO()) as output:
                self.assertEqual(host.main(), status, name)
            self.assertEqual("NO  last-level caches: 1" in output.getvalue(), bool(status))

    def test_demand_and_force(self) -> None:
        self.machine.write("proc/loadavg", "3.00 0.40 1.20 1/300 999")
        found = host.preconditions(HINT, self.root, 0)
        self.assertRaisesRegex(Fail, r"FORCE=1 .*\n  other load: load average 3.00\n    stop what else runs",
                               host.demand, found, False)
        self.assertEqual(host.demand(found, True), ["other load: load average 3.00"])


class Runner(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.runner = host.HostRunner(self.directory)

    def test_lines_as_they_come(self) -> None:
        arrived: list[tuple[str, float]] = []
        result = self.runner("host", "echo one\nsleep 0.3\necho two >&2\nexit 3\n", ["sh"],
                             on_line=lambda line: arrived.append((line, time.monotonic())))
        self.assertEqual((result.output, result.status), ("one\ntwo\n", 3))
        self.assertEqual([line for line, _ in arrived], ["one\n", "two\n"])
        self.assertGreater(arrived[1][1] - arrived[0][1], 0.2)
        self.assertIn("llcs", result.environment)

    def test_programs_of_postgresql(self) -> None:
        """Debian's are in a directory of each version; the newest one's are found."""
        for version in ("15", "17"):
            (self.directory / f"usr/lib/postgresql/{version}/bin").mkdir(parents=True)
        with mock.patch.object(host, "record", lambda _: {}):
            found = host.HostRunner(Path("/own"), self.directory).path.split(":")
        self.assertEqual(found[:2], ["/own", str(self.directory / "usr/lib/postgresql/17/bin")])
        self.assertNotIn(str(self.directory / "usr/lib/postgresql/15/bin"), found)

    def test_time_limit_ends_everything(self) -> None:
        began = time.monotonic()
        result = self.runner("host", "echo one; sleep 20 & sleep 20; echo two\n", ["sh"], timeout=1)
        self.assertEqual((result.output, result.status), ("one\n", 124))
        self.assertLess(time.monotonic() - began, 5)

    def switched(self, before: str, end: str, **more: Any) -> str:
        """What becomes of a switch that a script with this end has written, if it was so before."""
        path = self.directory / "switch"
        path.write_text(f"{before}\n", encoding="utf-8")
        script = f'switch_off() {{ echo "$2" > "$1"; }}\nswitch_off {path} 3000000\ncat {path}\necho 24 > {path}\n{end}'
        try:
            result = self.runner("host", script, ["sh"], **more)
            self.assertEqual(result.output.splitlines()[0], "3000000")
        finally:
            found = path.read_text(encoding="utf-8").strip()
        return found

    def test_switches_of_a_script_that_is_killed(self) -> None:
        """What it was before counts: that need not be what the script takes for off."""
        self.assertEqual(self.switched("2250000", "sleep 20\n", timeout=1), "2250000")
        self.assertEqual(self.switched("2250000", "kill -9 $$\n"), "2250000")

    def test_switches_of_a_script_that_ends(self) -> None:
        for end in ("exit 1", f"switch_off {self.directory}/switch 3000000"):
            self.assertEqual(self.switched("2250000", f"{end}\n"), "2250000")

    def test_switches_after_control_c(self) -> None:
        """With a script as it is written for a machine; it was in the middle of a case with the switch on."""
        path = self.directory / "switch"
        of = fake.with_switch(path, f"cat {path}; exec sleep 0.5")
        case = suite.Case(0, "hackbench", "zen", "seed1", 1, 0)
        cgroups = fake.Cgroups(self.directory)
        text = suite.script(of, suite.Chunk(suite.LAYOUTS["zen"], (case,), 1.0), suite.HOST, "0123")
        lines: list[str] = []

        def interrupt(line: str) -> None:
            lines.append(line.strip())
            if lines[-2:] == ["@bench 0123 begin 0", "1"]:
                raise KeyboardInterrupt
        for before in ("0", "N", "7"):
            path.write_text(f"{before}\n", encoding="utf-8")
            lines.clear()
            with self.assertRaises(KeyboardInterrupt):
                self.runner("host", cgroups.functions + cgroups.adapt(text), ["sh"], on_line=interrupt)
            self.assertEqual(path.read_text(encoding="utf-8"), f"{before}\n", lines)

    def test_switch_that_could_not_be_read_before(self) -> None:
        """As before debugfs is mounted: it is off then."""
        path = self.directory / "later"
        self.runner("host", f"switch_off() {{ :; }}\nswitch_off {path} 0\necho 1 > {path}\n", ["sh"])
        self.assertEqual(path.read_text(encoding="utf-8"), "0\n")

    def test_switch_that_is_not_there(self) -> None:
        path = self.directory / "never"
        self.assertEqual(self.runner("host", f"switch_off() {{ :; }}\nswitch_off {path} 0\n", ["sh"]).status, 0)
        self.assertFalse(path.exists())

    def test_switch_that_cannot_be_put_back(self) -> None:
        """It is said, and the result is there."""
        path = self.directory / "switch"
        path.write_text("0\n", encoding="utf-8")
        with mock.patch.object(Path, "write_text", side_effect=OSError("not permitted")), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            path.write_bytes(b"1\n")
            host.put_back({path: "0"})
        self.assertEqual(said.getvalue(), f"  {path} was 0, and is left at 1: not permitted\n")

    def test_own_programs_first(self) -> None:
        (self.directory / "schbench").write_text("#!/bin/sh\necho mine\n", encoding="utf-8")
        (self.directory / "schbench").chmod(0o755)
        self.assertEqual(self.runner("host", "schbench\n", ["schbench"]).output, "mine\n")

    def test_missing_program(self) -> None:
        self.assertRaisesRegex(Fail, "not installed here: no-such-program; .*setup bench-host",
                               self.runner, "host", "true", ["no-such-program"])

    def test_it_boots_nothing(self) -> None:
        self.assertRaisesRegex(Fail, "boots none", self.runner, "host", "true", [], kernel=Path("/vmlinuz"))


if __name__ == "__main__":
    unittest.main()
