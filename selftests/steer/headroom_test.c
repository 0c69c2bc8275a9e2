// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.headroom: what can be written, who is bound by it, and what happens to
 * those that are.
 *
 * Who is bound, and by how much, the kernel says itself (cpu.headroom.stat); how
 * much that comes to is judged by CPU time that it accounted, and only roughly:
 * on an emulated machine timers are late, and what is idle is up to the host. How
 * exactly a demand is met is measured in the lab, and in the KUnit tests.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define HEADROOM	"cpu.headroom"
#define STAT		"cpu.headroom.stat"

/* A line of cpu.headroom.stat: "demand 30.00" */
static bool stat_is(const char *cg, const char *line)
{
	char buf[512];

	if (cg_read(cg, STAT, buf, sizeof(buf)) < 0)
		return false;
	for (char *save, *at = strtok_r(buf, "\n", &save); at;
	     at = strtok_r(NULL, "\n", &save))
		if (!strcmp(at, line))
			return true;
	return false;
}

/* The number behind a key, in hundredths, or -1 */
static long stat_key(const char *cg, const char *key)
{
	size_t len = strlen(key);
	char buf[512];

	if (cg_read(cg, STAT, buf, sizeof(buf)) < 0)
		return -1;
	for (char *save, *at = strtok_r(buf, "\n", &save); at;
	     at = strtok_r(NULL, "\n", &save))
		if (!strncmp(at, key, len) && at[len] == ' ')
			return strcmp(at + len + 1, "max") ?
				(long)(atof(at + len + 1) * 100 + 0.5) : -1;
	return -1;
}

/* As the controller's, in us */
#define PERIOD	100000

/* Demands take effect with the next period, which may be late. */
#define EXPECT_DEMAND(cg, percent)					\
	EXPECT_TRUE(WAIT_FOR(stat_is(cg, "demand " percent)))		\
		TH_LOG("%s: demand %ld, not " percent, cg, stat_key(cg, "demand"))

/* That nothing happens can only be seen by waiting for what would: some periods. */
static void some_periods(void)
{
	usleep(500000);
}

static long capped(const char *cg)
{
	return cg_count(cg, "headroom_capped_periods");
}

static long usage(const char *cg)
{
	return cg_count(cg, "usage_usec");
}

/* How many CPUs @cg uses, in the mean of @us or, if it takes longer to look again, of that */
static double cpus_used(const char *cg, unsigned int us)
{
	double begin = now_s();
	long used = usage(cg);

	usleep(us);
	return (usage(cg) - used) / 1e6 / (now_s() - begin);
}

/* Is @pid among the tasks of @cg? */
static bool in_group(const char *cg, pid_t pid)
{
	char buf[4096], *rest = buf, *line;

	if (cg_read(cg, "cgroup.procs", buf, sizeof(buf)) < 0)
		return false;
	while ((line = strsep(&rest, "\n")))
		if (atoi(line) == pid)
			return true;
	return false;
}

/*
 *	steer_headroom
 *	  main
 *	  side
 *	  other
 */
FIXTURE(headroom) {
	struct topo t;
	char *top, *main, *side, *other;
	pid_t sleeper;
	struct hogs hogs, more;
	struct wakee wakee;
	struct trace trace;
};

/*
 * All of it happens on four CPUs, as if there were no others: two at either end of
 * the machine. More busy ones make an emulated machine slow, and show nothing more.
 */
static int confine(FIXTURE_DATA(headroom) *self)
{
	const cpu_set_t *all = &self->t.cpus;
	int last = self->t.nr_cpus - 1;
	cpu_set_t four = *all;
	char list[64];

	if (last > 3) {
		four = cpuset_one(cpuset_nth(all, 0));
		CPU_SET(cpuset_nth(all, 1), &four);
		CPU_SET(cpuset_nth(all, last - 1), &four);
		CPU_SET(cpuset_nth(all, last), &four);
	}
	self->t.cpus = four;
	self->t.nr_cpus = CPU_COUNT(&four);
	cpulist_format(&four, list, sizeof(list));
	return cg_write(self->top, "cpuset.cpus", list);
}

FIXTURE_SETUP(headroom)
{
	REQUIRE_FILE(HEADROOM);
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_headroom");
	ASSERT_NE(NULL, self->top);
	ASSERT_EQ(0, confine(self));
	self->main = cg_new(self->top, "main");
	self->side = cg_new(self->top, "side");
	self->other = cg_new(self->top, "other");
	ASSERT_TRUE(self->main && self->side && self->other);
}

FIXTURE_TEARDOWN(headroom)
{
	trace_stop(&self->trace);
	hogs_stop(&self->hogs);
	hogs_stop(&self->more);
	wakee_stop(&self->wakee);
	task_kill(self->sleeper);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* A task that sleeps in @cg: 0 when it is there */
static int populate(FIXTURE_DATA(headroom) *self, const char *cg)
{
	self->sleeper = task_sleep(cg);
	return WAIT_FOR(in_group(cg, self->sleeper)) ? 0 : -ETIMEDOUT;
}

/* --------------------------------------------------------------- the files */

TEST_F(headroom, default_is_zero)
{
	EXPECT_TRUE(cg_is(self->side, HEADROOM, "0.00"));
	EXPECT_TRUE(stat_is(self->side, "demand 0.00"));
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));
	EXPECT_TRUE(stat_is(self->side, "period_usec 100000"));
	EXPECT_EQ(-1, cg_stat(self->side, "headroom_periods"));
}

TEST_F(headroom, not_on_root)
{
	EXPECT_NE(0, access(CG_ROOT "/" HEADROOM, F_OK));
	EXPECT_NE(0, access(CG_ROOT "/" STAT, F_OK));
}

TEST_F(headroom, modes)
{
	char *file = cg_name(self->side, HEADROOM), *stat_file = cg_name(self->side, STAT);
	struct stat st;

	ASSERT_EQ(0, stat(file, &st));
	EXPECT_EQ(0644U, st.st_mode & 0777);
	ASSERT_EQ(0, stat(stat_file, &st));
	EXPECT_EQ(0444U, st.st_mode & 0777);
	free(file);
	free(stat_file);
}

/* What is read has two decimals, and can be written. */
TEST_F(headroom, values)
{
	static const char * const values[][2] = {
		{ "20", "20.00" }, { "20.5", "20.50" }, { "20.50", "20.50" },
		{ "0.01", "0.01" }, { " 7\n", "7.00" }, { "100", "100.00" },
		{ "99.99\n", "99.99" }, { "0", "0.00" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		EXPECT_EQ(0, cg_write(self->side, HEADROOM, values[i][0]));
		EXPECT_TRUE(cg_is(self->side, HEADROOM, values[i][1]))
			TH_LOG("after \"%s\"", values[i][0]);
		EXPECT_EQ(0, cg_write(self->side, HEADROOM, values[i][1]));
		EXPECT_TRUE(cg_is(self->side, HEADROOM, values[i][1]));
	}
}

/* What is refused changes nothing. */
TEST_F(headroom, errors)
{
	static const struct {
		const char *text;
		int ret;
	} bad[] = {
		{ "100.01", -ERANGE }, { "101", -ERANGE }, { "-1", -ERANGE },
		{ "-0.01", -ERANGE }, { "99999999999999999999", -ERANGE },
		{ "max", -EINVAL }, { "", 0 }, { "\n", -EINVAL }, { ".", -EINVAL },
		{ "20.505", -EINVAL }, { "20%", -EINVAL }, { "20 30", -EINVAL },
		{ "0x14", -EINVAL }, { "1e1", -EINVAL }, { "nan", -EINVAL },
	};

	ASSERT_EQ(0, cg_write(self->side, HEADROOM, "12.34"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(bad[i].ret, cg_write(self->side, HEADROOM, bad[i].text))
			TH_LOG("\"%s\"", bad[i].text);
		EXPECT_TRUE(cg_is(self->side, HEADROOM, "12.34"));
	}
	EXPECT_EQ(-EINVAL, cg_write_len(self->side, HEADROOM, "20\0 30", 6));
	EXPECT_TRUE(cg_is(self->side, HEADROOM, "12.34"));
}

/* --------------------------------------------------------------- hierarchy */

/* A group without tasks binds nobody. One with tasks does, asleep or not. */
TEST_F_TIMEOUT(headroom, populated, 200)
{
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	some_periods();
	EXPECT_DEMAND(self->side, "0.00");
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));

	ASSERT_EQ(0, populate(self, self->main));
	EXPECT_DEMAND(self->side, "30.00");
	EXPECT_DEMAND(self->other, "30.00");
	EXPECT_DEMAND(self->main, "0.00");
	EXPECT_TRUE(WAIT_FOR(stat_key(self->side, "idle") >= 0));
	EXPECT_TRUE(WAIT_FOR(stat_key(self->side, "budget_usec") > 0));
	EXPECT_TRUE(stat_is(self->main, "budget_usec max"));

	task_kill(self->sleeper);
	self->sleeper = 0;
	EXPECT_DEMAND(self->side, "0.00");
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));
}

/* A task far below counts. */
TEST_F_TIMEOUT(headroom, populated_below, 100)
{
	char *sub = cg_new(self->main, "sub"), *deep;

	ASSERT_NE(NULL, sub);
	deep = cg_new(sub, "deep");
	ASSERT_NE(NULL, deep);
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "15"));
	ASSERT_EQ(0, populate(self, deep));
	EXPECT_DEMAND(self->side, "15.00");
}

TEST_F_TIMEOUT(headroom, frozen, 200)
{
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	EXPECT_DEMAND(self->side, "30.00");
	ASSERT_EQ(0, cg_write(self->main, "cgroup.freeze", "1"));
	EXPECT_DEMAND(self->side, "0.00");
	ASSERT_EQ(0, cg_write(self->main, "cgroup.freeze", "0"));
	EXPECT_DEMAND(self->side, "30.00");
}

/* A = B = 30, C = 20: C leaves 10 idle, A and B nothing. */
TEST_F_TIMEOUT(headroom, differences, 200)
{
	pid_t pid;

	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	ASSERT_EQ(0, cg_write(self->side, HEADROOM, "30"));
	ASSERT_EQ(0, cg_write(self->other, HEADROOM, "20"));
	ASSERT_EQ(0, populate(self, self->main));
	EXPECT_DEMAND(self->other, "10.00");
	EXPECT_DEMAND(self->main, "0.00");
	EXPECT_DEMAND(self->side, "0.00");

	/* The next largest counts when the largest is gone. */
	pid = task_sleep(self->other);
	ASSERT_EQ(0, cg_write(self->side, HEADROOM, "5.5"));
	EXPECT_DEMAND(self->side, "24.50");
	task_kill(self->sleeper);
	self->sleeper = 0;
	EXPECT_DEMAND(self->side, "14.50");
	EXPECT_DEMAND(self->other, "0.00");
	/* An empty group is bound by others, if not by its own. */
	EXPECT_DEMAND(self->main, "0.00");
	task_kill(pid);
}

/* Requests change, groups come and go. */
TEST_F_TIMEOUT(headroom, changes, 300)
{
	char *late;

	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	EXPECT_DEMAND(self->side, "30.00");
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "12.5"));
	EXPECT_DEMAND(self->side, "12.50");
	late = cg_new(self->top, "late");
	ASSERT_NE(NULL, late);
	EXPECT_DEMAND(late, "12.50");
	ASSERT_EQ(0, rmdir(late));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "0"));
	EXPECT_DEMAND(self->side, "0.00");

	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	EXPECT_DEMAND(self->side, "30.00");
	cg_destroy(self->main);
	EXPECT_DEMAND(self->side, "0.00");
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));
}

/*
 *	top
 *	  main		40
 *	  side
 *	    main	10
 *	    side		bound by both: the larger counts
 */
TEST_F_TIMEOUT(headroom, levels, 300)
{
	char *inner_main, *inner_side;
	pid_t pid;

	ASSERT_EQ(0, cg_enable(self->side, "+cpu"));
	inner_main = cg_new(self->side, "main");
	inner_side = cg_new(self->side, "side");
	ASSERT_TRUE(inner_main && inner_side);
	ASSERT_EQ(0, populate(self, self->main));
	pid = task_sleep(inner_main);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, cg_write(inner_main, HEADROOM, "10"));
	EXPECT_DEMAND(inner_side, "10.00");
	EXPECT_DEMAND(inner_main, "0.00");
	EXPECT_DEMAND(self->side, "0.00");

	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "40"));
	EXPECT_DEMAND(self->side, "40.00");
	EXPECT_DEMAND(inner_side, "40.00");
	/* what it has inside protects it from its siblings, not from outside */
	EXPECT_DEMAND(inner_main, "40.00");
	/* nor has it more than the group above it */
	EXPECT_TRUE(WAIT_FOR(stat_key(inner_main, "budget_usec") > 0));
	EXPECT_TRUE(WAIT_FOR(stat_key(inner_main, "budget_usec") ==
			     stat_key(self->side, "budget_usec")));

	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "4"));
	EXPECT_DEMAND(inner_side, "10.00");
	EXPECT_DEMAND(inner_main, "4.00");
	task_kill(pid);
}

/* Nothing that is written below a group binds what is beside that group. */
TEST_F_TIMEOUT(headroom, scope, 200)
{
	char *inner;

	ASSERT_EQ(0, cg_enable(self->main, "+cpu"));
	inner = cg_new(self->main, "inner");
	ASSERT_NE(NULL, inner);
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	ASSERT_EQ(0, populate(self, inner));
	ASSERT_EQ(0, cg_write(inner, HEADROOM, "100"));
	some_periods();
	EXPECT_TRUE(stat_is(self->side, "demand 0.00"));
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));
	EXPECT_TRUE(stat_is(self->main, "demand 0.00"));
	EXPECT_EQ(0, capped(self->side));
	EXPECT_EQ(0, capped(self->main));
}

static bool is_held(const char *cg, int periods)
{
	long before = capped(cg);

	return WAIT_FOR(capped(cg) >= before + periods);
}

/* Whoever owns a delegated subtree may write 100 in it, and holds up itself. */
static int attack(FIXTURE_DATA(headroom) *self)
{
	char *home = cg_name(self->main, "home"), *work = cg_name(self->main, "work");
	int ret = 0;
	pid_t pid;

	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
	    mkdir(home, 0755) || mkdir(work, 0755) || cg_enter(home, getpid()) ||
	    cg_enable(self->main, "+cpu"))
		return 1;
	if (cg_write(home, HEADROOM, "100") || !cg_is(home, HEADROOM, "100.00"))
		return 2;
	/* at the delegation point, above it, and beside it */
	if (cg_write(self->main, HEADROOM, "100") != -EACCES ||
	    cg_write(self->top, HEADROOM, "100") != -EACCES ||
	    cg_write(self->side, HEADROOM, "100") != -EACCES)
		return 3;
	pid = task_fork(work);
	if (!pid)
		for (volatile unsigned long n = 0; ; n++)
			;
	/* Its own is held back by what it wrote, while it is in force. */
	if (pid < 0 || !is_held(work, 5))
		ret = 4;
	else if (!stat_is(work, "demand 100.00"))
		ret = 5;
	else if (!stat_is(self->side, "demand 0.00") || !stat_is(self->other, "demand 0.00"))
		ret = 6;
	task_kill(pid);
	return ret;
}

TEST_F_TIMEOUT(headroom, delegation, 200)
{
	int status;
	pid_t pid;

	ASSERT_EQ(0, cg_delegate(self->main));
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	pid = task_fork(self->main);
	if (!pid)
		_exit(attack(self));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_TRUE(stat_is(self->side, "demand 0.00"));
	EXPECT_EQ(0, capped(self->side));
	EXPECT_TRUE(stat_is(self->other, "demand 0.00"));
	EXPECT_TRUE(cg_is(self->main, HEADROOM, "0.00"));
}

/* ------------------------------------------------------------ held back */

/* Busy loops on all CPUs of @cg, beside a main group that demands @percent */
static int hold(FIXTURE_DATA(headroom) *self, const char *cg, const char *percent)
{
	int ret = hogs_start(&self->hogs, cg, &self->t.cpus, 0);

	ret = ret ?: populate(self, self->main);
	ret = ret ?: cg_write(self->main, HEADROOM, percent);
	return ret ?: hogs_run(&self->hogs);
}

/* Has a loop run since @loops of it were seen? Remember what is seen now. */
static bool has_run(const struct hog *hog, unsigned long *loops)
{
	unsigned long before = *loops;

	*loops = __atomic_load_n(&hog->loops, __ATOMIC_SEQ_CST);
	return *loops != before;
}

/* Each of the loops has run again. */
static bool all_run(struct hogs *h)
{
	unsigned long loops[STEER_MAX_CPUS] = {};

	for (int i = 0; i < h->nr; i++)
		has_run(&h->hog[i], &loops[i]);
	for (int i = 0; i < h->nr; i++)
		if (!WAIT_FOR(has_run(&h->hog[i], &loops[i])))
			return false;
	return true;
}

/* What a line of the trace says about a key, 0 if nothing */
static long long field(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	return at ? atoll(at + strlen(key)) : 0;
}

/* The number of the budget that updates are about, or -1 if they are about several */
static long long pool_seen(struct trace *tr)
{
	char path[PATH_MAX + 16], *line = NULL;
	long long pool = 0;
	size_t len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tr->dir);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (pool >= 0 && getline(&line, &len, f) > 0) {
		if (!strstr(line, " steer_headroom_update: "))
			continue;
		pool = !pool || pool == field(line, " pool=") ? field(line, " pool=") : -1;
	}
	free(line);
	fclose(f);
	return pool;
}

/*
 * The most that was used in a period, in percent of its CPUs; a short one tells nothing. A period
 * in which the controller took no time, or all of it, is -ERANGE.
 */
static int most_used(struct trace *tr)
{
	char path[PATH_MAX + 16], *line = NULL;
	long long used, took, most = 0;
	size_t len = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tr->dir);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (most >= 0 && getline(&line, &len, f) > 0) {
		if (!strstr(line, " steer_headroom_update: ") || !field(line, " cpus=") ||
		    field(line, " elapsed=") < 50000000)
			continue;
		took = field(line, " took=");
		if (took <= 0 || took >= field(line, " elapsed=")) {
			most = -ERANGE;
			continue;
		}
		used = field(line, " used=") / (1000000 * field(line, " cpus="));
		most = used > most ? used : most;
	}
	free(line);
	fclose(f);
	return most;
}

/*
 * Whoever gets other CPUs is held back on those: there is no period in which they may be
 * used as if nobody demanded anything.
 */
TEST_F_TIMEOUT(headroom, stays_held, 300)
{
	char list[64], want[32];
	cpu_set_t some;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, hold(self, self->side, "80"));
	EXPECT_TRUE(is_held(self->side, 5));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	for (int round = 0; round < 3; round++) {
		int before;

		some = cpuset_minus(self->t.cpus, cpuset_one(cpuset_nth(&self->t.cpus, 0)));
		cpulist_format(&some, list, sizeof(list));
		snprintf(want, sizeof(want), " cpus=%d ", self->t.nr_cpus - 1);
		before = trace_count(&self->trace, "steer_headroom_update", want);
		ASSERT_EQ(0, cg_write(self->side, "cpuset.cpus", list));
		EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) >=
				     before + 3));
		EXPECT_TRUE(is_held(self->side, 2));
		cpulist_format(&self->t.cpus, list, sizeof(list));
		ASSERT_EQ(0, cg_write(self->side, "cpuset.cpus", list));
		EXPECT_TRUE(is_held(self->side, 6));
	}
	TH_LOG("at most %d %% of the CPUs were used", most_used(&self->trace));
	EXPECT_LT(0, most_used(&self->trace));
	EXPECT_GE(50, most_used(&self->trace));
}

/*
 * What somebody makes further down counts when a surplus is divided, but not when a lack is
 * taken off: nobody's main work waits for it.
 */
TEST_F_TIMEOUT(headroom, further_down, 300)
{
	char *main, *side;

	ASSERT_EQ(0, cg_enable(self->main, "+cpu"));
	main = cg_new(self->main, "main");
	side = cg_new(self->main, "side");
	ASSERT_TRUE(main && side);
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_start(&self->more, side, &self->t.cpus, 0));
	ASSERT_EQ(0, populate(self, main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "20"));
	ASSERT_EQ(0, cg_write(main, HEADROOM, "20"));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	ASSERT_EQ(0, hogs_run(&self->more));
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_TRUE(is_held(side, 3));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update",
					 " rivals=2 givers=1 ") > 0));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update",
					 " rivals=2 givers=2 ") > 0));
	free(main);
	free(side);
}

/*
 * CPUs that go off with queues that wait, and come back. The limit stays in force. That
 * CPU is never without a task, as the protected group has one there: where the fair
 * server has just found nothing to run, stopping the CPU makes Linux 6.12 warn.
 */
TEST_F_TIMEOUT(headroom, hotplug, 300)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	cpu_set_t one = cpuset_one(cpu);

	if (self->t.nr_cpus < 2 || !cpu_can_go(cpu))
		SKIP(return, "needs a CPU that can go off");
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &one, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, hold(self, self->side, "90"));
	EXPECT_TRUE(is_held(self->side, 5));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	for (int round = 0; round < 3; round++) {
		EXPECT_EQ(0, cpu_set_online(cpu, false));
		EXPECT_TRUE(is_held(self->side, 2));
		EXPECT_EQ(0, cpu_set_online(cpu, true));
		EXPECT_EQ(0, task_pin_cpu(self->more.hog[0].pid, cpu));
		EXPECT_EQ(0, task_pin_cpu(self->hogs.hog[self->hogs.nr - 1].pid, cpu));
		EXPECT_TRUE(is_held(self->side, 2));
		EXPECT_TRUE(all_run(&self->hogs));
	}
	TH_LOG("at most %d %% of the CPUs were used", most_used(&self->trace));
	EXPECT_LE(0, most_used(&self->trace));
	EXPECT_GE(50, most_used(&self->trace));
	EXPECT_LT(0, pool_seen(&self->trace));
}

/* A CPU that comes when others are held back already is theirs to leave idle, too. */
TEST_F_TIMEOUT(headroom, late_cpu, 300)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	cpu_set_t all = self->t.cpus, one = cpuset_one(cpu);
	char want[32];

	if (self->t.nr_cpus < 2 || !cpu_can_go(cpu))
		SKIP(return, "needs a CPU that can go off");
	/* It is never without a task; see hotplug. */
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &one, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, cpu_set_online(cpu, false));
	self->t.cpus = cpuset_minus(all, one);
	EXPECT_EQ(0, hold(self, self->side, "90"));
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	snprintf(want, sizeof(want), " cpus=%d ", CPU_COUNT(&self->t.cpus));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) > 0));
	EXPECT_EQ(0, cpu_set_online(cpu, true));
	snprintf(want, sizeof(want), " cpus=%d ", CPU_COUNT(&all));
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) > 3));
	EXPECT_EQ(0, task_pin_cpu(self->hogs.hog[0].pid, cpu));
	EXPECT_EQ(0, task_pin_cpu(self->more.hog[0].pid, cpu));
	EXPECT_TRUE(is_held(self->side, 5));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_LE(0, most_used(&self->trace));
	EXPECT_GE(50, most_used(&self->trace));
}

/* Held back means less CPU time, counted as such, and never none. */
TEST_F_TIMEOUT(headroom, held_back, 300)
{
	double unbound, held;
	long before;

	ASSERT_EQ(0, hold(self, self->side, "0"));
	some_periods();
	unbound = cpus_used(self->side, 4000000);
	EXPECT_EQ(0, capped(self->side));

	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "80"));
	EXPECT_TRUE(is_held(self->side, 3));
	before = cg_count(self->side, "headroom_capped_usec");
	held = cpus_used(self->side, 4000000);
	TH_LOG("uses %.2f CPUs, held back %.2f", unbound, held);
	EXPECT_LT(held, unbound * 7 / 10);
	EXPECT_LT(0, held);
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_LT(before, cg_count(self->side, "headroom_capped_usec"));
	EXPECT_LE(capped(self->side), cg_count(self->side, "headroom_periods"));

	/* cpu.max knows nothing of it, and neither do cpu.weight and cpu.idle. */
	EXPECT_TRUE(cg_is(self->side, "cpu.max", "max 100000"));
	EXPECT_TRUE(cg_is(self->side, "cpu.weight", "100"));
	EXPECT_TRUE(cg_is(self->side, "cpu.idle", "0"));
	EXPECT_EQ(0, cg_count(self->side, "nr_periods"));
	EXPECT_EQ(0, cg_count(self->side, "nr_throttled"));
	EXPECT_EQ(0, cg_count(self->side, "throttled_usec"));

	/* The group that is protected is not held back. */
	EXPECT_EQ(0, capped(self->main));

	/* The others go on when it ends. */
	task_kill(self->sleeper);
	self->sleeper = 0;
	EXPECT_DEMAND(self->side, "0.00");
	EXPECT_TRUE(all_run(&self->hogs));
	before = capped(self->side);
	some_periods();
	EXPECT_EQ(before, capped(self->side));
}

/* At a demand that nothing can meet, the floor is left, for each queue. */
TEST_F_TIMEOUT(headroom, floor, 300)
{
	ASSERT_EQ(0, hold(self, self->side, "100"));
	EXPECT_TRUE(is_held(self->side, 5));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(WAIT_FOR(stat_key(self->side, "budget_usec") > 0));
}

/* What is held back can be frozen, which takes CPU time, and goes on when it is thawed. */
TEST_F_TIMEOUT(headroom, frozen_held, 300)
{
	unsigned long loops[STEER_MAX_CPUS] = {};

	ASSERT_EQ(0, hold(self, self->side, "100"));
	EXPECT_TRUE(is_held(self->side, 5));
	ASSERT_EQ(0, cg_write(self->side, "cgroup.freeze", "1"));
	EXPECT_TRUE(WAIT_FOR(cg_is(self->side, "cgroup.events", "populated 1\nfrozen 1")));
	for (int i = 0; i < self->hogs.nr; i++)
		has_run(&self->hogs.hog[i], &loops[i]);
	some_periods();
	for (int i = 0; i < self->hogs.nr; i++)
		EXPECT_FALSE(has_run(&self->hogs.hog[i], &loops[i]));
	EXPECT_TRUE(stat_is(self->side, "demand 100.00"));
	ASSERT_EQ(0, cg_write(self->side, "cgroup.freeze", "0"));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(is_held(self->side, 3));
}

/* What real-time tasks use is not idle; nor is it if they are throttled now and then. */
TEST_F_TIMEOUT(headroom, realtime, 300)
{
	struct sched_param param = { .sched_priority = 1 };
	cpu_set_t half;
	long idle;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	CPU_ZERO(&half);
	for (int i = 0; i < self->t.nr_cpus / 2; i++)
		CPU_SET(cpuset_nth(&self->t.cpus, i), &half);
	ASSERT_EQ(0, hogs_start(&self->more, self->other, &half, 0));
	for (int i = 0; i < self->more.nr; i++)
		if (sched_setscheduler(self->more.hog[i].pid, SCHED_FIFO, &param))
			SKIP(return, "no real-time tasks in a group: %s", strerror(errno));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	EXPECT_DEMAND(self->side, "30.00");
	EXPECT_TRUE(WAIT_FOR(stat_key(self->side, "idle") > 7500))
		TH_LOG("idle %ld, with nothing to do", stat_key(self->side, "idle"));
	ASSERT_EQ(0, hogs_run(&self->more));
	some_periods();
	for (int i = 0; i < 10; i++) {
		idle = stat_key(self->side, "idle");
		EXPECT_LE(0, idle);
		EXPECT_GE(6000, idle);
		usleep(150000);
	}
	/* So they leave less to those who are held back. */
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	EXPECT_TRUE(is_held(self->side, 5));
}

/* Updates, with times that can be compared with ours */
static int trace_updates(struct trace *tr)
{
	char path[PATH_MAX + 16];
	int ret = trace_start(tr, "steer", "steer_headroom_update", NULL);

	snprintf(path, sizeof(path), "%s/trace_clock", tr->dir);
	return ret ?: file_write(path, "mono", 4);
}

/* The first update later than @when, in @line: was there one? */
static bool update_after(struct trace *tr, double when, char *line, size_t len)
{
	static const char name[] = ": steer_headroom_update: ";
	char path[PATH_MAX + 16];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tr->dir);
	f = fopen(path, "r");
	while (f && !found && fgets(line, len, f)) {
		char *at = strstr(line, name), *stamp = at;

		while (stamp && stamp > line && stamp[-1] != ' ')
			stamp--;
		found = at && strtod(stamp, NULL) > when;
	}
	if (f)
		fclose(f);
	return found;
}

/* One that was under way may not have seen what happened, and is written down later. */
#define UNDER_WAY	0.01

/* It is so now. The update at the end of this period says that @demand binds the others. */
#define EXPECT_AT_ONCE(trace, percent) do {					\
	double when = now_s() + UNDER_WAY;					\
	char line[1024] = "";							\
										\
	EXPECT_TRUE(WAIT_FOR(update_after(trace, when, line, sizeof(line))));	\
	EXPECT_EQ((percent) * 100, field(line, " demand="));			\
	EXPECT_EQ((percent) > 0, field(line, " budget=") > 0);			\
} while (0)

/* Where the protected group stops or starts, others feel it at the end of the period. */
TEST_F_TIMEOUT(headroom, at_once, 300)
{
	double held, unbound;
	long before;

	ASSERT_EQ(0, hold(self, self->side, "80"));
	EXPECT_TRUE(is_held(self->side, 3));
	held = cpus_used(self->side, PERIOD);
	ASSERT_EQ(0, trace_updates(&self->trace));
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, cg_write(self->main, "cgroup.freeze", "1"));
		EXPECT_TRUE(WAIT_FOR(cg_is(self->main, "cgroup.events", "populated 1\nfrozen 1")));
		EXPECT_AT_ONCE(&self->trace, 0);
		/* All that they want is theirs, from the first period on. */
		before = capped(self->side);
		unbound = cpus_used(self->side, PERIOD);
		EXPECT_LT(held * 3 / 2, unbound)
			TH_LOG("uses %.2f CPUs, held back %.2f", unbound, held);
		EXPECT_EQ(before, capped(self->side));
		ASSERT_EQ(0, cg_write(self->main, "cgroup.freeze", "0"));
		EXPECT_TRUE(WAIT_FOR(cg_is(self->main, "cgroup.events", "populated 1\nfrozen 0")));
		EXPECT_AT_ONCE(&self->trace, 80);
		task_kill(self->sleeper);
		self->sleeper = 0;
		EXPECT_TRUE(WAIT_FOR(cg_is(self->main, "cgroup.events", "populated 0\nfrozen 0")));
		EXPECT_AT_ONCE(&self->trace, 0);
		ASSERT_EQ(0, populate(self, self->main));
		EXPECT_AT_ONCE(&self->trace, 80);
	}
}

/*
 * Some groups with a task on each CPU share the floor. A turn of one on a CPU takes up to
 * a millisecond and a tick, so all of them have had one after this many periods.
 */
TEST_F_TIMEOUT(headroom, each_group, 300)
{
	const int periods = 20, groups = 3;
	long used[3], updates;
	struct hogs third = { };
	char *cg[3];

	cg[0] = self->side;
	cg[1] = self->other;
	cg[2] = cg_new(self->top, "third");
	ASSERT_NE(NULL, cg[2]);
	ASSERT_EQ(0, hogs_start(&third, cg[2], &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_start(&self->more, cg[1], &self->t.cpus, 0));
	ASSERT_EQ(0, hold(self, cg[0], "100"));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, hogs_run(&third));
	for (int i = 0; i < groups; i++)
		EXPECT_TRUE(is_held(cg[i], 5));
	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < groups; i++)
			used[i] = usage(cg[i]);
		updates = trace_count(&self->trace, "steer_headroom_update", NULL) + periods;
		EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", NULL) >=
				     updates));
		for (int i = 0; i < groups; i++) {
			used[i] = usage(cg[i]) - used[i];
			EXPECT_LT(0, used[i]);
		}
		TH_LOG("in %d periods: %ld, %ld and %ld us", periods, used[0], used[1], used[2]);
	}
	trace_stop(&self->trace);
	hogs_stop(&third);
}

/* How often each loop was seen to have run again, in @seconds */
static void times_run(const struct hogs *h, int seconds, int *times)
{
	unsigned long loops[STEER_MAX_CPUS] = {};
	time_t end = time(NULL) + seconds;

	for (int i = 0; i < h->nr; i++) {
		has_run(&h->hog[i], &loops[i]);
		times[i] = 0;
	}
	do {
		usleep(2000);
		for (int i = 0; i < h->nr; i++)
			times[i] += has_run(&h->hog[i], &loops[i]);
	} while (time(NULL) < end);
}

/*
 * They take turns at it. Every other turn is for a CPU that is idle, but one that has
 * something else to do, and is slower to ask, is not left out.
 */
TEST_F_TIMEOUT(headroom, turns, 300)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	int most = 0, least = INT_MAX, times[STEER_MAX_CPUS];
	cpu_set_t one = cpuset_one(cpu);

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &one, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, hold(self, self->side, "100"));
	EXPECT_TRUE(is_held(self->side, 5));
	times_run(&self->hogs, 20, times);
	for (int i = 0; i < self->hogs.nr; i++) {
		most = times[i] > most ? times[i] : most;
		least = times[i] < least ? times[i] : least;
	}
	TH_LOG("each had between %d and %d turns, beside a busy loop %d", least, most,
	       times[self->hogs.nr - 1]);
	EXPECT_LT(0, least);
	EXPECT_GE(6 * least, most);
}

/* A loop of side on the first CPU, the caller on the second, and main has a headroom. */
static int side_on_first(FIXTURE_DATA(headroom) *self)
{
	cpu_set_t first = cpuset_one(cpuset_nth(&self->t.cpus, 0));
	int ret = task_pin_cpu(0, cpuset_nth(&self->t.cpus, 1));

	if (!ret)
		ret = cg_write(self->main, HEADROOM, "10");
	if (!ret)
		ret = hogs_start(&self->hogs, self->side, &first, 0);
	ret = ret ?: populate(self, self->main);
	return ret ?: hogs_run(&self->hogs);
}

/* Wake a task of @cg, on a CPU where one of side runs: how often did that give way? */
static long preempted(FIXTURE_DATA(headroom) *self, const char *cg, int rounds)
{
	long before = cg_count(self->side, "headroom_preempted");
	cpu_set_t first = cpuset_one(cpuset_nth(&self->t.cpus, 0));

	if (wakee_start(&self->wakee, cg, &first))
		return -1;
	for (int i = 0; i < rounds; i++) {
		if (wakee_wake(&self->wakee, NULL))
			return -1;
	}
	wakee_stop(&self->wakee);
	return cg_count(self->side, "headroom_preempted") - before;
}

/*
 * A protected task does not wait for the slice of one that leaves CPU idle for it; but
 * it does for one that need not, and so does a task that is not protected.
 */
TEST_F_TIMEOUT(headroom, preempts, 300)
{
	const int rounds = 16;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, side_on_first(self));
	EXPECT_DEMAND(self->side, "10.00");
	EXPECT_LE(rounds / 2, preempted(self, self->main, rounds));
	EXPECT_EQ(0, preempted(self, self->other, rounds));
	EXPECT_EQ(0, cg_write(self->side, HEADROOM, "10"));
	EXPECT_EQ(0, preempted(self, self->main, rounds));
	EXPECT_EQ(0, cg_count(self->main, "headroom_preempted"));
}

/*
 * A task of @cg on a CPU where one of side always runs. It computes for more than a
 * slice, and sleeps, @rounds times: how often did the other have a turn in between?
 */
static long interrupted(FIXTURE_DATA(headroom) *self, const char *cg, int rounds)
{
	pid_t pid = task_cycle(cg, cpuset_nth(&self->t.cpus, 0), 6000, 18000);
	long end, before, turns = -1;

	if (pid < 0)
		return -1;
	if (!WAIT_FOR(task_status(pid, "voluntary_ctxt_switches") > 0))
		goto out;
	before = task_status(pid, "nonvoluntary_ctxt_switches");
	end = task_status(pid, "voluntary_ctxt_switches") + rounds;
	if (WAIT_FOR(task_status(pid, "voluntary_ctxt_switches") >= end))
		turns = task_status(pid, "nonvoluntary_ctxt_switches") - before;
out:
	task_kill(pid);
	return turns;
}

/* What main and side use while main uses at least @us of it. Was that so, in time? */
static bool usage_while(FIXTURE_DATA(headroom) *self, long us, long *used, long *side)
{
	bool ok;

	*used = usage(self->main);
	*side = usage(self->side);
	ok = WAIT_FOR(usage(self->main) - *used > us);
	*side = usage(self->side) - *side;
	*used = usage(self->main) - *used;
	return ok;
}

/*
 * Nor is a protected task interrupted when its slice is over. But if it never sleeps,
 * what is held back has its share of that CPU, by weight.
 */
TEST_F_TIMEOUT(headroom, goes_on, 300)
{
	cpu_set_t first = cpuset_one(cpuset_nth(&self->t.cpus, 0));
	const int rounds = 48;
	long used, side, other, protected;

	/* A slice is longer with more of them. */
	if (self->t.nr_cpus < 4)
		SKIP(return, "needs four CPUs");
	ASSERT_EQ(0, side_on_first(self));
	EXPECT_DEMAND(self->side, "10.00");
	other = interrupted(self, self->other, rounds);
	protected = interrupted(self, self->main, rounds);
	TH_LOG("interrupted in %d rounds: %ld, protected %ld", rounds, other, protected);
	EXPECT_LE(rounds / 2, other);
	/* A debug kernel's own threads have their turns, too. */
	EXPECT_LE(0, protected);
	EXPECT_LE(2 * protected, other);

	ASSERT_EQ(0, hogs_start(&self->more, self->main, &first, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	some_periods();
	EXPECT_TRUE(usage_while(self, 2000000, &used, &side));
	TH_LOG("beside each other: %ld us, %ld us held back", used, side);
	EXPECT_LT(used * 2 / 3, side);
	EXPECT_GT(used * 3 / 2, side);
}

/* Is another thread of the core of a CPU one of ours? */
static bool has_other_thread(const struct topo *t, int cpu)
{
	cpu_set_t threads = cpuset_and(t->core[cpu], t->cpus);

	return CPU_COUNT(&threads) > 1;
}

/*
 * Where there is no other core, it runs beside such a task. On the other threads only: on the
 * same ones it would take turns, and be alone on the core meanwhile.
 */
TEST_F_TIMEOUT(headroom, core_shared, 300)
{
	cpu_set_t threads = cpuset_one(cpuset_nth(&self->t.cpus, 0)), others;
	int last = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	long used, side;

	if (!has_other_thread(&self->t, last) || self->t.nr_cpus < 4)
		SKIP(return, "needs two cores with two threads");
	CPU_SET(last, &threads);
	others = cpuset_minus(self->t.cpus, threads);
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &threads, 0));
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &others, 0));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "20"));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	ASSERT_EQ(0, hogs_run(&self->more));
	EXPECT_DEMAND(self->side, "20.00");
	some_periods();
	some_periods();
	EXPECT_TRUE(usage_while(self, 4000000, &used, &side));
	TH_LOG("a thread of each core: %ld us, the others: %ld us", used, side);
	/* Half of the machine, and 30 % of it */
	EXPECT_GE(side * 3, used);
}

/* In how many tenths of a second did one of two tasks have no turn? */
static int stalled(pid_t one, pid_t two, int rounds)
{
	uint64_t ran[2] = { task_cpu_ns(one), task_cpu_ns(two) };
	int count = 0;

	while (rounds--) {
		uint64_t last[2] = { ran[0], ran[1] };

		usleep(100000);
		ran[0] = task_cpu_ns(one);
		ran[1] = task_cpu_ns(two);
		count += ran[0] == last[0] || ran[1] == last[1];
	}
	return count;
}

/*
 * Two groups on that CPU have the same headroom. Neither has to wait for the other
 * because one of small weight, whose turn it would be, waits.
 */
TEST_F_TIMEOUT(headroom, bystander, 300)
{
	cpu_set_t first = cpuset_one(cpuset_nth(&self->t.cpus, 0));
	struct hogs third = {};
	int rounds;

	if (self->t.nr_cpus < 4)
		SKIP(return, "needs four CPUs");
	ASSERT_EQ(0, cg_write(self->side, "cpu.weight", "1"));
	ASSERT_EQ(0, cg_write(self->other, HEADROOM, "10"));
	ASSERT_EQ(0, side_on_first(self));
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &first, 0));
	ASSERT_EQ(0, hogs_start(&third, self->other, &first, 0));
	EXPECT_EQ(0, hogs_run(&self->more));
	EXPECT_EQ(0, hogs_run(&third));
	EXPECT_DEMAND(self->side, "10.00");
	rounds = stalled(self->more.hog[0].pid, third.hog[0].pid, 40);
	TH_LOG("one had no turn in %d of 40 times 100 ms", rounds);
	EXPECT_GE(10, rounds);
	hogs_stop(&third);
}

/* Whoever is killed while its group is held back comes to its end. */
TEST_F_TIMEOUT(headroom, killed, 300)
{
	ASSERT_EQ(0, hold(self, self->side, "100"));
	EXPECT_TRUE(is_held(self->side, 5));
	for (int i = 0; i < self->hogs.nr; i++)
		kill(self->hogs.hog[i].pid, SIGKILL);
	for (int i = 0; i < self->hogs.nr; i++)
		EXPECT_TRUE(WAIT_FOR(waitpid(self->hogs.hog[i].pid, NULL, WNOHANG)));
	self->hogs.nr = 0;
	EXPECT_TRUE(WAIT_FOR(cg_is(self->side, "cgroup.events", "populated 0\nfrozen 0")));
}

/* Siblings that are held back share by weight. */
TEST_F_TIMEOUT(headroom, weights, 300)
{
	long side, other;

	ASSERT_EQ(0, cg_write(self->side, "cpu.weight", "50"));
	ASSERT_EQ(0, cg_write(self->other, "cpu.weight", "200"));
	ASSERT_EQ(0, hogs_start(&self->more, self->other, &self->t.cpus, 0));
	ASSERT_EQ(0, hold(self, self->side, "20"));
	ASSERT_EQ(0, hogs_run(&self->more));
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_TRUE(is_held(self->other, 3));
	side = usage(self->side);
	other = usage(self->other);
	EXPECT_TRUE(WAIT_FOR(usage(self->side) - side > 2000000 &&
			     usage(self->other) - other > 2000000));
	side = usage(self->side) - side;
	other = usage(self->other) - other;
	TH_LOG("weights 1:4, CPU time 1:%.2f", (double)other / side);
	/* Each queue's turn at the floor is the same for both, if timers are late. */
	EXPECT_LT(side * 5 / 4, other);
}

/* The smaller of both counts, and cpu.max counts its own periods. */
TEST_F_TIMEOUT(headroom, cpu_max, 300)
{
	ASSERT_EQ(0, cg_write(self->side, "cpu.max", "10000 50000"));
	ASSERT_EQ(0, cg_write(self->side, "cpu.max.burst", "5000"));
	ASSERT_EQ(0, hold(self, self->side, "50"));
	EXPECT_TRUE(WAIT_FOR(cg_count(self->side, "nr_throttled") > 3));
	EXPECT_TRUE(cg_is(self->side, "cpu.max", "10000 50000"));
	EXPECT_TRUE(cg_is(self->side, "cpu.max.burst", "5000"));
	EXPECT_TRUE(all_run(&self->hogs));

	/* One that would allow everything leaves it to headroom. */
	ASSERT_EQ(0, cg_write(self->side, "cpu.max.burst", "0"));
	ASSERT_EQ(0, cg_write(self->side, "cpu.max", "900000000 100000"));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "90"));
	EXPECT_TRUE(is_held(self->side, 5));
	EXPECT_TRUE(all_run(&self->hogs));

	ASSERT_EQ(0, cg_write(self->side, "cpu.max", "max"));
	EXPECT_TRUE(is_held(self->side, 5));
	EXPECT_TRUE(all_run(&self->hogs));

	/* Without headroom, cpu.max is all there is. */
	ASSERT_EQ(0, cg_write(self->side, "cpu.max", "20000 100000"));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "0"));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(cg_is(self->side, "cpu.max", "20000 100000"));
	EXPECT_TRUE(stat_is(self->side, "budget_usec max"));
}

/*
 * The shortest and the longest period that cpu.max can have. Its quota is what it always
 * is, and cpu.headroom goes by periods of its own.
 */
TEST_F_TIMEOUT(headroom, cpu_max_periods, 300)
{
	static const long periods[] = { 1000, 1000000 };
	/* What a CPU has of a slice when the quota is used up, and until its next tick */
	const long late = 20000L * self->t.nr_cpus;
	char limit[32];

	ASSERT_EQ(0, hold(self, self->side, "60"));
	/* Where 1 ms is too short, cpu.max says so with a lock held, which lockdep minds. */
	for (size_t i = !access("/proc/lockdep", F_OK); i < ARRAY_SIZE(periods); i++) {
		/* No quota is below a millisecond. */
		long period = periods[i], quota = i ? period / 10 : period;
		long before, used;
		double begin, seconds;

		/* All CPUs: more than what cpu.headroom leaves. */
		snprintf(limit, sizeof(limit), "%ld %ld", self->t.nr_cpus * period, period);
		ASSERT_EQ(0, cg_write(self->side, "cpu.max", limit));
		before = cg_count(self->side, "nr_periods");
		EXPECT_TRUE(is_held(self->side, 5));
		EXPECT_TRUE(all_run(&self->hogs));
		EXPECT_TRUE(WAIT_FOR(cg_count(self->side, "nr_periods") > before + 2));
		EXPECT_TRUE(stat_is(self->side, "period_usec 100000"));

		/* Less than that, if four tenths of all CPUs are more than one. */
		if (self->t.nr_cpus * 4 <= 10 * quota / period)
			continue;
		snprintf(limit, sizeof(limit), "%ld %ld", quota, period);
		ASSERT_EQ(0, cg_write(self->side, "cpu.max", limit));
		before = cg_count(self->side, "nr_throttled");
		EXPECT_TRUE(WAIT_FOR(cg_count(self->side, "nr_throttled") > before + 1));
		begin = now_s();
		used = usage(self->side);
		sleep(3);
		used = usage(self->side) - used;
		seconds = now_s() - begin;
		TH_LOG("%s: used %ld us in %.2f s", limit, used, seconds);
		EXPECT_LT(0, used);
		EXPECT_GE(seconds * 1e6 * quota / period + quota + late, used);
		EXPECT_TRUE(all_run(&self->hogs));
	}
}

/* What a group did not use of its quota, it may use later: in a pool as without one. */
TEST_F_TIMEOUT(headroom, burst, 300)
{
	long bursts, usec;

	ASSERT_EQ(0, cg_write(self->side, "cpu.max", "20000 100000"));
	ASSERT_EQ(0, cg_write(self->side, "cpu.max.burst", "20000"));
	ASSERT_EQ(0, hold(self, self->side, "20"));
	EXPECT_DEMAND(self->side, "20.00");
	EXPECT_TRUE(WAIT_FOR(cg_count(self->side, "nr_throttled") > 3));
	/* Busy all the time, it has nothing left of it. */
	bursts = cg_count(self->side, "nr_bursts");
	usec = cg_count(self->side, "burst_usec");
	some_periods();
	EXPECT_EQ(bursts, cg_count(self->side, "nr_bursts"));
	for (int round = 0; round < 10 && cg_count(self->side, "nr_bursts") == bursts; round++) {
		ASSERT_EQ(0, cg_write(self->side, "cgroup.freeze", "1"));
		EXPECT_TRUE(WAIT_FOR(cg_is(self->side, "cgroup.events", "populated 1\nfrozen 1")));
		some_periods();
		ASSERT_EQ(0, cg_write(self->side, "cgroup.freeze", "0"));
		EXPECT_TRUE(all_run(&self->hogs));
		some_periods();
	}
	EXPECT_LT(bursts, cg_count(self->side, "nr_bursts"));
	EXPECT_LT(usec, cg_count(self->side, "burst_usec"));
	EXPECT_TRUE(cg_is(self->side, "cpu.max", "20000 100000"));
	EXPECT_TRUE(cg_is(self->side, "cpu.max.burst", "20000"));
}

/*
 *	side		held back
 *	  sub		has a limit that it does not reach
 *	    deep	is stopped by its own, which is less than its part of the budget
 *	  open		has none, and takes what is left
 */
TEST_F_TIMEOUT(headroom, deep, 300)
{
	char *sub, *deep, *open, limit[32];

	/* A millisecond for each CPU: whoever runs on for a tick waits for a few periods. */
	snprintf(limit, sizeof(limit), "%d 100000", 1000 * self->t.nr_cpus);
	ASSERT_EQ(0, cg_enable(self->side, "+cpu"));
	sub = cg_new(self->side, "sub");
	open = cg_new(self->side, "open");
	ASSERT_TRUE(sub && open);
	ASSERT_EQ(0, cg_enable(sub, "+cpu"));
	deep = cg_new(sub, "deep");
	ASSERT_NE(NULL, deep);
	ASSERT_EQ(0, cg_write(sub, "cpu.max", "900000000 200000"));
	ASSERT_EQ(0, cg_write(deep, "cpu.max", limit));
	ASSERT_EQ(0, hogs_start(&self->more, open, &self->t.cpus, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, hold(self, deep, "90"));
	EXPECT_DEMAND(deep, "90.00");
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_TRUE(WAIT_FOR(cg_count(deep, "nr_throttled") > 2));
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(all_run(&self->more));
	EXPECT_EQ(0, capped(sub));
	EXPECT_EQ(0, cg_count(sub, "nr_throttled"));
}

/* A group with cpu.idle is held back like any other. */
TEST_F_TIMEOUT(headroom, idle_group, 300)
{
	ASSERT_EQ(0, cg_write(self->side, "cpu.idle", "1"));
	ASSERT_EQ(0, hold(self, self->side, "70"));
	EXPECT_TRUE(is_held(self->side, 5));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(cg_is(self->side, "cpu.idle", "1"));
}

/* Tasks that leave while their group is throttled are free, and can come back. */
TEST_F_TIMEOUT(headroom, moves, 300)
{
	char *away = cg_top("steer_headroom_away");

	ASSERT_NE(NULL, away);
	ASSERT_EQ(0, hold(self, self->side, "100"));
	EXPECT_TRUE(is_held(self->side, 3));
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < self->hogs.nr; i++)
			EXPECT_EQ(0, cg_enter(away, self->hogs.hog[i].pid));
		EXPECT_TRUE(all_run(&self->hogs));
		for (int i = 0; i < self->hogs.nr; i++)
			EXPECT_EQ(0, cg_enter(self->side, self->hogs.hog[i].pid));
		EXPECT_TRUE(all_run(&self->hogs));
	}
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_EQ(0, capped(away));
	hogs_stop(&self->hogs);
	EXPECT_EQ(0, cg_destroy(away));
	free(away);
}

/* A group that is held back can be removed, and so can the one that does it. */
TEST_F_TIMEOUT(headroom, removal, 300)
{
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, hold(self, self->side, "95"));
		EXPECT_TRUE(is_held(self->side, 2));
		hogs_stop(&self->hogs);
		EXPECT_TRUE(WAIT_FOR(!rmdir(self->side)));
		task_kill(self->sleeper);
		self->sleeper = 0;
		EXPECT_TRUE(WAIT_FOR(!rmdir(self->main)));
		ASSERT_EQ(0, mkdir(self->side, 0755));
		ASSERT_EQ(0, mkdir(self->main, 0755));
	}
	EXPECT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_arenas") == 0));
	EXPECT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_key") == 0));
}

/* The most timers of pools that a CPU has */
static int timers_most(void)
{
	FILE *list = fopen("/proc/timer_list", "r");
	int timers = 0, most = 0;
	char line[256];

	if (!list)
		return -1;
	while (fgets(line, sizeof(line), list)) {
		if (!strncmp(line, "cpu:", 4))
			timers = 0;
		timers += !!strstr(line, "steer_pool_timer");
		most = timers > most ? timers : most;
	}
	fclose(list);
	return most;
}

/* A parent with two groups, of which one has a headroom: this takes a timer. */
static int add_timer(const char *top, int nr)
{
	char name[16], *parent, *main, *side;
	int ret = -ENOMEM;

	snprintf(name, sizeof(name), "parent%d", nr);
	parent = cg_new(top, name);
	if (!parent || cg_enable(parent, "+cpu"))
		return ret;
	main = cg_new(parent, "main");
	side = cg_new(parent, "side");
	if (main && side)
		ret = cg_write(main, HEADROOM, "30");
	free(side);
	free(main);
	free(parent);
	return ret;
}

/* Timers are spread out, and so they are again when a CPU was off. */
TEST_F_TIMEOUT(headroom, timers, 300)
{
	int online = sysconf(_SC_NPROCESSORS_ONLN), nr = 16 * online;
	int cpu = cpuset_nth(&self->t.cpus, 1) + 1;
	cpu_set_t one = cpuset_one(cpu);
	char apart[64];

	if (file_read("/sys/devices/system/cpu/isolated", apart, sizeof(apart)) > 1 ||
	    (file_read("/sys/devices/system/cpu/nohz_full", apart, sizeof(apart)) > 1 &&
	     isdigit(apart[0])))
		SKIP(return, "CPUs are isolated or tickless");

	ASSERT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_arenas") == 0));
	for (int i = 0; i < nr; i++)
		ASSERT_EQ(0, add_timer(self->top, i));
	EXPECT_TRUE(WAIT_FOR(timers_most() == 16))
		TH_LOG("%d timers", timers_most());

	/* One that none of the groups uses. */
	if (online <= self->t.nr_cpus || !cpu_can_go(cpu))
		return;
	/* It is never without a task; see hotplug. */
	ASSERT_EQ(0, hogs_start(&self->more, CG_ROOT, &one, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	ASSERT_EQ(0, cpu_set_online(cpu, false));
	EXPECT_TRUE(WAIT_FOR(timers_most() <= 1 + nr / (online - 1)))
		TH_LOG("%d timers on %d CPUs, %d on one of them", nr, online - 1, timers_most());
	ASSERT_EQ(0, cpu_set_online(cpu, true));
}

#define LOG_TIMERS(ran)								\
	TH_LOG("timers ran %d times, for %d periods, %d of them ours, in %ld ms",	\
	       (ran).times, (ran).periods, (ran).ours, (ran).ms)

/* What timers did in a second, by a trace of them */
struct ran {
	int times, periods, ours;
	long ms;
};

static int see_timers(struct trace *tr, struct ran *ran, const char *group)
{
	double began = now_s();

	if (trace_start(tr, "timer", "hrtimer_expire_entry", NULL) ||
	    trace_start(tr, "steer", "steer_headroom_update", NULL))
		return -1;
	usleep(1000000);
	if (trace_pause(tr))
		return -1;
	ran->ms = (now_s() - began) * 1000;
	ran->times = trace_count(tr, "hrtimer_expire_entry", "function=steer_pool_timer");
	ran->periods = trace_count(tr, "steer_headroom_update", NULL);
	ran->ours = trace_count(tr, "steer_headroom_update", group);
	trace_stop(tr);
	return 0;
}

/*
 * On a machine with one CPU, where all timers are: pools in which nothing runs take nothing
 * from one that is held back. Its budget is given in parts, and looked at in each period, while
 * theirs are looked at in each second one where they are more than 1024.
 */
TEST_F_TIMEOUT(headroom, timers_many, 900)
{
	const int many = 1025;
	struct ran ran;
	int others;
	struct stat st;
	char group[64];

	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		SKIP(return, "needs a machine with one CPU");
	ASSERT_EQ(0, stat(self->top, &st));
	snprintf(group, sizeof(group), "cgroup=%llu ", (unsigned long long)st.st_ino);
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &self->t.cpus, 0));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	EXPECT_DEMAND(self->side, "30.00");
	EXPECT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_paced") == 1));
	ASSERT_EQ(0, see_timers(&self->trace, &ran, group));
	LOG_TIMERS(ran);
	EXPECT_LT(0, ran.ours);
	EXPECT_GE(1 + ran.ms / 100, ran.ours);
	EXPECT_LT(5 * ran.periods, ran.times);

	for (int nr = 1; nr < many; nr++)
		ASSERT_EQ(0, add_timer(self->top, nr));
	EXPECT_TRUE(WAIT_FOR(timers_most() == many));
	some_periods();
	ASSERT_EQ(0, see_timers(&self->trace, &ran, group));
	LOG_TIMERS(ran);
	EXPECT_EQ(1, file_key(STEER_DEBUG, "headroom_paced"));
	EXPECT_GE(1 + ran.ms / 100, ran.ours);
	others = ran.periods - ran.ours;
	EXPECT_GE((1 + ran.ms / 200) * (many - 1), others);
	/* Theirs are not given in parts, of which ours has twenty; one that is late runs twice. */
	EXPECT_GE(1 + 21 * (1 + ran.ms / 100) + others * 5 / 4, ran.times);
	/* As often again as one of the others */
	EXPECT_LT(3 * others, 2 * ran.ours * (many - 1));
}

/* Periods in which a budget was halved; fewer, if one ends between the two looks. */
static int halved(struct trace *trace)
{
	int all = trace_count(trace, "steer_headroom_update", NULL);

	return all - trace_count(trace, "steer_headroom_update", " halved=0 ");
}

/*
 * When the protected group takes all that is idle, what is left of the budget is halved
 * in the period in which that happens; where enough is idle, never.
 */
TEST_F_TIMEOUT(headroom, exhausted, 300)
{
	cpu_set_t one = cpuset_one(cpuset_nth(&self->t.cpus, 0));

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &one, 0));
	ASSERT_EQ(0, hogs_start(&self->more, self->main, &self->t.cpus, 0));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	EXPECT_DEMAND(self->side, "30.00");
	some_periods();

	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	some_periods();
	EXPECT_LT(0, trace_count(&self->trace, "steer_headroom_update", " halved=0 "));
	EXPECT_GE(0, halved(&self->trace));
	EXPECT_EQ(0, hogs_run(&self->more));
	EXPECT_TRUE(WAIT_FOR(halved(&self->trace) > 1));
}

/*
 * Idle time is not exhausted while one CPU is idle, whichever that is. This test runs there, too:
 * what it does to begin the trace may take that CPU for some milliseconds of the first period.
 */
TEST_F_TIMEOUT(headroom, idle_somewhere, 300)
{
	int last = self->t.nr_cpus - 1;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "10"));
	for (int round = 0; round < 2; round++) {
		cpu_set_t idle = cpuset_one(cpuset_nth(&self->t.cpus, round ? 0 : last));
		cpu_set_t side = cpuset_one(cpuset_nth(&self->t.cpus, round ? last : 0));
		cpu_set_t main = cpuset_minus(self->t.cpus, idle);

		ASSERT_EQ(0, hogs_start(&self->hogs, self->side, &side, 0));
		ASSERT_EQ(0, hogs_start(&self->more, self->main, &main, 0));
		ASSERT_EQ(0, hogs_run(&self->hogs));
		ASSERT_EQ(0, hogs_run(&self->more));
		EXPECT_DEMAND(self->side, "10.00");
		some_periods();
		ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
		some_periods();
		EXPECT_LT(0, trace_count(&self->trace, "steer_headroom_update", " halved=0 "));
		EXPECT_GE(1, halved(&self->trace));
		trace_stop(&self->trace);
		hogs_stop(&self->hogs);
		hogs_stop(&self->more);
	}
}

/* Idle is that of the CPUs that a group may use, and those only. */
TEST_F_TIMEOUT(headroom, cpusets, 300)
{
	char list[1024], want[32];
	cpu_set_t half;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	CPU_ZERO(&half);
	for (int i = 0; i < self->t.nr_cpus / 2; i++)
		CPU_SET(cpuset_nth(&self->t.cpus, i), &half);
	cpulist_format(&half, list, sizeof(list));

	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "30"));
	snprintf(want, sizeof(want), " cpus=%d ", self->t.nr_cpus);
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) > 2));
	ASSERT_EQ(0, cg_write(self->side, "cpuset.cpus", list));
	snprintf(want, sizeof(want), " cpus=%d ", self->t.nr_cpus / 2);
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) > 2));
	EXPECT_LT(0, trace_count(&self->trace, "steer_headroom_update", " demand=3000 "));
}

/*
 *	side		held back on all other CPUs
 *	  part		a partition, isolated or not: on its CPU nothing is measured, nor held back
 *	  work
 */
TEST_F_TIMEOUT(headroom, partition, 300)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	static const char * const types[] = { "root", "isolated" };
	char list[16], want[32], *part, *work;
	cpu_set_t mine, others;
	long used;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	mine = cpuset_one(cpu);
	others = cpuset_minus(self->t.cpus, mine);
	cpulist_format(&mine, list, sizeof(list));
	ASSERT_EQ(0, cg_enable(self->side, "+cpu +cpuset"));
	part = cg_new(self->side, "part");
	work = cg_new(self->side, "work");
	ASSERT_TRUE(part && work);
	if (cg_write(self->top, "cpuset.cpus.exclusive", list) ||
	    cg_write(self->side, "cpuset.cpus.exclusive", list) ||
	    cg_write(part, "cpuset.cpus.exclusive", list) ||
	    cg_write(part, "cpuset.cpus.partition", "root") ||
	    !cg_is(part, "cpuset.cpus.partition", "root"))
		SKIP(return, "this kernel has no remote partitions");

	ASSERT_EQ(0, trace_start(&self->trace, "steer", "steer_headroom_update", NULL));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "90"));
	EXPECT_DEMAND(self->side, "90.00");
	snprintf(want, sizeof(want), " cpus=%d ", self->t.nr_cpus - 1);
	EXPECT_TRUE(WAIT_FOR(trace_count(&self->trace, "steer_headroom_update", want) > 2));

	ASSERT_EQ(0, hogs_start(&self->more, part, &mine, 0));
	ASSERT_EQ(0, hogs_run(&self->more));
	/* Without load balancing there, it is the same. */
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		ASSERT_EQ(0, cg_write(part, "cpuset.cpus.partition", types[i]));
		ASSERT_TRUE(cg_is(part, "cpuset.cpus.partition", types[i]));
		used = usage(part);
		EXPECT_TRUE(WAIT_FOR(usage(part) - used > 1000000));
		EXPECT_EQ(0, capped(self->side));
		EXPECT_DEMAND(self->side, "90.00");
	}
	snprintf(want, sizeof(want), " cpus=%d ", self->t.nr_cpus);
	EXPECT_EQ(0, trace_count(&self->trace, "steer_headroom_update", want));
	trace_stop(&self->trace);
	ASSERT_EQ(0, hogs_start(&self->hogs, work, &others, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	EXPECT_TRUE(is_held(self->side, 3));
	EXPECT_TRUE(all_run(&self->hogs));
	EXPECT_TRUE(all_run(&self->more));
}

/*
 *	side		a partition, all of whose CPUs are those of
 *	  part		a partition below it; so there are none for
 *	  b0 ... b39	which have no pool each, but when they have CPUs again
 */
TEST_F_TIMEOUT(headroom, partition_takes_all, 300)
{
	int cpu = cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1);
	char list[16], name[16], *part, *cg[40];
	cpu_set_t mine;
	size_t i;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	mine = cpuset_one(cpu);
	cpulist_format(&mine, list, sizeof(list));
	ASSERT_EQ(0, cg_enable(self->side, "+cpu +cpuset"));
	part = cg_new(self->side, "part");
	ASSERT_NE(NULL, part);
	for (i = 0; i < ARRAY_SIZE(cg); i++) {
		snprintf(name, sizeof(name), "b%zu", i);
		cg[i] = cg_new(self->side, name);
		ASSERT_NE(NULL, cg[i]);
	}
	if (cg_write(self->top, "cpuset.cpus.exclusive", list) ||
	    cg_write(self->side, "cpuset.cpus.exclusive", list) ||
	    cg_write(self->side, "cpuset.cpus.partition", "root") ||
	    cg_write(part, "cpuset.cpus", list) ||
	    cg_write(part, "cpuset.cpus.partition", "root") ||
	    !cg_is(part, "cpuset.cpus.partition", "root") ||
	    !cg_is(cg[0], "cpuset.cpus.effective", ""))
		SKIP(return, "this kernel has no partition that takes all");

	ASSERT_EQ(0, cg_write(cg[0], HEADROOM, "50"));
	/* A refresh is due each half second. */
	for (i = 0; i < 3; i++) {
		some_periods();
		some_periods();
		EXPECT_GE(1, file_key(STEER_DEBUG, "headroom_pools"));
	}
	/* 6.12 gives a partition's CPUs back to those beside it when theirs are set next. */
	ASSERT_EQ(0, cg_write(part, "cpuset.cpus.partition", "member"));
	ASSERT_EQ(0, cg_write(self->side, "cpuset.cpus.partition", "member"));
	ASSERT_EQ(0, populate(self, cg[0]));
	EXPECT_DEMAND(cg[1], "50.00");
	EXPECT_DEMAND(cg[39], "50.00");
	EXPECT_EQ(2, file_key(STEER_DEBUG, "headroom_pools"));
}

/* Many groups: each is bound, none is forgotten. */
TEST_F_TIMEOUT(headroom, many, 400)
{
	char name[16], *cg[200];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cg) / 2; i++) {
		snprintf(name, sizeof(name), "m%zu", i);
		cg[i] = cg_new(self->top, name);
		ASSERT_NE(NULL, cg[i]);
	}
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "25"));
	for (i = ARRAY_SIZE(cg) / 2; i < ARRAY_SIZE(cg); i++) {
		snprintf(name, sizeof(name), "m%zu", i);
		cg[i] = cg_new(self->top, name);
		ASSERT_NE(NULL, cg[i]);
	}
	for (i = 0; i < ARRAY_SIZE(cg); i++)
		EXPECT_DEMAND(cg[i], "25.00");

	/* Empty ones with larger requests, more than a timer looks at */
	for (i = 0; i < ARRAY_SIZE(cg); i++)
		EXPECT_EQ(0, cg_write(cg[i], HEADROOM, "50"));
	/* It was so before. From the next refresh on, it is what was found among them. */
	some_periods();
	some_periods();
	EXPECT_DEMAND(self->side, "25.00");
	for (i = 0; i < ARRAY_SIZE(cg); i++)
		EXPECT_EQ(0, rmdir(cg[i]));
	some_periods();
	some_periods();
	EXPECT_DEMAND(self->side, "25.00");
}

/*
 * Each group wants a demand of its own. No write fails, there are no more timers
 * than there may be, and nobody leaves less idle than it has to.
 */
TEST_F_TIMEOUT(headroom, requests, 400)
{
	char name[16], value[16], *cg[100];
	size_t i;

	/* The pools of others are counted, too. */
	ASSERT_TRUE(WAIT_FOR(file_key(STEER_DEBUG, "headroom_arenas") == 0));
	ASSERT_EQ(0, populate(self, self->main));
	ASSERT_EQ(0, cg_write(self->main, HEADROOM, "50"));
	EXPECT_DEMAND(self->side, "50.00");
	for (i = 0; i < ARRAY_SIZE(cg); i++) {
		snprintf(name, sizeof(name), "r%zu", i);
		snprintf(value, sizeof(value), "0.%02zu", i);
		cg[i] = cg_new(self->top, name);
		ASSERT_NE(NULL, cg[i]);
		EXPECT_EQ(0, cg_write(cg[i], HEADROOM, value));
		EXPECT_TRUE(cg_is(cg[i], HEADROOM, value));
	}
	/* One more is kept for those with other CPUs. */
	EXPECT_EQ(31, file_key(STEER_DEBUG, "headroom_pools"));
	some_periods();
	EXPECT_DEMAND(self->side, "50.00");
	for (i = 0; i < ARRAY_SIZE(cg); i++) {
		long demand = stat_key(cg[i], "demand");

		EXPECT_LE(5000 - (long)i, demand);
		EXPECT_GE(5000, demand);
	}
	/* Where few are left, each has its own again. */
	for (i = 0; i < ARRAY_SIZE(cg) - 1; i++)
		EXPECT_EQ(0, rmdir(cg[i]));
	EXPECT_DEMAND(cg[i], "49.01");
}

STEER_MAIN
