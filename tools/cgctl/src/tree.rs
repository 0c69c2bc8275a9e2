// SPDX-License-Identifier: GPL-2.0-only
//! The cgroup tree: opening groups without ever leaving it, reading and writing their files.
//!
//! Every path is opened relative to a descriptor of the mount's root, by openat2(2) with RESOLVE_BENEATH and
//! RESOLVE_NO_SYMLINKS, so neither ".." nor a link in a fixture can lead out of it. A group is held by a descriptor of
//! its directory: when it is removed, and even when another takes its name, files of the old one give ENOENT or ENODEV,
//! which is reported as what it is.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{openat, openat2, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Kind, Result};
use crate::mount::{self, Mount, Place};
use crate::name;
use crate::unit;

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
        self.root.join(OsStr::from_bytes(&name::to_bytes(absolute.trim_start_matches('/'))))
    }

    /// A file as text; bytes that are no text are as in names of groups.
    pub fn read(&self, absolute: &str) -> Result<String> {
        std::fs::read(self.path(absolute)).map(|bytes| name::from_bytes(&bytes)).map_err(|e| Error::io(absolute, e))
    }

    /// The mounts of cgroup2; the first is worked on.
    fn mounts(&self) -> Result<Vec<Mount>> {
        let found = mount::find(&self.read("/proc/self/mountinfo").unwrap_or_default());
        if found.is_empty() && !self.is_live() && self.path("/sys/fs/cgroup").is_dir() {
            return Ok(vec![Mount { point: "/sys/fs/cgroup".into(), root: Place::default(), options: String::new() }]);
        }
        if found.is_empty() {
            return Err(Error::new(Kind::Unsupported, "cgroup2 is not mounted; 'cgctl doctor' says more"));
        }
        Ok(found)
    }

    /// The group of a process, as the kernel names it.
    pub fn process_group(&self, pid: &str) -> Result<Option<String>> {
        let text = self.read(&format!("/proc/{pid}/cgroup"))?;
        Ok(text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_string))
    }

    pub fn open_tree(&self) -> Result<Tree> {
        let mut mounts = self.mounts()?;
        let path = self.path(&mounts[0].point);
        let dir = rustix::fs::open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::io(path.display(), e))?;
        let first = mounts.remove(0);
        let place = |pid: &str| self.process_group(pid).ok().flatten().map(|path| Place::parse(&path));
        // systemd is in a group of that name below the root of its tree. Without one, the root is that of the namespace,
        // unless more of the tree is to be seen.
        let manager = place("1").and_then(|mut place| place.down.pop().filter(|name| name == "init.scope").map(|_| place))
            .unwrap_or_else(|| Place { up: first.root.up, down: Vec::new() });
        Ok(Tree { dir, mount: first.point, options: first.options, root: first.root, others: mounts, own: place("self"),
                  manager, names: OnceCell::new() })
    }
}

/// The mounted tree. Paths in it are as below the mount point, without a leading slash; "" is its root, which need not
/// be that of the hierarchy.
#[derive(Debug)]
pub struct Tree {
    dir: OwnedFd,
    pub mount: String,
    /// Of the mount.
    pub options: String,
    /// The group that is mounted.
    root: Place,
    /// Where else parts of the hierarchy are mounted.
    others: Vec<Mount>,
    /// The group of this process.
    own: Option<Place>,
    /// The root of the systemd that is process 1: its slices are below that.
    manager: Place,
    /// What leads from the mounted group to the root of the cgroup namespace, as far as it can be seen.
    names: OnceCell<Vec<String>>,
}

/// A group, held open. Its path is text (see `name`), like all paths here.
#[derive(Debug)]
pub struct Group {
    dir: OwnedFd,
    pub path: String,
}

/// Device and inode.
pub type Identity = (u64, u64);

/// Bring a path as people write it into our form; refuse what could lead out.
pub fn normalise(path: &str) -> Result<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(Error::invalid(format!("'{path}': '..' has no place in the path of a cgroup"))),
            _ if part.contains('\0') => return Err(Error::invalid(format!("{path:?} cannot be the path of a cgroup"))),
            _ => parts.push(part),
        }
    }
    Ok(name::canonical(&parts.join("/")))
}

/// For messages: the root has a name, too.
pub fn display(path: &str) -> String {
    format!("/{}", name::printable(path))
}

/// The path of a group that is directly below another.
pub fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.into() } else { format!("{parent}/{name}") }
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

/// How much of a path is opened at once; the kernel takes 4095 bytes.
const LONGEST: usize = 4000;

/// A group of any depth: a longer path than the kernel takes is opened in pieces.
fn open_beneath(dir: impl AsFd, path: &str, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let bytes = name::to_bytes(path);
    let (mut current, mut rest): (Option<OwnedFd>, &[u8]) = (None, &bytes);
    while rest.len() > LONGEST {
        let end = rest[..LONGEST].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let from = current.as_ref().map_or(dir.as_fd(), |current| current.as_fd());
        current = Some(open_piece(from, &rest[..end], OFlags::PATH | OFlags::DIRECTORY)?);
        rest = &rest[end + 1..];
    }
    open_piece(current.as_ref().map_or(dir.as_fd(), |current| current.as_fd()), rest, flags)
}

/// openat2, or, where a sandbox knows only the older call, the same step by step.
fn open_piece(dir: BorrowedFd, path: &[u8], flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let path = if path.is_empty() { b"." } else { path };
    match openat2(dir, path, flags, Mode::empty(), SAFE) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other,
    }
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = openat(dir, ".", step, Mode::empty())?;
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    for part in &parts[..parts.len() - 1] {
        current = openat(&current, *part, step, Mode::empty())?;
    }
    openat(&current, parts[parts.len() - 1], flags | OFlags::NOFOLLOW, Mode::empty())
}

/// What goes away while it is looked at, or is not for this user to see, is passed over.
fn is_passed_over(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NODEV | Errno::NOTDIR | Errno::ACCESS | Errno::PERM)
}

impl Tree {
    /// The names that lead to the root of the cgroup namespace where that is further down than the mount's. The kernel
    /// does not tell them, so this process is looked for: it knows how far it is below that root.
    fn names(&self) -> &[String] {
        self.names.get_or_init(|| {
            let Some(own) = self.own.as_ref().filter(|own| own.up <= self.root.up) else { return Vec::new() };
            let above = self.root.up - own.up;
            let pid = std::process::id().to_string();
            let mut found = None;
            let _ = self.walk("", &mut |group| {
                let parts: Vec<&str> = group.path.split('/').filter(|part| !part.is_empty()).collect();
                if found.is_none() && parts.len() == above + own.down.len() && parts[above..].iter().eq(&own.down)
                    && group.read("cgroup.threads").ok().flatten().is_some_and(|text| text.lines().any(|line| line == pid)) {
                    found = Some(parts[..above].iter().map(ToString::to_string).collect());
                }
            });
            found.unwrap_or_default()
        })
    }

    /// Our path of a group that the kernel names (/proc/PID/cgroup), None where it is not in this tree.
    pub fn from_kernel(&self, path: &str) -> Option<String> {
        Place::parse(path).below(&self.root, || self.names().to_vec())
    }

    /// Our path of a path in the file system: None where nothing is mounted there, an error where this tree does not
    /// have what is.
    pub fn from_file_system(&self, path: &str) -> Result<Option<String>> {
        let below = |point: &str| path.strip_prefix(point).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let own = below(&self.mount).map(|rest| (self.mount.len(), None, rest));
        let others = self.others.iter().filter_map(|mount| Some((mount.point.len(), Some(mount), below(&mount.point)?)));
        Ok(match others.chain(own).max_by_key(|(length, ..)| *length) {
            None => None,
            Some((_, None, rest)) => Some(normalise(rest)?),
            Some((_, Some(mount), rest)) => {
                let top = mount.root.below(&self.root, || self.names().to_vec()).ok_or_else(|| Error::not_found(format!(
                    "{path} is not in the part of the cgroup tree that is mounted at {}", self.mount)))?;
                Some(join(&top, &normalise(rest)?).trim_end_matches('/').to_string())
            }
        })
    }

    /// A group's path in the tree of the system manager, None where it is not in that.
    pub fn in_manager(&self, path: &str) -> Option<String> {
        let (top, rest) = self.manager_roots()?;
        if path == top { Some(rest) } else { Some(join(&rest, if top.is_empty() { path } else {
            path.strip_prefix(&top)?.strip_prefix('/')?
        })) }
    }

    /// The reverse.
    pub fn from_manager(&self, path: &str) -> Option<String> {
        let (top, rest) = self.manager_roots()?;
        if path == rest { Some(top) } else { Some(join(&top, if rest.is_empty() { path } else {
            path.strip_prefix(&rest)?.strip_prefix('/')?
        })) }
    }

    /// The topmost group that is both in this tree and in the system manager's: its path in the one and in the other.
    fn manager_roots(&self) -> Option<(String, String)> {
        match self.manager.below(&self.root, || self.names().to_vec()) {
            Some(top) => Some((top, String::new())),
            // What is above the namespace cannot be seen.
            None => self.root.below(&self.manager, Vec::new).map(|rest| (String::new(), rest)),
        }
    }

    /// The system manager's unit whose own group this is.
    pub fn unit_at(&self, path: &str) -> Option<String> {
        unit::at(&self.in_manager(path)?).map(str::to_string)
    }

    /// What is mounted, as the kernel names it, where that is not all that there is in this namespace.
    pub fn part(&self) -> Option<String> {
        (!self.root.down.is_empty()).then(|| name::printable(&self.root.to_string()))
    }

    pub fn open(&self, path: &str) -> Result<Group> {
        self.try_open(path).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => Error::not_found(format!("there is no cgroup {}", display(path))),
            Errno::XDEV | Errno::LOOP => Error::invalid(format!("{} leads out of the cgroup tree", display(path))),
            e => Error::io(display(path), e),
        })
    }

    pub fn try_open(&self, path: &str) -> std::result::Result<Group, Errno> {
        let dir = open_beneath(&self.dir, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Group { dir, path: path.to_string() })
    }

    /// Whether a path leads to that very group.
    pub fn is_still(&self, path: &str, identity: Identity) -> bool {
        let now = open_beneath(&self.dir, path, OFlags::PATH | OFlags::DIRECTORY).and_then(rustix::fs::fstat);
        now.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity)
    }

    pub fn exists(&self, path: &str) -> bool {
        open_beneath(&self.dir, path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    /// Call for a group and all below it, parents first, siblings by name. Groups that vanish on the way are skipped.
    /// One group is open at a time, however many there are and however deep.
    pub fn walk(&self, path: &str, visit: &mut dyn FnMut(&Group)) -> Result<()> {
        self.open(path)?;
        let mut waiting = vec![path.to_string()];
        while let Some(path) = waiting.pop() {
            let group = match self.try_open(&path) {
                Ok(group) => group,
                Err(errno) if is_passed_over(errno) => continue,
                Err(errno) => return Err(Error::io(display(&path), errno)),
            };
            visit(&group);
            waiting.extend(group.children()?.into_iter().rev().map(|name| join(&path, &name)));
        }
        Ok(())
    }
}

impl Group {
    pub fn child(&self, name: &str) -> Option<Group> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(&self.dir, &*name::to_bytes(name), flags, Mode::empty()).ok()?;
        Some(Group { dir, path: join(&self.path, name) })
    }

    /// The names of the groups directly below, in their order; none of a group that is gone.
    pub fn children(&self) -> Result<Vec<String>> {
        match self.try_children() {
            Err(errno) if !is_passed_over(errno) => Err(Error::io(display(&self.path), errno)),
            names => Ok(names.unwrap_or_default()),
        }
    }

    fn try_children(&self) -> std::result::Result<Vec<String>, Errno> {
        let mut names = Vec::new();
        // Most groups are leaves, which two links to a directory tell without reading it: itself and its name.
        if rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink == 2) {
            return Ok(names);
        }
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::Unknown => rustix::fs::statat(&self.dir, entry.file_name(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            let name = entry.file_name().to_bytes();
            if kind == FileType::Directory && name != b"." && name != b".." {
                names.push(name::from_bytes(name));
            }
        }
        names.sort_unstable();
        Ok(names)
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

    /// What no other group has, not even a later one of the same name.
    pub fn identity(&self) -> std::result::Result<Identity, Errno> {
        rustix::fs::fstat(&self.dir).map(|stat| (stat.st_dev, stat.st_ino))
    }

    pub fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.dir, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether this very group is still what its path leads to.
    pub fn is_alive(&self, tree: &Tree) -> bool {
        self.identity().is_ok_and(|own| tree.is_still(&self.path, own))
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
        rustix::fs::mkdirat(&self.dir, &*name::to_bytes(name), Mode::from_raw_mode(0o755))
            .map_err(|e| Error::io(format!("making {}/{name}", display(&self.path)), e))?;
        self.child(name).ok_or_else(|| gone(name))
    }

    pub fn remove_child(&self, name: &str) -> std::result::Result<(), Errno> {
        rustix::fs::unlinkat(&self.dir, &*name::to_bytes(name), rustix::fs::AtFlags::REMOVEDIR)
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
        assert!(normalise("a\0b").is_err());
        assert_eq!(parent("a/b"), Some("a"));
        assert_eq!(parent("a"), Some(""));
        assert_eq!(parent(""), None);
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a/b", "a"]);
        assert_eq!(ancestors("a").count(), 0);
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
    fn paths_longer_than_the_kernel_takes_at_once() {
        let dir = crate::testing::TempDir::new();
        dir.group("");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let mut group = tree.open("").unwrap();
        for i in 0..30 {
            group = group.make_child(&format!("{i}{}", "x".repeat(200))).unwrap();
        }
        assert!(group.path.len() > 6000 && tree.open(&group.path).unwrap().is_alive(&tree));
        let mut deepest = String::new();
        tree.walk("", &mut |group| deepest = group.path.clone()).unwrap();
        assert_eq!(deepest, group.path);
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
    }
}
