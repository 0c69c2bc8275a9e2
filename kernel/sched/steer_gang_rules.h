/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.gang: the rules of a slot, as functions of their arguments alone
 *
 * How long a slot is, who may lead one, who follows, who is held back, when a
 * gang is not worth a slot, and what counts as running together. Without locks,
 * clocks and runqueues, so that they can be tested on their own
 * (steer_gang_test.c). How they are used is told at the top of steer_gang.c.
 */
#ifndef _KERNEL_SCHED_STEER_GANG_RULES_H
#define _KERNEL_SCHED_STEER_GANG_RULES_H

#include <linux/bitmap.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* No slot is longer than this [ns], however slow the tick or long the request. */
#define STEER_GANG_SLOT_MAX	(20 * 1000 * 1000ULL)

/* What was in vain is not tried again for this many slots at most. */
#define STEER_GANG_BACKOFF_MAX	64

/* And at least, where members wait for each other on one CPU. */
#define STEER_GANG_PAUSE_MIN	4

/**
 * steer_gang_slot_length - how long a slot is
 * @request: the default EEVDF request [ns]
 * @tick: what lies between two scheduler ticks [ns]
 *
 * As long as a task runs that has competition: its request, or, because it is
 * the tick that finds the request used up, the next whole number of ticks. So
 * slots make no more context switches than there would be without.
 *
 * Return: length [ns].
 */
static inline u64 steer_gang_slot_length(u64 request, u64 tick)
{
	u64 ticks = div64_u64(max(request, 1ULL) + tick - 1, tick);

	return min(ticks * tick, max(tick, STEER_GANG_SLOT_MAX));
}

/**
 * steer_gang_lag - what an entity is owed, in its own running time
 * @average: weighted average vruntime of its queue
 * @vruntime: its own
 * @weight: its weight; a task of nice 0 alone has 1024
 *
 * Return: [ns]; below 0, it has run for so much more than its share.
 */
static inline s64 steer_gang_lag(u64 average, u64 vruntime, unsigned long weight)
{
	return div_s64((s64)(average - vruntime) * (s64)weight, 1024);
}

/**
 * steer_gang_wait - for how long the others have waited beyond their due
 * @lag: what the gang is owed [ns]
 * @weight: weight of the gang's entity
 * @total: weight of all entities of the queue
 *
 * While the gang runs, it goes into debt with the share of the others, and their due
 * is that share of the time. So the debt divided by it is the time that they waited.
 *
 * Return: [ns]; 0 if the gang is not in debt, or alone.
 */
static inline s64 steer_gang_wait(s64 lag, unsigned long weight, unsigned long total)
{
	if (lag >= 0 || total <= weight)
		return 0;
	return div64_s64(-lag * (s64)total, total - weight);
}

/**
 * steer_gang_follows - does a CPU follow another one's lead?
 * @waited: for how long the others here have waited beyond their due [ns]
 * @slot: length of a slot [ns]
 *
 * Where a gang has just had a slot that EEVDF granted it, the others have waited for
 * one. So they wait for one more than they would have; an eighth is for late timers.
 *
 * Return: true unless the gang has had a slot too many here already.
 */
static inline bool steer_gang_follows(s64 waited, u64 slot)
{
	return waited <= (s64)(slot + slot / 8);
}

/**
 * steer_gang_held - is a gang held back while the others have their turn?
 * @lag: what the gang is owed on this CPU [ns]
 * @slot: length of a slot [ns]
 *
 * A limit from the other side, to what the gang puts up with.
 *
 * Return: true unless the gang has waited a slot too long here already.
 */
static inline bool steer_gang_held(s64 lag, u64 slot)
{
	return lag <= (s64)slot;
}

/**
 * struct steer_gang_overruled - who waits on a CPU, although EEVDF picked it there
 * @since: since when somebody does who has no slots, 0 if nobody; or, if EEVDF would have
 *	let it wait for the slot as well, when that ends [ns]
 * @waits: since when somebody has waited, whatever EEVDF picked; only if @since is set [ns]
 * @until: it has its turn, and is left alone until then [ns]
 *
 * What each single gang may be ahead of its due, adds up over several that take turns.
 * So this is about all of them.
 */
struct steer_gang_overruled {
	u64	since;
	u64	waits;
	u64	until;
};

/**
 * steer_gang_waits - from now on, somebody waits
 * @who: of this CPU
 * @now: the time [ns]
 */
static inline void steer_gang_waits(struct steer_gang_overruled *who, u64 now)
{
	if (who->since)
		return;
	who->since = now;
	who->waits = now;
}

/**
 * steer_gang_overrules - may a slot overrule EEVDF, which picked somebody without slots?
 * @who: of this CPU
 * @now: the time [ns]
 * @end: when the slot ends [ns]
 * @slot: length of a slot [ns]
 *
 * Return: true unless that would make it more than one slot, however many gangs there
 * are; an eighth is for late timers.
 */
static inline bool steer_gang_overrules(struct steer_gang_overruled *who, u64 now, u64 end,
					u64 slot)
{
	if (now < who->until)
		return false;
	steer_gang_waits(who, now);
	return end <= who->since + slot + slot / 8;
}

/**
 * steer_gang_too_long - is it whose turn comes, whatever EEVDF picks?
 * @who: of this CPU
 * @now: the time [ns]
 * @end: when the slot ends [ns]
 * @slot: length of a slot [ns]
 *
 * Several gangs are behind and ahead of their due by a slot each, by turns. EEVDF picks those
 * that are behind, and none of them would be without slots. So it is one of them that somebody
 * waits for who is in none, and one slot; an eighth is for late timers.
 *
 * Return: true if somebody waits who would wait for more than two slots.
 */
static inline bool steer_gang_too_long(const struct steer_gang_overruled *who, u64 now, u64 end,
				       u64 slot)
{
	return who->since && now >= who->until && end > who->waits + 2 * slot + slot / 8;
}

/**
 * steer_gang_agrees - EEVDF, too, picked somebody who has slots
 * @who: of this CPU
 * @end: when the slot ends [ns]
 */
static inline void steer_gang_agrees(struct steer_gang_overruled *who, u64 end)
{
	if (who->since)
		who->since = end;
}

/**
 * steer_gang_not_overruled - EEVDF has its way on a CPU
 * @who: of this CPU
 * @turn: it picked somebody without slots
 * @now: the time [ns]
 * @slot: length of a slot [ns]
 *
 * Whoever had to wait is not interrupted by the next slot as soon as it runs: it has as
 * much of one as makes no difference to those that begin slots.
 */
static inline void steer_gang_not_overruled(struct steer_gang_overruled *who, bool turn,
					    u64 now, u64 slot)
{
	if (turn && who->since)
		who->until = now + slot - slot / 8;
	who->since = 0;
}

/**
 * steer_gang_yields - is the others' slot due, whatever the first CPU picks?
 * @overruled: number of the last slot in which somebody was overruled who is in no gang
 * @seq: number of the slot that is over
 * @now: the time [ns]
 * @end: when it ended [ns]
 * @slot: length of a slot [ns]
 *
 * Where they wait on one CPU, it would not follow another gang's slot. If all CPUs turn to
 * the others first, it can.
 *
 * Return: true if it is.
 */
static inline bool steer_gang_yields(u64 overruled, u64 seq, u64 now, u64 end, u64 slot)
{
	return overruled == seq && now < end + slot;
}

/**
 * struct steer_gang_view - what a CPU that picked a member knows
 * @now: the time [ns]
 * @quiet_until: the gang is not worth a slot before that [ns]
 * @slot_end: when the slot of this scope ends, or ended [ns]
 * @members: CPUs of the scope on which a member competes with others
 * @others: runnable tasks on this CPU that are not of this gang
 * @wider: is a gang of a wider scope running?
 * @due: is it the others' slot, which somebody waited for on another CPU?
 */
struct steer_gang_view {
	u64	now;
	u64	quiet_until;
	u64	slot_end;
	int	members;
	int	others;
	bool	wider;
	bool	due;
};

/**
 * steer_gang_may_lead - may this CPU start a slot?
 * @view: what it knows
 *
 * Only a CPU where the gang was picked among others has a say, for where nobody
 * else is runnable, no choice was made. A gang that competes on one CPU only has
 * nobody to start, and at most one slot runs at a time. That of the others does not keep
 * gangs waiting where there is nobody else, but a CPU on which there is would not follow.
 *
 * Return: true if it may.
 */
static inline bool steer_gang_may_lead(const struct steer_gang_view *view)
{
	return view->others > 0 && view->members > 1 && !view->wider && !view->due &&
	       view->now >= view->slot_end && view->now >= view->quiet_until;
}

/**
 * steer_gang_backoff - how many slots a gang is left alone for
 * @backoff: how many it was last time
 * @slept: CPUs on which a member went to sleep before the end of the last slot
 * @members: CPUs on which a member competed when it began
 *
 * Where members go to sleep before the end of a slot, running them together gains
 * nothing and costs interrupts; so it is tried more and more seldom.
 *
 * Return: number of slots, 0 for a gang that stayed awake.
 */
static inline unsigned int steer_gang_backoff(unsigned int backoff, int slept, int members)
{
	if (slept * 2 < members)
		return 0;
	return clamp(backoff * 2, 2U, STEER_GANG_BACKOFF_MAX);
}

/**
 * steer_gang_pause - after how many slots is a place for a member looked for again?
 * @pause: how many it was last time, 0 if this is the first one
 *
 * A CPU with two members looks for one with none. Each search looks at the CPUs of
 * the scope, and finds nothing where the gang has more members than CPUs.
 *
 * Return: number of slots.
 */
static inline unsigned int steer_gang_pause(unsigned int pause)
{
	return clamp(pause * 2, STEER_GANG_PAUSE_MIN, STEER_GANG_BACKOFF_MAX);
}

/**
 * struct steer_gang_corun - for how long all runnable members ran together
 * @runnable: CPUs with a runnable member, and others that compete with it; read without
 *	the slot's lock
 * @running: those that run one
 * @since: since when they are the same, two at least; 0 if they are not [ns]
 * @total: for how long they were, before that [ns]
 */
struct steer_gang_corun {
	int	runnable;
	int	running;
	u64	since;
	u64	total;
};

static inline void steer_gang_corun_update(struct steer_gang_corun *corun, u64 now)
{
	bool all = corun->running >= corun->runnable && corun->running > 1;

	if (corun->since && now > corun->since)
		corun->total += now - corun->since;
	corun->since = all ? now : 0;
}

/**
 * steer_gang_corun_run - CPUs began or ceased to run members
 * @corun: the account
 * @running: how many run one now
 * @now: the time [ns]
 */
static inline void steer_gang_corun_run(struct steer_gang_corun *corun, int running, u64 now)
{
	corun->running = running;
	WRITE_ONCE(corun->runnable, max(corun->runnable, running));
	steer_gang_corun_update(corun, now);
}

/**
 * steer_gang_corun_fewer - on one CPU no member is runnable, or never was
 * @corun: the account, of which steer_gang_corun_run() is to be told afterwards
 */
static inline void steer_gang_corun_fewer(struct steer_gang_corun *corun)
{
	WRITE_ONCE(corun->runnable, corun->runnable - 1);
}

/**
 * struct steer_gang_part - CPUs of which no gang has some and others that are not of them
 * @link: among the parts of a scope
 * @rcu: to free it
 * @cpus: a bit for each
 */
struct steer_gang_part {
	struct list_head	link;
	struct rcu_head		rcu;
	unsigned long		cpus[];
};

/**
 * steer_gang_divided - are these CPUs all in one part?
 * @parts: the parts, of which no two have a CPU in common
 * @cpus: a bit for each
 * @nr: number of bits
 *
 * Return: true if no part has to be added for them.
 */
static inline bool steer_gang_divided(struct list_head *parts, const unsigned long *cpus,
				      unsigned int nr)
{
	struct steer_gang_part *part;

	list_for_each_entry(part, parts, link) {
		if (bitmap_subset(cpus, part->cpus, nr))
			return true;
	}
	return false;
}

/**
 * steer_gang_divide - add CPUs to the parts
 * @parts: the parts, of which no two have a CPU in common, nor will have
 * @add: a part with the CPUs of one gang; takes in those parts that have some of them
 * @nr: number of bits
 * @gone: gets what was taken in
 */
static inline void steer_gang_divide(struct list_head *parts, struct steer_gang_part *add,
				     unsigned int nr, struct list_head *gone)
{
	struct steer_gang_part *part, *next;

	/* What is taken in has no CPU in common with the rest, so that once is enough. */
	list_for_each_entry_safe(part, next, parts, link) {
		if (!bitmap_intersects(part->cpus, add->cpus, nr))
			continue;
		bitmap_or(add->cpus, add->cpus, part->cpus, nr);
		list_move(&part->link, gone);
	}
	list_add_tail(&add->link, parts);
}

#endif /* _KERNEL_SCHED_STEER_GANG_RULES_H */
