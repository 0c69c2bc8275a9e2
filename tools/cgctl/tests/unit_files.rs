// SPDX-License-Identifier: GPL-2.0-only
//! Unit files are read as systemd reads them: random trees and random files, compared with its own `systemd-analyze`.
//!
//! usage: unit_files [PROGRAM [TEST]]    (a systemd-analyze; without one, that of the PATH)
//! environment: CASES, how many trees and how many files (default: 500); SEED, of the generator (default: 1). The same
//! seed gives the same cases.
//!
//! What shows how systemd reads is `systemd-analyze verify` of a target that wants the unit: it names file, line and
//! value of each assignment of CPUAccounting= that is no truth value, an empty one too, in the order in which it comes to
//! them. So all of the order is compared, not only who wins. The same tree with X-CPUHeadroom= in its place, a name of the
//! same length, then shows that `properties` has the value, the file and the line of the last.
//!
//! proptest generates, since it also looks for the smallest case that still differs.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cgctl::setting::Key;
use cgctl::testing::TempDir;
use cgctl::tree::Host;
use cgctl::unit::{Finder, SEARCH_PATH};
use cgctl::unit_file::lines_with_ends;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

const THEIRS: &str = "CPUAccounting";
const OURS: &str = "X-CPUHeadroom";
/// It wants the unit, so that systemd looks for that as it does for any other.
const ROOT_UNIT: &str = "etc/systemd/system/root.target";

/// What is at a path.
#[derive(Clone)]
enum Item {
    File(Vec<u8>),
    Directory,
    /// A link to something in the tree, by the path from the tree's root: relative or not.
    Link(String, bool),
    Null,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::File(bytes) if bytes.len() > 2000 => write!(f, "{} bytes", bytes.len()),
            Item::File(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Item::Directory => write!(f, "a directory"),
            Item::Link(to, relative) => write!(f, "a {} link to {to}", if *relative { "relative" } else { "full" }),
            Item::Null => write!(f, "a link to /dev/null"),
        }
    }
}

/// A unit and the files that may be its.
#[derive(Clone)]
struct Case {
    unit: String,
    items: BTreeMap<String, Item>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, of", self.unit)?;
        self.items.iter().try_for_each(|(path, item)| writeln!(f, "  {path}: {item:?}"))
    }
}

impl Case {
    /// Write the tree; where one path is below another that is no directory, it is left out.
    fn write(&self, root: &Path, key: &str) {
        for dir in SEARCH_PATH {
            std::fs::create_dir_all(root.join(&dir[1..])).unwrap();
        }
        for (path, item) in &self.items {
            let path = root.join(path);
            let parent = path.parent().unwrap();
            if std::fs::create_dir_all(parent).is_err() || path.symlink_metadata().is_ok() {
                continue;
            }
            match item {
                Item::File(bytes) => std::fs::write(&path, replace(bytes, THEIRS, key)),
                Item::Directory => std::fs::create_dir(&path),
                Item::Link(to, false) => symlink(root.join(to), &path),
                Item::Link(to, true) => {
                    let up = parent.strip_prefix(root).unwrap().components().map(|_| "..");
                    symlink(up.collect::<PathBuf>().join(to), &path)
                }
                Item::Null => symlink("/dev/null", &path),
            }.unwrap();
        }
        std::fs::write(root.join(ROOT_UNIT), format!("[Unit]\nWants={}\n", self.unit)).unwrap();
    }
}

fn replace(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (taken, put) = if rest.starts_with(old.as_bytes()) { (old.len(), new.as_bytes()) } else { (1, &rest[..1]) };
        out.extend_from_slice(put);
        rest = &rest[taken..];
    }
    out
}

/// File without the tree's root, last line, value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    file: PathBuf,
    end: usize,
    value: String,
}

/// A release of systemd.
struct Oracle {
    program: PathBuf,
    release: String,
    reads_masked: bool,
}

impl Oracle {
    fn new(program: &Path) -> Oracle {
        let version = Command::new(program).arg("--version").output().expect("systemd-analyze runs");
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let release = version.split(' ').nth(1).expect("a version").to_string();
        let mut oracle = Oracle { program: program.into(), release, reads_masked: false };
        // Point releases differ: what this one does.
        let dropin = "[Service]\nCPUAccounting=0.01\n";
        let items = [("etc/systemd/system/m.service".into(), Item::Null),
                     ("etc/systemd/system/m.service.d/x.conf".into(), Item::File(dropin.into()))];
        let case = Case { unit: "m.service".into(), items: items.into_iter().collect() };
        let dir = TempDir::new();
        case.write(dir.path(), THEIRS);
        oracle.reads_masked = !oracle.read(dir.path(), &case.unit).is_empty();
        oracle
    }

    fn run(&self, root: &Path, command: &[&str]) -> (String, String) {
        let path: Vec<String> = SEARCH_PATH.iter().map(|dir| format!("{}{dir}", root.display())).collect();
        let done = Command::new(&self.program).args(command).current_dir("/").env("SYSTEMD_UNIT_PATH", path.join(":"))
            .env("SYSTEMD_LOG_LEVEL", "info").env("LC_ALL", "C").env_remove("SYSTEMD_LOG_TARGET").output()
            .expect("systemd-analyze runs");
        (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
    }

    /// What it reads of the tree's unit, in its order, and then of the slices that it is in. When a unit turns out to
    /// have another name it is read again; the last time counts.
    fn read(&self, root: &Path, unit: &str) -> Vec<Read> {
        let (_, messages) = self.run(root, &["verify", "root.target"]);
        let parse = |line: &str| {
            let (file, rest) = line.split_once(':')?;
            let (end, rest) = rest.split_once(": Failed to parse ")?;
            let value = match rest.strip_prefix("boolean value, ignoring: ") {
                Some(value) => value,
                None => rest.strip_prefix("CPUAccounting=")?.strip_suffix(", ignoring: Invalid argument")?,
            };
            // What is continued at the end of a file is said to be in the line after it.
            let lines = lines_with_ends(&std::fs::read(file).ok()?).count();
            Some(Read { file: file.into(), end: lines.min(end.parse().ok()?), value: value.into() })
        };
        let all: Vec<Read> = messages.lines().filter_map(parse).collect();
        if unit.ends_with(".slice") {
            return all;
        }
        let again = |i: usize| all[i + 1..].iter().any(|later| (&later.file, later.end) == (&all[i].file, all[i].end));
        (0..all.len()).filter(|i| !again(*i)).map(|i| all[i].clone()).collect()
    }
}

fn finder(root: &Path, oracle: &Oracle) -> Finder {
    let mut finder = Finder::new(&Host::new(None));
    finder.rules.path = SEARCH_PATH.iter().map(|dir| format!("{}{dir}", root.display())).collect();
    finder.rules.reads_masked = oracle.reads_masked;
    finder
}

/// Directories of drop-ins may be links; systemd names what they lead to.
fn real(file: &Path) -> PathBuf {
    let dir = file.parent().and_then(|dir| dir.canonicalize().ok());
    dir.unwrap_or_default().join(file.file_name().unwrap_or_default())
}

fn orders(names: &[String]) -> Vec<Vec<String>> {
    if names.is_empty() {
        return vec![vec![]];
    }
    (0..names.len()).flat_map(|i| {
        let mut rest = names.to_vec();
        let first = rest.remove(i);
        orders(&rest).into_iter().map(move |order| [vec![first.clone()], order].concat())
    }).collect()
}

/// The slices that a slice is in, which systemd loads after it: up to the first that has a file but cannot be loaded,
/// which is that of nobody.
fn slices_above(unit: &str, finder: &Finder) -> Vec<String> {
    let mut above = Vec::new();
    let mut slice = unit.to_string();
    while slice.ends_with(".slice") && slice != "-.slice" && finder.fragment(&slice).is_none_or(|file| has_text(&file)) {
        let (parent, _) = slice.rsplit_once('-').unwrap_or(("-", ""));
        slice = format!("{parent}.slice");
        above.push(slice.clone());
    }
    above
}

/// Not so masks, and links that lead nowhere.
fn has_text(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

/// The section in which both properties stand.
fn section(unit: &str) -> &'static str {
    cgctl::unit::section(unit).unwrap()
}

/// Compare; returns how many assignments were read.
fn compare(case: &Case, oracle: &Oracle) -> Result<usize, String> {
    let dir = TempDir::new();
    let root = dir.path().canonicalize().unwrap();
    let (theirs, ours) = (root.join("theirs"), root.join("ours"));
    case.write(&theirs, THEIRS);
    case.write(&ours, OURS);
    let expected = oracle.read(&theirs, &case.unit);
    // Those of the unit, and of what is loaded after it.
    let read_one = |unit: &str, names: &[String]| -> Vec<(Read, usize)> {
        let all = finder(&theirs, oracle).assignments(unit, names);
        let these = all.into_iter().filter(|(_, a)| a.key == THEIRS && a.section == section(&case.unit));
        these.map(|(file, a)| (Read { file: real(&file), end: a.end, value: a.value }, a.line)).collect()
    };
    let above: Vec<(Read, usize)> = slices_above(&case.unit, &finder(&theirs, oracle)).iter().flat_map(|slice| read_one(slice, &[])).collect();
    let read = |names: &[String]| [read_one(&case.unit, names), above.clone()].concat();
    let same = |found: &[(Read, usize)]| found.iter().map(|(read, _)| read).eq(&expected);
    let names = finder(&theirs, oracle).find_aliases().of(&case.unit);
    // Of several aliases, none comes first: systemd takes them as its hash table has them.
    let Some((order, found)) = orders(&names).into_iter().map(|order| (order.clone(), read(&order))).find(|(_, found)| same(found))
    else {
        let list = |reads: &[Read]| -> String {
            let line = |read: &Read| {
                let file = read.file.strip_prefix(&theirs).unwrap_or(&read.file);
                format!("    {}:{}: {:?}\n", file.display(), read.end, read.value)
            };
            reads.iter().map(line).collect()
        };
        let found: Vec<Read> = read(&names).into_iter().map(|(read, _)| read).collect();
        return Err(format!("systemd {} reads\n{}  cgctl reads, with the aliases {names:?}\n{}", oracle.release,
                           list(&expected), list(&found)));
    };
    let own = found.len() - above.len();
    let mut winner = None;
    for (read, line) in &found[..own] {
        if read.value.is_empty() {
            winner = None;
        } else if let Ok(value) = Key::Headroom.parse(&read.value) {
            winner = Some((value, read.file.strip_prefix(&theirs).unwrap().to_path_buf(), *line));
        }
    }
    let properties = finder(&ours, oracle).properties(&case.unit, &order).values.remove(&Key::Headroom)
        .map(|(value, origin)| (value, real(&origin.file).strip_prefix(&ours).unwrap().to_path_buf(), origin.line));
    if properties != winner {
        return Err(format!("the last that counts is {winner:?}, but properties() says {properties:?}"));
    }
    Ok(expected.len())
}

/// What a file says when its place is what matters; each says something else.
fn plain(number: usize, kind: &str) -> Vec<u8> {
    // Now and then nothing, which takes back what came before, and something behind that.
    let text = match number % 7 {
        0 => format!("{THEIRS}=\n"),
        1 => format!("{THEIRS}=\n{THEIRS}=0.{number:02}\n"),
        _ => format!("{THEIRS}=0.{number:02}\n"),
    };
    format!("[{}]\n{text}", section(&format!("x.{kind}"))).into_bytes()
}

const STEMS: [&str; 22] = [
    "ab", "ab-", "ab-cd", "ab-cd-", "ab--cd", "ab-cd-ef", "ab@", "ab@i", "ab-@", "ab-@i", "ab-cd@", "ab-cd@i",
    "ab-cd@i-j", "ab-cd@i.j", "ab-cd@i@j", "ab-cd-@i", "al", "al-x", "al@", "al-x@", "al-x@i", "-ab",
];
/// What can be asked for: no templates.
const UNITS: [&str; 15] = [
    "ab", "ab-cd", "ab--cd", "ab-cd-ef", "ab@i", "ab-cd@i", "ab-cd@i-j", "ab-cd@i.j", "ab-cd@i@j", "ab-cd-@i", "al",
    "al-x", "al-x@i", "ab-", "ab-cd@k",
];
const PLACES: [&str; 14] = [
    "etc/systemd/system", "etc/systemd/system", "usr/lib/systemd/system", "usr/lib/systemd/system", "run/systemd/system",
    "etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient", "run/systemd/generator.early",
    "etc/systemd/system.attached", "run/systemd/system.attached", "run/systemd/generator", "usr/local/lib/systemd/system",
    "run/systemd/generator.late",
];
const FILES: [&str; 8] = ["10.conf", "20.conf", "5.conf", "a.conf", "B.conf", ".c.conf", "d.conf~", "conf"];

fn stem() -> impl Strategy<Value = String> {
    proptest::sample::select(&STEMS[..]).prop_map(str::to_string)
}

fn place() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&PLACES[..])
}

/// A unit's file, as a number of `plain`, or something else.
fn fragment(kind: &'static str) -> impl Strategy<Value = (String, Option<Item>)> {
    let link = (place(), stem(), any::<bool>(), 0..6u8).prop_map(move |(dir, stem, relative, far)| {
        // Mostly to another unit, sometimes to one of another type, to one further down, or out of the search path.
        let to = match far {
            0 => format!("opt/{stem}.{kind}"),
            1 => format!("{dir}/sub/{stem}.{kind}"),
            2 => format!("{dir}/{stem}.{}", if kind == "service" { "socket" } else { "service" }),
            _ => format!("{dir}/{stem}.{kind}"),
        };
        Some(Item::Link(to, relative))
    });
    let item = prop_oneof![
        8 => Just(None), 5 => link, 1 => Just(Some(Item::Null)), 1 => Just(Some(Item::File(vec![]))),
        1 => Just(Some(Item::Directory)),
    ];
    let dir = prop_oneof![9 => place(), 1 => Just("opt")];
    (dir, stem(), item).prop_map(move |(dir, stem, item)| (format!("{dir}/{stem}.{kind}"), item))
}

fn dropin(kind: &'static str) -> impl Strategy<Value = (String, Option<Item>)> {
    let name = prop_oneof![9 => stem().prop_map(move |stem| format!("{stem}.{kind}")), 1 => Just(kind.to_string())];
    let item = prop_oneof![
        12 => Just(None), 1 => Just(Some(Item::Null)), 1 => Just(Some(Item::File(vec![]))), 1 => Just(Some(Item::Directory)),
        1 => (place(), stem()).prop_map(move |(dir, stem)| Some(Item::Link(format!("{dir}/{stem}.{kind}"), true))),
    ];
    (place(), name, proptest::sample::select(&FILES[..]), item)
        .prop_map(|(dir, name, file, item)| (format!("{dir}/{name}.d/{file}"), item))
}

/// A directory of drop-ins that is a link.
fn dropin_link(kind: &'static str) -> impl Strategy<Value = (String, Option<Item>)> {
    (place(), stem(), place(), stem(), any::<bool>()).prop_map(move |(dir, stem, to, target, relative)| {
        (format!("{dir}/{stem}.{kind}.d"), Some(Item::Link(format!("{to}/{target}.{kind}.d"), relative)))
    })
}

fn tree_of(kind: &'static str) -> impl Strategy<Value = Case> {
    let item = prop_oneof![3 => fragment(kind), 8 => dropin(kind), 1 => dropin_link(kind)];
    let usual = proptest::option::weighted(0.7, place());
    let units = UNITS.into_iter().filter(|stem| {
        kind != "slice" || !stem.contains('@') && cgctl::unit::slice_path(&format!("{stem}.slice")).is_some()
    });
    (proptest::sample::select(units.collect::<Vec<_>>()), usual, proptest::collection::vec(item, 1..40)).prop_map(move |(stem, usual, items)| {
        let mut case = Case { unit: format!("{stem}.{kind}"), items: BTreeMap::new() };
        if let Some(dir) = usual {
            case.items.insert(format!("{dir}/{stem}.{kind}"), Item::File(plain(99, kind)));
        }
        for (number, (path, item)) in items.into_iter().enumerate() {
            case.items.entry(path).or_insert(item.unwrap_or_else(|| Item::File(plain(number + 1, kind))));
        }
        case
    })
}

fn trees() -> BoxedStrategy<Case> {
    prop_oneof![
        8 => tree_of("service"), 1 => tree_of("socket"), 1 => tree_of("slice"),
    ].boxed()
}

/// A piece of a unit file, good or bad.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |pieces: &'static [&'static [u8]]| proptest::sample::select(pieces).prop_map(<[u8]>::to_vec);
    let assignment = (0..100u32).prop_map(|number| format!("{THEIRS}=0.{number:02}").into_bytes());
    prop_oneof![
        8 => bytes(&[b"\n"]),
        2 => bytes(&[b"\r\n", b"\r", b"\n\r", b"\n\n", b"\0", b"\n\0", b"\r\0\n", b"\r\r"]),
        8 => assignment,
        2 => bytes(&[b"CPUAccounting=", b"CPUAccounting = ", b"CPUAccounting", b"=", b"cpuaccounting=x", b"CPUAccounting==",
                     b"Nice=3", b"X-CPUAccounting=1", b"CPUAccounting=\"a b\"", b"CPUAccounting=%n", b"CPUAccounting=$$ %%"]),
        4 => bytes(&[b"[Service]\n"]),
        2 => bytes(&[b"[Unit]\n", b"[Service]", b"[Install]", b"[X-Ours]\n", b"[service]\n", b"[Ser vice]\n", b"[]\n"]),
        1 => bytes(&[b"[Service] # c\n", b"[Service]x\n", b"[Service", b"[", b"]", b"[Ser\"vice]\n", b"[Ser'vice]", b"[a\\b]\n",
                     b"[\x01]\n", b"[\x7f]\n", b"[Service][Unit]\n", b"[S\xc3\xa9rvice]\n"]),
        3 => bytes(&[b"#", b";", b"\n# c\n", b"\n ;c\n", b"\n#c\\\n", b"#\xff\n"]),
        4 => bytes(&[b"\\\n", b"\\", b"\\\\", b"\\\\\n", b"\\\\\\\n", b"\\ \n", b"\\\r\n"]),
        3 => bytes(&[b" ", b"\t", b"  "]),
        1 => bytes(&[b"\x0b", b"\x0c", b"\x1f", b"\x7f", b"\xc2\xa0", b"\xc3\xa9", b"\xc2\x85",
                     b"\xf4\x8f\xbf\xbd", b"\xe2\x80\xa8"]),
        1 => bytes(&[b"\xef\xbb\xbf", b"\n\xef\xbb\xbf", b"\xef\xbb\xbf[Service]\n"]),
    ]
}

/// What ends a file is rarer: of several, only the first counts.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let bad: &[&[u8]] = &[b"\xff", b"\xc3", b"\xef\xbf\xbe", b"\xef\xb7\x90", b"\xf0\x9f\xbf\xbf", b"\xed\xa0\x80",
                          b"\xc0\x80", b"\xf4\x90\x80\x80"];
    let bad = proptest::sample::select(bad).prop_map(<[u8]>::to_vec);
    let pieces = prop_oneof![
        3 => proptest::collection::vec(piece(), 0..24),
        1 => proptest::collection::vec(prop_oneof![12 => piece(), 1 => bad], 0..24),
    ];
    let begin = prop_oneof![6 => Just(&b"[Service]\n"[..]), 1 => Just(&b"\xef\xbb\xbf[Service]\n"[..]), 1 => Just(&b""[..])];
    (begin, pieces).prop_map(|(begin, pieces)| [begin.to_vec(), pieces.concat()].concat())
}

fn files() -> BoxedStrategy<Case> {
    (text(), text(), text()).prop_map(|texts| {
        let paths = ["usr/lib/systemd/system/m.service", "etc/systemd/system/m.service.d/10.conf",
                     "etc/systemd/system/m.service.d/20.conf"];
        let texts: [Vec<u8>; 3] = texts.into();
        let items = paths.into_iter().map(str::to_string).zip(texts.into_iter().map(Item::File)).collect();
        Case { unit: "m.service".into(), items }
    }).boxed()
}

/// Lines at the limit, which are too large to be many.
fn long_lines() -> Vec<Case> {
    const LIMIT: usize = 1 << 20;
    let line = |length: usize, begin: &str| [begin.as_bytes(), &vec![b'x'; length - begin.len()]].concat();
    let mut texts = Vec::new();
    for length in [LIMIT - 2, LIMIT - 1, LIMIT, LIMIT + 1] {
        texts.push(line(length, "X-A="));
        texts.push(line(length, "#"));
        texts.push([line(length, "X-A="), b"\\".to_vec()].concat());
        // Two that are one.
        texts.push([line(LIMIT / 2, "X-A="), b"\\\n".to_vec(), line(length - LIMIT / 2, "x")].concat());
        texts.push([line(LIMIT / 2, "X-A="), b"\\\n".to_vec(), line(length - LIMIT / 2 - 1, "x")].concat());
        texts.push([b"\xef\xbb\xbf".to_vec(), line(length - 3, "X-A=")].concat());
    }
    texts.into_iter().map(|text| {
        let begin = format!("[Service]\n{THEIRS}=0.01\n");
        let text = [begin.as_bytes(), &text, format!("\n{THEIRS}=0.02\n").as_bytes()].concat();
        let items = [("usr/lib/systemd/system/m.service".to_string(), Item::File(begin.into_bytes())),
                     ("etc/systemd/system/m.service.d/1.conf".to_string(), Item::File(text))];
        Case { unit: "m.service".into(), items: items.into_iter().collect() }
    }).collect()
}

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().unwrap_or_else(|_| {
            eprintln!("unit_files: {name}={text}: a whole number is wanted");
            std::process::exit(2);
        }),
        _ => default,
    }
}

/// Random cases; what they read on average must be something, or the comparison would be of nothing.
fn random(oracle: &Oracle, cases: u64, seed: u64, strategy: BoxedStrategy<Case>) -> Result<String, String> {
    let config = Config { cases: cases as u32, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let read = std::cell::Cell::new(0);
    let done = runner.run(&strategy, |case| match compare(&case, oracle) {
        Ok(count) => {
            read.set(read.get() + count);
            Ok(())
        }
        Err(difference) => Err(TestCaseError::fail(difference)),
    });
    match done {
        Err(TestError::Fail(difference, case)) => Err(format!("  {case:?}  {difference}")),
        Err(TestError::Abort(reason)) => Err(reason.to_string()),
        Ok(()) if read.get() < cases as usize => Err(format!("only {} assignments in {cases} cases", read.get())),
        Ok(()) => Ok(format!("{} assignments in {cases} cases", read.get())),
    }
}

/// Where it looks for units by itself is where we do. Of Debian 12's, /lib is a link to /usr/lib.
fn search_path(oracle: &Oracle) -> Result<String, String> {
    let done = Command::new(&oracle.program).arg("unit-paths").env_remove("SYSTEMD_UNIT_PATH").output();
    let text = String::from_utf8_lossy(&done.map_err(|e| e.to_string())?.stdout).into_owned();
    let theirs: Vec<&str> = text.lines().filter(|dir| *dir != "/lib/systemd/system").collect();
    if theirs == SEARCH_PATH { Ok(String::new()) } else { Err(format!("systemd has {theirs:?}, cgctl {SEARCH_PATH:?}")) }
}

fn main() -> std::process::ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "systemd-analyze".into());
    if Command::new(&wanted).arg("--version").output().is_err() {
        println!("unit_files: not run: there is no {wanted} here");
        return (u8::from(wanted != "systemd-analyze")).into();
    }
    let oracle = Oracle::new(Path::new(&wanted));
    let (cases, seed) = (number("CASES", 500), number("SEED", 1));
    let long = || long_lines().iter().try_fold(0, |sum, case| {
        compare(case, &oracle).map(|count| sum + count).map_err(|difference| format!("  {case:?}  {difference}"))
    }).map(|sum| format!("{sum} assignments"));
    let tests: [(&str, &dyn Fn() -> Result<String, String>); 4] = [
        ("search_path", &|| search_path(&oracle)), ("trees", &|| random(&oracle, cases, seed, trees())),
        ("files", &|| random(&oracle, cases, seed, files())), ("long_lines", &long),
    ];
    let only = std::env::args().nth(2).unwrap_or_default();
    let tests: Vec<_> = tests.into_iter().filter(|(name, _)| only.is_empty() || *name == only).collect();
    println!("running {} tests", tests.len());
    let mut failures = Vec::new();
    for (name, test) in tests {
        let name = format!("systemd_{}::{name}", oracle.release);
        let start = std::time::Instant::now();
        match test() {
            Ok(note) => {
                println!("test {name} ... ok");
                println!("  {:.1} s {note}", start.elapsed().as_secs_f32());
            }
            Err(reason) => {
                println!("test {name} ... FAILED");
                failures.push(format!("---- {name} stdout ----\n{reason}\n  the generator's SEED was {seed}\n"));
            }
        }
    }
    for failure in &failures {
        println!("{failure}");
    }
    u8::from(!failures.is_empty()).into()
}
