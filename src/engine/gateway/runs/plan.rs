//! The plan of a run: the effective definition at its start, with who starts it and where.

use crate::base::model::{ChatPlace, Role};
use crate::engine::pipeline::run::{PlannedWork, RunDoor, RunInputs, RunPlan, run_group};
use crate::engine::pipeline::{LoadedPipelines, OperatorLimits, effective};
use crate::state::access::Identity;
use crate::state::store::{GroupReach, NewRun};
use serde_json::Value;

/// The most problems that are shown at once.
const PROBLEMS_SHOWN_MAX: usize = 5;

/// The start of a run: by whom, by what and where.
pub(super) struct RunStart<'a> {
    /// The person or service whose run it is.
    pub(super) owner: &'a Identity,
    /// The repository.
    pub(super) repository: &'a str,
    /// The commit of the definition.
    pub(super) commit: &'a str,
    /// The event that started it, if one did.
    pub(super) event: Option<&'a Value>,
    /// The kind of the trigger, and its name.
    pub(super) trigger: String,
    /// Every name under which the event may come again.
    pub(super) deliveries: Vec<String>,
    /// The channel and the place of the run's message; none for a run that has no message.
    pub(super) place: Option<(String, ChatPlace)>,
}

/// The reason why a run cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlanRefusal {
    /// There is no such pipeline.
    #[error("it does not exist")]
    Unknown,
    /// Parts of it are not available on a server.
    #[error("parts of it are not available here:\n{0}")]
    Unavailable(String),
    /// It may change files, and the owner is a viewer.
    #[error("it may change files, and the role in `{0}` is viewer; an administrator gives another grant")]
    NeedsEditor(String),
    /// The plan has no text.
    #[error("its plan cannot be stored")]
    NoText,
}

impl RunStart<'_> {
    /// Plans a run like [`Self::plan`], with the reason as a text.
    pub(super) fn planned(
        self,
        loaded: &LoadedPipelines,
        operator: &OperatorLimits,
        name: &str,
        inputs: RunInputs,
    ) -> Result<NewRun, String> {
        let planned = self.plan(loaded, operator, name, inputs);
        planned.map_err(|why| why.to_string())
    }

    /// Plans a run of a pipeline of the file. The error says why it cannot run.
    pub(super) fn plan(
        self,
        loaded: &LoadedPipelines,
        operator: &OperatorLimits,
        name: &str,
        mut inputs: RunInputs,
    ) -> Result<NewRun, PlanRefusal> {
        let pipeline = effective(&loaded.file, name, operator).ok_or(PlanRefusal::Unknown)?;
        let plan = RunPlan::of(name, &pipeline, RunDoor::Server).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            PlanRefusal::Unavailable(shown(&problems))
        })?;
        let is_editor = self.owner.role(self.repository) >= Some(Role::Editor);
        if needs_editor(&plan) && !is_editor {
            return Err(PlanRefusal::NeedsEditor(self.repository.to_owned()));
        }
        let group = run_group(name, pipeline.definition, &inputs);
        if let Some(event) = self.event.filter(|_| plan.uses_event()) {
            inputs.event = event.clone();
        }
        let steps = plan.steps.iter();
        let no_text = |_| PlanRefusal::NoText;
        Ok(NewRun {
            pipeline: name.to_owned(),
            repository: self.repository.to_owned(),
            owner: self.owner.sender().clone(),
            trigger: self.trigger,
            deliveries: self.deliveries,
            on_conflict: group.as_ref().map(|group| group.on_conflict).unwrap_or_default(),
            reach: match is_editor {
                true => GroupReach::All,
                false => GroupReach::Own,
            },
            group: group.map(|group| format!("{}/{}", self.repository, group.name)),
            place: self.place,
            commit: self.commit.to_owned(),
            steps: steps
                .map(|step| (step.name.clone(), step.work.word().to_owned()))
                .collect(),
            timeout: plan.budget.timeout,
            plan: serde_json::to_string(&plan).map_err(no_text)?,
            inputs: serde_json::to_string(&inputs).map_err(no_text)?,
        })
    }
}

/// True if a run may change files, for which its owner needs the role of an editor.
pub(in crate::engine::gateway) fn needs_editor(plan: &RunPlan) -> bool {
    plan.steps.iter().any(|step| match &step.work {
        PlannedWork::Agent(agent) => agent.bounds.may_edit,
        PlannedWork::Task(_) | PlannedWork::Ask(_) | PlannedWork::Reply(_) | PlannedWork::Parallel => false,
    })
}

/// Returns the first problems, a line each.
pub(super) fn shown(problems: &[String]) -> String {
    let mut lines: Vec<String> = problems.iter().take(PROBLEMS_SHOWN_MAX).cloned().collect();
    let more = problems.len().saturating_sub(PROBLEMS_SHOWN_MAX);
    if more > 0 {
        lines.push(format!(
            "And {more} more; `drydock pipeline check` in a checkout shows all."
        ));
    }
    lines.join("\n")
}
