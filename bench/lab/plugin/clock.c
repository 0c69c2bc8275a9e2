// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual time for QEMU's round-robin TCG.
 *
 * Time here is what the modelled CPUs have done, not what the host's clock says. There is one machine time T, and each
 * vCPU has used some time beyond it: instructions times their cost, and what cache.c charges. One that has used a whole
 * quantum waits. When all running vCPUs wait, T moves on by a quantum and they go on. So the CPUs run in parallel in
 * virtual time, although one after the other in the host's, and nothing depends on how fast or how busy the host is.
 *
 * QEMU runs all vCPUs in one thread, in turn (thread=single). With a thread for each, most of the host's time went into
 * switching between threads, a hundred times as often as it was worth; and QEMU stops them all for each TLB shootdown.
 * A vCPU that waits is told to leave by cpu_exit(), of which QEMU makes no part of the plugin interface, but which its
 * binaries export where they are built with modules, as distributions do.
 *
 * States of a vCPU: RUNNING; WAITING for T; HALTED since it executed WFI. WFI puts a mark on the time used that makes
 * the first block of code after it come here. A kick may have made a halted vCPU runnable that has not had its turn
 * yet. So after a kick T moves only when everybody has had a turn since.
 *
 * QEMU learns T because this object is also preloaded and answers clock_gettime(CLOCK_MONOTONIC), which is what its
 * virtual clock is. Its timers are run by the main loop, which sleeps in ppoll() until the next one is due. Ours takes
 * that deadline in virtual time:
 *
 *  - T stops at the deadline, and no vCPU goes on before the main loop has been there and sleeps again.
 *  - When all vCPUs are halted, T jumps to the deadline: idle time costs nothing and is exact.
 *  - When a vCPU programs a timer, QEMU wakes its main loop by writing to an eventfd. From then on until the main loop
 *    sleeps again, T stands still, so that no deadline is passed unseen.
 *
 * CPUs of a domain run at the level that a CPU of theirs told last, from its next step on: at the slower levels, a part
 * of each step is used already. Energy is what the CPUs of a domain need while they are not halted, by level, and while
 * they are.
 *
 * The main thread may also wait for the vCPUs' thread, to stop it. While it is blocked on a condition variable, that
 * thread does not wait for it.
 *
 * Locks: `lock` protects what both threads touch and is the innermost; QEMU's may be held around it, never the other way
 * round. The states of vCPUs belong to their thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#define NS_PER_S	1000000000ull
#define PS_PER_NS	1000ull
/* More time than a vCPU can ever have used. */
#define HALT_MARK	(1ull << 60)

enum state { ABSENT, RUNNING, WAITING, HALTED };

struct clock_cpu {
	enum state state;
	uint64_t share;		/* of its core, permille, as of the last step */
	uint64_t halted_at;	/* T */
	uint64_t kicks;		/* how many there had been when it halted */
	struct clock_domain *domain;	/* NULL on machines with one kind of CPU */
	void *qemu;		/* QEMU's name for it */
};

/* What a domain did. */
struct clock_domain {
	struct domain is;
	unsigned int level, running;		/* CPUs that are not halted */
	struct { uint64_t ns, ps; } busy[MAX_LEVELS];	/* of all its CPUs */
};

/* The vCPUs' thread only. */
static struct clock_cpu cpus[MAX_CPUS];
static struct clock_domain domains[MAX_DOMAINS];
static unsigned int n_domains, cpus_in_domains;
static unsigned int running, waiting, started;	/* running includes waiting */
static unsigned int round_begins;		/* the vCPU whose next turn ends the round that must pass */
static uint64_t round_changes, changes;		/* of states */
static uint64_t kicks_settled;			/* everybody has had a turn since this many kicks */
static void **current_cpu;			/* QEMU's */
static void (*cpu_exit)(void *cpu);
static void *(*qemu_get_cpu)(int index);
static void (*tcg_cpu_init_cflags)(void *cpu, bool parallel);
static __thread bool is_vcpu_thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t main_changed = PTHREAD_COND_INITIALIZER;
static bool active, main_sleeps, main_in_poll, all_halted;
static pthread_cond_t *main_blocked_on, *vcpus_halt_on;
static uint64_t main_events;			/* how often the vCPUs woke the main loop */
static uint64_t kicks, kicked_at;		/* and the time beyond T of the last one */
static bool kicked_by_cpu;
static uint64_t now_ns, now_ps;			/* T; its part below a nanosecond */
static uint64_t base_ns, deadline = NONE;
static int wake_fd = -1;
static struct { uint64_t steps, stalls, rounds, warps, timers, busy_ns, busy_ps; } counts;

static int (*real_cond_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
static int (*real_cond_broadcast)(pthread_cond_t *cond);
static int (*real_cond_signal)(pthread_cond_t *cond);
static int (*real_clock_gettime)(clockid_t id, struct timespec *t);
static ssize_t (*real_write)(int fd, const void *data, size_t size);

/* The condition variables' functions exist in two versions on x86-64; the default symbol may be the old one. */
static void *find(const char *name)
{
	void *function = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return function ? function : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void find_real_functions(void)
{
	real_cond_wait = find("pthread_cond_wait");
	real_cond_broadcast = find("pthread_cond_broadcast");
	real_cond_signal = find("pthread_cond_signal");
	real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	real_write = dlsym(RTLD_NEXT, "write");
}

static bool in_main_thread(void)
{
	return getpid() == (pid_t)syscall(SYS_gettid);
}

static void wake_main(void)
{
	uint64_t one = 1;

	if (real_write(wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

static void set_time(uint64_t ns)
{
	__atomic_store_n(&now_ns, ns, __ATOMIC_RELEASE);
}

uint64_t clock_now(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_ACQUIRE);
}

static bool counts_as_running(enum state state)
{
	return state == RUNNING || state == WAITING;
}

/* The part of the fastest core's throughput that a CPU has now. */
static uint64_t share_of_core(unsigned int cpu)
{
	unsigned int first = core_of(cpu) * options.threads;
	struct clock_domain *domain = cpus[cpu].domain;
	uint64_t speed = domain ? domain->is.levels[domain->level].speed : 1000;

	for (unsigned int other = first; other < first + options.threads; other++)
		if (other != cpu && counts_as_running(cpus[other].state))
			return options.smt_permille * speed / 1000;
	return speed;
}

/* The domain of the next CPUs in order; false if there is no room for it. */
bool clock_add_domain(const struct domain *domain)
{
	if (n_domains == MAX_DOMAINS || !domain->cpus || domain->cpus > MAX_CPUS - cpus_in_domains)
		return false;
	domains[n_domains] = (struct clock_domain){ .is = *domain, .level = domain->n_levels - 1 };
	for (uint64_t i = 0; i < domain->cpus; i++)
		cpus[cpus_in_domains++].domain = &domains[n_domains];
	n_domains++;
	return true;
}

/* A CPU says at what level its domain is from now on. */
void clock_sets_level(unsigned int cpu, void *level)
{
	struct clock_domain *domain = cpus[cpu].domain;

	if (domain && (uintptr_t)level < domain->is.n_levels)
		domain->level = (uintptr_t)level;
}

static void domains_time_passed(uint64_t ps)
{
	for (unsigned int i = 0; i < n_domains; i++) {
		unsigned int level = domains[i].level;
		uint64_t sum = domains[i].busy[level].ps + domains[i].running * ps;

		domains[i].busy[level].ns += sum / PS_PER_NS;
		domains[i].busy[level].ps = sum % PS_PER_NS;
	}
}

/*
 * Begin a step of length `ps` for a CPU. One that shares its core finds part of the step already used; what it is
 * charged for memory is scaled in the same way, so that only its instructions are slowed down.
 */
static void begin_step(unsigned int cpu, uint64_t ps)
{
	struct clock_cpu *c = &cpus[cpu];

	c->share = share_of_core(cpu);
	vcpu(cpu)->used += ps * (1000 - c->share) / 1000;
}

void clock_charge(unsigned int cpu, uint64_t ps)
{
	vcpu(cpu)->used += ps * cpus[cpu].share / 1000;
}

/* How far a CPU is in its step, in the machine's time. */
uint64_t clock_in_step(unsigned int cpu)
{
	uint64_t share = cpus[cpu].share, skipped = options.quantum * (1000 - share) / 1000, used = vcpu(cpu)->used;

	return used > skipped ? (used - skipped) * 1000 / share : 0;
}

/* Spinning is in vain as long as nobody else has a turn. */
void clock_spins(unsigned int cpu, void *unused)
{
	struct vcpu *v = vcpu(cpu);

	clock_charge(cpu, options.spin);
	if (v->used < options.quantum)
		v->used = options.quantum;
}

/* T has moved on by `step`; returns whether somebody has time left now. */
static bool settle(uint64_t step)
{
	bool any = false;

	for (unsigned int cpu = 0; cpu < started; cpu++) {
		struct vcpu *v = vcpu(cpu);

		if (cpus[cpu].state != WAITING)
			continue;
		v->used -= v->used < step ? v->used : step;
		begin_step(cpu, step);
		if (v->used >= options.quantum)
			continue;
		cpus[cpu].state = RUNNING;
		waiting--;
		any = true;
	}
	return any;
}

/* Wait until the main loop has done all that there is to do at this moment; false if it waits for us. */
static bool main_is_ready(void)
{
	while (!main_sleeps && !main_blocked_on)
		real_cond_wait(&main_changed, &lock);
	return main_sleeps;
}

/* Everybody waits for T: move it on. */
static void advance(void)
{
	bool any;

	pthread_mutex_lock(&lock);
	do {
		uint64_t step = options.quantum, left;

		if (!main_is_ready())
			break;
		left = deadline == NONE ? NONE : deadline > now_ns ? (deadline - now_ns) * PS_PER_NS - now_ps : 0;
		if (left < step)
			step = left;
		now_ps += step;
		set_time(now_ns + now_ps / PS_PER_NS);
		now_ps %= PS_PER_NS;
		cache_time_passed(step);
		domains_time_passed(step);
		counts.steps++;
		/* Who does not wait for T is halted. */
		counts.busy_ps += waiting * step;
		counts.busy_ns += counts.busy_ps / PS_PER_NS;
		counts.busy_ps %= PS_PER_NS;
		any = settle(step);
		counts.stalls += !any;
		if (now_ns >= deadline) {
			/* What the timers do has to be done before anybody sees this moment. */
			counts.timers++;
			main_sleeps = false;
			wake_main();
			if (!main_is_ready())
				break;
		}
		/* Those that the timers kicked want their turn. */
	} while (!any && kicks == kicks_settled);
	pthread_mutex_unlock(&lock);
	changes++;
}

static void resume(unsigned int cpu)
{
	struct clock_cpu *c = &cpus[cpu];
	struct vcpu *v = vcpu(cpu);

	c->state = RUNNING;
	running++;
	if (c->domain)
		c->domain->running++;
	changes++;
	v->used = 0;
	pthread_mutex_lock(&lock);
	/* Without a kick, it did not stop at all: there was an interrupt already. */
	if (c->kicks != kicks || c->halted_at != now_ns)
		v->used = options.idle_exit + kicked_at + (kicked_by_cpu ? options.ipi : 0);
	pthread_mutex_unlock(&lock);
	begin_step(cpu, options.quantum);
}

/* A vCPU has used its quantum, or comes out of WFI. */
void clock_quantum_used(unsigned int cpu, void *unused)
{
	struct clock_cpu *c = &cpus[cpu];
	bool round_over;

	if (c->state == HALTED) {
		resume(cpu);
		if (vcpu(cpu)->used < options.quantum)
			return;
	}
	if (c->state == RUNNING) {
		c->state = WAITING;
		waiting++;
		changes++;
	}
	if (waiting == running) {
		uint64_t seen = __atomic_load_n(&kicks, __ATOMIC_ACQUIRE);

		round_over = seen == kicks_settled;
		if (!round_over && round_begins == cpu && round_changes == changes) {
			kicks_settled = seen;
			counts.rounds++;
			round_over = true;
		}
		if (round_over) {
			advance();
			if (c->state == RUNNING)
				return;
		} else if (round_changes != changes) {
			round_begins = cpu;
			round_changes = changes;
		}
	}
	cpu_exit(c->qemu);
}

/* A vCPU executes WFI. */
void clock_cpu_halts(unsigned int cpu, void *unused)
{
	struct clock_cpu *c = &cpus[cpu];

	if (c->state == WAITING)
		waiting--;
	c->state = HALTED;
	c->halted_at = now_ns;
	c->kicks = __atomic_load_n(&kicks, __ATOMIC_ACQUIRE);
	running--;
	if (c->domain)
		c->domain->running--;
	changes++;
	vcpu(cpu)->used = HALT_MARK;
}

/* QEMU has made a vCPU; those that do not run yet come here as if out of WFI. */
void clock_cpu_begins(unsigned int cpu)
{
	is_vcpu_thread = true;
	current_cpu = dlsym(RTLD_DEFAULT, "current_cpu");	/* it is this thread's */
	cpus[cpu] = (struct clock_cpu){ .state = HALTED, .share = 1000, .domain = cpus[cpu].domain,
					.qemu = qemu_get_cpu(cpu) };
	/* Else code translated for one vCPU would count for it when another one executes it. */
	tcg_cpu_init_cflags(cpus[cpu].qemu, true);
	vcpu(cpu)->used = HALT_MARK;
	if (cpu >= started)
		started = cpu + 1;
}

QEMU_PLUGIN_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int result;

	if (!active || (!is_vcpu_thread && !in_main_thread()))
		return real_cond_wait(cond, mutex);
	pthread_mutex_lock(&lock);
	if (is_vcpu_thread) {
		/* All vCPUs are idle. */
		vcpus_halt_on = cond;
		all_halted = true;
		wake_main();
	} else {
		main_blocked_on = cond;
		real_cond_broadcast(&main_changed);
	}
	pthread_mutex_unlock(&lock);
	result = real_cond_wait(cond, mutex);
	pthread_mutex_lock(&lock);
	if (is_vcpu_thread)
		all_halted = false;
	else
		main_blocked_on = NULL;
	pthread_mutex_unlock(&lock);
	return result;
}

/* The main thread kicks vCPUs by a broadcast, at the deadlines of timers. */
static void signalled(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	if (main_blocked_on == cond)
		main_blocked_on = NULL;
	if (cond == vcpus_halt_on) {
		all_halted = false;
		kicked_by_cpu = false;
		kicked_at = 0;
		__atomic_store_n(&kicks, kicks + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

/* A vCPU sends an interrupt to others. To whom is not known here: whoever resumes next takes it for its own. */
void clock_sends_ipi(unsigned int cpu, void *unused)
{
	uint64_t used = vcpu(cpu)->used;

	pthread_mutex_lock(&lock);
	kicked_by_cpu = true;
	kicked_at = used < options.quantum ? used : options.quantum;
	__atomic_store_n(&kicks, kicks + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

QEMU_PLUGIN_EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (active)
		signalled(cond);
	return real_cond_broadcast(cond);
}

QEMU_PLUGIN_EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (active)
		signalled(cond);
	return real_cond_signal(cond);
}

QEMU_PLUGIN_EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
	uint64_t ns;

	if (id != CLOCK_MONOTONIC || !active)
		return real_clock_gettime ? real_clock_gettime(id, t) : (int)syscall(SYS_clock_gettime, id, t);
	ns = base_ns + clock_now();
	t->tv_sec = ns / NS_PER_S;
	t->tv_nsec = ns % NS_PER_S;
	return 0;
}

/* Eight bytes are what an eventfd takes: another thread wakes the main loop. */
QEMU_PLUGIN_EXPORT ssize_t write(int fd, const void *data, size_t size)
{
	ssize_t result = real_write ? real_write(fd, data, size) : syscall(SYS_write, fd, data, size);

	if (active && size == sizeof(uint64_t) && is_vcpu_thread) {
		int error = errno;

		pthread_mutex_lock(&lock);
		main_events++;
		if (main_in_poll)
			wake_main();
		main_sleeps = false;
		pthread_mutex_unlock(&lock);
		errno = error;
	}
	return result;
}

static uint64_t real_ns(void)
{
	struct timespec t;

	real_clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int poll_once(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	return syscall(SYS_ppoll, fds, n, timeout, mask, _NSIG / 8);
}

/* With nothing to run and someone at the console, time passes as it does outside; returns how long poll may sleep. */
static struct timespec *idle_pace(struct timespec *t)
{
	uint64_t left;

	if (!all_halted || deadline == NONE)
		return NULL;
	left = deadline - now_ns;
	*t = (struct timespec){ left / NS_PER_S, left % NS_PER_S };
	return t;
}

/*
 * The main loop is about to sleep: it has nothing to do before the deadline or an event.
 * Returns whether the deadline is there.
 */
static bool main_goes_to_sleep(void)
{
	main_sleeps = true;
	if (all_halted && deadline != NONE && !options.paced) {
		counts.warps++;
		set_time(deadline);
		now_ps = 0;
	}
	return now_ns >= deadline;
}

QEMU_PLUGIN_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	static const struct timespec at_once;
	static struct pollfd *all;	/* those asked for, and our own */
	static nfds_t room;
	int result;

	if (!active || !in_main_thread())
		return poll_once(fds, n, timeout, mask);
	if (room <= n) {
		room = n + 64;
		all = realloc(all, room * sizeof(*all));
		if (!all)
			abort();
	}
	pthread_mutex_lock(&lock);
	deadline = timeout ? now_ns + timeout->tv_sec * NS_PER_S + timeout->tv_nsec : NONE;
	pthread_mutex_unlock(&lock);
	for (;;) {
		struct timespec pace, *sleep;
		uint64_t before, events = __atomic_load_n(&main_events, __ATOMIC_ACQUIRE);
		bool due;

		result = poll_once(fds, n, &at_once, mask);
		if (result)
			return result;
		pthread_mutex_lock(&lock);
		if (main_events != events) {	/* this one may have been missed just now */
			pthread_mutex_unlock(&lock);
			continue;
		}
		due = now_ns >= deadline || main_goes_to_sleep();
		main_in_poll = !due;
		if (due)
			main_sleeps = false;
		else
			real_cond_broadcast(&main_changed);
		sleep = options.paced ? idle_pace(&pace) : NULL;
		pthread_mutex_unlock(&lock);
		if (due)
			return 0;

		memcpy(all, fds, n * sizeof(*fds));
		all[n] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
		before = real_ns();
		result = poll_once(all, n + 1, sleep, mask);
		pthread_mutex_lock(&lock);
		main_sleeps = main_in_poll = false;
		if (sleep && all_halted) {
			uint64_t to = now_ns + real_ns() - before;

			set_time(to < deadline ? to : deadline);
		}
		pthread_mutex_unlock(&lock);
		if (result > 0 && all[n].revents) {
			uint64_t value;

			if (read(wake_fd, &value, sizeof(value)) < 0 && errno != EAGAIN)
				abort();
			result--;
		}
		if (result) {
			memcpy(fds, all, n * sizeof(*fds));
			return result;
		}
	}
}

/* From here on QEMU lives in virtual time, which goes on from the host's; false if this QEMU cannot be steered. */
bool clock_start(void)
{
	cpu_exit = dlsym(RTLD_DEFAULT, "cpu_exit");
	qemu_get_cpu = dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	tcg_cpu_init_cflags = dlsym(RTLD_DEFAULT, "tcg_cpu_init_cflags");
	if (!cpu_exit || !qemu_get_cpu || !tcg_cpu_init_cflags || !dlsym(RTLD_DEFAULT, "current_cpu"))
		return false;
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd < 0 || !real_cond_wait || !real_cond_broadcast || !real_cond_signal ||
	    !real_clock_gettime || !real_write)
		abort();
	base_ns = real_ns();
	active = true;
	return true;
}

void clock_report(FILE *out)
{
	double all = 0;

	fprintf(out, "\"time_ns\": %lu, \"steps\": %lu, \"stalls\": %lu, \"rounds\": %lu, \"warps\": %lu, "
		"\"timers\": %lu, \"kicks\": %lu, \"busy_ns\": %lu", clock_now(), counts.steps, counts.stalls,
		counts.rounds, counts.warps, counts.timers, kicks, counts.busy_ns);
	fprintf(out, ", \"domains\": [");
	for (unsigned int i = 0; i < n_domains; i++) {
		const struct clock_domain *domain = &domains[i];
		double active = 0, idle = (double)clock_now() * domain->is.cpus;	/* uW x ns, and ns */

		fprintf(out, "%s{\"busy_ns\": [", i ? ", " : "");
		for (unsigned int level = 0; level < domain->is.n_levels; level++) {
			fprintf(out, "%s%lu", level ? ", " : "", domain->busy[level].ns);
			active += (double)domain->busy[level].ns * domain->is.levels[level].power;
			idle -= domain->busy[level].ns;
		}
		idle *= domain->is.idle;
		all += active + idle;
		fprintf(out, "], \"active_nj\": %.0f, \"idle_nj\": %.0f}", active / 1e6, idle / 1e6);
	}
	fprintf(out, "], \"energy_nj\": %.0f", all / 1e6);
}
