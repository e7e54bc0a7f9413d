//! The check of the checks: each planted defect must be found by its scenario.

use super::{ALL, ScenarioContext};
use crate::tally::{Tally, TestbedFailure};
use std::path::PathBuf;

/// The planted defects, the effect of each, and the scenario that must find it.
const BUGS: [(&str, &str, &str); 9] = [
    ("A1", "an undo that is resumed is carried out again", "undo"),
    (
        "C1",
        "the outcome of a post is lost if it cannot be stored",
        "locked",
    ),
    (
        "C2",
        "a platform that cannot be reached counts against an operation",
        "outage",
    ),
    (
        "D1",
        "a message for which there is no room is acknowledged and dropped",
        "queue",
    ),
    (
        "E1",
        "a mirror sees no more packs than it had room for when it was opened",
        "mirror",
    ),
    (
        "S1",
        "an event that is processed again starts its runs again",
        "runs",
    ),
    (
        "S2",
        "a reply of a run is stored apart from the end of its step",
        "runs",
    ),
    (
        "V2",
        "an undo reverts only the last attempt of a message that was resumed",
        "resumed",
    ),
    ("V6", "a stop is lost at the end of the process", "stop"),
];

/// The number of runs in which a scenario may find its defect. Some defects show only if a call is in progress at the
/// right moment, so one run may miss them. A check that never finds its defect still fails.
const LOOKS_MAX: usize = 4;

/// The scenario that steps the clock of Slack, which all testbeds share.
const STEPS_CLOCK: &str = "outage";

pub(super) async fn run(cx: &ScenarioContext<'_>) -> anyhow::Result<Tally> {
    if cx.points().is_none() {
        return Ok(cx.needs_points());
    }
    let (alone, together): (Vec<_>, Vec<_>) = BUGS.into_iter().partition(|(_, _, name)| *name == STEPS_CLOCK);
    let mut tally = Tally::default();
    // Each mostly waits for events that never come.
    let together = together
        .into_iter()
        .map(|(bug, what, name)| Box::pin(is_found(cx, bug, what, name)));
    for found in futures_util::future::join_all(together).await {
        tally.add(found?);
    }
    for (bug, what, name) in alone {
        tally.add(is_found(cx, bug, what, name).await?);
    }
    Ok(tally)
}

async fn is_found(
    cx: &ScenarioContext<'_>,
    bug: &str,
    what: &str,
    name: &'static str,
) -> anyhow::Result<Tally> {
    let Some(scenario) = ALL.iter().find(|scenario| scenario.name == name) else {
        anyhow::bail!("there is no scenario {name}");
    };
    let planted = cx.with_bug(name, bug);
    let mut found = Tally::default();
    let mut is_found = false;
    for _ in 0..LOOKS_MAX {
        let mut look = scenario.run(&planted).await?;
        let failures = std::mem::take(&mut look.failures);
        for failure in &failures {
            // The directory is not needed, because the testbed was broken on purpose.
            let _ = std::fs::remove_dir_all(&failure.kept);
        }
        found.add(look);
        is_found = !failures.is_empty();
        if is_found {
            break;
        }
    }
    found.faults += 1;
    if !is_found {
        found.failures.push(TestbedFailure {
            replay: planted.replay(cx.seed),
            violations: vec![format!("the planted defect {bug} was not found: {what}")],
            schedule: String::new(),
            kept: PathBuf::new(),
        });
    }
    Ok(found)
}
