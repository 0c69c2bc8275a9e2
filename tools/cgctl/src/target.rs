// SPDX-License-Identifier: GPL-2.0-only
//! From what somebody calls it to the cgroup: a path, a unit, a process, a container.
//!
//! A path has a slash, a process is a number, a unit ends in one of systemd's types; a bare word is tried as a group at
//! the top, a unit, and a container, in this order. "self" is the group of the caller. A prefix (path:, unit:, pid:,
//! container:) leaves no doubt.

use std::collections::BTreeSet;

use crate::container::{self, Container};
use crate::error::{Error, Kind, Result};
use crate::name::printable;
use crate::nearest::suggestion;
use crate::tree::{ancestors, base, display, normalise, Host, Tree};
use crate::unit;

fn of_process(host: &Host, tree: &Tree, pid: &str) -> Result<String> {
    let path = host.process_group(pid).map_err(|_| Error::not_found(format!("there is no process {pid}")))?
        .ok_or_else(|| Error::not_found(format!("process {pid} is in no group of cgroup v2")))?;
    // What was removed says so at its end, and a group may be named like that.
    tree.from_kernel(&path).filter(|path| tree.exists(path)).ok_or_else(|| Error::not_found(format!(
        "process {pid} is in {}, which is not in this cgroup tree{}", printable(&path),
        tree.part().map(|part| format!(": {} is mounted at {}", part, tree.mount)).unwrap_or_default())))
}

/// The group of the caller. What systemd starts beside a service with delegation runs in a subgroup; the service is
/// meant.
pub fn own_group(host: &Host, tree: &Tree) -> Result<String> {
    let path = of_process(host, tree, "self")?;
    Ok(path.strip_suffix("/.control").unwrap_or(&path).to_string())
}

/// Where a unit is. A name means a unit of the system manager, or else one of the caller's own manager; what is below
/// other units (containers, other users' managers) has names of its own. A slice's place follows from its name, others
/// are looked for.
pub fn of_unit(tree: &Tree, name: &str) -> Result<String> {
    if let Some(path) = unit::slice_path(name).and_then(|path| tree.from_manager(&path)) {
        if tree.exists(&path) {
            return Ok(path);
        }
    }
    let wanted = unit::cgroup_name(name);
    let uid = rustix::process::geteuid().as_raw();
    let own = format!("user.slice/user-{uid}.slice/user@{uid}.service/");
    let (mut found, mut users, mut elsewhere, mut known) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    tree.walk("", &mut |group| {
        let base = base(&group.path);
        let Some(unit) = unit::from_cgroup_name(base) else { return };
        let place = tree.in_manager(&group.path).unwrap_or_default();
        let is_system = unit::at(&place).is_some();
        let is_own = place.strip_prefix(&own).is_some_and(|place| unit::at(place).is_some());
        if base == wanted {
            if is_system { &mut found } else if is_own { &mut users } else { &mut elsewhere }.push(group.path.clone());
        }
        if is_system || is_own {
            known.push(unit.to_string());
        }
    })?;
    let list = |paths: &[String]| paths.iter().map(|path| display(path)).collect::<Vec<_>>().join(" ");
    if found.is_empty() {
        found = users;
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if elsewhere.is_empty() => Err(Error::not_found(format!(
            "the unit {name} has no cgroup now; it is not running{}",
            suggestion(name, known.iter().map(String::as_str))))),
        0 => Err(Error::not_found(format!(
            "the unit {name} has no cgroup now; it is not running. What has that name inside other units goes by its \
             path: {}", list(&elsewhere)))),
        _ => Err(Error::invalid(format!("{name} is several groups; use one of their paths: {}", list(&found)))),
    }
}

/// Whether a directory of the tree is the container with an id (or its beginning), or of a name.
fn is_container(dir: &str, parent: &str, id: &str, exact: bool) -> bool {
    let stem = dir.strip_suffix(".scope").unwrap_or(dir);
    let own = ["docker-", "libpod-payload-", "libpod-", "cri-containerd-", "crio-", "nerdctl-"].into_iter()
        .find_map(|prefix| stem.strip_prefix(prefix))
        .or_else(|| (matches!(base(parent), "docker" | "libpod_parent" | "lxc") || parent.contains("kubepods"))
                 .then_some(stem))
        .or_else(|| dir.strip_prefix("lxc.payload."));
    if let Some(own) = own {
        return own == id || (!exact && id.len() >= 6 && own.starts_with(id));
    }
    stem.strip_prefix("machine-").is_some_and(|machine| machine == unit::escape(id))
}

/// The group of a container, by its name, its id or the beginning of that.
pub fn of_container(host: &Host, tree: &Tree, name: &str) -> Result<String> {
    let known = container::find(host, name);
    let mut found: BTreeSet<String> = known.iter().filter_map(|one| match one {
        Container::Path(path) => tree.from_kernel(&display(path)).filter(|path| tree.exists(path)),
        Container::Id(_) => None,
    }).collect();
    tree.walk("", &mut |group| {
        let parent = crate::tree::parent(&group.path).unwrap_or_default();
        let dir = base(&group.path);
        let is = |id: &str, exact: bool| is_container(dir, parent, id, exact);
        if is(name, false) || known.iter().any(|one| matches!(one, Container::Id(id) if is(id, true))) {
            found.insert(group.path.clone());
        }
    })?;
    // What is in a container, or another unit, comes after what is not.
    let inside = |path: &str| ancestors(path).any(|above| tree.unit_at(above).is_some_and(|unit| !unit.ends_with(".slice")));
    if found.iter().any(|path| !inside(path)) {
        found.retain(|path| !inside(path));
    }
    // Where its engine puts the container's own settings: crun, in a group of its own inside of the scope.
    let found: BTreeSet<String> = found.into_iter().map(|path| {
        let inner = format!("{path}/container");
        if path.ends_with(".scope") && tree.exists(&inner) { inner } else { path }
    }).collect();
    match found.len() {
        1 => Ok(found.into_iter().next().unwrap_or_default()),
        0 => Err(Error::not_found(format!("no container '{name}' is running"))),
        n => Err(Error::invalid(format!("'{name}' is {n} containers; use one of their paths: {}",
                                        found.iter().map(|p| display(p)).collect::<Vec<_>>().join(" ")))),
    }
}

/// The path in the tree of whatever a target names. It exists.
pub fn resolve(host: &Host, tree: &Tree, target: &str) -> Result<String> {
    match target.split_once(':') {
        Some(("unit", name)) => return of_unit(tree, name),
        Some(("pid", pid)) => return of_process(host, tree, pid),
        Some(("container", name)) => return of_container(host, tree, name),
        Some(("path", path)) => return of_path(tree, path),
        _ => {}
    }
    if target == "self" {
        return own_group(host, tree);
    }
    if target.contains('/') {
        return of_path(tree, target);
    }
    if !target.is_empty() && target.bytes().all(|b| b.is_ascii_digit()) && target.len() <= 10 {
        return of_process(host, tree, target);
    }
    if unit::unit_type(target).is_some() {
        return of_unit(tree, target);
    }
    if let Ok(path) = normalise(target) {
        if !path.is_empty() && tree.exists(&path) {
            return Ok(path);
        }
    }
    if unit::unit_type(&format!("{target}.service")).is_some() {
        if let Ok(path) = of_unit(tree, &format!("{target}.service")) {
            return Ok(path);
        }
    }
    of_container(host, tree, target).map_err(|error| if error.kind == Kind::Invalid { error } else {
        let mut known: Vec<String> = Vec::new();
        let _ = tree.walk("", &mut |group| known.push(base(&group.path).to_string()));
        Error::not_found(format!("'{target}' is no cgroup, unit, process or container here{}",
                                 suggestion(target, known.iter().map(String::as_str))))
    })
}

/// "/a/b" and "a/b" are in the tree, and so is "/sys/fs/cgroup/a/b"; last comes what the kernel calls "/a/b".
fn of_path(tree: &Tree, path: &str) -> Result<String> {
    let own = match tree.from_file_system(path)? {
        Some(path) => path,
        None => normalise(path)?,
    };
    let error = match tree.open(&own) {
        Ok(_) => return Ok(own),
        Err(error) => error,
    };
    let kernel = tree.from_kernel(path).filter(|path| error.kind == Kind::NotFound && tree.exists(path));
    kernel.ok_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn fixture() -> (TempDir, Host, Tree) {
        let dir = TempDir::new();
        let id = "4f2a".repeat(16);
        for path in ["web", "system.slice/nginx.service", "system.slice/_cpu.service", "a.slice/a-b.slice",
                     &format!("system.slice/docker-{id}.scope"), "machine.slice/machine-deb\\x2d1.scope",
                     "user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service", "lxc.payload.alpha",
                     "machine.slice/libpod-77.scope/container", "system.slice/web.service/libpod-payload-88",
                     "kubepods.slice/kubepods-pod1.slice/cri-containerd-99.scope", "system.slice/nginx.service/.control",
                     "kubepods.slice/kubepods-pod2.slice/crio-660066.scope/container",
                     "kubepods.slice/kubepods-pod2.slice/crio-conmon-660066.scope", "kubepods/pod3/crio-550055"] {
            dir.group(path);
        }
        dir.file("proc/42/cgroup", "0::/system.slice/nginx.service\n");
        dir.file("proc/43/cgroup", "0::/gone (deleted)\n");
        dir.file("proc/self/cgroup", "0::/system.slice/nginx.service/.control\n");
        dir.file(&format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name":"/shop","ID":"x"}"#);
        dir.file("var/lib/containers/storage/overlay-containers/containers.json",
                 r#"[{"id":"77","names":["crun"]},{"id":"88","names":["quadlet"]},
                     {"id":"660066","names":["k8s_cache_shop_prod_6f1c_0"]},
                     {"id":"550055","names":["k8s_cache_old_prod_7e2d_0"]}]"#);
        dir.file("run/containerd/io.containerd.runtime.v2.task/k8s.io/99/config.json",
                 r#"{"annotations":{"io.kubernetes.cri.container-name":"db","io.kubernetes.cri.sandbox-name":"pod"},
                     "linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:99"}}"#);
        let host = Host::new(Some(dir.path()));
        let tree = host.open_tree().unwrap();
        (dir, host, tree)
    }

    #[test]
    fn found() {
        let (_dir, host, tree) = fixture();
        let id = "4f2a".repeat(16);
        let docker = format!("system.slice/docker-{id}.scope");
        for (target, path) in [
            ("web", "web"), ("/web", "web"), ("/sys/fs/cgroup/web/", "web"), ("nginx", "system.slice/nginx.service"),
            ("nginx.service", "system.slice/nginx.service"), ("42", "system.slice/nginx.service"), ("/", ""),
            ("cpu.service", "system.slice/_cpu.service"), ("a-b.slice", "a.slice/a-b.slice"), ("-.slice", ""),
            ("self", "system.slice/nginx.service"), ("4f2a4f2a4f2a", &docker), ("shop", &docker),
            ("deb-1", "machine.slice/machine-deb\\x2d1.scope"), ("container:alpha", "lxc.payload.alpha"),
            ("crun", "machine.slice/libpod-77.scope/container"), ("quadlet", "system.slice/web.service/libpod-payload-88"),
            ("db", "kubepods.slice/kubepods-pod1.slice/cri-containerd-99.scope"),
            ("container:pod/db", "kubepods.slice/kubepods-pod1.slice/cri-containerd-99.scope"),
            ("container:shop/cache", "kubepods.slice/kubepods-pod2.slice/crio-660066.scope/container"),
            ("container:660066", "kubepods.slice/kubepods-pod2.slice/crio-660066.scope/container"),
            ("container:old/cache", "kubepods/pod3/crio-550055"),
            ("unit:nginx.service", "system.slice/nginx.service"), ("pid:42", "system.slice/nginx.service"),
        ] {
            assert_eq!(resolve(&host, &tree, target).unwrap(), path, "{target}");
        }
    }

    #[test]
    fn not_found() {
        let (_dir, host, tree) = fixture();
        let error = |target: &str| resolve(&host, &tree, target).unwrap_err();
        assert!(error("ngnix.service").message.contains("did you mean 'nginx.service'"));
        assert!(error("99").message.contains("no process 99"));
        assert!(error("43").message.contains("not in this cgroup tree"));
        assert!(error("/../etc").message.contains("'..'"));
        assert!(error("nothing-like-it").message.contains("no cgroup, unit, process or container"));
        assert!(error("").message.contains("is no cgroup"));
    }

    /// A container that runs systemd, and the host's unit of the same name.
    #[test]
    fn what_is_below_a_unit_is_its_own() {
        let (dir, host, tree) = fixture();
        let uid = rustix::process::geteuid().as_raw();
        let user = format!("user.slice/user-{uid}.slice/user@{uid}.service/app.slice/mine.service");
        let inner = "machine.slice/machine-deb\\x2d1.scope";
        for path in ["system.slice/a.service", "system.slice/ctr.service/system.slice/a.service",
                     "system.slice/ctr.service/system.slice/inner.service", &user,
                     "user.slice/user-77777.slice/user@77777.service/app.slice/theirs.service",
                     &format!("{inner}/machine.slice/machine-deb\\x2d1.scope"), "b.slice/two.service", "c.slice/two.service"] {
            dir.group(path);
        }
        let found = |target: &str| resolve(&host, &tree, target);
        assert_eq!(found("a.service").unwrap(), "system.slice/a.service");
        assert_eq!(found("a").unwrap(), "system.slice/a.service");
        assert_eq!(found("mine.service").unwrap(), user, "the caller's own manager");
        assert_eq!(found("deb-1").unwrap(), inner, "a machine in a machine comes after it");
        for (target, path) in [("inner.service", "/system.slice/ctr.service/system.slice/inner.service"),
                               ("theirs.service", "/user.slice/user-77777.slice/user@77777.service/app.slice/theirs.service")] {
            let error = found(target).unwrap_err();
            assert_eq!(error.kind, Kind::NotFound);
            assert!(error.message.ends_with(path), "{error}");
        }
        assert!(found("two.service").unwrap_err().message.contains("/b.slice/two.service /c.slice/two.service"));
    }

    const CGROUP2: &str = "- cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn a_mount_of_a_part() {
        let dir = TempDir::new();
        ["", "a-b.slice/x.service", "caf\u{efe9}"].iter().for_each(|path| dir.group(path));
        dir.file("proc/self/mountinfo", &format!("31 30 0:27 / /sys/fs/cgroup rw {CGROUP2}\n\
                                                  99 31 0:27 /a.slice /sys/fs/cgroup rw {CGROUP2}\n"));
        dir.file("proc/1/cgroup", "0::/init.scope\n");
        dir.file("proc/self/cgroup", "0::/a.slice/a-b.slice/x.service\n");
        dir.file("proc/5/cgroup", "0::/a.slice/caf\u{efe9}\n");
        dir.file("proc/6/cgroup", "0::/b.slice\n");
        let host = Host::new(Some(dir.path()));
        let tree = host.open_tree().unwrap();
        for (target, path) in [("self", "a-b.slice/x.service"), ("a-b.slice", "a-b.slice"), ("a.slice", ""),
                               ("x.service", "a-b.slice/x.service"), ("/a-b.slice", "a-b.slice"),
                               ("/a.slice/a-b.slice", "a-b.slice"), ("/sys/fs/cgroup/a-b.slice", "a-b.slice")] {
            assert_eq!(resolve(&host, &tree, target).unwrap(), path, "{target}");
        }
        // Bytes that are not UTF-8, in the kernel's files as in names
        std::fs::write(dir.path().join("proc/5/cgroup"), b"0::/a.slice/caf\xe9\n").unwrap();
        assert_eq!(resolve(&host, &tree, "5").unwrap(), "caf\u{efe9}");
        let error = resolve(&host, &tree, "6").unwrap_err().message;
        assert!(error.contains("process 6 is in /b.slice, which is not in this cgroup tree: /a.slice is mounted"), "{error}");
    }

    /// The mount is from before the namespace was made, so the kernel tells places by ".." only.
    #[test]
    fn a_namespace_within_what_is_mounted() {
        let dir = TempDir::new();
        for path in ["", "x/y/z", "w/y/z", "x/z", "system.slice/a.service"] {
            dir.group(path);
        }
        let own = std::process::id();
        dir.file("sys/fs/cgroup/w/y/z/cgroup.threads", &format!("1{own}\n"));
        dir.file("sys/fs/cgroup/x/y/z/cgroup.threads", &format!("7\n{own}\n"));
        dir.file("proc/self/mountinfo", &format!("31 30 0:27 /../.. /sys/fs/cgroup rw {CGROUP2}\n"));
        dir.file("proc/1/cgroup", "0::/../../init.scope\n");
        dir.file("proc/self/cgroup", "0::/z\n");
        dir.file("proc/5/cgroup", "0::/../z\n");
        dir.file("proc/6/cgroup", "0::/../../../other\n");
        let host = Host::new(Some(dir.path()));
        let tree = host.open_tree().unwrap();
        for (target, path) in [("self", "x/y/z"), ("5", "x/z"), ("a.service", "system.slice/a.service"), ("/x/z", "x/z")] {
            assert_eq!(resolve(&host, &tree, target).unwrap(), path, "{target}");
        }
        assert!(resolve(&host, &tree, "6").unwrap_err().message.contains("is in /../../../other, which is not in this"));
    }

    #[test]
    fn several_mounts() {
        let dir = TempDir::new();
        dir.group("a.slice/b");
        dir.group("mnt/b");
        dir.file("proc/self/mountinfo", &format!("50 1 0:27 /a.slice /mnt rw {CGROUP2}\n31 30 0:27 / /sys/fs/cgroup rw {CGROUP2}\n\
                                                  51 1 0:27 /../up /up rw {CGROUP2}\n"));
        let host = Host::new(Some(dir.path()));
        let tree = host.open_tree().unwrap();
        assert_eq!(tree.mount, "/sys/fs/cgroup");
        assert_eq!(resolve(&host, &tree, "/mnt/b").unwrap(), "a.slice/b");
        assert_eq!(resolve(&host, &tree, "/mnt").unwrap(), "a.slice");
        assert_eq!(resolve(&host, &tree, "mnt/b").unwrap(), "mnt/b");
        assert!(resolve(&host, &tree, "/up/b").unwrap_err().message.contains("not in the part of the cgroup tree"));
    }

    /// In a container with the host's cgroup namespace, units are those of the container's systemd.
    #[test]
    fn process_1_tells_whose_units() {
        let dir = TempDir::new();
        let inner = "system.slice/ctr.scope/system.slice/a.service";
        ["", "system.slice/a.service", inner].iter().for_each(|path| dir.group(path));
        dir.file("proc/1/cgroup", "0::/system.slice/ctr.scope/init.scope\n");
        let host = Host::new(Some(dir.path()));
        let tree = host.open_tree().unwrap();
        assert_eq!(resolve(&host, &tree, "a.service").unwrap(), inner);
        assert_eq!(resolve(&host, &tree, "system.slice").unwrap(), "system.slice/ctr.scope/system.slice");
        // Where systemd is above the namespace, nothing here is one of its units by name.
        dir.file("proc/1/cgroup", "0::/../../init.scope\n");
        let tree = host.open_tree().unwrap();
        assert!(resolve(&host, &tree, "a.service").unwrap_err().message.contains("goes by its path"));
    }
}
