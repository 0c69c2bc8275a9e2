// SPDX-License-Identifier: GPL-2.0-only
//! The known word that somebody probably meant.

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
        // In which swapping two neighbours is one step, as in "efficeint".
        .map(|candidate| (strsim::osa_distance(&word, &plain(candidate)), candidate))
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
        assert_eq!(nearest("pakc", ["pack"]), Some("pack"), "a swap is one step, of one allowed");
    }

    #[test]
    fn far_words_are_not() {
        assert_eq!(nearest("turbo", ["wake_affine", "pack"]), None);
        assert_eq!(nearest("", ["pack"]), None);
        assert_eq!(suggestion("turbo", ["pack"]), "");
    }
}
