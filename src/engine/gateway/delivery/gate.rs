//! The gate for all calls to a channel. It decides whether the channel is open and whether the limits allow another
//! call. All results of calls are recorded here.

use super::circuit::{Cause, Circuit, Moment, PlatformStatus};
use super::health::ChannelState;
use super::rate_limit::{Pacing, QuotaSnapshot, RateLimiter};
use crate::interfaces::channel::{Channel, Limit, SendError};
use crate::planted;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{error, info};

/// Shortest and longest wait accepted from a platform.
const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// The time for which a scope is closed if the platform names no time.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The interval at which a waiting call checks again without a wake signal.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct DeliveryGate {
    name: String,
    now: fn() -> Timestamp,
    random: fn() -> [u8; 32],
    state: Mutex<GateState>,
    moved: Notify,
}

struct GateState {
    circuit: Circuit,
    limiter: RateLimiter,
}

/// A call in progress.
pub(super) struct CallGuard<'a> {
    gate: &'a DeliveryGate,
    began: Instant,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.gate.state().circuit.call_ends(self.began);
        self.gate.moved.notify_waiters();
    }
}

impl DeliveryGate {
    pub(super) fn new(
        name: String,
        pacing: Pacing,
        now: fn() -> Timestamp,
        random: fn() -> [u8; 32],
    ) -> Self {
        Self {
            name,
            now,
            random,
            state: Mutex::new(GateState {
                circuit: Circuit::new(Instant::now()),
                limiter: RateLimiter::new(pacing),
            }),
            moved: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Instant::now(),
            at: (self.now)(),
            jitter: (self.random)()[0],
        }
    }

    /// Counts a call that people wait for. Returns false if it may not be made now.
    pub(super) fn admit(&self, limits: &[Limit]) -> bool {
        self.admit_or_wait(limits).is_ok()
    }

    /// Counts a call that people wait for, or returns how long the limits block it. The time is zero if the whole
    /// channel is closed.
    pub(super) fn admit_or_wait(&self, limits: &[Limit]) -> Result<(), Duration> {
        let mut state = self.state();
        if state.circuit.closed().is_some() {
            return Err(Duration::ZERO);
        }
        let now = Instant::now();
        state.limiter.take(limits, now).map_err(|free_at| free_at - now)
    }

    /// Counts an optional call, or refuses it.
    pub(super) fn admit_spare(&self, limits: &[Limit]) -> Result<(), SendError> {
        let mut state = self.state();
        if let Some(closed) = state.circuit.closed() {
            return Err(SendError::Unreachable(closed.why.clone()));
        }
        let now = Instant::now();
        state
            .limiter
            .take_spare(limits, now)
            .map_err(|free_at| SendError::Limited {
                why: "other operations have priority".to_owned(),
                retry_after: Some(free_at - now),
            })
    }

    /// Waits for one of the few call slots while the platform is unproven. Returns `None` if the channel is closed.
    pub(super) async fn call(&self) -> Option<CallGuard<'_>> {
        loop {
            let moved = self.moved.notified();
            {
                let mut state = self.state();
                if state.circuit.closed().is_some() {
                    return None;
                }
                let began = Instant::now();
                if state.circuit.free_calls(began) > 0 {
                    state.circuit.call_begins(began);
                    return Some(CallGuard { gate: self, began });
                }
            }
            // A long call stops counting without a signal.
            let _ = tokio::time::timeout(RECHECK_INTERVAL, moved).await;
        }
    }

    /// Returns how many further calls may be made now.
    pub(super) fn free_calls(&self) -> usize {
        self.state().circuit.free_calls(Instant::now())
    }

    /// Returns a filter for the operations that may be leased now.
    pub(super) fn quota_snapshot(&self, channel: &Arc<dyn Channel>) -> QuotaSnapshot {
        QuotaSnapshot {
            limiter: self.state().limiter.clone(),
            channel: Arc::clone(channel),
            now: Instant::now(),
            next: None,
        }
    }

    /// Records an answer of the platform.
    pub(super) fn answered(&self) {
        if self.state().circuit.answered(Instant::now()) {
            info!(channel = self.name, "channel {} is open again", self.name);
        }
        self.moved.notify_waiters();
    }

    /// Records a failed call for an operation. Returns the state before it.
    pub(super) fn failed(&self, error: &SendError, limits: &[Limit]) -> PlatformStatus {
        let before = self.state().circuit.platform_status(Instant::now());
        match error {
            // The platform answered and named another host that did not.
            SendError::Refused(_) | SendError::OtherForm(_) | SendError::OtherHost { .. } => self.answered(),
            SendError::Limited { retry_after, .. } => self.limited(limits, *retry_after),
            SendError::Unauthorised(why) => self.unauthorised(why),
            SendError::Unreachable(why) | SendError::NotSent { why, .. } | SendError::Ambiguous(why) => {
                if !planted::is("C2") {
                    let moment = self.moment();
                    if self.state().circuit.unanswered(why, moment) {
                        self.log_closure(Cause::Unreachable, why);
                    }
                }
            }
        }
        self.moved.notify_waiters();
        before
    }

    /// Records a failed optional call. Only limits and the token affect other calls.
    pub(super) fn record_best_effort_failure(&self, error: &SendError, limits: &[Limit]) {
        match error {
            SendError::Limited { retry_after, .. } => self.limited(limits, *retry_after),
            SendError::Unauthorised(why) => self.unauthorised(why),
            SendError::Refused(_)
            | SendError::OtherForm(_)
            | SendError::Unreachable(_)
            | SendError::NotSent { .. }
            | SendError::OtherHost { .. }
            | SendError::Ambiguous(_) => {}
        }
    }

    fn limited(&self, limits: &[Limit], retry_after: Option<Duration>) {
        let Some(limit) = limits.first() else { return };
        let now = Instant::now();
        let wait = retry_after
            .unwrap_or(RETRY_AFTER)
            .clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX);
        self.state().limiter.close(limit, now + wait, now);
        info!(
            channel = self.name,
            "{:?} waits {} s, as {} requested",
            limit.scope,
            wait.as_secs(),
            self.name
        );
    }

    fn unauthorised(&self, why: &str) {
        let moment = self.moment();
        if self.state().circuit.unauthorised(why, moment) {
            self.log_closure(Cause::Unauthorised, why);
        }
    }

    /// Logs one line for an operator. The channel's state shows the closure as long as it lasts.
    fn log_closure(&self, cause: Cause, why: &str) {
        let name = &self.name;
        match cause {
            Cause::Unreachable => error!(
                channel = name,
                why,
                "channel {name} is closed: the platform does not answer; all deliveries wait until it does"
            ),
            Cause::Unauthorised => error!(
                channel = name,
                why,
                "channel {name} is closed: its token is refused; all deliveries wait until it is accepted. Set a \
                 valid one in its section of the configuration"
            ),
        }
    }

    /// Returns the state of a closed channel with its reason; `None` if it is open.
    pub(super) fn closed(&self) -> Option<ChannelState> {
        let state = self.state();
        state.circuit.closed().map(|closed| {
            let (since, why) = (closed.since, closed.why.clone());
            match closed.cause {
                Cause::Unreachable => ChannelState::Unreachable { since, why },
                Cause::Unauthorised => ChannelState::Unauthorised { since, why },
            }
        })
    }

    /// Returns the time of the next probe while nothing is sent.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.state().circuit.probe_at()
    }

    /// Makes the next probe due.
    pub(super) fn probe_now(&self) {
        self.state().circuit.probe_now(Instant::now());
    }

    pub(super) async fn probe(&self, channel: &Arc<dyn Channel>) {
        let (cause, why) = match channel.probe().await {
            // Any of these answers shows that the platform is reachable.
            Ok(())
            | Err(
                SendError::Limited { .. }
                | SendError::Refused(_)
                | SendError::OtherForm(_)
                | SendError::OtherHost { .. },
            ) => {
                self.state().circuit.probed();
                self.moved.notify_waiters();
                return;
            }
            Err(SendError::Unauthorised(why)) => (Cause::Unauthorised, why),
            Err(SendError::Unreachable(why) | SendError::NotSent { why, .. } | SendError::Ambiguous(why)) => {
                (Cause::Unreachable, why)
            }
        };
        let moment = self.moment();
        if self.state().circuit.not_probed(cause, &why, moment) {
            self.log_closure(cause, &why);
        }
    }

    /// Returns how long a failed operation waits for others to go first.
    pub(super) fn pause(&self) -> Duration {
        self.state().circuit.pause()
    }
}
