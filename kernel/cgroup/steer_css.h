/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: what the files of the cpu controller have in common
 */
#ifndef _KERNEL_CGROUP_STEER_CSS_H
#define _KERNEL_CGROUP_STEER_CSS_H

#include <linux/cgroup.h>
#include <linux/mmu_context.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../sched/sched.h"

/**
 * steer_css_tg - the task group of a group of the cpu controller
 * @css: its state
 *
 * Return: the task group, which lives as long as @css does
 */
static inline struct task_group *steer_css_tg(struct cgroup_subsys_state *css)
{
	return container_of(css, struct task_group, css);
}

void steer_refuse(struct cgroup_subsys_state *css, const char *file,
		  const char *word, const char *why, const char *accepted);

/**
 * steer_css_hold - keep a group that a walk has met while the walk pauses
 * @css: its state; the RCU read lock is held
 *
 * A group is linked before css_online() has run. If that fails, the group is freed
 * after a grace period, whatever references there are.
 *
 * Return: true with a reference to @css, for css_put() under the RCU read lock again;
 * false if the walk has to go on without a pause.
 */
static inline bool steer_css_hold(struct cgroup_subsys_state *css)
{
	return READ_ONCE(steer_css_tg(css)->steer.online) && css_tryget(css);
}

/**
 * steer_walk_resched - let others run in the middle of a walk, if they want to
 * @css: the group that the walk has reached; the RCU read lock is held, once
 */
static inline void steer_walk_resched(struct cgroup_subsys_state *css)
{
	if (!need_resched() || !steer_css_hold(css))
		return;
	rcu_read_unlock();
	cond_resched();
	rcu_read_lock();
	css_put(css);
}

/**
 * steer_is_text - is all that was written text?
 * @buf: what the file was given, with a NUL behind it
 * @nbytes: how much that was
 *
 * Return: false if there is a NUL in it: what is behind that would be lost without
 * a word.
 */
static inline bool steer_is_text(const char *buf, size_t nbytes)
{
	return strlen(buf) == nbytes;
}

#endif /* _KERNEL_CGROUP_STEER_CSS_H */
