//! Tests of the rewriting of programs.

use super::RewrittenSource;
use crate::rendering::jsonnet::syntax;

const DEPTH: usize = 40;

fn harmless(source: &str) -> String {
    let source = source.as_bytes();
    let text = String::from_utf8_lossy(&RewrittenSource::new(source, DEPTH).first.apply(source)).into_owned();
    // The spaces separate the inserted text from keywords.
    text.replace(" _drydock", "_drydock")
        .replace("tailstrict ", "tailstrict")
}

#[test]
fn a_comment_that_would_be_misread_is_blanked_where_it_stands() {
    for (source, blanked) in [
        (
            "{ /* x **/ a: 1, /* y */ b: 2 }",
            "{ /*    */ a: 1, /* y */ b: 2 }",
        ),
        ("/***/ 1", "/* */ 1"),
        ("/****/ 1", "/****/ 1"),
        ("/**/ 1", "/**/ 1"),
        ("/*****/ 1", "/*   */ 1"),
        ("/* *\n **/ 1", "/*  \n  */ 1"),
        ("// a\r b\n1", "//     \n1"),
        ("# a\r\n1", "# a\r\n1"),
        ("# \u{e9}\r b", "#      "),
        ("'/* x **/' + @'/***/'", "'/* x **/' + @'/***/'"),
        ("|||\n  /***/\n|||", "|||\n  /***/\n|||"),
        ("/* x **", "/* x **"),
    ] {
        assert_eq!(harmless(source), blanked, "{source}");
    }
}

#[test]
fn what_binds_in_another_way_is_put_in_parentheses() {
    for (source, expected) in [
        ("~2*3", "(~2)*3"),
        ("3 * ~2 % 4", "3 * (~2) % 4"),
        ("-~ /* **/ 2 / 4", "(-~ /*  */ 2) / 4"),
        ("~a.b[1](c) % 4", "(~a.b[1](c)) % 4"),
        ("~2 + 3 * 4", "~2 + 3 * 4"),
        ("1 / -2 / 4", "1 / (-2) / 4"),
        ("'%s' % 'x' - 1", "_drydock_modulo('%s' , 'x') tailstrict - 1"),
        ("'a' + b", "'a' + _drydock_text(b) tailstrict"),
        ("a.b + 'c'", "_drydock_text(a.b) tailstrict + 'c'"),
        (
            "'a' + f(b) + std.max(c, d)",
            "'a' + _drydock_text(f(b)) tailstrict + _drydock_text(std.max(c, d)) tailstrict",
        ),
        (
            "a + 'b' + c + |||\n  d\n|||",
            "_drydock_text(a) tailstrict + 'b' + _drydock_text(c) tailstrict + |||\n  d\n|||",
        ),
        (
            "a + ('b' + c) + if d then e",
            "_drydock_text(a) tailstrict + ('b' + _drydock_text(c) tailstrict) + _drydock_text(if d then e) tailstrict",
        ),
        (
            "a + '%d' % b + c",
            "_drydock_text(a) tailstrict + _drydock_modulo('%d' , b) tailstrict + _drydock_text(c) tailstrict",
        ),
        (
            "{ 'a'+: 1, b: c + d } + ['e' + 'f']",
            "{ 'a'+: 1, b: _drydock_plus(c , d) tailstrict } + ['e' + 'f']",
        ),
        (
            "a /* + */ + b + c",
            "_drydock_plus(_drydock_plus(a /* + */ , b) tailstrict , c) tailstrict",
        ),
        ("a + { b: 1 } + c", "a + { b: 1 } + c"),
        ("a + [1] + b.c {}", "a + [1] + b.c {}"),
        ("a.new('b') + c + a.withD(1)", "a.new('b') + c + a.withD(1)"),
        ("a + 1 + 'b'", "_drydock_text(a + 1) tailstrict + 'b'"),
        (
            "[i + 1, '' + 1, 1.5 + 2, 'a' + 'b']",
            "[i + 1, '' + 1, 1.5 + 2, 'a' + 'b']",
        ),
        (
            "a == 'b' && a != null && a == 3",
            "a == 'b' && a != null && a == 3",
        ),
        ("std.length(a) == 0", "std.length(a) == 0"),
        (
            "a == 0 || a!=b",
            "_drydock_equal(a , 0) tailstrict || _drydock_unequal(a,b) tailstrict",
        ),
        ("a + 1.5", "_drydock_plus(a , 1.5) tailstrict"),
        (
            "a % b + 5 % b",
            "_drydock_plus(_drydock_modulo(a , b) tailstrict , 5 % b) tailstrict",
        ),
        ("a % ~b", "_drydock_modulo(a , (~b)) tailstrict"),
        ("-2 * 3", "-2 * 3"),
        ("3 * ~if x then y else 4 * ~5", "3 * (~if x then y else 4 * (~5))"),
        ("'~2*3'", "'~2*3'"),
        ("[a for x in y if b]", "[assert true; a for x in y if b]"),
        ("[ ((self)), for x in y]", "[ assert true; ((self)), for x in y]"),
        ("[ /* a */ $ for x in y]", "[ /* a */ assert true; $ for x in y]"),
        (
            "[x for x in y for z in x] + [x.a for y in z]",
            "[assert true; x for x in y for z in x] + [x.a for y in z]",
        ),
        ("[z for x in y for z in x if z]", "[z for x in y for z in x if z]"),
        (
            "[a.b for x in y for z in x for a in z.b if a for b in [1]]",
            "[a.b for x in y for z in x for a in _drydock_list(z.b) tailstrict if a for b in _drydock_list([1]) tailstrict]",
        ),
        (
            "{ [k]: k for x in y for z in x for k in z }",
            "{ [k]: k for x in y for z in x for k in _drydock_list(z) tailstrict }",
        ),
        (
            "a + 1 / 3 + [1][0] + 5",
            "_drydock_plus(_drydock_plus(a , 1 / 3) tailstrict , [1][0]) tailstrict + 5",
        ),
        (
            "(import 'a') + 0.5",
            "_drydock_plus((import 'a') , 0.5) tailstrict",
        ),
        ("(import 'a') + b", "(import 'a') + b"),
        ("a + {} + 0.5", "_drydock_plus(a + {} , 0.5) tailstrict"),
        (
            "'a' + 9007199254740993",
            "'a' + _drydock_text(9007199254740993) tailstrict",
        ),
        (
            "a == 3e-9 || a == $.b",
            "_drydock_equal(a , 3e-9) tailstrict || _drydock_equal(a , $.b) tailstrict",
        ),
        (
            "[importstr 'a\\/b', 'c']",
            "[importstr \"_drydock_bytes:a/b\", 'c']",
        ),
        (
            "[import 'a', importbin @'b']",
            "[import 'a', importbin \"_drydock_bytes:b\"]",
        ),
        ("'a\\/b' + '\\u00e9'", "\"a/b\" + \"\u{e9}\""),
        ("'\\ud800\\ud800\\n'", "\"\u{fffd}\\n\""),
        ("'\\ud83d\\ude00'", "\"\u{1f600}\""),
        ("'\\\\/'", "'\\\\/'"),
    ] {
        assert_eq!(harmless(source), expected, "{source}");
    }
}

#[test]
fn what_the_language_refuses_is_refused_where_an_engine_might_not() {
    for source in [
        "{ a: : 1 }",
        "{ a + : 1 }",
        "{ a+ :: 1 }",
        "local a = 1,; a",
        "local; 1",
        "1==-1",
        "true&&!false",
        "$*2",
        "import ('x')",
        "import |||\n  x\n|||",
        "importstr 'x' + 'y'",
        "{ a: super }",
        "super",
        "'\\x41'",
        "{ x: 1 for y in [] }",
        "local _drydock_text = 1; _drydock_text",
        "_drydock_text('a')",
    ] {
        assert!(
            RewrittenSource::new(source.as_bytes(), DEPTH)
                .syntax_error
                .is_some(),
            "{source}"
        );
    }
    for source in [
        "{ a: 1, b+: 2, c:: 3, d+:: 4, e::: 5, f+::: 6, g:-1, h:!true, i:$.a, j: -$.a }",
        "local a = 1, b = -1; a-b+-1<-2",
        "[1, 2][0: :1]",
        "[1, 2][::1] + [import 'x', importstr @'y', (importbin \"z\").a]",
        "{ a: super.b, c: super['d'], e: 'f' in super, superb: 1, importer: 2 }",
        "{ [y]: 1 for y in [] }",
        "local drydock = '_drydock', a_drydock = 1; drydock // _drydock",
    ] {
        let refused = RewrittenSource::new(source.as_bytes(), DEPTH).syntax_error;
        assert_eq!(
            refused.is_some(),
            syntax::parse(source).is_err(),
            "{source}: {refused:?}"
        );
    }
}

#[test]
fn a_place_is_found_again_in_the_text_as_it_was_written() {
    let source = "/* a **/ 'x\\/' + ~2*3 + y";
    let reading = RewrittenSource::new(source.as_bytes(), DEPTH);
    let there = reading.first.apply(source.as_bytes());
    let there = std::str::from_utf8(&there).unwrap_or_default();
    assert_eq!(
        there,
        "/*    */ \"x/\" +  _drydock_text((~2)*3) tailstrict  +  _drydock_text(y) tailstrict "
    );
    for token in ["/*", "+", "~", "2", "*3", "3"] {
        let place = |text: &str| text.find(token).unwrap_or(usize::MAX);
        assert_eq!(
            reading.first.original_offset(place(there)),
            place(source),
            "{token}"
        );
    }
    let last = |text: &str| text.rfind('y').unwrap_or(usize::MAX);
    assert_eq!(reading.first.original_offset(last(there)), last(source));
    assert_eq!(reading.first.original_offset(there.len()), source.len());
    assert_eq!(reading.first.original_offset(9), 9);
}
