//! Allowances, which administrators add to a budget, and the requests for them. A request is answered once.

use super::super::audit::audit_in;
use super::super::column::{count_column, millis, parse_word, word};
use super::super::command::apply_once;
use super::super::{Store, StoreError};
use super::{BudgetSubject, day, spending, subject_id};
use crate::base::model::{BudgetRefusal, BudgetScope, InboxId, Money, Spending};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// A request to administrators to allow more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRequest {
    /// The random id of the request, which its button names.
    pub id: String,
    /// Whose budget it is.
    pub subject: BudgetSubject,
    /// The refused call.
    pub refusal: BudgetRefusal,
}

/// The result of allowing more. It is stored with the command that allowed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "allowed", rename_all = "snake_case")]
pub enum AllowOutcome {
    /// This much more may be spent.
    More {
        /// The scope of the budget.
        scope: BudgetScope,
        /// The additional amount.
        extra: Spending,
    },
    /// The request was answered before.
    Before,
    /// The request was for an earlier day.
    Late,
    /// There is no such request.
    Unknown,
}

impl Store {
    /// Allows what a request asks for. `inbox` is the command; a repeated run returns the first result.
    pub async fn allow_request(
        &self,
        id: &str,
        inbox: InboxId,
        by: &str,
        at: Timestamp,
    ) -> Result<AllowOutcome, StoreError> {
        let (id, by) = (id.to_owned(), by.to_owned());
        self.write(move |tx| apply_once(tx, inbox, || allow_request(tx, &id, &by, at)))
            .await
    }

    /// Allows more of a budget. `inbox` is the command; a repeated run returns the first result.
    pub async fn allow_more(
        &self,
        scope: BudgetScope,
        subject: BudgetSubject,
        extra: Spending,
        (inbox, by): (InboxId, &str),
        at: Timestamp,
    ) -> Result<AllowOutcome, StoreError> {
        let by = by.to_owned();
        self.write(move |tx| {
            apply_once(tx, inbox, || {
                let Some(id) = subject_id(scope, subject) else {
                    return Ok(AllowOutcome::Unknown);
                };
                insert_allowance(tx, (scope, id), extra, &by, at)?;
                Ok(AllowOutcome::More { scope, extra })
            })
        })
        .await
    }
}

/// Returns what was allowed in addition to a budget, for the day of `at`, and the time of the last such decision.
pub(super) fn allowed(
    tx: &Transaction<'_>,
    (scope, id): (BudgetScope, i64),
    at: Timestamp,
) -> Result<(Spending, i64), StoreError> {
    let allowed = tx
        .prepare_cached(
            "SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0), COALESCE(MAX(at), 0) FROM allowance
             WHERE scope = ?1 AND subject = ?2 AND (day IS NULL OR day = ?3)",
        )?
        .query_row(params![word(&scope)?, id, day(at)], |row| {
            Ok((spending(row)?, row.get(2)?))
        })?;
    Ok(allowed)
}

/// Stores a request, in the transaction that ends its turn. The button is stored by the caller.
pub(in crate::state::store) fn insert_request(
    tx: &Transaction<'_>,
    request: &BudgetRequest,
    at: Timestamp,
) -> Result<(), StoreError> {
    let scope = request.refusal.scope;
    let Some(subject) = subject_id(scope, request.subject) else {
        return Ok(());
    };
    let extra = request.refusal.extra();
    tx.prepare_cached(
        "INSERT INTO budget_request (id, scope, subject, day, tokens, money, conversation, asked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        request.id,
        word(&scope)?,
        subject,
        day_of(scope, at),
        count_column(extra.tokens),
        count_column(extra.money.nano_dollars()),
        request.subject.conversation.0,
        millis(at),
    ])?;
    Ok(())
}

fn allow_request(
    tx: &Transaction<'_>,
    id: &str,
    by: &str,
    at: Timestamp,
) -> Result<AllowOutcome, StoreError> {
    type Row = (String, i64, Option<i64>, i64, i64, Option<i64>);
    let found: Option<Row> = tx
        .prepare_cached(
            "SELECT scope, subject, day, tokens, money, allowed_at FROM budget_request WHERE id = ?1",
        )?
        .query_row([id], |row| row.try_into())
        .optional()?;
    let Some((scope, subject, asked_day, tokens, money, allowed_at)) = found else {
        return Ok(AllowOutcome::Unknown);
    };
    if allowed_at.is_some() {
        return Ok(AllowOutcome::Before);
    }
    if asked_day.is_some_and(|asked| asked != day(at)) {
        return Ok(AllowOutcome::Late);
    }
    let scope: BudgetScope = parse_word("budget", scope)?;
    let extra = Spending {
        tokens: u64::try_from(tokens).unwrap_or(0),
        money: Money::from_nano_dollars(u64::try_from(money).unwrap_or(0)),
    };
    // Several turns may have asked for more of this budget; one answer serves all of them.
    tx.prepare_cached(
        "UPDATE budget_request SET allowed_at = ?4 WHERE scope = ?1 AND subject = ?2 AND day IS ?3 AND allowed_at IS NULL",
    )?
    .execute(params![word(&scope)?, subject, asked_day, millis(at)])?;
    insert_allowance(tx, (scope, subject), extra, by, at)?;
    Ok(AllowOutcome::More { scope, extra })
}

fn insert_allowance(
    tx: &Transaction<'_>,
    (scope, subject): (BudgetScope, i64),
    extra: Spending,
    by: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO allowance (scope, subject, day, tokens, money, allowed_by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        word(&scope)?,
        subject,
        day_of(scope, at),
        count_column(extra.tokens),
        count_column(extra.money.nano_dollars()),
        by,
        millis(at),
    ])?;
    let data = serde_json::json!({
        "by": by, "money": extra.money, "scope": scope, "subject": subject, "tokens": extra.tokens,
    });
    audit_in(tx, "budget.allowed", data, at)
}

/// Returns the day for which more is allowed; `None` for a budget without a day.
fn day_of(scope: BudgetScope, at: Timestamp) -> Option<i64> {
    match scope {
        BudgetScope::PersonDay | BudgetScope::Day => Some(day(at)),
        BudgetScope::Turn | BudgetScope::Conversation => None,
    }
}
