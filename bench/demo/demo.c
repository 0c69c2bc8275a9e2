// SPDX-License-Identifier: GPL-2.0-only
/*
 * What cpu.hint does to where tasks run, in counts from the kernel's own events
 * and counters. Ends with one line for each claim, which says whether the
 * counts above bear it out; the exit status is 0 if they bear out all of them.
 */
#include "demo.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far two shares are apart at least where one is more, at most where they are the same */
#define MORE		10.0
#define SAME		20.0

#define WAKE_ROUNDS	160
#define FULL_ROUNDS	40
#define FORK_BATCHES	40

/* What the smallest LLC must have: the messenger, the workers, and one to spare */
#define LLC_WIDTH	4

enum { WITHOUT, WITH };

static long lost;

static double percent(long part, long whole)
{
	return whole ? 100.0 * part / whole : 0;
}

/* -------------------------------------------------------------- interface */

struct refusal {
	int err;
	char before[128];
	char after[128];
};

static void show_interface(struct refusal *refusal)
{
	char value[128];

	printf("\nThe file: %s/cpu.hint\n", GROUP);
	group_read("cpu.hint", value, sizeof(value));
	printf("  # cat cpu.hint                               %s\n", value);
	group_write("cpu.hint", "tail_latency wake_hold\n");
	printf("  # echo tail_latency wake_hold > cpu.hint\n");
	group_read("cpu.hint.effective", value, sizeof(value));
	printf("  # cat cpu.hint.effective                     %s\n", value);
	group_read("cpu.hint", refusal->before, sizeof(refusal->before));
	printf("  # cat cpu.hint                               %s\n", refusal->before);

	refusal->err = -file_write(GROUP "/cpu.hint", "nonsense\n");
	printf("  # echo nonsense > cpu.hint                   %s\n",
	       refusal->err ? strerrorname_np(refusal->err) : "(accepted)");
	group_read("cpu.hint", refusal->after, sizeof(refusal->after));
	printf("  # cat cpu.hint                               %s\n", refusal->after);
}

/* ----------------------------------------------------------------- tables */

/**
 * struct wakes - one line of a table of wakeups
 * @hint: written to cpu.hint
 * @seen: what the events say
 * @counters: what cpu.stat says
 */
struct wakes {
	const char *hint;
	struct wakeups seen;
	struct counters counters;
};

/* Likewise for children */
struct children {
	const char *hint;
	struct forks seen;
	struct counters counters;
};

/* A group without a hint has nothing to count. */
static void show_counters(const char *hint, const struct counters *counters)
{
	if (!strcmp(hint, "none"))
		printf(" %8s %4s %5s\n", "-", "-", "-");
	else
		printf(" %8ld %4ld %5ld\n", counters->followed, counters->full,
		       counters->other);
	fflush(stdout);
}

static double waker_share(const struct wakes *row)
{
	return percent(row->seen.to_waker, row->seen.across);
}

static double prev_share(const struct wakes *row)
{
	return percent(row->seen.to_prev, row->seen.across);
}

static void wakes_header(const char *title)
{
	printf("\n%s\n"
	       "               wakeups  across   ended in LLC of    moves to   hint_wake_*\n"
	       "  cpu.hint        seen    LLCs   waker previous  other LLC followed full other\n",
	       title);
}

static void measure_wakes(struct wakes *row, const struct scene *scene)
{
	trace_clear();
	wake_workload(row->hint, scene, &row->seen, &row->counters);
	lost += trace_lost();
}

static void show_wakes(const struct wakes *row)
{
	const struct wakeups *seen = &row->seen;

	printf("  %-12s %7d %7d %5.1f %% %6.1f %% %10d", row->hint, seen->seen,
	       seen->across, waker_share(row), prev_share(row), seen->migrations);
	show_counters(row->hint, &row->counters);
}

static double llc_share(const struct children *row)
{
	return percent(row->seen.same_llc, row->seen.children);
}

static double other_node_share(const struct children *row)
{
	return percent(row->seen.other_node, row->seen.children);
}

static void forks_header(const char *title)
{
	printf("\n%s\n"
	       "                        placed in parent's    used by all   hint_fork_*\n"
	       "  cpu.hint     children    LLC    node neither  LLCs nodes followed full other\n",
	       title);
}

static void measure_forks(struct children *row, int batch)
{
	trace_clear();
	fork_workload(row->hint, FORK_BATCHES, batch, &row->seen, &row->counters);
	lost += trace_lost();
}

static void show_forks(const struct children *row)
{
	const struct forks *seen = &row->seen;
	int batches = seen->batches ? seen->batches : 1;

	printf("  %-12s %7d %5.1f %% %5.1f %% %5.1f %% %5.2f %5.2f", row->hint,
	       seen->children, llc_share(row), percent(seen->same_node, seen->children),
	       other_node_share(row), (double)seen->llcs / batches,
	       (double)seen->nodes / batches);
	show_counters(row->hint, &row->counters);
}

/* ----------------------------------------------------------------- claims */

static int broken;

__attribute__((format(printf, 2, 3)))
static void claim(bool holds, const char *format, ...)
{
	va_list args;

	printf("  %s  ", holds ? "yes" : "NO ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	broken += !holds;
}

static bool less(double a, double b)
{
	return b - a >= MORE;
}

/* Nothing was followed, and the same happened as without the hint */
static bool left_alone(const struct wakes *row)
{
	return !row[WITH].counters.followed && row[WITH].counters.full &&
	       row[WITH].seen.across && row[WITHOUT].seen.across &&
	       fabs(waker_share(&row[WITH]) - waker_share(&row[WITHOUT])) <= SAME &&
	       fabs(prev_share(&row[WITH]) - prev_share(&row[WITHOUT])) <= SAME;
}

static void require_machine(void)
{
	if (machine.nr_nodes < 2 || machine.nr_llcs < 2 * machine.nr_nodes ||
	    machine.llc_width < LLC_WIDTH)
		die("needs 2 NUMA nodes of 2 LLCs of %d CPUs; this machine has %d, %d and %d",
		    LLC_WIDTH, machine.nr_nodes, machine.nr_llcs, machine.llc_width);
}

/* A table: the line without a hint is there already, then one with each. */
static void wakes_table(const char *title, struct wakes *rows, size_t nr,
			const struct scene *scene)
{
	wakes_header(title);
	for (size_t i = 0; i < nr; i++) {
		if (i)
			measure_wakes(&rows[i], scene);
		show_wakes(&rows[i]);
	}
}

static void forks_table(const char *title, struct children *rows, size_t nr, int batch)
{
	forks_header(title);
	for (size_t i = 0; i < nr; i++) {
		if (i)
			measure_forks(&rows[i], batch);
		show_forks(&rows[i]);
	}
}

int main(void)
{
	struct wakes wakes[] = {
		{ .hint = "none" }, { .hint = "wake_affine" }, { .hint = "wake_hold" },
	};
	struct wakes waker_full[] = { { .hint = "none" }, { .hint = "wake_affine" } };
	struct wakes prev_full[] = { { .hint = "none" }, { .hint = "wake_hold" } };
	struct children one[] = {
		{ .hint = "none" }, { .hint = "fork_affine" }, { .hint = "fork_spread" },
	};
	struct children four[] = {
		{ .hint = "none" }, { .hint = "fork_affine" }, { .hint = "fork_spread" },
	};
	static const struct scene room = {
		.rounds = WAKE_ROUNDS, .waker_llc = -1, .home_llc = -1, .full_llc = -1,
	};
	static const struct scene full_waker = {
		.rounds = FULL_ROUNDS, .waker_llc = 0, .home_llc = 1, .full_llc = 0,
	};
	static const struct scene full_prev = {
		.rounds = FULL_ROUNDS, .waker_llc = 1, .home_llc = 0, .full_llc = 0,
	};
	struct refusal refusal;

	machine_read();
	machine_show();
	require_machine();
	groups_setup();
	trace_setup();

	/* While no group has a hint, so that nothing of cpu.hint is switched on */
	printf("\nMeasuring everything without a hint first\n");
	measure_wakes(&wakes[0], &room);
	measure_wakes(&waker_full[0], &full_waker);
	measure_wakes(&prev_full[0], &full_prev);
	measure_forks(&one[0], 1);
	measure_forks(&four[0], 4);

	show_interface(&refusal);
	wakes_table("Wakeups: two messengers go from LLC to LLC, and each wakes a worker. A busy\n"
		    "loop has meanwhile taken the CPU that one of the workers ran on last.",
		    wakes, ARRAY_SIZE(wakes), &room);
	wakes_table("The same with a full target: a busy loop on each CPU of the waker's LLC.",
		    waker_full, ARRAY_SIZE(waker_full), &full_waker);
	wakes_table("And here: a busy loop on each CPU of the LLC that the workers ran in last.",
		    prev_full, ARRAY_SIZE(prev_full), &full_prev);
	forks_table("Forks: a parent goes from LLC to LLC, and has one child in each.",
		    one, ARRAY_SIZE(one), 1);
	forks_table("Forks: it has four children in each, who run at the same time.",
		    four, ARRAY_SIZE(four), 4);

	printf("\nDoes it hold? More is %.0f points at least, the same is %.0f at most.\n",
	       MORE, SAME);
	claim(refusal.err == EINVAL && !strcmp(refusal.before, refusal.after),
	      "nonsense is refused with EINVAL, and the value is still\n"
	      "       '%s'", refusal.after);
	claim(less(waker_share(&wakes[0]), waker_share(&wakes[1])),
	      "wake_affine raises the share in the waker's LLC: %.1f -> %.1f %%",
	      waker_share(&wakes[0]), waker_share(&wakes[1]));
	claim(less(prev_share(&wakes[0]), prev_share(&wakes[2])),
	      "wake_hold raises the share in the previous LLC: %.1f -> %.1f %%",
	      prev_share(&wakes[0]), prev_share(&wakes[2]));
	claim(left_alone(waker_full),
	      "waker's LLC full: wake_affine followed %ld times, full %ld times;\n"
	      "       in that LLC %.1f %% without and %.1f %% with the hint",
	      waker_full[WITH].counters.followed, waker_full[WITH].counters.full,
	      waker_share(&waker_full[WITHOUT]), waker_share(&waker_full[WITH]));
	claim(left_alone(prev_full),
	      "previous LLC full: wake_hold followed %ld times, full %ld times;\n"
	      "       in that LLC %.1f %% without and %.1f %% with the hint",
	      prev_full[WITH].counters.followed, prev_full[WITH].counters.full,
	      prev_share(&prev_full[WITHOUT]), prev_share(&prev_full[WITH]));
	claim(less(llc_share(&one[0]), llc_share(&one[1])) &&
	      less(other_node_share(&one[0]), other_node_share(&one[2])),
	      "one child: fork_affine brings it to the parent's LLC, %.1f -> %.1f %%,\n"
	      "       fork_spread to another node, %.1f -> %.1f %%",
	      llc_share(&one[0]), llc_share(&one[1]),
	      other_node_share(&one[0]), other_node_share(&one[2]));
	claim(less(llc_share(&four[0]), llc_share(&four[1])) &&
	      less(llc_share(&four[2]), llc_share(&four[0])),
	      "four children: the share in the parent's LLC, %.1f %%, goes up with\n"
	      "       fork_affine, to %.1f %%, and down with fork_spread, to %.1f %%",
	      llc_share(&four[0]), llc_share(&four[1]), llc_share(&four[2]));
	claim(!lost, "no trace event was lost (lost: %ld)", lost);

	trace_remove();
	groups_remove();
	return broken ? 1 : 0;
}
