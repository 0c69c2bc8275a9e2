// SPDX-License-Identifier: GPL-2.0-only
/*
 * How fast the host's time stamp counter counts, in kHz, on standard output. QEMU's
 * emulated one is the same.
 *
 * A kernel finds out by itself, but on an emulated machine with a busy host it can be
 * wrong by a factor of ten: what it compares the counter with, the PIT, stands still
 * whenever the host has something else to do.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES	1000
#define WAIT_NS	200000000

struct reading {
	uint64_t tsc;
	uint64_t ns;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Both at once: of many readings that between which least time passed */
static struct reading both(void)
{
	struct reading best = { 0, 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), ns = clock_ns(), after = __rdtsc();

		if (after - before < least) {
			least = after - before;
			best = (struct reading){ before + least / 2, ns };
		}
	}
	return best;
}

int main(void)
{
	struct timespec wait = { 0, WAIT_NS };
	struct reading begin = both(), end;

	nanosleep(&wait, NULL);
	end = both();
	/* Cycles per millisecond are kHz. */
	printf("%.0f\n", (end.tsc - begin.tsc) * 1e6 / (end.ns - begin.ns));
	return 0;
}
