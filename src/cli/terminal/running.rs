//! The turns of a session: each one runs until there is an answer, or until Ctrl-C stops it.

use super::entered_lines::SteeredJournal;
use super::recording::TerminalJournal;
use super::run_budget::BudgetedJournal;
use super::turn_watch::{CountingJournal, TurnWatch};
use super::{Terminal, attachments};
use crate::base::model::{Assistant, Attendance, Step};
use crate::cli::CliError;
use crate::engine::agent::{self, Questions, Recipients, TurnContext, TurnOutcome};
use crate::interfaces::tool::Outputs;
use crate::state::recording::{DueNotes, MeasuredTokens};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// The answer in front of a note for the model in a turn that goes on.
const INTERRUPTED: &str = "(interrupted)";

impl Terminal {
    /// Runs one turn, which may ask questions; Ctrl-C stops it and keeps its edits. On a terminal, the answer is printed as it arrives.
    pub(in crate::cli) async fn turn(
        &mut self,
        request: &str,
        questions: Questions<'_>,
    ) -> Result<TurnOutcome, CliError> {
        let request = self.redactor.redact(request);
        let request = format!("{}{request}", self.notes());
        let (request, attachments) = std::mem::take(&mut self.pending).into_request(&request);
        self.recording
            .record_request(&request, &attachments)
            .map_err(CliError::failed)?;
        self.due = DueNotes::default();
        if self.output.prints_events() {
            let mut event = serde_json::json!({ "event": "turn_started", "request": request });
            if !attachments.is_empty() {
                event["attachments"] = serde_json::json!(attachments::described(&attachments));
            }
            self.output.value(&event);
        }
        self.history
            .begin_attached(request, attachments)
            .map_err(CliError::failed)?;
        self.history.name_last_turn(self.recording.turn());
        self.run_turn(questions).await
    }

    /// Returns true if the last turn can be continued.
    pub(in crate::cli) fn may_retry(&self) -> bool {
        self.may_retry
    }

    /// Continues the last turn, if it was stopped or failed. Its finished steps are part of the conversation and are
    /// not paid again. `None` if there is no such turn.
    pub(in crate::cli) async fn retry(
        &mut self,
        questions: Questions<'_>,
    ) -> Result<Option<TurnOutcome>, CliError> {
        if !self.may_retry || !self.history.reopen() {
            return Ok(None);
        }
        let note = self.notes();
        if !note.is_empty() {
            let interrupted = Step::new(Assistant::synthetic(INTERRUPTED), Vec::new());
            let step = interrupted.and_then(|step| step.with_remark(note.trim_end()));
            let noted = step.and_then(|step| self.history.push(step));
            noted.map_err(CliError::failed)?;
            self.due = DueNotes::default();
        }
        if self.output.prints_events() {
            let request = self.history.turns().last().map(|turn| turn.user());
            self.output
                .value(&serde_json::json!({ "event": "turn_started", "request": request }));
        }
        self.run_turn(questions).await.map(Some)
    }

    /// Runs the open turn.
    async fn run_turn(&mut self, questions: Questions<'_>) -> Result<TurnOutcome, CliError> {
        let cancel = self.ended.child_token();
        // The signal handler is installed here, not when the task first runs, so that no Ctrl-C is missed.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(CliError::failed)?;
        let stopper = tokio::spawn({
            let cancel = cancel.clone();
            async move {
                if interrupts.recv().await.is_some() {
                    cancel.cancel();
                }
            }
        });
        let before = self.changes()?;
        self.checking.forget();
        let began = Instant::now();
        let models = self.models.models();
        let attendance = match questions {
            Questions::Nobody => Attendance::Unattended,
            Questions::Inline(_) | Questions::Stored => Attendance::Attended,
        };
        let cx = TurnContext {
            identity: &self.identity,
            models: &models,
            system: &self.system,
            toolbox: &self.toolbox,
            workspace: &self.workspace,
            postconditions: &self.checking,
            verdict: self.verdict,
            questions,
            recipients: Recipients::Nobody,
            resumed_steps: 0,
            limits: &self.config.limits.turn,
            strategy: agent::context::strategy(self.config.limits.turn.context_strategy),
            redactor: &self.redactor,
            outputs: &(Arc::clone(&self.outputs) as Arc<dyn Outputs>),
            last_output: self.last_output,
            bytes_per_1000_tokens: self.bytes_per_1000_tokens(),
            earlier_attempts: agent::EarlierAttempts::default(),
            began,
            cancel: &cancel,
        };
        let mut watch = TurnWatch::start(self.output, self.calls, &self.redactor, self.entered.as_ref());
        let used = Mutex::new(self.used);
        let journal = TerminalJournal {
            recording: &self.recording,
            outputs: &self.outputs,
            last_output: self.last_output,
            model: &self.config.model.default,
            used: &used,
        };
        let journal = CountingJournal {
            journal: BudgetedJournal::new(journal, &self.config, &models, attendance),
            counter: watch.counter(),
            config: &self.config,
            used: &used,
        };
        let mut journal = SteeredJournal {
            journal,
            entered: self.entered.as_deref(),
            redactor: &self.redactor,
        };
        let mut events = |event| watch.show(&event);
        let outcome = agent::run_turn(cx, &mut self.history, &mut journal, &mut events).await;
        stopper.abort();
        if cancel.is_cancelled() || began.elapsed() >= self.config.limits.turn.turn_time_max {
            self.checking.stop_review();
        }
        self.is_printed = watch.finish(outcome.as_ref().ok());
        self.used = used.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.undo.record_turn(&before, &self.changes()?);
        let outcome = outcome.map_err(|error| CliError::failed(format!("{error:#}")))?;
        self.answered_by = Some(outcome.model.clone());
        self.last_output = outcome.last_output;
        let bytes_counted = outcome.context.bytes_per_1000_tokens;
        self.measured = bytes_counted.map(|bytes| MeasuredTokens {
            model: self.config.model.default.clone(),
            bytes_per_1000_tokens: bytes,
        });
        self.may_retry = outcome.answer.is_empty();
        Ok(outcome)
    }
}
