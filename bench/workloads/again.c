// SPDX-License-Identifier: GPL-2.0-only
/*
 * A side job made of a command that is run again and again, by so many at once:
 * a build, a compression. How much work it did until its time is over, or SIGTERM
 * comes, is told in runs, with a fraction for those that were not over then.
 *
 *	again --jobs 4 --runtime 10 --json -- gcc -O2 -S -o /dev/null file.c
 *
 * The fraction is that of CPU time: what all runs together took, over what one
 * takes in the mean of those that were over. So the work of a job that is held
 * back is not rounded to nothing, and runs that take longer because others share
 * their core or cache count for less than their CPU time. A run that fails ends
 * the program. Where none is over, --each says what one takes; without it, there
 * is no result.
 */
#define _GNU_SOURCE
#include "compute.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MAX_JOBS	1024

static struct {
	unsigned long jobs;
	double runtime;		/* s */
	double each;		/* s; 0: unknown */
	unsigned long begin;	/* ms of the clock */
	bool json;
} params = {
	.runtime = 86400,
};

static const struct option_spec specs[] = {
	{ .letter = 'j', .name = "jobs", .unit = A_NUMBER, .min = 1, .max = MAX_JOBS,
	  .help = "runs at the same time, instead of one for each CPU it may use",
	  .count = &params.jobs },
	{ .letter = 'r', .name = "runtime", .unit = SECONDS, .min = 0.001, .max = 86400,
	  .help = "how long to begin runs, unless SIGTERM comes; those in progress are then ended",
	  .seconds = &params.runtime },
	{ .name = "each", .unit = SECONDS, .min = 0.000001, .max = 86400,
	  .help = "CPU time of one run, to tell the work by where none is over in time",
	  .seconds = &params.each },
	{ .name = "begin", .unit = "milliseconds of the monotonic clock", .min = 0, .max = 1e12,
	  .help = "when to begin, instead of at once", .count = &params.begin },
	{ .name = "json", .help = "print the result as one line of JSON", .flag = &params.json },
};

static const struct program program = {
	.name = "again",
	.summary = "Runs a command again and again, and counts. The command comes behind --.",
	.specs = specs,
	.nr_specs = ARRAY_SIZE(specs),
};

static double seconds_of(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

static double cpu_of(const struct rusage *usage)
{
	return seconds_of(usage->ru_utime) + seconds_of(usage->ru_stime);
}

static pid_t begin_run(char **command)
{
	pid_t pid = fork();

	if (pid < 0)
		die(&program, EXIT_FAILED, "fork: %s", strerror(errno));
	if (pid)
		return pid;
	/* Its own group, so that what it starts ends with it; and its output is not ours. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
	execvp(command[0], command);
	fprintf(stderr, "%s: %s: %s\n", program.name, command[0], strerror(errno));
	_exit(127);
}

static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

static void end_after(double seconds)
{
	struct sigaction action = { .sa_handler = end };
	struct itimerspec when = { .it_value = { .tv_sec = seconds } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_t timer;

	when.it_value.tv_nsec = (seconds - when.it_value.tv_sec) * 1e9;
	/* Again each 10 ms: one that comes just before a wait would be missed. */
	when.it_interval.tv_nsec = 10000000;
	if (sigaction(SIGALRM, &action, NULL) || sigaction(SIGTERM, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &when, NULL))
		die(&program, EXIT_FAILED, "a timer: %s", strerror(errno));
}

/* Runs that were over, their CPU time, and that of all that was begun [s] */
static unsigned long runs;
static double done, all;

/* Begins a run where one is over, until the time is. */
static void run_again(char **command, pid_t *pids)
{
	struct rusage usage;
	unsigned long at;
	int status;

	while (!over) {
		pid_t pid = wait4(-1, &status, 0, &usage);

		if (pid < 0)
			continue;
		for (at = 0; at < params.jobs && pids[at] != pid; at++)
			;
		/* What a run has left behind is not a run. */
		if (at == params.jobs)
			continue;
		if (status)
			die(&program, EXIT_FAILED, "%s has failed: %s %d", command[0],
			    WIFEXITED(status) ? "status" : "signal",
			    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		runs++;
		done += cpu_of(&usage);
		pids[at] = over ? 0 : begin_run(command);
	}
}

static void end_runs(const pid_t *pids)
{
	struct rusage usage;

	for (unsigned long i = 0; i < params.jobs; i++)
		if (pids[i] > 0)
			kill(-pids[i], SIGKILL);
	all = done;
	for (;;) {
		pid_t pid = wait4(-1, NULL, 0, &usage);

		if (pid > 0)
			all += cpu_of(&usage);
		else if (errno != EINTR)
			break;
	}
}

int main(int argc, char **argv)
{
	pid_t pids[MAX_JOBS];
	double each, seconds;
	uint64_t began;
	int options = 0;
	char **command;
	cpu_set_t allowed;

	while (options < argc && strcmp(argv[options], "--"))
		options++;
	parse_options(&program, options, argv);
	if (argc - options < 2)
		die(&program, EXIT_USAGE, "no command; give one behind --");
	command = argv + options + 1;
	if (!params.jobs)
		params.jobs = allowed_cpus(&allowed);
	if (params.jobs > MAX_JOBS)
		params.jobs = MAX_JOBS;
	/* The CPU time of what a run had started, and not waited for when it was ended, counts. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	begin_at(&program, params.begin);
	began = now_ns();
	end_after(params.runtime);
	for (unsigned long i = 0; i < params.jobs; i++)
		pids[i] = begin_run(command);
	run_again(command, pids);
	seconds = (double)(now_ns() - began) / NSEC_PER_SEC;
	end_runs(pids);
	if (!runs && !params.each)
		die(&program, EXIT_FAILED, "no run of %s was over after %g s", command[0],
		    seconds);
	each = runs ? done / runs : params.each;
	printf(params.json ? "{\"benchmark\":\"again\",\"runs\":%lu,\"work\":%.3f,\"cpu_s\":%.6f,"
			     "\"run_cpu_s\":%.6f,\"seconds\":%.6f,\"jobs\":%lu}\n" :
			     "%lu runs over, %.3f with fractions, %.6f s of CPU time, %.6f s each, "
			     "in %.3f s by %lu at once\n",
	       runs, each ? all / each : runs, all, each, seconds,
	       params.jobs);
	finish_output(&program);
	return EXIT_SUCCESS;
}
