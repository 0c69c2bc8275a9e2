// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup tree: opening groups without ever leaving it, reading and writing their files.
//!
//! Every path is opened relative to a descriptor of the mount's root, by openat2(2) with RESOLVE_BENEATH and
//! RESOLVE_NO_SYMLINKS, so neither ".." nor a link in a fixture can lead out of it. A group is held by a descriptor of
//! its directory: when it is removed, and even when another takes its name, files of the old one give ENOENT or ENODEV,
//! which is reported as what it is.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{openat, openat2, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};

/// The file systems that a command works on: "/" or a fixture's directory.
#[derive(Clone, Debug)]
pub struct Host {
    pub root: PathBuf,
}

impl Host {
    pub fn new(root: Option<&Path>) -> Host {
        Host { root: root.unwrap_or(Path::new("/")).to_path_buf() }
    }

    /// Whether it is the running system, with its processes and its systemd.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    pub fn read(&self, absolute: &str) -> Result<String> {
        std::fs::read_to_string(self.path(absolute)).map_err(|e| Error::io(absolute, e))
    }

    /// Where cgroup2 is mounted, as an absolute path of the host.
    pub fn cgroup_mount(&self) -> Result<String> {
        let mounts = self.read("/proc/self/mountinfo").unwrap_or_default();
        if let Some(found) = find_cgroup2(&mounts) {
            return Ok(found.point);
        }
        if !self.is_live() && self.path("/sys/fs/cgroup").is_dir() {
            return Ok("/sys/fs/cgroup".into());
        }
        Err(Error::new(Kind::Unsupported, "cgroup2 is not mounted; 'cgctl doctor' says more"))
    }

    pub fn open_tree(&self) -> Result<Tree> {
        let mount = self.cgroup_mount()?;
        let path = self.path(&mount);
        let dir = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::io(path.display(), e))?;
        Ok(Tree { dir, mount })
    }
}

/// The line of /proc/self/mountinfo for cgroup2.
pub struct Mount {
    pub point: String,
    pub options: String,
}

pub fn find_cgroup2(mountinfo: &str) -> Option<Mount> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        if right.next()? != "cgroup2" {
            return None;
        }
        let options = right.nth(1).unwrap_or_default().to_string();
        Some(Mount { point: unescape_octal(left.split(' ').nth(4)?), options })
    })
}

/// "\040" and its like, as the kernel writes blanks in mount points.
fn unescape_octal(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
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
    String::from_utf8_lossy(&out).into_owned()
}

/// The mounted tree. Paths in it have no leading slash; "" is its root.
#[derive(Debug)]
pub struct Tree {
    dir: OwnedFd,
    pub mount: String,
}

/// A group, held open.
#[derive(Debug)]
pub struct Group {
    dir: OwnedFd,
    pub path: String,
}

/// Bring a path as people write it into our form; refuse what could lead out.
pub fn normalise(path: &str) -> Result<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(Error::invalid(format!("'{path}': '..' has no place in the path of a cgroup"))),
            _ if part.contains('\0') || part.contains('\n') =>
                return Err(Error::invalid(format!("{path:?} cannot be the path of a cgroup"))),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// For messages: the root has a name, too.
pub fn display(path: &str) -> String {
    format!("/{path}")
}

pub fn parent(path: &str) -> Option<&str> {
    if path.is_empty() { None } else { Some(path.rsplit_once('/').map_or("", |(parent, _)| parent)) }
}

/// A group's ancestors without itself and without the root, nearest first.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path)).filter(|path| !path.is_empty())
}

pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub fn gone(path: &str) -> Error {
    Error::not_found(format!("the cgroup {} was removed meanwhile", display(path)))
}

const SAFE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// openat2, or, where a sandbox knows only the older call, the same step by step.
fn open_beneath(dir: impl AsFd, path: &str, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let path = if path.is_empty() { "." } else { path };
    match openat2(&dir, path, flags, Mode::empty(), SAFE) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other,
    }
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = openat(&dir, ".", step, Mode::empty())?;
    let parts: Vec<&str> = path.split('/').collect();
    for part in &parts[..parts.len() - 1] {
        current = openat(&current, *part, step, Mode::empty())?;
    }
    openat(&current, parts[parts.len() - 1], flags | OFlags::NOFOLLOW, Mode::empty())
}

impl Tree {
    pub fn open(&self, path: &str) -> Result<Group> {
        let dir = open_beneath(&self.dir, path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => Error::not_found(format!("there is no cgroup {}", display(path))),
            Errno::XDEV | Errno::LOOP => Error::invalid(format!("{} leads out of the cgroup tree", display(path))),
            e => Error::io(display(path), e),
        })?;
        Ok(Group { dir, path: path.to_string() })
    }

    pub fn exists(&self, path: &str) -> bool {
        open_beneath(&self.dir, path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    /// The names of the groups directly below.
    pub fn children(&self, group: &Group) -> Vec<String> {
        group.child_names()
    }

    /// Call for a group and all below it, parents first, siblings by name. Groups that vanish on the way are skipped.
    pub fn walk(&self, path: &str, visit: &mut dyn FnMut(&Group)) -> Result<()> {
        let group = self.open(path)?;
        Self::walk_group(&group, visit);
        Ok(())
    }

    fn walk_group(group: &Group, visit: &mut dyn FnMut(&Group)) {
        visit(group);
        for name in group.child_names() {
            if let Some(child) = group.child(&name) {
                Self::walk_group(&child, visit);
            }
        }
    }
}

impl Group {
    pub fn child(&self, name: &str) -> Option<Group> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.dir, name, flags, Mode::empty()).ok()?;
        Some(Group { dir, path: if self.path.is_empty() { name.into() } else { format!("{}/{name}", self.path) } })
    }

    fn child_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        // Most groups are leaves, which two links to a directory tell without reading it: itself and its name.
        if rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 2) {
            return names;
        }
        let Ok(entries) = rustix::fs::Dir::read_from(&self.dir) else { return names };
        for entry in entries.flatten() {
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&self.dir, entry.file_name(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            // The kernel takes names that are no UTF-8; nobody who manages services makes them.
            if let (FileType::Directory, Ok(name)) = (kind, entry.file_name().to_str()) {
                if name != "." && name != ".." {
                    names.push(name.to_string());
                }
            }
        }
        names.sort_unstable();
        names
    }

    fn open_file(&self, name: &str, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        debug_assert!(!name.contains('/'));
        openat(&self.dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    /// The content of a file, None where the group has no such file or is gone.
    pub fn read(&self, name: &str) -> Result<Option<String>> {
        match self.try_read(name) {
            Ok(text) => Ok(Some(text)),
            Err(Errno::NOENT | Errno::NODEV) => Ok(None),
            Err(e) => Err(Error::io(format!("{}/{name}", display(&self.path)), e)),
        }
    }

    fn try_read(&self, name: &str) -> std::result::Result<String, Errno> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        // What is read in bulk is one short line; cpu.stat is longer.
        let mut buffer = [0u8; 256];
        let n = rustix::io::read(&file, &mut buffer)?;
        let mut bytes = buffer[..n].to_vec();
        if n == buffer.len() {
            File::from(file).read_to_end(&mut bytes).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One line, without its end.
    pub fn read_line(&self, name: &str) -> Result<Option<String>> {
        Ok(self.read(name)?.map(|text| text.trim_end_matches('\n').to_string()))
    }

    /// Write a line; the kernel's errors are left for the caller to explain.
    pub fn write(&self, name: &str, value: &str) -> std::result::Result<(), Errno> {
        let mut file = File::from(self.open_file(name, OFlags::WRONLY | OFlags::TRUNC)?);
        file.write_all(format!("{value}\n").as_bytes()).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
    }

    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether this very group is still what its path leads to.
    pub fn is_alive(&self, tree: &Tree) -> bool {
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino));
        let now = open_beneath(&tree.dir, &self.path, OFlags::PATH | OFlags::DIRECTORY);
        now.is_ok_and(|now| inode(&now).is_some() && inode(&now) == inode(&self.dir))
    }

    /// Does `cgroup.controllers` (it is there) or `cgroup.subtree_control` (it is passed on) name the cpu controller?
    pub fn names_cpu(&self, file: &str) -> bool {
        let text = self.read_line(file).ok().flatten().unwrap_or_default();
        text.split_ascii_whitespace().any(|controller| controller == "cpu")
    }

    pub fn is_populated(&self) -> Option<bool> {
        let text = self.read("cgroup.events").ok()??;
        text.lines().find_map(|line| line.strip_prefix("populated ")).map(|value| value.trim() == "1")
    }

    pub fn get_mark(&self, name: &str) -> Option<String> {
        let mut buffer = [0u8; 256];
        let n = rustix::fs::fgetxattr(&self.dir, name, &mut buffer).ok()?;
        String::from_utf8(buffer[..n].to_vec()).ok()
    }

    /// Leave a note on the group itself, which goes when the group goes.
    pub fn set_mark(&self, name: &str, value: &str) {
        let _ = if value.is_empty() {
            rustix::fs::fremovexattr(&self.dir, name)
        } else {
            rustix::fs::fsetxattr(&self.dir, name, value.as_bytes(), rustix::fs::XattrFlags::empty())
        };
    }

    pub fn as_fd(&self) -> &OwnedFd {
        &self.dir
    }

    pub fn make_child(&self, name: &str) -> Result<Group> {
        rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(0o755))
            .map_err(|e| Error::io(format!("making {}/{name}", display(&self.path)), e))?;
        self.child(name).ok_or_else(|| gone(name))
    }

    pub fn remove_child(&self, name: &str) -> std::result::Result<(), Errno> {
        rustix::fs::unlinkat(&self.dir, OsStr::from_bytes(name.as_bytes()), rustix::fs::AtFlags::REMOVEDIR)
    }
}

/// Read a flat-keyed file: "key value" lines.
pub fn parse_flat(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' ')).map(|(key, value)| (key, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        assert_eq!(normalise("/a//b/./c/").unwrap(), "a/b/c");
        assert_eq!(normalise("/").unwrap(), "");
        assert!(normalise("a/../b").is_err());
        assert!(normalise("a\nb").is_err());
        assert_eq!(parent("a/b"), Some("a"));
        assert_eq!(parent("a"), Some(""));
        assert_eq!(parent(""), None);
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a"]);
        assert_eq!(ancestors("a").count(), 0);
    }

    #[test]
    fn mounts() {
        let text = "30 23 0:26 / /sys rw - sysfs sysfs rw\n\
                    31 30 0:27 / /sys/fs/cg\\040x rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let mount = find_cgroup2(text).unwrap();
        assert_eq!((mount.point.as_str(), mount.options.as_str()), ("/sys/fs/cg x", "rw,nsdelegate"));
        assert!(find_cgroup2("").is_none());
    }

    #[test]
    fn links_do_not_lead_out() {
        let dir = crate::testing::TempDir::new();
        std::fs::create_dir_all(dir.path().join("sys/fs/cgroup/a")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("sys/fs/cgroup/out")).unwrap();
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        assert!(tree.open("a").is_ok());
        assert_eq!(tree.open("out").unwrap_err().kind, Kind::Invalid);
        assert_eq!(tree.open("out/etc").unwrap_err().kind, Kind::Invalid);
        assert_eq!(tree.open("../..").unwrap_err().kind, Kind::Invalid);
        let mut seen = Vec::new();
        tree.walk("", &mut |group| seen.push(group.path.clone())).unwrap();
        assert_eq!(seen, ["", "a"]);
    }

    #[test]
    fn removal_is_noticed() {
        let dir = crate::testing::TempDir::new();
        let path = dir.path().join("sys/fs/cgroup/a");
        std::fs::create_dir_all(&path).unwrap();
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let group = tree.open("a").unwrap();
        assert!(group.is_alive(&tree));
        std::fs::rename(&path, path.with_file_name("b")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(!group.is_alive(&tree), "another group of the same name is another group");
    }

    proptest! {
        #[test]
        fn normal_paths_stay_inside(path in "\\PC*") {
            if let Ok(normal) = normalise(&path) {
                prop_assert!(!normal.starts_with('/') && normal.split('/').all(|part| part != ".."));
                prop_assert_eq!(normalise(&normal).unwrap(), normal);
            }
        }

        #[test]
        fn any_mountinfo(text in "\\PC*") {
            find_cgroup2(&text);
            unescape_octal(&text);
        }
    }
}
