// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the arithmetic of cpu.headroom.
 *
 * Tables say what a person would expect of one step. The loops run the steps
 * against a machine that is simulated as simply as possible, a sum of CPU time,
 * and say where they have to arrive, how soon, and how far they may swing.
 */
#include <kunit/test.h>
#include <linux/prandom.h>

#include "steer_headroom_math.h"

#define UNTOUCHED	0xbadU
#define CPUS		16
#define MS		1000000LL
#define CAPACITY	(CPUS * 100 * MS)
#define PERCENT		(CAPACITY / 100)

static void parse_test(struct kunit *test)
{
	static const struct {
		const char *text;
		int ret;
		unsigned int percent;
	} texts[] = {
		{ "0", 0, 0 }, { "0.00", 0, 0 }, { "-0", 0, 0 }, { "00", 0, 0 },
		{ "20", 0, 2000 }, { "20.5", 0, 2050 }, { "20.50", 0, 2050 },
		{ "20.05", 0, 2005 }, { "0.01", 0, 1 }, { "+7", 0, 700 },
		{ "100", 0, 10000 }, { "100.00", 0, 10000 }, { "0030", 0, 3000 },
		{ "100.01", -ERANGE }, { "101", -ERANGE }, { "-1", -ERANGE },
		{ "-0.01", -ERANGE }, { "1000000", -ERANGE },
		{ "99999999999999999999999999", -ERANGE },
		{ "", -EINVAL }, { ".", -EINVAL }, { ".5", -EINVAL }, { "5.", -EINVAL },
		{ "20.555", -EINVAL }, { "20.500", -EINVAL }, { "20.", -EINVAL },
		{ "max", -EINVAL }, { "20%", -EINVAL }, { "20 30", -EINVAL },
		{ "0x10", -EINVAL }, { "1e1", -EINVAL }, { "20.-5", -EINVAL },
		{ "20.+5", -EINVAL }, { "--1", -EINVAL }, { "- 1", -EINVAL },
		{ "20,5", -EINVAL }, { "\n", -EINVAL }, { "1\n2", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		unsigned int percent = UNTOUCHED;
		int ret = steer_headroom_parse(texts[i].text, &percent);

		KUNIT_EXPECT_EQ_MSG(test, ret, texts[i].ret, "\"%s\"", texts[i].text);
		KUNIT_EXPECT_EQ_MSG(test, percent,
				    texts[i].ret ? UNTOUCHED : texts[i].percent,
				    "\"%s\"", texts[i].text);
	}
}

/* Every value can be written as it is read. */
static void parse_all_test(struct kunit *test)
{
	char text[16];

	for (unsigned int value = 0; value <= STEER_HEADROOM_ALL; value++) {
		unsigned int percent = UNTOUCHED;

		snprintf(text, sizeof(text), "%u.%02u", value / 100, value % 100);
		if (steer_headroom_parse(text, &percent) || percent != value)
			KUNIT_FAIL(test, "\"%s\": %u", text, percent);
	}
}

static void part_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_part(1000, 3000), 300);
	KUNIT_EXPECT_EQ(test, steer_headroom_part(0, 3000), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_part(8192ULL * 100 * MS, 10000),
			8192ULL * 100 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_percent(300, 1000), 3000);
	KUNIT_EXPECT_EQ(test, steer_headroom_percent(1001, 1000), 10000);
	KUNIT_EXPECT_EQ(test, steer_headroom_percent(1, 0), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_percent(8192ULL * 50 * MS, 8192ULL * 100 * MS),
			5000);
}

/* Never zero, never more than there is, whatever the machine's size. */
static void floor_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_floor(100 * MS), 2 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_floor(CAPACITY), 16 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_floor(MS), MS);
}

static void budget_test(struct kunit *test)
{
	struct steer_measure m = {
		.capacity = CAPACITY, .idle = 10 * PERCENT, .used = 50 * PERCENT,
		.demand = 3000, .wanting = true, .rivals = 1, .givers = 1,
	};
	s64 trim = 0;

	/* 20 % too little: at once */
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 30 * PERCENT);
	KUNIT_EXPECT_LT(test, trim, 0LL);
	/* 4 % too much: half of it */
	m.idle = 34 * PERCENT;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 52 * PERCENT);
	KUNIT_EXPECT_GT(test, trim, 0LL);
	/* 20 % too much: half of what may be noise, and the rest */
	m.idle = 50 * PERCENT;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 67 * PERCENT + PERCENT / 2);
	KUNIT_EXPECT_GT(test, trim, 0LL);
	/* a quarter, with three that want it */
	m.rivals = 3;
	m.givers = 3;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 55 * PERCENT);
	/* 20 % too little, and three that give: half of it, then all */
	m.idle = 10 * PERCENT;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 40 * PERCENT);
	m.lacking = 1;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 30 * PERCENT);
	m.lacking = 1000000;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 30 * PERCENT);
	m.lacking = 0;
	m.idle = 50 * PERCENT;
	/* nobody wants it: leave to grow, and nothing to be learned */
	m.wanting = false;
	m.rivals = 0;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 70 * PERCENT);
	KUNIT_EXPECT_EQ(test, trim, 0LL);
	/* as it should be: as it was */
	m.idle = 30 * PERCENT;
	m.wanting = true;
	m.rivals = 1;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 50 * PERCENT);
	KUNIT_EXPECT_EQ(test, trim, 0LL);
	/* Nothing is idle: nobody knows how much is lacking. Half of it is left. */
	m.idle = 0;
	m.demand = 1000;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 25 * PERCENT);
	/* the limits */
	m.demand = 10000;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), PERCENT);
	KUNIT_EXPECT_EQ(test, trim, 0LL);
	m.idle = CAPACITY;
	m.demand = 0;
	m.wanting = false;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), CAPACITY);
}

/*
 * A machine: the main load, and pools that want all they can get. What they take
 * in a period is decided by what they took, and saw, in the last one.
 */
#define POOLS_MOST	32

struct machine {
	int pools;
	s64 used[POOLS_MOST];
	s64 trim[POOLS_MOST];
	u64 idle;
	unsigned int lacking;
};

static void machine_start(struct machine *machine, int pools)
{
	memset(machine, 0, sizeof(*machine));
	machine->pools = pools;
	machine->idle = CAPACITY;
}

/* One period. Of what is drawn only @yield percent is used. */
static void machine_step(struct machine *machine, s64 main, unsigned int demand, int yield)
{
	s64 used = 0;

	for (int i = 0; i < machine->pools; i++) {
		struct steer_measure m = {
			.capacity = CAPACITY, .idle = machine->idle,
			.used = machine->used[i], .demand = demand,
			.wanting = true, .lacking = machine->lacking,
			.rivals = steer_headroom_rivals(machine->pools, machine->pools),
			.givers = steer_headroom_rivals(machine->pools, machine->pools),
		};

		machine->used[i] = div_s64(steer_headroom_budget(&m, &machine->trim[i]) *
					   yield, 100);
		used += machine->used[i];
	}
	machine->lacking = machine->idle < steer_headroom_part(CAPACITY, demand) ?
			   machine->lacking + 1 : 0;
	machine->idle = max(CAPACITY - main - used, 0LL);
}

/* By how much idle time misses the demand, in hundredths of a percent */
static int off_demand(u64 idle, unsigned int demand)
{
	return abs((int)steer_headroom_percent(idle, CAPACITY) - (int)demand);
}

/* Steady load: the demand is met, to a tenth of a percent. */
static void steady_test(struct kunit *test)
{
	static const int loads[] = { 0, 10, 35, 60 };

	for (unsigned int demand = 500; demand <= 3500; demand += 500) {
		for (size_t i = 0; i < ARRAY_SIZE(loads); i++) {
			struct machine machine;

			machine_start(&machine, 1);
			for (int n = 0; n < 100; n++)
				machine_step(&machine, loads[i] * PERCENT, demand, 97);
			KUNIT_EXPECT_LE_MSG(test, off_demand(machine.idle, demand), 10,
					    "load %d demand %u", loads[i], demand);
		}
	}
}

/* A step of the main load: the demand is there again after one period. */
static void step_test(struct kunit *test)
{
	struct machine machine;

	machine_start(&machine, 1);
	for (int n = 0; n < 100; n++)
		machine_step(&machine, 20 * PERCENT, 3000, 100);
	machine_step(&machine, 60 * PERCENT, 3000, 100);
	KUNIT_EXPECT_EQ(test, machine.idle, 0);
	/* The step took more than was idle, so that not all of it could be seen. */
	machine_step(&machine, 60 * PERCENT, 3000, 100);
	KUNIT_EXPECT_GE(test, machine.idle, 19 * PERCENT);
	machine_step(&machine, 60 * PERCENT, 3000, 100);
	KUNIT_EXPECT_GE(test, machine.idle, 29 * PERCENT);
	/* And back: most of what came free in the first period in which it is seen. */
	for (int n = 0; n < 100; n++)
		machine_step(&machine, 60 * PERCENT, 3000, 100);
	for (int n = 0; n < 2; n++)
		machine_step(&machine, 20 * PERCENT, 3000, 100);
	KUNIT_EXPECT_GE(test, machine.used[0], 47 * PERCENT);
}

/* A small demand says little about a large step: its lack is not all that is lacking. */
static void exhausted_test(struct kunit *test)
{
	struct machine machine;

	KUNIT_EXPECT_FALSE(test, steer_headroom_exhausted(CAPACITY, 0, 0));
	KUNIT_EXPECT_TRUE(test, steer_headroom_exhausted(CAPACITY, 0, 100));
	KUNIT_EXPECT_TRUE(test, steer_headroom_exhausted(CAPACITY, 4 * PERCENT, 2000));
	KUNIT_EXPECT_FALSE(test, steer_headroom_exhausted(CAPACITY, 5 * PERCENT, 2000));

	machine_start(&machine, 1);
	for (int n = 0; n < 100; n++)
		machine_step(&machine, 10 * PERCENT, 500, 100);
	KUNIT_EXPECT_GE(test, machine.used[0], 84 * PERCENT);
	for (int n = 0; n < 3; n++)
		machine_step(&machine, 80 * PERCENT, 500, 100);
	KUNIT_EXPECT_LE(test, machine.used[0], 22 * PERCENT);
	machine_step(&machine, 80 * PERCENT, 500, 100);
	KUNIT_EXPECT_GE(test, machine.idle, 5 * PERCENT);
}

/* Parts of the budget, of which less is given where it was halved */
static void due_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 0, 20, 0), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 1, 20, 0), MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 20, 20, 0), 20 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 10, 20, 1), 5 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 20, 20, 2), 5 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_due(20 * MS, 1, 20, 1000), 0);
}

/* Halved while hardly anything is idle, and given back step by step when enough is */
static void halvings_test(struct kunit *test)
{
	/* of 80 ms, of which 16 are demanded */
	static const struct {
		unsigned int before, after;
		u64 least, most;
	} cases[] = {
		{ 0, 1, 0, 0 }, { 3, 4, 4 * MS - 1, 4 * MS - 1 }, { 3, 3, 4 * MS, 4 * MS },
		{ 3, 3, 16 * MS - 1, 16 * MS - 1 }, { 3, 2, 16 * MS, 16 * MS },
		{ 0, 0, 80 * MS, 80 * MS },
		/* neither is done for what may be so, only for what is */
		{ 3, 3, 0, 4 * MS }, { 0, 0, 0, 80 * MS }, { 1, 1, 0, 80 * MS },
		{ 3, 3, 16 * MS - 1, 80 * MS }, { 3, 2, 16 * MS, 80 * MS }, { 3, 4, 0, 4 * MS - 1 },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct steer_bounds idle = { cases[i].least, cases[i].most };

		KUNIT_EXPECT_EQ_MSG(test, steer_headroom_halvings(cases[i].before, 80 * MS, idle,
								  2000),
				    cases[i].after, "case %d", i);
	}
	/* Without a demand there is nothing to lack. */
	KUNIT_EXPECT_EQ(test, steer_headroom_halvings(0, 80 * MS, (struct steer_bounds){ }, 0), 0);
}

/* Also where the first and the last are one value, which the compiler knows here. */
static void times_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_times(80 * MS, 10 * MS, 80 * MS), 10 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_times(80 * MS, 10 * MS, 10 * MS), 80 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_times(80 * MS, 10 * MS, 160 * MS), 5 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_times(0, 10 * MS, 80 * MS), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_times(U64_MAX, 3, 6), U64_MAX / 2);
}

/* What is known of a clock that was not read as the window began, and of one that was */
static void idle_within_test(struct kunit *test)
{
	static const struct {
		int idle, since, spell, window, least, most;
	} cases[] = {
		{ 4, 10, 0, 10, 4, 4 }, { 10, 10, 0, 10, 10, 10 }, { 0, 80, 0, 10, 0, 0 },
		/* it may have been idle before, or in the window; it cannot all have been before */
		{ 40, 80, 0, 10, 0, 10 }, { 4, 80, 0, 10, 0, 4 }, { 74, 80, 0, 10, 4, 10 },
		{ 80, 80, 0, 10, 10, 10 },
		/* busy in the last part of the window, in all of it, and for longer */
		{ 40, 80, -4, 10, 0, 6 }, { 40, 80, -10, 10, 0, 0 }, { 40, 80, -30, 10, 0, 0 },
		/* and idle */
		{ 40, 80, 4, 10, 4, 10 }, { 40, 80, 10, 10, 10, 10 }, { 40, 80, 30, 10, 10, 10 },
		{ 74, 80, 2, 10, 4, 10 }, { 4, 10, 4, 10, 4, 4 },
		/* read a moment before the window began */
		{ 6, 11, 0, 10, 5, 6 }, { 6, 11, -5, 10, 5, 5 }, { 6, 11, 6, 10, 6, 6 },
		/* never more than there is, whatever a clock shows */
		{ 11, 10, 0, 10, 10, 10 }, { 90, 80, 0, 10, 10, 10 }, { 4, 0, 0, 0, 0, 0 },
	};
	struct steer_bounds all = { };
	u64 least = 0, most = 0;

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		steer_headroom_idle_within(&all, cases[i].idle * MS, cases[i].since * MS,
					   cases[i].spell * MS, cases[i].window * MS);
		least += cases[i].least * MS;
		most += cases[i].most * MS;
		KUNIT_EXPECT_EQ_MSG(test, all.least, least, "case %d", i);
		KUNIT_EXPECT_EQ_MSG(test, all.most, most, "case %d", i);
	}
}

/* As soon as so much is known to be idle, nothing is exhausted, and less is. */
static void scarce_test(struct kunit *test)
{
	u64 scarce = steer_headroom_scarce(320 * MS, 3000);

	KUNIT_EXPECT_EQ(test, scarce, 24 * MS);
	KUNIT_EXPECT_FALSE(test, steer_headroom_exhausted(320 * MS, scarce, 3000));
	KUNIT_EXPECT_TRUE(test, steer_headroom_exhausted(320 * MS, scarce - 1, 3000));
	KUNIT_EXPECT_EQ(test, steer_headroom_scarce(320 * MS, 0), 0);
}

/* Groups share what is left of a budget as they would have shared all of it. */
static void lowered_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_lowered(6000, 20 * MS, 20 * MS), 6000);
	KUNIT_EXPECT_EQ(test, steer_headroom_lowered(6000, 20 * MS, 30 * MS), 6000);
	KUNIT_EXPECT_EQ(test, steer_headroom_lowered(6000, 20 * MS, 15 * MS), 4500);
	KUNIT_EXPECT_EQ(test, steer_headroom_lowered(6000, 20 * MS, 0), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_lowered(STEER_LEVEL_NONE, 20 * MS, 0),
			STEER_LEVEL_NONE);
}

/* For other CPUs: as much for each. What is no limit stays none. */
static void scaled_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(720 * MS, 16, 16), 720 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(720 * MS, 16, 15), 675 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(720 * MS, 16, 32), 1440 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(720 * MS, 16, 0), 0);
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(720 * MS, 0, 16), 720 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(STEER_LEVEL_NONE, 16, 1), STEER_LEVEL_NONE);
	/* the largest level that there is */
	KUNIT_EXPECT_EQ(test, steer_headroom_scaled(8192ULL * 100 * MS << STEER_LEVEL_SHIFT,
						    8192, 4096),
			4096ULL * 100 * MS << STEER_LEVEL_SHIFT);
}

/* Many pools on the same CPUs neither swing nor take too much together. */
static void rivals_test(struct kunit *test)
{
	for (int pools = 1; pools <= POOLS_MOST; pools *= 2) {
		struct machine machine;

		machine_start(&machine, pools);
		for (int n = 0; n < 400; n++)
			machine_step(&machine, 20 * PERCENT, 3000, 98);
		for (int n = 0; n < 50; n++) {
			machine_step(&machine, 20 * PERCENT, 3000, 98);
			KUNIT_EXPECT_LE_MSG(test, off_demand(machine.idle, 3000), 100,
					    "%d pools", pools);
		}
	}
}

/* How far the mean is off a demand of 30 %, with a main load that is noisy */
static int noise_off(int pools)
{
	struct machine machine;
	struct rnd_state rnd;
	u64 sum = 0;

	prandom_seed_state(&rnd, 20261121);
	machine_start(&machine, pools);
	for (int n = 0; n < 2100; n++) {
		s64 main = 20 * PERCENT + prandom_u32_state(&rnd) % (20 * PERCENT);

		machine_step(&machine, main, 3000, 98);
		if (n >= 100)
			sum += machine.idle;
	}
	return off_demand(div_u64(sum, 2000), 3000);
}

/* A noisy main load: one pool meets the mean within half a percent, eight in two. */
static void noise_test(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, noise_off(1), 50);
	KUNIT_EXPECT_LE(test, noise_off(2), 100);
	KUNIT_EXPECT_LE(test, noise_off(8), 200);
}

/* Caps that are too small for a grant are saved until they are not. */
static void carry_test(struct kunit *test)
{
	s64 least = MS / 2, carried = 0, used = 0;

	KUNIT_EXPECT_EQ(test, steer_headroom_carry(0, least, 0, 1, least), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(MS, S64_MAX, 0, 1, least), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(0, 0, 0, 1000, least), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(0, MS / 10, 0, 2, least), 2 * MS / 10);
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(0, MS / 10, MS, 2, least), 0LL);
	/* no more than a grant, for however long it was away */
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(0, 1, 0, U64_MAX, least), least);
	KUNIT_EXPECT_EQ(test, steer_headroom_carry(least, least - 1, 0, U64_MAX, least), least);

	/* A group that wants all it can get: in the mean, its cap */
	for (int n = 0; n < 1000; n++) {
		s64 cap = 3 * MS / 10, last = 0;

		if (carried + cap >= least)
			last = carried + cap;
		used += last;
		carried = steer_headroom_carry(carried, cap, last, 1, least);
	}
	KUNIT_EXPECT_GE(test, used, 299 * MS);
	KUNIT_EXPECT_LE(test, used, 300 * MS);
}

/* What was had beyond the cap is given back, in the next period only. */
static void debt_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(0, 4 * MS, 3 * MS, 1, 4 * MS), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(0, 4 * MS, 5 * MS, 1, 4 * MS), (s64)MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, 4 * MS, 4 * MS, 1, 4 * MS), (s64)MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, 4 * MS, 3 * MS, 1, 4 * MS), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, 4 * MS, 100 * MS, 1, 4 * MS), (s64)(4 * MS));
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, 4 * MS, 100 * MS, 2, 4 * MS), 0LL);
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, S64_MAX, 100 * MS, 1, 4 * MS), 0LL);
	/* a cap that fell after that, and one that is smaller now */
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(0, MS, 4 * MS, 1, 4 * MS), (s64)(3 * MS));
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(0, MS, 4 * MS, 1, 2 * MS), (s64)(2 * MS));
	/* what came back may be more than what was given */
	KUNIT_EXPECT_EQ(test, steer_headroom_debt(MS, 0, -(s64)MS, 1, 4 * MS), 0LL);
}

/* Four slices of real time, whatever those on the queue weigh. */
static void can_wait_test(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, steer_headroom_can_wait(0, 3 * MS, 2048));
	KUNIT_EXPECT_TRUE(test, steer_headroom_can_wait(6 * MS, 3 * MS, 2048));
	KUNIT_EXPECT_FALSE(test, steer_headroom_can_wait(6 * MS + 1, 3 * MS, 2048));
	KUNIT_EXPECT_TRUE(test, steer_headroom_can_wait(60 * MS, 3 * MS, 204));
	KUNIT_EXPECT_FALSE(test, steer_headroom_can_wait(61 * MS, 3 * MS, 204));
	/* two of SCHED_IDLE, and of the greatest weight */
	KUNIT_EXPECT_TRUE(test, steer_headroom_can_wait(2047 * MS, 3 * MS, 6));
	KUNIT_EXPECT_FALSE(test, steer_headroom_can_wait(2049 * MS, 3 * MS, 6));
	KUNIT_EXPECT_FALSE(test, steer_headroom_can_wait(MS, 3 * MS, 204800));
	KUNIT_EXPECT_TRUE(test, steer_headroom_can_wait(-(s64)(1000 * MS), 3 * MS, 204800));
}

/* For as long as a task may be on its way, by clocks that differ a little. */
static void claims_test(struct kunit *test)
{
	u64 now = 1000000 * MS;

	KUNIT_EXPECT_TRUE(test, steer_headroom_claims(now, now));
	KUNIT_EXPECT_TRUE(test, steer_headroom_claims(now, now - STEER_CLAIM));
	KUNIT_EXPECT_FALSE(test, steer_headroom_claims(now, now - STEER_CLAIM - 1));
	KUNIT_EXPECT_TRUE(test, steer_headroom_claims(now, now + STEER_CLAIM));
	KUNIT_EXPECT_FALSE(test, steer_headroom_claims(now, now + STEER_CLAIM + 1));
	/* never, even while a clock is still young */
	KUNIT_EXPECT_FALSE(test, steer_headroom_claims(now, 0));
	KUNIT_EXPECT_FALSE(test, steer_headroom_claims(STEER_CLAIM / 2, 0));
}

/* With how many a pool shares: all of its arena, some of the others. */
static void strangers_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(0, 0), 1U);
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(1, 1), 1U);
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(32, 32), 32U);
	/* of its arena, but on other CPUs */
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(32, 1), 1U);
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(1, 5), 5U);
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(1, 10000), 9U);
	KUNIT_EXPECT_EQ(test, steer_headroom_rivals(0, 10000), 8U);
}

/*
 * Somebody else is active on the same CPUs and never gives way: after three
 * periods the demand is met all the same.
 */
static void alone_test(struct kunit *test)
{
	struct steer_measure m = {
		.capacity = CAPACITY, .used = 50 * PERCENT, .demand = 3000,
		.wanting = true, .rivals = 9, .givers = 9,
	};
	s64 trim = 0;

	for (; m.lacking < 3; m.lacking++) {
		m.idle = 60 * PERCENT - m.used;
		m.used = steer_headroom_budget(&m, &trim);
	}
	KUNIT_EXPECT_LE(test, m.used, 31 * PERCENT);
	KUNIT_EXPECT_GE(test, m.used, 28 * PERCENT);

	/* If they are all further down, it is met after one. */
	m.givers = 1;
	m.lacking = 0;
	m.used = 50 * PERCENT;
	m.idle = 10 * PERCENT;
	trim = 0;
	KUNIT_EXPECT_EQ(test, steer_headroom_budget(&m, &trim), 30 * PERCENT);
}

/* Groups that want a part of the CPUs each; the level decides what they get. */
#define GROUPS_MOST	4

/* One period, in which the first ones ask first. Returns the level for a next one of @budget. */
static u64 share_once(const u64 *want, const u64 *weight, int nr, u64 level, u64 tokens,
		      u64 budget, u64 *got)
{
	struct steer_shares s = { };

	for (int i = 0; i < nr; i++) {
		u64 cap = steer_headroom_cap(level, weight[i]);

		got[i] = min3(want[i], cap, tokens);
		tokens -= got[i];
		s.used += got[i];
		s.active_weight += weight[i];
		if (want[i] <= got[i])
			continue;
		if (got[i] < cap) {
			s.starved = true;
			continue;
		}
		s.capped_weight += weight[i];
		s.capped_used += got[i];
	}
	return steer_headroom_level(budget, &s);
}

static void share(const u64 *want, const u64 *weight, int nr, u64 budget, u64 *got)
{
	u64 level = STEER_LEVEL_NONE;

	for (int n = 0; n < 8; n++)
		level = share_once(want, weight, nr, level, budget + budget / 16, budget, got);
}

static void share_test(struct kunit *test)
{
	static const u64 weight[] = { 1024, 2048, 4096, 8192 };
	static const struct {
		u64 want[GROUPS_MOST];
		u64 got[GROUPS_MOST];
	} cases[] = {
		/* all want everything: by weight */
		{ { 750, 750, 750, 750 }, { 50, 100, 200, 400 } },
		/* what one leaves goes to the others by weight */
		{ { 750, 750, 750, 50 }, { 100, 200, 400, 50 } },
		{ { 10, 750, 20, 750 }, { 10, 144, 20, 576 } },
		{ { 750, 0, 0, 0 }, { 750, 0, 0, 0 } },
		/* there is enough for all */
		{ { 100, 100, 200, 300 }, { 100, 100, 200, 300 } },
	};

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		u64 want[GROUPS_MOST], got[GROUPS_MOST];

		for (int i = 0; i < GROUPS_MOST; i++)
			want[i] = cases[c].want[i] * MS;
		share(want, weight, GROUPS_MOST, 750 * MS, got);
		for (int i = 0; i < GROUPS_MOST; i++)
			KUNIT_EXPECT_LE_MSG(test, abs((s64)got[i] - (s64)cases[c].got[i] * MS),
					    MS, "case %zu group %d: %llu", c, i, got[i]);
	}
}

/* As a budget goes up and down, and some of it is lost, who comes last has its part as well. */
static void share_uneven_test(struct kunit *test)
{
	static const u64 weight[] = { 1024, 2048, 4096, 8192 };
	static const u64 want[] = { 750 * MS, 750 * MS, 750 * MS, 750 * MS };

	for (unsigned int lost = 0; lost <= 6; lost += 2) {
		u64 level = STEER_LEVEL_NONE, got[GROUPS_MOST], sum[GROUPS_MOST] = { };
		u64 budget = 300 * MS, all = 0;

		for (int n = 0; n < 100; n++) {
			u64 next = (270 + n * 37 % 61) * MS;
			u64 tokens = budget - budget / 100 * lost;

			level = share_once(want, weight, GROUPS_MOST, level, tokens, next, got);
			budget = next;
			for (int i = 0; n >= 10 && i < GROUPS_MOST; i++) {
				sum[i] += got[i];
				all += got[i];
			}
		}
		for (int i = 0; i < GROUPS_MOST; i++) {
			u64 due = div_u64(all * weight[i], 15 * 1024);

			KUNIT_EXPECT_LE_MSG(test, abs_diff(sum[i], due), due * (lost + 1) / 100,
					    "group %d, %u %% lost", i, lost);
		}
	}
}

/* Of what somebody leaves, others have nearly all, even if it is short of it now and then. */
static void share_modest_test(struct kunit *test)
{
	u64 budget = 300 * MS, level;
	struct steer_shares s = { .used = 300 * MS, .capped_used = 180 * MS,
				  .active_weight = 15 * 1024, .capped_weight = 7 * 1024 };

	level = steer_headroom_level(budget, &s);
	KUNIT_EXPECT_LE(test, abs(steer_headroom_cap(level, 7 * 1024) - 180 * MS), MS);
	s.starved = true;
	level = steer_headroom_level(budget, &s);
	KUNIT_EXPECT_LE(test, abs(steer_headroom_cap(level, 7 * 1024) - 1725 * MS / 10), MS);
}

/* No overflow at the ends: 8192 CPUs, one unit of weight; many heavy groups. */
static void level_limits_test(struct kunit *test)
{
	u64 budget = 8192ULL * 100 * MS, level;
	struct steer_shares s = { .active_weight = 1, .capped_weight = 1, .capped_used = 1,
				  .used = 1 };

	level = steer_headroom_level(budget, &s);
	KUNIT_EXPECT_EQ(test, steer_headroom_cap(level, 1), (s64)budget);
	KUNIT_EXPECT_GT(test, steer_headroom_cap(level, 10000 * 1024), (s64)budget);
	s.active_weight = 100000ULL * 102400;
	s.capped_weight = s.active_weight;
	level = steer_headroom_level(2 * MS, &s);
	KUNIT_EXPECT_LE(test, steer_headroom_cap(level, 102400), 2 * MS);
	KUNIT_EXPECT_EQ(test, steer_headroom_cap(STEER_LEVEL_NONE, 1), S64_MAX);
	memset(&s, 0, sizeof(s));
	KUNIT_EXPECT_EQ(test, steer_headroom_level(budget, &s), STEER_LEVEL_NONE);
	/* More came back than was taken: no reason to divide by anything. */
	s.used = -5;
	s.starved = true;
	KUNIT_EXPECT_EQ(test, steer_headroom_level(budget, &s), STEER_LEVEL_NONE);
	/* Even if it was by those that had reached their cap. */
	s = (struct steer_shares){ .used = 1, .capped_used = -(s64)budget, .active_weight = 1024,
				   .capped_weight = 1024, .starved = true };
	level = steer_headroom_level(budget, &s);
	KUNIT_EXPECT_LE(test, steer_headroom_cap(level, 1024), (s64)budget);
}

/* CPUs count on and on, and a period is what came to that, from whichever of them. */
static void tally_test(struct kunit *test)
{
	struct steer_tally cpu[2] = { }, sum, then = { };
	struct steer_shares s;

	for (unsigned int period = 0; period < 3; period++) {
		cpu[0].used += 7;
		cpu[1].used += 5;
		/* What one CPU gave out may come back on another. */
		cpu[0].used -= 10;
		cpu[1].capped_used += 3;
		cpu[1].capped_weight += 1024;
		cpu[0].active_weight += 2048;
		cpu[1].active_weight += 1024;
		cpu[0].starved += period;
		sum = (struct steer_tally){ };
		steer_tally_add(&sum, &cpu[0]);
		steer_tally_add(&sum, &cpu[1]);
		s = steer_tally_since(&sum, &then);
		then = sum;
		KUNIT_EXPECT_EQ(test, s.used, 2);
		KUNIT_EXPECT_EQ(test, s.capped_used, 3);
		KUNIT_EXPECT_EQ(test, s.capped_weight, 1024);
		KUNIT_EXPECT_EQ(test, s.active_weight, 3072);
		KUNIT_EXPECT_EQ(test, s.starved, period > 0);
	}
	s = steer_tally_since(&sum, &then);
	KUNIT_EXPECT_MEMEQ(test, &s, &(struct steer_shares){ }, sizeof(s));
}

/* All timers of a CPU together take a limited part of its time, however many they are. */
static void timers_test(struct kunit *test)
{
	unsigned int timers, most = 0;

	for (timers = 0; timers < 1000000; timers += 1 + timers / 16) {
		unsigned int paced = 0;

		while (paced < timers && steer_headroom_paces(paced))
			paced++;
		most = max(most, paced * 20 + (timers - paced) / steer_headroom_periods(timers));
	}
	/* Times some microseconds, of 100 ms. */
	KUNIT_EXPECT_LE(test, most, 64 * 20 + 1024);
	KUNIT_EXPECT_TRUE(test, steer_headroom_paces(63));
	KUNIT_EXPECT_FALSE(test, steer_headroom_paces(64));
	KUNIT_EXPECT_EQ(test, steer_headroom_periods(0), 1);
	KUNIT_EXPECT_EQ(test, steer_headroom_periods(1024), 1);
	KUNIT_EXPECT_EQ(test, steer_headroom_periods(1025), 2);
}

static struct kunit_case steer_headroom_cases[] = {
	KUNIT_CASE(parse_test),
	KUNIT_CASE(parse_all_test),
	KUNIT_CASE(part_test),
	KUNIT_CASE(floor_test),
	KUNIT_CASE(budget_test),
	KUNIT_CASE(steady_test),
	KUNIT_CASE(step_test),
	KUNIT_CASE(exhausted_test),
	KUNIT_CASE(due_test),
	KUNIT_CASE(halvings_test),
	KUNIT_CASE(times_test),
	KUNIT_CASE(idle_within_test),
	KUNIT_CASE(scarce_test),
	KUNIT_CASE(lowered_test),
	KUNIT_CASE(scaled_test),
	KUNIT_CASE(rivals_test),
	KUNIT_CASE(noise_test),
	KUNIT_CASE(strangers_test),
	KUNIT_CASE(carry_test),
	KUNIT_CASE(debt_test),
	KUNIT_CASE(can_wait_test),
	KUNIT_CASE(claims_test),
	KUNIT_CASE(alone_test),
	KUNIT_CASE(share_test),
	KUNIT_CASE(share_uneven_test),
	KUNIT_CASE(share_modest_test),
	KUNIT_CASE(level_limits_test),
	KUNIT_CASE(tally_test),
	KUNIT_CASE(timers_test),
	{ }
};

static struct kunit_suite steer_headroom_suite = {
	.name = "steer_headroom",
	.test_cases = steer_headroom_cases,
};

kunit_test_suite(steer_headroom_suite);

MODULE_DESCRIPTION("KUnit tests for the arithmetic of cpu.headroom");
MODULE_LICENSE("GPL");
