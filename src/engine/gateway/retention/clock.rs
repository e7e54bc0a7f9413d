//! The clock of rounds, which a system clock that jumps ahead does not move by much.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::warn;

/// The time by which the clock may move between two rounds beyond the time that passed.
const LEAP_MAX: SignedDuration = SignedDuration::from_hours(24);

/// The clock for rounds. It follows the system clock, but between two rounds it moves at most [`LEAP_MAX`] beyond the
/// time that passed. Otherwise a clock that jumps ahead would remove everything at once. A correct clock is reached
/// within a few rounds.
#[derive(Debug)]
pub(super) struct RoundClock {
    pub(super) last: Timestamp,
    pub(super) read_at: Instant,
}

impl RoundClock {
    pub(super) fn follow(&mut self, now: Timestamp, read_at: Instant) -> Timestamp {
        let passed = SignedDuration::try_from(read_at.saturating_duration_since(self.read_at));
        let most = passed.unwrap_or(SignedDuration::ZERO).saturating_add(LEAP_MAX);
        let most = self.last.saturating_add(most).unwrap_or(Timestamp::MAX);
        if now > most {
            warn!("the clock is far ahead of the last stored time; old data is removed later");
        }
        *self = Self {
            last: now.min(most),
            read_at,
        };
        self.last
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::RoundClock;
    use jiff::Timestamp;
    use std::time::Duration;
    use tokio::time::Instant;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 3_600 * hour).unwrap()
    }

    /// R20, R29
    #[test]
    fn a_clock_that_jumps_ahead_does_not_end_everything_at_once() {
        let start = Instant::now();
        let mut followed = RoundClock {
            last: at(0),
            read_at: start,
        };
        let mut read = |hour, passed| followed.follow(at(hour), start + Duration::from_hours(passed));
        assert_eq!(read(1, 1), at(1));
        // The clock is ten years ahead for two rounds, and is then corrected.
        assert_eq!(read(87_600, 2), at(26));
        assert_eq!(read(87_601, 3), at(51));
        assert_eq!(read(4, 4), at(4));
        assert_eq!(read(5, 5), at(5));
        // After a week without a process, the clock is right and is reached within a few rounds.
        let rounds: Vec<Timestamp> = (0..10)
            .map(|round| read(206 + round, 6 + round.unsigned_abs()))
            .collect();
        assert_eq!(rounds[0], at(30));
        assert_eq!(rounds[9], at(215));
    }
}
