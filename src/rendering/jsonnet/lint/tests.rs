//! Tests of the linter: each message has a case, and valid code has no findings.

#![allow(clippy::unwrap_used)]

use super::{ImportCache, ImportLookup, LintCode, LintSeverity, lint, lint_with_imports};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns `code line:columns message` of each finding.
fn found(text: &str) -> Vec<String> {
    let resolves = |path: &str| path == "there.libsonnet";
    let findings = lint("main.jsonnet", text, &resolves);
    findings
        .iter()
        .map(|finding| format!("{} {}", finding.range, finding.message))
        .collect()
}

fn silent(text: &str) {
    assert_eq!(found(text), Vec::<String>::new(), "{text}");
}

#[test]
fn every_message_has_its_place() {
    for (text, expected) in [
        ("{ a: }", "1:6-7 Unexpected: \"}\" while parsing terminal"),
        ("x", "1:1-2 Unknown variable: x"),
        ("self.a", "1:1-5 Can't use self outside of an object."),
        ("super.a", "1:1-6 Can't use super outside of an object."),
        ("$.a", "1:1-2 No top-level object found."),
        (
            "import 'gone.libsonnet'",
            "1:1-24 couldn't open import \"gone.libsonnet\": no match locally or in the Jsonnet library paths",
        ),
        ("local x = 1; 2", "1:7-12 Unused variable: x"),
        ("{ local x = 1 }", "1:9-14 Unused variable: x"),
        ("{ a: 1 }.b", "1:1-11 Indexed object has no field \"b\""),
        (
            "(if std.extVar('x') then { a: 1 } else { b: 1 }).c",
            "1:1-51 Indexed object has no field \"c\"",
        ),
        (
            "-(if std.extVar('x') then { [std.extVar('y')]: 'text' } else { b: 1 }).c",
            "1:1-73 Operand is not a number, it is assumed to be a string",
        ),
        (
            "!std.range(1, 3)[0]",
            "1:1-20 Operand is not a boolean, it is assumed to be a number",
        ),
        (
            "-true",
            "1:1-6 Operand is not a number, it is assumed to be a bool",
        ),
        (
            "({ a: 1 } + { c: 2 })['b']",
            "1:1-27 Indexed object has no field \"b\"",
        ),
        ("(function(a) a)()", "1:1-18 Missing argument: a"),
        (
            "(function(a, b) a)(1, 2, 3)",
            "1:26-27 Too many arguments, there can be at most 2, but 3 provided",
        ),
        (
            "(if std.extVar('x') then function(a) 1 else function(a, b) 2)()",
            "1:1-64 Too few arguments: got 0, but expected at least 1",
        ),
        (
            "(if std.extVar('x') then function() 1 else function(a) 2)(1, 2)",
            "1:1-64 Too many arguments: got 2, but expected at most 1",
        ),
        (
            "std.length()",
            "1:1-13 Too few arguments: got 0, but expected at least 1",
        ),
        ("local f(a) = a; f(c=1)", "1:21-22 function has no parameter c"),
        ("local f(a) = a; f(1, a=2)", "1:24-25 Argument a already provided"),
        (
            "42(1)",
            "1:1-6 Called value must be a function, but it is assumed to be a number",
        ),
        (
            "[[1]][0][0]()",
            "1:1-14 Called value must be a function, but it is assumed to be a number",
        ),
        (
            "(function() 42)()()",
            "1:1-20 Called value must be a function, but it is assumed to be a number",
        ),
        (
            "(function(x) x)[42]",
            "1:1-20 Indexed value is neither an array nor an object nor a string",
        ),
        (
            "[1]['a']",
            "1:1-9 Indexed value is assumed to be an array, but index is not a number",
        ),
        (
            "'a'.b",
            "1:1-6 Indexed value is assumed to be a string, but index is not a number",
        ),
        (
            "(if std.extVar('x') then 'a' else [])['b']",
            "1:1-43 Indexed value is assumed to be an array or a string, but index is not a number",
        ),
        (
            "{}[42]",
            "1:1-7 Indexed value is assumed to be an object, but index is not a string",
        ),
        (
            "std.extVar('x')[null]",
            "1:1-22 Index is neither a number (for indexing arrays and string) nor a string (for indexing objects)",
        ),
        (
            "-'a'",
            "1:1-5 Operand is not a number, it is assumed to be a string",
        ),
        (
            "!1",
            "1:1-3 Operand is not a boolean, it is assumed to be a number",
        ),
        ("local x = x; x", "1:11-12 Endless loop in local definition"),
        (
            "local x = y + 1, y = x; x",
            "1:11-12 Endless loop in local definition",
        ),
        (
            "local x = if x then 1 else 2; x",
            "1:14-15 Endless loop in local definition",
        ),
    ] {
        let expected_place = expected.to_owned();
        assert!(found(text).contains(&expected_place), "{text}: {:?}", found(text));
        assert_eq!(found(text).len(), 1, "{text}: {:?}", found(text));
    }
}

#[test]
fn only_what_fails_is_an_error() {
    let findings = lint("a.jsonnet", "local a = 1, b = b; {}.c", &|_| true);
    let severities: Vec<(LintCode, LintSeverity)> = findings
        .iter()
        .map(|finding| (finding.code, finding.severity))
        .collect();
    assert_eq!(
        severities,
        [
            (LintCode::UnusedVariable, LintSeverity::Warning),
            (LintCode::EndlessLoop, LintSeverity::Warning),
            (LintCode::Type, LintSeverity::Error),
        ]
    );
}

#[test]
fn what_may_be_right_is_not_mentioned() {
    silent("import 'there.libsonnet'");
    silent("local f(x, y=x) = x { a: y, b: self.a, c: $.d }; f({}, y=1).q.z()");
    silent("{ local x = 1, [k]: x for k in ['a'] }.whatever");
    silent("local base = { a:: 1, b(c):: c, d+: {} }; (base + { [base.b('e')]: 2 }).e");
    silent("local xs = [f for f in [function() 1]]; xs[0]()");
    silent("local even(n) = n == 0 || odd(n - 1), odd(n) = n != 0 && even(n - 1); even(3)");
    silent("local fib = [1, 1] + [fib[i] + fib[i + 1] for i in std.range(0, 3)]; fib");
    silent("std.manifestJsonEx({}, '  ', '', ':') + std.prune([null])[0] + std.notYetThere(1, 2)");
    silent("(error 'x')(1).y[2]");
    silent("local a = { b: { c: 1 } }, d = a { b+: { e: 2 } }; d.b.e");
    silent("function(x) assert std.isString(x) : 'no'; x[1:2] % [3]");
    silent("{ assert self.a == 1, a: 1, 'b\\u0063': $.a, [if true then 'x']: super.a, y: 'a' in super }");
}

#[test]
fn a_slip_of_the_hand_has_a_hint() {
    let findings = lint("a.jsonnet", "local replicas = 1; replica + replicas", &|_| true);
    let hints: Vec<Option<&str>> = findings.iter().map(|finding| finding.hint.as_deref()).collect();
    assert_eq!(hints, [Some("`replicas` is known here")]);
}

#[test]
fn what_is_deep_or_long_ends() {
    for text in [
        format!("{}1{}", "(".repeat(900), ")".repeat(900)),
        format!("a{}", "(1)".repeat(900)),
        format!("{}1", "local a = 1; assert a == 1;".repeat(3_000)),
        format!(
            "local a0 = 1; {}a3000",
            (1..=3000)
                .map(|n| format!("local a{n} = a{};", n - 1))
                .collect::<String>()
        ),
    ] {
        let findings = lint("a.jsonnet", &text, &|_| true);
        assert!(
            findings.iter().all(|finding| finding.code != LintCode::Type),
            "{findings:?}"
        );
    }
}

/// Files in one directory, by name.
struct SiblingFiles<'a>(&'a [(&'a str, &'a str)]);

impl ImportLookup for SiblingFiles<'_> {
    fn resolve(&self, _importer: &str, import: &str) -> Option<String> {
        let found = self.0.iter().find(|(name, _)| *name == import);
        found.map(|(name, _)| (*name).to_owned())
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        let found = self.0.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| (*text).into())
    }
}

/// Returns the findings in a file with other files beside it.
fn findings_with_files(text: &str, files: &[(&str, &str)]) -> Vec<String> {
    let findings = lint_with_imports(
        "main.jsonnet",
        text,
        &|_| true,
        &SiblingFiles(files),
        &ImportCache::default(),
    );
    let shown = findings.iter();
    shown
        .map(|finding| format!("{} {}", finding.range, finding.message))
        .collect()
}

#[test]
fn the_linter_follows_imported_values() {
    let files = [
        ("42", "42"),
        (
            "lib",
            "local base = import '42'; { n: base, f(a, b=1):: a + b, xs: [base, 'x'], inner: { g(): {} } }",
        ),
        ("computed", "{ [std.extVar('x')]: 1 }"),
        ("cycle", "{ other: (import 'cycle2').x, x: 1 }"),
        ("cycle2", "{ other: (import 'cycle').x, x: 1 }"),
        ("broken", "{ a: "),
    ];
    let found = |text: &str| findings_with_files(text, &files);
    for (text, expected) in [
        (
            "(import '42')()",
            "1:1-16 Called value must be a function, but it is assumed to be a number",
        ),
        (
            "local l = import 'lib'; l.f(1, 2, 3)",
            "1:35-36 Too many arguments, there can be at most 2, but 3 provided",
        ),
        ("(import 'lib').f()", "1:1-19 Missing argument: a"),
        (
            "(import 'lib').inner.h",
            "1:1-23 Indexed object has no field \"h\"",
        ),
        (
            "-(import 'lib').xs[1]",
            "1:1-22 Operand is not a number, it is assumed to be a string",
        ),
        (
            "(import 'lib').inner.g(1)",
            "1:1-26 Too many arguments: got 1, but expected at most 0",
        ),
        (
            "!(import 'cycle').other",
            "1:1-24 Operand is not a boolean, it is assumed to be a number",
        ),
    ] {
        assert_eq!(found(text), [expected], "{text}");
    }
    for silent in [
        "(import 'computed').a.b",
        "(import 'broken').a.b()",
        "(import 'gone')(1)",
        "(import 'lib').f(1).x.y",
        "(import 'lib') { more: 1 }.more",
        "((import 'lib') + { more: { a: 1 } }).more.a",
    ] {
        assert_eq!(found(silent), Vec::<String>::new(), "{silent}");
    }
}

#[test]
fn a_failing_access_has_no_value_for_the_linter() {
    assert_eq!(
        found("42[0].a()"),
        [
            "1:1-6 Indexed value is neither an array nor an object nor a string",
            "1:1-8 Indexed value is neither an array nor an object nor a string",
            "1:1-10 Called value must be a function, but it is assumed to be void",
        ]
    );
}

/// A chain of files, each of which imports the next, with a count of read texts.
struct ImportChain {
    files: Vec<String>,
    read: AtomicUsize,
}

impl ImportChain {
    fn new() -> Self {
        let link = |number: usize| match number {
            9 => "{ end: 'x', next: self }".to_owned(),
            number => format!("{{ local n = import '{}', next: n, end: n.end }}", number + 1),
        };
        Self {
            files: (0..10).map(link).collect(),
            read: AtomicUsize::new(0),
        }
    }

    fn found(&self, number: usize, followed: &ImportCache) -> Vec<String> {
        let text = format!("-(import '{number}').end");
        let findings = lint_with_imports("main.jsonnet", &text, &|_| true, self, followed);
        findings.into_iter().map(|finding| finding.message).collect()
    }
}

impl ImportLookup for ImportChain {
    fn resolve(&self, _importer: &str, import: &str) -> Option<String> {
        Some(import.to_owned())
    }

    fn text(&self, file: &str) -> Option<Arc<str>> {
        self.read.fetch_add(1, Ordering::Relaxed);
        Some(self.files.get(file.parse::<usize>().ok()?)?.as_str().into())
    }
}

#[test]
fn imports_already_followed_are_not_read_again_and_give_equal_findings() {
    let (chain, followed) = (ImportChain::new(), ImportCache::default());
    let alone = |number| chain.found(number, &ImportCache::default());
    // From the fifth file on, the end of the chain is within the depth limit.
    for number in (0..10).chain((0..10).rev()) {
        let found = chain.found(number, &followed);
        assert_eq!(found, alone(number), "{number}");
        assert_eq!(found.is_empty(), number < 4, "{number}");
    }
    let before = chain.read.load(Ordering::Relaxed);
    for number in 0..10 {
        chain.found(number, &followed);
    }
    assert_eq!(chain.read.load(Ordering::Relaxed), before);
}

/// An import that resolves to another file the next time, as it may in another environment.
#[test]
fn a_cached_file_is_reused_only_if_its_imports_resolve_the_same() {
    let followed = ImportCache::default();
    let found = |files: &[(&str, &str)]| {
        let text = "-(import 'a').b";
        let findings = lint_with_imports("main.jsonnet", text, &|_| true, &SiblingFiles(files), &followed);
        findings
            .into_iter()
            .map(|finding| finding.message)
            .collect::<Vec<_>>()
    };
    let a = ("a", "{ b: import 'b' }");
    let text = ["Operand is not a number, it is assumed to be a string"];
    assert_eq!(found(&[a, ("b", "'text'")]), text);
    assert_eq!(found(&[a]), Vec::<String>::new());
    assert_eq!(found(&[a, ("b", "'text'")]), text);
}
