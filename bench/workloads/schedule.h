/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When requests of an open load arrive: at random, the same each time with the
 * same seed.
 */
#ifndef WORKLOADS_SCHEDULE_H
#define WORKLOADS_SCHEDULE_H

#include "options.h"

/* An arrival that never comes */
#define NO_MORE		UINT64_MAX

/* Steele, Lea and Flood's SplitMix64 */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t value = *state += 0x9e3779b97f4a7c15ULL;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
	return value ^ (value >> 31);
}

/* The natural logarithm of 0 < @x <= 1, by its series: all that libm is wanted for */
static inline double logarithm(double x)
{
	double sum = 0, term, y;
	int halvings = 0;

	for (; x < 0.5; x *= 2)
		halvings++;
	y = (x - 1) / (x + 1);
	term = y;
	for (int i = 1; i < 24; i += 2, term *= y * y)
		sum += term / i;
	return 2 * sum - halvings * 0.6931471805599453;
}

/* The time to the next arrival at so many a second, in ns: exponential gaps */
static inline double random_gap(uint64_t *state, double rate)
{
	double gap = -logarithm(((next_random(state) >> 11) + 1) * 0x1p-53);

	return gap / rate * NSEC_PER_SEC;
}

#endif /* WORKLOADS_SCHEDULE_H */
