// SPDX-License-Identifier: GPL-2.0-only
/*
 * To see what happened: the hint_* counters in cpu.stat, and the tracepoints of
 * the steer system.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <signal.h>
#include <sys/stat.h>

#define EVENTS		"/sys/kernel/tracing/events/steer"
#define WAKEUPS		20

static const char * const counters[] = {
	"hint_fork_followed", "hint_fork_full", "hint_fork_affinity",
	"hint_wake_followed", "hint_wake_same_llc", "hint_wake_full",
	"hint_wake_affinity", "hint_wake_irq", "hint_wake_turns",
	"hint_turns_followed",
	"hint_reach_followed", "hint_reach_full",
	"hint_scan_followed", "hint_scan_full",
	"hint_pack_followed", "hint_pack_full",
	"hint_slice_followed", "hint_slice_custom",
	"hint_preempt_followed",
	"hint_energy_followed", "hint_energy_full", "hint_energy_unavailable",
	"hint_energy_moved", "hint_energy_held",
	"hint_balance_held", "hint_balance_overloaded", "hint_balance_gave_up",
	"hint_numa_spread", "hint_numa_together",
};

FIXTURE(stat) {
	struct topo t;
	struct trace trace;
	struct wakee w;
	char *top;
	char *cg;
};

FIXTURE_SETUP(stat)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_stat");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);
}

FIXTURE_TEARDOWN(stat)
{
	trace_stop(&self->trace);
	wakee_stop(&self->w);
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* Counters are there once a hint was effective, and not before. */
TEST_F(stat, appear_with_a_hint)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		EXPECT_EQ(-1, cg_stat(self->cg, counters[i]));
	}
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	EXPECT_EQ(-1, cg_stat(self->cg, counters[0]));
	ASSERT_EQ(-EINVAL, cg_write(self->cg, "cpu.hint", "nonsense"));
	EXPECT_EQ(-1, cg_stat(self->cg, counters[0]));

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "pack"));
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		EXPECT_EQ(0, cg_stat(self->cg, counters[i]))
			TH_LOG("%s", counters[i]);
	}
	/* its parent never had one */
	EXPECT_EQ(-1, cg_stat(self->top, counters[0]));
	/* what else cpu.stat has is still there */
	EXPECT_LE(0, cg_stat(self->cg, "usage_usec"));
	EXPECT_LE(0, cg_stat(self->cg, "nr_periods"));
}

/* An inherited hint is effective as well. */
TEST_F(stat, appear_when_inherited)
{
	char *before, *after;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	before = cg_new(self->cg, "before");
	ASSERT_NE(NULL, before);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "pack"));
	after = cg_new(self->cg, "after");
	ASSERT_NE(NULL, after);
	EXPECT_EQ(0, cg_stat(before, "hint_pack_followed"));
	EXPECT_EQ(0, cg_stat(after, "hint_pack_followed"));
	free(before);
	free(after);
}

/* Counters outlive the hint, and never go backwards. */
TEST_F_TIMEOUT(stat, kept, 120)
{
	long sum;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "scan_none"));
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	ASSERT_EQ(0, wakee_settle(&self->w));
	sum = cg_stat(self->cg, "hint_scan_followed");
	EXPECT_LE(WAKEUPS - 2, sum);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "none"));
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	EXPECT_EQ(sum, cg_stat(self->cg, "hint_scan_followed"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "scan_none"));
	EXPECT_LE(sum, cg_stat(self->cg, "hint_scan_followed"));
}

/* A word that the machine cannot honour is counted, not ignored silently. */
TEST_F_TIMEOUT(stat, energy_unavailable, 120)
{
	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "energy"));
	if (!cg_is(self->cg, "cpu.hint.effective", "energy:unavailable"))
		SKIP(return, "this machine has an energy model");
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	EXPECT_LE(WAKEUPS - 2, cg_stat(self->cg, "hint_energy_unavailable"));
}

/* The tracepoints have the documented fields. */
TEST_F(stat, trace_formats)
{
	static const struct { const char *event, *fields[12]; } events[] = {
		{ "steer_hint", { "cgroup", "hint" } },
		{ "steer_wake", { "comm[16]", "pid", "hint", "waker_cpu", "prev_cpu",
				  "target_cpu", "cpu", "wake", "reach", "scan",
				  "pack" } },
		{ "steer_fork", { "comm[16]", "pid", "hint", "parent_cpu", "cpu",
				  "verdict" } },
		{ "steer_balance", { "comm[16]", "pid", "hint", "src_cpu", "dst_cpu",
				     "verdict" } },
		{ "steer_numa", { "comm[16]", "pid", "hint", "src_cpu", "dst_cpu",
				  "path" } },
	};
	char path[PATH_MAX], format[8192], field[64];

	if (access("/sys/kernel/tracing/events", F_OK))
		SKIP(return, "needs tracefs in /sys/kernel/tracing");
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		snprintf(path, sizeof(path), EVENTS "/%s/format", events[i].event);
		ASSERT_LT(0, file_read(path, format, sizeof(format)))
			TH_LOG("%s", path);
		for (int f = 0; f < 12 && events[i].fields[f]; f++) {
			snprintf(field, sizeof(field), " %s;", events[i].fields[f]);
			EXPECT_NE(NULL, strstr(format, field))
				TH_LOG("%s:%s", events[i].event, field);
		}
	}
}

#define TRACE(event, filter) do {					\
	if (access("/sys/kernel/tracing/instances", F_OK))		\
		SKIP(return, "needs tracefs in /sys/kernel/tracing");	\
	ASSERT_EQ(0, trace_start(&self->trace, "steer", event, filter)); \
} while (0)

/* steer_hint: each group whose effective words change, and only those. */
TEST_F(stat, trace_hint)
{
	char text[128];
	struct stat st;
	char *child;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);
	TRACE("steer_hint", NULL);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "interactive wake_hold"));
	EXPECT_EQ(2, trace_count(&self->trace, "steer_hint",
				 "hint=wake_hold|scan_full|slice_short"));
	ASSERT_EQ(0, stat(child, &st));
	snprintf(text, sizeof(text), "cgroup=%llu ", (unsigned long long)st.st_ino);
	EXPECT_EQ(1, trace_count(&self->trace, "steer_hint", text));

	/* the same words in other words are no change */
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint",
			      "scan_full slice_short wake_hold"));
	EXPECT_EQ(2, trace_count(&self->trace, "steer_hint", NULL));
	free(child);
}

/* steer_wake: one event a wakeup, with what the counters count. */
TEST_F_TIMEOUT(stat, trace_wake, 120)
{
	char filter[32], text[64];
	int nr;

	if (self->t.nr_cpus < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, wakee_start(&self->w, self->cg, NULL));
	snprintf(filter, sizeof(filter), "pid == %d", self->w.pid);
	TRACE("steer_wake", filter);
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	EXPECT_EQ(0, trace_count(&self->trace, "steer_wake", NULL));

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "wake_affine scan_full"));
	for (int i = 0; i < WAKEUPS; i++) {
		ASSERT_EQ(0, wakee_wake(&self->w, NULL));
	}
	ASSERT_EQ(0, wakee_settle(&self->w));
	nr = trace_count(&self->trace, "steer_wake", NULL);
	EXPECT_LE(WAKEUPS - 2, nr);
	EXPECT_EQ(nr, trace_count(&self->trace, "steer_wake",
				  "hint=wake_affine|scan_full "));
	snprintf(text, sizeof(text), " pid=%d ", self->w.pid);
	EXPECT_EQ(nr, trace_count(&self->trace, "steer_wake", text));
	EXPECT_EQ(cg_count(self->cg, "hint_scan_followed"),
		  trace_count(&self->trace, "steer_wake", "scan=followed"));
	EXPECT_EQ(cg_count(self->cg, "hint_wake_followed"),
		  trace_count(&self->trace, "steer_wake", "wake=followed"));
	EXPECT_EQ(cg_count(self->cg, "hint_wake_same_llc"),
		  trace_count(&self->trace, "steer_wake", "wake=same_llc"));
	EXPECT_EQ(nr, trace_count(&self->trace, "steer_wake", "pack=unasked"));
}

/* steer_fork: one event a child, with its verdict. */
TEST_F_TIMEOUT(stat, trace_fork, 120)
{
	pid_t parent, pid;
	long counted;
	int nr;

	REQUIRE_LLCS(&self->t, 2);
	TRACE("steer_fork", NULL);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	parent = task_fork(self->cg);
	ASSERT_LE(0, parent);
	if (!parent) {
		for (int i = 0; i < WAKEUPS; i++) {
			pid = fork();
			if (!pid)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
		_exit(0);
	}
	ASSERT_EQ(parent, waitpid(parent, NULL, 0));
	nr = trace_count(&self->trace, "steer_fork", "hint=fork_affine ");
	EXPECT_EQ(WAKEUPS, nr);
	counted = cg_count(self->cg, "hint_fork_followed");
	EXPECT_EQ(counted, trace_count(&self->trace, "steer_fork",
				       "verdict=followed"));
	EXPECT_LT(0, counted);
}

/*
 * Tasks in the root group, in an autogroup or not, are nobody's business: no
 * hint, no event, though the key is on.
 */
TEST_F_TIMEOUT(stat, autogroup_untouched, 120)
{
	char filter[32], old[8] = "";

	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint",
			      "wake_affine wake_wide scan_none slice_long pack"));
	if (file_read(AUTOGROUP, old, sizeof(old)) < 0)
		SKIP(return, "needs CONFIG_SCHED_AUTOGROUP");
	EXPECT_EQ(1, file_key(STEER_DEBUG, "hint_key"));
	ASSERT_EQ(0, file_write(AUTOGROUP, "1", 1));

	/* a session of its own is an autogroup of its own */
	setsid();
	EXPECT_EQ(0, wakee_start(&self->w, CG_ROOT, NULL));
	snprintf(filter, sizeof(filter), "pid == %d", self->w.pid);
	EXPECT_EQ(0, trace_start(&self->trace, "steer", "steer_wake", filter));
	for (int i = 0; i < WAKEUPS; i++) {
		EXPECT_EQ(0, wakee_wake(&self->w, NULL));
	}
	EXPECT_EQ(0, trace_count(&self->trace, "steer_wake", NULL));
	EXPECT_EQ(0, file_write(AUTOGROUP, old, 1));
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		EXPECT_EQ(0, cg_stat(self->cg, counters[i]));
	}
}

STEER_MAIN
