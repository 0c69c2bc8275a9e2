// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of the test machine.
 *
 * It mounts what user space needs, then does what steer.mode= on the kernel command line says:
 *
 *   check  run the programs of /selftests/steer/run-list and report on the result channel
 *   script run /lab/script with the shell, its output going to the result channel
 *   demo   run /demo/demo on the console
 *   shell  give a shell on the console
 *
 * and powers off. The result channel is a terminal of its own (steer.result=), read by vm/run.py:
 *
 *   @llc NONCE cpu=N mask=HEX   the CPUs that share a last-level cache with CPU N, as the scheduler sees it
 *   @hint NONCE present=0|1     whether a new group has cpu.hint
 *   @begin NONCE NAME           a program starts
 *   TAB text                    one line of its output, standard error included
 *   @end NONCE NAME rc=N        it ended, with everything that it started; rc=124: it was killed at its time limit
 *   @done NONCE tainted=N programs=N
 *
 * The nonce comes in a file that is removed before the first program starts, so that no program, and nothing that
 * happens to be printed, can end the report in our name.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TESTS	"/selftests/steer"
#define CGROUP	"/sys/fs/cgroup"

static char nonce[65];
static int result = -1;

/* A failure in here leaves the report without its last line, which the host takes for a failed run. */
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("init: ");
	vprintf(format, args);
	printf(": %s\n", strerror(errno));
	va_end(args);
	fflush(NULL);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void send(const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(result, text, length);

		if (n < 0)
			die("result channel");
		text += n;
		length -= n;
	}
}

static void report(const char *format, ...)
{
	va_list args;
	char *line;
	int length;

	va_start(args, format);
	length = vasprintf(&line, format, args);
	va_end(args);
	if (length < 0)
		die("report");
	send(line, length);
	free(line);
}

static void read_file(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buffer, size - 1);

	if (n < 0)
		die("%s", path);
	buffer[n] = 0;
	buffer[strcspn(buffer, "\n")] = 0;
	close(fd);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) >= 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static void mount_all(void)
{
	static const struct { const char *what, *where, *data; } table[] = {
		{ "proc", "/proc", NULL },
		{ "sysfs", "/sys", NULL },
		{ "devtmpfs", "/dev", NULL },
		{ "devpts", "/dev/pts", NULL },
		{ "tmpfs", "/dev/shm", NULL },
		{ "tmpfs", "/tmp", NULL },
		{ "cgroup2", CGROUP, "nsdelegate" },
		{ "debugfs", "/sys/kernel/debug", NULL },
		{ "tracefs", "/sys/kernel/tracing", NULL },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		mkdir(table[i].where, 0755);
		if (mount(table[i].what, table[i].where, table[i].what, 0, table[i].data))
			die("mount %s", table[i].where);
	}
	if (!write_file(CGROUP "/cgroup.subtree_control", "+cpu +cpuset"))
		die("cgroup.subtree_control");
}

/* The value of steer.NAME= on the kernel command line. */
static void parameter(const char *name, char *value, size_t size)
{
	char line[4096], key[64], *word;

	read_file("/proc/cmdline", line, sizeof(line));
	snprintf(key, sizeof(key), "steer.%s=", name);
	value[0] = 0;
	for (word = strtok(line, " "); word; word = strtok(NULL, " "))
		if (!strncmp(word, key, strlen(key)))
			snprintf(value, size, "%s", word + strlen(key));
}

static void open_result(void)
{
	char name[64], path[80];
	struct termios mode;

	parameter("result", name, sizeof(name));
	snprintf(path, sizeof(path), "/dev/%s", name);
	result = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (result < 0 || tcgetattr(result, &mode))
		die("%s", path);
	cfmakeraw(&mode);
	tcsetattr(result, TCSANOW, &mode);
	read_file("/nonce", nonce, sizeof(nonce));
	if (unlink("/nonce"))
		die("/nonce");
}

/*
 * The machine that the kernel sees, for the host to compare with the one that it asked for. The spans of the scheduling
 * domains are in /proc/schedstat, in the order of their directories in debugfs; the widest one with SD_SHARE_LLC is it.
 */
static void report_llcs(void)
{
	char line[4096], path[128], flags[512], mask[300], llc[300] = "";
	FILE *stat = fopen("/proc/schedstat", "re");
	int cpu = -1, domain;

	if (!stat || !write_file("/sys/kernel/debug/sched/verbose", "Y"))
		die("/proc/schedstat, debugfs sched/verbose");
	while (true) {
		bool more = fgets(line, sizeof(line), stat);

		if (!more || !strncmp(line, "cpu", 3)) {
			if (cpu >= 0)
				report("@llc %s cpu=%d mask=%s\n", nonce, cpu, llc[0] ? llc : "none");
			if (!more)
				break;
			cpu = atoi(line + 3);
			llc[0] = 0;
		} else if (sscanf(line, "domain%d %299s", &domain, mask) == 2) {
			snprintf(path, sizeof(path), "/sys/kernel/debug/sched/domains/cpu%d/domain%d/flags",
				 cpu, domain);
			read_file(path, flags, sizeof(flags));
			if (strstr(flags, "SD_SHARE_LLC"))
				strcpy(llc, mask);
		}
	}
	fclose(stat);
}

static void report_hint(void)
{
	if (mkdir(CGROUP "/init-probe", 0755))
		die(CGROUP "/init-probe");
	report("@hint %s present=%d\n", nonce, !access(CGROUP "/init-probe/cpu.hint", F_OK));
	rmdir(CGROUP "/init-probe");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Pass on what a program printed, whole lines with a tab before each; returns false at the end of it. */
static bool relay(int fd, bool *line_open)
{
	char buffer[2048], out[2 * sizeof(buffer)];
	ssize_t n = read(fd, buffer, sizeof(buffer));
	size_t length = 0;

	if (n <= 0)
		return false;
	for (ssize_t i = 0; i < n; i++) {
		if (!*line_open)
			out[length++] = '\t';
		/* An end of string would cut the report short. */
		out[length++] = buffer[i] ? buffer[i] : '?';
		*line_open = buffer[i] != '\n';
	}
	send(out, length);
	return true;
}

/* Remove the groups that a program left behind, deepest first. */
static void remove_groups(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char child[1024];

	while (dir && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		remove_groups(child);
		rmdir(child);
	}
	if (dir)
		closedir(dir);
}

static void online_cpus(void)
{
	char path[80];

	for (int cpu = 1; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		write_file(path, "1");
	}
}

/* Kill whatever is left of a program and wait until it is gone. */
static void kill_all(void)
{
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The signed last line of the report. */
static void finish(int programs)
{
	char tainted[32];

	read_file("/proc/sys/kernel/tainted", tainted, sizeof(tainted));
	report("@done %s tainted=%s programs=%d\n", nonce, tainted, programs);
	/* Power-off does not wait for what is still in the line's buffer. */
	tcdrain(result);
}

static void run_program(const char *name, char *const argv[], double limit)
{
	double deadline = now() + limit;
	bool line_open = false, running = true, timed_out = false;
	int out[2], status = 0;
	pid_t pid;

	report("@begin %s %s\n", nonce, name);
	printf("init: running %s\n", name);
	if (pipe2(out, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		setsid();
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(out[1], 1);
		dup2(out[1], 2);
		if (chdir(TESTS))
			_exit(126);
		execv(argv[0], argv);
		dprintf(2, "%s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(out[1]);
	while (running) {
		struct pollfd p = { .fd = out[0], .events = POLLIN };
		pid_t dead;

		if (poll(&p, 1, 100) > 0 && !relay(out[0], &line_open))
			usleep(10000);
		while ((dead = waitpid(-1, &status, WNOHANG)) > 0 && dead != pid)
			;
		running = dead != pid;
		if (running && now() > deadline) {
			timed_out = true;
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			running = false;
		}
	}
	kill_all();
	while (relay(out[0], &line_open))
		;
	close(out[0]);
	remove_groups(CGROUP);
	online_cpus();
	report("%s@end %s %s rc=%d\n", line_open ? "\n" : "", nonce, name,
	       timed_out ? 124 : exit_code(status));
}

/* Is this one of the names, which commas separate? */
static bool listed(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (; names; names = strchr(names, ',')) {
		names += *names == ',';
		if (!strncmp(names, name, len) && (!names[len] || names[len] == ','))
			return true;
	}
	return false;
}

static void check(void)
{
	char line[256], name[200], path[256], *argv[] = { path, NULL }, only[200], scale[16];
	FILE *list = fopen(TESTS "/run-list", "re");
	int programs = 0, limit;

	if (!list)
		die(TESTS "/run-list");
	open_result();
	report_llcs();
	report_hint();
	parameter("only", only, sizeof(only));
	parameter("scale", scale, sizeof(scale));
	while (fgets(line, sizeof(line), list)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%199s %d", name, &limit) != 2)
			die("run-list: '%s' is not 'program seconds'", line);
		if (only[0] && !listed(only, name))
			continue;
		snprintf(path, sizeof(path), TESTS "/%s", name);
		run_program(name, argv, limit * (scale[0] ? atof(scale) : 1.0));
		programs++;
	}
	finish(programs);
}

/* Its time limit is the host's business: time may be virtual here. */
static void script(void)
{
	char *argv[] = { "/bin/sh", "/lab/script", NULL };

	open_result();
	report_llcs();
	run_program("script", argv, 1e9);
	finish(1);
}

/* Run a program with the console as its terminal, and report how it ended. */
static void run_console(const char *name, const char *path, const char *argument)
{
	pid_t pid;
	int status;

	open_result();
	report("@begin %s %s\n", nonce, name);
	pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		/* /dev/console cannot be a controlling terminal; what is behind it can. */
		char active[128], device[160];
		int fd;

		read_file("/sys/class/tty/console/active", active, sizeof(active));
		snprintf(device, sizeof(device), "/dev/%s", strrchr(active, ' ') ? strrchr(active, ' ') + 1 : active);
		setsid();
		fd = open(device, O_RDWR);
		if (fd >= 0) {
			ioctl(fd, TIOCSCTTY, 0);
			dup2(fd, 0);
			dup2(fd, 1);
			dup2(fd, 2);
		}
		execl(path, path, argument, (char *)NULL);
		die("%s", path);
	}
	while (waitpid(-1, &status, 0) != pid)
		;
	report("@end %s %s rc=%d\n", nonce, name, exit_code(status));
	finish(1);
}

int main(void)
{
	char mode[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getpid() != 1) {
		fprintf(stderr, "init: this is the test machine's PID 1; it powers the machine off\n");
		return 1;
	}
	setenv("PATH", "/bin:" TESTS ":/demo", 1);
	setenv("HOME", "/", 1);
	setenv("PS1", "steer# ", 1);
	setenv("TERM", "vt100", 0);
	mount_all();
	parameter("mode", mode, sizeof(mode));
	if (!strcmp(mode, "check"))
		check();
	else if (!strcmp(mode, "script"))
		script();
	else if (!strcmp(mode, "demo"))
		run_console("demo", "/demo/demo", NULL);
	else if (!strcmp(mode, "shell"))
		run_console("shell", "/bin/sh", "-l");
	else
		die("steer.mode=%s is not check, script, demo or shell", mode);
	fflush(NULL);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
