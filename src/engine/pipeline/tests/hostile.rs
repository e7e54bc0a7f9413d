//! Tests of hostile files: each is refused with a short text, at once, and without a panic.

use super::{COMPLETE, load, operator, problems};
use crate::engine::pipeline::LoadedPipelines;
use proptest::prelude::*;
use serde_json::json;

/// In a map or list on one line, a brace of a reference without quotation marks ends the map.
#[test]
fn a_reference_without_quotation_marks_is_named_where_it_breaks_the_file() {
    let hint = "; write each `${...}` in quotation marks";
    for (values, is_named) in [
        ("{x: ${params.x}}", true),
        ("[echo, ${params.x}, b]", true),
        ("{x: '${params.x}', y: [}", false),
    ] {
        let found = problems(&format!("pipelines:\n  a: {values}\n"));
        assert!(found.starts_with("F:2: is not YAML: "), "{values}: {found}");
        assert_eq!(found.contains(hint), is_named, "{values}: {found}");
    }
}

/// T54, T96, I12
#[test]
fn a_hostile_file_is_refused_with_a_reason() {
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\npipelines: {}\n";
    let long_key = format!("{}: 1\npipelines: {{}}\n", "k".repeat(900));
    let cases: Vec<(String, &str)> = vec![
        (
            bomb.to_owned(),
            "F:1: anchors and aliases are not accepted; use `defaults`, or write the pipelines in Jsonnet",
        ),
        (
            "pipelines: *a\n".to_owned(),
            "F:1: anchors and aliases are not accepted",
        ),
        (
            "pipelines: !!map {}\n".to_owned(),
            "F:1: tags such as `!!str` are not accepted",
        ),
        ("<<: {}\npipelines: {}\n".to_owned(), "F:1:<<: unknown key"),
        (
            "1: x\n".to_owned(),
            "F:1: a key is a whole number; put it in quotes",
        ),
        ("[a]: x\n".to_owned(), "F:1: a key is a list; put it in quotes"),
        (
            "pipelines: {}\npipelines: {}\n".to_owned(),
            "F:2:pipelines: is written twice; keep one of them",
        ),
        (
            "pipelines: {}\n---\npipelines: {}\n".to_owned(),
            "F:2: is a second document",
        ),
        (
            String::new(),
            "F: is empty; write `pipelines:` and the pipelines below it",
        ),
        ("\tpipelines: {}\n".to_owned(), "F:1: is not YAML: "),
        ("pipelines: {\n".to_owned(), "F:2: is not YAML: "),
        ("{!,".to_owned(), "F: is not YAML: "),
        (
            "pipelines: \"\\0\"\n".to_owned(),
            "F:1:pipelines: expected a map, found text",
        ),
        ("x".repeat((1 << 20) + 1), "F: is larger than 1024 KiB"),
        (
            "[".repeat(100_000),
            "F:1: has more than 16 levels of lists and maps",
        ),
        (
            format!("pipelines: [{}1]\n", "1,".repeat(100_001)),
            "F:1: has more than 100000 values",
        ),
        (long_key, "F:1:kkkkkkkkkkkkkkkk"),
    ];
    for (text, expected) in cases {
        let found = problems(&text);
        let first = found.lines().next().unwrap();
        let shown: String = text.chars().take(60).collect();
        assert!(first.starts_with(expected), "{shown}: {found}");
        assert!(found.len() < 20_000, "{shown}");
    }
    let error = LoadedPipelines::from_yaml(b"pipelines: \xff", &operator()).unwrap_err();
    assert_eq!(
        error.to_string(),
        ".drydock/pipelines.yaml: is not UTF-8 text; save it as UTF-8"
    );
    // A byte order mark is no part of the text.
    load(&format!("\u{feff}{COMPLETE}")).unwrap();
}

#[test]
fn numbers_of_any_size_and_texts_with_nul_are_refused_by_key() {
    let agent = |text: &str| {
        format!(
            "pipelines:\n  a:\n    triggers: [{{api: {{}}}}]\n    steps: [{{name: s, agent: {{model: a/b, {text}}}}}]\n"
        )
    };
    let key = "F:4:pipelines.a.steps[0].agent";
    for (text, expected) in [
        (
            "prompt: p, max_steps: 99999999999999999999999",
            "max_steps: expected a whole number from 1 to 200, found a number",
        ),
        (
            "prompt: p, max_tokens: -1",
            "max_tokens: expected a whole number from 0 to 100000000",
        ),
        (
            "prompt: p, max_steps: 1e400",
            "max_steps: expected a whole number from 1 to 200, found text",
        ),
        (
            "prompt: p, max_steps: 0x10",
            "max_steps: expected a whole number from 1 to 200, found text",
        ),
        (
            "prompt: p, max_steps: 007",
            "max_steps: expected a whole number from 1 to 200, found text",
        ),
        ("prompt: \"a\\0b\"", "prompt: contains a NUL character; remove it"),
    ] {
        assert_eq!(problems(&agent(text)), format!("{key}.{expected}"), "{text}");
    }
}

#[test]
fn at_most_a_hundred_problems_are_listed() {
    let keys: String = (0..1_000).map(|number| format!("unknown{number}: 1\n")).collect();
    assert_eq!(load(&keys).unwrap_err().problems.len(), 100);
    let deep = (0..20).fold(json!(1), |inner, _| json!([inner]));
    let error = LoadedPipelines::from_value(deep, &operator()).unwrap_err();
    assert_eq!(
        error.to_string(),
        ".drydock/pipelines.jsonnet: has more than 16 levels of lists and maps"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 100, ..ProptestConfig::default() })]

    /// T54: a file with some changed characters is read or refused, and never ends the process.
    #[test]
    fn a_damaged_file_is_read_or_refused(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[ \n\t:{}\\[\\]&*!|>'\"#,a0$-]{0,3}"), 1..6),
    ) {
        let mut text: Vec<char> = COMPLETE.chars().collect();
        for (place, change) in changes {
            let place = place.index(text.len());
            text.splice(place..=place, change.chars());
        }
        drop(load(&text.into_iter().collect::<String>()));
    }
}
