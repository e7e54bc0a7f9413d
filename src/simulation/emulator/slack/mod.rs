//! A Slack workspace on loopback: the Web API that a bot calls, and users who write messages, press buttons and type
//! commands. Their events are signed and sent like Slack's.

mod api;
mod app_home;
mod check;
mod code_channels;
mod history;
mod manifest;
mod mentions;
mod people;
mod response;
mod sent_files;
mod server;
mod sessions;
mod socket_server;
mod sockets;
mod state;
mod streams;
mod views;

pub use app_home::{HomeTab, PublishedHome};
pub use code_channels::{CodeChannel, DiffView};
pub use mentions::{Mention, task_lines};
pub use people::{EventOrder, GatewayResponse, Retry, SayError, SentMessage, UnsentMessage};
pub use sessions::AgentSession;
pub use sockets::{SocketClosing, SocketModeState};
pub use state::{SharedFile, ShownButton, SlackCall, SlackFault, SlackMessage, SlackState};
pub use streams::SlackStream;
pub use views::OpenView;

use crate::simulation::emulator::RequestedWait;
use crate::simulation::emulator::lasting_fault::LastingFault;
use crate::simulation::emulator::traffic::{SentRequest, Traffic};
use crate::simulation::emulator::watched_state::WatchedState;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The longest wait of [`SlackEmulator::wait_until`].
const WAIT_TIME_MAX: Duration = Duration::from_secs(10);

/// The scopes of a bot with all scopes that the README names.
const SCOPES: [&str; 10] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "reactions:write",
];

/// The options of the workspace.
#[derive(Clone)]
pub struct SlackOptions {
    /// The id: `T0ACME`.
    pub team: String,
    /// The bot's user id: `U0DRYDOCK`.
    pub bot_user: String,
    /// The bot's name: `drydock`.
    pub bot_name: String,
    /// The only token that the Web API accepts.
    pub bot_token: String,
    /// The secret that signs events.
    pub signing_secret: String,
    /// The limits on calls.
    pub rate_limits: RateLimits,
    /// The clock of signatures and rate limits.
    pub at: fn() -> Timestamp,
    /// The HTTP client for sending events.
    pub http: reqwest::Client,
}

/// The limits on calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimits {
    /// Any number of calls.
    Off,
    /// Slack's tiers; a call over the limit is answered with 429 and `Retry-After`.
    Slack,
}

/// A running workspace. Stops when dropped.
pub struct SlackEmulator {
    shared: Arc<SharedSlack>,
    server: JoinHandle<()>,
}

struct SharedSlack {
    options: SlackOptions,
    base_url: String,
    state: WatchedState<SlackState>,
    traffic: Traffic,
    /// The gateway's address and the order of the two events of a mention.
    gateway: Mutex<(Option<String>, EventOrder)>,
    /// Ends the sockets.
    stopped: CancellationToken,
}

impl SharedSlack {
    /// Changes the state and notifies the waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut SlackState) -> T) -> T {
        self.state.change(change)
    }

    /// Waits until `look` returns a value; `None` if it does not in time.
    async fn wait_for<T>(&self, time_max: Duration, look: impl Fn(&SlackState) -> Option<T>) -> Option<T> {
        self.state.wait_until(time_max, look).await
    }

    fn take_fault(&self, method: &str) -> Option<SlackFault> {
        self.change(|state| {
            let next = state.faults.get_mut(method).and_then(|faults| faults.pop_front());
            next.or_else(|| {
                let mut lasting = state.lasting_faults.iter_mut();
                lasting.find_map(|lasting| lasting.next_fault(method))
            })
        })
    }
}

impl SlackEmulator {
    /// Starts a workspace on a free loopback port.
    pub async fn start(options: SlackOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let mut state = SlackState::default();
        state.users.insert(options.bot_user.clone(), options.team.clone());
        state.scopes.extend(SCOPES);
        let shared = Arc::new(SharedSlack {
            options,
            base_url,
            state: WatchedState::new(state),
            traffic: Traffic::default(),
            gateway: Mutex::new((None, EventOrder::MentionFirst)),
            stopped: CancellationToken::new(),
        });
        let server = tokio::spawn(server::accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, server })
    }

    /// Returns the value for `api_base_url`.
    pub fn api_base_url(&self) -> String {
        format!("{}/api", self.shared.base_url)
    }

    /// Sets the address for events: `http://127.0.0.1:7700/in/slack`.
    pub fn connect_to(&self, url: &str) {
        let mut gateway = self.shared.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        gateway.0 = Some(url.to_owned());
    }

    /// Sets which of the two events of a mention is sent first.
    pub fn send_first(&self, order: EventOrder) {
        let mut gateway = self.shared.gateway.lock().unwrap_or_else(PoisonError::into_inner);
        gateway.1 = order;
    }

    /// Adds a user of this workspace.
    pub fn add_user(&self, user: &str) {
        self.add_user_of(user, &self.shared.options.team.clone());
    }

    /// Adds a user of another workspace, as in a shared channel.
    pub fn add_user_of(&self, user: &str, team: &str) {
        self.shared
            .change(|state| state.users.insert(user.to_owned(), team.to_owned()));
    }

    /// Adds a channel with these users and the bot.
    pub fn add_channel(&self, channel: &str, users: &[&str]) {
        self.add_channel_without_bot(channel, users);
        let bot = self.shared.options.bot_user.clone();
        self.shared
            .change(|state| state.channels.entry(channel.to_owned()).or_default().insert(bot));
    }

    /// Adds a channel without the bot.
    pub fn add_channel_without_bot(&self, channel: &str, users: &[&str]) {
        let members = users.iter().map(|user| (*user).to_owned()).collect();
        self.shared
            .change(|state| state.channels.insert(channel.to_owned(), members));
    }

    /// Shows a time in the answers from now on, like a server whose clock differs from that of this machine.
    pub fn show_date(&self, date: Timestamp) {
        self.shared.change(|state| state.date = Some(date));
    }

    /// Hides the token's scopes, like a proxy that drops headers.
    pub fn hide_scopes(&self) {
        self.shared.change(|state| state.are_scopes_hidden = true);
    }

    /// Refuses messages with a block of this type from now on, like a workspace that does not know it yet.
    pub fn forget_block(&self, kind: &'static str) {
        self.shared.change(|state| state.unknown_blocks.insert(kind));
    }

    /// Does not know a method from now on, like a workspace that does not have it yet.
    pub fn forget_method(&self, method: &'static str) {
        self.shared.change(|state| state.unknown_methods.insert(method));
    }

    /// Sends no event of this type from now on, like a workspace where the app does not subscribe to it.
    pub fn unsubscribe(&self, event: &str) {
        self.shared
            .change(|state| state.unsubscribed.insert(event.to_owned()));
    }

    /// Gives the bot another scope.
    pub fn grant(&self, scope: &'static str) {
        self.shared.change(|state| state.scopes.insert(scope));
    }

    /// Removes a scope from the bot.
    pub fn withdraw(&self, scope: &str) {
        self.shared.change(|state| state.scopes.remove(scope));
    }

    /// Makes the next `count` calls of a method fail.
    pub fn fail_next(&self, method: &str, count: usize, fault: SlackFault) {
        self.shared.change(|state| {
            let faults = state.faults.entry(method.to_owned()).or_default();
            faults.extend(std::iter::repeat_n(fault, count));
        });
    }

    /// Makes all calls of a method fail until [`SlackEmulator::recover`]; of every method if `method` is empty.
    pub fn fail_all(&self, method: &str, fault: SlackFault) {
        let lasting = LastingFault::always(method, fault);
        self.shared.change(|state| state.lasting_faults.push(lasting));
    }

    /// Makes a number of a thousand calls of a method fail until [`SlackEmulator::recover`]; the same seed affects
    /// the same calls.
    pub fn fail_some(&self, method: &str, fault: SlackFault, of_thousand: u64, seed: u64) {
        let lasting = LastingFault::sometimes(method, fault, of_thousand, seed);
        self.shared.change(|state| state.lasting_faults.push(lasting));
    }

    /// Ends the failures of a method.
    pub fn recover(&self, method: &str) {
        self.shared.change(|state| {
            state.faults.remove(method);
            state.lasting_faults.retain(|lasting| !lasting.applies_to(method));
        });
    }

    /// Rejects the token until [`SlackEmulator::restore_token`]: every call is refused with this code, such as
    /// `token_revoked`.
    pub fn refuse_token(&self, code: &str) {
        self.shared
            .change(|state| state.token_refusal = Some(code.to_owned()));
    }

    /// Accepts the token again.
    pub fn restore_token(&self) {
        self.shared.change(|state| state.token_refusal = None);
    }

    /// Returns a value from the workspace's state.
    pub fn with_state<T>(&self, look: impl FnOnce(&SlackState) -> T) -> T {
        self.shared.state.read(look)
    }

    /// Records requests from now on.
    pub fn record_traffic(&self) {
        self.shared.traffic.start();
    }

    /// Returns the recorded requests, oldest first.
    pub fn traffic(&self) -> Vec<SentRequest> {
        self.shared.traffic.received()
    }

    /// Returns the waits that calls were answered with, oldest first.
    pub fn requested_waits(&self) -> Vec<RequestedWait> {
        self.with_state(|state| state.waits.all().to_vec())
    }

    /// Returns all problems of the requests so far.
    pub fn problems(&self) -> Vec<String> {
        self.with_state(|state| state.problems.clone())
    }

    /// Waits until `look` returns a value; `None` if it does not within 10 s.
    pub async fn wait_until<T>(&self, look: impl Fn(&SlackState) -> Option<T>) -> Option<T> {
        self.shared.wait_for(WAIT_TIME_MAX, look).await
    }
}

impl Drop for SlackEmulator {
    fn drop(&mut self) {
        self.server.abort();
        self.shared.stopped.cancel();
    }
}

#[cfg(test)]
mod tests;
