// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who may set cpu.hint, and whom it affects: delegated subtrees, cgroup
 * namespaces, threaded groups.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/*
 *	steer_delegation	root's, wake_hold
 *	  other			root's
 *	  tenant		delegated to NOBODY
 *	    home		where the delegatee is
 *	    work		what the delegatee made
 */
FIXTURE(delegation) {
	char *top, *other, *tenant, *home, *work;
};

FIXTURE_SETUP(delegation)
{
	REQUIRE_HINT();
	ASSERT_EQ(0U, geteuid()) TH_LOG("these tests need root");
	self->top = cg_top("steer_delegation");
	ASSERT_NE(NULL, self->top);
	self->other = cg_new(self->top, "other");
	self->tenant = cg_new(self->top, "tenant");
	ASSERT_TRUE(self->other && self->tenant);
	self->home = cg_name(self->tenant, "home");
	self->work = cg_name(self->tenant, "work");
	ASSERT_EQ(0, cg_write(self->top, "cpu.hint", "wake_hold"));

	ASSERT_EQ(0, cg_delegate(self->tenant));
}

FIXTURE_TEARDOWN(delegation)
{
	EXPECT_EQ(0, cg_destroy(self->top));
}

/*
 * In a child that is in the delegated group and, if asked for, in a cgroup
 * namespace with that as its root: become the delegatee, make its groups.
 * Returns only in the child, with 0 or the line that failed.
 */
#define STEP(cond) do { if (!(cond)) return __LINE__; } while (0)

static int become_tenant(FIXTURE_DATA(delegation) *self, bool namespace)
{
	STEP(!namespace || !unshare(CLONE_NEWCGROUP));
	STEP(!setresgid(NOBODY, NOBODY, NOBODY));
	STEP(!setresuid(NOBODY, NOBODY, NOBODY));
	STEP(!mkdir(self->home, 0755));
	STEP(!mkdir(self->work, 0755));
	STEP(!cg_enter(self->home, getpid()));
	STEP(!cg_enable(self->tenant, "+cpu"));
	return 0;
}

static int tenant_works(FIXTURE_DATA(delegation) *self, bool namespace)
{
	int ret = become_tenant(self, namespace);

	if (ret)
		return ret;
	/* below the delegation point: everything */
	STEP(cg_is(self->work, "cpu.hint", "inherit"));
	STEP(cg_is(self->work, "cpu.hint.effective", "wake_hold"));
	STEP(!cg_write(self->work, "cpu.hint", "wake_affine scan_full"));
	STEP(cg_is(self->work, "cpu.hint.effective", "wake_affine scan_full"));
	STEP(!cg_write(self->home, "cpu.hint", "none"));
	STEP(cg_is(self->home, "cpu.hint.effective", "none"));
	STEP(cg_write(self->work, "cpu.hint", "nonsense") == -EINVAL);
	/* at it and above it: look, don't touch */
	STEP(cg_write(self->tenant, "cpu.hint", "pack") == -EACCES);
	STEP(cg_is(self->tenant, "cpu.hint.effective", "wake_hold"));
	STEP(cg_write(self->top, "cpu.hint", "pack") == -EACCES);
	/* beside it */
	STEP(cg_write(self->other, "cpu.hint", "pack") == -EACCES);
	return 0;
}

static int in_tenant(FIXTURE_DATA(delegation) *self, bool namespace,
		     int (*fn)(FIXTURE_DATA(delegation) *self, bool namespace),
		     int *line)
{
	int *page = SHARED(int);
	int status;
	pid_t pid;

	*page = -1;
	pid = task_fork(self->tenant);
	if (pid < 0)
		return -1;
	if (!pid) {
		*page = fn(self, namespace);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	*line = *page;
	return 0;
}

/* What must hold for everybody else, whatever the tenant did */
#define EXPECT_OTHERS_UNTOUCHED() do {					\
	EXPECT_TRUE(cg_is(self->top, "cpu.hint", "wake_hold"));		\
	EXPECT_TRUE(cg_is(self->top, "cpu.hint.effective", "wake_hold")); \
	EXPECT_TRUE(cg_is(self->other, "cpu.hint", "inherit"));		\
	EXPECT_TRUE(cg_is(self->other, "cpu.hint.effective", "wake_hold")); \
	EXPECT_TRUE(cg_is(self->tenant, "cpu.hint", "inherit"));	\
	EXPECT_TRUE(cg_is(self->tenant, "cpu.hint.effective", "wake_hold")); \
} while (0)

/* The owner of a delegated subtree sets hints below its root, nowhere else. */
TEST_F_TIMEOUT(delegation, owner, 60)
{
	int line;

	ASSERT_EQ(0, in_tenant(self, false, tenant_works, &line));
	EXPECT_EQ(0, line) TH_LOG("failed at line %d", line);
	EXPECT_TRUE(cg_is(self->work, "cpu.hint.effective",
			  "wake_affine scan_full"));
	EXPECT_OTHERS_UNTOUCHED();
}

/* So does it in a cgroup namespace of its own. */
TEST_F_TIMEOUT(delegation, owner_in_namespace, 60)
{
	int line;

	ASSERT_EQ(0, in_tenant(self, true, tenant_works, &line));
	EXPECT_EQ(0, line) TH_LOG("failed at line %d", line);
	EXPECT_OTHERS_UNTOUCHED();
}

static int root_in_namespace(FIXTURE_DATA(delegation) *self, bool namespace)
{
	STEP(!unshare(CLONE_NEWCGROUP));
	STEP(!mkdir(self->home, 0755));
	STEP(!mkdir(self->work, 0755));
	STEP(!cg_enter(self->home, getpid()));
	STEP(!cg_enable(self->tenant, "+cpu"));
	STEP(!cg_write(self->work, "cpu.hint", "background"));
	/* cpu.hint is not one of the files that belong to the delegatee */
	STEP(cg_write(self->tenant, "cpu.hint", "pack") == -EPERM);
	STEP(cg_write(self->tenant, "cpu.hint", "nonsense") == -EPERM);
	return 0;
}

/*
 * With nsdelegate the namespace's root is a delegation point for root as well:
 * cpu.hint of it belongs to the parent.
 */
TEST_F_TIMEOUT(delegation, namespace_root, 60)
{
	char mounts[16384];
	int line;

	ASSERT_LT(0, file_read("/proc/mounts", mounts, sizeof(mounts)));
	if (!strstr(mounts, "nsdelegate"))
		SKIP(return, "cgroup2 is not mounted with nsdelegate");
	ASSERT_EQ(0, in_tenant(self, true, root_in_namespace, &line));
	EXPECT_EQ(0, line) TH_LOG("failed at line %d", line);
	EXPECT_OTHERS_UNTOUCHED();
}

/* The delegater's hint reaches the tenant's groups that inherit, and no others. */
TEST_F_TIMEOUT(delegation, from_above, 60)
{
	int line;

	ASSERT_EQ(0, in_tenant(self, false, tenant_works, &line));
	ASSERT_EQ(0, line) TH_LOG("failed at line %d", line);
	ASSERT_EQ(0, cg_write(self->work, "cpu.hint", "inherit"));
	ASSERT_EQ(0, cg_write(self->tenant, "cpu.hint", "pack"));
	EXPECT_TRUE(cg_is(self->work, "cpu.hint.effective", "pack"));
	EXPECT_TRUE(cg_is(self->home, "cpu.hint.effective", "none"));
	EXPECT_TRUE(cg_is(self->other, "cpu.hint.effective", "wake_hold"));
}

static int tenant_counts(FIXTURE_DATA(delegation) *self, bool namespace)
{
	int ret = become_tenant(self, namespace);
	pid_t pid;

	if (ret)
		return ret;
	STEP(!cg_write(self->work, "cpu.hint", "fork_affine"));
	pid = fork();
	STEP(pid >= 0);
	if (!pid) {
		if (cg_enter(self->work, getpid()))
			_exit(1);
		for (int i = 0; i < 10; i++) {
			pid = fork();
			if (!pid)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
		_exit(0);
	}
	STEP(waitpid(pid, &ret, 0) == pid && WIFEXITED(ret) && !WEXITSTATUS(ret));
	return 0;
}

/* What the tenant's tasks do is counted in its groups only. */
TEST_F_TIMEOUT(delegation, counters, 60)
{
	struct topo t;
	int line;

	ASSERT_EQ(0, topo_read(&t));
	ASSERT_EQ(0, in_tenant(self, true, tenant_counts, &line));
	EXPECT_EQ(0, line) TH_LOG("failed at line %d", line);
	if (t.nr_cpus > 1) {
		EXPECT_LT(0, cg_count(self->work, "hint_fork_followed") +
			     cg_count(self->work, "hint_fork_full"));
	}
	EXPECT_EQ(0, cg_count(self->tenant, "hint_fork_followed"));
	EXPECT_EQ(0, cg_count(self->top, "hint_fork_followed"));
	EXPECT_EQ(0, cg_count(self->other, "hint_fork_followed"));
}

/*
 *	steer_threaded		domain; the process
 *	  a			threaded, slice_short scan_none
 *	  b			threaded, slice_long
 */
FIXTURE(threaded) {
	struct topo t;
	char *top, *a, *b;
};

FIXTURE_SETUP(threaded)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_threaded");
	ASSERT_NE(NULL, self->top);
	ASSERT_EQ(0, cg_enable(self->top, "-cpuset"));
	self->a = cg_new(self->top, "a");
	self->b = cg_new(self->top, "b");
	ASSERT_TRUE(self->a && self->b);
	ASSERT_EQ(0, cg_write(self->a, "cgroup.type", "threaded"));
	ASSERT_EQ(0, cg_write(self->b, "cgroup.type", "threaded"));
}

FIXTURE_TEARDOWN(threaded)
{
	EXPECT_EQ(0, cg_destroy(self->top));
}

struct thread_page {
	int tid[2];
	int go[2];
	int stop;
};

static void *thread_loop(void *arg)
{
	int *tid = arg;
	int *go = tid + 2;

	__atomic_store_n(tid, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	for (;;) {
		/* sleeps and runs: wakeups to be counted, requests to be renewed */
		usleep(200);
		__atomic_add_fetch(go, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Two threads of one process are treated by the group that each is in. */
TEST_F_TIMEOUT(threaded, threads_differ, 120)
{
	struct thread_page *page = SHARED(struct thread_page);
	char buf[32], base[32];
	long b;
	pid_t pid;

	if (file_read("/sys/kernel/debug/sched/base_slice_ns", base,
		      sizeof(base)) < 0)
		SKIP(return, "needs debugfs and CONFIG_SCHED_DEBUG");
	b = strtol(base, NULL, 10);
	ASSERT_EQ(0, cg_write(self->a, "cpu.hint", "scan_none slice_short"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.hint", "slice_long"));
	pid = task_fork(self->top);
	ASSERT_LE(0, pid);
	if (!pid) {
		pthread_t thread;

		for (int i = 0; i < 2; i++)
			pthread_create(&thread, NULL, thread_loop, &page->tid[i]);
		for (;;)
			pause();
	}
	ASSERT_TRUE(WAIT_FOR(page->tid[0] && page->tid[1]));

	snprintf(buf, sizeof(buf), "%d", page->tid[0]);
	ASSERT_EQ(0, cg_write(self->a, "cgroup.threads", buf));
	snprintf(buf, sizeof(buf), "%d", page->tid[1]);
	ASSERT_EQ(0, cg_write(self->b, "cgroup.threads", buf));
	EXPECT_TRUE(WAIT_FOR(task_sched(pid, page->tid[0], "se.slice") == b / 4));
	EXPECT_TRUE(WAIT_FOR(task_sched(pid, page->tid[1], "se.slice") == b * 4));
	/* the main thread is in neither */
	EXPECT_EQ(b, task_sched(pid, pid, "se.slice"));

	if (self->t.nr_cpus > 1) {
		EXPECT_TRUE(WAIT_FOR(cg_count(self->a, "hint_scan_followed") > 10));
		EXPECT_EQ(0, cg_count(self->b, "hint_scan_followed"));
	}
	EXPECT_EQ(-1, cg_stat(self->top, "hint_slice_followed"));

	/* and changes its ways when it moves */
	snprintf(buf, sizeof(buf), "%d", page->tid[0]);
	ASSERT_EQ(0, cg_write(self->b, "cgroup.threads", buf));
	EXPECT_TRUE(WAIT_FOR(task_sched(pid, page->tid[0], "se.slice") == b * 4));
	task_kill(pid);
}

/* Threaded groups inherit as others do. */
TEST_F(threaded, inherit)
{
	ASSERT_EQ(0, cg_write(self->top, "cpu.hint", "interactive"));
	EXPECT_TRUE(cg_is(self->a, "cpu.hint.effective", "scan_full slice_short"));
	ASSERT_EQ(0, cg_write(self->b, "cpu.hint", "none"));
	EXPECT_TRUE(cg_is(self->b, "cpu.hint.effective", "none"));
}

STEER_MAIN
