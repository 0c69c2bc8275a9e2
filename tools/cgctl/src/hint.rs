// SPDX-License-Identifier: GPL-2.0-only
//! The words of `cpu.hint`, by the kernel's own rules (kernel/cgroup/steer_words.c).
//!
//! ```text
//! "inherit" | "none" | [profile] word... | (+word | -word)...
//! ```
//!
//! The kernel has the last word on every write. The rules are here as well because several files are set together or
//! not at all, because a policy is checked before anything is written, and because the kernel can only say EINVAL.

use crate::error::{Error, Result};
use crate::nearest::suggestion;

pub const WORDS: [&str; 12] = [
    "fork_affine", "fork_spread", "wake_affine", "wake_hold", "wake_wide", "scan_full", "scan_none", "slice_short",
    "slice_long", "preempt_none", "pack", "energy",
];

/// Category -> its words, at most one of which may be set.
const CATEGORIES: [(&str, u32); 8] = [
    ("fork", 0x003), ("wake", 0x00c), ("reach", 0x010), ("scan", 0x060), ("slice", 0x180), ("preempt", 0x200),
    ("pack", 0x400), ("power", 0x800),
];

pub const PROFILES: [(&str, u32); 5] = [
    ("tail_latency", 0x030), ("interactive", 0x0a0), ("noninteractive", 0x540), ("background", 0x740),
    ("efficient", 0xc00),
];

/// What a group says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Request {
    #[default]
    Inherit,
    /// A profile, by its place in the table, and words that refine it. With neither, it is "none".
    Explicit { profile: Option<usize>, own: u32 },
}

fn bit(word: &str) -> Option<u32> {
    WORDS.iter().position(|known| *known == word).map(|i| 1 << i)
}

/// What is wrong with a word, and what would be right.
fn unknown(word: &str, first: bool) -> Error {
    let mut known: Vec<&str> = WORDS.to_vec();
    if first {
        known.extend(PROFILES.iter().map(|(name, _)| *name));
        known.extend(["inherit", "none"]);
    }
    Error::invalid(format!("hint: unknown word '{word}'{}; known: {}", suggestion(word, known.iter().copied()),
                           known.join(" ")))
}

fn conflict(words: u32) -> Result<()> {
    for (category, mask) in CATEGORIES {
        if (words & mask).count_ones() > 1 {
            let both: Vec<&str> = names(words & mask).collect();
            return Err(Error::invalid(format!("hint: '{}' are both of the category '{category}', which takes one word",
                                              both.join("' and '"))));
        }
    }
    Ok(())
}

fn names(words: u32) -> impl Iterator<Item = &'static str> {
    WORDS.iter().enumerate().filter(move |(i, _)| words & (1 << i) != 0).map(|(_, name)| *name)
}

impl Request {
    /// The words that it stands for: the profile's, refined by its own.
    pub fn words(self) -> u32 {
        match self {
            Request::Inherit => 0,
            Request::Explicit { profile, own } => {
                let mut words = profile.map_or(0, |i| PROFILES[i].1);
                for (_, mask) in CATEGORIES {
                    if own & mask != 0 {
                        words &= !mask;
                    }
                }
                words | own
            }
        }
    }

    /// The words in force where it stands.
    pub fn resolve(self, inherited: u32) -> u32 {
        if self == Request::Inherit { inherited } else { self.words() }
    }

    /// Read a line as the kernel would. Edits start from `current`, or from `inherited` where that inherits.
    pub fn parse(line: &str, current: Request, inherited: u32) -> Result<Request> {
        let tokens: Vec<&str> = line.split([' ', '\t', '\n', '\r', '\x0b', '\x0c']).filter(|t| !t.is_empty()).collect();
        let Some(first) = tokens.first() else {
            return Err(Error::invalid("hint: no word; use 'inherit' or 'none' to have no hint of its own"));
        };
        let signed = |token: &str| token.starts_with(['+', '-']);
        let edit = signed(first);
        if tokens.iter().any(|token| signed(token) != edit) {
            return Err(Error::invalid("hint: edits (+word, -word) and plain words do not mix"));
        }
        let result = if edit { Self::edit(&tokens, current, inherited)? } else { Self::plain(&tokens)? };
        if let Request::Explicit { own, .. } = result {
            conflict(own)?;
        }
        Ok(result.canonical())
    }

    fn plain(tokens: &[&str]) -> Result<Request> {
        let (mut profile, mut own) = (None, 0);
        for (i, token) in tokens.iter().enumerate() {
            if matches!(*token, "inherit" | "none") {
                if tokens.len() > 1 {
                    return Err(Error::invalid(format!("hint: '{token}' stands alone")));
                }
                return Ok(if *token == "inherit" { Request::Inherit } else { Request::NONE });
            }
            if let Some(found) = PROFILES.iter().position(|(name, _)| name == token) {
                if i > 0 {
                    return Err(Error::invalid(format!("hint: the profile '{token}' has to be the first word, and the \
                                                       only profile")));
                }
                profile = Some(found);
                continue;
            }
            let word = bit(token).ok_or_else(|| unknown(token, i == 0))?;
            if own & word != 0 {
                return Err(Error::invalid(format!("hint: '{token}' is there twice")));
            }
            own |= word;
        }
        Ok(Request::Explicit { profile, own })
    }

    fn edit(tokens: &[&str], current: Request, inherited: u32) -> Result<Request> {
        let (mut add, mut remove) = (0, 0);
        for token in tokens {
            let word = bit(&token[1..]).ok_or_else(|| unknown(&token[1..], false))?;
            add &= !word;
            remove &= !word;
            *(if token.starts_with('+') { &mut add } else { &mut remove }) |= word;
        }
        let (mut profile, mut own) = match current {
            Request::Inherit => (None, inherited),
            Request::Explicit { profile, own } => (profile, own),
        };
        // Where the profile supplies the word to be removed, it dissolves into its words.
        let now = Request::Explicit { profile, own }.words();
        if profile.map_or(0, |i| PROFILES[i].1) & now & remove != 0 {
            (profile, own) = (None, now);
        }
        Ok(Request::Explicit { profile, own: (own & !remove) | add })
    }

    /// Words that say what the profile says anyway are not kept.
    fn canonical(self) -> Request {
        match self {
            Request::Explicit { profile: Some(i), own } =>
                Request::Explicit { profile: Some(i), own: own & !PROFILES[i].1 },
            other => other,
        }
    }

    pub const NONE: Request = Request::Explicit { profile: None, own: 0 };

    /// Whether it cannot be judged without the group's present value.
    pub fn is_edit(line: &str) -> bool {
        line.trim_start().starts_with(['+', '-'])
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Request::Inherit => f.write_str("inherit"),
            Request::Explicit { profile, own } => {
                let parts: Vec<&str> = profile.map(|i| PROFILES[i].0).into_iter().chain(names(own)).collect();
                f.write_str(&if parts.is_empty() { "none".into() } else { parts.join(" ") })
            }
        }
    }
}

/// Read `cpu.hint.effective`: the words, and those of them that this machine cannot honour.
pub fn parse_effective(line: &str) -> (u32, u32) {
    let (mut words, mut unavailable) = (0, 0);
    for token in line.split_ascii_whitespace() {
        let (word, suffix) = token.split_once(':').unwrap_or((token, ""));
        let value = bit(word).unwrap_or(0);
        words |= value;
        if suffix == "unavailable" {
            unavailable |= value;
        }
    }
    (words, unavailable)
}

/// Whether some word of a category is among them.
pub fn has_category(words: u32, category: &str) -> bool {
    CATEGORIES.iter().any(|(name, mask)| *name == category && words & mask != 0)
}

/// The words as `cpu.hint.effective` shows them.
pub fn format_words(words: u32) -> String {
    Request::Explicit { profile: None, own: words }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(line, Request::Inherit, 0)
    }

    #[test]
    fn plain_words() {
        assert_eq!(parse("inherit").unwrap(), Request::Inherit);
        assert_eq!(parse(" none\n").unwrap().to_string(), "none");
        assert_eq!(parse("pack wake_hold").unwrap().to_string(), "wake_hold pack");
        assert_eq!(format_words(parse("tail_latency").unwrap().words()), "wake_wide scan_full");
        assert_eq!(format_words(parse("tail_latency scan_none").unwrap().words()), "wake_wide scan_none");
        assert_eq!(parse("tail_latency scan_full").unwrap().to_string(), "tail_latency");
    }

    #[test]
    fn refused() {
        for line in ["", " \n", "none pack", "inherit none", "wake_affine wake_hold", "pack pack", "pack efficient",
                     "interactive background", "+pack wake_hold", "pack +energy", "+interactive", "+none", "turbo"] {
            assert!(parse(line).is_err(), "{line:?}");
        }
        let message = parse("wake_afine").unwrap_err().message;
        assert!(message.contains("did you mean 'wake_affine'") && message.contains("tail_latency"), "{message}");
        let message = parse("wake_affine wake_hold").unwrap_err().message;
        assert!(message.contains("'wake_affine' and 'wake_hold'") && message.contains("'wake'"), "{message}");
    }

    #[test]
    fn edits() {
        let tail = parse("tail_latency").unwrap();
        let edited = |line| Request::parse(line, tail, 0).unwrap().to_string();
        assert_eq!(edited("+pack"), "tail_latency pack");
        assert_eq!(edited("-wake_wide"), "scan_full");
        assert_eq!(edited("-wake_wide -scan_full"), "none");
        assert_eq!(edited("+pack -pack"), "tail_latency");
        // From the words that are inherited.
        assert_eq!(Request::parse("-pack", Request::Inherit, 0x408).unwrap().to_string(), "wake_hold");
        assert_eq!(Request::parse("-wake_affine +wake_hold", parse("wake_affine").unwrap(), 0).unwrap().to_string(),
                   "wake_hold");
        assert!(Request::parse("+wake_hold", parse("wake_affine").unwrap(), 0).is_err());
    }

    #[test]
    fn effective() {
        assert_eq!(parse_effective("pack energy:unavailable\n"), (0xc00, 0x800));
        assert_eq!(parse_effective("none\n"), (0, 0));
        assert_eq!(parse_effective("something_new wake_hold"), (0x8, 0));
    }

    proptest! {
        /// What is shown can be written back, and means the same.
        #[test]
        fn round_trip(profile in proptest::option::of(0usize..5), own in 0u32..0x1000) {
            let mut line: Vec<&str> = profile.map(|i| PROFILES[i].0).into_iter().collect();
            line.extend(names(own));
            if let Ok(request) = parse(&line.join(" ")) {
                prop_assert_eq!(parse(&request.to_string()).unwrap(), request);
                prop_assert!(conflict(request.words()).is_ok());
            }
        }

        #[test]
        fn any_text(line in "\\PC*", current in 0usize..5, inherited in 0u32..0x1000) {
            let current = Request::Explicit { profile: Some(current), own: 0 };
            if let Ok(request) = Request::parse(&line, current, inherited) {
                prop_assert!(conflict(request.words()).is_ok() || Request::is_edit(&line));
            }
        }

        #[test]
        fn any_words(tokens in proptest::collection::vec("[+-]?(wake_affine|wake_hold|pack|none|inherit|efficient)", 0..5)) {
            let line = tokens.join(" ");
            if let Ok(request) = parse(&line) {
                prop_assert_eq!(parse(&request.to_string()).unwrap(), request);
            }
        }
    }
}
