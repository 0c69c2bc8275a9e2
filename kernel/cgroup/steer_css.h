/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup steer: what the files of the cpu controller have in common
 */
#ifndef _KERNEL_CGROUP_STEER_CSS_H
#define _KERNEL_CGROUP_STEER_CSS_H

#include <linux/cgroup.h>
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
