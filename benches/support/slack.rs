//! The parts of Slack that the load needs: signed events, and a Web API that is as slow as the real one and uses almost
//! no CPU.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const BOT_TOKEN: &str = "xoxb-110022003300-bench-bot-token";
pub(crate) const SIGNING_SECRET: &str = "5f0d1c9a7be24c6f8a1b3d5e7f901234";
pub(crate) const TEAM: &str = "T0ACME";
pub(crate) const BOT: &str = "U0DRYDOCK";
pub(crate) const PERSON: &str = "U0ALICE";
/// The duration of a call of the Web API, except `auth.test`.
const CALL_TIME: Duration = Duration::from_millis(150);

/// Serves a Web API on which every call succeeds, until the runtime ends.
pub(crate) async fn slow_web_api() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_calls(stream));
        }
    });
    address
}

async fn answer_calls(mut stream: TcpStream) {
    let mut number = 0_u64;
    while let Some(request) = read_request(&mut stream).await {
        let body = if request.contains("auth.test") {
            format!(r#"{{"ok":true,"team_id":"{TEAM}","user_id":"{BOT}","user":"drydock"}}"#)
        } else {
            tokio::time::sleep(CALL_TIME).await;
            number += 1;
            format!(r#"{{"ok":true,"channel":"C0BENCH","ts":"1795293600.{number:06}"}}"#)
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a request with its whole body, and returns its first line.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::with_capacity(4_096);
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())
            .unwrap_or(0);
        while bytes.len() < end + 4 + length {
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
        return head.lines().next().map(str::to_owned);
    }
}

/// Returns an HTTP request with a message of an admitted person that starts a new conversation.
pub(crate) fn mention(number: u64, at: jiff::Timestamp) -> Vec<u8> {
    let ts = format!("1795300000.{number:06}");
    let text = format!(
        "<@{BOT}> set web to {} replicas in dev, request {number}",
        number % 9 + 1
    );
    event(
        number,
        at,
        &format!(
            r#"{{"type":"app_mention","user":"{PERSON}","team":"{TEAM}","channel":"C0BENCH","ts":"{ts}","event_ts":"{ts}","client_msg_id":"client-{number:08}","text":"{text}"}}"#
        ),
    )
}

/// Returns an HTTP request with a direct message.
pub(crate) fn direct(number: u64, at: jiff::Timestamp, text: &str) -> Vec<u8> {
    let ts = format!("1795300000.{number:06}");
    event(
        number,
        at,
        &format!(
            r#"{{"type":"message","channel_type":"im","user":"{PERSON}","team":"{TEAM}","channel":"D{PERSON}","ts":"{ts}","event_ts":"{ts}","client_msg_id":"client-{number:08}","text":"{text}"}}"#
        ),
    )
}

fn event(number: u64, at: jiff::Timestamp, event: &str) -> Vec<u8> {
    let seconds = at.as_second().to_string();
    let body = format!(
        r#"{{"type":"event_callback","token":"deprecated","team_id":"{TEAM}","context_team_id":"{TEAM}","api_app_id":"A0DRYDOCK","event":{event},"event_id":"Ev{number:08}","event_time":{seconds},"authorizations":[{{"enterprise_id":null,"team_id":"{TEAM}","user_id":"{BOT}","is_bot":true}}]}}"#
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(SIGNING_SECRET.as_bytes()).unwrap();
    mac.update(format!("v0:{seconds}:{body}").as_bytes());
    let digest = mac.finalize().into_bytes();
    let signature: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "POST /in/slack HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
         x-slack-request-timestamp: {seconds}\r\nx-slack-signature: v0={signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
