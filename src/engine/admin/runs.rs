//! The runs of pipelines of all people and services, for operators.

use super::{Admin, AdminError, AdminReply};
use crate::base::model::{RunId, RunStatus, choice_named};
use crate::state::store::{
    AskedRunQuestion, RunAnswerOutcome, RunAnswerRequest, RunChange, RunCreation, RunHead, StoppedWork,
};
use serde::{Deserialize, Serialize};

/// The one who changes a run, for the audit log.
const BY: &str = "the operator";
/// The most runs in one answer.
pub const RUNS_LISTED_MAX: usize = 500;

/// An order about one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrder {
    /// Shows it with its steps.
    Show,
    /// Cancels it, and stops its work.
    Cancel,
    /// Repeats it as a new run, from its first step that did not succeed.
    Retry,
    /// Answers its question in the place of those who are asked.
    Answer {
        /// The step that asks; needed only if several do.
        step: Option<String>,
        /// The choice, by its words or its number.
        choice: String,
    },
}

impl Admin {
    pub(super) async fn runs(
        &self,
        repository: Option<String>,
        status: Option<RunStatus>,
    ) -> Result<AdminReply, AdminError> {
        let is_listed = move |head: &RunHead| {
            let is_of_repository = repository.as_ref().is_none_or(|name| *name == head.repository);
            is_of_repository && status.is_none_or(|status| status == head.status)
        };
        let mut runs = self.store.runs(is_listed, RUNS_LISTED_MAX + 1).await?;
        let has_more = runs.len() > RUNS_LISTED_MAX;
        runs.truncate(RUNS_LISTED_MAX);
        Ok(AdminReply::Runs { runs, has_more })
    }

    pub(super) async fn run(&self, id: RunId, order: RunOrder) -> Result<AdminReply, AdminError> {
        let (run, done) = match order {
            RunOrder::Show => return self.show_run(id).await,
            RunOrder::Cancel => (id, self.cancel_run(id).await?),
            RunOrder::Retry => self.retry_run(id).await?,
            RunOrder::Answer { step, choice } => (id, self.answer_run(id, step.as_deref(), &choice).await?),
        };
        Ok(AdminReply::RunChanged { run, done })
    }

    async fn show_run(&self, id: RunId) -> Result<AdminReply, AdminError> {
        let row = self.store.run(id).await?.ok_or_else(|| unknown(id))?;
        Ok(AdminReply::Run {
            run: Box::new(row.head),
            commit: row.commit,
            deadline: row.deadline,
            steps: row.steps,
        })
    }

    async fn cancel_run(&self, id: RunId) -> Result<String, AdminError> {
        let cancelled = self
            .store
            .cancel_run(id, BY.to_owned(), None, (self.now)())
            .await?;
        let work = match cancelled.stopped.len() {
            0 => "",
            _ => ", and its work stops",
        };
        self.tell_driver(cancelled.stopped);
        match cancelled.outcome {
            RunChange::Changed => Ok(format!("cancelled{work}")),
            RunChange::Unchanged => Ok("not changed: it has ended already".to_owned()),
            RunChange::Gone => Err(unknown(id)),
        }
    }

    async fn retry_run(&self, id: RunId) -> Result<(RunId, String), AdminError> {
        let (creation, stopped) = self.store.retry_run(id, None, None, (self.now)()).await?;
        self.tell_driver(stopped);
        let refused = |why: String| Err(AdminError::Other(format!("nothing was started: {why}")));
        match creation {
            RunCreation::Created(new) => {
                let begins = match self.gateway {
                    Some(_) => "",
                    None => "; it begins at the next start of the server",
                };
                Ok((new, format!("started, and repeats run {id}{begins}")))
            }
            RunCreation::Skipped(busy) => refused(format!("run {busy} of its group has not ended")),
            RunCreation::TooMany => refused("too many runs have not ended; wait, or cancel some".to_owned()),
            RunCreation::Unfinished => refused(format!("run {id} has not ended; cancel it first")),
            RunCreation::Succeeded => refused(format!("run {id} has succeeded")),
            RunCreation::NotKept => refused(format!("run {id} was skipped, and its plan is not kept")),
            RunCreation::TooLarge => refused(format!("the plan of run {id} is too large")),
            RunCreation::Known(_) | RunCreation::Gone => Err(unknown(id)),
        }
    }

    async fn answer_run(&self, id: RunId, step: Option<&str>, words: &str) -> Result<String, AdminError> {
        let refused = |why: String| Err(AdminError::Other(format!("nothing was answered: {why}")));
        if self.store.run(id).await?.is_none() {
            return Err(unknown(id));
        }
        let questions = self.store.run_questions(id).await?;
        let asked = match open_question(&questions, step) {
            Ok(asked) => asked,
            Err(why) => return refused(format!("run {id} {why}")),
        };
        let choices = &asked.question.choices;
        let Some(choice) = choice_named(choices, words) else {
            return refused(format!("a choice is {}", choices.join(", ")));
        };
        let request = RunAnswerRequest {
            run: id,
            step: asked.step,
            choice,
            person: None,
            by: BY.to_owned(),
        };
        let answered = self
            .store
            .answer_run_question(request, None, (self.now)())
            .await?;
        self.tell_driver(Vec::new());
        match answered {
            RunAnswerOutcome::Answered { choice } => Ok(format!("answered: {choice}")),
            RunAnswerOutcome::Closed { how } => refused(how),
            RunAnswerOutcome::Gone => refused(format!("run {id} asks nothing any more")),
        }
    }

    fn tell_driver(&self, stopped: Vec<StoppedWork>) {
        if let Some(gateway) = &self.gateway {
            gateway.runs.stop(stopped);
            gateway.runs.wake();
        }
    }
}

/// Returns the open question, or that of the named step. The error completes a sentence about the run.
fn open_question<'q>(
    questions: &'q [AskedRunQuestion],
    step: Option<&str>,
) -> Result<&'q AskedRunQuestion, String> {
    let is_meant = |question: &&AskedRunQuestion| {
        question.answer.is_none() && step.is_none_or(|step| question.step_name == step)
    };
    let open: Vec<&AskedRunQuestion> = questions.iter().filter(is_meant).collect();
    match (open.as_slice(), step) {
        ([asked], _) => Ok(*asked),
        ([], None) => Err("waits for no answer".to_owned()),
        ([], Some(step)) => Err(format!("waits for no answer at the step {step}")),
        (several, _) => {
            let names: Vec<&str> = several
                .iter()
                .map(|question| question.step_name.as_str())
                .collect();
            Err(format!(
                "asks in several steps; add --step {}",
                names.join(" or ")
            ))
        }
    }
}

fn unknown(id: RunId) -> AdminError {
    AdminError::Other(format!("no run {id}; `drydock runs list` shows all"))
}
