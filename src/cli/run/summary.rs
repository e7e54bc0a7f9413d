//! The facts about an ended step as people read them, of a run at a terminal and of a run on a server.

use crate::base::model::{StepStatus, Verdict, VerdictSource, group_thousands};
use std::time::Duration;

/// The head of the table of steps.
pub(super) const STEP_HEADER: [&str; 5] = ["STEP", "STATUS", "VERDICT", "TOKENS", "TIME"];

/// The end of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSummary<'a> {
    /// The name of the step.
    pub(super) name: &'a str,
    /// The state.
    pub(super) status: StepStatus,
    /// The verdict and its source, if it has both.
    pub(super) verdict: Option<(Verdict, VerdictSource)>,
    /// The reason of its end, if it has one.
    pub(super) why: Option<&'a str>,
    /// The calls of the model.
    pub(super) calls: u32,
    /// The tokens, input and output.
    pub(super) tokens: u64,
    /// The time of its work.
    pub(super) took: Duration,
}

impl StepSummary<'_> {
    /// Returns the line about the end of the step.
    pub(super) fn line(&self) -> String {
        let mut parts = vec![format!("{}: {}", self.name, self.status.word())];
        parts.extend(self.verdict_words().map(|words| format!("verdict {words}")));
        if self.calls == 0 {
            parts.extend(self.why.map(str::to_owned));
        } else {
            // A reason can be a sentence, and more follows.
            parts.extend(self.why.map(|why| why.trim_end_matches('.').to_owned()));
            parts.push(format!("{} tokens", group_thousands(self.tokens)));
            parts.push(shown_time(self.took));
        }
        parts.join(", ")
    }

    /// Returns the row of the table.
    pub(super) fn row(&self) -> Vec<String> {
        let (tokens, time) = match self.calls {
            0 => (String::new(), String::new()),
            _ => (group_thousands(self.tokens), shown_time(self.took)),
        };
        vec![
            self.name.to_owned(),
            self.status.word().to_owned(),
            self.verdict_words().unwrap_or_default(),
            tokens,
            time,
        ]
    }

    /// Returns the verdict with its source. A step that a limit or an error ended has none.
    fn verdict_words(&self) -> Option<String> {
        let (verdict, source) = self.verdict?;
        let verdict = match verdict {
            Verdict::Pass | Verdict::NoChange => "pass",
            Verdict::Fail => "fail",
            Verdict::Incomplete | Verdict::Limit | Verdict::Error | Verdict::Cancelled | Verdict::Denied => {
                return None;
            }
        };
        let source = match source {
            VerdictSource::Concluded => "concluded",
            VerdictSource::Inferred => "inferred",
            VerdictSource::Verified => "by checks",
            VerdictSource::Harness => return None,
        };
        Some(format!("{verdict} ({source})"))
    }
}

/// Returns a time in its largest whole unit, or in tenths of a second below a minute.
pub(super) fn shown_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 3_600.. if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        seconds @ 60.. if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds @ 60.. => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{:.1}s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::{StepSummary, shown_time};
    use crate::base::model::StepStatus;
    use std::time::Duration;

    #[test]
    fn a_line_has_no_full_stop_before_a_comma() {
        let failed = |calls| StepSummary {
            name: "look",
            status: StepStatus::Failed,
            verdict: None,
            why: Some("No answer."),
            calls,
            tokens: 1_200,
            took: Duration::from_secs(2),
        };
        assert_eq!(failed(1).line(), "look: failed, No answer, 1,200 tokens, 2.0s");
        assert_eq!(failed(0).line(), "look: failed, No answer.");
    }

    #[test]
    fn a_time_is_shown_in_its_largest_whole_unit() {
        for (milliseconds, shown) in [
            (40, "0.0s"),
            (59_940, "59.9s"),
            (60_000, "1m"),
            (61_500, "1m 1s"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(shown_time(Duration::from_millis(milliseconds)), shown);
        }
    }
}
