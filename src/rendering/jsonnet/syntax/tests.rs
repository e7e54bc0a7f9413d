//! Tests of the parser: the tree it returns, the sources it refuses, and its robustness against any input.

#![allow(clippy::unwrap_used)]

use super::{DEPTH_MAX, SyntaxErrorKind, parse};

/// Levels of each construct that the tests parse: some constructs nest two levels at once.
const LEVELS: usize = DEPTH_MAX / 2 - 10;

fn problem(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn mistakes_have_the_place_and_the_words_of_go_jsonnet() {
    for (text, expected) in [
        ("", "1:1 Unexpected end of file"),
        ("{\n  a: 1\n  b: 2 }", "3:3-4 Expected a comma before next field"),
        ("local x = 5\n", "2:1 Expected , or ; but got end of file"),
        ("042", "1:2-4 Did not expect: (NUMBER, \"42\")"),
        ("import 'a' + 'b'", "1:8-17 Computed imports are not allowed"),
        (
            "import |||\n  a\n|||",
            "(1:8)-(3:4) Block string literals not allowed in imports",
        ),
        (
            "f(a=1, 2)",
            "1:8-9 Positional argument after a named argument is not allowed",
        ),
        (
            "f(1 2)",
            "1:5-6 Expected a comma before next function argument, got (NUMBER, \"2\")",
        ),
        ("[1 2]", "1:4-5 Expected a comma before next array element"),
        ("x[1:2:3:4]", "1:8-9 Invalid slice: too many colons"),
        ("x[]", "1:3-4 ast.Index requires an expression"),
        ("super", "1:1-6 Expected . or [ after super"),
        ("if 1", "1:5 Expected token then but got end of file"),
        ("(1]", "1:3-4 Expected token \")\" but got \"]\""),
        ("local a = 1, a = 2; a", "1:14-15 Duplicate local var: a"),
        ("{ a: 1, 'a': 2 }", "1:9-12 Duplicate field: a"),
        ("{ a() +: 1 }", "1:3-4 Cannot use +: syntax sugar in a method: a"),
        (
            "{ a = 1 }",
            "1:5-6 Expected one of :, ::, :::, +:, +::, +:::, got: =",
        ),
        (
            "{ [a]: 1, b: 2 for a in [] }",
            "1:16-19 Object comprehension can only have one field",
        ),
        (
            "function(1) 1",
            "1:10-11 Expected token IDENTIFIER but got (NUMBER, \"1\") while parsing parameter",
        ),
        ("1==-1", "1:2-3 Not a binary operator: ="),
        ("a in super + 1", "1:12-13 Did not expect: (OPERATOR, \"+\")"),
        ("'\\x'", "1:1-5 Unknown escape sequence in string literal: \\x"),
        (
            "'\\ud83d'",
            "1:1-9 Truncated unicode surrogate pair escape sequence in string literal.",
        ),
        ("'abc", "1:1 Unterminated String"),
        ("@x", "1:1 Couldn't lex verbatim string, junk after '@': 120"),
        ("é", "1:1 Could not lex the character '\\u00e9'"),
        ("1.x", "1:3 Couldn't lex number, junk after decimal point: 'x'"),
        ("0_1", "1:2 Couldn't lex number, _ not allowed after leading 0"),
        ("/* x", "1:1 Multi-line comment has no terminating */"),
        ("||| x", "1:1 Text block requires new line after |||."),
        (
            "|||\nx\n|||",
            "1:1 Text block's first line must start with whitespace",
        ),
        ("|||\n  x\n y", "1:1 Text block not terminated with |||"),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

/// The nesting constructs of the language: opening text, innermost text, closing text.
const NESTS: [(&str, &str, &str); 20] = [
    ("[", "", "]"),
    ("(", "1", ")"),
    ("{a:", "1", "}"),
    ("{[x]:", "1", " for x in []}"),
    ("[x for x in ", "[]", "]"),
    ("std.length(", "1", ")"),
    ("f(a=", "1", ")"),
    ("if true then ", "1", ""),
    ("if true then 1 else ", "1", ""),
    ("local a = ", "1", "; a"),
    ("assert ", "true", "; 1"),
    ("function(a) ", "1", ""),
    ("function(a=", "1", ") a"),
    ("error ", "1", ""),
    ("-", "1", ""),
    ("a[", "1", "]"),
    ("a {b: ", "1", "}"),
    ("a[1:", "1", ":2]"),
    ("super[", "1", "]"),
    ("{local a = ", "1", "}"),
];

/// The constructs that extend to the right: each step adds an operator or a postfix.
const CHAINS: [&str; 5] = [" + 1", ".a", "[1]", "()", " {}"];

fn nested((open, inside, close): (&str, &str, &str), levels: usize) -> String {
    format!("{}{inside}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn nesting_is_bounded_for_every_construct() {
    for nest in NESTS {
        let error = parse(&nested(nest, 100_000)).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, SyntaxErrorKind::TooDeep, "{nest:?}: {error}");
        let text = nested(nest, LEVELS);
        assert!(parse(&text).unwrap().depth > 100, "{nest:?}");
    }
    for step in CHAINS {
        let error = parse(&format!("a{}", step.repeat(100_000)))
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.kind, SyntaxErrorKind::TooDeep, "{step}: {error}");
        parse(&format!("a{}", step.repeat(LEVELS))).unwrap();
    }
}

#[test]
fn a_million_brackets_are_an_error() {
    for open in ["[", "(", "{", "{a:", "f(", "a["] {
        let error = parse(&open.repeat(1_000_000)).map(|_| ()).unwrap_err();
        assert_ne!(error.kind, SyntaxErrorKind::TooLong, "{open}");
    }
}

#[test]
fn a_long_row_of_locals_is_not_deep() {
    let text = format!("{}1", "local a = 1; assert a == 1;\n".repeat(20_000));
    assert!(parse(&text).unwrap().depth < 10);
}

/// Checks that deep sources can also be formatted on the small stack of a test thread.
#[test]
fn what_can_be_read_can_be_formatted() {
    for nest in NESTS {
        let text = crate::rendering::jsonnet::format::format(&nested(nest, LEVELS)).unwrap();
        assert!(text.ends_with('\n'), "{nest:?}");
    }
    for step in CHAINS {
        crate::rendering::jsonnet::format::format(&format!("a{}", step.repeat(LEVELS))).unwrap();
    }
    let binds: Vec<String> = (0..5_000)
        .map(|number| format!("a{number} = import 'a'"))
        .collect();
    crate::rendering::jsonnet::format::format(&format!("local {}; 1", binds.join(", "))).unwrap();
}

#[test]
fn cut_anywhere_a_source_is_read_or_refused() {
    let text = "#!x\nlocal a = import 'b', f(x, y=1) = |||\n  é\n|||; // c\n{ ['é\\u00e9']+: [1_0.5e-3 for x in @'a''b' if x], /* d */ b(c):: super.x[1:2:] tailstrict }";
    for (at, _) in text.char_indices() {
        let (start, end) = text.split_at(at);
        let _ = (parse(start), parse(end));
    }
}

/// Complete sources that the test damages.
const WHOLE: [&str; 4] = [
    "local a = import 'a'; // one\n{\n  b+::: [1.5e3, 'it\\'s', @\"x\"\"y\"], /* c */ [k]: v for k in std\n}\n",
    "# first\nfunction(x, y=2) if x == y then $.a[1::] else error |||\n  text\n    more\n||| % super.z\n",
    "assert !true || ~1 >> -2 & 3 : |||-\n\ta\n|||; f(x) tailstrict { a: self, 'b c': null }\n",
    "/*\n several\n */ x in super && y != z<=3 ^ 4 | 5\r\n\r\n\t\t\"é\\u00e9🚀\"\n",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..proptest::prelude::ProptestConfig::default()
    })]

    /// Checks for any bytes that every part of the text belongs to exactly one token or the fodder between tokens.
    #[test]
    fn tokens_and_what_is_between_them_are_the_text(
        which in 0..WHOLE.len(),
        damage in proptest::collection::vec((proptest::arbitrary::any::<u16>(), proptest::arbitrary::any::<u8>(), 0..3_u8), 0..6),
    ) {
        let mut bytes = WHOLE[which].as_bytes().to_vec();
        for (at, byte, how) in damage {
            let at = usize::from(at) % bytes.len().max(1);
            match how {
                0 if !bytes.is_empty() => drop(bytes.remove(at)),
                1 if !bytes.is_empty() => bytes[at] = byte,
                _ => bytes.insert(at, byte),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let Ok(lexed) = super::lexer::lex(&text) else { return Ok(()) };
        let mut at = 0;
        for token in &lexed.tokens {
            let (start, end) = (token.span.start as usize, token.span.end as usize);
            let between = text.get(at..start);
            proptest::prop_assert!(start <= end && between.is_some(), "{token:?}\n{text}");
            // The text between two tokens contains no token, and its elements exist as fodder.
            let alone = super::lexer::lex(between.unwrap_or_default());
            proptest::prop_assert!(alone.is_ok_and(|alone| alone.tokens.len() == 1), "{between:?}\n{text}");
            proptest::prop_assert!(text.get(start..end).is_some(), "{token:?}\n{text}");
            at = end;
        }
        proptest::prop_assert_eq!(at, text.len());
    }
}
