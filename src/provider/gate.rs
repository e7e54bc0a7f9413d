//! One gate per provider, shared by everybody who asks it: after "too many requests" nobody goes
//! before the time it named, and then one at a time, a second apart, until one is answered.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Between two attempts while the gate is closed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The gate of one provider.
#[derive(Debug, Default)]
pub(super) struct Gate {
    // Held across no await.
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the next attempt may go, while the gate is closed.
    next_probe: Option<Instant>,
    /// How often the gate was closed. An answer to a request from before does not open it.
    closings: u64,
}

/// The right to ask once.
#[derive(Debug)]
pub(super) struct Pass {
    closings: u64,
}

impl Gate {
    /// When the next attempt may go, if the gate is closed.
    pub(super) fn closed_until(&self) -> Option<Instant> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next_probe
    }

    /// Waits until it may be asked. Dropping the future gives nothing away.
    pub(super) async fn pass(&self) -> Pass {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            // Registered before the look, so that an opening in between is not missed.
            opened.as_mut().enable();
            let next_probe = match self.try_pass(Instant::now()) {
                Ok(pass) => return pass,
                Err(next_probe) => next_probe,
            };
            tokio::select! {
                () = opened => {}
                () = tokio::time::sleep_until(next_probe) => {}
            }
        }
    }

    /// Closes the gate for `hold`, or longer if it already is.
    pub(super) fn close(&self, hold: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + hold;
        state.next_probe = Some(state.next_probe.map_or(until, |before| before.max(until)));
        state.closings += 1;
    }

    /// An attempt was answered: the gate opens, unless it was closed since.
    pub(super) fn answered(&self, pass: Pass) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closings == pass.closings && state.next_probe.take().is_some() {
            self.opened.notify_waiters();
        }
    }

    fn try_pass(&self, now: Instant) -> Result<Pass, Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.next_probe {
            Some(next_probe) if now < next_probe => return Err(next_probe),
            Some(_) => state.next_probe = Some(now + PROBE_INTERVAL),
            None => {}
        }
        Ok(Pass {
            closings: state.closings,
        })
    }
}
