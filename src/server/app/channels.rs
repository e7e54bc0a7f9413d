//! Connects a channel, retrying until it succeeds, and then attaches it to the engine.

use super::ingress::IngressRoutes;
use crate::base::config::{ChannelSettings, ServerSettings};
use crate::engine::gateway::Gateway;
use crate::interfaces::channel::{self, Channel, PollMemory, PolledInbound};
use crate::state::access::AccessError;
use crate::state::store::{Store, StoreError, ThreadBeginning};
use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::Timestamp;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// The longest wait between two attempts to connect.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The number of polled messages that may wait for the store.
const POLLED_MAX: usize = 64;

/// A task that connects one channel.
pub(super) struct ChannelConnector {
    pub(super) name: String,
    pub(super) settings: ChannelSettings,
    pub(super) server: ServerSettings,
    pub(super) client: reqwest::Client,
    pub(super) routes: Arc<IngressRoutes>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) store: Store,
    pub(super) now: fn() -> Timestamp,
    pub(super) cancel: CancellationToken,
}

/// Returns the server settings for channels, with the address that the server really listens on.
pub(super) fn server_settings(server: &ServerSettings, address: SocketAddr) -> ServerSettings {
    ServerSettings {
        listen: address,
        ..server.clone()
    }
}

impl ChannelConnector {
    pub(super) async fn run(self) {
        let Some(channel) = self.connect().await else {
            return;
        };
        self.routes
            .add_channel(&self.name, &self.settings, channel.installation());
        info!(
            channel = self.name,
            account = channel.installation().account.id,
            "channel {} is connected",
            self.name
        );
        let (inbox, polled) = mpsc::channel(POLLED_MAX);
        let delivering = self
            .gateway
            .outgoing
            .attach(&self.name, Arc::clone(&channel), self.cancel.clone());
        let polling = async {
            tokio::join!(
                channel.poll(inbox, &self, self.now, self.cancel.clone()),
                self.receive_polled(polled)
            )
        };
        tokio::pin!(delivering, polling);
        tokio::select! {
            () = &mut delivering => {
                // If delivery ends before a shutdown, this task ends as well, and the server notices that.
                if self.cancel.is_cancelled() {
                    polling.await;
                }
            }
            // A channel with only a webhook is not polled, so `poll` returns at once.
            _ = &mut polling => delivering.await,
        }
    }

    async fn connect(&self) -> Option<Arc<dyn Channel>> {
        let mut wait = Duration::from_millis(200);
        loop {
            let error = match channel::connect(&self.name, &self.settings, &self.server, &self.client).await {
                Ok(channel) => return Some(channel),
                Err(error) => error,
            };
            warn!(channel = self.name, %error, "channel {} is not connected; trying again in {} s", self.name, wait.as_secs_f32());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.cancel.cancelled() => return None,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Stores polled messages. A message is acknowledged to the platform only once it is durable.
    async fn receive_polled(&self, mut polled: mpsc::Receiver<PolledInbound>) {
        while let Some(PolledInbound { inbound, accepted }) = polled.recv().await {
            let at = (self.now)();
            match catch_panic(self.gateway.reception.receive(inbound, at)).await {
                PolledOutcome::Stored => {
                    // The receiver is gone if polling has already ended.
                    let _gone = accepted.send(());
                }
                PolledOutcome::Failed(error) => {
                    warn!(%error, "a polled message could not be stored; it will be polled again");
                }
                PolledOutcome::Panicked => {
                    error!(
                        channel = self.name,
                        "the handler of a polled message panicked; the message is dropped"
                    );
                    self.gateway.audit.rejected(&self.name, "update.panicked", at);
                    let _gone = accepted.send(());
                }
            }
        }
    }
}

#[async_trait]
impl PollMemory for ChannelConnector {
    async fn position(&self) -> Result<Option<String>, StoreError> {
        self.store.channel_position(&self.name).await
    }

    async fn store_position(&self, position: String) -> Result<(), StoreError> {
        self.store.set_channel_position(&self.name, position).await
    }

    async fn direct_chats(&self, count_max: usize) -> Result<Vec<String>, StoreError> {
        self.store.direct_chats(&self.name, count_max).await
    }

    async fn thread_conversations(&self, threads: Vec<String>) -> Result<Vec<ThreadBeginning>, StoreError> {
        self.store.thread_conversations(&self.name, threads).await
    }
}

/// The outcome for a polled message.
#[derive(Debug, PartialEq, Eq)]
enum PolledOutcome {
    /// The message is durable, or was refused for good.
    Stored,
    /// The message could not be stored and must be polled again.
    Failed(AccessError),
    /// The message made its handler panic. It must not be polled again, because it would panic again.
    Panicked,
}

async fn catch_panic<T>(receiving: impl Future<Output = Result<T, AccessError>>) -> PolledOutcome {
    match AssertUnwindSafe(receiving).catch_unwind().await {
        Ok(Ok(_)) => PolledOutcome::Stored,
        Ok(Err(error)) => PolledOutcome::Failed(error),
        Err(_panic) => PolledOutcome::Panicked,
    }
}

#[cfg(test)]
mod tests {
    use super::{PolledOutcome, catch_panic};
    use crate::state::access::AccessError;

    #[tokio::test]
    async fn a_message_that_makes_its_handler_panic_does_not_come_again() {
        assert_eq!(catch_panic(async { Ok(()) }).await, PolledOutcome::Stored);
        let unknown = AccessError::Unknown("alice".into());
        let refused = Err::<(), _>(unknown.clone());
        assert_eq!(
            catch_panic(async { refused }).await,
            PolledOutcome::Failed(unknown.clone())
        );
        let receiving = async {
            assert_eq!(unknown.to_string(), "", "a defect");
            Ok(())
        };
        assert_eq!(catch_panic(receiving).await, PolledOutcome::Panicked);
    }
}
