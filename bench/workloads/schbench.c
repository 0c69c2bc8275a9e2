// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wakeup and request latency under the message pattern of schbench: a worker
 * queues itself at its messenger, wakes it, and sleeps; the messenger takes the
 * whole queue, and wakes each worker in it. Both sleep on futexes.
 *
 * A request is a fixed amount of computation. Nothing here runs until a clock
 * says so: where time is virtual, that would measure the clock.
 *
 * There is nothing to wake at the end. Whoever is queued is woken soon, whether
 * or not the run is over; then it looks, and leaves. The messenger stays until
 * its last worker has left.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>

static struct {
	unsigned long message_threads;
	unsigned long worker_threads;
	unsigned long cache_footprint;	/* KB */
	unsigned long operations;
	unsigned long cputime;
	unsigned long sleep_usec;
	double runtime;			/* s */
	double warmuptime;		/* s */
	unsigned long requests;		/* 0: until @runtime is over */
	bool runtime_given;
	bool json;
} params = {
	.message_threads = 1,
	.worker_threads = 4,
	.cache_footprint = 256,
	.operations = 5,
	.runtime = 1,
};

static const struct option_spec specs[] = {
	{ .letter = 'm', .name = "message-threads", .unit = A_NUMBER, .min = 1, .max = 64,
	  .help = "messengers", .count = &params.message_threads },
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "workers of each messenger", .count = &params.worker_threads },
	{ .name = "worker-threads", .unit = A_NUMBER, .min = 1, .max = 1024,
	  .help = "the same as --threads", .count = &params.worker_threads },
	{ .letter = 'F', .name = "cache_footprint", .unit = "a whole number of KB",
	  .min = 1, .max = 65536,
	  .help = "size of a worker's three matrices", .count = &params.cache_footprint },
	{ .letter = 'n', .name = "operations", .unit = A_NUMBER, .min = 0, .max = 1000000,
	  .help = "matrix multiplications of a request", .count = &params.operations },
	{ .letter = 'c', .name = "cputime", .unit = A_NUMBER, .min = 0, .max = 1000000000,
	  .help = "computation of a request besides these, in units of about 1000 instructions",
	  .count = &params.cputime },
	{ .letter = 's', .name = "sleep_usec", .unit = "a whole number of microseconds",
	  .min = 0, .max = 1000000,
	  .help = "sleep of a request before its computation", .count = &params.sleep_usec },
	{ .letter = 'r', .name = "runtime", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "time to measure for, after the warm-up",
	  .seconds = &params.runtime, .given = &params.runtime_given },
	{ .letter = 'w', .name = "warmuptime", .unit = SECONDS, .min = 0, .max = 86400,
	  .help = "time to run before measuring", .seconds = &params.warmuptime },
	{ .name = "requests", .unit = A_NUMBER, .min = 1, .max = 1e12,
	  .help = "instead of --runtime, measure this many requests of all workers together",
	  .count = &params.requests },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "schbench",
	.summary = "Measures wakeup and request latency of workers woken by messengers.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/* ------------------------------------------------------------- histogram */

/*
 * Buckets are 1 ns wide below 256 ns. Above, there are 128 for each power of
 * two, so none is wider than 1/128 of the values in it, up to 2^40 ns: 18 min.
 */
#define SUB_BITS	7
#define SUB_BUCKETS	(1 << SUB_BITS)
#define MAX_BITS	40
#define NR_BUCKETS	((MAX_BITS - SUB_BITS + 1) * SUB_BUCKETS)

/* Times in ns; what is beyond the last bucket is in it, but @max is exact. */
struct histogram {
	uint64_t samples;
	uint64_t min;
	uint64_t max;
	uint64_t bucket[NR_BUCKETS];
};

static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift = 0;

	if (value >> MAX_BITS)
		return NR_BUCKETS - 1;
	if (value >= 2 * SUB_BUCKETS)
		shift = 63 - __builtin_clzll(value) - SUB_BITS;
	return shift * SUB_BUCKETS + (value >> shift);
}

static uint64_t middle_of(unsigned int bucket)
{
	unsigned int shift = bucket < 2 * SUB_BUCKETS ? 0 : bucket / SUB_BUCKETS - 1;
	uint64_t least = (uint64_t)(bucket - shift * SUB_BUCKETS) << shift;

	return least + (1ULL << shift) / 2;
}

static void record(struct histogram *histogram, uint64_t value)
{
	if (!histogram->samples || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->samples++;
	histogram->bucket[bucket_of(value)]++;
}

static void merge(struct histogram *into, const struct histogram *from)
{
	if (!from->samples)
		return;
	if (!into->samples || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->samples += from->samples;
	for (unsigned int i = 0; i < NR_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

/* The value that @permille of 1000 samples do not exceed, as the middle of its bucket */
static uint64_t percentile(const struct histogram *histogram, unsigned int permille)
{
	uint64_t rank = (histogram->samples * permille + 999) / 1000, seen = 0, value;
	unsigned int i = 0;

	while ((seen += histogram->bucket[i]) < rank)
		i++;
	value = middle_of(i);
	if (value < histogram->min)
		return histogram->min;
	return value > histogram->max ? histogram->max : value;
}

/* --------------------------------------------------------------- threads */

/**
 * struct messenger - a messenger
 * @bell:	it sleeps on this while it is 0
 * @queue:	workers that wait for a message, the last first
 * @working:	workers that have not left
 * @workers:	all of its workers
 * @thread:	itself
 */
struct messenger {
	unsigned int bell APART;
	struct worker *queue;
	unsigned long working;
	struct worker *workers;
	pthread_t thread;
};

/**
 * struct worker - a worker
 * @message:	it sleeps on this while it is 0
 * @next:	the one behind it in the queue
 * @posted:	when the messenger was about to wake it
 * @messenger:	whose worker it is
 * @matrix:	three matrices, one after the other
 * @awake:	messages, of those in @wakeup, that came before it slept
 * @last_end:	end of its last measured request
 * @wakeup:	from @posted until it ran
 * @request:	from then until its request was done
 * @thread:	itself
 */
struct worker {
	unsigned int message APART;
	struct worker *next;
	uint64_t posted;
	struct messenger *messenger;
	unsigned long *matrix;
	uint64_t awake;
	uint64_t last_end;
	struct histogram wakeup;
	struct histogram request;
	pthread_t thread;
};

/* Requests that somebody has begun, of params.requests */
static unsigned long begun APART;

static enum phase { WARM_UP, MEASURE, STOP } phase APART;

/* Rows of a matrix */
static unsigned long rows;

static pthread_barrier_t barrier;

static void ring(struct messenger *messenger)
{
	if (!SWAP(messenger->bell, 1))
		futex_wake(&messenger->bell);
}

/* Returns whether the worker slept. */
static bool wait_for_message(struct worker *worker)
{
	struct messenger *messenger = worker->messenger;
	bool slept = false;

	STORE(worker->message, 0);
	worker->next = LOAD(messenger->queue);
	while (!__atomic_compare_exchange_n(&messenger->queue, &worker->next, worker, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	ring(messenger);
	while (!LOAD(worker->message))
		slept |= futex_wait(&worker->message, 0);
	return slept;
}

static void wake_queue(struct messenger *messenger)
{
	struct worker *worker = SWAP(messenger->queue, NULL);

	while (worker) {
		/* Once it has its message, it may queue itself again. */
		struct worker *next = worker->next;

		worker->posted = now_ns();
		STORE(worker->message, 1);
		futex_wake(&worker->message);
		worker = next;
	}
}

static void multiply(const unsigned long *a, const unsigned long *b, unsigned long *product)
{
	for (unsigned long i = 0; i < rows; i++)
		for (unsigned long j = 0; j < rows; j++) {
			unsigned long sum = 0;

			for (unsigned long k = 0; k < rows; k++)
				sum += a[i * rows + k] * b[k * rows + j];
			product[i * rows + j] = sum;
		}
	/* Somebody might read it, so it has to be computed. */
	__asm__ volatile("" : : "r"(product) : "memory");
}

/* Given up when the run is over, as it is not counted then. */
static void serve_request(struct worker *worker)
{
	unsigned long elements = rows * rows;

	if (params.sleep_usec) {
		struct timespec ts = {
			.tv_sec = params.sleep_usec / 1000000,
			.tv_nsec = params.sleep_usec % 1000000 * 1000,
		};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
	for (unsigned long i = 0; i < params.operations && LOAD(phase) != STOP; i++)
		multiply(worker->matrix, worker->matrix + elements, worker->matrix + 2 * elements);
	for (unsigned long i = 0; i < params.cputime && LOAD(phase) != STOP; i++)
		compute(1);
}

static void work(struct worker *worker)
{
	for (;;) {
		bool slept = wait_for_message(worker), counts;
		uint64_t start = now_ns(), end;
		enum phase now = LOAD(phase);

		if (now == STOP)
			return;
		counts = now == MEASURE;
		if (counts) {
			record(&worker->wakeup, start - worker->posted);
			worker->awake += !slept;
		}
		if (params.requests && counts && ADD(begun, 1) >= params.requests)
			return;

		serve_request(worker);
		end = now_ns();
		/* Of a number, those that were taken from it; of a time, those that end in it. */
		if (!params.requests)
			counts = LOAD(phase) == MEASURE;
		if (counts) {
			record(&worker->request, end - start);
			worker->last_end = end;
		}
	}
}

/* Pages are there, and near, before anything is measured. */
static void touch_memory(struct worker *worker)
{
	memset(&worker->wakeup, 0, sizeof(worker->wakeup));
	memset(&worker->request, 0, sizeof(worker->request));
	if (params.operations)
		for (unsigned long i = 0; i < 3 * rows * rows; i++)
			worker->matrix[i] = i;
}

/* All threads are ready; then main() has set the phase that they begin in. */
static void wait_for_start(void)
{
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
}

static void *worker_thread(void *arg)
{
	struct worker *worker = arg;

	pthread_setname_np(pthread_self(), "schbench-worker");
	touch_memory(worker);
	wait_for_start();
	work(worker);
	ADD(worker->messenger->working, -1UL);
	ring(worker->messenger);
	return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *), void *arg)
{
	int err = pthread_create(thread, NULL, function, arg);

	if (err)
		die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
}

static void *messenger_thread(void *arg)
{
	struct messenger *messenger = arg;

	pthread_setname_np(pthread_self(), "schbench-msg");
	for (unsigned long i = 0; i < params.worker_threads; i++)
		start(&messenger->workers[i].thread, worker_thread, &messenger->workers[i]);
	wait_for_start();
	while (LOAD(messenger->working)) {
		/* Cleared before the queue is taken: who comes after that rings again. */
		while (!SWAP(messenger->bell, 0))
			futex_wait(&messenger->bell, 0);
		wake_queue(messenger);
	}
	for (unsigned long i = 0; i < params.worker_threads; i++)
		pthread_join(messenger->workers[i].thread, NULL);
	return NULL;
}

/* ------------------------------------------------------------------- run */

/**
 * struct result - what was measured
 * @requests:	completed
 * @runtime:	for how long, in s
 * @awake:	messages, of those in @wakeup, that came before their worker slept
 * @wakeup:	of all workers
 * @request:	of all workers
 */
struct result {
	uint64_t requests;
	double runtime;
	uint64_t awake;
	struct histogram wakeup;
	struct histogram request;
};

static void *allocate(size_t nr, size_t size)
{
	void *memory = NULL;

	if (nr <= SIZE_MAX / size && !posix_memalign(&memory, 128, nr * size))
		return memory;
	die(&program, EXIT_FAILED, "no memory for %zu pieces of %zu bytes", nr, size);
}

static struct messenger *allocate_threads(void)
{
	unsigned long nr = params.message_threads, each = params.worker_threads;
	struct messenger *messengers = allocate(nr, sizeof(*messengers));
	struct worker *workers = allocate(nr * each, sizeof(*workers));
	unsigned long *matrices = NULL;

	while (3 * (rows + 1) * (rows + 1) * sizeof(*matrices) <= params.cache_footprint * 1024)
		rows++;
	if (params.operations)
		matrices = allocate(nr * each, 3 * rows * rows * sizeof(*matrices));
	for (unsigned long i = 0; i < nr; i++)
		messengers[i] = (struct messenger) {
			.working = each, .workers = workers + i * each,
		};
	for (unsigned long i = 0; i < nr * each; i++) {
		struct worker *worker = &workers[i];

		/* Not the histograms: they are left for the worker to touch first. */
		worker->messenger = &messengers[i / each];
		worker->matrix = matrices ? matrices + i * 3 * rows * rows : NULL;
		worker->awake = 0;
		worker->last_end = 0;
	}
	return messengers;
}

static uint64_t nanoseconds(double seconds)
{
	return seconds * NSEC_PER_SEC;
}

/* Lets the workers run; *end is set if it is the clock that ends the run. */
static void measure(uint64_t *begin, uint64_t *end)
{
	pthread_barrier_wait(&barrier);
	*begin = now_ns();
	if (!params.warmuptime)
		STORE(phase, MEASURE);
	pthread_barrier_wait(&barrier);
	if (params.warmuptime) {
		sleep_until(*begin + nanoseconds(params.warmuptime));
		*begin = now_ns();
		STORE(phase, MEASURE);
	}
	/* Those who serve a number of requests know the end before anybody else. */
	if (params.requests)
		return;
	sleep_until(*begin + nanoseconds(params.runtime));
	STORE(phase, STOP);
	*end = now_ns();
}

static void run(struct result *result)
{
	unsigned long nr = params.message_threads, each = params.worker_threads;
	struct messenger *messengers = allocate_threads();
	struct worker *workers = messengers->workers;
	uint64_t begin, end = 0;

	pthread_barrier_init(&barrier, NULL, 1 + nr + nr * each);
	for (unsigned long i = 0; i < nr; i++)
		start(&messengers[i].thread, messenger_thread, &messengers[i]);
	measure(&begin, &end);
	for (unsigned long i = 0; i < nr; i++)
		pthread_join(messengers[i].thread, NULL);

	for (unsigned long i = 0; i < nr * each; i++) {
		merge(&result->wakeup, &workers[i].wakeup);
		merge(&result->request, &workers[i].request);
		result->awake += workers[i].awake;
		if (params.requests && workers[i].last_end > end)
			end = workers[i].last_end;
	}
	result->requests = result->request.samples;
	/* A clock that has not moved */
	result->runtime = (end > begin ? end - begin : 1) / (double)NSEC_PER_SEC;
}

/* ---------------------------------------------------------------- output */

static const struct {
	const char *name;
	const char *key;
	unsigned int permille;
} percentiles[] = {
	{ "p50", "p50", 500 }, { "p90", "p90", 900 }, { "p99", "p99", 990 },
	{ "p99.9", "p999", 999 },
};

static double usec(uint64_t ns)
{
	return ns / 1000.0;
}

static void print_row(const char *name, const struct histogram *histogram)
{
	printf("%-12s", name);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles) + 2 && !histogram->samples; i++)
		printf(" %10s", "-");
	if (histogram->samples) {
		for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
			printf(" %10.1f", usec(percentile(histogram, percentiles[i].permille)));
		printf(" %10.1f %10.1f", usec(histogram->min), usec(histogram->max));
	}
	printf(" %10llu\n", (unsigned long long)histogram->samples);
}

static void print_text(const struct result *result)
{
	printf("schbench: messengers %lu, workers of each %lu\n"
	       "request: sleep %lu us, operations %lu on %lu KB, units of CPU time %lu\n\n",
	       params.message_threads, params.worker_threads, params.sleep_usec,
	       params.operations, params.cache_footprint, params.cputime);
	printf("%-12s", "latency, us");
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		printf(" %10s", percentiles[i].name);
	printf(" %10s %10s %10s\n", "min", "max", "samples");
	print_row("wakeup", &result->wakeup);
	print_row("request", &result->request);
	printf("\n%llu requests in %.6f s: average rps %.1f\n"
	       "%llu of the wakeups came before the worker slept\n",
	       (unsigned long long)result->requests, result->runtime,
	       result->requests / result->runtime, (unsigned long long)result->awake);
}

/* Without samples there are no values, which JSON calls null. */
static void print_json_value(const char *key, const struct histogram *histogram, uint64_t ns)
{
	if (histogram->samples)
		printf("\"%s\":%.3f,", key, usec(ns));
	else
		printf("\"%s\":null,", key);
}

static void print_json_histogram(const char *name, const struct histogram *histogram)
{
	printf("\"%s\":{", name);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		print_json_value(percentiles[i].key, histogram, histogram->samples ?
				 percentile(histogram, percentiles[i].permille) : 0);
	print_json_value("min", histogram, histogram->min);
	print_json_value("max", histogram, histogram->max);
	printf("\"samples\":%llu},", (unsigned long long)histogram->samples);
}

static void print_json(const struct result *result)
{
	printf("{\"benchmark\":\"schbench\",");
	print_json_histogram("wakeup_us", &result->wakeup);
	print_json_histogram("request_us", &result->request);
	printf("\"rps\":%.3f,\"runtime_s\":%.9f,\"requests\":%llu,\"awake\":%llu,",
	       result->requests / result->runtime, result->runtime,
	       (unsigned long long)result->requests, (unsigned long long)result->awake);
	printf("\"parameters\":{\"message_threads\":%lu,\"worker_threads\":%lu,"
	       "\"cache_footprint\":%lu,\"operations\":%lu,\"cputime\":%lu,\"sleep_usec\":%lu,"
	       "\"warmuptime\":%.9g,",
	       params.message_threads, params.worker_threads, params.cache_footprint,
	       params.operations, params.cputime, params.sleep_usec, params.warmuptime);
	if (params.requests)
		printf("\"runtime\":null,\"requests\":%lu}}\n", params.requests);
	else
		printf("\"runtime\":%.9g,\"requests\":null}}\n", params.runtime);
}

int main(int argc, char **argv)
{
	static struct result result;

	parse_options(&program, argc, argv);
	if (params.requests && params.runtime_given)
		die(&program, EXIT_USAGE,
		    "--runtime and --requests both say when to end; give one of them");
	run(&result);
	if (params.json)
		print_json(&result);
	else
		print_text(&result);
	finish_output(&program);
	return 0;
}
