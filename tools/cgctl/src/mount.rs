// SPDX-License-Identifier: GPL-2.0-only
//! Where cgroup2 is mounted, and which part of the hierarchy is to be seen there.
//!
//! A mount need not show the whole: it may be one of a subtree (a bind mount), and in a cgroup namespace all paths that
//! the kernel tells, of mounts as of processes, are relative to the namespace's root, with ".." for what is above it.

use crate::name;

/// A group, as /proc/PID/cgroup and the fourth field of /proc/PID/mountinfo name it: so many steps up from the root of
/// the cgroup namespace, then down these names. The kernel goes up no farther than it has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub up: usize,
    pub down: Vec<String>,
}

impl Place {
    pub fn parse(path: &str) -> Place {
        let mut place = Place::default();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if part == ".." && place.down.is_empty() {
                place.up += 1;
            } else {
                place.down.push(part.to_string());
            }
        }
        place
    }

    /// The path that leads here from another place, None if it is not below that. `names` are the names that lead from
    /// that place to the namespace's root, as far as they are known; they are needed only if it is above this root.
    pub fn below(&self, top: &Place, names: impl FnOnce() -> Vec<String>) -> Option<String> {
        if self.up == top.up {
            return self.down.strip_prefix(&top.down[..]).map(|rest| rest.join("/"));
        }
        if self.up > top.up || !top.down.is_empty() {
            return None;
        }
        let names = names();
        let first = names.get(..top.up - self.up)?;
        Some([first, &self.down].concat().join("/"))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", "/..".repeat(self.up), self.down.join("/"))
    }
}

/// A mount of cgroup2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: String,
    /// The group that is to be seen at the mount point.
    pub root: Place,
    pub options: String,
}

struct Entry<'a> {
    id: &'a str,
    parent: &'a str,
    root: &'a str,
    point: String,
    kind: &'a str,
    options: &'a str,
}

fn parse(line: &str) -> Option<Entry<'_>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (id, parent, root, point) = (left.next()?, left.next()?, left.nth(1)?, left.next()?);
    let mut right = right.split(' ');
    let kind = right.next()?;
    Some(Entry { id, parent, root, point: unescape_octal(point), kind, options: right.nth(1).unwrap_or_default() })
}

/// Whether a path is below another, and not the same.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above.trim_end_matches('/')).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
}

/// Whether the path of a mount's point leads to that mount, and not to one that covers it.
fn is_reached(all: &[Entry], mount: &Entry) -> bool {
    let (mut at, mut from) = (mount, "");
    // No chain of parents is longer than the list.
    for _ in all {
        let covered = all.iter().any(|other| {
            (other.parent == at.id && other.point == at.point && other.id != from && other.id != at.id)
                || (other.parent == at.parent && other.id != at.id && is_below(&at.point, &other.point))
        });
        if covered {
            return false;
        }
        let Some(parent) = all.iter().find(|other| other.id == at.parent && other.id != at.id) else { break };
        (at, from) = (parent, at.id);
    }
    true
}

/// The mounts of cgroup2 that paths lead to, the one to work on first: where it is mounted as a rule, or else the one
/// that shows most.
pub fn find(mountinfo: &str) -> Vec<Mount> {
    let all: Vec<Entry> = mountinfo.lines().filter_map(parse).collect();
    let mut found: Vec<Mount> = all.iter().filter(|entry| entry.kind == "cgroup2" && is_reached(&all, entry)).map(|entry| {
        Mount { point: entry.point.clone(), root: Place::parse(&unescape_octal(entry.root)), options: entry.options.into() }
    }).collect();
    let usual = |point: &str| ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().position(|usual| point == *usual);
    found.sort_by_key(|mount| (usual(&mount.point).unwrap_or(usize::MAX), usize::MAX - mount.root.up, mount.root.down.len()));
    found
}

/// "\040" and its like, as the kernel writes blanks.
fn unescape_octal(text: &str) -> String {
    let bytes = name::to_bytes(text);
    let (mut out, mut rest) = (Vec::new(), &*bytes);
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\' && tail.len() >= 3 {
            if let Ok(value) = u8::from_str_radix(&String::from_utf8_lossy(&tail[..3]), 8) {
                out.push(value);
                rest = &tail[3..];
                continue;
            }
        }
        out.push(first);
        rest = tail;
    }
    name::from_bytes(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(lines: &[&str]) -> Vec<String> {
        find(&lines.join("\n")).into_iter().map(|mount| mount.point).collect()
    }

    #[test]
    fn a_line() {
        let text = "30 23 0:26 / /sys rw - sysfs sysfs rw\n\
                    31 30 0:27 /a\\040b /sys/fs/cg\\040x rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let want = Mount { point: "/sys/fs/cg x".into(), root: Place::parse("/a b"), options: "rw,nsdelegate".into() };
        assert_eq!(find(text), [want]);
        assert_eq!(find(""), []);
    }

    #[test]
    fn only_what_a_path_leads_to_counts() {
        let root = "21 1 8:1 / / rw - ext4 /dev/sda rw";
        let sys = "30 21 0:26 / /sys rw - sysfs sysfs rw";
        let whole = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let bind = "99 31 0:27 /a.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        let mnt = "70 21 0:27 /a.slice/b /mnt rw - cgroup2 cgroup2 rw";
        let unified = "32 33 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let v1 = "33 30 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw";
        assert_eq!(points(&[root, sys, whole]), ["/sys/fs/cgroup"]);
        // The bind mount covers the other.
        let found = find(&[root, sys, whole, bind].join("\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].root, Place::parse("/a.slice"));
        // Something else covers it, and a directory above it.
        assert!(points(&[root, sys, whole, "98 31 0:9 / /sys/fs/cgroup rw - tmpfs none rw"]).is_empty());
        assert!(points(&[root, sys, whole, "98 30 0:9 / /sys/fs rw - tmpfs none rw"]).is_empty());
        assert!(points(&[root, sys, whole, "98 30 0:9 / /sys rw - tmpfs none rw"]).is_empty(), "over the parent");
        assert_eq!(points(&[root, sys, v1, unified]), ["/sys/fs/cgroup/unified"]);
        assert_eq!(points(&[root, sys, v1, mnt, unified]), ["/sys/fs/cgroup/unified", "/mnt"]);
        assert_eq!(points(&[mnt, "71 21 0:27 / /whole rw - cgroup2 cgroup2 rw",
                            "72 21 0:27 /.. /above rw - cgroup2 cgroup2 rw"]), ["/above", "/whole", "/mnt"]);
    }

    #[test]
    fn places() {
        let unknown = Vec::new;
        let below = |place: &str, top: &str| Place::parse(place).below(&Place::parse(top), unknown);
        assert_eq!(below("/a/b", "/"), Some("a/b".into()));
        assert_eq!(below("/a/b", "/a"), Some("b".into()));
        assert_eq!(below("/ab", "/a"), None);
        assert_eq!(below("/../x", "/"), None);
        assert_eq!(below("/../x/y", "/../x"), Some("y".into()));
        assert_eq!(below("/y", "/../x"), None, "another branch");
        assert_eq!(below("/..", "/.."), Some("".into()));
        // A mount from before the namespace was made: its names are not told.
        assert_eq!(below("/x", "/../.."), None);
        let names = || vec!["a".to_string(), "b".to_string()];
        assert_eq!(Place::parse("/x").below(&Place::parse("/../.."), names), Some("a/b/x".into()));
        assert_eq!(Place::parse("/../y").below(&Place::parse("/../.."), names), Some("a/y".into()));
        assert_eq!(Place::parse("/").below(&Place::parse("/../../.."), names), None, "not enough is known");
    }

    proptest! {
        #[test]
        fn any_mountinfo(text in "\\PC*") {
            find(&text);
            unescape_octal(&text);
        }

        /// Whatever is told relative to a namespace leads to the same path.
        #[test]
        fn namespaces_do_not_matter(group in proptest::collection::vec("[abc]", 0..5),
                                    top in proptest::collection::vec("[abc]", 0..3),
                                    namespace in proptest::collection::vec("[abc]", 0..4)) {
            let told = |path: &[String]| {
                let common = path.iter().zip(&namespace).take_while(|(a, b)| a == b).count();
                Place { up: namespace.len() - common, down: path[common..].to_vec() }
            };
            let names = || namespace.strip_prefix(&top[..]).unwrap_or_default().to_vec();
            prop_assert_eq!(told(&group).below(&told(&top), names), group.strip_prefix(&top[..]).map(|rest| rest.join("/")));
        }
    }
}
