//! The watch of one run by a program: its whole state at once and after each change, up to its end. Whether the person of the
//! token may see the run is checked again before each event.

use super::answer::{answered, no_place};
use super::places::ApiPlace;
use super::{ApiRefusal, RunApi, RunDocument};
use crate::base::model::{RunId, Secret};
use crate::engine::gateway::handover::HandoverAnswer;
use crate::state::access::{Identity, TokenScope};
use crate::state::store::RunRow;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The time after which an event without content shows that the watch goes on.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWatchEvent {
    /// The state of the run, as JSON.
    State(String),
    /// Nothing has changed for a while.
    Silence,
    /// The run has ended, and its last state was an event.
    End,
}

/// The watch of a run. Dropping it makes room for another one.
pub struct RunWatch {
    api: Arc<RunApi>,
    token: Secret,
    id: RunId,
    person: Identity,
    repository: String,
    moved: watch::Receiver<u64>,
    shown: Option<i64>,
    phase: WatchPhase,
    _place: ApiPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    Following,
    /// The last state of the run was an event.
    Ended,
    Over,
}

impl RunApi {
    /// Begins to watch a run. The error is the answer to the request.
    pub async fn watch(
        self: &Arc<Self>,
        token: &str,
        id: RunId,
        at: Timestamp,
    ) -> Result<RunWatch, HandoverAnswer> {
        // What moves from now on is not missed.
        let moved = self.runs.moved.subscribe();
        let (person, row) = match self.seen(token, id, at).await {
            Ok(seen) => seen,
            Err(refusal) => return Err(answered(Err(refusal), "the watch of a run")),
        };
        let place = self.watches.take(person.user());
        let place = place.ok_or_else(|| answered(Err(no_place("watches of runs")), "the watch of a run"))?;
        Ok(RunWatch {
            api: Arc::clone(self),
            token: Secret::new(token.to_owned()),
            id,
            person,
            repository: row.head.repository,
            moved,
            shown: None,
            phase: WatchPhase::Following,
            _place: place,
        })
    }

    async fn seen(&self, token: &str, id: RunId, at: Timestamp) -> Result<(Identity, RunRow), ApiRefusal> {
        let person = self.person(token, TokenScope::RunsRead, at).await?;
        let row = self.visible(&person, id).await?;
        Ok((person, row))
    }
}

impl RunWatch {
    /// Returns the next event; `None` after the end of the run, and once the person may not see it any more. A call that is
    /// dropped loses no event.
    pub async fn next(&mut self) -> Option<RunWatchEvent> {
        match self.phase {
            WatchPhase::Over => return None,
            WatchPhase::Ended => {
                self.phase = WatchPhase::Over;
                return Some(RunWatchEvent::End);
            }
            WatchPhase::Following => {}
        }
        let event = self.follow().await;
        if event.is_none() {
            self.phase = WatchPhase::Over;
        }
        event
    }

    async fn follow(&mut self) -> Option<RunWatchEvent> {
        let silent_until = Instant::now() + SILENCE_MAX;
        loop {
            let version = self.api.parts.store.run_version(self.id).await;
            let is_new = version.is_ok_and(|version| version.is_none() || version != self.shown);
            if is_new {
                return self.state().await;
            }
            tokio::select! {
                moved = self.moved.changed() => moved.ok()?,
                () = self.person.wait_until_locked_out(&self.repository) => return None,
                () = sleep_until(silent_until) => {
                    self.permitted().await?;
                    return Some(RunWatchEvent::Silence);
                }
            }
        }
    }

    /// Returns the state of the run as an event.
    async fn state(&mut self) -> Option<RunWatchEvent> {
        let row = self.permitted().await?;
        let document = RunDocument::of(&row, &self.api.parts.redactor);
        let document = serde_json::to_string(&document).ok()?;
        self.shown = Some(row.version);
        if row.head.status.is_end() {
            self.phase = WatchPhase::Ended;
        }
        Some(RunWatchEvent::State(document))
    }

    /// Returns the run if the token still permits to see it.
    async fn permitted(&self) -> Option<RunRow> {
        let at = (self.api.parts.now)();
        let seen = self.api.seen(self.token.expose(), self.id, at).await;
        seen.ok().map(|(_, row)| row)
    }
}
