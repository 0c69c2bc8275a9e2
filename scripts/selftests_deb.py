#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A Debian package of the kselftests: steer-selftests, for any machine that runs our kernel.

They are built and laid out by the kernel's own `make install` of selftests, with its runner, and linked statically: the
package fits every Debian release. The command steer-selftests runs them, and fails when one does.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import debian_package
import foreign
import release_version
import tree
from common import ROOT, Target, locked, run_logged, run_main
from kbuild import environment

PLACE = "usr/libexec/steer-selftests"
COMMAND = f"""\
#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run the kselftests of cpu.hint, cpu.gang and cpu.headroom.
# usage: steer-selftests [options of run_kselftest.sh, such as -t steer:wake_test, or -l to list them]
# The exit status is 1 when a test has failed, and 2 when none was run.
[ "$(id -u)" = 0 ] || {{ echo "steer-selftests: only root can make cgroups as the tests do" >&2; exit 2; }}
output=$(mktemp) || exit 2
trap 'rm -f "$output"' EXIT
trap 'exit 2' HUP INT TERM
/{PLACE}/run_kselftest.sh "$@" 2>&1 | tee "$output"
case " $* " in *" -l "* | *" -h "*) exit 0 ;; esac
if grep -q '^not ok ' "$output"; then
	echo "steer-selftests: failed:" >&2
	sed -n 's/^not ok [0-9]* selftests: /  /p' "$output" >&2
	exit 1
fi
grep -q '^ok ' "$output" || {{ echo "steer-selftests: no test was run" >&2; exit 2; }}
"""
DESCRIPTION = """\
kselftests of CPU policies for cgroups
The tests of cpu.hint, cpu.gang and cpu.headroom that the kernel's source has in
tools/testing/selftests/steer, with the runner of kselftests. As root, the
command steer-selftests runs them on the kernel that is booted: for a quarter of
an hour, CPUs are busy and cgroups come and go, so not on a machine that serves.
Groups that have a policy already make some tests fail."""


def fields(version: str, arch: str) -> dict[str, str]:
    return {"Package": "steer-selftests", "Version": version, "Architecture": arch,
            "Maintainer": debian_package.MAINTAINER, "Section": "kernel", "Priority": "optional",
            # The runner's helpers are written in Perl; what they need of it is in each Debian.
            "Depends": "perl-base", "Description": DESCRIPTION}


def build(target: Target) -> Path:
    with locked(target.build / "lock"):
        tree.prepare(target)
    root, objects = ROOT / "build/selftests-deb", target.build / target.arch / "selftests-deb"
    for old in (root, objects):
        shutil.rmtree(old, ignore_errors=True)
    objects.mkdir(parents=True)
    run_logged(["make", "-C", target.tree / "tools/testing/selftests", "TARGETS=steer", "FORCE_TARGETS=1",
                f"OUTPUT={objects}", f"CROSS_COMPILE={target.cross_compile}", "USERLDFLAGS=-static",
                f"INSTALL_PATH={root / PLACE}", "install"],
               target.build / target.arch / "selftests-deb.log", "building selftests for a package", env=environment())
    command = root / "usr/bin/steer-selftests"
    command.parent.mkdir(parents=True)
    command.write_text(COMMAND, encoding="utf-8")
    command.chmod(0o755)
    version = release_version.of_packages(os.environ)
    return debian_package.build(root, fields(version, foreign.DEBIAN_ARCH[target.arch]), ROOT / "build")


def main() -> None:
    print(f"  package: {build(Target.from_environment()).relative_to(ROOT)}")


if __name__ == "__main__":
    run_main(main)
