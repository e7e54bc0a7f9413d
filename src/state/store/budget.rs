//! Budgets. A model call is reserved with the most that it may cost, in the transaction that checks all budgets. The
//! transaction that records its real cost also ends the reservation.
//!
//! The reservation of a call that the process did not survive stays, and so does that of a call whose answer was lost on
//! its way, or that was cancelled after its request was sent. Nobody knows what the call did cost, so it counts in full
//! against the budgets of its time. A call of which several answers were lost counts once: its reservation is the most
//! that one of them costs.
//!
//! The model is told once of each budget, in each of its periods, that it is nearly used. The transaction that records the
//! step with the note also records that. Until then the reservation of the call holds the note, so another turn does not
//! tell it at the same time. What an administrator allows in addition makes another budget.

mod allowance;

pub(super) use allowance::insert_request;
pub use allowance::{AllowOutcome, BudgetRequest};

use super::claim::{Claim, check_fence};
use super::column::{count, count_column, millis};
use super::{Store, StoreError};
use crate::base::model::{
    BudgetBound, BudgetRefusal, BudgetScope, BudgetScopes, BudgetWarning, ConversationId, InboxId, Money,
    Spending, UserId,
};
use crate::crash_point;
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Row, Transaction, params};

/// A reserved model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationId(pub(super) i64);

/// The reservation of a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallReservation {
    /// The reservation.
    pub id: ReservationId,
    /// The budgets that are nearly used, from the narrowest to the widest, and of which the model was not told.
    pub warnings: Vec<BudgetWarning>,
}

/// Whose budgets a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSubject {
    /// The message that is answered.
    pub inbox: InboxId,
    /// The conversation of the message.
    pub conversation: ConversationId,
    /// The person; none for a hook.
    pub user: Option<UserId>,
}

/// A budget with what is used of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetState {
    /// The scope of the budget.
    pub scope: BudgetScope,
    /// The bounds, with what administrators allowed in addition.
    pub bound: BudgetBound,
    /// The amount that is spent, or reserved for calls that run or whose cost is not known.
    pub spent: Spending,
}

impl Store {
    /// Reserves a model call, or returns the first budget that does not cover it. Reservations do not wait for the disk:
    /// if the power fails, the call is lost as well.
    pub async fn reserve_call(
        &self,
        claim: &Claim,
        subject: BudgetSubject,
        bounds: Vec<(BudgetScope, BudgetBound)>,
        call: Spending,
        at: Timestamp,
    ) -> Result<Result<CallReservation, BudgetRefusal>, StoreError> {
        let claim = *claim;
        crash_point::before("reserve");
        let reserved = self
            .write_unsynced(move |tx| {
                check_fence(tx, claim)?;
                let mut warnings = Vec::new();
                for (scope, bound) in bounds {
                    let ScopeUse { state, is_told } = scope_use(tx, subject, (scope, bound), at)?;
                    if let Some(refusal) = BudgetRefusal::check(scope, state.bound, state.spent, call) {
                        return Ok(Err(refusal));
                    }
                    let warning = BudgetWarning::check(scope, state.bound, state.spent, call);
                    warnings.extend(warning.filter(|_| !is_told));
                }
                let told = warnings.iter().map(BudgetWarning::scope).collect();
                let id = reserve(tx, subject, call, told, at)?;
                Ok(Ok(CallReservation { id, warnings }))
            })
            .await;
        crash_point::after("reserve");
        reserved
    }

    /// Ends the reservation of a call that costs nothing: its request was never sent, or the provider refused it before it
    /// worked on it.
    pub async fn release_call(&self, claim: &Claim, reservation: ReservationId) -> Result<(), StoreError> {
        let claim = *claim;
        self.write_unsynced(move |tx| {
            check_fence(tx, claim)?;
            end_reservation(tx, reservation)
        })
        .await
    }

    /// Returns the budgets of a subject, with what is used of them.
    pub async fn budget_states(
        &self,
        subject: BudgetSubject,
        bounds: Vec<(BudgetScope, BudgetBound)>,
        at: Timestamp,
    ) -> Result<Vec<BudgetState>, StoreError> {
        self.read(move |tx| {
            let used = bounds.into_iter().map(|bound| scope_use(tx, subject, bound, at));
            used.map(|used| Ok(used?.state)).collect()
        })
        .await
    }
}

/// Returns the id of the scope's subject, as stored; `None` if the scope does not concern this subject.
fn subject_id(scope: BudgetScope, subject: BudgetSubject) -> Option<i64> {
    match scope {
        BudgetScope::Turn => Some(subject.inbox.0),
        BudgetScope::Conversation => Some(subject.conversation.0),
        BudgetScope::PersonDay => subject.user.map(|user| user.0),
        BudgetScope::Day => Some(0),
    }
}

/// The use of a budget.
struct ScopeUse {
    state: BudgetState,
    /// True if the model was told that the budget is nearly used, or another turn is about to tell it.
    is_told: bool,
}

fn scope_use(
    tx: &Transaction<'_>,
    subject: BudgetSubject,
    (scope, bound): (BudgetScope, BudgetBound),
    at: Timestamp,
) -> Result<ScopeUse, StoreError> {
    let Some(id) = subject_id(scope, subject) else {
        return Ok(ScopeUse {
            state: BudgetState {
                scope,
                bound: BudgetBound::default(),
                spent: Spending::default(),
            },
            is_told: false,
        });
    };
    let (allowed, allowed_at) = allowance::allowed(tx, (scope, id), at)?;
    let period = ScopePeriod {
        scope,
        id,
        midnight: midnight(at),
        allowed_at,
    };
    let (used, was_told) = period.used(tx)?;
    let (reserved, is_being_told) = period.reserved(tx, subject.inbox)?;
    Ok(ScopeUse {
        state: BudgetState {
            scope,
            bound: bound.raised(allowed),
            spent: used + reserved,
        },
        is_told: was_told || is_being_told,
    })
}

/// A period of a budget.
struct ScopePeriod {
    scope: BudgetScope,
    /// The id of the scope's subject, as stored.
    id: i64,
    /// The beginning of the day.
    midnight: i64,
    /// The time of the last decision to allow more.
    allowed_at: i64,
}

impl ScopePeriod {
    /// Returns what recorded calls did cost, and whether one of them told the model that the budget is nearly used.
    fn used(&self, tx: &Transaction<'_>) -> Result<(Spending, bool), StoreError> {
        let calls = match self.scope {
            BudgetScope::Turn => "turn IN (SELECT id FROM turn WHERE inbox = ?1) AND ?2 IS NOT NULL",
            BudgetScope::Conversation => {
                "turn IN (SELECT id FROM turn WHERE conversation = ?1) AND ?2 IS NOT NULL"
            }
            BudgetScope::PersonDay => "user_id = ?1 AND at >= ?2",
            BudgetScope::Day => "?1 IS NOT NULL AND at >= ?2",
        };
        let begins = match self.scope {
            BudgetScope::Turn | BudgetScope::Conversation => "TRUE",
            BudgetScope::PersonDay | BudgetScope::Day => "told_at >= ?2",
        };
        let sql = format!(
            "SELECT COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0),
               COALESCE(MAX(told_at > ?3 AND {begins} AND told & ?4), 0) FROM usage WHERE {calls}"
        );
        let values = params![self.id, self.midnight, self.allowed_at, self.bit()];
        Ok(tx.prepare_cached(&sql)?.query_row(values, told_spending)?)
    }

    /// Returns what is reserved for calls that run, or whose cost is not known, and whether a call of another message is
    /// about to tell the model. A message that is done tells nothing.
    fn reserved(&self, tx: &Transaction<'_>, inbox: InboxId) -> Result<(Spending, bool), StoreError> {
        let calls = match self.scope {
            BudgetScope::Turn => "inbox = ?1 AND ?2 IS NOT NULL",
            BudgetScope::Conversation => "conversation = ?1 AND ?2 IS NOT NULL",
            BudgetScope::PersonDay => "user_id = ?1 AND at >= ?2",
            BudgetScope::Day => "?1 IS NOT NULL AND at >= ?2",
        };
        let sql = format!(
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0),
               COALESCE(MAX(at > ?3 AND told & ?4 AND inbox <> ?5 AND EXISTS (SELECT 1 FROM inbox AS message
                 WHERE message.id = reservation.inbox AND message.done_at IS NULL)), 0)
             FROM reservation WHERE {calls}"
        );
        let values = params![self.id, self.midnight, self.allowed_at, self.bit(), inbox.0];
        Ok(tx.prepare_cached(&sql)?.query_row(values, told_spending)?)
    }

    fn bit(&self) -> u8 {
        BudgetScopes::default().with(self.scope).number()
    }
}

fn told_spending(row: &Row<'_>) -> rusqlite::Result<(Spending, bool)> {
    Ok((spending(row)?, row.get(2)?))
}

fn spending(row: &Row<'_>) -> rusqlite::Result<Spending> {
    Ok(Spending {
        tokens: count(row.get(0)?),
        money: Money::from_nano_dollars(count(row.get(1)?)),
    })
}

fn reserve(
    tx: &Transaction<'_>,
    subject: BudgetSubject,
    call: Spending,
    told: BudgetScopes,
    at: Timestamp,
) -> Result<ReservationId, StoreError> {
    tx.prepare_cached(
        "INSERT INTO reservation (inbox, conversation, user_id, tokens, money, at, told)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        subject.inbox.0,
        subject.conversation.0,
        subject.user.map(|user| user.0),
        count_column(call.tokens),
        count_column(call.money.nano_dollars()),
        millis(at),
        told.number(),
    ])?;
    Ok(ReservationId(tx.last_insert_rowid()))
}

/// Ends a reservation, in the transaction that records what the call did cost.
pub(super) fn end_reservation(tx: &Transaction<'_>, reservation: ReservationId) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM reservation WHERE id = ?1")?
        .execute([reservation.0])?;
    Ok(())
}

/// Returns the number of a time's day since 1970, in UTC.
fn day(at: Timestamp) -> i64 {
    at.as_second().div_euclid(24 * 60 * 60)
}

/// Returns the beginning of a time's day in UTC, as stored.
fn midnight(at: Timestamp) -> i64 {
    let midnight = at.to_zoned(TimeZone::UTC).start_of_day();
    midnight.map_or(0, |midnight| millis(midnight.timestamp()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
