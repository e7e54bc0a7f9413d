//! The schedules of services: those of the configuration, and those of the pipelines that it lets start at their times.

use super::{NewSchedule, SELECT, ScheduleEdit, ScheduleRow, audit, change, insert, remove, rows};
use crate::base::model::{Account, ScheduleDefinition, Sender};
use crate::state::store::column::{json, millis};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// The most times of pipelines of one service.
pub const PIPELINE_SCHEDULES_MAX: usize = 1_000;

/// The one who changes a schedule of the configuration, for the audit log.
const BY_CONFIGURATION: &str = "configuration";
/// The one who changes a schedule of a pipeline.
const BY_DEFINITION: &str = "definition";

/// The configuration of the schedules of pipelines of one service. The times are in the definitions of the pipelines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineScheduleOwner {
    /// The service.
    pub owner: Sender,
    /// Their content, without times and pipeline.
    pub settings: ScheduleDefinition,
}

impl Store {
    /// Makes the stored schedules of the configuration the same as these, and keeps those of pipelines that it still starts.
    /// One whose times are the same keeps its next time, so that times at which no server ran are made up for.
    pub async fn store_configured_schedules(
        &self,
        configured: Vec<NewSchedule>,
        pipelines: Vec<PipelineScheduleOwner>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let sql = format!("{SELECT} WHERE json_extract(schedule.owner, '$.platform') = ?1");
            let stored = rows(tx, &sql, params![Account::of_schedules().platform.as_str()])?;
            let (of_pipelines, requests): (Vec<_>, Vec<_>) = stored
                .into_iter()
                .partition(|row| row.definition.pipeline.is_some());
            for row in &of_pipelines {
                match kept(row, &pipelines) {
                    Some(definition) => store_content(tx, row, (&definition, row.due))?,
                    None => remove_unconfigured(tx, row, at)?,
                }
            }
            let mut stored: BTreeMap<&str, &ScheduleRow> =
                requests.iter().map(|row| (row.name.as_str(), row)).collect();
            for new in &configured {
                match stored.remove(new.name.as_str()) {
                    Some(row) => replace(tx, row, new)?,
                    None => insert(tx, new, at)?,
                }
            }
            for gone in stored.values() {
                remove_unconfigured(tx, gone, at)?;
            }
            Ok(())
        })
        .await
    }

    /// Makes the stored schedules of pipelines of a service the same as these, by name. One that is off stays off, and one
    /// whose times are the same keeps its next time. A run that has begun goes on without its schedule. Returns true if
    /// anything has changed.
    pub async fn store_pipeline_schedules(
        &self,
        owner: Sender,
        new: Vec<NewSchedule>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let sql = format!("{SELECT} WHERE schedule.owner = ?1");
            let stored = rows(tx, &sql, params![json(&owner)?])?;
            let stored = stored.into_iter().filter(|row| row.definition.pipeline.is_some());
            let mut stored: BTreeMap<String, ScheduleRow> =
                stored.map(|row| (row.name.clone(), row)).collect();
            let mut has_changed = false;
            for new in &new {
                let what = match stored.remove(&new.name) {
                    Some(row) if row.definition == new.definition => continue,
                    Some(row) => {
                        replace(tx, &row, new)?;
                        "changed"
                    }
                    None => {
                        insert(tx, new, at)?;
                        "created"
                    }
                };
                audit(tx, (what, &new.name, &new.owner), BY_DEFINITION, at)?;
                has_changed = true;
            }
            for gone in stored.values() {
                remove(tx, gone.id)?;
                audit(tx, ("removed", &gone.name, &gone.owner), BY_DEFINITION, at)?;
                has_changed = true;
            }
            Ok(has_changed)
        })
        .await
    }
}

/// Returns the content of a schedule of a pipeline as the configuration has it now; `None` if that does not start pipelines
/// of its repository any more.
fn kept(row: &ScheduleRow, pipelines: &[PipelineScheduleOwner]) -> Option<ScheduleDefinition> {
    let same = |known: &&PipelineScheduleOwner| {
        known.owner == row.owner && known.settings.repository == row.definition.repository
    };
    let settings = &pipelines.iter().find(same)?.settings;
    Some(ScheduleDefinition {
        channel: settings.channel.clone(),
        place: settings.place.clone(),
        missed: settings.missed,
        ..row.definition.clone()
    })
}

fn remove_unconfigured(tx: &Transaction<'_>, row: &ScheduleRow, at: Timestamp) -> Result<(), StoreError> {
    change(tx, &ScheduleEdit::Remove(row.id), (BY_CONFIGURATION, None), at)?;
    Ok(())
}

fn replace(tx: &Transaction<'_>, row: &ScheduleRow, new: &NewSchedule) -> Result<(), StoreError> {
    let (old, definition) = (&row.definition, &new.definition);
    let is_same_time = (&old.when, &old.zone) == (&definition.when, &definition.zone);
    let due = match is_same_time {
        true => row.due,
        false => new.due,
    };
    store_content(tx, row, (definition, due))
}

fn store_content(
    tx: &Transaction<'_>,
    row: &ScheduleRow,
    (definition, due): (&ScheduleDefinition, Timestamp),
) -> Result<(), StoreError> {
    if row.definition != *definition {
        tx.prepare_cached("UPDATE schedule SET definition = ?2, due = ?3 WHERE id = ?1")?
            .execute(params![row.id.0, json(definition)?, millis(due)])?;
    }
    Ok(())
}
