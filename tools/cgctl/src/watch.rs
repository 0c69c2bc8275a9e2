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
//! Where a unit does not have the cpu controller, the daemon enables it along the path at once. And it asks systemd to
//! keep it (dbus.rs, keep_cpu), for each unit that has properties and no weight: one that systemd keeps it for is enough
//! for all beside it, but only until that ends. Asking takes its time, so a thread of its own does it, and only for units
//! that are there for a second at least: those that come and go are not worth systemd's time. Until then, systemd may
//! take the controller away when something beside the unit starts or ends, and what was set goes with it; but systemd's
//! write to cgroup.subtree_control is seen by inotify, too, and what is lost is set again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::inotify;

use crate::dbus::{Signal, Systemd};
use crate::error::{Error, Kind, Result};
use crate::finder::Rules;
use crate::journal::{complain, say, Priority};
use crate::set::{missing_controllers, Plan};
use crate::setting::{Key, Settings, KEYS};
use crate::tree::{base, Host, Tree};
use crate::unit::{self, Aliases, Finder, Properties};

/// The note on a group: keys that are set because a unit's file says so.
const MARK: &str = "user.cgctl";

enum Event {
    /// A directory was made: a unit starts, or a slice.
    Created(String),
    Removed(String),
    /// Somebody enabled or disabled controllers below a slice.
    Controllers(String),
    Systemd(Signal),
    /// There is a connection, or one again; and by which rules this systemd reads unit files.
    Connected(Rules),
    /// systemd has been told to keep the controller.
    Kept(String),
    /// Look at everything: asked for by SIGHUP, or because notices were lost.
    Rescan,
}

/// Work that can wait until there is no event to take up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Read which names are links to others.
    ReadLinks,
    /// Find all units.
    LookAround,
    /// Make a unit's group as its files say.
    Apply(String),
    /// See whether units below a slice have lost what they had.
    Check(String),
}

/// Work in the order in which it will be done, each piece once.
#[derive(Default)]
struct Later {
    /// May have pieces twice: what was moved to the front is passed over further behind.
    queue: VecDeque<Work>,
    waiting: HashSet<Work>,
}

impl Later {
    fn put(&mut self, work: Work) {
        if self.waiting.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    fn put_first(&mut self, work: Work) {
        self.waiting.insert(work.clone());
        self.queue.push_front(work);
    }

    fn next(&mut self) -> Option<Work> {
        loop {
            let work = self.queue.pop_front()?;
            if self.waiting.remove(&work) {
                return Some(work);
            }
        }
    }
}

pub struct Daemon {
    tree: Tree,
    /// The root of systemd's tree.
    top: String,
    finder: Finder,
    aliases: Aliases,
    /// Unit -> where it is.
    units: HashMap<String, String>,
    /// Unit -> what its group has by its files, as far as this kernel has it.
    applied: HashMap<String, Settings>,
    /// Units whose controller systemd was asked to keep, or will be.
    asked: HashSet<String>,
    /// What was complained of already, by unit.
    said: HashMap<String, HashSet<String>>,
    later: Later,
    verbose: bool,
}

/// Whether units of the system manager can be below a directory.
fn is_slice(name: &str) -> bool {
    name.ends_with(".slice")
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
        let tree = host.open_tree()?;
        let mut daemon = Daemon {
            top: tree.from_manager("").unwrap_or_default(), tree, finder: Finder::new(host), aliases: Aliases::default(), units: HashMap::new(),
            applied: HashMap::new(), asked: HashSet::new(), said: HashMap::new(), later: Later::default(), verbose,
        };
        daemon.aliases = daemon.finder.find_aliases();
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
        let properties = self.finder.properties(unit, &self.aliases.of(unit));
        for complaint in properties.complaints.iter().chain(&properties.unread) {
            self.once(unit, &complaint.to_string(), || complain(unit, complaint));
        }
        match self.apply_properties(unit, &path, &properties) {
            Ok(()) => {}
            // It ended before we came to it.
            Err(error) if error.kind == Kind::NotFound => return false,
            Err(error) => {
                let origin = properties.values.values().next()
                    .map(|(_, origin)| format!(" ({}:{})", origin.file.display(), origin.line)).unwrap_or_default();
                let text = format!("{unit}: {}{origin}", error.message);
                self.once(unit, &text, || say(Priority::Error, unit, &text));
            }
        }
        !properties.values.is_empty() && properties.weight.is_none() && self.asked.insert(unit.to_string())
    }

    fn apply_properties(&mut self, unit: &str, path: &str, properties: &Properties) -> Result<()> {
        let settings = properties.settings();
        self.applied.remove(unit);
        let group = self.tree.open(path)?;
        let mark = group.get_mark(MARK).map(|text| parse_mark(&text)).unwrap_or_default();
        let mut wanted = wanted(&settings, &mark);
        if wanted.is_empty() {
            return Ok(());
        }
        // The controller first: without it the files are not there. If systemd takes it away at the same time, what is
        // wanted counts as lost, and is set when systemd's write is seen.
        if !settings.is_empty() {
            self.applied.insert(unit.to_string(), wanted.clone());
            if !group.has("cpu.weight") {
                for above in missing_controllers(&self.tree, path)? {
                    self.tree.open(&above)?.write("cgroup.subtree_control", "+cpu")
                        .map_err(|e| Error::io(format!("enabling the cpu controller below /{above}"), e))?;
                }
            }
        }
        // A file that this kernel lacks is no reason not to set the others.
        let missing: Vec<Key> = wanted.keys().copied().filter(|key| !group.has(key.file())).collect();
        wanted.retain(|key, _| !missing.contains(key));
        if !settings.is_empty() && group.has("cpu.weight") {
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
            None => Ok(()),
        }
    }

    /// Apply units; returns those whose controller systemd has to keep.
    fn apply_each(&mut self, units: Vec<String>) -> Vec<String> {
        units.into_iter().filter(|unit| self.apply(unit)).collect()
    }

    /// What units directly below a slice have lost with the controller is to be set again, first of all: they run.
    fn check(&mut self, slice: &str) {
        let lost: Vec<String> = self.units.iter()
            .filter(|(unit, path)| crate::tree::parent(path) == Some(slice) && self.has_lost(unit, path))
            .map(|(unit, _)| unit.clone()).collect();
        lost.into_iter().for_each(|unit| self.later.put_first(Work::Apply(unit)));
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
        if let Some(unit) = self.tree.unit_at(path) {
            self.units.insert(unit.clone(), path.to_string());
            found.push(unit);
        }
        if path == self.top || is_slice(base(path)) {
            watch(path);
            let Ok(group) = self.tree.open(path) else { return found };
            let children = group.children().unwrap_or_else(|error| {
                say(Priority::Error, "", &error.message);
                Vec::new()
            });
            for child in children {
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

    /// A directory is gone. Another one of the same unit may be there, elsewhere.
    fn removed(&mut self, path: &str) {
        let Some(unit) = unit::from_cgroup_name(base(path)) else { return };
        if self.units.get(unit).is_some_and(|known| known == path) {
            self.units.remove(unit);
            self.applied.remove(unit);
            self.asked.remove(unit);
            self.said.remove(unit);
        }
    }

    /// Do the next of what was put off; None if there is nothing.
    fn work(&mut self, watch: &mut dyn FnMut(&str)) -> Option<Vec<String>> {
        match self.later.next()? {
            Work::Apply(unit) => return Some(self.apply_each(vec![unit])),
            Work::Check(slice) => self.check(&slice),
            Work::LookAround => self.look_around(watch),
            Work::ReadLinks => self.aliases = self.finder.find_aliases(),
        }
        Some(Vec::new())
    }

    /// Files may say something else now, and be others: look at all of it, and tell again what is wrong.
    fn start_anew(&mut self) {
        self.said.clear();
        self.later.put(Work::ReadLinks);
        self.later.put(Work::LookAround);
    }

    /// Find everything, to be applied by and by; first what was waiting already, or somebody who reloads often would
    /// have the last units never come to their turn.
    fn look_around(&mut self, watch: &mut dyn FnMut(&str)) {
        self.units.clear();
        self.applied.clear();
        let mut before = std::mem::take(&mut self.later);
        let found: Vec<Work> = self.scan(&self.top.clone(), watch).into_iter().map(Work::Apply).collect();
        let there: HashSet<&Work> = found.iter().collect();
        let still = |work: &Work| there.contains(work) || matches!(work, Work::ReadLinks | Work::LookAround);
        std::iter::from_fn(|| before.next()).filter(still).for_each(|work| self.later.put(work));
        found.iter().for_each(|work| self.later.put(work.clone()));
        self.asked.retain(|unit| self.units.contains_key(unit));
    }

    /// Everything, once. Returns the units whose controller systemd has to keep.
    pub fn apply_all(&mut self, watch: &mut dyn FnMut(&str)) -> Vec<String> {
        self.look_around(watch);
        let mut keep = Vec::new();
        while let Some(units) = self.work(watch) {
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
type Watches = Arc<Mutex<HashMap<i32, String>>>;

/// Watches slices.
struct Watcher {
    queue: Arc<rustix::fd::OwnedFd>,
    watches: Watches,
    mount: PathBuf,
    /// Slices, and what inotify calls them.
    numbers: HashMap<String, i32>,
    /// Those that could not be watched; said once.
    unwatched: HashSet<String>,
    /// When to look at everything, as something could not be watched.
    again: Option<Instant>,
}

impl Watcher {
    const PAUSE: Duration = Duration::from_secs(5);

    fn new(mount: PathBuf) -> Result<Watcher> {
        let queue = inotify::init(inotify::CreateFlags::CLOEXEC).map_err(|e| Error::io("inotify", e))?;
        Ok(Watcher { queue: Arc::new(queue), watches: Watches::default(), mount, numbers: HashMap::new(),
                     unwatched: HashSet::new(), again: None })
    }

    fn add(&mut self, path: &str) {
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.queue, self.mount.join(path), flags) {
            Ok(number) => {
                self.watches.lock().expect("no thread panics with it").insert(number, path.to_string());
                let before = self.numbers.insert(path.to_string(), number);
                if let Some(before) = before.filter(|before| *before != number) {
                    let _ = inotify::remove_watch(&self.queue, before);
                }
                self.unwatched.remove(path);
            }
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => {
                self.again = Some(Instant::now() + Watcher::PAUSE);
                if self.unwatched.insert(path.to_string()) {
                    say(Priority::Error, "", &format!("/{path} cannot be watched: {error}; looking at everything every {} s",
                                                      Watcher::PAUSE.as_secs()));
                }
            }
        }
    }

    /// The directory is gone. The kernel keeps its watch, and counts it, until it is removed.
    fn remove(&mut self, path: &str) {
        self.unwatched.remove(path);
        if let Some(number) = self.numbers.remove(path) {
            let _ = inotify::remove_watch(&self.queue, number);
        }
    }
}

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
    // At boot, the bus comes later than this daemon.
    const PATIENCE: Duration = Duration::from_secs(30);
    let (mut delay, mut since, mut said) = (SHORTEST, Instant::now(), false);
    loop {
        let (ended, end) = channel();
        let to = out.clone();
        let connected = Systemd::connect(false).and_then(|systemd| {
            systemd.subscribe(move |signal| match signal {
                Some(signal) => to.send(Event::Systemd(signal)).is_ok(),
                None => ended.send(()).is_ok(),
            })?;
            let rules = systemd.rules()?;
            Ok((systemd, rules))
        });
        match connected {
            Ok((_systemd, rules)) => {
                if out.send(Event::Connected(rules)).is_err() {
                    return;
                }
                let _ = end.recv();
                (delay, since, said) = (SHORTEST, Instant::now(), false);
            }
            Err(error) if !said && since.elapsed() > PATIENCE => {
                said = true;
                say(Priority::Warning, "", &format!("{error}; units are seen when they start, but daemon-reload is not \
                                                     noticed; still trying"));
            }
            Err(_) => {}
        }
        std::thread::sleep(delay);
        delay = (delay * 2).min(Duration::from_secs(2));
    }
}

/// How long a unit has to be there before systemd is asked to keep its controller.
const SETTLED: Duration = Duration::from_secs(1);

/// Asks systemd, one unit after the other, to keep the cpu controller. With each comes when it was found. Where systemd
/// cannot be reached, nothing is lost: everything is looked at again with the next connection.
fn keeper(units: Receiver<(String, Instant)>, out: Sender<Event>) {
    const TRIES: u32 = 3;
    let mut systemd: Option<Systemd> = None;
    for (unit, found) in units {
        std::thread::sleep((found + SETTLED).saturating_duration_since(Instant::now()));
        let mut trouble = None;
        for _ in 0..TRIES {
            if systemd.is_none() {
                systemd = Systemd::connect(false).ok();
            }
            trouble = match systemd.as_ref().map(|systemd| systemd.keep_cpu(&unit)) {
                Some(Err(error)) if error.kind != Kind::NotFound => Some(error),
                Some(_) => {
                    trouble = None;
                    break;
                }
                None => None,
            };
            // Another connection may do better.
            systemd = None;
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(error) = trouble {
            say(Priority::Warning, &unit, &format!("{unit}: systemd does not keep its cpu controller: {}", error.message));
        }
        if out.send(Event::Kept(unit)).is_err() {
            return;
        }
    }
}

/// Units' files mean something to a system that systemd runs, and to no other.
fn require_systemd(host: &Host) -> Result<()> {
    if host.path("/run/systemd/system").is_dir() {
        return Ok(());
    }
    Err(Error::new(Kind::Unsupported, "systemd does not run here (there is no /run/systemd/system), so there are no units \
                                       to follow; 'cgctl set' and 'cgctl apply' work without"))
}

/// Run until somebody ends it.
pub fn run(host: &Host, once: bool, verbose: bool) -> Result<()> {
    if !once || host.is_live() {
        require_systemd(host)?;
    }
    let mut daemon = Daemon::new(host, verbose)?;
    if once {
        let systemd = host.is_live().then(|| Systemd::connect(false)).transpose()?;
        if let Some(systemd) = &systemd {
            daemon.finder.rules = systemd.rules()?;
            daemon.aliases = daemon.finder.find_aliases();
        }
        let mut result = Ok(());
        for unit in daemon.apply_all(&mut |_| {}) {
            if let Some(systemd) = &systemd {
                result = systemd.keep_cpu(&unit).map(drop).map_err(|e| e.about(&unit)).and(result);
                daemon.apply(&unit);
            }
        }
        return result;
    }
    if !host.is_live() {
        return Err(Error::new(Kind::Usage, "a fixture has no systemd to follow; use 'watch --once'"));
    }
    let (sender, events) = channel();
    let mut watcher = Watcher::new(host.path(&daemon.tree.mount))?;
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(work).map(drop)
            .map_err(|e| Error::io("a thread", e))
    };
    let to = sender.clone();
    let (read_queue, read_watches) = (watcher.queue.clone(), watcher.watches.clone());
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
    daemon.later.put(Work::LookAround);
    let mut ready = false;
    loop {
        let event = match events.try_recv() {
            Ok(event) => event,
            Err(TryRecvError::Empty) => {
                if let Some(units) = daemon.work(&mut |path| watcher.add(path)) {
                    keep_all(units);
                    continue;
                }
                if !std::mem::replace(&mut ready, true) {
                    notify("READY=1");
                }
                match watcher.again {
                    None => events.recv().expect("this thread has a sender, too"),
                    Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now()))
                        .unwrap_or(Event::Rescan),
                }
            }
            Err(TryRecvError::Disconnected) => unreachable!("this thread has a sender, too"),
        };
        match event {
            Event::Controllers(slice) => daemon.later.put(Work::Check(slice)),
            Event::Created(path) => keep_all(daemon.created(&path, &mut |path| watcher.add(path))),
            Event::Removed(path) => {
                daemon.removed(&path);
                watcher.remove(&path);
            }
            Event::Kept(unit) | Event::Systemd(Signal::JobRemoved(_, unit, _)) => daemon.later.put(Work::Apply(unit)),
            Event::Systemd(Signal::Reloading(true)) => {}
            Event::Connected(rules) => {
                daemon.finder.rules = rules;
                // Whoever was asked without a connection has not heard it.
                daemon.asked.clear();
                daemon.start_anew();
            }
            Event::Systemd(Signal::Reloading(false)) | Event::Rescan => {
                watcher.again = None;
                daemon.start_anew();
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
        let mut keep = daemon.apply_all(&mut |path| watched.push(path.to_string()));
        keep.sort_unstable();
        assert_eq!(keep, ["a-b.slice", "web.service", "x.scope"]);
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
        assert!(!daemon.later.queue.is_empty());
        dir.group("system.slice/late.service");
        dir.file("etc/systemd/system/late.service", "[Service]\nX-CPUHint=pack\n");
        daemon.created("system.slice/late.service", &mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/late.service/cpu.hint"), "pack\n");
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "inherit\n");
        // A unit that ended meanwhile is passed over.
        daemon.later.put(Work::Apply("gone.service".into()));
        while daemon.work(&mut |_| {}).is_some() {}
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
        daemon.check("a.slice");
        assert_eq!(daemon.work(&mut |_| {}), None, "another slice");
        daemon.later.put(Work::Apply("x.scope".into()));
        daemon.check("system.slice");
        daemon.work(&mut |_| {});
        assert_eq!(dir.read(file), "tail_latency\n", "what runs without its settings comes first");
    }

    #[test]
    fn what_is_lost_while_it_is_being_set_counts_as_lost() {
        let (dir, mut daemon) = daemon();
        let group = dir.path().join("sys/fs/cgroup/system.slice/web.service");
        let files = ["cpu.weight", "cpu.hint", "cpu.headroom", "cpu.gang", "cpu.gang.scope", "cpu.hint.effective"];
        files.iter().for_each(|file| { let _ = std::fs::remove_file(group.join(file)); });
        daemon.apply_all(&mut |_| {});
        dir.group("system.slice/web.service");
        daemon.check("system.slice");
        daemon.work(&mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.hint"), "tail_latency\n");
    }

    #[test]
    fn each_unit_without_a_weight_is_kept_once() {
        let (dir, mut daemon) = daemon();
        dir.group("system.slice/own.service");
        dir.file("etc/systemd/system/own.service", "[Service]\nX-CPUHint=pack\nCPUWeight=7\n");
        dir.group("system.slice/other.service");
        dir.file("etc/systemd/system/other.service", "[Service]\nX-CPUHint=pack\n");
        std::fs::remove_file(dir.path().join("sys/fs/cgroup/system.slice/web.service/cpu.headroom")).unwrap();
        let keep = daemon.apply_all(&mut |_| {});
        for unit in ["web.service", "other.service"] {
            assert!(keep.iter().any(|name| name == unit), "{unit}: {keep:?}");
        }
        assert!(!keep.iter().any(|name| name == "own.service"));
        assert!(daemon.apply_all(&mut |_| {}).is_empty());
        daemon.removed("system.slice/web.service");
        assert_eq!(daemon.created("system.slice/web.service", &mut |_| {}), ["web.service"]);
    }

    #[test]
    fn a_unit_that_moved_is_not_forgotten() {
        let (dir, mut daemon) = daemon();
        daemon.apply_all(&mut |_| {});
        dir.group("a.slice/web.service");
        daemon.created("a.slice/web.service", &mut |_| {});
        daemon.removed("system.slice/web.service");
        assert_eq!(daemon.units["web.service"], "a.slice/web.service");
        daemon.removed("a.slice/web.service");
        assert!(!daemon.units.contains_key("web.service"));
    }

    #[test]
    fn what_waits_is_done_once_and_in_order() {
        let apply = |name: &str| Work::Apply(name.into());
        let mut later = Later::default();
        for name in ["a", "b", "c", "b"] {
            later.put(apply(name));
        }
        later.put_first(apply("c"));
        let order: Vec<Work> = std::iter::from_fn(|| later.next()).collect();
        assert_eq!(order, [apply("c"), apply("a"), apply("b")]);
    }

    #[test]
    fn who_reloads_often_does_not_keep_the_last_from_their_turn() {
        let (_dir, mut daemon) = daemon();
        daemon.look_around(&mut |_| {});
        let mut done = HashSet::new();
        for _ in 0..daemon.units.len() {
            done.insert(daemon.later.next().unwrap());
            daemon.look_around(&mut |_| {});
        }
        assert_eq!(done.len(), daemon.units.len());
    }

    #[test]
    fn watches_go_with_their_directories() {
        let dir = TempDir::new();
        let mut watcher = Watcher::new(dir.path().into()).unwrap();
        std::fs::create_dir(dir.path().join("a.slice")).unwrap();
        watcher.add("a.slice");
        watcher.add("gone.slice");
        watcher.add("a.slice");
        assert_eq!((watcher.numbers.len(), watcher.again), (1, None));
        // Another directory of the same name
        std::fs::rename(dir.path().join("a.slice"), dir.path().join("old")).unwrap();
        std::fs::create_dir(dir.path().join("a.slice")).unwrap();
        watcher.add("a.slice");
        let count = |watcher: &Watcher| {
            let info = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&*watcher.queue));
            std::fs::read_to_string(info).unwrap().matches("inotify wd:").count()
        };
        assert_eq!(count(&watcher), 1);
        watcher.remove("a.slice");
        assert_eq!(count(&watcher), 0);
        // What cannot be watched is tried again, and said once.
        watcher.mount = "/dev/null".into();
        watcher.add("b.slice");
        assert!(watcher.again.is_some() && watcher.unwatched.contains("b.slice"));
    }

    #[test]
    fn aliases_count() {
        let (dir, mut daemon) = daemon();
        std::os::unix::fs::symlink("web.service", dir.path().join("etc/systemd/system/shop.service")).unwrap();
        dir.file("etc/systemd/system/shop.service.d/y.conf", "[Service]\nX-CPUGang=1\n");
        daemon.later.put(Work::ReadLinks);
        daemon.apply_all(&mut |_| {});
        assert_eq!(dir.read("sys/fs/cgroup/system.slice/web.service/cpu.gang"), "1\n");
    }
}
