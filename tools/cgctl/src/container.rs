// SPDX-License-Identifier: GPL-2.0-only
//! Containers by what their engines call them, from what these keep on disk.
//!
//! Of what there is, these files are read: they are specified, or have stayed the same for years.
//!
//! - podman, CRI-O: `containers.json` of containers/storage, and its twin for containers that do not outlive a boot;
//!   CRI-O's names there have container, pod and namespace in them;
//! - containerd: `config.json` of each task's bundle, which the OCI runtime specification defines; its annotations
//!   `io.kubernetes.cri.*` are those that containerd documents for other runtimes;
//! - runc, crun without an engine: `state.json`, `status`, which have the group's path;
//! - Docker: `config.v2.json`.
//!
//! Databases (podman's, containerd's) are not read: they are locked while the engine runs, and change their form.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::Deserialize;

use crate::tree::{normalise, Host};

/// A container that a name stands for: one of both is enough to find its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// What its group's name has in it.
    Id(String),
    /// Where its group is.
    Path(String),
}

#[derive(Deserialize)]
struct Docker {
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    linux: BundleLinux,
}

#[derive(Deserialize)]
struct BundleLinux {
    #[serde(rename = "cgroupsPath", default)]
    cgroups_path: String,
}

#[derive(Deserialize)]
struct Runc {
    #[serde(default)]
    cgroup_paths: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Crun {
    #[serde(rename = "cgroup-path", default)]
    cgroup_path: String,
}

fn read<T: DeserializeOwned>(path: PathBuf) -> Option<T> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// The names in a directory, in order.
fn names(host: &Host, directory: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(host.path(directory)).into_iter().flatten().flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What an id or the beginning of one may stand for, as engines have it.
fn is_id(id: &str, name: &str) -> bool {
    id == name || (name.len() >= 6 && id.len() >= 32 && id.starts_with(name))
}

/// Does a container of the container runtime interface, [NAMESPACE, POD, CONTAINER], go by this name: CONTAINER,
/// POD/CONTAINER or NAMESPACE/POD/CONTAINER?
fn is_called(own: [&str; 3], name: &str) -> bool {
    let wanted: Vec<&str> = name.split('/').collect();
    !own[2].is_empty() && wanted.len() <= own.len() && own[own.len() - wanted.len()..] == wanted[..]
}

/// What containerd says of a container.
fn cri_of_containerd(annotations: &BTreeMap<String, String>) -> [&str; 3] {
    ["sandbox-namespace", "sandbox-name", "container-name"]
        .map(|key| annotations.get(&format!("io.kubernetes.cri.{key}")).map_or("", String::as_str))
}

/// What CRI-O's name for a container says: k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT. No part of it has a "_". The container
/// POD is what holds a pod's namespaces.
fn cri_of_crio(name: &str) -> Option<[&str; 3]> {
    match name.split('_').collect::<Vec<_>>()[..] {
        ["k8s", container, pod, namespace, _, _] if container != "POD" => Some([namespace, pod, container]),
        _ => None,
    }
}

/// The group that `linux.cgroupsPath` means: SLICE:PREFIX:NAME with systemd's driver, a path otherwise.
fn cgroups_path(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let path = match parts[..] {
        [slice, prefix, name] => format!("{}/{prefix}-{name}.scope", crate::unit::slice_path(slice)?),
        _ => text.to_string(),
    };
    normalise(&path).ok().filter(|path| !path.is_empty())
}

/// Every container that a name or an id stands for.
pub fn find(host: &Host, name: &str) -> Vec<Container> {
    let mut found = Vec::new();
    let docker = "/var/lib/docker/containers";
    for id in names(host, docker) {
        if read::<Docker>(host.path(&format!("{docker}/{id}/config.v2.json")))
            .is_some_and(|config| config.name.trim_start_matches('/') == name) {
            found.push(Container::Id(id));
        }
    }
    for (storage, file) in [("/var/lib/containers/storage", "containers.json"),
                            ("/run/containers/storage", "volatile-containers.json")] {
        // One directory for each storage driver
        for driver in names(host, storage).iter().filter(|entry| entry.ends_with("-containers")) {
            let stored: Vec<Stored> = read(host.path(&format!("{storage}/{driver}/{file}"))).unwrap_or_default();
            let is_known = |known: &String| known == name || cri_of_crio(known).is_some_and(|own| is_called(own, name));
            found.extend(stored.into_iter().filter(|one| one.names.iter().any(is_known))
                         .map(|one| Container::Id(one.id)));
        }
    }
    let tasks = "/run/containerd/io.containerd.runtime.v2.task";
    for namespace in names(host, tasks) {
        for id in names(host, &format!("{tasks}/{namespace}")) {
            let bundle: Option<Bundle> = read(host.path(&format!("{tasks}/{namespace}/{id}/config.json")));
            found.extend(bundle.filter(|bundle| is_id(&id, name) || is_called(cri_of_containerd(&bundle.annotations), name))
                         .and_then(|bundle| cgroups_path(&bundle.linux.cgroups_path)).map(Container::Path));
        }
    }
    if !name.contains('/') {
        let own = |path: &str| normalise(path.trim_start_matches("/sys/fs/cgroup")).ok().filter(|path| !path.is_empty());
        let runc: Option<Runc> = read(host.path(&format!("/run/runc/{name}/state.json")));
        found.extend(runc.and_then(|state| own(state.cgroup_paths.get("")?)).map(Container::Path));
        let crun: Option<Crun> = read(host.path(&format!("/run/crun/{name}/status")));
        found.extend(crun.and_then(|state| own(&state.cgroup_path)).map(Container::Path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn each_engine() {
        let dir = TempDir::new();
        let id = "4f2a".repeat(16);
        dir.file(&format!("var/lib/docker/containers/{id}/config.v2.json"), r#"{"Name":"/shop"}"#);
        dir.file("var/lib/containers/storage/overlay-containers/containers.json",
                 &format!(r#"[{{"id":"{id}","names":["web"],"layer":"x"}},
                     {{"id":"c0","names":["k8s_cache_shop-1_prod_6f1c-77_2"]}}, {{"id":"c2","names":["k8s_cache_shop-1"]}},
                     {{"id":"c1","names":["k8s_POD_shop-1_prod_6f1c-77_0"]}}]"#));
        dir.file("run/containers/storage/overlay-containers/volatile-containers.json", r#"[{"id":"b","names":["brief"]}]"#);
        let task = |namespace: &str, id: &str, text: &str| {
            dir.file(&format!("run/containerd/io.containerd.runtime.v2.task/{namespace}/{id}/config.json"), text);
        };
        task("k8s.io", &id, r#"{"annotations":{"io.kubernetes.cri.container-name":"db","io.kubernetes.cri.sandbox-name":
            "shop-0","io.kubernetes.cri.sandbox-namespace":"prod"},
            "linux":{"cgroupsPath":"kubepods-pod1.slice:cri-containerd:4f"}}"#);
        task("default", "lone", r#"{"linux":{"cgroupsPath":"/default/lone"}}"#);
        dir.file("run/runc/r/state.json", r#"{"cgroup_paths":{"":"/sys/fs/cgroup/engines/r"}}"#);
        dir.file("run/crun/c/status", r#"{"cgroup-path":"/system.slice/steer-c.scope/container"}"#);
        let host = Host::new(Some(dir.path()));
        let path = |path: &str| vec![Container::Path(path.to_string())];
        let pod = path("kubepods.slice/kubepods-pod1.slice/cri-containerd-4f.scope");
        for (name, wanted) in [
            ("shop", vec![Container::Id(id.clone())]), ("web", vec![Container::Id(id.clone())]),
            ("brief", vec![Container::Id("b".into())]), ("db", pod.clone()), ("shop-0/db", pod.clone()),
            ("prod/shop-0/db", pod.clone()), ("4f2a4f2a", pod.clone()), ("lone", path("default/lone")),
            ("cache", vec![Container::Id("c0".into())]), ("shop-1/cache", vec![Container::Id("c0".into())]),
            ("prod/shop-1/cache", vec![Container::Id("c0".into())]), ("test/shop-1/cache", vec![]), ("shop-1/POD", vec![]),
            ("r", path("engines/r")), ("c", path("system.slice/steer-c.scope/container")),
            ("test/shop-0/db", vec![]), ("a/prod/shop-0/db", vec![]), ("4f2a", vec![]), ("", vec![]), ("..", vec![]),
        ] {
            assert_eq!(find(&host, name), wanted, "{name}");
        }
    }

    #[test]
    fn odd_files() {
        let dir = TempDir::new();
        dir.file("var/lib/containers/storage/overlay-containers/containers.json", "{");
        dir.file("run/runc/x/state.json", r#"{"cgroup_paths":{"":"/sys/fs/cgroup/../etc"}}"#);
        assert_eq!(find(&Host::new(Some(dir.path())), "x"), []);
    }
}
