//! The deadlines of questions. A question that nobody answers in time is closed, and its turn goes on.

use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::scheduler::TurnScheduler;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pause between two looks at the deadlines while a question is open. The clock may be changed meanwhile.
const OPEN_INTERVAL: Duration = Duration::from_secs(1);
/// The pause while no question is open. A question waits for at least a minute.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// The watch of the deadlines.
#[derive(Clone)]
pub struct QuestionDeadlines {
    pub(super) parts: Arc<Parts>,
    pub(super) outgoing: Arc<OutgoingMessages>,
    pub(super) scheduler: Arc<TurnScheduler>,
}

impl QuestionDeadlines {
    /// Closes the questions whose time has passed, also those of an earlier process, until `cancel`.
    pub async fn watch(self, cancel: CancellationToken) {
        loop {
            let pause = match self.parts.store.close_late_questions((self.parts.now)()).await {
                Ok((closed, next)) => {
                    if closed > 0 {
                        self.outgoing.wake();
                        self.scheduler.wake();
                    }
                    match next {
                        Some(_) => OPEN_INTERVAL,
                        None => IDLE_INTERVAL,
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "late questions could not be closed; it is tried again");
                    IDLE_INTERVAL
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cancel.cancelled() => return,
            }
        }
    }
}
