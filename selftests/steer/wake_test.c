// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where tasks run when they wake up: wake_affine, wake_hold, wake_wide,
 * scan_full, scan_none and pack.
 *
 * The test is the waker: it pins itself to a CPU, lets the wakee sleep on a CPU
 * of its choice, makes others busy with pinned hogs, and wakes it. Each claim is
 * tested with the hint and without, on the same workload: a test that would
 * pass on a kernel that ignores the hint proves nothing.
 *
 * The hogs and the waker are in the group that the test was started from, the
 * wakee is in a group of its own:
 *
 *	root		waker, hogs
 *	  steer_wake
 *	    group	wakee, cpu.hint
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#define ROUNDS	16
/*
 * Something else on the machine (a kernel thread, an interrupt) may be in the
 * way now and then.
 */
#define MOST	(ROUNDS * 7 / 8)
#define FEW	(ROUNDS / 5)
/*
 * A task that had to queue may have been pulled elsewhere by the load balancer
 * before it could say where it was put. The counters know better.
 */
#define HALF	(ROUNDS / 2)

/*
 * An LLC that was crowded for a moment draws nobody for 100 ms: with this rest before each
 * wakeup, such a moment costs one of them, and not all that follow [us].
 */
#define UNTIL_LLC_DRAWS	120000

/* Outweighs the waker's load wherever the default path compares loads. */
#define HOG_NICE	-10

FIXTURE(wake) {
	struct topo t;
	struct wakee w;
	struct hogs hogs, more, crowd[2];
	char *top;
	char *cg;
	cpu_set_t a, b;		/* first and second LLC */
	int a0, a1, b0, b1;	/* their first two CPUs, b's -1 without a second */
	int rest;		/* before each wakeup the waker sleeps so long [us] */
	char autogroup[4];
	struct trace trace;
};

FIXTURE_SETUP(wake)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_wake");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);

	/* or the hogs' weight would be that of their session, spread over them */
	if (file_read(AUTOGROUP, self->autogroup, sizeof(self->autogroup)) > 0) {
		ASSERT_EQ(0, file_write(AUTOGROUP, "0", 1));
	}

	self->a = self->t.llc[0];
	CPU_ZERO(&self->b);
	if (self->t.nr_llcs > 1)
		self->b = self->t.llc[1];
	self->a0 = cpuset_nth(&self->a, 0);
	self->a1 = cpuset_nth(&self->a, 1);
	self->b0 = cpuset_nth(&self->b, 0);
	self->b1 = cpuset_nth(&self->b, 1);
}

FIXTURE_TEARDOWN(wake)
{
	trace_stop(&self->trace);
	wakee_stop(&self->w);
	hogs_stop(&self->hogs);
	hogs_stop(&self->more);
	for (size_t i = 0; i < ARRAY_SIZE(self->crowd); i++)
		hogs_stop(&self->crowd[i]);
	if (self->autogroup[0])
		file_write(AUTOGROUP, self->autogroup, 1);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* With fewer, the tests' tasks have no CPUs of the first LLC to themselves. */
#define REQUIRE_FOUR_IN_LLC() do {				\
	if (CPU_COUNT(&self->a) < 4)				\
		SKIP(return, "needs four CPUs in an LLC");	\
} while (0)

/* Where the wakeups of one series ended */
struct where {
	int in_a;		/* in the first LLC */
	int in_b;		/* in the second */
	int on_prev;		/* on the CPU where it slept */
	int on_waker;		/* on the waker's */
	int allowed;		/* inside its affinity */
	cpu_set_t cpus;		/* all of them */
};

/*
 * ROUNDS times: with the hogs paused, the wakee goes to sleep on @sleep with
 * the affinity @mask; with the hogs running, it is woken from @waker.
 */
static int series(FIXTURE_DATA(wake) *self, int waker, int sleep,
		  const cpu_set_t *mask, struct where *where)
{
	struct wake rec;
	int ret;

	memset(where, 0, sizeof(*where));
	ret = task_pin_cpu(0, waker);
	for (int i = 0; !ret && i < ROUNDS; i++) {
		if (self->hogs.nr)
			ret = hogs_pause(&self->hogs);
		if (!ret)
			ret = wakee_place(&self->w, sleep, mask);
		if (!ret && self->hogs.nr)
			ret = hogs_run(&self->hogs);
		usleep(self->rest);
		if (!ret)
			ret = wakee_wake(&self->w, &rec);
		if (ret)
			break;
		where->in_a += CPU_ISSET(rec.cpu, &self->a);
		where->in_b += CPU_ISSET(rec.cpu, &self->b);
		where->on_prev += rec.cpu == rec.prev;
		where->on_waker += rec.cpu == rec.waker;
		where->allowed += CPU_ISSET(rec.cpu, mask);
		CPU_SET(rec.cpu, &where->cpus);
	}
	if (self->hogs.nr && !ret)
		ret = hogs_pause(&self->hogs);
	return ret;
}

/*
 * A wakee, and hogs on all CPUs of the first LLC but one: there is the waker, which
 * keeps it busy itself.
 */
static int waker_llc_full(FIXTURE_DATA(wake) *self)
{
	cpu_set_t busy = cpuset_minus(self->a, cpuset_one(self->a0));
	int ret = hogs_start(&self->hogs, NULL, &busy, HOG_NICE);

	return ret ? ret : wakee_start(&self->w, self->cg, NULL);
}

/* As series(), under a hint. Counters are compared by how much they rose. */
#define SERIES(hint, waker, sleep, mask, where) do {			\
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hint));		\
	ASSERT_EQ(0, series(self, waker, sleep, mask, where));		\
	TH_LOG("%-24s of %d: %d in waker's LLC, %d in the other, %d on prev", \
	       hint, ROUNDS,						\
	       CPU_ISSET(waker, &self->a) ? (where)->in_a : (where)->in_b, \
	       CPU_ISSET(waker, &self->a) ? (where)->in_b : (where)->in_a, \
	       (where)->on_prev);					\
} while (0)

#define COUNT(key)	cg_count(self->cg, "hint_" key)

/* wake_affine brings a task to its waker's LLC; without it, it stays. */
TEST_F_TIMEOUT(wake, affine, 120)
{
	struct where none, hint;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("none", self->a0, self->b0, &self->t.cpus, &none);
	EXPECT_GE(FEW, none.in_a);
	self->rest = UNTIL_LLC_DRAWS;
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &hint);
	EXPECT_LE(MOST, hint.in_a);
	EXPECT_LE(MOST, COUNT("wake_followed"));
	EXPECT_GE(FEW, COUNT("wake_full"));
	EXPECT_EQ(0, COUNT("wake_affinity"));
}

/*
 * wake_hold keeps a task in the LLC where it ran last, though its CPU there is
 * busy now and the default is to move it to its waker.
 */
TEST_F_TIMEOUT(wake, hold, 120)
{
	struct where none, hint;
	cpu_set_t busy;

	REQUIRE_LLCS(&self->t, 2);
	busy = cpuset_one(self->b0);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	/* for the default to move it, the hog has to outweigh the waker */
	self->rest = 100000;
	SERIES("none", self->a0, self->b0, &self->t.cpus, &none);
	EXPECT_LE(HALF, none.in_a);
	SERIES("wake_hold", self->a0, self->b0, &self->t.cpus, &hint);
	EXPECT_LE(MOST, hint.in_b);
	EXPECT_LE(MOST, COUNT("wake_followed"));
	/* it found an idle CPU there: it did not queue behind the hog */
	EXPECT_GE(FEW, hint.on_prev);
}

/* With waker and wakee in one LLC a wake hint has nothing to say. */
TEST_F_TIMEOUT(wake, same_llc, 120)
{
	struct where where;

	if (self->a1 < 0)
		SKIP(return, "needs two CPUs in an LLC");
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(MOST, COUNT("wake_same_llc"));
	EXPECT_LE(MOST, where.in_a);
	SERIES("wake_hold", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(2 * MOST, COUNT("wake_same_llc"));
	EXPECT_LE(MOST, where.in_a);
}

/* wake_affine is not followed into an LLC that has no idle CPU. */
TEST_F_TIMEOUT(wake, affine_full, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, waker_llc_full(self));
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.in_b);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_GE(FEW, COUNT("wake_followed"));
}

/* One idle CPU is not enough for wake_affine: half of the LLC has to be idle. */
TEST_F_TIMEOUT(wake, affine_crowded, 120)
{
	struct where where;
	cpu_set_t busy, last;

	REQUIRE_LLCS(&self->t, 2);
	REQUIRE_FOUR_IN_LLC();
	last = cpuset_one(cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1));
	busy = cpuset_minus(self->a, cpuset_one(self->a0));
	busy = cpuset_minus(busy, last);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.in_b);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_GE(FEW, COUNT("wake_followed"));
}

/*
 * Waker and wakee share a full LLC. By default the wakee queues there; with a
 * hint that may have gathered its group there, it goes where there is room.
 */
TEST_F_TIMEOUT(wake, overflow, 180)
{
	static const char *const gathering[] = { "fork_affine", "wake_affine", "wake_hold" };
	struct where none, hint;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, waker_llc_full(self));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &none);
	EXPECT_LE(HALF, none.in_a);
	for (size_t i = 0; i < sizeof(gathering) / sizeof(gathering[0]); i++) {
		SERIES(gathering[i], self->a0, self->a1, &self->t.cpus, &hint);
		EXPECT_LE(MOST, hint.allowed - hint.in_a);
		/* but not if it was asked not to look around */
		SERIES("-scan_full +scan_none", self->a0, self->a1, &self->t.cpus, &hint);
		EXPECT_LE(HALF, hint.in_a);
	}
}

/*
 * The same full LLC, and no hint: by cpu.headroom idle CPUs are kept for the group,
 * and it goes to where they are.
 */
TEST_F_TIMEOUT(wake, headroom, 180)
{
	struct where none, protected;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, waker_llc_full(self));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &none);
	EXPECT_LE(HALF, none.in_a);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &protected);
	EXPECT_LE(MOST, protected.allowed - protected.in_a);
	/* but not if it was asked not to look around */
	SERIES("scan_none", self->a0, self->a1, &self->t.cpus, &protected);
	EXPECT_LE(HALF, protected.in_a);
}

/* The same LLC, full of tasks of the group itself: it would be so without a headroom, too. */
TEST_F_TIMEOUT(wake, headroom_own, 180)
{
	cpu_set_t busy = cpuset_minus(self->a, cpuset_one(self->a0));
	struct where where;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	REQUIRE_FOUR_IN_LLC();
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	ASSERT_EQ(0, hogs_start(&self->hogs, self->cg, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(HALF, where.in_a);
	/* with a hint that makes who finds no room leave, too: see wake.overflow */
	SERIES("fork_affine", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(HALF, where.in_a);
}

/*
 * The same, and a side job on all other CPUs, which gives way. Whoever finds no room stays
 * with its group, unless more than two of it are there for each CPU.
 */
TEST_F_TIMEOUT(wake, headroom_crowded, 180)
{
	cpu_set_t busy = cpuset_minus(self->a, cpuset_one(self->a0));
	cpu_set_t others = cpuset_minus(self->t.cpus, self->a);
	struct where where;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	REQUIRE_FOUR_IN_LLC();
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "1"));
	ASSERT_EQ(0, hogs_start(&self->hogs, self->cg, &busy, 0));
	ASSERT_EQ(0, hogs_start(&self->more, side, &others, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(HALF, where.in_a);
	for (size_t i = 0; i < ARRAY_SIZE(self->crowd); i++) {
		ASSERT_EQ(0, hogs_start(&self->crowd[i], self->cg, &busy, 0));
		ASSERT_EQ(0, hogs_run(&self->crowd[i]));
	}
	SERIES("none", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.allowed - where.in_a);
	SERIES("wake_affine", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.allowed - where.in_a);
	free(side);
}

/*
 * One task of the group finds no room where it may run, and makes its hint look no further
 * for a jiffy. What gives way in the LLC is there for the next one all the same, as it is
 * without a hint.
 */
TEST_F_TIMEOUT(wake, headroom_again, 180)
{
	int last = cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1), nr = 0;
	cpu_set_t busy, narrow = cpuset_one(self->a1);
	struct wakee first = { };
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_FOUR_IN_LLC();
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	busy = cpuset_minus(cpuset_minus(self->a, cpuset_one(self->a0)), cpuset_one(last));
	ASSERT_EQ(0, hogs_start(&self->hogs, self->cg, &busy, HOG_NICE));
	busy = cpuset_one(last);
	ASSERT_EQ(0, hogs_start(&self->more, side, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	ASSERT_EQ(0, wakee_start(&first, self->cg, NULL));
	/* Two CPUs: with one there is nothing to choose. */
	CPU_SET(cpuset_nth(&self->a, 2), &narrow);
	ASSERT_EQ(0, task_pin_cpu(0, self->a0));
	for (int i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, hogs_pause(&self->hogs));
		ASSERT_EQ(0, hogs_pause(&self->more));
		ASSERT_EQ(0, wakee_place(&self->w, self->a1, &self->a));
		ASSERT_EQ(0, wakee_place(&first, self->a1, &narrow));
		ASSERT_EQ(0, hogs_run(&self->hogs));
		ASSERT_EQ(0, hogs_run(&self->more));
		usleep(self->rest);
		/* in one jiffy */
		wakee_call(&first);
		wakee_call(&self->w);
		nr += wakee_answer(&self->w) == last;
		ASSERT_LE(0, wakee_answer(&first));
	}
	wakee_stop(&first);
	TH_LOG("%d of %d where the side job gives way", nr, ROUNDS);
	EXPECT_LE(HALF, nr);
	free(side);
}

/* What is held back for a group is not in the way of its wake_affine. */
TEST_F_TIMEOUT(wake, headroom_affine, 180)
{
	struct where where;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	/* On the waker's CPU, too, as below. */
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &self->a, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_GE(FEW, COUNT("wake_followed"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	self->rest = UNTIL_LLC_DRAWS;
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, COUNT("wake_followed"));
	/* An idle CPU may take it before it runs. */
	EXPECT_LE(HALF, where.in_a);
	free(side);
}

/*
 * The waker's LLC runs tasks of one group, and is full for it. Another one has a larger
 * headroom: to that they give way, though the same CPU has just found no room.
 */
TEST_F_TIMEOUT(wake, headroom_another, 180)
{
	cpu_set_t busy = cpuset_minus(self->a, cpuset_one(self->a0));
	struct wakee fuller = { };
	struct wake rec;
	char *full;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	REQUIRE_FOUR_IN_LLC();
	full = cg_new(self->top, "full");
	ASSERT_NE(NULL, full);
	ASSERT_EQ(0, cg_write(full, "cpu.headroom", "10"));
	ASSERT_EQ(0, cg_write(full, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "20"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, hogs_start(&self->hogs, full, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	ASSERT_EQ(0, wakee_start(&fuller, full, NULL));
	ASSERT_EQ(0, task_pin_cpu(0, self->a0));
	for (int i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, hogs_pause(&self->hogs));
		ASSERT_EQ(0, wakee_place(&self->w, self->b0, &self->t.cpus));
		ASSERT_EQ(0, wakee_place(&fuller, self->b1, &self->t.cpus));
		ASSERT_EQ(0, hogs_run(&self->hogs));
		usleep(self->rest);
		ASSERT_EQ(0, wakee_wake(&fuller, &rec));
		ASSERT_EQ(0, wakee_wake(&self->w, &rec));
	}
	wakee_stop(&fuller);
	TH_LOG("of %d: %ld found no room, of the other group %ld found some", ROUNDS,
	       cg_count(full, "hint_wake_full"), COUNT("wake_followed"));
	EXPECT_LE(MOST, cg_count(full, "hint_wake_full"));
	EXPECT_LE(MOST, COUNT("wake_followed"));
	free(full);
}

/*
 * The waker's LLC has too little room to draw a task into it, but its default target is
 * there. wake_wide does not look beyond before what gives way there has been looked for.
 */
TEST_F_TIMEOUT(wake, headroom_wide, 180)
{
	int last = cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1);
	struct where where;
	cpu_set_t busy;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	REQUIRE_FOUR_IN_LLC();
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	/* Who is in no sibling of the group does not give way. See wake.hold for the one on b0. */
	busy = cpuset_minus(cpuset_minus(self->a, cpuset_one(self->a0)), cpuset_one(last));
	CPU_SET(self->b0, &busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	busy = cpuset_one(last);
	ASSERT_EQ(0, hogs_start(&self->more, side, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	self->rest = 100000;
	SERIES("wake_affine wake_wide", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_GE(FEW, COUNT("wake_followed"));
	EXPECT_LE(HALF, where.in_a);
	free(side);
}

/*
 * The node is full of tasks that leave CPU idle for the group. They would give way, so it
 * stays with its data; but not if they have the same headroom.
 */
TEST_F_TIMEOUT(wake, headroom_stays, 180)
{
	cpu_set_t node = self->t.node[self->t.node_of[self->a0]];
	struct where where;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	if (self->t.nr_nodes < 2)
		SKIP(return, "needs two nodes");
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	/* On the waker's CPU, too: if that went idle, it would take the wakee. */
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &node, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &where);
	/* An idle CPU may take it before it runs; without the rule, it is never in that LLC. */
	EXPECT_LE(HALF, where.in_a);
	SERIES("wake_wide", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_LE(HALF, where.in_a);
	EXPECT_EQ(0, cg_write(side, "cpu.headroom", "10"));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &where);
	EXPECT_GE(FEW, where.on_prev);
	EXPECT_LE(HALF, where.allowed - where.in_a);
	free(side);
}

/*
 * One CPU gives way, others of the LLC are idle. Where those are threads of cores it stays,
 * and else it goes to a CPU of its own. An idle CPU may take it before it runs, so the
 * trace tells where it was put: once for each round it is put to sleep there, and woken up.
 */
TEST_F_TIMEOUT(wake, headroom_threads, 180)
{
	cpu_set_t one = cpuset_one(self->a0);
	struct where where;
	char *side, text[32];
	int put[2];

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_FOUR_IN_LLC();
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &one, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	for (int protected = 0; protected < 2; protected++) {
		ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", protected ? "10" : "0"));
		snprintf(text, sizeof(text), "pid == %d", self->w.pid);
		ASSERT_EQ(0, trace_start(&self->trace, "sched", "sched_wakeup", text));
		SERIES("none", self->a1, self->a0, &self->a, &where);
		snprintf(text, sizeof(text), "target_cpu=%03d", self->a0);
		put[protected] = trace_count(&self->trace, "sched_wakeup", text) - ROUNDS;
		trace_stop(&self->trace);
	}
	TH_LOG("put where it ran last: %d times, protected %d times", put[0], put[1]);
	/* It was woken up once in each round at least, or the trace has lost something. */
	EXPECT_LE(0, put[0]);
	EXPECT_LE(0, put[1]);
	EXPECT_GE(FEW, put[0]);
	if (self->t.smt > 1) {
		EXPECT_LE(MOST, put[1]);
	} else {
		EXPECT_GE(FEW, put[1]);
	}
	free(side);
}

/* Let all sleep on @sleep with the hogs paused, wake them from here with the hogs running. */
static int burst(FIXTURE_DATA(wake) *self, struct wakee *w, int nr, int sleep,
		 cpu_set_t *where)
{
	int ret = hogs_pause(&self->hogs);

	CPU_ZERO(where);
	for (int i = 0; !ret && i < nr; i++)
		ret = wakee_place(&w[i], sleep, &self->a);
	for (int i = 0; !ret && i < nr; i++)
		ret = wakee_settle(&w[i]);
	if (!ret)
		ret = hogs_run(&self->hogs);
	usleep(20000);
	for (int i = 0; !ret && i < nr; i++)
		wakee_call(&w[i]);
	for (int i = 0; ret >= 0 && i < nr; i++) {
		ret = wakee_answer(&w[i]);
		if (ret >= 0)
			CPU_SET(ret, where);
	}
	return ret < 0 ? ret : 0;
}

/*
 * Several that ran last on one CPU wake up at once. What runs there gives way to one of
 * them; that this one is on its way is to be seen before it is there.
 */
TEST_F_TIMEOUT(wake, headroom_burst, 180)
{
	struct wakee w[3] = { };
	int apart = 0, nr = sizeof(w) / sizeof(w[0]);
	cpu_set_t where;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	if (CPU_COUNT(&self->a) <= nr)
		SKIP(return, "needs more than %d CPUs in an LLC", nr);
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &self->a, 0));
	ASSERT_EQ(0, task_pin_cpu(0, self->b0));
	for (int i = 0; i < nr; i++) {
		ASSERT_EQ(0, wakee_start(&w[i], self->cg, NULL));
		w[i].page->work = 5000;
	}
	for (int i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, burst(self, w, nr, self->a0, &where));
		apart += CPU_COUNT(&where) == nr;
	}
	for (int i = 0; i < nr; i++)
		wakee_stop(&w[i]);
	EXPECT_LE(HALF, apart);
	free(side);
}

/* The caller and its partner, which take turns over two pipes. */
struct pair {
	pid_t partner;
	int to, from;
	int rest;	/* before each turn, so that the partner sleeps by then [us] */
};

/* For each byte it gets the partner, a task of the group @cg, says where it runs. */
static int pair_start(struct pair *pair, const char *cg, int rest)
{
	int to[2], from[2], cpu;
	char byte;

	if (pipe(to) || pipe(from))
		return -errno;
	*pair = (struct pair){ task_fork(cg), to[1], from[0], rest };
	if (pair->partner) {
		/* So that whoever reads sees it if the partner ends. */
		close(to[0]);
		close(from[1]);
		return pair->partner < 0 ? -1 : 0;
	}

	while (read(to[0], &byte, 1) == 1) {
		cpu = sched_getcpu();
		if (write(from[1], &cpu, sizeof(cpu)) != sizeof(cpu))
			break;
	}
	_exit(0);
}

/*
 * The caller wakes its partner over a pipe, whose wakeups tell that the waker is
 * about to sleep. Returns where the partner ran then, or -1.
 */
static int turn(const struct pair *pair)
{
	int where;

	usleep(pair->rest);
	if (write(pair->to, "", 1) != 1 ||
	    read(pair->from, &where, sizeof(where)) != sizeof(where))
		return -1;
	return where;
}

/*
 * In how many of the ROUNDS the partner, which slept on CPU @apart, ran where the caller
 * was, on CPU @here, when it might use @free; -1 if it failed. Of whoever has no choice
 * of CPUs nobody remembers that it was woken, so the caller has two before: @other, too.
 */
static int pair_together(const struct pair *pair, int here, int other, int apart,
			 const cpu_set_t *free)
{
	cpu_set_t two = cpuset_or(cpuset_one(here), cpuset_one(other));
	int together = 0;

	for (int round = 0; round < ROUNDS; round++) {
		if (task_pin_cpu(pair->partner, apart) || task_pin(0, &two) ||
		    turn(pair) != apart || task_pin_cpu(0, here) ||
		    task_pin(pair->partner, free))
			return -1;
		together += turn(pair) == here;
	}
	return together;
}

/*
 * The same full LLC, but the waker is about to sleep: the wakee takes its place, with
 * such a hint as by default. Where a third one waits for that CPU, it leaves the LLC
 * with the hint.
 */
TEST_F_TIMEOUT(wake, pair_stays, 180)
{
	static const char *const hints[] = { "none", "fork_affine", "wake_affine", "wake_hold",
					     "wake_wide", "tail_latency" };
	struct pair pair;
	cpu_set_t busy;
	int on;

	REQUIRE_LLCS(&self->t, 2);
	busy = cpuset_minus(self->a, cpuset_one(self->a0));
	/* Whoever is runnable for most of the time does not share a CPU. */
	ASSERT_EQ(0, pair_start(&pair, self->cg, 20000));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	for (size_t i = 0; i < 2 * ARRAY_SIZE(hints); i++) {
		const char *hint = hints[i % ARRAY_SIZE(hints)];

		if (i == ARRAY_SIZE(hints)) {
			busy = cpuset_one(self->a0);
			ASSERT_EQ(0, hogs_start(&self->more, NULL, &busy, 0));
			ASSERT_EQ(0, hogs_run(&self->more));
		}
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hint));
		on = pair_together(&pair, self->a0, self->a1, self->a0, &self->t.cpus);
		ASSERT_LE(0, on);
		TH_LOG("%-12s of %d: %d where the waker was%s", hint, ROUNDS, on,
		       self->more.nr ? ", which was busy" : "");
		if (self->more.nr && strcmp(hint, "none")) {
			EXPECT_GE(FEW, on);
		} else {
			EXPECT_LE(HALF, on);
		}
	}
	task_kill(pair.partner);
}

/*
 * A third one waits for the waker's CPU, but the LLC of the only idle CPU has more to do than
 * CPUs, too: what waits there has a better right to it, and gets it in a moment unless, as
 * here, it is pinned. Nobody leaves for that.
 */
TEST_F_TIMEOUT(wake, pair_crowded, 180)
{
	static const char *const hints[] = { "fork_affine", "wake_affine", "wake_hold" };
	cpu_set_t once, twice;
	struct pair pair;
	int on;

	REQUIRE_LLCS(&self->t, 2);
	if (CPU_COUNT(&self->b) < 3)
		SKIP(return, "needs an LLC of three CPUs");
	once = cpuset_minus(self->t.cpus, cpuset_or(cpuset_one(self->a0), cpuset_one(self->b0)));
	twice = cpuset_or(cpuset_minus(once, self->a), cpuset_one(self->a0));
	ASSERT_EQ(0, pair_start(&pair, self->cg, 2000));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &once, HOG_NICE));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	ASSERT_EQ(0, hogs_start(&self->more, NULL, &twice, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hints[i]));
		on = pair_together(&pair, self->a0, self->a1, self->a0, &self->t.cpus);
		ASSERT_LE(0, on);
		TH_LOG("%-12s of %d: %d where the waker was", hints[i], ROUNDS, on);
		EXPECT_LE(HALF, on);
	}
	task_kill(pair.partner);
}

/*
 * Two tasks that take turns, in two LLCs: the default is to bring them together,
 * and wake_hold does not keep them apart.
 */
TEST_F_TIMEOUT(wake, turns, 120)
{
	static const char *const hints[] = { "none", "wake_hold", "fork_spread wake_hold" };
	struct pair pair;
	int joined, last;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, pair_start(&pair, self->cg, 2000));
	ASSERT_EQ(0, task_pin(0, &self->a));
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hints[i]));
		joined = 0;
		for (int round = 0; round < ROUNDS; round++) {
			ASSERT_EQ(0, task_pin_cpu(pair.partner, self->b0));
			ASSERT_EQ(self->b0, turn(&pair));
			ASSERT_EQ(0, task_pin(pair.partner, &self->t.cpus));
			last = turn(&pair);
			ASSERT_LE(0, last);
			joined += CPU_ISSET(last, &self->a);
		}
		TH_LOG("%-22s of %d: %d in the waker's LLC", hints[i], ROUNDS, joined);
		EXPECT_LE(HALF, joined);
	}
	EXPECT_LE(2 * HALF, COUNT("wake_turns"));
	task_kill(pair.partner);
}

/*
 * With one hog on each other CPU of the LLC, wake_hold keeps a task there. With two, the
 * idle CPU is for those who wait, and the default path decides.
 */
TEST_F_TIMEOUT(wake, hold_crowded, 120)
{
	struct where where;
	long held;
	cpu_set_t busy;

	REQUIRE_LLCS(&self->t, 2);
	if (CPU_COUNT(&self->b) < 3)
		SKIP(return, "needs an LLC of three CPUs");
	busy = cpuset_minus(self->b, cpuset_one(self->b0));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	self->rest = 100000;
	SERIES("wake_hold", self->a0, self->b1, &self->t.cpus, &where);
	held = COUNT("wake_followed");
	EXPECT_LE(MOST, held);
	EXPECT_LE(HALF, where.in_b);
	ASSERT_EQ(0, hogs_start(&self->more, NULL, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	SERIES("wake_hold", self->a0, self->b1, &self->t.cpus, &where);
	EXPECT_GE(FEW, COUNT("wake_followed") - held);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_LE(HALF, where.in_a);
}

/* wake_hold is not followed into an LLC that has no idle CPU. */
TEST_F_TIMEOUT(wake, hold_full, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &self->b, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	self->rest = 100000;
	SERIES("wake_hold", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_GE(FEW, COUNT("wake_followed"));
	/* so the default decided, and moved it to the waker */
	EXPECT_LE(HALF, where.in_a);
}

/* But with fork_spread it stays in its node, where another LLC has an idle CPU. */
TEST_F_TIMEOUT(wake, hold_full_spread, 120)
{
	int waker = cpuset_nth(&self->t.llc[self->t.nr_llcs - 1], 0);
	struct where where;

	REQUIRE_LLCS(&self->t, 3);
	if (self->t.node_of[self->a0] != self->t.node_of[self->b0] ||
	    self->t.node_of[self->a0] == self->t.node_of[waker])
		SKIP(return, "needs two nodes of two LLCs");
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &self->a, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	self->rest = 100000;
	SERIES("wake_hold", waker, self->a0, &self->t.cpus, &where);
	EXPECT_LE(HALF, ROUNDS - where.in_a - where.in_b);
	SERIES("fork_spread wake_hold", waker, self->a0, &self->t.cpus, &where);
	EXPECT_LE(HALF, where.in_b);
	/* its own LLC had no room for it */
	EXPECT_LE(MOST, COUNT("wake_full"));
}

/* A task that may not run in its waker's LLC stays inside its affinity. */
TEST_F_TIMEOUT(wake, affine_affinity, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine", self->a0, self->b0, &self->b, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_LE(MOST, COUNT("wake_affinity"));
	EXPECT_EQ(0, COUNT("wake_followed"));
}

/*
 * Where affinity leaves one CPU of the waker's LLC, wake_affine takes that one
 * while it is idle, and no other when it is not.
 */
TEST_F_TIMEOUT(wake, affine_one_allowed, 120)
{
	cpu_set_t mask, busy;
	struct where where;
	int only;

	REQUIRE_LLCS(&self->t, 2);
	only = cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1);
	if (only == self->a0)
		SKIP(return, "needs two CPUs in an LLC");
	mask = cpuset_or(self->b, cpuset_one(only));
	busy = cpuset_one(only);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));

	SERIES("wake_affine", self->a0, self->b0, &mask, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_GE(FEW, where.in_a);
	EXPECT_LE(MOST, COUNT("wake_full"));

	hogs_stop(&self->hogs);
	SERIES("wake_affine", self->a0, self->b0, &mask, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_LE(MOST, where.in_a);
}

/* wake_hold does not pull a task back into an LLC that it may not use now. */
TEST_F_TIMEOUT(wake, hold_affinity, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_hold", self->a0, self->b0, &self->a, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_EQ(ROUNDS, where.in_a);
	EXPECT_LE(MOST, COUNT("wake_affinity"));
}

/* A cpuset that excludes the waker's LLC wins over wake_affine. */
TEST_F_TIMEOUT(wake, cpuset, 120)
{
	char list[1024], path[PATH_MAX];
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	cpulist_format(&self->b, list, sizeof(list));
	snprintf(path, sizeof(path), "%s/cpuset.cpus", self->cg);
	if (access(path, F_OK))
		SKIP(return, "needs the cpuset controller");
	ASSERT_EQ(0, cg_write(self->cg, "cpuset.cpus", list));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	/* b is what the cpuset makes of any affinity */
	SERIES("wake_affine wake_wide scan_full", self->a0, self->b0, &self->b,
	       &where);
	EXPECT_EQ(ROUNDS, where.in_b);
	EXPECT_LE(MOST, COUNT("wake_affinity"));
	EXPECT_EQ(0, COUNT("wake_followed"));
}

/*
 *	root			waker, on LLC a
 *	  steer_wake		partition of LLC b
 *	    group		wakee, wake_affine wake_wide
 *
 * The partition keeps its tasks, in a partition with load balancing and in an
 * isolated one.
 */
static void partition_keeps(struct __test_metadata *_metadata,
			    FIXTURE_DATA(wake) *self, const char *type)
{
	char list[1024], state[128];
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	cpulist_format(&self->b, list, sizeof(list));
	if (cg_write(self->top, "cpuset.cpus", list) ||
	    cg_write(self->top, "cpuset.cpus.partition", type))
		SKIP(return, "cannot make a partition here");
	ASSERT_LT(0, cg_read(self->top, "cpuset.cpus.partition", state,
			     sizeof(state)));
	ASSERT_STREQ(type, state);

	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine wake_wide scan_full", self->a0, self->b0, &self->b,
	       &where);
	EXPECT_EQ(ROUNDS, where.in_b);
	EXPECT_EQ(0, COUNT("wake_followed"));
	SERIES("wake_hold pack", self->a0, self->b0, &self->b, &where);
	EXPECT_EQ(ROUNDS, where.in_b);
	EXPECT_EQ(0, cg_write(self->top, "cpuset.cpus.partition", "member"));
}

TEST_F_TIMEOUT(wake, partition_root, 120)
{
	partition_keeps(_metadata, self, "root");
}

TEST_F_TIMEOUT(wake, partition_isolated, 120)
{
	partition_keeps(_metadata, self, "isolated");
}

/*
 *	root
 *	  steer_wake
 *	    part		isolated partition of one CPU of LLC a
 *	    group		wakee, woken from LLC a
 *
 * Nobody outside is led onto the isolated CPU, although it is idle when all
 * others of its LLC are not.
 */
TEST_F_TIMEOUT(wake, isolated_cpu_is_left_alone, 120)
{
	cpu_set_t busy, open;
	struct where where;
	char *part, one[16];
	int isolated;

	REQUIRE_LLCS(&self->t, 2);
	if (topo_llc_weight(&self->t) < 3)
		SKIP(return, "needs LLCs of three CPUs");
	isolated = cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1);
	snprintf(one, sizeof(one), "%d", isolated);
	/* A partition needs a parent that is one: next to steer_wake. */
	part = cg_top("steer_wake_part");
	ASSERT_NE(NULL, part);
	if (cg_write(part, "cpuset.cpus", one) ||
	    cg_write(part, "cpuset.cpus.partition", "isolated") ||
	    !cg_is(part, "cpuset.cpus.partition", "isolated")) {
		cg_destroy(part);
		SKIP(return, "cannot make an isolated partition here");
	}

	open = cpuset_minus(self->t.cpus, cpuset_one(isolated));
	busy = cpuset_minus(self->a, cpuset_one(isolated));
	CPU_CLR(self->a0, &busy);
	EXPECT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	EXPECT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	EXPECT_EQ(0, cg_write(self->cg, "cpu.hint",
			      "wake_affine wake_wide scan_full"));
	EXPECT_EQ(0, series(self, self->a0, self->b0, &open, &where));
	EXPECT_FALSE(CPU_ISSET(isolated, &where.cpus));
	EXPECT_LE(MOST, where.in_b);
	cg_destroy(part);
	free(part);
}

/*
 * wake_wide finds an idle CPU in another LLC when the own one is full; without
 * it, the task queues.
 */
TEST_F_TIMEOUT(wake, wide, 180)
{
	struct where none, hint;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, waker_llc_full(self));
	SERIES("none", self->a0, self->a1, &self->t.cpus, &none);
	EXPECT_LE(HALF, none.in_a);
	SERIES("wake_wide", self->a0, self->a1, &self->t.cpus, &hint);
	EXPECT_GE(FEW, hint.in_a);
	EXPECT_LE(MOST, COUNT("reach_followed"));
}

/* wake_wide does not reach beyond the task's affinity. */
TEST_F_TIMEOUT(wake, wide_affinity, 180)
{
	struct where where;
	cpu_set_t mask;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, waker_llc_full(self));
	SERIES("wake_wide", self->a0, self->a1, &self->a, &where);
	EXPECT_EQ(ROUNDS, where.in_a);
	EXPECT_LE(MOST, COUNT("reach_full"));
	EXPECT_EQ(0, COUNT("reach_followed"));

	/* one CPU outside is enough */
	mask = cpuset_or(self->a, cpuset_one(self->b1));
	SERIES("wake_wide", self->a0, self->a1, &mask, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_LE(MOST, where.in_b);
}

/* wake_wide on top of wake_affine: the waker's LLC first, then beyond it. */
TEST_F_TIMEOUT(wake, affine_then_wide, 180)
{
	struct where where;
	cpu_set_t busy;

	if (self->t.nr_llcs < 3)
		SKIP(return, "needs three LLCs, has %d", self->t.nr_llcs);
	/* Waker's LLC full, previous LLC full: the third is what is left. */
	busy = cpuset_or(self->a, self->b);
	CPU_CLR(self->a0, &busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine wake_wide", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_LE(MOST, COUNT("reach_followed"));
	EXPECT_LE(MOST, ROUNDS - where.in_a - where.in_b);
}

/*
 * With every CPU busy nothing is followed, and the task runs all the same. Two
 * LLCs are every CPU there is, as far as its affinity goes.
 */
TEST_F_TIMEOUT(wake, all_busy, 240)
{
	struct where where;
	cpu_set_t both, busy;

	REQUIRE_LLCS(&self->t, 2);
	both = cpuset_or(self->a, self->b);
	busy = cpuset_minus(both, cpuset_one(self->a0));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("wake_affine wake_wide scan_full", self->a0, self->b0, &both,
	       &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_LE(MOST, COUNT("wake_full"));
	EXPECT_LE(MOST, COUNT("reach_full"));
	EXPECT_LE(MOST, COUNT("scan_full"));
}

/*
 * scan_full finds the one idle CPU of an LLC. The default gives the search up
 * when the LLC was busy lately.
 */
TEST_F_TIMEOUT(wake, scan_full, 180)
{
	struct where hint;
	cpu_set_t busy;
	int last;

	if (topo_llc_weight(&self->t) < 3)
		SKIP(return, "needs LLCs of three CPUs");
	last = cpuset_nth(&self->a, CPU_COUNT(&self->a) - 1);
	busy = cpuset_minus(self->a, cpuset_one(last));
	CPU_CLR(self->a0, &busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("scan_full", self->a0, self->a1, &self->a, &hint);
	EXPECT_LE(MOST, COUNT("scan_followed"));
	EXPECT_GE(FEW, hint.on_prev);
	EXPECT_TRUE(CPU_ISSET(last, &hint.cpus));

	/* and says so when there is none */
	hogs_stop(&self->hogs);
	CPU_SET(last, &busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	SERIES("scan_full", self->a0, self->a1, &self->a, &hint);
	EXPECT_LE(MOST, COUNT("scan_full"));
}

/* scan_full does not place a task outside its affinity. */
TEST_F_TIMEOUT(wake, scan_full_affinity, 120)
{
	cpu_set_t mask, busy;
	struct where where;

	if (topo_llc_weight(&self->t) < 3)
		SKIP(return, "needs LLCs of three CPUs");
	/* two busy ones allowed, idle ones not */
	busy = cpuset_one(self->a1);
	mask = cpuset_or(cpuset_one(self->a0), busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("scan_full", self->a0, self->a1, &mask, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
	EXPECT_LE(MOST, COUNT("scan_full"));
}

/*
 * scan_none places at once: on the previous CPU or the waker's though they are
 * busy, where the default looks for an idle one.
 */
TEST_F_TIMEOUT(wake, scan_none, 120)
{
	struct where none, hint;
	cpu_set_t busy;

	if (topo_llc_weight(&self->t) < 3)
		SKIP(return, "needs LLCs of three CPUs");
	busy = cpuset_one(self->a1);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("none", self->a0, self->a1, &self->a, &none);
	EXPECT_GE(FEW, none.on_prev + none.on_waker);
	SERIES("scan_none", self->a0, self->a1, &self->a, &hint);
	/* on a loaded host many are pulled away from the hog before they run */
	EXPECT_LE(none.on_prev + none.on_waker + FEW, hint.on_prev + hint.on_waker);
	EXPECT_LE(MOST, COUNT("scan_followed"));
}

/*
 * pack leaves an idle core asleep: the wakee's own, idle as it is, in favour of
 * the idle thread beside the hog.
 */
TEST_F_TIMEOUT(wake, pack_smt, 120)
{
	struct where none, hint;
	cpu_set_t busy, beside;
	int hog;

	if (self->t.smt < 2)
		SKIP(return, "needs SMT");
	/* a CPU of another core of the same LLC */
	busy = cpuset_minus(self->a, self->t.core[self->a0]);
	hog = cpuset_nth(&busy, 0);
	if (hog < 0)
		SKIP(return, "needs two cores in an LLC");
	beside = cpuset_minus(self->t.core[hog], cpuset_one(hog));
	busy = cpuset_one(hog);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));

	/* The waker is elsewhere where it can be, else it is the hog's guest. */
	SERIES("none", self->b0 >= 0 ? self->b0 : hog, self->a0, &self->t.cpus,
	       &none);
	EXPECT_LE(MOST, none.on_prev);
	SERIES("pack", self->b0 >= 0 ? self->b0 : hog, self->a0, &self->t.cpus,
	       &hint);
	EXPECT_GE(FEW, hint.on_prev);
	EXPECT_LE(MOST, COUNT("pack_followed"));
	EXPECT_TRUE(CPU_ISSET(cpuset_nth(&beside, 0), &hint.cpus));
}

/*
 * Without SMT, pack shares a busy CPU that has room: that of the waker, which
 * does next to nothing.
 */
TEST_F_TIMEOUT(wake, pack_room, 120)
{
	struct where none, hint;

	if (self->t.smt > 1)
		SKIP(return, "needs cores without SMT");
	if (self->a1 < 0)
		SKIP(return, "needs two CPUs in an LLC");
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	/* the utilisation of preparing the round has to be forgotten */
	self->rest = 250000;
	SERIES("none", self->a0, self->a1, &self->t.cpus, &none);
	EXPECT_LE(MOST, none.on_prev);
	SERIES("pack", self->a0, self->a1, &self->t.cpus, &hint);
	EXPECT_GE(FEW, hint.on_prev);
	EXPECT_LE(MOST, COUNT("pack_followed"));
}

/*
 * Two tasks that take turns need one CPU. With pack the wakee leaves its idle core for
 * that of the waker, and prefers it to the idle thread beside; without, it stays.
 */
TEST_F_TIMEOUT(wake, pack_turns, 120)
{
	static const char *const hints[] = { "none", "pack", "wake_affine pack" };
	int apart, on[ARRAY_SIZE(hints)];
	struct pair pair;
	cpu_set_t others;

	others = cpuset_minus(self->a, self->t.core[self->a0]);
	apart = cpuset_nth(&others, 0);
	if (apart < 0)
		SKIP(return, "needs two cores in an LLC");
	/* On a busy host a turn takes long: they have to seem idle beside. */
	ASSERT_EQ(0, pair_start(&pair, self->cg, 20000));
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hints[i]));
		on[i] = pair_together(&pair, self->a0, apart, apart, &self->t.cpus);
		ASSERT_LE(0, on[i]);
		TH_LOG("%-16s of %d: %d where the waker was", hints[i], ROUNDS, on[i]);
	}
	EXPECT_GE(FEW, on[0]);
	EXPECT_LE(HALF, on[1]);
	EXPECT_LE(HALF, on[2]);
	EXPECT_LE(2 * HALF, COUNT("pack_followed"));
	task_kill(pair.partner);
}

/*
 * Words that gather tasks do the same where no core of the LLC is idle: the wakee
 * leaves its idle thread beside a busy one. Where one is, it stays.
 */
TEST_F_TIMEOUT(wake, gather_turns, 180)
{
	static const char *const hints[] = { "none", "fork_affine", "wake_affine", "wake_hold" };
	int apart = -1, on;
	struct pair pair;
	cpu_set_t busy;

	CPU_ZERO(&busy);
	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &self->a) || CPU_ISSET(cpu, &self->t.core[self->a0]) ||
		    cpu != cpuset_nth(&self->t.core[cpu], 0))
			continue;
		CPU_SET(cpu, &busy);
		apart = cpuset_nth(&self->t.core[cpu], 1);
	}
	if (apart < 0)
		SKIP(return, "needs two cores in an LLC, with SMT");
	/* As above. */
	ASSERT_EQ(0, pair_start(&pair, self->cg, 20000));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, HOG_NICE));
	for (size_t i = 0; i < 2 * ARRAY_SIZE(hints); i++) {
		const char *hint = hints[i % ARRAY_SIZE(hints)];
		bool crowded = i >= ARRAY_SIZE(hints);

		if (i == ARRAY_SIZE(hints)) {
			ASSERT_EQ(0, hogs_run(&self->hogs));
		}
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hint));
		on = pair_together(&pair, self->a0, apart, apart, &self->a);
		ASSERT_LE(0, on);
		TH_LOG("%-12s of %d: %d where the waker was%s", hint, ROUNDS, on,
		       crowded ? ", no core idle" : "");
		if (crowded && strcmp(hint, "none")) {
			EXPECT_LE(HALF, on);
		} else {
			EXPECT_GE(FEW, on);
		}
	}
	EXPECT_LE(3 * HALF, COUNT("turns_followed"));
	task_kill(pair.partner);
}

/* Two tasks that pass tokens to each other, and work 2 ms for each, and rest. */
struct relay {
	volatile int cpu[2];
	volatile long rounds, together;
};

static void relay_run(struct relay *r, int me, int in, int out, int rest)
{
	char token;

	while (read(in, &token, 1) == 1) {
		r->cpu[me] = sched_getcpu();
		if (!me) {
			r->together += r->cpu[0] == r->cpu[1];
			r->rounds++;
		}
		task_work(2000);
		if (rest)
			usleep(rest);
		if (write(out, &token, 1) != 1)
			break;
	}
	_exit(0);
}

/* Of a hundred rounds, how many they were on one CPU for; -1 if it failed. */
static long relay_together(const char *cg, const cpu_set_t *on, int tokens, int rest)
{
	struct relay *r = SHARED(struct relay);
	long rounds, together;
	int pipes[2][2];
	pid_t pids[2];

	if (!r || pipe(pipes[0]) || pipe(pipes[1]))
		return -1;
	for (int i = 0; i < 2; i++) {
		pids[i] = task_fork(cg);
		if (pids[i] < 0)
			return -1;
		if (!pids[i])
			relay_run(r, i, pipes[i][0], pipes[!i][1], rest);
		if (task_pin(pids[i], on))
			return -1;
	}
	if (write(pipes[0][1], "abc", tokens) != tokens)
		return -1;
	/* until they have settled */
	usleep(500000);
	rounds = r->rounds;
	together = r->together;
	if (!WAIT_FOR(r->rounds - rounds >= 100))
		return -1;
	rounds = r->rounds - rounds;
	together = r->together - together;
	for (int i = 0; i < 2; i++) {
		task_kill(pids[i]);
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	return together * 100 / rounds;
}

/*
 * With one token two tasks really take turns, with three each works while the other does,
 * and the pipe says the same of both. What needs two CPUs is not packed onto one.
 */
TEST_F_TIMEOUT(wake, pack_pipeline, 120)
{
	long none, turns, pipeline;

	if (self->a1 < 0)
		SKIP(return, "needs two CPUs in an LLC");
	none = relay_together(self->cg, &self->a, 1, 10000);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "pack"));
	turns = relay_together(self->cg, &self->a, 1, 10000);
	pipeline = relay_together(self->cg, &self->a, 3, 0);
	TH_LOG("on one CPU in %ld %% of the rounds without a hint, %ld %% with pack, %ld %% if both work",
	       none, turns, pipeline);
	ASSERT_LE(0, none);
	EXPECT_GE(50, none);
	EXPECT_LE(50, turns);
	ASSERT_LE(0, pipeline);
	EXPECT_GE(25, pipeline);
}

/* With nothing awake in the LLC, pack has nothing to offer. */
TEST_F_TIMEOUT(wake, pack_full, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("pack", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, COUNT("pack_full"));
	EXPECT_LE(MOST, where.on_prev);
}

/* pack does not place a task outside its affinity. */
TEST_F_TIMEOUT(wake, pack_affinity, 120)
{
	struct where where;
	cpu_set_t mask, busy;

	if (topo_llc_weight(&self->t) < 3)
		SKIP(return, "needs LLCs of three CPUs");
	mask = cpuset_or(cpuset_one(self->a0), cpuset_one(self->a1));
	busy = cpuset_one(cpuset_nth(&self->a, 2));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("pack", self->a0, self->a0, &mask, &where);
	EXPECT_EQ(ROUNDS, where.allowed);
}

/*
 * A timer that was armed on another CPU fires there in a hard interrupt. It is
 * no waker: wake_affine leaves the task where it was.
 */
TEST_F_TIMEOUT(wake, irq, 180)
{
	struct {
		int armed, cpu;
		unsigned int fired;
	} *page = shared_alloc(sizeof(*page));
	struct itimerspec in = { .it_value.tv_nsec = 5000000 };
	int stayed = 0, fd;
	pid_t pid;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	ASSERT_LE(0, fd);
	pid = task_fork(self->cg);
	ASSERT_LE(0, pid);
	if (!pid) {
		uint64_t ticks;

		if (task_pin(0, &self->b))
			_exit(1);
		while (read(fd, &ticks, sizeof(ticks)) == sizeof(ticks)) {
			page->cpu = sched_getcpu();
			__atomic_add_fetch(&page->fired, 1, __ATOMIC_SEQ_CST);
		}
		_exit(1);
	}
	ASSERT_EQ(0, task_pin_cpu(0, self->a0));
	for (unsigned int i = 0; i < 2 * ROUNDS; i++) {
		/* It sleeps in b; in the first half, it may run anywhere after the first round. */
		EXPECT_TRUE(WAIT_FOR(task_state(pid) == 'S'));
		ASSERT_EQ(0, task_pin(pid, i < ROUNDS ? &self->t.cpus : &self->b));
		ASSERT_EQ(0, timerfd_settime(fd, 0, &in, NULL));
		ASSERT_TRUE(WAIT_FOR(__atomic_load_n(&page->fired,
						     __ATOMIC_SEQ_CST) > i));
		stayed += i < ROUNDS && CPU_ISSET(page->cpu, &self->b);
	}
	task_kill(pid);
	EXPECT_LE(MOST, stayed);
	EXPECT_LE(MOST, COUNT("wake_irq"));
	/* Whom its mask keeps out of that LLC is told so, whoever wakes it. */
	EXPECT_LE(MOST, COUNT("wake_affinity"));
	EXPECT_GE(ROUNDS + FEW, COUNT("wake_irq"));
	EXPECT_GE(FEW, COUNT("wake_followed"));
	close(fd);
}

/* exec() keeps the task in its group, and the group's hint. */
TEST_F_TIMEOUT(wake, exec, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, wakee_start_exec(&self->w, self->cg, NULL));
	self->rest = UNTIL_LLC_DRAWS;
	SERIES("wake_affine", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.in_a);
	EXPECT_LE(MOST, COUNT("wake_followed"));
}

/*
 *	steer_wake
 *	  group		wake_affine
 *	  plain		none
 *
 * A task that moves between groups is treated as the one it is in.
 */
TEST_F_TIMEOUT(wake, moving, 240)
{
	struct where there, here;
	char *plain;

	REQUIRE_LLCS(&self->t, 2);
	plain = cg_new(self->top, "plain");
	ASSERT_NE(NULL, plain);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, wakee_start(&self->w, plain, NULL));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, series(self, self->a0, self->b0, &self->t.cpus,
				    &there));
		EXPECT_GE(FEW, there.in_a);
		ASSERT_EQ(0, cg_enter(self->cg, self->w.pid));
		ASSERT_EQ(0, series(self, self->a0, self->b0, &self->t.cpus,
				    &here));
		EXPECT_LE(MOST, here.in_a);
		ASSERT_EQ(0, cg_enter(plain, self->w.pid));
	}
	free(plain);
}

/* A hint on an ancestor works as one on the group itself. */
TEST_F_TIMEOUT(wake, inherited, 120)
{
	struct where where;

	REQUIRE_LLCS(&self->t, 2);
	ASSERT_EQ(0, cg_write(self->top, "cpu.hint", "wake_affine"));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	SERIES("inherit", self->a0, self->b0, &self->t.cpus, &where);
	EXPECT_LE(MOST, where.in_a);
	EXPECT_LE(MOST, COUNT("wake_followed"));
	/* counters are those of the group that the task is in */
	EXPECT_EQ(0, cg_count(self->top, "hint_wake_followed"));
}

/*
 * On any machine, with any hint, a task runs where it may and keeps running:
 * one CPU, one LLC, no SMT. CPU by CPU, as its whole affinity.
 */
TEST_F_TIMEOUT(wake, any_machine, 240)
{
	static const char * const hints[] = {
		"fork_affine wake_affine wake_wide scan_full slice_short",
		"fork_spread wake_hold scan_none slice_long pack",
		"background", "tail_latency", "efficient",
	};
	struct wake rec;

	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hints[i]));
		for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
			if (!CPU_ISSET(cpu, &self->t.cpus))
				continue;
			ASSERT_EQ(0, task_pin_cpu(self->w.pid, cpu));
			ASSERT_EQ(0, wakee_wake(&self->w, &rec));
			EXPECT_EQ(cpu, rec.cpu);
		}
		ASSERT_EQ(0, task_pin(self->w.pid, &self->t.cpus));
		for (int n = 0; n < ROUNDS; n++) {
			ASSERT_EQ(0, wakee_wake(&self->w, &rec));
		}
	}
}

STEER_MAIN
