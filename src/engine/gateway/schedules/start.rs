//! The message with which the work of a schedule begins, and the notices about a schedule.

use super::{BY, NO_CHANNEL};
use crate::base::model::{
    Account, Action, ChatPlace, Inbound, InboundKind, InboxId, Op, Reply, ScheduledPipeline, ScheduledWork,
};
use crate::state::access::Access;
use crate::state::store::{
    FAILURES_MAX, FireResult, FireStart, FireWork, ScheduleEdit, ScheduleRow, Store, StoreError,
};
use jiff::Timestamp;
use std::collections::BTreeSet;

/// The reason why a schedule does not start now.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleStartError {
    /// The person or service of the schedule may not do the work, or its result has no way to its chat.
    #[error("{0}")]
    Denied(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Starts the work of a schedule now, beside its times. `channels` are the configured ones, and `command` is the message
/// that asks for it, if any.
pub async fn start_now(
    (store, access, channels): (&Store, &Access, &BTreeSet<String>),
    row: &ScheduleRow,
    command: Option<InboxId>,
    at: Timestamp,
) -> Result<FireResult, ScheduleStartError> {
    let repository = &row.definition.repository;
    let role = access.admit(&row.owner).map(|identity| identity.role(repository));
    let why = match role {
        Some(Some(_)) => None,
        Some(None) => Some(format!(
            "the owner of `{}` has no grant for `{repository}`",
            row.name
        )),
        None => Some(format!("the owner of `{}` has no access here", row.name)),
    };
    if let Some(why) = why {
        return Err(ScheduleStartError::Denied(why));
    }
    if !channels.contains(&row.definition.channel) {
        let edit = ScheduleEdit::TurnOff(row.id, NO_CHANNEL.to_owned(), Vec::new());
        store.edit_schedule(edit, (BY.to_owned(), None), at).await?;
        let why = format!("`{}` is off, because {NO_CHANNEL}", row.name);
        return Err(ScheduleStartError::Denied(why));
    }
    let place = row.definition.place.clone();
    let pause = notice((row, at), &place, "paused", pause_text(row));
    let start = FireStart {
        id: row.id,
        due: at,
        next: None,
        work: FireWork::Message(Box::new(message(row, place, at)), Box::new(pause)),
    };
    Ok(store.begin_fire(start, command, at).await?)
}

/// Returns the message that starts the work of one time. Its conversation is its own.
pub(super) fn message(row: &ScheduleRow, place: ChatPlace, due: Timestamp) -> Inbound {
    let definition = &row.definition;
    let name = format!("{}:{}", row.id, due.as_millisecond());
    Inbound {
        channel: definition.channel.clone(),
        delivery: vec![format!("schedule:{name}")],
        sender: row.owner.clone(),
        place: ChatPlace {
            account: Account::of_schedules(),
            chat: place.chat.clone(),
            thread: Some(name),
        },
        direct: false,
        message: None,
        about: None,
        kind: InboundKind::Schedule(ScheduledWork {
            schedule: row.name.clone(),
            due,
            words: definition.words.clone(),
            repository: definition.repository.clone(),
            place,
            quiet: definition.quiet,
            pipeline: definition.pipeline.as_ref().map(|pipeline| ScheduledPipeline {
                name: pipeline.name.clone(),
                trigger: pipeline.trigger,
                when: definition.when.clone(),
                zone: definition.zone.clone(),
            }),
        }),
        files: Vec::new(),
        response_url: None,
    }
}

/// Returns the operation that posts a text about a schedule, once for each time and `what`.
pub(super) fn notice(
    (row, time): (&ScheduleRow, Timestamp),
    place: &ChatPlace,
    what: &str,
    text: String,
) -> Op {
    Op {
        id: format!("schedule-{}-{}/{what}", row.id, time.as_millisecond()),
        channel: row.definition.channel.clone(),
        place: place.clone(),
        action: Action::Post {
            reply: Reply::text(text),
            reply_to: None,
            placeholder: false,
        },
        response_url: None,
    }
}

/// Returns the text about a schedule that is paused, which says how it goes on.
pub(super) fn pause_text(row: &ScheduleRow) -> String {
    let name = &row.name;
    let how = match row.owner.platform.chat() {
        Some(_) => format!("`!schedule enable {name}` turns it on again"),
        None => format!("`drydock schedule enable {name}` on the server turns it on again"),
    };
    format!("The schedule `{name}` is paused: {FAILURES_MAX} fires in a row failed. {how}.")
}
