//! The times at which the pipelines of a repository start by themselves, and the run that a time starts. Both are those of the
//! definitions on the trusted branch.

use super::definitions::{PipelineDefinitions, PublishedPipelines, UnpublishedReason};
use super::plan::{RunStart, shown};
use crate::base::config::ScheduleSettings;
use crate::base::model::{
    OverlapRule, PipelineSchedule, ScheduleDefinition, ScheduledPipeline, ScheduledWork, Sender, quoted,
};
use crate::base::recurrence::Recurrence;
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::definition::{
    PipelineDefinition, PipelineFile, PipelineTrigger, ScheduleTrigger, TriggerSource,
};
use crate::engine::pipeline::run::RunInputs;
use crate::state::access::Identity;
use crate::state::store::{NewRun, NewSchedule, PIPELINE_SCHEDULES_MAX};
use crate::state::workspace::RepositoryError;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// The schedules of the pipelines of a repository.
#[derive(Debug)]
pub(in crate::engine::gateway) struct PublishedTimes {
    /// The commit of the definitions.
    pub(in crate::engine::gateway) commit: String,
    /// A schedule for each trigger with set times.
    pub(in crate::engine::gateway) schedules: Vec<NewSchedule>,
    /// The time of the clock after which their first times were computed.
    pub(in crate::engine::gateway) timed_at: Timestamp,
}

/// The reason why the times of pipelines are not known, or why a time starts nothing.
#[derive(Debug, thiserror::Error)]
pub(in crate::engine::gateway) enum UnscheduledReason {
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The definitions cannot be used.
    #[error("{0}")]
    Definition(String),
    /// The pipeline cannot run.
    #[error("{0}")]
    Pipeline(String),
}

impl UnscheduledReason {
    /// Returns the reason on one line: its sentence, and the problems after it.
    pub(in crate::engine::gateway) fn line(&self) -> String {
        let text = self.to_string();
        let mut lines = text.lines().map(str::trim);
        let sentence = lines.next().unwrap_or_default();
        let problems: Vec<&str> = lines.collect();
        match problems.is_empty() {
            true => sentence.to_owned(),
            false => format!("{}: {}", sentence.trim_end_matches('.'), problems.join("; ")),
        }
    }
}

impl PipelineDefinitions {
    /// Returns the times at which the pipelines of a repository start now. `name` and `settings` are those of the configured
    /// schedule that starts them, and `cancel` ends the search.
    pub(in crate::engine::gateway) async fn times(
        &self,
        parts: &Parts,
        (name, settings): (&str, &ScheduleSettings),
        cancel: &CancellationToken,
    ) -> Result<PublishedTimes, UnscheduledReason> {
        let repository = &settings.definition.repository;
        let published = self.published(parts, repository, cancel).await;
        let PublishedPipelines { commit, loaded } =
            published.map_err(|why| unscheduled(repository, why, parts))?;
        let timed_at = (parts.now)();
        let schedules = match loaded {
            Some(loaded) => schedules_of((name, settings), &loaded.file, timed_at).await?,
            None => Vec::new(),
        };
        Ok(PublishedTimes {
            commit,
            schedules,
            timed_at,
        })
    }

    /// Plans the run that a time starts, whose results go to `channel`. `None` if nothing starts: the condition of the trigger
    /// is false, or the pipeline has no such trigger with these times any more.
    pub(in crate::engine::gateway) async fn run_of_schedule(
        &self,
        parts: &Parts,
        (work, scheduled): (&ScheduledWork, &ScheduledPipeline),
        (identity, channel): (&Identity, &str),
        cancel: &CancellationToken,
    ) -> Result<Option<NewRun>, UnscheduledReason> {
        let repository = &work.repository;
        let published = self.published(parts, repository, cancel).await;
        let PublishedPipelines { commit, loaded } =
            published.map_err(|why| unscheduled(repository, why, parts))?;
        let Some(loaded) = loaded else {
            return Ok(None);
        };
        let name = scheduled.name.as_str();
        let Some(definition) = loaded.file.pipelines.get(name) else {
            return Ok(None);
        };
        let is_meant = |(number, _, times): &(u32, &PipelineTrigger, &ScheduleTrigger)| {
            *number == scheduled.trigger && times.cron == scheduled.when && times.time_zone == scheduled.zone
        };
        let Some((_, trigger, times)) = timed_triggers(definition).find(is_meant) else {
            return Ok(None);
        };
        let refused = |why: &str| {
            let text = format!("{} was not started: {why}.", quoted(name));
            UnscheduledReason::Pipeline(parts.redactor.redact(&text).into_owned())
        };
        let inputs = RunInputs::of_schedule(definition, (trigger, times));
        let Some(mut inputs) = inputs.map_err(|problems| refused(&problems.join("; ")))? else {
            return Ok(None);
        };
        inputs.quiet = work.quiet;
        let start = RunStart {
            owner: identity,
            repository,
            commit: &commit,
            event: None,
            trigger: format!("schedule {}", work.schedule),
            // The store names the run after its fire.
            deliveries: Vec::new(),
            place: Some((channel.to_owned(), work.place.clone())),
        };
        let planned = start.planned(&loaded, &self.operator, name, inputs);
        planned.map(Some).map_err(|why| refused(&why))
    }
}

/// Returns the reason for the chat of the schedule.
fn unscheduled(repository: &str, why: UnpublishedReason, parts: &Parts) -> UnscheduledReason {
    match why {
        UnpublishedReason::Repository(error) => error.into(),
        UnpublishedReason::Definition(error) => {
            let lines: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
            let text = format!(
                "The pipelines of {} cannot be used as they are, so their times stay as they were.\n{}",
                quoted(repository),
                shown(&lines)
            );
            UnscheduledReason::Definition(parts.redactor.redact(&text).into_owned())
        }
    }
}

/// Returns the triggers of a pipeline with set times, counted from 1.
fn timed_triggers(
    definition: &PipelineDefinition,
) -> impl Iterator<Item = (u32, &PipelineTrigger, &ScheduleTrigger)> {
    let triggers = definition.triggers.iter();
    let timed = triggers.filter_map(|trigger| match &trigger.source {
        TriggerSource::Schedule(times) => Some((trigger, times)),
        _ => None,
    });
    (1..)
        .zip(timed)
        .map(|(number, (trigger, times))| (number, trigger, times))
}

/// Returns a schedule for each trigger with set times. The error is a text for the chat of the schedule.
async fn schedules_of(
    (name, settings): (&str, &ScheduleSettings),
    file: &PipelineFile,
    at: Timestamp,
) -> Result<Vec<NewSchedule>, UnscheduledReason> {
    let mut schedules = Vec::new();
    for (pipeline, definition) in &file.pipelines {
        // Many pipelines keep no other task from its work.
        tokio::task::yield_now().await;
        for (number, _, times) in timed_triggers(definition) {
            // The definitions were checked, so this is always there.
            let recurrence = Recurrence::parse(&times.cron, &times.time_zone).ok();
            let Some(due) = recurrence.and_then(|recurrence| recurrence.next(at)) else {
                continue;
            };
            schedules.push(NewSchedule {
                owner: Sender::of_schedule(name),
                name: schedule_name(name, pipeline.as_str(), number),
                definition: content(settings, (pipeline.as_str(), definition), (number, times)),
                due,
            });
        }
    }
    if schedules.len() > PIPELINE_SCHEDULES_MAX {
        return Err(UnscheduledReason::Definition(format!(
            "The pipelines of {} have {} triggers with times, and {PIPELINE_SCHEDULES_MAX} are the most, so their times stay \
             as they were.",
            quoted(&settings.definition.repository),
            schedules.len()
        )));
    }
    Ok(schedules)
}

/// Returns the name of the schedule of a trigger, such as `nightly/drift`, or `nightly/drift#2` for the second one.
fn schedule_name(configured: &str, pipeline: &str, number: u32) -> String {
    match number {
        1 => format!("{configured}/{pipeline}"),
        _ => format!("{configured}/{pipeline}#{number}"),
    }
}

fn content(
    settings: &ScheduleSettings,
    (name, definition): (&str, &PipelineDefinition),
    (trigger, times): (u32, &ScheduleTrigger),
) -> ScheduleDefinition {
    ScheduleDefinition {
        when: times.cron.clone(),
        zone: times.time_zone.clone(),
        pipeline: Some(PipelineSchedule {
            name: name.to_owned(),
            trigger,
            overlap: match definition.concurrency {
                Some(_) => OverlapRule::Concurrency,
                None => OverlapRule::LeaveOut,
            },
        }),
        ..settings.definition.clone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{UnscheduledReason, schedules_of};
    use crate::base::config::{Grants, ScheduleSettings};
    use crate::base::model::{Account, ChatPlace, MissedRule, OverlapRule, Role, ScheduleDefinition};
    use crate::engine::pipeline::{LoadedPipelines, OperatorLimits};
    use crate::state::store::PIPELINE_SCHEDULES_MAX;
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    const DRIFT: &str = "  drift:\n    triggers:\n    - {schedule: {cron: 'daily 13:00'}}\n    - {chat: {}}\n    - \
        {schedule: {cron: '0 6 * * 1', time_zone: Europe/Berlin}}\n";
    const STEPS: &str = "    steps: [{name: a, reply: {to: 'channel:team:C1', text: done}}]\n";

    fn settings() -> ScheduleSettings {
        ScheduleSettings {
            definition: ScheduleDefinition {
                when: String::new(),
                zone: String::new(),
                words: String::new(),
                repository: "infra".to_owned(),
                channel: "team".to_owned(),
                place: ChatPlace {
                    account: Account::of_schedules(),
                    chat: "C1".to_owned(),
                    thread: None,
                },
                missed: MissedRule::Skip,
                quiet: false,
                pipeline: None,
            },
            starts_pipelines: true,
            grants: Grants {
                role: Role::Viewer,
                environments: vec!["**".to_owned()],
            },
        }
    }

    fn loaded(text: &str) -> LoadedPipelines {
        let operator = OperatorLimits {
            tools: BTreeSet::new(),
            server: None,
        };
        LoadedPipelines::from_yaml(text.as_bytes(), &operator).unwrap()
    }

    #[tokio::test]
    async fn each_trigger_with_times_is_a_schedule_of_its_own() {
        let drift = format!("{DRIFT}{STEPS}");
        let audit = drift.replace("  drift:", "  audit:\n    concurrency: {group: audits}");
        let file = loaded(&format!("pipelines:\n{drift}{audit}")).file;
        let at = Timestamp::from_second(1_795_262_400).unwrap();
        let found = schedules_of(("nightly", &settings()), &file, at).await;
        let rows: Vec<_> = found
            .unwrap()
            .into_iter()
            .map(|row| {
                let pipeline = row.definition.pipeline.unwrap();
                let times = format!("{} {}", row.definition.when, row.definition.zone);
                (
                    row.name,
                    times,
                    pipeline.overlap,
                    row.due.to_string(),
                    row.definition.missed,
                )
            })
            .collect();
        let row = |name: &str, times: &str, overlap, due: &str| {
            (
                name.to_owned(),
                times.to_owned(),
                overlap,
                due.to_owned(),
                MissedRule::Skip,
            )
        };
        let (left_out, decided) = (OverlapRule::LeaveOut, OverlapRule::Concurrency);
        let (daily, monday) = ("daily 13:00 UTC", "0 6 * * 1 Europe/Berlin");
        assert_eq!(
            rows,
            [
                row("nightly/audit", daily, decided, "2026-11-21T13:00:00Z"),
                row("nightly/audit#2", monday, decided, "2026-11-23T05:00:00Z"),
                row("nightly/drift", daily, left_out, "2026-11-21T13:00:00Z"),
                row("nightly/drift#2", monday, left_out, "2026-11-23T05:00:00Z"),
            ]
        );
    }

    #[tokio::test]
    async fn a_repository_with_too_many_times_keeps_those_it_had() {
        let triggers = "    - {schedule: {cron: 'daily 13:00'}}\n".repeat(20);
        let pipeline = |number: usize| format!("  p{number}:\n    triggers:\n{triggers}{STEPS}");
        let text: String = (0..=PIPELINE_SCHEDULES_MAX / 20).map(pipeline).collect();
        let file = loaded(&format!("pipelines:\n{text}")).file;
        let refused = schedules_of(("nightly", &settings()), &file, Timestamp::UNIX_EPOCH).await;
        let Err(UnscheduledReason::Definition(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            why.contains("have 1020 triggers with times, and 1000 are the most"),
            "{why}"
        );
    }
}
