//! The start of a run that a person asks for: the definition at the head of the trusted branch, the inputs, and whether this
//! person may start it. Nothing is stored here.

use super::definitions::UnpublishedReason;
use super::plan::{RunStart, shown};
use super::slash::has_command_of;
use super::{RunRequest, Runs};
use crate::base::model::{ChatPlace, quoted};
use crate::base::redact::Redactor;
use crate::engine::pipeline::definition::{PipelineDefinition, PipelineTrigger, TriggerSource};
use crate::engine::pipeline::run::{RunInputs, trigger_admits};
use crate::state::access::Identity;
use crate::state::store::{NewRun, RunHead};
use tokio_util::sync::CancellationToken;

/// Returns the text about a pipeline that this person cannot start here, whether or not it exists.
pub(in crate::engine::gateway) fn unknown_pipeline(name: &str) -> String {
    format!(
        "There is no pipeline {} that you can start here; `!run` lists those you can.",
        quoted(name)
    )
}

impl Runs {
    /// Returns the pipelines that people can start in a chat, with their descriptions. The error is a text for a person who
    /// may read the repository. `cancel` ends the search.
    pub async fn startable(
        &self,
        repository: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<(String, String)>, String> {
        let published = self.definitions.published(&self.parts, repository, cancel).await;
        let published = published.map_err(|why| unpublished_text(repository, &why, &self.parts.redactor))?;
        let Some(loaded) = published.loaded else {
            return Ok(Vec::new());
        };
        let pipelines = loaded.file.pipelines.iter();
        let startable = pipelines.filter(|(_, definition)| chat_triggers(definition).next().is_some());
        Ok(startable
            .map(|(name, definition)| {
                let description = self.parts.redactor.redact(&definition.description);
                (name.to_string(), description.into_owned())
            })
            .collect())
    }

    /// Checks that the pipeline of a run can still be started in a chat: by its name, or by the slash command that started this
    /// run. The error is a text for a person who may read the repository. `cancel` ends the search.
    pub(in crate::engine::gateway) async fn check_repeatable(
        &self,
        head: &RunHead,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let repository = &head.repository;
        let published = self.definitions.published(&self.parts, repository, cancel).await;
        let published = published.map_err(|why| unpublished_text(repository, &why, &self.parts.redactor))?;
        let pipelines = published.loaded.as_ref().map(|loaded| &loaded.file.pipelines);
        let definition = pipelines.and_then(|pipelines| pipelines.get(head.pipeline.as_str()));
        let is_startable = definition.is_some_and(|definition| {
            chat_triggers(definition).next().is_some() || has_command_of(definition, &head.trigger)
        });
        match is_startable {
            true => Ok(()),
            false => Err(unknown_pipeline(&head.pipeline)),
        }
    }

    /// Plans the run that a person asks for in a chat, whose results go to `place`. The error is a text for them.
    pub(in crate::engine::gateway) async fn planned(
        &self,
        identity: &Identity,
        repository: &str,
        request: &RunRequest,
        place: (String, ChatPlace),
        cancel: &CancellationToken,
    ) -> Result<NewRun, String> {
        let name = &request.name;
        let redactor = &self.parts.redactor;
        if identity.role(repository).is_none() {
            return Err(unknown_pipeline(name));
        }
        let published = self.definitions.published(&self.parts, repository, cancel).await;
        let published = published.map_err(|why| unpublished_text(repository, &why, redactor))?;
        let loaded = published.loaded.ok_or_else(|| unknown_pipeline(name))?;
        let definition = loaded.file.pipelines.get(name.as_str());
        let definition = definition.filter(|definition| chat_triggers(definition).next().is_some());
        let definition = definition.ok_or_else(|| unknown_pipeline(name))?;
        let inputs = RunInputs::from_words(definition, &request.params)
            .map_err(|problems| format!("Nothing was started: {}.", problems.join("; ")))?;
        admitted(chat_triggers(definition), &inputs)?;
        let start = RunStart {
            owner: identity,
            repository,
            commit: &published.commit,
            event: None,
            trigger: "chat".to_owned(),
            deliveries: Vec::new(),
            place: Some(place),
        };
        let planned = start.planned(&loaded, &self.definitions.operator, name, inputs);
        planned.map_err(|why| {
            let text = format!("{} was not started: {why}.", quoted(name));
            redactor.redact(&text).into_owned()
        })
    }
}

/// Returns the text about definitions that cannot be used, for those who may read them.
pub(super) fn unpublished_text(repository: &str, why: &UnpublishedReason, redactor: &Redactor) -> String {
    match why {
        UnpublishedReason::Repository(error) => error.to_string(),
        UnpublishedReason::Definition(error) => {
            let text = error.to_string();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let text = format!(
                "Nothing was started: the pipelines of {} cannot be used as they are.\n{}",
                quoted(repository),
                shown(&lines)
            );
            redactor.redact(&text).into_owned()
        }
    }
}

pub(super) fn chat_triggers(definition: &PipelineDefinition) -> impl Iterator<Item = &PipelineTrigger> {
    let triggers = definition.triggers.iter();
    triggers.filter(|trigger| matches!(trigger.source, TriggerSource::Chat(_)))
}

/// Checks the conditions of triggers: one of them must be true.
pub(super) fn admitted<'a>(
    triggers: impl Iterator<Item = &'a PipelineTrigger>,
    inputs: &RunInputs,
) -> Result<(), String> {
    let mut why = None;
    for trigger in triggers {
        match trigger_admits(trigger, inputs) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => why = Some(error),
        }
    }
    Err(match why {
        Some(why) => format!("Nothing was started: {why}."),
        None => "Nothing was started: the condition of its trigger is false for these values.".to_owned(),
    })
}
