// SPDX-License-Identifier: GPL-2.0-only
//! `watch-events`: changes of policies and of what they do, as lines.
//!
//! A write to a file of a group is seen at once, by inotify. Of what changes in the kernel (effective hints below a
//! write, headroom that begins or ceases to bind) no notice is given; that is looked at in intervals.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{poll, PollFd, PollFlags};
use rustix::fs::inotify;
use serde::Serialize;

use crate::columns::clean;
use crate::error::{Error, Result};
use crate::name;
use crate::output::written;
use crate::setting::KEYS;
use crate::state::{require_files, State};
use crate::tree::{display, Host, Tree};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub path: String,
    /// hint, hint.effective, gang, gang.scope, headroom, headroom.capped, group
    pub what: &'static str,
    pub old: String,
    pub new: String,
}

type Snapshot = BTreeMap<String, State>;

/// What can change without a write: all groups that have effective hints or a policy.
fn snapshot(tree: &Tree) -> Result<Snapshot> {
    let mut found = Snapshot::new();
    tree.walk("", &mut |group| {
        let mut state = State::brief(group);
        if state.hint.is_some() || state.gang.is_some() || state.headroom.is_some() {
            state.hint_effective = group.read_line("cpu.hint.effective").ok().flatten();
            if let Some(text) = group.read("cpu.stat").ok().flatten() {
                state.stat = crate::state::parse_stat(&text);
            }
            found.insert(state.path.clone(), state);
        }
    })?;
    Ok(found)
}

fn capped(state: &State) -> u64 {
    state.stat.get("headroom_capped_periods").copied().unwrap_or(0)
}

/// What happened between two snapshots. Whether a group was held back then is told by `bound`.
pub fn compare(old: &Snapshot, new: &Snapshot, bound: &mut BTreeMap<String, bool>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut event = |path: &str, what, old: Option<&str>, new: Option<&str>| {
        if old != new {
            events.push(Event { path: path.into(), what, old: old.unwrap_or("-").into(), new: new.unwrap_or("-").into() });
        }
    };
    let silent = State::default();
    for path in old.keys().chain(new.keys().filter(|path| !old.contains_key(*path))) {
        let (a, b) = (old.get(path), new.get(path));
        let speaks = |state: Option<&State>| state.is_some_and(State::says_something);
        if a.is_none() != b.is_none() {
            // A group that comes or goes without a policy is none of our business.
            if !speaks(a) && !speaks(b) {
                continue;
            }
            event(path, "group", a.map(|_| "present"), b.map(|_| "present"));
        }
        let (a, b) = (a.unwrap_or(&silent), b.unwrap_or(&silent));
        for key in KEYS {
            event(path, key.name(), a.value(key), b.value(key));
        }
        event(path, "hint.effective", a.hint_effective.as_deref(), b.hint_effective.as_deref());
        let (was, is) = (bound.get(path).copied().unwrap_or(false), capped(b) > capped(a));
        let word = |bound: bool| Some(if bound { "yes" } else { "no" });
        event(path, "headroom.capped", word(was), word(is));
        if is { bound.insert(path.clone(), true) } else { bound.remove(path) };
    }
    events
}

pub struct Options {
    pub interval: Duration,
    pub count: Option<u64>,
    pub json: bool,
}

fn watch_all(host: &Host, tree: &Tree, queue: &rustix::fd::OwnedFd) {
    let mount = host.path(&tree.mount);
    let _ = tree.walk("", &mut |group| {
        let flags = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::ONLYDIR;
        // Too many groups for this user's limit: the interval still finds everything.
        let _ = inotify::add_watch(queue, mount.join(OsStr::from_bytes(&name::to_bytes(&group.path))), flags);
    });
}

/// Until something happens or the time is over; true if groups came or went.
fn pause(queue: &rustix::fd::OwnedFd, interval: Duration) -> bool {
    let timeout = rustix::time::Timespec { tv_sec: interval.as_secs() as i64, tv_nsec: interval.subsec_nanos().into() };
    let mut fds = [PollFd::new(queue, PollFlags::IN)];
    if poll(&mut fds, Some(&timeout)).unwrap_or(0) == 0 {
        return false;
    }
    let mut buffer = [std::mem::MaybeUninit::uninit(); 16384];
    let mut reader = inotify::Reader::new(queue, &mut buffer);
    let mut groups = false;
    while let Ok(event) = reader.next() {
        groups |= !event.events().contains(inotify::ReadFlags::MODIFY);
        if reader.is_buffer_empty() {
            break;
        }
    }
    groups
}

pub fn run(host: &Host, options: &Options, out: &mut dyn Write) -> Result<()> {
    let tree = host.open_tree()?;
    require_files(&tree)?;
    let queue = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .map_err(|e| Error::io("inotify", e))?;
    watch_all(host, &tree, &queue);
    let (mut last, mut bound, mut seen) = (snapshot(&tree)?, BTreeMap::new(), 0);
    loop {
        if pause(&queue, options.interval) {
            watch_all(host, &tree, &queue);
        }
        let now = snapshot(&tree)?;
        for event in compare(&last, &now, &mut bound) {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let line = if options.json {
                let mut value = serde_json::to_value(&event).unwrap_or_default();
                value["time"] = serde_json::json!(time.as_secs_f64());
                value.to_string()
            } else {
                let path = clean(&display(&event.path));
                format!("{}.{:03} {path} {}: {} -> {}", time.as_secs(), time.subsec_millis(), event.what, event.old,
                        event.new)
            };
            if !written(out.write_all((line + "\n").as_bytes()))? {
                return Ok(());
            }
            seen += 1;
            if options.count.is_some_and(|count| seen >= count) {
                return Ok(());
            }
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, hint: &str, capped: u64) -> Snapshot {
        let state = State { path: path.into(), hint: Some(hint.into()),
                            stat: [("headroom_capped_periods".to_string(), capped)].into(), ..State::default() };
        [(path.to_string(), state)].into()
    }

    #[test]
    fn changes() {
        let mut bound = BTreeMap::new();
        let texts = |events: Vec<Event>| events.iter().map(|e| format!("{} {} {} {}", e.path, e.what, e.old, e.new))
            .collect::<Vec<_>>();
        assert_eq!(texts(compare(&one("a", "inherit", 0), &one("a", "pack", 2), &mut bound)),
                   ["a hint inherit pack", "a headroom.capped no yes"]);
        assert!(compare(&one("a", "pack", 2), &one("a", "pack", 3), &mut bound).is_empty(), "still held back");
        assert_eq!(texts(compare(&one("a", "pack", 3), &one("a", "pack", 3), &mut bound)), ["a headroom.capped yes no"]);
        assert_eq!(texts(compare(&one("a", "pack", 3), &Snapshot::new(), &mut bound)),
                   ["a group present -", "a hint pack -"]);
        assert!(compare(&one("a", "inherit", 0), &Snapshot::new(), &mut bound).is_empty());
    }
}
