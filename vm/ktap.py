# SPDX-License-Identifier: GPL-2.0-only
"""Judge a run: read the report of vm/init.c, the KTAP in it and the console, and say which tests passed.

Everything that is not clearly a success is a failed test with a name: an exit status, a missing plan or result, a
program that never ran, a kernel complaint on the console, a report without its signed last line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
TAINT_TEST = 1 << 18  # what a kernel says of itself that has run KUnit tests
KSFT_SKIP = 4  # the exit status of a kselftest that was skipped as a whole

# Comments of a test that say nothing about why it failed
ROUTINE = re.compile(r"\s*(RUN|OK|FAIL|figure:)\s|.*: Test (failed|terminated)\b")
REASON_LINES, REASON_LENGTH = 4, 600
# How much of a complaint of the kernel is shown
STACKS, STACK_FRAMES, STALL_LINES = 24, 16, 6

# What the kernel prints when something is wrong.
COMPLAINTS = re.compile(
    r"WARNING:|BUG:|\bOops\b|Kernel panic|Call Trace:|possible circular locking|possible recursive locking|"
    r"inconsistent lock state|suspicious RCU|\bKASAN:|\bUBSAN:|INFO: task .* blocked|rcu.*\bstall|soft lockup|"
    r"hard LOCKUP|sleeping function called|scheduling while atomic|general protection fault|ODEBUG:|"
    r"INFO: trying to register non-static key|unable to handle|workqueue lockup|DEBUG_LOCKS_WARN_ON")


@dataclass(frozen=True)
class Test:
    name: str
    status: str
    detail: str = ""


def summary(tests: Iterable[Test]) -> dict[str, int]:
    counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
    for test in tests:
        counts[test.status] += 1
    return counts


def counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def remarks(tests: list[Test]) -> list[str]:
    """What there is to say about tests that did not pass; many that are skipped for one reason are one line."""
    lines = [f"FAILED {test.name}{': ' if test.detail else ''}{test.detail}" for test in tests if test.status == FAILED]
    reasons: dict[str, list[str]] = {}
    for test in tests:
        if test.status == SKIPPED:
            reasons.setdefault(test.detail, []).append(test.name)
    return lines + [f"SKIPPED {names[0] if len(names) == 1 else f'{len(names)} tests'}: {reason}"
                    for reason, names in reasons.items()]


def tell(tests: list[Test]) -> int:
    """Print what there is to say, and the counts. Returns the exit status."""
    for line in remarks(tests):
        print(f"  {line}")
    counts = summary(tests)
    print(counted(counts))
    return 1 if counts[FAILED] else 0


def reason(comments: Iterable[str]) -> str:
    """Why a test failed, by the comments in front of its result: from the first expectation that was not met; without
    one the first comments, for the others are its log."""
    told = [text.strip() for text in comments if text.strip() and not ROUTINE.match(text)]
    first = next((number for number, text in enumerate(told) if ":Expected " in text), 0)
    return " | ".join(told[first:first + REASON_LINES])[:REASON_LENGTH]


@dataclass
class _Block:
    """One level of KTAP: its plan, and how many results it has had."""

    plan: int | None = None
    seen: int = 0
    failed: bool = False


def parse_ktap(program: str, lines: Iterable[str]) -> list[Test]:
    """The tests in a KTAP document. A result that sums up subtests is checked against them but not counted."""
    tests: list[Test] = []
    stack = [_Block()]
    comments: list[str] = []
    skipped_whole: str | None = None

    def close(block: _Block, where: str, need_plan: bool) -> None:
        if block.plan is None and need_plan:
            tests.append(Test(f"{where}: plan", FAILED, "there is no plan line (1..N)"))
        elif block.plan is not None and block.plan != block.seen:
            tests.append(Test(f"{where}: plan", FAILED, f"{block.plan} results planned, {block.seen} reported"))
            block.failed = True

    for line in lines:
        text = line.lstrip(" ")
        depth = (len(line) - len(text)) // 4
        result = re.match(r"(not )?ok (\d+)(?: -)?(?: ([^#]*?))?\s*(?:# ?(\w+)\b(.*))?$", text)
        plan = re.match(r"1\.\.(\d+)\s*(?:# ?SKIP\b(.*))?$", text)
        if text.startswith("Bail out!"):
            tests.append(Test(f"{program}: bail out", FAILED, text))
        if not result and not plan:
            if text.startswith("#"):
                comments.append(text[1:])
            continue
        nested: _Block | None = None
        while len(stack) > depth + 1:
            nested = stack.pop()
            close(nested, f"{program} subtests", need_plan=False)
        while len(stack) < depth + 1:
            stack.append(_Block())
        block = stack[-1]
        if plan:
            if block.plan is not None:
                tests.append(Test(f"{program}: plan", FAILED, f"a second plan line: {text}"))
            block.plan = int(plan[1])
            if plan[2] is not None and depth == 0:
                skipped_whole = plan[2].strip()
            continue
        assert result
        block.seen += 1
        name = f"{program}: {(result[3] or '').strip() or result[2]}"
        if int(result[2]) != block.seen:
            tests.append(Test(name, FAILED, f"result number {result[2]} where {block.seen} was due"))
        skip = (result[4] or "").upper() == "SKIP"
        failed = bool(result[1])
        block.failed |= failed
        if nested:
            if nested.failed and not failed:
                tests.append(Test(name, FAILED, "reported ok although a subtest failed"))
            elif failed and not nested.failed:
                tests.append(Test(name, FAILED, "failed outside of its subtests"))
        elif failed:
            tests.append(Test(name, FAILED, reason(comments)))
        else:
            tests.append(Test(name, SKIPPED if skip else PASSED, (result[5] or "").strip() if skip else ""))
        comments.clear()
    while len(stack) > 1:
        close(stack.pop(), f"{program} subtests", need_plan=False)
    close(stack[0], program, need_plan=True)
    if skipped_whole is not None and not tests:
        tests.append(Test(program, SKIPPED, skipped_whole))
    elif not tests:
        tests.append(Test(f"{program}: results", FAILED, "no test ran"))
    return tests


@dataclass
class Report:
    """What came over the result channel."""

    programs: dict[str, list[str]] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    llcs: dict[int, str] = field(default_factory=dict)
    present: bool | None = None
    tainted: int | None = None
    count: int | None = None
    odd: list[str] = field(default_factory=list)


def parse_report(text: str, nonce: str) -> Report:
    report = Report()
    current: str | None = None
    signed = re.escape(nonce)
    for line in text.replace("\r", "").split("\n"):
        if report.tainted is not None and line:
            report.odd.append(f"after the end: {line}")
        elif line.startswith("\t") and current:
            report.programs[current].append(line[1:])
        elif match := re.fullmatch(rf"@llc {signed} cpu=(\d+) mask=(\S+)", line):
            report.llcs[int(match[1])] = match[2]
        elif match := re.fullmatch(rf"@hint {signed} present=([01])", line):
            report.present = match[1] == "1"
        elif (match := re.fullmatch(rf"@begin {signed} (\S+)", line)) and not current:
            current = match[1]
            if current in report.programs:
                report.odd.append(f"ran twice: {current}")
            report.programs[current] = []
        elif (match := re.fullmatch(rf"@end {signed} (\S+) rc=(\d+)", line)) and match[1] == current:
            report.status[match[1]] = int(match[2])
            current = None
        elif (match := re.fullmatch(rf"@done {signed} tainted=(\d+) programs=(\d+)", line)) and not current:
            report.tainted, report.count = int(match[1]), int(match[2])
        elif line:
            report.odd.append(line)
    return report


def judge_program(name: str, lines: list[str], status: int | None) -> list[Test]:
    tests = parse_ktap(name, lines)
    last = " | ".join(lines[-3:])
    if status is None:
        tests.append(Test(f"{name}: end", FAILED, f"it did not end; last output: {last}"))
    elif status == 124:
        tests.append(Test(f"{name}: time limit", FAILED, f"killed at its time limit; last output: {last}"))
    elif status and not (status == KSFT_SKIP and all(t.status == SKIPPED for t in tests)):
        tests.append(Test(f"{name}: exit status", FAILED, f"{status}; last output: {last}"))
    return tests


def complaints(console: str) -> list[Test]:
    """The kernel's complaints on the console, one failed test for each kind, with where it begins. What RCU says of a
    stall is told whole: which CPU it is, and whether that is one without interrupts."""
    lines = console.replace("\r", "").split("\n")
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        if match := COMPLAINTS.search(line):
            more = [text.strip() for text in lines[number + 1:] if text.startswith("rcu: ")] if "rcu" in match[0] else []
            found.setdefault(match[0], " | ".join([line.strip(), *more[:STALL_LINES]]))
    return [Test(f"console: {kind.strip(':')}", FAILED, line) for kind, line in found.items()]


def stacks(console: str) -> list[str]:
    """From the first complaint on, what ran and waited where: a line for each backtrace, the innermost function first."""
    found: list[list[str]] = []
    frames: list[str] = []
    begun = False
    for line in console.replace("\r", "").split("\n"):
        begun = begun or bool(COMPLAINTS.search(line))
        if not begun:
            continue
        if match := re.match(r"CPU: (\d+) .*\bComm: (\S+)|task:(\S+) +state:(\S+)", line):
            frames = [f"CPU {match[1]}, {match[2]}:" if match[1] else f"{match[3]} ({match[4]}):"]
            # Who sleeps, does so by right.
            if match[1] or match[4] in "RD":
                found.append(frames)
        elif match := re.match(r"(?:RIP: 0010:| ?pc : | )([\w.]+)\+0x", line):
            if frames and len(frames) <= STACK_FRAMES and frames[-1] != match[1]:
                frames.append(match[1])
    return list(dict.fromkeys(" ".join(stack) for stack in found if len(stack) > 1))[:STACKS]


def mask_to_cpus(mask: str) -> frozenset[int]:
    value = int(mask.replace(",", ""), 16)
    return frozenset(i for i in range(value.bit_length()) if value >> i & 1)


def llc_of(cpu: int, mask: str) -> frozenset[int]:
    """The CPUs that share a CPU's last-level cache: without a domain that shares one, it is alone in it."""
    return frozenset([cpu]) if mask == "none" else mask_to_cpus(mask)


def check_llcs(llcs: dict[int, str], expected: list[frozenset[int]]) -> list[Test]:
    """Compare the caches that the scheduler sees with those of the machine that was asked for."""
    wanted = {cpu: cpus for cpus in expected for cpu in cpus}
    got = {cpu: llc_of(cpu, mask) for cpu, mask in llcs.items()}
    wrong = [f"CPU {cpu}: {sorted(got.get(cpu, ()))} instead of {sorted(wanted.get(cpu, ()))}"
             for cpu in sorted(wanted.keys() | got.keys()) if wanted.get(cpu) != got.get(cpu)]
    return [Test("machine: last-level caches", FAILED, "; ".join(wrong)) if wrong else
            Test("machine: last-level caches", PASSED)]


def judge(report_text: str, nonce: str, expected: list[str], console: str, problem: str,
          llcs: list[frozenset[int]], present: bool = True) -> list[Test]:
    """All the tests of a run.

    `problem` says what was wrong with QEMU itself, if anything; `present` whether cpu.hint has to exist, without which
    tests that skip what the kernel does not have would all be content.
    """
    report = parse_report(report_text, nonce)
    tests = []
    # A machine that ends before its report begins has not said that anything is wrong with its caches or with cpu.hint.
    if report.llcs or report.present is not None or report.tainted is not None:
        tests += check_llcs(report.llcs, llcs)
        tests.append(Test(f"machine: cpu.hint {'exists' if present else 'does not exist'}",
                          PASSED if report.present is present else FAILED))
    for name in expected:
        if name in report.programs:
            tests += judge_program(name, report.programs[name], report.status.get(name))
        else:
            tests.append(Test(f"{name}: start", FAILED, "it was not run"))
    for name in report.programs.keys() - set(expected):
        tests.append(Test(f"{name}: start", FAILED, "it ran although the run-list does not have it"))
    if problem:
        tests.append(Test("machine: end", FAILED, problem))
    if report.tainted is None:
        tests.append(Test("machine: report", FAILED, "the report has no signed last line: hang, panic or early end"))
    elif tainted := report.tainted & ~TAINT_TEST:
        tests.append(Test("machine: taint", FAILED, f"the kernel is tainted: {tainted}"))
    if report.count is not None and report.count != len(expected):
        tests.append(Test("machine: programs", FAILED, f"{report.count} ran, {len(expected)} expected"))
    if report.odd:
        tests.append(Test("machine: report lines", FAILED, "; ".join(report.odd[:3])))
    return tests + complaints(console)
