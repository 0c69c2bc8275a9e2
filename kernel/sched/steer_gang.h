/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.gang: the contract between the scheduler and the mechanism.
 *
 * As steer.h, which includes this: without CONFIG_CGROUP_STEER every function is
 * an empty inline; with it, each starts with a static branch that is off until
 * some group is a gang.
 */
#ifndef _KERNEL_SCHED_STEER_GANG_H
#define _KERNEL_SCHED_STEER_GANG_H

#include <linux/jump_label_ratelimit.h>
#include <linux/sched/steer.h>

struct seq_file;

#ifdef CONFIG_CGROUP_STEER

enum steer_gang_counter {
	STEER_GANG_SLOTS_LED,
	STEER_GANG_IPIS,
	STEER_GANG_IPIS_EMPTY,
	STEER_GANG_CORUN_NS,
	STEER_GANG_FAVOURED_NS,
	STEER_GANG_NR_COUNTERS
};

/**
 * struct steer_gang_pcpu - what a gang has for each CPU
 * @count: its counters
 * @quiet_until: it is not worth a slot before that in the scope whose slots belong
 *		to this CPU [ns]
 * @backoff: for how many slots it was left alone there last time
 * @members: CPUs of that scope that had a member which competed, when they were counted
 * @counted: when that was [jiffies]
 */
struct steer_gang_pcpu {
	u64		count[STEER_GANG_NR_COUNTERS];
	u64		quiet_until;
	unsigned int	backoff;
	int		members;
	unsigned long	counted;
};

/**
 * struct steer_gang - the tasks of a group and of all groups below it
 * @tg: the group
 * @id: its cgroup id, for traces
 * @active: does it run slots? Cleared before the group goes away.
 * @scope: in which CPUs (enum steer_scope)
 * @led: when its last slot began [jiffies]
 * @pcpu: counters, and where it is left alone
 * @link: among those that have slots; the cgroup side's
 * @rcu: to free it
 */
struct steer_gang {
	struct task_group		*tg;
	u64				id;
	bool				active;
	u8				scope;
	unsigned long			led;
	struct steer_gang_pcpu __percpu	*pcpu;
	struct list_head		link;
	struct rcu_head			rcu;
};

extern struct static_key_false_deferred steer_gang_key;

struct steer_gang *steer_gang_alloc(struct task_group *tg, enum steer_scope scope);
void steer_gang_free(struct steer_gang *gang);
void steer_gang_start(struct steer_gang *gang, enum steer_scope scope);
void steer_gang_stop(struct steer_gang *gang);
void steer_gang_use_parts(enum steer_scope scope, struct list_head *parts);

void steer_gang_tg_online(struct task_group *tg);
void steer_gang_tg_offline(struct task_group *tg);
void steer_gang_tg_free(struct task_group *tg);
void steer_gang_stat_show(struct seq_file *sf, struct task_group *tg);

struct sched_entity *__steer_gang_entity(struct rq *rq, struct cfs_rq *cfs_rq);
struct sched_entity *__steer_gang_instead(struct rq *rq, struct cfs_rq *cfs_rq,
					  struct sched_entity *se);
bool __steer_gang_repick(struct rq *rq, struct sched_entity *se);
bool __steer_gang_wakeup(struct rq *rq, struct task_struct *p);
void __steer_gang_switch(struct rq *rq, struct task_struct *next);
int __steer_gang_wake_cpu(struct task_struct *p, int prev_cpu, int target);
int __steer_gang_fork_cpu(struct task_struct *p, int parent_cpu);
bool __steer_gang_balance_hold(struct task_struct *p, int dst_cpu,
			       struct sched_domain *sd);

/* The gang that @p belongs to; REQUIRES: p->pi_lock, the rq lock, or RCU. */
static __always_inline struct steer_gang *steer_gang_of(struct task_struct *p)
{
	return READ_ONCE(task_group(p)->steer.gang.effective);
}

/**
 * steer_gang_entity - the entity that a slot wants to run next
 * @rq: the runqueue
 * @cfs_rq: the level at which one is picked
 *
 * Return: an entity of @cfs_rq, or NULL to go on with the default path.
 */
static __always_inline struct sched_entity *steer_gang_entity(struct rq *rq,
							      struct cfs_rq *cfs_rq)
{
	if (static_branch_unlikely(&steer_gang_key.key))
		return __steer_gang_entity(rq, cfs_rq);
	return NULL;
}

/**
 * steer_gang_instead - what to run while a gang is held back
 * @rq: the runqueue
 * @cfs_rq: the level at which one is picked
 * @se: what the default path picked
 *
 * Return: @se, or an entity of @cfs_rq to run in its place.
 */
static __always_inline struct sched_entity *steer_gang_instead(struct rq *rq,
							       struct cfs_rq *cfs_rq,
							       struct sched_entity *se)
{
	if (static_branch_unlikely(&steer_gang_key.key))
		return __steer_gang_instead(rq, cfs_rq, se);
	return se;
}

/**
 * steer_gang_repick - a task was picked: is this the beginning of a slot?
 * @rq: the runqueue
 * @se: its entity
 *
 * Return: true if another CPU began one meanwhile, so that the pick is outdated.
 */
static __always_inline bool steer_gang_repick(struct rq *rq, struct sched_entity *se)
{
	return static_branch_unlikely(&steer_gang_key.key) && __steer_gang_repick(rq, se);
}

/**
 * steer_gang_wakeup - does a slot decide whether a waking task preempts?
 * @rq: the runqueue
 * @p: the waking task
 *
 * Return: true if all that was to be done is done.
 */
static __always_inline bool steer_gang_wakeup(struct rq *rq, struct task_struct *p)
{
	return static_branch_unlikely(&steer_gang_key.key) && __steer_gang_wakeup(rq, p);
}

/**
 * steer_gang_switch - a CPU changes to another task
 * @rq: the runqueue
 * @next: the task, of any class
 */
static __always_inline void steer_gang_switch(struct rq *rq, struct task_struct *next)
{
	if (static_branch_unlikely(&steer_gang_key.key))
		__steer_gang_switch(rq, next);
}

/* Where a waking member goes, or -1. REQUIRES: p->pi_lock, RCU. */
static __always_inline int steer_gang_wake_cpu(struct task_struct *p, int prev_cpu,
					       int target)
{
	if (static_branch_unlikely(&steer_gang_key.key))
		return __steer_gang_wake_cpu(p, prev_cpu, target);
	return -1;
}

/* Where a new or exec'ing member goes, or -1. REQUIRES: p->pi_lock, RCU. */
static __always_inline int steer_gang_fork_cpu(struct task_struct *p, int parent_cpu)
{
	if (static_branch_unlikely(&steer_gang_key.key))
		return __steer_gang_fork_cpu(p, parent_cpu);
	return -1;
}

/* Should this waiting task stay where it is? REQUIRES: its rq lock. */
static __always_inline bool steer_gang_balance_hold(struct task_struct *p, int dst_cpu,
						    struct sched_domain *sd)
{
	return static_branch_unlikely(&steer_gang_key.key) &&
	       __steer_gang_balance_hold(p, dst_cpu, sd);
}

#else /* !CONFIG_CGROUP_STEER */

static inline struct sched_entity *steer_gang_entity(struct rq *rq,
						     struct cfs_rq *cfs_rq) { return NULL; }
static inline struct sched_entity *steer_gang_instead(struct rq *rq, struct cfs_rq *cfs_rq,
						      struct sched_entity *se) { return se; }
static inline bool steer_gang_repick(struct rq *rq, struct sched_entity *se) { return false; }
static inline bool steer_gang_wakeup(struct rq *rq, struct task_struct *p) { return false; }
static inline void steer_gang_switch(struct rq *rq, struct task_struct *next) { }

#endif /* CONFIG_CGROUP_STEER */

#endif /* _KERNEL_SCHED_STEER_GANG_H */
