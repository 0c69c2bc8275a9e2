// SPDX-License-Identifier: GPL-2.0-only
/*
 * energy: where tasks run if the CPU that costs least is taken, on a machine whose CPUs are of
 * several kinds and have an energy model.
 *
 * The machines of this project get theirs from a driver that the first test switches on, if it
 * is there. On others, what the machine has is taken.
 *
 *	root		test, tasks that keep CPUs busy
 *	  steer_energy
 *	    group	tasks, cpu.hint = energy
 *	    other	likewise, without a hint
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <unistd.h>

#define HINT		"cpu.hint"
#define EFFECTIVE	"cpu.hint.effective"
#define DRIVER		"/sys/module/steer_lab_cpufreq/parameters/on"
#define AWARE		"/proc/sys/kernel/sched_energy_aware"
#define CPU_DIR		"/sys/devices/system/cpu"

#define WAKEUPS		20
/*
 * Somebody else's task may be on the right CPU for a moment. And what a new task uses is guessed:
 * until it has slept some times, it may be taken for a large one.
 */
#define MOST		(WAKEUPS * 9 / 10)
#define MOST_WOKEN_ON(from, to)	WAIT_FOR(woken_on(self, from, to) >= MOST)

FIXTURE(energy) {
	struct topo t;
	struct trace trace;
	struct spinners busy;
	struct spinners tasks;
	struct wakee w;
	char *top;
	char *cg;
	char *other;
	cpu_set_t small;	/* CPUs of the kind with the least capacity */
	cpu_set_t large;	/* and with the most */
	int small_capacity;
};

static int capacity_of(int cpu)
{
	char path[128], buf[32];

	snprintf(path, sizeof(path), CPU_DIR "/cpu%d/cpu_capacity", cpu);
	return file_read(path, buf, sizeof(buf)) < 0 ? 0 : atoi(buf);
}

static bool has_model(const char *cg)
{
	return cg_is(cg, EFFECTIVE, "energy");
}

FIXTURE_SETUP(energy)
{
	int cpu, capacity, least = INT_MAX, most = 0;

	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_energy");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	self->other = cg_new(self->top, "other");
	ASSERT_NE(NULL, self->cg);
	ASSERT_NE(NULL, self->other);
	ASSERT_EQ(0, cg_write(self->cg, HINT, "energy"));

	for (cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &self->t.cpus))
			continue;
		capacity = capacity_of(cpu);
		if (capacity < least) {
			least = capacity;
			CPU_ZERO(&self->small);
		}
		if (capacity > most) {
			most = capacity;
			CPU_ZERO(&self->large);
		}
		if (capacity == least)
			CPU_SET(cpu, &self->small);
		if (capacity == most)
			CPU_SET(cpu, &self->large);
	}
	self->small_capacity = least;
	/* The first CPU has the most other things to do. */
	ASSERT_EQ(0, task_pin_cpu(0, cpuset_nth(&self->t.cpus, 0)));
}

FIXTURE_TEARDOWN(energy)
{
	if (!self->top)
		return;
	trace_stop(&self->trace);
	wakee_stop(&self->w);
	spinners_stop(&self->busy);
	spinners_stop(&self->tasks);
	EXPECT_EQ(0, cg_destroy(self->top));
}

#define REQUIRE_MODEL() do {						\
	if (!has_model(self->cg))					\
		SKIP(return, "this machine has no energy model");	\
	if (CPU_EQUAL(&self->small, &self->large) || CPU_COUNT(&self->small) < 2) \
		SKIP(return, "needs CPUs of several kinds, two of the smallest"); \
} while (0)

static long wakeups_placed(FIXTURE_DATA(energy) *self)
{
	return cg_count(self->cg, "hint_energy_followed");
}

/* Each wakeup, of a task that slept on a CPU of @from, that ends on one of @to. */
static int woken_on(FIXTURE_DATA(energy) *self, const cpu_set_t *from, const cpu_set_t *to)
{
	int i, hits = 0;

	for (i = 0; i < WAKEUPS; i++) {
		struct wake rec;

		if (wakee_place(&self->w, cpuset_nth(from, i % CPU_COUNT(from)), &self->t.cpus) ||
		    wakee_wake(&self->w, &rec))
			return -1;
		hits += CPU_ISSET(rec.cpu, to);
	}
	return hits;
}

/* Busy tasks of the root group, one on each CPU of @cpus. */
static int keep_busy(FIXTURE_DATA(energy) *self, const cpu_set_t *cpus)
{
	for (int i = 0; i < CPU_COUNT(cpus); i++) {
		int ret = spinners_add(&self->busy, NULL, cpuset_nth(cpus, i));

		if (ret)
			return ret;
	}
	return spinners_run(&self->busy);
}

/* The largest CPU is kept busy for so long that the machine counts as overutilised. */
static int overutilise(FIXTURE_DATA(energy) *self)
{
	cpu_set_t last = cpuset_one(cpuset_nth(&self->large, CPU_COUNT(&self->large) - 1));
	int ret = keep_busy(self, &last);

	usleep(500000);
	return ret;
}

/* Tasks of @cg that never sleep begin on one CPU, and may go anywhere then. */
static int never_sleep(FIXTURE_DATA(energy) *self, const char *cg, int nr, int cpu)
{
	int ret = 0;

	for (int i = 0; i < nr && !ret; i++)
		ret = spinners_add(&self->tasks, cg, cpu);
	ret = ret ?: spinners_run(&self->tasks);
	return ret ?: spinners_pin(&self->tasks, &self->t.cpus);
}

/* Is each of the tasks on a CPU of @cpus, and has that for itself? */
static bool each_has_one(FIXTURE_DATA(energy) *self, const cpu_set_t *cpus)
{
	cpu_set_t seen;
	int i;

	CPU_ZERO(&seen);
	for (i = 0; i < self->tasks.nr; i++) {
		int cpu = task_cpu(self->tasks.task[i].pid);

		if (cpu < 0 || !CPU_ISSET(cpu, cpus) || CPU_ISSET(cpu, &seen))
			return false;
		CPU_SET(cpu, &seen);
	}
	return true;
}

/* A group has no more of this than those above it. */
static int boost(FIXTURE_DATA(energy) *self)
{
	int ret = cg_write(self->top, "cpu.uclamp.min", "max");

	return ret ?: cg_write(self->cg, "cpu.uclamp.min", "max");
}

static int cap(FIXTURE_DATA(energy) *self, const char *file, int capacity)
{
	char percent[16];

	snprintf(percent, sizeof(percent), "%d", capacity * 100 / 1024);
	return cg_write(self->cg, file, percent);
}

/* With a model that comes while the machine runs, the word begins to work without a write. */
TEST_F_TIMEOUT(energy, model_appears, 120)
{
	cpu_set_t anywhere = self->t.cpus;
	long before;

	if (!has_model(self->cg)) {
		if (access(DRIVER, F_OK))
			SKIP(return, "this machine has no energy model");
		ASSERT_EQ(0, file_write(DRIVER, "1", 1));
		EXPECT_TRUE(WAIT_FOR(has_model(self->cg)));
	}

	ASSERT_EQ(0, cg_write(self->cg, HINT, "efficient"));
	/* Refused while scheduling domains are being rebuilt */
	ASSERT_TRUE(WAIT_FOR(!file_write(AWARE, "0", 1)));
	EXPECT_TRUE(WAIT_FOR(cg_is(self->cg, EFFECTIVE, "pack energy:unavailable")));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &anywhere));
	before = wakeups_placed(self);
	EXPECT_EQ(WAKEUPS, woken_on(self, &self->large, &anywhere));
	EXPECT_EQ(before, wakeups_placed(self));
	EXPECT_LE(WAKEUPS, cg_count(self->cg, "hint_energy_unavailable"));

	ASSERT_TRUE(WAIT_FOR(!file_write(AWARE, "1", 1)));
	EXPECT_TRUE(WAIT_FOR(cg_is(self->cg, EFFECTIVE, "pack energy")));
	EXPECT_EQ(WAKEUPS, woken_on(self, &self->large, &anywhere));
	EXPECT_LE(before + WAKEUPS, wakeups_placed(self));
}

/* A task that does little goes to a small CPU, also while another CPU is overutilised. */
TEST_F_TIMEOUT(energy, little_work, 120)
{
	REQUIRE_MODEL();
	ASSERT_EQ(0, overutilise(self));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->t.cpus));
	EXPECT_TRUE(MOST_WOKEN_ON(&self->large, &self->small));
	EXPECT_LE(MOST, wakeups_placed(self));
}

/* Others are placed as if there were no group with the word. */
TEST_F_TIMEOUT(energy, others, 120)
{
	char filter[32];

	REQUIRE_MODEL();
	ASSERT_EQ(0, overutilise(self));
	ASSERT_EQ(0, wakee_start(&self->w, self->other, &self->t.cpus));
	snprintf(filter, sizeof(filter), "pid == %d", self->w.pid);
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_energy", filter));
	EXPECT_GT(MOST, woken_on(self, &self->large, &self->small));
	EXPECT_EQ(0, trace_pause(&self->trace));
	EXPECT_EQ(0, trace_count(&self->trace, "steer_energy", NULL));
	EXPECT_EQ(-1, cg_stat(self->other, "hint_energy_followed"));
}

/* Why there? The trace has what the task would have cost on each CPU. */
TEST_F_TIMEOUT(energy, trace, 120)
{
	char chosen[64], filter[32];
	struct wake rec;

	REQUIRE_MODEL();
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->t.cpus));
	ASSERT_EQ(0, wakee_place(&self->w, cpuset_nth(&self->large, 0), &self->t.cpus));
	snprintf(filter, sizeof(filter), "pid == %d", self->w.pid);
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_energy", filter));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_energy_candidate", filter));
	ASSERT_EQ(0, wakee_wake(&self->w, &rec));
	EXPECT_EQ(0, trace_pause(&self->trace));
	snprintf(chosen, sizeof(chosen), "hint=energy when=wake src_cpu=%d dst_cpu=%d", rec.prev,
		 rec.cpu);
	EXPECT_EQ(1, trace_count(&self->trace, "steer_energy", chosen));
	/* Something else may keep a CPU busy so that the task does not fit there. */
	EXPECT_LT(self->t.nr_cpus / 2, trace_count(&self->trace, "steer_energy_candidate",
						   "when=wake"));
	snprintf(chosen, sizeof(chosen), "cpu=%d fits=2 cost=", rec.cpu);
	EXPECT_EQ(1, trace_count(&self->trace, "steer_energy_candidate", chosen));
}

/* uclamp.min: the performance is to be had on the largest CPUs only. */
TEST_F_TIMEOUT(energy, boosted, 120)
{
	REQUIRE_MODEL();
	ASSERT_EQ(0, boost(self));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->t.cpus));
	EXPECT_TRUE(MOST_WOKEN_ON(&self->small, &self->large));
}

/* A cpuset, or an affinity, that leaves one kind of CPU */
TEST_F_TIMEOUT(energy, one_kind, 120)
{
	cpu_set_t all = self->t.cpus;

	REQUIRE_MODEL();
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->large));
	self->t.cpus = self->large;
	EXPECT_EQ(WAKEUPS, woken_on(self, &self->large, &self->large));
	self->t.cpus = all;
	EXPECT_LE(WAKEUPS, wakeups_placed(self));
	EXPECT_TRUE(MOST_WOKEN_ON(&self->large, &self->small));
}

/* Where no CPU has room, the task is placed as without the word. */
TEST_F_TIMEOUT(energy, nothing_fits, 120)
{
	REQUIRE_MODEL();
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->t.cpus));
	ASSERT_EQ(0, keep_busy(self, &self->t.cpus));
	usleep(500000);
	EXPECT_EQ(WAKEUPS, woken_on(self, &self->large, &self->t.cpus));
	EXPECT_LT(0, cg_count(self->cg, "hint_energy_full"));
}

/*
 * Tasks that are capped so that they never sleep leave the large CPU on which they began, and
 * do not stack on a small one. Nothing is overutilised, so that no load balancer would help.
 */
TEST_F_TIMEOUT(energy, capped_never_sleep, 120)
{
	REQUIRE_MODEL();
	ASSERT_EQ(0, cap(self, "cpu.uclamp.max", self->small_capacity / 2));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_energy", "when == 3"));
	ASSERT_EQ(0, never_sleep(self, self->cg, CPU_COUNT(&self->small) - 1,
				 cpuset_nth(&self->large, 0)));
	EXPECT_TRUE(WAIT_FOR(each_has_one(self, &self->small)));
	EXPECT_LE(self->tasks.nr, cg_count(self->cg, "hint_energy_moved"));
	EXPECT_EQ(0, trace_pause(&self->trace));
	EXPECT_LE(self->tasks.nr, trace_count(&self->trace, "steer_energy", "when=stuck"));
}

/*
 * One that does not fit the small CPU on which it began leaves that for a large one, although
 * capped tasks wait there as well: those make no CPU overloaded.
 */
TEST_F_TIMEOUT(energy, large_never_sleeps, 120)
{
	int cpu = cpuset_nth(&self->small, CPU_COUNT(&self->small) - 1);
	char *capped;

	REQUIRE_MODEL();
	capped = cg_new(self->top, "capped");
	ASSERT_NE(NULL, capped);
	ASSERT_EQ(0, cg_write(capped, "cpu.uclamp.max", "10"));
	ASSERT_EQ(0, spinners_add(&self->busy, capped, cpu));
	ASSERT_EQ(0, spinners_add(&self->busy, capped, cpu));
	ASSERT_EQ(0, spinners_run(&self->busy));
	ASSERT_EQ(0, never_sleep(self, self->cg, 1, cpu));
	EXPECT_TRUE(WAIT_FOR(each_has_one(self, &self->large)));
}

/* All CPUs of the largest kind go offline, and come back. */
TEST_F_TIMEOUT(energy, domain_offline, 240)
{
	cpu_set_t rest = cpuset_minus(self->t.cpus, self->large);
	int i, cpu, gone = 0;

	REQUIRE_MODEL();
	for (i = 0; i < CPU_COUNT(&self->large); i++)
		if (!cpu_can_go(cpuset_nth(&self->large, i)))
			SKIP(return, "CPU %d cannot go offline", cpuset_nth(&self->large, i));
	ASSERT_EQ(0, boost(self));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, &self->t.cpus));
	ASSERT_EQ(0, never_sleep(self, self->cg, 2, cpuset_nth(&self->large, 0)));
	for (i = 0; i < CPU_COUNT(&self->large); i++) {
		cpu = cpuset_nth(&self->large, i);
		EXPECT_EQ(0, cpu_set_online(cpu, false));
		gone++;
	}
	self->t.cpus = rest;
	EXPECT_EQ(WAKEUPS, woken_on(self, &rest, &rest));
	EXPECT_EQ(2, spinners_on(&self->tasks, 0, 2, &rest));
	self->t.cpus = cpuset_or(rest, self->large);
	for (i = 0; i < gone; i++)
		EXPECT_EQ(0, cpu_set_online(cpuset_nth(&self->large, i), true));
	/* The model is complete again. */
	EXPECT_TRUE(WAIT_FOR(has_model(self->cg)));
	EXPECT_TRUE(MOST_WOKEN_ON(&rest, &self->large));
}

STEER_MAIN
