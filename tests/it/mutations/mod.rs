//! Damaged Jsonnet: our own sources with bytes and tokens removed, doubled, swapped and inserted. For each text, the
//! parser, the formatter and the linter end, report the location of the error, and keep the meaning of the text. The
//! texts are the same in every run.

mod meaning;
mod mutant;

use crate::conformance::sources::generate_source;
use drydock::rendering::jsonnet::format::format;
use drydock::rendering::jsonnet::lint::lint;
use drydock::rendering::jsonnet::syntax::{
    DEPTH_MAX, Field, FieldKind, FieldName, LineColumn, NodeKind, SourceRange, SyntaxErrorKind, SyntaxTree,
    TextStyle, parse,
};
use meaning::meaning;
use mutant::{Mutation, mutated, mutation};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::RngSeed;

/// Our own sources that are damaged beside the generated ones.
const OURS: [&str; 6] = [
    "local k = import 'k.libsonnet';\n{\n  _config+:: { name: 'web', replicas: 2 },\n  web: k.deployment.new($._config.name, replicas=$._config.replicas)\n       + k.deployment.withLabels({ app: self.name }),\n}\n",
    "// A list\nlocal xs = [x * 2 for x in std.range(1, 10) if x % 2 == 0]; # odd\n{ [k]: v for k in std.objectFields(xs) for v in xs }\n",
    "function(name, port=80) {\n  local me = self,\n  assert port > 0 : 'a port',\n  name: name,\n  'kebab-case': me['name'][1:2:],\n  text: |||\n    line %s\n\n      deeper\n  ||| % name,\n  hidden:: super.x,\n  forced::: 'b' in super,\n}\n",
    "local z = import 'z', a = import \"a\"; // both\n\nlocal m = importstr 'm';\n((z + { ['a']: 1 })) + (a { b+: [1, 2,\n3] }) + m\n",
    "if a then b else if c then d else error 'no' + @'it''s' + \"it's\" + 'say \"x\"'\n",
    "local f(x) = f(x - 1) tailstrict; -f(+1) == !true || ~1 >> 2 & 3 ^ 4 | 5\n",
];

fn damaged() -> impl Strategy<Value = (u64, Vec<Mutation>)> {
    (0..400_u64, prop::collection::vec(mutation(), 0..6))
}

fn text((number, mutations): &(u64, Vec<Mutation>)) -> String {
    let whole = match OURS.get(*number as usize % 40) {
        Some(ours) => (*ours).to_owned(),
        None => generate_source(*number),
    };
    mutated(whole, mutations)
}

/// Returns true if a location is in a text, or at its end.
fn is_in(text: &str, place: LineColumn) -> bool {
    let line = text.split('\n').nth((place.line as usize).wrapping_sub(1));
    line.is_some_and(|line| place.column >= 1 && place.column as usize <= line.len() + 1)
}

fn are_in(text: &str, range: SourceRange) -> bool {
    range.begin <= range.end && is_in(text, range.begin) && is_in(text, range.end)
}

/// Returns true if the formatter of go-jsonnet changes the meaning of a text. Ours writes the same bytes.
/// `{ ['a']: x for x in xs }` becomes `{ a: x for x in xs }`, which is invalid. A text block that begins with an empty
/// line of spaces loses the indentation of the next line.
fn is_spoilt_by_go(tree: &SyntaxTree<'_>) -> bool {
    let is_text = |field: &Field<'_>| match &field.kind {
        FieldKind::Field {
            name: FieldName::Computed { name, .. },
            ..
        } => matches!(tree.node(*name).kind, NodeKind::Text { .. }),
        _ => false,
    };
    tree.nodes.iter().any(|node| match &node.kind {
        NodeKind::ObjectComprehension { fields, .. } => fields.iter().any(is_text),
        NodeKind::Text {
            style: TextStyle::Block,
            value,
            ..
        } => value.trim_start_matches('\n').starts_with([' ', '\t']),
        _ => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_text_is_read_or_refused_with_a_place_in_it(damaged in damaged()) {
        let text = text(&damaged);
        match parse(&text) {
            Ok(tree) => prop_assert!(tree.depth <= DEPTH_MAX),
            Err(error) => prop_assert!(are_in(&text, error.range), "{error}\n{text}"),
        }
        for finding in lint("damaged.jsonnet", &text, &|_| true) {
            prop_assert!(are_in(&text, finding.range), "{finding:?}\n{text}");
        }
    }

    #[test]
    fn what_is_formatted_means_the_same_and_stays_as_it_is(damaged in damaged()) {
        let text = text(&damaged);
        let Ok(tree) = parse(&text) else {
            prop_assert!(format(&text).is_err());
            return Ok(());
        };
        let formatted = match format(&text) {
            Ok(formatted) => formatted,
            Err(error) => {
                prop_assert_eq!(error.kind, SyntaxErrorKind::TooLong, "{}", text);
                return Ok(());
            }
        };
        if is_spoilt_by_go(&tree) {
            return Ok(());
        }
        let again = parse(&formatted);
        prop_assert!(again.is_ok(), "{text}\n---\n{formatted}");
        if let Ok(again) = again {
            prop_assert_eq!(meaning(&tree), meaning(&again), "{}\n---\n{}", text, formatted);
        }
        let twice = format(&formatted);
        if mutant::is_format_stable(&text) {
            prop_assert_eq!(twice, Ok(formatted), "{}", text);
        } else {
            prop_assert!(twice.is_ok(), "{formatted}");
        }
    }
}

/// Checks that half of the texts are still Jsonnet, so that the properties do not cover refusals alone.
#[test]
fn many_damaged_texts_are_still_jsonnet() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    });
    let mut read = 0;
    for _ in 0..400 {
        let tree = damaged().new_tree(&mut runner).unwrap();
        read += usize::from(parse(&text(&tree.current())).is_ok());
    }
    assert!((100..400).contains(&read), "{read}");
}
