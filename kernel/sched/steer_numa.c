// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.hint: how uneven nodes may be for the tasks of a group
 *
 * DOC: the allowed NUMA imbalance
 *
 * Between nodes, the scheduler leaves a small imbalance alone, so that a pair of tasks that
 * talk to each other is not pulled apart. How many tasks may run before that ends is one
 * number for the machine, sd->imb_numa_nr. What is right depends on the tasks: those that
 * need the bandwidth of every node want no imbalance at all, those that share data want all
 * that fits their LLC. The fork word of the group says which:
 *
 *	fork_spread	no imbalance is allowed
 *	fork_affine	any is, while the tasks fit the LLC
 *	neither		what the scheduler allows anyway
 *
 * Each path that asks about the allowance has the answer for the task in question, so that
 * none undoes what another one did:
 *
 *	fork and exec	fork_affine is decided in the LLC, see __steer_fork_cpu(). With
 *			fork_spread the task goes where fewest of its own group are, of nodes
 *			first and of LLCs then: see steer_numa_fork_llc().
 *	balance pass	It is about tasks of the busiest node, whoever they are. Where it
 *			allows an imbalance, a task to be spread is looked for, and then
 *			none but such are moved: see __steer_numa_uneven(). A runqueue whose
 *			task stays is not chosen: see __steer_numa_stays(). A task to be spread
 *			stays where no fewer of its group are in the other node.
 *	queued tasks	fork_affine keeps one that waits in its node while its LLC has room,
 *			as a wake hint keeps it in its LLC: see __steer_balance_hold().
 *	NUMA balancing	It moves a task to its memory if that leaves no imbalance, with
 *			fork_spread one of the own group: see __steer_to_nid().
 *
 * In a balance pass a task fits if it has its CPU to itself: where one
 * waits beside an idle CPU, the balance within the node will see to it. A task is taken for
 * what it says that runs; who waits behind it is looked at when it would be moved.
 *
 * By its own group, and not by idle CPUs alone: beside a group that gathers in one node, a
 * group that is spread would else fill the other nodes first.
 *
 * The cost, while some group has a hint: one look at the running task of each CPU of the
 * busiest node, at most twice, in a pass between nodes. The pass has read those runqueues
 * before. The rules are in steer_numa_rules.h.
 *
 * Locks and lifetime
 * ------------------
 * Balance passes run under RCU, which keeps the running tasks and their groups. An interrupt
 * may count in between, so counters are added to by this_cpu_inc().
 */
#include <linux/mmu_context.h>

#include "sched.h"
#include "steer.h"
#include "steer_compat.h"

#include <trace/events/steer.h>

static void steer_numa_account(struct task_struct *p, u32 hint, enum steer_numa_path path,
			       int src_cpu, int dst_cpu)
{
	struct steer_stats __percpu *stats = READ_ONCE(task_group(p)->steer.stats);

	if (stats)
		this_cpu_inc(stats->count[hint & STEER_FORK_SPREAD ? STEER_NR_NUMA_SPREAD :
								     STEER_NR_NUMA_TOGETHER]);
	trace_steer_numa(p, hint, path, src_cpu, dst_cpu);
}

/* Words of the task that @rq runs; 0 if it is none of ours. Under RCU. */
static u32 steer_numa_running(struct rq *rq, struct task_struct **p)
{
	RCU_LOCKDEP_WARN(!rcu_read_lock_held() && !rcu_read_lock_sched_held(),
			 "a task of another CPU without RCU");

	*p = steer_rq_donor(rq);
	return READ_ONCE((*p)->sched_class) == &fair_sched_class ? steer_hint(*p) : 0;
}

/* Runnable tasks of the group on @cpu, in groups below it as well */
static int steer_own(const struct task_group *tg, int cpu)
{
	return READ_ONCE(tg->cfs_rq[cpu]->h_nr_runnable);
}

static int steer_own_of_node(const struct task_group *tg, const struct cpumask *span, int nid)
{
	int cpu, own = 0;

	for_each_cpu_and(cpu, span, cpumask_of_node(nid))
		own += steer_own(tg, cpu);
	return own;
}

/**
 * struct steer_numa_seen - what a CPU has counted for a balance pass
 * @when: in which jiffy
 * @tg: tasks of which group; only compared
 * @src: in this node
 * @dst: and in this one
 * @fewer: there were fewer of them in @dst, for its size
 */
struct steer_numa_seen {
	unsigned long		when;
	const struct task_group	*tg;
	int			src;
	int			dst;
	bool			fewer;
};

static DEFINE_PER_CPU(struct steer_numa_seen, steer_numa_seen);

/*
 * Are fewer of the group of @p, which is to be spread, in the node of @dst_cpu than in that of
 * @src_cpu? Counted once for all of its tasks that a pass meets.
 */
static bool steer_numa_fewer(struct task_struct *p, u32 hint, int src_cpu, int dst_cpu)
{
	struct steer_numa_seen now = {
		.when = jiffies, .tg = task_group(p),
		.src = cpu_to_node(src_cpu), .dst = cpu_to_node(dst_cpu),
	};
	const struct cpumask *span = cpu_rq(dst_cpu)->rd->span;
	/* If the pass was preempted, another one may write there: then it is counted again. */
	struct steer_numa_seen *seen = raw_cpu_ptr(&steer_numa_seen);

	if (!(hint & STEER_FORK_SPREAD))
		return false;
	if (seen->when == now.when && seen->tg == now.tg && seen->src == now.src &&
	    seen->dst == now.dst)
		return seen->fewer;
	now.fewer = steer_own_of_node(now.tg, span, now.dst) *
		    cpumask_weight_and(span, cpumask_of_node(now.src)) <
		    steer_own_of_node(now.tg, span, now.src) *
		    cpumask_weight_and(span, cpumask_of_node(now.dst));
	*seen = now;
	return now.fewer;
}

void __steer_numa_uneven(struct sched_group *busiest, int dst_cpu, int more_idle, long *imbalance,
			 const struct sched_domain *sd, unsigned int *flags)
{
	struct task_struct *p;
	int cpu;

	*flags &= ~STEER_LBF_SPREAD;
	if (!(sd->flags & SD_NUMA) || *imbalance || more_idle < 2)
		return;

	for_each_cpu(cpu, sched_group_span(busiest)) {
		u32 hint = steer_numa_running(cpu_rq(cpu), &p);

		if (steer_numa_task_stays(hint, true, cpumask_test_cpu(dst_cpu, p->cpus_ptr),
					  steer_numa_fewer(p, hint, cpu, dst_cpu),
					  STEER_LBF_SPREAD))
			continue;
		*flags |= STEER_LBF_SPREAD;
		*imbalance = more_idle / 2;
		steer_numa_account(p, hint, STEER_NUMA_BALANCE, cpu, dst_cpu);
		return;
	}
}

bool __steer_numa_stays(struct rq *rq, int dst_cpu, unsigned int flags)
{
	struct task_struct *p;
	u32 hint = steer_numa_running(rq, &p);

	/* What does not fit its CPU has to get away from it. */
	if (READ_ONCE(rq->misfit_task_load) ||
	    !steer_numa_task_stays(hint, READ_ONCE(rq->nr_running) == 1,
				   cpumask_test_cpu(dst_cpu, p->cpus_ptr),
				   steer_numa_fewer(p, hint, cpu_of(rq), dst_cpu), flags))
		return false;
	/* The default would have moved it. */
	if (!(flags & STEER_LBF_SPREAD))
		steer_numa_account(p, hint, STEER_NUMA_BALANCE, cpu_of(rq), dst_cpu);
	return true;
}

bool __steer_to_nid(struct task_struct *p, int dst_nid, int src_running, int dst_running,
		    bool allowed)
{
	int src_cpu = task_cpu(p);
	bool moves;
	u32 hint;

	guard(rcu)();
	hint = steer_hint(p);
	if (hint & STEER_FORK_SPREAD) {
		const struct cpumask *span = cpu_rq(src_cpu)->rd->span;

		src_running = steer_own_of_node(task_group(p), span, cpu_to_node(src_cpu)) - 1;
		dst_running = steer_own_of_node(task_group(p), span, dst_nid) + 1;
	}
	moves = steer_numa_may_move(hint, src_running, dst_running, per_cpu(sd_llc_size, src_cpu),
				    allowed);
	if (moves != allowed)
		steer_numa_account(p, hint, STEER_NUMA_MEMORY, src_cpu,
				   cpumask_first(cpumask_of_node(dst_nid)));
	return moves;
}

/* Look at these CPUs; an exec'ing task is not taken for one of those that it is placed by. */
static struct steer_place steer_place_of(struct task_struct *p, const struct cpumask *span,
					 const struct cpumask *part, bool cores)
{
	int cpu, itself = task_on_rq_queued(p) ? task_cpu(p) : -1;
	struct task_group *tg = task_group(p);
	struct steer_place place = {};

	for_each_cpu_and(cpu, span, part) {
		place.own += steer_own(tg, cpu) - (cpu == itself);
		place.used += cpu_util_cfs(cpu);
		if (!cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		place.cpus++;
		if (!steer_takes(p, cpu) &&
		    (cpu != itself || READ_ONCE(cpu_rq(cpu)->nr_running) > 1))
			continue;
		place.idle++;
		if (cores && !place.core)
			place.core = steer_siblings_idle(cpu);
	}
	return place;
}

/* Would @p have stayed in the node of @cpu by default? */
static bool steer_numa_keeps(int cpu, const struct steer_place *here,
			     const struct steer_place *there)
{
	struct sched_domain *sd = rcu_dereference(per_cpu(sd_numa, cpu));
	int running = 0, other;

	if (!sd || there->idle <= here->idle)
		return false;
	for_each_cpu_and(other, sched_domain_span(sd), cpumask_of_node(cpu_to_node(cpu)))
		running += READ_ONCE(cpu_rq(other)->nr_running);
	return steer_numa_by_default(there->idle - here->idle, running + 1, sd->imb_numa_nr);
}

/**
 * steer_numa_fork_llc - the LLC in which a task to be spread begins
 * @p: a new or exec'ing task; p->pi_lock and the RCU read lock are held
 * @hint: words of its group
 * @parent_cpu: the CPU of the parent, or where the exec'ing task runs
 *
 * Counts as well where @p leaves a node that it would have stayed in without its hint.
 *
 * Return: a CPU of that LLC, which has an idle one for @p, or -1 if there is none.
 */
int steer_numa_fork_llc(struct task_struct *p, u32 hint, int parent_cpu)
{
	const struct cpumask *span = cpu_rq(parent_cpu)->rd->span;
	int home = cpu_to_node(parent_cpu), to = home, nid, cpu, llc = parent_cpu;
	struct steer_place here, best;

	lockdep_assert_held(&p->pi_lock);

	here = steer_place_of(p, span, cpumask_of_node(home), false);
	best = here;
	for_each_online_node(nid) {
		struct steer_place place;

		if (nid == home)
			continue;
		place = steer_place_of(p, span, cpumask_of_node(nid), false);
		if (steer_place_is_better(&place, &best)) {
			best = place;
			to = nid;
		}
	}
	if (!best.idle)
		return -1;
	if (to != home) {
		llc = cpumask_first_and(span, cpumask_of_node(to));
		if (steer_numa_keeps(parent_cpu, &here, &best))
			steer_numa_account(p, hint, STEER_NUMA_FORK, parent_cpu, llc);
	}

	best = steer_place_of(p, span, steer_llc(llc), true);
	for_each_cpu_and(cpu, span, cpumask_of_node(to)) {
		struct steer_place place;

		/* Each LLC once, by its first CPU. */
		if (per_cpu(sd_llc_id, cpu) != cpu || cpumask_test_cpu(cpu, steer_llc(llc)))
			continue;
		place = steer_place_of(p, span, steer_llc(cpu), true);
		if (steer_place_is_better(&place, &best)) {
			best = place;
			llc = cpu;
		}
	}
	return llc;
}
