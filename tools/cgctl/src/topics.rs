// SPDX-License-Identifier: GPL-2.0-only
//! What help and manual pages say beyond the options of a command, each text once: `manual` formats it for both.

use crate::hint::{format_words, PROFILES, WORDS};
use crate::manual::{Block, Page, Section};
use crate::setting::{Key, KEYS, SCOPES};
use crate::unit;

/// What `cgctl help` explains besides commands.
pub const TOPICS: [&str; 3] = ["hints", "policy", "properties"];

fn prose(text: &str) -> Block {
    Block::Prose(text.into())
}

fn terms<T: Into<String>, M: Into<String>>(terms: impl IntoIterator<Item = (T, M)>) -> Block {
    Block::Terms(terms.into_iter().map(|(term, meaning)| (term.into(), meaning.into())).collect())
}

fn section(title: &'static str, blocks: Vec<Block>) -> Section {
    Section { title, blocks }
}

/// What a word of `cpu.hint` promises.
fn word_meaning(word: &str) -> &'static str {
    match word {
        "fork_affine" => "fork: a new task stays in the LLC of its parent while a core's worth of CPUs is idle there",
        "fork_spread" => "fork: a new task goes to the node or LLC with most idle CPUs",
        "wake_affine" => "wake: a waking task goes to an idle CPU of its waker's LLC",
        "wake_hold" => "wake: a waking task goes to an idle CPU of the LLC where the task ran last",
        "wake_wide" => "reach: if that LLC has no idle CPU, the nearest idle CPU beyond that LLC is taken before the task \
                        has to queue",
        "scan_full" => "scan: the LLC is searched to the end for an idle CPU, however little idle time there is",
        "scan_none" => "scan: no search; the previous CPU or the waker's, whichever is idle or has less to do",
        "slice_short" => "slice: a quarter of the default slice; the task runs sooner, and not longer",
        "slice_long" => "slice: four times the default slice; the task runs later and is interrupted less",
        "preempt_none" => "preempt: when the task wakes up, it does not preempt a running task that lacks this word",
        "pack" => "pack: CPUs that are awake are preferred to waking an idle core",
        "energy" => "power: of the CPUs on which a task fits, the one that costs the least energy; has no effect without an \
                     energy model",
        _ => "",
    }
}

/// The work that a profile is for.
fn profile_use(profile: &str) -> &'static str {
    match profile {
        "tail_latency" => "services judged by their slowest requests",
        "interactive" => "desktops, editors, short requests",
        "noninteractive" => "throughput work that nobody waits for",
        "background" => "maintenance, indexing",
        "efficient" => "machines on battery",
        _ => "",
    }
}

fn values(key: Key) -> String {
    match key {
        Key::Hint => "words, see `cgctl help hints`".into(),
        Key::Gang => "`yes` or `no`".into(),
        Key::GangScope => format!("the CPUs among which the gang runs together: {}", alternatives(&SCOPES)),
        Key::Headroom => "the percentage of CPU that the group's siblings leave idle, 0.00 to 100.00".into(),
    }
}

/// "`a`, `b` or `c`"
fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

pub fn hints() -> Vec<Section> {
    vec![
        section("Hints", vec![
            prose("A hint says where the tasks of a group should run. `hint=` of `cgctl set` and `cgctl run --hint`, \
                   `hint` in a policy, `X-CPUHint=` in a unit and the file cpu.hint take the same words, separated by \
                   blanks (for cgctl, commas will do, too), at most one of each category. A profile may come first. A \
                   word after a profile replaces the profile's word of that category."),
            terms([
                ("inherit", "the hints of the parent group; every new group has this"),
                ("none", "no hints, whatever the parent group has"),
                ("+WORD -WORD", "edit the hints in force; not in a policy, not in a unit, and not beside other words"),
            ]),
            prose("A hint is followed where it does no harm, and never against affinity, cpusets or limits. `cgctl show \
                   GROUP` says which words are in force, how often they were followed, and why not."),
        ]),
        section("Words", vec![
            prose("The category comes first. An LLC is the set of CPUs that share a last-level cache."),
            terms(WORDS.map(|word| (word, word_meaning(word)))),
        ]),
        section("Profiles", vec![
            terms(PROFILES.map(|(name, words)| (name, format!("{}: {}", profile_use(name), format_words(words))))),
        ]),
    ]
}

fn keys() -> Block {
    terms(KEYS.map(|key| (key.name(), values(key))))
}

pub fn policy() -> Vec<Section> {
    vec![
        section("Policies", vec![
            prose("A policy is a TOML file that says what groups should have. `cgctl diff FILE` says what would change, \
                   `cgctl apply FILE` makes it so, and `cgctl dump` prints the policy that describes what groups have \
                   now. Groups and keys that a policy does not mention stay as they are."),
            Block::Lines("\
[unit.\"nginx.service\"]
hint = \"tail_latency\"
headroom = 10

[unit.\"batch-*.service\"]
hint = \"background\"

[group.\"containers/web\"]
gang = true
\"gang.scope\" = \"llc\"
"),
        ]),
        section("Tables", vec![
            terms([
                ("[unit.\"NAME\"]", format!("the unit NAME of the system's systemd; NAME ends in .{}",
                                            unit::TYPES.join(", ."))),
                ("[group.\"PATH\"]", "the group with that path in the cgroup tree, with or without /sys/fs/cgroup".into()),
            ]),
            prose("Names stand in quotes, because a dot without quotes begins a table within a table. In double quotes, \
                   a backslash has to be doubled; single quotes take it as it is:"),
            Block::Lines("[unit.'dev-disk\\x2d1.swap']\n"),
            prose("In a name, `*` stands for any text, `?` for one character, `[a-c]` and `[!x]` for one of a set; none of \
                   them crosses a `/`. `**` stands for any number of groups on the way:"),
            terms([
                ("jobs/*", "the groups directly below jobs"),
                ("jobs/**", "all groups below jobs"),
                ("**/worker", "every group of the name worker"),
                ("odd[*]name", "the group odd*name: in brackets, each of these characters is itself"),
            ]),
            prose("Where several rules speak of one key of a group, a name in full comes before a pattern, and a longer \
                   pattern before a shorter one. Two patterns of the same length that disagree are an error."),
        ]),
        section("Keys", vec![
            keys(),
            prose("The values are text, in quotes; a gang may be true or false instead, and a headroom a number. Because of \
                   its dot, the key of the scope stands in quotes, too. One line says as much:"),
            Block::Lines("gang = { enabled = true, scope = \"llc\" }\n"),
        ]),
        section("Mistakes", vec![
            prose("A policy with a mistake changes nothing, and the message names the line. A rule that matches no group \
                   is mentioned; with `--strict` nothing is changed then. Status 3: the policy is wrong. Status 4: \
                   `--strict`, or a group went away. Status 5: the kernel, or the group, lacks a file."),
        ]),
    ]
}

pub fn properties() -> Vec<Section> {
    vec![
        section("Properties of units", vec![
            prose("cgctl.service applies these properties when a unit starts, and after `systemctl daemon-reload`. \
                   systemd itself ignores names that begin with X-."),
            terms(KEYS.map(|key| (format!("{}=", key.property()), values(key)))),
            prose("They stand in the unit's own section, [Service], [Slice], [Scope], [Socket], [Mount] or [Swap], of the \
                   unit's file or of a drop-in:"),
            Block::Lines("\
# /etc/systemd/system/web.service.d/hint.conf
[Service]
X-CPUHint=tail_latency
X-CPUHeadroom=10
"),
            prose("They are read by systemd's rules (systemd.unit(5)): the last assignment counts, and an empty one takes \
                   back what came before. When a property is removed, the group gets the default back; what was set by \
                   hand is left alone."),
            prose("`cgctl properties UNIT` says what a unit's files ask for, and which line of which file does. A wrong value \
                   is a message in the unit's own log."),
        ]),
        section("Written by cgctl", vec![
            prose("`cgctl set UNIT KEY=VALUE --persist` writes /etc/systemd/system/UNIT.d/50-cgctl.conf, which comes before \
                   an override.conf of `systemctl edit`. `--runtime` writes \
                   /run/systemd/system/UNIT.d/zz-cgctl-runtime.conf, which comes last and goes at the next boot. In both, \
                   only lines with X-CPU are changed. Where a line of another file would win, nothing is written, and the \
                   message names the file and the line."),
        ]),
        section("The cpu controller", vec![
            prose("The files are there only in groups that have the cpu controller. For a unit with such properties \
                   cgctl.service enables the controller, and has systemd keep it by giving the unit `CPUWeight=100`, \
                   which is the default, until the next boot. A unit with a weight of its own keeps that."),
        ]),
        section("Without the daemon", vec![
            prose("A service can set its policy itself, before its main process starts; `CPUWeight=` has systemd enable \
                   the controller:"),
            Block::Lines("\
[Service]
CPUWeight=100
ExecStartPre=+/usr/bin/cgctl set self hint=tail_latency
"),
            prose("This is the way for units of users' own managers, too, without the `+`: cgctl.service does not follow \
                   those."),
        ]),
    ]
}

fn targets() -> Section {
    section("Targets", vec![
        prose("A TARGET is a path in the cgroup tree (with a slash), a unit (`nginx.service`), the number of a process, a \
               container (its name, its id or the beginning of that), or `self`, the group of the caller. A bare word is \
               tried as a group, as a service and as a container. The prefixes `path:`, `unit:`, `pid:` and `container:` \
               leave no doubt. `container:` takes `POD/NAME` and `NAMESPACE/POD/NAME`, too."),
    ])
}

fn settings() -> Section {
    section("Settings", vec![
        prose("KEY=VALUE is one of:"),
        terms(KEYS.map(|key| (format!("{}=", key.name()), values(key)))),
    ])
}

fn topics() -> Section {
    section("Topics", vec![terms([
        ("cgctl help hints", "the words and profiles that a hint consists of"),
        ("cgctl help policy", "the format of policies, for `cgctl apply`"),
        ("cgctl help properties", "the X-CPU properties of systemd's units"),
    ])])
}

fn exit_status() -> Section {
    section("Exit status", vec![
        terms([
            ("0", "done, or nothing to do"),
            ("1", "the system refused; `diff`: there are differences; `doctor`: something is missing"),
            ("2", "wrong use of the command line"),
            ("3", "a value, a property or a policy is wrong; nothing was written"),
            ("4", "the group, unit, process or container does not exist, or went away"),
            ("5", "this kernel, this system or the group's controllers lack what is needed"),
            ("6", "no permission"),
        ]),
        prose("`run` ends with the status of its command, 126 if it cannot be executed, 127 if it is not found, and 125 if \
               it was not started for another reason."),
    ])
}

/// What the page of the program has besides its commands.
pub fn program_page() -> Vec<Section> {
    let mut sections = vec![targets(), settings()];
    sections.extend(hints());
    sections.extend([topics(), exit_status()]);
    sections
}

/// What the help of a command ends with; "" is the program itself.
pub fn after(command: &str) -> Vec<Section> {
    match command {
        "" => vec![targets(), settings(), topics(), exit_status()],
        "show" | "tree" | "doctor" => vec![targets()],
        "set" => vec![targets(), settings()],
        "apply" | "diff" | "dump" => vec![section("Format", vec![prose("`cgctl help policy` explains the format.")])],
        "run" => vec![section("Words", vec![prose("`cgctl help hints` explains the words.")])],
        "watch" | "properties" =>
            vec![section("Properties", vec![prose("`cgctl help properties` explains the properties.")])],
        "help" => vec![topics()],
        _ => Vec::new(),
    }
}

/// The same, as lines of help.
pub fn help(command: &str) -> String {
    crate::manual::help(&after(command), crate::columns::for_prose())
}

/// A topic of `cgctl help`.
pub fn topic(name: &str) -> Option<Vec<Section>> {
    match name {
        "hints" => Some(hints()),
        "policy" => Some(policy()),
        "properties" => Some(properties()),
        _ => None,
    }
}

/// Manual pages that are about no command.
pub fn pages() -> [Page; 2] {
    [
        Page { name: "cgctl-policy", section: "5", about: "policies for cgctl apply", text: policy(),
               see_also: &["cgctl(1)", "cgctl-apply(1)", "cgctl-diff(1)", "cgctl-dump(1)", "cgctl.unit(5)"] },
        Page { name: "cgctl.unit", section: "5", about: "CPU policies in the files of systemd's units", text: properties(),
               see_also: &["cgctl(1)", "cgctl-properties(1)", "cgctl-watch(1)", "cgctl-policy(5)", "systemd.unit(5)"] },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_a_meaning() {
        for word in WORDS {
            assert!(word_meaning(word).contains(": "), "{word}");
        }
        for (profile, _) in PROFILES {
            assert!(!profile_use(profile).is_empty(), "{profile}");
        }
    }

    #[test]
    fn each_topic_has_a_text() {
        for name in TOPICS {
            assert!(topic(name).is_some(), "{name}");
        }
    }

    /// A mark that is missing would turn bold to roman and roman to bold.
    #[test]
    fn marks_come_in_pairs() {
        let commands = ["", "show", "set", "apply", "run", "watch", "help"];
        let all = TOPICS.iter().filter_map(|name| topic(name)).chain(commands.map(after));
        for block in all.flatten().flat_map(|section| section.blocks) {
            let texts = match block {
                Block::Prose(text) => vec![text],
                Block::Terms(terms) => terms.into_iter().map(|(_, meaning)| meaning).collect(),
                Block::Lines(_) => Vec::new(),
            };
            for text in texts {
                assert!(text.matches('`').count() % 2 == 0 && !text.contains("  "), "{text}");
            }
        }
    }
}
