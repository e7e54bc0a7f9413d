//! Slow clients, beside a normal one: they are disconnected at their deadlines, and delay no other client.

use crate::support::app::TestApp;
use drydock::simulation::emulator::model::{ModelRequest, says};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const ALICE: &str = "U0ALICE";
/// The number of addresses of the clients, with `EACH` connections from each.
const ADDRESSES: u8 = 4;
const EACH: usize = 40;
/// The time after which Slack delivers again.
const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(3);
/// The least number of messages that are sent while the clients are connected.
const MESSAGES_MIN: usize = 10;
/// The time after which a client gives up if it is not disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlowClient {
    /// A client that connects and sends nothing.
    Silent,
    /// A client that sends its headers byte by byte.
    DrippingHeaders,
    /// A client that sends its body byte by byte.
    DrippingBody,
    /// A client that announces a gigabyte.
    Large,
}

const CLIENTS: [SlowClient; 4] = [
    SlowClient::Silent,
    SlowClient::DrippingHeaders,
    SlowClient::DrippingBody,
    SlowClient::Large,
];

impl SlowClient {
    fn begins(self) -> &'static str {
        match self {
            Self::Silent => "",
            Self::DrippingHeaders => "POST /in/slack HTTP/1.1\r\nhost: d\r\nx-padding: ",
            Self::DrippingBody => "POST /in/slack HTTP/1.1\r\nhost: d\r\ncontent-length: 1000000\r\n\r\n",
            Self::Large => "POST /in/slack HTTP/1.1\r\nhost: d\r\ncontent-length: 1073741824\r\n\r\n",
        }
    }

    fn drips(self) -> bool {
        matches!(self, Self::DrippingHeaders | Self::DrippingBody)
    }
}

async fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0)))
        .unwrap();
    socket.connect(to).await.unwrap()
}

/// Keeps a connection open as long as possible. Returns the answer before the disconnect.
async fn stay(client: SlowClient, mut stream: TcpStream) -> (SlowClient, String) {
    stream.write_all(client.begins().as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let dripping = async {
        let mut drops = tokio::time::interval(Duration::from_millis(50));
        while client.drips() && write.write_all(b"a").await.is_ok() {
            drops.tick().await;
        }
        std::future::pending::<()>().await;
    };
    let mut answer = Vec::new();
    tokio::select! {
        // A reset connection was cut as well.
        _ = read.read_to_end(&mut answer) => {}
        () = dripping => {}
        () = tokio::time::sleep(PATIENCE) => panic!("{client:?} was never cut"),
    }
    (client, String::from_utf8_lossy(&answer).into_owned())
}

/// R22
#[tokio::test]
async fn slow_clients_are_cut_and_nobody_waits_for_them() {
    let settings = [
        ("server.header_seconds_max", "2"),
        ("server.body_seconds_max", "2"),
        ("server.idle_seconds_max", "2"),
    ];
    let app = TestApp::with_settings(|_: &ModelRequest| says("Here."), &settings).await;
    app.admit_slack_editor(ALICE).await;
    let to = app.demo.app.as_ref().unwrap().address;
    let mut clients = JoinSet::new();
    for from in 0..ADDRESSES {
        for client in CLIENTS.into_iter().cycle().take(EACH) {
            let stream = connect(2 + from, to).await;
            clients.spawn(stay(client, stream));
        }
    }
    let mut threads = Vec::new();
    let mut cut = Vec::new();
    while threads.len() < MESSAGES_MIN || !clients.is_empty() {
        let sent_at = Instant::now();
        let said = app.say(ALICE, "hello").await;
        assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
        assert!(
            sent_at.elapsed() < 2 * ACKNOWLEDGED_MAX,
            "{:?}",
            sent_at.elapsed()
        );
        threads.push(said.ts);
        // The next message follows after a client was disconnected, or soon.
        let next = tokio::time::timeout(Duration::from_millis(100), clients.join_next());
        cut.extend(next.await.ok().flatten().map(Result::unwrap));
        while let Some(client) = clients.try_join_next() {
            cut.push(client.unwrap());
        }
    }
    assert_eq!(cut.len(), usize::from(ADDRESSES) * EACH);
    for (client, answer) in &cut {
        let expected = match client {
            SlowClient::Silent | SlowClient::DrippingHeaders => "",
            SlowClient::DrippingBody => "HTTP/1.1 408 ",
            SlowClient::Large => "HTTP/1.1 413 ",
        };
        // Data in transit when the connection is cut may reset it, and then the answer is lost.
        let is_lost = client.drips() && answer.is_empty();
        assert!(answer.starts_with(expected) || is_lost, "{client:?}: {answer}");
    }
    for thread in &threads {
        app.wait_for_result(thread, 1).await;
        assert_eq!(app.results(thread).len(), 1);
    }
    assert_eq!(app.model_requests().len(), threads.len());
}
