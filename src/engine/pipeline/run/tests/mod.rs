//! Tests of runs: which steps begin and end, with which values and limits, and what is refused before.

#![allow(clippy::unwrap_used)]

mod inputs;
mod machine;
mod plan;
mod values;

use super::*;
use crate::base::model::{Money, RunStatus, StepEnd, StepSpending, StepStatus};
use crate::engine::pipeline::definition::{PipelineDefinition, ScalarValue};
use crate::engine::pipeline::tests::operator;
use crate::engine::pipeline::{LoadedPipelines, effective};

/// Returns a file with one pipeline, of some keys and of steps, one a line.
pub(super) fn file(keys: &str, steps: &[&str]) -> LoadedPipelines {
    let steps: String = steps.iter().map(|step| format!("    - {{{step}}}\n")).collect();
    let text = format!(
        "defaults: {{model: anthropic/claude-sonnet-4-5}}\npipelines:\n  p:\n    triggers: [{{command_line: {{}}}}]\n{keys}    steps:\n{steps}"
    );
    LoadedPipelines::from_yaml(text.as_bytes(), &operator()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn definition(loaded: &LoadedPipelines) -> &PipelineDefinition {
    &loaded.file.pipelines["p"]
}

/// Plans a run of a file with one pipeline.
pub(super) fn plan_of(loaded: &LoadedPipelines, door: RunDoor) -> Result<RunPlan, Vec<UnsupportedStep>> {
    let found = effective(&loaded.file, "p", &operator()).unwrap();
    RunPlan::of("p", &found, door)
}

pub(super) fn planned(keys: &str, steps: &[&str]) -> RunPlan {
    plan_of(&file(keys, steps), RunDoor::Server).unwrap()
}

/// A run of a test, with its plan and its inputs.
pub(super) struct TestRun {
    pub(super) plan: RunPlan,
    pub(super) inputs: RunInputs,
    pub(super) state: RunState,
}

impl TestRun {
    pub(super) fn new(keys: &str, steps: &[&str]) -> Self {
        let plan = planned(keys, steps);
        let state = RunState::new(&plan);
        Self {
            plan,
            inputs: RunInputs::default(),
            state,
        }
    }

    /// Applies the next moves, and returns the names of the steps that begin.
    pub(super) fn go(&mut self) -> Vec<&str> {
        let moves = next_moves(&self.plan, &self.inputs, &self.state);
        moves.apply(&mut self.state);
        let begun = moves.begin.into_iter();
        begun.map(|step| self.plan.steps[step].name.as_str()).collect()
    }

    pub(super) fn step(&self, name: &str) -> usize {
        let found = self.plan.steps.iter().position(|step| step.name == name);
        found.unwrap_or_else(|| panic!("{name}"))
    }

    pub(super) fn end(&mut self, name: &str, end: StepEnd) {
        let step = self.step(name);
        assert_eq!(self.state.steps[step].status(), StepStatus::Running, "{name}");
        self.state.end(step, end);
    }

    pub(super) fn finish(&self) -> Option<RunStatus> {
        next_moves(&self.plan, &self.inputs, &self.state).finish
    }

    /// Returns each step with its status and its reason.
    pub(super) fn shown(&self) -> String {
        let steps = self.plan.steps.iter().zip(&self.state.steps);
        let shown = steps.map(|(step, state)| {
            let why = state.end().and_then(|end| end.why.clone()).unwrap_or_default();
            format!("{} {} {why}", step.name, state.status().word())
                .trim_end()
                .to_owned()
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

const AGENT: &str = "agent: {prompt: Look.}";

/// Returns the end of an agent step that used some calls.
pub(super) fn used(calls: u32, tokens: u64, cents: u64) -> StepEnd {
    StepEnd {
        spent: StepSpending {
            calls,
            tokens,
            cost: Money::from_cents(cents),
        },
        ..StepEnd::succeeded("done")
    }
}

#[test]
fn steps_go_in_order_and_a_failure_decides_on_those_after_it() {
    let on = |name: &str, on: &str| format!("name: {name}, on: {on}, {AGENT}");
    let steps = [
        format!("name: first, {AGENT}"),
        on("repair", "failure"),
        format!("name: second, {AGENT}"),
        on("report", "always"),
        on("alarm", "failure"),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut run = TestRun::new("", &steps);
    assert_eq!(run.go(), ["first"]);
    // A step that runs is never begun again.
    assert_eq!(run.go(), Vec::<&str>::new());
    run.end("first", StepEnd::succeeded("1"));
    assert_eq!(run.go(), ["second"]);
    run.end("second", StepEnd::failed("the model did not answer"));
    assert_eq!(run.go(), ["report"]);
    assert_eq!(run.finish(), None);
    run.end("report", StepEnd::succeeded("2"));
    assert_eq!(run.go(), ["alarm"]);
    run.end("alarm", StepEnd::succeeded("3"));
    assert_eq!(run.finish(), Some(RunStatus::Failed));
    assert_eq!(
        run.shown(),
        "first succeeded\nrepair skipped no earlier step failed\nsecond failed the model did not answer\nreport \
         succeeded\nalarm succeeded"
    );
    // Without the failure the run succeeds, and its skipped steps are no failures.
    let mut run = TestRun::new("", &steps);
    for name in ["first", "second", "report"] {
        assert_eq!(run.go(), [name]);
        run.end(name, StepEnd::succeeded(""));
    }
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(run.finish(), Some(RunStatus::Succeeded));
}

#[test]
fn a_condition_that_has_no_result_fails_its_step_and_never_skips_it() {
    let when = |name: &str, when: &str| format!("name: {name}, when: \"{when}\", {AGENT}");
    let steps = [
        when("no", "params.depth == 'full'"),
        when("broken", "event.action == 'opened'"),
        format!("name: never, {AGENT}"),
        "name: answer, on: always, when: \"steps.no.status == 'skipped' && steps.broken.status == 'failure'\", reply: \
         {to: 'channel:team:C1', text: \"${steps.broken.status}\"}"
            .to_owned(),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut run = TestRun::new("    params: {depth: {type: text, default: quick}}\n", &steps);
    run.inputs = RunInputs {
        params: [("depth".to_owned(), ScalarValue::Text("quick".to_owned()))].into(),
        event: serde_json::json!({ "number": 1 }),
        ..RunInputs::default()
    };
    assert_eq!(run.go(), ["answer"]);
    assert_eq!(
        run.shown(),
        "no skipped its condition is false\nbroken failed the condition cannot be evaluated: there is no `action`; test \
         it with has(...)\nnever skipped an earlier step failed\nanswer running"
    );
    let reply = resolved_work(&run.plan, &run.inputs, &run.state, run.step("answer"));
    let expected = ResolvedWork::Reply {
        to: "channel:team:C1".to_owned(),
        text: "failure".to_owned(),
    };
    assert_eq!(reply, Ok(expected));
}

#[test]
fn the_steps_of_a_group_begin_together_and_the_next_step_waits_for_all() {
    let inner = |name: &str| format!("{{name: {name}, {AGENT}}}");
    let group = format!(
        "name: checks, parallel: [{}, {{name: off, when: \"false\", {AGENT}}}, {}]",
        inner("lint"),
        inner("tests")
    );
    let last = format!("name: last, on: always, {AGENT}");
    let mut run = TestRun::new("", &[&group, &last]);
    assert_eq!(run.go(), ["checks", "lint", "tests"]);
    run.end("tests", StepEnd::failed("two failed"));
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(run.finish(), None);
    run.end("lint", StepEnd::succeeded("clean"));
    assert_eq!(run.go(), ["last"]);
    run.end("last", StepEnd::succeeded(""));
    assert_eq!(run.finish(), Some(RunStatus::Failed));
    assert_eq!(
        run.shown(),
        "checks failed a step of the group failed\nlint succeeded\noff skipped its condition is false\ntests failed two \
         failed\nlast succeeded"
    );
    // A group that does not run takes its steps with it.
    let group = format!("name: checks, on: failure, parallel: [{}]", inner("lint"));
    let mut run = TestRun::new("", &[&group]);
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(run.finish(), Some(RunStatus::Succeeded));
    assert_eq!(
        run.shown(),
        "checks skipped no earlier step failed\nlint skipped its group does not run"
    );
    // A group without a step that runs ends at once.
    let group = format!("name: checks, parallel: [{{name: lint, when: \"false\", {AGENT}}}]");
    let mut run = TestRun::new("", &[&group]);
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(
        run.shown(),
        "checks succeeded\nlint skipped its condition is false"
    );
}

/// T92
#[test]
fn a_spent_budget_fails_the_next_step_with_a_model_and_an_answer_is_still_sent() {
    let (one, two) = (format!("name: one, {AGENT}"), format!("name: two, {AGENT}"));
    let steps = [
        one.as_str(),
        two.as_str(),
        "name: answer, on: always, reply: {to: 'channel:team:C1', text: \"${steps.one.output}\"}",
    ];
    let budget = "    budget: {max_steps: 5, max_tokens: 1000, max_cents: 7}\n";
    for (end, unit) in [
        (
            used(5, 10, 1),
            "5 model calls of the run are left for this step; raise max_steps",
        ),
        (
            used(1, 1_000, 1),
            "1000 tokens of the run are left for this step; raise max_tokens",
        ),
        (
            used(1, 10, 7),
            "7 US cents of the run are left for this step; raise max_cents",
        ),
    ] {
        let mut run = TestRun::new(budget, &steps);
        assert_eq!(run.go(), ["one"]);
        run.end("one", end);
        assert_eq!(run.go(), ["answer"]);
        let why = format!("two failed too few of the {unit} of its budget\n");
        assert!(run.shown().contains(&why), "{}", run.shown());
    }
    let mut run = TestRun::new(budget, &steps);
    run.go();
    run.end("one", used(3, 400, 2));
    assert_eq!(run.go(), ["two"]);
    let work = resolved_work(&run.plan, &run.inputs, &run.state, run.step("two"));
    let Ok(ResolvedWork::Agent { bounds, .. }) = work else {
        panic!("{work:?}");
    };
    assert_eq!(
        (bounds.max_steps, bounds.max_tokens, bounds.max_cents),
        (2, 600, 5)
    );
}

/// T92
#[test]
fn agent_steps_of_a_group_share_what_is_left() {
    let inner = |name: &str| format!("{{name: {name}, {AGENT}}}");
    let group = format!(
        "name: all, parallel: [{}, {{name: note, reply: {{to: 'channel:team:C1', text: begun}}}}, {}, {}]",
        inner("a"),
        inner("b"),
        inner("c")
    );
    let mut run = TestRun::new("    budget: {max_steps: 8, max_tokens: 2}\n", &[&group]);
    assert_eq!(run.go(), ["all", "a", "note", "b"]);
    assert!(
        run.shown().contains("c failed too few of the 2 tokens"),
        "{}",
        run.shown()
    );
    // What one of them has used does not change the share of another.
    run.end("b", used(1, 1, 0));
    let shares = ["a", "b"].map(|name| {
        let work = resolved_work(&run.plan, &run.inputs, &run.state, run.step(name));
        let Ok(ResolvedWork::Agent { bounds, .. }) = work else {
            panic!("{work:?}");
        };
        (bounds.max_steps, bounds.max_tokens)
    });
    assert_eq!(shares, [(3, 1), (3, 1)]);
}

#[test]
fn nothing_begins_after_a_step_was_cancelled_and_the_run_ends_when_no_step_runs() {
    let inner = |name: &str| format!("{{name: {name}, {AGENT}}}");
    let group = format!("name: both, parallel: [{}, {}]", inner("a"), inner("b"));
    let last = format!("name: last, on: always, {AGENT}");
    let mut run = TestRun::new("", &[&group, &last]);
    run.go();
    run.end("a", StepEnd::cancelled("stopped by Ann"));
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(run.finish(), None);
    run.end("b", StepEnd::succeeded(""));
    assert_eq!(run.go(), Vec::<&str>::new());
    assert_eq!(run.finish(), Some(RunStatus::Cancelled));
    assert_eq!(
        run.shown(),
        "both cancelled the run was cancelled\na cancelled stopped by Ann\nb succeeded\nlast cancelled the run was cancelled"
    );
}
