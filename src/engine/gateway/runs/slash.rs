//! Runs that a slash command of its own starts, such as `/review 7`. Their answers are for the person of the command alone,
//! also where the bot is not in the chat: the address for answers to the command is kept with the run while it is accepted.

use super::moves::RunMove;
use super::plan::RunStart;
use super::start::{chat_triggers, unpublished_text};
use super::{RunReport, Runs, parse_run};
use crate::base::model::{ChatPlace, Op, Reply, ResponseUrl, RunId, Sender, StepStatus, quoted};
use crate::engine::gateway::compose::Address;
use crate::engine::pipeline::definition::{PipelineDefinition, PipelineTrigger, TriggerSource};
use crate::engine::pipeline::run::{PlannedWork, RunInputs, RunPlan, trigger_admits};
use crate::state::access::Identity;
use crate::state::store::{NewRun, RunHead, RunRow, StoreError};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// The kind of these runs, before the name of the command.
const TRIGGER: &str = "slash_command";
/// The target of replies that answer the command.
const RESPONSE: &str = "slack-response";
/// The name of the operation that shows the end of a run to the person of its command.
pub(super) const ENDED: &str = "ended";

/// The most pipelines that are named as those of one command.
const NAMES_MAX: usize = 5;

/// A pipeline with its name.
type NamedPipeline<'a> = (&'a str, &'a PipelineDefinition);

/// The words of a person after a slash command that starts a pipeline.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine::gateway) struct SlashRequest<'a> {
    /// The command, such as `/review`.
    pub(in crate::engine::gateway) command: &'a str,
    /// The words after it, without the name of the repository.
    pub(in crate::engine::gateway) words: &'a str,
}

/// Returns true for the word of a command that starts a pipeline. The words of other commands have no slash.
pub(in crate::engine::gateway) fn is_slash_command(verb: &str) -> bool {
    verb.starts_with('/')
}

/// Returns the text about a command that starts nothing for this person, whether or not a pipeline has it.
pub(in crate::engine::gateway) fn unknown_command(command: &str) -> String {
    format!(
        "There is no pipeline that {} starts for you here.",
        quoted(command)
    )
}

/// Returns the text about a command that several pipelines of a repository have, for those who may read it. Which of them
/// is meant is not guessed from the words after it.
fn ambiguous_command(command: &str, repository: &str, several: &[NamedPipeline<'_>]) -> String {
    let startable = several
        .iter()
        .filter(|(_, definition)| chat_triggers(definition).next().is_some());
    let startable: Vec<String> = startable
        .take(NAMES_MAX)
        .map(|(name, _)| quoted(&format!("!run {repository}: {name}")))
        .collect();
    let how = match startable.is_empty() {
        true => "None of them is started by `!run`; give each a command of its own.".to_owned(),
        false => format!("Write {} instead.", startable.join(" or ")),
    };
    let names: Vec<String> = several
        .iter()
        .take(NAMES_MAX)
        .map(|(name, _)| quoted(name))
        .collect();
    let more = match several.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Nothing was started: {} pipelines of {} have the command {}: {}{more}. {how}",
        several.len(),
        quoted(repository),
        quoted(command),
        names.join(", ")
    )
}

/// Returns true if a slash command started a run.
pub(super) fn is_of_command(head: &RunHead) -> bool {
    is_command(&head.trigger)
}

/// Returns true for the trigger of a run that a slash command started.
pub(super) fn is_command(trigger: &str) -> bool {
    trigger.split(' ').next() == Some(TRIGGER)
}

/// Returns true if a slash command started a run with this trigger, and still starts its pipeline.
pub(super) fn has_command_of(definition: &PipelineDefinition, trigger: &str) -> bool {
    let command = trigger
        .strip_prefix(TRIGGER)
        .and_then(|rest| rest.strip_prefix(' '));
    command.is_some_and(|command| triggers_of(definition, command).next().is_some())
}

impl Runs {
    /// Plans the run that a person asks for by a slash command. The error is a text for them.
    pub(in crate::engine::gateway) async fn planned_by_command(
        &self,
        identity: &Identity,
        repository: &str,
        request: SlashRequest<'_>,
        place: (String, ChatPlace),
        cancel: &CancellationToken,
    ) -> Result<NewRun, String> {
        let SlashRequest { command, words } = request;
        let redactor = &self.parts.redactor;
        if identity.role(repository).is_none() {
            return Err(unknown_command(command));
        }
        let published = self.definitions.published(&self.parts, repository, cancel).await;
        let published = published.map_err(|why| unpublished_text(repository, &why, redactor))?;
        let loaded = published.loaded.ok_or_else(|| unknown_command(command))?;
        let pipelines = loaded.file.pipelines.iter();
        let has_command =
            |(_, definition): &NamedPipeline<'_>| triggers_of(definition, command).next().is_some();
        let named: Vec<NamedPipeline<'_>> = pipelines
            .map(|(name, definition)| (name.as_str(), definition))
            .filter(has_command)
            .collect();
        let (name, definition) = match named.as_slice() {
            [] => return Err(unknown_command(command)),
            [only] => *only,
            several => {
                let text = ambiguous_command(command, repository, several);
                return Err(redactor.redact(&text).into_owned());
            }
        };
        let triggers: Vec<&PipelineTrigger> = triggers_of(definition, command).collect();
        let inputs = inputs(name, definition, &triggers, words)?;
        let start = RunStart {
            owner: identity,
            repository,
            commit: &published.commit,
            event: None,
            trigger: format!("{TRIGGER} {command}"),
            deliveries: Vec::new(),
            place: Some(place),
        };
        let planned = start.planned(&loaded, &self.definitions.operator, name, inputs);
        planned.map_err(|why| {
            let text = format!("{} was not started: {why}.", quoted(name));
            redactor.redact(&text).into_owned()
        })
    }

    /// Returns the address for answers to the command that started a run, while it is accepted.
    pub(super) async fn response_url(
        &self,
        row: &RunRow,
        at: Timestamp,
    ) -> Result<Option<ResponseUrl>, StoreError> {
        match is_of_command(&row.head) {
            true => self.parts.store.run_response_url(row.head.id, at).await,
            false => Ok(None),
        }
    }

    /// Returns what is shown of a run after its moves: its message, or for the person of a command the end alone.
    pub(super) fn shown(&self, moves: &RunMove<'_>, owner: Option<&Identity>) -> Vec<Op> {
        let RunMove { row, report, .. } = moves;
        match is_of_command(&row.head) && report.has_ended() && !has_answered(moves) {
            true => self.ended(moves, report, owner),
            false => self.message(row, report, owner),
        }
    }

    /// Returns the notice about the end of a run, for the person of its command alone.
    fn ended(&self, moves: &RunMove<'_>, report: &RunReport, owner: Option<&Identity>) -> Vec<Op> {
        let (head, config) = (&moves.row.head, &self.parts.config);
        let (Some((channel, place)), Some(owner)) = (&moves.row.place, owner) else {
            return Vec::new();
        };
        if !config.channels.contains_key(channel) {
            return Vec::new();
        }
        let for_owner = (&head.owner, moves.response_url.clone());
        let address = self.notice_address(head.id, (channel, place), for_owner);
        let reply = match owner.role(&head.repository) {
            Some(_) => report.reply(|reply| address.fits(config, reply, 1)),
            None => Reply::text(report.headline()),
        };
        vec![address.post(ENDED, reply)]
    }

    /// Returns the address of the notice about the end of a run.
    pub(super) fn notice_address(
        &self,
        run: RunId,
        place: (&str, &ChatPlace),
        (owner, response_url): (&Sender, Option<ResponseUrl>),
    ) -> Address {
        Address {
            ephemeral_to: Some(owner.clone()),
            response_url,
            ..self.address(run, place, None)
        }
    }
}

fn triggers_of<'a>(
    definition: &'a PipelineDefinition,
    command: &str,
) -> impl Iterator<Item = &'a PipelineTrigger> {
    let triggers = definition.triggers.iter();
    triggers.filter(move |trigger| match &trigger.source {
        TriggerSource::SlashCommand(slash) => slash.command.as_str() == command,
        _ => false,
    })
}

/// Returns the inputs of a run by the words after its command, if the condition of a trigger is true. The error is a text for
/// the person.
fn inputs(
    name: &str,
    definition: &PipelineDefinition,
    triggers: &[&PipelineTrigger],
    words: &str,
) -> Result<RunInputs, String> {
    let nothing = |why: &str| format!("Nothing was started: {why}.");
    let params = params(name, definition, words)?;
    let inputs =
        RunInputs::from_words(definition, &params).map_err(|problems| nothing(&problems.join("; ")))?;
    let mut refused = "the condition of its trigger is false for these values".to_owned();
    for trigger in triggers {
        match trigger_admits(trigger, &inputs) {
            Ok(true) => return Ok(inputs),
            Ok(false) => {}
            Err(why) => refused = why,
        }
    }
    Err(nothing(&refused))
}

/// Returns the parameters in the words after a command: `name=value` for each, or the words themselves as the value of the
/// only required one.
fn params(name: &str, definition: &PipelineDefinition, words: &str) -> Result<Vec<(String, String)>, String> {
    let words = words.trim();
    let named = parse_run(&format!("{name} {words}"));
    let is_known = |(param, _): &(String, String)| definition.params.contains_key(param.as_str());
    let mut required = definition
        .params
        .iter()
        .filter(|(_, param)| param.default.is_none());
    let only = match (required.next(), required.next()) {
        (Some((only, _)), None) => Some(only.to_string()),
        _ => None,
    };
    match (named, only) {
        (Ok(named), _) if named.params.iter().all(is_known) => Ok(named.params),
        (_, Some(only)) => Ok(vec![(only, words.to_owned())]),
        (Ok(named), None) => Ok(named.params),
        (Err(_), None) => Err(usage(definition)),
    }
}

fn usage(definition: &PipelineDefinition) -> String {
    let names = definition.params.keys().map(|name| format!("`{name}=value`"));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => "Nothing was started: write the command without words after it.".to_owned(),
        false => format!(
            "Nothing was started: write {} after the command.",
            names.join(", ")
        ),
    }
}

/// Returns true if a run succeeded and a reply of its own was an answer to the command.
fn has_answered(moves: &RunMove<'_>) -> bool {
    let Ok(plan) = serde_json::from_str::<RunPlan>(&moves.row.plan) else {
        return false;
    };
    let states: Vec<StepStatus> = moves.state.steps.iter().map(|step| step.status()).collect();
    let is_answer =
        |work: &PlannedWork| matches!(work, PlannedWork::Reply(reply) if reply.to.as_str() == RESPONSE);
    // A repetition keeps the steps that ended before it.
    let head = &moves.row.head;
    let is_own = |began: Option<Timestamp>| {
        head.retry_of.is_none() || began.is_none_or(|began| began >= head.created_at)
    };
    let mut steps = plan.steps.iter().zip(&states).zip(&moves.row.steps);
    !states.contains(&StepStatus::Failed)
        && !states.contains(&StepStatus::Cancelled)
        && steps.any(|((step, status), row)| {
            is_answer(&step.work) && *status == StepStatus::Succeeded && is_own(row.started_at)
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{NamedPipeline, ambiguous_command, params, triggers_of};
    use crate::engine::pipeline::{LoadedPipelines, OperatorLimits};
    use std::collections::BTreeSet;

    fn loaded(params: &str) -> LoadedPipelines {
        let text = format!(
            "pipelines:\n  p:\n    triggers: [{{slash_command: {{command: /review}}}}]\n    params: {params}\n    steps: \
             [{{name: a, reply: {{to: slack-response, text: done}}}}]\n"
        );
        let operator = OperatorLimits {
            tools: BTreeSet::new(),
            server: None,
        };
        LoadedPipelines::from_yaml(text.as_bytes(), &operator).unwrap()
    }

    #[test]
    fn the_words_after_a_command_are_parameters_or_the_only_required_one() {
        let one = "{number: {type: integer}, depth: {type: text, default: quick}}";
        let two = "{number: {type: integer}, title: {type: text}}";
        let given = |definition: &str, words: &str| {
            let loaded = loaded(definition);
            let found = params("p", &loaded.file.pipelines["p"], words).ok()?;
            let found: Vec<String> = found
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            Some(found.join(" "))
        };
        let found = |text: &str| Some(text.to_owned());
        for (definition, words, expected) in [
            (one, "7", found("number=7")),
            (one, " 7 and more ", found("number=7 and more")),
            (one, "number=7 depth=full", found("number=7 depth=full")),
            (
                one,
                "url=https://example.com/?a=b",
                found("number=url=https://example.com/?a=b"),
            ),
            (one, "why is a=b", found("number=why is a=b")),
            (one, "", found("")),
            (
                two,
                "number=7 title=\"two words\"",
                found("number=7 title=two words"),
            ),
            (two, "other=1", found("other=1")),
            (two, "7", None),
            ("{}", "", found("")),
            ("{}", "7", None),
        ] {
            assert_eq!(given(definition, words), expected, "{definition} {words}");
        }
    }

    /// Returns the text about a command that so many pipelines with these triggers have.
    fn ambiguous(count: usize, triggers: &str) -> String {
        let pipelines = (0..count).map(|number| {
            format!(
                "  p{number}:\n    triggers: [{triggers}]\n    steps: [{{name: a, reply: {{to: slack-response, text: \
                 done}}}}]\n"
            )
        });
        let text = format!("pipelines:\n{}", pipelines.collect::<String>());
        let operator = OperatorLimits {
            tools: BTreeSet::new(),
            server: None,
        };
        let loaded = LoadedPipelines::from_yaml(text.as_bytes(), &operator).unwrap();
        let pipelines = loaded.file.pipelines.iter();
        let named: Vec<NamedPipeline<'_>> = pipelines
            .map(|(name, definition)| (name.as_str(), definition))
            .collect();
        ambiguous_command("/review", "infra", &named)
    }

    #[test]
    fn an_ambiguous_command_names_a_few_of_its_pipelines_and_what_starts_them() {
        assert_eq!(
            ambiguous(2, "{slash_command: {command: /review}}"),
            "Nothing was started: 2 pipelines of `infra` have the command `/review`: `p0`, `p1`. None of them is started by \
             `!run`; give each a command of its own."
        );
        assert_eq!(
            ambiguous(7, "{slash_command: {command: /review}}, {chat: {}}"),
            "Nothing was started: 7 pipelines of `infra` have the command `/review`: `p0`, `p1`, `p2`, `p3`, `p4` and 2 more. \
             Write `!run infra: p0` or `!run infra: p1` or `!run infra: p2` or `!run infra: p3` or `!run infra: p4` instead."
        );
    }

    #[test]
    fn a_command_is_that_of_a_trigger_and_no_part_of_it() {
        let loaded = loaded("{}");
        let count = |command: &str| triggers_of(&loaded.file.pipelines["p"], command).count();
        assert_eq!(
            (
                count("/review"),
                count("/revie"),
                count("review"),
                count("/Review")
            ),
            (1, 0, 0, 0)
        );
    }
}
