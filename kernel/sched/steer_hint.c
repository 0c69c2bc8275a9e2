// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.hint: where the fair tasks of a group run
 *
 * DOC: what a hint can and cannot do
 *
 * A hint says which CPU of those that the scheduler may choose anyway is the
 * better one. The words, the rules and the reasons for them, with numbers, are in
 * Documentation/scheduler/sched-steer.rst; "crowded", "overloaded" and "take turns"
 * are used as in the glossary there. What holds in this file:
 *
 *  - A hint never makes a CPU eligible. Affinity, cpusets, partitions and isolation
 *    (all in p->cpus_ptr and in the scheduling domains), CPU capacity and core
 *    scheduling cookies are tested first, for each candidate. Real-time and deadline
 *    tasks, and tasks owned by a BPF scheduler, never come here.
 *  - A wake hint is followed only onto a CPU that has been looked at and found idle,
 *    that the waker is about to leave, or that runs what a headroom holds back for
 *    the task. Otherwise the default path runs as if there were no hint, and a
 *    counter tells why. Neither has_idle_cores, which lies between a CPU going idle
 *    and a search that fails, nor nr_idle_scan is consulted.
 *  - A search that found nothing is not repeated by the same CPU in the same jiffy,
 *    except that of an LLC that a wake word chose: that is bounded by its size.
 *
 * Wakeup
 * ------
 * The default path has two steps: wake_affine() chooses between the waker's and
 * the previous CPU, select_idle_sibling() searches the LLC of that target. The
 * hook sits between the two, and sees the target. wake_affine and wake_hold choose
 * the LLC; pack, scan_none and scan_full choose the candidates in it; wake_wide
 * looks beyond it.
 *
 * Words that gather tasks (fork_affine, wake_affine, wake_hold) draw none to an LLC
 * that is crowded, and hold none in one that is overloaded. A task of such a group
 * that would have to queue goes to the nearest idle CPU beyond. Tasks that take
 * turns share the waker's CPU where no core of its LLC is idle; with pack, always.
 *
 * To a task of a group with a headroom, what is held back for it is not there: see
 * __steer_wake_protected().
 *
 * Fork, exec, load balancing, slices
 * ----------------------------------
 * fork_affine stays in the parent's LLC while as many CPUs as a core has threads
 * are idle there. fork_spread goes to the node and LLC with an idle CPU and the fewest tasks
 * of the own group. What both say about nodes holds for the load balancer and NUMA
 * balancing, too: see steer_numa.c. A task with a wake hint stays in
 * its LLC while that is not overloaded; it is refused after LBF_ALL_PINNED was cleared, so that its
 * queue never looks pinned by affinity, and only until the domain has failed
 * cache_nice_tries times. slice_short and slice_long scale the EEVDF request when a
 * request starts, and never the share.
 *
 * Locks and lifetime
 * ------------------
 * Placement runs under p->pi_lock and RCU, slices and balancing under the rq
 * lock; either pins p->sched_task_group, and with it the words and counters.
 * Domains are read under RCU. CPUs that go offline leave the domains before
 * they stop; what slips through is caught by select_task_rq(), as for the
 * default path. Autogroups and the root group have no words.
 */
#define CREATE_TRACE_POINTS
#include <trace/events/steer.h>
#undef CREATE_TRACE_POINTS

#include <linux/jiffies.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>

#include "sched.h"
#include "steer.h"
#include "steer_compat.h"

/* How many CPUs beyond the LLC wake_wide looks at, without scan_full. */
#define STEER_REACH_CPUS	64

/* Words that have a say in where a waking task runs. */
#define STEER_AT_WAKEUP		(STEER_WAKE | STEER_REACH | STEER_SCAN | STEER_PACK | \
				 STEER_FORK_AFFINE)

/*
 * In both, since the waker is runnable for a while beside the wakee: it is 1.45 CPUs
 * for tbench, where it wakes up the other in the middle of what it does for a message.
 */
#define STEER_TURNS_MOST	(SCHED_CAPACITY_SCALE * 8 / 5)

/*
 * For how long a view of an LLC holds, for each of its CPUs [ns]. If to look at one takes 100
 * ns, that is no more than a hundredth of the time.
 */
#define STEER_VIEW_NS		(10 * (u64)NSEC_PER_USEC)

/* For how long a crowded LLC draws no more tasks to it. */
#define STEER_CROWDED		(HZ / 10)

/* For how long nobody is held in an LLC that had too many tasks. */
#define STEER_OVERLOADED	(HZ / 50)

/**
 * struct steer_stamp - when something was found full
 * @when: in jiffies
 * @group: for whom: tasks of this group with a headroom, or NULL; only to be compared
 */
struct steer_stamp {
	unsigned long		when;
	const struct task_group	*group;
};

/*
 * In each of these, the second is for tasks with a headroom: what is full for others may
 * give way to them. Of the LLC that was found crowded; that of its first CPU counts.
 */
static DEFINE_PER_CPU(struct steer_stamp [2], steer_crowded);

/* Of the LLC that had more runnable tasks than CPUs; likewise. */
static DEFINE_PER_CPU(struct steer_stamp [2], steer_overloaded);

/* Of a search beyond the LLC that found nothing; of the CPU that searched. */
static DEFINE_PER_CPU(struct steer_stamp [2], steer_full);

/* When none of the LLC had room for a task to be packed, likewise. */
static DEFINE_PER_CPU(unsigned long, steer_unpacked);

/* Off a second after the last user: flipping it interrupts every CPU. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(steer_hint_key, HZ);

/**
 * steer_hint_available - words that this machine can honour
 *
 * Return: set of STEER_* words.
 */
u32 steer_hint_available(void)
{
	return sched_energy_enabled() ? STEER_WORDS : STEER_WORDS & ~STEER_ENERGY;
}

/* What the task is expected to use of a CPU, as task_util_est() in fair.c. */
static unsigned long steer_task_util(struct task_struct *p)
{
	unsigned long est = READ_ONCE(p->se.avg.util_est) & ~UTIL_AVG_UNCHANGED;

	return max(READ_ONCE(p->se.avg.util_avg), est);
}

static bool steer_fits_util(struct task_struct *p, int cpu)
{
	unsigned long util;

	util = clamp(steer_task_util(p), steer_util_min(p), steer_util_max(p));
	return util * 5 <= cpu_rq(cpu)->cpu_capacity * 4;
}

/* On a machine whose CPUs differ: is this one large enough? */
static __always_inline bool steer_fits(struct task_struct *p, int cpu)
{
	return !sched_asym_cpucap_active() || steer_fits_util(p, cpu);
}

static __always_inline bool steer_cpu_allowed(struct task_struct *p, int cpu)
{
	return cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       sched_cpu_cookie_match(cpu_rq(cpu), p) && steer_fits(p, cpu);
}

/* Does this CPU run nothing but SCHED_IDLE tasks, to which @p would not belong? */
static bool steer_cpu_gives_way(struct task_struct *p, int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	unsigned int nr_idle_policy;

	if (task_has_idle_policy(p))
		return false;
	nr_idle_policy = steer_cfs_nr_idle(&rq->cfs);
	return nr_idle_policy && READ_ONCE(rq->nr_running) == nr_idle_policy;
}

/* Would @p run at once on this allowed CPU? */
static __always_inline bool steer_cpu_idle(struct task_struct *p, int cpu)
{
	return steer_available_idle_cpu(cpu) || steer_cpu_gives_way(p, cpu);
}

/*
 * The same, for one that looks for a CPU. If CPU is left idle for @p, one to which another
 * such task is on its way will be busy when @p comes there.
 */
static __always_inline bool steer_cpu_open(struct task_struct *p, int cpu)
{
	return steer_cpu_idle(p, cpu) &&
	       !(steer_headroom_protects(p) && steer_headroom_claimed(cpu));
}

/* cpus_share_cache() without a call. */
static __always_inline bool steer_same_llc(int a, int b)
{
	return per_cpu(sd_llc_id, a) == per_cpu(sd_llc_id, b);
}

/* The same of the CPU that runs this. */
static __always_inline bool steer_in_this_llc(int cpu)
{
	return __this_cpu_read(sd_llc_id) == per_cpu(sd_llc_id, cpu);
}

/* For which group does what runs give way to @p? To whoever preempts nobody, it does not. */
static const struct task_group *steer_held_back(struct task_struct *p)
{
	if (p->policy != SCHED_NORMAL || (steer_hint(p) & STEER_PREEMPT))
		return NULL;
	return steer_headroom_group(p);
}

/* Was it found full for tasks of @group in the last @period? */
static bool steer_stamped(const struct steer_stamp *stamps, const struct task_group *group,
			  unsigned long period)
{
	const struct steer_stamp *stamp = &stamps[!!group];

	return READ_ONCE(stamp->group) == group && jiffies - READ_ONCE(stamp->when) < period;
}

static void steer_stamp(struct steer_stamp *stamps, const struct task_group *group)
{
	struct steer_stamp *stamp = &stamps[!!group];

	WRITE_ONCE(stamp->group, group);
	WRITE_ONCE(stamp->when, jiffies);
}

/*
 * Do @p and its waker take turns? The waker is about to sleep, and was the last
 * task that @p woke. In one LLC they pass lines of a cache that they share; held
 * in two, each turn waits for lines of the other, and for as long as they live. Of
 * a waker that may run on one CPU only, nobody remembers that it was woken.
 */
static __always_inline bool steer_takes_turns(struct task_struct *p, bool sync)
{
	return sync && READ_ONCE(p->last_wakee) == current;
}

/**
 * steer_siblings_idle - are the other threads of a core idle?
 * @cpu: a thread of the core, which is not asked about itself
 *
 * Return: true if they are, or if there are none.
 */
bool steer_siblings_idle(int cpu)
{
	int sibling;

	for_each_cpu(sibling, steer_core_mask(cpu)) {
		if (sibling != cpu && !steer_available_idle_cpu(sibling))
			return false;
	}
	return true;
}

/* The LLC of @cpu within its scheduling domains; just @cpu if it has none. */
const struct cpumask *steer_llc(int cpu)
{
	struct sched_domain *sd = rcu_dereference(per_cpu(sd_llc, cpu));

	return sd ? sched_domain_span(sd) : cpumask_of(cpu);
}

/* The same of the CPU that runs this. */
static __always_inline const struct cpumask *steer_this_llc(void)
{
	struct sched_domain *sd = rcu_dereference(*this_cpu_ptr(&sd_llc));

	return sd ? sched_domain_span(sd) : cpumask_of(smp_processor_id());
}

/* Could a new @p begin to run on @cpu at once? */
bool steer_takes(struct task_struct *p, int cpu)
{
	return steer_cpu_allowed(p, cpu) && steer_cpu_idle(p, cpu);
}

/*
 * Look through @span, from @from on, for an idle CPU: the first of an idle core,
 * else the first thread. CPUs in @done were seen before. Each CPU that is looked
 * at uses up one of *@budget.
 */
static int steer_scan(struct task_struct *p, const struct cpumask *span,
		      int from, const struct cpumask *done, int *budget)
{
	int cpu, thread = -1;

	for_each_cpu_wrap(cpu, span, from) {
		if (done && cpumask_test_cpu(cpu, done))
			continue;
		if (!steer_cpu_allowed(p, cpu))
			continue;
		if ((*budget)-- <= 0)
			break;
		if (!steer_cpu_open(p, cpu))
			continue;
		if (steer_siblings_idle(cpu))
			return cpu;
		if (thread < 0)
			thread = cpu;
	}
	return thread;
}

static bool steer_try(struct task_struct *p, const struct cpumask *span, int cpu)
{
	return cpumask_test_cpu(cpu, span) && steer_cpu_allowed(p, cpu) &&
	       steer_cpu_open(p, cpu);
}

/*
 * An idle CPU of the LLC of @target: where @p ran last, the target itself, or
 * what a search brings.
 */
static int steer_idle_in_llc(struct task_struct *p, int target, int prev_cpu)
{
	const struct cpumask *span = steer_llc(target);
	int budget = INT_MAX;

	if (steer_try(p, span, prev_cpu))
		return prev_cpu;
	if (steer_try(p, span, target))
		return target;
	return steer_scan(p, span, target, NULL, &budget);
}

/* A CPU of the LLC that runs what is held back for @p; where @p ran last comes first. */
static int steer_kept_in_llc(struct task_struct *p, int target, int prev_cpu)
{
	const struct cpumask *span = steer_llc(target);
	int cpu;

	for_each_cpu_wrap(cpu, span, cpumask_test_cpu(prev_cpu, span) ? prev_cpu : target) {
		if (steer_cpu_allowed(p, cpu) && steer_headroom_gives_way(p, cpu) &&
		    !steer_headroom_claimed(cpu))
			return cpu;
	}
	return -1;
}

/* Could @p, of a group with a headroom, run on @cpu at once? */
static bool steer_cpu_free(struct task_struct *p, int cpu)
{
	return steer_cpu_allowed(p, cpu) &&
	       (steer_cpu_idle(p, cpu) || steer_headroom_gives_way(p, cpu)) &&
	       !steer_headroom_claimed(cpu);
}

/*
 * Where cores have several threads, what gives way to @p leaves it the whole core. So @p
 * stays where it ran last if it can run there at once, else goes to a core of the LLC that
 * is free.
 */
static int steer_core_in_llc(struct task_struct *p, int target, int prev_cpu)
{
	int cpu, thread;

	if (!sched_smt_active())
		return -1;
	if (steer_same_llc(target, prev_cpu) && steer_cpu_free(p, prev_cpu))
		return prev_cpu;
	for_each_cpu_wrap(cpu, steer_llc(target), target) {
		if (!steer_cpu_free(p, cpu))
			continue;
		for_each_cpu(thread, steer_core_mask(cpu)) {
			if (thread == cpu)
				continue;
			if (steer_headroom_claimed(thread) ||
			    (!steer_available_idle_cpu(thread) &&
			     !steer_headroom_gives_way(p, thread)))
				break;
		}
		if (thread >= nr_cpu_ids)
			return cpu;
	}
	return -1;
}

/*
 * As steer_idle_in_llc(). But to a task of a group with a headroom, a CPU that runs what is
 * held back for it is as good as an idle one, and with SMT better than one beside which
 * another task of the group runs.
 */
static int steer_room_in_llc(struct task_struct *p, int target, int prev_cpu)
{
	int cpu;

	if (!steer_headroom_protects(p))
		return steer_idle_in_llc(p, target, prev_cpu);
	cpu = steer_core_in_llc(p, target, prev_cpu);
	if (cpu < 0)
		cpu = steer_idle_in_llc(p, target, prev_cpu);
	return cpu >= 0 ? cpu : steer_kept_in_llc(p, target, prev_cpu);
}

/*
 * Does @p's group have tasks on half of the CPUs of the LLC itself? Where that is a single
 * CPU, they share nothing there.
 */
static bool steer_llc_is_own(struct task_struct *p, int cpu)
{
	const struct cpumask *span = steer_llc(cpu);
	unsigned int own = steer_headroom_present(p, span);

	return own > 1 && own * 2 >= cpumask_weight(span);
}

/*
 * Is there room for one more task in the LLC of @cpu? An idle CPU is not enough:
 * where tasks sleep often but not for long, there is always one, until all of
 * them are awake and crowd the cores. While half of the CPUs are idle, each task
 * of the other half can have a core of its own.
 */
static bool steer_llc_has_room(struct task_struct *p, int cpu)
{
	const struct cpumask *span = steer_llc(cpu);
	int other, idle = 0, half = DIV_ROUND_UP(cpumask_weight(span), 2);

	for_each_cpu(other, span) {
		idle += steer_cpu_idle(p, other) || steer_headroom_gives_way(p, other);
		if (idle >= half)
			return true;
	}
	return false;
}

/*
 * May a hint draw @p into the LLC of @cpu? One that was crowded stays closed for
 * a while. Otherwise tasks that do not all fit would take turns, and each one's
 * move costs more than the place is worth: its stack, its data, another node.
 */
static bool steer_llc_draws(struct task_struct *p, int cpu)
{
	struct steer_stamp *crowded = per_cpu(steer_crowded, per_cpu(sd_llc_id, cpu));
	const struct task_group *group = steer_held_back(p);

	if (steer_stamped(crowded, group, STEER_CROWDED))
		return false;
	if (steer_llc_has_room(p, cpu))
		return true;
	steer_stamp(crowded, group);
	return false;
}

/*
 * The nearest idle CPU outside the LLC of @target, of those in its domains. The
 * one where @p ran last comes first, however far it is.
 */
static int steer_idle_beyond(struct task_struct *p, int target, int prev_cpu,
			     u32 hint)
{
	int budget = hint & STEER_SCAN_FULL ? INT_MAX : STEER_REACH_CPUS;
	const struct cpumask *done = steer_llc(target);
	struct sched_domain *sd, *top = NULL;
	int cpu = -1;

	for (sd = rcu_dereference(cpu_rq(target)->sd); sd;
	     sd = rcu_dereference(sd->parent))
		top = sd;
	if (!top)
		return -1;
	if (steer_try(p, sched_domain_span(top), prev_cpu))
		return prev_cpu;

	for (sd = rcu_dereference(cpu_rq(target)->sd); sd;
	     sd = rcu_dereference(sd->parent)) {
		if (cpumask_subset(sched_domain_span(sd), done))
			continue;
		cpu = steer_scan(p, sched_domain_span(sd), target, done, &budget);
		if (cpu >= 0 || budget <= 0)
			break;
		done = sched_domain_span(sd);
	}
	return cpu;
}

/*
 * The same, but where there was none, none is looked for until the next jiffy: on a full
 * machine, to look at all CPUs is a tenth of what a message takes.
 */
static int steer_look_beyond(struct task_struct *p, int target, int prev_cpu, u32 hint)
{
	struct steer_stamp *full = *this_cpu_ptr(&steer_full);
	const struct task_group *group = steer_held_back(p);
	int cpu;

	if (steer_stamped(full, group, 1))
		return -1;
	cpu = steer_idle_beyond(p, target, prev_cpu, hint);
	if (cpu < 0)
		steer_stamp(full, group);
	return cpu;
}

/**
 * struct steer_llc_load - a CPU's view of one LLC
 * @stamp: when it was taken, by the CPU's scheduler clock [ns]
 * @llc: id of the LLC, plus one
 * @room: CPUs, less runnable tasks that do not give way
 * @group: for tasks of this group with a headroom, or NULL; only to be compared
 * @allowed: for tasks that may use these CPUs
 */
struct steer_llc_load {
	u64			stamp;
	int			llc;
	int			room;
	const struct task_group	*group;
	struct cpumask		allowed;
};

/* The second is for tasks with a headroom. */
static DEFINE_PER_CPU(struct steer_llc_load [2], steer_llc_load);

/* Do two masks agree about the CPUs of @span? */
static bool steer_masks_agree(const struct cpumask *span, const struct cpumask *a,
			      const struct cpumask *b)
{
	int cpu;

	for_each_cpu(cpu, span) {
		if (cpumask_test_cpu(cpu, a) != cpumask_test_cpu(cpu, b))
			return false;
	}
	return true;
}

/*
 * How many CPUs of the LLC that @p may use are left if each runnable task has one? Tasks
 * of all classes count, but for SCHED_IDLE ones and those held back for @p, which
 * give way. Reading the runqueues of an LLC for every task that a balance pass looks
 * at would be too much with a remote rq lock held; tasks of one group mostly have
 * one mask. But what was so a jiffy ago need not be so: with 128 workers on 32 CPUs, a
 * jiffy is three times what the worst hundredth of them wait.
 */
static int steer_llc_room(struct task_struct *p, int in_llc)
{
	struct task_group *group = steer_headroom_group(p);
	struct steer_llc_load *load = &(*this_cpu_ptr(&steer_llc_load))[!!group];
	const struct cpumask *span = steer_llc(in_llc);
	int llc = per_cpu(sd_llc_id, in_llc) + 1;
	u64 fresh = STEER_VIEW_NS * cpumask_weight(span);
	u64 now = local_clock();
	int cpu, room = 0;

	if (load->llc == llc && load->group == group &&
	    now - load->stamp < fresh &&
	    steer_masks_agree(span, &load->allowed, p->cpus_ptr))
		return load->room;

	for_each_cpu_and(cpu, span, p->cpus_ptr)
		room += 1 - (group ? steer_headroom_wanting(group, cpu) :
			     max(steer_nr_wanting(cpu_rq(cpu)), 0));

	load->stamp = now;
	load->llc = llc;
	load->group = group;
	load->room = room;
	cpumask_copy(&load->allowed, p->cpus_ptr);
	return room;
}

/* Has the LLC more runnable tasks than CPUs? */
static bool steer_llc_overloaded(struct task_struct *p, int in_llc)
{
	return steer_llc_room(p, in_llc) < 0;
}

/* More than two for each of them? */
static bool steer_llc_overfull(struct task_struct *p, int in_llc)
{
	int cpus = cpumask_weight_and(steer_llc(in_llc), p->cpus_ptr);

	return steer_llc_room(p, in_llc) < -cpus;
}

/*
 * The nearest CPU that is idle or gives way to @p, outside of the LLC of @target, which is full
 * of @p's own group: if more than two of that want each CPU. With nobody else on the
 * machine, the other LLCs would be idle then, and a CPU that is about to be idle takes tasks
 * that wait at once. One that runs what gives way does not look for any: a service that
 * wake_affine had brought into one LLC before the others had room for it could take 0.3 s to
 * leave it, with requests that waited for 0.1 s. Where there was none, none is looked for, as
 * in steer_look_beyond().
 */
static int steer_leave_llc(struct task_struct *p, int target)
{
	struct steer_stamp *full = *this_cpu_ptr(&steer_full);
	const struct task_group *group = steer_held_back(p);
	const struct cpumask *done = steer_llc(target);
	struct sched_domain *sd;
	int cpu;

	if (!group || steer_stamped(full, group, 1) || !steer_llc_overfull(p, target))
		return -1;
	for (sd = rcu_dereference(cpu_rq(target)->sd); sd; sd = rcu_dereference(sd->parent)) {
		for_each_cpu_wrap(cpu, sched_domain_span(sd), target) {
			if (!cpumask_test_cpu(cpu, done) && steer_cpu_free(p, cpu))
				return cpu;
		}
		if (!cpumask_subset(sched_domain_span(sd), done))
			done = sched_domain_span(sd);
	}
	steer_stamp(full, group);
	return -1;
}

/* Had the LLC too many tasks for @p not long ago? Without a look at its runqueues. */
static bool steer_llc_was_overloaded(struct task_struct *p, int cpu)
{
	return steer_stamped(per_cpu(steer_overloaded, per_cpu(sd_llc_id, cpu)),
			     steer_headroom_group(p), STEER_OVERLOADED) &&
	       cpumask_subset(steer_llc(cpu), p->cpus_ptr);
}

/*
 * May @p leave the LLC of @cpu, where a wake hint would hold it? Where there are too many
 * tasks that sleep now and then, there is an idle CPU in the LLC at times, but somebody else
 * wakes up there before those who wait are moved to it. When an LLC had room for the
 * balancer as soon as that was so, one task in three was held that waited while four wanted
 * each CPU, and the worst hundredth waited a twentieth to a tenth longer than without a hint.
 */
static bool steer_llc_lets_go(struct task_struct *p, int cpu)
{
	if (steer_llc_was_overloaded(p, cpu))
		return true;
	if (!steer_llc_overloaded(p, cpu))
		return false;
	/* For one that may use a part of it, there is other room than for others. */
	if (cpumask_subset(steer_llc(cpu), p->cpus_ptr))
		steer_stamp(per_cpu(steer_overloaded, per_cpu(sd_llc_id, cpu)),
			    steer_headroom_group(p));
	return true;
}

/*
 * Does wake_hold leave it to the default path, which chose @target? What waits in an
 * overloaded LLC gets its idle CPUs first. With 16 groups of hackbench on 32 CPUs, messages
 * took a tenth longer when tasks were held there. A previous CPU that is idle is not worth
 * a look at the others, here as in steer_wake_quick().
 */
static bool steer_hold_ends(struct task_struct *p, int prev_cpu, int target)
{
	if (steer_same_llc(prev_cpu, target))
		return false;
	return steer_llc_was_overloaded(p, prev_cpu) ||
	       (!steer_cpu_idle(p, prev_cpu) && steer_llc_lets_go(p, prev_cpu));
}

/* Room in the LLC that a wake hint chose. */
static int steer_hinted_llc(struct task_struct *p, u32 hint, int pointed, int target,
			    int prev_cpu)
{
	if ((hint & STEER_WAKE_AFFINE) && !steer_llc_draws(p, pointed))
		return -1;
	if ((hint & STEER_WAKE_HOLD) && steer_hold_ends(p, prev_cpu, target))
		return -1;
	return steer_room_in_llc(p, pointed, prev_cpu);
}

/*
 * A task that is both spread and held, and for which its LLC has no room: an idle CPU of its
 * node, where its memory is. The default path would go by its waker, into any node.
 */
static int steer_room_in_node(struct task_struct *p, int prev_cpu)
{
	const struct cpumask *node = NULL;
	int budget = STEER_REACH_CPUS;
	struct sched_domain *sd;

	for (sd = rcu_dereference(cpu_rq(prev_cpu)->sd); sd && !(sd->flags & SD_NUMA);
	     sd = rcu_dereference(sd->parent))
		node = sched_domain_span(sd);
	if (!node || steer_stamped(*this_cpu_ptr(&steer_full), steer_held_back(p), 1))
		return -1;
	return steer_scan(p, node, prev_cpu, steer_llc(prev_cpu), &budget);
}

/* Does the default path find an idle CPU without a search? */
static bool steer_finds_itself(struct task_struct *p, int target, int prev_cpu)
{
	return steer_cpu_idle(p, target) ||
	       (steer_same_llc(target, prev_cpu) && steer_cpu_idle(p, prev_cpu));
}

/*
 * Hints that draw tasks together can draw more of them into an LLC than it has
 * CPUs. The default path would keep them there, because it searches one LLC, and
 * the load balancer takes many ticks. So where the default path finds nothing
 * idle, such a task goes to the nearest idle CPU elsewhere. Not to one among those
 * that have too much to do, which is idle for a moment only. And where there was
 * none, none is looked for, as in steer_look_beyond(); not in the LLC either, but for what
 * gives way to a task with a headroom: that is looked for without a hint, too.
 */
static int steer_overflow(struct task_struct *p, int target, int prev_cpu)
{
	struct steer_stamp *full = *this_cpu_ptr(&steer_full);
	const struct task_group *group = steer_held_back(p);
	int cpu;

	if (steer_finds_itself(p, target, prev_cpu))
		return -1;
	if (steer_stamped(full, group, 1))
		return group ? steer_room_in_llc(p, target, prev_cpu) : -1;
	cpu = steer_room_in_llc(p, target, prev_cpu);
	/* See __steer_wake_protected(). */
	if (cpu < 0 && !steer_llc_is_own(p, target))
		cpu = steer_idle_beyond(p, target, prev_cpu, 0);
	else if (cpu < 0)
		cpu = steer_leave_llc(p, target);
	if (cpu >= 0 && steer_available_idle_cpu(cpu) && steer_llc_overloaded(p, cpu))
		cpu = -1;
	if (cpu < 0)
		steer_stamp(full, group);
	return cpu;
}

/* Do the hints gather tasks, and leave it to us what becomes of those without room? */
static __always_inline bool steer_gathers(u32 hint)
{
	return (hint & (STEER_WAKE | STEER_FORK_AFFINE)) &&
	       !(hint & (STEER_REACH | STEER_SCAN_NONE));
}

/*
 * Do they send @p elsewhere? A waker that is about to sleep leaves room. Those who
 * pass messages that way need no other CPU, and apart they wake up a sleeping one
 * for each. But two pairs on one CPU wait for each other: where somebody else wants
 * the waker's, @p leaves, and its partner joins it with the next turn.
 */
static __always_inline bool steer_overflows(struct task_struct *p, u32 hint, bool sync)
{
	return steer_gathers(hint) &&
	       (!sync || (steer_takes_turns(p, sync) && steer_nr_wanting(this_rq()) > 1));
}

/*
 * Is there room for @p behind what this busy CPU does? Utilisation left free,
 * or 0. What @p itself left behind on its last CPU is not taken off: it decays
 * there, while the average of @p is as old as its sleep is long.
 */
static unsigned long steer_room(struct task_struct *p, int cpu)
{
	unsigned long util = cpu_util_cfs(cpu) + steer_task_util(p);
	struct rq *rq = cpu_rq(cpu);
	unsigned long limit = rq->cpu_capacity * 4 / 5;

	if (READ_ONCE(rq->nr_running) > 1)
		return 0;
	return util < limit ? limit - util : 0;
}

/*
 * A CPU of @span that is awake: an idle thread beside a busy one, else, unless
 * @idle_only, the busy CPU that @p fills up best. Only CPUs that are in @llc as
 * well are looked at: a core can have threads that are isolated.
 */
static int steer_pack_span(struct task_struct *p, const struct cpumask *span,
			   const struct cpumask *llc, int from, bool idle_only)
{
	unsigned long least = ULONG_MAX;
	int cpu, busy = -1;

	for_each_cpu_wrap(cpu, span, from) {
		unsigned long room;

		if (!cpumask_test_cpu(cpu, llc) || !steer_cpu_allowed(p, cpu))
			continue;
		if (steer_available_idle_cpu(cpu)) {
			/* Is its core awake? */
			if (sched_smt_active() && !steer_siblings_idle(cpu))
				return cpu;
			continue;
		}
		if (steer_cpu_gives_way(p, cpu))
			return cpu;
		if (idle_only)
			continue;
		room = steer_room(p, cpu);
		if (room && room < least) {
			least = room;
			busy = cpu;
		}
	}
	return busy;
}

static bool steer_llc_has_idle_core(struct task_struct *p, int cpu, int first)
{
	int budget = INT_MAX;
	int found = steer_scan(p, steer_llc(cpu), first, NULL, &budget);

	return found >= 0 && steer_siblings_idle(found);
}

/*
 * May @p have the CPU of the waker that it takes turns with? Not if both together
 * were runnable for more than one CPU can run. Words other than pack do not ask for
 * half of a core, and where an idle CPU can be had without a search, those that search
 * take it, as steer_wake_quick() does.
 */
static bool steer_turns_here(struct task_struct *p, int prev_cpu, u32 hint, bool sync)
{
	bool searches = hint & (STEER_SCAN_FULL | STEER_REACH);
	bool packs = hint & STEER_PACK;
	int cpu = smp_processor_id();

	if (!packs && !steer_gathers(hint) && !searches)
		return false;
	if (!steer_takes_turns(p, sync) || steer_nr_wanting(this_rq()) > 1 ||
	    !steer_cpu_allowed(p, cpu) ||
	    READ_ONCE(p->se.avg.runnable_avg) +
	    READ_ONCE(current->se.avg.runnable_avg) > STEER_TURNS_MOST)
		return false;
	if (packs)
		return true;
	if (searches && steer_try(p, steer_llc(cpu), prev_cpu))
		return false;
	return !steer_llc_has_idle_core(p, cpu, prev_cpu);
}

/* As steer_look_beyond(): a full LLC is not looked through at each wakeup. */
static __always_inline bool steer_was_unpacked(void)
{
	return !(jiffies - this_cpu_read(steer_unpacked));
}

static int steer_pack_llc(struct task_struct *p, const struct cpumask *llc, int target)
{
	int cpu;

	if (steer_was_unpacked())
		return -1;
	cpu = steer_pack_span(p, llc, llc, target, false);
	if (cpu < 0)
		this_cpu_write(steer_unpacked, jiffies);
	return cpu;
}

static int steer_pack(struct task_struct *p, int target, int prev_cpu,
		      bool no_search)
{
	const struct cpumask *llc = steer_llc(target);
	int cpu;

	if (!no_search)
		return steer_pack_llc(p, llc, target);

	cpu = steer_pack_span(p, steer_core_mask(target), llc, target, false);
	if (cpu < 0 && cpumask_test_cpu(prev_cpu, llc) &&
	    !cpumask_test_cpu(prev_cpu, steer_core_mask(target)))
		cpu = steer_pack_span(p, steer_core_mask(prev_cpu), llc, prev_cpu,
				      false);
	return cpu;
}

/* Without a search: the previous CPU or the target, whichever has less to do. */
static int steer_unsearched(struct task_struct *p, int target, int prev_cpu)
{
	bool prev_allowed = steer_cpu_allowed(p, prev_cpu);

	if (!steer_cpu_allowed(p, target))
		return prev_allowed ? prev_cpu : -1;
	if (!prev_allowed)
		return target;

	if (steer_cpu_idle(p, prev_cpu))
		return prev_cpu;
	if (steer_cpu_idle(p, target))
		return target;
	return READ_ONCE(cpu_rq(target)->nr_running) <
	       READ_ONCE(cpu_rq(prev_cpu)->nr_running) ? target : prev_cpu;
}

/* Does nobody whose LLC would tell anything wake up @p: an interrupt, or the idle task? */
static __always_inline bool steer_no_waker(void)
{
	return in_hardirq() || is_idle_task(current);
}

/* May @p use some CPU of @span? cpumask_intersects() without a call. */
static __always_inline bool steer_span_allowed(struct task_struct *p, const struct cpumask *span)
{
	const unsigned long *cpus = cpumask_bits(span), *allowed = cpumask_bits(p->cpus_ptr);
	unsigned int first = 0;

	do {
		if (*cpus++ & *allowed++)
			return true;
		first += BITS_PER_LONG;
	} while (first < nr_cpu_ids);
	return false;
}

/* Where the wake hint points; @verdict tells whether it has anything to say. */
static int steer_wake_target(struct task_struct *p, u32 hint, int waker_cpu,
			     int prev_cpu, int target, bool sync, int *verdict)
{
	int cpu = hint & STEER_WAKE_AFFINE ? waker_cpu : prev_cpu;

	*verdict = STEER_V_UNASKED;
	if (!(hint & STEER_WAKE))
		return target;

	if (steer_same_llc(waker_cpu, prev_cpu))
		*verdict = STEER_V_SAME_LLC;
	else if ((hint & STEER_WAKE_HOLD) && steer_takes_turns(p, sync))
		*verdict = STEER_V_TURNS;
	else if (!steer_span_allowed(p, steer_llc(cpu)))
		*verdict = STEER_V_AFFINITY;
	else if ((hint & STEER_WAKE_AFFINE) && steer_no_waker())
		*verdict = STEER_V_IRQ;
	else
		return cpu;
	return target;
}

static void steer_count_verdict(struct task_struct *p, int verdict,
				enum steer_counter followed,
				enum steer_counter full)
{
	if (verdict == STEER_V_FOLLOWED)
		steer_count(p, followed);
	else if (verdict == STEER_V_FULL)
		steer_count(p, full);
}

static void steer_wake_account(struct task_struct *p, u32 hint, int wake,
			       int reach, int scan, int pack)
{
	switch (wake) {
	case STEER_V_SAME_LLC:
		steer_count(p, STEER_NR_WAKE_SAME_LLC);
		break;
	case STEER_V_AFFINITY:
		steer_count(p, STEER_NR_WAKE_AFFINITY);
		break;
	case STEER_V_IRQ:
		steer_count(p, STEER_NR_WAKE_IRQ);
		break;
	case STEER_V_TURNS:
		steer_count(p, STEER_NR_WAKE_TURNS);
		break;
	case STEER_V_UNASKED:
		break;
	default:
		steer_count_verdict(p, wake, STEER_NR_WAKE_FOLLOWED,
				    STEER_NR_WAKE_FULL);
	}
	if (reach != STEER_V_UNASKED)
		steer_count_verdict(p, reach, STEER_NR_REACH_FOLLOWED,
				    STEER_NR_REACH_FULL);
	if (scan != STEER_V_UNASKED)
		steer_count_verdict(p, scan, STEER_NR_SCAN_FOLLOWED,
				    STEER_NR_SCAN_FULL);
	if (pack != STEER_V_UNASKED)
		steer_count_verdict(p, pack, STEER_NR_PACK_FOLLOWED,
				    STEER_NR_PACK_FULL);
}

/* Words that have no say at a wakeup, but a reason for having had no effect. */
static __always_inline void steer_account_inert(struct task_struct *p, u32 hint)
{
	if ((hint & STEER_SLICE) && p->se.custom_slice)
		steer_count(p, STEER_NR_SLICE_CUSTOM);
	if ((hint & STEER_ENERGY) && !sched_energy_enabled())
		steer_count(p, STEER_NR_ENERGY_UNAVAILABLE);
}

static int steer_verdict_of(int cpu)
{
	return cpu >= 0 ? STEER_V_FOLLOWED : STEER_V_FULL;
}

/* The wakeup of a task whose group has words with a say in it, all cases. */
static noinline int steer_wake_search(struct task_struct *p, int prev_cpu,
				      int target, bool sync, u32 hint)
{
	int wake, reach = STEER_V_UNASKED, scan = STEER_V_UNASKED;
	int pack = STEER_V_UNASKED, pointed, found = -1;
	int waker_cpu = smp_processor_id();
	bool searched = false, no_search, turns;

	/* wake_wide does not queue before it has searched. */
	no_search = (hint & STEER_SCAN_NONE) && !(hint & STEER_REACH);

	pointed = steer_wake_target(p, hint, waker_cpu, prev_cpu, target, sync, &wake);
	turns = steer_turns_here(p, prev_cpu, hint, sync);
	if (turns) {
		found = waker_cpu;
		if (hint & STEER_PACK)
			pack = STEER_V_FOLLOWED;
		else
			steer_count(p, STEER_NR_TURNS_FOLLOWED);
	}
	if ((hint & STEER_WAKE) && wake == STEER_V_UNASKED) {
		/* There is an LLC to choose, and the hint chose it. */
		if (found < 0 && (hint & STEER_PACK)) {
			found = steer_pack_span(p, steer_llc(pointed),
						steer_llc(pointed), pointed, true);
			pack = steer_verdict_of(found);
		}
		if (found < 0)
			found = steer_hinted_llc(p, hint, pointed, target, prev_cpu);
		wake = steer_verdict_of(found);
		/* Where wake_affine did not draw, nobody looked for what gives way. */
		searched = steer_same_llc(pointed, target) && !steer_headroom_protects(p);
	}

	/* Without an LLC from the hint, the other words apply to the default. */
	if (found < 0 && (hint & STEER_PACK)) {
		found = steer_pack(p, target, prev_cpu, no_search);
		pack = steer_verdict_of(found);
	}
	if (found < 0 && (hint & (STEER_SCAN_FULL | STEER_REACH)) && !searched)
		found = steer_room_in_llc(p, target, prev_cpu);
	if ((hint & STEER_SCAN_FULL) && !turns)
		scan = steer_verdict_of(found);
	if (found < 0 && (hint & STEER_REACH)) {
		found = steer_look_beyond(p, pointed, prev_cpu, hint);
		reach = steer_verdict_of(found);
	}
	if (found < 0 && steer_overflows(p, hint, sync)) {
		if ((hint & STEER_FORK_SPREAD) && wake == STEER_V_FULL)
			found = steer_room_in_node(p, prev_cpu);
		if (found < 0)
			found = steer_overflow(p, target, prev_cpu);
	}
	if (no_search) {
		if (found < 0)
			found = steer_unsearched(p, target, prev_cpu);
		scan = steer_verdict_of(found);
	}

	steer_wake_account(p, hint, wake, reach, scan, pack);
	trace_steer_wake(p, hint, waker_cpu, prev_cpu, target, found, wake, reach,
			 scan, pack);
	/* What select_idle_sibling() would have remembered. */
	if (found >= 0)
		p->recent_used_cpu = prev_cpu;
	return found;
}

/*
 * Words that have no LLC to choose and no search to widen: do they leave it to the default path
 * for certain, which finds no idle CPU at once? A waker that is about to sleep leaves room, and
 * if it takes turns with @p, a core that is idle keeps the two apart: see steer_turns_here().
 */
static __always_inline bool steer_stays_default(struct task_struct *p, int prev_cpu, u32 hint,
						bool sync)
{
	if (steer_overflows(p, hint, sync))
		return false;
	return !steer_takes_turns(p, sync) ||
	       (steer_try(p, steer_this_llc(), prev_cpu) &&
		steer_siblings_idle(prev_cpu));
}

/*
 * What steer_wake_search() decides in most wakeups: that @p goes back to where
 * it ran last, which is idle, or that the default path finds an idle CPU without
 * help. Returns false where it takes more to tell.
 */
static __always_inline bool steer_wake_quick(struct task_struct *p, int prev_cpu,
					     int target, bool sync, u32 hint,
					     int *found)
{
	enum steer_counter wake = STEER_NR_WAKE_SAME_LLC;
	bool elsewhere = (hint & STEER_WAKE) && !steer_in_this_llc(prev_cpu);

	if (elsewhere && steer_takes_turns(p, sync))
		return false;
	if (elsewhere && (hint & STEER_WAKE_AFFINE)) {
		if (steer_span_allowed(p, steer_this_llc()))
			return false;
		/* There is no LLC to choose. */
		elsewhere = false;
		wake = STEER_NR_WAKE_AFFINITY;
	} else if (elsewhere) {
		if (!steer_same_llc(prev_cpu, target) && steer_llc_was_overloaded(p, prev_cpu))
			return false;
		wake = STEER_NR_WAKE_FOLLOWED;
	}

	if (!elsewhere && !(hint & (STEER_SCAN | STEER_REACH))) {
		if (!steer_cpu_idle(p, target) && !steer_stays_default(p, prev_cpu, hint, sync))
			return false;
		*found = -1;
	} else {
		/* wake_wide does not queue before it has searched. */
		bool no_search = (hint & STEER_SCAN_NONE) && !(hint & STEER_REACH);

		if (!elsewhere && !no_search && !steer_same_llc(target, prev_cpu))
			return false;
		if (!steer_cpu_allowed(p, prev_cpu) || !steer_cpu_open(p, prev_cpu))
			return false;
		*found = prev_cpu;
		p->recent_used_cpu = prev_cpu;
		if (no_search || (hint & STEER_SCAN_FULL))
			steer_count(p, STEER_NR_SCAN_FOLLOWED);
	}
	if (hint & STEER_WAKE)
		steer_count(p, wake);
	return true;
}

/* Is all of the core asleep? */
static bool steer_core_asleep(int cpu)
{
	return steer_available_idle_cpu(cpu) && steer_siblings_idle(cpu);
}

/*
 * Does pack find no place for @p? The LLC was looked through in vain in this jiffy, or without
 * a search, there is nothing on the cores that it looks at.
 */
static __always_inline bool steer_packs_nowhere(struct task_struct *p, int prev_cpu, int target,
						u32 hint, bool sync)
{
	if (steer_takes_turns(p, sync))
		return false;
	if ((hint & STEER_WAKE) && !steer_in_this_llc(prev_cpu))
		return false;
	if (!(hint & STEER_SCAN_NONE) || (hint & STEER_REACH))
		return steer_was_unpacked();
	return steer_core_asleep(target) &&
	       (prev_cpu == target || steer_core_asleep(prev_cpu));
}

/* Let the default path stack the completion of I/O on a kworker's CPU. */
static __always_inline bool steer_wake_completes(int prev_cpu)
{
	return is_per_cpu_kthread(current) && in_task() &&
	       prev_cpu == smp_processor_id() && this_rq()->nr_running <= 1;
}

/*
 * The group has a cpu.headroom, and no hint that decided: CPUs are kept for it, whether
 * they are idle or not. Beyond the LLC it looks only if others fill it: where its own
 * tasks do, one that left would move what it shares with them, and come back to a full LLC.
 * But where they wait two deep, it is better off elsewhere: see steer_leave_llc().
 */
int __steer_wake_protected(struct task_struct *p, int prev_cpu, int target, bool sync)
{
	u32 hint = steer_hint(p);
	int cpu;

	lockdep_assert_held(&p->pi_lock);

	/*
	 * Its hint has looked there, and beyond it, if not in vain in this jiffy; or it saw
	 * that the default path finds the target idle.
	 */
	if ((hint & STEER_REACH) || steer_overflows(p, hint, sync)) {
		if (steer_cpu_open(p, target))
			steer_headroom_claim(target);
		return -1;
	}
	if (steer_wake_completes(prev_cpu))
		return -1;
	/* It takes the place of its waker, or turns with it. */
	if ((sync && target == smp_processor_id() && this_rq()->nr_running == 1) ||
	    steer_takes_turns(p, sync))
		return -1;
	/* The default path takes it. With SMT, it may be worth less than where @p ran last. */
	if (!sched_smt_active() && steer_cpu_open(p, target)) {
		steer_headroom_claim(target);
		return -1;
	}
	cpu = steer_room_in_llc(p, target, prev_cpu);
	if (cpu < 0)
		cpu = steer_llc_is_own(p, target) ? steer_leave_llc(p, target) :
		      steer_idle_beyond(p, target, prev_cpu, 0);
	if (cpu >= 0)
		steer_headroom_claim(cpu);
	return cpu;
}

/*
 * A wakeup as the words ask. With pack (@packs), where that finds nothing, the rest is decided as
 * without it. Inlined twice: what most wakeups take is short, and looks at no word in vain.
 */
static __always_inline int steer_wake_as_asked(struct task_struct *p, int prev_cpu, int target,
					       bool sync, u32 hint, const bool packs)
{
	int found;

	lockdep_assert_held(&p->pi_lock);

	if (hint & (STEER_SLICE | STEER_ENERGY))
		steer_account_inert(p, hint);
	if (!(hint & STEER_AT_WAKEUP) || steer_wake_completes(prev_cpu))
		return -1;

	/* A trace has the verdict on each word, which is more than is needed here. */
	if (trace_steer_wake_enabled() ||
	    (packs && !steer_packs_nowhere(p, prev_cpu, target, hint, sync)) ||
	    !steer_wake_quick(p, prev_cpu, target, sync, hint, &found))
		found = steer_wake_search(p, prev_cpu, target, sync, hint);
	else if (packs)
		steer_count(p, STEER_NR_PACK_FULL);
	if (found >= 0 && steer_headroom_protects(p))
		steer_headroom_claim(found);
	return found;
}

int __steer_wake_cpu(struct task_struct *p, int prev_cpu, int target, bool sync,
		     u32 hint)
{
	return steer_wake_as_asked(p, prev_cpu, target, sync, hint, false);
}

int __steer_wake_packed(struct task_struct *p, int prev_cpu, int target, bool sync,
			u32 hint)
{
	return steer_wake_as_asked(p, prev_cpu, target, sync, hint, true);
}

/*
 * fork_affine: an idle CPU of the parent's LLC, else one that gives way, if as many are
 * either there as a core has threads.
 */
static int steer_fork_affine(struct task_struct *p, int parent_cpu)
{
	const struct cpumask *span = steer_llc(parent_cpu);
	int cpu, room = 0, core = -1, thread = -1, kept = -1;

	for_each_cpu_wrap(cpu, span, parent_cpu) {
		if (!steer_cpu_allowed(p, cpu))
			continue;
		if (steer_cpu_idle(p, cpu)) {
			if (thread < 0)
				thread = cpu;
			if (core < 0 && steer_siblings_idle(cpu))
				core = cpu;
		} else if (steer_headroom_gives_way(p, cpu)) {
			if (kept < 0)
				kept = cpu;
		} else {
			continue;
		}
		room++;
	}
	if (room < cpumask_weight(steer_core_mask(parent_cpu)))
		return -1;
	if (thread < 0)
		return kept;
	return core >= 0 ? core : thread;
}

/* fork_spread: a CPU of an idle core, else an idle one, where fewest of its own group are. */
static int steer_fork_apart(struct task_struct *p, u32 hint, int parent_cpu, bool settled)
{
	int llc = steer_numa_fork_llc(p, hint, parent_cpu), budget = INT_MAX;

	if (llc < 0)
		return -1;
	if (settled && steer_same_llc(llc, parent_cpu))
		return parent_cpu;
	return steer_scan(p, steer_llc(llc), llc, NULL, &budget);
}

/* May @p run anywhere in the scheduling domains of @cpu but in its LLC? */
static bool steer_may_leave_llc(struct task_struct *p, int cpu)
{
	const struct cpumask *llc = steer_llc(cpu);
	int other;

	for_each_cpu_and(other, cpu_rq(cpu)->rd->span, p->cpus_ptr) {
		if (!cpumask_test_cpu(other, llc))
			return true;
	}
	return false;
}

int __steer_fork_cpu(struct task_struct *p, int parent_cpu)
{
	const struct cpumask *llc = steer_llc(parent_cpu);
	u32 hint = steer_hint(p);
	int verdict, found = -1;
	bool settled;

	lockdep_assert_held(&p->pi_lock);

	/* A fork word comes first. */
	if (!(hint & STEER_FORK) && steer_energy_asked(p)) {
		found = __steer_energy_fork(p, parent_cpu);
		if (found >= 0)
			return found;
	}
	if (!(hint & (STEER_FORK | STEER_PACK)))
		return -1;

	/* An exec'ing task that has its CPU to itself is where it should be. */
	settled = p == current && READ_ONCE(cpu_rq(parent_cpu)->nr_running) <= 1;

	if (!(hint & STEER_FORK)) {
		found = settled ? parent_cpu :
			steer_pack_span(p, llc, llc, parent_cpu, true);
		verdict = steer_verdict_of(found);
		steer_count_verdict(p, verdict, STEER_NR_PACK_FOLLOWED,
				    STEER_NR_PACK_FULL);
	} else {
		bool choice = hint & STEER_FORK_AFFINE ?
			cpumask_intersects(llc, p->cpus_ptr) :
			steer_may_leave_llc(p, parent_cpu);

		if (!choice) {
			verdict = STEER_V_AFFINITY;
			steer_count(p, STEER_NR_FORK_AFFINITY);
		} else if (hint & STEER_FORK_AFFINE) {
			found = settled ? parent_cpu :
				steer_fork_affine(p, parent_cpu);
			verdict = steer_verdict_of(found);
		} else {
			found = steer_fork_apart(p, hint, parent_cpu, settled);
			verdict = steer_verdict_of(found);
		}
		steer_count_verdict(p, verdict, STEER_NR_FORK_FOLLOWED,
				    STEER_NR_FORK_FULL);
	}

	trace_steer_fork(p, hint, parent_cpu, found, verdict);
	return found;
}

/*
 * fork_affine: a queued task stays in its node while its LLC has room for it, as those that
 * run do, see steer_numa.c. Between LLCs of a node it is balanced as any other.
 */
static bool steer_numa_hold(struct task_struct *p, u32 hint, int src_cpu, int dst_cpu,
			    struct sched_domain *sd)
{
	if (!(sd->flags & SD_NUMA) || sd->nr_balance_failed > sd->cache_nice_tries ||
	    READ_ONCE(cpu_rq(src_cpu)->misfit_task_load) || steer_llc_lets_go(p, src_cpu))
		return false;
	steer_count(p, STEER_NR_NUMA_TOGETHER);
	trace_steer_numa(p, hint, STEER_NUMA_QUEUED, src_cpu, dst_cpu);
	return true;
}

bool __steer_balance_hold(struct task_struct *p, int dst_cpu,
			  struct sched_domain *sd)
{
	int src_cpu = task_cpu(p);
	u32 hint = steer_hint(p);
	int verdict;

	lockdep_assert_rq_held(cpu_rq(src_cpu));

	if (sd->nr_balance_failed <= sd->cache_nice_tries && steer_energy_asked(p) &&
	    __steer_energy_hold(p, src_cpu, dst_cpu))
		return true;
	if (!(hint & (STEER_WAKE | STEER_FORK_AFFINE)) || steer_same_llc(src_cpu, dst_cpu))
		return false;
	if (!(hint & STEER_WAKE))
		return steer_numa_hold(p, hint, src_cpu, dst_cpu, sd);
	/* A task that does not fit its CPU has to get away from it. */
	if (READ_ONCE(cpu_rq(src_cpu)->misfit_task_load))
		return false;

	if (sd->nr_balance_failed > sd->cache_nice_tries) {
		verdict = STEER_V_GAVE_UP;
		steer_count(p, STEER_NR_BALANCE_GAVE_UP);
	} else if (steer_llc_lets_go(p, src_cpu)) {
		verdict = STEER_V_OVERLOADED;
		steer_count(p, STEER_NR_BALANCE_OVERLOADED);
	} else {
		verdict = STEER_V_FOLLOWED;
		steer_count(p, STEER_NR_BALANCE_HELD);
	}
	trace_steer_balance(p, hint, src_cpu, dst_cpu, verdict);
	return verdict == STEER_V_FOLLOWED;
}

/* Does this entity give way to its siblings? As se_is_idle() in fair.c. */
static bool steer_entity_idle(struct sched_entity *se)
{
	if (entity_is_task(se))
		return task_has_idle_policy(container_of(se, struct task_struct, se));
	return se->my_q->idle > 0;
}

/*
 * SCHED_IDLE and cpu.idle come first: what is idle beside @p is preempted. That
 * is decided between the two entities that share a queue, so look for them, as
 * find_matching_se() will.
 */
bool __steer_wake_yields(struct task_struct *p, struct task_struct *curr)
{
	struct sched_entity *se = &curr->se, *pse = &p->se;

	lockdep_assert_rq_held(task_rq(p));

	if (!(steer_hint(p) & STEER_PREEMPT) || (steer_hint(curr) & STEER_PREEMPT))
		return false;

	while (se->cfs_rq != pse->cfs_rq) {
		int deeper = se->depth - pse->depth;

		if (deeper >= 0)
			se = se->parent;
		if (deeper <= 0)
			pse = pse->parent;
	}
	if (steer_entity_idle(se) && !steer_entity_idle(pse))
		return false;

	steer_count(p, STEER_NR_PREEMPT_FOLLOWED);
	return true;
}
