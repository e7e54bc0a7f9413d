//! Retention of each kind of data. Rounds remove old data in small steps while other work runs. An interrupted round
//! leaves everything consistent, and the next one continues.

mod clock;
mod holdings;

use clock::RoundClock;
pub use holdings::{Holding, RetentionPeriod};

use crate::base::config::{DataSettings, RetentionSettings};
use crate::state::recording;
use crate::state::store::{DataKind, Prune, PrunePosition, Store, StoreError};
use crate::state::workspace::{self, UnusedMirrors};
use jiff::Timestamp;
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
