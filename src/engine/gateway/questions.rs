//! The deadlines of questions. A question that nobody answers in time is closed, and its turn goes on.

use super::outgoing::OutgoingMessages;
use super::parts::Parts;
use super::scheduler::TurnScheduler;
use crate::base::model::{Action, Op, WorkStatus};
use crate::state::store::{QuestionPlace, StoreError};
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
    /// Shows in the thread of each open question that its turn waits. The process before may have ended after it showed
    /// that work goes on there, and before it showed that it does not.
    pub(super) async fn show_waiting(&self) -> Result<(), StoreError> {
        let config = Arc::clone(&self.parts.config);
        let compose = move |shown: &QuestionPlace| {
            let chat = shown.place.account.platform.chat()?;
            let is_shown = chat.shows_work && shown.place.thread.is_some();
            (is_shown && config.channels.contains_key(&shown.channel)).then(|| Op {
                id: format!("{}/waits-again", shown.post),
                channel: shown.channel.clone(),
                place: shown.place.clone(),
                action: Action::ShowWork {
                    status: WorkStatus::Waiting,
                    title: None,
                },
                response_url: None,
            })
        };
        let (store, now) = (&self.parts.store, (self.parts.now)());
        store.enqueue_for_open_questions(compose, now).await
    }

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
