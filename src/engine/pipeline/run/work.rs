//! The work of a step with its references replaced by values, one value for each reference.

use super::budget::bounds_of_step;
use super::values::VisibleValues;
use super::{PlannedAgent, PlannedWork, RunInputs, RunPlan, RunState};
use crate::base::model::{AgentBounds, truncated_result};
use crate::engine::pipeline::STEP_TIME_MAX;
use crate::engine::pipeline::definition::{AskStep, AskedParty, PipelineValue, TaskStep, ValueReference};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

/// The maximum number of bytes of the earlier outputs that an agent step can read, all together.
const RESULTS_BYTES_MAX: usize = 4 << 20;
/// The maximum number of bytes of the values that a program reads as JSON. Those of all waiting tasks are in memory.
const TASK_INPUT_BYTES_MAX: usize = 4 << 20;
/// The bytes that are enough for the line about missing bytes.
const MISSING_LINE_BYTES: usize = 64;

/// The work of a step with its values.
#[derive(Clone, Debug, PartialEq)]
pub enum ResolvedWork {
    /// A model works with tools.
    Agent {
        /// The request.
        words: String,
        /// Values that the model reads as data, with their names.
        data: Vec<(String, String)>,
        /// The limits, with what is left of the run's budget.
        bounds: AgentBounds,
        /// The outputs of earlier steps, by name of the step.
        results: BTreeMap<String, String>,
    },
    /// A program runs in the sandbox.
    Task(TaskWork),
    /// A person or a group is asked.
    Ask {
        /// The person or group.
        to: AskedParty,
        /// The question.
        question: String,
        /// Values that are shown with it, with their names.
        values: Vec<(String, String)>,
        /// The answers to choose from.
        choices: Vec<String>,
        /// The time until the default counts as the answer.
        deadline: Duration,
        /// The answer if nobody chooses one.
        default: Option<String>,
    },
    /// A text is sent.
    Reply {
        /// The target.
        to: String,
        /// The text.
        text: String,
    },
    /// A group, which has no work of its own.
    Parallel,
}

/// The work of a task step with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWork {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The values that the program reads, as JSON.
    pub input: String,
    /// Variables of the program.
    pub env: BTreeMap<String, String>,
    /// The time that it may take.
    pub timeout: Duration,
}

/// Returns the work of a step that begins. The state is that after the moves with this beginning, because an end of the
/// same moves may be a value of the step. The error is the reason for which the step fails.
pub fn resolved_work(
    plan: &RunPlan,
    inputs: &RunInputs,
    state: &RunState,
    step: usize,
) -> Result<ResolvedWork, String> {
    let Some(planned) = plan.steps.get(step) else {
        return Err(format!("the plan has no step {step}"));
    };
    let values = VisibleValues::of(plan, inputs, state, step);
    match &planned.work {
        PlannedWork::Agent(agent) => {
            let bounds = bounds_of_step(plan, state, step, &agent.bounds)?;
            agent_work(&values, agent, bounds)
        }
        PlannedWork::Task(task) => task_work(&values, task, (inputs, plan.budget.timeout)),
        PlannedWork::Ask(ask) => ask_work(&values, ask),
        PlannedWork::Reply(reply) => Ok(ResolvedWork::Reply {
            to: reply.to.to_string(),
            text: values.value(&reply.text)?,
        }),
        PlannedWork::Parallel => Ok(ResolvedWork::Parallel),
    }
}

fn agent_work(
    values: &VisibleValues<'_>,
    agent: &PlannedAgent,
    bounds: AgentBounds,
) -> Result<ResolvedWork, String> {
    let mut data = Vec::with_capacity(agent.params.len());
    for (name, value) in &agent.params {
        let mut text = values.value(value)?;
        if let PipelineValue::Reference(ValueReference::StepOutput(_)) = value {
            text = truncated_result(&text, bounds.truncate_head, bounds.truncate_tail).into_owned();
        }
        data.push((name.clone(), text));
    }
    Ok(ResolvedWork::Agent {
        words: agent.request.clone(),
        data,
        bounds,
        results: bounded_results(values.outputs()),
    })
}

/// Shortens long outputs if they are too many bytes together.
fn bounded_results(mut results: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let bytes: usize = results.values().map(String::len).sum();
    if bytes > RESULTS_BYTES_MAX {
        let each = (RESULTS_BYTES_MAX / results.len().max(1)).saturating_sub(MISSING_LINE_BYTES);
        let each = u32::try_from(each).unwrap_or(u32::MAX);
        let head = each / 16;
        for text in results.values_mut() {
            *text = truncated_result(text, head, each - head).into_owned();
        }
    }
    results
}

fn task_work(
    values: &VisibleValues<'_>,
    task: &TaskStep,
    (run_inputs, run_time): (&RunInputs, Duration),
) -> Result<ResolvedWork, String> {
    let command = task.command.iter().map(|argument| values.value(argument));
    let inputs: BTreeMap<String, String> = named(values, &task.inputs)?;
    let input =
        json!({ "params": run_inputs.params, "trigger": run_inputs.trigger, "inputs": inputs }).to_string();
    if input.len() > TASK_INPUT_BYTES_MAX {
        return Err(format!(
            "its values in $DRYDOCK_IN have more than {} MiB; give fewer `inputs`",
            TASK_INPUT_BYTES_MAX >> 20
        ));
    }
    Ok(ResolvedWork::Task(TaskWork {
        command: command.collect::<Result<_, _>>()?,
        input,
        env: named(values, &task.env)?,
        timeout: task.timeout.unwrap_or(STEP_TIME_MAX).duration().min(run_time),
    }))
}

fn ask_work(values: &VisibleValues<'_>, ask: &AskStep) -> Result<ResolvedWork, String> {
    Ok(ResolvedWork::Ask {
        to: ask.to.clone(),
        question: ask.question.to_string(),
        values: named(values, &ask.values)?,
        choices: ask.choices.clone(),
        deadline: ask.deadline.duration(),
        default: ask.default.clone(),
    })
}

fn named<K: Display, C: FromIterator<(String, String)>>(
    values: &VisibleValues<'_>,
    named: &BTreeMap<K, PipelineValue>,
) -> Result<C, String> {
    let resolved = named
        .iter()
        .map(|(name, value)| Ok((name.to_string(), values.value(value)?)));
    resolved.collect()
}
