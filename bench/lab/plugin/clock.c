// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual time for QEMU's multi-threaded TCG.
 *
 * Time here is what the modelled CPUs have done, not what the host's clock says. There is one machine time T, and each
 * vCPU has used some time beyond it: instructions times their cost, and what cache.c charges. A vCPU that has used a
 * whole quantum waits. When all running vCPUs wait, T moves on by a quantum and they go on. So the CPUs run in parallel
 * in virtual time, however few the host has, and a slow or loaded host changes nothing but how long one waits.
 *
 * States of a vCPU: RUNNING; WAITING for T; HALTED in WFI; PENDING, that is halted, but kicked. A pending one counts
 * as running, or T would pass the moment at which it should have woken up.
 *
 * QEMU learns T because this object is also preloaded and answers clock_gettime(CLOCK_MONOTONIC), which is what its
 * virtual clock is under multi-threaded TCG. Its timers are run by the main loop, which sleeps in ppoll() until the
 * next one is due. Ours takes that deadline in virtual time:
 *
 *  - T stops at the deadline, and no vCPU goes on before the main loop has been there and sleeps again.
 *  - When nothing runs, T jumps to the deadline: idle time costs nothing and is exact.
 *  - When a vCPU programs a timer, QEMU wakes its main loop by writing to an eventfd. From then on until the main loop
 *    sleeps again, T stands still, so that no deadline is passed unseen.
 *
 * QEMU stops all vCPUs now and then: for work that must be alone (TLB shootdowns, flushes of translated code) and at
 * the end. Then it waits for each of them on a condition variable, and the ones that wait for T would never come. So
 * while a vCPU that counts as running, or the main thread, is blocked on a condition variable, nobody waits for T:
 * those that do go on, each for one block of code, after which QEMU stops them. They keep what they have used. Blocked
 * it is until the condition is signalled, not until it runs again, which on a small host takes a while for the last of
 * many: the first ones would meanwhile run far ahead.
 *
 * Locks: `lock` protects everything here and is the innermost; QEMU's may be held around it (idle, resume), never the
 * other way round. vCPUs wait for T without any lock, each on a futex of its own, so that only those that may go on
 * are woken.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
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
/* Only if all else fails: a waiting vCPU looks at the world this often. */
#define RESCUE_NS	(NS_PER_S / 2)

enum state { ABSENT, RUNNING, WAITING, PENDING, HALTED };
enum gate { CLOSED, OPEN };

struct clock_cpu {
	enum state state;
	uint32_t gate;			/* futex */
	pthread_cond_t *halt;		/* what it waits on when halted */
	pthread_cond_t *blocked_on;	/* what it waits on when it counts as running */
	uint64_t kicked_at;		/* time beyond T at which it was kicked */
	uint64_t share;			/* of its core, permille, as of the last step */
	bool kicked_by_cpu;
	bool looked;			/* since it was kicked, it has looked whether there is something to do */
} __attribute__((aligned(64)));

static struct clock_cpu cpus[MAX_CPUS];
static struct clock_cpu main_thread;		/* only blocked_on is used */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int running, waiting, started;	/* running includes waiting and pending */
static unsigned int blocked;			/* threads with blocked_on set */
static bool main_sleeps, main_in_poll, release_after_main;
static uint64_t main_events;			/* how often somebody woke the main loop */
static uint64_t now_ns, now_ps;			/* T; its part below a nanosecond */
static uint64_t base_ns, deadline = NONE;
static int wake_fd = -1;
static bool active;
static __thread int this_cpu = -1;
static struct { uint64_t steps, stalls, warps, timers, blocked, rescues; } counts;

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

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void open_gate(struct clock_cpu *c)
{
	__atomic_store_n(&c->gate, OPEN, __ATOMIC_RELEASE);
	futex_wake(&c->gate);
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

static bool counts_as_running(enum state state)
{
	return state == RUNNING || state == WAITING || state == PENDING;
}

/* The part of its core's throughput that a CPU has now. */
static uint64_t share_of_core(unsigned int cpu)
{
	unsigned int first = core_of(cpu) * options.threads;

	for (unsigned int other = first; other < first + options.threads; other++)
		if (other != cpu && counts_as_running(cpus[other].state))
			return options.smt_permille;
	return 1000;
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

/* T has moved on by `step`: those that waited for it have used that much less. */
static void settle(uint64_t step)
{
	for (unsigned int cpu = 0; cpu < started; cpu++) {
		struct vcpu *v = vcpu(cpu);

		if (cpus[cpu].state != WAITING)
			continue;
		v->used -= v->used < step ? v->used : step;
		begin_step(cpu, step);
	}
}

/* Let those go on that have time left; returns whether there are any. */
static bool release(void)
{
	bool any = false;

	for (unsigned int cpu = 0; cpu < started; cpu++) {
		struct clock_cpu *c = &cpus[cpu];

		if (c->state != WAITING || vcpu(cpu)->used >= options.quantum)
			continue;
		c->state = RUNNING;
		waiting--;
		any = true;
		if ((int)cpu != this_cpu)
			open_gate(c);
	}
	return any;
}

/* Move T on if everybody waits for it. */
static void try_to_advance(void)
{
	while (running && waiting == running && main_sleeps) {
		uint64_t step = options.quantum, left;

		left = deadline == NONE ? NONE : deadline > now_ns ? (deadline - now_ns) * PS_PER_NS - now_ps : 0;
		if (left < step)
			step = left;
		now_ps += step;
		set_time(now_ns + now_ps / PS_PER_NS);
		now_ps %= PS_PER_NS;
		cache_time_passed(step);
		counts.steps++;
		settle(step);
		if (now_ns >= deadline) {
			/* What the timers do has to be done before anybody sees this moment. */
			counts.timers++;
			release_after_main = true;
			main_sleeps = false;
			wake_main();
			return;
		}
		if (release())
			return;
		counts.stalls++;
	}
}

/* Somebody stopped running. */
static void one_less(void)
{
	if (!running)
		wake_main();
	else
		try_to_advance();
}

/* A vCPU has used its quantum: wait until T has caught up. */
void clock_quantum_used(unsigned int cpu, void *unused)
{
	struct clock_cpu *c = &cpus[cpu];
	const struct timespec rescue = { RESCUE_NS / NS_PER_S, RESCUE_NS % NS_PER_S };

	pthread_mutex_lock(&lock);
	if (c->state != RUNNING || blocked) {
		pthread_mutex_unlock(&lock);
		return;
	}
	c->gate = CLOSED;
	c->state = WAITING;
	waiting++;
	try_to_advance();
	if (c->state == RUNNING) {
		pthread_mutex_unlock(&lock);
		return;
	}
	pthread_mutex_unlock(&lock);
	while (__atomic_load_n(&c->gate, __ATOMIC_ACQUIRE) == CLOSED) {
		if (!syscall(SYS_futex, &c->gate, FUTEX_WAIT_PRIVATE, CLOSED, &rescue, NULL, 0) || errno != ETIMEDOUT)
			continue;
		pthread_mutex_lock(&lock);
		if (c->state == WAITING) {
			c->state = RUNNING;
			waiting--;
			counts.rescues++;
			pthread_mutex_unlock(&lock);
			return;
		}
		pthread_mutex_unlock(&lock);
	}
}

/* Charge a vCPU, from its own thread. */
void clock_charge(unsigned int cpu, uint64_t ps)
{
	vcpu(cpu)->used += ps * cpus[cpu].share / 1000;
}

uint64_t clock_now(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_ACQUIRE);
}

void clock_cpu_begins(unsigned int cpu)
{
	pthread_mutex_lock(&lock);
	this_cpu = cpu;
	cpus[cpu].state = RUNNING;
	cpus[cpu].share = 1000;
	running++;
	if (cpu >= started)
		started = cpu + 1;
	pthread_mutex_unlock(&lock);
}

void clock_cpu_halts(unsigned int cpu)
{
	pthread_mutex_lock(&lock);
	if (cpus[cpu].state == RUNNING) {
		cpus[cpu].state = HALTED;
		cpus[cpu].looked = false;
		running--;
		one_less();
	}
	pthread_mutex_unlock(&lock);
}

void clock_cpu_resumes(unsigned int cpu)
{
	struct clock_cpu *c = &cpus[cpu];

	pthread_mutex_lock(&lock);
	if (c->state == HALTED || c->state == PENDING) {
		bool kicked = c->state == PENDING;

		if (!kicked)
			running++;
		c->state = RUNNING;
		vcpu(cpu)->used = options.idle_exit;
		if (kicked)
			vcpu(cpu)->used += c->kicked_at + (c->kicked_by_cpu ? options.ipi : 0);
		begin_step(cpu, options.quantum);
	}
	pthread_mutex_unlock(&lock);
}

/* A thread that counts as running is going to wait for something else than T, perhaps for those who wait for T. */
static void block(struct clock_cpu *c, pthread_cond_t *cond)
{
	c->blocked_on = cond;
	blocked++;
	counts.blocked++;
	for (unsigned int cpu = 0; cpu < started; cpu++)
		if (cpus[cpu].state == WAITING) {
			cpus[cpu].state = RUNNING;
			waiting--;
			open_gate(&cpus[cpu]);
		}
}

static void unblock(struct clock_cpu *c)
{
	if (c->blocked_on)
		blocked--;
	c->blocked_on = NULL;
}

/*
 * A halted vCPU waits on its gate, not on QEMU's condition variable. QEMU kicks without the mutex, too, and such a kick
 * would be lost in the moment before the wait: no harm to QEMU, but here the vCPU would be pending for ever.
 */
static void wait_for_kick(struct clock_cpu *c, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	pthread_mutex_lock(&lock);
	c->halt = cond;
	if (c->state == PENDING && c->looked) {		/* kicked for nothing */
		c->state = HALTED;
		running--;
		one_less();
	}
	c->looked = true;
	if (c->state == PENDING) {
		pthread_mutex_unlock(&lock);
		return;
	}
	c->gate = CLOSED;
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(mutex);
	while (__atomic_load_n(&c->gate, __ATOMIC_ACQUIRE) == CLOSED)
		syscall(SYS_futex, &c->gate, FUTEX_WAIT_PRIVATE, CLOSED, NULL, NULL, 0);
	pthread_mutex_lock(mutex);
}

QEMU_PLUGIN_EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct clock_cpu *c = this_cpu >= 0 ? &cpus[this_cpu] : &main_thread;
	int result;

	if (!active || (c == &main_thread && !in_main_thread()))
		return real_cond_wait(cond, mutex);
	/* Only the vCPU itself halts and resumes. */
	if (c->state == HALTED || c->state == PENDING) {
		wait_for_kick(c, cond, mutex);
		return 0;
	}
	pthread_mutex_lock(&lock);
	block(c, cond);
	pthread_mutex_unlock(&lock);
	result = real_cond_wait(cond, mutex);
	pthread_mutex_lock(&lock);
	unblock(c);
	pthread_mutex_unlock(&lock);
	return result;
}

/* What is signalled need not be waited for any more; and this is how a halted vCPU is kicked. */
static void signalled(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	if (main_thread.blocked_on == cond)
		unblock(&main_thread);
	for (unsigned int cpu = 0; cpu < started; cpu++) {
		struct clock_cpu *c = &cpus[cpu];

		if (c->blocked_on == cond)
			unblock(c);
		if (c->halt != cond || c->state != HALTED)
			continue;
		c->state = PENDING;
		running++;
		open_gate(c);
		c->kicked_by_cpu = this_cpu >= 0;
		c->kicked_at = c->kicked_by_cpu ? vcpu(this_cpu)->used : 0;
		if (c->kicked_at > options.quantum)
			c->kicked_at = options.quantum;
	}
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

	if (active && size == sizeof(uint64_t) && this_cpu >= 0) {
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

	if (running || deadline == NONE)
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
	if (!running && deadline != NONE && !options.paced && started) {
		counts.warps++;
		set_time(deadline);
		now_ps = 0;
	} else if (release_after_main) {
		release_after_main = false;
		if (!release())
			try_to_advance();
	} else {
		try_to_advance();
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
		if (sleep && !running) {
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

/* From here on QEMU lives in virtual time, which goes on from the host's. */
void clock_start(void)
{
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd < 0 || !real_cond_wait || !real_cond_broadcast || !real_cond_signal ||
	    !real_clock_gettime || !real_write)
		abort();
	base_ns = real_ns();
	active = true;
}

void clock_report(FILE *out)
{
	fprintf(out, "\"time_ns\": %lu, \"steps\": %lu, \"stalls\": %lu, \"warps\": %lu, \"timers\": %lu, "
		"\"blocked\": %lu, \"rescues\": %lu", clock_now(), counts.steps, counts.stalls, counts.warps,
		counts.timers, counts.blocked, counts.rescues);
}
