// SPDX-License-Identifier: GPL-2.0-only
//! What tests share: a directory that goes away with them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::name::to_bytes;

pub struct TempDir(PathBuf);

impl TempDir {
    #[allow(clippy::new_without_default)]
    pub fn new() -> TempDir {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("cgctl-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for the test");
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file with its directories; names are as names of groups.
    pub fn file(&self, name: &str, content: &str) {
        let path = self.0.join(OsStr::from_bytes(&to_bytes(name)));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, content).expect("a file of the test");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(OsStr::from_bytes(&to_bytes(name)))).unwrap_or_default()
    }

    /// A group as a kernel with all of the files has it.
    pub fn group(&self, path: &str) {
        for (file, content) in [
            ("cpu.hint", "inherit\n"), ("cpu.hint.effective", "none\n"), ("cpu.gang", "0\n"),
            ("cpu.gang.scope", "llc\n"), ("cpu.headroom", "0.00\n"), ("cpu.weight", "100\n"),
            ("cpu.headroom.stat", "demand 0.00\nidle 100.00\nbudget_usec max\nperiod_usec 100000\n"),
            ("cpu.stat", "usage_usec 0\n"), ("cgroup.events", "populated 1\nfrozen 0\n"), ("cgroup.procs", ""),
            ("cgroup.controllers", "cpu memory pids\n"), ("cgroup.subtree_control", "cpu\n"),
        ] {
            self.file(&format!("sys/fs/cgroup/{path}/{file}"), content);
        }
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
