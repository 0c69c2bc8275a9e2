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

use glob::{MatchOptions, Pattern};
use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};
use crate::hint::Request;
use crate::name;
use crate::nearest::suggestion;
use crate::quoting;
use crate::set::{Options, Plan};
use crate::setting::{Key, Settings};
use crate::state::State;
use crate::tree::{display, normalise, Tree};
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

/// "*" is any text, "?" one character, "[a-c]" and "[!x]" one of a set; none of them is a "/". "**" stands for any number
/// of groups on the way. A "\" is itself: units have it in their names.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// The one text that a pattern matches, if there is one: it has no wildcards, or each in brackets.
fn literal(pattern: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), pattern.chars());
    while let Some(c) = rest.next() {
        out.push(match c {
            '*' | '?' => return None,
            '[' => rest.next().filter(|inner| *inner != '!' && rest.next() == Some(']'))?,
            c => c,
        });
    }
    Some(out)
}

/// A rule, ready to be tried on the groups of a tree.
struct Ready<'a> {
    rule: &'a Rule,
    pattern: Pattern,
    /// It is about this one only.
    literal: Option<String>,
    /// Names in full come first, then long patterns.
    rank: (bool, usize),
    used: bool,
}

impl<'a> Ready<'a> {
    /// None where it is about a part of the hierarchy that this tree does not have.
    fn new(tree: &Tree, rule: &'a Rule) -> Result<Option<Ready<'a>>> {
        let text = match &rule.subject {
            Subject::Unit(name) => name.clone(),
            Subject::Group(path) => match tree.from_file_system(path) {
                Ok(Some(path)) => path,
                Ok(None) => normalise(path)?,
                Err(_) => return Ok(None),
            },
        };
        let pattern = Pattern::new(&text).map_err(|e| Error::invalid(format!("{text}: {}", e.msg)))?;
        let literal = literal(&text);
        let rank = (literal.is_some(), text.len());
        Ok(Some(Ready { rule, pattern, literal, rank, used: false }))
    }

    fn matches(&self, path: &str, unit: Option<&str>) -> bool {
        let text = match self.rule.subject {
            Subject::Unit(_) => unit,
            Subject::Group(_) => Some(path),
        };
        text.is_some_and(|text| match &self.literal {
            Some(literal) => literal == text,
            // The topmost group is meant by its name only.
            None => !path.is_empty() && self.pattern.matches_with(text, MATCHING),
        })
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Unit(name) => write!(f, "unit {name}"),
            Subject::Group(path) => write!(f, "group {}", display(path.trim_start_matches('/'))),
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

    /// What TOML says, and what to write instead.
    fn broken(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or(0..0);
        let number = self.line(span.clone());
        let line = self.text.lines().nth(number - 1).unwrap_or_default();
        let before: usize = self.text.split_inclusive('\n').take(number - 1).map(str::len).sum();
        let advice = quoting::of_line(line, &self.text[..before]).map(|advice| format!("; {advice}")).unwrap_or_default();
        self.error(span, format!("{}{advice}", error.message().replace('\n', ", ")))
    }
}

impl Policy {
    /// Read a policy; everything that is wrong with it is found here.
    pub fn parse(name: &str, content: &str) -> Result<Policy> {
        let text = Text { name, text: content };
        let broken = |e: toml::de::Error| text.broken(&e);
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
            let typed = unit.rsplit_once('.').is_some_and(|(_, kind)| unit::TYPES.contains(&kind) || literal(kind).is_none());
            if !typed || unit.contains('/') {
                if let Some((key, inner)) = values.iter().find(|(_, value)| value.is_table()) {
                    return Err(at(Error::invalid(format!("'{unit}' is no name of a unit; {}",
                                                         quoting::of_tables("unit", unit, key.get_ref(), inner)))));
                }
                return Err(at(Error::invalid(format!("'{unit}' is no name of a unit; it ends in one of: .{}",
                                                     unit::TYPES.join(" .")))));
            }
            Subject::Unit(unit.clone())
        } else {
            normalise(name.get_ref()).map_err(at)?;
            Subject::Group(name.get_ref().clone())
        };
        Pattern::new(name.get_ref()).map_err(|e| at(Error::invalid(format!(
            "'{}': {}; one of * ? [ that is part of a name stands in brackets, as in [*]", name.get_ref(), e.msg))))?;
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
            // A unit's name is whole here, as its type is at its end.
            if !is_unit && value.is_table() && !matches!(key.get_ref().as_str(), "gang" | "cpu") {
                let advice = quoting::of_tables("group", name.get_ref(), key.get_ref(), value);
                return Err(text.error(key.span(), format!("unknown key '{}'; {advice}", key.get_ref())));
            }
            let mut plain = Vec::new();
            flatten(key.get_ref(), value, &mut plain);
            for (name, value) in plain {
                put(&name, key.span(), value)?;
            }
        }
        Ok(Rule { subject, settings, line: text.line(name.span()) })
    }

    /// What it takes to make the tree as the policy says, and the rules that no group matches now.
    pub fn plan(&self, tree: &Tree, enable: bool) -> Result<(Plan, Vec<&Rule>)> {
        let (wanted, unused) = self.wanted(tree)?;
        let mut plan = Plan::default();
        for Wanted { path, settings, named } in wanted {
            plan.add(tree, &path, &settings, Options { enable, may_vanish: !named, ..Options::default() })?;
        }
        plan.enable.sort_unstable();
        plan.enable.dedup();
        Ok((plan, unused))
    }

    fn wanted(&self, tree: &Tree) -> Result<(Vec<Wanted>, Vec<&Rule>)> {
        let mut ready: Vec<Ready> = Vec::new();
        for rule in &self.rules {
            ready.extend(Ready::new(tree, rule)?);
        }
        ready.sort_by_key(|ready| std::cmp::Reverse(ready.rank));
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut problem = None;
        tree.walk("", &mut |group| {
            let unit = tree.unit_at(&group.path);
            let mut settings: BTreeMap<Key, (&String, &Rule, _)> = BTreeMap::new();
            let (mut any, mut named) = (false, false);
            for ready in ready.iter_mut().filter(|ready| ready.matches(&group.path, unit.as_deref())) {
                (any, named, ready.used) = (true, named || ready.literal.is_some(), true);
                for (key, value) in &ready.rule.settings {
                    let (known, first, rank) = settings.entry(*key).or_insert((value, ready.rule, ready.rank));
                    if *known != value && *rank == ready.rank && problem.is_none() {
                        problem = Some(Error::invalid(format!(
                            "{}: lines {} and {} match it equally well and want different {}", display(&group.path),
                            first.line.min(ready.rule.line), first.line.max(ready.rule.line), key.name())));
                    }
                }
            }
            if any {
                let settings = settings.into_iter().map(|(key, (value, ..))| (key, value.clone())).collect();
                wanted.push(Wanted { path: group.path.clone(), settings, named });
            }
        })?;
        let used: Vec<*const Rule> = ready.iter().filter(|ready| ready.used).map(|ready| ready.rule as *const Rule).collect();
        let unused = self.rules.iter().filter(|rule| !used.contains(&(*rule as *const Rule))).collect();
        problem.map_or(Ok((wanted, unused)), Err)
    }
}

/// "gang.scope" and "cpu.hint" without quotes are tables for TOML.
fn flatten<'a>(name: &str, value: &'a toml::Value, out: &mut Vec<(String, &'a toml::Value)>) {
    let Some(table) = value.as_table() else { return out.push((name.into(), value)) };
    for (below, value) in table {
        flatten(&if below == "enabled" { name.to_string() } else { format!("{name}.{below}") }, value, out);
    }
}

/// The policy that says what groups have now. What this program does not understand stands in it as a comment.
pub fn dump(tree: &Tree) -> Result<String> {
    let mut units: BTreeMap<String, u32> = BTreeMap::new();
    let mut states = Vec::new();
    tree.walk("", &mut |group| {
        let unit = tree.unit_at(&group.path);
        if let Some(unit) = &unit {
            *units.entry(unit.clone()).or_default() += 1;
        }
        let state = State::brief(group);
        if state.says_something() {
            states.push((unit, state));
        }
    })?;
    let mut out = String::from("# Written by cgctl dump.\n");
    let quote = |text: &str| toml::Value::String(text.into()).to_string();
    for (unit, state) in &states {
        // A unit by its name, unless several groups have it.
        out += &match unit.as_ref().filter(|unit| units[*unit] == 1) {
            Some(unit) => format!("\n[unit.{}]\n", quote_key(unit)),
            None if state.path.is_empty() => "\n[group.\"/\"]\n".into(),
            None => format!("\n[group.{}]\n", quote_key(&Pattern::escape(&state.path))),
        };
        for (key, value) in state.own() {
            let line = match key {
                Key::Hint => format!("hint = {}\n", quote(value)),
                Key::Gang => format!("gang = {}\n", value == "1"),
                Key::GangScope => format!("\"gang.scope\" = {}\n", quote(value)),
                Key::Headroom => format!("headroom = {}\n", quote(value)),
            };
            if let Err(error) = key.parse(value) {
                out += &format!("# {}; of a later kernel?\n# ", name::printable(&error.message));
            }
            out += &line;
        }
    }
    Ok(out)
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
    fn patterns() {
        for (pattern, text, want) in [
            ("batch-*.service", "batch-a.service", true), ("batch-*.service", "batch.service", false), ("*", "a", true),
            ("a?c", "abc", true), ("[a-c]x", "bx", true), ("[!a-c]x", "bx", false), ("a\\x2d*", "a\\x2db", true),
            ("a*b*c", "aXbYbZc", true), ("[[]x[*]", "[x*", true), ("[*]", "a", false), ("*.slice", "a.slice/b", false),
            // Only "**" crosses a "/".
            ("a/*", "a/b", true), ("a/*", "a/b/c", false), ("a/*", "a", false), ("a/?", "a//", false), ("a[!b]c", "a/c", false),
            ("a/**", "a/b", true), ("a/**", "a/b/c", true), ("a/**/z", "a/z", true), ("a/**/z", "a/b/c/z", true),
            ("**/z", "z", true), ("**/z", "a/b/z", true), ("**/z", "a/bz", false), ("**", "a/b", true), (".*", ".a", true),
            ("*", ".a", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches_with(text, MATCHING), want, "{pattern} {text}");
        }
    }

    #[test]
    fn a_name_in_full() {
        for (pattern, want) in [("a.service", Some("a.service")), ("a[*]b[[]c[]]", Some("a*b[c]")), ("a*", None),
                                ("a?", None), ("[ab]", None), ("[!a]", None), ("a]", Some("a]"))] {
            assert_eq!(literal(pattern).as_deref(), want, "{pattern}");
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
        let again = Policy::parse("dump", &dump(&tree).unwrap()).unwrap();
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

    /// What was meant is clear; what to write instead is said.
    #[test]
    fn quotes_that_are_missing() {
        let scope = "; beside 'gang', the key of the scope stands in quotes";
        for (text, want) in [
            ("[unit.nginx.service]\nhint = \"pack\"\n",
             "p:1: 'nginx' is no name of a unit; a name with dots stands in quotes: [unit.\"nginx.service\"]"),
            ("\n[unit.web@1.service]\nhint = \"pack\"\n", "; names stand in quotes: [unit.\"web@1.service\"]"),
            ("[group.system.slice]\nhint = \"pack\"\n",
             "p:1: unknown key 'slice'; a name with dots stands in quotes: [group.\"system.slice\"]"),
            ("[unit.\"foo\\x2dbar.service\"]\nhint = \"pack\"\n",
             "; in double quotes a backslash begins an escape; single quotes take it as it is: 'foo\\x2dbar.service'"),
            ("[group.a]\ngang = true\ngang.scope = \"llc\"\n", scope),
            ("[group.a]\ngang.scope = \"llc\"\ngang = true\n", scope),
            ("[unit.\"a.service\".b]\nhint = \"pack\"\n", "p:1: unknown key 'b.hint' "),
            ("[group.a]\nhint = pack\n", "; text stands in quotes: hint = \"pack\""),
            ("[group.a]\ngang = \"llc\"\n", "gang=yes gang.scope=llc"),
        ] {
            let message = Policy::parse("p", text).unwrap_err().message;
            assert!(message.starts_with("p:") && message.contains(want) && !message.contains('\n'), "{text:?}: {message}");
        }
        let settings = "cpu.hint = \"pack\"\ncpu.gang.scope = \"core\"\n";
        let policy = Policy::parse("p", &format!("[unit.'foo\\x2dbar.service']\n{settings}")).unwrap();
        assert_eq!(policy.rules[0].settings.len(), 2);
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
            ("[group.\"a[\"]\n", "p:1: 'a[': invalid range pattern; one of * ? [ that is part of a name"),
            ("\n[group.\"a**\"]\n", "p:2: 'a**': recursive wildcards must form a single path component"),
        ] {
            let error = Policy::parse("p", text).unwrap_err();
            assert!(error.message.starts_with(want), "{text:?}: {error}");
        }
    }

    #[test]
    fn only_what_is_named_in_full_has_to_stay() {
        let (dir, tree) = tree();
        let remove = || std::fs::remove_dir_all(dir.path().join("sys/fs/cgroup/system.slice/batch-1.service")).unwrap();
        let pattern = "[unit.\"batch-*.service\"]\nhint = \"pack\"\n[group.\"a/**\"]\nhint = \"pack\"\n";
        let policy = Policy::parse("p", pattern).unwrap();
        let (plan, _) = policy.plan(&tree, false).unwrap();
        remove();
        let gone = plan.commit(&tree).unwrap();
        assert_eq!(gone.into_iter().collect::<Vec<_>>(), ["system.slice/batch-1.service"]);
        assert_eq!(dir.read("sys/fs/cgroup/a/b/cpu.hint"), "pack\n");

        dir.group("system.slice/batch-1.service");
        let named = "[unit.\"batch-1.service\"]\nheadroom = 1\n".to_string() + &pattern.replace("pack", "none");
        let policy = Policy::parse("p", &named).unwrap();
        let (plan, _) = policy.plan(&tree, false).unwrap();
        remove();
        assert_eq!(plan.commit(&tree).unwrap_err().kind, crate::error::Kind::NotFound);
        assert_eq!(dir.read("sys/fs/cgroup/a/b/cpu.hint"), "pack\n", "taken back");
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
        fn every_name_can_be_written(text in "\\PC{0,12}|[a*?\\[\\]!-]{0,12}") {
            prop_assert_eq!(literal(&Pattern::escape(&text)), Some(text));
        }
    }

    /// Names that systemd makes, and that it never would.
    fn any_name() -> impl Strategy<Value = String> {
        let bytes = proptest::collection::vec(any::<u8>().prop_filter("", |b| !matches!(b, 0 | b'/')), 1..6);
        prop_oneof![
            3 => "(a|b|_a|a-b|a\\\\x2d)\\.(service|slice|scope)",
            2 => "[ab*?!\\[\\]{}\"'\\\\# .\n\t-]{1,5}",
            2 => bytes.prop_map(|bytes| name::from_bytes(&bytes)),
        ].prop_filter("", |name| name != "." && name != "..")
    }

    type Values = (usize, bool, usize, u32);

    fn set(dir: &TempDir, path: &str, (hint, gang, scope, headroom): Values) {
        const HINTS: [&str; 7] = ["inherit", "inherit", "none", "wake_affine pack", "tail_latency pack", "background", "energy"];
        let file = |name: &str, value: &str| dir.file(&format!("sys/fs/cgroup/{path}/{name}"), &format!("{value}\n"));
        file("cpu.hint", HINTS[hint % HINTS.len()]);
        file("cpu.gang", if gang { "1" } else { "0" });
        file("cpu.gang.scope", crate::setting::SCOPES[scope % crate::setting::SCOPES.len()]);
        file("cpu.headroom", &crate::setting::format_percent(if headroom > 10_000 { 0 } else { headroom }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// On any tree: a policy that is dumped matches what is there, and makes it anew.
        #[test]
        fn what_is_dumped_describes_what_is_there(
            groups in proptest::collection::vec((proptest::collection::vec(any_name(), 1..4),
                                                 (0usize..7, any::<bool>(), 0usize..4, 0u32..20_000)), 1..8),
            root in proptest::option::of((0usize..7, any::<bool>(), 0usize..4, 0u32..20_000)),
        ) {
            let dir = TempDir::new();
            dir.group("");
            dir.file("sys/fs/cgroup/cgroup.type", "domain\n");
            let mut all: BTreeMap<String, Values> = BTreeMap::new();
            for (names, values) in groups {
                for end in 1..names.len() {
                    all.entry(names[..end].join("/")).or_insert((0, false, 0, 0));
                }
                all.insert(names.join("/"), values);
            }
            // In a namespace the topmost group has the files, too.
            all.extend(root.map(|values| (String::new(), values)));
            for (path, values) in &all {
                dir.group(path);
                set(&dir, path, *values);
            }
            let tree = Host::new(Some(dir.path())).open_tree().unwrap();
            let text = dump(&tree).unwrap();
            let policy = Policy::parse("dump", &text).unwrap();
            let (plan, unused) = policy.plan(&tree, true).unwrap();
            prop_assert!(plan.changes().next().is_none() && unused.is_empty(), "{text}");
            for (path, values) in &all {
                set(&dir, path, (0, false, if values.1 { 1 } else { values.2 }, 0));
            }
            policy.plan(&tree, true).unwrap().0.commit(&tree).unwrap();
            prop_assert_eq!(dump(&tree).unwrap(), text);
        }
    }
}
