// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.gang: its files and their hierarchy, and whether the members of a gang run
 * together, get what their weight says, and let others live.
 *
 * Members are busy loops, as they are in a program that spins at a barrier. What is
 * together is read from the kernel's trace events; shares and delays are judged by
 * the CPU time that it accounted, which the speed of an emulated machine does not
 * change.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <linux/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define GANG_DEBUG	"/sys/kernel/debug/sched/steer_gang"
#define BASE_SLICE	"/sys/kernel/debug/sched/base_slice_ns"
#define MAX_GANG	8

FIXTURE(gang) {
	struct topo t;
	char *top, *a, *b, *h;
	/* CPUs to run on: at most MAX_GANG of an LLC, but not the machine's first */
	cpu_set_t cpus;
	int nr;
	struct hogs hogs[3];
	struct wakee w;
	struct trace tr;
	char base_slice[32];
	bool stuck;
};

static bool has_gang(const char *cg)
{
	char *file = cg_name(cg, "cpu.gang");
	bool has = !access(file, F_OK);

	free(file);
	return has;
}

FIXTURE_SETUP(gang)
{
	cpu_set_t llc;

	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_gang");
	ASSERT_NE(NULL, self->top);
	ASSERT_TRUE(has_gang(self->top));
	self->a = cg_new(self->top, "a");
	self->b = cg_new(self->top, "b");
	self->h = cg_new(self->top, "h");
	ASSERT_TRUE(self->a && self->b && self->h);

	llc = self->t.llc[self->t.nr_llcs - 1];
	CPU_ZERO(&self->cpus);
	for (int cpu = STEER_MAX_CPUS - 1; cpu > 0; cpu--)
		if (CPU_ISSET(cpu, &llc) && cpu != cpuset_nth(&self->t.cpus, 0) &&
		    CPU_COUNT(&self->cpus) < MAX_GANG)
			CPU_SET(cpu, &self->cpus);
	self->nr = CPU_COUNT(&self->cpus);
}

FIXTURE_TEARDOWN(gang)
{
	trace_stop(&self->tr);
	wakee_stop(&self->w);
	for (size_t i = 0; i < 3; i++)
		hogs_stop(&self->hogs[i]);
	if (self->base_slice[0])
		file_write(BASE_SLICE, self->base_slice, strlen(self->base_slice));
	EXPECT_FALSE(self->stuck)
		TH_LOG("busy loops got no CPU time for %d s", WAIT_SECONDS);
	EXPECT_EQ(0, cg_destroy(self->top));
}

#define REQUIRE_CPUS(n) do {						\
	if (self->nr < (n))						\
		SKIP(return, "needs an LLC with %d CPUs besides the first, has %d", \
		     (n), self->nr);					\
} while (0)

/* A busy loop on each CPU of the test, in @cg */
static int hogs_in(FIXTURE_DATA(gang) *self, int i, const char *cg)
{
	int ret = hogs_start(&self->hogs[i], cg, &self->cpus, 0);

	return ret ? ret : hogs_run(&self->hogs[i]);
}

static uint64_t hogs_ns(const struct hogs *h)
{
	uint64_t sum = 0;

	for (int i = 0; i < h->nr; i++)
		sum += task_cpu_ns(h->hog[i].pid);
	return sum;
}

static uint64_t all_hogs_ns(FIXTURE_DATA(gang) *self)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < 3; i++)
		sum += hogs_ns(&self->hogs[i]);
	return sum;
}

/* Let all hogs together use @ms milliseconds of CPU time on each CPU. Else the test fails. */
static void hogs_use(FIXTURE_DATA(gang) *self, long ms)
{
	uint64_t now = all_hogs_ns(self), end = now + ms * 1000000ULL * self->nr, before;

	while (now < end && !self->stuck) {
		before = now;
		self->stuck = !WAIT_FOR((now = all_hogs_ns(self)) > before);
		usleep(10000);
	}
}

/* How many slots a leads while all hogs together use @ms milliseconds on each CPU */
static long slots_in(FIXTURE_DATA(gang) *self, long ms)
{
	long led = cg_stat(self->a, "gang_slots_led");

	hogs_use(self, ms);
	return cg_stat(self->a, "gang_slots_led") - led;
}

/*
 * Requests of 20 ms, which is the most that a slot can be: so it is that, whatever the
 * tick. What they were is put back when the test ends.
 */
static int use_long_slots(FIXTURE_DATA(gang) *self)
{
	if (file_read(BASE_SLICE, self->base_slice, sizeof(self->base_slice)) <= 0)
		return -1;
	return file_write(BASE_SLICE, "20000000", 8);
}

/* ------------------------------------------------------------------ files */

/* What is written is read back, and what is not understood changes nothing. */
TEST_F(gang, values)
{
	EXPECT_TRUE(cg_is(self->a, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.scope", "llc"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "0"));

	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "1\n"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "1 llc"));
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "1"));

	EXPECT_EQ(-ERANGE, cg_write(self->a, "cpu.gang", "2"));
	EXPECT_EQ(-ERANGE, cg_write(self->a, "cpu.gang", "-1"));
	EXPECT_EQ(-ERANGE, cg_write(self->a, "cpu.gang", "99999999999999999999"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang", "yes"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang", "1 llc"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang", "\n"));
	EXPECT_EQ(-EINVAL, cg_write_len(self->a, "cpu.gang", "0\0x", 3));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "1 llc"));

	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", " 0 "));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "0"));
	EXPECT_NE(0, cg_write(self->a, "cpu.gang.effective", "1"));
}

TEST_F(gang, scopes)
{
	static const char * const words[] = { "core", "llc", "node", "system" };
	char buf[32];

	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	for (size_t i = 0; i < 4; i++) {
		EXPECT_EQ(0, cg_write(self->a, "cpu.gang.scope", words[i]));
		EXPECT_TRUE(cg_is(self->a, "cpu.gang.scope", words[i]));
		snprintf(buf, sizeof(buf), "1 %s", words[i]);
		EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", buf));
	}
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang.scope", "socket"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang.scope", "core llc"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang.scope", "\n"));
	EXPECT_EQ(-EINVAL, cg_write(self->a, "cpu.gang.scope", "1"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.scope", "system"));

	/* the scope stays when the gang goes */
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.scope", "system"));
}

TEST_F(gang, not_on_root)
{
	EXPECT_FALSE(has_gang(CG_ROOT));
	EXPECT_NE(0, access(CG_ROOT "/cpu.gang.scope", F_OK));
	EXPECT_NE(0, access(CG_ROOT "/cpu.gang.effective", F_OK));
}

/*
 *	a		1 node
 *	  sub		1 core
 *	    low		1
 *
 * The topmost that says 1 makes the gang.
 */
TEST_F(gang, nesting)
{
	char *sub, *low;

	ASSERT_EQ(0, cg_enable(self->a, "+cpu"));
	sub = cg_new(self->a, "sub");
	ASSERT_NE(NULL, sub);
	ASSERT_EQ(0, cg_enable(sub, "+cpu"));
	low = cg_new(sub, "low");
	ASSERT_NE(NULL, low);

	EXPECT_EQ(0, cg_write(low, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 llc"));
	EXPECT_EQ(0, cg_write(sub, "cpu.gang.scope", "core"));
	EXPECT_EQ(0, cg_write(sub, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 core"));
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang.scope", "node"));
	EXPECT_TRUE(cg_is(sub, "cpu.gang.effective", "1 node"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 node"));

	/* what they say themselves is kept, and has no effect */
	EXPECT_TRUE(cg_is(sub, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(sub, "cpu.gang.scope", "core"));
	EXPECT_EQ(0, cg_write(sub, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(sub, "cpu.gang.effective", "1 node"));
	EXPECT_EQ(0, cg_write(sub, "cpu.gang", "1"));
	EXPECT_EQ(0, cg_write(low, "cpu.gang.scope", "system"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 node"));
	EXPECT_TRUE(cg_is(self->b, "cpu.gang.effective", "0"));

	/* until those above them give up */
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "0"));
	EXPECT_TRUE(cg_is(sub, "cpu.gang.effective", "1 core"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 core"));
	EXPECT_EQ(0, cg_write(sub, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 system"));

	/* a new group is part of its parent's gang */
	EXPECT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	cg_destroy(low);
	free(low);
	low = cg_new(sub, "low");
	ASSERT_NE(NULL, low);
	EXPECT_TRUE(cg_is(low, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(low, "cpu.gang.effective", "1 node"));
	free(low);
	free(sub);
}

/* Below the delegation point a tenant does as it likes, and nothing above it. */
TEST_F(gang, delegation)
{
	int *line = SHARED(int);
	pid_t pid;

	ASSERT_EQ(0, cg_delegate(self->a));
	pid = task_fork(self->a);
	ASSERT_LE(0, pid);
	if (!pid) {
		char *home = cg_name(self->a, "home"), *work = cg_name(self->a, "work");

#define STEP(cond) do { if (!(cond)) { *line = __LINE__; _exit(0); } } while (0)
		STEP(!setresgid(NOBODY, NOBODY, NOBODY));
		STEP(!setresuid(NOBODY, NOBODY, NOBODY));
		STEP(!mkdir(home, 0755) && !mkdir(work, 0755));
		STEP(!cg_enter(home, getpid()));
		STEP(!cg_enable(self->a, "+cpu"));
		STEP(!cg_write(work, "cpu.gang", "1"));
		STEP(!cg_write(work, "cpu.gang.scope", "system"));
		STEP(cg_is(work, "cpu.gang.effective", "1 system"));
		STEP(cg_write(self->a, "cpu.gang", "1") == -EACCES);
		STEP(cg_write(self->a, "cpu.gang.scope", "core") == -EACCES);
		STEP(cg_write(self->b, "cpu.gang", "1") == -EACCES);
		STEP(cg_write(self->top, "cpu.gang", "1") == -EACCES);
		*line = -1;
		_exit(0);
#undef STEP
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(-1, *line)
		TH_LOG("the tenant failed at line %d", *line);
	EXPECT_TRUE(cg_is(self->a, "cpu.gang", "0"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.scope", "llc"));
	EXPECT_TRUE(cg_is(self->b, "cpu.gang.effective", "0"));

	/* the owner can make a gang of all that the tenant has */
	EXPECT_EQ(0, cg_write(self->top, "cpu.gang", "1"));
	EXPECT_TRUE(cg_is(self->a, "cpu.gang.effective", "1 llc"));
}

/* The counters appear with the first 1, and stay. */
TEST_F(gang, stat)
{
	static const char * const keys[] = {
		"gang_slots_led", "gang_ipis", "gang_ipis_empty", "gang_corun_usec",
		"gang_favoured_usec",
	};

	for (size_t i = 0; i < 5; i++)
		EXPECT_EQ(-1, cg_stat(self->a, keys[i]));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	for (size_t i = 0; i < 5; i++)
		EXPECT_EQ(0, cg_stat(self->a, keys[i]));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "0"));
	for (size_t i = 0; i < 5; i++)
		EXPECT_EQ(0, cg_stat(self->a, keys[i]));
}

/* The branches are on while some group says 1, and many groups can. */
TEST_F_TIMEOUT(gang, key_and_many_groups, 120)
{
	char name[16];

	ASSERT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_users") == 0));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	EXPECT_EQ(1, file_key(GANG_DEBUG, "gang_users"));
	EXPECT_EQ(1, file_key(GANG_DEBUG, "gang_key"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	EXPECT_EQ(1, file_key(GANG_DEBUG, "gang_users"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "0"));
	EXPECT_EQ(0, file_key(GANG_DEBUG, "gang_users"));

	ASSERT_EQ(0, cg_enable(self->b, "+cpu"));
	for (int i = 0; i < 200; i++) {
		char *cg;

		snprintf(name, sizeof(name), "n%d", i);
		cg = cg_new(self->b, name);
		ASSERT_NE(NULL, cg);
		ASSERT_EQ(0, cg_write(cg, "cpu.gang", "1"));
		free(cg);
	}
	EXPECT_EQ(200, file_key(GANG_DEBUG, "gang_users"));
	/* a removed group gives up its say, nested or not */
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	cg_destroy(self->b);
	EXPECT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_users") == 0 &&
			     file_key(GANG_DEBUG, "gang_key") == 0));
}

/* -------------------------------------------------------------- mechanism */

/* One stay of a member on a CPU within a slot, from the trace [s] */
struct stay {
	double begin, end;
	unsigned long cgroup;
	int cpu;
};

/*
 * From when a CPU follows, for as long as it then ran: what it did is written down
 * when it leaves, which can be after the end of the slot.
 */
static int stays_read(struct trace *tr, struct stay **stays)
{
	static double begin[STEER_MAX_CPUS];
	char path[PATH_MAX + 16], *line = NULL;
	size_t len = 0, nr = 0, room = 0;
	FILE *f;

	*stays = NULL;
	memset(begin, 0, sizeof(begin));
	snprintf(path, sizeof(path), "%s/trace", tr->dir);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (getline(&line, &len, f) > 0) {
		char *event = strstr(line, ": steer_gang_"), *stamp = event;
		struct stay s;
		double ran;

		if (!event)
			continue;
		*event = '\0';
		while (stamp > line && stamp[-1] != ' ')
			stamp--;
		event += strlen(": steer_gang_");
		if (sscanf(event, "follow: cgroup=%lu cpu=%d", &s.cgroup, &s.cpu) == 2) {
			begin[s.cpu] = strtod(stamp, NULL);
			continue;
		}
		if (sscanf(event, "end: cgroup=%lu cpu=%d ran=%lf", &s.cgroup, &s.cpu,
			   &ran) != 3 || !begin[s.cpu])
			continue;
		s.begin = begin[s.cpu];
		s.end = s.begin + ran / 1e9;
		begin[s.cpu] = 0;
		if (nr == room) {
			room = room ? room * 2 : 1024;
			*stays = realloc(*stays, room * sizeof(s));
			if (!*stays)
				abort();
		}
		(*stays)[nr++] = s;
	}
	free(line);
	fclose(f);
	return nr;
}

struct edge {
	double at;
	int step;
};

static int edge_order(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* For how long did at least @nr CPUs run members of @cgroup at the same time? */
static double together(const struct stay *stays, int count, unsigned long cgroup, int nr)
{
	struct edge *edges = calloc(2 * count, sizeof(*edges));
	double since = 0, sum = 0;
	int n = 0, running = 0;

	for (int i = 0; i < count; i++) {
		if (stays[i].cgroup != cgroup)
			continue;
		edges[n++] = (struct edge){ stays[i].begin, 1 };
		edges[n++] = (struct edge){ stays[i].end, -1 };
	}
	qsort(edges, n, sizeof(*edges), edge_order);
	for (int i = 0; i < n; i++) {
		if (running == nr && edges[i].step < 0)
			sum += edges[i].at - since;
		running += edges[i].step;
		if (running == nr && edges[i].step > 0)
			since = edges[i].at;
	}
	free(edges);
	return sum;
}

static double alone_sum(const struct stay *stays, int count, unsigned long cgroup)
{
	double sum = 0;

	for (int i = 0; i < count; i++)
		if (stays[i].cgroup == cgroup)
			sum += stays[i].end - stays[i].begin;
	return sum;
}

static unsigned long cg_id(const char *cg)
{
	struct stat st;

	return stat(cg, &st) ? 0 : st.st_ino;
}

/*
 *	a, b	gangs, a member on each CPU
 *
 * Two gangs on the same CPUs alternate: while members run in slots, they mostly all
 * do. Chance would bring that about every fourth time with three CPUs. Tracepoints
 * and counters say the same.
 *
 * An emulated CPU that is not run by its host cannot join. So the slots are made as long as
 * they can be, and it is enough if there was one second of CPU time in which they were together.
 */
TEST_F_TIMEOUT(gang, together, 600)
{
	unsigned long led = 0, ipis = 0;
	struct stay *stays = NULL;
	bool good = false;

	REQUIRE_CPUS(2);
	while (self->nr > 3) {
		CPU_CLR(cpuset_nth(&self->cpus, 0), &self->cpus);
		self->nr--;
	}
	ASSERT_EQ(0, use_long_slots(self));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->b));
	hogs_use(self, 500);

	for (int i = 0; i < 40 && !good; i++) {
		double all = 0, each = 0, corun, favoured;
		int count;

		corun = cg_stat(self->a, "gang_corun_usec") +
			cg_stat(self->b, "gang_corun_usec");
		favoured = cg_stat(self->a, "gang_favoured_usec") +
			   cg_stat(self->b, "gang_favoured_usec");
		ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_follow", NULL));
		ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_end", NULL));
		hogs_use(self, 1000);
		count = stays_read(&self->tr, &stays);
		trace_stop(&self->tr);
		corun = cg_stat(self->a, "gang_corun_usec") +
			cg_stat(self->b, "gang_corun_usec") - corun;
		favoured = cg_stat(self->a, "gang_favoured_usec") +
			   cg_stat(self->b, "gang_favoured_usec") - favoured;
		for (int g = 0; g < 2; g++) {
			unsigned long id = cg_id(g ? self->b : self->a);

			all += together(stays, count, id, self->nr);
			each += alone_sum(stays, count, id) / self->nr;
		}
		free(stays);
		TH_LOG("%d CPUs: together for %.3f s, in slots for %.3f s each; counters: %.3f s, %.3f s",
		       self->nr, all, each, corun / 1e6, favoured / 1e6 / self->nr);
		good = each > 0.1 && all > 0.5 * each &&
		       corun > 0.5 * favoured / self->nr;
	}
	EXPECT_TRUE(good);

	for (int g = 0; g < 2; g++) {
		const char *cg = g ? self->b : self->a;

		led = cg_stat(cg, "gang_slots_led");
		ipis = cg_stat(cg, "gang_ipis");
		TH_LOG("slots %lu, IPIs %lu", led, ipis);
		EXPECT_LT(5UL, led);
		/* one round of interrupts for each slot, at most */
		EXPECT_GE(led * (self->nr - 1), ipis);
		/* nobody is favoured for more than the group uses */
		EXPECT_GE(cg_stat(cg, "usage_usec") + 100000,
			  cg_stat(cg, "gang_favoured_usec"));
	}
}

/* Nobody competes: nothing is done. */
TEST_F_TIMEOUT(gang, alone, 300)
{
	long led;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	hogs_use(self, 2000);
	led = cg_stat(self->a, "gang_slots_led");
	TH_LOG("%ld slots, %ld IPIs", led, cg_stat(self->a, "gang_ipis"));
	/* a kernel thread may happen to be runnable when a member is picked */
	EXPECT_GE(2000 / 3 / 10, led);
}

/*
 *	a	gang, a member on each CPU
 *	h	busy loops on two CPUs, then on one
 *
 * A member that has its CPU to itself does not keep the others from being together,
 * and where only one has to compete, there is nobody to start.
 */
TEST_F_TIMEOUT(gang, contested, 300)
{
	cpu_set_t some;
	long led, corun;

	REQUIRE_CPUS(3);
	CPU_ZERO(&some);
	CPU_SET(cpuset_nth(&self->cpus, 0), &some);
	CPU_SET(cpuset_nth(&self->cpus, 1), &some);
	ASSERT_EQ(0, use_long_slots(self));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_start(&self->hogs[1], self->h, &some, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[1]));
	hogs_use(self, 300);
	corun = cg_stat(self->a, "gang_corun_usec");
	EXPECT_TRUE(WAIT_FOR(cg_stat(self->a, "gang_corun_usec") > corun + 50000));

	hogs_stop(&self->hogs[1]);
	CPU_CLR(cpuset_nth(&self->cpus, 1), &some);
	ASSERT_EQ(0, hogs_start(&self->hogs[1], self->h, &some, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[1]));
	led = slots_in(self, 2000);
	TH_LOG("%ld slots with one CPU to compete for", led);
	/* of 50; a kernel thread may happen to be runnable when a member is picked */
	EXPECT_GE(10, led);
}

/*
 *	a	gang of the system, members on CPUs of one LLC
 *	b	gang of an LLC, members on those of another one
 *	h	busy loops on all of these
 *
 * The slot of a is no reason for b to have none, and b's interrupts do not make it look
 * as if a's members were asleep.
 */
TEST_F_TIMEOUT(gang, side_by_side, 300)
{
	cpu_set_t far = self->t.llc[0], both;
	long sent = 0, empty = 0, led = 0;

	REQUIRE_CPUS(2);
	CPU_CLR(cpuset_nth(&self->t.cpus, 0), &far);
	if (self->t.nr_llcs < 2 || CPU_COUNT(&far) < 2)
		SKIP(return, "needs two LLCs with two CPUs besides the first");
	CPU_OR(&both, &far, &self->cpus);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_start(&self->hogs[0], self->a, &far, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[0]));
	ASSERT_EQ(0, hogs_in(self, 1, self->b));
	ASSERT_EQ(0, hogs_start(&self->hogs[2], self->h, &both, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[2]));
	hogs_use(self, 500);

	for (int i = 0; i < 40 && (sent < 20 || led < 20); i++) {
		hogs_use(self, 500);
		sent = cg_stat(self->b, "gang_ipis");
		led = cg_stat(self->a, "gang_slots_led");
		empty = cg_stat(self->a, "gang_ipis_empty");
	}
	TH_LOG("a: %ld slots, %ld IPIs, %ld found nothing; b: %ld slots, %ld IPIs, %ld found nothing",
	       led, cg_stat(self->a, "gang_ipis"), empty, cg_stat(self->b, "gang_slots_led"), sent,
	       cg_stat(self->b, "gang_ipis_empty"));
	EXPECT_LE(20, sent);
	EXPECT_LE(20, led);
	/* nobody sleeps here */
	EXPECT_GE(2 + cg_stat(self->a, "gang_ipis") / 10, empty);
}

/* For how long did members of both run in slots at the same time? */
static double overlapping(const struct stay *stays, int count, unsigned long a, unsigned long b)
{
	struct edge *edges = calloc(2 * count, sizeof(*edges));
	double since = 0, sum = 0;
	int n = 0, running[2] = { 0, 0 };

	for (int i = 0; i < count; i++) {
		int of_b = stays[i].cgroup == b;

		if (!of_b && stays[i].cgroup != a)
			continue;
		/* b's steps are twice as large */
		edges[n++] = (struct edge){ stays[i].begin, 1 + of_b };
		edges[n++] = (struct edge){ stays[i].end, -1 - of_b };
	}
	qsort(edges, n, sizeof(*edges), edge_order);
	for (int i = 0; i < n; i++) {
		if (running[0] > 0 && running[1] > 0)
			sum += edges[i].at - since;
		running[abs(edges[i].step) - 1] += edges[i].step > 0 ? 1 : -1;
		since = edges[i].at;
	}
	free(edges);
	return sum;
}

/*
 *	a, b	gangs of the system, with cpusets
 *	h	busy loops on the CPUs of both
 *
 * While both may use all CPUs they have slots by turns, and where no CPU is common to them
 * they need not. They take turns again when there is one.
 */
TEST_F_TIMEOUT(gang, parts, 600)
{
	cpu_set_t half[2], all;
	struct stay *stays;
	double both[2], of_a;
	int count, cpus;
	char list[64];

	/* the machine's first CPU can be one of them here: it is not about what is late */
	all = self->t.cpus;
	cpus = (CPU_COUNT(&all) < MAX_GANG ? CPU_COUNT(&all) : MAX_GANG) / 2;
	if (cpus < 2)
		SKIP(return, "needs four CPUs");
	for (int i = 0; i < 2; i++) {
		CPU_ZERO(&half[i]);
		for (int n = 0; n < cpus; n++)
			CPU_SET(cpuset_nth(&all, i * cpus + n), &half[i]);
	}
	CPU_OR(&all, &half[0], &half[1]);
	ASSERT_EQ(0, cg_enable(self->top, "+cpuset"));
	ASSERT_EQ(0, use_long_slots(self));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_start(&self->hogs[0], self->a, &half[0], 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[0]));
	ASSERT_EQ(0, hogs_start(&self->hogs[1], self->b, &half[1], 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[1]));
	ASSERT_EQ(0, hogs_start(&self->hogs[2], self->h, &all, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs[2]));

	for (int divided = 0; divided < 2; divided++) {
		if (divided) {
			cpulist_format(&half[0], list, sizeof(list));
			ASSERT_EQ(0, cg_write(self->a, "cpuset.cpus", list));
			cpulist_format(&half[1], list, sizeof(list));
			ASSERT_EQ(0, cg_write(self->b, "cpuset.cpus", list));
		}
		EXPECT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_parts_system") == 2 * divided));
		hogs_use(self, 300);
		ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_follow", NULL));
		ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_end", NULL));
		hogs_use(self, 4000);
		count = stays_read(&self->tr, &stays);
		trace_stop(&self->tr);
		ASSERT_LT(0, count);
		both[divided] = overlapping(stays, count, cg_id(self->a), cg_id(self->b));
		of_a = alone_sum(stays, count, cg_id(self->a)) / cpus;
		free(stays);
		TH_LOG("%s: a in slots for %.0f ms a CPU, both at once for %.0f ms",
		       divided ? "cpusets without a common CPU" : "all CPUs", of_a * 1000,
		       both[divided] * 1000);
		EXPECT_LT(0.2, of_a);
	}
	/* a stay can be read as longer than it was by what a switch takes */
	EXPECT_GT(0.1, both[0]);
	EXPECT_LT(0.2, both[1]);

	/* one CPU in common */
	CPU_SET(cpuset_nth(&half[0], 0), &half[1]);
	cpulist_format(&half[1], list, sizeof(list));
	ASSERT_EQ(0, cg_write(self->b, "cpuset.cpus", list));
	EXPECT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_parts_system") == 0));
}

/* Shares of @a and @h while both have a hog on each CPU, as accounted [%] */
static double share(FIXTURE_DATA(gang) *self, long ms)
{
	long a = cg_stat(self->a, "usage_usec"), h = cg_stat(self->h, "usage_usec");

	hogs_use(self, ms);
	a = cg_stat(self->a, "usage_usec") - a;
	h = cg_stat(self->h, "usage_usec") - h;
	return 100.0 * a / (a + h);
}

/*
 *	a	gang, weight 50, 100, 300
 *	h	busy loops, weight 100
 *
 * A gang gets what its weight says, no less and no more.
 */
TEST_F_TIMEOUT(gang, share, 600)
{
	static const struct {
		const char *weight;
		double expected;
	} cases[] = { { "50", 33.3 }, { "100", 50 }, { "300", 75 } };
	double got;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(0, cg_write(self->a, "cpu.weight", cases[i].weight));
		hogs_use(self, 300);
		got = share(self, 3000);
		TH_LOG("weight %s: %.1f %%, expected %.1f %%", cases[i].weight, got,
		       cases[i].expected);
		/* emulated CPUs come and go, and PELT averages with them */
		EXPECT_GT(4, got - cases[i].expected);
		EXPECT_LT(-4, got - cases[i].expected);
	}
	EXPECT_LT(0, cg_stat(self->a, "gang_slots_led"));
}

static int long_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * The CPU time that @a's and @b's members on the last CPU got between a wakeup there
 * and when the sleeper ran: what it is at most in nine of ten wakeups
 */
static uint64_t members_before_sleeper(FIXTURE_DATA(gang) *self)
{
	pid_t a = self->hogs[0].hog[self->nr - 1].pid;
	pid_t b = self->hogs[1].hog[self->nr - 1].pid;
	uint64_t waited[60];
	int nr = 60;

	for (int i = 0; i < nr; i++) {
		uint64_t before;

		if (wakee_settle(&self->w))
			return UINT64_MAX;
		before = task_cpu_ns(a) + task_cpu_ns(b);
		if (wakee_wake(&self->w, NULL))
			return UINT64_MAX;
		waited[i] = task_cpu_ns(a) + task_cpu_ns(b) - before;
		usleep(3000);
	}
	qsort(waited, nr, sizeof(waited[0]), long_order);
	return waited[nr * 9 / 10];
}

/*
 *	a	gang of spinners
 *	b	another one
 *	h	a sleeper on one of their CPUs
 *
 * A slot, and not more, is what the sleeper waits longer than without gangs. It is woken up
 * at any time in a slot, so half of its waits would be shorter than that even if slots were
 * twice as long: the long ones tell. The request is as long as a slot can be, and so is the
 * slot then, whatever the tick.
 *
 * On a machine whose CPUs come and go, some tries are worse than that, with and without:
 * the best ones are compared.
 */
TEST_F_TIMEOUT(gang, sleeper, 600)
{
	const uint64_t slot = 20000000;
	uint64_t without = UINT64_MAX, with = UINT64_MAX, waited;
	cpu_set_t mask;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, use_long_slots(self));
	mask = cpuset_one(cpuset_nth(&self->cpus, self->nr - 1));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->b));
	ASSERT_EQ(0, wakee_start(&self->w, self->h, &mask));

	hogs_use(self, 100);
	for (int i = 0; i < 4; i++) {
		waited = members_before_sleeper(self);
		ASSERT_NE(UINT64_MAX, waited);
		TH_LOG("without gangs members ran for %.1f ms before the sleeper", waited / 1e6);
		without = waited < without ? waited : without;
	}
	/* Less than most of a request is luck: few came early in one. */
	if (without < slot * 3 / 4)
		without = slot * 3 / 4;
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	hogs_use(self, 100);
	for (int i = 0; i < 8 && with > without + slot; i++) {
		waited = members_before_sleeper(self);
		ASSERT_NE(UINT64_MAX, waited);
		TH_LOG("with gangs for %.1f ms", waited / 1e6);
		with = waited < with ? waited : with;
	}
	EXPECT_GE(without + slot, with);
	EXPECT_LT(0, cg_stat(self->a, "gang_slots_led"));
}

/*
 *	a	gang, two members on each CPU
 *	h	busy loops
 *
 * More members than CPUs, all pinned: everybody gets on, within its group's share.
 */
TEST_F_TIMEOUT(gang, more_members_than_cpus, 300)
{
	double got;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->a));
	ASSERT_EQ(0, hogs_in(self, 2, self->h));
	hogs_use(self, 300);
	got = share(self, 2000);
	TH_LOG("%.1f %%", got);
	EXPECT_GT(55, got);
	EXPECT_LT(45, got);
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(hogs_get_on(&self->hogs[i], 50));
}

/* Busy loops that may run on all CPUs of the test */
static int spin_start(FIXTURE_DATA(gang) *self, const char *cg, pid_t *pid, int nr)
{
	for (int i = 0; i < nr; i++) {
		pid[i] = task_fork(cg);
		if (pid[i] < 0)
			return -errno;
		if (!pid[i]) {
			if (task_pin(0, &self->cpus))
				_exit(1);
			for (volatile unsigned long n = 0; ; n++)
				;
		}
	}
	return 0;
}

/* CPUs go off and on under a gang, its leaders' among them. */
TEST_F_TIMEOUT(gang, hotplug, 300)
{
	pid_t pid[2][MAX_GANG] = { };

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, spin_start(self, self->a, pid[0], self->nr));
	ASSERT_EQ(0, spin_start(self, self->b, pid[1], self->nr));
	ASSERT_TRUE(WAIT_FOR(cg_stat(self->a, "gang_slots_led") > 0 &&
			     cg_stat(self->b, "gang_slots_led") > 0));
	for (int i = 0; i < 3 * (self->nr - 1); i++) {
		int cpu = cpuset_nth(&self->cpus, 1 + i % (self->nr - 1));

		EXPECT_EQ(0, cpu_set_online(cpu, false));
		usleep(20000);
		EXPECT_EQ(0, cpu_set_online(cpu, true));
	}
	for (int i = 0; i < 2; i++) {
		long led = cg_stat(i ? self->b : self->a, "gang_slots_led");

		EXPECT_TRUE(WAIT_FOR(cg_stat(i ? self->b : self->a,
					     "gang_slots_led") > led)) {
			for (int j = 0; j < self->nr; j++)
				TH_LOG("members on CPUs %d, %d", task_cpu(pid[0][j]),
				       task_cpu(pid[1][j]));
		}
	}
	for (int j = 0; j < self->nr; j++) {
		task_kill(pid[0][j]);
		task_kill(pid[1][j]);
	}
}

/* A throttled gang keeps to its limit, and the others get the rest. */
TEST_F_TIMEOUT(gang, throttled, 300)
{
	double got;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.max", "50000 500000"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	hogs_use(self, 300);
	got = share(self, 3000);
	TH_LOG("%.1f %% of %d CPUs, throttled %ld times", got, self->nr,
	       cg_stat(self->a, "nr_throttled"));
	EXPECT_LT(0, cg_stat(self->a, "nr_throttled"));
	EXPECT_GT(20, got);
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 10));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
}

/*
 *	a	gang that may run for less than a slot in each tenth of a second
 *	h	busy loops
 *
 * Members that are throttled in the middle of each slot did not go to sleep: the gang is
 * not left alone for it, but has slots in many of these periods: else, in one of twelve.
 */
TEST_F_TIMEOUT(gang, throttled_awake, 300)
{
	long led, periods;
	char max[32];

	REQUIRE_CPUS(2);
	while (self->nr > 3) {
		CPU_CLR(cpuset_nth(&self->cpus, 0), &self->cpus);
		self->nr--;
	}
	ASSERT_EQ(0, use_long_slots(self));
	/* 5 ms for each CPU, which is what one takes at a time */
	snprintf(max, sizeof(max), "%d 100000", self->nr * 5000);
	ASSERT_EQ(0, cg_write(self->a, "cpu.max", max));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	ASSERT_TRUE(WAIT_FOR(cg_stat(self->a, "nr_throttled") > 20));
	led = cg_stat(self->a, "gang_slots_led");
	periods = cg_stat(self->a, "nr_throttled");
	EXPECT_TRUE(WAIT_FOR(cg_stat(self->a, "nr_throttled") >= periods + 60));
	periods = cg_stat(self->a, "nr_throttled") - periods;
	led = cg_stat(self->a, "gang_slots_led") - led;
	TH_LOG("%ld slots, throttled in %ld periods", led, periods);
	/* Not always are members on two CPUs let go at the same time. */
	EXPECT_LE(periods / 5, led);
}

/*
 *	a	gang that leaves half of its CPUs' time for b
 *	b	asleep, with a headroom
 *	h	busy loops
 *
 * What is held back by a headroom is so in slots, too, and there are slots nevertheless.
 */
TEST_F_TIMEOUT(gang, headroom, 300)
{
	double used, begin;
	char list[64];
	pid_t pid;
	long led;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_enable(self->top, "+cpuset"));
	cpulist_format(&self->cpus, list, sizeof(list));
	ASSERT_EQ(0, cg_write(self->a, "cpuset.cpus", list));
	ASSERT_EQ(0, cg_write(self->h, "cpuset.cpus", list));
	pid = task_sleep(self->b);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, cg_write(self->b, "cpu.headroom", "50"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	hogs_use(self, 300);
	used = cg_stat(self->a, "usage_usec") + cg_stat(self->h, "usage_usec");
	begin = now_s();
	led = slots_in(self, 2000);
	used = cg_stat(self->a, "usage_usec") + cg_stat(self->h, "usage_usec") - used;
	used /= (now_s() - begin) * 1e6 * self->nr;
	TH_LOG("%.0f %% of the CPUs in use, %ld slots", 100 * used, led);
	EXPECT_GT(0.7, used);
	EXPECT_LT(5, led);
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
	task_kill(pid);
}

/*
 *	a	gang, a member on each CPU
 *	b	gang, members on two of them
 *
 * Gangs of different sizes share the CPUs that both are on, as their weights say, which each
 * has divided among the CPUs that it is on.
 */
TEST_F_TIMEOUT(gang, sizes, 300)
{
	cpu_set_t some, rest;
	double got, due;
	uint64_t a, b;

	REQUIRE_CPUS(3);
	CPU_ZERO(&some);
	CPU_SET(cpuset_nth(&self->cpus, 0), &some);
	CPU_SET(cpuset_nth(&self->cpus, 1), &some);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	rest = cpuset_minus(self->cpus, some);
	ASSERT_EQ(0, hogs_start(&self->hogs[0], self->a, &some, 0));
	ASSERT_EQ(0, hogs_start(&self->hogs[1], self->b, &some, 0));
	ASSERT_EQ(0, hogs_start(&self->hogs[2], self->a, &rest, 0));
	for (size_t i = 0; i < 3; i++)
		ASSERT_EQ(0, hogs_run(&self->hogs[i]));
	hogs_use(self, 300);
	a = hogs_ns(&self->hogs[0]);
	b = hogs_ns(&self->hogs[1]);
	hogs_use(self, 3000);
	a = hogs_ns(&self->hogs[0]) - a;
	b = hogs_ns(&self->hogs[1]) - b;
	got = 100.0 * b / (a + b);
	due = 100.0 * self->nr / (self->nr + 2);
	TH_LOG("%.1f %% of the two CPUs, expected %.1f %%; %ld and %ld slots", got, due,
	       cg_stat(self->a, "gang_slots_led"), cg_stat(self->b, "gang_slots_led"));
	EXPECT_GT(due + 5, got);
	EXPECT_LT(due - 5, got);
	EXPECT_LT(5, cg_stat(self->a, "gang_slots_led") + cg_stat(self->b, "gang_slots_led"));
}

/*
 *	a	gang whose members work for a part of a slot, and sleep; then of busy loops
 *	h	busy loops
 *
 * Who sleeps before the slot is over does not need the others: such a gang has ever less slots.
 */
TEST_F_TIMEOUT(gang, asleep, 300)
{
	pid_t pid[MAX_GANG];
	long asleep, awake;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, use_long_slots(self));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	for (int i = 0; i < self->nr; i++) {
		pid[i] = task_cycle(self->a, cpuset_nth(&self->cpus, i), 3000, 3000);
		ASSERT_LT(0, pid[i]);
	}
	hogs_use(self, 500);
	asleep = slots_in(self, 3000);
	for (int i = 0; i < self->nr; i++)
		task_kill(pid[i]);
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	hogs_use(self, 500);
	awake = slots_in(self, 3000);
	TH_LOG("%ld slots for members that sleep, %ld for those that do not", asleep, awake);
	EXPECT_LT(2 * asleep, awake);
}

/* A gang in an idle group gives way as others do. */
TEST_F_TIMEOUT(gang, idle_group, 300)
{
	double got;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.idle", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	hogs_use(self, 300);
	got = share(self, 2000);
	TH_LOG("%.1f %%", got);
	EXPECT_GT(5, got);
	EXPECT_EQ(0, cg_stat(self->a, "gang_slots_led"));
	/* To die a task has to run, which beside others may take minutes after a late tick. */
	hogs_stop(&self->hogs[1]);
}

static bool one_each(FIXTURE_DATA(gang) *self, const pid_t *pid)
{
	cpu_set_t seen;

	CPU_ZERO(&seen);
	for (int i = 0; i < self->nr; i++)
		CPU_SET(task_cpu(pid[i]), &seen);
	return CPU_EQUAL(&seen, &self->cpus);
}

/*
 *	a	gang, as many members as CPUs, free to move
 *	h	a busy loop on each CPU
 *
 * One member comes to each CPU, although all have as much to do, and stays there.
 */
TEST_F_TIMEOUT(gang, placement, 300)
{
	pid_t pid[MAX_GANG] = { };
	uint64_t end;
	int seen = 0, alone = 0;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 1, self->h));
	ASSERT_EQ(0, spin_start(self, self->a, pid, self->nr));
	EXPECT_TRUE(WAIT_FOR(one_each(self, pid)));
	for (end = task_cpu_ns(pid[0]) + 500000000ULL; task_cpu_ns(pid[0]) < end; seen++) {
		alone += one_each(self, pid);
		usleep(10000);
	}
	TH_LOG("one member on each CPU in %d of %d looks", alone, seen);
	EXPECT_LT(seen * 3 / 4, alone);
	for (int i = 0; i < self->nr; i++)
		task_kill(pid[i]);
}

/* The first one of the gang starts the others; where each of them begins is in @cpus. */
static pid_t family_start(const char *cg, int *cpus, int nr)
{
	pid_t pid = task_fork(cg), child = 1;

	if (pid)
		return pid;
	for (int i = 0; i < nr && child; i++) {
		if (i)
			child = fork();
		if (child < 0)
			_exit(1);
		if (!i || !child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			__atomic_store_n(&cpus[i], sched_getcpu() + 1, __ATOMIC_SEQ_CST);
		}
		/* The next one finds it running. */
		while (i && child && !__atomic_load_n(&cpus[i], __ATOMIC_SEQ_CST))
			;
	}
	for (volatile unsigned long n = 0; ; n++)
		;
}

/*
 *	a	gang of the system, as many members as cores, or MAX_GANG
 *
 * Where nobody else runs, each member begins on a core of its own.
 */
TEST_F_TIMEOUT(gang, idle_cores, 300)
{
	int *cpus = shared_alloc(MAX_GANG * sizeof(*cpus)), nr = self->t.nr_cpus / self->t.smt;
	bool good = false;

	if (self->t.smt < 2 || nr < 3)
		SKIP(return, "needs three cores of two threads");
	nr = nr < MAX_GANG ? nr : MAX_GANG;
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	/* A CPU may be busy with something else at that moment. */
	for (int i = 0; i < 10 && !good; i++) {
		cpu_set_t cores;
		pid_t pid;

		memset(cpus, 0, MAX_GANG * sizeof(*cpus));
		CPU_ZERO(&cores);
		pid = family_start(self->a, cpus, nr);
		ASSERT_LT(0, pid);
		ASSERT_TRUE(WAIT_FOR(__atomic_load_n(&cpus[nr - 1], __ATOMIC_SEQ_CST)));
		for (int j = 0; j < nr; j++)
			CPU_SET(cpuset_nth(&self->t.core[cpus[j] - 1], 0), &cores);
		TH_LOG("%d members began on %d cores", nr, CPU_COUNT(&cores));
		good = CPU_COUNT(&cores) == nr;
		task_kill(pid);
		EXPECT_TRUE(WAIT_FOR(cg_is(self->a, "cgroup.procs", "")));
	}
	EXPECT_TRUE(good);
}

/*
 *	a	gang, a member on each CPU
 *	b	a task on the last CPU that sleeps most of the time, and outweighs all others
 *	h	as many busy loops as CPUs, free to move
 *
 * For the load balancer the last CPU is the busiest, and no place for the loops. But
 * while that task sleeps, a member has it to itself even in the others' slot: a loop that
 * waits beside another one comes there.
 */
TEST_F_TIMEOUT(gang, others_apart, 300)
{
	pid_t pid[MAX_GANG] = { }, heavy;
	int last, seen = 0, used = 0;
	uint64_t end;

	REQUIRE_CPUS(3);
	last = cpuset_nth(&self->cpus, self->nr - 1);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.weight", "10000"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	heavy = task_cycle(self->b, last, 5000, 15000);
	ASSERT_LT(0, heavy);
	ASSERT_EQ(0, spin_start(self, self->h, pid, self->nr));
	hogs_use(self, 200);
	for (end = task_cpu_ns(pid[0]) + 500000000ULL; task_cpu_ns(pid[0]) < end; seen++) {
		bool there = false;

		for (int i = 0; i < self->nr; i++)
			there |= task_cpu(pid[i]) == last;
		used += there;
		usleep(5000);
	}
	TH_LOG("a loop beside the last member in %d of %d looks", used, seen);
	/* Where the load balancer takes it away each time; alone, it never brings one. */
	EXPECT_LT(seen / 10, used);
	for (int i = 0; i < self->nr; i++)
		task_kill(pid[i]);
	task_kill(heavy);
}

/* Groups are removed, stop and change their scope in the middle of slots. */
TEST_F_TIMEOUT(gang, removal, 300)
{
	static const char * const scopes[] = { "core", "llc", "node", "system" };

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 1, self->b));
	for (int i = 0; i < 8; i++) {
		char *cg = cg_new(self->top, "gone");

		ASSERT_NE(NULL, cg);
		ASSERT_EQ(0, cg_write(cg, "cpu.gang.scope", scopes[i % 4]));
		ASSERT_EQ(0, cg_write(cg, "cpu.gang", "1"));
		ASSERT_EQ(0, hogs_in(self, 0, cg));
		hogs_use(self, 30);
		ASSERT_EQ(0, cg_write(cg, "cpu.gang.scope", scopes[(i + 1) % 4]));
		hogs_use(self, 30);
		if (i % 2)
			ASSERT_EQ(0, cg_write(cg, "cpu.gang", "0"));
		cg_destroy(cg);
		EXPECT_NE(0, access(cg, F_OK));
		hogs_stop(&self->hogs[0]);
		free(cg);
	}
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
	/* Groups end some time after they were removed. */
	EXPECT_TRUE(WAIT_FOR(file_key(GANG_DEBUG, "gang_users") == 1));
}

/* A cookie of their own for all of them. Negative errno on failure. */
static int core_cookie(const struct hogs *h)
{
	int ret = 0;

	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, h->hog[0].pid,
		  PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0) ||
	    prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_FROM, h->hog[0].pid,
		  PR_SCHED_CORE_SCOPE_THREAD, 0))
		return -errno;
	for (int i = 1; i < h->nr; i++)
		if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_TO, h->hog[i].pid,
			  PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0))
			ret = -errno;
	/* and none for this process again */
	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_SHARE_FROM, 1, PR_SCHED_CORE_SCOPE_THREAD, 0))
		ret = -errno;
	return ret;
}

/*
 *	a	gang, a member on each CPU, with a cookie
 *	h	busy loops, with another
 *
 * With core scheduling, the threads of a core never run both: the pick for a core
 * has the last word. There are slots nevertheless, now and then with all members, and
 * everybody has his share.
 */
TEST_F_TIMEOUT(gang, core_scheduling, 300)
{
	long before, corun;
	double got;

	REQUIRE_CPUS(2);
	if (self->t.smt < 2)
		SKIP(return, "needs SMT");
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_start(&self->hogs[0], self->a, &self->cpus, 0));
	ASSERT_EQ(0, hogs_start(&self->hogs[1], self->h, &self->cpus, 0));
	if (core_cookie(&self->hogs[0]))
		SKIP(return, "this kernel has no core scheduling");
	ASSERT_EQ(0, core_cookie(&self->hogs[1]));
	ASSERT_EQ(0, hogs_run(&self->hogs[0]));
	ASSERT_EQ(0, hogs_run(&self->hogs[1]));
	hogs_use(self, 300);
	before = cg_stat(self->a, "gang_corun_usec");
	got = share(self, 2000);
	corun = cg_stat(self->a, "gang_corun_usec") - before;
	TH_LOG("%.1f %%, together for %ld us, %ld slots, favoured for %ld us", got, corun,
	       cg_stat(self->a, "gang_slots_led"), cg_stat(self->a, "gang_favoured_usec"));
	EXPECT_GT(65, got);
	EXPECT_LT(35, got);
	EXPECT_LT(0, cg_stat(self->a, "gang_slots_led"));
	/* On a machine that stands still now and then, it may take longer. */
	EXPECT_TRUE(WAIT_FOR(cg_stat(self->a, "gang_corun_usec") > before));
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
}

/* A real-time task takes its CPU at once, for as long as it wants. */
TEST_F_TIMEOUT(gang, realtime, 300)
{
	struct sched_param param = { .sched_priority = 1 };
	int cpu, last;
	uint64_t ran, members;
	pid_t pid;

	REQUIRE_CPUS(2);
	last = self->nr - 1;
	cpu = cpuset_nth(&self->cpus, last);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a));
	ASSERT_EQ(0, hogs_in(self, 1, self->b));
	ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_end", NULL));
	pid = task_fork(NULL);
	ASSERT_LE(0, pid);
	if (!pid) {
		if (task_pin_cpu(0, cpu) || sched_setscheduler(0, SCHED_FIFO, &param))
			_exit(1);
		for (volatile unsigned long n = 0; ; n++)
			;
	}
	ASSERT_TRUE(WAIT_FOR(task_cpu_ns(pid) > 100000000ULL));
	members = task_cpu_ns(self->hogs[0].hog[last].pid) +
		  task_cpu_ns(self->hogs[1].hog[last].pid);
	ran = task_cpu_ns(pid);
	EXPECT_TRUE(WAIT_FOR(task_cpu_ns(pid) > ran + 1000000000ULL));
	ran = task_cpu_ns(pid) - ran;
	members = task_cpu_ns(self->hogs[0].hog[last].pid) +
		  task_cpu_ns(self->hogs[1].hog[last].pid) - members;
	TH_LOG("real-time %.3f s, members %.3f s", ran / 1e9, members / 1e9);
	/* real-time tasks are held to 95 % themselves */
	EXPECT_LT(members * 5, ran);
	task_kill(pid);
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
	EXPECT_LT(0, trace_count(&self->tr, "steer_gang_end", "why=over"));
}

/* Members are told by group, also below the one that makes the gang. */
TEST_F_TIMEOUT(gang, subtree, 300)
{
	char *x, *y;

	REQUIRE_CPUS(2);
	ASSERT_EQ(0, cg_enable(self->a, "+cpu"));
	x = cg_new(self->a, "x");
	y = cg_new(self->a, "y");
	ASSERT_TRUE(x && y);
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, x));
	ASSERT_EQ(0, hogs_in(self, 1, y));
	ASSERT_EQ(0, hogs_in(self, 2, self->h));
	hogs_use(self, 1000);
	EXPECT_LT(0, cg_stat(self->a, "gang_slots_led"));
	EXPECT_LT(0, cg_stat(self->a, "gang_favoured_usec"));
	/* the counters are those of the group that makes it */
	EXPECT_EQ(-1, cg_stat(x, "gang_slots_led"));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(hogs_get_on(&self->hogs[i], 50));
	free(x);
	free(y);
}

STEER_MAIN
