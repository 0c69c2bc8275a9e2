// SPDX-License-Identifier: GPL-2.0-only
//! What to write instead, where a policy lacks the quotes that TOML wants around names with dots and other signs.

use toml::Value;

/// The name with quotes that take it as it is.
fn quoted(name: &str) -> String {
    if name.contains('\\') && !name.contains('\'') { format!("'{name}'") } else { format!("\"{name}\"") }
}

/// The header of a table for a name.
fn header(kind: &str, name: &str) -> String {
    format!("[{kind}.{}]", quoted(name))
}

/// For a name whose dots made tables within tables: "nginx", and below that "service" with the settings.
pub fn of_tables(kind: &str, name: &str, key: &str, inner: &Value) -> String {
    let mut full = format!("{name}.{key}");
    let mut inner = inner;
    // Down to the settings, which are no tables, or the scope of a gang.
    while let Some((key, below)) = inner.as_table().and_then(|table| table.iter().next()) {
        if !below.is_table() || matches!(key.as_str(), "gang" | "cpu") {
            break;
        }
        full = format!("{full}.{key}");
        inner = below;
    }
    format!("a name with dots stands in quotes: {}", header(kind, &full))
}

/// Keys are in quotes where a dot is part of them.
fn scope_key(line: &str) -> bool {
    let key = line.split('=').next().unwrap_or_default().trim();
    matches!(key, "gang.scope" | "cpu.gang.scope")
}

/// For a line that TOML does not understand in this place; nothing where it is not known what was meant.
pub fn of_line(line: &str, before: &str) -> Option<String> {
    let line = line.trim();
    let table = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some((kind, name)) = table.and_then(|text| text.split_once('.')) {
        if matches!(kind, "unit" | "group") && !name.contains(['"', '\'']) {
            return Some(format!("names stand in quotes: {}", header(kind, name)));
        }
    }
    if let Some(text) = line.split('"').skip(1).step_by(2).find(|text| text.contains('\\')) {
        return Some(format!("in double quotes a backslash begins an escape; single quotes take it as it is: '{text}'"));
    }
    let table = before.rfind("\n[").map_or(before, |begin| &before[begin..]);
    let is_gang = line.split('=').next().is_some_and(|key| key.trim() == "gang");
    if scope_key(line) || is_gang && table.lines().any(|line| scope_key(line.trim())) {
        return Some("beside 'gang', the key of the scope stands in quotes: \"gang.scope\"".into());
    }
    let (key, value) = line.split_once('=')?;
    let word = value.trim();
    let bare = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !word.contains(['"', '\''])
        && !matches!(word, "true" | "false");
    bare.then(|| format!("text stands in quotes: {} = \"{word}\"", key.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (line, before, want) in [
            ("[unit.web@a.service]", "", Some("names stand in quotes: [unit.\"web@a.service\"]")),
            ("[unit.a\\x2db.swap]", "", Some("names stand in quotes: [unit.'a\\x2db.swap']")),
            ("[group.a/b]", "", Some("names stand in quotes: [group.\"a/b\"]")),
            ("[unit.\"foo\\x2dbar.service\"]", "", Some("single quotes take it as it is: 'foo\\x2dbar.service'")),
            ("gang.scope = \"llc\"", "gang = true\n", Some("stands in quotes: \"gang.scope\"")),
            ("gang = true", "[group.a]\ngang.scope = \"llc\"\n", Some("stands in quotes: \"gang.scope\"")),
            ("gang = true", "gang.scope = 1\n[group.a]\ngang = true\n", None),
            ("hint = tail_latency", "", Some("text stands in quotes: hint = \"tail_latency\"")),
            ("hint = \"pack", "", None), ("headroom = 3 0", "", None), ("[unit", "", None), ("", "", None),
        ] {
            let found = of_line(line, before);
            assert_eq!(found.is_some(), want.is_some(), "{line}: {found:?}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{line}");
        }
    }

    #[test]
    fn tables() {
        let inner: Value = toml::from_str::<toml::Table>("[b.service]\nhint = 1\n").unwrap().into();
        assert!(of_tables("unit", "x", "a", &inner).ends_with("[unit.\"x.a.b.service\"]"));
        let inner: Value = toml::from_str::<toml::Table>("gang.scope = 1\n").unwrap().into();
        assert!(of_tables("group", "system", "slice", &inner).ends_with("[group.\"system.slice\"]"));
    }
}
