// SPDX-License-Identifier: GPL-2.0-only
//! The four things that can be set on a group: their names, files, values and how each is written.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::hint::Request;
use crate::nearest::suggestion;

/// What can be set. The order is that in which it is written: the scope before the gang that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Key {
    #[serde(rename = "hint")]
    Hint,
    #[serde(rename = "gang.scope")]
    GangScope,
    #[serde(rename = "gang")]
    Gang,
    #[serde(rename = "headroom")]
    Headroom,
}

pub const KEYS: [Key; 4] = [Key::Hint, Key::GangScope, Key::Gang, Key::Headroom];
pub const SCOPES: [&str; 4] = ["core", "llc", "node", "system"];

/// Key -> value as the kernel's file takes it.
pub type Settings = BTreeMap<Key, String>;

impl Key {
    /// As on the command line and in policies.
    pub fn name(self) -> &'static str {
        match self {
            Key::Hint => "hint",
            Key::GangScope => "gang.scope",
            Key::Gang => "gang",
            Key::Headroom => "headroom",
        }
    }

    pub fn file(self) -> &'static str {
        match self {
            Key::Hint => "cpu.hint",
            Key::GangScope => "cpu.gang.scope",
            Key::Gang => "cpu.gang",
            Key::Headroom => "cpu.headroom",
        }
    }

    /// The property in a unit file.
    pub fn property(self) -> &'static str {
        match self {
            Key::Hint => "X-CPUHint",
            Key::GangScope => "X-CPUGangScope",
            Key::Gang => "X-CPUGang",
            Key::Headroom => "X-CPUHeadroom",
        }
    }

    /// What a new group has.
    pub fn default_value(self) -> &'static str {
        match self {
            Key::Hint => "inherit",
            Key::GangScope => "llc",
            Key::Gang => "0",
            Key::Headroom => "0.00",
        }
    }

    pub fn from_name(name: &str) -> Result<Key> {
        let short = name.strip_prefix("cpu.").unwrap_or(name);
        KEYS.into_iter().find(|key| key.name() == short || (*key == Key::GangScope && short == "gang_scope"))
            .ok_or_else(|| {
                let known: Vec<&str> = KEYS.iter().map(|key| key.name()).collect();
                Error::invalid(format!("unknown key '{name}'{}; known: {}", suggestion(short, known.iter().copied()),
                                       known.join(" ")))
            })
    }

    /// Check a value as a person writes it, and turn it into what the file takes. An edit of the hint stays an edit:
    /// what it makes depends on the group.
    pub fn parse(self, value: &str) -> Result<String> {
        let value = value.trim();
        self.parse_own(value).map_err(|error| match self.meant(value) {
            Some(key) => Error::invalid(format!("{}; {}", error.message, misplaced(value, key))),
            None => error,
        })
    }

    /// The one other key that a value would do for, as "llc" for the scope.
    fn meant(self, value: &str) -> Option<Key> {
        let mut others = KEYS.into_iter().filter(|key| *key != self && key.parse_own(value).is_ok());
        others.next().filter(|_| others.next().is_none())
    }

    fn parse_own(self, value: &str) -> Result<String> {
        match self {
            Key::Hint => {
                let line = value.replace(',', " ");
                // An edit is tried on nothing, for its words; two of a category may meet only in the group.
                let request = Request::parse(&line, Request::Inherit, 0)?;
                Ok(if Request::is_edit(&line) {
                    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
                } else {
                    request.to_string()
                })
            }
            Key::Gang => match value.to_ascii_lowercase().as_str() {
                "1" | "yes" | "true" | "on" => Ok("1".into()),
                "0" | "no" | "false" | "off" => Ok("0".into()),
                _ => Err(Error::invalid(format!("gang: '{value}' is neither yes nor no"))),
            },
            Key::GangScope => SCOPES.iter().find(|scope| **scope == value).map(|scope| (*scope).into()).ok_or_else(|| {
                Error::invalid(format!("gang.scope: unknown scope '{value}'{}; known: {}",
                                       suggestion(value, SCOPES), SCOPES.join(" ")))
            }),
            Key::Headroom => Ok(format_percent(parse_percent(value)?)),
        }
    }
}

fn misplaced(value: &str, key: Key) -> String {
    let switch = if key == Key::GangScope { "gang=yes " } else { "" };
    format!("'{value}' is a value of another key: {switch}{}={value} ({}= in a unit)", key.name(), key.property())
}

/// Hundredths of a percent, from "30", "30%" or "12.5".
pub fn parse_percent(text: &str) -> Result<u32> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return Err(Error::invalid(format!("headroom: '{text}' is not a percentage such as 12.50")));
    }
    if fraction.len() > 2 {
        return Err(Error::invalid(format!("headroom: '{text}' has more than two decimals")));
    }
    let hundredths = whole.parse::<u32>().unwrap_or(u32::MAX).saturating_mul(100)
        .saturating_add(format!("{fraction:0<2}").parse().unwrap_or(0));
    if hundredths > 10_000 {
        return Err(Error::invalid(format!("headroom: {text} is out of range; it goes from 0.00 to 100.00")));
    }
    Ok(hundredths)
}

pub fn format_percent(hundredths: u32) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Read "key=value" words, each key once.
pub fn parse_assignments<S: AsRef<str>>(words: &[S]) -> Result<Settings> {
    let mut settings = Settings::new();
    for word in words {
        let word = word.as_ref();
        let Some((name, value)) = word.split_once('=') else {
            return Err(Error::invalid(format!("'{word}' is not key=value, as in hint=tail_latency")));
        };
        let key = Key::from_name(name)?;
        if settings.insert(key, key.parse(value)?).is_some() {
            return Err(Error::invalid(format!("{} is given twice", key.name())));
        }
    }
    Ok(settings)
}

/// Whether a file's content says the same as a value: "30" and "30.00" do.
pub fn same(key: Key, a: &str, b: &str) -> bool {
    a.trim() == b.trim() || matches!((key.parse(a), key.parse(b)), (Ok(a), Ok(b)) if a == b && !Request::is_edit(&a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentages() {
        assert_eq!(parse_percent("30").unwrap(), 3000);
        assert_eq!(parse_percent("12.5%").unwrap(), 1250);
        assert_eq!(parse_percent(" 0.07 ").unwrap(), 7);
        assert_eq!(parse_percent("100.00").unwrap(), 10_000);
        for bad in ["", "-1", "100.01", "1e2", "1.234", ".5", "5.", "max", "99999999999999999999", "1 0", "%"] {
            assert!(parse_percent(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys() {
        assert_eq!(Key::from_name("cpu.gang.scope").unwrap(), Key::GangScope);
        assert!(Key::from_name("headrom").unwrap_err().message.contains("did you mean 'headroom'"));
    }

    #[test]
    fn assignments() {
        let settings = parse_assignments(&["hint=pack,wake_hold", "gang=yes", "headroom=30%"]).unwrap();
        assert_eq!(settings[&Key::Hint], "wake_hold pack");
        assert_eq!(settings[&Key::Gang], "1");
        assert_eq!(settings[&Key::Headroom], "30.00");
        assert_eq!(parse_assignments(&["hint=+pack,-energy"]).unwrap()[&Key::Hint], "+pack -energy");
        for bad in [&["hint"][..], &["gang=maybe"], &["gang=1", "gang=0"], &["gang.scope=socket"]] {
            assert!(parse_assignments(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn values_of_another_key() {
        for (word, want) in [
            ("gang=llc", "neither yes nor no; 'llc' is a value of another key: gang=yes gang.scope=llc (X-CPUGangScope="),
            ("gang.scope=yes", "gang=yes (X-CPUGang= in a unit)"), ("hint=30%", "headroom=30% "),
            ("headroom=pack", "hint=pack "), ("hint=system", "gang=yes gang.scope=system "),
        ] {
            let message = parse_assignments(&[word]).unwrap_err().message;
            assert!(message.contains(want), "{word}: {message}");
        }
        // Several would take it, or none.
        for word in ["hint=1", "gang=maybe", "gang.scope=socket"] {
            assert!(!parse_assignments(&[word]).unwrap_err().message.contains("another key"), "{word}");
        }
    }

    #[test]
    fn sameness() {
        assert!(same(Key::Headroom, "30.00\n", "30"));
        assert!(same(Key::Hint, "wake_hold pack", "pack wake_hold"));
        assert!(!same(Key::Hint, "wake_hold", "pack"));
    }

    proptest! {
        #[test]
        fn percent_round_trip(hundredths in 0u32..=10_000) {
            prop_assert_eq!(parse_percent(&format_percent(hundredths)).unwrap(), hundredths);
        }

        #[test]
        fn any_value(value in "\\PC*") {
            for key in KEYS {
                if let Ok(written) = key.parse(&value) {
                    prop_assert_eq!(key.parse(&written).unwrap(), written);
                }
            }
        }
    }
}
