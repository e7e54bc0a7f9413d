//! Retention of each kind of data. Rounds remove old data in small steps while other work runs. An interrupted round
//! leaves everything consistent, and the next one continues.

use crate::base::config::{DataSettings, RetentionSettings};
use crate::state::recording;
use crate::state::store::{DataKind, DatabaseSize, Prune, PrunePosition, Store, StoreError};
use crate::state::workspace::{self, UnusedMirrors};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Pause between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(3_600);
/// Longest duration of a round. The next one continues where it ended.
const ROUND_MAX: Duration = Duration::from_secs(600);
/// Longest time until an operator's request is answered. The operator repeats it until all is done.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// Longest time for which an operator waits for a running round.
const TURN_MAX: Duration = Duration::from_secs(15);
/// The time by which the clock may move between two rounds beyond the time that passed.
const LEAP_MAX: SignedDuration = SignedDuration::from_hours(24);
/// Pause between two slices with writes, so that other writes get through.
const PAUSE: Duration = Duration::from_millis(5);

/// The kinds of data with a retention time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpiringKind {
    Rows(DataKind),
    Files(FileKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Recordings,
    Traces,
    Bases,
    Mirrors,
}

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

/// The removed amount of one kind, or the amount to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedAmount {
    /// The kind of data.
    pub kind: String,
    /// Number of rows or files.
    pub rows: u64,
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The removed amounts by kind, without empty ones.
    pub pruned: Vec<PrunedAmount>,
    /// The failures, each with its reason.
    pub failed: Vec<String>,
    /// True if the round is complete.
    pub is_done: bool,
}

#[derive(Debug, Default)]
struct RoundProgress {
    ended: usize,
    position: PrunePosition,
    recording: Option<String>,
}

/// The clock for rounds. It follows the system clock, but between two rounds it moves at most [`LEAP_MAX`] beyond the
/// time that passed. Otherwise a clock that jumps ahead would remove everything at once. A correct clock is reached
/// within a few rounds.
#[derive(Debug)]
struct RoundClock {
    last: Timestamp,
    read_at: Instant,
}

impl RoundClock {
    fn follow(&mut self, now: Timestamp, read_at: Instant) -> Timestamp {
        let passed = SignedDuration::try_from(read_at.saturating_duration_since(self.read_at));
        let most = passed.unwrap_or(SignedDuration::ZERO).saturating_add(LEAP_MAX);
        let most = self.last.saturating_add(most).unwrap_or(Timestamp::MAX);
        if now > most {
            warn!("the clock is far ahead of the last stored time; old data is removed later");
        }
        *self = Self {
            last: now.min(most),
            read_at,
        };
        self.last
    }
}

/// The choice of an operator between a new round and the one under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundStart {
    /// Start with the first kind.
    Anew,
    /// Continue where the previous request ended.
    GoOn,
}

/// The service that removes data older than its retention time.
pub struct Retention {
    store: Store,
    data: PathBuf,
    settings: RetentionSettings,
    delivery_hours: u32,
    repositories: BTreeSet<String>,
    /// A permit for one round at a time.
    turn: Semaphore,
    /// The progress of an operator's round, which runs in several requests.
    requested: Mutex<RoundProgress>,
}

impl Retention {
    /// Creates the service with these settings. `repositories` are the configured ones.
    pub fn new(
        store: Store,
        data: &DataSettings,
        settings: RetentionSettings,
        repositories: BTreeSet<String>,
    ) -> Self {
        Self {
            store,
            data: data.directory.clone(),
            settings,
            delivery_hours: data.delivery_hours_kept,
            repositories,
            turn: Semaphore::new(1),
            requested: Mutex::default(),
        }
    }

    /// Removes unfinished files of a killed process. Call it only before new ones are made.
    pub async fn clear_unfinished(&self) {
        let bases = self.data.join("bases");
        let cleared = tokio::task::spawn_blocking(move || workspace::clear_unfinished(&bases)).await;
        if let Ok(Err(error)) = cleared {
            warn!(%error, "files of an interrupted packing remain");
        }
    }

    /// Removes old data once an hour until `cancel`.
    pub async fn run(self: Arc<Self>, now: fn() -> Timestamp, cancel: CancellationToken) {
        let mut pass = RoundProgress::default();
        let mut followed = None;
        loop {
            let round = async {
                let Ok(turn) = self.turn.acquire().await else {
                    return;
                };
                match self.time(&mut followed, now()).await {
                    Ok(at) => {
                        let until = Instant::now() + ROUND_MAX;
                        let round = self.round(&mut pass, Prune::Remove, at, until).await;
                        log_round(&round);
                        if round.is_done {
                            pass = RoundProgress::default();
                        }
                    }
                    Err(error) => warn!(%error, "old data is not removed now"),
                }
                drop(turn);
                tokio::time::sleep(ROUND_EVERY).await;
            };
            tokio::select! {
                () = round => {}
                () = cancel.cancelled() => return,
            }
        }
    }

    /// Returns the time that a round uses.
    async fn time(&self, followed: &mut Option<RoundClock>, now: Timestamp) -> Result<Timestamp, StoreError> {
        let read_at = Instant::now();
        let followed = match followed {
            Some(followed) => followed,
            None => followed.insert(RoundClock {
                last: self.store.newest().await?.unwrap_or(now),
                read_at,
            }),
        };
        Ok(followed.follow(now, read_at))
    }

    /// Runs some seconds of a round that an operator requested.
    pub async fn run_requested(
        &self,
        begin: RoundStart,
        prune: Prune,
        at: Timestamp,
    ) -> Result<Round, String> {
        let _turn = self.acquire_round().await?;
        let mut pass = {
            let mut asked = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
            match begin {
                RoundStart::Anew => RoundProgress::default(),
                RoundStart::GoOn => std::mem::take(&mut *asked),
            }
        };
        let round = self
            .round(&mut pass, prune, at, Instant::now() + EXCHANGE_MAX)
            .await;
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner) = pass;
        Ok(round)
    }

    async fn acquire_round(&self) -> Result<SemaphorePermit<'_>, String> {
        match tokio::time::timeout(TURN_MAX, self.turn.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err("old data is being removed already; ask again in a minute".to_owned()),
        }
    }

    /// Continues a pass over all kinds of data until `until`.
    async fn round(&self, pass: &mut RoundProgress, prune: Prune, at: Timestamp, until: Instant) -> Round {
        let mut round = Round::default();
        while let Some(ends) = expiring_kinds().nth(pass.ended) {
            if Instant::now() >= until {
                return round;
            }
            let slice = match (self.cutoff(ends, at), ends) {
                // Their number and their size are bounded as well.
                (before, ExpiringKind::Files(FileKind::Traces)) => self.traces(before, prune).await,
                (None, _) => Ok((0, true)),
                (Some(before), ExpiringKind::Rows(kind)) => self.rows(kind, before, pass, prune, at).await,
                (Some(before), ExpiringKind::Files(files)) => {
                    self.files(files, before, pass, prune, at).await
                }
            };
            let (rows, is_end) = slice.unwrap_or_else(|why| {
                round.failed.push(format!("{}: {why}", name(ends)));
                (0, true)
            });
            round.count(ends, rows);
            if is_end {
                *pass = RoundProgress {
                    ended: pass.ended + 1,
                    ..RoundProgress::default()
                };
            }
            if rows > 0 && prune == Prune::Remove {
                tokio::time::sleep(PAUSE).await;
            }
        }
        round.is_done = true;
        round
    }

    async fn rows(
        &self,
        kind: DataKind,
        before: Timestamp,
        pass: &mut RoundProgress,
        prune: Prune,
        at: Timestamp,
    ) -> Result<(u64, bool), String> {
        let slice = self
            .store
            .prune_slice(kind, before, &pass.position, prune, at)
            .await;
        let slice = slice.map_err(|error| error.to_string())?;
        let is_end = slice.next.is_none();
        pass.position = slice.next.unwrap_or_default();
        Ok((slice.rows, is_end))
    }

    async fn files(
        &self,
        files: FileKind,
        before: Timestamp,
        pass: &mut RoundProgress,
        prune: Prune,
        at: Timestamp,
    ) -> Result<(u64, bool), String> {
        let data = self.data.clone();
        match files {
            FileKind::Recordings => {
                let after = pass.recording.take();
                let shortened =
                    blocking(move || recording::shorten(&data, before, after.as_deref(), prune)).await?;
                pass.recording = shortened.next;
                Ok((shortened.files, pass.recording.is_none()))
            }
            FileKind::Traces => self.traces(Some(before), prune).await,
            FileKind::Bases => self.bases(before, prune).await.map(|rows| (rows, true)),
            FileKind::Mirrors => {
                let configured = self.repositories.clone();
                let gone = blocking(move || {
                    let unused = UnusedMirrors::new(&data);
                    if prune == Prune::Remove {
                        unused.note(&configured, at)?;
                    }
                    let names = unused.unused_since(&configured, before)?;
                    if prune == Prune::Remove {
                        names.iter().try_for_each(|name| unused.remove(name))?;
                    }
                    Ok::<_, std::io::Error>(names.len())
                });
                Ok((u64::try_from(gone.await?).unwrap_or(u64::MAX), true))
            }
        }
    }

    /// Removes the traces of old runs, and of the oldest ones while there are too many.
    async fn traces(&self, before: Option<Timestamp>, prune: Prune) -> Result<(u64, bool), String> {
        let data = self.data.clone();
        let runs = blocking(move || recording::prune_traces(&data, before, prune)).await?;
        Ok((runs, true))
    }

    /// Removes old packed commits that no conversation uses.
    async fn bases(&self, before: Timestamp, prune: Prune) -> Result<u64, String> {
        let bases = self.data.join("bases");
        let mut rows = 0;
        for repository in &self.repositories {
            let (there, name) = (bases.clone(), repository.clone());
            let old = blocking(move || workspace::old_packs(&there, &name, SystemTime::from(before))).await?;
            let free = self.store.unused_commits(repository, old).await;
            for commit in free.map_err(|error| error.to_string())? {
                let (there, name) = (bases.clone(), repository.clone());
                if prune == Prune::Remove {
                    blocking(move || workspace::remove_pack(&there, &name, &commit)).await?;
                }
                rows += 1;
            }
        }
        Ok(rows)
    }

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
    fn cutoff(&self, ends: ExpiringKind, at: Timestamp) -> Option<Timestamp> {
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

impl Round {
    fn count(&mut self, ends: ExpiringKind, rows: u64) {
        if rows == 0 {
            return;
        }
        let kind = name(ends);
        match self.pruned.iter_mut().find(|pruned| pruned.kind == kind) {
            Some(pruned) => pruned.rows += rows,
            None => self.pruned.push(PrunedAmount {
                kind: kind.to_owned(),
                rows,
            }),
        }
    }
}

/// Returns all kinds with a retention time. The order lets each kind release data of later ones.
fn expiring_kinds() -> impl Iterator<Item = ExpiringKind> {
    let rows = DataKind::ALL.into_iter().map(ExpiringKind::Rows);
    let files = [
        FileKind::Recordings,
        FileKind::Traces,
        FileKind::Bases,
        FileKind::Mirrors,
    ];
    rows.chain(files.into_iter().map(ExpiringKind::Files))
}

fn name(ends: ExpiringKind) -> &'static str {
    match ends {
        ExpiringKind::Rows(kind) => kind.name(),
        ExpiringKind::Files(FileKind::Recordings) => "recordings",
        ExpiringKind::Files(FileKind::Traces) => "traces",
        ExpiringKind::Files(FileKind::Bases) => "bases",
        ExpiringKind::Files(FileKind::Mirrors) => "mirrors",
    }
}

fn log_round(round: &Round) {
    for why in &round.failed {
        warn!("old data could not be removed: {why}");
    }
    for PrunedAmount { kind, rows } in &round.pruned {
        info!(
            kind,
            rows, "removed data older than its retention: {rows} of {kind}"
        );
    }
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static, E: std::fmt::Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::RoundClock;
    use jiff::Timestamp;
    use std::time::Duration;
    use tokio::time::Instant;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 3_600 * hour).unwrap()
    }

    /// R20, R29
    #[test]
    fn a_clock_that_jumps_ahead_does_not_end_everything_at_once() {
        let start = Instant::now();
        let mut followed = RoundClock {
            last: at(0),
            read_at: start,
        };
        let mut read = |hour, passed| followed.follow(at(hour), start + Duration::from_hours(passed));
        assert_eq!(read(1, 1), at(1));
        // The clock is ten years ahead for two rounds, and is then corrected.
        assert_eq!(read(87_600, 2), at(26));
        assert_eq!(read(87_601, 3), at(51));
        assert_eq!(read(4, 4), at(4));
        assert_eq!(read(5, 5), at(5));
        // After a week without a process, the clock is right and is reached within a few rounds.
        let rounds: Vec<Timestamp> = (0..10)
            .map(|round| read(206 + round, 6 + round.unsigned_abs()))
            .collect();
        assert_eq!(rounds[0], at(30));
        assert_eq!(rounds[9], at(215));
    }
}
