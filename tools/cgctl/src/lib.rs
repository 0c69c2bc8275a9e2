// SPDX-License-Identifier: GPL-2.0-only
//! Show, set and keep the CPU policy files of cgroup v2: `cpu.hint`, `cpu.gang`, `cpu.headroom`.
//!
//! From the bottom up: `name` has names of any bytes as text, `mount` knows which part of the hierarchy is to be seen
//! where, `tree` opens groups and their files, `hint` and `setting` know values, `unit` knows units' names and
//! properties, `finder` finds their files and `unit_file` reads them, `state` reads a group and `why` explains it,
//! `reach` says whom a headroom binds, `target` finds a group by what somebody calls it (`container`: those of engines),
//! `set` and `policy` change groups (`quoting` helps with quotes in policies), `dropin` and `persist` keep what was set
//! for units, `dbus` speaks with systemd, `keep` has it keep the controller, and `watch`, `run`, `top`, `events`,
//! `doctor`, `show` are commands; `output` is what all of them print with, and `columns` knows how wide text is.
//! `topics` has what help and manual pages explain, and `manual` formats it.

pub mod cli;
pub mod columns;
pub mod container;
pub mod dbus;
pub mod doctor;
pub mod dropin;
pub mod error;
pub mod events;
pub mod finder;
pub mod hint;
pub mod journal;
pub mod keep;
pub mod listing;
pub mod manual;
pub mod mount;
pub mod name;
pub mod nearest;
pub mod persist;
pub mod output;
pub mod policy;
pub mod quoting;
pub mod reach;
pub mod run;
pub mod set;
pub mod setting;
pub mod show;
pub mod state;
pub mod target;
#[doc(hidden)]
pub mod testing;
pub mod top;
pub mod topics;
pub mod tree;
pub mod unit;
pub mod unit_file;
pub mod watch;
pub mod why;
