//! Tests of each step of the formatter through its public function. The conformance tests check byte equality with
//! go-jsonnet.

#![allow(clippy::unwrap_used)]

use super::format;

fn formatted(text: &str, expected: &str) {
    assert_eq!(format(text).unwrap(), expected, "{text}");
    assert_eq!(format(expected).unwrap(), expected, "again: {expected}");
}

#[test]
fn imports_are_sorted_within_their_group() {
    formatted(
        "local b = import 'b';\nlocal a = import 'a'; // first\n\nlocal c = import 'C';\n{}",
        "local a = import 'a';  // first\nlocal b = import 'b';\n\nlocal c = import 'C';\n{}\n",
    );
}

#[test]
fn a_list_has_one_line_or_one_line_each() {
    formatted("[1,\n2, 3]", "[\n  1,\n  2,\n  3,\n]\n");
    formatted("{ a: 1, b: [2, 3,], }", "{ a: 1, b: [2, 3] }\n");
    formatted("f(1,\n2, 3)", "f(1,\n  2,\n  3)\n");
}

#[test]
fn blank_lines_comments_and_strings_are_in_one_style() {
    formatted(
        "\n\n#!keep\n# a\n\n\n\n\n{ 'a': \"it's\" }\n\n\n",
        "#!keep\n// a\n\n\n{ a: \"it's\" }\n",
    );
}

#[test]
fn names_parentheses_and_plus_are_plain() {
    formatted(
        "((a['b'] + { ['c']: 1, ['d-e']: x[1::] }))",
        "(a.b { c: 1, 'd-e': x[1:] })\n",
    );
}

#[test]
fn what_is_nested_in_conditions_of_comprehensions_ends() {
    // Each level visits its array three times; without a limit this would take exponential time.
    let text = format!("{}[]{}", "[x for x in ".repeat(60), " if x if x]".repeat(60));
    assert!(format(&text).unwrap().starts_with("[x for x in [x"));
}

#[test]
fn text_that_would_grow_without_bound_is_refused() {
    let text = format!("{}(1{})", "f".repeat(400_000), ",\n1".repeat(2_000));
    assert!(format(&text).is_err());
}

#[test]
fn an_empty_text_block_stays() {
    formatted("|||-\n  \n|||", "|||-\n  \n|||\n");
}
