//! Messages to the service manager that started this server: that it is ready, that it still answers, and that it stops.
//! The protocol is that of `sd_notify`. Without `NOTIFY_SOCKET` nothing is sent and no task runs.

use crate::base::model::one_line;
use crate::base::system;
use crate::engine::admin::Admin;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The longest time for which a server that listens is not reported as ready. A platform that cannot be reached does not
/// become reachable by a restart, which is what a service manager does with a server that is never ready.
const READY_WAIT_MAX: Duration = Duration::from_secs(30);
const READY_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time that a message may wait for the service manager.
const SEND_TIME_MAX: Duration = Duration::from_secs(1);
/// The longest text about the state, in characters.
const STATE_CHARS_MAX: usize = 200;

/// The socket of the service manager.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Notifier {
    address: UnixAddress,
    /// The time within which the service manager expects a message; `None` if it expects none.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Returns the socket that the environment names; `None` if it names none.
    pub(in crate::cli) fn from_environment() -> Option<Self> {
        let name = variable("NOTIFY_SOCKET")?;
        let address = match name.as_bytes() {
            [b'@', name @ ..] => system::abstract_address(name),
            _ => UnixAddress::from_pathname(&name),
        };
        match address {
            Ok(address) => Some(Self {
                address,
                watchdog: watchdog(
                    variable("WATCHDOG_USEC"),
                    variable("WATCHDOG_PID"),
                    std::process::id(),
                ),
            }),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET names no usable socket; the service manager is not told anything");
                None
            }
        }
    }

    /// Reports that the server is ready, and then at regular intervals that it answers.
    pub(in crate::cli) async fn announce(self, address: SocketAddr, admin: Arc<Admin>) {
        let until = Instant::now() + READY_WAIT_MAX;
        while !admin.installations.waiting_for().is_empty() && Instant::now() < until {
            tokio::time::sleep(READY_INTERVAL).await;
        }
        self.send(&format!("READY=1\n{}", state(&admin)));
        let Some(expected) = self.watchdog else {
            return;
        };
        let (interval, answer_max) = request_times(expected);
        let mut ticks = tokio::time::interval(interval);
        loop {
            ticks.tick().await;
            match is_answering(address, answer_max).await {
                true => self.send(&format!("WATCHDOG=1\n{}", state(&admin))),
                false => tracing::error!("the server does not answer a request of its own"),
            }
        }
    }

    /// Reports that the server stops.
    pub(in crate::cli) fn announce_stop(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    fn send(&self, message: &str) {
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(SEND_TIME_MAX))?;
            socket.send_to_addr(message.as_bytes(), &self.address)
        });
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager could not be told about the state");
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the shell is where the environment is read"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the time within which a message is expected, if it is expected from this process.
fn watchdog(microseconds: Option<OsString>, process: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    let is_own = process.is_none_or(|process| number(process) == Some(u64::from(own)));
    let time = number(microseconds?).filter(|time| *time > 0)?;
    is_own.then(|| Duration::from_micros(time))
}

/// Returns the time between two requests, and the longest time of an answer. One request without an answer does not end the
/// server: that of the next one is reported before the expected time is over.
fn request_times(expected: Duration) -> (Duration, Duration) {
    ((expected / 3).max(Duration::from_millis(1)), expected / 4)
}

/// Returns the line that the service manager shows.
fn state(admin: &Admin) -> String {
    let waiting_for = admin.installations.waiting_for();
    let state = match waiting_for.is_empty() {
        true => "ready".to_owned(),
        false => format!("waiting: {}", waiting_for.join("; ")),
    };
    let state: String = one_line(&state).chars().take(STATE_CHARS_MAX).collect();
    format!("STATUS={state}")
}

/// Returns true if the server accepts a connection over its own listener and answers in time. Any answer counts, and the
/// end of the connection as well: a full table of connections refuses this one, and then everything works that a restart
/// could mend.
async fn is_answering(address: SocketAddr, time_max: Duration) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(reachable(address)).await?;
        let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let _ended = stream.write_all(request).await;
        let _ended = stream.read_u8().await;
        Ok::<(), std::io::Error>(())
    };
    matches!(tokio::time::timeout(time_max, asked).await, Ok(Ok(())))
}

/// Returns the address at which this machine reaches a listener.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let host = match listener.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        host => host,
    };
    SocketAddr::new(host, listener.port())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{is_answering, reachable, request_times, watchdog};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn the_watchdog_is_that_of_this_process() {
        let text = |text: &str| Some(text.into());
        let thirty = Some(Duration::from_secs(30));
        assert_eq!(watchdog(text("30000000"), None, 7), thirty);
        assert_eq!(watchdog(text("30000000"), text("7"), 7), thirty);
        assert_eq!(watchdog(text("30000000"), text("8"), 7), None);
        for wrong in ["0", "-1", "soon", ""] {
            assert_eq!(watchdog(text(wrong), None, 7), None, "{wrong}");
        }
        assert_eq!(watchdog(None, text("7"), 7), None);
    }

    #[test]
    fn one_request_without_an_answer_does_not_end_the_server() {
        for seconds in [1, 12, 60] {
            let expected = Duration::from_secs(seconds);
            let (interval, answer_max) = request_times(expected);
            // The first request has no answer, and the second one a late answer.
            assert!(interval * 2 + answer_max < expected, "{seconds}");
            assert!(answer_max < interval, "{seconds}");
        }
    }

    #[test]
    fn a_listener_of_every_address_is_asked_over_loopback() {
        for (listener, asked) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[tokio::test]
    async fn every_answer_counts_also_that_of_a_full_table_of_connections() {
        for answer in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 429 Too Many Requests\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP",
            "",
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let answering = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1_024];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            assert!(is_answering(address, Duration::from_secs(10)).await, "{answer}");
            answering.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_server_that_is_silent_or_does_not_listen_does_not_answer() {
        // The system takes the connection, and no server accepts it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(!is_answering(address, Duration::from_millis(50)).await);
        drop(listener);
        assert!(!is_answering(address, Duration::from_secs(10)).await);
    }
}
