//! The check that the ids in the comments of tests resolve: `docs/acceptance` has one row for each, with its promise
//! and its tests, and the rows and the comments name the same tests.

use crate::docs::rows;
use crate::support::source::{functions, functions_of, root, rust_files};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;

/// The families of ids, with the size of each.
const FAMILIES: [(&str, usize); 11] = [
    ("TK-", 89),
    ("SDK-", 18),
    ("STK-", 65),
    ("REP-", 7),
    ("CI-", 30),
    ("I", 12),
    ("G", 7),
    ("T", 96),
    ("P", 5),
    ("R", 36),
    ("B", 28),
];

/// Returns the id with this number in its family. Attacks are numbered with two digits.
fn id(family: &str, number: usize) -> String {
    match family {
        "T" => format!("T{number:02}"),
        family => format!("{family}{number}"),
    }
}

static ID: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"\b(?:(?:TK|SDK|STK|REP|CI)-[1-9]\d*|T\d\d|[BGIPR][1-9]\d*)\b";
    Regex::new(pattern).expect("a regular expression")
});

/// Returns the ids in a text.
fn ids(text: &str) -> BTreeSet<String> {
    ID.find_iter(text)
        .map(|found| found.as_str().to_owned())
        .collect()
}

/// The ids in each test's comment, by the test's name.
type Carried = BTreeMap<String, BTreeSet<String>>;

/// Returns the ids in the doc comments of the tests in one text.
fn carried_by(text: &str) -> Carried {
    let mut carried = Carried::new();
    for test in functions_of(text).into_iter().filter(|function| function.is_test) {
        carried.entry(test.name).or_default().extend(ids(&test.comment));
    }
    carried
}

/// Returns the ids of all tests, and the goals of all scenarios of `drydock-torture`.
fn carried() -> Carried {
    let mut carried = Carried::new();
    for test in functions().into_iter().filter(|function| function.is_test) {
        carried.entry(test.name).or_default().extend(ids(&test.comment));
    }
    let scenarios = scenarios();
    assert!(scenarios.len() > 10, "the scenarios were read: {scenarios:?}");
    carried.extend(scenarios);
    carried
}

/// Returns the scenarios by their command lines, with their goals: `R1,B1-B12`.
fn scenarios() -> Carried {
    let table =
        fs::read_to_string(root().join("torture/src/scenario/mod.rs")).expect("the table of scenarios");
    let row = Regex::new(r#"(?m)^\s*(?:Ci|Full) "([a-z]+)" "([^"]*)""#).expect("a pattern");
    let goals = |goals: &str| goals.split(',').flat_map(range).collect();
    row.captures_iter(&table)
        .map(|row| (format!("drydock-torture --scenario {}", &row[1]), goals(&row[2])))
        .collect()
}

/// Returns the ids of a range like `B1-B12`, or of a single id.
fn range(goals: &str) -> Vec<String> {
    let Some((first, last)) = goals.split_once('-') else {
        return ids(goals).into_iter().collect();
    };
    let family = first.trim_end_matches(|next: char| next.is_ascii_digit());
    let number = |id: &str| -> usize { id.trim_start_matches(family).parse().expect("a number") };
    (number(first)..=number(last))
        .map(|number| id(family, number))
        .collect()
}

/// A row of the documents.
#[derive(Debug)]
struct Row {
    id: String,
    promise: String,
    shown: Shown,
}

/// The last cell of a row.
#[derive(Debug)]
enum Shown {
    /// These tests show it, wholly or in part.
    By(BTreeSet<String>),
    NotYet,
    /// The cell has another content.
    Unclear(String),
}

static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").expect("a regular expression"));

fn shown(cell: &str) -> Shown {
    let names: BTreeSet<String> = SPAN.captures_iter(cell).map(|span| span[1].to_owned()).collect();
    if cell.starts_with("not yet: ") && names.is_empty() {
        return Shown::NotYet;
    }
    let list = match cell.strip_prefix("partly, ") {
        Some(rest) => rest.split_once(": ").map_or("", |(_, list)| list),
        None => cell,
    };
    let written = names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    // The cell lists only distinct names in backticks.
    match !names.is_empty() && list.len() == written.len() && list.starts_with('`') {
        true => Shown::By(names),
        false => Shown::Unclear(cell.to_owned()),
    }
}

/// Returns the rows of one document.
fn rows_of(text: &str) -> Vec<Row> {
    let cells = rows(text).into_iter();
    let row = |row: Vec<String>| {
        let [id, promise, cell] = <[String; 3]>::try_from(row).expect("three cells: id, promise, shown by");
        let shown = shown(&cell);
        Row { id, promise, shown }
    };
    cells.map(row).collect()
}

/// Returns the rows of all documents, by document.
fn documents() -> BTreeMap<String, Vec<Row>> {
    let entries = fs::read_dir(root().join("docs/acceptance")).expect("the folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let document = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("a document");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(text.starts_with("# Acceptance: "), "{name}: a title");
        (name, rows_of(&text))
    };
    paths.map(document).collect()
}

/// Returns all disagreements between the rows and the tests.
fn disagreements(rows: &[Row], carried: &Carried) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut named: BTreeMap<&str, &BTreeSet<String>> = BTreeMap::new();
    let nobody = BTreeSet::new();
    for Row { id, promise, shown } in rows {
        if !promise.contains(' ') {
            wrong.push(format!("{id}: no promise"));
        }
        let by = match shown {
            Shown::By(tests) => tests,
            Shown::NotYet => &nobody,
            Shown::Unclear(cell) => {
                wrong.push(format!(
                    "{id}: neither tests nor `not yet` with the reason: {cell}"
                ));
                continue;
            }
        };
        if named.insert(id, by).is_some() {
            wrong.push(format!("{id}: two rows"));
        }
        for test in by {
            match carried.get(test) {
                None => wrong.push(format!("{id}: no test `{test}`")),
                Some(ids) if !ids.contains(id) => wrong.push(format!("{id}: `{test}` does not carry it")),
                Some(_) => {}
            }
        }
    }
    for (test, ids) in carried {
        for id in ids {
            match named.get(id.as_str()) {
                None => wrong.push(format!("{id}: no row, and `{test}` carries it")),
                Some(by) if !by.contains(test) => wrong.push(format!("{id}: its row does not name `{test}`")),
                Some(_) => {}
            }
        }
    }
    wrong
}

#[test]
fn acceptance_rows_and_test_comments_name_each_other() {
    let carried = carried();
    let with_ids = carried.values().filter(|ids| !ids.is_empty()).count();
    assert!(with_ids > 400, "the comments were read: {with_ids}");
    assert!(carried.values().any(|ids| ids.contains("T01")));
    assert!(carried["drydock-torture --scenario boundaries"].contains("B7"));
    let rows: Vec<Row> = documents().into_values().flatten().collect();
    let wrong = disagreements(&rows, &carried);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn acceptance_ids_are_complete_and_each_family_is_on_one_page() {
    let documents = documents();
    for (family, count) in FAMILIES {
        let is_of = |row: &&Row| {
            let number = row.id.strip_prefix(family);
            number.is_some_and(|number| number.bytes().all(|next| next.is_ascii_digit()))
        };
        let pages = documents
            .values()
            .map(|rows| rows.iter().filter(is_of).collect::<Vec<_>>());
        let pages: Vec<Vec<&Row>> = pages.filter(|rows| !rows.is_empty()).collect();
        assert_eq!(pages.len(), 1, "{family}: pages");
        let found: Vec<&str> = pages[0].iter().map(|row| row.id.as_str()).collect();
        let expected: Vec<String> = (1..=count).map(|number| id(family, number)).collect();
        assert_eq!(found, expected, "{family}: in their order, each once");
    }
    let all: usize = documents.values().map(Vec::len).sum();
    assert_eq!(all, FAMILIES.iter().map(|(_, count)| count).sum::<usize>());
}

#[test]
fn acceptance_ids_in_any_comment_have_a_row() {
    let documents = documents();
    let known: BTreeSet<&str> = documents.values().flatten().map(|row| row.id.as_str()).collect();
    let mut unknown = Vec::new();
    let mut found = 0;
    for (path, text) in ["src", "tests", "benches", "torture/src"]
        .into_iter()
        .flat_map(rust_files)
    {
        // This file contains invented ids.
        let comments = text.lines().map(str::trim).filter(|line| line.starts_with("//"));
        for line in comments.filter(|_| path != "tests/it/acceptance.rs") {
            let ids = ids(line);
            found += ids.len();
            let lost = ids.iter().filter(|id| !known.contains(id.as_str()));
            unknown.extend(lost.map(|id| format!("{path}: {id} in `{line}`")));
        }
    }
    assert!(found > 800, "the comments were read: {found}");
    assert!(unknown.is_empty(), "\n{}", unknown.join("\n"));
}

#[test]
fn acceptance_check_finds_each_kind_of_disagreement() {
    let source = "/// T01, R2\n#[test]\nfn the_first_one() {}\n\n/// Says something. P3\n#[tokio::test(start_paused = true)]\n\
                  async fn the_second_one() {}\n\n/// T09\nfn no_test() {}\n";
    let carried = carried_by(source);
    let expected = [
        ("the_first_one", vec!["R2", "T01"]),
        ("the_second_one", vec!["P3"]),
    ];
    let expected =
        expected.map(|(test, ids)| (test.to_owned(), ids.into_iter().map(str::to_owned).collect()));
    assert_eq!(carried, Carried::from(expected));

    let found = |rows: &str| {
        disagreements(
            &rows_of(&format!("| id | promise | shown by |\n|---|---|---|\n{rows}")),
            &carried,
        )
    };
    let first =
        "| R2 | A promise. | partly, smaller: `the_first_one` |\n| T01 | A promise. | `the_first_one` |\n";
    assert_eq!(
        found(&format!(
            "{first}| P3 | A promise. | `the_second_one` |\n| P4 | A promise. | not yet: why |\n"
        )),
        [""; 0]
    );
    for (last, reported) in [
        ("", "P3: no row, and `the_second_one` carries it"),
        (
            "| P3 | A promise. | not yet: why |",
            "P3: its row does not name `the_second_one`",
        ),
        (
            "| P3 | A promise. | not yet |",
            "P3: neither tests nor `not yet` with the reason: not yet",
        ),
        (
            "| P3 | A promise. | `the_second_one`, `no_test` |",
            "P3: no test `no_test`",
        ),
        (
            "| P3 | A promise. | `the_second_one`, `the_first_one` |",
            "P3: `the_first_one` does not carry it",
        ),
        ("| P3 |  | `the_second_one` |", "P3: no promise"),
        (
            "| P3 | A promise. | `the_second_one` |\n| P3 | A promise. | `the_second_one` |",
            "P3: two rows",
        ),
        (
            "| P3 | A promise. | not yet: `the_second_one` |",
            "P3: neither tests nor `not yet` with the reason: not yet: `the_second_one`",
        ),
        (
            "| P3 | A promise. | partly: `the_second_one` |",
            "P3: neither tests nor `not yet` with the reason: partly: `the_second_one`",
        ),
        (
            "| P3 | A promise. | partly, `the_second_one` |",
            "P3: neither tests nor `not yet` with the reason: partly, `the_second_one`",
        ),
        (
            "| P3 | A promise. |  |",
            "P3: neither tests nor `not yet` with the reason: ",
        ),
    ] {
        assert!(
            found(&format!("{first}{last}\n")).contains(&reported.to_owned()),
            "{last}: {:?}",
            found(last)
        );
    }
}
