// SPDX-License-Identifier: GPL-2.0-only
//! Whom a headroom reaches: the groups beside its own. Where there are none, it binds nobody.
//!
//! That happens to containers above all: crun puts a container into a group of its own inside of its scope, and a quadlet's
//! container is inside of a service, beside nothing but the processes of its engine.

use serde::Serialize;

use crate::setting::{same, Key};
use crate::tree::{base, display, parent, Tree};

/// A headroom that binds nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unbound {
    /// The nearest ancestor that has groups beside it, where the headroom belongs.
    pub belongs: Option<String>,
}

impl std::fmt::Display for Unbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a headroom here binds nobody, as no other group is beside this one; ")?;
        match &self.belongs {
            Some(above) => write!(f, "it belongs on {}", display(above)),
            None => write!(f, "nor beside one of its ancestors"),
        }
    }
}

/// Groups for what an engine runs beside a container. Its work is the container's: nobody gains when it gives way.
fn is_engine(name: &str) -> bool {
    ["libpod-conmon-", "crio-conmon-", "docker-init-"].iter().any(|prefix| name.starts_with(prefix))
        || matches!(name, "runtime" | "supervisor" | ".control")
}

/// Is there a group beside this one that can give way?
fn has_neighbours(tree: &Tree, path: &str) -> bool {
    let beside = parent(path).and_then(|above| tree.open(above).ok()).and_then(|above| above.children().ok());
    beside.is_some_and(|names| names.iter().any(|name| name != base(path) && !is_engine(name)))
}

fn has_headroom(tree: &Tree, path: &str) -> bool {
    let value = tree.open(path).ok().and_then(|group| group.read_line(Key::Headroom.file()).ok().flatten());
    value.is_some_and(|value| !same(Key::Headroom, &value, Key::Headroom.default_value()))
}

/// Why a headroom of this group would bind nobody; None where it binds somebody, or would as soon as that one has tasks, or
/// where the ancestor that it belongs on has one, too.
pub fn unbound(tree: &Tree, path: &str) -> Option<Unbound> {
    if has_neighbours(tree, path) {
        return None;
    }
    let belongs = crate::tree::ancestors(path).find(|above| has_neighbours(tree, above));
    if belongs.is_some_and(|above| has_headroom(tree, above)) {
        return None;
    }
    Some(Unbound { belongs: belongs.map(str::to_string) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use crate::tree::Host;

    fn belongs(groups: &[&str], path: &str) -> Option<Option<String>> {
        let dir = TempDir::new();
        groups.iter().for_each(|path| dir.group(path));
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        unbound(&tree, path).map(|unbound| unbound.belongs)
    }

    #[test]
    fn containers() {
        let somewhere = |path: &str| Some(Some(path.to_string()));
        // crun with systemd's driver, and what podman has beside it
        let crun = ["machine.slice/libpod-1.scope/container", "machine.slice/libpod-2.scope", "system.slice"];
        assert_eq!(belongs(&crun, crun[0]), somewhere("machine.slice/libpod-1.scope"));
        assert_eq!(belongs(&crun, "machine.slice/libpod-1.scope"), None);
        let lone = ["machine.slice/libpod-1.scope/container", "machine.slice/libpod-conmon-1.scope", "system.slice"];
        assert_eq!(belongs(&lone, lone[0]), somewhere("machine.slice"));
        // a quadlet
        let quadlet = ["system.slice/web.service/libpod-payload-1", "system.slice/web.service/runtime",
                       "system.slice/batch.service"];
        assert_eq!(belongs(&quadlet, quadlet[0]), somewhere("system.slice/web.service"));
        // two containers of a pod
        let pod = ["kubepods.slice/pod.slice/cri-containerd-1.scope", "kubepods.slice/pod.slice/cri-containerd-2.scope"];
        assert_eq!(belongs(&pod, pod[0]), None);
        assert_eq!(belongs(&["a/b/c"], "a/b/c"), Some(None));
    }

    #[test]
    fn ancestor_that_has_one() {
        let dir = TempDir::new();
        ["a/b/c", "a/d"].iter().for_each(|path| dir.group(path));
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        assert!(unbound(&tree, "a/b/c").is_some());
        dir.file("sys/fs/cgroup/a/b/cpu.headroom", "5.00\n");
        assert_eq!(unbound(&tree, "a/b/c"), None);
    }

    #[test]
    fn sentence() {
        let text = |belongs: Option<&str>| Unbound { belongs: belongs.map(str::to_string) }.to_string();
        assert_eq!(text(Some("a.slice")),
                   "a headroom here binds nobody, as no other group is beside this one; it belongs on /a.slice");
        assert!(text(None).ends_with("nor beside one of its ancestors"));
    }
}
