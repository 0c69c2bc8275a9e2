// SPDX-License-Identifier: GPL-2.0-only
/*
 * A service: requests that arrive when a schedule says so, each served by two
 * threads.
 *
 * The load is open. When a request arrives is drawn in advance, from how many a
 * second there shall be, and its latency is counted from then on, not from when
 * somebody got round to it. So a service that is held up pays for all who had to
 * wait in the meantime; a client that waits for the answer before it asks again,
 * as in a closed loop, would politely leave them out (coordinated omission).
 *
 * Threads come in pairs with a schedule each. The front thread sleeps until the
 * next request is due, computes, touches some of the pair's memory, and hands
 * the request to the back thread, which does the same and is done. Handing over
 * is a futex wakeup, if the back thread sleeps. While it serves one, the front
 * thread can take the next.
 *
 * The load is given in percent of what the machine can do, in stages: "20:1,60:2"
 * is 20 % for a second, then 60 % for two. What the machine can do is a number
 * of requests a second that --calibrate measures: as many threads as CPUs serve
 * requests one after the other. It has to be found while nothing else runs.
 *
 * What is not served within a second after the schedule's end is given up; it
 * counts with the time that it has waited so far, and is reported as unfinished.
 */
#define _GNU_SOURCE
#include "compute.h"
#include "schedule.h"

#include <pthread.h>

/* More than anybody asks for; the ring of a pair is the reason for its bound */
#define MAX_STAGES	16
#define RING		1024
#define GRACE_NS	NSEC_PER_SEC
#define LINE		64
#define CALIBRATION	25
#define STACK		(64 * 1024)

static struct {
	const char *stages;
	unsigned long capacity;		/* requests/s */
	unsigned long pairs;		/* 0: twice as many as CPUs */
	unsigned long units;
	unsigned long footprint;	/* KB */
	unsigned long lines;
	double warmup;			/* s */
	double interval;		/* s */
	unsigned long seed;
	unsigned long begin;		/* ms of the clock */
	bool calibrate;
	bool json;
} params = {
	.stages = "",
	.units = 100,
	.footprint = 256,
	.lines = 200,
	.interval = 0.1,
	.seed = 1,
};

static const struct option_spec specs[] = {
	{ .name = "load", .unit = "PERCENT:SECONDS[,PERCENT:SECONDS]...",
	  .help = "stages of load, in percent of the capacity", .text = &params.stages },
	{ .name = "capacity", .unit = "requests a second", .min = 1, .max = 1e9,
	  .help = "what --calibrate has printed", .count = &params.capacity },
	{ .name = "calibrate", .help = "print how many requests a second all CPUs serve, and end",
	  .flag = &params.calibrate },
	{ .name = "pairs", .unit = A_NUMBER, .min = 1, .max = 4096,
	  .help = "pairs of threads, instead of two for each CPU", .count = &params.pairs },
	{ .name = "units", .unit = A_NUMBER, .min = 1, .max = 1000000,
	  .help = "computation of each half of a request, in units of about 1000 instructions",
	  .count = &params.units },
	{ .name = "footprint", .unit = "a whole number of KB", .min = 1, .max = 1048576,
	  .help = "memory of a pair", .count = &params.footprint },
	{ .name = "lines", .unit = A_NUMBER, .min = 0, .max = 1000000,
	  .help = "cache lines of it that each half of a request reads and writes",
	  .count = &params.lines },
	{ .name = "warmup", .unit = SECONDS, .min = 0, .max = 86400,
	  .help = "time of the first stage that does not count", .seconds = &params.warmup },
	{ .name = "interval", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "length of a step of the time line", .seconds = &params.interval },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "seed", .unit = A_NUMBER, .min = 0, .max = 1e9,
	  .help = "of the arrivals, which are the same each time", .count = &params.seed },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "serve",
	.summary = "Serves requests that arrive by a schedule, and measures how long each takes.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct stage - a stretch of time with one load
 * @percent:	of the capacity
 * @seconds:	its length
 * @begin:	when it begins, in ns after the begin of the first one
 * @end:	when it ends
 */
struct stage {
	double percent;
	double seconds;
	uint64_t begin;
	uint64_t end;
};

static struct stage stages[MAX_STAGES];
static unsigned int nr_stages;

/**
 * struct pair - two threads that serve requests together
 * @head:	requests that the front thread has handed over; the back thread sleeps on it
 * @asleep:	the back thread is about to sleep, or does
 * @tail:	requests that the back thread has taken
 * @due:	of the requests between them, when each arrived
 * @memory:	what a request touches
 * @arrived:	of each request that arrived, when it did
 * @took:	and how long it took
 * @nr:		requests whose fate is known
 * @unfinished:	of these, those that were given up
 * @room:	how many fit
 * @random:	state of the arrivals
 * @front:	thread
 * @back:	thread
 */
struct pair {
	unsigned int head APART;
	unsigned int asleep;
	unsigned int tail APART;
	uint64_t due[RING];
	char *memory;
	uint64_t *arrived;
	uint64_t *took;
	size_t nr;
	size_t unfinished;
	size_t room;
	uint64_t random;
	pthread_t front;
	pthread_t back;
};

static uint64_t begin_ns;
static pthread_barrier_t barrier;
static cpu_set_t allowed;

/*
 * When the next request of a pair is due after @now, both in ns after the begin:
 * exponential gaps, at the rate of the stage that they fall into. A gap that
 * reaches over the end of a stage is drawn anew from there, which for such gaps
 * is the same. NO_MORE: there is none.
 */
static uint64_t next_arrival(struct pair *pair, uint64_t now)
{
	for (unsigned int i = 0; i < nr_stages; i++) {
		double rate = stages[i].percent / 100 * params.capacity / params.pairs, gap;

		if (now >= stages[i].end || !rate)
			continue;
		if (now < stages[i].begin)
			now = stages[i].begin;
		gap = random_gap(&pair->random, rate);
		if (gap < stages[i].end - now)
			return now + (uint64_t)gap;
		now = stages[i].end;
	}
	return NO_MORE;
}

/* One half of a request */
static void serve_half(char *memory, uint64_t which)
{
	size_t size = params.footprint * 1024 / LINE;

	for (unsigned long i = 0; i < params.lines; i++)
		++*(volatile unsigned long *)(memory + next_random(&which) % size * LINE);
	compute(params.units);
}

static void account(struct pair *pair, uint64_t arrived, uint64_t now)
{
	if (pair->nr == pair->room)
		die(&program, EXIT_FAILED, "more requests than were drawn");
	pair->arrived[pair->nr] = arrived;
	pair->took[pair->nr++] = now - begin_ns - arrived;
}

static uint64_t last_chance(void)
{
	return begin_ns + stages[nr_stages - 1].end + GRACE_NS;
}

static void *back_thread(void *arg)
{
	struct pair *pair = arg;

	name_thread("serve-back");
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (;;) {
		unsigned int head = LOAD(pair->head);
		uint64_t arrived;

		if (pair->tail == head) {
			STORE(pair->asleep, 1);
			if (LOAD(pair->head) == head)
				futex_wait(&pair->head, head);
			STORE(pair->asleep, 0);
			continue;
		}
		arrived = pair->due[pair->tail % RING];
		if (arrived == NO_MORE)
			return NULL;
		if (now_ns() < last_chance())
			serve_half(pair->memory, arrived + 1);
		else
			pair->unfinished++;
		account(pair, arrived, now_ns());
		STORE(pair->tail, pair->tail + 1);
	}
}

static void hand_over(struct pair *pair, uint64_t arrived)
{
	/* A thousand behind: the arrivals keep their times, so waiting hides nothing. */
	while (pair->head - LOAD(pair->tail) == RING)
		sleep_until(now_ns() + 1000000);
	pair->due[pair->head % RING] = arrived;
	STORE(pair->head, pair->head + 1);
	if (LOAD(pair->asleep))
		futex_wake(&pair->head);
}

static void *front_thread(void *arg)
{
	struct pair *pair = arg;
	uint64_t due = 0;

	name_thread("serve-front");
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	while ((due = next_arrival(pair, due)) != NO_MORE) {
		if (now_ns() < begin_ns + due)
			sleep_until(begin_ns + due);
		if (now_ns() < last_chance())
			serve_half(pair->memory, due);
		hand_over(pair, due);
	}
	/* In the ring, where it cannot be missed: what the back thread sleeps on changes. */
	hand_over(pair, NO_MORE);
	return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *), void *arg)
{
	pthread_attr_t attributes;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	err = pthread_create(thread, &attributes, function, arg);
	if (err)
		die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	pthread_attr_destroy(&attributes);
}

/* As many as the same seed will draw once more */
static size_t count_arrivals(struct pair *pair)
{
	uint64_t random = pair->random, due = 0;
	size_t nr = 0;

	while ((due = next_arrival(pair, due)) != NO_MORE)
		nr++;
	pair->random = random;
	return nr;
}

static struct pair *run(void)
{
	struct pair *pairs = allocate_zeroed(&program, params.pairs, sizeof(*pairs));

	pthread_barrier_init(&barrier, NULL, 2 * params.pairs + 1);
	for (unsigned long i = 0; i < params.pairs; i++) {
		struct pair *pair = &pairs[i];

		pair->random = params.seed << 32 | i;
		pair->memory = allocate_zeroed(&program, params.footprint, 1024);
		pair->room = count_arrivals(pair);
		pair->arrived = allocate_zeroed(&program, pair->room + 1, sizeof(uint64_t));
		pair->took = allocate_zeroed(&program, pair->room + 1, sizeof(uint64_t));
		start(&pair->back, back_thread, pair);
		start(&pair->front, front_thread, pair);
	}
	pthread_barrier_wait(&barrier);
	begin_at(&program, params.begin);
	begin_ns = now_ns();
	pthread_barrier_wait(&barrier);
	for (unsigned long i = 0; i < params.pairs; i++) {
		pthread_join(pairs[i].front, NULL);
		pthread_join(pairs[i].back, NULL);
	}
	return pairs;
}

/* ------------------------------------------------------------- calibration */

/**
 * struct calibrating - one thread of the calibration
 * @index:	the one of the program's CPUs that is this thread's
 * @took:	how long its requests took, in ns
 * @thread:	the thread
 */
struct calibrating {
	unsigned int index;
	uint64_t took;
	pthread_t thread;
};

static void *calibrating_thread(void *arg)
{
	struct calibrating *me = arg;
	char *memory = allocate_zeroed(&program, params.footprint, 1024);
	uint64_t began;

	pin_to(&allowed, me->index);
	pthread_barrier_wait(&barrier);
	serve_half(memory, 0);
	began = now_ns();
	for (unsigned long i = 0; i < 2 * CALIBRATION; i++)
		serve_half(memory, i);
	me->took = now_ns() - began;
	return NULL;
}

/*
 * On all CPUs at once, as threads that share a core slow each other; and each on
 * its own, as two on one CPU, until the load balancer sees them, would count as a
 * smaller machine.
 */
static void calibrate(unsigned int cpus)
{
	struct calibrating *all = allocate_zeroed(&program, cpus, sizeof(*all));
	double capacity = 0;

	pthread_barrier_init(&barrier, NULL, cpus);
	for (unsigned int i = 0; i < cpus; i++) {
		all[i].index = i;
		start(&all[i].thread, calibrating_thread, &all[i]);
	}
	for (unsigned int i = 0; i < cpus; i++) {
		pthread_join(all[i].thread, NULL);
		capacity += (double)CALIBRATION * NSEC_PER_SEC / (all[i].took ? all[i].took : 1);
	}
	printf("%.0f\n", capacity);
}

/* ------------------------------------------------------------------ output */

/**
 * struct window - the requests that arrived in a stretch of time
 * @begin:	its begin
 * @end:	its end
 * @took:	how long they took, sorted
 * @nr:		their number
 */
struct window {
	uint64_t begin;
	uint64_t end;
	uint64_t *took;
	size_t nr;
};

static struct window look_at(const struct pair *pairs, uint64_t begin, uint64_t end)
{
	struct window window = { .begin = begin, .end = end };
	size_t room = 1;

	for (unsigned long i = 0; i < params.pairs; i++)
		room += pairs[i].nr;
	window.took = allocate_zeroed(&program, room, sizeof(uint64_t));
	for (unsigned long i = 0; i < params.pairs; i++)
		for (size_t k = 0; k < pairs[i].nr; k++)
			if (pairs[i].arrived[k] >= begin && pairs[i].arrived[k] < end)
				window.took[window.nr++] = pairs[i].took[k];
	qsort(window.took, window.nr, sizeof(uint64_t), compare_u64);
	return window;
}

static void print_percentile(const struct window *window, const char *key, unsigned int permille)
{
	if (window->nr)
		printf("\"%s\":%.3f,", key, quantile(window->took, window->nr, permille) / 1e3);
	else
		printf("\"%s\":null,", key);
}

static void print_mean(const struct window *window)
{
	double sum = 0;

	for (size_t i = 0; i < window->nr; i++)
		sum += window->took[i];
	if (window->nr)
		printf("\"mean\":%.3f,", sum / window->nr / 1e3);
	else
		printf("\"mean\":null,");
}

static void print_window(const struct window *window)
{
	double seconds = (window->end - window->begin) / 1e9;

	printf("{");
	print_mean(window);
	print_percentile(window, "p50", 500);
	print_percentile(window, "p90", 900);
	print_percentile(window, "p99", 990);
	print_percentile(window, "p999", 999);
	print_percentile(window, "max", 1000);
	printf("\"requests\":%zu,\"rps\":%.3f}", window->nr, seconds ? window->nr / seconds : 0);
}

static void print_json(const struct pair *pairs)
{
	uint64_t end = stages[nr_stages - 1].end, warm = params.warmup * NSEC_PER_SEC;
	uint64_t interval = params.interval * NSEC_PER_SEC;
	struct window all = look_at(pairs, warm, end);
	size_t unfinished = 0;

	for (unsigned long i = 0; i < params.pairs; i++)
		unfinished += pairs[i].unfinished;
	printf("{\"benchmark\":\"serve\",\"begin_ns\":%llu,\"latency_us\":",
	       (unsigned long long)begin_ns);
	print_window(&all);
	printf(",\"unfinished\":%zu,\"stages\":[", unfinished);
	for (unsigned int i = 0; i < nr_stages; i++) {
		struct window window = look_at(pairs, i ? stages[i].begin : warm, stages[i].end);

		printf("%s{\"percent\":%.9g,\"begin_s\":%.3f,\"end_s\":%.3f,\"latency_us\":", i ? "," : "",
		       stages[i].percent, stages[i].begin / 1e9, stages[i].end / 1e9);
		print_window(&window);
		printf("}");
	}
	printf("],\"interval_s\":%.9g,\"p99_us\":[", params.interval);
	for (uint64_t at = 0; at < end; at += interval) {
		struct window window = look_at(pairs, at, at + interval);

		if (window.nr)
			printf("%s%.3f", at ? "," : "",
			       quantile(window.took, window.nr, 990) / 1e3);
		else
			printf("%snull", at ? "," : "");
		free(window.took);
	}
	printf("],\"parameters\":{\"load\":\"%s\",\"capacity\":%lu,\"pairs\":%lu,\"units\":%lu,"
	       "\"footprint\":%lu,\"lines\":%lu,\"warmup\":%.9g,\"seed\":%lu}}\n",
	       params.stages, params.capacity, params.pairs, params.units, params.footprint,
	       params.lines, params.warmup, params.seed);
}

static void print_text(const struct pair *pairs)
{
	printf("%10s %10s %10s %10s %10s %10s\n", "load, %", "requests", "rps", "p50, us", "p99, us",
	       "p99.9, us");
	for (unsigned int i = 0; i < nr_stages; i++) {
		uint64_t begin = i ? stages[i].begin : (uint64_t)(params.warmup * NSEC_PER_SEC);
		struct window window = look_at(pairs, begin, stages[i].end);
		double seconds = (window.end - window.begin) / 1e9;

		printf("%10.1f %10zu %10.1f", stages[i].percent, window.nr,
		       seconds ? window.nr / seconds : 0);
		for (int k = 0; k < 3; k++)
			if (window.nr)
				printf(" %10.1f", quantile(window.took, window.nr,
							   k == 0 ? 500 : k == 1 ? 990 : 999) / 1e3);
			else
				printf(" %10s", "-");
		printf("\n");
	}
}

/* ----------------------------------------------------------------- options */

/* "20:1,60:2.5" */
static void parse_stages(const char *text)
{
	uint64_t at = 0;

	while (*text) {
		struct stage *stage = &stages[nr_stages];
		char *end;

		if (nr_stages == MAX_STAGES)
			die(&program, EXIT_USAGE, "--load: more than %d stages", MAX_STAGES);
		stage->percent = strtod(text, &end);
		if (end == text || *end != ':' || !(stage->percent >= 0 && stage->percent <= 1000))
			die(&program, EXIT_USAGE, "--load: '%s' is not PERCENT:SECONDS", text);
		text = end + 1;
		stage->seconds = strtod(text, &end);
		if (end == text || (*end && *end != ',') || !(stage->seconds > 0 && stage->seconds <= 86400))
			die(&program, EXIT_USAGE, "--load: '%s' is no number of seconds", text);
		stage->begin = at;
		at += stage->seconds * NSEC_PER_SEC;
		stage->end = at;
		nr_stages++;
		text = *end ? end + 1 : end;
	}
	if (!nr_stages)
		die(&program, EXIT_USAGE, "--load is missing; give PERCENT:SECONDS[,PERCENT:SECONDS]...");
	if (params.warmup >= stages[0].seconds)
		die(&program, EXIT_USAGE, "--warmup is not shorter than the first stage");
}

int main(int argc, char **argv)
{
	unsigned int cpus;
	struct pair *pairs;

	parse_options(&program, argc, argv);
	cpus = allowed_cpus(&allowed);
	if (!params.pairs)
		params.pairs = 2 * cpus;
	if (params.calibrate) {
		calibrate(cpus);
		finish_output(&program);
		return 0;
	}
	if (!params.capacity)
		die(&program, EXIT_USAGE, "--capacity is missing; give what --calibrate prints");
	parse_stages(params.stages);
	pairs = run();
	if (params.json)
		print_json(pairs);
	else
		print_text(pairs);
	finish_output(&program);
	return 0;
}
