// SPDX-License-Identifier: GPL-2.0-only
/*
 * Headroom kept from user space, as operators do it without help of the kernel.
 *
 * Every few seconds it looks how much CPU time the side group used and how much
 * was idle, and sets the side group's cpu.max to
 *
 *	side + idle - headroom, but at least the floor
 *
 * of the machine. Side and idle are the lesser of the average over a window and
 * the last interval, so it takes away at once what is gone, and gives slowly.
 * This is the rule, and these are the defaults, of resource control agents in
 * the field: 5 s, a floor of 5 %, periods of 10 ms, 20 % headroom.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <fcntl.h>

#define MAX_STEPS	1024

static struct {
	const char *group;
	double headroom;	/* % */
	double floor;		/* % */
	double interval;	/* s */
	double window;		/* s */
	unsigned long period;	/* us */
	double runtime;		/* s */
} params = {
	.group = "",
	.headroom = 20,
	.floor = 5,
	.interval = 5,
	.window = 5,
	.period = 10000,
};

#define PERCENT		"a decimal number of percent"

static const struct option_spec specs[] = {
	{ .name = "group", .unit = "the directory of a cgroup", .help = "whom to hold back",
	  .text = &params.group },
	{ .name = "headroom", .unit = PERCENT, .min = 0, .max = 100,
	  .help = "of the machine, to be kept idle", .seconds = &params.headroom },
	{ .name = "floor", .unit = PERCENT, .min = 0.1, .max = 100,
	  .help = "of the machine, which the group may always use", .seconds = &params.floor },
	{ .name = "interval", .unit = SECONDS, .min = 0.01, .max = 86400,
	  .help = "from one look to the next", .seconds = &params.interval },
	{ .name = "window", .unit = SECONDS, .min = 0.01, .max = 86400,
	  .help = "of the average", .seconds = &params.window },
	{ .name = "period", .unit = "a whole number of microseconds", .min = 1000, .max = 1000000,
	  .help = "of cpu.max", .count = &params.period },
	{ .name = "runtime", .unit = SECONDS, .min = 0.01, .max = 86400,
	  .help = "when to end by itself", .seconds = &params.runtime },
};

static const struct program program = {
	.name = "userloop",
	.summary = "Holds a cgroup back so that some of the machine stays idle, by its cpu.max.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/* What is seen at one look: CPU time in s since some point */
struct look {
	double time;
	double side;
	double idle;
};

static void read_all(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		die(&program, EXIT_FAILED, "%s: %s", path, strerror(errno));
	text[n] = 0;
	close(fd);
}

static struct look look(void)
{
	struct look now = { .time = now_ns() / 1e9 };
	unsigned long long usage, idle, iowait;
	char path[4096], text[4096], *at;

	snprintf(path, sizeof(path), "%s/cpu.stat", params.group);
	read_all(path, text, sizeof(text));
	at = strstr(text, "usage_usec ");
	if (!at || sscanf(at, "usage_usec %llu", &usage) != 1)
		die(&program, EXIT_FAILED, "%s has no usage_usec", path);
	read_all("/proc/stat", text, sizeof(text));
	if (sscanf(text, "cpu %*u %*u %*u %llu %llu", &idle, &iowait) != 2)
		die(&program, EXIT_FAILED, "/proc/stat has no line of all CPUs");
	now.side = usage / 1e6;
	now.idle = (idle + iowait) / (double)sysconf(_SC_CLK_TCK);
	return now;
}

static double lesser(double a, double b)
{
	return a < b ? a : b;
}

/* The share of the machine, 0 to 1, that the group shall have after these looks */
static double share(const struct look *newest, const struct look *before,
		    const struct look *oldest, long cpus)
{
	double last = (newest->time - before->time) * cpus, all = (newest->time - oldest->time) * cpus;
	double side = lesser((newest->side - before->side) / last, (newest->side - oldest->side) / all);
	double idle = lesser((newest->idle - before->idle) / last, (newest->idle - oldest->idle) / all);
	double found = side + idle - params.headroom / 100;

	/* Idle time is counted in ticks, so a short window may show more than there was. */
	found = lesser(found, 1);
	return found > params.floor / 100 ? found : params.floor / 100;
}

static void set_max(double found, long cpus)
{
	char path[4096], text[64];
	int fd, n;

	snprintf(path, sizeof(path), "%s/cpu.max", params.group);
	/* The kernel takes no less than a millisecond. */
	n = snprintf(text, sizeof(text), "%.0f %lu", found * cpus * params.period < 1000 ? 1000 :
		     found * cpus * params.period, params.period);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, n) != n)
		die(&program, EXIT_FAILED, "writing '%s' to %s: %s", text, path, strerror(errno));
	close(fd);
}

int main(int argc, char **argv)
{
	static struct look looks[MAX_STEPS];
	unsigned int nr = 1, depth;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t begin = now_ns();

	parse_options(&program, argc, argv);
	if (!*params.group)
		die(&program, EXIT_USAGE, "--group is missing; give the directory of a cgroup");
	if (params.window < params.interval || params.window / params.interval > MAX_STEPS - 1)
		die(&program, EXIT_USAGE, "--window is not 1 to %d intervals", MAX_STEPS - 1);
	depth = params.window / params.interval + 0.5;
	looks[0] = look();
	for (uint64_t next = begin;;) {
		next += params.interval * NSEC_PER_SEC;
		if (params.runtime && next > begin + params.runtime * NSEC_PER_SEC)
			return 0;
		sleep_until(next);
		memmove(&looks[1], &looks[0], (nr < depth ? nr : depth) * sizeof(looks[0]));
		looks[0] = look();
		nr = nr < depth ? nr + 1 : depth + 1;
		set_max(share(&looks[0], &looks[1], &looks[nr - 1], cpus), cpus);
	}
}
