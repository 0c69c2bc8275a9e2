# SPDX-License-Identifier: GPL-2.0-only
"""The parsers read what the programs print, and refuse what is cut, empty or something else's."""

import unittest

import context  # noqa: F401
import outputs
import parsers
from parsers import Unreadable


class Formats(unittest.TestCase):
    def check(self, parser: parsers.Parser, output: str, **expected: float) -> None:
        found = parser(output)
        self.assertEqual(found.keys(), expected.keys())
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, msg=name)

    def test_hackbench(self) -> None:
        self.check(parsers.hackbench, outputs.HACKBENCH, time=0.011)
        self.check(parsers.hackbench, outputs.HACKBENCH + "elapsed 11823456 ns\n", time=0.011, elapsed=11.823456)

    def test_tbench(self) -> None:
        self.check(parsers.tbench, outputs.TBENCH, operations=135547 / 2, throughput=372.264)

    def test_tbench_ended_early(self) -> None:
        """Its throughput of 0 is no throughput."""
        self.check(parsers.tbench, outputs.TBENCH_SHORT, operations=84210)
        self.assertRaisesRegex(Unreadable, "not ready", parsers.tbench, outputs.TBENCH_SHORT + "measured again\n")

    def test_schbench(self) -> None:
        self.check(parsers.schbench, outputs.SCHBENCH, rps=13653.021, wakeup_p50=4.208, wakeup_p90=25.024,
                   wakeup_p99=41.344, wakeup_p999=4186.112, request_p50=71.936, request_p90=152.064, request_p99=212.48,
                   request_p999=244.096)

    def test_stream(self) -> None:
        self.check(parsers.stream, outputs.STREAM, copy=41692.725, scale=42546.402, add=48794.372, triad=48477.014)

    def test_perf_sched(self) -> None:
        self.check(parsers.perf_sched, outputs.PERF_MESSAGING, time=0.174)
        self.check(parsers.perf_sched, outputs.PERF_PIPE, time=0.021, operations=91852)
        self.check(parsers.perf_sched, outputs.PERF_SIMPLE, time=0.091)

    def test_perf_futex(self) -> None:
        self.check(parsers.perf_futex, outputs.PERF_FUTEX_HASH, operations=280064)
        self.check(parsers.perf_futex, outputs.PERF_FUTEX_WAKE, time=0.0001892)
        self.check(parsers.perf_futex, outputs.PERF_FUTEX_WAKE_PARALLEL, time=0.0000157)
        self.check(parsers.perf_futex, outputs.PERF_FUTEX_REQUEUE, time=0.0000092)

    def test_stress_ng(self) -> None:
        self.check(parsers.stress_ng, outputs.STRESS_NG, bogo_ops=500, bogo_ops_per_s=145181.86)

    def test_sysbench(self) -> None:
        self.check(parsers.sysbench, outputs.SYSBENCH_CPU, events_per_s=2552.25, latency_p95_ms=4.25)
        self.check(parsers.sysbench, outputs.SYSBENCH_THREADS, events_per_s=403 / 1.0011, latency_p95_ms=5.37)

    def test_fio(self) -> None:
        self.check(parsers.fio, outputs.FIO_JSON, iops=256000, latency_p99_us=0.091)
        self.check(parsers.fio, outputs.FIO_TERSE, iops=256000, latency_p99_us=3)
        self.check(parsers.fio, outputs.FIO_TERSE * 2, iops=512000, latency_p99_us=3)

    def test_cyclictest(self) -> None:
        self.check(parsers.cyclictest, outputs.CYCLICTEST, min_us=27, avg_us=(999 * 98 + 663 * 108) / 1662, max_us=3374)
        self.check(parsers.cyclictest, outputs.CYCLICTEST_JSON, min_us=14, avg_us=99.34, max_us=11647)


class Refusals(unittest.TestCase):
    GOOD = ((parsers.hackbench, outputs.HACKBENCH), (parsers.tbench, outputs.TBENCH),
            (parsers.schbench, outputs.SCHBENCH), (parsers.stream, outputs.STREAM),
            (parsers.perf_sched, outputs.PERF_PIPE), (parsers.perf_futex, outputs.PERF_FUTEX_WAKE),
            (parsers.stress_ng, outputs.STRESS_NG), (parsers.sysbench, outputs.SYSBENCH_CPU),
            (parsers.fio, outputs.FIO_JSON), (parsers.fio, outputs.FIO_TERSE),
            (parsers.cyclictest, outputs.CYCLICTEST_JSON))

    def test_nothing_and_noise(self) -> None:
        for parser, _ in self.GOOD:
            for output in ("", "\n", "Segmentation fault\n", "{}\n", "[1, 2]\n", '{"a": {}}\n'):
                with self.assertRaises(Unreadable, msg=f"{parser.__name__} {output!r}"):
                    parser(output)

    def test_cut_off(self) -> None:
        """The lines that carry a value are the last ones, or the JSON is one whole."""
        for parser, output in self.GOOD:
            if parser in (parsers.perf_sched, parsers.fio, parsers.sysbench, parsers.stress_ng):
                continue
            with self.assertRaises(Unreadable, msg=parser.__name__):
                parser(output[:len(output) // 2])

    def test_two_outputs_in_one(self) -> None:
        for parser, output in ((parsers.hackbench, outputs.HACKBENCH), (parsers.tbench, outputs.TBENCH),
                               (parsers.stress_ng, outputs.STRESS_NG)):
            self.assertRaisesRegex(Unreadable, "2 ", parser, output * 2)

    def test_no_samples(self) -> None:
        self.assertRaisesRegex(Unreadable, "'p99' is not a number", parsers.schbench,
                               outputs.SCHBENCH.replace('"p99":41.344', '"p99":null'))

    def test_wrong_result(self) -> None:
        self.assertRaisesRegex(Unreadable, "wrong values", parsers.stream, outputs.STREAM.replace("true", "false"))

    def test_job_with_error(self) -> None:
        for output in (outputs.FIO_TERSE.replace(";n;0;0;", ";n;0;5;"),
                       outputs.FIO_JSON.replace('"error" : 0', '"error" : 5')):
            self.assertRaisesRegex(Unreadable, "error 5", parsers.fio, output)


if __name__ == "__main__":
    unittest.main()
