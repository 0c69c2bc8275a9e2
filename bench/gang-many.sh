#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What cpu.gang costs where it is set on many groups: two OpenMP programs that meet at barriers, as two gangs on the same
# CPUs, before and after it is set on `groups` others; and how long that takes, and how much memory. On a lab machine:
#   make lab TOPO=1x1x4x2@20 CMD="$(cat bench/gang-many.sh)"
# Times are the machine's, so in slow motion @20 they are twenty times as long as what it models.
set -e
groups=${groups:-10000} tries=${tries:-3} cgroup=/sys/fs/cgroup/many
export OMP_WAIT_POLICY=active
mkdir $cgroup
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
echo +cpu > $cgroup/cgroup.subtree_control
mkdir $cgroup/two $cgroup/others
echo +cpu > $cgroup/two/cgroup.subtree_control
echo +cpu > $cgroup/others/cgroup.subtree_control
two() {
	try=0
	while [ $try -lt "$tries" ]; do
		begin=$(($(observe --now) + 1000))
		for name in a b; do
			mkdir $cgroup/two/$name
			echo 1 > $cgroup/two/$name/cpu.gang
			join $cgroup/two/$name ompbarrier --units 80 --begin $begin --runtime 1 --json > /tmp/many.$name &
		done
		wait
		rmdir $cgroup/two/a $cgroup/two/b
		awk -v when="$1" -F '"rate":' '{ sum += $2 } END { printf "%s: %.0f barriers a second, of both\n", when, sum }' \
			/tmp/many.a /tmp/many.b
		try=$((try + 1))
	done
}
kernel_memory() { awk '$1 == "SUnreclaim:" || $1 == "Percpu:" { sum += $2 } END { print sum }' /proc/meminfo; }
two before
cd $cgroup/others
seq "$groups" | xargs mkdir
memory=$(kernel_memory) began=$(observe --now)
for group in [0-9]*; do
	echo 1 > "$group/cpu.gang"
done
echo "cpu.gang is 1 in $groups more groups after $(($(observe --now) - began)) ms, with $(($(kernel_memory) - memory)) KiB"
began=$(observe --now)
echo 1 > $cgroup/others/cpu.gang
echo "above all of them: $(($(observe --now) - began)) ms"
echo 0 > $cgroup/others/cpu.gang
two after
