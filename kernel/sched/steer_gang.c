// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.gang: when the fair tasks of a group run: together
 *
 * DOC: what a gang can and cannot do
 *
 * Threads that meet at a barrier, spin for a lock, or are the virtual CPUs of one
 * machine wait for each other while they run. If each CPU picks by itself, one
 * member of such a group spins here while the one that it waits for waits there.
 * A gang is a group whose members run at the same time, or not at all.
 *
 * Its ancestor, of 2011, had one CPU interrupt all others whenever it picked a
 * member, and those either asked for a next buddy, which needs to be eligible and
 * therefore often was not taken, or ran the member without limit. The first did
 * little, the second broke fairness by up to half, and both interrupted others
 * without bound. Here
 *
 *  - time is cut into slots, at most one at a time on the same CPUs. A gang has its
 *    slot, or all that are in no gang have theirs, so there is nothing to start
 *    but at the beginning of a slot: one round of interrupts at most, and only to
 *    CPUs that have a runnable member and run something else of equal standing;
 *  - which of them comes next is decided by EEVDF, on whichever CPU gets there
 *    first; the others do the same, whether their own EEVDF would or not;
 *  - what they run is charged as ever. A CPU on which the others have waited for
 *    a slot beyond their due does not follow, and one where the gang is owed a
 *    slot's length does not hold it back. So on each CPU the shares are off by two
 *    slots and a tick at any time, whatever happens: 12 ms with slots of 4 ms, or
 *    1.2 % of a second;
 *  - whoever has no slots waits for one slot after EEVDF picked it, and not for one of
 *    each gang;
 *  - where nobody competes, nothing is done, and where no slot was begun lately, next to
 *    nothing: a pick reads no clock and looks at no slot.
 *
 * The model, with numbers
 * -----------------------
 * Two groups of eight threads, A, which is a gang, and H, of busy loops, share
 * eight CPUs; request 3 ms, tick 4 ms. CPU 3 is the first to pick A. There are
 * others on CPU 3, so that this was a choice; other CPUs have runnable members; no
 * slot is under way: CPU 3 leads one, from 0 to 4 ms. It publishes gang and end,
 * and interrupts the seven others. Each finds A's slot when it picks, runs its
 * member until the end, and has a timer set to it.
 *
 * At 4 ms all timers fire. Each CPU picks; A has run 4 ms where 2 were its due, so
 * EEVDF picks H. The first CPU to do so starts the others' slot, from 4 to 8 ms:
 * members are held back, where there is anything else to run. At 8 ms the timers
 * fire again, and A is picked again. No interrupt was needed since the first ones,
 * unless a timer was late.
 *
 * With a second gang B on the same CPUs, EEVDF picks B where it picked H, and the
 * first CPU to do so leads B's slot. If B is on other CPUs of the scope, of which none is
 * A's, they run it as EEVDF says during A's slot, and pick again at the end of that.
 *
 * Who has a say
 * -------------
 * A CPU where members alone are runnable made no choice, and neither leads nor
 * begins the others' slot; a gang that has to compete on one CPU only has no slots.
 * A kernel thread, or a task that uses less than 6 % of a CPU, is picked, and runs,
 * but begins no slot: it will be gone in a moment. The others' slot follows on one
 * of a gang only. A CPU on which only gangs compete does not wait for it to end, unless
 * somebody was overruled in the slot before that.
 *
 * A CPU's debt starts at what another CPU's choice makes it. Ticks are aligned and
 * slots common, so what is picked differs between CPUs only by what disturbed
 * single ones; those differences persist, and do no harm as long as they are
 * smaller than a slot. When they are larger, that CPU goes its own way until they
 * are not.
 *
 * Which CPUs share a slot
 * -----------------------
 * Those of one scope: of a core, an LLC, a node, or the root domain. But gangs that no CPU
 * is common to need not take turns. So where cpusets divide the gangs of a scope, so that
 * none in one part may use a CPU of another, each part has slots of its own. A gang whose
 * cpuset has CPUs of two parts makes one of them. Affinity does not count: it is that of
 * single tasks. The cgroup side finds that out now and then (kernel/cgroup/steer_gang.c).
 * Until then what was true before has an effect: gangs take turns that need not, or one
 * has slots of its own in each of two parts; in both cases shares are what they are.
 *
 * Within a slot
 * -------------
 * The favoured entity is that of the gang's topmost group, and its ancestors, level by
 * level from the root; below it EEVDF chooses a member. A member that sleeps leaves its
 * CPU to whoever EEVDF picks, and comes back at once when it wakes up. Others that wake
 * up wait for the end of the slot. A task that uses less than 6 % of a CPU need not:
 * EEVDF is asked, and if it picks that, it comes first, for it will be gone in a moment.
 * If it waits until a new slot begins, it need not even have the earliest deadline, but
 * be eligible: several gangs that take turns may each be ahead of it by a little, slot
 * after slot. That is kind to daemons, and to the gang, too: a task that waits while
 * slots last is a load, often the heaviest of its CPU, since it has the weight of a
 * whole group to itself, and the load balancer moves others away from it. Per-CPU kernel
 * threads do not wait at all: the kernel depends on them.
 *
 * Several gangs may each be ahead of their due by a slot, and so let somebody who is in
 * none wait for as many slots as there are gangs. So each CPU notes since when it has run
 * something else although EEVDF picked a task that has no slots to take turns with, or one to
 * which the CPU was due when it woke up in the slot. It does not follow a slot against EEVDF
 * that would make that longer than one slot; who has waited then has its turn, for a slot's
 * length. Where others run on many CPUs, these would stop following at
 * different times, and no gang would be together. So the slot, too, has a note that somebody
 * was overruled in it, and whoever begins the next one leaves it to the others.
 *
 * Slots put gangs behind their due, too, and EEVDF picks those that are before one that has just
 * woken up. It would not have come to that without slots. So whoever wakes up, and is due, waits
 * for one gang by EEVDF's choice, whose slot has that note; and if another one is picked after
 * that, the eligible one with the earliest deadline that has no slots goes first. A task that
 * runs for 5 of each 20 ms beside four gangs waited for up to 17 ms, of which 4 were EEVDF's;
 * now it is 8, but for one sample in five.
 *
 * A gang that leaves CPU idle for others (cpu.headroom) does so in its slots: on each pick
 * EEVDF is asked, and with it the rules of headroom. Whoever they let go first, for as long
 * as they do, goes before the slot.
 *
 * Real-time and deadline tasks, and those of a BPF scheduler that has a class of its
 * own, take the CPU as ever: nothing here is asked about them. When they are done,
 * the pick finds the slot again, if it is still under way.
 *
 * A gang that is throttled (cpu.max) on a CPU is not runnable there; one in an idle
 * group (cpu.idle) gives way as others do, and has no slots. Entities whose dequeue
 * is delayed do not count as runnable. With core scheduling each CPU proposes the
 * favoured member; the pick for the whole core may take another, for a cookie's
 * sake, and all threads of a core follow, or none. CPUs without a scheduling domain
 * (isolated ones) take no part, and tickless ones (nohz_full) are not interrupted.
 *
 * More members than CPUs: one on each CPU runs in a slot, and those that share a
 * CPU take turns within the gang's share.
 *
 * Is it worth it?
 * ---------------
 * Members that sleep before the end of a slot do not need each other's presence. If
 * they did so on half of the CPUs where they compete, the gang is left alone for 2
 * slots, then 4, and so on up to 64, until one is used: in this LLC, if that is the
 * scope; its members in another one may do something else. Those that cpu.max keeps from
 * running did not sleep.
 *
 * Placement
 * ---------
 * Two members on one CPU cannot run together. A new member goes to an idle CPU of its
 * parent's scope without a member, of an idle core if there is one; a waking one of a
 * gang that had a slot lately looks for one, too. The load balancer does not bring a
 * second member to a CPU unless that makes the numbers more equal, or, after some
 * attempts, there is nobody else that it could take. And a CPU that picks a member while
 * another one waits there pushes that to a CPU of the scope without any, now and then:
 * members that never sleep are placed by nobody else.
 *
 * In the others' slot, a CPU on which members are alone runs them, for nothing if they
 * wait for those that are held back elsewhere. And where two others share a CPU with a
 * member, the gang is owed less there than on the rest, so it cannot have its due
 * anywhere. So a CPU that picks one of no gang, in the others' slot or because it does
 * not follow, pushes another such one to the nearest CPU of the scope that has a member,
 * and two less that are not of that gang. The load balancer would not always: a task that
 * sleeps for half of the time has the load of its whole group when it does not.
 *
 * Locks and lifetime
 * ------------------
 * All decisions are made under the lock of the runqueue concerned. What is read of
 * other runqueues (is a member runnable there?) is a hint; the CPU looks itself,
 * under its lock, when it picks. A slot has a lock for those who begin it, or leave it
 * early, taken inside runqueue locks; who finds that another one has begun picks
 * again. Who merely picks reads gang and end without it: the end is
 * cleared before, and written after, the gang. And at the beginning of a slot, when all
 * CPUs come at once, they join by counting themselves; the last one needs the lock. On
 * 32 CPUs of two nodes a third of the gain was lost where each of them took it twice,
 * and waited for the leader to count the members.
 *
 * A CPU that is picking when a slot begins, or whose timer is about to make it pick,
 * is not interrupted. It says that it picks before it reads the slots, and reads them
 * again after it has said that it is done; the leader publishes the slot before it
 * asks; so one of them sees the other. A CPU that finds that nowhere in the machine a slot
 * was begun lately does not read the slots; all that it asks when it is done is whether
 * that is still so. The leader makes all CPUs read slots again before it publishes one.
 *
 * Interrupts are asynchronous calls, one request to a CPU. Its flag is cleared before
 * the handler looks at the slots, so one that was not sent because another was under
 * way is not lost. A CPU that goes offline leaves the domain, has its timer moved
 * and its requests served; slots belong to no CPU, so nobody misses their leader.
 *
 * A gang is freed with its group. When the group goes offline, it is marked inactive
 * and taken out of all slots, under their locks; who begins a slot looks at the mark
 * under the lock, so it does not come back. Whoever has read it from a slot before is
 * in an RCU read-side section, by having interrupts off, and the group is freed a
 * grace period later at least. What a CPU remembers of a gang beyond that is only
 * compared, except for the counters, and is wiped before those are freed.
 */
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>
#include <trace/events/steer.h>

#include "sched.h"
#include "steer.h"
#include "steer_compat.h"
#include "steer_gang_rules.h"

/* What a task has to use of its CPU to begin a slot, or to wait for its end; of 1024. */
#define STEER_GANG_MIN_UTIL	64

/* How often the members of a gang that has slots are counted, in a second. */
#define STEER_GANG_COUNTS	20

/* How many entities are looked at for one that is in no gang. */
#define STEER_GANG_LOOK		32

/* How deep a gang may be below groups that hold nothing else. */
#define STEER_GANG_CHAIN	8

/* Why a CPU ceased to run a member; as show_steer_gang_end() has it. */
enum steer_gang_why {
	STEER_GANG_OVER,
	STEER_GANG_ASLEEP,
	STEER_GANG_PREEMPTED,
};

/* What became of the attempt to begin a slot. */
enum steer_gang_bid {
	STEER_GANG_NOT,
	STEER_GANG_LED,
	STEER_GANG_LOST,
	STEER_GANG_LATER,
	STEER_GANG_TURN,
	STEER_GANG_YIELDED,
};

/**
 * struct steer_gang_slot - what goes on in one scope
 * @cpu: whose it is: the first one of the scope, or of a part of it
 * @end: when the slot ends, 0 while one is being set up [ns]
 * @seq: number of the slot
 * @gang: whose it is, NULL for the others'
 * @last: the last gang that had one
 * @overruled: number of the last one in which somebody waits who would run by EEVDF's
 *	choice, and is in no gang
 * @due: it is the others', which somebody waited for
 * @lock: protects what follows, and changes of what is before; not on the same line, for
 *	each CPU that picks reads that
 * @running: CPUs that run a member (low half), in the slot of this number (high half)
 * @members: CPUs that had a runnable member then, and others that compete with it
 * @slept: those on which a member went to sleep since
 * @corun: for how long the members ran together
 */
struct steer_gang_slot {
	int			cpu;
	u64			end;
	u64			seq;
	struct steer_gang	*gang;
	struct steer_gang	*last;
	u64			overruled;
	bool			due;
	raw_spinlock_t		lock ____cacheline_aligned_in_smp;
	atomic64_t		running;
	int			members;
	int			slept;
	struct steer_gang_corun	corun;
} ____cacheline_aligned_in_smp;

/**
 * struct steer_gang_tried - what is tried again, but ever more seldom
 * @next: not before that [ns]
 * @pause: how many slots were between that and the last time
 */
struct steer_gang_tried {
	u64			next;
	unsigned int		pause;
};

/**
 * struct steer_gang_cpu - what a CPU knows; under its rq lock, but for some
 * @cpu: its number
 * @kicked: an interrupt is under way, for this slot; atomic
 * @picking: a pick is under way, which looks again when it is done; read by others
 * @armed: a pick will begin then or soon after, 0 if none may; read by others [ns]
 * @running: the gang of the running task; read by others, and only compared
 * @csd: the request for the interrupt
 * @timer: ends slots
 * @timer_end: when it does, or did [ns]
 * @now: when the last pick began [ns]
 * @favour: the gang whose slot the last pick obeys
 * @slot: that slot
 * @seq: its number
 * @end: and its end [ns]
 * @held: scopes in which the others have their slot
 * @held_end: when the first one ends in which a gang waits here [ns]
 * @busy: scopes in which a gang has its slot
 * @wide: those of them that have a member here
 * @quiet: no slot was begun lately, and the last pick looked at none
 * @seen: ends of the slots that the last pick saw, 0 for one that was being set up [ns]
 * @retried: the last pick was repeated
 * @ask: EEVDF is asked before the favoured slot is obeyed
 * @asked: it was, for the pick that is repeated now
 * @woke: a task woke up in the slot that will be gone in a moment
 * @before: such a one goes before the slot that begins, if it is eligible
 * @went: it was looked for, for the pick that is repeated now
 * @turn: it is one that has waited for long which does, in the pick that is repeated now
 * @overruled: who waits for slots, although EEVDF picked it
 * @next_try: look for members on other CPUs not before [ns]
 * @joined: the gang whose member runs, in a slot
 * @joined_slot: that slot
 * @joined_seq: its number
 * @joined_end: its end [ns]
 * @joined_since: since when [ns]
 * @joined_counts: others competed for the CPU then
 * @followed_slot: the slot that this CPU began to follow
 * @followed_seq: its number
 * @slept_slot: the slot in which a member last went to sleep here
 * @slept_seq: its number
 * @spread: the gang of which one member is to leave this CPU
 * @spread_other: or, if that is set, one that is in no gang
 * @tried: when that was tried, for a member and for such another one
 * @push: to do that when the pick is over
 */
struct steer_gang_cpu {
	int			cpu;
	struct steer_gang_slot	*kicked;
	bool			picking;
	u64			armed;
	struct steer_gang	*running;
	call_single_data_t	csd;
	struct hrtimer		timer;
	u64			timer_end;
	u64			now;
	struct steer_gang	*favour;
	struct steer_gang_slot	*slot;
	u64			seq;
	u64			end;
	unsigned int		held;
	u64			held_end;
	unsigned int		busy;
	unsigned int		wide;
	bool			quiet;
	u64			seen[STEER_NR_SCOPES];
	bool			retried;
	bool			ask;
	bool			asked;
	bool			woke;
	bool			before;
	bool			went;
	bool			turn;
	struct steer_gang_overruled overruled;
	u64			next_try;
	struct steer_gang	*joined;
	struct steer_gang_slot	*joined_slot;
	u64			joined_seq;
	u64			joined_end;
	u64			joined_since;
	bool			joined_counts;
	struct steer_gang_slot	*followed_slot;
	u64			followed_seq;
	struct steer_gang_slot	*slept_slot;
	u64			slept_seq;
	struct steer_gang	*spread;
	bool			spread_other;
	struct steer_gang_tried	tried[2];
	struct balance_callback	push;
};

/* A slot belongs to the first CPU of its scope, or of a part of that. */
static DEFINE_PER_CPU(struct steer_gang_slot [STEER_NR_SCOPES], steer_gang_slots);
static DEFINE_PER_CPU_SHARED_ALIGNED(struct steer_gang_cpu, steer_gang_cpus);

/* How many gangs are active in each scope; changed by the cgroup side only. */
static int steer_gang_nr[STEER_NR_SCOPES];

/* What of each scope has slots of its own, NULL for all of it. */
static DEFINE_PER_CPU(struct steer_gang_part __rcu *[STEER_NR_SCOPES], steer_gang_parts);

/* Off a second after the last user: flipping it interrupts every CPU. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(steer_gang_key, HZ);

/* Until then slots may be under way, or just over, somewhere [jiffies]. */
static unsigned long steer_gang_loud_until = INITIAL_JIFFIES;

static struct steer_gang_cpu *steer_gang_cpu(struct rq *rq)
{
	return &per_cpu(steer_gang_cpus, cpu_of(rq));
}

static void steer_gang_count(struct steer_gang *gang, enum steer_gang_counter counter,
			     u64 n)
{
	this_cpu_add(gang->pcpu->count[counter], n);
}

static u64 steer_gang_length(void)
{
	return steer_gang_slot_length(sysctl_sched_base_slice, TICK_NSEC);
}

/* Was no slot begun lately, and so is none under way, and none that ended is of interest? */
static bool steer_gang_quiet(void)
{
	return time_after(jiffies, READ_ONCE(steer_gang_loud_until));
}

/* A slot begins. All CPUs read this, so it is written once in a tick. */
static void steer_gang_make_loud(u64 length)
{
	unsigned long until = jiffies + HZ / 10 + nsecs_to_jiffies(2 * length);

	if (READ_ONCE(steer_gang_loud_until) != until)
		WRITE_ONCE(steer_gang_loud_until, until);
}

/* The CPUs of @cpu's scope; some may be outside of its root domain. */
static const struct cpumask *steer_gang_mask(int cpu, enum steer_scope scope)
{
	struct sched_domain *sd;

	switch (scope) {
	case STEER_SCOPE_CORE:
		return steer_core_mask(cpu);
	case STEER_SCOPE_LLC:
		sd = rcu_dereference_sched(per_cpu(sd_llc, cpu));
		return sd ? sched_domain_span(sd) : cpumask_of(cpu);
	case STEER_SCOPE_NODE:
		return cpumask_of_node(cpu_to_node(cpu));
	default:
		return cpu_rq(cpu)->rd->span;
	}
}

/* REQUIRES: the lock of @rq, which keeps it in its root domain. */
static struct steer_gang_slot *steer_gang_slot(struct rq *rq, enum steer_scope scope)
{
	const struct cpumask *mask = steer_gang_mask(cpu_of(rq), scope);
	struct steer_gang_part *part;
	int first;

	part = rcu_dereference_sched(per_cpu(steer_gang_parts, cpu_of(rq))[scope]);
	for_each_cpu_and(first, mask, rq->rd->span) {
		if (!part || test_bit(first, part->cpus))
			break;
	}
	if (first >= nr_cpu_ids)
		first = cpu_of(rq);
	return &per_cpu(steer_gang_slots, first)[scope];
}

/*
 * What is under way in @slot at @now? Returns its end, 0 for nothing. Who writes
 * clears the end first; a reader that sees the same end twice has seen gang and
 * number that belong to it.
 */
static u64 steer_gang_slot_read(struct steer_gang_slot *slot, u64 now,
				struct steer_gang **gang, u64 *seq)
{
	u64 end;

	/* Pairs with smp_store_release() in steer_gang_publish(). */
	end = smp_load_acquire(&slot->end);
	if (now >= end)
		return 0;
	*gang = READ_ONCE(slot->gang);
	*seq = READ_ONCE(slot->seq);
	smp_rmb();	/* pairs with smp_wmb() in steer_gang_publish() */
	return READ_ONCE(slot->end) == end ? end : 0;
}

/* Runnable members on @cpu. Without its lock, this is a hint. */
static unsigned int steer_gang_queued(struct steer_gang *gang, int cpu)
{
	struct cfs_rq *cfs_rq = gang->tg->cfs_rq[cpu];

	if (steer_cfs_throttled(cfs_rq))
		return 0;
	return READ_ONCE(cfs_rq->h_nr_runnable);
}

/* Does none want to run there? One that is throttled would, if it was let. */
static bool steer_gang_asleep(struct steer_gang *gang, int cpu)
{
	return !steer_gang_queued(gang, cpu) &&
	       !steer_cfs_throttled(gang->tg->cfs_rq[cpu]);
}

/* Could a member run here? REQUIRES: the lock of @rq. */
static bool steer_gang_here(struct steer_gang *gang, struct rq *rq)
{
	struct sched_entity *se;

	if (!READ_ONCE(gang->active) || !steer_gang_queued(gang, cpu_of(rq)))
		return false;
	for (se = gang->tg->se[cpu_of(rq)]; se; se = se->parent) {
		if (!se->on_rq || se->sched_delayed || se->my_q->idle > 0)
			return false;
	}
	return true;
}

/* The most, of all levels that it is picked at. One at which nobody competes owes nothing. */
static s64 steer_gang_owed_here(struct steer_gang *gang, struct rq *rq)
{
	struct sched_entity *se;
	s64 most = S64_MIN;

	for (se = gang->tg->se[cpu_of(rq)]; se; se = se->parent) {
		u64 average = avg_vruntime(se->cfs_rq);

		most = max(most, steer_gang_lag(average, se->vruntime,
						scale_load_down(se->load.weight)));
	}
	return most;
}

/* The most, of all levels; below 0, the gang has. */
static s64 steer_gang_waited_here(struct steer_gang *gang, struct rq *rq)
{
	struct sched_entity *se;
	s64 most = S64_MIN;

	for (se = gang->tg->se[cpu_of(rq)]; se; se = se->parent) {
		struct cfs_rq *cfs_rq = se->cfs_rq;
		unsigned long weight = scale_load_down(se->load.weight);
		unsigned long total = cfs_rq->avg_load;
		u64 average = avg_vruntime(cfs_rq);
		s64 lag = steer_gang_lag(average, se->vruntime, weight);

		if (cfs_rq->curr && cfs_rq->curr->on_rq)
			total += scale_load_down(cfs_rq->curr->load.weight);
		most = max(most, steer_gang_wait(lag, weight, total) -
				 steer_gang_wait(-lag, weight, total));
	}
	return most;
}

/*
 * With core scheduling, what is picked for one thread of a core decides about the
 * others, so all of them have the same opinion: the mean. They share a lock.
 */
static s64 steer_gang_mean(s64 (*of)(struct steer_gang *gang, struct rq *rq),
			   struct steer_gang *gang, struct rq *rq)
{
	s64 sum = 0;
	int cpu, nr = 0;

	if (!sched_core_enabled(rq))
		return of(gang, rq);
	for_each_cpu(cpu, steer_core_mask(cpu_of(rq))) {
		if (__rq_lockp(cpu_rq(cpu)) != __rq_lockp(rq) ||
		    !steer_gang_here(gang, cpu_rq(cpu)))
			continue;
		sum += of(gang, cpu_rq(cpu));
		nr++;
	}
	return nr ? div_s64(sum, nr) : of(gang, rq);
}

/* What the gang is owed on this core; REQUIRES: the lock of @rq. */
static s64 steer_gang_owed(struct steer_gang *gang, struct rq *rq)
{
	return steer_gang_mean(steer_gang_owed_here, gang, rq);
}

/* For how long the others on this core have waited beyond their due; likewise. */
static s64 steer_gang_waited(struct steer_gang *gang, struct rq *rq)
{
	return steer_gang_mean(steer_gang_waited_here, gang, rq);
}

/* Runnable tasks that compete for the CPU; SCHED_IDLE ones do not. */
static int steer_gang_competing(struct cfs_rq *cfs_rq)
{
	return (int)READ_ONCE(cfs_rq->h_nr_runnable) - (int)steer_cfs_nr_idle(cfs_rq);
}

/* Those here that are not of the gang. */
static int steer_gang_others(struct steer_gang *gang, struct rq *rq)
{
	return steer_gang_competing(&rq->cfs) -
	       steer_gang_competing(gang->tg->cfs_rq[cpu_of(rq)]);
}

/*
 * Does a member compete on @cpu? Where members are alone, they run whether there is a
 * slot or not. Without the lock of its runqueue, this is a hint.
 */
static bool steer_gang_contested(struct steer_gang *gang, int cpu)
{
	return steer_gang_queued(gang, cpu) && steer_gang_others(gang, cpu_rq(cpu)) > 0;
}

/* Does @p give way to all others: by its policy, or that of a group that it is in? */
static bool steer_gang_gives_way(struct task_struct *p)
{
	struct sched_entity *se;

	if (task_has_idle_policy(p))
		return true;
	for (se = p->se.parent; se; se = se->parent) {
		if (se->my_q->idle > 0)
			return true;
	}
	return false;
}

/* Does it run a little now and then only? */
static bool steer_gang_light(struct task_struct *p)
{
	return p->flags & PF_KTHREAD ||
	       READ_ONCE(p->se.avg.util_avg) < STEER_GANG_MIN_UTIL;
}

/* Is it worth a slot that this task was picked? */
static bool steer_gang_weighty(struct task_struct *p)
{
	return !steer_gang_light(p) && !steer_gang_gives_way(p);
}

/* Will it be gone in a moment? One that gives way to others can wait. */
static bool steer_gang_brief(struct task_struct *p)
{
	return steer_gang_light(p) && !steer_gang_gives_way(p);
}

/*
 * Will what runs below @se be? A group's tasks are, if all together use as little. What
 * uses half of its share may be a busy loop with a small one.
 */
static bool steer_gang_brief_entity(struct sched_entity *se)
{
	unsigned long util = READ_ONCE(se->avg.util_avg);

	if (!se->on_rq || se->sched_delayed || util >= STEER_GANG_MIN_UTIL ||
	    util * 2 * se->cfs_rq->load.weight > 1024 * se->load.weight)
		return false;
	if (entity_is_task(se))
		return steer_gang_brief(container_of(se, struct task_struct, se));
	return se->my_q->idle <= 0 && !READ_ONCE(se->my_q->tg->steer.gang.effective);
}

/* Has it no slots, and does not give way? */
static bool steer_gang_other_entity(struct sched_entity *se)
{
	if (!se->on_rq || se->sched_delayed)
		return false;
	if (entity_is_task(se))
		return !steer_gang_gives_way(container_of(se, struct task_struct, se));
	return se->my_q->idle <= 0 && !READ_ONCE(se->my_q->tg->steer.gang.effective) &&
	       READ_ONCE(se->my_q->h_nr_runnable);
}

/* The first eligible one for which @is holds; what runs is not in the tree. */
static struct sched_entity *steer_gang_first(struct cfs_rq *cfs_rq,
					     bool (*is)(struct sched_entity *se))
{
	struct rb_node *node;
	int look = STEER_GANG_LOOK;

	if (READ_ONCE(cfs_rq->tg->steer.gang.effective))
		return NULL;
	if (cfs_rq->curr && is(cfs_rq->curr) &&
	    entity_eligible(cfs_rq, cfs_rq->curr))
		return cfs_rq->curr;
	for (node = rb_first_cached(&cfs_rq->tasks_timeline); node && look--;
	     node = rb_next(node)) {
		struct sched_entity *se = rb_entry(node, struct sched_entity, run_node);

		if (is(se) && entity_eligible(cfs_rq, se))
			return se;
	}
	return NULL;
}

/* Does one wait beside the members here, or beside a group that they are in? */
static bool steer_gang_one_waits(struct steer_gang *gang, struct rq *rq,
				 bool (*is)(struct sched_entity *se))
{
	struct sched_entity *se;

	for (se = gang->tg->se[cpu_of(rq)]; se; se = se->parent) {
		if (steer_gang_first(se->cfs_rq, is))
			return true;
	}
	return false;
}

static void steer_gang_arm(struct steer_gang_cpu *me, u64 end)
{
	if (me->timer_end == end)
		return;
	me->timer_end = end;
	WRITE_ONCE(me->armed, end);
	hrtimer_start(&me->timer, ns_to_ktime(end), HRTIMER_MODE_ABS_PINNED_HARD);
}

static enum hrtimer_restart steer_gang_timer(struct hrtimer *timer)
{
	struct steer_gang_cpu *me = container_of(timer, struct steer_gang_cpu, timer);
	struct rq *rq = cpu_rq(me->cpu);
	struct rq_flags rf;

	rq_lock(rq, &rf);
	if (rq->online && steer_rq_donor(rq)->sched_class == &fair_sched_class &&
	    rq->cfs.h_nr_queued > 1)
		resched_curr(rq);
	else
		WRITE_ONCE(me->armed, 0);
	rq_unlock(rq, &rf);
	return HRTIMER_NORESTART;
}

/* Returns whether an interrupt was sent. If one is under way, it is for both. */
static bool steer_gang_kick(int cpu, struct steer_gang_slot *slot)
{
	struct steer_gang_cpu *to = &per_cpu(steer_gang_cpus, cpu);

	/* It would be called at once, and wait for the lock that is held here. */
	if (WARN_ON_ONCE(cpu == smp_processor_id()))
		return false;
	if (xchg(&to->kicked, slot))
		return false;
	if (!smp_call_function_single_async(cpu, &to->csd))
		return true;
	WRITE_ONCE(to->kicked, NULL);
	return false;
}

static int steer_gang_running(struct steer_gang_slot *slot)
{
	return lower_32_bits(atomic64_read(&slot->running));
}

/* The interrupt: is there a slot for a member that waits here? */
static void steer_gang_kicked(void *info)
{
	struct steer_gang_cpu *me = info;
	struct rq *rq = cpu_rq(me->cpu);
	u64 now = ktime_get_ns(), seq;
	struct steer_gang_slot *kicked;
	struct steer_gang *gang;
	struct rq_flags rf;
	int scope;

	/* Before the slots are looked at, so that no later one is missed. */
	kicked = xchg(&me->kicked, NULL);

	rq_lock(rq, &rf);
	for (scope = STEER_SCOPE_SYSTEM; scope >= STEER_SCOPE_CORE; scope--) {
		struct steer_gang_slot *slot = steer_gang_slot(rq, scope);

		if (!steer_gang_slot_read(slot, now, &gang, &seq) || !gang)
			continue;
		if (steer_gang_here(gang, rq)) {
			if (steer_rq_donor(rq)->sched_class == &fair_sched_class &&
			    me->joined != gang)
				resched_curr(rq);
			break;
		}
		/* One whose members are on other CPUs did not ask for this interrupt. */
		if (slot != kicked)
			continue;
		steer_gang_count(gang, STEER_GANG_IPIS_EMPTY, 1);
		raw_spin_lock(&slot->lock);
		if (slot->seq == seq) {
			slot->slept += steer_gang_asleep(gang, me->cpu);
			steer_gang_corun_fewer(&slot->corun);
			/* Who joins from now on compares itself with that. */
			smp_mb();	/* pairs with atomic64_inc_return() in steer_gang_joins() */
			steer_gang_corun_run(&slot->corun, steer_gang_running(slot), now);
		}
		raw_spin_unlock(&slot->lock);
	}
	rq_unlock(rq, &rf);
}

/* Settle the account of a slot; REQUIRES: its lock. */
static void steer_gang_close(struct steer_gang_slot *slot, u64 now, u64 end)
{
	struct steer_gang *gang = slot->gang;
	struct steer_gang_pcpu *pcpu;
	unsigned int backoff;

	lockdep_assert_held(&slot->lock);

	if (!gang || !slot->members)
		return;
	pcpu = per_cpu_ptr(gang->pcpu, slot->cpu);
	steer_gang_corun_update(&slot->corun, min(now, end));
	steer_gang_count(gang, STEER_GANG_CORUN_NS, slot->corun.total);
	backoff = steer_gang_backoff(pcpu->backoff, slot->slept, slot->members);
	/* There may be less than when they were counted. */
	if (slot->slept)
		WRITE_ONCE(pcpu->members, 0);
	pcpu->backoff = backoff;
	WRITE_ONCE(pcpu->quiet_until, backoff ? end + backoff * steer_gang_length() : 0);
}

/* Begin a slot: of a gang, or the others' if that is NULL; REQUIRES: its lock. */
static void steer_gang_publish(struct steer_gang_slot *slot, struct steer_gang *gang,
			       u64 now, u64 end, int members)
{
	lockdep_assert_held(&slot->lock);

	steer_gang_make_loud(end - now);
	steer_gang_close(slot, now, slot->end);
	WRITE_ONCE(slot->end, 0);
	smp_wmb();	/* pairs with smp_rmb() in steer_gang_slot_read() */
	WRITE_ONCE(slot->gang, gang);
	WRITE_ONCE(slot->due, !gang && READ_ONCE(slot->overruled) == slot->seq);
	if (gang)
		WRITE_ONCE(slot->last, gang);
	WRITE_ONCE(slot->seq, slot->seq + 1);
	atomic64_set(&slot->running, slot->seq << 32);
	slot->members = members;
	slot->slept = 0;
	memset(&slot->corun, 0, sizeof(slot->corun));
	slot->corun.runnable = members;
	/* Pairs with smp_load_acquire() in steer_gang_slot_read(). */
	smp_store_release(&slot->end, end);
}

/*
 * CPUs of the scope on which a member competes; a hint. All wait for whoever begins the
 * slot, so it is counted some times a second only, unless there were none, or one slept.
 */
static int steer_gang_members(struct steer_gang *gang, struct rq *rq,
			      enum steer_scope scope, struct steer_gang_pcpu *pcpu)
{
	int cpu, members = READ_ONCE(pcpu->members);

	if (members > 1 && jiffies - READ_ONCE(pcpu->counted) < HZ / STEER_GANG_COUNTS)
		return members;
	members = 0;
	for_each_cpu_and(cpu, steer_gang_mask(cpu_of(rq), scope), rq->rd->span) {
		if (rcu_access_pointer(cpu_rq(cpu)->sd))
			members += steer_gang_contested(gang, cpu);
	}
	WRITE_ONCE(pcpu->members, members);
	WRITE_ONCE(pcpu->counted, jiffies);
	return members;
}

/* Interrupt those that have a member and run something else. */
static int steer_gang_kick_members(struct steer_gang *gang, struct rq *rq,
				   struct steer_gang_slot *slot, enum steer_scope scope,
				   u64 now)
{
	u64 soon = now + NSEC_PER_USEC * 20;
	int cpu, ipis = 0;

	for_each_cpu_and(cpu, steer_gang_mask(cpu_of(rq), scope), rq->rd->span) {
		struct steer_gang_cpu *to = &per_cpu(steer_gang_cpus, cpu);
		u64 armed = READ_ONCE(to->armed);

		if (cpu == cpu_of(rq) || READ_ONCE(to->running) == gang)
			continue;
		/* It picks, or its timer is about to make it: it will see the slot. */
		if (READ_ONCE(to->picking) || (armed && armed <= soon))
			continue;
		if (!steer_gang_contested(gang, cpu))
			continue;
		if (!rcu_access_pointer(cpu_rq(cpu)->sd) ||
		    !housekeeping_cpu(cpu, HK_TYPE_TICK))
			continue;
		/*
		 * With core scheduling a CPU picks for its siblings, too. Its own pick
		 * may be done; the lock is that of the core, and so covers its timer.
		 */
		if (cpu == smp_processor_id())
			steer_gang_arm(to, now + 1);
		else
			ipis += steer_gang_kick(cpu, slot);
	}
	steer_gang_count(gang, STEER_GANG_IPIS, ipis);
	return ipis;
}

/* The pick that is under way goes by this slot. */
static void steer_gang_obey(struct steer_gang_cpu *me, struct steer_gang *gang,
			    struct steer_gang_slot *slot, u64 seq, u64 end)
{
	me->favour = gang;
	me->slot = slot;
	me->seq = seq;
	me->end = end;
}

/* And so do those that come, until its end. */
static void steer_gang_followed(struct steer_gang_cpu *me)
{
	me->followed_slot = me->slot;
	me->followed_seq = me->seq;
}

static bool steer_gang_has_followed(struct steer_gang_cpu *me,
				    struct steer_gang_slot *slot, u64 seq)
{
	return me->followed_slot == slot && me->followed_seq == seq;
}

/* May @gang have slots in this scope? REQUIRES: the lock of the slot, which a stop takes. */
static bool steer_gang_is_active(struct steer_gang *gang, enum steer_scope scope)
{
	/* Pairs with smp_store_release() in steer_gang_start(). */
	return smp_load_acquire(&gang->active) && READ_ONCE(gang->scope) == scope;
}

/* Somebody who is in no gang waits for the slot: whoever begins the next one is to know. */
static void steer_gang_leave_next(struct steer_gang_cpu *me)
{
	if (READ_ONCE(me->slot->overruled) != me->seq)
		WRITE_ONCE(me->slot->overruled, me->seq);
}

/* Whoever waits here does so for one that has slots, by EEVDF's choice; but for one only. */
static void steer_gang_lets_wait(struct steer_gang_cpu *me)
{
	if (me->overruled.since)
		steer_gang_leave_next(me);
	steer_gang_agrees(&me->overruled, me->end);
}

/*
 * Is it the turn of one that waits here, beside members of @gang, whose slot would last
 * until @end? The pick is repeated, with that one first.
 */
static bool steer_gang_turn(struct rq *rq, struct steer_gang_cpu *me,
			    struct steer_gang *gang, u64 end)
{
	if (me->turn ||
	    !steer_gang_too_long(&me->overruled, me->now, end, steer_gang_length()) ||
	    !steer_gang_one_waits(gang, rq, steer_gang_other_entity))
		return false;
	me->turn = true;
	return true;
}

/* @rq is about to run a member of @gang, by EEVDF's choice: begin a slot? */
static enum steer_gang_bid steer_gang_lead(struct rq *rq, struct steer_gang_cpu *me,
					   struct steer_gang *gang,
					   struct task_struct *p)
{
	enum steer_scope scope = READ_ONCE(gang->scope);
	struct steer_gang_slot *slot = steer_gang_slot(rq, scope);
	struct steer_gang_pcpu *pcpu = per_cpu_ptr(gang->pcpu, slot->cpu);
	struct steer_gang_view view = {
		.now = me->now,
		.quiet_until = READ_ONCE(pcpu->quiet_until),
		/* That this CPU found nothing else to run is reason enough. */
		.slot_end = me->busy & BIT(scope) ? me->now + 1 : 0,
		.members = 2,
		.others = steer_gang_others(gang, rq),
		.wider = me->wide >> scope > 1,
		/* Where somebody did, and is gone, the slot is of no use any more. */
		.due = me->held & BIT(scope) && READ_ONCE(slot->due) &&
		       me->now >= me->overruled.until,
	};
	u64 length = steer_gang_length(), end = me->now + length, seq;
	int ipis;

	if (me->now < me->next_try || !steer_gang_may_lead(&view) ||
	    !steer_gang_weighty(p) || !steer_gang_here(gang, rq))
		return STEER_GANG_NOT;

	/* Another CPU was faster. */
	if (me->now < READ_ONCE(slot->end) &&
	    (READ_ONCE(slot->gang) || !(me->held & BIT(scope))))
		return STEER_GANG_LOST;

	view.members = steer_gang_members(gang, rq, scope, pcpu);
	if (!steer_gang_may_lead(&view)) {
		me->next_try = end;
		return STEER_GANG_NOT;
	}
	/* What is gone in a moment goes before the slot. */
	if (!me->went && steer_gang_one_waits(gang, rq, steer_gang_brief_entity))
		return STEER_GANG_LATER;
	if (steer_gang_turn(rq, me, gang, end))
		return STEER_GANG_TURN;

	raw_spin_lock(&slot->lock);
	if (me->now < slot->end && (slot->gang || !(me->held & BIT(scope)))) {
		raw_spin_unlock(&slot->lock);
		return STEER_GANG_LOST;
	}
	if (!steer_gang_is_active(gang, scope)) {
		raw_spin_unlock(&slot->lock);
		return STEER_GANG_NOT;
	}
	if (slot->gang && steer_gang_yields(READ_ONCE(slot->overruled), slot->seq, me->now,
					    slot->end, length)) {
		steer_gang_publish(slot, NULL, me->now, end, 0);
		raw_spin_unlock(&slot->lock);
		trace_steer_gang_lead(0, cpu_of(rq), scope, 0, 0, end);
		return STEER_GANG_YIELDED;
	}
	steer_gang_publish(slot, gang, me->now, end, view.members);
	seq = slot->seq;
	raw_spin_unlock(&slot->lock);

	steer_gang_obey(me, gang, slot, seq, end);
	steer_gang_followed(me);
	steer_gang_lets_wait(me);
	WRITE_ONCE(gang->led, jiffies);
	steer_gang_count(gang, STEER_GANG_SLOTS_LED, 1);

	/* The slot is there before it is asked who is about to pick anyway. */
	smp_mb();	/* pairs with the one in steer_gang_decide() */
	ipis = steer_gang_kick_members(gang, rq, slot, scope, me->now);
	trace_steer_gang_lead(gang->id, cpu_of(rq), scope, view.members, ipis, end);
	return STEER_GANG_LED;
}

/*
 * @rq is about to run something of no gang, by EEVDF's choice, although a member of
 * the gang that had the last slot waits here: the others' slot begins.
 */
static enum steer_gang_bid steer_gang_pass(struct rq *rq, struct steer_gang_cpu *me,
					   struct task_struct *p)
{
	u64 length = steer_gang_length(), end = me->now + length;
	enum steer_gang_bid bid = STEER_GANG_NOT;
	int scope;

	if (!steer_gang_weighty(p))
		return STEER_GANG_NOT;

	for (scope = STEER_SCOPE_CORE; scope < STEER_NR_SCOPES; scope++) {
		struct steer_gang_slot *slot;
		struct steer_gang *last;
		u64 before;

		if (!READ_ONCE(steer_gang_nr[scope]) ||
		    ((me->held | me->busy) & BIT(scope)))
			continue;
		slot = steer_gang_slot(rq, scope);
		before = READ_ONCE(slot->end);
		last = READ_ONCE(slot->last);
		if (!before || !last || READ_ONCE(slot->gang) != last ||
		    me->now >= before + length || !steer_gang_here(last, rq))
			continue;
		raw_spin_lock(&slot->lock);
		if (me->now < slot->end || slot->gang != last) {
			raw_spin_unlock(&slot->lock);
			return STEER_GANG_LOST;
		}
		steer_gang_publish(slot, NULL, me->now, end, 0);
		raw_spin_unlock(&slot->lock);

		me->held |= BIT(scope);
		me->held_end = end;
		bid = STEER_GANG_LED;
		trace_steer_gang_lead(0, cpu_of(rq), scope, 0, 0, end);
	}
	return bid;
}

/*
 * All CPUs come at the same time; the lock is for the one that makes them complete, and
 * for those of a slot that is over by now. That is not theirs to count.
 */
static void steer_gang_joins(struct steer_gang_slot *slot, u64 seq, u64 now)
{
	u64 running = atomic64_inc_return(&slot->running);

	if (upper_32_bits(running) != lower_32_bits(seq)) {
		raw_spin_lock(&slot->lock);
		if (slot->seq << 32 == running - lower_32_bits(running)) {
			atomic64_dec(&slot->running);
			/* Somebody may have taken it for the last one. */
			if (slot->gang)
				steer_gang_corun_run(&slot->corun, steer_gang_running(slot), now);
		}
		raw_spin_unlock(&slot->lock);
		return;
	}
	if ((int)lower_32_bits(running) < READ_ONCE(slot->corun.runnable))
		return;
	raw_spin_lock(&slot->lock);
	if (slot->seq == seq && slot->gang) {
		/* There may be more than when they were counted. */
		slot->members = max(slot->members, steer_gang_running(slot));
		steer_gang_corun_run(&slot->corun, steer_gang_running(slot), now);
	}
	raw_spin_unlock(&slot->lock);
}

/* A member begins to run in a slot; REQUIRES: the lock of the CPU's runqueue. */
static void steer_gang_join(struct steer_gang_cpu *me, struct task_struct *p, u64 now)
{
	struct steer_gang_slot *slot = me->slot;

	me->joined_counts = steer_gang_others(me->favour, cpu_rq(me->cpu)) > 0;
	if (me->joined_counts)
		steer_gang_joins(slot, me->seq, now);

	me->joined_slot = slot;
	me->joined_seq = me->seq;
	me->joined_end = me->end;
	me->joined_since = now;
	WRITE_ONCE(me->joined, me->favour);
	trace_steer_gang_follow(me->favour->id, me->cpu, p->pid);
}

/* It does not run any more, or the slot is over. */
static void steer_gang_leave(struct steer_gang_cpu *me, u64 now)
{
	enum steer_gang_why why = STEER_GANG_OVER;
	struct steer_gang_slot *slot = me->joined_slot;
	struct steer_gang *gang = READ_ONCE(me->joined);
	u64 until = min(now, me->joined_end), running;

	if (!gang)
		return;

	/* When it is over, all leave at once, and nothing depends on it. */
	if (now >= me->joined_end)
		goto out;
	raw_spin_lock(&slot->lock);
	if (slot->seq == me->joined_seq && slot->gang && now < slot->end) {
		bool asleep = steer_gang_asleep(gang, me->cpu);
		bool gone = !steer_gang_queued(gang, me->cpu);

		why = gone ? STEER_GANG_ASLEEP : STEER_GANG_PREEMPTED;
		if (me->joined_counts) {
			if (gone)
				steer_gang_corun_fewer(&slot->corun);
			running = atomic64_dec_return(&slot->running);
			steer_gang_corun_run(&slot->corun, lower_32_bits(running), now);
		}
		/* One that sleeps often counts once. */
		if (asleep && me->joined_counts &&
		    (me->slept_slot != slot || me->slept_seq != slot->seq))
			slot->slept++;
		if (asleep) {
			me->slept_slot = slot;
			me->slept_seq = slot->seq;
		}
	}
	raw_spin_unlock(&slot->lock);
out:
	until = until > me->joined_since ? until - me->joined_since : 0;
	steer_gang_count(gang, STEER_GANG_FAVOURED_NS, until);
	trace_steer_gang_end(gang->id, me->cpu, until, why);
	WRITE_ONCE(me->joined, NULL);
}

/* @p runs from @now on: in which slot? */
static void steer_gang_account(struct steer_gang_cpu *me, struct task_struct *p,
			       struct steer_gang *gang, u64 now)
{
	bool member = gang && gang == me->favour && now < me->end;

	if (member && me->joined == gang && me->joined_slot == me->slot &&
	    me->joined_seq == me->seq)
		return;
	steer_gang_leave(me, now);
	if (member)
		steer_gang_join(me, p, now);
}

/* A per-CPU kernel thread that may run */
static bool steer_gang_kthread(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	return entity_is_task(se) && se->on_rq && !se->sched_delayed &&
	       is_per_cpu_kthread(container_of(se, struct task_struct, se)) &&
	       entity_eligible(cfs_rq, se);
}

/*
 * Per-CPU kernel threads that EEVDF would run do not wait for the end of a slot, nor
 * are they interrupted by its beginning. They are in the root group; what runs is
 * not in the tree, of which the first eligible entity would be next.
 */
static bool steer_gang_kthread_first(struct cfs_rq *cfs_rq)
{
	struct rb_node *node;
	int look = STEER_GANG_LOOK;

	if (cfs_rq->curr && steer_gang_kthread(cfs_rq, cfs_rq->curr))
		return true;
	for (node = rb_first_cached(&cfs_rq->tasks_timeline); node && look--;
	     node = rb_next(node)) {
		struct sched_entity *se = rb_entry(node, struct sched_entity, run_node);

		if (!se->sched_delayed && entity_eligible(cfs_rq, se))
			return steer_gang_kthread(cfs_rq, se);
	}
	return false;
}

/* A pick begins: which slots are under way here, and whose member comes next? */
static void steer_gang_decide(struct rq *rq, struct steer_gang_cpu *me)
{
	bool asked = me->asked;
	u64 length;
	int scope;

	me->favour = NULL;
	me->ask = false;
	me->asked = false;
	me->before = me->went;
	me->held = 0;
	me->held_end = 0;
	me->busy = 0;
	me->wide = 0;
	/* What begins while this pick is under way, it sees when it is done. */
	WRITE_ONCE(me->picking, true);
	/* No slot, and none that it was in, waited in, or has a timer for. */
	me->quiet = steer_gang_quiet() && !me->joined && !me->overruled.since && !me->armed;
	if (me->quiet) {
		me->woke = false;
		me->turn = false;
		return;
	}

	me->now = ktime_get_ns();
	length = steer_gang_length();
	if (me->armed && me->armed <= me->now)
		WRITE_ONCE(me->armed, 0);
	smp_mb();	/* pairs with the one in steer_gang_lead() */
	if (!rcu_access_pointer(rq->sd))
		return;

	/* The widest comes first: it has most CPUs waiting for this one. */
	for (scope = STEER_SCOPE_SYSTEM; scope >= STEER_SCOPE_CORE; scope--) {
		struct steer_gang_slot *slot;
		struct steer_gang *gang, *last;
		u64 end, seq;
		bool followed;

		if (!READ_ONCE(steer_gang_nr[scope]))
			continue;
		slot = steer_gang_slot(rq, scope);
		me->seen[scope] = READ_ONCE(slot->end);
		end = steer_gang_slot_read(slot, me->now, &gang, &seq);
		if (!end)
			continue;
		if (!gang) {
			me->held |= BIT(scope);
			last = READ_ONCE(slot->last);
			if (last && steer_gang_here(last, rq) &&
			    (!me->held_end || end < me->held_end))
				me->held_end = end;
			continue;
		}
		me->busy |= BIT(scope);
		if (!steer_gang_here(gang, rq))
			continue;
		me->wide |= BIT(scope);
		if (me->favour)
			continue;
		followed = steer_gang_has_followed(me, slot, seq);
		if (!followed && !steer_gang_follows(steer_gang_waited(gang, rq), length))
			continue;
		steer_gang_obey(me, gang, slot, seq, end);
		/* One that is to leave CPU idle does so in its slot, too. */
		me->ask = !asked && (!followed || me->woke ||
				     steer_headroom_constrained(gang->tg->cfs_rq[cpu_of(rq)]));
		me->before = me->ask && !followed;
	}
	if (me->turn) {
		me->favour = NULL;
		me->before = true;
	}
	if (me->favour && steer_gang_kthread_first(&rq->cfs)) {
		me->favour = NULL;
		me->before = false;
	}
	if (me->favour && !me->ask)
		steer_gang_followed(me);
	me->woke = false;
}

/* The entity at the level @cfs_rq that leads to the members of @gang. */
static struct sched_entity *steer_gang_at(struct steer_gang *gang, struct rq *rq,
					  struct cfs_rq *cfs_rq)
{
	struct sched_entity *se;

	for (se = gang->tg->se[cpu_of(rq)]; se; se = se->parent) {
		if (se->cfs_rq == cfs_rq)
			return se;
	}
	return NULL;
}

/* Does nothing but members of a gang that is held back run below @se? */
static bool steer_gang_holds(struct steer_gang_cpu *me, struct rq *rq,
			     struct sched_entity *se)
{
	int depth;

	for (depth = 0; depth < STEER_GANG_CHAIN; depth++) {
		struct cfs_rq *my_q = se->my_q;
		struct steer_gang *gang;

		if (!my_q)
			return false;
		gang = READ_ONCE(my_q->tg->steer.gang.effective);
		if (gang)
			return (me->held & BIT(READ_ONCE(gang->scope))) &&
			       steer_gang_here(gang, rq) &&
			       steer_gang_held(steer_gang_owed(gang, rq),
					       steer_gang_length());
		if (my_q->nr_running != 1)
			return false;
		se = my_q->curr && my_q->curr->on_rq ? my_q->curr :
			rb_entry_safe(rb_first_cached(&my_q->tasks_timeline),
				      struct sched_entity, run_node);
		if (!se)
			return false;
	}
	return false;
}

struct sched_entity *__steer_gang_entity(struct rq *rq, struct cfs_rq *cfs_rq)
{
	struct steer_gang_cpu *me = steer_gang_cpu(rq);

	lockdep_assert_rq_held(rq);

	if (cfs_rq == &rq->cfs)
		steer_gang_decide(rq, me);
	/* A buddy is taken before EEVDF is asked, and so would not be held back. */
	if (me->held && !me->favour && cfs_rq->next &&
	    !READ_ONCE(cfs_rq->tg->steer.gang.effective) &&
	    steer_gang_holds(me, rq, cfs_rq->next))
		cfs_rq->next = NULL;
	if (me->before) {
		struct sched_entity *se = steer_gang_first(cfs_rq, me->turn ?
							   steer_gang_other_entity :
							   steer_gang_brief_entity);

		if (se) {
			me->before = false;
			return se;
		}
	}
	return me->favour && !me->ask ? steer_gang_at(me->favour, rq, cfs_rq) : NULL;
}

static bool steer_gang_entity_idle(struct sched_entity *se)
{
	if (entity_is_task(se))
		return task_has_idle_policy(container_of(se, struct task_struct, se));
	return se->my_q->idle > 0;
}

/*
 * Of those that are not held back, the eligible one with the earliest deadline; if
 * none is eligible, the one with the earliest deadline. The tree is sorted by that.
 */
struct sched_entity *__steer_gang_instead(struct rq *rq, struct cfs_rq *cfs_rq,
					  struct sched_entity *se)
{
	struct steer_gang_cpu *me = steer_gang_cpu(rq);
	struct sched_entity *curr = cfs_rq->curr, *first = NULL;
	struct rb_node *node;
	int look = STEER_GANG_LOOK;

	if (!me->held || me->favour || se->sched_delayed || cfs_rq->nr_running == 1 ||
	    READ_ONCE(cfs_rq->tg->steer.gang.effective) ||
	    !steer_gang_holds(me, rq, se))
		return se;

	if (curr && (!curr->on_rq || curr->sched_delayed || curr == se ||
		     steer_gang_entity_idle(curr) || steer_gang_holds(me, rq, curr)))
		curr = NULL;
	if (curr && entity_eligible(cfs_rq, curr))
		return curr;

	for (node = rb_first_cached(&cfs_rq->tasks_timeline); node && look--;
	     node = rb_next(node)) {
		struct sched_entity *other = rb_entry(node, struct sched_entity, run_node);

		if (other == se || other->sched_delayed || steer_gang_entity_idle(other) ||
		    steer_gang_holds(me, rq, other))
			continue;
		if (entity_eligible(cfs_rq, other))
			return other;
		if (!first)
			first = other;
	}
	return curr ?: first ?: se;
}

static bool steer_gang_allowed(struct task_struct *p, int cpu)
{
	unsigned long util = READ_ONCE(p->se.avg.util_avg);

	return cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_active(cpu) &&
	       rcu_access_pointer(cpu_rq(cpu)->sd) &&
	       (!sched_asym_cpucap_active() || util * 5 <= cpu_rq(cpu)->cpu_capacity * 4) &&
	       !steer_cfs_throttled(task_group(p)->cfs_rq[cpu]) &&
	       sched_cpu_cookie_match(cpu_rq(cpu), p);
}

/*
 * A CPU of the scope of @from on which no member is runnable: one of an idle core, else an
 * idle one, else, if @busy, the one with fewest tasks.
 */
static int steer_gang_room(struct task_struct *p, struct steer_gang *gang, int from,
			   bool busy)
{
	unsigned int least = UINT_MAX;
	int cpu, found = -1;

	for_each_cpu_wrap(cpu, steer_gang_mask(from, READ_ONCE(gang->scope)), from) {
		if (!steer_gang_allowed(p, cpu) || steer_gang_queued(gang, cpu))
			continue;
		if (available_idle_cpu(cpu)) {
			if (!sched_smt_active() || steer_siblings_idle(cpu))
				return cpu;
			if (least) {
				least = 0;
				found = cpu;
			}
			continue;
		}
		if (busy && READ_ONCE(cpu_rq(cpu)->nr_running) < least) {
			least = READ_ONCE(cpu_rq(cpu)->nr_running);
			found = cpu;
		}
	}
	return found;
}

/* What of @cpu those used lately that are not of the gang; of 1024. */
static long steer_gang_used_by_others(struct steer_gang *gang, int cpu)
{
	return (long)READ_ONCE(cpu_rq(cpu)->cfs.avg.util_avg) -
	       (long)READ_ONCE(gang->tg->cfs_rq[cpu]->avg.util_avg);
}

/* As steer_gang_others(), with those that sleep, but are still queued. */
static int steer_gang_others_queued(struct steer_gang *gang, int cpu)
{
	struct cfs_rq *all = &cpu_rq(cpu)->cfs, *members = gang->tg->cfs_rq[cpu];

	return (int)(READ_ONCE(all->h_nr_queued) - READ_ONCE(members->h_nr_queued)) -
	       (int)(steer_cfs_nr_idle(all) - steer_cfs_nr_idle(members));
}

/*
 * Has @cpu members, and at least two others less than @from? Some may sleep there that
 * will be back soon, so they have to have used less of it than of @from; and what is no
 * fair task must not use it.
 */
static bool steer_gang_calmer(struct steer_gang *gang, int cpu, int from)
{
	unsigned int members = steer_gang_queued(gang, cpu);
	struct rq *rq = cpu_rq(cpu);

	return members && members <= steer_gang_queued(gang, from) &&
	       steer_gang_others_queued(gang, cpu) + 2 <= steer_gang_others_queued(gang, from) &&
	       steer_gang_used_by_others(gang, cpu) < steer_gang_used_by_others(gang, from) &&
	       READ_ONCE(rq->nr_running) == READ_ONCE(rq->cfs.h_nr_queued) &&
	       rq->cpu_capacity * 5 >= cpu_rq(from)->cpu_capacity * 4;
}

/*
 * Such a CPU in the scope of @from, for @p; the nearest. A tickless one is left to whom
 * it was given, and whoever has a wake word in its LLC.
 */
static int steer_gang_calmer_cpu(struct task_struct *p, struct steer_gang *gang, int from)
{
	enum steer_scope scope, widest = READ_ONCE(gang->scope);
	int cpu;

	if (steer_hint(p) & STEER_WAKE)
		widest = min(widest, STEER_SCOPE_LLC);
	for (scope = STEER_SCOPE_CORE; scope <= widest; scope++) {
		for_each_cpu_wrap(cpu, steer_gang_mask(from, scope), from) {
			if (cpu_rq(cpu)->rd == cpu_rq(from)->rd &&
			    housekeeping_cpu(cpu, HK_TYPE_TICK) &&
			    steer_gang_allowed(p, cpu) && steer_gang_calmer(gang, cpu, from))
				return cpu;
		}
	}
	return -1;
}

/* Where @p, which leaves @rq, has a place; -1 if nowhere. */
static int steer_gang_place(struct rq *rq, struct steer_gang_cpu *me, struct task_struct *p)
{
	return me->spread_other ? steer_gang_calmer_cpu(p, me->spread, cpu_of(rq)) :
				  steer_gang_room(p, me->spread, cpu_of(rq), true);
}

/* Is it still one? With the locks of both runqueues; a member was not there before. */
static bool steer_gang_placeable(struct rq *rq, struct steer_gang_cpu *me,
				 struct task_struct *p, int cpu)
{
	struct steer_gang *gang = me->spread;

	if (!steer_gang_allowed(p, cpu))
		return false;
	if (me->spread_other)
		return steer_gang_others(gang, rq) > 1 &&
		       steer_gang_weighty(steer_rq_donor(rq)) &&
		       steer_gang_calmer(gang, cpu, cpu_of(rq));
	return steer_gang_queued(gang, cpu_of(rq)) > 1 && !steer_gang_queued(gang, cpu);
}

/* May @p be pushed from @rq? REQUIRES: its lock. */
static bool steer_gang_movable(struct rq *rq, struct steer_gang_cpu *me, struct task_struct *p)
{
	return task_rq(p) == rq && task_on_rq_queued(p) && !task_on_cpu(rq, p) &&
	       p != steer_rq_donor(rq) && p->sched_class == &fair_sched_class &&
	       !p->se.sched_delayed && !is_migration_disabled(p) &&
	       p->nr_cpus_allowed > 1 && !steer_cfs_throttled(cfs_rq_of(&p->se)) &&
	       steer_gang_of(p) == (me->spread_other ? NULL : me->spread) &&
	       steer_gang_weighty(p);
}

/*
 * The first that waits here and may be, but for @picked; with @cpu, the first that has
 * a place, and where. REQUIRES: likewise.
 */
static struct task_struct *steer_gang_candidate(struct rq *rq, struct steer_gang_cpu *me,
						struct task_struct *picked, int *cpu)
{
	int look = STEER_GANG_LOOK, searches = 2;
	struct task_struct *p;

	list_for_each_entry(p, &rq->cfs_tasks, se.group_node) {
		if (!look--)
			break;
		if (p == picked || !steer_gang_movable(rq, me, p))
			continue;
		if (!cpu)
			return p;
		*cpu = steer_gang_place(rq, me, p);
		if (*cpu >= 0 && *cpu != cpu_of(rq))
			return p;
		if (!--searches)
			break;
	}
	return NULL;
}

/*
 * The pick is over. A member that waits beside the running one goes to a CPU of the
 * scope that has none; one of no gang that waits beside another such one goes to a
 * calmer one. The lock of @rq may be dropped on the way.
 */
static void steer_gang_push(struct rq *rq)
{
	struct steer_gang_cpu *me = steer_gang_cpu(rq);
	struct task_struct *found;
	struct rq *to;
	int cpu;

	found = steer_gang_candidate(rq, me, NULL, &cpu);
	if (!found)
		return;

	/* There may be more. */
	me->tried[me->spread_other].pause = 0;
	me->tried[me->spread_other].next = me->now + steer_gang_length();
	get_task_struct(found);
	to = cpu_rq(cpu);
	double_lock_balance(rq, to);
	if (to->online && steer_gang_movable(rq, me, found) &&
	    steer_gang_placeable(rq, me, found, cpu)) {
		deactivate_task(rq, found, 0);
		set_task_cpu(found, cpu);
		activate_task(to, found, 0);
		if (me->spread_other)
			resched_curr(to);
		else
			wakeup_preempt(to, found, 0);
	}
	double_unlock_balance(rq, to);
	put_task_struct(found);
}

/*
 * The gang that waits here, for the end of the others' slot, or in its own, which this
 * CPU does not follow; of the widest scope.
 */
static struct steer_gang *steer_gang_waiting(struct rq *rq, struct steer_gang_cpu *me)
{
	int scope;

	for (scope = STEER_SCOPE_SYSTEM; scope >= STEER_SCOPE_CORE; scope--) {
		struct steer_gang_slot *slot;
		struct steer_gang *gang;

		if (!((me->held | me->busy) & BIT(scope)))
			continue;
		slot = steer_gang_slot(rq, scope);
		gang = READ_ONCE(slot->gang) ?: READ_ONCE(slot->last);
		if (gang && steer_gang_here(gang, rq))
			return gang;
	}
	return NULL;
}

/*
 * @p was picked, a member of @gang, or, if that is NULL, of none: is another such one
 * waiting here that could run elsewhere? Where several woke up together they are
 * too new to be worth moving at first, and there is no room where all CPUs have some;
 * so it is tried again, but ever more seldom.
 */
static void steer_gang_spread(struct rq *rq, struct steer_gang_cpu *me,
			      struct steer_gang *gang, struct task_struct *p)
{
	bool other = !gang;
	struct steer_gang_tried *tried = &me->tried[other];
	u64 length;

	/* With core scheduling, a pick can be for another CPU, which calls back nobody. */
	if (rq != this_rq() || me->now < tried->next ||
	    (other && (!(me->held | me->busy) || !steer_gang_weighty(p))))
		return;
	if (other)
		gang = steer_gang_waiting(rq, me);
	if (!gang || !READ_ONCE(gang->active) ||
	    (other ? steer_gang_others(gang, rq) :
		     (int)steer_gang_queued(gang, cpu_of(rq))) < 2)
		return;
	me->spread = gang;
	me->spread_other = other;
	/* If only members of other gangs wait, it is not a try. */
	if (other && !steer_gang_candidate(rq, me, p, NULL))
		return;
	length = steer_gang_length();
	/* It was not needed for a while. */
	if (me->now > tried->next + STEER_GANG_BACKOFF_MAX * length)
		tried->pause = 0;
	tried->pause = steer_gang_pause(tried->pause);
	tried->next = me->now + tried->pause * length;
	queue_balance_callback(rq, &me->push, steer_gang_push);
}

/*
 * A pick is done. Did a slot begin meanwhile for a member that waits here? Its leader
 * has sent no interrupt, if it saw this pick under way.
 */
static bool steer_gang_missed(struct rq *rq, struct steer_gang_cpu *me)
{
	int scope = STEER_SCOPE_CORE;

	WRITE_ONCE(me->picking, false);
	if (!rcu_access_pointer(rq->sd))
		return false;
	smp_mb();	/* pairs with the one in steer_gang_lead() */
	if (me->quiet)
		return !steer_gang_quiet();

	/* One of a wider scope would come first. */
	if (me->favour)
		scope = READ_ONCE(me->favour->scope) + 1;
	for (; scope < STEER_NR_SCOPES; scope++) {
		struct steer_gang_slot *slot;
		struct steer_gang *gang;
		u64 end;

		if (!READ_ONCE(steer_gang_nr[scope]))
			continue;
		slot = steer_gang_slot(rq, scope);
		/* Whoever is setting one up will see that the pick is done. */
		end = READ_ONCE(slot->end);
		if (!end || end == me->seen[scope])
			continue;
		gang = READ_ONCE(slot->gang);
		if (gang && steer_gang_here(gang, rq))
			return true;
	}
	return false;
}

/* Has it no slots to take turns with? So do gangs that cannot lead one, or are left alone. */
static bool steer_gang_slotless(struct rq *rq, struct steer_gang_cpu *me,
				struct steer_gang *gang)
{
	struct steer_gang_slot *slot;

	if (!gang || jiffies - READ_ONCE(gang->led) >= HZ)
		return true;
	slot = steer_gang_slot(rq, READ_ONCE(gang->scope));
	return me->now < READ_ONCE(per_cpu_ptr(gang->pcpu, slot->cpu)->quiet_until);
}

/*
 * EEVDF, or the headroom, picked @p, which is not of the favoured gang, but of @gang: does
 * the slot go on?
 */
static bool steer_gang_goes_on(struct rq *rq, struct steer_gang_cpu *me,
			       struct steer_gang *gang, struct task_struct *p)
{
	if (steer_gang_brief(p) ||
	    steer_headroom_first(me->favour->tg->se[cpu_of(rq)], p))
		return false;
	if (steer_gang_gives_way(p))
		return true;
	/* Who comes after one that has slots, waits for this slot, too. */
	if (!steer_gang_slotless(rq, me, gang)) {
		steer_gang_lets_wait(me);
		return true;
	}
	if (!gang)
		steer_gang_leave_next(me);
	return steer_gang_overrules(&me->overruled, me->now, me->end, steer_gang_length());
}

/*
 * When may a slot of @gang begin, of which a member runs here outside of one? At the end of
 * another gang's, which has no member here that would set the timer. If this CPU waited for
 * its next pick, that could come in such a slot again, each time. 0 if nothing is to be waited for.
 */
static u64 steer_gang_chance(struct rq *rq, struct steer_gang_cpu *me, struct steer_gang *gang)
{
	enum steer_scope scope = READ_ONCE(gang->scope);
	u64 end = me->seen[scope];

	if (!((me->busy | me->held) & BIT(scope)) || end <= me->now ||
	    steer_gang_others(gang, rq) <= 0)
		return 0;
	return end;
}

/* Nobody competes with @p, of @gang or of none, and no slot is under way: is that still so? */
static bool steer_gang_quiet_pick(struct rq *rq, struct steer_gang_cpu *me,
				  struct steer_gang *gang, struct task_struct *p)
{
	me->retried = false;
	me->went = false;
	if (steer_gang_missed(rq, me))
		return true;
	/* One that goes on running is not switched to. */
	if (p == steer_rq_donor(rq))
		WRITE_ONCE(me->running, gang);
	return false;
}

bool __steer_gang_repick(struct rq *rq, struct sched_entity *se)
{
	struct task_struct *p = container_of(se, struct task_struct, se);
	struct steer_gang_cpu *me = steer_gang_cpu(rq);
	struct steer_gang *gang = steer_gang_of(p);
	enum steer_gang_bid bid = STEER_GANG_NOT;

	lockdep_assert_rq_held(rq);

	if (me->quiet) {
		if (!gang || (steer_gang_others(gang, rq) <= 0 &&
			      steer_gang_queued(gang, cpu_of(rq)) < 2))
			return steer_gang_quiet_pick(rq, me, gang, p);
		/* There are others to compete with, or members to be spread. */
		me->now = ktime_get_ns();
	}

	/*
	 * If the key was flipped in this pick, the favour is that of an earlier one. A
	 * gang that is gone is in no slot.
	 */
	if (me->favour && READ_ONCE(me->slot->gang) != me->favour)
		me->favour = NULL;

	/* The slot is new here, somebody brief woke up, or goes first. What did EEVDF pick? */
	if (me->favour && me->ask) {
		me->ask = false;
		if (gang && steer_gang_turn(rq, me, me->favour, me->end))
			return true;
		if (gang == me->favour) {
			steer_gang_followed(me);
			steer_gang_lets_wait(me);
		} else {
			me->asked = steer_gang_goes_on(rq, me, gang, p);
			if (me->asked)
				return true;
			me->favour = NULL;
		}
	}

	if (!me->favour && rcu_access_pointer(rq->sd)) {
		bid = gang ? steer_gang_lead(rq, me, gang, p) :
			     steer_gang_pass(rq, me, p);
		if (bid == STEER_GANG_LOST && !me->retried) {
			me->retried = true;
			return true;
		}
		if (bid == STEER_GANG_LATER) {
			me->went = true;
			return true;
		}
		if (bid == STEER_GANG_YIELDED || bid == STEER_GANG_TURN)
			return true;
	}
	me->retried = false;
	me->went = false;
	me->turn = false;
	if (steer_gang_missed(rq, me))
		return true;

	if (!me->favour && me->overruled.since && !steer_gang_brief(p))
		steer_gang_not_overruled(&me->overruled, steer_gang_slotless(rq, me, gang),
					 me->now, steer_gang_length());
	steer_gang_spread(rq, me, gang, p);
	if (me->favour) {
		if (steer_gang_others(me->favour, rq) > 0)
			steer_gang_arm(me, me->end);
	} else {
		u64 end = me->held_end;

		if (!end && gang)
			end = steer_gang_chance(rq, me, gang);
		if (end)
			steer_gang_arm(me, end);
	}
	/* One that goes on running is not switched to. */
	if (p == steer_rq_donor(rq)) {
		steer_gang_account(me, p, gang, me->now);
		WRITE_ONCE(me->running, gang);
	}
	return false;
}

/* A member runs for the sake of its cookie. If its gang has a slot, it is in it. */
static void steer_gang_adopt(struct rq *rq, struct steer_gang_cpu *me,
			     struct steer_gang *gang)
{
	struct steer_gang_slot *slot = steer_gang_slot(rq, READ_ONCE(gang->scope));
	struct steer_gang *other;
	u64 end, seq;

	end = steer_gang_slot_read(slot, ktime_get_ns(), &other, &seq);
	if (!end || other != gang || !rcu_access_pointer(rq->sd))
		return;
	steer_gang_obey(me, gang, slot, seq, end);
	steer_gang_followed(me);
	if (steer_gang_others(gang, rq) > 0)
		steer_gang_arm(me, end);
}

void __steer_gang_switch(struct rq *rq, struct task_struct *next)
{
	struct steer_gang_cpu *me = steer_gang_cpu(rq);
	struct steer_gang *gang = NULL;

	if (next->sched_class == &fair_sched_class)
		gang = steer_gang_of(next);
	WRITE_ONCE(me->running, gang);
	if (gang && sched_core_enabled(rq) && me->favour != gang)
		steer_gang_adopt(rq, me, gang);
	if (me->joined || (gang && me->favour))
		steer_gang_account(me, next, gang, ktime_get_ns());
}

/* Is CPU time due to it, and to all groups that it is in? */
static bool steer_gang_is_due(struct task_struct *p)
{
	struct sched_entity *se;

	for (se = &p->se; se; se = se->parent) {
		if (!entity_eligible(se->cfs_rq, se))
			return false;
	}
	return true;
}

/* Would it run, if it was not for a slot? */
static bool steer_gang_is_waiting(struct task_struct *p)
{
	return !steer_gang_gives_way(p) && steer_gang_is_due(p);
}

/*
 * In a slot, its members preempt, and nobody else but per-CPU kernel threads, what is
 * brief, and for whom they leave CPU idle; while the others have theirs, members do not.
 * Since when the first one else waits to whom the CPU is due, is noted.
 */
bool __steer_gang_wakeup(struct rq *rq, struct task_struct *p)
{
	struct steer_gang_cpu *me = steer_gang_cpu(rq);
	bool picks = test_tsk_need_resched(rcu_dereference_sched(rq->curr));
	struct steer_gang *gang = steer_gang_of(p), *other;
	struct steer_gang_slot *slot;
	u64 now, end, seq;

	lockdep_assert_rq_held(rq);

	if (!me->joined && (picks || !gang || steer_gang_quiet()))
		return false;
	if (!sched_feat(WAKEUP_PREEMPTION) || is_per_cpu_kthread(p) ||
	    !rcu_access_pointer(rq->sd))
		return false;

	now = ktime_get_ns();
	if (me->joined && now < me->joined_end) {
		if (gang == me->joined)
			return false;
		/* The pick that is due anyway would not ask for it. */
		if (picks) {
			if (!gang && !steer_gang_light(p) && steer_gang_is_waiting(p))
				steer_gang_waits(&me->overruled, now);
			return false;
		}
		/* The running member had the CPU to itself, and no timer. */
		if (me->timer_end != me->joined_end && !steer_gang_gives_way(p))
			resched_curr(rq);
		if ((!gang && steer_gang_brief(p)) ||
		    steer_headroom_first(&steer_rq_donor(rq)->se, p)) {
			me->woke = true;
			return false;
		}
		if (!gang && steer_gang_is_waiting(p))
			steer_gang_waits(&me->overruled, now);
		return true;
	}
	if (!gang || picks)
		return false;

	slot = steer_gang_slot(rq, READ_ONCE(gang->scope));
	end = steer_gang_slot_read(slot, now, &other, &seq);
	if (end && other == gang) {
		/* Where this CPU does not follow, EEVDF decides. */
		if (!steer_gang_here(gang, rq) ||
		    !(steer_gang_has_followed(me, slot, seq) ||
		      steer_gang_follows(steer_gang_waited(gang, rq), steer_gang_length())))
			return false;
		resched_curr(rq);
		return true;
	}
	return end && !other && !steer_gang_gives_way(steer_rq_donor(rq)) &&
	       me->running != gang && steer_gang_here(gang, rq) &&
	       steer_gang_held(steer_gang_owed(gang, rq), steer_gang_length());
}

/* Has it had a slot in the last tenth of a second? Else waking is not worth a search. */
static bool steer_gang_lately(struct steer_gang *gang)
{
	return READ_ONCE(gang->active) && jiffies - READ_ONCE(gang->led) < HZ / 10;
}

int __steer_gang_wake_cpu(struct task_struct *p, int prev_cpu, int target)
{
	struct steer_gang *gang = steer_gang_of(p);
	int cpu;

	if (!gang || !steer_gang_lately(gang))
		return -1;
	if (steer_gang_allowed(p, prev_cpu) && !steer_gang_queued(gang, prev_cpu) &&
	    available_idle_cpu(prev_cpu))
		return prev_cpu;
	cpu = steer_gang_room(p, gang, target, false);
	if (cpu >= 0)
		return cpu;
	if (steer_gang_allowed(p, prev_cpu) && !steer_gang_queued(gang, prev_cpu))
		return prev_cpu;
	return steer_gang_room(p, gang, target, true);
}

int __steer_gang_fork_cpu(struct task_struct *p, int parent_cpu)
{
	struct steer_gang *gang = steer_gang_of(p);
	int cpu;

	if (!gang || !READ_ONCE(gang->active))
		return -1;
	/* One that calls exec, with no other member beside it, is where it should be. */
	if (p->on_rq && steer_gang_queued(gang, task_cpu(p)) <= 1)
		return -1;
	cpu = steer_gang_room(p, gang, parent_cpu, false);
	if (cpu >= 0)
		return cpu;
	/* An idle CPU elsewhere is better than a busy one here. */
	for_each_cpu_and(cpu, cpu_rq(parent_cpu)->rd->span, p->cpus_ptr) {
		if (available_idle_cpu(cpu))
			return -1;
	}
	return steer_gang_room(p, gang, parent_cpu, true);
}

bool __steer_gang_balance_hold(struct task_struct *p, int dst_cpu,
			       struct sched_domain *sd)
{
	struct steer_gang *gang = steer_gang_of(p);
	unsigned int here, there;

	if (!gang)
		return false;
	here = steer_gang_queued(gang, task_cpu(p));
	there = steer_gang_queued(gang, dst_cpu);
	if (!there || there + 1 < here)
		return false;
	/* It would be sent back, and those that should be moved instead are not. */
	return steer_gang_others(gang, task_rq(p)) > 0 ||
	       sd->nr_balance_failed <= sd->cache_nice_tries;
}

/**
 * steer_gang_alloc - make what a group needs to be a gang
 * @tg: the group
 * @scope: in which CPUs its slots run
 *
 * Return: the gang, not active yet, or NULL.
 */
struct steer_gang *steer_gang_alloc(struct task_group *tg, enum steer_scope scope)
{
	struct steer_gang *gang = kzalloc(sizeof(*gang), GFP_KERNEL);

	if (!gang)
		return NULL;
	gang->pcpu = alloc_percpu(struct steer_gang_pcpu);
	if (!gang->pcpu) {
		kfree(gang);
		return NULL;
	}
	gang->tg = tg;
	gang->id = cgroup_id(tg->css.cgroup);
	gang->scope = scope;
	gang->led = jiffies - HZ;
	return gang;
}

static void steer_gang_free_rcu(struct rcu_head *rcu)
{
	struct steer_gang *gang = container_of(rcu, struct steer_gang, rcu);

	free_percpu(gang->pcpu);
	kfree(gang);
}

/**
 * steer_gang_free - the group is gone
 * @gang: its gang, stopped at least one grace period ago, or NULL
 */
void steer_gang_free(struct steer_gang *gang)
{
	int cpu;

	if (!gang)
		return;
	/* While the static key was off, nobody noticed that the last member left. */
	for_each_possible_cpu(cpu)
		cmpxchg(&per_cpu(steer_gang_cpus, cpu).joined, gang, NULL);
	call_rcu(&gang->rcu, steer_gang_free_rcu);
}

/**
 * steer_gang_start - a gang may have slots from now on
 * @gang: the gang, which is not active
 * @scope: in which CPUs
 *
 * Starts and stops are serialised by the caller.
 */
void steer_gang_start(struct steer_gang *gang, enum steer_scope scope)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu_ptr(gang->pcpu, cpu)->backoff = 0;
		per_cpu_ptr(gang->pcpu, cpu)->members = 0;
		WRITE_ONCE(per_cpu_ptr(gang->pcpu, cpu)->quiet_until, 0);
	}
	WRITE_ONCE(gang->scope, scope);
	WRITE_ONCE(steer_gang_nr[scope], steer_gang_nr[scope] + 1);
	/* Pairs with smp_load_acquire() in steer_gang_is_active(). */
	smp_store_release(&gang->active, true);
}

/**
 * steer_gang_stop - a gang has no slots any more; the one under way ends
 * @gang: the gang, which is active
 */
void steer_gang_stop(struct steer_gang *gang)
{
	u64 now = ktime_get_ns();
	int cpu, scope = gang->scope;
	unsigned long flags;

	WRITE_ONCE(gang->active, false);
	WRITE_ONCE(steer_gang_nr[scope], steer_gang_nr[scope] - 1);

	for_each_possible_cpu(cpu) {
		struct steer_gang_slot *slot = &per_cpu(steer_gang_slots, cpu)[scope];

		/* Under the lock, so that nobody is about to begin one. */
		raw_spin_lock_irqsave(&slot->lock, flags);
		if (slot->gang == gang) {
			steer_gang_close(slot, now, slot->end);
			WRITE_ONCE(slot->end, 0);
			smp_wmb();	/* pairs with smp_rmb() in steer_gang_slot_read() */
			WRITE_ONCE(slot->gang, NULL);
		}
		if (slot->last == gang)
			WRITE_ONCE(slot->last, NULL);
		raw_spin_unlock_irqrestore(&slot->lock, flags);
	}
}

/**
 * steer_gang_use_parts - let parts of a scope have slots of their own
 * @scope: the scope
 * @parts: they, to be freed a grace period after they were replaced; none is for all of it
 *
 * A slot that is under way ends where it began.
 */
void steer_gang_use_parts(enum steer_scope scope, struct list_head *parts)
{
	struct steer_gang_part *part, *its;
	int cpu;

	for_each_possible_cpu(cpu) {
		its = NULL;
		list_for_each_entry(part, parts, link) {
			if (test_bit(cpu, part->cpus))
				its = part;
		}
		rcu_assign_pointer(per_cpu(steer_gang_parts, cpu)[scope], its);
	}
}

static int __init steer_gang_init(void)
{
	int cpu, scope;

	for_each_possible_cpu(cpu) {
		struct steer_gang_cpu *me = &per_cpu(steer_gang_cpus, cpu);

		me->cpu = cpu;
		INIT_CSD(&me->csd, steer_gang_kicked, me);
		steer_hrtimer_setup(&me->timer, steer_gang_timer, HRTIMER_MODE_ABS_PINNED_HARD);
		for (scope = 0; scope < STEER_NR_SCOPES; scope++) {
			per_cpu(steer_gang_slots, cpu)[scope].cpu = cpu;
			raw_spin_lock_init(&per_cpu(steer_gang_slots, cpu)[scope].lock);
		}
	}
	return 0;
}
core_initcall(steer_gang_init);
