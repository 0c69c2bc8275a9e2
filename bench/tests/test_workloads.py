# SPDX-License-Identifier: GPL-2.0-only
"""The benchmarks, built for and run on this machine. Nothing here judges a time that they measure."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"
FLAGS = ["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
# Ends a hang.
PATIENCE = 15
MATRIX_FREE = ["-n", "0"]

# Records what it reads in two halves, as two workers would, and prints the merged percentiles.
HISTOGRAM = """
#define main schbench_main
#include "schbench.c"
#undef main

static struct histogram half[2], whole;

int main(void)
{
	unsigned long long value;

	for (int i = 0; scanf("%llu", &value) == 1; i++)
		record(&half[i & 1], value);
	merge(&whole, &half[0]);
	merge(&whole, &half[1]);
	for (int i = 1; i <= 1000; i++)
		printf("%llu ", (unsigned long long)percentile(&whole, i));
	printf("%llu %llu %llu\\n", (unsigned long long)whole.min, (unsigned long long)whole.max,
	       (unsigned long long)whole.samples);
	return 0;
}
"""

WHOLE = "give a whole number from"
# Arguments, and what the message has to say about them
BAD_SCHBENCH = [
    (["-m", "0"], f"-m, --message-threads: '0' is not accepted; {WHOLE} 1 to 64"),
    (["--message-threads=65"], f"-m, --message-threads: '65' is not accepted; {WHOLE} 1 to 64"),
    (["-t", "x"], f"-t, --threads: 'x' is not accepted; {WHOLE} 1 to 1024"),
    (["-t", "1025"], f"-t, --threads: '1025' is not accepted; {WHOLE} 1 to 1024"),
    (["--worker-threads", "-1"], f"--worker-threads: '-1' is not accepted; {WHOLE} 1 to 1024"),
    (["-F", "0"], "-F, --cache_footprint: '0' is not accepted; give a whole number of KB from 1 to 65536"),
    (["-n", "1.5"], f"-n, --operations: '1.5' is not accepted; {WHOLE} 0 to 1000000"),
    (["-n", "0x10"], f"-n, --operations: '0x10' is not accepted; {WHOLE} 0 to 1000000"),
    (["-c", "99999999999999999999999"], f"-c, --cputime: '99999999999999999999999' is not accepted; {WHOLE} 0 to"),
    (["-s", ""], "-s, --sleep_usec: '' is not accepted; give a whole number of microseconds from 0 to 1000000"),
    (["-s", "1000001"], "-s, --sleep_usec: '1000001' is not accepted;"),
    (["-r", "0"], "-r, --runtime: '0' is not accepted; give a decimal number of seconds from 0.001 to 86400"),
    (["-r", "1e3"], "-r, --runtime: '1e3' is not accepted;"),
    (["-r", "nan"], "-r, --runtime: 'nan' is not accepted;"),
    (["-r", "."], "-r, --runtime: '.' is not accepted;"),
    (["-r", " 1"], "-r, --runtime: ' 1' is not accepted;"),
    (["-w", "0.1s"], "-w, --warmuptime: '0.1s' is not accepted; give a decimal number of seconds from 0 to 86400"),
    (["-w", "-0.1"], "-w, --warmuptime: '-0.1' is not accepted;"),
    (["--requests", "0"], f"--requests: '0' is not accepted; {WHOLE} 1 to 1000000000000"),
    (["--requests", "5", "-r", "1"], "--runtime and --requests both say when to end; give one of them"),
    (["-r"], "-r, --runtime: the value is missing; give a decimal number of seconds from 0.001 to 86400"),
    (["--requests"], "--requests: the value is missing; give a whole number from"),
    (["--json=1"], "'--json=1': this option takes no value"),
    (["-x"], "unknown option '-x'; --help lists all"),
    (["--nonsense"], "unknown or ambiguous option '--nonsense'; --help lists all"),
    (["--r", "1"], "unknown or ambiguous option '--r'; --help lists all"),
    (["5"], "unexpected argument '5'; --help lists the options"),
]
BAD_STREAM = [
    (["-t", "0"], f"-t, --threads: '0' is not accepted; {WHOLE} 1 to 1024"),
    (["-n", "0"], "-n, --array-size: '0' is not accepted; give a whole number of elements from 1 to 100000000000"),
    (["-n", "1e6"], "-n, --array-size: '1e6' is not accepted;"),
    (["-k", "1"], f"-k, --ntimes: '1' is not accepted; {WHOLE} 2 to 1000"),
    (["-n", "3", "-t", "4"], "--array-size: 3 is not accepted with 4 threads; give one element for each at least"),
    (["-k"], "-k, --ntimes: the value is missing;"),
    (["-z"], "unknown option '-z'; --help lists all"),
    (["--nonsense"], "unknown or ambiguous option '--nonsense'; --help lists all"),
    (["10"], "unexpected argument '10'; --help lists the options"),
]


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))


def use_one_cpu() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Workload(unittest.TestCase):
    directory: tempfile.TemporaryDirectory[str]
    name: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.program = cls.build(cls.name, str(WORKLOADS / f"{cls.name}.c"))

    @classmethod
    def build(cls, name: str, *arguments: str, compiler: str = "gcc") -> str:
        """Compile into the test's directory; a warning is an error. Returns the program."""
        output = str(Path(cls.directory.name) / name)
        result = subprocess.run([compiler, *FLAGS, f"-I{WORKLOADS}", "-o", output, *arguments], capture_output=True,
                                text=True, check=False)
        if result.returncode:
            raise AssertionError(result.stderr)
        return output

    def run_program(self, *arguments: str, status: int = 0, program: str | None = None,
                    before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
        result = subprocess.run([program or self.program, *arguments], capture_output=True, text=True, check=False,
                                timeout=PATIENCE, preexec_fn=before)
        self.assertEqual(result.returncode, status, f"{arguments}: {result.stderr}")
        return result

    def run_json(self, *arguments: str, before: Callable[[], None] | None = None) -> dict:
        result = self.run_program("--json", *arguments, before=before)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.stdout.count("\n"), 1, "one line")
        return json.loads(result.stdout, parse_constant=lambda name: self.fail(f"{name} is no JSON"))

    def check_refused(self, cases: list[tuple[list[str], str]]) -> None:
        for arguments, message in cases:
            with self.subTest(arguments):
                result = self.run_program(*arguments, status=2)
                self.assertEqual(result.stdout, "")
                self.assertEqual(result.stderr.count("\n"), 1, "one line")
                self.assertTrue(result.stderr.startswith(f"{self.name}: {message}"), result.stderr)

    def check_help(self, *options: str) -> None:
        text = self.run_program("--help").stdout
        for option in options:
            self.assertIn(option, text)

    def check_unwritable(self, *arguments: str) -> None:
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([self.program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                    check=False, timeout=PATIENCE)
        self.assertEqual(result.returncode, 1)
        self.assertIn("writing the result: No space left on device", result.stderr)

    def check_cross_build(self) -> None:
        if not shutil.which("aarch64-linux-gnu-gcc"):
            self.skipTest("no compiler for arm64")
        self.build("arm64", str(WORKLOADS / f"{self.name}.c"), compiler="aarch64-linux-gnu-gcc")


class Schbench(Workload):
    name = "schbench"

    def check_result(self, result: dict) -> None:
        for key in ("wakeup_us", "request_us"):
            values = result[key]
            self.assertEqual(list(values), ["p50", "p90", "p99", "p999", "min", "max", "samples"])
            if not values["samples"]:
                self.assertEqual(set(values.values()), {None, 0})
                continue
            order = [values[name] for name in ("min", "p50", "p90", "p99", "p999", "max")]
            self.assertEqual(order, sorted(order), key)
            self.assertGreaterEqual(values["min"], 0)
        self.assertEqual(result["request_us"]["samples"], result["requests"])
        self.assertLessEqual(result["awake"], result["wakeup_us"]["samples"])
        self.assertGreater(result["runtime_s"], 0)
        self.assertTrue(math.isclose(result["rps"], result["requests"] / result["runtime_s"], rel_tol=1e-3,
                                     abs_tol=1e-3))

    def run_checked(self, *arguments: str, before: Callable[[], None] | None = None) -> dict:
        result = self.run_json(*arguments, before=before)
        self.check_result(result)
        return result

    def test_json(self) -> None:
        result = self.run_checked("-m", "2", "-t", "3", "-F", "16", "-n", "2", "-c", "4", "-s", "10", "-r", "0.1",
                                  "-w", "0.02")
        self.assertEqual(result["benchmark"], "schbench")
        self.assertEqual(result["parameters"], {
            "message_threads": 2, "worker_threads": 3, "cache_footprint": 16, "operations": 2, "cputime": 4,
            "sleep_usec": 10, "warmuptime": 0.02, "runtime": 0.1, "requests": None})
        self.assertGreaterEqual(result["runtime_s"], 0.1)

    def test_text(self) -> None:
        text = self.run_program("-F", "4", "-n", "1", "--requests", "20").stdout
        self.assertIn("schbench: messengers 1, workers of each 4\n", text)
        self.assertIn("request: sleep 0 us, operations 1 on 4 KB, units of CPU time 0\n", text)
        self.assertRegex(text, r"\nlatency, us +p50 +p90 +p99 +p99\.9 +min +max +samples\n")
        for row in ("wakeup", "request"):
            self.assertRegex(text, rf"\n{row}( +\d+\.\d){{6}} +\d+\n")
        self.assertRegex(text, r"\n20 requests in \d+\.\d+ s: average rps \d+\.\d\n")

    def test_defaults_and_aliases(self) -> None:
        parameters = self.run_checked("-r", "0.02", "--worker-threads", "2")["parameters"]
        self.assertEqual(parameters, {
            "message_threads": 1, "worker_threads": 2, "cache_footprint": 256, "operations": 5, "cputime": 0,
            "sleep_usec": 0, "warmuptime": 0, "runtime": 0.02, "requests": None})

    def test_exactly_that_many_requests(self) -> None:
        for threads, requests, warmup in (("1", 1, "0"), ("4", 1000, "0"), ("64", 3, "0"), ("4", 777, "0.02")):
            with self.subTest(threads=threads, requests=requests, warmup=warmup):
                result = self.run_checked("-t", threads, "--requests", str(requests), "-w", warmup, "-F", "2")
                self.assertEqual(result["requests"], requests)
                self.assertEqual(result["parameters"]["requests"], requests)
                self.assertIsNone(result["parameters"]["runtime"])
                # Without a warm-up each request follows a wakeup that counts.
                if warmup == "0":
                    self.assertGreaterEqual(result["wakeup_us"]["samples"], requests)

    def test_sleep_is_part_of_a_request(self) -> None:
        result = self.run_checked(*MATRIX_FREE, "-s", "2000", "--requests", "8")
        self.assertGreaterEqual(result["request_us"]["min"], 2000)

    def test_nothing_to_report(self) -> None:
        """One request would take minutes; it is given up when the run is over."""
        arguments = [*MATRIX_FREE, "-c", "1000000000", "-r", "0.001"]
        result = self.run_checked(*arguments)
        self.assertEqual((result["requests"], result["rps"], result["request_us"]["p50"]), (0, 0, None))
        text = self.run_program(*arguments).stdout
        self.assertRegex(text, r"\nrequest( +-){6} +0\n")

    def test_many_workers(self) -> None:
        """More workers than CPUs end, with and without work, by time and by number, even on one CPU."""
        for arguments in (["-r", "0.1", "-F", "8"], ["-r", "0.05", *MATRIX_FREE], ["--requests", "5000", *MATRIX_FREE],
                          ["--requests", "2000", "-m", "4", *MATRIX_FREE], ["--requests", "1", *MATRIX_FREE],
                          ["-r", "0.02", "-s", "100", "-m", "2", *MATRIX_FREE]):
            for before in (None, use_one_cpu):
                with self.subTest(arguments, one_cpu=bool(before)):
                    self.run_checked("-t", "128", *arguments, before=before)

    def test_long_requests_are_given_up(self) -> None:
        self.assertEqual(self.run_checked("-r", "0.01", "-n", "1000000", "-F", "64")["requests"], 0)

    def test_no_wakeup_is_lost(self) -> None:
        for _ in range(5):
            self.assertEqual(self.run_checked("-t", "2", *MATRIX_FREE, "--requests", "10000")["requests"], 10000)

    def run_histogram(self, values: list[int]) -> list[int]:
        program = Path(self.directory.name) / "histogram"
        if not program.exists():
            program.with_suffix(".c").write_text(HISTOGRAM, encoding="ascii")
            self.build(program.name, str(program.with_suffix(".c")))
        result = subprocess.run([program], input=" ".join(map(str, values)), capture_output=True, text=True, check=True,
                                timeout=PATIENCE)
        return [int(word) for word in result.stdout.split()]

    def test_histogram(self) -> None:
        """Percentiles are within 1 % of those of the sorted values, exact at the ends."""
        for values in ([0], [255, 256, 257, 511, 512], list(range(3000)), [3 ** i for i in range(25)],
                       [7 * 1.013 ** i // 1 for i in range(1900)], [2 ** 39 - 1, 2 ** 39, 2 ** 40 - 1]):
            exact = sorted(int(value) for value in values)
            *found, least, greatest, samples = self.run_histogram(exact)
            self.assertEqual((least, greatest, samples), (exact[0], exact[-1], len(exact)))
            self.assertEqual(found, sorted(found))
            for permille, value in enumerate(found, 1):
                expected = exact[-(-len(exact) * permille // 1000) - 1]
                self.assertLessEqual(abs(value - expected), expected / 100, f"{permille} of {len(exact)}")

        *found, least, greatest, samples = self.run_histogram([5, 2 ** 40, 2 ** 63])
        self.assertEqual((least, greatest, samples, found), (5, 2 ** 63, 3, sorted(found)), "beyond its last bucket")

    def test_refused(self) -> None:
        self.check_refused(BAD_SCHBENCH)

    def test_limits_are_accepted(self) -> None:
        self.run_checked("-m", "1", "-t", "1", "-F", "1", "-n", "1", "-c", "1", "-s", "1", "-r", "0.001", "-w", "0.0")
        self.run_checked("-m", "64", "-t", "1", "--requests", "64", "-n", "0")

    def test_too_little_memory(self) -> None:
        for arguments, message in ((["-F", "65536", "-t", "1024"], "no memory for 1024 pieces"),
                                   (["-t", "512", *MATRIX_FREE], "starting a thread:")):
            result = self.run_program(*arguments, status=1, before=limit_memory)
            self.assertTrue(result.stderr.startswith(f"schbench: {message}"), result.stderr)

    def test_help(self) -> None:
        self.check_help("-m, --message-threads", "-t, --threads", "--worker-threads", "-F, --cache_footprint",
                        "-n, --operations", "-c, --cputime", "-s, --sleep_usec", "-r, --runtime", "-w, --warmuptime",
                        "--requests", "--json", "from 1 to 1024 (default 4)", "from 0.001 to 86400 (default 1)")

    def test_unwritable(self) -> None:
        self.check_unwritable("--requests", "1")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Stream(Workload):
    name = "stream"

    def test_json(self) -> None:
        result = self.run_json("-t", "3", "-n", "100001", "-k", "4")
        self.assertEqual(result["benchmark"], "stream")
        self.assertEqual(result["parameters"], {"threads": 3, "array_size": 100001, "ntimes": 4})
        self.assertIs(result["valid"], True)
        self.assertEqual(list(result["functions"]), ["copy", "scale", "add", "triad"])
        for name, values in result["functions"].items():
            self.assertEqual(values["bytes"], 8 * 100001 * (2 if name in ("copy", "scale") else 3))
            self.assertTrue(math.isclose(values["best_mb_s"], values["bytes"] / values["min_s"] / 1e6, rel_tol=1e-4))
            self.assertLessEqual(values["min_s"], values["avg_s"])
            self.assertLessEqual(values["avg_s"], values["max_s"])
            self.assertGreater(values["min_s"], 0)

    def test_text(self) -> None:
        text = self.run_program("-t", "2", "-n", "10000").stdout
        self.assertIn("\nFunction    Best Rate MB/s  Avg time     Min time     Max time\n", text)
        rows = re.findall(r"^(\w+): +\d+\.\d( +\d+\.\d{6}){3}$", text, re.MULTILINE)
        self.assertEqual([row[0] for row in rows], ["Copy", "Scale", "Add", "Triad"])
        self.assertIn("All elements have the value that they should have.\n", text)

    def test_defaults(self) -> None:
        parameters = self.run_json("-n", "5000")["parameters"]
        self.assertEqual(parameters, {"threads": len(os.sched_getaffinity(0)), "array_size": 5000, "ntimes": 10})

    def test_sizes(self) -> None:
        """Parts of unequal size, of one element each, many repetitions, more threads than CPUs."""
        for arguments in (["-n", "1", "-t", "1", "-k", "2"], ["-n", "7", "-t", "7"], ["-n", "1000003", "-t", "7"],
                          ["-n", "10", "-t", "2", "-k", "1000"], ["-n", "1000", "-t", "128", "-k", "2"]):
            with self.subTest(arguments):
                self.assertIs(self.run_json(*arguments)["valid"], True)

    def test_wrong_results_are_seen(self) -> None:
        """One wrong element of each thread, in each array, at both ends."""
        for array, index, first in (("a", "0", 0), ("b", "part.n - 1", 332), ("c", "part.n / 2", 166)):
            program = self.build("spoilt", f"-DSPOIL=part.{array}[{index}]", str(WORKLOADS / "stream.c"))
            result = self.run_program("--json", "-n", "1000", "-t", "3", program=program, status=1)
            self.assertIn(f"stream: wrong result in 3 elements; the first is {array}[{first}]: ", result.stderr)
            self.assertIs(json.loads(result.stdout)["valid"], False)
            result = self.run_program("-n", "1000", "-t", "1", program=program, status=1)
            self.assertIn("wrong result in 1 elements;", result.stderr)
            self.assertNotIn("All elements", result.stdout)

    def test_lost_kernels_are_seen(self) -> None:
        """It does not go unnoticed if one kernel is left out once."""
        text = (WORKLOADS / "stream.c").read_text(encoding="utf-8")
        for kernel in ("copy", "scale", "add", "triad"):
            source = Path(self.directory.name) / "lost.c"
            call = "kernels[kernel].run(&part);"
            self.assertEqual(text.count(call), 1)
            source.write_text(text.replace(call, f"if (time != 3 || kernels[kernel].run != {kernel}) {call}"),
                              encoding="utf-8")
            program = self.build("lost", str(source))
            result = self.run_program("-n", "1000", "-t", "2", "-k", "4", program=program, status=1)
            self.assertIn("wrong result in", result.stderr)

    def test_refused(self) -> None:
        self.check_refused(BAD_STREAM)

    def test_too_little_memory(self) -> None:
        result = self.run_program("-n", "100000000", status=1, before=limit_memory)
        self.assertIn("stream: no memory for 100000000 elements of 8 bytes: ", result.stderr)
        result = self.run_program("-n", "1000", "-t", "512", status=1, before=limit_memory)
        self.assertIn("stream: starting a thread: ", result.stderr)

    def test_help(self) -> None:
        self.check_help("-t, --threads", "-n, --array-size", "-k, --ntimes", "--touch-first", "--json",
                        "(default 10000000)")

    def test_touch_first(self) -> None:
        """The first thread has all the page faults: the others get none of the arrays."""
        self.assertIs(self.run_json("-n", "100001", "-t", "3", "-k", "3", "--touch-first")["valid"], True)

    def test_unwritable(self) -> None:
        self.check_unwritable("-n", "100", "-t", "1")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Cached(Workload):
    name = "cached"

    def test_json(self) -> None:
        result = self.run_json("-t", "3", "-k", "64", "-n", "5")
        self.assertEqual((result["benchmark"], result["valid"]), ("cached", True))
        self.assertEqual(result["parameters"], {"threads": 3, "footprint": 64, "passes": 5})
        self.assertGreater(result["slowest_m_s"], 0)
        self.assertLessEqual(result["slowest_m_s"], result["hmean_m_s"])
        self.assertGreaterEqual(result["all_m_s"] * 1.001, 3 * result["hmean_m_s"])

    def test_text(self) -> None:
        text = self.run_program("-t", "2", "-k", "8", "-n", "2").stdout
        self.assertRegex(text, r"^cached: 2 threads, 8 KiB each, 2 walks\n10\^6 lines a second: [0-9.]+ all together, ")

    def test_lost_walks_are_seen(self) -> None:
        text = (WORKLOADS / "cached.c").read_text(encoding="utf-8")
        source = Path(self.directory.name) / "lost.c"
        self.assertEqual(text.count("walker->sum += walk"), 1)
        source.write_text(text.replace("walker->sum += walk", "if (pass) walker->sum += walk"), encoding="utf-8")
        result = self.run_program("-k", "8", "-t", "2", program=self.build("lost", str(source)), status=1)
        self.assertIn("cached: a thread read wrong values", result.stderr)

    def test_refused(self) -> None:
        self.check_refused([
            (["-t", "0"], f"-t, --threads: '0' is not accepted; {WHOLE} 1 to 1024"),
            (["-k", "0"], "-k, --footprint: '0' is not accepted; give a whole number of KiB from 1 to 1048576"),
            (["-n", "x"], f"-n, --passes: 'x' is not accepted; {WHOLE} 1 to 1000000")])

    def test_help(self) -> None:
        self.check_help("-t, --threads", "-k, --footprint", "-n, --passes", "--json")

    def test_unwritable(self) -> None:
        self.check_unwritable("-t", "1", "-k", "8", "-n", "1")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Pairs(Workload):
    name = "pairs"

    def test_json(self) -> None:
        result = self.run_json("-p", "3", "-k", "2", "-m", "101")
        self.assertEqual((result["benchmark"], result["valid"]), ("pairs", True))
        # A message has an answer.
        self.assertEqual(result["parameters"], {"pairs": 3, "shared": 2, "messages": 100})
        self.assertGreater(result["messages_s"], 0)

    def test_text(self) -> None:
        text = self.run_program("-p", "1", "-m", "10").stdout
        self.assertRegex(text, r"^pairs: 1 pairs, 16 KiB shared, 10 messages each\n[0-9]+ messages a second\n$")

    def test_lost_changes_are_seen(self) -> None:
        text = (WORKLOADS / "pairs.c").read_text(encoding="utf-8")
        source = Path(self.directory.name) / "lost.c"
        self.assertEqual(text.count("\t\tchange(pair);\n\t\tpass_on(pair->from[1]);"), 1)
        source.write_text(text.replace("\t\tchange(pair);\n\t\tpass_on(pair->from[1]);", "\t\tpass_on(pair->from[1]);"),
                          encoding="utf-8")
        result = self.run_program("-m", "10", program=self.build("lost", str(source)), status=1)
        self.assertIn("pairs: a buffer has wrong values", result.stderr)

    def test_refused(self) -> None:
        self.check_refused([
            (["-p", "513"], f"-p, --pairs: '513' is not accepted; {WHOLE} 1 to 512"),
            (["-k", "0"], "-k, --shared: '0' is not accepted; give a whole number of KiB from 1 to 65536"),
            (["-m", "1"], f"-m, --messages: '1' is not accepted; {WHOLE} 2 to 1000000000")])

    def test_help(self) -> None:
        self.check_help("-p, --pairs", "-k, --shared", "-m, --messages", "--json")

    def test_unwritable(self) -> None:
        self.check_unwritable("-p", "1", "-m", "4")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Serve(Workload):
    name = "serve"
    SMALL = ("--units", "1", "--lines", "4", "--footprint", "16", "--pairs", "2")

    def serve(self, *arguments: str, capacity: int = 2000) -> dict:
        return self.run_json("--capacity", str(capacity), *self.SMALL, *arguments)

    def test_json(self) -> None:
        result = self.serve("--load", "20:0.2,60:0.1", "--interval", "0.05", "--warmup", "0.05", "--seed", "7")
        self.assertEqual(result["benchmark"], "serve")
        self.assertEqual([(stage["percent"], stage["begin_s"], stage["end_s"]) for stage in result["stages"]],
                         [(20, 0, 0.2), (60, 0.2, 0.3)])
        self.assertEqual(len(result["p99_us"]), 6)
        self.assertEqual(result["parameters"], {
            "load": "20:0.2,60:0.1", "capacity": 2000, "pairs": 2, "units": 1, "footprint": 16, "lines": 4,
            "warmup": 0.05, "seed": 7})
        for values in (result["latency_us"], *(stage["latency_us"] for stage in result["stages"])):
            order = [values[name] for name in ("p50", "p90", "p99", "p999", "max")]
            self.assertEqual(order, sorted(order))
            self.assertGreater(values["p50"], 0)
            self.assertTrue(values["p50"] / 2 < values["mean"] < values["max"], values)

    def test_what_service_begins_says_of_it(self) -> None:
        """The figures that bench/service-begins.sh takes from a record are those of the record."""
        record = self.run_program("--capacity", "2000", *self.SMALL, "--load", "40:0.3", "--warmup", "0", "--json").stdout
        script = (WORKLOADS.parent / "service-begins.sh").read_text(encoding="utf-8")
        pipe = re.search(r"\|\s*(tr -d .*?\|\s*sed '.*?')", script, re.DOTALL)
        assert pipe, "the script has no tr and sed any more"
        said = subprocess.run(["sh", "-c", pipe[1]], input=record, capture_output=True, text=True, check=True).stdout
        values = json.loads(record)
        latency = values["latency_us"]
        numbers = [float(number) for number in re.findall(r"[0-9.]+", said.replace("p99 ", ""))]
        self.assertRegex(said, r"^mean [0-9.]+, p99 [0-9.]+; in time [0-9.,]+\n?$")
        self.assertEqual(numbers, [latency["mean"], latency["p99"], *values["p99_us"]])

    def test_arrivals_are_as_many_as_asked_for(self) -> None:
        """20 % of 20,000 for a second, each time the same; of 4000, the deviation is 63."""
        requests = [self.serve("--load", "20:1", "--units", "1", capacity=20000)["latency_us"]["requests"]
                    for _ in range(2)]
        self.assertEqual(requests[0], requests[1])
        self.assertLess(abs(requests[0] - 4000), 5 * 63)
        other = self.serve("--load", "20:1", "--seed", "2", capacity=20000)["latency_us"]["requests"]
        self.assertNotEqual(other, requests[0])

    def test_stages_have_their_own_rates(self) -> None:
        result = self.serve("--load", "10:0.5,90:0.5,0:0.1", capacity=8000)
        low, high, none = (stage["latency_us"]["requests"] for stage in result["stages"])
        self.assertLess(abs(low - 400), 5 * 20)
        self.assertLess(abs(high - 3600), 5 * 60)
        self.assertEqual(none, 0)

    def test_waiting_counts(self) -> None:
        """More than can be served: whoever comes later has waited longer, and all are told of."""
        result = self.run_json("--capacity", "100000", "--units", "400", "--lines", "0", "--pairs", "1", "--load",
                               "100:0.2", "--interval", "0.1")
        self.assertGreater(min(result["p99_us"]), 500_000)
        self.assertGreater(result["unfinished"], 0)
        self.assertGreater(result["latency_us"]["requests"], 15_000)

    def test_calibration(self) -> None:
        slow, fast = (int(self.run_program("--calibrate", "--units", units, "--lines", "0").stdout)
                      for units in ("400", "20"))
        self.assertGreater(fast, slow)
        self.assertGreater(slow, 0)

    def test_calibration_has_a_thread_on_each_cpu(self) -> None:
        """Two on one CPU would count as a smaller machine."""
        with subprocess.Popen([self.program, "--calibrate", "--units", "1000000", "--lines", "0"],
                              stdout=subprocess.DEVNULL) as process:
            try:
                wanted, places = sorted([cpu] for cpu in os.sched_getaffinity(0)), []
                for _ in range(100):
                    threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
                    places = sorted(sorted(os.sched_getaffinity(thread)) for thread in threads
                                    if thread != process.pid)
                    if places == wanted:
                        break
                    time.sleep(0.05)
                self.assertEqual(places, wanted)
            finally:
                process.kill()

    def test_text(self) -> None:
        text = self.run_program("--capacity", "2000", *self.SMALL, "--load", "20:0.1,0:0.1").stdout
        self.assertRegex(text, r"\n +20\.0 +\d+ +\d+\.\d +\d")
        self.assertRegex(text, r"\n +0\.0 +0 +0\.0 +- +- +-\n")

    def test_refused(self) -> None:
        stages = "give PERCENT:SECONDS[,PERCENT:SECONDS]..."
        self.check_refused([
            ([], "--capacity is missing; give what --calibrate prints"),
            (["--capacity", "5"], f"--load is missing; {stages}"),
            (["--capacity", "5", "--load", "20"], "--load: '20' is not PERCENT:SECONDS"),
            (["--capacity", "5", "--load", "x:1"], "--load: 'x:1' is not PERCENT:SECONDS"),
            (["--capacity", "5", "--load", "20:1;60:1"], "--load: '1;60:1' is no number of seconds"),
            (["--capacity", "5", "--load", "20:0"], "--load: '0' is no number of seconds"),
            (["--capacity", "5", "--load", ",".join(["1:1"] * 17)], "--load: more than 16 stages"),
            (["--capacity", "5", "--load", "20:1", "--warmup", "1"], "--warmup is not shorter than the first stage"),
            (["--capacity", "0"], "--capacity: '0' is not accepted; give requests a second from 1 to"),
            (["--load"], f"--load: the value is missing; {stages.removesuffix('...')}"),
        ])

    def test_help(self) -> None:
        self.check_help("--load", "PERCENT:SECONDS", "--calibrate", "--warmup", "--begin")

    def test_unwritable(self) -> None:
        self.check_unwritable("--calibrate", "--units", "1")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Sidejob(Workload):
    name = "sidejob"

    def test_kinds(self) -> None:
        for kind in ("compute", "build", "bursty"):
            with self.subTest(kind):
                result = self.run_json("--kind", kind, "--workers", "2", "--units", "40", "--memory", "64",
                                       "--runtime", "0.3", "--period", "20")
                self.assertEqual((result["kind"], result["workers"]), (kind, 2))
                self.assertGreater(result["units"], 0)
                self.assertGreaterEqual(result["seconds"], 0.3)

    def test_bursts(self) -> None:
        """In a tenth of the time, less CPU time is used than in all of it; on its own account, whatever else runs."""
        used = []
        for busy in ("10", "100"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run_json("--kind", "bursty", "--workers", "1", "--period", "100", "--busy", busy, "--runtime", "1")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime - before.ru_utime)
        self.assertLess(used[0], 0.25)
        self.assertGreater(used[1], used[0])

    def test_refused(self) -> None:
        self.check_refused([(["--kind", "x"], "--kind: 'x' is not compute, build or bursty"),
                            (["--busy", "0"], "--busy: '0' is not accepted; give a whole number of percent from 1")])

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Userloop(Workload):
    name = "userloop"

    def test_rule(self) -> None:
        """What the side job used and what was idle, less the headroom: by the last interval or the whole window,
        whichever is less; between the floor and all."""
        source = Path(self.directory.name) / "shares.c"
        source.write_text("""
#define main userloop_main
#include "userloop.c"
#undef main
/* Of 4 CPUs: the looks' times, side and idle, the oldest first */
int main(void)
{
	struct look looks[3];
	double values[9];

	params.floor = 5;
	while (scanf("%lf", &params.headroom) == 1) {
		for (int i = 0; i < 9; i++)
			if (scanf("%lf", &values[i]) != 1)
				return 1;
		for (int i = 0; i < 3; i++)
			looks[i] = (struct look){ values[3 * i], values[3 * i + 1], values[3 * i + 2] };
		printf("%.4f ", share(&looks[2], &looks[1], &looks[0], 4));
	}
	return 0;
}
""", encoding="utf-8")
        cases = {"20 0 0 0 5 6 10 10 12 20": 0.6,        # 30 % and 50 %, less 20
                 "0 0 0 0 5 6 10 10 12 20": 0.8,
                 "30 0 0 0 5 6 10 10 12 20": 0.5,
                 "20 0 0 0 5 6 10 10 16 20": 0.7,        # 50 % in the last interval, 40 in the window
                 "20 0 0 0 5 6 10 10 12 12": 0.2,        # 10 % idle in the last interval
                 "90 0 0 0 5 6 10 10 12 20": 0.05,
                 "0 0 0 0 5 16 10 10 32 20": 1.0}
        program = self.build("shares", str(source))
        found = subprocess.run([program], input="\n".join(cases), capture_output=True, text=True, check=True).stdout
        self.assertEqual([float(value) for value in found.split()], list(cases.values()))

    def test_idle_is_what_waits_for_io_too(self) -> None:
        """As observe and cpu.headroom.stat count it; else it would hold back more than it says beside a disk."""
        source = (WORKLOADS / "userloop.c").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            stat = Path(directory) / "stat"
            stat.write_text("cpu  1 2 3 400 50 6 0 0 0 0\n", encoding="utf-8")
            (Path(directory) / "cpu.stat").write_text("usage_usec 7000000\n", encoding="utf-8")
            looking = Path(directory) / "looking.c"
            looking.write_text(source.replace("/proc/stat", str(stat)).replace("int main(", "int userloop_main(") + f"""
int main(void)
{{
	struct look now;

	params.group = "{directory}";
	now = look();
	printf("%.2f %.2f", now.side, now.idle * sysconf(_SC_CLK_TCK));
	return 0;
}}
""", encoding="utf-8")
            program = self.build("looking", str(looking))
            self.assertEqual(self.run_program(program=program).stdout, "7.00 450.00")

    def test_limits(self) -> None:
        """It writes the least and the most, to a group of plain files, of this machine's idle time."""
        with tempfile.TemporaryDirectory() as directory:
            group = Path(directory)
            (group / "cpu.stat").write_text("usage_usec 1000\n", encoding="utf-8")
            (group / "cpu.max").touch()
            for headroom, floor, expected in (("100", "5", 5), ("0", "100", 100)):
                self.run_program("--group", directory, "--headroom", headroom, "--floor", floor, "--interval", "0.1",
                                 "--window", "0.1", "--period", "100000", "--runtime", "0.25")
                quota, period = map(int, (group / "cpu.max").read_text(encoding="utf-8").split())
                self.assertEqual(period, 100000)
                self.assertEqual(quota, expected * (os.cpu_count() or 1) * 1000)

    def test_refused(self) -> None:
        self.check_refused([([], "--group is missing; give the directory of a cgroup"),
                            (["--group", "/x", "--window", "1"], "--window is not 1 to 1023 intervals"),
                            (["--headroom", "101"], "--headroom: '101' is not accepted;")])

    def test_no_such_group(self) -> None:
        result = self.run_program("--group", "/nonexistent", status=1)
        self.assertIn("/nonexistent/cpu.stat: No such file", result.stderr)

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Spin(Workload):
    name = "spin"

    def test_kinds(self) -> None:
        for kind in ("lock", "pipeline", "vcpu"):
            for threads in ("2", "5"):
                with self.subTest(kind=kind, threads=threads):
                    result = self.run_json("--kind", kind, "-t", threads, "--units", "2", "--runtime", "0.2", "--name",
                                           "gang0")
                    self.assertEqual((result["kind"], result["threads"], result["name"]), (kind, int(threads), "gang0"))
                    self.assertTrue(math.isclose(result["rate"], result["operations"] / result["seconds"],
                                                 rel_tol=1e-3))

    def test_operations(self) -> None:
        """Two threads, which this machine can run, get something done."""
        for kind in ("lock", "pipeline", "vcpu"):
            self.assertGreater(self.run_json("--kind", kind, "-t", "2", "--runtime", "1")["operations"], 0, kind)

    def test_begin(self) -> None:
        """At the given moment; whoever is late fails, and measures nothing."""
        now = time.monotonic_ns() // 1_000_000
        self.run_json("--kind", "lock", "-t", "2", "--runtime", "0.1", "--begin", str(now + 1000))
        self.assertGreaterEqual(time.monotonic_ns() // 1_000_000, now + 1100)
        result = self.run_program("--kind", "lock", "--begin", str(now), status=1)
        self.assertIn("spin: too late to begin, by ", result.stderr)

    def test_sleeper(self) -> None:
        result = self.run_json("--kind", "sleeper", "--period", "1000", "--runtime", "0.3", "--units", "1")
        late = result["late_us"]
        self.assertEqual(late["samples"], result["operations"])
        self.assertLessEqual(late["samples"], 300)
        order = [late[key] for key in ("p50", "p99", "max")]
        self.assertEqual(order, sorted(order))

    def test_refused(self) -> None:
        self.check_refused([(["--kind", "x"], "--kind: 'x' is not lock, pipeline, vcpu or sleeper"),
                            (["--kind", "pipeline", "-t", "1"], "--threads: a pipeline has 2 stages at least")])

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Ompbarrier(Workload):
    name = "ompbarrier"

    @classmethod
    def build(cls, name: str, *arguments: str, compiler: str = "gcc") -> str:
        return super().build(name, "-fopenmp", *arguments, compiler=compiler)

    def test_json(self) -> None:
        for threads in (1, 2, 5):
            result = self.run_json("-t", str(threads), "--units", "3", "-r", "0.1", "--name", "gang3")
            self.assertEqual((result["threads"], result["name"]), (threads, "gang3"))
            self.assertGreater(result["operations"], 0)
            self.assertGreaterEqual(result["seconds"], 0.1)

    def test_pinned(self) -> None:
        self.assertGreater(self.run_json("--pin", "-r", "0.1")["operations"], 0)

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Observe(Workload):
    name = "observe"

    def groups(self) -> str:
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        for name, text in (("main", "usage_usec 1000\n"), ("side", "usage_usec 5\nheadroom_capped_usec 3000\n")):
            (Path(directory.name) / name).mkdir()
            (Path(directory.name) / name / "cpu.stat").write_text(text, encoding="utf-8")
        (Path(directory.name) / "side/cpu.headroom.stat").write_text(
            "demand 30.00\nidle 27.31\nbudget_usec 350000\nperiod_usec 100000\n", encoding="utf-8")
        return directory.name

    def test_json(self) -> None:
        result = json.loads(self.run_program("--parent", self.groups(), "--runtime", "0.3", "--interval", "0.1").stdout)
        self.assertEqual(len(result["at_s"]), 3)
        self.assertEqual(len(result["idle"]), 3)
        self.assertGreaterEqual(result["seconds"], 0.3)
        self.assertEqual(result["cpus"], len(os.sched_getaffinity(0)))
        side = result["groups"]["side"]
        self.assertEqual((side["budget_us"], side["demand"], side["idle"]), ([350000] * 3, [30] * 3, [27.31] * 3))
        self.assertEqual((side["cpu_s"], side["usage"]), (0, [0, 0, 0]))
        self.assertNotIn("budget_us", result["groups"]["main"])
        self.assertGreater(result["switches"], 0)

    def test_no_limit(self) -> None:
        parent = self.groups()
        (Path(parent) / "side/cpu.headroom.stat").write_text("demand 0.00\nbudget_usec max\n", encoding="utf-8")
        result = json.loads(self.run_program("--parent", parent, "--runtime", "0.1", "--interval", "0.1").stdout)
        self.assertEqual(result["groups"]["side"]["budget_us"], [None])

    def test_now(self) -> None:
        first, second = (int(self.run_program("--now").stdout) for _ in range(2))
        self.assertLessEqual(first, second)

    def test_trace(self) -> None:
        """Two gangs on two CPUs: one together for 3 ms, then each alone, then the other together for 2 ms."""
        trace = "\n".join([
            "# entries-in-buffer/entries-written: 6/6   #P:2",
            *(f"  x-1  [00{cpu}] d..2. {time:.6f}: sched_switch: prev_comm={before} prev_pid=1 prev_prio=120 "
              f"prev_state=R ==> next_comm={after} next_pid=2 next_prio=120"
              for time, cpu, before, after in (
                  (10.000, 0, "swapper/0", "gang0"), (10.000, 1, "swapper/1", "gang0"), (10.003, 1, "gang0", "gang1"),
                  (10.004, 0, "gang0", "gang1"), (10.006, 0, "gang1", "sh"), (10.007, 1, "gang1", "swapper/1"))), ""])
        source = Path(self.directory.name) / "traced.c"
        path = Path(self.directory.name) / "trace"
        path.write_text(trace, encoding="utf-8")
        source.write_text("""
#define main observe_main
#include "observe.c"
#undef main
int main(void)
{
	uint64_t any[MAX_GANGS] = { 0 }, all[MAX_GANGS] = { 0 };
	bool complete = read_trace();

	add_up(any, all, 2);
	printf("%d %zu %llu %llu %llu %llu\\n", complete, nr_events, (unsigned long long)any[0] / 1000,
	       (unsigned long long)all[0] / 1000, (unsigned long long)any[1] / 1000, (unsigned long long)all[1] / 1000);
	return 0;
}
""".replace("\\\\n", "\\n"), encoding="utf-8")
        program = self.build("traced", f'-DTRACING="{self.directory.name}/"', str(source))
        complete, count, *times = map(int, self.run_program(program=program).stdout.split())
        self.assertEqual((complete, count), (1, 6))
        for found, expected in zip(times, (4000, 3000, 4000, 2000)):
            self.assertLessEqual(abs(found - expected), 2)

        path.write_text(trace.replace("6/6", "6/9"), encoding="utf-8")
        self.assertEqual(self.run_program(program=program).stdout[0], "0", "what was overwritten is missed")

    def test_refused(self) -> None:
        self.check_refused([([], "--parent is missing; give the directory of a cgroup")])

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Join(Workload):
    name = "join"

    def test_group_and_command(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            procs = Path(directory) / "cgroup.procs"
            procs.touch()
            result = self.run_program(directory, "sh", "-c", "echo ran $1", "x", "it's")
            self.assertEqual((result.stdout, procs.read_text(encoding="utf-8")), ("ran it's\n", "0"))

    def test_errors(self) -> None:
        self.assertIn("cgroup.procs: No such file", self.run_program("/nonexistent", "true", status=1).stderr)
        for arguments in ([], ["/x"], ["/x", "--cookies", "true"]):
            self.assertIn("usage:", self.run_program(*arguments, status=2).stderr)
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "cgroup.procs").touch()
            result = self.run_program(directory, "/nonexistent", status=1)
            self.assertIn("/nonexistent: No such file", result.stderr)
            for slice_us in ("99", "100001", "x", "1ms"):
                result = self.run_program(directory, "--slice", slice_us, "true", status=2)
                self.assertIn(f"'{slice_us}' is not a number of microseconds from 100 to 100000", result.stderr)

    def test_slice(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "cgroup.procs").touch()
            show = "grep -o 'se.slice.*' /proc/self/sched || echo 'se.slice : 2000000'"
            self.assertRegex(self.run_program(directory, "--slice", "2000", "sh", "-c", show).stdout, r": +2000000$")

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Server(threading.Thread):
    """A memcached, redis or web server for tests: it stores, and answers with `answer` instead if that is given."""

    def __init__(self, kind: str, answer: bytes = b"", delay: float = 0.0):
        super().__init__(daemon=True)
        self.kind, self.answer, self.delay = kind, answer, delay
        self.values: dict[bytes, bytes] = {}
        self.counts = {"get": 0, "set": 0}
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = str(self.socket.getsockname()[1])
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                stream = connection.makefile("rwb")
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def close(self) -> None:
        """Ends accept(), too, which closing alone would not."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def serve(self, stream: Any) -> None:
        try:
            while words := self.request(stream):
                self.counts[words[0]] += 1
                if words[0] == "set":
                    self.values[words[1]] = words[2]
                elif self.delay:
                    time.sleep(self.delay)
                stream.write(self.answer if self.answer and words[0] == "get" else self.reply(words))
                stream.flush()
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                stream.close()

    def request(self, stream: Any) -> tuple[Any, ...] | None:
        words = stream.readline().split()
        if not words:
            return None
        if self.kind == "http":
            while stream.readline().strip():
                pass
            return "get", words[1]
        if self.kind == "redis":
            values = [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(words[0][1:]))]
            return (values[0].decode().lower(), *values[1:])
        if words[0] == b"set":
            return "set", words[1], stream.read(int(words[4]) + 2)[:-2]
        return "get", words[1]

    def reply(self, words: tuple[Any, ...]) -> bytes:
        if words[0] == "set":
            return b"+OK\r\n" if self.kind == "redis" else b"STORED\r\n"
        if self.kind == "http":
            size = int(words[1].lstrip(b"/"))
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
        value = self.values[words[1]]
        if self.kind == "redis":
            return b"$%d\r\n%s\r\n" % (len(value), value)
        return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], len(value), value)


class Ask(Workload):
    name = "ask"

    def server(self, kind: str, answer: bytes = b"", delay: float = 0.0) -> Server:
        server = Server(kind, answer, delay)
        self.addCleanup(server.close)
        return server

    def ask(self, server: Server, *arguments: str) -> dict:
        return self.run_json("--kind", server.kind, "--port", server.port, "--connections", "4", "--threads", "2",
                             "--keys", "20", *arguments)

    def test_each_protocol(self) -> None:
        for kind in ("memcached", "redis", "http"):
            with self.subTest(kind):
                server = self.server(kind)
                found = self.ask(server, "--rate", "500", "--warmup", "0.1", "--runtime", "0.4")
                self.assertEqual((found["benchmark"], found["kind"], found["unfinished"]), ("ask", kind, 0))
                self.assertTrue(120 < found["latency_us"]["samples"] < 280, found)
                self.assertEqual(found["latency_us"]["rps"], found["latency_us"]["samples"] / 0.4)
                # All keys first, and then some of the requests.
                self.assertEqual(server.counts["set"] > 20, kind != "http")

    def test_the_same_schedule(self) -> None:
        """The number of requests is the seed's and the rate's, however the server answers."""
        samples = [self.ask(self.server("redis", delay=delay), "--rate", "300", "--runtime", "0.3", "--seed", seed)[
            "latency_us"]["samples"] for seed, delay in (("1", 0.0), ("1", 0.01), ("2", 0.0))]
        self.assertEqual(samples[0], samples[1])
        self.assertNotEqual(samples[0], samples[2])

    def test_who_waits_counts(self) -> None:
        """Answers of 20 ms and four connections are 200 a second; of 400 asked, the rest waits, and is not left out."""
        found = self.ask(self.server("redis", delay=0.02), "--rate", "400", "--runtime", "0.5", "--sets", "0")
        self.assertGreater(found["latency_us"]["p99"], 100_000)

    def test_closed(self) -> None:
        """A connection asks when it has its answer: no more than 50 a second each of a server that takes 20 ms."""
        found = self.ask(self.server("redis", delay=0.02), "--runtime", "0.5", "--sets", "0")
        self.assertTrue(0 < found["latency_us"]["rps"] <= 4 * 50 + 8, found)
        self.assertGreaterEqual(found["latency_us"]["p50"], 20_000)

    def test_unanswered(self) -> None:
        found = self.ask(self.server("redis", delay=30), "--rate", "50", "--runtime", "0.2", "--sets", "0")
        self.assertEqual(found["unfinished"], found["latency_us"]["samples"])
        self.assertEqual(found["latency_us"]["rps"], 0)

    def test_wrong_answers(self) -> None:
        for kind, answer in (("memcached", b"ERROR\r\n"), ("redis", b"-ERR unknown command\r\n"),
                             ("redis", b"$-1\r\n"), ("http", b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx"),
                             ("redis", b"$64\r\n" + b"y" * 64 + b"\r\n")):
            with self.subTest(answer):
                server = self.server(kind, answer)
                result = self.run_program("--kind", kind, "--port", server.port, "--runtime", "0.2", "--keys", "2",
                                          "--sets", "0", status=1)
                self.assertIn(f"ask: not an answer of a {kind} server: '", result.stderr)

    def test_refused(self) -> None:
        self.check_refused([
            (["--kind", "smtp"], "--kind: 'smtp' is not accepted; give memcached, redis or http"),
            (["--kind", "redis"], "--port: it is missing; give a TCP port from 1 to 65535"),
            (["--kind", "redis", "--port", "1", "--connections", "2", "--threads", "3"],
             "--threads: 3 are more than 2 connections"),
            (["--rate", "0"], "--rate: '0' is not accepted; give requests a second from 1 to 1000000000")])

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Again(Workload):
    name = "again"

    def test_counts(self) -> None:
        loop = "i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done"
        found = self.run_json("-j", "2", "-r", "0.5", "--", "sh", "-c", loop)
        self.assertEqual((found["benchmark"], found["jobs"]), ("again", 2))
        self.assertGreater(found["runs"], 2)
        # Those that were not over have a part each.
        self.assertTrue(found["runs"] <= found["work"] <= found["runs"] + 2 * 5, found)
        self.assertTrue(math.isclose(found["work"], found["cpu_s"] / found["run_cpu_s"], rel_tol=1e-2))

    def test_ended(self) -> None:
        """SIGTERM ends it, and it tells what it did until then; nothing of it is left."""
        with subprocess.Popen([self.program, "--json", "-j", "1", "--", "sh", "-c", "exec sleep 0.0517"], text=True,
                              stdout=subprocess.PIPE) as process:
            time.sleep(0.5)
            process.terminate()
            found = json.loads(process.communicate(timeout=PATIENCE)[0])
        self.assertTrue(0.3 < found["seconds"] < PATIENCE and found["runs"] >= 1, found)

    def test_no_work(self) -> None:
        self.assertIn("again: false has failed: status 1", self.run_program("--", "false", status=1).stderr)
        self.assertIn("no run of sleep was over", self.run_program("-r", "0.1", "--", "sleep", "5", status=1).stderr)

    def test_grandchildren(self) -> None:
        """A compiler's driver waits for the compiler: what that has done when both are ended counts as well."""
        found = self.run_json("-j", "1", "-r", "0.5", "--each", "1", "--", "sh", "-c",
                              "sh -c 'while :; do :; done'; true")
        self.assertGreater(found["work"], 0.05)

    def test_none_over(self) -> None:
        """Work in parts of a run, if what one takes is known."""
        found = self.run_json("-j", "1", "-r", "0.3", "--each", "10", "--", "sh", "-c", "while :; do :; done")
        self.assertEqual((found["runs"], found["run_cpu_s"]), (0, 10))
        self.assertTrue(0 < found["work"] <= 0.04, found)
        self.assertTrue(math.isclose(found["work"], found["cpu_s"] / 10, abs_tol=1e-3))

    def test_refused(self) -> None:
        self.check_refused([([], "no command; give one behind --"),
                            (["-j", "0", "--", "true"], f"-j, --jobs: '0' is not accepted; {WHOLE} 1 to 1024")])

    def test_cross_build(self) -> None:
        self.check_cross_build()


class Barrier(Workload):
    name = "barrier"

    def test_json(self) -> None:
        result = self.run_json("-t", "2", "-w", "20", "-d", "0.05", "-u", "0.01")
        self.assertEqual(result["benchmark"], "barrier")
        self.assertEqual(result["parameters"], {"threads": 2, "work": 20, "duration": 0.05, "warmup": 0.01})
        self.assertGreater(result["barriers"], 0)
        self.assertGreaterEqual(result["runtime_s"], 0.05)
        self.assertTrue(math.isclose(result["barriers_per_s"], result["barriers"] / result["runtime_s"], rel_tol=1e-4,
                                     abs_tol=1e-3))
        self.assertGreater(result["cpu_s"], 0)

    def test_text(self) -> None:
        self.assertRegex(self.run_program("-t", "1", "-d", "0.02").stdout,
                         r"^\d+\.\d barriers/s: \d+ in \d+\.\d{3} s, with \d+\.\d{3} s of CPU time\n$")

    def test_one_thread_waits_for_nobody(self) -> None:
        """Its CPU time is all work; the measure of it, taken on a busy machine, may be wrong, but not tenfold."""
        result = self.run_json("-t", "1", "-w", "100", "-d", "0.1")
        self.assertLessEqual(result["barriers"] * 100e-6, result["cpu_s"] * 10)

    def test_refused(self) -> None:
        self.check_refused([
            (["-t", "0"], f"-t, --threads: '0' is not accepted; {WHOLE} 1 to 1024"),
            (["-w", "0"], "-w, --work: '0' is not accepted; give a whole number of microseconds from 1 to 1000000"),
            (["-d", "0"], "-d, --duration: '0' is not accepted; give a number of seconds from 0.001 to 86400"),
            (["-u", "-1"], "-u, --warmup: '-1' is not accepted; give a number of seconds from 0 to 86400"),
        ])

    def test_help(self) -> None:
        self.check_help("-t, --threads", "-w, --work", "-d, --duration", "-u, --warmup", "--json", "(default 100)")

    def test_unwritable(self) -> None:
        self.check_unwritable("-t", "1", "-d", "0.01")

    def test_cross_build(self) -> None:
        self.check_cross_build()


if __name__ == "__main__":
    unittest.main()
