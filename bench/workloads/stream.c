// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory bandwidth by the four kernels of STREAM, with threads that nobody
 * pins. Each is created once, is the first to touch its part of the arrays, and
 * works on that part in all repetitions: if it moves to another node after
 * that, its memory stays behind.
 */
#define _GNU_SOURCE
#include "options.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

/*
 * One repetition multiplies a by 2 s + s^2 = 0.9881: the values stay in range
 * however many there are, and yet one too few or too many is seen.
 */
#define SCALAR		0.41

/* For the order of roundings, which differs where multiply and add are one instruction */
#define TOLERANCE	1e-11

static const double initial[] = { 1.0, 2.0, 0.0 };

static struct {
	unsigned long threads;
	unsigned long elements;
	unsigned long times;
	bool touch_first;
	bool json;
} params = {
	.elements = 10000000,
	.times = 10,
};

static const struct option_spec specs[] = {
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "threads; by default as many as there are CPUs to run on",
	  .count = &params.threads },
	{ .letter = 'n', .name = "array-size", .unit = "a whole number of elements",
	  .min = 1, .max = 1e11,
	  .help = "size of each of the three arrays, 8 bytes an element",
	  .count = &params.elements },
	{ .letter = 'k', .name = "ntimes", .unit = A_NUMBER, .min = 2, .max = 1000,
	  .help = "repetitions, of which the first is not counted", .count = &params.times },
	{ .name = "touch-first", .flag = &params.touch_first,
	  .help = "touch all memory before there are threads: it is where the program began" },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "stream",
	.summary = "Measures memory bandwidth.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/* --------------------------------------------------------------- kernels */

/**
 * struct part - a thread's part of the arrays
 * @a:	first array
 * @b:	second array
 * @c:	third array
 * @n:	elements in each
 */
struct part {
	double *a;
	double *b;
	double *c;
	size_t n;
};

/* A loop like the others: not a call of memcpy(), which the compiler would make it. */
__attribute__((noinline, optimize("no-tree-loop-distribute-patterns")))
static void copy(const struct part *part)
{
	const double *restrict a = part->a;
	double *restrict c = part->c;

	for (size_t i = 0; i < part->n; i++)
		c[i] = a[i];
}

__attribute__((noinline))
static void scale(const struct part *part)
{
	const double *restrict c = part->c;
	double *restrict b = part->b;

	for (size_t i = 0; i < part->n; i++)
		b[i] = SCALAR * c[i];
}

__attribute__((noinline))
static void add(const struct part *part)
{
	const double *restrict a = part->a, *restrict b = part->b;
	double *restrict c = part->c;

	for (size_t i = 0; i < part->n; i++)
		c[i] = a[i] + b[i];
}

__attribute__((noinline))
static void triad(const struct part *part)
{
	const double *restrict b = part->b, *restrict c = part->c;
	double *restrict a = part->a;

	for (size_t i = 0; i < part->n; i++)
		a[i] = b[i] + SCALAR * c[i];
}

/**
 * struct kernel - a kernel
 * @label:	in the table
 * @key:	in JSON
 * @arrays:	how many it reads and writes; the line that a write fetches is not counted
 * @run:	does it
 */
static const struct kernel {
	const char *label;
	const char *key;
	int arrays;
	void (*run)(const struct part *part);
} kernels[] = {
	{ "Copy:", "copy", 2, copy },
	{ "Scale:", "scale", 2, scale },
	{ "Add:", "add", 3, add },
	{ "Triad:", "triad", 3, triad },
};

#define NR_KERNELS	ARRAY_SIZE(kernels)

/* --------------------------------------------------------------- threads */

struct span {
	uint64_t begin;
	uint64_t end;
};

/**
 * struct runner - a thread
 * @part:	its part of the arrays
 * @first:	index of its first element in them
 * @spans:	when it ran, for each repetition and kernel
 * @wrong:	elements with a wrong value
 * @array:	the array of the first of them, 0 for a
 * @index:	its index
 * @value:	its value
 * @thread:	itself
 */
struct runner {
	struct part part;
	size_t first;
	struct span *spans;
	size_t wrong;
	int array;
	size_t index;
	double value;
	pthread_t thread;
};

static pthread_barrier_t barrier;

/* What each element of a, b and c has to be at the end */
static double expected[3];

static void compute_expected(void)
{
	double a = initial[0], b = initial[1], c = initial[2];

	for (unsigned long i = 0; i < params.times; i++) {
		c = a;
		b = SCALAR * c;
		c = a + b;
		a = b + SCALAR * c;
	}
	expected[0] = a;
	expected[1] = b;
	expected[2] = c;
}

static void check(struct runner *runner)
{
	const double *array[] = { runner->part.a, runner->part.b, runner->part.c };

	for (int which = 0; which < 3; which++)
		for (size_t i = 0; i < runner->part.n; i++) {
			double value = array[which][i];

			/* Not ">": nothing is greater than a NaN. */
			if (fabs(value - expected[which]) <= TOLERANCE * expected[which])
				continue;
			if (runner->wrong++)
				continue;
			runner->array = which;
			runner->index = runner->first + i;
			runner->value = value;
		}
}

static void set_initial(const struct part *part)
{
	for (size_t i = 0; i < part->n; i++) {
		part->a[i] = initial[0];
		part->b[i] = initial[1];
		part->c[i] = initial[2];
	}
}

static void *runner_thread(void *arg)
{
	struct runner *runner = arg;
	struct part part = runner->part;
	struct span *span = runner->spans;

	pthread_setname_np(pthread_self(), "stream");
	memset(span, 0, params.times * NR_KERNELS * sizeof(*span));
	if (!params.touch_first)
		set_initial(&part);
	for (unsigned long time = 0; time < params.times; time++)
		for (size_t kernel = 0; kernel < NR_KERNELS; kernel++, span++) {
			pthread_barrier_wait(&barrier);
			span->begin = now_ns();
			kernels[kernel].run(&part);
			span->end = now_ns();
		}
#ifdef SPOIL
	/* For the test of check(): an element, such as part.b[0] */
	SPOIL *= 1.000001;
#endif
	check(runner);
	return NULL;
}

/* Not touched yet: the page of an element will be where its thread runs. */
static void *map_memory(size_t nr, size_t size)
{
	void *memory = mmap(NULL, nr * size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die(&program, EXIT_FAILED, "no memory for %zu elements of %zu bytes: %s",
		    nr, size, strerror(errno));
	return memory;
}

static void run(struct runner *runners)
{
	size_t n = params.elements, nr = params.threads, each = params.times * NR_KERNELS;
	double *a = map_memory(n, sizeof(*a));
	double *b = map_memory(n, sizeof(*b));
	double *c = map_memory(n, sizeof(*c));
	struct span *spans = map_memory(nr * each, sizeof(*spans));

	if (params.touch_first)
		set_initial(&(struct part) { a, b, c, n });
	compute_expected();
	pthread_barrier_init(&barrier, NULL, nr);
	for (size_t i = 0; i < nr; i++) {
		size_t first = n * i / nr, end = n * (i + 1) / nr;
		int err;

		runners[i].part = (struct part) { a + first, b + first, c + first, end - first };
		runners[i].first = first;
		runners[i].spans = spans + i * each;
		err = pthread_create(&runners[i].thread, NULL, runner_thread, &runners[i]);
		if (err)
			die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	}
	for (size_t i = 0; i < nr; i++)
		pthread_join(runners[i].thread, NULL);
}

/* ---------------------------------------------------------------- result */

/* Of one kernel, in s */
struct times {
	double min;
	double avg;
	double max;
};

/* From the first thread that begins until the last that ends */
static double elapsed(const struct runner *runners, size_t which)
{
	struct span all = runners->spans[which];

	for (size_t i = 1; i < params.threads; i++) {
		const struct span *span = &runners[i].spans[which];

		if (span->begin < all.begin)
			all.begin = span->begin;
		if (span->end > all.end)
			all.end = span->end;
	}
	/* A clock that has not moved must not make the rate infinite. */
	return (all.end > all.begin ? all.end - all.begin : 1) / (double)NSEC_PER_SEC;
}

/* Without the first repetition, which fills caches and TLBs */
static void summarize(const struct runner *runners, size_t kernel, struct times *times)
{
	double sum = 0;

	for (unsigned long time = 1; time < params.times; time++) {
		double one = elapsed(runners, time * NR_KERNELS + kernel);

		if (time == 1 || one < times->min)
			times->min = one;
		if (time == 1 || one > times->max)
			times->max = one;
		sum += one;
	}
	times->avg = sum / (params.times - 1);
}

static unsigned long long bytes(const struct kernel *kernel)
{
	return (unsigned long long)kernel->arrays * params.elements * sizeof(double);
}

/* In MB/s, of 10^6 bytes */
static double best_rate(const struct kernel *kernel, const struct times *times)
{
	return bytes(kernel) / times->min / 1e6;
}

static void print_text(const struct times *times, bool valid)
{
	static const char line[] = "-------------------------------------------------------------";

	printf("stream: %lu threads, 3 arrays of %lu elements, %lu repetitions\n%s\n"
	       "Function    Best Rate MB/s  Avg time     Min time     Max time\n",
	       params.threads, params.elements, params.times, line);
	for (size_t i = 0; i < NR_KERNELS; i++)
		printf("%-6s%20.1f  %11.6f  %11.6f  %11.6f\n", kernels[i].label,
		       best_rate(&kernels[i], &times[i]), times[i].avg, times[i].min, times[i].max);
	printf("%s\n", line);
	if (valid)
		printf("All elements have the value that they should have.\n");
}

static void print_json(const struct times *times, bool valid)
{
	printf("{\"benchmark\":\"stream\",\"functions\":{");
	for (size_t i = 0; i < NR_KERNELS; i++)
		printf("%s\"%s\":{\"best_mb_s\":%.3f,\"avg_s\":%.9f,\"min_s\":%.9f,"
		       "\"max_s\":%.9f,\"bytes\":%llu}", i ? "," : "", kernels[i].key,
		       best_rate(&kernels[i], &times[i]), times[i].avg, times[i].min, times[i].max,
		       bytes(&kernels[i]));
	printf("},\"valid\":%s,\"parameters\":{\"threads\":%lu,\"array_size\":%lu,"
	       "\"ntimes\":%lu}}\n",
	       valid ? "true" : "false", params.threads, params.elements, params.times);
}

static size_t report_wrong(const struct runner *runners)
{
	const struct runner *first = NULL;
	size_t wrong = 0;

	for (size_t i = 0; i < params.threads; i++) {
		if (runners[i].wrong && !first)
			first = &runners[i];
		wrong += runners[i].wrong;
	}
	if (first)
		fprintf(stderr, "stream: wrong result in %zu elements; the first is %c[%zu]: "
			"%.15g instead of %.15g\n", wrong, 'a' + first->array, first->index,
			first->value, expected[first->array]);
	return wrong;
}

static unsigned long usable_cpus(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return 1;
	return CPU_COUNT(&cpus);
}

int main(int argc, char **argv)
{
	struct times times[NR_KERNELS];
	struct runner *runners;
	size_t wrong;

	params.threads = usable_cpus();
	parse_options(&program, argc, argv);
	if (params.elements < params.threads)
		die(&program, EXIT_USAGE, "--array-size: %lu is not accepted with %lu threads; "
		    "give one element for each at least", params.elements, params.threads);
	runners = calloc(params.threads, sizeof(*runners));
	if (!runners)
		die(&program, EXIT_FAILED, "no memory for %lu threads", params.threads);
	run(runners);
	for (size_t i = 0; i < NR_KERNELS; i++)
		summarize(runners, i, &times[i]);
	wrong = report_wrong(runners);
	if (params.json)
		print_json(times, !wrong);
	else
		print_text(times, !wrong);
	finish_output(&program);
	return wrong ? EXIT_FAILED : 0;
}
