//! Model usage per person.

use super::budget::{ReservationId, end_reservation};
use super::claim::{Claim, check_fence};
use super::column::{count, count_column, millis};
use super::turn::check_open;
use super::{Store, StoreError, conversation};
use crate::base::model::{
    BudgetScopes, ContextState, ConversationId, InboxId, Money, Spending, TurnId, Usage, UserId,
};
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};

/// The maximum number of models whose usage is listed.
const MODELS_MAX: i64 = 10;

/// The cost of one model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The provider of the model.
    pub provider: String,
    /// The model, by its provider's name for it.
    pub model: String,
    /// The token usage of the call.
    pub usage: Usage,
    /// The cost of the call; `None` if the prices of the model are not known.
    pub money: Option<Money>,
    /// The reservation that the cost replaces.
    pub reservation: Option<ReservationId>,
    /// The budgets about which the step of the call tells the model that they are nearly used.
    pub told: BudgetScopes,
}

/// The usage of a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// Token usage of all calls.
    pub usage: Usage,
    /// The cost of the calls whose prices are known.
    pub money: Money,
    /// Number of calls whose prices are not known.
    pub unpriced_calls: u64,
    /// Number of model calls.
    pub calls: u64,
    /// Number of turns with at least one call.
    pub turns: u64,
}

/// The calls of a person whose cost is not known, because their answers were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostCalls {
    /// Number of calls.
    pub calls: u64,
    /// The most that they may have cost. The budgets count it.
    pub most: Spending,
}

impl Store {
    /// Returns the reserved calls of a person since `since` whose message is done: no cost will be recorded for them.
    pub async fn lost_calls_of(&self, user: UserId, since: Timestamp) -> Result<LostCalls, StoreError> {
        self.read(move |tx| {
            let lost = tx
                .prepare_cached(
                    "SELECT COUNT(*), COALESCE(SUM(tokens), 0), COALESCE(SUM(money), 0) FROM reservation
                     WHERE user_id = ?1 AND at >= ?2
                       AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = reservation.inbox AND inbox.done_at IS NULL)",
                )?
                .query_row(params![user.0, millis(since)], |row| {
                    Ok(LostCalls {
                        calls: count(row.get(0)?),
                        most: Spending {
                            tokens: count(row.get(1)?),
                            money: Money::from_nano_dollars(count(row.get(2)?)),
                        },
                    })
                })?;
            Ok(lost)
        })
        .await
    }

    /// Records the cost of a call whose answer is not kept.
    pub async fn record_cost(
        &self,
        claim: &Claim,
        turn: TurnId,
        cost: &Cost,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, cost) = (*claim, cost.clone());
        self.write_deferred(move |tx| {
            check_fence(tx, claim)?;
            record(tx, claim.conversation, turn, &cost, at)
        })
        .await
    }

    /// Records the cost of a call that summarised a part of a conversation, and the context with the summary, in one
    /// transaction.
    pub async fn record_summary(
        &self,
        claim: &Claim,
        turn: TurnId,
        cost: &Cost,
        context: &ContextState,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, cost, context) = (*claim, cost.clone(), context.clone());
        self.write(move |tx| {
            check_open(tx, claim, turn)?;
            record(tx, claim.conversation, turn, &cost, at)?;
            conversation::set_context(tx, claim.conversation, &context)
        })
        .await
    }

    /// Returns the usage of a person since `since`.
    pub async fn usage_of(&self, user: UserId, since: Timestamp) -> Result<UsageReport, StoreError> {
        self.read(move |tx| {
            let report = tx
                .prepare_cached(
                    "SELECT COALESCE(SUM(input), 0), COALESCE(SUM(output), 0), COALESCE(SUM(cache_read), 0),
                            COALESCE(SUM(cache_write), 0), COUNT(*), COUNT(DISTINCT turn), COALESCE(SUM(money), 0),
                            COUNT(*) - COUNT(money)
                     FROM usage WHERE user_id = ?1 AND at >= ?2",
                )?
                .query_row(params![user.0, millis(since)], report)?;
            Ok(report)
        })
        .await
    }

    /// Returns the usage of a person since `since` by model, as `provider/model`; the most used ones first.
    pub async fn usage_by_model(
        &self,
        user: UserId,
        since: Timestamp,
    ) -> Result<Vec<(String, UsageReport)>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT SUM(input), SUM(output), SUM(cache_read), SUM(cache_write), COUNT(*), COUNT(DISTINCT turn),
                        COALESCE(SUM(money), 0), COUNT(*) - COUNT(money), provider || '/' || model
                 FROM usage WHERE user_id = ?1 AND at >= ?2 GROUP BY provider, model
                 ORDER BY SUM(input + output + cache_read + cache_write) DESC, provider, model LIMIT ?3",
            )?;
            let rows = statement.query_map(params![user.0, millis(since), MODELS_MAX], |row| {
                Ok((row.get(8)?, report(row)?))
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the usage of each person since `since`, the largest first. The calls of hooks have no person.
    pub async fn usage_by_person(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(Option<String>, UsageReport)>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT SUM(input), SUM(output), SUM(cache_read), SUM(cache_write), COUNT(*), COUNT(DISTINCT turn),
                        COALESCE(SUM(money), 0), COUNT(*) - COUNT(money), users.name
                 FROM usage LEFT JOIN users ON users.id = usage.user_id
                 WHERE at >= ?1 GROUP BY usage.user_id
                 ORDER BY SUM(money) DESC, SUM(input + output + cache_read + cache_write) DESC, usage.user_id",
            )?;
            let rows = statement.query_map([millis(since)], |row| Ok((row.get(8)?, report(row)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }
}

/// Reads a report: four kinds of tokens, calls, turns, money, and calls without known prices.
fn report(row: &Row<'_>) -> rusqlite::Result<UsageReport> {
    Ok(UsageReport {
        usage: read(row)?,
        money: Money::from_nano_dollars(count(row.get(6)?)),
        unpriced_calls: count(row.get(7)?),
        calls: count(row.get(4)?),
        turns: count(row.get(5)?),
    })
}

/// Records a call for the person of the turn.
pub(super) fn record(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    turn: TurnId,
    cost: &Cost,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO usage (turn, user_id, provider, model, input, output, cache_read, cache_write, at, money, told,
                            told_at)
         VALUES (?1, COALESCE((SELECT users.id FROM users JOIN turn ON turn.person = users.id WHERE turn.id = ?1),
                     (SELECT identity.user_id FROM identity
                      JOIN conversation ON conversation.sender = identity.sender WHERE conversation.id = ?2)),
                 ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                 COALESCE((SELECT at FROM reservation WHERE id = ?12), ?9))",
    )?
    .execute(params![
        turn.0,
        conversation.0,
        cost.provider,
        cost.model,
        count_column(cost.usage.input),
        count_column(cost.usage.output),
        count_column(cost.usage.cache_read),
        count_column(cost.usage.cache_write),
        millis(at),
        cost.money.map(|money| count_column(money.nano_dollars())),
        cost.told.number(),
        cost.reservation.map(|reservation| reservation.0),
    ])?;
    match cost.reservation {
        Some(reservation) => end_reservation(tx, reservation),
        None => Ok(()),
    }
}

pub(super) fn turn_usage(tx: &Transaction<'_>, turn: TurnId) -> Result<Usage, StoreError> {
    let usage = tx
        .prepare_cached(
            "SELECT COALESCE(SUM(input), 0), COALESCE(SUM(output), 0), COALESCE(SUM(cache_read), 0),
                    COALESCE(SUM(cache_write), 0) FROM usage WHERE turn = ?1",
        )?
        .query_row([turn.0], read)?;
    Ok(usage)
}

/// Returns the token usage of all turns of a message.
pub(super) fn message_usage(tx: &Transaction<'_>, inbox: InboxId) -> Result<Usage, StoreError> {
    let usage = tx
        .prepare_cached(
            "SELECT COALESCE(SUM(input), 0), COALESCE(SUM(output), 0), COALESCE(SUM(cache_read), 0),
                    COALESCE(SUM(cache_write), 0) FROM usage WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        )?
        .query_row([inbox.0], read)?;
    Ok(usage)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Usage> {
    Ok(Usage {
        input: count(row.get(0)?),
        output: count(row.get(1)?),
        cache_read: count(row.get(2)?),
        cache_write: count(row.get(3)?),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::UsageReport;
    use crate::base::model::{Money, Usage};
    use crate::state::store::StoreError;
    use crate::state::store::fixture::{answer, at, begin, cost, fresh, person};
    use crate::state::store::people::add_person;

    #[tokio::test]
    async fn an_answer_that_is_thrown_away_is_paid_for() {
        let (_directory, store) = fresh();
        let grant = ("editor".into(), "*".into(), vec!["**".into()]);
        let added = store.write(move |tx| add_person(tx, "U1", "operator", &person("U1"), &grant, at(0)));
        let user = added.await.unwrap();
        let (claim, inbox, turn) = begin(&store, "U1", 1).await;
        store.record_cost(&claim, turn, &cost(9), at(1)).await.unwrap();
        let used = store.usage_of(user, at(0)).await.unwrap();
        assert_eq!((used.usage.input, used.calls), (9, 1));
        store.dismiss(&claim, inbox, Vec::new(), at(2)).await.unwrap();
        store.release(&claim).await.unwrap();
        let (newer, ..) = begin(&store, "U1", 3).await;
        assert_eq!(newer.conversation, claim.conversation);
        let refused = store.record_cost(&claim, turn, &cost(9), at(3)).await;
        assert_eq!(refused, Err(StoreError::Fenced));
    }

    #[tokio::test]
    async fn a_person_is_charged_for_their_own_calls_only() {
        let (_directory, store) = fresh();
        let mut users = Vec::new();
        for name in ["U1", "U2"] {
            let grant = ("editor".into(), "*".into(), vec!["**".into()]);
            let added = store.write(move |tx| add_person(tx, name, "operator", &person(name), &grant, at(0)));
            users.push(added.await.unwrap());
        }
        for (name, second, tokens) in [("U1", 1, 10), ("U2", 2, 500), ("U1", 3, 7)] {
            let (claim, inbox, turn) = begin(&store, name, second).await;
            store
                .record_step(&claim, turn, &answer("a"), &cost(tokens), None, at(second))
                .await
                .unwrap();
            store
                .dismiss(&claim, inbox, Vec::new(), at(second))
                .await
                .unwrap();
            store.release(&claim).await.unwrap();
        }
        let report = |input, calls| UsageReport {
            usage: Usage {
                input,
                output: calls,
                ..Usage::default()
            },
            money: Money::ZERO,
            unpriced_calls: calls,
            calls,
            turns: calls,
        };
        assert_eq!(store.usage_of(users[0], at(0)).await, Ok(report(17, 2)));
        assert_eq!(store.usage_of(users[0], at(2)).await, Ok(report(7, 1)));
        assert_eq!(store.usage_of(users[1], at(0)).await, Ok(report(500, 1)));
    }
}
