//! Response URLs. They reach a person who typed a command where the bot is not a member. A URL is kept until the answer
//! is sent, and at most as long as the platform accepts it.

use crate::base::model::{Action, Op, ResponseUrl, ResponseUrlUse, Sender};
use crate::state::store::column::{json, millis, time};
use crate::state::store::{Store, StoreError, session_export};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

impl Store {
    /// Drops response URLs that the platform no longer accepts.
    pub async fn drop_response_urls(&self, at: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| drop_expired(tx, at)).await
    }
}

/// Stores the URL of a person for operations whose ids begin with `answers` and a slash. Drops expired URLs and does not
/// store them again. An already stored URL keeps its expiry and its person.
pub(in crate::state::store) fn store_url(
    tx: &Transaction<'_>,
    answers: &str,
    (url, person): (&ResponseUrl, Option<&Sender>),
    at: Timestamp,
) -> Result<(), StoreError> {
    drop_expired(tx, at)?;
    if !url.is_valid_at(at) {
        return Ok(());
    }
    tx.prepare_cached(
        "INSERT INTO response_url (answers, url, expires_at, person) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (answers) DO NOTHING",
    )?
    .execute(params![
        answers,
        url.expose(),
        millis(url.expires_at()),
        person.map(json).transpose()?
    ])?;
    Ok(())
}

fn drop_expired(tx: &Transaction<'_>, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM response_url WHERE expires_at <= ?1")?
        .execute([millis(at)])?;
    Ok(())
}

/// Returns the only person for whom an operation is.
pub(super) fn recipient(op: &Op) -> Option<&Sender> {
    match &op.action {
        Action::Notice { to, .. } | Action::AnswerClick { to, .. } | Action::Respond { to, .. } => Some(to),
        _ => None,
    }
}

/// Adds the response URL to an operation, if its platform has any for its place, and unless it is that of somebody else.
/// A conversation as a file gets none, because the URL may belong to another chat.
pub(super) fn addressed(tx: &Transaction<'_>, op: Op, at: Timestamp) -> Result<Op, StoreError> {
    if session_export::is_export(&op.id) {
        return Ok(Op {
            response_url: None,
            ..op
        });
    }
    let chat = op.place.account.platform.chat();
    let has_one = match chat.map_or(ResponseUrlUse::Nowhere, |chat| chat.response_urls) {
        ResponseUrlUse::Nowhere => false,
        ResponseUrlUse::OutsideThreads => op.place.thread.is_none(),
        ResponseUrlUse::Everywhere => true,
    };
    if !has_one {
        return Ok(op);
    }
    let recipient = recipient(&op).map(json).transpose()?;
    let url: Option<(String, i64)> = tx
        .prepare_cached(
            "SELECT url, expires_at FROM response_url WHERE answers = ?1 AND expires_at > ?2
               AND (?3 IS NULL OR person IS NULL OR person = ?3)",
        )?
        .query_row(params![answered(&op.id), millis(at), recipient], |row| {
            row.try_into()
        })
        .optional()?;
    let url =
        url.map(|(address, expires_at)| Ok::<_, StoreError>(ResponseUrl::new(address, time(expires_at)?)));
    Ok(Op {
        response_url: url.transpose()?,
        ..op
    })
}

/// Drops the response URL of an operation's message, unless it has more answers to send.
pub(in crate::state::store) fn drop_if_answered(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    // Zero is the character after the slash in the order of the index.
    tx.prepare_cached(
        "DELETE FROM response_url WHERE answers = ?1 AND NOT EXISTS (
           SELECT 1 FROM outbox WHERE op > ?1 || '/' AND op < ?1 || '0' AND done_at IS NULL)",
    )?
    .execute([answered(op)])?;
    Ok(())
}

/// Returns the first part of an operation id: the message that it answers.
pub(super) fn answered(op: &str) -> &str {
    let parts = match op.starts_with("inbox-") {
        // The fallback of a file has a longer id.
        true => op.split_once('/'),
        false => op.rsplit_once('/'),
    };
    parts.map_or(op, |(answers, _)| answers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{Action, Op, Reply, ResponseUrl};
    use crate::state::store::Store;
    use crate::state::store::fixture::{at, person, place, post};
    use jiff::{SignedDuration, Timestamp};

    fn later(minutes: i64) -> Timestamp {
        at(0).checked_add(SignedDuration::from_mins(minutes)).unwrap()
    }

    /// Returns a response URL that is valid for this number of minutes.
    fn url(minutes: i64) -> ResponseUrl {
        let address = "https://hooks.slack.com/commands/T1/1/CANARY";
        ResponseUrl::new(address.to_owned(), later(minutes))
    }

    fn ephemeral_notice(id: &str) -> Op {
        Op {
            place: place(None),
            action: Action::Notice {
                to: person("alice"),
                reply: Reply::text("x"),
            },
            ..post(id, None, "x")
        }
    }

    /// Returns a notice with a response URL for its person.
    fn addressed(id: &str, minutes: i64) -> Op {
        Op {
            response_url: Some(url(minutes)),
            ..ephemeral_notice(id)
        }
    }

    async fn url_count(store: &Store) -> i64 {
        store
            .read(|tx| Ok(tx.query_row("SELECT count(*) FROM response_url", [], |row| row.get(0))?))
            .await
            .unwrap()
    }

    /// The response URL is as durable as its operation, is leased with it, and is dropped when the last answer is sent.
    #[tokio::test]
    async fn a_response_url_is_kept_until_its_last_answer_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let ops = vec![
            addressed("inbox-1/answer-1", 30),
            ephemeral_notice("inbox-1/answer-2"),
            ephemeral_notice("inbox-10/answer"),
        ];
        store.enqueue(ops, at(0)).await.unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        for (id, left) in [("inbox-1/answer-1", 1), ("inbox-1/answer-2", 0)] {
            let due = store.lease_due("slack", at(1), 1).await.unwrap().remove(0);
            assert_eq!((due.op.id.as_str(), &due.op.response_url), (id, &Some(url(30))));
            store.record_delivered(id, None, at(1)).await.unwrap();
            assert_eq!(url_count(&store).await, left);
        }
        let other = store.lease_due("slack", at(1), 1).await.unwrap().remove(0);
        assert_eq!(other.op.response_url, None);
    }

    /// T29: what is for another person is not sent to the one who pressed or typed.
    #[tokio::test]
    async fn a_response_url_takes_nothing_for_another_person() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut other = ephemeral_notice("inbox-1/admitted");
        other.action = Action::Notice {
            to: person("bob"),
            reply: Reply::text("x"),
        };
        let ops = vec![
            addressed("inbox-1/answer", 30),
            other,
            post("inbox-1/post", None, "x"),
        ];
        store.enqueue(ops, at(0)).await.unwrap();
        let mut urls = Vec::new();
        for _ in 0..3 {
            let due = store.lease_due("slack", at(1), 1).await.unwrap().remove(0);
            store.record_delivered(&due.op.id, None, at(1)).await.unwrap();
            urls.push((due.op.id, due.op.response_url));
        }
        assert_eq!(
            urls,
            [
                ("inbox-1/answer".to_owned(), Some(url(30))),
                ("inbox-1/admitted".to_owned(), None),
                ("inbox-1/post".to_owned(), Some(url(30))),
            ]
        );
    }

    /// The chat in which a command was typed may be another than that of the file.
    #[tokio::test]
    async fn an_exported_conversation_and_its_fallbacks_get_no_response_url() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let ops = vec![
            addressed("inbox-1/export", 30),
            post("inbox-1/export/missing", None, "x"),
            post("inbox-1/exports", None, "x"),
        ];
        store.enqueue(ops, at(0)).await.unwrap();
        for expected in [None, None, Some(url(30))] {
            let due = store.lease_due("slack", at(1), 1).await.unwrap().remove(0);
            assert_eq!(due.op.response_url, expected, "{}", due.op.id);
            store.record_delivered(&due.op.id, None, at(1)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_response_url_is_used_for_half_an_hour_and_dropped_for_dead_letters() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store
            .enqueue(vec![addressed("inbox-1/answer", 30)], at(0))
            .await
            .unwrap();
        let due = store.lease_due("slack", later(30), 1).await.unwrap().remove(0);
        assert_eq!(due.op.response_url, None);
        // The fallback is also sent there, and does not extend the validity of the URL.
        let instead = Some(addressed("inbox-1/missing", 30));
        store
            .record_failed("inbox-1/answer", "refused", instead, later(20))
            .await
            .unwrap();
        let due = store.lease_due("slack", later(29), 1).await.unwrap().remove(0);
        assert_eq!(due.op.response_url, Some(url(30)));
        store.release_operation(&due).await.unwrap();
        let due = store.lease_due("slack", later(30), 1).await.unwrap().remove(0);
        assert_eq!((due.op.response_url, url_count(&store).await), (None, 1));
        store
            .record_failed("inbox-1/missing", "refused", None, later(30))
            .await
            .unwrap();
        assert_eq!(url_count(&store).await, 0);
        // An unused URL is dropped when the next one is stored, and by the purge.
        for (op, minutes) in [("inbox-2/answer", 0), ("inbox-3/answer", 30)] {
            let op = addressed(op, minutes + 30);
            store.enqueue(vec![op], later(minutes)).await.unwrap();
        }
        assert_eq!(url_count(&store).await, 1);
        store.drop_response_urls(later(59)).await.unwrap();
        assert_eq!(url_count(&store).await, 1);
        store.drop_response_urls(later(60)).await.unwrap();
        assert_eq!(url_count(&store).await, 0);
        // A dropped URL is not stored again, even if a caller still has it.
        store
            .enqueue(vec![addressed("inbox-4/answer", 30)], later(31))
            .await
            .unwrap();
        assert_eq!(url_count(&store).await, 0);
    }
}
