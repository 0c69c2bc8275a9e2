// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the rules of cpu.hint energy: what a task costs on a CPU, whether the task
 * fits there, and which CPU is taken.
 */
#include <kunit/test.h>

#include "steer_energy_rules.h"

/* Performance and cost of a unit of utilisation, in ascending order. */
struct level {
	unsigned long	performance;
	unsigned long	cost;
};

/*
 * Of HiKey 960: 4 + 4 CPUs. Cost is power, in mW, by performance, times ten. So a unit of work
 * is dearer on the smallest level of the large CPUs than on the smaller ones of the small CPUs.
 */
static const struct level little[] = {
	{ 171, 1679 }, { 320, 2194 }, { 450, 2776 }, { 548, 3428 }, { 592, 4147 }, { }
};

static const struct level big[] = {
	{ 391, 6223 }, { 616, 8127 }, { 782, 10285 }, { 915, 12695 }, { 1024, 15351 }, { }
};

/* A CPU as the choice sees it. */
struct cpu {
	unsigned long	util;
	unsigned int	running;
	unsigned long	util_min;
	unsigned long	util_max;	/* 0: nothing runs, so nothing is clamped */
};

#define PER_DOMAIN	4

struct domain {
	const struct level	*levels;
	unsigned long		capacity;
	struct cpu		cpus[PER_DOMAIN];
};

struct task {
	unsigned long	util;
	unsigned long	util_min;
	unsigned long	util_max;
	int		prev;
	bool		pack;
};

#define UNCLAMPED(u)	.util = (u), .util_max = SCHED_CAPACITY_SCALE
#define BOOSTED(u, min)	UNCLAMPED(u), .util_min = (min)
#define BUSY(u, n)	{ UNCLAMPED(u), .running = (n) }
#define CAPPED(u, n)	{ .util = (u), .util_max = 200, .running = (n) }
#define IDLE(u)		{ .util = (u) }

static unsigned long cost_of(const struct level *levels, unsigned long performance)
{
	while (levels->performance < performance && levels[1].performance)
		levels++;
	return levels->cost;
}

/* As schedutil: a quarter more than is used, within the clamps. */
static unsigned long performance_of(unsigned long util, unsigned long least, unsigned long most,
				    unsigned long capacity)
{
	return min(max(min(util + util / 4, most), least), capacity);
}

static struct steer_energy_candidate candidate_of(const struct domain *domain, int index,
						  const struct task *task, int first)
{
	struct steer_energy_capacity capacity = {
		.left = domain->capacity, .original = domain->capacity, .actual = domain->capacity,
	};
	const struct cpu *cpu = &domain->cpus[index];
	unsigned long before = 0, busy = 0, util = cpu->util + task->util;
	struct steer_energy_candidate candidate = {
		.cpu = first + index, .actual = domain->capacity, .running = cpu->running,
		.room = (long)domain->capacity - (long)util,
	};
	unsigned long most = max(cpu->util_max, task->util_max), after;
	int i;

	for (i = 0; i < PER_DOMAIN; i++) {
		unsigned long other = domain->cpus[i].util_max;

		busy += domain->cpus[i].util;
		before = max(before, performance_of(domain->cpus[i].util, domain->cpus[i].util_min,
						    other ? other : SCHED_CAPACITY_SCALE,
						    domain->capacity));
	}
	after = max(before, performance_of(util, max(cpu->util_min, task->util_min), most,
					   domain->capacity));
	candidate.fits = steer_energy_fits(util, max(cpu->util_min, task->util_min), most,
					   &capacity);
	candidate.delta = steer_energy_delta(cost_of(domain->levels, before), busy,
					     cost_of(domain->levels, after), task->util);
	if (candidate.cpu == task->prev)
		candidate.room += STEER_ENERGY_STAY;
	return candidate;
}

/* The choice of the mechanism: small CPUs are 0 to 3, large ones 4 to 7. */
static int choose(const struct domain *domains, const struct task *task)
{
	struct steer_energy_candidate best = { .cpu = -1 };
	int i;

	for (i = 0; i < 2 * PER_DOMAIN; i++) {
		struct steer_energy_candidate candidate =
			candidate_of(&domains[i / PER_DOMAIN], i % PER_DOMAIN, task,
				     i / PER_DOMAIN * PER_DOMAIN);

		if (candidate.fits != STEER_FITS_NOT &&
		    steer_energy_better(&candidate, &best, task->pack))
			best = candidate;
	}
	return best.cpu;
}

static const struct domain idle[] = {
	{ .levels = little, .capacity = 592 }, { .levels = big, .capacity = 1024 },
};

/* A table of the whole choice. */
static void steer_test_choice(struct kunit *test)
{
	static const struct {
		const char	*what;
		struct cpu	little[PER_DOMAIN];
		struct cpu	big[PER_DOMAIN];
		struct task	task;
		int		cpu;
	} cases[] = {
		{
			.what = "a small task on an idle machine goes to a small CPU",
			.task = { UNCLAMPED(50), .prev = 5 }, .cpu = 0,
		}, {
			.what = "and stays on the one where it was",
			.task = { UNCLAMPED(50), .prev = 2 }, .cpu = 2,
		}, {
			.what = "one that does not fit a small CPU goes to a large one",
			.task = { UNCLAMPED(480), .prev = 0 }, .cpu = 4,
		}, {
			.what = "at one level, the CPU with fewer tasks, although with less room",
			.little = { BUSY(60, 2), IDLE(300), BUSY(60, 1), BUSY(60, 1) },
			.task = { UNCLAMPED(50), .prev = 0 }, .cpu = 1,
		}, {
			.what = "of as many tasks, the CPU with the most room",
			.little = { BUSY(120, 1), BUSY(20, 1), BUSY(80, 1), BUSY(200, 1) },
			.task = { UNCLAMPED(20), .prev = 6 }, .cpu = 1,
		}, {
			.what = "a level higher is dearer than a second task on a CPU",
			.little = { BUSY(10, 1), IDLE(120), IDLE(120), IDLE(120) },
			.task = { UNCLAMPED(60), .prev = 1 }, .cpu = 0,
		}, {
			.what = "small CPUs are at their highest level, and cost less even so",
			.little = { BUSY(440, 1), BUSY(440, 1), BUSY(440, 1), IDLE(280) },
			.big = { IDLE(100) },
			.task = { UNCLAMPED(150), .prev = 4 }, .cpu = 3,
		}, {
			.what = "the capped one goes to a small CPU, whatever it used before",
			.task = { .util = 700, .util_max = 300, .prev = 4 }, .cpu = 0,
		}, {
			.what = "also where the small CPUs do nothing else than capped work",
			.little = { CAPPED(590, 1), CAPPED(590, 2), CAPPED(590, 1),
				    CAPPED(400, 1) },
			.task = { .util = 200, .util_max = 200, .prev = 4 }, .cpu = 3,
		}, {
			.what = "a cap above a small CPU's capacity is none there",
			.task = { .util = 590, .util_max = 700, .prev = 0 }, .cpu = 4,
		}, {
			.what = "the boosted one goes where its performance is to be had",
			.task = { BOOSTED(50, 800), .prev = 1 }, .cpu = 4,
		}, {
			.what = "a boost that a small CPU can give needs no large one",
			.task = { BOOSTED(50, 300), .prev = 5 }, .cpu = 0,
		}, {
			.what = "boosted, at a level that is high anyway",
			.little = { { BOOSTED(10, 590), .running = 1 } },
			.task = { BOOSTED(50, 580), .prev = 1 }, .cpu = 1,
		}, {
			.what = "nothing fits",
			.little = { IDLE(500), IDLE(500), IDLE(500), IDLE(500) },
			.big = { IDLE(900), IDLE(900), IDLE(900), IDLE(900) },
			.task = { UNCLAMPED(100), .prev = 0 }, .cpu = -1,
		}, {
			.what = "one CPU without room is no reason to give up",
			.little = { BUSY(592, 3) },
			.task = { UNCLAMPED(60), .prev = 0 }, .cpu = 1,
		}, {
			.what = "with pack, the CPU that is awake, of those that cost the same",
			.little = { { }, BUSY(40, 1), { }, { } },
			.task = { UNCLAMPED(40), .prev = 3, .pack = true }, .cpu = 1,
		}, {
			.what = "with pack, the fuller one of two",
			.little = { BUSY(40, 1), BUSY(60, 1) },
			.task = { UNCLAMPED(40), .prev = 3, .pack = true }, .cpu = 1,
		}, {
			.what = "with pack, no third task",
			.little = { { }, BUSY(40, 2), { }, { } },
			.task = { UNCLAMPED(40), .prev = 3, .pack = true }, .cpu = 3,
		}, {
			.what = "with pack, no higher level either",
			.little = { { }, BUSY(120, 1), { }, { } },
			.task = { UNCLAMPED(60), .prev = 3, .pack = true }, .cpu = 3,
		},
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct domain domains[2] = { idle[0], idle[1] };

		memcpy(domains[0].cpus, cases[i].little, sizeof(cases[i].little));
		memcpy(domains[1].cpus, cases[i].big, sizeof(cases[i].big));
		KUNIT_EXPECT_EQ_MSG(test, choose(domains, &cases[i].task), cases[i].cpu, "%s",
				    cases[i].what);
	}
}

/* A little room more is not worth the cache; much more is. */
static void steer_test_stays(struct kunit *test)
{
	struct steer_energy_candidate prev = { .cpu = 1, .fits = STEER_FITS, .delta = 100,
					       .room = 500 + STEER_ENERGY_STAY };
	struct steer_energy_candidate other = prev;

	other.cpu = 2;
	other.room = 500 + STEER_ENERGY_STAY / 2;
	KUNIT_EXPECT_FALSE(test, steer_energy_better(&other, &prev, false));
	other.room = 501 + STEER_ENERGY_STAY;
	KUNIT_EXPECT_TRUE(test, steer_energy_better(&other, &prev, false));
}

/* util_fits_cpu(): utilisation with a fifth to spare, and uclamp on both sides. */
static void steer_test_fits(struct kunit *test)
{
	static const struct steer_energy_capacity small = { 592, 592, 592 };
	static const struct steer_energy_capacity large = { 1024, 1024, 1024 };
	static const struct steer_energy_capacity pressed = { 300, 592, 592 };
	static const struct steer_energy_capacity hot = { 592, 592, 200 };
	static const struct {
		const struct steer_energy_capacity	*capacity;
		unsigned long				util, least, most;
		enum steer_energy_fit			fits;
	} cases[] = {
		{ &small, 473, 0, 1024, STEER_FITS },
		{ &small, 474, 0, 1024, STEER_FITS_NOT },
		{ &large, 819, 0, 1024, STEER_FITS },
		{ &large, 820, 0, 1024, STEER_FITS_NOT },
		/* Capped to what the CPU can do at all */
		{ &small, 590, 0, 592, STEER_FITS },
		{ &small, 590, 0, 593, STEER_FITS_NOT },
		{ &large, 1024, 0, 1023, STEER_FITS },
		/* What other classes use does not matter to one that is capped. */
		{ &pressed, 290, 0, 1024, STEER_FITS_NOT },
		{ &pressed, 290, 0, 500, STEER_FITS },
		/* Boosted */
		{ &small, 100, 592, 1024, STEER_FITS },
		{ &small, 100, 593, 1024, STEER_FITS_SHORT },
		{ &hot, 100, 201, 1024, STEER_FITS_SHORT },
		/* It uses more than it is boosted to. */
		{ &hot, 300, 250, 1024, STEER_FITS },
		/* A boost beyond the cap is the cap. */
		{ &small, 100, 1024, 400, STEER_FITS },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, steer_energy_fits(cases[i].util, cases[i].least,
							    cases[i].most, cases[i].capacity),
				    cases[i].fits, "case %d", i);
}

/* The whole domain pays for a higher level. */
static void steer_test_delta(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_energy_delta(10, 500, 10, 40), 400);
	KUNIT_EXPECT_EQ(test, steer_energy_delta(10, 500, 12, 40), 1480);
	KUNIT_EXPECT_EQ(test, steer_energy_delta(10, 0, 12, 40), 480);
	/* The domain slowed down while it was read. */
	KUNIT_EXPECT_EQ(test, steer_energy_delta(12, 500, 10, 40), 0);
}

/* Where nothing gives what uclamp.min asks for, the fastest CPU, whatever that costs. */
static void steer_test_short(struct kunit *test)
{
	struct steer_energy_candidate slow = { .cpu = 0, .fits = STEER_FITS_SHORT, .delta = 10,
					       .actual = 300 };
	struct steer_energy_candidate fast = { .cpu = 4, .fits = STEER_FITS_SHORT, .delta = 90,
					       .actual = 800 };
	struct steer_energy_candidate well = { .cpu = 5, .fits = STEER_FITS, .delta = 99,
					       .actual = 1024 };

	KUNIT_EXPECT_TRUE(test, steer_energy_better(&fast, &slow, false));
	KUNIT_EXPECT_FALSE(test, steer_energy_better(&slow, &fast, false));
	KUNIT_EXPECT_TRUE(test, steer_energy_better(&well, &fast, false));
	KUNIT_EXPECT_FALSE(test, steer_energy_better(&slow, &well, false));
}

/* A task that never sleeps is moved for a good reason, and not back. */
static void steer_test_leaves(struct kunit *test)
{
	struct steer_energy_candidate here = { .cpu = 4, .fits = STEER_FITS, .delta = 1600 };
	struct steer_energy_candidate there = { .cpu = 0, .fits = STEER_FITS, .delta = 1499 };

	KUNIT_EXPECT_TRUE(test, steer_energy_leaves(&here, &there));
	there.delta = 1500;
	KUNIT_EXPECT_FALSE(test, steer_energy_leaves(&here, &there));
	/* Others wait behind it here. */
	here.running = 1;
	KUNIT_EXPECT_TRUE(test, steer_energy_leaves(&here, &there));
	there.running = 1;
	KUNIT_EXPECT_FALSE(test, steer_energy_leaves(&here, &there));
	there.running = 0;
	there.delta = 1601;
	KUNIT_EXPECT_FALSE(test, steer_energy_leaves(&here, &there));
	/* Too large for where it is, or not served. */
	here.fits = STEER_FITS_NOT;
	KUNIT_EXPECT_TRUE(test, steer_energy_leaves(&here, &there));
	here.fits = STEER_FITS_SHORT;
	KUNIT_EXPECT_TRUE(test, steer_energy_leaves(&here, &there));
	there.fits = STEER_FITS_SHORT;
	here.fits = STEER_FITS;
	there.delta = 0;
	KUNIT_EXPECT_FALSE(test, steer_energy_leaves(&here, &there));
}

static struct kunit_case steer_energy_cases[] = {
	KUNIT_CASE(steer_test_choice),
	KUNIT_CASE(steer_test_stays),
	KUNIT_CASE(steer_test_fits),
	KUNIT_CASE(steer_test_delta),
	KUNIT_CASE(steer_test_short),
	KUNIT_CASE(steer_test_leaves),
	{ }
};

static struct kunit_suite steer_energy_suite = {
	.name = "steer_energy",
	.test_cases = steer_energy_cases,
};

kunit_test_suite(steer_energy_suite);

MODULE_DESCRIPTION("KUnit tests for the rules of cpu.hint energy");
MODULE_LICENSE("GPL");
