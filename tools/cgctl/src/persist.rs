// SPDX-License-Identifier: GPL-2.0-only
//! Keeping a unit's settings: a drop-in that cgctl.service applies at every start.

use std::path::{Path, PathBuf};

use crate::dbus::Systemd;
use crate::error::{Error, Result};
use crate::hint::Request;
use crate::setting::{Key, Settings};
use crate::tree::{base, Host};
use crate::unit;

const FILE: &str = "50-cgctl.conf";

/// A drop-in that is about to be written.
#[derive(Debug)]
pub struct Dropin {
    pub unit: String,
    /// As the host sees it.
    pub path: String,
    pub text: String,
    target: PathBuf,
    /// What was there before.
    old: Option<String>,
}

impl Dropin {
    /// Plan it; nothing is written yet. The hint has to be in full: an edit would depend on what was before.
    pub fn plan(host: &Host, group: &str, settings: &Settings, runtime: bool) -> Result<Dropin> {
        let unit = unit::from_cgroup_name(base(group)).ok_or_else(|| Error::invalid(format!(
            "/{group} is no systemd unit, so there is nothing to keep it in; put it into a policy and 'cgctl apply' it")))?;
        if group.split('/').any(|part| part.starts_with("user@") && part.ends_with(".service") && part != base(group)) {
            return Err(Error::invalid(format!("{unit} belongs to a user's own systemd, which cgctl.service does not \
                                               follow; use ExecStartPre=cgctl set self ... in the unit")));
        }
        if settings.get(&Key::Hint).is_some_and(|hint| Request::is_edit(hint)) {
            return Err(Error::invalid("hint: what is kept has to be in full, not +word or -word"));
        }
        let base = if runtime { "/run/systemd/system" } else { "/etc/systemd/system" };
        let path = format!("{base}/{unit}.d/{FILE}");
        let target = host.path(&path);
        let old = match std::fs::read_to_string(&target) {
            Ok(old) => Some(old),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io(&path, e)),
        };
        let weighted = unit::Finder::new(host).has_weight(unit, Path::new(&path));
        let text = unit::edit_dropin(old.as_deref().unwrap_or_default(), unit, settings, weighted)?;
        Ok(Dropin { unit: unit.into(), text, path, target, old })
    }

    /// Write it, whole or not at all.
    pub fn write(&self) -> Result<()> {
        let dir = self.target.parent().expect("a drop-in is in a directory");
        std::fs::create_dir_all(dir).map_err(|e| Error::io(&self.path, e))?;
        // The name must not end in .conf until the content is there.
        let new = dir.join(format!(".{FILE}.{}", std::process::id()));
        std::fs::write(&new, &self.text).and_then(|()| std::fs::rename(&new, &self.target)).map_err(|e| {
            let _ = std::fs::remove_file(&new);
            Error::io(&self.path, e)
        })
    }

    /// Put back what was there before; what it belongs to has failed.
    pub fn undo(&self) {
        let _ = match &self.old {
            Some(old) => std::fs::write(&self.target, old),
            None => std::fs::remove_file(&self.target).and_then(|()| {
                // Ours only if nothing else is in it.
                std::fs::remove_dir(self.target.parent().expect("a drop-in is in a directory"))
            }),
        };
    }
}

/// Have systemd read its files anew.
pub fn reload(host: &Host) -> Result<()> {
    if host.is_live() {
        Systemd::connect(false)?.reload().map_err(|e| e.about("the drop-in is written, but"))?;
    }
    Ok(())
}

/// Whether the daemon that applies drop-ins runs.
pub fn daemon_runs(host: &Host) -> bool {
    host.open_tree().and_then(|tree| tree.open("system.slice/cgctl.service")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::parse_assignments;
    use crate::testing::TempDir;

    #[test]
    fn written_and_added_to() {
        let dir = TempDir::new();
        let host = Host::new(Some(dir.path()));
        let settings = |words: &[&str]| parse_assignments(words).unwrap();
        let dropin = Dropin::plan(&host, "system.slice/a.service", &settings(&["hint=pack"]), false).unwrap();
        assert_eq!(dropin.path, "/etc/systemd/system/a.service.d/50-cgctl.conf");
        dropin.write().unwrap();
        Dropin::plan(&host, "system.slice/a.service", &settings(&["headroom=3"]), false).unwrap().write().unwrap();
        let text = dir.read("etc/systemd/system/a.service.d/50-cgctl.conf");
        assert!(text.contains("X-CPUHint=pack\nX-CPUHeadroom=3.00\n"), "{text}");
        let found = unit::Finder::new(&host).properties("a.service", &[]);
        assert_eq!(found.values.len(), 2);
        assert!(found.complaints.is_empty());
        let dropin = Dropin::plan(&host, "b.slice", &settings(&["gang=1"]), true).unwrap();
        dropin.write().unwrap();
        dropin.undo();
        assert!(!dir.path().join("run/systemd/system/b.slice.d").exists());
    }

    #[test]
    fn weight_of_the_unit_stays() {
        let dir = TempDir::new();
        let host = Host::new(Some(dir.path()));
        let settings = parse_assignments(&["hint=pack"]).unwrap();
        let text = || Dropin::plan(&host, "system.slice/a.service", &settings, false).unwrap().text;
        assert!(text().contains("CPUWeight=100\n"));
        dir.file("etc/systemd/system/a.service", "[Service]\nCPUWeight=500\n");
        assert!(!text().contains("CPUWeight"));
        dir.file("etc/systemd/system/a.service.d/90.conf", "[Service]\nCPUWeight=\n");
        assert!(text().contains("CPUWeight=100\n"), "the last assignment takes it back");
        dir.file("etc/systemd/system/a.service.d/90.conf", "[Service]\nCPUWeight=idle\n");
        dir.file("etc/systemd/system/a.service.d/50-cgctl.conf", "[Service]\nCPUWeight=100\n");
        assert!(!text().contains("CPUWeight"), "what an earlier one wrote goes");
        dir.file("etc/systemd/system/a.service.d/50-cgctl.conf", "[Service]\nCPUWeight=70\n");
        assert!(text().contains("CPUWeight=70\n"), "but not what somebody set in it");
        let other = || Dropin::plan(&host, "system.slice/b.service", &settings, false).unwrap().text;
        dir.file("run/systemd/system.control/b.service.d/50-CPUWeight.conf", "[Service]\nCPUWeight=100\n");
        assert!(other().contains("CPUWeight=100\n"), "what is there until the next boot only");
        dir.file("etc/systemd/system/b.service", "[Service]\nCPUWeight=7\n");
        assert!(!other().contains("CPUWeight"));
        dir.file("etc/systemd/system/c.service", "[Service]\n");
        std::os::unix::fs::symlink("c.service", dir.path().join("etc/systemd/system/alias.service")).unwrap();
        dir.file("etc/systemd/system/alias.service.d/x.conf", "[Service]\nCPUWeight=7\n");
        let text = Dropin::plan(&host, "system.slice/c.service", &settings, false).unwrap().text;
        assert!(!text.contains("CPUWeight"), "a drop-in of an alias counts");
    }

    #[test]
    fn refused() {
        let dir = TempDir::new();
        let host = Host::new(Some(dir.path()));
        let settings = parse_assignments(&["hint=+pack"]).unwrap();
        assert!(Dropin::plan(&host, "a", &settings, false).unwrap_err().message.contains("no systemd unit"));
        assert!(Dropin::plan(&host, "a.service", &settings, false).unwrap_err().message.contains("in full"));
        let user = "user.slice/user@1.service/app.slice/a.service";
        assert!(Dropin::plan(&host, user, &settings, false).unwrap_err().message.contains("user's own systemd"));
    }
}
