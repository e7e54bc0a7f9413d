//! The tally of scenarios: counts, violations with the data to investigate them, and the summary line.

use crate::conversation::UserConversation;
use crate::final_checks;
use crate::testbed::Testbed;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The number of violations of a testbed that are shown in full.
const SHOWN_MAX: usize = 5;

/// The counts and violations of one or more testbeds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) testbeds: usize,
    /// The number of times the process ended.
    pub(crate) ends: usize,
    /// The number of acknowledged messages.
    pub(crate) messages: usize,
    /// The number of other faults.
    pub(crate) faults: usize,
    pub(crate) slowest_start: Duration,
    pub(crate) failures: Vec<TestbedFailure>,
    /// The measured values, each with its name.
    pub(crate) measured: Vec<String>,
    /// The parts that could not be tested here, and the reasons.
    pub(crate) skipped: Vec<String>,
}

/// A testbed in which a promise was broken.
#[derive(Debug)]
pub(crate) struct TestbedFailure {
    /// The arguments that reproduce the failure.
    pub(crate) replay: String,
    pub(crate) violations: Vec<String>,
    /// The actions, with seconds since the beginning.
    pub(crate) schedule: String,
    /// The directory with the configuration, database and logs.
    pub(crate) kept: PathBuf,
}

impl Tally {
    /// Stops a testbed, checks everything in it, and counts it.
    pub(crate) async fn close(
        world: Arc<Testbed>,
        talks: Vec<UserConversation>,
        replay: &str,
        keep: Option<&Path>,
    ) -> Self {
        final_checks::check(&world, &talks).await;
        drop(talks);
        Self::count(world, replay, keep)
    }

    /// Counts a testbed in its current state.
    pub(crate) fn count(world: Arc<Testbed>, replay: &str, keep: Option<&Path>) -> Self {
        let violations = world.violations();
        let mut tally = Self {
            testbeds: 1,
            ends: world.ends(),
            messages: *world.acknowledged().borrow(),
            slowest_start: world.slowest_start(),
            ..Self::default()
        };
        if !violations.is_empty() {
            let schedule = world.journal();
            let kept = match Arc::try_unwrap(world) {
                Ok(world) => world.keep(keep),
                Err(world) => world.directory().to_owned(),
            };
            tally.failures.push(TestbedFailure {
                replay: replay.to_owned(),
                violations,
                schedule,
                kept,
            });
        }
        tally
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.testbeds += other.testbeds;
        self.ends += other.ends;
        self.messages += other.messages;
        self.faults += other.faults;
        self.slowest_start = self.slowest_start.max(other.slowest_start);
        self.failures.extend(other.failures);
        self.measured.extend(other.measured);
        self.skipped.extend(other.skipped);
    }

    pub(crate) fn violations(&self) -> usize {
        self.failures.iter().map(|failure| failure.violations.len()).sum()
    }

    /// Returns the summary: `412 ends, 3,120 messages, 0 violations`.
    pub(crate) fn summary(&self) -> String {
        let mut words = vec![
            format!("{} ends", self.ends),
            format!("{} messages", self.messages),
        ];
        if self.faults > 0 {
            words.push(format!("{} faults", self.faults));
        }
        words.extend(self.measured.iter().cloned());
        words.push(format!("{} violations", self.violations()));
        words.join(", ")
    }
}

impl TestbedFailure {
    /// Returns the full report of the failure.
    pub(crate) fn report(&self) -> String {
        let shown = self
            .violations
            .iter()
            .take(SHOWN_MAX)
            .map(|violation| format!("  {}", violation.replace('\n', "\n    ")));
        let more = self.violations.len().saturating_sub(SHOWN_MAX);
        let more = (more > 0).then(|| format!("  and {more} more"));
        let shown: Vec<String> = shown.chain(more).collect();
        format!(
            "{}\n  again: {}\n  kept: {}\n  schedule:\n    {}",
            shown.join("\n"),
            self.replay,
            self.kept.display(),
            self.schedule.trim_end().replace('\n', "\n    ")
        )
    }
}
