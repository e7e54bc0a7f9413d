//! The schedules of services: those of the configuration, and those of the pipelines that it lets start at their times.

use super::{NewSchedule, ScheduleEdit, audit, change, insert, remove};
use crate::base::model::{Account, ScheduleDefinition, ScheduleId, Sender};
use crate::state::store::column::{json, millis, parse, time};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The most times of pipelines of one service.
pub const PIPELINE_SCHEDULES_MAX: usize = 1_000;

/// The one who changes a schedule of the configuration, for the audit log.
const BY_CONFIGURATION: &str = "configuration";
/// The one who changes a schedule of a pipeline.
const BY_DEFINITION: &str = "definition";

/// Returns the first time of a schedule after an instant.
pub type NextTime = fn(&ScheduleDefinition, Timestamp) -> Option<Timestamp>;

/// A schedule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredSchedule {
    /// The service.
    pub owner: Sender,
    /// Its name.
    pub name: String,
    /// Its content.
    pub definition: ScheduleDefinition,
}

/// The configuration of the schedules of pipelines of one service. The times are in the definitions of the pipelines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineScheduleOwner {
    /// The service.
    pub owner: Sender,
    /// Their content, without times and pipeline.
    pub settings: ScheduleDefinition,
}

impl ConfiguredSchedule {
    fn due_at(self, due: Timestamp) -> NewSchedule {
        NewSchedule {
            owner: self.owner,
            name: self.name,
            definition: self.definition,
            due,
        }
    }
}

/// A stored schedule of a service, without its fires.
struct StoredSchedule {
    id: ScheduleId,
    owner: Sender,
    name: String,
    definition: ScheduleDefinition,
    due: Timestamp,
}

impl StoredSchedule {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: ScheduleId(row.get(0)?),
            owner: parse("sender", &row.get::<_, String>(1)?)?,
            name: row.get(2)?,
            definition: parse("schedule", &row.get::<_, String>(3)?)?,
            due: time(row.get(4)?)?,
        })
    }

    fn has_times_of(&self, definition: &ScheduleDefinition) -> bool {
        (&self.definition.when, &self.definition.zone) == (&definition.when, &definition.zone)
    }

    fn is_of_pipeline_of(&self, definition: &ScheduleDefinition) -> bool {
        pipeline_of(&self.definition) == pipeline_of(definition)
    }
}

fn pipeline_of(definition: &ScheduleDefinition) -> Option<&str> {
    let pipeline = definition.pipeline.as_ref();
    pipeline.map(|pipeline| pipeline.name.as_str())
}

impl Store {
    /// Makes the stored schedules of the configuration the same as these, and keeps those of pipelines that it still starts.
    /// One whose times are the same keeps its next time, so that times at which no server ran are made up for. Others get the
    /// next time after `at` from `next`; one without any is not stored.
    pub async fn store_configured_schedules(
        &self,
        mut configured: Vec<ConfiguredSchedule>,
        pipelines: Vec<PipelineScheduleOwner>,
        (at, next): (Timestamp, NextTime),
    ) -> Result<(), StoreError> {
        let texts = ScheduleTexts::of(&configured)?;
        self.write(move |tx| {
            let platform = Account::of_schedules().platform.as_str();
            let (stored, same) = changed(tx, platform, &texts)?;
            configured.retain(|schedule| !same.contains(&schedule.name));
            let (of_pipelines, requests): (Vec<_>, Vec<_>) = stored
                .into_iter()
                .partition(|row| row.definition.pipeline.is_some());
            for row in &of_pipelines {
                match kept(row, &pipelines) {
                    Some(definition) => store_content(tx, row, (&definition, row.due), at)?,
                    None => remove_unconfigured(tx, row, at)?,
                }
            }
            let mut requests: BTreeMap<&str, &StoredSchedule> =
                requests.iter().map(|row| (row.name.as_str(), row)).collect();
            for new in configured {
                let row = requests.remove(new.name.as_str());
                let due = match row {
                    Some(row) if row.has_times_of(&new.definition) => Some(row.due),
                    _ => next(&new.definition, at),
                };
                match (row, due) {
                    (Some(row), Some(due)) => store_content(tx, row, (&new.definition, due), at)?,
                    (None, Some(due)) => insert(tx, &new.due_at(due), at)?,
                    (Some(row), None) => remove_unconfigured(tx, row, at)?,
                    (None, None) => {}
                }
            }
            for gone in requests.values() {
                remove_unconfigured(tx, gone, at)?;
            }
            Ok(())
        })
        .await
    }

    /// Makes the stored schedules of pipelines of a service the same as these. A trigger with the same times as before is the
    /// same schedule, also in another place of its pipeline. One that is off stays off, and one whose times are the same keeps
    /// its next time. A run that has begun goes on without its schedule. Returns true if anything has changed.
    pub async fn store_pipeline_schedules(
        &self,
        owner: Sender,
        new: Vec<NewSchedule>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let stored = stored(tx, &json(&owner)?)?.into_iter();
            let stored = stored.filter(|row| row.definition.pipeline.is_some());
            let stored = stored.map(|row| (row.name.clone(), row)).collect();
            let PairedSchedules { kept, created, gone } = PairedSchedules::of(stored, &new);
            let changed = kept
                .iter()
                .filter(|(row, new)| row.name != new.name || row.definition != new.definition);
            let changed: Vec<_> = changed.collect();
            for row in gone.values() {
                remove(tx, row.id)?;
                audit(tx, ("removed", &row.name, &row.owner), BY_DEFINITION, at)?;
            }
            rename(tx, &changed)?;
            for (row, new) in &changed {
                let due = match row.has_times_of(&new.definition) {
                    true => row.due,
                    false => new.due,
                };
                store_content(tx, row, (&new.definition, due), at)?;
                audit(tx, ("changed", &new.name, &new.owner), BY_DEFINITION, at)?;
            }
            for new in &created {
                insert(tx, new, at)?;
                audit(tx, ("created", &new.name, &new.owner), BY_DEFINITION, at)?;
            }
            Ok(!(changed.is_empty() && created.is_empty() && gone.is_empty()))
        })
        .await
    }
}

/// The schedules of pipelines of a service, stored and new ones.
struct PairedSchedules<'a> {
    /// Stored ones, each with the new one that it is from now on.
    kept: Vec<(StoredSchedule, &'a NewSchedule)>,
    /// New ones that are none of the stored ones.
    created: Vec<&'a NewSchedule>,
    /// Stored ones that are none of the new ones, by name.
    gone: BTreeMap<String, StoredSchedule>,
}

impl<'a> PairedSchedules<'a> {
    /// Pairs schedules by their name and their times, then by their pipeline and their times, then by their name.
    fn of(stored: BTreeMap<String, StoredSchedule>, new: &'a [NewSchedule]) -> Self {
        let mut paired = Self {
            kept: Vec::new(),
            created: new.iter().collect(),
            gone: stored,
        };
        paired.keep(|stored, new| {
            let row = stored.get(&new.name)?;
            row.has_times_of(&new.definition).then(|| new.name.clone())
        });
        paired.keep(|stored, new| {
            let (mut rows, definition) = (stored.values(), &new.definition);
            let row = rows.find(|row| row.is_of_pipeline_of(definition) && row.has_times_of(definition))?;
            Some(row.name.clone())
        });
        paired.keep(|_, new| Some(new.name.clone()));
        paired
    }

    /// Keeps the stored schedules whose names are found for new ones.
    fn keep(&mut self, find: impl Fn(&BTreeMap<String, StoredSchedule>, &NewSchedule) -> Option<String>) {
        for new in std::mem::take(&mut self.created) {
            let row = find(&self.gone, new).and_then(|name| self.gone.remove(&name));
            match row {
                Some(row) => self.kept.push((row, new)),
                None => self.created.push(new),
            }
        }
    }
}

/// Gives schedules their new names, which may be those of others among them.
fn rename(tx: &Transaction<'_>, changed: &[&(StoredSchedule, &NewSchedule)]) -> Result<(), StoreError> {
    let mut renaming = tx.prepare_cached("UPDATE schedule SET name = ?2 WHERE id = ?1")?;
    let renamed = || changed.iter().filter(|(row, new)| row.name != new.name);
    for (row, _) in renamed() {
        // No name begins with a slash.
        renaming.execute(params![row.id.0, format!("/{}", row.id)])?;
    }
    for (row, new) in renamed() {
        renaming.execute(params![row.id.0, new.name])?;
    }
    Ok(())
}

/// Configured schedules as they are stored. There may be thousands, and at most starts none has changed: then none is parsed.
struct ScheduleTexts(HashMap<String, (String, String)>);

impl ScheduleTexts {
    fn of(configured: &[ConfiguredSchedule]) -> Result<Self, StoreError> {
        let text = |schedule: &ConfiguredSchedule| -> Result<_, StoreError> {
            let texts = (json(&schedule.owner)?, json(&schedule.definition)?);
            Ok((schedule.name.clone(), texts))
        };
        configured.iter().map(text).collect::<Result<_, _>>().map(Self)
    }

    fn has(&self, row: &Row<'_>) -> Result<bool, StoreError> {
        let (owner, name, definition) = (row.get_ref(1)?, row.get_ref(2)?, row.get_ref(3)?);
        let known = name.as_str().ok().and_then(|name| self.0.get(name));
        Ok(known.is_some_and(|known| {
            owner.as_str() == Ok(known.0.as_str()) && definition.as_str() == Ok(known.1.as_str())
        }))
    }
}

/// Returns the schedules of a platform that are not stored as they are configured, and the names of the others.
fn changed(
    tx: &Transaction<'_>,
    platform: &str,
    texts: &ScheduleTexts,
) -> Result<(Vec<StoredSchedule>, HashSet<String>), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, owner, name, definition, due FROM schedule WHERE owner ->> 'platform' = ?1",
    )?;
    let mut rows = statement.query([platform])?;
    let (mut changed, mut same) = (Vec::new(), HashSet::new());
    while let Some(row) = rows.next()? {
        match texts.has(row)? {
            true => drop(same.insert(row.get(2)?)),
            false => changed.push(StoredSchedule::read(row)?),
        }
    }
    Ok((changed, same))
}

fn stored(tx: &Transaction<'_>, owner: &str) -> Result<Vec<StoredSchedule>, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT id, owner, name, definition, due FROM schedule WHERE owner = ?1")?;
    let mut rows = statement.query([owner])?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(StoredSchedule::read(row)?);
    }
    Ok(schedules)
}

/// Returns the content of a schedule of a pipeline as the configuration has it now; `None` if that does not start pipelines
/// of its repository any more.
fn kept(row: &StoredSchedule, pipelines: &[PipelineScheduleOwner]) -> Option<ScheduleDefinition> {
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

fn remove_unconfigured(tx: &Transaction<'_>, row: &StoredSchedule, at: Timestamp) -> Result<(), StoreError> {
    change(tx, &ScheduleEdit::Remove(row.id), (BY_CONFIGURATION, None), at)?;
    Ok(())
}

fn store_content(
    tx: &Transaction<'_>,
    row: &StoredSchedule,
    (definition, due): (&ScheduleDefinition, Timestamp),
    at: Timestamp,
) -> Result<(), StoreError> {
    if row.definition != *definition {
        // Other times may have the same next time.
        let timed_at = (!row.has_times_of(definition)).then(|| millis(at));
        tx.prepare_cached(
            "UPDATE schedule SET definition = ?2, due = ?3, timed_at = COALESCE(?4, timed_at) WHERE id = ?1",
        )?
        .execute(params![row.id.0, json(definition)?, millis(due), timed_at])?;
    }
    Ok(())
}
