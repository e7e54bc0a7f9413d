//! The schedules of the configuration and of all people, for operators.

use super::{Admin, AdminError, AdminReply};
use crate::base::recurrence::Recurrence;
use crate::engine::gateway::{ScheduleStartError, start_now};
use crate::state::store::{FireResult, ScheduleChange, ScheduleEdit, ScheduleRow};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The one who changes a schedule, for the audit log.
const BY: &str = "operator";

/// An order about one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleOrder {
    /// Removes it with its fires. One of the configuration is removed from the file instead.
    Remove,
    /// Turns it on.
    Enable,
    /// Turns it off.
    Disable,
    /// Starts its work now.
    Trigger,
    /// Lists its fires.
    History,
}

impl Admin {
    pub(super) async fn schedules(&self) -> Result<AdminReply, AdminError> {
        Ok(AdminReply::Schedules {
            schedules: self.store.schedules(None).await?,
        })
    }

    pub(super) async fn schedule(&self, which: &str, order: ScheduleOrder) -> Result<AdminReply, AdminError> {
        let row = self.find_schedule(which).await?;
        let done = match order {
            ScheduleOrder::History => {
                return Ok(AdminReply::ScheduleFires {
                    fires: self.store.schedule_fires(row.id).await?,
                    schedule: Box::new(row),
                });
            }
            ScheduleOrder::Trigger => self.trigger_schedule(&row).await?,
            ScheduleOrder::Remove => {
                if row.definition.pipeline.is_some() {
                    let repository = &row.definition.repository;
                    let why = format!(
                        "`{}` is a trigger of a pipeline of `{repository}`; remove it there",
                        row.name
                    );
                    return Err(AdminError::Other(why));
                }
                if row.owner.platform.chat().is_none() {
                    let why = format!(
                        "`{}` is a schedule of the configuration; once its section is removed there, a restart of the \
                         server ends it",
                        row.name
                    );
                    return Err(AdminError::Other(why));
                }
                self.edit_schedule(ScheduleEdit::Remove(row.id), "removed", (self.now)())
                    .await?
            }
            ScheduleOrder::Disable => {
                let edit = ScheduleEdit::Disable(row.id, "turned off by the operator".to_owned());
                self.edit_schedule(edit, "off", (self.now)()).await?
            }
            ScheduleOrder::Enable => {
                let definition = &row.definition;
                let recurrence = Recurrence::parse(&definition.when, &definition.zone)
                    .map_err(|why| AdminError::Other(why.to_string()))?;
                let at = (self.now)();
                let due = recurrence.next(at);
                let due = due.ok_or_else(|| AdminError::Other("its times are over".to_owned()))?;
                self.edit_schedule(ScheduleEdit::TurnOn(row.id, due), "on", at)
                    .await?
            }
        };
        if let Some(gateway) = &self.gateway {
            gateway.schedules.wake();
        }
        Ok(AdminReply::ScheduleChanged {
            schedule: Box::new(row),
            done,
        })
    }

    /// Changes a schedule. `at` is the time after which a next time in the change was computed.
    async fn edit_schedule(
        &self,
        edit: ScheduleEdit,
        done: &str,
        at: Timestamp,
    ) -> Result<String, AdminError> {
        let by = (BY.to_owned(), None);
        let (changed, stopped) = self.store.edit_schedule(edit, by, at).await?;
        if let Some(gateway) = &self.gateway {
            gateway.schedules.stop(&stopped);
        }
        let work = match stopped.is_empty() {
            true => "",
            false => ", and its work stops",
        };
        match changed {
            ScheduleChange::Changed => Ok(format!("{done}{work}")),
            ScheduleChange::Unchanged => Ok(format!("{done} already{work}")),
            ScheduleChange::Gone | ScheduleChange::NameTaken | ScheduleChange::TooMany => {
                Err(AdminError::Other("it was removed meanwhile".to_owned()))
            }
        }
    }

    async fn trigger_schedule(&self, row: &ScheduleRow) -> Result<String, AdminError> {
        let at = (self.now)();
        match start_now((&self.store, self.access.as_ref(), &self.channels), row, None, at).await {
            Ok(FireResult::Started) => Ok(match self.gateway {
                Some(_) => "started".to_owned(),
                None => "started at the next start of the server".to_owned(),
            }),
            Ok(FireResult::LeftOut(_)) => {
                let why = format!(
                    "the earlier work of `{}` has not ended, so nothing was started",
                    row.name
                );
                Err(AdminError::Other(why))
            }
            Ok(FireResult::Gone) => Err(AdminError::Other("it was removed meanwhile".to_owned())),
            Err(ScheduleStartError::Denied(why)) => {
                Err(AdminError::Other(format!("nothing was started: {why}")))
            }
            Err(ScheduleStartError::Store(error)) => Err(error.into()),
        }
    }

    /// Finds a schedule by its number, or by its name if no other has it. One of the configuration comes first.
    async fn find_schedule(&self, which: &str) -> Result<ScheduleRow, AdminError> {
        let schedules = self.store.schedules(None).await?;
        if let Some(row) = schedules.iter().find(|row| row.id.to_string() == which) {
            return Ok(row.clone());
        }
        let named: Vec<&ScheduleRow> = schedules.iter().filter(|row| row.name == which).collect();
        let configured = named.iter().find(|row| row.owner.platform.chat().is_none());
        match (configured, named.as_slice()) {
            (Some(row), _) => Ok((*row).clone()),
            (None, [row]) => Ok((*row).clone()),
            (None, []) => Err(AdminError::Other(format!(
                "no schedule `{which}`; `drydock schedule list` shows all"
            ))),
            (None, several) => {
                let ids: Vec<String> = several.iter().map(|row| row.id.to_string()).collect();
                let ids = ids.join(", ");
                Err(AdminError::Other(format!(
                    "{} schedules have the name `{which}`; use one of the numbers {ids}",
                    several.len()
                )))
            }
        }
    }
}
