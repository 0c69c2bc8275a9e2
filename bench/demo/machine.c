// SPDX-License-Identifier: GPL-2.0-only
/* Files, and the machine as sysfs describes it. */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSCPU	"/sys/devices/system/cpu"

struct machine machine;

/* Not 1, which says that the counts contradict a claim. */
void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "\ndemo: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(2);
}

/* 0, or a negative errno */
int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

/* The length, without the newline at the end, or a negative errno */
int file_read(const char *path, char *buf, size_t len)
{
	size_t have = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf + have, len - 1 - have)) > 0)
		have += n;
	close(fd);
	if (n < 0)
		return -EIO;
	if (have && buf[have - 1] == '\n')
		have--;
	buf[have] = '\0';
	return have;
}

static void group_add(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		die("%s: %s; is cgroup v2 mounted, and are you root?", path, strerror(errno));
}

void groups_setup(void)
{
	int err = file_write(CGROUPS "/cgroup.subtree_control", "+cpu");

	if (err)
		die("enabling the cpu controller: %s", strerror(-err));
	group_add(GROUP);
	group_add(BUSY_GROUP);
	if (access(GROUP "/cpu.hint", F_OK))
		die("this kernel has no cpu.hint, or was booted with cgroup_steer=0");
}

void groups_remove(void)
{
	rmdir(GROUP);
	rmdir(BUSY_GROUP);
}

void group_write(const char *file, const char *text)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), GROUP "/%s", file);
	err = file_write(path, text);
	if (err)
		die("writing '%s' to %s: %s", text, path, strerror(-err));
}

void group_read(const char *file, char *buf, size_t len)
{
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), GROUP "/%s", file);
	ret = file_read(path, buf, len);
	if (ret < 0)
		die("reading %s: %s", path, strerror(-ret));
}

void pin(pid_t pid, const cpu_set_t *set)
{
	if (sched_setaffinity(pid, sizeof(*set), set))
		die("setting the affinity of task %d: %s", pid, strerror(errno));
}

void pin_cpu(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pin(pid, &set);
}

/* A list such as 0-3,8; only online CPUs are taken. False if there is none. */
static bool read_cpus(const char *path, cpu_set_t *set)
{
	char buf[4096], *at = buf, *end;

	if (file_read(path, buf, sizeof(buf)) <= 0)
		return false;
	CPU_ZERO(set);
	while (*at) {
		long first = strtol(at, &end, 10), last = first;

		if (end == at)
			die("%s is not a list of CPUs: '%s'", path, buf);
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (; first <= last && first < MAX_CPUS; first++)
			CPU_SET(first, set);
		at = end + (*end == ',');
	}
	if (CPU_COUNT(&machine.cpus))
		CPU_AND(set, set, &machine.cpus);
	return CPU_COUNT(set);
}

/* Where sysfs knows no caches (virtual arm64 machines), the LLC is the package. */
static void read_llc(int cpu, cpu_set_t *set)
{
	char path[PATH_MAX], level[16];
	cpu_set_t shared;
	int best = 0;

	snprintf(path, sizeof(path), SYSCPU "/cpu%d/topology/package_cpus_list", cpu);
	if (!read_cpus(path, set))
		die("%s: no such list", path);
	for (int i = 0; ; i++) {
		snprintf(path, sizeof(path), SYSCPU "/cpu%d/cache/index%d/level", cpu, i);
		if (file_read(path, level, sizeof(level)) < 0)
			break;
		snprintf(path, sizeof(path), SYSCPU "/cpu%d/cache/index%d/shared_cpu_list",
			 cpu, i);
		if (atoi(level) > best && read_cpus(path, &shared)) {
			best = atoi(level);
			*set = shared;
		}
	}
}

static void mark(const cpu_set_t *set, int *of, int value)
{
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, set))
			of[cpu] = value;
}

void machine_read(void)
{
	struct machine *m = &machine;
	char path[PATH_MAX];
	cpu_set_t set;

	if (!read_cpus(SYSCPU "/online", &set))
		die("%s: no such list", SYSCPU "/online");
	m->cpus = set;
	m->nr_cpus = CPU_COUNT(&m->cpus);
	m->llc_width = m->nr_cpus;
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		m->llc_of[cpu] = -1;

	for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &m->cpus))
			continue;
		snprintf(path, sizeof(path), SYSCPU "/cpu%d/topology/thread_siblings_list",
			 cpu);
		if (read_cpus(path, &set) && CPU_COUNT(&set) > m->smt)
			m->smt = CPU_COUNT(&set);
		if (m->llc_of[cpu] >= 0)
			continue;
		read_llc(cpu, &set);
		m->llc[m->nr_llcs] = set;
		if (CPU_COUNT(&set) < m->llc_width)
			m->llc_width = CPU_COUNT(&set);
		mark(&set, m->llc_of, m->nr_llcs++);
	}
	for (int node = 0; node < MAX_CPUS; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		if (read_cpus(path, &set))
			mark(&set, m->node_of, m->nr_nodes++);
	}
	if (!m->nr_nodes)
		mark(&m->cpus, m->node_of, m->nr_nodes++);
}

void machine_show(void)
{
	const struct machine *m = &machine;

	printf("The machine: %d CPUs, %d LLCs, %d NUMA node%s, %d thread%s a core\n",
	       m->nr_cpus, m->nr_llcs, m->nr_nodes, m->nr_nodes > 1 ? "s" : "",
	       m->smt, m->smt > 1 ? "s" : "");
	for (int llc = 0; llc < m->nr_llcs; llc++) {
		int node = -1;

		printf("  LLC %d: CPU", llc);
		for (int cpu = 0; cpu < MAX_CPUS; cpu++)
			if (CPU_ISSET(cpu, &m->llc[llc])) {
				printf(" %d", cpu);
				node = m->node_of[cpu];
			}
		printf(", node %d\n", node);
	}
}
