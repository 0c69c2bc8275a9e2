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
 *	fork and exec	fork_affine is decided before, see __steer_fork_cpu(). With
 *			fork_spread the node of the parent has no advantage.
 *	balance pass	It is about tasks of the busiest node, whoever they are. Where it
 *			allows an imbalance, a task to be spread is looked for, and then
 *			none but such are moved: see __steer_numa_uneven(). A runqueue whose
 *			task stays is not chosen: see __steer_numa_stays().
 *	queued tasks	fork_affine keeps one that waits in its node while its LLC has room,
 *			as a wake hint keeps it in its LLC: see __steer_balance_hold().
 *	NUMA balancing	It moves a task to its memory if that leaves no imbalance: see
 *			__steer_to_nid().
 *
 * In a balance pass a task of a fork_affine group fits if it has its CPU to itself: where one
 * waits beside an idle CPU, the balance within the node will see to it. A task is taken for
 * what it says that runs; who waits behind it is looked at when it would be moved.
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
				   cpumask_test_cpu(dst_cpu, p->cpus_ptr), flags))
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
	moves = steer_numa_may_move(hint, src_running, dst_running, per_cpu(sd_llc_size, src_cpu),
				    allowed);
	if (moves != allowed)
		steer_numa_account(p, hint, STEER_NUMA_MEMORY, src_cpu,
				   cpumask_first(cpumask_of_node(dst_nid)));
	return moves;
}

bool __steer_leaves(struct task_struct *p, const struct sched_domain *sd, int dst_cpu,
		    int running, int more_idle, bool less_used)
{
	u32 hint = steer_hint(p);

	lockdep_assert_held(&p->pi_lock);

	if (!(hint & STEER_FORK_SPREAD))
		return false;
	if ((sd->flags & SD_NUMA) && more_idle > 0 &&
	    steer_numa_by_default(more_idle, running + 1, sd->imb_numa_nr))
		steer_numa_account(p, hint, STEER_NUMA_FORK, task_cpu(p), dst_cpu);
	return !more_idle && less_used;
}
