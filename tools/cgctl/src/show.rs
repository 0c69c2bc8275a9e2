// SPDX-License-Identifier: GPL-2.0-only
//! `show`, `tree`: what groups have, as text, JSON or tab-separated values.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::columns::{clean, pad, shorten, width, wrap};
use crate::error::Result;
use crate::setting::Key;
use crate::state::{kernel_files, missing_file, policies, State};
use crate::tree::{ancestors, base, display, Tree};
use crate::why::sentences;

/// The columns of the TSV form. New ones come at the end only.
const TSV_HEADER: &str = "path\thint\thint.effective\tgang\tgang.scope\theadroom\tdemand\tidle\tbudget_usec\n";

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    state: &'a State,
    why: Vec<String>,
}

pub fn json(states: &[State]) -> String {
    let reports: Vec<Report> = states.iter().map(|state| Report { state, why: sentences(state) }).collect();
    serde_json::to_string_pretty(&reports).unwrap_or_default() + "\n"
}

pub fn tsv(states: &[State]) -> String {
    let mut out = String::from(TSV_HEADER);
    for state in states {
        let stat = state.headroom_stat.as_ref();
        let cells = [
            Some(clean(&display(&state.path))), state.hint.clone(), state.hint_effective.clone(), state.gang.clone(),
            state.gang_scope.clone(), state.headroom.clone(), stat.map(|s| format!("{:.2}", s.demand)),
            stat.and_then(|s| s.idle).map(|idle| format!("{idle:.2}")),
            stat.map(|s| s.budget_usec.map_or("max".into(), |usec| usec.to_string())),
        ];
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into())).collect();
        out += &(cells.join("\t") + "\n");
    }
    out
}

/// One group in full.
pub fn group_text(state: &State) -> String {
    let mut out = format!("{}\n", clean(&display(&state.path)));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<10}{value}");
    };
    if let Some(hint) = &state.hint {
        let effective = state.hint_effective.as_deref().unwrap_or("?");
        let from = state.hint_from.as_ref().map(|from| format!(", from {}", clean(&display(from)))).unwrap_or_default();
        line("hint", format!("{hint}  (effective: {effective}{from})"));
    }
    if let Some(gang) = &state.gang {
        let scope = state.gang_scope.as_deref().unwrap_or("?");
        line("gang", format!("{}  (scope: {scope})", if gang == "1" { "yes" } else { "no" }));
    }
    if let Some(headroom) = &state.headroom {
        line("headroom", format!("{headroom} %"));
    }
    if let Some(unbound) = &state.headroom_unbound {
        line("", unbound.to_string());
    }
    if let Some(stat) = &state.headroom_stat {
        let budget = stat.budget_usec.map_or("max".into(), |usec| format!("{usec} µs in {} µs", stat.period_usec));
        let idle = stat.idle.map(|idle| format!("idle {idle:.2} %, ")).unwrap_or_default();
        line("gives way", format!("demand {:.2} %, {idle}budget {budget}", stat.demand));
    }
    let counters: Vec<_> = state.stat.iter()
        .filter(|(key, value)| **value > 0 && ["hint_", "gang_", "headroom_"].iter().any(|p| key.starts_with(p))).collect();
    for (i, sentence) in sentences(state).into_iter().enumerate() {
        line(if i == 0 { "why" } else { "" }, sentence);
    }
    for (i, (key, value)) in counters.into_iter().enumerate() {
        line(if i == 0 { "counters" } else { "" }, format!("{key} {value}"));
    }
    out
}

const HEADER: [&str; 5] = ["GROUP", "HINT", "GANG", "HEADROOM", "WHY"];
const GAP: usize = 2;
/// A name is not made shorter than this to have the reasons beside it.
const SHORTEST_NAME: usize = 40;
/// What a column keeps on the narrowest of terminals.
const SHORTEST_CELL: usize = 8;

/// One row for each group that says something. Where there are not columns enough for all of it, names are shortened in
/// the middle; if that does not do, the reasons stand below their groups. Without a limit, nothing is shortened.
pub fn table_text(states: &[State], columns: Option<usize>) -> String {
    let rows: Vec<[String; 5]> = states.iter().map(|state| {
        let own = |key: Key| state.own().find(|(k, _)| *k == key).map(|(_, value)| clean(value));
        let dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let gang = own(Key::Gang).map(|_| clean(state.gang_scope.as_deref().unwrap_or_default()));
        [clean(&display(&state.path)), dash(own(Key::Hint)), dash(gang), dash(own(Key::Headroom)),
         sentences(state).into_iter().next().unwrap_or_default()]
    }).collect();
    let mut widths: [usize; 5] = std::array::from_fn(|i| {
        rows.iter().map(|row| width(&row[i])).chain([width(HEADER[i])]).max().unwrap_or(0)
    });
    let beside = fit(&mut widths, columns);
    let shown = if beside { 5 } else { 4 };
    let mut out = String::new();
    for row in [HEADER.map(String::from)].iter().chain(&rows) {
        let cells: Vec<String> = (0..shown).map(|i| pad(&shorten(&row[i], widths[i]), widths[i] + GAP)).collect();
        out += cells.concat().trim_end();
        out.push('\n');
        if !beside && row[4] != HEADER[4] && !row[4].is_empty() {
            out += &wrap(&row[4], columns.unwrap_or(usize::MAX), "    ", "    ");
            out.push('\n');
        }
    }
    out
}

/// Make the columns of a table fit; false if the last one has no place beside the others.
fn fit(widths: &mut [usize; 5], columns: Option<usize>) -> bool {
    let Some(columns) = columns else { return true };
    let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    let beside = columns.saturating_sub(sum(widths) - widths[0]);
    if beside >= widths[0].min(SHORTEST_NAME) {
        widths[0] = widths[0].min(beside);
        return true;
    }
    // The hint gives way once the name has.
    let room = columns.saturating_sub(sum(&widths[..4]) - widths[0] - widths[1]);
    widths[1] = widths[1].min((room / 2).max(room.saturating_sub(widths[0]))).max(SHORTEST_CELL);
    widths[0] = widths[0].min(room.saturating_sub(widths[1])).max(SHORTEST_CELL);
    false
}

/// What is said where no group has a policy: what is missing for that, if anything is.
pub fn no_policy(tree: &Tree) -> Result<String> {
    Ok(match kernel_files(tree)? {
        Some(_) => "no group has a policy; 'cgctl set' gives it one\n",
        None if !tree.open("")?.names_cpu("cgroup.controllers") =>
            "no group has a policy, because cgroup2 has no cpu controller here; 'cgctl doctor' says what mends that\n",
        None => "no group has a policy, because none has the cpu controller; 'cgctl set --enable' gives a group both, and \
                 'cgctl doctor' says more\n",
    }.into())
}

/// A group that was asked for, in full. One without any of the files says which is missing.
pub fn one(tree: &Tree, path: &str) -> Result<State> {
    let group = tree.open(path)?;
    let state = State::full(tree, &group)?;
    if state.hint.is_none() && state.gang.is_none() && state.headroom.is_none() {
        return Err(missing_file(tree, &group, Key::Hint.file()));
    }
    Ok(state)
}

/// The tree, with what each group says; without `all`, only groups that say something and those on the way to them.
pub fn tree_text(tree: &Tree, from: &str, all: bool, columns: Option<usize>) -> Result<String> {
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    if !all {
        for state in policies(tree, from)? {
            wanted.extend(ancestors(&state.path).map(str::to_string));
            wanted.insert(state.path);
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    tree.walk(from, &mut |group| {
        if !all && group.path != from && !wanted.contains(&group.path) {
            return;
        }
        let mut state = State::brief(group);
        if state.says_something() {
            state.complete(tree, group);
        }
        rows.push(Row::of(&state));
    })?;
    Ok(draw(from, &rows, columns))
}

/// A line of the tree.
#[derive(Clone, Default)]
struct Row {
    path: String,
    /// What the group says.
    own: String,
    /// What comes of it, where that is something else.
    effective: String,
}

impl Row {
    fn of(state: &State) -> Row {
        let own: Vec<String> = state.own().map(|(key, value)| format!("  {}={}", key.name(), clean(value))).collect();
        let effective = state.hint_effective.as_deref()
            .filter(|effective| state.says_something() && state.hint.as_deref() != Some(effective));
        Row { path: state.path.clone(), own: own.concat(),
              effective: effective.map(|words| format!("  (effective: {})", clean(words))).unwrap_or_default() }
    }

    /// The name and what the group says. Where there are not columns enough, the effective hints are shortened, then the
    /// name; what was set stays.
    fn text(&self, name: &str, columns: usize) -> String {
        let room = columns.saturating_sub(width(&self.own));
        let short = shorten(&self.effective, room.saturating_sub(width(name).min(SHORTEST_NAME)));
        let effective = if width(&short) > SHORTEST_CELL { short } else { String::new() };
        format!("{}{}{effective}", shorten(name, room.saturating_sub(width(&effective)).max(SHORTEST_CELL)), self.own)
    }
}

/// Rows are in the order of a walk: parents first.
fn draw(from: &str, rows: &[Row], columns: Option<usize>) -> String {
    let depth = |path: &str| if path.is_empty() { 0 } else { path.matches('/').count() + 1 };
    let top = depth(from);
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        let level = depth(&row.path) - top;
        let mut prefix = String::new();
        for step in 1..=level {
            // Is there another one at this level, before the branch ends?
            let more = rows[i + 1..].iter().map(|row| depth(&row.path) - top).take_while(|d| *d >= step).any(|d| d == step);
            prefix += match (step == level, more) {
                (true, true) => "├─",
                (true, false) => "└─",
                (false, true) => "│ ",
                (false, false) => "  ",
            };
        }
        let name = clean(&if level == 0 { display(&row.path) } else { base(&row.path).to_string() });
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(width(&prefix)));
        out += &format!("{prefix}{}\n", row.text(&name, room));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing() {
        let rows = ["", "a", "a/b", "a/c", "d"].map(|path| Row { path: path.into(), ..Row::default() });
        assert_eq!(draw("", &rows, None), "/\n├─a\n│ ├─b\n│ └─c\n└─d\n");
        assert_eq!(draw("a", &rows[1..4], Some(80)), "/a\n├─b\n└─c\n");
    }

    #[test]
    fn lines_of_a_tree_fit() {
        let row = Row { path: "cri-containerd-4f2a4f2a4f2a.scope".into(), own: "  hint=interactive".into(),
                        effective: "  (effective: scan_full slice_short)".into() };
        let line = |columns| draw("", &[Row::default(), row.clone()], columns).lines().nth(1).unwrap().to_string();
        let whole = "└─cri-containerd-4f2a4f2a4f2a.scope  hint=interactive  (effective: scan_full slice_short)";
        assert_eq!((line(None).as_str(), line(Some(width(whole))).as_str()), (whole, whole));
        assert_eq!(line(Some(80)), "└─cri-containerd-4f2a4f2a4f2a.scope  hint=interactive  (effec…_full slice_short)");
        assert_eq!(line(Some(50)), "└─cri-conta…d-4f2a4f2a4f2a.scope  hint=interactive");
        assert_eq!(line(Some(20)), "└─cr…scope  hint=interactive", "what was set stays");
    }

    fn pod() -> State {
        let path = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope",
                           "0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0", "4f2a".repeat(16));
        let stat = [("hint_wake_followed".to_string(), 170), ("hint_wake_full".to_string(), 830)].into();
        State { path, hint: Some("wake_affine".into()), hint_effective: Some("wake_affine".into()),
                headroom: Some("30.00".into()), stat, ..State::default() }
    }

    /// Names that Kubernetes makes have some 200 characters.
    #[test]
    fn long_names_use_the_width_there_is() {
        let states = [pod(), State { path: "jobs".into(), hint: Some("background".into()), ..State::default() }];
        let whole = display(&states[0].path);
        let free = table_text(&states, None);
        assert!(free.contains(&whole), "without a terminal, nothing is shortened");
        for columns in [20, 40, 80, 132, 200, 400] {
            let text = table_text(&states, Some(columns));
            let widest = text.lines().map(width).max().unwrap();
            assert!(widest <= columns.max(40), "{columns}: {text}");
            assert!(text.contains("/jobs") && text.split_whitespace().any(|word| word == "followed:"), "{text}");
            let name = text.lines().nth(1).unwrap().split("  ").next().unwrap();
            if columns >= 80 && columns < 400 {
                let (begin, end) = name.split_once('…').unwrap();
                assert!(whole.starts_with(begin) && whole.ends_with(end) && end.ends_with(".scope"), "{text}");
                assert!(width(name) >= 40, "{text}");
            }
        }
        assert_eq!(table_text(&states, Some(400)), free, "what fits stays");
        assert_eq!(table_text(&states, Some(200)).lines().count(), 3, "one row for each group");
        assert_eq!(table_text(&states, Some(80)).lines().nth(1).map(width), Some(80 - "   ".len()));
    }

    /// Characters that take two columns, or none.
    #[test]
    fn columns_are_those_of_a_terminal() {
        let state = |path: &str| State { path: path.into(), hint: Some("pack".into()), ..State::default() };
        let text = table_text(&[state("日本"), state("e\u{301}"), state("ab")], None);
        let place: Vec<usize> = text.lines().map(|line| width(line.split_once("  ").map_or("", |_| {
            &line[..line.find("pack").or(line.find("HINT")).unwrap()]
        }))).collect();
        assert_eq!(place, [7; 4], "{text}");
    }

    #[test]
    fn odd_names_do_not_break_the_table() {
        let state = State { path: "a\tb\x1b[31m".into(), ..State::default() };
        let text = tsv(std::slice::from_ref(&state));
        assert_eq!(text.lines().nth(1).unwrap().split('\t').count(), TSV_HEADER.split('\t').count());
        assert!(!group_text(&state).contains('\x1b'));
    }
}
