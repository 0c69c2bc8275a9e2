// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watches the groups below a cgroup while others work: how much of the machine
 * is idle, how much each group uses and has for a budget, how often CPUs switch
 * and interrupt each other, and, from a trace of the scheduler's switches, for
 * how long all members of a gang ran at once.
 *
 * It looks at the counters in steps. CPU time of groups is the scheduler's own,
 * exact to the microsecond. Idle time is that of /proc/stat, in hundredths of a
 * second for all CPUs together: exact over the whole run, coarse in one step.
 *
 * A gang are the threads whose names begin with "gang" and a digit. Of a gang
 * with so many members (--members; no more than the CPUs can run at once count),
 * the co-run share is the time during which all of them are on a CPU, out of
 * that during which any is. What the trace buffer could not hold makes it null.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#ifndef TRACING
#define TRACING		"/sys/kernel/tracing/"
#endif
#define MAX_GROUPS	16
#define MAX_GANGS	8
#define MAX_CPUS	512
#define MAX_EVENTS	2000000
/* Stretches of the trace that are printed, for a picture; and for how long */
#define MAX_SHOWN	3000
#define PREFIX		"gang"
#define NOBODY		(-1)
#define OTHERS		(-2)

static struct {
	const char *parent;
	double interval;	/* s */
	double runtime;		/* s */
	unsigned long begin;	/* ms of the clock */
	unsigned long members;
	unsigned long shown;	/* ms */
	bool trace;
	bool now;
} params = {
	.parent = "",
	.interval = 0.1,
	.runtime = 1,
	.shown = 60,
};

static const struct option_spec specs[] = {
	{ .name = "parent", .unit = "the directory of a cgroup", .help = "whose groups to watch",
	  .text = &params.parent },
	{ .name = "interval", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "from one look to the next", .seconds = &params.interval },
	{ .name = "runtime", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "how long to watch", .seconds = &params.runtime },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "now", .help = "print the monotonic clock in milliseconds, and end",
	  .flag = &params.now },
	{ .name = "trace", .help = "trace the switches of the scheduler", .flag = &params.trace },
	{ .name = "members", .unit = A_NUMBER, .min = 1, .max = 4096,
	  .help = "threads of a gang, instead of one for each CPU", .count = &params.members },
	{ .name = "shown", .unit = "a whole number of milliseconds", .min = 0, .max = 10000,
	  .help = "of the trace, printed for a picture", .count = &params.shown },
};

static const struct program program = {
	.name = "observe",
	.summary = "Watches cgroups, and prints what it saw as one line of JSON.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct group - a group that is watched; arrays have an element for each look
 * @name:	of its directory
 * @usage:	CPU time so far, in us
 * @budget:	what cpu.headroom allows it, in us of CPU time a period; 0: no limit
 * @demand:	what has to stay idle on its account, in hundredths of a percent
 * @seen:	what it sees as idle, likewise
 * @capped:	time in which cpu.headroom held it back, in us
 * @stat:	it has cpu.headroom.stat
 */
struct group {
	char name[64];
	unsigned long long *usage;
	unsigned long long *budget;
	unsigned long long *demand;
	unsigned long long *seen;
	unsigned long long *capped;
	bool stat;
};

static struct group groups[MAX_GROUPS];
static unsigned int nr_groups, nr_looks;
static unsigned long long *idle;	/* in ticks of /proc/stat */
static unsigned long long *looked;	/* ns */
static unsigned long long switches[2], interrupts[2];

static char *read_all(const char *path)
{
	size_t size = 0, room = 65536;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 || !text) {
		free(text);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	while ((n = read(fd, text + size, room - size - 1)) > 0) {
		size += n;
		if (room - size < 4096) {
			room *= 2;
			text = realloc(text, room);
			if (!text)
				die(&program, EXIT_FAILED, "no memory for %s", path);
		}
	}
	close(fd);
	text[size] = 0;
	return text;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* The number behind a key at the begin of a line; @scale is what 1.00 counts as */
static unsigned long long keyed(const char *text, const char *key, unsigned int scale)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n'), line += !!line) {
		if (strncmp(line, key, length) || line[length] != ' ')
			continue;
		if (scale == 1)
			return strtoull(line + length + 1, NULL, 10);
		return strtod(line + length + 1, NULL) * scale + 0.5;
	}
	return 0;
}

static void find_groups(void)
{
	DIR *directory = opendir(params.parent);
	struct dirent *entry;

	if (!directory)
		die(&program, EXIT_FAILED, "%s: %s", params.parent, strerror(errno));
	while ((entry = readdir(directory))) {
		struct group *group = &groups[nr_groups];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (nr_groups == MAX_GROUPS)
			die(&program, EXIT_FAILED, "more than %d groups", MAX_GROUPS);
		snprintf(group->name, sizeof(group->name), "%.63s", entry->d_name);
		nr_groups++;
	}
	closedir(directory);
}

static char *group_file(const struct group *group, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s/%s", params.parent, group->name, name);
	return read_all(path);
}

static void look(unsigned int at)
{
	char *text = read_all("/proc/stat");
	unsigned long long idle_ticks = 0, iowait = 0;

	looked[at] = now_ns();
	if (!text || sscanf(text, "cpu %*u %*u %*u %llu %llu", &idle_ticks, &iowait) != 2)
		die(&program, EXIT_FAILED, "/proc/stat has no line of all CPUs");
	idle[at] = idle_ticks + iowait;
	if (!at || at == nr_looks)
		switches[!!at] = keyed(text, "ctxt", 1);
	free(text);
	for (unsigned int i = 0; i < nr_groups; i++) {
		struct group *group = &groups[i];

		text = group_file(group, "cpu.stat");
		if (!text)
			die(&program, EXIT_FAILED, "group %s is gone", group->name);
		group->usage[at] = keyed(text, "usage_usec", 1);
		group->capped[at] = keyed(text, "headroom_capped_usec", 1);
		free(text);
		text = group_file(group, "cpu.headroom.stat");
		if (!text)
			continue;
		group->stat = true;
		group->budget[at] = keyed(text, "budget_usec", 1);
		group->demand[at] = keyed(text, "demand", 100);
		group->seen[at] = keyed(text, "idle", 100);
		free(text);
	}
}

/* Of all CPUs, those by which they tell each other to reschedule or to call a function */
static unsigned long long count_interrupts(void)
{
	char *text = read_all("/proc/interrupts"), *rest = text, *line;
	unsigned long long sum = 0;

	while (text && (line = strsep(&rest, "\n"))) {
		char *at = strchr(line, ':');

		if (!at || (!strcasestr(line, "rescheduling interrupts") &&
			    !strcasestr(line, "function call interrupts")))
			continue;
		for (at++; ; ) {
			char *end;
			unsigned long long value = strtoull(at, &end, 10);

			if (end == at)
				break;
			sum += value;
			at = end;
		}
	}
	free(text);
	return sum;
}

/* ------------------------------------------------------------------- trace */

/**
 * struct event - a CPU goes from one to another
 * @time:	in ns
 * @cpu:	which
 * @from:	the gang, NOBODY where the CPU was idle, or OTHERS
 * @to:		likewise
 */
struct event {
	uint64_t time;
	int cpu;
	int from;
	int to;
};

static struct event *events;
static size_t nr_events;
static uint64_t *leads;
static size_t nr_leads;

static int gang_of(const char *name)
{
	size_t length = strlen(PREFIX);

	if (!strncmp(name, "swapper/", 8))
		return NOBODY;
	if (strncmp(name, PREFIX, length) || name[length] < '0' || name[length] >= '0' + MAX_GANGS)
		return OTHERS;
	return name[length] - '0';
}

static void start_trace(void)
{
	write_text(TRACING "tracing_on", "0");
	if (!write_text(TRACING "trace_clock", "mono") ||
	    !write_text(TRACING "buffer_size_kb", "4096") || !write_text(TRACING "trace", " ") ||
	    !write_text(TRACING "events/sched/sched_switch/enable", "1"))
		die(&program, EXIT_FAILED, "tracing cannot be set up: %s", strerror(errno));
	write_text(TRACING "events/steer/steer_gang_lead/enable", "1");
	if (!write_text(TRACING "tracing_on", "1"))
		die(&program, EXIT_FAILED, "tracing cannot be started: %s", strerror(errno));
}

static void stop_trace(void)
{
	write_text(TRACING "tracing_on", "0");
	write_text(TRACING "events/sched/sched_switch/enable", "0");
	write_text(TRACING "events/steer/steer_gang_lead/enable", "0");
}

/* "   gang0-71  [003] d..2.  12.345678: sched_switch: prev_comm=... ==> next_comm=..." */
static void take_line(const char *line)
{
	const char *bracket = strchr(line, '['), *prev, *next, *colon;
	struct event *event = &events[nr_events];
	double seconds;

	if (!bracket || nr_events == MAX_EVENTS)
		return;
	if (sscanf(bracket, "[%d] %*s %lf:", &event->cpu, &seconds) != 2)
		return;
	event->time = seconds * NSEC_PER_SEC;
	colon = strchr(bracket, ':');
	if (colon && !strncmp(colon, ": steer_gang_lead", 17) && nr_leads < MAX_SHOWN)
		leads[nr_leads++] = event->time;
	prev = strstr(bracket, "prev_comm=");
	next = strstr(bracket, "next_comm=");
	if (!prev || !next || event->cpu < 0 || event->cpu >= MAX_CPUS)
		return;
	event->from = gang_of(prev + 10);
	event->to = gang_of(next + 10);
	nr_events++;
}

/* Whether all of it could be read: nothing was overwritten */
static bool read_trace(void)
{
	unsigned long long held, written;
	bool complete = false;
	size_t room = 0;
	char *line = NULL;
	FILE *file = fopen(TRACING "trace", "re");

	events = calloc(MAX_EVENTS + 1, sizeof(*events));
	leads = calloc(MAX_SHOWN, sizeof(*leads));
	if (!file || !events || !leads)
		die(&program, EXIT_FAILED, "the trace cannot be read");
	while (getline(&line, &room, file) > 0) {
		const char *at = strstr(line, "entries-in-buffer/entries-written: ");

		if (at && sscanf(at, "entries-in-buffer/entries-written: %llu/%llu", &held, &written) == 2)
			complete = held == written && held <= MAX_EVENTS;
		else if (line[0] != '#')
			take_line(line);
	}
	fclose(file);
	free(line);
	return complete;
}

/* Each gang's time with any, and with all of its members on a CPU */
static void add_up(uint64_t *any, uint64_t *all, unsigned int full)
{
	int running[MAX_GANGS] = { 0 }, now[MAX_CPUS];
	bool known[MAX_CPUS] = { 0 };
	uint64_t last = nr_events ? events[0].time : 0;

	/* A CPU ran from the begin on what its first event takes it from. */
	for (size_t i = 0; i < nr_events; i++) {
		const struct event *event = &events[i];

		if (known[event->cpu])
			continue;
		known[event->cpu] = true;
		now[event->cpu] = event->from;
		if (event->from >= 0)
			running[event->from]++;
	}
	for (size_t i = 0; i < nr_events; i++) {
		const struct event *event = &events[i];

		for (unsigned int gang = 0; gang < MAX_GANGS; gang++) {
			if (running[gang] > 0)
				any[gang] += event->time - last;
			if (running[gang] >= (int)full)
				all[gang] += event->time - last;
		}
		last = event->time;
		if (now[event->cpu] >= 0)
			running[now[event->cpu]]--;
		if (event->to >= 0)
			running[event->to]++;
		now[event->cpu] = event->to;
	}
}

/*
 * Stretches [cpu, from us, to us, gang or -2], from the middle of the run on. It began
 * at @origin; the trace did so earlier, while all waited for that.
 */
static void print_stretches(uint64_t origin)
{
	uint64_t last = nr_events && events[nr_events - 1].time > origin ?
			events[nr_events - 1].time : origin;
	uint64_t middle = origin + (last - origin) / 2;
	uint64_t until = middle + params.shown * 1000000, since[MAX_CPUS];
	size_t shown = 0;

	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		since[cpu] = middle;
	printf(",\"stretches_at_us\":%llu,\"stretches\":[",
	       (unsigned long long)(middle > origin ? middle - origin : 0) / 1000);
	for (size_t i = 0; i < nr_events && shown < MAX_SHOWN; i++) {
		const struct event *event = &events[i];
		uint64_t end = event->time < until ? event->time : until;

		if (event->time > middle && since[event->cpu] < until && event->from != NOBODY) {
			printf("%s[%d,%llu,%llu,%d]", shown ? "," : "", event->cpu,
			       (unsigned long long)(since[event->cpu] - middle) / 1000,
			       (unsigned long long)(end - middle) / 1000, event->from);
			shown++;
		}
		if (event->time > middle)
			since[event->cpu] = event->time;
	}
	printf("],\"leads_us\":[");
	shown = 0;
	for (size_t i = 0; i < nr_leads; i++)
		if (leads[i] >= middle && leads[i] < until)
			printf("%s%llu", shown++ ? "," : "", (unsigned long long)(leads[i] - middle) / 1000);
	printf("]");
}

static void print_trace(unsigned int cpus)
{
	uint64_t any[MAX_GANGS] = { 0 }, all[MAX_GANGS] = { 0 };
	bool complete = read_trace();
	unsigned int shown = 0;

	add_up(any, all, params.members && params.members < cpus ? params.members : cpus);
	printf(",\"events\":%zu,\"leads\":%zu,\"corun\":{", nr_events, nr_leads);
	for (unsigned int gang = 0; gang < MAX_GANGS; gang++) {
		if (!any[gang])
			continue;
		printf("%s\"%s%u\":", shown++ ? "," : "", PREFIX, gang);
		if (complete)
			printf("%.6f", all[gang] / (double)any[gang]);
		else
			printf("null");
	}
	printf("}");
	if (params.shown)
		print_stretches(looked[0]);
}

/* ------------------------------------------------------------------ output */

/* What was seen at each look but the first; where @none, 0 stands for nothing */
static void print_steps(const char *key, const unsigned long long *values, double scale, bool none)
{
	printf(",\"%s\":[", key);
	for (unsigned int i = 1; i <= nr_looks; i++)
		if (none && !values[i])
			printf("%snull", i > 1 ? "," : "");
		else
			printf("%s%.6g", i > 1 ? "," : "", values[i] * scale);
	printf("]");
}

/* Percent of the machine in each step */
static void print_shares(const char *key, const unsigned long long *values, double ns,
			 unsigned int cpus)
{
	printf(",\"%s\":[", key);
	for (unsigned int i = 1; i <= nr_looks; i++)
		printf("%s%.4g", i > 1 ? "," : "",
		       100 * (values[i] - values[i - 1]) * ns / ((looked[i] - looked[i - 1]) * (double)cpus));
	printf("]");
}

static void print_group(const struct group *group, unsigned int cpus)
{
	double used = (group->usage[nr_looks] - group->usage[0]) / 1e6;

	printf("\"%s\":{\"cpu_s\":%.6f,\"capped_s\":%.6f", group->name, used,
	       (group->capped[nr_looks] - group->capped[0]) / 1e6);
	print_shares("usage", group->usage, 1000, cpus);
	if (group->stat) {
		print_steps("budget_us", group->budget, 1, true);
		print_steps("demand", group->demand, 0.01, false);
		print_steps("idle", group->seen, 0.01, false);
	}
	printf("}");
}

static void print_result(unsigned int cpus)
{
	double seconds = (looked[nr_looks] - looked[0]) / 1e9;
	double tick = NSEC_PER_SEC / (double)sysconf(_SC_CLK_TCK);

	printf("{\"benchmark\":\"observe\",\"cpus\":%u,\"begin_ns\":%llu,\"seconds\":%.9f,", cpus,
	       looked[0], seconds);
	printf("\"idle_s\":%.6f,\"switches\":%llu,\"ipis\":%llu,\"at_s\":[",
	       (idle[nr_looks] - idle[0]) * tick / 1e9, switches[1] - switches[0],
	       interrupts[1] - interrupts[0]);
	for (unsigned int i = 1; i <= nr_looks; i++)
		printf("%s%.4f", i > 1 ? "," : "", (looked[i] - looked[0]) / 1e9);
	printf("]");
	print_shares("idle", idle, tick, cpus);
	printf(",\"groups\":{");
	for (unsigned int i = 0; i < nr_groups; i++) {
		printf("%s", i ? "," : "");
		print_group(&groups[i], cpus);
	}
	printf("}");
	if (params.trace)
		print_trace(cpus);
	printf("}\n");
}

int main(int argc, char **argv)
{
	unsigned int cpus;
	uint64_t begin;
	cpu_set_t set;

	parse_options(&program, argc, argv);
	if (params.now) {
		printf("%llu\n", (unsigned long long)now_ns() / 1000000);
		finish_output(&program);
		return 0;
	}
	if (!*params.parent)
		die(&program, EXIT_USAGE, "--parent is missing; give the directory of a cgroup");
	cpus = allowed_cpus(&set);
	nr_looks = params.runtime / params.interval + 0.5;
	if (!nr_looks)
		nr_looks = 1;
	find_groups();
	idle = allocate_zeroed(&program, nr_looks + 1, sizeof(*idle));
	looked = allocate_zeroed(&program, nr_looks + 1, sizeof(*looked));
	for (unsigned int i = 0; i < nr_groups; i++) {
		unsigned long long **arrays[] = { &groups[i].usage, &groups[i].budget, &groups[i].demand,
						  &groups[i].seen, &groups[i].capped };

		for (unsigned int k = 0; k < ARRAY_SIZE(arrays); k++)
			*arrays[k] = allocate_zeroed(&program, nr_looks + 1, sizeof(**arrays[k]));
	}
	if (params.trace)
		start_trace();
	begin_at(&program, params.begin);
	interrupts[0] = count_interrupts();
	begin = now_ns();
	look(0);
	for (unsigned int i = 1; i <= nr_looks; i++) {
		sleep_until(begin + i * params.interval * NSEC_PER_SEC);
		look(i);
	}
	interrupts[1] = count_interrupts();
	if (params.trace)
		stop_trace();
	print_result(cpus);
	finish_output(&program);
	return 0;
}
