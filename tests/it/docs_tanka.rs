//! The document about Tanka lists the known differences that the conformance tests read.

use crate::docs::{document, rows};
use std::collections::BTreeSet;

/// The tables of texts and values that the lists `errors` and `values` belong to. They list no differences themselves.
const OF_OTHERS: [&str; 2] = ["said", "values_here"];

/// Checks that the numbers of known differences from Tanka are those of the list that the conformance tests read.
#[test]
fn the_list_of_known_differences_is_as_long_as_the_document_says() {
    let listed: toml::Table = document("tests/it/conformance/known.toml").parse().expect("TOML");
    let sections = listed.keys().map(String::as_str);
    let mut sections: BTreeSet<&str> = sections.filter(|name| !OF_OTHERS.contains(name)).collect();
    let text = document("docs/tanka.md");
    let packs = rows(&text).into_iter().filter(|row| row.len() == 5);
    for row in packs {
        let name = row[0].trim_matches('`').to_owned();
        let known: usize = row[3].parse().expect("a number");
        let entries: usize = row[4].parse().expect("a number");
        let expected = match name.as_str() {
            "lint messages" => crate::conformance::DIFFERENT_MESSAGES_COUNT,
            name => listed
                .get(name)
                .and_then(toml::Value::as_table)
                .map_or(0, toml::Table::len),
        };
        sections.remove(name.as_str());
        assert_eq!(entries, expected, "{name}");
        assert!(known >= entries, "{name}: an entry stands for a case at least");
    }
    assert!(sections.is_empty(), "the document leaves out {sections:?}");
}

#[test]
fn every_known_difference_stands_in_the_document() {
    let listed: toml::Table = document("tests/it/conformance/known.toml").parse().expect("TOML");
    let text = document("docs/tanka.md");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (section, reasons) in listed
        .iter()
        .filter(|(section, _)| !OF_OTHERS.contains(&section.as_str()))
    {
        for (case, reason) in reasons.as_table().expect("a section") {
            let reason = reason.as_str().expect("a reason");
            let reason = reason
                .trim_start_matches("flagged: ")
                .trim_start_matches("the same: ");
            // These reasons are `the same` as the entry above them.
            let is_told = reason.starts_with("the same") || text.contains(reason);
            assert!(
                is_told,
                "docs/tanka.md does not say of `{case}` ({section}): {reason}"
            );
        }
    }
}
