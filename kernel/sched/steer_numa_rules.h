/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.hint: how uneven nodes may be, as functions of their arguments alone
 *
 * Without locks and runqueues, so that they can be tested on their own
 * (steer_numa_test.c). How they are used is told at the top of steer_numa.c.
 */
#ifndef _KERNEL_SCHED_STEER_NUMA_RULES_H
#define _KERNEL_SCHED_STEER_NUMA_RULES_H

#include <linux/sched/steer.h>
#include <linux/types.h>

/*
 * In the flags of a balance pass's struct lb_env, far above those of the scheduler: the
 * imbalance is allowed, but to those that have asked to be spread.
 */
#define STEER_LBF_SPREAD	0x10000

/* The pair that may stay together by default, as NUMA_IMBALANCE_MIN in fair.c. */
#define STEER_NUMA_PAIR		2

/**
 * steer_numa_by_default - does a task without a hint stay where it is?
 * @imbalance: by how many tasks or idle CPUs the nodes differ
 * @dst_running: tasks of the node that is looked at, with the one that is placed
 * @imb_numa_nr: up to how many of them an imbalance is allowed
 *
 * Return: true if the allowance covers the imbalance.
 */
static inline bool steer_numa_by_default(long imbalance, int dst_running, int imb_numa_nr)
{
	return dst_running <= imb_numa_nr && imbalance <= STEER_NUMA_PAIR;
}

/**
 * struct steer_place - what counts of a node or an LLC where a task may begin
 * @own: runnable tasks of its group
 * @cpus: CPUs that it may use
 * @idle: those of them that are idle
 * @core: one of these is on an idle core; of LLCs only
 * @used: utilisation of all CPUs
 */
struct steer_place {
	int		own;
	int		cpus;
	int		idle;
	bool		core;
	unsigned long	used;
};

/**
 * steer_place_is_better - does a task to be spread rather begin here?
 * @place: a place
 * @best: the best one so far
 *
 * The tasks that compete for what the place has are first of all those of its own group, of
 * whatever others do: an idle CPU beside them is worth less than a memory channel without
 * them. But of the LLCs of a node, one with an idle core comes before one in which the task
 * would share a core.
 *
 * Return: true if @place has an idle CPU and, in this order, an idle core where @best has none,
 * fewer of the own tasks for its size, more idle CPUs, or is less utilised.
 */
static inline bool steer_place_is_better(const struct steer_place *place,
					 const struct steer_place *best)
{
	int here = place->own * best->cpus, there = best->own * place->cpus;

	if (!place->idle || !best->idle)
		return place->idle;
	if (place->core != best->core)
		return place->core;
	if (here != there)
		return here < there;
	if (place->idle != best->idle)
		return place->idle > best->idle;
	return place->used < best->used;
}

/**
 * steer_numa_may_move - may NUMA balancing move a task, as far as an imbalance is concerned?
 * @hint: words of its group
 * @src_running: tasks of the node that it is on, without itself; with fork_spread, of its group
 * @dst_running: tasks of the node that it would be on, with itself; likewise
 * @llc_size: CPUs of an LLC
 * @allowed: it may by default
 *
 * Return: true if it may.
 */
static inline bool steer_numa_may_move(u32 hint, int src_running, int dst_running, int llc_size,
				       bool allowed)
{
	if (hint & STEER_FORK_SPREAD)
		return dst_running <= src_running;
	if ((hint & STEER_FORK_AFFINE) && dst_running <= llc_size)
		return true;
	return allowed;
}

/**
 * steer_numa_task_stays - does a balance pass between nodes leave a running task alone?
 * @hint: words of its group, 0 if it is none of the fair class
 * @alone: it has its CPU to itself
 * @may_go: it may run on the CPU that wants to pull it
 * @fewer: the node of that CPU has fewer tasks of its group
 * @flags: of the pass: with STEER_LBF_SPREAD, the imbalance is allowed by default
 *
 * Return: true if it stays.
 */
static inline bool steer_numa_task_stays(u32 hint, bool alone, bool may_go, bool fewer,
					 unsigned int flags)
{
	if (flags & STEER_LBF_SPREAD)
		return !(hint & STEER_FORK_SPREAD) || !may_go || !fewer;
	if (hint & STEER_FORK_SPREAD)
		return alone && !fewer;
	return (hint & STEER_FORK_AFFINE) && alone;
}

#endif /* _KERNEL_SCHED_STEER_NUMA_RULES_H */
