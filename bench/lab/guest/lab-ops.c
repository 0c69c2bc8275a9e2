// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel operations, between marks of the lab (bench/lab/plugin/plugin.c), to count what they cost:
 *
 *   lab-ops wakeup N REGIONS SPIN MASK MASK
 *	two threads wake each other in turn: an operation is two wakeups
 *   lab-ops relay N REGIONS SPIN MASK MASK MASK
 *	the first wakes the second, that the third, that the second, and that the first: an operation is four wakeups,
 *	two of them of the second, one from either side
 *   lab-ops switch N REGIONS MASK
 *	two processes pass a byte to and fro: on one CPU, an operation is two context switches
 *   lab-ops fork N REGIONS MASK
 *	an operation is fork(), _exit() in the child, and waitpid()
 *   lab-ops tree COUNT WORDS WORDS WORDS
 *	makes COUNT groups, ten below each, and writes the words to the cpu.hint of the topmost one, in
 *	turn
 *
 * Masks are the CPUs of each task, as hexadecimal numbers. A task spins SPIN times before it wakes another one, so that
 * this one sleeps by then, and its CPU does.
 *
 * There is a mark before and after each region, and one between two. A region has N operations: so few that most
 * regions end before the next tick. A mark is one instruction of user space, so a region has nothing of the kernel's
 * but its operations. `tree` has a region for each of its writes.
 *
 * At the end, a line tells the name, the operations and the number of regions, and how often the program slept in all
 * of them: an operation in which nobody slept has not woken anybody.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAN_OUT	10
/* Regions before the first mark: caches and averages are then what they stay. */
#define WARM_UP	5

static void fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "lab-ops: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

/* On a machine that is not the lab's, nothing happens. */
static void mark(void)
{
#ifdef __aarch64__
	__asm__ volatile("hint #0x6a" ::: "memory");
#endif
}

static long times_slept(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

static unsigned long number(const char *text, int base)
{
	char *end;
	unsigned long value = strtoul(text, &end, base);

	if (!*text || *end || !value) {
		errno = EINVAL;
		fail("'%s'", text);
	}
	return value;
}

static void stay_on(unsigned long mask)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (unsigned int cpu = 0; cpu < 8 * sizeof(mask); cpu++)
		if (mask >> cpu & 1)
			CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fail("affinity %#lx", mask);
}

/*
 * Two tasks that start on one CPU may stay there, where the LLC looks too busy to be searched: whether they do is
 * chance. So the first task starts on the first CPU of its mask, and the others on the last ones of theirs.
 */
static void stay_apart_then_on(unsigned long mask, bool last)
{
	stay_on(last ? 1ul << (8 * sizeof(mask) - 1 - __builtin_clzl(mask)) : mask & -mask);
	stay_on(mask);
}

static void measure(const char *name, unsigned long n, unsigned long regions, void (*operation)(void))
{
	long slept;

	for (unsigned long i = 0; i < n * WARM_UP; i++)
		operation();
	slept = times_slept();
	mark();
	for (unsigned long region = 0; region < regions; region++) {
		for (unsigned long i = 0; i < n; i++)
			operation();
		mark();
	}
	printf("@ops %s %lu %lu %ld\n", name, n, regions, times_slept() - slept);
}

/* Threads that wake each other: each sleeps on its seat's word until another one sets it. */

static struct seat {
	int word;
	unsigned long mask;
} __attribute__((aligned(128))) seats[3];

static unsigned int n_seats;
static unsigned long spin;
static bool over;

static void wake(struct seat *seat)
{
	for (unsigned long i = 0; i < spin; i++)
		__asm__ volatile("");
	__atomic_store_n(&seat->word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &seat->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void sleep_on(struct seat *seat)
{
	while (!__atomic_exchange_n(&seat->word, 0, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &seat->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* Sits in the middle, and passes on in the direction from which it was woken, or at the end, and turns back. */
static void *sit(void *which)
{
	unsigned int me = (uintptr_t)which, next = me;

	stay_apart_then_on(seats[me].mask, true);
	for (;;) {
		sleep_on(&seats[me]);
		if (me + 1 == n_seats)
			next = me - 1;
		else
			next = next == me + 1 ? me - 1 : me + 1;
		if (over && next < me)
			return NULL;
		wake(&seats[next]);
		if (over)
			return NULL;
	}
}

static void there_and_back(void)
{
	wake(&seats[1]);
	sleep_on(&seats[0]);
}

static void wakeups(const char *name, unsigned long n, unsigned long regions, char **masks, unsigned int count)
{
	pthread_t threads[3];

	n_seats = count;
	for (unsigned int i = 0; i < count; i++)
		seats[i].mask = number(masks[i], 16);
	for (unsigned int i = 1; i < count; i++)
		if (pthread_create(&threads[i], NULL, sit, (void *)(uintptr_t)i))
			fail("thread");
	stay_apart_then_on(seats[0].mask, false);
	measure(name, n, regions, there_and_back);
	over = true;
	wake(&seats[1]);
	for (unsigned int i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* Processes that pass a byte through pipes. */

static int to_child[2], to_parent[2];

static void pass(int from, int to)
{
	char byte = 0;

	if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
		fail("pipe");
}

static void pass_to_child(void)
{
	pass(to_parent[0], to_child[1]);
}

static void switches(const char *name, unsigned long n, unsigned long regions)
{
	pid_t child;

	/* A batch task that wakes up preempts nobody: the other one runs when this one sleeps, and never before. */
	if (sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }))
		fail("SCHED_BATCH");
	if (pipe(to_child) || pipe(to_parent))
		fail("pipe");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		char byte;

		close(to_child[1]);
		while (read(to_child[0], &byte, 1) == 1)
			if (write(to_parent[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	measure(name, n, regions, pass_to_child);
	close(to_child[1]);
	waitpid(child, NULL, 0);
}

static void fork_one(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		fail("waitpid");
}

/* A tree of groups. Group i is below group (i - 1) / FAN_OUT; group 0 is the topmost. */

static void path_of(char *path, size_t size, unsigned long group, unsigned long count, const char *file)
{
	unsigned long chain[32];
	unsigned int depth = 0;
	size_t length;

	while (group) {
		chain[depth++] = group;
		group = (group - 1) / FAN_OUT;
	}
	length = snprintf(path, size, "/sys/fs/cgroup/tree-%lu-%d", count, getpid());
	while (depth)
		length += snprintf(path + length, size - length, "/g%lu", chain[--depth]);
	snprintf(path + length, size - length, "%s", file);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("%s", path);
	close(fd);
}

static void tree(unsigned long count, char **words)
{
	char path[512];
	int fd;

	for (unsigned long group = 0; group < count; group++) {
		path_of(path, sizeof(path), group, count, "");
		if (mkdir(path, 0755))
			fail("%s", path);
		if (group * FAN_OUT + 1 < count) {
			path_of(path, sizeof(path), group, count, "/cgroup.subtree_control");
			put(path, "+cpu");
		}
	}
	path_of(path, sizeof(path), 0, count, "/cpu.hint");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail("%s", path);
	mark();
	for (unsigned int i = 0; i < 3; i++) {
		if (pwrite(fd, words[i], strlen(words[i]), 0) != (ssize_t)strlen(words[i]))
			fail("%s: '%s'", path, words[i]);
		mark();
	}
	close(fd);
	for (unsigned long group = count; group--;) {
		path_of(path, sizeof(path), group, count, "");
		if (rmdir(path))
			fail("%s", path);
	}
	printf("@ops tree %lu 3 0\n", count);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long n = argc > 3 ? number(argv[2], 10) : 0, regions;

	setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
	if (!strcmp(what, "tree") && argc == 6) {
		tree(n, argv + 3);
		return 0;
	}
	regions = argc > 4 ? number(argv[3], 10) : 0;
	if ((!strcmp(what, "wakeup") && argc == 7) || (!strcmp(what, "relay") && argc == 8)) {
		spin = strcmp(argv[4], "0") ? number(argv[4], 10) : 0;
		wakeups(what, n, regions, argv + 5, argc - 5);
	} else if (!strcmp(what, "switch") && argc == 5) {
		stay_on(number(argv[4], 16));
		switches(what, n, regions);
	} else if (!strcmp(what, "fork") && argc == 5) {
		stay_on(number(argv[4], 16));
		measure(what, n, regions, fork_one);
	} else {
		fprintf(stderr, "lab-ops: wakeup|relay|switch|fork|tree with what belongs to it; see lab-ops.c\n");
		return 2;
	}
	return 0;
}
