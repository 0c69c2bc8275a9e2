// SPDX-License-Identifier: GPL-2.0-only
/*
 * join GROUP [--cookie] [--slice MICROSECONDS] COMMAND [ARGUMENT]...
 *
 * Runs a command in a cgroup from its first instruction on. With --cookie it
 * gets a core scheduling cookie of its own before, which all that it starts
 * inherits: only they share a core then. Where the kernel or the machine has no
 * core scheduling, that is an error, and not left out. With --slice it asks for
 * slices of that length (sched_setattr()), as all that it starts then does; the
 * kernel takes 100 to 100000.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE		62
#define PR_SCHED_CORE_CREATE	1
#endif
#define OF_THE_PROCESS		1

static int complain(const char *what)
{
	fprintf(stderr, "join: %s: %s\n", what, strerror(errno));
	return 1;
}

static int enter(const char *group)
{
	char path[4096];
	int fd, err;

	if (snprintf(path, sizeof(path), "%s/cgroup.procs", group) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return complain(group);
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return complain(path);
	err = write(fd, "0", 1) != 1;
	if (err)
		complain(path);
	close(fd);
	return err;
}

static int ask_for_slices(const char *text)
{
	struct sched_attr attr = { .size = sizeof(attr) };
	char *end;

	attr.sched_runtime = strtoul(text, &end, 10) * 1000;
	if (*end || attr.sched_runtime < 100000 || attr.sched_runtime > 100000000) {
		fprintf(stderr, "join: --slice: '%s' is not a number of microseconds from 100 to 100000\n", text);
		return 2;
	}
	return syscall(SYS_sched_setattr, 0, &attr, 0) ? complain("sched_setattr") : 0;
}

int main(int argc, char **argv)
{
	int at = 2;

	if (argc > at && !strcmp(argv[at], "--cookie")) {
		if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, OF_THE_PROCESS, 0))
			return complain("a cookie for core scheduling");
		at++;
	}
	if (argc > at + 1 && !strcmp(argv[at], "--slice")) {
		int err = ask_for_slices(argv[at + 1]);

		if (err)
			return err;
		at += 2;
	}
	if (argc <= at || argv[at][0] == '-') {
		fprintf(stderr, "join: usage: join GROUP [--cookie] [--slice MICROSECONDS] COMMAND [ARGUMENT]...\n");
		return 2;
	}
	if (enter(argv[1]))
		return 1;
	execvp(argv[at], argv + at);
	return complain(argv[at]);
}
