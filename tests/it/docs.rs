//! The documents are true: the names, files and links in them exist, and their promises have tests. `docs_program`,
//! `docs_configuration` and `docs_tanka` check the rest. None of them checks the style.

use crate::support::source::{self, root};
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Returns every document: its path from the root, and its text.
pub(crate) fn documents() -> Vec<(PathBuf, String)> {
    let markdown = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let markdown = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        markdown.collect::<Vec<_>>()
    };
    let folders = ["", "docs", "docs/acceptance", "tests/strangers"];
    let mut paths = folders.map(markdown).concat();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a document is text");
        (
            path.strip_prefix(root()).expect("below the root").to_owned(),
            text,
        )
    };
    paths.into_iter().map(read).collect()
}

pub(crate) fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the document exists")
}

pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// Returns the blocks of one language in a document.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => open = Some((info == language, String::new())),
            (Some(_), Some(_)) => {
                let (wanted, block) = open.take().expect("an open block");
                blocks.extend(wanted.then_some(block));
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// Returns the texts between single backticks, outside of blocks.
pub(crate) fn code_spans(text: &str) -> Vec<String> {
    let mut inside = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let prose = prose.collect::<Vec<_>>().join("\n");
    let spans = pattern("`([^`\n]+)`");
    let found = spans.captures_iter(&prose).map(|span| span[1].to_owned());
    found.collect()
}

/// Returns the rows of all tables of a document, without their heads.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        if line.starts_with("|---") {
            rows.pop();
            continue;
        }
        let cells = line.trim_matches('|').split(" | ");
        rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
    }
    rows
}

/// Returns the names of all functions of the source tree.
fn functions() -> BTreeSet<String> {
    source::functions()
        .into_iter()
        .map(|function| function.name)
        .collect()
}

#[test]
fn every_test_the_documents_name_exists() {
    let functions = functions();
    let is_name = pattern(r"^[a-z0-9]+(_[a-z0-9]+){3,}$");
    let mut missing = BTreeSet::new();
    for (path, text) in documents() {
        for name in code_spans(&text).iter().filter(|span| is_name.is_match(span)) {
            if !functions.contains(name) {
                missing.insert(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Checks the table of rules that the emulators enforce. A row has the rule, its source, and the tests that show it
/// enforced.
#[test]
fn every_rule_of_a_platform_has_a_source_and_a_test() {
    let functions = functions();
    let spans = pattern("`([^`]+)`");
    let source = pattern(r"^\[[^\]]+\]\(https://[^)]+\)");
    let rows = rows(&document("docs/channels.md"));
    assert!(rows.len() > 20, "the list was read: {}", rows.len());
    for row in &rows {
        let [_rule, from, tests] = row.as_slice() else {
            panic!("a row of another shape: {row:?}")
        };
        assert!(source.is_match(from), "no source: {row:?}");
        let mut named = spans
            .captures_iter(tests)
            .map(|span| span[1].to_owned())
            .peekable();
        assert!(named.peek().is_some(), "no test: {row:?}");
        assert!(named.all(|test| functions.contains(&test)), "{row:?}");
    }
}

/// Checks the list of features. A row has the feature, its place in the source, and its tests.
#[test]
fn every_feature_has_a_place_and_a_test() {
    let functions = functions();
    let spans = pattern("`([^`]+)`");
    let rows = rows(&document("docs/features.md"));
    assert!(rows.len() > 40, "the list was read: {}", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let [feature, place, shown] = row.as_slice() else {
            wrong.push(format!("not three columns: {row:?}"));
            continue;
        };
        let spans_of = |cell: &str| -> Vec<String> {
            spans.captures_iter(cell).map(|span| span[1].to_owned()).collect()
        };
        let (places, tests) = (spans_of(place), spans_of(shown));
        if places.is_empty() || tests.is_empty() {
            wrong.push(format!("`{feature}` has no place or no test"));
        }
        let absent = places.iter().filter(|place| !root().join(place).exists());
        wrong.extend(absent.map(|place| format!("`{feature}`: no file {place}")));
        let unknown = tests.iter().filter(|test| !functions.contains(*test));
        wrong.extend(unknown.map(|test| format!("`{feature}`: no test {test}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let link = pattern(r"\]\(([^)\s]+)\)");
    let mut dead = Vec::new();
    for (path, text) in documents() {
        for found in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if found.contains("://") {
                continue;
            }
            let (file, anchor) = found.split_once('#').unwrap_or((found.as_str(), ""));
            let folder = root().join(&path);
            let target = match file {
                "" => folder,
                file => folder.parent().expect("a folder").join(file),
            };
            let lives = match anchor {
                "" => target.exists(),
                anchor => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !lives {
                dead.push(format!("{}: {found}", path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Returns the anchors of the headings in a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|next| next.is_alphanumeric() || " -_".contains(*next));
        kept.map(|next| if next == ' ' { '-' } else { next }).collect()
    });
    named.collect()
}

/// Checks that each later request for agent steps has a decision, with the reason. CI-30
#[test]
fn each_later_request_for_steps_has_a_decision() {
    let text = document("docs/decisions.md");
    let section = text.split("## Later requests for agent steps").nth(1);
    let section = section.expect("the section").split("\n## ").next();
    let rows = rows(section.unwrap_or_default());
    let decided: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let expected = [
        "programs in containers",
        "a tool that writes files",
        "sessions in Redis",
        "a long memory",
        "repetition after a failure",
        "output while the model writes",
        "a page of costs",
        "results of earlier runs in place of calls",
    ];
    assert_eq!(decided, expected);
    let unclear = rows.iter().filter(|row| {
        let [_, state, why] = row.as_slice() else {
            return true;
        };
        !["yes", "no", "partly", "later"].contains(&state.as_str()) || !why.ends_with('.')
    });
    assert_eq!(unclear.count(), 0);
}

/// Checks that the architecture document stays short. A longer text belongs in a separate file.
#[test]
fn architecture_fits_on_a_few_screens_and_has_two_diagrams() {
    let text = document("ARCHITECTURE.md");
    assert!(text.lines().count() <= 200, "{} lines", text.lines().count());
    assert_eq!(
        blocks(&text, "text").len(),
        2,
        "modules, and the way of one message"
    );
    let words = text.split("## Glossary").nth(1).expect("the section");
    let words = rows(words.split("## ").next().unwrap_or_default());
    assert!((10..=25).contains(&words.len()), "{} words", words.len());
    let hops = text.split("### As files").nth(1).expect("the section");
    let hops = rows(hops.split("## ").next().unwrap_or_default());
    assert!((1..=12).contains(&hops.len()), "{} hops", hops.len());
}

/// Checks that each document opens with its benefit for the reader.
#[test]
fn each_document_opens_with_what_its_reader_gains() {
    let opens = pattern("(?m)^(After reading this|Ask in Slack|Read this)");
    let mut silent = Vec::new();
    for (path, text) in documents() {
        let opening: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
        if !opens.is_match(&opening.join("\n")) {
            silent.push(path);
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
}
