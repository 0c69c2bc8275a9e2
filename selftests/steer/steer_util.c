// SPDX-License-Identifier: GPL-2.0-only
/*
 * Helpers for the cpu.hint selftests: topology, control groups, and tasks
 * whose placement can be set up and read back.
 */
#include "steer_util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define SYSCPU	"/sys/devices/system/cpu"

/* ------------------------------------------------------------------ files */

int file_write(const char *path, const void *buf, size_t len)
{
	ssize_t ret;
	int fd, err;

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = write(fd, buf, len);
	err = ret < 0 ? -errno : 0;
	close(fd);
	if (!err && (size_t)ret != len)
		return -EIO;
	return err;
}

/* Reads all that fits and ends it with a NUL. Returns the length. */
int file_read(const char *path, char *buf, size_t len)
{
	size_t have = 0;
	ssize_t ret;
	int fd, err;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do {
		ret = read(fd, buf + have, len - 1 - have);
		err = ret < 0 ? -errno : 0;
		if (ret > 0)
			have += ret;
	} while (ret > 0 && have < len - 1);
	close(fd);
	buf[have] = '\0';
	return err ? err : (int)have;
}

/* The number after @key at the start of a line, -1 if there is none. */
long file_key(const char *path, const char *key)
{
	static char buf[65536];
	size_t klen = strlen(key);
	char *line, *save;

	if (file_read(path, buf, sizeof(buf)) < 0)
		return -1;
	for (line = strtok_r(buf, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, key, klen))
			continue;
		if (line[klen] == ' ' || line[klen] == ':' || line[klen] == '\t')
			return strtol(line + klen + strspn(line + klen, " :\t"),
				      NULL, 10);
	}
	return -1;
}

/* --------------------------------------------------------------- topology */

int cpulist_parse(const char *list, cpu_set_t *set)
{
	char *end;

	CPU_ZERO(set);
	while (*list && *list != '\n') {
		long first = strtol(list, &end, 10), last = first;

		if (end == list || first < 0)
			return -EINVAL;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (; first <= last && first < STEER_MAX_CPUS; first++)
			CPU_SET(first, set);
		list = end + (*end == ',');
	}
	return 0;
}

void cpulist_format(const cpu_set_t *set, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = '\0';
	for (int cpu = 0; cpu < STEER_MAX_CPUS && at < len; cpu++)
		if (CPU_ISSET(cpu, set))
			at += snprintf(buf + at, len - at, "%s%d",
				       at ? "," : "", cpu);
}

int cpuset_nth(const cpu_set_t *set, int n)
{
	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, set) && !n--)
			return cpu;
	return -1;
}

cpu_set_t cpuset_one(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

cpu_set_t cpuset_and(cpu_set_t a, cpu_set_t b)
{
	CPU_AND(&a, &a, &b);
	return a;
}

cpu_set_t cpuset_or(cpu_set_t a, cpu_set_t b)
{
	CPU_OR(&a, &a, &b);
	return a;
}

cpu_set_t cpuset_minus(cpu_set_t a, cpu_set_t b)
{
	cpu_set_t both = cpuset_and(a, b);

	CPU_XOR(&a, &a, &both);
	return a;
}

static int cpulist_read(const char *path, cpu_set_t *set)
{
	char buf[4096];
	int ret = file_read(path, buf, sizeof(buf));

	return ret < 0 ? ret : cpulist_parse(buf, set);
}

/*
 * CPUs that share the last-level cache with @cpu. Without cache information
 * (virtual arm64 machines) the scheduler's LLC is the package.
 */
static void read_llc(int cpu, cpu_set_t *set)
{
	char path[PATH_MAX], type[32];
	long level, best = 0;
	cpu_set_t shared;

	for (int i = 0; ; i++) {
		snprintf(path, sizeof(path),
			 SYSCPU "/cpu%d/cache/index%d/type", cpu, i);
		if (file_read(path, type, sizeof(type)) < 0)
			break;
		snprintf(path, sizeof(path),
			 SYSCPU "/cpu%d/cache/index%d/level", cpu, i);
		if (file_read(path, type + 16, 16) < 0)
			continue;
		level = strtol(type + 16, NULL, 10);
		snprintf(path, sizeof(path),
			 SYSCPU "/cpu%d/cache/index%d/shared_cpu_list", cpu, i);
		if (!strncmp(type, "Instruction", 11) || level < best ||
		    cpulist_read(path, &shared))
			continue;
		best = level;
		*set = shared;
	}
	if (best)
		return;

	snprintf(path, sizeof(path), SYSCPU "/cpu%d/topology/package_cpus_list",
		 cpu);
	if (cpulist_read(path, set))
		*set = cpuset_one(cpu);
}

/*
 * Partition the CPUs by @set_of. Returns the number of parts. Only online
 * CPUs count: the kernel's lists drop the others, but not at once.
 */
static int partition(const struct topo *t, const cpu_set_t *set_of,
		     cpu_set_t *part, int *part_of)
{
	int nr = 0;

	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
		part_of[cpu] = -1;
	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &t->cpus) || part_of[cpu] >= 0)
			continue;
		part[nr] = cpuset_and(set_of[cpu], t->cpus);
		CPU_SET(cpu, &part[nr]);
		for (int i = 0; i < STEER_MAX_CPUS; i++)
			if (CPU_ISSET(i, &part[nr]))
				part_of[i] = nr;
		nr++;
	}
	return nr;
}

int topo_read(struct topo *t)
{
	static cpu_set_t set_of[STEER_MAX_CPUS];
	char path[PATH_MAX];
	int ret;

	memset(t, 0, sizeof(*t));
	ret = cpulist_read(SYSCPU "/online", &t->cpus);
	if (ret)
		return ret;
	t->nr_cpus = CPU_COUNT(&t->cpus);

	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &t->cpus))
			continue;
		read_llc(cpu, &set_of[cpu]);
		snprintf(path, sizeof(path),
			 SYSCPU "/cpu%d/topology/thread_siblings_list", cpu);
		if (cpulist_read(path, &t->core[cpu]))
			t->core[cpu] = cpuset_one(cpu);
		if (CPU_COUNT(&t->core[cpu]) > t->smt)
			t->smt = CPU_COUNT(&t->core[cpu]);
	}
	t->nr_llcs = partition(t, set_of, t->llc, t->llc_of);

	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
		set_of[cpu] = t->cpus;
	for (int node = 0; node < STEER_MAX_CPUS; node++) {
		cpu_set_t cpus;

		snprintf(path, sizeof(path),
			 "/sys/devices/system/node/node%d/cpulist", node);
		if (cpulist_read(path, &cpus))
			continue;
		for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++)
			if (CPU_ISSET(cpu, &cpus))
				set_of[cpu] = cpus;
	}
	t->nr_nodes = partition(t, set_of, t->node, t->node_of);
	return 0;
}

bool cpu_can_go(int cpu)
{
	char path[64];

	snprintf(path, sizeof(path), SYSCPU "/cpu%d/online", cpu);
	return !access(path, W_OK);
}

int cpu_set_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), SYSCPU "/cpu%d/online", cpu);
	return file_write(path, online ? "1" : "0", 1);
}

/* CPUs of the smallest LLC */
int topo_llc_weight(const struct topo *t)
{
	int min = t->nr_cpus;

	for (int i = 0; i < t->nr_llcs; i++)
		if (CPU_COUNT(&t->llc[i]) < min)
			min = CPU_COUNT(&t->llc[i]);
	return min;
}

/* --------------------------------------------------------- control groups */

char *cg_name(const char *parent, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", parent, name) < 0)
		abort();
	return path;
}

int cg_write_len(const char *cg, const char *file, const void *buf, size_t len)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", cg, file);
	return file_write(path, buf, len);
}

int cg_write(const char *cg, const char *file, const char *value)
{
	return cg_write_len(cg, file, value, strlen(value));
}

/* Without the newline that ends the last line */
int cg_read(const char *cg, const char *file, char *buf, size_t len)
{
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), "%s/%s", cg, file);
	ret = file_read(path, buf, len);
	if (ret > 0 && buf[ret - 1] == '\n')
		buf[--ret] = '\0';
	return ret;
}

bool cg_is(const char *cg, const char *file, const char *value)
{
	char buf[4096];

	return cg_read(cg, file, buf, sizeof(buf)) >= 0 && !strcmp(buf, value);
}

int cg_enable(const char *cg, const char *controllers)
{
	return cg_write(cg, "cgroup.subtree_control", controllers);
}

int cg_enter(const char *cg, pid_t pid)
{
	char buf[32];

	snprintf(buf, sizeof(buf), "%d", pid);
	return cg_write(cg, "cgroup.procs", buf);
}

long cg_stat(const char *cg, const char *key)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/cpu.stat", cg);
	return file_key(path, key);
}

/* As cg_stat(), where a counter that does not exist yet counts as zero */
long cg_count(const char *cg, const char *key)
{
	long val = cg_stat(cg, key);

	return val < 0 ? 0 : val;
}

/* Ends everything in @cg and below it, and removes it: 0 when it is gone. */
int cg_destroy(const char *cg)
{
	struct dirent *de;
	DIR *dir;

	if (!cg)
		return 0;
	cg_write(cg, "cgroup.kill", "1");
	dir = opendir(cg);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((de = readdir(dir))) {
		char *sub;

		if (de->d_type != DT_DIR || de->d_name[0] == '.')
			continue;
		sub = cg_name(cg, de->d_name);
		cg_destroy(sub);
		free(sub);
	}
	closedir(dir);
	return WAIT_FOR(!rmdir(cg) || errno == ENOENT) ? 0 : -EBUSY;
}

char *cg_new(const char *parent, const char *name)
{
	char *path = cg_name(parent, name);

	if (mkdir(path, 0755)) {
		free(path);
		return NULL;
	}
	return path;
}

/* A group below the root for one program, without leftovers of an earlier run */
char *cg_top(const char *name)
{
	char *path = cg_name(CG_ROOT, name);

	cg_destroy(path);
	if (cg_enable(CG_ROOT, "+cpu +cpuset") || mkdir(path, 0755) ||
	    cg_enable(path, "+cpu +cpuset")) {
		free(path);
		return NULL;
	}
	return path;
}

bool steer_built(void)
{
	return !access(STEER_DEBUG, F_OK);
}

bool steer_off_at_boot(void)
{
	char line[4096];

	if (file_read("/proc/cmdline", line, sizeof(line)) < 0)
		return false;
	return strstr(line, "cgroup_steer=0");
}

/* Do groups have this file? */
bool cg_has(const char *file)
{
	char *path = cg_name(CG_ROOT, "steer_probe");
	bool has = false;

	cg_enable(CG_ROOT, "+cpu");
	if (!mkdir(path, 0755) || errno == EEXIST) {
		char *name = cg_name(path, file);

		has = !access(name, F_OK);
		free(name);
		rmdir(path);
	}
	free(path);
	return has;
}

/* As the kernel documents it: /sys/kernel/cgroup/delegate */
int cg_delegate(const char *cg)
{
	static const char * const files[] = {
		"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control",
	};
	int ret = 0;

	for (size_t i = 0; !ret && i < sizeof(files) / sizeof(*files); i++) {
		char *path = cg_name(cg, files[i]);

		ret = chown(path, NOBODY, NOBODY);
		free(path);
	}
	return ret;
}

/* ------------------------------------------------------------------ tasks */

int task_pin(pid_t tid, const cpu_set_t *set)
{
	return sched_setaffinity(tid, sizeof(*set), set) ? -errno : 0;
}

int task_pin_cpu(pid_t tid, int cpu)
{
	cpu_set_t set = cpuset_one(cpu);

	return task_pin(tid, &set);
}

/* The CPU that @pid is on, or was on last: field 39 of its stat */
int task_cpu(pid_t pid)
{
	char path[64], buf[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (file_read(path, buf, sizeof(buf)) < 0)
		return -1;
	p = strrchr(buf, ')');
	for (int field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	return p ? atoi(p) : -1;
}

char task_state(pid_t pid)
{
	char path[64], buf[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (file_read(path, buf, sizeof(buf)) < 0)
		return 0;
	p = strrchr(buf, ')');
	return p && p[1] ? p[2] : 0;
}

long task_status(pid_t pid, const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return file_key(path, key);
}

/* A line of /proc/PID/task/TID/sched, as "se.slice    :    3000000" */
long task_sched(pid_t pid, pid_t tid, const char *key)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/sched", pid, tid);
	return file_key(path, key);
}

struct steer_sched_attr {
	uint32_t size;
	uint32_t sched_policy;
	uint64_t sched_flags;
	int32_t sched_nice;
	uint32_t sched_priority;
	uint64_t sched_runtime;
	uint64_t sched_deadline;
	uint64_t sched_period;
};

/* The task's own EEVDF request size. 0 gives it up. */
int task_set_slice(pid_t pid, uint64_t ns)
{
	struct steer_sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_OTHER,
		.sched_runtime = ns,
	};

	return syscall(SYS_sched_setattr, pid, &attr, 0) ? -errno : 0;
}

double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

uint64_t task_cpu_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) || clock_gettime(id, &ts))
		return 0;
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void task_work(long us)
{
	struct timespec t;
	long now, end = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = t.tv_sec * 1000000L + t.tv_nsec / 1000;
		end = end ?: now + us;
	} while (now < end);
}

/*
 * fork() a child that dies with the caller, in @cg if that is given. It does
 * not return to the test's code before it is in there.
 */
pid_t task_fork(const char *cg)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (cg && cg_enter(cg, getpid())) {
		fprintf(stderr, "# cannot enter %s\n", cg);
		_exit(1);
	}
	return 0;
}

/* A task that does nothing but be in @cg */
pid_t task_sleep(const char *cg)
{
	pid_t pid = task_fork(cg);

	if (!pid)
		for (;;)
			pause();
	return pid;
}

pid_t task_cycle(const char *cg, int cpu, long work, long rest)
{
	pid_t pid = task_fork(cg);

	if (pid)
		return pid;
	if (task_pin_cpu(0, cpu))
		_exit(1);
	for (;;) {
		task_work(work);
		usleep(rest);
	}
}

void task_kill(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void *shared_alloc(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void futex_wait(unsigned int *addr, unsigned int val)
{
	syscall(SYS_futex, addr, FUTEX_WAIT, val, NULL, NULL, 0);
}

static void futex_wake(unsigned int *addr)
{
	syscall(SYS_futex, addr, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#define LOAD(x)		__atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)

/* Says on standard error what a task that does not do its part is doing. */
static int stuck(const char *what, pid_t pid)
{
	static const char * const files[] = { "wchan", "stack", "sched" };
	char path[64], buf[4096];

	fprintf(stderr, "# %s %d does not get on: state %c, CPU %d\n", what, pid,
		task_state(pid), task_cpu(pid));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char *line, *save;

		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		if (file_read(path, buf, sizeof(buf)) <= 0)
			continue;
		for (line = strtok_r(buf, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save))
			fprintf(stderr, "#   %s: %s\n", files[i], line);
	}
	return -ETIME;
}

/* ------------------------------------------------------------------- hogs */

static void hog_loop(struct hog *h)
{
	for (;;) {
		while (!LOAD(h->run)) {
			STORE(h->parked, 1);
			futex_wait(&h->run, 0);
		}
		STORE(h->parked, 0);
		STORE(h->loops, h->loops + 1);
	}
}

int hogs_start(struct hogs *h, const char *cg, const cpu_set_t *cpus, int nice)
{
	h->nr = 0;
	h->hog = shared_alloc(STEER_MAX_CPUS * sizeof(*h->hog));
	for (int cpu = 0; cpu < STEER_MAX_CPUS; cpu++) {
		struct hog *hog = &h->hog[h->nr];
		pid_t pid;

		if (!CPU_ISSET(cpu, cpus))
			continue;
		hog->cpu = cpu;
		pid = task_fork(cg);
		if (pid < 0)
			return -errno;
		if (!pid) {
			if (setpriority(PRIO_PROCESS, 0, nice) ||
			    task_pin_cpu(0, cpu))
				_exit(1);
			hog_loop(hog);
		}
		/* the page is shared: not for the child to write */
		hog->pid = pid;
		h->nr++;
	}
	return hogs_pause(h);
}

/* Returns when each of them has really run. */
int hogs_run(struct hogs *h)
{
	for (int i = 0; i < h->nr; i++) {
		STORE(h->hog[i].run, 1);
		futex_wake(&h->hog[i].run);
	}
	for (int i = 0; i < h->nr; i++) {
		unsigned long before = LOAD(h->hog[i].loops);

		if (!WAIT_FOR(LOAD(h->hog[i].loops) != before))
			return stuck("hog", h->hog[i].pid);
	}
	return 0;
}

/* Returns when each of them sleeps. */
int hogs_pause(struct hogs *h)
{
	for (int i = 0; i < h->nr; i++)
		STORE(h->hog[i].run, 0);
	for (int i = 0; i < h->nr; i++)
		if (!WAIT_FOR(LOAD(h->hog[i].parked) &&
			      task_state(h->hog[i].pid) == 'S'))
			return stuck("hog", h->hog[i].pid);
	return 0;
}

/* Each uses @ms milliseconds of CPU time, sooner or later. */
bool hogs_get_on(const struct hogs *h, long ms)
{
	for (int i = 0; i < h->nr; i++) {
		uint64_t end = task_cpu_ns(h->hog[i].pid) + ms * 1000000ULL;

		if (!WAIT_FOR(task_cpu_ns(h->hog[i].pid) >= end))
			return false;
	}
	return true;
}

void hogs_stop(struct hogs *h)
{
	for (int i = 0; i < h->nr; i++)
		task_kill(h->hog[i].pid);
	h->nr = 0;
}

/* --------------------------------------------------------------- spinners */

/* One more, on @cpu until it is pinned anew. */
int spinners_add(struct spinners *s, const char *cg, int cpu)
{
	struct spinner *task;
	pid_t pid;

	if (s->nr == MAX_SPINNERS)
		return -ENOSPC;
	if (!s->task)
		s->task = shared_alloc(MAX_SPINNERS * sizeof(*s->task));
	task = &s->task[s->nr];
	task->loops = 0;
	pid = task_fork(cg);
	if (pid < 0)
		return -errno;
	if (!pid) {
		if (task_pin_cpu(0, cpu))
			_exit(1);
		for (;;)
			__atomic_add_fetch(&task->loops, 1, __ATOMIC_RELAXED);
	}
	/* the page is shared: not for the child to write */
	task->pid = pid;
	s->nr++;
	return 0;
}

/* Returns when each of them has really run. */
int spinners_run(struct spinners *s)
{
	for (int i = 0; i < s->nr; i++)
		if (!WAIT_FOR(LOAD(s->task[i].loops)))
			return stuck("spinner", s->task[i].pid);
	return 0;
}

/* From now on all of them may run on @cpus. */
int spinners_pin(struct spinners *s, const cpu_set_t *cpus)
{
	int ret = 0;

	for (int i = 0; i < s->nr && !ret; i++)
		ret = task_pin(s->task[i].pid, cpus);
	return ret;
}

/* Of @nr of them from @first on, how many are on @cpus now? */
int spinners_on(const struct spinners *s, int first, int nr, const cpu_set_t *cpus)
{
	int found = 0;

	for (int i = first; i < first + nr; i++)
		found += CPU_ISSET(task_cpu(s->task[i].pid), cpus);
	return found;
}

void spinners_stop(struct spinners *s)
{
	for (int i = 0; i < s->nr; i++)
		task_kill(s->task[i].pid);
	s->nr = 0;
}

/* ----------------------------------------------------------------- wakees */

static void wakee_loop(struct wakee_page *page)
{
	unsigned int last = LOAD(page->seen), go;
	struct rusage ru;

	for (;;) {
		getrusage(RUSAGE_SELF, &ru);
		STORE(page->sleeps, ru.ru_nvcsw);
		while ((go = LOAD(page->go)) == last)
			futex_wait(&page->go, last);
		page->cpu = sched_getcpu();
		last = go;
		STORE(page->seen, go);
		if (page->work)
			task_work(page->work);
	}
}

static int wakee_begin(struct wakee *w, const char *cg, const cpu_set_t *mask,
		       bool exec)
{
	int fd = memfd_create("wakee", 0);
	char arg[16];

	if (fd < 0 || ftruncate(fd, sizeof(*w->page)))
		return -errno;
	w->page = mmap(NULL, sizeof(*w->page), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);
	if (w->page == MAP_FAILED)
		return -errno;
	/* Nothing that the program wrote itself: says that it is in its loop. */
	w->page->sleeps = -1;
	w->pid = task_fork(cg);
	if (w->pid < 0)
		return -errno;
	if (!w->pid) {
		if (mask && task_pin(0, mask))
			_exit(1);
		if (exec) {
			snprintf(arg, sizeof(arg), "%d", fd);
			execl("/proc/self/exe", "steer", "--wakee", arg, NULL);
			_exit(1);
		}
		wakee_loop(w->page);
	}
	close(fd);
	return wakee_settle(w);
}

int wakee_start(struct wakee *w, const char *cg, const cpu_set_t *mask)
{
	return wakee_begin(w, cg, mask, false);
}

/* As wakee_start(), but the task calls exec() after it entered the group. */
int wakee_start_exec(struct wakee *w, const char *cg, const cpu_set_t *mask)
{
	return wakee_begin(w, cg, mask, true);
}

/*
 * Wait until the wakee really sleeps: it gave up its CPU after it had written
 * down how often it did so before. A task that is still on its runqueue is
 * woken where it is, and no hint is asked.
 */
int wakee_settle(struct wakee *w)
{
	if (!WAIT_FOR(LOAD(w->page->sleeps) >= 0 && task_state(w->pid) == 'S' &&
		      task_status(w->pid, "voluntary_ctxt_switches") >
		      LOAD(w->page->sleeps)))
		return stuck("wakee", w->pid);
	usleep(500);
	return 0;
}

/* Wake it up from the caller's CPU; wakee_answer() has to be called for each time. */
void wakee_call(struct wakee *w)
{
	STORE(w->page->go, LOAD(w->page->go) + 1);
	futex_wake(&w->page->go);
}

/* Wait until it ran and said where. Returns the CPU, or a negative errno. */
int wakee_answer(struct wakee *w)
{
	if (!WAIT_FOR(LOAD(w->page->seen) == LOAD(w->page->go)))
		return stuck("wakee", w->pid);
	return w->page->cpu;
}

/* Wake it up from the caller's CPU, and wait until it ran and said where. */
int wakee_wake(struct wakee *w, struct wake *rec)
{
	int ret = wakee_settle(w);

	if (ret)
		return ret;
	if (rec) {
		rec->prev = task_cpu(w->pid);
		rec->waker = sched_getcpu();
	}
	wakee_call(w);
	ret = wakee_answer(w);
	if (ret < 0)
		return ret;
	if (rec)
		rec->cpu = ret;
	return 0;
}

/* Let it sleep on @cpu, with the affinity @mask. */
int wakee_place(struct wakee *w, int cpu, const cpu_set_t *mask)
{
	struct wake rec;
	int ret;

	ret = task_pin_cpu(w->pid, cpu);
	if (!ret)
		ret = wakee_wake(w, &rec);
	if (!ret && rec.cpu != cpu)
		ret = -EXDEV;
	if (!ret)
		ret = wakee_settle(w);
	if (!ret)
		ret = task_pin(w->pid, mask);
	return ret;
}

void wakee_stop(struct wakee *w)
{
	task_kill(w->pid);
	w->pid = 0;
}

/* ------------------------------------------------------ exec()ed programs */

int steer_helper(int argc, char **argv)
{
	struct wakee_page *page;

	/* Where did exec() bring us? CPU numbers fit an exit code. */
	if (argc == 2 && !strcmp(argv[1], "--where"))
		return sched_getcpu();

	if (argc == 3 && !strcmp(argv[1], "--wakee")) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			    MAP_SHARED, atoi(argv[2]), 0);
		if (page == MAP_FAILED)
			return 1;
		wakee_loop(page);
	}
	return -1;
}

/* ---------------------------------------------------------------- tracing */

#define TRACEFS	"/sys/kernel/tracing"

static int trace_write(struct trace *tr, const char *file, const char *value)
{
	char path[PATH_MAX + 128];

	snprintf(path, sizeof(path), "%s/%s", tr->dir, file);
	return file_write(path, value, strlen(value));
}

int trace_start(struct trace *tr, const char *system, const char *event,
		const char *filter)
{
	char file[128];
	int ret = 0;

	snprintf(tr->dir, sizeof(tr->dir), TRACEFS "/instances/steer-%d",
		 getpid());
	if (mkdir(tr->dir, 0755) && errno != EEXIST)
		return -errno;
	snprintf(file, sizeof(file), "events/%s/%s/filter", system, event);
	if (filter)
		ret = trace_write(tr, file, filter);
	snprintf(file, sizeof(file), "events/%s/%s/enable", system, event);
	return ret ? ret : trace_write(tr, file, "1");
}

/* Lines of the trace that name the event and contain @substring */
int trace_count(struct trace *tr, const char *event, const char *substring)
{
	char path[PATH_MAX + 16], name[128], *line = NULL;
	size_t len = 0;
	int nr = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace", tr->dir);
	snprintf(name, sizeof(name), " %s: ", event);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (getline(&line, &len, f) > 0)
		if (line[0] != '#' && strstr(line, name) &&
		    (!substring || strstr(line, substring)))
			nr++;
	free(line);
	fclose(f);
	return nr;
}

int trace_pause(struct trace *tr)
{
	return trace_write(tr, "tracing_on", "0");
}

void trace_stop(struct trace *tr)
{
	if (!tr->dir[0])
		return;
	trace_write(tr, "events/enable", "0");
	rmdir(tr->dir);
	tr->dir[0] = '\0';
}
