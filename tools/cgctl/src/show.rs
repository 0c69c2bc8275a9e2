// SPDX-License-Identifier: GPL-2.0-only
//! `show`, `tree`: what groups have, as text, JSON or tab-separated values.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Serialize;

use crate::error::Result;
use crate::setting::Key;
use crate::state::{missing_file, policies, State};
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

/// A name that fits into a column: control characters would break the table, or the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
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

/// One line for each group that says something.
pub fn table_text(states: &[State]) -> String {
    if states.is_empty() {
        return "no group has a policy; 'cgctl set' gives it one\n".into();
    }
    let header = ["GROUP", "HINT", "GANG", "HEADROOM", "WHY"].map(String::from);
    let rows = states.iter().map(|state| {
        let own = |key: Key| state.own().find(|(k, _)| *k == key).map(|(_, value)| value.to_string());
        let dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let gang = own(Key::Gang).map(|_| state.gang_scope.clone().unwrap_or_default());
        [clean(&display(&state.path)), dash(own(Key::Hint)), dash(gang), dash(own(Key::Headroom)),
         sentences(state).into_iter().next().unwrap_or_default()]
    });
    let rows: Vec<[String; 5]> = [header].into_iter().chain(rows).collect();
    let width: Vec<usize> = (0..5).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(line, "{cell:<width$}  ", width = width[i]);
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
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
pub fn tree_text(tree: &Tree, from: &str, all: bool) -> Result<String> {
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    if !all {
        for state in policies(tree, from)? {
            wanted.extend(ancestors(&state.path).map(str::to_string));
            wanted.insert(state.path);
        }
    }
    let mut rows: Vec<(String, String)> = Vec::new();
    tree.walk(from, &mut |group| {
        if !all && group.path != from && !wanted.contains(&group.path) {
            return;
        }
        let mut state = State::brief(group);
        if state.says_something() {
            state.complete(tree, group);
        }
        rows.push((group.path.clone(), label(&state)));
    })?;
    Ok(draw(from, &rows))
}

fn label(state: &State) -> String {
    let mut parts: Vec<String> = state.own().map(|(key, value)| format!("{}={value}", key.name())).collect();
    if let Some(effective) = state.hint_effective.as_deref().filter(|e| state.hint.as_deref() != Some(e)) {
        parts.push(format!("(effective: {effective})"));
    }
    parts.join("  ")
}

/// Rows are in the order of a walk: parents first.
fn draw(from: &str, rows: &[(String, String)]) -> String {
    let depth = |path: &str| if path.is_empty() { 0 } else { path.matches('/').count() + 1 };
    let top = depth(from);
    let mut out = String::new();
    for (i, (path, label)) in rows.iter().enumerate() {
        let level = depth(path) - top;
        let mut prefix = String::new();
        for step in 1..=level {
            // Is there another one at this level, before the branch ends?
            let more = rows[i + 1..].iter().map(|(path, _)| depth(path) - top).take_while(|d| *d >= step).any(|d| d == step);
            prefix += match (step == level, more) {
                (true, true) => "├─",
                (true, false) => "└─",
                (false, true) => "│ ",
                (false, false) => "  ",
            };
        }
        let name = if level == 0 { display(path) } else { base(path).to_string() };
        let line = format!("{prefix}{}  {label}", clean(&name));
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing() {
        let rows: Vec<(String, String)> = ["", "a", "a/b", "a/c", "d"].map(|p| (p.to_string(), String::new())).to_vec();
        assert_eq!(draw("", &rows), "/\n├─a\n│ ├─b\n│ └─c\n└─d\n");
        assert_eq!(draw("a", &rows[1..4]), "/a\n├─b\n└─c\n");
    }

    #[test]
    fn odd_names_do_not_break_the_table() {
        let state = State { path: "a\tb\x1b[31m".into(), ..State::default() };
        let text = tsv(std::slice::from_ref(&state));
        assert_eq!(text.lines().nth(1).unwrap().split('\t').count(), TSV_HEADER.split('\t').count());
        assert!(!group_text(&state).contains('\x1b'));
    }
}
