// SPDX-License-Identifier: GPL-2.0-only
/*
 * cgroup steer: cpu.headroom, cpu.headroom.stat, and their hierarchy
 *
 * What is promised
 * ----------------
 * cpu.headroom is a percentage of CPU with two decimals. While the group has
 * tasks and is not frozen, its siblings leave that much idle, less what they have
 * as headroom themselves. Nothing outside of the parent is bound by it, so a
 * delegatee can hold back only what is below its delegation point: in the groups
 * that it makes, the parents are its own. Like memory.low it protects from the
 * top down; to protect a nested group from the whole machine, its ancestors are
 * given a headroom too.
 *
 * A write is all or nothing: all that needs memory comes before the first group
 * changes. Where memory is short when a group is made, or its cpuset changes, the
 * group is taken in later.
 *
 * Arenas and pools
 * ----------------
 * What they are, and how they are enforced, is told in kernel/sched/steer_headroom.c.
 * Here they are made and taken down: an arena with the first request among the
 * children of a group, a pool for each set of children that have the same request
 * and may use the same CPUs, unless their request is the largest. An arena has no
 * more than STEER_POOLS_MOST of them, since each has a timer, and a tenant may make
 * as many groups as it likes. Children that would need one more share the pool of
 * the next smaller request on the same CPUs, which leaves more idle than they have
 * to, never less. Where there is none, they share the last one, which is for those
 * without a request, on the CPUs of the parent. A child that has tasks is among
 * those that demand something of such a pool.
 *
 * Whether a group has tasks, the timers find out themselves, each period. What
 * they cannot find out is the effective cpuset; nobody tells when it changes. So
 * it is compared each STEER_REFRESH, and when a CPU has come, and groups whose CPUs
 * changed change their pool. A CPU that goes offline leaves all cpusets, and comes back
 * to them. It stays in the pools, where it does not count for so long.
 *
 * Locking
 * -------
 * steer_headroom_mutex serialises requests, the start and the end of groups, and
 * the refresh. It nests inside cgroup_mutex (css_offline is called with that held)
 * and outside of the lock of CPU hotplug. Children are walked under RCU, with a
 * reference across whatever may sleep. The walk meets groups that are being made or
 * removed. One under construction is passed over, since it may fail yet, and then
 * goes whatever references there are; it joins in steer_headroom_online(). One that
 * is removed leaves when a walk meets it, or in steer_headroom_offline() at the latest.
 *
 * Everybody may read cpu.headroom.stat, those who are held back as well, who may stand still
 * with whatever lock they have. So that takes no mutex: arenas and pools are there for as long
 * as an RCU read lock is held.
 *
 * Static key
 * ----------
 * steer_headroom_key counts arenas. It goes off a second after the last, and the
 * bandwidth accounting of the groups with the arena itself.
 */
#include <linux/cgroup.h>
#include <linux/cleanup.h>
#include <linux/cpuhotplug.h>
#include <linux/mmu_context.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../sched/sched.h"
#include "../sched/steer.h"
#include "steer_cpus.h"
#include "steer_css.h"

/* How often effective cpusets are compared, and requests if they are many. */
#define STEER_REFRESH		(HZ / 2)
#define STEER_REFRESH_CROWDED	(HZ / 10)

/* In an arena, the last one included, which all share that find no other */
#define STEER_POOLS_MOST	32

static DEFINE_MUTEX(steer_headroom_mutex);

/**
 * struct steer_look - what is known of the CPUs of a group
 * @cpus: those that it may use
 * @active: those that were active then
 * @changed: for passing use
 */
struct steer_look {
	struct cpumask cpus, active, changed;
};

/* All arenas, and the group that is looked at; under steer_headroom_mutex. */
static LIST_HEAD(steer_arenas);
static struct steer_look steer_looked;

static void steer_refresh(struct work_struct *work);
static DECLARE_DELAYED_WORK(steer_refresh_work, steer_refresh);

static unsigned int steer_request(struct task_group *tg)
{
	return tg->steer.headroom ? tg->steer.headroom->request : 0;
}

static struct steer_headroom *steer_headroom_get(struct task_group *tg)
{
	struct steer_headroom *hr = tg->steer.headroom;

	lockdep_assert_held(&steer_headroom_mutex);

	if (hr)
		return hr;
	hr = kzalloc(sizeof(*hr), GFP_KERNEL_ACCOUNT);
	if (!hr)
		return NULL;
	hr->tg = tg;
	INIT_LIST_HEAD(&hr->link);
	/* Pairs with the address dependency where runtime is drawn. */
	smp_store_release(&tg->steer.headroom, hr);
	return hr;
}

/* ------------------------------------------------------ arenas and pools */

/* Cpusets follow while a CPU comes or goes. */
static void steer_look_at(struct cgroup *cgrp)
{
	lockdep_assert_held(&steer_headroom_mutex);

	guard(cpus_read_lock)();
	steer_cgroup_cpus(cgrp, &steer_looked.cpus);
	cpumask_copy(&steer_looked.active, cpu_active_mask);
}

/* Is it for the CPUs of the group that was looked at? Those that are off do not count. */
static bool steer_pool_suits(struct steer_pool *pool, struct steer_look *look)
{
	cpumask_xor(&look->changed, pool->cpus, &look->cpus);
	return !cpumask_intersects(&look->changed, &look->active) &&
	       cpumask_intersects(pool->cpus, &look->cpus);
}

/* The one of these CPUs with the largest request that is not above @request */
static struct steer_pool *steer_pool_nearest(struct steer_arena *arena, unsigned int request)
{
	struct steer_pool *pool, *best = NULL;

	list_for_each_entry(pool, &arena->pools, link) {
		if (pool->request > request || (best && best->request >= pool->request))
			continue;
		if (steer_pool_suits(pool, &steer_looked))
			best = pool;
	}
	return best;
}

static struct steer_pool *steer_pool_add(struct steer_arena *arena, unsigned int request,
					 struct steer_pool *from)
{
	struct steer_pool *pool = steer_pool_create(arena, request, &steer_looked.cpus, from);

	arena->nr_pools += !!pool;
	return pool ?: ERR_PTR(-ENOMEM);
}

/*
 * The pool of a child with @request in an arena where @most is the largest. It is
 * made if it is not there; NULL is for none, which is right for the largest.
 */
static struct steer_pool *steer_child_pool(struct steer_arena *arena, struct task_group *tg,
					   unsigned int request, unsigned int most)
{
	struct steer_headroom *hr = tg->steer.headroom;
	struct steer_pool *own = hr ? hr->pool : NULL, *pool;

	lockdep_assert_held(&steer_headroom_mutex);

	if (request >= most)
		return NULL;
	steer_look_at(tg->css.cgroup);
	/* All of them are a partition's below: it runs nothing, and has no pool. */
	if (cpumask_empty(&steer_looked.cpus))
		return NULL;
	if (own && own->request == request && steer_pool_suits(own, &steer_looked))
		return own;
	pool = steer_pool_nearest(arena, request);
	if (pool && pool->request == request)
		return pool;
	if (arena->nr_pools < STEER_POOLS_MOST - 1)
		return steer_pool_add(arena, request, own);
	if (pool)
		return pool;
	steer_look_at(arena->parent->cgroup);
	/* Likewise. This one has CPUs that it shares with nobody there. */
	if (cpumask_empty(&steer_looked.cpus))
		return NULL;
	return steer_pool_nearest(arena, 0) ?: steer_pool_add(arena, 0, own);
}

/* All that a child will need. */
static int steer_child_prepare(struct steer_arena *arena, struct task_group *tg,
			       unsigned int request, unsigned int most)
{
	if (request >= most)
		return 0;
	if (!steer_headroom_get(tg))
		return -ENOMEM;
	return PTR_ERR_OR_ZERO(steer_child_pool(arena, tg, request, most));
}

/* Put a child where it belongs. Without memory it stays, until the next refresh. */
static int steer_child_commit(struct steer_arena *arena, struct task_group *tg,
			      unsigned int request, unsigned int most)
{
	struct steer_pool *pool = steer_child_pool(arena, tg, request, most);

	if (IS_ERR(pool) || (pool && !steer_headroom_get(tg)))
		return -ENOMEM;
	if (tg->steer.headroom)
		steer_pool_join(tg, pool);
	return 0;
}

typedef int (*steer_child_fn)(struct steer_arena *arena, struct task_group *tg,
			      unsigned int request, unsigned int most);

/*
 * A child that may be held back: it cannot fail to come into being any more, and
 * is not being removed. What it cannot be is in a pool for longer than the arena.
 */
static bool steer_child_alive(struct cgroup_subsys_state *css)
{
	return READ_ONCE(steer_css_tg(css)->steer.online) && !css_is_dying(css);
}

/* One that is in a pool has been alive, and is there until it is out of it. */
static bool steer_child_counts(struct task_group *tg)
{
	return READ_ONCE(tg->steer.online) || (tg->steer.headroom && tg->steer.headroom->pool);
}

/*
 * For each child, with @changed as if it had @request already. One that is not
 * alive is taken for one that nobody can hold back. Stops at the first error.
 */
static int steer_walk_children(struct steer_arena *arena, steer_child_fn fn,
			       struct task_group *changed, unsigned int request,
			       unsigned int most)
{
	struct cgroup_subsys_state *pos;
	int ret = 0;

	lockdep_assert_held(&steer_headroom_mutex);

	rcu_read_lock();
	css_for_each_child(pos, arena->parent) {
		struct task_group *tg = steer_css_tg(pos);
		unsigned int its = tg == changed ? request : steer_request(tg);

		if (!steer_child_counts(tg) || !css_tryget(pos))
			continue;
		rcu_read_unlock();

		ret = fn(arena, tg, steer_child_alive(pos) ? its : UINT_MAX, most);
		cond_resched();

		rcu_read_lock();
		css_put(pos);
		if (ret)
			break;
	}
	rcu_read_unlock();
	return ret;
}

static void steer_pools_trim(struct steer_arena *arena)
{
	struct steer_pool *pool, *next;

	list_for_each_entry_safe(pool, next, &arena->pools, link) {
		if (pool->nr_groups)
			continue;
		arena->nr_pools--;
		steer_pool_destroy(pool);
	}
}

static struct steer_arena *steer_arena_create(struct steer_headroom *parent)
{
	struct steer_arena *arena = kzalloc(sizeof(*arena), GFP_KERNEL_ACCOUNT);

	if (!arena)
		return NULL;
	arena->parent = &parent->tg->css;
	INIT_LIST_HEAD(&arena->requests);
	INIT_LIST_HEAD(&arena->pools);
	static_branch_deferred_inc(&steer_headroom_key);
	if (list_empty(&steer_arenas))
		queue_delayed_work(system_unbound_wq, &steer_refresh_work, STEER_REFRESH);
	list_add_tail(&arena->link, &steer_arenas);
	/* Pairs with the address dependency where cpu.headroom.stat is read. */
	smp_store_release(&parent->arena, arena);
	return arena;
}

static void steer_arena_destroy(struct steer_arena *arena)
{
	steer_pools_trim(arena);
	WARN_ON_ONCE(!list_empty(&arena->pools));
	list_del(&arena->link);
	WRITE_ONCE(steer_css_tg(arena->parent)->steer.headroom->arena, NULL);
	kfree_rcu(arena, rcu);
	static_branch_slow_dec_deferred(&steer_headroom_key);
}

/* What the largest request will be when @changed has @request. */
static unsigned int steer_arena_most(struct steer_arena *arena,
				     struct steer_headroom *changed, unsigned int request)
{
	struct steer_headroom *hr;

	list_for_each_entry(hr, &arena->requests, link) {
		if (hr != changed)
			return max(request, hr->request);
	}
	return request;
}

/*
 * Keep the list in order, for the timers that read it. One that is at the entry
 * that moves goes on from its new place, and may miss others for this period.
 */
static void steer_request_move(struct steer_arena *arena, struct steer_headroom *hr,
			       unsigned int request)
{
	struct list_head *before = &arena->requests;
	struct steer_headroom *pos;

	if (hr->request)
		list_del_rcu(&hr->link);
	WRITE_ONCE(hr->request, request);
	if (!request)
		return;
	list_for_each_entry(pos, &arena->requests, link) {
		if (pos->request <= request)
			break;
		before = &pos->link;
	}
	list_add_rcu(&hr->link, before);
}

static int steer_headroom_apply(struct cgroup_subsys_state *css, unsigned int request)
{
	struct steer_headroom *hr, *parent;
	struct task_group *tg = steer_css_tg(css);
	struct steer_arena *arena;
	unsigned int most;
	bool alone;
	int ret;

	lockdep_assert_held(&steer_headroom_mutex);

	if (steer_request(tg) == request)
		return 0;
	hr = steer_headroom_get(tg);
	parent = steer_headroom_get(steer_css_tg(css->parent));
	if (!hr || !parent)
		return -ENOMEM;
	arena = parent->arena ?: steer_arena_create(parent);
	if (!arena)
		return -ENOMEM;

	most = steer_arena_most(arena, hr, request);
	/* While the largest stays what it is, the others stay where they are. */
	alone = most == arena->most;
	ret = alone ? steer_child_prepare(arena, tg, request, most) :
		      steer_walk_children(arena, steer_child_prepare, tg, request, most);
	if (!ret) {
		steer_request_move(arena, hr, request);
		arena->most = most;
		/* What was prepared is there, unless cpusets just changed. */
		if (alone)
			steer_child_commit(arena, tg, request, most);
		else
			steer_walk_children(arena, steer_child_commit, NULL, 0, most);
	}
	if (list_empty(&arena->requests))
		steer_arena_destroy(arena);
	else
		steer_pools_trim(arena);
	return ret;
}

/*
 * Compare the CPUs of all groups with those of their pools, take in what was left
 * out, and see that the timers are spread out. Arenas can neither come nor go meanwhile.
 */
static void steer_refresh(struct work_struct *work)
{
	unsigned long delay = STEER_REFRESH;
	struct steer_arena *arena;
	struct steer_pool *pool;

	guard(mutex)(&steer_headroom_mutex);

	list_for_each_entry(arena, &steer_arenas, link) {
		steer_walk_children(arena, steer_child_commit, NULL, 0, arena->most);
		steer_pools_trim(arena);
		list_for_each_entry(pool, &arena->pools, link)
			steer_pool_settle(pool);
		if (!READ_ONCE(arena->crowded))
			continue;
		delay = STEER_REFRESH_CROWDED;
		WRITE_ONCE(arena->crowded, false);
		rcu_read_lock();
		WRITE_ONCE(arena->searched, steer_arena_search(arena, 0, -1));
		rcu_read_unlock();
	}
	if (!list_empty(&steer_arenas))
		queue_delayed_work(system_unbound_wq, &steer_refresh_work, delay);
}

/* The refresh waits until the CPU is there, and then takes it into the pools. */
static int steer_headroom_cpu_online(unsigned int cpu)
{
	if (static_key_enabled(&steer_headroom_key.key))
		mod_delayed_work(system_unbound_wq, &steer_refresh_work, 0);
	return 0;
}

/* ----------------------------------------------------- life of the groups */

/**
 * steer_headroom_online - a group of the cpu controller has come into being
 * @tg: the group; it cannot fail any more
 */
void steer_headroom_online(struct task_group *tg)
{
	struct steer_headroom *parent;

	if (!tg->css.parent)
		return;
	guard(mutex)(&steer_headroom_mutex);

	parent = steer_css_tg(tg->css.parent)->steer.headroom;
	if (parent && parent->arena)
		steer_child_commit(parent->arena, tg, steer_request(tg), parent->arena->most);
}

/**
 * steer_headroom_offline - a group was removed; no task is in it any more
 * @tg: the group
 */
void steer_headroom_offline(struct task_group *tg)
{
	struct steer_headroom *hr;
	struct steer_arena *arena;
	unsigned int most;

	guard(mutex)(&steer_headroom_mutex);

	hr = tg->steer.headroom;
	if (!hr || !tg->css.parent)
		return;
	steer_pool_join(tg, NULL);
	if (!hr->request)
		return;

	arena = steer_css_tg(tg->css.parent)->steer.headroom->arena;
	most = steer_arena_most(arena, hr, 0);
	steer_request_move(arena, hr, 0);
	if (most != arena->most) {
		arena->most = most;
		steer_walk_children(arena, steer_child_commit, NULL, 0, most);
	}
	if (list_empty(&arena->requests))
		steer_arena_destroy(arena);
}

/**
 * steer_headroom_free - the last reference to a group is gone
 * @tg: the group; may be one that never came online, or an autogroup
 */
void steer_headroom_free(struct task_group *tg)
{
	kfree(tg->steer.headroom);
}

/* ------------------------------------------------------------------ files */

/**
 * steer_headroom_stat_show - add the counters to cpu.stat
 * @sf: where to
 * @tg: the group; shows nothing unless it has, or had, to do with headroom: one that
 *	can be held back, that has a headroom, or that is the parent of such groups
 */
void steer_headroom_stat_show(struct seq_file *sf, struct task_group *tg)
{
	struct steer_headroom *hr = READ_ONCE(tg->steer.headroom);

	if (!hr)
		return;
	seq_printf(sf, "headroom_periods %llu\nheadroom_capped_periods %llu\nheadroom_capped_usec %llu\n"
		   "headroom_preempted %llu\n",
		   READ_ONCE(hr->periods), READ_ONCE(hr->capped_periods),
		   div_u64(atomic64_read(&hr->capped_ns), NSEC_PER_USEC),
		   (u64)atomic64_read(&hr->preempted));
}

/**
 * steer_headroom_debug_show - add our state to debugfs sched/steer
 * @sf: where to
 */
void steer_headroom_debug_show(struct seq_file *sf)
{
	struct steer_arena *arena;
	unsigned int pools = 0;

	guard(mutex)(&steer_headroom_mutex);

	list_for_each_entry(arena, &steer_arenas, link)
		pools += arena->nr_pools;
	seq_printf(sf, "headroom_arenas %zu\nheadroom_pools %u\nheadroom_paced %u\nheadroom_key %d\n"
		   "headroom_claims_met %lu\n",
		   list_count_nodes(&steer_arenas), pools, steer_headroom_paced(),
		   static_key_enabled(&steer_headroom_key.key), steer_headroom_claims_met());
}

static void steer_seq_percent(struct seq_file *sf, const char *key, unsigned int value)
{
	seq_printf(sf, "%s%u.%02u\n", key, value / 100, value % 100);
}

static int steer_headroom_show(struct seq_file *sf, void *v)
{
	struct steer_headroom *hr = READ_ONCE(steer_css_tg(seq_css(sf))->steer.headroom);

	steer_seq_percent(sf, "", hr ? READ_ONCE(hr->request) : 0);
	return 0;
}

static ssize_t steer_headroom_write(struct kernfs_open_file *of, char *buf,
				    size_t nbytes, loff_t off)
{
	unsigned int request;
	int ret;

	if (!steer_is_text(buf, nbytes))
		return -EINVAL;
	buf = strstrip(buf);
	ret = steer_headroom_parse(buf, &request);
	if (ret) {
		steer_refuse(of_css(of), "headroom", buf, "is no such percentage",
			     "0.00 to 100.00, with at most two decimals");
		return ret;
	}

	guard(mutex)(&steer_headroom_mutex);

	ret = steer_headroom_apply(of_css(of), request);
	return ret ?: nbytes;
}

/* The pool that a group itself draws from; RCU */
static struct steer_pool *steer_pool_of(struct cgroup_subsys_state *css)
{
	struct steer_headroom *hr = READ_ONCE(steer_css_tg(css)->steer.headroom);

	return hr ? READ_ONCE(hr->pool) : NULL;
}

/* The same, or that of the nearest ancestor that has one; RCU */
static struct steer_pool *steer_pool_above(struct cgroup_subsys_state *css)
{
	for (; css; css = css->parent) {
		struct steer_pool *pool = steer_pool_of(css);

		if (pool)
			return pool;
	}
	return NULL;
}

/* One of the arena that has a group's CPUs, for a group that draws from none; RCU */
static struct steer_pool *steer_pool_beside(struct cgroup_subsys_state *css,
					    struct steer_look *look)
{
	struct steer_headroom *parent = READ_ONCE(steer_css_tg(css->parent)->steer.headroom);
	struct steer_arena *arena = parent ? READ_ONCE(parent->arena) : NULL;
	struct steer_pool *pool;

	if (!arena)
		return NULL;
	list_for_each_entry_rcu(pool, &arena->pools, link) {
		if (steer_pool_suits(pool, look))
			return pool;
	}
	return NULL;
}

/* The largest demand on a group, on all levels; RCU */
static unsigned int steer_demand(struct cgroup_subsys_state *css)
{
	unsigned int demand = 0;

	for (; css; css = css->parent) {
		struct steer_pool *pool = steer_pool_of(css);

		if (pool && READ_ONCE(pool->account.binding))
			demand = max(demand, READ_ONCE(pool->demand));
	}
	return demand;
}

/*
 * What a group may use in a period: its own part, no more than there is for all, and
 * no more than that of an ancestor. RCU
 */
static u64 steer_group_budget(struct cgroup_subsys_state *css)
{
	u64 budget = U64_MAX;

	for (; css; css = css->parent) {
		struct steer_pool *pool = steer_pool_of(css);

		if (!pool)
			continue;
		raw_spin_lock_irq(&pool->lock);
		if (pool->account.binding)
			budget = min3(budget, pool->budget, (u64)
				      steer_headroom_cap(pool->account.level,
							 steer_headroom_weight(steer_css_tg(css))));
		raw_spin_unlock_irq(&pool->lock);
	}
	return budget;
}

/*
 * Takes no mutex, and is not preempted with an RCU read lock: whoever may read this may be held
 * back, and with it all that wait for either.
 */
static int steer_headroom_stat(struct seq_file *sf, void *v)
{
	struct cgroup_subsys_state *css = seq_css(sf);
	struct steer_look *look __free(kfree) = kmalloc(sizeof(*look), GFP_KERNEL);
	struct steer_pool *pool;
	unsigned int demand;
	u64 budget;
	int idle;

	if (!look)
		return -ENOMEM;
	steer_cgroup_cpus(css->cgroup, &look->cpus);
	cpumask_copy(&look->active, cpu_active_mask);

	scoped_guard(preempt) {
		guard(rcu)();
		demand = steer_demand(css);
		pool = steer_pool_above(css) ?: steer_pool_beside(css, look);
		idle = pool ? READ_ONCE(pool->idle) : -1;
		budget = steer_group_budget(css);
	}
	steer_seq_percent(sf, "demand ", demand);
	if (idle >= 0)
		steer_seq_percent(sf, "idle ", idle);
	if (budget == U64_MAX)
		seq_puts(sf, "budget_usec max\n");
	else
		seq_printf(sf, "budget_usec %llu\n", div_u64(budget, NSEC_PER_USEC));
	seq_printf(sf, "period_usec %llu\n", div_u64(STEER_PERIOD, NSEC_PER_USEC));
	return 0;
}

static struct cftype steer_headroom_files[] = {
	{
		.name = "headroom",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_headroom_show,
		.write = steer_headroom_write,
	},
	{
		.name = "headroom.stat",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = steer_headroom_stat,
	},
	{ }	/* terminate */
};

static int __init steer_headroom_files_init(void)
{
	int ret;

	if (!steer_enabled_at_boot())
		return 0;
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "cgroup/steer:online",
					steer_headroom_cpu_online, NULL);
	if (ret < 0)
		return ret;
	return cgroup_add_dfl_cftypes(&cpu_cgrp_subsys, steer_headroom_files);
}
subsys_initcall(steer_headroom_files_init);
