// SPDX-License-Identifier: GPL-2.0-only
//! Setting several files of several groups: all of them, or none.
//!
//! A plan is made first. Making it reads every file that will be written, checks every value against it, and finds out
//! what is missing; up to here nothing is changed. Then the plan is carried out, and if the kernel refuses one write,
//! or a group vanishes, what was written before is written back, latest first.

use rustix::io::Errno;
use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::hint::Request;
use crate::setting::{format_percent, parse_percent, same, Key, Settings};
use crate::state::{current_request, inherited_words, missing_file};
use crate::tree::{ancestors, display, gone, Group, Tree};

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

/// A plan, with the groups that it is about held open.
#[derive(Debug, Default)]
pub struct Plan {
    steps: Vec<(Group, Change)>,
    /// Paths for which the cpu controller has to be enabled first: groups whose subtree_control gets "+cpu".
    pub enable: Vec<String>,
    /// What was there before, for those that need no change.
    pub unchanged: Vec<(String, Key, String)>,
    /// What was asked for, but this kernel does not have.
    pub skipped: Vec<(String, Key)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Give headroom to ancestors, too, as far as they need it.
    pub propagate: bool,
    /// Enable the controller along the path where it is missing.
    pub enable: bool,
    /// Leave out keys whose file this kernel does not have.
    pub skip_missing: bool,
}

impl Plan {
    /// What it takes to give a group these settings; values are as Key::parse() returns them.
    pub fn add(&mut self, tree: &Tree, path: &str, settings: &Settings, options: Options) -> Result<()> {
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
            self.add_one(tree, path, *key, value, None)?;
        }
        if let (true, Some(value)) = (options.propagate, settings.get(&Key::Headroom)) {
            self.propagate(tree, path, value)?;
        }
        Ok(())
    }

    /// Headroom binds siblings only. To protect a nested group from everything, each ancestor has to ask for as much.
    fn propagate(&mut self, tree: &Tree, path: &str, value: &str) -> Result<()> {
        let wanted = parse_percent(value)?;
        for ancestor in ancestors(path).map(str::to_string).collect::<Vec<_>>() {
            let group = tree.open(&ancestor)?;
            let Some(old) = group.read_line(Key::Headroom.file())? else {
                return Err(missing_file(tree, &group, Key::Headroom.file()));
            };
            if parse_percent(&old).unwrap_or(0) < wanted {
                let reason = format!("so that {} is protected from what is beside it", display(&ancestor));
                self.add_one(tree, &ancestor, Key::Headroom, &format_percent(wanted), Some(reason))?;
            }
        }
        Ok(())
    }

    fn add_one(&mut self, tree: &Tree, path: &str, key: Key, value: &str, reason: Option<String>) -> Result<()> {
        let group = tree.open(path)?;
        let old = match group.read_line(key.file())? {
            Some(old) => old,
            // The file will appear with the controller.
            None if self.enable.iter().any(|parent| Some(parent.as_str()) == crate::tree::parent(path))
                => key.default_value().to_string(),
            None => return Err(missing_file(tree, &group, key.file())),
        };
        let new = if key == Key::Hint {
            let inherited = inherited_words(tree, path);
            Request::parse(value, current_request(&group), inherited).map_err(|e| e.about(display(path)))?.to_string()
        } else {
            value.to_string()
        };
        if same(key, &old, &new) {
            self.unchanged.push((path.to_string(), key, old));
            return Ok(());
        }
        let change = Change { path: path.to_string(), key, old, new, reason };
        // Two rules for one file: they must agree.
        if let Some((_, other)) = self.steps.iter().find(|(_, c)| c.path == change.path && c.key == key) {
            if other.new != change.new {
                return Err(Error::invalid(format!("{}: {} would become both '{}' and '{}'", display(path), key.name(),
                                                  other.new, change.new)));
            }
            return Ok(());
        }
        self.steps.push((group, change));
        Ok(())
    }

    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|(_, change)| change)
    }

    /// The groups that it is about, also where there is nothing to change.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.changes().map(|change| change.path.as_str()).chain(self.unchanged.iter().map(|(path, ..)| path.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.enable.is_empty()
    }

    /// Carry it out. On failure everything is as it was, or the message says what is not.
    pub fn commit(&self, tree: &Tree) -> Result<()> {
        let mut enabled: Vec<Group> = Vec::new();
        for path in &self.enable {
            let group = tree.open(path)?;
            if let Err(errno) = group.write("cgroup.subtree_control", "+cpu") {
                for group in enabled.iter().rev() {
                    let _ = group.write("cgroup.subtree_control", "-cpu");
                }
                return Err(explain_enable(path, errno));
            }
            enabled.push(group);
        }
        for (i, (group, change)) in self.steps.iter().enumerate() {
            let Err(errno) = group.write(change.key.file(), &change.new) else { continue };
            let mut error = explain(tree, group, change, errno);
            for (group, change) in self.steps[..i].iter().rev() {
                if let Err(errno) = group.write(change.key.file(), &change.old) {
                    if group.is_alive(tree) {
                        error.message += &format!("; {} could not be set back to '{}': {errno}",
                                                  change.key.file(), change.old);
                    }
                }
            }
            for group in enabled.iter().rev() {
                let _ = group.write("cgroup.subtree_control", "-cpu");
            }
            error.message += if i > 0 { "; the other changes were taken back" } else { "; nothing was changed" };
            return Err(error);
        }
        Ok(())
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
fn explain(tree: &Tree, group: &Group, change: &Change, errno: Errno) -> Error {
    let what = format!("{}: {}={}", display(&change.path), change.key.name(), change.new);
    match errno {
        Errno::NODEV | Errno::NOENT if !group.is_alive(tree) => gone(&change.path),
        Errno::NODEV | Errno::NOENT => missing_file(tree, group, change.key.file()),
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
