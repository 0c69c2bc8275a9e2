// SPDX-License-Identifier: Apache-2.0

package policy

import "strings"

// Suggestion returns " (did you mean 'x'?)" for the candidate that is nearest to word, or nothing where none is near
// enough to be meant. Case and the sign between words do not count, as in cgctl: "Wake-Affine" is "wake_affine".
func Suggestion(word string, candidates []string) string {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	if len(word) > 64 { // No word that is meant is that long, and the distance takes time.
		return ""
	}
	best, steps := "", max(len(word)/3, 1)+1
	for _, candidate := range candidates {
		if d := distance(plain(word), plain(candidate)); d < steps {
			best, steps = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean '" + best + "'?)"
}

// distance counts the characters to insert, remove, replace, or swap with their neighbour (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
