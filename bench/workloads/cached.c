// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that are bound by their caches. Each has a buffer of its own, which it
 * walks again and again, and shares nothing with the others: a thread that has a
 * cache to itself is faster than two that push each other's lines out of one.
 */
#define _GNU_SOURCE
#include "options.h"

#include <pthread.h>
#include <sys/mman.h>

#define LINE	64

static struct {
	unsigned long threads;
	unsigned long kib;
	unsigned long passes;
	bool json;
} params = {
	.threads = 4,
	.kib = 1024,
	.passes = 10,
};

static const struct option_spec specs[] = {
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "threads", .count = &params.threads },
	{ .letter = 'k', .name = "footprint", .unit = "a whole number of KiB",
	  .min = 1, .max = 1 << 20, .help = "buffer of each thread", .count = &params.kib },
	{ .letter = 'n', .name = "passes", .unit = A_NUMBER, .min = 1, .max = 1000000,
	  .help = "walks through it that are measured, after a first one that is not",
	  .count = &params.passes },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "cached",
	.summary = "Measures threads that walk through buffers of their own.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct walker - a thread
 * @begin:	when its measured walks began [ns]
 * @end:	when they ended
 * @sum:	of all that it read
 * @thread:	itself
 */
struct walker {
	uint64_t begin;
	uint64_t end;
	uint64_t sum;
	pthread_t thread;
};

static pthread_barrier_t barrier;

/* A line after the other, each with a sum to add to: as much as reading it costs. */
static uint64_t walk(uint64_t *buffer, size_t words)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < words; i += LINE / sizeof(*buffer)) {
		sum += buffer[i];
		buffer[i + 1] += sum;
	}
	return sum;
}

static void *walker_thread(void *arg)
{
	size_t words = params.kib * 1024 / sizeof(uint64_t);
	struct walker *walker = arg;
	uint64_t *buffer = mmap(NULL, words * sizeof(*buffer), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		die(&program, EXIT_FAILED, "no memory for %lu KiB: %s", params.kib,
		    strerror(errno));
	pthread_setname_np(pthread_self(), "cached");
	for (size_t i = 0; i < words; i++)
		buffer[i] = i % 8 ? 0 : 1;
	walk(buffer, words);
	pthread_barrier_wait(&barrier);
	walker->begin = now_ns();
	for (unsigned long pass = 0; pass < params.passes; pass++)
		walker->sum += walk(buffer, words);
	walker->end = now_ns();
	return NULL;
}

int main(int argc, char **argv)
{
	double slowest = 0, all = 0, inverse = 0, lines;
	struct walker *walkers;
	bool valid = true;

	parse_options(&program, argc, argv);
	walkers = calloc(params.threads, sizeof(*walkers));
	if (!walkers)
		die(&program, EXIT_FAILED, "no memory for %lu threads", params.threads);
	pthread_barrier_init(&barrier, NULL, params.threads);
	for (unsigned long i = 0; i < params.threads; i++) {
		int err = pthread_create(&walkers[i].thread, NULL, walker_thread, &walkers[i]);

		if (err)
			die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	}
	lines = (double)params.kib * 1024 / LINE * params.passes;
	for (unsigned long i = 0; i < params.threads; i++) {
		double rate;

		pthread_join(walkers[i].thread, NULL);
		/* A clock that has not moved must not make the rate infinite. */
		rate = lines * 1e3 / (walkers[i].end > walkers[i].begin ?
				      walkers[i].end - walkers[i].begin : 1);
		all += rate;
		inverse += 1 / rate;
		if (!i || rate < slowest)
			slowest = rate;
		/* Each line has a one in it, which is read in each walk. */
		valid &= walkers[i].sum == (uint64_t)lines;
	}
	if (params.json)
		printf("{\"benchmark\":\"cached\",\"all_m_s\":%.3f,\"hmean_m_s\":%.3f,"
		       "\"slowest_m_s\":%.3f,\"valid\":%s,\"parameters\":{\"threads\":%lu,"
		       "\"footprint\":%lu,\"passes\":%lu}}\n", all, params.threads / inverse,
		       slowest, valid ? "true" : "false", params.threads, params.kib,
		       params.passes);
	else
		printf("cached: %lu threads, %lu KiB each, %lu walks\n"
		       "10^6 lines a second: %.3f all together, %.3f a thread, %.3f the slowest\n",
		       params.threads, params.kib, params.passes, all,
		       params.threads / inverse, slowest);
	finish_output(&program);
	if (!valid)
		die(&program, EXIT_FAILED, "a thread read wrong values");
	return 0;
}
