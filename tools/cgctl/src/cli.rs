// SPDX-License-Identifier: GPL-2.0-only
//! The command line. Completions and manual pages are made from it, too.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::name;

const EXIT_STATUS: &str = "\
Exit status:
  0  done, or nothing to do
  1  the system refused; 'diff': there are differences; 'doctor': something is missing
  2  wrong use of the command line
  3  a value, a property or a policy is wrong; nothing was written
  4  the group, unit, process or container does not exist, or went away
  5  this kernel, or the group's controllers, lack a file
  6  no permission
'run' ends with the status of its command, 126 if it cannot be executed, 127 if it is not found, and 125 if it was not
started for another reason.";

const TARGETS: &str = "\
A TARGET is a path in the cgroup tree (with a slash), a unit (nginx.service), the number of a process, a container (its
name, its id or the beginning of that), or 'self', the group of the caller. A bare word is tried as a group, as a
service and as a container. The prefixes path:, unit:, pid: and container: leave no doubt.

KEY=VALUE is one of:
  hint=WORDS                   as cpu.hint takes them, separated by blanks or commas; also +word and -word
  gang=yes|no
  gang.scope=core|llc|node|system
  headroom=PERCENT             0.00 to 100.00";

/// Show, set and keep CPU policies of cgroups: cpu.hint, cpu.gang, cpu.headroom
#[derive(Parser, Debug)]
#[command(name = "cgctl", version, after_help = EXIT_STATUS, after_long_help = format!("{TARGETS}\n\n{EXIT_STATUS}"),
          max_term_width = 100)]
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
    #[command(after_help = TARGETS)]
    Show {
        #[arg(value_parser = group_name())]
        targets: Vec<String>,
        #[command(flatten)]
        format: Format,
    },
    /// Show the tree of groups with their policies
    Tree {
        #[arg(value_parser = group_name())]
        target: Option<String>,
        /// Groups without a policy, too
        #[arg(long, short)]
        all: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Set policies of one group, all of them or none
    #[command(after_help = TARGETS)]
    Set {
        #[arg(value_parser = group_name())]
        target: String,
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
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Watch groups live
    Top {
        /// Seconds between two looks
        #[arg(long, short, default_value_t = 1.0, value_parser = seconds)]
        interval: f64,
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
    Apply {
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
        #[arg(long)]
        json: bool,
    },
    /// Print a policy that describes what groups have now
    Dump,
    /// Say what 'apply' would change; status 1 if anything
    Diff {
        file: PathBuf,
        #[arg(long)]
        json: bool,
    },
    /// Look for what is missing, and say what mends it
    Doctor {
        /// Look at the way to this group, too
        #[arg(value_parser = group_name())]
        target: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// Follow systemd's units and apply their X-CPU properties (this is cgctl.service)
    Watch {
        /// Apply once to all units that run, then end
        #[arg(long)]
        once: bool,
        /// Say what is done, not only what is wrong
        #[arg(long, short)]
        verbose: bool,
    },
    /// Say what a unit's files ask for, and which file and line does
    Properties {
        unit: String,
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Write manual pages into a directory
    Man { directory: PathBuf },
}

/// What is given as a name may have any bytes. Text is as this program prints it in JSON and in policies.
fn group_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| name.into_string().unwrap_or_else(name::from_os))
}

fn seconds(text: &str) -> Result<f64, String> {
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

/// Manual pages, by file name: one of the whole, one for each command.
pub fn manual() -> Vec<(String, Vec<u8>)> {
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    let mut render = |command: clap::Command, name: String| {
        let mut page = b".\\\" SPDX-License-Identifier: GPL-2.0-only\n".to_vec();
        clap_mangen::Man::new(command).title(name.to_uppercase()).render(&mut page).expect("writing to memory");
        pages.push((format!("{name}.1"), page));
    };
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("cgctl-{}", sub.get_name());
        // A page is about one command; the option that all have is on the main page.
        render(sub.clone(), name);
    }
    render(command.disable_help_subcommand(true), "cgctl".into());
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_consistent() {
        Cli::command().debug_assert();
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
    fn manual_pages_and_completions() {
        let pages = manual();
        assert!(pages.iter().any(|(name, _)| name == "cgctl-watch-events.1"));
        let main = String::from_utf8(pages.iter().find(|(name, _)| name == "cgctl.1").unwrap().1.clone()).unwrap();
        assert!(main.starts_with(".\\\" SPDX") && main.contains("Exit status"), "{main}");
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            assert!(String::from_utf8(completions(shell)).unwrap().contains("watch-events"));
        }
    }
}
