//! Requests of unknown senders for access. Each notice to such a sender allows one request, and a day has a bounded number of
//! them in all. Administrators decide.

use super::audit::audit_in;
use super::column::{json, millis, parse};
use super::unknown_sender::NOTICE_MS;
use super::{NewAction, Store, StoreError, action, delivery_name, outbox};
use crate::base::model::{Inbound, Op, Sender};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// Maximum number of requests within a day, over all senders.
const REQUESTS_A_DAY_MAX: i64 = 20;

/// The outcome of a request for access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRequestOutcome {
    /// The administrators are asked.
    Asked,
    /// The sender has asked since the last notice, or got no notice.
    Before,
    /// The number of requests of a day is reached.
    Full,
}

impl Store {
    /// Returns why a request of an unknown sender would ask nobody; `None` if administrators may be asked.
    pub async fn access_request_refusal(
        &self,
        inbound: &Inbound,
        at: Timestamp,
    ) -> Result<Option<AccessRequestOutcome>, StoreError> {
        let inbound = inbound.clone();
        self.read(move |tx| refusal(tx, &inbound, at)).await
    }

    /// Stores a request of an unknown sender, with the operations that ask the administrators and their buttons, in one
    /// transaction.
    pub async fn request_access(
        &self,
        inbound: &Inbound,
        question: (Vec<Op>, Vec<NewAction>),
        at: Timestamp,
    ) -> Result<AccessRequestOutcome, StoreError> {
        let inbound = inbound.clone();
        self.write(move |tx| {
            if let Some(refusal) = refusal(tx, &inbound, at)? {
                return Ok(refusal);
            }
            delivery_name::remember_delivery(tx, &inbound.delivery, at)?;
            tx.prepare_cached("UPDATE stranger SET requested_at = ?2, request = ?3 WHERE sender = ?1")?
                .execute(params![json(&inbound.sender)?, millis(at), json(&inbound)?])?;
            let (ops, buttons) = question;
            outbox::enqueue(tx, &ops, at)?;
            action::insert(tx, &buttons)?;
            let data = serde_json::json!({ "sender": inbound.sender.to_string() });
            audit_in(tx, "access.requested", data, at)?;
            Ok(AccessRequestOutcome::Asked)
        })
        .await
    }

    /// Returns the press with which a sender asked for access; `None` if they did not, or if that is forgotten.
    pub async fn access_request(&self, sender: &Sender) -> Result<Option<Inbound>, StoreError> {
        let sender = sender.clone();
        self.read(move |tx| {
            let request: Option<Option<String>> = tx
                .prepare_cached("SELECT request FROM stranger WHERE sender = ?1")?
                .query_row([json(&sender)?], |row| row.get(0))
                .optional()?;
            request.flatten().map(|text| parse("message", &text)).transpose()
        })
        .await
    }
}

/// Returns why a request asks nobody: the sender got no notice or has asked since, or the bound of a day is reached.
fn refusal(
    tx: &Transaction<'_>,
    inbound: &Inbound,
    at: Timestamp,
) -> Result<Option<AccessRequestOutcome>, StoreError> {
    let may_ask = tx
        .prepare_cached(
            "SELECT 1 FROM stranger WHERE sender = ?1 AND (requested_at IS NULL OR requested_at < noticed_at)",
        )?
        .exists([json(&inbound.sender)?])?;
    if delivery_name::was_delivered(tx, &inbound.delivery)? || !may_ask {
        return Ok(Some(AccessRequestOutcome::Before));
    }
    let today: i64 = tx
        .prepare_cached("SELECT COUNT(*) FROM stranger WHERE requested_at > ?1")?
        .query_row([millis(at).saturating_sub(NOTICE_MS)], |row| row.get(0))?;
    Ok((today >= REQUESTS_A_DAY_MAX).then_some(AccessRequestOutcome::Full))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{AccessRequestOutcome, REQUESTS_A_DAY_MAX};
    use crate::state::store::fixture::{at, fresh, person, post, says};
    use crate::state::store::unknown_sender::NOTICE_MS;

    const DAY: i64 = NOTICE_MS / 1_000;

    /// T01
    #[tokio::test]
    async fn an_unknown_sender_asks_once_for_each_notice_and_a_day_has_a_bound() {
        let (_directory, store) = fresh();
        let ask = async |who: &str, id: &str, second: i64| {
            let press = says(who, "", &[id]);
            let question = (vec![post(&format!("access/{id}"), None, "asks")], Vec::new());
            let refusal = store.access_request_refusal(&press, at(second)).await.unwrap();
            let outcome = store.request_access(&press, question, at(second)).await.unwrap();
            assert_eq!(refusal.unwrap_or(AccessRequestOutcome::Asked), outcome, "{id}");
            outcome
        };
        assert_eq!(ask("U1", "1", 0).await, AccessRequestOutcome::Before, "no notice");
        store.notice(&person("U1"), 1_000, at(1)).await.unwrap();
        assert_eq!(ask("U1", "2", 2).await, AccessRequestOutcome::Asked);
        assert_eq!(
            ask("U1", "2", 3).await,
            AccessRequestOutcome::Before,
            "the same press"
        );
        assert_eq!(ask("U1", "3", 3).await, AccessRequestOutcome::Before);
        let asked = store.access_request(&person("U1")).await.unwrap().unwrap();
        assert_eq!(asked.delivery, ["2"]);
        for number in 2..=REQUESTS_A_DAY_MAX + 1 {
            let who = format!("U{number}");
            store.notice(&person(&who), 1_000, at(4)).await.unwrap();
            let outcome = ask(&who, &format!("first {number}"), 5).await;
            let expected = match number > REQUESTS_A_DAY_MAX {
                true => AccessRequestOutcome::Full,
                false => AccessRequestOutcome::Asked,
            };
            assert_eq!(outcome, expected, "{number}");
        }
        // The next notice allows another request.
        store.notice(&person("U1"), 1_000, at(DAY + 10)).await.unwrap();
        assert_eq!(ask("U1", "4", DAY + 11).await, AccessRequestOutcome::Asked);
        let posted = "SELECT count(*) FROM outbox WHERE op LIKE 'access/%'";
        let posted: i64 = store
            .read(move |tx| Ok(tx.query_row(posted, [], |row| row.get(0))?))
            .await
            .unwrap();
        assert_eq!(posted, REQUESTS_A_DAY_MAX + 1);
    }
}
