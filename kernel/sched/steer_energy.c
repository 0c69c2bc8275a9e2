// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.hint: energy
 *
 * DOC: placement by what a performance domain needs more
 *
 * CPUs of a performance domain share a frequency, which schedutil sets by the CPU that needs
 * most of them. So what a task costs on a CPU depends on the performance level that the
 * domain comes to with it, and mostly not on which CPU of the domain that is. Hence:
 *
 *  - Of the CPUs on which the task fits, one is taken whose domain needs the least more
 *    energy; of those that cost the same, the one with the fewest runnable tasks, then with
 *    the most room. So tasks do not stack on one CPU while others at the same level idle.
 *  - uclamp counts on both sides: whether a task fits, and which level it asks for.
 *  - Whether the machine is overutilised is not asked. Where nothing fits, the default path
 *    places the task for performance, as if there were no word, and the same CPU does not
 *    look again in the same jiffy for a task that needs as much.
 *  - No availability is kept. Whether there is an energy model is read from the root domain
 *    of the CPU where the task was, at each use.
 *
 * The default energy-aware scheduling takes the CPU with the most room in each domain, which
 * need not be the cheapest; gives up for all tasks while one CPU is overutilised; and looks
 * at tasks that wake up only.
 *
 * Tasks that never sleep
 * ----------------------
 * A task that is seen at two ticks, STEER_ENERGY_PATIENCE apart, and has not slept between them
 * is looked at as one that wakes up. If another CPU is worth it, the task is moved there.
 * Three steps, so that no runqueue is locked while costs are compared, and never two:
 *
 *	tick		rq lock		compares two numbers, queues the irq_work
 *	irq_work	p->pi_lock	compares costs, queues the stopper if the task leaves
 *	stopper		p->pi_lock	takes the task off this runqueue, under its lock, then
 *					puts it on the other one, under the lock of that
 *
 * The pi_lock keeps wakeups and changes of affinity away, also while the task is on neither
 * runqueue. What else may have changed since the step before is asked again.
 *
 * Load balancing
 * --------------
 * While one CPU is overutilised, the load balancer spreads what waits over all domains. It
 * leaves a task with the word in its domain while that fits its CPU, but not for ever:
 * no longer than any cache-hot task.
 *
 * The rules are in steer_energy_rules.h.
 */
#include <linux/irq_work.h>
#include <linux/mmu_context.h>
#include <linux/stop_machine.h>

#include "sched.h"
#include "pelt.h"
#include "steer.h"
#include "steer_compat.h"
#include "steer_energy_rules.h"

#include <trace/events/steer.h>

/* How long a task runs without sleeping until it is looked at. */
#define STEER_ENERGY_PATIENCE	(HZ / 50)

/**
 * struct steer_energy_task - what is asked for
 * @p: the task
 * @hint: effective words of its group
 * @when: who asks
 * @cpu: where @p is, or was last
 * @avg: what @p contributes to the utilisation of @cpu, and will to that of another one
 * @est: likewise, to the estimated one
 * @util: what it is expected to use
 * @util_min: uclamp
 * @util_max: uclamp
 * @counted: @est is part of what @cpu shows now
 */
struct steer_energy_task {
	struct task_struct	*p;
	u32			hint;
	enum steer_energy_when	when;
	int			cpu;
	unsigned long		avg;
	unsigned long		est;
	unsigned long		util;
	unsigned long		util_min;
	unsigned long		util_max;
	bool			counted;
};

/**
 * struct steer_energy_use - utilisation of a CPU, in parts
 * @avg: the average of what ran
 * @contended: the same, or of what wanted to run, if that was more
 * @est: the estimate of those who are runnable
 */
struct steer_energy_use {
	unsigned long		avg;
	unsigned long		contended;
	unsigned long		est;
};

/**
 * struct steer_energy_watch - what a CPU knows of the task that it runs
 * @seen: the task that was seen last; only to be compared
 * @sleeps: how often it had slept
 * @next: when to look again [jiffies]
 * @task: the one that is looked at, or moved; the watch has a reference
 * @dst_cpu: where it goes
 * @look: out of the tick
 * @push: on this CPU
 *
 * Of its CPU only. The tick sets @task, under the rq lock; the last step clears it.
 */
struct steer_energy_watch {
	const struct task_struct	*seen;
	unsigned long			sleeps;
	unsigned long			next;
	struct task_struct		*task;
	int				dst_cpu;
	struct irq_work			look;
	struct cpu_stop_work		push;
};

static void steer_energy_look(struct irq_work *work);

static DEFINE_PER_CPU(struct steer_energy_watch, steer_energy_watch) = {
	.look = IRQ_WORK_INIT_HARD(steer_energy_look),
};

/* For how much no CPU had room, as this one found, and when. */
struct steer_energy_full {
	unsigned long		when;
	unsigned long		util;
};

static DEFINE_PER_CPU(struct steer_energy_full, steer_energy_full);

static struct steer_energy_task steer_energy_ask(struct task_struct *p, int cpu,
						 enum steer_energy_when when)
{
	struct task_struct *like = p;
	struct steer_energy_task ask = {
		.p = p,
		.hint = steer_hint(p),
		.when = when,
		.cpu = cpu,
		.util_min = steer_util_min(p),
		.util_max = steer_util_max(p),
		.counted = when == STEER_ENERGY_EXEC || when == STEER_ENERGY_STUCK,
	};

	/* A new task has done nothing yet. Most likely it will do as its parent. */
	if (when == STEER_ENERGY_FORK)
		like = current;
	ask.avg = READ_ONCE(like->se.avg.util_avg);
	ask.est = READ_ONCE(like->se.avg.util_est) & ~UTIL_AVG_UNCHANGED;
	/* Work costs something wherever it is done. */
	ask.util = max3(ask.avg, ask.est, 1UL);
	return ask;
}

static struct steer_energy_use steer_energy_without(const struct steer_energy_task *ask, int cpu)
{
	struct sched_avg *avg = &cpu_rq(cpu)->cfs.avg;
	struct steer_energy_use use = {
		.avg = READ_ONCE(avg->util_avg),
		.est = READ_ONCE(avg->util_est),
	};

	use.contended = max(use.avg, READ_ONCE(avg->runnable_avg));
	if (cpu == ask->cpu && ask->when != STEER_ENERGY_FORK) {
		use.avg -= min(use.avg, ask->avg);
		use.contended -= min(use.contended, ask->avg);
		if (ask->counted)
			use.est -= min(use.est, ask->est);
	}
	return use;
}

/* Of the CPU, with @ask's task or without it (NULL). */
static unsigned long steer_energy_util(const struct steer_energy_use *use,
				       const struct steer_energy_task *ask, unsigned long capacity)
{
	unsigned long util = max(use->avg + (ask ? ask->avg : 0), use->est + (ask ? ask->est : 0));

	return min(util, capacity);
}

/* The performance that schedutil would ask for, by cpu_util_cfs_boost() and uclamp. */
static unsigned long steer_energy_performance(const struct steer_energy_use *use, int cpu,
					      const struct steer_energy_task *ask,
					      unsigned long capacity)
{
	struct steer_energy_use boosted = { .avg = use->contended, .est = use->est };
	unsigned long util, least, most;

	util = steer_energy_util(&boosted, ask, capacity);
	util = effective_cpu_util(cpu, util, &least, &most);
	if (ask) {
		least = max(least, ask->util_min);
		most = uclamp_rq_is_idle(cpu_rq(cpu)) ? ask->util_max : max(most, ask->util_max);
	}
	return sugov_effective_cpu_perf(cpu, util, least, most);
}

static unsigned long steer_energy_actual(int cpu)
{
	unsigned long original = arch_scale_cpu_capacity(cpu);
	unsigned long pressure = max(hw_load_avg(cpu_rq(cpu)), cpufreq_get_pressure(cpu));

	return original - min(original, pressure);
}

/**
 * struct steer_energy_domain - a performance domain without the task
 * @em: its energy model
 * @actual: capacity of its CPUs, as in struct steer_energy_capacity
 * @busy: utilisation of all of its CPUs
 * @performance: the level that the busiest one asks for
 * @cost: of a unit of utilisation at that level
 */
struct steer_energy_domain {
	struct em_perf_domain	*em;
	unsigned long		actual;
	unsigned long		busy;
	unsigned long		performance;
	unsigned long		cost;
};

static void steer_energy_read(const struct steer_energy_task *ask, struct perf_domain *pd,
			      struct steer_energy_domain *domain)
{
	int cpu;

	domain->em = pd->em_pd;
	domain->actual = steer_energy_actual(cpumask_first(perf_domain_span(pd)));
	domain->busy = 0;
	domain->performance = 0;
	for_each_cpu_and(cpu, perf_domain_span(pd), cpu_online_mask) {
		unsigned long capacity = arch_scale_cpu_capacity(cpu);
		struct steer_energy_use use = steer_energy_without(ask, cpu);
		unsigned long util = steer_energy_util(&use, NULL, capacity);

		domain->busy += effective_cpu_util(cpu, util, NULL, NULL);
		domain->performance = max(domain->performance,
					  steer_energy_performance(&use, cpu, NULL, capacity));
	}
	domain->performance = min(domain->performance, domain->actual);
	domain->cost = steer_em_cost(domain->em, domain->performance);
}

static void steer_energy_candidate(const struct steer_energy_task *ask,
				   const struct steer_energy_domain *domain, int cpu,
				   struct steer_energy_candidate *candidate)
{
	struct rq *rq = cpu_rq(cpu);
	struct steer_energy_capacity capacity = {
		.left = rq->cpu_capacity,
		.original = arch_scale_cpu_capacity(cpu),
		.actual = domain->actual,
	};
	struct steer_energy_use use = steer_energy_without(ask, cpu);
	unsigned long util = steer_energy_util(&use, ask, capacity.original);
	unsigned long util_min = ask->util_min, util_max = ask->util_max;
	unsigned long performance, cost = domain->cost;

	if (!uclamp_rq_is_idle(rq)) {
		util_min = max(util_min, uclamp_rq_get(rq, UCLAMP_MIN));
		util_max = max(util_max, uclamp_rq_get(rq, UCLAMP_MAX));
	}
	candidate->cpu = cpu;
	candidate->fits = steer_energy_fits(util, util_min, util_max, &capacity);
	if (candidate->fits == STEER_FITS_NOT)
		return;

	performance = min(steer_energy_performance(&use, cpu, ask, capacity.original),
			  domain->actual);
	if (performance > domain->performance)
		cost = steer_em_cost(domain->em, performance);
	candidate->delta = steer_energy_delta(domain->cost, domain->busy, cost, ask->util);
	candidate->actual = domain->actual;
	candidate->running = max(steer_nr_wanting(rq) - (ask->counted && cpu == ask->cpu), 0);
	candidate->room = (long)capacity.left - (long)util;
	if (cpu == ask->cpu)
		candidate->room += STEER_ENERGY_STAY;
	trace_steer_energy_candidate(ask->p, ask->when, cpu, candidate->fits, candidate->delta,
				     candidate->running, candidate->room);
}

/**
 * steer_energy_choose - compare the CPUs that a task may use
 * @ask: what is asked for; p->pi_lock and the RCU read lock are held
 * @best: becomes the best one on which the task fits, or none
 * @here: unless NULL, becomes the one where the task is, whether it fits or not
 *
 * Return: false if there is no energy model.
 */
static bool steer_energy_choose(const struct steer_energy_task *ask,
				struct steer_energy_candidate *best,
				struct steer_energy_candidate *here)
{
	struct root_domain *rd = cpu_rq(ask->cpu)->rd;
	struct perf_domain *pd = rcu_dereference(rd->pd);
	struct task_struct *p = ask->p;
	int cpu;

	lockdep_assert_held(&p->pi_lock);

	best->cpu = -1;
	if (!pd)
		return false;

	for (; pd; pd = pd->next) {
		struct steer_energy_domain domain;

		if (!cpumask_intersects(perf_domain_span(pd), p->cpus_ptr))
			continue;
		steer_energy_read(ask, pd, &domain);
		for_each_cpu_and(cpu, perf_domain_span(pd), p->cpus_ptr) {
			struct steer_energy_candidate candidate = { };

			/* A CPU may be of a domain, and of another partition. */
			if (!cpumask_test_cpu(cpu, rd->span) || !cpu_active(cpu) ||
			    !sched_cpu_cookie_match(cpu_rq(cpu), p))
				continue;
			steer_energy_candidate(ask, &domain, cpu, &candidate);
			if (here && cpu == ask->cpu)
				*here = candidate;
			if (candidate.fits != STEER_FITS_NOT &&
			    steer_energy_better(&candidate, best, ask->hint & STEER_PACK))
				*best = candidate;
		}
	}
	return true;
}

/* No CPU had room for so much not long ago. One that is capped fits where others do not. */
static bool steer_energy_was_full(const struct steer_energy_task *ask)
{
	struct steer_energy_full *full = this_cpu_ptr(&steer_energy_full);

	return !(jiffies - full->when) && full->util && ask->util >= full->util &&
	       ask->util_max == SCHED_CAPACITY_SCALE;
}

static void steer_energy_is_full(const struct steer_energy_task *ask)
{
	struct steer_energy_full *full = this_cpu_ptr(&steer_energy_full);

	/* For one that may use some CPUs only, there is other room than for others. */
	if (ask->util_max != SCHED_CAPACITY_SCALE ||
	    !cpumask_subset(cpu_rq(ask->cpu)->rd->span, ask->p->cpus_ptr))
		return;
	full->when = jiffies;
	full->util = ask->util;
}

static int steer_energy_place(const struct steer_energy_task *ask)
{
	struct steer_energy_candidate best = { .cpu = -1 };

	if (!steer_energy_was_full(ask)) {
		if (!steer_energy_choose(ask, &best, NULL)) {
			steer_count(ask->p, STEER_NR_ENERGY_UNAVAILABLE);
			return -1;
		}
		if (best.cpu < 0)
			steer_energy_is_full(ask);
	}
	steer_count(ask->p, best.cpu >= 0 ? STEER_NR_ENERGY_FOLLOWED : STEER_NR_ENERGY_FULL);
	trace_steer_energy(ask->p, ask->hint, ask->when, ask->cpu, best.cpu);
	if (best.cpu >= 0 && steer_headroom_protects(ask->p))
		steer_headroom_claim(best.cpu);
	return best.cpu;
}

int __steer_energy_wake(struct task_struct *p, int prev_cpu)
{
	struct steer_energy_task ask;
	int cpu;

	guard(rcu)();
	/* A gang needs a CPU for each member first of all. */
	cpu = steer_gang_wake_cpu(p, prev_cpu, prev_cpu);
	if (cpu >= 0)
		return cpu;
	/* As sync_entity_load_avg() in fair.c: what a sleeper left on its CPU has decayed since. */
	__update_load_avg_blocked_se(READ_ONCE(cfs_rq_of(&p->se)->avg.last_update_time), &p->se);
	ask = steer_energy_ask(p, prev_cpu, STEER_ENERGY_WAKE);
	return steer_energy_place(&ask);
}

int __steer_energy_fork(struct task_struct *p, int parent_cpu)
{
	struct steer_energy_task ask;

	ask = steer_energy_ask(p, parent_cpu, p == current ? STEER_ENERGY_EXEC : STEER_ENERGY_FORK);
	return steer_energy_place(&ask);
}

/*
 * May @p be moved, as far as can be told without the lock of its runqueue? It may be elsewhere by
 * now, or sleep.
 */
static bool steer_energy_movable(struct task_struct *p, int cpu)
{
	lockdep_assert_held(&p->pi_lock);

	return task_cpu(p) == cpu && task_on_rq_queued(p) && !p->se.sched_delayed &&
	       p->sched_class == &fair_sched_class && !is_migration_disabled(p) && cpu_active(cpu);
}

static void steer_energy_done(struct steer_energy_watch *watch)
{
	struct task_struct *p = watch->task;

	/* From here on, the tick may take another one. */
	WRITE_ONCE(watch->task, NULL);
	put_task_struct(p);
}

/*
 * A CPU's stopper moves the task that the CPU ran. The bounds of the two runqueues' locks are a
 * dequeue and an enqueue.
 */
static int steer_energy_push(void *data)
{
	struct steer_energy_watch *watch = data;
	struct task_struct *p = watch->task;
	struct rq *src = this_rq(), *dst = cpu_rq(watch->dst_cpu);
	struct rq_flags rf;
	bool moves;

	raw_spin_lock_irq(&p->pi_lock);
	rq_lock(src, &rf);
	moves = steer_energy_movable(p, cpu_of(src)) && src->rd == dst->rd &&
		cpumask_test_cpu(cpu_of(dst), p->cpus_ptr) && cpu_active(cpu_of(dst));
	if (moves) {
		update_rq_clock(src);
		deactivate_task(src, p, DEQUEUE_NOCLOCK);
		set_task_cpu(p, cpu_of(dst));
		steer_count(p, STEER_NR_ENERGY_MOVED);
	}
	rq_unlock(src, &rf);
	if (moves) {
		rq_lock(dst, &rf);
		update_rq_clock(dst);
		activate_task(dst, p, ENQUEUE_NOCLOCK);
		wakeup_preempt(dst, p, 0);
		rq_unlock(dst, &rf);
	}
	raw_spin_unlock_irq(&p->pi_lock);
	steer_energy_done(watch);
	return 0;
}

/* Is another CPU worth it, for the task that the tick took? p->pi_lock and RCU are held. */
static bool steer_energy_goes(struct steer_energy_watch *watch, int cpu)
{
	struct task_struct *p = watch->task;
	struct steer_energy_candidate here = { .cpu = -1 }, best;
	struct steer_energy_task ask;

	if (!steer_energy_movable(p, cpu) || steer_gang_of(p))
		return false;
	ask = steer_energy_ask(p, cpu, STEER_ENERGY_STUCK);
	if (!(ask.hint & STEER_ENERGY) || !steer_energy_choose(&ask, &best, &here))
		return false;
	if (best.cpu < 0 || best.cpu == cpu || !steer_energy_leaves(&here, &best))
		return false;
	watch->dst_cpu = best.cpu;
	trace_steer_energy(p, ask.hint, ask.when, cpu, best.cpu);
	return true;
}

static void steer_energy_look(struct irq_work *work)
{
	struct steer_energy_watch *watch = container_of(work, struct steer_energy_watch, look);
	struct task_struct *p = watch->task;
	int cpu = smp_processor_id();
	bool goes;

	raw_spin_lock(&p->pi_lock);
	rcu_read_lock();
	goes = steer_energy_goes(watch, cpu);
	rcu_read_unlock();
	raw_spin_unlock(&p->pi_lock);

	/* Without a lock: the stopper's wakeup takes that of this runqueue. */
	if (!goes ||
	    !stop_one_cpu_nowait(cpu, steer_energy_push, watch, &watch->push))
		steer_energy_done(watch);
}

void __steer_energy_tick(struct rq *rq, struct task_struct *p)
{
	struct steer_energy_watch *watch = &per_cpu(steer_energy_watch, cpu_of(rq));
	bool stuck;

	lockdep_assert_rq_held(rq);

	if (time_before(jiffies, watch->next))
		return;
	stuck = watch->seen == p && watch->sleeps == p->nvcsw;
	watch->seen = p;
	watch->sleeps = p->nvcsw;
	watch->next = jiffies + STEER_ENERGY_PATIENCE;
	/* The tick of a tickless CPU comes from another one. */
	if (!stuck || watch->task || p->nr_cpus_allowed == 1 || rq != this_rq())
		return;
	WRITE_ONCE(watch->task, get_task_struct(p));
	irq_work_queue(&watch->look);
}

static struct perf_domain *steer_energy_domain_of(struct perf_domain *pd, int cpu)
{
	while (pd && !cpumask_test_cpu(cpu, perf_domain_span(pd)))
		pd = pd->next;
	return pd;
}

bool __steer_energy_hold(struct task_struct *p, int src_cpu, int dst_cpu)
{
	struct rq *rq = cpu_rq(src_cpu);
	struct steer_energy_capacity capacity = {
		.left = rq->cpu_capacity,
		.original = arch_scale_cpu_capacity(src_cpu),
		.actual = steer_energy_actual(src_cpu),
	};
	struct perf_domain *pd;

	lockdep_assert_rq_held(rq);

	guard(rcu)();
	pd = rcu_dereference(rq->rd->pd);
	pd = pd ? steer_energy_domain_of(pd, src_cpu) : NULL;
	if (!pd || cpumask_test_cpu(dst_cpu, perf_domain_span(pd)) ||
	    steer_energy_fits(cpu_util_cfs(src_cpu), uclamp_rq_get(rq, UCLAMP_MIN),
			      uclamp_rq_get(rq, UCLAMP_MAX), &capacity) != STEER_FITS)
		return false;
	steer_count(p, STEER_NR_ENERGY_HELD);
	return true;
}
