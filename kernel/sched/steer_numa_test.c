// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the rules of cpu.hint between nodes: which imbalance is allowed to a
 * task, and which tasks a balance pass moves.
 */
#include <kunit/test.h>

#include "steer_numa_rules.h"

/* Two more tasks than elsewhere stay by default while not more run than the machine allows. */
static void steer_test_default(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_numa_by_default(1, 1, 2));
	KUNIT_EXPECT_TRUE(test, steer_numa_by_default(2, 2, 2));
	KUNIT_EXPECT_FALSE(test, steer_numa_by_default(3, 2, 2));
	KUNIT_EXPECT_FALSE(test, steer_numa_by_default(2, 3, 2));
	KUNIT_EXPECT_FALSE(test, steer_numa_by_default(1, 1, 0));
}

/* A task without a fork word gets the answer that it would have anyway. */
static void steer_test_unhinted(struct kunit *test)
{
	static const u32 hints[] = {
		0, STEER_WAKE_AFFINE, STEER_WORDS & ~STEER_FORK,
	};
	int i, src, dst;

	for (i = 0; i < ARRAY_SIZE(hints); i++) {
		for (src = 0; src < 20; src++) {
			for (dst = 1; dst < 20; dst++) {
				KUNIT_EXPECT_TRUE(test, steer_numa_may_move(hints[i], src, dst, 8,
									    true));
				KUNIT_EXPECT_FALSE(test, steer_numa_may_move(hints[i], src, dst, 8,
									     false));
			}
		}
	}
}

/* An idle core, then own tasks for the size of the place, then idle CPUs, then utilisation. */
static void steer_test_place(struct kunit *test)
{
	static const struct steer_place order[] = {
		{ .own = 3, .cpus = 8, .idle = 4, .core = true },
		{ .own = 4, .cpus = 8, .idle = 4, .core = true },
		{ .own = 0, .cpus = 8, .idle = 1, .used = 900 },
		{ .own = 1, .cpus = 16, .idle = 15, .used = 10 },
		{ .own = 1, .cpus = 8, .idle = 7, .used = 500 },
		{ .own = 2, .cpus = 16, .idle = 4, .used = 10 },
		{ .own = 1, .cpus = 8, .idle = 4, .used = 500 },
		{ .own = 1, .cpus = 8, .idle = 4, .used = 501 },
		{ .own = 9, .cpus = 8, .idle = 8, .used = 0 },
		/* Without an idle CPU, it is of no use. */
		{ .own = 0, .cpus = 8, .idle = 0, .used = 0 },
		{ .own = 0, .cpus = 0, .idle = 0, .used = 0 },
	};
	int i, j, full = ARRAY_SIZE(order) - 2;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		for (j = i + 1; j < ARRAY_SIZE(order); j++) {
			KUNIT_EXPECT_EQ(test, i < full,
					steer_place_is_better(&order[i], &order[j]));
			KUNIT_EXPECT_FALSE(test, steer_place_is_better(&order[j], &order[i]));
		}
		/* One that is as good is no reason to go there. */
		KUNIT_EXPECT_FALSE(test, steer_place_is_better(&order[i], &order[i]));
	}
}

/* Nothing is allowed to fork_spread, not even the first pair; what is even is even. */
static void steer_test_spread(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_numa_may_move(STEER_FORK_SPREAD, 1, 1, 8, true));
	KUNIT_EXPECT_TRUE(test, steer_numa_may_move(STEER_FORK_SPREAD, 9, 9, 8, false));
	KUNIT_EXPECT_FALSE(test, steer_numa_may_move(STEER_FORK_SPREAD, 0, 1, 8, true));
	KUNIT_EXPECT_FALSE(test, steer_numa_may_move(STEER_FORK_SPREAD | STEER_WAKE_HOLD, 0, 2, 8,
						     true));
}

/* fork_affine: whatever fits the LLC; beyond it, the default. */
static void steer_test_affine(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_numa_may_move(STEER_FORK_AFFINE, 0, 7, 8, false));
	KUNIT_EXPECT_TRUE(test, steer_numa_may_move(STEER_FORK_AFFINE, 0, 8, 8, false));
	KUNIT_EXPECT_FALSE(test, steer_numa_may_move(STEER_FORK_AFFINE, 0, 9, 8, false));
	KUNIT_EXPECT_TRUE(test, steer_numa_may_move(STEER_FORK_AFFINE, 0, 9, 8, true));
}

/* A pass with its usual reason moves all but those that fit: together, or apart already. */
static void steer_test_pass(struct kunit *test)
{
	int fewer;

	for (fewer = 0; fewer < 2; fewer++) {
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(STEER_FORK_AFFINE, true, true, fewer,
							      0));
		KUNIT_EXPECT_FALSE(test, steer_numa_task_stays(STEER_FORK_AFFINE, false, true,
							       fewer, 0));
		KUNIT_EXPECT_FALSE(test, steer_numa_task_stays(0, true, true, fewer, 0));
		/* Flags of the scheduler's own are none of ours. */
		KUNIT_EXPECT_FALSE(test, steer_numa_task_stays(STEER_WORDS & ~STEER_FORK, true,
							       true, fewer, 0xffff));
		KUNIT_EXPECT_EQ(test, !fewer, steer_numa_task_stays(STEER_FORK_SPREAD, true, true,
								    fewer, 0));
		/* What waits has no CPU to stay on. */
		KUNIT_EXPECT_FALSE(test, steer_numa_task_stays(STEER_FORK_SPREAD, false, true,
							       fewer, 0));
	}
}

/* Where the imbalance is allowed by default, only those to be spread move, if it spreads them. */
static void steer_test_pass_spread(struct kunit *test)
{
	const unsigned int flags = STEER_LBF_SPREAD | 1;
	int alone;

	for (alone = 0; alone < 2; alone++) {
		KUNIT_EXPECT_FALSE(test, steer_numa_task_stays(STEER_FORK_SPREAD, alone, true,
							       true, flags));
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(STEER_FORK_SPREAD, alone, true,
							      false, flags));
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(STEER_FORK_SPREAD, alone, false,
							      true, flags));
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(STEER_FORK_AFFINE, alone, true, true,
							      flags));
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(STEER_WAKE_HOLD, alone, true, true,
							      flags));
		KUNIT_EXPECT_TRUE(test, steer_numa_task_stays(0, alone, true, true, flags));
	}
}

static struct kunit_case steer_numa_cases[] = {
	KUNIT_CASE(steer_test_default),
	KUNIT_CASE(steer_test_unhinted),
	KUNIT_CASE(steer_test_place),
	KUNIT_CASE(steer_test_spread),
	KUNIT_CASE(steer_test_affine),
	KUNIT_CASE(steer_test_pass),
	KUNIT_CASE(steer_test_pass_spread),
	{ }
};

static struct kunit_suite steer_numa_suite = {
	.name = "steer_numa",
	.test_cases = steer_numa_cases,
};

kunit_test_suite(steer_numa_suite);

MODULE_DESCRIPTION("KUnit tests for the rules of cpu.hint between nodes");
MODULE_LICENSE("GPL");
