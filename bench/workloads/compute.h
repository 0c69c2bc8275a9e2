/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the workloads compute, and how they wait for each other.
 *
 * A unit of work is a chain of about 1000 instructions, each of which needs the
 * result of the one before. It is a number of instructions and not a time: where
 * time is virtual, work that ends when a clock says so would measure the clock.
 */
#ifndef WORKLOADS_COMPUTE_H
#define WORKLOADS_COMPUTE_H

#include "options.h"

#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of 4 instructions each */
#define CHAIN_STEPS	250

/* Words that one thread writes do not share a cache line, or a pair of them, with others. */
#define APART		__attribute__((aligned(128)))

#define LOAD(x)		__atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)
#define SWAP(x, v)	__atomic_exchange_n(&(x), (v), __ATOMIC_SEQ_CST)
#define ADD(x, v)	__atomic_fetch_add(&(x), (v), __ATOMIC_SEQ_CST)

static inline void compute(unsigned long units)
{
	unsigned long value = 1, factor = 6364136223846793005UL, summand = 1442695040888963407UL;

	/* Registers, nothing that the compiler could simplify or compute in advance */
	__asm__ volatile("" : "+r"(factor), "+r"(summand));
	for (unsigned long i = 0; i < units * CHAIN_STEPS; i++) {
		value *= factor;
		/* Not one instruction on one architecture, and two on another */
		__asm__ volatile("" : "+r"(value));
		value += summand;
	}
	__asm__ volatile("" : : "r"(value));
}

/* Tells the CPU that this thread spins. */
static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Whether it slept: not if the word had changed before. */
static inline bool futex_wait(unsigned int *addr, unsigned int value)
{
	return !syscall(SYS_futex, addr, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(unsigned int *addr)
{
	syscall(SYS_futex, addr, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void sleep_until(uint64_t time)
{
	struct timespec ts = { .tv_sec = time / NSEC_PER_SEC, .tv_nsec = time % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/*
 * Begin at the same moment as others, in ms of the monotonic clock; 0 is at once.
 * Whoever is late would measure something else than they do.
 */
static inline void begin_at(const struct program *program, unsigned long ms)
{
	uint64_t now = now_ns(), begin = ms * 1000000ULL;

	if (!ms)
		return;
	if (now > begin)
		die(program, EXIT_FAILED, "too late to begin, by %.3f ms", (now - begin) / 1e6);
	sleep_until(begin);
}

/* The CPUs that this thread may use, and the @index-th of them, counted round */
static inline unsigned int allowed_cpus(cpu_set_t *set)
{
	CPU_ZERO(set);
	return sched_getaffinity(0, sizeof(*set), set) ? 1 : CPU_COUNT(set);
}

static inline void pin_to(const cpu_set_t *allowed, unsigned int index)
{
	cpu_set_t one;
	unsigned int left = index % CPU_COUNT(allowed);

	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || left--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

/* A trace then tells whose threads they are. */
static inline void name_thread(const char *name)
{
	if (*name)
		prctl(PR_SET_NAME, name);
}

static inline void *allocate_zeroed(const struct program *program, size_t nr, size_t size)
{
	void *memory = NULL;

	if (nr > SIZE_MAX / size || posix_memalign(&memory, 128, nr * size))
		die(program, EXIT_FAILED, "no memory for %zu pieces of %zu bytes", nr, size);
	return memset(memory, 0, nr * size);
}

static inline int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The value that @permille of 1000 of the sorted samples do not exceed */
static inline uint64_t quantile(const uint64_t *sorted, size_t nr, unsigned int permille)
{
	size_t rank = (nr * permille + 999) / 1000;

	return sorted[rank ? rank - 1 : 0];
}

#endif /* WORKLOADS_COMPUTE_H */
