#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# How a service with a cpu.headroom begins while a side job has all the CPU that it may have. On a machine of the lab:
#   make lab TOPO=zen CMD="$(cat bench/service-begins.sh)"
# `rounds` times for each word of cpu.hint in `hints` (a comma between two at once): the mean and p99 of all requests of
# the first 0.3 s, which are at a load of 40 % from the first moment on, and p99 in each tenth of a second, in us.
set -e
demand=${demand:-20} hints=${hints:-inherit fork_spread,wake_affine} rounds=${rounds:-3} load=${load:-40:0.3}
cgroup=/sys/fs/cgroup
echo +cpu > $cgroup/cgroup.subtree_control
mkdir $cgroup/t
echo +cpu > $cgroup/t/cgroup.subtree_control
mkdir $cgroup/t/main $cgroup/t/side
capacity=$(serve --calibrate)

begins() {
	# Until the side job has what there is.
	sleep 0.3
	join $cgroup/t/main serve --capacity "$capacity" --load "$load" --warmup 0 --json | tr -d ' \n' |
		sed 's/.*"mean":\([^,]*\),.*"p99":\([^,]*\),.*"p99_us":\[\([^]]*\)\].*/mean \1, p99 \2; in time \3/'
	echo "; $*"
}

begins alone
join $cgroup/t/side sidejob --kind compute > /dev/null &
echo "$demand" > $cgroup/t/main/cpu.headroom
for words in $hints; do
	echo "$words" | tr , ' ' > $cgroup/t/main/cpu.hint
	round=0
	while [ $((round += 1)) -le "$rounds" ]; do
		begins "headroom $demand, hint $words"
	done
done
