// SPDX-License-Identifier: GPL-2.0-only
//! From what somebody calls it to the cgroup: a path, a unit, a process, a container.
//!
//! A path has a slash, a process is a number, a unit ends in one of systemd's types; a bare word is tried as a group at
//! the top, a unit, and a container, in this order. "self" is the group of the caller. A prefix (path:, unit:, pid:,
//! container:) leaves no doubt.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::nearest::suggestion;
use crate::tree::{base, display, normalise, Host, Tree};
use crate::unit;

/// The unified entry of /proc/PID/cgroup.
fn parse_proc_cgroup(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

fn of_process(host: &Host, pid: &str) -> Result<String> {
    let text = host.read(&format!("/proc/{pid}/cgroup"))
        .map_err(|_| Error::not_found(format!("there is no process {pid}")))?;
    let path = parse_proc_cgroup(&text)
        .ok_or_else(|| Error::not_found(format!("process {pid} is in no group of cgroup v2")))?;
    if path.ends_with(" (deleted)") || path.starts_with("/..") {
        return Err(Error::not_found(format!("process {pid} is in {path}, which is not in this cgroup tree")));
    }
    normalise(path)
}

/// The group of the caller. What systemd starts beside a service with delegation runs in a subgroup; the service is
/// meant.
pub fn own_group(host: &Host) -> Result<String> {
    let path = of_process(host, "self")?;
    Ok(path.strip_suffix("/.control").unwrap_or(&path).to_string())
}

/// Where a unit is; a slice's place follows from its name, others are looked for.
pub fn of_unit(tree: &Tree, name: &str) -> Result<String> {
    if let Some(path) = unit::slice_path(name) {
        if tree.exists(&path) {
            return Ok(path);
        }
    }
    let wanted = unit::cgroup_name(name);
    let (mut found, mut known) = (Vec::new(), Vec::new());
    tree.walk("", &mut |group| {
        let base = base(&group.path);
        if base == wanted {
            found.push(group.path.clone());
        }
        known.extend(unit::from_cgroup_name(base).map(str::to_string));
    })?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::not_found(format!("the unit {name} has no cgroup now; it is not running{}",
                                          suggestion(name, known.iter().map(String::as_str))))),
        // The system's unit comes before those of users.
        _ => {
            let system: Vec<&String> = found.iter().filter(|path| !path.starts_with("user.slice/")).collect();
            match system[..] {
                [one] => Ok(one.clone()),
                _ => Err(Error::invalid(format!("{name} is several groups; use one of their paths: {}",
                                                found.iter().map(|p| display(p)).collect::<Vec<_>>().join(" ")))),
            }
        }
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct PodmanContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// The ids of containers of that name, by what Docker and Podman keep on disk.
fn container_ids(host: &Host, name: &str) -> Vec<String> {
    let mut ids = Vec::new();
    if let Ok(entries) = std::fs::read_dir(host.path("/var/lib/docker/containers")) {
        for entry in entries.flatten() {
            let config = std::fs::read_to_string(entry.path().join("config.v2.json")).unwrap_or_default();
            if serde_json::from_str::<DockerConfig>(&config).is_ok_and(|c| c.name.trim_start_matches('/') == name) {
                ids.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
    }
    let podman = host.read("/var/lib/containers/storage/overlay-containers/containers.json").unwrap_or_default();
    let podman: Vec<PodmanContainer> = serde_json::from_str(&podman).unwrap_or_default();
    ids.extend(podman.into_iter().filter(|c| c.names.iter().any(|n| n == name)).map(|c| c.id));
    ids
}

/// Whether a directory of the tree is the container with an id (or its beginning), or of a name.
fn is_container(dir: &str, parent: &str, id: &str, exact: bool) -> bool {
    let stem = dir.strip_suffix(".scope").unwrap_or(dir);
    let own = ["docker-", "libpod-", "cri-containerd-", "crio-", "nerdctl-"].into_iter()
        .find_map(|prefix| stem.strip_prefix(prefix))
        .or_else(|| (matches!(base(parent), "docker" | "libpod_parent" | "lxc") || parent.contains("kubepods"))
                 .then_some(stem))
        .or_else(|| dir.strip_prefix("lxc.payload."));
    if let Some(own) = own {
        return own == id || (!exact && id.len() >= 6 && own.starts_with(id));
    }
    stem.strip_prefix("machine-").is_some_and(|machine| machine == unit::escape(id))
}

pub fn of_container(host: &Host, tree: &Tree, name: &str) -> Result<String> {
    let ids = container_ids(host, name);
    let mut found = Vec::new();
    tree.walk("", &mut |group| {
        let parent = crate::tree::parent(&group.path).unwrap_or_default();
        let dir = base(&group.path);
        if is_container(dir, parent, name, false) || ids.iter().any(|id| is_container(dir, parent, id, true)) {
            found.push(group.path.clone());
        }
    })?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::not_found(format!("no container '{name}' is running"))),
        n => Err(Error::invalid(format!("'{name}' is the beginning of {n} containers' ids: {}",
                                        found.iter().map(|p| display(p)).collect::<Vec<_>>().join(" ")))),
    }
}

/// The path in the tree of whatever a target names. It exists.
pub fn resolve(host: &Host, tree: &Tree, target: &str) -> Result<String> {
    match target.split_once(':') {
        Some(("unit", name)) => return of_unit(tree, name),
        Some(("pid", pid)) => return of_process(host, pid),
        Some(("container", name)) => return of_container(host, tree, name),
        Some(("path", path)) => return of_path(tree, path),
        _ => {}
    }
    if target == "self" {
        return own_group(host);
    }
    if target.contains('/') {
        return of_path(tree, target);
    }
    if !target.is_empty() && target.bytes().all(|b| b.is_ascii_digit()) && target.len() <= 10 {
        return of_process(host, target);
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
    of_container(host, tree, target).map_err(|error| if error.kind == crate::error::Kind::Invalid { error } else {
        let mut known: Vec<String> = Vec::new();
        let _ = tree.walk("", &mut |group| known.push(base(&group.path).to_string()));
        Error::not_found(format!("'{target}' is no cgroup, unit, process or container here{}",
                                 suggestion(target, known.iter().map(String::as_str))))
    })
}

/// "/a/b" and "a/b" are in the tree, and so is "/sys/fs/cgroup/a/b".
fn of_path(tree: &Tree, path: &str) -> Result<String> {
    let inner = path.strip_prefix(&tree.mount).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(path);
    let path = normalise(inner)?;
    tree.open(&path)?;
    Ok(path)
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
                     "user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service", "lxc.payload.alpha"] {
            dir.group(path);
        }
        dir.file("proc/42/cgroup", "0::/system.slice/nginx.service\n");
        dir.file("proc/43/cgroup", "0::/gone (deleted)\n");
        dir.file("proc/self/cgroup", "0::/system.slice/nginx.service/.control\n");
        dir.file(&format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name":"/shop","ID":"x"}"#);
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
}
