//! Interactive input after the demo script: the visitor's words go to Slack as Alice's, and the answer is shown.

use super::demo_script::{ALICE, slack_text};
use super::environment::{DemoEnvironment, SLACK_CHANNEL};
use super::scripted_model;
use std::time::Duration;

/// The longest time an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The possible beginnings of a turn's status card.
const STATUS_CARD_PREFIXES: [&str; 4] = ["Queued", "Working", "Waiting for your answer", "Done in"];

/// Returns the text that a visitor sees first.
pub fn greeting() -> String {
    let known: Vec<String> = scripted_model::known_requests()
        .map(|example| format!("  {example}"))
        .collect();
    format!(
        "Now you are Alice in #platform. The demo model knows these requests:\n{}\nA command such as !diff works, too. An empty line or Ctrl-D ends the demo.",
        known.join("\n")
    )
}

/// Sends a line in a thread (a new one if there is none) and returns the answer and the thread.
pub async fn ask(
    environment: &DemoEnvironment,
    thread: Option<&str>,
    line: &str,
) -> anyhow::Result<(String, String)> {
    let seen = |thread: &str| {
        environment
            .slack
            .with_state(|state| state.replies(SLACK_CHANNEL, thread).count())
    };
    let (thread, before) = match thread {
        Some(thread) => {
            let before = seen(thread);
            environment
                .slack
                .reply_in_thread(ALICE, SLACK_CHANNEL, thread, line)
                .await?;
            (thread.to_owned(), before + 1)
        }
        None => (
            environment
                .slack
                .say(ALICE, SLACK_CHANNEL, &format!("@drydock {line}"))
                .await?
                .ts,
            0,
        ),
    };
    let answer = environment.slack.wait_until(|state| {
        let news = state
            .replies(SLACK_CHANNEL, &thread)
            .skip(before)
            .filter(|message| !message.request.is_null());
        let is_card = |text: &String| {
            STATUS_CARD_PREFIXES
                .iter()
                .any(|word| text.trim_start_matches('*').starts_with(word))
        };
        news.map(slack_text).find(|text| !is_card(text))
    });
    let answer = tokio::time::timeout(ANSWER_MAX, answer).await.ok().flatten();
    Ok((thread, answer.unwrap_or_else(|| "(no answer in time)".to_owned())))
}
