// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the words of cpu.hint.
 *
 * The tables say what a person would expect; the generated tests compare all
 * sets of words with rules that are written out here a second time, as simply
 * as possible, and not taken from the code under test.
 */
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/sched/steer.h>
#include <linux/string.h>

#define UNTOUCHED	0x00badbadU

static const char * const names[STEER_NR_WORDS] = {
	"fork_affine", "fork_spread", "wake_affine", "wake_hold", "wake_wide",
	"scan_full", "scan_none", "slice_short", "slice_long", "preempt_none",
	"pack", "energy",
};

static const struct {
	const char *name;
	const char *words;
} profiles[] = {
	{ "tail_latency",	"wake_wide scan_full" },
	{ "interactive",	"scan_full slice_short" },
	{ "noninteractive",	"scan_none slice_long pack" },
	{ "background",		"scan_none slice_long preempt_none pack" },
	{ "efficient",		"pack energy" },
};

/* Parses a copy of @text; *@request is UNTOUCHED unless that succeeds. */
static int parse(const char *text, u32 current_request, u32 inherited,
		 u32 *request)
{
	struct steer_refusal refusal;
	char line[256];

	strscpy(line, text, sizeof(line));
	*request = UNTOUCHED;
	return steer_request_parse(line, current_request, inherited, request,
				   &refusal);
}

static u32 parsed(struct kunit *test, const char *text)
{
	u32 request;

	KUNIT_ASSERT_EQ_MSG(test, parse(text, STEER_INHERIT, 0, &request), 0,
			    "\"%s\"", text);
	return request;
}

static void expect_request(struct kunit *test, u32 request, const char *shown)
{
	char line[STEER_LINE_MAX];

	steer_request_format(request, line, sizeof(line));
	KUNIT_EXPECT_STREQ(test, line, shown);
}

static void expect_words(struct kunit *test, u32 words, const char *shown)
{
	char line[STEER_LINE_MAX];

	steer_words_format(words, STEER_WORDS, line, sizeof(line));
	KUNIT_EXPECT_STREQ(test, line, shown);
}

static void steer_test_accepted(struct kunit *test)
{
	static const struct {
		const char *text, *shown, *words;
	} cases[] = {
		{ "inherit", "inherit", "none" },
		{ "none", "none", "none" },
		{ "none\n", "none", "none" },
		{ "wake_affine", "wake_affine", "wake_affine" },
		{ " \twake_affine\t\n\n", "wake_affine", "wake_affine" },
		{ "pack\nwake_hold\tfork_spread", "fork_spread wake_hold pack",
		  "fork_spread wake_hold pack" },
		{ "tail_latency", "tail_latency", "wake_wide scan_full" },
		{ "interactive wake_hold", "interactive wake_hold",
		  "wake_hold scan_full slice_short" },
		{ "interactive slice_long", "interactive slice_long",
		  "scan_full slice_long" },
		{ "interactive scan_full", "interactive", "scan_full slice_short" },
		{ "background scan_full", "background scan_full",
		  "scan_full slice_long preempt_none pack" },
		{ "efficient", "efficient", "pack energy" },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 request = parsed(test, cases[i].text);

		expect_request(test, request, cases[i].shown);
		expect_words(test, steer_request_words(request), cases[i].words);
	}
}

static void steer_test_refused(struct kunit *test)
{
	static const char * const cases[] = {
		"", " ", "\n", " \t\n",
		"nonsense", "wake_affin", "wake_affinee", "Wake_affine", "WAKE_HOLD",
		"wake_affine,wake_wide", "wake_affine;", "0", "1", "-1", "max",
		"wake_affine wake_hold", "wake_affine wake_affine",
		"fork_affine fork_spread", "scan_full scan_none",
		"slice_short slice_long",
		"interactive interactive", "interactive background",
		"wake_affine interactive", "interactive wake_affine wake_hold",
		"inherit none", "none inherit", "inherit inherit", "none none",
		"inherit wake_affine", "wake_affine inherit", "none wake_affine",
		"wake_affine none", "interactive none", "none interactive",
		"+", "-", "+ wake_affine", "++wake_affine", "+-wake_affine",
		"+nonsense", "-nonsense", "+interactive", "-interactive",
		"+none", "-none", "+inherit", "-inherit",
		"wake_affine +wake_wide", "+wake_wide wake_affine",
		"interactive -slice_short", "none +wake_affine",
		"+wake_affine +wake_hold",
		"energy:unavailable",
	};
	u32 request;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		KUNIT_EXPECT_EQ_MSG(test, parse(cases[i], STEER_INHERIT, 0, &request),
				    -EINVAL, "\"%s\"", cases[i]);
		KUNIT_EXPECT_EQ_MSG(test, request, UNTOUCHED, "\"%s\"", cases[i]);
	}
}

static void steer_test_edited(struct kunit *test)
{
	static const struct {
		const char *before, *inherited, *edit, *shown;
	} cases[] = {
		/* shown == NULL: refused */
		{ "none", "none", "+wake_affine", "wake_affine" },
		{ "wake_affine", "none", "+wake_affine", "wake_affine" },
		{ "wake_affine", "none", "-wake_affine", "none" },
		{ "wake_affine", "none", "-wake_hold", "wake_affine" },
		{ "wake_affine", "none", "+wake_hold", NULL },
		{ "wake_affine", "none", "-wake_affine +wake_hold", "wake_hold" },
		{ "wake_affine", "none", "+wake_hold -wake_affine", "wake_hold" },
		{ "wake_affine", "none", "+wake_wide\n+pack", "wake_affine wake_wide pack" },
		{ "wake_affine", "none", "+pack -pack", "wake_affine" },
		{ "wake_affine", "pack", "+wake_wide", "wake_affine wake_wide" },
		{ "inherit", "none", "+pack", "pack" },
		{ "inherit", "none", "-pack", "none" },
		{ "inherit", "wake_hold pack", "-pack", "wake_hold" },
		{ "inherit", "wake_hold pack", "+scan_full", "wake_hold scan_full pack" },
		{ "inherit", "wake_hold pack", "+wake_affine", NULL },
		{ "inherit", "wake_hold", "+nonsense", NULL },
		{ "interactive", "none", "+wake_hold", "interactive wake_hold" },
		{ "interactive", "none", "+scan_full", "interactive" },
		{ "interactive", "none", "+slice_long", "interactive slice_long" },
		{ "interactive slice_long", "none", "-slice_long", "interactive" },
		{ "interactive slice_long", "none", "-slice_short", "interactive slice_long" },
		{ "interactive slice_long", "none", "+slice_short", NULL },
		{ "interactive", "none", "-slice_short", "scan_full" },
		{ "interactive wake_hold", "none", "-scan_full", "wake_hold slice_short" },
		{ "interactive", "none", "-scan_full -slice_short", "none" },
		{ "interactive", "none", "-pack", "interactive" },
		{ "interactive", "none", "+scan_none -scan_full", "scan_none slice_short" },
		{ "interactive", "none", "-scan_full +scan_none", "scan_none slice_short" },
		{ "none", "none", "-pack +pack", "pack" },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 before = parsed(test, cases[i].before);
		u32 inherited = steer_request_words(parsed(test, cases[i].inherited));
		u32 after;
		int ret = parse(cases[i].edit, before, inherited, &after);

		if (cases[i].shown) {
			KUNIT_EXPECT_EQ_MSG(test, ret, 0, "case %d", i);
			expect_request(test, after, cases[i].shown);
		} else {
			KUNIT_EXPECT_EQ_MSG(test, ret, -EINVAL, "case %d", i);
			KUNIT_EXPECT_EQ_MSG(test, after, UNTOUCHED, "case %d", i);
		}
	}
}

static void steer_test_profiles(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(profiles); i++) {
		u32 request = parsed(test, profiles[i].name);

		expect_request(test, request, profiles[i].name);
		expect_words(test, steer_request_words(request), profiles[i].words);
		KUNIT_EXPECT_EQ(test, steer_request_words(request),
				steer_request_words(parsed(test, profiles[i].words)));
	}
}

static void steer_test_resolved(struct kunit *test)
{
	u32 hold = steer_request_words(parsed(test, "wake_hold"));
	u32 level = 0;
	int depth;

	KUNIT_EXPECT_EQ(test, steer_request_resolve(STEER_INHERIT, hold), hold);
	KUNIT_EXPECT_EQ(test, steer_request_resolve(STEER_INHERIT, 0), 0);
	KUNIT_EXPECT_EQ(test, steer_request_resolve(STEER_NONE, hold), 0);
	KUNIT_EXPECT_EQ(test, steer_request_resolve(parsed(test, "pack"), hold),
			STEER_PACK);

	/* root - hold - inherit x 30 - none - inherit x 30 */
	for (depth = 0; depth < 64; depth++) {
		u32 request = STEER_INHERIT;

		if (depth == 1)
			request = parsed(test, "wake_hold");
		else if (depth == 32)
			request = STEER_NONE;

		level = steer_request_resolve(request, level);
		KUNIT_EXPECT_EQ(test, level, depth >= 1 && depth < 32 ? hold : 0);
	}
}

static void steer_test_unavailable(struct kunit *test)
{
	u32 words = steer_request_words(parsed(test, "efficient"));
	char line[STEER_LINE_MAX];

	steer_words_format(words, STEER_WORDS & ~STEER_ENERGY, line, sizeof(line));
	KUNIT_EXPECT_STREQ(test, line, "pack energy:unavailable");
	steer_words_format(0, 0, line, sizeof(line));
	KUNIT_EXPECT_STREQ(test, line, "none");
}

/* The longest line fits STEER_LINE_MAX, and a short buffer is never overrun. */
static void steer_test_bounds(struct kunit *test)
{
	static const char longest[] =
		"noninteractive fork_spread wake_affine wake_wide scan_full slice_short energy";
	char line[STEER_LINE_MAX + 1];
	size_t size;
	int len;

	/* The longest word of each category, and nothing available. */
	len = steer_words_format(STEER_FORK_AFFINE | STEER_WAKE_AFFINE | STEER_WAKE_WIDE |
				 STEER_SCAN_FULL | STEER_SLICE_SHORT | STEER_PREEMPT_NONE |
				 STEER_PACK | STEER_ENERGY, 0, line, sizeof(line));
	KUNIT_EXPECT_LT(test, len, STEER_LINE_MAX - 1);
	len = steer_request_format(parsed(test, longest), line, sizeof(line));
	KUNIT_EXPECT_LT(test, len, STEER_LINE_MAX - 1);

	for (size = 1; size < 40; size++) {
		memset(line, 'x', sizeof(line));
		len = steer_words_format(STEER_WORDS, 0, line, size);
		KUNIT_EXPECT_EQ(test, strlen(line), len);
		KUNIT_EXPECT_LT(test, len, size);
		KUNIT_EXPECT_EQ(test, line[size], 'x');
	}
}

/* At most one of each pair: the whole rule about categories. */
static bool rule_conflict(u32 words)
{
	static const u32 pairs[] = { 0x0003, 0x000c, 0x0060, 0x0180 };
	int i;

	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		if ((words & pairs[i]) == pairs[i])
			return true;
	}
	return false;
}

static u32 rule_refine(u32 profile, u32 own)
{
	static const u32 pairs[] = { 0x0003, 0x000c, 0x0060, 0x0180 };
	int i;

	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		if (own & pairs[i])
			profile &= ~pairs[i];
	}
	return profile | own;
}

/* A profile and words after it, in an order that depends on @seed. */
static void compose(char *line, size_t size, const char *profile, u32 words,
		    u32 seed)
{
	int i, len = scnprintf(line, size, "%s", profile);

	for (i = 0; i < STEER_NR_WORDS; i++) {
		int word = (i * 5 + seed) % STEER_NR_WORDS;

		if (words & BIT(word))
			len += scnprintf(line + len, size - len, "%s%s",
					 len ? " " : "", names[word]);
	}
}

/*
 * All 4096 sets of words, alone and after each profile: accepted exactly if no
 * category has two, with the right words, and the same again when what is shown
 * is written back.
 */
static void steer_test_all_sets(struct kunit *test)
{
	char text[256], line[STEER_LINE_MAX];
	int i;
	u32 words;

	for (i = -1; i < (int)ARRAY_SIZE(profiles); i++) {
		u32 base = i < 0 ? 0 : steer_request_words(parsed(test, profiles[i].words));

		for (words = i < 0; words <= STEER_WORDS; words++) {
			u32 request, again;
			int ret;

			compose(text, sizeof(text), i < 0 ? "" : profiles[i].name,
				words, words % 7);
			ret = parse(text, STEER_INHERIT, 0, &request);
			KUNIT_ASSERT_EQ_MSG(test, ret,
					    rule_conflict(words) ? -EINVAL : 0,
					    "\"%s\"", text);
			if (ret)
				continue;
			KUNIT_ASSERT_EQ_MSG(test, steer_request_words(request),
					    rule_refine(base, words), "\"%s\"", text);
			steer_request_format(request, line, sizeof(line));
			KUNIT_ASSERT_EQ(test, parse(line, STEER_INHERIT, 0, &again), 0);
			KUNIT_ASSERT_EQ_MSG(test, again, request, "\"%s\" -> \"%s\"",
					    text, line);
		}
	}
}

/* One edit of each word on each valid set, with and without a profile. */
static void steer_test_all_edits(struct kunit *test)
{
	char edit[32];
	u32 words;
	int i, word;

	for (i = -1; i < (int)ARRAY_SIZE(profiles); i++) {
		for (words = 0; words <= STEER_WORDS; words++) {
			u32 before, after, expected;
			char text[256];
			bool conflict;
			int ret;

			if (rule_conflict(words) || (i < 0 && !words))
				continue;
			compose(text, sizeof(text), i < 0 ? "" : profiles[i].name,
				words, 0);
			before = parsed(test, text);
			for (word = 0; word < STEER_NR_WORDS; word++) {
				snprintf(edit, sizeof(edit), "-%s", names[word]);
				KUNIT_ASSERT_EQ(test, parse(edit, before, 0, &after), 0);
				KUNIT_ASSERT_FALSE_MSG(test,
						       steer_request_words(after) & BIT(word),
						       "\"%s\" \"%s\"", text, edit);

				snprintf(edit, sizeof(edit), "+%s", names[word]);
				conflict = rule_conflict((before & STEER_WORDS) | BIT(word));
				ret = parse(edit, before, 0, &after);
				KUNIT_ASSERT_EQ_MSG(test, ret, conflict ? -EINVAL : 0,
						    "\"%s\" \"%s\"", text, edit);
				if (ret)
					continue;
				expected = rule_refine(steer_request_words(before), BIT(word));
				KUNIT_ASSERT_EQ_MSG(test, steer_request_words(after),
						    expected, "\"%s\" \"%s\"", text, edit);
			}
		}
	}
}

/*
 * Noise: valid pieces glued together at random. Nothing that is accepted may
 * carry a conflict or fail to survive a round trip, and nothing that is refused
 * may leave a trace.
 */
static void steer_test_noise(struct kunit *test)
{
	static const char * const pieces[] = {
		"inherit", "none", "interactive", "background", "+", "-", " ", "\n",
		"wake_affine", "wake_hold", "pack", "scan_full", "slice_long", "x",
		"+pack", "-pack", "+wake_hold", "-scan_full", "energy", "\t",
	};
	struct rnd_state rnd;
	int i, accepted = 0;

	prandom_seed_state(&rnd, 6012);
	for (i = 0; i < 5000; i++) {
		char text[256] = "", line[STEER_LINE_MAX];
		u32 current_request, request, again;
		int n = prandom_u32_state(&rnd) % 6;

		current_request = prandom_u32_state(&rnd) % 2 ? STEER_INHERIT :
				  parsed(test, "interactive wake_hold");
		while (n--) {
			strlcat(text, pieces[prandom_u32_state(&rnd) % ARRAY_SIZE(pieces)],
				sizeof(text));
			if (prandom_u32_state(&rnd) % 2)
				strlcat(text, " ", sizeof(text));
		}
		if (parse(text, current_request, STEER_PACK, &request)) {
			KUNIT_ASSERT_EQ_MSG(test, request, UNTOUCHED, "\"%s\"", text);
			continue;
		}
		accepted++;
		KUNIT_ASSERT_FALSE_MSG(test,
				       rule_conflict(steer_request_words(request)),
				       "\"%s\"", text);
		steer_request_format(request, line, sizeof(line));
		KUNIT_ASSERT_EQ(test, parse(line, STEER_INHERIT, 0, &again), 0);
		KUNIT_ASSERT_EQ_MSG(test, again, request, "\"%s\" -> \"%s\"", text, line);
	}
	/* The test would show nothing if it were all refused, or all accepted. */
	KUNIT_EXPECT_GT(test, accepted, 250);
	KUNIT_EXPECT_LT(test, accepted, 4750);
}

/* What was wrong is named, and nothing is where nothing was. */
static void steer_test_refusal(struct kunit *test)
{
	static const struct {
		const char *line, *word, *why;
	} cases[] = {
		{ "fastest", "fastest", "is not known" },
		{ "pack fastest", "fastest", "is not known" },
		{ "+fastest", "+fastest", "is not known" },
		{ "pack background", "background", "has to be the first word, and no edit" },
		{ "+background", "+background", "has to be the first word, and no edit" },
		{ "none pack", "pack", "is beside a word that stands alone" },
		{ "pack +energy", "+energy", "mixes edits with plain words" },
		{ "pack pack", "pack", "is there twice" },
		{ "wake_affine wake_hold", "wake_hold", "is of the same category as another word" },
		{ " \t", "", "is no word" },
		{ "+wake_affine +wake_hold", "", "leaves two words of one category" },
		{ "background wake_hold", NULL, NULL },
	};
	struct steer_refusal refusal;
	char line[64];
	u32 request;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		strscpy(line, cases[i].line, sizeof(line));
		steer_request_parse(line, STEER_INHERIT, 0, &request, &refusal);
		KUNIT_EXPECT_STREQ(test, refusal.why ?: "-", cases[i].why ?: "-");
		KUNIT_EXPECT_STREQ(test, refusal.word ?: "-", cases[i].word ?: "-");
	}
}

/* What goes to the log: short, of printable characters, and on one line. */
static void steer_test_quote(struct kunit *test)
{
	static const struct {
		const char *text, *quoted;
	} cases[] = {
		{ "", "" },
		{ "fastest", "fastest" },
		{ "a\nb", "a\\x0ab" },
		{ "\x1b[31m", "\\x1b[31m" },
		{ "\xc3\xa4", "\\xc3\\xa4" },
		{ "a\"b\\", "a\\x22b\\x5c" },
		{ "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef" },
		{ "0123456789abcdef0123456789abcdefg", "0123456789abcdef0123456789abcdef..." },
	};
	char quoted[STEER_QUOTED(32)], noise[64];
	char list[STEER_VOCABULARY_MAX];
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		steer_quote(cases[i].text, 32, quoted);
		KUNIT_EXPECT_STREQ(test, quoted, cases[i].quoted);
	}
	memset(noise, 0x80, sizeof(noise) - 1);
	noise[sizeof(noise) - 1] = '\0';
	steer_quote(noise, 32, quoted);
	KUNIT_EXPECT_EQ(test, strlen(quoted), STEER_QUOTED(32) - 1);

	KUNIT_EXPECT_LT(test, steer_vocabulary(list, sizeof(list)),
			STEER_VOCABULARY_MAX - 1);
	KUNIT_EXPECT_NOT_NULL(test, strstr(list, "inherit none tail_latency"));
	KUNIT_EXPECT_NOT_NULL(test, strstr(list, " pack energy"));
}

static struct kunit_case steer_words_cases[] = {
	KUNIT_CASE(steer_test_refusal),
	KUNIT_CASE(steer_test_quote),
	KUNIT_CASE(steer_test_accepted),
	KUNIT_CASE(steer_test_refused),
	KUNIT_CASE(steer_test_edited),
	KUNIT_CASE(steer_test_profiles),
	KUNIT_CASE(steer_test_resolved),
	KUNIT_CASE(steer_test_unavailable),
	KUNIT_CASE(steer_test_bounds),
	KUNIT_CASE_SLOW(steer_test_all_sets),
	KUNIT_CASE_SLOW(steer_test_all_edits),
	KUNIT_CASE_SLOW(steer_test_noise),
	{ }
};

static struct kunit_suite steer_words_suite = {
	.name = "steer_words",
	.test_cases = steer_words_cases,
};

kunit_test_suite(steer_words_suite);

MODULE_DESCRIPTION("KUnit tests for the words of cpu.hint");
MODULE_LICENSE("GPL");
