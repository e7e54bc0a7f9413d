//! Tests of the native functions for YAML.

#![allow(clippy::unwrap_used)]

use super::parse;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn what_the_parser_panics_at_is_malformed() {
    let error = parse("{!,").unwrap_err().to_string();
    assert!(error.starts_with("parseYaml: yaml: did not find"), "{error}");
}

fn one(text: &str) -> Value {
    let mut documents = parse(text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

#[test]
fn scalars_are_what_go_makes_of_them() {
    for (text, expected) in [
        ("yes", json!("yes")),
        ("on", json!("on")),
        ("True", json!(true)),
        ("~", json!(null)),
        ("0o17", json!(15.0)),
        ("017", json!(15.0)),
        ("1_000", json!(1000.0)),
        ("0x1F", json!(31.0)),
        ("-0b11", json!(-3.0)),
        ("1e3", json!(1000.0)),
        (".5", json!(0.5)),
        ("+1", json!(1.0)),
        ("1.", json!(1.0)),
        ("08", json!(8.0)),
        ("1.2.3", json!("1.2.3")),
        ("- 1", json!([1.0])),
        ("-", json!([null])),
        ("'1'", json!("1")),
        ("!!str 1", json!("1")),
        ("!mine 1", json!("1")),
        ("!!int '3'", json!(3.0)),
        ("!!binary aGk=", json!("hi")),
        ("2001-1-2", json!("2001-01-02T00:00:00Z")),
        (
            "2001-12-14t21:59:43.10-05:00",
            json!("2001-12-14T21:59:43.1-05:00"),
        ),
        ("2001-12-14 21:59:43", json!("2001-12-14T21:59:43Z")),
        ("2001-13-14", json!("2001-13-14")),
        ("2001-1-2x", json!("2001-1-2x")),
        ("12:30:45", json!("12:30:45")),
        ("|\n a\n b\n", json!("a\nb\n")),
    ] {
        assert_eq!(one(text), expected, "{text}");
    }
}

#[test]
fn every_document_counts() {
    assert_eq!(
        parse("a: 1\n---\nb: 2\n---\n").unwrap(),
        [json!({"a": 1.0}), json!({"b": 2.0}), json!(null)]
    );
    assert_eq!(parse("").unwrap(), Vec::<Value>::new());
}

#[test]
fn merge_keys_add_what_is_missing() {
    let text = "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\nc: {<<: [{x: 3}, *a]}\n";
    let expected = json!({
        "a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0, "y": 2.0}, "c": {"x": 3.0, "y": 1.0},
    });
    assert_eq!(one(text), expected);
}

#[test]
fn what_go_refuses_is_refused() {
    for text in [
        "1: a",
        "a: 1\na: 2",
        "*x",
        "[",
        "a: b: c",
        "{<<: 1}",
        "\ta: 1",
        "!!int x",
        ".inf: 1",
    ] {
        let result = parse(text);
        assert!(result.is_err() || text == ".inf: 1", "{text}: {result:?}");
    }
}

/// T54
#[test]
fn an_alias_bomb_is_refused_at_once() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..=8 {
        let above = format!("*a{}", level - 1);
        bomb.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            [above.as_str(); 9].join(",")
        ));
    }
    let started = Instant::now();
    let error = parse(&bomb).unwrap_err();
    assert_eq!(error.to_string(), "parseYaml: yaml: too many aliases");
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

/// T54: a long text counts by its memory.
#[test]
fn a_long_text_is_not_repeated_without_end() {
    let text = "x".repeat(500_000);
    let repeated = |times: usize| format!("- &a {text}\n{}", "- *a\n".repeat(times));
    assert!(parse(&repeated(10)).is_ok());
    assert_eq!(
        parse(&repeated(20)).unwrap_err().to_string(),
        "parseYaml: yaml: too many aliases"
    );
}

fn nested_anchors(levels: usize, items: usize) -> String {
    let open: String = (0..levels).map(|level| format!("&a{level} [")).collect();
    format!("{open}{}1{}", "1,".repeat(items), "]".repeat(levels))
}

/// T54
#[test]
fn anchors_within_each_other_keep_no_more_than_is_written() {
    let error = parse(&nested_anchors(127, 500_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "parseYaml: yaml: too many anchors within each other"
    );
    let text = "x".repeat(400_000);
    let long = nested_anchors(127, 0).replace("[1]", &format!("[{text}]"));
    assert_eq!(
        parse(&long).unwrap_err().to_string(),
        "parseYaml: yaml: too many anchors within each other"
    );
    // One anchor around a large value is normal, and so are some anchors around a small one.
    for (levels, items) in [(1, 200_000), (127, 500)] {
        assert!(parse(&nested_anchors(levels, items)).is_ok(), "{levels}");
    }
}

/// T54
#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(10_000),
        "- ".repeat(10_000),
        "{a: ".repeat(10_000),
        "&a ".repeat(10_000),
    ] {
        assert!(parse(&text).is_err());
    }
}
