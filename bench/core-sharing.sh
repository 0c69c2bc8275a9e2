#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# With what a service shares its cores, beside a side job under cpu.headroom. On a lab machine with two threads a core:
#   make lab TOPO=zen CMD="$(cat bench/core-sharing.sh)"
# For the service alone, and for each of `demands`, without and with `hint`: serve's own figures, and of the time that it
# ran (its last milliseconds, as many as a small trace buffer holds) the part in percent beside itself, beside the side
# job, and alone on the core. CPUs 2n and 2n + 1 are taken for the threads of a core. And how often the service's tasks
# passed over a CPU because another one of them was on its way there.
set -e
demands=${demands:-20 30} hint=${hint:-fork_spread wake_affine} load=${load:-40:0.4} warmup=${warmup:-0.2}
cgroup=/sys/fs/cgroup trace=/sys/kernel/tracing debug=/sys/kernel/debug
[ -e $trace/trace ] || mount -t tracefs none $trace
[ -e $debug/sched ] || mount -t debugfs none $debug
echo +cpu > $cgroup/cgroup.subtree_control
mkdir $cgroup/t
echo +cpu > $cgroup/t/cgroup.subtree_control
mkdir $cgroup/t/main $cgroup/t/side
capacity=$(serve --calibrate)
echo 64 > $trace/buffer_size_kb
echo 0 > $trace/tracing_on
echo 1 > $trace/events/sched/sched_switch/enable

passed_over() {
	sed -n 's/^headroom_claims_met //p' $debug/sched/steer
}

serving() {
	echo "$@"
	before=$(passed_over)
	: > $trace/trace
	echo 1 > $trace/tracing_on
	join $cgroup/t/main serve --capacity "$capacity" --load "$load" --warmup "$warmup"
	echo 0 > $trace/tracing_on
	echo "a CPU was passed over $(($(passed_over) - before)) times"
	awk '
function kind(comm) { return comm ~ /^serve/ ? "main" : comm ~ /^sidejob/ ? "side" : comm ~ /^swapper/ ? "idle" : "other" }
# What ran on the other thread is known from here on, and not from before what was overwritten of this one.
/^##### CPU [0-9]+ buffer started/ {
	core = int($3 / 2)
	delete runs[2 * core]
	delete runs[2 * core + 1]
}
/ sched_switch: / {
	for (f = 1; $f !~ /^\[/; f++) ;
	cpu = substr($f, 2) + 0
	for (; $f != "sched_switch:"; f++) now = $f + 0
	for (; $f !~ /^prev_comm=/; f++) ;
	was = kind(substr($f, 11))
	for (; $f !~ /^next_comm=/; f++) ;
	other = cpu % 2 ? cpu - 1 : cpu + 1
	core = int(cpu / 2)
	if (other in runs) {
		took = now - since[core]
		if (was == "main") beside[runs[other]] += took
		if (runs[other] == "main") beside[was] += took
	}
	since[core] = now
	runs[cpu] = kind(substr($f, 11))
	switches++
}
END {
	for (what in beside) all += beside[what]
	if (!all) { print "the trace has nothing of the service"; exit 1 }
	printf "%d switches; beside itself %.1f %%, the side job %.1f %%, nothing %.1f %%\n", switches,
		beside["main"] / all * 100, beside["side"] / all * 100, beside["idle"] / all * 100
}' $trace/trace
}

serving alone
join $cgroup/t/side sidejob --kind compute > /dev/null &
for demand in $demands; do
	for words in inherit "$hint"; do
		echo "$demand" > $cgroup/t/main/cpu.headroom
		echo "$words" > $cgroup/t/main/cpu.hint
		serving "headroom $demand, hint $words"
	done
done
