//! Buttons: one-shot tokens bound to a person, a conversation and an expiry time. Only the hash of a token is stored.

use super::column::{json, millis};
use super::{Store, StoreError, command};
use crate::base::model::{ConversationId, InboxId, Op, Sender};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::Serialize;

/// The owner of a button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ActionOwner {
    /// One person, by the account that the button was made for.
    Person(Sender),
    /// Any person of a group.
    Group(OwnerGroup),
}

/// The word that stands for several people in the place of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerGroup {
    /// Whoever is an administrator when the button is pressed.
    Administrators,
    /// Whoever is admitted when the button is pressed. What the button does is checked with their grants.
    Admitted,
}

impl ActionOwner {
    /// All administrators.
    pub const ADMINISTRATORS: Self = Self::Group(OwnerGroup::Administrators);
    /// All admitted people.
    pub const ADMITTED: Self = Self::Group(OwnerGroup::Admitted);
}

/// A new button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAction {
    /// The SHA-256 of the button's token.
    pub token_hash: [u8; 32],
    /// The verb of the command, such as `patch`.
    pub verb: String,
    /// The argument of the command, such as `42`.
    pub argument: String,
    /// The owner of the button.
    pub owner: ActionOwner,
    /// The conversation of the button.
    pub conversation: ConversationId,
    /// The expiry time. Later clicks have no effect.
    pub expires: Timestamp,
}

/// The outcome of a click on a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PressOutcome {
    /// The click takes effect. A click in another message will not.
    Counted {
        /// The verb of the command.
        verb: String,
        /// The argument of the command.
        argument: String,
        /// The conversation of the button.
        conversation: ConversationId,
    },
    /// The button belongs to another person and still works for them.
    OtherOwner {
        /// The owner's name.
        owner: String,
    },
    /// The button was already used.
    Used,
    /// The button has expired.
    Expired,
    /// The button does not exist, or was pruned.
    Unknown,
}

impl Store {
    /// Uses the button that message `inbox` clicked, if it belongs to `by`. Only one message can use a button. When
    /// that message is processed again, it gets the same result.
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

    /// Answers a press that will have no effect. If it had used its button, the button can be pressed again, in the same
    /// transaction. The first answer is for a button that the person can press, the second for one that has expired, was
    /// used by another press or belongs to somebody else. A repeated call changes nothing.
    pub async fn return_press(
        &self,
        token_hash: [u8; 32],
        by: &Sender,
        inbox: InboxId,
        (pressable, unusable): (Vec<Op>, Vec<Op>),
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let by = by.clone();
        self.write(move |tx| {
            tx.prepare_cached(
                "UPDATE action SET used_at = NULL, used_by = NULL WHERE token_hash = ?1 AND used_by = ?2
                   AND EXISTS (SELECT 1 FROM inbox WHERE id = ?2 AND done_at IS NULL AND effect IS NULL)",
            )?
            .execute(params![token_hash, inbox.0])?;
            let ops = match can_press(tx, token_hash, &by, at)? {
                true => pressable,
                false => unusable,
            };
            command::finish(tx, inbox, &ops, at).map(|_| ())
        })
        .await
    }

    /// Answers a press that only asks for something. Its button can be pressed again, and the buttons of the answer are
    /// stored, all in one transaction. A repeated call changes nothing.
    pub async fn finish_asking_press(
        &self,
        token_hash: [u8; 32],
        inbox: InboxId,
        (ops, buttons): (Vec<Op>, Vec<NewAction>),
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if !command::finish(tx, inbox, &ops, at)? {
                return Ok(());
            }
            tx.prepare_cached(
                "UPDATE action SET used_at = NULL, used_by = NULL WHERE token_hash = ?1 AND used_by = ?2",
            )?
            .execute(params![token_hash, inbox.0])?;
            insert(tx, &buttons)
        })
        .await
    }

    /// Answers a press that decides a question. The buttons of all questions with the same argument, which have these
    /// verbs, are used by it as well. A repeated call changes nothing.
    pub async fn finish_deciding_press(
        &self,
        inbox: InboxId,
        (conversation, argument, verbs): (ConversationId, String, [&'static str; 2]),
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if !command::finish(tx, inbox, &ops, at)? {
                return Ok(());
            }
            let [one, other] = verbs;
            tx.prepare_cached(
                "UPDATE action SET used_at = ?5, used_by = ?6
                 WHERE conversation = ?1 AND argument = ?2 AND verb IN (?3, ?4) AND used_by IS NULL",
            )?
            .execute(params![conversation.0, argument, one, other, millis(at), inbox.0])?;
            Ok(())
        })
        .await
    }

    /// Returns the verb of the button with this hash, without a check of its owner.
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

/// Inserts buttons. An existing token is left unchanged.
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
            json(&action.owner)?,
            action.conversation.0,
            millis(action.expires),
        ])?;
    }
    Ok(())
}

/// True for a button of the sender `?2`. A button of a group belongs to whoever is one of it at this moment.
macro_rules! is_owner {
    () => {
        r#"(action.sender = ?2 OR action.sender = '"administrators"' AND EXISTS (
            SELECT 1 FROM identity JOIN users ON users.id = identity.user_id
            JOIN user_grant ON user_grant.user_id = users.id
            WHERE identity.sender = ?2 AND users.revoked_at IS NULL AND user_grant.role = 'admin')
            OR action.sender = '"admitted"' AND EXISTS (
            SELECT 1 FROM identity JOIN users ON users.id = identity.user_id
            WHERE identity.sender = ?2 AND users.revoked_at IS NULL))"#
    };
}

pub(super) fn take(
    tx: &Transaction<'_>,
    token_hash: [u8; 32],
    by: &Sender,
    inbox: InboxId,
    at: Timestamp,
) -> Result<PressOutcome, StoreError> {
    let by = json(by)?;
    let taken = tx
        .prepare_cached(concat!(
            "UPDATE action SET used_at = COALESCE(used_at, ?3), used_by = ?4 WHERE token_hash = ?1
               AND (used_by = ?4 OR (used_by IS NULL AND expires_at > ?3 AND ",
            is_owner!(),
            ")) RETURNING verb, argument, conversation"
        ))?
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

/// True if a press of the button by this sender would count.
fn can_press(
    tx: &Transaction<'_>,
    token_hash: [u8; 32],
    by: &Sender,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let can_press = tx
        .prepare_cached(concat!(
            "SELECT 1 FROM action WHERE token_hash = ?1 AND used_by IS NULL AND expires_at > ?3 AND ",
            is_owner!()
        ))?
        .exists(params![token_hash, json(by)?, millis(at)])?;
    Ok(can_press)
}

fn refusal(tx: &Transaction<'_>, token_hash: [u8; 32], by: &str) -> Result<PressOutcome, StoreError> {
    type Row = (bool, Option<i64>, Option<String>, bool);
    let row: Option<Row> = tx
        .prepare_cached(concat!(
            "SELECT ",
            is_owner!(),
            r#", action.used_at, users.name, action.sender = '"administrators"' FROM action
             LEFT JOIN identity ON identity.sender = action.sender
             LEFT JOIN users ON users.id = identity.user_id
             WHERE action.token_hash = ?1"#
        ))?
        .query_row(params![token_hash, by], |row| row.try_into())
        .optional()?;
    Ok(match row {
        None => PressOutcome::Unknown,
        Some((false, _, _, true)) => PressOutcome::OtherOwner {
            owner: "the administrators".to_owned(),
        },
        Some((false, _, name, false)) => PressOutcome::OtherOwner {
            owner: name.unwrap_or_else(|| "another person".to_owned()),
        },
        Some((true, Some(_), ..)) => PressOutcome::Used,
        Some((true, None, ..)) => PressOutcome::Expired,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ActionOwner, NewAction, PressOutcome, insert};
    use crate::base::model::InboxId;
    use crate::state::store::fixture::{accept, at, command, fresh, person, post, says};
    use crate::state::store::people::add_person;
    use rusqlite::OptionalExtension;

    /// T07
    #[tokio::test]
    async fn a_button_works_once_and_only_for_its_owner() {
        let (_directory, store) = fresh();
        let (_, conversation, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let action = move |token_hash| NewAction {
            token_hash,
            verb: "patch".into(),
            argument: "42".into(),
            owner: ActionOwner::Person(person("U1")),
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
        // The message that used the button gets the same result again, even much later.
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

    /// T07: a press that was too old when the process came back has done nothing, and its button can be pressed again.
    #[tokio::test]
    async fn a_press_without_an_effect_gives_its_button_back_in_the_transaction_that_answers_it() {
        let (_directory, store) = fresh();
        let (_, conversation, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let action = NewAction {
            token_hash: [1; 32],
            verb: "discard".into(),
            argument: "1".into(),
            owner: ActionOwner::Person(person("U1")),
            conversation,
            expires: at(100),
        };
        store.write(move |tx| insert(tx, &[action])).await.unwrap();
        let by = person("U1");
        let answers = |name: &str| {
            let answer = |what: &str| vec![post(&format!("{name}/{what}"), None, what)];
            (answer("again"), answer("never"))
        };
        let newest = async || -> Option<String> {
            let newest = "SELECT op FROM outbox ORDER BY id DESC LIMIT 1";
            let newest = store.read(move |tx| Ok(tx.query_row(newest, [], |row| row.get(0)).optional()?));
            newest.await.unwrap()
        };
        let first = command(&store, "x", "c1", 1).await;
        store.take_action([1; 32], &by, first, at(2)).await.unwrap();
        for _ in 0..2 {
            store
                .return_press([1; 32], &by, first, answers("first"), at(3))
                .await
                .unwrap();
        }
        assert_eq!(newest().await.as_deref(), Some("first/again"));
        // Another person still cannot press it.
        let foreign = command(&store, "x", "c2", 4).await;
        store
            .return_press([1; 32], &person("U2"), foreign, answers("foreign"), at(4))
            .await
            .unwrap();
        assert_eq!(newest().await.as_deref(), Some("foreign/never"));
        let second = command(&store, "x", "c3", 5).await;
        let pressed = store.take_action([1; 32], &by, second, at(6)).await.unwrap();
        assert!(matches!(pressed, PressOutcome::Counted { .. }), "{pressed:?}");
        // A late return of another press changes nothing, and neither does one of a press that had its effect.
        let late = command(&store, "x", "c4", 7).await;
        store
            .return_press([1; 32], &by, late, answers("late"), at(7))
            .await
            .unwrap();
        assert_eq!(newest().await.as_deref(), Some("late/never"));
        store.stop(conversation, second, None, at(8)).await.unwrap();
        store
            .return_press([1; 32], &by, second, answers("second"), at(9))
            .await
            .unwrap();
        assert_eq!(newest().await.as_deref(), Some("second/never"));
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
            owner: ActionOwner::Person(person("U1")),
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

    #[tokio::test]
    async fn a_button_of_the_administrators_works_once_for_whoever_is_one() {
        let (_directory, store) = fresh();
        let (_, conversation, _) = accept(&store, &says("U1", "x", &["1"]), 0).await;
        let action = NewAction {
            token_hash: [1; 32],
            verb: "budget".into(),
            argument: "allow 1".into(),
            owner: ActionOwner::ADMINISTRATORS,
            conversation,
            expires: at(100),
        };
        store.write(move |tx| insert(tx, &[action])).await.unwrap();
        for (name, role) in [("U1", "editor"), ("U2", "admin"), ("U3", "admin")] {
            let grant = (role.into(), "*".into(), Vec::new());
            let added = store.write(move |tx| add_person(tx, name, "operator", &person(name), &grant, at(0)));
            added.await.unwrap();
        }
        let press = async |name, inbox| {
            let by = person(name);
            store
                .take_action([1; 32], &by, InboxId(inbox), at(2))
                .await
                .unwrap()
        };
        let foreign = PressOutcome::OtherOwner {
            owner: "the administrators".into(),
        };
        for (name, inbox) in [("U1", 1), ("U9", 2)] {
            assert_eq!(press(name, inbox).await, foreign);
        }
        let counted = PressOutcome::Counted {
            verb: "budget".into(),
            argument: "allow 1".into(),
            conversation,
        };
        assert_eq!(press("U2", 3).await, counted);
        assert_eq!(press("U2", 3).await, counted);
        assert_eq!(press("U3", 4).await, PressOutcome::Used);
        // The press that was counted is repeated after a crash, also if its person is no administrator any more.
        let demoted = store.write(|tx| Ok(tx.execute("UPDATE user_grant SET role = 'editor'", [])?));
        demoted.await.unwrap();
        assert_eq!(press("U2", 3).await, counted);
        assert_eq!(press("U2", 6).await, foreign);
        assert_eq!(press("U1", 5).await, foreign);
    }
}
