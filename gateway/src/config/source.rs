//! Merges the file and the environment, and refuses what is no key. Pure.

use super::keys::{HOME_VARIABLE, KEYS, Key, Kind, OTHER_VARIABLES, PREFIX};
use super::problems::Problems;
use super::raw::Raw;
use toml::{Table, Value};

/// What was written, all of it that can be used.
pub(super) fn merge(
    text: &str,
    env: impl Iterator<Item = (String, String)>,
    problems: &mut Problems,
) -> Raw {
    let mut table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            problems.add("the file", error.to_string());
            Table::new()
        }
    };
    keep_known(&mut table, "", problems);
    apply(&mut table, env, problems);
    match Value::Table(table).try_into() {
        Ok(raw) => raw,
        Err(error) => {
            problems.add("the file", error.to_string());
            Raw::default()
        }
    }
}

/// Takes out, and notes, what is no key or of a wrong kind.
fn keep_known(table: &mut Table, prefix: &str, problems: &mut Problems) {
    table.retain(|name, value| {
        let path = format!("{prefix}{name}");
        if let Some(key) = KEYS.iter().find(|key| key.path == path) {
            let good = key.kind.admits(value);
            if !good {
                problems.add(path, format!("must be {}", key.kind.as_str()));
            }
            return good;
        }
        let section = format!("{path}.");
        let known = KEYS.iter().any(|key| key.path.starts_with(&section));
        match value {
            Value::Table(inner) if known => {
                keep_known(inner, &section, problems);
                true
            }
            _ if known => {
                problems.add(path, "must be a section");
                false
            }
            _ => {
                let paths = KEYS.iter().map(|key| key.path.to_owned());
                let hint = nearest(&path, paths);
                problems.add(path, format!("unknown key; did you mean `{hint}`?"));
                false
            }
        }
    });
}

/// Puts the variables in their places.
fn apply(table: &mut Table, env: impl Iterator<Item = (String, String)>, problems: &mut Problems) {
    let mut home = None;
    for (variable, text) in env.filter(|(variable, _)| variable.starts_with(PREFIX)) {
        if let Some(key) = KEYS.iter().find(|key| key.variable() == variable) {
            match key.kind.read(&text) {
                Some(value) => put(table, *key, value),
                None => problems.add(variable, format!("must be {}", key.kind.as_str())),
            }
        } else if variable == HOME_VARIABLE {
            home = Kind::List.read(&text);
        } else if !OTHER_VARIABLES.contains(&variable.as_str()) {
            let hint = nearest(&variable, KEYS.iter().map(|key| key.variable()));
            problems.add(variable, format!("unknown variable; did you mean {hint}?"));
        }
    }
    let endpoints = Key {
        path: "home.endpoints",
        kind: Kind::List,
    };
    let given = table
        .get("home")
        .is_some_and(|section| section.get("endpoints").is_some());
    if let Some(home) = home.filter(|_| !given) {
        put(table, endpoints, home);
    }
}

fn put(table: &mut Table, key: Key, value: Value) {
    let Some((section, name)) = key.path.split_once('.') else {
        table.insert(key.path.to_owned(), value);
        return;
    };
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(name.to_owned(), value);
    }
}

fn nearest(wrong: &str, known: impl Iterator<Item = String>) -> String {
    let likeness = |known: &String| strsim::jaro_winkler(wrong, known);
    known
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))
        .unwrap_or_default()
}
