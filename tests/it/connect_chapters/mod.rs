//! The chapters of docs/connect.md about Slack and Telegram, done step by step: the commands, the configuration and the
//! messages come from the document. Discord has `discord_is_connected_as_the_documents_say`.

mod chapter;
mod slack;
mod telegram;
mod walk;

use chapter::{StepPart, steps};
use slack::VisitedSlack;
use telegram::VisitedTelegram;
use walk::walk;

const SOCKET: &str = "### Slack without a public address";
const ADDRESS: &str = "### Slack with a public address";
const POLLING: &str = "### Telegram without a public address";
const WEBHOOK: &str = "### Telegram with a public address";

async fn do_steps(heading: &str, steps: &[Vec<StepPart>]) -> Result<(), String> {
    match heading {
        SOCKET | ADDRESS => Box::pin(walk(&mut VisitedSlack::new().await, steps)).await,
        _ => Box::pin(walk(&mut VisitedTelegram::new().await, steps)).await,
    }
}

/// Does all steps of a chapter, and then all but one. Without any one of them, something must be missing.
async fn do_chapter(heading: &str) {
    if let Err(why) = do_steps(heading, &steps(heading)).await {
        panic!("{heading}: {why}");
    }
    for left_out in 0..steps(heading).len() {
        let mut fewer = steps(heading);
        fewer.remove(left_out);
        let done = do_steps(heading, &fewer).await;
        assert!(done.is_err(), "{heading}: nobody needs step {}", left_out + 1);
    }
}

/// STK-9, STK-26
#[tokio::test(flavor = "multi_thread")]
async fn slack_is_connected_over_sockets_as_the_documents_say() {
    do_chapter(SOCKET).await;
}

/// STK-9, STK-26
#[tokio::test(flavor = "multi_thread")]
async fn slack_is_connected_to_a_public_address_as_the_documents_say() {
    do_chapter(ADDRESS).await;
}

/// STK-25, STK-26
#[tokio::test(flavor = "multi_thread")]
async fn telegram_is_polled_as_the_documents_say() {
    do_chapter(POLLING).await;
}

/// STK-23, STK-25, STK-26
#[tokio::test(flavor = "multi_thread")]
async fn telegram_is_connected_to_a_public_address_as_the_documents_say() {
    do_chapter(WEBHOOK).await;
}
