// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that wait for each other by spinning, in ways that suffer when one of
 * them is not on a CPU; and threads by which one sees what others suffer.
 *
 *   lock      All threads take one spin lock in turn. If the one that has it is
 *             preempted, the others spin until it is back. An operation is a
 *             critical section with some work in it, and some outside of it.
 *   pipeline  Each thread is a stage, which takes an item from the one before,
 *             works, and hands it on. It spins for a while for the next item, and
 *             then sleeps: what adaptive mutexes and many runtimes do. An
 *             operation is an item that comes out at the end.
 *   vcpu      The virtual CPUs of a small machine. Each computes, and every so
 *             often tells all others something, and spins until they have seen
 *             it, as kernels do to flush TLBs. A thread sees it, as an interrupt,
 *             between two pieces of its computation: if it runs. An operation is
 *             one such round.
 *   sleeper   One thread that sleeps, and is awake for a moment, every period; how
 *             late it runs is the wakeup latency of a bystander. An operation is
 *             one wakeup.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <pthread.h>

#define MAX_THREADS	1024
#define STACK		(64 * 1024)

static struct {
	const char *kind;
	unsigned long threads;		/* 0: as many as CPUs it may use */
	unsigned long units;
	unsigned long inside;
	unsigned long spins;
	unsigned long period;		/* us */
	double runtime;			/* s */
	unsigned long begin;		/* ms of the clock */
	const char *name;
	bool pin;
	bool json;
} params = {
	.kind = "lock",
	.units = 8,
	.inside = 1,
	.spins = 2000,
	.period = 2000,
	.runtime = 1,
	.name = "",
};

static const struct option_spec specs[] = {
	{ .name = "kind", .unit = "lock, pipeline, vcpu or sleeper",
	  .help = "what to do", .text = &params.kind },
	{ .letter = 't', .name = "threads", .unit = A_NUMBER, .min = 1, .max = MAX_THREADS,
	  .help = "threads, instead of one for each CPU that it may use", .count = &params.threads },
	{ .name = "units", .unit = A_NUMBER, .min = 0, .max = 1000000,
	  .help = "computation of an operation (vcpu: between two), in units of about 1000 instructions",
	  .count = &params.units },
	{ .name = "inside", .unit = A_NUMBER, .min = 0, .max = 1000000,
	  .help = "lock: likewise, of the critical section", .count = &params.inside },
	{ .name = "spins", .unit = A_NUMBER, .min = 0, .max = 1e12,
	  .help = "pipeline: looks for the next item before it sleeps", .count = &params.spins },
	{ .name = "period", .unit = "a whole number of microseconds", .min = 1, .max = 60000000,
	  .help = "sleeper: from one wakeup to the next", .count = &params.period },
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
	.name = "spin",
	.summary = "Threads that spin for each other, and one that sleeps.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

/**
 * struct thread - a thread
 * @items:	pipeline: items that it was given so far; it sleeps on it
 * @asleep:	pipeline: it is about to sleep, or does
 * @told:	vcpu: the last request that it was sent, and has to acknowledge
 * @seen:	vcpu: the last that it has acknowledged
 * @done:	operations
 * @index:	which it is
 * @thread:	itself
 */
struct thread {
	unsigned int items APART;
	unsigned int asleep;
	unsigned long told APART;
	unsigned long seen APART;
	unsigned long done APART;
	unsigned int index;
	pthread_t thread;
};

static struct thread *threads;
static unsigned int over APART;
static unsigned int lock APART;
static unsigned long request APART;
static cpu_set_t allowed;
static pthread_barrier_t barrier;

static void take_lock(void)
{
	while (SWAP(lock, 1))
		while (LOAD(lock))
			relax();
}

static void run_lock(struct thread *me)
{
	while (!LOAD(over)) {
		take_lock();
		compute(params.inside);
		STORE(lock, 0);
		compute(params.units);
		me->done++;
	}
}

/* Spins first, then sleeps, until there is something or the run is over */
static void wait_for_item(struct thread *me, unsigned int taken)
{
	for (unsigned long i = 0; i < params.spins; i++) {
		if (LOAD(me->items) != taken || LOAD(over))
			return;
		relax();
	}
	while (LOAD(me->items) == taken && !LOAD(over)) {
		STORE(me->asleep, 1);
		if (LOAD(me->items) == taken && !LOAD(over))
			futex_wait(&me->items, taken);
		STORE(me->asleep, 0);
	}
}

static void give_item(struct thread *next)
{
	ADD(next->items, 1);
	if (LOAD(next->asleep))
		futex_wake(&next->items);
}

/* In a ring, with an item for every other stage: nobody is ever far ahead. */
static void run_pipeline(struct thread *me)
{
	struct thread *next = &threads[(me->index + 1) % params.threads];
	unsigned int taken = 0;

	while (!LOAD(over)) {
		wait_for_item(me, taken);
		if (LOAD(over))
			break;
		taken++;
		compute(params.units);
		me->done += me->index == params.threads - 1;
		give_item(next);
	}
	/* Whoever sleeps looks again. */
	ADD(next->items, 1);
	futex_wake(&next->items);
}

/* The interrupt, if there is one */
static void answer(struct thread *me)
{
	unsigned long told = LOAD(me->told);

	if (told != me->seen)
		STORE(me->seen, told);
}

/* One at a time, as a lock of the guest's would have it; the others go on. */
static void tell_all(struct thread *me)
{
	unsigned long number;

	if (SWAP(lock, 1))
		return;
	number = ADD(request, 1) + 1;
	for (unsigned int i = 0; i < params.threads; i++)
		if (i != me->index)
			STORE(threads[i].told, number);
	for (unsigned int i = 0; i < params.threads; i++)
		while (i != me->index && LOAD(threads[i].seen) != number && !LOAD(over)) {
			answer(me);
			relax();
		}
	me->done++;
	STORE(lock, 0);
}

static void run_vcpu(struct thread *me)
{
	while (!LOAD(over)) {
		for (unsigned long i = 0; i < params.units && !LOAD(over); i++) {
			compute(1);
			answer(me);
		}
		tell_all(me);
	}
}

static uint64_t *late;
static size_t nr_late, room_late;

static void run_sleeper(struct thread *me)
{
	uint64_t next = now_ns(), end = next + params.runtime * NSEC_PER_SEC;

	while (next + params.period * 1000 < end) {
		next += params.period * 1000;
		sleep_until(next);
		if (nr_late < room_late)
			late[nr_late++] = now_ns() - next;
		me->done++;
		compute(params.units);
		/* Late by whole periods: those wakeups there was none to be late for. */
		while (next + params.period * 1000 < now_ns())
			next += params.period * 1000;
	}
}

static const struct {
	const char *name;
	void (*run)(struct thread *me);
} kinds[] = {
	{ "lock", run_lock }, { "pipeline", run_pipeline }, { "vcpu", run_vcpu },
	{ "sleeper", run_sleeper },
};

static void (*run_kind)(struct thread *me);

static void *run_thread(void *arg)
{
	struct thread *me = arg;

	name_thread(params.name);
	if (params.pin)
		pin_to(&allowed, me->index);
	pthread_barrier_wait(&barrier);
	begin_at(&program, params.begin);
	run_kind(me);
	return NULL;
}

static uint64_t run(void)
{
	uint64_t began;
	pthread_attr_t attributes;

	pthread_barrier_init(&barrier, NULL, params.threads + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	for (unsigned int i = 0; i < params.threads; i++) {
		int err;

		threads[i].index = i;
		threads[i].items = i % 2;
		err = pthread_create(&threads[i].thread, &attributes, run_thread, &threads[i]);
		if (err)
			die(&program, EXIT_FAILED, "starting a thread: %s", strerror(err));
	}
	pthread_barrier_wait(&barrier);
	begin_at(&program, params.begin);
	began = now_ns();
	if (run_kind != run_sleeper) {
		sleep_until(began + params.runtime * NSEC_PER_SEC);
		STORE(over, 1);
	}
	for (unsigned int i = 0; i < params.threads; i++)
		futex_wake(&threads[i].items);
	for (unsigned int i = 0; i < params.threads; i++)
		pthread_join(threads[i].thread, NULL);
	return now_ns() - began;
}

static void print_result(double seconds, unsigned long done)
{
	if (!params.json)
		printf("%s: %lu operations of %lu threads in %.3f s: %.1f a second\n", params.kind,
		       done, params.threads, seconds, done / seconds);
	else
		printf("{\"benchmark\":\"spin\",\"kind\":\"%s\",\"name\":\"%s\",\"threads\":%lu,"
		       "\"operations\":%lu,\"seconds\":%.9f,\"rate\":%.6f", params.kind, params.name,
		       params.threads, done, seconds, done / seconds);
	if (nr_late)
		printf(params.json ?
		       ",\"late_us\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f,\"samples\":%zu}" :
		       "late, us: p50 %.3f, p99 %.3f, max %.3f, samples %zu\n",
		       quantile(late, nr_late, 500) / 1e3, quantile(late, nr_late, 990) / 1e3,
		       late[nr_late - 1] / 1e3, nr_late);
	if (params.json)
		printf("}\n");
}

int main(int argc, char **argv)
{
	unsigned long done = 0;
	double seconds;

	parse_options(&program, argc, argv);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(params.kind, kinds[i].name))
			run_kind = kinds[i].run;
	if (!run_kind)
		die(&program, EXIT_USAGE, "--kind: '%s' is not lock, pipeline, vcpu or sleeper", params.kind);
	if (!params.threads)
		params.threads = allowed_cpus(&allowed);
	allowed_cpus(&allowed);
	if (run_kind == run_sleeper) {
		params.threads = 1;
		room_late = params.runtime * 1e6 / params.period + 1;
		late = allocate_zeroed(&program, room_late, sizeof(*late));
	} else if (run_kind == run_pipeline && params.threads < 2) {
		die(&program, EXIT_USAGE, "--threads: a pipeline has 2 stages at least");
	}
	threads = allocate_zeroed(&program, params.threads, sizeof(*threads));
	seconds = run() / 1e9;
	for (unsigned int i = 0; i < params.threads; i++)
		done += threads[i].done;
	qsort(late, nr_late, sizeof(*late), compare_u64);
	print_result(seconds, done);
	finish_output(&program);
	return 0;
}
