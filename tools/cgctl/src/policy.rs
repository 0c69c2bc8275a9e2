// SPDX-License-Identifier: GPL-2.0-only
//! Policies: a TOML file that says what groups should have.
//!
//! ```text
//! [unit."nginx.service"]
//! hint = "tail_latency"
//! headroom = 30
//!
//! [unit."batch-*.service"]
//! hint = "background"
//!
//! [group."containers/web"]
//! gang = true
//! "gang.scope" = "llc"
//! ```
//!
//! A name in full comes before a pattern, a longer pattern before a shorter one; between two of the same length the
//! file has to agree with itself. Groups that the file does not speak of stay as they are, and so do keys.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};
use crate::hint::Request;
use crate::nearest::suggestion;
use crate::set::{Options, Plan};
use crate::setting::{Key, Settings};
use crate::state::State;
use crate::tree::{base, normalise, Tree};
use crate::unit;

/// Keys know their place in the file. Values do not: a table that is there only because one below it is has none.
type Table<T> = BTreeMap<Spanned<String>, T>;

#[derive(Deserialize)]
#[serde(transparent)]
struct File(Table<toml::Value>);

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Unit(String),
    Group(String),
}

#[derive(Clone, Debug)]
pub struct Rule {
    pub subject: Subject,
    pub settings: Settings,
    pub line: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub rules: Vec<Rule>,
}

/// "*" is any text, "?" one character, "[a-c]" and "[!x]" one of a set. A "\" is itself: units have it in their names.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => match set(&pattern[p..], text[t]) {
                Some((true, length)) => Some(length),
                Some((false, _)) => None,
                None => (text[t] == '[').then_some(1),
            },
            Some(c) => (*c == text[t]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => (p, t) = (p + step, t + 1),
            (None, Some((after, from))) => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether a set takes a character, and how long the set is; None where it is not closed.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let begin = if negated { 2 } else { 1 };
    let end = begin + 1 + pattern.get(begin + 1..)?.iter().position(|c| *c == ']')?;
    let (mut i, mut found) = (begin, false);
    while i < end {
        if i + 2 < end && pattern[i + 1] == '-' {
            found |= pattern[i] <= c && c <= pattern[i + 2];
            i += 3;
        } else {
            found |= pattern[i] == c;
            i += 1;
        }
    }
    Some((found != negated, end + 1))
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

impl Subject {
    fn text(&self) -> &str {
        match self {
            Subject::Unit(text) | Subject::Group(text) => text,
        }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Subject::Unit(name) => unit::from_cgroup_name(base(path)).is_some_and(|unit| glob(name, unit)),
            Subject::Group(pattern) => glob(pattern, path),
        }
    }

    /// Names in full come first, then long patterns.
    fn rank(&self) -> (bool, usize) {
        (!is_pattern(self.text()), self.text().len())
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Unit(name) => write!(f, "unit {name}"),
            Subject::Group(path) => write!(f, "group /{path}"),
        }
    }
}

/// What a group should have.
struct Wanted {
    path: String,
    settings: Settings,
    /// Whether some rule has its name in full.
    named: bool,
}

/// Text of a policy, for messages that name lines.
struct Text<'a> {
    name: &'a str,
    text: &'a str,
}

impl Text<'_> {
    fn line(&self, span: Range<usize>) -> usize {
        self.text.as_bytes()[..span.start.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn error(&self, span: Range<usize>, message: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{}:{}: {message}", self.name, self.line(span)))
    }
}

impl Policy {
    /// Read a policy; everything that is wrong with it is found here.
    pub fn parse(name: &str, content: &str) -> Result<Policy> {
        let text = Text { name, text: content };
        let broken = |e: toml::de::Error| text.error(e.span().unwrap_or(0..0), e.message());
        let File(kinds) = toml::from_str(content).map_err(broken)?;
        let mut rules = Vec::new();
        for kind in kinds.keys() {
            if !matches!(kind.get_ref().as_str(), "unit" | "group") {
                return Err(text.error(kind.span(), format!("unknown table '{}'{}; known: unit group", kind.get_ref(),
                                                           suggestion(kind.get_ref(), ["unit", "group"]))));
            }
        }
        #[derive(Deserialize)]
        struct Rules {
            #[serde(default)]
            unit: Table<Table<toml::Value>>,
            #[serde(default)]
            group: Table<Table<toml::Value>>,
        }
        let found: Rules = toml::from_str(content).map_err(broken)?;
        for (is_unit, table) in [(true, found.unit), (false, found.group)] {
            for (subject, values) in table {
                rules.push(Self::rule(&text, is_unit, &subject, &values)?);
            }
        }
        rules.sort_by_key(|rule| rule.line);
        Ok(Policy { rules })
    }

    fn rule(text: &Text, is_unit: bool, name: &Spanned<String>, values: &Table<toml::Value>) -> Result<Rule> {
        let at = |e: Error| text.error(name.span(), e.message);
        let subject = if is_unit {
            let unit = name.get_ref();
            let typed = unit.rsplit_once('.').is_some_and(|(_, kind)| unit::TYPES.contains(&kind) || is_pattern(kind));
            if !typed || unit.contains('/') {
                return Err(at(Error::invalid(format!("'{unit}' is no name of a unit; it ends in one of: .{}",
                                                     unit::TYPES.join(" .")))));
            }
            Subject::Unit(unit.clone())
        } else {
            let path = normalise(name.get_ref()).map_err(at)?;
            if path.is_empty() {
                return Err(at(Error::invalid("the root group has none of these files")));
            }
            Subject::Group(path)
        };
        let mut settings = Settings::new();
        let mut put = |name: &str, span: Range<usize>, value: &toml::Value| -> Result<()> {
            let wrong = |e: Error| text.error(span.clone(), e.message);
            let key = Key::from_name(name).map_err(wrong)?;
            let plain = match value {
                toml::Value::String(value) => value.clone(),
                toml::Value::Boolean(value) if key == Key::Gang => value.to_string(),
                toml::Value::Integer(value) => value.to_string(),
                toml::Value::Float(value) if key == Key::Headroom => value.to_string(),
                other => return Err(wrong(Error::invalid(format!("{} cannot be a value of type {}", key.name(),
                                                                 other.type_str())))),
            };
            let value = key.parse(&plain).map_err(wrong)?;
            if key == Key::Hint && Request::is_edit(&value) {
                return Err(wrong(Error::invalid("hint: an edit (+word, -word) does not say what the group should have")));
            }
            match settings.insert(key, value) {
                Some(_) => Err(wrong(Error::invalid(format!("{} is given twice", key.name())))),
                None => Ok(()),
            }
        };
        for (key, value) in values {
            match value {
                // "gang.scope" without quotes is a table for TOML.
                toml::Value::Table(inner) => {
                    for (below, value) in inner {
                        let name = if below == "enabled" { key.get_ref().clone() } else { format!("{}.{below}", key.get_ref()) };
                        put(&name, key.span(), value)?;
                    }
                }
                other => put(key.get_ref(), key.span(), other)?,
            }
        }
        Ok(Rule { subject, settings, line: text.line(name.span()) })
    }

    /// What it takes to make the tree as the policy says, and the rules that no group matches now.
    pub fn plan(&self, tree: &Tree, enable: bool) -> Result<(Plan, Vec<&Rule>)> {
        let mut used = vec![false; self.rules.len()];
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut problem = None;
        tree.walk("", &mut |group| {
            let mut rules: Vec<(usize, &Rule)> =
                self.rules.iter().enumerate().filter(|(_, rule)| rule.subject.matches(&group.path)).collect();
            if rules.is_empty() || group.path.is_empty() {
                return;
            }
            rules.sort_by_key(|(_, rule)| std::cmp::Reverse(rule.subject.rank()));
            let named = rules.iter().any(|(_, rule)| !is_pattern(rule.subject.text()));
            let mut settings: BTreeMap<Key, (String, &Rule)> = BTreeMap::new();
            for (i, rule) in rules {
                used[i] = true;
                for (key, value) in &rule.settings {
                    let (known, first) = settings.entry(*key).or_insert_with(|| (value.clone(), rule));
                    if known != value && first.subject.rank() == rule.subject.rank() && problem.is_none() {
                        problem = Some(Error::invalid(format!(
                            "/{}: lines {} and {} match it equally well and want different {}", group.path, first.line,
                            rule.line, key.name())));
                    }
                }
            }
            let settings = settings.into_iter().map(|(key, (value, _))| (key, value)).collect();
            wanted.push(Wanted { path: group.path.clone(), settings, named });
        })?;
        if let Some(problem) = problem {
            return Err(problem);
        }
        let mut plan = Plan::default();
        for Wanted { path, settings, named } in wanted {
            plan.add(tree, &path, &settings, Options { enable, may_vanish: !named, ..Options::default() })?;
        }
        plan.enable.sort_unstable();
        plan.enable.dedup();
        Ok((plan, self.rules.iter().zip(used).filter(|(_, used)| !used).map(|(rule, _)| rule).collect()))
    }
}

/// The policy that says what groups have now.
pub fn dump(states: &[State]) -> String {
    let mut out = String::from("# Written by cgctl dump.\n");
    let mut units: Vec<&str> = states.iter().filter_map(|s| unit::from_cgroup_name(base(&s.path))).collect();
    units.sort_unstable();
    let quote = |text: &str| toml::Value::String(text.into()).to_string();
    for state in states {
        // A unit by its name, unless users have some of the same name.
        let name = unit::from_cgroup_name(base(&state.path)).filter(|unit| units.iter().filter(|u| *u == unit).count() == 1);
        let header = match name {
            Some(unit) => format!("unit.{}", quote_key(unit)),
            None => format!("group.{}", quote_key(&state.path)),
        };
        out += &format!("\n[{header}]\n");
        for (key, value) in state.own() {
            out += &match key {
                Key::Hint => format!("hint = {}\n", quote(value)),
                Key::Gang => format!("gang = {}\n", value == "1"),
                Key::GangScope => format!("\"gang.scope\" = {}\n", quote(value)),
                Key::Headroom => format!("headroom = {}\n", quote(value)),
            };
        }
    }
    out
}

/// A name with quotes around it, and escapes where TOML wants them.
fn quote_key(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use crate::tree::Host;
    use proptest::prelude::*;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("batch-*.service", "batch-a.service", true), ("batch-*.service", "batch.service", false), ("*", "", true),
            ("a?c", "abc", true), ("[a-c]x", "bx", true), ("[!a-c]x", "bx", false), ("a\\x2d*", "a\\x2db", true),
            ("**a", "bba", true), ("[", "[", true), ("*.slice", "a.slice/b", false), ("a*b*c", "aXbYbZc", true),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }

    const POLICY: &str = "[unit.\"nginx.service\"]\nhint = \"tail_latency\"\nheadroom = 30\n\n\
                          [unit.\"batch-*.service\"]\nhint = \"background\"\n\n\
                          [group.\"/a/b\"]\ngang = true\n\"gang.scope\" = \"core\"\n";

    fn tree() -> (TempDir, Tree) {
        let dir = TempDir::new();
        for path in ["", "system.slice/nginx.service", "system.slice/batch-1.service", "system.slice/batch-2.service",
                     "a", "a/b"] {
            dir.group(path);
        }
        dir.file("sys/fs/cgroup/system.slice/cgroup.subtree_control", "cpu\n");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        (dir, tree)
    }

    #[test]
    fn applied_twice_changes_once() {
        let (_dir, tree) = tree();
        let policy = Policy::parse("p.toml", POLICY).unwrap();
        let (plan, unused) = policy.plan(&tree, false).unwrap();
        let texts: Vec<String> = plan.changes().map(ToString::to_string).collect();
        assert_eq!(texts, ["/a/b: gang.scope llc -> core", "/a/b: gang 0 -> 1",
                           "/system.slice/batch-1.service: hint inherit -> background",
                           "/system.slice/batch-2.service: hint inherit -> background",
                           "/system.slice/nginx.service: hint inherit -> tail_latency",
                           "/system.slice/nginx.service: headroom 0.00 -> 30.00"]);
        assert!(unused.is_empty());
        plan.commit(&tree).unwrap();
        assert!(policy.plan(&tree, false).unwrap().0.is_empty());
        let states = crate::state::policies(&tree, "").unwrap();
        let again = Policy::parse("dump", &dump(&states)).unwrap();
        assert!(again.plan(&tree, false).unwrap().0.is_empty(), "what is dumped describes what is there");
        assert_eq!(again.rules.len(), 4);
    }

    #[test]
    fn the_more_exact_rule_wins() {
        let (_dir, tree) = tree();
        let policy = Policy::parse("p", "[unit.\"*.service\"]\nhint = \"pack\"\n[unit.\"batch-1.service\"]\nhint = \"none\"\n\
                                         [unit.\"batch-*.service\"]\nhint = \"efficient\"\n").unwrap();
        let (plan, _) = policy.plan(&tree, false).unwrap();
        let values: Vec<&str> = plan.changes().map(|c| c.new.as_str()).collect();
        assert_eq!(values, ["none", "efficient", "pack"]);
        let policy = Policy::parse("p", "[unit.\"batch-1.*\"]\nhint = \"pack\"\n[unit.\"batch*ice\"]\n").unwrap_err();
        assert!(policy.message.contains("p:3"), "{policy}");
        let policy = Policy::parse("p", "[group.\"a/?\"]\nhint = \"pack\"\n[group.\"?/b\"]\nhint = \"none\"\n").unwrap();
        assert!(policy.plan(&tree, false).unwrap_err().message.contains("lines 1 and 3"));
    }

    #[test]
    fn scope_with_and_without_quotes() {
        for text in ["[group.a]\ngang.scope = \"node\"\n", "[group.a]\n\"gang.scope\" = \"node\"\n",
                     "[group.a]\ngang = { enabled = true, scope = \"node\" }\n"] {
            let policy = Policy::parse("p", text).unwrap();
            assert_eq!(policy.rules[0].settings[&Key::GangScope], "node", "{text}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, want) in [
            ("[unit.\"a.service\"]\nhint = \"wake_afine\"\n", "p:2: hint: unknown word 'wake_afine' (did you mean 'wake_affine'?)"),
            ("[unit.\"a.service\"]\nhnt = 1\n", "p:2: unknown key 'hnt' (did you mean 'hint'?)"),
            ("[unit.\"a.timer\"]\nhint = \"pack\"\n", "p:1: 'a.timer' is no name of a unit"),
            ("\n[units.a]\n", "p:2: unknown table 'units' (did you mean 'unit'?)"),
            ("[group.\"a/../b\"]\n", "p:1: 'a/../b': '..' has no place"),
            ("[group.a]\nheadroom = 101\n", "p:2: headroom: 101 is out of range"),
            ("[group.a]\nhint = \"+pack\"\n", "p:2: hint: an edit"),
            ("[group.a]\nhint = [\"pack\"]\n", "p:2: hint cannot be a value of type array"),
            ("[group.a\n", "p:1:"),
        ] {
            let error = Policy::parse("p", text).unwrap_err();
            assert!(error.message.starts_with(want), "{text:?}: {error}");
        }
    }

    #[test]
    fn rules_without_a_group() {
        let (_dir, tree) = tree();
        let policy = Policy::parse("p", "[unit.\"gone.service\"]\nhint = \"pack\"\n").unwrap();
        let (plan, unused) = policy.plan(&tree, false).unwrap();
        assert!(plan.is_empty());
        assert_eq!(unused[0].subject.to_string(), "unit gone.service");
    }

    proptest! {
        #[test]
        fn any_text(text in "(\\PC|\n|\\[unit\\.\"a\\.service\"\\]\n|hint = |\"pack\"\n)*") {
            let _ = Policy::parse("p", &text);
        }

        #[test]
        fn any_dump(path in "[a-z\\\\\"/ \\PC]{1,20}", hint in "pack|efficient|wake_hold", gang in any::<bool>()) {
            if let Ok(path) = normalise(&path) {
                if !path.is_empty() {
                    let state = State { path: path.clone(), hint: Some(hint.clone()),
                                        gang: Some(if gang { "1" } else { "0" }.into()), ..State::default() };
                    let policy = Policy::parse("dump", &dump(&[state])).unwrap();
                    prop_assert_eq!(&policy.rules[0].settings[&Key::Hint], &hint);
                }
            }
        }

        #[test]
        fn glob_is_itself(text in "[a-z.@/-]{0,20}", pattern in "[a-c*?!\\[\\]-]{0,12}") {
            prop_assert!(glob(&text, &text));
            prop_assert!(glob("*", &text));
            glob(&pattern, &text);
        }
    }
}
