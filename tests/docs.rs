//! The documentation says what is true: the table of keys, every complete
//! configuration, every record shown, every link.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate::config::check::{check, check_for_replay, keys};
#[cfg(feature = "schema")]
use tidegate::config::schema;
use tidegate::engine::replay::Replay;

/// A fenced block: its language, the words after it, its text.
struct Block {
    place: String,
    info: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page that we own, by its path from the root.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if std::path::Path::new(&name).extension().is_some_and(|ending| ending == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    pages
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for (number, line) in read(page).lines().enumerate() {
        match line.strip_prefix("```") {
            Some(info) if !inside => {
                let place = format!("{page}:{}", number + 1);
                found.push(Block { place, info: info.to_owned(), text: String::new() });
                inside = true;
            }
            Some(_) => inside = false,
            None if inside => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "{page}: a block is not closed");
    found
}

fn blocks_like(info: &str) -> Vec<Block> {
    let found: Vec<Block> =
        pages().iter().flat_map(|page| blocks(page)).filter(|block| block.info.starts_with(info)).collect();
    assert!(!found.is_empty(), "no block is marked `{info}`");
    found
}

fn assert_checks(place: &str, text: &str) {
    let checked = check(text, "example.toml").unwrap_or_else(|refused| panic!("{place}: {refused}"));
    assert_eq!(checked.warnings, [], "{place}");
}

#[test]
fn the_table_of_keys_is_the_one_that_the_program_checks_by() {
    let page = read("docs/configuration.md");
    assert!(page.contains(&keys::reference()), "replace the table in docs/configuration.md by:\n{}", keys::reference());
}

#[cfg(feature = "schema")]
#[test]
fn the_schemas_are_those_that_the_program_prints() {
    for (file, made, option) in [
        ("docs/schema/tidegate.schema.json", schema::file(), ""),
        ("docs/schema/desired.schema.json", schema::desired(), " --desired"),
    ] {
        assert!(read(file) == made, "make it again: tidegate schema{option} > {file}");
    }
}

#[test]
fn every_complete_configuration_passes_the_check() {
    for block in blocks_like("toml complete") {
        assert_checks(&block.place, &block.text);
    }
    for file in ["docs/tour/tidegate.toml", "systemd/tidegate.toml"] {
        assert_checks(file, &read(file));
    }
}

/// Block `toml recipe`: complete with the head of its page, and no word of it is for nothing.
#[test]
fn every_recipe_passes_the_check_with_the_head_of_its_page() {
    for recipe in blocks_like("toml recipe") {
        let page = recipe.place.split(':').next().unwrap();
        let head = blocks(page).into_iter().find(|block| block.info == "toml head").unwrap();
        assert_checks(&recipe.place, &format!("{}{}", head.text, recipe.text));
    }
}

/// Block `json trace`: every kind of line there is, for the configuration of the tour.
#[test]
fn every_line_of_a_trace_that_is_shown_is_one() {
    let config = "docs/tour/tidegate.toml";
    for block in blocks_like("json trace") {
        let mut replay = Replay::new(check_for_replay(&read(config), config).unwrap().config);
        for line in block.text.lines() {
            replay
                .handle_line(line, &mut Vec::new())
                .unwrap_or_else(|error| panic!("{}: {line}: {error}", block.place));
        }
    }
}

#[test]
fn the_readme_shows_the_configuration_of_its_tour() {
    let shown = blocks("README.md").into_iter().find(|block| block.info == "toml complete").unwrap();
    assert_eq!(shown.text, read("docs/tour/tidegate.toml"), "{}", shown.place);
}

/// Block `json replay TRACE CONFIG`: each record in it comes out of that replay.
#[test]
fn every_record_that_is_shown_comes_out_of_its_replay() {
    for block in blocks_like("json replay") {
        let words: Vec<&str> = block.info.split(' ').collect();
        let [_, _, trace, config] = words[..] else { panic!("{}: json replay TRACE CONFIG", block.place) };
        let made = replay(trace, config);
        for record in serde_json::Deserializer::from_str(&block.text).into_iter::<Value>() {
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", block.place));
            assert!(made.contains(&record), "{}: no such record is made: {record}", block.place);
        }
    }
}

fn replay(trace: &str, config: &str) -> Vec<Value> {
    let checked = check_for_replay(&read(config), config).unwrap_or_else(|refused| panic!("{config}: {refused}"));
    let mut replay = Replay::new(checked.config);
    let mut out = Vec::new();
    for line in read(trace).lines() {
        replay.handle_line(line, &mut out).unwrap_or_else(|error| panic!("{trace}: {error}"));
    }
    serde_json::Deserializer::from_slice(&out).into_iter::<Value>().map(Result::unwrap).collect()
}

/// Block `sh certificates`: makes what the page says, by which X.509 has three versions.
#[test]
fn the_certificates_of_the_recipe_are_of_version_3_and_signed_by_its_authority() {
    for block in blocks_like("sh certificates") {
        let dir = tempfile::tempdir().unwrap();
        let run = |script: &str| {
            let output = Command::new("sh").args(["-e", "-c", script]).current_dir(dir.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{}: {said} (openssl is installed?)", block.place);
            String::from_utf8(output.stdout).unwrap()
        };
        run(&block.text);
        for name in ["gateway", "press-7"] {
            let shown = run(&format!("openssl x509 -in {name}.crt -noout -text"));
            assert!(shown.contains("Version: 3"), "{}: {name}: {shown}", block.place);
            run(&format!("openssl verify -CAfile ca.crt {name}.crt"));
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    for page in pages() {
        let base = root().join(&page).parent().map(PathBuf::from).unwrap();
        for link in read(&page).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if path.contains("://") {
                continue;
            }
            let target = if path.is_empty() { root().join(&page) } else { base.join(path) };
            assert!(target.exists(), "{page}: {link} leads nowhere");
            assert!(anchor.is_empty() || has_heading(&target, anchor), "{page}: {link} names no heading");
        }
    }
}

/// As GitHub makes anchors: lower case, blanks to hyphens, punctuation dropped.
fn has_heading(page: &Path, anchor: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let made: String = title
            .chars()
            .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
            .map(|character| if character == ' ' { '-' } else { character })
            .collect();
        made == anchor
    })
}
