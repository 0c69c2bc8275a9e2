// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.headroom: how much CPU the siblings of a group leave idle
 *
 * DOC: what a headroom can and cannot do
 *
 * A group with cpu.headroom = H is protected: its siblings keep out of the way
 * until H percent of the CPUs are idle. It is the bandwidth controller (cpu.max)
 * with a quota that follows the load: what the protected group does not need now,
 * less the headroom, goes to the others, and every period anew. The ancestor of
 * this file did that per group and from the idle share of the whole machine. What
 * is different here:
 *
 *	the demand is distributed from the top down and ends at the parent, so
 *	that nobody can hold back what is outside of a subtree;
 *	siblings that are held back share one budget by weight, so that two of
 *	them do not both take the same spare time;
 *	the budget is given out in small parts, so that at any time about the
 *	demanded share of the CPUs is idle, instead of all of them at the end of
 *	each period and none at its beginning;
 *	cpu.max is left alone: the smaller of both counts.
 *
 * Who holds back whom
 * -------------------
 * The children of one group are an arena as soon as one of them has a headroom.
 * H is the largest of those children that have tasks and are not frozen. A child
 * with a headroom of its own below H leaves the difference idle: with A = B = 30
 * and C = 20, C gives way below 10 % and A and B never. A child that is held back
 * is so with all that is below it. Each level has its arena, and each is met, so
 * that over several levels the largest demand counts. The parent's own tasks (of
 * the root group, or of a threaded one) are nobody's child and are not bound.
 *
 * The children of an arena with the same headroom that may use the same CPUs are
 * a pool; it has a timer, a budget, and a demand. Children with the largest
 * headroom that is written in an arena can never be held back. They are in no
 * pool, and run as if the file did not exist.
 *
 * The idle clock
 * --------------
 * Idle time is that of the CPUs that the groups of a pool may use: their
 * effective cpuset, without CPUs that are offline or isolated at boot. A CPU is
 * idle while it runs its idle task, waiting for I/O or not. Interrupts, real-time
 * tasks and stolen time are not idle time. An SMT sibling counts like any other
 * CPU, whatever the other thread of the core does, and so does a CPU that core
 * scheduling forces to be idle. The clock is that of tickless idle, which is
 * exact; where there is none, ticks are counted. It is in one line of the cache of its
 * CPU (<linux/sched/steer_tick.h>), which all timers of a CPU read once: their periods begin
 * together.
 *
 * To read those of all CPUs is most of what the controller takes. At the end of a period it
 * has to. In between it only wants to know whether idle time is exhausted, which it is not if
 * a quarter of the demand was idle. So it reads until it has found that much, always in the
 * same order, as a CPU that was read in the last look tells the most: the timer's own node
 * first, which is the cheapest, and at least three CPUs in eight. They have half as much again
 * as is looked for if the demand is met, and mostly enough then; where only a quarter is read,
 * by chance every third look has too little. And while a part of the budget is withheld, it
 * reads all, to see when the demand is idle again. How long a CPU was idle in the last 10 ms is not
 * known if it was not read as they began, but for two bounds. It was as long as it has been
 * idle without a break, or as it was since it was read last, less the time before. And it was
 * not while it has been busy without a break. Only what is idle by the first ends the look, and
 * only what is not by the second is exhausted. Where they do not tell, all have been read, and
 * the next look will: 10 ms later, unless the period ends before. Ticks do not tell such
 * bounds; where they are the clock, all are read each time.
 *
 * The controller
 * --------------
 * At the end of each period: budget = used + idle - demand, no less than the
 * floor. A lack of idle time is taken off at once; of a surplus, half of what may
 * be noise is kept back, and what other pools share (steer_headroom_budget()). For
 * 16 CPUs, a demand of 30 % and a main group that needs 4 of them: the others get
 * 16 - 4 - 4.8 = 7.2 CPUs, 720 ms of each 100 ms. If the main group steps to 8, the
 * period shows 16 - 8 - 7.2 = 0.8 CPUs idle, 4 less than demanded, and the next
 * budget is 320 ms.
 *
 * If it steps to 12, nothing is idle, and nobody sees how much is lacking, nor how
 * much work the main group has left undone, which goes on growing. So with each 10 ms
 * in which idle time is exhausted what is left of the budget is halved, and a halving
 * is taken back with each in which the demand is idle. At the end of the period, at
 * most half of what was used is left.
 *
 * "Used" is what was given out, not what was run: a queue that was given a slice
 * has it until the slice is used up, in whichever period. In the mean it is the
 * same. What is lost on the way, the trim makes good.
 *
 * A pool that is made for groups which were in another one, since their CPUs changed,
 * begins with the budget and the level of that one, for as many CPUs as it has. The same
 * goes for CPUs that come or go. Its first period ends with that of all others, and tells
 * nothing if it is less than half of one. A pool that begins with nothing lets everybody
 * run until it has measured a period.
 *
 * Time on other CPUs is neither measured nor held back: where a group's tasks are on
 * CPUs isolated at boot, or in a partition below it, they run as if they were in no
 * pool.
 *
 * Sharing
 * -------
 * A group of weight w may use level * w in a period. With the budget B, the level
 * is that at which the groups together use B, as water in vessels of width w: some
 * are full (they use less than their cap), the others stand at the level. So next
 *
 *	level = (B - use of those below their cap) / weight of those at it.
 *
 * Where the rest of a budget is halved, the level falls with it: tokens that come to
 * their end would be shared by turns and not by weight.
 *
 * Where there are many groups, the share of each may be too small to be worth a
 * grant. It is saved up until it is not. And since a small group gets more than its
 * share where each of its queues has to get on (see below), what it had beyond its
 * cap is taken off the next one.
 *
 * Both sums are made as groups draw runtime and are denied it, on each CPU for itself, so
 * that the update takes the same time for one group and for a thousand.
 *
 * How runtime is given
 * --------------------
 * All groups of pools have their bandwidth accounted, as if they had a cpu.max.
 * Their queues ask for runtime in slices, and both cpu.max and the pool have to
 * grant it. The pool grants what its tokens and the group's cap allow. A queue
 * that is denied is throttled as it is for cpu.max, but waits for the pool, in a
 * line on its CPU, and the timers of cpu.max pass it over.
 *
 * When a pool could not satisfy everybody, its budget comes in parts, one each 5
 * ms. With each part as many CPUs with waiting queues are interrupted as there are
 * slices in the part, round robin. Each lets as many of its queues go on as it
 * takes to be busy until the next part, from the lines of all pools in turn: the
 * thousands that wait for one do not delay those of another. So CPUs are busy or
 * idle for about 5 ms at a time, and those that are idle at any one time are about
 * the demanded share.
 *
 * Accounting happens at ticks and switches. A queue can use more than it was
 * given, and pays it back from the next grants. What it owes can be a multiple of
 * what the pool has: the CPU of a virtual machine that stands still uses up time
 * like any other. So a group that got nothing in a period, and a queue that did not
 * get on in all of the last one, get a grant from the floor, which is one percent of
 * the CPUs, debt forgiven. Who waits gets it, and CPUs take turns: in each period no
 * more of them are interrupted for it than it is enough for. If who asks first had
 * it, that would be the same ones every time, since a CPU that has something else to
 * do is slower to ask than one that is idle. And where it has to wait for that, it may
 * not run in this period: so every other turn is for one that is idle. Thus no group
 * stands still, nobody can hold a lock for ever, and whoever is killed comes to its
 * end: with one queue on each CPU within a second, with more of them after as many
 * times that.
 *
 * Timers
 * ------
 * Each pool has a timer, all periods end together, and whoever may make groups may make
 * pools without end. So the timers are on many CPUs: first on those that the pool may
 * use, and if these have some already, wherever there are fewest. Where a CPU has more pools
 * that hold back somebody than it can serve well, the budgets of those that came last are given
 * all at once, and nobody looks in between; where it has still more pools, with or without
 * anybody in them, periods of all but the first ones are longer. So all of them together
 * never take more than some hundredths of a CPU: see steer_headroom_paces().
 *
 * Who runs first
 * --------------
 * Idle CPUs are of use to those who find them, and the demand is met in the mean:
 * when more tasks of a protected group wake up at once than CPUs are idle, idle
 * time is below it at that moment. So a task of a group with a headroom for which no
 * CPU is idle in its LLC takes one there that runs what is to leave CPU idle for it,
 * where it ran last if it can. A CPU gives way to one task: one that is on its way there
 * counts from the moment that the CPU was chosen: the waker claims it, so that another one
 * that looks for a CPU meanwhile takes a different one. On 32 CPUs, with 100,000 wakeups a
 * second, that gained about a tenth of p99.
 *
 * Beyond its LLC it looks only if that is full of others, who do not give way. If it is
 * full of tasks of its own group, it would be so without anybody else on the machine; who
 * left would take along what they share, be slower for it, and thus make the next LLC
 * full. Where all looked beyond, on 16 CPUs in four LLCs, p99 of a service was 1.2 times
 * that alone, with whoever was held back at the floor; it is 0.5 times that, with a
 * demand of 30 % met. But where more than two of them want each CPU of the LLC, they leave: no
 * load balancer comes for them from CPUs that are busy with what is held back.
 *
 * The words of cpu.hint go by the same: what is held back for a group is not in the way of
 * its hints. When they saw it as what is busy, a service that wake_affine makes faster
 * alone got slower by it beside a side job; now it gains more there than alone.
 *
 * Where cores have several threads, an idle CPU is worth less, since it is more often
 * than not the other thread of a core that is in use. There a task stays where it ran last
 * if what runs there gives way, and if not, goes where that is so of a whole core, before
 * it looks for an idle CPU. When the first was new, with 16 cores and 32 threads, it was a mean
 * latency of 1.29 times that alone and not 1.60, while the side job got 38 % of the machine
 * and not 28. Without threads, it was 1.36 instead of 1.15 for p99, as tasks are more often
 * on CPUs where it is the others' turn now and then.
 *
 * Where a task of the group is behind one that is to leave
 * CPU idle for it, it is next at once, and goes on when its slice is over: what is held
 * back waits. But not for more than four slices
 * after it was due. From then on, turns are by weight, so where both always want to
 * run, each has what its weight says, if in longer turns. The bound is one of real
 * time for the sake of others on that queue, who are neither: while the one with the
 * earliest deadline waits, EEVDF does not come to them. If it were its lag, a group
 * of small weight could wait, and let them wait, for seconds.
 *
 * Only the queue's own group knows both, so this is about siblings, and decided when a
 * task wakes up and when the next one is picked: between the one that would run and
 * the one that woke up or ran so far, or else the first few of the tree.
 *
 * Cores with several threads
 * --------------------------
 * A thread is slowed down by whatever runs on the other threads of its core. So what is
 * held back has a core to itself, or does not run there: it goes on where nothing else
 * runs on the whole core. When a task begins to run for which what runs on another
 * thread leaves CPU idle, that one's CPU is interrupted, and its queue gives its runtime
 * back to the pool and waits; and so does the queue of a task that is preempted by such
 * a task. Whoever asks for runtime beside such a task is denied it. When the last of them
 * leaves the core, those who wait there go on, if the pool has anything to give. On 4
 * cores of 2 threads, 52,000 times a second a task of a service runs for some 50 us, and
 * all the CPU that the service leaves, less a demand of 30 %, is still used.
 *
 * There may be no such cores. So what nobody took for as long as a part is, and the turns
 * at the floor, is for whoever waits, on any core. Until that is used up, nobody has
 * to leave.
 *
 * What a queue gives back is tokens again, at once, and the next one takes it. With 32 CPUs
 * and a demand of 20 %, the mean latency of a service was 1.10 times that alone when both
 * took a lock of the pool, and is 1.07 times that.
 *
 * Who is let go on there has no claim to the time for which it was not: it was given to
 * others of its pool. Otherwise the task that it is to leave CPU idle for would be the one to
 * wait for it, sooner or later.
 *
 * Of a task that is about to run on another thread, or about to leave it, nothing is known
 * for a moment: both read what runs on the other's CPU without its lock. Then one runs
 * beside the other until its slice is over, or waits for the next part.
 *
 * Locks
 * -----
 * rq lock, then cfs_b->lock (the group's): both raw. A draw takes no lock of the pool. One
 * that all CPUs have to take was waited for up to 31 us, with a runqueue locked, on 32 CPUs,
 * as their ticks come at the same time. So what a draw writes is its group's, or its CPU's,
 * but for the tokens, which are one atomic amount, and the floor, which is another one;
 * who is denied since its group has had its share writes neither. A queue that waits gets its
 * slice without cfs_b->lock as well, unless its group has a cpu.max, has less than a slice to
 * use, or has had nothing yet in the period; unthrottle_cfs_rq() takes it for a moment.
 * What a draw reads is what the timer has written (struct steer_account). A draw that is
 * under way as a period ends may be counted in the next one, or see the level of one and the
 * number of the other; the time for that is as long as the controller's arithmetic.
 *
 * pool->lock is for those who want to see what the timer wrote as of one moment. It is held
 * for the controller's arithmetic, which has read the clocks and the tallies before.
 *
 * Lines, and the queues in them, are protected by the rq lock.
 * Joining and leaving pools, requests, and the end of groups are serialised by
 * steer_headroom_mutex, which nests inside cgroup_mutex and outside of the lock
 * of CPU hotplug. The list of an arena's requests is read under RCU.
 *
 * cfs_rq->runtime_enabled is (has a quota, or is in a pool). Each of those that
 * can change it sets its own part first, and then each queue, under its rq lock,
 * from both. So whoever comes last has seen both.
 */
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kernel_stat.h>
#include <linux/mmu_context.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/tick.h>
#include <trace/events/steer.h>

#include "sched.h"
#include "steer.h"
#include "steer_compat.h"

/* A part of the budget, and what a queue gets of it to go on. */
#define STEER_PART		(5 * (u64)NSEC_PER_MSEC)
#define STEER_PARTS		20

/* How often to look whether idle time is exhausted. */
#define STEER_CHECK		(2 * STEER_PART)

/* A smaller grant is not worth two context switches. */
#define STEER_GRANT_LEAST	((u64)NSEC_PER_MSEC / 2)
#define STEER_GRANT_FLOOR	((u64)NSEC_PER_MSEC)

/* What such a grant costs the floor at most: a tick may be late by one. */
#define STEER_FLOOR_COST	(STEER_GRANT_FLOOR + TICK_NSEC)

/* Clocks that were all read within that time, and a microsecond for each, belong together. */
#define STEER_LOOK_LONGEST	((u64)NSEC_PER_MSEC / 4)

/* Entities of a queue that are looked at for one that is protected. */
#define STEER_INSTEAD_MOST	4

/* Timers that a CPU of a pool has before others are looked at, too. */
#define STEER_TIMERS_GOOD	16

/* Requests that a timer looks at for the largest one in force. */
#define STEER_SEARCH_MOST	64

/* Levels of the tree whose pools are told apart */
#define STEER_DEPTHS		4

/* CPUs that a timer interrupts at most. */
#define STEER_KICK_MOST		64

/* With a runqueue locked: queues looked at, in a line too, and let go on, at most. */
#define STEER_LOOK_MOST		64
#define STEER_LOOK_LINE		16
#define STEER_RESUME_MOST	2
/* In one interrupt. While some wait, there is another one in 5 ms. */
#define STEER_ROUNDS_MOST	32

/* Off a second after the last user: flipping it interrupts every CPU. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(steer_headroom_key, HZ);

/*
 * Pools that may use a CPU, and are about to take more or less, by how far down in the tree their
 * groups are; the last is for all that are further.
 */
struct steer_active {
	atomic_t pools[STEER_DEPTHS];
};

/* In lines that timers write, and not each CPU. */
static DEFINE_PER_CPU_ALIGNED(struct steer_active, steer_active);

/* All of them, on whatever CPUs */
static atomic_t steer_active_pools;

/**
 * struct steer_line - a CPU's part of a pool; under the rq lock
 * @tally: of what queues of the CPU drew. The pool's timer reads it without the lock, so it is
 *	in one line of the cache
 * @pool: the pool
 * @queues: those it holds back, by their steer.waiting, the one that waited longest first
 * @link: among the lines of the CPU, while there are any
 */
struct steer_line {
	struct steer_tally tally;
	struct steer_pool *pool;
	struct list_head queues;
	struct list_head link;
} ____cacheline_aligned_in_smp;

/**
 * struct steer_waiting - what a CPU holds back
 * @lines: of pools that hold back queues of it, in turn; under the rq lock
 * @csd: to interrupt the CPU
 * @kicked: @csd is on its way
 * @work: the same, from the CPU itself, with its runqueue locked
 * @anyway: whoever wants the core to itself does not matter to those whom @csd lets go on
 * @beside: nor does it to those who were let go on last; under the rq lock
 * @leave: to interrupt the CPU because what runs there shall leave its core to another one
 * @told: @leave is on its way
 * @claimed: when the CPU was last chosen for a task with a headroom that woke up [ns]; 0 as
 *	soon as it changes to another task. Written and read without a lock
 * @changing: what is held back and runs there is about to leave, or the CPU is idle and
 *	about to run such; until it changes to another task
 *
 * Whoever looks for a CPU reads the last two of many.
 */
struct steer_waiting {
	struct list_head lines;
	call_single_data_t csd;
	atomic_t kicked;
	struct irq_work work;
	bool anyway;
	bool beside;
	call_single_data_t leave;
	atomic_t told;
	u64 claimed ____cacheline_aligned_in_smp;
	bool changing;
};

static DEFINE_PER_CPU(struct steer_waiting, steer_waiting);
static DEFINE_PER_CPU(unsigned long, steer_claims_met);

/* Timers that were started here; changed under steer_headroom_mutex. */
static DEFINE_PER_CPU(unsigned int, steer_timers);

/* Those of them that give out budgets in parts. A timer may run elsewhere for a while. */
static DEFINE_PER_CPU(atomic_t, steer_pacing);

/* Where queues of a group, which may have no headroom, draw runtime on a CPU */
static struct steer_pool *steer_headroom_pool(struct steer_headroom *hr, int cpu)
{
	struct steer_pool *pool = hr ? READ_ONCE(hr->pool) : NULL;

	return pool && cpumask_test_cpu(cpu, pool->cpus) ? pool : NULL;
}

/* Where a queue draws runtime; stable under its rq lock or its cfs_b->lock. */
static struct steer_pool *steer_queue_pool(struct task_group *tg, int cpu)
{
	return steer_headroom_pool(READ_ONCE(tg->steer.headroom), cpu);
}

/* ------------------------------------------------------- who gives way to whom */

/* What the cpu.headroom of a group says */
static unsigned int steer_request_of(struct task_group *tg)
{
	struct steer_headroom *hr = READ_ONCE(tg->steer.headroom);

	return hr ? READ_ONCE(hr->request) : 0;
}

/* The group of @tg, or above it, with a headroom, or NULL */
static struct task_group *steer_protected(struct task_group *tg)
{
	while (tg && !steer_request_of(tg))
		tg = tg->parent;
	return tg;
}

static int steer_depth(struct task_group *tg)
{
	int depth = 0;

	while ((tg = tg->parent))
		depth++;
	return depth;
}

/*
 * The group, @other or one above it, that is to leave CPU idle on @cpu for @tg, or for a
 * group above, which *@own is then; NULL if there is none. At the level at which they are
 * siblings, which is one: does one have more than the other, and does cpu.idle not say
 * otherwise? In time that grows with their depth, which is up to whoever made them.
 */
static struct task_group *steer_held_back_for(struct task_group *tg, struct task_group *other,
					      int cpu, struct task_group **own)
{
	if (tg->parent != other->parent) {
		int deeper = steer_depth(tg) - steer_depth(other);

		for (; deeper > 0; deeper--)
			tg = tg->parent;
		for (; deeper < 0; deeper++)
			other = other->parent;
	}
	while (tg != other && tg->parent != other->parent) {
		tg = tg->parent;
		other = other->parent;
	}
	/* One is above the other. */
	if (tg == other)
		return NULL;
	*own = tg;
	if (steer_queue_pool(other, cpu) && steer_request_of(other) < steer_request_of(tg) &&
	    READ_ONCE(tg->idle) <= READ_ONCE(other->idle))
		return other;
	return NULL;
}

/* The same, if its pool holds it back now. The RCU read lock is held. */
static struct task_group *steer_bound_for(struct task_group *tg, struct task_group *other,
					  int cpu)
{
	struct task_group *own, *held = steer_held_back_for(tg, other, cpu, &own);
	struct steer_pool *pool = held ? steer_queue_pool(held, cpu) : NULL;

	return pool && READ_ONCE(pool->account.binding) ? held : NULL;
}

/* The group with a headroom for which a task that runs wants its core, or NULL */
static struct task_group *steer_wants_core(struct task_struct *curr)
{
	if (curr->sched_class != &fair_sched_class || task_has_idle_policy(curr))
		return NULL;
	return steer_protected(task_group(curr));
}

/*
 * The group, @tg or one above it, that leaves the core of @cpu to what runs on another
 * thread of it, or NULL. What a pool does not hold back may stay.
 */
static struct task_group *steer_leaves_core(struct task_group *tg, int cpu)
{
	struct task_group *wants, *held;
	int thread;

	for_each_cpu(thread, steer_core_mask(cpu)) {
		if (thread == cpu)
			continue;
		wants = steer_wants_core(rcu_dereference(cpu_rq(thread)->curr));
		held = wants ? steer_bound_for(wants, tg, cpu) : NULL;
		if (held)
			return held;
	}
	return NULL;
}

/* Does this queue leave its core to what runs there? REQUIRES: its rq lock */
static bool steer_queue_leaves(struct cfs_rq *cfs_rq)
{
	if (!sched_smt_active())
		return false;
	guard(rcu)();
	return steer_leaves_core(cfs_rq->tg, cpu_of(rq_of(cfs_rq))) == cfs_rq->tg;
}

/* ------------------------------------------------------- drawing runtime */

/* For whoever has the runqueue's lock. The timer may see one of two that go together later. */
static void steer_tally_count(s64 *what, s64 amount)
{
	WRITE_ONCE(*what, *what + amount);
}

/* Where it is counted what a queue draws; REQUIRES: its rq lock */
static struct steer_tally *steer_queue_tally(struct cfs_rq *cfs_rq, struct steer_pool *pool)
{
	struct rq *rq = rq_of(cfs_rq);

	lockdep_assert_rq_held(rq);

	if (!READ_ONCE(pool->drawn))
		WRITE_ONCE(pool->drawn, true);
	return &per_cpu_ptr(pool->lines, cpu_of(rq))->tally;
}

/* A group used that much. */
static void steer_headroom_use(struct steer_headroom *hr, struct steer_tally *tally,
			       s64 amount)
{
	lockdep_assert_held(&hr->tg->cfs_bandwidth.lock);

	WRITE_ONCE(hr->used, hr->used + amount);
	if (hr->capped)
		steer_tally_count(&tally->capped_used, amount);
}

/* What queues of a group took and gave back without a lock, which is a use of it as others are. */
static void steer_headroom_settle(struct steer_headroom *hr, struct steer_tally *tally)
{
	s64 moved = atomic64_read(&hr->moved);

	if (!moved)
		return;
	steer_headroom_use(hr, tally, moved);
	/* Pairs with steer_headroom_room(), which may see it twice, but not miss it. */
	smp_wmb();
	atomic64_sub(moved, &hr->moved);
}

/*
 * The first draw of a group of this weight in a period. It may have had one in the next
 * already, on another CPU that has seen it begin.
 */
static void steer_headroom_renew(struct steer_headroom *hr, const struct steer_pool *pool,
				 struct steer_tally *tally, u64 epoch, u64 weight)
{
	const struct steer_account *account = &pool->account;
	u64 periods = epoch - hr->epoch;
	s64 cap;

	lockdep_assert_held(&hr->tg->cfs_bandwidth.lock);

	if ((s64)periods <= 0) {
		steer_headroom_settle(hr, tally);
		return;
	}
	/* Too late for what is said about the cap, but not for what it saves and owes. */
	hr->used += atomic64_xchg(&hr->moved, 0);
	cap = steer_headroom_cap(READ_ONCE(account->whole_level), weight);
	hr->carried = !hr->epoch ? 0 :
		steer_headroom_carry(hr->carried, cap, hr->used, periods, STEER_GRANT_LEAST);
	hr->debt = !hr->epoch ? 0 :
		steer_headroom_debt(hr->debt,
				    steer_headroom_cap(READ_ONCE(account->last_level), weight),
				    hr->used, periods, cap);
	WRITE_ONCE(hr->used, 0);
	hr->capped = false;
	hr->denied = false;
	hr->periods += READ_ONCE(account->binding);
	steer_tally_count(&tally->active_weight, weight);
	/* Who sees this needs no lock to take from the pool: see steer_queue_take(). */
	smp_store_release(&hr->epoch, epoch);
}

static u64 steer_pool_epoch(const struct steer_pool *pool)
{
	/* Pairs with steer_pool_update(): what that decided for a period is there, too. */
	return smp_load_acquire(&pool->account.epoch);
}

/* What a group of this weight may still use; without cfs_b->lock only a guess. */
static s64 steer_headroom_room(struct steer_headroom *hr, u64 level, u64 weight)
{
	s64 room = steer_headroom_cap(level, weight);

	if (room == S64_MAX)
		return room;
	room -= atomic64_read(&hr->moved);
	/* Pairs with steer_headroom_settle(). */
	smp_rmb();
	return room + READ_ONCE(hr->carried) - READ_ONCE(hr->debt) - READ_ONCE(hr->used);
}

/* Did a queue not get on in all of the last period? It may be new here, too. */
static bool steer_queue_starves(struct cfs_rq *cfs_rq, struct steer_pool *pool)
{
	return READ_ONCE(pool->account.epoch) - cfs_rq->steer.epoch > 1;
}

/* Take as many tokens as there are, up to @most, but none if they are fewer than @least. */
static s64 steer_pool_take(struct steer_pool *pool, s64 most, s64 least)
{
	s64 tokens = atomic64_read(&pool->tokens), got;

	do {
		got = min(tokens, most);
		if (got < least)
			return 0;
	} while (!atomic64_try_cmpxchg(&pool->tokens, &tokens, tokens - got));
	return got;
}

/* The last one may have more than what is left of it, and goes on to the next period. */
static bool steer_pool_take_floor(struct steer_pool *pool, s64 cost)
{
	if (atomic64_read(&pool->floor) <= 0)
		return false;
	if (atomic64_fetch_sub(cost, &pool->floor) > 0)
		return true;
	atomic64_add(cost, &pool->floor);
	return false;
}

/*
 * What a queue gets; REQUIRES: cfs_b->lock. Of a debt that is forgiven no more is
 * counted than a queue could have used by right: when it was made, the idle clock
 * has shown it.
 */
static u64 steer_pool_grant(struct cfs_rq *cfs_rq, struct steer_headroom *hr,
			    struct steer_pool *pool, u64 weight, u64 want)
{
	struct steer_tally *tally = steer_queue_tally(cfs_rq, pool);
	bool binding = READ_ONCE(pool->account.binding);
	s64 least = min(want, STEER_GRANT_LEAST), due = want;
	u64 grant = want;

	if (binding) {
		due = min(due, steer_headroom_room(hr, READ_ONCE(pool->account.level), weight));
		grant = due < least ? 0 : steer_pool_take(pool, due, least);
	}
	if (grant) {
		steer_headroom_use(hr, tally, grant);
		steer_tally_count(&tally->used, grant);
		return grant;
	}

	/* Only to one that waits. What came back may be more than what was given. */
	if (cfs_rq->steer.pool && (hr->used <= 0 || steer_queue_starves(cfs_rq, pool))) {
		s64 debt = max(-cfs_rq->runtime_remaining, 0LL), cost;

		grant = min_t(u64, want, debt + STEER_GRANT_FLOOR);
		cost = min_t(u64, grant, STEER_FLOOR_COST);
		if (steer_pool_take_floor(pool, cost)) {
			atomic64_sub(cost, &pool->tokens);
			steer_headroom_use(hr, tally, cost);
			steer_tally_count(&tally->used, cost);
			return grant;
		}
	}

	if (due >= least) {
		steer_tally_count(&tally->starved, 1);
	} else if (!hr->capped) {
		hr->capped = true;
		steer_tally_count(&tally->capped_weight, weight);
		steer_tally_count(&tally->capped_used, hr->used);
	}
	hr->capped_periods += !hr->denied;
	hr->denied = true;
	return 0;
}

/* It got on, if it has anything to spend now. */
static void steer_queue_served(struct cfs_rq *cfs_rq, u64 grant, u64 epoch)
{
	if (cfs_rq->runtime_remaining + (s64)grant <= 0 || cfs_rq->steer.epoch == epoch)
		return;
	cfs_rq->steer.before = cfs_rq->steer.epoch;
	cfs_rq->steer.epoch = epoch;
}

/* Has a pool anything to give but from its floor? Only a guess. */
static bool steer_pool_gives(const struct steer_pool *pool)
{
	return !READ_ONCE(pool->account.binding) ||
	       atomic64_read(&pool->tokens) >= (s64)STEER_GRANT_LEAST;
}

static u64 steer_queue_draw(struct cfs_rq *cfs_rq, u64 want)
{
	struct steer_pool *pool = steer_queue_pool(cfs_rq->tg, cpu_of(rq_of(cfs_rq)));
	struct steer_headroom *hr = cfs_rq->tg->steer.headroom;
	u64 grant, weight, epoch;

	lockdep_assert_held(&cfs_rq->tg->cfs_bandwidth.lock);

	if (!pool)
		return want;

	weight = steer_headroom_weight(hr->tg);
	epoch = steer_pool_epoch(pool);
	steer_headroom_renew(hr, pool, steer_queue_tally(cfs_rq, pool), epoch, weight);
	grant = steer_pool_grant(cfs_rq, hr, pool, weight, want);
	steer_queue_served(cfs_rq, grant, epoch);
	return grant;
}

u64 __steer_headroom_draw(struct cfs_rq *cfs_rq, u64 want)
{
	/* What it was let go on with is used up; whoever waits does not ask here. */
	per_cpu(steer_waiting, cpu_of(rq_of(cfs_rq))).beside = false;
	cfs_rq->steer.resumed = 0;
	if (steer_queue_leaves(cfs_rq))
		return 0;
	return steer_queue_draw(cfs_rq, want);
}

void __steer_headroom_charge(struct cfs_rq *cfs_rq, s64 amount)
{
	struct steer_pool *pool = steer_queue_pool(cfs_rq->tg, cpu_of(rq_of(cfs_rq)));
	struct steer_headroom *hr = cfs_rq->tg->steer.headroom;
	struct steer_tally *tally;

	lockdep_assert_held(&cfs_rq->tg->cfs_bandwidth.lock);

	if (!pool)
		return;

	tally = steer_queue_tally(cfs_rq, pool);
	steer_headroom_renew(hr, pool, tally, steer_pool_epoch(pool),
			     steer_headroom_weight(hr->tg));
	steer_headroom_use(hr, tally, amount);
	steer_tally_count(&tally->used, amount);
	if (READ_ONCE(pool->account.binding))
		atomic64_sub(amount, &pool->tokens);
}

bool __steer_headroom_held(struct task_group *tg, int cpu)
{
	lockdep_assert_rq_held(cpu_rq(cpu));

	return steer_queue_pool(tg, cpu);
}

/* Asked by a CPU about itself, with interrupts off: no pool goes meanwhile. */
bool __steer_headroom_constrained(struct cfs_rq *cfs_rq)
{
	int cpu = cpu_of(rq_of(cfs_rq));

	for (struct task_group *tg = cfs_rq->tg; tg; tg = tg->parent) {
		if (steer_queue_pool(tg, cpu))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------ protected */

struct task_group *__steer_headroom_group(struct task_struct *p)
{
	lockdep_assert_once(lockdep_is_held(&p->pi_lock) ||
			    lockdep_is_held(__rq_lockp(task_rq(p))));

	return steer_protected(task_group(p));
}

/*
 * Is what runs on @cpu to leave CPU idle for @p, so that @p would run there at once? Not if
 * another task of @p's group is there already, or on its way: one CPU gives way to one. A
 * hint: its runqueue is not locked, and who else waits there, or has waited for too long,
 * is not asked.
 */
bool __steer_headroom_gives_way(struct task_struct *p, int cpu)
{
	struct task_struct *curr = rcu_dereference(cpu_rq(cpu)->curr);
	bool changing = READ_ONCE(per_cpu(steer_waiting, cpu).changing);
	struct task_group *own;

	if (p->policy != SCHED_NORMAL || READ_ONCE(cpu_rq(cpu)->ttwu_pending))
		return false;
	if (is_idle_task(curr)) {
		/* For whom what was let go on there is held back is not known yet. */
		own = changing ? steer_protected(task_group(p)) : NULL;
		return own && !READ_ONCE(own->cfs_rq[cpu]->h_nr_runnable);
	}
	/* Those who preempt nobody, or are not preempted. */
	if (curr->sched_class != &fair_sched_class ||
	    ((steer_hint(p) & ~steer_hint(curr)) & STEER_PREEMPT))
		return false;
	if (test_tsk_need_resched(curr) && !changing)
		return false;

	return steer_held_back_for(task_group(p), task_group(curr), cpu, &own) &&
	       !READ_ONCE(own->cfs_rq[cpu]->h_nr_runnable);
}

/*
 * A task goes to @cpu. Until it is queued there, which takes a microsecond, nothing else shows
 * it to those who look for a CPU. It is no lock: two that look at the same moment may still
 * choose the same CPU.
 */
void __steer_headroom_claim(int cpu)
{
	/* Not 0, which is none. */
	WRITE_ONCE(per_cpu(steer_waiting, cpu).claimed, local_clock() | 1);
}

bool __steer_headroom_claimed(int cpu)
{
	u64 claimed = READ_ONCE(per_cpu(steer_waiting, cpu).claimed);

	/* Most are not, and it costs something to read a clock. */
	if (!claimed || !steer_headroom_claims(local_clock(), claimed))
		return false;
	this_cpu_inc(steer_claims_met);
	return true;
}

/**
 * steer_headroom_claims_met - how often was a CPU left to a task that was on its way to it?
 *
 * Return: how often since boot, over all CPUs that looked for one.
 */
unsigned long steer_headroom_claims_met(void)
{
	unsigned long met = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		met += READ_ONCE(per_cpu(steer_claims_met, cpu));
	return met;
}

/**
 * steer_headroom_wanting - how many tasks of a CPU do not give way to a group?
 * @tg: the group, which steer_headroom_group() returned; the RCU read lock is held
 * @cpu: the CPU, which need not be locked
 *
 * What waits behind a task of the group itself is taken for what is held back: it is not
 * told apart from others who share the CPU with it, and who are few.
 *
 * Return: how many tasks there run or wait, but for SCHED_IDLE ones and those that are
 * held back for @tg, as a guess.
 */
int steer_headroom_wanting(struct task_group *tg, int cpu)
{
	struct task_struct *curr = rcu_dereference(cpu_rq(cpu)->curr);
	struct task_group *running = task_group(curr), *own = tg;
	struct cfs_rq *cfs_rq;

	while (running && running != tg)
		running = running->parent;
	if (curr->sched_class != &fair_sched_class ||
	    (!running && !steer_held_back_for(tg, task_group(curr), cpu, &own)))
		return max(steer_nr_wanting(cpu_rq(cpu)), 0);
	cfs_rq = own->cfs_rq[cpu];
	return max((int)READ_ONCE(cfs_rq->h_nr_runnable) - (int)steer_cfs_nr_idle(cfs_rq), 0);
}

unsigned int __steer_headroom_present(struct task_struct *p, const struct cpumask *cpus)
{
	struct task_group *tg = __steer_headroom_group(p);
	unsigned int present = 0;
	int cpu;

	if (!tg)
		return 0;
	for_each_cpu(cpu, cpus)
		present += !!READ_ONCE(tg->cfs_rq[cpu]->h_nr_runnable);
	return present;
}

/*
 * Does @se leave CPU idle for @pse, an entity of the same queue, so that it can wait
 * for it? Not if it has waited for too long.
 */
static bool steer_headroom_waits_for(struct cfs_rq *cfs_rq, struct sched_entity *se,
				     struct sched_entity *pse)
{
	struct steer_headroom *held, *own;

	if (entity_is_task(se) || entity_is_task(pse) || pse->sched_delayed)
		return false;
	/* Whoever says cpu.idle runs after those who do not. */
	if (pse->my_q->idle > se->my_q->idle)
		return false;
	/* Each is read once: the group may get both of them meanwhile. */
	held = READ_ONCE(se->my_q->tg->steer.headroom);
	own = READ_ONCE(pse->my_q->tg->steer.headroom);
	if (!own || !steer_headroom_pool(held, cpu_of(rq_of(cfs_rq))) ||
	    READ_ONCE(own->request) <= READ_ONCE(held->request))
		return false;
	return steer_headroom_can_wait(avg_vruntime(cfs_rq) - se->vruntime, se->slice,
				       scale_load_down(cfs_rq->load.weight));
}

bool __steer_headroom_preempts(struct cfs_rq *cfs_rq, struct sched_entity *se,
			       struct sched_entity *pse)
{
	lockdep_assert_rq_held(rq_of(cfs_rq));

	if (!steer_headroom_waits_for(cfs_rq, se, pse))
		return false;
	cfs_rq->next = pse;
	atomic64_inc(&READ_ONCE(se->my_q->tg->steer.headroom)->preempted);
	return true;
}

/*
 * A wakeup says who is next, if what runs is to leave CPU idle for it. Whoever woke up
 * while something else ran, or while a switch was due anyway, is found in the tree: there
 * is one entity a group.
 */
struct sched_entity *__steer_headroom_instead(struct cfs_rq *cfs_rq,
					      struct sched_entity *se)
{
	struct sched_entity *curr = cfs_rq->curr, *next = cfs_rq->next;
	int look = STEER_INSTEAD_MOST;
	struct rb_node *node;

	lockdep_assert_rq_held(rq_of(cfs_rq));

	/* One that is delayed has to be picked to be taken off. */
	if (se->sched_delayed || entity_is_task(se) ||
	    !steer_queue_pool(se->my_q->tg, cpu_of(rq_of(cfs_rq))))
		return se;
	if (next && next != se && steer_headroom_waits_for(cfs_rq, se, next))
		return next;
	if (curr && curr != se && curr->on_rq && steer_headroom_waits_for(cfs_rq, se, curr))
		return curr;
	node = rb_first_cached(&cfs_rq->tasks_timeline);
	for (; node && look--; node = rb_next(node)) {
		next = rb_entry(node, struct sched_entity, run_node);
		if (next != se && steer_headroom_waits_for(cfs_rq, se, next))
			return next;
	}
	return se;
}

/* Where they are siblings; nothing is asked about what is on the way there. */
bool __steer_headroom_first(struct sched_entity *se, struct task_struct *p)
{
	struct sched_entity *pse = &p->se;

	lockdep_assert_rq_held(task_rq(p));

	while (se->depth > pse->depth)
		se = se->parent;
	while (pse->depth > se->depth)
		pse = pse->parent;
	while (se->cfs_rq != pse->cfs_rq) {
		se = se->parent;
		pse = pse->parent;
	}
	return steer_headroom_waits_for(se->cfs_rq, se, pse);
}

/* ------------------------------------------------------------ held back */

/*
 * It is in the list of its group's throttled queues as well, which is read under
 * RCU: one of cpu.max's timers may be on it, and must find its way back.
 */
void __steer_headroom_wait(struct cfs_rq *cfs_rq)
{
	struct cfs_bandwidth *cfs_b = &cfs_rq->tg->cfs_bandwidth;
	int cpu = cpu_of(rq_of(cfs_rq));
	struct steer_pool *pool = steer_queue_pool(cfs_rq->tg, cpu);
	struct steer_line *line;

	lockdep_assert_rq_held(rq_of(cfs_rq));
	lockdep_assert_held(&cfs_b->lock);

	if (!pool || (cfs_b->quota != RUNTIME_INF && !cfs_b->runtime))
		return;

	cfs_rq->steer.pool = pool;
	line = per_cpu_ptr(pool->lines, cpu);
	if (list_empty(&line->queues)) {
		list_add_tail(&line->link, &per_cpu(steer_waiting, cpu).lines);
		/* The interrupt that this leads to looks at the lines without the lock. */
		smp_mb__before_atomic();
		cpumask_set_cpu(cpu, pool->waiting);
	}
	list_add_tail(&cfs_rq->steer.waiting, &line->queues);
}

/*
 * The time goes to our counter and not to that of cpu.max, which counts from
 * throttled_clock on.
 */
void __steer_headroom_unthrottled(struct cfs_rq *cfs_rq)
{
	struct steer_pool *pool = cfs_rq->steer.pool;
	struct rq *rq = rq_of(cfs_rq);
	struct steer_line *line;

	lockdep_assert_rq_held(rq);

	if (!pool)
		return;
	if (cfs_rq->throttled_clock) {
		atomic64_add(rq_clock(rq) - cfs_rq->throttled_clock,
			     &cfs_rq->tg->steer.headroom->capped_ns);
		cfs_rq->throttled_clock = 0;
	}
	cfs_rq->steer.pool = NULL;
	list_del(&cfs_rq->steer.waiting);
	line = per_cpu_ptr(pool->lines, cpu_of(rq));
	if (list_empty(&line->queues)) {
		list_del(&line->link);
		cpumask_clear_cpu(cpu_of(rq), pool->waiting);
	}
}

/* It waits for its quota now, and for the timer of that. */
static void steer_wait_for_quota(struct cfs_rq *cfs_rq, struct cfs_bandwidth *cfs_b)
{
	lockdep_assert_held(&cfs_b->lock);

	__steer_headroom_unthrottled(cfs_rq);
	if (cfs_rq->nr_running)
		cfs_rq->throttled_clock = rq_clock(rq_of(cfs_rq));
	start_cfs_bandwidth(cfs_b);
}

/* With how much a queue that waits would go on until the next part; if it is empty, just go on */
static s64 steer_queue_wish(struct cfs_rq *cfs_rq)
{
	return (s64)(cfs_rq->h_nr_queued ? STEER_PART : 1) - cfs_rq->runtime_remaining;
}

/* As below; REQUIRES: cfs_b->lock */
static s64 steer_resume_locked(struct cfs_rq *cfs_rq, struct cfs_bandwidth *cfs_b)
{
	u64 want = steer_queue_wish(cfs_rq), grant;

	lockdep_assert_rq_held(rq_of(cfs_rq));

	if (cfs_b->quota != RUNTIME_INF) {
		if (!cfs_b->runtime) {
			steer_wait_for_quota(cfs_rq, cfs_b);
			return -1;
		}
		want = min(want, cfs_b->runtime);
	}
	grant = steer_queue_draw(cfs_rq, want);
	if (cfs_b->quota != RUNTIME_INF && grant) {
		cfs_b->runtime -= grant;
		cfs_b->idle = 0;
		start_cfs_bandwidth(cfs_b);
	}
	cfs_rq->runtime_remaining += grant;
	return cfs_rq->runtime_remaining > 0 ? (s64)grant : -1;
}

/*
 * A slice for a queue of a group that has had its first one of this period, without a lock:
 * what it is let go on with, or -1 if there is not enough, or it is not due to its group. Room
 * is taken before tokens are, so that its queues together do not take more than the group has.
 */
static s64 steer_queue_take(struct cfs_rq *cfs_rq, struct steer_pool *pool)
{
	s64 want = steer_queue_wish(cfs_rq);
	s64 least = min(want, (s64)STEER_GRANT_LEAST - cfs_rq->runtime_remaining);
	struct steer_headroom *hr = cfs_rq->tg->steer.headroom;
	u64 epoch = steer_pool_epoch(pool), level, weight;
	s64 got = 0;

	lockdep_assert_rq_held(rq_of(cfs_rq));

	if (!READ_ONCE(pool->account.binding) ||
	    READ_ONCE(cfs_rq->tg->cfs_bandwidth.quota) != RUNTIME_INF)
		return -1;
	/* Pairs with steer_headroom_renew(): its room is that of this period. */
	if (smp_load_acquire(&hr->epoch) != epoch)
		return -1;
	level = READ_ONCE(pool->account.level);
	weight = steer_headroom_weight(hr->tg);
	if (atomic64_read(&pool->tokens) < least || steer_headroom_room(hr, level, weight) < want)
		return -1;
	atomic64_add(want, &hr->moved);
	if (steer_headroom_room(hr, level, weight) >= 0)
		got = steer_pool_take(pool, want, least);
	if (got < want)
		atomic64_sub(want - got, &hr->moved);
	if (!got)
		return -1;
	steer_tally_count(&steer_queue_tally(cfs_rq, pool)->used, got);
	steer_queue_served(cfs_rq, got, epoch);
	cfs_rq->runtime_remaining += got;
	return got;
}

/* Ask for a slice for a queue that waits. Returns what it got, or -1 if nothing. */
static s64 steer_resume(struct cfs_rq *cfs_rq)
{
	struct cfs_bandwidth *cfs_b = &cfs_rq->tg->cfs_bandwidth;
	s64 got = steer_queue_take(cfs_rq, cfs_rq->steer.pool);

	if (got >= 0)
		return got;
	raw_spin_lock(&cfs_b->lock);
	got = steer_resume_locked(cfs_rq, cfs_b);
	raw_spin_unlock(&cfs_b->lock);
	return got;
}

/* Nothing is left for anybody here, until the next part. Only a guess. */
static bool steer_pool_empty(struct steer_pool *pool)
{
	return READ_ONCE(pool->account.binding) && atomic64_read(&pool->floor) <= 0 &&
	       atomic64_read(&pool->tokens) < (s64)STEER_GRANT_LEAST;
}

/*
 * Its group has had its share of this period. Only a guess without the group's lock, which
 * where there are many groups would be taken for nothing more than for something.
 */
static bool steer_queue_capped(struct cfs_rq *cfs_rq, struct steer_pool *pool)
{
	struct steer_headroom *hr = cfs_rq->tg->steer.headroom;

	/* Pairs with steer_headroom_renew(). */
	return smp_load_acquire(&hr->epoch) == READ_ONCE(pool->account.epoch) &&
	       READ_ONCE(pool->account.binding) && READ_ONCE(hr->capped) &&
	       steer_headroom_room(hr, READ_ONCE(pool->account.level),
				   steer_headroom_weight(hr->tg)) <
	       (s64)STEER_GRANT_LEAST &&
	       (atomic64_read(&pool->floor) <= 0 || !steer_queue_starves(cfs_rq, pool));
}

/**
 * struct steer_visit - how far one visit of a CPU's queues has come
 * @busy: runtime that the CPU can now spend
 * @look: at how many queues it may still look
 * @resumed: how many it let go on
 * @anyway: even those who should leave the core to another one
 */
struct steer_visit {
	s64 busy;
	int look;
	int resumed;
	bool anyway;
};

/*
 * Time for which a queue was not let run is no reason to let others wait for it. It is not
 * in the tree while it is throttled.
 */
static void steer_forget_lag(struct cfs_rq *cfs_rq)
{
	struct sched_entity *se = cfs_rq->tg->se[cpu_of(rq_of(cfs_rq))];

	lockdep_assert_rq_held(rq_of(cfs_rq));

	if (sched_smt_active() && !se->on_rq)
		se->vlag = min(se->vlag, 0);
}

/* As steer_resume(), if it need not be denied. */
static s64 steer_resume_one(struct cfs_rq *cfs_rq, struct steer_pool *pool,
			    struct steer_visit *visit)
{
	if (steer_queue_capped(cfs_rq, pool) || (!visit->anyway && steer_queue_leaves(cfs_rq)))
		return -1;
	return steer_resume(cfs_rq);
}

/*
 * Let queues of a line go on, those that have waited longest first, until the CPU
 * has something to do for as long as a part is. Whoever is denied goes to the end,
 * unless everybody would be.
 */
static void steer_resume_line(struct steer_line *line, struct steer_visit *visit)
{
	int look = min(visit->look, STEER_LOOK_LINE);
	struct steer_pool *pool = line->pool;
	struct cfs_rq *cfs_rq, *last;
	s64 grant;

	/* What joins the line meanwhile has just been denied. */
	last = list_last_entry(&line->queues, struct cfs_rq, steer.waiting);
	do {
		if (READ_ONCE(pool->account.binding) && visit->busy >= (s64)STEER_PART)
			return;
		visit->look--;
		cfs_rq = list_first_entry(&line->queues, struct cfs_rq, steer.waiting);
		grant = steer_resume_one(cfs_rq, pool, visit);
		if (grant >= 0) {
			cfs_rq->steer.resumed = cfs_rq->runtime_remaining;
			steer_forget_lag(cfs_rq);
			unthrottle_cfs_rq(cfs_rq);
			visit->resumed++;
			/* Not if it is empty, or an ancestor is throttled. */
			if (cfs_rq->h_nr_queued && !steer_cfs_throttled(cfs_rq))
				visit->busy += grant;
		} else if (steer_pool_empty(pool)) {
			return;
		} else if (cfs_rq->steer.pool) {
			list_move_tail(&cfs_rq->steer.waiting, &line->queues);
		}
	} while (cfs_rq != last && --look > 0 && visit->resumed < STEER_RESUME_MOST);
}

/* One line after the other. Returns whether there is more to be done at once. */
static bool steer_resume_some(struct rq *rq, struct steer_waiting *waiting,
			      struct steer_visit *visit)
{
	struct steer_line *line;
	LIST_HEAD(skipped);
	LIST_HEAD(lines);
	int look;

	lockdep_assert_rq_held(rq);

	visit->look = STEER_LOOK_MOST;
	visit->resumed = 0;
	list_splice_init(&waiting->lines, &lines);
	while (!list_empty(&lines) && visit->look > 0 &&
	       visit->resumed < STEER_RESUME_MOST) {
		line = list_first_entry(&lines, struct steer_line, link);
		list_move_tail(&line->link, &waiting->lines);
		look = visit->look;
		steer_resume_line(line, visit);
		/* It has not had its turn. */
		if (visit->look == look)
			list_move_tail(&line->link, &skipped);
	}
	list_splice(&lines, &waiting->lines);
	list_splice(&skipped, &waiting->lines);
	return visit->resumed >= STEER_RESUME_MOST && !list_empty(&waiting->lines);
}

/* An interrupt that a pool's timer sent */
static void steer_kicked(void *info)
{
	struct steer_waiting *waiting = info;
	struct rq *rq = this_rq();
	int rounds = STEER_ROUNDS_MOST;
	struct steer_visit visit = { };
	struct rq_flags rf;
	bool more;

	/* Whoever joins a line from here on sends another one: this is before they are read. */
	atomic_xchg(&waiting->kicked, 0);
	visit.anyway = xchg(&waiting->anyway, false);
	rcu_read_lock();
	do {
		/* Nobody waits any more: what was let go on last is not to be asked again. */
		if (list_empty(&waiting->lines))
			break;
		rq_lock(rq, &rf);
		waiting->beside = visit.anyway;
		update_rq_clock(rq);
		rq_clock_start_loop_update(rq);
		more = steer_resume_some(rq, waiting, &visit);
		if (visit.busy && sched_smt_active() && is_idle_task(rcu_dereference(rq->curr)))
			WRITE_ONCE(waiting->changing, true);
		rq_clock_stop_loop_update(rq);
		rq_unlock(rq, &rf);
	} while (more && --rounds);
	rcu_read_unlock();
}

static void steer_kick(int cpu, bool anyway)
{
	struct steer_waiting *waiting = per_cpu_ptr(&steer_waiting, cpu);

	if (anyway)
		WRITE_ONCE(waiting->anyway, true);
	if (atomic_xchg(&waiting->kicked, 1))
		return;
	/* It cannot wait for us to have left this interrupt. */
	if (smp_call_function_single_async(cpu, &waiting->csd))
		atomic_set(&waiting->kicked, 0);
}

/* The same for this CPU, whose runqueue is locked */
static void steer_kick_self(struct irq_work *work)
{
	steer_kicked(container_of(work, struct steer_waiting, work));
}

/* ------------------------------------------------------- a core to itself */

/*
 * What a queue has left goes back, so that it has to ask before it goes on; but for what it
 * has used since that was accounted last, which the switch will see to. If it is about all
 * that the queue was let go on with, it did not get on. The next queue of the pool that is let
 * go on takes it, mostly within a slice of the task that has the core.
 */
static void steer_queue_return(struct cfs_rq *cfs_rq)
{
	struct steer_pool *pool = steer_queue_pool(cfs_rq->tg, cpu_of(rq_of(cfs_rq)));
	struct cfs_bandwidth *cfs_b = &cfs_rq->tg->cfs_bandwidth;
	struct sched_entity *curr = cfs_rq->curr;
	s64 used = curr ? rq_clock_task(rq_of(cfs_rq)) - curr->exec_start : 0;
	s64 left = cfs_rq->runtime_remaining - max(used, 0LL);

	lockdep_assert_rq_held(rq_of(cfs_rq));

	if (left <= 0 || !pool)
		return;
	if (cfs_rq->steer.resumed && left > cfs_rq->steer.resumed - (s64)STEER_GRANT_LEAST)
		cfs_rq->steer.epoch = cfs_rq->steer.before;
	cfs_rq->runtime_remaining -= left;
	if (READ_ONCE(cfs_b->quota) == RUNTIME_INF) {
		atomic64_sub(left, &cfs_rq->tg->steer.headroom->moved);
		steer_tally_count(&steer_queue_tally(cfs_rq, pool)->used, -left);
		atomic64_add(left, &pool->tokens);
		return;
	}
	raw_spin_lock(&cfs_b->lock);
	__steer_headroom_charge(cfs_rq, -left);
	if (cfs_b->quota != RUNTIME_INF)
		cfs_b->runtime += left;
	raw_spin_unlock(&cfs_b->lock);
}

/* If what runs on this CPU leaves its core to another, see that it does. */
static void steer_leave_core(struct rq *rq, struct task_struct *curr)
{
	struct steer_waiting *waiting = this_cpu_ptr(&steer_waiting);
	struct task_group *held;

	lockdep_assert_rq_held(rq);

	if (waiting->beside || curr->sched_class != &fair_sched_class)
		return;
	held = steer_leaves_core(task_group(curr), cpu_of(rq));
	/* One that just joined its pool is not asked yet. */
	if (!held || !held->cfs_rq[cpu_of(rq)]->runtime_enabled)
		return;
	steer_queue_return(held->cfs_rq[cpu_of(rq)]);
	WRITE_ONCE(waiting->changing, true);
	resched_curr(rq);
}

static void steer_told_to_leave(void *info)
{
	struct steer_waiting *waiting = info;
	struct rq *rq = this_rq();

	atomic_xchg(&waiting->told, 0);
	guard(rcu)();
	guard(rq_lock)(rq);
	update_rq_clock(rq);
	steer_leave_core(rq, rcu_dereference(rq->curr));
}

/*
 * A task of @tg begins to run, after @prev. What is held back for it leaves the core: if it
 * was preempted, it does not go on here without asking.
 */
static void steer_take_core(struct rq *rq, struct task_group *tg, struct task_struct *prev)
{
	int thread, cpu = cpu_of(rq);

	for_each_cpu(thread, steer_core_mask(cpu)) {
		struct steer_waiting *waiting = per_cpu_ptr(&steer_waiting, thread);
		struct task_struct *other = thread == cpu ? prev :
					    rcu_dereference(cpu_rq(thread)->curr);
		struct task_group *held;

		if (other->sched_class != &fair_sched_class || READ_ONCE(waiting->beside))
			continue;
		held = steer_bound_for(tg, task_group(other), thread);
		if (!held)
			continue;
		if (thread == cpu) {
			steer_queue_return(held->cfs_rq[cpu]);
		} else if (!atomic_xchg(&waiting->told, 1)) {
			if (smp_call_function_single_async(thread, &waiting->leave))
				atomic_set(&waiting->told, 0);
		}
	}
}

/*
 * Has one of the pools that hold back queues of this CPU anything to give? Of another one,
 * whose runqueue is not locked, only the first line can be looked at.
 */
static bool steer_lines_get(struct steer_waiting *waiting, bool locked)
{
	struct steer_line *line;

	if (!locked) {
		line = list_first_or_null_rcu(&waiting->lines, struct steer_line, link);
		return line && steer_pool_gives(line->pool);
	}
	list_for_each_entry(line, &waiting->lines, link) {
		if (steer_pool_gives(line->pool))
			return true;
	}
	return false;
}

/* A task that wanted the core has left it. If it was the last one, whoever waits goes on. */
static void steer_free_core(struct rq *rq)
{
	int thread, cpu = cpu_of(rq);

	for_each_cpu(thread, steer_core_mask(cpu)) {
		if (thread != cpu && steer_wants_core(rcu_dereference(cpu_rq(thread)->curr)))
			return;
	}
	for_each_cpu(thread, steer_core_mask(cpu)) {
		struct steer_waiting *waiting = per_cpu_ptr(&steer_waiting, thread);

		if (!steer_lines_get(waiting, thread == cpu))
			continue;
		if (thread == cpu)
			irq_work_queue(&waiting->work);
		else
			steer_kick(thread, false);
	}
}

void __steer_headroom_switch(struct rq *rq, struct task_struct *prev, struct task_struct *next)
{
	struct steer_waiting *waiting = this_cpu_ptr(&steer_waiting);
	struct task_group *tg;

	lockdep_assert_rq_held(rq);

	/*
	 * So that who comes here for less than a claim holds does not leave one behind. If
	 * @next is another one, that claim is gone too early, which does no harm. Both are
	 * in a line that other CPUs read, so they are written only to be changed.
	 */
	if (READ_ONCE(waiting->claimed))
		WRITE_ONCE(waiting->claimed, 0);
	if (!sched_smt_active())
		return;
	guard(rcu)();
	if (READ_ONCE(waiting->changing))
		WRITE_ONCE(waiting->changing, false);
	tg = steer_wants_core(next);
	if (tg) {
		steer_take_core(rq, tg, prev);
		return;
	}
	steer_leave_core(rq, next);
	if (steer_wants_core(prev))
		steer_free_core(rq);
}

/* ------------------------------------------------------------ controller */

/**
 * steer_arena_search - the largest request in force
 * @arena: where
 * @above: smaller ones do not matter
 * @limit: at how many to look, or -1 for all; RCU read lock held
 *
 * Return: the largest request above @above of a child that has tasks and is not
 * frozen; 0 if there is none; what the last full search found if @limit is too
 * small to tell.
 */
unsigned int steer_arena_search(struct steer_arena *arena, unsigned int above,
				int limit)
{
	struct steer_headroom *hr;

	list_for_each_entry_rcu(hr, &arena->requests, link) {
		struct cgroup *cgrp = hr->tg->css.cgroup;
		unsigned int request = READ_ONCE(hr->request);

		if (request <= above)
			break;
		if (!limit--) {
			WRITE_ONCE(arena->crowded, true);
			return READ_ONCE(arena->searched);
		}
		/* Counters of a kind: what they are a moment later is as good. */
		if (data_race(cgroup_is_populated(cgrp)) &&
		    !test_bit(CGRP_FROZEN, &cgrp->flags))
			return request;
	}
	return 0;
}

/**
 * struct steer_view - what a pool sees at the end of a period, without its lock
 * @now: when
 * @most: the largest request in force
 * @idle_ns: idle time since the last view
 * @same: that is of the same CPUs as then
 * @cpus: how many those were
 * @rivals: pools that have to share with this one
 * @givers: those that are not further down
 * @shares: who took what of the budget since then
 */
struct steer_view {
	u64 now;
	unsigned int most;
	u64 idle_ns;
	bool same;
	unsigned int cpus;
	unsigned int rivals;
	unsigned int givers;
	struct steer_shares shares;
};

/* For how long was a CPU idle since its clock was read last? */
static u64 steer_pool_read(struct steer_pool *pool, int cpu, u64 now, s64 *spell)
{
	struct steer_seen *seen = &pool->seen[cpu];
	u64 before = seen->idle_ns, idle;

	*seen = (struct steer_seen){ .at = now, .idle_ns = steer_idle_clock(cpu, now, spell) };
	/* One that is about to come online shows, for a moment, that it was idle since it went. */
	idle = max((s64)(seen->idle_ns - before), 0LL);
	pool->idle_ns += idle;
	return idle;
}

/* Adds how long a CPU was idle in the window that ends now, as far as it can be told. */
static void steer_pool_see(struct steer_pool *pool, int cpu, u64 now, u64 window,
			   struct steer_bounds *sum)
{
	u64 since = now - pool->seen[cpu].at, idle;
	s64 spell;

	idle = steer_pool_read(pool, cpu, now, &spell);
	steer_headroom_idle_within(sum, idle, since, spell, window);
}

/* What all CPUs that are online were idle in the period that ends */
static u64 steer_pool_see_all(struct steer_pool *pool, u64 now)
{
	u64 idle;
	s64 spell;
	int cpu;

	for_each_cpu(cpu, pool->online)
		steer_pool_read(pool, cpu, now, &spell);
	idle = pool->idle_ns;
	pool->idle_ns = 0;
	return idle;
}

/*
 * What was drawn on all CPUs since this was called last, online or not. If it was nothing, which
 * it is for most of many pools, there is nothing to be read. Who has just seen @drawn set may
 * be counted next time.
 */
static void steer_pool_tally(struct steer_pool *pool, struct steer_shares *shares)
{
	struct steer_tally sum = { };
	int cpu;

	*shares = (struct steer_shares){ };
	if (!READ_ONCE(pool->drawn))
		return;
	WRITE_ONCE(pool->drawn, false);
	for_each_cpu(cpu, pool->cpus)
		steer_tally_add(&sum, &per_cpu_ptr(pool->lines, cpu)->tally);
	*shares = steer_tally_since(&sum, &pool->tallied);
	pool->tallied = sum;
}

static unsigned int steer_pool_depth(const struct steer_pool *pool)
{
	return min(pool->arena->parent->cgroup->level, STEER_DEPTHS - 1);
}

/* With how many others a pool has to share, on the CPU where they are most */
static void steer_pool_meet(struct steer_pool *pool, struct steer_view *view)
{
	unsigned int near = atomic_read(&pool->arena->active), depth = steer_pool_depth(pool);
	unsigned int all = pool->counted, above = pool->counted;
	bool alone = atomic_read(&steer_active_pools) == pool->counted;
	int cpu;

	/* Mostly it is with none, and then nothing is to be read of any CPU. */
	for_each_cpu(cpu, alone ? cpu_none_mask : pool->online) {
		unsigned int active = 0;

		for (unsigned int level = 0; level < STEER_DEPTHS; level++) {
			active += atomic_read(&per_cpu(steer_active, cpu).pools[level]);
			if (level == depth)
				above = max(above, active);
		}
		all = max(all, active);
	}
	view->rivals = steer_headroom_rivals(near, all);
	view->givers = steer_headroom_rivals(near, above);
}

static void steer_pool_look(struct steer_pool *pool, u64 now, struct steer_view *view)
{
	view->now = now;
	rcu_read_lock();
	view->most = steer_arena_search(pool->arena, pool->request, STEER_SEARCH_MOST);
	rcu_read_unlock();

	cpumask_and(pool->online, pool->cpus, cpu_online_mask);
	view->idle_ns = steer_pool_see_all(pool, now);
	steer_pool_meet(pool, view);
	view->same = cpumask_equal(pool->online, pool->measured);
	view->cpus = cpumask_weight(pool->measured);
	cpumask_copy(pool->measured, pool->online);
	/* The last, as the new period begins then. */
	steer_pool_tally(pool, &view->shares);
}

/* What a period would have brought if it had been exactly as long as it should. */
static u64 steer_per_period(s64 amount, u64 elapsed)
{
	/* A machine that stood still for hours would be more than 64 bits can hold. */
	return amount <= 0 || !elapsed ? 0 :
	       steer_headroom_times(amount, STEER_PERIOD, elapsed);
}

/* Tell the others on the same CPUs whether they share with this pool. */
static void steer_pool_count(struct steer_pool *pool, bool active)
{
	unsigned int depth = steer_pool_depth(pool);
	int cpu, delta = active ? 1 : -1;

	if (pool->counted == active)
		return;
	pool->counted = active;
	atomic_add(delta, &pool->arena->active);
	atomic_add(delta, &steer_active_pools);
	for_each_cpu(cpu, pool->cpus)
		atomic_add(delta, &per_cpu(steer_active, cpu).pools[depth]);
}

/*
 * May the budget be given in parts? Who has been at it goes on, and only pools that hold back
 * somebody count: nobody can take this from others by making pools in which nothing runs.
 */
static bool steer_pool_paces(struct steer_pool *pool, bool wants)
{
	atomic_t *pacing = per_cpu_ptr(&steer_pacing, pool->timer_cpu);
	bool paces = wants && steer_headroom_paces(atomic_read(pacing) - pool->pacing);

	if (paces != pool->pacing)
		atomic_add(paces ? 1 : -1, pacing);
	pool->pacing = paces;
	return paces;
}

/**
 * steer_headroom_paced - how many pools give out their budgets in parts?
 *
 * Return: how many, over all CPUs.
 */
unsigned int steer_headroom_paced(void)
{
	unsigned int paced = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		paced += atomic_read(per_cpu_ptr(&steer_pacing, cpu));
	return paced;
}

/* What is known of so many CPUs is all that is known of those that there are now. */
static void steer_pool_scale(struct steer_pool *pool, unsigned int from)
{
	unsigned int cpus = cpumask_weight(pool->measured);
	u64 capacity = STEER_PERIOD * cpus;

	pool->budget = clamp(steer_headroom_scaled(pool->budget, from, cpus),
			     steer_headroom_floor(capacity), capacity);
	WRITE_ONCE(pool->account.whole_level,
		   steer_headroom_scaled(pool->account.whole_level, from, cpus));
}

/* All CPUs read it, so it is not written for nothing. */
static void steer_account_set_level(struct steer_account *account, u64 level)
{
	if (account->level != level)
		WRITE_ONCE(account->level, level);
}

/*
 * The end of a period: decide about the next. Returns whether the pool will take
 * more or less in it. One that lacks idle time and is at its floor already can do
 * neither, whatever is demanded: nobody slows down others by demanding much.
 */
static bool steer_pool_update(struct steer_pool *pool, const struct steer_view *view,
			      struct steer_headroom_update *update)
{
	struct steer_account *account = &pool->account;
	const struct steer_shares *shares = &view->shares;
	u64 elapsed = view->now - pool->updated;
	struct steer_measure m;
	bool was_binding, lacks;
	s64 floor, tokens, left;

	lockdep_assert_held(&pool->lock);

	pool->wanting = account->binding && (shares->starved || shares->capped_weight ||
					     !cpumask_empty(pool->waiting));

	m.capacity = STEER_PERIOD * cpumask_weight(pool->measured);
	/* The clock of a CPU that came is as old as that. */
	m.idle = view->same ? min_t(u64, steer_per_period(view->idle_ns, elapsed), m.capacity) : 0;
	m.used = steer_per_period(shares->used, elapsed);
	m.demand = view->most > pool->request ? view->most - pool->request : 0;
	m.wanting = pool->wanting;
	m.rivals = view->rivals;
	m.givers = view->givers;
	m.lacking = pool->lacking;
	lacks = m.idle < steer_headroom_part(m.capacity, m.demand);
	floor = steer_headroom_floor(m.capacity);

	pool->updated = view->now;
	pool->demand = m.demand;
	WRITE_ONCE(account->last_level, account->binding ? account->level : STEER_LEVEL_NONE);
	/*
	 * Of CPUs that came or went nothing is known yet, and nothing is learned from a
	 * period that was short. The old budget will do.
	 */
	if (account->epoch && !view->same) {
		steer_pool_scale(pool, view->cpus);
	} else if (account->epoch && elapsed >= STEER_PERIOD / 2) {
		pool->idle = steer_headroom_percent(m.idle, m.capacity);
		pool->budget = steer_headroom_budget(&m, &pool->trim);
		WRITE_ONCE(account->whole_level, steer_headroom_level(pool->budget, shares));
		pool->lacking = lacks ? pool->lacking + 1 : 0;
	}
	steer_account_set_level(account, account->whole_level);
	was_binding = account->binding;
	WRITE_ONCE(account->binding, m.demand && pool->idle >= 0 && m.capacity);

	update->cgroup = cgroup_id(pool->arena->parent->cgroup);
	update->pool = pool->id;
	update->headroom = pool->request;
	update->cpus = cpumask_weight(pool->measured);
	update->elapsed = elapsed;
	update->demand = m.demand;
	update->idle = pool->idle;
	update->used = m.used;
	update->rivals = m.rivals;
	update->givers = m.givers;
	update->lacking = m.lacking;
	update->wanting = m.wanting;
	update->starved = shares->starved;
	update->capped_used = shares->capped_used;
	update->halved = pool->halved;
	update->active_weight = shares->active_weight;
	update->capped_weight = shares->capped_weight;
	update->budget = account->binding ? pool->budget : U64_MAX;
	update->level = account->level;
	update->trim = pool->trim;

	/* With what is taken meanwhile. */
	left = atomic64_read(&pool->floor);
	atomic64_add(clamp(left, -floor, 0LL) + floor - left, &pool->floor);
	/*
	 * What was given too much is taken off; what was not wanted is gone. What was
	 * used while there was no limit is no debt.
	 */
	tokens = atomic64_read(&pool->tokens);
	pool->owed = (was_binding ? clamp(tokens, -(s64)pool->budget, 0LL) : 0) - tokens;
	/* Pairs with steer_pool_epoch(). */
	smp_store_release(&account->epoch, account->epoch + 1);
	pool->given = 0;
	pool->parts_given = 0;
	pool->halved = 0;
	return pool->wanting && account->binding && (!lacks || (s64)pool->budget > floor);
}

/*
 * The tokens of the parts that are due. They are a sixteenth more than the
 * budget: what keeps to the budget are the caps of the groups, which are fair,
 * and tokens are not.
 */
static void steer_pool_refill(struct steer_pool *pool, u64 now)
{
	struct steer_account *account = &pool->account;
	u64 all = pool->budget + pool->budget / 16, due;
	unsigned int part = STEER_PARTS, left;

	lockdep_assert_held(&pool->lock);

	if (pool->paced)
		part = min(div_u64(now - pool->updated, STEER_PART) + 1, part);
	due = steer_headroom_due(all, part - pool->parts_given, STEER_PARTS, pool->halved);
	/* At once, so that nobody finds none in between. */
	atomic64_add(due + pool->owed, &pool->tokens);
	pool->owed = 0;
	pool->given += due;
	pool->parts_given = part;

	/* The first period of a pool is shorter, and so is one after a timer was late. */
	left = min(DIV_ROUND_UP_ULL(pool->next_update - now, STEER_PART), STEER_PARTS - part);
	due = steer_headroom_due(all, left, STEER_PARTS, pool->halved);
	steer_account_set_level(account, steer_headroom_lowered(account->whole_level, all,
								pool->given + due));
}

/*
 * The look after the one that was due. Who was late is not so again and again, and does not judge
 * a moment.
 */
static u64 steer_pool_next_check(const struct steer_pool *pool, u64 due)
{
	return max(due + STEER_CHECK, pool->checked + STEER_PART);
}

/*
 * All clocks have been read, since @now. When is the first look? Where there is no demand, there
 * will be none.
 */
static void steer_pool_check_from(struct steer_pool *pool, u64 now)
{
	pool->checked = ktime_get_ns();
	pool->next_check = pool->account.binding ? steer_pool_next_check(pool, now) : U64_MAX;
}

/*
 * What was idle in the window since the last look, or, if it is known to have been @enough, a
 * part of it that is as much.
 */
static struct steer_bounds steer_pool_idle(struct steer_pool *pool, u64 now, u64 window,
					   u64 enough)
{
	unsigned int always = cpumask_weight(pool->measured) * 3 / 8, read = 0;
	const struct cpumask *near = cpumask_of_node(numa_node_id());
	struct steer_bounds idle = { };

	for (int far = 0; far <= 1; far++) {
		int cpu;

		for_each_cpu(cpu, pool->measured) {
			if (cpumask_test_cpu(cpu, near) == far)
				continue;
			if (read++ >= always && idle.least >= enough)
				return idle;
			steer_pool_see(pool, cpu, now, window, &idle);
		}
	}
	return idle;
}

/*
 * How often to halve the rest of the budget, by what was idle since the last look. Of
 * CPUs that came or went, the end of the period will tell.
 */
static unsigned int steer_pool_check(struct steer_pool *pool, u64 now)
{
	unsigned int halved = pool->halved, cpus = cpumask_weight(pool->measured);
	u64 window = now - pool->checked, capacity = window * cpus, enough;
	bool exact = steer_idle_clock_exact();
	struct steer_bounds idle;

	cpumask_and(pool->online, pool->measured, cpu_online_mask);
	/* In so short a time there may have been no tick. */
	if (cpumask_equal(pool->online, pool->measured) &&
	    (exact || window >= min_t(u64, TICK_NSEC, STEER_PART))) {
		enough = !exact || halved ? U64_MAX : steer_headroom_scarce(capacity, pool->demand);
		idle = steer_pool_idle(pool, now, window, enough);
		halved = steer_headroom_halvings(halved, capacity, idle, pool->demand);
	}
	/*
	 * Where a virtual CPU stood still meanwhile, nobody knows when each clock was read, but
	 * that all were by now.
	 */
	pool->checked = ktime_get_ns();
	if (pool->checked - now > STEER_LOOK_LONGEST + cpus * NSEC_PER_USEC)
		halved = pool->halved;
	pool->next_check = steer_pool_next_check(pool, pool->next_check);
	return halved;
}

/* How many CPUs with waiting queues the tokens are enough for */
static int steer_pool_slices(struct steer_pool *pool)
{
	s64 tokens = atomic64_read(&pool->tokens);

	if (tokens < (s64)STEER_GRANT_LEAST)
		return 0;
	return min_t(u64, DIV_ROUND_UP_ULL(tokens, STEER_PART), STEER_KICK_MOST);
}

/* How many CPUs the floor is enough for, until the end of the period. */
static int steer_pool_turns(struct steer_pool *pool)
{
	s64 floor = atomic64_read(&pool->floor);

	return floor > 0 ? DIV_ROUND_UP_ULL(floor, STEER_FLOOR_COST) : 0;
}

/*
 * Turns at the floor, no more at once than CPUs are interrupted. Every other one is for a CPU
 * that is idle, where a queue runs as soon as it may, if there are so many. Returns how many
 * are for whoever is next.
 */
static int steer_pool_take_turns(struct steer_pool *pool)
{
	int turns = min(pool->turns, STEER_KICK_MOST), idle, cpu, start = pool->next_idle;

	if (cpumask_empty(pool->waiting))
		return 0;
	pool->turns -= turns;
	idle = (turns + !pool->turn_idle) / 2;
	pool->turn_idle ^= turns & 1;
	for_each_cpu_wrap(cpu, pool->waiting, start) {
		if (!idle)
			break;
		if (!idle_cpu(cpu))
			continue;
		steer_kick(cpu, true);
		pool->next_idle = cpu + 1 < nr_cpu_ids ? cpu + 1 : 0;
		idle--;
		turns--;
	}
	return turns;
}

/* Does this CPU run something that is in no pool? */
static bool steer_cpu_taken(int cpu)
{
	struct task_struct *curr = rcu_dereference(cpu_rq(cpu)->curr);

	if (is_idle_task(curr))
		return false;
	for (struct task_group *tg = task_group(curr); tg; tg = tg->parent) {
		if (steer_queue_pool(tg, cpu))
			return false;
	}
	return true;
}

static bool steer_core_taken(int cpu)
{
	bool taken = false;
	int thread;

	rcu_read_lock();
	for_each_cpu(thread, steer_core_mask(cpu))
		taken |= steer_cpu_taken(thread);
	rcu_read_unlock();
	return taken;
}

/*
 * Interrupt so many CPUs with waiting queues that are whole cores, of which no thread has
 * anything else to do, and go on behind them next time. What is held back then slows down
 * itself, and leaves cores to others. Returns how many there were.
 */
static int steer_pool_kick_cores(struct steer_pool *pool, int slices)
{
	int cpu, thread, kicked = 0;

	for_each_cpu_wrap(cpu, pool->waiting, pool->next_core) {
		if (kicked >= slices) {
			pool->next_core = cpu;
			break;
		}
		if (cpumask_first_and(steer_core_mask(cpu), pool->waiting) != cpu ||
		    steer_core_taken(cpu))
			continue;
		for_each_cpu_and(thread, steer_core_mask(cpu), pool->waiting) {
			steer_kick(thread, false);
			kicked++;
		}
	}
	return kicked;
}

/*
 * Interrupt so many CPUs with waiting queues, and as many more as have a turn at the
 * floor, every other of them idle, and go on behind them next time. When all had their
 * turn, the one that was first is the last next time: what there is may not be enough
 * for all. On so many as @anyway, and for a turn, they need not have the core to themselves.
 */
static void steer_pool_kick(struct steer_pool *pool, int slices, int anyway)
{
	int cpu, start = pool->next_cpu, first = nr_cpu_ids, turns;

	if (sched_smt_active() && slices < STEER_KICK_MOST)
		slices = max(slices - steer_pool_kick_cores(pool, slices), 0);

	turns = steer_pool_take_turns(pool);
	slices += turns;
	anyway += turns;
	for_each_cpu_wrap(cpu, pool->waiting, start) {
		if (!slices--) {
			pool->next_cpu = cpu;
			return;
		}
		if (first == nr_cpu_ids)
			first = cpu;
		steer_kick(cpu, anyway-- > 0);
	}
	pool->next_cpu = first + 1 < nr_cpu_ids ? first + 1 : 0;
}

static enum hrtimer_restart steer_pool_timer(struct hrtimer *timer)
{
	u64 began = local_clock();
	struct steer_pool *pool = container_of(timer, struct steer_pool, timer);
	u64 now = ktime_to_ns(hrtimer_cb_get_time(timer));
	bool update = now >= pool->next_update, active = false, wants, paced;
	unsigned int halved = pool->halved, timers = this_cpu_read(steer_timers);
	struct steer_headroom_update event = { };
	int slices = STEER_KICK_MOST, anyway = 0;
	struct steer_view view;
	unsigned long flags;

	WRITE_ONCE(pool->ran_on, smp_processor_id());
	if (update)
		steer_pool_look(pool, now, &view);
	else if (now + STEER_PART / 2 >= pool->next_check)
		halved = steer_pool_check(pool, now);

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (update) {
		active = steer_pool_update(pool, &view, &event);
		pool->next_update = max(pool->next_update + STEER_PERIOD,
					now + STEER_PERIOD / 2);
		steer_pool_check_from(pool, now);
		wants = pool->account.binding ? pool->wanting : !cpumask_empty(pool->waiting);
		/* Without a demand all go on as soon as they can, however many there are. */
		pool->paced = steer_pool_paces(pool, wants) ||
			      (wants && !pool->account.binding);
		pool->turns = steer_pool_turns(pool);
		steer_pool_refill(pool, now);
	} else if (pool->account.binding) {
		/* What nobody took of the last parts. */
		anyway = div_u64(max(atomic64_read(&pool->tokens), 0LL), STEER_PART);
		pool->halved = halved;
		steer_pool_refill(pool, now);
	}
	if (pool->account.binding)
		slices = steer_pool_slices(pool);
	else if (cpumask_empty(pool->waiting))
		pool->paced = false;
	paced = pool->paced;
	raw_spin_unlock_irqrestore(&pool->lock, flags);

	/* Nobody will look at what is left of it before it is gone. */
	if (!paced)
		anyway = slices;
	pool->took += local_clock() - began;
	steer_pool_kick(pool, slices, anyway);
	if (update) {
		steer_pool_count(pool, active);
		event.took = pool->took;
		pool->took = 0;
		trace_steer_headroom_update(&event);
	}
	if (paced || update)
		hrtimer_forward(timer, ns_to_ktime(now),
				ns_to_ktime(paced ? STEER_PART :
					    STEER_PERIOD * steer_headroom_periods(timers)));
	else
		hrtimer_set_expires(timer, ns_to_ktime(pool->next_update));
	return HRTIMER_RESTART;
}

/* ------------------------------------------------------- joining a pool */

static void steer_pool_release(struct steer_pool *pool)
{
	free_cpumask_var(pool->cpus);
	free_cpumask_var(pool->waiting);
	free_cpumask_var(pool->measured);
	free_cpumask_var(pool->online);
	free_percpu(pool->lines);
	kvfree(pool->seen);
	kfree(pool);
}

static void steer_pool_free_rcu(struct rcu_head *rcu)
{
	steer_pool_release(container_of(rcu, struct steer_pool, rcu));
}

/*
 * A CPU for the timer of a pool of these CPUs: this one, if it has room, else the next
 * that has, else whichever has fewest. REQUIRES: lock of CPU hotplug
 */
static int steer_timer_cpu(const struct cpumask *cpus)
{
	unsigned int least = UINT_MAX;
	int cpu, here = raw_smp_processor_id(), best = here;

	for_each_cpu_wrap(cpu, cpu_online_mask, here) {
		unsigned int timers = per_cpu(steer_timers, cpu);

		if (cpu_is_isolated(cpu))
			continue;
		if (timers < STEER_TIMERS_GOOD && cpumask_test_cpu(cpu, cpus))
			return cpu;
		if (timers < least) {
			least = timers;
			best = cpu;
		}
	}
	return best;
}

static void steer_pool_start_here(void *info)
{
	struct steer_pool *pool = info;

	hrtimer_start_expires(&pool->timer, HRTIMER_MODE_ABS_PINNED_HARD);
}

static void steer_pool_start(struct steer_pool *pool)
{
	guard(cpus_read_lock)();

	pool->timer_cpu = steer_timer_cpu(pool->cpus);
	WRITE_ONCE(pool->ran_on, pool->timer_cpu);
	per_cpu(steer_timers, pool->timer_cpu)++;
	smp_call_function_single(pool->timer_cpu, steer_pool_start_here, pool, true);
}

static void steer_pool_stop(struct steer_pool *pool)
{
	hrtimer_cancel(&pool->timer);
	steer_pool_paces(pool, false);
	per_cpu(steer_timers, pool->timer_cpu)--;
}

/**
 * steer_pool_settle - see that the timer of a pool is where it should be
 * @pool: the pool
 *
 * Those of a CPU that goes offline all move to one other, and stay there.
 */
void steer_pool_settle(struct steer_pool *pool)
{
	if (READ_ONCE(pool->ran_on) == pool->timer_cpu && !cpu_is_isolated(pool->timer_cpu))
		return;
	steer_pool_stop(pool);
	steer_pool_start(pool);
}

/*
 * A pool begins with what is known in the one that its first group comes from: nobody
 * gets rid of a limit by a change of CPUs. It is that one's budget, whoever stays there;
 * the level sees to it that nobody has more than the share that he had.
 */
static void steer_pool_seed(struct steer_pool *pool, struct steer_pool *from, u64 now)
{
	raw_spin_lock_irq(&from->lock);
	pool->idle = from->idle;
	pool->lacking = from->lacking;
	pool->halved = from->halved;
	pool->budget = from->budget;
	pool->account.whole_level = from->account.whole_level;
	pool->trim = from->trim;
	raw_spin_unlock_irq(&from->lock);
	if (pool->idle < 0)
		return;

	raw_spin_lock_irq(&pool->lock);
	steer_pool_scale(pool, cpumask_weight_and(from->cpus, cpu_online_mask));
	pool->account.level = pool->account.whole_level;
	pool->account.binding = pool->demand && !cpumask_empty(pool->measured);
	/* For no more than this period, which is a part of one. */
	pool->paced = pool->account.binding;
	steer_pool_check_from(pool, now);
	if (pool->account.binding)
		steer_pool_refill(pool, now);
	raw_spin_unlock_irq(&pool->lock);
}

/**
 * steer_pool_create - a pool without groups
 * @arena: whose children will join
 * @request: headroom that they have themselves
 * @cpus: that they may use
 * @from: the pool of the arena in which the first of them is, or NULL
 *
 * Return: the pool, its timer running, or NULL without memory.
 */
struct steer_pool *steer_pool_create(struct steer_arena *arena, unsigned int request,
				     const struct cpumask *cpus, struct steer_pool *from)
{
	/* Under steer_headroom_mutex, as everything here is. */
	static u64 last_id;
	struct steer_pool *pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	struct steer_headroom_update event = { };
	struct steer_view view;
	int cpu;
	u64 now;

	if (!pool)
		return NULL;
	pool->lines = alloc_percpu_gfp(struct steer_line, GFP_KERNEL_ACCOUNT);
	pool->seen = kvcalloc(nr_cpu_ids, sizeof(*pool->seen), GFP_KERNEL_ACCOUNT);
	if (!pool->lines || !pool->seen ||
	    !zalloc_cpumask_var(&pool->cpus, GFP_KERNEL_ACCOUNT) ||
	    !zalloc_cpumask_var(&pool->waiting, GFP_KERNEL_ACCOUNT) ||
	    !zalloc_cpumask_var(&pool->measured, GFP_KERNEL_ACCOUNT) ||
	    !zalloc_cpumask_var(&pool->online, GFP_KERNEL_ACCOUNT)) {
		steer_pool_release(pool);
		return NULL;
	}
	for_each_possible_cpu(cpu) {
		struct steer_line *line = per_cpu_ptr(pool->lines, cpu);

		line->pool = pool;
		INIT_LIST_HEAD(&line->queues);
	}
	pool->arena = arena;
	pool->id = ++last_id;
	pool->request = request;
	cpumask_copy(pool->cpus, cpus);
	pool->idle = -1;
	pool->account.whole_level = STEER_LEVEL_NONE;
	raw_spin_lock_init(&pool->lock);
	list_add_tail_rcu(&pool->link, &arena->pools);

	steer_hrtimer_setup(&pool->timer, steer_pool_timer, HRTIMER_MODE_ABS_PINNED_HARD);
	/* All periods end at the same time, and so read the same clocks. */
	now = ktime_get_ns();
	steer_pool_look(pool, now, &view);
	scoped_guard(raw_spinlock_irq, &pool->lock)
		steer_pool_update(pool, &view, &event);
	pool->next_update = STEER_PERIOD * (1 + div64_u64(now, STEER_PERIOD));
	if (from)
		steer_pool_seed(pool, from, now);
	hrtimer_set_expires(&pool->timer, ns_to_ktime(pool->paced ?
			    STEER_PART * (1 + div64_u64(now, STEER_PART)) :
			    pool->next_update));
	steer_pool_start(pool);
	return pool;
}

/**
 * steer_pool_destroy - end a pool that all groups have left
 * @pool: the pool
 */
void steer_pool_destroy(struct steer_pool *pool)
{
	WARN_ON_ONCE(pool->nr_groups);

	list_del_rcu(&pool->link);
	steer_pool_stop(pool);
	WARN_ON_ONCE(!cpumask_empty(pool->waiting));
	steer_pool_count(pool, false);
	call_rcu(&pool->rcu, steer_pool_free_rcu);
}

/* A queue whose group has another pool now, or none */
static void steer_queue_join(struct task_group *tg, int cpu)
{
	struct cfs_rq *cfs_rq = tg->cfs_rq[cpu];
	bool enabled;

	guard(rq_lock_irq)(rq_of(cfs_rq));
	enabled = steer_queue_pool(tg, cpu) ||
		  READ_ONCE(tg->cfs_bandwidth.quota) != RUNTIME_INF;
	if (enabled && !cfs_rq->runtime_enabled)
		cfs_rq->runtime_remaining = 0;
	cfs_rq->runtime_enabled = enabled;
	/* It may run without a tick; the next switch sees to it itself. */
	if (enabled && cfs_rq->h_nr_queued && tick_nohz_full_cpu(cpu))
		tick_nohz_dep_set_cpu(cpu, TICK_DEP_BIT_SCHED);
	if (cfs_rq->steer.pool)
		unthrottle_cfs_rq(cfs_rq);
}

/**
 * steer_pool_join - let a group draw from a pool, or from none
 * @tg: the group; not the root
 * @pool: the pool, or NULL. What waits for the old one goes on
 */
void steer_pool_join(struct task_group *tg, struct steer_pool *pool)
{
	struct cfs_bandwidth *cfs_b = &tg->cfs_bandwidth;
	struct steer_headroom *hr = tg->steer.headroom;
	struct steer_pool *old = hr->pool;
	int cpu;

	if (pool == old)
		return;

	guard(cpus_read_lock)();

	if (pool && !old)
		cfs_bandwidth_usage_inc();

	scoped_guard(raw_spinlock_irq, &cfs_b->lock) {
		hr->epoch = 0;
		atomic64_set(&hr->moved, 0);
		WRITE_ONCE(hr->pool, pool);
	}
	/* Nothing changes on CPUs of neither; those that are off see to it when they come. */
	for_each_online_cpu(cpu) {
		if ((old && cpumask_test_cpu(cpu, old->cpus)) ||
		    (pool && cpumask_test_cpu(cpu, pool->cpus)))
			steer_queue_join(tg, cpu);
	}

	if (old && !pool)
		cfs_bandwidth_usage_dec();
	if (old)
		old->nr_groups--;
	if (pool)
		pool->nr_groups++;
}

static int __init steer_waiting_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct steer_waiting *waiting = per_cpu_ptr(&steer_waiting, cpu);

		INIT_LIST_HEAD(&waiting->lines);
		INIT_CSD(&waiting->csd, steer_kicked, waiting);
		INIT_CSD(&waiting->leave, steer_told_to_leave, waiting);
		waiting->work = IRQ_WORK_INIT_HARD(steer_kick_self);
	}
	return 0;
}
early_initcall(steer_waiting_init);
