//! The runs that an event of a hook starts, in place of a turn with the instructions of the hook. Its message is claimed like
//! any other; each run is stored once under the names of the event, and then the message is done.

use super::definitions::{PipelineDefinitions, UnpublishedReason};
use super::plan::RunStart;
use super::start::unpublished_text;
use crate::base::model::{ChatPlace, Inbound, InboundKind, cut_to, quoted};
use crate::base::webhook::{GithubIssue, HookSettings};
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::definition::{HookTrigger, PipelineTrigger, TriggerSource};
use crate::engine::pipeline::run::RunInputs;
use crate::engine::pipeline::{ConditionEvent, LoadedPipelines};
use crate::interfaces::channel;
use crate::state::access::Identity;
use crate::state::store::NewRun;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The most runs that one event starts. All of them are in memory before the first is stored.
const EVENT_RUNS_MAX: usize = 20;
/// The most characters of the line about a pipeline that cannot start.
const PROBLEM_CHARS_MAX: usize = 500;
/// The most of these lines that are shown.
const EVENT_PROBLEMS_SHOWN_MAX: usize = 10;

/// The runs that an event starts.
#[derive(Debug, Default)]
pub(in crate::engine::gateway) struct EventRuns {
    pub(in crate::engine::gateway) runs: Vec<NewRun>,
    /// A line for each pipeline that should start and cannot.
    pub(in crate::engine::gateway) problems: Vec<String>,
}

impl EventRuns {
    /// Returns the first problems, and the number of the others.
    pub(in crate::engine::gateway) fn shown(problems: &[String]) -> String {
        let shown = problems.iter().take(EVENT_PROBLEMS_SHOWN_MAX);
        let mut lines: Vec<&str> = shown.map(String::as_str).collect();
        let more = match problems.len().saturating_sub(EVENT_PROBLEMS_SHOWN_MAX) {
            0 => return lines.join("\n"),
            more => format!("And {more} more."),
        };
        lines.push(&more);
        lines.join("\n")
    }
}

/// An event of a hook that starts pipelines.
struct HookEvent<'a> {
    inbound: &'a Inbound,
    hook: &'a HookSettings,
    name: &'a str,
    payload: &'a Value,
}

impl PipelineDefinitions {
    /// Returns the runs that a message starts. `None` if it is no event of a hook that starts pipelines, or the trusted branch
    /// has no pipeline with a trigger for this hook. The error is a text for the chat of the hook.
    pub(in crate::engine::gateway) async fn runs_of_event(
        &self,
        parts: &Parts,
        inbound: &Inbound,
        identity: &Identity,
        cancel: &CancellationToken,
    ) -> Result<Option<EventRuns>, String> {
        let Some(event) = hook_event(parts, inbound) else {
            return Ok(None);
        };
        if event.hook.comments.is_some() && is_own_comment(parts, event.payload) {
            return Ok(Some(EventRuns::default()));
        }
        let repository = &event.hook.repository;
        let published = self.published(parts, repository, cancel).await;
        let published = published
            .map_err(|why: UnpublishedReason| unpublished_text(repository, &why, &parts.redactor))?;
        let Some(loaded) = published.loaded else {
            return Ok(None);
        };
        let hook_name = &inbound.sender.id;
        // Converted once for the conditions of all triggers.
        let converted = ConditionEvent::of(event.payload);
        let mut found = None;
        for name in loaded.file.pipelines.keys() {
            // Many pipelines keep no other task from its work.
            tokio::task::yield_now().await;
            let triggers = triggers_of(&loaded, name.as_str(), hook_name);
            if triggers.is_empty() {
                continue;
            }
            let found: &mut EventRuns = found.get_or_insert_default();
            let of_event = (event.name, event.payload, &converted);
            match inputs_of_event(&loaded, name.as_str(), &triggers, of_event) {
                Ok(None) => {}
                Ok(Some(_)) if found.runs.len() >= EVENT_RUNS_MAX => {
                    let why = format!(
                        "an event starts at most {EVENT_RUNS_MAX} runs; the pipelines after it were left out too"
                    );
                    found.problems.push(problem(name.as_str(), &why, parts));
                    break;
                }
                Ok(Some(mut inputs)) => {
                    inputs.issue = event.issue();
                    let start = event.start(identity, &published.commit, name.as_str());
                    match start.planned(&loaded, &self.operator, name.as_str(), inputs) {
                        Ok(new) => found.runs.push(new),
                        Err(why) => found.problems.push(problem(name.as_str(), &why, parts)),
                    }
                }
                Err(why) => found.problems.push(problem(name.as_str(), &why, parts)),
            }
        }
        Ok(found)
    }
}

fn hook_event<'a>(parts: &'a Parts, inbound: &'a Inbound) -> Option<HookEvent<'a>> {
    let hook = parts.hook(inbound).filter(|hook| hook.starts_pipelines)?;
    match &inbound.kind {
        InboundKind::Hook {
            event,
            payload: Some(payload),
            ..
        } => Some(HookEvent {
            inbound,
            hook,
            name: event,
            payload,
        }),
        _ => None,
    }
}

/// Returns true for an event about a comment by Drydock itself, also by a run of another hook. It starts nothing: the answer
/// would be another comment.
fn is_own_comment(parts: &Parts, payload: &Value) -> bool {
    let Some((body, issue)) = GithubIssue::comment_of_event(payload).zip(GithubIssue::of_event(payload))
    else {
        return false;
    };
    let mut comments = parts
        .config
        .hooks
        .values()
        .filter_map(|hook| hook.comments.as_ref());
    comments.any(|settings| channel::is_own_comment(settings, &issue, body))
}

/// Returns the triggers of a pipeline that name a hook.
fn triggers_of<'a>(
    loaded: &'a LoadedPipelines,
    pipeline: &str,
    hook: &str,
) -> Vec<(&'a PipelineTrigger, &'a HookTrigger)> {
    let definition = loaded.file.pipelines.get(pipeline);
    let triggers = definition.into_iter().flat_map(|definition| &definition.triggers);
    let of_hooks = triggers.filter_map(|trigger| match &trigger.source {
        TriggerSource::Hook(source) if source.name == hook => Some((trigger, source)),
        _ => None,
    });
    of_hooks.collect()
}

/// Returns the inputs by the first trigger that accepts an event; `None` if none does. The error is that of the first trigger
/// with a problem, if no other one accepts the event.
fn inputs_of_event(
    loaded: &LoadedPipelines,
    pipeline: &str,
    triggers: &[(&PipelineTrigger, &HookTrigger)],
    (name, payload, converted): (&str, &Value, &ConditionEvent),
) -> Result<Option<RunInputs>, String> {
    let Some(definition) = loaded.file.pipelines.get(pipeline) else {
        return Ok(None);
    };
    let mut refused = None;
    for &(trigger, hook) in triggers {
        if !(hook.events.is_empty() || hook.events.iter().any(|entry| accepts(entry, name))) {
            continue;
        }
        match RunInputs::of_event(definition, (trigger, hook), (payload, converted)) {
            Ok(Some(inputs)) => return Ok(Some(inputs)),
            Ok(None) => {}
            Err(problems) => {
                refused.get_or_insert_with(|| problems.join("; "));
            }
        }
    }
    refused.map_or(Ok(None), Err)
}

impl HookEvent<'_> {
    /// Returns the issue of the event, if the hook may comment there.
    fn issue(&self) -> Option<GithubIssue> {
        self.hook.comments.as_ref()?;
        GithubIssue::of_event(self.payload)
    }

    fn start<'s>(&'s self, identity: &'s Identity, commit: &'s str, pipeline: &str) -> RunStart<'s> {
        let names = self.inbound.delivery.iter();
        let post_to = &self.hook.post_to;
        RunStart {
            owner: identity,
            repository: &self.hook.repository,
            commit,
            event: Some(self.payload),
            trigger: format!("hook {}", self.inbound.sender.id),
            deliveries: names.map(|name| format!("{name}/pipeline/{pipeline}")).collect(),
            place: Some((
                post_to.channel.clone(),
                ChatPlace {
                    // The thread names the event.
                    thread: None,
                    ..self.inbound.place.clone()
                },
            )),
        }
    }
}

/// True if an entry of `events`, with an action or for all of them, accepts an event.
fn accepts(entry: &str, event: &str) -> bool {
    let rest = event.strip_prefix(entry);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn problem(pipeline: &str, why: &str, parts: &Parts) -> String {
    let text = format!("{} was not started: {why}.", quoted(pipeline));
    cut_to(&parts.redactor.redact(&text), PROBLEM_CHARS_MAX).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{EVENT_PROBLEMS_SHOWN_MAX, EventRuns, accepts, inputs_of_event, triggers_of};
    use crate::engine::pipeline::definition::ScalarValue;
    use crate::engine::pipeline::{ConditionEvent, LoadedPipelines, OperatorLimits};
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn a_trigger_with_a_problem_leaves_the_event_to_the_next_one() {
        let text = "pipelines:\n  p:\n    triggers:\n    - {when: event.draft == false, hook: {name: ci, params: {n: /a}}}\n    \
                    - {hook: {name: ci, params: {n: /b}}}\n    params: {n: {type: integer}}\n    steps: [{name: a, reply: {to: \
                    'channel:team:C1', text: done}}]\n";
        let operator = OperatorLimits {
            tools: BTreeSet::new(),
            server: None,
        };
        let loaded = LoadedPipelines::from_yaml(text.as_bytes(), &operator).unwrap();
        let triggers = triggers_of(&loaded, "p", "ci");
        assert_eq!(triggers.len(), 2);
        let inputs = |payload: serde_json::Value| {
            let event = ConditionEvent::of(&payload);
            inputs_of_event(&loaded, "p", &triggers, ("event", &payload, &event))
        };
        let accepted = inputs(json!({ "b": 2 })).unwrap().unwrap();
        assert_eq!(accepted.params["n"], ScalarValue::Integer(2));
        let problem = inputs(json!({ "draft": false })).unwrap_err();
        assert!(problem.starts_with("params.n: /a of the event"), "{problem}");
    }

    #[test]
    fn some_problems_of_an_event_are_shown_and_the_others_counted() {
        let problems = vec!["no".to_owned(); EVENT_PROBLEMS_SHOWN_MAX + 3];
        let shown = EventRuns::shown(&problems);
        assert_eq!(shown.lines().count(), EVENT_PROBLEMS_SHOWN_MAX + 1);
        assert!(shown.ends_with("no\nAnd 3 more."), "{shown}");
        assert_eq!(EventRuns::shown(&problems[..2]), "no\nno");
    }

    #[test]
    fn an_entry_accepts_one_action_or_all_of_an_event() {
        for (entry, event, is_accepted) in [
            ("release", "release", true),
            ("release", "release.published", true),
            ("release.published", "release.published", true),
            ("release.published", "release.edited", false),
            ("release.published", "release", false),
            ("pull_request", "pull_request_review.submitted", false),
        ] {
            assert_eq!(accepts(entry, event), is_accepted, "{entry} {event}");
        }
    }
}
