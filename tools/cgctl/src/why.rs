// SPDX-License-Identifier: GPL-2.0-only
//! What the counters say, in words: how often a hint was followed, and why not.

use std::collections::BTreeMap;

use crate::hint::{has_category, parse_effective};
use crate::state::State;

type Stat = BTreeMap<String, u64>;

/// One category of hint: what is counted, and what each outcome but "followed" means.
struct Category {
    /// As in hint::has_category().
    name: &'static str,
    followed: &'static str,
    /// What is counted, in the plural.
    unit: &'static str,
    reasons: &'static [(&'static str, &'static str)],
    /// Outcomes in which there was nothing to follow.
    moot: &'static [(&'static str, &'static str)],
}

const CATEGORIES: [Category; 6] = [
    Category {
        name: "wake", followed: "hint_wake_followed", unit: "wakeups",
        reasons: &[("hint_wake_full", "target LLC full"), ("hint_wake_affinity", "affinity excludes the target LLC"),
                   ("hint_wake_irq", "woken by an interrupt, not by a task"),
                   ("hint_wake_turns", "the task and its waker take turns")],
        moot: &[("hint_wake_same_llc", "waker and previous CPU share an LLC already")],
    },
    Category {
        name: "fork", followed: "hint_fork_followed", unit: "forks and execs",
        reasons: &[("hint_fork_full", "less than an idle core in the parent's LLC, or no idle CPU to spread to"),
                   ("hint_fork_affinity", "affinity excludes the target LLC")],
        moot: &[],
    },
    Category {
        name: "reach", followed: "hint_reach_followed", unit: "searches beyond the LLC",
        reasons: &[("hint_reach_full", "no idle CPU beyond the LLC either")], moot: &[],
    },
    Category {
        name: "scan", followed: "hint_scan_followed", unit: "searches",
        reasons: &[("hint_scan_full", "the whole LLC was searched in vain")], moot: &[],
    },
    Category {
        name: "pack", followed: "hint_pack_followed", unit: "placements",
        reasons: &[("hint_pack_full", "no awake CPU had room")], moot: &[],
    },
    Category {
        name: "power", followed: "hint_energy_followed", unit: "placements",
        reasons: &[("hint_energy_full", "fits no CPU"), ("hint_energy_unavailable", "no energy model")], moot: &[],
    },
];

/// "83 %", never "0 %" or "100 %" for something that is not quite that.
pub fn share(part: u64, total: u64) -> String {
    if total == 0 {
        return "0 %".into();
    }
    match (part as f64 * 100.0 / total as f64).round() as u64 {
        0 if part > 0 => "<1 %".into(),
        100 if part < total => ">99 %".into(),
        percent => format!("{percent} %"),
    }
}

/// A number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub fn duration(usec: u64) -> String {
    match usec {
        0..1_000 => format!("{usec} µs"),
        1_000..1_000_000 => format!("{:.1} ms", usec as f64 / 1e3),
        _ => format!("{:.1} s", usec as f64 / 1e6),
    }
}

fn category(category: &Category, stat: &Stat) -> Option<String> {
    let get = |key: &str| stat.get(key).copied().unwrap_or(0);
    let followed = get(category.followed);
    let refused: Vec<(u64, &str)> = category.reasons.iter().map(|(key, text)| (get(key), *text)).collect();
    let moot: Vec<(u64, &str)> = category.moot.iter().map(|(key, text)| (get(key), *text)).collect();
    let total = [followed].into_iter().chain(refused.iter().map(|(n, _)| *n)).chain(moot.iter().map(|(n, _)| *n))
        .fold(0u64, u64::saturating_add);
    if !stat.contains_key(category.followed) {
        return None;
    }
    let (name, unit) = (category.name, category.unit);
    if total == 0 {
        return Some(format!("{name}: no {unit} yet"));
    }
    let list = |mut outcomes: Vec<(u64, &str)>| {
        outcomes.retain(|(n, _)| *n > 0);
        outcomes.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        outcomes.iter().map(|(n, text)| format!("{text}, {} of {unit}", share(*n, total))).collect::<Vec<_>>().join("; ")
    };
    let mut text = format!("{name}: followed in {} of {} {unit}", share(followed, total), count(total));
    for (what, outcomes) in [("not followed", list(refused)), ("nothing to choose", list(moot))] {
        if !outcomes.is_empty() {
            text += &format!("; {what}: {outcomes}");
        }
    }
    Some(text)
}

/// Sentences on one group, the most telling first.
pub fn sentences(state: &State) -> Vec<String> {
    let get = |key: &str| state.stat.get(key).copied().unwrap_or(0);
    let mut out = Vec::new();
    if let Some(effective) = &state.hint_effective {
        let (words, unavailable) = parse_effective(effective);
        if unavailable != 0 {
            out.push(format!("{}: this machine cannot honour it{}", crate::hint::format_words(unavailable),
                             if has_category(unavailable, "power") { " (it has no energy model)" } else { "" }));
        }
        out.extend(CATEGORIES.iter().filter(|known| has_category(words, known.name))
                   .filter_map(|known| category(known, &state.stat)));
        let turns = get("hint_turns_followed");
        if turns > 0 && (has_category(words, "wake") || has_category(words, "fork")) {
            out.push(format!("turns: {} wakeups placed where the waker was, as the two take turns", count(turns)));
        }
        if has_category(words, "slice") && state.stat.contains_key("hint_slice_followed") {
            let custom = get("hint_slice_custom");
            out.push(format!("slice: {} requests with a scaled slice{}", count(get("hint_slice_followed")),
                             if custom > 0 {
                                 format!("; not scaled: {} wakeups of tasks with a slice of their own", count(custom))
                             } else { String::new() }));
        }
        if has_category(words, "preempt") && state.stat.contains_key("hint_preempt_followed") {
            out.push(format!("preempt: {} wakeups left the running task alone", count(get("hint_preempt_followed"))));
        }
        if has_category(words, "wake") {
            let (held, overloaded, gave_up) =
                (get("hint_balance_held"), get("hint_balance_overloaded"), get("hint_balance_gave_up"));
            let total = held.saturating_add(overloaded).saturating_add(gave_up);
            if total > 0 {
                out.push(format!("balance: task left in its LLC in {} of {} cases; LLC overloaded {}, gave up {}",
                                 share(held, total), count(total), share(overloaded, total), share(gave_up, total)));
            }
        }
        if has_category(words, "fork") {
            for (key, what) in [("hint_numa_spread", "not left in a node that had room by default"),
                                ("hint_numa_together", "left in a node, or moved to one, that was too full by default")] {
                if get(key) > 0 {
                    out.push(format!("nodes: task {what}, {} times", count(get(key))));
                }
            }
        }
        if has_category(words, "power") {
            for (key, what) in [("hint_energy_moved", "that ran without a break moved to a cheaper CPU, or one that it fits"),
                                ("hint_energy_held", "left on the CPU that it fits, while the load balancer spread others")] {
                if get(key) > 0 {
                    out.push(format!("energy: task {what}, {} times", count(get(key))));
                }
            }
        }
        if words == 0 && state.hint.as_deref() == Some("inherit") {
            out.push("hint: inherits, and no ancestor has one".into());
        } else if let Some(from) = &state.hint_from {
            out.push(format!("hint: inherited from /{from}"));
        }
    }
    if state.stat.contains_key("gang_slots_led") && (state.gang.as_deref() == Some("1") || get("gang_slots_led") > 0) {
        let (led, ipis, empty) = (get("gang_slots_led"), get("gang_ipis"), get("gang_ipis_empty"));
        out.push(if led == 0 { "gang: no slot led yet".into() } else {
            format!("gang: {} slots led, {} IPIs, {} of them found nobody to start; together for {}, favoured for {}",
                    count(led), count(ipis), share(empty, ipis), duration(get("gang_corun_usec")),
                    duration(get("gang_favoured_usec")))
        });
    }
    if let Some(stat) = &state.headroom_stat {
        if stat.demand > 0.0 {
            let budget = stat.budget_usec.map_or("no limit now".into(), |budget| {
                format!("held to {} of CPU in {}", duration(budget), duration(stat.period_usec))
            });
            let idle = stat.idle.map(|idle| format!(", {idle:.2} % is")).unwrap_or_default();
            out.push(format!("headroom: siblings want {:.2} % idle{idle}; {budget}", stat.demand));
        }
    }
    let (periods, capped) = (get("headroom_periods"), get("headroom_capped_periods"));
    if capped > 0 {
        out.push(format!("headroom: held back in {} of {} periods, for {} in all", share(capped, periods),
                         count(periods), duration(get("headroom_capped_usec"))));
    }
    if state.populated == Some(false) {
        out.push("the group has no tasks".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(effective: &str, stat: &[(&str, u64)]) -> State {
        State {
            hint: Some("wake_affine".into()), hint_effective: Some(effective.into()),
            stat: stat.iter().map(|(k, v)| (k.to_string(), *v)).collect(), ..State::default()
        }
    }

    #[test]
    fn full_llc() {
        let state = state("wake_affine", &[("hint_wake_followed", 170), ("hint_wake_full", 830),
                                           ("hint_wake_irq", 0), ("hint_wake_same_llc", 0)]);
        assert_eq!(sentences(&state), ["wake: followed in 17 % of 1,000 wakeups; not followed: target LLC full, \
                                        83 % of wakeups"]);
    }

    #[test]
    fn pairs() {
        let stat = [("hint_fork_followed", 1), ("hint_turns_followed", 1_234)];
        assert_eq!(sentences(&state("fork_affine", &stat))[1],
                   "turns: 1,234 wakeups placed where the waker was, as the two take turns");
        assert!(sentences(&state("slice_long", &stat)).iter().all(|told| !told.starts_with("turns")));
    }

    #[test]
    fn nodes() {
        let stat = [("hint_fork_followed", 1), ("hint_numa_spread", 1_234), ("hint_numa_together", 0)];
        assert_eq!(sentences(&state("fork_spread", &stat))[1..],
                   ["nodes: task not left in a node that had room by default, 1,234 times"]);
        let stat = [("hint_fork_followed", 1), ("hint_numa_together", 7)];
        assert_eq!(sentences(&state("fork_affine", &stat))[1..],
                   ["nodes: task left in a node, or moved to one, that was too full by default, 7 times"]);
        assert!(sentences(&state("wake_hold", &stat)).iter().all(|told| !told.starts_with("nodes")));
    }

    #[test]
    fn energy() {
        let stat = [("hint_energy_followed", 900), ("hint_energy_full", 60), ("hint_energy_unavailable", 40),
                    ("hint_energy_moved", 1_234), ("hint_energy_held", 5)];
        assert_eq!(sentences(&state("energy", &stat)),
                   ["power: followed in 90 % of 1,000 placements; not followed: fits no CPU, 6 % of placements; \
                     no energy model, 4 % of placements",
                    "energy: task that ran without a break moved to a cheaper CPU, or one that it fits, 1,234 times",
                    "energy: task left on the CPU that it fits, while the load balancer spread others, 5 times"]);
        assert_eq!(sentences(&state("energy", &[("hint_energy_followed", 0)])), ["power: no placements yet"]);
    }

    #[test]
    fn others() {
        assert_eq!(sentences(&state("wake_hold", &[("hint_wake_followed", 0)])), ["wake: no wakeups yet"]);
        assert!(sentences(&state("energy:unavailable", &[]))[0].contains("no energy model"));
        let gang = State { gang: Some("1".into()), ..state("none", &[("gang_slots_led", 2_000), ("gang_ipis", 3_000),
            ("gang_ipis_empty", 30), ("gang_corun_usec", 2_500_000), ("gang_favoured_usec", 1_500)]) };
        assert_eq!(sentences(&gang), ["gang: 2,000 slots led, 3,000 IPIs, 1 % of them found nobody to start; \
                                       together for 2.5 s, favoured for 1.5 ms"]);
    }

    #[test]
    fn shares() {
        assert_eq!((share(1, 1000).as_str(), share(999, 1000).as_str(), share(1, 2).as_str(), share(0, 0).as_str()),
                   ("<1 %", ">99 %", "50 %", "0 %"));
    }

    proptest! {
        #[test]
        fn any_counters(values in proptest::collection::vec(any::<u64>(), 33), words in 0u32..0x1000) {
            let keys = ["hint_wake_followed", "hint_wake_full", "hint_wake_affinity", "hint_wake_irq",
                "hint_wake_turns", "hint_turns_followed", "hint_wake_same_llc", "hint_fork_followed", "hint_fork_full",
                "hint_reach_followed", "hint_reach_full", "hint_scan_followed", "hint_scan_full", "hint_pack_followed",
                "hint_pack_full", "hint_balance_held", "hint_balance_overloaded", "hint_balance_gave_up",
                "hint_numa_spread", "hint_numa_together", "hint_energy_followed", "hint_energy_full",
                "hint_energy_unavailable", "hint_energy_moved", "hint_energy_held",
                "gang_slots_led", "gang_ipis", "gang_ipis_empty", "headroom_periods", "headroom_capped_periods", "headroom_capped_usec",
                "hint_slice_followed", "hint_preempt_followed"];
            let stat: Vec<(&str, u64)> = keys.into_iter().zip(values).collect();
            prop_assert!(!sentences(&state(&crate::hint::format_words(words), &stat)).is_empty());
        }
    }
}
