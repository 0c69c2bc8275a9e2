// SPDX-License-Identifier: GPL-2.0-only
//! The command: what was asked for, done by the library; results to standard output, the rest to standard error.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use cgctl::cli::{self, Cli, Command, Format};
use cgctl::doctor::{self, Verdict};
use cgctl::error::{Error, Kind, Result};
use cgctl::keep::Keep;
use cgctl::persist::{daemon_runs, reload, Dropin};
use cgctl::policy::{self, Policy};
use cgctl::run::{self, Run};
use cgctl::set::{Change, Options, Plan};
use cgctl::setting::{parse_assignments, Key, Settings};
use cgctl::state::{policies, State};
use cgctl::tree::{display, Host, Tree};
use cgctl::unit::Finder;
use cgctl::{events, show, target, top, unit, watch};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let host = Host::new(cli.root.as_deref());
    let running = matches!(cli.command, Some(Command::Run { .. }));
    match execute(&host, cli.command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("cgctl: {error}");
            ExitCode::from(if running { run::NOT_STARTED } else { error.kind as u8 })
        }
    }
}

/// Print; a reader who has seen enough is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn execute(host: &Host, command: Option<Command>) -> Result<u8> {
    match command.unwrap_or(Command::Show { targets: vec![], format: Format::default() }) {
        Command::Show { targets, format } => show_groups(host, &targets, format)?,
        Command::Tree { target, all, format } => show_tree(host, target.as_deref(), all, format)?,
        Command::Set { target, settings, persist, runtime, propagate, enable, skip_missing, dry_run, json } => {
            let keep = (persist || runtime).then_some(runtime);
            // The drop-in will have systemd keep the controller.
            let enable = enable || keep.is_some();
            set(host, &target, &settings, keep, Options { propagate, enable, skip_missing }, dry_run, json)?;
        }
        Command::Run { hint, gang, headroom, slice, user, no_systemd, command } => {
            let settings = run_settings(hint, gang, headroom)?;
            return run::run(host, &Run { settings, slice, user, no_systemd, command });
        }
        Command::Top { interval, sort, all, batch } => {
            let interval = Duration::from_secs_f64(interval);
            match batch {
                Some(looks) => top::batch(host, interval, sort, all, looks, &mut std::io::stdout())?,
                None if !std::io::stdout().is_terminal() =>
                    return Err(Error::new(Kind::Usage, "top draws on a terminal; without one use --batch N")),
                None => top::interactive(host, interval, sort, all)?,
            }
        }
        Command::WatchEvents { interval, count, json } => {
            let options = events::Options { interval: Duration::from_secs_f64(interval), count, json };
            events::run(host, &options, &mut std::io::stdout())?;
        }
        Command::Apply { file, dry_run, enable, strict, json } => apply(host, &file, dry_run, enable, strict, json)?,
        Command::Dump => print(&policy::dump(&policies(&host.open_tree()?, "")?)),
        Command::Diff { file, json } => return diff(host, &file, json),
        Command::Doctor { target, json } => {
            let findings = doctor::examine(host, target.as_deref())?;
            print(&if json { to_json(&findings) } else { doctor::text(&findings) });
            return Ok(findings.iter().any(|finding| finding.verdict == Verdict::Missing).into());
        }
        Command::Watch { once, verbose } => watch::run(host, once, verbose)?,
        Command::Properties { unit, json } => properties(host, &unit, json)?,
        Command::Completions { shell } => {
            let _ = std::io::stdout().write_all(&cli::completions(shell));
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

fn show_groups(host: &Host, targets: &[String], format: Format) -> Result<()> {
    let tree = host.open_tree()?;
    let states: Vec<State> = if targets.is_empty() {
        policies(&tree, "")?
    } else {
        targets.iter().map(|target| show::one(&tree, &target::resolve(host, &tree, target)?)).collect::<Result<_>>()?
    };
    print(&if format.json {
        show::json(&states)
    } else if format.tsv {
        show::tsv(&states)
    } else if targets.is_empty() {
        show::table_text(&states)
    } else {
        states.iter().map(show::group_text).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn show_tree(host: &Host, target: Option<&str>, all: bool, format: Format) -> Result<()> {
    let tree = host.open_tree()?;
    let from = target.map(|target| target::resolve(host, &tree, target)).transpose()?.unwrap_or_default();
    if !format.json && !format.tsv {
        print(&show::tree_text(&tree, &from, all)?);
        return Ok(());
    }
    let mut states = Vec::new();
    tree.walk(&from, &mut |group| {
        let mut state = State::brief(group);
        if all || state.says_something() {
            state.complete(&tree, group);
            states.push(state);
        }
    })?;
    print(&if format.json { show::json(&states) } else { show::tsv(&states) });
    Ok(())
}

/// What systemd has to be told, where the controller is to be enabled for good.
fn plan_keep(host: &Host, plan: &Plan) -> Keep {
    Keep::plan(host, plan.groups()).unwrap_or_else(|error| {
        warn_of_systemd(&error);
        Keep::default()
    })
}

fn warn_of_systemd(error: &Error) {
    eprintln!("cgctl: {error}; systemd may disable the cpu controller again, and what is set goes with it");
}

/// systemd first: what it does not know to be needed it may disable at any time.
fn carry_out(tree: &Tree, plan: &Plan, keep: &mut Keep) -> Result<()> {
    if let Err(error) = keep.commit() {
        warn_of_systemd(&error);
    }
    plan.commit(tree).inspect_err(|_| keep.undo())
}

fn report(plan: &Plan, keep: &Keep, dry_run: bool, json: bool) {
    let changes: Vec<&Change> = plan.changes().collect();
    if json {
        let skipped: Vec<_> = plan.skipped.iter().map(|(path, key)| serde_json::json!({ "path": path, "key": key })).collect();
        return print(&to_json(&serde_json::json!({
            "dry_run": dry_run, "keep": keep.units, "enable": plan.enable, "changes": changes, "skipped": skipped,
        })));
    }
    for unit in &keep.units {
        print(&format!("{unit}: CPUWeight=100 until the next boot, so that systemd keeps the cpu controller\n"));
    }
    for path in &plan.enable {
        print(&format!("{}: cgroup.subtree_control +cpu\n", display(path)));
    }
    for change in changes {
        print(&format!("{change}\n"));
    }
    for (path, key) in &plan.skipped {
        eprintln!("cgctl: {} has no {}: this kernel does not have it", display(path), key.file());
    }
    for (path, key, value) in &plan.unchanged {
        print(&format!("{}: {} {value} already\n", display(path), key.name()));
    }
    if dry_run {
        print("nothing was written\n");
    }
}

#[allow(clippy::too_many_arguments)]
fn set(host: &Host, target: &str, words: &[String], keep: Option<bool>, options: Options, dry_run: bool, json: bool)
    -> Result<()> {
    let settings = parse_assignments(words)?;
    let tree = host.open_tree()?;
    let resolved = target::resolve(host, &tree, target);
    let path = match (&resolved, keep) {
        // A unit that does not run now can have a drop-in all the same.
        (Err(error), Some(_)) if error.kind == Kind::NotFound && unit::unit_type(target).is_some() => target.to_string(),
        _ => resolved.clone()?,
    };
    let mut plan = Plan::default();
    if resolved.is_ok() {
        plan.add(&tree, &path, &settings, options)?;
    }
    // A drop-in says it to systemd, too.
    let mut keep_cpu = if options.enable && keep.is_none() { plan_keep(host, &plan) } else { Keep::default() };
    let dropin = keep.map(|runtime| Dropin::plan(host, &path, &settings, runtime)).transpose()?;
    if !dry_run {
        // The drop-in first: of the two, it is the one that is taken back without a trace.
        if let Some(dropin) = &dropin {
            dropin.write()?;
        }
        if let Err(error) = carry_out(&tree, &plan, &mut keep_cpu) {
            if let Some(dropin) = &dropin {
                dropin.undo();
            }
            return Err(error);
        }
        if dropin.is_some() {
            reload(host)?;
        }
    }
    report(&plan, &keep_cpu, dry_run, json);
    if let (Some(dropin), false) = (&dropin, json) {
        print(&format!("{}: {}\n", dropin.path, if dry_run { "would be written" } else { "written" }));
        if !daemon_runs(host) {
            eprintln!("cgctl: cgctl.service does not run, so the next start of {} will not see it:  \
                       systemctl enable --now cgctl.service", dropin.unit);
        }
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

fn apply(host: &Host, file: &Path, dry_run: bool, enable: bool, strict: bool, json: bool) -> Result<()> {
    let policy = read_policy(file)?;
    let tree = host.open_tree()?;
    let (plan, unused) = policy.plan(&tree, enable)?;
    for rule in &unused {
        eprintln!("cgctl: {}:{}: no group is {} now", file.display(), rule.line, rule.subject);
    }
    if strict && !unused.is_empty() {
        return Err(Error::not_found("nothing was written, because of --strict"));
    }
    let mut keep = if enable { plan_keep(host, &plan) } else { Keep::default() };
    if !dry_run {
        carry_out(&tree, &plan, &mut keep)?;
    }
    report(&plan, &keep, dry_run, json);
    Ok(())
}

fn diff(host: &Host, file: &Path, json: bool) -> Result<u8> {
    let policy = read_policy(file)?;
    let (plan, _) = policy.plan(&host.open_tree()?, true)?;
    let changes: Vec<&Change> = plan.changes().collect();
    if json {
        print(&to_json(&changes));
    } else {
        for change in &changes {
            print(&format!("{change}\n"));
        }
    }
    Ok((!changes.is_empty()).into())
}

fn properties(host: &Host, name: &str, json: bool) -> Result<()> {
    if unit::section(name).is_none() {
        return Err(Error::invalid(format!("'{name}' is no unit that has a cgroup; it ends in one of: .{}",
                                          unit::TYPES.join(" ."))));
    }
    let finder = Finder::new(host);
    let found = finder.properties(name, &finder.find_aliases().of(name));
    if json {
        let values: Vec<_> = found.values.iter().map(|(key, (value, origin))| {
            serde_json::json!({ "key": key, "value": value, "file": origin.file, "line": origin.line })
        }).collect();
        print(&to_json(&values));
    } else {
        for (key, (value, origin)) in &found.values {
            print(&format!("{}={value}\t{}:{}\n", key.property(), origin.file.display(), origin.line));
        }
    }
    for complaint in &found.complaints {
        eprintln!("cgctl: {complaint}");
    }
    if found.complaints.is_empty() { Ok(()) } else { Err(Error::invalid(format!("{name} has mistakes in its files"))) }
}
