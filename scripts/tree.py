#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make build/<KVER>/tree: Debian's kernel source with the hooks applied and this repository laid over it.

build/<KVER>/pristine is unpacked once for each version of the Debian package and never modified. The tree is a
hard-linked copy of it in which only the files that hooks or overlay own are replaced, each by rename. A file keeps
its time stamp while its content stays the same, so kernel builds are incremental.

build/<KVER>/ancestors/tree is the same with hooks/<KVER>/ancestors applied on top: rules that ours are compared with.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from common import ANCESTORS, ROOT, Fail, Progress, Target, capture, replace_file, run_main

# Directory in the repository -> directory in the kernel tree.
LAB_DRIVER = "steer-lab"
OVERLAY = {"bench/lab/kernel": LAB_DRIVER, "kernel": "kernel", "include": "include", "Documentation": "Documentation",
           "selftests/steer": "tools/testing/selftests/steer"}


@dataclass
class HookReport:
    """How one hook applied: the files it touches and the hunks that were found at other lines than recorded."""

    name: str
    files: list[str]
    offsets: list[str] = field(default_factory=list)


def package_version(kver: str) -> str:
    return capture(["dpkg-query", "-W", "-f", "${Version}", f"linux-source-{kver}"]).strip()


def tested_with(hooks: Path) -> str:
    path = hooks / "tested-with"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else "not recorded"


def read_series(hooks: Path) -> list[Path]:
    series = hooks / "series"
    names = [line.split("#")[0].strip() for line in series.read_text(encoding="utf-8").splitlines()]
    result = [hooks / name for name in names if name]
    for path in result:
        if not path.is_file():
            raise Fail(f"{series}: lists '{path.name}', which does not exist in {hooks}")
    for stray in sorted(set(hooks.glob("*.patch")) - set(result)):
        raise Fail(f"{stray}: is not listed in {series.name}; list it or remove it")
    return result


def touched_files(patch: str, name: str) -> list[str]:
    """The files that a patch changes. Hooks only change files: new ones belong into the overlay."""
    old = re.findall(r"^--- (\S+)", patch, re.MULTILINE)
    new = re.findall(r"^\+\+\+ (\S+)", patch, re.MULTILINE)
    if not new or len(old) != len(new):
        raise Fail(f"{name}: not a unified diff: {len(old)} '---' lines and {len(new)} '+++' lines")
    for before, after in zip(old, new):
        if before == "/dev/null" or after == "/dev/null":
            raise Fail(f"{name}: creates or deletes a file ({before} -> {after}); "
                       "hooks only change existing files, new files belong into the overlay")
    return [re.sub(r"^[^/]+/", "", path) for path in new]


def apply_hooks(hooks: Path, source: Path, work: Path, version: str) -> list[HookReport]:
    """Apply the series to copies, in `work`, of the files of `source` that it touches."""
    shutil.rmtree(work, ignore_errors=True)
    reports = []
    for hook in read_series(hooks):
        text = hook.read_text(encoding="utf-8")
        report = HookReport(hook.name, touched_files(text, hook.name))
        for name in report.files:
            copy = work / name
            if copy.exists():
                continue
            if not (source / name).is_file():
                raise Fail(f"hook {hook.name}: changes {name}, which {source.name} does not have "
                           f"(linux-source {version}; last known to apply to {tested_with(hooks)})")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, copy)
        result = subprocess.run(["patch", "-p1", "--fuzz=0", "--forward", "--no-backup-if-mismatch",
                                 "-i", str(hook), "-d", str(work)],
                                capture_output=True, text=True, check=False)
        if result.returncode:
            raise Fail(hook_failure(hook, hooks, version, work, result.stdout))
        current = ""
        for line in result.stdout.splitlines():
            if match := re.match(r"patching file '?(\S+?)'?$", line):
                current = match.group(1)
            elif "offset" in line:
                report.offsets.append(f"{current}: {line.strip()}")
        reports.append(report)
    return reports


def hook_failure(hook: Path, hooks: Path, version: str, work: Path, output: str) -> str:
    """Say all that is needed to mend a hook: which, where, the hunk, and against what it was made."""
    rejects = sorted(work.rglob("*.rej"))
    files = [str(path.relative_to(work).with_suffix("")) for path in rejects]
    return "\n".join([
        f"hook {hook.name} does not apply to linux-source {version}",
        f"  file: {', '.join(files) or 'none named; patch said: ' + output.strip()}",
        f"  last known to apply to: {tested_with(hooks)}",
        "  rejected:",
        *(f"    {line}" for path in rejects for line in path.read_text(encoding="utf-8").splitlines()),
        f"What to do: open the file in {work} (with the hooks before this one applied), find where these lines went,",
        f"make the context in {hook} match, and run 'make check-hooks'.",
    ])


def overlay_files(root: Path) -> dict[str, Path]:
    """Path in the kernel tree -> file in the repository."""
    result: dict[str, Path] = {}
    for where, target in OVERLAY.items():
        for path in sorted((root / where).rglob("*")):
            if path.is_file() and not path.name.startswith(".") and not path.name.endswith(("~", ".orig", ".rej")):
                result[f"{target}/{path.relative_to(root / where)}"] = path
    return result


def unpack(target: Target, version: str) -> None:
    """Unpack the Debian source, unless this version of it is already there."""
    stamp = target.build / "pristine.version"
    if target.pristine.is_dir() and stamp.is_file() and stamp.read_text() == version:
        return
    archive = Path(f"/usr/src/linux-source-{target.kver}.tar.xz")
    if not archive.is_file():
        raise Fail(f"{archive} is missing although linux-source-{target.kver} is installed; "
                   f"reinstall it: apt-get install --reinstall linux-source-{target.kver}")
    stamp.unlink(missing_ok=True)
    work = target.build / "pristine.new"
    for old in (work, target.pristine, target.tree):
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir(parents=True)
    progress = Progress(f"unpacking linux-source-{target.kver} {version}")
    with subprocess.Popen(["tar", "-xvf", str(archive), "--strip-components=1", "-C", str(work)],
                          stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        count = 0
        for count, _ in enumerate(process.stdout, 1):
            progress.update(f"{count} files")
    if process.returncode:
        raise Fail(f"tar could not unpack {archive} (status {process.returncode})")
    progress.finish(f"{count} files")
    work.rename(target.pristine)
    stamp.write_text(version)


def write_changes(tree: Path, pristine: Path, desired: dict[str, bytes], managed: set[str]) -> int:
    """Make the managed files of the tree what they should be; returns how many changed."""
    changed = 0
    for name, content in desired.items():
        path = tree / name
        if not path.is_file() or path.read_bytes() != content:
            source = pristine / name
            replace_file(path, content, source.stat().st_mode & 0o777 if source.is_file() else 0o644)
            changed += 1
    for name in managed - desired.keys():
        # A copy, not a link: the time stamp has to be new for make to see it.
        if (pristine / name).is_file():
            replace_file(tree / name, (pristine / name).read_bytes(), (pristine / name).stat().st_mode & 0o777)
        else:
            (tree / name).unlink(missing_ok=True)
        changed += 1
    return changed


def lay(target: Target, tree: Path, desired: dict[str, bytes]) -> int:
    """Make `tree` a copy of pristine with these files in place of its own; returns how many of them changed."""
    manifest = tree.with_suffix(".json")
    if not tree.is_dir():
        copy = tree.with_suffix(".new")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-al", str(target.pristine), str(copy)], check=True)
        copy.rename(tree)
        manifest.unlink(missing_ok=True)
    managed = set(json.loads(manifest.read_text())) if manifest.is_file() else set()
    # Recorded before anything is written: an interrupted run may leave fewer files than listed, never more.
    manifest.write_text(json.dumps(sorted(managed | desired.keys())))
    changed = write_changes(tree, target.pristine, desired, managed)
    manifest.write_text(json.dumps(sorted(desired)))
    return changed


def prepare(target: Target) -> list[HookReport]:
    """Bring pristine and tree up to date with the Debian package, the hooks and the overlay."""
    version = package_version(target.kver)
    unpack(target, version)
    hooks = ROOT / "hooks" / target.kver
    work = target.build / "hooked"
    reports = apply_hooks(hooks, target.pristine, work, version)
    desired = {name: (work / name).read_bytes() for report in reports for name in report.files}
    for name, path in overlay_files(ROOT).items():
        if (target.pristine / name).exists():
            raise Fail(f"{path.relative_to(ROOT)}: linux-source {version} has this file already; "
                       f"change it with a hook in hooks/{target.kver} instead of covering it")
        desired[name] = path.read_bytes()
    if changed := lay(target, target.tree, desired):
        print(f"  tree: {changed} files updated ({len(reports)} hooks on linux-source {version})", flush=True)
    return reports


def apply_ancestors(target: Target) -> list[HookReport]:
    """Apply the rules of the ancestors to the tree, which is up to date, in ancestors/hooked. A kernel version need not
    have them: configurations of benchmarks that need them are then skipped."""
    hooks = ROOT / "hooks" / target.kver / ANCESTORS
    if not hooks.is_dir():
        return []
    return apply_hooks(hooks, target.tree, target.ancestors / "hooked", package_version(target.kver))


def prepare_ancestors(target: Target) -> list[HookReport]:
    """Bring both trees up to date."""
    prepare(target)
    reports = apply_ancestors(target)
    # As it is in the tree, which prepare() has just written.
    desired = {name: (target.tree / name).read_bytes() for name in json.loads((target.build / "tree.json").read_text())}
    desired |= {name: (target.ancestors / "hooked" / name).read_bytes() for report in reports for name in report.files}
    if changed := lay(target, target.ancestors / "tree", desired):
        print(f"  tree: {changed} files updated with the rules of the ancestors ({len(reports)} patches)", flush=True)
    return reports


def main() -> None:
    target = Target.from_environment()
    prepare(target)
    print(f"  tree: {target.tree.relative_to(ROOT)} is up to date")


if __name__ == "__main__":
    run_main(main)
