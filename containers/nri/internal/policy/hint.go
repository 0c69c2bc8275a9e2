// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Words of cpu.hint, in the kernel's order. The kernel's table is in kernel/cgroup/steer_words.c; a test compares.
var Words = []string{
	"fork_affine", "fork_spread", "wake_affine", "wake_hold", "wake_wide", "scan_full", "scan_none", "slice_short",
	"slice_long", "preempt_none", "pack", "energy",
}

// Profiles are words that stand for a combination, and come first.
var Profiles = []string{"tail_latency", "interactive", "noninteractive", "background", "efficient"}

// Categories are sets of words of which at most one may be given: their bits, in the order of Words.
var Categories = []struct {
	Name string
	Mask uint32
}{
	{"fork", 0x003}, {"wake", 0x00c}, {"reach", 0x010}, {"scan", 0x060}, {"slice", 0x180}, {"preempt", 0x200},
	{"pack", 0x400}, {"energy", 0x800},
}

// checkHint checks a line for cpu.hint by the kernel's rules, and returns it with single blanks between its words.
//
// Edits (+word, -word) start from the words that a group has. A new container has none of its own, and an update would
// make the same edit again; so they are refused, though the kernel takes them.
func checkHint(line string) (string, error) {
	words := fields(line)
	if len(words) == 0 {
		return "", fmt.Errorf("no word; use 'inherit' or 'none' to have no hint of its own")
	}
	if err := checkText(line); err != nil {
		return "", err
	}
	var seen uint32
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "+") || strings.HasPrefix(word, "-"):
			return "", fmt.Errorf("%s is an edit of words that are there already, and a new container has none; "+
				"name the words themselves", quote(word))
		case word == "inherit" || word == "none":
			if len(words) > 1 {
				return "", fmt.Errorf("'%s' stands alone", word)
			}
		case slices.Contains(Profiles, word):
			if i > 0 {
				return "", fmt.Errorf("the profile '%s' has to be the first word, and the only profile", word)
			}
		default:
			number := slices.Index(Words, word)
			if number < 0 {
				return "", unknownWord(word, i == 0)
			}
			if seen&(1<<number) != 0 {
				return "", fmt.Errorf("'%s' is there twice", word)
			}
			seen |= 1 << number
		}
	}
	for _, category := range Categories {
		if both := seen & category.Mask; bits.OnesCount32(both) > 1 {
			return "", fmt.Errorf("'%s' are both of the category '%s', which takes one word",
				strings.Join(wordNames(both), "' and '"), category.Name)
		}
	}
	return strings.Join(words, " "), nil
}

// blanks are what the kernel takes for blanks. Those of Unicode are none: the file's owner would not see the difference.
const blanks = " \t\n\r\v\f"

// fields splits at blanks.
func fields(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(blanks, r) })
}

// trim takes blanks away on both sides.
func trim(text string) string { return strings.Trim(text, blanks) }

func wordNames(set uint32) []string {
	var names []string
	for i, word := range Words {
		if set&(1<<i) != 0 {
			names = append(names, word)
		}
	}
	return names
}

func unknownWord(word string, first bool) error {
	known := slices.Clone(Words)
	if first {
		known = append(append(known, Profiles...), "inherit", "none")
	}
	return fmt.Errorf("unknown word %s%s; known: %s", quote(word), Suggestion(word, known), strings.Join(known, " "))
}
