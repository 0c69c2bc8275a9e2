/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the benchmarks share: the clock, how they end on an error, and options.
 *
 * A program describes its options in a table. From it they are parsed, checked
 * against their ranges, and explained by --help, so that the three agree.
 */
#ifndef WORKLOADS_OPTIONS_H
#define WORKLOADS_OPTIONS_H

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define NSEC_PER_SEC	1000000000ULL

/* What options expect */
#define A_NUMBER	"a whole number"
#define SECONDS		"a decimal number of seconds"

/* Exit statuses besides 0 */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/**
 * struct option_spec - one option; which of the four pointers is set says its kind
 * @letter:	short name, or 0
 * @name:	long name
 * @unit:	what its value is, for a message: "a number of threads"
 * @help:	what it does
 * @min:	least value
 * @max:	greatest value
 * @flag:	set by the option, which has no value
 * @count:	gets a whole number; has the default, or 0 below @min for none
 * @seconds:	gets a decimal number; likewise
 * @text:	gets the value as it is
 * @given:	set if the option is there, may be NULL
 */
struct option_spec {
	char letter;
	const char *name;
	const char *unit;
	const char *help;
	double min;
	double max;
	bool *flag;
	unsigned long *count;
	double *seconds;
	const char **text;
	bool *given;
};

/**
 * struct program - a benchmark, as its options see it
 * @name:	begins each message
 * @summary:	what --help says first
 * @specs:	the options, without --help
 * @nr_specs:	their number
 */
struct program {
	const char *name;
	const char *summary;
	const struct option_spec *specs;
	size_t nr_specs;
};

/* Most options that a program can have, with --help */
#define MAX_SPECS	32

/* getopt_long() returns this plus the index, as not each option has a letter. */
#define LONG_OPTION	256

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

__attribute__((noreturn, format(printf, 3, 4)))
static inline void die(const struct program *program, int status, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", program->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(status);
}

/* A result that could not be written is none. */
static inline void finish_output(const struct program *program)
{
	if (fflush(stdout) || ferror(stdout))
		die(program, EXIT_FAILED, "writing the result: %s", strerror(errno));
}

static inline void show_help(const struct program *program)
{
	printf("usage: %s [option]...\n%s\n\n", program->name, program->summary);
	for (size_t i = 0; i < program->nr_specs; i++) {
		const struct option_spec *spec = &program->specs[i];

		if (spec->letter)
			printf("  -%c, --%s\n", spec->letter, spec->name);
		else
			printf("      --%s\n", spec->name);
		printf("        %s", spec->help);
		if (spec->text)
			printf(": %s", spec->unit);
		else if (!spec->flag)
			printf(": %s from %.15g to %.15g", spec->unit, spec->min, spec->max);
		if (spec->count && *spec->count >= spec->min)
			printf(" (default %lu)", *spec->count);
		else if (spec->seconds && *spec->seconds >= spec->min)
			printf(" (default %g)", *spec->seconds);
		printf("\n");
	}
	printf("      --help\n        print this, and end\n");
}

/* "-r, --runtime", to be followed by what is wrong with its value */
__attribute__((noreturn))
static inline void refuse_value(const struct program *program, const struct option_spec *spec,
				const char *wrong)
{
	char letter[] = "-x, ";

	letter[1] = spec->letter;
	if (spec->text)
		die(program, EXIT_USAGE, "--%s: %s; give %s", spec->name, wrong, spec->unit);
	die(program, EXIT_USAGE, "%s--%s: %s; give %s from %.15g to %.15g",
	    spec->letter ? letter : "", spec->name, wrong, spec->unit, spec->min, spec->max);
}

/* Digits only, or with one point: strtod() also takes signs, spaces, hex and "inf". */
static inline bool parse_number(const char *text, bool decimal, double *value)
{
	size_t digits = strspn(text, "0123456789"), length = strlen(text);

	if (decimal && text[digits] == '.')
		digits += 1 + strspn(text + digits + 1, "0123456789");
	if (digits != length || !strpbrk(text, "0123456789"))
		return false;
	*value = strtod(text, NULL);
	return true;
}

static inline void set_option(const struct program *program, const struct option_spec *spec,
			      const char *text)
{
	double value;

	if (spec->given)
		*spec->given = true;
	if (spec->flag) {
		*spec->flag = true;
		return;
	}
	if (spec->text) {
		*spec->text = text;
		return;
	}
	if (!parse_number(text, spec->seconds, &value) ||
	    !(value >= spec->min && value <= spec->max)) {
		char wrong[128];

		snprintf(wrong, sizeof(wrong), "'%.80s' is not accepted", text);
		refuse_value(program, spec, wrong);
	}
	if (spec->seconds)
		*spec->seconds = value;
	else
		*spec->count = value;
}

/* The option that getopt_long() means by @found, or NULL */
static inline const struct option_spec *find_option(const struct program *program, int found)
{
	for (size_t i = 0; i < program->nr_specs; i++)
		if (found == LONG_OPTION + (int)i || found == program->specs[i].letter)
			return &program->specs[i];
	return NULL;
}

__attribute__((noreturn))
static inline void refuse_option(const struct program *program, int found, const char *word)
{
	const struct option_spec *spec = optopt ? find_option(program, optopt) : NULL;

	if (found == ':' && spec)
		refuse_value(program, spec, "the value is missing");
	if (optopt >= LONG_OPTION)
		die(program, EXIT_USAGE, "'%s': this option takes no value", word);
	if (optopt)
		die(program, EXIT_USAGE, "unknown option '-%c'; --help lists all", optopt);
	die(program, EXIT_USAGE, "unknown or ambiguous option '%s'; --help lists all", word);
}

/* Ends the program on what it does not accept, and after --help. */
static inline void parse_options(const struct program *program, int argc, char **argv)
{
	struct option long_options[MAX_SPECS + 1] = { 0 };
	char letters[2 * MAX_SPECS + 2] = ":", *letter = letters + 1;
	size_t nr = program->nr_specs;
	int found;

	for (size_t i = 0; i < nr; i++) {
		const struct option_spec *spec = &program->specs[i];

		long_options[i].name = spec->name;
		long_options[i].has_arg = spec->flag ? no_argument : required_argument;
		long_options[i].val = LONG_OPTION + i;
		if (!spec->letter)
			continue;
		*letter++ = spec->letter;
		if (!spec->flag)
			*letter++ = ':';
	}
	long_options[nr].name = "help";
	long_options[nr].val = LONG_OPTION + nr;

	opterr = 0;
	while ((found = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		const struct option_spec *spec;

		if (found == '?' || found == ':')
			refuse_option(program, found, argv[optind - 1]);
		spec = find_option(program, found);
		if (!spec) {
			show_help(program);
			finish_output(program);
			exit(EXIT_SUCCESS);
		}
		set_option(program, spec, optarg);
	}
	if (optind < argc)
		die(program, EXIT_USAGE, "unexpected argument '%s'; --help lists the options",
		    argv[optind]);
}

#endif /* WORKLOADS_OPTIONS_H */
