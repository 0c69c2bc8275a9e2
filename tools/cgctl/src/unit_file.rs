// SPDX-License-Identifier: GPL-2.0-only
//! Reading one unit file as systemd does (config_parse() in its src/shared/conf-parser.c).
//!
//! What is read here is bytes, since files are: what is a line, blank or valid is systemd's to say, not Rust's. Two
//! kinds of mistakes end a file, and nothing after them counts: a section header with something after it or with
//! characters that have no place there, and a line that is not UTF-8. All others cost one line.
//!
//! tests/unit_files.rs compares all of this with systemd's own reader.

/// A line, or one that is continued, may have so many bytes less one (LONG_LINE_MAX in systemd).
const LINE_LIMIT: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One "key=value" of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The section it stands in; empty where there is none.
    pub section: String,
    pub key: String,
    pub value: String,
    /// Its first line in the file, from 1, and its last, which is another one where it is continued. systemd's own
    /// messages name the last.
    pub line: usize,
    pub end: usize,
}

/// Where and why a file is not read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    pub line: usize,
    pub reason: String,
    /// The first line, from there on, in which a property of ours stands.
    pub hides: Option<usize>,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFile {
    pub assignments: Vec<Assignment>,
    pub broken: Option<Break>,
}

/// The assignments of a file, as far as systemd reads it.
pub fn parse_file(text: impl AsRef<[u8]>) -> Vec<Assignment> {
    UnitFile::parse(text.as_ref()).assignments
}

fn is_end(byte: &u8) -> bool {
    b"\n\r\0".contains(byte)
}

/// The lines of a file, with their ends, as systemd takes them: each of "\n", "\r" and NUL ends one, and so does a run of
/// different ones together.
pub fn lines_with_ends(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        let mut end = length;
        while rest.get(end).is_some_and(|byte| is_end(byte) && !rest[length..end].contains(byte))
            && !rest[length..end].contains(&0) {
            end += 1;
        }
        let (line, behind) = rest.split_at(end);
        rest = behind;
        Some(line)
    })
}

/// A line without its end.
pub fn without_end(line: &[u8]) -> &[u8] {
    &line[..line.iter().position(is_end).unwrap_or(line.len())]
}

fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines_with_ends(bytes).map(without_end)
}

fn is_blank(byte: &u8) -> bool {
    b" \t\n\r".contains(byte)
}

/// Without blanks around. Only ASCII's are blanks, and not all of these.
fn strip(text: &[u8]) -> &[u8] {
    let Some(first) = text.iter().position(|byte| !is_blank(byte)) else { return &[] };
    let last = text.iter().rposition(|byte| !is_blank(byte)).expect("there is one that is not blank");
    &text[first..=last]
}

/// UTF-8 without the code points that are not for interchange.
fn as_text(line: &[u8]) -> Option<&str> {
    let is_noncharacter = |c: char| (0xfdd0..=0xfdef).contains(&(c as u32)) || c as u32 & 0xfffe == 0xfffe;
    std::str::from_utf8(line).ok().filter(|text| !text.contains(is_noncharacter))
}

/// The name in a section's header.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    let is_bad = |c: char| c < ' ' || c == '\x7f' || "\"'\\".contains(c);
    (!name.contains(is_bad)).then_some(name)
}

/// How much of a line a message shows.
fn excerpt(line: &str) -> String {
    const MOST: usize = 60;
    let short: String = line.chars().take(MOST).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

impl UnitFile {
    pub fn parse(bytes: &[u8]) -> UnitFile {
        let mut file = UnitFile::default();
        let mut section = String::new();
        let mut mark_seen = false;
        // What a continued line has so far, and where it began.
        let mut continued: Option<(Vec<u8>, usize)> = None;
        let mut last = 0;
        for (index, raw) in split_lines(bytes).enumerate() {
            last = index + 1;
            if raw.len() >= LINE_LIMIT {
                return file.break_off(last, "the line is too long", bytes);
            }
            // A comment amid continued lines is left out, and the line goes on.
            if raw.iter().find(|byte| !is_blank(byte)).is_some_and(|byte| b"#;".contains(byte)) {
                continue;
            }
            // A byte order mark counts for nothing, once, at the beginning of any line.
            let raw = match raw.strip_prefix(BYTE_ORDER_MARK) {
                Some(rest) if !std::mem::replace(&mut mark_seen, true) => rest,
                _ => raw,
            };
            let (mut line, first) = continued.take().unwrap_or((Vec::new(), last));
            if line.len() + raw.len() > LINE_LIMIT {
                return file.break_off(last, "the continued line is too long", bytes);
            }
            line.extend_from_slice(raw);
            // Of backslashes each escapes the next; the last one, if nothing does so to it, continues the line.
            if line.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1 {
                *line.last_mut().expect("a backslash") = b' ';
                continued = Some((line, first));
            } else if let Err(reason) = file.take(&line, &mut section, first, last) {
                return file.break_off(last, &reason, bytes);
            }
        }
        // The end of the file ends a continued line as well.
        if let Some((line, first)) = continued {
            if let Err(reason) = file.take(&line, &mut section, first, last) {
                return file.break_off(last, &reason, bytes);
            }
        }
        file
    }

    /// Take up a whole line; an error ends the file.
    fn take(&mut self, line: &[u8], section: &mut String, first: usize, last: usize) -> Result<(), String> {
        let line = strip(line);
        let line = as_text(line).ok_or_else(|| format!("'{}' is not UTF-8", excerpt(&String::from_utf8_lossy(line))))?;
        if line.starts_with('[') {
            *section = header(line).ok_or_else(|| format!("'{}' is no section header", excerpt(line)))?.to_string();
        } else if let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.is_empty()) {
            let own = |text: &str| as_text(strip(text.as_bytes())).expect("part of a text").to_string();
            self.assignments.push(Assignment {
                section: section.clone(), key: own(key), value: own(value), line: first, end: last,
            });
        }
        Ok(())
    }

    fn break_off(mut self, line: usize, reason: &str, bytes: &[u8]) -> UnitFile {
        let is_ours = |raw: &[u8]| raw.windows(5).any(|part| part == b"X-CPU");
        let hides = split_lines(bytes).enumerate().skip(line - 1).find(|(_, raw)| is_ours(raw)).map(|(index, _)| index + 1);
        self.broken = Some(Break { line, reason: reason.into(), hides });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &[u8]) -> Vec<(String, String, usize, usize)> {
        parse_file(text).into_iter().map(|a| (a.key, a.value, a.line, a.end)).collect()
    }

    fn one(key: &str, value: &str, line: usize, end: usize) -> (String, String, usize, usize) {
        (key.into(), value.into(), line, end)
    }

    #[test]
    fn comments_sections_and_continued_lines() {
        let text = "# c\n; c\n[Service]\nExecStart=/bin/a \\\n# inside\n  b\nX-CPUHint = pack \n\n[Install]\nx\nA=b=c\n=d\nZ=\\";
        let found = parse_file(text);
        let short: Vec<_> = found.iter().map(|a| (a.section.as_str(), a.key.as_str(), a.value.as_str(), a.line, a.end)).collect();
        assert_eq!(short, [("Service", "ExecStart", "/bin/a    b", 4, 6), ("Service", "X-CPUHint", "pack", 7, 7),
                           ("Install", "A", "b=c", 11, 11), ("Install", "Z", "", 13, 13)]);
        assert_eq!(values(b"A=b\\\\\nB=c\\\n\nC=d"), [one("A", "b\\\\", 1, 1), one("B", "c", 2, 3), one("C", "d", 4, 4)]);
    }

    #[test]
    fn ends_of_lines() {
        assert_eq!(values(b"A=1\r\nB=2\rC=3\0D=4\n\rE=5\r\rF=6\n"), [one("A", "1", 1, 1), one("B", "2", 2, 2), one("C", "3", 3, 3),
            one("D", "4", 4, 4), one("E", "5", 5, 5), one("F", "6", 7, 7)]);
        assert_eq!(values("A=\u{a0}1\x0b\t\n".as_bytes()), [one("A", "\u{a0}1\x0b", 1, 1)]);
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let found = parse_file(b"\xef\xbb\xbf[Service]\nA=1\n");
        assert_eq!((found[0].section.as_str(), found[0].key.as_str()), ("Service", "A"));
        assert_eq!(values(b"A=1\n\xef\xbb\xbfB=2\n\xef\xbb\xbfC=3"), [one("A", "1", 1, 1), one("B", "2", 2, 2),
                   one("\u{feff}C", "3", 3, 3)]);
    }

    #[test]
    fn what_ends_a_file() {
        for (bad, reason) in [(&b"[Service] # mine"[..], "'[Service] # mine' is no section header"),
                              (b"[Ser'vice]", "is no section header"), (b"[", "is no section header"),
                              (b"B=\xff", "is not UTF-8"), ("B=\u{fdd0}".as_bytes(), "is not UTF-8")] {
            let text = [b"[Service]\nA=1\n", bad, b"\nC=3\nX-CPUHint=pack\n"].concat();
            let file = UnitFile::parse(&text);
            assert_eq!(file.assignments.len(), 1, "{bad:?}");
            let broken = file.broken.unwrap();
            assert_eq!((broken.line, broken.hides), (3, Some(5)), "{bad:?}");
            assert!(broken.reason.contains(reason), "{}", broken.reason);
        }
        assert_eq!(parse_file(b"#\xff\n;\xff\nA=1").len(), 1, "in a comment it is nobody's business");
        let file = UnitFile::parse(&[b"A=1\nB=".to_vec(), vec![b'x'; LINE_LIMIT], b"\nC=1\n".to_vec()].concat());
        assert_eq!((file.assignments.len(), file.broken.unwrap().hides), (1, None));
    }

    proptest! {
        #[test]
        fn any_file(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let lines = split_lines(&text).count();
            for assignment in parse_file(&text) {
                prop_assert!(assignment.line >= 1 && assignment.line <= assignment.end && assignment.end <= lines);
                prop_assert!(!assignment.value.contains('\n'));
            }
        }
    }
}
