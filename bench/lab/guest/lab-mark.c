// SPDX-License-Identifier: GPL-2.0-only
/*
 * Talk to the lab from within the machine (bench/lab/plugin/plugin.c):
 *
 *   lab-mark on     switch the cache model on
 *   lab-mark off    switch it off
 *   lab-mark count  have a line written to the file of counts
 *
 * On a machine that is not the lab's, nothing happens.
 */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

#ifdef __aarch64__
	if (!strcmp(what, "on")) {
		__asm__ volatile("hint #0x68" ::: "memory");
		return 0;
	}
	if (!strcmp(what, "off")) {
		__asm__ volatile("hint #0x69" ::: "memory");
		return 0;
	}
	if (!strcmp(what, "count")) {
		__asm__ volatile("hint #0x6a" ::: "memory");
		return 0;
	}
#else
	if (!strcmp(what, "on") || !strcmp(what, "off") || !strcmp(what, "count"))
		return 0;
#endif
	fprintf(stderr, "lab-mark: '%s' is not on, off or count\n", what);
	return 2;
}
