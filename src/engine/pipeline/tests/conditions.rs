//! Tests of conditions: what they mean, what is refused, and that their work is bounded.

use crate::engine::pipeline::definition::{ConditionText, ScalarValue};
use crate::engine::pipeline::{
    CompiledCondition, ConditionError, ConditionEvent, ConditionValues, StepResult,
};
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};

fn compile(text: &str) -> Result<CompiledCondition, String> {
    let text: ConditionText = serde_json::from_value(text.into()).unwrap();
    CompiledCondition::compile(&text)
}

fn values() -> ConditionValues {
    ConditionValues {
        event: ConditionEvent::of(&json!({
            "action": "opened", "number": 7, "ratio": 0.5, "draft": false, "none": null,
            "labels": [{"name": "infra"}, {"name": "urgent"}],
        })),
        params: [
            ("env".to_owned(), ScalarValue::Text("dev".to_owned())),
            ("count".to_owned(), ScalarValue::Integer(3)),
            ("dry".to_owned(), ScalarValue::Boolean(true)),
        ]
        .into(),
        steps: [(
            "build".to_owned(),
            StepResult {
                status: "success".to_owned(),
                output: "3 files".to_owned(),
            },
        )]
        .into(),
    }
}

#[test]
fn a_condition_reads_the_event_the_parameters_and_the_steps() {
    for (text, expected) in [
        ("event.action == 'opened' && event.number > 5", true),
        ("event.number == 7 && event.ratio < 1.0", true),
        ("event.labels.exists(l, l.name == 'urgent')", true),
        ("event.labels.all(l, l.name == params.env)", false),
        ("event.labels.exists_one(l, l.name.startsWith('inf'))", true),
        ("has(event.sender) && event.sender == 'x'", false),
        ("event.none == null && !event.draft", true),
        (
            "size(event.labels) == 2 && event.labels[0].name in ['infra', 'apps']",
            true,
        ),
        ("params.env == 'prod' ? params.dry : params.count * 2 == 6", true),
        (
            "steps.build.status == 'success' && steps.build.output.contains('files')",
            true,
        ),
        ("event.action + '-' + params.env == 'opened-dev'", true),
        (
            "int('4') + params.count == 7 && string(event.number).endsWith('7')",
            true,
        ),
    ] {
        let result = compile(text).unwrap().evaluate(&values());
        assert_eq!(result, Ok(expected), "{text}");
    }
}

#[test]
fn a_condition_without_a_result_says_why_and_shows_no_value() {
    for (text, expected) in [
        ("event.action", ConditionError::NoBoolean),
        (
            "event.sender == 'x'",
            ConditionError::Failed("there is no `sender`; test it with has(...)".to_owned()),
        ),
        (
            "event.action > 3",
            ConditionError::Failed("an operation does not fit the types of its values".to_owned()),
        ),
        (
            "1 / 0 == 1",
            ConditionError::Failed("a division by zero".to_owned()),
        ),
    ] {
        assert_eq!(
            compile(text).unwrap().evaluate(&values()),
            Err(expected),
            "{text}"
        );
    }
    let mut values = values();
    values.event = ConditionEvent::of(&json!("x".repeat(3 << 20)));
    assert_eq!(
        compile("true").unwrap().evaluate(&values),
        Err(ConditionError::EventTooLarge)
    );
}

/// T93
#[test]
fn a_condition_that_is_wrong_or_unbounded_is_refused_with_a_reason() {
    for (text, expected) in [
        ("event.action = 'x'", "is no valid expression: line 1, column"),
        ("event.action == 'x", "is no valid expression"),
        (
            "evnt.action == 'x'",
            "unknown variable `evnt`; did you mean event?",
        ),
        ("params == 1", "name one parameter, as in params.environment"),
        ("steps.build == 'x'", "name one step, as in steps.build.status"),
        (
            "steps.build.code == 1",
            "a step has `output` and `status`, as in steps.build.status",
        ),
        ("event.action.matches('(a+)+')", "unknown function `matches`"),
        (
            "event.action.startWith('a')",
            "unknown function `startWith`; did you mean startsWith?",
        ),
        (
            "size(event.labels.map(l, l.name)) > 0",
            "map and filter are not available; use all, exists or exists_one",
        ),
        (
            "event.labels.exists(l, event.labels.exists(m, m == l))",
            "all, exists and exists_one cannot be inside of each other",
        ),
        (
            "event.labels.exists(l, l.name == event.action)",
            "`event` is not available inside of all, exists and exists_one; use their variable and `params`",
        ),
        (
            "event.labels.exists(l, steps.build.output.contains(l.name))",
            "`steps` is not available inside of all, exists and exists_one; use their variable and `params`",
        ),
        (
            "event.labels.exists(l, l.name + 'x' == 'x')",
            "`+` is not available inside of all, exists and exists_one",
        ),
    ] {
        let error = compile(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let sum = format!("{}1 == 1", "1 + ".repeat(9));
    assert_eq!(compile(&sum).unwrap_err(), "has more than 8 additions");
    let long = format!("{}true", "true && ".repeat(120));
    assert_eq!(
        compile(&long).unwrap_err(),
        "has more than 200 operands and calls"
    );
    for deep in [
        format!("{}true", "!-".repeat(300)),
        format!("event{}", ".a".repeat(300)),
        format!("{}1", "[".repeat(300)),
        format!("{}true : true", "true ? ".repeat(100)),
        format!("{}true", "true ? true : ".repeat(60)),
    ] {
        let error = compile(&deep).unwrap_err();
        assert!(!error.is_empty() && error.len() < 200, "{deep}: {error}");
    }
}

/// The names are what a definition is checked with.
#[test]
fn a_condition_names_the_parameters_and_steps_that_it_needs() {
    let condition =
        compile("params.env == 'dev' && (steps.build.status == 'success' || has(steps.test.output))")
            .unwrap();
    let names = condition.names();
    assert_eq!(names.params, ["env".to_owned()].into());
    assert_eq!(names.steps, ["build", "test"].map(str::to_owned).into());
    assert!(!names.uses_event);
    for text in [
        "event.labels.exists(l, l.name == 'x')",
        "params.dry && !has(event.sender)",
    ] {
        assert!(compile(text).unwrap().names().uses_event, "{text}");
    }
}

/// T93
#[test]
fn the_work_of_an_evaluation_is_bounded() {
    let mut values = values();
    values.event = ConditionEvent::of(
        &json!({ "list": vec![json!({ "name": "x".repeat(20) }); 5_000], "text": "y".repeat(50_000) }),
    );
    // Several comparisons for each entry of a list.
    let comparisons = ["l.name != 'y'"; 12].join(" && ");
    let many = format!("event.list.all(l, {comparisons})");
    for text in [
        many.as_str(),
        "event.list.all(l, l.name.contains('x') && l.name == l.name)",
        "event.list == event.list && event == event",
        "(event.text + event.text + event.text + event.text).contains('z')",
    ] {
        let started = Instant::now();
        compile(text).unwrap().evaluate(&values).unwrap();
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{text}: {:?}",
            started.elapsed()
        );
    }
}

/// T93
#[test]
fn an_event_with_too_many_values_and_a_long_parameter_are_refused() {
    let mut values = values();
    let condition = compile("size(event) > 0 || params.env == 'x'").unwrap();
    values.event = ConditionEvent::of(&json!(vec![1; 50_000]));
    assert_eq!(condition.evaluate(&values), Ok(true));
    values.event = ConditionEvent::of(&json!(vec![1; 60_000]));
    assert_eq!(condition.evaluate(&values), Err(ConditionError::EventTooLarge));
    values.event = ConditionEvent::of(&json!([1]));
    values
        .params
        .insert("env".to_owned(), ScalarValue::Text("x".repeat(4_097)));
    assert_eq!(
        condition.evaluate(&values),
        Err(ConditionError::ParameterTooLong("env".to_owned()))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    /// No text makes the parser or an evaluation end the process.
    #[test]
    fn any_text_is_refused_or_evaluated(text in "[a-c .()\\[\\]{}!?:<=>&|+*/%'\"0-9-]{1,60}|(event|params\\.env|steps\\.build\\.status|size|has|\\.exists\\(x,|\\(|\\)|==|&&|!| |'a'|1|\\[|\\]){1,20}") {
        if text.trim().is_empty() {
            return Ok(());
        }
        if let Ok(condition) = compile(&text) {
            drop(condition.evaluate(&values()));
        }
    }
}
