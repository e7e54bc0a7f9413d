//! Discord on loopback: the HTTP API and the gateway that an application uses, and people who write messages, press
//! buttons and type commands.

mod check;
mod form;
mod gateway;
mod history;
mod interactions;
mod modals;
mod people;
mod rates;
mod rest;
mod sent_files;
mod server;
mod shown;
mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use gateway::{GatewayClosing, GatewayState};
pub use modals::ShownModal;
pub use people::UnsentInteraction;
pub use shown::ShownContent;
pub use state::{DiscordFault, DiscordMessage, DiscordState};

use crate::simulation::emulator::traffic::{SentRequest, Traffic};
use crate::simulation::emulator::watched_state::WatchedState;
use jiff::Timestamp;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;
use state::EmulatedChannel;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The options of the emulator.
#[derive(Clone)]
pub struct DiscordOptions {
    /// The id of the application.
    pub application: u64,
    /// The id of its bot.
    pub bot: u64,
    /// The only token that the API accepts.
    pub bot_token: String,
    /// The server in which all channels are.
    pub guild: u64,
    /// The seed of the key that signs interactions.
    pub signing_seed: [u8; 32],
    /// The people who accept no direct messages.
    pub closed_to: BTreeSet<u64>,
    /// The clock of ids and tokens.
    pub at: fn() -> Timestamp,
    /// The HTTP client for signed interactions.
    pub http: reqwest::Client,
}

/// A running Discord. Stops when dropped.
pub struct DiscordEmulator {
    shared: Arc<SharedDiscord>,
    server: JoinHandle<()>,
}

struct SharedDiscord {
    options: DiscordOptions,
    address: String,
    state: WatchedState<DiscordState>,
    traffic: Traffic,
    stopped: CancellationToken,
}

impl SharedDiscord {
    /// Changes the state and notifies the waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut DiscordState) -> T) -> T {
        self.state.change(change)
    }

    fn gateway_url(&self) -> String {
        format!("ws://{}/gateway", self.address)
    }
}

impl DiscordEmulator {
    /// Starts on a free loopback port.
    pub async fn start(options: DiscordOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Arc::new(SharedDiscord {
            options,
            address: listener.local_addr()?.to_string(),
            state: WatchedState::default(),
            traffic: Traffic::default(),
            stopped: CancellationToken::new(),
        });
        let server = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, server })
    }

    /// Returns the attachment object of a file that a person sends, for [`DiscordEmulator::write`].
    pub fn attachment(&self, name: &str, content: &[u8]) -> Value {
        let base = self.api_base_url();
        let base = base.split("/api/").next().unwrap_or_default().to_owned();
        self.shared
            .change(|state| sent_files::store(state, &base, (name, content)))
    }

    /// Returns the value for `api_base_url`.
    pub fn api_base_url(&self) -> String {
        format!("http://{}/api/v10", self.shared.address)
    }

    /// Returns the public key of the application.
    pub fn public_key(&self) -> [u8; 32] {
        let key = Ed25519KeyPair::from_seed_unchecked(&self.shared.options.signing_seed);
        let mut bytes = [0; 32];
        if let Ok(key) = key {
            bytes.copy_from_slice(key.public_key().as_ref());
        }
        bytes
    }

    /// Records requests, frames and answers from now on.
    pub fn record_traffic(&self) {
        self.shared.traffic.start();
    }

    /// Returns the recorded requests, frames and answers, oldest first.
    pub fn traffic(&self) -> Vec<SentRequest> {
        self.shared.traffic.received()
    }

    /// Adds a channel of the server: 0 for text, 5 for announcements, 2 for voice.
    pub fn add_channel(&self, id: u64, kind: u64) {
        let channel = EmulatedChannel {
            kind,
            parent: None,
            person: None,
        };
        self.shared.change(|state| state.channels.insert(id, channel));
    }

    /// Adds a thread that a person began.
    pub fn add_thread(&self, id: u64, parent: u64) {
        let channel = EmulatedChannel {
            kind: 11,
            parent: Some(parent),
            person: None,
        };
        self.shared.change(|state| state.channels.insert(id, channel));
    }

    /// Removes the permission to read the history of channels.
    pub fn hide_history(&self) {
        self.shared.change(|state| state.is_history_hidden = true);
    }

    /// Removes the permission to see a channel. Lists of channels still show it.
    pub fn hide_channel(&self, id: u64) {
        self.shared.change(|state| state.hidden_channels.insert(id));
    }

    /// Refuses the token from now on, or accepts it again.
    pub fn refuse_token(&self) {
        self.shared.change(|state| state.is_token_refused = true);
    }

    /// Sets the address to which interactions are sent in place of the gateway.
    pub fn set_endpoint(&self, url: &str) {
        self.shared.change(|state| state.endpoint = Some(url.to_owned()));
    }

    /// Changes the gateway, such as the time between heartbeats.
    pub fn change_gateway(&self, change: impl FnOnce(&mut GatewayState)) {
        self.shared.change(|state| change(&mut state.gateway));
    }

    /// Ends all connections to the gateway.
    pub fn close_connections(&self, closing: GatewayClosing) {
        self.shared.change(|state| state.gateway.close(closing));
    }

    /// Ends all connections and sessions.
    pub fn forget_sessions(&self) {
        self.shared.change(|state| state.gateway.forget_sessions());
    }

    /// Makes the next `count` calls of a route fail, such as `POST channels/messages`.
    pub fn fail_next(&self, route: &str, count: usize, fault: &DiscordFault) {
        self.shared.change(|state| {
            let faults = state.faults.entry(route.to_owned()).or_default();
            faults.extend(std::iter::repeat_n(fault.clone(), count));
        });
    }

    /// Enforces rate limits from now on: those of routes, with their headers, and 50 calls a second in all.
    pub fn limit_rates(&self) {
        self.shared
            .change(|state| state.rates = Some(rates::CallRates::default()));
    }

    /// Returns the routes of the calls that exceeded a rate limit, oldest first.
    pub fn rate_violations(&self) -> Vec<String> {
        self.with_state(|state| {
            let rates = state.rates.as_ref();
            rates.map(|rates| rates.refused.clone()).unwrap_or_default()
        })
    }

    /// Reads the state.
    pub fn with_state<T>(&self, read: impl FnOnce(&DiscordState) -> T) -> T {
        self.shared.state.read(read)
    }

    /// Returns the mistakes that a correct application does not make.
    pub fn problems(&self) -> Vec<String> {
        self.with_state(|state| state.problems.clone())
    }

    /// Waits until the state shows something; `None` if it does not in time.
    pub async fn wait_until<T>(
        &self,
        bound: Duration,
        look: impl Fn(&DiscordState) -> Option<T>,
    ) -> Option<T> {
        self.shared.state.wait_until(bound, look).await
    }
}

impl Drop for DiscordEmulator {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
        self.server.abort();
    }
}
