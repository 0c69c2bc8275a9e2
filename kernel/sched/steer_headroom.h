/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.headroom: the contract with the bandwidth code of the fair class, and
 * between the mechanism (steer_headroom.c) and the interface
 * (kernel/cgroup/steer_headroom.c).
 */
#ifndef _KERNEL_SCHED_STEER_HEADROOM_H
#define _KERNEL_SCHED_STEER_HEADROOM_H

#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/rculist.h>
#include <linux/sched/steer.h>

struct seq_file;

#ifdef CONFIG_CGROUP_STEER_HEADROOM

#include "steer_headroom_math.h"

/* The period of all pools; cpu.max keeps its own for each group. */
#define STEER_PERIOD		(100 * (u64)NSEC_PER_MSEC)

/**
 * struct steer_headroom - what a task group carries for cpu.headroom
 * @tg: the group
 * @request: what its cpu.headroom says, in hundredths of a percent
 * @link: in the list of its parent's arena, while @request is not 0
 * @arena: of its children, while one of them has a request
 * @pool: where it draws runtime; NULL while nothing can hold it back. Written
 *	under steer_headroom_mutex and cfs_b->lock
 * @epoch: the pool's period that the following are about. Written under cfs_b->lock, but
 *	@epoch to @capped are read without it, too
 * @used: runtime given
 * @carried: runtime saved up, see steer_headroom_carry()
 * @debt: what it had beyond its cap before, see steer_headroom_debt()
 * @capped: it reached its cap
 * @denied: it was denied runtime, for whatever reason
 * @moved: runtime that its queues took without that lock, less what they gave back so, since
 *	it was counted in @used last; and for a moment what one is about to take
 * @periods: periods in which it ran while a demand was in force
 * @capped_periods: those of them in which it was denied runtime
 * @capped_ns: time its queues were held back, over all CPUs
 * @preempted: how often a task of it gave way to a protected one that woke up
 */
struct steer_headroom {
	struct task_group	*tg;
	unsigned int		request;
	struct list_head	link;
	struct steer_arena	*arena;
	struct steer_pool	*pool;

	/* Written with each grant. */
	u64			epoch ____cacheline_aligned_in_smp;
	s64			used;
	s64			carried;
	s64			debt;
	bool			capped;
	bool			denied;
	u64			periods;
	u64			capped_periods;

	atomic64_t		moved ____cacheline_aligned_in_smp;

	atomic64_t		capped_ns ____cacheline_aligned_in_smp;
	atomic64_t		preempted;
};

/**
 * struct steer_arena - the children of one group, while one has a headroom
 * @link: in the list of all; under steer_headroom_mutex
 * @parent: the group
 * @requests: children with a request, the largest first; RCU
 * @pools: see there; changed under steer_headroom_mutex, RCU
 * @nr_pools: how many they are; likewise
 * @active: how many of them are about to take more or less
 * @most: the largest request, of an empty group or not
 * @searched: the largest request in force as the last full search found it
 * @crowded: a pool needs @searched, since its own search was too long
 * @rcu: to free it
 */
struct steer_arena {
	struct list_head		link;
	struct cgroup_subsys_state	*parent;
	struct list_head		requests;
	struct list_head		pools;
	unsigned int			nr_pools;
	atomic_t			active;
	unsigned int			most;
	unsigned int			searched;
	bool				crowded;
	struct rcu_head			rcu;
};

/**
 * struct steer_account - on what terms a pool gives; its timer writes them, draws read them
 * @epoch: number of the period. Whoever sees a new one sees the others of it, too
 * @level: see steer_headroom_level(); of what the budget is now
 * @whole_level: of all of it
 * @last_level: @level as the last period ended, if a demand was in force
 * @binding: a demand is in force
 */
struct steer_account {
	u64			epoch;
	u64			level;
	u64			whole_level;
	u64			last_level;
	bool			binding;
};

/**
 * struct steer_seen - a CPU's idle clock as a pool has read it last
 * @at: when that look began; it was over by @checked of the pool
 * @idle_ns: what it showed
 */
struct steer_seen {
	u64			at;
	u64			idle_ns;
};

/**
 * struct steer_pool - children of an arena that share one budget
 * @link: in the arena's list
 * @arena: whose
 * @id: its number, for those who watch
 * @request: headroom that each of them has itself, at least
 * @cpus: that each of them may use
 * @nr_groups: how many they are; under steer_headroom_mutex
 * @timer: for the period, and for its parts
 * @timer_cpu: where it was started; under steer_headroom_mutex
 * @ran_on: where it ran last
 * @waiting: CPUs with queues that this pool holds back
 * @tokens: runtime that can be given now; below 0 for more than there was
 * @floor: runtime that can be given to those that wait and had none; likewise
 * @lines: those queues, on each CPU, and what they drew; under its rq lock
 * @next_cpu: where to go on with those that wait; timer only
 * @next_core: the same for whole cores; timer only
 * @turns: CPUs that may still be let have a grant from @floor; timer only
 * @turn_idle: the last of them was for one that is idle; timer only
 * @next_idle: as @next_cpu, among those; timer only
 * @next_update: end of the period; timer only
 * @next_check: when to look whether idle time is exhausted; timer only
 * @checked: when that was done last, or the period began; timer only
 * @seen: the idle clock of each CPU of @measured, as it was read last; timer only
 * @idle_ns: what they have shown in this period; timer only
 * @measured: the CPUs of that sum
 * @online: as @measured, for the sum to come
 * @counted: it is among those that others share with; timer only
 * @pacing: it is among those whose budgets @timer_cpu gives out in parts; timer only
 * @took: what its timer took for decisions since the period began; timer only
 * @tallied: sum of the tallies of all CPUs when the period began; timer only
 * @account: of the period so far; read without the lock
 * @drawn: something was drawn since @tallied
 * @lock: for writing @account and what follows, for those who want to see all of it as it was
 *	at one moment
 * @paced: the budget is given out in parts
 * @wanting: some group wanted more in the last one
 * @lacking: for how many periods there has been too little idle
 * @demand: idle share that is asked for, in hundredths of a percent
 * @idle: idle share that was measured, likewise; -1 for none yet
 * @budget: for the period
 * @trim: see steer_headroom_budget()
 * @given: what of the budget went into the tokens
 * @owed: what goes there with the next part, for what was taken too much or not wanted
 * @parts_given: how many parts of it those are
 * @halved: see steer_headroom_halvings()
 * @updated: when it began
 * @rcu: to free it
 */
struct steer_pool {
	struct list_head	link;
	struct steer_arena	*arena;
	u64			id;
	unsigned int		request;
	unsigned int		nr_groups;
	struct steer_line __percpu *lines;
	cpumask_var_t		cpus;

	/* Written by all CPUs. */
	cpumask_var_t		waiting ____cacheline_aligned_in_smp;
	atomic64_t		tokens ____cacheline_aligned_in_smp;
	atomic64_t		floor;

	struct hrtimer		timer ____cacheline_aligned_in_smp;
	int			timer_cpu;
	int			ran_on;
	int			next_cpu;
	int			next_core;
	int			turns;
	bool			turn_idle;
	int			next_idle;
	u64			next_update;
	u64			next_check;
	u64			checked;
	struct steer_seen	*seen;
	u64			idle_ns;
	cpumask_var_t		measured;
	cpumask_var_t		online;
	bool			counted;
	bool			pacing;
	u64			took;
	struct steer_tally	tallied;

	/* Read by all CPUs, and rarely written. */
	struct steer_account	account ____cacheline_aligned_in_smp;
	bool			drawn;

	raw_spinlock_t		lock ____cacheline_aligned_in_smp;
	bool			paced;
	bool			wanting;
	unsigned int		lacking;
	unsigned int		demand;
	int			idle;
	u64			budget;
	s64			trim;
	u64			given;
	s64			owed;
	unsigned int		parts_given;
	unsigned int		halved;
	u64			updated;
	struct rcu_head		rcu;
};

extern struct static_key_false_deferred steer_headroom_key;

struct steer_pool *steer_pool_create(struct steer_arena *arena, unsigned int request,
				     const struct cpumask *cpus, struct steer_pool *from);
void steer_pool_settle(struct steer_pool *pool);
void steer_pool_destroy(struct steer_pool *pool);
void steer_pool_join(struct task_group *tg, struct steer_pool *pool);
unsigned int steer_arena_search(struct steer_arena *arena, unsigned int above,
				int limit);

void steer_headroom_online(struct task_group *tg);
void steer_headroom_offline(struct task_group *tg);
void steer_headroom_free(struct task_group *tg);
void steer_headroom_stat_show(struct seq_file *sf, struct task_group *tg);
void steer_headroom_debug_show(struct seq_file *sf);

/**
 * steer_headroom_weight - what a group's part of a budget goes by
 * @tg: the group
 *
 * Return: its cpu.weight as the scheduler has it, 1024 for 100; at least 1.
 */
static inline u64 steer_headroom_weight(struct task_group *tg)
{
	return max(scale_load_down(READ_ONCE(tg->shares)), 1UL);
}

bool __steer_headroom_held(struct task_group *tg, int cpu);
bool __steer_headroom_constrained(struct cfs_rq *cfs_rq);
struct task_group *__steer_headroom_group(struct task_struct *p);
bool __steer_headroom_gives_way(struct task_struct *p, int cpu);
void __steer_headroom_claim(int cpu);
bool __steer_headroom_claimed(int cpu);
unsigned long steer_headroom_claims_met(void);
unsigned int steer_headroom_paced(void);
int steer_headroom_wanting(struct task_group *tg, int cpu);
unsigned int __steer_headroom_present(struct task_struct *p, const struct cpumask *cpus);
bool __steer_headroom_preempts(struct cfs_rq *cfs_rq, struct sched_entity *se,
			       struct sched_entity *pse);
struct sched_entity *__steer_headroom_instead(struct cfs_rq *cfs_rq,
					      struct sched_entity *se);
bool __steer_headroom_first(struct sched_entity *se, struct task_struct *p);
u64 __steer_headroom_draw(struct cfs_rq *cfs_rq, u64 want);
void __steer_headroom_switch(struct rq *rq, struct task_struct *prev,
			     struct task_struct *next);
void __steer_headroom_charge(struct cfs_rq *cfs_rq, s64 amount);
void __steer_headroom_wait(struct cfs_rq *cfs_rq);
void __steer_headroom_unthrottled(struct cfs_rq *cfs_rq);

/**
 * steer_headroom_hold - cpu.max has said whether a queue's bandwidth is accounted
 * @cfs_rq: the queue; its rq lock is held
 *
 * It is, whatever the quota, where its group draws from a pool.
 */
static __always_inline void steer_headroom_hold(struct cfs_rq *cfs_rq)
{
	if (static_branch_unlikely(&steer_headroom_key.key) &&
	    __steer_headroom_held(cfs_rq->tg, cpu_of(rq_of(cfs_rq))))
		cfs_rq->runtime_enabled = 1;
}

/**
 * steer_headroom_constrained - can a queue be throttled for headroom?
 * @cfs_rq: the queue; its rq lock is held, or this is its CPU with interrupts off
 *
 * Return: true if its group or an ancestor draws from a pool on its CPU.
 */
static __always_inline bool steer_headroom_constrained(struct cfs_rq *cfs_rq)
{
	return static_branch_unlikely(&steer_headroom_key.key) &&
	       __steer_headroom_constrained(cfs_rq);
}

/**
 * steer_headroom_draw - ask for runtime
 * @cfs_rq: the queue that needs it; the cfs_b->lock of its group is held
 * @want: how much cpu.max would give
 *
 * Return: how much it gets, between 0 and @want.
 */
static __always_inline u64 steer_headroom_draw(struct cfs_rq *cfs_rq, u64 want)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		return __steer_headroom_draw(cfs_rq, want);
	return want;
}

/**
 * steer_headroom_charge - runtime changed hands without being asked for
 * @cfs_rq: the queue; the cfs_b->lock of its group is held
 * @amount: what it was given, or, if negative, what it gave back
 */
static __always_inline void steer_headroom_charge(struct cfs_rq *cfs_rq, s64 amount)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		__steer_headroom_charge(cfs_rq, amount);
}

/**
 * steer_headroom_wait - a queue is about to be throttled
 * @cfs_rq: the queue; its rq lock and the cfs_b->lock of its group are held
 *
 * Its pool will let it go on, if that is what it was denied runtime by.
 */
static __always_inline void steer_headroom_wait(struct cfs_rq *cfs_rq)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		__steer_headroom_wait(cfs_rq);
}

/**
 * steer_headroom_waits - is a throttled queue none of cpu.max's business?
 * @cfs_rq: the queue; its rq lock is held
 *
 * Return: true if it waits for its pool.
 */
static __always_inline bool steer_headroom_waits(struct cfs_rq *cfs_rq)
{
	return static_branch_unlikely(&steer_headroom_key.key) && cfs_rq->steer.pool;
}

/**
 * steer_headroom_unthrottled - a queue is about to go on
 * @cfs_rq: the queue; its rq lock is held, and the clock is up to date
 */
static __always_inline void steer_headroom_unthrottled(struct cfs_rq *cfs_rq)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		__steer_headroom_unthrottled(cfs_rq);
}

/**
 * steer_headroom_group - for which group is CPU left idle?
 * @p: a task of it; its p->pi_lock, or the lock of its runqueue, is held
 *
 * Return: the nearest group of @p that has a headroom, or NULL.
 */
static __always_inline struct task_group *steer_headroom_group(struct task_struct *p)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		return __steer_headroom_group(p);
	return NULL;
}

/**
 * steer_headroom_protects - is CPU left idle for this task?
 * @p: the task; as for steer_headroom_group()
 *
 * Return: true if its group or one above has a headroom.
 */
static __always_inline bool steer_headroom_protects(struct task_struct *p)
{
	return steer_headroom_group(p);
}

/**
 * steer_headroom_gives_way - would a task run at once on a CPU that is not idle?
 * @p: the task; its p->pi_lock and the RCU read lock are held
 * @cpu: the CPU, which @p may use
 *
 * Return: true if what runs there is to leave CPU idle for @p's group.
 */
static __always_inline bool steer_headroom_gives_way(struct task_struct *p, int cpu)
{
	return static_branch_unlikely(&steer_headroom_key.key) &&
	       __steer_headroom_gives_way(p, cpu);
}

/**
 * steer_headroom_claim - a CPU was chosen for a task of a group with a headroom
 * @cpu: the CPU, where the task is about to be queued
 *
 * For a few microseconds, or until @cpu changes to another task.
 */
static __always_inline void steer_headroom_claim(int cpu)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		__steer_headroom_claim(cpu);
}

/**
 * steer_headroom_claimed - is a task of a group with a headroom on its way to a CPU?
 * @cpu: the CPU
 *
 * Return: true if it probably is.
 */
static __always_inline bool steer_headroom_claimed(int cpu)
{
	return static_branch_unlikely(&steer_headroom_key.key) && __steer_headroom_claimed(cpu);
}

/**
 * steer_headroom_present - on how many CPUs are others of a task's group?
 * @p: the task, which is not runnable; its p->pi_lock is held
 * @cpus: the CPUs
 *
 * Return: on how many of them tasks of the nearest group of @p with a headroom run or wait.
 */
static __always_inline unsigned int steer_headroom_present(struct task_struct *p,
							   const struct cpumask *cpus)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		return __steer_headroom_present(p, cpus);
	return 0;
}

/**
 * steer_headroom_preempts - does what woke up run before what runs?
 * @cfs_rq: the queue of both; its rq lock is held
 * @se: the current entity
 * @pse: the one that woke up
 *
 * Return: true if @se leaves CPU idle for @pse, which is next now.
 */
static __always_inline bool steer_headroom_preempts(struct cfs_rq *cfs_rq,
						    struct sched_entity *se,
						    struct sched_entity *pse)
{
	return static_branch_unlikely(&steer_headroom_key.key) &&
	       __steer_headroom_preempts(cfs_rq, se, pse);
}

/**
 * steer_headroom_instead - what runs before what is held back
 * @cfs_rq: the queue; its rq lock is held
 * @se: the entity that the default path picked
 *
 * Return: @se, or one that it leaves CPU idle for.
 */
static __always_inline struct sched_entity *
steer_headroom_instead(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		return __steer_headroom_instead(cfs_rq, se);
	return se;
}

/**
 * steer_headroom_first - does a task run before what would run for another reason?
 * @se: the entity of that; the lock of its runqueue is held
 * @p: the task, which is queued there, and not below @se
 *
 * Return: true if @se, or a group that it is in, leaves CPU idle for @p's.
 */
static __always_inline bool steer_headroom_first(struct sched_entity *se,
						 struct task_struct *p)
{
	return static_branch_unlikely(&steer_headroom_key.key) &&
	       __steer_headroom_first(se, p);
}

/**
 * steer_headroom_switch - a CPU changes to another task
 * @rq: its runqueue, which is locked
 * @prev: the task that ran
 * @next: the one that runs from now on
 */
static __always_inline void steer_headroom_switch(struct rq *rq, struct task_struct *prev,
						  struct task_struct *next)
{
	if (static_branch_unlikely(&steer_headroom_key.key))
		__steer_headroom_switch(rq, prev, next);
}

#else /* !CONFIG_CGROUP_STEER_HEADROOM */

static inline void steer_headroom_online(struct task_group *tg) { }
static inline void steer_headroom_offline(struct task_group *tg) { }
static inline void steer_headroom_free(struct task_group *tg) { }
static inline void steer_headroom_stat_show(struct seq_file *sf, struct task_group *tg) { }
static inline void steer_headroom_debug_show(struct seq_file *sf) { }
static inline void steer_headroom_hold(struct cfs_rq *cfs_rq) { }
static inline bool steer_headroom_constrained(struct cfs_rq *cfs_rq) { return false; }
static inline u64 steer_headroom_draw(struct cfs_rq *cfs_rq, u64 want) { return want; }
static inline void steer_headroom_wait(struct cfs_rq *cfs_rq) { }
static inline void steer_headroom_unthrottled(struct cfs_rq *cfs_rq) { }
static inline struct task_group *steer_headroom_group(struct task_struct *p) { return NULL; }
static inline bool steer_headroom_protects(struct task_struct *p) { return false; }
static inline bool steer_headroom_gives_way(struct task_struct *p, int cpu) { return false; }
static inline void steer_headroom_claim(int cpu) { }
static inline bool steer_headroom_claimed(int cpu) { return false; }
static inline int steer_headroom_wanting(struct task_group *tg, int cpu) { return 0; }

static inline unsigned int steer_headroom_present(struct task_struct *p,
						  const struct cpumask *cpus)
{
	return 0;
}

static inline struct sched_entity *steer_headroom_instead(struct cfs_rq *cfs_rq,
							  struct sched_entity *se)
{
	return se;
}

static inline bool steer_headroom_first(struct sched_entity *se, struct task_struct *p)
{
	return false;
}

static inline void steer_headroom_switch(struct rq *rq, struct task_struct *prev,
					 struct task_struct *next) { }

/* Macros: an empty inline function makes gcc choose other operands around it. */
#define steer_headroom_charge(...)	do { } while (0)
#define steer_headroom_waits(...)	false
#define steer_headroom_preempts(...)	false

#endif /* CONFIG_CGROUP_STEER_HEADROOM */

#endif /* _KERNEL_SCHED_STEER_HEADROOM_H */
