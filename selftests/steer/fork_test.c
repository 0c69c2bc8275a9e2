// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where new tasks start, and where exec() leaves them: fork_affine, fork_spread
 * and pack.
 *
 * A parent in a group of its own creates children one after the other. Each
 * says on which CPU it came to life; the parent notes its own CPU just before.
 * Children that end at once leave the machine as idle as it was, so each is
 * placed under the same conditions. Children that stay fill it up.
 *
 *	root		test, hogs
 *	  steer_fork
 *	    group	parent and children, cpu.hint
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <linux/sched.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CHILDREN	30
/*
 * Something else on the machine (a kernel thread, the load balancer between
 * birth and first look) may be in the way now and then.
 */
#define MOST		(CHILDREN * 3 / 4)
#define HALF		(CHILDREN / 2)
#define FEW		(CHILDREN / 4)

FIXTURE(fork) {
	struct topo t;
	struct hogs hogs;
	char *top;
	char *cg;
	cpu_set_t home;		/* LLC of the parent */
};

FIXTURE_SETUP(fork)
{
	REQUIRE_HINT();
	ASSERT_EQ(0, topo_read(&self->t));
	self->top = cg_top("steer_fork");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);
	/* The last one: the first has the most other things to do. */
	self->home = self->t.llc[self->t.nr_llcs - 1];
}

FIXTURE_TEARDOWN(fork)
{
	hogs_stop(&self->hogs);
	EXPECT_EQ(0, cg_destroy(self->top));
}

enum kind { FORK, THREAD, EXEC, FORK_STAY, FORK_INTO };

/* One child: where its parent was, and where it was first */
struct birth {
	int parent;
	int child;
};

struct births {
	int error;
	int nr;
	struct birth birth[STEER_MAX_CPUS];
};

static void *thread_born(void *arg)
{
	*(volatile int *)arg = sched_getcpu();
	return NULL;
}

static int wait_for_child(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* clone3() into the group of @cgroup_fd */
static pid_t fork_into(int cgroup_fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup_fd,
	};

	return syscall(SYS_clone3, &args, sizeof(args));
}

static int bear(enum kind kind, struct birth *birth, int cgroup_fd)
{
	pthread_t thread;
	pid_t pid;

	birth->parent = sched_getcpu();
	birth->child = -1;
	switch (kind) {
	case FORK:
	case FORK_INTO:
	case FORK_STAY:
		pid = kind == FORK_INTO ? fork_into(cgroup_fd) : fork();
		if (!pid) {
			int cpu = sched_getcpu();

			__atomic_store_n(&birth->child, cpu, __ATOMIC_SEQ_CST);
			while (kind == FORK_STAY)
				;
			_exit(cpu);
		}
		if (kind == FORK_STAY)
			return WAIT_FOR(__atomic_load_n(&birth->child,
							__ATOMIC_SEQ_CST) >= 0) ?
				0 : -1;
		birth->child = wait_for_child(pid);
		return birth->child < 0 ? -1 : 0;
	case THREAD:
		if (pthread_create(&thread, NULL, thread_born, &birth->child))
			return -1;
		return pthread_join(thread, NULL);
	case EXEC:
		pid = fork();
		if (!pid) {
			birth->parent = sched_getcpu();
			execl("/proc/self/exe", "steer", "--where", NULL);
			_exit(255);
		}
		birth->child = wait_for_child(pid);
		return birth->child < 0 || birth->child == 255 ? -1 : 0;
	}
	return -1;
}

/*
 * In @cg, start on @cpu with the affinity @mask and have @nr children, of which
 * FORK_INTO ones are born in @into. Children that stay are ended with their
 * group by the caller.
 */
static int family(const char *cg, enum kind kind, int nr, int cpu,
		  const cpu_set_t *mask, const char *into, struct births **out)
{
	struct births *b = SHARED(struct births);
	pid_t pid;

	*out = b;
	pid = task_fork(cg);
	if (pid < 0)
		return -1;
	if (!pid) {
		int fd = into ? open(into, O_RDONLY | O_DIRECTORY) : -1;

		for (int i = 0; i < nr && !b->error; i++) {
			/* back to the start, in case it was moved */
			b->error = task_pin_cpu(0, cpu) || task_pin(0, mask) ||
				   bear(kind, &b->birth[i], fd);
			b->nr = i + 1;
		}
		/* so that children that stay are still its children */
		while (kind == FORK_STAY && !b->error)
			pause();
		_exit(b->error);
	}
	if (kind == FORK_STAY)
		return WAIT_FOR(__atomic_load_n(&b->error, __ATOMIC_SEQ_CST) ||
				(__atomic_load_n(&b->nr, __ATOMIC_SEQ_CST) == nr &&
				 task_state(pid) == 'S')) ? b->error : -1;
	return wait_for_child(pid);
}

static int same_llc(const struct topo *t, const struct births *b)
{
	int nr = 0;

	for (int i = 0; i < b->nr; i++)
		nr += t->llc_of[b->birth[i].parent] == t->llc_of[b->birth[i].child];
	return nr;
}

static int same_node(const struct topo *t, const struct births *b)
{
	int nr = 0;

	for (int i = 0; i < b->nr; i++)
		nr += t->node_of[b->birth[i].parent] == t->node_of[b->birth[i].child];
	return nr;
}

static int inside(const cpu_set_t *mask, const struct births *b)
{
	int nr = 0;

	for (int i = 0; i < b->nr; i++)
		nr += CPU_ISSET(b->birth[i].child, mask);
	return nr;
}

#define FAMILY(hint, kind, count, mask, births) do {			\
	cpu_set_t __home = cpuset_and(*(mask), self->home);		\
									\
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", hint));		\
	ASSERT_EQ(0, family(self->cg, kind, count, cpuset_nth(&__home, 0), \
			    mask, NULL, births));			\
	TH_LOG("%-12s of %d: %d in the parent's LLC, %d in its node",	\
	       hint, (*(births))->nr, same_llc(&self->t, *(births)),	\
	       same_node(&self->t, *(births)));				\
} while (0)

#define COUNT(key)	cg_count(self->cg, "hint_" key)

/*
 * fork_affine keeps a child in its parent's LLC; the default prefers the LLC
 * with more idle CPUs, which is another.
 */
static void affine_keeps(struct __test_metadata *_metadata,
			 FIXTURE_DATA(fork) *self, enum kind kind)
{
	struct births *none, *hint;

	REQUIRE_LLCS(&self->t, 2);
	FAMILY("none", kind, CHILDREN, &self->t.cpus, &none);
	FAMILY("fork_affine", kind, CHILDREN, &self->t.cpus, &hint);
	EXPECT_LE(same_llc(&self->t, none) + HALF, same_llc(&self->t, hint));
	EXPECT_LE(HALF, COUNT("fork_followed"));
	/* followed means: it is there */
	EXPECT_LE(COUNT("fork_followed"), same_llc(&self->t, hint) + FEW);
}

TEST_F_TIMEOUT(fork, affine, 120)
{
	affine_keeps(_metadata, self, FORK);
}

TEST_F_TIMEOUT(fork, affine_thread, 120)
{
	affine_keeps(_metadata, self, THREAD);
}

/* exec() chooses a CPU, too, with a hog in the LLC as well. */
TEST_F_TIMEOUT(fork, affine_exec, 120)
{
	cpu_set_t busy, others;
	struct births *hint;
	int last;

	REQUIRE_LLCS(&self->t, 2);
	if (topo_llc_weight(&self->t) < 4)
		SKIP(return, "needs LLCs of four CPUs");
	last = cpuset_nth(&self->home, CPU_COUNT(&self->home) - 1);
	busy = cpuset_one(last);
	others = cpuset_minus(self->t.cpus, busy);
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	FAMILY("fork_affine", EXEC, CHILDREN, &others, &hint);
	EXPECT_LE(FEW, same_llc(&self->t, hint));
	/* each was placed twice: at fork, and at exec */
	EXPECT_LT(CHILDREN, COUNT("fork_followed"));
}

/* fork_affine lets go when the parent's LLC has no room. */
TEST_F_TIMEOUT(fork, affine_full, 120)
{
	struct births *b;
	cpu_set_t busy;

	REQUIRE_LLCS(&self->t, 2);
	busy = cpuset_minus(self->home,
			    cpuset_one(cpuset_nth(&self->home, 0)));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	FAMILY("fork_affine", FORK, CHILDREN, &self->t.cpus, &b);
	EXPECT_GE(FEW, same_llc(&self->t, b));
	EXPECT_LE(MOST, COUNT("fork_full"));
	EXPECT_GE(FEW, COUNT("fork_followed"));
}

/* What is held back for the group takes no room; but what is idle comes first. */
TEST_F_TIMEOUT(fork, affine_headroom, 120)
{
	struct births *b;
	int last, there = 0;
	cpu_set_t busy;
	char *side;

	REQUIRE_FILE("cpu.headroom");
	REQUIRE_LLCS(&self->t, 2);
	if (topo_llc_weight(&self->t) < 4)
		SKIP(return, "needs LLCs of four CPUs");
	side = cg_new(self->top, "side");
	ASSERT_NE(NULL, side);
	busy = cpuset_minus(self->home, cpuset_one(cpuset_nth(&self->home, 0)));
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	FAMILY("fork_affine", FORK, CHILDREN, &self->t.cpus, &b);
	EXPECT_GE(FEW, COUNT("fork_followed"));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.headroom", "10"));
	FAMILY("fork_affine", FORK, CHILDREN, &self->t.cpus, &b);
	EXPECT_LE(MOST, COUNT("fork_followed"));
	EXPECT_LE(HALF, same_llc(&self->t, b));

	last = cpuset_nth(&busy, CPU_COUNT(&busy) - 1);
	busy = cpuset_minus(busy, cpuset_one(last));
	hogs_stop(&self->hogs);
	ASSERT_EQ(0, hogs_start(&self->hogs, side, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	FAMILY("fork_affine", FORK, CHILDREN, &self->t.cpus, &b);
	for (int i = 0; i < b->nr; i++)
		there += b->birth[i].child == last;
	TH_LOG("%d on the idle CPU", there);
	EXPECT_LE(HALF, there);
	free(side);
}

/*
 * Children that stay fill the parent's LLC and no more: some are kept there,
 * and the one that does not fit any more goes elsewhere.
 */
TEST_F_TIMEOUT(fork, affine_fills_up, 180)
{
	struct births *b;
	int nr, kept;

	REQUIRE_LLCS(&self->t, 2);
	nr = CPU_COUNT(&self->home) + 2;
	FAMILY("fork_affine", FORK_STAY, nr, &self->t.cpus, &b);
	kept = same_llc(&self->t, b);
	EXPECT_LE(1, kept);
	EXPECT_GE(CPU_COUNT(&self->home), kept);
	EXPECT_LE(1, COUNT("fork_followed"));
	EXPECT_LE(1, COUNT("fork_full"));
	ASSERT_EQ(0, cg_write(self->cg, "cgroup.kill", "1"));
}

/*
 * fork_spread sends a child to another node at once; the default allows a few
 * tasks to stay near their parent before it does.
 */
static void spread_leaves(struct __test_metadata *_metadata,
			  FIXTURE_DATA(fork) *self, enum kind kind)
{
	struct births *none, *hint;

	if (self->t.nr_nodes < 2)
		SKIP(return, "needs two NUMA nodes");
	FAMILY("none", kind, CHILDREN, &self->t.cpus, &none);
	FAMILY("fork_spread", kind, CHILDREN, &self->t.cpus, &hint);
	EXPECT_LE(same_node(&self->t, hint) + FEW, same_node(&self->t, none));
	EXPECT_LE(MOST, COUNT("fork_followed"));
}

TEST_F_TIMEOUT(fork, spread, 120)
{
	spread_leaves(_metadata, self, FORK);
}

TEST_F_TIMEOUT(fork, spread_thread, 120)
{
	spread_leaves(_metadata, self, THREAD);
}

/* The two fork hints move children in opposite directions from the default. */
TEST_F_TIMEOUT(fork, opposite, 180)
{
	struct births *affine, *none, *spread;

	REQUIRE_LLCS(&self->t, 2);
	FAMILY("fork_affine", FORK, CHILDREN, &self->t.cpus, &affine);
	FAMILY("none", FORK, CHILDREN, &self->t.cpus, &none);
	FAMILY("fork_spread", FORK, CHILDREN, &self->t.cpus, &spread);
	EXPECT_LT(same_llc(&self->t, none), same_llc(&self->t, affine));
	EXPECT_LT(same_llc(&self->t, spread), same_llc(&self->t, affine));
	if (self->t.nr_nodes > 1) {
		EXPECT_LT(same_node(&self->t, spread), same_node(&self->t, none));
	} else {
		/* One node: the default spreads as well, give or take a few. */
		EXPECT_LE(same_llc(&self->t, spread), same_llc(&self->t, none) + FEW);
	}
}

/* Children that stay are on as many LLCs as there can be with fork_spread. */
TEST_F_TIMEOUT(fork, spread_stays, 180)
{
	int llcs = 0, nodes = 0;
	struct births *b;
	cpu_set_t seen;

	REQUIRE_LLCS(&self->t, 2);
	FAMILY("fork_spread", FORK_STAY, 2 * self->t.nr_llcs, &self->t.cpus, &b);
	CPU_ZERO(&seen);
	for (int i = 0; i < b->nr; i++)
		CPU_SET(b->birth[i].child, &seen);
	for (int i = 0; i < self->t.nr_llcs; i++) {
		cpu_set_t both = cpuset_and(seen, self->t.llc[i]);

		llcs += !!CPU_COUNT(&both);
	}
	for (int i = 0; i < self->t.nr_nodes; i++) {
		cpu_set_t both = cpuset_and(seen, self->t.node[i]);

		nodes += !!CPU_COUNT(&both);
	}
	EXPECT_EQ(self->t.nr_nodes, nodes);
	EXPECT_EQ(self->t.nr_llcs, llcs);
	ASSERT_EQ(0, cg_write(self->cg, "cgroup.kill", "1"));
}

/*
 * It is by the tasks of its own group that fork_spread is even: where others fill most of the
 * parent's node, a child goes there nevertheless. By idle CPUs alone none would.
 */
TEST_F_TIMEOUT(fork, spread_beside_others, 180)
{
	int nr = 2 * self->t.nr_nodes, home = 0;
	cpu_set_t node, busy;
	struct births *b;

	if (self->t.nr_nodes < 2)
		SKIP(return, "needs two NUMA nodes");
	node = self->t.node[self->t.nr_nodes - 1];
	/* Idle are the CPU of the parent, and one more. */
	busy = cpuset_minus(node, cpuset_one(cpuset_nth(&self->home, 0)));
	busy = cpuset_minus(busy, cpuset_one(cpuset_nth(&self->home, 1)));
	ASSERT_EQ(0, hogs_start(&self->hogs, NULL, &busy, 0));
	ASSERT_EQ(0, hogs_run(&self->hogs));
	FAMILY("fork_spread", FORK_STAY, nr, &self->t.cpus, &b);
	home = inside(&node, b);
	EXPECT_LE(1, home);
	EXPECT_GT(nr - 1, home);
	ASSERT_EQ(0, cg_write(self->cg, "cgroup.kill", "1"));
}

/* A fork hint never puts a child outside the affinity that it inherits. */
TEST_F_TIMEOUT(fork, affinity, 180)
{
	static const char * const hints[] = { "fork_affine", "fork_spread", "pack" };
	struct births *b;
	cpu_set_t mask;

	/* every second CPU: part of each core and each LLC */
	CPU_ZERO(&mask);
	for (int i = 0; i < self->t.nr_cpus; i += 2)
		CPU_SET(cpuset_nth(&self->t.cpus, i), &mask);
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		for (enum kind kind = FORK; kind <= EXEC; kind++) {
			FAMILY(hints[i], kind, CHILDREN, &mask, &b);
			EXPECT_EQ(CHILDREN, inside(&mask, b))
				TH_LOG("%s", hints[i]);
		}
	}
	/* one CPU leaves no choice at all */
	mask = cpuset_one(cpuset_nth(&self->t.cpus, self->t.nr_cpus - 1));
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		FAMILY(hints[i], FORK, CHILDREN, &mask, &b);
		EXPECT_EQ(CHILDREN, inside(&mask, b)) TH_LOG("%s", hints[i]);
	}
}

/*
 * The best CPU of the LLC is not allowed: fork_affine takes another idle one
 * there, and does not let the child queue behind its parent.
 */
TEST_F_TIMEOUT(fork, affine_partly_allowed, 120)
{
	cpu_set_t mask, others;
	struct births *b;
	int queued = 0;

	REQUIRE_LLCS(&self->t, 2);
	if (topo_llc_weight(&self->t) < 4)
		SKIP(return, "needs LLCs of four CPUs");
	/* the first CPU of a core that is not the parent's */
	others = cpuset_minus(self->home,
			      self->t.core[cpuset_nth(&self->home, 0)]);
	mask = cpuset_minus(self->t.cpus, cpuset_one(cpuset_nth(&others, 0)));
	FAMILY("fork_affine", FORK, CHILDREN, &mask, &b);
	for (int i = 0; i < b->nr; i++)
		queued += b->birth[i].child == b->birth[i].parent;
	EXPECT_EQ(CHILDREN, inside(&mask, b));
	EXPECT_LE(HALF, same_llc(&self->t, b));
	EXPECT_GE(FEW, queued);
}

/*
 *	steer_fork
 *	  parent		cpuset of LLC a
 *	  group		fork_affine, cpuset of LLC b; children are cloned into it
 *
 * The child may not run where its parent is: its cpuset wins, and the counter
 * tells. It is the child's group that counts, not the parent's.
 */
TEST_F_TIMEOUT(fork, into_other_cpuset, 180)
{
	char list[1024], *parent;
	struct births *b;

	REQUIRE_LLCS(&self->t, 2);
	parent = cg_new(self->top, "parent");
	ASSERT_NE(NULL, parent);
	cpulist_format(&self->t.llc[0], list, sizeof(list));
	if (cg_write(parent, "cpuset.cpus", list))
		SKIP(return, "needs the cpuset controller");
	cpulist_format(&self->t.llc[1], list, sizeof(list));
	ASSERT_EQ(0, cg_write(self->cg, "cpuset.cpus", list));
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));

	ASSERT_EQ(0, family(parent, FORK_INTO, CHILDREN,
			    cpuset_nth(&self->t.llc[0], 0), &self->t.llc[0],
			    self->cg, &b));
	EXPECT_EQ(CHILDREN, inside(&self->t.llc[1], b));
	EXPECT_LE(MOST, COUNT("fork_affinity"));
	EXPECT_EQ(0, COUNT("fork_followed"));
	free(parent);
}

/* A child that is cloned into a hinted group is placed by that group's hint. */
TEST_F_TIMEOUT(fork, into_hinted, 180)
{
	char *parent;
	struct births *b;

	REQUIRE_LLCS(&self->t, 2);
	parent = cg_new(self->top, "parent");
	ASSERT_NE(NULL, parent);
	ASSERT_EQ(0, cg_write(self->cg, "cpu.hint", "fork_affine"));
	ASSERT_EQ(0, family(parent, FORK_INTO, CHILDREN,
			    cpuset_nth(&self->t.cpus, 0), &self->t.cpus,
			    self->cg, &b));
	EXPECT_LE(MOST, same_llc(&self->t, b));
	EXPECT_LE(MOST, COUNT("fork_followed"));
	EXPECT_EQ(-1, cg_stat(parent, "hint_fork_followed"));
	free(parent);
}

static int beside_parent(const struct topo *t, const struct births *b)
{
	int n = 0;

	for (int i = 0; i < b->nr; i++)
		n += CPU_ISSET(b->birth[i].child, &t->core[b->birth[i].parent]);
	return n;
}

/*
 * pack applies to new tasks where no fork hint does: beside a busy thread, in
 * the parent's LLC.
 */
TEST_F_TIMEOUT(fork, pack, 120)
{
	struct births *none, *b;

	REQUIRE_LLCS(&self->t, 2);
	if (self->t.smt < 2)
		SKIP(return, "needs SMT");
	FAMILY("none", FORK, CHILDREN, &self->t.cpus, &none);
	FAMILY("pack", FORK, CHILDREN, &self->t.cpus, &b);
	/* The last child may be in the way still, on a slow machine. */
	EXPECT_LE(beside_parent(&self->t, none) + FEW, beside_parent(&self->t, b));
	EXPECT_LE(FEW, COUNT("pack_followed"));
	EXPECT_LE(HALF, same_llc(&self->t, b));

	/* a fork hint goes first */
	FAMILY("fork_spread pack", FORK, CHILDREN, &self->t.cpus, &b);
	EXPECT_GE(FEW, same_llc(&self->t, b));
}

/* Forking works with any hint on any machine, also one of a single CPU. */
TEST_F_TIMEOUT(fork, any_machine, 180)
{
	static const char * const hints[] = {
		"fork_affine pack", "fork_spread", "background", "tail_latency",
	};
	struct births *b;

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		for (enum kind kind = FORK; kind <= EXEC; kind++) {
			FAMILY(hints[i], kind, CHILDREN, &self->t.cpus, &b);
			EXPECT_EQ(CHILDREN, b->nr);
			EXPECT_EQ(CHILDREN, inside(&self->t.cpus, b));
		}
	}
}

STEER_MAIN
