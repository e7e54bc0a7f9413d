//! The next moves of one run, up to where it waits for a turn. Everything of them is stored at once, and an edit of the run's
//! message with it, so a move that a crash cuts short is made again and shows once.

use super::ask::PlannedQuestion;
use super::slash::is_of_command;
use super::task::BegunTask;
use super::{RunReport, Runs};
use crate::base::model::{Action, Op, PipelineWork, Reply, ResponseUrl, RunStatus, StepEnd, StepStatus};
use crate::engine::gateway::agent_step;
use crate::engine::pipeline::run::{
    ResolvedWork, RunInputs, RunPlan, RunState, StepState, next_moves, resolved_work,
};
use crate::state::access::Identity;
use crate::state::store::{RunAdvance, RunRow, StepBegin, StoreError};
use jiff::Timestamp;
use std::time::Duration;

/// The name of the operation that posts the message of a run.
pub(in crate::engine::gateway) const MESSAGE: &str = "message";

/// The moves of a run, with its state after them.
pub(super) struct RunMove<'a> {
    pub(super) row: &'a RunRow,
    pub(super) at: Timestamp,
    pub(super) state: RunState,
    pub(super) report: RunReport,
    pub(super) advance: RunAdvance,
    /// The tasks whose programs start when the moves are stored.
    pub(super) tasks: Vec<BegunTask>,
    /// The address for answers to the command that started the run, while it is accepted.
    pub(super) response_url: Option<ResponseUrl>,
}

impl<'a> RunMove<'a> {
    fn of(row: &'a RunRow, at: Timestamp) -> Self {
        let states = row.steps.iter();
        Self {
            row,
            at,
            state: RunState {
                steps: states
                    .map(|step| StepState::of(step.status, step.end.clone()))
                    .collect(),
            },
            report: RunReport::of(row),
            advance: RunAdvance::default(),
            tasks: Vec::new(),
            response_url: None,
        }
    }

    pub(super) fn begin(&mut self, step: usize, work: StepBegin) {
        if let Some(state) = self.state.steps.get_mut(step) {
            *state = StepState::Running;
        }
        self.report.set(step, StepStatus::Running, None);
        self.advance.begin.push((step, work));
    }

    pub(super) fn end(&mut self, step: usize, end: StepEnd) {
        self.report.set(step, end.status, Some(end.clone()));
        self.state.end(step, end.clone());
        self.advance.end.push((step, end));
    }

    fn finish(&mut self, status: RunStatus, why: Option<String>) {
        self.report.finish(status, why.as_deref());
        self.advance.finish = Some((status, why));
    }

    /// Ends the run, because it may not go on. The end of a run cancels its open steps.
    fn fail(&mut self, why: String) {
        for (step, state) in self.state.steps.iter().enumerate() {
            if state.end().is_none() {
                self.report.set(step, StepStatus::Cancelled, None);
            }
        }
        self.state.cancel(&why);
        self.finish(RunStatus::Failed, Some(why));
    }

    pub(super) fn has_moved(&self) -> bool {
        let advance = &self.advance;
        !advance.begin.is_empty() || !advance.end.is_empty() || advance.finish.is_some()
    }
}

impl Runs {
    /// Makes the moves of a run that are possible now. Nothing is done if another has moved it since it was read.
    pub(super) async fn advance(&self, row: &RunRow, at: Timestamp) -> Result<(), StoreError> {
        let owner = self.parts.access.admit(&row.head.owner);
        let mut moves = RunMove::of(row, at);
        moves.response_url = self.response_url(row, at).await?;
        if !row.head.status.is_end() {
            let time_max = self.parts.config.pipelines.run_time_max;
            match obstacle(row, owner.as_ref(), (at, time_max)) {
                Some(why) => moves.fail(why),
                None => self.go_on(&mut moves).await?,
            }
        }
        if self.is_shown(&moves).await? {
            let shown = self.shown(&moves, owner.as_ref());
            moves.advance.ops.extend(shown);
        }
        let advance = std::mem::take(&mut moves.advance);
        let moved = self
            .parts
            .store
            .advance_run(row.head.id, row.version, advance, at);
        if let Some(stopped) = moved.await? {
            self.stop(stopped);
            self.tasks.follow(moves, owner.as_ref());
        }
        Ok(())
    }

    /// Begins and ends steps until the run waits for a turn or is over.
    async fn go_on(&self, moves: &mut RunMove<'_>) -> Result<(), StoreError> {
        let row = moves.row;
        let plan: Option<RunPlan> = serde_json::from_str(&row.plan).ok();
        let inputs: Option<RunInputs> = serde_json::from_str(&row.inputs).ok();
        let (Some(mut plan), Some(inputs)) = (plan, inputs) else {
            moves.fail("this version of Drydock cannot read its plan; start it again".to_owned());
            return Ok(());
        };
        // The operator may have reduced the bounds since the run was planned, which may be that of an earlier attempt.
        plan.budget = plan.budget.within(&self.parts.config.pipelines);
        self.resume_tasks(moves, (&plan, &inputs));
        // Each round begins or ends a step.
        for _ in 0..=2 * plan.steps.len() {
            let next = next_moves(&plan, &inputs, &moves.state);
            let is_waiting = next.begin.is_empty() && next.end.is_empty();
            for (step, end) in next.end {
                moves.end(step, end);
            }
            for step in next.begin {
                self.begin(moves, (&plan, &inputs), step).await?;
            }
            if let Some(status) = next.finish {
                let why = (status == RunStatus::Failed).then(|| failed_step(&plan, &moves.state));
                moves.finish(status, why.flatten());
                return Ok(());
            }
            if is_waiting {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn begin(
        &self,
        moves: &mut RunMove<'_>,
        (plan, inputs): (&RunPlan, &RunInputs),
        step: usize,
    ) -> Result<(), StoreError> {
        let Some(planned) = plan.steps.get(step) else {
            return Ok(());
        };
        let head = &moves.row.head;
        match resolved_work(plan, inputs, &moves.state, step) {
            Ok(ResolvedWork::Agent {
                words,
                data,
                bounds,
                results,
            }) => {
                let work = PipelineWork {
                    run: head.id,
                    step: u32::try_from(step).unwrap_or(u32::MAX),
                    step_name: planned.name.clone(),
                    pipeline: head.pipeline.clone(),
                    repository: head.repository.clone(),
                    commit: Some(moves.row.commit.clone()),
                    words,
                    data,
                    bounds,
                    results,
                };
                let message = agent_step::message(&head.owner, work, &self.parts.redactor);
                moves.begin(step, StepBegin::Message(Box::new(message)));
            }
            Ok(ResolvedWork::Reply { to, text }) => self.begin_reply(moves, inputs, step, (&to, &text)),
            Ok(ResolvedWork::Parallel) => moves.begin(step, StepBegin::Nothing),
            Ok(ResolvedWork::Task(work)) => self.begin_task(moves, step, work),
            Ok(ResolvedWork::Ask {
                to,
                question,
                values,
                choices,
                deadline,
                default,
            }) => {
                let asked = PlannedQuestion {
                    to,
                    text: question,
                    values,
                    choices,
                    deadline,
                    default,
                };
                self.begin_ask(moves, step, asked).await?;
            }
            Err(why) => moves.end(step, StepEnd::failed(why)),
        }
        Ok(())
    }

    /// Returns the post of a run's message, which is ignored if it is there, and its edit. Nothing is said to a person without
    /// access, and no more than the end to one without a grant. The run of a slash command has no message.
    pub(super) fn message(&self, row: &RunRow, report: &RunReport, owner: Option<&Identity>) -> Vec<Op> {
        let config = &self.parts.config;
        let Some((channel, place)) = &row.place else {
            return Vec::new();
        };
        let is_person = row.head.owner.platform.chat().is_some();
        let is_shown = config.channels.contains_key(channel) && !is_of_command(&row.head);
        if !is_shown || is_person && owner.is_none() {
            return Vec::new();
        }
        let address = self.address(row.head.id, (channel, place), None);
        let may_read = owner.is_some_and(|owner| owner.role(&row.head.repository).is_some());
        let reply = match may_read {
            true => report.reply(|reply| address.fits(config, reply, 1)),
            false => Reply::text(report.headline()),
        };
        let fill = Action::Fill {
            post: address.id(MESSAGE),
            reply,
        };
        vec![
            address.placeholder(MESSAGE, Reply::text(report.begun())),
            address.op(&format!("{MESSAGE}/{}", row.version), fill),
        ]
    }
}

/// Returns the reason why a run may not go on.
fn obstacle(row: &RunRow, owner: Option<&Identity>, (at, time_max): (Timestamp, Duration)) -> Option<String> {
    let repository = &row.head.repository;
    match owner.map(|owner| owner.role(repository)) {
        None => return Some("access was revoked".to_owned()),
        Some(None) => return Some(format!("there is no grant for `{repository}` any more")),
        Some(Some(_)) => {}
    }
    let is_late = row.deadline.is_some_and(|deadline| deadline <= at);
    // The operator may have reduced the time since the deadline was stored.
    let passed = row
        .head
        .started_at
        .and_then(|started| Duration::try_from(at.duration_since(started)).ok());
    let is_late = is_late || passed.is_some_and(|passed| passed >= time_max);
    is_late.then(|| "its time is over".to_owned())
}

fn failed_step(plan: &RunPlan, state: &RunState) -> Option<String> {
    let mut steps = plan.steps.iter().zip(&state.steps);
    let failed = steps.find(|(_, state)| state.status() == StepStatus::Failed);
    failed.map(|(step, _)| format!("the step `{}` failed", step.name))
}
