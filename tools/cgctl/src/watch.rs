// SPDX-License-Identifier: GPL-2.0-only
//! `watch`, the daemon: units get what their files ask for.
//!
//! What it listens to:
//!   - inotify on the slices of the cgroup tree. systemd makes a unit's directory before it starts the unit's first
//!     process, so this is the earliest notice there is, and it needs no word from systemd. None is missed: if the
//!     queue overflows, everything is looked at.
//!   - systemd's signals: a daemon-reload (files may say something else now), and the end of jobs (a second look, by
//!     which time systemd may have changed the controllers around the unit).
//!
//! What it keeps: nothing that matters. What a unit should have is in its files; which keys of a group are the
//! daemon's, to be taken back when a property is removed, is noted on the group itself, as an extended attribute that
//! goes when the group goes. A daemon that is killed and started again looks at everything once and is up to date.
//!
//! Files are read when a unit starts and at daemon-reload, as systemd does with what is its own. A unit that starts comes
//! before everything else: after a daemon-reload, say, there is something to look at for each unit of the machine, and
//! what starts meanwhile does not wait for that.
//!
//! Where a unit does not have the cpu controller, the daemon enables it along the path at once, and then asks systemd
//! to keep it (dbus.rs, keep_cpu). The latter takes its time, so a thread of its own waits for it, and it is for units
//! only that are there for a second at least: those that come and go are not worth systemd's time. Until then, systemd
//! may take the controller away when it starts something beside the unit, and what was set goes with it; but systemd's
//! write to cgroup.subtree_control is seen by inotify, too, and what is lost is set again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::inotify;

use crate::dbus::{Signal, Systemd};
use crate::error::{Error, Kind, Result};
use crate::journal::{complain, say, Priority};
use crate::set::{missing_controllers, Plan};
use crate::setting::{Key, Settings, KEYS};
use crate::tree::{base, Host, Tree};
use crate::unit::{self, Finder, Properties};

/// The note on a group: keys that are set because a unit's file says so.
const MARK: &str = "user.cgctl";

enum Event {
    /// A directory was made: a unit starts, or a slice.
    Created(String),
    Removed(String),
    /// Somebody enabled or disabled controllers below a slice.
    Controllers(String),
    Systemd(Signal),
    /// There is a connection, or one again; and where this systemd looks for unit files.
    Connected(Vec<String>),
    /// systemd has been told to keep the controller.
    Kept(String),
    /// Look at everything: asked for by SIGHUP, or because notices were lost.
    Rescan,
}

/// Work that can wait until there is no event to take up.
#[derive(Debug, PartialEq)]
enum Work {
    /// Make a unit's group as its files say.
    Apply(String),
    /// See whether units below a slice have lost what they had.
    Check(String),
}

pub struct Daemon {
    tree: Tree,
    finder: Finder,
    /// Unit -> names that are links to it.
    aliases: BTreeMap<String, Vec<String>>,
    /// Unit -> where it is.
    units: HashMap<String, String>,
    /// Unit -> what its group has by its files, as far as this kernel has it.
    applied: HashMap<String, Settings>,
    /// What was complained of already, by unit.
    said: HashMap<String, HashSet<String>>,
    later: VecDeque<Work>,
    verbose: bool,
}

/// Whether units of the system manager can be below a directory.
fn is_slice(name: &str) -> bool {
    name.ends_with(".slice")
}

/// Names that are links to other names.
fn find_aliases(finder: &Finder) -> BTreeMap<String, Vec<String>> {
    let mut result: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for dir in &finder.path {
        let Ok(entries) = std::fs::read_dir(finder.host.path(dir)) else { continue };
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_symlink())) {
            let alias = entry.file_name().to_string_lossy().into_owned();
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let Some(target) = target.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
            if unit::unit_type(&alias).is_some() && unit::unit_type(&target).is_some() && alias != target {
                result.entry(target).or_default().push(alias);
            }
        }
    }
    result
}

fn parse_mark(text: &str) -> Vec<Key> {
    text.split(' ').filter_map(|name| KEYS.into_iter().find(|key| key.name() == name)).collect()
}

/// What a group should have: what its unit says, and the default for what the unit used to say.
fn wanted(settings: &Settings, mark: &[Key]) -> Settings {
    let mut wanted = settings.clone();
    for key in mark {
        wanted.entry(*key).or_insert_with(|| key.default_value().into());
    }
    wanted
}

impl Daemon {
    pub fn new(host: &Host, verbose: bool) -> Result<Daemon> {
        let mut daemon = Daemon {
            tree: host.open_tree()?, finder: Finder::new(host), aliases: BTreeMap::new(),
            units: HashMap::new(), applied: HashMap::new(), said: HashMap::new(),
            later: VecDeque::new(), verbose,
        };
        daemon.aliases = find_aliases(&daemon.finder);
        Ok(daemon)
    }

    /// Say something about a unit once, until its files change.
    fn once(&mut self, unit: &str, text: &str, speak: impl FnOnce()) {
        if self.said.entry(unit.to_string()).or_default().insert(text.to_string()) {
            speak();
        }
    }

    /// Make a unit's group as its files say, if it is there. Returns whether systemd has to be asked to keep the
    /// controller.
    fn apply(&mut self, unit: &str) -> bool {
        let Some(path) = self.units.get(unit).cloned() else { return false };
        let none = Vec::new();
        let properties = self.finder.properties(unit, self.aliases.get(unit).unwrap_or(&none));
        for complaint in &properties.complaints {
            self.once(unit, &complaint.to_string(), || complain(unit, complaint));
        }
        match self.apply_properties(unit, &path, &properties) {
            Ok(enabled) => enabled,
            // It ended before we came to it.
            Err(error) if error.kind == Kind::NotFound => false,
            Err(error) => {
                let origin = properties.values.values().next()
                    .map(|(_, origin)| format!(" ({}:{})", origin.file.display(), origin.line)).unwrap_or_default();
                let text = format!("{unit}: {}{origin}", error.message);
                self.once(unit, &text, || say(Priority::Error, unit, &text));
                false
            }
        }
    }

    fn apply_properties(&mut self, unit: &str, path: &str, properties: &Properties) -> Result<bool> {
        let settings = properties.settings();
        self.applied.remove(unit);
        let group = self.tree.open(path)?;
        let mark = group.get_mark(MARK).map(|text| parse_mark(&text)).unwrap_or_default();
        let mut wanted = wanted(&settings, &mark);
        if wanted.is_empty() {
            return Ok(false);
        }
        // The controller first: without it the files are not there.
        let mut enabled = false;
        if !settings.is_empty() && !group.has("cpu.weight") {
            for above in missing_controllers(&self.tree, path)? {
                self.tree.open(&above)?.write("cgroup.subtree_control", "+cpu")
                    .map_err(|e| Error::io(format!("enabling the cpu controller below /{above}"), e))?;
                enabled = true;
            }
        }
        // A file that this kernel lacks is no reason not to set the others.
        let missing: Vec<Key> = wanted.keys().copied().filter(|key| !group.has(key.file())).collect();
        wanted.retain(|key, _| !missing.contains(key));
        if !settings.is_empty() {
            self.applied.insert(unit.to_string(), wanted.clone());
        }
        let mut plan = Plan::default();
        plan.add(&self.tree, path, &wanted, Default::default())?;
        plan.commit(&self.tree)?;
        let names: Vec<&str> = settings.keys().filter(|key| !missing.contains(key)).map(|key| key.name()).collect();
        if mark.iter().map(|key| key.name()).ne(names.iter().copied()) {
            group.set_mark(MARK, &names.join(" "));
        }
        if self.verbose {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            for change in plan.changes() {
                say(Priority::Info, unit, &format!("{unit}: {} {} -> {} at {} us", change.key.name(), change.old,
                                                   change.new, now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
            }
        }
        match missing.iter().find(|key| settings.contains_key(key)) {
            Some(key) => Err(crate::state::missing_file(&self.tree, &group, key.file())),
            None => Ok(enabled),
        }
    }

    /// Apply units; returns those whose controller systemd has to keep.
    fn apply_each(&mut self, units: Vec<String>) -> Vec<String> {
        units.into_iter().filter(|unit| self.apply(unit)).collect()
    }

    /// Set again what units directly below a slice have lost with the controller.
    fn check(&mut self, slice: &str) -> Vec<String> {
        let lost = self.units.iter()
            .filter(|(unit, path)| crate::tree::parent(path) == Some(slice) && self.has_lost(unit, path))
            .map(|(unit, _)| unit.clone()).collect();
        self.apply_each(lost)
    }

    fn has_lost(&self, unit: &str, path: &str) -> bool {
        let Some(settings) = self.applied.get(unit) else { return false };
        let Ok(group) = self.tree.open(path) else { return false };
        settings.iter().any(|(key, value)| {
            group.read_line(key.file()).ok().flatten().is_none_or(|now| !crate::setting::same(*key, &now, value))
        })
    }

    /// Look at a directory and, in slices, at all below it. New slices are watched before they are read, so that
    /// nothing comes in between. Returns the units found, none of them applied yet.
    fn scan(&mut self, path: &str, watch: &mut dyn FnMut(&str)) -> Vec<String> {
        let mut found = Vec::new();
        let name = base(path).to_string();
        if let Some(unit) = unit::from_cgroup_name(&name) {
            self.units.insert(unit.to_string(), path.to_string());
            found.push(unit.to_string());
        }
        if path.is_empty() || is_slice(&name) {
            watch(path);
            let Ok(group) = self.tree.open(path) else { return found };
            for child in self.tree.children(&group) {
                if unit::from_cgroup_name(&child).is_some() {
                    let child = if path.is_empty() { child } else { format!("{path}/{child}") };
                    found.extend(self.scan(&child, watch));
                }
            }
        }
        found
    }

    /// A directory was made.
    fn created(&mut self, path: &str, watch: &mut dyn FnMut(&str)) -> Vec<String> {
        let found = self.scan(path, watch);
        self.apply_each(found)
    }

    fn put_off(&mut self, work: Work) {
        if !self.later.contains(&work) {
            self.later.push_back(work);
        }
    }

    /// Do the next of what was put off; None if there is nothing.
    fn work(&mut self) -> Option<Vec<String>> {
        Some(match self.later.pop_front()? {
            Work::Apply(unit) => self.apply_each(vec![unit]),
            Work::Check(slice) => self.check(&slice),
        })
    }

    /// Read files anew: their names, their links, and what was wrong with them.
    fn forget_files(&mut self) {
        self.aliases = find_aliases(&self.finder);
        self.said.clear();
    }

    /// Find everything, to be applied by and by.
    fn look_around(&mut self, watch: &mut dyn FnMut(&str)) {
        self.units.clear();
        self.applied.clear();
        self.later = self.scan("", watch).into_iter().map(Work::Apply).collect();
    }

    /// Everything, once. Returns the units whose controller systemd has to keep.
    pub fn apply_all(&mut self, watch: &mut dyn FnMut(&str)) -> Vec<String> {
        self.look_around(watch);
        let mut keep = Vec::new();
        while let Some(units) = self.work() {
            keep.extend(units);
        }
        keep
    }
}

/// Tell systemd, where it wants to know (Type=notify).
fn notify(text: &str) {
    let Ok(socket) = std::env::var("NOTIFY_SOCKET") else { return };
    let Ok(datagram) = UnixDatagram::unbound() else { return };
    let _ = match socket.strip_prefix('@') {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| datagram.send_to_addr(text.as_bytes(), &address))
        }
        None => datagram.send_to(text.as_bytes(), &socket),
    };
}

/// Watched directories, by what inotify calls them.
type Watches = Arc<std::sync::Mutex<HashMap<i32, String>>>;

fn read_inotify(queue: Arc<rustix::fd::OwnedFd>, watches: Watches, out: Sender<Event>) {
    let mut buffer = vec![std::mem::MaybeUninit::uninit(); 1 << 16];
    let mut reader = inotify::Reader::new(&queue, &mut buffer);
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        let flags = event.events();
        let result = if flags.contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
            out.send(Event::Rescan)
        } else if flags.contains(inotify::ReadFlags::IGNORED) {
            watches.lock().expect("no thread panics with it").remove(&event.wd());
            Ok(())
        } else {
            let dir = watches.lock().expect("no thread panics with it").get(&event.wd()).cloned();
            let name = event.file_name().and_then(|name| name.to_str().ok());
            match (dir, name) {
                (Some(dir), Some("cgroup.subtree_control")) => out.send(Event::Controllers(dir)),
                (Some(dir), Some(name)) if flags.contains(inotify::ReadFlags::ISDIR) => {
                    let path = if dir.is_empty() { name.to_string() } else { format!("{dir}/{name}") };
                    out.send(if flags.contains(inotify::ReadFlags::DELETE) { Event::Removed(path) }
                             else { Event::Created(path) })
                }
                _ => Ok(()),
            }
        };
        if result.is_err() {
            return;
        }
    }
}

/// Keep a connection to systemd, and pass on what it says. Early at boot there is no bus yet, and a bus may be restarted:
/// then units are seen when they start all the same, and everything is looked at again with the next connection.
fn connection(out: Sender<Event>) {
    const SHORTEST: Duration = Duration::from_millis(50);
    let mut delay = SHORTEST;
    loop {
        let (ended, end) = channel();
        let to = out.clone();
        let connected = Systemd::connect(false).and_then(|systemd| {
            systemd.subscribe(move |signal| match signal {
                Some(signal) => to.send(Event::Systemd(signal)).is_ok(),
                None => ended.send(()).is_ok(),
            })?;
            let path = systemd.unit_path()?;
            Ok((systemd, path))
        });
        if let Ok((_systemd, path)) = connected {
            delay = SHORTEST;
            if out.send(Event::Connected(path)).is_err() {
                return;
            }
            let _ = end.recv();
        }
        std::thread::sleep(delay);
        delay = (delay * 2).min(Duration::from_secs(2));
    }
}

/// How long a unit has to be there before systemd is asked to keep its controller.
const SETTLED: Duration = Duration::from_secs(1);

/// Asks systemd, one unit after the other, to keep the cpu controller. With each comes when it was found without.
fn keeper(units: Receiver<(String, Instant)>, out: Sender<Event>) {
    let mut systemd: Option<Systemd> = None;
    for (unit, found) in units {
        std::thread::sleep((found + SETTLED).saturating_duration_since(Instant::now()));
        for _ in 0..300 {
            if systemd.is_none() {
                systemd = Systemd::connect(false).ok();
            }
            match systemd.as_ref().map(|systemd| systemd.keep_cpu(&unit)) {
                Some(Ok(())) => break,
                // It is gone already, or may not be changed; the second look will tell.
                Some(Err(error)) if error.kind != Kind::Failed => break,
                _ => {
                    systemd = None;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        if out.send(Event::Kept(unit)).is_err() {
            return;
        }
    }
}

/// Run until somebody ends it.
pub fn run(host: &Host, once: bool, verbose: bool) -> Result<()> {
    let mut daemon = Daemon::new(host, verbose)?;
    if once {
        let systemd = host.is_live().then(|| Systemd::connect(false)).transpose()?;
        if let Some(systemd) = &systemd {
            daemon.finder.path = systemd.unit_path()?;
            daemon.forget_files();
        }
        for unit in daemon.apply_all(&mut |_| {}) {
            if let Some(systemd) = &systemd {
                systemd.keep_cpu(&unit)?;
                daemon.apply(&unit);
            }
        }
        return Ok(());
    }
    if !host.is_live() {
        return Err(Error::new(Kind::Usage, "a fixture has no systemd to follow; use 'watch --once'"));
    }
    let (sender, events) = channel();
    let queue = Arc::new(inotify::init(inotify::CreateFlags::CLOEXEC).map_err(|e| Error::io("inotify", e))?);
    let watches = Watches::default();
    let mount = host.path(&daemon.tree.mount);
    let mut watch = {
        let (queue, watches, sender) = (queue.clone(), watches.clone(), sender.clone());
        move |path: &str| {
            let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE | inotify::WatchFlags::MODIFY
                | inotify::WatchFlags::ONLYDIR;
            match inotify::add_watch(&queue, mount.join(path), flags) {
                Ok(number) => {
                    watches.lock().expect("no thread panics with it").insert(number, path.to_string());
                }
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => {
                    say(Priority::Error, "", &format!("/{path} cannot be watched: {error}; looking again in a second"));
                    let sender = sender.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_secs(1));
                        let _ = sender.send(Event::Rescan);
                    });
                }
            }
        }
    };
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(work).map(drop)
            .map_err(|e| Error::io("a thread", e))
    };
    let to = sender.clone();
    let (read_queue, read_watches) = (queue.clone(), watches.clone());
    thread("inotify", Box::new(move || read_inotify(read_queue, read_watches, to)))?;
    let to = sender.clone();
    let mut hangups = signal_hook::iterator::Signals::new([signal_hook::consts::SIGHUP])
        .map_err(|e| Error::io("signals", e))?;
    thread("signals", Box::new(move || for _ in hangups.forever() {
        let _ = to.send(Event::Rescan);
    }))?;
    let (keep, units) = channel();
    let to = sender.clone();
    thread("keeper", Box::new(move || keeper(units, to)))?;
    let to = sender.clone();
    thread("systemd", Box::new(move || connection(to)))?;
    let keep_all = |units: Vec<String>| units.into_iter().for_each(|unit| {
        let _ = keep.send((unit, Instant::now()));
    });
    keep_all(daemon.apply_all(&mut watch));
    notify("READY=1");
    loop {
        let event = match events.try_recv() {
            Ok(event) => event,
            Err(TryRecvError::Empty) => match daemon.work() {
                Some(units) => {
                    keep_all(units);
                    continue;
                }
                None => events.recv().expect("this thread has a sender, too"),
            },
            Err(TryRecvError::Disconnected) => unreachable!("this thread has a sender, too"),
        };
        match event {
            Event::Controllers(slice) => daemon.put_off(Work::Check(slice)),
            Event::Created(path) => keep_all(daemon.created(&path, &mut watch)),
            Event::Removed(path) => {
                if let Some(unit) = unit::from_cgroup_name(base(&path)) {
                    daemon.units.remove(unit);
                    daemon.applied.remove(unit);
                    daemon.said.remove(unit);
                }
            }
            Event::Kept(unit) | Event::Systemd(Signal::JobRemoved(_, unit, _)) => daemon.put_off(Work::Apply(unit)),
            Event::Systemd(Signal::Reloading(true)) => {}
            Event::Connected(path) => {
                if !path.is_empty() {
                    daemon.finder.path = path;
                }
                daemon.forget_files();
                daemon.look_around(&mut watch);
            }
            Event::Systemd(Signal::Reloading(false)) | Event::Rescan => {
                daemon.forget_files();
                daemon.look_around(&mut watch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn daemon() -> (TempDir, Daemon) {
        let dir = TempDir::new();
        for path in ["", "system.slice", "system.slice/web.service", "system.slice/web.service/sub.service",
                     "a.slice", "a.slice/a-b.slice", "a.slice/a-b.slice/x.scope", "user.slice/user@1.service/web.service"] {
            dir.group(path);
        }
        dir.file("etc/systemd/system/web.service", "[Service]\nX-CPUHint=tail_latency\nX-CPUHeadroom=20\n");
        dir.file("etc/systemd/system/a-b.slice.d/x.conf", "[Slice]\nX-CPUGang=yes\n");
        dir.file("etc/systemd/system/x.scope.d/x.conf", "[Scope]\nX-CPUHint=pack\n");
        let daemon = Daemon::new(&Host::new(Some(dir.path())), false).unwrap();
        (dir, daemon)
    }

    #[test]
    fn everything_is_applied_once() {
        let (dir, mut daemon) = daemon();
        let mut watched = Vec::new();
        assert!(daemon.apply_all(&mut |path| watched.push(path.to_string())).is_empty());
        assert_eq!(watched, ["", "a.slice", "a.slice/a-b.slice", "system.slice", "user.slice"]);
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "tail_latency\n");
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.headroom"), "20.00\n");
        assert_eq!(dir.read("sys/fs/cgroup/a.slice/a-b.slice/cpu.gang"), "1\n");
        assert_eq!(dir.read("sys/fs/cgroup/a.slice/a-b.slice/x.scope/cpu.hint"), "pack\n");
        // Neither what a service keeps for itself nor what belongs to a user's manager.
        assert_eq!(dir.read("sys/fs/cgroup/user.slice/user@1.service/web.service/cpu.hint"), "inherit\n");
    }

    #[test]
    fn what_starts_does_not_wait_for_the_rest() {
        let (dir, mut daemon) = daemon();
        daemon.look_around(&mut |_| {});
        dir.group("system.slice/late.service");
        dir.file("etc/systemd/system/late.service", "[Service]\nX-CPUHint=pack\n");
        daemon.created("system.slice/late.service", &mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/late.service/cpu.hint"), "pack\n");
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "inherit\n");
        // The same twice is the same; and a unit that ended meanwhile is passed over.
        let waiting = daemon.later.len();
        daemon.put_off(Work::Apply("web.service".into()));
        assert_eq!(daemon.later.len(), waiting);
        daemon.put_off(Work::Apply("gone.service".into()));
        while daemon.work().is_some() {}
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "tail_latency\n");
    }

    #[test]
    fn what_is_taken_out_of_a_file_is_taken_back() {
        assert_eq!(wanted(&Settings::new(), &parse_mark("hint gang")),
                   Settings::from([(Key::Hint, "inherit".into()), (Key::Gang, "0".into())]));
        let settings = Settings::from([(Key::Hint, "pack".to_string())]);
        assert_eq!(wanted(&settings, &parse_mark("hint")), settings);
        assert_eq!(parse_mark("nonsense hint "), [Key::Hint]);
    }

    #[test]
    fn one_missing_file_does_not_stop_the_others() {
        let (dir, mut daemon) = daemon();
        std::fs::remove_file(dir.path().join("sys/fs/cgroup/system.slice/web.service/cpu.headroom")).unwrap();
        daemon.apply_all(&mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "tail_latency\n");
        let said = &daemon.said["web.service"];
        assert!(said.iter().any(|text| text.contains("has no cpu.headroom: this kernel") && text.contains("web.service:2")),
                "{said:?}");
    }

    #[test]
    fn what_went_with_the_controller_is_set_again() {
        let (dir, mut daemon) = daemon();
        daemon.apply_all(&mut |_| {});
        let file = "sys/fs/cgroup/system.slice/web.service/cpu.hint";
        dir.file(file, "inherit\n");
        assert!(daemon.check("a.slice").is_empty());
        assert_eq!(dir.read(file), "inherit\n", "another slice");
        daemon.check("system.slice");
        assert_eq!(dir.read(file), "tail_latency\n");
    }

    #[test]
    fn aliases_count() {
        let (dir, mut daemon) = daemon();
        std::os::unix::fs::symlink("web.service", dir.path().join("etc/systemd/system/shop.service")).unwrap();
        dir.file("etc/systemd/system/shop.service.d/y.conf", "[Service]\nX-CPUGang=1\n");
        daemon.forget_files();
        daemon.apply_all(&mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.gang"), "1\n");
    }
}
