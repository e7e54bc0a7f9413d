//! The next times at which pipelines start by themselves, for commands.

use crate::base::recurrence::Recurrence;
use crate::engine::pipeline::definition::{PipelineDefinition, ScheduleTrigger, TriggerSource};
use jiff::Timestamp;

/// Returns the next times of each trigger that has set times, in the zone of the trigger, with the index of the trigger.
pub(super) fn next_times(
    definition: &PipelineDefinition,
    count: usize,
    at: Timestamp,
) -> Vec<(usize, String)> {
    let triggers = definition.triggers.iter().enumerate();
    let timed = triggers.filter_map(|(index, trigger)| match &trigger.source {
        TriggerSource::Schedule(times) => Some((index, shown(times, count, at)?)),
        _ => None,
    });
    timed.collect()
}

fn shown(times: &ScheduleTrigger, count: usize, at: Timestamp) -> Option<String> {
    let recurrence = Recurrence::parse(&times.cron, &times.time_zone).ok()?;
    let upcoming = recurrence.upcoming(at, count);
    let texts: Vec<String> = upcoming.into_iter().map(|time| recurrence.shown(time)).collect();
    match texts.is_empty() {
        true => None,
        false => Some(format!("{} {}", texts.join(", "), times.time_zone)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::next_times;
    use crate::engine::pipeline::{LoadedPipelines, OperatorLimits};
    use jiff::Timestamp;

    #[test]
    fn the_next_times_are_those_of_the_zone_of_each_trigger() {
        let text = "pipelines:\n  p:\n    triggers:\n    - {chat: {}}\n    - {schedule: {cron: '0 6 * * 1', time_zone: \
                    Europe/Berlin}}\n    - {schedule: {cron: 'daily 13:00'}}\n    steps: [{name: a, reply: {to: \
                    'channel:team:C1', text: done}}]\n";
        let loaded = LoadedPipelines::from_yaml(text.as_bytes(), &OperatorLimits::default()).unwrap();
        let at = Timestamp::from_second(1_795_262_400).unwrap();
        let times = next_times(&loaded.file.pipelines["p"], 2, at);
        assert_eq!(
            times,
            [
                (
                    1,
                    "Mon 23 Nov 2026 06:00, Mon 30 Nov 2026 06:00 Europe/Berlin".to_owned()
                ),
                (2, "Sat 21 Nov 2026 13:00, Sun 22 Nov 2026 13:00 UTC".to_owned()),
            ]
        );
    }
}
