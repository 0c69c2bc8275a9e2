// SPDX-License-Identifier: GPL-2.0-only
/*
 * Everything at once: hints, gangs and headrooms toggled on a nested hierarchy,
 * tasks forking, exec'ing, waking up and moving, groups coming and going, freezing
 * and thawing, CPUs going off and on, cpusets and partitions changing, cpu.max
 * throttling. What the kernel makes of that is judged by its own checks (lockdep,
 * KASAN, warnings) and by the state afterwards.
 *
 * STEER_CHURN_SECONDS (20) says for how long, STEER_CHURN_SEED repeats a run.
 *
 *	steer_churn
 *	  g0 .. g2		cpu.hint, cpu.gang, cpu.headroom, cpu.max toggled
 *	    s0 .. s1		tasks; likewise, and frozen, cpuset changed
 *	    x0			created and removed, with tasks in it
 *	  threaded
 *	    a, b		threads of one process
 *	  quiet			tasks whose affinity nobody changes
 *	steer_churn_part	a partition, now and then
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define MORE_SECONDS	240
#define GANG_DEBUG	"/sys/kernel/debug/sched/steer_gang"

#define GROUPS	3
#define SUBS	2
#define LEAVES	(GROUPS * SUBS)
#define NR_X	1

enum op {
	WRITE_HINT, WRITE_BAD, READ, MAKE_GROUP, REMOVE_GROUP, FORK, EXEC, MOVE,
	MOVE_THREAD, WAKE, CPU_OFF, CPU_ON, CPUSET, PARTITION, CPU_MAX, AFFINITY,
	WRITE_HEADROOM, FREEZE,
	WRITE_GANG, WRITE_SCOPE,
	NR_OPS
};

static const char * const op_names[NR_OPS] = {
	"hints written", "bad hints refused", "files read", "groups made",
	"groups removed", "forks", "execs", "moves", "thread moves", "wakeups",
	"CPUs off", "CPUs on", "cpusets changed", "partitions changed",
	"cpu.max changed", "affinities changed",
	"headrooms written", "groups frozen and thawed",
	"gangs written", "scopes written",
};

struct page {
	unsigned long ops[NR_OPS];
	/* what must never happen, with a value for the log */
	unsigned long outside;		/* a task outside its affinity */
	unsigned long garbage;		/* a file with something nobody wrote */
	int tid[2];
	pid_t worker[LEAVES];
};

FIXTURE(churn) {
	struct topo t;
	char *top, *part, *quiet, *threaded, *thread[2];
	char *group[GROUPS], *leaf[LEAVES];
	struct page *page;
	unsigned int seed;
};

/*
 * CPU hotplug and headroom each have a run of their own. Linux 6.12 loses count of
 * a runqueue's tasks when nested groups are throttled often, by cpu.max no less
 * than by cpu.headroom, and warns about it when the CPU goes off.
 */
FIXTURE_VARIANT(churn) {
	bool headroom;
};

FIXTURE_VARIANT_ADD(churn, hotplug) {
	.headroom = false,
};

FIXTURE_VARIANT_ADD(churn, headroom) {
	.headroom = true,
};

static void count(struct page *page, enum op op)
{
	__atomic_add_fetch(&page->ops[op], 1, __ATOMIC_RELAXED);
}

static unsigned int rnd(unsigned int *seed, unsigned int n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 16) % n;
}

/* CPUs that go off and on: not the first two, where the quiet tasks are */
static bool pluggable(const struct topo *t, int cpu)
{
	return cpu != cpuset_nth(&t->cpus, 0) && cpu != cpuset_nth(&t->cpus, 1) &&
	       cpu_can_go(cpu);
}

static void all_online(const struct topo *t)
{
	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, &t->cpus) && pluggable(t, cpu))
			cpu_set_online(cpu, true);
}

FIXTURE_SETUP(churn)
{
	const char *seed = getenv("STEER_CHURN_SEED");
	char name[16];

	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->seed = seed ? strtoul(seed, NULL, 10) : (unsigned int)time(NULL);
	self->page = SHARED(struct page);
	self->top = cg_top("steer_churn");
	ASSERT_NE(NULL, self->top);
	self->part = cg_name(CG_ROOT, "steer_churn_part");
	cg_destroy(self->part);
	for (int g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "g%d", g);
		self->group[g] = cg_new(self->top, name);
		ASSERT_NE(NULL, self->group[g]);
		ASSERT_EQ(0, cg_enable(self->group[g], "+cpu +cpuset"));
		for (int s = 0; s < SUBS; s++) {
			snprintf(name, sizeof(name), "s%d", s);
			self->leaf[g * SUBS + s] = cg_new(self->group[g], name);
			ASSERT_NE(NULL, self->leaf[g * SUBS + s]);
		}
	}
	self->quiet = cg_new(self->top, "quiet");
	self->threaded = cg_new(self->top, "threaded");
	ASSERT_TRUE(self->quiet && self->threaded);
	ASSERT_EQ(0, cg_enable(self->threaded, "+cpu"));
	self->thread[0] = cg_new(self->threaded, "a");
	self->thread[1] = cg_new(self->threaded, "b");
	ASSERT_TRUE(self->thread[0] && self->thread[1]);
	ASSERT_EQ(0, cg_write(self->thread[0], "cgroup.type", "threaded"));
	ASSERT_EQ(0, cg_write(self->thread[1], "cgroup.type", "threaded"));
}

FIXTURE_TEARDOWN(churn)
{
	all_online(&self->t);
	EXPECT_EQ(0, cg_destroy(self->part));
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* ------------------------------------------------- what goes on, by process */

static const char * const hints[] = {
	"inherit", "none", "interactive", "tail_latency", "noninteractive",
	"background", "efficient", "wake_affine", "wake_hold",
	"fork_affine wake_affine wake_wide scan_full slice_short",
	"fork_spread wake_hold scan_none slice_long preempt_none pack energy",
	"background wake_hold", "+pack", "-pack", "+wake_wide", "-slice_long",
};

/* A group whose hint may be anything: a fixed one, or one that comes and goes */
static void pick_group(FIXTURE_DATA(churn) *self, unsigned int *seed, char *path,
		       size_t len)
{
	const char *leaf = self->leaf[rnd(seed, LEAVES)];

	switch (rnd(seed, 6)) {
	case 0:
		snprintf(path, len, "%s", self->top);
		break;
	case 1:
		snprintf(path, len, "%s", self->group[rnd(seed, GROUPS)]);
		break;
	case 2:
		snprintf(path, len, "%s", self->thread[rnd(seed, 2)]);
		break;
	case 3:
		snprintf(path, len, "%s/x%u", self->group[rnd(seed, GROUPS)],
			 rnd(seed, NR_X));
		break;
	default:
		snprintf(path, len, "%s", leaf);
	}
}

static void writer(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	char path[PATH_MAX], buf[256], stat[8192];

	for (;;) {
		pick_group(self, &seed, path, sizeof(path));
		if (!cg_write(path, "cpu.hint",
			      hints[rnd(&seed, ARRAY_SIZE(hints))]))
			count(self->page, WRITE_HINT);
		if (!rnd(&seed, 8) &&
		    cg_write(path, "cpu.hint", "pack nonsense") == -EINVAL)
			count(self->page, WRITE_BAD);
		if (cg_read(path, "cpu.hint", buf, sizeof(buf)) > 0 &&
		    cg_read(path, "cpu.hint.effective", buf, sizeof(buf)) > 0 &&
		    cg_read(path, "cpu.stat", stat, sizeof(stat)) > 0) {
			count(self->page, READ);
			if (buf[0] < 'a' || buf[0] > 'z')
				__atomic_add_fetch(&self->page->garbage, 1,
						   __ATOMIC_RELAXED);
		}
		usleep(1000 * rnd(&seed, 5));
	}
}

/*
 * Headrooms at all levels, with what they depend on. Tasks are held back for a
 * while, not for good: whoever waits for one of them would wait for it.
 */
static void headrooms(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	static const char * const values[] = {
		"0", "0", "0", "0.01", "10", "20.5", "30", "30", "80", "100",
	};
	char path[PATH_MAX], stat[512];

	for (;;) {
		const char *leaf = self->leaf[rnd(&seed, LEAVES)];

		pick_group(self, &seed, path, sizeof(path));
		if (!cg_write(path, "cpu.headroom",
			      values[rnd(&seed, ARRAY_SIZE(values))]))
			count(self->page, WRITE_HEADROOM);
		if (cg_read(path, "cpu.headroom.stat", stat, sizeof(stat)) > 0 &&
		    strncmp(stat, "demand ", 7))
			__atomic_add_fetch(&self->page->garbage, 1,
					   __ATOMIC_RELAXED);
		if (!rnd(&seed, 8) && !cg_write(leaf, "cgroup.freeze", "1")) {
			usleep(1000 * rnd(&seed, 20));
			if (!cg_write(leaf, "cgroup.freeze", "0"))
				count(self->page, FREEZE);
		}
		usleep(1000 * rnd(&seed, 20));
	}
}

/* Gangs come and go at any level, with any scope. */
static void ganger(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	static const char * const scopes[] = { "core", "llc", "node", "system" };
	char path[PATH_MAX], buf[32];

	for (;;) {
		pick_group(self, &seed, path, sizeof(path));
		if (!cg_write(path, "cpu.gang", rnd(&seed, 4) ? "1" : "0"))
			count(self->page, WRITE_GANG);
		if (!cg_write(path, "cpu.gang.scope", scopes[rnd(&seed, 4)]))
			count(self->page, WRITE_SCOPE);
		if (cg_read(path, "cpu.gang.effective", buf, sizeof(buf)) > 0 &&
		    strcmp(buf, "0") && strncmp(buf, "1 ", 2))
			__atomic_add_fetch(&self->page->garbage, 1, __ATOMIC_RELAXED);
		usleep(1000 * rnd(&seed, 20));
	}
}

/* A member that spins, so that there is something to run together; with room for others */
static void spinner(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	for (;;) {
		for (volatile unsigned int n = 0; n < 2000000; n++)
			;
		usleep(rnd(&seed, 20000));
	}
}

/* The group x0 of each g, sometimes with a task and a hint in it */
static void maker(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	char path[PATH_MAX];

	for (;;) {
		snprintf(path, sizeof(path), "%s/x%u",
			 self->group[rnd(&seed, GROUPS)], rnd(&seed, NR_X));
		if (!mkdir(path, 0755)) {
			count(self->page, MAKE_GROUP);
			if (rnd(&seed, 2))
				cg_write(path, "cpu.hint",
					 hints[rnd(&seed, ARRAY_SIZE(hints))]);
			if (rnd(&seed, 2)) {
				pid_t pid = task_fork(NULL);

				if (!pid) {
					if (cg_enter(path, getpid()))
						_exit(0);
					usleep(10000);
					_exit(0);
				}
				if (rnd(&seed, 2))
					waitpid(pid, NULL, 0);
			}
		} else {
			if (rnd(&seed, 2))
				cg_write(path, "cgroup.kill", "1");
			if (!rmdir(path))
				count(self->page, REMOVE_GROUP);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		usleep(1000 * rnd(&seed, 10));
	}
}

static void forker(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	for (;;) {
		pid_t pid[4];
		int nr = 1 + rnd(&seed, 4);
		bool exec = rnd(&seed, 2);

		for (int i = 0; i < nr; i++) {
			pid[i] = fork();
			if (pid[i])
				continue;
			if (exec)
				execl("/proc/self/exe", "steer", "--where", NULL);
			for (volatile int n = 0; n < 10000; n++)
				;
			_exit(0);
		}
		for (int i = 0; i < nr; i++)
			if (pid[i] > 0 && waitpid(pid[i], NULL, 0) == pid[i])
				count(self->page, exec ? EXEC : FORK);
		usleep(1000 * rnd(&seed, 5));
	}
}

/* Sleeps and runs in a leaf, is moved about and has its affinity changed */
static void worker(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	for (;;) {
		for (volatile unsigned int n = 0; n < rnd(&seed, 50000); n++)
			;
		usleep(rnd(&seed, 3000));
	}
}

static void mover(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	for (;;) {
		pid_t pid = self->page->worker[rnd(&seed, LEAVES)];
		cpu_set_t mask;
		char buf[16];

		/* not into groups that come and go: the maker kills what is there */
		if (pid && !cg_enter(self->leaf[rnd(&seed, LEAVES)], pid))
			count(self->page, MOVE);

		for (int i = 0; i < 2; i++) {
			snprintf(buf, sizeof(buf), "%d", self->page->tid[i]);
			if (self->page->tid[i] &&
			    !cg_write(self->thread[rnd(&seed, 2)],
				      "cgroup.threads", buf))
				count(self->page, MOVE_THREAD);
		}

		CPU_ZERO(&mask);
		for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
			if (CPU_ISSET(cpu, &self->t.cpus) && rnd(&seed, 2))
				CPU_SET(cpu, &mask);
		if (pid && !task_pin(pid, &mask))
			count(self->page, AFFINITY);
		usleep(1000 * rnd(&seed, 10));
	}
}

static void *thread_loop(void *arg)
{
	unsigned int seed = (uintptr_t)arg;

	__atomic_store_n((int *)arg, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	for (;;)
		usleep(rnd(&seed, 2000));
	return NULL;
}

static void threads(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, thread_loop, &self->page->tid[i]))
			_exit(1);
	for (;;)
		pause();
}

static void hotplug(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	for (;;) {
		int cpu = cpuset_nth(&self->t.cpus, rnd(&seed, self->t.nr_cpus));

		if (pluggable(&self->t, cpu)) {
			bool on = rnd(&seed, 2);

			if (!cpu_set_online(cpu, on))
				count(self->page, on ? CPU_ON : CPU_OFF);
			if (rnd(&seed, 4) == 0)
				all_online(&self->t);
		}
		usleep(1000 * rnd(&seed, 60));
	}
}

static void cpusets(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	/*
	 * Not "isolated" ones. Linux 6.12 creates workers for those under
	 * cpuset_mutex, which deadlocks with a task that enters a cgroup.
	 */
	static const char * const types[] = { "root", "member" };
	char list[1024];
	cpu_set_t set;

	for (;;) {
		CPU_ZERO(&set);
		for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
			if (CPU_ISSET(cpu, &self->t.cpus) && rnd(&seed, 2))
				CPU_SET(cpu, &set);
		cpulist_format(&set, list, sizeof(list));
		/* an empty list means the parent's */
		if (!cg_write(self->leaf[rnd(&seed, LEAVES)], "cpuset.cpus",
			      list[0] ? list : "\n"))
			count(self->page, CPUSET);

		/* A partition takes CPUs away from all others; two are safe. */
		CPU_CLR(cpuset_nth(&self->t.cpus, 0), &set);
		CPU_CLR(cpuset_nth(&self->t.cpus, 1), &set);
		cpulist_format(&set, list, sizeof(list));
		if (list[0]) {
			if (rnd(&seed, 2))
				mkdir(self->part, 0755);
			cg_write(self->part, "cpuset.cpus", list);
			if (!cg_write(self->part, "cpuset.cpus.partition",
				      types[rnd(&seed, 2)]))
				count(self->page, PARTITION);
			cg_write(self->part, "cpu.hint",
				 hints[rnd(&seed, ARRAY_SIZE(hints))]);
			if (rnd(&seed, 4) == 0)
				rmdir(self->part);
		}
		usleep(1000 * rnd(&seed, 60));
	}
}

static void throttler(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	/*
	 * Long periods: Linux 6.12 prints a warning about ones that a slow
	 * machine cannot keep, with the bandwidth lock held, and lockdep minds.
	 */
	static const char * const limits[] = {
		"max", "200000 1000000", "500000 1000000", "2000000 1000000",
	};

	for (;;) {
		const char *cg = rnd(&seed, 2) ? self->group[rnd(&seed, GROUPS)] :
						 self->leaf[rnd(&seed, LEAVES)];

		if (!cg_write(cg, "cpu.max", limits[rnd(&seed, 4)]))
			count(self->page, CPU_MAX);
		usleep(1000 * rnd(&seed, 20));
	}
}

/*
 * Wakes a task in the group that nobody changes: its affinity is what it was
 * given, whatever the hints above say and whichever other CPUs come and go.
 */
static void waker(FIXTURE_DATA(churn) *self, unsigned int seed)
{
	cpu_set_t mask = cpuset_one(cpuset_nth(&self->t.cpus, 0));
	struct wakee w;
	struct wake rec;

	if (self->t.nr_cpus > 1)
		CPU_SET(cpuset_nth(&self->t.cpus, 1), &mask);
	if (wakee_start(&w, self->quiet, &mask) && !w.page)
		_exit(1);
	for (;;) {
		/* Everybody waits for the cgroup locks: it may take a while. */
		if (wakee_wake(&w, &rec))
			continue;
		count(self->page, WAKE);
		if (!CPU_ISSET(rec.cpu, &mask))
			__atomic_add_fetch(&self->page->outside, 1,
					   __ATOMIC_RELAXED);
	}
}

/* ------------------------------------------------------------- afterwards */

/* Is the effective value of @cg what its request and its parent's make of it? */
static bool resolved(const char *parent, const char *cg)
{
	char request[256], effective[256], inherited[256];

	if (cg_read(cg, "cpu.hint", request, sizeof(request)) <= 0 ||
	    cg_read(cg, "cpu.hint.effective", effective, sizeof(effective)) <= 0 ||
	    cg_read(parent, "cpu.hint.effective", inherited,
		    sizeof(inherited)) <= 0)
		return false;
	if (!strcmp(request, "inherit"))
		return !strcmp(effective, inherited);
	/* writing it back must change nothing */
	return !cg_write(cg, "cpu.hint", request) &&
	       cg_is(cg, "cpu.hint", request) &&
	       cg_is(cg, "cpu.hint.effective", effective);
}

/* Of all gangs that are still there. */
static long gang_slots(FIXTURE_DATA(churn) *self)
{
	long sum = 0, led;

	for (int i = 0; i < GROUPS + LEAVES; i++) {
		led = cg_stat(i < GROUPS ? self->group[i] : self->leaf[i - GROUPS],
			      "gang_slots_led");
		sum += led > 0 ? led : 0;
	}
	return sum;
}

/* The gang of @cg is its parent's, or its own if it says so. */
static bool gang_resolved(const char *parent, const char *cg)
{
	char above[32], effective[32], scope[32], own[40];

	if (cg_read(parent, "cpu.gang.effective", above, sizeof(above)) <= 0 ||
	    cg_read(cg, "cpu.gang.effective", effective, sizeof(effective)) <= 0 ||
	    cg_read(cg, "cpu.gang.scope", scope, sizeof(scope)) <= 0)
		return false;
	snprintf(own, sizeof(own), "1 %s", scope);
	if (strcmp(above, "0"))
		return !strcmp(effective, above);
	return !strcmp(effective, cg_is(cg, "cpu.gang", "1") ? own : "0");
}

/* How often a wakeup in @cg asked for the LLC that its hint wants, whatever came of it */
static long asked_to_wake(const char *cg)
{
	static const char * const keys[] = {
		"hint_wake_followed", "hint_wake_same_llc", "hint_wake_full",
		"hint_wake_affinity", "hint_wake_irq", "hint_wake_turns",
	};
	long sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		sum += cg_count(cg, keys[i]);
	return sum;
}

/* Can this machine do it at all? */
static bool possible(const struct topo *t, enum op op, bool headroom)
{
	if (op == CPU_OFF || op == CPU_ON)
		return t->nr_cpus > 2 && !headroom;
	if (op == WRITE_HEADROOM || op == FREEZE)
		return headroom;
	return t->nr_cpus > 2 || op != PARTITION;
}

static bool each_happened(FIXTURE_DATA(churn) *self, bool headroom)
{
	for (int op = 0; op < NR_OPS; op++)
		if (possible(&self->t, op, headroom) && !self->page->ops[op])
			return false;
	return true;
}

TEST_F_TIMEOUT(churn, everything, 3600)
{
	typedef void (*process)(FIXTURE_DATA(churn) *self, unsigned int seed);
	static const process processes[] = {
		writer, writer, maker, mover, cpusets, throttler, waker, ganger,
	};
	const char *env = getenv("STEER_CHURN_SECONDS");
	int seconds = env ? atoi(env) : 20, nr = 0;
	pid_t pid[ARRAY_SIZE(processes) + LEAVES * 3 + 2];
	unsigned long wakes;
	cpu_set_t mask;
	struct topo t;

	ASSERT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "hint_users") == 0))
		TH_LOG("something else has a hint");
	TH_LOG("seed %u, %d seconds", self->seed, seconds);

	for (int i = 0; i < LEAVES; i++) {
		pid[nr] = task_fork(self->leaf[i]);
		if (!pid[nr])
			worker(self, self->seed + nr);
		self->page->worker[i] = pid[nr++];
		pid[nr] = task_fork(self->leaf[i]);
		if (!pid[nr])
			forker(self, self->seed + nr);
		nr++;
		pid[nr] = task_fork(self->leaf[i]);
		if (!pid[nr])
			spinner(self, self->seed + nr);
		nr++;
	}
	pid[nr] = task_fork(self->threaded);
	if (!pid[nr])
		threads(self, self->seed);
	nr++;
	for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
		pid[nr] = task_fork(NULL);
		if (!pid[nr])
			processes[i](self, self->seed + nr);
		nr++;
	}
	pid[nr] = task_fork(NULL);
	if (!pid[nr]) {
		if (variant->headroom)
			headrooms(self, self->seed + nr);
		hotplug(self, self->seed + nr);
	}
	nr++;
	for (int i = 0; i < nr; i++)
		ASSERT_LT(0, pid[i]);

	/* A slow machine takes longer until everything has happened. */
	for (int s = 1; s <= seconds || (s <= seconds + MORE_SECONDS &&
					 !each_happened(self, variant->headroom)); s++) {
		sleep(1);
		if (s % 5 == 0)
			TH_LOG("%d of %d seconds, %lu hints written, %lu wakeups",
			       s, seconds, self->page->ops[WRITE_HINT],
			       self->page->ops[WAKE]);
	}

	/* Nobody ended by itself, and whoever slept can be woken up. */
	wakes = self->page->ops[WAKE];
	EXPECT_TRUE(WAIT_FOR(self->page->ops[WAKE] > wakes));
	for (int i = 0; i < nr; i++) {
		EXPECT_EQ(0, waitpid(pid[i], NULL, WNOHANG))
			TH_LOG("process %d ended", i);
		task_kill(pid[i]);
	}
	for (int op = 0; op < NR_OPS; op++) {
		TH_LOG("%8lu %s", self->page->ops[op], op_names[op]);
		EXPECT_TRUE(!possible(&self->t, op, variant->headroom) ||
			    self->page->ops[op])
			TH_LOG("no %s", op_names[op]);
	}
	EXPECT_EQ(0UL, self->page->outside);
	EXPECT_EQ(0UL, self->page->garbage);
	TH_LOG("%ld slots of gangs", gang_slots(self));
	if (self->t.nr_cpus > 1)
		EXPECT_LT(0, gang_slots(self));

	/* the machine is whole again, and nobody is frozen or held back */
	for (int i = 0; i < LEAVES; i++)
		cg_write(self->leaf[i], "cgroup.freeze", "0");
	for (int g = 0; g < GROUPS; g++)
		cg_write(self->group[g], "cpu.headroom", "0");
	all_online(&self->t);
	cg_destroy(self->part);
	EXPECT_TRUE(WAIT_FOR(!topo_read(&t) && t.nr_cpus == self->t.nr_cpus));
	EXPECT_EQ(self->t.nr_llcs, t.nr_llcs);
	EXPECT_EQ(self->t.nr_nodes, t.nr_nodes);

	/* all that is left resolves to what it should */
	for (int g = 0; g < GROUPS; g++) {
		EXPECT_TRUE(resolved(self->top, self->group[g]));
		EXPECT_TRUE(gang_resolved(self->top, self->group[g]));
		for (int s = 0; s < SUBS; s++)
			EXPECT_TRUE(gang_resolved(self->group[g],
						  self->leaf[g * SUBS + s]));
		for (int s = 0; s < SUBS; s++)
			EXPECT_TRUE(resolved(self->group[g],
					     self->leaf[g * SUBS + s]));
		for (int x = 0; x < NR_X; x++) {
			char path[PATH_MAX];

			snprintf(path, sizeof(path), "%s/x%d", self->group[g], x);
			EXPECT_TRUE(access(path, F_OK) ||
				    resolved(self->group[g], path));
		}
	}
	EXPECT_TRUE(resolved(self->threaded, self->thread[0]));
	EXPECT_TRUE(resolved(self->threaded, self->thread[1]));
	EXPECT_TRUE(resolved(self->top, self->quiet));

	/*
	 * a task is where it may be, and a hint does again what it should; two of the CPUs
	 * that went off and on, since where there is no choice it is not asked
	 */
	ASSERT_EQ(0, cg_write(self->quiet, "cpu.hint", "wake_affine scan_full"));
	pid[0] = task_fork(self->quiet);
	ASSERT_LE(0, pid[0]);
	if (!pid[0])
		worker(self, 1);
	mask = cpuset_one(cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1));
	if (self->t.nr_cpus > 1)
		CPU_SET(cpuset_nth(&self->t.cpus, self->t.nr_cpus - 2), &mask);
	ASSERT_EQ(0, task_pin(pid[0], &mask));
	EXPECT_TRUE(WAIT_FOR(CPU_ISSET(task_cpu(pid[0]), &mask)));
	if (self->t.nr_cpus > 1) {
		long asked = asked_to_wake(self->quiet);
		long followed = cg_count(self->quiet, "hint_scan_followed");

		EXPECT_TRUE(WAIT_FOR(asked_to_wake(self->quiet) > asked + 10));
		EXPECT_TRUE(WAIT_FOR(cg_count(self->quiet, "hint_scan_followed") >
				     followed + 10));
		EXPECT_TRUE(CPU_ISSET(task_cpu(pid[0]), &mask));
	}
	task_kill(pid[0]);

	/* the last user takes the key with it */
	EXPECT_EQ(0, cg_destroy(self->top));
	EXPECT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "hint_users") == 0 &&
			     file_key(STEER_DEBUG, "hint_key") == 0));
	EXPECT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_arenas") == 0 &&
			     file_key(STEER_DEBUG, "headroom_key") == 0));
	EXPECT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_users") == 0 &&
			     file_key(GANG_DEBUG, "gang_key") == 0));
}

STEER_MAIN
