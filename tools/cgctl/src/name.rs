// SPDX-License-Identifier: GPL-2.0-only
//! Names of groups as text, whatever bytes they have.
//!
//! The kernel takes nearly any bytes for a name; text, JSON and TOML are UTF-8. A byte that is not part of valid UTF-8
//! becomes one character, U+EF80 to U+EFFF for 0x80 to 0xFF, which are for private use. So that this can be told apart
//! from a name that has such a character itself, the bytes of that count as not valid, too. Every name has one text
//! then, and every text of a name leads back to the same bytes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const FIRST: u32 = 0xEF80;

fn for_byte(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte) - 0x80).expect("bytes from 0x80 have characters")
}

/// The byte that a character stands for.
pub fn byte_of(c: char) -> Option<u8> {
    (FIRST..FIRST + 0x80).contains(&u32::from(c)).then(|| (u32::from(c) - FIRST + 0x80) as u8)
}

pub fn from_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                Some(_) => text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(for_byte)),
                None => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(for_byte));
    }
    text
}

pub fn from_os(name: impl AsRef<OsStr>) -> String {
    from_bytes(name.as_ref().as_bytes())
}

pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// The one text of a name that somebody may have written in another way.
pub fn canonical(text: &str) -> String {
    from_bytes(&to_bytes(text))
}

/// For people: a byte that is not UTF-8, and what a terminal would take for a command, as \xHH.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => out += &format!("\\x{byte:02x}"),
            None if c.is_control() =>
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out += &format!("\\x{byte:02x}")),
            None => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_are_not_text() {
        assert_eq!(from_bytes(b"caf\xe9"), "caf\u{efe9}");
        assert_eq!(from_bytes("café".as_bytes()), "café");
        assert_eq!(from_bytes("\u{efe9}".as_bytes()), "\u{efee}\u{efbf}\u{efa9}", "a character that stands for a byte");
        assert_eq!(printable("caf\u{efe9}\n"), "caf\\xe9\\x0a");
        assert_eq!(canonical("\u{efc3}\u{efa9}"), "é");
    }

    proptest! {
        #[test]
        fn every_name_has_one_text(name in proptest::collection::vec(any::<u8>(), 0..24),
                                   text in "(\\PC|[\u{ef70}-\u{f010}])*") {
            let written = from_bytes(&name);
            prop_assert_eq!(&*to_bytes(&written), &name[..]);
            prop_assert_eq!(canonical(&written), written);
            let bytes = to_bytes(&text).into_owned();
            let again = from_bytes(&bytes);
            prop_assert_eq!(&*to_bytes(&again), &bytes[..]);
        }
    }
}
