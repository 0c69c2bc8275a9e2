// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the rules of cpu.gang: how long a slot is, who leads, follows and
 * is held back, what counts as running together, and which CPUs share slots.
 */
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/time64.h>

#include "steer_gang_rules.h"

#define MS	(1000 * 1000LL)

/* Whole ticks, at least the request, and not without bound. */
static void steer_test_length(struct kunit *test)
{
	static const struct {
		u64 request, tick, length;
	} cases[] = {
		{ 3 * MS, 4 * MS, 4 * MS },
		{ 3 * MS, 1 * MS, 3 * MS },
		{ 3 * MS, 10 * MS, 10 * MS },
		{ 3 * MS + 1, 1 * MS, 4 * MS },
		{ 4 * MS, 4 * MS, 4 * MS },
		{ 0, 4 * MS, 4 * MS },
		{ 100 * MS, 4 * MS, 20 * MS },
		{ 100 * MS, 30 * MS, 30 * MS },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, steer_gang_slot_length(cases[i].request,
								 cases[i].tick),
				    cases[i].length, "request %llu, tick %llu",
				    cases[i].request, cases[i].tick);
}

/* Vruntime runs as fast as the clock for weight 1024, eight times for 128. */
static void steer_test_lag(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_gang_lag(5 * MS, 3 * MS, 1024), 2 * MS);
	KUNIT_EXPECT_EQ(test, steer_gang_lag(3 * MS, 5 * MS, 1024), -2 * MS);
	KUNIT_EXPECT_EQ(test, steer_gang_lag(16 * MS, 0, 128), 2 * MS);
	/* across the wrap of the clock */
	KUNIT_EXPECT_EQ(test, steer_gang_lag(MS, -MS, 512), MS);
}

/* In debt by half a slot with half of the weight: the others waited for a slot. */
static void steer_test_wait(struct kunit *test)
{
	unsigned long total;

	KUNIT_EXPECT_EQ(test, steer_gang_wait(-2 * MS, 1024, 2048), 4 * MS);
	KUNIT_EXPECT_EQ(test, steer_gang_wait(-1 * MS, 3072, 4096), 4 * MS);
	KUNIT_EXPECT_EQ(test, steer_gang_wait(-3 * MS, 1024, 4096), 4 * MS);
	KUNIT_EXPECT_EQ(test, steer_gang_wait(0, 1024, 2048), 0);
	KUNIT_EXPECT_EQ(test, steer_gang_wait(5 * MS, 1024, 2048), 0);
	/* nobody else waits */
	for (total = 1000; total <= 1024; total += 24)
		KUNIT_EXPECT_EQ(test, steer_gang_wait(-MS, 1024, total), 0);
}

/* One slot that others waited for is followed by another, and no further. */
static void steer_test_limits(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_gang_follows(0, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_follows(4 * MS, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_follows(4 * MS + MS / 2, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_follows(5 * MS, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_held(0, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_held(4 * MS, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_held(4 * MS + 1, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_held(-100 * MS, 4 * MS));
}

/* Each single reason not to lead is enough. */
static void steer_test_lead(struct kunit *test)
{
	const struct steer_gang_view good = {
		.now = 100, .quiet_until = 100, .slot_end = 100, .members = 2, .others = 1,
	};
	struct steer_gang_view view = good;

	KUNIT_EXPECT_TRUE(test, steer_gang_may_lead(&view));
	view.others = 0;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	/* counts of two moments can contradict each other */
	view.others = -3;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	view = good;
	view.members = 1;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	view = good;
	view.slot_end = 101;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	view = good;
	view.quiet_until = 101;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	view = good;
	view.wider = true;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
	view = good;
	view.due = true;
	KUNIT_EXPECT_FALSE(test, steer_gang_may_lead(&view));
}

/*
 * Many bidders at any times for one scope: whoever may lead does, and slots never
 * overlap nor come closer than a slot's length from beginning to beginning.
 */
static void steer_test_one_slot(struct kunit *test)
{
	struct rnd_state rnd;
	u64 now = 0, end = 0, begin = 0;
	int i, led = 0;

	prandom_seed_state(&rnd, 2011);
	for (i = 0; i < 20000; i++) {
		struct steer_gang_view view = {
			.now = now, .slot_end = end, .members = 8, .others = 1,
		};

		if (steer_gang_may_lead(&view)) {
			KUNIT_ASSERT_TRUE(test, !led || now - begin >= 4 * MS);
			begin = now;
			end = now + 4 * MS;
			led++;
		}
		now += prandom_u32_state(&rnd) % (MS / 10);
	}
	KUNIT_EXPECT_GT(test, led, 100);
	KUNIT_EXPECT_LE(test, led, div64_u64(now, 4 * MS) + 1);
}

/*
 * One CPU, a gang of any share against another task, and a leader elsewhere that
 * wants the gang to run always, or never, or at random: the gang is never further
 * from its share than two slots, and so runs for its share in the long run.
 */
static void steer_test_charging(struct kunit *test)
{
	static const int shares[] = { 10, 25, 50, 75, 90 };
	const s64 slot = 4 * MS;
	struct rnd_state rnd;
	int i, leader, n;

	prandom_seed_state(&rnd, 4);
	for (i = 0; i < ARRAY_SIZE(shares); i++) {
		for (leader = 0; leader < 3; leader++) {
			s64 lag = 0, ran = 0;

			for (n = 0; n < 1000; n++) {
				bool gang = leader < 2 ? leader :
						prandom_u32_state(&rnd) % 2;

				/* the leader decides, within the limits */
				if (gang && !steer_gang_follows(steer_gang_wait(lag, shares[i],
										100), slot))
					gang = false;
				else if (!gang && !steer_gang_held(lag, slot))
					gang = true;
				lag += slot * shares[i] / 100 - (gang ? slot : 0);
				ran += gang;
				KUNIT_ASSERT_GE(test, lag, -2 * slot);
				KUNIT_ASSERT_LE(test, lag, 2 * slot);
			}
			KUNIT_EXPECT_GE(test, ran, shares[i] * 10 - 2);
			KUNIT_EXPECT_LE(test, ran, shares[i] * 10 + 2);
		}
	}
}

/*
 * One CPU, gangs whose slots follow on each other without end, and somebody whom EEVDF
 * picks each time: it waits for one slot, however many gangs there are, and then runs for
 * most of one, although that has interruptions at which the slot could be followed.
 */
static void steer_test_overruled(struct kunit *test)
{
	static const int gangs[] = { 1, 2, 4, 100 };
	const s64 slot = 4 * MS;
	struct rnd_state rnd;
	int i, n, turns;

	prandom_seed_state(&rnd, 8);
	for (i = 0; i < ARRAY_SIZE(gangs); i++) {
		struct steer_gang_overruled who = { };
		u64 now = 1000 * MS, picked = 0, began = 0;

		for (n = 0, turns = 0; n < 50 * gangs[i]; n++) {
			/* timers are late by up to a sixteenth */
			u64 end = now + slot, at = now + prandom_u32_state(&rnd) % (slot / 16);

			while (at < end) {
				if (!picked)
					picked = at;
				if (steer_gang_overrules(&who, at, end, slot)) {
					KUNIT_ASSERT_TRUE(test, !began ||
							  at - began >= slot - slot / 8);
					began = 0;
					at = end;
					continue;
				}
				/* It runs, and the next pick is any time later. */
				steer_gang_not_overruled(&who, true, at, slot);
				if (!began) {
					KUNIT_ASSERT_LE(test, at - picked, slot + slot / 4);
					KUNIT_ASSERT_GE(test, at - picked, slot / 2);
					began = at;
					turns++;
				}
				picked = 0;
				at += 1 + prandom_u32_state(&rnd) % slot;
			}
			now = max(end, at);
		}
		KUNIT_EXPECT_GE(test, turns, n / 3 - 1);
	}
}

/* Who has slots, or the gang itself, is picked: nobody waits, and nobody has a turn. */
static void steer_test_not_overruled(struct kunit *test)
{
	struct steer_gang_overruled who = { };

	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 100 * MS, 104 * MS, 4 * MS));
	KUNIT_EXPECT_EQ(test, who.since, 100 * MS);
	/* a late timer */
	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 101 * MS, 104 * MS + MS / 2, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_overrules(&who, 104 * MS, 108 * MS, 4 * MS));
	steer_gang_not_overruled(&who, false, 104 * MS, 4 * MS);
	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 104 * MS, 108 * MS, 4 * MS));
	KUNIT_EXPECT_EQ(test, who.since, 104 * MS);
	/* has its turn */
	steer_gang_not_overruled(&who, true, 108 * MS, 4 * MS);
	KUNIT_EXPECT_FALSE(test, steer_gang_overrules(&who, 111 * MS, 112 * MS, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 112 * MS, 116 * MS, 4 * MS));
	/* for what EEVDF does itself, one waits in addition */
	steer_gang_agrees(&who, 116 * MS);
	KUNIT_EXPECT_EQ(test, who.since, 116 * MS);
	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 116 * MS, 120 * MS, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_overrules(&who, 120 * MS, 124 * MS, 4 * MS));
	/* who did not wait is interrupted as anybody else */
	who.since = 0;
	steer_gang_agrees(&who, 116 * MS);
	KUNIT_EXPECT_EQ(test, who.since, 0);
	steer_gang_not_overruled(&who, true, 116 * MS, 4 * MS);
	KUNIT_EXPECT_TRUE(test, steer_gang_overrules(&who, 117 * MS, 120 * MS, 4 * MS));
}

/* Whoever wakes up in a slot waits for that and for one more, though EEVDF agrees each time. */
static void steer_test_too_long(struct kunit *test)
{
	const u64 slot = 4 * MS;
	u64 woke;

	for (woke = 100 * MS + 1; woke <= 104 * MS; woke += MS / 16) {
		struct steer_gang_overruled who = { };
		u64 now = 104 * MS;

		KUNIT_EXPECT_FALSE(test, steer_gang_too_long(&who, now, now + slot, slot));
		steer_gang_waits(&who, woke);
		while (!steer_gang_too_long(&who, now, now + slot, slot)) {
			steer_gang_agrees(&who, now + slot);
			now += slot;
			KUNIT_ASSERT_LE(test, now, 120 * MS);
		}
		KUNIT_EXPECT_GT(test, now - woke, slot);
		KUNIT_EXPECT_LE(test, now - woke, 2 * slot + slot / 8);
		/* It has its turn, and is not asked for again in that. */
		steer_gang_not_overruled(&who, true, now, slot);
		KUNIT_EXPECT_FALSE(test, steer_gang_too_long(&who, now, now + 9 * slot, slot));
		steer_gang_waits(&who, now + MS);
		KUNIT_EXPECT_FALSE(test, steer_gang_too_long(&who, now + MS, now + 9 * slot, slot));
		KUNIT_EXPECT_TRUE(test,
				  steer_gang_too_long(&who, now + slot, now + 9 * slot, slot));
	}
}

/* The slot in which somebody was overruled is followed by the others', unless it is long ago. */
static void steer_test_yields(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_gang_yields(7, 7, 100 * MS, 100 * MS, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_yields(6, 7, 100 * MS, 100 * MS, 4 * MS));
	KUNIT_EXPECT_TRUE(test, steer_gang_yields(7, 7, 103 * MS, 100 * MS, 4 * MS));
	KUNIT_EXPECT_FALSE(test, steer_gang_yields(7, 7, 104 * MS, 100 * MS, 4 * MS));
}

/* Left alone for longer and longer while members sleep, and at once no more. */
static void steer_test_backoff(struct kunit *test)
{
	static const unsigned int steps[] = { 2, 4, 8, 16, 32, 64, 64, 64 };
	unsigned int backoff = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		backoff = steer_gang_backoff(backoff, 4, 8);
		KUNIT_EXPECT_EQ(test, backoff, steps[i]);
	}
	KUNIT_EXPECT_EQ(test, steer_gang_backoff(backoff, 3, 8), 0);
	KUNIT_EXPECT_EQ(test, steer_gang_backoff(0, 0, 8), 0);
	/* more than there were may have come and gone */
	KUNIT_EXPECT_EQ(test, steer_gang_backoff(64, 20, 8), 64);
}

/* Tried soon again at first, since members may be too new to be moved; then seldom. */
static void steer_test_pause(struct kunit *test)
{
	static const unsigned int steps[] = { 4, 8, 16, 32, 64, 64 };
	unsigned int pause = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		pause = steer_gang_pause(pause);
		KUNIT_EXPECT_EQ(test, pause, steps[i]);
	}
}

/* Together is from when the last one joins until the first one leaves. */
static void steer_test_corun(struct kunit *test)
{
	struct steer_gang_corun corun = { .runnable = 3 };

	steer_gang_corun_run(&corun, 1, 10);
	steer_gang_corun_run(&corun, 2, 20);
	KUNIT_EXPECT_EQ(test, corun.since, 0);
	steer_gang_corun_run(&corun, 3, 30);
	KUNIT_EXPECT_EQ(test, corun.since, 30);
	/* one is preempted, and comes back */
	steer_gang_corun_run(&corun, 2, 50);
	KUNIT_EXPECT_EQ(test, corun.total, 20);
	KUNIT_EXPECT_EQ(test, corun.since, 0);
	steer_gang_corun_run(&corun, 3, 60);
	KUNIT_EXPECT_EQ(test, corun.since, 60);
	/* one goes to sleep: all others still run together */
	steer_gang_corun_fewer(&corun);
	steer_gang_corun_run(&corun, 2, 70);
	KUNIT_EXPECT_EQ(test, corun.total, 30);
	KUNIT_EXPECT_EQ(test, corun.since, 70);
	/* one member is not together with anybody */
	steer_gang_corun_fewer(&corun);
	steer_gang_corun_run(&corun, 1, 80);
	KUNIT_EXPECT_EQ(test, corun.total, 40);
	KUNIT_EXPECT_EQ(test, corun.since, 0);
}

/* One that was counted and is not there is not waited for. */
static void steer_test_absent(struct kunit *test)
{
	struct steer_gang_corun corun = { .runnable = 3 };

	steer_gang_corun_run(&corun, 1, 10);
	steer_gang_corun_run(&corun, 2, 20);
	steer_gang_corun_fewer(&corun);
	steer_gang_corun_run(&corun, 2, 25);
	KUNIT_EXPECT_EQ(test, corun.since, 25);
	/* those that run are there */
	steer_gang_corun_fewer(&corun);
	steer_gang_corun_run(&corun, 2, 30);
	KUNIT_EXPECT_EQ(test, corun.runnable, 2);
	KUNIT_EXPECT_EQ(test, corun.total, 5);
}

#define STEER_TEST_CPUS	100

/* A part of the CPUs of @cpus, and of one that is in another word of the mask */
static struct steer_gang_part *steer_test_part(struct kunit *test, unsigned long cpus, int far)
{
	struct steer_gang_part *part;

	part = kunit_kzalloc(test, struct_size(part, cpus, BITS_TO_LONGS(STEER_TEST_CPUS)),
			     GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, part);
	part->cpus[0] = cpus;
	if (far)
		set_bit(far, part->cpus);
	return part;
}

/* Gangs without a common CPU are in different parts, until there is one that joins them. */
static void steer_test_divide(struct kunit *test)
{
	struct steer_gang_part *a = steer_test_part(test, 0x0f, 0);
	struct steer_gang_part *b = steer_test_part(test, 0xf0, 0);
	struct steer_gang_part *c = steer_test_part(test, 0xf00, 99);
	struct steer_gang_part *inside = steer_test_part(test, 0x600, 0);
	struct steer_gang_part *both = steer_test_part(test, 0x10, 99);
	LIST_HEAD(parts);
	LIST_HEAD(gone);

	KUNIT_EXPECT_FALSE(test, steer_gang_divided(&parts, a->cpus, STEER_TEST_CPUS));
	steer_gang_divide(&parts, a, STEER_TEST_CPUS, &gone);
	steer_gang_divide(&parts, b, STEER_TEST_CPUS, &gone);
	KUNIT_EXPECT_FALSE(test, steer_gang_divided(&parts, c->cpus, STEER_TEST_CPUS));
	steer_gang_divide(&parts, c, STEER_TEST_CPUS, &gone);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&parts), 3);
	KUNIT_EXPECT_TRUE(test, list_empty(&gone));
	KUNIT_EXPECT_TRUE(test, steer_gang_divided(&parts, inside->cpus, STEER_TEST_CPUS));

	/* the second and the third become one, and the first stays what it is */
	KUNIT_EXPECT_FALSE(test, steer_gang_divided(&parts, both->cpus, STEER_TEST_CPUS));
	steer_gang_divide(&parts, both, STEER_TEST_CPUS, &gone);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&parts), 2);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&gone), 2);
	KUNIT_EXPECT_EQ(test, a->cpus[0], 0x0f);
	KUNIT_EXPECT_EQ(test, both->cpus[0], 0xff0);
	KUNIT_EXPECT_TRUE(test, test_bit(99, both->cpus));
	KUNIT_EXPECT_TRUE(test, steer_gang_divided(&parts, b->cpus, STEER_TEST_CPUS));
	KUNIT_EXPECT_TRUE(test, steer_gang_divided(&parts, c->cpus, STEER_TEST_CPUS));
}

static struct kunit_case steer_gang_cases[] = {
	KUNIT_CASE(steer_test_length),
	KUNIT_CASE(steer_test_lag),
	KUNIT_CASE(steer_test_wait),
	KUNIT_CASE(steer_test_limits),
	KUNIT_CASE(steer_test_lead),
	KUNIT_CASE(steer_test_one_slot),
	KUNIT_CASE(steer_test_charging),
	KUNIT_CASE(steer_test_overruled),
	KUNIT_CASE(steer_test_not_overruled),
	KUNIT_CASE(steer_test_too_long),
	KUNIT_CASE(steer_test_yields),
	KUNIT_CASE(steer_test_backoff),
	KUNIT_CASE(steer_test_pause),
	KUNIT_CASE(steer_test_corun),
	KUNIT_CASE(steer_test_absent),
	KUNIT_CASE(steer_test_divide),
	{ }
};

static struct kunit_suite steer_gang_suite = {
	.name = "steer_gang",
	.test_cases = steer_gang_cases,
};

kunit_test_suite(steer_gang_suite);

MODULE_DESCRIPTION("KUnit tests for the rules of cpu.gang");
MODULE_LICENSE("GPL");
