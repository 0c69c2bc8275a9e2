// SPDX-License-Identifier: GPL-2.0-only
//! Which files make up a unit, by systemd's rules.
//!
//! Each rule of systemd's is one function here, in the terms that systemd has for it (src/basic/unit-file.c and
//! src/shared/dropin.c there), so that nothing has to be ordered afterwards:
//!   - A name leads to a file or, as an alias, to another name: `place`. A link is an alias if what it leads to is in
//!     the search path, and else a file like any other, which may be a mask.
//!   - A name is followed until it leads to a file: `follow`. All names that lead to the same one are the unit's.
//!   - Drop-ins are taken from directories in one order, in which the first file of a name hides the others: the unit's
//!     own name first, then its aliases, then its type, and for each of them the search path before how specific a
//!     directory is. What is left is read in the order of the files' names.
//!
//! tests/unit_files.rs compares all of this with what systemd itself reads, in random trees.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use crate::listing::{Entry, Listing};
use crate::tree::Host;
use crate::unit::{section, unit_type, Complaint, Origin, Properties, SEARCH_PATH, TYPES};
use crate::unit_file::UnitFile;

/// How many aliases may lead from one to the next (FOLLOW_MAX in systemd).
const MOST_ALIASES: usize = 8;
/// Types of units that are nothing without a file of their own.
const NEED_FILE: [&str; 2] = [".service", ".socket"];
/// How many links a path may have (CHASE_SYMLINKS_MAX in systemd).
const MOST_LINKS: usize = 32;

/// The parts of a unit's name: "prefix@instance.type". A name without "@" has no instance, a template an empty one.
struct Name<'a> {
    prefix: &'a str,
    instance: Option<&'a str>,
    suffix: &'a str,
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Option<Name<'a>> {
        let (stem, suffix) = name.rsplit_once('.')?;
        Some(match stem.split_once('@') {
            Some((prefix, instance)) => Name { prefix, instance: Some(instance), suffix },
            None => Name { prefix: stem, instance: None, suffix },
        })
    }

    fn is_template(&self) -> bool {
        self.instance == Some("")
    }

    fn is_instance(&self) -> bool {
        self.instance.is_some_and(|instance| !instance.is_empty())
    }

    fn with(&self, instance: &str) -> String {
        format!("{}@{instance}.{}", self.prefix, self.suffix)
    }

    /// The next less specific prefix, with its dash: "a-b" has "a-", and so has "a-b-".
    fn shorter(&self) -> Option<&'a str> {
        let stem = self.prefix.strip_suffix('-').unwrap_or(self.prefix);
        stem.rfind('-').filter(|dash| *dash > 0).map(|dash| &self.prefix[..=dash])
    }
}

/// What makes a name an instance's, if it is one.
fn instance_of(name: &str) -> Option<&str> {
    Name::parse(name).filter(Name::is_instance).and_then(|name| name.instance)
}

fn is_template(name: &str) -> bool {
    Name::parse(name).is_some_and(|name| name.is_template())
}

/// The template of an instance.
fn template_of(name: &str) -> Option<String> {
    Name::parse(name).filter(Name::is_instance).map(|name| name.with(""))
}

/// A template's name with an instance in it; of what is no template, nothing.
fn instantiated(template: &str, instance: &str) -> Option<String> {
    Name::parse(template).filter(Name::is_template).map(|name| name.with(instance))
}

/// The names under which drop-ins of a unit may stand, in the order in which they hide each other within one directory
/// of the search path.
fn add_dropin_names(name: &str, names: &mut Vec<String>) {
    names.push(name.to_string());
    let Some(parts) = Name::parse(name) else { return };
    if parts.is_instance() {
        add_dropin_names(&parts.with(""), names);
    }
    if let Some(prefix) = parts.shorter() {
        // A template's prefix is that of units without instances.
        let shorter = Name { prefix, ..parts };
        add_dropin_names(&match parts.instance {
            Some(instance) if parts.is_instance() => shorter.with(instance),
            _ => format!("{prefix}.{}", parts.suffix),
        }, names);
    }
}

fn dropin_names(name: &str) -> Vec<String> {
    let mut names = Vec::new();
    add_dropin_names(name, &mut names);
    names
}

/// Where a name leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Alias(String),
}

/// Names that lead in a circle, or too far.
#[derive(Debug)]
struct Endless;

/// The file that a name leads to in the end, None if there is none. An alias may be of an instance whose file is the
/// template's.
fn follow(name: &str, place: &dyn Fn(&str) -> Option<Place>) -> Result<Option<PathBuf>, Endless> {
    let mut name = name.to_string();
    for hop in 0..MOST_ALIASES {
        let template = || (hop > 0).then(|| template_of(&name)).flatten();
        match place(&name).or_else(|| place(&template()?)) {
            None => return Ok(None),
            Some(Place::File(file)) => return Ok(Some(file)),
            Some(Place::Alias(next)) => name = next,
        }
    }
    Err(Endless)
}

/// The file of a unit: of its name or, for an instance, of its template's.
fn find_file(unit: &str, place: &dyn Fn(&str) -> Option<Place>) -> Result<Option<PathBuf>, Endless> {
    match (follow(unit, place)?, template_of(unit)) {
        (None, Some(template)) => follow(&template, place),
        (found, _) => Ok(found),
    }
}

fn name_of(file: &Path) -> &str {
    file.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// The name that a unit has by its file.
fn own_name(unit: &str, file: Option<&Path>) -> String {
    let Some(name) = file.map(name_of) else { return unit.to_string() };
    instance_of(unit).and_then(|instance| instantiated(name, instance)).unwrap_or_else(|| name.to_string())
}

/// Whether a link in the search path may make one name an alias of the other.
fn may_alias(alias: &str, name: &str) -> bool {
    let (Some(kind), Some(other)) = (unit_type(alias), unit_type(name)) else { return false };
    let (Some(from), Some(to)) = (Name::parse(alias), Name::parse(name)) else { return false };
    let fits = if from.is_instance() { to.is_template() || to.instance == from.instance } else { to.instance == from.instance };
    kind == other && matches!(kind, "service" | "socket") && alias != name && fits
}

/// Which names are the same unit, when they were looked for.
#[derive(Debug, Default)]
pub struct Aliases {
    places: HashMap<String, Place>,
    /// A unit's own name -> the others.
    others: BTreeMap<String, BTreeSet<String>>,
}

impl Aliases {
    fn place(&self, name: &str) -> Option<Place> {
        self.places.get(name).cloned()
    }

    fn find_file(&self, unit: &str) -> Option<PathBuf> {
        find_file(unit, &|name| self.place(name)).ok().flatten()
    }

    /// Names that are said to be other ones of `name`, or of the template that it is an instance of. `file` is the file
    /// of a unit that has this name by its file: of its template's aliases, those that lead elsewhere do not count.
    fn add_names(&self, name: &str, instance: Option<&str>, file: Option<&str>, names: &mut BTreeSet<String>) {
        if !is_template(name) {
            names.insert(name.to_string());
        }
        for alias in self.others.get(name).into_iter().flatten() {
            let Some(full) = instance.and_then(|instance| instantiated(alias, instance)) else {
                names.insert(alias.clone());
                continue;
            };
            let leads_to = follow(&full, &|name| self.place(name)).ok().flatten();
            if file.is_none() || leads_to.is_none_or(|path| Some(name_of(&path)) == file) {
                names.insert(full);
            }
        }
    }

    /// The unit that a name is another one of; None if it is a unit's own.
    pub fn real(&self, alias: &str) -> Option<String> {
        Some(own_name(alias, self.find_file(alias).as_deref())).filter(|name| name != alias)
    }

    /// The other names of a unit.
    pub fn of(&self, unit: &str) -> Vec<String> {
        let mut names = BTreeSet::new();
        let instance = instance_of(unit);
        self.add_names(unit, instance, None, &mut names);
        if let Some(file) = self.find_file(unit) {
            let file = name_of(&file);
            if file != unit {
                self.add_names(file, instance, Some(file), &mut names);
                names.extend(instance.and_then(|instance| instantiated(file, instance)));
            }
        }
        names.remove(unit);
        names.retain(|name| !is_template(name));
        names.into_iter().collect()
    }
}

/// A file of a unit, read.
type Content = std::io::Result<UnitFile>;

/// What differs between systemd's releases, and may be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The directories of unit files, highest priority first.
    pub path: Vec<String>,
    /// Whether drop-ins of units that are masked count. A unit that runs may be masked.
    pub reads_masked: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { path: SEARCH_PATH.map(str::to_string).to_vec(), reads_masked: false }
    }
}

impl Rules {
    /// Those of a manager that says that this is its version, and where it looks.
    pub fn of(version: &str, path: Vec<String>) -> Rules {
        let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
        let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        // 258 stopped it, and 257.10, which has the same change.
        let mut rules = Rules { reads_masked: release.0 > 0 && release < (257, 10), ..Rules::default() };
        if !path.is_empty() {
            rules.path = path;
        }
        rules
    }
}

/// Where the files of units are.
pub struct Finder {
    pub host: Host,
    pub rules: Rules,
    listings: RefCell<HashMap<String, Listing>>,
    /// Files that are taken to be there, with this text, whatever the disk has.
    planned: BTreeMap<PathBuf, String>,
    assume_units: bool,
}

impl Finder {
    pub fn new(host: &Host) -> Finder {
        Finder {
            host: host.clone(), rules: Rules::default(), listings: RefCell::default(), planned: BTreeMap::new(),
            assume_units: false,
        }
    }

    /// Take a drop-in to be there with this text, in place of what the disk has under its name: what `properties` and
    /// `files` then say is what they will say when it is written. `file` is as the host sees it, in the directory
    /// "UNIT.d" of a directory of the search path. It implies `assume_units`.
    pub fn plan(&mut self, file: &Path, text: &str) {
        self.assume_units();
        self.planned.insert(file.into(), text.into());
    }

    /// From now on take units to be there and not to be masked: what they will say once they are is what is asked.
    pub fn assume_units(&mut self) {
        self.assume_units = true;
    }

    /// What is in each of the directories now, highest priority first.
    fn with_listings<R>(&self, look: impl FnOnce(&[(&Path, &Listing)]) -> R) -> R {
        let now = SystemTime::now();
        let mut listings = self.listings.borrow_mut();
        for dir in &self.rules.path {
            listings.entry(dir.clone()).or_default().refresh(&self.host.path(dir), now);
        }
        look(&self.rules.path.iter().map(|dir| (Path::new(dir), &listings[dir])).collect::<Vec<_>>())
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.host.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Follow links as if the fixture's directory were "/", that at the path's end only if `last`. What is not there
    /// stays as it is. None: there are too many, or a file is in the way.
    fn resolve(&self, path: &Path, last: bool) -> Option<PathBuf> {
        fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
            path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
                .map(|part| part.as_os_str().to_owned())
        }
        let mut todo: VecDeque<OsString> = parts(path).collect();
        let (mut done, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                done.pop();
                continue;
            }
            let next = done.join(part);
            let keep = todo.is_empty() && !last;
            match std::fs::read_link(self.absolute(&next)) {
                Err(e) if e.kind() == ErrorKind::NotADirectory => return None,
                Ok(_) if !keep && links == MOST_LINKS => return None,
                Ok(target) if !keep => {
                    links += 1;
                    if target.is_absolute() {
                        done = "/".into();
                    }
                    parts(&target).rev().for_each(|part| todo.push_front(part));
                }
                _ => done = next,
            }
        }
        Some(done)
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let path = self.resolve(path, true).ok_or_else(|| std::io::Error::other("too many links"))?;
        if path == Path::new("/dev/null") { Ok(Vec::new()) } else { std::fs::read(self.absolute(&path)) }
    }

    /// Whether a unit's file says that there is no such unit: an empty file, or /dev/null. None: it is not there.
    fn masks(&self, path: &Path) -> Option<bool> {
        let path = self.resolve(path, true)?;
        if path == Path::new("/dev/null") {
            return Some(true);
        }
        let meta = std::fs::metadata(self.absolute(&path)).ok()?;
        let kind = meta.file_type();
        Some(kind.is_char_device() || kind.is_block_device() || kind.is_file() && meta.len() == 0)
    }

    /// Where an entry of a directory of the search path leads; None if systemd passes over it.
    fn place_of(&self, dir: &Path, name: &str, entry: &Entry) -> Option<Place> {
        match entry {
            Entry::Directory => None,
            Entry::File => Some(Place::File(dir.join(name))),
            Entry::Link(target) => {
                let target = self.resolve(&dir.join(target), false)?;
                if !self.rules.path.iter().any(|dir| target.parent().is_some_and(|parent| parent.starts_with(dir))) {
                    return Some(Place::File(dir.join(name)));
                }
                Some(name_of(&target)).filter(|target| may_alias(name, target)).map(|target| Place::Alias(target.into()))
            }
        }
    }

    /// Whether the file of a unit says that there is no such unit.
    pub fn is_masked(&self, unit: &str) -> bool {
        self.fragment(unit).is_some_and(|file| self.masks(&file) == Some(true))
    }

    /// The file that a unit's name leads to. It may be a mask, or a link that leads nowhere.
    pub fn fragment(&self, unit: &str) -> Option<PathBuf> {
        self.find_fragment(unit).ok().flatten()
    }

    fn find_fragment(&self, name: &str) -> Result<Option<PathBuf>, Endless> {
        self.with_listings(|listings| find_file(name, &|name| {
            let there = |(dir, listing): &(&Path, &Listing)| self.place_of(dir, name, listing.names.get(name)?);
            listings.iter().find_map(there)
        }))
    }

    /// Whether systemd takes an entry of its search path for a directory. What a relative link leads to it looks up from
    /// its own working directory, "/".
    fn is_directory(&self, entry: &Entry) -> bool {
        match entry {
            Entry::Directory => true,
            Entry::File => false,
            Entry::Link(target) => self.resolve(&Path::new("/").join(target), true)
                .is_some_and(|target| self.absolute(&target).is_dir()),
        }
    }

    /// Where drop-ins of a unit may stand, in the order in which they hide each other.
    fn dropin_dirs(&self, name: &str, aliases: &[String]) -> Vec<PathBuf> {
        let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind).to_string();
        let names = std::iter::once(name).chain(aliases.iter().map(String::as_str)).map(dropin_names).chain([vec![kind]]);
        self.with_listings(|listings| {
            let mut dirs = Vec::new();
            for names in names {
                for (dir, listing) in listings {
                    let there = names.iter().map(|name| format!("{name}.d")).filter(|name| {
                        listing.names.get(name).is_some_and(|entry| self.is_directory(entry))
                            || self.planned.keys().any(|file| file.parent() == Some(&dir.join(name)))
                    });
                    dirs.extend(there.map(|name| dir.join(name)));
                }
            }
            dirs
        })
    }

    /// The drop-ins of a unit in the order in which they are read, and what could not be looked into.
    fn find_dropins(&self, name: &str, aliases: &[String]) -> (Vec<PathBuf>, Vec<Complaint>) {
        let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        let mut unread = self.with_listings(|listings| {
            let errors = listings.iter().filter_map(|(dir, listing)| Some((dir, listing.error.as_ref()?)));
            errors.map(|(dir, error)| Complaint::unread(dir, &(*error).into())).collect::<Vec<_>>()
        });
        for dir in self.dropin_dirs(name, aliases) {
            let there = self.resolve(&dir, true).map(|path| std::fs::read_dir(self.absolute(&path)));
            let entries = match there {
                Some(Err(e)) if e.kind() == ErrorKind::PermissionDenied => {
                    unread.push(Complaint::unread(&dir, &e));
                    None
                }
                there => there.and_then(Result::ok),
            };
            let planned = self.planned.keys().filter(|file| file.parent() == Some(&dir)).filter_map(|file| file.file_name());
            for file in entries.into_iter().flatten().flatten().map(|entry| entry.file_name())
                .chain(planned.map(ToOwned::to_owned)) {
                if file.as_bytes().ends_with(b".conf") && !file.as_bytes().starts_with(b".") {
                    found.entry(file.clone()).or_insert_with(|| dir.join(file));
                }
            }
        }
        (found.into_values().collect(), unread)
    }

    fn content(&self, path: &Path) -> Content {
        match self.planned.get(path) {
            Some(text) => Ok(UnitFile::parse(text.as_bytes())),
            None => self.read(path).map(|bytes| UnitFile::parse(&bytes)),
        }
    }

    /// The files of a unit as systemd reads them, its fragment first, and what could not be looked into.
    fn load(&self, name: &str, aliases: &[String]) -> (Vec<(PathBuf, Content)>, Vec<Complaint>) {
        // Of names in a circle systemd loads nothing.
        let Ok(fragment) = self.find_fragment(name) else { return (vec![], vec![]) };
        let own = own_name(name, fragment.as_deref());
        let others: Vec<String> = aliases.iter().chain([&name.to_string()]).filter(|alias| **alias != own).cloned().collect();
        let mut files = Vec::new();
        // Without a file there is no such unit, whatever drop-ins there are, unless systemd or the kernel makes it.
        if fragment.is_none() && !self.assume_units && NEED_FILE.iter().any(|kind| name.ends_with(kind)) {
            return (vec![], vec![]);
        }
        if let Some(fragment) = fragment {
            if self.masks(&fragment) == Some(true) {
                if !self.rules.reads_masked && !self.assume_units {
                    return (vec![], vec![]);
                }
            } else {
                let content = self.content(&fragment);
                let ends = !matches!(&content, Ok(file) if file.broken.is_none());
                files.push((fragment, content));
                // systemd does not load the unit then.
                if ends {
                    return (files, vec![]);
                }
            }
        }
        let (dropins, unread) = self.find_dropins(&own, &others);
        files.extend(dropins.into_iter().map(|path| {
            let content = self.content(&path);
            (path, content)
        }));
        (files, unread)
    }

    /// The files that make up a unit: fragment first, then drop-ins in their order, without those that are not there or
    /// are masks. `aliases` are its other names.
    pub fn files(&self, name: &str, aliases: &[String]) -> Vec<PathBuf> {
        let is_mask = |path: &Path| !self.planned.contains_key(path) && self.masks(path) != Some(false);
        self.load(name, aliases).0.into_iter().map(|(path, _)| path).filter(|path| !is_mask(path)).collect()
    }

    /// What a unit's files say about its cgroup.
    pub fn properties(&self, name: &str, aliases: &[String]) -> Properties {
        let mut properties = Properties::default();
        let Some(section) = section(name) else { return properties };
        let (files, unread) = self.load(name, aliases);
        properties.unread = unread;
        for (path, content) in files {
            match content {
                Ok(file) => {
                    properties.take(section, &path, &file);
                    if let Some(broken) = file.broken.filter(|_| path.extension().is_some_and(|kind| kind != "conf")) {
                        properties.complaints.push(Complaint {
                            origin: Origin { file: path, line: broken.line },
                            text: format!("{}: the unit is not loaded, so its drop-ins do not count", broken.reason),
                        });
                    }
                }
                // A link that leads nowhere is a way to hide a file, too.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => properties.unread.push(Complaint::unread(&path, &e)),
            }
        }
        properties
    }

    /// All assignments of a unit in the order in which they count, each with its file.
    pub fn assignments(&self, name: &str, aliases: &[String]) -> Vec<(PathBuf, crate::unit_file::Assignment)> {
        let files = self.load(name, aliases).0.into_iter();
        files.filter_map(|(path, content)| Some((path, content.ok()?)))
            .flat_map(|(path, file)| file.assignments.into_iter().map(move |assignment| (path.clone(), assignment))).collect()
    }

    /// Which names are those of the same unit now.
    pub fn find_aliases(&self) -> Aliases {
        let mut aliases = Aliases::default();
        self.with_listings(|listings| for (dir, listing) in listings {
            for (name, entry) in listing.names.iter().filter(|(name, _)| unit_type(name).is_some()) {
                if !aliases.places.contains_key(name) {
                    aliases.places.extend(self.place_of(dir, name, entry).map(|place| (name.clone(), place)));
                }
            }
        });
        for (alias, place) in &aliases.places {
            let Place::Alias(_) = place else { continue };
            // What is masked, or not there, is no unit that could have other names.
            let Ok(Some(file)) = follow(alias, &|name| aliases.place(name)) else { continue };
            if self.masks(&file) == Some(false) {
                aliases.others.entry(own_name(alias, Some(&file))).or_default().insert(alias.clone());
            }
        }
        aliases
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

impl Complaint {
    /// Of a file, or a directory of such, that could not be read.
    fn unread(path: &Path, error: &std::io::Error) -> Complaint {
        let text = crate::error::Error::io("cannot be read, so what it says does not count here", error.kind()).message;
        Complaint { origin: Origin { file: path.into(), line: 0 }, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Key;
    use crate::testing::TempDir;
    use proptest::prelude::*;

    const ETC: &str = "etc/systemd/system";
    const USR: &str = "usr/lib/systemd/system";

    fn finder() -> (TempDir, Finder) {
        let dir = TempDir::new();
        let finder = Finder::new(&Host::new(Some(dir.path())));
        (dir, finder)
    }

    fn link(dir: &TempDir, path: &str, target: &str) {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    fn hint(finder: &Finder, unit: &str) -> Option<String> {
        finder.properties(unit, &finder.find_aliases().of(unit)).values.remove(&Key::Hint).map(|(value, _)| value)
    }

    fn says(hint: &str) -> String {
        format!("[Service]\nX-CPUHint={hint}\n")
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
    fn names_of_drop_in_directories() {
        assert_eq!(dropin_names("a-b-c.slice"), ["a-b-c.slice", "a-b-.slice", "a-.slice"]);
        assert_eq!(dropin_names("a-b@i.service"), ["a-b@i.service", "a-b@.service", "a-.service", "a-@i.service", "a-@.service"]);
        assert_eq!(dropin_names("a-b-@.service"), ["a-b-@.service", "a-.service"]);
        assert_eq!(dropin_names("-a.service"), ["-a.service"]);
    }

    /// A file's name hides the same one: in the order of the search path first, whatever is more specific.
    #[test]
    fn the_search_path_comes_before_how_specific_a_name_is() {
        let (dir, finder) = finder();
        dir.file(&format!("{USR}/a-b.service"), "[Service]\n");
        dir.file(&format!("{USR}/a-b.service.d/1.conf"), &says("pack"));
        dir.file(&format!("{ETC}/a-.service.d/1.conf"), &says("energy"));
        assert_eq!(hint(&finder, "a-b.service").unwrap(), "energy");
        // But for the type's own directory, which comes last.
        dir.file("run/systemd/system/service.d/1.conf", &says("scan_full"));
        dir.file("etc/systemd/system.control/service.d/1.conf", &says("scan_none"));
        assert_eq!(hint(&finder, "a-b.service").unwrap(), "energy");
        dir.file(&format!("{ETC}/a-b.service.d/1.conf"), &says("wake_hold"));
        assert_eq!(hint(&finder, "a-b.service").unwrap(), "wake_hold");
        dir.file(&format!("{USR}/t@.service"), "[Service]\n");
        dir.file(&format!("{USR}/t@i.service.d/1.conf"), &says("pack"));
        dir.file(&format!("{ETC}/t@.service.d/1.conf"), &says("energy"));
        assert_eq!(hint(&finder, "t@i.service").unwrap(), "energy");
        dir.file(&format!("{USR}/ab-cd@.service"), "[Service]\n");
        dir.file(&format!("{USR}/ab-@i.service.d/x.conf"), &says("pack"));
        assert_eq!(hint(&finder, "ab-cd@i.service").unwrap(), "pack");
        assert_eq!(hint(&finder, "ab-cd@j.service").unwrap(), "scan_none");
    }

    #[test]
    fn templates_and_instances() {
        let (dir, finder) = finder();
        dir.file(&format!("{ETC}/t@.service"), "[Service]\nX-CPUHint=pack\n");
        dir.file(&format!("{ETC}/t@.service.d/x.conf"), "[Service]\nX-CPUGang=1\n");
        dir.file(&format!("{ETC}/t@one.service.d/y.conf"), "[Service]\nX-CPUGangScope=core\n");
        assert_eq!(finder.properties("t@one.service", &[]).values.len(), 3);
        assert_eq!(finder.properties("t@two.service", &[]).values.len(), 2);
        dir.file(&format!("{USR}/t@two.service"), "[Service]\nX-CPUHint=energy\n");
        assert_eq!(hint(&finder, "t@two.service").unwrap(), "energy", "a file of its own");
    }

    #[test]
    fn masks() {
        let (dir, mut finder) = finder();
        dir.file(&format!("{USR}/m.service"), &says("pack"));
        dir.file(&format!("{USR}/m.service.d/1.conf"), &says("energy"));
        dir.file(&format!("{USR}/m.service.d/2.conf"), &says("wake_hold"));
        dir.file(&format!("{USR}/m.service.d/3.conf"), &says("scan_full"));
        dir.file(&format!("{ETC}/m.service.d/3.conf"), "");
        link(&dir, &format!("{ETC}/m.service.d/2.conf"), "/dev/null");
        assert_eq!(hint(&finder, "m.service").unwrap(), "energy");
        link(&dir, &format!("{ETC}/m.service.d/1.conf"), "nowhere");
        assert_eq!(hint(&finder, "m.service").unwrap(), "pack");
        assert_eq!(finder.files("m.service", &[]), [Path::new("/usr/lib/systemd/system/m.service")]);
        link(&dir, &format!("{ETC}/m.service"), "/dev/null");
        dir.file(&format!("{ETC}/m.service.d/9.conf"), &says("slice_long"));
        assert!(finder.is_masked("m.service"));
        assert_eq!(hint(&finder, "m.service"), None);
        finder.rules = Rules::of("252.38-1~deb12u1", vec![]);
        assert_eq!(hint(&finder, "m.service").unwrap(), "slice_long");
        assert!(Rules::of("257.9-1", vec![]).reads_masked && !Rules::of("257.13-1~deb13u1", vec![]).reads_masked);
        assert!(!Rules::of("258", vec![]).reads_masked && !Rules::of("unknown", vec![]).reads_masked);
    }

    #[test]
    fn links_to_files_of_other_names() {
        let (dir, finder) = finder();
        dir.file("opt/real.service", &says("pack"));
        link(&dir, &format!("{ETC}/linked.service"), "/opt/real.service");
        dir.file(&format!("{ETC}/linked.service.d/x.conf"), "[Service]\nX-CPUGang=1\n");
        dir.file(&format!("{ETC}/real.service.d/x.conf"), &says("energy"));
        let found = finder.properties("linked.service", &finder.find_aliases().of("linked.service"));
        assert_eq!(found.values[&Key::Hint].0, "pack", "the file that is linked has another name, the unit has not");
        assert_eq!(found.values[&Key::Gang].0, "1");
        // Through a directory that is a link.
        link(&dir, "lib", "usr/lib");
        dir.file(&format!("{USR}/web.service"), &says("pack"));
        link(&dir, &format!("{ETC}/shop.service"), "/lib/systemd/system/web.service");
        dir.file(&format!("{ETC}/web.service.d/x.conf"), &says("energy"));
        assert_eq!(hint(&finder, "shop.service").unwrap(), "energy", "an alias is the unit itself");
        assert_eq!(finder.find_aliases().real("shop.service").unwrap(), "web.service");
        assert_eq!(finder.find_aliases().real("web.service"), None);
        // What is none: of another type, of another kind of name, of itself, and slices have none.
        dir.file(&format!("{USR}/t@.service"), &says("pack"));
        link(&dir, &format!("{ETC}/plain.service"), "t@.service");
        link(&dir, &format!("{ETC}/web.service"), "/usr/lib/systemd/system/web.service");
        link(&dir, &format!("{ETC}/web.socket"), "web.service");
        dir.file(&format!("{USR}/a.slice"), "[Slice]\nX-CPUHint=pack\n");
        link(&dir, &format!("{ETC}/b.slice"), "../../../usr/lib/systemd/system/a.slice");
        assert_eq!(hint(&finder, "plain.service"), None);
        assert_eq!(hint(&finder, "web.socket"), None);
        assert_eq!(hint(&finder, "b.slice"), None);
        assert_eq!(hint(&finder, "web.service").unwrap(), "energy");
    }

    /// A relative link is taken as if it stood in "/".
    #[test]
    fn links_to_directories() {
        let (dir, finder) = finder();
        dir.file(&format!("{ETC}/a.service"), "[Service]\n");
        dir.file(&format!("{ETC}/b.service.d/x.conf"), &says("pack"));
        link(&dir, &format!("{ETC}/a.service.d"), "b.service.d");
        assert_eq!(hint(&finder, "a.service"), None);
        link(&dir, &format!("{USR}/a.service.d"), "../../../../etc/systemd/system/b.service.d");
        assert_eq!(hint(&finder, "a.service").unwrap(), "pack");
        dir.file("opt/y.conf", "[Service]\nX-CPUGang=1\n");
        link(&dir, "run/systemd/system/a.service.d", "/opt");
        assert_eq!(finder.properties("a.service", &[]).values.len(), 2);
    }

    #[test]
    fn aliases() {
        let (dir, finder) = finder();
        dir.file(&format!("{USR}/web.service"), "[Service]\n");
        dir.file(&format!("{USR}/t@.service"), "[Service]\n");
        link(&dir, &format!("{ETC}/far.service"), "mid.service");
        link(&dir, &format!("{ETC}/mid.service"), "/usr/lib/systemd/system/web.service");
        link(&dir, &format!("{ETC}/nick@.service"), "/usr/lib/systemd/system/t@.service");
        link(&dir, &format!("{ETC}/loop.service"), "pool.service");
        link(&dir, &format!("{ETC}/pool.service"), "loop.service");
        link(&dir, &format!("{ETC}/gone.service"), "not.service");
        let aliases = finder.find_aliases();
        assert_eq!(aliases.of("web.service"), ["far.service", "mid.service"]);
        assert_eq!(aliases.of("far.service"), ["mid.service", "web.service"]);
        assert_eq!(aliases.of("t@1.service"), ["nick@1.service"]);
        assert_eq!(aliases.of("nick@1.service"), ["t@1.service"]);
        for none in ["loop.service", "not.service", "other.service"] {
            assert!(aliases.of(none).is_empty(), "{none}");
        }
        dir.file(&format!("{ETC}/nick@.service.d/x.conf"), &says("pack"));
        assert_eq!(hint(&finder, "t@1.service").unwrap(), "pack");
        // The unit's own name comes before another one, wherever that is.
        dir.file("etc/systemd/system.control/far.service.d/x.conf", &says("pack"));
        dir.file(&format!("{USR}/web.service.d/x.conf"), &says("energy"));
        assert_eq!(hint(&finder, "web.service").unwrap(), "energy");
        assert_eq!(hint(&finder, "far.service").unwrap(), "energy");
    }

    #[test]
    fn a_service_without_a_file_is_none() {
        let (dir, mut finder) = finder();
        dir.file(&format!("{ETC}/a.service.d/x.conf"), &says("pack"));
        dir.file(&format!("{ETC}/a.scope.d/x.conf"), "[Scope]\nX-CPUHint=pack\n");
        assert_eq!(hint(&finder, "a.service"), None);
        assert_eq!(hint(&finder, "a.scope").unwrap(), "pack");
        finder.assume_units();
        assert_eq!(hint(&finder, "a.service").unwrap(), "pack");
    }

    /// A file that systemd does not read to its end: of a unit's own, no drop-in counts then.
    #[test]
    fn files_that_break_off() {
        let (dir, finder) = finder();
        dir.file(&format!("{ETC}/a.service"), "[Service]\n");
        dir.file(&format!("{ETC}/a.service.d/1.conf"), "[Service] # mine\nX-CPUHint=energy\n");
        dir.file(&format!("{ETC}/a.service.d/2.conf"), &says("pack"));
        let found = finder.properties("a.service", &[]);
        assert_eq!(found.values[&Key::Hint].0, "pack");
        let complaint = found.complaints[0].to_string();
        assert!(complaint.starts_with("/etc/systemd/system/a.service.d/1.conf:1: '[Service] # mine' is no section header")
                && complaint.contains("line 2"), "{complaint}");
        dir.file(&format!("{ETC}/a.service"), "[Service]\nX-CPUGang=1\n[Service]x\n");
        let found = finder.properties("a.service", &[]);
        assert_eq!(found.values.keys().collect::<Vec<_>>(), [&Key::Gang]);
        assert!(found.complaints[0].text.contains("the unit is not loaded"), "{}", found.complaints[0]);
    }

    /// What cannot be read is said. Whoever may read everything, as root may, has a file that is a directory instead.
    #[test]
    fn what_cannot_be_read_is_said() {
        let (dir, finder) = finder();
        dir.file(&format!("{ETC}/a.service"), "[Service]\n");
        dir.file(&format!("{ETC}/a.service.d/1.conf/x"), "");
        let found = finder.properties("a.service", &[]);
        assert_eq!(found.unread.len(), 1);
        assert!(found.unread[0].to_string().starts_with("/etc/systemd/system/a.service.d/1.conf: cannot be read"));
        let closed = dir.path().join(ETC).join("a.service.d");
        let mode = |mode| std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o000);
        if std::fs::read_dir(&closed).is_err() {
            let found = finder.properties("a.service", &[]);
            assert!(found.unread[0].to_string().contains("a.service.d: cannot be read"), "{:?}", found.unread);
        }
        mode(0o755);
    }

    proptest! {
        #[test]
        fn any_name(name in "\\PC*") {
            dropin_names(&name);
            template_of(&name);
            instantiated(&name, "i");
        }
    }
}
