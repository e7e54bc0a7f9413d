//! Long polling. A request for the next update confirms the previous one, so Telegram deletes it. Therefore the next
//! update is requested only after the gateway has accepted the current one.

use super::ALLOWED_UPDATES;
use super::api::{ApiError, BotApi};
use super::payload::PollUpdates;
use super::webhook::decode;
use crate::base::model::{Inbound, Installation};
use crate::base::webhook::{Received, Rejected};
use crate::interfaces::channel::PolledInbound;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time for which Telegram holds a request without updates.
const WAIT: Duration = Duration::from_secs(30);
/// The shortest time between two requests after an answer without news. Telegram itself holds a request until there
/// is an update, but a proxy may not.
const IDLE_EVERY: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The maximum number of updates in one answer; Telegram's own limit.
const BATCH_MAX: usize = 100;

/// Polls until `cancel`, or until the receiver is gone.
pub(super) async fn poll(
    name: &str,
    installation: &Installation,
    api: &BotApi,
    inbox: &mpsc::Sender<PolledInbound>,
    cancel: &CancellationToken,
) {
    let mut poller = Poller {
        name,
        installation,
        decode,
        inbox,
        offset: None,
        panics: 0,
        is_hasty: false,
    };
    let polling = async {
        let mut backoff = BACKOFF_MIN;
        loop {
            let began = Instant::now();
            let wait = match poller.round(api).await {
                Ok(RoundNews::NewUpdates) => {
                    backoff = BACKOFF_MIN;
                    continue;
                }
                Ok(RoundNews::NoUpdates) => {
                    backoff = BACKOFF_MIN;
                    poller.idle(began).await;
                    continue;
                }
                Err(Interruption::Ended) => return,
                Err(Interruption::Unaccepted) => backoff,
                Err(Interruption::Failed { wait }) => wait.unwrap_or(backoff),
            };
            tokio::time::sleep(wait).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    };
    cancel.run_until_cancelled(polling).await;
}

/// The result of a round: whether it had new updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundNews {
    NewUpdates,
    NoUpdates,
}

/// The reason why a round ends early.
enum Interruption {
    /// The poller was cancelled, or the receiver is gone.
    Ended,
    /// An update was not stored: Telegram must deliver it again.
    Unaccepted,
    /// Telegram refused the request or did not answer it. It may require a wait.
    Failed { wait: Option<Duration> },
}

struct Poller<'a> {
    name: &'a str,
    installation: &'a Installation,
    decode: Decode,
    inbox: &'a mpsc::Sender<PolledInbound>,
    /// The first update that is not durable yet; `None` when all received updates are confirmed.
    offset: Option<i64>,
    /// The number of updates that made the decoder panic.
    panics: u64,
    /// True once the log has a warning about answers without news that come too early.
    is_hasty: bool,
}

/// The function that decodes an update of a channel.
type Decode = fn(&str, &Value, &Installation) -> Result<Received, Rejected>;

impl Poller<'_> {
    /// Waits until the next request is due after a round without news. Usually Telegram itself has waited long
    /// enough.
    async fn idle(&mut self, began: Instant) {
        let early = IDLE_EVERY.saturating_sub(began.elapsed());
        if early.is_zero() {
            return;
        }
        if !std::mem::replace(&mut self.is_hasty, true) {
            tracing::warn!(
                channel = self.name,
                "polls are answered at once without updates; polling once a second. Check the proxy at \
                 `api_base_url`: it should wait for {} s",
                WAIT.as_secs()
            );
        }
        tokio::time::sleep(early).await;
    }

    async fn round(&mut self, api: &BotApi) -> Result<RoundNews, Interruption> {
        let request = PollUpdates {
            offset: self.offset,
            limit: BATCH_MAX,
            timeout: WAIT.as_secs(),
            allowed_updates: &ALLOWED_UPDATES,
        };
        let answer = match api.call(&request).await {
            Ok(answer) => answer,
            Err(err) => return Err(self.failed(err)),
        };
        let updates = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        if updates.is_empty() {
            // Telegram has deleted all updates before the offset. A request without an offset finds the next update
            // even if Telegram restarts its update ids below the offset.
            self.offset = None;
            return Ok(RoundNews::NoUpdates);
        }
        let before = self.offset;
        match self.process_batch(updates).await {
            // Telegram sent the same updates again, although they were confirmed.
            Ok(()) if before.is_some() && self.offset == before => Ok(RoundNews::NoUpdates),
            Ok(()) => Ok(RoundNews::NewUpdates),
            Err(interruption) => {
                if matches!(interruption, Interruption::Unaccepted) {
                    tracing::warn!(
                        channel = self.name,
                        "an update was not stored; requesting it from telegram again"
                    );
                }
                Err(interruption)
            }
        }
    }

    fn failed(&self, err: ApiError) -> Interruption {
        let wait = match &err {
            ApiError::Limited { retry_after, .. } => retry_after.map(|wait| wait.min(BACKOFF_MAX)),
            _ => None,
        };
        match err {
            ApiError::Refused { code: 409, .. } => tracing::error!(
                channel = self.name,
                "another program polls this bot, or a webhook is set for it; only one may"
            ),
            ApiError::Refused { code, reason } => {
                tracing::error!(channel = self.name, "telegram refuses polling: {code} {reason}");
            }
            error => {
                let why = error.into_repeatable_error();
                tracing::warn!(channel = self.name, "polling telegram: {why}");
            }
        }
        Interruption::Failed { wait }
    }

    /// Passes on a whole batch and then waits for the confirmations in order, so that the gateway can store many
    /// updates with one write. The offset moves past each durable update.
    async fn process_batch(&mut self, updates: &[Value]) -> Result<(), Interruption> {
        let mut waiting: Vec<(i64, Option<oneshot::Receiver<()>>)> = Vec::with_capacity(updates.len());
        for update in updates.iter().take(BATCH_MAX) {
            let Some(id) = update["update_id"].as_i64() else {
                tracing::warn!(channel = self.name, "skipped an update without an id");
                continue;
            };
            let answer = match self.inbound(id, update) {
                Some(inbound) => Some(self.forward(inbound).await?),
                None => None,
            };
            waiting.push((id, answer));
        }
        if waiting.is_empty() {
            return Err(Interruption::Unaccepted);
        }
        for (id, answer) in waiting {
            if let Some(answer) = answer {
                answer.await.map_err(|_| Interruption::Unaccepted)?;
            }
            self.offset = Some(id.saturating_add(1));
        }
        Ok(())
    }

    async fn forward(&self, inbound: Inbound) -> Result<oneshot::Receiver<()>, Interruption> {
        let (accepted, answer) = oneshot::channel();
        let polled = PolledInbound { inbound, accepted };
        self.inbox.send(polled).await.map_err(|_| Interruption::Ended)?;
        Ok(answer)
    }

    /// Decodes an update. An invalid update is skipped: otherwise it would be delivered again and again, and block
    /// all others.
    fn inbound(&mut self, id: i64, update: &Value) -> Option<Inbound> {
        let decoding = AssertUnwindSafe(|| (self.decode)(self.name, update, self.installation));
        let Ok(decoded) = catch_unwind(decoding) else {
            self.panics += 1;
            tracing::error!(
                channel = self.name,
                update.id = id,
                panics = self.panics,
                "skipped update {id}: reading it panicked"
            );
            return None;
        };
        match decoded {
            Ok(Received::Inbound(inbound)) => Some(*inbound),
            Ok(Received::Ignored(why)) => {
                tracing::info!(channel = self.name, update.id = id, "ingress.ignored: {why}");
                None
            }
            Ok(Received::Answer(_)) => None,
            Err(why) => {
                tracing::warn!(channel = self.name, update.id = id, "skipped update {id}: {why}");
                None
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{Decode, Poller};
    use crate::base::model::{Account, Installation, Platform};
    use crate::interfaces::channel::telegram::webhook::decode;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    fn says(id: i64, text: &str) -> Value {
        json!({"update_id": id, "message": {"message_id": id, "date": 1_800_000_000, "text": text,
            "chat": {"id": 7, "type": "private"}, "from": {"id": 7, "is_bot": false, "first_name": "Bob"}}})
    }

    /// R18: an invalid update is confirmed like the others and blocks none of them.
    #[tokio::test]
    async fn an_update_that_makes_the_decoder_panic_is_skipped_and_confirmed() {
        let installation = Installation {
            account: Account {
                platform: Platform::Telegram,
                id: "99".into(),
            },
            bot_id: "99".into(),
            bot_name: "drydock_bot".into(),
        };
        let poisoned: Decode = |name, update, installation| {
            assert!(update["message"]["text"] != "poison", "a defect");
            decode(name, update, installation)
        };
        let (inbox, mut polled) = mpsc::channel(8);
        let mut poller = Poller {
            name: "telegram",
            installation: &installation,
            decode: poisoned,
            inbox: &inbox,
            offset: None,
            panics: 0,
            is_hasty: false,
        };
        let updates = [says(1, "one"), says(2, "poison"), says(3, "three")];
        let accepting = async {
            let mut taken = 0;
            while taken < 2 {
                let next = polled.recv().await.unwrap();
                next.accepted.send(()).unwrap();
                taken += 1;
            }
        };
        let (took, ()) = tokio::join!(poller.process_batch(&updates), accepting);
        assert!(took.is_ok());
        assert_eq!((poller.offset, poller.panics), (Some(4), 1));
    }
}
