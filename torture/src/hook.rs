//! Events of hooks, signed like those of GitHub and of generic senders.

use crate::program::HOOK_SECRET;
use crate::task::Task;
use crate::testbed::Testbed;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::time::Duration;

/// The longest time a sender waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookSender {
    Github,
    Generic,
}

/// Sends an event that requests a task, once. Returns the status, if there was an answer.
pub(crate) async fn send(world: &Testbed, sender: HookSender, task: &Task) -> Option<u16> {
    let body = serde_json::json!({"what": task.word(), "action": "published"}).to_string();
    let client = drydock::base::http_client::api_client().ok()?;
    let address = world.launch().address;
    let id = format!("00000000-0000-0000-0000-{:012}", task.id);
    let request = match sender {
        HookSender::Github => client
            .post(format!("http://{address}/in/release"))
            .header("x-github-event", "release")
            .header("x-github-delivery", id)
            .header(
                "x-hub-signature-256",
                format!("sha256={}", signature(body.as_bytes())),
            ),
        HookSender::Generic => {
            let seconds = jiff::Timestamp::now().as_second().to_string();
            let signed = format!("{id}.{seconds}.{body}");
            client
                .post(format!("http://{address}/in/signed"))
                .header("x-webhook-id", id)
                .header("x-webhook-timestamp", seconds)
                .header("x-webhook-signature", signature(signed.as_bytes()))
        }
    };
    let request = request
        .header("content-type", "application/json")
        .body(body)
        .send();
    let answer = tokio::time::timeout(ANSWER_MAX, request).await.ok()?.ok()?;
    let status = answer.status().as_u16();
    world.note(&format!("{sender:?} sends {}: {status}", task.word()));
    if (200..300).contains(&status) {
        world.count_acknowledged();
    }
    Some(status)
}

fn signature(message: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(HOOK_SECRET.as_bytes()) else {
        return String::new();
    };
    mac.update(message);
    mac.finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
