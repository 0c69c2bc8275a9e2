/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers for the cpu.hint selftests.
 *
 * The tests run on emulated machines, where many virtual CPUs share few real
 * ones. A test therefore never concludes anything from elapsed time: it polls
 * for a state (WAIT_FOR), and judges by where tasks ran, by the kernel's
 * counters, and by CPU time that the kernel accounted.
 */
#ifndef STEER_UTIL_H
#define STEER_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define STEER_MAX_CPUS	256
#define CG_ROOT		"/sys/fs/cgroup"
#define AUTOGROUP	"/proc/sys/kernel/sched_autogroup_enabled"
#define STEER_DEBUG	"/sys/kernel/debug/sched/steer"

/* Ends a hang; nothing is judged by it. */
#define WAIT_SECONDS	40

#define WAIT_FOR(cond) ({						\
	time_t __end = time(NULL) + WAIT_SECONDS;			\
	bool __ok;							\
									\
	while (!(__ok = (cond)) && time(NULL) < __end)			\
		usleep(1000);						\
	__ok;								\
})

/**
 * struct topo - what the machine looks like to the scheduler
 * @cpus:	online CPUs
 * @nr_cpus:	their number
 * @nr_llcs:	number of last-level caches
 * @nr_nodes:	number of NUMA nodes that have CPUs
 * @smt:	threads of the widest core
 * @llc:	CPUs of each last-level cache, in the order of their first CPU
 * @node:	CPUs of each node
 * @core:	indexed by CPU: all threads of its core
 * @llc_of:	indexed by CPU
 * @node_of:	indexed by CPU
 */
struct topo {
	cpu_set_t cpus;
	int nr_cpus;
	int nr_llcs;
	int nr_nodes;
	int smt;
	cpu_set_t llc[STEER_MAX_CPUS];
	cpu_set_t node[STEER_MAX_CPUS];
	cpu_set_t core[STEER_MAX_CPUS];
	int llc_of[STEER_MAX_CPUS];
	int node_of[STEER_MAX_CPUS];
};

int topo_read(struct topo *t);
int topo_llc_weight(const struct topo *t);
/* Can it go offline? The boot CPU may not. */
bool cpu_can_go(int cpu);
int cpu_set_online(int cpu, bool online);

int cpulist_parse(const char *list, cpu_set_t *set);
void cpulist_format(const cpu_set_t *set, char *buf, size_t len);
int cpuset_nth(const cpu_set_t *set, int n);
cpu_set_t cpuset_one(int cpu);
cpu_set_t cpuset_and(cpu_set_t a, cpu_set_t b);
cpu_set_t cpuset_or(cpu_set_t a, cpu_set_t b);
cpu_set_t cpuset_minus(cpu_set_t a, cpu_set_t b);

/* Files: 0 or the length on success, a negative errno on failure. */
int file_write(const char *path, const void *buf, size_t len);
int file_read(const char *path, char *buf, size_t len);
long file_key(const char *path, const char *key);

/* A user and a group that own nothing */
#define NOBODY	65534

/* Control groups, by their full path. */
bool steer_built(void);
bool steer_off_at_boot(void);
bool cg_has(const char *file);
/* to NOBODY */
int cg_delegate(const char *cg);
char *cg_name(const char *parent, const char *name);
char *cg_top(const char *name);
char *cg_new(const char *parent, const char *name);
int cg_enable(const char *cg, const char *controllers);
int cg_destroy(const char *cg);
int cg_write(const char *cg, const char *file, const char *value);
int cg_write_len(const char *cg, const char *file, const void *buf, size_t len);
int cg_read(const char *cg, const char *file, char *buf, size_t len);
bool cg_is(const char *cg, const char *file, const char *value);
int cg_enter(const char *cg, pid_t pid);
long cg_stat(const char *cg, const char *key);
long cg_count(const char *cg, const char *key);

/* The monotonic clock [s] */
double now_s(void);

/* Tasks. */
int task_pin(pid_t tid, const cpu_set_t *set);
int task_pin_cpu(pid_t tid, int cpu);
int task_cpu(pid_t pid);
char task_state(pid_t pid);
long task_status(pid_t pid, const char *key);
long task_sched(pid_t pid, pid_t tid, const char *key);
int task_set_slice(pid_t pid, uint64_t ns);
uint64_t task_cpu_ns(pid_t pid);
/* The calling thread uses so much CPU time. */
void task_work(long us);
pid_t task_fork(const char *cg);
pid_t task_sleep(const char *cg);
/* One on @cpu that works for so much CPU time, and sleeps for so long, by turns [us]. */
pid_t task_cycle(const char *cg, int cpu, long work, long rest);
void task_kill(pid_t pid);

#define SHARED(type)	((type *)shared_alloc(sizeof(type)))
void *shared_alloc(size_t len);

/* Busy loops, one to a CPU and pinned to it, paused until hogs_run(). */
struct hog {
	pid_t pid;
	int cpu;
	unsigned int run;
	unsigned int parked;
	unsigned long loops;
};

struct hogs {
	int nr;
	struct hog *hog;
};

int hogs_start(struct hogs *h, const char *cg, const cpu_set_t *cpus, int nice);
int hogs_run(struct hogs *h);
int hogs_pause(struct hogs *h);
bool hogs_get_on(const struct hogs *h, long ms);
void hogs_stop(struct hogs *h);

/* Busy loops that run at once, and that the test pins anew: where they go is the test. */
#define MAX_SPINNERS	64
struct spinner {
	pid_t pid;
	unsigned long loops;
};

struct spinners {
	int nr;
	struct spinner *task;
};

int spinners_add(struct spinners *s, const char *cg, int cpu);
int spinners_run(struct spinners *s);
int spinners_pin(struct spinners *s, const cpu_set_t *cpus);
int spinners_on(const struct spinners *s, int first, int nr, const cpu_set_t *cpus);
void spinners_stop(struct spinners *s);

/*
 * A task that sleeps on a futex, and for each wakeup says where it ran. The
 * caller is the waker, so that the waking CPU is the caller's. A futex and not
 * a pipe, as pipes wake with WF_SYNC, which is a hint of its own.
 */
struct wakee_page {
	unsigned int go;
	unsigned int seen;
	int cpu;
	long sleeps;
	long work;	/* after each wakeup, CPU time [us] */
};

struct wakee {
	pid_t pid;
	struct wakee_page *page;
};

/* One wakeup: the waker's CPU, the wakee's previous CPU, where it ran then. */
struct wake {
	int waker;
	int prev;
	int cpu;
};

int wakee_start(struct wakee *w, const char *cg, const cpu_set_t *mask);
int wakee_start_exec(struct wakee *w, const char *cg, const cpu_set_t *mask);
int wakee_settle(struct wakee *w);
int wakee_wake(struct wakee *w, struct wake *rec);
void wakee_call(struct wakee *w);
int wakee_answer(struct wakee *w);
int wakee_place(struct wakee *w, int cpu, const cpu_set_t *mask);
void wakee_stop(struct wakee *w);

/* main() of every test calls this first: the parts that tests exec() */
int steer_helper(int argc, char **argv);

/* A trace instance of its own, with the named events of one system enabled. */
struct trace {
	char dir[PATH_MAX];
};

int trace_start(struct trace *tr, const char *system, const char *event,
		const char *filter);
int trace_count(struct trace *tr, const char *event, const char *substring);
/* Who reads a trace that fast ones write to may be overtaken, and see a part of it. */
int trace_pause(struct trace *tr);
void trace_stop(struct trace *tr);

#define STEER_MAIN							\
	int main(int argc, char **argv)					\
	{								\
		int ret = steer_helper(argc, argv);			\
									\
		return ret >= 0 ? ret : test_harness_run(argc, argv);	\
	}

/*
 * A kernel without one of our files, or booted without them, skips everything. One
 * that has the mechanism but not the file is broken.
 */
#define REQUIRE_FILE(file) do {						\
	if (!cg_has(file)) {						\
		if (!steer_built())					\
			SKIP(return, "this kernel has no " file);	\
		ASSERT_TRUE(steer_off_at_boot())			\
			TH_LOG(file " is missing");			\
		SKIP(return, file " is off: cgroup_steer=0");		\
	}								\
} while (0)

#define REQUIRE_HINT()	REQUIRE_FILE("cpu.hint")

#define REQUIRE_LLCS(t, n) do {						\
	if ((t)->nr_llcs < (n) || topo_llc_weight(t) < 2)		\
		SKIP(return, "needs %d LLCs of two CPUs, has %d LLC(s) of %d", \
		     (n), (t)->nr_llcs, topo_llc_weight(t));		\
} while (0)

#endif /* STEER_UTIL_H */
