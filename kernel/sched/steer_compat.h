/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: what differs between kernel versions and configurations.
 *
 * The mechanism files use the names below and know no version. Known range:
 * 6.12 (Debian's stable updates of it) and later.
 */
#ifndef _KERNEL_SCHED_STEER_COMPAT_H
#define _KERNEL_SCHED_STEER_COMPAT_H

#include <linux/energy_model.h>
#include <linux/hrtimer.h>
#include <linux/kernel_stat.h>
#include <linux/tick.h>
#include <linux/version.h>

#ifdef CONFIG_NO_HZ_COMMON
#include "../time/tick-internal.h"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "cgroup steer needs Linux 6.12 or later"
#endif

/* 6.14 renamed the counters of SCHED_IDLE tasks. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define steer_cfs_nr_idle(cfs_rq)	READ_ONCE((cfs_rq)->h_nr_idle)
#else
#define steer_cfs_nr_idle(cfs_rq)	READ_ONCE((cfs_rq)->idle_h_nr_running)
#endif

/* available_idle_cpu() without its two calls: most wakeups in a hinted group ask it once. */
static __always_inline bool steer_available_idle_cpu(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	if (rcu_access_pointer(rq->curr) != rq->idle || READ_ONCE(rq->nr_running))
		return false;
	return !READ_ONCE(rq->ttwu_pending) && !vcpu_is_preempted(cpu);
}

/*
 * Tasks that want the CPU: neither those of a delayed dequeue nor SCHED_IDLE
 * ones, which may be both, so the sum can be below 0.
 */
static inline int steer_nr_wanting(struct rq *rq)
{
	unsigned int delayed = READ_ONCE(rq->cfs.h_nr_queued) -
			       READ_ONCE(rq->cfs.h_nr_runnable);

	return READ_ONCE(rq->nr_running) - delayed - steer_cfs_nr_idle(&rq->cfs);
}

/* 6.13 told the task that is charged from the one that executes. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define steer_rq_donor(rq)	rcu_dereference_raw((rq)->donor)
#else
#define steer_rq_donor(rq)	rcu_dereference_raw((rq)->curr)
#endif

/* 6.13 sets up a timer by one call; the other one is gone since 6.15. */
static inline void steer_hrtimer_setup(struct hrtimer *timer,
				       enum hrtimer_restart (*function)(struct hrtimer *timer),
				       enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = function;
#endif
}

/* Is this queue throttled by cpu.max, or a group above it? Readable without lock. */
#ifdef CONFIG_CFS_BANDWIDTH
#define steer_cfs_throttled(cfs_rq)	READ_ONCE((cfs_rq)->throttle_count)
#else
#define steer_cfs_throttled(cfs_rq)	((void)(cfs_rq), 0)
#endif

#ifdef CONFIG_SCHED_SMT
#define steer_core_mask(cpu)		cpu_smt_mask(cpu)
#else
#define steer_core_mask(cpu)		cpumask_of(cpu)
#endif

#ifdef CONFIG_UCLAMP_TASK
#define steer_util_min(p)		uclamp_eff_value(p, UCLAMP_MIN)
#define steer_util_max(p)		uclamp_eff_value(p, UCLAMP_MAX)
#else
#define steer_util_min(p)		((void)(p), 0UL)
#define steer_util_max(p)		((void)(p), (unsigned long)SCHED_CAPACITY_SCALE)
#endif

#ifdef CONFIG_CGROUP_STEER_ENERGY
/* What a unit of utilisation costs at the level that gives this performance; under RCU. */
static inline unsigned long steer_em_cost(struct em_perf_domain *em, unsigned long performance)
{
	struct em_perf_state *states = rcu_dereference(em->em_table)->state;
	int level;

	/* 6.13 limits the levels that may be taken. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	level = em_pd_get_efficient_state(states, em, performance);
#else
	level = em_pd_get_efficient_state(states, em->nr_perf_states, performance, em->flags);
#endif
	return states[level].cost;
}
#endif

#ifdef CONFIG_NO_HZ_COMMON
/* One line of a cache to read, see <linux/sched/steer_tick.h>; lockdep makes it longer. */
static_assert(!IS_ENABLED(CONFIG_CGROUP_STEER_HEADROOM) || IS_ENABLED(CONFIG_DEBUG_LOCK_ALLOC) ||
	      offsetofend(struct tick_sched, iowait_sleeptime) -
	      offsetof(struct tick_sched, flags) <= 64);
/* It begins where a line does. */
static_assert(!IS_ENABLED(CONFIG_CGROUP_STEER_HEADROOM) || !IS_ENABLED(CONFIG_SMP) ||
	      __alignof__(struct tick_sched) >= SMP_CACHE_BYTES);

/*
 * The clock of tickless idle, read once: get_cpu_idle_time_us() and
 * get_cpu_iowait_time_us() each ask what time it is, and tell apart what is a sum here.
 */
static inline bool steer_tickless_idle(int cpu, u64 now, u64 *idle, s64 *spell)
{
	struct tick_sched *ts = tick_get_tick_sched(cpu);
	u64 changed, sum;
	unsigned int seq;
	s64 lasted;
	bool active;

	if (!tick_nohz_active)
		return false;
	do {
		seq = read_seqcount_begin(&ts->idle_sleeptime_seq);
		sum = ktime_to_ns(ts->idle_sleeptime + ts->iowait_sleeptime);
		changed = ktime_to_ns(ts->idle_entrytime);
		active = READ_ONCE(ts->flags) & TS_FLAG_IDLE_ACTIVE;
	} while (read_seqcount_retry(&ts->idle_sleeptime_seq, seq));
	/* It may have changed since @now. */
	lasted = now - min(changed, now);
	*idle = active ? sum + lasted : sum;
	*spell = active ? lasted : -lasted;
	return true;
}

/* Does the idle clock show what it does for sure, and not only what ticks have seen? */
static inline bool steer_idle_clock_exact(void)
{
	return tick_nohz_active;
}
#else
static inline bool steer_idle_clock_exact(void)
{
	return false;
}

static inline bool steer_tickless_idle(int cpu, u64 now, u64 *idle, s64 *spell)
{
	return false;
}
#endif

/*
 * For how long a CPU had been idle at @now of CLOCK_MONOTONIC, waiting for I/O or not
 * [ns]: it was running its idle task, and no interrupt. @spell is for how long it has been
 * idle without a break or, negative, not been idle. Without tickless idle, as ticks saw it, and 0.
 */
static inline u64 steer_idle_clock(int cpu, u64 now, s64 *spell)
{
	u64 idle;

	if (steer_tickless_idle(cpu, now, &idle, spell))
		return idle;
	*spell = 0;
	return READ_ONCE(kcpustat_cpu(cpu).cpustat[CPUTIME_IDLE]) +
	       READ_ONCE(kcpustat_cpu(cpu).cpustat[CPUTIME_IOWAIT]);
}

#endif /* _KERNEL_SCHED_STEER_COMPAT_H */
