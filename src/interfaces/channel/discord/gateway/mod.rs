//! Receives events over the gateway. A session is resumed from the last event that the gateway of Drydock has accepted,
//! so no event is lost while the connection is. The position is stored, so a restart resumes as well. When Discord has ended
//! the session, the messages since then are read. The connection is our own and not that of twilight-gateway, which
//! resumes from the last event it has received, and which opens connections beside our HTTP client.

mod address;
mod catch_up;
mod connection;
mod end;
mod events;
mod identification;
mod missed;
mod position;
mod position_writer;
mod progress;
mod reading;

use super::DiscordChannel;
use super::inspection::ENABLE_INTENT;
use super::places::Places;
use crate::base::http_client::socket_client;
use crate::interfaces::channel::backoff::Backoff;
use crate::interfaces::channel::web_socket::ChannelSocket;
use crate::interfaces::channel::{PollMemory, PolledInbound, SendError};
use connection::Connection;
use end::ConnectionEnd;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use position::{GatewayPosition, GatewaySession, StoredPosition};
use position_writer::PositionWriter;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use twilight_model::gateway::CloseCode;

/// The number of failures after which a session is given up for a new one, as Discord recommends.
const RESUME_FAILURES_MAX: u32 = 4;
/// The wait after an error that only the operator can correct. Discord allows 1,000 new sessions a day.
const OPERATOR_WAIT: Duration = Duration::from_secs(300);

/// The responses to interactions that are under way. They outlive a connection.
type Responses<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

/// Receives until `cancel`, or until the receiver is gone.
pub(super) async fn poll(
    channel: &DiscordChannel,
    inbox: &mpsc::Sender<PolledInbound>,
    memory: &dyn PollMemory,
    now: fn() -> Timestamp,
    cancel: &CancellationToken,
) {
    let (positions, newest) = watch::channel(None);
    let mut writer = PositionWriter {
        channel: &channel.name,
        memory,
        positions: newest,
    };
    let receiver = GatewayReceiver {
        channel,
        places: Places::new(),
        inbox,
        memory,
        now,
        positions,
    };
    tokio::select! {
        _ = cancel.run_until_cancelled(Box::pin(receiver.run())) => {}
        () = writer.run() => {}
    }
    // A failure is in the log already.
    let _stored = writer.write().await;
}

/// The receiver of one channel, which outlives its connections.
struct GatewayReceiver<'a> {
    channel: &'a DiscordChannel,
    places: Places,
    inbox: &'a mpsc::Sender<PolledInbound>,
    memory: &'a dyn PollMemory,
    now: fn() -> Timestamp,
    /// The newest position, for the writer.
    positions: watch::Sender<Option<StoredPosition>>,
}

impl GatewayReceiver<'_> {
    async fn run(&self) {
        let mut position = self.stored_position().await;
        let mut responses: Responses<'_> = FuturesUnordered::new();
        let (mut backoff, mut wait) = (Backoff::new(self.now), Duration::ZERO);
        loop {
            let opened = self.open_after(wait, position.session());
            let socket = match meanwhile(&mut responses, opened).await {
                Ok(socket) => socket,
                Err(error) => {
                    // While the network is down, Discord can still resume.
                    let is_down = matches!(error, SendError::Unreachable(_) | SendError::NotSent { .. });
                    if backoff.failures() >= RESUME_FAILURES_MAX && !is_down {
                        position.end_session();
                    }
                    wait = backoff.after(&error);
                    if matches!(error, SendError::Unauthorised(_)) {
                        wait = wait.max(OPERATOR_WAIT);
                    }
                    let seconds = wait.as_secs_f32();
                    tracing::warn!(
                        channel = self.channel.name,
                        %error,
                        "no connection to the gateway of discord; trying again in {seconds} s"
                    );
                    continue;
                }
            };
            let mut connection = Connection::new(socket, self, position);
            let end = connection.run(&mut responses).await;
            if connection.was_useful() {
                backoff.reset();
            }
            position = connection.into_position();
            if !end.keeps_session() {
                position.end_session();
            }
            wait = match end {
                ConnectionEnd::Stopped => return,
                ConnectionEnd::Refused(_) => OPERATOR_WAIT,
                // The same event comes again at once.
                ConnectionEnd::Unaccepted => backoff.next_wait(),
                _ => backoff.after_close(),
            };
            self.report(&end, wait);
        }
    }

    /// Returns the position at which the previous process ended, once the store can be read.
    async fn stored_position(&self) -> GatewayPosition {
        let channel = self.channel.name.as_str();
        let mut backoff = Backoff::new(self.now);
        loop {
            let error = match self.memory.position().await {
                Ok(None) => return GatewayPosition::default(),
                Ok(Some(text)) => {
                    let read = GatewayPosition::read(&text, &self.channel.installation.bot_id);
                    if read.is_none() {
                        tracing::warn!(
                            channel,
                            "the stored position in the gateway of discord is that of another bot or version; messages \
                             that were sent before this start are not answered"
                        );
                    }
                    return read.unwrap_or_default();
                }
                Err(error) => error,
            };
            let wait = backoff.next_wait();
            let seconds = wait.as_secs_f32();
            tracing::warn!(channel, %error, "the position in the gateway of discord is not readable; trying again in {seconds} s");
            tokio::time::sleep(wait).await;
        }
    }

    async fn open_after(
        &self,
        wait: Duration,
        session: Option<&GatewaySession>,
    ) -> Result<ChannelSocket, SendError> {
        tokio::time::sleep(wait).await;
        let http = socket_client().map_err(|error| SendError::Unreachable(error.to_string()))?;
        address::open(&self.channel.api, &http, session).await
    }

    fn report(&self, end: &ConnectionEnd, wait: Duration) {
        let (channel, seconds) = (self.channel.name.as_str(), wait.as_secs_f32());
        let why = match end {
            ConnectionEnd::Refused(code) => {
                let fix = correction(*code, channel);
                tracing::error!(
                    channel,
                    "discord refuses the gateway connection ({code}): {fix}; trying again in {seconds} s"
                );
                return;
            }
            ConnectionEnd::Closed(code) => format!("discord closed it ({code})"),
            ConnectionEnd::Reconnect => "discord asked for a new one".to_owned(),
            ConnectionEnd::InvalidSession => "its session has ended".to_owned(),
            ConnectionEnd::Lost => "the connection was lost".to_owned(),
            ConnectionEnd::Silent => "a heartbeat was not answered".to_owned(),
            ConnectionEnd::Unaccepted => "an event was not stored, and is requested again".to_owned(),
            ConnectionEnd::Unreadable => "it sent what is not readable".to_owned(),
            ConnectionEnd::Stopped => return,
        };
        tracing::warn!(
            channel,
            "the connection to the gateway of discord is closed: {why}; opening another in {seconds} s"
        );
    }
}

/// Waits for a result, and for responses to interactions meanwhile.
async fn meanwhile<T>(responses: &mut Responses<'_>, result: impl Future<Output = T>) -> T {
    tokio::pin!(result);
    loop {
        tokio::select! {
            result = &mut result => return result,
            Some(()) = responses.next(), if !responses.is_empty() => {}
        }
    }
}

/// Returns what the operator can do about a close code.
fn correction(code: u16, channel: &str) -> String {
    match CloseCode::try_from(code) {
        Ok(CloseCode::AuthenticationFailed) => {
            format!(
                "set channels.{channel}.bot_token to the token under Bot of the application in the Developer Portal"
            )
        }
        Ok(CloseCode::InvalidIntents | CloseCode::DisallowedIntents) => ENABLE_INTENT.to_owned(),
        Ok(CloseCode::ShardingRequired) => "the bot is in too many servers for one connection".to_owned(),
        Ok(_) | Err(_) => "this version of Drydock does not fit the gateway of Discord".to_owned(),
    }
}
