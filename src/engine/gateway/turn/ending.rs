//! The end of a turn, composed for the grants of its person. The transaction that stores it reads them again.

use super::REVOKED;
use super::budget_request::BudgetQuestion;
use super::opening::locked_out_text;
use super::refusal::RefusalForm;
use super::result::{ModelAnswer, RemainingChange, ResultMessages, TurnResult, WriteState};
use super::result_buttons::ResultButtons;
use crate::base::config::Config;
use crate::base::model::{
    Action, Assistant, Button, ButtonStyle, Change, Op, Reply, Step, Verdict, VerdictSource,
};
use crate::engine::agent::TurnOutcome;
use crate::engine::gateway::change_view;
use crate::engine::gateway::compose::{self, Address, Facts};
use crate::state::access::Identity;
use crate::state::store::{
    Announcement, CARD_END, Cost, NewAction, NewChange, NumberedChange, ProspectiveChange, StoredChange,
    TurnAnswer, TurnEnd,
};
use bytes::Bytes;
use std::sync::Arc;

/// The end of a turn, before the person's current grants are known.
pub(super) struct TurnEnding {
    pub(super) identity: Identity,
    pub(super) repository: String,
    pub(super) change: Option<NewChange>,
    /// The patch with masked secrets.
    pub(super) masked: Option<Bytes>,
    /// See [`TurnAnswer::leaves_change`].
    pub(super) leaves_change: bool,
    pub(super) answer_step: Option<Step>,
    pub(super) cost: Option<Cost>,
    pub(super) answer: ResultDraft,
}

impl TurnEnding {
    /// Composes the end for the grants of `prospect`, which the transaction that stores it reads again. A person without
    /// access gets one line. A change that the grants do not cover is withheld, even if an earlier turn edited it: it
    /// stays in the workspace and is not prepared.
    pub(super) fn compose(&self, prospect: &ProspectiveChange) -> TurnEnd {
        let (draft, repository) = (&self.answer, &self.repository);
        let refused = |why: &str| {
            if !draft.address.is_shown() {
                return TurnEnd::StepRefused(why.to_owned(), self.cost.clone());
            }
            let mut ops = (draft.refusal)(&draft.address, &Reply::text(why));
            ops.extend(draft.work_ended.clone());
            TurnEnd::Refused(ops, self.cost.clone())
        };
        let Some(grants) = prospect.grants() else {
            return refused(REVOKED);
        };
        let identity = self.identity.with_stored(grants);
        if identity.role(repository).is_none() {
            return refused(&locked_out_text(&identity, repository));
        }
        let covered = match &self.change {
            Some(change) => identity.may_prepare(repository, &change.needs),
            None => Ok(()),
        };
        let withheld = covered.err();
        let mut outcome = draft.outcome.clone();
        if let Some(why) = &withheld {
            outcome.withhold(why);
        }
        let closing = || outcome.notice.clone().and_then(closing);
        let answer = TurnAnswer {
            verdict: outcome.verdict,
            source: outcome.source,
            summary: serde_json::json!({
                "steps": outcome.steps, "tool_calls": outcome.tool_calls, "notice": outcome.notice,
                "tokens": outcome.usage.total(), "model": outcome.model, "fallback": outcome.fallback,
                "answered": !draft.model_answer.is_empty(),
                "elapsed_ms": u64::try_from(draft.facts.elapsed.as_millis()).unwrap_or(u64::MAX),
            }),
            withheld,
            leaves_change: self.leaves_change,
            answer: self.answer_step.clone().or_else(closing),
            cost: self.cost.clone(),
            context: outcome.context.clone(),
        };
        let announcement = match (answer.stored(prospect), &self.masked) {
            (StoredChange::Change(numbered), Some(patch)) => {
                let change = Change {
                    patch: patch.clone(),
                    ..numbered.change.clone()
                };
                let shown = NumberedChange { change, ..*numbered };
                draft.announce(&outcome, StoredChange::Change(&shown))
            }
            (stored, _) => draft.announce(&outcome, stored),
        };
        TurnEnd::Answered(Box::new(answer), announcement)
    }
}

impl TurnOutcome {
    /// Withholds the change and explains why. The reply still says what cut the turn short. It leaves out check
    /// results, because nothing of the change is shown.
    fn withhold(&mut self, why: &str) {
        let withheld = compose::withheld(why);
        match (self.verdict, self.notice.take()) {
            (Verdict::Limit | Verdict::Cancelled | Verdict::Error, Some(notice)) => {
                self.notice = Some(format!("{notice}\n{withheld}"));
            }
            _ => {
                self.verdict = Verdict::Fail;
                self.source = VerdictSource::Verified;
                self.notice = Some(withheld);
            }
        }
    }
}

/// The parts of a result, except the number of its change.
pub(super) struct ResultDraft {
    pub(super) address: Address,
    pub(super) outcome: TurnOutcome,
    pub(super) write_state: WriteState,
    /// True if nothing is posted about an event that changed nothing and did not fail.
    pub(super) is_quiet: bool,
    pub(super) model_answer: ModelAnswer,
    /// A line that the files are not current, if so.
    pub(super) stale: Option<String>,
    /// Lines about files that were not read, and about open changes of others in the same files.
    pub(super) remarks: Vec<String>,
    pub(super) facts: Facts,
    pub(super) config: Arc<Config>,
    /// True if the channel is connected and accepts operations as soon as they are durable.
    pub(super) deliver_now: bool,
    /// True if the channel can look up sent posts.
    pub(super) can_find_posts: bool,
    pub(super) refusal: RefusalForm,
    pub(super) work_ended: Option<Op>,
    pub(super) buttons: ResultButtons,
    /// The button that runs the message again, if the turn has failed.
    pub(super) retry: Option<(String, NewAction)>,
    /// The request to administrators, if a budget ended the turn.
    pub(super) budget_question: Option<BudgetQuestion>,
}

impl ResultDraft {
    fn announce(&self, outcome: &TurnOutcome, leaves: StoredChange<'_>) -> Announcement {
        if !self.address.is_shown() {
            return Announcement::default();
        }
        // Or the work of a schedule.
        let is_hook = self.address.mention.is_none();
        // An event that changed nothing sends no message, unless its schedule asks for one.
        if is_hook && self.is_quiet && leaves == StoredChange::Nothing && outcome.notice.is_none() {
            return Announcement::default();
        }
        let left = match leaves {
            // Events of a hook are independent: each edits everything anew.
            StoredChange::Change(numbered) if is_hook => RemainingChange::New(&numbered.change),
            leaves => RemainingChange::from_stored(leaves),
        };
        let change = left.shown();
        let last_card = (!is_hook).then(|| self.last_card(outcome));
        let (buttons, mut actions) = match (is_hook, left) {
            (true, RemainingChange::New(change)) => self.buttons.of_hook(change),
            (true, _) => (Vec::new(), Vec::new()),
            (false, left) => self.shown_buttons(left),
        };
        let result = TurnResult {
            address: &self.address,
            config: &self.config,
            remaining_change: left,
            outcome,
            write_state: self.write_state,
            model_answer: &self.model_answer,
            stale: self.stale.clone(),
            remarks: self.remarks.clone(),
            facts: self.facts.clone(),
            buttons,
        };
        let ResultMessages {
            messages,
            file,
            inline_diff_bytes_max,
        } = result.messages();
        let replaced = self
            .address
            .replaced_result(&self.config, &messages)
            .filter(|_| change.is_some())
            .map(Box::new);
        // The result goes first, because people wait for it.
        let mut ops = match self.can_find_posts {
            true => self.address.whole_result(messages),
            false => self.address.filled_result(&result.headline(), messages),
        };
        ops.extend(last_card);
        ops.extend(file);
        if let Some(change) = change.filter(|change| !change_view::fits_inline(change, inline_diff_bytes_max))
        {
            ops.push(self.address.upload(change, "diff"));
        }
        if let Some(change) = change.filter(|_| is_hook) {
            ops.push(self.address.upload(change, "patch"));
        }
        ops.extend(self.work_ended.clone());
        let question = self.budget_question.clone();
        if let Some(BudgetQuestion { action, op, .. }) = &question {
            actions.push(action.clone());
            ops.push(op.clone());
        }
        Announcement {
            ops,
            actions,
            budget_request: question.map(|question| Box::new(question.request)),
            result: replaced,
            deliver_now: self.deliver_now,
        }
    }

    /// Returns the buttons below the result, with their actions.
    fn shown_buttons(&self, left: RemainingChange<'_>) -> (Vec<Button>, Vec<NewAction>) {
        let retry = self.retry.iter();
        let retry =
            retry.map(|(token, action)| (Button::new("Retry", token, ButtonStyle::Primary), action.clone()));
        let (mut buttons, mut actions): (Vec<_>, Vec<_>) = retry.unzip();
        match left {
            RemainingChange::New(change) => {
                let (more, their) = self.buttons.of_change(change);
                buttons.extend(more);
                actions.extend(their);
            }
            RemainingChange::Unchanged(change) => {
                let (show, action) = self.buttons.of_unchanged(change);
                buttons.push(show);
                actions.push(action);
            }
            RemainingChange::Nothing | RemainingChange::Closed(_) => {}
        }
        (buttons, actions)
    }

    fn last_card(&self, outcome: &TurnOutcome) -> Op {
        let done = format!(
            "Done in {}; the result is below.",
            compose::seconds(self.facts.elapsed)
        );
        let line = outcome.notice.clone().unwrap_or(done);
        let fill = Action::Fill {
            post: self.address.id("card"),
            reply: Reply::text(line),
        };
        self.address.op(CARD_END, fill)
    }
}

/// Returns the step that stands for the answer of a turn without one in the model's history.
fn closing(notice: String) -> Option<Step> {
    Step::new(Assistant::synthetic(notice), Vec::new()).ok()
}
