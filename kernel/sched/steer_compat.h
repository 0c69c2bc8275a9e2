/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: what differs between kernel versions and configurations.
 *
 * The mechanism files use the names below and know no version. Known range:
 * 6.12 (Debian's stable updates of it) and later.
 */
#ifndef _KERNEL_SCHED_STEER_COMPAT_H
#define _KERNEL_SCHED_STEER_COMPAT_H

#include <linux/kernel_stat.h>
#include <linux/tick.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "cgroup steer needs Linux 6.12 or later"
#endif

/* 6.14 renamed the counters of SCHED_IDLE tasks. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define steer_cfs_nr_idle(cfs_rq)	READ_ONCE((cfs_rq)->h_nr_idle)
#else
#define steer_cfs_nr_idle(cfs_rq)	READ_ONCE((cfs_rq)->idle_h_nr_running)
#endif

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

/*
 * For how long a CPU has been idle since boot, waiting for I/O or not [ns].
 * Without tickless idle, as ticks saw it.
 */
static inline u64 steer_idle_clock(int cpu)
{
	u64 idle = get_cpu_idle_time_us(cpu, NULL);
	u64 iowait = get_cpu_iowait_time_us(cpu, NULL);

	if (idle == -1ULL || iowait == -1ULL)
		return READ_ONCE(kcpustat_cpu(cpu).cpustat[CPUTIME_IDLE]) +
		       READ_ONCE(kcpustat_cpu(cpu).cpustat[CPUTIME_IOWAIT]);
	return (idle + iowait) * NSEC_PER_USEC;
}

#endif /* _KERNEL_SCHED_STEER_COMPAT_H */
