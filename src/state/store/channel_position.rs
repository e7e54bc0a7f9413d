//! The positions of channels among the messages of their platforms, and the private chats in which they can look for
//! messages that they missed.

use super::column::{json, time};
use super::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

/// The beginning of a person's conversation in a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadBeginning {
    /// The thread.
    pub thread: String,
    /// The account of the person.
    pub person: String,
    /// The time at which the conversation began, or at which the person joined that of another.
    pub at: Timestamp,
}

impl Store {
    /// Returns the stored position of a channel.
    pub async fn channel_position(&self, channel: &str) -> Result<Option<String>, StoreError> {
        let channel = channel.to_owned();
        self.read(move |tx| {
            let position = tx
                .prepare_cached("SELECT position FROM channel_position WHERE channel = ?1")?
                .query_row([channel], |row| row.get(0))
                .optional()?;
            Ok(position)
        })
        .await
    }

    /// Stores the position of a channel. This does not wait for the disk. An earlier position is never wrong, and a later
    /// one is never stored before the messages up to it.
    pub async fn set_channel_position(&self, channel: &str, position: String) -> Result<(), StoreError> {
        let channel = channel.to_owned();
        self.write_unsynced(move |tx| {
            tx.prepare_cached(
                "INSERT INTO channel_position (channel, position) VALUES (?1, ?2)
                 ON CONFLICT (channel) DO UPDATE SET position = excluded.position",
            )?
            .execute(params![channel, position])?;
            Ok(())
        })
        .await
    }

    /// Returns the private chats of a channel in which people have conversations, those of the newest messages first.
    pub async fn direct_chats(&self, channel: &str, count_max: usize) -> Result<Vec<String>, StoreError> {
        let channel = channel.to_owned();
        let count = i64::try_from(count_max).unwrap_or(i64::MAX);
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT json_extract(key, '$[5]') AS chat FROM conversation WHERE channel = ?1 AND direct = 1
                 GROUP BY chat ORDER BY MAX(COALESCE(spoken_at, created_at)) DESC, chat LIMIT ?2",
            )?;
            let chats = statement.query_map(params![channel, count], |row| row.get(0))?;
            Ok(chats.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns the beginnings of the conversations with requests in some threads of a channel.
    pub async fn thread_conversations(
        &self,
        channel: &str,
        threads: Vec<String>,
    ) -> Result<Vec<ThreadBeginning>, StoreError> {
        let channel = channel.to_owned();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "WITH found AS (SELECT id, json_extract(key, '$[6]') AS thread, json_extract(key, '$[2]') AS person,
                     created_at FROM conversation
                   WHERE channel = ?1 AND spoken_at IS NOT NULL
                     AND json_extract(key, '$[6]') IN (SELECT value FROM json_each(?2)))
                 SELECT thread, person, created_at FROM found
                 UNION ALL
                 SELECT found.thread, json_extract(member.sender, '$.id'), member.joined_at
                   FROM thread_member AS member JOIN found ON found.id = member.conversation
                 ORDER BY 1, 3, 2",
            )?;
            let mut rows = statement.query(params![channel, json(&threads)?])?;
            let mut beginnings = Vec::new();
            while let Some(row) = rows.next()? {
                beginnings.push(ThreadBeginning {
                    thread: row.get(0)?,
                    person: row.get(1)?,
                    at: time(row.get(2)?)?,
                });
            }
            Ok(beginnings)
        })
        .await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ThreadBeginning;
    use crate::state::store::fixture::{accept, at, fresh, says};

    #[tokio::test]
    async fn the_last_position_of_each_channel_and_the_newest_private_chats_are_returned() {
        let (_directory, store) = fresh();
        assert_eq!(store.channel_position("discord").await, Ok(None));
        for (channel, position) in [("discord", "1"), ("other", "7"), ("discord", "2")] {
            store
                .set_channel_position(channel, position.to_owned())
                .await
                .unwrap();
        }
        assert_eq!(store.channel_position("discord").await, Ok(Some("2".to_owned())));
        assert_eq!(store.channel_position("other").await, Ok(Some("7".to_owned())));
        for (second, chat, is_direct) in [
            (1, "D1", true),
            (2, "C1", false),
            (3, "D2", true),
            (4, "D1", true),
        ] {
            let mut inbound = says("U1", "please", &[&format!("m{second}")]);
            inbound.channel = "discord".to_owned();
            inbound.place.chat = chat.to_owned();
            inbound.place.thread = (!is_direct).then(|| "9".to_owned());
            inbound.direct = is_direct;
            accept(&store, &inbound, second).await;
        }
        assert_eq!(
            store.direct_chats("discord", 5).await,
            Ok(vec!["D1".to_owned(), "D2".to_owned()])
        );
        assert_eq!(store.direct_chats("discord", 1).await, Ok(vec!["D1".to_owned()]));
        assert_eq!(store.direct_chats("other", 5).await, Ok(Vec::new()));
        let begun = store.thread_conversations("discord", vec!["9".to_owned(), "8".to_owned()]);
        let expected = ThreadBeginning {
            thread: "9".to_owned(),
            person: "U1".to_owned(),
            at: at(2),
        };
        assert_eq!(begun.await, Ok(vec![expected]));
        let other = store.thread_conversations("discord", vec!["8".to_owned()]);
        assert_eq!(other.await, Ok(Vec::new()));
    }
}
