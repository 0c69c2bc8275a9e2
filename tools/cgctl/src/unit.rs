// SPDX-License-Identifier: GPL-2.0-only
//! Units: names, the files that make them up, and the properties in those files that are ours.
//!
//! systemd ignores keys that begin with X-, so ours stand in the unit's own section, in any file that systemd itself
//! would read for the unit (systemd.unit(5); `finder`), as far as it would read it (`unit_file`). The last assignment
//! wins; an empty one takes back what came before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::hint::Request;
use crate::nearest::suggestion;
use crate::setting::{Key, Settings, KEYS};

pub use crate::finder::{Aliases, Finder};
pub use crate::unit_file::{parse_file, Assignment, UnitFile};

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
    if stem.is_empty() || stem.starts_with('@') || name.len() > 255 || !name.chars().all(valid) {
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

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub file: PathBuf,
    pub line: usize,
}

/// Something wrong in a unit file, or with it as a whole, which is line 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub origin: Origin,
    pub text: String,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.origin.line {
            0 => write!(f, "{}: {}", self.origin.file.display(), self.text),
            line => write!(f, "{}:{line}: {}", self.origin.file.display(), self.text),
        }
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
    /// Files and directories that could not be looked into, so that this may not be all.
    pub unread: Vec<Complaint>,
}

impl Properties {
    pub fn settings(&self) -> Settings {
        self.values.iter().map(|(key, (value, _))| (*key, value.clone())).collect()
    }

    /// Take up a file that comes after those before. A bad value counts for nothing, and is complained of.
    pub fn read(&mut self, section: &str, file: &Path, text: impl AsRef<[u8]>) {
        self.take(section, file, &UnitFile::parse(text.as_ref()));
    }

    /// The same, of a file that was read.
    pub fn take(&mut self, section: &str, file: &Path, content: &UnitFile) {
        let properties: Vec<&str> = KEYS.iter().map(|key| key.property()).collect();
        for assignment in &content.assignments {
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
        if let Some((broken, hidden)) = content.broken.as_ref().and_then(|broken| Some((broken, broken.hides?))) {
            self.complaints.push(Complaint {
                origin: Origin { file: file.into(), line: broken.line },
                text: format!("{}, so systemd reads no further; the X-CPU property in line {hidden} is ignored", broken.reason),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use crate::tree::Host;
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

    fn finder() -> (TempDir, Finder) {
        let dir = TempDir::new();
        let finder = Finder::new(&Host::new(Some(dir.path())));
        (dir, finder)
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

    proptest! {
        #[test]
        fn any_file(text in "(\\PC|[\\[\\]=\\\\#;\n\r])*") {
            let mut properties = Properties::default();
            properties.read("Service", Path::new("x"), format!("[Service]\nX-CPUHint={text}"));
        }

        #[test]
        fn any_properties(lines in proptest::collection::vec(
                "(\\[(Unit|Service|Slice)\\]|X-CPU[A-Za-z]{0,10}=[a-z0-9_ +.%-]{0,20}\\\\?)", 0..12)) {
            let mut properties = Properties::default();
            properties.read("Service", Path::new("x"), lines.join("\n"));
            for (key, (value, origin)) in &properties.values {
                prop_assert_eq!(&key.parse(value).unwrap(), value);
                prop_assert!(origin.line <= lines.len());
            }
        }

        #[test]
        fn any_name(name in "\\PC*") {
            unit_type(&name);
            slice_path(&format!("{name}.slice"));
            let escaped = format!("x{}.service", escape(&name));
            prop_assert!(unit_type(&escaped).is_some() || name.len() > 60);
        }
    }
}
