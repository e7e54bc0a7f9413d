//! The messages that show login codes. The outbox keeps messages for a while, so their content is replaced: as soon as the
//! message is delivered or given up, and before that if its code is used, replaced or expired.

use super::column::{json, millis, parse};
use super::{Store, StoreError};
use crate::base::model::{Action, Op, Reply};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The name of an operation that shows a login code.
pub const LOGIN_CODE: &str = "login-code";
/// The text in the place of a code.
const FORGOTTEN: &str = "This login code is not valid any more. Say `login` for another one.";

impl Store {
    /// Replaces the content of waiting messages whose login codes are not valid any more.
    pub async fn forget_login_codes(&self, at: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| forget_invalid(tx, at)).await
    }
}

/// Replaces the content of an operation if it shows a login code.
pub(super) fn forget(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    if op.rsplit_once('/').is_none_or(|(_, name)| name != LOGIN_CODE) {
        return Ok(());
    }
    let body: Option<String> = tx
        .prepare_cached("SELECT body FROM outbox WHERE op = ?1")?
        .query_row([op], |row| row.get(0))
        .optional()?;
    let Some(body) = body else { return Ok(()) };
    let mut shown: Op = parse("operation", &body)?;
    if let Action::Post { reply, .. } | Action::Notice { reply, .. } = &mut shown.action {
        *reply = Reply::text(FORGOTTEN);
    }
    tx.prepare_cached("UPDATE outbox SET body = ?2 WHERE op = ?1")?
        .execute(params![op, json(&shown)?])?;
    Ok(())
}

/// Replaces the content of waiting messages whose login codes are not valid any more. A code and its message are stored
/// together, so they have the same time.
pub(super) fn forget_invalid(tx: &Transaction<'_>, at: Timestamp) -> Result<(), StoreError> {
    let invalid: Vec<String> = tx
        .prepare_cached(
            "SELECT op FROM outbox INDEXED BY outbox_open
             WHERE done_at IS NULL AND op LIKE '%/' || ?1 AND NOT EXISTS
               (SELECT 1 FROM login WHERE kind = 'code' AND login.created_at = outbox.created_at AND expires_at > ?2)",
        )?
        .query_map(params![LOGIN_CODE, millis(at)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    invalid.iter().try_for_each(|op| forget(tx, op))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::LOGIN_CODE;
    use crate::base::model::{InboxId, Op, UserId};
    use crate::state::store::fixture::{at, command, fresh, person, post};
    use crate::state::store::people::{add_person, revoke};
    use crate::state::store::{NewLoginCode, Store};

    /// Answers a `login` at this second with a code of ten minutes. The text of the message is the number of the code.
    async fn log_in(store: &Store, user: UserId, second: i64) -> String {
        let inbox: InboxId = command(store, "login", &format!("login {second}"), second).await;
        let op = format!("{}/{LOGIN_CODE}", inbox.op_id_prefix());
        let code = NewLoginCode {
            hash: [u8::try_from(second % 250).unwrap(); 32],
            user,
            expires_at: at(second + 600),
        };
        let ops: Vec<Op> = vec![post(&op, None, &format!("code-{second}"))];
        store
            .finish_login_command(inbox, code, ops, at(second))
            .await
            .unwrap();
        op
    }

    /// Returns the seconds of the codes that the outbox has.
    async fn kept(store: &Store) -> Vec<i64> {
        let bodies: Vec<String> = store
            .read(|tx| {
                let mut statement = tx.prepare("SELECT body FROM outbox ORDER BY id")?;
                let bodies = statement.query_map([], |row| row.get(0))?;
                Ok(bodies.collect::<rusqlite::Result<_>>()?)
            })
            .await
            .unwrap();
        let codes = bodies.iter().filter_map(|body| body.split("code-").nth(1));
        codes
            .filter_map(|rest| {
                rest.split(|char: char| !char.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            })
            .collect()
    }

    #[tokio::test]
    async fn the_outbox_keeps_no_login_code_that_is_shown_used_replaced_or_expired() {
        let (_directory, store) = fresh();
        let mut users = Vec::new();
        for name in ["U1", "U2"] {
            let grant = ("editor".into(), "*".into(), vec!["**".into()]);
            let added = store.write(move |tx| add_person(tx, name, "operator", &person(name), &grant, at(0)));
            users.push(added.await.unwrap());
        }
        let (one, two) = (users[0], users[1]);
        let delivered = log_in(&store, one, 1).await;
        assert_eq!(kept(&store).await, [1]);
        store.record_delivered(&delivered, None, at(2)).await.unwrap();
        assert_eq!(kept(&store).await, [0; 0]);

        let failed = log_in(&store, one, 3).await;
        store.record_failed(&failed, "refused", [], at(4)).await.unwrap();
        assert_eq!(kept(&store).await, [0; 0]);

        // Those that wait: replaced by the next code of the person, used, and expired.
        log_in(&store, one, 10).await;
        log_in(&store, two, 20).await;
        log_in(&store, one, 30).await;
        assert_eq!(kept(&store).await, [20, 30]);
        let exchanged = store.exchange_login_code([30; 32], ([255; 32], at(9_000)), at(40));
        assert!(exchanged.await.unwrap().is_some());
        assert_eq!(kept(&store).await, [20]);
        store.forget_login_codes(at(619)).await.unwrap();
        assert_eq!(kept(&store).await, [20]);
        store.forget_login_codes(at(620)).await.unwrap();
        assert_eq!(kept(&store).await, [0; 0]);

        // Those of a person who is revoked before or while the code is shown.
        log_in(&store, two, 700).await;
        assert_eq!(kept(&store).await, [700]);
        let revoked = store.write(move |tx| revoke(tx, two, at(701)));
        assert!(revoked.await.unwrap().is_some());
        assert_eq!(kept(&store).await, [0; 0]);
        log_in(&store, two, 710).await;
        assert_eq!(kept(&store).await, [0; 0]);
    }
}
