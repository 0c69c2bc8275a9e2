// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pairs of threads that talk to each other. One changes a buffer that both share,
 * sends a message through a pipe, and waits for the answer; the other one changes the
 * buffer, too, and answers. A pair in one cache passes the buffer on there; of a pair
 * in two, each waits for lines of the other.
 */
#define _GNU_SOURCE
#include "options.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE	64

static struct {
	unsigned long pairs;
	unsigned long kib;
	unsigned long messages;
	bool json;
} params = {
	.pairs = 4,
	.kib = 16,
	.messages = 1000,
};

static const struct option_spec specs[] = {
	{ .letter = 'p', .name = "pairs", .unit = A_NUMBER, .min = 1, .max = 512,
	  .help = "pairs of threads", .count = &params.pairs },
	{ .letter = 'k', .name = "shared", .unit = "a whole number of KiB", .min = 1,
	  .max = 1 << 16, .help = "buffer that a pair shares", .count = &params.kib },
	{ .letter = 'm', .name = "messages", .unit = A_NUMBER, .min = 2, .max = 1e9,
	  .help = "messages of each pair, with the answers", .count = &params.messages },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "pairs",
	.summary = "Measures pairs of threads that answer each other through pipes.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct pair - two threads
 * @to:		pipe to the one that answers
 * @from:	pipe back
 * @buffer:	what they share
 * @begin:	of the measured exchange [ns]
 * @end:	of it
 * @first:	the one that begins, and creates the other one
 */
struct pair {
	int to[2];
	int from[2];
	uint64_t *buffer;
	uint64_t begin;
	uint64_t end;
	pthread_t first;
};

static pthread_barrier_t barrier;

static void change(struct pair *pair)
{
	size_t words = params.kib * 1024 / sizeof(uint64_t);

	for (size_t i = 0; i < words; i += LINE / sizeof(uint64_t))
		pair->buffer[i]++;
}

static void pass_on(int fd)
{
	if (write(fd, "", 1) != 1)
		die(&program, EXIT_FAILED, "sending a message: %s", strerror(errno));
}

static void wait_for(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		die(&program, EXIT_FAILED, "receiving a message: %s", strerror(errno));
}

static void *answer(void *arg)
{
	struct pair *pair = arg;

	pthread_setname_np(pthread_self(), "pairs-answer");
	for (unsigned long i = 0; i < params.messages / 2; i++) {
		wait_for(pair->to[0]);
		change(pair);
		pass_on(pair->from[1]);
	}
	return NULL;
}

static void *ask(void *arg)
{
	struct pair *pair = arg;
	pthread_t second;
	int err;

	pthread_setname_np(pthread_self(), "pairs-ask");
	err = pthread_create(&second, NULL, answer, pair);
	if (err)
		die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	pthread_barrier_wait(&barrier);
	pair->begin = now_ns();
	for (unsigned long i = 0; i < params.messages / 2; i++) {
		change(pair);
		pass_on(pair->to[1]);
		wait_for(pair->from[0]);
	}
	pair->end = now_ns();
	pthread_join(second, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t begin = UINT64_MAX, end = 0;
	bool valid = true;
	struct pair *pairs;
	double rate;

	parse_options(&program, argc, argv);
	params.messages &= ~1UL;
	pairs = calloc(params.pairs, sizeof(*pairs));
	if (!pairs)
		die(&program, EXIT_FAILED, "no memory for %lu pairs", params.pairs);
	pthread_barrier_init(&barrier, NULL, params.pairs);
	for (unsigned long i = 0; i < params.pairs; i++) {
		struct pair *pair = &pairs[i];
		int err;

		pair->buffer = mmap(NULL, params.kib * 1024, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pair->buffer == MAP_FAILED || pipe(pair->to) || pipe(pair->from))
			die(&program, EXIT_FAILED, "a pair's buffer and pipes: %s",
			    strerror(errno));
		err = pthread_create(&pair->first, NULL, ask, pair);
		if (err)
			die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	}
	for (unsigned long i = 0; i < params.pairs; i++) {
		struct pair *pair = &pairs[i];

		pthread_join(pair->first, NULL);
		begin = pair->begin < begin ? pair->begin : begin;
		end = pair->end > end ? pair->end : end;
		/* Each message is a change of each line. */
		for (size_t word = 0; word < params.kib * 1024 / sizeof(uint64_t);
		     word += LINE / sizeof(uint64_t))
			valid &= pair->buffer[word] == params.messages;
	}
	/* A clock that has not moved must not make the rate infinite. */
	rate = (double)params.pairs * params.messages * NSEC_PER_SEC /
	       (end > begin ? end - begin : 1);
	if (params.json)
		printf("{\"benchmark\":\"pairs\",\"messages_s\":%.3f,\"valid\":%s,"
		       "\"parameters\":{\"pairs\":%lu,\"shared\":%lu,\"messages\":%lu}}\n",
		       rate, valid ? "true" : "false", params.pairs, params.kib,
		       params.messages);
	else
		printf("pairs: %lu pairs, %lu KiB shared, %lu messages each\n"
		       "%.0f messages a second\n", params.pairs, params.kib, params.messages,
		       rate);
	finish_output(&program);
	if (!valid)
		die(&program, EXIT_FAILED, "a buffer has wrong values");
	return 0;
}
