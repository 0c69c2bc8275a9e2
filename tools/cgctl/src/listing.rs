// SPDX-License-Identifier: GPL-2.0-only
//! What is in the directories of unit files, kept in memory for as long as they do not change.
//!
//! After a daemon-reload the files of each unit of the machine are looked for, in a dozen directories and under several
//! names; hardly any of them is there. Asked of the kernel one by one, that takes so much of a CPU that a unit that
//! starts meanwhile has to wait until others have had theirs. Here a directory is read once, and again when its time of
//! modification is another one, which is how systemd sees that its own cache of them is old.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Which directory it was, and when it was modified, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    modified: i128,
}

impl Stamp {
    fn of(dir: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(dir).ok()?;
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Some(Stamp { device: meta.dev(), inode: meta.ino(), modified })
    }

    /// Whether a later change is sure to have another time. File systems count in ticks of the kernel, at most 10 ms,
    /// and some in seconds.
    fn tells(&self, now: SystemTime) -> bool {
        let coarse = self.modified % 1_000_000_000 == 0;
        let grain = if coarse { Duration::from_secs(2) } else { Duration::from_millis(20) };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        now - self.modified >= grain.as_nanos() as i128
    }
}

/// What a name in a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File,
    Directory,
    /// And where the link leads, as it stands there.
    Link(PathBuf),
}

/// A directory: the names in it, and what they are.
#[derive(Debug, Default)]
pub struct Listing {
    stamp: Option<Stamp>,
    pub names: HashMap<String, Entry>,
    /// Why it could not be read, where it is there.
    pub error: Option<ErrorKind>,
}

impl Listing {
    /// What is not UTF-8 is no name of a unit.
    fn read(dir: &Path) -> std::io::Result<HashMap<String, Entry>> {
        Ok(std::fs::read_dir(dir)?.flatten().filter_map(|entry| {
            let kind = entry.file_type().ok()?;
            let what = if kind.is_symlink() {
                Entry::Link(std::fs::read_link(entry.path()).ok()?)
            } else if kind.is_dir() {
                Entry::Directory
            } else if kind.is_file() {
                Entry::File
            } else {
                return None;
            };
            Some((entry.file_name().into_string().ok()?, what))
        }).collect())
    }

    /// Read the directory if it may have changed. Returns whether it was read.
    pub fn refresh(&mut self, dir: &Path, now: SystemTime) -> bool {
        // Before the names, so that a change in between is seen the next time.
        let stamp = Stamp::of(dir);
        if stamp.is_some() && stamp == self.stamp {
            return false;
        }
        let found = if stamp.is_some() { Listing::read(dir) } else { Ok(HashMap::new()) };
        self.error = found.as_ref().err().map(std::io::Error::kind);
        self.names = found.unwrap_or_default();
        self.stamp = stamp.filter(|stamp| stamp.tells(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    const SOON: Duration = Duration::from_millis(10);
    const LATER: Duration = Duration::from_secs(3);

    #[test]
    fn is_read_again_when_it_may_have_changed() {
        let dir = TempDir::new();
        let units = dir.path().join("units");
        let mut listing = Listing::default();
        listing.refresh(&units, SystemTime::now());
        assert!(listing.names.is_empty());

        dir.file("units/a.service", "");
        std::os::unix::fs::symlink("../x/b.service", units.join("c.service")).unwrap();
        assert!(listing.refresh(&units, SystemTime::now() + LATER), "it was made");
        assert_eq!(listing.names["a.service"], Entry::File);
        assert_eq!(listing.names["c.service"], Entry::Link("../x/b.service".into()));
        assert!(!listing.refresh(&units, SystemTime::now() + LATER), "nothing changed");

        std::thread::sleep(2 * SOON);
        std::fs::rename(units.join("a.service"), units.join("d.service")).unwrap();
        assert!(listing.refresh(&units, SystemTime::now() + LATER));
        assert!(listing.names.contains_key("d.service") && !listing.names.contains_key("a.service"));

        std::fs::remove_dir_all(&units).unwrap();
        listing.refresh(&units, SystemTime::now() + LATER);
        assert!(listing.names.is_empty());
    }

    /// Two changes within the time that a file system distinguishes have the same stamp.
    #[test]
    fn is_read_again_while_its_time_says_nothing() {
        let dir = TempDir::new();
        dir.file("units/a.service", "");
        let units = dir.path().join("units");
        let mut listing = Listing::default();
        let modified = std::fs::metadata(&units).unwrap().modified().unwrap();
        assert!(listing.refresh(&units, modified + SOON));
        assert!(listing.refresh(&units, modified + SOON));
        let whole = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        std::fs::File::open(&units).unwrap().set_modified(whole).unwrap();
        assert!(listing.refresh(&units, whole + Duration::from_secs(1)), "seconds only");
        assert!(listing.refresh(&units, whole + LATER));
        assert!(!listing.refresh(&units, whole + LATER));
        // A clock that was set back
        assert!(!Stamp::of(&units).unwrap().tells(whole - LATER));
    }

    #[test]
    fn another_directory_of_the_same_name() {
        let dir = TempDir::new();
        dir.file("units/a.service", "");
        dir.file("other/b.service", "");
        let (units, other) = (dir.path().join("units"), dir.path().join("other"));
        let mut listing = Listing::default();
        listing.refresh(&units, SystemTime::now() + LATER);
        let modified = std::fs::metadata(&units).unwrap().modified().unwrap();
        std::fs::remove_dir_all(&units).unwrap();
        std::fs::rename(&other, &units).unwrap();
        std::fs::File::open(&units).unwrap().set_modified(modified).unwrap();
        assert!(listing.refresh(&units, SystemTime::now() + LATER));
        assert!(listing.names.contains_key("b.service"));
    }
}
