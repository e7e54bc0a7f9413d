//! The properties of Telegram.

use super::{ChatProperties, ResponseUrlUse};
use std::time::Duration;

pub(super) const PROPERTIES: ChatProperties = ChatProperties {
    // The header with the secret token that was given to `setWebhook`.
    signature_header: "x-telegram-bot-api-secret-token",
    is_sender: |account, id| is_number(account) && is_number(id),
    sender_example: "telegram:42:4201",
    is_group: |chat| chat.starts_with('-'),
    has_ephemeral_notices: false,
    hides_notices_in_new_threads: false,
    drops_threads_of_commands: false,
    // A topic is a room for everybody.
    threads_have_owners: false,
    confirms_presses: false,
    shows_work: false,
    // Commands that only their sender and the bot see, for seconds.
    response_urls: ResponseUrlUse::Everywhere,
    thread_link: |place| {
        // Only a supergroup has links, by its id without the mark of such groups.
        let (chat, topic) = (place.chat.strip_prefix("-100")?, place.thread.as_ref()?);
        Some(format!("https://t.me/c/{chat}/{topic}"))
    },
    command_form: "`/word` in Telegram (`_` for `-`)",
    invite: |bot_name, token| match bot_name {
        Some(bot) => format!("https://t.me/{bot}?start={token}"),
        None => format!("Telegram: send `/start {token}` to the bot"),
    },
    // Each chat has its own limit. All of them together share that of the account.
    card_edit_spacing: Duration::from_millis(100),
    // UTF-16 units.
    message_chars_max: 4_096,
};

/// True if the text is a Telegram id of a person or bot, which is a positive number. Ids of groups are negative.
fn is_number(id: &str) -> bool {
    let number: Option<i64> = id.parse().ok();
    number.is_some_and(|number| number > 0 && number.to_string() == id)
}
