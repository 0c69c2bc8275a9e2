/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: where struct tick_sched has what tells how long a CPU was idle
 *
 * cpu.headroom reads it of every CPU in each period, and of some of them or all nine times in
 * between. Where it is by itself, that is three or four lines of a cache, some of which are
 * written with each tick. So it is put in one that is written only where a CPU begins or ends
 * to be idle, and by interrupts in between. Compiled out, nothing moves.
 */
#ifndef _LINUX_SCHED_STEER_TICK_H
#define _LINUX_SCHED_STEER_TICK_H

#include <linux/cache.h>

/*
 * steer_idle_line() is the first field of all, and those that are put beside it;
 * steer_idle_moved() is where they are otherwise.
 */
#ifdef CONFIG_CGROUP_STEER_HEADROOM
#define steer_idle_line(first, ...)	struct { first; __VA_ARGS__ } ____cacheline_aligned_in_smp
#define steer_idle_moved(...)
#else
#define steer_idle_line(first, ...)	first
#define steer_idle_moved(...)	__VA_ARGS__
#endif

#endif /* _LINUX_SCHED_STEER_TICK_H */
