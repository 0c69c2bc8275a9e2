// SPDX-License-Identifier: GPL-2.0-only
//! What a group has: requested and effective values, headroom's demand and budget, counters.
//!
//! Reading is cheap first: the three or four files in which a group can say something. Only a group that does, or that
//! was asked for, is read in full. So 10,000 silent groups cost a few system calls each.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::hint::{self, Request};
use crate::reach::Unbound;
use crate::setting::{same, Key, KEYS};
use crate::tree::{ancestors, display, gone, parse_flat, Group, Tree};

/// `cpu.headroom.stat`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadroomStat {
    /// Percent that the group has to leave idle.
    pub demand: f64,
    /// Percent that is idle; None where the kernel does not measure it.
    pub idle: Option<f64>,
    /// None is no limit.
    pub budget_usec: Option<u64>,
    pub period_usec: u64,
}

impl HeadroomStat {
    pub fn parse(text: &str) -> HeadroomStat {
        let mut stat = HeadroomStat::default();
        for (key, value) in parse_flat(text) {
            match key {
                "demand" => stat.demand = percent(value),
                "idle" => stat.idle = Some(percent(value)),
                "budget_usec" => stat.budget_usec = value.parse().ok(),
                "period_usec" => stat.period_usec = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        stat
    }
}

/// A number that JSON can hold.
fn percent(text: &str) -> f64 {
    text.parse().ok().filter(|value: &f64| value.is_finite()).unwrap_or(0.0)
}

/// A group, as it was when it was read. None: the group does not have that file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    pub path: String,
    pub hint: Option<String>,
    #[serde(rename = "hint.effective")]
    pub hint_effective: Option<String>,
    /// The ancestor from which hints are inherited.
    #[serde(rename = "hint.from", skip_serializing_if = "Option::is_none")]
    pub hint_from: Option<String>,
    pub gang: Option<String>,
    #[serde(rename = "gang.scope")]
    pub gang_scope: Option<String>,
    pub headroom: Option<String>,
    #[serde(rename = "headroom.stat")]
    pub headroom_stat: Option<HeadroomStat>,
    /// Where there is a headroom that binds nobody.
    #[serde(rename = "headroom.unbound", skip_serializing_if = "Option::is_none")]
    pub headroom_unbound: Option<Unbound>,
    pub populated: Option<bool>,
    pub stat: BTreeMap<String, u64>,
}

impl State {
    /// The files in which a group can say something, and no more.
    pub fn brief(group: &Group) -> State {
        let line = |key: Key| group.read_line(key.file()).ok().flatten();
        let hint = line(Key::Hint);
        let gang = line(Key::Gang);
        // A scope without a gang says nothing.
        let gang_scope = gang.as_deref().is_some_and(|gang| gang != "0").then(|| line(Key::GangScope)).flatten();
        State { path: group.path.clone(), hint, gang, gang_scope, headroom: line(Key::Headroom), ..State::default() }
    }

    /// Everything. Fails where the group is gone.
    pub fn full(tree: &Tree, group: &Group) -> Result<State> {
        let mut state = State::brief(group);
        state.complete(tree, group);
        if !group.is_alive(tree) {
            return Err(gone(&group.path));
        }
        Ok(state)
    }

    /// Read what brief() left out.
    pub fn complete(&mut self, tree: &Tree, group: &Group) {
        self.hint_effective = group.read_line("cpu.hint.effective").ok().flatten();
        self.gang_scope = group.read_line(Key::GangScope.file()).ok().flatten();
        self.headroom_stat = group.read("cpu.headroom.stat").ok().flatten().map(|text| HeadroomStat::parse(&text));
        if self.headroom.as_deref().is_some_and(|value| !same(Key::Headroom, value, Key::Headroom.default_value())) {
            self.headroom_unbound = crate::reach::unbound(tree, &self.path);
        }
        self.populated = group.is_populated();
        self.stat = parse_stat(&group.read("cpu.stat").ok().flatten().unwrap_or_default());
        if self.hint.as_deref() == Some("inherit") && self.hint_effective.as_deref().is_some_and(|e| e != "none") {
            self.hint_from = hint_source(tree, &self.path);
        }
    }

    pub fn value(&self, key: Key) -> Option<&str> {
        match key {
            Key::Hint => self.hint.as_deref(),
            Key::Gang => self.gang.as_deref(),
            Key::GangScope => self.gang_scope.as_deref(),
            Key::Headroom => self.headroom.as_deref(),
        }
    }

    /// The keys for which a group says something of its own, with what it says.
    pub fn own(&self) -> impl Iterator<Item = (Key, &str)> {
        KEYS.into_iter().filter_map(|key| Some((key, self.value(key)?)))
            .filter(|(key, value)| !same(*key, value, key.default_value()))
    }

    pub fn says_something(&self) -> bool {
        self.own().next().is_some()
    }
}

pub fn parse_stat(text: &str) -> BTreeMap<String, u64> {
    parse_flat(text).filter_map(|(key, value)| Some((key.to_string(), value.parse().ok()?))).collect()
}

/// The nearest ancestor that does not inherit itself.
fn hint_source(tree: &Tree, path: &str) -> Option<String> {
    ancestors(path).find(|path| {
        tree.open(path).ok().and_then(|group| group.read_line("cpu.hint").ok().flatten())
            .is_some_and(|hint| hint != "inherit")
    }).map(str::to_string)
}

/// The words that a group would inherit.
pub fn inherited_words(tree: &Tree, path: &str) -> u32 {
    crate::tree::parent(path).filter(|parent| !parent.is_empty())
        .and_then(|parent| tree.open(parent).ok())
        .and_then(|group| group.read_line("cpu.hint.effective").ok().flatten())
        .map_or(0, |line| hint::parse_effective(&line).0)
}

/// The request that a group has.
pub fn current_request(group: &Group) -> Request {
    group.read_line("cpu.hint").ok().flatten()
        .and_then(|line| Request::parse(&line, Request::Inherit, 0).ok()).unwrap_or_default()
}

/// Every group that says something, read in full.
pub fn policies(tree: &Tree, from: &str) -> Result<Vec<State>> {
    let mut found = Vec::new();
    tree.walk(from, &mut |group| {
        let mut state = State::brief(group);
        if state.says_something() {
            state.complete(tree, group);
            found.push(state);
        }
    })?;
    Ok(found)
}

/// Which of the files, in the order of KEYS, this kernel has: those of any group with the cpu controller. None: there is
/// no such group, so it cannot be told.
pub fn kernel_files(tree: &Tree) -> Result<Option<[bool; 4]>> {
    let mut sample = None;
    tree.walk("", &mut |group| {
        if sample.is_none() && (group.has("cpu.weight") || group.has("cpu.max")) {
            sample = Some(KEYS.map(|key| group.has(key.file())));
        }
    })?;
    Ok(sample)
}

/// For what looks at all groups: an error where none can have a policy, instead of showing nothing.
pub fn require_files(tree: &Tree) -> Result<()> {
    if kernel_files(tree)? == Some([false; 4]) {
        return Err(Error::new(Kind::Unsupported, "this kernel has none of cpu.hint, cpu.gang, cpu.headroom, or was booted \
                                                  with cgroup_steer=0; 'cgctl doctor' says what to do"));
    }
    Ok(())
}

/// Why a group lacks a file, in words that help.
pub fn missing_file(tree: &Tree, group: &Group, file: &str) -> Error {
    if !group.is_alive(tree) {
        return gone(&group.path);
    }
    let path = display(&group.path);
    // Of groups, only the root of the hierarchy has no type; the topmost that is to be seen need not be that.
    if group.path.is_empty() && !group.has("cgroup.type") {
        return Error::new(Kind::Unsupported, format!("the root cgroup has no {file}; only groups below it do"));
    }
    // cpu.stat is there without the controller, cpu.weight is not.
    if !group.has("cpu.weight") && !group.has("cpu.max") && group.path.is_empty() {
        return Error::new(Kind::Unsupported, format!("{path} has no {file}: the cpu controller is not enabled for it. It \
                                                       is the topmost group to be seen here, so that is done outside"));
    }
    if !group.has("cpu.weight") && !group.has("cpu.max") {
        let parent = crate::tree::parent(&group.path).unwrap_or_default();
        return Error::new(Kind::Unsupported, format!(
            "{path} has no {file}: the cpu controller is not enabled for it. Set CPUWeight=100 for the unit, or:  \
             echo +cpu > {}/cgroup.subtree_control  ('cgctl set --enable' does it along the path)",
            if parent.is_empty() { tree.mount.clone() } else { format!("{}/{parent}", tree.mount) }));
    }
    Error::new(Kind::Unsupported, format!("{path} has no {file}: this kernel does not have it, or was booted with \
                                           cgroup_steer=0; 'cgctl doctor' says more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use crate::tree::Host;
    use proptest::prelude::*;

    #[test]
    fn headroom() {
        let stat = HeadroomStat::parse("demand 30.00\nidle 27.31\nbudget_usec 350000\nperiod_usec 100000\n");
        assert_eq!(HeadroomStat::parse("demand 0.00\nbudget_usec max\n").idle, None);
        assert_eq!(stat, HeadroomStat { demand: 30.0, idle: Some(27.31), budget_usec: Some(350_000), period_usec: 100_000 });
        assert_eq!(HeadroomStat::parse("budget_usec max\n").budget_usec, None);
    }

    #[test]
    fn policies_are_found() {
        let dir = TempDir::new();
        for path in ["a", "a/b", "a/b/c", "d"] {
            dir.group(path);
        }
        dir.file("sys/fs/cgroup/a/cpu.hint", "pack\n");
        dir.file("sys/fs/cgroup/a/b/cpu.hint.effective", "pack\n");
        dir.file("sys/fs/cgroup/d/cpu.headroom", "12.50\n");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let found = policies(&tree, "").unwrap();
        assert_eq!(found.iter().map(|state| state.path.as_str()).collect::<Vec<_>>(), ["a", "d"]);
        let state = State::full(&tree, &tree.open("a/b").unwrap()).unwrap();
        assert_eq!(state.hint_from.as_deref(), Some("a"));
        assert!(!state.says_something());
    }

    #[test]
    fn what_is_missing_is_named() {
        let dir = TempDir::new();
        dir.group("a");
        dir.file("sys/fs/cgroup/bare/cgroup.procs", "");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let why = |path: &str| missing_file(&tree, &tree.open(path).unwrap(), "cpu.gang").message;
        assert!(why("a").contains("this kernel does not have it"));
        assert!(why("bare").contains("echo +cpu > /sys/fs/cgroup/cgroup.subtree_control"), "{}", why("bare"));
        assert!(why("").contains("root cgroup"));
    }

    proptest! {
        #[test]
        fn any_content(text in "([a-z_]{0,12}[ \t]?[0-9a-z.-]{0,24}\n?)*|\\PC*") {
            parse_stat(&text);
            let stat = HeadroomStat::parse(&text);
            prop_assert!(serde_json::to_string(&stat).is_ok());
            hint::parse_effective(&text);
        }
    }
}
