// SPDX-License-Identifier: GPL-2.0-only
//! `doctor`: what is there, what is missing, and the command that mends it.

use serde::Serialize;

use crate::error::Result;
use crate::setting::{same, Key, KEYS};
use crate::state::{kernel_files, policies, State};
use crate::tree::{display, Host, Tree};
use crate::unit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Works, but not as well as it could.
    Note,
    Missing,
}

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub verdict: Verdict,
    pub what: String,
    /// The command or deed that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

fn finding(verdict: Verdict, what: impl Into<String>, mend: Option<&str>) -> Finding {
    Finding { verdict, what: what.into(), mend: mend.map(str::to_string) }
}

const GET_KERNEL: &str = "get a kernel with CONFIG_CGROUP_STEER: in the source tree of this program, 'make deb' builds \
                          Debian packages of one; install them and reboot";

pub fn examine(host: &Host, target: Option<&str>) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let release = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !release.is_empty() {
        found.push(finding(Verdict::Ok, format!("Linux {}", release.trim()), None));
    }
    let mounts = host.read("/proc/self/mountinfo").unwrap_or_default();
    let Ok(tree) = host.open_tree() else {
        let v1 = mounts.contains(" - cgroup cgroup ");
        found.push(finding(Verdict::Missing, if v1 { "only cgroup v1 is mounted" } else { "cgroup2 is not mounted" },
                           Some(if v1 { "boot with systemd.unified_cgroup_hierarchy=1 cgroup_no_v1=all" }
                                else { "mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup" })));
        return Ok(found);
    };
    let part = tree.part().map(|part| format!(", which has a part of it: {part}")).unwrap_or_default();
    found.push(finding(Verdict::Ok, format!("cgroup2 is mounted at {}{part}", tree.mount), None));
    if !tree.options.is_empty() && !tree.options.split(',').any(|option| option == "nsdelegate") {
        found.push(finding(Verdict::Note, "cgroup2 is mounted without nsdelegate: containers can change their own limits",
                           Some(&format!("mount -o remount,nsdelegate {}", tree.mount))));
    }
    controllers(host, &tree, &mut found)?;
    kernel(host, &tree, &mut found)?;
    if let Some(target) = target {
        path(host, &tree, target, &mut found)?;
    }
    systemd(host, &mut found);
    units(host, &mut found);
    let policies = policies(&tree, "")?;
    found.push(finding(Verdict::Ok, format!("{} groups have a policy", policies.len()), None));
    found.extend(policies.iter().filter_map(ineffective));
    found.extend(policies.iter().filter_map(|state| idle_and_protected(&tree, state)));
    found.extend(policies.iter().filter_map(unbound));
    Ok(found)
}

/// A policy that cannot have an effect.
fn ineffective(state: &State) -> Option<Finding> {
    let unavailable = state.hint_effective.as_deref().is_some_and(|line| crate::hint::parse_effective(line).1 != 0);
    unavailable.then(|| finding(Verdict::Note, format!(
        "{}: {}", display(&state.path), crate::why::sentences(state).into_iter().next().unwrap_or_default()), None))
}

/// Idle work that others are held back for.
fn idle_and_protected(tree: &Tree, state: &State) -> Option<Finding> {
    let headroom = state.headroom.as_deref().filter(|value| !same(Key::Headroom, value, Key::Headroom.default_value()))?;
    let idle = tree.open(&state.path).ok()?.read_line("cpu.idle").ok().flatten()?;
    (idle.trim() == "1").then(|| finding(
        Verdict::Note, format!("{}: has cpu.idle 1 and a headroom of {headroom} %. Its siblings leave that much idle for it \
                                whatever its weight, so it can get most of a CPU beside them", display(&state.path)),
        Some(&format!("cgctl set '/{}' headroom=0, or: echo 0 > '{}/{}/cpu.idle'", state.path, tree.mount, state.path))))
}

/// A headroom on a level where nobody gives way to it.
fn unbound(state: &State) -> Option<Finding> {
    let unbound = state.headroom_unbound.as_ref()?;
    let value = state.headroom.as_deref().unwrap_or_default();
    let mend = unbound.belongs.as_ref().map(|above| format!("cgctl set '{}' headroom={value}", display(above)));
    Some(finding(Verdict::Note, format!("{}: headroom={value}: {unbound}", display(&state.path)), mend.as_deref()))
}

fn controllers(host: &Host, tree: &Tree, found: &mut Vec<Finding>) -> Result<()> {
    let root = tree.open("")?;
    let there = |file| root.names_cpu(file);
    // The root of a container's tree is no root: it has files of its own.
    if !there("cgroup.controllers") {
        found.push(finding(Verdict::Missing, "the cpu controller is not available in cgroup2",
                           Some("if cgroup v1 holds it, boot with cgroup_no_v1=all; in a container, have the host \
                                 delegate it (for systemd: Delegate=cpu)")));
    } else if !there("cgroup.subtree_control") && host.path("/run/systemd/system").is_dir() {
        found.push(finding(Verdict::Note, "no unit uses the cpu controller now, so systemd does not enable it",
                           Some("nothing to do with cgctl.service; otherwise CPUWeight=100 in the unit enables it")));
    } else if !there("cgroup.subtree_control") {
        found.push(finding(Verdict::Missing, "the cpu controller is not enabled below the root",
                           Some(&format!("echo +cpu > {}/cgroup.subtree_control", tree.mount))));
    } else {
        found.push(finding(Verdict::Ok, "the cpu controller is enabled below the root", None));
    }
    Ok(())
}

/// The files, looked for in any group that has the controller.
fn kernel(host: &Host, tree: &Tree, found: &mut Vec<Finding>) -> Result<()> {
    let Some(have) = kernel_files(tree)? else {
        found.push(finding(Verdict::Note, "no group has the cpu controller, so it cannot be told whether this kernel has \
                                           the files", None));
        return Ok(());
    };
    let off = host.read("/proc/cmdline").unwrap_or_default().split_whitespace().any(|word| {
        matches!(word, "cgroup_steer=0" | "cgroup_steer=off" | "cgroup_steer=n" | "cgroup_steer=no")
    });
    if have == [false; 4] && off {
        found.push(finding(Verdict::Missing, "the kernel was booted with cgroup_steer=0",
                           Some("take it out of the kernel command line, and reboot")));
        return Ok(());
    }
    if have == [false; 4] {
        found.push(finding(Verdict::Missing, "this kernel has none of cpu.hint, cpu.gang, cpu.headroom", Some(GET_KERNEL)));
        return Ok(());
    }
    for (key, have) in KEYS.into_iter().zip(have) {
        found.push(if have {
            finding(Verdict::Ok, format!("this kernel has {}", key.file()), None)
        } else {
            finding(Verdict::Note, format!("this kernel does not have {}", key.file()), Some(GET_KERNEL))
        });
    }
    Ok(())
}

/// The command that has the controller enabled below `above`, for what is at `path`. In the tree of a systemd, that is
/// asked: what others enable there, it disables again.
fn enable(tree: &Tree, path: &str, above: &str) -> String {
    let directly = || format!("echo +cpu > {}{}/cgroup.subtree_control", tree.mount,
                              if above.is_empty() { String::new() } else { format!("/{above}") });
    let (Some(place), Some(top)) = (tree.in_manager(path), tree.in_manager(above)) else { return directly() };
    let parts: Vec<&str> = place.split('/').collect();
    let depth = top.split('/').filter(|part| !part.is_empty()).count();
    // Below user@UID.service it is that user's own systemd.
    let user = parts.iter().enumerate().find_map(|(at, part)| {
        let uid = part.strip_prefix("user@")?.strip_suffix(".service")?;
        (at < depth).then_some((at + 1, uid))
    });
    let from = user.map_or(0, |(from, _)| from);
    let within = parts[from..].join("/");
    let slices = parts[from..].iter().take_while(|part| part.ends_with(".slice")).count();
    match unit::owner(&within) {
        // Inside a unit that is no slice, nobody but the unit sees to it.
        Some(unit) if depth <= from + slices => {
            let whose = user.map_or(String::new(), |(_, uid)| {
                if rustix::process::geteuid().as_raw().to_string() == uid { "--user ".into() }
                else { format!("--user --machine={uid}@.host ") }
            });
            format!("systemctl {whose}set-property {unit} CPUWeight=100")
        }
        _ => directly(),
    }
}

fn path(host: &Host, tree: &Tree, target: &str, found: &mut Vec<Finding>) -> Result<()> {
    let path = crate::target::resolve(host, tree, target)?;
    let missing = crate::set::missing_controllers(tree, &path)?;
    if missing.is_empty() {
        found.push(finding(Verdict::Ok, format!("{}: the cpu controller is enabled all along the path", display(&path)), None));
    }
    for above in &missing {
        let mend = enable(tree, &path, above);
        found.push(finding(Verdict::Missing, format!("{}: {} does not pass the cpu controller on", display(&path),
                                                     display(above)), Some(&mend)));
    }
    let group = tree.open(&path)?;
    if rustix::fs::accessat(group.as_fd(), "cpu.hint", rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::empty()).is_err()
        && group.has("cpu.hint") {
        found.push(finding(Verdict::Note, format!("{}: this user may not write its files", display(&path)),
                           Some("use sudo, or a group below a delegation point of this user (user@UID.service)")));
    }
    Ok(())
}

fn systemd(host: &Host, found: &mut Vec<Finding>) {
    if !host.path("/run/systemd/system").is_dir() {
        found.push(finding(Verdict::Note, "systemd does not run here; groups are set directly, and by policies", None));
        return;
    }
    if host.is_live() {
        match crate::dbus::Systemd::connect(false).and_then(|systemd| systemd.version()) {
            Ok(version) => found.push(finding(Verdict::Ok, format!("systemd {version} answers"), None)),
            Err(error) => found.push(finding(Verdict::Missing, error.message, Some("systemctl status dbus.socket"))),
        }
    }
    if crate::persist::daemon_runs(host) {
        found.push(finding(Verdict::Ok, "cgctl.service runs", None));
    } else {
        found.push(finding(Verdict::Note, "cgctl.service does not run, so X-CPU properties of units have no effect",
                           Some("systemctl enable --now cgctl.service")));
    }
}

/// What is wrong in unit files.
fn units(host: &Host, found: &mut Vec<Finding>) {
    let mut finder = crate::persist::finder(host);
    // Mistakes in drop-ins of units that are not installed yet are mistakes, too.
    finder.assume_units();
    let aliases = finder.find_aliases();
    let (mut with, mut said, mut unread) = (0, std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for name in finder.known_units() {
        // A directory "service.d" is for all services: any name will do to read it.
        let unit = if unit::TYPES.contains(&name.as_str()) { format!("x.{name}") } else { name };
        let properties = finder.properties(&unit, &aliases.of(&unit));
        with += usize::from(!properties.values.is_empty());
        said.extend(properties.complaints.iter().map(ToString::to_string));
        unread.extend(properties.unread.iter().map(ToString::to_string));
    }
    if with > 0 {
        found.push(finding(Verdict::Ok, format!("{with} units have X-CPU properties in their files"), None));
    }
    found.extend(said.into_iter().map(|text| finding(Verdict::Missing, text, Some("correct the file, then systemctl daemon-reload"))));
    found.extend(unread.into_iter().map(|text| finding(Verdict::Note, text, Some("use sudo"))));
}

pub fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let sign = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Missing => "missing",
        };
        out += &format!("{sign:<8} {}\n", finding.what);
        if let Some(mend) = &finding.mend {
            out += &format!("         -> {mend}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn texts(dir: &TempDir, target: Option<&str>) -> String {
        text(&examine(&Host::new(Some(dir.path())), target).unwrap())
    }

    #[test]
    fn all_is_well() {
        let dir = TempDir::new();
        dir.group("");
        dir.group("a");
        let out = texts(&dir, Some("a"));
        assert!(!out.contains("missing") && out.contains("this kernel has cpu.headroom"), "{out}");
    }

    #[test]
    fn idle_work_that_is_protected() {
        let dir = TempDir::new();
        for (path, idle, headroom) in [("", "0", "0.00"), ("a", "1", "30.00"), ("b", "1", "0.00"), ("c", "0", "30.00")] {
            dir.group(path);
            dir.file(&format!("sys/fs/cgroup/{path}/cpu.idle"), &format!("{idle}\n"));
            dir.file(&format!("sys/fs/cgroup/{path}/cpu.headroom"), &format!("{headroom}\n"));
        }
        let out = texts(&dir, None);
        assert!(out.contains("note     /a: has cpu.idle 1 and a headroom of 30.00 %"), "{out}");
        assert!(out.contains("-> cgctl set '/a' headroom=0, or: echo 0 > '/sys/fs/cgroup/a/cpu.idle'"), "{out}");
        assert_eq!(out.matches("cpu.idle 1 and").count(), 1, "{out}");
    }

    #[test]
    fn a_mount_of_a_part() {
        let dir = TempDir::new();
        ["", "b.service"].iter().for_each(|path| dir.group(path));
        dir.file("proc/self/mountinfo", "31 30 0:27 /a.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        dir.file("sys/fs/cgroup/cgroup.subtree_control", "\n");
        let out = texts(&dir, Some("b.service"));
        assert!(out.contains("ok       cgroup2 is mounted at /sys/fs/cgroup, which has a part of it: /a.slice\n"), "{out}");
        assert!(out.contains("-> mount -o remount,nsdelegate /sys/fs/cgroup"), "{out}");
        assert!(out.contains("-> systemctl set-property b.service CPUWeight=100"), "{out}");
    }

    #[test]
    fn stock_kernel() {
        let dir = TempDir::new();
        dir.file("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        dir.file("sys/fs/cgroup/cgroup.subtree_control", "cpu\n");
        dir.file("sys/fs/cgroup/a/cpu.weight", "100\n");
        let out = texts(&dir, None);
        assert!(out.contains("missing  this kernel has none of cpu.hint") && out.contains("make deb"), "{out}");
        dir.file("proc/cmdline", "quiet cgroup_steer=0\n");
        assert!(texts(&dir, None).contains("booted with cgroup_steer=0"));
    }

    #[test]
    fn controllers_and_units() {
        let dir = TempDir::new();
        for path in ["", "system.slice", "system.slice/x.service"] {
            dir.group(path);
        }
        dir.file("sys/fs/cgroup/system.slice/cgroup.subtree_control", "memory\n");
        dir.file("etc/systemd/system/x.service", "[Service]\nX-CPUHint=pak\n");
        dir.file("run/systemd/system/empty", "");
        let out = texts(&dir, Some("x.service"));
        assert!(out.contains("/system.slice does not pass the cpu controller on"), "{out}");
        assert!(out.contains("systemctl set-property x.service CPUWeight=100"), "{out}");
        assert!(out.contains("x.service:2: X-CPUHint=pak"), "{out}");
        assert!(out.contains("systemctl enable --now cgctl.service"), "{out}");
    }

    #[test]
    fn whoever_sees_to_it_is_asked() {
        let dir = TempDir::new();
        dir.group("");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let user = "user.slice/user-4242.slice/user@4242.service";
        let asked = "systemctl --user --machine=4242@.host set-property a.service CPUWeight=100";
        for (path, above, mend) in [
            ("system.slice/a.service", "", "systemctl set-property a.service CPUWeight=100"),
            ("system.slice/a.service/sub", "system.slice", "systemctl set-property a.service CPUWeight=100"),
            ("system.slice/a.service/b.service", "system.slice", "systemctl set-property a.service CPUWeight=100"),
            ("system.slice/a.service/b.service", "system.slice/a.service",
             "echo +cpu > /sys/fs/cgroup/system.slice/a.service/cgroup.subtree_control"),
            ("a.slice/a-b.slice", "a.slice", "systemctl set-property a-b.slice CPUWeight=100"),
            ("jobs/night", "", "echo +cpu > /sys/fs/cgroup/cgroup.subtree_control"),
            (&format!("{user}/app.slice/a.service"), &format!("{user}/app.slice"), asked),
            (&format!("{user}/app.slice/a.service"), user, asked),
            (&format!("{user}/app.slice/a.service"), "user.slice",
             "systemctl set-property user@4242.service CPUWeight=100"),
        ] {
            assert_eq!(enable(&tree, path, above), mend, "{path} below {above}");
        }
        let own = format!("user.slice/user@{}.service", rustix::process::geteuid().as_raw());
        assert_eq!(enable(&tree, &format!("{own}/a.slice"), &own),
                   "systemctl --user set-property a.slice CPUWeight=100");
    }

    #[test]
    fn headroom_that_binds_nobody() {
        let dir = TempDir::new();
        for path in ["", "machine.slice/libpod-1.scope/container", "machine.slice/libpod-2.scope"] {
            dir.group(path);
        }
        dir.file("sys/fs/cgroup/machine.slice/libpod-2.scope/cpu.headroom", "20.00\n");
        assert!(!texts(&dir, None).contains("binds nobody"));
        dir.file("sys/fs/cgroup/machine.slice/libpod-1.scope/container/cpu.headroom", "30.00\n");
        let out = texts(&dir, None);
        assert!(out.contains("-> cgctl set '/machine.slice/libpod-1.scope' headroom=30.00"), "{out}");
    }

    #[test]
    fn no_cgroup2() {
        let dir = TempDir::new();
        dir.file("proc/self/mountinfo", "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
        assert!(texts(&dir, None).contains("systemd.unified_cgroup_hierarchy=1"));
    }
}
