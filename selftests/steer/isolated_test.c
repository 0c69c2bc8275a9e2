// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs that were set apart at boot, isolcpus= and nohz_full=: what cpu.hint, cpu.gang
 * and cpu.headroom leave alone there, and what they do nevertheless.
 *
 * On a machine without such CPUs there is nothing to test, and everything is skipped.
 * Tickless ones take a kernel with CONFIG_NO_HZ_FULL.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#define HEADROOM	"cpu.headroom"
#define WAKEUPS		40

FIXTURE(isolated) {
	struct topo t;
	/* Online CPUs: isolated ones, and tickless ones that are not */
	cpu_set_t apart, tickless;
	char *top, *a, *b;
	struct hogs hogs[2];
	struct wakee w;
	struct trace tr;
	pid_t sleeper;
};

static cpu_set_t cpus_in(const char *name, const cpu_set_t *online)
{
	char path[64], buf[512];
	cpu_set_t found;

	CPU_ZERO(&found);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", name);
	if (file_read(path, buf, sizeof(buf)) > 0 && cpulist_parse(buf, &found))
		CPU_ZERO(&found);
	return cpuset_and(found, *online);
}

FIXTURE_SETUP(isolated)
{
	REQUIRE_FILE(HEADROOM);
	ASSERT_EQ(0, topo_read(&self->t));
	self->apart = cpus_in("isolated", &self->t.cpus);
	self->tickless = cpuset_minus(cpus_in("nohz_full", &self->t.cpus), self->apart);
	self->top = cg_top("steer_isolated");
	ASSERT_NE(NULL, self->top);
	self->a = cg_new(self->top, "a");
	self->b = cg_new(self->top, "b");
	ASSERT_TRUE(self->a && self->b);
}

FIXTURE_TEARDOWN(isolated)
{
	trace_stop(&self->tr);
	wakee_stop(&self->w);
	for (size_t i = 0; i < 2; i++)
		hogs_stop(&self->hogs[i]);
	task_kill(self->sleeper);
	EXPECT_EQ(0, cg_destroy(self->top));
}

#define REQUIRE_SOME(cpus, how) do {					\
	if (!CPU_COUNT(cpus))						\
		SKIP(return, "needs a machine booted with " how);	\
} while (0)

#define REQUIRE_ISOLATED()	REQUIRE_SOME(&self->apart, "isolcpus=")
#define REQUIRE_TICKLESS()	REQUIRE_SOME(&self->tickless, "nohz_full=")

static int hogs_in(FIXTURE_DATA(isolated) *self, int i, const char *cg, const cpu_set_t *cpus)
{
	return hogs_start(&self->hogs[i], cg, cpus, 0) ?: hogs_run(&self->hogs[i]);
}

/* @cg demands @percent: somebody sleeps in it. */
static int demand(FIXTURE_DATA(isolated) *self, const char *cg, const char *percent)
{
	self->sleeper = task_sleep(cg);
	return self->sleeper < 0 ? -1 : cg_write(cg, HEADROOM, percent);
}

static long capped(const char *cg)
{
	return cg_count(cg, "headroom_capped_periods");
}

/* Nobody is led onto an isolated CPU, although only those are idle. */
TEST_F_TIMEOUT(isolated, hint, 200)
{
	cpu_set_t busy = cpuset_minus(self->t.cpus, self->apart);
	struct wake rec;

	REQUIRE_ISOLATED();
	ASSERT_EQ(0, cg_write(self->a, "cpu.hint", "wake_affine wake_wide scan_full"));
	ASSERT_EQ(0, hogs_in(self, 0, self->b, &busy));
	ASSERT_EQ(0, wakee_start(&self->w, self->a, &self->t.cpus));
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_settle(&self->w));
		ASSERT_EQ(0, wakee_wake(&self->w, &rec));
		EXPECT_FALSE(CPU_ISSET(rec.cpu, &self->apart))
			TH_LOG("on the isolated CPU %d", rec.cpu);
	}
}

/*
 *	a, b	gangs with a member on each CPU
 *
 * An isolated CPU has its own time. Its members get on as others do.
 */
TEST_F_TIMEOUT(isolated, gang, 300)
{
	char cpu[32];

	REQUIRE_ISOLATED();
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.gang", "1"));
	ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_lead", NULL));
	ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_gang_follow", NULL));
	ASSERT_EQ(0, hogs_in(self, 0, self->a, &self->t.cpus));
	ASSERT_EQ(0, hogs_in(self, 1, self->b, &self->t.cpus));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->tr, "steer_gang_follow", "") > 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
	for (int i = 0; i < CPU_COUNT(&self->apart); i++) {
		snprintf(cpu, sizeof(cpu), " cpu=%d ", cpuset_nth(&self->apart, i));
		EXPECT_EQ(0, trace_count(&self->tr, "steer_gang_lead", cpu));
		EXPECT_EQ(0, trace_count(&self->tr, "steer_gang_follow", cpu));
	}
}

/* Tickless CPUs are in slots if they come by themselves: no gang interrupts them. */
TEST_F_TIMEOUT(isolated, gang_does_not_interrupt_tickless, 300)
{
	cpu_set_t cpus = cpuset_minus(self->t.cpus, self->apart);
	char filter[512] = "";

	REQUIRE_TICKLESS();
	for (int i = 0; i < CPU_COUNT(&self->tickless); i++)
		snprintf(filter + strlen(filter), sizeof(filter) - strlen(filter),
			 "%scpu == %d", i ? " || " : "", cpuset_nth(&self->tickless, i));
	if (trace_start(&self->tr, "csd", "csd_queue_cpu", filter))
		SKIP(return, "this kernel does not trace csd:csd_queue_cpu");
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang.scope", "system"));
	ASSERT_EQ(0, cg_write(self->a, "cpu.gang", "1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->a, &cpus));
	ASSERT_EQ(0, hogs_in(self, 1, self->b, &cpus));
	/* The others are. */
	EXPECT_TRUE(WAIT_FOR(cg_count(self->a, "gang_ipis") > 50));
	EXPECT_EQ(0, trace_count(&self->tr, "csd_queue_cpu", "func=steer_gang_kicked"));
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 50));
	EXPECT_TRUE(hogs_get_on(&self->hogs[1], 50));
}

/* What an isolated CPU does is no headroom, and is not held back. */
TEST_F_TIMEOUT(isolated, headroom, 300)
{
	char want[32];

	REQUIRE_ISOLATED();
	ASSERT_EQ(0, trace_start(&self->tr, "steer", "steer_headroom_update", NULL));
	ASSERT_EQ(0, hogs_in(self, 0, self->b, &self->apart));
	ASSERT_EQ(0, demand(self, self->a, "95"));
	snprintf(want, sizeof(want), " cpus=%d ",
		 self->t.nr_cpus - CPU_COUNT(&self->apart));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->tr, "steer_headroom_update", want) > 5));
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 300));
	EXPECT_EQ(0, capped(self->b));
}

/*
 * A loop that has a tickless CPU for itself runs there without a tick until somebody
 * demands headroom. Then its time counts, as everywhere; and afterwards no more.
 */
TEST_F_TIMEOUT(isolated, headroom_holds_back_tickless, 300)
{
	cpu_set_t one = cpuset_one(cpuset_nth(&self->tickless, 0));
	char stopped[64];
	long before;

	REQUIRE_TICKLESS();
	ASSERT_EQ(0, trace_start(&self->tr, "timer", "tick_stop", "success==1"));
	ASSERT_EQ(0, hogs_in(self, 0, self->b, &one));
	/* While the loop runs: an idle CPU stops its tick, too. */
	snprintf(stopped, sizeof(stopped), "-%-7d [%03d]", self->hogs[0].hog[0].pid,
		 cpuset_nth(&self->tickless, 0));
	if (!WAIT_FOR(trace_count(&self->tr, "tick_stop", stopped) > 0))
		SKIP(return, "the tick does not stop on this machine");
	ASSERT_EQ(0, demand(self, self->a, "100"));
	EXPECT_TRUE(WAIT_FOR(capped(self->b) > 3));
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 5));
	ASSERT_EQ(0, cg_write(self->a, HEADROOM, "0"));
	before = capped(self->b);
	EXPECT_TRUE(hogs_get_on(&self->hogs[0], 300));
	EXPECT_GE(before + 2, capped(self->b));
}

STEER_MAIN
