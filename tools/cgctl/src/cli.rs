// SPDX-License-Identifier: GPL-2.0-only
//! The command line. Completions and manual pages are made from it, too.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_mangen::Man;

use crate::columns;
use crate::error::{Error, Kind, Result};
use crate::manual;
use crate::name;
use crate::topics;

/// What `cgctl help` explains: commands, and topics. "properties" is explained as the topic that it is, too.
const SUBJECTS: [&str; 17] = ["show", "tree", "set", "run", "top", "watch-events", "apply", "dump", "diff", "doctor", "watch",
    "properties", "help", "completions", "man", "hints", "policy"];

/// Show, set and keep CPU policies of cgroups: cpu.hint, cpu.gang, cpu.headroom
#[derive(Parser, Debug)]
#[command(name = "cgctl", version, after_help = topics::help("help"), after_long_help = topics::help(""),
          term_width = columns::for_prose(), disable_help_subcommand = true)]
pub struct Cli {
    /// Work on the tree below DIR (DIR/sys/fs/cgroup, DIR/etc/systemd) instead of the running system
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Args, Debug, Clone, Copy, Default)]
pub struct Format {
    /// Print JSON
    #[arg(long, conflicts_with = "tsv")]
    pub json: bool,
    /// Print tab-separated values, with a header
    #[arg(long)]
    pub tsv: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum, Default)]
pub enum SortBy {
    #[default]
    Cpu,
    Name,
    Hint,
    Followed,
    Headroom,
    Capped,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show what groups have, what is in force, and why (default: all groups that say something)
    #[command(after_help = topics::help("show"))]
    Show {
        /// Groups to show in full
        #[arg(value_parser = group_name())]
        targets: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Show the tree of groups with their policies
    #[command(after_help = topics::help("tree"))]
    Tree {
        /// The group to begin at
        #[arg(value_parser = group_name())]
        target: Option<String>,
        /// Groups without a policy, too
        #[arg(long, short)]
        all: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Set policies of one group, all of them or none
    #[command(after_help = topics::help("set"))]
    Set {
        /// The group
        #[arg(value_parser = group_name())]
        target: String,
        /// What it gets
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        /// Keep it for the unit: a drop-in in /etc/systemd/system, which cgctl.service applies at every start
        #[arg(long, conflicts_with = "runtime")]
        persist: bool,
        /// Keep it for the unit until the next boot: a drop-in in /run/systemd/system
        #[arg(long)]
        runtime: bool,
        /// Give ancestors as much headroom, so that the group is protected from the whole machine
        #[arg(long)]
        propagate: bool,
        /// Enable the cpu controller along the path where it is missing, and have systemd keep it for a unit
        #[arg(long)]
        enable: bool,
        /// Leave out what this kernel does not have, instead of refusing everything
        #[arg(long)]
        skip_missing: bool,
        /// Say what would be done, and do nothing
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a group of its own that goes away with it
    #[command(after_help = topics::help("run"))]
    Run {
        /// Words for cpu.hint
        #[arg(long, value_name = "WORDS")]
        hint: Option<String>,
        /// Run its threads together; with =SCOPE, in that scope
        #[arg(long, value_name = "SCOPE", num_args = 0..=1, require_equals = true, default_missing_value = "llc")]
        gang: Option<String>,
        /// Keep that much CPU idle while it runs
        #[arg(long, value_name = "PERCENT")]
        headroom: Option<String>,
        /// The slice, or without systemd the group, below which it runs
        #[arg(long, value_name = "SLICE|GROUP")]
        slice: Option<String>,
        /// Ask the user's own systemd, not the system's
        #[arg(long)]
        user: bool,
        /// Make a group directly, even where systemd runs
        #[arg(long)]
        no_systemd: bool,
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Watch groups live
    Top {
        /// Seconds between two looks
        #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
        interval: f64,
        /// The column to sort by
        #[arg(long, short, value_enum, default_value_t)]
        sort: SortBy,
        /// Groups without a policy, too
        #[arg(long, short)]
        all: bool,
        /// Print N looks as text instead of drawing
        #[arg(long, short, value_name = "N")]
        batch: Option<u64>,
    },
    /// Print changes of policies and of what they do, as they happen
    WatchEvents {
        /// Seconds between two looks at what the kernel gives no notice of
        #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
        interval: f64,
        /// End after that many events
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Make groups as a policy says (TOML); a policy with mistakes changes nothing
    #[command(after_help = topics::help("apply"))]
    Apply {
        /// The policy; - is standard input
        file: PathBuf,
        /// Say what would be done, and do nothing
        #[arg(long, short = 'n')]
        dry_run: bool,
        /// Enable the cpu controller along the path where it is missing, and have systemd keep it for a unit
        #[arg(long)]
        enable: bool,
        /// Fail where a rule matches no group
        #[arg(long)]
        strict: bool,
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a policy that describes what groups have now
    #[command(after_help = topics::help("dump"))]
    Dump,
    /// Say what 'apply' would change; status 1 if anything
    #[command(after_help = topics::help("diff"))]
    Diff {
        /// The policy; - is standard input
        file: PathBuf,
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Look for what is missing, and say what mends it
    #[command(after_help = topics::help("doctor"))]
    Doctor {
        /// Look at the way to this group, too
        #[arg(value_parser = group_name())]
        target: Option<String>,
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
    /// Follow systemd's units and apply their X-CPU properties (this is cgctl.service)
    #[command(after_help = topics::help("watch"))]
    Watch {
        /// Apply once to all units that run, then end
        #[arg(long)]
        once: bool,
        /// Say what is done, not only what is wrong
        #[arg(long, short)]
        verbose: bool,
    },
    /// Say what a unit's files ask for, and which file and line does
    #[command(after_help = topics::help("properties"))]
    Properties {
        /// Its name, with the type at its end
        unit: String,
        /// Print the properties as JSON
        #[arg(long)]
        json: bool,
    },
    /// Explain a command, or one of the topics: hints, policy, properties
    #[command(after_help = topics::help("help"))]
    Help {
        /// What to explain
        #[arg(value_name = "COMMAND|TOPIC", value_parser = SUBJECTS, hide_possible_values = true)]
        about: Option<String>,
    },
    /// Print completions for a shell
    Completions {
        /// Which one
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory
    Man {
        /// Where to; it has to exist
        directory: PathBuf,
    },
}

/// What is given as a name may have any bytes. Text is as this program prints it in JSON and in policies.
fn group_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| name.into_string().unwrap_or_else(name::from_os))
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.05..=86_400.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds from 0.05 to 86400 is wanted".into()),
    }
}

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cgctl", &mut out);
    out
}

/// The text of `cgctl help`: of a topic, a command, or the program.
pub fn help(about: Option<&str>) -> Result<String> {
    if let Some(text) = about.and_then(topics::topic) {
        return Ok(manual::help(&text, columns::for_prose()) + "\n");
    }
    // As the command's own --help says it.
    let words = ["cgctl"].into_iter().chain(about).chain(["--help"]);
    match Cli::try_parse_from(words) {
        Err(help) => Ok(help.render().to_string()),
        Ok(_) => Err(Error::new(Kind::Usage, "there is no help for that")),
    }
}

/// Manual pages, by file name: one of the whole, one for each command, one for each kind of file.
pub fn manual() -> Vec<(String, String)> {
    let mut command = Cli::command();
    command.build();
    let mut pages: Vec<(String, String)> = command.get_subcommands().map(|sub| {
        let name = format!("cgctl-{}", sub.get_name());
        let text = page(sub.clone(), &name, &topics::after(sub.get_name()), &["cgctl(1)", "cgctl-policy(5)", "cgctl.unit(5)"]);
        (format!("{name}.1"), text)
    }).collect();
    let see_also = ["cgctl-policy(5)", "cgctl.unit(5)", "cgroups(7)"];
    pages.push(("cgctl.1".into(), page(command, "cgctl", &topics::program_page(), &see_also)));
    pages.extend(topics::pages().iter().map(|page| (page.file_name(), page.render())));
    pages.into_iter().map(|(name, page)| (name, format!(".\\\" SPDX-License-Identifier: GPL-2.0-only\n{page}"))).collect()
}

/// The page of a command. What its help ends with gets sections of its own.
fn page(command: clap::Command, name: &str, after: &[manual::Section], see_also: &[&str]) -> String {
    let has_commands = command.get_subcommands().any(|sub| !sub.is_hide_set());
    let has_arguments = command.get_arguments().any(|argument| !argument.is_hide_set());
    let [date, source, manual] = manual::footer();
    let man = Man::new(command).title(name.to_uppercase()).date(date).source(source).manual(manual);
    let mut out = Vec::new();
    let mut write = || {
        man.render_title(&mut out)?;
        man.render_name_section(&mut out)?;
        man.render_synopsis_section(&mut out)?;
        man.render_description_section(&mut out)?;
        if has_arguments {
            man.render_options_section(&mut out)?;
        }
        if has_commands {
            man.render_subcommands_section(&mut out)?;
        }
        manual::roff(after).to_writer(&mut out)?;
        manual::see_also(see_also).to_writer(&mut out)
    };
    write().expect("writing to memory");
    String::from_utf8(out).expect("all of it was text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_argument_is_explained() {
        let mut command = Cli::command();
        command.build();
        for sub in command.get_subcommands().chain([&command]) {
            for argument in sub.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {}", sub.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn lines() {
        for line in [
            "cgctl", "cgctl show", "cgctl show nginx 42 --json", "cgctl tree -a", "cgctl set a hint=pack gang=1 -n",
            "cgctl run --hint pack --gang --headroom 30 -- make -j4", "cgctl run --gang=node true", "cgctl top -b 2",
            "cgctl apply --dry-run x.toml", "cgctl doctor", "cgctl --root /x show", "cgctl completions zsh",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in ["cgctl set a", "cgctl show --json --tsv", "cgctl set a hint=b --persist --runtime", "cgctl run",
                     "cgctl top -i 0", "cgctl completions tcsh"] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        let Ok(Cli { command: Some(Command::Run { gang, command, .. }), .. }) =
            Cli::try_parse_from(["cgctl", "run", "--gang", "ls", "-l"]) else { panic!() };
        assert_eq!((gang.as_deref(), command), (Some("llc"), vec!["ls".to_string(), "-l".to_string()]));
    }

    #[test]
    fn help_explains_all_commands_and_topics() {
        let command = Cli::command();
        let names = command.get_subcommands().map(|sub| sub.get_name());
        let mut known: Vec<&str> = names.chain(topics::TOPICS).collect();
        known.sort_unstable();
        known.dedup();
        let mut subjects = SUBJECTS.to_vec();
        subjects.sort_unstable();
        assert_eq!(subjects, known);
        for about in SUBJECTS {
            assert!(!help(Some(about)).unwrap().is_empty(), "{about}");
        }
    }

    /// Text that was wrapped for one width and then for a narrower one has short lines in between.
    #[test]
    fn prose_is_wrapped_once() {
        for about in [None, Some("set"), Some("run"), Some("hints"), Some("policy"), Some("properties")] {
            let text = help(about).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                assert!(columns::width(pair[0]) <= columns::for_prose(), "{text}");
                let indent = |line: &str| line.len() - line.trim_start().len();
                // A paragraph that goes on, and no row of a table.
                let goes_on = indent(pair[0]) == indent(pair[1]) && pair[0].ends_with(|c: char| c.is_alphabetic() || c == ',')
                    && pair[1].trim().starts_with(char::is_lowercase) && !pair[1].trim().contains("  ");
                let next = pair[1].split_whitespace().next().map_or(0, columns::width);
                assert!(!goes_on || columns::width(pair[0]) + 1 + next > columns::for_prose(), "{}\n{}", pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn manual_pages_and_completions() {
        let pages = manual();
        let page = |name: &str| pages.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str()).unwrap();
        for name in ["cgctl-watch-events.1", "cgctl-policy.5", "cgctl.unit.5"] {
            assert!(page(name).starts_with(".\\\" SPDX"), "{name}");
        }
        assert!(page("cgctl.1").contains(".SH \"EXIT STATUS\"") && page("cgctl.1").contains("tail_latency"));
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let text = String::from_utf8(completions(shell)).unwrap();
            assert!(text.contains("watch-events") && text.contains("hints"));
        }
    }
}
