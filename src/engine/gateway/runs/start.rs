//! The start of a run that a person asks for: the definition at the head of the trusted branch, the inputs, the plan, and
//! whether this person may start it. Nothing is stored here.

use super::definitions::UnpublishedReason;
use super::{RunRequest, Runs};
use crate::base::model::{ChatPlace, Role, quoted};
use crate::engine::pipeline::definition::{PipelineDefinition, PipelineTrigger, TriggerSource};
use crate::engine::pipeline::effective;
use crate::engine::pipeline::run::{PlannedWork, RunDoor, RunInputs, RunPlan, run_group, trigger_admits};
use crate::state::access::Identity;
use crate::state::store::NewRun;

/// The most problems of a definition that are shown at once.
const PROBLEMS_SHOWN_MAX: usize = 5;

/// Returns the text about a pipeline that this person cannot start here, whether or not it exists.
pub(in crate::engine::gateway) fn unknown_pipeline(name: &str) -> String {
    format!(
        "There is no pipeline {} that you can start here; `!run` lists those you can.",
        quoted(name)
    )
}

/// True if a run may change files, for which its owner needs the role of an editor.
pub(in crate::engine::gateway) fn needs_editor(plan: &RunPlan) -> bool {
    plan.steps.iter().any(|step| match &step.work {
        PlannedWork::Agent(agent) => agent.bounds.may_edit,
        PlannedWork::Task(_) | PlannedWork::Ask(_) | PlannedWork::Reply(_) | PlannedWork::Parallel => false,
    })
}

impl Runs {
    /// Returns the pipelines that people can start in a chat, with their descriptions. The error is a text for a person who
    /// may read the repository.
    pub(in crate::engine::gateway) async fn startable(
        &self,
        repository: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let published = self
            .definitions
            .published(&self.parts, repository, &self.shutdown)
            .await;
        let published = published.map_err(|why| self.unpublished_text(repository, &why))?;
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

    /// Plans the run that a person asks for in a chat, whose results go to `place`. The error is a text for them.
    pub(in crate::engine::gateway) async fn planned(
        &self,
        identity: &Identity,
        repository: &str,
        request: &RunRequest,
        place: (String, ChatPlace),
    ) -> Result<NewRun, String> {
        let name = &request.name;
        let Some(role) = identity.role(repository) else {
            return Err(unknown_pipeline(name));
        };
        let published = self
            .definitions
            .published(&self.parts, repository, &self.shutdown)
            .await;
        let published = published.map_err(|why| self.unpublished_text(repository, &why))?;
        let loaded = published.loaded.ok_or_else(|| unknown_pipeline(name))?;
        let pipeline = effective(&loaded.file, name, &self.definitions.operator);
        let pipeline = pipeline.ok_or_else(|| unknown_pipeline(name))?;
        let definition = pipeline.definition;
        if chat_triggers(definition).next().is_none() {
            return Err(unknown_pipeline(name));
        }
        let inputs = RunInputs::from_words(definition, &request.params)
            .map_err(|problems| format!("Nothing was started: {}.", problems.join("; ")))?;
        admitted(definition, &inputs)?;
        let plan = RunPlan::of(name, &pipeline, RunDoor::Server).map_err(|problems| {
            let problems = problems.iter().map(ToString::to_string);
            self.problems_text(name, &problems.collect::<Vec<_>>())
        })?;
        if needs_editor(&plan) && role < Role::Editor {
            return Err(format!(
                "Nothing was started: {} may change files, and your role in `{repository}` is viewer. Ask an \
                 administrator for a grant.",
                quoted(name)
            ));
        }
        let group = run_group(name, definition, &inputs);
        let steps = plan.steps.iter();
        let unreadable = |_| "Nothing was started: the plan cannot be stored.".to_owned();
        Ok(NewRun {
            pipeline: name.clone(),
            repository: repository.to_owned(),
            owner: identity.sender().clone(),
            trigger: "chat".to_owned(),
            deliveries: Vec::new(),
            on_conflict: group.as_ref().map(|group| group.on_conflict).unwrap_or_default(),
            group: group.map(|group| format!("{repository}/{}", group.name)),
            place: Some(place),
            commit: published.commit,
            steps: steps
                .map(|step| (step.name.clone(), step.work.word().to_owned()))
                .collect(),
            timeout: plan.budget.timeout,
            plan: serde_json::to_string(&plan).map_err(unreadable)?,
            inputs: serde_json::to_string(&inputs).map_err(unreadable)?,
        })
    }

    /// Returns the text about definitions that cannot be used, for a person who may read them.
    fn unpublished_text(&self, repository: &str, why: &UnpublishedReason) -> String {
        match why {
            UnpublishedReason::Repository(error) => error.to_string(),
            UnpublishedReason::Definition(error) => {
                let text = error.to_string();
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                self.problems_text(repository, &lines)
            }
        }
    }

    fn problems_text(&self, what: &str, problems: &[String]) -> String {
        let shown = problems.iter().take(PROBLEMS_SHOWN_MAX).cloned();
        let shown: Vec<String> = shown.collect();
        let more = match problems.len().saturating_sub(PROBLEMS_SHOWN_MAX) {
            0 => String::new(),
            more => format!("\nAnd {more} more; `drydock pipeline check` in a checkout shows all."),
        };
        let text = format!(
            "Nothing was started: the pipelines of {} cannot be used as they are.\n{}{more}",
            quoted(what),
            shown.join("\n")
        );
        self.parts.redactor.redact(&text).into_owned()
    }
}

fn chat_triggers(definition: &PipelineDefinition) -> impl Iterator<Item = &PipelineTrigger> {
    let triggers = definition.triggers.iter();
    triggers.filter(|trigger| matches!(trigger.source, TriggerSource::Chat(_)))
}

/// Checks the conditions of the triggers: one of them must be true.
fn admitted(definition: &PipelineDefinition, inputs: &RunInputs) -> Result<(), String> {
    let mut why = None;
    for trigger in chat_triggers(definition) {
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
