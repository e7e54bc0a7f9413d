//! The last row of the screen while a turn runs: what happens, for how long, and what it cost so far.

use crate::base::model::{Money, Usage, cut_to, one_line};
use std::time::Duration;

/// The signs that show that the program is alive, one after the other.
const SIGNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The facts of a running turn.
#[derive(Debug, Default)]
pub(super) struct TurnStatus {
    /// The number of the step, from 1.
    pub(super) step: u32,
    /// The tokens of the finished steps.
    pub(super) usage: Usage,
    /// The cost of these tokens, if the prices of the model are known.
    pub(super) cost: Option<Money>,
    /// The current activity, such as the call that runs; empty while the model answers.
    pub(super) activity: String,
    /// The number of signs that were shown.
    pub(super) shown: usize,
}

impl TurnStatus {
    /// Returns the status as one row of at most `columns_max` characters.
    pub(super) fn line(&self, elapsed: Duration, columns_max: usize) -> String {
        let sign = SIGNS[self.shown % SIGNS.len()];
        let tokens = match self.usage.total() {
            0 => String::new(),
            tokens => format!(" · {tokens} tokens"),
        };
        let activity = match self.activity.as_str() {
            "" => String::new(),
            activity => format!(" · {}", one_line(activity)),
        };
        let cost = self.cost.map_or_else(String::new, |cost| format!(" · {cost}"));
        let facts = format!(
            "{sign} step {} · {}{tokens}{cost}",
            self.step.max(1),
            duration(elapsed)
        );
        let hint = " · Ctrl-C stops";
        let room = columns_max.saturating_sub(facts.chars().count() + hint.chars().count());
        let activity = cut_to(&activity, room);
        cut_to(&format!("{facts}{activity}{hint}"), columns_max).into_owned()
    }
}

/// Returns a duration such as `14 s` or `2 min 5 s`.
fn duration(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::TurnStatus;
    use crate::base::model::{Money, Usage};
    use std::time::Duration;

    #[test]
    fn a_status_is_one_row_that_fits() {
        let mut status = TurnStatus {
            step: 2,
            shown: 11,
            ..TurnStatus::default()
        };
        let seconds = Duration::from_secs;
        assert_eq!(status.line(seconds(14), 80), "⠙ step 2 · 14 s · Ctrl-C stops");
        status.usage = Usage {
            input: 1_000,
            output: 50,
            ..Usage::default()
        };
        status.activity = "tanka_show environments/dev\n".repeat(3);
        assert_eq!(
            status.line(seconds(125), 80),
            "⠙ step 2 · 2 min 5 s · 1050 tokens · tanka_show environments/dev… · Ctrl-C stops"
        );
        assert_eq!(status.line(seconds(125), 80).chars().count(), 80);
        assert_eq!(status.line(seconds(125), 20), "⠙ step 2 · 2 min 5 …");
        status.activity.clear();
        status.cost = Some(Money::from_nano_dollars(12_300_000));
        assert_eq!(
            status.line(seconds(3), 80),
            "⠙ step 2 · 3 s · 1050 tokens · $0.0123 · Ctrl-C stops"
        );
    }
}
