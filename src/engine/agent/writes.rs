//! Counts the writing calls of a turn, so that the report to users never relies on the model's word.

use super::calls::{CallOutcome, CallResult};
use crate::base::model::{pluralize, short_line};

/// The number of reasons that are reported; further ones are only counted.
const REASONS_MAX: usize = 3;
/// The number of characters of one reason.
const REASON_CHARS_MAX: usize = 200;

/// The outcome of a turn's writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// The number of calls that wrote.
    pub done: u32,
    /// The calls that were refused because of a grant, a role, a budget or a rule.
    pub refused: FailedWrites,
    /// The calls that failed for another reason.
    pub failed: FailedWrites,
}

/// Calls that did not write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedWrites {
    count: u32,
    /// The reasons without duplicates and without secrets, in the order of their occurrence.
    reasons: Vec<String>,
    /// True if there were more reasons than are kept.
    is_cut: bool,
}

impl WriteCounts {
    /// Counts the calls of one step.
    pub(super) fn count(&mut self, done: &[CallResult]) {
        for done in done {
            match (done.outcome, &done.write_failure) {
                (CallOutcome::Wrote, _) => self.done = self.done.saturating_add(1),
                (CallOutcome::Refused, Some(why)) => self.refused.add(why),
                (_, Some(why)) => self.failed.add(why),
                (_, None) => {}
            }
        }
    }

    /// Counts a call that was refused when its step was recorded.
    pub(super) fn refuse(&mut self, why: &str) {
        self.refused.add(why);
    }

    /// Returns the line about refused writes, if there were any.
    pub fn refusals(&self) -> Option<String> {
        self.refused.summary("refused")
    }

    /// Returns the line about writes that failed for another reason, if there were any.
    pub fn failures(&self) -> Option<String> {
        self.failed.summary("not possible")
    }
}

impl FailedWrites {
    fn add(&mut self, why: &str) {
        self.count = self.count.saturating_add(1);
        let why = short_line(why, REASON_CHARS_MAX);
        if self.reasons.contains(&why) {
            return;
        }
        match self.reasons.len() < REASONS_MAX {
            true => self.reasons.push(why),
            false => self.is_cut = true,
        }
    }

    fn summary(&self, what: &str) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let counted = pluralize(self.count as usize, "write was", "writes were");
        let rest = if self.is_cut { "; and more reasons" } else { "" };
        Some(format!("{counted} {what}: {}{rest}.", self.reasons.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{FailedWrites, WriteCounts};

    #[test]
    fn refusal_reasons_are_listed_once_each_on_one_bounded_line() {
        let mut refused = FailedWrites::default();
        for why in ["no grant", "no grant", "a\nb"] {
            refused.add(why);
        }
        let mut writes = WriteCounts {
            refused,
            ..WriteCounts::default()
        };
        let expected = "3 writes were refused: no grant; a<U+000A>b.";
        assert_eq!(writes.refusals().as_deref(), Some(expected));
        assert_eq!(writes.failures(), None);
        writes.failed.add("found 0 matches");
        let expected = "1 write was not possible: found 0 matches.";
        assert_eq!(writes.failures().as_deref(), Some(expected));
        for number in 0..1_000 {
            writes.failed.add(&format!("{number} {}", "x".repeat(10_000)));
        }
        let line = writes.failures().unwrap_or_default();
        assert!(
            line.starts_with("1001 writes were not possible: found 0 matches; 0 xxx"),
            "{line}"
        );
        assert!(
            line.ends_with("; and more reasons.") && line.len() < 800,
            "{line}"
        );
    }
}
