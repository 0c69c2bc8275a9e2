// SPDX-License-Identifier: GPL-2.0-only
/*
 * Batch work of three kinds, as it runs beside a service.
 *
 *   compute  threads that never stop
 *   build    what make -j does: as many processes at a time as there are workers,
 *            each one forked, executed, given some memory of its own to fill, and
 *            gone after a while
 *   bursty   threads that compute for a part of each period, all at the same time,
 *            and sleep for the rest: the average says little about them
 *
 * It runs until it is killed, or for --runtime, and then prints how many units of
 * work it has done.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* What a step of a build computes between two pages, and threads between two looks at the clock */
#define UNITS_A_LOOK	20
#define PAGE		4096

static struct {
	const char *kind;
	unsigned long workers;		/* 0: as many as CPUs */
	unsigned long units;
	unsigned long memory;		/* KB */
	unsigned long period;		/* ms */
	unsigned long busy;		/* % */
	double runtime;			/* s */
	unsigned long begin;		/* ms of the clock */
	bool step;
	bool json;
} params = {
	.kind = "compute",
	.units = 1000,
	.memory = 1024,
	.period = 200,
	.busy = 50,
};

static const struct option_spec specs[] = {
	{ .name = "kind", .unit = "compute, build or bursty", .help = "what to do", .text = &params.kind },
	{ .name = "workers", .unit = A_NUMBER, .min = 1, .max = 4096,
	  .help = "threads or processes, instead of one for each CPU", .count = &params.workers },
	{ .name = "units", .unit = A_NUMBER, .min = 1, .max = 100000000,
	  .help = "build: computation of a process, in units of about 1000 instructions",
	  .count = &params.units },
	{ .name = "memory", .unit = "a whole number of KB", .min = 4, .max = 1048576,
	  .help = "build: memory that a process fills", .count = &params.memory },
	{ .name = "period", .unit = "a whole number of milliseconds", .min = 1, .max = 60000,
	  .help = "bursty: from one burst to the next", .count = &params.period },
	{ .name = "busy", .unit = "a whole number of percent", .min = 1, .max = 100,
	  .help = "bursty: part of the period", .count = &params.busy },
	{ .name = "runtime", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "when to end by itself", .seconds = &params.runtime },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "step", .help = "be one process of a build", .flag = &params.step },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "sidejob",
	.summary = "Does batch work beside something else.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/* Shared by all, processes too */
static struct {
	unsigned long done APART;
} *counts;

static uint64_t end_ns;

static bool is_over(void)
{
	return end_ns && now_ns() >= end_ns;
}

static void *computing_thread(void *arg)
{
	bool bursty = arg;
	uint64_t period = params.period * 1000000, busy = period * params.busy / 100;

	while (!is_over()) {
		uint64_t now = now_ns();

		/* By the clock's own multiples: all threads, and all sidejobs, at once */
		if (bursty && now % period >= busy) {
			sleep_until(now - now % period + period);
			continue;
		}
		compute(UNITS_A_LOOK);
		ADD(counts->done, UNITS_A_LOOK);
	}
	return NULL;
}

static void run_threads(bool bursty)
{
	pthread_t *threads = allocate_zeroed(&program, params.workers, sizeof(*threads));

	for (unsigned long i = 0; i < params.workers; i++) {
		int err = pthread_create(&threads[i], NULL, computing_thread, bursty ? counts : NULL);

		if (err)
			die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	}
	for (unsigned long i = 0; i < params.workers; i++)
		pthread_join(threads[i], NULL);
}

/* Fills its memory page by page, as a compiler does, and computes in between. */
static void build_step(void)
{
	unsigned long pages = params.memory * 1024 / PAGE, each = params.units / pages;
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die(&program, EXIT_FAILED, "no memory for a step: %s", strerror(errno));
	for (unsigned long i = 0; i < pages; i++) {
		for (unsigned int line = 0; line < PAGE; line += 64)
			*(volatile char *)(memory + i * PAGE + line) = i;
		compute(each);
	}
	compute(params.units - each * pages);
}

static void start_step(void)
{
	char units[24], memory[24];
	pid_t pid = fork();

	if (pid < 0)
		die(&program, EXIT_FAILED, "fork: %s", strerror(errno));
	if (pid)
		return;
	snprintf(units, sizeof(units), "%lu", params.units);
	snprintf(memory, sizeof(memory), "%lu", params.memory);
	execl("/proc/self/exe", "sidejob", "--step", "--units", units, "--memory", memory, (char *)NULL);
	_exit(EXIT_FAILED);
}

static void run_build(void)
{
	unsigned long running = 0;

	while (!is_over()) {
		int status;

		for (; running < params.workers; running++)
			start_step();
		if (wait(&status) < 0)
			die(&program, EXIT_FAILED, "wait: %s", strerror(errno));
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			die(&program, EXIT_FAILED, "a step failed");
		running--;
		counts->done += params.units;
	}
	while (running--)
		wait(NULL);
}

int main(int argc, char **argv)
{
	uint64_t begin;
	cpu_set_t set;
	double seconds;

	parse_options(&program, argc, argv);
	if (params.step) {
		build_step();
		return 0;
	}
	if (!params.workers)
		params.workers = allowed_cpus(&set);
	begin_at(&program, params.begin);
	begin = now_ns();
	if (params.runtime)
		end_ns = begin + params.runtime * NSEC_PER_SEC;
	counts = allocate_zeroed(&program, 1, sizeof(*counts));
	if (!strcmp(params.kind, "compute"))
		run_threads(false);
	else if (!strcmp(params.kind, "bursty"))
		run_threads(true);
	else if (!strcmp(params.kind, "build"))
		run_build();
	else
		die(&program, EXIT_USAGE, "--kind: '%s' is not compute, build or bursty", params.kind);
	seconds = (now_ns() - begin) / 1e9;
	if (params.json)
		printf("{\"benchmark\":\"sidejob\",\"kind\":\"%s\",\"workers\":%lu,\"units\":%lu,"
		       "\"seconds\":%.9f}\n", params.kind, params.workers, counts->done, seconds);
	else
		printf("%lu units in %.3f s: %.1f units/s\n", counts->done, seconds, counts->done / seconds);
	finish_output(&program);
	return 0;
}
