//! Connects a channel, again and again until it works, then keeps it attached to the engine.

use super::ingress::Routes;
use crate::channel::{self, Channel, Polled};
use crate::config::{ChannelSettings, ServerSettings};
use crate::gateway::Gateway;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Longest wait between two attempts to connect.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Polled messages on their way to the store.
const POLLED_MAX: usize = 64;

/// One channel on its way up.
pub(super) struct Connecting {
    pub(super) name: String,
    pub(super) settings: ChannelSettings,
    pub(super) server: ServerSettings,
    pub(super) client: reqwest::Client,
    pub(super) routes: Arc<Routes>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) now: fn() -> Timestamp,
    pub(super) cancel: CancellationToken,
}

/// The server's settings as channels see them, with the address it really listens on.
pub(super) fn server_settings(server: &ServerSettings, address: SocketAddr) -> ServerSettings {
    ServerSettings {
        listen: address,
        ..server.clone()
    }
}

impl Connecting {
    pub(super) async fn run(self) {
        let Some(channel) = self.connect().await else {
            return;
        };
        self.routes
            .connected(&self.name, &self.settings, channel.installation());
        info!(
            channel = self.name,
            account = channel.installation().account.id,
            "channel {} is connected",
            self.name
        );
        let (inbox, polled) = mpsc::channel(POLLED_MAX);
        tokio::join!(
            self.gateway
                .attach(&self.name, Arc::clone(&channel), self.cancel.clone()),
            channel.poll(inbox, self.cancel.clone()),
            self.take_in(polled),
        );
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

    /// Tells the platform that a message is ours only once it is durable.
    async fn take_in(&self, mut polled: mpsc::Receiver<Polled>) {
        while let Some(Polled { inbound, accepted }) = polled.recv().await {
            match self.gateway.receive(inbound, (self.now)()).await {
                Ok(_) => drop(accepted.send(())),
                Err(error) => warn!(%error, "a polled message could not be stored; it will be polled again"),
            }
        }
    }
}
