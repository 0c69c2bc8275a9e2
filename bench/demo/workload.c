// SPDX-License-Identifier: GPL-2.0-only
/*
 * The workloads. Those who are steered are in the group; the messengers that
 * wake them and the busy loops that get in their way are not.
 *
 * Wakeups: pairs of a messenger and a worker. The messengers go from LLC to
 * LLC, and in each wake their worker through a futex (a pipe would wake with
 * WF_SYNC, which is a hint of its own). Before that, a busy loop takes the CPU
 * that one of the workers ran on last. So one worker could go back to where it
 * was, the other could not, and the default path takes them different ways:
 * there is something to change for either hint.
 *
 * The default path pulls no worker to its messenger if one of the two has
 * changed whom it wakes four times as often as the other: wake_wide(). So each
 * messenger wakes one worker, and each worker one task, this process, which is
 * free to run anywhere, as only then the wakeup is taken into account.
 *
 * Forks: a parent goes from LLC to LLC, and in each has a batch of children,
 * which run until the batch is complete.
 */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NR_PAIRS	2

/* Rounds before anything is recorded, until the load averages are those of the workload */
#define WARM_UP		40

/* What a worker does with a message, in turns of an empty loop */
#define WORK		20000

/* Ends a hang; nothing is judged by it. Longer than what vm/run.py waits: DEMO_SILENCE */
#define PATIENCE	60

#define LOAD(x)		__atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)
#define ADD(x, v)	__atomic_add_fetch(&(x), (v), __ATOMIC_SEQ_CST)

/**
 * struct pair - a messenger and its worker
 * @order:	tells the messenger to wake the worker
 * @message:	what the worker sleeps on
 * @cpu:	CPU that the worker ran on last
 * @switches:	how often the worker had slept before it did so now
 * @messenger:	process
 * @worker:	process
 */
struct pair {
	unsigned int order;
	unsigned int message;
	int cpu;
	long switches;
	pid_t messenger;
	pid_t worker;
};

/* Shared by all processes of the demo */
static struct shared {
	struct pair pair[NR_PAIRS];
	unsigned int answers;
	unsigned int go;		/* tells a batch of children to end */
	unsigned int running[MAX_CPUS];	/* busy loops that do */
} *shared;

static void share(void)
{
	if (shared)
		return;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
}

/* Fields of /proc/PID/stat after the name, which is in brackets: proc_pid_stat(5) */
#define STATE_FIELD	3
#define CPU_FIELD	39

/* Where the processes of the demo are, for whoever looks for the reason of a hang */
static void show_processes(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		char path[PATH_MAX], stat[1024], where[64], *at, *next, *state, *cpu = NULL;

		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		if (atoi(entry->d_name) <= 0 || file_read(path, stat, sizeof(stat)) < 0 ||
		    !strstr(stat, "(" NAME_PREFIX))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/wchan", entry->d_name);
		if (file_read(path, where, sizeof(where)) < 0)
			strcpy(where, "?");
		at = strrchr(stat, ')');
		*at++ = '\0';
		state = strtok_r(at, " ", &next);
		for (int field = STATE_FIELD; field < CPU_FIELD; field++)
			cpu = strtok_r(NULL, " ", &next);
		fprintf(stderr, "  %s): state %s, CPU %s, in %s\n", stat, state, cpu, where);
	}
	if (proc)
		closedir(proc);
}

static void futex_wait(unsigned int *addr, unsigned int value)
{
	struct timespec patience = { .tv_sec = PATIENCE };

	if (syscall(SYS_futex, addr, FUTEX_WAIT, value, &patience, NULL, 0) &&
	    errno == ETIMEDOUT && LOAD(*addr) == value) {
		show_processes();
		die("no answer within %d s", PATIENCE);
	}
}

static void futex_wake(unsigned int *addr)
{
	syscall(SYS_futex, addr, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void progress(const char *what, int done, int total)
{
	if (!isatty(STDOUT_FILENO))
		return;
	if (done == total)
		printf("\r%60s\r", "");
	else if (done % 10 == 0)
		printf("\r  %s: %d of %d", what, done, total);
	fflush(stdout);
}

static void unpin(pid_t pid)
{
	pin(pid, &machine.cpus);
}

/* fork() a child that ends with this process */
static pid_t start(const char *name)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void enter(const char *group)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	err = file_write(path, "0");
	if (err)
		die("entering %s: %s", group, strerror(-err));
}

/* How often @pid gave up its CPU by itself */
static long switches(pid_t pid)
{
	static const char key[] = "\nvoluntary_ctxt_switches:";
	char path[64], status[8192], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (file_read(path, status, sizeof(status)) < 0)
		die("task %d is gone", pid);
	at = strstr(status, key);
	if (!at)
		die("%s has no '%s'", path, key + 1);
	return atol(at + strlen(key));
}

/*
 * Wait until the workers sleep: one that is still on its runqueue is woken
 * where it is, and nobody is asked. A little more for messengers to sleep, too.
 */
static void settle(void)
{
	for (int i = 0; i < NR_PAIRS; i++)
		while (switches(shared->pair[i].worker) <= LOAD(shared->pair[i].switches))
			usleep(200);
	usleep(500);
}

/* ------------------------------------------------------------- counters */

static void read_counters(const char *category, struct counters *sum, int sign)
{
	char stat[8192], key[32];
	const char *line = stat;

	group_read("cpu.stat", stat, sizeof(stat));
	snprintf(key, sizeof(key), "hint_%s_", category);
	for (; line; line = strchr(line, '\n')) {
		long value;

		line += *line == '\n';
		if (strncmp(line, key, strlen(key)))
			continue;
		value = sign * atol(strchr(line, ' '));
		if (!strncmp(line + strlen(key), "followed ", 9))
			sum->followed += value;
		else if (!strncmp(line + strlen(key), "full ", 5))
			sum->full += value;
		else
			sum->other += value;
	}
}

/* --------------------------------------------------------------- wakeups */

static void sleep_on(unsigned int *addr, unsigned int *seen)
{
	/* Maybe for long: between two measurements. */
	while (LOAD(*addr) == *seen)
		syscall(SYS_futex, addr, FUTEX_WAIT, *seen, NULL, NULL, 0);
	*seen = LOAD(*addr);
}

static void work(struct pair *pair, unsigned int seen)
{
	struct rusage usage;

	for (;;) {
		sleep_on(&pair->message, &seen);
		for (int i = 0; i < WORK; i++)
			LOAD(pair->message);
		getrusage(RUSAGE_SELF, &usage);
		STORE(pair->switches, usage.ru_nvcsw);
		STORE(pair->cpu, sched_getcpu());
		ADD(shared->answers, 1);
		futex_wake(&shared->answers);
	}
}

static void relay(struct pair *pair, unsigned int seen)
{
	for (;;) {
		sleep_on(&pair->order, &seen);
		ADD(pair->message, 1);
		futex_wake(&pair->message);
	}
}

static void message_all(void)
{
	unsigned int until = LOAD(shared->answers) + NR_PAIRS, answers;

	for (int i = 0; i < NR_PAIRS; i++) {
		ADD(shared->pair[i].order, 1);
		futex_wake(&shared->pair[i].order);
	}
	while ((int)((answers = LOAD(shared->answers)) - until) < 0)
		futex_wait(&shared->answers, answers);
}

static void start_pairs(void)
{
	for (int i = 0; i < NR_PAIRS; i++) {
		struct pair *pair = &shared->pair[i];
		unsigned int order = LOAD(pair->order), message = LOAD(pair->message);
		pid_t pid = start(WORKER);

		if (!pid) {
			enter(GROUP);
			work(pair, message);
		}
		pair->worker = pid;
		pid = start(NAME_PREFIX "messenger");
		if (!pid)
			relay(pair, order);
		pair->messenger = pid;
	}
	message_all();
	settle();
}

static void stop_pairs(void)
{
	for (int i = 0; i < NR_PAIRS; i++) {
		stop(shared->pair[i].messenger);
		stop(shared->pair[i].worker);
	}
}

/*
 * Let the workers run in their LLCs of @llc once, and then go where they like.
 * On different CPUs: one that goes to sleep beside the other may stay on the
 * runqueue for a while, until its lag is gone, and is then woken there.
 */
static void send_home(const int *llc)
{
	for (int i = 0; i < NR_PAIRS; i++) {
		int cpu = 0, nth = i;

		while (!CPU_ISSET(cpu, &machine.llc[llc[i]]) || nth--)
			cpu++;
		pin_cpu(shared->pair[i].worker, cpu);
	}
	message_all();
	settle();
	for (int i = 0; i < NR_PAIRS; i++)
		unpin(shared->pair[i].worker);
}

/*
 * The busy loops have a group of their own, as the session's autogroup would
 * share out one task's weight among them and the messengers. In it, each weighs
 * twice as much as a task: the default path takes them for what they are.
 */
static void weigh_busy(int nr)
{
	char weight[16];
	int err;

	snprintf(weight, sizeof(weight), "%d", 200 * nr);
	err = file_write(BUSY_GROUP "/cpu.weight", weight);
	if (err)
		die("cpu.weight of the busy loops: %s", strerror(-err));
}

static pid_t start_busy(int cpu)
{
	pid_t pid;

	STORE(shared->running[cpu], 0);
	pid = start(NAME_PREFIX "busy");
	if (pid) {
		while (!LOAD(shared->running[cpu]))
			usleep(500);
		return pid;
	}
	enter(BUSY_GROUP);
	pin_cpu(0, cpu);
	for (;;)
		STORE(shared->running[cpu], 1);
}

/* A CPU of @llc for the messenger of @pair that nobody else needs */
static int messenger_cpu(const struct pair *pair, int llc)
{
	int nth = pair - shared->pair, last = -1;

	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		bool taken = cpu == sched_getcpu();

		if (!CPU_ISSET(cpu, &machine.llc[llc]))
			continue;
		last = cpu;
		for (int i = 0; i < NR_PAIRS; i++)
			taken |= LOAD(shared->pair[i].cpu) == cpu;
		if (!taken && !nth--)
			return cpu;
	}
	return last;
}

static void one_round(int round, const struct scene *scene, pid_t passer_by,
		      struct counters *counters)
{
	if (scene->home_llc >= 0) {
		int home[NR_PAIRS];

		for (int i = 0; i < NR_PAIRS; i++)
			home[i] = scene->home_llc;
		send_home(home);
	}
	for (int i = 0; i < NR_PAIRS; i++) {
		struct pair *pair = &shared->pair[i];
		int llc = scene->waker_llc;

		if (llc < 0)
			llc = (round + i) % machine.nr_llcs;
		pin_cpu(pair->messenger, messenger_cpu(pair, llc));
	}
	if (passer_by)
		pin_cpu(passer_by, LOAD(shared->pair[round % NR_PAIRS].cpu));

	/* What was done to send the workers home is not recorded. */
	if (counters) {
		read_counters("wake", counters, -1);
		trace_on(true);
	}
	message_all();
	settle();
	if (counters) {
		trace_on(false);
		read_counters("wake", counters, 1);
	}
}

void wake_workload(const char *hint, const struct scene *scene,
		   struct wakeups *seen, struct counters *counters)
{
	int nr_busy = 0, total = WARM_UP + scene->rounds;
	bool passer_by = scene->full_llc < 0;
	pid_t busy[MAX_CPUS];

	share();
	memset(seen, 0, sizeof(*seen));
	memset(counters, 0, sizeof(*counters));
	group_write("cpu.hint", hint);
	start_pairs();
	send_home((const int [NR_PAIRS]) { 0, 1 });
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		if (passer_by ? cpu == shared->pair[0].cpu :
		    CPU_ISSET(cpu, &machine.llc[scene->full_llc]))
			busy[nr_busy++] = start_busy(cpu);
	weigh_busy(nr_busy);

	for (int round = 0; round < total; round++) {
		progress(hint, round, total);
		one_round(round, scene, passer_by ? busy[0] : 0,
			  round < WARM_UP ? NULL : counters);
	}
	progress(hint, total, total);
	for (int i = 0; i < nr_busy; i++)
		stop(busy[i]);
	stop_pairs();
	trace_wakeups(seen);
}

/* ----------------------------------------------------------------- forks */

static void child(unsigned int go)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (LOAD(shared->go) != go)
		;
	_exit(0);
}

static void parent(int batches, int batch)
{
	enter(GROUP);
	for (int i = 0; i < batches; i++) {
		unsigned int go = LOAD(shared->go) + 1;

		/* Into the next LLC, where it may leave at once, but has no reason to. */
		pin(0, &machine.llc[i % machine.nr_llcs]);
		unpin(0);
		/* Those who have ended leave their CPUs idle. */
		usleep(3000);
		for (int n = 0; n < batch; n++) {
			pid_t pid = fork();

			if (pid < 0)
				die("fork: %s", strerror(errno));
			if (!pid)
				child(go);
		}
		STORE(shared->go, go);
		while (waitpid(-1, NULL, 0) > 0)
			;
		ADD(shared->answers, 1);
		futex_wake(&shared->answers);
	}
	_exit(0);
}

void fork_workload(const char *hint, int batches, int batch,
		   struct forks *seen, struct counters *counters)
{
	unsigned int begin;
	int status, done = 0;
	pid_t pid;

	share();
	memset(seen, 0, sizeof(*seen));
	memset(counters, 0, sizeof(*counters));
	group_write("cpu.hint", hint);
	read_counters("fork", counters, -1);
	begin = LOAD(shared->answers);
	trace_on(true);
	pid = start(FORKER);
	if (!pid)
		parent(batches, batch);
	while ((done = LOAD(shared->answers) - begin) < batches) {
		progress(hint, done, batches);
		futex_wait(&shared->answers, begin + done);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("the forking process ended with status %#x", status);
	progress(hint, batches, batches);
	trace_on(false);
	read_counters("fork", counters, 1);
	trace_forks(seen, batch);
}
