// SPDX-License-Identifier: GPL-2.0-only
/*
 * An OpenMP program that meets at a barrier again and again, as solvers do.
 *
 * Barriers are those of the OpenMP library, whatever it does to wait; under
 * OMP_WAIT_POLICY=active it spins. In each round the threads share a fixed
 * amount of work, so rounds a second tell how fast the program is, with however
 * many threads. One round is as slow as the slowest of them: while one thread is
 * not on a CPU, all others wait.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <omp.h>

static struct {
	unsigned long threads;		/* 0: as many as CPUs it may use */
	unsigned long units;
	double runtime;			/* s */
	unsigned long begin;		/* ms of the clock */
	const char *name;
	bool pin;
	bool json;
} params = {
	.units = 64,
	.runtime = 1,
	.name = "",
};

static const struct option_spec specs[] = {
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "threads, instead of one for each CPU that it may use", .count = &params.threads },
	{ .name = "units", .unit = A_NUMBER, .min = 0, .max = 100000000,
	  .help = "computation of a round, of all threads together, in units of about 1000 instructions",
	  .count = &params.units },
	{ .letter = 'r', .name = "runtime", .unit = SECONDS,
	  .min = 0.001, .max = 86400,
	  .help = "how long to run", .seconds = &params.runtime },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "name", .unit = "a name", .help = "of its threads, for a trace", .text = &params.name },
	{ .name = "pin", .help = "pin each thread to a CPU of its own", .flag = &params.pin },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "ompbarrier",
	.summary = "Meets at OpenMP's barrier, and counts how often.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

int main(int argc, char **argv)
{
	unsigned long rounds = 0, threads;
	unsigned int over = 0;
	uint64_t began = 0, end = 0;
	cpu_set_t allowed;
	double seconds;

	parse_options(&program, argc, argv);
	threads = params.threads ? params.threads : allowed_cpus(&allowed);
	allowed_cpus(&allowed);
	omp_set_dynamic(0);
	#pragma omp parallel num_threads(threads)
	{
		unsigned long me = omp_get_thread_num();
		/* The first ones take what cannot be shared evenly. */
		unsigned long share = params.units / threads + (me < params.units % threads);

		name_thread(params.name);
		if (params.pin)
			pin_to(&allowed, me);
		begin_at(&program, params.begin);
		#pragma omp barrier
		#pragma omp master
		began = now_ns();
		while (!LOAD(over)) {
			compute(share);
			#pragma omp barrier
			/* Nobody looks at it before the next barrier, so all see the same. */
			#pragma omp master
			{
				rounds++;
				end = now_ns();
				if (end - began >= params.runtime * NSEC_PER_SEC)
					STORE(over, 1);
			}
			#pragma omp barrier
		}
	}
	seconds = (end - began) / 1e9;
	if (params.json)
		printf("{\"benchmark\":\"ompbarrier\",\"name\":\"%s\",\"threads\":%lu,"
		       "\"operations\":%lu,\"seconds\":%.9f,\"rate\":%.6f}\n", params.name, threads,
		       rounds, seconds, rounds / seconds);
	else
		printf("%lu rounds of %lu threads in %.3f s: %.1f a second\n", rounds, threads, seconds,
		       rounds / seconds);
	finish_output(&program);
	return 0;
}
