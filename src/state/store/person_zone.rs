//! The time zones that people have chosen. The revocation of a person removes theirs.

use super::command::apply_once;
use super::{Store, StoreError};
use crate::base::model::{InboxId, UserId};
use crate::crash_point;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// A command of a person that took effect later than the command `?2`, which stored or removed their time zone. The few
/// messages since then are read.
const LATER_COMMAND: &str = r#"SELECT 1 FROM inbox CROSS JOIN conversation ON conversation.id = inbox.conversation
    JOIN identity ON identity.sender = conversation.sender
    WHERE inbox.id > ?2 AND inbox.effect GLOB '{"own_zone":*' AND identity.user_id = ?1"#;

/// The recorded effect of a command about a time zone: the zone of the person after it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ZoneEffect {
    /// The zone with its name, which begins the stored text. [`LATER_COMMAND`] finds it by that.
    Named {
        /// The zone.
        own_zone: Option<String>,
    },
    /// The zone alone, as an earlier version recorded it.
    Plain(Option<String>),
}

impl ZoneEffect {
    fn into_zone(self) -> Option<String> {
        match self {
            Self::Named { own_zone } | Self::Plain(own_zone) => own_zone,
        }
    }
}

impl Store {
    /// Returns the time zone of a person; `None` if they have chosen none.
    pub async fn zone_of(&self, person: UserId) -> Result<Option<String>, StoreError> {
        self.read(move |tx| stored_zone(tx, person)).await
    }

    /// Stores the time zone of a person, or removes it, and returns the one that they have then. `inbox` is the command; a
    /// repeated run returns the first result. If a later command of the person took effect before, its zone stays: commands
    /// run in parallel, also those that a restart repeats. A revoked person has none.
    pub async fn set_zone(
        &self,
        person: UserId,
        zone: Option<String>,
        inbox: InboxId,
    ) -> Result<Option<String>, StoreError> {
        crash_point::before("effect");
        let stored = self
            .write(move |tx| apply_once(tx, inbox, || set(tx, person, zone.as_deref(), inbox)))
            .await;
        crash_point::after("effect");
        Ok(stored?.into_zone())
    }
}

fn set(
    tx: &Transaction<'_>,
    person: UserId,
    zone: Option<&str>,
    inbox: InboxId,
) -> Result<ZoneEffect, StoreError> {
    if !tx.prepare_cached(LATER_COMMAND)?.exists([person.0, inbox.0])? {
        tx.prepare_cached("UPDATE users SET zone = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
            .execute(params![person.0, zone])?;
    }
    Ok(ZoneEffect::Named {
        own_zone: stored_zone(tx, person)?,
    })
}

fn stored_zone(tx: &Transaction<'_>, person: UserId) -> Result<Option<String>, StoreError> {
    let zone = tx
        .prepare_cached("SELECT zone FROM users WHERE id = ?1")?
        .query_row([person.0], |row| row.get::<_, Option<String>>(0))
        .optional()?;
    Ok(zone.flatten())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use crate::base::model::{InboxId, UserId};
    use crate::state::store::column::json;
    use crate::state::store::fixture::{at, command, fresh, person, room, says};
    use crate::state::store::people::{add_person, revoke};
    use crate::state::store::{AcceptOutcome, QueueKind, Store};
    use rusqlite::params;

    async fn admitted(store: &Store, account: &'static str) -> UserId {
        let grant = ("viewer".to_owned(), "*".to_owned(), vec!["**".to_owned()]);
        store
            .write(move |tx| add_person(tx, account, "operator", &person(account), &grant, at(0)))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_person_has_the_zone_of_their_last_command_and_none_after_a_revocation() {
        let (_directory, store) = fresh();
        let (alice, bob) = (admitted(&store, "U1").await, admitted(&store, "U2").await);
        assert_eq!(store.zone_of(alice).await, Ok(None));
        let berlin = Some("Europe/Berlin".to_owned());
        let tokyo = Some("Asia/Tokyo".to_owned());
        let first = command(&store, "!zone Europe/Berlin", "1", 1).await;
        assert_eq!(
            store.set_zone(alice, berlin.clone(), first).await,
            Ok(berlin.clone())
        );
        let second = command(&store, "!zone Asia/Tokyo", "2", 2).await;
        assert_eq!(
            store.set_zone(alice, tokyo.clone(), second).await,
            Ok(tokyo.clone())
        );
        // The first command runs again after a crash.
        assert_eq!(store.set_zone(alice, berlin.clone(), first).await, Ok(berlin));
        assert_eq!(store.zone_of(alice).await, Ok(tokyo.clone()));
        assert_eq!(store.zone_of(bob).await, Ok(None));

        let third = command(&store, "!zone server", "3", 3).await;
        assert_eq!(store.set_zone(alice, None, third).await, Ok(None));
        assert_eq!(store.zone_of(alice).await, Ok(None));

        let fourth = command(&store, "!zone Asia/Tokyo", "4", 4).await;
        store.set_zone(alice, tokyo.clone(), fourth).await.unwrap();
        store.write(move |tx| revoke(tx, alice, at(5))).await.unwrap();
        assert_eq!(store.zone_of(alice).await, Ok(None));
        let fifth = command(&store, "!zone Asia/Tokyo", "5", 6).await;
        assert_eq!(store.set_zone(alice, tokyo, fifth).await, Ok(None));
        assert_eq!(store.zone_of(alice).await, Ok(None));
    }

    /// Accepts a command of an account.
    async fn command_of(store: &Store, account: &str, delivery: &str) -> InboxId {
        let inbound = says(account, "!zone", &[delivery]);
        let accepted = store.accept(&inbound, QueueKind::Change, room(20), None, at(1));
        match accepted.await.unwrap() {
            AcceptOutcome::Stored { inbox, .. } => inbox,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_later_of_two_commands_about_a_zone_wins_whichever_runs_first_and_after_a_restart() {
        let (directory, store) = fresh();
        let alice = admitted(&store, "U1").await;
        let bob = admitted(&store, "U2").await;
        // Another account of the same person.
        let second = json(&person("U7")).unwrap();
        let added = store.write(move |tx| {
            let insert = "INSERT INTO identity (sender, user_id, created_at) VALUES (?1, ?2, 0)";
            Ok(tx.execute(insert, params![second, alice.0])?)
        });
        assert_eq!(added.await, Ok(1));
        let zone = |name: &str| Some(name.to_owned());
        let berlin = command_of(&store, "U1", "1").await;
        let tokyo = command_of(&store, "U7", "2").await;
        let lima = command_of(&store, "U1", "3").await;
        let of_bob = command_of(&store, "U2", "4").await;
        let london = zone("Europe/London");
        assert_eq!(
            store.set_zone(bob, london.clone(), of_bob).await,
            Ok(london.clone())
        );

        assert_eq!(
            store.set_zone(alice, zone("Asia/Tokyo"), tokyo).await,
            Ok(zone("Asia/Tokyo"))
        );
        // The process ended before the first command ran.
        drop(store);
        let store = Store::open(directory.path()).unwrap();
        for _ in 0..2 {
            assert_eq!(
                store.set_zone(alice, zone("Europe/Berlin"), berlin).await,
                Ok(zone("Asia/Tokyo"))
            );
            assert_eq!(store.zone_of(alice).await, Ok(zone("Asia/Tokyo")));
        }
        assert_eq!(
            store.set_zone(alice, zone("America/Lima"), lima).await,
            Ok(zone("America/Lima"))
        );
        assert_eq!(store.zone_of(alice).await, Ok(zone("America/Lima")));
        assert_eq!(store.zone_of(bob).await, Ok(london));

        // A removal counts like a choice.
        let early = command_of(&store, "U1", "5").await;
        let removal = command_of(&store, "U7", "6").await;
        assert_eq!(store.set_zone(alice, None, removal).await, Ok(None));
        assert_eq!(store.set_zone(alice, zone("Asia/Tokyo"), early).await, Ok(None));
        assert_eq!(store.zone_of(alice).await, Ok(None));
    }

    #[tokio::test]
    async fn a_command_that_took_effect_in_an_earlier_version_is_answered_and_changes_nothing() {
        let (_directory, store) = fresh();
        let alice = admitted(&store, "U1").await;
        let berlin = Some("Europe/Berlin".to_owned());
        for (recorded, delivery, zone) in [(r#""Europe/Berlin""#, "1", berlin), ("null", "2", None)] {
            let inbox = command_of(&store, "U1", delivery).await;
            let earlier = store.write(move |tx| {
                let record = "UPDATE inbox SET effect = ?2 WHERE id = ?1";
                Ok(tx.execute(record, params![inbox.0, recorded])?)
            });
            assert_eq!(earlier.await, Ok(1));
            let again = Some("Asia/Tokyo".to_owned());
            assert_eq!(store.set_zone(alice, again, inbox).await, Ok(zone), "{recorded}");
            assert_eq!(store.zone_of(alice).await, Ok(None));
        }
    }
}
