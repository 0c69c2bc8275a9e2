// SPDX-License-Identifier: GPL-2.0-only
//! How wide text is, how wide it may be, and what to leave out of names that are longer.
//!
//! Widths are columns of a terminal: a wide character takes two, a combining one none. What goes to a file or a pipe is
//! never shortened, because scripts read it.

use std::io::IsTerminal;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Help is not wider than this on any terminal: longer lines are hard to read.
const HELP_WIDTH: usize = 100;

pub fn width(text: &str) -> usize {
    text.width()
}

/// A width that somebody set; nothing that is no number, and no 0, which some programs export.
fn from_variable(text: Option<String>) -> Option<usize> {
    text?.parse().ok().filter(|columns| *columns > 0)
}

fn of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn variable() -> Option<usize> {
    from_variable(std::env::var("COLUMNS").ok())
}

/// Columns of the terminal that is written to; COLUMNS has the last word. None: standard output is no terminal, or its
/// width is not known.
pub fn available() -> Option<usize> {
    if std::io::stdout().is_terminal() { variable().or_else(of_terminal) } else { None }
}

/// Columns for help and other prose, whatever it is written to.
pub fn for_prose() -> usize {
    variable().or_else(of_terminal).unwrap_or(HELP_WIDTH).clamp(20, HELP_WIDTH)
}

/// Control characters would break a table, or the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The text with its middle left out, so that it takes no more than `most` columns. The end, which tells more of a path
/// than its beginning, keeps twice as much of it.
pub fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.into();
    }
    let room = most.saturating_sub(1);
    let end = take(text.graphemes(true).rev(), (room * 2).div_ceil(3));
    let begin = take(text.graphemes(true), room - end.iter().map(|part| width(part)).sum::<usize>());
    let ellipsis = if most > 0 { "…" } else { "" };
    begin.into_iter().chain([ellipsis]).chain(end.into_iter().rev()).collect()
}

/// As much as fits into so many columns.
fn take<'a>(parts: impl Iterator<Item = &'a str>, columns: usize) -> Vec<&'a str> {
    parts.scan(0, |used, part| {
        *used += width(part);
        (*used <= columns).then_some(part)
    }).collect()
}

/// The text with blanks behind it, so that it takes at least so many columns.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{:1$}", "", columns.saturating_sub(width(text)))
}

/// Prose in lines of no more than so many columns, the first and the others each with something in front.
pub fn wrap(text: &str, columns: usize, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(columns.max(1)).initial_indent(first).subsequent_indent(others)
        .word_splitter(textwrap::WordSplitter::NoHyphenation).break_words(false);
    textwrap::fill(text, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortened_in_the_middle() {
        assert_eq!(shorten("/system.slice/web.service", 25), "/system.slice/web.service");
        assert_eq!(shorten("/kubepods.slice/cri-containerd-4f2a.scope", 16), "/kube…4f2a.scope");
        assert_eq!(shorten("abc", 1), "…");
        assert_eq!(shorten("abc", 0), "");
        // Five characters, ten columns.
        assert_eq!(width("日本語の鍵"), 10);
        assert_eq!(shorten("日本語の鍵", 10), "日本語の鍵");
        assert_eq!(shorten("日本語の鍵", 8), "日…の鍵");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn a_width_that_makes_sense() {
        for (text, want) in [("80", Some(80)), ("0", None), ("", None), ("wide", None), ("-3", None)] {
            assert_eq!(from_variable(Some(text.into())), want, "{text}");
        }
        assert_eq!(from_variable(None), None);
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrap("one two-three four", 8, "- ", "  "), "- one\n  two-three\n  four");
    }

    proptest! {
        #[test]
        fn never_wider(text in "\\PC{0,60}", most in 0usize..50) {
            let short = shorten(&text, most);
            prop_assert!(width(&short) <= most, "{short}");
            prop_assert!(width(&text) > most || short == text);
        }
    }
}
