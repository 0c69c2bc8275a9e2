// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpu.hint and cpu.hint.effective: what can be written, what is read back, what
 * is refused, and what that means for the groups below.
 */
#include "../kselftest_harness.h"
#include "steer_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define HINT		"cpu.hint"
#define EFFECTIVE	"cpu.hint.effective"

/* The words, in canonical order; category is their position in a line. */
enum { FORK, WAKE, REACH, SCAN, SLICE, PREEMPT, PACK, POWER, NR_CATEGORIES };

static const char * const words[NR_CATEGORIES][3] = {
	[FORK]	  = { NULL, "fork_affine", "fork_spread" },
	[WAKE]	  = { NULL, "wake_affine", "wake_hold" },
	[REACH]	  = { NULL, "wake_wide" },
	[SCAN]	  = { NULL, "scan_full", "scan_none" },
	[SLICE]	  = { NULL, "slice_short", "slice_long" },
	[PREEMPT] = { NULL, "preempt_none" },
	[PACK]	  = { NULL, "pack" },
	[POWER]	  = { NULL, "energy" },
};

static const struct {
	const char *name;
	const char *effective;
	int word[NR_CATEGORIES];
} profiles[] = {
	{ "tail_latency", "wake_wide scan_full",
	  { [REACH] = 1, [SCAN] = 1 } },
	{ "interactive", "scan_full slice_short",
	  { [SCAN] = 1, [SLICE] = 1 } },
	{ "noninteractive", "scan_none slice_long pack",
	  { [SCAN] = 2, [SLICE] = 2, [PACK] = 1 } },
	{ "background", "scan_none slice_long preempt_none pack",
	  { [SCAN] = 2, [SLICE] = 2, [PREEMPT] = 1, [PACK] = 1 } },
	{ "efficient", "pack energy:unavailable",
	  { [PACK] = 1, [POWER] = 1 } },
};

static int nr_words(int category)
{
	int nr = 1;

	while (nr < 3 && words[category][nr])
		nr++;
	return nr;
}

static void append(char *line, const char *word)
{
	if (line[0])
		strcat(line, " ");
	strcat(line, word);
}

static long hint_users(void)
{
	return file_key(STEER_DEBUG, "hint_users");
}

static long hint_key(void)
{
	return file_key(STEER_DEBUG, "hint_key");
}

FIXTURE(interface) {
	char *top;
	char *cg;
	bool energy;
};

FIXTURE_SETUP(interface)
{
	REQUIRE_HINT();
	self->top = cg_top("steer_interface");
	ASSERT_NE(NULL, self->top);
	self->cg = cg_new(self->top, "group");
	ASSERT_NE(NULL, self->cg);
	ASSERT_EQ(0, cg_write(self->cg, HINT, "energy"));
	self->energy = cg_is(self->cg, EFFECTIVE, "energy");
	ASSERT_EQ(0, cg_write(self->cg, HINT, "inherit"));
}

FIXTURE_TEARDOWN(interface)
{
	EXPECT_EQ(0, cg_destroy(self->top));
}

/* Effective word, as the file shows it on this machine */
static const char *shown(bool energy, const char *word)
{
	if (!strcmp(word, "energy") && !energy)
		return "energy:unavailable";
	return word;
}

/* A new group inherits, and has no words if nobody above it has. */
TEST_F(interface, default_is_inherit)
{
	EXPECT_TRUE(cg_is(self->cg, HINT, "inherit"));
	EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, "none"));
}

/* The root group has neither file. */
TEST_F(interface, not_on_root)
{
	EXPECT_NE(0, access(CG_ROOT "/" HINT, F_OK));
	EXPECT_NE(0, access(CG_ROOT "/" EFFECTIVE, F_OK));
}

/* cpu.hint is writable by its owner, cpu.hint.effective by nobody. */
TEST_F(interface, modes)
{
	struct stat st;
	char *path = cg_name(self->cg, HINT);

	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0644U, st.st_mode & 07777);
	free(path);
	path = cg_name(self->cg, EFFECTIVE);
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0444U, st.st_mode & 07777);
	free(path);
	EXPECT_GT(0, cg_write(self->cg, EFFECTIVE, "pack"));
}

/* What is read is one line. */
TEST_F(interface, one_line)
{
	char *path = cg_name(self->cg, HINT), buf[256];

	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack wake_hold"));
	ASSERT_LT(0, file_read(path, buf, sizeof(buf)));
	EXPECT_STREQ("wake_hold pack\n", buf);
	free(path);
}

/* Every word is accepted, read back, effective, and gone after "none". */
TEST_F(interface, every_word)
{
	for (int c = 0; c < NR_CATEGORIES; c++) {
		for (int w = 1; w < nr_words(c); w++) {
			const char *word = words[c][w];

			EXPECT_EQ(0, cg_write(self->cg, HINT, word))
				TH_LOG("%s", word);
			EXPECT_TRUE(cg_is(self->cg, HINT, word))
				TH_LOG("%s", word);
			EXPECT_TRUE(cg_is(self->cg, EFFECTIVE,
					  shown(self->energy, word)))
				TH_LOG("%s", word);
			EXPECT_EQ(0, cg_write(self->cg, HINT, "none"));
			EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, "none"));
		}
	}
}

/* Every profile reads back as its name, and stands for its documented words. */
TEST_F(interface, every_profile)
{
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		EXPECT_EQ(0, cg_write(self->cg, HINT, profiles[i].name));
		EXPECT_TRUE(cg_is(self->cg, HINT, profiles[i].name))
			TH_LOG("%s", profiles[i].name);
		if (self->energy && strstr(profiles[i].effective, "energy"))
			continue;
		EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, profiles[i].effective))
			TH_LOG("%s", profiles[i].name);
	}
}

/* "energy" is accepted on machines that cannot honour it, and says so. */
TEST_F(interface, energy_unavailable)
{
	if (self->energy)
		SKIP(return, "this machine has an energy model");
	ASSERT_EQ(0, cg_write(self->cg, HINT, "energy wake_hold"));
	EXPECT_TRUE(cg_is(self->cg, HINT, "wake_hold energy"));
	EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, "wake_hold energy:unavailable"));
}

/* The order of the words and the kind and number of blanks do not matter. */
TEST_F(interface, canonical_form)
{
	static const struct { const char *in, *out; } lines[] = {
		{ "pack wake_affine", "wake_affine pack" },
		{ "slice_long scan_none wake_wide wake_hold fork_spread",
		  "fork_spread wake_hold wake_wide scan_none slice_long" },
		{ "  pack\t\tfork_affine \n", "fork_affine pack" },
		{ "pack\nscan_full\n\n", "scan_full pack" },
		{ "\n none \n", "none" },
		{ "\tinherit\n", "inherit" },
		{ " interactive\twake_hold\n", "interactive wake_hold" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		EXPECT_EQ(0, cg_write(self->cg, HINT, lines[i].in))
			TH_LOG("'%s'", lines[i].in);
		EXPECT_TRUE(cg_is(self->cg, HINT, lines[i].out))
			TH_LOG("'%s'", lines[i].in);
	}
}

/* A word after a profile takes the place of the profile's of that category. */
TEST_F(interface, refine)
{
	static const struct { const char *in, *out, *effective; } lines[] = {
		{ "interactive wake_hold", "interactive wake_hold",
		  "wake_hold scan_full slice_short" },
		{ "interactive slice_long", "interactive slice_long",
		  "scan_full slice_long" },
		{ "tail_latency scan_none fork_spread",
		  "tail_latency fork_spread scan_none",
		  "fork_spread wake_wide scan_none" },
		/* what the profile says anyway is not repeated */
		{ "interactive scan_full", "interactive", "scan_full slice_short" },
		{ "background pack preempt_none wake_wide",
		  "background wake_wide",
		  "wake_wide scan_none slice_long preempt_none pack" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		EXPECT_EQ(0, cg_write(self->cg, HINT, lines[i].in));
		EXPECT_TRUE(cg_is(self->cg, HINT, lines[i].out))
			TH_LOG("%s", lines[i].in);
		EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, lines[i].effective))
			TH_LOG("%s", lines[i].in);
	}
}

/*
 * Combinations of a profile and words from all categories: read back in
 * canonical form, with the right effective words, and what is read can be
 * written back. Every fifth of all 7776; the KUnit tests do them all.
 */
TEST_F_TIMEOUT(interface, generated, 240)
{
	char *other = cg_new(self->top, "other");
	int pick[NR_CATEGORIES] = { 0 };
	int nr = 0, c;

	ASSERT_NE(NULL, other);
	/* keeps the key on, so that each write does not patch the kernel */
	ASSERT_EQ(0, cg_write(other, HINT, "pack"));

	do {
		for (int p = -1; p < (int)ARRAY_SIZE(profiles); p++) {
			char in[512] = "", out[512] = "", effective[512] = "";

			if (nr++ % 5)
				continue;

			/* words in reverse order: the kernel sorts them */
			if (p >= 0)
				append(in, profiles[p].name);
			for (c = NR_CATEGORIES - 1; c >= 0; c--)
				if (pick[c])
					append(in, words[c][pick[c]]);
			if (!in[0])
				append(in, "none");

			if (p >= 0)
				append(out, profiles[p].name);
			for (c = 0; c < NR_CATEGORIES; c++) {
				int base = p >= 0 ? profiles[p].word[c] : 0;
				int w = pick[c] ?: base;

				if (pick[c] && pick[c] != base)
					append(out, words[c][w]);
				if (w)
					append(effective, shown(self->energy,
								words[c][w]));
			}
			if (!out[0])
				append(out, "none");
			if (!effective[0])
				append(effective, "none");

			ASSERT_EQ(0, cg_write(self->cg, HINT, in))
				TH_LOG("'%s'", in);
			ASSERT_TRUE(cg_is(self->cg, HINT, out))
				TH_LOG("'%s' should read '%s'", in, out);
			ASSERT_TRUE(cg_is(self->cg, EFFECTIVE, effective))
				TH_LOG("'%s' should mean '%s'", in, effective);
			ASSERT_EQ(0, cg_write(other, HINT, out))
				TH_LOG("'%s'", out);
			ASSERT_TRUE(cg_is(other, HINT, out))
				TH_LOG("'%s'", out);
			ASSERT_TRUE(cg_is(other, EFFECTIVE, effective))
				TH_LOG("'%s'", out);
		}
		for (c = 0; c < NR_CATEGORIES; c++) {
			pick[c] = (pick[c] + 1) % nr_words(c);
			if (pick[c])
				break;
		}
	} while (c < NR_CATEGORIES);

	EXPECT_EQ(1296 * 6, nr);
	free(other);
}

/* +word and -word edit what is there. */
TEST_F(interface, edits)
{
	static const struct { const char *from, *edit, *out; } lines[] = {
		{ "wake_hold", "+pack", "wake_hold pack" },
		{ "wake_hold pack", "-pack", "wake_hold" },
		{ "wake_hold", "-wake_hold", "none" },
		{ "none", "+scan_full +wake_wide", "wake_wide scan_full" },
		{ "none", "-pack", "none" },
		{ "pack", "+pack", "pack" },
		{ "pack", "-wake_hold", "pack" },
		{ "pack", "+wake_hold\t-pack\n", "wake_hold" },
		/* conflicts are judged on the result, in either order */
		{ "wake_affine", "-wake_affine +wake_hold", "wake_hold" },
		{ "wake_affine", "+wake_hold -wake_affine", "wake_hold" },
		/* profiles */
		{ "interactive", "+wake_hold", "interactive wake_hold" },
		{ "interactive", "+scan_full", "interactive" },
		{ "interactive", "+scan_none", "interactive scan_none" },
		{ "interactive scan_none", "-scan_none", "interactive" },
		{ "interactive wake_hold", "-wake_hold", "interactive" },
		{ "interactive", "-scan_full", "slice_short" },
		{ "interactive wake_hold", "-slice_short", "wake_hold scan_full" },
		{ "interactive", "-pack", "interactive" },
		{ "tail_latency", "-scan_full -wake_wide", "none" },
		{ "interactive", "-scan_full +scan_none", "scan_none slice_short" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		ASSERT_EQ(0, cg_write(self->cg, HINT, lines[i].from));
		EXPECT_EQ(0, cg_write(self->cg, HINT, lines[i].edit))
			TH_LOG("'%s' on '%s'", lines[i].edit, lines[i].from);
		EXPECT_TRUE(cg_is(self->cg, HINT, lines[i].out))
			TH_LOG("'%s' on '%s'", lines[i].edit, lines[i].from);
	}
}

/*
 * parent  wake_hold pack
 *   child  inherit, then edited
 *
 * An edit of an inheriting group starts from what it inherits, and the group
 * does not follow its parent after that.
 */
TEST_F(interface, edit_of_inherited)
{
	char *child;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);

	ASSERT_EQ(0, cg_write(self->cg, HINT, "wake_hold pack"));
	ASSERT_EQ(0, cg_write(child, HINT, "+scan_full -pack"));
	EXPECT_TRUE(cg_is(child, HINT, "wake_hold scan_full"));
	ASSERT_EQ(0, cg_write(self->cg, HINT, "fork_spread"));
	EXPECT_TRUE(cg_is(child, EFFECTIVE, "wake_hold scan_full"));

	/* inherited words are words: no profile, and removing them all is none */
	ASSERT_EQ(0, cg_write(self->cg, HINT, "interactive"));
	ASSERT_EQ(0, cg_write(child, HINT, "inherit"));
	ASSERT_EQ(0, cg_write(child, HINT, "+wake_hold"));
	EXPECT_TRUE(cg_is(child, HINT, "wake_hold scan_full slice_short"));
	ASSERT_EQ(0, cg_write(child, HINT, "inherit"));
	ASSERT_EQ(0, cg_write(child, HINT, "-scan_full -slice_short"));
	EXPECT_TRUE(cg_is(child, HINT, "none"));
	EXPECT_TRUE(cg_is(child, EFFECTIVE, "none"));
	free(child);
}

/* Whatever is not understood is EINVAL, and leaves the value as it was. */
TEST_F(interface, refused)
{
	static const char * const values[] = {
		/* not words */
		"nonsense", "wake_affine nonsense", "Pack", "PACK", "wake-affine",
		"wake_affin", "wake_affinee", "wake_affine,pack", "pack;", "0", "1",
		"energy:unavailable", "max", "default",
		/* blank */
		" ", "\n", " \t\n",
		/* two of one category */
		"wake_affine wake_hold", "fork_affine fork_spread",
		"scan_full scan_none", "slice_short slice_long",
		"pack pack", "wake_hold pack wake_hold",
		"interactive scan_none scan_full", "background pack pack",
		/* profiles */
		"interactive background", "interactive interactive",
		"pack interactive", "wake_hold background pack",
		/* inherit and none stand alone */
		"inherit pack", "pack inherit", "none pack", "pack none",
		"inherit none", "none none", "interactive none",
		"none interactive", "interactive inherit", "inherit inherit",
		/* edits */
		"+", "-", "+ pack", "+nonsense", "-nonsense", "++pack", "+-pack",
		"+pack wake_hold", "pack +wake_hold", "interactive +wake_hold",
		"+interactive", "-interactive", "+none", "-none", "+inherit",
		"-inherit", "+pack none", "none +pack", "inherit +pack",
		"+wake_affine +wake_hold", "+scan_full +scan_none",
		"+wake_affine",		/* against the wake_hold below */
		"+pack +nonsense", "-pack -wake_hold +nonsense",
	};
	static const char * const before[] = {
		"wake_hold pack", "interactive wake_hold",
	};

	for (size_t b = 0; b < ARRAY_SIZE(before); b++) {
		char effective[256];

		ASSERT_EQ(0, cg_write(self->cg, HINT, before[b]));
		ASSERT_LT(0, cg_read(self->cg, EFFECTIVE, effective,
				     sizeof(effective)));
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			EXPECT_EQ(-EINVAL, cg_write(self->cg, HINT, values[i]))
				TH_LOG("'%s'", values[i]);
			EXPECT_TRUE(cg_is(self->cg, HINT, before[b]))
				TH_LOG("'%s'", values[i]);
			EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, effective))
				TH_LOG("'%s'", values[i]);
			/* do not let one mistake spoil the rest */
			ASSERT_EQ(0, cg_write(self->cg, HINT, before[b]));
		}
	}

	/* an inheriting group goes on inheriting */
	ASSERT_EQ(0, cg_write(self->cg, HINT, "inherit"));
	EXPECT_EQ(-EINVAL, cg_write(self->cg, HINT, "+pack +nonsense"));
	EXPECT_EQ(-EINVAL, cg_write(self->cg, HINT, "+wake_hold +wake_affine"));
	EXPECT_TRUE(cg_is(self->cg, HINT, "inherit"));
}

/* A NUL ends nothing: what stands behind it would be lost without a word. */
TEST_F(interface, embedded_nul)
{
	static const char nul[] = "pack\0wake_hold", first[] = "\0pack";

	ASSERT_EQ(0, cg_write(self->cg, HINT, "scan_full"));
	EXPECT_EQ(-EINVAL, cg_write_len(self->cg, HINT, nul, sizeof(nul) - 1));
	EXPECT_EQ(-EINVAL, cg_write_len(self->cg, HINT, first, sizeof(first) - 1));
	EXPECT_TRUE(cg_is(self->cg, HINT, "scan_full"));
}

/* Up to a page is read as one line; more is E2BIG and changes nothing. */
TEST_F(interface, page_limit)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *buf = malloc(page + 1);

	ASSERT_NE(NULL, buf);
	memset(buf, ' ', page + 1);
	memcpy(buf, "pack", 4);
	memcpy(buf + page - 9, "wake_hold", 9);
	EXPECT_EQ(0, cg_write_len(self->cg, HINT, buf, page));
	EXPECT_TRUE(cg_is(self->cg, HINT, "wake_hold pack"));
	memcpy(buf, "    ", 4);
	EXPECT_EQ(-E2BIG, cg_write_len(self->cg, HINT, buf, page + 1));
	EXPECT_TRUE(cg_is(self->cg, HINT, "wake_hold pack"));
	free(buf);
}

/* A write of no bytes is no write. */
TEST_F(interface, empty_write)
{
	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack"));
	cg_write_len(self->cg, HINT, "", 0);
	EXPECT_TRUE(cg_is(self->cg, HINT, "pack"));
}

/*
 * group  wake_hold
 *   0  inherit
 *     1  inherit
 *       ...
 *         9  inherit
 *
 * Every level follows the nearest group above it that says something itself,
 * and follows at once when that changes.
 */
#define DEPTH 10
TEST_F_TIMEOUT(interface, nesting, 120)
{
	char *level[DEPTH], *parent = self->cg;

	for (int i = 0; i < DEPTH; i++) {
		ASSERT_EQ(0, cg_enable(parent, "+cpu"));
		level[i] = cg_new(parent, "n");
		ASSERT_NE(NULL, level[i]);
		parent = level[i];
	}

#define ALL(from, to, value) do {					\
	for (int __i = (from); __i < (to); __i++) {			\
		EXPECT_TRUE(cg_is(level[__i], EFFECTIVE, value))	\
			TH_LOG("level %d is not '%s'", __i, value);	\
	}								\
} while (0)

	ALL(0, DEPTH, "none");
	ASSERT_EQ(0, cg_write(self->cg, HINT, "wake_hold"));
	ALL(0, DEPTH, "wake_hold");

	/* a change in the middle reaches what is below it, nothing above */
	ASSERT_EQ(0, cg_write(level[4], HINT, "interactive"));
	ALL(0, 4, "wake_hold");
	ALL(4, DEPTH, "scan_full slice_short");

	/* "none" blocks, and words are not merged with those from above */
	ASSERT_EQ(0, cg_write(level[7], HINT, "none"));
	ALL(4, 7, "scan_full slice_short");
	ALL(7, DEPTH, "none");
	ASSERT_EQ(0, cg_write(level[7], HINT, "pack"));
	ALL(7, DEPTH, "pack");

	/* a change above an explicit group stops there */
	ASSERT_EQ(0, cg_write(self->cg, HINT, "fork_spread"));
	ALL(0, 4, "fork_spread");
	ALL(4, 7, "scan_full slice_short");
	ALL(7, DEPTH, "pack");

	/* back to inheriting: the nearest explicit one counts again */
	ASSERT_EQ(0, cg_write(level[4], HINT, "inherit"));
	ALL(0, 7, "fork_spread");
	ALL(7, DEPTH, "pack");
	ASSERT_EQ(0, cg_write(level[7], HINT, "inherit"));
	ALL(0, DEPTH, "fork_spread");

	/* reading the request of an inheriting group does not show the result */
	EXPECT_TRUE(cg_is(level[DEPTH - 1], HINT, "inherit"));

	ASSERT_EQ(0, cg_write(self->cg, HINT, "inherit"));
	ALL(0, DEPTH, "none");
	for (int i = 0; i < DEPTH; i++)
		free(level[i]);
}

/*
 * group  pack
 *   a  wake_hold
 *   b  inherit
 *
 * Siblings do not affect each other.
 */
TEST_F(interface, siblings)
{
	char *a, *b;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	a = cg_new(self->cg, "a");
	b = cg_new(self->cg, "b");
	ASSERT_TRUE(a && b);
	ASSERT_EQ(0, cg_write(a, HINT, "wake_hold"));
	EXPECT_TRUE(cg_is(b, EFFECTIVE, "none"));
	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack"));
	EXPECT_TRUE(cg_is(a, EFFECTIVE, "wake_hold"));
	EXPECT_TRUE(cg_is(b, EFFECTIVE, "pack"));
	ASSERT_EQ(0, cg_write(b, HINT, "none"));
	EXPECT_TRUE(cg_is(self->cg, EFFECTIVE, "pack"));
	free(a);
	free(b);
}

/* A group that is created below a hinted one inherits from the start. */
TEST_F(interface, created_below_hinted)
{
	char *child;

	ASSERT_EQ(0, cg_write(self->cg, HINT, "tail_latency"));
	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);
	EXPECT_TRUE(cg_is(child, HINT, "inherit"));
	EXPECT_TRUE(cg_is(child, EFFECTIVE, "wake_wide scan_full"));
	free(child);
}

/* Taking the controller away and giving it back starts afresh. */
TEST_F(interface, controller_disabled)
{
	char *child;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);
	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack"));
	ASSERT_EQ(0, cg_write(child, HINT, "wake_hold"));
	ASSERT_EQ(0, cg_enable(self->cg, "-cpu"));
	EXPECT_GT(0, cg_write(child, HINT, "wake_hold"));
	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	EXPECT_TRUE(cg_is(child, HINT, "inherit"));
	EXPECT_TRUE(cg_is(child, EFFECTIVE, "pack"));
	free(child);
}

/*
 * The static key is on while some group asks for words: not for "none", not
 * for groups that only inherit. It may go off a little later.
 */
TEST_F_TIMEOUT(interface, static_key, 120)
{
	char *child;

	/* the end of a group that was removed takes a while */
	ASSERT_TRUE(WAIT_FOR(!hint_users()))
		TH_LOG("%ld other groups have a hint", hint_users());
	EXPECT_TRUE(WAIT_FOR(!hint_key()));
	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);

	ASSERT_EQ(0, cg_write(self->cg, HINT, "none"));
	EXPECT_EQ(0, hint_users());
	EXPECT_EQ(0, hint_key());
	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack"));
	EXPECT_EQ(1, hint_key());
	EXPECT_EQ(1, hint_users());
	ASSERT_EQ(0, cg_write(self->cg, HINT, "wake_hold"));
	EXPECT_EQ(1, hint_users());
	ASSERT_EQ(0, cg_write(child, HINT, "interactive"));
	EXPECT_EQ(2, hint_users());
	ASSERT_EQ(0, cg_write(self->cg, HINT, "inherit"));
	EXPECT_EQ(1, hint_users());
	EXPECT_EQ(1, hint_key());
	EXPECT_EQ(-EINVAL, cg_write(child, HINT, "nonsense"));
	EXPECT_EQ(1, hint_users());
	ASSERT_EQ(0, cg_write(child, HINT, "-scan_full -slice_short"));
	EXPECT_EQ(0, hint_users());
	EXPECT_TRUE(WAIT_FOR(!hint_key()));
	/* and it comes back */
	ASSERT_EQ(0, cg_write(child, HINT, "pack"));
	EXPECT_EQ(1, hint_key());
	free(child);
}

/* A group that is removed with its hint set gives its use of the key back. */
TEST_F_TIMEOUT(interface, static_key_rmdir, 120)
{
	char *child;

	ASSERT_TRUE(WAIT_FOR(!hint_users()));
	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	for (int i = 0; i < 5; i++) {
		child = cg_new(self->cg, "child");
		ASSERT_NE(NULL, child);
		ASSERT_EQ(0, cg_write(child, HINT, "background"));
		EXPECT_EQ(1, hint_key());
		ASSERT_EQ(0, rmdir(child));
		EXPECT_TRUE(WAIT_FOR(!hint_users() && !hint_key()));
		free(child);
	}

	/* likewise when only the controller goes */
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);
	ASSERT_EQ(0, cg_write(child, HINT, "background"));
	ASSERT_EQ(0, cg_enable(self->cg, "-cpu"));
	EXPECT_TRUE(WAIT_FOR(!hint_users() && !hint_key()));
	free(child);
}

/* With many writers at once, the value is always one that somebody wrote. */
TEST_F_TIMEOUT(interface, concurrent_writers, 120)
{
	static const char * const values[] = {
		"fork_spread wake_hold wake_wide scan_none slice_long preempt_none pack",
		"fork_affine wake_affine scan_full slice_short",
		"interactive wake_hold",
		"none",
	};
	static const char * const effective[] = {
		"fork_spread wake_hold wake_wide scan_none slice_long preempt_none pack",
		"fork_affine wake_affine scan_full slice_short",
		"wake_hold scan_full slice_short",
		"none",
	};
	char *child, line[256], result[256] = "";
	time_t end = time(NULL) + WAIT_SECONDS;
	pid_t pid[ARRAY_SIZE(values)];
	bool seen[ARRAY_SIZE(values)] = {};
	int kinds = 0;
	size_t i;

	ASSERT_EQ(0, cg_enable(self->cg, "+cpu"));
	child = cg_new(self->cg, "child");
	ASSERT_NE(NULL, child);
	ASSERT_EQ(0, cg_write(self->cg, HINT, values[0]));

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		pid[i] = task_fork(NULL);
		ASSERT_LE(0, pid[i]);
		while (!pid[i])
			if (cg_write(self->cg, HINT, values[i]))
				_exit(1);
	}
	/* a writer may have its first go only after hundreds of reads */
	for (int n = 0; n < 300 || (kinds < 2 && time(NULL) < end); n++) {
		ASSERT_LT(0, cg_read(self->cg, HINT, line, sizeof(line)));
		for (i = 0; i < ARRAY_SIZE(values); i++)
			if (!strcmp(line, values[i]))
				break;
		ASSERT_LT(i, ARRAY_SIZE(values)) TH_LOG("read '%s'", line);
		kinds += !seen[i];
		seen[i] = true;
		ASSERT_LT(0, cg_read(child, EFFECTIVE, result, sizeof(result)));
		for (i = 0; i < ARRAY_SIZE(values); i++)
			if (!strcmp(result, effective[i]))
				break;
		ASSERT_LT(i, ARRAY_SIZE(values)) TH_LOG("read '%s'", result);
	}
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		EXPECT_EQ(0, waitpid(pid[i], NULL, WNOHANG));
		task_kill(pid[i]);
	}
	EXPECT_LE(2, kinds) TH_LOG("the writers did not run against each other");

	/* when they are gone, both files agree with each other */
	ASSERT_LT(0, cg_read(self->cg, HINT, line, sizeof(line)));
	for (i = 0; i < ARRAY_SIZE(values); i++)
		if (!strcmp(line, values[i]))
			break;
	ASSERT_LT(i, ARRAY_SIZE(values));
	EXPECT_TRUE(cg_is(child, EFFECTIVE, effective[i]));
	free(child);
}

/* A file that was opened before the group was removed fails in good order. */
TEST_F(interface, write_after_rmdir)
{
	char *path = cg_name(self->cg, HINT);
	int fd = open(path, O_RDWR);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, cg_write(self->cg, HINT, "pack"));
	ASSERT_EQ(0, rmdir(self->cg));
	EXPECT_EQ(-1, write(fd, "wake_hold", 9));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
	free(path);
}

/* Read the kernel log on; returns how many new lines have @what, the last one in @last. */
static int log_lines(int log, const char *what, char *last, size_t size)
{
	char record[2048];
	int found = 0;
	ssize_t len;

	/* EPIPE: records were lost that nobody has read. */
	while ((len = read(log, record, sizeof(record) - 1)) >= 0 || errno == EPIPE) {
		record[len < 0 ? 0 : len] = '\0';
		if (!strstr(record, what))
			continue;
		found++;
		snprintf(last, size, "%s", record);
	}
	return found;
}

/* A refused write is explained in the kernel log as soon as there is a line left. */
static bool log_explains(int log, const char *cg, const char *file, const char *bad,
			 char *line, size_t size)
{
	for (int second = 0; second < WAIT_SECONDS; second++) {
		if (!cg_write(cg, file, bad))
			return false;
		if (log_lines(log, bad, line, size))
			return true;
		sleep(1);
	}
	return false;
}

/* What is wrong is said where people look: group, file, word, and what would be taken. */
TEST_F_TIMEOUT(interface, refusal_is_explained, 300)
{
	static const struct {
		const char *file, *bad, *says;
	} cases[] = {
		{ HINT, "fastest", "is not known; accepted: inherit none tail_latency" },
		{ "cpu.gang", "12", "is neither; accepted: 0 1" },
		{ "cpu.gang.scope", "machine", "is not known; accepted: core llc" },
		{ "cpu.headroom", "101.5", "is no such percentage; accepted: 0.00 to 100.00" },
	};
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	char line[2048] = "", head[512];

	ASSERT_LE(0, log);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!cg_has(cases[i].file))
			continue;
		lseek(log, 0, SEEK_END);
		ASSERT_TRUE(log_explains(log, self->cg, cases[i].file, cases[i].bad, line,
					 sizeof(line)))
			TH_LOG("nothing about %s", cases[i].file);
		snprintf(head, sizeof(head), "cgroup: %s: %s: \"%s\" %s",
			 self->cg + strlen(CG_ROOT),
			 cases[i].file, cases[i].bad, cases[i].says);
		EXPECT_NE(NULL, strstr(line, head)) TH_LOG("'%s' is not in '%s'", head, line);
	}
	close(log);
}

/* Nobody fills the log that way, and a tenant does not use up the lines of the others. */
TEST_F_TIMEOUT(interface, refusals_are_few, 300)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK), found;
	char *path = cg_name(self->cg, HINT), line[2048];
	time_t begin = time(NULL);
	pid_t pid;

	ASSERT_LE(0, log);
	lseek(log, 0, SEEK_END);
	for (int i = 0; i < 2000; i++)
		ASSERT_EQ(-EINVAL, cg_write(self->cg, HINT, "flooding"));
	/* ten in five seconds */
	found = log_lines(log, "flooding", line, sizeof(line));
	EXPECT_GE(10 * ((time(NULL) - begin) / 5 + 2), found);

	ASSERT_EQ(0, chown(path, 65534, 65534));
	begin = time(NULL);
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		for (int i = 0; i < 2000; i++)
			if (cg_write(self->cg, HINT, "tenant_s") != -EINVAL)
				_exit(1);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &found, 0));
	ASSERT_EQ(0, found);
	found = log_lines(log, "tenant_s", line, sizeof(line));
	/* five in a minute */
	EXPECT_GE(5 * ((time(NULL) - begin) / 60 + 2), found);
	EXPECT_TRUE(log_explains(log, self->cg, HINT, "afterwards", line, sizeof(line)));
	close(log);
	free(path);
}

/* cgroup_steer=0 on the kernel command line: there are no files. */
TEST(off_at_boot)
{
	char *top;

	if (!steer_off_at_boot())
		SKIP(return, "booted without cgroup_steer=0");
	ASSERT_TRUE(steer_built());
	top = cg_top("steer_off");
	ASSERT_NE(NULL, top);
	EXPECT_NE(0, cg_write(top, HINT, "pack"));
	EXPECT_GT(0, cg_read(top, EFFECTIVE, (char[64]){}, 64));
	EXPECT_EQ(-1, cg_stat(top, "hint_wake_followed"));
	EXPECT_EQ(0, hint_key());
	cg_destroy(top);
	free(top);
}

STEER_MAIN
