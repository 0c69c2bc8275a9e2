// SPDX-License-Identifier: GPL-2.0-only
//! Messages about units: into the journal with the unit's name, so that 'systemctl status UNIT' shows them; without a
//! journal, to standard error.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::unit::Complaint;

const SOCKET: &str = "/run/systemd/journal/socket";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// A field in the journal's own format; text of several lines comes with its length.
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

fn send(priority: Priority, unit: &str, complaint: Option<&Complaint>, text: &str) -> std::io::Result<()> {
    let mut out = Vec::new();
    field(&mut out, "MESSAGE", text);
    field(&mut out, "PRIORITY", &(priority as u8).to_string());
    field(&mut out, "SYSLOG_IDENTIFIER", "cgctl");
    if !unit.is_empty() {
        field(&mut out, "OBJECT_SYSTEMD_UNIT", unit);
        field(&mut out, "UNIT", unit);
    }
    if let Some(complaint) = complaint {
        field(&mut out, "CONFIG_FILE", &complaint.origin.file.to_string_lossy());
        field(&mut out, "CONFIG_LINE", &complaint.origin.line.to_string());
    }
    UnixDatagram::unbound()?.send_to(&out, SOCKET)?;
    Ok(())
}

/// Say something about a unit, or, with no name, in general.
pub fn say(priority: Priority, unit: &str, text: &str) {
    log(priority, unit, None, text);
}

pub fn complain(unit: &str, complaint: &Complaint) {
    log(Priority::Warning, unit, Some(complaint), &format!("{unit}: {complaint}"));
}

fn log(priority: Priority, unit: &str, complaint: Option<&Complaint>, text: &str) {
    // Started by hand, it talks to whoever did; a service's words go to the journal with all that belongs to them.
    let service = std::env::var_os("JOURNAL_STREAM").is_some() && Path::new(SOCKET).exists();
    if !service || send(priority, unit, complaint, text).is_err() {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let mut out = Vec::new();
        field(&mut out, "A", "b");
        field(&mut out, "C", "d\ne");
        assert_eq!(out, b"A=b\nC\n\x03\0\0\0\0\0\0\0d\ne\n");
    }
}
