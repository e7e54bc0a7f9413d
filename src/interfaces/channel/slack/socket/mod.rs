//! Socket Mode: Slack sends events over sockets that Drydock opens, so Slack does not need to reach Drydock. Slack closes
//! each socket after some hours and announces it; the next one is open before, so that no event waits. See
//! <https://docs.slack.dev/apis/events-api/using-socket-mode>.

mod absence;
mod connection;
mod envelope;
mod frame;
mod session;
#[cfg(test)]
mod tests;

pub(super) use absence::SocketAbsence;
pub(super) use connection::SocketOpener;

use super::webhook::SlackInstallation;
use crate::interfaces::channel::backoff::Backoff;
use crate::interfaces::channel::{PolledInbound, SendError};
use connection::SlackSocket;
use envelope::EnvelopeDecoder;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use reqwest::Upgraded;
use session::{LINGER_MAX, Session, SessionEnd, SessionEvent};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The number of sockets, those that are about to be closed included. Slack allows ten for all programs of an app.
const SOCKETS_MAX: usize = 4;
/// The time after which an open socket counts as a connection. One that Slack closes at once does not.
const OPEN_TIME_MIN: Duration = Duration::from_secs(10);

/// Receives over sockets until `cancel`, or until the receiver is gone.
pub(super) async fn poll(
    name: &str,
    installed: SlackInstallation,
    (opener, absence): (&SocketOpener, &SocketAbsence),
    inbox: &mpsc::Sender<PolledInbound>,
    now: fn() -> Timestamp,
    cancel: &CancellationToken,
) {
    let receiver = SocketReceiver {
        name,
        opener,
        absence,
        now,
        decoder: EnvelopeDecoder { installed, now },
        inbox,
    };
    let backoff = Backoff::new(now);
    cancel.run_until_cancelled(Box::pin(receiver.run(backoff))).await;
}

struct SocketReceiver<'a> {
    name: &'a str,
    opener: &'a SocketOpener,
    absence: &'a SocketAbsence,
    now: fn() -> Timestamp,
    decoder: EnvelopeDecoder,
    inbox: &'a mpsc::Sender<PolledInbound>,
}

impl SocketReceiver<'_> {
    async fn run(&self, mut backoff: Backoff) {
        let mut sockets = FuturesUnordered::new();
        // At most one.
        let mut opening = FuturesUnordered::new();
        opening.push(self.open_after(Duration::ZERO));
        let (mut newest, mut replaced) = (0, CancellationToken::new());
        let mut useful_at = None;
        loop {
            if sockets.is_empty() {
                self.absence.begin((self.now)());
                useful_at = None;
            }
            tokio::select! {
                Some(opened) = opening.next() => match opened {
                    Ok(socket) => {
                        std::mem::take(&mut replaced).cancel();
                        newest += 1;
                        useful_at = useful_at.or(Some(Instant::now() + OPEN_TIME_MIN));
                        tracing::info!(channel = self.name, "a socket to slack is open");
                        let session = Session::new(newest, socket, &self.decoder, self.inbox, replaced.clone());
                        sockets.push(next_event(session));
                    }
                    Err(error) => {
                        let wait = backoff.after(&error);
                        tracing::warn!(
                            channel = self.name, %error, "no socket to slack; trying again in {} s", wait.as_secs_f32()
                        );
                        opening.push(self.open_after(wait));
                    }
                },
                () = sleep_until(useful_at.unwrap_or_else(Instant::now)), if useful_at.is_some() => {
                    self.absence.end();
                    useful_at = None;
                }
                Some((session, event)) = sockets.next() => {
                    // An older socket has a successor.
                    let needs_another = session.number == newest && opening.is_empty();
                    if session.was_useful() {
                        backoff.reset();
                        self.absence.end();
                    }
                    match event {
                        SessionEvent::Ended(SessionEnd::Stopped) => return,
                        SessionEvent::Ended(end) if needs_another => {
                            let wait = wait_after(&mut backoff, end);
                            self.report(end, wait);
                            opening.push(self.open_after(wait));
                        }
                        SessionEvent::Ended(_) => {}
                        SessionEvent::RefreshWanted => {
                            sockets.push(next_event(session));
                            if needs_another {
                                let has_room = sockets.len() < SOCKETS_MAX;
                                let wait = if has_room { Duration::ZERO } else { LINGER_MAX };
                                opening.push(self.open_after(wait));
                            }
                        }
                    }
                }
            }
        }
    }

    async fn open_after(&self, wait: Duration) -> Result<SlackSocket, SendError> {
        tokio::time::sleep(wait).await;
        self.opener.open().await
    }

    fn report(&self, end: SessionEnd, wait: Duration) {
        let (channel, seconds) = (self.name, wait.as_secs_f32());
        let why = match end {
            SessionEnd::Announced(reason) => {
                let why = self.opener.described(reason);
                tracing::error!(
                    channel,
                    "the socket to slack is closed: {why}; trying again in {seconds} s"
                );
                return;
            }
            SessionEnd::Closed | SessionEnd::Replaced | SessionEnd::Stopped => "slack closed it",
            SessionEnd::Lost => "the connection was lost",
            SessionEnd::Silent => "nothing arrived for too long",
            SessionEnd::TooLong => "a frame was too long",
        };
        tracing::warn!(
            channel,
            "the socket to slack is closed: {why}; opening another in {seconds} s"
        );
    }
}

/// Waits for the next event of a socket.
async fn next_event(mut session: Session<'_, Upgraded>) -> (Session<'_, Upgraded>, SessionEvent) {
    let event = session.next().await;
    (session, event)
}

/// Returns the wait after a socket was closed. An announced end has a reason that lasts.
fn wait_after(backoff: &mut Backoff, end: SessionEnd) -> Duration {
    match end {
        SessionEnd::Announced(_) => backoff.next_wait(),
        _ => backoff.after_close(),
    }
}
