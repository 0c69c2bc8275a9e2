// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.gang: its files in the cpu controller, and their hierarchy
 *
 *	cpu.gang		0 or 1, as the user wrote it
 *	cpu.gang.scope		core, llc, node or system: where a slot runs
 *	cpu.gang.effective	0, or 1 and the scope of the gang that this group's
 *				tasks belong to
 *	cpu.stat		gang_* keys, in the group that makes the gang
 *
 * What is promised
 * ----------------
 * The topmost group that says 1 makes a gang of all tasks in it and below it. What
 * groups below it say is kept, and has no effect until it says 0; then the topmost
 * of those make gangs of their own. So a write affects the tasks of the group and
 * its descendants only, and a delegatee can change nothing above. Nor can it escape
 * a gang that its delegator made: that is what a gang is.
 *
 * A write is all or nothing: what it needs is allocated first, and belongs to the
 * group that says 1, whether it has an effect yet or not.
 *
 * Locking
 * -------
 * steer_gang_mutex serialises writers, the start and the end of groups. It nests
 * inside cgroup_mutex and outside cpu_hotplug_lock, and inside steer_mutex, under
 * which groups start. Writers hold a kernfs active reference, which keeps their own
 * group; the others are walked under RCU. Each group has a pointer to the gang of
 * its tasks, which scheduler paths read with one load.
 *
 * A group under construction is linked before it is online, and may be met by a
 * walk, which then sets its pointer; it looks itself when it comes online. A group
 * that goes offline takes its pointer back, and stops its gang.
 *
 * The static key counts the groups that say 1, and goes off a second late, because
 * flipping it interrupts every CPU.
 *
 * Parts
 * -----
 * Gangs of a scope whose cpusets have no CPU in common have slots of their own (see
 * kernel/sched/steer_gang.c). Which those are is looked at after gangs began or ended, and
 * twice a second as long as a scope has two gangs, since cpusets tell nobody when they change.
 * It takes a hundredth of a CPU at most: with 10,000 gangs it is done the less often. What
 * is out of date does no harm, so where there is no memory, scopes are not divided.
 */
#include <linux/cgroup.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mmu_context.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../sched/sched.h"
#include "../sched/steer.h"
#include "../sched/steer_gang_rules.h"
#include "steer_cpus.h"
#include "steer_css.h"

/* How long after a gang began or ended scopes are divided, and how often anyway. */
#define STEER_PARTS_SOON	(HZ / 50)
#define STEER_PARTS_REFRESH	(HZ / 2UL)

/* What is left of a CPU: that takes one part in this many of its time. */
#define STEER_PARTS_SHARE	100

static DEFINE_MUTEX(steer_gang_mutex);

/* Gangs of each scope that have slots, and its parts, none or some; under steer_gang_mutex. */
static struct list_head steer_gangs[STEER_NR_SCOPES], steer_parts[STEER_NR_SCOPES];
static struct cpumask steer_part_cpus;

/* Gangs began or ended since; and not before that [jiffies]. */
static bool steer_parts_outdated;
static unsigned long steer_parts_next;

static void steer_parts_refresh(struct work_struct *work);
static DECLARE_DELAYED_WORK(steer_parts_work, steer_parts_refresh);

/* Groups that say 1; written under steer_gang_mutex. */
static int steer_gang_users;

static const char * const steer_scopes[STEER_NR_SCOPES] = {
	[STEER_SCOPE_CORE] = "core",
	[STEER_SCOPE_LLC] = "llc",
	[STEER_SCOPE_NODE] = "node",
	[STEER_SCOPE_SYSTEM] = "system",
};

static struct steer_gang_group *steer_gang_group(struct cgroup_subsys_state *css)
{
	return &steer_css_tg(css)->steer.gang;
}

/* ------------------------------------------------------------------ parts */

/* With one gang there is nothing to divide. */
static bool steer_parts_possible(enum steer_scope scope)
{
	return !list_empty(&steer_gangs[scope]) && !list_is_singular(&steer_gangs[scope]);
}

static void steer_parts_free(struct list_head *parts)
{
	struct steer_gang_part *part, *next;

	list_for_each_entry_safe(part, next, parts, link) {
		list_del(&part->link);
		kfree_rcu(part, rcu);
	}
}

/* What the gangs of a scope divide it into: nothing, if that is one part only. */
static void steer_parts_find(enum steer_scope scope, struct list_head *parts)
{
	struct steer_gang *gang;
	LIST_HEAD(gone);

	list_for_each_entry(gang, &steer_gangs[scope], link) {
		struct steer_gang_part *part;

		steer_cgroup_cpus(gang->tg->css.cgroup, &steer_part_cpus);
		cond_resched();
		if (steer_gang_divided(parts, cpumask_bits(&steer_part_cpus), nr_cpu_ids))
			continue;
		part = kzalloc(struct_size(part, cpus, BITS_TO_LONGS(nr_cpu_ids)), GFP_KERNEL);
		if (!part) {
			steer_parts_free(parts);
			break;
		}
		bitmap_copy(part->cpus, cpumask_bits(&steer_part_cpus), nr_cpu_ids);
		steer_gang_divide(parts, part, nr_cpu_ids, &gone);
	}
	steer_parts_free(&gone);
	if (list_is_singular(parts))
		steer_parts_free(parts);
}

/* Are they the same? Of each no two have a CPU in common. */
static bool steer_parts_equal(struct list_head *parts, struct list_head *others)
{
	struct steer_gang_part *part;

	if (list_count_nodes(parts) != list_count_nodes(others))
		return false;
	list_for_each_entry(part, parts, link) {
		struct steer_gang_part *other;
		bool found = false;

		list_for_each_entry(other, others, link)
			found |= bitmap_equal(part->cpus, other->cpus, nr_cpu_ids);
		if (!found)
			return false;
	}
	return true;
}

static void steer_parts_update(enum steer_scope scope)
{
	LIST_HEAD(parts);
	LIST_HEAD(before);

	if (steer_parts_possible(scope))
		steer_parts_find(scope, &parts);
	if (!steer_parts_equal(&parts, &steer_parts[scope])) {
		steer_gang_use_parts(scope, &parts);
		list_splice_init(&steer_parts[scope], &before);
		list_splice_init(&parts, &steer_parts[scope]);
	}
	steer_parts_free(&parts);
	steer_parts_free(&before);
}

static void steer_parts_refresh(struct work_struct *work)
{
	unsigned long began, pause;
	bool again = false;
	int scope;

	guard(mutex)(&steer_gang_mutex);

	began = jiffies;
	steer_parts_outdated = false;
	for (scope = 0; scope < STEER_NR_SCOPES; scope++) {
		steer_parts_update(scope);
		again |= steer_parts_possible(scope);
	}
	pause = (jiffies - began) * STEER_PARTS_SHARE;
	steer_parts_next = jiffies + pause;
	if (again)
		schedule_delayed_work(&steer_parts_work, max(pause, STEER_PARTS_REFRESH));
}

/* Gangs of this scope began or ended. Those who do so all the time do not put it off. */
static void steer_parts_changed(enum steer_scope scope)
{
	unsigned long delay = STEER_PARTS_SOON;

	lockdep_assert_held(&steer_gang_mutex);

	if (steer_parts_outdated ||
	    (!steer_parts_possible(scope) && list_empty(&steer_parts[scope])))
		return;
	if (time_before(jiffies + delay, steer_parts_next))
		delay = steer_parts_next - jiffies;
	steer_parts_outdated = true;
	mod_delayed_work(system_wq, &steer_parts_work, delay);
}

/* ----------------------------------------------------- what makes a gang */

static void steer_gang_begin(struct steer_gang *gang, enum steer_scope scope)
{
	list_add_tail(&gang->link, &steer_gangs[scope]);
	steer_gang_start(gang, scope);
	steer_parts_changed(scope);
}

static void steer_gang_finish(struct steer_gang *gang)
{
	enum steer_scope scope = gang->scope;

	steer_gang_stop(gang);
	list_del(&gang->link);
	steer_parts_changed(scope);
}

/*
 * The gang of the tasks of @css: its parent's, or its own. Returns true if it was
 * another one before.
 */
static bool steer_gang_resolve(struct cgroup_subsys_state *css)
{
	struct steer_gang_group *group = steer_gang_group(css);
	struct steer_gang *gang = NULL, *before = group->effective;

	lockdep_assert_held(&steer_gang_mutex);

	if (css->parent)
		gang = steer_gang_group(css->parent)->effective;
	if (!gang && group->request)
		gang = group->own;
	if (gang == before)
		return false;

	if (before && before == group->own)
		steer_gang_finish(before);
	/* What is in it was written before; readers depend on the pointer. */
	smp_store_release(&group->effective, gang);
	if (gang && gang == group->own)
		steer_gang_begin(gang, group->scope);
	return true;
}

/*
 * After a change at @top. Where a group's gang does not change, nothing below does. To
 * stop a gang takes a lock for each CPU, and there may be thousands of them.
 */
static void steer_gang_publish(struct cgroup_subsys_state *top)
{
	struct cgroup_subsys_state *pos;

	rcu_read_lock();
	css_for_each_descendant_pre(pos, top) {
		if (!steer_gang_resolve(pos))
			pos = css_rightmost_descendant(pos);
		steer_walk_resched(pos);
	}
	rcu_read_unlock();
}

static void steer_gang_use(struct steer_gang_group *group, bool request)
{
	lockdep_assert_held(&steer_gang_mutex);

	if (group->request == request)
		return;
	WRITE_ONCE(group->request, request);
	if (request) {
		WRITE_ONCE(steer_gang_users, steer_gang_users + 1);
		static_branch_deferred_inc(&steer_gang_key);
	} else {
		WRITE_ONCE(steer_gang_users, steer_gang_users - 1);
		static_branch_slow_dec_deferred(&steer_gang_key);
	}
}

/**
 * steer_gang_tg_online - a group of the cpu controller comes into being
 * @tg: the group
 */
void steer_gang_tg_online(struct task_group *tg)
{
	guard(mutex)(&steer_gang_mutex);

	if (!tg->css.parent)
		return;
	tg->steer.gang.scope = STEER_SCOPE_LLC;
	/* As in steer_gang_resolve(). */
	smp_store_release(&tg->steer.gang.effective,
			  steer_gang_group(tg->css.parent)->effective);
}

/**
 * steer_gang_tg_offline - a group was removed; no task is in it any more
 * @tg: the group
 */
void steer_gang_tg_offline(struct task_group *tg)
{
	struct steer_gang_group *group = &tg->steer.gang;

	guard(mutex)(&steer_gang_mutex);

	if (group->effective && group->effective == group->own)
		steer_gang_finish(group->own);
	WRITE_ONCE(group->effective, NULL);
	steer_gang_use(group, false);
}

/**
 * steer_gang_tg_free - the last reference to a group is gone
 * @tg: the group; may be one that never came online, or an autogroup
 */
void steer_gang_tg_free(struct task_group *tg)
{
	steer_gang_free(tg->steer.gang.own);
}

/**
 * steer_gang_stat_show - add the counters to cpu.stat
 * @sf: where to
 * @tg: the group; shows nothing unless it says, or has said, 1
 */
void steer_gang_stat_show(struct seq_file *sf, struct task_group *tg)
{
	u64 sum[STEER_GANG_NR_COUNTERS] = { };
	struct steer_gang *gang;
	int i, cpu;

	/* Pairs with the release in steer_gang_write(). */
	gang = smp_load_acquire(&tg->steer.gang.own);
	if (!gang)
		return;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < STEER_GANG_NR_COUNTERS; i++)
			sum[i] += READ_ONCE(per_cpu_ptr(gang->pcpu, cpu)->count[i]);
	}
	seq_printf(sf, "gang_slots_led %llu\ngang_ipis %llu\ngang_ipis_empty %llu\n"
		       "gang_corun_usec %llu\ngang_favoured_usec %llu\n",
		   sum[STEER_GANG_SLOTS_LED], sum[STEER_GANG_IPIS],
		   sum[STEER_GANG_IPIS_EMPTY],
		   div_u64(sum[STEER_GANG_CORUN_NS], NSEC_PER_USEC),
		   div_u64(sum[STEER_GANG_FAVOURED_NS], NSEC_PER_USEC));
}

static int steer_gang_show(struct seq_file *sf, void *v)
{
	seq_printf(sf, "%d\n", READ_ONCE(steer_gang_group(seq_css(sf))->request));
	return 0;
}

static int steer_gang_scope_show(struct seq_file *sf, void *v)
{
	seq_printf(sf, "%s\n",
		   steer_scopes[READ_ONCE(steer_gang_group(seq_css(sf))->scope)]);
	return 0;
}

static int steer_gang_effective_show(struct seq_file *sf, void *v)
{
	struct steer_gang *gang = READ_ONCE(steer_gang_group(seq_css(sf))->effective);

	/* The group is held, and with it those above, one of which has the gang. */
	if (gang)
		seq_printf(sf, "1 %s\n", steer_scopes[READ_ONCE(gang->scope)]);
	else
		seq_puts(sf, "0\n");
	return 0;
}

static ssize_t steer_gang_write(struct kernfs_open_file *of, char *buf, size_t nbytes,
				loff_t off)
{
	struct cgroup_subsys_state *css = of_css(of);
	struct steer_gang_group *group = steer_gang_group(css);
	s64 value;
	int ret;

	if (!steer_is_text(buf, nbytes))
		return -EINVAL;
	buf = strstrip(buf);
	ret = kstrtos64(buf, 10, &value);
	if (!ret && value != 0 && value != 1)
		ret = -ERANGE;
	if (ret) {
		steer_refuse(css, "gang", buf, "is neither", "0 1");
		return ret;
	}

	guard(mutex)(&steer_gang_mutex);

	if (value && !group->own) {
		struct steer_gang *gang;

		gang = steer_gang_alloc(steer_css_tg(css), group->scope);
		if (!gang)
			return -ENOMEM;
		/* Pairs with the acquire in steer_gang_stat_show(). */
		smp_store_release(&group->own, gang);
	}
	steer_gang_use(group, value);
	steer_gang_publish(css);
	return nbytes;
}

static ssize_t steer_gang_scope_write(struct kernfs_open_file *of, char *buf,
				      size_t nbytes, loff_t off)
{
	struct steer_gang_group *group = steer_gang_group(of_css(of));
	int scope;

	if (!steer_is_text(buf, nbytes))
		return -EINVAL;
	buf = strstrip(buf);
	scope = match_string(steer_scopes, STEER_NR_SCOPES, buf);
	if (scope < 0) {
		steer_refuse(of_css(of), "gang.scope", buf, "is not known",
			     "core llc node system");
		return -EINVAL;
	}

	guard(mutex)(&steer_gang_mutex);

	if (scope == group->scope)
		return nbytes;
	WRITE_ONCE(group->scope, scope);
	if (group->effective && group->effective == group->own) {
		steer_gang_finish(group->own);
		steer_gang_begin(group->own, scope);
	}
	return nbytes;
}

static struct cftype steer_gang_files[] = {
	{
		.name = "gang",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_gang_show,
		.write = steer_gang_write,
	},
	{
		.name = "gang.scope",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_gang_scope_show,
		.write = steer_gang_scope_write,
	},
	{
		.name = "gang.effective",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_gang_effective_show,
	},
	{ }	/* terminate */
};

static int __init steer_gang_files_init(void)
{
	int scope;

	for (scope = 0; scope < STEER_NR_SCOPES; scope++) {
		INIT_LIST_HEAD(&steer_gangs[scope]);
		INIT_LIST_HEAD(&steer_parts[scope]);
	}
	if (!steer_enabled_at_boot())
		return 0;
	return cgroup_add_dfl_cftypes(&cpu_cgrp_subsys, steer_gang_files);
}
subsys_initcall(steer_gang_files_init);

static int steer_gang_debug_show(struct seq_file *sf, void *v)
{
	int scope;

	seq_printf(sf, "gang_users %d\ngang_key %d\n", READ_ONCE(steer_gang_users),
		   static_key_enabled(&steer_gang_key.key));
	/* Parts that have slots of their own; 0 where the scope is not divided */
	guard(mutex)(&steer_gang_mutex);
	for (scope = 0; scope < STEER_NR_SCOPES; scope++)
		seq_printf(sf, "gang_parts_%s %zu\n", steer_scopes[scope],
			   list_count_nodes(&steer_parts[scope]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(steer_gang_debug);

static int __init steer_gang_debug_init(void)
{
	struct dentry *dir = debugfs_lookup("sched", NULL);

	/* Neither debugfs nor the scheduler's directory in it need be there. */
	if (IS_ERR_OR_NULL(dir))
		return 0;
	debugfs_create_file("steer_gang", 0444, dir, NULL, &steer_gang_debug_fops);
	dput(dir);
	return 0;
}
late_initcall_sync(steer_gang_debug_init);
