//! The server side of sockets: the handshake, the frames of Slack, and the acknowledgements of the app.

use super::SharedSlack;
use super::sockets::SocketOrder;
use crate::simulation::emulator::answer::answer;
use crate::simulation::emulator::web_socket::{
    EmulatorSocket, handshake_key, switching_answer, upgraded_socket,
};
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use http::header;
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::protocol::Message;

/// The time between the announcement of a close and the close.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Answers a handshake. The ticket in the address works once.
pub(super) async fn open_socket(State(shared): State<Arc<SharedSlack>>, mut request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let mut parameters = form_urlencoded::parse(query);
    let ticket = parameters.find(|(name, _)| name == "ticket");
    let ticket = ticket.map(|(_, ticket)| ticket.into_owned()).unwrap_or_default();
    let Some(key) = handshake_key(request.headers()) else {
        return answer(400, "no handshake of a WebSocket".into());
    };
    let at = (shared.options.at)();
    let is_valid = shared.change(|state| {
        if request.headers().contains_key(header::AUTHORIZATION) {
            state
                .problems
                .push("a token beside the address of a socket".to_owned());
        }
        state.socket_mode.redeem(&ticket, at)
    });
    if !is_valid {
        return answer(403, "the ticket is not valid".into());
    }
    let stopped = shared.stopped.clone();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move { stopped.run_until_cancelled(run(shared, upgrade)).await });
    switching_answer(&key)
}

async fn run(shared: Arc<SharedSlack>, upgrade: OnUpgrade) {
    let Some(mut socket) = upgraded_socket(upgrade).await else {
        return;
    };
    let refusal = shared.change(|state| state.socket_mode.refusal());
    if let Some(reason) = refusal {
        let _lost = send(&mut socket, &json!({"type": "disconnect", "reason": reason})).await;
        let _lost = socket.close(None).await;
        return;
    }
    let count = shared.change(|state| state.socket_mode.open_sockets()) + 1;
    let hello = json!({"type": "hello", "num_connections": count, "connection_info": {"app_id": "A0DRYDOCK"},
        "debug_info": {"host": "wss-111.slack.com", "approximate_connection_time": 18_060}});
    if send(&mut socket, &hello).await.is_err() {
        return;
    }
    let (number, orders) = shared.change(|state| state.socket_mode.add_socket());
    converse(&shared, &mut socket, number, orders).await;
    shared.change(|state| state.socket_mode.remove_socket(number));
}

/// Serves a socket until one side closes it.
async fn converse(
    shared: &SharedSlack,
    socket: &mut EmulatorSocket,
    number: u64,
    mut orders: mpsc::Receiver<SocketOrder>,
) {
    let leaving = tokio::time::sleep(LEAVE_TIME_MAX);
    tokio::pin!(leaving);
    let mut is_leaving = false;
    loop {
        let done = tokio::select! {
            order = orders.recv() => match order {
                Some(SocketOrder::Frame(frame)) => {
                    if frame["type"] == "disconnect" {
                        is_leaving = true;
                        leaving.as_mut().reset(tokio::time::Instant::now() + LEAVE_TIME_MAX);
                    }
                    send(socket, &frame).await.is_err()
                }
                Some(SocketOrder::Close) => {
                    let _lost = socket.close(None).await;
                    true
                }
                Some(SocketOrder::Drop) | None => true,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    shared.change(|state| {
                        let mistake = state.socket_mode.acknowledge(number, &text);
                        state.problems.extend(mistake);
                    });
                    false
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => false,
                Some(Ok(Message::Close(_)) | Err(_)) | None => true,
            },
            () = &mut leaving, if is_leaving => {
                let _lost = socket.close(None).await;
                true
            }
        };
        if done {
            return;
        }
    }
}

async fn send(
    socket: &mut EmulatorSocket,
    frame: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::error::Error> {
    socket.send(Message::text(frame.to_string())).await
}
