//! A gate for each provider, shared by all of its callers. After "too many requests" it lets no request pass before
//! the time that the provider named, within a limit. Then it lets single probes pass, one second apart, until one of
//! them is answered. A failed probe does not delay the next one: it goes a second later.

use super::failure_kind::ProviderFailureKind;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time between two attempts while the gate is closed.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time that one refused request may delay all callers.
pub(super) const SHARED_WAIT_MAX: Duration = Duration::from_secs(60);

/// The gate of one provider.
#[derive(Debug, Default)]
pub(super) struct ProviderGate {
    // The lock is never held across an await.
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The time of the next attempt while the gate is closed.
    next_probe: Option<Instant>,
    /// The reason why the gate was last closed.
    failure_kind: Option<ProviderFailureKind>,
    /// The number of times that the gate was closed. An answer to an earlier request does not open it.
    closings: u64,
}

/// A permit for one attempt.
#[derive(Debug)]
pub(super) struct GatePass {
    closings: u64,
    is_probe: bool,
}

impl GatePass {
    /// Returns true if the attempt tests whether the provider answers again.
    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
    }
}

impl ProviderGate {
    /// Returns the reason why the gate is closed, and the time of the next attempt; `None` if it is open.
    pub(super) fn closed_until(&self) -> Option<(ProviderFailureKind, Instant)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure_kind.zip(state.next_probe)
    }

    /// Waits for a permit. Cancel-safe.
    pub(super) async fn acquire(&self) -> GatePass {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            // Registered before the check, so that an opening in between is not missed.
            opened.as_mut().enable();
            let next_probe = match self.try_acquire(Instant::now()) {
                Ok(pass) => return pass,
                Err(next_probe) => next_probe,
            };
            tokio::select! {
                () = opened => {}
                () = tokio::time::sleep_until(next_probe) => {}
            }
        }
    }

    /// Closes the gate for `hold` after a refused attempt, unless it is already closed for longer. After a probe, or
    /// if `hold` exceeds the limit, it closes for one interval: the rate limit may concern only that request, so
    /// another caller's probe tests it.
    pub(super) fn close_for(&self, pass: &GatePass, kind: ProviderFailureKind, hold: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure_kind = Some(kind);
        let hold = match pass.is_probe || hold > SHARED_WAIT_MAX {
            true => PROBE_INTERVAL,
            false => hold,
        };
        let until = Instant::now() + hold;
        state.next_probe = Some(state.next_probe.map_or(until, |before| before.max(until)));
        // A refused probe must not invalidate the answer to an earlier one.
        if !pass.is_probe {
            state.closings += 1;
        }
    }

    /// Opens the gate after an answered attempt, unless the gate was closed again in the meantime.
    pub(super) fn record_answer(&self, pass: GatePass) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closings == pass.closings && state.next_probe.take().is_some() {
            self.opened.notify_waiters();
        }
    }

    fn try_acquire(&self, now: Instant) -> Result<GatePass, Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_probe = match state.next_probe {
            Some(next_probe) if now < next_probe => return Err(next_probe),
            Some(_) => {
                state.next_probe = Some(now + PROBE_INTERVAL);
                true
            }
            None => false,
        };
        Ok(GatePass {
            closings: state.closings,
            is_probe,
        })
    }
}
