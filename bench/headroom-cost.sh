#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What cpu.headroom costs a period with many groups held back: time in its timer, and in its interrupts. On a lab machine:
#   make lab TOPO=zen CMD="$(cat bench/headroom-cost.sh)"
# `groups` busy loops, each in a group of its own, beside a group that demands 30 %. Times are the machine's, in us.
# With limit=max in front of it, the same for cpu.max: each group gets its part of 70 % of the CPUs. With parents=N the
# groups are those of N parents in turn, and each parent has a group that demands 30 %; groups=0 leaves them idle.
# In that group main=COMMAND runs, or nothing. A service that needs two fifths of a smaller machine, in four minutes:
#   make lab TOPO=1x1x4x2 CMD="groups=20; main='serve --load 40:9 --capacity '\$(serve --calibrate); $(cat bench/headroom-cost.sh)"
# Most interrupts are then sent as its threads leave a core to what is held back, and not by the timer.
# "Took" is what timers do before they look for CPUs to interrupt: clocks, arithmetic, the pool's lock. They measure it
# themselves, so that it has no event in it. With decisions=1 there is also the time until their first interrupt, with
# what the events take, of which there is one more for each interrupt then.
set -e
groups=${groups:-1000} parents=${parents:-1} seconds=${seconds:-0.5} limit=${limit:-headroom}
cgroup=/sys/fs/cgroup/cost trace=/sys/kernel/tracing
[ -e $trace/trace ] || mount -t tracefs none $trace
mkdir $cgroup
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
echo +cpu > $cgroup/cgroup.subtree_control
mkfifo /tmp/go
i=0
while [ $i -lt "$parents" ]; do
	mkdir $cgroup/p$i
	echo +cpu > $cgroup/p$i/cgroup.subtree_control
	mkdir $cgroup/p$i/main
	[ "$groups" != 0 ] || mkdir $cgroup/p$i/side
	(echo 0 > $cgroup/p$i/main/cgroup.procs; [ -z "$main" ] || read -r _ < /tmp/go || :; exec ${main:-sleep 1000} > /dev/null) &
	i=$((i + 1))
done
i=0
while [ $i -lt "$groups" ]; do
	side=$cgroup/p$((i % parents))/side$i
	mkdir $side
	[ $limit = headroom ] || echo $(($(nproc) * 70000 / groups)) 100000 > $side/cpu.max
	# A loop begins when the pipe is opened for writing, and so does "main".
	(echo 0 > $side/cgroup.procs; read -r _ < /tmp/go || while :; do :; done) &
	i=$((i + 1))
done
sleep 0.2
for file in $cgroup/p*/main/cpu.headroom; do [ $limit = max ] || echo 30 > "$file"; done
[ "$groups$main" = 0 ] || : > /tmp/go
sleep 0.3
for event in timer/hrtimer_expire_entry timer/hrtimer_expire_exit csd/csd_function_entry csd/csd_function_exit \
	${decisions:+csd/csd_queue_cpu} ${waits:+lock/contention_begin lock/contention_end} steer/steer_headroom_update; do
	echo 1 > $trace/events/$event/enable
done
sleep "$seconds"
echo 0 > $trace/tracing_on
awk -v decisions="$decisions" -v groups="$groups" -v parents="$parents" -v periods=$([ $limit = headroom ] || echo "$seconds" | awk '{ print $1 * 10 }') '
# What a timer interrupts on its own CPU is done at once, in the timer: it is counted as an interrupt, and only as one.
function ends(kind, key) {
	if (!((kind, key) in began)) return
	took = (stamp - began[kind, key]) * 1e6
	delete began[kind, key]
	if (kind == "timer") {
		took -= inside[cpu]
		delete in_timer[cpu]
	} else if (kind == "interrupts" && cpu in in_timer) {
		inside[cpu] += took
	}
	sum[kind] += took; count[kind]++
	on[kind, cpu] += took
	if (on[kind, cpu] > fullest[kind]) fullest[kind] = on[kind, cpu]
	if (took > most[kind]) most[kind] = took
}
/^#/ { next }
{ for (f = 1; f <= NF; f++) if ($f ~ /^[0-9]+\.[0-9]+:$/) { stamp = $f + 0; name = $(f + 1); cpu = $2; key = cpu $(f + 2); break } }
name == "hrtimer_expire_entry:" && /function=(steer_pool_timer|sched_cfs_(period|slack)_timer)/ {
	began["timer", key] = stamp
	if (decisions != "") began["decisions", cpu] = stamp
	in_timer[cpu] = 1
	inside[cpu] = 0
}
name == "csd_queue_cpu:" { ends("decisions", cpu) }
name == "hrtimer_expire_exit:" && ("timer", key) in began { ends("decisions", cpu); ends("timer", key) }
name == "contention_begin:" && /SPIN/ {
	where[key] = cpu in in_timer ? "waits in timers" : cpu in in_interrupt ? "waits in interrupts" : "waits elsewhere"
	began[where[key], key] = stamp
}
name == "contention_end:" { ends(where[key], key) }
name == "csd_function_entry:" && /func=(steer_kicked|__cfsb_csd_unthrottle)/ { began["interrupts", key] = stamp; in_interrupt[cpu] = 1 }
name == "csd_function_exit:" { ends("interrupts", key); delete in_interrupt[cpu] }
name == "steer_headroom_update:" {
	periods++
	last = $0
	if (sub(/^.* took=/, "")) {
		decided += $0 / 1000
		if ($0 / 1000 > decided_most) decided_most = $0 / 1000
	}
}
END {
	for (kind in sum)
		printf "%s: %.1f us a period, %d calls of %.2f us in %d periods, the longest %.0f us, %.0f us on one CPU\n", kind,
			sum[kind] / (periods ? periods : 1), count[kind], sum[kind] / count[kind], periods, most[kind], fullest[kind]
	if (last == "") exit
	printf "took: %.1f us a period, at most %.1f\n", decided / periods, decided_most
	sub(/^.*cgroup=/, "cgroup=", last)
	print groups " busy groups of " parents " parents; the last period: " last
}' $trace/trace
