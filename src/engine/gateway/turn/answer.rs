//! The end of a turn: the prepared and checked change, and the reply about it. One transaction makes all of it durable.
//! Only then is anything sent.

use super::ending::{ResultDraft, TurnEnding};
use super::journal::{LastStep, TurnJournal};
use super::recording::TurnRecording;
use super::result::{ModelAnswer, WriteState};
use super::result_buttons::ResultButtons;
use super::{ClaimedMessage, OpenedTurn, TurnRunner};
use crate::base::model::{BudgetRefusal, ChatPlace, ConversationId, Op, Stats, TurnId, Verdict};
use crate::crash_point;
use crate::engine::agent::TurnOutcome;
use crate::engine::command::Verb;
use crate::engine::gateway::change_preparation::PreparedChange;
use crate::engine::gateway::compose::{self, Address, COMPOSITIONS_MAX, Facts, outdated_too_often};
use crate::engine::gateway::parts::{Parts, scheduled};
use crate::state::access::Identity;
use crate::state::recording;
use crate::state::store::{
    ActionOwner, ChangeBasis, ComposedWrite, FinishedTurn, NewAction, OtherChange, StoreError,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{Timestamp, ToSpan};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

const BUTTON_DAYS: i32 = 7;

/// A turn after the model's final answer.
pub(super) struct EndedTurn<'a> {
    pub(super) assigned: &'a ClaimedMessage,
    pub(super) turn: TurnId,
    /// The facts that the end is composed from, as of the start of the turn.
    pub(super) basis: ChangeBasis,
    pub(super) opened: &'a OpenedTurn,
    pub(super) address: &'a Address,
    pub(super) outcome: TurnOutcome,
    /// The turn's journal, unless it failed.
    pub(super) journal: Option<TurnJournal>,
    pub(super) elapsed: Duration,
    /// The operation that shows that the work has ended, if it was shown.
    pub(super) work_ended: Option<Op>,
}

impl TurnRunner {
    /// Ends the turn with the prepared change and stores its answer in the outbox.
    pub(super) async fn finish(
        &self,
        ended: EndedTurn<'_>,
        prepared: Option<PreparedChange>,
    ) -> anyhow::Result<()> {
        let EndedTurn {
            assigned,
            turn,
            basis,
            opened,
            address,
            mut outcome,
            mut journal,
            elapsed,
            work_ended,
        } = ended;
        let last = journal.as_mut().and_then(|journal| journal.last.take());
        let refusal = journal.as_ref().and_then(TurnJournal::budget_refusal);
        // The step of a run ends at its budget; its buttons would have no place.
        let asked = refusal.filter(|_| address.is_shown());
        let budget_question =
            asked.and_then(|refusal| self.budget_question(assigned, opened, address, refusal));
        if let (Some(notice), true) = (&mut outcome.notice, budget_question.is_some()) {
            notice.push_str(" I asked the administrators to allow more.");
        }
        // A failed journal does not show what was written.
        let wrote = match outcome.writes.done > 0 || assigned.work.has_edited || journal.is_none() {
            true => WriteState::Possible,
            false => WriteState::Nothing,
        };
        let facts = Facts {
            steps: outcome.steps,
            usage: outcome.usage,
            elapsed,
            model: outcome.fallback.is_some().then(|| outcome.model.clone()),
        };
        let (summary, steps, answered_by) = (facts.line(), facts.steps, outcome.model.clone());
        let change = prepared.map(|prepared| prepared.change);
        let mut remarks = opened.unread_files.clone();
        let work = scheduled(assigned.inbound());
        remarks.extend(work.map(|work| format!("Started by the schedule `{}`.", work.schedule)));
        remarks.extend(opened.only_asks.clone());
        if let Some(change) = &change {
            remarks.extend(self.other_changes(opened, &change.stats).await?);
        }
        let masked = change
            .as_ref()
            .map(|change| compose::masked(&change.patch, &opened.workspace.guard.redactor));
        let based_on = |stale: &String| {
            let base = opened.workspace.base.as_deref().unwrap_or_default();
            format!("{stale}; this is based on commit {}.", compose::short(base))
        };
        let retry = may_retry(&outcome, refusal.map(|(_, refusal)| refusal))
            .then(|| self.button(Verb::Retry.word(), turn.to_string(), opened));
        let said = std::mem::take(&mut outcome.answer);
        let answer = ResultDraft {
            model_answer: ModelAnswer::measure(said, address, &self.parts.config).await,
            address: address.clone(),
            outcome,
            write_state: wrote,
            is_quiet: work.is_none_or(|work| work.quiet),
            stale: opened.stale.as_ref().map(based_on),
            remarks,
            facts,
            config: Arc::clone(&self.parts.config),
            // The request may go to another channel.
            deliver_now: budget_question.is_none() && self.outgoing.can_deliver_now(&address.channel),
            can_find_posts: self.outgoing.can_find(address),
            refusal: self.refusal_form(address),
            work_ended,
            buttons: ResultButtons::new(self, opened),
            retry,
            budget_question,
        };
        let (said, cost) = last.map(|LastStep { step, cost }| (step, cost)).unzip();
        let recorded = said.iter().zip(&cost);
        let recorded: Vec<_> = recorded
            .flat_map(|(step, cost)| recording::RecordedEvent::from_step(step, &cost.model))
            .collect();
        let ending = TurnEnding {
            identity: opened.identity.clone(),
            repository: opened.workspace.repository.name().to_owned(),
            change,
            masked,
            leaves_change: address.mention.is_none() || opened.only_asks.is_some(),
            answer_step: said,
            cost,
            answer,
        };
        crash_point::before("B18");
        let FinishedTurn {
            verdict,
            source,
            is_answered,
            change,
            due,
        } = self.store_end(assigned, turn, basis, ending).await?;
        crash_point::after("B18");
        self.outgoing.dispatch_leased(&address.channel, due).await;
        let owner = &opened.conversation.key.user;
        self.homes.refresh_with_owner(opened.identity.user(), owner);
        // The answer is sent before the rest is recorded.
        tokio::task::yield_now().await;
        let recorded = recorded.into_iter().filter(|_| is_answered);
        let change = change.as_ref().map(recording::RecordedEvent::from_change);
        let end = recording::RecordedEvent::Verdict {
            verdict,
            source,
            summary,
        };
        let events = recorded.chain(change).chain([end]);
        match &mut journal {
            Some(journal) => journal.wait_recorded().await?.recording.append(events).await,
            None => {
                TurnRecording::open(&self.parts, opened, turn, None)
                    .append(events)
                    .await;
            }
        }
        tracing::info!(
            turn.id = %turn, user.id = %opened.identity.user(), steps, model = %answered_by,
            duration_ms = elapsed.as_millis(), ?verdict, "turn {turn} {}",
            if is_answered { "answered" } else { "refused" }
        );
        Ok(())
    }

    /// Returns a line for each of the newest open changes of others that edit the same files.
    async fn other_changes(&self, opened: &OpenedTurn, stats: &[Stats]) -> Result<Vec<String>, StoreError> {
        let paths = stats.iter().map(|stats| stats.path.clone()).collect();
        let repository = opened.workspace.repository.name();
        let store = &self.parts.store;
        let others = store
            .other_changes(opened.conversation.id, repository, paths)
            .await?;
        let own = &opened.conversation.key.place;
        Ok(others.iter().map(|other| other_change_line(other, own)).collect())
    }

    /// Composes the end of a turn and stores it. If the facts that it was composed from differ by then, because a grant
    /// was removed for example, it is composed again.
    async fn store_end(
        &self,
        assigned: &ClaimedMessage,
        turn: TurnId,
        mut basis: ChangeBasis,
        ending: TurnEnding,
    ) -> anyhow::Result<FinishedTurn> {
        let (store, claim) = (&self.parts.store, &assigned.claim);
        for _ in 0..COMPOSITIONS_MAX {
            let prospect = store.prospective_change(basis, ending.change.clone());
            let end = ending.compose(&prospect);
            let now = (self.parts.now)();
            match store.finish_turn(claim, turn, prospect, end, now).await? {
                ComposedWrite::Stored(finished) => return Ok(finished),
                ComposedWrite::Outdated(stored) => basis = stored,
            }
        }
        Err(outdated_too_often().into())
    }

    /// Creates a one-shot token for a button of the person and the action to store for it.
    pub(super) fn button(&self, verb: &str, argument: String, opened: &OpenedTurn) -> (String, NewAction) {
        new_button(
            &self.parts,
            (verb, argument),
            &opened.identity,
            opened.conversation.id,
        )
    }
}

/// Returns the line about an open change of another conversation, with a link to its thread if that is in the same chat.
fn other_change_line(other: &OtherChange, own: &ChatPlace) -> String {
    let OtherChange {
        name, person, path, ..
    } = other;
    let chat = other.place.account.platform.chat();
    let is_same_chat = (&other.place.account, &other.place.chat) == (&own.account, &own.chat);
    let link = chat
        .filter(|_| is_same_chat)
        .and_then(|chat| (chat.thread_link)(&other.place));
    let line = format!("{name} ({person}) edits `{path}` as well");
    match link {
        Some(link) => format!("{line}: {link}"),
        None => format!("{line}."),
    }
}

/// True if a turn has failed in a way that another attempt may not: the provider, a limit, a budget or a stop ended it.
fn may_retry(outcome: &TurnOutcome, refusal: Option<BudgetRefusal>) -> bool {
    let has_begun = outcome.steps > 0 || refusal.is_some();
    outcome.answer.is_empty()
        && match outcome.verdict {
            Verdict::Error => true,
            Verdict::Limit | Verdict::Cancelled => has_begun,
            Verdict::Pass | Verdict::Fail | Verdict::NoChange | Verdict::Incomplete | Verdict::Denied => {
                false
            }
        }
}

/// Creates a one-shot token for a button of a person and the action to store for it.
pub(in crate::engine::gateway) fn new_button(
    parts: &Parts,
    (verb, argument): (&str, String),
    owner: &Identity,
    conversation: ConversationId,
) -> (String, NewAction) {
    let bytes = (parts.random)();
    let token = BASE64_URL_SAFE_NO_PAD.encode(&bytes[..16]);
    let action = NewAction {
        token_hash: Sha256::digest(token.as_bytes()).into(),
        verb: verb.to_owned(),
        argument,
        owner: ActionOwner::Person(owner.sender().clone()),
        conversation,
        expires: expiry((parts.now)()),
    };
    (token, action)
}

fn expiry(at: Timestamp) -> Timestamp {
    at.checked_add((24 * BUTTON_DAYS).hours()).unwrap_or(at)
}
