//! Events of hooks, signed like those of GitHub and of generic senders.

use crate::program::{GENERIC_SECRET, HOOK_SECRET};
use crate::task::Task;
use crate::testbed::Testbed;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::Duration;

/// The longest time a sender waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The pause between two attempts of a sender.
const RESEND_AFTER: Duration = Duration::from_millis(150);
const ATTEMPTS_MAX: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookSender {
    Github,
    Generic,
}

/// An event that a sender delivers.
#[derive(Clone, Debug)]
pub(crate) struct HookEvent {
    pub(crate) sender: HookSender,
    /// The name of the hook in the configuration.
    pub(crate) hook: &'static str,
    /// The number, which names the delivery.
    pub(crate) number: u32,
    pub(crate) payload: Value,
}

impl HookEvent {
    /// Returns an event that requests a task.
    pub(crate) fn of_task(sender: HookSender, task: &Task) -> Self {
        Self {
            sender,
            hook: match sender {
                HookSender::Github => "release",
                HookSender::Generic => "signed",
            },
            number: task.id,
            payload: json!({"what": task.word(), "action": "published"}),
        }
    }

    /// Sends the event once. Returns the status, if there was an answer.
    pub(crate) async fn send(&self, world: &Testbed) -> Option<u16> {
        let body = self.payload.to_string();
        let headers = match self.sender {
            HookSender::Github => github_headers(self.number, &body),
            HookSender::Generic => generic_headers(self.number, &body),
        };
        let status = post(world, self.hook, &headers, body).await?;
        world.note(&format!("event {} of {}: {status}", self.number, self.hook));
        Some(status)
    }

    /// Sends the event until it is acknowledged, and then its other copies. Returns the number of refusals.
    pub(crate) async fn send_until_acknowledged(&self, world: &Testbed, copies: usize) -> usize {
        for refused in 0..ATTEMPTS_MAX {
            world.wait_until_up().await;
            match self.send(world).await {
                Some(200..=299) => {
                    for _ in 1..copies {
                        self.send(world).await;
                    }
                    return refused;
                }
                Some(503) | None => tokio::time::sleep(RESEND_AFTER).await,
                Some(status) => {
                    world.report_violation(format!("event {} was answered {status}", self.number));
                    return refused;
                }
            }
        }
        world.report_violation(format!("event {} of a hook was never accepted", self.number));
        ATTEMPTS_MAX
    }
}

/// Returns the headers of a delivery of GitHub.
fn github_headers(number: u32, body: &str) -> [(&'static str, String); 3] {
    [
        ("x-github-event", "release".to_owned()),
        ("x-github-delivery", delivery(number)),
        (
            "x-hub-signature-256",
            format!("sha256={}", signature(HOOK_SECRET, body.as_bytes())),
        ),
    ]
}

/// Returns the headers of a delivery of a generic sender.
fn generic_headers(number: u32, body: &str) -> [(&'static str, String); 3] {
    let id = delivery(number);
    let seconds = jiff::Timestamp::now().as_second().to_string();
    let signed = signature(GENERIC_SECRET, format!("{id}.{seconds}.{body}").as_bytes());
    [
        ("x-webhook-id", id),
        ("x-webhook-timestamp", seconds),
        ("x-webhook-signature", signed),
    ]
}

/// Returns the name of a delivery.
pub(crate) fn delivery(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// Sends a delivery to a hook. Returns the status, if there was an answer.
async fn post(world: &Testbed, hook: &str, headers: &[(&str, String)], body: String) -> Option<u16> {
    let client = drydock::base::http_client::api_client().ok()?;
    let address = world.launch().address;
    let mut request = client
        .post(format!("http://{address}/in/{hook}"))
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(body).send();
    let answer = tokio::time::timeout(ANSWER_MAX, request).await.ok()?.ok()?;
    let status = answer.status().as_u16();
    if (200..300).contains(&status) {
        world.count_acknowledged();
    }
    Some(status)
}

fn signature(secret: &str, message: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return String::new();
    };
    mac.update(message);
    mac.finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
