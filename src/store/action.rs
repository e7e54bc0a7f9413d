//! Buttons: one-shot tokens bound to a person, a conversation and an expiry. Only their hash is kept.

use super::column::{json, millis};
use super::{Store, StoreError};
use crate::model::{ConversationId, InboxId, Sender};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// A button before it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAction {
    /// SHA-256 of the token the button carries.
    pub token_hash: [u8; 32],
    /// The verb of the action, such as `patch`.
    pub verb: String,
    /// The argument of the action, such as `42`.
    pub argument: String,
    /// The person the button belongs to.
    pub user: Sender,
    /// The conversation the action applies to.
    pub conversation: ConversationId,
    /// The time after which a press has no effect.
    pub expires: Timestamp,
}

/// The outcome of a press on a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PressOutcome {
    /// The press counts, and the press of no other message will.
    Counted {
        /// The verb of the action.
        verb: String,
        /// The argument of the action.
        argument: String,
        /// The conversation the action applies to.
        conversation: ConversationId,
    },
    /// The button belongs to another person and is still good for them.
    OtherOwner {
        /// The name of the person it belongs to.
        owner: String,
    },
    /// The button was pressed before.
    Used,
    /// The button has expired.
    Expired,
    /// The button was never made here, or is forgotten.
    Unknown,
}

impl Store {
    /// Takes the action of a button that the message `inbox` pressed, if `by` is who it belongs to. One message
    /// takes it, as often as it is carried out.
    pub async fn take_action(
        &self,
        token_hash: [u8; 32],
        by: &Sender,
        inbox: InboxId,
        at: Timestamp,
    ) -> Result<PressOutcome, StoreError> {
        let by = by.clone();
        self.write(move |tx| take(tx, token_hash, &by, inbox, at)).await
    }

    /// Returns the command that the button with this hash stands for, whoever presses it.
    pub async fn action_verb(&self, token_hash: [u8; 32]) -> Result<Option<String>, StoreError> {
        self.read(move |tx| {
            let verb = tx
                .prepare_cached("SELECT verb FROM action WHERE token_hash = ?1")?
                .query_row([token_hash], |row| row.get(0))
                .optional()?;
            Ok(verb)
        })
        .await
    }
}

/// Stores buttons; a token that is there already stays what it was.
pub(super) fn insert(tx: &Transaction<'_>, actions: &[NewAction]) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached(
        "INSERT INTO action (token_hash, verb, argument, sender, conversation, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (token_hash) DO NOTHING",
    )?;
    for action in actions {
        statement.execute(params![
            action.token_hash,
            action.verb,
            action.argument,
            json(&action.user)?,
            action.conversation.0,
            millis(action.expires),
        ])?;
    }
    Ok(())
}

fn take(
    tx: &Transaction<'_>,
    token_hash: [u8; 32],
    by: &Sender,
    inbox: InboxId,
    at: Timestamp,
) -> Result<PressOutcome, StoreError> {
    let by = json(by)?;
    let taken = tx
        .prepare_cached(
            "UPDATE action SET used_at = COALESCE(used_at, ?3), used_by = ?4
             WHERE token_hash = ?1 AND sender = ?2
               AND (used_by = ?4 OR (used_by IS NULL AND expires_at > ?3))
             RETURNING verb, argument, conversation",
        )?
        .query_row(params![token_hash, by, millis(at), inbox.0], |row| {
            Ok(PressOutcome::Counted {
                verb: row.get(0)?,
                argument: row.get(1)?,
                conversation: ConversationId(row.get(2)?),
            })
        })
        .optional()?;
    match taken {
        Some(taken) => Ok(taken),
        None => refusal(tx, token_hash, &by),
    }
}

fn refusal(tx: &Transaction<'_>, token_hash: [u8; 32], by: &str) -> Result<PressOutcome, StoreError> {
    let row = tx
        .prepare_cached(
            "SELECT action.sender, action.used_at, users.name FROM action
             LEFT JOIN identity ON identity.sender = action.sender
             LEFT JOIN users ON users.id = identity.user_id
             WHERE action.token_hash = ?1",
        )?
        .query_row(params![token_hash], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, Option<String>>(2)?,
            ))
        })
        .optional()?;
    Ok(match row {
        None => PressOutcome::Unknown,
        Some((owner, _, name)) if owner != by => PressOutcome::OtherOwner {
            owner: name.unwrap_or_else(|| "somebody else".to_owned()),
        },
        Some((_, Some(_), _)) => PressOutcome::Used,
        Some((_, None, _)) => PressOutcome::Expired,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{NewAction, PressOutcome, insert};
    use crate::model::InboxId;
    use crate::store::fixture::{accept, at, fresh, person, says};
    use crate::store::people::add_person;

    /// T07
    #[tokio::test]
    async fn a_button_works_once_and_only_for_its_owner() {
        let (_directory, store) = fresh();
        let (_, conversation, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let action = move |token_hash| NewAction {
            token_hash,
            verb: "patch".into(),
            argument: "42".into(),
            user: person("U1"),
            conversation,
            expires: at(100),
        };
        store
            .write(move |tx| insert(tx, &[action([1; 32]), action([2; 32])]))
            .await
            .unwrap();
        let grant = ("editor".into(), "*".into(), Vec::new());
        let alice = store.write(move |tx| add_person(tx, "alice", "operator", &person("U1"), &grant, at(0)));
        alice.await.unwrap();
        let foreign = PressOutcome::OtherOwner {
            owner: "alice".into(),
        };
        assert_eq!(
            store.take_action([1; 32], &person("U2"), InboxId(1), at(1)).await,
            Ok(foreign)
        );
        let yes = PressOutcome::Counted {
            verb: "patch".into(),
            argument: "42".into(),
            conversation,
        };
        let by = person("U1");
        let press = |inbox, second| store.take_action([1; 32], &by, InboxId(inbox), at(second));
        assert_eq!(press(2, 2).await, Ok(yes.clone()));
        // The message that took it takes it again when it is carried out again, however late that is.
        assert_eq!(press(2, 200).await, Ok(yes));
        assert_eq!(press(3, 3).await, Ok(PressOutcome::Used));
        assert_eq!(
            store
                .take_action([2; 32], &person("U1"), InboxId(4), at(100))
                .await,
            Ok(PressOutcome::Expired)
        );
        assert_eq!(
            store.take_action([3; 32], &person("U1"), InboxId(5), at(1)).await,
            Ok(PressOutcome::Unknown)
        );
    }

    /// T07
    #[tokio::test]
    async fn a_hundred_presses_at_once_count_once() {
        let (_directory, store) = fresh();
        let (_, conversation, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let action = NewAction {
            token_hash: [1; 32],
            verb: "stop".into(),
            argument: String::new(),
            user: person("U1"),
            conversation,
            expires: at(100),
        };
        store.write(move |tx| insert(tx, &[action])).await.unwrap();
        let presses = (0..100).map(|inbox| {
            let store = store.clone();
            let (by, inbox) = (person("U1"), InboxId(inbox));
            tokio::spawn(async move { store.take_action([1; 32], &by, inbox, at(1)).await.unwrap() })
        });
        let mut counted = 0;
        for press in presses.collect::<Vec<_>>() {
            match press.await.unwrap() {
                PressOutcome::Counted { .. } => counted += 1,
                other => assert_eq!(other, PressOutcome::Used),
            }
        }
        assert_eq!(counted, 1);
    }
}
