// SPDX-License-Identifier: GPL-2.0-only
/*
 * How uneven nodes may be for the tasks of a group: fork_spread allows nothing,
 * fork_affine what fits the LLC, no word what the scheduler allows anyway.
 *
 * Busy tasks are put on CPUs of one node by their affinity, which is then opened. They
 * never sleep, so that whatever moves them is the load balancer, or NUMA balancing.
 *
 *	root		test, tasks that fill a node
 *	  steer_numa
 *	    group	busy tasks, cpu.hint
 *	    other	likewise
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#define MAX_TASKS	16
/* How long it is looked at that nothing moves [ms] */
#define WATCHED		1500
/*
 * Something else on the machine, such as a kernel thread on the CPU of a task, may make a task
 * leave that should stay. So it is looked at so many times.
 */
#define TRIES		3

FIXTURE(numa) {
	struct topo t;
	struct trace trace;
	struct hogs hogs;
	char *top;
	char *cg;
	char *other;
	struct spinners tasks;
	cpu_set_t home;		/* node in which tasks begin */
	cpu_set_t away;		/* all other CPUs */
};

FIXTURE_SETUP(numa)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	if (self->t.nr_nodes < 2 || topo_llc_weight(&self->t) < 4)
		SKIP(return, "needs two nodes, and LLCs of four CPUs");
	self->top = cg_top("steer_numa");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	self->other = cg_new(self->top, "other");
	ASSERT_NE(NULL, self->cg);
	ASSERT_NE(NULL, self->other);
	/* The last one: the first has the most other things to do. */
	self->home = self->t.node[self->t.nr_nodes - 1];
	self->away = cpuset_minus(self->t.cpus, self->home);
	ASSERT_EQ(0, task_pin_cpu(0, cpuset_nth(&self->t.cpus, 0)));
}

FIXTURE_TEARDOWN(numa)
{
	if (!self->top)
		return;
	trace_stop(&self->trace);
	hogs_stop(&self->hogs);
	spinners_stop(&self->tasks);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* @nr more busy tasks of @cg, each on a CPU of its own in the first LLC of the home node. */
static int begin(FIXTURE_DATA(numa) *self, const char *cg, int nr)
{
	for (int i = 0; i < nr; i++) {
		int ret = spinners_add(&self->tasks, cg, cpuset_nth(&self->home, self->tasks.nr));

		if (ret)
			return ret;
	}
	return spinners_run(&self->tasks);
}

/*
 * From now on all tasks may run anywhere, on the CPU of the test as well: it is the first one
 * of its node that is idle, which balances for all of them.
 */
static int release(FIXTURE_DATA(numa) *self)
{
	return spinners_pin(&self->tasks, &self->t.cpus);
}

/* Of @nr tasks from @first on, how many are away from the home node now? */
static int gone(FIXTURE_DATA(numa) *self, int first, int nr)
{
	return spinners_on(&self->tasks, first, nr, &self->away);
}

/* The same while it is watched: the most that were seen away. */
static int went(FIXTURE_DATA(numa) *self, int first, int nr)
{
	int most = 0;

	for (int ms = 0; ms < WATCHED; ms += 5) {
		int now = gone(self, first, nr);

		most = now > most ? now : most;
		usleep(5000);
	}
	return most;
}

#define COUNT(cg, key)	cg_count(cg, "hint_numa_" key)

/*
 * Two tasks in one node are what the scheduler leaves alone, and fork_spread does not.
 * That the pair stays by default is no more than its habit.
 */
TEST_F_TIMEOUT(numa, spread_by_balance, 240)
{
	bool stayed = false;

	for (int i = 0; i < TRIES && !stayed; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, begin(self, self->cg, 2));
		ASSERT_EQ(0, release(self));
		stayed = !went(self, 0, 2);
	}
	EXPECT_TRUE(stayed);

	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_numa", NULL));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_spread"));
	EXPECT_TRUE(WAIT_FOR(gone(self, 0, 2) == 1));
	EXPECT_LT(0, COUNT(self->cg, "spread"));
	EXPECT_EQ(0, COUNT(self->cg, "together"));
	EXPECT_EQ(0, trace_pause(&self->trace));
	EXPECT_LT(0, trace_count(&self->trace, "steer_numa", "hint=fork_spread path=balance"));
}

/* As many tasks as an LLC has CPUs: by default some of them go, with fork_affine none. */
TEST_F_TIMEOUT(numa, together, 240)
{
	int nr = topo_llc_weight(&self->t), most = 1;

	if (nr > MAX_TASKS)
		SKIP(return, "LLC of %d CPUs is too large", nr);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	for (int i = 0; i < TRIES && most; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, begin(self, self->cg, nr));
		ASSERT_EQ(0, release(self));
		most = went(self, 0, nr);
		TH_LOG("%d of %d went, together %ld", most, nr, COUNT(self->cg, "together"));
	}
	EXPECT_EQ(0, most);
	EXPECT_LT(0, COUNT(self->cg, "together"));
	EXPECT_EQ(0, COUNT(self->cg, "spread"));

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_TRUE(WAIT_FOR(gone(self, 0, nr) > 0));
}

/* Where others fill the LLC, what does not fit leaves, as ever. */
TEST_F_TIMEOUT(numa, together_no_further, 240)
{
	int nr = CPU_COUNT(&self->home);

	if (nr > MAX_TASKS)
		SKIP(return, "node of %d CPUs is too large", nr);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	ASSERT_EQ(0, begin(self, self->cg, nr));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &self->home, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	ASSERT_EQ(0, release(self));
	EXPECT_TRUE(WAIT_FOR(gone(self, 0, nr) > 0));
}

/*
 * Groups with different wishes in one node:
 *
 *	group	fork_affine, two tasks	stay
 *	other	fork_spread, two tasks	leave, as the node has four more than the next
 */
TEST_F_TIMEOUT(numa, mixed, 240)
{
	bool stayed = false;

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	ASSERT_EQ(0, cg_write(self->other, "cpu.hint", "fork_spread"));
	for (int i = 0; i < TRIES && !stayed; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, begin(self, self->cg, 2));
		ASSERT_EQ(0, begin(self, self->other, 2));
		ASSERT_EQ(0, release(self));
		ASSERT_TRUE(WAIT_FOR(gone(self, 2, 2) > 0));
		stayed = !went(self, 0, 2);
	}
	EXPECT_TRUE(stayed);
}

/*
 * An imbalance of two, which one minds and the other does not: the one goes. With one LLC in
 * a node, the default allows that only between nodes without any other task, such as the test.
 */
TEST_F_TIMEOUT(numa, only_who_asked, 240)
{
	bool stayed = false;

	ASSERT_EQ(0, cg_write(self->other, "cpu.hint", "fork_spread"));
	for (int i = 0; i < TRIES && !stayed; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, begin(self, self->cg, 1));
		ASSERT_EQ(0, begin(self, self->other, 1));
		ASSERT_EQ(0, release(self));
		ASSERT_TRUE(WAIT_FOR(gone(self, 1, 1) == 1));
		stayed = !gone(self, 0, 1);
	}
	if (self->t.nr_llcs > self->t.nr_nodes) {
		EXPECT_TRUE(stayed);
		EXPECT_LT(0, COUNT(self->other, "spread"));
	}
}

/*
 * Nodes are even for a group that is spread when each has as many of its tasks. So the balancer
 * leaves them there, although others fill one of the nodes, and it would pull them out by default.
 */
TEST_F_TIMEOUT(numa, spread_beside_others, 240)
{
	cpu_set_t busy = cpuset_minus(self->home, cpuset_one(cpuset_nth(&self->home, 0)));
	bool stayed = false;

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_spread"));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	for (int i = 0; i < TRIES && !stayed; i++) {
		spinners_stop(&self->tasks);
		ASSERT_EQ(0, begin(self, self->cg, 1));
		for (int n = 0; n < self->t.nr_nodes - 1; n++)
			ASSERT_EQ(0, spinners_add(&self->tasks, self->cg,
						  cpuset_nth(&self->t.node[n], 1)));
		ASSERT_EQ(0, spinners_run(&self->tasks));
		ASSERT_EQ(0, release(self));
		stayed = !went(self, 0, 1);
	}
	EXPECT_TRUE(stayed);

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_TRUE(WAIT_FOR(gone(self, 0, 1) == 1));
}

/*
 * While another group has a word, tasks without one are moved, and none of the decisions is one
 * that a word has changed.
 */
TEST_F_TIMEOUT(numa, nothing_for_others, 240)
{
	int nr = topo_llc_weight(&self->t);

	if (nr > MAX_TASKS)
		SKIP(return, "LLC of %d CPUs is too large", nr);
	ASSERT_EQ(0, cg_write(self->other, "cpu.hint", "fork_spread"));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_numa", NULL));
	ASSERT_EQ(0, begin(self, self->cg, nr));
	ASSERT_EQ(0, release(self));
	EXPECT_TRUE(WAIT_FOR(gone(self, 0, nr) > 0));
	EXPECT_EQ(0, trace_pause(&self->trace));
	EXPECT_EQ(0, trace_count(&self->trace, "steer_numa", "hint="));
	EXPECT_EQ(0, COUNT(self->other, "spread"));
}

/* One that may not leave is not waited for; others of its kind are. */
TEST_F_TIMEOUT(numa, spread_affinity, 240)
{
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_spread"));
	ASSERT_EQ(0, begin(self, self->cg, 2));
	/* only the second one */
	ASSERT_EQ(0, task_pin(self->tasks.task[0].pid, &self->home));
	ASSERT_EQ(0, task_pin(self->tasks.task[1].pid, &self->t.cpus));
	EXPECT_TRUE(WAIT_FOR(gone(self, 1, 1) == 1));
	EXPECT_EQ(0, gone(self, 0, 1));
}

STEER_MAIN
