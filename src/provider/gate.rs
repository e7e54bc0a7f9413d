//! A gate per provider, shared by everybody who asks it: after "too many requests" nobody goes before the time it
//! named, within a bound, and then one at a time, a second apart, until one is answered.
//! A probe that fails says nothing about the others: the next one goes a second later.

use super::failure_kind::ProviderFailureKind;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time between two attempts while the gate is closed.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The longest that one refused request keeps everybody waiting.
pub(super) const SHARED_WAIT_MAX: Duration = Duration::from_secs(60);

/// The gate of one provider.
#[derive(Debug, Default)]
pub(super) struct ProviderGate {
    // Held across no await.
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The time at which the next attempt may go, while the gate is closed.
    next_probe: Option<Instant>,
    /// The reason it was closed last.
    failure_kind: Option<ProviderFailureKind>,
    /// Number of times the gate was closed. An answer to a request from before does not open it.
    closings: u64,
}

/// The right to ask once.
#[derive(Debug)]
pub(super) struct GatePass {
    closings: u64,
    is_probe: bool,
}

impl ProviderGate {
    /// The reason the gate is closed, if it is, and when the next attempt may go.
    pub(super) fn closed_until(&self) -> Option<(ProviderFailureKind, Instant)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure_kind.zip(state.next_probe)
    }

    /// Waits until it may be asked. Dropping the future gives nothing away.
    pub(super) async fn acquire(&self) -> GatePass {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            // Registered before the look, so that an opening in between is not missed.
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

    /// Closes the gate for `hold` after an attempt was refused, or longer if it already is closed longer. A probe,
    /// and a time over the bound, hold it for one interval: the limit may be of that one request, so somebody else
    /// finds out.
    pub(super) fn close_for(&self, pass: &GatePass, trouble: ProviderFailureKind, hold: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure_kind = Some(trouble);
        let hold = match pass.is_probe || hold > SHARED_WAIT_MAX {
            true => PROBE_INTERVAL,
            false => hold,
        };
        let until = Instant::now() + hold;
        state.next_probe = Some(state.next_probe.map_or(until, |before| before.max(until)));
        // What a probe learns must not make the answer to an earlier one worthless.
        if !pass.is_probe {
            state.closings += 1;
        }
    }

    /// Opens the gate after an attempt was answered, unless it was closed since.
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
