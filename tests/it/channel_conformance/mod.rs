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

/// Runs a scenario for each platform at the same time.
macro_rules! on_each_platform {
    ($scenario:ident) => {
        futures_util::future::join3(
            Box::pin($scenario::<super::slack::SlackChat>()),
            Box::pin($scenario::<super::telegram::TelegramChat>()),
            Box::pin($scenario::<super::discord::DiscordChat>()),
        )
        .await
    };
}
use on_each_platform;
