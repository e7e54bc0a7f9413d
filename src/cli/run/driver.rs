//! The driver of a run at a terminal: it begins and ends steps as the core of runs says, one after another.

use super::definition::PreparedRun;
use super::question::{Answering, PipelineQuestion};
use super::report::{DoneStep, step_value, summary};
use super::task::LocalTasks;
use super::trace::RunTraces;
use crate::base::model::{RunStatus, StepEnd, StepStatus, Verdict, one_line};
use crate::cli::CliError;
use crate::cli::output::{Output, OutputStyle};
use crate::cli::terminal::{CommonTerminalOptions, PipelineSession, SessionStep, SessionWork, termination};
use crate::engine::agent::TurnOutcome;
use crate::engine::pipeline::run::{
    PlannedStep, PlannedWork, ResolvedWork, RunState, TaskWork, next_moves, resolved_work,
};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time of a run, and its stop.
pub(super) struct RunTime {
    began: Instant,
    deadline: Instant,
    stopped: CancellationToken,
}

impl RunTime {
    /// Begins the time of a run. From now on Ctrl-C stops it, and so do the signals that end a session.
    pub(super) fn begin(time_max: Duration, output: &Output) -> Result<Self, CliError> {
        let stopped = termination::watch(output)?;
        // The signal handler is installed here, not when the task first runs, so that no Ctrl-C is missed.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        tokio::spawn({
            let stopped = stopped.clone();
            async move {
                if interrupts.recv().await.is_some() {
                    stopped.cancel();
                }
            }
        });
        let began = Instant::now();
        Ok(Self {
            began,
            deadline: began + time_max,
            stopped,
        })
    }

    /// Returns a time, or what is left of the run if that is less.
    fn bounded(&self, time: Duration) -> Duration {
        time.min(self.deadline.saturating_duration_since(Instant::now()))
    }
}

/// A run at a terminal.
pub(super) struct LocalRun<'a> {
    prepared: &'a PreparedRun,
    /// The session of the agent steps, if there are any.
    session: Option<&'a mut PipelineSession>,
    /// The programs of the tasks, if there are any.
    tasks: Option<LocalTasks>,
    traces: RunTraces,
    time: RunTime,
    answering: Answering,
    output: &'a Output,
    state: RunState,
    done: Vec<DoneStep>,
}

/// A run that has ended.
pub(super) struct FinishedRun {
    /// The end.
    pub(super) status: RunStatus,
    /// The ends of its steps.
    pub(super) state: RunState,
    /// The record of each step, in the same order.
    pub(super) done: Vec<DoneStep>,
    /// The time of the run.
    pub(super) took: Duration,
}

impl<'a> LocalRun<'a> {
    pub(super) fn new(
        prepared: &'a PreparedRun,
        (session, tasks): (Option<&'a mut PipelineSession>, Option<LocalTasks>),
        traces: RunTraces,
        time: RunTime,
        options: &CommonTerminalOptions,
        output: &'a Output,
    ) -> Self {
        Self {
            prepared,
            session,
            tasks,
            traces,
            time,
            answering: match (output.is_interactive(), options.yes) {
                (false, _) => Answering::Nobody,
                (true, true) => Answering::Defaults,
                (true, false) => Answering::Person,
            },
            output,
            state: RunState::new(&prepared.plan),
            done: prepared.plan.steps.iter().map(|_| DoneStep::default()).collect(),
        }
    }

    /// Runs all steps.
    pub(super) async fn run(mut self) -> Result<FinishedRun, CliError> {
        let prepared = self.prepared;
        let plan = &prepared.plan;
        // Each round ends a step, or is the last one.
        for _ in 0..=2 * plan.steps.len() {
            if self.time.stopped.is_cancelled() {
                self.state.cancel("the run was cancelled");
            }
            let moves = next_moves(plan, &prepared.inputs, &self.state);
            moves.apply(&mut self.state);
            for (step, end) in &moves.end {
                self.show_end(*step, end);
            }
            if let Some(status) = moves.finish {
                self.write_traces_again();
                return Ok(FinishedRun {
                    status,
                    state: self.state,
                    done: self.done,
                    took: self.time.began.elapsed(),
                });
            }
            for step in moves.begin {
                if self.time.stopped.is_cancelled() {
                    break;
                }
                if let Some(planned) = plan.steps.get(step)
                    && !matches!(planned.work, PlannedWork::Parallel)
                {
                    self.step(step, planned).await;
                }
            }
        }
        Err(CliError::failed(
            "the run stopped, because none of its steps can begin or end; this is an error of Drydock",
        ))
    }

    /// Runs a step to its end.
    async fn step(&mut self, step: usize, planned: &PlannedStep) {
        let prepared = self.prepared;
        let plan = &prepared.plan;
        let number = step + 1;
        let model = match &planned.work {
            PlannedWork::Agent(agent) => format!(", {}", agent.bounds.model),
            _ => String::new(),
        };
        let line = format!(
            "Step {number} of {}: {} ({}{model})",
            plan.steps.len(),
            planned.name,
            planned.work.word()
        );
        self.output.styled_message(OutputStyle::Bold, &line);
        self.trace(self.traces.begin(&planned.name));
        let began = Instant::now();
        let work = resolved_work(plan, &prepared.inputs, &self.state, step);
        let end = match work {
            Err(why) => StepEnd::failed(why),
            Ok(work) => self.work(step, work).await,
        };
        if let Some(done) = self.done.get_mut(step) {
            done.took = began.elapsed();
        }
        if end.status == StepStatus::Cancelled {
            self.time.stopped.cancel();
        }
        self.state.end(step, end.clone());
        self.show_end(step, &end);
    }

    async fn work(&mut self, step: usize, work: ResolvedWork) -> StepEnd {
        let prepared = self.prepared;
        match work {
            ResolvedWork::Agent {
                words,
                data,
                mut bounds,
                results,
            } => {
                bounds.timeout = self.time.bounded(bounds.timeout);
                if bounds.timeout.is_zero() {
                    return StepEnd::failed("the time of the run is over; raise timeout of its budget");
                }
                let work = SessionWork {
                    pipeline: &prepared.plan.pipeline,
                    words: &words,
                    data: &data,
                    bounds: &bounds,
                    results,
                };
                self.agent(step, work).await
            }
            ResolvedWork::Ask {
                to: _,
                question,
                values,
                choices,
                deadline,
                default,
            } => {
                let question = PipelineQuestion {
                    text: question,
                    values,
                    choices,
                    default,
                    time_max: self.time.bounded(deadline),
                };
                question
                    .ask(self.answering, self.output, &self.time.stopped)
                    .await
            }
            ResolvedWork::Task(mut work) => {
                work.timeout = self.time.bounded(work.timeout);
                self.task(work).await
            }
            // The plan of a run at a terminal has none of them.
            ResolvedWork::Reply { .. } | ResolvedWork::Parallel => {
                StepEnd::failed("this work is not available at a terminal")
            }
        }
    }

    /// Runs the program of a task, and prints its output.
    async fn task(&mut self, work: TaskWork) -> StepEnd {
        if work.timeout.is_zero() {
            return StepEnd::failed("the time of the run is over; raise timeout of its budget");
        }
        let Some(tasks) = &self.tasks else {
            return StepEnd::failed("the step has no program; this is an error of Drydock");
        };
        let redactor = self.session.as_deref().map(PipelineSession::redactor);
        let end = tasks.run(work, redactor, &self.time.stopped).await;
        if !self.output.json() && !end.output.is_empty() {
            self.output.line(end.output.trim_end());
        }
        end
    }

    async fn agent(&mut self, step: usize, work: SessionWork<'_>) -> StepEnd {
        let model = work.bounds.model.clone();
        let Some(session) = self.session.as_deref_mut() else {
            return StepEnd::failed("the step has no session; this is an error of Drydock");
        };
        let before = session.used();
        let ended = session.run(work).await;
        if self.traces.are_written()
            && let Some(done) = self.done.get_mut(step)
        {
            let outcome = ended.as_ref().ok().map(|ended| &ended.outcome);
            done.calls = Some(session.calls(outcome));
        }
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                return StepEnd {
                    spent: session.spent_since(before),
                    ..StepEnd::failed(session.redacted(&error.message))
                };
            }
        };
        if !self.output.json()
            && let Err(error) = session.print(&ended).await
        {
            self.output.message(&error.message);
        }
        let end = agent_end(&ended);
        let SessionStep {
            request,
            outcome,
            trace,
            ..
        } = ended;
        if let Some(done) = self.done.get_mut(step) {
            done.model = Some(if outcome.model.is_empty() {
                model
            } else {
                outcome.model
            });
            done.request = Some(request);
            done.trace = trace;
        }
        end
    }

    /// Shows the end of a step, and writes its trace.
    fn show_end(&self, step: usize, end: &StepEnd) {
        let plan = &self.prepared.plan;
        let (Some(planned), Some(done)) = (plan.steps.get(step), self.done.get(step)) else {
            return;
        };
        let mut line = summary(planned, end, done).line();
        // What an agent step or a task answers is shown above.
        if matches!(planned.work, PlannedWork::Ask(_)) && !end.output.is_empty() {
            line.push_str(&format!(", {}", one_line(&end.output)));
        }
        self.output.styled_message(OutputStyle::Dim, &line);
        self.write_trace(planned, end, done);
    }

    /// Writes the traces once more, because a later step can have told which texts are secret.
    fn write_traces_again(&self) {
        let ended = self.prepared.plan.steps.iter().zip(&self.state.steps);
        for ((planned, state), done) in ended.zip(&self.done) {
            if let Some(end) = state.end() {
                self.write_trace(planned, end, done);
            }
        }
    }

    fn write_trace(&self, planned: &PlannedStep, end: &StepEnd, done: &DoneStep) {
        let mut value = step_value(planned, end, done);
        let calls = done.calls.as_ref();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("prompt".to_owned(), done.request.clone().into());
            let without_file = calls.map_or(0, |calls| calls.without_file);
            fields.insert("calls_without_file".to_owned(), without_file.into());
            if let Some(calls) = calls {
                fields.insert("steps".to_owned(), calls.steps.clone().into());
            }
        }
        let redact = self.session.as_deref().map(PipelineSession::redact);
        self.trace(self.traces.end(&planned.name, (end, value), calls, redact));
    }

    /// Says why a trace was not written. The run goes on.
    fn trace(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.output
                .message(&format!("The trace of a step was not written: {error}"));
        }
    }
}

/// Returns the end of an agent step. A step whose model did not conclude with pass has failed.
fn agent_end(ended: &SessionStep) -> StepEnd {
    let TurnOutcome {
        verdict,
        source,
        notice,
        ..
    } = &ended.outcome;
    let status = match verdict {
        Verdict::Pass | Verdict::NoChange => StepStatus::Succeeded,
        Verdict::Cancelled => StepStatus::Cancelled,
        Verdict::Fail | Verdict::Incomplete | Verdict::Limit | Verdict::Error | Verdict::Denied => {
            StepStatus::Failed
        }
    };
    let why = match status {
        StepStatus::Succeeded => None,
        _ => Some(notice.clone().unwrap_or_else(|| "its verdict is fail".to_owned())),
    };
    let end = StepEnd {
        status,
        output: String::new(),
        why,
        verdict: Some(*verdict),
        verdict_source: Some(*source),
        spent: ended.spent,
        reply: None,
    };
    end.with_output(&ended.answer)
}
