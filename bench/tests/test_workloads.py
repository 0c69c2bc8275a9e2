# SPDX-License-Identifier: GPL-2.0-only
"""The benchmarks, built for and run on this machine. Nothing here judges a time that they measure."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

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
        self.check_help("-t, --threads", "-n, --array-size", "-k, --ntimes", "--json", "(default 10000000)")

    def test_unwritable(self) -> None:
        self.check_unwritable("-n", "100", "-t", "1")

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
        """Its CPU time is all work, so many barriers take at least that much of it."""
        result = self.run_json("-t", "1", "-w", "100", "-d", "0.1")
        self.assertLessEqual(result["barriers"] * 100e-6, result["cpu_s"] * 1.5)

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
