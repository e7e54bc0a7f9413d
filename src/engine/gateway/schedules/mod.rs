//! The times of schedules. One task sleeps until the next time of any schedule, or until one changes. A time that comes
//! stores a message, which then takes the way of all others; see `store/schedule`.

mod follow;
mod request;
mod start;

pub(super) use request::{ScheduleRequest, ScheduleVerb, USAGE, own_times, parse};
pub use start::{ScheduleStartError, start_now};

use super::active_turns::ActiveTurns;
use super::clock_watch::{ClockLook, ClockWatch};
use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::runs::PipelineDefinitions;
use super::scheduler::TurnScheduler;
use crate::base::config::ScheduleSettings;
use crate::base::model::{ChatPlace, FireOutcome, MissedRule, ScheduleDefinition, Sender};
use crate::base::recurrence::Recurrence;
use crate::state::store::{
    ConfiguredSchedule, FireResult, FireStart, FireWork, NewTime, PipelineScheduleOwner, ScheduleEdit,
    ScheduleRow, StoppedWork, Store, StoreError,
};
use jiff::{SignedDuration, Timestamp};
use start::{message, notice, pause_text};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The most schedules that are read at a time.
const DUE_AT_ONCE_MAX: u32 = 100;
/// A time that is later than this has been missed, because no server ran.
const LATENESS_MAX: SignedDuration = SignedDuration::from_secs(90);
/// The one who turns a schedule off, for the audit log.
const BY: &str = "drydock";
/// The reason why a schedule is off whose results have no way to its chat.
const NO_CHANNEL: &str = "its channel is not configured any more";

/// The watch of the times.
pub struct Schedules {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    scheduler: Arc<TurnScheduler>,
    active_turns: ActiveTurns,
    definitions: Arc<PipelineDefinitions>,
    changed: Arc<Notify>,
}

/// Stores the schedules of the configuration, and removes those that are in it no longer. Those of pipelines come from their
/// definitions once these are read.
pub async fn store_configured(
    store: &Store,
    configured: &BTreeMap<String, ScheduleSettings>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let requests = configured
        .iter()
        .filter(|(_, settings)| !settings.starts_pipelines);
    let requests = requests.map(|(name, settings)| ConfiguredSchedule {
        owner: Sender::of_schedule(name),
        name: name.clone(),
        definition: settings.definition.clone(),
    });
    let pipelines = configured
        .iter()
        .filter(|(_, settings)| settings.starts_pipelines);
    let pipelines = pipelines.map(|(name, settings)| PipelineScheduleOwner {
        owner: Sender::of_schedule(name),
        settings: settings.definition.clone(),
    });
    store
        .store_configured_schedules(requests.collect(), pipelines.collect(), (at, next_time))
        .await
}

impl Schedules {
    pub(super) fn new(
        parts: &Arc<Parts>,
        outgoing: &Arc<OutgoingMessages>,
        (scheduler, active_turns): (&Arc<TurnScheduler>, ActiveTurns),
        definitions: &Arc<PipelineDefinitions>,
    ) -> Self {
        Self {
            parts: Arc::clone(parts),
            outgoing: Arc::clone(outgoing),
            scheduler: Arc::clone(scheduler),
            active_turns,
            definitions: Arc::clone(definitions),
            changed: Arc::default(),
        }
    }

    /// Makes the watch look at all times again, because a schedule or the clock has changed, and starts work that one has
    /// stored.
    pub fn wake(&self) {
        self.changed.notify_one();
        self.outgoing.wake();
        self.scheduler.wake();
        // A change of a schedule may have cancelled runs.
        self.scheduler.runs_changed().notify_one();
    }

    /// Ends the turns of work that a change of its schedule has stopped. One that has not begun yet finds the stored stop.
    pub fn stop(&self, stopped: &[StoppedWork]) {
        for work in stopped {
            self.active_turns.stop(work.conversation, work.message);
        }
    }

    /// Fires the times that come until `cancel`.
    pub async fn watch(self: Arc<Self>, cancel: CancellationToken) {
        let mut watch = ClockWatch::new(self.parts.now, Arc::clone(&self.changed), cancel);
        while let Some(look) = watch.look() {
            let next = self.fire_all(look).await;
            watch.wait(next, "no schedule can fire; it is tried again").await;
        }
    }

    /// Fires all schedules that are due, and returns the next time of any. At the start, and when the clock went back,
    /// schedules that wait for a time too late get an earlier one first.
    async fn fire_all(&self, look: ClockLook) -> Result<Option<Timestamp>, StoreError> {
        if look.is_earlier {
            self.bring_forward(look.at).await?;
        }
        self.fire_due().await
    }

    /// Brings the times forward that are later than the next ones, because the clock was ahead when they were computed.
    async fn bring_forward(&self, at: Timestamp) -> Result<(), StoreError> {
        let store = &self.parts.store;
        let rows = store.schedules_timed_after(at).await?;
        let times = rows.iter().filter_map(|row| {
            let next = next_time(&row.definition, at)?;
            if next < row.due {
                let (schedule, due) = (row.name.as_str(), row.due);
                warn!(schedule, %due, earlier = %next, "the clock went back: the schedule {schedule} fires at an earlier time");
            }
            // A time that is not too late is known to be right from now on.
            Some(NewTime { id: row.id, due: row.due, next: next.min(row.due) })
        });
        let times: Vec<NewTime> = times.collect();
        match times.is_empty() {
            true => Ok(()),
            false => store.retime_schedules(times, at).await,
        }
    }

    /// Fires all schedules that are due, and returns the next time of any. Each fire moves its schedule behind the current
    /// time, so this ends.
    async fn fire_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let store = &self.parts.store;
        loop {
            let at = (self.parts.now)();
            let due = store.due_schedules(at, DUE_AT_ONCE_MAX).await?;
            if due.is_empty() {
                return store.next_schedule_due().await;
            }
            for row in &due {
                self.fire(row, at).await?;
            }
            self.outgoing.wake();
            self.scheduler.wake();
        }
    }

    async fn fire(&self, row: &ScheduleRow, at: Timestamp) -> Result<(), StoreError> {
        let definition = &row.definition;
        let recurrence = Recurrence::parse(&definition.when, &definition.zone);
        let next = recurrence.map(|recurrence| recurrence.next(at.max(row.due)));
        let next = match next {
            Ok(Some(next)) => next,
            Ok(None) => return self.turn_off(row, "its times are over", at).await,
            Err(why) => return self.turn_off(row, &why.to_string(), at).await,
        };
        let identity = self.parts.access.admit(&row.owner);
        let why = match identity.map(|identity| identity.role(&definition.repository)) {
            None => "access was revoked".to_owned(),
            Some(None) => format!("there is no grant for `{}` any more", definition.repository),
            Some(Some(_)) if !self.has_channel(row) => NO_CHANNEL.to_owned(),
            Some(Some(_)) => {
                let is_missed = at.duration_since(row.due) > LATENESS_MAX;
                let work = match definition.missed {
                    MissedRule::Skip if is_missed => FireWork::Missed,
                    MissedRule::Skip | MissedRule::Once => self.work(row),
                };
                let start = FireStart {
                    id: row.id,
                    due: row.due,
                    next: Some(next),
                    work,
                };
                return self.begin(row, start, at).await;
            }
        };
        self.turn_off(row, &why, at).await
    }

    fn work(&self, row: &ScheduleRow) -> FireWork {
        let place = self.place(&row.definition);
        let pause = notice((row, row.due), &place, "paused", pause_text(row));
        FireWork::Message(Box::new(message(row, place, row.due)), Box::new(pause))
    }

    async fn begin(&self, row: &ScheduleRow, start: FireStart, at: Timestamp) -> Result<(), StoreError> {
        let begun = self.parts.store.begin_fire(start, None, at).await?;
        let (schedule, due) = (row.name.as_str(), row.due);
        match begun {
            FireResult::Started => info!(schedule, %due, "the schedule {schedule} fires"),
            FireResult::LeftOut(FireOutcome::Overlapped) => {
                warn!(schedule, %due, "a time of the schedule {schedule} is left out: its earlier work has not ended");
            }
            FireResult::LeftOut(_) => {
                info!(schedule, %due, "a time of the schedule {schedule} is left out: no server ran");
            }
            FireResult::Gone => {}
        }
        Ok(())
    }

    /// Turns a schedule off that may not fire, and says so once. A revoked person gets no text about it, and neither does
    /// a chat to which no channel leads.
    async fn turn_off(&self, row: &ScheduleRow, why: &str, at: Timestamp) -> Result<(), StoreError> {
        let may_read = row.owner.platform.chat().is_none() || self.parts.access.admit(&row.owner).is_some();
        let ops = match may_read && self.has_channel(row) {
            true => {
                let text = format!("The schedule `{}` is off: {why}.", row.name);
                vec![notice((row, row.due), &self.place(&row.definition), "off", text)]
            }
            false => Vec::new(),
        };
        let edit = ScheduleEdit::TurnOff(row.id, why.to_owned(), ops);
        self.parts
            .store
            .edit_schedule(edit, (BY.to_owned(), None), at)
            .await?;
        Ok(())
    }

    /// True if the channel of the results is configured.
    fn has_channel(&self, row: &ScheduleRow) -> bool {
        self.parts.config.channels.contains_key(&row.definition.channel)
    }

    /// Returns the place of the results, with the account of its channel if that is connected.
    fn place(&self, definition: &ScheduleDefinition) -> ChatPlace {
        let mut place = definition.place.clone();
        if let Some(connected) = self.outgoing.channel(&definition.channel) {
            place.account = connected.installation().account.clone();
        }
        place
    }
}

/// Returns the first time of a schedule after an instant.
fn next_time(definition: &ScheduleDefinition, after: Timestamp) -> Option<Timestamp> {
    let recurrence = Recurrence::parse(&definition.when, &definition.zone).ok()?;
    recurrence.next(after)
}
