//! Properties of every review, for arbitrary objects.
#![allow(clippy::unwrap_used)]

use super::tests::{environment, failed, of, reviewed};
use super::{EnvironmentRendering, Impact, ReviewedEnvironment, SideResult};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;
use serde_json::{Value, json};

/// Generates a value of an object. It is small and often equal to another one.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_u8).prop_map(Value::from),
        (0..3_u8).prop_map(|n| Value::from(f64::from(n))),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![
            Just("name"),
            Just("containers"),
            Just("env"),
            Just("spec"),
            Just("a")
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![Just("Deployment"), Just("Secret"), Just("ConfigMap"), Just("Job")];
    (kind, "[a-b]", value(), value(), any::<bool>()).prop_map(|(kind, name, spec, data, is_generated)| {
        let name_field = if is_generated { "generateName" } else { "name" };
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { name_field: name }, "spec": spec, "data": data })
    })
}

fn some_side() -> impl Strategy<Value = SideResult> {
    prop_oneof![
        8 => proptest::collection::vec(object(), 0..5).prop_map(SideResult::Objects),
        1 => Just(SideResult::Absent),
        1 => Just(failed("no")),
    ]
}

fn some_environments() -> impl Strategy<Value = Vec<ReviewedEnvironment>> {
    let sides = proptest::collection::vec((some_side(), some_side(), any::<bool>()), 0..6);
    sides.prop_map(|sides| {
        let numbered = sides.into_iter().enumerate();
        let environments = numbered.map(|(n, (base, workspace, is_same))| {
            let workspace = if is_same { base.clone() } else { workspace };
            environment(&format!("environments/env-{n}"), base, workspace)
        });
        environments.collect()
    })
}

fn reversed(mut environments: Vec<ReviewedEnvironment>) -> Vec<ReviewedEnvironment> {
    environments.reverse();
    for environment in &mut environments {
        if let EnvironmentRendering::Rendered { base, workspace, .. } = &mut environment.rendering {
            for side in [base, workspace] {
                if let SideResult::Objects(objects) = side {
                    objects.reverse();
                }
            }
        }
    }
    environments
}

/// Moves the objects that both sides have to the list of equal objects.
fn shared(mut environments: Vec<ReviewedEnvironment>) -> Vec<ReviewedEnvironment> {
    for environment in &mut environments {
        if let EnvironmentRendering::Rendered {
            base: SideResult::Objects(base),
            workspace: SideResult::Objects(workspace),
            same,
        } = &mut environment.rendering
        {
            base.retain(
                |object| match workspace.iter().position(|other| other == object) {
                    Some(position) => {
                        same.push(workspace.remove(position));
                        false
                    }
                    None => true,
                },
            );
        }
    }
    environments
}

proptest! {
    #![proptest_config(Config { cases: 100, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_order_of_the_input_is_not_in_the_report(environments in some_environments()) {
        let report = reviewed(of(environments.clone()));
        assert_eq!(report, reviewed(of(reversed(environments))));
    }

    #[test]
    fn sharing_equal_inputs_gives_the_same_report(environments in some_environments()) {
        let report = reviewed(of(environments.clone()));
        assert_eq!(report, reviewed(of(shared(environments))));
    }

    #[test]
    fn classes_divide_the_affected_environments(environments in some_environments()) {
        let report = reviewed(of(environments));
        let mut named: Vec<(String, usize)> = Vec::new();
        for (class, members) in report.classes.iter().enumerate() {
            assert!(!members.environments.is_empty());
            named.extend(members.environments.iter().map(|name| (name.clone(), class)));
        }
        named.sort();
        let affected = report.environments.iter().filter_map(|one| match one.impact {
            Impact::Affected { class } => Some((one.name.clone(), class)),
            Impact::Unaffected { .. } | Impact::NotProven { .. } => None,
        });
        assert_eq!(named, affected.collect::<Vec<_>>());
        let counts = &report.counts;
        assert_eq!(counts.environments, counts.affected + counts.unaffected + counts.not_proven);
    }

    #[test]
    fn equal_sides_have_no_difference_and_different_ones_have_a_field(before in value(), after in value()) {
        let (mut before, mut after) = (before, after);
        assert_eq!(super::number::unify(&mut before).and(super::number::unify(&mut after)), Ok(()));
        assert_eq!(before == after, super::fields::changes(&before, &after).is_empty());
        assert_eq!(super::fields::changes(&after, &after), []);
    }

    #[test]
    fn any_change_of_an_object_is_reported(before in object(), after in object()) {
        let sides = |one: &Value, other: &Value| {
            of(vec![environment("dev", SideResult::Objects(vec![one.clone()]), SideResult::Objects(vec![other.clone()]))])
        };
        let report = reviewed(sides(&before, &after));
        let text = |object: &Value| super::canonical::text(&unified(object.clone()));
        assert_eq!(report.environments[0].is_affected(), text(&before) != text(&after));
        assert_eq!(reviewed(sides(&after, &after)).counts.unaffected, 1);
    }

    #[test]
    fn a_secret_never_leaks_into_anything(values in proptest::collection::vec("[g-z]{8,12}", 2..4), extra in object()) {
        let data = |value: &str| json!({ "password": value, "nested": { value: [value] } });
        let side = |value: &str| {
            let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration":
                    json!({ "kind": "Secret", "data": { "a": value } }).to_string() } },
                "immutable": true, "data": data(value), "stringData": value });
            SideResult::Objects(vec![json!({ "kind": "List", "items": [secret.clone()] }), secret, extra.clone()])
        };
        let report = reviewed(of(vec![environment("dev", side(&values[0]), side(&values[1]))]));
        let all = format!("{report:?}{}{}{}", serde_json::to_string(&report).unwrap(), report.text(100_000),
            report.environments[0].patch());
        for value in values.iter().take(2) {
            assert!(!all.contains(value.as_str()), "{value} in {all}");
        }
    }

    #[test]
    fn text_stays_within_its_bound(environments in some_environments(), chars_max in 0..2_000_usize) {
        let report = reviewed(of(environments));
        assert!(report.text(chars_max).chars().count() <= chars_max);
    }
}

fn unified(mut value: Value) -> Value {
    assert_eq!(super::number::unify(&mut value), Ok(()));
    value
}
