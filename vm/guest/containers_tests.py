#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of policies that reach containers through their engines, run in the machine that vm/containers.py makes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from steer_guest import (CGROUP, MANY, SERVICE, cgctl, equal, examples, expect, figure, group, has, main, needs, read,
                         reload, run, systemctl, test, unit, wait_for, write)

HERE = Path(__file__).parent
BUNDLES = "/var/lib/bundles"
UNIFIED = {"cpu.hint": "tail_latency", "cpu.gang": "1", "cpu.headroom": "10.00"}
EFFECTIVE = "wake_wide scan_full"
# What a container does: it looks at its group by its own namespace's root, then stays.
LOOK = "cat /sys/fs/cgroup/cpu.hint.effective >/out/effective; exec sleep 1000000"


# ---- runc and crun, by a bundle ----

@dataclass(frozen=True)
class Engine:
    """One of the two with one of its drivers."""

    program: str
    systemd: bool

    def __str__(self) -> str:
        return f"{self.program}, {'systemd' if self.systemd else 'cgroupfs'} driver"

    def command(self, *arguments: str) -> list[str]:
        return [self.program, *(["--systemd-cgroup"] if self.systemd else []), *arguments]

    def place(self, name: str) -> str:
        return f"system.slice:steer:{name}" if self.systemd else f"/engines/{name}"

    def group(self, name: str) -> str:
        """Where the keys of linux.resources.unified land."""
        if not self.systemd:
            return f"{CGROUP}/engines/{name}"
        # crun has a group of its own below the scope, which is delegated to it.
        return f"{CGROUP}/system.slice/steer-{name}.scope" + ("/container" if self.program == "crun" else "")


ENGINES = [Engine(program, systemd) for program in ("runc", "crun") for systemd in (False, True)]


def rootfs() -> str:
    """The files of all bundles: busybox."""
    path = f"{BUNDLES}/rootfs"
    if not os.path.isdir(path):
        for name in ("bin", "dev", "out", "proc", "sys", "tmp"):
            os.makedirs(f"{path}/{name}")
        shutil.copy("/usr/bin/busybox", f"{path}/bin/busybox")
        run("chroot", path, "/bin/busybox", "--install", "-s", "/bin")
    return path


def bundle(name: str, place: str, unified: dict[str, str], command: str = LOOK, writable: bool = False) -> str:
    """A bundle as the OCI runtime specification has it; with a cgroup namespace, and its tree writable or not."""
    path, out = f"{BUNDLES}/{name}", f"{BUNDLES}/{name}/out"
    os.makedirs(out, exist_ok=True)
    capabilities = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]
    options = ["nosuid", "noexec", "nodev", "relatime", "rw" if writable else "ro"]
    spec = {
        "ociVersion": "1.0.2",
        "root": {"path": rootfs(), "readonly": True},
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["sh", "-c", command], "env": ["PATH=/bin"],
                    "noNewPrivileges": True,
                    "capabilities": {kind: capabilities for kind in ("bounding", "effective", "permitted")}},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                   {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": options},
                   {"destination": "/out", "type": "bind", "source": out, "options": ["bind", "rw"]}],
        "linux": {"cgroupsPath": place, "resources": {"unified": unified},
                  "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network", "cgroup")]},
    }
    write(f"{path}/config.json", json.dumps(spec, indent=1))
    return path


def quiet(*command: str, status: int | None = 0) -> str:
    """Like run(), for a command that leaves a process behind: its output goes to a file, not to a pipe that the process
    would keep open."""
    with open("/run/quiet.out", "w+", encoding="utf-8") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False, timeout=300)
        out.seek(0)
        text = out.read()
    if status is not None and done.returncode != status:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}, not {status}\n{text}")
    return text


@contextlib.contextmanager
def container(engine: Engine, name: str, unified: dict[str, str], command: str = LOOK, **how: bool) -> Iterator[str]:
    """A running container; gives its bundle."""
    path = bundle(name, engine.place(name), unified, command, **how)
    quiet(*engine.command("run", "--detach", "--bundle", path, name))
    try:
        yield path
    finally:
        run(*engine.command("delete", "--force", name))
        shutil.rmtree(path)


def update(engine: Engine, name: str, unified: dict[str, str], status: int | None = 0) -> str:
    write("/run/resources.json", json.dumps({"unified": unified}))
    return quiet(*engine.command("update", "--resources", "/run/resources.json", name), status=status)


def values(group: str) -> dict[str, str]:
    return {key: read(f"{group}/{key}") for key in UNIFIED}


@test()
def versions() -> None:
    """For the record."""
    for command in (["runc", "--version"], ["crun", "--version"], ["podman", "--version"], ["containerd", "--version"]):
        figure(run(*command).stdout.split("\n", maxsplit=1)[0])


@test()
def keys_at_create_and_update() -> None:
    """All three files, with both engines and both drivers; the process in the container sees what holds for it."""
    for engine in ENGINES:
        with container(engine, "one", UNIFIED) as path:
            wait_for(lambda: read(f"{path}/out/effective"), f"{engine}: the container's look")  # noqa: B023
            equal(read(f"{path}/out/effective"), EFFECTIVE, f"{engine}: what the container sees")
            equal(values(engine.group("one")), UNIFIED, f"{engine}: at create")
            pid = json.loads(run(*engine.command("state", "one")).stdout)["pid"]
            equal(CGROUP + read(f"/proc/{pid}/cgroup").removeprefix("0::"), engine.group("one"), f"{engine}: its group")
            changed = {"cpu.hint": "background", "cpu.gang": "0", "cpu.headroom": "2.50"}
            update(engine, "one", changed)
            equal(values(engine.group("one")), changed, f"{engine}: after an update")
            # Nothing is lost by a later update of something else.
            write("/run/resources.json", json.dumps({"pids": {"limit": 50}}))
            quiet(*engine.command("update", "--resources", "/run/resources.json", "one"))
            equal(values(engine.group("one")), changed, f"{engine}: after an update of another resource")
        wait_for(lambda: not os.path.exists(engine.group("one")), f"{engine}: the end of the group")  # noqa: B023


@test()
def empty_value_changes_nothing() -> None:
    """An empty value is no write at all, so the kernel cannot refuse it. "inherit" is what takes a hint back."""
    for engine in ENGINES:
        with container(engine, "empty", {**UNIFIED}):
            update(engine, "empty", {"cpu.hint": ""})
            equal(values(engine.group("empty")), UNIFIED, f"{engine}: after an empty value")
            update(engine, "empty", {"cpu.hint": "inherit"})
            equal(read(f"{engine.group('empty')}/cpu.hint"), "inherit", str(engine))


@test()
def refused_at_create() -> None:
    """No container comes to be, and the error names the value."""
    for engine in ENGINES:
        for key, bad, reason in (("cpu.hint", "fastest", "invalid argument"),
                                 ("cpu.headroom", "101", "numerical result out of range"), ("cpu.gang", "2", "out of range")):
            path = bundle("bad", engine.place("bad"), {key: bad})
            text = quiet(*engine.command("run", "--detach", "--bundle", path, "bad"), status=None)
            has(text.lower(), reason)
            assert key in text or bad in text, f"{engine}: names neither {key} nor {bad}: {text}"
            assert run(*engine.command("state", "bad"), status=None).returncode, f"{engine}: there is a container"
            run(*engine.command("delete", "--force", "bad"), status=None)
            if engine == Engine("crun", systemd=False) and os.path.exists(engine.group("bad")):
                # It leaves the group, which has no processes.
                os.rmdir(engine.group("bad"))
            wait_for(lambda: not os.path.exists(engine.group("bad")), f"{engine}: the end of the group", 10)  # noqa: B023


@test()
def refused_at_update() -> None:
    """What was refused is not in force. What the engine wrote beside it may be: an update is not atomic."""
    for engine in ENGINES:
        with container(engine, "part", UNIFIED):
            text = update(engine, "part", {"cpu.hint": "fastest"}, status=None)
            has(text.lower(), "invalid argument")
            equal(values(engine.group("part")), UNIFIED, f"{engine}: after one refused key")
            update(engine, "part", {"cpu.gang": "0", "cpu.headroom": "200", "cpu.hint": "fastest"}, status=None)
            found = values(engine.group("part"))
            equal((found["cpu.hint"], found["cpu.headroom"]), (UNIFIED["cpu.hint"], UNIFIED["cpu.headroom"]),
                  f"{engine}: refused keys")
            assert found["cpu.gang"] in ("0", "1"), found
            # The same file with good values repairs it.
            update(engine, "part", UNIFIED)
            equal(values(engine.group("part")), UNIFIED, f"{engine}: repaired")


# ---- podman ----

IMAGE = "localhost/box"


def podman(*arguments: str, status: int | None = 0) -> str:
    if not os.path.exists("/run/box.tar"):
        run(str(HERE / "oci_image.py"), IMAGE, "/run/box.tar")
        quiet("podman", "load", "--input", "/run/box.tar")
    return quiet("podman", *arguments, status=status).strip()


def podman_group(name: str) -> str:
    """The group of a container's first process, as the kernel has it."""
    pid = podman("inspect", "--format", "{{.State.Pid}}", name)
    return CGROUP + read(f"/proc/{pid}/cgroup").removeprefix("0::")


def has_defaults() -> bool:
    """Does this podman know cgroup_conf in containers.conf? It takes any key there; its program has the name."""
    return b"cgroup_conf" in Path(shutil.which("podman") or "").read_bytes()


def needs_quadlet() -> None:
    generator = "/usr/lib/systemd/system-generators/podman-system-generator"
    needs(os.path.exists(generator), "this podman has no quadlets")


@contextlib.contextmanager
def podman_container(name: str, *options: str) -> Iterator[str]:
    """A running container; gives its group."""
    podman("run", "--detach", "--name", name, "--network", "none", *options, IMAGE)
    try:
        yield podman_group(name)
    finally:
        podman("rm", "--force", "--time", "0", name)


@test()
def podman_cgroup_conf() -> None:
    """On the command line; after a restart and after an update of something else, too."""
    for runtime in ("crun", "runc"):
        with podman_container("conf", "--runtime", runtime, "--cgroup-conf", "cpu.hint=tail_latency",
                              "--cgroup-conf", "cpu.headroom=10") as group:
            equal((read(f"{group}/cpu.hint"), read(f"{group}/cpu.headroom")), ("tail_latency", "10.00"), runtime)
            identity = podman("inspect", "--format", "{{.Id}}", "conf")
            inner = "/container" if runtime == "crun" else ""
            equal(group, f"{CGROUP}/machine.slice/libpod-{identity}.scope{inner}", runtime)
            equal(podman("exec", "conf", "cat", "/sys/fs/cgroup/cpu.hint.effective"), EFFECTIVE, runtime)
            podman("--runtime", runtime, "update", "--cpus", "0.5", "conf")
            equal(read(f"{group}/cpu.hint"), "tail_latency", f"{runtime}: after an update")
            podman("restart", "--time", "0", "conf")
            equal(read(f"{podman_group('conf')}/cpu.hint"), "tail_latency", f"{runtime}: after a restart")


@test()
def podman_refused_value() -> None:
    text = podman("run", "--name", "bad", "--network", "none", "--cgroup-conf", "cpu.hint=fastest", IMAGE, status=126)
    has(text.lower(), "cpu.hint", "invalid argument")
    podman("rm", "--force", "bad")


@test()
def podman_defaults_of_the_machine() -> None:
    """containers.conf; an option of a container comes before it."""
    needs(has_defaults(), "this podman has no cgroup_conf in containers.conf")
    path = "/etc/containers/containers.conf.d/hint.conf"
    write(path, '[containers]\ncgroup_conf = ["cpu.hint=background"]\n')
    try:
        with podman_container("default") as group:
            equal(read(f"{group}/cpu.hint"), "background")
        with podman_container("other", "--cgroup-conf", "cpu.hint=pack") as group:
            equal(read(f"{group}/cpu.hint"), "pack")
    finally:
        os.unlink(path)


@test()
def podman_pod() -> None:
    """A pod's slice takes a policy as any slice does; its containers inherit the hint."""
    podman("pod", "create", "--name", "pod", "--network", "none")
    try:
        with podman_container("member", "--pod", "pod") as group:
            pod = group.partition("/libpod-")[0]
            has(pod, "/machine.slice/machine-libpod_pod_")
            cgctl("set", pod.removeprefix(CGROUP), "hint=tail_latency", "headroom=5")
            equal(read(f"{pod}/cpu.headroom"), "5.00")
            equal(podman("exec", "member", "cat", "/sys/fs/cgroup/cpu.hint.effective"), EFFECTIVE)
    finally:
        podman("pod", "rm", "--force", "--time", "0", "pod")


# With the least weight, so that what starts beside it is no slower.
BUSY = "[Service]\nExecStart=/bin/sh -c 'while :; do :; done'\nCPUWeight=1\n"


def used(path: str) -> int:
    """Microseconds of CPU."""
    return int(re.search(r"^usage_usec (\d+)", read(f"{path}/cpu.stat"), re.MULTILINE)[1])


def share(path: str, seconds: float = 4.0) -> float:
    """Percent of one CPU that a group uses."""
    before, begin = used(path), time.monotonic()
    time.sleep(seconds)
    return (used(path) - before) / (time.monotonic() - begin) / 1e4


def demand(path: str) -> str:
    found = re.search(r"^demand (.*)", read(f"{path}/cpu.headroom.stat"), re.MULTILINE)
    assert found, f"{path} has no demand"
    return found[1]


@test()
def quadlet() -> None:
    """Properties in a quadlet's [Service] land on the service, so a headroom there binds the other services: one that is
    busy really gives way. The same as an option of podman's is inside of the service, and binds nobody."""
    needs_quadlet()
    unit("batch.service", BUSY)
    write("/etc/containers/systemd/web.container", f"[Container]\nImage={IMAGE}\nNetwork=none\n\n"
          "[Service]\nX-CPUHint=tail_latency\nX-CPUHeadroom=30\nCPUWeight=100\n")
    reload()
    podman("images")
    systemctl("start", "batch")
    before = share(group("batch"))
    assert before > 90, f"a busy loop alone had {before:.1f} % of the CPU"
    systemctl("start", "web")
    try:
        expect("web", "tail_latency")
        expect("web", "30.00", "cpu.headroom")
        pid = podman("inspect", "--format", "{{.State.Pid}}", "systemd-web")
        inside = CGROUP + read(f"/proc/{pid}/cgroup").removeprefix("0::")
        has(inside, "/system.slice/web.service/libpod-payload-")
        equal(read(f"{inside}/cpu.hint.effective"), EFFECTIVE, "in the container")
        wait_for(lambda: demand(group("batch")) == "30.00", "the demand on the neighbour")
        equal(demand(inside), "0.00", "the demand on the container itself")
        after = share(group("batch"))
        figure(f"a busy neighbour of a quadlet with X-CPUHeadroom=30 has {after:.1f} % of the CPU, {before:.1f} % before")
        assert 60 < after < 73, f"beside a headroom of 30 the busy neighbour had {after:.1f} % of the CPU"
        stat = read(f"{group('batch')}/cpu.stat")
        assert int(re.search(r"^headroom_capped_periods (\d+)", stat, re.MULTILINE)[1]) > 20, stat
    finally:
        systemctl("stop", "web")
    wait_for(lambda: demand(group("batch")) == "0.00", "the end of the demand")
    write("/etc/containers/systemd/web.container", f"[Container]\nImage={IMAGE}\nNetwork=none\n"
          "PodmanArgs=--cgroup-conf=cpu.headroom=30\n\n[Service]\nCPUWeight=100\n")
    reload()
    systemctl("start", "web")
    try:
        wait_for(lambda: podman("inspect", "--format", "{{.State.Pid}}", "systemd-web", status=None).isdigit(), "it")
        pid = podman("inspect", "--format", "{{.State.Pid}}", "systemd-web")
        inside = CGROUP + read(f"/proc/{pid}/cgroup").removeprefix("0::")
        equal(read(f"{inside}/cpu.headroom"), "30.00")
        time.sleep(1)
        equal(demand(group("batch")), "0.00", "the demand of a headroom inside of the service")
    finally:
        systemctl("stop", "web", "batch")
        os.unlink("/etc/containers/systemd/web.container")
        reload()


# ---- refused values, as the page has them ----

def said(text: str, group: str) -> str:
    """An engine's message without what differs each time: date, group, id."""
    text = re.sub(r'^(time="[^"]*" level=\w+ msg=|\S+Z: )', "", text, flags=re.MULTILINE).replace(group, "GROUP")
    return f"`` {re.sub('[0-9a-f]{64}', 'ID', ' '.join(text.replace(chr(92) + chr(34), chr(34)).split()))} ``"


def on_the_page(rows: list[tuple[str, str, str, str]]) -> None:
    """Engine, what was done, what it said and what is left are a row of the page's table of refused values."""
    section = read(str(HERE / "README.md")).split("\n## Refused values\n")[1].split("\n## ")[0]
    known = {" ".join(line.split()) for line in section.splitlines()}
    lines = [f"| {' | '.join(row)} |" for row in rows]
    missing = [line for line in lines if line not in known]
    assert not missing, "not on the page:\n" + "\n".join(missing)


@test()
def page_refused_values() -> None:
    """What runc and crun say and leave behind."""
    rows = []
    for engine in (one for one in ENGINES if not one.systemd):
        group, name = engine.group("no"), engine.program
        for key, bad in (("cpu.hint", "fastest"), ("cpu.headroom", "101")):
            path = bundle("no", engine.place("no"), {key: bad})
            text = quiet(*engine.command("run", "--detach", "--bundle", path, "no"), status=None)
            left = "an empty group" if os.path.exists(group) else "nothing"
            rows.append((name, f"create with {key} `{bad}`", said(text, group), left))
            run(*engine.command("delete", "--force", "no"), status=None)
            if os.path.exists(group):
                os.rmdir(group)
        with container(engine, "no", UNIFIED):
            text = update(engine, "no", {"cpu.hint": "fastest"}, status=None)
            rows.append((name, "update to cpu.hint `fastest`", said(text, group),
                         "what was" if values(group) == UNIFIED else "something else"))
            # Keys before and after the bad one. Each order of runc's map comes up in so many tries.
            left = set()
            for _ in range(40):
                update(engine, "no", UNIFIED)
                update(engine, "no", {"cpu.gang": "0", "cpu.headroom": "200", "cpu.hint": "pack"}, status=1)
                found = values(group)
                equal(found["cpu.headroom"], UNIFIED["cpu.headroom"], f"{engine}: the refused key")
                left.add(", ".join(f"{key} {found[key]}" for key in ("cpu.gang", "cpu.hint")))
            rows.append((name, "update to cpu.gang `0`, cpu.headroom `200`, cpu.hint `pack`", "as above",
                         left.pop() if len(left) == 1 else "any of the others, other ones each time"))
            # Is the bad value kept, and written again by an update of something else?
            write("/run/resources.json", json.dumps({"pids": {"limit": 50}}))
            text = quiet(*engine.command("update", "--resources", "/run/resources.json", "no"), status=None)
            rows.append((name, "then an update of another resource", said(text, group) if text else "nothing",
                         "as before" if values(group) == found else "something else"))
    text = podman("run", "--name", "no", "--network", "none", "--cgroup-conf", "cpu.hint=fastest", IMAGE, status=126)
    rows.append(("podman", "run with cpu.hint `fastest`, status 126", said(text, "/"), "a container that never ran"))
    podman("rm", "no")
    on_the_page(rows)


@test(boot=2, long=True)
def page_refused_without_the_files() -> None:
    """The second boot has cgroup_steer=0."""
    assert not os.path.exists(f"{CGROUP}/system.slice/cpu.hint"), "this kernel has the files"
    rows = []
    for engine in (one for one in ENGINES if not one.systemd):
        path = bundle("no", engine.place("no"), {"cpu.hint": "tail_latency"})
        text = quiet(*engine.command("run", "--detach", "--bundle", path, "no"), status=None)
        rows.append((engine.program, "create without the files", said(text, engine.group("no")),
                     "an empty group" if os.path.exists(engine.group("no")) else "nothing"))
    text = podman("run", "--name", "no", "--network", "none", "--cgroup-conf", "cpu.hint=pack", IMAGE, status=127)
    rows.append(("podman", "run without the files, status 127", said(text, "/"), "a container that never ran"))
    podman("rm", "no")
    on_the_page(rows)


# ---- many ----

@test()
def many_at_once() -> None:
    """None of them is without its policy."""
    engine = ENGINES[3]
    paths = {name: bundle(name, engine.place(name), UNIFIED, "exec sleep 1000000")
             for name in (f"many{i}" for i in range(MANY))}
    begin = time.monotonic()
    started = [subprocess.Popen(engine.command("run", "--detach", "--bundle", path, name), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for name, path in paths.items()]
    equal({process.wait() for process in started}, {0}, "statuses of crun")
    figure(f"{MANY} containers at once ({engine}): all run with their policy after {time.monotonic() - begin:.1f} s, "
           "virtual time")
    wrong = {name: found for name in paths if (found := values(engine.group(name))) != UNIFIED}
    equal(wrong, {}, "containers without their policy")
    for name in paths:
        run(*engine.command("delete", "--force", name))


# ---- containerd, by the container runtime interface ----

DOMAIN = "cgroup-steer.internal"
CONTAINERD = """\
version = 2
[plugins."io.containerd.nri.v1.nri"]
  disable = false
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/box:latest"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""
RULES = "allow:\n- keys: [hint, gang, gang.scope]\n- keys: [headroom]\n  maxHeadroom: 40%\n  scopes: [pod, node]\n"
PLUGIN = "cgroup-steer-nri.service"
BURSTABLE = f"{CGROUP}/kubepods.slice/kubepods-burstable.slice"


def needs_nri() -> None:
    needs("io.containerd.nri.v1.nri" in run("containerd", "config", "default").stdout, "this containerd has no NRI")


def connections() -> int:
    """How often the plugin, as it runs now, has found containerd."""
    since = systemctl("show", "-P", "InvocationID", PLUGIN)
    return run("journalctl", "-b", "-o", "cat", f"_SYSTEMD_INVOCATION_ID={since}").stdout.count("msg=synchronized")


def plugin_log() -> str:
    return run("journalctl", "-b", "-o", "cat", "-n", "20", "-u", PLUGIN, "-u", "containerd.service").stdout


def crictl(*arguments: str, status: int | None = 0) -> str:
    return quiet("crictl", *arguments, status=status).strip()


def containerd() -> None:
    """containerd with the image, and the plugin: they run."""
    if systemctl("is-active", "containerd", status=None) != "active":
        write("/etc/containerd/config.toml", CONTAINERD)
        write("/etc/crictl.yaml", "runtime-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 120\n")
        write("/etc/cgroup-steer-nri.yaml", RULES)
        systemctl("start", "containerd")
        if not os.path.exists("/run/box.tar"):
            run(str(HERE / "oci_image.py"), IMAGE, "/run/box.tar")
        run("ctr", "--namespace", "k8s.io", "images", "import", "/run/box.tar")
    systemctl("start", PLUGIN)
    wait_for(connections, "the plugin's connection")


@contextlib.contextmanager
def pod(name: str, annotations: dict[str, str]) -> Iterator[str]:
    """A running pod with no container yet; gives its id. Its group is called as the kubelet would."""
    write(f"/run/{name}.json", json.dumps({
        "metadata": {"name": name, "namespace": "prod", "uid": name, "attempt": 1}, "log_directory": "/run",
        "annotations": {f"{key}.{DOMAIN}{suffix}": value for (key, _, suffix), value in
                        ((entry.partition("@"), value) for entry, value in annotations.items())},
        "linux": {"cgroup_parent": f"kubepods-burstable-pod{name}.slice",
                  "security_context": {"namespace_options": {"network": 2}}}}))
    identity = crictl("runp", f"/run/{name}.json")
    try:
        yield identity
    finally:
        crictl("rmp", "--force", identity, status=None)


def create(pod_name: str, pod_id: str, name: str, status: int | None = 0) -> str:
    """A container of a pod; gives its id, or the error."""
    write(f"/run/{name}.container.json", json.dumps({
        "metadata": {"name": name}, "image": {"image": f"{IMAGE}:latest"}, "command": ["sleep", "1000000"], "linux": {}}))
    return crictl("create", pod_id, f"/run/{name}.container.json", f"/run/{pod_name}.json", status=status)


def start(pod_name: str, pod_id: str, name: str) -> tuple[str, str]:
    """A running container of a pod; gives its id and its group."""
    identity = create(pod_name, pod_id, name)
    crictl("start", identity)
    return identity, f"{BURSTABLE}/kubepods-burstable-pod{pod_name}.slice/cri-containerd-{identity}.scope"


@test()
def annotations_reach_the_container() -> None:
    """From annotations of a pod to the files of its group and of its containers' groups; the neighbours give way."""
    needs_nri()
    containerd()
    with pod("shop", {"hint": "tail_latency", "hint@/container.log": "background", "headroom": "20%"}) as shop, \
            pod("other", {}) as other:
        web, web_group = start("shop", shop, "web")
        _, log_group = start("shop", shop, "log")
        _, other_group = start("other", other, "lone")
        equal(read(f"{web_group}/cpu.hint"), "tail_latency")
        equal(crictl("exec", web, "cat", "/sys/fs/cgroup/cpu.hint.effective"), EFFECTIVE)
        equal(read(f"{log_group}/cpu.hint"), "background")
        equal(read(f"{other_group}/cpu.hint"), "inherit")
        shop_group = os.path.dirname(web_group)
        wait_for(lambda: read(f"{shop_group}/cpu.headroom") == "20.00", "the pod's headroom")
        wait_for(lambda: demand(other_group) == "20.00", "the demand on the other pod")
        equal(demand(web_group), "0.00", "the demand on the pod itself")
        # The container by its names and ids
        for name in ("container:shop/web", "container:prod/shop/web", web, web[:12]):
            has(cgctl("show", name), web_group.removeprefix(CGROUP), "tail_latency")
        text = create("shop", shop, "third", status=None)
        assert re.fullmatch("[0-9a-f]{64}", text), text
    with pod("wrong", {"hint": "tail_latncy"}) as wrong:
        has(create("wrong", wrong, "web", status=1), "tail_latncy", "did you mean 'tail_latency'")


@test()
def restarts_lose_nothing() -> None:
    """Without the plugin, containers start without policy; it makes up for that, and for what was changed meanwhile."""
    needs_nri()
    containerd()
    with pod("again", {"hint": "tail_latency", "headroom": "20%"}) as again:
        _, before = start("again", again, "before")
        systemctl("stop", PLUGIN)
        write(f"{before}/cpu.hint", "pack")
        _, without = start("again", again, "without")
        equal(read(f"{without}/cpu.hint"), "inherit", "without the plugin")
        systemctl("start", PLUGIN)
        end = time.monotonic() + 60
        while {read(f"{place}/cpu.hint") for place in (before, without)} != {"tail_latency"}:
            assert time.monotonic() < end, (f"changed meanwhile: {read(f'{before}/cpu.hint')}, without the plugin: "
                                            f"{read(f'{without}/cpu.hint')}\n{plugin_log()}")
            time.sleep(0.1)
        had = connections()
        systemctl("restart", "containerd")
        wait_for(lambda: connections() > had, "the plugin's connection to the new containerd")
        equal(read(f"{before}/cpu.hint"), "tail_latency", "after containerd's restart")
        equal(read(f"{os.path.dirname(before)}/cpu.headroom"), "20.00", "after containerd's restart")
        _, after = start("again", again, "after")
        equal(read(f"{after}/cpu.hint"), "tail_latency", "created after containerd's restart")


@test(long=True)
def many_of_a_pod_at_once() -> None:
    """By containerd and the plugin, eight clients at a time."""
    needs_nri()
    containerd()
    with pod("many", {"hint": "tail_latency", "gang": "1"}) as many:
        def one(number: int) -> str:
            identity = run("crictl", "create", many, f"/run/m{number}.container.json", "/run/many.json").stdout.strip()
            run("crictl", "start", identity)
            return identity
        for number in range(MANY):
            write(f"/run/m{number}.container.json", json.dumps({
                "metadata": {"name": f"m{number}"}, "image": {"image": f"{IMAGE}:latest"},
                "command": ["sleep", "1000000"], "linux": {}}))
        begin = time.monotonic()
        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(one, range(MANY)))
        figure(f"{MANY} containers of a pod by containerd and the plugin: {time.monotonic() - begin:.1f} s, virtual time")
        place = f"{BURSTABLE}/kubepods-burstable-podmany.slice/cri-containerd-"
        wrong = [identity for identity in found if (read(f"{place}{identity}.scope/cpu.hint"),
                                                    read(f"{place}{identity}.scope/cpu.gang")) != ("tail_latency", "1")]
        equal(wrong, [], "containers without their policy")


@test()
def page_containerd() -> None:
    needs_nri()
    containerd()
    systemctl("stop", PLUGIN)
    follow("containerd")
    systemctl("stop", PLUGIN)


@test()
def doctor_names_a_headroom_that_binds_nobody() -> None:
    """crun's group inside of a scope: `set`, `show` and `doctor` say so, and where the headroom belongs."""
    with podman_container("inner", "--cgroup-conf", "cpu.headroom=30") as inside:
        scope = os.path.dirname(inside.removeprefix(CGROUP))
        with podman_container("beside"):
            has(cgctl("doctor", status=None), f"{scope}/container: headroom=30.00", "binds nobody",
                f"cgctl set '{scope}' headroom=30.00")
            has(cgctl("show", "inner"), f"{scope}/container", "binds nobody", f"it belongs on {scope}")
            has(cgctl("set", "inner", "headroom=25"), f"it belongs on {scope}")
            # Where it belongs, it binds the container beside it.
            assert "binds nobody" not in cgctl("set", scope, "headroom=25")
            wait_for(lambda: demand(podman_group("beside")) == "25.00", "the demand on the container beside it")
            assert "binds nobody" not in cgctl("doctor", status=None)


# ---- the page ----

def follow(heading: str, leave_out: str = "") -> None:
    """The commands of a section do what they say, and print what is shown. Blocks with that text are left out."""
    os.makedirs("/run/page", exist_ok=True)
    blocks = [block for block in examples(heading)
              if not leave_out or not any(leave_out in command for command, _ in block)]
    assert blocks, f"no commands below {heading}"
    for command, printed in (entry for block in blocks for entry in block):
        equal([line.split() for line in quiet("sh", "-c", f"cd /run/page; {command}").splitlines()],
              [line.split() for line in printed], command)


def json_example(heading: str) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    section = read(str(HERE / "README.md")).split(f"\n## {heading}\n")[1]
    return json.loads(re.search(r"^```json\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1])


@test()
def page_runc() -> None:
    unified = json_example("runc and crun")["linux"]["resources"]["unified"]
    with container(ENGINES[0], "web", unified):
        follow("runc and crun")


@test()
def page_podman() -> None:
    podman("images")
    follow("podman", leave_out="" if has_defaults() else "cgroup_conf")


@test()
def page_quadlet() -> None:
    needs_quadlet()
    podman("images")
    unit("batch.service", SERVICE + "CPUWeight=100\n")
    reload()
    systemctl("start", "batch")
    follow("Quadlet")
    systemctl("stop", "web", "batch")
    os.unlink("/etc/containers/systemd/web.container")
    reload()


# ---- safety ----

# What a tenant can write: every value of every file of ours in every group that it reaches. It says what was taken.
ATTACK = r"""
cd /sys/fs/cgroup
mkdir -p leaf a a/b a/b/c 2>/dev/null
echo 0 >leaf/cgroup.procs
for d in . a a/b; do echo +cpu >$d/cgroup.subtree_control; done
while :; do :; done & echo $! >a/b/c/cgroup.procs
while :; do :; done & echo $! >leaf/cgroup.procs
hints="inherit none fork_affine fork_spread wake_affine wake_hold wake_wide scan_full scan_none slice_short slice_long
preempt_none pack energy tail_latency interactive noninteractive background efficient fastest"
try() { # FILE VALUE...
	file=$1; shift
	for d in . leaf a a/b a/b/c .. ../.. /sys/fs/cgroup/..; do
		for value; do echo "$value" 2>/dev/null >$d/$file && echo "$d/$file $value" >>/out/taken; done
	done 2>/dev/null
}
echo begun >/out/begun
while :; do
	try cpu.hint $hints
	try cpu.gang 0 1 2
	try cpu.gang.scope auto core llc node system
	try cpu.headroom 0 30 100 101
	try cpu.hint.effective none; try cpu.headroom.stat 0; try cpu.gang.effective 0
	echo 100 >a/cpu.headroom; echo 100 >a/b/c/cpu.headroom; echo 1 >a/cpu.gang; echo 1 >a/b/c/cpu.gang
	echo round >>/out/rounds
done
"""
TENANTS = ("red", "green", "blue")


@test()
def tenants_cannot_slow_each_other() -> None:
    """Three containers with a cgroup namespace and a writable tree of their own write all that there is to write, on all
    levels, while each keeps the CPU busy. Nothing of it shows outside: no demand, nobody capped, no hint, no gang, and
    each has its third of the time."""
    engine = ENGINES[1]
    with contextlib.ExitStack() as stack:
        paths = {name: stack.enter_context(container(engine, name, {}, ATTACK, writable=True)) for name in TENANTS}
        unit("neighbour.service", SERVICE + "CPUWeight=100\n")
        reload()
        systemctl("start", "neighbour")
        groups = {name: engine.group(name) for name in TENANTS}
        for name in TENANTS:
            wait_for(lambda: read(f"{paths[name]}/out/rounds").count("round") >= 2, f"{name}'s attack", 300)  # noqa: B023
        shares = {}
        before = {name: used(path) for name, path in groups.items()}
        begin = time.monotonic()
        while time.monotonic() < begin + 10:
            for name in (*TENANTS, "neighbour"):
                path = groups.get(name) or group("neighbour")
                equal(demand(path), "0.00", f"{name}: what others demand of it")
                stat = read(f"{path}/cpu.stat")
                for key, number in re.findall(r"^((?:headroom|gang|hint)_\w+) (\d+)", stat, re.MULTILINE):
                    equal(number, "0", f"{name}: {key} of its own group")
                equal(read(f"{path}/cpu.hint.effective"), "none", f"{name}'s hints")
                equal(read(f"{path}/cpu.headroom"), "0.00", f"{name}'s headroom")
                equal(read(f"{path}/cpu.gang"), "0", f"{name}'s gang")
            time.sleep(1)
        seconds = time.monotonic() - begin
        for name, path in groups.items():
            shares[name] = (used(path) - before[name]) / seconds / 1e4
        figure("three tenants that write all they can have " + ", ".join(f"{part:.1f} %" for part in shares.values()))
        assert max(shares.values()) - min(shares.values()) < 6, f"shares of the CPU: {shares}"
        for name in TENANTS:
            taken = set(read(f"{paths[name]}/out/taken").splitlines())
            # The attack is real: below, all is taken. Its own group's files are its owner's, and above there is nothing.
            for line in ("a/cpu.headroom 100", "a/b/c/cpu.headroom 100", "a/cpu.gang 1", "leaf/cpu.hint scan_none",
                         "a/b/cpu.hint background", "a/cpu.gang.scope system"):
                assert line in taken, f"{name} could not write {line}: {sorted(taken)}"
            equal([line for line in taken if not re.match("(leaf|a)/", line)], [], f"{name} wrote outside of its tree")
            assert not any(line.split()[-1] in ("fastest", "2", "101") for line in taken), f"{name}: nonsense was taken"
        systemctl("stop", "neighbour")


if __name__ == "__main__":
    main("containers")
