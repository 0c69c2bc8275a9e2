// SPDX-License-Identifier: GPL-2.0-only
/*
 * cgroup steer: the interface files of the cpu controller, and their hierarchy
 *
 *	cpu.hint		what the user asks of this group
 *	cpu.hint.effective	what holds for its tasks
 *	cpu.stat		hint_* keys: how often it was followed, and why not
 *
 * What is promised
 * ----------------
 * A group either says something ("explicit") or inherits. The effective words
 * of an explicit group are its own; those of any other group are its parent's.
 * The root group has no file and no words. So a write affects the group and
 * those descendants that inherit through an unbroken chain, and nothing else: a
 * delegatee can change only what is below its delegation point.
 *
 * A write is all or nothing. Everything that can fail, the parsing and the
 * allocation of counters for every group concerned, happens before the first
 * group changes.
 *
 * How it is resolved
 * ------------------
 * On write, not on use: the writer walks the descendants and stores the
 * effective words in each task group, where the scheduler reads them with one
 * load. A write to a group with 10,000 inheriting descendants is two walks over
 * 10,000 groups; a wakeup never walks.
 *
 * Locking
 * -------
 * steer_mutex serialises writers, the start and the end of groups. It nests
 * inside cgroup_mutex (css_online and css_offline are called with that held)
 * and outside cpu_hotplug_lock (which the static key takes). Writers do not
 * take cgroup_mutex: they hold a kernfs active reference, which keeps their own
 * group, and walk the others under RCU, with a css reference across the
 * allocation, as cpuset does.
 *
 * A group under construction is linked before css_online() runs, so a walk may
 * meet it. It may still fail, and is then freed whoever holds a reference; so
 * counters are given only to groups that steer_tg_online(), the last step that
 * can fail, has marked. Those under construction resolve for themselves there,
 * under steer_mutex, so that whichever comes last has seen the other's result.
 * A group that is being removed has no tasks any more; its last words do not
 * matter.
 *
 * Readers on scheduler paths hold no lock of ours. They may see the old words
 * for a wakeup that is under way while a writer returns; words are one u32, so
 * they never see a mixture. Counters are published before the words.
 *
 * Static key
 * ----------
 * steer_hint_key counts the groups whose own request has words. With none,
 * no group can have effective words, and the key goes off. A group that is
 * removed drops its count in css_offline(). Flipping the key patches code and
 * interrupts every CPU of the machine, so it goes off a second late: a tenant
 * that toggles its hint, or a stream of short-lived containers, does not make
 * it flip each time.
 *
 * Memory
 * ------
 * Counters take 23 * 8 bytes per CPU, about a tenth of what the runqueues of a
 * task group take: 1.8 MB for 10,000 groups on each CPU. They are allocated when
 * a group first gets effective words, and kept until it is freed, so that
 * toggling is cheap and cpu.stat never goes backwards.
 */
#include <linux/cgroup.h>
#include <linux/capability.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mmu_context.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/ratelimit.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <trace/events/steer.h>

#include "../sched/sched.h"
#include "../sched/steer.h"
#include "steer_css.h"

static DEFINE_MUTEX(steer_mutex);

/* Groups whose own request has words; written under steer_mutex. */
static int steer_users;

static bool steer_enabled __initdata =
	!IS_ENABLED(CONFIG_CGROUP_STEER_DEFAULT_DISABLED);

static int __init steer_setup(char *str)
{
	return kstrtobool(str, &steer_enabled) == 0;
}
__setup("cgroup_steer=", steer_setup);

/**
 * steer_enabled_at_boot - are the files to be there?
 *
 * Return: what the boot parameter says, or the configuration.
 */
bool __init steer_enabled_at_boot(void)
{
	return steer_enabled;
}

/* Effective words that @css would inherit; REQUIRES: steer_mutex. */
static u32 steer_inherited(struct cgroup_subsys_state *css)
{
	return css->parent ? steer_css_tg(css->parent)->steer.hint : 0;
}

static int steer_alloc_stats(struct task_group *tg)
{
	struct steer_stats __percpu *stats;

	lockdep_assert_held(&steer_mutex);

	if (tg->steer.stats)
		return 0;
	stats = alloc_percpu(struct steer_stats);
	if (!stats)
		return -ENOMEM;
	/* Pairs with the address dependency in steer_count(). */
	smp_store_release(&tg->steer.stats, stats);
	return 0;
}

/*
 * Does the walk below @top go on beneath @pos? An explicit group ends the
 * chain, whatever is below it.
 */
static bool steer_walk_skip(struct cgroup_subsys_state *top,
			    struct cgroup_subsys_state **pos)
{
	if (*pos == top || !(steer_css_tg(*pos)->steer.request & STEER_EXPLICIT))
		return false;
	*pos = css_rightmost_descendant(*pos);
	return true;
}

/* Give every group that a change at @top reaches its counters. */
static int steer_prepare(struct cgroup_subsys_state *top)
{
	struct cgroup_subsys_state *pos;
	int ret = 0;

	rcu_read_lock();
	css_for_each_descendant_pre(pos, top) {
		struct steer_group *group = &steer_css_tg(pos)->steer;

		if (steer_walk_skip(top, &pos))
			continue;
		if (group->stats || !steer_css_hold(pos))
			continue;
		rcu_read_unlock();

		ret = steer_alloc_stats(steer_css_tg(pos));
		cond_resched();

		rcu_read_lock();
		css_put(pos);
		if (ret)
			break;
	}
	rcu_read_unlock();
	return ret;
}

/* Give every group that a change at @top reaches its new words. */
static void steer_publish(struct cgroup_subsys_state *top, u32 hint)
{
	struct cgroup_subsys_state *pos;

	rcu_read_lock();
	css_for_each_descendant_pre(pos, top) {
		struct task_group *tg = steer_css_tg(pos);

		if (steer_walk_skip(top, &pos) || tg->steer.hint == hint)
			continue;
		WRITE_ONCE(tg->steer.hint, hint);
		trace_steer_hint(pos, hint);
	}
	rcu_read_unlock();
}

static void steer_users_inc(void)
{
	lockdep_assert_held(&steer_mutex);

	WRITE_ONCE(steer_users, steer_users + 1);
	static_branch_deferred_inc(&steer_hint_key);
}

static void steer_users_dec(void)
{
	lockdep_assert_held(&steer_mutex);

	WRITE_ONCE(steer_users, steer_users - 1);
	static_branch_slow_dec_deferred(&steer_hint_key);
}

static int steer_hint_apply(struct cgroup_subsys_state *css, u32 request)
{
	struct task_group *tg = steer_css_tg(css);
	bool was_user = steer_request_words(tg->steer.request);
	bool is_user = steer_request_words(request);
	u32 hint = steer_request_resolve(request, steer_inherited(css));

	lockdep_assert_held(&steer_mutex);

	if (hint) {
		int ret = steer_prepare(css);

		if (ret)
			return ret;
	}

	if (is_user && !was_user)
		steer_users_inc();
	WRITE_ONCE(tg->steer.request, request);
	steer_publish(css, hint);
	if (was_user && !is_user)
		steer_users_dec();
	return 0;
}

/**
 * steer_tg_online - a group of the cpu controller comes into being
 * @tg: the group; nothing that can fail may come after this
 *
 * Return: 0, or -ENOMEM.
 */
int steer_tg_online(struct task_group *tg)
{
	u32 hint;
	int ret = 0;

	guard(mutex)(&steer_mutex);

	hint = steer_inherited(&tg->css);
	if (hint)
		ret = steer_alloc_stats(tg);
	if (ret)
		return ret;
	steer_gang_tg_online(tg);
	WRITE_ONCE(tg->steer.hint, hint);
	WRITE_ONCE(tg->steer.online, true);
	return 0;
}

/**
 * steer_tg_offline - a group was removed; no task is in it any more
 * @tg: the group
 */
void steer_tg_offline(struct task_group *tg)
{
	steer_gang_tg_offline(tg);
	steer_headroom_offline(tg);

	guard(mutex)(&steer_mutex);

	WRITE_ONCE(tg->steer.hint, 0);
	if (steer_request_words(tg->steer.request))
		steer_users_dec();
	WRITE_ONCE(tg->steer.request, STEER_INHERIT);
	WRITE_ONCE(tg->steer.online, false);
}

/**
 * steer_tg_free - the last reference to a group is gone
 * @tg: the group; may be one that never came online, or an autogroup
 */
void steer_tg_free(struct task_group *tg)
{
	steer_headroom_free(tg);
	steer_gang_tg_free(tg);
	free_percpu(tg->steer.stats);
}

static const char * const steer_stat_keys[STEER_NR_COUNTERS] = {
	[STEER_NR_FORK_FOLLOWED] = "hint_fork_followed",
	[STEER_NR_FORK_FULL] = "hint_fork_full",
	[STEER_NR_FORK_AFFINITY] = "hint_fork_affinity",
	[STEER_NR_WAKE_FOLLOWED] = "hint_wake_followed",
	[STEER_NR_WAKE_SAME_LLC] = "hint_wake_same_llc",
	[STEER_NR_WAKE_FULL] = "hint_wake_full",
	[STEER_NR_WAKE_AFFINITY] = "hint_wake_affinity",
	[STEER_NR_WAKE_IRQ] = "hint_wake_irq",
	[STEER_NR_WAKE_TURNS] = "hint_wake_turns",
	[STEER_NR_TURNS_FOLLOWED] = "hint_turns_followed",
	[STEER_NR_REACH_FOLLOWED] = "hint_reach_followed",
	[STEER_NR_REACH_FULL] = "hint_reach_full",
	[STEER_NR_SCAN_FOLLOWED] = "hint_scan_followed",
	[STEER_NR_SCAN_FULL] = "hint_scan_full",
	[STEER_NR_SLICE_FOLLOWED] = "hint_slice_followed",
	[STEER_NR_SLICE_CUSTOM] = "hint_slice_custom",
	[STEER_NR_PREEMPT_FOLLOWED] = "hint_preempt_followed",
	[STEER_NR_PACK_FOLLOWED] = "hint_pack_followed",
	[STEER_NR_PACK_FULL] = "hint_pack_full",
	[STEER_NR_ENERGY_FOLLOWED] = "hint_energy_followed",
	[STEER_NR_ENERGY_FULL] = "hint_energy_full",
	[STEER_NR_ENERGY_UNAVAILABLE] = "hint_energy_unavailable",
	[STEER_NR_ENERGY_MOVED] = "hint_energy_moved",
	[STEER_NR_ENERGY_HELD] = "hint_energy_held",
	[STEER_NR_BALANCE_HELD] = "hint_balance_held",
	[STEER_NR_BALANCE_OVERLOADED] = "hint_balance_overloaded",
	[STEER_NR_BALANCE_GAVE_UP] = "hint_balance_gave_up",
	[STEER_NR_NUMA_SPREAD] = "hint_numa_spread",
	[STEER_NR_NUMA_TOGETHER] = "hint_numa_together",
};

static void steer_hint_stat_show(struct seq_file *sf, struct task_group *tg)
{
	struct steer_stats __percpu *stats = READ_ONCE(tg->steer.stats);
	struct steer_stats sum = { };
	int i, cpu;

	if (!stats)
		return;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < STEER_NR_COUNTERS; i++)
			sum.count[i] += READ_ONCE(per_cpu_ptr(stats, cpu)->count[i]);
	}
	for (i = 0; i < STEER_NR_COUNTERS; i++)
		seq_printf(sf, "%s %llu\n", steer_stat_keys[i], sum.count[i]);
}

/**
 * steer_stat_show - add the counters to cpu.stat
 * @sf: where to
 * @tg: the group; shows nothing of a file that it does not use, and never did
 */
void steer_stat_show(struct seq_file *sf, struct task_group *tg)
{
	steer_gang_stat_show(sf, tg);
	steer_hint_stat_show(sf, tg);
	steer_headroom_stat_show(sf, tg);
}

static int steer_hint_show(struct seq_file *sf, void *v)
{
	char line[STEER_LINE_MAX];

	steer_request_format(READ_ONCE(steer_css_tg(seq_css(sf))->steer.request),
			     line, sizeof(line));
	seq_printf(sf, "%s\n", line);
	return 0;
}

static int steer_hint_effective_show(struct seq_file *sf, void *v)
{
	char line[STEER_LINE_MAX];

	steer_words_format(READ_ONCE(steer_css_tg(seq_css(sf))->steer.hint),
			   steer_hint_available(), line, sizeof(line));
	seq_printf(sf, "%s\n", line);
	return 0;
}

/* Bytes of a word and of a group's path that are shown; of a longer path it is the end. */
#define STEER_SHOWN_WORD	32
#define STEER_SHOWN_PATH	256

/**
 * steer_refuse - say in the kernel log why a write was refused
 * @css: the group
 * @file: its file, without "cpu."
 * @word: what is wrong, as it was written
 * @why: what is wrong with it
 * @accepted: what would be taken
 *
 * A container's engine shows the error number alone, so the rest is said here, in one
 * line of printable characters and bounded length. Nobody can fill the log that way, nor
 * keep others out of it: those who may administer the machine, as engines do, have some
 * lines in a while; all others have fewer, together.
 */
void steer_refuse(struct cgroup_subsys_state *css, const char *file,
		  const char *word, const char *why, const char *accepted)
{
	static DEFINE_RATELIMIT_STATE(admins, 5 * HZ, 10);
	static DEFINE_RATELIMIT_STATE(others, 60 * HZ, 5);
	struct {
		char path[PATH_MAX];
		char shown[STEER_QUOTED(STEER_SHOWN_PATH)];
		char word[STEER_QUOTED(STEER_SHOWN_WORD)];
	} *text;
	int skipped;

	if (!__ratelimit(ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN) ?
			 &admins : &others))
		return;
	text = kzalloc(sizeof(*text), GFP_KERNEL);
	if (!text)
		return;
	cgroup_path(css->cgroup, text->path, sizeof(text->path));
	skipped = max(0, (int)strlen(text->path) - STEER_SHOWN_PATH);
	steer_quote(text->path + skipped, STEER_SHOWN_PATH, text->shown);
	steer_quote(word, STEER_SHOWN_WORD, text->word);
	pr_warn("cgroup: %s%s: cpu.%s: \"%s\" %s; accepted: %s\n", skipped ? "..." : "",
		text->shown, file, text->word, why, accepted);
	kfree(text);
}

static ssize_t steer_hint_write(struct kernfs_open_file *of, char *buf,
				size_t nbytes, loff_t off)
{
	struct cgroup_subsys_state *css = of_css(of);
	char accepted[STEER_VOCABULARY_MAX];
	struct steer_refusal refusal;
	u32 request;
	int ret;

	if (!steer_is_text(buf, nbytes))
		return -EINVAL;

	scoped_guard(mutex, &steer_mutex) {
		ret = steer_request_parse(buf, steer_css_tg(css)->steer.request,
					  steer_inherited(css), &request, &refusal);
		if (!ret)
			ret = steer_hint_apply(css, request);
	}
	if (refusal.why) {
		steer_vocabulary(accepted, sizeof(accepted));
		steer_refuse(css, "hint", refusal.word, refusal.why, accepted);
	}
	return ret ?: nbytes;
}

static struct cftype steer_files[] = {
	{
		.name = "hint",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_hint_show,
		.write = steer_hint_write,
	},
	{
		.name = "hint.effective",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_hint_effective_show,
	},
	{ }	/* terminate */
};

static int __init steer_init(void)
{
	if (!steer_enabled)
		return 0;
	return cgroup_add_dfl_cftypes(&cpu_cgrp_subsys, steer_files);
}
subsys_initcall(steer_init);

static int steer_debug_show(struct seq_file *sf, void *v)
{
	seq_printf(sf, "hint_users %d\nhint_key %d\n", READ_ONCE(steer_users),
		   static_key_enabled(&steer_hint_key.key));
	steer_headroom_debug_show(sf);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(steer_debug);

static int __init steer_debug_init(void)
{
	struct dentry *dir = debugfs_lookup("sched", NULL);

	/* Neither debugfs nor the scheduler's directory in it need be there. */
	if (IS_ERR_OR_NULL(dir))
		return 0;
	debugfs_create_file("steer", 0444, dir, NULL, &steer_debug_fops);
	dput(dir);
	return 0;
}
late_initcall_sync(steer_debug_init);
