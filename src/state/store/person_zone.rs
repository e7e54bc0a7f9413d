//! The time zones that people have chosen. The revocation of a person removes theirs.

use super::command::apply_once;
use super::{Store, StoreError};
use crate::base::model::{InboxId, UserId};
use crate::crash_point;
use rusqlite::{OptionalExtension, params};

impl Store {
    /// Returns the time zone of a person; `None` if they have chosen none.
    pub async fn zone_of(&self, person: UserId) -> Result<Option<String>, StoreError> {
        self.read(move |tx| {
            let zone = tx
                .prepare_cached("SELECT zone FROM users WHERE id = ?1")?
                .query_row([person.0], |row| row.get::<_, Option<String>>(0))
                .optional()?;
            Ok(zone.flatten())
        })
        .await
    }

    /// Stores the time zone of a person, or removes it, and returns it. `inbox` is the command; a repeated run returns the
    /// first result. A revoked person has none.
    pub async fn set_zone(
        &self,
        person: UserId,
        zone: Option<String>,
        inbox: InboxId,
    ) -> Result<Option<String>, StoreError> {
        crash_point::before("effect");
        let stored = self
            .write(move |tx| {
                apply_once(tx, inbox, || {
                    tx.prepare_cached("UPDATE users SET zone = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
                        .execute(params![person.0, zone])?;
                    Ok(zone)
                })
            })
            .await;
        crash_point::after("effect");
        stored
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::UserId;
    use crate::state::store::Store;
    use crate::state::store::fixture::{at, command, fresh, person};
    use crate::state::store::people::{add_person, revoke};

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
        store.set_zone(alice, tokyo, fifth).await.unwrap();
        assert_eq!(store.zone_of(alice).await, Ok(None));
    }
}
