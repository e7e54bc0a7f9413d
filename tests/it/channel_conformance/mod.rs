//! One suite for all chat platforms: each scenario runs with the same body for Slack, Telegram and Discord, through
//! their emulators. A new channel implements [`chat::Chat`].

mod buttons;
mod changes;
mod chat;
mod discord;
mod exports;
mod failures;
mod hostile_text;
mod invites;
mod long_diffs;
mod outsiders;
mod slack;
mod stops;
mod surfaces;
mod telegram;
mod two_people;

/// Runs a scenario for each platform at the same time. Each has a thread of its own, because the checkers of what was sent
/// block it.
macro_rules! on_each_platform {
    ($scenario:ident) => {
        std::thread::scope(|threads| {
            threads.spawn(|| super::run($scenario::<super::slack::SlackChat>()));
            threads.spawn(|| super::run($scenario::<super::telegram::TelegramChat>()));
            threads.spawn(|| super::run($scenario::<super::discord::DiscordChat>()));
        })
    };
}
use on_each_platform;

fn run<F: Future>(scenario: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(Box::pin(scenario))
}
