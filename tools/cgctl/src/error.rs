// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, and the exit status that says so.

use std::fmt;

use rustix::io::Errno;

/// The classes of failure that a script may want to tell apart; the number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The system refused, or something broke on the way.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A value, a property or a policy file is wrong; nothing was written.
    Invalid = 3,
    /// The group, unit, process or container does not exist, or went away.
    NotFound = 4,
    /// This kernel, or the group's controllers, lack a file.
    Unsupported = 5,
    /// It is there, but not for this user.
    Permission = 6,
}

/// An error for people to read.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// What the system said about doing `what`.
    pub fn io(what: impl fmt::Display, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => Kind::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => Kind::Permission,
            _ => Kind::Failed,
        };
        // Without "(os error 2)", which helps nobody.
        let mut text = error.to_string();
        if matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::MFILE)) {
            text = "the limit of open files (ulimit -n) is too low".into();
        }
        Self::new(kind, format!("{what}: {}", text.split(" (os error").next().unwrap_or(&text)))
    }

    /// The same error, with what it was about in front.
    pub fn about(self, what: impl fmt::Display) -> Self {
        Error { kind: self.kind, message: format!("{what}: {}", self.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
