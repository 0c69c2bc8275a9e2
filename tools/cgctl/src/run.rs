// SPDX-License-Identifier: GPL-2.0-only
//! `run`: a command in a group of its own.
//!
//! With systemd, cgctl has itself put into a transient scope, sets what was asked for, and becomes the command: there
//! is nobody in between, so signals, terminal and exit status are the command's own, and systemd removes the scope when
//! it is empty. Without, it makes a group, waits for the command, ends what the command left in the group, and removes
//! the group.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::dbus::Systemd;
use crate::error::{Error, Result};
use crate::output::note;
use crate::persist;
use crate::set::{Options, Plan};
use crate::setting::{Key, Settings, SCOPES};
use crate::state::missing_file;
use crate::target;
use crate::tree::{display, normalise, Group, Host, Tree};

/// Statuses of env(1) and its like, for failures of our own.
pub const NOT_STARTED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub struct Run {
    pub settings: Settings,
    pub slice: Option<String>,
    pub user: bool,
    pub no_systemd: bool,
    pub command: Vec<String>,
}

fn exec_status(what: &Run, error: &std::io::Error) -> u8 {
    let (status, text) = not_started(what, error.kind());
    note(text);
    status
}

/// The status and the message for a command that cannot be executed.
fn not_started(what: &Run, kind: std::io::ErrorKind) -> (u8, String) {
    let program = &what.command[0];
    let text = format!("{program}: {}", Error::io("cannot be started", std::io::Error::from(kind)));
    if kind != std::io::ErrorKind::NotFound {
        return (NOT_EXECUTABLE, text);
    }
    // "--gang llc" is a gang of the default scope, and the command "llc".
    let scope = what.settings.contains_key(&Key::Gang) && SCOPES.contains(&program.as_str());
    let advice = if scope { format!("; a scope follows the option with a '=': --gang={program}") } else { String::new() };
    (NOT_FOUND, text + &advice)
}

fn apply(tree: &Tree, path: &str, settings: &Settings) -> Result<()> {
    let mut plan = Plan::default();
    plan.add(tree, path, settings, Options::default())?;
    plan.commit(tree).map(drop)
}

/// Returns the status to exit with.
pub fn run(host: &Host, what: &Run) -> Result<u8> {
    let systemd = host.is_live() && !what.no_systemd && host.path("/run/systemd/system").is_dir();
    if systemd { in_scope(host, what) } else { in_group(host, what) }
}

fn in_scope(host: &Host, what: &Run) -> Result<u8> {
    // Who is not root has a systemd of their own, which may make scopes without asking anybody.
    let user = what.user || !rustix::process::geteuid().is_root();
    let systemd = Systemd::connect(user)?;
    let pid = std::process::id();
    let started = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // A number may come again while an old scope's last processes are still there.
    let name = format!("cgctl-run-{pid}-{:x}.scope", started.tv_sec * 1_000_000 + started.tv_nsec / 1_000);
    let slice = match &what.slice {
        Some(slice) if slice.ends_with(".slice") => Some(slice.clone()),
        Some(slice) => Some(format!("{slice}.slice")),
        None => None,
    };
    // A user's own systemd has no daemon that reads its files.
    if !user && persist::daemon_runs(host) {
        let values = what.settings.iter().map(|(key, value)| (name.as_str(), *key, value.as_str()));
        if let Some(overruled) = persist::overruled(host, &host.open_tree()?, values).first() {
            return Err(Error::invalid(format!("{overruled}, and cgctl.service would set that again; change it there, or \
                                               use --no-systemd")));
        }
    }
    systemd.start_scope(&name, slice.as_deref(), &what.command.join(" "), pid)?;
    let tree = host.open_tree()?;
    apply(&tree, &target::own_group(host, &tree)?, &what.settings)?;
    let error = Command::new(&what.command[0]).args(&what.command[1..]).exec();
    Ok(exec_status(what, &error))
}

/// The group below which ours is made. It has to pass the cpu controller on, so it has no processes of its own, and
/// ours stands beside the one that we are in. Where none does, the root may be told to: nobody has files that change.
fn parent_group(host: &Host, tree: &Tree, slice: Option<&str>) -> Result<Group> {
    if let Some(slice) = slice {
        return tree.open(&normalise(slice)?);
    }
    let own = target::own_group(host, tree).unwrap_or_default();
    let candidates = std::iter::successors(crate::tree::parent(&own).or(Some("")), |p| crate::tree::parent(p));
    let passes = |group: &Group| group.names_cpu("cgroup.subtree_control");
    if let Some(group) = candidates.filter_map(|path| tree.open(path).ok()).find(passes) {
        return Ok(group);
    }
    let root = tree.open("")?;
    if root.write("cgroup.subtree_control", "+cpu").is_err() {
        return Err(Error::new(crate::error::Kind::Unsupported,
                              "no group above this one has the cpu controller enabled; 'cgctl doctor' says what to do"));
    }
    Ok(root)
}

/// The group, for as long as it is needed.
struct Fresh<'a> {
    parent: &'a Group,
    group: Group,
    name: String,
}

impl Fresh<'_> {
    fn is_empty(&self) -> bool {
        self.group.is_populated() != Some(true)
    }
}

impl Drop for Fresh<'_> {
    /// What the command left behind ends with it.
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if !self.is_empty() {
                let _ = self.group.write("cgroup.kill", "1");
            }
            match self.parent.remove_child(&self.name) {
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(Duration::from_millis(5)),
                Err(rustix::io::Errno::NOENT) | Ok(()) => return,
                Err(e) => return note(format!("{} stays behind: {e}", display(&self.group.path))),
            }
        }
        note(format!("{} stays behind: its processes do not end", display(&self.group.path)));
    }
}

fn in_group(host: &Host, what: &Run) -> Result<u8> {
    let tree = host.open_tree()?;
    let parent = parent_group(host, &tree, what.slice.as_deref())?;
    let name = format!("cgctl-run-{}", std::process::id());
    let group = parent.make_child(&name)?;
    let fresh = Fresh { parent: &parent, group, name };
    if let Some(key) = what.settings.keys().find(|key| !fresh.group.has(key.file())) {
        return Err(missing_file(&tree, &fresh.group, key.file()));
    }
    apply(&tree, &fresh.group.path, &what.settings)?;
    let procs = rustix::fs::openat(fresh.group.as_fd(), "cgroup.procs",
                                   rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .map_err(|e| Error::io(format!("{}/cgroup.procs", display(&fresh.group.path)), e))?;
    // From here on, what is sent to us is for the command.
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT,
        signal_hook::consts::SIGQUIT, signal_hook::consts::SIGUSR1, signal_hook::consts::SIGUSR2,
    ]).map_err(|e| Error::io("signals", e))?;
    let handle = signals.handle();
    let mut command = Command::new(&what.command[0]);
    command.args(&what.command[1..]);
    // SAFETY: between fork and exec the child calls write(2) only.
    unsafe {
        // "0" is the writer itself.
        command.pre_exec(move || rustix::io::write(&procs, b"0").map(drop).map_err(Into::into));
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(exec_status(what, &error)),
    };
    let pid = Pid::from_child(&child);
    let forward = std::thread::spawn(move || {
        for signal in signals.forever() {
            // A terminal sends these two to the command itself.
            let from_terminal = matches!(signal, signal_hook::consts::SIGINT | signal_hook::consts::SIGQUIT);
            if let (false, Some(signal)) = (from_terminal, Signal::from_named_raw(signal)) {
                let _ = kill_process(pid, signal);
            }
        }
    });
    let status = wait(&mut child);
    handle.close();
    let _ = forward.join();
    drop(fresh);
    status
}

/// Wait for a command; its status as a shell reports it.
fn wait(child: &mut Child) -> Result<u8> {
    let status = child.wait().map_err(|e| Error::io("waiting", e))?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn commands_that_do_not_start() {
        let run = |gang: bool, program: &str| {
            let settings = if gang { [(Key::Gang, "1".to_string())].into() } else { Settings::new() };
            Run { settings, slice: None, user: false, no_systemd: false, command: vec![program.into(), "true".into()] }
        };
        let (status, text) = not_started(&run(true, "llc"), ErrorKind::NotFound);
        assert_eq!(status, NOT_FOUND);
        assert!(text.starts_with("llc: cannot be started: ") && text.ends_with("with a '=': --gang=llc"), "{text}");
        for run in [run(false, "llc"), run(true, "lls")] {
            assert!(!not_started(&run, ErrorKind::NotFound).1.contains("--gang"));
        }
        assert_eq!(not_started(&run(true, "node"), ErrorKind::PermissionDenied).0, NOT_EXECUTABLE);
    }
}
