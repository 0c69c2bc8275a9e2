// SPDX-License-Identifier: GPL-2.0-only
//! `top`: groups with their policies and what these do, live.
//!
//! Rates are differences of counters between two looks, divided by the time between them. A group is known by its path
//! and the inode of its directory, so one that was removed and made again starts anew.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use ratatui::Frame;

use crate::cli::SortBy;
use crate::columns::{clean, shorten, width, wrap};
use crate::error::{Error, Result};
use crate::output::written;
use crate::setting::Key;
use crate::state::{require_files, State};
use crate::tree::{display, Host, Tree};

const HISTORY: usize = 16;
const FOLLOWED: [&str; 5] = ["hint_wake_followed", "hint_fork_followed", "hint_reach_followed", "hint_pack_followed",
    "hint_energy_followed"];
const REFUSED: [&str; 11] = ["hint_wake_full", "hint_wake_affinity", "hint_wake_irq", "hint_wake_turns",
    "hint_wake_same_llc", "hint_fork_full", "hint_fork_affinity", "hint_reach_full", "hint_pack_full",
    "hint_energy_full", "hint_energy_unavailable"];

/// A group between two looks.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub state: State,
    pub inode: u64,
    /// Percent of one CPU.
    pub cpu: f64,
    /// Percent of the hint's decisions since the last look; None without any.
    pub followed: Option<f64>,
    /// Percent of headroom's periods in which it was held back.
    pub capped: Option<f64>,
    pub history: VecDeque<f64>,
}

pub struct Top {
    pub lines: BTreeMap<String, Line>,
    pub sort: SortBy,
    pub reverse: bool,
    pub all: bool,
    pub filter: String,
    last: Option<Instant>,
}

fn share(part: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| part as f64 * 100.0 / total as f64)
}

impl Line {
    fn advance(&mut self, old: &Line, seconds: f64) {
        let rise = |key: &str| {
            let get = |state: &State| state.stat.get(key).copied().unwrap_or(0);
            get(&self.state).saturating_sub(get(&old.state))
        };
        let followed: u64 = FOLLOWED.iter().map(|key| rise(key)).sum();
        let refused: u64 = REFUSED.iter().map(|key| rise(key)).sum();
        self.cpu = rise("usage_usec") as f64 / 1e4 / seconds.max(1e-6);
        self.followed = share(followed, followed + refused);
        self.capped = share(rise("headroom_capped_periods"), rise("headroom_periods"));
        self.history = old.history.clone();
        self.history.push_back(self.cpu);
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

impl Top {
    pub fn new(sort: SortBy, all: bool) -> Top {
        Top { lines: BTreeMap::new(), sort, reverse: false, all, filter: String::new(), last: None }
    }

    /// Look at all groups.
    pub fn look(&mut self, tree: &Tree) -> Result<()> {
        let now = Instant::now();
        let seconds = self.last.map_or(1.0, |last| now.duration_since(last).as_secs_f64());
        let mut lines = BTreeMap::new();
        tree.walk("", &mut |group| {
            if group.path.is_empty() {
                return;
            }
            let mut state = State::brief(group);
            let effective = || group.read_line("cpu.hint.effective").ok().flatten().is_some_and(|e| e != "none");
            if !self.all && !state.says_something() && !effective() {
                return;
            }
            state.complete(tree, group);
            let inode = rustix::fs::fstat(group.as_fd()).map_or(0, |stat| stat.st_ino);
            let mut line = Line { state, inode, ..Line::default() };
            if let Some(old) = self.lines.get(&group.path).filter(|old| old.inode == inode) {
                line.advance(old, seconds);
            }
            lines.insert(group.path.clone(), line);
        })?;
        (self.lines, self.last) = (lines, Some(now));
        Ok(())
    }

    /// What is shown, in its order.
    pub fn rows(&self) -> Vec<&Line> {
        let mut rows: Vec<&Line> = self.lines.values().filter(|line| line.state.path.contains(&self.filter)).collect();
        let number = |a: Option<f64>, b: Option<f64>| b.unwrap_or(-1.0).partial_cmp(&a.unwrap_or(-1.0)).unwrap_or(Ordering::Equal);
        let headroom = |line: &Line| line.state.headroom.as_deref().and_then(|text| text.parse::<f64>().ok());
        rows.sort_by(|a, b| {
            let order = match self.sort {
                SortBy::Cpu => number(Some(a.cpu), Some(b.cpu)),
                SortBy::Name => Ordering::Equal,
                SortBy::Hint => a.state.hint_effective.cmp(&b.state.hint_effective),
                SortBy::Followed => number(a.followed, b.followed),
                SortBy::Headroom => number(headroom(a), headroom(b)),
                SortBy::Capped => number(a.capped, b.capped),
            };
            order.then_with(|| a.state.path.cmp(&b.state.path))
        });
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    fn next_sort(&mut self) {
        self.sort = match self.sort {
            SortBy::Cpu => SortBy::Name,
            SortBy::Name => SortBy::Hint,
            SortBy::Hint => SortBy::Followed,
            SortBy::Followed => SortBy::Headroom,
            SortBy::Headroom => SortBy::Capped,
            SortBy::Capped => SortBy::Cpu,
        };
    }
}

/// Bars of a history, the highest of which is the highest value; without UTF-8, digits.
fn sparkline(history: &VecDeque<f64>, unicode: bool) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = history.iter().copied().fold(0.1, f64::max);
    history.iter().map(|value| {
        let step = (value / highest * 7.0).round().clamp(0.0, 7.0) as usize;
        if unicode { BARS[step] } else { char::from(b'0' + step as u8) }
    }).collect()
}

fn unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|value| value.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

const HEADER: [&str; 8] = ["GROUP", "HINT", "GANG", "HEADROOM", "CPU %", "FOLLOWED", "HELD BACK", "CPU HISTORY"];

fn cells(line: &Line, unicode: bool) -> [String; 8] {
    let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0} %"));
    let gang = line.state.own().any(|(key, _)| key == Key::Gang);
    [
        clean(&display(&line.state.path)),
        line.state.hint_effective.clone().or(line.state.hint.clone()).unwrap_or_else(|| "-".into()),
        if gang { line.state.gang_scope.clone().unwrap_or_default() } else { "-".into() },
        line.state.headroom.clone().unwrap_or_else(|| "-".into()),
        format!("{:.1}", line.cpu),
        percent(line.followed),
        percent(line.capped),
        sparkline(&line.history, unicode),
    ]
}

/// Names are not made shorter than this to have the history beside them.
const SHORTEST_NAME: usize = 30;

/// Widths of the columns. Hint and name share what the numbers leave; the history has to go first.
fn fit(cells: &[[String; 8]], columns: usize) -> [usize; 8] {
    let mut widths: [usize; 8] = std::array::from_fn(|i| {
        cells.iter().map(|row| width(&row[i])).chain([width(HEADER[i])]).max().unwrap_or(0)
    });
    widths[7] = HISTORY;
    let room = |widths: &[usize]| columns.saturating_sub(widths[2..].iter().sum::<usize>() + widths.len() - 1);
    if room(&widths) < widths[0].min(SHORTEST_NAME) + widths[1] {
        widths[7] = 0;
    }
    let room = room(&widths);
    widths[1] = widths[1].min((room / 2).max(room.saturating_sub(widths[0])));
    widths[0] = room.saturating_sub(widths[1]);
    widths
}

fn draw(frame: &mut Frame, top: &Top, state: &mut TableState, typing: bool, message: &str) {
    let foot = if typing { format!("filter: {}_", top.filter) }
               else if !message.is_empty() { message.to_string() }
               else { "q quit  s sort  r reverse  a all  / filter  Enter why  ↑↓ move".into() };
    let foot = wrap(&foot, frame.area().width.into(), "", "");
    let areas = Layout::vertical([Constraint::Length(1), Constraint::Min(2), Constraint::Length(foot.lines().count() as u16)])
        .split(frame.area());
    let sort = format!("{:?}", top.sort).to_lowercase();
    frame.render_widget(Paragraph::new(format!(
        "cgctl top: {} groups, by {sort}{}{}", top.lines.len(), if top.reverse { ", reversed" } else { "" },
        if top.all { ", all groups" } else { ", those with a policy" })).style(Style::new().add_modifier(Modifier::BOLD)),
        areas[0]);
    let unicode = unicode();
    let rows = top.rows();
    let cells: Vec<[String; 8]> = rows.iter().map(|line| cells(line, unicode)).collect();
    let widths = fit(&cells, areas[1].width.into());
    let table = Table::new(
        cells.iter().map(|cells| Row::new(cells.iter().zip(widths).map(|(cell, most)| Cell::from(shorten(cell, most))))),
        widths.map(|most| Constraint::Length(most as u16)),
    ).header(Row::new(HEADER).style(Style::new().add_modifier(Modifier::REVERSED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, areas[1], state);
    frame.render_widget(Paragraph::new(foot), areas[2]);
}

/// The live view, until 'q'.
pub fn interactive(host: &Host, interval: Duration, sort: SortBy, all: bool) -> Result<()> {
    let tree = host.open_tree()?;
    require_files(&tree)?;
    let mut top = Top::new(sort, all);
    top.look(&tree)?;
    let mut terminal = ratatui::try_init().map_err(|e| Error::io("this needs a terminal (--batch does not)", e))?;
    let result = main_loop(&mut terminal, &tree, &mut top, interval);
    ratatui::restore();
    result
}

fn main_loop(terminal: &mut ratatui::DefaultTerminal, tree: &Tree, top: &mut Top, interval: Duration) -> Result<()> {
    let io = |e| Error::io("the terminal", e);
    let mut state = TableState::default().with_selected(0);
    let (mut typing, mut message) = (false, String::new());
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(|frame| draw(frame, top, &mut state, typing, &message)).map_err(io)?;
        if !event::poll(due.saturating_duration_since(Instant::now())).map_err(io)? {
            top.look(tree)?;
            due = Instant::now() + interval;
            continue;
        }
        let Event::Key(key) = event::read().map_err(io)? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        message.clear();
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Ok(());
        }
        if typing {
            match key.code {
                KeyCode::Enter => typing = false,
                KeyCode::Esc => (typing, top.filter) = (false, String::new()),
                KeyCode::Backspace => drop(top.filter.pop()),
                KeyCode::Char(c) => top.filter.push(c),
                _ => {}
            }
            continue;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('s') => top.next_sort(),
            KeyCode::Char('r') => top.reverse = !top.reverse,
            KeyCode::Char('/') => typing = true,
            KeyCode::Char('a') => {
                top.all = !top.all;
                top.look(tree)?;
            }
            KeyCode::Down | KeyCode::Char('j') => state.select_next(),
            KeyCode::Up | KeyCode::Char('k') => state.select_previous(),
            KeyCode::Enter => {
                let rows = top.rows();
                let line = state.selected().and_then(|i| rows.get(i.min(rows.len().saturating_sub(1))));
                message = line.map(|line| crate::why::sentences(&line.state).join("; ")).unwrap_or_default();
                if message.is_empty() {
                    message = "nothing to say about it".into();
                }
            }
            _ => {}
        }
    }
}

/// The same as text, a number of times.
pub fn batch(host: &Host, interval: Duration, sort: SortBy, all: bool, looks: u64, out: &mut dyn Write) -> Result<()> {
    let tree = host.open_tree()?;
    require_files(&tree)?;
    let mut top = Top::new(sort, all);
    top.look(&tree)?;
    for _ in 0..looks {
        std::thread::sleep(interval);
        top.look(&tree)?;
        let rows: Vec<[String; 8]> = [HEADER.map(String::from)].into_iter()
            .chain(top.rows().into_iter().map(|line| cells(line, true))).collect();
        for row in rows {
            if !written(out.write_all((row.join("\t") + "\n").as_bytes()))? {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn rates() {
        let stat = |pairs: &[(&str, u64)]| State { stat: pairs.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
                                                   ..State::default() };
        let old = Line { state: stat(&[("usage_usec", 1_000_000), ("hint_wake_followed", 10)]), ..Line::default() };
        let mut new = Line { state: stat(&[("usage_usec", 2_000_000), ("hint_wake_followed", 40), ("hint_wake_full", 10),
                                           ("headroom_periods", 10), ("headroom_capped_periods", 1)]), ..Line::default() };
        new.advance(&old, 2.0);
        assert_eq!((new.cpu, new.followed, new.capped), (50.0, Some(75.0), Some(10.0)));
        assert_eq!(new.history, [50.0]);
    }

    #[test]
    fn bars() {
        assert_eq!(sparkline(&VecDeque::from([0.0, 50.0, 100.0]), true), "▁▅█");
        assert_eq!(sparkline(&VecDeque::from([0.0, 100.0]), false), "07");
        assert_eq!(sparkline(&VecDeque::new(), true), "");
    }

    /// Names that Kubernetes makes have some 200 characters.
    #[test]
    fn long_names_use_the_width_there_is() {
        let path = format!("kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope", "0f1e2d3c".repeat(4), "4f2a".repeat(16));
        let whole = display(&path);
        let state = State { path, hint_effective: Some("scan_none slice_long preempt_none pack".into()), ..State::default() };
        let line = Line { state, ..Line::default() };
        let cells = [cells(&line, true)];
        for (columns, history, least) in [(60, false, 6), (80, false, 16), (100, false, 16), (132, true, 30), (200, true, 90)] {
            let widths = fit(&cells, columns);
            assert!(widths.iter().sum::<usize>() + widths.len() - 1 <= columns.max(60), "{columns}: {widths:?}");
            assert_eq!(widths[7] > 0, history, "{columns}: {widths:?}");
            assert!(widths[0] >= least, "{columns}: {widths:?}");
            let name = shorten(&cells[0][0], widths[0]);
            let (begin, end) = name.split_once('…').unwrap();
            assert!(whole.starts_with(begin) && whole.ends_with(end) && !begin.is_empty() && !end.is_empty(), "{name}");
        }
        let widths = fit(&cells, 400);
        assert_eq!((shorten(&cells[0][0], widths[0]), shorten(&cells[0][1], widths[1])), (cells[0][0].clone(), cells[0][1].clone()));
    }

    #[test]
    fn drawn() {
        let dir = TempDir::new();
        for path in ["web", "idle"] {
            dir.group(path);
        }
        dir.file("sys/fs/cgroup/web/cpu.hint", "pack\n");
        let tree = Host::new(Some(dir.path())).open_tree().unwrap();
        let mut top = Top::new(SortBy::Cpu, false);
        top.look(&tree).unwrap();
        let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(110, 6)).unwrap();
        terminal.draw(|frame| draw(frame, &top, &mut TableState::default(), false, "")).unwrap();
        let text: String = terminal.backend().buffer().content.iter().map(|cell| cell.symbol()).collect();
        assert!(text.contains("/web") && !text.contains("/idle") && text.contains("HELD BACK"), "{text}");
        for _ in 0..6 {
            top.next_sort();
            assert_eq!(top.rows().len(), 1);
        }
    }
}
