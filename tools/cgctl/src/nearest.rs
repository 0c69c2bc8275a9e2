// SPDX-License-Identifier: GPL-2.0-only
//! The known word that somebody probably meant.

/// Edit distance in which swapping two neighbours is one step, as in "efficeint".
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for j in 0..=b.len() {
        rows[0][j] = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// Case and the sign between words do not count: "Wake-Affine" is "wake_affine".
fn plain(word: &str) -> String {
    word.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// The candidate nearest to a word, if any is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &plain(candidate)), candidate))
        .filter(|(steps, _)| *steps <= limit)
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, candidate)| candidate)
}

/// " (did you mean 'x'?)", or nothing.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|meant| format!(" (did you mean '{meant}'?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found() {
        let words = ["wake_affine", "wake_hold", "efficient"];
        assert_eq!(nearest("wake_afine", words), Some("wake_affine"));
        assert_eq!(nearest("Wake-Affine", words), Some("wake_affine"));
        assert_eq!(nearest("efficeint", words), Some("efficient"));
        assert_eq!(distance("efficeint", "efficient"), 1);
    }

    #[test]
    fn far_words_are_not() {
        assert_eq!(nearest("turbo", ["wake_affine", "pack"]), None);
        assert_eq!(nearest("", ["pack"]), None);
        assert_eq!(suggestion("turbo", ["pack"]), "");
    }
}
