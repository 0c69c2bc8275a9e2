/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: the words of cpu.hint and what a task group carries for them.
 *
 * Everything declared here is free of scheduler internals, so that the word
 * handling can be tested on its own (kernel/cgroup/steer_words_test.c).
 */
#ifndef _LINUX_SCHED_STEER_H
#define _LINUX_SCHED_STEER_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/types.h>

/*
 * One bit for each low-level word, in the order in which cpu.hint and
 * cpu.hint.effective list them. Plain numbers, because trace formats are read
 * by tools that do not evaluate C.
 */
#define STEER_FORK_AFFINE	0x0001
#define STEER_FORK_SPREAD	0x0002
#define STEER_WAKE_AFFINE	0x0004
#define STEER_WAKE_HOLD		0x0008
#define STEER_WAKE_WIDE		0x0010
#define STEER_SCAN_FULL		0x0020
#define STEER_SCAN_NONE		0x0040
#define STEER_SLICE_SHORT	0x0080
#define STEER_SLICE_LONG	0x0100
#define STEER_PREEMPT_NONE	0x0200
#define STEER_PACK		0x0400
#define STEER_ENERGY		0x0800

#define STEER_NR_WORDS		12
#define STEER_WORDS		((1U << STEER_NR_WORDS) - 1)

/* Categories: at most one word of each may be in force. */
#define STEER_FORK		(STEER_FORK_AFFINE | STEER_FORK_SPREAD)
#define STEER_WAKE		(STEER_WAKE_AFFINE | STEER_WAKE_HOLD)
#define STEER_REACH		STEER_WAKE_WIDE
#define STEER_SCAN		(STEER_SCAN_FULL | STEER_SCAN_NONE)
#define STEER_SLICE		(STEER_SLICE_SHORT | STEER_SLICE_LONG)
#define STEER_PREEMPT		STEER_PREEMPT_NONE

/*
 * A request is what cpu.hint holds: refining words in the low bits, a profile
 * above them, and one bit that tells "none" from "inherit". All zero is
 * "inherit", which is what a new group starts with.
 */
#define STEER_PROFILE_SHIFT	16
#define STEER_PROFILE		(0xfU << STEER_PROFILE_SHIFT)
#define STEER_EXPLICIT		BIT(31)
#define STEER_INHERIT		0U
#define STEER_NONE		STEER_EXPLICIT

/* Longest line that cpu.hint or cpu.hint.effective can show, with its NUL. */
#define STEER_LINE_MAX		192

/* Longest list of what cpu.hint takes, with its NUL. */
#define STEER_VOCABULARY_MAX	256

/* What steer_quote() makes of so many bytes at most, with its NUL. */
#define STEER_QUOTED(bytes)	(4 * (bytes) + 4)

/**
 * struct steer_refusal - why a line was refused
 * @word: the word that is wrong, in the line that was parsed
 * @why: what is wrong with it; NULL if nothing is
 */
struct steer_refusal {
	const char	*word;
	const char	*why;
};

int steer_request_parse(char *line, u32 current_request, u32 inherited,
			u32 *request, struct steer_refusal *refusal);
int steer_vocabulary(char *line, size_t size);
void steer_quote(const char *text, size_t bytes, char *quoted);
int steer_request_format(u32 request, char *line, size_t size);
u32 steer_request_words(u32 request);
u32 steer_request_resolve(u32 request, u32 inherited);
int steer_words_format(u32 words, u32 available, char *line, size_t size);
bool steer_words_conflict(u32 words);

/*
 * cpu.gang.scope: the set of CPUs in which one slot runs. In the order of their
 * size, as the words of the file.
 */
enum steer_scope {
	STEER_SCOPE_CORE,
	STEER_SCOPE_LLC,
	STEER_SCOPE_NODE,
	STEER_SCOPE_SYSTEM,
	STEER_NR_SCOPES
};

struct steer_gang;

/**
 * struct steer_gang_group - what a task group carries for cpu.gang
 * @effective: the gang that its tasks belong to, NULL for none; scheduler paths
 *	read it with one load
 * @own: the gang that it makes when it is the topmost group that says 1;
 *	allocated by the first such write, and freed with the group
 * @request: what cpu.gang holds; under steer_gang_mutex
 * @scope: what cpu.gang.scope holds (enum steer_scope); under steer_gang_mutex
 */
struct steer_gang_group {
	struct steer_gang	*effective;
	struct steer_gang	*own;
	bool			request;
	u8			scope;
};

struct steer_headroom;
struct steer_pool;
struct steer_stats;

/**
 * struct steer_group - what a task group carries for the files of cgroup steer
 * @hint: effective words (STEER_*), read on scheduler paths with one load
 * @request: what the user wrote, see STEER_EXPLICIT; under steer_mutex
 * @online: the group cannot fail to come into being any more; under steer_mutex
 * @stats: per-CPU counters, allocated when a hint first becomes effective
 * @headroom: for cpu.headroom, allocated when that is first needed
 * @gang: for cpu.gang
 *
 * Empty without CONFIG_CGROUP_STEER, so that struct task_group does not change.
 */
struct steer_group {
#ifdef CONFIG_CGROUP_STEER
	u32			hint;
	u32			request;
	bool			online;
	struct steer_stats __percpu *stats;
	struct steer_headroom	*headroom;
	struct steer_gang_group	gang;
#endif
};

/**
 * struct steer_queue - what each queue of a task group carries
 * @pool: where it waits for runtime for headroom's sake; under the rq lock
 * @waiting: among others of the CPU that do, while @pool is set
 * @epoch: the pool's period in which it last got enough to run
 * @before: the one in which it did before that
 * @resumed: runtime that it was let go on with last, 0 if that is used up; under the rq lock
 */
struct steer_queue {
#ifdef CONFIG_CGROUP_STEER
	struct steer_pool	*pool;
	struct list_head	waiting;
	u64			epoch;
	u64			before;
	s64			resumed;
#endif
};

/**
 * struct steer_headroom_update - inputs and outputs of a controller update
 * @cgroup: id of the parent of the groups concerned
 * @pool: number of the set of groups, which no other one has had since boot
 * @headroom: that they have themselves, in hundredths of a percent, as all shares
 * @demand: idle share that is asked for
 * @idle: idle share that was measured, -1 for none yet; the last one where this period
 *	told nothing: it was short, or CPUs came or went
 * @cpus: number of CPUs that they may use
 * @rivals: sets of groups that share what is left on these CPUs
 * @givers: those of them that take off a lack together
 * @lacking: for how many periods up to the last one less was idle than demanded
 * @wanting: this one did
 * @starved: the budget came to its end before the caps did
 * @halved: how often the rest of it was halved, at the end of the period
 * @elapsed: length of the period [ns]
 * @used: runtime given out [ns], as if the period had been of the right length
 * @capped_used: by groups that reached their cap [ns], in the period as it was
 * @active_weight: weight of the groups that used something
 * @capped_weight: weight of those of them that reached their cap
 * @budget: for the next period [ns], all ones for no limit
 * @level: for the next period, 1/256 ns for each unit of weight, all ones for none
 * @trim: slow correction [ns]
 * @took: what the timer took in the period for looking at clocks and deciding [ns], without
 *	interrupting CPUs
 */
struct steer_headroom_update {
	u64	cgroup;
	u64	pool;
	u32	headroom;
	u32	demand;
	s32	idle;
	u32	cpus;
	u32	rivals;
	u32	givers;
	u32	lacking;
	bool	wanting;
	bool	starved;
	u8	halved;
	u64	elapsed;
	u64	used;
	s64	capped_used;
	u64	active_weight;
	u64	capped_weight;
	u64	budget;
	u64	level;
	s64	trim;
	u64	took;
};

#endif /* _LINUX_SCHED_STEER_H */
