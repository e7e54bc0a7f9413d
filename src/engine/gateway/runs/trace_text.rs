//! The content of the files about a step: an object with its details, and the results of its calls.

use crate::base::model::{Step, StepEnd, Usage};
use crate::engine::pipeline::{CallFile, TracedCalls, traced_calls};
use crate::state::store::{AgentStepWork, RunHead, StepRow};
use serde_json::{Value, json};

/// The content of the files about a step.
pub(super) struct StepFiles<'a> {
    /// The details.
    pub(super) trace: Value,
    /// The results of the calls.
    pub(super) calls: Vec<CallFile<'a>>,
}

/// Returns the facts about a run that has ended.
pub(super) fn run_facts(head: &RunHead) -> Value {
    json!({
        "run": head.id,
        "pipeline": head.pipeline,
        "repository": head.repository,
        "trigger": head.trigger,
        "status": head.status,
        "why": head.why,
        "requested": head.created_at,
        "began": head.started_at,
        "ended": head.ended_at,
        "retry_of": head.retry_of,
    })
}

/// Returns the content of the files about an ended step.
pub(super) fn step_files<'a>(
    head: &RunHead,
    step: &StepRow,
    end: &StepEnd,
    work: &'a AgentStepWork,
) -> StepFiles<'a> {
    let answers = work.steps.iter().filter(|step| !is_of_drydock(step));
    let TracedCalls {
        steps,
        files,
        without_file,
    } = traced_calls(answers, &work.outputs, end.verdict_source);
    let duration = step.started_at.zip(step.ended_at);
    let duration = duration.map(|(began, ended)| ended.duration_since(began).as_secs_f64());
    let is_of_earlier_run = step.conversation.is_some() && step.inbox.is_none();
    let trace = json!({
        "run": head.id,
        "name": step.name,
        "kind": step.kind,
        "status": end.status,
        "why": end.why,
        "prompt": work.request,
        "text": end.output,
        "verdict": end.verdict,
        "source": end.verdict_source,
        "change": step.change.map(|number| format!("CHG-{number}")),
        "model": work.model,
        "tokensUsed": end.spent.tokens,
        "steps": steps,
        "began": step.started_at,
        "ended": step.ended_at,
        "duration": duration,
        "calls_without_file": without_file,
        "is_cut": work.is_cut,
        "copied_from_run": head.retry_of.filter(|_| is_of_earlier_run),
    });
    StepFiles { trace, calls: files }
}

/// Returns true for the words with which Drydock ends a turn that has no answer. They are no call of a model.
fn is_of_drydock(step: &Step) -> bool {
    step.is_final() && step.assistant().usage == Usage::default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{AgentStepWork, step_files};
    use crate::base::model::{
        Assistant, ContentBlock, KeptText, OutputNumber, RunId, RunStatus, Sender, Step, StepEnd, StepStatus,
        StopReason, StoredOutput, ToolCall, ToolResult, Usage, Verdict, VerdictSource,
    };
    use crate::interfaces::tool::CONCLUDE;
    use crate::state::recording::CallStream;
    use crate::state::store::{RunHead, StepRow};
    use jiff::Timestamp;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn head() -> RunHead {
        RunHead {
            id: RunId(7),
            pipeline: "review".to_owned(),
            repository: "infra".to_owned(),
            owner: Sender::of_hook("ci"),
            owner_name: None,
            trigger: "hook ci".to_owned(),
            status: RunStatus::Running,
            why: None,
            created_at: at(0),
            started_at: Some(at(0)),
            ended_at: None,
            retry_of: None,
        }
    }

    fn row(end: &StepEnd) -> StepRow {
        StepRow {
            name: "look".to_owned(),
            kind: "agent".to_owned(),
            status: StepStatus::Succeeded,
            started_at: Some(at(1)),
            ended_at: Some(at(4)),
            end: Some(end.clone()),
            inbox: None,
            conversation: None,
            change: None,
        }
    }

    fn answer(text: &str, calls: &[&str]) -> Assistant {
        let text = ContentBlock::Text {
            text: text.to_owned(),
        };
        let calls = calls.iter().map(|id| {
            ContentBlock::Call(ToolCall {
                id: (*id).to_owned(),
                name: "file_read".to_owned(),
                arguments: r#"{"path":"a"}"#.to_owned().into(),
            })
        });
        Assistant {
            blocks: std::iter::once(text).chain(calls).collect(),
            raw: None,
            stop: StopReason::EndTurn,
            usage: Usage {
                input: 3,
                ..Usage::default()
            },
        }
    }

    fn result(call: &str, content: &str) -> ToolResult {
        ToolResult {
            call: call.to_owned(),
            content: content.to_owned(),
            is_error: content.starts_with("no"),
        }
    }

    /// CI-22
    #[test]
    fn a_trace_has_the_calls_of_the_model_in_order_with_the_whole_results_of_theirs() {
        let shortened = format!(
            "be\n[...truncated 9 bytes...] {}\nd",
            OutputNumber(2).note(KeptText::Whole)
        );
        let results = vec![result("a", "of a"), result("b", "no such file")];
        let work = AgentStepWork {
            request: Some("Look.".to_owned()),
            model: Some("demo".to_owned()),
            steps: vec![
                Step::new(answer("I read.", &["a", "b"]), results).unwrap(),
                Step::new(answer("", &["c"]), vec![result("c", &shortened)]).unwrap(),
                Step::new(answer("Done.", &[]), Vec::new()).unwrap(),
                Step::new(Assistant::synthetic("The limit is reached."), Vec::new()).unwrap(),
            ],
            outputs: vec![StoredOutput {
                number: OutputNumber(2),
                text: "all of the end".to_owned(),
            }],
            is_cut: false,
        };
        let end = StepEnd {
            verdict: Some(Verdict::Pass),
            verdict_source: Some(VerdictSource::Concluded),
            ..StepEnd::succeeded("Done.")
        };
        let files = step_files(&head(), &row(&end), &end, &work);
        let calls = files.calls.iter();
        let calls: Vec<_> = calls.map(|call| (call.number, call.stream, call.text)).collect();
        assert_eq!(
            calls,
            [
                (1, CallStream::Stdout, "of a"),
                (2, CallStream::Stderr, "no such file"),
                (3, CallStream::Stdout, "all of the end"),
            ]
        );
        let trace = &files.trace;
        assert_eq!(
            (
                &trace["run"],
                &trace["prompt"],
                &trace["text"],
                &trace["duration"],
                &trace["copied_from_run"]
            ),
            (
                &json!(7),
                &json!("Look."),
                &json!("Done."),
                &json!(3.0),
                &json!(null)
            )
        );
        let steps = trace["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 3);
        assert_eq!(
            steps[0]["calls"][1],
            json!({ "number": 2, "name": "file_read", "arguments": r#"{"path":"a"}"#, "is_error": true })
        );
        assert_eq!(
            steps[2]["calls"],
            json!([{ "name": CONCLUDE, "is_error": false }])
        );
    }
}
