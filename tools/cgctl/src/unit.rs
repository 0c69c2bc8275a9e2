// SPDX-License-Identifier: GPL-2.0-only
//! Units: names, the files that make them up, and the properties in those files that are ours.
//!
//! systemd ignores keys that begin with X-, so ours stand in the unit's own section, in any file that systemd itself
//! would read for the unit, in the order in which it would (systemd.unit(5)): the fragment, then the drop-ins from
//! "service.d" to "foo-.service.d" to "foo-bar.service.d", sorted by file name, a name in a directory of higher
//! priority hiding the same name in a lower one. The last assignment wins; an empty one takes back what came before.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::hint::Request;
use crate::listing::Listing;
use crate::nearest::suggestion;
use crate::setting::{Key, Settings, KEYS};
use crate::tree::Host;

pub const TYPES: [&str; 6] = ["service", "slice", "scope", "socket", "mount", "swap"];

/// systemd's own search path for the system manager, highest priority first.
pub const SEARCH_PATH: [&str; 12] = [
    "/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
    "/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached", "/run/systemd/system",
    "/run/systemd/system.attached", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// The type of a unit's name, if it is one of those that have a cgroup.
pub fn unit_type(name: &str) -> Option<&'static str> {
    let (stem, suffix) = name.rsplit_once('.')?;
    let valid = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    if stem.is_empty() || name.len() > 255 || !name.chars().all(valid) {
        return None;
    }
    TYPES.into_iter().find(|known| *known == suffix)
}

/// The section of the unit file in which our properties stand.
pub fn section(name: &str) -> Option<&'static str> {
    Some(match unit_type(name)? {
        "service" => "Service",
        "slice" => "Slice",
        "scope" => "Scope",
        "socket" => "Socket",
        "mount" => "Mount",
        _ => "Swap",
    })
}

/// Names that the kernel could take for files of its own get an underscore in front (cg_escape() in systemd).
pub fn cgroup_name(unit: &str) -> String {
    const CONTROLLERS: [&str; 14] = ["cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids",
        "bpf-firewall", "bpf-devices", "bpf-foreign", "bpf-socket-bind", "bpf-restrict-network-interfaces", "cgroup"];
    let clash = unit.split_once('.').is_some_and(|(prefix, _)| CONTROLLERS.contains(&prefix));
    let special = unit.starts_with(['_', '.']) || matches!(unit, "notify_on_release" | "release_agent" | "tasks");
    if clash || special { format!("_{unit}") } else { unit.to_string() }
}

/// The unit that a directory of the cgroup tree belongs to.
pub fn from_cgroup_name(name: &str) -> Option<&str> {
    let unit = name.strip_prefix('_').unwrap_or(name);
    unit_type(unit).map(|_| unit)
}

/// The system manager's unit that a group belongs to. What is below a unit that is no slice is the business of whoever
/// the unit belongs to; a slice has no groups below it but those of units.
pub fn owner(path: &str) -> Option<&str> {
    let mut owner = None;
    for part in path.split('/') {
        let unit = from_cgroup_name(part)?;
        owner = Some(unit);
        if !unit.ends_with(".slice") {
            break;
        }
    }
    owner
}

/// The system manager's unit whose own group this is, not one that it is in.
pub fn at(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let slices = above.is_empty() || above.split('/').all(|part| unit_type(part) == Some("slice"));
    from_cgroup_name(name).filter(|_| slices)
}

/// Where a slice is in the tree: "a-b.slice" is "a.slice/a-b.slice".
pub fn slice_path(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".slice")?;
    if stem == "-" {
        return Some(String::new());
    }
    if stem.is_empty() || stem.starts_with('-') || stem.ends_with('-') || stem.contains("--") {
        return None;
    }
    let parts: Vec<String> = stem.match_indices('-').map(|(i, _)| i).chain([stem.len()])
        .map(|end| cgroup_name(&format!("{}.slice", &stem[..end]))).collect();
    Some(parts.join("/"))
}

/// As `systemd-escape` does it, for text that becomes part of a unit's name.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => out.push('-'),
            b'.' if i == 0 => out.push_str("\\x2e"),
            b if b.is_ascii_alphanumeric() || b":_.".contains(&b) => out.push(b as char),
            b => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out
}

/// One "key=value" of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub section: String,
    pub key: String,
    pub value: String,
    /// Its first line in the file, from 1, and its last, which another one is where it is continued.
    pub line: usize,
    pub end: usize,
}

/// Read a unit file as systemd does: comments, continued lines, sections. What is neither is left out.
pub fn parse_file(text: &str) -> Vec<Assignment> {
    let mut result = Vec::new();
    let mut section = String::new();
    let (mut pending, mut first): (Option<String>, usize) = (None, 0);
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    // The empty line at the end finishes a continuation that the file broke off in.
    for (number, raw) in lines.chain([""]).enumerate() {
        let comment = raw.trim_start().starts_with(['#', ';']);
        let line = match pending.take() {
            // A comment amid continued lines is left out, and the line goes on.
            Some(sofar) if comment => {
                pending = Some(sofar);
                continue;
            }
            Some(sofar) => format!("{sofar} {raw}"),
            None if comment => continue,
            None => {
                first = number + 1;
                raw.to_string()
            }
        };
        // An odd number of backslashes at the end; of an even one each escapes the next.
        if line.len() < 1 << 20 && line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
            pending = Some(line[..line.len() - 1].to_string());
            continue;
        }
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_string();
        } else if let Some((key, value)) = line.split_once('=') {
            result.push(Assignment {
                section: section.clone(), key: key.trim_end().into(), value: value.trim().into(), line: first,
                end: number + 1,
            });
        }
    }
    result
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    pub line: usize,
}

/// Something wrong in a unit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub origin: Origin,
    pub text: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.origin.file.display(), self.origin.line, self.text)
    }
}

/// What a unit's files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub values: BTreeMap<Key, (String, Origin)>,
    /// Which assignment counts for a key; one that takes the value back is in here only.
    pub decided: BTreeMap<Key, Origin>,
    /// CPUWeight=, for which systemd keeps the cpu controller.
    pub weight: Option<String>,
    pub complaints: Vec<Complaint>,
}

impl Properties {
    pub fn settings(&self) -> Settings {
        self.values.iter().map(|(key, (value, _))| (*key, value.clone())).collect()
    }

    /// Take up a file that comes after those before. A bad value counts for nothing, and is complained of.
    pub fn read(&mut self, section: &str, file: &Path, text: &str) {
        if !text.contains("X-CPU") && !text.contains("CPUWeight") {
            return; // most files of most systems
        }
        let properties: Vec<&str> = KEYS.iter().map(|key| key.property()).collect();
        for assignment in parse_file(text) {
            if assignment.key == "CPUWeight" && assignment.section == section {
                self.weight = Some(assignment.value.clone()).filter(|weight| !weight.is_empty());
            }
            if !assignment.key.starts_with("X-CPU") {
                continue;
            }
            let origin = Origin { file: file.into(), line: assignment.line };
            let mut complain = |text: String| self.complaints.push(Complaint { origin: origin.clone(), text });
            let Some(key) = KEYS.into_iter().find(|key| key.property() == assignment.key) else {
                complain(format!("unknown property {}{}, ignored; known: {}", assignment.key,
                                 suggestion(&assignment.key, properties.iter().copied()), properties.join(" ")));
                continue;
            };
            if assignment.section != section {
                complain(format!("{}= stands in [{}], but belongs into [{section}]; ignored", assignment.key,
                                 assignment.section));
                continue;
            }
            if assignment.value.is_empty() {
                self.values.remove(&key);
                self.decided.insert(key, origin);
                continue;
            }
            match key.parse(&assignment.value) {
                Ok(value) if key == Key::Hint && Request::is_edit(&value) =>
                    complain(format!("{}={}: edits (+word, -word) would depend on what was before; ignored",
                                     assignment.key, assignment.value)),
                Ok(value) => {
                    self.decided.insert(key, origin.clone());
                    self.values.insert(key, (value, origin));
                }
                Err(error) => complain(format!("{}={}: {}; ignored", assignment.key, assignment.value, error.message)),
            }
        }
    }
}

/// The names under which drop-ins for a unit may stand, least specific first.
fn dropin_names(name: &str) -> Vec<String> {
    let Some((stem, suffix)) = name.rsplit_once('.') else { return vec![] };
    let mut names = vec![suffix.to_string()];
    let instance = stem.find('@');
    let prefix = &stem[..instance.unwrap_or(stem.len())];
    for (i, _) in prefix.match_indices('-') {
        if i > 0 && i + 1 < prefix.len() {
            // "foo-bar@.service" takes "foo-@.service.d" too, "foo-bar.service" takes "foo-.service.d".
            let at = if instance.is_some() { "@" } else { "" };
            names.push(format!("{}{at}.{suffix}", &prefix[..=i]));
        }
    }
    if instance.is_some_and(|i| i + 1 < stem.len()) {
        names.push(format!("{prefix}@.{suffix}"));
    }
    names.push(name.to_string());
    names
}

/// Other names of units.
#[derive(Debug, Default)]
pub struct Aliases(BTreeMap<String, BTreeSet<String>>);

/// An instance of a template: "x@.service" and "i" is "x@i.service".
fn instance_of(template: &str, instance: &str) -> String {
    template.replacen('@', &format!("@{instance}"), 1)
}

/// The template of an instance's name, and what makes it that instance.
fn template_of(name: &str) -> Option<(String, &str)> {
    let (stem, suffix) = name.rsplit_once('.')?;
    let (prefix, instance) = stem.split_once('@').filter(|(_, instance)| !instance.is_empty())?;
    Some((format!("{prefix}@.{suffix}"), instance))
}

impl Aliases {
    /// From links, which may lead to links.
    fn new(links: &BTreeMap<String, String>) -> Aliases {
        let mut aliases = Aliases::default();
        for alias in links.keys() {
            let mut name = alias;
            for target in std::iter::from_fn(|| { name = links.get(name)?; Some(name.clone()) }).take(16) {
                aliases.0.entry(target).or_default().insert(alias.clone());
            }
        }
        aliases
    }

    /// The unit that a name is another one of; None if it is a unit's own.
    pub fn real(&self, alias: &str) -> Option<&str> {
        let real = |name: &String| !self.0.values().any(|aliases| aliases.contains(name));
        self.0.iter().find(|(name, aliases)| aliases.contains(alias) && real(name)).map(|(name, _)| name.as_str())
    }

    /// Of a unit: of itself, and, if it is an instance, of its template.
    pub fn of(&self, unit: &str) -> Vec<String> {
        let mut names: BTreeSet<String> = self.0.get(unit).cloned().unwrap_or_default();
        if let Some((template, instance)) = template_of(unit) {
            let templates = self.0.get(&template).into_iter().flatten().filter(|alias| alias.contains("@."));
            names.extend(templates.map(|alias| instance_of(alias, instance)));
        }
        names.remove(unit);
        names.into_iter().collect()
    }
}

/// Where the files of units are.
pub struct Finder {
    pub host: Host,
    pub path: Vec<String>,
    listings: RefCell<HashMap<String, Listing>>,
    /// Files that are taken to be there, with this text, whatever the disk has.
    planned: BTreeMap<PathBuf, String>,
}

impl Finder {
    pub fn new(host: &Host) -> Finder {
        Finder {
            host: host.clone(), path: SEARCH_PATH.map(str::to_string).to_vec(), listings: RefCell::default(),
            planned: BTreeMap::new(),
        }
    }

    /// Take a drop-in to be there with this text, in place of what the disk has under its name: what `properties` and
    /// `files` then say is what they will say when it is written. `file` is as the host sees it, in the directory
    /// "UNIT.d" of a directory of the search path.
    pub fn plan(&mut self, file: &Path, text: &str) {
        self.planned.insert(file.into(), text.into());
    }

    /// What is in each of the directories now, highest priority first.
    fn with_listings<R>(&self, look: impl FnOnce(&[(&Path, &Listing)]) -> R) -> R {
        let now = SystemTime::now();
        let mut listings = self.listings.borrow_mut();
        for dir in &self.path {
            listings.entry(dir.clone()).or_default().refresh(&self.host.path(dir), now);
        }
        look(&self.path.iter().map(|dir| (Path::new(dir), &listings[dir])).collect::<Vec<_>>())
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.host.path(&path.to_string_lossy())
    }

    /// Follow links as if the fixture's directory were "/".
    fn resolve(&self, path: &Path) -> PathBuf {
        let mut path = path.to_path_buf();
        for _ in 0..16 {
            match std::fs::read_link(self.absolute(&path)) {
                Ok(to) => path = path.parent().unwrap_or(Path::new("/")).join(to),
                Err(_) => break,
            }
        }
        path
    }

    fn is_masked(&self, path: &Path) -> bool {
        !self.planned.contains_key(path) && self.resolve(path) == Path::new("/dev/null")
    }

    /// The files that make up a unit: fragment first, then drop-ins in their order. `aliases` are its other names.
    pub fn files(&self, name: &str, aliases: &[String]) -> Vec<PathBuf> {
        let mut names = dropin_names(name);
        for alias in aliases.iter().filter(|alias| *alias != name) {
            names.extend(dropin_names(alias).into_iter().skip(1));
        }
        let (fragment, dirs) = self.with_listings(|listings| {
            let first = |name: &str| listings.iter().find(|(_, listing)| listing.names.contains_key(name))
                .map(|(dir, _)| dir.join(name));
            let fragment = first(name).or_else(|| first(&template_of(name)?.0));
            let mut dirs = Vec::new();
            for (rank, dropin_name) in names.iter().enumerate() {
                let dropins = format!("{dropin_name}.d");
                let planned = |dir: &Path| self.planned.keys().any(|file| file.parent() == Some(&dir.join(&dropins)));
                let there = listings.iter().rev()
                    .filter(|(dir, listing)| listing.names.contains_key(&dropins) || planned(dir));
                dirs.extend(there.map(|(dir, _)| (rank, dir.join(&dropins))));
            }
            (fragment, dirs)
        });
        let mut result: Vec<PathBuf> = fragment.into_iter().filter(|path| !self.is_masked(path)).collect();
        // File name -> (how specific, path): the more specific directory hides the other, then the earlier in the path.
        let mut dropins: BTreeMap<String, (usize, PathBuf)> = BTreeMap::new();
        for (rank, dir) in dirs {
            let planned = self.planned.keys().filter(|file| file.parent() == Some(&dir)).filter_map(|file| file.file_name());
            let entries = std::fs::read_dir(self.absolute(&dir)).into_iter().flatten().flatten();
            for name in entries.map(|entry| entry.file_name()).chain(planned.map(ToOwned::to_owned)) {
                let file = name.to_string_lossy().into_owned();
                if file.ends_with(".conf") && !file.starts_with('.')
                    && dropins.get(&file).is_none_or(|(known, _)| *known <= rank) {
                    dropins.insert(file.clone(), (rank, dir.join(file)));
                }
            }
        }
        result.extend(dropins.into_values().map(|(_, path)| path).filter(|path| !self.is_masked(path)));
        result
    }

    fn read_file(&self, name: &str, file: &Path, properties: &mut Properties) {
        let Some(section) = section(name) else { return };
        if let Some(text) = self.planned.get(file) {
            properties.read(section, file, text);
        } else if let Ok(bytes) = std::fs::read(self.absolute(&self.resolve(file))) {
            properties.read(section, file, &String::from_utf8_lossy(&bytes));
        }
    }

    /// What a unit's files say about its cgroup.
    pub fn properties(&self, name: &str, aliases: &[String]) -> Properties {
        let mut properties = Properties::default();
        if section(name).is_some() {
            self.files(name, aliases).iter().for_each(|file| self.read_file(name, file, &mut properties));
        }
        properties
    }

    /// Names of units that are links to others, in any of the directories.
    pub fn find_aliases(&self) -> Aliases {
        let mut links = BTreeMap::new();
        self.with_listings(|listings| for (_, listing) in listings.iter().rev() {
            for (alias, target) in &listing.names {
                let Some(target) = target else { continue };
                if unit_type(alias).is_some() && unit_type(target).is_some() && alias != target {
                    links.insert(alias.clone(), target.clone());
                }
            }
        });
        Aliases::new(&links)
    }

    /// All unit names for which a file or a directory of drop-ins exists, for doctor's review.
    pub fn known_units(&self) -> Vec<String> {
        let mut names: Vec<String> = self.with_listings(|listings| listings.iter()
            .flat_map(|(_, listing)| listing.names.keys())
            .map(|name| name.strip_suffix(".d").unwrap_or(name))
            .filter(|name| unit_type(name).is_some() || TYPES.contains(name))
            .map(str::to_string).collect());
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use proptest::prelude::*;

    #[test]
    fn names() {
        assert_eq!(unit_type("web.service"), Some("service"));
        assert_eq!(unit_type("a@b\\x2dc.service"), Some("service"));
        for bad in ["web", ".service", "a/b.service", "a b.service", "web.timer", "../x.service"] {
            assert_eq!(unit_type(bad), None, "{bad}");
        }
        assert_eq!(slice_path("a-b-c.slice").unwrap(), "a.slice/a-b.slice/a-b-c.slice");
        assert_eq!(slice_path("-.slice").unwrap(), "");
        assert_eq!(slice_path("a--b.slice"), None);
        assert_eq!(cgroup_name("cpu.service"), "_cpu.service");
        assert_eq!(from_cgroup_name("_cpu.service"), Some("cpu.service"));
        assert_eq!(cgroup_name("web.service"), "web.service");
        assert_eq!(cgroup_name("_x.service"), "__x.service");
        assert_eq!(from_cgroup_name("__x.service"), Some("_x.service"));
        assert_eq!(owner("a.slice/a-b.slice/web.service/x.slice"), Some("web.service"));
        assert_eq!(owner("a.slice/a-b.slice"), Some("a-b.slice"));
        assert_eq!(owner("a.slice/docker/x.service"), None);
        assert_eq!(owner("docker/x.service"), None);
        assert_eq!(owner(""), None);
        assert_eq!(escape("my app/1"), "my\\x20app-1");
        assert_eq!(escape(".x"), "\\x2ex");
    }

    #[test]
    fn files_are_read_as_systemd_reads_them() {
        let text = "# c\n; c\n[Service]\nExecStart=/bin/a \\\n# inside\n  b\nX-CPUHint = pack \n\n[Install]\nx\nA=b=c\nZ=\\";
        let found = parse_file(text);
        let short: Vec<_> = found.iter().map(|a| (a.section.as_str(), a.key.as_str(), a.value.as_str(), a.line)).collect();
        assert_eq!(short, [("Service", "ExecStart", "/bin/a    b", 4), ("Service", "X-CPUHint", "pack", 7),
                           ("Install", "A", "b=c", 11), ("Install", "Z", "", 12)]);
    }

    fn finder() -> (TempDir, Finder) {
        let dir = TempDir::new();
        let finder = Finder::new(&Host::new(Some(dir.path())));
        (dir, finder)
    }

    #[test]
    fn drop_ins_come_in_their_order() {
        let (dir, finder) = finder();
        dir.file("usr/lib/systemd/system/foo-bar.service", "[Service]\nX-CPUHint=pack\nX-CPUGang=yes\n");
        dir.file("usr/lib/systemd/system/service.d/10-all.conf", "[Service]\nX-CPUHeadroom=1\n");
        dir.file("etc/systemd/system/foo-.service.d/50-a.conf", "[Service]\nX-CPUHint=wake_hold\n");
        dir.file("run/systemd/system/foo-bar.service.d/60-b.conf", "[Service]\nX-CPUGang=\n");
        dir.file("etc/systemd/system/foo-bar.service.d/60-b.conf", "[Service]\nX-CPUGangScope=node\n");
        dir.file("etc/systemd/system/foo-bar.service.d/.hidden.conf", "[Service]\nX-CPUGang=0\n");
        let found = finder.properties("foo-bar.service", &[]);
        let values: Vec<_> = found.values.iter().map(|(k, (v, _))| (k.name(), v.as_str())).collect();
        assert_eq!(values, [("hint", "wake_hold"), ("gang.scope", "node"), ("gang", "1"), ("headroom", "1.00")]);
        assert_eq!(found.complaints, []);
        assert_eq!(found.values[&Key::Hint].1.line, 2);
    }

    #[test]
    fn an_empty_value_takes_back() {
        let (dir, finder) = finder();
        dir.file("etc/systemd/system/a.service", "[Service]\nX-CPUHint=pack\nX-CPUHint=\n");
        let found = finder.properties("a.service", &[]);
        assert!(found.values.is_empty());
        assert_eq!(found.decided[&Key::Hint].line, 3);
    }

    #[test]
    fn a_planned_file_counts_as_if_it_were_written() {
        let (dir, mut finder) = finder();
        let file = Path::new("/etc/systemd/system/a.service.d/50-x.conf");
        finder.plan(file, "[Service]\nX-CPUHint=pack\nX-CPUGang=1\n");
        dir.file("etc/systemd/system/a.service.d/50-x.conf", "[Service]\nX-CPUHint=energy\nX-CPUHeadroom=1\n");
        dir.file("run/systemd/system/a.service.d/50-x.conf", "[Service]\nX-CPUHeadroom=1\n");
        dir.file("usr/lib/systemd/system/a.service.d/60-y.conf", "[Service]\nX-CPUGang=0\n");
        let found = finder.properties("a.service", &[]);
        let values: Vec<_> = found.values.iter().map(|(k, (v, _))| (k.name(), v.as_str())).collect();
        assert_eq!(values, [("hint", "pack"), ("gang", "0")]);
        assert_eq!(found.values[&Key::Hint].1, Origin { file: file.into(), line: 2 });
        // Where nothing is yet, and in a directory of lower priority.
        finder.plan(Path::new("/run/systemd/system/b-.slice.d/c.conf"), "[Slice]\nX-CPUHint=pack\n");
        assert_eq!(finder.properties("b-c.slice", &[]).values[&Key::Hint].0, "pack");
        dir.file("etc/systemd/system/b-.slice.d/c.conf", "[Slice]\n");
        assert_eq!(finder.properties("b-c.slice", &[]).values.len(), 0);
    }

    #[test]
    fn templates_aliases_and_masks() {
        let (dir, finder) = finder();
        dir.file("etc/systemd/system/t@.service", "[Service]\nX-CPUHint=pack\n");
        dir.file("etc/systemd/system/t@.service.d/x.conf", "[Service]\nX-CPUGang=1\n");
        dir.file("etc/systemd/system/t@one.service.d/y.conf", "[Service]\nX-CPUGangScope=core\n");
        assert_eq!(finder.properties("t@one.service", &[]).values.len(), 3);
        assert_eq!(finder.properties("t@two.service", &[]).values.len(), 2);
        dir.file("usr/lib/systemd/system/m.service", "[Service]\nX-CPUHint=pack\n");
        std::os::unix::fs::symlink("/dev/null", dir.path().join("etc/systemd/system/m.service")).unwrap();
        assert_eq!(finder.properties("m.service", &[]).values.len(), 0);
        dir.file("etc/systemd/system/other.service.d/z.conf", "[Service]\nX-CPUHint=energy\n");
        let found = finder.properties("a.service", &["other.service".into()]);
        assert_eq!(found.values[&Key::Hint].0, "energy");
        std::os::unix::fs::symlink("t@.service", dir.path().join("etc/systemd/system/link.service")).unwrap();
        assert_eq!(finder.properties("link.service", &[]).values[&Key::Hint].0, "pack");
    }

    #[test]
    fn complaints_name_file_and_line() {
        let (dir, finder) = finder();
        dir.file("etc/systemd/system/a.slice", "[Unit]\nX-CPUGang=1\n[Slice]\nX-CPUHint=wake_afine\nX-CPUHints=pack\n\
                                                X-CPUHint=+pack\nX-CPUHeadroom=200\n");
        let found = finder.properties("a.slice", &[]);
        let texts: Vec<String> = found.complaints.iter().map(|c| c.to_string()).collect();
        assert_eq!(texts.len(), 5);
        assert!(texts[0].starts_with("/etc/systemd/system/a.slice:2: X-CPUGang= stands in [Unit]"), "{}", texts[0]);
        assert!(texts[1].contains("a.slice:4:") && texts[1].contains("did you mean 'wake_affine'"), "{}", texts[1]);
        assert!(texts[2].contains("did you mean 'X-CPUHint'"), "{}", texts[2]);
        assert!(texts[3].contains("edits"));
        assert!(texts[4].contains("out of range"));
        assert_eq!(found.values.len(), 0);
    }

    #[test]
    fn links_of_links_and_of_templates() {
        let dir = TempDir::new();
        let link = |name: &str, target: &str| {
            dir.file("etc/systemd/system/x", "");
            std::os::unix::fs::symlink(target, dir.path().join("etc/systemd/system").join(name)).unwrap();
        };
        link("far.service", "mid.service");
        link("mid.service", "/usr/lib/systemd/system/web.service");
        link("nick@.service", "t@.service");
        link("loop.service", "pool.service");
        link("pool.service", "loop.service");
        let aliases = Finder::new(&Host::new(Some(dir.path()))).find_aliases();
        assert_eq!(aliases.of("web.service"), ["far.service", "mid.service"]);
        assert_eq!(aliases.of("t@1.service"), ["nick@1.service"]);
        assert_eq!(aliases.of("loop.service"), ["pool.service"]);
        assert!(aliases.of("other.service").is_empty());
        dir.file("etc/systemd/system/nick@.service.d/x.conf", "[Service]\nX-CPUHint=pack\n");
        let found = Finder::new(&Host::new(Some(dir.path()))).properties("t@1.service", &aliases.of("t@1.service"));
        assert_eq!(found.values[&Key::Hint].0, "pack");
    }

    proptest! {
        #[test]
        fn any_file(text in "(\\PC|[\\[\\]=\\\\#;\n\r])*") {
            let lines = text.split('\n').count();
            for assignment in parse_file(&text) {
                prop_assert!(assignment.line >= 1 && assignment.line <= lines);
                prop_assert!(!assignment.value.contains('\n'));
            }
            let mut properties = Properties::default();
            properties.read("Service", Path::new("x"), &format!("[Service]\nX-CPUHint={text}"));
        }

        #[test]
        fn any_properties(lines in proptest::collection::vec(
                "(\\[(Unit|Service|Slice)\\]|X-CPU[A-Za-z]{0,10}=[a-z0-9_ +.%-]{0,20}\\\\?)", 0..12)) {
            let mut properties = Properties::default();
            properties.read("Service", Path::new("x"), &lines.join("\n"));
            for (key, (value, origin)) in &properties.values {
                prop_assert_eq!(&key.parse(value).unwrap(), value);
                prop_assert!(origin.line <= lines.len());
            }
        }

        #[test]
        fn any_name(name in "\\PC*") {
            unit_type(&name);
            slice_path(&format!("{name}.slice"));
            dropin_names(&name);
            let escaped = format!("x{}.service", escape(&name));
            prop_assert!(unit_type(&escaped).is_some() || name.len() > 60);
        }
    }
}
