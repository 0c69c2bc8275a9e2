/* SPDX-License-Identifier: GPL-2.0-only */
/* The demo's parts: the machine, the kernel's trace, the workloads. */
#ifndef STEER_DEMO_H
#define STEER_DEMO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MAX_CPUS	256

/* The group with the hint, and that of the busy loops */
#define CGROUPS		"/sys/fs/cgroup"
#define GROUP		CGROUPS "/demo"
#define BUSY_GROUP	CGROUPS "/demo-busy"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* With this begin the names of all processes that the demo starts. */
#define NAME_PREFIX	"steer-"

/* Names of the tasks whose events are recorded */
#define WORKER		NAME_PREFIX "worker"
#define FORKER		NAME_PREFIX "forker"

/* ---------------------------------------------------------------- files */

__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *format, ...);

int file_write(const char *path, const char *text);
int file_read(const char *path, char *buf, size_t len);
void groups_setup(void);
void groups_remove(void);
void group_write(const char *file, const char *text);
void group_read(const char *file, char *buf, size_t len);

/* -------------------------------------------------------------- machine */

/**
 * struct machine - the online CPUs and what they share
 * @cpus:	online CPUs
 * @nr_cpus:	their number
 * @nr_llcs:	number of last-level caches
 * @nr_nodes:	number of NUMA nodes with CPUs
 * @smt:	threads of the widest core
 * @llc_width:	CPUs of the smallest LLC
 * @llc:	CPUs of each LLC
 * @llc_of:	LLC of each CPU
 * @node_of:	node of each CPU
 */
struct machine {
	cpu_set_t cpus;
	int nr_cpus;
	int nr_llcs;
	int nr_nodes;
	int smt;
	int llc_width;
	cpu_set_t llc[MAX_CPUS];
	int llc_of[MAX_CPUS];
	int node_of[MAX_CPUS];
};

extern struct machine machine;

void machine_read(void);
void machine_show(void);
void pin(pid_t pid, const cpu_set_t *set);
void pin_cpu(pid_t pid, int cpu);

/* ---------------------------------------------------------------- trace */

/* What the events say about the workers' wakeups */
struct wakeups {
	int seen;		/* wakeups with a known waker and previous CPU */
	int across;		/* of these, waker and previous CPU in different LLCs */
	int to_waker;		/* of these, ended in the waker's LLC */
	int to_prev;		/* or in the previous one */
	int migrations;		/* of workers, from one LLC to another */
};

/* What the events say about the children of a forking task */
struct forks {
	int children;
	int same_llc;		/* placed in the LLC of the parent */
	int same_node;		/* placed in another LLC of its node */
	int other_node;
	int batches;		/* of children that exist at the same time */
	int llcs;		/* used by a batch and the parent, summed over batches */
	int nodes;		/* likewise */
};

void trace_setup(void);
void trace_remove(void);
void trace_on(bool on);
void trace_clear(void);
long trace_lost(void);
void trace_wakeups(struct wakeups *sum);
void trace_forks(struct forks *sum, int batch);

/* ------------------------------------------------------------- workload */

/* Growth of hint_* in the group's cpu.stat while it was measured */
struct counters {
	long followed;
	long full;
	long other;		/* same LLC, not allowed there, or no waker */
};

/**
 * struct scene - how the messenger and its workers are set up
 * @rounds:	rounds to measure
 * @waker_llc:	LLC that the messenger stays in, or -1: it goes from one to the next
 * @home_llc:	LLC that the workers are put to sleep in before each round, or -1
 * @full_llc:	LLC with a busy loop pinned to each CPU, or -1: instead, one
 *		busy loop takes the CPU that one of the workers has just left
 */
struct scene {
	int rounds;
	int waker_llc;
	int home_llc;
	int full_llc;
};

void wake_workload(const char *hint, const struct scene *scene,
		   struct wakeups *seen, struct counters *counters);
void fork_workload(const char *hint, int batches, int batch,
		   struct forks *seen, struct counters *counters);

#endif /* STEER_DEMO_H */
