// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stock scheduler events, which fire with and without a hint:
 *
 *	sched_waking		runs on the waker's CPU; target_cpu is the CPU
 *				that the task ran on last
 *	sched_wakeup		target_cpu is the CPU that it was put on
 *	sched_wakeup_new	runs on the parent's CPU; target_cpu is the
 *				CPU that the child was put on
 *	sched_migrate_task	a task's CPU changes, by wakeup or by balancing
 *
 * They are recorded in a trace instance of the demo's own, filtered in the
 * kernel to the demo's tasks, and ordered by the trace clock that just counts.
 */
#include "demo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTANCE	"/sys/kernel/tracing/instances/steer-demo"

/* Some ten thousand events on each CPU, and no test makes more than a few thousand */
#define BUFFER_KB	"512"

static const struct {
	const char *name;
	const char *comm;
} events[] = {
	{ "sched_waking",	WORKER },
	{ "sched_wakeup",	WORKER },
	{ "sched_migrate_task",	WORKER },
	{ "sched_wakeup_new",	FORKER },
};

static void instance_write(const char *file, const char *text)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), INSTANCE "/%s", file);
	err = file_write(path, text);
	if (err)
		die("writing '%s' to %s: %s", text, path, strerror(-err));
}

void trace_on(bool on)
{
	instance_write("tracing_on", on ? "1" : "0");
}

void trace_clear(void)
{
	instance_write("trace", "");
}

void trace_remove(void)
{
	rmdir(INSTANCE);
}

void trace_setup(void)
{
	char file[128], filter[64];

	trace_remove();
	if (mkdir(INSTANCE, 0755))
		die("%s: %s; is tracefs mounted, and are you root?", INSTANCE, strerror(errno));
	trace_on(false);
	instance_write("trace_clock", "counter");
	instance_write("buffer_size_kb", BUFFER_KB);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		snprintf(file, sizeof(file), "events/sched/%s/filter", events[i].name);
		snprintf(filter, sizeof(filter), "comm == \"%s\"", events[i].comm);
		instance_write(file, filter);
		snprintf(file, sizeof(file), "events/sched/%s/enable", events[i].name);
		instance_write(file, "1");
	}
}

/* Events that did not get into the buffer, or were overwritten in it */
long trace_lost(void)
{
	static const char * const keys[] = { "\noverrun:", "\ncommit overrun:",
					     "\ndropped events:" };
	char path[PATH_MAX], stats[1024];
	long lost = 0;

	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &machine.cpus))
			continue;
		snprintf(path, sizeof(path), INSTANCE "/per_cpu/cpu%d/stats", cpu);
		if (file_read(path, stats, sizeof(stats)) < 0)
			die("reading %s: %s", path, strerror(errno));
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			const char *at = strstr(stats, keys[i]);

			if (!at)
				die("%s has no '%s'", path, keys[i] + 1);
			lost += atol(at + strlen(keys[i]));
		}
	}
	return lost;
}

/**
 * struct event - one line of the trace
 * @name:	name of the event
 * @cpu:	CPU that it happened on
 * @pid:	the task that it is about
 * @target:	value of target_cpu or dest_cpu
 * @orig:	value of orig_cpu, or -1
 */
struct event {
	char name[32];
	int cpu;
	int pid;
	int target;
	int orig;
};

static int field(const char *line, const char *name)
{
	const char *at = strstr(line, name);

	return at ? atoi(at + strlen(name)) : -1;
}

/* A line such as "demo-71 [004] d..2. 1234: sched_waking: comm=... pid=72 ..." */
static bool parse(const char *line, struct event *event)
{
	const char *cpu = strstr(line, " ["), *name = strstr(line, ": sched_");

	if (line[0] == '#' || !cpu || !name ||
	    sscanf(cpu, " [%d]", &event->cpu) != 1 ||
	    sscanf(name, ": %31[a-z_]:", event->name) != 1)
		return false;
	event->pid = field(name, " pid=");
	event->target = field(name, " target_cpu=");
	if (event->target < 0)
		event->target = field(name, " dest_cpu=");
	event->orig = field(name, " orig_cpu=");
	return event->cpu >= 0 && event->cpu < MAX_CPUS && event->pid > 0 &&
	       event->target >= 0 && event->target < MAX_CPUS && event->orig < MAX_CPUS;
}

/* Calls @see for each event, in order. */
static void trace_walk(void (*see)(const struct event *event, void *context),
		       void *context)
{
	struct event event;
	char *line = NULL;
	size_t size = 0;
	FILE *trace = fopen(INSTANCE "/trace", "re");

	if (!trace)
		die("reading %s: %s", INSTANCE "/trace", strerror(errno));
	while (getline(&line, &size, trace) > 0)
		if (parse(line, &event))
			see(&event, context);
	free(line);
	fclose(trace);
}

/* Wakeups that have begun, by task; the workers are few. */
struct wakeup_walk {
	struct wakeups *sum;
	struct event waking[16];
};

static void see_wakeup(const struct event *event, void *context)
{
	struct wakeup_walk *walk = context;
	struct wakeups *sum = walk->sum;
	struct event *waking = NULL;
	int waker, prev, now;

	if (!strcmp(event->name, "sched_migrate_task")) {
		sum->migrations += event->orig >= 0 &&
			machine.llc_of[event->orig] != machine.llc_of[event->target];
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(walk->waking); i++) {
		waking = &walk->waking[i];
		if (!waking->pid || waking->pid == event->pid)
			break;
	}
	if (!strcmp(event->name, "sched_waking")) {
		*waking = *event;
		return;
	}
	/* One whose begin was not recorded says nothing. */
	if (strcmp(event->name, "sched_wakeup") || waking->pid != event->pid ||
	    waking->cpu < 0)
		return;

	waker = machine.llc_of[waking->cpu];
	prev = machine.llc_of[waking->target];
	now = machine.llc_of[event->target];
	waking->cpu = -1;
	sum->seen++;
	if (waker == prev)
		return;
	sum->across++;
	sum->to_waker += now == waker;
	sum->to_prev += now == prev;
}

/* Adds what is in the buffer to @sum. */
void trace_wakeups(struct wakeups *sum)
{
	struct wakeup_walk walk = { .sum = sum };

	trace_walk(see_wakeup, &walk);
}

struct fork_walk {
	struct forks *sum;
	int batch;
	int nr;
	bool llc[MAX_CPUS];
	bool node[MAX_CPUS];
};

static void use(struct fork_walk *walk, int cpu)
{
	walk->llc[machine.llc_of[cpu]] = true;
	walk->node[machine.node_of[cpu]] = true;
}

static void see_fork(const struct event *event, void *context)
{
	struct fork_walk *walk = context;
	struct forks *sum = walk->sum;

	if (strcmp(event->name, "sched_wakeup_new"))
		return;
	sum->children++;
	if (machine.llc_of[event->cpu] == machine.llc_of[event->target])
		sum->same_llc++;
	else if (machine.node_of[event->cpu] == machine.node_of[event->target])
		sum->same_node++;
	else
		sum->other_node++;
	use(walk, event->cpu);
	use(walk, event->target);
	if (++walk->nr < walk->batch)
		return;

	sum->batches++;
	for (int i = 0; i < MAX_CPUS; i++) {
		sum->llcs += walk->llc[i];
		sum->nodes += walk->node[i];
		walk->llc[i] = false;
		walk->node[i] = false;
	}
	walk->nr = 0;
}

/* Adds what is in the buffer to @sum; @batch children belong together. */
void trace_forks(struct forks *sum, int batch)
{
	struct fork_walk walk = { .sum = sum, .batch = batch };

	trace_walk(see_fork, &walk);
}
