//! The walls of the architecture, checked on the source text: which folder may
//! name what, and how long files and functions may be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Code lines of a file (tests in it aside). A ratchet: lower it, never raise it.
const FILE_LINES_MAX: usize = 350;

/// A folder or file under src, the words that must not stand in its code, and why.
const WALLS: &[(&str, &[&str], &str)] = &[
    (
        "model",
        &["crate::engine", "crate::config", "crate::agent", "crate::cli", "crate::fleet"],
        "model depends on nothing",
    ),
    ("engine", &["crate::config", "crate::agent", "crate::cli", "crate::fleet"], "dependencies point one way"),
    ("config", &["crate::agent", "crate::cli", "crate::fleet"], "dependencies point one way"),
    ("fleet", &["crate::agent", "crate::cli", "crate::config"], "the simulated fleet is pure"),
    ("agent", &["crate::cli"], "dependencies point one way"),
    (
        "engine",
        &[
            "tokio",
            "rumqttc",
            "sled",
            "std::fs",
            "std::net",
            "std::thread",
            "std::env",
            "std::process",
            "Instant",
            "SystemTime",
        ],
        "the engine is pure: bytes and time in, steps out",
    ),
    (
        "config",
        &["tokio", "rumqttc", "sled", "std::fs", "std::net", "std::thread", "std::env", "Instant", "SystemTime"],
        "config is pure: text in, a checked configuration out",
    ),
    (
        "fleet",
        &["tokio", "rumqttc", "sled", "std::fs", "std::net", "std::thread", "Instant", "SystemTime"],
        "the fleet is pure",
    ),
    ("engine", &["HashMap", "HashSet"], "their order could reach an output; use ordered maps"),
    ("cli", &["rumqttc", "sled::", "SystemTime"], "the outside world belongs to the agent"),
    ("agent", &["engine::wire"], "only the engine lays out the bytes of its state"),
    ("config", &["engine::wire"], "only the engine lays out the bytes of its state"),
    ("fleet", &["engine::wire"], "only the engine lays out the bytes of its state"),
    ("cli", &["engine::wire"], "only the engine lays out the bytes of its state"),
];

/// A word, and the only places under src whose code may contain it.
const MONOPOLIES: &[(&str, &[&str], &str)] = &[
    // `agent/store/mod.rs` names its own module of that name.
    ("sled::", &["agent/store/sled.rs", "agent/store/mod.rs"], "one file knows the store"),
    ("rumqttc", &["agent/mqtt/"], "one folder knows the MQTT libraries"),
    ("mqtt_protocol_core", &["agent/mqtt/listener/"], "one folder knows the listener's codec"),
    ("tokio_tungstenite", &["agent/mqtt/listener/websocket.rs"], "one file knows WebSocket"),
    ("argon2", &["agent/mqtt/listener/access/"], "one folder hashes passwords"),
    ("Instant::now", &["agent/clock.rs"], "one file reads clocks"),
    ("SystemTime::now", &["agent/clock.rs"], "one file reads clocks"),
    ("unbounded", &[], "every queue has a bound"),
];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.len() > 40, "the source is where it is looked for");
    found
}

/// Code without comments and without the tests at the end of the file.
fn code_of(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// True where `word` stands by itself: `sled` is not in `assembled`.
fn names(code: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_part);
        let after = code[at + word.len()..].chars().next().is_some_and(is_part);
        !before && (!after || word.ends_with("::"))
    })
}

#[test]
fn no_folder_names_what_it_must_not_know() {
    let mut breaches = Vec::new();
    for (name, text) in sources() {
        let code = code_of(&text);
        for (folder, words, why) in WALLS {
            if name.starts_with(&format!("{folder}/")) {
                breaches.extend(
                    words
                        .iter()
                        .filter(|word| names(&code, word))
                        .map(|word| format!("src/{name} names {word}: {why}")),
                );
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn what_one_place_owns_is_named_nowhere_else() {
    let mut breaches = Vec::new();
    for (name, text) in sources() {
        let code = code_of(&text);
        for (word, owners, why) in MONOPOLIES {
            if names(&code, word) && !owners.iter().any(|owner| name.starts_with(owner)) {
                breaches.push(format!("src/{name} names {word}: {why} (it is {})", owners.join(", ")));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn files_stay_short_enough_to_be_read() {
    let mut long: Vec<String> = Vec::new();
    for (name, text) in sources() {
        let lines = code_of(&text).lines().filter(|line| !line.trim().is_empty()).count();
        if lines > FILE_LINES_MAX {
            long.push(format!("src/{name} has {lines} lines of code; the bound is {FILE_LINES_MAX}"));
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_file_opens_with_why_it_exists() {
    let silent: Vec<String> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(name, _)| name).collect();
    assert!(silent.is_empty(), "no `//!` at the top of {}", silent.join(", "));
}

#[test]
fn the_checks_can_fail() {
    assert!(names("use sled::Db;", "sled::"));
    assert!(names("sled", "sled"));
    assert!(!names("assembled", "sled"));
    assert!(!names(&code_of("// tokio\nfn f() {}\n#[cfg(test)]\nmod tests { tokio }"), "tokio"));
}

/// The program of a metric agent was 245 MB. Ours has a budget for each board, and CI builds for
/// the boards and holds it to that.
#[test]
fn f78_the_size_of_the_program_is_a_budget_that_ci_checks() {
    let read = |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let script = read("tests/boards.sh");
    let budget = script.lines().find_map(|line| line.strip_prefix("size_max_mib=")).unwrap();
    assert!(budget.split(' ').next().unwrap().parse::<u32>().unwrap() <= 6, "{budget}");
    let ci = read(".ci/run");
    assert!(ci.contains("step_boards() { tests/boards.sh; }"));
    let steps = ci.lines().find(|line| line.starts_with("for name in packages")).unwrap();
    assert!(steps.contains(" boards"), "{steps}");
}
