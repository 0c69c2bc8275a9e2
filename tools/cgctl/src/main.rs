// SPDX-License-Identifier: GPL-2.0-only
//! The command: what was asked for, done by the library; results to standard output, the rest to standard error.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use cgctl::cli::{self, Cli, Command, Format};
use cgctl::doctor::{self, Verdict};
use cgctl::error::{Error, Kind, Result};
use cgctl::keep::Keep;
use cgctl::output::{note, print, Stdout};
use cgctl::persist::{self, daemon_runs, Kept, Lasting};
use cgctl::policy::{self, Policy, Rule};
use cgctl::run::{self, Run};
use cgctl::set::{Change, Options, Plan};
use cgctl::setting::{parse_assignments, same, Key, Settings};
use cgctl::state::{policies, require_files, State};
use cgctl::tree::{display, Host, Tree};
use cgctl::{columns, events, reach, show, target, top, unit, watch};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) if message.use_stderr() => message.exit(),
        // --help and --version
        Err(message) => return status(print(message.render().to_string()).map(|()| 0)),
    };
    let host = Host::new(cli.root.as_deref());
    let running = matches!(cli.command, Some(Command::Run { .. }));
    match execute(&host, cli.command) {
        Err(error) if running => {
            note(error);
            ExitCode::from(run::NOT_STARTED)
        }
        done => status(done),
    }
}

/// The exit status, with the error said.
fn status(done: Result<u8>) -> ExitCode {
    done.inspect_err(|error| note(error)).map_or_else(|error| ExitCode::from(error.kind as u8), ExitCode::from)
}

fn execute(host: &Host, command: Option<Command>) -> Result<u8> {
    match command.unwrap_or(Command::Show { targets: vec![], format: Format::default() }) {
        Command::Show { targets, format } => show_groups(host, &targets, format)?,
        Command::Tree { target, all, format } => show_tree(host, target.as_deref(), all, format)?,
        Command::Set { target, settings, persist, runtime, propagate, enable, skip_missing, dry_run, json } => {
            let lasting = if persist { Some(Lasting::Always) } else { runtime.then_some(Lasting::UntilBoot) };
            // What is kept is to have an effect now.
            let enable = enable || lasting.is_some();
            let options = Options { propagate, enable, skip_missing, may_vanish: false };
            set(host, &target, &settings, lasting, options, dry_run, json)?;
        }
        Command::Run { hint, gang, headroom, slice, user, no_systemd, command } => {
            let settings = run_settings(hint, gang, headroom)?;
            return run::run(host, &Run { settings, slice, user, no_systemd, command });
        }
        Command::Top { interval, sort, all, batch } => {
            let interval = Duration::from_secs_f64(interval);
            match batch {
                Some(looks) => top::batch(host, interval, sort, all, looks, &mut Stdout)?,
                None if !std::io::stdout().is_terminal() =>
                    return Err(Error::new(Kind::Usage, "top draws on a terminal; without one use --batch N")),
                None => top::interactive(host, interval, sort, all)?,
            }
        }
        Command::WatchEvents { interval, count, json } => {
            let options = events::Options { interval: Duration::from_secs_f64(interval), count, json };
            events::run(host, &options, &mut Stdout)?;
        }
        Command::Apply { file, dry_run, enable, strict, json } => apply(host, &file, dry_run, enable, strict, json)?,
        Command::Dump => {
            let tree = host.open_tree()?;
            require_files(&tree)?;
            print(policy::dump(&tree)?)?;
        }
        Command::Diff { file, json } => return diff(host, &file, json),
        Command::Doctor { target, json } => {
            let findings = doctor::examine(host, target.as_deref())?;
            print(if json { to_json(&findings) } else { doctor::text(&findings) })?;
            return Ok(findings.iter().any(|finding| finding.verdict == Verdict::Missing).into());
        }
        Command::Watch { once, verbose } => watch::run(host, once, verbose)?,
        Command::Properties { unit, json } => properties(host, &unit, json)?,
        Command::Help { about } => print(cli::help(about.as_deref())?)?,
        Command::Completions { shell } => {
            print(cli::completions(shell))?;
        }
        Command::Man { directory } => {
            for (name, page) in cli::manual() {
                let path = directory.join(name);
                std::fs::write(&path, page).map_err(|e| Error::io(path.display(), e))?;
            }
        }
    }
    Ok(0)
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The groups that have a policy; an error where none can have one.
fn every_policy(tree: &Tree) -> Result<Vec<State>> {
    let found = policies(tree, "")?;
    if found.is_empty() {
        require_files(tree)?;
    }
    Ok(found)
}

fn show_groups(host: &Host, targets: &[String], format: Format) -> Result<()> {
    let tree = host.open_tree()?;
    let states: Vec<State> = if targets.is_empty() {
        every_policy(&tree)?
    } else {
        targets.iter().map(|target| show::one(&tree, &target::resolve(host, &tree, target)?)).collect::<Result<_>>()?
    };
    print(if format.json {
        show::json(&states)
    } else if format.tsv {
        show::tsv(&states)
    } else if states.is_empty() {
        show::no_policy(&tree)?
    } else if targets.is_empty() {
        show::table_text(&states, columns::available())
    } else {
        states.iter().map(show::group_text).collect::<Vec<_>>().join("\n")
    })
}

fn show_tree(host: &Host, target: Option<&str>, all: bool, format: Format) -> Result<()> {
    let tree = host.open_tree()?;
    let from = target.map(|target| target::resolve(host, &tree, target)).transpose()?.unwrap_or_default();
    require_files(&tree)?;
    if !format.json && !format.tsv {
        return print(show::tree_text(&tree, &from, all, columns::available())?);
    }
    let mut states = Vec::new();
    tree.walk(&from, &mut |group| {
        let mut state = State::brief(group);
        if all || state.says_something() {
            state.complete(&tree, group);
            states.push(state);
        }
    })?;
    print(if format.json { show::json(&states) } else { show::tsv(&states) })
}

/// What systemd has to be told, where the controller is to be enabled for good.
fn plan_keep(host: &Host, tree: &Tree, plan: &Plan) -> Keep {
    Keep::plan(host, tree, plan.groups()).unwrap_or_else(|error| {
        warn_of_systemd(&error);
        Keep::default()
    })
}

fn warn_of_systemd(error: &Error) {
    note(format!("{error}; systemd may disable the cpu controller again, and what is set goes with it"));
}

/// systemd first: what it does not know to be needed it may disable at any time.
fn carry_out(tree: &Tree, plan: &Plan, keep: &mut Keep) -> Result<BTreeSet<String>> {
    if let Err(error) = keep.commit() {
        warn_of_systemd(&error);
    }
    plan.commit(tree).inspect_err(|_| keep.undo())
}

/// A headroom is written where it was asked for, but it may bind nobody there.
fn warn_of_reach(tree: &Tree, plan: &Plan) {
    let set: Vec<(&str, &str)> = plan.changes().map(|change| (change.path.as_str(), change.key, change.new.as_str()))
        .chain(plan.unchanged.iter().map(|(path, key, value)| (path.as_str(), *key, value.as_str())))
        .filter(|(_, key, value)| *key == Key::Headroom && !same(*key, value, key.default_value()))
        .map(|(path, _, value)| (path, value)).collect();
    for (path, value) in &set {
        let unbound = reach::unbound(tree, path)
            .filter(|unbound| !set.iter().any(|(other, _)| unbound.belongs.as_deref() == Some(other)));
        if let Some(unbound) = unbound {
            note(format!("{}: headroom={value}: {unbound}", display(path)));
        }
    }
}

/// What is set on a unit against its own files does not last, as the daemon reads those again.
fn warn_of_files(host: &Host, tree: &Tree, plan: &Plan) {
    if !daemon_runs(host) {
        return;
    }
    let values = plan.changes().map(|change| (change.path.as_str(), change.key, change.new.as_str()))
        .chain(plan.unchanged.iter().map(|(path, key, value)| (path.as_str(), *key, value.as_str())));
    for overruled in persist::overruled(host, tree, values) {
        note(format!("{overruled}; cgctl.service sets that again with the unit's next start or daemon-reload, and when \
                      something starts or ends beside it. 'cgctl set --runtime' or '--persist' keeps another value"));
    }
}

/// Say what was done, or would be.
fn report(plan: &Plan, keep: &Keep, kept: &Kept, mut vanished: BTreeSet<String>, dry_run: bool, json: bool) -> Result<()> {
    let changes: Vec<&Change> = plan.changes().filter(|change| !vanished.contains(&change.path)).collect();
    vanished.extend(plan.vanished.iter().cloned());
    let mut out = String::new();
    if json {
        let skipped: Vec<_> = plan.skipped.iter().map(|(path, key)| serde_json::json!({ "path": path, "key": key })).collect();
        let files: Vec<_> = kept.files().map(|(path, written)| (path, if written { "written" } else { "removed" }))
            .chain(kept.unchanged.iter().map(|path| (path.as_str(), "unchanged")))
            .map(|(path, what)| serde_json::json!({ "path": path, "what": what })).collect();
        out = to_json(&serde_json::json!({
            "dry_run": dry_run, "keep": keep.units, "enable": plan.enable, "changes": changes, "skipped": skipped,
            "files": files, "warnings": kept.warnings, "vanished": vanished,
        }));
    } else {
        for unit in &keep.units {
            out += &format!("{unit}: CPUWeight=100 until the next boot, so that systemd keeps the cpu controller\n");
        }
        for path in &plan.enable {
            out += &format!("{}: cgroup.subtree_control +cpu\n", display(path));
        }
        for change in changes {
            out += &format!("{change}\n");
        }
        for (path, key) in &plan.skipped {
            note(format!("{} has no {}: this kernel does not have it", display(path), key.file()));
        }
        for path in &vanished {
            note(format!("{} went away meanwhile and is left out", display(path)));
        }
        for (path, key, value) in &plan.unchanged {
            out += &format!("{}: {} {value} already\n", display(path), key.name());
        }
        for (path, written) in kept.files() {
            let what = if written { "written" } else { "removed" };
            out += &format!("{path}: {}{what}\n", if dry_run { "would be " } else { "" });
        }
        for path in &kept.unchanged {
            out += &format!("{path}: says so already\n");
        }
        if dry_run {
            out += "nothing was written\n";
        }
    }
    print(out).map_err(|mut error| {
        error.message += if dry_run { "" } else { "; what was asked for is done, only this report of it is lost" };
        error
    })
}

fn set(host: &Host, target: &str, words: &[String], lasting: Option<Lasting>, options: Options, dry_run: bool, json: bool)
    -> Result<()> {
    let settings = parse_assignments(words)?;
    let tree = host.open_tree()?;
    let mut resolved = target::resolve(host, &tree, target);
    // A unit that does not run now can have a drop-in all the same.
    let named = match (&resolved, lasting) {
        (Err(error), Some(_)) if error.kind == Kind::NotFound => persist::named(host, target),
        _ => None,
    };
    if let Some(name) = &named {
        resolved = target::of_unit(&tree, name);
    }
    let mut plan = Plan::default();
    let path = match (resolved, named) {
        (Ok(path), _) => {
            plan.add(&tree, &path, &settings, options)?;
            path
        }
        (Err(_), Some(name)) => name,
        (Err(error), None) => return Err(error),
    };
    let kept = match lasting {
        Some(lasting) => {
            // What ancestors get so that it has an effect has to last as long.
            let above = plan.changes().filter(|change| change.reason.is_some())
                .map(|change| (change.path.clone(), Settings::from([(change.key, change.new.clone())])));
            let groups: Vec<(String, Settings)> = std::iter::once((path, settings.clone())).chain(above).collect();
            Kept::plan(host, &tree, &groups, lasting)?
        }
        None => Kept::default(),
    };
    let mut keep = if options.enable { plan_keep(host, &tree, &plan) } else { Keep::default() };
    if !dry_run {
        // The drop-in first: of the two, it is the one that is taken back without a trace.
        kept.write()?;
        carry_out(&tree, &plan, &mut keep).inspect_err(|_| kept.undo())?;
        if kept.files().next().is_some() {
            persist::reload(host)?;
        }
    }
    kept.warnings.iter().for_each(note);
    report(&plan, &keep, &kept, BTreeSet::new(), dry_run, json)?;
    warn_of_reach(&tree, &plan);
    if lasting.is_none() {
        warn_of_files(host, &tree, &plan);
    } else if !daemon_runs(host) {
        note(format!("cgctl.service does not run, so the next start of {} will not see it:  \
                      systemctl enable --now cgctl.service", kept.units.join(", ")));
    }
    if options.propagate && lasting.is_some() && plan.groups().next().is_none() {
        note(format!("{} does not run now, so it is not known what is above it; nothing was propagated",
                     kept.units.join(", ")));
    }
    Ok(())
}

fn run_settings(hint: Option<String>, gang: Option<String>, headroom: Option<String>) -> Result<Settings> {
    let mut settings = Settings::new();
    if let Some(hint) = hint {
        settings.insert(Key::Hint, Key::Hint.parse(&hint)?);
    }
    if let Some(scope) = gang {
        settings.insert(Key::GangScope, Key::GangScope.parse(&scope)?);
        settings.insert(Key::Gang, "1".into());
    }
    if let Some(headroom) = headroom {
        settings.insert(Key::Headroom, Key::Headroom.parse(&headroom)?);
    }
    Ok(settings)
}

fn read_policy(file: &Path) -> Result<Policy> {
    let name = file.display().to_string();
    let text = if name == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    Policy::parse(&name, &text.map_err(|e| Error::io(&name, e))?)
}

fn say_unused(file: &Path, unused: &[&Rule]) {
    for rule in unused {
        note(format!("{}:{}: no group is {} now", file.display(), rule.line, rule.subject));
    }
}

fn apply(host: &Host, file: &Path, dry_run: bool, enable: bool, strict: bool, json: bool) -> Result<()> {
    let policy = read_policy(file)?;
    let tree = host.open_tree()?;
    let (plan, unused) = policy.plan(&tree, enable)?;
    say_unused(file, &unused);
    if strict && !unused.is_empty() {
        return Err(Error::not_found("nothing was written, because of --strict"));
    }
    let mut keep = if enable { plan_keep(host, &tree, &plan) } else { Keep::default() };
    let vanished = if dry_run { BTreeSet::new() } else { carry_out(&tree, &plan, &mut keep)? };
    report(&plan, &keep, &Kept::default(), vanished, dry_run, json)?;
    warn_of_reach(&tree, &plan);
    warn_of_files(host, &tree, &plan);
    Ok(())
}

fn diff(host: &Host, file: &Path, json: bool) -> Result<u8> {
    let policy = read_policy(file)?;
    let (plan, unused) = policy.plan(&host.open_tree()?, true)?;
    say_unused(file, &unused);
    let changes: Vec<&Change> = plan.changes().collect();
    print(if json { to_json(&changes) } else { changes.iter().map(|change| format!("{change}\n")).collect() })?;
    Ok((!changes.is_empty()).into())
}

fn properties(host: &Host, name: &str, json: bool) -> Result<()> {
    if unit::section(name).is_none() {
        return Err(Error::invalid(format!("'{name}' is no unit that has a cgroup; it ends in one of: .{}",
                                          unit::TYPES.join(" ."))));
    }
    let finder = persist::finder(host);
    let found = finder.properties(name, &finder.find_aliases().of(name));
    if json {
        let values: Vec<_> = found.values.iter().map(|(key, (value, origin))| {
            serde_json::json!({ "key": key, "value": value, "file": origin.file, "line": origin.line })
        }).collect();
        print(to_json(&values))?;
    } else {
        print(found.values.iter().map(|(key, (value, origin))| {
            format!("{}={value}\t{}:{}\n", key.property(), origin.file.display(), origin.line)
        }).collect::<String>())?;
    }
    for complaint in found.complaints.iter().chain(&found.unread) {
        note(complaint);
    }
    if !found.unread.is_empty() {
        return Err(Error::new(Kind::Permission, format!("{name}: not all of its files could be read, so this may not be \
                                                         what it asks for; use sudo")));
    }
    if found.complaints.is_empty() { Ok(()) } else { Err(Error::invalid(format!("{name} has mistakes in its files"))) }
}
