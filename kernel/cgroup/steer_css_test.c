// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for walks over groups: which group may be kept while a walk pauses.
 *
 * The groups are made up here: linked to nothing, with a reference count of their own.
 */
#include <kunit/test.h>
#include <linux/percpu-refcount.h>

#include "steer_css.h"

static void steer_css_no_release(struct percpu_ref *ref)
{
}

static void steer_css_no_ref(void *css)
{
	percpu_ref_exit(&((struct cgroup_subsys_state *)css)->refcnt);
}

static struct cgroup_subsys_state *steer_css_make(struct kunit *test, bool online)
{
	struct task_group *tg = kunit_kzalloc(test, sizeof(*tg), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tg);
	KUNIT_ASSERT_EQ(test, 0, percpu_ref_init(&tg->css.refcnt, steer_css_no_release,
						 PERCPU_REF_INIT_ATOMIC, GFP_KERNEL));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, steer_css_no_ref, &tg->css));
	tg->steer.online = online;
	return &tg->css;
}

/* Is it kept? Then its reference is taken back. */
static bool steer_css_held(struct cgroup_subsys_state *css)
{
	bool held;

	guard(rcu)();

	held = steer_css_hold(css);
	if (held)
		css_put(css);
	return held;
}

static void steer_test_under_construction(struct kunit *test)
{
	struct cgroup_subsys_state *css = steer_css_make(test, false);

	KUNIT_EXPECT_FALSE(test, steer_css_held(css));
	steer_css_tg(css)->steer.online = true;
	KUNIT_EXPECT_TRUE(test, steer_css_held(css));
}

static void steer_test_gone(struct kunit *test)
{
	struct cgroup_subsys_state *css = steer_css_make(test, true);

	percpu_ref_kill(&css->refcnt);
	KUNIT_EXPECT_TRUE(test, percpu_ref_is_zero(&css->refcnt));
	KUNIT_EXPECT_FALSE(test, steer_css_held(css));
}

/* Each reference that a pause takes is given back. */
static void steer_test_pause(struct kunit *test)
{
	struct cgroup_subsys_state *css = steer_css_make(test, true);

	for (int i = 0; i < 100; i++) {
		guard(rcu)();
		set_tsk_need_resched(current);
		steer_walk_resched(css);
	}
	percpu_ref_kill(&css->refcnt);
	KUNIT_EXPECT_TRUE(test, percpu_ref_is_zero(&css->refcnt));
}

static struct kunit_case steer_css_cases[] = {
	KUNIT_CASE(steer_test_under_construction),
	KUNIT_CASE(steer_test_gone),
	KUNIT_CASE(steer_test_pause),
	{ }
};

static struct kunit_suite steer_css_suite = {
	.name = "steer_css",
	.test_cases = steer_css_cases,
};

kunit_test_suite(steer_css_suite);

MODULE_DESCRIPTION("KUnit tests for walks over groups of the cpu controller");
MODULE_LICENSE("GPL");
