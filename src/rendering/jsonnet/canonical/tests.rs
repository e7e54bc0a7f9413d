//! Tests of the canonical form of values.

#![allow(clippy::unwrap_used)]

use super::{CanonicalWriter, ValueDifference, ValueLimits, ValueTooLarge, difference};

fn differs(path: &str, first: &str, second: &str) -> Option<ValueDifference> {
    Some(ValueDifference {
        path: path.to_owned(),
        first: first.to_owned(),
        second: second.to_owned(),
    })
}

#[test]
fn a_value_is_written_once_and_compactly() {
    let mut writer = CanonicalWriter::new(ValueLimits {
        bytes_max: 100,
        ..ValueLimits::NONE
    });
    writer.open('{').unwrap();
    writer.field("a").unwrap();
    writer.open('[').unwrap();
    for number in [1.0, 0.5] {
        writer.item();
        writer.number(number).unwrap();
    }
    writer.close(']').unwrap();
    writer.field("b\n").unwrap();
    writer.open('{').unwrap();
    writer.close('}').unwrap();
    writer.field("c").unwrap();
    writer.string("\u{7f}\"ü🚀").unwrap();
    writer.close('}').unwrap();
    assert_eq!(
        writer.finish(),
        "{\"a\":[1,0.5],\"b\\n\":{},\"c\":\"\\u007f\\\"ü🚀\"}"
    );
}

/// T49
#[test]
fn a_value_that_is_too_long_stops_before_it_is_built() {
    let mut writer = CanonicalWriter::new(ValueLimits {
        bytes_max: 10,
        ..ValueLimits::NONE
    });
    assert_eq!(writer.string(&"x".repeat(100)), Err(ValueTooLarge::Bytes));
    assert!(writer.finish().len() < 10);
}

#[test]
fn the_first_difference_has_a_path() {
    assert_eq!(difference("[1,2]", "[1,2]"), None);
    for (first, second, expected) in [
        ("1", "2", differs("$", "1", "2")),
        (
            r#"{"a":{"b":1}}"#,
            r#"{"a":{"b":"x,y"}}"#,
            differs("$.a.b", "1", "\"x,y\""),
        ),
        (r#"[[1],[2,3]]"#, r#"[[1],[2,4]]"#, differs("$[1][1]", "3", "4")),
        ("[1,2]", "[1]", differs("$[1]", "2", "missing")),
        (
            r#"{"a":1,"c":{"d":[1]}}"#,
            r#"{"a":1}"#,
            differs("$.c", "{\"d\":[1]}", "missing"),
        ),
        (r#"{"b":1}"#, r#"{"a":2,"b":1}"#, differs("$.a", "missing", "2")),
        (
            r#"{"a b":[{"x":1}]}"#,
            r#"{"a b":[{"x":{}}]}"#,
            differs("$[\"a b\"][0].x", "1", "an object"),
        ),
        (
            r#"{"a":[1],"b":3}"#,
            r#"{"a":[1],"b":[]}"#,
            differs("$.b", "3", "an array"),
        ),
        (
            r#"{"a":"\\","b":1}"#,
            r#"{"a":"\\","b":2}"#,
            differs("$.b", "1", "2"),
        ),
    ] {
        assert_eq!(difference(first, second), expected, "{first} {second}");
    }
}
