// SPDX-License-Identifier: GPL-2.0-only
/*
 * A barrier program: threads that compute for a while, and then spin until all of
 * them have. Whoever comes last lets the others go on. If one of them waits for a
 * CPU, all others wait for it, and use theirs up with waiting.
 *
 * The work is a number of loops, found out from the CPU time that they take, so
 * that it is the same whoever else runs on the machine.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define NSEC_PER_USEC	1000ULL

static struct {
	unsigned long threads;
	unsigned long work;
	double seconds;
	double warmup;
	bool json;
} params = {
	.threads = 4,
	.work = 100,
	.seconds = 1,
};

static const struct option_spec specs[] = {
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "threads", .count = &params.threads },
	{ .letter = 'w', .name = "work", .unit = "a whole number of microseconds", .min = 1,
	  .max = 1e6, .help = "CPU time that each thread computes between two barriers",
	  .count = &params.work },
	{ .letter = 'd', .name = "duration", .unit = "a number of seconds", .min = 0.001,
	  .max = 86400, .help = "how long to measure", .seconds = &params.seconds },
	{ .letter = 'u', .name = "warmup", .unit = "a number of seconds", .min = 0,
	  .max = 86400, .help = "how long to run before that", .seconds = &params.warmup },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "barrier",
	.summary = "Measures how often threads that spin for each other meet.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/* What all threads write is apart from what they wait for. */
static struct {
	atomic_ulong arrived APART;
	atomic_ulong generation APART;
	atomic_bool stop APART;
} barrier;

/* What the last to arrive keeps; the barrier hands it on. */
static struct {
	uint64_t first_ns, begin_ns, end_ns;
	uint64_t begin_cpu, end_cpu;
	unsigned long barriers;
} measured;

static unsigned long loops;

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static void burn(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		__asm__ volatile("" : "+r"(i));
}

/* Loops that take params.work of CPU time. The fastest of some tries was disturbed least. */
static unsigned long calibrate(void)
{
	double best = 0;
	unsigned long n = 1000;

	for (int i = 0; i < 20; i++) {
		uint64_t begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID), ns;

		burn(n);
		ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		if (ns < 200 * NSEC_PER_USEC) {
			n *= 2;
			continue;
		}
		if (n / (double)ns > best)
			best = n / (double)ns;
	}
	n = best * params.work * NSEC_PER_USEC;
	return n ? n : 1;
}

/* The last one: everybody has arrived, and nobody goes on before it says so. */
static void all_here(void)
{
	uint64_t now = now_ns();

	if (!measured.first_ns)
		measured.first_ns = now;
	if (!measured.begin_ns) {
		if (now < measured.first_ns + params.warmup * NSEC_PER_SEC)
			return;
		measured.begin_ns = now;
		measured.begin_cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		return;
	}
	measured.barriers++;
	if (now < measured.begin_ns + params.seconds * NSEC_PER_SEC)
		return;
	measured.end_ns = now;
	measured.end_cpu = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	atomic_store(&barrier.stop, true);
}

static void wait_for_all(void)
{
	unsigned long generation = atomic_load(&barrier.generation);

	if (atomic_fetch_add(&barrier.arrived, 1) + 1 == params.threads) {
		all_here();
		atomic_store(&barrier.arrived, 0);
		atomic_store(&barrier.generation, generation + 1);
		return;
	}
	while (atomic_load_explicit(&barrier.generation, memory_order_acquire) == generation)
		relax();
}

static void *run(void *unused)
{
	(void)unused;
	do {
		burn(loops);
		wait_for_all();
	} while (!atomic_load(&barrier.stop));
	return NULL;
}

static void report(void)
{
	double seconds = (measured.end_ns - measured.begin_ns) / (double)NSEC_PER_SEC;
	double cpu = (measured.end_cpu - measured.begin_cpu) / (double)NSEC_PER_SEC;
	double rate = measured.barriers / seconds;

	if (params.json) {
		printf("{\"benchmark\":\"barrier\",\"barriers_per_s\":%.3f,\"barriers\":%lu,"
		       "\"runtime_s\":%.9f,\"cpu_s\":%.9f,"
		       "\"parameters\":{\"threads\":%lu,\"work\":%lu,\"duration\":%.9g,\"warmup\":%.9g}}\n",
		       rate, measured.barriers, seconds, cpu, params.threads, params.work,
		       params.seconds, params.warmup);
	} else {
		printf("%.1f barriers/s: %lu in %.3f s, with %.3f s of CPU time\n",
		       rate, measured.barriers, seconds, cpu);
	}
	finish_output(&program);
}

int main(int argc, char **argv)
{
	pthread_t *threads;
	int error;

	parse_options(&program, argc, argv);
	loops = calibrate();

	threads = calloc(params.threads, sizeof(*threads));
	if (!threads)
		die(&program, EXIT_FAILED, "memory for %lu threads", params.threads);
	for (unsigned long i = 1; i < params.threads; i++) {
		error = pthread_create(&threads[i], NULL, run, NULL);
		if (error)
			die(&program, EXIT_FAILED, "thread %lu: %s", i, strerror(error));
	}
	run(NULL);
	for (unsigned long i = 1; i < params.threads; i++)
		pthread_join(threads[i], NULL);
	report();
	return 0;
}
