//! The plan of a run: the effective values of its pipeline at its start. A later change of the definition does not
//! change it.

use super::RunBudget;
use super::support::{RunDoor, UnsupportedStep, unsupported};
use crate::base::model::AgentBounds;
use crate::engine::agent::shorthand::Shorthand;
use crate::engine::pipeline::definition::{
    AgentStep, AskStep, PipelineRole, PipelineValue, ReplyStep, StepCondition, StepWork, TaskStep,
};
use crate::engine::pipeline::{CompiledCondition, EffectiveAgent, EffectivePipeline, EffectiveStep};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The steps in order, with those of a parallel group directly after it.
    pub steps: Vec<PlannedStep>,
    /// The bounds of the run.
    pub budget: RunBudget,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// The name, which is unique in the plan.
    pub name: String,
    /// The index of the parallel group that the step is a part of.
    pub group: Option<usize>,
    /// The condition.
    pub condition: StepCondition,
    /// The work.
    pub work: PlannedWork,
}

/// The work of a step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedWork {
    /// A model works with tools.
    Agent(PlannedAgent),
    /// A program runs in the sandbox.
    Task(TaskStep),
    /// A person or a group is asked.
    Ask(AskStep),
    /// A text is sent.
    Reply(ReplyStep),
    /// The steps of this group run at the same time.
    Parallel,
}

/// The work of an agent step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedAgent {
    /// The request: the text of a shorthand, or the prompt itself.
    pub request: String,
    /// Values that the model reads as data, by name.
    pub params: BTreeMap<String, PipelineValue>,
    /// The limits.
    pub bounds: AgentBounds,
}

impl RunPlan {
    /// Plans a run of a pipeline. The error lists all work that is not available in this place.
    pub fn of(
        name: &str,
        effective: &EffectivePipeline<'_>,
        door: RunDoor,
    ) -> Result<Self, Vec<UnsupportedStep>> {
        let mut problems = unsupported(effective, door);
        let mut steps = Vec::with_capacity(effective.steps.len());
        let mut group = None;
        let mut left_in_group = 0;
        for (index, step) in effective.steps.iter().enumerate() {
            let inside = (left_in_group > 0).then_some(group).flatten();
            left_in_group = usize::saturating_sub(left_in_group, 1);
            if step.step.work.is_none() {
                group = Some(index);
                left_in_group = group_size(effective, step);
            }
            match planned(step) {
                Ok(work) => steps.push(PlannedStep {
                    name: step.step.name.to_string(),
                    group: inside,
                    condition: step.step.condition.clone(),
                    work,
                }),
                Err(problem) => problems.push(problem),
            }
        }
        match problems.is_empty() {
            true => Ok(Self {
                pipeline: name.to_owned(),
                steps,
                budget: RunBudget::of(&effective.budget),
            }),
            false => Err(problems),
        }
    }

    /// Returns true if the condition of a step names the event.
    pub fn uses_event(&self) -> bool {
        let mut conditions = self.steps.iter().filter_map(|step| step.condition.when.as_ref());
        conditions.any(|when| {
            let compiled = CompiledCondition::compile(when);
            compiled.is_ok_and(|condition| condition.names().uses_event)
        })
    }

    /// Returns the indexes of the steps of a group.
    pub(super) fn inner_steps(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let steps = self.steps.iter().enumerate();
        steps
            .filter(move |(_, step)| step.group == Some(group))
            .map(|(index, _)| index)
    }
}

impl PlannedWork {
    /// Returns the word of the work in a definition.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Task(_) => "task",
            Self::Ask(_) => "ask",
            Self::Reply(_) => "reply",
            Self::Parallel => "parallel",
        }
    }
}

/// Returns the number of steps of a group.
fn group_size(effective: &EffectivePipeline<'_>, group: &EffectiveStep<'_>) -> usize {
    let mut steps = effective.definition.steps.iter();
    let found = steps.find(|step| step.name == *group.step.name);
    found.map_or(0, |step| step.parallel().len())
}

fn planned(step: &EffectiveStep<'_>) -> Result<PlannedWork, UnsupportedStep> {
    Ok(match (step.step.work, &step.agent) {
        (Some(StepWork::Agent(agent)), Some(effective)) => {
            PlannedWork::Agent(planned_agent(&step.key, agent, effective)?)
        }
        (Some(StepWork::Task(task)), _) => PlannedWork::Task(task.clone()),
        (Some(StepWork::Ask(ask)), _) => PlannedWork::Ask(ask.clone()),
        (Some(StepWork::Reply(reply)), _) => PlannedWork::Reply(reply.clone()),
        (Some(StepWork::Agent(_)), None) => return Err(no_model(&step.key)),
        (None, _) => PlannedWork::Parallel,
    })
}

fn no_model(key: &str) -> UnsupportedStep {
    UnsupportedStep {
        key: format!("{key}.agent.model"),
        why: "is required, as provider/model".to_owned(),
    }
}

fn planned_agent(
    key: &str,
    agent: &AgentStep,
    effective: &EffectiveAgent,
) -> Result<PlannedAgent, UnsupportedStep> {
    let Some(model) = &effective.model else {
        return Err(no_model(key));
    };
    let shorthand = Shorthand::of_prompt(agent.prompt.as_str());
    let role = effective.permissions.role.limit;
    let params = agent.params.iter();
    Ok(PlannedAgent {
        request: match shorthand {
            Some(shorthand) => shorthand.text().to_owned(),
            None => agent.prompt.to_string(),
        },
        params: params
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        bounds: AgentBounds {
            model: model.value.to_string(),
            base_url: effective.base_url.as_ref().map(|url| url.value.to_string()),
            max_steps: effective.max_steps.value,
            max_tokens: effective.max_tokens.value,
            max_cents: 0,
            timeout: effective.timeout.value.duration(),
            truncate_head: effective.truncate_head.value,
            truncate_tail: effective.truncate_tail.value,
            tools: effective.tools.keys().cloned().collect(),
            // Each of the standard requests says that no file is to be changed.
            may_edit: role != Some(PipelineRole::Viewer) && shorthand.is_none(),
            environments: effective.permissions.environments.limit.clone(),
        },
    })
}
