//! The properties of Discord.

use super::{ChatProperties, ResponseUrlUse};
use std::time::Duration;

pub(super) const PROPERTIES: ChatProperties = ChatProperties {
    signature_header: "x-signature-ed25519",
    // Ids of people are the same everywhere on Discord, so the account is the application, as the bot is for Telegram.
    is_sender: |account, id| is_snowflake(account) && is_snowflake(id),
    sender_example: "discord:1100000000000000001:1200000000000000001",
    // Ids of all channels look the same.
    is_group: |_| false,
    // Only the answer to a command or a press can be shown to one person.
    has_ephemeral_notices: false,
    hides_notices_in_new_threads: false,
    drops_threads_of_commands: false,
    threads_have_owners: true,
    confirms_presses: false,
    shows_work: false,
    response_urls: ResponseUrlUse::Everywhere,
    thread_link: |_| None,
    command_form: "`/drydock word` in Discord",
    invite: |bot_name, token| match bot_name {
        Some(bot) => format!("send `join {token}` to {bot} in a direct message in Discord"),
        None => format!("Discord: send `join {token}` to the bot in a direct message"),
    },
    // Each chat has its own limit. All of them together share that of the account.
    card_edit_spacing: Duration::from_millis(100),
    // UTF-16 units, which are never fewer than the characters that Discord counts.
    message_chars_max: 2_000,
};

/// True if the text is an id of Discord: a positive number of 64 bits.
fn is_snowflake(id: &str) -> bool {
    let number: Option<u64> = id.parse().ok();
    number.is_some_and(|number| number > 0 && number.to_string() == id)
}
