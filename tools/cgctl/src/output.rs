// SPDX-License-Identifier: GPL-2.0-only
//! Standard output and standard error.
//!
//! What cannot be written is an error, as a full disk would otherwise leave half a policy behind that looks whole. Only
//! a closed pipe is none: the reader has seen enough. The standard library's own stdout will not do: what cannot be
//! written at the end, or to a descriptor that is not open for writing, is dropped without a word.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;

use crate::error::{Error, Result};

/// Standard output without a buffer.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::io::write(std::io::stdout().as_fd(), bytes)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What writing to standard output came to: whether there is still somebody who reads.
pub fn written(result: std::io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::failed(Error::io("standard output", error).message)),
    }
}

/// Print, as it is.
pub fn print(text: impl AsRef<[u8]>) -> Result<()> {
    written(Stdout.write_all(text.as_ref())).map(drop)
}

/// Say something to standard error; where that cannot be written there is nobody to tell.
pub fn note(text: impl Display) {
    let _ = std::io::stderr().write_all(format!("cgctl: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn only_a_closed_pipe_is_no_error() {
        assert!(written(Ok(())).unwrap());
        assert!(!written(Err(Errno::PIPE.into())).unwrap());
        for errno in [Errno::NOSPC, Errno::IO, Errno::BADF, Errno::ACCESS] {
            let error = written(Err(errno.into())).unwrap_err();
            assert_eq!(error.kind as u8, 1);
            assert!(error.message.starts_with("standard output: "), "{error}");
        }
    }
}
