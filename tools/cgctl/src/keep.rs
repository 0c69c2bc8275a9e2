// SPDX-License-Identifier: GPL-2.0-only
//! Having systemd keep the cpu controller of units.
//!
//! systemd enables the controller for units that it knows to need it, and disables it for others with the next change
//! beside them; what was set goes with the files. So enabling it is not enough: systemd has to know.

use std::collections::BTreeSet;

use crate::dbus::Systemd;
use crate::error::{Kind, Result};
use crate::tree::{Host, Tree};
use crate::unit;

/// Units that need the controller, although nothing says so to systemd; after commit(), those that it was told of.
#[derive(Default)]
pub struct Keep {
    systemd: Option<Systemd>,
    pub units: Vec<String>,
}

impl Keep {
    /// Which units that takes, for some groups; nothing is changed yet. Groups of no unit need none.
    pub fn plan<'a>(host: &Host, tree: &Tree, groups: impl Iterator<Item = &'a str>) -> Result<Keep> {
        let groups: Vec<String> = groups.filter_map(|path| tree.in_manager(path)).collect();
        let units: BTreeSet<&str> = groups.iter().filter_map(|path| unit::owner(path)).collect();
        if units.is_empty() || !host.is_live() {
            return Ok(Keep::default());
        }
        let systemd = Systemd::connect(false)?;
        let mut keep = Keep::default();
        for unit in units {
            if systemd.lacks_weight(unit)? {
                keep.units.push(unit.to_string());
            }
        }
        keep.systemd = Some(systemd);
        Ok(keep)
    }

    /// Tell systemd, which enables the controller before it answers.
    pub fn commit(&mut self) -> Result<()> {
        let Some(systemd) = &self.systemd else { return Ok(()) };
        let mut told = Vec::new();
        let mut result = Ok(());
        for unit in std::mem::take(&mut self.units) {
            match systemd.keep_cpu(&unit) {
                Ok(true) => told.push(unit),
                // It has ended, or got a weight of its own meanwhile.
                Ok(false) => (),
                // Whoever may write the files without being root has them by delegation, which keeps the controller.
                Err(error) if error.kind == Kind::Permission => (),
                Err(error) => result = Err(error),
            }
        }
        self.units = told;
        result
    }

    /// What it was for has failed.
    pub fn undo(&self) {
        let Some(systemd) = &self.systemd else { return };
        for unit in self.units.iter().filter(|unit| systemd.forget_weight(unit).is_ok()) {
            forget_files(unit);
        }
    }
}

/// systemd takes a weight back by an empty assignment, which would take back, too, what the unit's own file says later.
fn forget_files(unit: &str) {
    for place in ["/run/systemd/system.control", "/run/systemd/transient"] {
        let file = format!("{place}/{unit}.d/50-CPUWeight.conf");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        if unit::parse_file(&text).iter().all(|line| line.key == "CPUWeight" && line.value.is_empty()) {
            let _ = std::fs::remove_file(file);
        }
    }
}
