/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.hint energy: which CPU is the cheapest, as functions of their arguments alone
 *
 * Without locks and runqueues, so that they can be tested on their own
 * (steer_energy_test.c). How they are used is told at the top of steer_energy.c.
 *
 * Utilisation, performance and capacity are parts of SCHED_CAPACITY_SCALE.
 */
#ifndef _KERNEL_SCHED_STEER_ENERGY_RULES_H
#define _KERNEL_SCHED_STEER_ENERGY_RULES_H

#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/types.h>

/* What a task that stays where it ran last is given on top of the room there: its cache. */
#define STEER_ENERGY_STAY	(SCHED_CAPACITY_SCALE / 16)

/* A running task is moved for no less than this part of what it costs. */
#define STEER_ENERGY_WORTH	16

/**
 * enum steer_energy_fit - how well a task fits a CPU
 * @STEER_FITS_NOT: the CPU would be overutilised
 * @STEER_FITS_SHORT: the CPU cannot give the performance that uclamp.min asks for
 * @STEER_FITS: well
 *
 * In the order of preference.
 */
enum steer_energy_fit {
	STEER_FITS_NOT,
	STEER_FITS_SHORT,
	STEER_FITS,
};

/**
 * struct steer_energy_capacity - what a CPU can do
 * @left: what interrupts and other classes leave to fair tasks
 * @original: at its highest performance level
 * @actual: at the highest level that thermal and other limits allow
 */
struct steer_energy_capacity {
	unsigned long		left;
	unsigned long		original;
	unsigned long		actual;
};

/**
 * struct steer_energy_candidate - a CPU that a task could run on
 * @cpu: its number; -1 for none
 * @fits: how well the task fits there
 * @delta: energy that the CPU's performance domain needs more with the task
 * @actual: capacity of the CPU, as in struct steer_energy_capacity
 * @running: runnable tasks, without the task itself
 * @room: capacity left with the task there; below 0 where it is capped
 */
struct steer_energy_candidate {
	int			cpu;
	enum steer_energy_fit	fits;
	unsigned long		delta;
	unsigned long		actual;
	unsigned int		running;
	long			room;
};

/**
 * steer_energy_fits - does a utilisation fit a CPU?
 * @util: of the CPU with the task
 * @util_min: the largest uclamp.min of its tasks
 * @util_max: the largest uclamp.max of its tasks
 * @capacity: what the CPU can do
 *
 * As util_fits_cpu() in fair.c. Where all tasks are capped to what the CPU can do, they fit
 * whatever they would use without the cap: a CPU that is only capped is not overloaded.
 *
 * Return: how well.
 */
static inline enum steer_energy_fit
steer_energy_fits(unsigned long util, unsigned long util_min, unsigned long util_max,
		  const struct steer_energy_capacity *capacity)
{
	bool fits = util * 5 < capacity->left * 4;

	/* There is no cap at the capacity of the largest CPUs: nothing is faster. */
	if (capacity->original != SCHED_CAPACITY_SCALE || util_max != SCHED_CAPACITY_SCALE)
		fits |= util_max <= capacity->original;
	if (!fits)
		return STEER_FITS_NOT;
	util_min = min(util_min, util_max);
	if (util < util_min && util_min > capacity->actual)
		return STEER_FITS_SHORT;
	return STEER_FITS;
}

/**
 * steer_energy_delta - what a domain needs more
 * @cost_before: of a unit of utilisation, at the performance level without the task
 * @busy: utilisation of all CPUs of the domain, without the task
 * @cost_after: of a unit of utilisation, at the level with the task
 * @added: utilisation of the task
 *
 * Not limited to what the domain can do at a time: what has to wait there costs later.
 *
 * Return: energy, in units of the energy model's cost.
 */
static inline unsigned long steer_energy_delta(unsigned long cost_before, unsigned long busy,
					       unsigned long cost_after, unsigned long added)
{
	unsigned long before = cost_before * busy, after = cost_after * (busy + added);

	return after - min(before, after);
}

/**
 * steer_energy_better - is one candidate better than another?
 * @a: the one, on which the task fits somehow
 * @b: the other, or none
 * @pack: of equal costs, prefer a CPU that is awake
 *
 * Return: true if @a is.
 */
static inline bool steer_energy_better(const struct steer_energy_candidate *a,
				       const struct steer_energy_candidate *b, bool pack)
{
	bool joins_a = a->running == 1 && a->room > 0;
	bool joins_b = b->running == 1 && b->room > 0;

	if (b->cpu < 0 || a->fits != b->fits)
		return b->cpu < 0 || a->fits > b->fits;
	/* Where none gives what uclamp.min asks for, the fastest comes next to that. */
	if (a->fits == STEER_FITS_SHORT && a->actual != b->actual)
		return a->actual > b->actual;
	if (a->delta != b->delta)
		return a->delta < b->delta;
	if (pack && joins_a != joins_b)
		return joins_a;
	if (pack && joins_a)
		return a->room < b->room;
	if (a->running != b->running)
		return a->running < b->running;
	return a->room > b->room;
}

/**
 * steer_energy_leaves - is a task that never sleeps to be moved?
 * @here: the CPU that it runs on
 * @there: the best one
 *
 * Return: true if it is.
 */
static inline bool steer_energy_leaves(const struct steer_energy_candidate *here,
				       const struct steer_energy_candidate *there)
{
	if (here->fits != there->fits)
		return here->fits < there->fits;
	if (there->delta > here->delta)
		return false;
	return here->delta - there->delta > here->delta / STEER_ENERGY_WORTH ||
	       there->running < here->running;
}

#endif /* _KERNEL_SCHED_STEER_ENERGY_RULES_H */
