//! The stored amount of each kind of data, and the time for which it is kept.

use super::{ExpiringKind, FileKind, Retention, blocking, expiring_kinds, name};
use crate::state::store::{DataKind, DatabaseSize, StoreError};
use crate::state::workspace;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A time for which data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionPeriod {
    /// A number of hours.
    Hours(u32),
    /// A number of days.
    Days(u32),
    /// Unlimited, as long as the disk has room.
    ForEver,
    /// As long as other data refers to it.
    WhileNamed,
}

/// The stored amount of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The kind of data.
    pub kind: String,
    /// Number of rows or files.
    pub rows: u64,
    /// Size on disk, in bytes.
    pub bytes: u64,
    /// The time of the oldest entry, if known.
    pub oldest: Option<Timestamp>,
    /// The time for which the data is kept.
    pub kept: RetentionPeriod,
    /// The configuration key for it.
    pub key: Option<String>,
}

impl Retention {
    /// Returns the stored amount and the retention time of each kind.
    pub async fn holdings(&self) -> Result<(Vec<Holding>, DatabaseSize), StoreError> {
        let mut holdings = Vec::new();
        for ends in expiring_kinds() {
            let (rows, bytes, oldest) = match ends {
                ExpiringKind::Rows(kind) => {
                    let stored = self.store.stored_amount(kind).await?;
                    (stored.rows, stored.bytes, stored.oldest)
                }
                ExpiringKind::Files(files) => {
                    let (files, bytes) = self.files_of(files).await;
                    (files, bytes, None)
                }
            };
            let (kept, key) = self.retention_period(ends);
            holdings.push(Holding {
                kind: name(ends).to_owned(),
                rows,
                bytes,
                oldest,
                kept,
                key: key.map(str::to_owned),
            });
        }
        Ok((holdings, self.store.bytes().await?))
    }

    async fn files_of(&self, files: FileKind) -> (u64, u64) {
        let data = self.data.clone();
        let counted = blocking(move || match files {
            FileKind::Recordings => workspace::files_below(&data.join("sessions")),
            FileKind::Traces => workspace::files_below(&data.join("runs")),
            FileKind::Bases => workspace::files_below(&data.join("bases")),
            FileKind::Mirrors => workspace::files_below(&data.join("mirrors")),
        });
        counted.await.unwrap_or_default()
    }

    /// Returns the time before which data is too old; `None` if it is kept forever.
    pub(super) fn cutoff(&self, ends: ExpiringKind, at: Timestamp) -> Option<Timestamp> {
        let hours = match self.retention_period(ends).0 {
            RetentionPeriod::Hours(hours) => i64::from(hours),
            RetentionPeriod::Days(days) => i64::from(days) * 24,
            RetentionPeriod::WhileNamed => 0,
            RetentionPeriod::ForEver => return None,
        };
        at.checked_sub(SignedDuration::from_hours(hours)).ok()
    }

    fn retention_period(&self, ends: ExpiringKind) -> (RetentionPeriod, Option<&'static str>) {
        let settings = &self.settings;
        let (days, key) = match ends {
            ExpiringKind::Rows(
                DataKind::Deliveries | DataKind::Operations | DataKind::Buttons | DataKind::Logins,
            ) => {
                return (
                    RetentionPeriod::Hours(self.delivery_hours),
                    Some("data.delivery_hours_kept"),
                );
            }
            ExpiringKind::Rows(DataKind::Contents) => return (RetentionPeriod::WhileNamed, None),
            ExpiringKind::Rows(DataKind::DeadLetters) => {
                (settings.dead_letter_days, "retention.dead_letter_days_kept")
            }
            ExpiringKind::Rows(DataKind::Invites) => (settings.invite_days, "retention.invite_days_kept"),
            ExpiringKind::Rows(
                DataKind::Messages | DataKind::PersonMessages | DataKind::Runs | DataKind::Conversations,
            ) => (settings.message_days, "retention.message_days_kept"),
            ExpiringKind::Rows(
                DataKind::Usage | DataKind::Reservations | DataKind::BudgetRequests | DataKind::Allowances,
            ) => (settings.usage_days, "retention.usage_days_kept"),
            ExpiringKind::Rows(DataKind::Edits | DataKind::Changes) => {
                (settings.change_days, "retention.change_days_kept")
            }
            ExpiringKind::Rows(DataKind::Audit) => (settings.audit_days, "retention.audit_days_kept"),
            ExpiringKind::Files(FileKind::Recordings | FileKind::Traces) => {
                (settings.recording_days, "retention.recording_days_kept")
            }
            ExpiringKind::Files(FileKind::Bases) => (settings.base_days, "retention.base_days_kept"),
            ExpiringKind::Files(FileKind::Mirrors) => (settings.mirror_days, "retention.mirror_days_kept"),
        };
        (
            days.map_or(RetentionPeriod::ForEver, RetentionPeriod::Days),
            Some(key),
        )
    }
}
