/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: the contract between the scheduler and the steer mechanisms.
 *
 * Callers need no #ifdef: without CONFIG_CGROUP_STEER every function here is an
 * empty inline, and the callers compile to the text they had before. With it,
 * each starts with a static branch that is off until some group has a hint.
 */
#ifndef _KERNEL_SCHED_STEER_H
#define _KERNEL_SCHED_STEER_H

#include <linux/jump_label_ratelimit.h>
#include <linux/sched/steer.h>

#include "steer_headroom.h"
#include "steer_gang.h"
#include "steer_numa_rules.h"

struct rq;
struct sched_domain;
struct sched_group;
struct seq_file;

#ifdef CONFIG_CGROUP_STEER

/*
 * Counters of a group: how often a category was followed, and why not. They
 * count the tasks that are directly in the group. cpu.stat has the keys.
 */
enum steer_counter {
	STEER_NR_FORK_FOLLOWED,
	STEER_NR_FORK_FULL,
	STEER_NR_FORK_AFFINITY,
	STEER_NR_WAKE_FOLLOWED,
	STEER_NR_WAKE_SAME_LLC,
	STEER_NR_WAKE_FULL,
	STEER_NR_WAKE_AFFINITY,
	STEER_NR_WAKE_IRQ,
	STEER_NR_WAKE_TURNS,
	STEER_NR_TURNS_FOLLOWED,
	STEER_NR_REACH_FOLLOWED,
	STEER_NR_REACH_FULL,
	STEER_NR_SCAN_FOLLOWED,
	STEER_NR_SCAN_FULL,
	STEER_NR_SLICE_FOLLOWED,
	STEER_NR_SLICE_CUSTOM,
	STEER_NR_PREEMPT_FOLLOWED,
	STEER_NR_PACK_FOLLOWED,
	STEER_NR_PACK_FULL,
	STEER_NR_ENERGY_FOLLOWED,
	STEER_NR_ENERGY_FULL,
	STEER_NR_ENERGY_UNAVAILABLE,
	STEER_NR_ENERGY_MOVED,
	STEER_NR_ENERGY_HELD,
	STEER_NR_BALANCE_HELD,
	STEER_NR_BALANCE_OVERLOADED,
	STEER_NR_BALANCE_GAVE_UP,
	STEER_NR_NUMA_SPREAD,
	STEER_NR_NUMA_TOGETHER,
	STEER_NR_COUNTERS
};

struct steer_stats {
	u64 count[STEER_NR_COUNTERS];
};

extern struct static_key_false_deferred steer_hint_key;

/* Effective words of @p's group; REQUIRES: p->pi_lock or the rq lock. */
static __always_inline u32 steer_hint(struct task_struct *p)
{
	return READ_ONCE(task_group(p)->steer.hint);
}

/* A short request is a quarter of the default, a long one four times as long. */
#define STEER_SLICE_SHIFT	2
/* The range that sched_setattr() accepts. */
#define STEER_SLICE_MIN		((u64)NSEC_PER_MSEC / 10)
#define STEER_SLICE_MAX		((u64)NSEC_PER_MSEC * 100)

/* Interrupts are off: @p's pi_lock or rq lock is held. */
static __always_inline void steer_count(struct task_struct *p,
					enum steer_counter counter)
{
	struct steer_stats __percpu *stats = READ_ONCE(task_group(p)->steer.stats);

	if (stats)
		__this_cpu_inc(stats->count[counter]);
}

bool steer_enabled_at_boot(void);
u32 steer_hint_available(void);

int steer_tg_online(struct task_group *tg);
void steer_tg_offline(struct task_group *tg);
void steer_tg_free(struct task_group *tg);
void steer_stat_show(struct seq_file *sf, struct task_group *tg);

bool steer_siblings_idle(int cpu);
bool steer_takes(struct task_struct *p, int cpu);
const struct cpumask *steer_llc(int cpu);
int steer_numa_fork_llc(struct task_struct *p, u32 hint, int parent_cpu);
int __steer_wake_cpu(struct task_struct *p, int prev_cpu, int target, bool sync,
		     u32 hint);
int __steer_wake_packed(struct task_struct *p, int prev_cpu, int target, bool sync,
			u32 hint);
int __steer_wake_protected(struct task_struct *p, int prev_cpu, int target, bool sync);
int __steer_fork_cpu(struct task_struct *p, int parent_cpu);
bool __steer_wake_yields(struct task_struct *p, struct task_struct *curr);
bool __steer_balance_hold(struct task_struct *p, int dst_cpu,
			  struct sched_domain *sd);
void __steer_numa_uneven(struct sched_group *busiest, int dst_cpu, int more_idle, long *imbalance,
			 const struct sched_domain *sd, unsigned int *flags);
bool __steer_numa_stays(struct rq *rq, int dst_cpu, unsigned int flags);
bool __steer_to_nid(struct task_struct *p, int dst_nid, int src_running, int dst_running,
		    bool allowed);

int __steer_energy_wake(struct task_struct *p, int prev_cpu);
int __steer_energy_fork(struct task_struct *p, int parent_cpu);
void __steer_energy_tick(struct rq *rq, struct task_struct *p);
bool __steer_energy_hold(struct task_struct *p, int src_cpu, int dst_cpu);

/**
 * steer_wake_cpu - place a waking task as its group's hints, or its headroom, ask
 * @p: the waking task; p->pi_lock and the RCU read lock are held
 * @prev_cpu: where it ran last
 * @target: the CPU near which the default path would search
 * @sync: the waker is about to sleep
 *
 * Return: the CPU to go to, or -1 to go on with the default path.
 */
static __always_inline int steer_wake_cpu(struct task_struct *p, int prev_cpu,
					  int target, bool sync)
{
	int cpu = steer_gang_wake_cpu(p, prev_cpu, target);

	if (cpu >= 0)
		return cpu;
	if (static_branch_unlikely(&steer_hint_key.key)) {
		u32 hint = steer_hint(p);

		if (hint & STEER_PACK)
			cpu = __steer_wake_packed(p, prev_cpu, target, sync, hint);
		else if (hint)
			cpu = __steer_wake_cpu(p, prev_cpu, target, sync, hint);
		if (cpu >= 0)
			return cpu;
	}
	if (steer_headroom_protects(p))
		return __steer_wake_protected(p, prev_cpu, target, sync);
	return -1;
}

/**
 * steer_fork_cpu - place a new or exec'ing task as its group's hints ask
 * @p: the task; p->pi_lock and the RCU read lock are held
 * @parent_cpu: the CPU of the parent, or where the exec'ing task runs
 *
 * Return: the CPU to go to, or -1 to go on with the default path.
 */
static __always_inline int steer_fork_cpu(struct task_struct *p, int parent_cpu)
{
	int cpu = steer_gang_fork_cpu(p, parent_cpu);

	if (cpu >= 0)
		return cpu;
	if (static_branch_unlikely(&steer_hint_key.key))
		return __steer_fork_cpu(p, parent_cpu);
	return -1;
}

/**
 * steer_numa_uneven - what a balance pass moves between nodes although it need not by default
 * @busiest: the busiest group
 * @dst_cpu: the CPU that wants to pull tasks from there; the RCU read lock is held
 * @more_idle: how many idle CPUs its group has more
 * @imbalance: how many tasks are to be moved; where that is none, and @busiest a node with a
 *	task to be spread, it becomes half of @more_idle
 * @sd: the domain that is being balanced
 * @flags: of the pass; STEER_LBF_SPREAD is set or cleared
 */
static __always_inline void steer_numa_uneven(struct sched_group *busiest, int dst_cpu,
					      int more_idle, long *imbalance,
					      const struct sched_domain *sd, unsigned int *flags)
{
	if (static_branch_unlikely(&steer_hint_key.key))
		__steer_numa_uneven(busiest, dst_cpu, more_idle, imbalance, sd, flags);
}

/**
 * steer_numa_stays - does the task of a runqueue stay in its node?
 * @rq: the runqueue, of which something could be pulled; the RCU read lock is held
 * @dst_cpu: the CPU that wants to pull it
 * @sd: the domain that is being balanced
 * @flags: of the balance pass, as steer_numa_uneven() left them
 *
 * Return: true if the pass has to take another one.
 */
static __always_inline bool steer_numa_stays(struct rq *rq, int dst_cpu,
					     const struct sched_domain *sd, unsigned int flags)
{
	return static_branch_unlikely(&steer_hint_key.key) && (sd->flags & SD_NUMA) &&
	       __steer_numa_stays(rq, dst_cpu, flags);
}

/**
 * steer_to_nid - may NUMA balancing move a task, as far as an imbalance is concerned?
 * @p: the task, current
 * @dst_nid: the node that it would be on
 * @src_running: tasks of the node that it is on, without @p
 * @dst_running: tasks of the other one, with @p
 * @allowed: it may by default
 *
 * Return: true if it may.
 */
static __always_inline bool steer_to_nid(struct task_struct *p, int dst_nid, int src_running,
					 int dst_running, bool allowed)
{
	if (static_branch_unlikely(&steer_hint_key.key))
		return __steer_to_nid(p, dst_nid, src_running, dst_running, allowed);
	return allowed;
}

/**
 * steer_balance_hold - should the load balancer leave this task alone?
 * @p: a task that waits on a runqueue whose lock is held
 * @dst_cpu: the CPU that wants to pull it
 * @sd: the domain that is being balanced
 *
 * Return: true if @p is better left in its LLC for now.
 */
static __always_inline bool steer_balance_hold(struct task_struct *p, int dst_cpu,
					       struct sched_domain *sd)
{
	if (steer_gang_balance_hold(p, dst_cpu, sd))
		return true;
	return static_branch_unlikely(&steer_hint_key.key) &&
	       __steer_balance_hold(p, dst_cpu, sd);
}

/**
 * steer_slice - the EEVDF request of an entity that has not set its own
 * @se: a task's or a group's entity; its rq lock is held
 * @base: the default request [ns]
 *
 * No call, so that enqueueing saves no registers for it while the key is off.
 *
 * Return: request [ns].
 */
static __always_inline u64 steer_slice(struct sched_entity *se, u64 base)
{
	if (static_branch_unlikely(&steer_hint_key.key) && entity_is_task(se)) {
		struct task_struct *p = container_of(se, struct task_struct, se);
		u32 hint = steer_hint(p);

		if (!(hint & STEER_SLICE))
			return base;

		steer_count(p, STEER_NR_SLICE_FOLLOWED);
		if (hint & STEER_SLICE_SHORT)
			return min(base, max(base >> STEER_SLICE_SHIFT, STEER_SLICE_MIN));
		return max(base, min(base << STEER_SLICE_SHIFT, STEER_SLICE_MAX));
	}
	return base;
}

/**
 * steer_wake_yields - does a waking task leave the running one alone?
 * @p: the waking task
 * @curr: the running task; the lock of its runqueue is held
 *
 * Return: true if @p is not to preempt @curr.
 */
static __always_inline bool steer_wake_yields(struct task_struct *p,
					      struct task_struct *curr)
{
	return static_branch_unlikely(&steer_hint_key.key) &&
	       __steer_wake_yields(p, curr);
}

#else /* !CONFIG_CGROUP_STEER */

static inline int steer_tg_online(struct task_group *tg) { return 0; }
static inline void steer_tg_offline(struct task_group *tg) { }
static inline void steer_tg_free(struct task_group *tg) { }
static inline void steer_stat_show(struct seq_file *sf, struct task_group *tg) { }
static inline int steer_wake_cpu(struct task_struct *p, int prev_cpu, int target, bool sync)
{
	return -1;
}

static inline int steer_fork_cpu(struct task_struct *p, int parent_cpu) { return -1; }

static inline void steer_numa_uneven(struct sched_group *busiest, int dst_cpu, int more_idle,
				     long *imbalance, const struct sched_domain *sd,
				     unsigned int *flags) { }
/* No functions: to inline one, the compiler would lay out its caller another way. */
#define steer_numa_stays(rq, dst_cpu, sd, flags) \
	((void)(rq), (void)(dst_cpu), (void)(sd), (void)(flags), false)
#define steer_to_nid(p, dst_nid, src_running, dst_running, allowed) \
	((void)(p), (void)(dst_nid), (void)(src_running), (void)(dst_running), (allowed))
static inline bool steer_balance_hold(struct task_struct *p, int dst_cpu,
				      struct sched_domain *sd) { return false; }
static inline u64 steer_slice(struct sched_entity *se, u64 base) { return base; }
static inline bool steer_wake_yields(struct task_struct *p,
				     struct task_struct *curr) { return false; }

#endif /* CONFIG_CGROUP_STEER */

/* Depends on CONFIG_CGROUP_STEER. */
#ifdef CONFIG_CGROUP_STEER_ENERGY
/**
 * steer_energy_asked - is a task of the fair class to be placed by what it costs?
 * @p: the task; p->pi_lock or the rq lock is held
 *
 * Return: true if its group asks for that, and some CPUs have an energy model.
 */
static __always_inline bool steer_energy_asked(struct task_struct *p)
{
	/* Both are branches, so that nobody looks at the word where there is no model. */
	return static_branch_unlikely(&steer_hint_key.key) && sched_energy_enabled() &&
	       (steer_hint(p) & STEER_ENERGY);
}

/**
 * steer_energy_wakes - does a wakeup begin with a comparison of costs?
 * @p: the waking task; p->pi_lock is held
 * @by_default: it does without a word, because no CPU is overutilised
 *
 * Return: true if it does.
 */
static __always_inline bool steer_energy_wakes(struct task_struct *p, bool by_default)
{
	return by_default || steer_energy_asked(p);
}

/**
 * steer_energy_cpu - place a waking task by what it costs
 * @p: the waking task; p->pi_lock is held
 * @prev_cpu: where it ran last
 * @otherwise: how a task is placed whose group has not asked
 *
 * Return: the CPU to go to, or -1 to place it for performance.
 */
static __always_inline int steer_energy_cpu(struct task_struct *p, int prev_cpu,
					    int (*otherwise)(struct task_struct *p, int prev_cpu))
{
	return steer_energy_asked(p) ? __steer_energy_wake(p, prev_cpu) : otherwise(p, prev_cpu);
}

/**
 * steer_energy_tick - look at the running task now and then
 * @rq: its runqueue, whose lock is held
 * @p: the task
 */
static __always_inline void steer_energy_tick(struct rq *rq, struct task_struct *p)
{
	if (steer_energy_asked(p))
		__steer_energy_tick(rq, p);
}
#else /* !CONFIG_CGROUP_STEER_ENERGY */
static inline bool steer_energy_asked(struct task_struct *p) { return false; }
#define steer_energy_wakes(p, by_default)		((void)(p), (by_default))
#define steer_energy_cpu(p, prev_cpu, otherwise)	((otherwise)(p, prev_cpu))
static inline void steer_energy_tick(struct rq *rq, struct task_struct *p) { }
#endif /* CONFIG_CGROUP_STEER_ENERGY */

#endif /* _KERNEL_SCHED_STEER_H */
