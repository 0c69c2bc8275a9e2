// SPDX-License-Identifier: GPL-2.0-only
//! Texts that are printed as help and as manual pages: each is written once, in `topics`, and formatted here.

use clap_mangen::roff::{bold, roman, Inline, Roff};

use crate::columns::{pad, width, wrap};

/// What a text is made of. In prose and in meanings, what is to be typed as it is stands between backticks.
pub enum Block {
    Prose(String),
    /// Terms and what they mean.
    Terms(Vec<(String, String)>),
    /// Lines of a file or a terminal, as they are.
    Lines(&'static str),
}

pub struct Section {
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

/// A manual page of its own.
pub struct Page {
    pub name: &'static str,
    /// Of the manual: 5 is for files.
    pub section: &'static str,
    pub about: &'static str,
    pub text: Vec<Section>,
    pub see_also: &'static [&'static str],
}

/// Terms that are longer have a line of their own.
const LONGEST_TERM: usize = 22;

/// As help, in lines of so many columns.
pub fn help(sections: &[Section], columns: usize) -> String {
    let mut out = Vec::new();
    for section in sections {
        let blocks: Vec<String> = section.blocks.iter().map(|block| block.help(columns)).collect();
        out.push(format!("{}:\n{}", section.title, blocks.join("\n\n")));
    }
    out.join("\n\n")
}

impl Block {
    fn help(&self, columns: usize) -> String {
        match self {
            Block::Prose(text) => wrap(&quoted(text), columns, "  ", "  "),
            Block::Terms(terms) => {
                let longest = terms.iter().map(|(term, _)| width(term)).filter(|w| *w <= LONGEST_TERM).max().unwrap_or(0);
                let indent = " ".repeat(longest + 4);
                let lines = terms.iter().map(|(term, meaning)| {
                    if width(term) > longest {
                        format!("  {term}\n{}", wrap(&quoted(meaning), columns, &indent, &indent))
                    } else {
                        wrap(&quoted(meaning), columns, &format!("  {}  ", pad(term, longest)), &indent)
                    }
                });
                lines.collect::<Vec<_>>().join("\n")
            }
            Block::Lines(lines) => lines.lines().map(|line| format!("    {line}").trim_end().to_string())
                .collect::<Vec<_>>().join("\n"),
        }
    }

    fn roff(&self, out: &mut Roff) {
        match self {
            Block::Prose(text) => {
                out.control("PP", []).text(inlines(text));
            }
            Block::Terms(terms) => {
                for (term, meaning) in terms {
                    out.control("TP", []).text([bold(term)]).text(inlines(meaning));
                }
            }
            Block::Lines(lines) => {
                out.control("PP", []).control("RS", ["4"]).control("nf", []);
                for line in lines.lines() {
                    out.text([roman(line)]);
                }
                out.control("fi", []).control("RE", []);
            }
        }
    }
}

/// Where there is no bold type, quotes say what is to be typed.
fn quoted(text: &str) -> String {
    text.replace('`', "'")
}

fn inlines(text: &str) -> Vec<Inline> {
    text.split('`').enumerate().filter(|(_, part)| !part.is_empty())
        .map(|(i, part)| if i % 2 == 0 { roman(part) } else { bold(part) }).collect()
}

/// As sections of a manual page.
pub fn roff(sections: &[Section]) -> Roff {
    let mut out = Roff::new();
    for section in sections {
        out.control("SH", [section.title.to_uppercase().as_str()]);
        section.blocks.iter().for_each(|block| block.roff(&mut out));
    }
    out
}

/// The section that names other pages.
pub fn see_also(pages: &[&str]) -> Roff {
    let mut out = Roff::new();
    let mut line = Vec::new();
    for (i, page) in pages.iter().enumerate() {
        let (name, section) = page.split_once('(').unwrap_or((page, ""));
        let end = if i + 1 < pages.len() { ", " } else { "" };
        line.extend([bold(name), roman(format!("({section}{end}"))]);
    }
    out.control("SH", ["SEE ALSO"]).text(line);
    out
}

/// What stands at the foot of each page, in the order of `.TH`: no date, so that a build can be repeated.
pub fn footer() -> [&'static str; 3] {
    ["\"\"", concat!("cgctl ", env!("CARGO_PKG_VERSION")), "CPU policies of cgroups"]
}

impl Page {
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }

    pub fn render(&self) -> String {
        let mut out = Roff::new();
        let [date, source, manual] = footer();
        out.control("TH", [self.name.to_uppercase().as_str(), self.section, date, source, manual]);
        out.control("SH", ["NAME"]).text([roman(format!("{} - {}", self.name, self.about))]);
        out.extend([roff(&self.text), see_also(self.see_also)]);
        out.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<Section> {
        vec![Section { title: "Words", blocks: vec![
            Block::Prose("Give `one` of these words, or `.none`.".into()),
            Block::Terms(vec![("a".into(), "the first of them".into()), ("-second".into(), "another".into()),
                              ("one-that-is-longer-than-most".into(), "the third".into())]),
            Block::Lines("[a]\n\n.b = 'c\\x2d'\n"),
        ] }]
    }

    #[test]
    fn as_help() {
        assert_eq!(help(&text(), 24), "\
Words:
  Give 'one' of these
  words, or '.none'.

  a        the first of
           them
  -second  another
  one-that-is-longer-than-most
           the third

    [a]

    .b = 'c\\x2d'");
    }

    #[test]
    fn as_a_page() {
        let page = Page { name: "x-y", section: "5", about: "nothing", text: text(), see_also: &["a(1)", "b(5)"] };
        assert_eq!(page.file_name(), "x-y.5");
        let out = page.render();
        assert!(out.contains(".TH X-Y 5 \"\" \"cgctl "), "{out}");
        assert!(out.contains("Give \\fBone\\fR of these words, or \\fB.none\\fR.\n"), "{out}");
        assert!(out.contains(".TP\n\\fB\\-second\\fR\nanother\n"), "{out}");
        assert!(out.contains("\\&.b = \\*(Aqc\\\\x2d\\*(Aq\n"), "{out}");
        assert!(out.ends_with(".SH \"SEE ALSO\"\n\\fBa\\fR(1), \\fBb\\fR(5)\n"), "{out}");
    }
}
