/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: what was decided for the tasks of groups with a hint.
 * The fields are described in Documentation/admin-guide/cgroup-steer/tracing.rst.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM steer

#if !defined(_TRACE_STEER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_STEER_H

#include <linux/cgroup.h>
#include <linux/sched.h>
#include <linux/sched/steer.h>
#include <linux/tracepoint.h>

#ifndef _STEER_VERDICTS
#define _STEER_VERDICTS
/**
 * enum steer_verdict - what became of one category of a hint
 * @STEER_V_UNASKED: the group has no word of this category
 * @STEER_V_FOLLOWED: the hint decided
 * @STEER_V_SAME_LLC: the choice was between CPUs of one LLC anyway
 * @STEER_V_FULL: no CPU was idle where the hint pointed
 * @STEER_V_AFFINITY: the task may not run where the hint pointed
 * @STEER_V_IRQ: no task did the waking, so there is no waker's LLC
 * @STEER_V_OVERLOADED: the LLC has more runnable tasks than CPUs, or had a moment ago
 * @STEER_V_GAVE_UP: the load balancer had failed too often
 * @STEER_V_TURNS: the task and its waker take turns, in two LLCs
 */
enum steer_verdict {
	STEER_V_UNASKED,
	STEER_V_FOLLOWED,
	STEER_V_SAME_LLC,
	STEER_V_FULL,
	STEER_V_AFFINITY,
	STEER_V_IRQ,
	STEER_V_OVERLOADED,
	STEER_V_GAVE_UP,
	STEER_V_TURNS,
};

/**
 * enum steer_numa_path - who asked about the allowed imbalance of nodes
 * @STEER_NUMA_FORK: fork or exec
 * @STEER_NUMA_BALANCE: a balance pass, for a task that runs
 * @STEER_NUMA_QUEUED: a balance pass, for a task that waits
 * @STEER_NUMA_MEMORY: NUMA balancing
 */
enum steer_numa_path {
	STEER_NUMA_FORK,
	STEER_NUMA_BALANCE,
	STEER_NUMA_QUEUED,
	STEER_NUMA_MEMORY,
};

/**
 * enum steer_energy_when - when costs are compared
 * @STEER_ENERGY_WAKE: a task wakes up
 * @STEER_ENERGY_FORK: it is new
 * @STEER_ENERGY_EXEC: it begins another program
 * @STEER_ENERGY_STUCK: it runs and does not sleep
 */
enum steer_energy_when {
	STEER_ENERGY_WAKE,
	STEER_ENERGY_FORK,
	STEER_ENERGY_EXEC,
	STEER_ENERGY_STUCK,
};
#endif

TRACE_DEFINE_ENUM(STEER_V_UNASKED);
TRACE_DEFINE_ENUM(STEER_V_FOLLOWED);
TRACE_DEFINE_ENUM(STEER_V_SAME_LLC);
TRACE_DEFINE_ENUM(STEER_V_FULL);
TRACE_DEFINE_ENUM(STEER_V_AFFINITY);
TRACE_DEFINE_ENUM(STEER_V_IRQ);
TRACE_DEFINE_ENUM(STEER_V_OVERLOADED);
TRACE_DEFINE_ENUM(STEER_V_GAVE_UP);
TRACE_DEFINE_ENUM(STEER_V_TURNS);

TRACE_DEFINE_ENUM(STEER_NUMA_FORK);
TRACE_DEFINE_ENUM(STEER_NUMA_BALANCE);
TRACE_DEFINE_ENUM(STEER_NUMA_QUEUED);
TRACE_DEFINE_ENUM(STEER_NUMA_MEMORY);

TRACE_DEFINE_ENUM(STEER_ENERGY_WAKE);
TRACE_DEFINE_ENUM(STEER_ENERGY_FORK);
TRACE_DEFINE_ENUM(STEER_ENERGY_EXEC);
TRACE_DEFINE_ENUM(STEER_ENERGY_STUCK);

#define show_steer_energy_when(when)					\
	__print_symbolic(when,						\
		{ STEER_ENERGY_WAKE,	"wake" },			\
		{ STEER_ENERGY_FORK,	"fork" },			\
		{ STEER_ENERGY_EXEC,	"exec" },			\
		{ STEER_ENERGY_STUCK,	"stuck" })

#define show_steer_numa_path(path)					\
	__print_symbolic(path,						\
		{ STEER_NUMA_FORK,	"fork" },			\
		{ STEER_NUMA_BALANCE,	"balance" },			\
		{ STEER_NUMA_QUEUED,	"queued" },			\
		{ STEER_NUMA_MEMORY,	"memory" })

#define show_steer_verdict(verdict)					\
	__print_symbolic(verdict,					\
		{ STEER_V_UNASKED,	"unasked" },			\
		{ STEER_V_FOLLOWED,	"followed" },			\
		{ STEER_V_SAME_LLC,	"same_llc" },			\
		{ STEER_V_FULL,		"full" },			\
		{ STEER_V_AFFINITY,	"affinity" },			\
		{ STEER_V_IRQ,		"irq" },			\
		{ STEER_V_OVERLOADED,	"overloaded" },			\
		{ STEER_V_GAVE_UP,	"gave_up" },			\
		{ STEER_V_TURNS,	"turns" })

#define show_steer_words(words)						\
	__print_flags(words, "|",					\
		{ STEER_FORK_AFFINE,	"fork_affine" },		\
		{ STEER_FORK_SPREAD,	"fork_spread" },		\
		{ STEER_WAKE_AFFINE,	"wake_affine" },		\
		{ STEER_WAKE_HOLD,	"wake_hold" },			\
		{ STEER_WAKE_WIDE,	"wake_wide" },			\
		{ STEER_SCAN_FULL,	"scan_full" },			\
		{ STEER_SCAN_NONE,	"scan_none" },			\
		{ STEER_SLICE_SHORT,	"slice_short" },		\
		{ STEER_SLICE_LONG,	"slice_long" },			\
		{ STEER_PREEMPT_NONE,	"preempt_none" },		\
		{ STEER_PACK,		"pack" },			\
		{ STEER_ENERGY,		"energy" })

/**
 * steer_hint - the effective words of a group changed
 * @css: the group's cpu controller state
 * @hint: effective words from now on
 */
TRACE_EVENT(steer_hint,

	TP_PROTO(struct cgroup_subsys_state *css, u32 hint),

	TP_ARGS(css, hint),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__field(u32, hint)
	),

	TP_fast_assign(
		__entry->cgroup	= cgroup_id(css->cgroup);
		__entry->hint	= hint;
	),

	TP_printk("cgroup=%llu hint=%s", __entry->cgroup,
		  show_steer_words(__entry->hint))
);

/**
 * steer_wake - a task of a hinted group woke up
 * @p: the task
 * @hint: effective words of its group
 * @waker_cpu: CPU on which the waker runs
 * @prev_cpu: CPU on which @p ran last
 * @target_cpu: CPU near which the default path would search
 * @cpu: CPU chosen for @p, or -1 where the default path goes on
 * @wake: what became of the wake hint (enum steer_verdict)
 * @reach: what became of wake_wide
 * @scan: what became of the scan hint
 * @pack: what became of pack
 */
TRACE_EVENT(steer_wake,

	TP_PROTO(struct task_struct *p, u32 hint, int waker_cpu, int prev_cpu,
		 int target_cpu, int cpu, int wake, int reach, int scan, int pack),

	TP_ARGS(p, hint, waker_cpu, prev_cpu, target_cpu, cpu, wake, reach, scan,
		pack),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(u32, hint)
		__field(int, waker_cpu)
		__field(int, prev_cpu)
		__field(int, target_cpu)
		__field(int, cpu)
		__field(u8, wake)
		__field(u8, reach)
		__field(u8, scan)
		__field(u8, pack)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->hint		= hint;
		__entry->waker_cpu	= waker_cpu;
		__entry->prev_cpu	= prev_cpu;
		__entry->target_cpu	= target_cpu;
		__entry->cpu		= cpu;
		__entry->wake		= wake;
		__entry->reach		= reach;
		__entry->scan		= scan;
		__entry->pack		= pack;
	),

	TP_printk("comm=%s pid=%d hint=%s waker_cpu=%d prev_cpu=%d target_cpu=%d cpu=%d wake=%s reach=%s scan=%s pack=%s",
		  __entry->comm, __entry->pid, show_steer_words(__entry->hint),
		  __entry->waker_cpu, __entry->prev_cpu, __entry->target_cpu,
		  __entry->cpu,
		  show_steer_verdict(__entry->wake),
		  show_steer_verdict(__entry->reach),
		  show_steer_verdict(__entry->scan),
		  show_steer_verdict(__entry->pack))
);

/**
 * steer_fork - a task of a hinted group was created, or called exec
 * @p: the task
 * @hint: effective words of its group
 * @parent_cpu: CPU of the parent, or of @p itself at exec
 * @cpu: CPU chosen for @p, or -1 where the default path goes on
 * @verdict: what became of the fork hint (enum steer_verdict)
 */
TRACE_EVENT(steer_fork,

	TP_PROTO(struct task_struct *p, u32 hint, int parent_cpu, int cpu,
		 int verdict),

	TP_ARGS(p, hint, parent_cpu, cpu, verdict),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(u32, hint)
		__field(int, parent_cpu)
		__field(int, cpu)
		__field(u8, verdict)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->hint		= hint;
		__entry->parent_cpu	= parent_cpu;
		__entry->cpu		= cpu;
		__entry->verdict	= verdict;
	),

	TP_printk("comm=%s pid=%d hint=%s parent_cpu=%d cpu=%d verdict=%s",
		  __entry->comm, __entry->pid, show_steer_words(__entry->hint),
		  __entry->parent_cpu, __entry->cpu,
		  show_steer_verdict(__entry->verdict))
);

/**
 * steer_numa - the fork word changed what imbalance of nodes is allowed to a task
 * @p: the task
 * @hint: effective words of its group: with fork_spread, it is not to stay although the
 *	default would have it stay; with fork_affine, the other way round
 * @path: who asked (enum steer_numa_path)
 * @src_cpu: where @p is
 * @dst_cpu: which CPU, or the first CPU of which node, it would go to; -1 for none in
 *	particular
 */
TRACE_EVENT(steer_numa,

	TP_PROTO(struct task_struct *p, u32 hint, int path, int src_cpu, int dst_cpu),

	TP_ARGS(p, hint, path, src_cpu, dst_cpu),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(u32, hint)
		__field(int, src_cpu)
		__field(int, dst_cpu)
		__field(u8, path)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->hint		= hint;
		__entry->src_cpu	= src_cpu;
		__entry->dst_cpu	= dst_cpu;
		__entry->path		= path;
	),

	TP_printk("comm=%s pid=%d hint=%s path=%s src_cpu=%d dst_cpu=%d",
		  __entry->comm, __entry->pid, show_steer_words(__entry->hint),
		  show_steer_numa_path(__entry->path), __entry->src_cpu, __entry->dst_cpu)
);

/**
 * steer_energy_candidate - what a task would cost on a CPU
 * @p: the task
 * @when: when costs are compared (enum steer_energy_when)
 * @cpu: the CPU
 * @fits: 1 if it cannot give what uclamp.min asks for, else 2
 * @cost: what its performance domain needs more, in units of the energy model's cost
 * @running: how many other tasks are runnable there
 * @room: capacity that is left with the task
 *
 * Of CPUs on which @p does not fit, there is none. steer_energy tells which one was taken.
 */
TRACE_EVENT(steer_energy_candidate,

	TP_PROTO(struct task_struct *p, int when, int cpu, int fits, unsigned long cost,
		 unsigned int running, long room),

	TP_ARGS(p, when, cpu, fits, cost, running, room),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(int, cpu)
		__field(u64, cost)
		__field(unsigned int, running)
		__field(int, room)
		__field(u8, fits)
		__field(u8, when)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->cpu		= cpu;
		__entry->cost		= cost;
		__entry->running	= running;
		__entry->room		= room;
		__entry->fits		= fits;
		__entry->when		= when;
	),

	TP_printk("comm=%s pid=%d when=%s cpu=%d fits=%u cost=%llu running=%u room=%d",
		  __entry->comm, __entry->pid, show_steer_energy_when(__entry->when), __entry->cpu,
		  __entry->fits, __entry->cost, __entry->running, __entry->room)
);

/**
 * steer_energy - costs were compared for a task
 * @p: the task
 * @hint: effective words of its group
 * @when: when (enum steer_energy_when)
 * @src_cpu: where @p is or was last, or its parent
 * @dst_cpu: the CPU that was taken; -1 where @p fits none
 */
TRACE_EVENT(steer_energy,

	TP_PROTO(struct task_struct *p, u32 hint, int when, int src_cpu, int dst_cpu),

	TP_ARGS(p, hint, when, src_cpu, dst_cpu),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(u32, hint)
		__field(int, src_cpu)
		__field(int, dst_cpu)
		__field(u8, when)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->hint		= hint;
		__entry->src_cpu	= src_cpu;
		__entry->dst_cpu	= dst_cpu;
		__entry->when		= when;
	),

	TP_printk("comm=%s pid=%d hint=%s when=%s src_cpu=%d dst_cpu=%d",
		  __entry->comm, __entry->pid, show_steer_words(__entry->hint),
		  show_steer_energy_when(__entry->when), __entry->src_cpu, __entry->dst_cpu)
);

/**
 * steer_balance - the load balancer wanted to move a task with a wake hint
 * @p: the task
 * @hint: effective words of its group
 * @src_cpu: CPU on whose runqueue @p waits
 * @dst_cpu: CPU that wanted to pull it
 * @verdict: followed means that @p stays (enum steer_verdict)
 */
TRACE_EVENT(steer_balance,

	TP_PROTO(struct task_struct *p, u32 hint, int src_cpu, int dst_cpu,
		 int verdict),

	TP_ARGS(p, hint, src_cpu, dst_cpu, verdict),

	TP_STRUCT__entry(
		__array(char, comm, TASK_COMM_LEN)
		__field(pid_t, pid)
		__field(u32, hint)
		__field(int, src_cpu)
		__field(int, dst_cpu)
		__field(u8, verdict)
	),

	TP_fast_assign(
		memcpy(__entry->comm, p->comm, TASK_COMM_LEN);
		__entry->pid		= p->pid;
		__entry->hint		= hint;
		__entry->src_cpu	= src_cpu;
		__entry->dst_cpu	= dst_cpu;
		__entry->verdict	= verdict;
	),

	TP_printk("comm=%s pid=%d hint=%s src_cpu=%d dst_cpu=%d verdict=%s",
		  __entry->comm, __entry->pid, show_steer_words(__entry->hint),
		  __entry->src_cpu, __entry->dst_cpu,
		  show_steer_verdict(__entry->verdict))
);

/**
 * steer_headroom_update - the controller of cpu.headroom decided about a period
 * @u: what it knew, and what it decided
 */
TRACE_EVENT(steer_headroom_update,

	TP_PROTO(const struct steer_headroom_update *u),

	TP_ARGS(u),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__field(u64, pool)
		__field(u32, headroom)
		__field(u32, demand)
		__field(s32, idle)
		__field(u32, cpus)
		__field(u32, rivals)
		__field(u32, givers)
		__field(u32, lacking)
		__field(u8, wanting)
		__field(u8, starved)
		__field(u8, halved)
		__field(u64, elapsed)
		__field(u64, used)
		__field(s64, capped_used)
		__field(u64, active_weight)
		__field(u64, capped_weight)
		__field(u64, budget)
		__field(u64, level)
		__field(s64, trim)
		__field(u64, took)
	),

	TP_fast_assign(
		__entry->cgroup		= u->cgroup;
		__entry->pool		= u->pool;
		__entry->headroom	= u->headroom;
		__entry->demand		= u->demand;
		__entry->idle		= u->idle;
		__entry->cpus		= u->cpus;
		__entry->rivals		= u->rivals;
		__entry->givers		= u->givers;
		__entry->lacking	= u->lacking;
		__entry->wanting	= u->wanting;
		__entry->starved	= u->starved;
		__entry->halved		= u->halved;
		__entry->elapsed	= u->elapsed;
		__entry->used		= u->used;
		__entry->capped_used	= u->capped_used;
		__entry->active_weight	= u->active_weight;
		__entry->capped_weight	= u->capped_weight;
		__entry->budget		= u->budget;
		__entry->level		= u->level;
		__entry->trim		= u->trim;
		__entry->took		= u->took;
	),

	TP_printk("cgroup=%llu pool=%llu headroom=%u demand=%u idle=%d cpus=%u rivals=%u givers=%u lacking=%u wanting=%u starved=%u halved=%u elapsed=%llu used=%llu capped_used=%lld active_weight=%llu capped_weight=%llu budget=%lld level=%lld trim=%lld took=%llu",
		  __entry->cgroup, __entry->pool, __entry->headroom, __entry->demand,
		  __entry->idle, __entry->cpus, __entry->rivals, __entry->givers,
		  __entry->lacking, __entry->wanting, __entry->starved, __entry->halved,
		  __entry->elapsed, __entry->used, __entry->capped_used,
		  __entry->active_weight, __entry->capped_weight,
		  __entry->budget, __entry->level, __entry->trim, __entry->took)
);

#define show_steer_scope(scope)						\
	__print_symbolic(scope,						\
		{ 0,	"core" },					\
		{ 1,	"llc" },					\
		{ 2,	"node" },					\
		{ 3,	"system" })

#define show_steer_gang_end(why)					\
	__print_symbolic(why,						\
		{ 0,	"over" },					\
		{ 1,	"asleep" },					\
		{ 2,	"preempted" })

/**
 * steer_gang_lead - a slot begins
 * @cgroup: id of the gang's cgroup, 0 for the slot of all that are in no gang
 * @cpu: the CPU that leads it
 * @scope: in which CPUs (enum steer_scope)
 * @members: CPUs that seem to have a runnable member, and others
 * @ipis: interrupts sent
 * @end: when it ends, in ns of CLOCK_MONOTONIC
 */
TRACE_EVENT(steer_gang_lead,

	TP_PROTO(u64 cgroup, int cpu, int scope, int members, int ipis, u64 end),

	TP_ARGS(cgroup, cpu, scope, members, ipis, end),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__field(u64, end)
		__field(int, cpu)
		__field(int, members)
		__field(int, ipis)
		__field(u8, scope)
	),

	TP_fast_assign(
		__entry->cgroup		= cgroup;
		__entry->end		= end;
		__entry->cpu		= cpu;
		__entry->members	= members;
		__entry->ipis		= ipis;
		__entry->scope		= scope;
	),

	TP_printk("cgroup=%llu cpu=%d scope=%s members=%d ipis=%d end=%llu",
		  __entry->cgroup, __entry->cpu, show_steer_scope(__entry->scope),
		  __entry->members, __entry->ipis, __entry->end)
);

/**
 * steer_gang_follow - a CPU begins to run a member in a slot
 * @cgroup: id of the gang's cgroup
 * @cpu: the CPU
 * @pid: the member
 */
TRACE_EVENT(steer_gang_follow,

	TP_PROTO(u64 cgroup, int cpu, pid_t pid),

	TP_ARGS(cgroup, cpu, pid),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__field(int, cpu)
		__field(pid_t, pid)
	),

	TP_fast_assign(
		__entry->cgroup		= cgroup;
		__entry->cpu		= cpu;
		__entry->pid		= pid;
	),

	TP_printk("cgroup=%llu cpu=%d pid=%d", __entry->cgroup, __entry->cpu,
		  __entry->pid)
);

/**
 * steer_gang_end - it runs no member of that slot any more
 * @cgroup: id of the gang's cgroup
 * @cpu: the CPU
 * @ran: for how long it did, in the slot [ns]
 * @why: the slot is over, no member is runnable, or another task took the CPU
 */
TRACE_EVENT(steer_gang_end,

	TP_PROTO(u64 cgroup, int cpu, u64 ran, int why),

	TP_ARGS(cgroup, cpu, ran, why),

	TP_STRUCT__entry(
		__field(u64, cgroup)
		__field(u64, ran)
		__field(int, cpu)
		__field(u8, why)
	),

	TP_fast_assign(
		__entry->cgroup		= cgroup;
		__entry->ran		= ran;
		__entry->cpu		= cpu;
		__entry->why		= why;
	),

	TP_printk("cgroup=%llu cpu=%d ran=%llu why=%s", __entry->cgroup,
		  __entry->cpu, __entry->ran, show_steer_gang_end(__entry->why))
);

#endif /* _TRACE_STEER_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
