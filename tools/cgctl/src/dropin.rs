// SPDX-License-Identifier: GPL-2.0-only
//! Changing a drop-in: the lines of our properties, and nothing else of it.
//!
//! A file of cgctl's may have been added to by somebody: other properties, comments, bytes that are not UTF-8. All of
//! that stays as it is, byte for byte. Files are read by the same rules as everywhere else (unit.rs).

use std::ops::RangeInclusive;

use crate::setting::{Key, Settings};
use crate::unit::{parse_file, Assignment};
use crate::unit_file::{lines_with_ends, without_end};

/// How the header begins, by which it is found again.
const WRITTEN: &str = "# Written by cgctl set";
const HEADER: &str = "\
# Written by cgctl set: the lines with X-CPU are its own, and it changes no others.
# To take them back, remove them, then: systemctl daemon-reload
";
/// What earlier versions added to have systemd enable the controller. It stood above what other files say.
const OLD_WEIGHT: &str = "# A weight, if only the default one, makes systemd enable the cpu controller.\nCPUWeight=100\n";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn parse(text: &[u8]) -> Vec<Assignment> {
    // What is not UTF-8 is replaced, which moves no line.
    parse_file(String::from_utf8_lossy(text).as_bytes())
}

/// Lines with their ends.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    lines_with_ends(text).collect()
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'#' | b';'))
}

fn line_end(line: &[u8]) -> &[u8] {
    &line[without_end(line).len()..]
}

/// Put another line, or none, in place of those of an assignment (the first is 1). Comments amid them stay.
fn replace(text: &[u8], span: RangeInclusive<usize>, new: &[u8]) -> Vec<u8> {
    let lines = lines(text);
    let (from, to) = (span.start() - 1, (*span.end()).min(lines.len()));
    let comments: Vec<&[u8]> = lines[from..to].iter().skip(1).copied().filter(|line| is_comment(line)).collect();
    let end = line_end(lines[if comments.is_empty() { to - 1 } else { from }]);
    let new = if new.is_empty() { Vec::new() } else { [new, end].concat() };
    [lines[..from].concat(), new, comments.concat(), lines[to..].concat()].concat()
}

/// Put a line behind another (0: in front of all).
fn insert(text: &[u8], after: usize, new: &[u8]) -> Vec<u8> {
    let lines = lines(text);
    let before = after.min(lines.len()).checked_sub(1).map_or(&b""[..], |line| line_end(lines[line]));
    let end = if before.is_empty() { b"\n" } else { before };
    if after < lines.len() {
        return [lines[..after].concat().as_slice(), new, end, &lines[after..].concat()].concat();
    }
    let mut text = text.to_vec();
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    // A last line that ends in a backslash would take in what comes behind; an empty one ends it.
    const PROBE: &[u8] = b"[X]\nX=1\n";
    if parse(&[&text, PROBE].concat()).last().is_none_or(|last| last.section != "X") {
        text.push(b'\n');
    }
    [&text, new, end].concat()
}

/// Where a property is given its value: the last assignment in the section counts.
fn set(text: Vec<u8>, section: &str, key: Key, value: &str) -> Vec<u8> {
    let found = parse(&text);
    let ours = |assignment: &&Assignment| assignment.section == section;
    let new = format!("{}={value}", key.property());
    if let Some(last) = found.iter().filter(ours).rfind(|assignment| assignment.key == key.property()) {
        let same = key.parse(&last.value).is_ok_and(|now| now == value);
        return if same { text } else { replace(&text, last.line..=last.end, new.as_bytes()) };
    }
    let beside = found.iter().filter(ours).rfind(|assignment| assignment.key.starts_with("X-CPU"))
        .or_else(|| found.iter().rfind(ours));
    match beside {
        Some(beside) => insert(&text, beside.end, new.as_bytes()),
        None => {
            let space = if found.is_empty() { "" } else { "\n" };
            insert(&text, usize::MAX, format!("{space}[{section}]\n{new}").as_bytes())
        }
    }
}

/// A drop-in with new values in it; all else in it stays.
pub fn edit(old: &[u8], section: &str, settings: &Settings) -> Vec<u8> {
    let mut text = old.to_vec();
    if let Some(at) = text.windows(OLD_WEIGHT.len()).position(|part| part == OLD_WEIGHT.as_bytes()) {
        text.drain(at..at + OLD_WEIGHT.len());
    }
    // Behind a byte order mark it would be no comment.
    if !lines(&text).iter().any(|line| line.starts_with(WRITTEN.as_bytes())) && !text.starts_with(BYTE_ORDER_MARK) {
        text.splice(0..0, HEADER.bytes());
    }
    settings.iter().fold(text, |text, (key, value)| set(text, section, *key, value))
}

/// A drop-in without values for some keys; None if nothing is left in it but what cgctl wrote.
pub fn without(old: &[u8], section: &str, keys: &[Key]) -> Option<Vec<u8>> {
    let mut text = old.to_vec();
    let ours = |assignment: &Assignment| assignment.section == section
        && keys.iter().any(|key| key.property() == assignment.key);
    while let Some(assignment) = parse(&text).into_iter().rfind(ours) {
        text = replace(&text, assignment.line..=assignment.end, b"");
    }
    let header = lines(HEADER.as_bytes());
    let own = |line: &&[u8]| header.contains(line) || line.trim_ascii().is_empty()
        || line.trim_ascii() == format!("[{section}]").as_bytes();
    (!lines(&text).iter().all(own)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::parse_assignments;
    use proptest::prelude::*;

    fn edited(old: &str, words: &[&str]) -> String {
        String::from_utf8(edit(old.as_bytes(), "Service", &parse_assignments(words).unwrap())).unwrap()
    }

    #[test]
    fn a_new_file_says_who_writes_it() {
        assert_eq!(edited("", &["hint=pack", "headroom=3"]),
                   format!("{HEADER}[Service]\nX-CPUHint=pack\nX-CPUHeadroom=3.00\n"));
    }

    #[test]
    fn what_is_not_ours_stays_byte_for_byte() {
        let old = "# mine\n[Unit]\nAfter=x\n\n[Service]\nMemoryMax=200M\n Nice = 5 \nX-CPUHint=pack\n; end\n\n\
                   [Install]\nA=b";
        assert_eq!(edited(old, &["headroom=3"]),
                   HEADER.to_owned() + &old.replace("=pack\n", "=pack\nX-CPUHeadroom=3.00\n"));
        assert_eq!(edited(old, &["hint=energy"]), HEADER.to_owned() + &old.replace("=pack", "=energy"));
        assert_eq!(edited("[Service]\r\nNice=5\r\nX-CPUHint=pack\r\n", &["hint=energy", "gang=1"]),
                   format!("{HEADER}[Service]\r\nNice=5\r\nX-CPUHint=energy\r\nX-CPUGang=1\r\n"));
        let bytes = edit(b"[Service]\n# \xff\nEnvironment=A=\xfe\n", "Service", &parse_assignments(&["gang=1"]).unwrap());
        assert_eq!(bytes, [HEADER.as_bytes(), b"[Service]\n# \xff\nEnvironment=A=\xfe\nX-CPUGang=1\n"].concat());
        let marked = "\u{feff}[Service]\nNice=5\n";
        let new = edited(marked, &["gang=1"]);
        assert!(new.starts_with(marked) && new.ends_with("X-CPUGang=1\n"), "{new}");
    }

    #[test]
    fn nothing_changes_where_it_says_so_already() {
        let once = edited("[Service]\nX-CPUHint = wake_hold,pack\n", &["gang=1"]);
        assert_eq!(edited(&once, &["hint=pack,wake_hold", "gang=yes"]), once);
    }

    #[test]
    fn the_last_assignment_is_the_one_that_is_changed() {
        let head = format!("{HEADER}[Service]\nX-CPUHint=pack\n");
        assert_eq!(edited(&format!("{head}X-CPUHint=\n"), &["hint=energy"]), format!("{head}X-CPUHint=energy\n"));
        // In another section it counts for nothing.
        assert_eq!(edited(&format!("{HEADER}[Unit]\nX-CPUHint=pack\n"), &["hint=energy"]),
                   format!("{HEADER}[Unit]\nX-CPUHint=pack\n\n[Service]\nX-CPUHint=energy\n"));
    }

    #[test]
    fn continued_lines() {
        assert_eq!(edited(&format!("{HEADER}[Service]\nX-CPUHint=pack \\\n# why\n wake_hold\nNice=1\n"), &["hint=energy"]),
                   format!("{HEADER}[Service]\nX-CPUHint=energy\n# why\nNice=1\n"));
        let open = format!("{HEADER}[Service]\nExecStart=a \\");
        assert_eq!(edited(&open, &["hint=energy"]), format!("{open}\n\nX-CPUHint=energy\n"));
        let open = format!("{HEADER}[Service]\nX-CPUHint=pack\n[Install]\nA=\\\n# x\n");
        assert_eq!(edited(&open, &["hint=energy"]), open.replace("pack", "energy"));
    }

    #[test]
    fn the_weight_that_earlier_versions_wrote_goes() {
        let old = format!("# Written by cgctl set. Old.\n[Service]\n{OLD_WEIGHT}X-CPUHint=pack\n");
        assert_eq!(edited(&old, &["gang=1"]), "# Written by cgctl set. Old.\n[Service]\nX-CPUHint=pack\nX-CPUGang=1\n");
        let own = format!("{HEADER}[Service]\nCPUWeight=100\nX-CPUHint=pack\n");
        assert_eq!(edited(&own, &["hint=pack"]), own, "but not what somebody set in it");
    }

    #[test]
    fn taken_out() {
        let text = edited("", &["hint=pack", "gang=1"]);
        let without = |text: &str, keys: &[Key]| super::without(text.as_bytes(), "Service", keys)
            .map(|text| String::from_utf8(text).unwrap());
        assert_eq!(without(&text, &[Key::Hint]).unwrap(), format!("{HEADER}[Service]\nX-CPUGang=1\n"));
        assert_eq!(without(&text, &[Key::Hint, Key::Gang]), None, "nothing is left");
        let text = format!("{text}# a note\n");
        assert_eq!(without(&text, &[Key::Hint, Key::Gang]).unwrap(), format!("{HEADER}[Service]\n# a note\n"));
    }

    proptest! {
        /// Whatever is in the file: the new value is the last in its section, all other assignments and lines stay.
        #[test]
        fn any_file(text in
                    "(\\[(Unit|Service)\\]\n|X-CPU(Hint|Gang)=[a-z1]{0,4}|[A-Z]=[a-z]{0,3}|[#; ]|\\\\|\n|\r\n|\u{e4})*") {
            let new = edited(&text, &["hint=energy"]);
            let others = |text: &str| parse(text.as_bytes()).into_iter()
                .filter(|a| a.key != "X-CPUHint" || a.section != "Service")
                .map(|a| (a.section, a.key, a.value)).collect::<Vec<_>>();
            prop_assert_eq!(others(&new), others(&text));
            let hint = parse(new.as_bytes()).into_iter().rfind(|a| a.key == "X-CPUHint" && a.section == "Service");
            prop_assert_eq!(hint.map(|a| a.value), Some("energy".to_string()), "{}", new);
            for line in text.lines().filter(|line| is_comment(line.as_bytes())) {
                prop_assert!(new.contains(line), "{line:?} is gone: {new:?}");
            }
            prop_assert_eq!(edited(&new, &["hint=energy"]), new);
        }
    }
}
