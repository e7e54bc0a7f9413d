//! The end of a turn: its answer, its change, and what is announced, in one transaction.

use super::{check_open, dismiss, insert_step, is_answered};
use crate::base::model::{Change, ContextState, InboxId, Op, Step, TurnId, Verdict, VerdictSource};
use crate::state::store::audit::audit_in;
use crate::state::store::claim::Claim;
use crate::state::store::column::{json, millis, word};
use crate::state::store::outbox::{DueOperation, InFlightLock};
use crate::state::store::usage::Cost;
use crate::state::store::{
    BudgetRequest, ComposedWrite, NewAction, NumberedChange, ProspectiveChange, Store, StoreError, action,
    budget, change, conversation, inbox, outbox, run, shown_result, steering, usage,
};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde_json::Value;

/// The end of a turn, composed for a [`ProspectiveChange`]. It is data only: nothing is computed in the transaction that
/// stores it.
#[derive(Clone, Debug)]
pub enum TurnEnd {
    /// The turn is answered, and this is announced.
    Answered(Box<TurnAnswer>, Announcement),
    /// The person has no access. Only the cost is kept, and only these operations are sent.
    Refused(Vec<Op>, Option<Cost>),
    /// The same for an agent step of a run, which ends with this reason. Nothing is sent.
    StepRefused(String, Option<Cost>),
}

/// The stored end of a turn.
#[derive(Debug, PartialEq)]
pub struct FinishedTurn {
    /// The verdict on the turn.
    pub verdict: Verdict,
    /// The source of the verdict.
    pub source: VerdictSource,
    /// True if the answer was kept, because the person had access.
    pub is_answered: bool,
    /// The prepared change.
    pub change: Option<Change>,
    /// Operations that are due at once, if the caller delivers them.
    pub due: Option<Vec<DueOperation>>,
}

/// An answer, with what becomes durable with it.
#[derive(Clone, Debug)]
pub struct TurnAnswer {
    /// The verdict on the turn.
    pub verdict: Verdict,
    /// The source of the verdict.
    pub source: VerdictSource,
    /// The final answer: the model's, or the program's after a stop, a limit or an error. Ignored if the last recorded
    /// step is a final answer.
    pub answer: Option<Step>,
    /// The cost of the model call for that answer.
    pub cost: Option<Cost>,
    /// The state of the context that the model was called with.
    pub context: ContextState,
    /// The reason the edits are withheld, if the person may not have them. Then the prospective change is not stored.
    pub withheld: Option<String>,
    /// True if a turn that ends without a change has edited nothing, and leaves the open change as it is: the event of a
    /// hook, whose edits begin at the base, and a person who may only ask.
    pub leaves_change: bool,
    /// The facts about the turn, for `/status` and the recording.
    pub summary: Value,
}

/// The stored change at the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredChange<'a> {
    /// There is no change, or it is withheld.
    Nothing,
    /// The workspace equals its base again. The change with this name, such as `CHG-42 rev 2`, was open and is closed.
    Closed(&'a str),
    /// There is a change.
    Change(&'a NumberedChange),
}

impl TurnAnswer {
    /// Returns what is stored of a prospective change if the turn ends with this answer.
    pub fn stored<'a>(&self, prospect: &'a ProspectiveChange) -> StoredChange<'a> {
        match (&self.withheld, prospect.change(), prospect.closes()) {
            (None, Some(numbered), _) => StoredChange::Change(numbered),
            (None, None, Some(name)) if !self.leaves_change => StoredChange::Closed(name),
            (None, None, _) | (Some(_), _, _) => StoredChange::Nothing,
        }
    }
}

/// The operations and buttons that are stored together, at the end of a turn or during it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Operations for the outbox, in order.
    pub ops: Vec<Op>,
    /// The buttons in the operations.
    pub actions: Vec<NewAction>,
    /// The request to administrators to allow more, if a budget ended the turn.
    pub budget_request: Option<Box<BudgetRequest>>,
    /// The operation that takes the buttons off the result, for the time when another revision replaces it.
    pub result: Option<Box<Op>>,
    /// True if the caller delivers the returned operations at once; see [`Store::lease_due`].
    pub deliver_now: bool,
}

impl Store {
    /// Ends a turn. One transaction stores the verdict, the final answer, the change, replies, buttons, an audit line
    /// and that the message is done. It also reads again what `prospect` says. If anything differs by now, it stores
    /// nothing and returns the new facts, from which the caller composes the end again.
    pub async fn finish_turn(
        &self,
        claim: &Claim,
        turn: TurnId,
        mut prospect: ProspectiveChange,
        end: TurnEnd,
        at: Timestamp,
    ) -> Result<ComposedWrite<FinishedTurn>, StoreError> {
        let claim = *claim;
        let (written, prospect) = self
            .write_leasing(move |tx, busy| {
                let inbox = check_open(tx, claim, turn)?;
                if let Some(basis) = prospect.outdated_by(tx, claim.conversation)? {
                    return Ok((ComposedWrite::Outdated(basis), prospect));
                }
                let finished = match end {
                    TurnEnd::Answered(answer, announcement) => {
                        let ended = (turn, inbox);
                        finish_turn(
                            tx,
                            claim,
                            ended,
                            (*answer, &announcement),
                            &mut prospect,
                            at,
                            busy,
                        )?
                    }
                    TurnEnd::Refused(ops, cost) => {
                        record_refused(tx, claim, turn, cost.as_ref(), at)?;
                        dismiss(tx, claim, inbox, &ops, at)?;
                        FinishedTurn::refused()
                    }
                    TurnEnd::StepRefused(why, cost) => {
                        record_refused(tx, claim, turn, cost.as_ref(), at)?;
                        run::refuse(tx, claim, inbox, why, at)?;
                        FinishedTurn::refused()
                    }
                };
                Ok((ComposedWrite::Stored(finished), prospect))
            })
            .await?;
        prospect.committed();
        Ok(written)
    }
}

impl FinishedTurn {
    /// Returns the end of a turn whose person has no access.
    fn refused() -> Self {
        Self {
            verdict: Verdict::Error,
            source: VerdictSource::Harness,
            is_answered: false,
            change: None,
            due: None,
        }
    }
}

/// Records the cost of a turn whose person has no access.
fn record_refused(
    tx: &Transaction<'_>,
    claim: Claim,
    turn: TurnId,
    cost: Option<&Cost>,
    at: Timestamp,
) -> Result<(), StoreError> {
    match cost {
        Some(cost) => usage::record(tx, claim.conversation, turn, cost, at),
        None => Ok(()),
    }
}

fn finish_turn(
    tx: &Transaction<'_>,
    claim: Claim,
    (turn, inbox): (TurnId, InboxId),
    (finish, announcement): (TurnAnswer, &Announcement),
    prospect: &mut ProspectiveChange,
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<FinishedTurn, StoreError> {
    if let Some(answer) = &finish.answer
        && !is_answered(tx, turn)?
    {
        insert_step(tx, turn, answer, at)?;
        conversation::set_context(tx, claim.conversation, &finish.context)?;
        if let Some(cost) = &finish.cost {
            usage::record(tx, claim.conversation, turn, cost, at)?;
        }
    }
    tx.prepare_cached(
        "UPDATE turn SET finished_at = ?2, verdict = ?3, source = ?4, summary = ?5 WHERE id = ?1",
    )?
    .execute(params![
        turn.0,
        millis(at),
        word(&finish.verdict)?,
        word(&finish.source)?,
        json(&finish.summary)?
    ])?;
    let (change, closed) = match &finish.withheld {
        Some(why) => {
            change::withhold(tx, claim.conversation, Some(why))?;
            (None, None)
        }
        None => match prospect.store(tx, claim.conversation, at)?.cloned() {
            Some(change) => (Some(change), None),
            None if finish.leaves_change => (None, None),
            None => (None, shown_result::close(tx, claim.conversation, at)?),
        },
    };
    inbox::finish(tx, claim.conversation, inbox, at)?;
    steering::finish_taken(tx, claim.conversation, inbox, at)?;
    let due = announce(tx, announcement, at, busy)?;
    if let Some((change, result)) = change.as_ref().zip(announcement.result.as_deref()) {
        shown_result::replace(tx, change, result, at)?;
    }
    let data = serde_json::json!({
        "change": change.as_ref().map(Change::to_string),
        "closed": closed,
        "conversation": claim.conversation,
        "source": finish.source,
        "turn": turn,
        "verdict": finish.verdict,
        "withheld": finish.withheld.is_some(),
    });
    audit_in(tx, "turn.finished", data, at)?;
    Ok(FinishedTurn {
        verdict: finish.verdict,
        source: finish.source,
        is_answered: true,
        change,
        due,
    })
}

/// Enqueues an announcement in a synced write, and returns its due operations if they are leased.
pub(in crate::state::store) fn announce(
    tx: &Transaction<'_>,
    announcement: &Announcement,
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Option<Vec<DueOperation>>, StoreError> {
    action::insert(tx, &announcement.actions)?;
    if let Some(request) = &announcement.budget_request {
        budget::insert_request(tx, request, at)?;
    }
    let ops = &announcement.ops;
    if !announcement.deliver_now {
        outbox::enqueue(tx, ops, at)?;
        return Ok(None);
    }
    outbox::enqueue_ready(tx, ops, at)?;
    outbox::lease_enqueued(tx, ops, at, busy).map(Some)
}
