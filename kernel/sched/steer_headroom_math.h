/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.headroom: the controller's arithmetic
 *
 * Functions of their arguments only, tested by steer_headroom_test.c. Times are
 * nanoseconds of CPU time in one period, over all CPUs of a pool; the essay in
 * steer_headroom.c says what they are for.
 */
#ifndef _KERNEL_SCHED_STEER_HEADROOM_MATH_H
#define _KERNEL_SCHED_STEER_HEADROOM_MATH_H

#include <linux/cgroup.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>

/* 100.00 %, in the unit of cpu.headroom */
#define STEER_HEADROOM_ALL	10000U

/* A level is CPU time for each unit of weight, with this many binary places. */
#define STEER_LEVEL_SHIFT	8
#define STEER_LEVEL_NONE	U64_MAX

/* The floor is one part in this many of the CPUs, and never less than a grant. */
#define STEER_FLOOR_PART	100
#define STEER_FLOOR_LEAST	2000000ULL

/* Of the CPUs: how far the trim may go, and what of an error it looks at. */
#define STEER_TRIM_PART		20
#define STEER_TRIM_ERROR_PART	20
#define STEER_TRIM_SPEED	4

/* A surplus of up to one part in this many of the CPUs may be noise. */
#define STEER_NOISE_PART	20

/* Groups that may have needed more than they got are taken to need one part in this many more. */
#define STEER_MORE_PART		16

/* For how long what is held back waits for what is protected, in its slices. */
#define STEER_WAIT_SLICES	4

/* How long it may take from when a CPU is chosen for a task until it is queued there [ns]. */
#define STEER_CLAIM		3000U

/* With less idle time than one part in this many of the demand, it is exhausted. */
#define STEER_EXHAUSTED_PART	4

/* Timers of a CPU that may run in each part of a period, and in each period */
#define STEER_TIMERS_PACED	64U
#define STEER_TIMERS_PERIOD	1024U

/* Active pools of other arenas that count */
#define STEER_STRANGERS_MOST	8U

/**
 * steer_headroom_parse - read a percentage with at most two decimals
 * @buf: what was written, without blanks around it
 * @percent: the result, in hundredths; untouched on failure
 *
 * Return: 0, -EINVAL for what is no such number, -ERANGE above 100 or below 0.
 */
static inline int steer_headroom_parse(const char *buf, unsigned int *percent)
{
	bool negative = *buf == '-';
	const char *digits = buf + (negative || *buf == '+');
	size_t whole = strspn(digits, "0123456789"), decimals = 0;
	const char *end = digits + whole;
	s64 value;
	int ret;

	/* cgroup_parse_float() ignores what follows, and rounds. */
	if (*end == '.') {
		decimals = strspn(++end, "0123456789");
		end += decimals;
		if (!decimals || decimals > 2)
			return -EINVAL;
	}
	if (!whole || *end)
		return -EINVAL;
	/* What does not fit an integer does not fit the range either. */
	if (whole > strspn(digits, "0") + 3)
		return -ERANGE;

	ret = cgroup_parse_float(digits, 2, &value);
	if (ret)
		return ret;
	if (value > STEER_HEADROOM_ALL || (negative && value))
		return -ERANGE;
	*percent = value;
	return 0;
}

/**
 * steer_headroom_times - an amount times a fraction
 * @amount: the amount
 * @by: the fraction's numerator
 * @of: its denominator, not 0
 *
 * mul_u64_u64_div_u64() of x86 divides by its own product where the compiler has its first and
 * its last argument in one register, as it may where it knows that they are the same.
 *
 * Return: the product, rounded down; it has to fit.
 */
static inline u64 steer_headroom_times(u64 amount, u64 by, u64 of)
{
	return amount == of ? by : mul_u64_u64_div_u64(amount, by, of);
}

/**
 * steer_headroom_part - a percentage of an amount
 * @amount: of what
 * @percent: in hundredths
 *
 * Return: that part of @amount, rounded down.
 */
static inline u64 steer_headroom_part(u64 amount, unsigned int percent)
{
	return mul_u64_u32_div(amount, percent, STEER_HEADROOM_ALL);
}

/**
 * steer_headroom_percent - an amount as a percentage of another
 * @part: the amount, taken for @whole where it exceeds it
 * @whole: what is 100 %
 *
 * Return: hundredths of a percent; 0 if @whole is 0.
 */
static inline unsigned int steer_headroom_percent(u64 part, u64 whole)
{
	if (!whole)
		return 0;
	return div64_u64(min(part, whole) * STEER_HEADROOM_ALL, whole);
}

/**
 * steer_headroom_floor - what held-back groups get whatever the demand
 * @capacity: all CPU time of the pool's CPUs in a period
 *
 * Return: the smallest budget.
 */
static inline u64 steer_headroom_floor(u64 capacity)
{
	u64 least = STEER_FLOOR_LEAST;

	return min(max(div_u64(capacity, STEER_FLOOR_PART), least), capacity);
}

/**
 * struct steer_measure - what one period brought
 * @capacity: all CPU time of the pool's CPUs
 * @idle: what of it was idle
 * @used: what the pool's groups were given
 * @demand: idle share that is asked for, in hundredths of a percent
 * @wanting: some group of the pool wanted more than it got
 * @rivals: pools on the same CPUs that are about to take more or less, see
 *	steer_headroom_rivals()
 * @givers: those of them that are not further down in the tree
 * @lacking: for how many periods before this one there was too little idle
 */
struct steer_measure {
	u64 capacity;
	u64 idle;
	u64 used;
	unsigned int demand;
	bool wanting;
	unsigned int rivals;
	unsigned int givers;
	unsigned int lacking;
};

/**
 * steer_headroom_rivals - with how many pools has one to share?
 * @near: active pools of its arena
 * @all: active pools on the same CPUs, of whatever arena
 *
 * Strangers count up to a limit: somebody who makes many pools elsewhere can slow
 * down how fast others take what is left, but not by more than that.
 *
 * Return: how many, itself included; 1 at least.
 */
static inline unsigned int steer_headroom_rivals(unsigned int near, unsigned int all)
{
	unsigned int strangers;

	near = min(near, all);
	strangers = all - near;
	return max(near + min(strangers, STEER_STRANGERS_MOST), 1U);
}

/**
 * steer_headroom_scarce - how much idle time is hardly any of the demand?
 * @capacity: all CPU time
 * @demand: idle share that is asked for, in hundredths of a percent
 *
 * Return: what is less than this.
 */
static inline u64 steer_headroom_scarce(u64 capacity, unsigned int demand)
{
	return div_u64(steer_headroom_part(capacity, demand), STEER_EXHAUSTED_PART);
}

/**
 * steer_headroom_exhausted - does idle time no longer tell how much is lacking?
 * @capacity: all CPU time
 * @idle: what of it was idle
 * @demand: idle share that is asked for, in hundredths of a percent
 *
 * There can not be less than none, however much more the main work would need.
 *
 * Return: true if hardly any of the demand is met.
 */
static inline bool steer_headroom_exhausted(u64 capacity, u64 idle, unsigned int demand)
{
	return idle < steer_headroom_scarce(capacity, demand);
}

/**
 * struct steer_bounds - what is known of an amount
 * @least: it is no less than this
 * @most: and no more
 */
struct steer_bounds {
	u64 least;
	u64 most;
};

/**
 * steer_headroom_idle_within - add for how long a CPU was idle within a window that ends now
 * @sum: of the CPUs so far
 * @idle: for how long it was since its clock was read last
 * @since: how long ago that was
 * @spell: for how long it has been idle without a break, at least; negative: not been idle
 * @window: how long the window is
 *
 * Exact where the clock was read as the window began.
 */
static inline void steer_headroom_idle_within(struct steer_bounds *sum, u64 idle, u64 since,
					      s64 spell, u64 window)
{
	u64 before = since > window ? since - window : 0;
	u64 most = min(idle, window - min_t(u64, max(-spell, 0LL), window));
	u64 least = max_t(u64, idle - min(idle, before), max(spell, 0LL));

	sum->least += min(least, most);
	sum->most += most;
}

/**
 * steer_headroom_budget - the budget for the next period
 * @m: the last one
 * @trim: slow correction, carried from call to call; starts at 0
 *
 * In the main it is used + idle - demand: what the groups used, and what they
 * could have used or should not have. All of a surplus that nobody wants is
 * theirs, since it is only leave to grow then. Where @rivals pools want the same
 * CPUs, each takes one part in @rivals + 1, so that together they never take too
 * much; but one that is alone takes half only of what may be noise, and all of
 * the rest. A lack of idle time is taken off at once by a single pool. Several, of
 * which there are @givers, take off two parts of one more than they are, each, which is
 * enough if all do. If it goes on, since others do not, it is twice as much, and all of
 * it in the end. Who is further down in the tree does not count there: nobody's main
 * work waits for what a tenant makes below. Where idle time is exhausted, at most half
 * of what was used is left.
 *
 * Since falling is faster than rising, noise would leave more idle than asked
 * for. The trim is the integral of the error, and mends that and whatever else
 * is lost between what is given and what is used. It is small, so that it can
 * not swing far, and stands still at the limits, so that it does not wind up.
 *
 * Return: the budget, between the floor and all CPUs.
 */
static inline u64 steer_headroom_budget(const struct steer_measure *m, s64 *trim)
{
	s64 all = m->capacity, floor = steer_headroom_floor(m->capacity);
	s64 error = (s64)m->idle - (s64)steer_headroom_part(m->capacity, m->demand);
	s64 most = div_s64(all, STEER_TRIM_PART);
	s64 seen = div_s64(all, STEER_TRIM_ERROR_PART);
	s64 noise = div_s64(all, STEER_NOISE_PART);
	u32 sharers = max(m->rivals, 1U) + 1, givers = max(m->givers, 1U) + 1;
	s64 budget, step = error;

	if (error > 0 && m->wanting && m->rivals > 1)
		step = div_s64(error, sharers);
	else if (error > 0 && m->wanting)
		step = error - min(error, noise) / 2;
	else if (m->wanting)
		step = div_s64(2 * error, max(givers >> min(m->lacking, 31U), 2U));

	budget = (s64)m->used + step + *trim;
	if (steer_headroom_exhausted(m->capacity, m->idle, m->demand))
		budget = min(budget, (s64)m->used / 2);
	if (!m->wanting)
		*trim -= div_s64(*trim, STEER_TRIM_SPEED);
	else if (budget > floor && budget < all)
		*trim += div_s64(clamp(error, -seen, seen), STEER_TRIM_SPEED * sharers);
	*trim = clamp(*trim, -most, most);
	return clamp(budget, floor, all);
}

/**
 * steer_headroom_halvings - how often is the rest of the budget halved?
 * @before: how often it was
 * @capacity: all CPU time since the last time that this was asked
 * @idle: what is known of how much of it was idle
 * @demand: idle share that is asked for, in hundredths of a percent
 *
 * A period is long for those who wait for a CPU. And what is noise is over soon.
 *
 * Return: once more where idle time is surely exhausted, once less where all of the demand
 * surely is idle.
 */
static inline unsigned int steer_headroom_halvings(unsigned int before, u64 capacity,
						   struct steer_bounds idle, unsigned int demand)
{
	if (steer_headroom_exhausted(capacity, idle.most, demand))
		return before + 1;
	return before - (before && idle.least >= steer_headroom_part(capacity, demand));
}

/**
 * steer_headroom_due - what of the budget comes due with some of its parts
 * @all: the budget
 * @due: how many of its parts begin
 * @parts: how many there are in all
 * @halved: how often it was halved
 *
 * Return: CPU time.
 */
static inline u64 steer_headroom_due(u64 all, unsigned int due, unsigned int parts,
				     unsigned int halved)
{
	return div_u64(all * due, parts) >> min(halved, 63U);
}

/**
 * steer_headroom_scaled - what is known of some CPUs, for as many others
 * @amount: CPU time, or a level
 * @from: how many they were
 * @to: how many they are
 *
 * Return: the same for each CPU; @amount itself if there were none.
 */
static inline u64 steer_headroom_scaled(u64 amount, unsigned int from, unsigned int to)
{
	if (amount == STEER_LEVEL_NONE || !from)
		return amount;
	return steer_headroom_times(amount, to, from);
}

/**
 * struct steer_shares - who took what of the budget in a period
 * @used: by all groups
 * @capped_used: by those that reached their cap
 * @capped_weight: weight of those
 * @active_weight: weight of all that used anything
 * @starved: the budget came to its end before that of some group did
 */
struct steer_shares {
	s64 used;
	s64 capped_used;
	u64 capped_weight;
	u64 active_weight;
	bool starved;
};

/**
 * struct steer_tally - what was drawn on a CPU since its pool was made
 * @used: runtime, less what was given back
 * @capped_used: by groups that had reached their cap
 * @capped_weight: weight of groups as they reached it
 * @active_weight: weight of groups as they drew for the first time in a period
 * @starved: how often a draw failed as the budget had come to its end
 *
 * These only grow, but for what is given back. So nobody has to set them back to 0, and the
 * CPU itself needs no lock for that.
 */
struct steer_tally {
	s64 used;
	s64 capped_used;
	s64 capped_weight;
	s64 active_weight;
	s64 starved;
};

/**
 * steer_tally_add - add a CPU's tally to a sum
 * @sum: the sum
 * @tally: the tally, which its CPU may be writing
 */
static inline void steer_tally_add(struct steer_tally *sum, const struct steer_tally *tally)
{
	sum->used += READ_ONCE(tally->used);
	sum->capped_used += READ_ONCE(tally->capped_used);
	sum->capped_weight += READ_ONCE(tally->capped_weight);
	sum->active_weight += READ_ONCE(tally->active_weight);
	sum->starved += READ_ONCE(tally->starved);
}

/**
 * steer_tally_since - what a period brought
 * @now: the sum at its end
 * @then: the sum at its beginning
 *
 * Return: the difference, as steer_headroom_level() wants it.
 */
static inline struct steer_shares steer_tally_since(const struct steer_tally *now,
						    const struct steer_tally *then)
{
	return (struct steer_shares){
		.used = now->used - then->used,
		.capped_used = now->capped_used - then->capped_used,
		.capped_weight = now->capped_weight - then->capped_weight,
		.active_weight = now->active_weight - then->active_weight,
		.starved = now->starved != then->starved,
	};
}

/**
 * steer_headroom_level - how far each group may go in the next period
 * @budget: to be shared
 * @s: the last period
 *
 * As water fills vessels: a group of weight w may use level * w. Those that did
 * not reach that are taken to need the same again; the others share the rest by
 * weight. It is at least what it would be if all wanted everything.
 *
 * Where the budget came to its end, some of those that did not reach the level would have gone
 * on: mostly one of large weight, which comes to its share last. If they were taken to need no
 * more than they got, it would be for the others, and so on; as budgets go up and down, and some
 * of each is lost, that one would never have its share. So they are taken to need more by one
 * part in STEER_MORE_PART, and by as much as the budget is larger than what was used.
 *
 * Return: the level, STEER_LEVEL_NONE where there is no reason for one.
 */
static inline u64 steer_headroom_level(u64 budget, const struct steer_shares *s)
{
	s64 modest = max(s->used - s->capped_used, 0LL), rest;
	u64 even, level = 0;

	if (!s->active_weight || (!s->capped_weight && !s->starved))
		return STEER_LEVEL_NONE;

	if (s->starved && s->used > 0 && (s64)budget > s->used)
		modest = steer_headroom_times(min(modest, s->used), budget, s->used);
	if (s->starved)
		modest += div_s64(modest, STEER_MORE_PART);
	rest = (s64)budget - modest;
	even = div64_u64(budget << STEER_LEVEL_SHIFT, s->active_weight);
	if (s->capped_weight && rest > 0)
		level = div64_u64((u64)rest << STEER_LEVEL_SHIFT, s->capped_weight);
	return max(level, even);
}

/**
 * steer_headroom_lowered - a level for less than the whole budget
 * @level: for the whole of it
 * @budget: the whole of it
 * @expected: what of it will have been given at the end of the period
 *
 * If what is lacking were lacking for those who come last, a part of a budget would
 * be shared by turns and not by weight.
 *
 * Return: the level at which the groups together use @expected.
 */
static inline u64 steer_headroom_lowered(u64 level, u64 budget, u64 expected)
{
	if (level == STEER_LEVEL_NONE || expected >= budget)
		return level;
	return steer_headroom_times(level, expected, budget);
}

/**
 * steer_headroom_cap - what a group may use in a period
 * @level: of its pool
 * @weight: of the group
 *
 * Return: CPU time, S64_MAX for no limit.
 */
static inline s64 steer_headroom_cap(u64 level, u64 weight)
{
	if (level == STEER_LEVEL_NONE)
		return S64_MAX;
	return min_t(u64, mul_u64_u64_shr(level, weight, STEER_LEVEL_SHIFT), S64_MAX);
}

/**
 * steer_headroom_carry - what a group saves for later periods
 * @carried: what it had saved
 * @cap: of the group, in each of the periods that are over
 * @used: by it, in those periods
 * @periods: how many
 * @least: what a grant is at least
 *
 * Where there are many groups, the cap of each may be too small for a grant. It
 * saves then, until it is enough for one.
 *
 * Return: what it has saved, between 0 and @least; 0 where there is no need.
 */
static inline s64 steer_headroom_carry(s64 carried, s64 cap, s64 used, u64 periods,
				       s64 least)
{
	if (cap >= least)
		return 0;
	/* Nanoseconds: after so many periods it has saved enough, however little it is. */
	carried += max(cap, 0LL) * min_t(u64, periods, 2 * least);
	return clamp(carried - used, 0LL, least);
}

/**
 * steer_headroom_debt - what a group has to give back
 * @debt: what it had to, in its last period
 * @cap: of the group, at the end of that period; S64_MAX for no limit
 * @used: by it, in that period
 * @periods: how long ago that period began, in periods
 * @next: its cap in the period that begins
 *
 * The floor does not ask for caps, which may have fallen since, too. What a group
 * had beyond its cap is taken off the next one, as far as that goes: nobody is in
 * debt for longer.
 *
 * Return: what is left of the debt, between 0 and @next.
 */
static inline s64 steer_headroom_debt(s64 debt, s64 cap, s64 used, u64 periods, s64 next)
{
	if (cap == S64_MAX || periods > 1)
		return 0;
	return clamp(debt + used - cap, 0LL, next);
}

/**
 * steer_headroom_can_wait - may a queue that is held back wait for one that is protected?
 * @lag: how far it is behind its due, in virtual time [ns]; below 0 if it is ahead
 * @slice: of its entity [ns]
 * @weight: of all entities of the queue that it is on; 1024 for one of nice level 0
 *
 * Virtual time passes as fast as real time divided by the weight of all. So this is
 * about how long ago it was due, which is also the longest that others, who may be
 * behind it in the order of deadlines, wait for no fault of theirs.
 *
 * Return: true for STEER_WAIT_SLICES slices after it was due.
 */
static inline bool steer_headroom_can_wait(s64 lag, u64 slice, unsigned long weight)
{
	return lag * (s64)weight <= (s64)(STEER_WAIT_SLICES * slice * 1024);
}

/**
 * steer_headroom_claims - may the task for which a CPU was chosen still be on its way?
 * @now: the clock of the CPU that asks [ns]
 * @claimed: when that was, by the clock of the CPU that chose; 0 for never
 *
 * The clocks of two CPUs may differ by a little, so it may be in the future.
 *
 * Return: true if it was not longer than STEER_CLAIM ago.
 */
static inline bool steer_headroom_claims(u64 now, u64 claimed)
{
	return claimed && abs_diff(now, claimed) <= STEER_CLAIM;
}

/**
 * steer_headroom_paces - may a budget be given in parts?
 * @others: pools whose budgets the CPU that would have to do it gives in parts already
 *
 * A pool that does so runs its timer twenty times in a period, some microseconds each
 * time. So this is what more of them could take too much of the CPU with. A budget
 * that is given at once is as large.
 *
 * Return: false where they are too many.
 */
static inline bool steer_headroom_paces(unsigned int others)
{
	return others < STEER_TIMERS_PACED;
}

/**
 * steer_headroom_periods - how many periods there are between two looks at a pool
 * @timers: of pools on the CPU that looks
 *
 * The budget is what it was for one, so groups that are held back get that much less.
 *
 * Return: 1, or more where they are too many to look at all of them in each.
 */
static inline unsigned int steer_headroom_periods(unsigned int timers)
{
	return timers ? DIV_ROUND_UP(timers, STEER_TIMERS_PERIOD) : 1;
}

#endif /* _KERNEL_SCHED_STEER_HEADROOM_MATH_H */
