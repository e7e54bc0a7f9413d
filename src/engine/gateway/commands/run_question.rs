//! Answers to the questions of runs, by a press or by `runs answer`. Each is authorised anew: the one who answers has to be asked,
//! and needs a grant for the repository. For all others without a grant, a question is one that does not exist.

use super::press::receipt;
use super::run::unknown_run;
use super::{AcceptedCommand, CommandAnswer, CommandRunner};
use crate::base::model::{RunId, choice_named, cut_to, quoted};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::intake::hash_of_click;
use crate::engine::gateway::runs::may_see;
use crate::state::access::Identity;
use crate::state::store::{AskedRunQuestion, RunAnswerOutcome, RunAnswerRequest};

/// The answer to a press of a button that is not known, or not to this person.
pub(super) const OLD_BUTTON: &str = "That button is too old; type the command instead.";
/// The most characters of the answer to a press.
const PRESS_ANSWER_CHARS_MAX: usize = 200;

impl CommandRunner {
    /// Answers a question of a run with the choice of a button; `None` for a button of something else.
    pub(super) async fn press_run_question(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        token: &str,
    ) -> anyhow::Result<Option<CommandAnswer>> {
        let hash = hash_of_click(token);
        let Some((question, choice)) = self.parts.store.run_question_of_button(hash).await? else {
            return Ok(None);
        };
        let text = match self.parts.identity(&asked.inbound) {
            Some(identity) if identity.role(&question.question.repository).is_some() => {
                self.answer_as(asked, &identity, (&question, choice)).await?
            }
            _ => OLD_BUTTON.to_owned(),
        };
        // A press is answered without markup.
        let text = cut_to(&text, PRESS_ANSWER_CHARS_MAX).replace('`', "");
        Ok(Some(CommandAnswer::ops(vec![receipt(asked, address, text)])))
    }

    /// Answers the question of a run that a person names, and returns the text for them.
    pub(super) async fn answer_run(
        &self,
        run: RunId,
        words: &str,
        (asked, identity): (&AcceptedCommand, &Identity),
    ) -> anyhow::Result<String> {
        let store = &self.parts.store;
        // It may have been answered before a restart.
        if let Some(outcome) = store.run_answer_of_command(asked.inbox).await? {
            return Ok(outcome_text(outcome));
        }
        let row = store.run(run).await?;
        let questions = store.run_questions(run).await?;
        let is_known = row.is_some_and(|row| may_see(&self.parts.access, identity, &row.head))
            || questions.iter().any(|question| is_asked(question, identity));
        if !is_known {
            return Ok(unknown_run(run));
        }
        let (question, words) = match named_question(run, &questions, identity, words) {
            Ok(found) => found,
            Err(why) => return Ok(why),
        };
        let choices = &question.question.choices;
        match choice_named(choices, words) {
            Some(choice) => self.answer_as(asked, identity, (question, choice)).await,
            None => Ok(format!(
                "Nothing was answered: write one of {}, or its number.",
                quoted_list(choices.iter().map(String::as_str))
            )),
        }
    }

    /// Answers a question of a run for a person with a grant for its repository.
    async fn answer_as(
        &self,
        asked: &AcceptedCommand,
        identity: &Identity,
        (question, choice): (&AskedRunQuestion, usize),
    ) -> anyhow::Result<String> {
        if !is_asked(question, identity) {
            return Ok(not_asked(question));
        }
        let request = RunAnswerRequest {
            run: question.question.run,
            step: question.step,
            choice,
            person: Some((identity.user(), identity.sender().clone())),
            by: identity.name().to_owned(),
        };
        let (store, at) = (&self.parts.store, (self.parts.now)());
        let outcome = store.answer_run_question(request, Some(asked.inbox), at).await?;
        self.runs.wake();
        Ok(outcome_text(outcome))
    }
}

/// True if a person may answer a question now.
fn is_asked(question: &AskedRunQuestion, identity: &Identity) -> bool {
    let question = &question.question;
    let role = identity.role(&question.repository);
    question.asked.include(identity.user(), role)
}

fn not_asked(question: &AskedRunQuestion) -> String {
    let question = &question.question;
    let who = question.asked.words(&question.repository);
    format!("Nothing was answered: this question is for {who}.")
}

/// Returns the open question that a person means, and their choice. The error is a text for them.
fn named_question<'q, 'w>(
    run: RunId,
    questions: &'q [AskedRunQuestion],
    identity: &Identity,
    words: &'w str,
) -> Result<(&'q AskedRunQuestion, &'w str), String> {
    let open: Vec<&AskedRunQuestion> = questions
        .iter()
        .filter(|question| question.answer.is_none())
        .collect();
    let Some(first) = open.first() else {
        let last = questions
            .iter()
            .rev()
            .find_map(|question| question.answer.as_ref());
        let how = last.map(|answer| format!(" {}.", answer.line()));
        return Err(format!(
            "Run {run} waits for no answer.{}",
            how.unwrap_or_default()
        ));
    };
    let own = open
        .iter()
        .copied()
        .filter(|question| is_asked(question, identity));
    let own: Vec<&AskedRunQuestion> = own.collect();
    if let Some((step, choice)) = words.split_once(':')
        && let Some(question) = own
            .iter()
            .copied()
            .find(|question| question.step_name == step.trim())
    {
        return Ok((question, choice));
    }
    match own.as_slice() {
        [] => Err(not_asked(first)),
        [question] => Ok((*question, words)),
        several => Err(format!(
            "Run {run} asks in {}. Write the name of the step and a colon before the choice, as in `!runs answer {run} STEP: CHOICE`.",
            quoted_list(several.iter().map(|question| question.step_name.as_str()))
        )),
    }
}

fn outcome_text(outcome: RunAnswerOutcome) -> String {
    match outcome {
        RunAnswerOutcome::Answered { choice } => format!("Your answer: {}", choice.replace('`', "'")),
        RunAnswerOutcome::Closed { how } => format!("That question is closed already. {how}."),
        RunAnswerOutcome::Gone => "That question does not exist any more.".to_owned(),
    }
}

fn quoted_list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(quoted).collect::<Vec<_>>().join(", ")
}
