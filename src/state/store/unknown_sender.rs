//! Notices to unknown senders, in a bounded table. Each sender gets one notice a day, and the number of notices a day
//! is at most the number of rows.

use super::audit::audit_in;
use super::column::{json, millis};
use super::{Store, StoreError};
use crate::base::model::Sender;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

/// The time for which a notice counts, in milliseconds.
pub(crate) const NOTICE_MS: i64 = 24 * 60 * 60 * 1_000;

/// The decision whether an unknown sender gets a notice now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeDecision {
    /// The notice may be sent, and is recorded.
    Now,
    /// The sender got a notice less than a day ago.
    Before,
    /// The limit is reached: as many senders as are remembered got a notice within a day. This sender gets none.
    Full,
}

impl Store {
    /// Records and audits a notice to an unknown sender, unless this sender or `remembered_max` others got one within a
    /// day. Older rows are replaced.
    pub(crate) async fn notice(
        &self,
        sender: &Sender,
        remembered_max: usize,
        at: Timestamp,
    ) -> Result<NoticeDecision, StoreError> {
        let sender = sender.clone();
        self.write(move |tx| {
            let key = json(&sender)?;
            let day_ago = millis(at).saturating_sub(NOTICE_MS);
            let noticed_at: Option<i64> = tx
                .prepare_cached("SELECT noticed_at FROM stranger WHERE sender = ?1")?
                .query_row([&key], |row| row.get(0))
                .optional()?;
            match noticed_at {
                Some(noticed_at) if noticed_at > day_ago => return Ok(NoticeDecision::Before),
                Some(_) => {}
                None => {
                    let rows: i64 = tx
                        .prepare_cached("SELECT COUNT(*) FROM stranger")?
                        .query_row([], |row| row.get(0))?;
                    if usize::try_from(rows).unwrap_or(usize::MAX) >= remembered_max {
                        let evicted = tx
                            .prepare_cached(
                                "DELETE FROM stranger WHERE sender IN
                                   (SELECT sender FROM stranger WHERE noticed_at <= ?1 ORDER BY noticed_at LIMIT 64)",
                            )?
                            .execute([day_ago])?;
                        if evicted == 0 {
                            return Ok(NoticeDecision::Full);
                        }
                    }
                }
            }
            tx.prepare_cached(
                "INSERT INTO stranger (sender, noticed_at) VALUES (?1, ?2)
                 ON CONFLICT (sender) DO UPDATE SET noticed_at = excluded.noticed_at",
            )?
            .execute(params![key, millis(at)])?;
            audit_in(tx, "auth.denied", serde_json::json!({ "sender": sender.to_string() }), at)?;
            Ok(NoticeDecision::Now)
        })
        .await
    }
}
