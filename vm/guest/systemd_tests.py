#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of cgctl beside Debian's real systemd, run in the machine that vm/systemd.py makes."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable

from steer_guest import (CGROUP, ETC, MANY, SERVICE, cgctl, equal, examples, expect, figure, has, main, read, reload,
                         run, systemctl, test, unit, value, wait_for, write)


def instances(template: str, count: int) -> list[str]:
    """The hints of a template's instances."""
    base = f"{CGROUP}/system.slice/system-{template}.slice"
    return [read(f"{base}/{template}@{i}.service/cpu.hint") for i in range(count)]


def daemon_pid() -> int:
    return int(systemctl("show", "-P", "MainPID", "cgctl.service") or 0)


@test()
def machine_is_as_it_should_be() -> None:
    figure(systemctl("--version").split("\n", maxsplit=1)[0] + ", Linux " + os.uname().release)
    wait_for(lambda: systemctl("is-system-running", status=None) in ("running", "degraded", "starting"), "no boot")
    equal(systemctl("is-active", "cgctl.service"), "active")
    equal(systemctl("show", "-P", "NRestarts", "cgctl.service"), "0")
    equal(systemctl("list-units", "--failed", "--no-legend", "--plain"), "", "failed units")
    assert systemctl("is-active", "dbus.socket", status=None) == "active", \
        run("journalctl", "-b", "-o", "cat", "-u", "dbus.socket", "-u", "dbus.service", status=None).stdout


@test()
def property_of_a_service() -> None:
    unit("one.service", SERVICE + "X-CPUHint=tail_latency\n")
    reload()
    systemctl("start", "one")
    expect("one", "tail_latency")
    equal(value("one", "cpu.hint.effective"), "wake_wide scan_full")
    systemctl("restart", "one")
    expect("one", "tail_latency")


@test()
def doctor_finds_nothing_missing() -> None:
    text = cgctl("doctor")
    has(text, "this kernel has cpu.hint", "cgctl.service runs", "systemd 25")
    assert "missing " not in text, text


@test()
def systemd_keeps_the_controller() -> None:
    """Without CPUWeight= in the unit, systemd would take the controller away with the next change beside it."""
    wait_for(lambda: systemctl("show", "-P", "CPUWeight", "one") == "100", "the weight that keeps the controller")
    unit("weighted.service", SERVICE + "CPUWeight=50\n")
    reload()
    systemctl("start", "weighted")
    systemctl("stop", "weighted")
    systemctl("set-property", "--runtime", "systemd-journald.service", "MemoryHigh=900M")
    time.sleep(2)
    expect("one", "tail_latency")


@test()
def each_unit_is_kept() -> None:
    """Not only the one that found the controller missing: that may end."""
    unit("pair@.service", SERVICE + "X-CPUHint=pack\nSlice=pair.slice\n")
    reload()
    systemctl("start", "pair@1", "pair@2")
    for name in ("pair@1", "pair@2"):
        expect(name, "pack")
        wait_for(lambda name=name: systemctl("show", "-P", "CPUWeight", name) == "100", f"the weight of {name}")
    for name in ("pair@1", "pair@2"):
        other = "pair@2" if name == "pair@1" else "pair@1"
        systemctl("stop", name)
        time.sleep(1)
        equal(value(other), "pack", f"{other} after the end of {name}")
        systemctl("start", name)
    systemctl("stop", "pair@1", "pair@2")


@test()
def weight_of_its_own_stays() -> None:
    """One that is set before the daemon comes to have the controller kept."""
    unit("heavy.service", SERVICE + "X-CPUHint=pack\nSlice=alone.slice\n")
    reload()
    systemctl("start", "heavy")
    expect("heavy", "pack")
    systemctl("set-property", "--runtime", "heavy.service", "CPUWeight=300")
    time.sleep(3)
    equal(systemctl("show", "-P", "CPUWeight", "heavy"), "300", "what systemd says")
    equal(value("heavy", "cpu.weight"), "300", "the group's weight")
    expect("heavy", "pack")
    systemctl("stop", "heavy")


@test()
def weight_of_any_form_stays() -> None:
    """Whatever systemd takes for a weight, in the unit's file, set at run time, or of a transient unit."""
    forms = {"shares": "CPUShares=2048", "startup-shares": "StartupCPUShares=2048", "weight": "CPUWeight=300",
             "startup-weight": "StartupCPUWeight=300", "idle": "CPUWeight=idle"}
    for name, line in forms.items():
        unit(f"form-{name}.service", f"{SERVICE}{line}\nSlice=form.slice\n")
    unit("form-runtime.service", SERVICE + "Slice=form.slice\n")
    reload()
    systemctl("start", *(f"form-{name}.service" for name in forms), "form-runtime.service")
    systemctl("set-property", "--runtime", "form-runtime.service", "CPUShares=2048")
    run("systemd-run", "--unit=form-transient", "--slice=form.slice", "-p", "CPUShares=2048", "sleep", "infinity")
    units = [f"form-{name}.service" for name in (*forms, "runtime", "transient")]

    def weights() -> dict[str, tuple[str, ...]]:
        return {name: (systemctl("show", "-P", "CPUWeight", name), value(name, "cpu.weight"), value(name, "cpu.idle"))
                for name in units}
    before = weights()
    equal(before["form-shares.service"], ("[not set]", "200", "0"))
    write(f"{ETC}/form-.service.d/x.conf", "[Service]\nX-CPUHint=pack\n")
    reload()
    for name in units:
        expect(name, "pack")
    time.sleep(5)
    equal(weights(), before, "with a property")
    for name in units:
        cgctl("set", name, "hint=pack", "--enable")
        cgctl("set", name, "gang=0", "--persist")
    time.sleep(5)
    equal(weights(), before, "after set")
    systemctl("stop", *units)
    shutil.rmtree(f"{ETC}/form-.service.d")


@test()
def property_changes_with_daemon_reload() -> None:
    write(f"{ETC}/one.service.d/x.conf", "[Service]\nX-CPUHint=pack\n")
    time.sleep(0.5)
    equal(value("one"), "tail_latency", "before daemon-reload")
    reload()
    expect("one", "pack")
    os.unlink(f"{ETC}/one.service.d/x.conf")
    reload()
    expect("one", "tail_latency")


@test()
def property_that_is_removed_is_taken_back() -> None:
    unit("one.service", SERVICE)
    reload()
    expect("one", "inherit")


@test()
def what_was_set_by_hand_is_left_alone() -> None:
    cgctl("set", "one.service", "hint=efficient")
    equal(value("one"), "efficient")
    reload()
    unit("other.service", SERVICE + "X-CPUHint=pack\n")
    reload()
    systemctl("start", "other")
    expect("other", "pack")
    equal(value("one"), "efficient")
    systemctl("stop", "one", "other")


@test()
def property_of_slices() -> None:
    unit("outer.slice", "[Slice]\nX-CPUHint=background\n")
    unit("outer-inner.slice", "[Slice]\nX-CPUHint=wake_hold\n")
    unit("member.service", SERVICE + "Slice=outer-inner.slice\n")
    reload()
    systemctl("start", "member")
    expect("outer.slice", "background")
    expect("outer-inner.slice", "wake_hold")
    has(cgctl("show", "/outer.slice/outer-inner.slice"), "wake_hold")
    systemctl("stop", "member", "outer.slice")


@test()
def property_of_scopes_and_transient_units() -> None:
    write(f"{ETC}/job-.scope.d/x.conf", "[Scope]\nX-CPUHint=slice_long\n")
    write(f"{ETC}/job-.service.d/x.conf", "[Service]\nX-CPUHint=fork_spread\n")
    reload()
    scope = subprocess.Popen(["systemd-run", "--scope", "--unit=job-1", "sleep", "infinity"], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: systemctl("is-active", "job-1.scope", status=None) == "active", "the scope")
        expect("job-1.scope", "slice_long")
        run("systemd-run", "--unit=job-2", "sleep", "infinity")
        expect("job-2.service", "fork_spread")
    finally:
        systemctl("stop", "job-1.scope", "job-2.service", status=None)
        scope.wait()


@test()
def templates_aliases_and_odd_names() -> None:
    unit("t@.service", SERVICE + "X-CPUHint=pack\n")
    write(f"{ETC}/t@two.service.d/x.conf", "[Service]\nX-CPUHint=wake_hold\n")
    unit("cpu.service", SERVICE + "X-CPUHint=scan_none\n")
    unit("real.service", SERVICE)
    os.symlink("real.service", f"{ETC}/nick.service")
    write(f"{ETC}/nick.service.d/x.conf", "[Service]\nX-CPUHint=scan_full\n")
    odd = "t@" + run("systemd-escape", "a b/c-d ü").stdout.strip() + ".service"
    reload()
    names = ("t@one.service", "t@two.service", "cpu.service", "nick.service", odd)
    systemctl("start", *names)
    for name, wanted in zip(names, ("pack", "wake_hold", "scan_none", "scan_full", "pack")):
        expect(name, wanted)
    has(cgctl("show", odd), "pack")
    has(cgctl("show", "cpu.service"), "/system.slice/_cpu.service")
    systemctl("stop", *names)


@test()
def bad_value_is_reported_with_file_and_line() -> None:
    unit("bad.service", SERVICE + "X-CPUHint=wake_afine\nX-CPUHeadrom=3\n")
    reload()
    systemctl("start", "bad")
    def log() -> str:
        return run("journalctl", "-b", "-u", "bad.service", "-o", "cat").stdout
    wait_for(lambda: "did you mean" in log(), "the message")
    has(log(), "/etc/systemd/system/bad.service:3", "'wake_affine'", "bad.service:4", "X-CPUHeadroom")
    entry = json.loads(run("journalctl", "-b", "-u", "bad.service", "-o", "json", "CONFIG_LINE=3").stdout.split("\n")[0])
    equal((entry["PRIORITY"], entry["CONFIG_FILE"]), ("4", "/etc/systemd/system/bad.service"))
    has(cgctl("doctor", status=1), "bad.service:3")
    has(cgctl("properties", "bad.service", status=3), "bad.service:3")
    # The good property beside bad ones counts.
    write(f"{ETC}/bad.service.d/x.conf", "[Service]\nX-CPUHint=pack\n")
    reload()
    expect("bad", "pack")
    systemctl("stop", "bad")
    shutil.rmtree(f"{ETC}/bad.service.d")
    os.unlink(f"{ETC}/bad.service")


@test()
def property_of_a_kernel_without_the_file() -> None:
    """What the kernel lacks is named; what it has is set."""
    unit("lack.service", SERVICE + "X-CPUHint=pack\nX-CPUHeadroom=2\n")
    reload()
    systemctl("start", "lack")
    expect("lack", "pack")
    if os.path.exists(f"{CGROUP}/system.slice/lack.service/cpu.headroom"):
        expect("lack", "2.00", "cpu.headroom")
    else:
        wait_for(lambda: "has no cpu.headroom" in run("journalctl", "-b", "-u", "lack", "-o", "cat").stdout, "the message")
        has(cgctl("set", "lack.service", "headroom=2", status=5), "no cpu.headroom")
    systemctl("stop", "lack")
    os.unlink(f"{ETC}/lack.service")


@test()
def failing_unit() -> None:
    unit("fails.service", "[Service]\nExecStart=/bin/false\nX-CPUHint=pack\n")
    unit("missing.service", "[Service]\nExecStart=/nonexistent\nX-CPUHint=pack\n")
    reload()
    for name in ("fails", "missing"):
        systemctl("start", name, status=None)
        wait_for(lambda: systemctl("is-failed", name, status=None) == "failed", name)  # noqa: B023
        wait_for(lambda: not os.path.exists(f"{CGROUP}/system.slice/{name}.service"), "its group")  # noqa: B023
    equal(systemctl("is-active", "cgctl.service"), "active")
    equal(run("journalctl", "-b", "-t", "cgctl", "-p", "err", "-o", "cat", "-u", "fails").stdout.strip(), "")
    systemctl("reset-failed")


@test()
def in_force_before_the_main_process() -> None:
    """ExecStartPre, without the daemon: the main process's first deed is to look."""
    systemctl("stop", "cgctl.service")
    try:
        shutil.copytree("/usr/share/cgctl/drop-ins-without-daemon", "/run/drop-ins", dirs_exist_ok=True)
        for path in sorted(glob.glob("/run/drop-ins/*.conf")):
            name = os.path.basename(path).removesuffix(".conf")
            hint = re.search(r" hint=(\S+)", read(path))
            assert hint, path
            unit("pre.service", "[Service]\nExecStart=/bin/sh -c 'cat /sys/fs/cgroup/system.slice/pre.service/cpu.hint "
                                ">/run/pre.out; exec sleep infinity'\n")
            shutil.rmtree(f"{ETC}/pre.service.d", ignore_errors=True)
            write(f"{ETC}/pre.service.d/{name}.conf", read(path) + "\n")
            reload()
            systemctl("restart", "pre")
            wait_for(lambda: read("/run/pre.out"), "the service's look")
            equal(read("/run/pre.out"), hint[1].replace(",", " "), name)
            os.unlink("/run/pre.out")
        systemctl("stop", "pre")
        shutil.rmtree(f"{ETC}/pre.service.d")
    finally:
        systemctl("start", "cgctl.service")


@test()
def ready_made_drop_ins() -> None:
    for path in sorted(glob.glob("/usr/share/cgctl/drop-ins/*.conf")):
        name = os.path.basename(path).removesuffix(".conf")
        kind = "slice" if "[Slice]" in read(path) else "service"
        wanted = re.search(r"^X-CPUHint=(.*)", read(path), re.MULTILINE)
        assert wanted, path
        if kind == "service":
            unit(f"role-{name}.service", SERVICE)
        write(f"{ETC}/role-{name}.{kind}.d/role.conf", read(path) + "\n")
        reload()
        systemctl("start", f"role-{name}.{kind}")
        expect(f"role-{name}.{kind}", wanted[1])
        systemctl("stop", f"role-{name}.{kind}")
        shutil.rmtree(f"{ETC}/role-{name}.{kind}.d")


def latencies(prefix: str) -> list[float]:
    """Milliseconds from a unit's start, by systemd, to its hint, by the daemon's own clock."""
    log = run("journalctl", "-b", "-t", "cgctl", "-o", "cat").stdout
    applied = {match[1]: int(match[2]) for match in re.finditer(r"^(\S+): hint \S+ -> .* at (\d+) us$", log, re.MULTILINE)}
    shown = systemctl("show", "-p", "Id,InactiveExitTimestampMonotonic", f"{prefix}*")
    result = []
    for block in shown.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id") in applied:
            result.append((applied[fields["Id"]] - int(fields["InactiveExitTimestampMonotonic"])) / 1000)
    return sorted(result)


def with_verbose_daemon() -> None:
    write("/run/systemd/system/cgctl.service.d/verbose.conf",
          "[Service]\nExecStart=\nExecStart=/usr/bin/cgctl watch --verbose\n")
    reload()
    systemctl("restart", "cgctl.service")


def start_one_by_one(template: str, what: str, prepare: Callable[[], None]) -> None:
    unit(f"{template}@.service", SERVICE + "X-CPUHint=pack\nCPUWeight=100\n")
    reload()
    for i in range(20):
        prepare()
        systemctl("start", f"{template}@{i}")
        expect(f"{template}@{i}", "pack")
    found = latencies(f"{template}@")
    equal(len(found), 20, "units with a time")
    figure(f"one unit at a time{what}: in force {statistics.median(found):.1f} ms (median), {found[-2]:.1f} ms (95 %), "
           f"{found[-1]:.1f} ms (most) after its start, 20 units, virtual time")
    assert found[-1] < 20, f"until applied: {found} ms, 20 are allowed"
    systemctl("stop", f"{template}@*")


@test()
def single_start_is_fast() -> None:
    with_verbose_daemon()
    start_one_by_one("fast", "", lambda: None)


def daemon_used() -> int:
    """Microseconds of CPU, since it was started."""
    return int(re.search(r"^usage_usec (\d+)", read(f"{CGROUP}/system.slice/cgctl.service/cpu.stat"), re.MULTILINE)[1])


@test()
def start_after_daemon_reload_is_fast() -> None:
    """With all units to be looked at again, the one that starts comes first; but systemd is busy then, too."""
    before = daemon_used()
    start_one_by_one("fresh", ", each after a daemon-reload", reload)
    figure(f"the daemon used {(daemon_used() - before) / 20_000:.2f} ms of CPU for each of these daemon-reloads and starts")


@test()
def many_units_at_once() -> None:
    unit("many@.service", SERVICE + "X-CPUHint=pack\n")
    unit("many.target", "[Unit]\nWants=" + " ".join(f"many@{i}.service" for i in range(MANY)) + "\n")
    reload()
    begin = time.monotonic()
    systemctl("start", "many.target")
    wait_for(lambda: set(instances("many", MANY)) == {"pack"}, "all hints", 120)
    figure(f"{MANY} units at once: all started and in force after {time.monotonic() - begin:.1f} s, virtual time")
    # And so they stay, when systemd is done with all that it was asked for meanwhile.
    wait_for(lambda: not systemctl("list-jobs", "--no-legend"), "systemd")
    time.sleep(5)
    wrong = [i for i, hint in enumerate(instances("many", MANY)) if hint != "pack"]
    equal(wrong, [], "units whose hint did not stay")
    found = latencies("many@")
    equal(len(found), MANY, "units with a time")
    figure(f"{MANY} units at once: in force {statistics.median(found):.1f} ms (median), {found[int(MANY * 0.99)]:.1f} ms "
           f"(99 %), {found[-1]:.1f} ms (most) after the start of each")


@test()
def idle_daemon() -> None:
    """After many units, so that it has had something to keep."""
    time.sleep(3)
    before = daemon_used()
    time.sleep(10)
    spent = daemon_used() - before
    status = read(f"/proc/{daemon_pid()}/status")
    resident = int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)[1])
    figure(f"idle daemon: {spent} us of CPU in 10 s, {resident / 1024:.1f} MiB resident ({MANY} units run)")
    assert spent < 10_000, f"{spent} us of CPU in 10 s of idleness"
    assert resident < 15 * 1024, f"{resident} kB resident"


@test()
def daemon_killed_at_work() -> None:
    systemctl("stop", "many.target", "many@*")
    restarts = int(systemctl("show", "-P", "NRestarts", "cgctl.service"))
    starter = subprocess.Popen(["systemctl", "start", *(f"many@{i}.service" for i in range(200))])
    for round_number in range(1, 4):
        wait_for(daemon_pid, "the daemon")
        time.sleep(0.05)
        os.kill(daemon_pid(), 9)
        wait_for(lambda: int(systemctl("show", "-P", "NRestarts", "cgctl.service")) >= restarts + round_number,  # noqa: B023
                 "its restart")
    equal(starter.wait(), 0)
    wait_for(lambda: set(instances("many", 200)) == {"pack"}, "all hints")
    systemctl("stop", "many@*")
    os.unlink(f"{ETC}/many.target")


@test()
def systemd_executes_itself_anew() -> None:
    systemctl("daemon-reexec")
    unit("anew.service", SERVICE + "X-CPUHint=pack\n")
    reload()
    systemctl("start", "anew")
    expect("anew", "pack")
    unit("anew.service", SERVICE + "X-CPUHint=energy\n")
    reload()
    expect("anew", "energy")
    has(cgctl("show", "anew"), "no energy model")
    systemctl("stop", "anew")


@test()
def set_says_what_it_does() -> None:
    unit("s.service", SERVICE)
    reload()
    systemctl("start", "s")
    has(cgctl("set", "s", "hint=pack", "--enable", "-n"), "s.service: CPUWeight=100", "nothing was written")
    equal(systemctl("show", "-P", "CPUWeight", "s"), "[not set]")
    has(cgctl("set", "s", "hint=pack", "--enable"), "/system.slice/s.service: hint inherit -> pack",
        "s.service: CPUWeight=100")
    # A change beside it; systemd keeps the controller all the same.
    systemctl("set-property", "--runtime", "systemd-journald.service", "MemoryHigh=800M")
    time.sleep(2)
    assert "CPUWeight" not in cgctl("set", "s", "hint=pack", "--enable"), "systemd knows it already"
    has(cgctl("set", "s", "hint=pack"), "already")
    has(cgctl("set", "s", "hint=wake_afine", status=3), "did you mean 'wake_affine'")
    has(cgctl("set", "s", "hint=+wake_hold", "-n"), "pack -> wake_hold pack", "nothing was written")
    equal(value("s"), "pack")
    has(cgctl("set", "ss.service", "hint=pack", status=4), "did you mean 's.service'")
    pid = systemctl("show", "-P", "MainPID", "s")
    has(cgctl("show", pid), "/system.slice/s.service", "pack")
    tsv = cgctl("show", "s", "--tsv").splitlines()
    equal(tsv[1].split("\t")[:3], ["/system.slice/s.service", "pack", "pack"])
    found = json.loads(cgctl("show", "s", "--json"))[0]
    equal((found["path"], found["hint"], found["hint.effective"]), ("system.slice/s.service", "pack", "pack"))
    has(cgctl("tree"), "system.slice", "s.service", "hint=pack")


@test()
def policies() -> None:
    write("/run/p.toml", '[unit."s.service"]\nhint = "efficient"\n[unit."nothing-*.service"]\nhint = "pack"\n')
    has(cgctl("diff", "/run/p.toml", status=1), "pack -> efficient")
    has(cgctl("apply", "/run/p.toml"), "hint pack -> efficient", "no group is unit nothing-*.service")
    equal(value("s"), "efficient")
    has(cgctl("apply", "/run/p.toml"), "already")
    equal(cgctl("diff", "/run/p.toml"), "cgctl: /run/p.toml:3: no group is unit nothing-*.service now\n")
    has(cgctl("dump"), '[unit."s.service"]', 'hint = "efficient"')
    write("/run/p.toml", '[unit."s.service"]\nhint = "pack"\n[unit."t.service"]\nhint = "pak"\n')
    has(cgctl("apply", "/run/p.toml", status=3), "/run/p.toml:4:", "did you mean 'pack'")
    equal(value("s"), "efficient", "after a policy with a mistake")
    systemctl("stop", "s")


@test()
def paths_in_namespaces_and_bind_mounts() -> None:
    """Paths go by what is mounted, and units are those of the machine's systemd."""
    top = f"{CGROUP}/view"
    os.makedirs(f"{top}/a/b")
    os.makedirs("/run/view", exist_ok=True)
    unit("view.service", SERVICE)
    reload()
    systemctl("start", "view.service")
    try:
        cgctl("set", "/view/a/b", "hint=pack", "--enable")

        def inside(command: str, *unshare: str) -> str:
            """What commands print in the group, in namespaces of their own."""
            script = f"echo $$ > {top}/a/b/cgroup.procs; exec unshare {' '.join(unshare)} sh -c \"$1\""
            done = run("sh", "-c", script, "sh", command, status=None)
            return done.stdout + done.stderr

        own = "cgctl show self | head -n 2; cgctl tree --all 1; cgctl show view.service | head -n 1"
        got = inside(own, "-C")
        has(got, "/view/a/b\n  hint      pack", "/init.scope", "/system.slice/view.service")
        got = inside(f"umount {CGROUP}; mount -t cgroup2 none {CGROUP}; {own}", "-C", "-m")
        has(got, "/\n  hint      pack", "process 1 is in /../../../init.scope, which is not in this cgroup tree",
            "the unit view.service has no cgroup now")
        got = inside(f"mount --bind {top}/a {CGROUP}; {own}; cgctl show {CGROUP}/b /view/a/b /b --tsv", "-m")
        has(got, "/b\n  hint      pack", "process 1 is in /init.scope, which is not in this cgroup tree")
        equal(got.count("\n/b\tpack"), 3, got)
        has(inside(f"mount --bind {top}/a /run/view; cgctl show /run/view/b", "-m"), "/view/a/b\n  hint      pack")
    finally:
        systemctl("stop", "view.service")
        for path in (f"{top}/a/b", f"{top}/a", top):
            os.rmdir(path)


@test()
def removal_is_no_crash() -> None:
    """Units come and go while everything is read and set."""
    unit("short@.service", "[Service]\nExecStart=/bin/true\nX-CPUHint=pack\n")
    reload()
    starter = subprocess.Popen(["systemctl", "start", "--no-block", *(f"short@{i}.service" for i in range(60))])
    while starter.poll() is None or systemctl("list-jobs", "--no-legend"):
        cgctl("tree", "--all")
        done = run("cgctl", "set", "short@30.service", "hint=pack", status=None)
        assert done.returncode in (0, 4, 5), f"status {done.returncode}: {done.stderr}"
    equal(systemctl("is-active", "cgctl.service"), "active")


@test()
def run_in_a_scope() -> None:
    scopes = lambda: systemctl("list-units", "--all", "--no-legend", "cgctl-run-*.scope")  # noqa: E731
    done = run("cgctl", "run", "--hint", "tail_latency", "--", "sh", "-c",
               "cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpu.hint.effective; exit 7", status=7)
    equal(done.stdout.strip(), "wake_wide scan_full")
    run("cgctl", "run", "--hint", "pack", "--", "/nonexistent", status=127)
    run("cgctl", "run", "--hint", "pack", "--", "/etc/passwd", status=126)
    has(run("cgctl", "run", "--hint", "pak", "--", "true", status=125).stderr, "did you mean 'pack'")
    done = run("cgctl", "run", "--slice", "jobs", "--hint", "pack", "cat", "/proc/self/cgroup")
    has(done.stdout, "/jobs.slice/cgctl-run-")
    # What the files of all such scopes say would be set again by the daemon.
    write(f"{ETC}/cgctl-run-.scope.d/x.conf", "[Scope]\nX-CPUHint=pack\n")
    reload()
    has(run("cgctl", "run", "--hint", "energy", "true", status=125).stderr, "cgctl-run-.scope.d/x.conf:2 says X-CPUHint=pack")
    run("cgctl", "run", "--hint", "pack", "true")
    shutil.rmtree(f"{ETC}/cgctl-run-.scope.d")
    reload()
    killed = subprocess.Popen(["cgctl", "run", "--hint", "pack", "sleep", "infinity"])
    wait_for(scopes, "the scope")
    killed.terminate()
    equal(killed.wait(), -15, "it is the command that is killed")
    wait_for(lambda: not scopes(), "all scopes gone")


@test()
def run_in_a_group() -> None:
    done = run("cgctl", "run", "--no-systemd", "--hint", "pack", "--", "sh", "-c",
               "cat /proc/self/cgroup; sleep 1000 & exit 3", status=3)
    path = done.stdout.strip().removeprefix("0::")
    has(path, "/cgctl-run-")
    assert not os.path.exists(CGROUP + path), f"{path} is left"
    run("cgctl", "run", "--no-systemd", "--", "/nonexistent", status=127)
    equal(glob.glob(f"{CGROUP}/**/cgctl-run-*", recursive=True), [])
    killed = subprocess.Popen(["cgctl", "run", "--no-systemd", "--hint", "pack", "sleep", "infinity"])
    wait_for(lambda: glob.glob(f"{CGROUP}/**/cgctl-run-*", recursive=True), "the group")
    time.sleep(0.3)
    killed.terminate()
    equal(killed.wait(), 143)
    equal(glob.glob(f"{CGROUP}/**/cgctl-run-*", recursive=True), [])


@test()
def delegated_tree_of_a_user() -> None:
    # From a file: in a command line, systemd would replace variables.
    write("/run/delegated.sh",
          "set -e; cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); mkdir leaf work; echo $$ >leaf/cgroup.procs; "
          "echo +cpu >cgroup.subtree_control; p=$(pwd); p=${p#/sys/fs/cgroup}; "
          "cgctl set $p/work hint=pack; cat work/cpu.hint; cgctl show $p/work; "
          "cgctl set /system.slice hint=pack && exit 99; test $? = 6")
    done = run("systemd-run", "--pipe", "--wait", "-q", "-p", "User=tester", "-p", "Delegate=cpu",
               "sh", "/run/delegated.sh")
    has(done.stdout, "hint inherit -> pack", "\npack\n")
    has(done.stderr, "no permission")


@test()
def top_and_events() -> None:
    # With the weight, systemd keeps the controller. Without, it may take it away once, which is an event, too.
    unit("busy.service", "[Service]\nExecStart=/bin/sh -c 'while :; do :; done'\nCPUWeight=100\nX-CPUHint=pack\n")
    reload()
    systemctl("start", "busy")
    expect("busy", "pack")
    lines = cgctl("top", "--batch", "2", "--interval", "0.5").splitlines()
    row = [line.split("\t") for line in lines if line.startswith("/system.slice/busy.service")][-1]
    assert float(row[4]) > 20, f"a busy loop has {row[4]} % of a CPU"
    events = subprocess.Popen(["cgctl", "watch-events", "--json", "--count", "2"], stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    cgctl("set", "busy", "hint=efficient")
    found = [json.loads(line) for line in events.communicate(timeout=120)[0].splitlines()]
    equal([(event["path"], event["what"], event["old"], event["new"]) for event in found],
          [("system.slice/busy.service", "hint", "pack", "efficient"),
           ("system.slice/busy.service", "hint.effective", "pack", "pack energy:unavailable")])
    systemctl("stop", "busy")


@test()
def libcgroup() -> None:
    run("cgcreate", "-g", "cpu:lib")
    run("cgset", "-r", "cpu.hint=tail_latency", "lib")
    equal(read(f"{CGROUP}/lib/cpu.hint"), "tail_latency")
    has(run("cgget", "-n", "-r", "cpu.hint", "lib").stdout, "cpu.hint: tail_latency")
    has(run("cgget", "-n", "-r", "cpu.hint.effective", "lib").stdout, "cpu.hint.effective: wake_wide scan_full")
    run("cgset", "-r", "cpu.hint=nonsense", "lib", status=None)
    equal(read(f"{CGROUP}/lib/cpu.hint"), "tail_latency", "after a refused word")
    done = run("cgexec", "-g", "cpu:lib", "cat", "/proc/self/cgroup")
    has(done.stdout, "0::/lib")
    run("cgdelete", "-g", "cpu:lib")
    assert not os.path.exists(f"{CGROUP}/lib")
    write("/run/cgconfig.conf", 'group conf {\n\tcpu {\n\t\tcpu.hint = "wake_hold pack";\n\t}\n}\n')
    run("cgconfigparser", "-l", "/run/cgconfig.conf")
    equal(read(f"{CGROUP}/conf/cpu.hint"), "wake_hold pack")
    run("cgdelete", "-g", "cpu:conf")


@test()
def three_ways() -> None:
    """Those of the README do what it says, and print what it shows."""
    ways = examples("Three ways to set a policy")
    equal(len(ways), 3, "ways in the README")
    for commands in ways:
        unit("web.service", SERVICE + "CPUWeight=100\n")
        shutil.rmtree(f"{ETC}/web.service.d", ignore_errors=True)
        reload()
        systemctl("restart", "web")
        equal(value("web"), "inherit", "before")
        for command, printed in commands:
            done = run("sh", "-c", command)
            # Tabs and columns are as good as a space.
            equal([line.split() for line in (done.stdout + done.stderr).splitlines()],
                  [line.split() for line in printed], command)
        equal(value("web", "cpu.hint.effective"), "wake_wide scan_full", "after " + commands[0][0])
    systemctl("stop", "web")
    shutil.rmtree(f"{ETC}/web.service.d")


@test()
def kept_settings() -> None:
    unit("keep.service", SERVICE + "[Install]\nWantedBy=multi-user.target\n")
    unit("forget.service", SERVICE + "[Install]\nWantedBy=multi-user.target\n")
    reload()
    systemctl("enable", "keep", "forget")
    has(cgctl("set", "keep.service", "hint=wake_hold,pack", "--persist"), "/etc/systemd/system/keep.service.d/50-cgctl.conf")
    systemctl("start", "keep", "forget")
    expect("keep", "wake_hold pack")
    has(cgctl("set", "forget", "hint=pack", "--runtime"), "/run/systemd/system/forget.service.d/zz-cgctl-runtime.conf")
    for name, wanted in (("keep", "wake_hold pack"), ("forget", "pack")):
        systemctl("restart", name)
        expect(name, wanted)
    equal(systemctl("show", "-P", "NeedDaemonReload", "keep"), "no")


@test()
def kept_until_boot_and_for_good() -> None:
    """What is reported as set stays, for longer than the daemon takes; what would not stay is refused."""
    unit("both.service", SERVICE)
    reload()
    systemctl("start", "both")

    def holds(wanted: str) -> None:
        equal(value("both"), wanted, "at once")
        time.sleep(4)
        equal(value("both"), wanted, "when the daemon has looked")
        reload()
        systemctl("restart", "both")
        expect("both", wanted)
    cgctl("set", "both.service", "hint=pack", "--persist")
    holds("pack")
    cgctl("set", "both.service", "hint=tail_latency", "--runtime")
    holds("tail_latency")
    cgctl("set", "both.service", "hint=wake_hold", "--persist")
    holds("wake_hold")
    for name in ("override.conf", "hint.conf"):
        write(f"{ETC}/both.service.d/{name}", "[Service]\nX-CPUHint=scan_none\n")
        reload()
        expect("both", "scan_none")
        has(cgctl("set", "both.service", "hint=pack", "--persist", status=3), f"both.service.d/{name}:2", "nothing was written")
        equal(value("both"), "scan_none", "after what was refused")
        has(cgctl("set", "both.service", "hint=pack"), f"{name}:2 says X-CPUHint=scan_none")
        cgctl("set", "both.service", "hint=pack", "--runtime")
        holds("pack")
        os.unlink(f"{ETC}/both.service.d/{name}")
        shutil.rmtree("/run/systemd/system/both.service.d")
    systemctl("stop", "both")


@test()
def kept_beside_what_somebody_else_wrote() -> None:
    unit("shared.service", SERVICE)
    write(f"{ETC}/shared.service.d/50-cgctl.conf", "# by hand\n[Service]\nMemoryMax=200M\nNice=5\nX-CPUHint=pack\n")
    reload()
    systemctl("start", "shared")
    cgctl("set", "shared.service", "gang=1", "--persist")
    has(read(f"{ETC}/shared.service.d/50-cgctl.conf"), "# by hand\n[Service]\nMemoryMax=200M\nNice=5\nX-CPUHint=pack\nX-CPUGang=1")
    expect("shared", "1", "cpu.gang")
    equal(value("shared", "memory.max"), str(200 << 20), "memory.max")
    systemctl("stop", "shared")


@test()
def kept_for_units_only_that_there_are() -> None:
    has(cgctl("set", "shraed.service", "hint=pack", "--persist", status=4), "did you mean 'shared.service'")
    started = run("systemd-run", "sleep", "infinity").stderr
    name = re.search(r"run-\S+\.service", started)
    assert name, started
    has(cgctl("set", name[0], "hint=pack", "--persist", status=3), "ends for good", "/etc/systemd/system/run-.service.d")
    cgctl("set", name[0], "hint=pack", "--runtime")
    time.sleep(4)
    equal(value(name[0]), "pack")
    systemctl("stop", name[0])
    run("systemd-run", "--unit=nightly", "sleep", "infinity")
    has(cgctl("set", "nightly.service", "hint=pack", "--persist"), "whenever a unit of this name is started")
    systemctl("stop", "nightly")
    wait_for(lambda: not value("nightly"), "its end")
    run("systemd-run", "--unit=nightly", "sleep", "infinity")
    expect("nightly", "pack")
    systemctl("stop", "nightly")
    shutil.rmtree(f"{ETC}/nightly.service.d")


@test(2)
def kept_over_a_reboot() -> None:
    wait_for(lambda: systemctl("is-active", "keep", status=None) == "active", "keep.service")
    wait_for(lambda: systemctl("is-active", "forget", status=None) == "active", "forget.service")
    expect("keep", "wake_hold pack")
    equal(value("forget") in ("inherit", ""), True, "what was set until the reboot")
    equal(systemctl("is-active", "cgctl.service"), "active")


@test(2)
def without_the_bus() -> None:
    """Units are seen when they start, by their groups; the rest is made up for when the bus is there again."""
    unit("nobus.service", SERVICE + "CPUWeight=100\nX-CPUHint=pack\n")
    reload()
    systemctl("stop", "dbus.socket", "dbus.service", status=None)
    try:
        systemctl("restart", "cgctl.service")
        systemctl("start", "nobus")
        expect("nobus", "pack")
        unit("nobus.service", SERVICE + "CPUWeight=100\nX-CPUHint=scan_none\n")
        reload()
    finally:
        systemctl("start", "dbus.socket")
    expect("nobus", "scan_none")
    unit("nobus.service", SERVICE + "CPUWeight=100\nX-CPUHint=wake_hold\n")
    reload()
    expect("nobus", "wake_hold")


if __name__ == "__main__":
    main("systemd")
