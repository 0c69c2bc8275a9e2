// SPDX-License-Identifier: GPL-2.0-only
//! The program as it is run, on trees of files: what it prints, what it writes, and its exit status.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use cgctl::testing::TempDir;

struct Machine(TempDir);

impl Machine {
    /// A machine with a kernel that has all of the files.
    fn new() -> Machine {
        let dir = TempDir::new();
        for path in ["", "system.slice", "system.slice/web.service", "system.slice/batch-1.service",
                     "system.slice/batch-2.service", "jobs", "jobs/night"] {
            dir.group(path);
        }
        for file in ["cpu.hint", "cpu.hint.effective", "cpu.gang", "cpu.gang.scope", "cpu.headroom", "cpu.weight"] {
            std::fs::remove_file(dir.path().join("sys/fs/cgroup").join(file)).unwrap();
        }
        dir.file("usr/lib/systemd/system/web.service", "[Service]\n");
        dir.file("proc/77/cgroup", "0::/system.slice/web.service\n");
        dir.file("proc/self/cgroup", "0::/jobs/night\n");
        dir.file("proc/sys/kernel/osrelease", "6.12.0-steer\n");
        Machine(dir)
    }

    fn with_policies() -> Machine {
        let machine = Machine::new();
        let dir = &machine.0;
        let web = "sys/fs/cgroup/system.slice/web.service";
        dir.file(&format!("{web}/cpu.hint"), "wake_affine\n");
        dir.file(&format!("{web}/cpu.hint.effective"), "wake_affine\n");
        dir.file(&format!("{web}/cpu.headroom"), "30.00\n");
        dir.file(&format!("{web}/cpu.stat"), "usage_usec 1000\nhint_wake_followed 170\nhint_wake_same_llc 0\n\
                 hint_wake_full 830\nhint_wake_affinity 0\nhint_wake_irq 0\n");
        dir.file("sys/fs/cgroup/jobs/cpu.hint", "background\n");
        dir.file("sys/fs/cgroup/jobs/cpu.hint.effective", "scan_none slice_long preempt_none pack\n");
        dir.file("sys/fs/cgroup/jobs/night/cpu.hint.effective", "scan_none slice_long preempt_none pack\n");
        dir.file("sys/fs/cgroup/jobs/cpu.headroom.stat",
                 "demand 30.00\nidle 27.31\nbudget_usec 350000\nperiod_usec 100000\n");
        dir.file("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nheadroom_periods 200\nheadroom_capped_periods 50\n\
                 headroom_capped_usec 1500000\n");
        machine
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cgctl")).arg("--root").arg(self.0.path()).args(words)
            .stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// Standard output and error; the status has to be right.
    fn status(&self, status: i32, words: &[&str]) -> String {
        let done = self.run(words);
        let text = String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(status), "{words:?}: {text}");
        text
    }

    fn read(&self, file: &str) -> String {
        self.0.read(&format!("sys/fs/cgroup/{file}"))
    }
}

#[test]
fn show_everything() {
    let machine = Machine::with_policies();
    assert_eq!(machine.status(0, &["show"]), "\
GROUP                      HINT         GANG  HEADROOM  WHY
/jobs                      background   -     -         headroom: siblings want 30.00 % idle, 27.31 % is; held to 350.0 ms of CPU in 100.0 ms
/system.slice/web.service  wake_affine  -     30.00     wake: followed in 17 % of 1,000 wakeups; not followed: target LLC full, 83 % of wakeups
");
    assert_eq!(machine.status(0, &[]), machine.status(0, &["show"]), "no command is show");
    assert_eq!(Machine::new().status(0, &["show"]), "no group has a policy; 'cgctl set' gives it one\n");
}

#[test]
fn show_one() {
    let machine = Machine::with_policies();
    assert_eq!(machine.status(0, &["show", "web"]), "\
/system.slice/web.service
  hint      wake_affine  (effective: wake_affine)
  gang      no  (scope: llc)
  headroom  30.00 %
  gives way demand 0.00 %, idle 100.00 %, budget max
  why       wake: followed in 17 % of 1,000 wakeups; not followed: target LLC full, 83 % of wakeups
  counters  hint_wake_followed 170
            hint_wake_full 830
");
    assert_eq!(machine.status(0, &["show", "self"]).lines().nth(1).unwrap(),
               "  hint      inherit  (effective: scan_none slice_long preempt_none pack, from /jobs)");
    assert_eq!(machine.status(0, &["show", "77"]), machine.status(0, &["show", "web.service"]));
}

#[test]
fn show_for_programs() {
    let machine = Machine::with_policies();
    assert_eq!(machine.status(0, &["show", "--tsv"]), "\
path\thint\thint.effective\tgang\tgang.scope\theadroom\tdemand\tidle\tbudget_usec
/jobs\tbackground\tscan_none slice_long preempt_none pack\t0\tllc\t0.00\t30.00\t27.31\t350000
/system.slice/web.service\twake_affine\twake_affine\t0\tllc\t30.00\t0.00\t100.00\tmax
");
    let json: serde_json::Value = serde_json::from_str(&machine.status(0, &["show", "--json", "web"])).unwrap();
    assert_eq!(json[0]["hint.effective"], "wake_affine");
    assert_eq!(json[0]["stat"]["hint_wake_full"], 830);
    assert!(json[0]["why"][0].as_str().unwrap().contains("83 %"));
}

#[test]
fn tree() {
    let machine = Machine::with_policies();
    assert_eq!(machine.status(0, &["tree"]), "\
/
├─jobs  hint=background  (effective: scan_none slice_long preempt_none pack)
└─system.slice
  └─web.service  hint=wake_affine  headroom=30.00
");
    assert!(machine.status(0, &["tree", "--all", "system.slice"]).contains("├─batch-2.service\n└─web.service"));
}

#[test]
fn set_and_what_it_says() {
    let machine = Machine::new();
    assert_eq!(machine.status(0, &["set", "web", "hint=tail_latency", "headroom=12.5", "gang=0"]), "\
/system.slice/web.service: hint inherit -> tail_latency
/system.slice/web.service: headroom 0.00 -> 12.50
/system.slice/web.service: gang 0 already
");
    assert_eq!(machine.read("system.slice/web.service/cpu.headroom"), "12.50\n");
    let text = machine.status(0, &["set", "jobs/night", "headroom=20", "--propagate", "-n"]);
    assert_eq!(text, "/jobs/night: headroom 0.00 -> 20.00\n/jobs: headroom 0.00 -> 20.00 (so that /jobs is protected \
                      from what is beside it)\nnothing was written\n");
    assert_eq!(machine.read("jobs/cpu.headroom"), "0.00\n");
    let json: serde_json::Value = serde_json::from_str(&machine.status(0, &["set", "jobs", "gang=1", "--json"])).unwrap();
    assert_eq!(json["changes"][0]["new"], "1");
}

#[test]
fn statuses() {
    let machine = Machine::new();
    for (status, words, text) in [
        (2, &["set", "web"][..], "required"),
        (2, &["shwo"], "similar"),
        (3, &["set", "web", "hint=wake_afine"], "did you mean 'wake_affine'"),
        (3, &["set", "web", "hnt=pack"], "did you mean 'hint'"),
        (3, &["set", "web", "headroom=101"], "0.00 to 100.00"),
        (3, &["set", "web", "hint=wake_affine,wake_hold"], "category 'wake'"),
        (3, &["show", "../../etc"], "'..'"),
        (3, &["show", "/sys/fs/cgroup/../../../etc"], "'..'"),
        (4, &["show", "wbe.service"], "did you mean 'web.service'"),
        (4, &["set", "/gone", "hint=pack"], "no cgroup /gone"),
        (4, &["show", "4711"], "no process 4711"),
        (5, &["show", "/"], "root cgroup"),
        (5, &["set", "/", "hint=pack"], "root cgroup"),
        (3, &["set", "/jobs", "hint=pack", "--persist"], "no systemd unit"),
        (3, &["properties", "x.timer"], "no unit that has a cgroup"),
        (3, &["set", "web", "gang=llc"], "gang=yes gang.scope=llc"),
        (2, &["help", "hnts"], "'hints'"),
    ] {
        let said = machine.status(status, words);
        assert!(said.contains(text), "{words:?}: {said}");
    }
}

#[test]
fn kernels_that_lack_files() {
    let machine = Machine::new();
    let web = machine.0.path().join("sys/fs/cgroup/system.slice/web.service");
    for file in ["cpu.gang", "cpu.gang.scope", "cpu.headroom", "cpu.headroom.stat"] {
        std::fs::remove_file(web.join(file)).unwrap();
    }
    assert!(machine.status(5, &["set", "web", "hint=pack", "gang=1"]).contains("no cpu.gang: this kernel"));
    assert_eq!(machine.read("system.slice/web.service/cpu.hint"), "inherit\n");
    let text = machine.status(0, &["set", "web", "hint=pack", "gang=1", "--skip-missing"]);
    assert!(text.contains("hint inherit -> pack") && text.contains("has no cpu.gang"), "{text}");
    assert!(!machine.status(0, &["show", "web"]).contains("gang"));
    assert_eq!(machine.status(0, &["show", "web", "--tsv"]).lines().nth(1).unwrap(),
               "/system.slice/web.service\tpack\tnone\t-\t-\t-\t-\t-\t-");
}

/// Where nothing can be shown, what is missing is said instead.
#[test]
fn kernels_that_have_none() {
    let machine = Machine::new();
    let all_groups = |files: &[&str]| {
        for group in ["system.slice", "system.slice/web.service", "system.slice/batch-1.service",
                      "system.slice/batch-2.service", "jobs", "jobs/night"] {
            for file in files {
                std::fs::remove_file(machine.0.path().join("sys/fs/cgroup").join(group).join(file)).unwrap();
            }
        }
    };
    all_groups(&["cpu.hint", "cpu.hint.effective", "cpu.gang", "cpu.gang.scope", "cpu.headroom", "cpu.headroom.stat"]);
    for words in [&[][..], &["show"], &["show", "--json"], &["show", "--tsv"], &["tree"], &["tree", "--json"], &["dump"],
                  &["top", "-b", "1", "-i", "0.05"], &["watch-events", "--count", "1"]] {
        let said = machine.status(5, words);
        assert!(said.contains("this kernel has none of cpu.hint, cpu.gang, cpu.headroom"), "{words:?}: {said}");
        assert!(said.contains("'cgctl doctor'") && said.lines().count() == 1, "{words:?}: {said}");
    }
    all_groups(&["cpu.weight"]);
    let said = machine.status(0, &["show"]);
    assert!(said.contains("none has the cpu controller") && said.contains("set --enable"), "{said}");
    // As where cgroup v1 holds the controller.
    machine.0.file("sys/fs/cgroup/cgroup.controllers", "memory pids\n");
    let said = machine.status(0, &["show"]);
    assert!(said.contains("cgroup2 has no cpu controller here") && said.contains("'cgctl doctor'"), "{said}");
    assert_eq!(machine.status(0, &["show", "--json"]), "[]\n");
}

#[test]
fn units_without_systemd() {
    let machine = Machine::new();
    assert!(machine.status(5, &["watch"]).contains("systemd does not run here (there is no /run/systemd/system)"));
    machine.0.file("run/systemd/system/empty", "");
    assert!(machine.status(2, &["watch"]).contains("watch --once"));
}

/// What is read by a script is never shortened.
#[test]
fn a_pipe_has_no_width() {
    let machine = Machine::with_policies();
    let narrow = |words: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_cgctl")).arg("--root").arg(machine.0.path()).args(words)
            .env("COLUMNS", "40").output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    for words in [&["show"][..], &["tree"], &["top", "-b", "1", "-i", "0.05"]] {
        assert!(narrow(words).lines().any(|line| line.chars().count() > 40), "{words:?}");
        assert!(!narrow(words).contains('…'), "{words:?}");
    }
    assert!(narrow(&["help", "hints"]).lines().all(|line| line.chars().count() <= 40), "prose goes by the width");
}

#[test]
fn no_permission() {
    if rustix::process::geteuid().is_root() {
        return; // root may write everything; the machine with systemd tests a user
    }
    let machine = Machine::new();
    let file = machine.0.path().join("sys/fs/cgroup/jobs/cpu.headroom");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).unwrap();
    assert!(machine.status(6, &["set", "jobs", "hint=pack", "headroom=3"]).contains("no permission"));
    assert_eq!(machine.read("jobs/cpu.hint"), "inherit\n");
}

/// Root may read everything, but not a directory in place of a file.
#[test]
fn properties_that_may_not_be_all() {
    let machine = Machine::new();
    machine.0.file("etc/systemd/system/web.service", "[Service]\nX-CPUHint=pack\n");
    machine.0.file("etc/systemd/system/web.service.d/1.conf/x", "");
    let said = machine.status(6, &["properties", "web.service"]);
    assert!(said.contains("X-CPUHint=pack\t") && said.contains("/etc/systemd/system/web.service.d/1.conf: cannot be read")
            && said.contains("may not be what it asks for"), "{said}");
}

#[test]
fn policies() {
    let machine = Machine::new();
    machine.0.file("p.toml", "[unit.\"batch-*.service\"]\nhint = \"background\"\n[group.\"jobs\"]\ngang = true\n\
                              \"gang.scope\" = \"node\"\n[unit.\"none.service\"]\nheadroom = 3\n");
    let file = machine.0.path().join("p.toml");
    let file = file.to_str().unwrap();
    let changes = "/jobs: gang.scope llc -> node\n/jobs: gang 0 -> 1\n\
                   /system.slice/batch-1.service: hint inherit -> background\n\
                   /system.slice/batch-2.service: hint inherit -> background\n";
    let unmatched = format!("cgctl: {file}:6: no group is unit none.service now\n");
    let changes_and_unmatched = changes.to_string() + &unmatched;
    assert_eq!(machine.status(1, &["diff", file]), changes_and_unmatched);
    assert!(machine.status(0, &["apply", "-n", file]).contains("nothing was written"));
    assert_eq!(machine.status(1, &["diff", file]), changes_and_unmatched, "a dry run is dry");
    assert!(machine.status(4, &["apply", "--strict", file]).contains("no group is unit none.service"));
    assert_eq!(machine.status(1, &["diff", file]), changes_and_unmatched, "strict changes nothing");
    assert!(machine.status(0, &["apply", file]).starts_with(changes));
    assert_eq!(machine.status(0, &["diff", file]), unmatched);
    assert_eq!(machine.status(0, &["dump"]), "\
# Written by cgctl dump.

[group.\"jobs\"]
\"gang.scope\" = \"node\"
gang = true

[unit.\"batch-1.service\"]
hint = \"background\"

[unit.\"batch-2.service\"]
hint = \"background\"
");
    machine.0.file("p.toml", "[unit.\"a.service\"]\nhint = 5\n");
    assert!(machine.status(3, &["apply", file]).contains("p.toml:2: hint: unknown word '5'"));
}

#[test]
fn kept() {
    let machine = Machine::new();
    let text = machine.status(0, &["set", "web.service", "hint=pack", "--persist"]);
    assert!(text.contains("/etc/systemd/system/web.service.d/50-cgctl.conf: written"), "{text}");
    assert!(text.contains("systemctl enable --now cgctl.service"), "{text}");
    assert_eq!(machine.read("system.slice/web.service/cpu.hint"), "pack\n");
    machine.0.file("usr/lib/systemd/system/later.service", "[Service]\n");
    machine.status(0, &["set", "later", "headroom=3", "--runtime"]);
    assert!(machine.0.read("run/systemd/system/later.service.d/zz-cgctl-runtime.conf").contains("X-CPUHeadroom=3.00\n"));
    let text = machine.status(4, &["set", "wbe.service", "headroom=3", "--persist"]);
    assert!(text.contains("did you mean 'web.service'"), "{text}");
    assert!(!machine.0.path().join("etc/systemd/system/wbe.service.d").exists());
    assert_eq!(machine.status(0, &["properties", "web.service"]),
               "X-CPUHint=pack\t/etc/systemd/system/web.service.d/50-cgctl.conf:4\n");
    machine.status(0, &["set", "jobs", "hint=energy"]);
    machine.0.file("sys/fs/cgroup/system.slice/web.service/cpu.hint", "inherit\n");
    machine.status(0, &["watch", "--once"]);
    assert_eq!(machine.read("system.slice/web.service/cpu.hint"), "pack\n");
    assert_eq!(machine.read("jobs/cpu.hint"), "energy\n", "what is no unit is left alone");
}

#[test]
fn kept_until_boot_and_for_good() {
    let machine = Machine::new();
    let holds = |wanted: &str| {
        machine.status(0, &["watch", "--once"]);
        assert_eq!(machine.read("system.slice/web.service/cpu.hint"), format!("{wanted}\n"));
    };
    machine.status(0, &["set", "web.service", "hint=pack", "--persist"]);
    machine.status(0, &["set", "web.service", "hint=tail_latency", "--runtime"]);
    holds("tail_latency");
    let text = machine.status(0, &["set", "web.service", "hint=energy", "--persist", "--json"]);
    let json: serde_json::Value = serde_json::from_str(text.split("cgctl:").next().unwrap()).unwrap();
    assert_eq!(json["files"], serde_json::json!([
        { "path": "/etc/systemd/system/web.service.d/50-cgctl.conf", "what": "written" },
        { "path": "/run/systemd/system/web.service.d/zz-cgctl-runtime.conf", "what": "removed" },
    ]));
    holds("energy");
    let text = machine.status(0, &["set", "new.slice", "gang=1", "--persist", "--json", "-n"]);
    let json: serde_json::Value = serde_json::from_str(text.split("cgctl:").next().unwrap()).unwrap();
    assert!(json["warnings"][0].as_str().unwrap().contains("new.slice is not there now"), "{json}");
    machine.0.file("etc/systemd/system/web.service.d/override.conf", "[Service]\nX-CPUHint=scan_none\n");
    let text = machine.status(3, &["set", "web.service", "hint=pack", "gang=1", "--persist"]);
    assert!(text.contains("/etc/systemd/system/web.service.d/override.conf:2 says X-CPUHint=scan_none"), "{text}");
    assert_eq!(machine.read("system.slice/web.service/cpu.gang"), "0\n", "nothing at all");
    machine.status(0, &["set", "web.service", "hint=pack", "--runtime"]);
    holds("pack");
    // Without keeping it, somebody is told that it will not last.
    machine.0.group("system.slice/cgctl.service");
    for words in [&["set", "web.service", "hint=wake_hold"][..], &["set", "web.service", "hint=wake_hold"]] {
        let text = machine.status(0, words);
        assert!(text.contains("zz-cgctl-runtime.conf:4 says X-CPUHint=pack for web.service"), "{text}");
    }
}

#[test]
fn where_it_is_kept_is_documented() {
    let machine = Machine::new();
    let help = machine.status(0, &["help", "properties"]);
    for option in ["--persist", "--runtime"] {
        let text = machine.status(0, &["set", "web.service", "gang=1", option, "-n"]);
        let file = text.lines().find_map(|line| line.strip_suffix(": would be written")).unwrap();
        assert!(help.contains(&file.replace("web.service", "UNIT")), "{file}: {help}");
    }
}

#[test]
fn kept_with_what_is_above() {
    let machine = Machine::new();
    machine.status(0, &["set", "web.service", "headroom=3", "--persist", "--propagate"]);
    assert!(machine.0.read("etc/systemd/system/system.slice.d/50-cgctl.conf").contains("[Slice]\nX-CPUHeadroom=3.00\n"));
    machine.0.file("etc/systemd/system/system.slice.d/override.conf", "[Slice]\nX-CPUHeadroom=1\n");
    let text = machine.status(3, &["set", "web.service", "headroom=4", "--persist", "--propagate"]);
    assert!(text.contains("system.slice.d/override.conf:2"), "{text}");
    assert!(!machine.0.read("etc/systemd/system/web.service.d/50-cgctl.conf").contains("4.00"), "all or none");
}

#[test]
fn doctor() {
    let machine = Machine::new();
    let text = machine.status(0, &["doctor", "web"]);
    assert!(text.contains("ok       Linux 6.12.0-steer\n"), "{text}");
    assert!(text.contains("ok       this kernel has cpu.headroom\n"), "{text}");
    machine.0.file("etc/systemd/system/web.service", "[Service]\nX-CPUGang=perhaps\n");
    let text = machine.status(1, &["doctor"]);
    assert!(text.contains("missing  /etc/systemd/system/web.service:2: X-CPUGang=perhaps: gang: 'perhaps'"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&machine.status(1, &["doctor", "--json"])).unwrap();
    assert!(json.as_array().unwrap().iter().any(|finding| finding["verdict"] == "missing"));
}

#[test]
fn manual_and_completions() {
    let machine = Machine::new();
    let man = machine.0.path().join("man");
    std::fs::create_dir(&man).unwrap();
    machine.status(0, &["man", man.to_str().unwrap()]);
    assert!(machine.0.read("man/cgctl-set.1").contains("KEY=VALUE"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(machine.status(0, &["completions", shell]).contains("watch-events"));
    }
}

/// A shell's line, with the program as "$0" and the fixture's root as "$1".
fn shell(machine: &Machine, line: &str) -> Output {
    Command::new("sh").args(["-c", line, env!("CARGO_BIN_EXE_cgctl")]).arg(machine.0.path())
        .stdin(std::process::Stdio::null()).output().unwrap()
}

/// What every command prints, and the disk that is full.
#[test]
fn output_that_is_lost_is_an_error() {
    let machine = Machine::with_policies();
    machine.0.file("p.toml", "[group.jobs]\nhint = \"efficient\"\n");
    machine.0.file("etc/systemd/system/web.service", "[Service]\nX-CPUHint=pack\n");
    for words in [
        "", "show", "show web", "show --json", "show --tsv", "tree", "tree --json", "dump", "diff \"$1\"/p.toml",
        "diff --json \"$1\"/p.toml", "doctor", "doctor --json", "top -b 1 -i 0.05", "set web hint=pack -n",
        "set web hint=pack --json -n", "set web hint=pack", "apply \"$1\"/p.toml", "apply --json \"$1\"/p.toml",
        "properties web.service", "properties --json web.service", "completions bash", "--help", "help", "help set",
        "set --help", "--version",
    ] {
        let full = shell(&machine, &format!("\"$0\" --root \"$1\" {words} > /dev/full"));
        let said = String::from_utf8(full.stderr).unwrap();
        assert_eq!(full.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("cgctl: standard output: No space left on device"), "{words}: {said}");
        let unwritable = shell(&machine, &format!("\"$0\" --root \"$1\" {words} 1< /dev/null"));
        assert_eq!(unwritable.status.code(), Some(1), "{words}, a descriptor that is open for reading");
        // A reader that has gone
        let closed = shell(&machine, &format!("{{ \"$0\" --root \"$1\" {words}; echo $? > \"$1\"/status; }} | true"));
        assert!(closed.stderr.is_empty(), "{words}: {}", String::from_utf8_lossy(&closed.stderr));
        assert!(matches!(machine.0.read("status").trim(), "0" | "1"), "{words}: {}", machine.0.read("status"));
    }
    let done = shell(&machine, "\"$0\" --root \"$1\" set jobs/night hint=pack > /dev/full");
    assert!(String::from_utf8(done.stderr).unwrap().contains("what was asked for is done"));
    assert_eq!(machine.read("jobs/night/cpu.hint"), "pack\n");
    let messages = shell(&machine, "\"$0\" --root \"$1\" set web hint=wrong 2> /dev/full");
    assert_eq!(messages.status.code(), Some(3), "a message that is lost is no other error");
    let events = shell(&machine, "\"$0\" --root \"$1\" watch-events -i 0.05 --count 1 > /dev/full & sleep 0.3; \
                                  echo pack > \"$1\"/sys/fs/cgroup/jobs/cpu.hint; wait $!");
    assert_eq!(events.status.code(), Some(1), "{}", String::from_utf8_lossy(&events.stderr));
}

#[test]
fn many_groups_need_few_descriptors() {
    let machine = Machine::new();
    for i in 0..300 {
        machine.0.group(&format!("many/pod{i}"));
    }
    // Deeper than there are descriptors
    let deep = format!("deep/{}", vec!["x"; 60].join("/"));
    machine.0.group(&deep);
    machine.0.file("p.toml", "[group.\"many/pod*\"]\nhint = \"pack\"\nheadroom = 1\n[group.\"deep/**\"]\nhint = \"pack\"\n");
    for part in deep.match_indices('/').map(|(at, _)| &deep[..at]).skip(1) {
        machine.0.group(part);
    }
    let done = shell(&machine, "ulimit -n 16; exec \"$0\" --root \"$1\" apply \"$1\"/p.toml");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(machine.read("many/pod299/cpu.headroom"), "1.00\n");
    assert_eq!(machine.read(&format!("{deep}/cpu.hint")), "pack\n");
    let done = shell(&machine, "ulimit -n 4; exec \"$0\" --root \"$1\" tree");
    assert_ne!(done.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&done.stderr).contains("ulimit -n"), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A container that runs systemd: what is in it has names of its own.
#[test]
fn what_is_below_a_unit_is_left_alone() {
    let machine = Machine::new();
    let inner = "system.slice/ctr.service/system.slice/web.service";
    for path in ["system.slice/ctr.service", "system.slice/ctr.service/system.slice", inner] {
        machine.0.group(path);
    }
    machine.0.file("etc/systemd/system/web.service", "[Service]\nX-CPUHint=energy\n");
    machine.0.file("p.toml", "[unit.\"web.service\"]\nhint = \"pack\"\n[unit.\"w*.service\"]\nheadroom = 3\n");
    let file = machine.0.path().join("p.toml");
    machine.status(0, &["set", "web.service", "gang=1"]);
    assert!(machine.status(0, &["doctor", "web.service"]).contains("/system.slice/web.service: the cpu controller"));
    machine.status(0, &["apply", file.to_str().unwrap()]);
    machine.status(0, &["watch", "--once"]);
    for (key, own, other) in [("hint", "energy", "inherit"), ("headroom", "3.00", "0.00"), ("gang", "1", "0")] {
        assert_eq!(machine.read(&format!("system.slice/web.service/cpu.{key}")).trim(), own);
        assert_eq!(machine.read(&format!("{inner}/cpu.{key}")).trim(), other);
    }
    // By its path it can be set, and what is dumped tells the two apart.
    machine.status(0, &["set", &format!("/{inner}"), "hint=none"]);
    let text = machine.status(0, &["dump"]);
    assert!(text.contains("[unit.\"web.service\"]") && text.contains(&format!("[group.\"{inner}\"]")), "{text}");
    assert!(machine.status(3, &["set", &format!("/{inner}"), "hint=none", "--persist"]).contains("is inside ctr.service"));
}

#[test]
fn policies_name_groups_as_show_does() {
    let machine = Machine::new();
    machine.0.group("jobs/night/deep");
    machine.0.file("p.toml", "[group.\"/sys/fs/cgroup/jobs/night\"]\nhint = \"pack\"\n[group.\"/sys/fs/cgroup/*\"]\n\
                              gang = true\n[group.\"jobs/**\"]\nheadroom = 2\n[group.\"job/*\"]\ngang = true\n");
    let file = machine.0.path().join("p.toml");
    let text = machine.status(1, &["diff", file.to_str().unwrap()]);
    assert_eq!(text, format!("\
/jobs: gang 0 -> 1
/jobs/night: hint inherit -> pack
/jobs/night: headroom 0.00 -> 2.00
/jobs/night/deep: headroom 0.00 -> 2.00
/system.slice: gang 0 -> 1
cgctl: {}:7: no group is group /job/* now
", file.display()));
}

#[test]
fn names_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let machine = Machine::new();
    machine.0.group("caf\u{efe9}[*]");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9[*]");
    let done = Command::new(env!("CARGO_BIN_EXE_cgctl")).arg("--root").arg(machine.0.path()).arg("set").arg(name)
        .arg("hint=pack").output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "/caf\\xe9[*]: hint inherit -> pack\n");
    let json: serde_json::Value = serde_json::from_str(&machine.status(0, &["show", "--json"])).unwrap();
    let path = json[0]["path"].as_str().unwrap();
    assert!(machine.status(0, &["show", path]).contains("hint      pack"), "what is printed for programs can be given back");
    machine.0.file("d", &machine.status(0, &["dump"]));
    assert!(machine.0.read("d").contains("[group.\"caf\u{efe9}[[][*][]]\"]"), "{}", machine.0.read("d"));
    assert_eq!(machine.status(0, &["diff", machine.0.path().join("d").to_str().unwrap()]), "");
}

/// What stands between two marks in the kernel's source.
fn kernel_table(begin: &str) -> String {
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/cgroup/steer_words.c")).unwrap();
    source.split_once(begin).unwrap().1.split_once("\n};").unwrap().0.to_string()
}

fn kernel_words() -> Vec<String> {
    kernel_table("steer_word_names[] = {").split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// Profiles, each with its words in the kernel's order.
fn kernel_profiles() -> Vec<(String, String)> {
    kernel_table("} steer_profiles[] = {").split('{').skip(1).map(|row| {
        let name = row.split('"').nth(1).unwrap().to_string();
        let constants: Vec<&str> = row.split(|c: char| !c.is_ascii_uppercase() && c != '_').collect();
        let named = |word: &String| constants.contains(&format!("STEER_{}", word.to_uppercase()).as_str());
        (name, kernel_words().into_iter().filter(named).collect::<Vec<_>>().join(" "))
    }).collect()
}

/// What the kernel knows and what units can say stands in the help, and in the manual pages.
#[test]
fn help_and_manual_are_complete() {
    let machine = Machine::new();
    let man = machine.0.path().join("man");
    std::fs::create_dir(&man).unwrap();
    machine.status(0, &["man", man.to_str().unwrap()]);
    let page = |name: &str| machine.0.read(&format!("man/{name}")).replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [plain(&machine.status(0, &["help", "hints"])), plain(&page("cgctl.1"))] {
        assert!(kernel_words().len() >= 12 && kernel_profiles().len() >= 5);
        for word in kernel_words() {
            assert!(text.contains(&format!(" {word} ")), "{word}: {text}");
        }
        for (profile, words) in kernel_profiles() {
            let meaning = text.split_once(&format!(" {profile} ")).unwrap().1;
            let end = meaning.split_once(&format!(": {words}")).unwrap_or_else(|| panic!("{profile}: {words}: {text}"));
            assert!(end.0.len() < 60, "{profile}: {meaning}");
        }
        assert!(text.contains(" inherit ") && text.contains(" none "));
    }
    for text in [machine.status(0, &["help", "properties"]), page("cgctl.unit.5")] {
        for property in ["X-CPUHint=", "X-CPUGang=", "X-CPUGangScope=", "X-CPUHeadroom="] {
            assert!(text.lines().any(|line| line.trim_start().starts_with(property)), "{property}: {text}");
        }
    }
    for text in [machine.status(0, &["help", "policy"]), page("cgctl-policy.5")] {
        for key in ["hint", "gang", "gang.scope", "headroom", "[unit.\"NAME\"]", "[group.\"PATH\"]"] {
            assert!(text.lines().any(|line| line.trim_start().starts_with(key)), "{key}: {text}");
        }
        // The example is a policy.
        let example: String = text.lines().map(str::trim).skip_while(|line| *line != "[unit.\"nginx.service\"]")
            .take_while(|line| !line.starts_with("Tables") && !line.starts_with(".fi")).map(|line| format!("{line}\n")).collect();
        machine.0.file("example.toml", &example);
        machine.status(0, &["apply", "-n", machine.0.path().join("example.toml").to_str().unwrap()]);
    }
    for about in ["set", "doctor", "watch-events"] {
        assert_eq!(machine.status(0, &["help", about]), machine.status(0, &[about, "--help"]), "{about}");
    }
    assert_eq!(machine.status(0, &["help"]), machine.status(0, &["--help"]));
}

#[test]
fn batch_top() {
    let machine = Machine::with_policies();
    let text = machine.status(0, &["top", "--batch", "1", "--interval", "0.05", "--sort", "name"]);
    let groups: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(groups, ["GROUP", "/jobs", "/jobs/night", "/system.slice/web.service"]);
    assert!(machine.status(2, &["top"]).contains("--batch"));
}
