// SPDX-License-Identifier: GPL-2.0-only
/*
 * slice_short, slice_long: the EEVDF request of a group's tasks, as se.slice in
 * /proc/PID/sched shows it. preempt_none: whom they preempt when they wake up.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <signal.h>

#define BASE_SLICE	"/sys/kernel/debug/sched/base_slice_ns"
#define MIN_SLICE	100000L
#define MAX_SLICE	100000000L
#define CUSTOM		7000000L

FIXTURE(slice) {
	struct topo t;
	struct hogs hogs;
	struct wakee w;
	char *top;
	char *cg;
	long base, s, l;
};

FIXTURE_SETUP(slice)
{
	char buf[32];

	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	if (file_read(BASE_SLICE, buf, sizeof(buf)) < 0)
		SKIP(return, "needs debugfs and CONFIG_SCHED_DEBUG");
	self->base = strtol(buf, NULL, 10);
	self->s = self->base / 4 < MIN_SLICE ? MIN_SLICE : self->base / 4;
	self->l = self->base * 4 > MAX_SLICE ? MAX_SLICE : self->base * 4;

	self->top = cg_top("steer_slice");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);
}

FIXTURE_TEARDOWN(slice)
{
	wakee_stop(&self->w);
	hogs_stop(&self->hogs);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* A hog in @cg on the last CPU: the first has the most other things to do. */
static int hog_in(FIXTURE_DATA(slice) *self, const char *cg)
{
	cpu_set_t cpu = cpuset_one(cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1));
	int ret = hogs_start(&self->hogs, cg, &cpu, 0);

	return ret ? ret : hogs_run(&self->hogs);
}

static long slice_of(pid_t pid)
{
	return task_sched(pid, pid, "se.slice");
}

/* A running task takes a new request when its present one is used up. */
#define EXPECT_SLICE(ns, pid)						\
	EXPECT_TRUE(WAIT_FOR(slice_of(pid) == (ns)))			\
		TH_LOG("slice is %ld, not %ld", slice_of(pid), (long)(ns))

/* slice_short and slice_long set the request, and it comes back without them. */
TEST_F_TIMEOUT(slice, words, 180)
{
	pid_t pid;

	ASSERT_EQ(0, hog_in(self, self->cg));
	pid = self->hogs.hog[0].pid;
	EXPECT_SLICE(self->base, pid);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_short"));
	EXPECT_SLICE(self->s, pid);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_long"));
	EXPECT_SLICE(self->l, pid);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_SLICE(self->base, pid);
	EXPECT_LT(0, cg_count(self->cg, "hint_slice_followed"));
}

/* So do the profiles that contain them, and groups that inherit them. */
TEST_F_TIMEOUT(slice, profiles_and_inheritance, 180)
{
	pid_t pid;

	ASSERT_EQ(0, hog_in(self, self->cg));
	pid = self->hogs.hog[0].pid;
	ASSERT_EQ(0, cg_write(self->top, "cpu.hint", "interactive"));
	EXPECT_SLICE(self->s, pid);
	ASSERT_EQ(0, cg_write(self->top, "cpu.hint", "background"));
	EXPECT_SLICE(self->l, pid);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_SLICE(self->base, pid);
}

/* A task that sleeps and wakes up takes the group's request as well. */
TEST_F_TIMEOUT(slice, at_wakeup, 180)
{
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_long"));
	ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	EXPECT_EQ(self->l, slice_of(self->w.pid));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_short"));
	ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	EXPECT_EQ(self->s, slice_of(self->w.pid));
}

/* A task that moves to another group takes that one's request. */
TEST_F_TIMEOUT(slice, moving, 180)
{
	char *other = cg_new(self->top, "other");
	pid_t pid;

	ASSERT_NE(NULL, other);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_short"));
	ASSERT_EQ(0, cg_write(other, "cpu.hint", "slice_long"));
	ASSERT_EQ(0, hog_in(self, self->cg));
	pid = self->hogs.hog[0].pid;
	EXPECT_SLICE(self->s, pid);
	ASSERT_EQ(0, cg_enter(other, pid));
	EXPECT_SLICE(self->l, pid);
	ASSERT_EQ(0, cg_enter(CG_ROOT, pid));
	EXPECT_SLICE(self->base, pid);
	free(other);
}

/*
 * A slice that the task asked for itself wins, and the counter says so; when
 * it gives that up, the group's request applies.
 */
TEST_F_TIMEOUT(slice, custom_wins, 180)
{
	pid_t pid;

	ASSERT_EQ(0, hog_in(self, self->cg));
	pid = self->hogs.hog[0].pid;
	ASSERT_EQ(0, task_set_slice(pid, CUSTOM));
	EXPECT_SLICE(CUSTOM, pid);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_short"));
	/* two seconds of its CPU time are many requests of any size */
	for (uint64_t end = task_cpu_ns(pid) + 2000000000ULL;
	     task_cpu_ns(pid) < end;) {
		ASSERT_EQ(CUSTOM, slice_of(pid));
		usleep(20000);
	}
	ASSERT_EQ(0, task_set_slice(pid, 0));
	EXPECT_SLICE(self->s, pid);
}

/* Wakeups of a task with its own slice are counted. */
TEST_F_TIMEOUT(slice, custom_counted, 180)
{
	long before;

	/* with one CPU no wakeup asks where to go */
	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "slice_short"));
	ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	EXPECT_EQ(0, cg_count(self->cg, "hint_slice_custom"));
	ASSERT_EQ(0, task_set_slice(self->w.pid, CUSTOM));
	before = cg_count(self->cg, "hint_slice_followed");
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	EXPECT_LE(9, cg_count(self->cg, "hint_slice_custom"));
	EXPECT_EQ(before, cg_count(self->cg, "hint_slice_followed"));
	EXPECT_EQ(CUSTOM, slice_of(self->w.pid));
}

/*
 * A hog and a wakee on one CPU: how often is the hog preempted while it uses a
 * second of CPU time? The hog's request is as long as there is, the wakee's as
 * short, so that by default the wakee preempts at each wakeup.
 */
static long preemptions(FIXTURE_DATA(slice) *self, const char *hog_cg,
			const char *wakee_cg, long *wakeups)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	cpu_set_t mask = cpuset_one(cpu);
	long before, after;
	uint64_t end;
	pid_t pid;

	*wakeups = 0;
	if (hog_in(self, hog_cg) || wakee_start(&self->w, wakee_cg, &mask) ||
	    task_pin_cpu(0, cpuset_nth(&self->t.cpus, 0)))
		return -1;
	pid = self->hogs.hog[0].pid;
	if (task_set_slice(pid, MAX_SLICE) ||
	    task_set_slice(self->w.pid, MIN_SLICE) ||
	    !WAIT_FOR(slice_of(pid) == MAX_SLICE))
		return -1;

	before = task_status(pid, "nonvoluntary_ctxt_switches");
	end = task_cpu_ns(pid) + 1000000000ULL;
	while (task_cpu_ns(pid) < end) {
		if (wakee_wake(&self->w, NULL))
			return -1;
		++*wakeups;
	}
	after = task_status(pid, "nonvoluntary_ctxt_switches");
	wakee_stop(&self->w);
	hogs_stop(&self->hogs);
	return after - before;
}

/*
 *	steer_slice
 *	  normal	the hog
 *	  group		the wakee, preempt_none or background
 *
 * A task with preempt_none waits until the running one has used its request up.
 */
TEST_F_TIMEOUT(slice, preempt_none, 300)
{
	long none, hint, wakeups;
	char *normal = cg_new(self->top, "normal");

	ASSERT_NE(NULL, normal);
	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	none = preemptions(self, normal, self->cg, &wakeups);
	TH_LOG("none: %ld preemptions in %ld wakeups", none, wakeups);
	ASSERT_LT(0, none);

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "preempt_none"));
	hint = preemptions(self, normal, self->cg, &wakeups);
	TH_LOG("preempt_none: %ld preemptions in %ld wakeups", hint, wakeups);
	ASSERT_LE(0, hint);
	EXPECT_LT(2 * hint, none);
	EXPECT_LE(wakeups / 2, cg_count(self->cg, "hint_preempt_followed"));

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "background"));
	hint = preemptions(self, normal, self->cg, &wakeups);
	TH_LOG("background: %ld preemptions in %ld wakeups", hint, wakeups);
	ASSERT_LE(0, hint);
	EXPECT_LT(2 * hint, none);
	free(normal);
}

/*
 *	steer_slice
 *	  group		hog and wakee, background
 *
 * Among themselves, background tasks preempt as others do.
 */
TEST_F_TIMEOUT(slice, preempt_each_other, 300)
{
	long wakeups, nr;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "background"));
	nr = preemptions(self, self->cg, self->cg, &wakeups);
	TH_LOG("%ld preemptions in %ld wakeups", nr, wakeups);
	EXPECT_LE(wakeups / 2, nr);
	/* a kernel thread that happens to run there is no background task */
	EXPECT_GE(wakeups / 10, cg_count(self->cg, "hint_preempt_followed"));
}

/*
 *	steer_slice
 *	  group		hog, background
 *	  normal	wakee
 *
 * A normal task preempts a background one as ever.
 */
TEST_F_TIMEOUT(slice, preempt_background, 300)
{
	char *normal = cg_new(self->top, "normal");
	long wakeups, nr;

	ASSERT_NE(NULL, normal);
	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "background"));
	nr = preemptions(self, self->cg, normal, &wakeups);
	TH_LOG("%ld preemptions in %ld wakeups", nr, wakeups);
	EXPECT_LE(wakeups / 2, nr);
	free(normal);
}

STEER_MAIN
