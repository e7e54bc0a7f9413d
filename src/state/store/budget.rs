//! Budgets. A model call is reserved with the most that it may cost, in the transaction that checks all budgets. The
//! transaction that records its real cost also ends the reservation.
//!
//! The reservation of a call that the process did not survive stays, and so does that of a call whose answer was lost on
//! its way, or that was cancelled after its request was sent. Nobody knows what the call did cost, so it counts in full
//! against the budgets of its time. A call of which several answers were lost counts once: its reservation is the most
//! that one of them costs.

mod allowance;

pub(super) use allowance::insert_request;
pub use allowance::{AllowOutcome, BudgetRequest};

use super::claim::{Claim, check_fence};
use super::column::{count, count_column, millis};
use super::{Store, StoreError};
use crate::base::model::{
    BudgetBound, BudgetRefusal, BudgetScope, BudgetWarning, ConversationId, InboxId, Money, Spending, UserId,
};
use crate::crash_point;
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Row, Transaction, params};

/// A reserved model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationId(pub(super) i64);

/// The reservation of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallReservation {
    /// The reservation.
    pub id: ReservationId,
    /// The narrowest budget that is nearly used, if there is one.
    pub warning: Option<BudgetWarning>,
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
                let mut warning = None;
                for (scope, bound) in bounds {
                    let state = state(tx, subject, (scope, bound), at)?;
                    if let Some(refusal) = BudgetRefusal::check(scope, state.bound, state.spent, call) {
                        return Ok(Err(refusal));
                    }
                    warning = warning.or_else(|| BudgetWarning::check(scope, state.bound, state.spent, call));
                }
                let id = reserve(tx, subject, call, at)?;
                Ok(Ok(CallReservation { id, warning }))
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
            let states = bounds.into_iter().map(|bound| state(tx, subject, bound, at));
            states.collect()
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

fn state(
    tx: &Transaction<'_>,
    subject: BudgetSubject,
    (scope, bound): (BudgetScope, BudgetBound),
    at: Timestamp,
) -> Result<BudgetState, StoreError> {
    let Some(id) = subject_id(scope, subject) else {
        return Ok(BudgetState {
            scope,
            bound: BudgetBound::default(),
            spent: Spending::default(),
        });
    };
    let allowed = allowance::allowed(tx, (scope, id), at)?;
    Ok(BudgetState {
        scope,
        bound: bound.raised(allowed),
        spent: used(tx, scope, id, at)? + reserved(tx, scope, id, at)?,
    })
}

/// Returns what recorded calls did cost.
fn used(tx: &Transaction<'_>, scope: BudgetScope, id: i64, at: Timestamp) -> Result<Spending, StoreError> {
    let sql = match scope {
        BudgetScope::Turn => concat!(
            "SELECT COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0) FROM usage ",
            "WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1) AND ?2 IS NOT NULL"
        ),
        BudgetScope::Conversation => concat!(
            "SELECT COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0) FROM usage ",
            "WHERE turn IN (SELECT id FROM turn WHERE conversation = ?1) AND ?2 IS NOT NULL"
        ),
        BudgetScope::PersonDay => concat!(
            "SELECT COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0) FROM usage ",
            "WHERE user_id = ?1 AND at >= ?2"
        ),
        BudgetScope::Day => concat!(
            "SELECT COALESCE(SUM(input + output + cache_read + cache_write), 0), COALESCE(SUM(money), 0) FROM usage ",
            "WHERE ?1 IS NOT NULL AND at >= ?2"
        ),
    };
    let spent = tx
        .prepare_cached(sql)?
        .query_row(params![id, midnight(at)], spending)?;
    Ok(spent)
}

/// Returns what is reserved for calls that run, or whose cost is not known.
fn reserved(
    tx: &Transaction<'_>,
    scope: BudgetScope,
    id: i64,
    at: Timestamp,
) -> Result<Spending, StoreError> {
    let sql = match scope {
        BudgetScope::Turn => {
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM reservation WHERE inbox = ?1 AND ?2 IS NOT NULL"
        }
        BudgetScope::Conversation => {
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM reservation
             WHERE conversation = ?1 AND ?2 IS NOT NULL"
        }
        BudgetScope::PersonDay => {
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM reservation WHERE user_id = ?1 AND at >= ?2"
        }
        BudgetScope::Day => {
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM reservation WHERE ?1 IS NOT NULL AND at >= ?2"
        }
    };
    let reserved = tx
        .prepare_cached(sql)?
        .query_row(params![id, midnight(at)], spending)?;
    Ok(reserved)
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
    at: Timestamp,
) -> Result<ReservationId, StoreError> {
    tx.prepare_cached(
        "INSERT INTO reservation (inbox, conversation, user_id, tokens, money, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        subject.inbox.0,
        subject.conversation.0,
        subject.user.map(|user| user.0),
        count_column(call.tokens),
        count_column(call.money.nano_dollars()),
        millis(at),
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
