// SPDX-License-Identifier: GPL-2.0-only
//! Setting several files of several groups: all of them, or none.
//!
//! A plan is made first. Making it reads every file that will be written, checks every value against it, and finds out
//! what is missing; up to here nothing is changed. Then the plan is carried out, and if the kernel refuses one write,
//! or a group that was named in full vanishes, what was written before is written back, latest first. One that only a
//! pattern matched may vanish: it is left out.
//!
//! Groups are told apart by their inodes and opened when they are written, so a plan holds no descriptors, however many
//! groups it is about.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::hint::Request;
use crate::setting::{format_percent, parse_percent, same, Key, Settings};
use crate::state::{current_request, inherited_words, missing_file};
use crate::tree::{ancestors, display, gone, Group, Identity, Tree};

/// One file that will be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub path: String,
    pub key: Key,
    pub old: String,
    pub new: String,
    /// Why, where it was not asked for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {} -> {}", display(&self.path), self.key.name(), self.old, self.new)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

/// A change of a certain group.
#[derive(Debug)]
struct Step {
    change: Change,
    group: Identity,
    may_vanish: bool,
}

#[derive(Debug, Default)]
pub struct Plan {
    steps: Vec<Step>,
    /// Where in `steps` a file is.
    index: BTreeMap<(String, Key), usize>,
    /// Paths for which the cpu controller has to be enabled first: groups whose subtree_control gets "+cpu".
    pub enable: Vec<String>,
    /// What was there before, for those that need no change.
    pub unchanged: Vec<(String, Key, String)>,
    /// What was asked for, but this kernel does not have.
    pub skipped: Vec<(String, Key)>,
    /// Groups that were gone before it came to them, and may be.
    pub vanished: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Give headroom to ancestors, too, as far as they need it.
    pub propagate: bool,
    /// Enable the controller along the path where it is missing.
    pub enable: bool,
    /// Leave out keys whose file this kernel does not have.
    pub skip_missing: bool,
    /// Nobody named the group: if it goes away meanwhile, it is left out.
    pub may_vanish: bool,
}

impl Step {
    fn write(&self, tree: &Tree, value: &str) -> std::result::Result<(), Errno> {
        let group = tree.try_open(&self.change.path)?;
        // Another one of the name is not meant.
        if group.identity()? != self.group {
            return Err(Errno::NODEV);
        }
        group.write(self.change.key.file(), value)
    }
}

/// Whether a group is gone. One that is being removed loses its files shortly before its name.
fn is_gone(tree: &Tree, path: &str, group: Identity) -> bool {
    const TRIES: u32 = 20;
    (0..TRIES).any(|_| {
        if tree.is_still(path, group) {
            std::thread::sleep(Duration::from_millis(2));
            return false;
        }
        true
    })
}

impl Plan {
    /// What it takes to give a group these settings; values are as Key::parse() returns them.
    pub fn add(&mut self, tree: &Tree, path: &str, settings: &Settings, options: Options) -> Result<()> {
        let identity = tree.try_open(path).and_then(|group| group.identity());
        let steps = self.steps.len();
        let Err(error) = self.add_all(tree, path, settings, options) else { return Ok(()) };
        let gone = error.kind == Kind::NotFound || identity.map_or(true, |group| is_gone(tree, path, group));
        if !options.may_vanish || !gone {
            return Err(error);
        }
        for step in self.steps.drain(steps..) {
            self.index.remove(&(step.change.path, step.change.key));
        }
        self.unchanged.retain(|(other, ..)| other != path);
        self.skipped.retain(|(other, _)| other != path);
        self.vanished.push(path.to_string());
        Ok(())
    }

    fn add_all(&mut self, tree: &Tree, path: &str, settings: &Settings, options: Options) -> Result<()> {
        if options.enable {
            self.enable.extend(missing_controllers(tree, path)?);
        }
        let group = tree.open(path)?;
        for (key, value) in settings {
            // Without the controller all are missing, which is another matter.
            if options.skip_missing && group.has("cpu.weight") && !group.has(key.file()) {
                self.skipped.push((path.to_string(), *key));
                continue;
            }
            self.add_one(tree, &group, *key, value, options, None)?;
        }
        if let (true, Some(value)) = (options.propagate, settings.get(&Key::Headroom)) {
            self.propagate(tree, path, value, options)?;
        }
        Ok(())
    }

    /// Headroom binds siblings only. To protect a nested group from everything, each ancestor has to ask for as much.
    fn propagate(&mut self, tree: &Tree, path: &str, value: &str, options: Options) -> Result<()> {
        let wanted = parse_percent(value)?;
        for ancestor in ancestors(path).map(str::to_string).collect::<Vec<_>>() {
            let group = tree.open(&ancestor)?;
            let Some(old) = group.read_line(Key::Headroom.file())? else {
                return Err(missing_file(tree, &group, Key::Headroom.file()));
            };
            if parse_percent(&old).unwrap_or(0) < wanted {
                let reason = format!("so that {} is protected from what is beside it", display(&ancestor));
                self.add_one(tree, &group, Key::Headroom, &format_percent(wanted), options, Some(reason))?;
            }
        }
        Ok(())
    }

    fn add_one(&mut self, tree: &Tree, group: &Group, key: Key, value: &str, options: Options, reason: Option<String>)
        -> Result<()> {
        let path = group.path.as_str();
        let old = match group.read_line(key.file())? {
            Some(old) => old,
            // The file will appear with the controller.
            None if self.enable.iter().any(|parent| Some(parent.as_str()) == crate::tree::parent(path))
                => key.default_value().to_string(),
            None => return Err(missing_file(tree, group, key.file())),
        };
        let new = if key == Key::Hint {
            let inherited = inherited_words(tree, path);
            Request::parse(value, current_request(group), inherited).map_err(|e| e.about(display(path)))?.to_string()
        } else {
            value.to_string()
        };
        if same(key, &old, &new) {
            self.unchanged.push((path.to_string(), key, old));
            return Ok(());
        }
        let change = Change { path: path.to_string(), key, old, new, reason };
        // Two rules for one file: they must agree.
        let file = (change.path.clone(), key);
        if let Some(other) = self.index.get(&file).map(|at| &self.steps[*at].change) {
            if other.new != change.new {
                return Err(Error::invalid(format!("{}: {} would become both '{}' and '{}'", display(path), key.name(),
                                                  other.new, change.new)));
            }
            return Ok(());
        }
        let identity = group.identity().map_err(|e| Error::io(display(path), e))?;
        self.index.insert(file, self.steps.len());
        self.steps.push(Step { change, group: identity, may_vanish: options.may_vanish });
        Ok(())
    }

    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|step| &step.change)
    }

    /// The groups that it is about, also where there is nothing to change.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.changes().map(|change| change.path.as_str()).chain(self.unchanged.iter().map(|(path, ..)| path.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.enable.is_empty()
    }

    /// Carry it out. On failure everything is as it was, or the message says what is not. Returns the groups that were
    /// gone, and may be.
    pub fn commit(&self, tree: &Tree) -> Result<BTreeSet<String>> {
        let mut enabled: Vec<(&str, Identity)> = Vec::new();
        let disable = |enabled: &[(&str, Identity)]| for (path, identity) in enabled.iter().rev() {
            if let Ok(group) = tree.try_open(path).and_then(|group| Ok((group.identity()? == *identity).then_some(group))) {
                let _ = group.map(|group| group.write("cgroup.subtree_control", "-cpu"));
            }
        };
        for path in &self.enable {
            // Where the group is gone, so is what is below it, which is told when it comes to that.
            let Ok((group, identity)) = tree.try_open(path).and_then(|group| group.identity().map(|id| (group, id))) else {
                continue;
            };
            match group.write("cgroup.subtree_control", "+cpu") {
                Ok(()) => enabled.push((path, identity)),
                Err(Errno::NOENT | Errno::NODEV) if is_gone(tree, path, identity) => {}
                Err(errno) => {
                    disable(&enabled);
                    return Err(explain_enable(path, errno));
                }
            }
        }
        let (mut done, mut vanished): (Vec<&Step>, _) = (Vec::new(), BTreeSet::new());
        for step in &self.steps {
            let Err(errno) = step.write(tree, &step.change.new) else {
                done.push(step);
                continue;
            };
            let mut error = explain(tree, step, errno);
            if step.may_vanish && error.kind == Kind::NotFound {
                vanished.insert(step.change.path.clone());
                continue;
            }
            let any = !done.is_empty();
            for step in done.into_iter().rev() {
                let Change { path, key, old, .. } = &step.change;
                if let Err(errno) = step.write(tree, old) {
                    if !is_gone(tree, path, step.group) {
                        error.message += &format!("; {}/{} could not be set back to '{old}': {errno}", display(path),
                                                  key.file());
                    }
                }
            }
            disable(&enabled);
            error.message += if any { "; the other changes were taken back" } else { "; nothing was changed" };
            return Err(error);
        }
        Ok(vanished)
    }
}

/// Groups on the way to `path` that do not pass the cpu controller on, topmost first.
pub fn missing_controllers(tree: &Tree, path: &str) -> Result<Vec<String>> {
    let mut missing: Vec<String> = Vec::new();
    let above: Vec<&str> = std::iter::successors(crate::tree::parent(path), |p| crate::tree::parent(p)).collect();
    for ancestor in above.into_iter().rev() {
        let group = tree.open(ancestor)?;
        if !group.names_cpu("cgroup.subtree_control") {
            if missing.is_empty() && !group.names_cpu("cgroup.controllers") {
                return Err(Error::new(Kind::Unsupported, format!("{} has no cpu controller to pass on; cgroup v1 may \
                                                                  hold it", display(ancestor))));
            }
            missing.push(ancestor.to_string());
        }
    }
    Ok(missing)
}

fn explain_enable(path: &str, errno: Errno) -> Error {
    let path = display(path);
    match errno {
        Errno::BUSY => Error::failed(format!("{path}: the cpu controller cannot be enabled below it, because it has \
                                              processes of its own; move them into a child group first")),
        Errno::ACCESS | Errno::PERM => Error::new(Kind::Permission, format!(
            "{path}: no permission to enable the cpu controller below it")),
        errno => Error::io(format!("{path}/cgroup.subtree_control"), errno),
    }
}

/// What the kernel's refusal of a write means.
fn explain(tree: &Tree, step: &Step, errno: Errno) -> Error {
    let change = &step.change;
    let what = format!("{}: {}={}", display(&change.path), change.key.name(), change.new);
    match errno {
        Errno::NODEV | Errno::NOENT | Errno::NOTDIR if is_gone(tree, &change.path, step.group) => gone(&change.path),
        Errno::NODEV | Errno::NOENT => tree.open(&change.path)
            .map_or_else(|error| error, |group| missing_file(tree, &group, change.key.file())),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Error::new(Kind::Permission, format!(
            "{what}: no permission to write {}; root may, and so may the owner of a delegated tree below its top",
            change.key.file())),
        Errno::INVAL => Error::invalid(format!("{what}: this kernel does not take the value")),
        Errno::RANGE => Error::invalid(format!("{what}: out of range")),
        Errno::NOMEM => Error::failed(format!("{what}: the kernel has no memory for the counters")),
        errno => Error::io(what, errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::parse_assignments;
    use crate::testing::TempDir;
    use crate::tree::Host;

    fn tree() -> (TempDir, Tree) {
        let dir = TempDir::new();
        for path in ["a", "a/b", "a/b/c"] {
            dir.group(path);
        }
        dir.group("");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        (dir, tree)
    }

    fn plan(tree: &Tree, path: &str, words: &[&str], options: Options) -> Result<Plan> {
        let mut plan = Plan::default();
        plan.add(tree, path, &parse_assignments(words)?, options)?;
        Ok(plan)
    }

    #[test]
    fn several_keys() {
        let (dir, tree) = tree();
        let plan = plan(&tree, "a/b", &["hint=pack", "gang=1", "gang.scope=llc", "headroom=5"], Options::default()).unwrap();
        let texts: Vec<String> = plan.changes().map(ToString::to_string).collect();
        assert_eq!(texts, ["/a/b: hint inherit -> pack", "/a/b: gang 0 -> 1", "/a/b: headroom 0.00 -> 5.00"]);
        assert_eq!(dir.read("sys/fs/cgroup/a/b/cpu.hint"), "inherit\n", "a plan changes nothing");
        plan.commit(&tree).unwrap();
        assert_eq!(dir.read("sys/fs/cgroup/a/b/cpu.hint"), "pack\n");
        assert_eq!(dir.read("sys/fs/cgroup/a/b/cpu.headroom"), "5.00\n");
    }

    #[test]
    fn all_or_nothing() {
        let (dir, tree) = tree();
        let plan = plan(&tree, "a", &["hint=pack", "gang=1", "headroom=5"], Options::default()).unwrap();
        // Stands for whatever the kernel may have against the last write.
        let file = dir.path().join("sys/fs/cgroup/a/cpu.headroom");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        let error = plan.commit(&tree).unwrap_err();
        assert!(error.message.ends_with("the other changes were taken back"), "{error}");
        assert_eq!(dir.read("sys/fs/cgroup/a/cpu.hint"), "inherit\n");
        assert_eq!(dir.read("sys/fs/cgroup/a/cpu.gang"), "0\n");
    }

    #[test]
    fn removed_meanwhile() {
        let (dir, tree) = tree();
        let plan = plan(&tree, "a/b/c", &["hint=pack"], Options::default()).unwrap();
        std::fs::remove_dir_all(dir.path().join("sys/fs/cgroup/a/b/c")).unwrap();
        let error = plan.commit(&tree).unwrap_err();
        assert_eq!(error.kind, Kind::NotFound);
        assert!(error.message.contains("/a/b/c was removed meanwhile"), "{error}");
    }

    #[test]
    fn only_what_was_named_has_to_be_there() {
        let (dir, tree) = tree();
        dir.group("d");
        let settings = parse_assignments(&["hint=pack", "headroom=5"]).unwrap();
        let matched = Options { may_vanish: true, ..Options::default() };
        let mut plan = Plan::default();
        for path in ["a", "a/b/c", "d"] {
            plan.add(&tree, path, &settings, matched).unwrap();
        }
        // One that is gone, and one that another took the name of
        std::fs::remove_dir_all(dir.path().join("sys/fs/cgroup/a/b/c")).unwrap();
        std::fs::rename(dir.path().join("sys/fs/cgroup/d"), dir.path().join("old")).unwrap();
        dir.group("d");
        assert_eq!(plan.commit(&tree).unwrap().into_iter().collect::<Vec<_>>(), ["a/b/c", "d"]);
        assert_eq!(dir.read("sys/fs/cgroup/a/cpu.headroom"), "5.00\n");
        assert_eq!(dir.read("sys/fs/cgroup/d/cpu.hint"), "inherit\n", "another group");
        // Gone before the plan came to it
        let mut plan = Plan::default();
        plan.add(&tree, "a/b/c", &settings, matched).unwrap();
        assert_eq!((plan.vanished.as_slice(), plan.changes().count()), (&["a/b/c".to_string()][..], 0));
        assert_eq!(Plan::default().add(&tree, "a/b/c", &settings, Options::default()).unwrap_err().kind, Kind::NotFound);
    }

    #[test]
    fn what_is_being_removed_loses_its_files_first() {
        let (dir, tree) = tree();
        let group = dir.path().join("sys/fs/cgroup/a/b/c");
        let settings = parse_assignments(&["hint=pack"]).unwrap();
        let mut plan = Plan::default();
        let matched = Options { may_vanish: true, ..Options::default() };
        plan.add(&tree, "a/b/c", &settings, matched).unwrap();
        for file in ["cpu.hint", "cpu.weight"] {
            std::fs::remove_file(group.join(file)).unwrap();
        }
        let removal = |group: std::path::PathBuf| std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(4));
            std::fs::rename(&group, group.with_extension("removed")).unwrap();
        });
        let remover = removal(group.clone());
        assert_eq!(plan.commit(&tree).unwrap().len(), 1);
        remover.join().unwrap();
        std::fs::rename(group.with_extension("removed"), &group).unwrap();
        let remover = removal(group);
        let mut plan = Plan::default();
        plan.add(&tree, "a/b/c", &settings, matched).unwrap();
        remover.join().unwrap();
        assert_eq!(plan.vanished, ["a/b/c"]);
        // One that stays has no such excuse.
        std::fs::remove_file(dir.path().join("sys/fs/cgroup/a/b/cpu.hint")).unwrap();
        assert_eq!(Plan::default().add(&tree, "a/b", &settings, matched).unwrap_err().kind, Kind::Unsupported);
    }

    #[test]
    fn propagation() {
        let (dir, tree) = tree();
        dir.file("sys/fs/cgroup/a/cpu.headroom", "40.00\n");
        let options = Options { propagate: true, ..Options::default() };
        let plan = plan(&tree, "a/b/c", &["headroom=30"], options).unwrap();
        let texts: Vec<String> = plan.changes().map(ToString::to_string).collect();
        assert_eq!(texts, ["/a/b/c: headroom 0.00 -> 30.00",
                           "/a/b: headroom 0.00 -> 30.00 (so that /a/b is protected from what is beside it)"]);
    }

    #[test]
    fn edits_start_from_what_is_there() {
        let (dir, tree) = tree();
        dir.file("sys/fs/cgroup/a/cpu.hint", "tail_latency\n");
        let plan = plan(&tree, "a", &["hint=+pack"], Options::default()).unwrap();
        assert_eq!(plan.changes().next().unwrap().new, "tail_latency pack");
        dir.file("sys/fs/cgroup/a/cpu.hint", "wake_affine\n");
        assert!(super::tests::plan(&tree, "a", &["hint=+wake_hold"], Options::default()).is_err());
    }

    #[test]
    fn nothing_to_do() {
        let (_dir, tree) = tree();
        let plan = plan(&tree, "a", &["hint=inherit", "headroom=0"], Options::default()).unwrap();
        assert!(plan.is_empty());
        assert_eq!(plan.unchanged.len(), 2);
    }

    #[test]
    fn what_the_kernel_lacks_can_be_left_out() {
        let (dir, tree) = tree();
        std::fs::remove_file(dir.path().join("sys/fs/cgroup/a/cpu.headroom")).unwrap();
        assert!(plan(&tree, "a", &["hint=pack", "headroom=5"], Options::default()).is_err());
        let options = Options { skip_missing: true, ..Options::default() };
        let plan = plan(&tree, "a", &["hint=pack", "headroom=5"], options).unwrap();
        assert_eq!(plan.changes().count(), 1);
        assert_eq!(plan.skipped, [("a".to_string(), Key::Headroom)]);
    }

    #[test]
    fn controllers() {
        let (dir, tree) = tree();
        dir.file("sys/fs/cgroup/a/cgroup.subtree_control", "\n");
        for file in ["cpu.hint", "cpu.weight"] {
            std::fs::remove_file(dir.path().join("sys/fs/cgroup/a/b").join(file)).unwrap();
        }
        let error = plan(&tree, "a/b", &["hint=pack"], Options::default()).unwrap_err();
        assert!(error.message.contains("echo +cpu > /sys/fs/cgroup/a/cgroup.subtree_control"), "{error}");
        let plan = plan(&tree, "a/b", &["hint=pack"], Options { enable: true, ..Options::default() }).unwrap();
        assert_eq!(plan.enable, ["a"]);
    }
}
