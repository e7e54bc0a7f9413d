//! Rate limits of a platform. A limit is one point in time: when all calls so far would have been made at an even pace.
//! No I/O; time is an argument.

use crate::interfaces::channel::{Channel, Limit, Scope};
use crate::state::store::{Admission, DueOperation};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Number of scopes that are remembered before idle ones are dropped.
const SCOPES_MAX: usize = 4_096;

/// The treatment of a platform's rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Calls are counted, and wait for quota.
    Counted,
    /// Calls wait only if the platform asks for it.
    Ignored,
}

impl Pacing {
    /// Converts the setting `paced` of a channel.
    pub fn from_setting(is_paced: bool) -> Self {
        match is_paced {
            true => Self::Counted,
            false => Self::Ignored,
        }
    }
}

/// The remaining quota of each limit.
#[derive(Clone, Debug)]
pub(super) struct RateLimiter {
    buckets: HashMap<Scope, Bucket>,
    /// True if calls are counted. A wait that the platform asks for is respected in any case.
    pacing: Pacing,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The time at which all calls so far would be finished at an even pace.
    theoretical_arrival: Instant,
    /// The time by which a burst may exceed the even rate.
    burst_max: Duration,
}

impl Bucket {
    fn new(limit: &Limit, now: Instant) -> Self {
        Self {
            theoretical_arrival: now,
            burst_max: limit.every.saturating_mul(limit.burst.saturating_sub(1)),
        }
    }

    /// Returns the time from which one more call is allowed.
    fn free_at(&self, now: Instant) -> Instant {
        self.theoretical_arrival
            .checked_sub(self.burst_max)
            .unwrap_or(now)
            .max(now)
    }
}

impl RateLimiter {
    pub(super) fn new(pacing: Pacing) -> Self {
        Self {
            buckets: HashMap::new(),
            pacing,
        }
    }

    /// Counts a call, or returns when it is allowed.
    pub(super) fn take(&mut self, limits: &[Limit], now: Instant) -> Result<(), Instant> {
        let free_at = self.free_at(limits, now);
        if free_at > now {
            return Err(free_at);
        }
        if self.pacing == Pacing::Counted {
            self.drop_idle(now);
            for limit in limits {
                let bucket = self.bucket(limit, now);
                bucket.theoretical_arrival = bucket.theoretical_arrival.max(now) + limit.every;
            }
        }
        Ok(())
    }

    /// Counts an optional call. It leaves half of each burst for calls that people wait for.
    pub(super) fn take_spare(&mut self, limits: &[Limit], now: Instant) -> Result<(), Instant> {
        let spare: Vec<Limit> = limits
            .iter()
            .map(|limit| Limit {
                burst: limit.burst.div_ceil(2),
                ..limit.clone()
            })
            .collect();
        for limit in &spare {
            let full = self.buckets.get(&limit.scope).map(|bucket| Bucket {
                burst_max: Bucket::new(limit, now).burst_max,
                ..*bucket
            });
            let free_at = full.map_or(now, |bucket| bucket.free_at(now));
            if free_at > now {
                return Err(free_at);
            }
        }
        self.take(limits, now)
    }

    /// Closes a scope until a time, with no burst after it.
    pub(super) fn close(&mut self, limit: &Limit, until: Instant, now: Instant) {
        let bucket = self.bucket(limit, now);
        bucket.theoretical_arrival = bucket.theoretical_arrival.max(until + bucket.burst_max);
    }

    fn free_at(&self, limits: &[Limit], now: Instant) -> Instant {
        let waits = limits.iter().filter_map(|limit| self.buckets.get(&limit.scope));
        waits.map(|bucket| bucket.free_at(now)).max().unwrap_or(now)
    }

    fn bucket(&mut self, limit: &Limit, now: Instant) -> &mut Bucket {
        let bucket = self.buckets.entry(limit.scope.clone());
        bucket.or_insert_with(|| Bucket::new(limit, now))
    }

    fn drop_idle(&mut self, now: Instant) {
        if self.buckets.len() >= SCOPES_MAX {
            self.buckets.retain(|_, bucket| bucket.theoretical_arrival > now);
        }
    }
}

/// A copy of the remaining quotas. Choosing operations from the outbox uses it up.
#[derive(Clone)]
pub(super) struct QuotaSnapshot {
    pub(super) limiter: RateLimiter,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) now: Instant,
    /// The earliest time at which a refused operation may be admitted.
    pub(super) next: Option<Instant>,
}

impl QuotaSnapshot {
    fn later(&mut self, at: Instant) -> bool {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }
}

impl Admission for QuotaSnapshot {
    fn admits_chat(&mut self, chat: &str) -> bool {
        let bucket = self.limiter.buckets.get(&Scope::Chat(chat.to_owned()));
        let free_at = bucket.map_or(self.now, |bucket| bucket.free_at(self.now));
        free_at <= self.now || self.later(free_at)
    }

    fn admits(&mut self, due: &DueOperation) -> bool {
        let limits = self.channel.limits(&due.op, super::call(due));
        match self.limiter.take(&limits, self.now) {
            Ok(()) => true,
            Err(free_at) => self.later(free_at),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Pacing, RateLimiter};
    use crate::interfaces::channel::{Limit, Scope};
    use std::time::Duration;
    use tokio::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);

    fn of_chat(burst: u32) -> Vec<Limit> {
        vec![Limit {
            scope: Scope::Chat("C1".to_owned()),
            burst,
            every: SECOND,
        }]
    }

    /// R17
    #[test]
    fn a_burst_goes_at_once_and_what_follows_at_an_even_pace() {
        let mut pace = RateLimiter::new(Pacing::Counted);
        let now = Instant::now();
        let limits = of_chat(3);
        for _ in 0..3 {
            assert_eq!(pace.take(&limits, now), Ok(()));
        }
        assert_eq!(pace.take(&limits, now), Err(now + SECOND));
        assert_eq!(pace.take(&limits, now + SECOND), Ok(()));
        assert_eq!(pace.take(&limits, now + SECOND), Err(now + 2 * SECOND));
        // A minute later one full burst is available again, and no more.
        let later = now + 60 * SECOND;
        let sent = (0..10).filter(|_| pace.take(&limits, later).is_ok()).count();
        assert_eq!(sent, 3);
    }

    /// R17
    #[test]
    fn a_retry_after_is_obeyed_even_without_rate_limits() {
        for pacing in [Pacing::Counted, Pacing::Ignored] {
            let mut pace = RateLimiter::new(pacing);
            let now = Instant::now();
            let limits = of_chat(3);
            let until = now + 7 * SECOND;
            pace.close(&limits[0], until, now);
            assert_eq!(pace.take(&limits, now), Err(until));
            assert_eq!(pace.take(&limits, until), Ok(()));
            let next = pace.take(&limits, until);
            assert_eq!(next.is_err(), pacing == Pacing::Counted, "no burst after it");
        }
    }

    /// R17
    #[test]
    fn ten_streams_that_are_updated_together_at_their_pace_are_never_refused() {
        let appends = [Limit {
            scope: Scope::Method("chat.appendStream"),
            burst: 20,
            every: Duration::from_millis(750),
        }];
        let mut pace = RateLimiter::new(Pacing::Counted);
        let start = Instant::now();
        for round in 0..80 {
            let now = start + round * Duration::from_millis(7_500);
            for _ in 0..10 {
                assert_eq!(pace.take_spare(&appends, now), Ok(()), "{round}");
            }
        }
        // An eleventh has to wait.
        let now = start + 80 * Duration::from_millis(7_500);
        let taken = (0..11).filter(|_| pace.take_spare(&appends, now).is_ok()).count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn background_operations_leave_half_of_a_burst_free() {
        let mut pace = RateLimiter::new(Pacing::Counted);
        let now = Instant::now();
        let limits = of_chat(4);
        let spare = (0..4).filter(|_| pace.take_spare(&limits, now).is_ok()).count();
        let rest = (0..4).filter(|_| pace.take(&limits, now).is_ok()).count();
        assert_eq!((spare, rest), (2, 2));
    }
}
