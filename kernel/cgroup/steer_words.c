// SPDX-License-Identifier: GPL-2.0-only
/*
 * The words of cpu.hint: parsing, canonical form, profiles, resolution.
 *
 * Pure functions: they take what they need as arguments, touch nothing else,
 * and take no lock. The hierarchy is in steer.c, the mechanism in
 * kernel/sched/steer_hint.c.
 *
 * The grammar of a write:
 *
 *	"inherit" | "none" | [profile] word... | (+word | -word)...
 *
 * A word after a profile replaces the profile's word of the same category.
 * Edits apply to the set in force. Where that is inherited, they apply to the
 * inherited words and the group stops following its ancestor; where a profile
 * supplies the word to be removed, the profile dissolves into its words. Edits
 * are collected, then made, so that "-wake_affine +wake_hold" and "+wake_hold
 * -wake_affine" mean the same; of several edits of one word the last counts.
 */
#include <linux/array_size.h>
#include <linux/bits.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/sched/steer.h>
#include <linux/string.h>
#include <linux/string_helpers.h>

static const char * const steer_word_names[] = {
	"fork_affine",
	"fork_spread",
	"wake_affine",
	"wake_hold",
	"wake_wide",
	"scan_full",
	"scan_none",
	"slice_short",
	"slice_long",
	"preempt_none",
	"pack",
	"energy",
};

static_assert(ARRAY_SIZE(steer_word_names) == STEER_NR_WORDS);

static const u32 steer_categories[] = {
	STEER_FORK,
	STEER_WAKE,
	STEER_REACH,
	STEER_SCAN,
	STEER_SLICE,
	STEER_PREEMPT,
	STEER_PACK,
	STEER_ENERGY,
};

/*
 * Peter Zijlstra's five kinds of work. The index, counted from one, is what a
 * request stores. "background" is "noninteractive" that in addition does not
 * preempt a running task when it wakes up.
 */
static const struct {
	const char	*name;
	u32		words;
} steer_profiles[] = {
	{ "tail_latency",   STEER_SCAN_FULL | STEER_WAKE_WIDE },
	{ "interactive",    STEER_SCAN_FULL | STEER_SLICE_SHORT },
	{ "noninteractive", STEER_SCAN_NONE | STEER_SLICE_LONG | STEER_PACK },
	{ "background",     STEER_SCAN_NONE | STEER_SLICE_LONG | STEER_PACK |
			    STEER_PREEMPT_NONE },
	{ "efficient",      STEER_ENERGY | STEER_PACK },
};

static u32 steer_word_lookup(const char *name)
{
	int i = match_string(steer_word_names, STEER_NR_WORDS, name);

	return i < 0 ? 0 : BIT(i);
}

/* Returns the profile's number, shifted into place, or 0. */
static u32 steer_profile_lookup(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(steer_profiles); i++) {
		if (!strcmp(name, steer_profiles[i].name))
			return (i + 1) << STEER_PROFILE_SHIFT;
	}
	return 0;
}

static u32 steer_profile_words(u32 request)
{
	u32 nr = (request & STEER_PROFILE) >> STEER_PROFILE_SHIFT;

	if (!nr || nr > ARRAY_SIZE(steer_profiles))
		return 0;
	return steer_profiles[nr - 1].words;
}

/**
 * steer_words_conflict - do two words of one category meet?
 * @words: set of STEER_* words
 *
 * Return: true if some category has more than one word in @words.
 */
bool steer_words_conflict(u32 words)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(steer_categories); i++) {
		if (hweight32(words & steer_categories[i]) > 1)
			return true;
	}
	return false;
}

/**
 * steer_request_words - the words that a request stands for
 * @request: an explicit request
 *
 * Return: the profile's words, refined by the request's own; 0 for "none" and
 * for "inherit".
 */
u32 steer_request_words(u32 request)
{
	u32 own = request & STEER_WORDS;
	u32 words = steer_profile_words(request);
	int i;

	for (i = 0; i < ARRAY_SIZE(steer_categories); i++) {
		if (own & steer_categories[i])
			words &= ~steer_categories[i];
	}
	return words | own;
}

/**
 * steer_request_resolve - the effective words of a group
 * @request: what was written to the group
 * @inherited: effective words of its parent
 *
 * Return: the words of @request if it is explicit, otherwise @inherited.
 */
u32 steer_request_resolve(u32 request, u32 inherited)
{
	return request & STEER_EXPLICIT ? steer_request_words(request) : inherited;
}

/* Words that say what the profile says anyway are not shown, so not kept. */
static u32 steer_request_canonical(u32 request)
{
	return request & ~(steer_profile_words(request) & STEER_WORDS);
}

/* Removals come first, so that the order of the edits does not show. */
static u32 steer_edit(u32 request, u32 add, u32 remove)
{
	if (steer_profile_words(request) & steer_request_words(request) & remove)
		request = STEER_EXPLICIT | steer_request_words(request);
	return (request & ~remove) | add;
}

static int steer_refused(struct steer_refusal *refusal, const char *word,
			 const char *why)
{
	refusal->word = word;
	refusal->why = why;
	return -EINVAL;
}

/* What is wrong with a word that is not one of the words, or not here. */
static const char *steer_why_no_word(const char *word)
{
	if (steer_profile_lookup(word) || !strcmp(word, "inherit") ||
	    !strcmp(word, "none"))
		return "has to be the first word, and no edit";
	return "is not known";
}

/**
 * steer_request_parse - turn a line written to cpu.hint into a request
 * @line: NUL-terminated text; consumed
 * @current_request: the request in force, which edits start from
 * @inherited: effective words of the parent, which edits start from where
 *	@current_request is "inherit"
 * @request: result; untouched on failure
 * @refusal: why it failed; points into @line
 *
 * Words may be separated by any white space.
 *
 * Return: 0, or -EINVAL for a word that is not known, for two words of one
 * category, for a profile that is not the first word, and for words beside
 * "inherit" or "none".
 */
int steer_request_parse(char *line, u32 current_request, u32 inherited,
			u32 *request, struct steer_refusal *refusal)
{
	u32 result = STEER_EXPLICIT;
	u32 add = 0, remove = 0;
	bool edit = false;
	bool last = false;
	int count = 0;
	char *token;

	*refusal = (struct steer_refusal){ };
	while ((token = strsep(&line, " \t\n\r\v\f"))) {
		bool signed_token = *token == '+' || *token == '-';
		u32 bits;

		if (!*token)
			continue;
		if (last)
			return steer_refused(refusal, token,
					     "is beside a word that stands alone");

		if (!count++)
			edit = signed_token;
		if (edit != signed_token)
			return steer_refused(refusal, token,
					     "mixes edits with plain words");

		if (edit) {
			bits = steer_word_lookup(token + 1);
			if (!bits)
				return steer_refused(refusal, token,
						     steer_why_no_word(token + 1));
			add &= ~bits;
			remove &= ~bits;
			*(*token == '+' ? &add : &remove) |= bits;
			continue;
		}

		if (count == 1) {
			if (!strcmp(token, "inherit")) {
				result = STEER_INHERIT;
				last = true;
				continue;
			}
			if (!strcmp(token, "none")) {
				result = STEER_NONE;
				last = true;
				continue;
			}
			bits = steer_profile_lookup(token);
			if (bits) {
				result |= bits;
				continue;
			}
		}

		bits = steer_word_lookup(token);
		if (!bits)
			return steer_refused(refusal, token, steer_why_no_word(token));
		if (result & bits)
			return steer_refused(refusal, token, "is there twice");
		if (steer_words_conflict((result | bits) & STEER_WORDS))
			return steer_refused(refusal, token,
					     "is of the same category as another word");
		result |= bits;
	}

	if (edit) {
		result = current_request & STEER_EXPLICIT ? current_request :
			 STEER_EXPLICIT | inherited;
		result = steer_edit(result, add, remove);
	}
	if (!count)
		return steer_refused(refusal, "", "is no word");
	if (steer_words_conflict(result & STEER_WORDS))
		return steer_refused(refusal, "",
				     "leaves two words of one category");

	*request = steer_request_canonical(result);
	return 0;
}

/**
 * steer_quote - what of a text can be put into the kernel log
 * @text: NUL-terminated, from user space
 * @bytes: how much of it at most
 * @quoted: result, NUL-terminated, of STEER_QUOTED(@bytes) bytes: what is not printable
 *	ASCII is escaped, and so is what could end a quotation; "..." tells that there was
 *	more
 */
void steer_quote(const char *text, size_t bytes, char *quoted)
{
	size_t length = strnlen(text, bytes + 1);
	int end = string_escape_mem(text, min(length, bytes), quoted, 4 * bytes,
				    ESCAPE_HEX | ESCAPE_NAP | ESCAPE_APPEND, "\"\\");

	strscpy(quoted + end, length > bytes ? "..." : "", STEER_QUOTED(bytes) - end);
}

static int steer_append(char *line, size_t size, int len, const char *name,
			const char *suffix)
{
	return len + scnprintf(line + len, size - len, "%s%s%s", len ? " " : "",
			       name, suffix);
}

static int steer_append_words(char *line, size_t size, int len, u32 words,
			      u32 available)
{
	int i;

	for (i = 0; i < STEER_NR_WORDS; i++) {
		if (words & BIT(i))
			len = steer_append(line, size, len, steer_word_names[i],
					   available & BIT(i) ? "" : ":unavailable");
	}
	return len;
}

/**
 * steer_vocabulary - what cpu.hint takes
 * @line: buffer; STEER_VOCABULARY_MAX bytes suffice
 * @size: its size
 *
 * Return: length of the text, without the NUL.
 */
int steer_vocabulary(char *line, size_t size)
{
	int len = scnprintf(line, size, "inherit none");
	int i;

	for (i = 0; i < ARRAY_SIZE(steer_profiles); i++)
		len = steer_append(line, size, len, steer_profiles[i].name, "");
	return steer_append_words(line, size, len, STEER_WORDS, STEER_WORDS);
}

/**
 * steer_request_format - the line that cpu.hint shows
 * @request: the group's request
 * @line: buffer; STEER_LINE_MAX bytes always suffice
 * @size: its size
 *
 * Writing the line back gives the same request.
 *
 * Return: length of the text, without the NUL.
 */
int steer_request_format(u32 request, char *line, size_t size)
{
	u32 nr = (request & STEER_PROFILE) >> STEER_PROFILE_SHIFT;
	int len = 0;

	if (!(request & STEER_EXPLICIT))
		return steer_append(line, size, 0, "inherit", "");

	if (nr && nr <= ARRAY_SIZE(steer_profiles))
		len = steer_append(line, size, 0, steer_profiles[nr - 1].name, "");
	len = steer_append_words(line, size, len, request, STEER_WORDS);
	if (!len)
		len = steer_append(line, size, 0, "none", "");
	return len;
}

/**
 * steer_words_format - the line that cpu.hint.effective shows
 * @words: effective words
 * @available: words that this machine can honour
 * @line: buffer; STEER_LINE_MAX bytes always suffice
 * @size: its size
 *
 * A word that is not @available carries the suffix ":unavailable".
 *
 * Return: length of the text, without the NUL.
 */
int steer_words_format(u32 words, u32 available, char *line, size_t size)
{
	int len = steer_append_words(line, size, 0, words, available);

	return len ?: steer_append(line, size, 0, "none", "");
}
