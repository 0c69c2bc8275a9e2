// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the load balancer does to tasks with a wake hint: it leaves them in their
 * LLC while that has room for them, and moves them as any other when it has not.
 *
 * Busy tasks are queued on one CPU by their affinity, which is then opened. From
 * there only the load balancer moves them: they never sleep.
 *
 *	root		test
 *	  steer_balance
 *	    group	busy tasks, cpu.hint
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <signal.h>

FIXTURE(balance) {
	struct topo t;
	char *top;
	char *cg;
	struct spinners tasks;
	cpu_set_t home;		/* LLC on which they are queued */
	int a0;
};

FIXTURE_SETUP(balance)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_balance");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);
	/* The last LLC: the first has the most other things to do. */
	self->home = self->t.llc[self->t.nr_llcs - 1];
	self->a0 = cpuset_nth(&self->home, 0);
	/* keep the test itself out of there */
	ASSERT_EQ(0, task_pin_cpu(0, cpuset_nth(&self->t.cpus, 0)));
}

FIXTURE_TEARDOWN(balance)
{
	spinners_stop(&self->tasks);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* @nr busy tasks, all queued on @cpu, then free to run on @mask. */
static int queue(FIXTURE_DATA(balance) *self, int nr, int cpu,
		 const cpu_set_t *mask)
{
	for (int i = 0; i < nr; i++) {
		int ret = spinners_add(&self->tasks, self->cg, cpu);

		if (ret)
			return ret;
	}
	return spinners_run(&self->tasks) ?: spinners_pin(&self->tasks, mask);
}

/* How many are outside @set now */
static int outside(FIXTURE_DATA(balance) *self, const cpu_set_t *set)
{
	return self->tasks.nr - spinners_on(&self->tasks, 0, self->tasks.nr, set);
}

/* On how many different CPUs are they? */
static int spread(FIXTURE_DATA(balance) *self)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < self->tasks.nr; i++)
		CPU_SET(task_cpu(self->tasks.task[i].pid), &set);
	return CPU_COUNT(&set);
}

#define COUNT(key)	cg_count(self->cg, "hint_balance_" key)

/*
 * As many tasks as the LLC has CPUs, all on one of them: there is room for each.
 * Returns how many had left the LLC when each had a CPU of its own, over several
 * rounds.
 */
static int escapes(FIXTURE_DATA(balance) *self, int rounds)
{
	int tasks = CPU_COUNT(&self->home), nr = 0;

	if (tasks > MAX_SPINNERS)
		tasks = MAX_SPINNERS;
	for (int i = 0; i < rounds; i++) {
		if (queue(self, tasks, self->a0, &self->t.cpus) ||
		    !WAIT_FOR(spread(self) == tasks))
			return -1;
		nr += outside(self, &self->home);
		spinners_stop(&self->tasks);
	}
	return nr;
}

#define ROUNDS	10

/*
 * Queued tasks with a wake hint find room in their own LLC, and are not pulled
 * out of it before they do. The balancer gives up holding them after a few
 * attempts, as with cache-hot tasks; but whoever left did so for that reason, or
 * by active balancing, which does not ask.
 */
static void held(struct __test_metadata *_metadata, FIXTURE_DATA(balance) *self,
		 const char *word)
{
	int none, hint;

	REQUIRE_LLCS(&self->t, 2);
	none = escapes(self, ROUNDS);
	TH_LOG("none: %d escaped", none);
	ASSERT_LE(0, none);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", word));
	hint = escapes(self, ROUNDS);
	TH_LOG("%s: %d escaped, %ld held, %ld overloaded, %ld gave up", word, hint,
	       COUNT("held"), COUNT("overloaded"), COUNT("gave_up"));
	ASSERT_LE(0, hint);
	EXPECT_LT(0, COUNT("held"));
	EXPECT_GE(COUNT("gave_up") + COUNT("overloaded") + ROUNDS / 5, hint);
}

TEST_F_TIMEOUT(balance, held_by_hold, 300)
{
	held(_metadata, self, "wake_hold");
}

TEST_F_TIMEOUT(balance, held_by_affine, 300)
{
	held(_metadata, self, "wake_affine");
}

/* Other hints do not make the balancer hold anything. */
TEST_F_TIMEOUT(balance, only_wake_hints, 180)
{
	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint",
			      "fork_affine wake_wide scan_full pack"));
	EXPECT_LE(0, escapes(self, 5));
	EXPECT_EQ(0, COUNT("held"));
	EXPECT_EQ(0, COUNT("overloaded"));
}

/* With more tasks than CPUs in the LLC, the others leave. */
TEST_F_TIMEOUT(balance, overloaded, 300)
{
	int weight, nr;

	REQUIRE_LLCS(&self->t, 2);
	weight = CPU_COUNT(&self->home);
	nr = 2 * weight < self->t.nr_cpus ? 2 * weight : self->t.nr_cpus;
	if (nr > MAX_SPINNERS)
		SKIP(return, "LLC of %d CPUs is too large", weight);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, queue(self, nr, self->a0, &self->t.cpus));
	EXPECT_TRUE(WAIT_FOR(outside(self, &self->home) >= nr - weight))
		TH_LOG("%d of %d outside", outside(self, &self->home), nr);
	EXPECT_LT(0, COUNT("overloaded"));
}

/* What is held back for the group does not count among them. */
TEST_F_TIMEOUT(balance, headroom, 300)
{
	long overloaded[2], held[2];
	struct hogs hogs;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_hold"));
	ASSERT_EQ(0, hogs_start(&hogs, side, &self->home, 0));
	EXPECT_EQ(0, hogs_run(&hogs));
	for (int protected = 0; protected < 2; protected++) {
		EXPECT_EQ(0, cg_write(self->cg, "cpu.headroom", protected ? "10" : "0"));
		overloaded[protected] = -COUNT("overloaded");
		held[protected] = -COUNT("held");
		EXPECT_LE(0, escapes(self, ROUNDS));
		overloaded[protected] += COUNT("overloaded");
		held[protected] += COUNT("held");
		TH_LOG("headroom %d: %ld held, %ld overloaded", protected * 10, held[protected],
		       overloaded[protected]);
	}
	hogs_stop(&hogs);
	EXPECT_LT(overloaded[1], held[1]);
	/* Much rarer than without; how often the balancer asks is by the host's load. */
	EXPECT_LT(4 * overloaded[1] * held[0], overloaded[0] * held[1]);
	free(side);
}

/*
 * Affinity to one CPU here and one elsewhere: two tasks do not fit one CPU, so
 * the LLC is full for them however many of its CPUs are idle. They must not be
 * held; that the balancer then finds them is its own affair, for which it gets
 * some attempts: between two LLCs, with one task too many, it is not sure to.
 */
TEST_F_TIMEOUT(balance, affinity_counts, 300)
{
	bool apart = false;
	cpu_set_t mask;
	int b0;

	REQUIRE_LLCS(&self->t, 2);
	/* The neighbour, if only one in the same node: no NUMA allowance there. */
	b0 = cpuset_nth(&self->t.llc[self->t.nr_llcs - 2], 1);
	mask = cpuset_or(cpuset_one(self->a0), cpuset_one(b0));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_hold"));
	for (int i = 0; i < 3 && !apart; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, queue(self, 2, self->a0, &mask));
		apart = WAIT_FOR(spread(self) == 2);
	}
	EXPECT_TRUE(apart);
	EXPECT_EQ(0, outside(self, &mask));
	EXPECT_EQ(0, COUNT("held"));
}

/*
 * Nobody is stuck for good: where no CPU of the LLC comes for a queued task
 * (they are all busy with a pinned one), it is let go.
 */
TEST_F_TIMEOUT(balance, not_stuck, 300)
{
	struct hogs hogs;
	cpu_set_t busy;
	bool left;

	REQUIRE_LLCS(&self->t, 2);
	busy = cpuset_minus(self->home, cpuset_one(self->a0));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_hold"));
	ASSERT_EQ(0, hogs_start(&hogs, NULL, &busy, 0));
	EXPECT_EQ(0, hogs_run(&hogs));
	EXPECT_EQ(0, queue(self, 3, self->a0, &self->t.cpus));
	left = WAIT_FOR(outside(self, &self->home) >= 2);
	hogs_stop(&hogs);
	EXPECT_TRUE(left);
}

/*
 * A queue with nothing but hinted tasks is balanced inside its LLC: each gets a
 * CPU, and all of them make progress.
 */
TEST_F_TIMEOUT(balance, only_hinted, 300)
{
	unsigned long before[MAX_SPINNERS];
	int nr;

	REQUIRE_LLCS(&self->t, 1);
	nr = CPU_COUNT(&self->home);
	if (nr > MAX_SPINNERS)
		SKIP(return, "LLC of %d CPUs is too large", nr);
	/* The test sits in the first LLC, which may be the only one. */
	if (self->t.nr_llcs == 1)
		nr--;
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, queue(self, nr, self->a0, &self->t.cpus));
	EXPECT_TRUE(WAIT_FOR(spread(self) == nr));
	for (int i = 0; i < nr; i++)
		before[i] = self->tasks.task[i].loops;
	for (int i = 0; i < nr; i++) {
		EXPECT_TRUE(WAIT_FOR(__atomic_load_n(&self->tasks.task[i].loops,
						     __ATOMIC_RELAXED) !=
				     before[i]));
	}
}

/* When the hint is taken away, tasks are balanced across LLCs as ever. */
TEST_F_TIMEOUT(balance, hint_removed, 300)
{
	int nr;

	REQUIRE_LLCS(&self->t, 2);
	nr = CPU_COUNT(&self->home);
	if (nr > MAX_SPINNERS)
		SKIP(return, "LLC of %d CPUs is too large", nr);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_hold"));
	/* One that could not be balanced for too long leaves with the hint, too. */
	for (int try = 0; try < 10; try++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, queue(self, nr, self->a0, &self->t.cpus));
		ASSERT_TRUE(WAIT_FOR(spread(self) == nr));
		if (!outside(self, &self->home))
			break;
	}
	ASSERT_EQ(0, outside(self, &self->home));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_TRUE(WAIT_FOR(outside(self, &self->home) > 0));
}

/* Balancing hinted tasks never moves one outside its affinity. */
TEST_F_TIMEOUT(balance, affinity, 180)
{
	cpu_set_t mask;
	int nr;

	REQUIRE_LLCS(&self->t, 2);
	/* one CPU of each LLC */
	CPU_ZERO(&mask);
	for (int i = 0; i < self->t.nr_llcs; i++)
		CPU_SET(cpuset_nth(&self->t.llc[i], 0), &mask);
	nr = CPU_COUNT(&mask);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine wake_wide"));
	ASSERT_EQ(0, queue(self, nr, self->a0, &mask));
	for (int i = 0; i < 300; i++) {
		ASSERT_EQ(0, outside(self, &mask));
		usleep(1000);
	}
}

STEER_MAIN
