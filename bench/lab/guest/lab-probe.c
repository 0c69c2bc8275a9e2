// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure what the modelled machine charges (bench/lab/selfcheck.py says what that should be):
 *
 *   lab-probe spin     NAME INSTRUCTIONS CPU...		instructions on several CPUs at once
 *   lab-probe hint     NAME COUNT CPU			the spin-wait hint
 *   lab-probe sleep    NAME NS COUNT			an idle machine's timer
 *   lab-probe lines    NAME LINES ROUNDS PASSES STEP...	lines of memory in the caches of several CPUs, see below
 *   lab-probe chase    NAME LINES TIMED HOME CPU		lines in random order, more than a cache holds
 *   lab-probe bounce   NAME LINES PASSES TURNS CPU CPU	two threads write the same lines in turn
 *   lab-probe stream   NAME read|copy LINES HOME CPU...	sequential lines; HOME is a CPU of their node, or -1
 *   lab-probe pingpong NAME TURNS CPU CPU			two threads wake each other through futexes
 *
 * Each prints one line of KEY=VALUE, the first being the name.
 *
 * A step of `lines` is what a CPU does with each of the lines: "r4", CPU 4 reads; w, writes; a, adds atomically.
 * "=r4" is timed and done PASSES times; other steps are repeated until the private cache has settled. One thread does
 * all this and moves between the CPUs, so that nothing runs beside it.
 *
 * Time moves in quanta here. What is measured takes many of them, or is repeated.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE		64
#define NSEC_PER_SEC	1000000000ull
#define SETTLE_NS	100000
#define QUIET_NS	20000000	/* several ticks */
#define SETTLE_PASSES	4
#define START_NS	1000000
#define LONGER_NS	1000	/* more than a quantum or two, less than an interrupt */
#define MAX_THREADS	128
#define MAX_LOOPS	4000	/* several quanta */
#define BLOCK		16	/* instructions in the loop of spin_for() */

static void die(const char *format, ...)
{
	va_list args;

	fputs("lab-probe: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*text || *end)
		die("'%s' is not a whole number", text);
	return value;
}

static void go_to(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("CPU %u: %s", cpu, strerror(errno));
}

/* The same, and wait until what moved us there is idle again. */
static void settle_on(unsigned int cpu)
{
	go_to(cpu);
	sleep_ns(SETTLE_NS);
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("no memory for %zu bytes: %s", size, strerror(errno));
	return memory;
}

/* Have the pages of a buffer on the node of the CPU that we are on. What the kernel does to clear them is not seen. */
static void touch(char *buffer, size_t size)
{
	for (size_t offset = 0; offset < size; offset += 4096)
		((volatile char *)buffer)[offset] = 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The mean of those that no interrupt made long: times in quanta average out in it, as in the median they would not. */
static double typical(double *samples, size_t n)
{
	double sum = 0;
	size_t used = 0;

	qsort(samples, n, sizeof(*samples), compare);
	while (used < n && samples[used] <= samples[n / 2] + LONGER_NS)
		sum += samples[used++];
	return sum / used;
}

/* ------------------------------------------------------------ many threads */

struct worker {
	unsigned int cpu;
	pthread_t thread;
	uint64_t begin, end;
	void (*prepare)(struct worker *worker);
	void (*run)(struct worker *worker);
	uint64_t amount, lines, passes;
	int home;
	bool copy;
	char *from, *to;
};

static struct worker workers[MAX_THREADS];
static unsigned int nr_workers, nr_ready;

/* Without sleeping: whoever is woken later begins later. */
static void meet(void)
{
	unsigned int all = __atomic_fetch_add(&nr_ready, 1, __ATOMIC_ACQ_REL) / nr_workers * nr_workers + nr_workers;

	while (__atomic_load_n(&nr_ready, __ATOMIC_ACQUIRE) < all)
		;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	go_to(worker->cpu);
	if (worker->prepare)
		worker->prepare(worker);
	/* What it took to start us is over then. */
	sleep_ns(START_NS);
	meet();
	worker->begin = now_ns();
	worker->run(worker);
	worker->end = now_ns();
	return NULL;
}

/* Returns how long it took from the first that began to the last that ended. */
static uint64_t run_all(void)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned int i = 0; i < nr_workers; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("cannot start a thread");
	for (unsigned int i = 0; i < nr_workers; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].begin < begin)
			begin = workers[i].begin;
		if (workers[i].end > end)
			end = workers[i].end;
	}
	return end - begin;
}

static void set_workers(int nr, char **cpus)
{
	if (nr < 1 || nr > MAX_THREADS)
		die("give 1 to %d CPUs", MAX_THREADS);
	nr_workers = nr;
	for (int i = 0; i < nr; i++)
		workers[i].cpu = number(cpus[i]);
}

/* ------------------------------------------------------------------- spin */

static void spin_for(struct worker *worker)
{
	uint64_t blocks = worker->amount / BLOCK;

	__asm__ volatile("1:	.rept 14\n"
			 "	add x9, x9, #1\n"
			 "	.endr\n"
			 "	subs %0, %0, #1\n"
			 "	b.ne 1b\n" : "+r"(blocks) :: "x9", "cc");
}

static void spin(const char *name, int argc, char **argv)
{
	uint64_t instructions = number(argv[0]) / BLOCK * BLOCK, ns = 0;

	set_workers(argc - 1, argv + 1);
	for (unsigned int i = 0; i < nr_workers; i++) {
		workers[i].run = spin_for;
		workers[i].amount = instructions;
	}
	run_all();
	/* The mean: of many threads, one is interrupted, or its sibling is, whatever the others do. */
	for (unsigned int i = 0; i < nr_workers; i++)
		ns += workers[i].end - workers[i].begin;
	printf("name=%s ps=%.3f\n", name, ns * 1000.0 / nr_workers / instructions);
}

static void hint(const char *name, int argc, char **argv)
{
	uint64_t count = number(argv[0]), begin, left = count;

	(void)argc;
	go_to(number(argv[1]));
	/* A quantum ends early where a timer is due: first have the other CPUs stop their ticks. */
	sleep_ns(QUIET_NS);
	begin = now_ns();
	__asm__ volatile("1:	yield\n"
			 "	subs %0, %0, #1\n"
			 "	b.ne 1b\n" : "+r"(left) :: "cc");
	printf("name=%s ns=%.3f\n", name, (double)(now_ns() - begin) / count);
}

/* ------------------------------------------------------------------ sleep */

static void sleep_well(const char *name, int argc, char **argv)
{
	uint64_t ns = number(argv[0]), count = number(argv[1]);
	double *samples = calloc(count, sizeof(*samples));

	(void)argc;
	prctl(PR_SET_TIMERSLACK, 1ul);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t begin = now_ns();

		sleep_ns(ns);
		samples[i] = now_ns() - begin;
	}
	printf("name=%s ns=%.0f\n", name, typical(samples, count));
	free(samples);
}

/* ------------------------------------------------------------------ lines */

static uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* In each line the address of the next, in one circle, in an order without sequences that a prefetcher knows. */
static void make_circle(char *buffer, uint64_t lines)
{
	uint32_t *order = map(lines * sizeof(*order));

	for (uint64_t i = 0; i < lines; i++)
		order[i] = i;
	for (uint64_t i = lines - 1; i; i--) {
		uint64_t j = random_number() % (i + 1);
		uint32_t other = order[j];

		order[j] = order[i];
		order[i] = other;
	}
	for (uint64_t i = 0; i < lines; i++)
		*(char **)(buffer + (uint64_t)order[i] * LINE) = buffer + (uint64_t)order[(i + 1) % lines] * LINE;
	munmap(order, lines * sizeof(*order));
}

/* Three instructions a line. */
static char *read_lines(char *first, uint64_t lines)
{
	__asm__ volatile("1:	ldr %0, [%0]\n"
			 "	subs %1, %1, #1\n"
			 "	b.ne 1b\n" : "+r"(first), "+r"(lines) :: "cc", "memory");
	return first;
}

/* Odd, and no small multiple of it is 1 modulo a power of two up to 2^20: no line is next to one of the last few. */
#define STRIDE	(661ull * LINE)

/* `lines` is a power of two. Five instructions a line, of which one goes to memory. */
static void write_lines(char *first, uint64_t lines)
{
	uint64_t offset = 0, mask = (lines - 1) * LINE;

	__asm__ volatile("1:	add %0, %0, %4\n"
			 "	and %0, %0, %3\n"
			 "	str %0, [%2, %0]\n"
			 "	subs %1, %1, #1\n"
			 "	b.ne 1b\n"
			 : "+r"(offset), "+r"(lines) : "r"(first + 8), "r"(mask), "r"(STRIDE) : "cc", "memory");
}

/* Likewise, six. */
static void add_to_lines(char *first, uint64_t lines)
{
	uint64_t offset = 0, mask = (lines - 1) * LINE;

	__asm__ volatile(".arch_extension lse\n"
			 "1:	add %0, %0, %4\n"
			 "	and %0, %0, %3\n"
			 "	add x9, %2, %0\n"
			 "	ldaddal %0, x10, [x9]\n"
			 "	subs %1, %1, #1\n"
			 "	b.ne 1b\n"
			 : "+r"(offset), "+r"(lines) : "r"(first + 8), "r"(mask), "r"(STRIDE)
			 : "x9", "x10", "cc", "memory");
}

static void do_step(char kind, char *first, uint64_t lines)
{
	if (kind == 'r')
		read_lines(first, lines);
	else if (kind == 'w')
		write_lines(first, lines);
	else if (kind == 'a')
		add_to_lines(first, lines);
	else
		die("there is no step '%c'", kind);
}

/* What reading the clock twice takes; a mean, since the clock stands still within a quantum. */
static double clock_cost(void)
{
	enum { CALLS = 10000 };
	uint64_t begin = now_ns();

	for (unsigned int i = 0; i < CALLS; i++)
		now_ns();
	return (double)(now_ns() - begin) / CALLS;
}

static void wait_loops(uint64_t loops)
{
	__asm__ volatile("1:	subs %0, %0, #1\n"
			 "	b.pl 1b\n" : "+r"(loops) :: "cc");
}

static void lines(const char *name, int argc, char **argv)
{
	uint64_t lines = number(argv[0]), rounds = number(argv[1]), passes = number(argv[2]);
	char *buffer = map(lines * LINE);
	double *samples = calloc(rounds, sizeof(*samples)), cost;

	if (lines & (lines - 1))
		die("%lu lines are not a power of two", lines);
	make_circle(buffer, lines);
	cost = clock_cost();
	for (uint64_t round = 0; round < rounds; round++)
		for (int i = 3; i < argc; i++) {
			bool timed = argv[i][0] == '=';
			const char *step = argv[i] + timed;

			if (!*step)
				die("'%s' is no step", argv[i]);
			settle_on(number(step + 1));
			if (timed) {
				uint64_t begin;

				/* Else it would always begin at the same point of a quantum. */
				wait_loops(random_number() % MAX_LOOPS);
				begin = now_ns();
				for (uint64_t pass = 0; pass < passes; pass++)
					do_step(*step, buffer, lines);
				samples[round] = now_ns() - begin - cost;
			} else {
				for (unsigned int pass = 0; pass < SETTLE_PASSES; pass++)
					do_step(*step, buffer, lines);
			}
		}
	printf("name=%s ns=%.4f\n", name, typical(samples, rounds) / passes / lines);
	free(samples);
}

static void chase(const char *name, int argc, char **argv)
{
	uint64_t lines = number(argv[0]), timed = number(argv[1]), begin;
	char *buffer = map(lines * LINE), *at;

	(void)argc;
	go_to(number(argv[2]));
	touch(buffer, lines * LINE);
	settle_on(number(argv[3]));
	make_circle(buffer, lines);
	at = read_lines(buffer, lines);
	begin = now_ns();
	read_lines(at, timed);
	printf("name=%s ns=%.4f\n", name, (double)(now_ns() - begin) / timed);
}

/* ----------------------------------------------------------------- bounce */

static unsigned int turn;	/* the number of turns that are over */

static void write_in_turn(struct worker *worker)
{
	unsigned int mine = worker - workers;

	/* One more than are timed: the first finds the lines in no cache. */
	for (uint64_t i = 0; i <= worker->amount; i++) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 2 * i + mine)
			;
		if (i == 1)
			worker->begin = now_ns();
		for (uint64_t pass = 0; pass < worker->passes; pass++)
			write_lines(worker->to, worker->lines);
		__atomic_store_n(&turn, 2 * i + mine + 1, __ATOMIC_RELEASE);
	}
}

static void bounce(const char *name, int argc, char **argv)
{
	uint64_t lines = number(argv[0]), passes = number(argv[1]), turns = number(argv[2]), ns;
	char *buffer = map(lines * LINE);

	touch(buffer, lines * LINE);
	set_workers(argc - 3, argv + 3);
	for (unsigned int i = 0; i < 2; i++) {
		workers[i].run = write_in_turn;
		workers[i].amount = turns;
		workers[i].lines = lines;
		workers[i].passes = passes;
		workers[i].to = buffer;
	}
	ns = run_all();
	printf("name=%s ns=%.4f\n", name, (double)ns / (2 * turns * passes * lines));
}

/* ----------------------------------------------------------------- stream */

static void pass_over(struct worker *worker)
{
	uint64_t lines = worker->amount;
	char *from = worker->from, *to = worker->to;

	if (worker->copy)
		__asm__ volatile("1:	ldr x9, [%0], #64\n"
				 "	str x9, [%1], #64\n"
				 "	subs %2, %2, #1\n"
				 "	b.ne 1b\n" : "+r"(from), "+r"(to), "+r"(lines) :: "x9", "cc", "memory");
	else
		__asm__ volatile("1:	ldr x9, [%0], #64\n"
				 "	subs %1, %1, #1\n"
				 "	b.ne 1b\n" : "+r"(from), "+r"(lines) :: "x9", "cc", "memory");
}

static void prepare_buffers(struct worker *worker)
{
	size_t size = worker->amount * LINE;

	worker->from = map(size);
	worker->to = worker->copy ? map(size) : NULL;
	if (worker->home >= 0)
		go_to(worker->home);
	touch(worker->from, size);
	if (worker->copy)
		touch(worker->to, size);
	go_to(worker->cpu);
	/* No other cache has it any more, and the last pass finds what the ones before it have left. */
	for (size_t offset = 0; offset < size; offset += LINE) {
		((volatile char *)worker->from)[offset] = 0;
		if (worker->copy)
			((volatile char *)worker->to)[offset] = 0;
	}
	meet();
	pass_over(worker);
}

/* `lines` are those of a thread's buffers together. */
static void stream(const char *name, int argc, char **argv)
{
	bool copy = !strcmp(argv[0], "copy");
	uint64_t lines = number(argv[1]), ns;
	int home = strcmp(argv[2], "-1") ? (int)number(argv[2]) : -1;

	set_workers(argc - 3, argv + 3);
	for (unsigned int i = 0; i < nr_workers; i++) {
		workers[i].prepare = prepare_buffers;
		workers[i].run = pass_over;
		workers[i].amount = copy ? lines / 2 : lines;
		workers[i].home = home;
		workers[i].copy = copy;
	}
	ns = run_all();
	printf("name=%s gbs=%.4f\n", name, (double)nr_workers * lines * LINE / ns);
}

/* --------------------------------------------------------------- pingpong */

static unsigned int futexes[2][LINE / sizeof(unsigned int)] __attribute__((aligned(LINE)));

static void wait_for(unsigned int *word)
{
	while (!__atomic_exchange_n(word, 0, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void wake(unsigned int *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void play(struct worker *worker)
{
	unsigned int mine = worker - workers;

	for (uint64_t i = 0; i < worker->amount; i++) {
		if (mine)
			wait_for(futexes[1]);
		wake(futexes[!mine]);
		if (!mine)
			wait_for(futexes[0]);
	}
}

static void pingpong(const char *name, int argc, char **argv)
{
	uint64_t turns = number(argv[0]), ns;

	set_workers(argc - 1, argv + 1);
	for (unsigned int i = 0; i < 2; i++) {
		workers[i].run = play;
		workers[i].amount = turns;
	}
	ns = run_all();
	printf("name=%s ns=%.1f\n", name, (double)ns / turns);
}

static const struct {
	const char *name;
	int least;	/* number of arguments */
	void (*run)(const char *name, int argc, char **argv);
} probes[] = {
	{ "spin", 2, spin }, { "hint", 2, hint }, { "sleep", 2, sleep_well }, { "lines", 4, lines },
	{ "chase", 4, chase }, { "bounce", 5, bounce }, { "stream", 4, stream }, { "pingpong", 3, pingpong },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof(probes) / sizeof(probes[0]); i++)
		if (!strcmp(argv[1], probes[i].name) && argc - 3 >= probes[i].least) {
			probes[i].run(argv[2], argc - 3, argv + 3);
			return 0;
		}
	die("usage: lab-probe PROBE NAME ..., see its source");
	return 1;
}
