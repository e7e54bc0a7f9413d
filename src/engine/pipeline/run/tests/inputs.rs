//! The inputs of runs, from words and from events.

use super::*;
use crate::base::model::RunConflictRule;
use crate::engine::pipeline::ConditionEvent;
use crate::engine::pipeline::definition::{HookTrigger, PipelineTrigger, TriggerSource};
use serde_json::{Value, json};

const PARAMS: &str = "    params: {name: {type: text}, count: {type: integer, default: 2}, part: {type: number, default: 1}, \
                      dry: {type: boolean, default: false}, depth: {type: choice, choices: [quick, full], default: quick}}\n";

fn from_words(given: &[(&str, &str)]) -> Result<RunInputs, Vec<String>> {
    let given: Vec<(String, String)> = given
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    let loaded = file(PARAMS, &["name: a, agent: {prompt: Look.}"]);
    RunInputs::from_words(definition(&loaded), &given)
}

#[test]
fn words_become_values_of_the_declared_types() {
    let given = [
        ("name", "true"),
        ("count", "-7"),
        ("dry", "true"),
        ("depth", "full"),
    ];
    let inputs = from_words(&given).unwrap();
    let value = |name: &str| inputs.params[name].clone();
    assert_eq!(value("name"), ScalarValue::Text("true".to_owned()));
    assert_eq!(value("count"), ScalarValue::Integer(-7));
    // A whole number as the default of a number is one as well.
    assert_eq!(value("part"), ScalarValue::Number(1.0));
    assert_eq!(value("dry"), ScalarValue::Boolean(true));
    assert_eq!(value("depth"), ScalarValue::Text("full".to_owned()));
    assert_eq!(inputs.event, Value::Null);
    let stored = serde_json::to_string(&inputs).unwrap();
    assert_eq!(serde_json::from_str::<RunInputs>(&stored).unwrap(), inputs);
}

#[test]
fn all_problems_of_words_are_reported_at_once() {
    let given = [
        ("nam", "x"),
        ("count", "seven"),
        ("part", "NaN"),
        ("dry", "yes"),
        ("depth", "ful"),
        ("other\n", "x"),
    ];
    let expected = [
        "there is no parameter nam; did you mean name?",
        "count: is no integer; expected a whole number, such as 42",
        "part: is no number; expected a number, such as 1.5",
        "dry: is no boolean; expected true or false",
        "depth: is none of the choices; did you mean full?",
        "there is no parameter other?; there are count, depth, dry, name, part",
        "name is required: give it a value of the type text",
    ];
    assert_eq!(from_words(&given).unwrap_err(), expected);
    assert_eq!(
        from_words(&[("name", "a"), ("name", "b")]).unwrap_err(),
        ["name is given twice; keep one of them"]
    );
    let long = "x".repeat(300 << 10);
    assert_eq!(
        from_words(&[("name", long.as_str())]).unwrap_err(),
        ["name: is longer than 262144 bytes"]
    );
    let loaded = file("", &["name: a, agent: {prompt: Look.}"]);
    let given = [("a".to_owned(), "b".to_owned())];
    assert_eq!(
        RunInputs::from_words(definition(&loaded), &given).unwrap_err(),
        ["there is no parameter a; the pipeline has no parameters"]
    );
}

/// Returns the hook trigger of a file, and the file.
fn hook_file() -> LoadedPipelines {
    let text = "pipelines:\n  p:\n    triggers:\n    - when: event.draft == false && params.count > 1\n      hook: {name: \
                ci, params: {name: /title, count: /count}, fields: {number: {pointer: /number, type: integer}, by: \
                {pointer: /by/id}}}\n    params: {name: {type: text}, count: {type: integer, default: 2}}\n    \
                concurrency: {group: \"${trigger.number}\", on_conflict: cancel}\n    steps: [{name: a, reply: {to: \
                'channel:team:C1', text: \"${trigger.by}\"}}]\n";
    LoadedPipelines::from_yaml(text.as_bytes(), &operator()).unwrap_or_else(|error| panic!("{error}"))
}

fn hook(loaded: &LoadedPipelines) -> (&PipelineTrigger, &HookTrigger) {
    let trigger = &definition(loaded).triggers[0];
    match &trigger.source {
        TriggerSource::Hook(hook) => (trigger, hook),
        _ => panic!("{trigger:?}"),
    }
}

#[test]
fn an_event_gives_parameters_and_fields_by_its_pointers() {
    let loaded = hook_file();
    let trigger = hook(&loaded);
    let of_event = |payload: Value| {
        let event = ConditionEvent::of(&payload);
        RunInputs::of_event(definition(&loaded), trigger, (&payload, &event))
    };
    let payload =
        json!({ "title": "Fix it", "number": "17", "by": { "id": 4711 }, "count": null, "draft": false });
    let inputs = of_event(payload.clone()).unwrap().unwrap();
    assert_eq!(inputs.params["name"], ScalarValue::Text("Fix it".to_owned()));
    assert_eq!(inputs.params["count"], ScalarValue::Integer(2));
    assert_eq!(inputs.trigger["number"], ScalarValue::Integer(17));
    assert_eq!(inputs.trigger["by"], ScalarValue::Text("4711".to_owned()));
    assert_eq!(inputs.event, Value::Null);
    let group = run_group("p", definition(&loaded), &inputs).unwrap();
    assert_eq!(
        (group.name.as_str(), group.on_conflict),
        ("pipeline/p/17", RunConflictRule::Cancel)
    );
    let plan = plan_of(&loaded, RunDoor::Server).unwrap();
    let work = resolved_work(&plan, &inputs, &RunState::new(&plan), 0);
    let expected = ResolvedWork::Reply {
        to: "channel:team:C1".to_owned(),
        text: "4711".to_owned(),
    };
    assert_eq!(work, Ok(expected));
    // An event that the condition leaves out needs no values. A condition without a result is a problem.
    assert_eq!(of_event(json!({ "draft": true })), Ok(None));
    let mut other = payload;
    other.as_object_mut().unwrap().remove("draft");
    let why = "the condition cannot be evaluated: there is no `draft`; test it with has(...)";
    assert_eq!(of_event(other), Err(vec![why.to_owned()]));
}

#[test]
fn an_event_without_a_value_is_refused_with_all_its_problems_and_none_of_its_values() {
    let loaded = hook_file();
    let trigger = hook(&loaded);
    let payload = json!({ "title": ["secret-value"], "number": "secret-value", "count": 1.5 });
    let event = ConditionEvent::of(&payload);
    let problems = RunInputs::of_event(definition(&loaded), trigger, (&payload, &event)).unwrap_err();
    let expected = [
        "params.count: /count of the event is no integer; expected a whole number, such as 42",
        "params.name: /title of the event is a list or an object; expected a text, a number or a boolean",
        "fields.by: /by/id of the event has no value",
        "fields.number: /number of the event is no integer; expected a whole number, such as 42",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn a_literal_group_is_one_of_the_repository_and_a_value_one_of_the_pipeline() {
    let steps = ["name: a, agent: {prompt: Look.}"];
    let loaded = file("    concurrency: {group: p/1}\n", &steps);
    let group = run_group("p", definition(&loaded), &RunInputs::default()).unwrap();
    assert_eq!(
        (group.name.as_str(), group.on_conflict),
        ("repository/p/1", RunConflictRule::Serial)
    );
    assert_eq!(
        run_group("p", definition(&file("", &steps)), &RunInputs::default()),
        None
    );
}
