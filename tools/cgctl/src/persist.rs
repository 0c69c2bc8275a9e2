// SPDX-License-Identifier: GPL-2.0-only
//! Keeping units' settings: drop-ins that cgctl.service applies at every start.
//!
//! There is one for good and one until the next boot, each with a name of its own, since systemd reads only one file of
//! a name. What is set until the next boot comes after everything else and counts meanwhile. What is set for good comes
//! where systemd's own tools write, and before what an administrator writes with `systemctl edit`.
//!
//! Nothing is written that would not count: what the unit's files will say is computed first, by the rules by which the
//! daemon reads them (unit.rs), and where another line wins, it is named.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::dbus::Systemd;
use crate::dropin;
use crate::error::{Error, Result};
use crate::hint::Request;
use crate::nearest::suggestion;
use crate::output::note;
use crate::setting::{same, Key, Settings};
use crate::tree::{base, Host, Tree};
use crate::unit::{self, Aliases, Finder, Origin};

/// How long a setting is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// Until it is taken back.
    Always,
    UntilBoot,
}

impl Lasting {
    /// The drop-in of a unit.
    fn path(self, unit: &str) -> String {
        match self {
            Lasting::Always => format!("/etc/systemd/system/{unit}.d/50-cgctl.conf"),
            Lasting::UntilBoot => format!("/run/systemd/system/{unit}.d/zz-cgctl-runtime.conf"),
        }
    }
}

/// Where this machine's systemd looks for unit files, as the daemon has it.
pub fn finder(host: &Host) -> Finder {
    let mut finder = Finder::new(host);
    if host.is_live() {
        if let Ok(rules) = Systemd::connect(false).and_then(|systemd| systemd.rules()) {
            finder.rules = rules;
        }
    }
    finder
}

/// A file that is to be another one, or none.
#[derive(Debug)]
struct Change {
    /// As the host sees it.
    path: String,
    target: PathBuf,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Change {
    fn plan(host: &Host, path: &str, new: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<Change> {
        let target = host.path(path);
        // What is at the end of a link is somebody else's, or another unit's.
        for link in [target.parent().expect("a drop-in is in a directory"), &target] {
            if let Ok(to) = std::fs::read_link(link) {
                let shown = if link == target { path } else { path.rsplit_once('/').expect("it is absolute").0 };
                let masks = to == Path::new("/dev/null");
                return Err(Error::invalid(format!(
                    "{shown} is a link to {}{}; nothing was written. Remove the link, or {}", to.display(),
                    if masks { ", so systemd reads no file of this name" } else { "" },
                    if masks { "use another drop-in" } else { "change what is behind it" })));
            }
        }
        let old = match std::fs::read(&target) {
            Ok(old) => Some(old),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io(path, e)),
        };
        let new = new(old.as_deref().unwrap_or_default());
        Ok(Change { path: path.into(), target, old, new })
    }

    fn is_none(&self) -> bool {
        self.old == self.new
    }

    /// Make it that, whole or not at all.
    fn make(&self, text: Option<&[u8]>) -> std::io::Result<()> {
        let dir = self.target.parent().expect("a drop-in is in a directory");
        let Some(text) = text else {
            std::fs::remove_file(&self.target)?;
            // Others may have files in it.
            let _ = std::fs::remove_dir(dir);
            return Ok(());
        };
        std::fs::create_dir_all(dir)?;
        let mode = std::fs::metadata(&self.target).map_or(0o644, |meta| meta.permissions().mode() & 0o7777);
        // The name must not end in .conf until the content is there.
        let new = self.target.with_extension(format!("{}.new", std::process::id()));
        let written = std::fs::File::create(&new).and_then(|mut file| {
            file.set_permissions(PermissionsExt::from_mode(mode))?;
            file.write_all(text)?;
            file.sync_all()
        });
        written.and_then(|()| std::fs::rename(&new, &self.target)).inspect_err(|_| {
            let _ = std::fs::remove_file(&new);
        })
    }
}

/// Drop-ins that are about to be written.
#[derive(Debug, Default)]
pub struct Kept {
    pub units: Vec<String>,
    /// What whoever asked for it should know.
    pub warnings: Vec<String>,
    changes: Vec<Change>,
    /// Files that say it already.
    pub unchanged: Vec<String>,
}

impl Kept {
    /// Plan to keep settings of groups that are units'; nothing is written yet. A unit that has no group now goes by its
    /// name. Errors: the group is no unit of the system manager, there is no such unit, a hint is not in full, or what
    /// would be written would not count.
    pub fn plan(host: &Host, tree: &Tree, groups: &[(String, Settings)], lasting: Lasting) -> Result<Kept> {
        let mut kept = Kept::default();
        let mut finder = finder(host);
        let aliases = finder.find_aliases();
        for (group, settings) in groups {
            kept.add(&mut finder, &aliases, tree, group, settings, lasting)?;
        }
        Ok(kept)
    }

    fn add(&mut self, finder: &mut Finder, aliases: &Aliases, tree: &Tree, group: &str, settings: &Settings,
           lasting: Lasting) -> Result<()> {
        let unit = &*unit_of(tree, group)?;
        if settings.get(&Key::Hint).is_some_and(|hint| Request::is_edit(hint)) {
            return Err(Error::invalid("hint: what is kept has to be in full, not +word or -word"));
        }
        self.warnings.extend(check(finder, tree, unit, group, lasting)?);
        let section = unit::section(unit).expect("it is a unit that has a cgroup");
        let names = aliases.of(unit);
        let before = finder.files(unit, &names);

        let path = lasting.path(unit);
        let mut changes = vec![Change::plan(&finder.host, &path, |old| Some(dropin::edit(old, section, settings)))?];
        if lasting == Lasting::Always {
            // What was set until the next boot would count until then.
            let keys: Vec<Key> = settings.keys().copied().collect();
            let runtime = Lasting::UntilBoot.path(unit);
            if finder.host.path(&runtime).exists() {
                changes.push(Change::plan(&finder.host, &runtime, |old| dropin::without(old, section, &keys))?);
            }
        }
        for change in &changes {
            finder.plan(Path::new(&change.path), &String::from_utf8_lossy(change.new.as_deref().unwrap_or_default()));
        }
        let after = finder.files(unit, &names);
        if let Some(hidden) = before.iter().find(|file| !after.contains(file)) {
            return Err(Error::invalid(format!("{path} would hide {}, which has the same name; nothing was written. Give \
                                               that another name", hidden.display())));
        }
        let found = finder.properties(unit, &names);
        let losing = settings.iter().filter(|(key, value)| found.values.get(key).map(|(now, _)| now) != Some(value));
        let reasons: Vec<String> = losing.map(|(key, value)| {
            let ours = format!("{}={value}", key.property());
            match found.decided.get(key) {
                Some(origin) => {
                    let says = found.values.get(key).map_or_else(|| format!("takes {}= back", key.property()),
                                                                 |(now, _)| format!("says {}={now}", key.property()));
                    format!("{}:{} {says}, and comes after {path}, so {ours} would not count", origin.file.display(),
                            origin.line)
                }
                None => format!("{}, so {ours} would not count", hiding(finder, &after, &path)),
            }
        }).collect();
        if !reasons.is_empty() {
            return Err(Error::invalid(format!("{unit}: {}; nothing was written. Change it there, or take it out and call  \
                                               systemctl daemon-reload", reasons.join("; "))));
        }
        self.units.push(unit.into());
        self.unchanged.extend(changes.iter().filter(|change| change.is_none()).map(|change| change.path.clone()));
        self.changes.extend(changes.into_iter().filter(|change| !change.is_none()));
        Ok(())
    }

    /// Write them, all or none.
    pub fn write(&self) -> Result<()> {
        for (i, change) in self.changes.iter().enumerate() {
            if let Err(e) = change.make(change.new.as_deref()) {
                self.take_back(i);
                return Err(Error::io(&change.path, e));
            }
        }
        Ok(())
    }

    /// Put back what was there before; what it belongs to has failed.
    pub fn undo(&self) {
        self.take_back(self.changes.len());
    }

    fn take_back(&self, count: usize) {
        for change in self.changes[..count].iter().rev() {
            if let Err(e) = change.make(change.old.as_deref()) {
                note(Error::io(&change.path, e).about("what was there before could not be put back"));
            }
        }
    }

    /// Each file, and whether it is written (or removed).
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        self.changes.iter().map(|change| (change.path.as_str(), change.new.is_some()))
    }
}

/// The system manager's unit that a group is, not one that it is in.
fn unit_of(tree: &Tree, group: &str) -> Result<String> {
    // One that does not run goes by its name.
    let place = if tree.exists(group) { tree.in_manager(group) } else { Some(group.to_string()) };
    let place = place.ok_or_else(|| Error::invalid(format!("/{group} is not below this machine's systemd")))?;
    let unit = unit::from_cgroup_name(base(&place)).ok_or_else(|| Error::invalid(format!(
        "/{group} is no systemd unit, so there is nothing to keep it in; put it into a policy and 'cgctl apply' it")))?;
    let Some(above) = place.split('/').rev().skip(1).find(|part| !part.ends_with(".slice")) else {
        return Ok(unit.to_string());
    };
    Err(Error::invalid(if above.starts_with("user@") {
        format!("{unit} belongs to a user's own systemd, which cgctl.service does not follow; use \
                 ExecStartPre=cgctl set self ... in the unit")
    } else {
        format!("/{group} is inside {above}, which whoever runs there sees to; the {unit} of this machine's systemd is \
                 another one")
    }))
}

/// The beginning of a name that will never come again, up to what makes it that.
fn kind_of_one_off(unit: &str) -> Option<&str> {
    let (stem, suffix) = unit.rsplit_once('.')?;
    let all = |text: &str, valid: fn(char) -> bool| !text.is_empty() && text.chars().all(valid);
    let number = |text: &str| all(text, |c| c.is_ascii_digit());
    let hex = |text: &str| all(text, |c| c.is_ascii_hexdigit());
    // As systemd-run names what it starts.
    let run = |name: &str| name.strip_prefix('u').is_some_and(number)
        || name.strip_prefix('r').is_some_and(|id| id.len() == 32 && hex(id))
        || name.strip_prefix('p').and_then(|name| name.split_once("-i"))
            .is_some_and(|(pid, id)| number(pid) && number(id));
    if stem.strip_prefix("run-").is_some_and(run) {
        return Some("run-");
    }
    if suffix != "scope" {
        return None;
    }
    if let Some(kind) = ["session-", "cgctl-run-"].into_iter().find(|kind| stem.starts_with(kind)) {
        return Some(kind);
    }
    // A container's id
    let (kind, id) = stem.split_at(stem.rfind('-')? + 1);
    (id.len() >= 32 && hex(id)).then_some(kind)
}

/// Whether there is such a unit, and whether keeping something for it makes sense. Returns what is to be said of that.
fn check(finder: &Finder, tree: &Tree, unit: &str, group: &str, lasting: Lasting) -> Result<Option<String>> {
    let kept = lasting == Lasting::Always;
    let suffix = unit::unit_type(unit).expect("it is a unit that has a cgroup");
    if let (Some(kind), true) = (kind_of_one_off(unit), kept) {
        return Err(Error::invalid(format!(
            "{unit} ends for good, and another one of this name will be something else, so there is nothing to keep; set \
             it without --persist. For all of its kind, a drop-in in /etc/systemd/system/{kind}.{suffix}.d does it")));
    }
    let running = tree.exists(group);
    let fragment = match finder.files(unit, &[]).into_iter().next() {
        Some(file) if file.extension().is_some_and(|extension| extension != "conf") => Some(file),
        _ => None,
    };
    if fragment.as_ref().is_some_and(|file| file.starts_with("/run/systemd/transient")) {
        return Ok(kept.then(|| format!("{unit} has no unit file of its own, and goes when it ends; what is kept counts \
                                        whenever a unit of this name is started")));
    }
    if running || fragment.is_some() {
        return Ok(None);
    }
    if is_masked(finder, unit) {
        return Ok(Some(format!("{unit} is masked: systemd does not start it")));
    }
    let mut known = finder.known_units();
    let _ = tree.walk("", &mut |group| known.extend(unit::from_cgroup_name(base(&group.path)).map(str::to_string)));
    let meant = suggestion(unit, known.iter().map(String::as_str).filter(|name| *name != unit));
    if suffix == "slice" {
        // Needs no file, and is there while something is in it.
        return Ok(Some(format!("{unit} is not there now, and has no unit file{meant}; what is kept counts once something \
                                runs in it")));
    }
    Err(Error::not_found(format!("there is no unit {unit}: no file describes it, and none of this name runs{meant}; \
                                  nothing was written")))
}

/// Whether the unit's file is one that systemd takes for none.
fn is_masked(finder: &Finder, unit: &str) -> bool {
    finder.is_masked(unit)
}

/// Why a file is none of those that systemd reads.
fn hiding(finder: &Finder, files: &[PathBuf], path: &str) -> String {
    let name = Path::new(path).file_name();
    if let Some(file) = files.iter().find(|file| file.file_name() == name && *file != Path::new(path)) {
        return format!("{} hides {path}, as it has the same name", file.display());
    }
    let dir = Path::new(path).parent().and_then(Path::file_name).unwrap_or_default();
    let link = finder.rules.path.iter().map(|place| Path::new(place).join(dir).join(name.unwrap_or_default()))
        .find(|file| std::fs::read_link(finder.host.path(&file.to_string_lossy())).is_ok());
    link.map_or_else(|| format!("systemd does not read {path}"), |link| format!("{} masks {path}", link.display()))
}

/// The unit that somebody means who wants to keep something for one that does not run: another name of one, or one
/// without its type, is taken for what it stands for. None is no name of a unit.
pub fn named(host: &Host, target: &str) -> Option<String> {
    let name = target.strip_prefix("unit:").unwrap_or(target);
    let finder = finder(host);
    let known = |name: &str| finder.known_units().iter().any(|known| known == name);
    let name = match unit::unit_type(name) {
        Some(_) => name.to_string(),
        None => Some(format!("{name}.service")).filter(|name| known(name))?,
    };
    Some(finder.find_aliases().real(&name).unwrap_or(name))
}

/// Something that a unit's files say, and cgctl.service applies again.
#[derive(Debug, PartialEq, Eq)]
pub struct Overruled {
    pub unit: String,
    pub key: Key,
    pub value: String,
    pub origin: Origin,
}

impl std::fmt::Display for Overruled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} says {}={} for {}", self.origin.file.display(), self.origin.line, self.key.property(), self.value,
               self.unit)
    }
}

/// What units' files say against values that groups are given.
pub fn overruled<'a>(host: &Host, tree: &Tree, values: impl Iterator<Item = (&'a str, Key, &'a str)>) -> Vec<Overruled> {
    let mut files: Option<(Finder, Aliases)> = None;
    let mut said = Vec::new();
    for (group, key, value) in values {
        let Ok(unit) = unit_of(tree, group) else { continue };
        let (finder, aliases) = files.get_or_insert_with(|| {
            let finder = finder(host);
            let aliases = finder.find_aliases();
            (finder, aliases)
        });
        if let Some((now, origin)) = finder.properties(&unit, &aliases.of(&unit)).values.remove(&key) {
            if !same(key, &now, value) {
                said.push(Overruled { unit: unit.clone(), key, value: now, origin });
            }
        }
    }
    said
}

/// Have systemd read its files anew.
pub fn reload(host: &Host) -> Result<()> {
    if host.is_live() {
        Systemd::connect(false)?.reload().map_err(|e| e.about("the drop-in is written, but"))?;
    }
    Ok(())
}

/// Whether the daemon that applies drop-ins runs.
pub fn daemon_runs(host: &Host) -> bool {
    host.open_tree().is_ok_and(|tree| {
        tree.from_manager("system.slice/cgctl.service").is_some_and(|path| tree.exists(&path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::setting::parse_assignments;
    use crate::testing::TempDir;
    use std::os::unix::fs::symlink;

    const ETC: &str = "etc/systemd/system";
    const RUN: &str = "run/systemd/system";
    const GROUP: &str = "system.slice/a.service";

    /// A machine on which a.service runs.
    fn machine() -> (TempDir, Host) {
        let dir = TempDir::new();
        ["", "system.slice", GROUP].iter().for_each(|path| dir.group(path));
        dir.file("usr/lib/systemd/system/a.service", "[Service]\nExecStart=a\n");
        dir.file(&format!("{ETC}/z.service"), "[Service]\n");
        let host = Host::new(Some(dir.path()));
        (dir, host)
    }

    fn plan(host: &Host, group: &str, words: &[&str], lasting: Lasting) -> Result<Kept> {
        Kept::plan(host, &host.open_tree()?, &[(group.into(), parse_assignments(words)?)], lasting)
    }

    fn keep(host: &Host, words: &[&str], lasting: Lasting) -> Result<()> {
        plan(host, GROUP, words, lasting)?.write()
    }

    /// What the daemon makes of it.
    fn says(host: &Host, key: Key) -> Option<String> {
        let finder = finder(host);
        let found = finder.properties("a.service", &finder.find_aliases().of("a.service"));
        assert_eq!(found.complaints, []);
        found.values.get(&key).map(|(value, _)| value.clone())
    }

    fn refused(host: &Host, words: &[&str], lasting: Lasting) -> String {
        let error = plan(host, GROUP, words, lasting).unwrap_err();
        assert!(error.message.contains("nothing was written"), "{error}");
        error.message
    }

    #[test]
    fn written_and_added_to() {
        let (dir, host) = machine();
        keep(&host, &["hint=pack"], Lasting::Always).unwrap();
        keep(&host, &["headroom=3"], Lasting::Always).unwrap();
        let text = dir.read(&format!("{ETC}/a.service.d/50-cgctl.conf"));
        assert!(text.starts_with("# Written by cgctl set"), "{text}");
        assert!(text.ends_with("X-CPUHint=pack\nX-CPUHeadroom=3.00\n"), "{text}");
        assert!(!text.contains("Weight"), "a weight is none of its business: {text}");
        assert_eq!(std::fs::read_dir(dir.path().join(ETC).join("a.service.d")).unwrap().count(), 1);
        let kept = plan(&host, GROUP, &["gang=1"], Lasting::UntilBoot).unwrap();
        kept.write().unwrap();
        kept.undo();
        assert!(!dir.path().join(RUN).join("a.service.d").exists());
    }

    #[test]
    fn what_somebody_else_wrote_into_it_stays() {
        let (dir, host) = machine();
        let file = format!("{ETC}/a.service.d/50-cgctl.conf");
        let theirs = "# ours\n[Service]\nMemoryMax=200M\nNice=5\nX-CPUHint=pack\n";
        dir.file(&file, theirs);
        std::fs::set_permissions(dir.path().join(&file), PermissionsExt::from_mode(0o640)).unwrap();
        let kept = plan(&host, GROUP, &["headroom=3"], Lasting::Always).unwrap();
        kept.write().unwrap();
        assert!(dir.read(&file).ends_with(&format!("\n{theirs}X-CPUHeadroom=3.00\n")));
        let mode = std::fs::metadata(dir.path().join(&file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        kept.undo();
        assert_eq!(dir.read(&file), theirs);
    }

    #[test]
    fn what_is_set_until_the_next_boot_counts_until_then() {
        let (dir, host) = machine();
        keep(&host, &["hint=pack", "headroom=3"], Lasting::Always).unwrap();
        dir.file(&format!("{ETC}/a.service.d/override.conf"), "[Service]\nX-CPUGang=1\n");
        keep(&host, &["hint=tail_latency", "gang=0"], Lasting::UntilBoot).unwrap();
        assert_eq!(says(&host, Key::Hint).unwrap(), "tail_latency");
        assert_eq!(says(&host, Key::Gang).unwrap(), "0");
        assert_eq!(says(&host, Key::Headroom).unwrap(), "3.00", "what is kept for good stays");
    }

    #[test]
    fn what_is_set_for_good_counts_at_once() {
        let (dir, host) = machine();
        keep(&host, &["hint=tail_latency", "gang=1"], Lasting::UntilBoot).unwrap();
        keep(&host, &["hint=pack"], Lasting::Always).unwrap();
        assert_eq!(says(&host, Key::Hint).unwrap(), "pack");
        assert_eq!(says(&host, Key::Gang).unwrap(), "1");
        let kept = plan(&host, GROUP, &["gang=0"], Lasting::Always).unwrap();
        let runtime = "/run/systemd/system/a.service.d/zz-cgctl-runtime.conf";
        assert_eq!(kept.files().collect::<Vec<_>>(),
                   [("/etc/systemd/system/a.service.d/50-cgctl.conf", true), (runtime, false)]);
        kept.write().unwrap();
        assert!(!dir.path().join(RUN).join("a.service.d").exists(), "nothing is left in it");
        kept.undo();
        assert_eq!(says(&host, Key::Gang).unwrap(), "1");
    }

    #[test]
    fn what_would_not_count_is_not_written() {
        for (file, text, line) in [
            ("etc/systemd/system/a.service.d/override.conf", "X-CPUHint=pack", "override.conf:2 says X-CPUHint=pack"),
            ("etc/systemd/system/a.service.d/hint.conf", "X-CPUHint=pack", "hint.conf:2 says"),
            ("etc/systemd/system.control/a.service.d/60-x.conf", "X-CPUHint=pack", "system.control/a.service.d/60-x"),
            ("usr/lib/systemd/system/service.d/90-all.conf", "\nX-CPUHint=", "90-all.conf:3 takes X-CPUHint= back"),
            ("etc/systemd/system.control/a.service.d/50-cgctl.conf", "", "hides /etc/systemd/system/a.service.d"),
        ] {
            let (dir, host) = machine();
            dir.file(file, &format!("[Service]\n{text}\n"));
            let said = refused(&host, &["hint=tail_latency", "headroom=3"], Lasting::Always);
            assert!(said.contains(line), "{file}: {said}");
            // Whoever says the same is no obstacle.
            if text.contains("=pack") {
                assert!(!said.contains("Headroom"), "only what loses is named: {said}");
                keep(&host, &["hint=pack"], Lasting::Always).unwrap();
                keep(&host, &["hint=tail_latency"], Lasting::UntilBoot).unwrap();
                assert_eq!(says(&host, Key::Hint).unwrap(), "tail_latency");
            }
        }
    }

    #[test]
    fn a_default_is_a_value_like_others() {
        let (dir, host) = machine();
        dir.file("usr/lib/systemd/system/a.service", "[Service]\nX-CPUHint=pack\nX-CPUHeadroom=5\n");
        keep(&host, &["hint=inherit", "headroom=0"], Lasting::Always).unwrap();
        assert_eq!((says(&host, Key::Hint).unwrap(), says(&host, Key::Headroom).unwrap()), ("inherit".into(), "0.00".into()));
        dir.file(&format!("{ETC}/a.service.d/override.conf"), "[Service]\nX-CPUHint=pack\nX-CPUHint=energy\n");
        assert!(refused(&host, &["hint=inherit"], Lasting::Always).contains("override.conf:3 says X-CPUHint=energy"));
    }

    #[test]
    fn what_comes_even_later_is_named() {
        let (dir, host) = machine();
        dir.file(&format!("{ETC}/a.service.d/zzz.conf"), "[Service]\nX-CPUHint=pack\n");
        assert!(refused(&host, &["hint=energy"], Lasting::UntilBoot).contains("zzz.conf:2"));
        symlink("a.service", dir.path().join(ETC).join("b.service")).unwrap();
        std::fs::remove_dir_all(dir.path().join(ETC).join("a.service.d")).unwrap();
        dir.file(&format!("{ETC}/b.service.d/x.conf"), "[Service]\nX-CPUHint=pack\n");
        assert!(refused(&host, &["hint=energy"], Lasting::Always).contains("b.service.d/x.conf:2"), "of another name");
    }

    #[test]
    fn links_and_files_of_the_same_name_are_left_alone() {
        let (dir, host) = machine();
        let etc = dir.path().join(ETC).join("a.service.d");
        std::fs::create_dir_all(&etc).unwrap();
        symlink("/dev/null", etc.join("50-cgctl.conf")).unwrap();
        assert!(refused(&host, &["gang=1"], Lasting::Always).contains("50-cgctl.conf is a link to /dev/null"));
        symlink("/dev/null", etc.join("zz-cgctl-runtime.conf")).unwrap();
        assert!(refused(&host, &["gang=1"], Lasting::UntilBoot).contains("zz-cgctl-runtime.conf masks /run"));
        std::fs::remove_dir_all(&etc).unwrap();
        symlink("b.service.d", &etc).unwrap();
        assert!(refused(&host, &["gang=1"], Lasting::Always).contains("a.service.d is a link to b.service.d"));
        std::fs::remove_file(&etc).unwrap();
        dir.file("usr/lib/systemd/system/a.service.d/50-cgctl.conf", "[Service]\nMemoryMax=1G\n");
        let said = refused(&host, &["gang=1"], Lasting::Always);
        assert!(said.contains("would hide /usr/lib/systemd/system/a.service.d/50-cgctl.conf"), "{said}");
    }

    #[test]
    fn only_units_that_there_are() {
        let (dir, host) = machine();
        let said = |group: &str| plan(&host, group, &["gang=1"], Lasting::Always).unwrap().warnings.join("\n");
        let error = |group: &str, lasting| plan(&host, group, &["gang=1"], lasting).unwrap_err();
        for lasting in [Lasting::Always, Lasting::UntilBoot] {
            assert_eq!(error("aa.service", lasting).kind, Kind::NotFound);
        }
        dir.file("usr/lib/systemd/system/ngingo.service", "[Service]\n");
        assert!(error("nginga.service", Lasting::Always).message.contains("did you mean 'ngingo.service'"));
        dir.file("usr/lib/systemd/system/t@.service", "[Service]\n");
        assert_eq!(said("ngingo.service") + &said("t@1.service") + &said("t@.service") + &said(GROUP), "");
        assert!(said("new.slice").contains("once something runs in it"));
        symlink("/dev/null", dir.path().join(ETC).join("off.service")).unwrap();
        assert!(said("off.service").contains("is masked"));
        for (unit, kind) in [
            ("session-4.scope", "session-.scope.d"), ("run-u12.scope", "run-.scope.d"),
            ("run-u12.service", "run-.service.d"), ("run-p7-i8.service", "run-.service.d"),
            ("run-r0123456789abcdef0123456789abcdef.scope", "run-.scope.d"),
            ("cgctl-run-1-2.scope", "cgctl-run-.scope.d"),
            (&format!("docker-{}.scope", "4f2a".repeat(16)), "docker-.scope.d"),
        ] {
            let group = format!("system.slice/{unit}");
            dir.group(&group);
            let message = error(&group, Lasting::Always).message;
            assert!(message.contains(&format!("/etc/systemd/system/{kind}")), "{unit}: {message}");
            plan(&host, &group, &["gang=1"], Lasting::UntilBoot).unwrap();
        }
        dir.group("machine.slice/machine-deb1.scope");
        dir.file("run/systemd/transient/machine-deb1.scope", "[Scope]\n");
        dir.file("run/systemd/transient/job.service", "[Service]\n");
        assert!(said("machine.slice/machine-deb1.scope").contains("whenever a unit of this name is started"));
        assert!(said("job.service").contains("whenever a unit of this name is started"));
        assert_eq!(plan(&host, "job.service", &["gang=1"], Lasting::UntilBoot).unwrap().warnings.len(), 0);
    }

    #[test]
    fn only_units_of_this_systemd() {
        let (_dir, host) = machine();
        let error = |group: &str, words: &[&str]| plan(&host, group, words, Lasting::Always).unwrap_err().message;
        assert!(error("a", &["gang=1"]).contains("no systemd unit"));
        assert!(error(GROUP, &["hint=+pack"]).contains("in full"));
        assert!(error("user.slice/user@1.service/app.slice/a.service", &["gang=1"]).contains("user's own systemd"));
        assert!(error("system.slice/ctr.service/system.slice/a.service", &["gang=1"]).contains("inside ctr.service"));
    }

    #[test]
    fn names_of_units() {
        let (dir, host) = machine();
        symlink("/usr/lib/systemd/system/a.service", dir.path().join(ETC).join("nick.service")).unwrap();
        assert_eq!(named(&host, "nick.service").unwrap(), "a.service");
        assert_eq!(named(&host, "nick").unwrap(), "a.service");
        assert_eq!(named(&host, "unit:later.service").unwrap(), "later.service");
        assert_eq!(named(&host, "later"), None);
    }

    #[test]
    fn what_files_say_against_it() {
        let (dir, host) = machine();
        dir.file(&format!("{ETC}/a.service.d/x.conf"), "[Service]\nX-CPUHint=pack\nX-CPUHeadroom=3\n");
        let values = [(GROUP, Key::Hint, "energy"), (GROUP, Key::Headroom, "3.00"), ("b", Key::Hint, "pack"),
                      ("system.slice/c.service/a.service", Key::Hint, "energy")];
        let said = overruled(&host, &host.open_tree().unwrap(), values.into_iter());
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].to_string(), "/etc/systemd/system/a.service.d/x.conf:2 says X-CPUHint=pack for a.service");
    }
}
