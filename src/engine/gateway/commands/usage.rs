//! `usage`: the tokens and the money of a person's model calls, and of all people for administrators.

use super::{CommandRunner, budget};
use crate::base::model::{
    BudgetScope, ConversationId, InboxId, Money, Reply, ReplyPart, group_thousands, pluralize,
};
use crate::engine::gateway::parts::Parts;
use crate::engine::gateway::turn::spending_text;
use crate::state::access::Identity;
use crate::state::store::{BudgetSubject, LostCalls, StoreError, UsageReport};
use jiff::{SignedDuration, Timestamp};

/// Days of the longer period that is shown by person.
const DAYS: i64 = 30;

impl CommandRunner {
    pub(super) async fn usage(&self, arguments: &str, identity: &Identity) -> anyhow::Result<Reply> {
        match arguments.trim() {
            "people" if identity.is_admin() => self.usage_of_people().await,
            "people" => Ok(Reply::text("Only an administrator sees what others used.")),
            _ => self.own_usage(identity).await,
        }
    }

    async fn own_usage(&self, identity: &Identity) -> anyhow::Result<Reply> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let day = store.usage_of(identity.user(), hours_before(now, 24)).await?;
        let ever = store.usage_of(identity.user(), Timestamp::UNIX_EPOCH).await?;
        let by_model = store
            .usage_by_model(identity.user(), Timestamp::UNIX_EPOCH)
            .await?;
        let mut rows = vec![
            ("Last 24 hours".to_owned(), line(&day)),
            ("In all".to_owned(), line(&ever)),
        ];
        let lost = store
            .lost_calls_of(identity.user(), hours_before(now, 24))
            .await?;
        if lost.calls > 0 {
            rows.push(("Cost not known".to_owned(), lost_line(&lost)));
        }
        if by_model.len() > 1 {
            rows.extend(by_model.iter().map(|(model, used)| (model.clone(), line(used))));
        }
        Ok(facts(rows))
    }

    async fn usage_of_people(&self) -> anyhow::Result<Reply> {
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let since = hours_before(now, 24 * DAYS);
        let by_person = store.usage_by_person(since).await?;
        if by_person.is_empty() {
            return Ok(Reply::text(format!("Nobody used a model within {DAYS} days.")));
        }
        let rows = by_person.iter().map(|(name, used)| {
            let name = name.as_deref().unwrap_or("hooks");
            (name.to_owned(), line(used))
        });
        let rows = rows.collect();
        Ok(Reply::text(format!("Within {DAYS} days:")).with(ReplyPart::Facts { rows }))
    }
}

impl Parts {
    /// Returns the usage of a person within the last 24 hours, and what is used of their budget for a day, if there is one.
    pub(in crate::engine::gateway) async fn usage_today(
        &self,
        identity: &Identity,
        at: Timestamp,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let day = self.store.usage_of(identity.user(), hours_before(at, 24)).await?;
        let mut rows = vec![("Last 24 hours".to_owned(), line(&day))];
        let bound = self.config.budgets.bounds.person_day;
        if bound.is_set() {
            // The budget of a day concerns no message and no conversation.
            let subject = BudgetSubject {
                inbox: InboxId(0),
                conversation: ConversationId(0),
                user: Some(identity.user()),
            };
            let bounds = vec![(BudgetScope::PersonDay, bound)];
            let states = self.store.budget_states(subject, bounds, at).await?;
            rows.extend(states.iter().map(budget::row));
        }
        Ok(rows)
    }
}

fn facts(rows: Vec<(String, String)>) -> Reply {
    Reply {
        parts: vec![ReplyPart::Facts { rows }],
    }
}

fn hours_before(now: Timestamp, hours: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(now)
}

/// Returns a line such as `12,000 tokens in 3 model calls, $0.0412`.
fn line(used: &UsageReport) -> String {
    let calls = pluralize(
        usize::try_from(used.calls).unwrap_or(usize::MAX),
        "model call",
        "model calls",
    );
    let tokens = format!("{} tokens in {calls}", group_thousands(used.usage.total()));
    match (used.money, used.unpriced_calls) {
        (Money::ZERO, _) => tokens,
        (money, 0) => format!("{tokens}, {money}"),
        (money, unpriced) => format!("{tokens}, {money} and {unpriced} of unknown price"),
    }
}

/// Returns the line of the calls of the last 24 hours that ended without their answer.
fn lost_line(lost: &LostCalls) -> String {
    let calls = usize::try_from(lost.calls).unwrap_or(usize::MAX);
    let calls = pluralize(calls, "model call", "model calls");
    format!(
        "{calls} of the last 24 hours ended without an answer; the budgets count the most that they may have cost: {}",
        spending_text(lost.most)
    )
}

#[cfg(test)]
mod tests {
    use super::{line, lost_line};
    use crate::base::model::{Money, Spending, Usage};
    use crate::state::store::{LostCalls, UsageReport};

    #[test]
    fn usage_is_shown_in_tokens_and_money() {
        let report = |calls, money, unpriced_calls| UsageReport {
            usage: Usage {
                input: 12_000,
                ..Usage::default()
            },
            money: Money::from_cents(money),
            unpriced_calls,
            calls,
            turns: 1,
        };
        assert_eq!(line(&report(1, 0, 1)), "12,000 tokens in 1 model call");
        assert_eq!(line(&report(3, 4, 0)), "12,000 tokens in 3 model calls, $0.0400");
        assert_eq!(
            line(&report(3, 104, 1)),
            "12,000 tokens in 3 model calls, $1.04 and 1 of unknown price"
        );
    }

    #[test]
    fn calls_without_an_answer_are_shown_with_the_most_that_they_may_have_cost() {
        let lost = LostCalls {
            calls: 1,
            most: Spending {
                tokens: 12_000,
                money: Money::from_cents(4),
            },
        };
        assert_eq!(
            lost_line(&lost),
            "1 model call of the last 24 hours ended without an answer; the budgets count the most that they may have \
             cost: $0.0400 and 12,000 tokens"
        );
    }
}
